/* Checks within a check: of a library definition at its first use, of an
   imported file, and of trial declarations. */
#include "typecheck/internal.h"
#include "support/diag.h"

#include <string.h>

/* Saves the state that a nested check must not disturb.  What it adds to the
   session stays. */
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

void check_library_dec(Checker *c, Module *m, Dec *dec) {
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
