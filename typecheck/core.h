/* core: the typed tree, what the checker hands to the evaluator.
 *
 * Every name is resolved, labels are gone (all parameters in their declared
 * order, an omitted optional argument is CORE_ABSENT), patterns are typed,
 * hidden arguments are explicit: element types, sizes and shapes that types
 * decide and running code needs are passed as values (CORE_TLAM, CORE_TAPP).
 * No search through values for a size ever happens when a program runs: where
 * only a value has it, the tree says which axis of which part (SizePath).
 *
 * Ownership: arena of the unit (a session's for definitions). */
#ifndef AXON_TYPECHECK_CORE_H
#define AXON_TYPECHECK_CORE_H

#include "primitives/primitives.h"
#include "runtime/runtime.h"
#include "size/dim.h"
#include "support/support.h"

typedef struct Core Core;
typedef struct CorePat CorePat;

/* A variable of the program, local or at top level; one address is one
 * binding.  `home` is the evaluator's. */
typedef struct Var {
  Sym *name;
  Span span;
  bool global;
  void *eval_global;
} Var;

/* An element type: a fixed one, or that of a hidden parameter. */
typedef struct ElemVar ElemVar;
typedef struct ElemRef {
  Dtype dtype; /* DT_NONE: see var */
  ElemVar *var;
} ElemRef;

/* What an element type that stays undetermined becomes: f32, or int where
 * integers were written. */
Dtype elem_default_dtype(const ElemVar *elem);

/* A shape as running code computes it.  Dims are resolved (dim_postfix). */
typedef enum CoreAxisKind {
  CORE_AXIS_DIM,
  CORE_AXIS_STAR,
  CORE_AXIS_SPLICE,
  CORE_AXIS_BROADCAST,
} CoreAxisKind;
typedef struct CoreAxis CoreAxis;
typedef struct CoreShape {
  CoreAxis *axes;
  uint32_t len;
} CoreShape;
struct CoreAxis {
  CoreAxisKind kind;
  Dim *dim;                  /* CORE_AXIS_DIM */
  ShapeVar *var;             /* CORE_AXIS_SPLICE: a hidden parameter */
  CoreShape *broadcast_args; /* CORE_AXIS_BROADCAST: of these */
  uint32_t broadcast_arg_count;
};

/* A hidden parameter or argument.  As a parameter exactly one of the vars is
 * set (elem.var, dim_var, shape_var); DimVars are compared by address. */
typedef enum ImplicitArgKind {
  IMPLICIT_ELEM,
  IMPLICIT_DIM,
  IMPLICIT_SHAPE
} ImplicitArgKind;
typedef struct ImplicitArg {
  ImplicitArgKind kind;
  ElemRef elem;        /* IMPLICIT_ELEM; the parameter is elem.var */
  DimVar *dim_var;     /* IMPLICIT_DIM, parameter */
  Dim *dim;            /* IMPLICIT_DIM, argument */
  ShapeVar *shape_var; /* IMPLICIT_SHAPE, parameter */
  CoreShape shape;     /* IMPLICIT_SHAPE, argument */
  bool unknown;        /* IMPLICIT_SHAPE, argument: nothing says what it is */
} ImplicitArg;

typedef enum CoreKind {
  CORE_NUM,    /* num (text, with sign) as an element of elem; is_float */
  CORE_BOOL,   /* flag */
  CORE_STRING, /* text, text_len */
  CORE_VAR,    /* var */
  CORE_PRIM,   /* prim as a function; for load, flag: the file must have shape
                  (a NULL dim: any size); elem: element type of its result where
                  that is a tensor; literal: string argument of einsum, permute,
                  format; arity: number of parameters */
  CORE_LAM,    /* params, items[0] the body */
  CORE_APP,    /* items[0] applied to items[1..]: maybe fewer than its arity
                  (partial), maybe more (the result is applied on).  Of && and
                  ||: flag: the right side is a tensor, so that both are run;
                  shape: that of the right side, where only it can tell */
  CORE_ABSENT, /* an omitted optional argument */
  CORE_LET,    /* var = items[0] in items[1] */
  CORE_LETREC, /* vars[k] = items[k] (CORE_LAMs, or a CORE_TLAM around one);
                  body items[var_count] */
  CORE_CASE,   /* items[0] matched by rules in order; no match is an error */
  CORE_IF,     /* items[0..2] */
  CORE_TUPLE,  /* items; () has none */
  CORE_RECORD, /* labels, items, in order of evaluation */
  CORE_FIELD,  /* label of items[0] */
  CORE_WITH,   /* items[0] with labels = items[1..] */
  CORE_CON,    /* con; applied to items[0] unless item_count == 0; a constructor
                  with an argument that is used as a function is a CORE_LAM */
  CORE_LIST,   /* items */
  CORE_CONS,   /* items[0] :: items[1] */
  CORE_TENSOR, /* [a, b, c]: stacks scalars or tensors along a new leading axis;
                  elem; empty if no items; splices[k]: item k is spliced in */
  CORE_SHAPE,  /* a shape value: items are ints, splices[k]: a shape; a NULL
                  item is a _ that could not be solved for yet */
  CORE_FOR,    /* params (the indices), ranges[k]: how many; items[0]: body */
  CORE_INDEX,  /* items[0] indexed by slices */
  CORE_SEQ,    /* items, the last is the value */
  CORE_DIM,    /* dim as an int; flag: the _ of a shape, which running code
                  solves for where it is not known */
  CORE_SHAPE_VALUE, /* shape as a shape value; flag: of what has no elements */
  CORE_ALL_AXES,    /* the axis argument `all` */
  CORE_CHECK,       /* checks, then items[0] */
  CORE_UNPACK,      /* items[0], whose sizes get names: binds */
  CORE_TLAM,  /* hidden parameters; items[0]; binds: where the parameters of
                 items[0] (a CORE_LAM) show what a caller may not know */
  CORE_TAPP,  /* items[0] at hidden arguments */
  CORE_ERROR, /* stands where checking failed: never run */
} CoreKind;

