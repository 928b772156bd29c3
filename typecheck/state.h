/* Element types, shapes, types, constraints, schemes and the state of a
 * checker. Functions on them are in types.h, solver.h and internal.h
 * (inference); those that diagnose/ may call are in view.h.  Terms: meta (a
 * variable to be solved), skolem (a name of an annotation: stands for every
 * size), generic (quantified in a scheme), existential (a size that only
 * running code knows), singleton (the size that an integer is known to equal),
 * unknown (no known size). */
#ifndef AXON_TYPECHECK_STATE_H
#define AXON_TYPECHECK_STATE_H

#include "lexer/lexer.h"
#include "typecheck/typecheck.h"

enum { LEVEL_GENERIC = 0x7fffffff };

typedef struct Shape Shape;
typedef struct Constraint Constraint;
typedef struct Watcher Watcher; /* solver_wakeup.c's, like */
typedef struct DefiningConstraint DefiningConstraint; /* this one */
typedef struct VarNames VarNames;                     /* type_print.c's */
typedef struct Scheme Scheme;
typedef struct ComparedSizes { /* the sides of a comparison of sizes */
  Dim *left, *right;
} ComparedSizes;

/* ---- element types ---- */

enum { /* classes as sets of dtypes, a bit each */
       CLASS_ANY = (1 << DT_COUNT) - 2,
       CLASS_BOOL = 1 << DT_BOOL,
       CLASS_FLOAT = 1 << DT_F16 | 1 << DT_BF16 | 1 << DT_F32 | 1 << DT_F64,
       CLASS_INT = 1 << DT_U8 | 1 << DT_I8 | 1 << DT_I32 | 1 << DT_I64,
       CLASS_NUM = CLASS_INT | CLASS_FLOAT,
};

struct ElemVar { /* an element type: fixed (dtype), or a variable */
  Dtype dtype;
  uint32_t classes; /* what it may become */
  uint32_t level, id;
  bool skolem;
  Sym *name;
  ElemVar *link; /* a solved meta */
  const char *printed_name;
  uint8_t default_preference; /* when undetermined: 1 int, 2 f32; 0: nobody
                                 minds, f32 */
};

/* ---- shapes ---- */

typedef enum ShapeAxisKind {
  SHAPE_DIM,
  SHAPE_STAR,
  SHAPE_SPLICE
} ShapeAxisKind;
typedef struct ShapeAxis {
  ShapeAxisKind tag;
  Dim *dim;
  ShapeVar *var;
  bool maybe_star; /* SHAPE_DIM: of a literal axis, and may be a * (size/dim.h)
                    */
} ShapeAxis;

struct Shape {
  uint32_t len;
  ShapeAxis axes[];
};

struct ShapeVar {
  uint32_t id, level;
  bool skolem;
  int fixed_rank; /* exactly so many axes; -1: any number */
  Sym *name;
  Shape *solution;
  const char *printed_name;
  Watcher *watchers;
  DefiningConstraint *definers;
};

/* ---- types ---- */

typedef enum EffectTag { EF_PURE, EF_IMPURE, EF_VAR } EffectTag;
typedef struct Effect Effect;
struct Effect { /* of an arrow: one bit, or a variable */
  EffectTag tag;
  uint32_t level;
  Effect *link;
  VEC(Effect *) lower_bounds; /* effects of which it has at least these */
};

typedef enum TypeTag {
  TY_VAR,    /* var */
  TY_TENSOR, /* elem, shape, term */
  TY_FUN,    /* label, optional, preset; arg[0] -> arg[1]; effect */
  TY_TUPLE,  /* args */
  TY_RECORD, /* labels (sorted), args; arg[0] the row's rest (TY_VAR) or NULL */
  TY_DATATYPE, /* data, args, dims */
  TY_SHAPE,    /* shape */
  TY_AXIS,     /* axis: s, r, t */
  TY_KEEP,     /* axis[0] u, axis[1] r */
  TY_LIFT,     /* dim, arg[0] */
} TypeTag;

