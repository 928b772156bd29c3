/* Local scopes, and the names that a module defines. */
#include "typecheck/internal.h"
#include "support/arena.h"

Binding *binding_new(Checker *c, BindingKind kind, Sym *name, Span span) {
  Binding *b = NEW(c->arena, Binding);
  b->kind = kind;
  b->name = name;
  b->span = span;
  b->module = c->names.module;
  b->level = c->inference.level;
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

/* Scopes with very many names, such as large binding groups, are divided into
   blocks, so that lookup skips most of them. */
Scope *scope_push(Checker *c, Sym *name, Binding *b) {
  Scope *s = NEW(c->arena, Scope);
  s->outer = c->names.scope;
  s->name = name;
  s->binding = b;
  s->block_length =
      s->outer && !s->outer->block_names ? s->outer->block_length + 1 : 1;
  if (s->block_length == SCOPE_BLOCK_NAMES)
    end_scope_block(c, s);
  c->names.scope = s;
  return s;
}

Scope *scope_find(Scope *s, const Sym *name) {
  while (s && s->name != name)
    s = s->block_names && !map_get(s->block_names, name) ? s->block_outer
                                                         : s->outer;
  return s;
}

/* ---- modules ---- */

Module *module_new(Checker *c, Sym *name) {
  Module *m = NEW(c->arena, Module);
  m->name = name;
  m->checker = c;
  map_init(&m->names, c->arena);
  map_init(&m->types, c->arena);
  map_init(&m->foretold, c->arena);
  return m;
}

/* Defines a name in the current module; module_undo reverts it. */
void module_define(Checker *c, Sym *name, Binding *b) {
  Module *m = c->names.module;
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

static void foretell(Module *m, Arena *arena, Sym *name, Span span) {
  Span *at = NEW(arena, Span);
  *at = span;
  map_put(&m->foretold, name, at);
}

static void foretell_names(Module *m, Arena *arena, const Pat *p) {
  if (p->kind == PAT_VAR || p->kind == PAT_AS)
    foretell(m, arena, p->id, p->span);
  for (uint32_t i = 0; i < p->arg_count; i++)
    foretell_names(m, arena, p->args[i]);
}

void module_foretell(Module *m, const Program *program) {
  Arena *arena = m->checker->arena;
  for (uint32_t i = 0; i < program->dec_count; i++) {
    const Dec *dec = program->decs[i];
    if (dec->kind == DEC_VAL)
      foretell_names(m, arena, dec->pat);
    for (uint32_t j = 0; j < dec->fun_count; j++)
      foretell(m, arena, dec->funs[j].name, dec->funs[j].name_span);
  }
}
