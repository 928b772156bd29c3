/* TMA: boxes of tensors.  A tensor map holds here what the driver's function
 * was given. */
#include "backend/cuda/sim/internal.h"
#include "backend/cuda/sim/layouts.h"

#include <string.h>

static const uint64_t magic = 0x70616d6d69736178; /* "axsimmap" */

typedef struct Packed { /* 128 bytes */
  uint64_t magic, address;
  uint64_t stride[SIM_AXES - 1]; /* from axis 1 on */
  uint64_t size[SIM_AXES];
  uint16_t box[SIM_AXES]; /* 256 is 256 */
  uint8_t rank, element, swizzle, tf32;
  int16_t lower[SIM_AXES - 2], upper[SIM_AXES - 2];
  uint8_t step[SIM_AXES - 2], pixels;
} Packed;

_Static_assert(sizeof(Packed) <= 128, "it fits");

/* The number of a swizzle of so many bytes, as descriptors have it; -1: there
 * is none. */
static int swizzle_number(uint32_t bytes) {
  for (uint32_t j = 0; j < 4; j++)
    if (swizzle_info(j).bytes == bytes)
      return (int)j;
  return -1;
}

/* How many pixels the bounding box has along axis 1 + j. */
static int64_t pixels_along(int64_t size, int64_t lower, int64_t upper,
                            int64_t step) {
  return size + upper <= lower ? 0 : (size + upper - lower - 1) / step + 1;
}

static const char *wrong_pixels(const SimMap *m) {
  static const int most[] = {0, 0, 0, 32768, 128, 16};
  if (m->rank < 3)
    return "pixels have a rank of 3 to 5";
  for (uint32_t j = 0; j + 2 < m->rank; j++) {
    if (m->lower[j] < -most[m->rank] || m->lower[j] >= most[m->rank] ||
        m->upper[j] < -most[m->rank] || m->upper[j] >= most[m->rank])
      return "a corner of the bounding box is too far away";
    if (!m->step[j] || m->step[j] > 8)
      return "a step is 1 to 8 pixels";
    if (pixels_along((int64_t)m->size[j + 1], m->lower[j], m->upper[j],
                     m->step[j]) < 1)
      return "a bounding box has no pixels";
  }
  return NULL;
}

/* Section "Tensor Map Object Management" of the driver's manual has what must
 * hold. */
bool sim_map(void *out, const SimMap *m, Buffer *error) {
  Packed p = {.magic = magic, .address = (uintptr_t)m->address};
  const char *wrong = NULL;
  if (!m->rank || m->rank > SIM_AXES)
    wrong = "the rank is 1 to 5";
  else if (p.address % 16)
    wrong = "the address is a multiple of 16";
  else if ((uintptr_t)out % 64)
    wrong = "the map lies at a multiple of 64";
  else if (m->element != 1 && m->element != 2 && m->element != 4 &&
           m->element != 8)
    wrong = "elements have 1, 2, 4 or 8 bytes";
  else if (swizzle_number(m->swizzle) < 0)
    wrong = "a swizzle is of 0, 32, 64 or 128 bytes";
  else if (m->box[0] * m->element % 16)
    wrong = "a row of the box is a multiple of 16 bytes";
  else if (m->swizzle && m->box[0] * m->element > m->swizzle)
    wrong = "a row of the box is at most as long as the swizzle";
  for (uint32_t j = 0; !wrong && j < m->rank; j++) {
    if (!m->box[j] || m->box[j] > 256)
      wrong = "a box has 1 to 256 elements along an axis";
    else if (!m->size[j] || m->size[j] > 1ull << 32)
      wrong = "an axis has 1 to 2^32 elements";
    else if (j && (m->stride[j] % 16 || m->stride[j] >= 1ull << 40))
      wrong = "a stride is a multiple of 16 below 2^40";
  }
  if (!wrong && m->pixels)
    wrong = wrong_pixels(m);
  if (wrong) {
    buffer_printf(error, "a tensor map: %s", wrong);
    return false;
  }
  p.rank = (uint8_t)m->rank;
  p.element = (uint8_t)m->element;
  p.swizzle = (uint8_t)m->swizzle;
  p.tf32 = m->tf32;
  for (uint32_t j = 0; j < m->rank; j++) {
    p.size[j] = m->size[j];
    p.box[j] = (uint16_t)m->box[j];
    if (j)
      p.stride[j - 1] = m->stride[j];
  }
  p.pixels = m->pixels;
  for (uint32_t j = 0; m->pixels && j + 2 < m->rank; j++) {
    p.lower[j] = (int16_t)m->lower[j];
    p.upper[j] = (int16_t)m->upper[j];
    p.step[j] = (uint8_t)m->step[j];
    p.box[j + 2] = 1;
  }
  memset(out, 0, 128);
  memcpy(out, &p, sizeof p);
  return true;
}

/* ---- a box ---- */

static uint32_t box_bytes(const Packed *m) {
  uint32_t bytes = m->element;
  for (uint32_t j = 0; j < m->rank; j++)
    bytes *= m->box[j];
  return bytes;
}

