/* Names: local scopes, modules, primitives, and the library, whose definitions
 * are checked when they are first used. */
#include "typecheck/internal.h"

#include <string.h>

Binding *binding_new(Checker *c, BindingKind kind, Sym *name, Span span) {
  Binding *b = NEW(c->arena, Binding);
  b->kind = kind;
  b->name = name;
  b->span = span;
  b->module = c->module;
  b->level = c->level;
  return b;
}

enum { SCOPE_BLOCK_NAMES = 256 };

static void end_scope_block(Checker *c, Scope *last) {
  Scope *s = last;
  Map *names = NEW(c->arena, Map);
  map_init(names, c->arena);
  for (uint32_t i = 0; i < last->block_length; i++, s = s->outer)
    if (s->name)
      map_put(names, s->name, s);
  last->block_names = names;
  last->block_outer = s;
}

/* Of very many names, as in a large group of functions, most are passed over
 * in blocks. */
Scope *scope_push(Checker *c, Sym *name, Binding *b) {
  Scope *s = NEW(c->arena, Scope);
  s->outer = c->scope;
  s->name = name;
  s->binding = b;
  s->block_length =
      s->outer && !s->outer->block_names ? s->outer->block_length + 1 : 1;
  if (s->block_length == SCOPE_BLOCK_NAMES)
    end_scope_block(c, s);
  c->scope = s;
  return s;
}

Scope *scope_find(Scope *s, const Sym *name) {
  while (s && s->name != name)
    s = s->block_names && !map_get(s->block_names, name) ? s->block_outer
                                                         : s->outer;
  return s;
}

Var *var_new(Checker *c, Sym *name, Span span, bool global) {
  Var *v = NEW(c->arena, Var);
  v->name = name;
  v->span = span;
  v->global = global;
  return v;
}

/* ---- modules ---- */

Module *module_new(Checker *c, Sym *name) {
  Module *m = NEW(c->arena, Module);
  m->name = name;
  m->checker = c;
  map_init(&m->names, c->arena);
  map_init(&m->types, c->arena);
  return m;
}

/* Gives a name in the module being checked; checker_undo takes it back. */
void module_define(Checker *c, Sym *name, Binding *b) {
  Module *m = c->module;
  VEC_PUSH(c->arena, m->journal,
           ((NameChange){name, map_get(&m->names, name)}));
  map_put(&m->names, name, b);
}

void module_undo(Module *m) {
  while (m->journal.len) {
    NameChange *change = &m->journal.at[--m->journal.len];
    map_put(&m->names, change->name, change->before);
  }
}

static Module *library_module(Checker *c, Sym *name) {
  Module *m = map_get(&c->library_modules, name);
  if (!m && c->host->library_module(c->host->owner, name)) {
    m = module_new(c, name);
    m->library = true;
    map_put(&c->library_modules, name, m);
  }
  return m;
}

/* ---- primitives ---- */

/* Integer arithmetic tracks sizes: the result's term is made of the terms of
 * the arguments.  Division is left to the operator, which knows its divisor. */
static void track_singletons(Checker *c, PrimId id, Type *t) {
  Dim *x[2] = {NULL, NULL};
  int n = 0;
  Type *r = t;
  for (; r->tag == TY_FUN && n < 2; r = r->arg[1]) {
    DimVar *v = dim_new_var(c->dims, DV_SKOLEM, NULL, (Span){0});
    v->is_integer = true;
    v->level = LEVEL_GENERIC;
    Dim *d = dim_of_var(c->dims, v);
    r->arg[0]->singleton = d;
    x[n++] = d;
  }
  switch (id) {
  case PRIM_ADD:
    r->singleton = dim_add(c->dims, x[0], x[1]);
    break;
  case PRIM_SUB:
    r->singleton = dim_sub(c->dims, x[0], x[1]);
    break;
  case PRIM_MUL:
    r->singleton = dim_mul(c->dims, x[0], x[1]);
    break;
  case PRIM_NEG:
    r->singleton = dim_neg(c->dims, x[0]);
    break;
  case PRIM_MAXIMUM:
    r->singleton = dim_max(c->dims, x[0], x[1]);
    break;
  case PRIM_MINIMUM:
    r->singleton = dim_min(c->dims, x[0], x[1]);
    break;
  default:
    break; /* DIV, MOD: parameters only */
  }
}

