/* Element types, shapes, types, constraints, schemes and the state of a
 * checker.
 *
 * types.h, solver.h and internal.h (inference) declare functions on them;
 * view.h declares those that diagnose/ may call.  Terms: meta (unification
 * variable), skolem (name of an annotation: arbitrary, but fixed in its scope),
 * generic (quantified in a scheme), existential (a size that only running code
 * knows), singleton (the size that an integer is known to equal), unknown (no
 * known size). */
#ifndef AXON_TYPECHECK_STATE_H
#define AXON_TYPECHECK_STATE_H

#include "lexer/lexer.h"
#include "support/map.h"
#include "support/span.h"
#include "support/vec.h"
#include "typecheck/typecheck.h"

typedef struct Arena Arena;
typedef struct Diags Diags;
typedef struct Interner Interner;
typedef struct Sources Sources;
typedef struct Sym Sym;

enum { LEVEL_GENERIC = 0x7fffffff };

typedef struct Shape Shape;
typedef struct Constraint Constraint;
typedef struct Watcher Watcher; /* private to solver_wakeup.c */
/* private to solver_wakeup.c */
typedef struct DefiningConstraint DefiningConstraint;
typedef struct VarNames VarNames; /* private to type_print.c */
typedef struct Scheme Scheme;
typedef struct ComparedSizes { /* the sides of a comparison of sizes */
  Dim *left, *right;
} ComparedSizes;

/* ---- element types ---- */

enum { /* element classes: sets of dtypes, one bit each */
       CLASS_ANY = (1 << DT_COUNT) - 2,
       CLASS_BOOL = 1 << DT_BOOL,
       CLASS_FLOAT = 1 << DT_F16 | 1 << DT_BF16 | 1 << DT_F32 | 1 << DT_F64 |
                     1 << DT_F8_E4M3 | 1 << DT_F8_E5M2 | 1 << DT_F4_E2M1 |
                     1 << DT_F8_E8M0,
       CLASS_INT = 1 << DT_U8 | 1 << DT_I8 | 1 << DT_I32 | 1 << DT_I64,
       CLASS_NUM = CLASS_INT | CLASS_FLOAT,
};

/* A number of a program, and the element types that it does not fit: a set of
   bits (literal_range.c). */
typedef struct UnfitNumber {
  const struct UnfitNumber *next;
  const char *num;
  uint32_t dtypes;
} UnfitNumber;

typedef enum DefaultPreference { /* in order: of two, the later one holds */
                                 PREFERS_NONE, /* f32 */
                                 PREFERS_INT,
                                 PREFERS_F32,
} DefaultPreference;

struct ElemVar { /* element type: fixed (dtype), or a variable */
  Dtype dtype;
  uint32_t classes; /* classes that it may still become */
  uint32_t level, id;
  bool skolem;
  Sym *name;
  Span origin;   /* the annotation that names it, or none */
  ElemVar *link; /* solution of a meta */
  const char *printed_name;
  const UnfitNumber *unfit; /* numbers of this element type that some element
                               types do not fit */
  DefaultPreference default_preference; /* if undetermined */
  bool prefers_by_scheme; /* only numbers in other functions have the
                             preference; messages show it for scalars only */
  Binding *global; /* global value whose type mentions it, undetermined after
                      its declaration; or NULL */
  Span decided; /* if global: the use that determined it, or none; the span of
                   the value itself: its default */
};

/* ---- shapes ---- */

typedef enum ShapeAxisKind {
  SHAPE_DIM,
  SHAPE_STAR,
  SHAPE_SPLICE
} ShapeAxisKind;

/* Whether the axis of a literal ~axis or of an index is a *.  Its size does not
   tell: it may be 1 in both cases. */
typedef enum StretchState {
  STRETCH_NONE,
  STRETCH_OPEN,
  STRETCH_STAR,
  STRETCH_SIZED
} StretchState;
typedef struct Stretch Stretch;
struct Stretch {
  StretchState state;
  Stretch *link; /* unified with that one */
};

