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

enum { SCOPE_BLOCK = 256 };

static void block_end(Checker *c, Scope *last) {
  Scope *s = last;
  Map *names = NEW(c->arena, Map);
  map_init(names, c->arena);
  for (uint32_t i = 0; i < last->count; i++, s = s->outer)
    if (s->name)
      map_put(names, s->name, s);
  last->names = names;
  last->before = s;
}

/* Of very many names, as in a large group of functions, most are passed over
 * in blocks. */
Scope *scope_push(Checker *c, Sym *name, Binding *b) {
  Scope *s = NEW(c->arena, Scope);
  s->outer = c->scope;
  s->name = name;
  s->binding = b;
  s->count = s->outer && !s->outer->names ? s->outer->count + 1 : 1;
  if (s->count == SCOPE_BLOCK)
    block_end(c, s);
  c->scope = s;
  return s;
}

Scope *scope_find(Scope *s, const Sym *name) {
  while (s && s->name != name)
    s = s->names && !map_get(s->names, name) ? s->before : s->outer;
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
void module_put(Checker *c, Sym *name, Binding *b) {
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
static void track_terms(Checker *c, PrimId id, Type *t) {
  Dim *x[2] = {NULL, NULL};
  int n = 0;
  Type *r = t;
  for (; r->tag == TY_FUN && n < 2; r = r->arg[1]) {
    DimVar *v = dim_new_var(c->dims, DV_RIGID, NULL, (Span){0});
    v->value = true;
    v->level = LEVEL_GENERIC;
    Dim *d = dim_of_var(c->dims, v);
    r->arg[0]->term = d;
    x[n++] = d;
  }
  switch (id) {
  case PRIM_ADD: r->term = dim_add(c->dims, x[0], x[1]); break;
  case PRIM_SUB: r->term = dim_sub(c->dims, x[0], x[1]); break;
  case PRIM_MUL: r->term = dim_mul(c->dims, x[0], x[1]); break;
  case PRIM_NEG: r->term = dim_neg(c->dims, x[0]); break;
  case PRIM_MAXIMUM: r->term = dim_max(c->dims, x[0], x[1]); break;
  case PRIM_MINIMUM: r->term = dim_min(c->dims, x[0], x[1]); break;
  default: break; /* DIV, MOD: parameters only */
  }
}

static bool tracks_terms(PrimId id) {
  return id == PRIM_ADD || id == PRIM_SUB || id == PRIM_MUL ||
         id == PRIM_NEG || id == PRIM_MAXIMUM || id == PRIM_MINIMUM ||
         id == PRIM_DIV || id == PRIM_MOD;
}

static Scheme *prim_scheme(Checker *c, PrimId id) {
  const PrimInfo *info = &prim_info[id];
  Scheme *s = scheme_of_text(c, info->scheme, info->flags, info->name);
  if (tracks_terms(id))
    track_terms(c, id, s->type);
  return s;
}

static Scheme *dtype_scheme(Checker *c, Dtype t) {
  return scheme_of_text(
      c,
      arena_printf(c->arena, "'a[...s] -> %s[...s]", dtype_info[t].name), 0,
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
  Sym *name = intern_text(c->in, prim_info[id].name);
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
  PrimId id = prim_named(full);
  if (id != PRIM_NONE)
    return binding_of_prim(c, id);
  Dtype t = module ? DT_NONE : dtype_named(name->text);
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
static void set_aside(Checker *c) {
  c->scope = NULL;
  c->level = 0;
  c->facts = NULL;
  c->part = 0;
  c->head = NULL;
  c->loop = NULL;
  c->group = NULL;
  c->collect = NULL;
  memset(&c->pending, 0, sizeof c->pending);
  memset(&c->accesses, 0, sizeof c->accesses);
  memset(&c->insts, 0, sizeof c->insts);
  memset(&c->stuck, 0, sizeof c->stuck);
  memset(&c->found, 0, sizeof c->found);
  memset(&c->data_facts, 0, sizeof c->data_facts);
  memset(&c->params, 0, sizeof c->params);
  memset(&c->sized, 0, sizeof c->sized);
  memset(&c->unwritten, 0, sizeof c->unwritten);
  memset(&c->told, 0, sizeof c->told);
  memset(&c->holes, 0, sizeof c->holes);
  map_init(&c->terms, c->arena);
  c->conditional = 0;
}

static void take_back(Checker *c, const Checker *saved) {
  CheckStats stats = c->stats;
  uint32_t next = c->next_id;
  Map libs = c->library_modules;
  __typeof__(c->open) open = c->open;
  *c = *saved;
  c->stats.open = stats.open;
  for (CheckRow row = 0; row < ROW_COUNT; row++)
    c->stats.row[row].open = stats.row[row].open;
  c->next_id = next;
  c->library_modules = libs;
  c->open = open;
}

/* Checks a library definition in its own module, whatever is being checked
 * now; it is handed to the evaluator, to be run when first used. */
static void library_check(Checker *c, Module *m, Dec *dec) {
  Checker saved = *c;
  set_aside(c);
  Checked out = {0};
  checker_dec(c, m, dec, saved.diags, &out);
  for (uint32_t i = 0; i < out.dec_count; i++)
    c->host->define(c->host->owner, out.decs[i]);
  take_back(c, &saved);
}

bool checker_tries(Checker *c, Module *m, Dec *const *decs, uint32_t count) {
  Checker saved = *c;
  Diags ignored;
  Checked out;
  uint32_t names = m->order.len;
  VEC(NameChange) changes = {0};
  bool ok = true;
  diags_init(&ignored, c->arena);
  set_aside(c);
  c->facts = saved.facts;
  c->kept = NULL;
  for (uint32_t i = 0; ok && i < count; i++) {
    ok = checker_dec(c, m, decs[i], &ignored, &out) && !ignored.errors;
    for (uint32_t k = 0; k < m->journal.len; k++)
      VEC_PUSH(c->arena, changes, m->journal.at[k]);
  }
  while (changes.len) {
    NameChange *change = &changes.at[--changes.len];
    map_put(&m->names, change->name, change->before);
  }
  m->order.len = names;
  m->journal.len = 0;
  take_back(c, &saved);
  c->stats = saved.stats;
  c->open = saved.open;
  return ok;
}

Module *checker_import(Checker *c, Dec *dec) {
  Checker saved = *c;
  set_aside(c);
  Module *m = c->host->import(c->host->owner, dec->span.file, dec->span,
                              dec->path, dec->id);
  take_back(c, &saved);
  return m;
}

static Binding *library_name(Checker *c, Module *m, Sym *name) {
  Binding *b = map_get(&m->names, name);
  if (b)
    return b;
  b = builtin(c, m->name, name);
  if (b)
    return b;
  Dec *dec = c->host->library(c->host->owner, m->name, name);
  if (!dec)
    return NULL;
  library_check(c, m, dec);
  return map_get(&m->names, name);
}

static TypeName *library_type(Checker *c, Module *m, Sym *name) {
  TypeName *t = map_get(&m->types, name);
  if (t)
    return t;
  Dec *dec = c->host->library(c->host->owner, m->name, name);
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
    return b->target;
  return library_module(c, name);
}

Binding *lookup(Checker *c, Sym *module, Sym *name) {
  if (module) {
    Module *m = module_named(c, module);
    return m ? lookup_in(c, m, name) : NULL;
  }
  for (Scope *s = scope_find(c->scope, name); s;
       s = scope_find(s->outer, name))
    if (s->binding)
      return s->binding;
  Binding *b = lookup_in(c, c->module, name);
  if (!b && c->module != c->prelude)
    b = lookup_in(c, c->prelude, name);
  if (!b) {
    Module *m = library_module(c, name);
    if (m) {
      b = binding_new(c, BK_MODULE, name, (Span){0});
      b->target = m;
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

static Data *builtin_data(Checker *c, const char *name, uint32_t arity) {
  Data *d = NEW(c->arena, Data);
  d->name = intern_text(c->in, name);
  d->arity = arity;
  TypeName *t = NEW(c->arena, TypeName);
  t->name = d->name;
  t->data = d;
  map_put(&c->prelude->types, d->name, t);
  return d;
}

static Dim *prod_of(void *owner, ShapeVar *v) {
  return v->bound ? shape_prod_dim(owner, v->bound) : NULL;
}

static const char *name_of(void *owner, ShapeVar *v) {
  (void)owner;
  return v->text ? v->text : v->name ? v->name->text : "s";
}

static uint32_t id_of(void *owner, ShapeVar *v) {
  (void)owner;
  return v->id;
}

static void size_too_big(void *owner) {
  Checker *c = owner;
  if (!c->diags)
    return;
  error_at(c, 324, c->at, "a size in this declaration grows too large")->help =
      "name parts of it with a size of their own";
}

Checker *checker_new(Arena *session, Sources *sources, Interner *interner,
                     DimCtx *dims, const CheckHost *host) {
  Checker *c = NEW(session, Checker);
  c->arena = session;
  c->sources = sources;
  c->in = interner;
  c->dims = dims;
  c->host = host;
  dims->shape_prod = prod_of;
  dims->shape_name = name_of;
  dims->shape_id = id_of;
  dims->owner = c;
  dims->too_big = size_too_big;
  c->solver = dim_facts_new(dims);
  c->prelude = module_new(c, NULL);
  c->prelude->library = true;
  map_init(&c->library_modules, session);
  map_init(&c->forgotten, session);
  map_init(&c->sizes, session);
  map_init(&c->sizes_met, session);
  map_init(&c->terms, session);
  for (Dtype t = DT_NONE + 1; t < DT_COUNT; t++)
    elem_fixed(c, t);
  c->data_list = builtin_data(c, "list", 1);
  c->data_string = builtin_data(c, "string", 0);
  builtin_data(c, "key", 0);
  c->sym_all = intern_text(interner, "all");
  c->sym_true = intern_text(interner, "true");
  c->sym_false = intern_text(interner, "false");
  return c;
}

void checker_define_size(Checker *c, Sym *name, int64_t value) {
  map_put(&c->sizes, name, dim_int(c->dims, value));
}

bool checker_met_size(const Checker *c, Sym *name) {
  return map_get(&c->sizes_met, name) != NULL;
}

CheckStats checker_stats(const Checker *c) { return c->stats; }

const OpenConstraint *checker_open(Checker *c, uint32_t *count) {
  uint32_t n = c->open.len;
  OpenConstraint *all =
      NEW_ARRAY(c->arena, OpenConstraint, n + c->carried.len);
  for (uint32_t i = 0; i < n; i++)
    all[i] = c->open.at[i];
  for (uint32_t i = 0; i < c->carried.len; i++) {
    Carried *k = &c->carried.at[i];
    all[n++] = (OpenConstraint){.span = k->given->origin->span,
                                .text = given_text(c, k->scheme, k->given),
                                .name = k->name->text};
  }
  *count = n;
  return all;
}

/* ---- what is known about names ---- */

Sym *binding_name(const Binding *b) { return b->name; }
const char *binding_doc(const Binding *b) { return b->doc; }
const Var *binding_var(const Binding *b) { return b->var; }

const char *binding_type(Checker *c, Binding *b) {
  if (!b->shown) {
    if (b->kind == BK_MODULE)
      return "module";
    Diags ignored;
    c->work = 0;
    diags_init(&ignored, c->arena);
    Diags *saved = c->diags;
    c->diags = &ignored;
    Scheme *s = binding_scheme(c, b);
    b->shown = s ? scheme_text(c, s) : "?";
    c->diags = saved;
  }
  return b->shown;
}

Binding *checker_find(Checker *c, Module *m, const char *name) {
  Diags ignored;
  diags_init(&ignored, c->arena);
  c->diags = &ignored;
  c->module = m;
  c->scope = NULL;
  const char *dot = strchr(name, '.');
  Sym *module = dot ? intern(c->in, name, (size_t)(dot - name)) : NULL;
  return lookup(c, module, intern_text(c->in, dot ? dot + 1 : name));
}

void module_each(Module *m, void (*f)(void *, Binding *), void *arg) {
  for (uint32_t i = 0; i < m->order.len; i++)
    if (map_get(&m->names, m->order.at[i]->name) == m->order.at[i])
      f(arg, m->order.at[i]);
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
