/* Elementwise kernels: a thread computes one point, or one vector of adjacent
 * points.  Transpose kernels: a block stages square tiles in shared memory if
 * operands are contiguous along another axis than the results. */
#include "backend/cuda/kernel.h"
#include "support/arena.h"

#include <string.h>

#define format emit_format

enum {
  SMEM_BANK_BYTES = 4 /* width of a shared memory bank */
};

/* Elements per row of a tile in shared memory.  The padding places the elements
 * of a column in different banks. */
static uint32_t tile_pitch(const CudaWriter *w, Dtype t) {
  uint32_t bytes = dtype_info[t].bytes;
  return w->s->tile_side +
         (bytes < SMEM_BANK_BYTES ? SMEM_BANK_BYTES / bytes : 1);
}

/* The generated code for the loops of a pass.  All loops have the same
 * points. */
typedef struct ElementwiseBody {
  Buffer invariants; /* statements that do not depend on the last axis */
  Buffer loads, body, stores;
  uint32_t last_axis; /* contiguous axis of the results */
  /* Of a vector: first index, bounds test, elements left. */
  const char *first, *full, *left;
} ElementwiseBody;

static bool is_vector(const CudaWriter *w, const AffineExpr *at,
                      const ElementwiseBody *p, const LoopNest *loop) {
  return w->s->vector_width > 1 &&
         cuda_is_vectorizable(loop, at, p->last_axis, w->s->vector_width);
}

/* Vector loads precede the loop over the elements. */
static void put_vector_loads(CudaWriter *w, ElementwiseBody *p,
                             const LoopNest *loop, const char **precomputed) {
  Emitter *e = &w->e;
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    if (s->kind != KOP_LOAD || s->checked_index_count ||
        !is_vector(w, s->address, p, loop))
      continue;
    const char *name = format(e, "r%u", e->next_id++);
    buffer_printf(&p->loads, "%s %s[%u];\n", memory_type(s->dtype), name,
                  w->s->vector_width);
    cuda_put_vector_load(w, &p->loads, s, p->last_axis, name, p->first, p->full,
                         p->left);
    precomputed[j] = cuda_load_element(e, s->dtype, name, "v");
  }
}

/* Uses values that earlier loops of the pass computed for this point. */
static void bind_locals(CudaWriter *w, const LoopNest *loop,
                        const char **precomputed) {
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    if (s->kind == KOP_LOAD_LOCAL &&
        w->locals[s->source_loop][s->source_output].storage !=
            STORAGE_POINT_SCRATCH)
      precomputed[j] = format(&w->e, "l%u",
                              w->locals[s->source_loop][s->source_output].name);
  }
}

static void put_result(CudaWriter *w, ElementwiseBody *p, const LoopNest *loop,
                       const LoopOutput *r, const CudaLocal *l) {
  Emitter *e = &w->e;
  const char *x = emit_scalar(e, r->value_op);
  const char *stored = emit_store_value(e, r->value_op, r->dtype);
  if (r->local_index && l->storage == STORAGE_POINT_SCRATCH)
    cuda_put_store_at(&p->body, r->dtype, format(e, "l%u", l->name),
                      emit_affine(e, r->local_index), x);
  else if (r->local_index)
    buffer_printf(&p->body, "const %s l%u = %s;\n",
                  scalar_type(value_class(r->dtype)), l->name,
                  cuda_round_to_dtype(e, r->dtype, x));
  if (!r->global_index)
    return;
  if (!is_vector(w, r->global_index, p, loop)) {
    if (w->s->vector_width > 1)
      buffer_printf(&p->body, "if (v < %s)\n", p->left);
    cuda_put_store(w, &p->body, r, stored);
    return;
  }
  const char *name = format(e, "w%u", e->next_id++);
  buffer_printf(&p->loads, "%s %s[%u];\n", memory_type(r->dtype), name,
                w->s->vector_width);
  cuda_put_store_at(&p->body, r->dtype, name, "v", stored);
  cuda_put_vector_store(w, &p->stores, r, p->last_axis, name, p->first, p->full,
                        p->left);
}