typedef struct TyVar {
  uint32_t id, level;
  bool skolem;
  bool is_tensor_element; /* an element of a tensor: an integer is data, of no
                             known term */
  Sym *name;
  Type *link;
  const char *printed_name;
} TyVar;

typedef struct Datatype { /* a datatype; list, string and key are such, too */
  Sym *name, *module;
  Span span;
  uint32_t arity, dim_arity;
  struct DataCon {
    Con con;
    Scheme *scheme; /* arg -> data, or data */
    Span span;
  } * cons;
  uint32_t con_count;
  Dec *dec; /* or NULL: built in */
} Datatype;

struct Type {
  TypeTag tag;
  Span span; /* of the annotation that made it, or none */
  TyVar *var;
  ElemVar *elem;
  Shape *shape;
  Dim *singleton; /* TY_TENSOR: NULL is top */
  Sym *label;
  bool optional;
  Type
      *default_type; /* type of the default of an optional parameter; or NULL */
  Effect *effect;
  Type *arg[2];
  Type **args;
  Sym **labels;
  uint32_t count;
  Datatype *datatype;
  Dim **dims;
  Shape *axis[3];
  Dim *dim;
  Sym *alias;       /* the abbreviation that the user wrote, for printing, */
  Dim **alias_dims; /* and its sizes */
  uint32_t alias_count;
};

/* ---- facts: a persistent list, innermost first ---- */

