/* Looking up names: in scopes, in modules, and in the library, whose
 * definitions are checked when they are first used. */
#include "typecheck/internal.h"

#include <string.h>

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
