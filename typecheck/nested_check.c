/* Checks within a check: of a library definition at its first use, of an
   imported file, and of trial declarations. */
#include "typecheck/internal.h"
#include "support/diag.h"

#include <string.h>

/* Saves the state that a nested check must not disturb.  What it adds to the
   session stays. */
static void begin_nested_check(Checker *c) {
  c->names.scope = NULL;
  c->inference.level = 0;
  c->facts.assumptions = NULL;
  c->facts.control_region = 0;
  c->inference.head.expr = NULL;
  c->loops.innermost = NULL;
  c->inference.binding_group = NULL;
  c->names.collected_givens = NULL;
  memset(&c->solver.pending, 0, sizeof c->solver.pending);
  memset(&c->loops.accesses, 0, sizeof c->loops.accesses);
  memset(&c->inference.instances, 0, sizeof c->inference.instances);
  memset(&c->solver.residual, 0, sizeof c->solver.residual);
  memset(&c->sizes.discovered, 0, sizeof c->sizes.discovered);
  memset(&c->sizes.existential_assumptions, 0,
         sizeof c->sizes.existential_assumptions);
  memset(&c->inference.params, 0, sizeof c->inference.params);
  memset(&c->sizes.bindings, 0, sizeof c->sizes.bindings);
  memset(&c->sizes.read_sites, 0, sizeof c->sizes.read_sites);
  memset(&c->sizes.needed, 0, sizeof c->sizes.needed);
  memset(&c->notes.typed_holes, 0, sizeof c->notes.typed_holes);
  memset(&c->notes.differentiated, 0, sizeof c->notes.differentiated);
  memset(&c->notes.missing_files, 0, sizeof c->notes.missing_files);
  memset(&c->solver.contradicted, 0, sizeof c->solver.contradicted);
  memset(&c->solver.reshape_holes, 0, sizeof c->solver.reshape_holes);
  memset(&c->solver.solved_by_terms, 0, sizeof c->solver.solved_by_terms);
  map_init(&c->facts.compared_sizes, c->arena);
  c->loops.index_condition_depth = 0;
}

static void end_nested_check(Checker *c, const Checker *saved) {
  CheckStats stats = c->notes.stats;
  uint32_t next = c->next_id;
  bool has_packed = c->sizes.has_packed;
  Map library_modules = c->names.library_modules;
  __typeof__(c->notes.unproved) unproved = c->notes.unproved;
  *c = *saved;
  c->notes.stats.runtime = stats.runtime;
  for (ConstraintClass row = 0; row < CONSTRAINT_CLASS_COUNT; row++)
    c->notes.stats.by_class[row].runtime = stats.by_class[row].runtime;
  c->next_id = next;
  c->sizes.has_packed = has_packed;
  c->names.library_modules = library_modules;
  c->notes.unproved = unproved;
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

bool checker_try_decs(Checker *c, Module *m, Dec *const *decs, uint32_t count,
                      Diags *diags) {
  Checker saved = *c;
  uint32_t errors = diags->errors;
  Checked out;
  uint32_t names = m->bindings.len;
  VEC(NameChange) changes = {0}, journal = {0};
  for (uint32_t i = 0; i < m->journal.len; i++)
    VEC_PUSH(c->arena, journal, m->journal.at[i]);
  bool ok = true;
  begin_nested_check(c);
  c->facts.assumptions = saved.facts.assumptions;
  c->notes.recorded_refs = NULL;
  TextStart start = checker_begin_text(c);
  for (uint32_t i = 0; ok && i < count; i++) {
    ok = checker_dec(c, m, decs[i], diags, &out) && diags->errors == errors;
    for (uint32_t k = 0; k < m->journal.len; k++)
      VEC_PUSH(c->arena, changes, m->journal.at[k]);
  }
  checker_default_elems(c, start);
  ok &= diags->errors == errors;
  global_elems_undo(c, &start);
  while (changes.len) {
    NameChange *change = &changes.at[--changes.len];
    map_put(&m->names, change->name, change->before);
  }
  m->bindings.len = names;
  m->journal.len = 0;
  for (uint32_t i = 0; i < journal.len; i++)
    VEC_PUSH(c->arena, m->journal, journal.at[i]);
  end_nested_check(c, &saved);
  c->notes.stats = saved.notes.stats;
  c->notes.unproved = saved.notes.unproved;
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