typedef struct ShapeAxis {
  ShapeAxisKind tag;
  Dim *dim;
  ShapeVar *var;
  Stretch *stretch; /* SHAPE_DIM: axis of a literal; NULL: not a * */
} ShapeAxis;

struct Shape {
  uint32_t len;
  ShapeAxis axes[];
};

struct ShapeVar {
  uint32_t id, level;
  bool skolem;
  bool dependent, is_read;   /* as for DimVar */
  uint32_t first_newer_size; /* sizes from this id on are newer */
  int fixed_rank;            /* number of axes; -1: any */
  Sym *name;
  Shape *solution;
  const char *printed_name;
  Watcher *watchers;
  DefiningConstraint *definers;
  const Constraint *join; /* the broadcast that gives it, if no type has it */
};

/* ---- types ---- */

typedef enum EffectTag { EF_PURE, EF_IMPURE, EF_VAR } EffectTag;
typedef struct Effect Effect;
struct Effect { /* effect of an arrow: one bit, or a variable */
  EffectTag tag;
  uint32_t level;
  Effect *link;
  VEC(Effect *) lower_bounds; /* effects that it includes */
};

typedef enum TypeTag {
  TY_VAR,
  TY_TENSOR,
  TY_FUN,
  TY_TUPLE,
  TY_RECORD,
  TY_DATATYPE,
  TY_SHAPE,
  TY_AXIS,
  TY_KEEP,
  TY_LIFT, /* type with a leading axis on all components */
  TY_CAST, /* type with another element type in place of each float type */
} TypeTag;

typedef struct TyVar {
  uint32_t id, level;
  bool skolem;
  bool is_tensor_element; /* element of a tensor, or the result of load_tree: an
                             integer is data without a known term */
  bool is_data;           /* class `data`: values without functions */
  bool is_stackable;      /* class `tensors`: a loop can stack the values */
  ElemVar *floats;        /* element type of all floats in it, or NULL: any */
  Sym *name;
  Type *link;
  const char *printed_name;
} TyVar;

typedef struct Datatype { /* datatype; list, string and key are datatypes too */
  Sym *name, *module;
  Span span;
  uint32_t arity, dim_arity;
  struct DataCon {
    Con con;
    Scheme *scheme; /* arg -> data, or data */
    Span span;
  } * cons;
  uint32_t con_count;
  bool has_function;     /* an argument of a constructor contains a function,
                            whatever the arguments of the datatype are */
  uint32_t fixed_floats; /* float types in arguments of constructors, whatever
                            the arguments of the datatype are: a bit set */
  Dec *dec;              /* NULL if built in */
} Datatype;

/* What walks read comes first: it mostly lies in one cache line. */
struct Type {
  TypeTag tag : 8;
  uint32_t alias_count : 24;
  Span span; /* span of the annotation that created it, or none */
  union {
    TyVar *var; /* TY_VAR */
    struct {    /* TY_TENSOR */
      ElemVar *elem;
      Shape *shape;
      Dim *singleton; /* size that the integer equals, or NULL */
    } tensor;
    struct { /* TY_FUN */
      Type *param, *result;
      Sym *label;
      bool optional;
      bool is_differentiated; /* a function that receives this function
                                 differentiates it; for messages only */
      Type *default_type; /* type of the default of an optional parameter, or
                             NULL */
      Effect *effect;
    } fun;
    struct { /* TY_TUPLE, TY_RECORD, TY_DATATYPE */
      Type **args;
      uint32_t count; /* number of args */
      union {
        struct {        /* TY_RECORD */
          Sym **labels; /* labels of the args */
          Type *rest;   /* the row's rest (TY_VAR or TY_RECORD), or NULL */
        } record;
        struct { /* TY_DATATYPE */
          Datatype *type;
          Dim **dims; /* NULL if dim_arity == 0 */
        } data;
      };
    };
    Shape *shape;   /* TY_SHAPE */
    Shape *axis[3]; /* TY_AXIS: s, r, t; TY_KEEP: u, r */
    struct {        /* TY_LIFT */
      Dim *dim;
      Type *type;
    } lift;
    struct { /* TY_CAST */
      Type *type;
      ElemVar *elem;
    } cast;
  };
  Sym *alias;       /* alias that the user wrote, for printing */
  Dim **alias_dims; /* sizes of the alias */
};

