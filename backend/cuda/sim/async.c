/* Asynchronous copies: cp.async and bulk copies.  The destination is NaN until
 * a copy completes. */
#include "backend/cuda/sim/internal.h"
#include "support/arena.h"

#include <string.h>

/* ---- pending operations ---- */

AsyncOp *async_op_new(SimRun *r, SimThread *t, int op, const AxCall *c) {
  SimCluster *k = t->block->cluster;
  AsyncOp *p = NEW(k->arena, AsyncOp);
  p->issuer = t;
  p->block = t->block;
  p->op = op;
  p->line = c->line;
  memcpy(p->n, c->n, sizeof p->n);
  memcpy(p->p, c->p, sizeof p->p);
  p->place = k->pending.len;
  VEC_PUSH(k->arena, k->pending, p);
  r->pending_count++;
  return p;
}

/* Appends the operation to those of its agent. */
void async_op_set_group(AsyncOp *p, uint32_t agent, uint32_t group) {
  AsyncOp **end = &p->block->cluster->agents[agent].pending;
  while (*end)
    end = &(*end)->next;
  *end = p;
  p->agent = agent;
  p->group = group;
}

static void leave_agent(SimCluster *c, AsyncOp *p) {
  AsyncOp **at = &c->agents[p->agent].pending;
  while (*at && *at != p)
    at = &(*at)->next;
  if (*at)
    *at = p->next;
}

static bool finish_op(SimRun *r, SimCluster *c, AsyncOp *p) {
  AsyncOp *last = c->pending.at[--c->pending.len];
  c->pending.at[p->place] = last;
  last->place = p->place;
  r->pending_count--;
  leave_agent(c, p);
  return p->finish(r, p);
}

bool async_op_finish(SimRun *r, SimCluster *c, uint32_t which) {
  AsyncOp *p = c->pending.at[which];
  bool in_order = p->op == AX_WGMMA || p->op == AX_TCGEN05_MMA ||
                  p->op == AX_TCGEN05_COPY || p->op == AX_TCGEN05_COMMIT;
  return finish_op(r, c, in_order ? c->agents[p->agent].pending : p);
}

bool async_op_finish_groups(SimRun *r, SimCluster *c, uint32_t agent,
                            uint32_t group) {
  for (AsyncOp *p = c->agents[agent].pending; p && p->group <= group;
       p = c->agents[agent].pending)
    if (!finish_op(r, c, p))
      return false;
  return true;
}

/* ---- cp.async ---- */

static bool finish_cp_async(SimRun *r, const AsyncOp *p) {
  unsigned char *to = p->block->shared + p->n[0];
  (void)r;
  memset(to, 0, p->n[2]);
  if (p->n[1])
    memcpy(to, p->p[0], p->n[1]);
  return true;
}

static void issue_cp_async(SimRun *r, SimThread *t, const AxCall *c) {
  uint32_t site = (uint32_t)c->line, size = (uint32_t)c->n[2], offset;
  if (!shared_offset_of(r, t, c->line, c->n[0], size, size, &offset))
    return;
  if (c->n[1] > size || (uintptr_t)c->p[0] % size) {
    sim_fail(r, t, site, "ax_copy_%u of %llu bytes from %p", size,
             (unsigned long long)c->n[1], c->p[0]);
    return;
  }
  if (c->n[1] && (!global_check(r, t, site, c->p[0], c->n[1], false) ||
                  !global_order(r, t, site, c->p[0], c->n[1], false, false)))
    return;
  if (!t->cp_async_agent)
    t->cp_async_agent =
        agent_new(t->block->cluster, AGENT_CP_ASYNC, t->block->rank,
                  (uint32_t)(t - t->block->threads));
  ShadowAccess access = {.block = t->block,
                         .offset = offset,
                         .bytes = size,
                         .write = true,
                         .clock = t->clock,
                         .epoch = (Epoch)t->cp_async_agent << 32 |
                                  (t->cp_async_groups + 1),
                         .site = site,
                         .thread = t};
  if (!shadow_check(r, &access))
    return;
  memset(t->block->shared + offset, 0xff, size);
  AsyncOp *p = async_op_new(r, t, AX_COPY, c);
  p->n[0] = offset;
  p->finish = finish_cp_async;
  async_op_set_group(p, t->cp_async_agent, t->cp_async_groups + 1);
}

/* Completes all groups except the last `pending`, and makes them visible to the
 * thread. */
static void wait_groups(SimRun *r, SimThread *t, uint32_t agent,
                        uint32_t groups, uint64_t pending) {
  if (!agent || groups <= pending)
    return;
  uint32_t last_group = groups - (uint32_t)pending;
  if (async_op_finish_groups(r, t->block->cluster, agent, last_group) &&
      t->clock[agent] < last_group)
    t->clock[agent] = last_group;
}

/* ---- bulk copies ---- */

static bool check_bulk(SimRun *r, SimThread *t, const AxCall *c,
                       uint64_t address, uint64_t bytes, bool write,
                       uint32_t *offset) {
  if (!bytes || bytes % 16 || bytes >= 1 << 20 || (uintptr_t)c->p[0] % 16)
    return sim_fail(r, t, (uint32_t)c->line,
                    "a bulk copy of %llu bytes at %p: both are multiples of 16",
                    (unsigned long long)bytes, c->p[0]);
  return shared_offset_of(r, t, c->line, address, (uint32_t)bytes, 16,
                          offset) &&
         global_check(r, t, (uint32_t)c->line, c->p[0], bytes, write);
}

