/* typecheck: inference of types with symbolic shapes.  Converts a syntax tree
 * to core.  Main entry point: checker_dec.
 *
 * Hindley-Milner inference with row types for records and constraints on sizes
 * and shapes.  A constraint is solved as soon as possible.  Otherwise it
 * becomes part of a type (deferred to callers), or a run-time check.  See
 * "Inference" in doc/language.md.
 *
 * Ownership: everything lives in the session's arena.  A Checker is used by one
 * thread. */
#ifndef AXON_TYPECHECK_H
#define AXON_TYPECHECK_H

#include "parser/parser.h"
#include "runtime/runtime.h"
#include "support/span.h"
#include "typecheck/core.h"

typedef struct Arena Arena;
typedef struct Checker Checker;
typedef struct Diag Diag;
typedef struct Diags Diags;
typedef struct Interner Interner;
typedef struct Map Map;
typedef struct Sources Sources;
typedef struct Sym Sym;
typedef struct Module Module;   /* namespace: a file, the REPL, ... */
typedef struct Binding Binding; /* a name with its type scheme */
typedef struct Type Type;
typedef struct Scope Scope; /* local names */
typedef struct SymbolRefs SymbolRefs;
typedef struct Refutation Refutation; /* typecheck/refutation.h */
typedef struct Suggestion Suggestion;

typedef struct CheckHost {
  void *owner;
  /* Returns the parsed definition of a library name, or NULL. module is NULL
     for the prelude. */
  Dec *(*library_definition)(void *owner, Sym *module, Sym *name);
  bool (*library_module)(void *owner, Sym *module); /* true if it exists */
  /* Calls f for all documented names of the library, such as "nn.linear".
     NULL if there is no library. */
  void (*library_names)(void (*f)(void *, const char *name), void *arg);
  /* Receives a checked library definition.  The evaluator runs it at its first
     use. */
  void (*define)(void *owner, CoreDec *dec);
  /* Loads, checks and runs the file of `import "path"` or `import id` in source
     `from`.  Returns NULL after a diagnostic. */
  Module *(*import)(void *owner, uint32_t from, Span span, const char *path,
                    Sym *id);
  /* Reads the header of a data file during checking.  Returns false if the file
     does not exist; then its sizes are checked when it is loaded.  Also returns
     false, with a reason, if the file cannot be loaded. */
  bool (*read_header)(void *owner, const char *path, const LoadOptions *options,
                      TensorHeader *out, Fault *fault);
  /* Functions of diagnose/: report an error; add a suggested correction to a
     message. */
  void (*refuted)(Checker *checker, const Refutation *refutation);
  void (*suggest)(Checker *checker, Diag *message, const Suggestion *way_out);
} CheckHost;

Checker *checker_new(Arena *session, Sources *sources, Interner *interner,
                     DimCtx *dims, const CheckHost *host);
Module *module_new(Checker *checker, Sym *name);

typedef struct Checked {
  CoreDec **decs; /* in order; empty after an error */
  uint32_t dec_count;
  Binding **bindings; /* the defined names */
  uint32_t binding_count;
} Checked;

/* Checks a declaration and adds what it defines to the module.  After an error
   returns false, and adds nothing, so that one mistake is reported once. */
bool checker_dec(Checker *checker, Module *module, Dec *dec, Diags *diags,
                 Checked *out);
/* After errors since `from` in a recursive function: if annotations of it mend
   them, keeps one of them, with these annotations as its help. */
void checker_recursion_help(Checker *checker, Module *module, const Dec *dec,
                            Diags *diags, uint32_t from);
/* Begins a text that is checked before any of it is run: all of its
   declarations may determine the element types of its values.  Otherwise each
   declaration alone does. */
typedef struct TextStart {
  bool is_text; /* this text is part of the check of another one */
  uint32_t open, sites, changes;
} TextStart;
TextStart checker_begin_text(Checker *checker);
/* Called after the last declaration.  Undetermined element types of values
   become the default. */
