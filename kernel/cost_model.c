/* Cycles of what a scheduled kernel does. */
#include "kernel/cost_model.h"
#include "machine/limits/cpu.h"

#include <math.h>

const char *const cost_term_keys[COST_TERM_COUNT] = {
#define COST_TERM(name, key, text) key,
#include "kernel/cost_terms.def"
};
const char *const cost_term_names[COST_TERM_COUNT] = {
#define COST_TERM(name, key, text) text,
#include "kernel/cost_terms.def"
};

double cost_miss_share(double bytes, double cache_bytes) {
  double share = (bytes / cache_bytes - COST_CACHE_SHARE) / COST_CACHE_SHARE;
  return share < 0 ? 0 : share > 1 ? 1 : share;
}

static bool is_same_body(const CostBody *a, const CostBody *b) {
  return a->vectors == b->vectors && a->loads == b->loads &&
         a->elements == b->elements && a->stores == b->stores &&
         a->others == b->others && a->serial == b->serial;
}

/* With too many different bodies, the last one becomes a mean. */
static void merge_body(CostBody *into, const CostBody *body) {
  double all = into->iterations + body->iterations,
         part = body->iterations / all;
  into->vectors += part * (body->vectors - into->vectors);
  into->loads += part * (body->loads - into->loads);
  into->elements += part * (body->elements - into->elements);
  into->stores += part * (body->stores - into->stores);
  into->others += part * (body->others - into->others);
  into->serial += part * (body->serial - into->serial);
  into->iterations = all;
}

void cost_add_body(CostCounts *c, const CostBody *body) {
  if (body->iterations <= 0)
    return;
  for (uint32_t j = 0; j < c->body_count; j++)
    if (is_same_body(&c->bodies[j], body)) {
      c->bodies[j].iterations += body->iterations;
      return;
    }
  if (c->body_count < MAX_COST_BODIES)
    c->bodies[c->body_count++] = *body;
  else
    merge_body(&c->bodies[MAX_COST_BODIES - 1], body);
}

/* The slowest resource takes its whole time.  The others delay it a little,
 * since the core does not schedule instructions perfectly.  Returns the cycles
 * in which no instruction accesses L1. */
static double add_core_cycles(CostTerms *t, const CostBody *b, CoreType type,
                              const CoreRates *r) {
  double instructions =
      b->vectors + b->loads + b->elements + b->stores + b->others;
  double each[] = {
      [COST_ARITHMETIC] = b->vectors / r->fma_per_cycle[type],
      [COST_LOADS] = b->loads / r->loads_per_cycle +
                     b->elements / r->elements_per_cycle +
                     b->stores / r->stores_per_cycle,
      [COST_ISSUE] = instructions / r->issue_per_cycle,
      [COST_LATENCY] = b->serial * r->fma_latency,
  };
  double slowest = 0;
  for (int j = COST_ARITHMETIC; j <= COST_LATENCY; j++)
    slowest = fmax(slowest, each[j]);
  double max = slowest;
  for (int j = COST_ARITHMETIC; j <= COST_LATENCY; j++) {
    double share = each[j] == max ? 1 : COST_CONTENTION;
    t->cycles[j] += b->iterations * share * each[j];
    max = each[j] == max ? HUGE_VAL : max; /* only one is the slowest */
  }
  return b->iterations * (slowest - each[COST_LOADS]);
}

/* Transfers between caches use L1 as loads do, so that only the cycles in which
 * no instruction accesses it hide them. */
static void add_transfers(CostTerms *t, const CostCounts *c, const CoreRates *r,
                          double unused) {
  double each[CORE_BOUNDARIES], all = 0;
  for (int j = 0; j < CORE_BOUNDARIES; j++)
    all += each[j] = c->bytes[j] / r->bytes_per_cycle[j];
  all *= COST_EXPOSED_TRANSFERS;
  double hidden = all > 0 ? fmin(unused / all, 1) : 0;
  double share = 1 - (1 - COST_HIDDEN_TRANSFERS) * hidden;
  for (int j = 0; j < CORE_BOUNDARIES; j++)
    t->cycles[COST_L1_L2 + j] =
        COST_EXPOSED_TRANSFERS *
        (share * each[j] + c->copied_bytes[j] / r->bytes_per_cycle[j]);
}

/* A thread runs the tasks of a grain in a loop.  Only the grains are started,
 * unless there is one thread. */
static double task_cycles(const CostCounts *c, const CoreRates *r,
                          double threads) {
  double grains = fmin(c->tasks, threads * MIN_GRAINS_PER_THREAD);
  return c->tasks * COST_CALL_CYCLES +
         (threads > 1 ? grains * r->task_cycles : 0);
}

CostTerms cost_of_counts(const CostCounts *c, const CoreRates *r,
                         double threads) {
  CostTerms t = {.total = 0};
  double unused = 0, work = 0;
  for (uint32_t j = 0; j < c->body_count; j++)
    unused += add_core_cycles(&t, &c->bodies[j], c->type, r);
  add_transfers(&t, c, r, unused);
  t.cycles[COST_PACKING] = c->packed_vectors * COST_PACK_CYCLES;
  t.cycles[COST_CALLS] = c->calls * COST_CALL_CYCLES;
  t.cycles[COST_PAGES] =
      c->pages *
      fmax(r->page_cycles - COST_LINE_BYTES / r->bytes_per_cycle[1], 0);
  t.cycles[COST_TASKS] = task_cycles(c, r, threads);
  for (int j = 0; j < COST_IMBALANCE; j++)
    work += t.cycles[j];
  double tasks = fmax(c->tasks, 1);
  double rounds = ceil(tasks / threads) / tasks;
  t.total = work * rounds * (1 + COST_TASK_IMBALANCE * threads / tasks);
  for (int j = 0; j < COST_IMBALANCE; j++)
    t.cycles[j] /= threads;
  t.cycles[COST_IMBALANCE] = t.total - work / threads;
  return t;
}