static void put_loop(CudaWriter *w, ElementwiseBody *p, uint32_t at) {
  Emitter *e = &w->e;
  const LoopNest *loop = w->k->loops.at[at];
  const char **precomputed = NEW_ARRAY(e->arena, const char *, loop->ops.len);
  emit_begin_loop(e, loop, NO_AXIS, w->s->vector_width > 1, &p->last_axis);
  put_vector_loads(w, p, loop, precomputed);
  bind_locals(w, loop, precomputed);
  e->ops.precomputed = precomputed;
  emit_ops(e);
  e->ops.precomputed = NULL;
  Buffer results = {.arena = e->arena}, before = p->body;
  p->body = results;
  for (uint32_t j = 0; j < loop->outputs.len && !e->failed; j++)
    put_result(w, p, loop, &loop->outputs.at[j],
               &w->locals[w->pass->first_loop + at][j]);
  results = p->body;
  p->body = before;
  emit_append(&e->function.head, &e->levels.code[0]);
  emit_append(&p->invariants, &e->levels.code[OUTER_LEVEL]);
  if (w->s->vector_width > 1)
    emit_append(&p->body, &e->levels.code[OUTER_LEVEL + 1]);
  else
    emit_append(&p->body, &p->invariants);
  if (w->s->vector_width == 1)
    p->invariants.len = 0;
  emit_append(&p->body, &e->check_code);
  emit_append(&p->body, &results);
}

static ElementwiseBody elementwise_body_new(CudaWriter *w) {
  Buffer none = {.arena = w->e.arena};
  return (ElementwiseBody){
      .invariants = none,
      .loads = none,
      .body = none,
      .stores = none,
      .last_axis = w->k->parallel_axes ? w->k->parallel_axes - 1 : NO_AXIS,
      .first = "first",
      .full = "full && ",
      .left = "left"};
}

/* Computes the indices of the point, and `first`, the first element of its
 * vector on the last axis. */
static int64_t put_point_index(CudaWriter *w, const ElementwiseBody *p) {
  Emitter *e = &w->e;
  Buffer *out = &w->body;
  const LoopNest *loop = w->k->loops.at[0];
  const char *type = w->dialect.index_type;
  uint32_t vector = w->s->vector_width;
  int64_t groups = emit_extent_ceil_div(e, loop->extents[p->last_axis], vector),
          vector_count = groups;
  for (uint32_t v = 0; v < p->last_axis; v++)
    vector_count = emit_extent_mul(e, vector_count, loop->extents[v]);
  buffer_printf(out,
                "const int64_t g = (int64_t)blockIdx.x * %u + threadIdx.x;\n"
                "if (g < %s) {\n",
                w->s->block_threads, emit_int(e, vector_count));
  if (p->last_axis == 0)
    buffer_printf(out, "const %s x = (%s)g;\n", type, type);
  else
    buffer_printf(out,
                  "const %s y = floor_div((%s)g, %s);\n"
                  "const %s x = (%s)g - y * %s;\n",
                  type, type, emit_divisor(e, groups), type, type,
                  emit_int(e, groups));
  cuda_put_unravel_outer(w, out, p->last_axis, "y");
  if (vector > 1)
    buffer_printf(out,
                  "const %s first = x * %u, left = %s - first;\n"
                  "const bool full = left >= %u;\n",
                  type, vector, emit_int(e, loop->extents[p->last_axis]),
                  vector);
  else
    buffer_printf(out, "const %s i%u = x;\n", type, p->last_axis);
  return vector_count;
}

