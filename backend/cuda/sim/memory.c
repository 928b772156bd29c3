/* Plain accesses, as the compiler reports each, and those of wrappers to global
 * memory. */
#include "backend/cuda/sim/internal.h"

#include <string.h>

extern SimRun *sim_running;

/* ---- global memory ---- */

static const SimMemory *memory_of(SimRun *r, const char *at) {
  const SimMemory *m = r->last;
  if (m && (const char *)m->at <= at && at < (const char *)m->at + m->bytes)
    return m;
  uint32_t low = 0, high = r->launch->memory_count; /* the last not above it */
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if ((const char *)r->memory[middle].at <= at)
      low = middle + 1;
    else
      high = middle;
  }
  r->last = low ? &r->memory[low - 1] : NULL;
  return r->last;
}

static bool in_constants(const SimRun *r, const char *at, size_t bytes) {
  const char *args = r->launch->args;
  return (args <= at && at + bytes <= args + r->launch->args_bytes) ||
         (r->sim->from <= at && at + bytes <= r->sim->to);
}

/* It says which range is near. */
static bool wrong_place(SimRun *r, const SimThread *t, uint32_t site,
                        const SimMemory *m, const char *at, size_t bytes,
                        bool write) {
  const char *verb = write ? "writes" : "reads";
  uint32_t after = m ? (uint32_t)(m - r->memory) + 1 : 0;
  const SimMemory *next =
      after < r->launch->memory_count ? &r->memory[after] : NULL;
  ptrdiff_t beyond = m ? at - (const char *)m->at - (ptrdiff_t)m->bytes : 0;
  ptrdiff_t before = next ? (const char *)next->at - at : PTRDIFF_MAX;
  if (m && beyond < 1 << 20 && beyond <= before)
    return sim_fail(r, t, site,
                    "%s %zu bytes %td after the beginning of `%s`, which has "
                    "%zu",
                    verb, bytes, at - (const char *)m->at, m->name, m->bytes);
  if (before < 1 << 20)
    return sim_fail(r, t, site, "%s %zu bytes %td before the beginning of `%s`",
                    verb, bytes, before, next->name);
  return sim_fail(r, t, site, "%s %zu bytes at %p, where nothing is", verb,
                  bytes, (const void *)at);
}

bool global_check(SimRun *r, const SimThread *t, uint32_t site, const void *at,
                  size_t bytes, bool write) {
  const SimMemory *m = memory_of(r, at);
  const char *p = at;
  const char *end = m ? (const char *)m->at + m->bytes : NULL;
  if (m && p < end && bytes <= (size_t)(end - p)) {
    if (write && !m->writable)
      return sim_fail(r, t, site, "writes to `%s`, which is only read",
                      m->name);
    return true;
  }
  if (!write && in_constants(r, at, bytes))
    return true;
  return wrong_place(r, t, site, m, p, bytes, write);
}

/* ---- plain accesses ---- */

static bool in_stack(const SimThread *t, const char *at) {
  return t->fiber.stack <= at && at < t->fiber.stack + FIBER_STACK;
}

/* The block of the cluster whose shared memory that is, or NULL. */
static SimBlock *shared_of(const SimRun *r, const SimThread *t,
                           const char *at) {
  SimCluster *c = t->block->cluster;
  for (uint32_t b = 0; b < r->per_cluster; b++) {
    const char *shared = (const char *)c->blocks[b].shared;
    if (shared <= at && at < shared + r->launch->shared)
      return &c->blocks[b];
  }
  return NULL;
}

static void touch_shared(SimRun *r, SimThread *t, SimBlock *block,
                         const char *at, size_t bytes, bool write,
                         uint64_t flags, uint32_t site) {
  size_t offset = (size_t)(at - (const char *)block->shared);
  if (block != t->block)
    sim_fail(r, t, site, "touches the shared memory of another block");
  else if (bytes > r->launch->shared - offset)
    sim_fail(r, t, site, "%s %zu bytes at 0x%zx, where shared memory ends",
             write ? "writes" : "reads", bytes, SIM_BASE + offset);
  else
    shadow_plain(r, t, block, (uint32_t)offset, (uint32_t)bytes, write, flags,
                 site);
}

static void touch(SimRun *r, SimThread *t, const char *at, size_t bytes,
                  bool write, uint64_t flags, uint32_t site) {
  SimBlock *block = shared_of(r, t, at);
  if (block)
    touch_shared(r, t, block, at, bytes, write, flags, site);
  else
    global_check(r, t, site, at, bytes, write);
}

void on_access(const void *at, unsigned long bytes, int write, int aligned,
               const void *pc) {
  SimRun *r = sim_running;
  SimThread *t = r->current;
  const char *p = at;
  uint32_t site = SIM_FAR + (uint32_t)((uintptr_t)pc - r->sim->base);
  if (in_stack(t, p))
    held_touch(r, t, p, bytes, write, site);
  else if (aligned && (uintptr_t)at % bytes)
    sim_fail(r, t, site, "%s %lu bytes at %p, which is not aligned to them",
             write ? "writes" : "reads", bytes, at);
  else
    touch(r, t, p, bytes, write, 0, site);
  if (r->failed)
    fiber_pause(&t->fiber, true);
}

/* ---- wrappers ---- */

static void aligned_global(SimRun *r, SimThread *t, const AxCall *c,
                           bool write) {
  uint32_t site = (uint32_t)c->line;
  if ((uintptr_t)c->p[0] % c->n[0])
    sim_fail(r, t, site, "%s: %p is not aligned to %u bytes",
             write ? "ax_store" : "ax_load", c->p[0], (unsigned)c->n[0]);
  else if (shared_of(r, t, c->p[0]))
    sim_fail(r, t, site,
             "an address in shared memory, where one in global "
             "memory is wanted");
  else
    global_check(r, t, site, c->p[0], c->n[0], write);
}

static void shared_address(SimRun *r, SimThread *t, AxCall *c) {
  const char *at = c->p[0], *shared = (const char *)t->block->shared;
  if (at < shared || at > shared + r->launch->shared)
    sim_fail(r, t, (uint32_t)c->line,
             "ax_shared_address of what is not shared memory");
  c->result = SIM_BASE + (uint64_t)(at - shared);
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
    if ((uintptr_t)c->p[0] % c->n[0])
      sim_fail(r, t, (uint32_t)c->line,
               "an atomic function at %p, which is "
               "not aligned",
               c->p[0]);
    else
      touch(r, t, c->p[0], c->n[0], true, STAMP_ATOMIC, (uint32_t)c->line);
    break;
  case AX_YIELD:
    sim_yield(r, t);
    break;
  case AX_TRAP:
    sim_fail(r, t, (uint32_t)c->line, "__trap");
    break;
  case AX_WGMMA_HOLD:
    held_hold(r, t, c);
    break;
  }
}
