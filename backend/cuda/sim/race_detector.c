/* Vector clocks, and the shadow state of shared memory. */
#include "backend/cuda/sim/internal.h"
#include "support/arena.h"

#include <string.h>

uint32_t agent_new(SimCluster *c, AgentKind kind, uint32_t rank,
                   uint32_t number) {
  if (c->agent_count == c->max_agents)
    return 0;
  c->agents[c->agent_count] = (Agent){kind, rank, number, NULL};
  return c->agent_count++;
}

VectorClock *clock_new(SimCluster *c) {
  return arena_alloc(c->arena, (size_t)c->max_agents * 2 * sizeof(VectorClock));
}

/* Kernels with many barriers spend a fifth of their time in these loops.  gcc
 * vectorizes them, for several widths, and the CPU selects a version: glibc
 * does so when it loads the program, before a thread sanitizer begins.  Times
 * are less than 2^31, and baseline x86-64 compares only signed numbers. */
#if defined __x86_64__ && defined __GLIBC__ && !defined __clang__ && \
    !defined __SANITIZE_THREAD__
#define VECTORIZED \
  __attribute__((optimize("O3"), target_clones("avx512f", "avx2", "default")))
#else
#define VECTORIZED
#endif

VECTORIZED static void join_times(int32_t *restrict into,
                                  const int32_t *restrict from,
                                  uint32_t count) {
  for (uint32_t j = 0; j < count; j++)
    into[j] = into[j] < from[j] ? from[j] : into[j];
}

VECTORIZED static void meet_times(int32_t *restrict into,
                                  const int32_t *restrict from,
                                  uint32_t count) {
  for (uint32_t j = 0; j < count; j++)
    into[j] = from[j] < into[j] ? from[j] : into[j];
}

void clock_join(const SimCluster *c, VectorClock *into,
                const VectorClock *from) {
  for (uint32_t half = 0; half <= c->fenced; half++) {
    uint32_t at = half * c->max_agents;
    join_times((int32_t *)into + at, (const int32_t *)from + at,
               c->agent_count);
  }
}

void clock_meet(const SimCluster *c, VectorClock *into,
                const VectorClock *from) {
  for (uint32_t half = 0; half <= c->fenced; half++) {
    uint32_t at = half * c->max_agents;
    meet_times((int32_t *)into + at, (const int32_t *)from + at,
               c->agent_count);
  }
}

void clock_clear(const SimCluster *c, VectorClock *clock) {
  memset(clock, 0, c->agent_count * sizeof *clock);
  memset(clock + c->max_agents, 0, c->agent_count * sizeof *clock);
}

void clock_release(SimThread *t, VectorClock *into) {
  clock_join(t->block->cluster, into, t->clock);
  t->clock[t->agent]++;
}

/* Block-scope operations order no plain accesses between blocks.  They order
 * TMA, wgmma and tcgen05 operations, whose completion the thread has
 * observed. */
void clock_join_remote(const SimCluster *c, VectorClock *into,
                       const VectorClock *from) {
  for (uint32_t half = 0; half <= c->fenced; half++)
    for (uint32_t j = 1; j < c->agent_count; j++) {
      uint32_t at = half * c->max_agents + j;
      if (c->agents[j].kind >= AGENT_BULK_STORE && into[at] < from[at])
        into[at] = from[at];
    }
}

void clock_release_remote(SimThread *t, VectorClock *into) {
  clock_join_remote(t->block->cluster, into, t->clock);
  t->clock[t->agent]++;
}

Epoch clock_epoch(const SimThread *t) {
  return (Epoch)t->agent << 32 | t->clock[t->agent];
}

/* ---- shadow cells ---- */

