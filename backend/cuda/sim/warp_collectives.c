/* Warp operations.  The last lane to arrive executes them.  All lanes must
 * reach the same operation. */
#include "backend/cuda/sim/internal.h"
#include "backend/cuda/sim/layouts.h"
#include "runtime/runtime.h"

#include <string.h>

/* ---- convergence ---- */

/* A mask of the operands n[] that must be uniform. */
static uint32_t uniform_operands(int op) {
  switch (op) {
  case AX_BARRIER:
    return 7;
  case AX_SHUFFLE:
    return 2;
  case AX_VOTE:
    return 1;
  case AX_LDMATRIX:
  case AX_STMATRIX:
    return 6;
  case AX_MMA:
  case AX_REGISTERS:
  case AX_TMEM_ALLOC:
  case AX_TMEM_FREE:
  case AX_TMEM_LOAD:
    return 3;
  case AX_TMEM_STORE:
    return 7;
  case AX_TMEM_WAIT:
  case AX_WGMMA_WAIT:
    return 1;
  case AX_WGMMA:
    return 0x7f;
  default:
    return 0;
  }
}

static bool same_call(int op, const AxCall *a, const AxCall *b) {
  for (int j = 0; j < 8; j++)
    if ((uniform_operands(op) >> j & 1) && a->n[j] != b->n[j])
      return false;
  return a->line == b->line;
}

/* Compares the call with those of the waiting threads. */
static bool check_gathering(SimRun *r, const SimThread *t, const Warp *w,
                            const SimThread *first, uint32_t count, int op,
                            const AxCall *c) {
  for (uint32_t j = 0; j < count; j++) {
    const SimThread *other = &first[j];
    if (other != t && other->gathering == w &&
        (other->op != op || !same_call(op, other->call, c)))
      return sim_fail(r, t, (uint32_t)c->line,
                      "%s, while thread %u, which must do the same, does %s "
                      "at line %d%s",
                      sim_op_name(op), (unsigned)(other - t->block->threads),
                      sim_op_name(other->op), other->call->line,
                      other->op == op ? ", with other operands" : "");
    if (other->state == THREAD_DONE)
      return sim_fail(r, t, (uint32_t)c->line,
                      "%s, but thread %u, which must do the same, has ended",
                      sim_op_name(op), (unsigned)(other - t->block->threads));
  }
  return true;
}

bool warp_gather(SimRun *r, SimThread *t, Warp *w, SimThread *first,
                 uint32_t count, int op, AxCall *c) {
  const SimThread *waiter = w->waiter; /* the others have the same call */
  bool agrees = !waiter || (waiter->op == op && same_call(op, waiter->call, c));
  if ((!agrees || w->ended) && !check_gathering(r, t, w, first, count, op, c))
    return false;
  if (++w->waiting < count) {
    w->waiter = t;
    t->gathering = w;
    sim_wait(r, t, op, c);
    return false;
  }
  w->waiting = 0;
  w->waiter = NULL;
  for (uint32_t j = 0; j < count; j++)
    first[j].gathering = NULL;
  t->op = op;
  t->call = c;
  return true;
}

void warp_wake(SimRun *r, SimThread *t, SimThread *first, uint32_t count) {
  for (uint32_t j = 0; j < count; j++)
    if (&first[j] != t)
      sim_wake(r, &first[j]);
}

const VectorClock *warp_common_clock(SimThread *first, uint32_t count) {
  SimCluster *c = first->block->cluster;
  memcpy(c->scratch, first->clock, c->agent_count * sizeof(VectorClock));
  memcpy(c->scratch + c->max_agents, first->clock + c->max_agents,
         c->agent_count * sizeof(VectorClock));
  for (uint32_t j = 1; j < count; j++)
    clock_meet(c, c->scratch, first[j].clock);
  return c->scratch;
}

/* ---- barriers ---- */

static void sync_warp(SimThread *first, uint32_t count) {
  SimCluster *c = first->block->cluster;
  clock_clear(c, c->scratch);
  for (uint32_t j = 0; j < count; j++)
    clock_release(&first[j], c->scratch);
  for (uint32_t j = 0; j < count; j++)
    clock_join(c, first[j].clock, c->scratch);
}

