/* tcgen05: tensor memory and products into it.
 *
 * Tensor memory has 128 lanes and 512 columns of 32 bits.  A block allocates
 * columns.  Warp w accesses lanes 32 * (w % 4) to 32 * (w % 4) + 31.
 *
 * The products of a thread are executed in order, and copies of scales before
 * the products that follow them.  The PTX manual (9.7.16.6.2) guarantees the
 * order of products only if they have the same accumulator and shape; that of
 * others is an assumption.  A copy must not overwrite scales of a product that
 * may not be complete.  A commit arrives at an mbarrier when the products
 * before it are complete.
 *
 * With pairs, the blocks of a cluster whose ranks differ in the last bit work
 * together.  Both allocate the same columns.  The first one issues products, of
 * which each block has half of the rows, and half of the columns of B.
 *
 * A thread has a second clock for its tcgen05 instructions: what they see of
 * other threads.  ax_tcgen05_fence_after copies the clock of the thread to it.
 * Loads and stores that are complete become visible to other threads by
 * ax_tcgen05_fence_before. */
#include "backend/cuda/sim/internal.h"
#include "runtime/runtime.h"
#include "support/arena.h"

#include <math.h>
#include <string.h>

enum {
  LANES = 128,
  COLUMNS = 512,
  WARP_LANES = 32, /* that a warp can access */
  PART_LANES = 16, /* that have one state */
  PARTS = LANES / PART_LANES,
  SLICE = 32, /* columns that are allocated together */
  SLICES = COLUMNS / SLICE,
};

/* The last write to 16 lanes of a column, and the reads since then, one of each
 * agent. */
typedef struct TmemCell {
  Epoch write, reads[SIM_MAX_READERS];
  uint32_t write_site, read_sites[SIM_MAX_READERS];
} TmemCell;

/* The allocation of a slice; columns 0: it is free.  other_calls: the other
 * block of the pair must allocate it, too. */
typedef struct TmemSlice {
  uint32_t first, columns;
  Epoch epoch;
  int line;
  bool other_calls;
} TmemSlice;

struct TensorMemory {
  float value[LANES][COLUMNS];
  TmemCell cells[PARTS][COLUMNS];
  TmemSlice slices[SLICES];
  bool permit_given;
};

/* ---- clocks ---- */

/* A thread sees its own effects without a fence. */
static VectorClock *tcgen05_clock(SimThread *t) {
  const SimCluster *k = t->block->cluster;
  const Warp *warp = &t->block->warps[t->self.lane.y];
  if (!t->tcgen05_clock)
    t->tcgen05_clock = clock_new(t->block->cluster);
  VectorClock *clock = t->tcgen05_clock;
  clock[t->agent] = t->clock[t->agent];
  clock[k->max_agents + t->agent] = t->clock[k->max_agents + t->agent];
  for (int store = 0; store < 2; store++) {
    uint32_t agent = warp->tmem_agents[store];
    if (agent && clock[agent] < t->tmem_waited[store])
      clock[agent] = t->tmem_waited[store];
  }
  return clock;
}

/* What all lanes of the warp see. */
static const VectorClock *warp_tcgen05_clock(SimThread *first) {
  SimCluster *k = first->block->cluster;
  memcpy(k->scratch, tcgen05_clock(first),
         (size_t)k->max_agents * 2 * sizeof(VectorClock));
  for (uint32_t j = 1; j < SIM_WARP_LANES; j++)
    clock_meet(k, k->scratch, tcgen05_clock(&first[j]));
  return k->scratch;
}

static void fence(SimThread *t, bool after) {
  const SimCluster *k = t->block->cluster;
  const Warp *warp = &t->block->warps[t->self.lane.y];
  if (after)
    memcpy(tcgen05_clock(t), t->clock,
           (size_t)k->max_agents * 2 * sizeof(VectorClock));
  for (int store = 0; store < 2 && !after; store++)
    if (warp->tmem_agents[store])
      t->clock[warp->tmem_agents[store]] = t->tmem_waited[store];
}

/* ---- accesses to tensor memory ---- */

typedef struct TmemAccess {
  SimThread *thread;
  SimBlock *block; /* whose tensor memory it is */
  const VectorClock *clock;
  Epoch epoch;
  bool write, is_product, needs_value;
  const char *verb;
  int line;
} TmemAccess;

static bool fail_order(SimRun *r, const TmemAccess *a, uint32_t lane,
                       uint32_t column, Epoch before, uint32_t site,
                       bool wrote) {
  char who[2 * SIM_TEXT_BYTES];
  agent_describe(r, a->thread, before, site, who, sizeof who);
  return sim_fail(r, a->thread, (uint32_t)a->line,
                  "%s tensor memory, lane %u, column %u, which %s %s: nothing "
                  "orders the one after the other, or ax_tcgen05_fence_before "
                  "or _after is missing between them",
                  a->verb, lane, column, who, wrote ? "writes" : "reads");
}

static bool check_allocated(SimRun *r, const TmemAccess *a, uint32_t column) {
  const TensorMemory *m = a->block->tensor_memory;
  const TmemSlice *s = m ? &m->slices[column / SLICE] : NULL;
  if (!s || !s->columns)
    return sim_fail(r, a->thread, (uint32_t)a->line,
                    "%s tensor memory, column %u, which is not allocated",
                    a->verb, column);
  if (a->block == a->thread->block && !clock_sees(a->clock, s->epoch))
    return sim_fail(r, a->thread, (uint32_t)a->line,
                    "%s tensor memory, column %u, and nothing orders that "
                    "after its allocation at line %d",
                    a->verb, column, s->line);
  return true;
}

/* All reads must be ordered before a write.  A product is assumed to follow the
 * earlier products of its thread, but copies may overtake them. */
