/* Inference: functions that its files call of each other. */
#ifndef AXON_TYPECHECK_INTERNAL_H
#define AXON_TYPECHECK_INTERNAL_H

#include "support/map.h"
#include "support/span.h"
#include "typecheck/solver.h"

typedef struct Diags Diags;
typedef struct Sym Sym;

/* ---- scheme.c ---- */
Type *scheme_instantiate(Checker *c, Scheme *s, Origin *origin,
                         SchemeInstance **instance);
/* Generalization: quantifies the variables above the current level in the
   types.  Constraints that mention a quantified variable move from pending into
   the schemes. */
void scheme_generalize(Checker *c, uint32_t n, Type **types, Scheme **out,
                       uint32_t mark);
/* A use of a scheme with a given substitution of its variables. */
SchemeInstance *scheme_instance_of(Checker *c, Scheme *s, Map map, Origin *o);
Scheme *scheme_mono(Checker *c, Type *t);

/* ---- implicit_paths.c ---- */
/* Records how the parameters of a function of type t supply its implicit
   arguments. */
void implicit_find_paths(Checker *c, Core *type_lambda, Type *t);
bool implicit_has_path(const Scheme *s, const void *var);

/* ---- literal_range.c ---- */
/* Notes that the number num has the element type of e. */
void literal_note(Checker *c, ElemVar *e, const char *num, bool is_float);
/* Reports a number that does not fit its element type.  Returns the error, or
   NULL. */
Diag *literal_check(Checker *c, const char *num, bool is_float, Dtype t,
                    Span span);
/* Reports a use, with element type t, of a generic function that contains a
   number which does not fit t.  Returns the error, or NULL. */
Diag *literal_check_use(Checker *c, const ElemVar *generic, Dtype t,
                        const Core *use);

/* ---- wide_sizes.c ---- */
/* Reports sizes that do not fit in 64 bits. */
void check_sizes_fit(Checker *c, const Dec *dec);

/* ---- required_sizes.c ---- */
/* Marks the implicit sizes of the scheme that each run of its definition
   needs. */
void required_sizes_mark(Checker *c, Scheme *s, Core *definition);
/* True if each evaluation of core needs the size v. */
bool requires_size(Checker *c, Core *core, const DimVar *v);
bool check_needs_sizes(const CoreCheck *check);

/* ---- implicit_args.c ---- */
/* True for map, map2, map3 and scan: the type alone determines their result
   without iterations. */
bool prim_is_map_like(PrimId id);
/* Adds to the scheme the implicit parameters that the body of its definition
   needs. */
void implicit_collect(Checker *c, Scheme *s, Core *body);
void instances_finish(Checker *c); /* uses pass implicit arguments */
/* writes solved types into the core */
void core_finish(Checker *c, Core *core);

/* ---- dependent_sizes.c ---- */
/* Notes a value whose type may have dependent variables. */
void dependent_note_value(Checker *c, Core *core, Type *t);
/* Marks the dependent variables of the constraints since `mark`, before the
   types are generalized. */
void dependent_mark(Checker *c, uint32_t mark, uint32_t n, Type *const *types);
bool constraint_is_dependent(Checker *c, Constraint *k);
/* Adds the sizes since `mark` that depend on an existential size since `mark`:
   each call has its own.  PACKED_ONLY: those of a packed size. */
enum { PACKED_ONLY = UINT32_MAX };
void dependent_varying(Checker *c, uint32_t mark, Map *out);
/* Inserts run-time checks of the scheme's equations with existential sizes:
   where a value meets a size that callers pass. */
void dependent_check(Checker *c, const Scheme *s);
/* Records a dependent variable that code needs. */
void dependent_need(Checker *c, void *var);
/* Reads these variables off values. */
void dependent_read(Checker *c);

/* ---- unpack_existential.c ---- */
void dim_var_set_packed(DimVar *v);
bool dim_var_is_packed(const DimVar *v);
void dim_var_set_inaccessible(DimVar *v);
bool dim_var_is_inaccessible(const DimVar *v);
/* Unpacks the existential sizes of a result: names them, and reads them off the
   value at run time. */
