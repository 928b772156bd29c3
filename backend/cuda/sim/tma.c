/* TMA operations.  An encoded tensor map contains the arguments of the driver
 * function. */
#include "backend/cuda/sim/internal.h"
#include "backend/cuda/sim/layouts.h"
#include "support/arena.h"
#include "support/buffer.h"

#include <string.h>

static const uint64_t magic = 0x70616d6d69736178; /* "axsimmap" */

/* 128 bytes. */
typedef struct EncodedTensorMap {
  uint64_t magic, address;
  uint64_t stride[SIM_MAX_RANK - 1]; /* from axis 1 on */
  uint64_t extent[SIM_MAX_RANK];
  uint16_t box[SIM_MAX_RANK]; /* 256 is stored as 256 */
  uint8_t rank, element_bytes, swizzle, round_tf32;
  int16_t lower_corner[SIM_MAX_RANK - 2], upper_corner[SIM_MAX_RANK - 2];
  uint8_t traversal_stride[SIM_MAX_RANK - 2], im2col;
} EncodedTensorMap;

_Static_assert(sizeof(EncodedTensorMap) <= 128, "it fits");

/* The descriptor number of a swizzle with this span; -1: none. */
static int swizzle_number(uint32_t bytes) {
  for (uint32_t j = 0; j < 4; j++)
    if (swizzle_info(j).span_bytes == bytes)
      return (int)j;
  return -1;
}

/* The pixels of the bounding box along axis 1 + j. */
static int64_t pixels_along(int64_t size, int64_t lower, int64_t upper,
                            int64_t step) {
  return size + upper <= lower ? 0 : (size + upper - lower - 1) / step + 1;
}

static const char *check_im2col(const SimTensorMap *m) {
  static const int max[] = {0, 0, 0, 32768, 128, 16};
  if (m->rank < 3)
    return "pixels have a rank of 3 to 5";
  for (uint32_t j = 0; j + 2 < m->rank; j++) {
    if (m->lower_corner[j] < -max[m->rank] ||
        m->lower_corner[j] >= max[m->rank] ||
        m->upper_corner[j] < -max[m->rank] ||
        m->upper_corner[j] >= max[m->rank])
      return "a corner of the bounding box is too far away";
    if (!m->traversal_stride[j] || m->traversal_stride[j] > 8)
      return "a step is 1 to 8 pixels";
    if (pixels_along((int64_t)m->extent[j + 1], m->lower_corner[j],
                     m->upper_corner[j], m->traversal_stride[j]) < 1)
      return "a bounding box has no pixels";
  }
  return NULL;
}

/* Checks the requirements of "Tensor Map Object Management" in the driver
 * manual. */
bool sim_tensor_map_encode(void *out, const SimTensorMap *m, Buffer *error) {
  EncodedTensorMap p = {.magic = magic, .address = (uintptr_t)m->address};
  const char *wrong = NULL;
  if (!m->rank || m->rank > SIM_MAX_RANK)
    wrong = "the rank is 1 to 5";
  else if (p.address % 16)
    wrong = "the address is a multiple of 16";
  else if ((uintptr_t)out % 64)
    wrong = "the map lies at a multiple of 64";
  else if (m->element_bytes != 1 && m->element_bytes != 2 &&
           m->element_bytes != 4 && m->element_bytes != 8)
    wrong = "elements have 1, 2, 4 or 8 bytes";
  else if (swizzle_number(m->swizzle) < 0)
    wrong = "a swizzle is of 0, 32, 64 or 128 bytes";
  else if (m->box[0] * m->element_bytes % 16)
    wrong = "a row of the box is a multiple of 16 bytes";
  else if (m->swizzle && m->box[0] * m->element_bytes > m->swizzle)
    wrong = "a row of the box is at most as long as the swizzle";
  for (uint32_t j = 0; !wrong && j < m->rank; j++) {
    if (!m->box[j] || m->box[j] > 256)
      wrong = "a box has 1 to 256 elements along an axis";
    else if (!m->extent[j] || m->extent[j] > 1ull << 32)
      wrong = "an axis has 1 to 2^32 elements";
    else if (j && (m->stride[j] % 16 || m->stride[j] >= 1ull << 40))
      wrong = "a stride is a multiple of 16 below 2^40";
  }
  if (!wrong && m->im2col)
    wrong = check_im2col(m);
  if (wrong) {
    buffer_printf(error, "a tensor map: %s", wrong);
    return false;
  }
  p.rank = (uint8_t)m->rank;
  p.element_bytes = (uint8_t)m->element_bytes;
  p.swizzle = (uint8_t)m->swizzle;
  p.round_tf32 = m->round_tf32;
  for (uint32_t j = 0; j < m->rank; j++) {
    p.extent[j] = m->extent[j];
    p.box[j] = (uint16_t)m->box[j];
    if (j)
      p.stride[j - 1] = m->stride[j];
  }
  p.im2col = m->im2col;
  for (uint32_t j = 0; m->im2col && j + 2 < m->rank; j++) {
    p.lower_corner[j] = (int16_t)m->lower_corner[j];
    p.upper_corner[j] = (int16_t)m->upper_corner[j];
    p.traversal_stride[j] = (uint8_t)m->traversal_stride[j];
    p.box[j + 2] = 1;
  }
  memset(out, 0, 128);
  memcpy(out, &p, sizeof p);
  return true;
}

