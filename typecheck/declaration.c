/* Checks declarations.  Main entry point: checker_dec. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/trap.h"

#include <string.h>

/* ---- sizes of values of top level ---- */

static void become_existential(Checker *c, DimVar *v, Map *fresh) {
  if (!v || v->kind != DV_META || v->solution || v->unknown ||
      v->level == LEVEL_GENERIC)
    return;
  v->kind = DV_EXISTENTIAL;
  wakeup_dim_solved(c, v);
  map_put(fresh, v, v);
}

/* Collects axes only: sizes elsewhere in the type cannot be read off a
   value. */
static void collect_unsolved_axes(Checker *c, Type *t, Map *fresh) {
  charge_work(c, 1);
  t = ty_norm(c, t);
  if (t->tag == TY_TENSOR) {
    Shape *s = shape_norm(c, t->tensor.shape);
    for (uint32_t i = 0; i < s->len; i++)
      if (s->axes[i].tag == SHAPE_DIM)
        become_existential(c, dim_as_var(s->axes[i].dim), fresh);
  } else if (t->tag == TY_TUPLE || t->tag == TY_RECORD) {
    for (uint32_t i = 0; i < t->count; i++)
      collect_unsolved_axes(c, t->args[i], fresh);
  }
}

/* ---- types ---- */

static void define_type_name(Checker *c, TypeName *t) {
  map_put(&c->names.module->types, t->name, t);
}

static Dim *define_size(Checker *c, const DimExpr *d) {
  Dim *size = meta_dim(c, NULL, d->span);
  scope_push(c, d->id, NULL)->dim = size;
  refs_add_size(c, d->span, d->id, false);
  return size;
}

static void define_type(Checker *c, Dec *dec) {
  uint32_t errors = c->diags->errors;
  TypeName *t = NEW(c->arena, TypeName);
  t->name = dec->name;
  t->dec = dec;
  t->module = c->names.module;
  check_unique_type(c, dec);
  /* read the definition once with free parameters, to report its errors */
  Scope *saved = c->names.scope;
  for (uint32_t i = 0; i < dec->tyvar_count; i++)
    annot_bind_param(c, dec, i, ty_meta(c), dec->span);
  Dim **sizes = NEW_ARRAY(c->arena, Dim *, dec->axes.len);
  for (uint32_t i = 0; dec->has_axes && i < dec->axes.len; i++)
    if (dec->axes.at[i].kind == AXIS_DIM && dec->axes.at[i].dim->kind == DX_ID)
      sizes[i] = define_size(c, dec->axes.at[i].dim);
  c->names.alias_name = dec->name;
  Type *is = annot_type(c, dec->type, ANNOT_VAL);
  c->names.alias_name = NULL;
  c->names.scope = saved;
  t->has_error = c->diags->errors > errors;
  alias_save_expansion(c, t, is, sizes);
  define_type_name(c, t);
  refs_add_type(c, dec->name_span, t);
}

static bool contains_function(Checker *c, Type *t) {
  t = ty_norm(c, t);
  if (t->tag == TY_LIFT)
    return contains_function(c, t->lift.type);
  if (t->tag == TY_CAST)
    return contains_function(c, t->cast.type);
  bool found =
      t->tag == TY_FUN || (t->tag == TY_DATATYPE && t->data.type->has_function);
  for (uint32_t i = 0; ty_has_args(t) && i < t->count && !found; i++)
    found = contains_function(c, t->args[i]);
  return found;
}

static bool is_of_library(const Datatype *d, const char *module) {
  return d->module && strcmp(d->module->text, module) == 0;
}