Type *ty_unpack(Checker *c, Type *result, Core **core);
/* Wraps core so that the sizes in `fresh` are read off its value. */
void unpack_sizes(Checker *c, Type *t, Core **core, Map *fresh);
typedef enum ForgetKind {
  FORGET_NEW,          /* all existential sizes */
  FORGET_FROM_UNKNOWN, /* those created for sizes that `forget` made unknown */
  FORGET_PACKED,       /* those that each application names */
} ForgetKind;
/* The type t outside of a branch.  Sizes of the given kind that the branch
   introduced since `mark` become unknown. */
Type *ty_forget_local_sizes(Checker *c, Type *t, uint32_t mark,
                            ForgetKind kind);

/* ---- existential_results.c: sizes that differ from call to call ---- */
/* A function of type `actual` is passed as an argument of type `expected`:
   widens its results to what the parameter may see. */
Type *fun_widen_results(Checker *c, Type *actual, Type *expected, Span span);
/* The same for a lambda in argument position.  Its parameters are the first
   arity arrows of `expected`.  Its sizes are those since `mark`. */
void lambda_widen_results(Checker *c, Type *expected, uint32_t arity,
                          uint32_t mark, Span span);
/* A primitive stacks the results of calls of `fun`: records that they must have
   one shape. */
void note_lifted_results_agree(Checker *c, Type *fun, Span span);
/* The same for the body of a `for`.  Returns the body's type as its result has
   it. */
Type *for_body_widen(Checker *c, Type *body, uint32_t mark, Span span);
/* Records that items with `?` sizes must have one shape, as `expected` says. */
void note_list_items_agree(Checker *c, Type *actual, Type *expected, Span span);
/* True if a function of this type takes values with `?` sizes. */
bool fun_takes_unknown_sizes(Checker *c, Type *fun);
/* True if a size of the result varies from call to call or is unknown.
   Existential sizes made since `mark` vary. */
bool result_size_varies(Checker *c, Type *result, uint32_t mark);
/* A copy of a result: keeps `?`, and replaces everything else by new
   variables. */
Type *result_fresh_copy(Checker *c, Type *result);
/* The first arity parameters of `fun`, with any result. */
Type *fun_with_fresh_result(Checker *c, Type *fun, uint32_t arity);

/* ---- subsume.c ---- */
/* Subsumption: a value of type `actual` is used where `expected` is required.
   Reports errors. */
Core *subsume(Checker *c, Core *core, Type *actual, Type *expected, Origin *o);
Type *ty_join(Checker *c, Type *a, Type *b, Origin *o); /* type of branches */

/* ---- annotation.c ---- */
typedef enum AnnotMode {
  ANNOT_SCHEME, /* primitives, datatypes: all names generic */
  ANNOT_PARAM,  /* new names are skolems */
  ANNOT_VAL,    /* new names are solved, or bound to the actual size */
  ANNOT_RESULT, /* new names are existential */
} AnnotMode;
Type *annot_type(Checker *c, TypeExpr *t, AnnotMode mode);
void annot_givens(Checker *c, Givens assumptions, AnnotMode mode, bool assume);
Scheme *scheme_of_text(Checker *c, const char *text, uint8_t flags,
                       const char *name);
Scheme *annot_con(Checker *c, Dec *dec, Datatype *data, TypeExpr *arg);
/* Binds, in the current scope, a parameter of a type to its argument. */
void annot_bind_param(Checker *c, const Dec *dec, uint32_t i, Type *arg,
                      Span span);
/* True if a name denotes a size in the annotation of a val. */
bool annot_size_in_scope(Checker *c, Sym *name);

/* ---- type_alias.c ---- */
/* Saves the expansion of a type alias with free parameters. */
void alias_save_expansion(Checker *c, TypeName *n, Type *t, Dim **sizes);
/* The expansion at these sizes; NULL if the alias must be read again. */
Type *alias_expansion_at(Checker *c, TypeName *n, Dim **sizes);

/* ---- infer.c: the two directions ---- */
Core *infer(Checker *c, Expr *e, Type **type);
/* The same.  A `for` takes missing ranges from the type that the context
   demands, which may be NULL. */
