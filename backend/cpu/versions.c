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
  LONG_GUESS = 1 << 16, /* of rows that go in portions */
  COPY_COST = 12,       /* of an element, in terms of a sum */
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

static void note_slide(void *versions, DimVar *var) {
  Versions *v = versions;
  for (uint32_t j = 0; j < v->var_count; j++)
    v->slides |= (uint32_t)(v->vars[j] == var) << j;
}

static void add(Versions *v, const DimVar *var, int64_t most, int64_t guess) {
  v->at[v->count++] = (Version){.var = var, .most = most, .guess = guess};
}

/* Such that there are some hundreds of megabytes of two axes or one. */
static int64_t large_guess(uint32_t vars) {
  return vars == 1 ? 1 << 26 : vars == 2 ? 1 << 13 : SIZE_MIDDLING;
}

/* The length of the rows that may go in portions; NULL: there are none, or it
 * is no variable alone. */
static const DimVar *row_length(const Kernel *k) {
  int64_t length;
  Versions of = {.var_count = 0};
  if (kernel_has_portions(k, &length))
    size_each_var(k->graph, length, note_var, &of);
  return of.var_count == 1 ? of.vars[0] : NULL;
}

/* From which length on they do. */
static int64_t portions_from(const Kernel *k, const DimVar *var) {
  Sizes *sizes = k->graph->sizes;
  double at[2];
  sizes_guess(sizes, var, LONG_GUESS);
  at[1] = kernel_local_bytes(k, false);
  sizes_guess(sizes, var, 0);
  at[0] = kernel_local_bytes(k, false);
  double each = (at[1] - at[0]) / (LONG_GUESS - SIZE_MIDDLING);
  double most = (double)UNIT_BYTES / PORTION_ROWS;
  double length = SIZE_MIDDLING + (most - at[0]) / each;
  return each > 0 && length < LONG_GUESS / 2 ? (int64_t)length + 1 : 0;
}

static void add_window(Versions *v, const DimVar *var, int64_t most) {
  add(v, var, most, var ? FEW_GUESS : SMALL_GUESS);
  v->at[v->count - 1].window = true;
}

/* Those of a product through a window; false: it is none. */
static bool find_windows(const Kernel *k, Versions *v) {
  const Loop *loop = k->loops.at[0];
  uint32_t rows = 0;
  uint64_t slides = tiling_slides(k->arena, loop, &rows);
  if (!slides)
    return false;
  for (uint32_t j = loop->kept; j < loop->axes; j++)
    if (slides >> j & 1)
      size_each_var(k->graph, loop->extents[j], note_slide, v);
  Versions few = {.var_count = 0};
  size_each_var(k->graph, loop->extents[rows], note_var, &few);
  if (few.var_count == 1)
    add_window(v, few.vars[0], FEW);
  add_window(v, NULL, 0);
  add(v, NULL, 0, 0);
  return true;
}

static void find_versions(const Kernel *k, Versions *v) {
  *v = (Versions){.var_count = 0};
  uint32_t kept = find_vars(k, v);
  if (find_windows(k, v))
    return;
  if (kept <= VERSION_VARS) {
    for (uint32_t j = 0; j < kept && has_product(k); j++)
      add(v, v->vars[j], 1, 1);
    for (uint32_t j = 0; j < kept; j++)
      add(v, v->vars[j], FEW, FEW_GUESS);
  }
  const DimVar *length = row_length(k);
  if (length && portions_from(k, length)) {
    add(v, length, 0, LONG_GUESS);
    v->at[v->count - 1].from = portions_from(k, length);
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
  for (uint32_t j = 0; x->guess && j < v->var_count; j++) {
    bool own = !x->var || x->var == v->vars[j];
    int64_t guess = x->window && v->slides >> j & 1 ? WINDOW_GUESS
                    : own                           ? x->guess
                                                    : SMALL_GUESS;
    if (own || x->window)
      sizes_guess(k->graph->sizes, v->vars[j], on ? guess : 0);
  }
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
  x->kernel->window = x->window;
  x->kernel->here = v->here;
  if (x->least > 0)
    x->least = least_points(x->kernel);
  x->named_from = sizes_alias_count(k->graph->sizes);
  schedule_choose(x->kernel, bytes, &x->schedule);
  bool good = emit_kernel(x->kernel, &x->schedule, NULL, number, &x->emitted);
  x->named_to = sizes_alias_count(k->graph->sizes);
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

/* Through a window; with lanes across, or not. */
static bool has_window(const Version *x, bool *across) {
  const Tiling *t = x->schedule.tiling;
  *across = t && t->of[0].window && t->of[0].window->across;
  return t && t->of[0].window;
}

/* Is it done in another way than what is left for the same sizes? */
static bool window_pays(const Version *x, const Version *next) {
  bool across, other;
  return has_window(x, &across) &&
         (!has_window(next, &other) || across != other);
}

/* Is it done in another way, or much less work?  Where only blocks differ, or
 * vectors lie along the same axes, it is the same way. */
static bool pays(const Versions *v, const Version *x, const Version *all) {
  const Schedule *s = &x->schedule, *t = &all->schedule;
  if (same_text(&x->emitted.text, &all->emitted.text))
    return false;
  if (!s->tiling || !t->tiling || s->shape != t->shape ||
      s->portion != t->portion)
    return true;
  take_guess(v, x->kernel, x, true);
  double now = tile_work(all), then = tile_work(x);
  take_guess(v, x->kernel, x, false);
  return now > PAYS * then;
}

bool versions_write(const Kernel *k, uint32_t bytes, bool here,
                    const char *number, Versions *v) {
  find_versions(k, v);
  v->here = here;
  Version *all = &v->at[v->count - 1];
  if (!write_version(v, k, bytes, number, all))
    return false;
  uint32_t kept = 0;
  for (uint32_t j = 0; j + 1 < v->count; j++)
    if (write_version(v, k, bytes, number, &v->at[j]) &&
        (v->at[j].window || pays(v, &v->at[j], all)))
      v->at[kept++] = v->at[j];
  v->at[kept++] = *all;
  v->count = 0;
  for (uint32_t j = 0; j < kept; j++)
    if (!v->at[j].window || window_pays(&v->at[j], &v->at[j + 1]))
      v->at[v->count++] = v->at[j];
  return true;
}
