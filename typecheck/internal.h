/* Inference: what its files call of each other. */
#ifndef AXON_TYPECHECK_INTERNAL_H
#define AXON_TYPECHECK_INTERNAL_H

#include "typecheck/solver.h"

/* ---- scheme.c ---- */
Type *scheme_instantiate(Checker *c, Scheme *s, Origin *origin,
                         SchemeInstance **instance);
/* Quantifies what is above the current level in the types; constraints that
 * mention a quantified variable move from pending into the schemes. */
void scheme_generalize(Checker *c, uint32_t n, Type **types, Scheme **out,
                       uint32_t mark);
/* A use of a scheme of which it is known what its variables stand for. */
SchemeInstance *scheme_instance_of(Checker *c, Scheme *s, Map map, Origin *o);
Scheme *scheme_mono(Checker *c, Type *t);

/* ---- implicit_paths.c ---- */
/* Notes where the parameters of a function of type t show what it is handed
 * beside them. */
void implicit_find_paths(Checker *c, Core *type_lambda, Type *t);
bool implicit_has_path(const Scheme *s, const void *var);

/* ---- implicit_args.c ---- */
/* map, map2, map3, scan: what they make of nothing depends on types alone. */
bool prim_is_map_like(PrimId id);
/* Adds to the scheme what the body of its definition has to be told. */
void implicit_collect(Checker *c, Scheme *s, Core *body);
void instances_finish(Checker *c);        /* uses pass what is asked for */
void core_finish(Checker *c, Core *core); /* writes solved types into it */

/* ---- unpack_existential.c ---- */
void dim_var_set_packed(DimVar *v);
bool dim_var_is_packed(const DimVar *v);
void dim_var_set_inaccessible(DimVar *v);
bool dim_var_is_inaccessible(const DimVar *v);
/* A result whose sizes nobody has named yet: names them, and has them read
 * off the value when the program runs. */
Type *ty_unpack(Checker *c, Type *result, Core **core);
/* Wraps core so that the sizes in `fresh` are read off its value. */
void unpack_sizes(Checker *c, Type *t, Core **core, Map *fresh);
typedef enum ForgetKind {
  FORGET_NEW,          /* all sizes of data */
  FORGET_FROM_UNKNOWN, /* those that `forget` has made unknown */
  FORGET_PACKED,       /* those that each application names */
} ForgetKind;
/* t outside of a branch: of the sizes that it alone has named, since `mark`,
 * those of a kind are unknown there. */
Type *ty_forget_local_sizes(Checker *c, Type *t, uint32_t mark,
                            ForgetKind kind);

/* ---- existential_results.c: sizes that each call decides ---- */
/* A function `got` as an argument for `want`: its results as that one may see
 * them. */
Type *fun_widen_results(Checker *c, Type *actual, Type *expected, Span span);
/* The same for one that is written there, with parameters for the first arity
 * arrows of `want`; its sizes are those since `mark`. */
void lambda_widen_results(Checker *c, Type *expected, uint32_t arity,
                          uint32_t mark, Span span);
/* A call of `fun` makes a tensor of results: that they are of one shape. */
void note_lifted_results_agree(Checker *c, Type *fun, Span span);
/* The same for the body of a `for`, as its result has it. */
Type *for_body_widen(Checker *c, Type *body, uint32_t mark, Span span);
/* Items whose sizes are `?` where those of `want` have one shape. */
void note_list_items_agree(Checker *c, Type *actual, Type *expected, Span span);
/* Does a function of this type take values whose sizes are `?`? */
bool fun_takes_unknown_sizes(Checker *c, Type *fun);
/* Of a function with sizes made since `mark`. */
bool result_size_varies(Checker *c, Type *result, uint32_t mark);
/* A result like this one, of which `?` are kept and all the rest is open. */
Type *result_fresh_copy(Checker *c, Type *result);
/* The function with the first arity parameters of `fun`, and any result. */
Type *fun_with_fresh_result(Checker *c, Type *fun, uint32_t arity);

/* ---- subsume.c ---- */
/* A value of type `actual` is used where `expected` is asked for; reports. */
Core *subsume(Checker *c, Core *core, Type *actual, Type *expected, Origin *o);
Type *ty_join(Checker *c, Type *a, Type *b, Origin *o); /* branches */

/* ---- annotation.c ---- */
typedef enum AnnotMode {
  ANNOT_SCHEME, /* primitives, datatypes: all names generic */
  ANNOT_PARAM,  /* names new here are rigid */
  ANNOT_VAL,    /* names new here are solved, or bound to what is found */
  ANNOT_RESULT, /* names new here are some size */
} AnnotMode;
Type *annot_type(Checker *c, TypeExpr *t, AnnotMode mode);
void annot_givens(Checker *c, Givens assumptions, AnnotMode mode, bool assume);
Scheme *scheme_of_text(Checker *c, const char *text, uint8_t flags,
                       const char *name);
