/* Several schedules of one kernel, for sizes that differ. */
#include "backend/cpu/versions.h"

#include "backend/cpu/tiling.h"
#include "tensor/cost.h"

#include <math.h>
#include <string.h>

enum {
  FEW = 24, /* at most so many */
  FEW_GUESS = 8,
  SMALL = 128, /* of all */
  SMALL_GUESS = 64,
  COPY_COST = 12, /* of an element, in terms of a sum */
};

static const double PAYS = 1.25; /* times as fast, by the count of cycles */

/* ---- copies: a schedule puts axes into another order ---- */

Kernel *kernel_copy(const Kernel *from) {
  Kernel *to = NEW(from->arena, Kernel);
  *to = *from;
  memset(&to->loops, 0, sizeof to->loops);
  for (uint32_t j = 0; j < from->loops.len; j++)
    VEC_PUSH(to->arena, to->loops, loop_copy(to->arena, from->loops.at[j]));
  return to;
}

/* ---- which there may be ---- */

static void note_var(void *versions, DimVar *var) {
  Versions *v = versions;
  for (uint32_t k = 0; k < v->var_count; k++)
    if (v->vars[k] == var)
      return;
  if (!var->value && v->var_count < ARRAY_LEN(v->vars))
    v->vars[v->var_count++] = var;
}

static bool has_product(const Kernel *k) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (loop_is_product(k->loops.at[j]))
      return true;
  return false;
}

/* The variables of what is stored, then those of what is summed. */
static uint32_t find_vars(const Kernel *k, Versions *v) {
  uint32_t kept = 0;
  for (uint32_t summed = 0; summed < 2; summed++) {
    for (uint32_t j = 0; j < k->loops.len; j++) {
      const Loop *loop = k->loops.at[j];
      for (uint32_t i = summed ? loop->kept : 0;
           i < (summed ? loop->axes : loop->kept); i++)
        size_each_var(k->graph, loop->extents[i], note_var, v);
    }
    kept = summed ? kept : v->var_count;
  }
  return kept;
}

static void add(Versions *v, const DimVar *var, int64_t most, int64_t guess) {
  v->at[v->count++] = (Version){.var = var, .most = most, .guess = guess};
}

/* Such that there are some hundreds of megabytes of two axes or one. */
static int64_t large_guess(uint32_t vars) {
  return vars == 1 ? 1 << 26 : vars == 2 ? 1 << 13 : SIZE_MIDDLING;
}

static void find_versions(const Kernel *k, Versions *v) {
  *v = (Versions){.var_count = 0};
  uint32_t kept = find_vars(k, v);
  if (kept <= VERSION_VARS) {
    for (uint32_t j = 0; j < kept && has_product(k); j++)
      add(v, v->vars[j], 1, 1);
    for (uint32_t j = 0; j < kept; j++)
      add(v, v->vars[j], FEW, FEW_GUESS);
  }
  if (v->var_count) {
    add(v, NULL, SMALL, SMALL_GUESS);
    add(v, NULL, 0, large_guess(v->var_count));
    v->at[v->count - 1].least = 1; /* until it is known */
  }
  add(v, NULL, 0, 0);
}

static void take_guess(const Versions *v, const Kernel *k, const Version *x,
                       bool on) {
  for (uint32_t j = 0; x->guess && j < v->var_count; j++)
    if (!x->var || x->var == v->vars[j])
      sizes_guess(k->graph->sizes, v->vars[j], on ? x->guess : 0);
}

/* From how many points on it no longer fits a cache. */
static double least_points(const Kernel *k) {
  Cost cost = cost_of(k);
  const Loop *loop = k->loops.at[0];
  return ceil(0.75 * SCHEDULE_LARGE / (cost.read + cost.written + 1) *
              loop_points(loop, 0, loop->axes));
}

static bool write_version(const Versions *v, const Kernel *k, uint32_t bytes,
                          const char *number, Version *x) {
  take_guess(v, k, x, true);
  x->kernel = kernel_copy(k);
  x->kernel->large = x->least > 0;
  if (x->least > 0)
    x->least = least_points(x->kernel);
  schedule_choose(x->kernel, bytes, &x->schedule);
  bool good = emit_kernel(x->kernel, &x->schedule, NULL, number, &x->emitted);
  take_guess(v, k, x, false);
  return good;
}

/* ---- which pay ---- */

static double copies(const Operand *o, double elements) {
  return o->form == OPERAND_PLAIN ? 0 : COPY_COST * elements;
}

/* What tiles work on, edges too, and what is copied for them. */
static double tile_work(const Version *x) {
  double work = 0;
  for (uint32_t j = 0; j < x->kernel->loops.len; j++) {
    const Loop *loop = x->kernel->loops.at[j];
    const Tile *t = &x->schedule.tiling->of[j];
    if (!t->on)
      continue;
    double m = (double)loop_guess(loop, t->m);
    double n = (double)loop_guess(loop, t->n);
    double columns = (double)t->vectors * x->schedule.width;
    work += loop_points(loop, 0, loop->axes) / m / n *
            (ceil(m / t->rows) * t->rows * ceil(n / columns) * columns +
             copies(&t->a, m) + copies(&t->b, n));
  }
  return work;
}

static bool same_text(const Buffer *x, const Buffer *y) {
  return x->len == y->len && memcmp(x->text, y->text, x->len) == 0;
}

/* Is it done in another way, or much less work?  Where only blocks differ, or
 * vectors lie along the same axes, it is the same way. */
static bool pays(const Versions *v, const Version *x, const Version *all) {
  const Schedule *s = &x->schedule, *t = &all->schedule;
  if (same_text(&x->emitted.text, &all->emitted.text))
    return false;
  if (!s->tiling || !t->tiling || s->shape != t->shape)
    return true;
  take_guess(v, x->kernel, x, true);
  double now = tile_work(all), then = tile_work(x);
  take_guess(v, x->kernel, x, false);
  return now > PAYS * then;
}

bool versions_write(const Kernel *k, uint32_t bytes, const char *number,
                    Versions *v) {
  find_versions(k, v);
  Version *all = &v->at[v->count - 1];
  if (!write_version(v, k, bytes, number, all))
    return false;
  uint32_t kept = 0;
  for (uint32_t j = 0; j + 1 < v->count; j++)
    if (write_version(v, k, bytes, number, &v->at[j]) &&
        pays(v, &v->at[j], all))
      v->at[kept++] = v->at[j];
  v->at[kept++] = *all;
  v->count = kept;
  return true;
}
