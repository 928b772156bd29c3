/* Block barriers, cluster barriers, and mbarriers. */
#include "backend/cuda/sim/internal.h"
#include "support/arena.h"

#include <string.h>

static void join_waiting(SimRun *r, SimThread *t, const VectorClock *clock) {
  clock_join(t->block->cluster, t->clock, clock);
  sim_wake(r, t);
}

/* ---- block barriers ---- */

static void complete_sync(SimRun *r, SimBlock *b) {
  uint64_t count = 0;
  for (uint32_t j = 0; j < r->threads; j++)
    if (b->threads[j].state == THREAD_BLOCKED && b->threads[j].op == AX_SYNC)
      count += b->threads[j].call->n[1] != 0;
  for (uint32_t j = 0; j < r->threads; j++) {
    SimThread *t = &b->threads[j];
    if (t->state != THREAD_BLOCKED || t->op != AX_SYNC)
      continue;
    uint64_t kind = t->call->n[0];
    t->call->result = kind == AX_VOTE_OR    ? count > 0
                      : kind == AX_VOTE_AND ? count == b->block_barrier.arrived
                                            : count;
    join_waiting(r, t, b->block_barrier.clock);
  }
  b->block_barrier.arrived = 0;
  clock_clear(b->cluster, b->block_barrier.clock);
}

static void sync_block(SimRun *r, SimThread *t, AxCall *c) {
  SimBlock *b = t->block;
  const SimThread *warp = &b->threads[t->self.lane.y * SIM_WARP_LANES];
  for (uint32_t j = 0; j < SIM_WARP_LANES && warp + j < b->threads + r->threads;
       j++)
    if (warp[j].state == THREAD_BLOCKED && warp[j].op == AX_SYNC &&
        (warp[j].call->line != c->line || warp[j].call->n[0] != c->n[0])) {
      sim_fail(r, t, (uint32_t)c->line,
               "ax_sync, while lane %u of its warp is in that of line %d", j,
               warp[j].call->line);
      return;
    }
  if (!b->block_barrier.clock)
    b->block_barrier.clock = clock_new(b->cluster);
  clock_release(t, b->block_barrier.clock);
  if (++b->block_barrier.arrived == b->live_threads) {
    t->state = THREAD_BLOCKED;
    t->op = AX_SYNC;
    t->call = c;
    complete_sync(r, b);
    sim_pause(r, t);
  } else
    sim_wait(r, t, AX_SYNC, c);
}

/* ---- cluster barriers ---- */

static void complete_cluster_barrier(SimRun *r, SimCluster *c) {
  for (uint32_t b = 0; b < r->cluster_blocks; b++) {
    for (uint32_t j = 0; j < c->blocks[b].mbarriers.len; j++)
      c->blocks[b].mbarriers.at[j]->is_known |=
          c->blocks[b].mbarriers.at[j]->is_announced;
    for (uint32_t j = 0; j < r->threads; j++) {
      SimThread *t = &c->blocks[b].threads[j];
      t->cluster_barrier_done = false;
      if (t->state == THREAD_BLOCKED && t->op == AX_CLUSTER_WAIT)
        join_waiting(r, t, c->barrier.clock);
      else
        t->cluster_barrier_done = t->state != THREAD_DONE;
    }
  }
  memcpy(c->last_barrier_clock, c->barrier.clock,
         (size_t)c->max_agents * 2 * sizeof(VectorClock));
  clock_clear(c, c->barrier.clock);
  c->barrier.arrived = 0;
}

/* The thread arrives without a release: only the mbarriers that it began, and
 * fenced, become known. */
static void announce_mbarriers(SimThread *t) {
  SimBlock *b = t->block;
  for (uint32_t j = 0; j < b->mbarriers.len; j++) {
    Mbarrier *m = b->mbarriers.at[j];
    m->is_announced |=
        m->is_fenced && m->init_thread == (uint32_t)(t - b->threads);
  }
}