Scheme *annot_con(Checker *c, Dec *dec, Datatype *data, TypeExpr *arg);
/* In the scope: a parameter of a type is what it is applied to. */
void annot_bind_param(Checker *c, const Dec *dec, uint32_t i, Type *arg,
                      Span span);
/* True if a name stands for a size where a val is annotated. */
bool annot_size_in_scope(Checker *c, Sym *name);

/* ---- type_alias.c ---- */
/* Of an abbreviation that has been read, with its parameters free. */
void alias_save_expansion(Checker *c, TypeName *n, Type *t, Dim **sizes);
/* What it stands for at sizes; NULL where it has to be read again. */
Type *alias_expansion_at(Checker *c, TypeName *n, Dim **sizes);

/* ---- infer.c: the two directions ---- */
Core *infer(Checker *c, Expr *e, Type **type);
Core *check(Checker *c, Expr *e, Type *expected, Origin *o);
Core *infer_num(Checker *c, Expr *e, Type **type);
/* A branch or an element must not decide what the others have. */
bool type_has_unsolved_shape(Checker *c, Type *w);

/* ---- identifier.c: names in expressions ---- */
Core *infer_id(Checker *c, Expr *e, Type **type);
Core *infer_con(Checker *c, Expr *e, Type **type);
void error_unbound_con(Checker *c, Sym *module, Sym *name, Span span);
/* A use of a name, which stands at `place` in an expression. */
Core *infer_binding_use(Checker *c, Binding *b, Span span, Span place,
                        Type **type, Origin *o);
/* Of what a name demands of its use: of all arguments, if it is applied. */
Origin *use_origin(Checker *c, Expr *e, const char *what);
/* An error; `at` is where the name itself stands. */
Core *error_unbound_name(Checker *c, Sym *module, Sym *name, Span span, Span at,
                         Type **type);
Core *instantiate_binding(Checker *c, Binding *b, Span span, Type **type,
                          Origin *o);
/* Reads the sizes that were found in a variable, then runs the body. */
Core *unpack_binding(Checker *c, const Binding *b, Core *body);
/* The body of what binds the names from `from` to `until`: sizes that it has
 * found in them are read first, for all of it. */
Core *unpack_scope(Checker *c, const Scope *from, const Scope *until,
                   Core *body);

/* ---- int_to_size.c ---- */
/* A size for an integer expression without a known term. */
Dim *int_to_size(Checker *c, Expr *e, Core **core, Type *t);

/* ---- tuple_list_record.c ---- */
Core *infer_tuple(Checker *c, Expr *e, Type *expected, Type **type);
Core *infer_list(Checker *c, Expr *e, Type *expected, Type **type);
Core *infer_record(Checker *c, Expr *e, Type *expected, Type **type);
Core *infer_with(Checker *c, Expr *e, Type **type);
Core *infer_field(Checker *c, Expr *e, Type **type);
Core *infer_bracket(Checker *c, Expr *e, Type **type);

/* ---- path_conditions.c ---- */
void condition_assume(Checker *c, Expr *cond, Core *core, bool holds);
bool condition_on_index(Checker *c, Expr *cond);
void assumption_add_comparison(Checker *c, BinOp op, Dim *a, Dim *b,
                               bool holds);
/* There is a condition on sizes that no fact says. */
void assumption_add_inexpressible(Checker *c);

/* ---- if_case.c ---- */
Core *infer_if(Checker *c, Expr *e, Type *expected, Type **type, Origin *o);
Core *infer_case(Checker *c, Expr *e, Type *expected, Type **type, Origin *o);

/* ---- operator.c ---- */
Core *infer_operator(Checker *c, Expr *e, Type **type);

/* ---- static_args.c: arguments whose notation depends on what is wanted
 * ---- */
Core *check_shape_bracket(Checker *c, Expr *e, Type *expected, Origin *o);
/* A new size, of an axis that is named by its place: it may be a *. */
ShapeAxis shape_literal_axis(Checker *c, Span span);
Core *check_axis(Checker *c, Expr *e, Type *expected, Origin *o);
Core *check_keep(Checker *c, Expr *e, Type *expected, Origin *o);

/* ---- application.c ---- */
Core *infer_app(Checker *c, Expr *e, Type **type);
/* What is at fault where an argument of the call e does not fit: the argument,
 * or where a pipe brings it the stage. */
Span arg_span(const Expr *e, const Expr *arg);

/* ---- special_prims.c, for_loop.c, function.c, pattern.c ---- */
Core *infer_special(Checker *c, Expr *e, PrimId prim, Arg *args, uint32_t count,
                    Type **type);
