/* What inference works on: element types, shapes, types, constraints, schemes
 * and the state of a checker; internal.h has what is done with them.  Terms:
 * meta (a variable to be solved), rigid (an annotation's name: stands for
 * everything), generic (quantified in a scheme), data (a size that only running
 * code knows), term (the size that an integer is known to equal), top (no known
 * term). */
#ifndef AXON_TYPECHECK_STATE_H
#define AXON_TYPECHECK_STATE_H

#include "lexer/lexer.h"
#include "typecheck/typecheck.h"

enum { LEVEL_GENERIC = 0x7fffffff };

typedef struct Shape Shape;
typedef struct Constraint Constraint;
typedef struct Waiter Waiter;   /* wait.c's, like */
typedef struct Definer Definer; /* this one */
typedef struct Names Names;     /* print.c's */
typedef struct Scheme Scheme;
typedef struct Terms { /* the sides of a comparison of sizes */
  Dim *left, *right;
} Terms;

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
  bool rigid;
  Sym *name;
  ElemVar *link; /* a solved meta */
  const char *text;
  uint8_t prefer; /* when undetermined: 1 int, 2 f32; 0: nobody minds, f32 */
};

/* ---- shapes ---- */

typedef enum ItemTag { IT_DIM, IT_STAR, IT_SPLICE } ItemTag;
typedef struct Item0 {
  ItemTag tag;
  Dim *dim;
  ShapeVar *var;
  bool literal; /* IT_DIM: of a literal axis, and may be a * (dim.h) */
} ShapeIt;

struct Shape {
  uint32_t len;
  ShapeIt at[];
};

struct ShapeVar {
  uint32_t id, level;
  bool rigid;
  int fixed; /* exactly so many axes; -1: any number */
  Sym *name;
  Shape *bound;
  const char *text;
  Waiter *waiting;
  Definer *defined;
};

/* ---- types ---- */

typedef enum EffectTag { EF_PURE, EF_EFFECT, EF_VAR } EffectTag;
typedef struct Effect Effect;
struct Effect { /* of an arrow: one bit, or a variable */
  EffectTag tag;
  uint32_t level;
  Effect *link;
  VEC(Effect *) lowers; /* effects of which it has at least these */
};

typedef enum TypeTag {
  TY_VAR,    /* var */
  TY_TENSOR, /* elem, shape, term */
  TY_FUN,    /* label, optional, preset; arg[0] -> arg[1]; effect */
  TY_TUPLE,  /* args */
  TY_RECORD, /* labels (sorted), args; arg[0] the row's rest (TY_VAR) or NULL */
  TY_DATA,   /* data, args, dims */
  TY_SHAPE,  /* shape */
  TY_AXIS,   /* axis: s, r, t */
  TY_KEEP,   /* axis[0] u, axis[1] r */
  TY_LIFT,   /* dim, arg[0] */
} TypeTag;

typedef struct TyVar {
  uint32_t id, level;
  bool rigid;
  bool element; /* an element of a tensor: an integer is data, of no known
                   term */
  Sym *name;
  Type *link;
  const char *text;
} TyVar;

typedef struct Data { /* a datatype; list, string and key are such, too */
  Sym *name, *module;
  Span span;
  uint32_t arity, dim_arity;
  struct DataCon {
    Con con;
    Scheme *scheme; /* arg -> data, or data */
    Span span;
  } *cons;
  uint32_t con_count;
  Dec *dec; /* or NULL: built in */
} Data;

struct Type {
  TypeTag tag;
  Span span; /* of the annotation that made it, or none */
  TyVar *var;
  ElemVar *elem;
  Shape *shape;
  Dim *term; /* TY_TENSOR: NULL is top */
  Sym *label;
  bool optional;
  Type *preset; /* type of the default of an optional parameter; or NULL */
  Effect *effect;
  Type *arg[2];
  Type **args;
  Sym **labels;
  uint32_t count;
  Data *data;
  Dim **dims;
  Shape *axis[3];
  Dim *dim;
  Sym *alias; /* the abbreviation that the user wrote, for printing, */
  Dim **alias_dims; /* and its sizes */
  uint32_t alias_count;
};