static void cluster_barrier(SimRun *r, SimThread *t, int op, AxCall *c) {
  SimCluster *k = t->block->cluster;
  if (op == AX_CLUSTER_ARRIVE) {
    if (t->cluster_arrived)
      sim_fail(r, t, (uint32_t)c->line,
               "ax_cluster_arrive twice without ax_cluster_wait");
    t->cluster_arrived = true;
    if (c->n[0])
      announce_mbarriers(t);
    else
      clock_release(t, k->barrier.clock);
    if (++k->barrier.arrived == k->live_threads)
      complete_cluster_barrier(r, k);
    return;
  }
  if (!t->cluster_arrived)
    sim_fail(r, t, (uint32_t)c->line,
             "ax_cluster_wait without ax_cluster_arrive");
  t->cluster_arrived = false;
  if (t->cluster_barrier_done) /* completed since this thread arrived */
    clock_join(k, t->clock, k->last_barrier_clock);
  else
    sim_wait(r, t, AX_CLUSTER_WAIT, c);
  t->cluster_barrier_done = false;
}

void barriers_on_thread_exit(SimRun *r, SimThread *t) {
  SimBlock *b = t->block;
  SimCluster *c = b->cluster;
  if (b->live_threads && b->block_barrier.arrived == b->live_threads)
    complete_sync(r, b);
  if (c->live_threads && c->barrier.arrived &&
      c->barrier.arrived == c->live_threads)
    complete_cluster_barrier(r, c);
}

/* ---- mbarriers ---- */

Mbarrier *mbarrier_at(SimRun *r, const SimThread *t, SimBlock *block,
                      uint64_t address, int line) {
  uint32_t offset;
  if (!shared_offset_of(r, t, line, address, 8, 8, &offset))
    return NULL;
  for (uint32_t j = 0; j < block->mbarriers.len; j++) {
    Mbarrier *m = block->mbarriers.at[j];
    if (m->offset != offset)
      continue;
    if (!clock_sees(t->clock, m->init_epoch) &&
        (!m->is_known || t->cluster_arrived))
      return sim_fail(r, t, (uint32_t)line,
                      "uses the mbarrier at 0x%x, and nothing orders that "
                      "after its beginning at line %d",
                      SIM_SHARED_BASE + offset, m->line),
             NULL;
    if (block != t->block && !m->is_fenced)
      return sim_fail(r, t, (uint32_t)line,
                      "uses an mbarrier of another block, where "
                      "ax_fence_mbarrier_init is missing after line %d",
                      m->line),
             NULL;
    return m;
  }
  sim_fail(r, t, (uint32_t)line, "there is no mbarrier at 0x%x",
           SIM_SHARED_BASE + offset);
  return NULL;
}

static void mbarrier_init(SimRun *r, SimThread *t, AxCall *c) {
  SimBlock *b = t->block;
  SimCluster *k = b->cluster;
  uint32_t offset;
  if (!shared_offset_of(r, t, c->line, c->n[0], 8, 8, &offset))
    return;
  for (uint32_t j = 0; j < b->mbarriers.len; j++)
    if (b->mbarriers.at[j]->offset == offset) {
      sim_fail(r, t, (uint32_t)c->line,
               "begins an mbarrier that was begun at line %d",
               b->mbarriers.at[j]->line);
      return;
    }
  if (!c->n[1] || c->n[1] >= 1 << 20) {
    sim_fail(r, t, (uint32_t)c->line, "an mbarrier of %llu arrivals",
             (unsigned long long)c->n[1]);
    return;
  }
  if (!shadow_check_plain(r, t, b, offset, 8, true, EPOCH_MBARRIER,
                          (uint32_t)c->line))
    return;
  Mbarrier *m = NEW(k->arena, Mbarrier);
  *m = (Mbarrier){
      .offset = offset,
      .count = (uint32_t)c->n[1],
      .pending = (uint32_t)c->n[1],
      .agent = agent_new(k, AGENT_TMA_LOAD, b->rank, SIM_SHARED_BASE + offset),
      .arriving_clock = clock_new(k),
      .phase_clock = clock_new(k),
      .init_epoch = clock_epoch(t),
      .init_thread = (uint32_t)(t - b->threads),
      .line = c->line};
  VEC_PUSH(k->arena, b->mbarriers, m);
}