static bool check_reads(SimRun *r, const TmemAccess *a, uint32_t lane,
                        uint32_t column, const TmemCell *c) {
  for (uint32_t j = 0; j < SIM_MAX_READERS; j++)
    if (c->reads[j] &&
        !(a->is_product && c->reads[j] >> 32 == a->epoch >> 32) &&
        !clock_sees(a->clock, c->reads[j]))
      return fail_order(r, a, lane, column, c->reads[j], c->read_sites[j],
                        false);
  return true;
}

/* Replaces the read of the same agent, one that the thread sees, or the first
 * one. */
static void record_read(TmemCell *c, const TmemAccess *a) {
  uint32_t slot = 0;
  for (uint32_t j = SIM_MAX_READERS; j-- > 0;)
    if (!c->reads[j] || clock_sees(a->clock, c->reads[j]))
      slot = j;
  for (uint32_t j = 0; j < SIM_MAX_READERS; j++)
    if (c->reads[j] >> 32 == a->epoch >> 32)
      slot = j;
  c->reads[slot] = a->epoch;
  c->read_sites[slot] = (uint32_t)a->line;
}

static bool check_cell(SimRun *r, const TmemAccess *a, uint32_t part,
                       uint32_t column) {
  TmemCell *c = &a->block->tensor_memory->cells[part][column];
  bool same_agent = (c->write ^ a->epoch) >> 32 == 0;
  if (a->needs_value && !c->write)
    return sim_fail(r, a->thread, (uint32_t)a->line,
                    "%s tensor memory, lane %u, column %u, which nothing wrote",
                    a->verb, part * PART_LANES, column);
  if (c->write && !same_agent && !clock_sees(a->clock, c->write))
    return fail_order(r, a, part * PART_LANES, column, c->write, c->write_site,
                      true);
  if (!a->write)
    record_read(c, a);
  else if (check_reads(r, a, part * PART_LANES, column, c))
    *c = (TmemCell){.write = a->epoch, .write_site = (uint32_t)a->line};
  else
    return false;
  return true;
}

static bool check_columns(SimRun *r, const TmemAccess *a, uint32_t address,
                          uint32_t columns) {
  uint32_t column = address & 0xffff;
  if (column + columns > COLUMNS)
    return sim_fail(r, a->thread, (uint32_t)a->line,
                    "%s tensor memory, columns %u to %u, of which there are "
                    "512",
                    a->verb, column, column + columns - 1);
  for (uint32_t j = column; j < column + columns; j++)
    if (!check_allocated(r, a, j))
      return false;
  return true;
}

/* ---- allocation ---- */

static bool is_free(const TensorMemory *m, uint32_t first, uint32_t count) {
  for (uint32_t j = first; j < first + count; j++)
    if (m->slices[j].columns)
      return false;
  return true;
}

/* A random place, so that no kernel relies on one. */
static bool find_place(SimRun *r, const TensorMemory *m, uint32_t count,
                       uint32_t *place) {
  uint32_t places[SLICES], found = 0;
  for (uint32_t j = 0; j + count <= SLICES; j++)
    if (is_free(m, j, count))
      places[found++] = j;
  if (found)
    *place = places[sim_random(r, found)];
  return found;
}

static TensorMemory *tensor_memory_of(SimBlock *b) {
  if (!b->tensor_memory)
    b->tensor_memory = NEW(b->cluster->arena, TensorMemory);
  return b->tensor_memory;
}

/* The other block of a pair. */
static SimBlock *partner(const SimRun *r, const SimBlock *b) {
  uint32_t rank = b->rank ^ 1;
  return rank < r->cluster_blocks ? &b->cluster->blocks[rank] : NULL;
}

/* All instructions of a kernel are for one block, or for a pair. */
static bool check_group(SimRun *r, SimThread *t, const AxCall *c, bool pair) {
  SimCluster *k = t->block->cluster;
  uint32_t group = pair ? 2 : 1;
  if (pair && !partner(r, t->block))
    return sim_fail(r, t, (uint32_t)c->line,
                    "an instruction for a pair of blocks, and there is no "
                    "second block in the cluster");
  if (k->tcgen05_group && k->tcgen05_group != group)
    return sim_fail(r, t, (uint32_t)c->line,
                    "an instruction for %u blocks, and another one was for %u",
                    group, k->tcgen05_group);
  k->tcgen05_group = group;
  return true;
}

static void set_slices(TensorMemory *m, uint32_t place, TmemSlice s) {
  for (uint32_t j = place; j < place + s.columns / SLICE; j++)
    m->slices[j] = s;
}

/* The first block of a pair that calls allocates for both; the call of the
 * other one gives it the same place.  (On a GPU the first one waits.) */
static bool pair_place(SimRun *r, SimThread *first, const AxCall *c,
                       uint32_t *place) {
  uint32_t columns = (uint32_t)c->n[1];
  TensorMemory *own = tensor_memory_of(first->block),
               *other = tensor_memory_of(partner(r, first->block));
  for (uint32_t j = 0; j < SLICES; j++)
    if (own->slices[j].other_calls) {
      *place = j;
      return own->slices[j].columns == columns ||
             sim_fail(r, first, (uint32_t)c->line,
                      "allocates %u columns, and the other block of the pair "
                      "%u",
                      columns, own->slices[j].columns);
    }
  if (!find_place(r, own, columns / SLICE, place) ||
      !is_free(other, *place, columns / SLICE))
    return sim_fail(r, first, (uint32_t)c->line,
                    "%u columns of tensor memory, which are not free in both "
                    "blocks",
                    columns);
  set_slices(other, *place,
             (TmemSlice){.first = *place * SLICE,
                         .columns = columns,
                         .line = (int)c->line,
                         .other_calls = true});
  return true;
}