void cuda_put_elementwise(CudaWriter *w) {
  Emitter *e = &w->e;
  ElementwiseBody p = elementwise_body_new(w);
  Buffer *out = &w->body;
  uint32_t vector = w->s->vector_width;
  int64_t vector_count = 1;
  if (w->k->parallel_axes)
    vector_count = put_point_index(w, &p);
  else
    buffer_puts(out, "if (blockIdx.x == 0 && threadIdx.x == 0) {\n");
  for (uint32_t j = 0; j < w->k->loops.len && !e->failed; j++)
    put_loop(w, &p, j);
  emit_append(out, &p.invariants);
  emit_append(out, &p.loads);
  if (vector > 1)
    buffer_printf(out,
                  "#pragma unroll\nfor (int v = 0; v < %u; v++) {\n"
                  "const %s i%u = first + (v < left ? v : 0);\n",
                  vector, w->dialect.index_type, p.last_axis);
  emit_append(out, &p.body);
  buffer_puts(out, vector > 1 ? "}\n" : "");
  emit_append(out, &p.stores);
  buffer_puts(out, "}\n");
  w->pass->grid_blocks =
      emit_extent_ceil_div(e, vector_count, w->s->block_threads);
}

/* ---- transpose ---- */

static bool reads_transposed(const CudaWriter *w, const LoopNest *loop,
                             const KernelOp *s, uint32_t axis) {
  uint32_t transposed_axis = w->s->transposed_axis;
  if (s->kind != KOP_LOAD || s->checked_index_count ||
      s->address->coef[transposed_axis] != 1 || s->address->coef[axis] == 0 ||
      s->address->coef[axis] == 1)
    return false;
  AffineExpr rest = *s->address;
  rest.coef[transposed_axis] = rest.coef[axis] = 0;
  return !cuda_depends_on_axis(loop, &rest, transposed_axis) &&
         !cuda_depends_on_axis(loop, &rest, axis);
}

/* Loads the tile of an operand in its memory order, so that accesses are
 * coalesced.  A thread issues all its loads before the first store. */
static void put_tile_load(CudaWriter *w, ElementwiseBody *p,
                          const LoopNest *loop, const KernelOp *s,
                          const char *name, uint32_t at) {
  Emitter *e = &w->e;
  uint32_t transposed_axis = w->s->transposed_axis,
           rows = w->s->block_threads / w->s->tile_side;
  uint32_t rows_per_thread = w->s->tile_side / rows;
  AffineExpr rest = *s->address;
  rest.coef[transposed_axis] = rest.coef[p->last_axis] = 0;
  const char *t = memory_type(s->dtype);
  buffer_printf(&p->loads, "%s *const %s = (%s *)(ax_shared() + %u);\n", t,
                name, t, at);
  buffer_printf(&p->loads,
                "{\n%s parts[%u];\n"
                "#pragma unroll\n"
                "for (int q = 0; q < %u; q++) {\n"
                "const int r = down + q * %u;\n"
                "parts[q] = far0 + r < %s && near1 < %s\n"
                "? p%u[%s + %s * (far0 + r) + near1] : %s(0);\n}\n",
                t, rows_per_thread, rows_per_thread, rows,
                emit_int(e, loop->extents[p->last_axis]),
                emit_int(e, loop->extents[transposed_axis]), s->input,
                emit_affine(e, &rest),
                emit_int(e, s->address->coef[p->last_axis]), t);
  buffer_printf(&p->loads,
                "#pragma unroll\n"
                "for (int q = 0; q < %u; q++)\n"
                "%s[(down + q * %u) * %u + along] = parts[q];\n}\n",
                rows_per_thread, name, rows, tile_pitch(w, s->dtype));
}