/* ---- boxes ---- */

static uint32_t box_bytes(const EncodedTensorMap *m) {
  uint32_t bytes = m->element_bytes;
  for (uint32_t j = 0; j < m->rank; j++)
    bytes *= m->box[j];
  return bytes;
}

/* The rows of a box; a row is along axis 0. */
static uint32_t box_rows(const EncodedTensorMap *m) {
  return box_bytes(m) / m->box[0] / m->element_bytes;
}

/* The coordinates of pixel `row` of a load.  Pixels are counted from the start
 * of the load, through the bounding boxes of the images. */
static void pixel_coord(const EncodedTensorMap *m, const int *at, uint32_t row,
                        int *to) {
  int64_t rest = row;
  uint32_t images = m->rank - 1u;
  to[0] = at[0];
  for (uint32_t j = 0; j + 2 < m->rank; j++) {
    int64_t along = pixels_along((int64_t)m->extent[j + 1], m->lower_corner[j],
                                 m->upper_corner[j], m->traversal_stride[j]);
    int64_t number =
        (at[j + 1] - m->lower_corner[j]) / m->traversal_stride[j] + rest;
    to[j + 1] =
        (int)(m->lower_corner[j] + number % along * m->traversal_stride[j] +
              at[m->rank + j]);
    rest = number / along;
  }
  to[images] = (int)(at[images] + rest);
}

/* The address of a row, and the range of its elements that are in bounds.
 * False if none are. */
static bool row_in_bounds(const EncodedTensorMap *m, const int *at,
                          uint32_t row, char **place, int64_t *from,
                          int64_t *to) {
  uint64_t address = m->address;
  int pixel[SIM_MAX_RANK];
  if (m->im2col) {
    pixel_coord(m, at, row, pixel);
    at = pixel;
    row = 0;
  }
  for (uint32_t j = 1; j < m->rank; j++) {
    int64_t index = at[j] + (m->im2col ? 0 : (int64_t)(row % m->box[j]));
    row /= m->box[j];
    if (index < 0 || (uint64_t)index >= m->extent[j])
      return false;
    address += (uint64_t)index * m->stride[j - 1];
  }
  int64_t size = (int64_t)m->extent[0];
  *from = at[0] < 0 ? -(int64_t)at[0] : 0;
  *to = size - at[0] < m->box[0] ? size - at[0] : m->box[0];
  *place = (char *)(uintptr_t)(address +
                               (uint64_t)((int64_t)at[0] * m->element_bytes));
  return *from < *to;
}

/* The address of an element in shared memory, after swizzling. */
static unsigned char *smem_element(const EncodedTensorMap *m, SimBlock *b,
                                   uint64_t offset, uint32_t row, int64_t j) {
  uint32_t dense =
      (uint32_t)((row * m->box[0] + (uint32_t)j) * m->element_bytes);
  uint32_t address = SIM_SHARED_BASE + (uint32_t)offset + dense;
  SwizzleInfo s = swizzle_info((uint32_t)swizzle_number(m->swizzle));
  return b->shared + swizzle_address(s, address) - SIM_SHARED_BASE;
}