static bool alloc(SimRun *r, SimThread *first, const AxCall *c) {
  SimBlock *b = first->block;
  uint32_t columns = (uint32_t)c->n[1], offset, place = 0;
  TensorMemory *m = tensor_memory_of(b);
  bool pair = c->n[2];
  if (!check_group(r, first, c, pair))
    return false;
  if (m->permit_given)
    return sim_fail(r, first, (uint32_t)c->line,
                    "ax_tmem_alloc after ax_tmem_permit");
  if (columns < SLICE || columns > COLUMNS || (columns & (columns - 1)))
    return sim_fail(r, first, (uint32_t)c->line,
                    "%u columns of tensor memory: a power of two from 32 to "
                    "512",
                    columns);
  if (pair && !pair_place(r, first, c, &place))
    return false;
  if (!pair && !find_place(r, m, columns / SLICE, &place))
    return sim_fail(r, first, (uint32_t)c->line,
                    "%u columns of tensor memory, which are not free", columns);
  if (!shared_offset_of(r, first, c->line, c->n[0], 4, 4, &offset) ||
      !shadow_check_plain(r, first, b, offset, 4, true, 0, (uint32_t)c->line))
    return false;
  uint32_t address = place * SLICE;
  memcpy(b->shared + offset, &address, sizeof address);
  set_slices(m, place,
             (TmemSlice){.first = address,
                         .columns = columns,
                         .epoch = clock_epoch(first),
                         .line = (int)c->line});
  return true;
}

/* Accesses to the columns must be complete and visible. */
static bool free_columns(SimRun *r, SimThread *first, const AxCall *c) {
  TensorMemory *m = first->block->tensor_memory;
  uint32_t address = (uint32_t)c->n[0], columns = (uint32_t)c->n[1];
  if (!check_group(r, first, c, c->n[2]))
    return false;
  TmemAccess access = {.thread = first,
                       .block = first->block,
                       .clock = warp_tcgen05_clock(first),
                       .epoch = clock_epoch(first),
                       .write = true,
                       .verb = "frees",
                       .line = c->line};
  const TmemSlice *s =
      m && address < COLUMNS ? &m->slices[address / SLICE] : NULL;
  if (!s || !s->columns || s->first != address || s->columns != columns)
    return sim_fail(r, first, (uint32_t)c->line,
                    "frees %u columns of tensor memory at 0x%x, which were not "
                    "allocated so",
                    columns, address);
  if (!check_columns(r, &access, address, columns))
    return false;
  for (uint32_t part = 0; part < PARTS; part++)
    for (uint32_t j = address; j < address + columns; j++) {
      if (!check_cell(r, &access, part, j))
        return false;
      m->cells[part][j] = (TmemCell){0};
    }
  memset(&m->slices[address / SLICE], 0, columns / SLICE * sizeof *m->slices);
  return true;
}

void tensor_memory_check_end(SimRun *r, const SimBlock *b) {
  const TensorMemory *m = b->tensor_memory;
  for (uint32_t j = 0; m && j < SLICES; j++)
    if (m->slices[j].columns)
      sim_fail(r, b->threads, (uint32_t)m->slices[j].line,
               "allocates tensor memory that the block does not free");
}

/* ---- loads and stores ---- */

/* The registers are NaN until the wait. */
static bool fill_later(SimRun *r, SimThread *t, const AxCall *c) {
  const char *at = c->p[0];
  uint32_t bytes = (uint32_t)c->n[1] / 2 * 4;
  for (uint32_t j = 0; j < t->async_registers.len; j++) {
    AsyncRegisters *h = &t->async_registers.at[j];
    if (at + bytes <= h->address || h->address + h->bytes <= at)
      continue;
    if (h->in_flight)
      return sim_fail(r, t, (uint32_t)c->line,
                      "registers that the load begun at line %d fills",
                      h->line);
    *h = t->async_registers.at[--t->async_registers.len];
    j--;
  }
  AsyncRegisters h = {.address = at,
                      .bytes = bytes,
                      .written = true,
                      .in_flight = true,
                      .is_load = true,
                      .tmem_address = (uint32_t)c->n[0],
                      .line = c->line};
  VEC_PUSH(t->block->cluster->arena, t->async_registers, h);
  for (uint32_t j = 0; j < bytes / 4; j++)
    ((float *)(uintptr_t)at)[j] = NAN;
  return true;
}

/* The accesses of a warp to 16 lanes.  False: they are an error. */
static bool check_lanes(SimRun *r, SimThread *first, const AxCall *c,
                        bool store) {
  SimBlock *b = first->block;
  Warp *warp = &b->warps[first->self.lane.y];
  uint32_t address = (uint32_t)c->n[0], columns = (uint32_t)c->n[1];
  uint32_t lane = address >> 16;
  uint32_t lowest = first->self.lane.y % 4 * WARP_LANES;
  const char *verb = store ? "stores to" : "loads";
  if (lane != lowest && lane != lowest + PART_LANES)
    return sim_fail(r, first, (uint32_t)c->line,
                    "warp %u %s lanes from %u on: it can %s those from "
                    "%u and %u on",
                    first->self.lane.y, verb, lane, store ? "store to" : "load",
                    lowest, lowest + PART_LANES);
  if (!warp->tmem_agents[store])
    warp->tmem_agents[store] =
        agent_new(b->cluster, store ? AGENT_TMEM_STORE : AGENT_TMEM_LOAD,
                  b->rank, first->self.lane.y);
  TmemAccess access = {.thread = first,
                       .block = first->block,
                       .clock = warp_tcgen05_clock(first),
                       .epoch = (Epoch)warp->tmem_agents[store] << 32 |
                                ++warp->tmem_accesses[store],
                       .write = store,
                       .needs_value = !store,
                       .verb = verb,
                       .line = c->line};
  if (!check_columns(r, &access, address, columns))
    return false;
  for (uint32_t j = 0; j < columns; j++)
    if (!check_cell(r, &access, lane / PART_LANES, (address & 0xffff) + j))
      return false;
  return true;
}

