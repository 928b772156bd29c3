/* Chooses how the iterations of a loop nest run within a task.
 *
 * A loop nest has a few candidates: forms (nest_forms.c) with their numbers,
 * such as the vectors of a block.  All add the terms of each sum in the same
 * order, so that the choice changes no result.  A candidate that nest_refusal
 * refuses does not count.  The first one is good in general.  A later one
 * replaces it if the cost model tells that it takes far less time. */
#include "backend/cpu/cost.h"
#include "backend/cpu/narrow_product.h"
#include "backend/cpu/small_product.h"

typedef void NestForm(NestChoice *c, int64_t number);

typedef struct NestCandidates {
  uint32_t count;
  NestForm *forms[MAX_NEST_CANDIDATES];
  int64_t numbers[MAX_NEST_CANDIDATES];
} NestCandidates;

/* If there are too many, the first ones count. */
static void add_candidate(NestCandidates *to, NestForm *form, int64_t number) {
  if (to->count == MAX_NEST_CANDIDATES)
    return;
  to->forms[to->count] = form;
  to->numbers[to->count++] = number;
}

/* ---- candidates ---- */

static void small_product_form(NestChoice *c, int64_t number) {
  (void)number;
  small_product_nest(c, c->schedule->small_product);
}

static bool is_narrow_product(const NestChoice *c, NarrowProduct *p) {
  return narrow_product_match(c->kernel, c->schedule->width, p) &&
         narrow_product_has_tasks(c->kernel, c->schedule, p);
}

static void narrow_product_form(NestChoice *c, int64_t number) {
  NarrowProduct p;
  (void)number;
  if (is_narrow_product(c, &p))
    narrow_product_nest(c, &p);
}

static void short_reduction_form(NestChoice *c, int64_t number) {
  (void)number;
  short_reduction_nest(
      c, short_reduction_epilogue(c->kernel, c->schedule, c->arena, c->at));
}

static bool reduces(const LoopNest *loop) {
  for (uint32_t j = 0; j < loop->outputs.len; j++) {
    const LoopOutput *r = &loop->outputs.at[j];
    if ((r->global_index || r->local_index) && r->reduce != PRIM_NONE)
      return true;
  }
  return false;
}

/* Blocks of columns whose accumulators stay in registers, and all columns. */
static void add_columns(NestCandidates *to, const NestChoice *c) {
  int64_t vectors = nest_block_vectors(c);
  add_candidate(to, nest_form_columns, vectors);
  for (int64_t n = schedule_max_accumulators(c->schedule->vector_bytes);
       n >= MIN_REGISTER_BLOCK_VECTORS; n /= 2)
    if (n < vectors)
      add_candidate(to, nest_form_columns, n);
}

static void add_interleaved(NestCandidates *to, const NestChoice *c) {
  if (interleave_has_tasks(c))
    add_candidate(to, nest_form_interleaved, 0);
}

static void list_candidates(NestCandidates *to, const NestChoice *c) {
  const LoopNest *loop = c->loop;
  uint32_t points = unroll_and_jam_points(c->kernel, c->schedule, c->at);
  NarrowProduct product;
  if (loop_has_states(loop)) {
    add_candidate(to, nest_form_recurrence, 0);
  } else if (c->schedule->small_product) {
    add_candidate(to, small_product_form, 0);
  } else if (is_narrow_product(c, &product)) {
    add_candidate(to, narrow_product_form, 0);
  } else if (points) {
    for (; points > 1; points /= 2)
      add_candidate(to, nest_form_jam, points);
    add_candidate(to, nest_form_rows, 0);
  } else if (short_reduction_is_unrolled(c->schedule, loop, c->vector_axis)) {
    add_interleaved(to, c);
    add_candidate(to, short_reduction_form, 0);
  } else if (c->vector_axis != NO_AXIS && reduces(loop) &&
             c->vector_axis < loop->spatial_axes) {
    add_columns(to, c);
  } else {
    add_interleaved(to, c);
    add_candidate(to, nest_form_rows, 0);
  }
}

/* ---- the least ---- */

/* Cycles of a loop nest in one thread. */
static double cost_of_nest(const NestChoice *c, const Nest *n) {
  const CoreRates *rates = machine_reference_rates();
  const Schedule *s = c->schedule;
  CostCounts counts = {.type = s->width * 8 == s->vector_bytes ? CORE_F64
                                                               : CORE_F32};
  cost_add_nest(&counts, c->kernel, s, n, rates);
  return cost_of_counts(&counts, rates, 1).total;
}

/* Returns NULL if the CPU cannot run the candidate. */
static Nest *make_candidate(const NestChoice *begin, const NestCandidates *of,
                            uint32_t j) {
  NestChoice c = nest_begin_choice(begin->kernel, begin->schedule, begin->at);
  of->forms[j](&c, of->numbers[j]);
  Nest *n = c.builder.nest;
  nest_verify_chosen(n, c.builder.refusal);
  bool is_refused = c.builder.refusal != NULL;
  if (!is_refused && of->count > 1)
    is_refused = nest_refusal(c.kernel, c.schedule, c.at, n) != NULL;
  return is_refused ? NULL : n;
}

uint32_t nest_try(const Kernel *k, const Schedule *s, uint32_t at,
                  NestTrial *to) {
  NestChoice c = nest_begin_choice(k, s, at);
  NestCandidates of = {.count = 0};
  uint32_t count = 0;
  list_candidates(&of, &c);
  for (uint32_t j = 0; j < of.count; j++) {
    Nest *n = make_candidate(&c, &of, j);
    if (n)
      to[count++] = (NestTrial){n, of.count > 1 ? cost_of_nest(&c, n) : 0};
  }
  return count;
}

Nest *nest_new_task(const Kernel *k, const Schedule *s, uint32_t at) {
  NestChoice c = nest_begin_choice(k, s, at);
  return c.builder.refusal ? NULL : c.builder.nest;
}

Nest *nest_choose(const Kernel *k, const Schedule *s, uint32_t at) {
  NestTrial trials[MAX_NEST_CANDIDATES];
  uint32_t count = nest_try(k, s, at, trials), best = 0;
  for (uint32_t j = 1; j < count; j++)
    if (cost_is_less(trials[j].cycles, trials[best].cycles, LEAST_NEST_GAIN))
      best = j;
  return count ? trials[best].nest : NULL;
}
