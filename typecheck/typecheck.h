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
typedef struct Scope Scope; /* local names */
typedef struct SymbolRefs SymbolRefs;
typedef struct Refutation Refutation; /* typecheck/refutation.h */
typedef struct Suggestion Suggestion;

typedef struct CheckHost {
  void *owner;
  /* The definition of a library name, parsed; NULL if there is none.  module is
   * NULL for the prelude. */
  Dec *(*library_definition)(void *owner, Sym *module, Sym *name);
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
  bool (*read_header)(void *owner, const char *path, const LoadOptions *options,
                      TensorHeader *out, Fault *fault);
  /* Tell an error, and add a way out to a message: those of diagnose/. */
  void (*refuted)(Checker *checker, const Refutation *refutation);
  void (*suggest)(Checker *checker, Diag *message, const Suggestion *way_out);
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
void checker_default_sizes(Checker *checker);
/* Takes back what the last declaration checked did to the module's names: the
 * REPL does so when it had an error, or failed when run. */
void module_undo(Module *module);
/* The type of an expression without running it; NULL after an error. */
const char *checker_expr_type(Checker *checker, Module *module, Expr *expr,
                              Diags *diags);

/* A part of a type that is no record and no tuple. */
typedef struct TypeLeaf {
  const char *path; /* "stage1.conv.w", of a tuple "0"; "": all of the type */
  const char *type; /* "f32[64, 3, 7, 7]" */
  const char
      *element_count; /* of elements, "9408" or "64*n"; NULL: no tensor */
} TypeLeaf;
typedef struct TypeLeaves {
  const TypeLeaf *leaves;
  uint32_t count;
  const char *total_elements; /* elements of all of them */
} TypeLeaves;
/* Those of the type of an expression that is not run; if it is a function, of
 * what it comes to when it has all its arguments.  False after an error. */
bool checker_expr_leaves(Checker *checker, Module *module, Expr *expr,
                         Diags *diags, TypeLeaves *out);
/* Of a name's, with the sizes called as in its definition. */
bool binding_leaves(Checker *checker, Binding *binding, Diags *diags,
                    TypeLeaves *out);

/* ---- aot_entry.c: functions that are to be compiled for all sizes ---- */

typedef enum EntryTypeKind {
  ENTRY_NONE,
  ENTRY_TENSOR, /* dtype, rank, dims, stars, term; rank 0: a scalar */
  ENTRY_TUPLE,  /* parts */
  ENTRY_RECORD, /* parts, labels */
  ENTRY_SHAPE,  /* rank, dims, stars: a shape as a value */
  ENTRY_ABSENT, /* an optional parameter, which is left out */
} EntryTypeKind;
typedef struct EntryType { /* of what a function takes */
  EntryTypeKind kind;
  Dtype dtype;
  uint32_t rank, broadcast_mask; /* bit k: axis k is a * */
  Dim **dims;                    /* of each axis that is none */
  Dim *singleton;                /* the size that an integer is; or NULL */
  struct EntryType *parts;
  Sym **labels;
  uint32_t count;
} EntryType;
typedef struct EntryPrecondition { /* what its callers have to make sure of */
  CheckKind kind;
  Dim *left, *right;
  CoreCondition *conditions; /* where these hold */
  uint32_t condition_count;
  const char *text;
} EntryPrecondition;
typedef struct EntryPoint {
  const char *name, *type, *doc;
  Span span;
  const Var *var;
  const char **names; /* of the parameters, */
  bool *labelled; /* as the program says, or by what they are called there */
  EntryType *params;
  uint32_t param_count;
  const ImplicitArg *implicits; /* sizes alone, that it is told beside them */
  uint32_t implicit_count;
  EntryPrecondition *preconditions;
  uint32_t precondition_count;
  bool is_pure_tensor_function; /* tensors, and records and tuples of them, and
                                   does no more */
} EntryPoint;
/* All sizes are in the terms of the function's own type: their variables are
 * those that a caller is free to choose.  False after an error: it is no
 * function, or its type leaves more open than sizes.  of: whose name it has,
 * and parameters: it calls nothing else; name: as the user writes that one. */
bool checker_entry(Checker *checker, Binding *binding, const Binding *of,
                   const char *name, Diags *diags, EntryPoint *out);

/* ---- what is known about names ---- */
const char *binding_type(Checker *checker, Binding *binding); /* as printed */
/* The parameters of a function's type, in order, and what it comes to. */
typedef struct ParamInfo {
  const char *name;  /* in its definition, where it has one there; or NULL */
  const char *label; /* as a call writes it, without ~; or NULL */
  bool optional;
  const char *type;
  Dtype dtype; /* of a tensor, if settled */
  int rank;    /* of a tensor; -1: none, or any */
} ParamInfo;
typedef struct Signature {
  const ParamInfo *params;
  uint32_t count;
  ParamInfo result;
} Signature;
/* False: it has no type. */
bool binding_signature(Checker *checker, Binding *binding, Signature *out);
/* Checks one declaration of what a host does, not of the program: it leaves
 * neither names nor counts of constraints. */
bool checker_dec_isolated(Checker *checker, Module *module, Dec *dec,
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
typedef enum BindingSymbolKind {
  SYMBOL_KIND_NONE,
  SYMBOL_KIND_VALUE,
  SYMBOL_KIND_FUNCTION,
  SYMBOL_KIND_CONSTRUCTOR,
  SYMBOL_KIND_SIZE,
  SYMBOL_KIND_MODULE,
} BindingSymbolKind;
BindingSymbolKind binding_symbol_kind(Checker *checker, Binding *b);
Module *binding_module(const Binding *b); /* of a module; else NULL */
Sym *module_sym(const Module *module);    /* NULL: of a program */
bool module_is_library(const Module *module);
/* Modules that `open` has opened in it. */
void module_each_opened(const Module *module, void (*f)(void *, Module *),
                        void *arg);

/* ---- symbol_refs.c: which names stand where, for editors ---- */
typedef enum SymbolRefKind {
  REF_NONE,
  REF_EXPR,   /* an expression: made when one is asked about */
  REF_VALUE,  /* a name: of a value, function or constructor (binding) */
  REF_SIZE,   /* of a size, a shape or a type variable in an annotation */
  REF_TYPE,   /* of a type (dec) */
  REF_LABEL,  /* of an argument */
  REF_FIELD,  /* of a record */
  REF_MODULE, /* of a module (binding) */
} SymbolRefKind;
typedef struct SymbolRef {
  SymbolRefKind kind;
  Span span;          /* of a name: without ~, ... and the like */
  bool is_definition; /* here the name is bound */
  Span definition;    /* of a name: where it is bound; or none */
  Sym *name;
  Binding *binding; /* or NULL */
  const Dec *dec;
  Binding *callee;    /* REF_LABEL: what the argument is for; or NULL */
  Type *type;         /* as it is here; or NULL */
  Binding *enclosing; /* of top level: types are told in its names; or NULL */
  Scope *scope;       /* what it sees */
} SymbolRef;
/* From now on; those of texts of the library are not kept. */
void checker_record_refs(Checker *checker, bool keep);
SymbolRefs *checker_swap_refs(Checker *checker,
                              SymbolRefs *places); /* the old */
/* In order of checking; types are known once their declaration is checked. */
const SymbolRef *checker_refs(const Checker *checker, uint32_t *count);
/* Of an expression in a declaration that was checked. */
SymbolRef ref_of_expr(const Module *module, const Dec *dec, const Expr *expr);
/* Its type as text; NULL: there is none. */
const char *ref_type(Checker *checker, const SymbolRef *place);
/* The names of values that a declaration with these places sees or binds. */
Map *refs_visible_names(Checker *checker, Module *module, const SymbolRef *from,
                        uint32_t count);
/* Its type so that it can be written there: no size is called like a value. */
const char *ref_annotation(Checker *checker, const SymbolRef *place,
                           const Map *names);
/* Checks declarations, one after the other, without a trace; false after an
 * error. */
bool checker_try_decs(Checker *checker, Module *module, Dec *const *decs,
                      uint32_t count);
bool ref_is_tensor(Checker *checker, const SymbolRef *place);
/* Fields of a record; parameters with labels of a function: of a REF_LABEL, of
 * the one that is applied. */
void ref_fields(Checker *checker, const SymbolRef *place,
                void (*f)(void *, Sym *name, const char *type), void *arg);
void ref_labels(Checker *checker, const SymbolRef *place,
                void (*f)(void *, Sym *name, bool optional, const char *type),
                void *arg);
/* Local names that are seen from there, innermost first; binding may be NULL
 * (a size). */
void ref_scope(Checker *checker, const SymbolRef *place,
               void (*f)(void *, Sym *name, Binding *binding, const char *type),
               void *arg);

/* ---- constraints ---- */
/* What they are about. */
typedef enum ConstraintClass {
  CONSTRAINT_NONE,
  CONSTRAINT_SIZE_EQ,   /* two sizes are equal */
  CONSTRAINT_SHAPE_EQ,  /* two shapes with splices are */
  CONSTRAINT_BROADCAST, /* shapes broadcast */
  CONSTRAINT_PRODUCT,   /* numbers of elements are equal, a division is exact */
  CONSTRAINT_SIZE_LE,   /* a size is at most another */
  CONSTRAINT_AXIS,      /* there is such an axis */
  CONSTRAINT_KEEP,      /* which axes are kept */
  CONSTRAINT_LIFT,      /* a leading axis on all parts */
  CONSTRAINT_ELEM_CLASS, /* element types of a class */
  CONSTRAINT_RECORD,     /* fields */
  CONSTRAINT_CLASS_COUNT
} ConstraintClass;

/* Proved and carried: of what was asked to be checked, not of the library that
 * it uses; open: of both. */
typedef struct CheckStats {
  uint64_t proved;
  uint64_t deferred;        /* part of a type: each call has to meet them */
  uint64_t runtime;         /* checked when the program runs */
  struct ConstraintCounts { /* by what they are about; some are no constraints,
                               but */
    uint64_t proved, deferred, runtime; /* were decided at once */
  } by_class[CONSTRAINT_CLASS_COUNT];
} CheckStats;
CheckStats checker_stats(const Checker *checker);
/* Constraints that were not proved since the start, in order of checking. */
typedef struct UnprovedConstraint {
  Span span;
  const char *text;   /* "n == m" */
  const char *reason; /* "a size that data decides"; NULL: carried */
  const char *name;   /* carried: by the type of this name */
} UnprovedConstraint;
const UnprovedConstraint *checker_unproved(Checker *checker, uint32_t *count);
/* -D n=64: a size that data at top level leaves open. */
void checker_define_size(Checker *checker, Sym *name, int64_t value);
/* Was a size of that name found, which data would have left open? */
bool checker_used_size(const Checker *checker, Sym *name);

#endif
