/* wgmma: a product of a warpgroup begins, and ends at the wait at the latest.
 * Until then its accumulators are NaN, and who touches them is wrong, as is who
 * writes what it reads. */
#include "backend/cuda/sim/internal.h"
#include "backend/cuda/sim/layouts.h"

#include <math.h>
#include <string.h>

/* ---- registers ---- */

bool held_touch(SimRun *r, SimThread *t, const char *at, size_t bytes,
                bool write, uint32_t site) {
  for (uint32_t j = 0; j < t->held.len; j++) {
    Held *h = &t->held.at[j];
    if (at + bytes <= h->at || h->at + h->bytes <= at)
      continue;
    if (h->flying && (write || h->written))
      return sim_fail(r, t, site,
                      "%s registers that the product begun at line %d %s: "
                      "ax_wgmma_wait is missing before",
                      write ? "writes" : "reads", h->line,
                      h->written ? "adds to" : "reads");
    if (h->loose && !write)
      return sim_fail(r, t, site,
                      "reads what the product begun at line %d gave: the "
                      "compiler may read it before the wait, where "
                      "ax_wgmma_hold is missing",
                      h->line);
    h->touched |= write;
  }
  return true;
}

bool held_hold(SimRun *r, SimThread *t, const AxCall *c) {
  const char *from = c->p[0], *to = from + c->n[0] * sizeof(float);
  for (uint32_t j = 0; j < t->held.len; j++)
    if (t->held.at[j].at < to && from < t->held.at[j].at + t->held.at[j].bytes)
      t->held.at[j].loose = false;
  return held_touch(r, t, c->p[0], c->n[0] * sizeof(float), false,
                    (uint32_t)c->line);
}

/* Registers at `at` are used by a product: the entry, or NULL. */
static Held *hold(SimRun *r, SimThread *t, const void *at, uint32_t bytes,
                  bool written, const AxCall *c, uint32_t group) {
  const char *p = at;
  Held *found = NULL;
  for (uint32_t j = 0; j < t->held.len; j++) {
    Held *h = &t->held.at[j];
    bool apart = p + bytes <= h->at || h->at + h->bytes <= p;
    if (h->at == p && h->bytes == bytes)
      found = h;
    else if (!apart && h->flying && (written || h->written))
      return sim_fail(r, t, (uint32_t)c->line,
                      "registers that are in part those of the product begun "
                      "at line %d",
                      h->line),
             NULL;
    else if (!apart) { /* what it was has ended */
      *h = t->held.at[--t->held.len];
      j--;
    }
  }
  bool fenced = found ? found->flying || !found->touched : t->fences > 0;
  if (!fenced)
    return sim_fail(r, t, (uint32_t)c->line,
                    "ax_wgmma_fence is missing between what wrote the "
                    "registers and the product"),
           NULL;
  if (!found) {
    VEC_PUSH(t->block->cluster->arena, t->held, (Held){0});
    found = &t->held.at[t->held.len - 1];
    *found = (Held){.at = p, .bytes = bytes};
  }
  found->written = written;
  found->loose = false;
  found->group = group;
  found->line = c->line;
  return found;
}

/* Accumulators fly: what they will be is elsewhere. */
static float *let_fly(SimThread *t, Held *h) {
  float *d = (float *)(uintptr_t)h->at;
  if (!h->real)
    h->real = arena_alloc(t->block->cluster->arena, h->bytes);
  if (!h->flying) {
    memcpy(h->real, d, h->bytes);
    for (uint32_t j = 0; j < h->bytes / sizeof *d; j++)
      d[j] = NAN;
  }
  h->flying = true;
  return h->real;
}

static void land(SimThread *t, uint32_t upto) {
  for (uint32_t j = 0; j < t->held.len; j++) {
    Held *h = &t->held.at[j];
    if (!h->flying || h->group > upto)
      continue;
    h->flying = h->touched = false;
    h->loose = h->written;
    if (h->written)
      memcpy((char *)(uintptr_t)h->at, h->real, h->bytes);
  }
}