static void define_datatype(Checker *c, Dec *dec) {
  check_unique_type(c, dec);
  Datatype *d = NEW(c->arena, Datatype);
  d->name = dec->name;
  d->dec = dec;
  d->module = c->names.module->library ? c->names.module->name : NULL;
  d->span = dec->span;
  d->arity = dec->tyvar_count;
  d->dim_arity = dec->has_axes ? dec->axes.len : 0;
  TypeName *t = NEW(c->arena, TypeName);
  t->name = dec->name;
  t->data = d;
  t->module = c->names.module;
  define_type_name(c, t);
  refs_add_type(c, dec->name_span, t);
  d->con_count = dec->con_count;
  d->cons = NEW_ARRAY(c->arena, struct DataCon, dec->con_count);
  for (uint32_t i = 0; i < dec->con_count; i++) {
    struct DataCon *k = &d->cons[i];
    k->con = (Con){.name = dec->cons[i].name,
                   .tag = i,
                   .has_arg = dec->cons[i].type != NULL,
                   .is_dict = is_of_library(d, "dicts"),
                   .is_figure = is_of_library(d, "plot")};
    k->span = dec->cons[i].span;
    k->scheme = annot_con(c, dec, d, dec->cons[i].type);
    if (k->con.has_arg && k->scheme->type->tag == TY_FUN) {
      d->has_function |= contains_function(c, k->scheme->type->fun.param);
      d->fixed_floats |= ty_fixed_floats(c, k->scheme->type->fun.param);
    }
    Binding *b = binding_new(c, BK_CON, k->con.name, k->span);
    b->con = k;
    b->scheme = k->scheme;
    b->doc = dec->doc;
    refs_add_binding(c, k->span, b, NULL);
    module_define(c, k->con.name, b);
    VEC_PUSH(c->arena, c->names.module->bindings, b);
  }
}

/* ---- modules ---- */

static void import_module(Checker *c, Dec *dec) {
  Module *m = dec->id ? module_named(c, dec->id) : NULL;
  if (!m)
    m = checker_import(c, dec);
  if (!m)
    return;
  Sym *name = dec->as ? dec->as : dec->id;
  if (!name) { /* import "./blocks" binds `blocks` */
    const char *base = strrchr(dec->path, '/');
    base = base ? base + 1 : dec->path;
    name = intern(c->interner, base, strcspn(base, "."));
  }
  Binding *b = binding_new(c, BK_MODULE, name, dec->span);
  b->imported = m;
  refs_add_import(c, dec, name, b);
  module_define(c, name, b);
}

static void open_module(Checker *c, Dec *dec) {
  Binding *b = lookup(c, NULL, dec->id);
  if (!b || b->kind != BK_MODULE) {
    error_at(c, 310, dec->span, "no module is named `%s`", dec->id->text)
        ->help = "import a file first: `import \"./file\" as m`";
    return;
  }
  refs_add_import(c, dec, dec->id, b);
  VEC_PUSH(c->arena, c->names.module->opened, b->imported);
}

/* ---- expressions ---- */

static void infer_do(Checker *c, Dec *dec, CoreDec **out, Type **type) {
  Effect *outer = c->inference.effect;
  if (!outer)
    c->inference.effect = effect_var(c);
  CoreDec *d = NEW(c->arena, CoreDec);
  d->kind = CD_EXPR;
  d->span = dec->span;
  d->expr = infer(c, dec->expr, type);
  c->inference.effect = outer;
  *out = d;
}

void dec_infer(Checker *c, Dec *dec, bool top, CoreDec **out) {
  Type *type;
  *out = NULL;
  switch (dec->kind) {
  case DEC_VAL:
    *out = infer_val(c, dec, top);
    break;
  case DEC_FUN:
    *out = infer_fun(c, dec, top);
    break;
  case DEC_TYPE:
    define_type(c, dec);
    break;
  case DEC_DATATYPE:
    define_datatype(c, dec);
    break;
  case DEC_IMPORT:
    import_module(c, dec);
    break;
  case DEC_OPEN:
    open_module(c, dec);
    break;
  case DEC_DO:
  case DEC_EXPR:
    infer_do(c, dec, out, &type);
    break;
  case DEC_KERNEL:
  case DEC_SCHEDULE: /* the session reads those of the top level */
    error_at(c, 523, dec->span, "%s are declared at top level",
             dec->kind == DEC_KERNEL ? "micro-kernels" : "schedules");
    break;
  }
}

/* ---- at top level ---- */

/* The body of a function, or the value of anything else. */
static Core **evaluated_part(Core **at) {
  while ((*at)->kind == CORE_TLAM || (*at)->kind == CORE_LAM)
    at = &(*at)->items[0];
  return at;
}

/* Reads sizes that are global names first. */
static void unpack_size_bindings(Checker *c, CoreDec *d) {
  for (uint32_t i = 0; i < c->sizes.bindings.len; i++) {
    bool already = false;
    for (uint32_t k = 0; k < i; k++)
      already |= c->sizes.bindings.at[k] == c->sizes.bindings.at[i];
    for (uint32_t k = 0; k < d->var_count && !already; k++) {
      Core **at = evaluated_part(&d->items[k]);
      *at = unpack_binding(c, c->sizes.bindings.at[i], *at);
    }
    if (d->kind != CD_FUNS && !already) {
      Core **at = evaluated_part(&d->expr);
      *at = unpack_binding(c, c->sizes.bindings.at[i], *at);
    }
  }
}