static bool is_phase_complete(const Mbarrier *m, uint64_t parity) {
  return (m->phase & 1) != (parity & 1);
}

/* Completes the phase if all arrivals and bytes are there. */
static bool try_complete_phase(SimRun *r, Mbarrier *m, SimBlock *b) {
  SimCluster *k = b->cluster;
  if (m->pending || m->pending_bytes)
    return true;
  if (m->pending_loads)
    return sim_fail(r, &b->threads[m->init_thread], (uint32_t)m->line,
                    "a phase of this mbarrier ends while %u loads that arrive "
                    "at it are under way: too few bytes are expected",
                    m->pending_loads);
  m->phase++;
  m->pending = m->count;
  clock_join(k, m->phase_clock, m->arriving_clock);
  clock_clear(k, m->arriving_clock);
  m->phase_clock[m->agent] = m->phase; /* loads of this phase become visible */
  if (k->fenced)
    m->phase_clock[k->max_agents + m->agent] = m->phase;
  for (uint32_t j = 0; j < r->threads; j++) {
    SimThread *t = &b->threads[j];
    if (t->state == THREAD_BLOCKED && t->op == AX_MBARRIER_WAIT &&
        t->call->n[0] == SIM_SHARED_BASE + m->offset &&
        is_phase_complete(m, t->call->n[1]))
      join_waiting(r, t, m->phase_clock);
  }
  return true;
}

bool mbarrier_complete_bytes(SimRun *r, Mbarrier *m, SimBlock *block,
                             int64_t bytes) {
  m->pending_bytes -= bytes;
  return try_complete_phase(r, m, block);
}

static bool take_arrival(SimRun *r, const SimThread *t, Mbarrier *m, int line) {
  if (m->pending--)
    return true;
  return sim_fail(r, t, (uint32_t)line,
                  "arrives at the mbarrier at 0x%x, at which %u arrive and "
                  "did: %lld bytes are missing",
                  SIM_SHARED_BASE + m->offset, m->count,
                  (long long)m->pending_bytes);
}

/* epoch: see RemoteArrival. */
static void record_arrival(SimCluster *c, Mbarrier *m, Epoch epoch, int line) {
  RemoteArrival now = {epoch, m->phase + 1, line};
  uint32_t j = 0;
  while (j < m->remote_arrivals.len &&
         m->remote_arrivals.at[j].epoch >> 32 != epoch >> 32)
    j++;
  if (j == m->remote_arrivals.len)
    VEC_PUSH(c->arena, m->remote_arrivals, now);
  m->remote_arrivals.at[j] = now;
}

bool mbarrier_arrive_async(SimRun *r, Mbarrier *m, SimBlock *block,
                           const SimThread *by, const VectorClock *clock,
                           int line) {
  if (!block->live_threads)
    return sim_fail(r, by, (uint32_t)line,
                    "arrives at an mbarrier of a block that has ended");
  if (!take_arrival(r, by, m, line))
    return false;
  record_arrival(block->cluster, m, 0, line);
  if (block == by->block)
    clock_join(block->cluster, m->arriving_clock, clock);
  else
    clock_join_remote(block->cluster, m->arriving_clock, clock);
  return try_complete_phase(r, m, block);
}