static bool load(SimRun *r, SimThread *first, const AxCall *c) {
  if (!check_lanes(r, first, c, false))
    return false;
  for (uint32_t j = 0; j < SIM_WARP_LANES; j++)
    if (!fill_later(r, &first[j], first[j].call))
      return false;
  return true;
}

/* The place of register i of a lane. */
static float *tmem_place(TensorMemory *m, uint64_t address, Fragment f,
                         int lane, uint32_t i) {
  FragmentCoord p = fragment_coord(f, lane, (int)i);
  return &m->value[(address >> 16) + (uint32_t)p.row]
                  [(address & 0xffff) + (uint32_t)p.column];
}

/* Tensor memory is read at the wait, the latest time. */
static void wait_loads(SimThread *first) {
  TensorMemory *m = first->block->tensor_memory;
  for (int lane = 0; lane < SIM_WARP_LANES; lane++) {
    SimThread *t = &first[lane];
    for (uint32_t j = 0; j < t->async_registers.len; j++) {
      AsyncRegisters *h = &t->async_registers.at[j];
      if (!h->is_load || !h->in_flight)
        continue;
      for (uint32_t i = 0; i < h->bytes / 4; i++)
        memcpy((char *)(uintptr_t)h->address + 4 * i,
               tmem_place(m, h->tmem_address, FRAGMENT_TMEM_16X256B, lane, i),
               4);
      h->in_flight = false;
      h->needs_hold = true;
    }
  }
}

/* Tensor memory is written at once, but nothing may use it before the wait. */
static bool store(SimRun *r, SimThread *first, const AxCall *c) {
  Fragment f = c->n[2] ? FRAGMENT_TMEM_16X128B : FRAGMENT_TMEM_16X256B;
  uint32_t registers = (uint32_t)c->n[1] / 2;
  if (!check_lanes(r, first, c, true))
    return false;
  for (int lane = 0; lane < SIM_WARP_LANES; lane++) {
    const char *from = first[lane].call->p[0];
    if (!async_registers_check(r, &first[lane], from, registers * 4, false,
                               (uint32_t)c->line))
      return false;
    for (uint32_t i = 0; i < registers; i++)
      memcpy(tmem_place(first->block->tensor_memory, c->n[0], f, lane, i),
             from + 4 * i, 4);
  }
  return true;
}

static void wait_accesses(SimThread *first, bool store) {
  const Warp *warp = &first->block->warps[first->self.lane.y];
  for (int lane = 0; lane < SIM_WARP_LANES; lane++)
    first[lane].tmem_waited[store] = warp->tmem_accesses[store];
  if (!store)
    wait_loads(first);
}

/* True: the warp continues. */
bool op_tensor_memory(SimRun *r, SimThread *first, int op, const AxCall *c) {
  switch (op) {
  case AX_TMEM_ALLOC:
    return alloc(r, first, c);
  case AX_TMEM_PERMIT:
    if (!check_group(r, first, c, c->n[0]))
      return false;
    tensor_memory_of(first->block)->permit_given = true;
    return true;
  case AX_TMEM_FREE:
    return free_columns(r, first, c);
  case AX_TMEM_LOAD:
    return load(r, first, c);
  case AX_TMEM_STORE:
    return store(r, first, c);
  case AX_TMEM_WAIT:
    wait_accesses(first, c->n[0]);
    return true;
  }
  return true;
}

/* ---- products ---- */

/* blocks: 1, or 2 for a pair.  m, n: rows and columns of the product. */
typedef struct Tcgen05Mma {
  AxType a, b;
  uint32_t m, n, k, element_bytes, blocks;
  bool a_mn_major, b_mn_major;
  /* Scales of a row, and the byte of the first one; 0: no scales.  An element
   * of an operand is then a byte, with two terms. */
  uint32_t scales, scale_a_byte, scale_b_byte;
  bool a_in_tmem;
} Tcgen05Mma;

static bool operand_type(AxKind kind, uint32_t number, AxType *type) {
  static const struct {
    AxKind kind;
    uint32_t number;
    AxType type;
  } types[] = {{AX_KIND_F16, 0, AX_F16},
               {AX_KIND_F16, 1, AX_BF16},
               {AX_KIND_TF32, 2, AX_TF32},
               {AX_KIND_F8, 0, AX_E4M3},
               {AX_KIND_F8, 1, AX_E5M2}};
  for (size_t j = 0; j < sizeof types / sizeof *types; j++)
    if (types[j].kind == kind && types[j].number == number) {
      *type = types[j].type;
      return true;
    }
  return false;
}

static uint32_t bits_of(uint32_t x, uint32_t from, uint32_t count) {
  return x >> from & ((1u << count) - 1);
}

enum {
  SCALED_M = 128,      /* rows of a product with scales of one block */
  SCALED_K = 64,       /* terms */
  SCALE_ROWS = 32,     /* of a column of scales */
  SCALE_ROW_BYTES = 16 /* copied to a lane */
};