static inline bool ty_has_args(const Type *t) {
  return t->tag == TY_TUPLE || t->tag == TY_RECORD || t->tag == TY_DATATYPE;
}

static inline bool ty_has_axes(const Type *t) {
  return t->tag == TY_AXIS || t->tag == TY_KEEP;
}

/* ---- facts: a persistent list, innermost first ---- */

typedef enum AssumptionRelation {
  ASSUME_GE, /* dim >= 0 */
  ASSUME_EQ, /* dim == 0 */
  ASSUME_NE, /* dim != 0 */
} AssumptionRelation;

typedef enum AssumptionRole {
  ROLE_CONDITION,     /* condition of an implication */
  ROLE_INDEX_RANGE,   /* range of a `for` index; not a condition */
  ROLE_UNCONDITIONAL, /* always holds; not a condition */
  ROLE_INEXPRESSIBLE, /* 0 == 0: stands for a condition that no assumption can
                         express */
} AssumptionRole;

typedef struct Assumption {
  struct Assumption *outer;
  AssumptionRelation relation;
  AssumptionRole role;
  Dim *dim;
} Assumption;

/* ---- constraints ---- */

typedef enum OriginKind {
  ORIGIN_NONE,
  ORIGIN_ARG,
  ORIGIN_OPERATOR,
  ORIGIN_ANNOTATION,
  ORIGIN_BRANCH,
  ORIGIN_ELEMENT,
  ORIGIN_INDEX,
  ORIGIN_RANGE,
  ORIGIN_PATTERN,
  ORIGIN_RESULT,
  ORIGIN_DEFAULT,
  ORIGIN_GIVEN,
  ORIGIN_FIELD,
} OriginKind;

typedef struct Origin { /* source of a constraint, for messages */
  OriginKind kind;
  PrimId prim;
  Span span;           /* primary span */
  Span other_span;     /* related span, or none */
  const char *subject; /* "softmax", "op @" */
  Expr *expr;
  Type *actual, *expected;    /* the complete types */
  uint32_t number;            /* argument number, axis, component from 0 */
  struct Origin *whole;       /* ORIGIN_ELEMENT: of the tuple; or NULL */
  Scheme *scheme;             /* scheme whose given constraint this is */
  struct Origin *body_origin; /* given constraint: its origin in the body */
  Map *substitution; /* given constraint: what its variables are at this call */
  struct CallSubstitution *call_substitution; /* for messages about a body:
                                                 substitution of one call */
  Dim *sizes[2]; /* for messages: the sizes that differ */
  union {
    struct { /* ORIGIN_ARG */
      Expr *callee;
      Type *fun_type; /* type of the callee */
      Sym *label;     /* label of the argument */
      Arg *args;      /* all arguments of the call */
      uint32_t arg_count;
      bool is_loop_state;     /* initial state of a loop; a callback returns the
                                 next */
      bool is_differentiated; /* the result of a function that the callee
                                 differentiates */
      struct Binding *recursive_callee; /* recursive call: the callee */
    } arg;
    struct { /* ORIGIN_OPERATOR: operands; ORIGIN_ELEMENT: of concat */
      Expr *left, *right; /* concat: the unified tensors */
      Expr *axis;         /* concat: the axis */
    } operands;
    struct {                 /* ORIGIN_INDEX */
      Dim *from, *to, *axis; /* position or range, and size of the axis */
    } index;
    Expr *record; /* ORIGIN_FIELD */
    /* ORIGIN_RESULT: of the argument that is this function; NULL: none */
    struct Origin *callback;
  };
} Origin;