typedef struct Assumption {
  struct Assumption *outer;
  bool eq; /* dim == 0, else dim >= 0 */
  bool ne; /* dim != 0 */
  Dim *dim;
  bool
      is_index_range; /* the range of a for index: not part of an implication */
  bool unconditional; /* holds for good: not part of one, either */
  bool inexpressible; /* 0 == 0: there is a condition on sizes that no fact says
                       */
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

typedef struct Origin { /* where a demand came from, for the message */
  OriginKind kind;
  Span span;           /* primary place */
  Span other_span;     /* the other party, or none */
  Expr *left, *right;  /* ORIGIN_OPERATOR: the operands; of concat what met */
  const char *subject; /* "softmax", "op @" */
  uint32_t number;     /* argument number, axis */
  PrimId prim;
  Expr *expr;
  Type *actual, *expected; /* the whole types that met */
  Sym *label;              /* ORIGIN_ARG: of a labelled argument */
  Scheme *scheme;          /* whose given it was */
  Expr *head;              /* ORIGIN_FIELD: the record; of concat the axis;
                              ORIGIN_ARG: what is called, */
  Type *fun_type;          /* its type, */
  Arg *args;               /* and all arguments of the call */
  uint32_t arg_count;
  Dim *from, *to, *axis; /* ORIGIN_INDEX: the position or range, and the size */
  struct Origin *body_origin; /* of a given: where it arose in the body, */
  Map *substitution; /* and what its variables stand for at this call */
  struct CallSubstitution *
      call_substitution; /* of one in a body, for a message: as a call has it */
  Dim *sizes[2];         /* for a message: the sizes that met */
  struct Binding *recursive_callee; /* what is called, where it calls itself */
  bool is_loop_state; /* ORIGIN_ARG: a callback makes others of its type: a
                         loop's */
} Origin;

typedef enum ConstraintKind {
  CN_DIM_EQ,
  CN_DIM_LE,
  CN_DIM_NE,
  CN_SHAPE_EQ,
  CN_BROADCAST,
  CN_KEEP,
} ConstraintKind;

struct Constraint {
  ConstraintKind kind;
  Origin *origin;
  union {
    struct {             /* constraint_is_size */
      Dim *left, *right; /* what is equal, at most, or different */
      Dim *divisor; /* left is a multiple of it (for the message); or NULL */
    };
    struct {        /* the others */
      Shape *a, *b; /* CN_SHAPE_EQ: a == b; CN_KEEP: a is what b keeps */
      Shape **broadcast_args; /* CN_BROADCAST: a is what these broadcast to; */
      uint32_t broadcast_arg_count; /* else there are none */
    };
  };
  Assumption *assumptions; /* in whose scope it stands */
  uint32_t level;
  bool solved;
  bool at_run_time;     /* only the running program can tell */
  bool divisibility;    /* that a division is exact, to be seen to by callers */
  bool from_broadcast;  /* demanded by a join */
  bool sufficient_only; /* what is wanted follows from it, not the reverse */
  bool is_given;        /* written by the user: not to be proved here */
  bool in_queue,
      suspended; /* in the list; nothing in it has changed (solver_wakeup.c) */
  bool being_compared; /* with another that is being demanded (solve.c) */
  uint32_t queue_order, watch_generation;
  uint32_t serial;         /* in order of demand */
  uint32_t control_region; /* of the program in which it arose
                              (control_region_begin) */
  Core *site; /* the expression that claimed it (runtime_checks.c); or NULL */
  bool check_after_site; /* its test comes after the value of the site */
  bool check_inserted;   /* its test was put there */
  bool
      is_implication; /* of a call: it holds where facts that may not hold do */
  Assumption *site_assumptions; /* those of the facts that hold at the site */
};

static inline bool constraint_is_size(const Constraint *k) {
  return k->kind == CN_DIM_EQ || k->kind == CN_DIM_LE || k->kind == CN_DIM_NE;
}

typedef VEC(Constraint *) Constraints;
typedef VEC(Binding *) Bindings;

/* ---- schemes and bindings ---- */

struct Scheme { /* variables of level LEVEL_GENERIC are quantified */
  Type *type;
  Constraint **given;
  uint32_t given_count;
  bool is_polymorphic;        /* has any quantified variable */
  VEC(ImplicitArg) implicits; /* those that running code needs, */
  Core *type_lambda;          /* of which it takes them; or NULL */
};

typedef enum BindingKind {
  BK_VALUE,
  BK_PRIM,
  BK_CON,
  BK_MODULE,
  BK_DTYPE, /* f32 as a function */
  BK_SIZE,  /* a size that an annotation of a val has bound */
} BindingKind;

struct Binding {
  BindingKind kind;
  Sym *name;
  Module *module;
  Span span;
  const char *doc;
  Scheme *scheme;
  Var *var;
  PrimId prim;
  Dtype dtype;
  struct DataCon *con;
  Datatype *data;
  Module *imported;      /* BK_MODULE */
  Dim *dim;              /* BK_SIZE */
  uint32_t level;        /* where it was bound */
  Type *unpacked_type;   /* its type with names for sizes that were `?` */
  Core *unpack_core;     /* how they are read off its value */
  bool needs_no_unpack;  /* its type has nothing to open and no variables */
  DimVar *size_var;      /* name given to an integer without a known term */
  bool used_recursively; /* inside its own definition, as it stands there */
  bool recursive; /* inside its own definition: used monomorphically, or */
  Scheme *annotation_scheme; /* as its annotation says, where that says all; or
                                NULL */
  struct BindingGroup *group;
  bool has_error;        /* its definition had an error: stay silent */
  const char *type_text; /* type as text, cached */
  Expr *value;           /* what it is bound to, for messages; or NULL */
  Clause *clause;        /* of a function of one clause; or NULL */
  Span annotation_span;  /* of its annotation, where it is a parameter */
};

/* A type name: abbreviation or datatype. */
typedef struct TypeName {
  Sym *name;
  Datatype *data;  /* or: */
  Dec *dec;        /* abbreviation, expanded where used */
  Module *module;  /* in whose scope it expands */
  Type *expansion; /* what it stands for, with sizes as its parameters, where it
                      is the same wherever it stands; or NULL */
  Dim **expansion_params; /* those parameters */
  Type *last_expansion;   /* the template where it was used last, */
  Dim **last_args;        /* with these in place of its parameters */
  bool has_error;         /* its declaration had an error: it is any type */
} TypeName;

typedef struct NameChange {
  Sym *name;
  Binding *before; /* or NULL */
} NameChange;

struct Module {
  Sym *name; /* NULL: the prelude or the program */
  Checker *checker;
  bool library;
  Map names; /* Sym -> Binding */
  Map types; /* Sym -> TypeName */
  VEC(Binding *) bindings;
  VEC(NameChange) journal; /* what the last declaration did to names */
  VEC(Module *) opened;
};

/* Local scopes: a linked list of names, innermost first. */
struct Scope {
  struct Scope *outer;
  Sym *name;
  Binding *binding;
  Dim *dim;      /* a size name of an annotation */
  Shape *shape;  /* ...s */
  ElemVar *elem; /* 'a[] */
  TyVar *tyvar;  /* 'a */
  Span span;     /* of a size or variable: where it was first written */
  uint32_t
      block_length; /* of those since a block of names ended, and this one */
  Map *block_names; /* where it ends a block: whose names are in it, and */
  struct Scope *block_outer; /* what is outside of the block */
};

/* A recursive group being inferred. */
typedef struct BindingGroup {
  struct BindingGroup *outer;
  VEC(Core *)
  occurrences; /* occurrences inside, to get hidden arguments at the end */
  VEC(Origin *) calls; /* arguments of calls of what is being defined */
  VEC(struct PolyrecUse *)
  polyrec_uses; /* those of functions that are annotated */
  Scheme *scheme;
} BindingGroup;

/* An occurrence of a polymorphic name: how its variables were instantiated. */
typedef struct SchemeInstance {
  Core *core;
  Scheme *scheme;
  Map substitution; /* generic variable -> its Elem, Dim, Shape */
} SchemeInstance;

/* A `for` being inferred: its indices and the accesses they make. */
typedef struct IndexAccess {
  Dim *axis_size, *index_expr;
  Span span;
  bool conditional;        /* under an `if` on indices, or settled */
  bool guarded;            /* the former */
  Assumption *assumptions; /* of its branch */
  int side;   /* of a slice: 1 its last, -1 its first element; else 0 */
  Expr *expr; /* x.[i, j], */
  int32_t axis_number; /* and which axis of x: from the end if negative */
} IndexAccess;
typedef struct ForScope {
  struct ForScope *outer;
  DimVar **indices;
  Dim **ranges; /* NULL while not known */
  DimVar *
      *range_metas; /* what stands for a range that is not written; or NULL */
  uint32_t count;
  Assumption *assumptions; /* of its place */
} ForScope;

/* A constraint that became part of a type at top level; its text is made when
 * it is asked for. */
typedef struct DeferredConstraint {
  Scheme *scheme;
  Constraint *given;
  Sym *name;
} DeferredConstraint;

/* A value of top level: later declarations may decide its sizes. */
typedef struct UnsizedValue {
  Type *type;
  Core **core;
} UnsizedValue;

/* A size that is handed to running code, and that equations which wait speak
 * of, without saying what it is. */
typedef struct UndeterminedSize {
  Dim *dim;
  Sym *used_name; /* what is used */
  Span use_span;
  Module *module;
  Dec *dec;
} UndeterminedSize;

typedef struct ReshapeHole { /* the _ of a reshape, and the shape with it */
  DimVar *var;
  Span shape_span;
} ReshapeHole;

typedef struct TypedHole { /* a _ in an annotation: a size, or a type */
  Span span;
  Dim *dim;
  Type *type;
} TypedHole;

typedef struct ParamType {
  Type *type;
  uint32_t first_body_size; /* sizes from this number on are of the function's
                               body */
} ParamType;

struct Checker {
  Arena *arena;
  Sources *sources;
  Interner *interner;
  DimCtx *dims;
  const CheckHost *host;
  /* Checks the definition of a library name: nested_check.c's, since what looks
   * names up stands below what checks declarations. */
  void (*check_library)(Checker *c, Module *m, Dec *dec);
  Assumptions *solver;
  uint32_t next_id;
  Module *prelude;
  Map library_modules; /* Sym -> Module */
  Datatype *list_datatype, *string_datatype;
  ElemVar *fixed_elems[DT_COUNT];

  /* of the declaration being checked */
  Diags *diags;
  Module *module;
  Scope *scope;
  uint32_t level;
  Effect *effect; /* of the body being checked */
  Constraints pending;
  bool progress;
  bool has_awake;            /* some pending constraint is to be tried */
  uint32_t solution_changes; /* solutions found, or forgotten */
  uint32_t next_order;       /* of pending constraints */
  Assumption *assumptions;
  uint32_t control_region,
      control_region_count; /* of the program, and how many there are */
  Expr *head;               /* of the application being looked at, */
  Arg *head_args;           /* and what it is applied to */
  uint32_t head_arg_count;
  VarNames *message_names;        /* of the message being written; or NULL */
  VEC(Origin *) reported;         /* whose demands were refuted, in order */
  VEC(ReshapeHole) reshape_holes; /* the _ of reshapes */
  VEC(TypedHole) typed_holes;     /* and those of annotations */
  ForScope *for_scope;
  VEC(IndexAccess) accesses;
  uint32_t index_condition_depth; /* depth of ifs on indices */
  BindingGroup *binding_group;
  Map compared_sizes; /* comparison Expr -> Terms: what its sides are known to
                         be */
  VEC(ParamType) params;        /* of the functions being checked */
  uint32_t last_existential_id; /* the number of the newest size of data */
  VEC(Assumption *)
  existential_assumptions;      /* about sizes that calls brought into being */
  VEC(Binding *) size_bindings; /* integers of top level that are sizes in it */
  VEC(DimVar *)
  discovered_sizes; /* sizes that this declaration reads off a value */
  Bindings *pattern_bindings; /* what the pattern at top level binds; or NULL */
  Map retracted_singletons; /* Expr -> flag: terms to forget there, from a first
                               pass */
  bool needs_recheck; /* some were added: check the declaration once more */
  VEC(SchemeInstance *) instances;
  uint32_t depth;
  uint32_t work;   /* steps over types in this declaration: see spend */
  Span dec_span;   /* of this declaration */
  Sym *val_name;   /* the val whose value is being inferred, or NULL */
  Sym *alias_name; /* the abbreviation being read, or NULL */
  VEC(Constraint *) residual; /* open at the end of a declaration */
  uint32_t serial;            /* of the last constraint */
  uint32_t max_unclaimed;     /* at least as many constraints have no site */
  Constraint
      *current_constraint; /* what it brings about belongs where it does */
  bool range_shortened;    /* the range last inferred is less than its axis; */
  Dim *range_min;          /* or it is this, known to be at least 1; or NULL */
  bool axis_may_be_star;   /* a literal axis may turn out to be a * */

  Constraints
      *collected_givens; /* a scheme's givens, while one is being read */

  SymbolRefs *recorded_refs; /* what stands where; NULL: nobody asks */
  SymbolRefs *active_refs;   /* the same, where it is to be noted */

  CheckStats stats;
  VEC(UnprovedConstraint) unproved;
  VEC(DeferredConstraint) deferred;
  Map defined_sizes; /* -D: Sym -> Dim */
  Map used_sizes;    /* those of them that were: Sym -> Dim */
  VEC(UnsizedValue) unsized_values;
  Map in_unproved_equations; /* DimVar: in an equation that stays open */
  VEC(UndeterminedSize) undetermined_sizes;
  Sym *sym_all, *sym_true, *sym_false;
};

#endif