void checker_default_elems(Checker *checker, TextStart start);
/* The check of the current text was aborted. */
void checker_abort_text(Checker *checker);
/* Called after the last declaration of a text, before any is run.  Undetermined
   sizes of values become the sizes of the values at run time. */
void checker_default_sizes(Checker *checker);
/* What the declarations so far check when they run: later ones assume it. */
const struct Assumption *checker_facts(const Checker *checker);
/* Some of these declarations failed, or do not run: only `facts` hold. */
void checker_forget_facts(Checker *checker, const struct Assumption *facts);
/* Reverts the last declaration's changes to the module's names.  The REPL calls
   it if the declaration had an error or failed at run time. */
void module_undo(Module *module);
/* The type of an expression, without running it; NULL after an error. */
const char *checker_expr_type(Checker *checker, Module *module, Expr *expr,
                              Diags *diags);

/* A part of a type that is neither a record nor a tuple. */
typedef struct TypeLeaf {
  const char
      *path; /* "stage1.conv.w", in a tuple "0"; "" for the complete type */
  const char *type;          /* "f32[64, 3, 7, 7]" */
  const char *element_count; /* number of elements, "9408" or "64*n"; NULL: not
                                a tensor */
} TypeLeaf;
typedef struct TypeLeaves {
  const TypeLeaf *leaves;
  uint32_t count;
  const char *total_elements; /* number of elements of all leaves */
} TypeLeaves;
/* The leaves of the type of an expression, without running it.  For a function,
   the leaves of its final result.  Returns false after an error. */
bool checker_expr_leaves(Checker *checker, Module *module, Expr *expr,
                         Diags *diags, TypeLeaves *out);
/* The leaves of the type of a name.  Sizes have the names of its definition. */
bool binding_leaves(Checker *checker, Binding *binding, Diags *diags,
                    TypeLeaves *out);

/* ---- aot_entry.c: functions to compile ahead of time for all sizes ---- */

typedef enum EntryTypeKind {
  ENTRY_NONE,
  ENTRY_TENSOR, /* dtype, rank, dims, broadcast_mask, singleton; rank 0 is a
                   scalar */
  ENTRY_TUPLE,  /* parts */
  ENTRY_RECORD, /* parts, labels */
  ENTRY_SHAPE,  /* rank, dims, broadcast_mask: a shape as a value */
  ENTRY_ABSENT, /* an optional parameter, omitted */
} EntryTypeKind;
typedef struct EntryType { /* type of a parameter */
  EntryTypeKind kind;
  Dtype dtype;
  uint32_t rank, broadcast_mask; /* bit k: axis k is a * */
  Dim **dims;                    /* NULL for a * */
  Dim *singleton;                /* size that the integer equals, or NULL */
  struct EntryType *parts;
  Sym **labels;
  uint32_t count;
} EntryType;
typedef struct EntryPrecondition { /* condition that callers have to ensure */
  CheckKind kind;
  Dim *left, *right;
  CoreCondition *conditions; /* required only if these hold */
  uint32_t condition_count;
  const char *text;
} EntryPrecondition;
typedef struct EntryPoint {
  const char *name, *type, *doc;
  Span span;
  const Var *var;
  const char **names; /* names of the parameters */
  bool *labelled;     /* parameters that are passed with a label */
  EntryType *params;
  uint32_t param_count;
  const ImplicitArg *implicits; /* implicit arguments; sizes only */
  uint32_t implicit_count;
  EntryPrecondition *preconditions;
  uint32_t precondition_count;
  bool is_pure_tensor_function; /* takes and returns tensors, and records and
                                   tuples of them, and has no effects */
} EntryPoint;
/* Describes a function as an entry.  All sizes are expressed in variables of
   the function's own type, which the caller may choose.  Returns false after an
   error: it is not a function, or its type leaves more open than sizes. of: the
   function that supplies the name and the parameters; the binding only calls
   it. name: its name as the user writes it. */
