/* The steps of passes without sums. */
#include "backend/cuda/nest.h"
#include "machine/limits/cuda.h"
#include "support/arena.h"

enum {
  MAX_UNROLLED_TILE_ROWS = 4,
  TILE_ALIGN = 16,
  SMEM_BANK_BYTES = 4, /* width of a shared memory bank */
};

Nest *cuda_nest_new(const CudaPass *p) {
  return nest_new(p->k->arena, p->k->loops.at[0], p->k->axis_names);
}

/* ---- properties ---- */

int64_t cuda_nest_threads(const Nest *n) {
  int64_t threads = 1;
  for (uint32_t j = 0; j < n->loop_count; j++)
    threads *= n->loops[j].run == NEST_THREAD ? n->loops[j].count : 1;
  return threads;
}

uint32_t cuda_nest_tile_side(const Nest *n) {
  return (uint32_t)n->loops[n->loop_count - 1].count;
}

uint32_t cuda_nest_tile_pitch(const Nest *n, Dtype t) {
  uint32_t bytes = dtype_info[t].bytes;
  return cuda_nest_tile_side(n) +
         (bytes < SMEM_BANK_BYTES ? SMEM_BANK_BYTES / bytes : 1);
}

int64_t cuda_nest_tile_bytes(const Nest *n, Dtype t) {
  int64_t bytes = (int64_t)cuda_nest_tile_side(n) * cuda_nest_tile_pitch(n, t) *
                  dtype_info[t].bytes;
  return (bytes + TILE_ALIGN - 1) / TILE_ALIGN * TILE_ALIGN;
}

bool cuda_nest_shares(const Nest *n, const LoopNest *loop, const KernelOp *s) {
  uint32_t near = n->shared_axis, far;
  if (near == NO_LOOP || s->kind != KOP_LOAD || s->checked_index_count)
    return false;
  far = n->loops[n->loop_count - 1].axis;
  if (s->address->coef[near] != 1 || s->address->coef[far] == 0 ||
      s->address->coef[far] == 1)
    return false;
  AffineExpr rest = *s->address;
  rest.coef[near] = rest.coef[far] = 0;
  return !cuda_depends_on_axis(loop, &rest, near) &&
         !cuda_depends_on_axis(loop, &rest, far);
}

void cuda_nest_describe(Buffer *out, const Nest *n) {
  if (n->shared_axis == NO_LOOP)
    buffer_puts(out, "points");
  else
    buffer_printf(out, "transposed tiles of %u along i%u",
                  cuda_nest_tile_side(n), n->names[n->shared_axis]);
}

void cuda_nest_use(CudaSchedule *s, Nest *n) {
  uint32_t lanes = nest_lanes(n);
  s->kind = CUDA_NEST;
  s->nests = NEW_ARRAY(n->arena, Nest *, 1);
  s->nests[0] = n;
  s->block_threads =
      n->loop_count ? (uint32_t)cuda_nest_threads(n) : DEFAULT_BLOCK_THREADS;
  s->vector_width = lanes == NO_LOOP ? 1 : (uint32_t)n->loops[lanes].count;
}

/* ---- choices ---- */

/* Ends with the pieces of the axis and of the last axis. */
static void order_axes(NestBuilder *b, uint32_t along, uint32_t last,
                       uint32_t piece) {
  NestStep order = {.kind = STEP_ORDER};
  for (uint32_t v = 0; v < b->nest->spec->axis_count; v++)
    if (v != along && v != last)
      nest_step_add(&order, v, 0);
  for (uint32_t k = piece + 1; k-- > 0;) {
    if (along != NO_AXIS)
      nest_step_add(&order, along, k);
    nest_step_add(&order, last, k);
  }
  nest_build_order(b, &order);
}

static void end_choice(CudaPass *p, const NestBuilder *b) {
  nest_verify_chosen(b->nest, b->refusal);
  cuda_nest_use(&p->s, b->nest);
}

void cuda_nest_choose_points(CudaPass *p, uint32_t last, uint32_t vector,
                             uint32_t threads) {
  NestBuilder b = {.nest = cuda_nest_new(p)};
  uint32_t axis = last, piece = vector > 1, axes = p->k->parallel_axes;
  if (axes) {
    order_axes(&b, NO_AXIS, last, 0);
    if (vector > 1) {
      nest_build_step(&b, STEP_TILE, last, 0, vector, TAIL_LESS);
      nest_build_step(&b, STEP_LANES, last, 0, 0, TAIL_MASK);
    }
    if (axes > 1) {
      NestStep flatten = {.kind = STEP_FLATTEN};
      for (uint32_t v = 0; v < axes; v++)
        if (v != last)
          nest_step_add(&flatten, v, 0);
      nest_step_add(&flatten, last, piece);
      nest_build_order(&b, &flatten);
      axis = b.nest->flat->axis;
      piece = 0;
    }
    nest_build_step(&b, STEP_TILE, axis, piece, threads, TAIL_LESS);
    nest_build_step(&b, STEP_BLOCKS, axis, piece + 1, 0, TAIL_LESS);
    nest_build_step(&b, STEP_THREADS, axis, piece, 0, TAIL_LESS);
  }
  end_choice(p, &b);
}

void cuda_nest_choose_tiles(CudaPass *p, uint32_t along, uint32_t last,
                            uint32_t side, uint32_t threads) {
  NestBuilder b = {.nest = cuda_nest_new(p)};
  uint32_t rows = threads / side, loops = side / rows, piece = 1;
  nest_build_step(&b, STEP_TILE, along, 0, side, TAIL_LESS);
  nest_build_step(&b, STEP_TILE, last, 0, side, TAIL_LESS);
  order_axes(&b, along, last, 1);
  for (uint32_t v = 0; v < p->k->parallel_axes; v++)
    if (v != along && v != last)
      nest_build_step(&b, STEP_BLOCKS, v, 0, 0, TAIL_LESS);
  nest_build_step(&b, STEP_BLOCKS, along, 1, 0, TAIL_LESS);
  nest_build_step(&b, STEP_BLOCKS, last, 1, 0, TAIL_LESS);
  nest_build_step(&b, STEP_TILE, along, 0, rows, TAIL_LESS);
  if (loops > MAX_UNROLLED_TILE_ROWS)
    nest_build_step(&b, STEP_TILE, along, piece, MAX_UNROLLED_TILE_ROWS,
                    TAIL_LESS);
  nest_build_step(&b, STEP_UNROLL, along, piece, 0, TAIL_LESS);
  nest_build_step(&b, STEP_THREADS, along, 0, 0, TAIL_LESS);
  nest_build_step(&b, STEP_THREADS, last, 0, 0, TAIL_LESS);
  nest_build_step(&b, STEP_SHARED, along, 0, 0, TAIL_LESS);
  end_choice(p, &b);
}