/* The loop whose function has this result, or PRIM_NONE. */
static inline PrimId origin_loop_of_result(const Origin *o) {
  PrimId id =
      o->kind == ORIGIN_RESULT && o->callback ? o->callback->prim : PRIM_NONE;
  return prim_info[id].flags & PRIM_LOOP ? id : PRIM_NONE;
}

static inline uint32_t origin_arg_count(const Origin *o) {
  return o->kind == ORIGIN_ARG ? o->arg.arg_count : 0;
}

static inline struct Binding *origin_recursive_callee(const Origin *o) {
  return o->kind == ORIGIN_ARG ? o->arg.recursive_callee : NULL;
}

static inline bool origin_has_operands(const Origin *o) {
  return o->kind == ORIGIN_OPERATOR || o->kind == ORIGIN_ELEMENT;
}

static inline Expr *origin_left(const Origin *o) {
  return origin_has_operands(o) ? o->operands.left : NULL;
}

static inline Expr *origin_right(const Origin *o) {
  return origin_has_operands(o) ? o->operands.right : NULL;
}

typedef enum ConstraintKind {
  CN_DIM_EQ,
  CN_DIM_LE,
  CN_DIM_NE,
  CN_SHAPE_EQ,
  CN_BROADCAST,
  CN_KEEP,
} ConstraintKind;

/* The normalized sides of an equation of shapes, for comparisons with others.
   Valid for these sides until a solution is found or forgotten, and as long as
   the equation stays suspended. */
typedef struct NormalSides {
  const Shape *of_a, *of_b;
  uint32_t solution_changes; /* Solver.solution_changes at that time */
  uint32_t suspension; /* its watch_generation while suspended; otherwise 0 */
  uint32_t hash_a, hash_b;
  Shape *a, *b;
} NormalSides;

struct Constraint {
  ConstraintKind kind;
  Origin *origin;
  union {
    struct {             /* if constraint_is_size */
      Dim *left, *right; /* equal, ordered, or different sizes */
      Dim *divisor; /* left is a multiple of it (for the message), or NULL */
    };
    struct {        /* other kinds */
      Shape *a, *b; /* CN_SHAPE_EQ: a == b; CN_KEEP: a is what b keeps */
      Shape **broadcast_args; /* CN_BROADCAST: a is the broadcast of these */
      uint32_t broadcast_arg_count; /* 0 for other kinds */
      NormalSides *normal; /* CN_SHAPE_EQ: cached by solve.c, or NULL */
    };
  };
  Assumption *assumptions; /* assumptions in whose scope it is */
  uint32_t level;
  uint32_t serial;         /* number in order of creation */
  uint32_t control_region; /* control region in which it arose
                              (control_region_begin) */
  bool solved;
  bool at_run_time;     /* only checkable at run time */
  bool may_escape;      /* solving it may be a skolem escape */
  bool divisibility;    /* a division is exact; callers have to ensure it */
  bool from_broadcast;  /* derived from a broadcast */
  bool sufficient_only; /* implies the wanted condition, but not conversely */
  bool is_given;        /* written by the user: assumed here, not proved */
  bool is_dependent;    /* depends on existential sizes of a call, which checks
                           it itself when it runs */
  bool is_implication;  /* constraint of a call that holds under conditions that
                           may be false */
  struct {              /* place in the solver's queue (solver_wakeup.c) */
    bool active;        /* in the pending list */
    bool suspended;     /* unchanged since the last attempt */
    bool being_compared; /* being compared with another constraint (solve.c) */
    uint32_t order, watch_generation;
  } queue;
  struct {                   /* its check at run time (runtime_checks.c) */
    Core *site;              /* expression that the check belongs to, or NULL */
    bool after_site;         /* the check comes after the value of the site */
    bool inserted;           /* the check was inserted */
    Assumption *assumptions; /* assumptions that hold at the site */
  } check;
};

static inline bool constraint_is_size(const Constraint *k) {
  return k->kind == CN_DIM_EQ || k->kind == CN_DIM_LE || k->kind == CN_DIM_NE;
}