Core *infer_expecting(Checker *c, Expr *e, Type *expected, Type **type);
Core *check(Checker *c, Expr *e, Type *expected, Origin *o);
Core *infer_num(Checker *c, Expr *e, Type **type);
/* True if the type has an unsolved shape.  A branch or an element must not
   determine the shape of the others. */
bool type_has_unsolved_shape(Checker *c, Type *w);

/* ---- identifier.c: names in expressions ---- */
Core *infer_id(Checker *c, Expr *e, Type **type);
bool is_defined_name(Checker *c, Sym *name);
/* If the expression is a word of another language that the program does not
   define, returns it; otherwise NULL. */
const ForeignWord *undefined_foreign_word(Checker *c, const Expr *e);
Core *infer_con(Checker *c, Expr *e, Type **type);
void error_unbound_con(Checker *c, Sym *module, Sym *name, Span span);
/* Infers the use of a name.  `place` is its span in the expression. */
Core *infer_binding_use(Checker *c, Binding *b, Span span, Span place,
                        Type **type, Origin *o);
/* The origin of constraints from the use of a name.  Covers all arguments if it
   is applied. */
Origin *use_origin(Checker *c, Expr *e, const Binding *b, const char *what);
/* Reports an unbound name.  `at` is the span of the name alone. */
Core *error_unbound_name(Checker *c, Sym *module, Sym *name, Span span, Span at,
                         Type **type);
Core *instantiate_binding(Checker *c, Binding *b, Span span, Type **type,
                          Origin *o);
/* Wraps body so that the unpacked sizes of a variable are read first. */
Core *unpack_binding(Checker *c, const Binding *b, Core *body);
/* Wraps the body of the scopes from `from` to `until`: the sizes that it
   unpacked from their names are read first. */
Core *unpack_scope(Checker *c, const Scope *from, const Scope *until,
                   Core *body);

/* ---- int_to_size.c ---- */
/* The size for an integer expression without a known term. */
Dim *int_to_size(Checker *c, Expr *e, Core **core, Type *t);

/* ---- tuple_list_record.c ---- */
/* whole: the origin of the tuple; or NULL. */
Core *infer_tuple(Checker *c, Expr *e, Type *expected, Origin *whole,
                  Type **type);
Core *infer_list(Checker *c, Expr *e, Type *expected, Type **type);
/* The type of the items of a list of type `expected`; NULL: not known. */
Type *ty_given_item(Checker *c, Type *expected);
Core *infer_record(Checker *c, Expr *e, Type *expected, Type **type);
Core *infer_with(Checker *c, Expr *e, Type **type);
Core *infer_field(Checker *c, Expr *e, Type **type);
Core *infer_bracket(Checker *c, Expr *e, Type **type);

/* ---- path_conditions.c ---- */
void condition_assume(Checker *c, Expr *cond, Core *core, bool holds);
bool condition_on_index(Checker *c, Expr *cond);
void assumption_add_comparison(Checker *c, BinOp op, Dim *a, Dim *b,
                               bool holds);
/* Assumes a condition on sizes that no assumption can express. */
void assumption_add_inexpressible(Checker *c);

/* ---- if_case.c ---- */
Core *infer_if(Checker *c, Expr *e, Type *expected, Type **type, Origin *o);
Core *infer_case(Checker *c, Expr *e, Type *expected, Type **type, Origin *o);
typedef struct Branch {
  Core *core;
  Type *type;
  Assumption *assumptions;
  bool unreachable;
} Branch;
/* The common type of all branches: each agrees with it under its own
   assumptions.  Starts with a branch that no equation narrows, if there is
   one.  `clauses` are their source. */
Type *join_branches(Checker *c, const Branch *at, const Clause *clauses,
                    uint32_t count, const Assumption *around);
/* Assumes what the parameters of a clause say about sizes: that they match, or
   that they do not. */
void clause_assume(Checker *c, const Clause *k, Type *const *types, bool match);

/* ---- operator.c ---- */
Core *infer_operator(Checker *c, Expr *e, Type *expected, Type **type);

/* ---- static_args.c: arguments whose syntax depends on the expected type
   ---- */