static void finish_dec(Checker *c, CoreDec *d) {
  if (d->kind == CD_FUNS)
    for (uint32_t i = 0; i < d->var_count; i++)
      core_finish(c, d->items[i]);
  else
    core_finish(c, d->expr);
}

static void begin_dec(Checker *c, Module *module, Diags *diags) {
  c->diags = diags;
  c->names.module = module;
  c->notes.active_refs = module->library ? NULL : c->notes.recorded_refs;
  c->names.scope = NULL;
  c->inference.level = 0;
  c->inference.effect = NULL;
  pending_clear(c);
  c->loops.accesses.len = c->solver.residual.len = 0;
  c->solver.solved_by_terms.len = 0;
  c->inference.instances.len = c->inference.params.len = 0;
  c->sizes.discovered.len = c->sizes.existential_assumptions.len = 0;
  c->sizes.bindings.len = c->sizes.read_sites.len = c->sizes.needed.len = 0;
  c->notes.typed_holes.len = c->notes.differentiated.len = 0;
  c->notes.missing_files.len = 0;
  c->solver.contradicted.len = c->solver.reshape_holes.len = 0;
  c->inference.head.expr = NULL;
  /* a limit may have aborted the code that set it */
  c->notes.message_names = NULL;
  c->names.alias_name = NULL;
  c->names.expansions = NULL;
  c->inference.axis_may_be_star = false;
  c->loops.innermost = NULL;
  c->loops.index_condition_depth = 0;
  c->facts.control_region = 0;
  c->inference.depth = c->inference.work = 0;
  assumptions_renew_effort(c->facts.loaded);
  c->inference.binding_group = NULL;
  c->inference.recursive_types = NULL;
  c->inference.used_early = c->inference.recursive_call = NULL;
  c->inference.needs_recheck = c->inference.meets_error = false;
  c->solver.serial = c->solver.max_unclaimed = 0;
  c->solver.current_constraint = NULL;
  map_init(&c->solver.in_unproved_equations, c->arena);
}

static void note_type_variable(void *arg, TyVar *v) {
  *(bool *)arg |= v->link == NULL;
}

static void note_shape_variable(void *arg, ShapeVar *v) {
  (void)v;
  *(bool *)arg = true;
}

static bool has_variables(Checker *c, const Binding *b) {
  bool found = false;
  TypeVisitor visit = {.ty = note_type_variable,
                       .shape = note_shape_variable,
                       .arg = &found,
                       .c = c};
  if (b->scheme)
    ty_visit(&visit, b->scheme->type);
  return found;
}

static void add_binding(Checker *c, Checked *out, Binding *b, Dec *dec) {
  bool annotated = b->kind == BK_VALUE && b->value.annotation_scheme;
  b->doc = dec->doc;
  b->is_partial = c->inference.meets_error && !annotated && has_variables(c, b);
  module_define(c, b->name, b);
  VEC_PUSH(c->arena, c->names.module->bindings, b);
  if (!b->is_partial)
    out->bindings[out->binding_count++] = b;
}

/* After an error the names get any type, so that one mistake is reported
   once. */
static void define_failed(Checker *c, Sym *name, Span span) {
  Binding *b = binding_new(c, BK_VALUE, name, span);
  b->has_error = true;
  module_define(c, name, b);
}

static void define_failed_names(Checker *c, const Pat *p) {
  if ((p->kind == PAT_VAR || p->kind == PAT_AS || p->kind == PAT_SPLICE) &&
      p->id)
    define_failed(c, p->id, p->span);
  for (uint32_t i = 0; i < p->arg_count; i++)
    define_failed_names(c, p->args[i]);
  for (uint32_t i = 0; i < p->field_count; i++)
    if (p->fields[i].pat)
      define_failed_names(c, p->fields[i].pat);
    else
      define_failed(c, p->fields[i].id, p->fields[i].span);
}

static void define_failed_dec(Checker *c, Dec *dec) {
  if (dec->kind == DEC_VAL)
    define_failed_names(c, dec->pat);
  for (uint32_t i = 0; i < dec->fun_count; i++)
    define_failed(c, dec->funs[i].name, dec->funs[i].name_span);
}