/* ---- operands in shared memory ---- */

typedef struct Operand {
  SharedOperand layout;
  uint32_t start;
} Operand;

/* 9.7.15.5.1.2.2, "Matrix Descriptor Format". */
static bool read_descriptor(SimRun *r, SimThread *t, const AxCall *c,
                            uint64_t bits, bool mn_major, uint32_t element,
                            Operand *o) {
  o->start = (uint32_t)(bits & 0x3fff) << 4;
  o->layout = (SharedOperand){.swizzle = swizzle_info((uint32_t)(bits >> 62)),
                              .mn_major = mn_major,
                              .element = element,
                              .leading = (uint32_t)(bits >> 16 & 0x3fff) << 4,
                              .stride = (uint32_t)(bits >> 32 & 0x3fff) << 4};
  uint64_t used = 0x3fff | 0x3fffull << 16 | 0x3fffull << 32 | 3ull << 62;
  if (bits & ~used)
    return sim_fail(r, t, (uint32_t)c->line,
                    "a descriptor 0x%llx with other bits than address, "
                    "offsets and swizzle",
                    (unsigned long long)bits);
  return true;
}

/* Its elements as numbers, k the denser axis. */
static bool read_operand(SimRun *r, SimThread *t, const Operand *o, AxType type,
                         uint32_t mn_count, uint32_t k_count, float *out,
                         const Touch *how) {
  uint32_t chunk = 16 / o->layout.element; /* elements that lie together */
  bool turned = o->layout.mn_major;
  uint32_t outer = turned ? k_count : mn_count;
  uint32_t inner = turned ? mn_count : k_count;
  for (uint32_t i = 0; i < outer; i++)
    for (uint32_t j = 0; j < inner; j += chunk) {
      uint32_t mn = turned ? j : i, k = turned ? i : j;
      uint32_t address = o->start + shared_offset(&o->layout, mn, k), offset;
      Touch touch = *how;
      address = swizzle_address(o->layout.swizzle, address);
      if (!shadow_offset(r, t, (int)how->site, address, 16, 16, &offset))
        return false;
      touch.offset = offset;
      touch.bytes = 16;
      if (how->stamp && !shadow_touch(r, &touch))
        return false;
      for (uint32_t e = 0; out && e < chunk; e++) {
        uint32_t bits = 0;
        memcpy(&bits, t->block->shared + offset + e * o->layout.element,
               o->layout.element);
        out[(turned ? j + e : i) * k_count + (turned ? i : j + e)] =
            number_of(type, bits);
      }
    }
  return true;
}

/* ---- a product ---- */

typedef struct Shape {
  AxType type;
  uint32_t n, k, element;
} Shape;

static Shape shape_of(const uint64_t *n) {
  AxType type = (AxType)n[0];
  return (Shape){type, (uint32_t)n[1], type == AX_TF32 ? 8 : 16,
                 type == AX_TF32 ? 4 : 2};
}

static void read_registers(const Pending *p, Shape s, float *out) {
  Fragment f =
      s.type == AX_TF32 ? FRAGMENT_WGMMA_M64K8_TF32_A : FRAGMENT_WGMMA_M64K16_A;
  for (int thread = 0; thread < SIM_GROUP; thread++)
    for (int i = 0; i < fragment_info(f).count; i++) {
      FragmentPlace at = fragment_place(f, thread, i);
      uint32_t bits = s.type == AX_TF32
                          ? p->a[thread][i]
                          : p->a[thread][i / 2] >> (i % 2 * 16) & 0xffff;
      out[(uint32_t)at.row * s.k + (uint32_t)at.column] =
          number_of(s.type, bits);
    }
}