void agent_describe(const SimRun *r, const SimThread *t, Epoch stamp,
                    uint32_t site, char *out, size_t size) {
  static const char *const kinds[] = {
      [AGENT_THREAD] = "thread",
      [AGENT_CP_ASYNC] = "cp.async of thread",
      [AGENT_BULK_STORE] = "the bulk store of thread",
      [AGENT_TMA_LOAD] = "the load that arrives at the mbarrier at",
      [AGENT_WGMMA] = "wgmma of warpgroup",
      [AGENT_TCGEN05] = "tcgen05.mma of thread",
      [AGENT_TMEM_LOAD] = "tcgen05.ld of warp",
      [AGENT_TMEM_STORE] = "tcgen05.st of warp"};
  const SimCluster *c = t->block->cluster;
  Agent a = c->agents[stamp >> 32 & 0xffff];
  char place[SIM_TEXT_BYTES], block[40] = "";
  sim_site(r, site, place);
  if (a.rank != t->block->rank)
    snprintf(block, sizeof block, " of block %u of the cluster", a.rank);
  snprintf(out, size,
           a.kind == AGENT_TMA_LOAD ? "%s 0x%x%s (%s)" : "%s %u%s (%s)",
           kinds[a.kind], a.number, block, place);
}

static bool fail_race(SimRun *r, const ShadowAccess *t, uint32_t at,
                      Epoch before, uint32_t site, bool wrote, bool unfenced) {
  char who[2 * SIM_TEXT_BYTES];
  agent_describe(r, t->thread, before, site, who, sizeof who);
  return sim_fail(r, t->thread, t->site,
                  "%s shared memory at 0x%x, which %s %s: %s",
                  t->write ? "writes" : "reads", SIM_SHARED_BASE + at, who,
                  wrote ? "wrote" : "reads",
                  unfenced ? "ax_fence_async is missing between them"
                           : "nothing orders the one after the other");
}

/* True if the access is ordered after the last write. */
static bool is_ordered_after_write(SimRun *r, const ShadowAccess *t,
                                   uint32_t at, const ShadowCell *c) {
  bool both = (c->write & EPOCH_ATOMIC) && (t->epoch & EPOCH_ATOMIC);
  if (!c->write || both)
    return true;
  if (!clock_sees(t->clock, c->write))
    return fail_race(r, t, at, c->write, c->write_site, true, false);
  const VectorClock *fenced = t->clock + t->block->cluster->max_agents;
  if ((t->epoch & EPOCH_ASYNC) && !(c->write & EPOCH_ASYNC) &&
      !clock_sees(fenced, c->write))
    return fail_race(r, t, at, c->write, c->write_site, true, true);
  return true;
}

static bool check_read(SimRun *r, const ShadowAccess *t, uint32_t at,
                       ShadowCell *c) {
  if (!c->write)
    return sim_fail(r, t->thread, t->site,
                    "reads shared memory at 0x%x that nobody wrote",
                    SIM_SHARED_BASE + at);
  if (!is_ordered_after_write(r, t, at, c))
    return false;
  uint32_t slot = SIM_MAX_READERS;
  for (uint32_t j = 0; j < SIM_MAX_READERS && slot == SIM_MAX_READERS; j++)
    if (clock_sees(t->clock, c->reads[j]) ||
        (c->reads[j] >> 32 & 0xffff) == (t->epoch >> 32 & 0xffff))
      slot = j;
  if (slot ==
      SIM_MAX_READERS) /* drop a random reader; other seeds drop others */
    slot = sim_random(r, SIM_MAX_READERS);
  c->reads[slot] = t->epoch;
  c->read_sites[slot] = t->site;
  return true;
}

static bool check_write(SimRun *r, const ShadowAccess *t, uint32_t at,
                        ShadowCell *c) {
  if (!is_ordered_after_write(r, t, at, c))
    return false;
  for (uint32_t j = 0; j < SIM_MAX_READERS; j++)
    if (c->reads[j] && !clock_sees(t->clock, c->reads[j]))
      return fail_race(r, t, at, c->reads[j], c->read_sites[j], false, false);
  memset(c, 0, sizeof *c);
  c->write = t->epoch;
  c->write_site = t->site;
  return true;
}

