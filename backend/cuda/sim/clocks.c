/* Who sees what of whom, and what was done to each byte of shared memory. */
#include "backend/cuda/sim/internal.h"

#include <string.h>

uint32_t agent_new(SimCluster *c, AgentKind kind, uint32_t rank,
                   uint32_t number) {
  if (c->clocks == c->capacity)
    return 0;
  c->agents[c->clocks] = (Agent){kind, rank, number};
  return c->clocks++;
}

Clock *clock_new(SimCluster *c) {
  size_t bytes = (size_t)c->capacity * 2 * sizeof(Clock);
  return memset(arena_alloc(c->arena, bytes), 0, bytes);
}

void clock_join(const SimCluster *c, Clock *into, const Clock *from) {
  for (uint32_t half = 0; half <= c->fenced; half++) {
    uint32_t at = half * c->capacity;
    for (uint32_t j = at; j < at + c->clocks; j++)
      into[j] = into[j] < from[j] ? from[j] : into[j];
  }
}

void clock_meet(const SimCluster *c, Clock *into, const Clock *from) {
  for (uint32_t half = 0; half <= c->fenced; half++) {
    uint32_t at = half * c->capacity;
    for (uint32_t j = at; j < at + c->clocks; j++)
      into[j] = from[j] < into[j] ? from[j] : into[j];
  }
}

void clock_clear(const SimCluster *c, Clock *clock) {
  memset(clock, 0, c->clocks * sizeof *clock);
  memset(clock + c->capacity, 0, c->clocks * sizeof *clock);
}

void clock_release(SimThread *t, Clock *into) {
  clock_join(t->block->cluster, into, t->clock);
  t->clock[t->id]++;
}

/* Scopes of blocks order no plain accesses between them; what TMA and wgmma did
 * has been waited for. */
void clock_release_far(SimThread *t, Clock *into) {
  const SimCluster *c = t->block->cluster;
  for (uint32_t half = 0; half <= c->fenced; half++)
    for (uint32_t j = 1; j < c->clocks; j++) {
      uint32_t at = half * c->capacity + j;
      if (c->agents[j].kind >= AGENT_BULK && into[at] < t->clock[at])
        into[at] = t->clock[at];
    }
  t->clock[t->id]++;
}

Stamp clock_stamp(const SimThread *t) {
  return (Stamp)t->id << 32 | t->clock[t->id];
}

/* ---- bytes ---- */

static void agent_text(const SimRun *r, const SimThread *t, Stamp stamp,
                       uint32_t site, char *out, size_t size) {
  static const char *const kinds[] = {
      [AGENT_THREAD] = "thread",
      [AGENT_COPY] = "cp.async of thread",
      [AGENT_BULK] = "the bulk store of thread",
      [AGENT_LOAD] = "the load that arrives at the mbarrier at",
      [AGENT_PRODUCT] = "wgmma of warpgroup"};
  const SimCluster *c = t->block->cluster;
  Agent a = c->agents[stamp >> 32 & 0xffff];
  char place[SIM_TEXT], block[40] = "";
  sim_site(r, site, place);
  if (a.rank != t->block->rank)
    snprintf(block, sizeof block, " of block %u of the cluster", a.rank);
  snprintf(out, size, a.kind == AGENT_LOAD ? "%s 0x%x%s (%s)" : "%s %u%s (%s)",
           kinds[a.kind], a.number, block, place);
}

static bool race(SimRun *r, const Touch *t, uint32_t at, Stamp before,
                 uint32_t site, bool wrote, bool unfenced) {
  char who[2 * SIM_TEXT];
  agent_text(r, t->by, before, site, who, sizeof who);
  return sim_fail(r, t->by, t->site,
                  "%s shared memory at 0x%x, which %s %s: %s",
                  t->write ? "writes" : "reads", SIM_BASE + at, who,
                  wrote ? "wrote" : "reads",
                  unfenced ? "ax_fence_async is missing between them"
                           : "nothing orders the one after the other");
}