/* The same for .kind::mxf4 and .kind::mxf4nvf4. */
static bool read_scaled_instruction(SimRun *r, const SimThread *t,
                                    const AxCall *c, Tcgen05Mma *to) {
  uint32_t x = (uint32_t)c->n[4];
  bool mx = c->n[0] == AX_KIND_MXF4;
  *to = (Tcgen05Mma){.a = AX_BYTE,
                     .b = AX_BYTE,
                     .m = bits_of(x, 27, 2) << 7,
                     .n = bits_of(x, 17, 6) << 3,
                     .k = SCALED_K / 2,
                     .element_bytes = 1,
                     .blocks = 1,
                     .scales = mx ? 2 : 4,
                     .scale_a_byte = bits_of(x, 29, 2),
                     .scale_b_byte = bits_of(x, 4, 2)};
  /* sparsity, negation, transposed operands, K, and reserved bits */
  bool others = bits_of(x, 0, 4) || bits_of(x, 6, 1) || bits_of(x, 12, 5) ||
                bits_of(x, 24, 3) || bits_of(x, 31, 1);
  if (others || bits_of(x, 7, 3) != 1 || bits_of(x, 10, 2) != 1)
    return sim_fail(r, t, (uint32_t)c->line,
                    "an instruction descriptor 0x%x with other bits than two "
                    "E2M1 types, scales and sizes",
                    x);
  if (bits_of(x, 23, 1) != mx)
    return sim_fail(r, t, (uint32_t)c->line,
                    "an instruction descriptor 0x%x with scales of another "
                    "type",
                    x);
  if (to->scale_a_byte % to->scales || to->scale_b_byte % to->scales)
    return sim_fail(r, t, (uint32_t)c->line,
                    "scales from byte %u and byte %u on: the first one is a "
                    "multiple of %u",
                    to->scale_a_byte, to->scale_b_byte, to->scales);
  return (to->m == SCALED_M && to->n && to->n <= 256) ||
         sim_fail(r, t, (uint32_t)c->line,
                  "a product of %u rows and %u columns", to->m, to->n);
}

/* 9.7.16, "Instruction descriptor" for .kind::tf32, .kind::f16 and
 * .kind::f8f6f4. */
static bool read_instruction(SimRun *r, const SimThread *t, const AxCall *c,
                             Tcgen05Mma *to) {
  if (c->n[0] == AX_KIND_MXF4 || c->n[0] == AX_KIND_NVF4)
    return read_scaled_instruction(r, t, c, to);
  uint32_t x = (uint32_t)c->n[4];
  AxKind kind = (AxKind)c->n[0];
  *to = (Tcgen05Mma){.m = bits_of(x, 24, 5) << 4,
                     .n = bits_of(x, 17, 6) << 3,
                     .blocks = c->n[6] ? 2 : 1,
                     .a_mn_major = bits_of(x, 15, 1),
                     .b_mn_major = bits_of(x, 16, 1),
                     .a_in_tmem = c->n[7]};
  /* sparsity, saturation, negation, shifts, and reserved bits */
  bool others = bits_of(x, 0, 4) || bits_of(x, 6, 1) || bits_of(x, 13, 2) ||
                bits_of(x, 23, 1) || bits_of(x, 29, 3);
  if (others || bits_of(x, 4, 2) != 1)
    return sim_fail(r, t, (uint32_t)c->line,
                    "an instruction descriptor 0x%x with other bits than f32 "
                    "sums, types, storage and sizes",
                    x);
  if (!operand_type(kind, bits_of(x, 7, 3), &to->a) ||
      !operand_type(kind, bits_of(x, 10, 3), &to->b) ||
      (kind != AX_KIND_F8 && to->a != to->b))
    return sim_fail(r, t, (uint32_t)c->line,
                    "an instruction descriptor 0x%x with other types", x);
  bool rows = to->blocks == 2 ? to->m == 2 * LANES
                              : to->m == LANES / 2 || to->m == LANES;
  if (!rows || !to->n || to->n > 256 || to->n % (to->m / 8))
    return sim_fail(r, t, (uint32_t)c->line,
                    "a product of %u rows and %u columns", to->m, to->n);
  if (to->a == AX_TF32 && (to->a_mn_major || to->b_mn_major))
    return sim_fail(r, t, (uint32_t)c->line,
                    "the simulator has no transposed tf32");
  if (to->a_in_tmem && (to->a_mn_major || to->m != LANES))
    return sim_fail(r, t, (uint32_t)c->line,
                    "the simulator has A in tensor memory only for products "
                    "of 128 rows, not transposed");
  to->element_bytes = ax_type_bytes(to->a);
  to->k = 32 / to->element_bytes;
  return true;
}

/* 9.7.16, "Shared memory descriptor". */
static bool read_descriptor(SimRun *r, const SimThread *t, const AxCall *c,
                            uint64_t bits, bool mn_major, uint32_t element,
                            MmaOperand *o) {
  static const uint8_t swizzles[] = {0, 4, 1, 4, 2, 4, 3, 4};
  uint32_t swizzle = swizzles[bits >> 61];
  uint64_t used =
      0x3fff | 0x3fffull << 16 | 0x3fffull << 32 | 1ull << 46 | 7ull << 61;
  if ((bits & ~used) || !(bits >> 46 & 1) || swizzle > 3)
    return sim_fail(r, t, (uint32_t)c->line,
                    "a descriptor 0x%llx with other bits than address, "
                    "offsets, version 1 and swizzle",
                    (unsigned long long)bits);
  o->start = (uint32_t)(bits & 0x3fff) << 4;
  o->layout =
      (SmemOperand){.swizzle = swizzle_info(swizzle),
                    .mn_major = mn_major,
                    .element_bytes = element,
                    .leading_bytes = (uint32_t)(bits >> 16 & 0x3fff) << 4,
                    .stride_bytes = (uint32_t)(bits >> 32 & 0x3fff) << 4};
  return true;
}

