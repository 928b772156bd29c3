/* Plain accesses, which instrumented code reports, and accesses of intrinsics
 * to global memory. */
#include "backend/cuda/sim/internal.h"

#include <string.h>
#include <sys/mman.h>

extern SimRun *sim_running;

/* ---- global memory ---- */

static const SimMemory *find_range(SimRun *r, const char *at) {
  const SimMemory *m = r->last_range;
  if (m && (const char *)m->address <= at &&
      at < (const char *)m->address + m->bytes)
    return m;
  /* The last range that does not start above. */
  uint32_t low = 0, high = r->launch->memory_count;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if ((const char *)r->ranges[middle].address <= at)
      low = middle + 1;
    else
      high = middle;
  }
  r->last_range = low ? &r->ranges[low - 1] : NULL;
  return r->last_range;
}

static bool in_constants(const SimRun *r, const char *at, size_t bytes) {
  const char *args = r->launch->args;
  return (args <= at && at + bytes <= args + r->launch->args_bytes) ||
         (r->sim->from <= at && at + bytes <= r->sim->to);
}

/* The message names the nearest range. */
static bool fail_out_of_range(SimRun *r, const SimThread *t, uint32_t site,
                              const SimMemory *m, const char *at, size_t bytes,
                              bool write) {
  const char *verb = write ? "writes" : "reads";
  uint32_t after = m ? (uint32_t)(m - r->ranges) + 1 : 0;
  const SimMemory *next =
      after < r->launch->memory_count ? &r->ranges[after] : NULL;
  ptrdiff_t beyond =
      m ? at - (const char *)m->address - (ptrdiff_t)m->bytes : 0;
  ptrdiff_t before = next ? (const char *)next->address - at : PTRDIFF_MAX;
  if (m && beyond < 1 << 20 && beyond <= before)
    return sim_fail(r, t, site,
                    "%s %zu bytes %td after the beginning of `%s`, which has "
                    "%zu",
                    verb, bytes, at - (const char *)m->address, m->name,
                    m->bytes);
  if (before < 1 << 20)
    return sim_fail(r, t, site, "%s %zu bytes %td before the beginning of `%s`",
                    verb, bytes, before, next->name);
  return sim_fail(r, t, site, "%s %zu bytes at %p, where nothing is", verb,
                  bytes, (const void *)at);
}

bool global_check(SimRun *r, const SimThread *t, uint32_t site, const void *at,
                  size_t bytes, bool write) {
  const SimMemory *m = find_range(r, at);
  const char *p = at;
  const char *end = m ? (const char *)m->address + m->bytes : NULL;
  if (m && p < end && bytes <= (size_t)(end - p)) {
    if (write && !m->writable)
      return sim_fail(r, t, site, "writes to `%s`, which is only read",
                      m->name);
    return true;
  }
  if (!write && in_constants(r, at, bytes))
    return true;
  return fail_out_of_range(r, t, site, m, p, bytes, write);
}

/* ---- visibility of writes ---- */

/* True if the writer's block executed a __threadfence after the write and
 * before this time. */
static bool is_released(const SimRun *r, const GlobalWrite *w, uint64_t until) {
  const BlockOrder *by = &r->block_order[w->block - 1];
  for (uint32_t j = by->fences.len; j-- > 0 && by->fences.at[j] > w->time;)
    if (by->fences.at[j] < until)
      return true;
  return false;
}

/* A write is visible to another block after a __threadfence by the writer, a
 * later atomic operation by the reader, and a __threadfence by the reader after
 * that: without it, the L1 cache of the reader's SM may have an old value. */
static bool is_visible_to(const SimRun *r, const SimThread *t,
                          const GlobalWrite *w) {
  const SimCluster *c = t->block->cluster;
  if (w->cluster == c->number + 1 && clock_sees(t->clock, w->epoch))
    return true;
  return w->block != t->block->grid_index + 1 &&
         is_released(r, w, r->block_order[t->block->grid_index].acquired);
}