bool checker_entry(Checker *checker, Binding *binding, const Binding *of,
                   const char *name, Diags *diags, EntryPoint *out);

/* ---- what is known about names ---- */
const char *binding_type(Checker *checker, Binding *binding); /* as printed */
/* The parameters of a function's type, in order, and its result. */
typedef struct ParamInfo {
  const char *name;  /* name in its definition, or NULL */
  const char *label; /* label in a call, without ~; or NULL */
  bool optional;
  const char *type;
  Dtype dtype; /* of a tensor, if determined */
  int rank;    /* of a tensor; -1: not a tensor, or any rank */
} ParamInfo;
typedef struct Signature {
  const ParamInfo *params;
  uint32_t count;
  ParamInfo result;
} Signature;
/* Returns false if the binding has no type. */
bool binding_signature(Checker *checker, Binding *binding, Signature *out);
/* Checks a declaration of the host, which is not part of the program: it leaves
   neither names nor constraint counts. */
bool checker_dec_isolated(Checker *checker, Module *module, Dec *dec,
                          Diags *diags, Checked *out);
Sym *binding_name(const Binding *binding);
const char *binding_doc(const Binding *binding); /* or NULL */
const Var *binding_var(const Binding *binding);
/* Finds a name as a user writes it ("softmax", "nn.linear", a primitive), from
   the viewpoint of a module.  NULL if unknown. */
Binding *checker_find(Checker *checker, Module *module, const char *name);
/* Calls f for every name that the module itself defines. */
void module_each(Module *module, void (*f)(void *, Binding *), void *arg);
/* Tells which names the text declares, for messages about names that are used
   before. */
void module_foretell(Module *module, const Program *program);
/* Calls f for the field names of a binding of record type. */
void binding_fields(Checker *checker, Binding *binding,
                    void (*f)(void *, const char *name), void *arg);

Span binding_span(const Binding *b); /* span of its name at the definition */
typedef enum BindingSymbolKind {
  SYMBOL_KIND_NONE,
  SYMBOL_KIND_VALUE,
  SYMBOL_KIND_FUNCTION,
  SYMBOL_KIND_CONSTRUCTOR,
  SYMBOL_KIND_SIZE,
  SYMBOL_KIND_MODULE,
} BindingSymbolKind;
BindingSymbolKind binding_symbol_kind(Checker *checker, Binding *b);
/* if it is a module; otherwise NULL */
Module *binding_module(const Binding *b);
Sym *module_sym(const Module *module); /* NULL for a program */
bool module_is_library(const Module *module);
/* Calls f for the modules that `open` has opened in it. */
void module_each_opened(const Module *module, void (*f)(void *, Module *),
                        void *arg);

/* ---- symbol_refs.c: references to names, for editors ---- */
typedef enum SymbolRefKind {
  REF_NONE,
  REF_EXPR,   /* an expression; created on demand */
  REF_VALUE,  /* value, function or constructor (binding) */
  REF_SIZE,   /* size, shape or type variable in an annotation */
  REF_TYPE,   /* type (dec) */
  REF_LABEL,  /* label of an argument */
  REF_FIELD,  /* field of a record */
  REF_MODULE, /* module (binding) */
} SymbolRefKind;
typedef struct SymbolRef {
  SymbolRefKind kind;
  Span span;          /* span of the name, without ~ or ... */
  bool is_definition; /* the name is bound here */
  Span definition;    /* span where the name is bound, or none */
  Sym *name;
  Binding *binding; /* or NULL */
  const Dec *dec;
  Binding *callee;    /* REF_LABEL: the called function, or NULL */
  Type *type;         /* type of this use, or NULL */
  Binding *enclosing; /* surrounding global definition, whose names are used to
                         print types; or NULL */
  Scope *scope;       /* scope at this place */
} SymbolRef;
/* Enables or disables recording.  References in library texts are not kept. */
void checker_record_refs(Checker *checker, bool keep);
SymbolRefs *checker_swap_refs(Checker *checker,
                              SymbolRefs *places); /* returns the old ones */