/* Wakes the threads that wait at the barrier, except the current warp. */
static void complete_named_barrier(SimRun *r, SimBlock *b, uint32_t id,
                                   SimThread *first, uint32_t count) {
  SimBarrier *n = &b->named_barriers[id];
  for (uint32_t j = 0; j < r->threads; j++) {
    SimThread *t = &b->threads[j];
    bool here = t >= first && t < first + count;
    if (here || t->state != THREAD_BLOCKED || t->op != AX_BARRIER ||
        t->call->n[0] != id || t->gathering)
      continue;
    clock_join(b->cluster, t->clock, n->clock);
    sim_wake(r, t);
  }
  for (uint32_t j = 0; j < count; j++)
    if (!first->call->n[2])
      clock_join(b->cluster, first[j].clock, n->clock);
  n->arrived = 0;
  clock_clear(b->cluster, n->clock);
}

/* True: the warp continues. */
static bool sync_named_barrier(SimRun *r, SimThread *t, SimThread *first,
                               uint32_t count, const AxCall *c) {
  SimBlock *b = t->block;
  uint32_t site = (uint32_t)c->line, id = (uint32_t)c->n[0];
  uint32_t threads = (uint32_t)c->n[1];
  if (id >= SIM_NAMED_BARRIERS || threads % SIM_WARP_LANES || !threads ||
      threads > r->threads)
    return sim_fail(r, t, site, "barrier %u of %u threads", id, threads);
  SimBarrier *n = &b->named_barriers[id];
  if (!id && b->block_barrier.arrived)
    return sim_fail(r, t, site, "barrier 0 while ax_sync waits at it");
  if (n->arrived && n->count != threads)
    return sim_fail(r, t, site,
                    "barrier %u of %u threads, where others come to %u", id,
                    threads, n->count);
  if (!n->clock)
    n->clock = clock_new(b->cluster);
  n->count = threads;
  for (uint32_t j = 0; j < count; j++)
    clock_release(&first[j], n->clock);
  n->arrived += SIM_WARP_LANES;
  if (n->arrived >= threads) {
    complete_named_barrier(r, b, id, first, count);
    return true;
  }
  return c->n[2];
}

/* ---- shuffles and votes ---- */

static void shuffle(SimThread *first, uint32_t count) {
  uint64_t value[SIM_WARP_LANES] = {0};
  for (uint32_t j = 0; j < count; j++)
    value[j] = first[j].call->n[0];
  for (int64_t j = 0; j < count; j++) {
    AxCall *c = first[j].call;
    int64_t by = (int64_t)(uint32_t)c->n[2], from = j;
    switch ((AxShuffle)c->n[1]) {
    case AX_SHUFFLE_LANE:
      from = by & 31;
      break;
    case AX_SHUFFLE_XOR:
      from = j ^ by;
      break;
    case AX_SHUFFLE_UP:
      from = j - by;
      break;
    case AX_SHUFFLE_DOWN:
      from = j + by;
      break;
    }
    c->result = value[from >= 0 && from < count ? from : j];
  }
}

static void vote(SimThread *first, uint32_t count) {
  uint32_t bits = 0, all = count == 32 ? UINT32_MAX : (1u << count) - 1;
  for (uint32_t j = 0; j < count; j++)
    bits |= (uint32_t)(first[j].call->n[1] != 0) << j;
  for (uint32_t j = 0; j < count; j++) {
    AxCall *c = first[j].call;
    c->result = c->n[0] == AX_VOTE_OR    ? bits != 0
                : c->n[0] == AX_VOTE_AND ? bits == all
                                         : bits;
  }
}

/* ---- matrices ---- */