static void put_transpose_loop(CudaWriter *w, ElementwiseBody *p, uint32_t at,
                               uint32_t *shared_bytes) {
  Emitter *e = &w->e;
  const LoopNest *loop = w->k->loops.at[at];
  const char **precomputed = NEW_ARRAY(e->arena, const char *, loop->ops.len);
  uint32_t order[] = {w->s->transposed_axis, p->last_axis};
  emit_begin_loop(e, loop, NO_AXIS, 2, order);
  e->levels.of[p->last_axis] = e->levels.of[w->s->transposed_axis];
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    if (!reads_transposed(w, loop, s, p->last_axis))
      continue;
    const char *name = format(e, "r%u", e->next_id++);
    put_tile_load(w, p, loop, s, name, *shared_bytes);
    *shared_bytes +=
        w->s->tile_side * tile_pitch(w, s->dtype) * dtype_info[s->dtype].bytes;
    *shared_bytes = (*shared_bytes + 15) / 16 * 16;
    precomputed[j] =
        cuda_load_element(e, s->dtype, name,
                          format(e, "along * %u + r", tile_pitch(w, s->dtype)));
  }
  bind_locals(w, loop, precomputed);
  e->ops.precomputed = precomputed;
  emit_ops(e);
  e->ops.precomputed = NULL;
  Buffer before = p->body;
  p->body = (Buffer){.arena = e->arena};
  for (uint32_t j = 0; j < loop->outputs.len && !e->failed; j++)
    put_result(w, p, loop, &loop->outputs.at[j],
               &w->locals[w->pass->first_loop + at][j]);
  Buffer results = p->body;
  p->body = before;
  emit_append(&e->function.head, &e->levels.code[0]);
  emit_append(&p->invariants, &e->levels.code[OUTER_LEVEL]);
  emit_append(&p->body, &e->levels.code[OUTER_LEVEL + 1]);
  emit_append(&p->body, &e->check_code);
  emit_append(&p->body, &results);
}

void cuda_put_transpose(CudaWriter *w) {
  Emitter *e = &w->e;
  ElementwiseBody p = elementwise_body_new(w);
  Buffer *out = &w->body, outer = {.arena = e->arena};
  const LoopNest *loop = w->k->loops.at[0];
  uint32_t transposed_axis = w->s->transposed_axis, shared_bytes = 0,
           axes[MAX_KERNEL_AXES], count = 0;
  const uint32_t tile_side = w->s->tile_side;
  int64_t last_axis_tiles =
      emit_extent_ceil_div(e, loop->extents[p.last_axis], tile_side);
  int64_t transposed_axis_tiles = emit_extent_ceil_div(
              e, loop->extents[transposed_axis], tile_side),
          tile_count;
  tile_count = emit_extent_mul(e, last_axis_tiles, transposed_axis_tiles);
  for (uint32_t v = 0; v < p.last_axis; v++)
    if (v != transposed_axis) {
      tile_count = emit_extent_mul(e, tile_count, loop->extents[v]);
      axes[count++] = v;
    }
  const char *type = w->dialect.index_type;
  buffer_printf(
      &outer,
      "const int along = threadIdx.x %% %u, down = threadIdx.x / %u;\n"
      "const %s y = floor_div((%s)blockIdx.x, %s);\n"
      "const %s far0 = ((%s)blockIdx.x - y * %s) * %u;\n"
      "const %s z = floor_div(y, %s), near0 = (y - z * %s) * %u;\n"
      "const %s near1 = near0 + along;\n",
      tile_side, tile_side, type, type, emit_divisor(e, last_axis_tiles), type,
      type, emit_int(e, last_axis_tiles), tile_side, type,
      emit_divisor(e, transposed_axis_tiles),
      emit_int(e, transposed_axis_tiles), tile_side, type);
  cuda_put_unravel(w, &outer, loop, count, axes, "z");
  for (uint32_t j = 0; j < w->k->loops.len && !e->failed; j++)
    put_transpose_loop(w, &p, j, &shared_bytes);
  emit_append(out, &outer);
  emit_append(out, &p.invariants);
  emit_append(out, &p.loads);
  buffer_printf(out,
                "ax_sync();\n"
                "#pragma unroll 4\n"
                "for (int r = down; r < %u; r += %u) {\n"
                "const %s i%u = far0 + along, i%u = near0 + r;\n"
                "if (i%u < %s && i%u < %s) {\n",
                tile_side, w->s->block_threads / tile_side, type, p.last_axis,
                transposed_axis, p.last_axis,
                emit_int(e, loop->extents[p.last_axis]), transposed_axis,
                emit_int(e, loop->extents[transposed_axis]));
  emit_append(out, &p.body);
  buffer_puts(out, "}\n}\n");
  w->pass->grid_blocks = tile_count;
  w->pass->shared_bytes = shared_bytes;
}
