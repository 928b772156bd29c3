/* Sizes that a definition needs whenever it runs.  A use that determines such a
   size by nothing is an error; sizes that only some runs need are left to the
   running program.  Main entry points: required_sizes_mark, requires_size. */
#include "typecheck/internal.h"

typedef struct RequiredSizes {
  Scheme *scheme;       /* marks its implicit sizes */
  const DimVar *sought; /* or searches for this size */
  bool found;
  TypeVisitor visit; /* called for each required size */
} RequiredSizes;

static void mark_size(void *arg, DimVar *v) {
  RequiredSizes *r = arg;
  for (uint32_t i = 0; i < r->scheme->implicits.len; i++)
    if (r->scheme->implicits.at[i].kind == IMPLICIT_DIM &&
        r->scheme->implicits.at[i].dim_var == v)
      r->scheme->implicits.at[i].required = true;
}

/* A use needs what its definition needs. */
static void visit_instance(RequiredSizes *r, const SchemeInstance *instance) {
  const Scheme *s = instance->scheme;
  for (uint32_t i = 0; i < s->implicits.len; i++) {
    const ImplicitArg *h = &s->implicits.at[i];
    Dim *to = h->required && !implicit_has_path(s, h->dim_var)
                  ? map_get(&instance->substitution, h->dim_var)
                  : NULL;
    if (to)
      dim_visit(&r->visit, to);
  }
}

static bool is_short_circuit(const Core *core) {
  return core->kind == CORE_APP && core->items[0]->kind == CORE_PRIM &&
         (core->items[0]->prim == PRIM_AND || core->items[0]->prim == PRIM_OR);
}

/* The parts of core that run whenever it runs: items[*from] to items[n - 1],
   where n is the result. */
static uint32_t parts_that_run(const Core *core, uint32_t *from) {
  bool is_function = core->kind == CORE_LAM || core->kind == CORE_TLAM;
  *from = core->kind == CORE_LETREC ? core->var_count : 0;
  if (is_function || core->kind == CORE_FOR)
    return 0;
  if (core->kind == CORE_IF || core->kind == CORE_CASE)
    return 1;
  return is_short_circuit(core) ? 2 : core->item_count;
}

/* A check without conditions runs whenever its code does. */
bool check_needs_sizes(const CoreCheck *check) {
  return !check->condition_count && !check->is_repeated;
}

static void visit_core(RequiredSizes *r, Core *core) {
  if (core->kind == CORE_DIM && (!core->flag || r->sought))
    dim_visit(&r->visit, core->dim);
  if (core->kind == CORE_SHAPE_VALUE && core->checker_data && !core->flag)
    shape_visit(&r->visit, core->checker_data);
  for (uint32_t i = 0; i < core->check_count; i++)
    if (check_needs_sizes(&core->checks[i])) {
      dim_visit(&r->visit, core->checks[i].left);
      dim_visit(&r->visit, core->checks[i].right);
    }
  if (core->kind == CORE_VAR && core->checker_data)
    visit_instance(r, core->checker_data);
  uint32_t from, to = parts_that_run(core, &from);
  for (uint32_t i = from; i < to; i++)
    if (core->items[i])
      visit_core(r, core->items[i]);
  for (uint32_t i = 0; i < core->slice_count; i++) {
    if (core->slices[i].from)
      visit_core(r, core->slices[i].from);
    if (core->slices[i].to)
      visit_core(r, core->slices[i].to);
    if (core->slices[i].step)
      visit_core(r, core->slices[i].step);
  }
}

void required_sizes_mark(Checker *c, Scheme *s, Core *definition) {
  RequiredSizes r = {.scheme = s};
  r.visit = (TypeVisitor){.dim = mark_size, .arg = &r, .c = c};
  while (definition->kind == CORE_LAM && definition->item_count)
    definition = definition->items[0];
  visit_core(&r, definition);
}

static void match_size(void *arg, DimVar *v) {
  RequiredSizes *r = arg;
  r->found |= r->sought == v && !v->reshape_hole;
}

bool requires_size(Checker *c, Core *core, const DimVar *v) {
  RequiredSizes r = {.sought = v};
  r.visit = (TypeVisitor){.dim = match_size, .arg = &r, .c = c};
  visit_core(&r, core);
  return r.found;
}