static bool prim_tracks_singletons(PrimId id) {
  return id == PRIM_ADD || id == PRIM_SUB || id == PRIM_MUL || id == PRIM_NEG ||
         id == PRIM_MAXIMUM || id == PRIM_MINIMUM || id == PRIM_DIV ||
         id == PRIM_MOD;
}

static Scheme *prim_scheme(Checker *c, PrimId id) {
  const PrimInfo *info = &prim_info[id];
  Scheme *s = scheme_of_text(c, info->scheme, info->flags, info->name);
  if (prim_tracks_singletons(id))
    track_singletons(c, id, s->type);
  return s;
}

static Scheme *dtype_scheme(Checker *c, Dtype t) {
  return scheme_of_text(
      c, arena_printf(c->arena, "'a[...s] -> %s[...s]", dtype_info[t].name), 0,
      dtype_info[t].name);
}

Scheme *binding_scheme(Checker *c, Binding *b) {
  if (!b->scheme && b->kind == BK_PRIM)
    b->scheme = prim_scheme(c, b->prim);
  if (!b->scheme && b->kind == BK_DTYPE)
    b->scheme = dtype_scheme(c, b->dtype);
  return b->scheme;
}

Binding *binding_of_prim(Checker *c, PrimId id) {
  Sym *name = intern_string(c->interner, prim_info[id].name);
  Binding *b = map_get(&c->prelude->names, name);
  if (!b) {
    b = binding_new(c, BK_PRIM, name, (Span){0});
    b->module = c->prelude;
    b->prim = id;
    b->doc = prim_info[id].doc;
    map_put(&c->prelude->names, name, b);
  }
  return b;
}

static Binding *builtin(Checker *c, Sym *module, Sym *name) {
  char full[256];
  snprintf(full, sizeof full, "%s%s%s", module ? module->text : "",
           module ? "." : "", name->text);
  PrimId id = prim_by_name(full);
  if (id != PRIM_NONE)
    return binding_of_prim(c, id);
  Dtype t = module ? DT_NONE : dtype_by_name(name->text);
  if (t == DT_NONE && !module && strcmp(name->text, "int") == 0)
    t = DT_I64;
  if (t == DT_NONE)
    return NULL;
  Binding *b = binding_new(c, BK_DTYPE, name, (Span){0});
  b->module = c->prelude;
  b->dtype = t;
  b->doc = "convert to this element type";
  map_put(&c->prelude->names, name, b);
  return b;
}

/* ---- the library ---- */

/* What a nested check must not disturb is put aside, and what it adds to the
 * session is kept. */
static void begin_nested_check(Checker *c) {
  c->scope = NULL;
  c->level = 0;
  c->assumptions = NULL;
  c->control_region = 0;
  c->head = NULL;
  c->for_scope = NULL;
  c->binding_group = NULL;
  c->collected_givens = NULL;
  memset(&c->pending, 0, sizeof c->pending);
  memset(&c->accesses, 0, sizeof c->accesses);
  memset(&c->instances, 0, sizeof c->instances);
  memset(&c->residual, 0, sizeof c->residual);
  memset(&c->discovered_sizes, 0, sizeof c->discovered_sizes);
  memset(&c->existential_assumptions, 0, sizeof c->existential_assumptions);
  memset(&c->params, 0, sizeof c->params);
  memset(&c->size_bindings, 0, sizeof c->size_bindings);
  memset(&c->typed_holes, 0, sizeof c->typed_holes);
  memset(&c->reported, 0, sizeof c->reported);
  memset(&c->reshape_holes, 0, sizeof c->reshape_holes);
  map_init(&c->compared_sizes, c->arena);
  c->index_condition_depth = 0;
}