/* The lane of a row of a block's result. */
static uint32_t result_lane(const Tcgen05Mma *s, uint32_t row) {
  return s->m == LANES / 2 ? row / 16 * WARP_LANES + row % 16 : row;
}

/* A block of the pair, the first one first. */
static SimBlock *block_of_pair(const SimRun *r, SimBlock *b, uint32_t which) {
  return which ? partner(r, b) : b;
}

/* Reads A in tensor memory: a column has two neighbouring elements. */
static void read_tmem_operand(const TensorMemory *m, const Tcgen05Mma *s,
                              uint32_t address, float *a) {
  for (uint32_t i = 0; i < s->m; i++)
    for (uint32_t k = 0; k < s->k; k++) {
      uint16_t bits;
      memcpy(&bits, (const char *)&m->value[i][address] + 2 * k, sizeof bits);
      a[i * s->k + k] = ax_bits_to_float(s->a, bits);
    }
}

/* Checks that A in tensor memory may be read. */
static bool check_tmem_operand(SimRun *r, const TmemAccess *like,
                               const Tcgen05Mma *s, uint64_t address) {
  TmemAccess access = *like;
  access.write = false;
  access.needs_value = true;
  access.verb = "reads";
  if (address >> 16)
    return sim_fail(r, like->thread, (uint32_t)like->line,
                    "operand A in lanes from %u on", (unsigned)(address >> 16));
  if (!check_columns(r, &access, (uint32_t)address, s->k / 2))
    return false;
  for (uint32_t part = 0; part < PARTS; part++)
    for (uint32_t j = 0; j < s->k / 2; j++)
      if (!check_cell(r, &access, part, (uint32_t)address + j))
        return false;
  return true;
}

/* Reads the operands in shared memory, or only checks that they may be read.
 * Each block of a pair has a half of them. */
static bool read_operands(SimRun *r, SimThread *t, const AxCall *c,
                          const Tcgen05Mma *s, float *a, float *b,
                          const ShadowAccess *access) {
  uint32_t rows = s->m / s->blocks, columns = s->n / s->blocks;
  MmaOperand o, p;
  if ((!s->a_in_tmem && !read_descriptor(r, t, c, c->n[2], s->a_mn_major,
                                         s->element_bytes, &o)) ||
      !read_descriptor(r, t, c, c->n[3], s->b_mn_major, s->element_bytes, &p))
    return false;
  for (uint32_t j = 0; j < s->blocks; j++) {
    ShadowAccess here = *access;
    here.block = block_of_pair(r, t->block, j);
    if ((!s->a_in_tmem &&
         !mma_operand_read(r, t, &o, s->a, rows, s->k,
                           a ? a + j * rows * s->k : NULL, &here)) ||
        !mma_operand_read(r, t, &p, s->b, columns, s->k,
                          b ? b + j * columns * s->k : NULL, &here))
      return false;
  }
  return true;
}

/* ---- scales ---- */

/* 9.7.16, "Scale Factor A ID" and "Scale Factor B ID": the four scales of row r
 * are the bytes of lane r % 32 in column r / 32.  All warps have the same. */
static bool scale_of_row(SimRun *r, const AsyncOp *p, uint32_t address,
                         uint32_t row, uint32_t byte, float *to) {
  const TensorMemory *m = p->block->tensor_memory;
  unsigned char bytes[4];
  memcpy(bytes,
         &m->value[row % SCALE_ROWS][(address & 0xffff) + row / SCALE_ROWS],
         sizeof bytes);
  if (p->n[0] == AX_KIND_MXF4)
    *to = (float)f8_e8m0_to_double(bytes[byte]);
  else if (bytes[byte] >> 7)
    return sim_fail(r, p->issuer, (uint32_t)p->line,
                    "a scale 0x%x, which is negative", bytes[byte]);
  else
    *to = (float)f8_e4m3_to_double(bytes[byte]);
  return true;
}

/* The scales of all rows of an operand, or of all columns. */
static bool read_scales(SimRun *r, const AsyncOp *p, const Tcgen05Mma *s,
                        bool b, float *to) {
  uint32_t address = (uint32_t)(p->n[7] >> (b ? 32 : 0));
  uint32_t first = b ? s->scale_b_byte : s->scale_a_byte;
  for (uint32_t i = 0; i < (b ? s->n : s->m); i++)
    for (uint32_t j = 0; j < s->scales; j++)
      if (!scale_of_row(r, p, address, i, first + j, &to[i * s->scales + j]))
        return false;
  return true;
}

/* The sum of the terms of a block of row a and of column b, whose bytes have
 * two terms each. */
static double block_sum(const float *a, const float *b, uint32_t bytes) {
  double sum = 0;
  for (uint32_t k = 0; k < bytes; k++)
    for (uint32_t half = 0; half < 8; half += 4)
      sum += f4_e2m1_to_double((uint8_t)a[k] >> half & 15) *
             f4_e2m1_to_double((uint8_t)b[k] >> half & 15);
  return sum;
}

static bool finish_scaled(SimRun *r, const AsyncOp *p, const Tcgen05Mma *s,
                          const float *a, const float *b) {
  static float scale_a[256 * 4], scale_b[256 * 4];
  uint32_t each = s->k / s->scales;
  if (!read_scales(r, p, s, false, scale_a) ||
      !read_scales(r, p, s, true, scale_b))
    return false;
  for (uint32_t i = 0; i < s->m; i++)
    for (uint32_t j = 0; j < s->n; j++) {
      float *d = &p->block->tensor_memory->value[i][p->n[1] + j];
      double sum = p->n[5] ? *d : 0;
      for (uint32_t k = 0; k < s->scales; k++)
        sum +=
            block_sum(a + i * s->k + k * each, b + j * s->k + k * each, each) *
            scale_a[i * s->scales + k] * scale_b[j * s->scales + k];
      *d = (float)sum;
    }
  return true;
}