static bool finish_bulk_load(SimRun *r, const AsyncOp *p) {
  memcpy(p->block->shared + p->n[0], p->p[0], p->n[1]);
  (*p->mbarriers)->pending_loads--;
  return mbarrier_complete_bytes(r, *p->mbarriers, p->block, (int64_t)p->n[1]);
}

bool async_write(SimRun *r, SimThread *t, SimBlock *b, Mbarrier *m,
                 uint32_t offset, uint32_t bytes, int line) {
  ShadowAccess access = {.block = b,
                         .offset = offset,
                         .bytes = bytes,
                         .write = true,
                         .clock = t->clock,
                         .epoch = (Epoch)m->agent << 32 | (m->phase + 1) |
                                  EPOCH_ASYNC,
                         .site = (uint32_t)line,
                         .thread = t};
  if (!m->is_fenced)
    return sim_fail(r, t, (uint32_t)line,
                    "a load arrives at the mbarrier of line %d, after which "
                    "ax_fence_mbarrier_init is missing",
                    m->line);
  if (!shadow_check(r, &access))
    return false;
  memset(b->shared + offset, 0xff, bytes);
  m->pending_loads++;
  m->last_load_phase = m->phase + 1;
  m->last_load_line = line;
  return true;
}

static void bulk_load(SimRun *r, SimThread *t, const AxCall *c) {
  uint32_t offset;
  if (!check_bulk(r, t, c, c->n[0], c->n[1], false, &offset))
    return;
  Mbarrier *m = mbarrier_at(r, t, t->block, c->n[2], c->line);
  if (!m || !async_write(r, t, t->block, m, offset, (uint32_t)c->n[1], c->line))
    return;
  AsyncOp *p = async_op_new(r, t, AX_BULK_LOAD, c);
  p->mbarriers = NEW(t->block->cluster->arena, Mbarrier *);
  *p->mbarriers = m;
  p->n[0] = offset;
  p->finish = finish_bulk_load;
}

bool async_read(SimRun *r, SimThread *t, uint32_t offset, uint32_t bytes,
                int line) {
  if (!t->bulk_agent)
    t->bulk_agent =
        agent_new(t->block->cluster, AGENT_BULK_STORE, t->block->rank,
                  (uint32_t)(t - t->block->threads));
  ShadowAccess access = {.block = t->block,
                         .offset = offset,
                         .bytes = bytes,
                         .clock = t->clock,
                         .epoch = (Epoch)t->bulk_agent << 32 |
                                  (t->bulk_groups + 1) | EPOCH_ASYNC,
                         .site = (uint32_t)line,
                         .thread = t};
  t->last_bulk_group = t->bulk_groups + 1;
  t->last_bulk_line = line;
  return shadow_check(r, &access);
}

static bool finish_bulk_store(SimRun *r, const AsyncOp *p) {
  (void)r;
  memcpy((void *)(uintptr_t)p->p[0], p->block->shared + p->n[0], p->n[1]);
  return true;
}

static void bulk_store(SimRun *r, SimThread *t, const AxCall *c) {
  uint32_t offset;
  if (!check_bulk(r, t, c, c->n[0], c->n[1], true, &offset) ||
      !async_read(r, t, offset, (uint32_t)c->n[1], c->line))
    return;
  AsyncOp *p = async_op_new(r, t, AX_BULK_STORE, c);
  p->n[0] = offset;
  p->finish = finish_bulk_store;
  async_op_set_group(p, t->bulk_agent, t->bulk_groups + 1);
}

/* ---- fences and dispatch ---- */

static void fence_async(SimThread *t) {
  SimCluster *k = t->block->cluster;
  VectorClock *fenced = t->clock + k->max_agents;
  k->fenced = true;
  for (uint32_t j = 0; j < k->agent_count; j++)
    fenced[j] = fenced[j] < t->clock[j] ? t->clock[j] : fenced[j];
  t->clock[t->agent]++; /* later writes are not fenced */
  for (uint32_t j = 0; j < t->block->mbarriers.len; j++) {
    Mbarrier *m = t->block->mbarriers.at[j];
    m->is_fenced |= m->init_thread == (uint32_t)(t - t->block->threads);
  }
}

void op_async(SimRun *r, SimThread *t, int op, AxCall *c) {
  switch (op) {
  case AX_COPY:
    issue_cp_async(r, t, c);
    break;
  case AX_COPY_COMMIT:
    t->cp_async_groups++;
    break;
  case AX_COPY_WAIT:
    wait_groups(r, t, t->cp_async_agent, t->cp_async_groups, c->n[0]);
    break;
  case AX_FENCE_ASYNC:
    fence_async(t);
    break;
  case AX_BULK_LOAD:
    bulk_load(r, t, c);
    break;
  case AX_BULK_STORE:
    bulk_store(r, t, c);
    break;
  case AX_TMA_COMMIT:
    t->bulk_groups++;
    break;
  case AX_TMA_WAIT:
    wait_groups(r, t, t->bulk_agent, t->bulk_groups, c->n[0]);
    break;
  }
}