/* Rows along axis 0, the first of which has index 0. */
static uint32_t box_rows(const Packed *m) {
  return box_bytes(m) / m->box[0] / m->element;
}

/* Where a pixel is, counted on from where the load begins: each one has its
 * place in the bounding box of an image. */
static void pixel_at(const Packed *m, const int *at, uint32_t row, int *to) {
  int64_t rest = row;
  uint32_t images = m->rank - 1u;
  to[0] = at[0];
  for (uint32_t j = 0; j + 2 < m->rank; j++) {
    int64_t along = pixels_along((int64_t)m->size[j + 1], m->lower[j],
                                 m->upper[j], m->step[j]);
    int64_t number = (at[j + 1] - m->lower[j]) / m->step[j] + rest;
    to[j + 1] =
        (int)(m->lower[j] + number % along * m->step[j] + at[m->rank + j]);
    rest = number / along;
  }
  to[images] = (int)(at[images] + rest);
}

/* Where a row begins, and which of its elements, from *from up to *to, are
 * inside; false: none. */
static bool row_in(const Packed *m, const int *at, uint32_t row, char **place,
                   int64_t *from, int64_t *to) {
  uint64_t address = m->address;
  int pixel[SIM_AXES];
  if (m->pixels) {
    pixel_at(m, at, row, pixel);
    at = pixel;
    row = 0;
  }
  for (uint32_t j = 1; j < m->rank; j++) {
    int64_t index = at[j] + (m->pixels ? 0 : (int64_t)(row % m->box[j]));
    row /= m->box[j];
    if (index < 0 || (uint64_t)index >= m->size[j])
      return false;
    address += (uint64_t)index * m->stride[j - 1];
  }
  int64_t size = (int64_t)m->size[0];
  *from = at[0] < 0 ? -(int64_t)at[0] : 0;
  *to = size - at[0] < m->box[0] ? size - at[0] : m->box[0];
  *place =
      (char *)(uintptr_t)(address + (uint64_t)((int64_t)at[0] * m->element));
  return *from < *to;
}

/* An element's bytes in shared memory; a row may be swizzled. */
static unsigned char *element_in(const Packed *m, SimBlock *b, uint64_t offset,
                                 uint32_t row, int64_t j) {
  uint32_t dense = (uint32_t)((row * m->box[0] + (uint32_t)j) * m->element);
  uint32_t address = SIM_BASE + (uint32_t)offset + dense;
  SwizzleInfo s = swizzle_info((uint32_t)swizzle_number(m->swizzle));
  return b->shared + swizzle_address(s, address) - SIM_BASE;
}

/* To the nearest one, of two as near the even one; what is not finite stays.
 * The manuals do not say which: Triton's tests on GPUs do (pull request 11751).
 */