static bool finish_product(SimRun *r, const Pending *p) {
  static float a[64 * 16], b[256 * 16];
  Shape s = shape_of(p->n);
  AxCall c = {.line = p->line};
  Touch none = {.site = (uint32_t)p->line};
  Operand o;
  if (p->a)
    read_registers(p, s, a);
  else if (!read_descriptor(r, p->by, &c, p->n[2], p->n[5], s.element, &o) ||
           !read_operand(r, p->by, &o, s.type, 64, s.k, a, &none))
    return false;
  if (!read_descriptor(r, p->by, &c, p->n[3], p->n[6], s.element, &o) ||
      !read_operand(r, p->by, &o, s.type, s.n, s.k, b, &none))
    return false;
  for (int thread = 0; thread < SIM_GROUP; thread++)
    for (uint32_t i = 0; i < s.n / 2; i++) {
      FragmentPlace at = fragment_place(FRAGMENT_WGMMA_M64_D, thread, (int)i);
      const float *row = a + (uint32_t)at.row * s.k;
      const float *column = b + (uint32_t)at.column * s.k;
      double sum = p->n[4] ? p->d[thread][i] : 0;
      for (uint32_t k = 0; k < s.k; k++)
        sum += (double)row[k] * column[k];
      p->d[thread][i] = (float)sum;
    }
  return true;
}

/* What it reads of shared memory may be read, and may not be written. */
static bool touch_operands(SimRun *r, SimThread *first, const AxCall *c,
                           const Warp *g, Shape s) {
  Touch how = {.block = first->block,
               .clock = warp_meet(first, SIM_GROUP),
               .stamp = (Stamp)g->agent << 32 | (g->groups + 1) | STAMP_ASYNC,
               .site = (uint32_t)c->line,
               .by = first};
  Operand o;
  if (!c->p[1] &&
      (!read_descriptor(r, first, c, c->n[2], c->n[5], s.element, &o) ||
       !read_operand(r, first, &o, s.type, 64, s.k, NULL, &how)))
    return false;
  return read_descriptor(r, first, c, c->n[3], c->n[6], s.element, &o) &&
         read_operand(r, first, &o, s.type, s.n, s.k, NULL, &how);
}

static void begin_product(SimRun *r, SimThread *first, Warp *g,
                          const AxCall *c) {
  SimCluster *k = first->block->cluster;
  Shape s = shape_of(c->n);
  float **d = NEW_ARRAY(k->arena, float *, SIM_GROUP);
  const unsigned **a =
      c->p[1] ? NEW_ARRAY(k->arena, const unsigned *, SIM_GROUP) : NULL;
  if (!touch_operands(r, first, c, g, s))
    return;
  for (uint32_t j = 0; j < SIM_GROUP; j++) {
    SimThread *t = &first[j];
    const AxCall *own = t->call;
    Held *h = a ? hold(r, t, own->p[1], 16, false, own, g->groups + 1) : NULL;
    if (a && !h)
      return;
    if (a) {
      h->flying = true;
      a[j] = own->p[1];
    }
    h = hold(r, t, own->p[0], s.n / 2 * 4, true, own, g->groups + 1);
    if (!h)
      return;
    d[j] = let_fly(t, h);
  }
  Pending *p = pending_new(r, first, AX_WGMMA, c);
  p->finish = finish_product;
  p->who = g->agent;
  p->group = g->groups + 1;
  p->d = d;
  p->a = a;
}

static void wait_products(SimRun *r, SimThread *first, Warp *g,
                          const AxCall *c) {
  if (g->groups <= c->n[0])
    return;
  uint32_t upto = g->groups - (uint32_t)c->n[0];
  SimCluster *k = first->block->cluster;
  if (!pending_finish(r, k, g->agent, upto))
    return;
  for (uint32_t j = 0; j < SIM_GROUP; j++) {
    SimThread *t = &first[j];
    if (t->clock[g->agent] < upto)
      t->clock[g->agent] = upto;
    t->fences = 0;
    land(t, upto);
  }
}

