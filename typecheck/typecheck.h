/* typecheck: types with symbolic shapes, inferred; a syntax tree becomes core.
 *
 * Hindley-Milner with rows for records over constraints on sizes and shapes,
 * solved as soon as they can be, else carried to the callers, else checked
 * when the program runs.  See doc/inference in doc/language.md.
 *
 * Ownership: everything lives in the session's arena; a Checker is used from
 * one thread. */
#ifndef AXON_TYPECHECK_H
#define AXON_TYPECHECK_H

#include "parser/parser.h"
#include "runtime/runtime.h"
#include "typecheck/core.h"

typedef struct Checker Checker;
typedef struct Module Module;   /* a namespace: a file, the REPL, ... */
typedef struct Binding Binding; /* a name with its type scheme */
typedef struct Type Type;
typedef struct Scope Scope;   /* local names */
typedef struct Places Places;

typedef struct CheckHost {
  void *owner;
  /* The definition of a library name, parsed; NULL if there is none.  module is
   * NULL for the prelude. */
  Dec *(*library)(void *owner, Sym *module, Sym *name);
  bool (*library_module)(void *owner, Sym *module); /* is there one */
  /* Calls f for all of them, "nn.linear"; NULL where there is no library. */
  void (*library_names)(void (*f)(void *, const char *name), void *arg);
  /* A library definition was checked: hand it to the evaluator, to be run when
   * first used. */
  void (*define)(void *owner, CoreDec *dec);
  /* Loads, checks and runs the file that `import "path"` or `import id` names,
   * seen from source `from`.  NULL after giving a diagnostic. */
  Module *(*import)(void *owner, uint32_t from, Span span, const char *path,
                    Sym *id);
  /* The header of a data file, read at check time; false if it is not there
   * (then its sizes are checked when it is loaded), or with the reason if what
   * is there cannot be loaded. */
  bool (*header)(void *owner, const char *path, const LoadOptions *options,
                 Header *out, Fault *fault);
} CheckHost;

Checker *checker_new(Arena *session, Sources *sources, Interner *interner,
                     DimCtx *dims, const CheckHost *host);
Module *module_new(Checker *checker, Sym *name);

typedef struct Checked {
  CoreDec **decs; /* in order; none after an error */
  uint32_t dec_count;
  Binding **bindings; /* what was defined */
  uint32_t binding_count;
} Checked;

/* Checks one declaration and adds what it defines to the module (nothing after
 * an error, so that one mistake is told once).  False after an error. */
bool checker_dec(Checker *checker, Module *module, Dec *dec, Diags *diags,
                 Checked *out);
/* After the last declaration of a text, before any is run: sizes of values that
 * nothing has decided are those that the values turn out to have. */
void checker_settle(Checker *checker);
/* Takes back what the last declaration checked did to the module's names: the
 * REPL does so when it had an error, or failed when run. */
void module_undo(Module *module);
/* The type of an expression without running it; NULL after an error. */
const char *checker_expr_type(Checker *checker, Module *module, Expr *expr,
                              Diags *diags);

/* A part of a type that is no record and no tuple. */
typedef struct Leaf {
  const char *path;  /* "stage1.conv.w", of a tuple "0"; "": all of the type */
  const char *type;  /* "f32[64, 3, 7, 7]" */
  const char *count; /* of elements, "9408" or "64*n"; NULL: no tensor */
} Leaf;
typedef struct Leaves {
  const Leaf *at;
  uint32_t count;
  const char *total; /* elements of all of them */
} Leaves;
/* Those of the type of an expression that is not run; if it is a function, of
 * what it comes to when it has all its arguments.  False after an error. */
bool checker_expr_leaves(Checker *checker, Module *module, Expr *expr,
                         Diags *diags, Leaves *out);
/* Of a name's, with the sizes called as in its definition. */
bool binding_leaves(Checker *checker, Binding *binding, Diags *diags,
                    Leaves *out);

/* ---- entry.c: functions that are to be compiled for all sizes ---- */