static void mbarrier_arrive(SimRun *r, SimThread *t, AxCall *c) {
  SimCluster *k = t->block->cluster;
  SimBlock *b = t->block;
  if (c->n[3] && c->n[2] >= r->cluster_blocks) {
    sim_fail(r, t, (uint32_t)c->line, "there is no block %llu in the cluster",
             (unsigned long long)c->n[2]);
    return;
  }
  if (c->n[3])
    b = &k->blocks[c->n[2]];
  if (!b->live_threads) {
    sim_fail(r, t, (uint32_t)c->line,
             "uses an mbarrier of a block that has ended");
    return;
  }
  Mbarrier *m = mbarrier_at(r, t, b, c->n[0], c->line);
  if (!m)
    return;
  if (c->n[1] >= 1 << 20) {
    sim_fail(r, t, (uint32_t)c->line,
             "%llu bytes are more than an mbarrier "
             "counts",
             (unsigned long long)c->n[1]);
    return;
  }
  if (!take_arrival(r, t, m, c->line))
    return;
  m->pending_bytes += (int64_t)c->n[1];
  if (b == t->block)
    clock_release(t, m->arriving_clock);
  else {
    record_arrival(k, m, clock_epoch(t), c->line);
    clock_release_remote(t, m->arriving_clock);
  }
  try_complete_phase(r, m, b);
}

static void mbarrier_wait(SimRun *r, SimThread *t, int op, AxCall *c) {
  Mbarrier *m = mbarrier_at(r, t, t->block, c->n[0], c->line);
  if (!m)
    return;
  if (c->n[1] > 1)
    sim_fail(r, t, (uint32_t)c->line, "a parity of %llu",
             (unsigned long long)c->n[1]);
  if (op == AX_MBARRIER_TRY)
    sim_yield(r, t);
  c->result = is_phase_complete(m, c->n[1]);
  if (c->result)
    clock_join(t->block->cluster, t->clock, m->phase_clock);
  else if (op == AX_MBARRIER_WAIT)
    sim_wait(r, t, AX_MBARRIER_WAIT, c);
}

/* ---- dispatch ---- */

static void fence_init(SimThread *t) {
  for (uint32_t j = 0; j < t->block->mbarriers.len; j++) {
    Mbarrier *m = t->block->mbarriers.at[j];
    m->is_fenced |= m->init_thread == (uint32_t)(t - t->block->threads);
  }
}

static void cluster_load(SimRun *r, SimThread *t, AxCall *c) {
  uint32_t offset;
  SimCluster *k = t->block->cluster;
  if (c->n[1] >= r->cluster_blocks || !k->blocks[c->n[1]].live_threads) {
    sim_fail(r, t, (uint32_t)c->line,
             "reads shared memory of block %llu of the cluster, which is not "
             "there",
             (unsigned long long)c->n[1]);
    return;
  }
  SimBlock *b = &k->blocks[c->n[1]];
  if (!shared_offset_of(r, t, c->line, c->n[0], 4, 4, &offset) ||
      !shadow_check_plain(r, t, b, offset, 4, false, 0, (uint32_t)c->line))
    return;
  uint32_t v;
  memcpy(&v, b->shared + offset, sizeof v);
  c->result = v;
}

void op_barrier(SimRun *r, SimThread *t, int op, AxCall *c) {
  switch (op) {
  case AX_SYNC:
    sync_block(r, t, c);
    break;
  case AX_FENCE_INIT:
    fence_init(t);
    break;
  case AX_MBARRIER_INIT:
    mbarrier_init(r, t, c);
    break;
  case AX_MBARRIER_ARRIVE:
    mbarrier_arrive(r, t, c);
    break;
  case AX_MBARRIER_TRY:
  case AX_MBARRIER_WAIT:
    mbarrier_wait(r, t, op, c);
    break;
  case AX_CLUSTER_RANK:
    c->result = t->block->rank;
    break;
  case AX_CLUSTER_BLOCKS:
    c->result = r->cluster_blocks;
    break;
  case AX_CLUSTER_ARRIVE:
  case AX_CLUSTER_WAIT:
    cluster_barrier(r, t, op, c);
    break;
  case AX_CLUSTER_LOAD:
    cluster_load(r, t, c);
    break;
  }
}
