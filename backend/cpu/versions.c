/* Several schedules of one kernel, for sizes that differ. */
#include "backend/cpu/versions.h"

#include "backend/cpu/lanes.h"
#include "backend/cpu/members.h"
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

/* Of the one variable of a sum's terms, of two, of more: such that there are
 * not much more than a hundred of them. */
static const int64_t few_most[] = {FEW, 11, 5};

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

/* Which one of them it is, as a set. */
static uint32_t bit_of(const Versions *v, const DimVar *var) {
  uint32_t set = 0;
  for (uint32_t j = 0; j < v->var_count; j++)
    set |= (uint32_t)(v->vars[j] == var) << j;
  return set;
}

static uint32_t all_of(const Versions *v) {
  return ((uint32_t)1 << v->var_count) - 1;
}

static void note_slide(void *versions, DimVar *var) {
  Versions *v = versions;
  v->slides |= bit_of(v, var);
}

static void add(Versions *v, uint32_t vars, int64_t most, int64_t guess) {
  v->at[v->count++] = (Version){.vars = vars, .most = most, .guess = guess};
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

static void add_window(Versions *v, uint32_t vars, int64_t most) {
  add(v, vars, most, most ? FEW_GUESS : SMALL_GUESS);
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
    add_window(v, bit_of(v, few.vars[0]), FEW);
  add_window(v, all_of(v), 0);
  add(v, 0, 0, 0);
  return true;
}

static void note_other(void *versions, DimVar *var) {
  Versions *v = versions;
  v->slides &= ~bit_of(v, var);
}

/* Sums of few terms, where the variables of these say nothing else but how
 * far others reach that are not few. */
static void find_few(const Kernel *k, Versions *v) {
  v->slides = 0;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    for (uint32_t i = loop->kept; i < loop->axes; i++)
      size_each_var(k->graph, loop->extents[i], note_slide, v);
  }
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->kept; i++) {
      Versions of = {.var_count = 0};
      size_each_var(k->graph, loop->extents[i], note_var, &of);
      if (of.var_count == 1)
        note_other(v, (DimVar *)(uintptr_t)of.vars[0]);
    }
  }
  uint32_t count = (uint32_t)__builtin_popcount(v->slides);
  if (count && v->slides != all_of(v))
    add(v, v->slides, few_most[count < 3 ? count - 1 : 2],
        count == 1 ? FEW_GUESS : WINDOW_GUESS);
}

/* A product of a batch, whose members are small. */
static void find_members(const Kernel *k, uint32_t bytes, Versions *v) {
  int64_t sizes[3];
  int64_t most = members_open(k, bytes / (lanes_wide(k, NULL) ? 8 : 4), sizes);
  Versions of = {.var_count = 0};
  uint32_t set = 0;
  for (uint32_t j = 0; most && j < 3; j++)
    size_each_var(k->graph, sizes[j], note_var, &of);
  for (uint32_t j = 0; j < of.var_count; j++)
    set |= bit_of(v, of.vars[j]);
  if (!set)
    return;
  add(v, set, most, FEW_GUESS);
  v->at[v->count - 1].small = true;
}

/* ---- indices of 32 bits ---- */

static bool has_low(const Step *s) {
  return s->low == INT64_MIN && s->least != INT64_MIN;
}

static bool has_high(const Step *s) {
  return s->high == INT64_MAX && s->most != INT64_MAX;
}

static bool is_index(const Step *s) {
  return s->kind == STEP_INDEX && s->dtype == DT_I64;
}

/* The sizes that 31 bits have to hold, so that they do indices. */
static void find_narrow(const Kernel *k, Versions *v) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->steps.len; i++) {
      const Step *s = &k->loops.at[j]->steps.at[i];
      bool low = is_index(s) && has_low(s), high = is_index(s) && has_high(s);
      for (uint32_t n = 0; n < v->lows.len; n++)
        low &= v->lows.at[n] != s->least;
      for (uint32_t n = 0; n < v->highs.len; n++)
        high &= v->highs.at[n] != s->most;
      if (low)
        VEC_PUSH(k->arena, v->lows, s->least);
      if (high)
        VEC_PUSH(k->arena, v->highs, s->most);
    }
}

static void make_narrow(Kernel *k) {
  const int64_t most = INT64_C(1) << 30;
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->steps.len; i++) {
      Step *s = &k->loops.at[j]->steps.at[i];
      if (is_index(s) && has_low(s))
        s->low = -most;
      if (is_index(s) && has_high(s))
        s->high = most - 1;
    }
}

/* ---- all of them ---- */

static void find_versions(const Kernel *k, uint32_t bytes, Versions *v) {
  *v = (Versions){.var_count = 0};
  uint32_t kept = find_vars(k, v);
  if (find_windows(k, v))
    return;
  find_members(k, bytes, v);
  if (kept <= VERSION_VARS) {
    for (uint32_t j = 0; j < kept && has_product(k); j++)
      add(v, (uint32_t)1 << j, 1, 1);
    for (uint32_t j = 0; j < kept; j++)
      add(v, (uint32_t)1 << j, FEW, FEW_GUESS);
  }
  find_few(k, v);
  find_narrow(k, v);
  const DimVar *length = row_length(k);
  if (length && portions_from(k, length)) {
    add(v, bit_of(v, length), 0, LONG_GUESS);
    v->at[v->count - 1].from = portions_from(k, length);
  }
  if (v->var_count) {
    add(v, all_of(v), SMALL, SMALL_GUESS);
    add(v, all_of(v), 0, large_guess(v->var_count));
    v->at[v->count - 1].least = 1; /* until it is known */
    if (v->lows.len || v->highs.len)
      add(v, 0, 0, 0);
  }
  add(v, 0, 0, 0);
}

static void take_guess(const Versions *v, const Kernel *k, const Version *x,
                       bool on) {
  for (uint32_t j = 0; x->guess && j < v->var_count; j++) {
    bool own = x->vars >> j & 1;
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
  x->kernel = kernel_copy(k);
  x->kernel->large = x->least > 0;
  x->kernel->window = x->window;
  x->kernel->small = x->small;
  x->kernel->here = v->here;
  x->narrow = x != &v->at[v->count - 1] && (v->lows.len || v->highs.len);
  if (x->narrow)
    make_narrow(x->kernel);
  take_guess(v, k, x, true);
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
  find_versions(k, bytes, v);
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