/* May it come after this write? */
static bool after_write(SimRun *r, const Touch *t, uint32_t at, const Cell *c) {
  bool both = (c->write & STAMP_ATOMIC) && (t->stamp & STAMP_ATOMIC);
  if (!c->write || both)
    return true;
  if (!clock_sees(t->clock, c->write))
    return race(r, t, at, c->write, c->write_site, true, false);
  const Clock *fenced = t->clock + t->block->cluster->capacity;
  if ((t->stamp & STAMP_ASYNC) && !(c->write & STAMP_ASYNC) &&
      !clock_sees(fenced, c->write))
    return race(r, t, at, c->write, c->write_site, true, true);
  return true;
}

static bool touch_read(SimRun *r, const Touch *t, uint32_t at, Cell *c) {
  if (!c->write)
    return sim_fail(r, t->by, t->site,
                    "reads shared memory at 0x%x that nobody wrote",
                    SIM_BASE + at);
  if (!after_write(r, t, at, c))
    return false;
  uint32_t slot = SIM_READS;
  for (uint32_t j = 0; j < SIM_READS && slot == SIM_READS; j++)
    if (clock_sees(t->clock, c->reads[j]) ||
        (c->reads[j] >> 32 & 0xffff) == (t->stamp >> 32 & 0xffff))
      slot = j;
  if (slot == SIM_READS) /* one is forgotten: with other seeds another */
    slot = sim_random(r, SIM_READS);
  c->reads[slot] = t->stamp;
  c->read_sites[slot] = t->site;
  return true;
}

static bool touch_write(SimRun *r, const Touch *t, uint32_t at, Cell *c) {
  if (!after_write(r, t, at, c))
    return false;
  for (uint32_t j = 0; j < SIM_READS; j++)
    if (c->reads[j] && !clock_sees(t->clock, c->reads[j]))
      return race(r, t, at, c->reads[j], c->read_sites[j], false, false);
  memset(c, 0, sizeof *c);
  c->write = t->stamp;
  c->write_site = t->site;
  return true;
}

bool shadow_touch(SimRun *r, const Touch *t) {
  Cell before = {0}, after = {0};
  for (uint32_t j = 0; j < t->bytes; j++) {
    uint32_t at = t->offset + j;
    Cell *c = &t->block->cells[at];
    if (j && memcmp(c, &before, sizeof *c) == 0) {
      *c = after; /* as the byte before it */
      continue;
    }
    if ((c->write ^ t->stamp) & STAMP_BARRIER && c->write)
      return sim_fail(
          r, t->by, t->site,
          c->write & STAMP_BARRIER
              ? "touches shared memory at 0x%x, which is an mbarrier"
              : "makes an mbarrier at 0x%x, which is other memory",
          SIM_BASE + at);
    before = *c;
    if (!(t->write ? touch_write : touch_read)(r, t, at, c))
      return false;
    after = *c;
  }
  return true;
}

bool shadow_plain(SimRun *r, SimThread *t, SimBlock *block, uint32_t offset,
                  uint32_t bytes, bool write, uint64_t flags, uint32_t site) {
  Touch touch = {.block = block,
                 .offset = offset,
                 .bytes = bytes,
                 .write = write,
                 .clock = t->clock,
                 .stamp = clock_stamp(t) | flags,
                 .site = site,
                 .by = t};
  return shadow_touch(r, &touch);
}

bool shadow_offset(SimRun *r, const SimThread *t, int line, uint64_t address,
                   uint32_t bytes, uint32_t align, uint32_t *offset) {
  if (address < SIM_BASE || address - SIM_BASE > r->launch->shared ||
      r->launch->shared - (address - SIM_BASE) < bytes)
    return sim_fail(r, t, (uint32_t)line,
                    "%u bytes at 0x%llx are not within shared memory, 0x%x to "
                    "0x%x",
                    bytes, (unsigned long long)address, SIM_BASE,
                    SIM_BASE + r->launch->shared);
  if (address % align)
    return sim_fail(r, t, (uint32_t)line,
                    "0x%llx in shared memory is not aligned to %u",
                    (unsigned long long)address, align);
  *offset = (uint32_t)(address - SIM_BASE);
  return true;
}