/* Rounds to nearest even; infinities and NaNs stay.  The manuals do not specify
 * this; tests of Triton on GPUs do (pull request 11751). */
static void round_tf32(unsigned char *element) {
  uint32_t bits;
  memcpy(&bits, element, sizeof bits);
  if ((bits & 0x7f800000) != 0x7f800000)
    bits = (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000;
  memcpy(element, &bits, sizeof bits);
}

/* Copies the box to a block. */
static void put_box(const AsyncOp *p, const EncodedTensorMap *map,
                    SimBlock *block) {
  EncodedTensorMap m = *map;
  for (uint32_t row = 0; row < box_rows(&m); row++) {
    int64_t from = 0, to = 0;
    char *place = NULL;
    bool in = row_in_bounds(&m, p->coords, row, &place, &from, &to);
    for (int64_t j = 0; j < m.box[0]; j++) {
      unsigned char *e = smem_element(&m, block, p->n[0], row, j);
      if (!in || j < from || j >= to) {
        memset(e, 0, m.element_bytes);
        continue;
      }
      memcpy(e, place + j * m.element_bytes, m.element_bytes);
      if (m.round_tf32)
        round_tf32(e);
    }
  }
}

/* n[5]: the first block of a pair has the mbarrier. */
static bool finish_load(SimRun *r, const AsyncOp *p) {
  EncodedTensorMap m;
  memcpy(&m, p->p[0], sizeof m);
  for (uint32_t b = 0; b < r->cluster_blocks; b++) {
    Mbarrier *bar = p->mbarriers[b];
    SimBlock *block = &p->block->cluster->blocks[b];
    if (!bar)
      continue;
    put_box(p, &m, block);
    bar->pending_loads--;
    if (p->n[5])
      block = &p->block->cluster->blocks[b & ~1u];
    if (!mbarrier_complete_bytes(r, bar, block, box_bytes(&m)))
      return false;
  }
  return true;
}

static bool finish_store(SimRun *r, const AsyncOp *p) {
  EncodedTensorMap m;
  (void)r;
  memcpy(&m, p->p[0], sizeof m);
  for (uint32_t row = 0; row < box_rows(&m); row++) {
    int64_t from, to;
    char *place;
    if (!row_in_bounds(&m, p->coords, row, &place, &from, &to))
      continue;
    for (int64_t j = from; j < to; j++)
      memcpy(place + j * m.element_bytes,
             smem_element(&m, p->block, p->n[0], row, j), m.element_bytes);
  }
  return true;
}

/* ---- issue ---- */

/* True if the load starts in the bounding box and the offsets are valid. */
static bool check_pixel_coord(const EncodedTensorMap *m, const int *at) {
  static const int max[] = {0, 0, 0, 65535, 255, 31};
  for (uint32_t j = 0; j + 2 < m->rank; j++) {
    int64_t along = pixels_along((int64_t)m->extent[j + 1], m->lower_corner[j],
                                 m->upper_corner[j], m->traversal_stride[j]);
    int from = at[j + 1] - m->lower_corner[j], move = at[m->rank + j];
    if (from < 0 || from % m->traversal_stride[j] ||
        from / m->traversal_stride[j] >= along || move < 0 ||
        move > max[m->rank])
      return false;
  }
  return true;
}

/* Reads the tensor map of a call.  The tensor of a load or store must be in
 * global memory; a prefetch, without axes, reads the map alone. */
static bool read_map(SimRun *r, SimThread *t, const AxCall *c, bool write,
                     EncodedTensorMap *m) {
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
  if (c->n[3] && m->im2col != c->n[4])
    return sim_fail(r, t, site, "a tensor map of the other mode");
  if (c->n[3] && m->im2col && !check_pixel_coord(m, c->p[1]))
    return sim_fail(r, t, site, "no pixel of the bounding box");
  uint64_t last = m->address + m->extent[0] * m->element_bytes;
  for (uint32_t j = 1; j < m->rank; j++)
    last += (m->extent[j] - 1) * m->stride[j - 1];
  return !c->n[3] || global_check(r, t, site, (void *)(uintptr_t)m->address,
                                  last - m->address, write);
}

static bool read_box(SimRun *r, SimThread *t, const AxCall *c, bool write,
                     EncodedTensorMap *m, uint32_t *offset, uint32_t *bytes) {
  if (!read_map(r, t, c, write, m))
    return false;
  SwizzleInfo s = swizzle_info((uint32_t)swizzle_number(m->swizzle));
  uint32_t align = m->swizzle ? s.period_bytes : 128;
  *bytes = box_bytes(m);
  if (m->swizzle && m->box[0] * m->element_bytes != m->swizzle)
    return sim_fail(r, t, (uint32_t)c->line,
                    "a row of the box has %u bytes, its swizzle %u: where "
                    "they differ the simulator does not know the layout",
                    m->box[0] * m->element_bytes, m->swizzle);
  return shared_offset_of(r, t, c->line, c->n[0], *bytes, align, offset);
}

static AsyncOp *begin_op(SimRun *r, SimThread *t, int op, const AxCall *c,
                         uint32_t offset) {
  AsyncOp *p = async_op_new(r, t, op, c);
  void *map = arena_alloc(t->block->cluster->arena, sizeof(EncodedTensorMap));
  p->p[0] = memcpy(map, c->p[0], sizeof(EncodedTensorMap));
  p->n[0] = offset;
  memcpy(p->coords, c->p[1],
         (c->n[3] + (c->n[4] ? c->n[3] - 2 : 0)) * sizeof(int));
  return p;
}

static void tma_load(SimRun *r, SimThread *t, const AxCall *c) {
  SimCluster *k = t->block->cluster;
  uint64_t blocks = c->n[2] ? c->n[2] : 1ull << t->block->rank;
  uint32_t offset, bytes;
  EncodedTensorMap m;
  if (!read_box(r, t, c, false, &m, &offset, &bytes))
    return;
  if (blocks >> r->cluster_blocks) {
    sim_fail(r, t, (uint32_t)c->line, "blocks 0x%llx of a cluster of %u",
             (unsigned long long)blocks, r->cluster_blocks);
    return;
  }
  Mbarrier **bars = NEW_ARRAY(k->arena, Mbarrier *, r->cluster_blocks);
  for (uint32_t b = 0; b < r->cluster_blocks; b++) {
    SimBlock *block = &k->blocks[b];
    if (!(blocks >> b & 1))
      continue;
    if (!block->live_threads) {
      sim_fail(r, t, (uint32_t)c->line, "loads into a block that has ended");
      return;
    }
    SimBlock *with_bar = c->n[5] ? &k->blocks[b & ~1u] : block;
    if (!with_bar->live_threads) {
      sim_fail(r, t, (uint32_t)c->line,
               "loads for an mbarrier of a block that has ended");
      return;
    }
    bars[b] = mbarrier_at(r, t, with_bar, c->n[1], c->line);
    if (!bars[b] || !async_write(r, t, block, bars[b], offset, bytes, c->line))
      return;
  }
  AsyncOp *p = begin_op(r, t, AX_TMA_LOAD, c, offset);
  p->mbarriers = bars;
  p->finish = finish_load;
}

static void tma_store(SimRun *r, SimThread *t, const AxCall *c) {
  uint32_t offset, bytes;
  EncodedTensorMap m;
  if (!read_box(r, t, c, true, &m, &offset, &bytes) ||
      !async_read(r, t, offset, bytes, c->line))
    return;
  AsyncOp *p = begin_op(r, t, AX_TMA_STORE, c, offset);
  p->finish = finish_store;
  async_op_set_group(p, t->bulk_agent, t->bulk_groups + 1);
}

void op_tma(SimRun *r, SimThread *t, int op, AxCall *c) {
  EncodedTensorMap m;
  if (op == AX_TMA_LOAD)
    tma_load(r, t, c);
  else if (op == AX_TMA_STORE)
    tma_store(r, t, c);
  else
    read_map(r, t, c, false, &m);
}