Core *check_shape_bracket(Checker *c, Expr *e, Type *expected, Origin *o);
/* A new size for an axis given by its position.  The axis may be a *. */
ShapeAxis shape_literal_axis(Checker *c, Span span);
Core *check_axis(Checker *c, Expr *e, Type *expected, Origin *o);
Core *check_keep(Checker *c, Expr *e, Type *expected, Origin *o);

/* ---- application.c ---- */
Core *infer_app(Checker *c, Expr *e, Type **type);
/* Warns about calls of this declaration that differentiate by data without
   floats. */
void report_no_floats(Checker *c);
void report_missing_files(Checker *c);
/* The span to blame if an argument of call e does not fit: the argument, or the
   pipe that supplies it. */
Span arg_span(const Expr *e, const Expr *arg);

/* ---- special_prims.c, for_loop.c, function.c, pattern.c ---- */
Core *infer_special(Checker *c, Expr *e, PrimId prim, Arg *args, uint32_t count,
                    Type **type);
/* expected: the type that the context demands, or NULL. */
Core *infer_for(Checker *c, Expr *e, Type *expected, Type **type);
Core *infer_index(Checker *c, Expr *e, Type **type);
Core *infer_fn(Checker *c, Expr *e, Type *expected, Type **type);
/* Leaves the parameters in scope: the caller removes them once the function is
   generalized. */
Core *infer_clauses(Checker *c, Clause *clauses, uint32_t count, Span span,
                    Type *expected, Type *expected_result, Type **type);
CorePat *corepat_new(Checker *c, CorePatKind kind, Span span);
CorePat *infer_pattern(Checker *c, Pat *p, Type *type, bool top);

/* ---- recursive_call.c ---- */
/* True if the error there is in an expression that uses no name of the
   declaration. */
bool error_is_closed(const Dec *dec, Span at);
/* Drops the errors since `from` that follow from the error about a recursive
   call with another shape, if there is one. */
void drop_errors_of_recursion(Checker *c, const Dec *dec, Diags *diags,
                              uint32_t from);

/* ---- guess.c ---- */

/* Guesses that the index `value`, which is e, is one integer, or that a side
   `value` of the comparison e is a tensor.  False: the reverse holds. */
bool guess_assume(Checker *c, Expr *e, const Expr *value);
/* The next pass also reverses the guesses of the last one.  False if they are
   reversed already. */
bool guesses_reverse_all(Checker *c);
/* The next pass reverses those guesses that the last one showed to be wrong;
   `error` is the first error with them.  False if there are none. */
bool guesses_reverse_wrong(Checker *c, const Diag *error);

/* ---- scope.c: what is bound ---- */
Scope *scope_push(Checker *c, Sym *name, Binding *b);
/* The innermost scope with this name, from s outwards, or NULL. */
Scope *scope_find(Scope *s, const Sym *name);
Binding *binding_new(Checker *c, BindingKind kind, Sym *name, Span span);
void module_define(Checker *c, Sym *name, Binding *b);

/* ---- index_bounds.c ---- */
bool mentions_index(Checker *c, Dim *d);
/* The largest (or smallest) value of d over the ranges of its indices.
   Requires that each range is at least 1.  Returns false if the exact bound is
   unknown. */
bool index_bound(Checker *c, Dim *d, bool maximize, Dim **out, Origin *o);
/* Eliminates the indices of constraint k: replaces each by the bound at which
   the constraint is hardest to satisfy.  The result is sufficient for all
   iterations.  Returns false if there is none. *exact: also necessary if the
   loops run. */
bool eliminate_indices(Checker *c, const Constraint *k, Constraint *eliminated,
                       bool *exact);
/* Replaces conditions on indices by the condition that the loops around k run,
   where no other constraint requires it.  Returns false if they never run. */
bool index_assume_loops_run(Checker *c, Constraint *k);
/* Called at the end of the outermost `for`: reports index errors. */
void index_report_out_of_bounds(Checker *c);

/* ---- size_determinacy.c ---- */
/* Reports the skolems in scope, from `from` to `until`, that no argument for
   parameters of these types determines. */
void check_sizes_determined(Checker *c, uint32_t n, Type *const *params,
                            const Scope *from, const Scope *until);

/* ---- exhaustiveness.c ---- */
/* Warns about unhandled cases and unreachable rules. */
void check_exhaustiveness(Checker *c, uint32_t rules, CorePat **pats,
                          Type *type, Span span);