/* ---- facts: a persistent list, innermost first ---- */

typedef struct Fact {
  struct Fact *outer;
  bool eq;  /* dim == 0, else dim >= 0 */
  bool ne;  /* dim != 0 */
  Dim *dim;
  bool index; /* the range of a for index: not part of an implication */
  bool known; /* holds for good: not part of one, either */
  bool unsaid; /* 0 == 0: there is a condition on sizes that no fact says */
} Fact;

/* ---- constraints ---- */

typedef enum OriginKind {
  OR_NONE, OR_ARG, OR_OPERATOR, OR_ANNOTATION, OR_BRANCH, OR_ELEMENT, OR_INDEX,
  OR_RANGE, OR_PATTERN, OR_RESULT, OR_DEFAULT, OR_GIVEN, OR_FIELD,
} OriginKind;

typedef struct Origin { /* where a demand came from, for the message */
  OriginKind kind;
  Span span;        /* primary place */
  Span other;       /* the other party, or none */
  Expr *left, *right; /* OR_OPERATOR: the operands; of concat what met */
  const char *what; /* "softmax", "op @" */
  uint32_t number;  /* argument number, axis */
  PrimId prim;
  Expr *expr;
  Type *got, *want; /* the whole types that met */
  Sym *label;        /* OR_ARG: of a labelled argument */
  Scheme *scheme;    /* whose given it was */
  Expr *head;        /* OR_FIELD: the record; of concat the axis;
                        OR_ARG: what is called, */
  Type *fun;         /* its type, */
  Arg *args;         /* and all arguments of the call */
  uint32_t arg_count;
  Dim *from, *to, *axis; /* OR_INDEX: the position or range, and the size */
  struct Origin *inner; /* of a given: where it arose in the body, */
  Map *put_in;          /* and what its variables stand for at this call */
  struct PutIn *as;     /* of one in a body, for a message: as a call has it */
  Dim *about[2];        /* for a message: the sizes that met */
  struct Binding *self; /* what is called, where it calls itself */
  bool state;        /* OR_ARG: a callback makes others of its type: a loop's */
} Origin;

typedef enum ConstraintKind {
  CN_DIM_EQ, CN_DIM_LE, CN_DIM_NE, CN_SHAPE_EQ, CN_JOIN, CN_KEEP,
} ConstraintKind;

struct Constraint {
  ConstraintKind kind;
  Origin *origin;
  Dim *left, *right;
  Dim *divisor;    /* where left is to be a multiple of it, for the message */
  Shape *a, *b;    /* SHAPE_EQ; KEEP: a == keep of b */
  Shape **joined;  /* JOIN: a == join of these */
  uint32_t join_count;
  Fact *facts;     /* in whose scope it stands */
  uint32_t level;
  bool done;
  bool at_run_time; /* only the running program can tell */
  bool divides;    /* that a division is exact, to be seen to by callers */
  bool joins;      /* demanded by a join */
  bool enough;     /* what is wanted follows from it, not the reverse */
  bool assumed;    /* written by the user: not to be proved here */
  bool pending, asleep; /* in the list; nothing in it has changed (wait.c) */
  bool compared;        /* with another that is being demanded (solve.c) */
  uint32_t order, turn;
  uint32_t serial; /* in order of demand */
  uint32_t part;   /* of the program in which it arose (part_begin) */
  Core *site;      /* the expression that claimed it (checks.c); or NULL */
  bool after;      /* its test comes after the value of the site */
  bool placed;     /* its test was put there */
  bool implied;    /* of a call: it holds where facts that may not hold do */
  Fact *scope;     /* those of the facts that hold at the site */
};

typedef VEC(Constraint *) Constraints;
typedef VEC(Binding *) Bindings;

/* ---- schemes and bindings ---- */

struct Scheme { /* variables of level LEVEL_GENERIC are quantified */
  Type *type;
  Constraint **given;
  uint32_t given_count;
  bool poly; /* has any quantified variable */
  VEC(Hidden) hidden; /* those that running code needs, */
  Core *tlam;         /* of which it takes them; or NULL */
};