/* In order of checking.  Types are known after the check of their
   declaration. */
const SymbolRef *checker_refs(const Checker *checker, uint32_t *count);
/* The reference of an expression in a declaration that was checked. */
SymbolRef ref_of_expr(const Module *module, const Dec *dec, const Expr *expr);
/* The type as text, or NULL. */
const char *ref_type(Checker *checker, const SymbolRef *place);
/* Names of values that a declaration with these references sees or binds. */
Map *refs_visible_names(Checker *checker, Module *module, const SymbolRef *from,
                        uint32_t count);
/* The type as an annotation to insert there: no size has the name of a
   value. */
const char *ref_annotation(Checker *checker, const SymbolRef *place,
                           const Map *names);
/* Checks declarations in sequence, until one has errors, and leaves no trace
   but these errors in `diags`.  Returns false after an error. */
bool checker_try_decs(Checker *checker, Module *module, Dec *const *decs,
                      uint32_t count, Diags *diags);
bool ref_is_tensor(Checker *checker, const SymbolRef *place);
/* Calls f for the fields of a record, or for the labelled parameters of a
   function.  For a REF_LABEL, the called function. */
void ref_fields(Checker *checker, const SymbolRef *place,
                void (*f)(void *, Sym *name, const char *type), void *arg);
void ref_labels(Checker *checker, const SymbolRef *place,
                void (*f)(void *, Sym *name, bool optional, const char *type),
                void *arg);
/* Calls f for the local names visible there, innermost first. binding may be
   NULL (a size). */
void ref_scope(Checker *checker, const SymbolRef *place,
               void (*f)(void *, Sym *name, Binding *binding, const char *type),
               void *arg);

/* ---- constraints ---- */
/* Classes of constraints. */
typedef enum ConstraintClass {
  CONSTRAINT_NONE,
  CONSTRAINT_SIZE_EQ,    /* two sizes are equal */
  CONSTRAINT_SHAPE_EQ,   /* two shapes with splices are equal */
  CONSTRAINT_BROADCAST,  /* shapes broadcast */
  CONSTRAINT_PRODUCT,    /* element counts are equal, or a division is exact */
  CONSTRAINT_SIZE_LE,    /* a size is at most another */
  CONSTRAINT_AXIS,       /* an axis exists */
  CONSTRAINT_KEEP,       /* which axes are kept */
  CONSTRAINT_LIFT,       /* a leading axis on all components */
  CONSTRAINT_ELEM_CLASS, /* element types belong to a class */
  CONSTRAINT_RECORD,     /* fields */
  CONSTRAINT_CLASS_COUNT
} ConstraintClass;

/* proved and deferred count constraints of the checked text only; runtime also
   counts those of the library. */
typedef struct CheckStats {
  uint64_t proved;
  uint64_t deferred;        /* part of a type: each call has to satisfy them */
  uint64_t runtime;         /* checked at run time */
  struct ConstraintCounts { /* by class; some are decided */
    uint64_t proved, deferred, runtime; /* immediately, without a constraint */
  } by_class[CONSTRAINT_CLASS_COUNT];
} CheckStats;
CheckStats checker_stats(const Checker *checker);
/* Constraints that were not proved, since the start, in order of checking. */
typedef struct UnprovedConstraint {
  Span span;
  const char *text;   /* "n == m" */
  const char *reason; /* reason for a run-time check; NULL if deferred */
  const char *name;   /* deferred: name whose type contains it */
} UnprovedConstraint;
const UnprovedConstraint *checker_unproved(Checker *checker, uint32_t *count);
/* Only those that became run-time checks. */
const UnprovedConstraint *checker_run_time_checks(const Checker *checker,
                                                  uint32_t *count);
/* Option -D n=64: sets an existential size of that name at top level. */
void checker_define_size(Checker *checker, Sym *name, int64_t value);
/* True if a size of that name was found that would otherwise be existential. */
bool checker_used_size(const Checker *checker, Sym *name);

#endif