static bool fail_order(SimRun *r, SimThread *t, uint32_t site,
                       const SimMemory *m, size_t at, const GlobalWrite *w,
                       bool write) {
  char place[SIM_TEXT_BYTES];
  bool other = w->block != t->block->grid_index + 1;
  uint64_t last_atomic = r->block_order[t->block->grid_index].last_atomic;
  sim_site(r, w->site, place);
  return sim_fail(
      r, t, site,
      "%s byte %zu of `%s`, which block %u of the grid wrote (%s): "
      "%s",
      write ? "writes" : "reads", at, m->name, w->block - 1, place,
      !other ? "nothing orders the one after the other"
      : is_released(r, w, last_atomic)
          ? "no __threadfence here follows the atomic operation, so "
            "that a cache may have an old value"
          : "no __threadfence there and atomic operation here "
            "order the one after the other");
}

static GlobalWrite *writes_of(SimRun *r, const SimMemory *m) {
  GlobalWrite **at = &r->global_writes[m - r->ranges];
  if (!*at) {
    void *p = mmap(NULL, m->bytes * sizeof **at, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *at = p == MAP_FAILED ? NULL : p;
  }
  return *at;
}

void global_free(SimRun *r) {
  for (uint32_t j = 0; j < r->launch->memory_count; j++)
    if (r->global_writes[j])
      munmap(r->global_writes[j], r->ranges[j].bytes * sizeof(GlobalWrite));
}

bool global_order(SimRun *r, SimThread *t, uint32_t site, const void *at,
                  size_t bytes, bool write, bool atomic) {
  const SimMemory *m = find_range(r, at);
  uint64_t flag = atomic ? EPOCH_ATOMIC : 0;
  if (!m || !m->writable || (!write && !r->global_writes[m - r->ranges]))
    return true;
  GlobalWrite *all = writes_of(r, m),
              now = {.epoch = clock_epoch(t) | flag,
                     .time = r->time,
                     .cluster = t->block->cluster->number + 1,
                     .block = t->block->grid_index + 1,
                     .site = site};
  size_t first = (size_t)((const char *)at - (const char *)m->address);
  if (!all)
    return sim_fail(r, t, site, "no memory for what is known of `%s`", m->name);
  for (size_t j = first; j < first + bytes; j++) {
    if (all[j].epoch && !(all[j].epoch & flag) && !is_visible_to(r, t, &all[j]))
      return fail_order(r, t, site, m, j, &all[j], write);
    if (write)
      all[j] = now;
  }
  return true;
}

/* ---- plain accesses ---- */

static bool in_stack(const SimThread *t, const char *at) {
  return t->fiber.stack <= at && at < t->fiber.stack + FIBER_STACK_BYTES;
}

/* The block of the cluster whose shared memory contains the address; or
 * NULL. */
static SimBlock *shared_block_of(const SimRun *r, const SimThread *t,
                                 const char *at) {
  SimCluster *c = t->block->cluster;
  for (uint32_t b = 0; b < r->cluster_blocks; b++) {
    const char *shared = (const char *)c->blocks[b].shared;
    if (shared <= at && at < shared + r->launch->shared_bytes)
      return &c->blocks[b];
  }
  return NULL;
}

static void check_shared_access(SimRun *r, SimThread *t, SimBlock *block,
                                const char *at, size_t bytes, bool write,
                                uint64_t flags, uint32_t site) {
  size_t offset = (size_t)(at - (const char *)block->shared);
  if (block != t->block)
    sim_fail(r, t, site, "touches the shared memory of another block");
  else if (bytes > r->launch->shared_bytes - offset)
    sim_fail(r, t, site, "%s %zu bytes at 0x%zx, where shared memory ends",
             write ? "writes" : "reads", bytes, SIM_SHARED_BASE + offset);
  else
    shadow_check_plain(r, t, block, (uint32_t)offset, (uint32_t)bytes, write,
                       flags, site);
}

static void check_access(SimRun *r, SimThread *t, const char *at, size_t bytes,
                         bool write, uint64_t flags, uint32_t site) {
  SimBlock *block = shared_block_of(r, t, at);
  if (block)
    check_shared_access(r, t, block, at, bytes, write, flags, site);
  else if (global_check(r, t, site, at, bytes, write))
    global_order(r, t, site, at, bytes, write, flags & EPOCH_ATOMIC);
}

void on_access(const void *at, unsigned long bytes, int write, int aligned,
               const void *pc) {
  SimRun *r = sim_running;
  SimThread *t = r->current;
  const char *p = at;
  uint32_t site =
      SIM_FIRST_CODE_SITE + (uint32_t)((uintptr_t)pc - r->sim->base);
  if (in_stack(t, p))
    async_registers_check(r, t, p, bytes, write, site);
  else if (aligned && (uintptr_t)at % bytes)
    sim_fail(r, t, site, "%s %lu bytes at %p, which is not aligned to them",
             write ? "writes" : "reads", bytes, at);
  else
    check_access(r, t, p, bytes, write, 0, site);
  if (r->failed)
    fiber_pause(&t->fiber, true);
}

void on_wrong(const char *what, const void *pc) {
  SimRun *r = sim_running;
  SimThread *t = r->current;
  sim_fail(r, t, SIM_FIRST_CODE_SITE + (uint32_t)((uintptr_t)pc - r->sim->base),
           "%s", what);
  fiber_pause(&t->fiber, true);
}

/* ---- intrinsics ---- */

/* Loads through the read-only cache require that the kernel never writes the
 * bytes. */
static bool check_read_only(SimRun *r, const SimThread *t, const AxCall *c) {
  const SimMemory *m = find_range(r, c->p[0]);
  const GlobalWrite *w = m ? r->global_writes[m - r->ranges] : NULL;
  size_t first =
      m ? (size_t)((const char *)c->p[0] - (const char *)m->address) : 0;
  for (size_t j = first; w && c->n[1] && j < first + c->n[0]; j++)
    if (w[j].epoch)
      return sim_fail(r, t, (uint32_t)c->line,
                      "reads what the kernel writes by ax_load_%u_once",
                      (unsigned)c->n[0]);
  return true;
}

static void aligned_global(SimRun *r, SimThread *t, const AxCall *c,
                           bool write) {
  uint32_t site = (uint32_t)c->line;
  if ((uintptr_t)c->p[0] % c->n[0])
    sim_fail(r, t, site, "%s: %p is not aligned to %u bytes",
             write ? "ax_store" : "ax_load", c->p[0], (unsigned)c->n[0]);
  else if (shared_block_of(r, t, c->p[0]))
    sim_fail(r, t, site,
             "an address in shared memory, where one in global "
             "memory is wanted");
  else if (global_check(r, t, site, c->p[0], c->n[0], write) &&
           check_read_only(r, t, c))
    global_order(r, t, site, c->p[0], c->n[0], write, false);
}

static void shared_address(SimRun *r, SimThread *t, AxCall *c) {
  const char *at = c->p[0], *shared = (const char *)t->block->shared;
  if (at < shared || at > shared + r->launch->shared_bytes)
    sim_fail(r, t, (uint32_t)c->line,
             "ax_shared_address of what is not shared memory");
  c->result = SIM_SHARED_BASE + (uint64_t)(at - shared);
}

static void fence(SimRun *r, BlockOrder *by) {
  VEC_PUSH(r->arena, by->fences, ++r->time);
  by->acquired = by->last_atomic;
}

void op_memory(SimRun *r, SimThread *t, int op, AxCall *c) {
  switch (op) {
  case AX_SHARED:
    c->result = (uintptr_t)t->block->shared;
    break;
  case AX_SHARED_ADDRESS:
    shared_address(r, t, c);
    break;
  case AX_LOAD:
  case AX_STORE:
    aligned_global(r, t, c, op == AX_STORE);
    break;
  case AX_ATOMIC:
    sim_yield(r, t);
    r->block_order[t->block->grid_index].last_atomic = ++r->time;
    if ((uintptr_t)c->p[0] % c->n[0])
      sim_fail(r, t, (uint32_t)c->line,
               "an atomic function at %p, which is "
               "not aligned",
               c->p[0]);
    else
      check_access(r, t, c->p[0], c->n[0], true, EPOCH_ATOMIC,
                   (uint32_t)c->line);
    break;
  case AX_YIELD:
    sim_yield(r, t);
    if (c->n[0])
      fence(r, &r->block_order[t->block->grid_index]);
    break;
  case AX_TRAP:
    sim_fail(r, t, (uint32_t)c->line, "%s",
             c->p[0] ? (const char *)c->p[0] : "__trap");
    break;
  case AX_HOLD:
    async_registers_hold(r, t, c);
    break;
  }
}
