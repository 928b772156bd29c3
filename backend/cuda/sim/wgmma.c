/* wgmma: begins when it is issued, and completes at the wait at the latest.
 * Until then, its accumulators are NaN.  Accesses to them, and writes to its
 * operands, are errors. */
#include "backend/cuda/sim/internal.h"
#include "support/arena.h"

#include <math.h>
#include <string.h>

/* ---- registers ---- */

bool async_registers_check(SimRun *r, SimThread *t, const char *at,
                           size_t bytes, bool write, uint32_t site) {
  for (uint32_t j = 0; j < t->async_registers.len; j++) {
    AsyncRegisters *h = &t->async_registers.at[j];
    if (at + bytes <= h->address || h->address + h->bytes <= at)
      continue;
    if (h->in_flight && (write || h->written))
      return sim_fail(r, t, site,
                      "%s registers that the %s begun at line %d %s: "
                      "%s is missing before",
                      write ? "writes" : "reads",
                      h->is_load ? "load" : "product", h->line,
                      h->is_load   ? "fills"
                      : h->written ? "adds to"
                                   : "reads",
                      h->is_load ? "ax_tmem_wait_load" : "ax_wgmma_wait");
    if (h->needs_hold && !write)
      return sim_fail(r, t, site,
                      "reads what the %s begun at line %d gave: the "
                      "compiler may read it before the wait, where "
                      "ax_hold is missing",
                      h->is_load ? "load" : "product", h->line);
    h->dirty |= write;
  }
  return true;
}

bool async_registers_hold(SimRun *r, SimThread *t, const AxCall *c) {
  const char *from = c->p[0], *to = from + c->n[0] * sizeof(float);
  for (uint32_t j = 0; j < t->async_registers.len; j++)
    if (t->async_registers.at[j].address < to &&
        from <
            t->async_registers.at[j].address + t->async_registers.at[j].bytes)
      t->async_registers.at[j].needs_hold = false;
  return async_registers_check(r, t, c->p[0], c->n[0] * sizeof(float), false,
                               (uint32_t)c->line);
}

/* Claims registers for a wgmma: the entry, or NULL. */
static AsyncRegisters *claim_registers(SimRun *r, SimThread *t, const void *at,
                                       uint32_t bytes, bool written,
                                       const AxCall *c, uint32_t group) {
  const char *p = at;
  AsyncRegisters *found = NULL;
  for (uint32_t j = 0; j < t->async_registers.len; j++) {
    AsyncRegisters *h = &t->async_registers.at[j];
    bool is_disjoint = p + bytes <= h->address || h->address + h->bytes <= p;
    if (h->address == p && h->bytes == bytes)
      found = h;
    else if (!is_disjoint && h->in_flight && (written || h->written))
      return sim_fail(r, t, (uint32_t)c->line,
                      "registers that are in part those of the product begun "
                      "at line %d",
                      h->line),
             NULL;
    else if (!is_disjoint) { /* its wgmma is complete */
      *h = t->async_registers.at[--t->async_registers.len];
      j--;
    }
  }
  bool fenced = found ? found->in_flight || !found->dirty : t->wgmma_fences > 0;
  if (!fenced)
    return sim_fail(r, t, (uint32_t)c->line,
                    "ax_wgmma_fence is missing between what wrote the "
                    "registers and the product"),
           NULL;
  if (!found) {
    VEC_PUSH(t->block->cluster->arena, t->async_registers, (AsyncRegisters){0});
    found = &t->async_registers.at[t->async_registers.len - 1];
    *found = (AsyncRegisters){.address = p, .bytes = bytes};
  }
  found->written = written;
  found->needs_hold = false;
  found->wgmma_group = group;
  found->line = c->line;
  return found;
}

/* The accumulators are in flight: their future value is stored elsewhere. */
static float *begin_accumulate(SimThread *t, AsyncRegisters *h) {
  float *d = (float *)(uintptr_t)h->address;
  if (!h->pending_value)
    h->pending_value = arena_alloc(t->block->cluster->arena, h->bytes);
  if (!h->in_flight) {
    memcpy(h->pending_value, d, h->bytes);
    for (uint32_t j = 0; j < h->bytes / sizeof *d; j++)
      d[j] = NAN;
  }
  h->in_flight = true;
  return h->pending_value;
}

static void end_flight(SimThread *t, uint32_t last_group) {
  for (uint32_t j = 0; j < t->async_registers.len; j++) {
    AsyncRegisters *h = &t->async_registers.at[j];
    if (!h->in_flight || h->wgmma_group > last_group)
      continue;
    h->in_flight = h->dirty = false;
    h->needs_hold = h->written;
    if (h->written)
      memcpy((char *)(uintptr_t)h->address, h->pending_value, h->bytes);
  }
}