typedef struct CoreParam {
  Var *var;
  Core *default_value; /* value when the argument is CORE_ABSENT; may use the
                          earlier parameters; or NULL */
} CoreParam;

typedef struct CoreRange { /* of a for: exactly one is set */
  Core *expr;
  Dim *dim;
} CoreRange;

typedef enum CoreSliceKind {
  CS_AT,    /* from: an int, or a tensor of ints (a gather) */
  CS_RANGE, /* from, to: ints or NULL */
  CS_ELLIPSIS,
  CS_NEWAXIS,
  CS_STAR,
} CoreSliceKind;
typedef struct CoreSlice {
  CoreSliceKind kind;
  Span span;
  Core *from, *to;
  bool from_end, to_end; /* a literal -k: counts from the end */
} CoreSlice;

typedef struct Con { /* a constructor of a datatype */
  Sym *name;
  uint32_t tag;
  bool has_arg;
} Con;

typedef struct CoreRule {
  CorePat *pat;
  Core *body;
} CoreRule;

/* A condition that the checker left open: an error when it does not hold. */
typedef enum CheckKind { CHECK_EQ, CHECK_LE, CHECK_NE } CheckKind;
typedef struct CoreCondition {
  CheckKind kind;
  Dim *left, *right;
} CoreCondition;
typedef struct CoreCheck {
  CheckKind kind;
  Dim *left, *right;
  CoreCondition *conditions; /* it has to hold only where all of these do */
  uint32_t condition_count;
  const Diag *diag; /* the message it would have had when checked */
} CoreCheck;

/* From a value to a size in it: through tuples and records, then an axis. */
typedef struct SizePath {
  DimVar *var;
  struct SizePathStep {
    Sym *label;     /* a field, or NULL: */
    uint32_t index; /* a component of a tuple */
  } * steps;
  uint32_t step_count;
  bool is_value; /* the size is the (integer) value itself, not an axis; or the
                    item `axis` of a shape value */
  int axis;      /* negative: from the end */
  ShapeVar *shape_var; /* or, instead of var: the axes from `axis` on, but for
                          the last `after` */
  uint32_t axes_after;
  uint32_t param_index; /* CORE_TLAM: of which parameter */
} SizePath;

struct Core {
  CoreKind kind;
  Span span;
  ElemRef elem;
  const char *num;
  bool is_float, flag;
  const char *text;
  uint32_t text_len;
  Var *var;
  Var **vars;
  uint32_t var_count;
  PrimId prim;
  uint32_t arity;
  const char *literal;
  Core **items;
  uint32_t item_count;
  CoreParam *params;
  uint32_t param_count;
  CoreRange *ranges;
  CoreRule *rules;
  uint32_t rule_count;
  Sym **labels;
  Sym *label;
  uint32_t label_count;
  Con *con;
  bool *splices;
  CoreSlice *slices;
  uint32_t slice_count;
  Dim *dim;
  CoreShape shape;
  CoreCheck *checks;
  uint32_t check_count;
  SizePath *size_paths;
  uint32_t size_path_count;
  ImplicitArg *implicits;
  uint32_t implicit_count;
  Core
      *empty_result; /* CORE_FOR, CORE_APP of map and scan: what it makes (scan:
                        of its steps) when it runs over nothing; or NULL.  Its
                        sizes may be some that nobody knows: they are 0 */
  void *checker_data; /* private to the checker */
};

typedef enum CorePatKind {
  CP_WILD,
  CP_VAR,    /* var */
  CP_AS,     /* var, and args[0] */
  CP_NUM,    /* num at elem */
  CP_BOOL,   /* flag */
  CP_STRING, /* text */
  CP_CON,    /* con, args[0] if it has one */
  CP_TUPLE,  /* args */
  CP_RECORD, /* labels, args; other fields are ignored */
  CP_LIST,   /* args: a list of exactly these */
  CP_CONS,   /* args[0] :: args[1] */
  CP_SHAPE,  /* args: ints; arg `rest` (if >= 0) takes what is left */
} CorePatKind;

struct CorePat {
  CorePatKind kind;
  Span span;
  Var *var;
  const char *num;
  bool is_float, flag;
  ElemRef elem;
  const char *text;
  uint32_t text_len;
  Con *con;
  CorePat **args;
  uint32_t arg_count;
  Sym **labels;
  int rest;
};

/* What one declaration comes to. */
typedef enum CoreDecKind {
  CD_BIND, /* pat = expr; its variables are global */
  CD_FUNS, /* letrec: vars[k] = items[k], global */
  CD_EXPR, /* expr is run; its value is the result (the REPL prints it) */
} CoreDecKind;
typedef struct CoreDec {
  CoreDecKind kind;
  Span span;
  CorePat *pat;
  Core *expr;
  Var **vars;
  Core **items;
  uint32_t var_count;
} CoreDec;

/* As an s-expression, for tests and for `axon dump --stage=core`. */
void core_print(DimCtx *cx, Buffer *out, const CoreDec *dec);

#endif
