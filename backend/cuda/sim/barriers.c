/* Barriers of a block and of a cluster, and mbarriers. */
#include "backend/cuda/sim/internal.h"

#include <string.h>

static void join_waiting(SimRun *r, SimThread *t, const Clock *clock) {
  clock_join(t->block->cluster, t->clock, clock);
  sim_wake(r, t);
}

/* ---- all threads of a block ---- */

static void end_sync(SimRun *r, SimBlock *b) {
  uint64_t count = 0;
  for (uint32_t j = 0; j < r->threads; j++)
    if (b->threads[j].state == THREAD_WAITS && b->threads[j].op == AX_SYNC)
      count += b->threads[j].call->n[1] != 0;
  for (uint32_t j = 0; j < r->threads; j++) {
    SimThread *t = &b->threads[j];
    if (t->state != THREAD_WAITS || t->op != AX_SYNC)
      continue;
    uint64_t kind = t->call->n[0];
    t->call->result = kind == AX_VOTE_OR    ? count > 0
                      : kind == AX_VOTE_AND ? count == b->all.arrived
                                            : count;
    join_waiting(r, t, b->all.clock);
  }
  b->all.arrived = 0;
  clock_clear(b->cluster, b->all.clock);
}

static void sync_all(SimRun *r, SimThread *t, AxCall *c) {
  SimBlock *b = t->block;
  const SimThread *warp = &b->threads[t->self.lane.y * SIM_LANES];
  for (uint32_t j = 0; j < SIM_LANES && warp + j < b->threads + r->threads; j++)
    if (warp[j].state == THREAD_WAITS && warp[j].op == AX_SYNC &&
        (warp[j].call->line != c->line || warp[j].call->n[0] != c->n[0])) {
      sim_fail(r, t, (uint32_t)c->line,
               "ax_sync, while lane %u of its warp is in that of line %d", j,
               warp[j].call->line);
      return;
    }
  if (!b->all.clock)
    b->all.clock = clock_new(b->cluster);
  clock_release(t, b->all.clock);
  if (++b->all.arrived == b->live) {
    t->state = THREAD_WAITS;
    t->op = AX_SYNC;
    t->call = c;
    end_sync(r, b);
    sim_pause(r, t);
  } else
    sim_wait(r, t, AX_SYNC, c);
}

/* ---- all threads of a cluster ---- */

static void end_cluster(SimRun *r, SimCluster *c) {
  for (uint32_t b = 0; b < r->per_cluster; b++)
    for (uint32_t j = 0; j < r->threads; j++) {
      SimThread *t = &c->blocks[b].threads[j];
      t->cluster_seen = false;
      if (t->state == THREAD_WAITS && t->op == AX_CLUSTER_WAIT)
        join_waiting(r, t, c->barrier.clock);
      else
        t->cluster_seen = t->state != THREAD_DONE;
    }
  memcpy(c->barrier_last, c->barrier.clock,
         (size_t)c->capacity * 2 * sizeof(Clock));
  clock_clear(c, c->barrier.clock);
  c->barrier.arrived = 0;
}

static void cluster_barrier(SimRun *r, SimThread *t, int op, AxCall *c) {
  SimCluster *k = t->block->cluster;
  if (op == AX_CLUSTER_ARRIVE) {
    if (t->cluster_arrived)
      sim_fail(r, t, (uint32_t)c->line,
               "ax_cluster_arrive twice without ax_cluster_wait");
    t->cluster_arrived = true;
    clock_release(t, k->barrier.clock);
    if (++k->barrier.arrived == k->live)
      end_cluster(r, k);
    return;
  }
  if (!t->cluster_arrived)
    sim_fail(r, t, (uint32_t)c->line,
             "ax_cluster_wait without ax_cluster_arrive");
  t->cluster_arrived = false;
  if (t->cluster_seen) /* it has ended since this thread arrived */
    clock_join(k, t->clock, k->barrier_last);
  else
    sim_wait(r, t, AX_CLUSTER_WAIT, c);
  t->cluster_seen = false;
}