/* The address of row `lane % 8` of matrix `lane / 8`. */
static bool matrix_row(SimRun *r, SimThread *t, const AxCall *c, bool write,
                       const VectorClock *clock, unsigned char **row) {
  uint32_t offset;
  SimBlock *b = t->block;
  if (!shared_offset_of(r, t, c->line, c->n[0], 16, 16, &offset))
    return false;
  ShadowAccess access = {.block = b,
                         .offset = offset,
                         .bytes = 16,
                         .write = write,
                         .clock = clock,
                         .epoch = clock_epoch(t),
                         .site = (uint32_t)c->line,
                         .thread = t};
  *row = b->shared + offset;
  return shadow_check(r, &access);
}

static bool ldmatrix(SimRun *r, SimThread *first, const AxCall *c) {
  const VectorClock *clock = warp_common_clock(first, SIM_WARP_LANES);
  Fragment f = c->n[2] ? FRAGMENT_LDMATRIX_TRANS : FRAGMENT_LDMATRIX;
  for (uint32_t k = 0; k < c->n[1]; k++) {
    uint16_t held[8][8];
    for (uint32_t j = 0; j < 8; j++) {
      SimThread *t = &first[k * 8 + j];
      unsigned char *row;
      if (!matrix_row(r, t, t->call, false, clock, &row))
        return false;
      memcpy(held[j], row, sizeof held[j]);
    }
    for (int lane = 0; lane < SIM_WARP_LANES; lane++) {
      uint32_t bits = 0;
      for (int i = 0; i < 2; i++) {
        FragmentCoord p = fragment_coord(f, lane, i);
        bits |= (uint32_t)held[p.row][p.column] << (16 * i);
      }
      ((unsigned *)first[lane].call->p[0])[k] = bits;
    }
  }
  return true;
}

static bool stmatrix(SimRun *r, SimThread *first, const AxCall *c) {
  Fragment f = c->n[2] ? FRAGMENT_LDMATRIX_TRANS : FRAGMENT_LDMATRIX;
  for (uint32_t k = 0; k < c->n[1]; k++) {
    uint16_t held[8][8];
    for (int lane = 0; lane < SIM_WARP_LANES; lane++)
      for (int i = 0; i < 2; i++) {
        FragmentCoord p = fragment_coord(f, lane, i);
        unsigned bits = ((const unsigned *)first[lane].call->p[0])[k];
        held[p.row][p.column] = (uint16_t)(bits >> (16 * i));
      }
    for (uint32_t j = 0; j < 8; j++) {
      SimThread *t = &first[k * 8 + j];
      unsigned char *row;
      if (!matrix_row(r, t, t->call, true, t->clock, &row))
        return false;
      memcpy(row, held[j], sizeof held[j]);
    }
  }
  return true;
}

float sim_from_f16(uint16_t bits) {
  return (float)f16_to_double(bits);
}

uint16_t sim_to_f16(float x) {
  return f16_from_double(x);
}

float ax_bits_to_float(AxType type, uint32_t bits) {
  float v;
  if (type == AX_F16)
    return sim_from_f16((uint16_t)bits);
  if (type == AX_E4M3)
    return (float)f8_e4m3_to_double((uint8_t)bits);
  if (type == AX_E5M2)
    return (float)f8_e5m2_to_double((uint8_t)bits);
  if (type == AX_BYTE)
    return (float)bits;
  bits = type == AX_BF16 ? bits << 16 : bits & 0xffffe000;
  memcpy(&v, &bits, sizeof v);
  return v;
}

uint32_t ax_type_bytes(AxType type) {
  return type == AX_TF32 ? 4 : type == AX_F16 || type == AX_BF16 ? 2 : 1;
}

/* Element i of the registers of a thread. */
static float register_element(const unsigned *registers, int i, AxType type) {
  int bits = 8 * (int)ax_type_bytes(type), each = 32 / bits;
  uint32_t word = registers[i / each] >> (i % each * bits);
  return ax_bits_to_float(type, bits == 32 ? word : word & ((1u << bits) - 1));
}

/* Collects the elements of a fragment into a row-major matrix. */
static void gather_fragment(SimThread *first, int operand, Fragment f,
                            AxType type, float *out) {
  FragmentInfo info = fragment_info(f);
  for (int lane = 0; lane < SIM_WARP_LANES; lane++) {
    const unsigned *registers = first[lane].call->p[operand];
    for (int i = 0; i < info.count; i++) {
      FragmentCoord p = fragment_coord(f, lane, i);
      out[p.row * info.columns + p.column] =
          register_element(registers, i, type);
    }
  }
}