Core *infer_for(Checker *c, Expr *e, Type **type);
Core *infer_index(Checker *c, Expr *e, Type **type);
Core *infer_fn(Checker *c, Expr *e, Type *expected, Type **type);
Core *infer_clauses(Checker *c, Clause *clauses, uint32_t count, Span span,
                    Type *expected, Type *expected_result, Type **type);
CorePat *corepat_new(Checker *c, CorePatKind kind, Span span);
CorePat *infer_pattern(Checker *c, Pat *p, Type *type, bool top);

/* ---- scope.c: what is bound ---- */
Scope *scope_push(Checker *c, Sym *name, Binding *b);
/* The innermost of this name, from s outwards; NULL: there is none. */
Scope *scope_find(Scope *s, const Sym *name);
Binding *binding_new(Checker *c, BindingKind kind, Sym *name, Span span);
void module_define(Checker *c, Sym *name, Binding *b);

/* ---- index_bounds.c ---- */
bool mentions_index(Checker *c, Dim *d);
/* The largest (or least) value of d over the ranges of its indices, each of
 * which is then demanded to be at least 1.  False: it is not known exactly. */
bool index_bound(Checker *c, Dim *d, bool maximize, Dim **out, Origin *o);
/* What is left of `left <= right` where each index is at its worst: enough for
 * all of them.  False if that cannot be told.  *exact: necessary, too, if the
 * loops run at all. */
bool eliminate_indices(Checker *c, const Constraint *k, Constraint *eliminated,
                       bool *exact);
/* Instead of what its conditions say of indices: that the loops run in which k
 * stands, or get as far, where it is not asked for otherwise.  False: they
 * never do. */
bool index_assume_loops_run(Checker *c, Constraint *k);
/* At the end of the outermost `for`, what its indices break is an error. */
void index_report_out_of_bounds(Checker *c);

/* ---- size_determinacy.c ---- */
/* Reports the rigid names in scope, from `from` to `until`, that no argument
 * for parameters of these types decides. */
void check_sizes_determined(Checker *c, uint32_t n, Type *const *params,
                            const Scope *from, const Scope *until);

/* ---- exhaustiveness.c ---- */
/* Warns about cases that are not handled and rules never reached. */
void check_exhaustiveness(Checker *c, uint32_t rules, CorePat **pats,
                          Type *type, Span span);

/* ---- environment.c: looking up; prim_scheme.c ---- */
Binding *lookup_in(Checker *c, Module *m, Sym *name);
TypeName *lookup_type(Checker *c, Sym *module, Sym *name);
Binding *binding_of_prim(Checker *c, PrimId id);

/* ---- nested_check.c ---- */
/* Checks a library definition in its own module, whatever is being checked
 * now; it is handed to the evaluator, to be run when first used. */
void check_library_dec(Checker *c, Module *m, Dec *dec);
Module *checker_import(Checker *c, Dec *dec);

/* ---- polymorphic_recursion.c: recursion that is polymorphic by annotation
 * ---- */
/* What the annotations of parameters and result say; NULL if not all of it. */
Scheme *annotated_scheme(Checker *c, Clause *k, Type *skeleton);
/* A use inside of the definition. */
void polyrec_use(Checker *c, Binding *b, Core *core, Type **type, Origin *o);
/* Once the group has its schemes: what its uses inside demand of them. */
void polyrec_finish(Checker *c, BindingGroup *group);

/* ---- duplicate_names.c: names that must differ, or be declared ---- */
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

/* ---- declaration.c ---- */
CoreDec *infer_val(Checker *c, Dec *dec, bool top);
Core *abstract_implicits(Checker *c, Scheme *s, Core *core);
void dec_infer(Checker *c, Dec *dec, bool top, CoreDec **out);
void bind_discovered_sizes(Checker *c, Scope *mark, Type *t, Core **core);
/* Of an expression that is not run; NULL after an error. */
Scheme *expr_scheme(Checker *c, Module *module, Expr *expr, Diags *diags);

/* ---- symbol_refs.c ---- */
uint32_t refs_mark(const Checker *c);
void refs_truncate(Checker *c, uint32_t mark);
/* What was noted since belongs to this declaration. */
void refs_finish(Checker *c, uint32_t mark, Module *module, const Dec *dec);
/* A name within the span; def: where it is bound, or none. */
void refs_add_name(Checker *c, SymbolRefKind kind, Span span, Sym *name,
                   Span def, Type *type);
void refs_add_binding(Checker *c, Span span, Binding *b, Type *type);
void refs_add_module(Checker *c, Span span, Sym *name, Binding *b);
void refs_add_import(Checker *c, const Dec *dec, Sym *name, Binding *b);
void refs_add_type(Checker *c, Span span, const TypeName *t);
/* A name of an annotation, which is in scope now. */
void refs_add_size(Checker *c, Span span, Sym *name, bool shape);
/* Labels of arguments of what is bound so; or NULL. */
void refs_add_labels(Checker *c, const Arg *args, uint32_t count, Binding *b);

#endif