typedef enum EntryPartKind {
  ENTRY_NONE,
  ENTRY_TENSOR, /* dtype, rank, dims, stars, term; rank 0: a scalar */
  ENTRY_TUPLE,  /* parts */
  ENTRY_RECORD, /* parts, labels */
  ENTRY_SHAPE,  /* rank, dims, stars: a shape as a value */
  ENTRY_ABSENT, /* an optional parameter, which is left out */
} EntryPartKind;
typedef struct EntryPart { /* of what a function takes */
  EntryPartKind kind;
  Dtype dtype;
  uint32_t rank, stars; /* bit k: axis k is a * */
  Dim **dims;           /* of each axis that is none */
  Dim *term;            /* the size that an integer is; or NULL */
  struct EntryPart *parts;
  Sym **labels;
  uint32_t count;
} EntryPart;
typedef struct EntryGiven { /* what its callers have to make sure of */
  CheckKind kind;
  Dim *left, *right;
  CoreCond *conds; /* where these hold */
  uint32_t cond_count;
  const char *text;
} EntryGiven;
typedef struct EntryPoint {
  const char *name, *type, *doc;
  Span span;
  const Var *var;
  const char **names; /* of the parameters, */
  bool *labelled; /* as the program says, or by what they are called there */
  EntryPart *params;
  uint32_t param_count;
  const Hidden *hidden; /* sizes alone, that it is told beside them */
  uint32_t hidden_count;
  EntryGiven *givens;
  uint32_t given_count;
  bool computes; /* tensors, and records and tuples of them, and does no more */
} EntryPoint;
/* All sizes are in the terms of the function's own type: their variables are
 * those that a caller is free to choose.  False after an error: it is no
 * function, or its type leaves more open than sizes.  of: whose name it has,
 * and parameters: it calls nothing else; name: as the user writes that one. */
bool checker_entry(Checker *checker, Binding *binding, const Binding *of,
                   const char *name, Diags *diags, EntryPoint *out);

/* ---- what is known about names ---- */
const char *binding_type(Checker *checker, Binding *binding); /* as printed */
/* How it came about: a note with the shapes on the way and their arithmetic,
 * and marks where sizes were made equal and conditions arose.  NULL: it has no
 * type. */
const Diag *checker_why(Checker *checker, Binding *binding, Diags *diags);
/* The parameters of a function's type, in order, and what it comes to. */
typedef struct Taken {
  const char *name; /* in its definition, where it has one there; or NULL */
  const char *label; /* as a call writes it, without ~; or NULL */
  bool optional;
  const char *type;
  Dtype dtype; /* of a tensor, if settled */
  int rank;    /* of a tensor; -1: none, or any */
} Taken;
typedef struct Signature {
  const Taken *at;
  uint32_t count;
  Taken result;
} Signature;
/* False: it has no type. */
bool binding_signature(Checker *checker, Binding *binding, Signature *out);
/* Checks one declaration of what a host does, not of the program: it leaves
 * neither names nor counts of constraints. */
bool checker_dec_apart(Checker *checker, Module *module, Dec *dec,
                       Diags *diags, Checked *out);
Sym *binding_name(const Binding *binding);
const char *binding_doc(const Binding *binding); /* or NULL */
const Var *binding_var(const Binding *binding);
/* A name as a user would write it ("softmax", "nn.linear", a primitive) seen
 * from a module; NULL if unknown. */
Binding *checker_find(Checker *checker, Module *module, const char *name);
/* Calls f for every own name of a module. */
void module_each(Module *module, void (*f)(void *, Binding *), void *arg);
/* Field names of a binding of record type, for completion. */
void binding_fields(Checker *checker, Binding *binding,
                    void (*f)(void *, const char *name), void *arg);

Span binding_span(const Binding *b); /* of the name where it is bound */
typedef enum BindingSort {
  SORT_NONE,
  SORT_VALUE,
  SORT_FUNCTION,
  SORT_CONSTRUCTOR,
  SORT_SIZE,
  SORT_MODULE,
} BindingSort;
BindingSort binding_sort(Checker *checker, Binding *b);
Module *binding_target(const Binding *b); /* of a module; else NULL */
Sym *module_called(const Module *module);   /* NULL: of a program */
bool module_is_library(const Module *module);
/* Modules that `open` has opened in it. */
void module_each_opened(const Module *module, void (*f)(void *, Module *),
                        void *arg);

