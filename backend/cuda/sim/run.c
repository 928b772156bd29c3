/* Runs a launch: a few blocks at a time.  A thread runs until it blocks.  The
 * seed decides which thread is next, and when asynchronous operations
 * complete. */
#include "backend/cuda/sim/internal.h"
#include "runtime/runtime.h"
#include "support/arena.h"
#include "support/buffer.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

SimRun *sim_running;

/* ---- errors ---- */

static const char *const op_names[] = {
    [AX_SYNC] = "ax_sync",
    [AX_MBARRIER_WAIT] = "ax_mbarrier_wait",
    [AX_CLUSTER_WAIT] = "ax_cluster_wait",
    [AX_BARRIER] = "ax_barrier_sync",
    [AX_SYNC_WARP] = "ax_sync_warp",
    [AX_SHUFFLE] = "ax_shuffle",
    [AX_VOTE] = "a vote",
    [AX_ELECT] = "ax_elect",
    [AX_LDMATRIX] = "ax_ldmatrix",
    [AX_STMATRIX] = "ax_stmatrix",
    [AX_MMA] = "ax_mma",
    [AX_REGISTERS] = "ax_registers",
    [AX_WGMMA_FENCE] = "ax_wgmma_fence",
    [AX_WGMMA_COMMIT] = "ax_wgmma_commit",
    [AX_WGMMA_WAIT] = "ax_wgmma_wait",
    [AX_WGMMA] = "ax_wgmma",
    [AX_TMEM_ALLOC] = "ax_tmem_alloc",
    [AX_TMEM_PERMIT] = "ax_tmem_permit",
    [AX_TMEM_FREE] = "ax_tmem_free",
    [AX_TMEM_LOAD] = "ax_tmem_load",
    [AX_TMEM_STORE] = "ax_tmem_store",
    [AX_TMEM_WAIT] = "ax_tmem_wait",
};

const char *sim_op_name(int op) {
  return (size_t)op < ARRAY_LEN(op_names) && op_names[op] ? op_names[op]
                                                          : "a wrapper";
}

bool sim_fail(SimRun *r, const SimThread *t, uint32_t site, const char *format,
              ...) {
  char place[SIM_TEXT_BYTES];
  if (r->failed)
    return false;
  r->failed = true;
  sim_site(r, site, place);
  buffer_printf(r->error, "%s", r->launch->kernel);
  if (t)
    buffer_printf(r->error, ": block (%u, %u, %u), thread %u",
                  t->block->index.x, t->block->index.y, t->block->index.z,
                  (unsigned)(t - t->block->threads));
  if (site)
    buffer_printf(r->error, ": %s", place);
  buffer_puts(r->error, ": ");
  va_list args;
  va_start(args, format);
  buffer_vprintf(r->error, format, args);
  va_end(args);
  return false;
}

/* Describes what a thread is blocked on. */
static void write_wait(SimRun *r, const SimThread *t) {
  const AxCall *c = t->call;
  if (t->op == AX_BARRIER) {
    const SimBarrier *b = &t->block->named_barriers[c->n[0]];
    buffer_printf(r->error, " (barrier %u: %u of %u threads)",
                  (unsigned)c->n[0], b->arrived, (unsigned)c->n[1]);
  } else if (t->op == AX_SYNC) {
    buffer_printf(r->error, " (%u of %u threads)",
                  t->block->block_barrier.arrived, t->block->live_threads);
  } else if (t->op == AX_MBARRIER_WAIT) {
    for (uint32_t j = 0; j < t->block->mbarriers.len; j++) {
      const Mbarrier *m = t->block->mbarriers.at[j];
      if (m->offset + SIM_SHARED_BASE == c->n[0])
        buffer_printf(r->error,
                      " (the mbarrier at 0x%x, for the end of a phase of "
                      "parity %u: %u ended, of the next %u arrivals and %lld "
                      "bytes are missing)",
                      (unsigned)c->n[0], (unsigned)c->n[1], m->phase,
                      m->pending, (long long)m->pending_bytes);
    }
  }
}