typedef VEC(Constraint *) Constraints;
typedef VEC(Binding *) Bindings;

/* ---- schemes and bindings ---- */

struct Scheme { /* type scheme; quantifies variables of LEVEL_GENERIC */
  Type *type;
  Constraint **given;
  uint32_t given_count;
  uint32_t variable_count;    /* in the last instance; 0 before the first */
  bool is_polymorphic;        /* has a quantified variable */
  VEC(ImplicitArg) implicits; /* implicit parameters that running code needs */
  Core *type_lambda;          /* takes the implicit parameters; or NULL */
};

typedef enum BindingKind {
  BK_VALUE,
  BK_PRIM,
  BK_CON,
  BK_MODULE,
  BK_DTYPE, /* f32 as a function */
  BK_SIZE,  /* size bound by the annotation of a val */
} BindingKind;

struct Binding {
  BindingKind kind;
  uint32_t level; /* level at which it was bound */
  Sym *name;
  Module *module;
  Span span;
  const char *doc;
  Scheme *scheme;
  const char *type_text; /* cached text of the type */
  bool has_error;  /* its definition had an error: suppress further errors */
  bool is_partial; /* an error left variables in its type: it is not shown */
  union {
    struct { /* BK_VALUE */
      Var *var;
      Expr *expr;           /* bound expression, for messages; or NULL */
      Clause *clause;       /* clause of a function with one clause, or NULL */
      Span annotation_span; /* span of its annotation, if it is a parameter */
      Type *unpacked_type; /* its type with names for its unknown sizes (`?`) */
      Core *unpack_core;   /* core that reads these sizes off its value */
      DimVar *size_var; /* size variable for an integer without a known term */
      struct BindingGroup *group;
      /* its annotation, if that gives the complete type; or NULL */
      Scheme *annotation_scheme;
      bool needs_no_unpack;  /* its type has neither unknown sizes nor
                                variables */
      bool used_recursively; /* used inside its own definition */
      bool recursive; /* inside its own definition: monomorphic, unless it has
                         an annotation_scheme */
    } value;
    PrimId prim;         /* BK_PRIM */
    Dtype dtype;         /* BK_DTYPE */
    struct DataCon *con; /* BK_CON */
    Module *imported;    /* BK_MODULE */
    Dim *dim;            /* BK_SIZE */
  };
};

static inline bool binding_is_recursive(const Binding *b) {
  return b->kind == BK_VALUE && b->value.recursive;
}

static inline Expr *binding_expr(const Binding *b) {
  return b->kind == BK_VALUE ? b->value.expr : NULL;
}

static inline Clause *binding_clause(const Binding *b) {
  return b->kind == BK_VALUE ? b->value.clause : NULL;
}

/* A type name: a datatype or an alias. */
typedef struct TypeName {
  Sym *name;
  Datatype *data;  /* datatype, or NULL */
  Dec *dec;        /* declaration of an alias, expanded where used */
  Module *module;  /* module in whose scope it expands */
  Type *expansion; /* expansion with its parameters as sizes, if it is the same
                      at every use; or NULL */
  Dim **expansion_params; /* these parameters */
  Type *last_expansion;   /* cached: the expansion at the last use */
  Dim **last_args;        /* cached: the arguments of that use */
  bool has_error;         /* its declaration had an error: it is any type */
} TypeName;

typedef struct NameChange {
  Sym *name;
  Binding *before; /* or NULL */
} NameChange;

struct Module {
  Sym *name; /* NULL for the prelude or the program */
  Checker *checker;
  bool library;
  Map names;    /* Sym -> Binding */
  Map types;    /* Sym -> TypeName */
  Map foretold; /* Sym -> Span of its last declaration in the text */
  VEC(Binding *) bindings;
  VEC(NameChange) journal; /* changes of names by the last declaration */
  VEC(Module *) opened;
};