static void end_nested_check(Checker *c, const Checker *saved) {
  CheckStats stats = c->stats;
  uint32_t next = c->next_id;
  Map library_modules = c->library_modules;
  __typeof__(c->unproved) unproved = c->unproved;
  *c = *saved;
  c->stats.runtime = stats.runtime;
  for (ConstraintClass row = 0; row < CONSTRAINT_CLASS_COUNT; row++)
    c->stats.by_class[row].runtime = stats.by_class[row].runtime;
  c->next_id = next;
  c->library_modules = library_modules;
  c->unproved = unproved;
}

/* Checks a library definition in its own module, whatever is being checked
 * now; it is handed to the evaluator, to be run when first used. */
static void library_check(Checker *c, Module *m, Dec *dec) {
  Checker saved = *c;
  begin_nested_check(c);
  Checked out = {0};
  checker_dec(c, m, dec, saved.diags, &out);
  for (uint32_t i = 0; i < out.dec_count; i++)
    c->host->define(c->host->owner, out.decs[i]);
  end_nested_check(c, &saved);
}

bool checker_try_decs(Checker *c, Module *m, Dec *const *decs, uint32_t count) {
  Checker saved = *c;
  Diags ignored;
  Checked out;
  uint32_t names = m->bindings.len;
  VEC(NameChange) changes = {0};
  bool ok = true;
  diags_init(&ignored, c->arena);
  begin_nested_check(c);
  c->assumptions = saved.assumptions;
  c->recorded_refs = NULL;
  for (uint32_t i = 0; ok && i < count; i++) {
    ok = checker_dec(c, m, decs[i], &ignored, &out) && !ignored.errors;
    for (uint32_t k = 0; k < m->journal.len; k++)
      VEC_PUSH(c->arena, changes, m->journal.at[k]);
  }
  while (changes.len) {
    NameChange *change = &changes.at[--changes.len];
    map_put(&m->names, change->name, change->before);
  }
  m->bindings.len = names;
  m->journal.len = 0;
  end_nested_check(c, &saved);
  c->stats = saved.stats;
  c->unproved = saved.unproved;
  return ok;
}

Module *checker_import(Checker *c, Dec *dec) {
  Checker saved = *c;
  begin_nested_check(c);
  Module *m = c->host->import(c->host->owner, dec->span.file, dec->span,
                              dec->path, dec->id);
  end_nested_check(c, &saved);
  return m;
}

static Binding *library_name(Checker *c, Module *m, Sym *name) {
  Binding *b = map_get(&m->names, name);
  if (b)
    return b;
  b = builtin(c, m->name, name);
  if (b)
    return b;
  Dec *dec = c->host->library_definition(c->host->owner, m->name, name);
  if (!dec)
    return NULL;
  library_check(c, m, dec);
  return map_get(&m->names, name);
}

static TypeName *library_type(Checker *c, Module *m, Sym *name) {
  TypeName *t = map_get(&m->types, name);
  if (t)
    return t;
  Dec *dec = c->host->library_definition(c->host->owner, m->name, name);
  if (!dec || (dec->kind != DEC_TYPE && dec->kind != DEC_DATATYPE))
    return NULL;
  library_check(c, m, dec);
  return map_get(&m->types, name);
}

/* ---- looking up ---- */

Binding *lookup_in(Checker *c, Module *m, Sym *name) {
  if (m->library)
    return library_name(c, m, name);
  Binding *b = map_get(&m->names, name);
  for (uint32_t i = m->opened.len; !b && i-- > 0;)
    b = lookup_in(c, m->opened.at[i], name);
  return b;
}

static Module *module_named(Checker *c, Sym *name) {
  Binding *b = map_get(&c->module->names, name);
  if (b && b->kind == BK_MODULE)
    return b->imported;
  return library_module(c, name);
}

Binding *lookup(Checker *c, Sym *module, Sym *name) {
  if (module) {
    Module *m = module_named(c, module);
    return m ? lookup_in(c, m, name) : NULL;
  }
  for (Scope *s = scope_find(c->scope, name); s; s = scope_find(s->outer, name))
    if (s->binding)
      return s->binding;
  Binding *b = lookup_in(c, c->module, name);
  if (!b && c->module != c->prelude)
    b = lookup_in(c, c->prelude, name);
  if (!b) {
    Module *m = library_module(c, name);
    if (m) {
      b = binding_new(c, BK_MODULE, name, (Span){0});
      b->imported = m;
    }
  }
  return b;
}