static bool same_wait(const SimThread *a, const SimThread *b) {
  return a->state == b->state && a->op == b->op && a->block == b->block &&
         a->call->line == b->call->line && a->call->n[0] == b->call->n[0] &&
         (a->op != AX_MBARRIER_WAIT || a->call->n[1] == b->call->n[1]);
}

static void write_waits(SimRun *r, const SimBlock *b) {
  for (uint32_t j = 0, end; j < r->threads; j = end) {
    const SimThread *t = &b->threads[j];
    end = j + 1;
    if (t->state != THREAD_BLOCKED)
      continue;
    while (end < r->threads && b->threads[end].state == THREAD_BLOCKED &&
           same_wait(t, &b->threads[end]))
      end++;
    char place[SIM_TEXT_BYTES];
    sim_site(r, (uint32_t)t->call->line, place);
    buffer_printf(r->error, "\n  block (%u, %u, %u), threads %u to %u: %s: %s",
                  b->index.x, b->index.y, b->index.z, j, end - 1, place,
                  sim_op_name(t->op));
    write_wait(r, t);
  }
}

static void fail_deadlock(SimRun *r) {
  sim_fail(r, NULL, 0, "deadlock: all threads wait");
  for (uint32_t c = 0; c < r->cluster_count; c++)
    for (uint32_t b = 0; r->clusters[c].in_use && b < r->cluster_blocks; b++)
      write_waits(r, &r->clusters[c].blocks[b]);
}

/* ---- scheduler ---- */

uint32_t sim_random(SimRun *r, uint32_t below) {
  r->random ^= r->random << 13;
  r->random ^= r->random >> 7;
  r->random ^= r->random << 17;
  return (uint32_t)((r->random >> 32) * below >> 32);
}

void sim_pause(SimRun *r, SimThread *t) {
  fiber_pause(&t->fiber, false);
  if (r->failed)
    fiber_pause(&t->fiber, true);
}

void sim_wait(SimRun *r, SimThread *t, int op, AxCall *call) {
  t->state = THREAD_BLOCKED;
  t->op = op;
  t->call = call;
  sim_pause(r, t);
}

void sim_wake(SimRun *r, SimThread *t) {
  t->state = THREAD_READY;
  VEC_PUSH(r->arena, r->ready, t);
}

void sim_yield(SimRun *r, SimThread *t) {
  VEC_PUSH(r->arena, r->ready, t);
  sim_pause(r, t);
}

static void on_call(int op, AxCall *c) {
  SimRun *r = sim_running;
  SimThread *t = r->current;
  if (op > AX_GROUP)
    op_warpgroup(r, t, op, c);
  else if (op > AX_WARP)
    op_warp(r, t, op, c);
  else if (op >= AX_FENCE_INIT && op <= AX_CLUSTER_LOAD)
    op_barrier(r, t, op, c);
  else if (op == AX_SYNC)
    op_barrier(r, t, op, c);
  else if (op == AX_TMA_LOAD || op == AX_TMA_STORE || op == AX_TMA_PREFETCH)
    op_tma(r, t, op, c);
  else if (op >= AX_TCGEN05_FENCE && op <= AX_TCGEN05_COMMIT)
    op_tcgen05(r, t, op, c);
  else if (op >= AX_COPY && op <= AX_TMA_WAIT)
    op_async(r, t, op, c);
  else
    op_memory(r, t, op, c);
  if (r->failed)
    fiber_pause(&t->fiber, true);
}

static void count_end(const SimThread *t) {
  size_t number = (size_t)(t - t->block->threads);
  t->block->warps[number / SIM_WARP_LANES].ended++;
  t->block->warpgroups[number / SIM_WARPGROUP_THREADS].ended++;
}

static void thread_main(void) {
  SimRun *r = sim_running;
  SimThread *t = r->current;
  r->kernel(r->launch->args);
  if (t->bulk_agent && t->clock[t->bulk_agent] < t->last_bulk_group)
    sim_fail(r, t, (uint32_t)t->last_bulk_line,
             "stores shared memory, and the thread ends without ax_tma_wait");
  t->state = THREAD_DONE;
  count_end(t);
  t->block->live_threads--;
  if (--t->block->cluster->live_threads == 0)
    r->cluster_ended = true;
  barriers_on_thread_exit(r, t);
  fiber_pause(&t->fiber, true);
}