/* Checks an access to the columns of the scales of `rows` rows. */
static bool check_scales(SimRun *r, const TmemAccess *access, uint32_t address,
                         uint32_t rows) {
  uint32_t columns = (rows + SCALE_ROWS - 1) / SCALE_ROWS;
  if (address >> 16)
    return sim_fail(r, access->thread, (uint32_t)access->line,
                    "scales in lanes from %u on", address >> 16);
  if (!check_columns(r, access, address, columns))
    return false;
  for (uint32_t part = 0; part < PARTS; part++)
    for (uint32_t j = 0; j < columns; j++)
      if (!check_cell(r, access, part, address + j))
        return false;
  return true;
}

/* ---- execution ---- */

static bool finish_mma(SimRun *r, const AsyncOp *p) {
  static float a[256 * 32], b[256 * 32];
  Tcgen05Mma s;
  AxCall c = {.line = p->line};
  ShadowAccess none = {.site = (uint32_t)p->line};
  memcpy(c.n, p->n, sizeof c.n);
  if (!read_instruction(r, p->issuer, &c, &s) ||
      !read_operands(r, p->issuer, &c, &s, a, b, &none))
    return false;
  if (s.scales)
    return finish_scaled(r, p, &s, a, b);
  if (s.blocks == 2 && !partner(r, p->block)->live_threads)
    return sim_fail(r, p->issuer, (uint32_t)p->line,
                    "a product of a pair, whose second block ends before it");
  uint32_t rows = s.m / s.blocks;
  if (s.a_in_tmem)
    read_tmem_operand(p->block->tensor_memory, &s, (uint32_t)p->n[2], a);
  for (uint32_t i = 0; i < s.m; i++)
    for (uint32_t j = 0; j < s.n; j++) {
      TensorMemory *m = block_of_pair(r, p->block, i / rows)->tensor_memory;
      float *d = &m->value[result_lane(&s, i % rows)][p->n[1] + j];
      double sum = p->n[5] ? *d : 0;
      for (uint32_t k = 0; k < s.k; k++)
        sum += (double)a[i * s.k + k] * b[j * s.k + k];
      *d = (float)sum;
    }
  return true;
}

static uint32_t products_agent(SimThread *t) {
  if (!t->tcgen05_agent)
    t->tcgen05_agent =
        agent_new(t->block->cluster, AGENT_TCGEN05, t->block->rank,
                  (uint32_t)(t - t->block->threads));
  return t->tcgen05_agent;
}

/* Checks the tensor memory of a block that a product writes. */
static bool check_result(SimRun *r, const TmemAccess *access,
                         const Tcgen05Mma *s, uint32_t address) {
  if (!check_columns(r, access, address, s->n))
    return false;
  for (uint32_t i = 0; i < s->m / s->blocks; i += PART_LANES)
    for (uint32_t j = 0; j < s->n; j++)
      if (!check_cell(r, access, result_lane(s, i) / PART_LANES, address + j))
        return false;
  return true;
}

/* The first block of a pair issues, and the other one has not ended. */
static bool check_pair(SimRun *r, SimThread *t, const AxCall *c) {
  if (!check_group(r, t, c, c->n[6]))
    return false;
  if (c->n[6] && t->block->rank % 2)
    return sim_fail(r, t, (uint32_t)c->line,
                    "a product of a pair, issued by its second block");
  return !c->n[6] || partner(r, t->block)->live_threads ||
         sim_fail(r, t, (uint32_t)c->line,
                  "a product of a pair, whose second block has ended");
}

static void begin_mma(SimRun *r, SimThread *t, const AxCall *c) {
  Tcgen05Mma s;
  Epoch epoch = (Epoch)products_agent(t) << 32 | (t->tcgen05_groups + 1);
  TmemAccess access = {.thread = t,
                       .block = t->block,
                       .clock = tcgen05_clock(t),
                       .epoch = epoch,
                       .write = true,
                       .is_product = true,
                       .needs_value = c->n[5],
                       .verb = c->n[5] ? "adds to" : "writes",
                       .line = c->line};
  ShadowAccess operands = {.block = t->block,
                           .clock = access.clock,
                           .epoch = epoch | EPOCH_ASYNC,
                           .site = (uint32_t)c->line,
                           .thread = t};
  if (!check_pair(r, t, c) || !read_instruction(r, t, c, &s) ||
      !read_operands(r, t, c, &s, NULL, NULL, &operands) ||
      (s.a_in_tmem && !check_tmem_operand(r, &access, &s, c->n[2])))
    return;
  if (c->n[1] >> 16) {
    sim_fail(r, t, (uint32_t)c->line, "a product into lanes from %u on",
             (unsigned)(c->n[1] >> 16));
    return;
  }
  for (uint32_t j = 0; j < s.blocks; j++) {
    access.block = block_of_pair(r, t->block, j);
    if (!check_result(r, &access, &s, (uint32_t)c->n[1]))
      return;
  }
  TmemAccess scales = access;
  scales.write = false;
  scales.needs_value = true;
  scales.verb = "reads scales in";
  if (s.scales && (!check_scales(r, &scales, (uint32_t)c->n[7], s.m) ||
                   !check_scales(r, &scales, (uint32_t)(c->n[7] >> 32), s.n)))
    return;
  AsyncOp *p = async_op_new(r, t, AX_TCGEN05_MMA, c);
  p->finish = finish_mma;
  async_op_set_group(p, t->tcgen05_agent, t->tcgen05_groups + 1);
}

/* ---- copies of scales ---- */

/* 9.7.16, tcgen05.cp with .32x128b.warpx4: the rows of a matrix that is not
 * swizzled, 8 rows after 8 rows. */
