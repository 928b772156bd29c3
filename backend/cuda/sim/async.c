/* What is begun now and done later: cp.async, bulk copies.  What is written is
 * NaN until then. */
#include "backend/cuda/sim/internal.h"

#include <string.h>

/* ---- later ---- */

Pending *pending_new(SimRun *r, SimThread *t, int op, const AxCall *c) {
  SimCluster *k = t->block->cluster;
  Pending *p = NEW(k->arena, Pending);
  p->by = t;
  p->block = t->block;
  p->op = op;
  p->line = c->line;
  memcpy(p->n, c->n, sizeof p->n);
  memcpy(p->p, c->p, sizeof p->p);
  VEC_PUSH(k->arena, k->pending, p);
  r->late++;
  return p;
}

static bool finish(SimRun *r, SimCluster *c, uint32_t which) {
  Pending *p = c->pending.at[which];
  c->pending.len--;
  memmove(&c->pending.at[which], &c->pending.at[which + 1],
          (c->pending.len - which) * sizeof *c->pending.at);
  r->late--;
  return p->finish(r, p);
}

bool pending_one(SimRun *r, SimCluster *c, uint32_t which) {
  const Pending *p = c->pending.at[which];
  if (p->op == AX_WGMMA) /* these are done in order */
    for (uint32_t j = 0; j < which; j++)
      if (c->pending.at[j]->op == AX_WGMMA && c->pending.at[j]->who == p->who)
        return finish(r, c, j);
  return finish(r, c, which);
}

bool pending_finish(SimRun *r, SimCluster *c, uint32_t who, uint32_t group) {
  for (uint32_t j = 0; j < c->pending.len;) {
    const Pending *p = c->pending.at[j];
    if (p->who != who || p->group > group)
      j++;
    else if (!finish(r, c, j))
      return false;
  }
  return true;
}

/* ---- cp.async ---- */

static bool finish_copy(SimRun *r, const Pending *p) {
  unsigned char *to = p->block->shared + p->n[0];
  (void)r;
  memset(to, 0, p->n[2]);
  if (p->n[1])
    memcpy(to, p->p[0], p->n[1]);
  return true;
}

static void copy(SimRun *r, SimThread *t, const AxCall *c) {
  uint32_t site = (uint32_t)c->line, size = (uint32_t)c->n[2], offset;
  if (!shadow_offset(r, t, c->line, c->n[0], size, size, &offset))
    return;
  if (c->n[1] > size || (uintptr_t)c->p[0] % size) {
    sim_fail(r, t, site, "ax_copy_%u of %llu bytes from %p", size,
             (unsigned long long)c->n[1], c->p[0]);
    return;
  }
  if (c->n[1] && !global_check(r, t, site, c->p[0], c->n[1], false))
    return;
  if (!t->copies)
    t->copies = agent_new(t->block->cluster, AGENT_COPY, t->block->rank,
                          (uint32_t)(t - t->block->threads));
  Touch touch = {.block = t->block,
                 .offset = offset,
                 .bytes = size,
                 .write = true,
                 .clock = t->clock,
                 .stamp = (Stamp)t->copies << 32 | (t->copy_groups + 1),
                 .site = site,
                 .by = t};
  if (!shadow_touch(r, &touch))
    return;
  memset(t->block->shared + offset, 0xff, size);
  Pending *p = pending_new(r, t, AX_COPY, c);
  p->n[0] = offset;
  p->finish = finish_copy;
  p->who = t->copies;
  p->group = t->copy_groups + 1;
}

/* Groups up to the last `pending` are done, and the thread sees it. */
static void wait_groups(SimRun *r, SimThread *t, uint32_t who, uint32_t groups,
                        uint64_t pending) {
  if (!who || groups <= pending)
    return;
  uint32_t upto = groups - (uint32_t)pending;
  if (pending_finish(r, t->block->cluster, who, upto) && t->clock[who] < upto)
    t->clock[who] = upto;
}

/* ---- bulk copies ---- */

static bool bulk_checked(SimRun *r, SimThread *t, const AxCall *c,
                         uint64_t address, uint64_t bytes, bool write,
                         uint32_t *offset) {
  if (!bytes || bytes % 16 || bytes >= 1 << 20 || (uintptr_t)c->p[0] % 16)
    return sim_fail(r, t, (uint32_t)c->line,
                    "a bulk copy of %llu bytes at %p: both are multiples of 16",
                    (unsigned long long)bytes, c->p[0]);
  return shadow_offset(r, t, c->line, address, (uint32_t)bytes, 16, offset) &&
         global_check(r, t, (uint32_t)c->line, c->p[0], bytes, write);
}