static void run_one_thread(SimRun *r) {
  uint32_t which = sim_random(r, r->ready.len);
  SimThread *t = r->ready.at[which];
  r->ready.at[which] = r->ready.at[--r->ready.len];
  r->current = t;
  r->table.self = &t->self;
  fiber_resume(&t->fiber);
  r->current = NULL;
}

/* ---- blocks ---- */

static void make_thread(SimRun *r, SimBlock *b, uint32_t j, char *stack) {
  const uint32_t *size = r->launch->block;
  SimThread *t = &b->threads[j];
  t->block = b;
  t->self.thread =
      (AxIndex){j % size[0], j / size[0] % size[1], j / size[0] / size[1]};
  t->self.block = b->index;
  t->self.lane = (AxIndex){j % SIM_WARP_LANES, j / SIM_WARP_LANES, 0};
  t->agent = agent_new(b->cluster, AGENT_THREAD, b->rank, j);
  t->clock = clock_new(b->cluster);
  t->clock[t->agent] = 1;
  fiber_begin(&t->fiber, stack, thread_main);
  sim_wake(r, t);
}

static size_t shadow_words(size_t bytes) {
  return (bytes + SIM_SHADOW_WORD - 1) / SIM_SHADOW_WORD;
}

/* The cells of words, and then those of their bytes. */
static size_t shadow_size(size_t words) {
  return words * (1 + SIM_SHADOW_WORD) * sizeof(ShadowCell);
}