/* Reports each _ of an annotation with the inferred size or type, in the names
   of the surrounding type. */
static void report_typed_holes(Checker *c, const Bindings *bound) {
  for (uint32_t i = 0; i < c->notes.typed_holes.len; i++) {
    const TypedHole *h = &c->notes.typed_holes.at[i];
    Scheme *around = NULL;
    for (uint32_t j = 0; j < bound->len; j++)
      if (!around || bound->at[j]->span.start <= h->span.start)
        around = bound->at[j]->scheme;
    TypePrinter *p = around ? printer_new(c, around, true) : NULL;
    const char *is = h->dim
                         ? p ? printer_dim(p, h->dim) : dim_to_text(c, h->dim)
                     : p ? printer_type(p, h->type)
                         : ty_text(c, h->type);
    error_at(c, 330, h->span, "found hole `_`: it is %s", is)->help =
        h->dim ? "replace _ with this size, or with a name"
               : "replace _ with this type";
  }
}

static void find_unsolved(void *arg, DimVar *v) {
  DimVar **out = arg;
  if (v->kind == DV_META && !v->solution && !v->unknown)
    *out = v;
}

/* Reports a size that is needed at run time but never determined. */
static bool report_undetermined(Checker *c, const UndeterminedSize *u) {
  DimVar *v = NULL;
  dim_each_var(dim_resolve(c->dims, u->dim), find_unsolved, NULL, &v);
  if (!v || (u->is_checked && c->diags->errors))
    return false;
  const char *name = u->name ? u->name : dim_var_name(c->dims, v);
  Diag *d = u->used_name ? error_at(c, 363, u->use_span,
                                    "cannot determine the size `%s` of %s",
                                    name, u->used_name->text)
                         : error_at(c, 363, u->use_span,
                                    "cannot determine the size `%s`", name);
  d->help = u->required
                ? "nothing gives it a value: annotate a result, as in `(x : "
                  "f32[3])`, or assume one with -D"
                : "its constraints have no solution, several solutions, or are "
                  "too complex";
  c->names.module = u->module;
  define_failed_dec(c, u->dec);
  return true;
}

/* Reports sizes that a declaration needs to compute the value from which they
   would be read. */
static bool report_sizes_of_itself(Checker *c, const Dec *dec) {
  for (uint32_t i = 0; i < c->sizes.undetermined.len; i++) {
    const UndeterminedSize *u = &c->sizes.undetermined.at[i];
    if (u->dec == dec && u->required && report_undetermined(c, u))
      return true;
  }
  return false;
}

void checker_default_sizes(Checker *c) {
  const Dec *told = NULL;
  for (uint32_t i = 0; i < c->sizes.unsized_values.len; i++) {
    UnsizedValue *at = &c->sizes.unsized_values.at[i];
    if (at->dec == told || report_sizes_of_itself(c, at->dec)) {
      told = at->dec;
      continue;
    }
    Map fresh;
    map_init(&fresh, c->arena);
    c->inference.work = 0;
    collect_unsolved_axes(c, at->type, &fresh);
    if (fresh.len)
      unpack_sizes(c, at->type, at->core, &fresh);
  }
  c->sizes.unsized_values.len = 0;
  for (uint32_t i = 0; i < c->sizes.undetermined.len; i++) {
    const UndeterminedSize *u = &c->sizes.undetermined.at[i];
    if (u->dec != told && report_undetermined(c, u))
      told = u->dec;
  }
  c->sizes.undetermined.len = 0;
}

const Assumption *checker_facts(const Checker *c) {
  return c->facts.assumptions;
}

void checker_forget_facts(Checker *c, const Assumption *facts) {
  Assumption *f = c->facts.assumptions;
  while (f && f != facts)
    f = f->outer;
  c->facts.assumptions = f;
}