/* Local scopes: a linked list of names, innermost first. */
struct Scope {
  struct Scope *outer;
  Sym *name;
  Binding *binding;
  Dim *dim;              /* a size name of an annotation */
  Shape *shape;          /* ...s */
  ElemVar *elem;         /* 'a[] */
  TyVar *tyvar;          /* 'a */
  Span span;             /* size or variable: span of its first occurrence */
  uint32_t block_length; /* number of entries since the end of the last block */
  Map *block_names;      /* set on the last entry of a block: the names in it */
  struct Scope *block_outer; /* scope outside of the block */
};

/* A recursive binding group that is being inferred. */
typedef struct BindingGroup {
  struct BindingGroup *outer;
  VEC(Core *)
  occurrences; /* uses inside, which get implicit arguments at the end */
  VEC(Origin *) calls; /* arguments of calls of the functions being defined */
  VEC(struct PolyrecUse *)
  polyrec_uses; /* uses of annotated functions */
  Scheme *scheme;
} BindingGroup;

/* A use of a polymorphic name: how its variables were instantiated. */
typedef struct SchemeInstance {
  Core *core;
  Scheme *scheme;
  Map substitution; /* maps generic variables to an ElemVar, Dim or Shape */
} SchemeInstance;

/* A `for` being inferred: its indices and its accesses. */
typedef struct IndexAccess {
  Dim *axis_size, *index_expr;
  Span span;
  bool conditional;        /* under an `if` on indices, or already solved */
  bool guarded;            /* under an `if` on indices */
  Assumption *assumptions; /* assumptions of its branch */
  int side;   /* slice: 1 its last element, -1 its first element; otherwise 0 */
  Expr *expr; /* the expression x.[i, j] */
  int32_t axis_number; /* axis of x, counted from the end if negative */
} IndexAccess;
typedef struct ForScope {
  struct ForScope *outer;
  DimVar **indices;
  Dim **ranges;         /* NULL while unknown */
  DimVar **range_metas; /* variable for a range that is not written, or NULL */
  uint32_t count;
  Assumption *assumptions; /* assumptions at the `for` */
  Type *expected;          /* of the result, or NULL */
} ForScope;

/* A constraint that became part of a global type.  Its text is built on
   demand. */
typedef struct DeferredConstraint {
  Scheme *scheme;
  Constraint *given;
  Sym *name;
} DeferredConstraint;

/* The state of an element variable before a change. */
typedef struct ElemChange {
  ElemVar *var;
  ElemVar before;
} ElemChange;

/* A place in core that needs an element type.  A number must fit it, and also
   the numbers of a generic function that is used with it. */
typedef struct ElemSite {
  ElemRef *at;
  const char *num; /* a number, or NULL */
  bool is_float;
  Span span;              /* of the number */
  const ElemVar *generic; /* its variable in the scheme of the used function, or
                             NULL */
  const Core *use;        /* the function */
} ElemSite;

/* Element types of global values.  All declarations of a text may determine
   them (global_elems.c). */
typedef struct GlobalElems {
  bool is_text;            /* a whole text is checked before any of it runs */
  VEC(ElemVar *) open;     /* the end of the text determines them */
  VEC(ElemSite) sites;     /* places that need them */
  VEC(ElemChange) changes; /* by the current declaration */
} GlobalElems;

/* A global value whose sizes later declarations may determine. */
typedef struct UnsizedValue {
  Type *type;
  Core **core;
  const Dec *dec;
} UnsizedValue;

/* A size that running code needs.  Nothing has determined it so far. */
typedef struct UndeterminedSize {
  Dim *dim;
  const char *name; /* of the size */
  bool required;    /* each run needs it; otherwise, suspended equations mention
                       it but do not determine it */
  bool is_checked;  /* a check at run time compares it; after an error it may
                       have no value */
  Sym *used_name;   /* name of the used value, or NULL */
  Span use_span;
  Module *module;
  Dec *dec;
} UndeterminedSize;

typedef struct ReshapeHole { /* the _ of a reshape, and its shape */
  DimVar *var;
  Span shape_span;
} ReshapeHole;

typedef struct TypedHole { /* a _ in an annotation: a size or a type */
  Span span;
  Dim *dim;
  Type *type;
} TypedHole;