static void round_tf32(unsigned char *element) {
  uint32_t bits;
  memcpy(&bits, element, sizeof bits);
  if ((bits & 0x7f800000) != 0x7f800000)
    bits = (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000;
  memcpy(element, &bits, sizeof bits);
}

static bool finish_load(SimRun *r, const Pending *p) {
  Packed m;
  memcpy(&m, p->p[0], sizeof m);
  for (uint32_t b = 0; b < r->per_cluster; b++) {
    Mbarrier *bar = p->bars[b];
    SimBlock *block = &p->block->cluster->blocks[b];
    if (!bar)
      continue;
    for (uint32_t row = 0; row < box_rows(&m); row++) {
      int64_t from = 0, to = 0;
      char *place = NULL;
      bool in = row_in(&m, p->at, row, &place, &from, &to);
      for (int64_t j = 0; j < m.box[0]; j++) {
        unsigned char *e = element_in(&m, block, p->n[0], row, j);
        if (!in || j < from || j >= to) {
          memset(e, 0, m.element);
          continue;
        }
        memcpy(e, place + j * m.element, m.element);
        if (m.tf32)
          round_tf32(e);
      }
    }
    bar->loads--;
    if (!mbarrier_bytes(r, bar, block, box_bytes(&m)))
      return false;
  }
  return true;
}

static bool finish_store(SimRun *r, const Pending *p) {
  Packed m;
  (void)r;
  memcpy(&m, p->p[0], sizeof m);
  for (uint32_t row = 0; row < box_rows(&m); row++) {
    int64_t from, to;
    char *place;
    if (!row_in(&m, p->at, row, &place, &from, &to))
      continue;
    for (int64_t j = from; j < to; j++)
      memcpy(place + j * m.element, element_in(&m, p->block, p->n[0], row, j),
             m.element);
  }
  return true;
}

/* ---- begun ---- */

/* Does a load begin in the bounding box, are offsets such as there are? */
static bool good_pixel(const Packed *m, const int *at) {
  static const int most[] = {0, 0, 0, 65535, 255, 31};
  for (uint32_t j = 0; j + 2 < m->rank; j++) {
    int64_t along = pixels_along((int64_t)m->size[j + 1], m->lower[j],
                                 m->upper[j], m->step[j]);
    int from = at[j + 1] - m->lower[j], move = at[m->rank + j];
    if (from < 0 || from % m->step[j] || from / m->step[j] >= along ||
        move < 0 || move > most[m->rank])
      return false;
  }
  return true;
}

/* The map of a call, whose tensor is where memory is. */
static bool read_map(SimRun *r, SimThread *t, const AxCall *c, bool write,
                     Packed *m) {
  uint32_t site = (uint32_t)c->line;
  if ((uintptr_t)c->p[0] % 64)
    return sim_fail(r, t, site, "a tensor map at %p, no multiple of 64",
                    c->p[0]);
  memcpy(m, c->p[0], sizeof *m);
  if (m->magic != magic)
    return sim_fail(r, t, site, "what is no tensor map");
  if (c->n[3] && m->rank != c->n[3])
    return sim_fail(r, t, site, "a box of %llu axes of a tensor that has %u",
                    (unsigned long long)c->n[3], m->rank);
  if (c->n[3] && m->pixels != c->n[4])
    return sim_fail(r, t, site, "a tensor map of the other mode");
  if (c->n[3] && m->pixels && !good_pixel(m, c->p[1]))
    return sim_fail(r, t, site, "no pixel of the bounding box");
  uint64_t last = m->address + m->size[0] * m->element;
  for (uint32_t j = 1; j < m->rank; j++)
    last += (m->size[j] - 1) * m->stride[j - 1];
  return global_check(r, t, site, (void *)(uintptr_t)m->address,
                      last - m->address, write);
}

static bool read_box(SimRun *r, SimThread *t, const AxCall *c, bool write,
                     Packed *m, uint32_t *offset, uint32_t *bytes) {
  if (!read_map(r, t, c, write, m))
    return false;
  SwizzleInfo s = swizzle_info((uint32_t)swizzle_number(m->swizzle));
  uint32_t align = m->swizzle ? s.pattern : 128;
  *bytes = box_bytes(m);
  if (m->swizzle && m->box[0] * m->element != m->swizzle)
    return sim_fail(r, t, (uint32_t)c->line,
                    "a row of the box has %u bytes, its swizzle %u: where "
                    "they differ the simulator does not know the layout",
                    m->box[0] * m->element, m->swizzle);
  return shadow_offset(r, t, c->line, c->n[0], *bytes, align, offset);
}

static Pending *begin(SimRun *r, SimThread *t, int op, const AxCall *c,
                      uint32_t offset) {
  Pending *p = pending_new(r, t, op, c);
  void *map = arena_alloc(t->block->cluster->arena, sizeof(Packed));
  p->p[0] = memcpy(map, c->p[0], sizeof(Packed));
  p->n[0] = offset;
  memcpy(p->at, c->p[1], (c->n[3] + (c->n[4] ? c->n[3] - 2 : 0)) * sizeof(int));
  return p;
}

static void load(SimRun *r, SimThread *t, const AxCall *c) {
  SimCluster *k = t->block->cluster;
  uint64_t blocks = c->n[2] ? c->n[2] : 1ull << t->block->rank;
  uint32_t offset, bytes;
  Packed m;
  if (!read_box(r, t, c, false, &m, &offset, &bytes))
    return;
  if (blocks >> r->per_cluster) {
    sim_fail(r, t, (uint32_t)c->line, "blocks 0x%llx of a cluster of %u",
             (unsigned long long)blocks, r->per_cluster);
    return;
  }
  Mbarrier **bars = NEW_ARRAY(k->arena, Mbarrier *, r->per_cluster);
  for (uint32_t b = 0; b < r->per_cluster; b++) {
    SimBlock *block = &k->blocks[b];
    if (!(blocks >> b & 1))
      continue;
    if (!block->live) {
      sim_fail(r, t, (uint32_t)c->line, "loads into a block that has ended");
      return;
    }
    bars[b] = mbarrier_at(r, t, block, c->n[1], c->line);
    if (!bars[b] || !async_write(r, t, block, bars[b], offset, bytes, c->line))
      return;
  }
  Pending *p = begin(r, t, AX_TMA_LOAD, c, offset);
  p->bars = bars;
  p->finish = finish_load;
}

static void store(SimRun *r, SimThread *t, const AxCall *c) {
  uint32_t offset, bytes;
  Packed m;
  if (!read_box(r, t, c, true, &m, &offset, &bytes) ||
      !async_read(r, t, offset, bytes, c->line))
    return;
  Pending *p = begin(r, t, AX_TMA_STORE, c, offset);
  p->finish = finish_store;
  p->who = t->bulks;
  p->group = t->bulk_groups + 1;
}

void op_box(SimRun *r, SimThread *t, int op, AxCall *c) {
  Packed m;
  if (op == AX_TMA_LOAD)
    load(r, t, c);
  else if (op == AX_TMA_STORE)
    store(r, t, c);
  else
    read_map(r, t, c, false, &m);
}
