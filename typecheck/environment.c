/* Name lookup: in scopes, in modules, and in the library, whose definitions are
   checked at their first use. */
#include "typecheck/internal.h"
#include "support/intern.h"
#include "support/trap.h"

#include <string.h>

static Module *library_module(Checker *c, Sym *name) {
  Module *m = map_get(&c->names.library_modules, name);
  if (!m && c->host->library_module(c->host->owner, name)) {
    m = module_new(c, name);
    m->library = true;
    map_put(&c->names.library_modules, name, m);
  }
  return m;
}

/* ---- primitives ---- */

Binding *binding_of_prim(Checker *c, PrimId id) {
  Sym *name = intern_string(c->interner, prim_info[id].name);
  Binding *b = map_get(&c->names.prelude->names, name);
  if (!b) {
    b = binding_new(c, BK_PRIM, name, (Span){0});
    b->module = c->names.prelude;
    b->prim = id;
    b->doc = prim_info[id].doc;
    map_put(&c->names.prelude->names, name, b);
  }
  return b;
}

static Binding *builtin(Checker *c, Sym *module, Sym *name) {
  char full[256];
  if (module)
    snprintf(full, sizeof full, "%s.%s", module->text, name->text);
  PrimId id = prim_by_name(module ? full : name->text);
  if (id != PRIM_NONE)
    return binding_of_prim(c, id);
  Dtype t = module ? DT_NONE : dtype_by_name(name->text);
  if (t == DT_NONE && !module && strcmp(name->text, "int") == 0)
    t = DT_I64;
  if (t == DT_NONE)
    return NULL;
  Binding *b = binding_new(c, BK_DTYPE, name, (Span){0});
  b->module = c->names.prelude;
  b->dtype = t;
  b->doc = "convert to this element type";
  map_put(&c->names.prelude->names, name, b);
  return b;
}

/* ---- the library ---- */

/* Checks a library declaration, unless its check needs it: its names are then
   not defined yet, as those of an earlier declaration in a file. */
static void check_library_once(Checker *c, Module *m, Dec *dec) {
  for (const DecInCheck *d = c->names.library_decs; d; d = d->outer)
    if (d->dec == dec)
      return;
  DecInCheck current = {dec, c->names.library_decs};
  c->names.library_decs = &current;
  Trap trap;
  FailKind kind = TRAP_SET(trap);
  if (kind == FAIL_NONE) {
    c->check_library(c, m, dec);
    trap_end(&trap);
  }
  c->names.library_decs = current.outer;
  if (kind != FAIL_NONE)
    trap_raise(kind);
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
  /* a type has no value of its name, and is declared once */
  bool is_type = dec->kind == DEC_TYPE || dec->kind == DEC_DATATYPE;
  if (!is_type || !map_get(&m->types, dec->name))
    check_library_once(c, m, dec);
  return map_get(&m->names, name);
}

static TypeName *library_type(Checker *c, Module *m, Sym *name) {
  TypeName *t = map_get(&m->types, name);
  if (t)
    return t;
  Dec *dec = c->host->library_definition(c->host->owner, m->name, name);
  if (!dec || (dec->kind != DEC_TYPE && dec->kind != DEC_DATATYPE))
    return NULL;
  check_library_once(c, m, dec);
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

Module *module_named(Checker *c, Sym *name) {
  Binding *b = map_get(&c->names.module->names, name);
  if (b && b->kind == BK_MODULE)
    return b->imported;
  return library_module(c, name);
}

Binding *lookup(Checker *c, Sym *module, Sym *name) {
  if (module) {
    Module *m = module_named(c, module);
    return m ? lookup_in(c, m, name) : NULL;
  }
  for (Scope *s = scope_find(c->names.scope, name); s;
       s = scope_find(s->outer, name))
    if (s->binding)
      return s->binding;
  Binding *b = lookup_in(c, c->names.module, name);
  if (!b && c->names.module != c->names.prelude)
    b = lookup_in(c, c->names.prelude, name);
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
  TypeName *t = type_in(c, c->names.module, name);
  if (!t && c->names.module != c->names.prelude)
    t = library_type(c, c->names.prelude, name);
  return t;
}