static bool check_once(Checker *c, Module *module, Dec *dec, Diags *diags,
                       Checked *out) {
  begin_dec(c, module, diags);
  module->journal.len = 0;
  Bindings bound = {0};
  c->inference.pattern_bindings = &bound;
  uint32_t errors = diags->errors, undetermined = c->sizes.undetermined.len;
  uint32_t reported = diags->all.len;
  *out = (Checked){0};
  CoreDec *d = NULL;
  Type *type = NULL;
  Assumption *assumptions = c->facts.assumptions;
  if (dec->kind == DEC_VAL && dec->expr->kind == EX_ERROR) {
    define_failed_dec(c, dec); /* a syntax error, which was reported */
    return false;
  }
  if (dec->kind == DEC_EXPR || dec->kind == DEC_DO)
    infer_do(c, dec, &d, &type);
  else
    dec_infer(c, dec, true, &d);
  c->solver.progress = true;
  solve_pending(c);
  if (c->inference.needs_recheck)
    return false;
  if (diags->errors == errors)
    solve_residual(c);
  if (c->inference.recursive_call)
    drop_errors_of_recursion(c, dec, diags, reported);
  /* the equations are wrong, so ignore what they determined */
  if (diags->errors > errors) {
    define_failed_dec(c, dec);
    c->facts.assumptions = assumptions;
    pending_clear(c);
    c->solver.residual.len = c->inference.instances.len = 0;
    return false;
  }
  for (Assumption *f = c->facts.assumptions; f && f != assumptions;
       f = f->outer)
    f->dim = dim_resolve(c->dims, f->dim);
  global_elems_collect(c, &bound);
  instances_finish(c); /* residual equations may give sizes to pass */
  c->solver.residual.len = 0;
  if (d) {
    unpack_size_bindings(c, d);
    finish_dec(c, d);
  }
  for (uint32_t i = undetermined; i < c->sizes.undetermined.len; i++)
    c->sizes.undetermined.at[i].dec = dec;
  if (d) {
    out->decs = NEW(c->arena, CoreDec *);
    out->decs[out->dec_count++] = d;
  }
  report_typed_holes(c, &bound);
  report_no_floats(c);
  report_missing_files(c);
  check_sizes_fit(c, dec);
  if (diags->errors > errors) { /* or a literal that does not fit */
    define_failed_dec(c, dec);
    *out = (Checked){0};
    return false;
  }
  out->bindings = NEW_ARRAY(c->arena, Binding *, bound.len);
  for (uint32_t i = 0; i < bound.len; i++)
    add_binding(c, out, bound.at[i], dec);
  return true;
}

/* If a limit is exceeded, only this declaration is in error. */
static bool check_within_limits(Checker *c, Module *module, Dec *dec,
                                Diags *diags, Checked *out) {
  Assumption *assumptions = c->facts.assumptions;
  Trap trap;
  c->inference.dec_span = dec->span;
  if (TRAP_SET(trap) == FAIL_NONE) {
    bool ok = check_once(c, module, dec, diags, out);
    trap_end(&trap);
    return ok;
  }
  c->names.collected_givens = NULL;
  if (trap.kind != FAIL_LIMIT)
    trap_raise(trap.kind);
  begin_dec(c, module, diags);
  c->facts.assumptions = assumptions;
  define_failed_dec(c, dec);
  *out = (Checked){0};
  return false;
}

/* Each pass retracted other singletons. */
static void fail_recheck(Checker *c, Dec *dec) {
  error_at(c, 324, dec->span,
           "the integers in this declaration are too difficult to follow")
      ->help =
      "annotate the integers that change in its loops, as in (n : int)";
  define_failed_dec(c, dec);
}

/* What a pass over a declaration adds to, so that another pass can begin
   anew. */
typedef struct PassStart {
  uint32_t errors, warnings, diags, refs, unproved, deferred, unsized,
      undetermined, names;
  TextStart elems;
  CheckStats stats;
  Assumption *assumptions;
} PassStart;

static PassStart pass_start(Checker *c, const Module *module,
                            const Diags *diags) {
  return (PassStart){.errors = diags->errors,
                     .warnings = diags->warnings,
                     .diags = diags->all.len,
                     .refs = refs_mark(c),
                     .unproved = c->notes.unproved.len,
                     .deferred = c->notes.deferred.len,
                     .unsized = c->sizes.unsized_values.len,
                     .undetermined = c->sizes.undetermined.len,
                     .names = module->bindings.len,
                     .elems = global_elems_mark(c),
                     .stats = c->notes.stats,
                     .assumptions = c->facts.assumptions};
}