typedef struct MmaFragments {
  Fragment a, b;
} MmaFragments;

static MmaFragments mma_fragments(AxType type, int k) {
  if (type == AX_TF32)
    return (MmaFragments){FRAGMENT_MMA_M16N8K8_TF32_A,
                          FRAGMENT_MMA_M16N8K8_TF32_B};
  if (k == 32)
    return (MmaFragments){FRAGMENT_MMA_M16N8K32_A, FRAGMENT_MMA_M16N8K32_B};
  if (k == 16)
    return (MmaFragments){FRAGMENT_MMA_M16N8K16_A, FRAGMENT_MMA_M16N8K16_B};
  return (MmaFragments){FRAGMENT_MMA_M16N8K8_A, FRAGMENT_MMA_M16N8K8_B};
}

static void mma(SimThread *first, const AxCall *c) {
  AxType type = (AxType)c->n[0];
  int k = (int)c->n[1];
  MmaFragments f = mma_fragments(type, k);
  float a[16 * 32], b[32 * 8];
  gather_fragment(first, 1, f.a, type, a);
  gather_fragment(first, 2, f.b, type, b);
  for (int lane = 0; lane < SIM_WARP_LANES; lane++)
    for (int i = 0; i < 4; i++) {
      FragmentCoord p = fragment_coord(FRAGMENT_MMA_M16N8K16_C, lane, i);
      float *d = (float *)(uintptr_t)first[lane].call->p[0] + i;
      double sum = *d;
      for (int j = 0; j < k; j++)
        sum += (double)a[p.row * k + j] * b[j * 8 + p.column];
      *d = (float)sum;
    }
}

/* ---- dispatch ---- */

/* Executes an operation after all lanes have arrived.  True: the lanes
 * continue. */
static bool run_warp_op(SimRun *r, SimThread *t, SimThread *first,
                        uint32_t count, int op, const AxCall *c) {
  switch (op) {
  case AX_BARRIER:
    return sync_named_barrier(r, t, first, count, c);
  case AX_SYNC_WARP:
    sync_warp(first, count);
    return true;
  case AX_SHUFFLE:
    shuffle(first, count);
    return true;
  case AX_VOTE:
    vote(first, count);
    return true;
  case AX_ELECT: /* always the same lane, but an arbitrary one */
    for (uint32_t j = 0; j < count; j++)
      first[j].call->result = j == r->launch->seed % count;
    return true;
  case AX_LDMATRIX:
    return ldmatrix(r, first, c);
  case AX_STMATRIX:
    return stmatrix(r, first, c);
  case AX_MMA:
    mma(first, c);
    return true;
  case AX_TMEM_ALLOC:
  case AX_TMEM_PERMIT:
  case AX_TMEM_FREE:
  case AX_TMEM_LOAD:
  case AX_TMEM_STORE:
  case AX_TMEM_WAIT:
    return op_tensor_memory(r, first, op, c);
  }
  return true;
}

void op_warp(SimRun *r, SimThread *t, int op, AxCall *c) {
  uint32_t warp = t->self.lane.y, at = warp * SIM_WARP_LANES;
  SimThread *first = &t->block->threads[at];
  uint32_t count =
      r->threads - at < SIM_WARP_LANES ? r->threads - at : SIM_WARP_LANES;
  if (count < SIM_WARP_LANES && op >= AX_LDMATRIX)
    sim_fail(r, t, (uint32_t)c->line, "%s by a warp of %u threads",
             sim_op_name(op), count);
  else if (warp_gather(r, t, &t->block->warps[warp], first, count, op, c)) {
    bool may_continue = run_warp_op(r, t, first, count, op, c);
    if (may_continue)
      warp_wake(r, t, first, count);
    else if (!r->failed)
      sim_wait(r, t, op, c);
  }
}