typedef struct ParamType {
  Type *type;
  uint32_t
      first_body_size; /* sizes from this id on belong to the function's body */
} ParamType;

/* ---- the checker, by role ---- */

typedef struct Builtins { /* names and types that the checker itself uses */
  Datatype *list_datatype, *string_datatype, *key_datatype;
  ElemVar *fixed_elems[DT_COUNT];
  Sym *sym_all, *sym_true, *sym_false;
} Builtins;

/* A library declaration whose check has begun. */
typedef struct DecInCheck {
  const Dec *dec;
  const struct DecInCheck *outer; /* the check that needs it, or NULL */
} DecInCheck;

typedef struct Names { /* environment: modules and local scopes */
  Module *prelude;
  Map library_modules; /* Sym -> Module */
  Module *module;      /* module of the current declaration */
  Scope *scope;
  const DecInCheck *library_decs; /* innermost; on the stack of its check */
  Sym *alias_name;                /* alias being read, or NULL */
  const struct AliasExpansion *expansions; /* annotation.c; the innermost */
  /* given constraints of the scheme being read, or NULL */
  Constraints *collected_givens;
} Names;

typedef struct Facts { /* assumptions that hold at the current expression */
  Assumption *assumptions;
  Assumptions *loaded; /* decides entailment; has the assumptions of a goal */
  uint32_t control_region;       /* current control region */
  uint32_t control_region_count; /* number of control regions so far */
  Map compared_sizes; /* maps a comparison Expr to ComparedSizes: the known
                         sizes of its sides */
} Facts;

typedef struct SolvedByTerm { /* a size that was solved by a term */
  DimVar *size;
  Constraint *by; /* the constraint that solved it */
} SolvedByTerm;

typedef struct Solver { /* constraints that are not decided yet */
  Constraints pending;
  bool progress;             /* a variable was solved: retry the constraints */
  bool has_awake;            /* some pending constraint is not suspended */
  bool unifies_single_axes;  /* equations with a side in common are unified
                                if they end in splices of rank 1, too */
  uint32_t solution_changes; /* number of solutions found or forgotten */
  uint32_t next_order;       /* next number of a pending constraint */
  uint32_t serial;           /* serial of the newest constraint */
  uint32_t max_unclaimed; /* upper bound of the number of constraints without a
                             site */
  Constraint *current_constraint; /* derived constraints get the same site as
                                     this one */
  /* constraints undecided at the end of a declaration */
  VEC(Constraint *) residual;
  /* origins of contradicted constraints, in order */
  VEC(Origin *) contradicted;
  VEC(ReshapeHole) reshape_holes; /* the _ of reshapes */
  VEC(SolvedByTerm) solved_by_terms;
  Map in_unproved_equations; /* DimVars in an equation that stays undecided */
} Solver;

typedef struct ApplicationHead { /* head of the current application */
  Expr *expr;
  Arg *args;
  uint32_t arg_count;
} ApplicationHead;

/* x[0], where x is a parameter: a call of x, though an index may be meant. */
typedef struct BracketCall {
  Type *callee;
  const Diag *warning;
} BracketCall;

/* Of the type of a value that was not known yet (guess.c). */
typedef struct Guess {
  Expr *expr;        /* an index, or a comparison */
  const Expr *value; /* the index, or a side of the comparison */
} Guess;