static void pass_undo(Checker *c, Module *module, Diags *diags,
                      const PassStart *from) {
  module_undo(module);
  module->bindings.len = from->names;
  refs_truncate(c, from->refs);
  global_elems_undo(c, &from->elems);
  diags->errors = from->errors;
  diags->warnings = from->warnings;
  diags->all.len = from->diags;
  c->notes.stats = from->stats;
  c->notes.unproved.len = from->unproved;
  c->notes.deferred.len = from->deferred;
  c->sizes.unsized_values.len = from->unsized;
  c->sizes.undetermined.len = from->undetermined;
  c->facts.assumptions = from->assumptions;
}

/* A second pass is needed with some singletons retracted. */
static bool check_rounds(Checker *c, Module *module, Dec *dec, Diags *diags,
                         Checked *out) {
  PassStart start = pass_start(c, module, diags);
  map_init(&c->inference.retracted_singletons, c->arena);
  map_init(&c->inference.expansions, c->arena);
  for (int round = 0;; round++) {
    c->inference.guesses.len = c->inference.bracket_calls.len = 0;
    bool ok = check_within_limits(c, module, dec, diags, out);
    bool last = !c->inference.needs_recheck || round == 8;
    if (c->inference.needs_recheck && last && diags->errors == start.errors)
      fail_recheck(c, dec);
    if (last)
      return ok;
    pass_undo(c, module, diags, &start);
  }
}

/* Another pass over a declaration.  Returns its number of errors. */
static uint32_t check_again(Checker *c, Module *module, Dec *dec, Diags *diags,
                            Checked *out, const PassStart *start) {
  pass_undo(c, module, diags, start);
  check_rounds(c, module, dec, diags, out);
  return diags->errors - start->errors;
}

static const Diag *first_error(const Diags *diags, uint32_t from) {
  while (from < diags->all.len && diags->all.at[from]->severity != SEV_ERROR)
    from++;
  return from < diags->all.len ? diags->all.at[from] : NULL;
}

/* Checks a declaration with errors under other guesses.  If these give no fewer
   errors, reports those under the first ones: a guess that follows from one
   error is not a second one. */
static bool check_guesses(Checker *c, Module *module, Dec *dec, Diags *diags,
                          Checked *out, const PassStart *start) {
  enum { MAX_PASSES = 4 };
  const Diag *error = first_error(diags, start->diags);
  uint32_t errors = diags->errors - start->errors, left = errors;
  for (int i = 0; left >= errors && i < MAX_PASSES && guesses_reverse_all(c);
       i++)
    left = check_again(c, module, dec, diags, out, start);
  if (left < errors && guesses_reverse_wrong(c, error)) {
    left = check_again(c, module, dec, diags, out, start);
    if (left < errors)
      return !left;
  }
  map_init(&c->inference.reversed_guesses, c->arena);
  pass_undo(c, module, diags, start);
  return check_rounds(c, module, dec, diags, out);
}

bool checker_dec(Checker *c, Module *module, Dec *dec, Diags *diags,
                 Checked *out) {
  PassStart start = pass_start(c, module, diags);
  map_init(&c->inference.reversed_guesses, c->arena);
  bool ok = check_rounds(c, module, dec, diags, out);
  if (diags->errors > start.errors && c->inference.guesses.len)
    ok = check_guesses(c, module, dec, diags, out, &start);
  if (!ok)
    global_elems_undo(c, &start.elems);
  refs_finish(c, start.refs, module, dec);
  return ok;
}

Scheme *expr_scheme(Checker *c, Module *module, Expr *expr, Diags *diags) {
  begin_dec(c, module, diags);
  map_init(&c->inference.retracted_singletons, c->arena);
  map_init(&c->inference.expansions, c->arena);
  map_init(&c->inference.reversed_guesses, c->arena);
  c->inference.guesses.len = c->inference.bracket_calls.len = 0;
  uint32_t errors = diags->errors;
  c->inference.effect = effect_var(c);
  c->inference.level = 1;
  Type *t;
  infer(c, expr, &t);
  c->solver.progress = true;
  solve_pending(c);
  if (diags->errors > errors)
    return NULL;
  c->inference.level = 0;
  Scheme *s[1] = {NULL};
  scheme_generalize(c, 1, &t, s, 0);
  pending_clear(c);
  c->solver.residual.len = c->inference.instances.len = 0;
  return s[0];
}

const char *checker_expr_type(Checker *c, Module *module, Expr *expr,
                              Diags *diags) {
  Scheme *s = expr_scheme(c, module, expr, diags);
  return s ? scheme_text(c, s) : NULL;
}