typedef enum BindingKind {
  BK_VALUE, BK_PRIM, BK_CON, BK_MODULE,
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
  Data *data;
  Module *target;   /* BK_MODULE */
  Dim *dim;         /* BK_SIZE */
  uint32_t level;   /* where it was bound */
  Type *opened;     /* its type with names for sizes that were `?` */
  Core *opening;    /* how they are read off its value */
  bool plain;       /* its type has nothing to open and no variables */
  DimVar *size;     /* name given to an integer without a known term */
  bool used;        /* inside its own definition, as it stands there */
  bool recursive;   /* inside its own definition: used monomorphically, or */
  Scheme *annotated; /* as its annotation says, where that says all; or NULL */
  struct Group *group;
  bool failed;      /* its definition had an error: stay silent */
  const char *shown;  /* type as text, cached */
  Expr *value;        /* what it is bound to, for messages; or NULL */
  Clause *clause;     /* of a function of one clause; or NULL */
  Span said;          /* of its annotation, where it is a parameter */
};

/* A type name: abbreviation or datatype. */
typedef struct TypeName {
  Sym *name;
  Data *data;     /* or: */
  Dec *dec;       /* abbreviation, expanded where used */
  Module *module; /* in whose scope it expands */
  Type *template; /* what it stands for, with sizes as its parameters, where it
                     is the same wherever it stands; or NULL */
  Dim **sizes;    /* those parameters */
  Type *last;     /* the template where it was used last, */
  Dim **at;       /* with these in place of its parameters */
  bool failed;    /* its declaration had an error: it is any type */
} TypeName;

typedef struct NameChange {
  Sym *name;
  Binding *before; /* or NULL */
} NameChange;

struct Module {
  Sym *name; /* NULL: the prelude or the program */
  Checker *checker;
  bool library;
  Map names;  /* Sym -> Binding */
  Map types;  /* Sym -> TypeName */
  VEC(Binding *) order;
  VEC(NameChange) journal; /* what the last declaration did to names */
  VEC(Module *) opened;
};

/* Local scopes: a linked list of names, innermost first. */
struct Scope {
  struct Scope *outer;
  Sym *name;
  Binding *binding;
  Dim *dim;         /* a size name of an annotation */
  Shape *shape;     /* ...s */
  ElemVar *elem;    /* 'a[] */
  TyVar *tyvar;     /* 'a */
  Span span;        /* of a size or variable: where it was first written */
  uint32_t count;   /* of those since a block of names ended, and this one */
  Map *names;       /* where it ends a block: whose names are in it, and */
  struct Scope *before; /* what is outside of the block */
};

/* A recursive group being inferred. */
typedef struct Group {
  struct Group *outer;
  VEC(Core *) uses; /* occurrences inside, to get hidden arguments at the end */
  VEC(Origin *) calls; /* arguments of calls of what is being defined */
  VEC(struct PolyUse *) poly; /* those of functions that are annotated */
  Scheme *scheme;
} Group;

/* An occurrence of a polymorphic name: how its variables were instantiated. */
typedef struct Inst {
  Core *core;
  Scheme *scheme;
  Map map; /* generic variable -> its Elem, Dim, Shape */
} Inst;

/* A `for` being inferred: its indices and the accesses they make. */
typedef struct Access {
  Dim *axis, *term;
  Span span;
  bool conditional; /* under an `if` on indices, or settled */
  bool guarded;     /* the former */
  Fact *facts; /* of its branch */
  int side;    /* of a slice: 1 its last, -1 its first element; else 0 */
  Expr *expr;  /* x.[i, j], */
  int32_t number; /* and which axis of x: from the end if negative */
} Access;
typedef struct Loop {
  struct Loop *outer;
  DimVar **index;
  Dim **range;    /* NULL while not known */
  DimVar **later; /* what stands for a range that is not written; or NULL */
  uint32_t count;
  Fact *facts; /* of its place */
} Loop;

/* A constraint that became part of a type at top level; its text is made when
 * it is asked for. */
typedef struct Carried {
  Scheme *scheme;
  Constraint *given;
  Sym *name;
} Carried;