/* One byte, or a word whose bytes have the same state. */
static bool check_cell(SimRun *r, const ShadowAccess *t, uint32_t at,
                       ShadowCell *c) {
  if ((c->write ^ t->epoch) & EPOCH_MBARRIER && c->write)
    return sim_fail(r, t->thread, t->site,
                    c->write & EPOCH_MBARRIER
                        ? "touches shared memory at 0x%x, which is an mbarrier"
                        : "makes an mbarrier at 0x%x, which is other memory",
                    SIM_SHARED_BASE + at);
  return (t->write ? check_write : check_read)(r, t, at, c);
}

/* Gives each byte of a word its own cell. */
static void split_word(ShadowCell *whole, ShadowCell *bytes) {
  for (uint32_t j = 0; j < SIM_SHADOW_WORD; j++)
    bytes[j] = *whole;
  whole->write = EPOCH_SPLIT;
}

/* Joins the cells of the bytes of a split word if they are equal. */
static void join_word(ShadowCell *whole, const ShadowCell *bytes) {
  for (uint32_t j = 1; j < SIM_SHADOW_WORD; j++)
    if (memcmp(&bytes[j], bytes, sizeof *bytes) != 0)
      return;
  *whole = *bytes;
}

/* The cell of what begins at byte `at` of shared memory: a word, or one byte if
 * the access does not cover the word or its bytes differ. */
static ShadowCell *cell_at(const ShadowAccess *t, uint32_t at,
                           uint32_t *bytes_in_cell) {
  uint32_t byte = at % SIM_SHADOW_WORD;
  ShadowCell *whole = &t->block->shadow[at / SIM_SHADOW_WORD];
  ShadowCell *bytes = &t->block->shadow_bytes[at - byte];
  bool covered = !byte && t->offset + t->bytes - at >= SIM_SHADOW_WORD;
  bool is_split = whole->write == EPOCH_SPLIT;
  if (covered && is_split)
    join_word(whole, bytes);
  else if (!covered && !is_split)
    split_word(whole, bytes);
  *bytes_in_cell = whole->write == EPOCH_SPLIT ? 1 : SIM_SHADOW_WORD;
  return whole->write == EPOCH_SPLIT ? &bytes[byte] : whole;
}

bool shadow_check(SimRun *r, const ShadowAccess *t) {
  ShadowCell before = {0}, after = {0};
  uint32_t bytes, end = t->offset + t->bytes;
  for (uint32_t at = t->offset; at < end; at += bytes) {
    ShadowCell *c = cell_at(t, at, &bytes);
    if (at > t->offset && memcmp(c, &before, sizeof *c) == 0) {
      *c = after; /* same state as the previous cell */
      continue;
    }
    before = *c;
    if (!check_cell(r, t, at, c))
      return false;
    after = *c;
  }
  return true;
}

bool shadow_check_plain(SimRun *r, SimThread *t, SimBlock *block,
                        uint32_t offset, uint32_t bytes, bool write,
                        uint64_t flags, uint32_t site) {
  ShadowAccess access = {.block = block,
                         .offset = offset,
                         .bytes = bytes,
                         .write = write,
                         .clock = t->clock,
                         .epoch = clock_epoch(t) | flags,
                         .site = site,
                         .thread = t};
  return shadow_check(r, &access);
}

bool shared_offset_of(SimRun *r, const SimThread *t, int line, uint64_t address,
                      uint32_t bytes, uint32_t align, uint32_t *offset) {
  if (address < SIM_SHARED_BASE ||
      address - SIM_SHARED_BASE > r->launch->shared_bytes ||
      r->launch->shared_bytes - (address - SIM_SHARED_BASE) < bytes)
    return sim_fail(r, t, (uint32_t)line,
                    "%u bytes at 0x%llx are not within shared memory, 0x%x to "
                    "0x%x",
                    bytes, (unsigned long long)address, SIM_SHARED_BASE,
                    SIM_SHARED_BASE + r->launch->shared_bytes);
  if (address % align)
    return sim_fail(r, t, (uint32_t)line,
                    "0x%llx in shared memory is not aligned to %u",
                    (unsigned long long)address, align);
  *offset = (uint32_t)(address - SIM_SHARED_BASE);
  return true;
}
