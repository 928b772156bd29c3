/* Creates a checker, and answers queries about checked names. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/diag.h"
#include "support/intern.h"

#include <string.h>

/* ---- the session ---- */

static Datatype *builtin_data(Checker *c, const char *name, uint32_t arity) {
  Datatype *d = NEW(c->arena, Datatype);
  d->name = intern_string(c->interner, name);
  d->arity = arity;
  TypeName *t = NEW(c->arena, TypeName);
  t->name = d->name;
  t->data = d;
  map_put(&c->names.prelude->types, d->name, t);
  return d;
}

static Dim *shape_var_product(void *owner, ShapeVar *v) {
  return v->solution ? shape_product(owner, v->solution) : NULL;
}

static const char *shape_var_name(void *owner, ShapeVar *v) {
  (void)owner;
  return v->printed_name ? v->printed_name : v->name ? v->name->text : "s";
}

static uint32_t shape_var_id(void *owner, ShapeVar *v) {
  (void)owner;
  return v->id;
}

static void error_size_limit(void *owner) {
  Checker *c = owner;
  if (!c->diags)
    return;
  error_at(c, 324, c->inference.dec_span,
           "a size in this declaration is too large")
      ->help = "give names to its parts";
}

Checker *checker_new(Arena *session, Sources *sources, Interner *interner,
                     DimCtx *dims, const CheckHost *host) {
  Checker *c = NEW(session, Checker);
  c->arena = session;
  c->sources = sources;
  c->interner = interner;
  c->dims = dims;
  c->host = host;
  c->check_library = check_library_dec;
  dims->shape_product = shape_var_product;
  dims->shape_name = shape_var_name;
  dims->shape_id = shape_var_id;
  dims->owner = c;
  dims->limit_exceeded = error_size_limit;
  c->facts.loaded = assumptions_new(dims);
  c->names.prelude = module_new(c, NULL);
  c->names.prelude->library = true;
  map_init(&c->names.library_modules, session);
  map_init(&c->inference.retracted_singletons, session);
  map_init(&c->inference.reversed_guesses, session);
  map_init(&c->inference.expansions, session);
  map_init(&c->sizes.defined, session);
  map_init(&c->sizes.used, session);
  map_init(&c->facts.compared_sizes, session);
  for (Dtype t = DT_NONE + 1; t < DT_COUNT; t++)
    elem_fixed(c, t);
  c->builtins.list_datatype = builtin_data(c, "list", 1);
  c->builtins.string_datatype = builtin_data(c, "string", 0);
  c->builtins.key_datatype = builtin_data(c, "key", 0);
  c->builtins.sym_all = intern_string(interner, "all");
  c->builtins.sym_true = intern_string(interner, "true");
  c->builtins.sym_false = intern_string(interner, "false");
  return c;
}

void checker_define_size(Checker *c, Sym *name, int64_t value) {
  map_put(&c->sizes.defined, name, dim_int(c->dims, value));
}

bool checker_used_size(const Checker *c, Sym *name) {
  return map_get(&c->sizes.used, name) != NULL;
}

CheckStats checker_stats(const Checker *c) {
  return c->notes.stats;
}

const UnprovedConstraint *checker_unproved(Checker *c, uint32_t *count) {
  uint32_t n = c->notes.unproved.len;
  UnprovedConstraint *all =
      NEW_ARRAY(c->arena, UnprovedConstraint, n + c->notes.deferred.len);
  for (uint32_t i = 0; i < n; i++)
    all[i] = c->notes.unproved.at[i];
  TypePrinter *printer = NULL;
  for (uint32_t i = 0; i < c->notes.deferred.len; i++) {
    DeferredConstraint *k = &c->notes.deferred.at[i];
    if (!i || k->scheme != k[-1].scheme)
      printer = printer_new(c, k->scheme, false);
    all[n++] = (UnprovedConstraint){.span = k->given->origin->span,
                                    .text = printer_given(printer, k->given),
                                    .name = k->name->text};
  }
  *count = n;
  return all;
}

const UnprovedConstraint *checker_run_time_checks(const Checker *c,
                                                  uint32_t *count) {
  *count = c->notes.unproved.len;
  return c->notes.unproved.at;
}

/* ---- what is known about names ---- */

Sym *binding_name(const Binding *b) {
  return b->name;
}
const char *binding_doc(const Binding *b) {
  return b->doc;
}
const Var *binding_var(const Binding *b) {
  return b->kind == BK_VALUE ? b->value.var : NULL;
}

const char *binding_type(Checker *c, Binding *b) {
  if (!b->type_text) {
    if (b->kind == BK_MODULE)
      return "module";
    Diags ignored;
    c->inference.work = 0;
    diags_init(&ignored, c->arena);
    Diags *saved = c->diags;
    c->diags = &ignored;
    Scheme *s = binding_scheme(c, b);
    b->type_text = s ? scheme_text(c, s) : "?";
    c->diags = saved;
  }
  return b->type_text;
}

Binding *checker_find(Checker *c, Module *m, const char *name) {
  Diags ignored;
  diags_init(&ignored, c->arena);
  c->diags = &ignored;
  c->names.module = m;
  c->names.scope = NULL;
  const char *dot = strchr(name, '.');
  Sym *module = dot ? intern(c->interner, name, (size_t)(dot - name)) : NULL;
  return lookup(c, module, intern_string(c->interner, dot ? dot + 1 : name));
}

void module_each(Module *m, void (*f)(void *, Binding *), void *arg) {
  for (uint32_t i = 0; i < m->bindings.len; i++)
    if (map_get(&m->names, m->bindings.at[i]->name) == m->bindings.at[i])
      f(arg, m->bindings.at[i]);
}

void binding_fields(Checker *c, Binding *b, void (*f)(void *, const char *),
                    void *arg) {
  if (b->kind != BK_VALUE || !b->scheme)
    return;
  for (Type *t = ty_norm(c, b->scheme->type); t && t->tag == TY_RECORD;
       t = t->record.rest ? ty_norm(c, t->record.rest) : NULL)
    for (uint32_t i = 0; i < t->count; i++)
      f(arg, t->record.labels[i]->text);
}