/* A value of top level: later declarations may decide its sizes. */
typedef struct Unsized {
  Type *type;
  Core **core;
} Unsized;

/* A size that is handed to running code, and that equations which wait speak
 * of, without saying what it is. */
typedef struct Unfound {
  Dim *dim;
  Sym *of; /* what is used */
  Span use;
  Module *module;
  Dec *dec;
} Unfound;

typedef struct Filled { /* the _ of a reshape, and the shape with it */
  DimVar *var;
  Span shape;
} Filled;

typedef struct AnnotHole { /* a _ in an annotation: a size, or a type */
  Span span;
  Dim *dim;
  Type *type;
} AnnotHole;

typedef struct ParamType {
  Type *type;
  uint32_t from; /* sizes from this number on are of the function's body */
} ParamType;

struct Checker {
  Arena *arena;
  Sources *sources;
  Interner *in;
  DimCtx *dims;
  const CheckHost *host;
  DimFacts *solver;
  uint32_t next_id;
  Module *prelude;
  Map library_modules; /* Sym -> Module */
  Data *data_list, *data_string;
  ElemVar *fixed[DT_COUNT];

  /* of the declaration being checked */
  Diags *diags;
  Module *module;
  Scope *scope;
  uint32_t level;
  Effect *effect; /* of the body being checked */
  Constraints pending;
  bool progress;
  bool awake;          /* some pending constraint is to be tried */
  uint32_t changes;    /* solutions found, or forgotten */
  uint32_t next_order; /* of pending constraints */
  Fact *facts;
  uint32_t part, parts; /* of the program, and how many there are */
  Expr *head;     /* of the application being looked at, */
  Arg *head_args; /* and what it is applied to */
  uint32_t head_arg_count;
  Names *names;   /* of the message being written; or NULL */
  VEC(Origin *) told; /* whose demands were refuted, in order */
  VEC(Filled) holes;    /* the _ of reshapes */
  VEC(AnnotHole) unwritten; /* and those of annotations */
  Loop *loop;
  VEC(Access) accesses;
  uint32_t conditional; /* depth of ifs on indices */
  Group *group;
  Map terms;      /* comparison Expr -> Terms: what its sides are known to be */
  VEC(ParamType) params; /* of the functions being checked */
  uint32_t last_data;    /* the number of the newest size of data */
  VEC(Fact *) data_facts; /* about sizes that calls brought into being */
  VEC(Binding *) sized; /* integers of top level that are sizes in it */
  VEC(DimVar *) found; /* sizes that this declaration reads off a value */
  Bindings *bound; /* what the pattern at top level binds; or NULL */
  Map forgotten;  /* Expr -> flag: terms to forget there, from a first pass */
  bool again;     /* some were added: check the declaration once more */
  VEC(Inst *) insts;
  uint32_t depth;
  uint32_t work; /* steps over types in this declaration: see spend */
  Span at;       /* of this declaration */
  Sym *naming;   /* the val whose value is being inferred, or NULL */
  Sym *defining; /* the abbreviation being read, or NULL */
  VEC(Constraint *) stuck; /* open at the end of a declaration */
  uint32_t serial;         /* of the last constraint */
  uint32_t unclaimed;      /* at least as many constraints have no site */
  Constraint *solving;     /* what it brings about belongs where it does */
  bool shortened; /* the range last inferred is less than its axis; */
  Dim *tightened; /* or it is this, known to be at least 1; or NULL */
  bool loose_axis; /* a literal axis may turn out to be a * */

  Constraints *collect; /* a scheme's givens, while one is being read */

  Places *kept;   /* what stands where; NULL: nobody asks */
  Places *places; /* the same, where it is to be noted */

  CheckStats stats;
  VEC(OpenConstraint) open;
  VEC(Carried) carried;
  Map sizes; /* -D: Sym -> Dim */
  Map sizes_met; /* those of them that were: Sym -> Dim */
  VEC(Unsized) unsized;
  Map entangled; /* DimVar: in an equation that stays open */
  VEC(Unfound) unfound;
  Sym *sym_all, *sym_true, *sym_false;
};

#endif