static void fence(SimThread *first) {
  for (uint32_t j = 0; j < SIM_GROUP; j++) {
    SimThread *t = &first[j];
    t->fences++;
    for (uint32_t i = 0; i < t->held.len; i++)
      t->held.at[i].touched = false;
  }
}

/* ---- how many registers a thread has ---- */

enum { REGISTERS = 65536 }; /* of a multiprocessor */

/* Of a thread as a block begins.  What that leaves of the multiprocessor's the
 * block never has: of 384 threads each has 168, which is 1024 less. */
static uint32_t registers_first(const SimRun *r) {
  uint32_t all = REGISTERS / r->threads / 8 * 8;
  return all < 248 ? all : 248;
}

static uint32_t registers_of(const SimRun *r, const Warp *g) {
  return g->registers ? g->registers : registers_first(r);
}

/* Of the others; there may be room for more. */
static uint32_t registers_left(const SimRun *r, const SimBlock *b,
                               const Warp *but) {
  uint32_t left = registers_first(r) * r->threads;
  for (uint32_t j = 0; j < (r->threads + SIM_GROUP - 1) / SIM_GROUP; j++)
    if (&b->groups[j] != but)
      left -= registers_of(r, &b->groups[j]) * SIM_GROUP;
  return left;
}

static bool take_registers(const SimRun *r, SimThread *first, Warp *g,
                           const AxCall *c) {
  if (c->n[1] && registers_left(r, first->block, g) / SIM_GROUP < c->n[0])
    return false;
  g->registers = (uint32_t)c->n[0];
  return true;
}

/* Warpgroups that wait for more get them, if there is room now. */
static void give_registers(SimRun *r, SimBlock *b, const Warp *by) {
  for (uint32_t j = 0; j < r->threads / SIM_GROUP; j++) {
    SimThread *first = &b->threads[j * SIM_GROUP];
    if (&b->groups[j] == by || first->state != THREAD_WAITS ||
        first->op != AX_REGISTERS || first->gathering ||
        !take_registers(r, first, &b->groups[j], first->call))
      continue;
    for (uint32_t i = 0; i < SIM_GROUP; i++)
      sim_wake(r, &first[i]);
  }
}

/* True: they go on. */
static bool set_registers(SimRun *r, SimThread *first, Warp *g,
                          const AxCall *c) {
  uint32_t site = (uint32_t)c->line, now = registers_of(r, g);
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

/* ---- all of them ---- */

/* True: they go on. */
static bool done_by_all(SimRun *r, SimThread *first, Warp *g, int op,
                        const AxCall *c) {
  SimBlock *b = first->block;
  if (!g->agent)
    g->agent = agent_new(b->cluster, AGENT_PRODUCT, b->rank,
                         (uint32_t)(g - b->groups));
  switch (op) {
  case AX_REGISTERS:
    return set_registers(r, first, g, c);
  case AX_WGMMA_FENCE:
    fence(first);
    break;
  case AX_WGMMA_COMMIT:
    g->groups++;
    break;
  case AX_WGMMA_WAIT:
    wait_products(r, first, g, c);
    break;
  case AX_WGMMA:
    begin_product(r, first, g, c);
    break;
  }
  return true;
}

void op_group(SimRun *r, SimThread *t, int op, AxCall *c) {
  uint32_t group = t->self.lane.y / 4;
  Warp *g = &t->block->groups[group];
  SimThread *first = &t->block->threads[group * SIM_GROUP];
  if ((group + 1) * SIM_GROUP > r->threads)
    sim_fail(r, t, (uint32_t)c->line,
             "%s by a warpgroup that is not of four warps", sim_op_name(op));
  else if (warp_gather(r, t, g, first, SIM_GROUP, op, c)) {
    bool goes_on = done_by_all(r, first, g, op, c);
    if (goes_on && !r->failed)
      warp_wake(r, t, first, SIM_GROUP);
    else if (!r->failed)
      sim_wait(r, t, op, c);
  }
}