void barriers_left(SimRun *r, SimThread *t) {
  SimBlock *b = t->block;
  SimCluster *c = b->cluster;
  if (b->live && b->all.arrived == b->live)
    end_sync(r, b);
  if (c->live && c->barrier.arrived && c->barrier.arrived == c->live)
    end_cluster(r, c);
}

/* ---- mbarriers ---- */

Mbarrier *mbarrier_at(SimRun *r, const SimThread *t, SimBlock *block,
                      uint64_t address, int line) {
  uint32_t offset;
  if (!shadow_offset(r, t, line, address, 8, 8, &offset))
    return NULL;
  for (uint32_t j = 0; j < block->barriers.len; j++) {
    Mbarrier *m = block->barriers.at[j];
    if (m->offset != offset)
      continue;
    if (!clock_sees(t->clock, m->init))
      return sim_fail(r, t, (uint32_t)line,
                      "uses the mbarrier at 0x%x, and nothing orders that "
                      "after its beginning at line %d",
                      SIM_BASE + offset, m->line),
             NULL;
    if (block != t->block && !m->seen)
      return sim_fail(r, t, (uint32_t)line,
                      "uses an mbarrier of another block, where "
                      "ax_fence_mbarrier_init is missing after line %d",
                      m->line),
             NULL;
    return m;
  }
  sim_fail(r, t, (uint32_t)line, "there is no mbarrier at 0x%x",
           SIM_BASE + offset);
  return NULL;
}

static void init(SimRun *r, SimThread *t, AxCall *c) {
  SimBlock *b = t->block;
  SimCluster *k = b->cluster;
  uint32_t offset;
  if (!shadow_offset(r, t, c->line, c->n[0], 8, 8, &offset))
    return;
  for (uint32_t j = 0; j < b->barriers.len; j++)
    if (b->barriers.at[j]->offset == offset) {
      sim_fail(r, t, (uint32_t)c->line,
               "begins an mbarrier that was begun at line %d",
               b->barriers.at[j]->line);
      return;
    }
  if (!c->n[1] || c->n[1] >= 1 << 20) {
    sim_fail(r, t, (uint32_t)c->line, "an mbarrier of %llu arrivals",
             (unsigned long long)c->n[1]);
    return;
  }
  if (!shadow_plain(r, t, b, offset, 8, true, STAMP_BARRIER, (uint32_t)c->line))
    return;
  Mbarrier *m = NEW(k->arena, Mbarrier);
  *m = (Mbarrier){.offset = offset,
                  .count = (uint32_t)c->n[1],
                  .pending = (uint32_t)c->n[1],
                  .agent = agent_new(k, AGENT_LOAD, b->rank, SIM_BASE + offset),
                  .arrived = clock_new(k),
                  .ended = clock_new(k),
                  .init = clock_stamp(t),
                  .by = (uint32_t)(t - b->threads),
                  .line = c->line};
  VEC_PUSH(k->arena, b->barriers, m);
}

static bool parity_ended(const Mbarrier *m, uint64_t parity) {
  return (m->phase & 1) != (parity & 1);
}

/* The phase ends if nothing is missing. */
static bool end_phase(SimRun *r, Mbarrier *m, SimBlock *b) {
  SimCluster *k = b->cluster;
  if (m->pending || m->bytes)
    return true;
  if (m->loads)
    return sim_fail(r, &b->threads[m->by], (uint32_t)m->line,
                    "a phase of this mbarrier ends while %u loads that arrive "
                    "at it are under way: too few bytes are expected",
                    m->loads);
  m->phase++;
  m->pending = m->count;
  clock_join(k, m->ended, m->arrived);
  clock_clear(k, m->arrived);
  m->ended[m->agent] = m->phase; /* loads of this phase are seen */
  if (k->fenced)
    m->ended[k->capacity + m->agent] = m->phase;
  for (uint32_t j = 0; j < r->threads; j++) {
    SimThread *t = &b->threads[j];
    if (t->state == THREAD_WAITS && t->op == AX_MBARRIER_WAIT &&
        t->call->n[0] == SIM_BASE + m->offset && parity_ended(m, t->call->n[1]))
      join_waiting(r, t, m->ended);
  }
  return true;
}