/* ---- operands in shared memory ---- */

/* 9.7.15.5.1.2.2, "Matrix Descriptor Format". */
static bool read_descriptor(SimRun *r, SimThread *t, const AxCall *c,
                            uint64_t bits, bool mn_major, uint32_t element,
                            MmaOperand *o) {
  o->start = (uint32_t)(bits & 0x3fff) << 4;
  o->layout =
      (SmemOperand){.swizzle = swizzle_info((uint32_t)(bits >> 62)),
                    .mn_major = mn_major,
                    .element_bytes = element,
                    .leading_bytes = (uint32_t)(bits >> 16 & 0x3fff) << 4,
                    .stride_bytes = (uint32_t)(bits >> 32 & 0x3fff) << 4};
  uint64_t used = 0x3fff | 0x3fffull << 16 | 0x3fffull << 32 | 3ull << 62;
  if (bits & ~used)
    return sim_fail(r, t, (uint32_t)c->line,
                    "a descriptor 0x%llx with other bits than address, "
                    "offsets and swizzle",
                    (unsigned long long)bits);
  return true;
}

bool mma_operand_read(SimRun *r, SimThread *t, const MmaOperand *o, AxType type,
                      uint32_t mn_count, uint32_t k_count, float *out,
                      const ShadowAccess *access_info) {
  uint32_t chunk = 16 / o->layout.element_bytes; /* contiguous elements */
  const SimBlock *block = access_info->block ? access_info->block : t->block;
  const unsigned char *from = block->shared;
  bool mn_major = o->layout.mn_major;
  uint32_t outer = mn_major ? k_count : mn_count;
  uint32_t inner = mn_major ? mn_count : k_count;
  for (uint32_t i = 0; i < outer; i++)
    for (uint32_t j = 0; j < inner; j += chunk) {
      uint32_t mn = mn_major ? j : i, k = mn_major ? i : j;
      uint32_t address = o->start + smem_operand_offset(&o->layout, mn, k),
               offset;
      ShadowAccess access = *access_info;
      address = swizzle_address(o->layout.swizzle, address);
      if (!shared_offset_of(r, t, (int)access_info->site, address, 16, 16,
                            &offset))
        return false;
      access.offset = offset;
      access.bytes = 16;
      if (access_info->epoch && !shadow_check(r, &access))
        return false;
      for (uint32_t e = 0; out && e < chunk; e++) {
        uint32_t bits = 0;
        memcpy(&bits, from + offset + e * o->layout.element_bytes,
               o->layout.element_bytes);
        out[(mn_major ? j + e : i) * k_count + (mn_major ? i : j + e)] =
            ax_bits_to_float(type, bits);
      }
    }
  return true;
}

/* ---- wgmma ---- */

typedef struct WgmmaShape {
  AxType type;
  uint32_t n, k, element_bytes;
} WgmmaShape;

static WgmmaShape wgmma_shape(const uint64_t *n) {
  AxType type = (AxType)n[0];
  uint32_t bytes = ax_type_bytes(type);
  return (WgmmaShape){type, (uint32_t)n[1], 32 / bytes, bytes};
}

static void read_a_registers(const AsyncOp *p, WgmmaShape s, float *out) {
  Fragment f =
      s.type == AX_TF32 ? FRAGMENT_WGMMA_M64K8_TF32_A : FRAGMENT_WGMMA_M64K16_A;
  for (int thread = 0; thread < SIM_WARPGROUP_THREADS; thread++)
    for (int i = 0; i < fragment_info(f).count; i++) {
      FragmentCoord at = fragment_coord(f, thread, i);
      uint32_t bits = s.type == AX_TF32
                          ? p->a[thread][i]
                          : p->a[thread][i / 2] >> (i % 2 * 16) & 0xffff;
      out[(uint32_t)at.row * s.k + (uint32_t)at.column] =
          ax_bits_to_float(s.type, bits);
    }
}

