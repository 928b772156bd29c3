/* core: the typed tree that the checker hands to the evaluator.
 *
 * Names are resolved and patterns are typed.  Labels are gone: all parameters
 * are in declared order, and an omitted optional argument is CORE_ABSENT.
 * Implicit arguments are explicit: element types, sizes and shapes that types
 * determine and running code needs are passed as values (CORE_TLAM, CORE_TAPP).
 * A running program never searches values for a size: where only a value has
 * it, the tree names the axis and the part (SizePath).
 *
 * Ownership: the arena of the unit (a session's, for definitions). */
#ifndef AXON_TYPECHECK_CORE_H
#define AXON_TYPECHECK_CORE_H

#include "primitives/primitives.h"
#include "runtime/runtime.h"
#include "size/dim.h"
#include "support/span.h"

typedef struct Buffer Buffer;
typedef struct Core Core;
typedef struct CorePat CorePat;
typedef struct Diag Diag;
typedef struct Sym Sym;

/* A variable of the program, local or global.  Each address is one binding.
   The evaluator owns eval_global. */
typedef struct Var {
  Sym *name;
  Span span;
  bool global;
  void *eval_global;
  struct Core *value; /* of a `val` in a `let`; otherwise NULL */
} Var;

/* An element type: a fixed one, or that of an implicit parameter. */
typedef struct ElemVar ElemVar;
typedef struct ElemRef {
  Dtype dtype; /* DT_NONE: use var */
  ElemVar *var;
} ElemRef;

/* Default of an undetermined element type: f32, or int if it comes from integer
   literals. */
Dtype elem_default_dtype(const ElemVar *elem);

/* A shape that running code computes.  Dims are resolved (dim_postfix). */
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
  ShapeVar *var;             /* CORE_AXIS_SPLICE: an implicit parameter */
  CoreShape *broadcast_args; /* CORE_AXIS_BROADCAST: the operands */
  uint32_t broadcast_arg_count;
};

/* An implicit parameter or argument.  A parameter sets exactly one of elem.var,
   dim_var and shape_var.  DimVars are compared by address. */
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
  bool unknown;        /* IMPLICIT_SHAPE, argument: undetermined */
  bool required;       /* IMPLICIT_DIM, parameter: every run needs it */
} ImplicitArg;

/* The variable of a parameter. */
static inline const void *implicit_var(const ImplicitArg *h) {
  switch (h->kind) {
  case IMPLICIT_ELEM:
    return h->elem.var;
  case IMPLICIT_DIM:
    return h->dim_var;
  case IMPLICIT_SHAPE:
    return h->shape_var;
  }
  return NULL;
}

typedef enum CoreKind {
  CORE_NUM,    /* num (text, with sign) as an element of elem; is_float */
  CORE_BOOL,   /* flag */
  CORE_STRING, /* text, text_len */
  CORE_VAR,    /* var */
  CORE_PRIM,   /* prim as a function. For load, flag: the file must have `shape`
                  (a NULL dim: any size). elem: element type of a tensor result.
                  literal: string argument of einsum, permute or format. arity:
                  number of parameters */
  CORE_LAM,    /* params; items[0] is the body */
  CORE_APP, /* items[0] applied to items[1..]. Fewer arguments than its arity:
               partial application. More: the result is applied to the rest. For
               && and ||, flag: the right side is a tensor, so both sides run;
               shape: shape of the right side, if only it determines that */
  CORE_ABSENT, /* an omitted optional argument */
  CORE_LET,    /* binds var = items[0] in items[1] */
  CORE_LETREC, /* vars[k] = items[k] (a CORE_LAM, or a CORE_TLAM around one);
                  body is items[var_count] */
  CORE_CASE, /* matches items[0] against rules in order; no match is an error */
  CORE_IF,   /* items[0..2] */
  CORE_TUPLE,  /* items; none for () */
  CORE_RECORD, /* labels, items; in evaluation order */
  CORE_FIELD,  /* field `label` of items[0] */
  CORE_WITH,   /* items[0] with fields labels = items[1..] */
  CORE_CON,    /* con, applied to items[0] unless item_count == 0. A constructor
                  used as a function becomes a CORE_LAM */
  CORE_LIST,   /* items */
  CORE_CONS,   /* items[0] :: items[1] */
  CORE_TENSOR, /* [a, b, c]: stacks scalars or tensors along a new leading axis.
                  elem; empty if no items. splices[k]: item k is spliced */
  CORE_SHAPE, /* a shape value. Items are ints; splices[k]: item k is a shape; a
                 NULL item is a _ that is not solved yet */
  CORE_FOR,   /* params (the indices); ranges[k]: trip count; items[0]: body */
  CORE_INDEX, /* items[0] indexed by slices */
  CORE_SEQ,   /* items; the last is the value */
  CORE_DIM, /* dim as an int. flag: the _ of a shape, which running code solves
               if it is unknown */
  CORE_SHAPE_VALUE, /* shape as a shape value. flag: shape of a value without
                       elements */
  CORE_ALL_AXES,    /* the axis argument `all` */
  CORE_CHECK,       /* runs checks, then items[0] */
  CORE_UNPACK,      /* items[0]; binds: names for sizes of its value */
  CORE_TLAM,  /* implicit parameters; items[0]; binds: paths by which parameters
                 of items[0] (a CORE_LAM) supply implicit arguments */
  CORE_TAPP,  /* items[0] with implicit arguments */
  CORE_ERROR, /* result of an error; never run */
} CoreKind;