typedef struct Inference { /* inference of the current declaration */
  Span dec_span;           /* span of this declaration */
  struct Diag *used_early; /* its error about a name that is declared below */
  /* its error about a recursive call with another shape, which others follow */
  struct Diag *recursive_call;
  uint32_t level;
  uint32_t depth; /* nesting depth of expressions and aliases */
  uint32_t work;  /* type-walk steps of this declaration (charge_work) */
  Effect *effect; /* of the body being checked */
  ApplicationHead head;
  Origin *callback; /* of the argument that is checked, if it is a function */
  BindingGroup *binding_group;
  /* parameters of the functions being checked or generalized */
  VEC(ParamType) params;
  VEC(SchemeInstance *) instances;
  /* variables bound by the global pattern, or NULL */
  Bindings *pattern_bindings;
  Sym *val_name;            /* val whose value is being inferred, or NULL */
  Expr *val_function;       /* its value: the val keeps the parameters */
  bool axis_may_be_star;    /* an axis of a literal may turn out to be a * */
  Map retracted_singletons; /* maps an Expr to a flag: singletons to retract
                               there, from the first pass */
  Map expansions;     /* maps an Expr to the function that replaces it: all
                         passes use the same, for retracted_singletons */
  VEC(Guess) guesses; /* of this pass */
  VEC(BracketCall) bracket_calls; /* of this pass */
  Map reversed_guesses;   /* maps an Expr to a flag: the reverse holds */
  bool meets_error;       /* a part of it has an unknown type, because of an
                             error elsewhere */
  Type **recursive_types; /* inferred types of the recursive functions that are
                             declared at top level, or NULL */
  bool needs_recheck;     /* retracted_singletons grew: check once more */
} Inference;

typedef struct Loops { /* the `for`s around the current expression */
  ForScope *innermost;
  VEC(IndexAccess) accesses;
  uint32_t index_condition_depth; /* nesting depth of `if` on indices */
  bool range_shortened; /* the range inferred last is shorter than its axis */
  Dim *range_min;       /* or its minimum, known to be at least 1; or NULL */
} Loops;

/* A value whose type has sizes or shapes that running code may have to read. */
typedef struct ReadSite {
  Core *core;
  Type *type;
} ReadSite;

typedef struct RuntimeSizes {   /* sizes that only running code knows */
  uint32_t last_existential_id; /* id of the newest existential size */
  bool has_packed; /* some size was packed (dim_var_set_packed), in any check */
  /* assumptions about existential sizes of calls */
  VEC(Assumption *) existential_assumptions;
  VEC(Binding *) bindings;  /* global integers that are used as sizes */
  VEC(DimVar *) discovered; /* sizes that this declaration reads off a value */
  Map defined;              /* option -D: maps Sym to Dim */
  Map used;                 /* those that were used: maps Sym to Dim */
  VEC(ReadSite) read_sites; /* values of this declaration */
  VEC(void *) needed;       /* dependent variables that code needs */
  VEC(UnsizedValue) unsized_values;
  VEC(UndeterminedSize) undetermined;
} RuntimeSizes;

typedef struct MissingFile { /* a file to load that does not exist */
  const char *path;
  Span span;
  Shape *shape;
} MissingFile;

typedef struct Differentiated { /* data by which a call differentiates */
  Type *type;
  Span span;
  const char *callee; /* such as "grad", or NULL */
} Differentiated;

typedef struct Notes {     /* results for messages, statistics and editors */
  VarNames *message_names; /* variable names of the current message, or NULL */
  VEC(TypedHole) typed_holes; /* the _ of annotations */
  VEC(Differentiated) differentiated;
  VEC(MissingFile) missing_files;
  SymbolRefs *recorded_refs; /* recorded symbol references; NULL: off */
  /* the same while recording is enabled, otherwise NULL */
  SymbolRefs *active_refs;
  CheckStats stats;
  VEC(UnprovedConstraint) unproved;
  VEC(DeferredConstraint) deferred;
} Notes;

struct Checker {
  Arena *arena;
  Sources *sources;
  Interner *interner;
  DimCtx *dims;
  Diags *diags; /* of the current declaration */
  const CheckHost *host;
  /* Checks the definition of a library name.  A callback (nested_check.c),
     since name lookup is in a lower layer than checking of declarations. */
  void (*check_library)(Checker *c, Module *m, Dec *dec);
  uint32_t next_id;
  Builtins builtins;
  Names names;
  Facts facts;
  Solver solver;
  Inference inference;
  Loops loops;
  RuntimeSizes sizes;
  GlobalElems elems;
  Notes notes;
};

#endif