/* ---- environment.c: looking up; prim_scheme.c ---- */
Binding *lookup_in(Checker *c, Module *m, Sym *name);
TypeName *lookup_type(Checker *c, Sym *module, Sym *name);
Binding *binding_of_prim(Checker *c, PrimId id);

/* ---- nested_check.c ---- */
/* Checks a library definition in its own module, independently of the current
   declaration.  Hands it to the evaluator, which runs it at its first use. */
void check_library_dec(Checker *c, Module *m, Dec *dec);
Module *checker_import(Checker *c, Dec *dec);

/* ---- polymorphic_recursion.c: recursion that is polymorphic by annotation
   ---- */
/* The scheme that the annotations of parameters and result give; NULL if they
   are incomplete. */
Scheme *annotated_scheme(Checker *c, Clause *k, Type *skeleton);
/* A use inside of the definition. */
void polyrec_use(Checker *c, Binding *b, Core *core, Type **type, Origin *o);
/* Called once the group has its schemes: adds the constraints of uses inside
   the definitions. */
void polyrec_finish(Checker *c, BindingGroup *group);

/* ---- duplicate_names.c: names that must differ, or must be declared ---- */
void check_unique_pattern(Checker *c, const Pat *p);
void check_unique_params(Checker *c, const Clause *k);
void check_unique_labels(Checker *c, const Arg *args, uint32_t count);
bool check_unique_binders(Checker *c, const Binder *binders, uint32_t count);
void check_unique_fields(Checker *c, const FieldExpr *fields, uint32_t count);
void check_unique_funs(Checker *c, const Dec *dec);
void check_unique_type(Checker *c, const Dec *dec);
/* True if the parameter is an element type: 'a in 'a[n]. */
bool param_is_elem(const Dec *dec, uint32_t i);

/* ---- binding_group.c ---- */
CoreDec *infer_fun(Checker *c, Dec *dec, bool top);

/* ---- global_elems.c ---- */
/* Gives an undetermined element type its default. */
void elem_apply_default(Checker *c, ElemVar *e);
/* What is recorded so far about element types of global values. */
TextStart global_elems_mark(const Checker *c);
/* Discards what was recorded since, and undoes the changes. */
void global_elems_undo(Checker *c, const TextStart *from);
/* Sets the element type of a place in core, at once or at the end of the text.
   Undetermined ones become the default. */
void global_elem_finish(Checker *c, ElemSite site);
/* A declaration has bound these names: later ones may determine their element
   types. */
void global_elems_collect(Checker *c, const Bindings *bound);

/* ---- declaration.c ---- */
CoreDec *infer_val(Checker *c, Dec *dec, bool top);
Core *abstract_implicits(Checker *c, Scheme *s, Core *core);
void dec_infer(Checker *c, Dec *dec, bool top, CoreDec **out);
void bind_discovered_sizes(Checker *c, Scope *mark, Type *t, Core **core);
/* The scheme of an expression that is not run; NULL after an error. */
Scheme *expr_scheme(Checker *c, Module *module, Expr *expr, Diags *diags);

/* ---- symbol_refs.c ---- */
uint32_t refs_mark(const Checker *c);
void refs_truncate(Checker *c, uint32_t mark);
/* Assigns the references recorded since `mark` to this declaration. */
void refs_finish(Checker *c, uint32_t mark, Module *module, const Dec *dec);
/* Records a name at a span. def: where it is bound, or none. */
void refs_add_name(Checker *c, SymbolRefKind kind, Span span, Sym *name,
                   Span def, Type *type);
void refs_add_binding(Checker *c, Span span, Binding *b, Type *type);
void refs_add_module(Checker *c, Span span, Sym *name, Binding *b);
void refs_add_import(Checker *c, const Dec *dec, Sym *name, Binding *b);
void refs_add_type(Checker *c, Span span, const TypeName *t);
/* Records a size name of an annotation; it must be in scope. */
void refs_add_size(Checker *c, Span span, Sym *name, bool shape);
/* Records labels of arguments in a call of b; b may be NULL. */
void refs_add_labels(Checker *c, const Arg *args, uint32_t count, Binding *b);

#endif