static bool finish_wgmma(SimRun *r, const AsyncOp *p) {
  static float a[64 * 32], b[256 * 32];
  WgmmaShape s = wgmma_shape(p->n);
  AxCall c = {.line = p->line};
  ShadowAccess none = {.site = (uint32_t)p->line};
  MmaOperand o;
  if (p->a)
    read_a_registers(p, s, a);
  else if (!read_descriptor(r, p->issuer, &c, p->n[2], p->n[5], s.element_bytes,
                            &o) ||
           !mma_operand_read(r, p->issuer, &o, s.type, 64, s.k, a, &none))
    return false;
  if (!read_descriptor(r, p->issuer, &c, p->n[3], p->n[6], s.element_bytes,
                       &o) ||
      !mma_operand_read(r, p->issuer, &o, s.type, s.n, s.k, b, &none))
    return false;
  for (int thread = 0; thread < SIM_WARPGROUP_THREADS; thread++)
    for (uint32_t i = 0; i < s.n / 2; i++) {
      FragmentCoord at = fragment_coord(FRAGMENT_WGMMA_M64_D, thread, (int)i);
      const float *row = a + (uint32_t)at.row * s.k;
      const float *column = b + (uint32_t)at.column * s.k;
      double sum = p->n[4] ? p->accumulators[thread][i] : 0;
      for (uint32_t k = 0; k < s.k; k++)
        sum += (double)row[k] * column[k];
      p->accumulators[thread][i] = (float)sum;
    }
  return true;
}

/* Checks that the operands in shared memory may be read, and protects them from
 * writes. */
static bool check_operands(SimRun *r, SimThread *first, const AxCall *c,
                           const Warp *g, WgmmaShape s) {
  ShadowAccess access_info = {
      .block = first->block,
      .clock = warp_common_clock(first, SIM_WARPGROUP_THREADS),
      .epoch = (Epoch)g->agent << 32 | (g->committed_groups + 1) | EPOCH_ASYNC,
      .site = (uint32_t)c->line,
      .thread = first};
  MmaOperand o;
  if (!c->p[1] &&
      (!read_descriptor(r, first, c, c->n[2], c->n[5], s.element_bytes, &o) ||
       !mma_operand_read(r, first, &o, s.type, 64, s.k, NULL, &access_info)))
    return false;
  return read_descriptor(r, first, c, c->n[3], c->n[6], s.element_bytes, &o) &&
         mma_operand_read(r, first, &o, s.type, s.n, s.k, NULL, &access_info);
}

static void begin_wgmma(SimRun *r, SimThread *first, Warp *g, const AxCall *c) {
  SimCluster *k = first->block->cluster;
  WgmmaShape s = wgmma_shape(c->n);
  float **d = NEW_ARRAY(k->arena, float *, SIM_WARPGROUP_THREADS);
  const unsigned **a =
      c->p[1] ? NEW_ARRAY(k->arena, const unsigned *, SIM_WARPGROUP_THREADS)
              : NULL;
  if (!check_operands(r, first, c, g, s))
    return;
  for (uint32_t j = 0; j < SIM_WARPGROUP_THREADS; j++) {
    SimThread *t = &first[j];
    const AxCall *own = t->call;
    AsyncRegisters *h = a ? claim_registers(r, t, own->p[1], 16, false, own,
                                            g->committed_groups + 1)
                          : NULL;
    if (a && !h)
      return;
    if (a) {
      h->in_flight = true;
      a[j] = own->p[1];
    }
    h = claim_registers(r, t, own->p[0], s.n / 2 * 4, true, own,
                        g->committed_groups + 1);
    if (!h)
      return;
    d[j] = begin_accumulate(t, h);
  }
  AsyncOp *p = async_op_new(r, first, AX_WGMMA, c);
  p->finish = finish_wgmma;
  async_op_set_group(p, g->agent, g->committed_groups + 1);
  p->accumulators = d;
  p->a = a;
}

static void wait_wgmma(SimRun *r, SimThread *first, Warp *g, const AxCall *c) {
  if (g->committed_groups <= c->n[0])
    return;
  uint32_t last_group = g->committed_groups - (uint32_t)c->n[0];
  SimCluster *k = first->block->cluster;
  if (!async_op_finish_groups(r, k, g->agent, last_group))
    return;
  for (uint32_t j = 0; j < SIM_WARPGROUP_THREADS; j++) {
    SimThread *t = &first[j];
    if (t->clock[g->agent] < last_group)
      t->clock[g->agent] = last_group;
    t->wgmma_fences = 0;
    end_flight(t, last_group);
  }
}

static void wgmma_fence(SimThread *first) {
  for (uint32_t j = 0; j < SIM_WARPGROUP_THREADS; j++) {
    SimThread *t = &first[j];
    t->wgmma_fences++;
    for (uint32_t i = 0; i < t->async_registers.len; i++)
      t->async_registers.at[i].dirty = false;
  }
}

/* ---- setmaxnreg ---- */

enum { SM_REGISTERS = 65536 }; /* registers per SM */