/* ---- places.c: which names stand where, for editors ---- */
typedef enum PlaceKind {
  PLACE_NONE,
  PLACE_EXPR,   /* an expression: made when one is asked about */
  PLACE_VALUE,  /* a name: of a value, function or constructor (binding) */
  PLACE_SIZE,   /* of a size, a shape or a type variable in an annotation */
  PLACE_TYPE,   /* of a type (dec) */
  PLACE_LABEL,  /* of an argument */
  PLACE_FIELD,  /* of a record */
  PLACE_MODULE, /* of a module (binding) */
} PlaceKind;
typedef struct Place {
  PlaceKind kind;
  Span span;        /* of a name: without ~, ... and the like */
  bool bound;       /* here the name is bound */
  Span def;         /* of a name: where it is bound; or none */
  Sym *name;
  Binding *binding; /* or NULL */
  const Dec *dec;
  Binding *applied; /* PLACE_LABEL: what the argument is for; or NULL */
  Type *type;       /* as it is here; or NULL */
  Binding *around;  /* of top level: types are told in its names; or NULL */
  Scope *scope;     /* what it sees */
} Place;
/* From now on; those of texts of the library are not kept. */
void checker_keep_places(Checker *checker, bool keep);
Places *checker_swap_places(Checker *checker, Places *places); /* the old */
/* In order of checking; types are known once their declaration is checked. */
const Place *checker_places(const Checker *checker, uint32_t *count);
/* Of an expression in a declaration that was checked. */
Place place_of_expr(const Module *module, const Dec *dec, const Expr *expr);
/* Its type as text; NULL: there is none. */
const char *place_type(Checker *checker, const Place *place);
/* The names of values that a declaration with these places sees or binds. */
Map *places_names(Checker *checker, Module *module, const Place *from,
                  uint32_t count);
/* Its type so that it can be written there: no size is called like a value. */
const char *place_annotation(Checker *checker, const Place *place,
                             const Map *names);
/* Checks declarations, one after the other, without a trace; false after an
 * error. */
bool checker_tries(Checker *checker, Module *module, Dec *const *decs,
                   uint32_t count);
bool place_is_tensor(Checker *checker, const Place *place);
/* Fields of a record; parameters with labels of a function: of a PLACE_LABEL,
 * of the one that is applied. */
void place_fields(Checker *checker, const Place *place,
                  void (*f)(void *, Sym *name, const char *type), void *arg);
void place_labels(Checker *checker, const Place *place,
                  void (*f)(void *, Sym *name, bool optional,
                            const char *type),
                  void *arg);
/* Local names that are seen from there, innermost first; binding may be NULL
 * (a size). */
void place_scope(Checker *checker, const Place *place,
                 void (*f)(void *, Sym *name, Binding *binding,
                           const char *type),
                 void *arg);

/* ---- constraints ---- */
/* What they are about. */
typedef enum CheckRow {
  ROW_NONE,
  ROW_SIZE,   /* two sizes are equal */
  ROW_SHAPE,  /* two shapes with splices are */
  ROW_JOIN,   /* shapes broadcast */
  ROW_PROD,   /* numbers of elements are equal, a division is exact */
  ROW_LE,     /* a size is at most another */
  ROW_AXIS,   /* there is such an axis */
  ROW_KEEP,   /* which axes are kept */
  ROW_LIFT,   /* a leading axis on all parts */
  ROW_CLASS,  /* element types of a class */
  ROW_RECORD, /* fields */
  ROW_COUNT
} CheckRow;

/* Proved and carried: of what was asked to be checked, not of the library that
 * it uses; open: of both. */
typedef struct CheckStats {
  uint64_t proved;
  uint64_t carried; /* part of a type: each call has to meet them */
  uint64_t open;    /* checked when the program runs */
  struct CheckCount { /* by what they are about; some are no constraints, but */
    uint64_t proved, carried, open; /* were decided at once */
  } row[ROW_COUNT];
} CheckStats;
CheckStats checker_stats(const Checker *checker);
/* Constraints that were not proved since the start, in order of checking. */
typedef struct OpenConstraint {
  Span span;
  const char *text;   /* "n == m" */
  const char *reason; /* "a size that data decides"; NULL: carried */
  const char *name;   /* carried: by the type of this name */
} OpenConstraint;
const OpenConstraint *checker_open(Checker *checker, uint32_t *count);
/* -D n=64: a size that data at top level leaves open. */
void checker_define_size(Checker *checker, Sym *name, int64_t value);
/* Was a size of that name found, which data would have left open? */
bool checker_met_size(const Checker *checker, Sym *name);

#endif