static bool finish_bulk_load(SimRun *r, const Pending *p) {
  memcpy(p->block->shared + p->n[0], p->p[0], p->n[1]);
  (*p->bars)->loads--;
  return mbarrier_bytes(r, *p->bars, p->block, (int64_t)p->n[1]);
}

bool async_write(SimRun *r, SimThread *t, SimBlock *b, Mbarrier *m,
                 uint32_t offset, uint32_t bytes, int line) {
  Touch touch = {.block = b,
                 .offset = offset,
                 .bytes = bytes,
                 .write = true,
                 .clock = t->clock,
                 .stamp = (Stamp)m->agent << 32 | (m->phase + 1) | STAMP_ASYNC,
                 .site = (uint32_t)line,
                 .by = t};
  if (!m->seen)
    return sim_fail(r, t, (uint32_t)line,
                    "a load arrives at the mbarrier of line %d, after which "
                    "ax_fence_mbarrier_init is missing",
                    m->line);
  if (!shadow_touch(r, &touch))
    return false;
  memset(b->shared + offset, 0xff, bytes);
  m->loads++;
  m->last = m->phase + 1;
  m->last_line = line;
  return true;
}

static void bulk_load(SimRun *r, SimThread *t, const AxCall *c) {
  uint32_t offset;
  if (!bulk_checked(r, t, c, c->n[0], c->n[1], false, &offset))
    return;
  Mbarrier *m = mbarrier_at(r, t, t->block, c->n[2], c->line);
  if (!m || !async_write(r, t, t->block, m, offset, (uint32_t)c->n[1], c->line))
    return;
  Pending *p = pending_new(r, t, AX_BULK_LOAD, c);
  p->bars = NEW(t->block->cluster->arena, Mbarrier *);
  *p->bars = m;
  p->n[0] = offset;
  p->finish = finish_bulk_load;
}

bool async_read(SimRun *r, SimThread *t, uint32_t offset, uint32_t bytes,
                int line) {
  if (!t->bulks)
    t->bulks = agent_new(t->block->cluster, AGENT_BULK, t->block->rank,
                         (uint32_t)(t - t->block->threads));
  Touch touch = {.block = t->block,
                 .offset = offset,
                 .bytes = bytes,
                 .clock = t->clock,
                 .stamp =
                     (Stamp)t->bulks << 32 | (t->bulk_groups + 1) | STAMP_ASYNC,
                 .site = (uint32_t)line,
                 .by = t};
  t->bulk_last = t->bulk_groups + 1;
  t->bulk_line = line;
  return shadow_touch(r, &touch);
}

static bool finish_bulk_store(SimRun *r, const Pending *p) {
  (void)r;
  memcpy((void *)(uintptr_t)p->p[0], p->block->shared + p->n[0], p->n[1]);
  return true;
}

static void bulk_store(SimRun *r, SimThread *t, const AxCall *c) {
  uint32_t offset;
  if (!bulk_checked(r, t, c, c->n[0], c->n[1], true, &offset) ||
      !async_read(r, t, offset, (uint32_t)c->n[1], c->line))
    return;
  Pending *p = pending_new(r, t, AX_BULK_STORE, c);
  p->n[0] = offset;
  p->finish = finish_bulk_store;
  p->who = t->bulks;
  p->group = t->bulk_groups + 1;
}

/* ---- the others ---- */

static void fence_async(SimThread *t) {
  SimCluster *k = t->block->cluster;
  Clock *fenced = t->clock + k->capacity;
  k->fenced = true;
  for (uint32_t j = 0; j < k->clocks; j++)
    fenced[j] = fenced[j] < t->clock[j] ? t->clock[j] : fenced[j];
  t->clock[t->id]++; /* what it writes from now on is not fenced */
  for (uint32_t j = 0; j < t->block->barriers.len; j++) {
    Mbarrier *m = t->block->barriers.at[j];
    m->seen |= m->by == (uint32_t)(t - t->block->threads);
  }
}

void op_async(SimRun *r, SimThread *t, int op, AxCall *c) {
  switch (op) {
  case AX_COPY:
    copy(r, t, c);
    break;
  case AX_COPY_COMMIT:
    t->copy_groups++;
    break;
  case AX_COPY_WAIT:
    wait_groups(r, t, t->copies, t->copy_groups, c->n[0]);
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
    wait_groups(r, t, t->bulks, t->bulk_groups, c->n[0]);
    break;
  }
}