bool mbarrier_bytes(SimRun *r, Mbarrier *m, SimBlock *block, int64_t bytes) {
  m->bytes -= bytes;
  return end_phase(r, m, block);
}

/* Of what the thread saw, which loads and products are done: all that arriving
 * at another block says, and nothing of what threads wrote. */
static void release_asynchronous(SimThread *t, Clock *into) {
  const SimCluster *k = t->block->cluster;
  for (uint32_t j = 0; j < k->clocks; j++)
    if (k->agents[j].kind != AGENT_THREAD && into[j] < t->clock[j])
      into[j] = t->clock[j];
}

static void arrive(SimRun *r, SimThread *t, AxCall *c) {
  SimCluster *k = t->block->cluster;
  SimBlock *b = t->block;
  if (c->n[3] && c->n[2] >= r->per_cluster) {
    sim_fail(r, t, (uint32_t)c->line, "there is no block %llu in the cluster",
             (unsigned long long)c->n[2]);
    return;
  }
  if (c->n[3])
    b = &k->blocks[c->n[2]];
  if (!b->live) {
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
  if (!m->pending--) {
    sim_fail(r, t, (uint32_t)c->line,
             "arrives at the mbarrier at 0x%x, at which %u arrive and did: "
             "%lld bytes are missing",
             SIM_BASE + m->offset, m->count, (long long)m->bytes);
    return;
  }
  m->bytes += (int64_t)c->n[1];
  if (c->n[3])
    release_asynchronous(t, m->arrived);
  else
    clock_release(t, m->arrived);
  end_phase(r, m, b);
}

static void wait_phase(SimRun *r, SimThread *t, int op, AxCall *c) {
  Mbarrier *m = mbarrier_at(r, t, t->block, c->n[0], c->line);
  if (!m)
    return;
  if (c->n[1] > 1)
    sim_fail(r, t, (uint32_t)c->line, "a parity of %llu",
             (unsigned long long)c->n[1]);
  if (op == AX_MBARRIER_TRY)
    sim_yield(r, t);
  c->result = parity_ended(m, c->n[1]);
  if (c->result)
    clock_join(t->block->cluster, t->clock, m->ended);
  else if (op == AX_MBARRIER_WAIT)
    sim_wait(r, t, AX_MBARRIER_WAIT, c);
}

/* ---- the rest ---- */

static void fence_init(SimThread *t) {
  for (uint32_t j = 0; j < t->block->barriers.len; j++) {
    Mbarrier *m = t->block->barriers.at[j];
    m->seen |= m->by == (uint32_t)(t - t->block->threads);
  }
}

static void cluster_load(SimRun *r, SimThread *t, AxCall *c) {
  uint32_t offset;
  SimCluster *k = t->block->cluster;
  if (c->n[1] >= r->per_cluster || !k->blocks[c->n[1]].live) {
    sim_fail(r, t, (uint32_t)c->line,
             "reads shared memory of block %llu of the cluster, which is not "
             "there",
             (unsigned long long)c->n[1]);
    return;
  }
  SimBlock *b = &k->blocks[c->n[1]];
  if (!shadow_offset(r, t, c->line, c->n[0], 4, 4, &offset) ||
      !shadow_plain(r, t, b, offset, 4, false, 0, (uint32_t)c->line))
    return;
  uint32_t v;
  memcpy(&v, b->shared + offset, sizeof v);
  c->result = v;
}

void op_barrier(SimRun *r, SimThread *t, int op, AxCall *c) {
  switch (op) {
  case AX_SYNC:
    sync_all(r, t, c);
    break;
  case AX_FENCE_INIT:
    fence_init(t);
    break;
  case AX_MBARRIER_INIT:
    init(r, t, c);
    break;
  case AX_MBARRIER_ARRIVE:
    arrive(r, t, c);
    break;
  case AX_MBARRIER_TRY:
  case AX_MBARRIER_WAIT:
    wait_phase(r, t, op, c);
    break;
  case AX_CLUSTER_RANK:
    c->result = t->block->rank;
    break;
  case AX_CLUSTER_BLOCKS:
    c->result = r->per_cluster;
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