static bool read_copied(SimRun *r, SimThread *t, const AxCall *c, float *to,
                        const ShadowAccess *access) {
  MmaOperand o;
  if (!read_descriptor(r, t, c, c->n[1], false, 1, &o))
    return false;
  if (o.layout.swizzle.span_bytes)
    return sim_fail(r, t, (uint32_t)c->line, "a copy of swizzled scales");
  return mma_operand_read(r, t, &o, AX_BYTE, SCALE_ROWS, SCALE_ROW_BYTES, to,
                          access);
}

static bool finish_copy(SimRun *r, const AsyncOp *p) {
  float from[SCALE_ROWS * SCALE_ROW_BYTES];
  AxCall c = {.line = p->line};
  ShadowAccess none = {.site = (uint32_t)p->line};
  memcpy(c.n, p->n, sizeof c.n);
  if (!read_copied(r, p->issuer, &c, from, &none))
    return false;
  for (uint32_t lane = 0; lane < LANES; lane++) {
    const float *row = from + lane % SCALE_ROWS * SCALE_ROW_BYTES;
    unsigned char bytes[SCALE_ROW_BYTES];
    for (uint32_t j = 0; j < SCALE_ROW_BYTES; j++)
      bytes[j] = (unsigned char)row[j];
    memcpy(&p->block->tensor_memory->value[lane][p->n[0]], bytes, sizeof bytes);
  }
  return true;
}

static void begin_copy(SimRun *r, SimThread *t, const AxCall *c) {
  Epoch epoch = (Epoch)products_agent(t) << 32 | (t->tcgen05_groups + 1);
  TmemAccess access = {.thread = t,
                       .block = t->block,
                       .clock = tcgen05_clock(t),
                       .epoch = epoch,
                       .write = true,
                       .verb = "copies scales to",
                       .line = c->line};
  ShadowAccess from = {.block = t->block,
                       .clock = access.clock,
                       .epoch = epoch | EPOCH_ASYNC,
                       .site = (uint32_t)c->line,
                       .thread = t};
  if (!check_group(r, t, c, false) || !read_copied(r, t, c, NULL, &from) ||
      !check_scales(r, &access, (uint32_t)c->n[0], SCALED_M))
    return;
  AsyncOp *p = async_op_new(r, t, AX_TCGEN05_COPY, c);
  p->finish = finish_copy;
  async_op_set_group(p, t->tcgen05_agent, t->tcgen05_groups + 1);
}

/* ---- commits ---- */

static bool finish_commit(SimRun *r, const AsyncOp *p) {
  SimCluster *k = p->block->cluster;
  for (uint32_t j = 0; j < r->cluster_blocks; j++)
    if (p->mbarriers[j] &&
        !mbarrier_arrive_async(r, p->mbarriers[j], &k->blocks[j], p->issuer,
                               p->clock, p->line))
      return false;
  VEC_PUSH(k->arena, p->block->spare_clocks, p->clock);
  return true;
}

/* Who waits for the commit sees the products, and what they saw, but not the
 * plain accesses of the thread. */
static VectorClock *commit_clock(SimThread *t) {
  SimBlock *b = t->block;
  const SimCluster *k = b->cluster;
  VectorClock *clock = b->spare_clocks.len
                           ? b->spare_clocks.at[--b->spare_clocks.len]
                           : clock_new(b->cluster);
  memcpy(clock, tcgen05_clock(t),
         (size_t)k->max_agents * 2 * sizeof(VectorClock));
  clock[t->agent] = clock[k->max_agents + t->agent] = 0;
  clock[t->tcgen05_agent] = clock[k->max_agents + t->tcgen05_agent] =
      t->tcgen05_groups;
  return clock;
}

static void commit(SimRun *r, SimThread *t, const AxCall *c) {
  SimCluster *k = t->block->cluster;
  uint64_t blocks = c->n[1] ? c->n[1] : 1ull << t->block->rank;
  uint32_t agent = products_agent(t);
  Mbarrier **at = NEW_ARRAY(k->arena, Mbarrier *, r->cluster_blocks);
  if (!check_group(r, t, c, c->n[2]))
    return;
  if (blocks >> r->cluster_blocks) {
    sim_fail(r, t, (uint32_t)c->line, "blocks 0x%llx of a cluster of %u",
             (unsigned long long)blocks, r->cluster_blocks);
    return;
  }
  for (uint32_t j = 0; j < r->cluster_blocks; j++) {
    at[j] = NULL;
    if (!(blocks >> j & 1))
      continue;
    at[j] = mbarrier_at(r, t, &k->blocks[j], c->n[0], c->line);
    if (!at[j])
      return;
    if (!at[j]->is_fenced) {
      sim_fail(r, t, (uint32_t)c->line,
               "a commit arrives at the mbarrier of line %d, after which "
               "ax_fence_mbarrier_init is missing",
               at[j]->line);
      return;
    }
  }
  AsyncOp *p = async_op_new(r, t, AX_TCGEN05_COMMIT, c);
  p->finish = finish_commit;
  p->mbarriers = at;
  async_op_set_group(p, agent, ++t->tcgen05_groups);
  p->clock = commit_clock(t);
}

void op_tcgen05(SimRun *r, SimThread *t, int op, AxCall *c) {
  switch (op) {
  case AX_TCGEN05_FENCE:
    fence(t, c->n[0]);
    break;
  case AX_TCGEN05_MMA:
    begin_mma(r, t, c);
    break;
  case AX_TCGEN05_COPY:
    begin_copy(r, t, c);
    break;
  case AX_TCGEN05_COMMIT:
    commit(r, t, c);
    break;
  }
}