/* Registers per thread when a block starts.  The block cannot use the
 * remainder: with 384 threads, each has 168 registers, which leaves 1024
 * unused. */
static uint32_t initial_registers(const SimRun *r) {
  uint32_t registers = SM_REGISTERS / r->threads / 8 * 8;
  return registers < 248 ? registers : 248;
}

static uint32_t group_registers(const SimRun *r, const Warp *g) {
  return g->registers ? g->registers : initial_registers(r);
}

/* The registers of the block that other warpgroups do not use. */
static uint32_t free_registers(const SimRun *r, const SimBlock *b,
                               const Warp *except) {
  uint32_t left = initial_registers(r) * r->threads;
  for (uint32_t j = 0;
       j < (r->threads + SIM_WARPGROUP_THREADS - 1) / SIM_WARPGROUP_THREADS;
       j++)
    if (&b->warpgroups[j] != except)
      left -= group_registers(r, &b->warpgroups[j]) * SIM_WARPGROUP_THREADS;
  return left;
}

static bool take_registers(const SimRun *r, SimThread *first, Warp *g,
                           const AxCall *c) {
  if (c->n[1] &&
      free_registers(r, first->block, g) / SIM_WARPGROUP_THREADS < c->n[0])
    return false;
  g->registers = (uint32_t)c->n[0];
  return true;
}

/* Gives free registers to warpgroups that wait for more. */
static void give_registers(SimRun *r, SimBlock *b, const Warp *by) {
  for (uint32_t j = 0; j < r->threads / SIM_WARPGROUP_THREADS; j++) {
    SimThread *first = &b->threads[j * SIM_WARPGROUP_THREADS];
    if (&b->warpgroups[j] == by || first->state != THREAD_BLOCKED ||
        first->op != AX_REGISTERS || first->gathering ||
        !take_registers(r, first, &b->warpgroups[j], first->call))
      continue;
    for (uint32_t i = 0; i < SIM_WARPGROUP_THREADS; i++)
      sim_wake(r, &first[i]);
  }
}

/* True: the warpgroup continues. */
static bool set_registers(SimRun *r, SimThread *first, Warp *g,
                          const AxCall *c) {
  uint32_t site = (uint32_t)c->line, now = group_registers(r, g);
  if (c->n[0] % 8 || c->n[0] < 24 || c->n[0] > 256)
    return sim_fail(r, first, site, "%u registers: 24 to 256 by 8",
                    (unsigned)c->n[0]);
  if (c->n[1] ? c->n[0] < now : c->n[0] > now)
    return sim_fail(r, first, site, "%u registers are %s than %u",
                    (unsigned)c->n[0], c->n[1] ? "less" : "more", now);
  if (!take_registers(r, first, g, c))
    return false;
  if (!c->n[1])
    give_registers(r, first->block, g);
  return true;
}

/* ---- dispatch ---- */

/* True: the warpgroup continues. */
static bool run_warpgroup_op(SimRun *r, SimThread *first, Warp *g, int op,
                             const AxCall *c) {
  SimBlock *b = first->block;
  if (!g->agent)
    g->agent = agent_new(b->cluster, AGENT_WGMMA, b->rank,
                         (uint32_t)(g - b->warpgroups));
  switch (op) {
  case AX_REGISTERS:
    return set_registers(r, first, g, c);
  case AX_WGMMA_FENCE:
    wgmma_fence(first);
    break;
  case AX_WGMMA_COMMIT:
    g->committed_groups++;
    break;
  case AX_WGMMA_WAIT:
    wait_wgmma(r, first, g, c);
    break;
  case AX_WGMMA:
    begin_wgmma(r, first, g, c);
    break;
  }
  return true;
}

void op_warpgroup(SimRun *r, SimThread *t, int op, AxCall *c) {
  uint32_t group = t->self.lane.y / 4;
  Warp *g = &t->block->warpgroups[group];
  SimThread *first = &t->block->threads[group * SIM_WARPGROUP_THREADS];
  if ((group + 1) * SIM_WARPGROUP_THREADS > r->threads)
    sim_fail(r, t, (uint32_t)c->line,
             "%s by a warpgroup that is not of four warps", sim_op_name(op));
  else if (warp_gather(r, t, g, first, SIM_WARPGROUP_THREADS, op, c)) {
    bool may_continue = run_warpgroup_op(r, first, g, op, c);
    if (may_continue && !r->failed)
      warp_wake(r, t, first, SIM_WARPGROUP_THREADS);
    else if (!r->failed)
      sim_wait(r, t, op, c);
  }
}