typedef struct CoreParam {
  Var *var;
  Core *default_value; /* value if the argument is CORE_ABSENT, or NULL; may use
                          earlier parameters */
} CoreParam;

typedef struct CoreRange { /* range of a `for` index: exactly one is set */
  Core *expr;
  Dim *dim;
} CoreRange;

typedef enum CoreSliceKind {
  CS_AT,    /* from: an int, or a tensor of ints (gather) */
  CS_RANGE, /* from, to, step: ints or NULL */
  CS_ELLIPSIS,
  CS_NEWAXIS,
  CS_STAR,
} CoreSliceKind;
typedef struct CoreSlice {
  CoreSliceKind kind;
  Span span;
  Core *from, *to, *step;
  bool from_end, to_end; /* a literal -k that counts from the end */
} CoreSlice;

typedef struct Con { /* a constructor of a datatype */
  Sym *name;
  uint32_t tag;
  bool has_arg;
  bool is_dict;   /* of a dictionary of the library: comparisons and `print` see
                     its items in order, not its tree */
  bool is_figure; /* of module plot: `print` draws it */
} Con;

typedef struct CoreRule {
  CorePat *pat;
  Core *body;
} CoreRule;

/* A run-time check: a condition that the checker left undecided.  It is an
   error if it does not hold. */
typedef enum CheckKind { CHECK_EQ, CHECK_LE, CHECK_NE } CheckKind;
typedef struct CoreCondition {
  CheckKind kind;
  Dim *left, *right;
} CoreCondition;
typedef struct CoreCheck {
  CheckKind kind;
  Dim *left, *right;
  CoreCondition *conditions; /* the check applies only if all of these hold */
  uint32_t condition_count;
  bool is_repeated;  /* the operation, a reshape or an index, checks it itself,
                        even if a size has no value here */
  bool bounds_range; /* of a loop: a kernel has no iterations below 0 */
  const Diag *diag;  /* message of a failure */
} CoreCheck;

/* Path from a value to a size in it: through tuples and records to an axis. */
typedef struct SizePath {
  DimVar *var;
  struct SizePathStep {
    Sym *label;     /* a field, or NULL for a tuple */
    uint32_t index; /* component of the tuple */
  } * steps;
  uint32_t step_count;
  bool is_value; /* the size is the integer value itself, or item `axis` of a
                    shape value */
  Dim *value; /* or it is computed from sizes that were read before; or NULL */
  int axis;   /* counted from the end if negative */
  ShapeVar *shape_var; /* alternative to var: the axes from `axis` on, without
                          the last `after` */
  uint32_t axes_after;
  uint32_t param_index; /* CORE_TLAM: index of the parameter */
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
  Core *empty_result; /* CORE_FOR, CORE_APP of map and scan: the result (scan:
                         of its steps) if there are no iterations, or NULL.
                         Unknown sizes in it are 0 */
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
  CP_LIST,   /* args: a list of exactly these items */
  CP_CONS,   /* args[0] :: args[1] */
  CP_SHAPE,  /* args: ints; arg `rest` (if >= 0) takes the remaining axes */
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

/* The core of one declaration. */
typedef enum CoreDecKind {
  CD_BIND, /* pat = expr; the variables are global */
  CD_FUNS, /* letrec of globals: vars[k] = items[k] */
  CD_EXPR, /* runs expr; its value is the result (the REPL prints it) */
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

/* Prints core as an s-expression, for tests and `axon dump --stage=core`. */
void core_print(DimCtx *cx, Buffer *out, const CoreDec *dec);

#endif