static TypeName *type_in(Checker *c, Module *m, Sym *name) {
  if (m->library)
    return library_type(c, m, name);
  TypeName *t = map_get(&m->types, name);
  for (uint32_t i = m->opened.len; !t && i-- > 0;)
    t = type_in(c, m->opened.at[i], name);
  return t;
}

TypeName *lookup_type(Checker *c, Sym *module, Sym *name) {
  if (module) {
    Module *m = module_named(c, module);
    return m ? type_in(c, m, name) : NULL;
  }
  TypeName *t = type_in(c, c->module, name);
  if (!t && c->module != c->prelude)
    t = library_type(c, c->prelude, name);
  return t;
}

/* ---- the session ---- */

static Datatype *builtin_data(Checker *c, const char *name, uint32_t arity) {
  Datatype *d = NEW(c->arena, Datatype);
  d->name = intern_string(c->interner, name);
  d->arity = arity;
  TypeName *t = NEW(c->arena, TypeName);
  t->name = d->name;
  t->data = d;
  map_put(&c->prelude->types, d->name, t);
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
  error_at(c, 324, c->dec_span, "a size in this declaration is too large")
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
  dims->shape_product = shape_var_product;
  dims->shape_name = shape_var_name;
  dims->shape_id = shape_var_id;
  dims->owner = c;
  dims->limit_exceeded = error_size_limit;
  c->solver = assumptions_new(dims);
  c->prelude = module_new(c, NULL);
  c->prelude->library = true;
  map_init(&c->library_modules, session);
  map_init(&c->retracted_singletons, session);
  map_init(&c->defined_sizes, session);
  map_init(&c->used_sizes, session);
  map_init(&c->compared_sizes, session);
  for (Dtype t = DT_NONE + 1; t < DT_COUNT; t++)
    elem_fixed(c, t);
  c->list_datatype = builtin_data(c, "list", 1);
  c->string_datatype = builtin_data(c, "string", 0);
  builtin_data(c, "key", 0);
  c->sym_all = intern_string(interner, "all");
  c->sym_true = intern_string(interner, "true");
  c->sym_false = intern_string(interner, "false");
  return c;
}

void checker_define_size(Checker *c, Sym *name, int64_t value) {
  map_put(&c->defined_sizes, name, dim_int(c->dims, value));
}

bool checker_used_size(const Checker *c, Sym *name) {
  return map_get(&c->used_sizes, name) != NULL;
}

CheckStats checker_stats(const Checker *c) {
  return c->stats;
}

const UnprovedConstraint *checker_unproved(Checker *c, uint32_t *count) {
  uint32_t n = c->unproved.len;
  UnprovedConstraint *all =
      NEW_ARRAY(c->arena, UnprovedConstraint, n + c->deferred.len);
  for (uint32_t i = 0; i < n; i++)
    all[i] = c->unproved.at[i];
  for (uint32_t i = 0; i < c->deferred.len; i++) {
    DeferredConstraint *k = &c->deferred.at[i];
    all[n++] = (UnprovedConstraint){.span = k->given->origin->span,
                                    .text = given_text(c, k->scheme, k->given),
                                    .name = k->name->text};
  }
  *count = n;
  return all;
}

/* ---- what is known about names ---- */

Sym *binding_name(const Binding *b) {
  return b->name;
}
const char *binding_doc(const Binding *b) {
  return b->doc;
}
const Var *binding_var(const Binding *b) {
  return b->var;
}

const char *binding_type(Checker *c, Binding *b) {
  if (!b->type_text) {
    if (b->kind == BK_MODULE)
      return "module";
    Diags ignored;
    c->work = 0;
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
  c->module = m;
  c->scope = NULL;
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
       t = t->arg[0] ? ty_norm(c, t->arg[0]) : NULL)
    for (uint32_t i = 0; i < t->count; i++)
      f(arg, t->labels[i]->text);
}