static bool make_block(SimRun *r, SimCluster *c, uint32_t rank,
                       uint32_t number) {
  SimBlock *b = &c->blocks[rank];
  const uint32_t *grid = r->launch->grid;
  size_t shared = r->launch->shared_bytes, mapped_bytes = shared ? shared : 1;
  size_t words = shadow_words(mapped_bytes);
  b->cluster = c;
  b->rank = rank;
  b->grid_index = number;
  b->live_threads = r->threads;
  b->index = (AxIndex){number % grid[0], number / grid[0] % grid[1],
                       number / grid[0] / grid[1]};
  /* Separate mappings: pages are zero and use no memory until they are
   * written. */
  b->shared = mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  b->shadow = mmap(NULL, shadow_size(words), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (b->shared == MAP_FAILED || b->shadow == MAP_FAILED)
    return false;
  b->shadow_bytes = b->shadow + words;
  memset(b->shared, 0xff, shared); /* NaN in all float types */
  b->threads = arena_alloc(c->arena, r->threads * sizeof *b->threads);
  b->warps = arena_alloc(c->arena, (r->threads / 32 + 1) * sizeof *b->warps);
  b->warpgroups =
      arena_alloc(c->arena, (r->threads / 128 + 1) * sizeof *b->warpgroups);
  return true;
}

/* Creates cluster `number` of the grid in a slot. */
static bool make_cluster(SimRun *r, SimCluster *c, uint32_t number) {
  char **stacks;
  uint32_t blocks = r->cluster_blocks, place = (uint32_t)(c - r->clusters);
  uint32_t max_agents = blocks * (r->threads * 3 + 256);
  if (!fiber_stacks(&stacks, (size_t)r->cluster_count * blocks * r->threads))
    return false;
  *c = (SimCluster){.number = number,
                    .arena = arena_new(),
                    .in_use = true,
                    .agent_count = 1,
                    .live_threads = blocks * r->threads,
                    .max_agents = max_agents};
  c->agents = arena_alloc(c->arena, c->max_agents * sizeof *c->agents);
  c->blocks = arena_alloc(c->arena, blocks * sizeof *c->blocks);
  c->barrier.clock = clock_new(c);
  c->last_barrier_clock = clock_new(c);
  c->scratch = clock_new(c);
  for (uint32_t b = 0; b < blocks; b++) {
    if (!make_block(r, c, b, number * blocks + b))
      return false;
    for (uint32_t j = 0; j < r->threads; j++)
      make_thread(r, &c->blocks[b], j,
                  stacks[(place * blocks + b) * r->threads + j]);
  }
  return true;
}

static void free_cluster(SimRun *r, SimCluster *c) {
  size_t mapped_bytes = r->launch->shared_bytes ? r->launch->shared_bytes : 1;
  for (uint32_t b = 0; c->in_use && b < r->cluster_blocks; b++) {
    munmap(c->blocks[b].shared, mapped_bytes);
    munmap(c->blocks[b].shadow, shadow_size(shadow_words(mapped_bytes)));
  }
  if (c->in_use)
    arena_free(c->arena);
  *c = (SimCluster){0};
}

/* A block must wait for all its loads: a load could otherwise complete after
 * the shared memory belongs to another block. */
static void check_loads(SimRun *r, const SimBlock *b) {
  for (uint32_t j = 0; j < b->mbarriers.len; j++) {
    const Mbarrier *m = b->mbarriers.at[j];
    bool seen = !m->last_load_phase;
    for (uint32_t i = 0; i < r->threads && !seen; i++)
      seen = b->threads[i].clock[m->agent] >= m->last_load_phase;
    if (!seen)
      sim_fail(r, b->threads, (uint32_t)m->last_load_line,
               "a load that no thread waits for before the block ends");
  }
}

static bool observed(const SimRun *r, const SimBlock *b, const Mbarrier *m,
                     const RemoteArrival *f) {
  for (uint32_t i = 0; i < r->threads; i++)
    if (b->threads[i].clock[m->agent] >= f->phase ||
        (f->epoch && clock_sees(b->threads[i].clock, f->epoch)))
      return true;
  return false;
}

/* A block must not exit before remote threads and commits have arrived at its
 * mbarriers: one of its threads must have observed the arrivals. */
static void check_remote_arrivals(SimRun *r, const SimBlock *b) {
  for (uint32_t j = 0; j < b->mbarriers.len; j++) {
    const Mbarrier *m = b->mbarriers.at[j];
    for (uint32_t i = 0; i < m->remote_arrivals.len; i++)
      if (!observed(r, b, m, &m->remote_arrivals.at[i]))
        sim_fail(r, b->threads, (uint32_t)m->remote_arrivals.at[i].line,
                 "arrives at the mbarrier of line %d of a block that may have "
                 "ended: nothing orders its end after that",
                 m->line);
  }
}

/* The commits of a block must be complete when the cluster has ended. */
static void check_commits(SimRun *r, const SimCluster *c) {
  for (uint32_t j = 0; j < c->pending.len; j++) {
    const AsyncOp *p = c->pending.at[j];
    if (p->op == AX_TCGEN05_COMMIT)
      sim_fail(r, p->issuer, (uint32_t)p->line,
               "a commit that arrives at an mbarrier of a block that has "
               "ended");
  }
}

static void retire_cluster(SimRun *r, SimCluster *c) {
  check_commits(r, c);
  for (uint32_t b = 0; b < r->cluster_blocks; b++) {
    check_loads(r, &c->blocks[b]);
    check_remote_arrivals(r, &c->blocks[b]);
    tensor_memory_check_end(r, &c->blocks[b]);
  }
  r->pending_count -= c->pending.len;
  free_cluster(r, c);
}

/* ---- launch ---- */

/* Replaces ended clusters.  False if memory is exhausted or if an ended cluster
 * left an operation pending. */
static bool refill_clusters(SimRun *r, uint32_t count) {
  for (uint32_t j = 0; j < r->cluster_count && !r->failed; j++) {
    SimCluster *c = &r->clusters[j];
    if (c->in_use && c->live_threads == 0) {
      retire_cluster(r, c);
      r->finished_clusters++;
    }
    if (!c->in_use && r->next_cluster < count &&
        !make_cluster(r, c, r->next_cluster++))
      return sim_fail(r, NULL, 0, "no memory for a block");
  }
  r->cluster_ended = false;
  return !r->failed;
}

/* Completes a random asynchronous operation. */
static void finish_random_op(SimRun *r) {
  uint32_t which = sim_random(r, r->pending_count);
  SimCluster *c = r->clusters;
  for (; which >= c->pending.len; c++)
    which -= c->pending.len;
  async_op_finish(r, c, which);
}

/* Runs all clusters of the grid. */
static void run_all(SimRun *r, uint32_t count) {
  uint64_t limit = r->launch->max_steps ? r->launch->max_steps : 100000000;
  r->cluster_ended = true;
  while (!r->failed && (!r->cluster_ended || refill_clusters(r, count)) &&
         r->finished_clusters < count) {
    if (r->pending_count && (!r->ready.len || sim_random(r, 8) == 0))
      finish_random_op(r);
    else if (r->ready.len)
      run_one_thread(r);
    else
      fail_deadlock(r);
    if (++r->steps > limit)
      sim_fail(r, NULL, 0, "it has not ended after %llu switches of threads",
               (unsigned long long)limit);
  }
}

static int by_address(const void *a, const void *b) {
  const SimMemory *x = a, *y = b;
  return x->address < y->address ? -1 : x->address > y->address;
}

static bool check_launch(SimRun *r, const SimLaunch *l) {
  uint64_t blocks = 1;
  r->threads = 1;
  for (int j = 0; j < 3; j++) {
    r->threads *= l->block[j];
    blocks *= l->grid[j];
  }
  r->cluster_blocks = l->cluster_blocks ? l->cluster_blocks
                                        : sim_cluster_blocks(r->sim, l->kernel);
  if (!r->threads || r->threads > 1024)
    return sim_fail(r, NULL, 0, "a block of %u threads", r->threads);
  if (!blocks || blocks > UINT32_MAX || l->grid[0] % r->cluster_blocks ||
      r->cluster_blocks > 16)
    return sim_fail(r, NULL, 0,
                    "a grid of (%u, %u, %u) blocks in clusters of %u",
                    l->grid[0], l->grid[1], l->grid[2], r->cluster_blocks);
  if (l->shared_bytes > 227 << 10)
    return sim_fail(r, NULL, 0, "%u bytes of shared memory", l->shared_bytes);
  return true;
}

static void run_launch(SimRun *r, const SimLaunch *l) {
  uint32_t wanted = l->resident_blocks ? l->resident_blocks : 4;
  uint32_t all = l->grid[0] * l->grid[1] * l->grid[2] / r->cluster_blocks;
  r->cluster_count = (wanted + r->cluster_blocks - 1) / r->cluster_blocks;
  r->cluster_count = r->cluster_count < all ? r->cluster_count : all;
  r->clusters = arena_alloc(r->arena, r->cluster_count * sizeof *r->clusters);
  r->ranges = arena_alloc(r->arena, (l->memory_count + 1) * sizeof *r->ranges);
  r->global_writes =
      arena_alloc(r->arena, (l->memory_count + 1) * sizeof *r->global_writes);
  r->block_order = arena_alloc(r->arena, (size_t)all * r->cluster_blocks *
                                             sizeof *r->block_order);
  if (l->memory_count)
    memcpy(r->ranges, l->memory, l->memory_count * sizeof *r->ranges);
  qsort(r->ranges, l->memory_count, sizeof *r->ranges, by_address);
  r->random = l->seed * 0x9e3779b97f4a7c15 + 0x2545f4914f6cdd1d;
  r->random = r->random ? r->random : 1;
  for (int j = 0; j < 8; j++)
    sim_random(r, 1);
  r->table = (AxTable){
      .block_dim = {l->block[0], l->block[1], l->block[2]},
      .grid_dim = {l->grid[0], l->grid[1], l->grid[2]},
      .call = on_call,
      .access = on_access,
      .wrong = on_wrong,
      .from_f16 = sim_from_f16,
      .to_f16 = sim_to_f16,
  };
  *r->sim->table = &r->table;
  run_all(r, all);
  for (uint32_t j = 0; j < r->cluster_count; j++)
    free_cluster(r, &r->clusters[j]);
  global_free(r);
}

bool sim_launch(Sim *s, const SimLaunch *l, Buffer *error) {
  SimRun r = {.sim = s, .launch = l, .error = error, .arena = arena_new()};
  sim_running = &r;
  r.kernel = sim_entry(s, l->kernel);
  if (!r.kernel)
    sim_fail(&r, NULL, 0, "the text has no such kernel");
  else if (check_launch(&r, l))
    run_launch(&r, l);
  arena_free(r.arena);
  sim_running = NULL;
  return !r.failed;
}
