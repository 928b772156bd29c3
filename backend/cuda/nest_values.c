/* Where values between the loop nests of a pass live, and how they are stored
 * there and read: in one register of a thread, in a register for each element,
 * in shared memory, or in scratch memory. */
#include "backend/cuda/nest.h"

#define format emit_format

enum { SHARED_ALIGN = 16 };

const CudaLocal *cuda_value(const CudaWriter *w, uint32_t at, uint32_t result) {
  return &w->locals[w->pass->first_loop + at][result];
}

/* ---- choices ---- */

/* True if every loop reads the values in the threads that computed them. */
static bool fits_in_registers(const CudaWriter *w, uint32_t at,
                              uint32_t result) {
  const LoopNest *from = w->k->loops.at[at];
  const LoopOutput *r = &from->outputs.at[result];
  if (!w->s->vectors_in_registers || row_loop_kind(from) == ROW_PARTIAL_REDUCE)
    return false;
  for (uint32_t j = 0; j < w->k->loops.len; j++) {
    const LoopNest *loop = w->k->loops.at[j];
    for (uint32_t i = 0; i < loop->ops.len; i++) {
      const KernelOp *s = &loop->ops.at[i];
      if (s->kind == KOP_LOAD_LOCAL &&
          s->source_loop == w->pass->first_loop + at &&
          s->source_output == result &&
          (!row_nests_match(&w->s->rows[at], &w->s->rows[j]) ||
           !affine_equal(s->address, r->local_index)))
        return false;
    }
  }
  return true;
}

static void choose_value(CudaWriter *w, uint32_t at, uint32_t result,
                         ValueMemory *m, Buffer *registers) {
  Emitter *e = &w->e;
  const LoopNest *loop = w->k->loops.at[at];
  const LoopOutput *r = &loop->outputs.at[result];
  CudaLocal *l = &w->locals[w->pass->first_loop + at][result];
  RowLoopKind kind = row_loop_kind(loop);
  if (!r->local_index || l->storage == STORAGE_POINT_SCRATCH)
    return;
  if (kind == ROW_SCALAR || (kind == ROW_REDUCE && r->reduce != PRIM_NONE)) {
    l->storage = STORAGE_SCALAR;
    return;
  }
  if (fits_in_registers(w, at, result)) {
    l->storage = STORAGE_REGISTERS;
    buffer_printf(registers, "%s l%u[%u];\n",
                  scalar_type(value_class(r->dtype)), l->name,
                  w->s->vectors_in_registers * w->s->vector_width);
    return;
  }
  int64_t bytes =
      emit_extent_mul(e, r->local_elements, dtype_info[r->dtype].bytes);
  bytes = emit_extent_mul(e, emit_extent_ceil_div(e, bytes, SHARED_ALIGN),
                          SHARED_ALIGN);
  int64_t after_block = emit_extent_add(e, m->shared_bytes, bytes);
  int64_t points = w->s->block_threads / w->s->group_threads;
  bool fits =
      extent_is_static(w->k->graph, after_block) &&
      after_block * points + w->s->block_threads * REDUCTION_SLOT_BYTES <=
          (int64_t)w->target->default_shared_bytes;
  l->storage = fits ? STORAGE_SHARED : STORAGE_GROUP_SCRATCH;
  l->scratch_offset = fits ? m->shared_bytes : m->scratch_bytes;
  if (fits)
    m->shared_bytes = after_block;
  else
    m->scratch_bytes = emit_extent_add(e, m->scratch_bytes, bytes);
}

ValueMemory cuda_choose_values(CudaWriter *w, Buffer *registers) {
  ValueMemory m = {0};
  for (uint32_t j = 0; j < w->k->loops.len; j++)
    for (uint32_t i = 0; i < w->k->loops.at[j]->outputs.len; i++)
      choose_value(w, j, i, &m, registers);
  return m;
}

static bool is_in_memory(const LoopOutput *r, const CudaLocal *l) {
  return r->local_index &&
         (l->storage == STORAGE_SHARED || l->storage == STORAGE_GROUP_SCRATCH);
}

bool cuda_stores_in_memory(const CudaWriter *w, uint32_t at) {
  const LoopNest *loop = w->k->loops.at[at];
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    if (is_in_memory(&loop->outputs.at[j], cuda_value(w, at, j)))
      return true;
  return false;
}

void cuda_put_value_pointers(CudaWriter *w) {
  for (uint32_t j = 0; j < w->k->loops.len; j++)
    for (uint32_t i = 0; i < w->k->loops.at[j]->outputs.len; i++) {
      const LoopOutput *r = &w->k->loops.at[j]->outputs.at[i];
      const CudaLocal *l = cuda_value(w, j, i);
      const char *type = memory_type(r->dtype);
      if (is_in_memory(r, l))
        buffer_printf(&w->head, "%s *const l%u = (%s *)(%s + %s);\n", type,
                      l->name, type,
                      l->storage == STORAGE_SHARED ? "local" : "own",
                      emit_int(&w->e, l->scratch_offset));
    }
}

/* ---- accesses ---- */

static const char *register_of(Emitter *e, const CudaLocal *l, uint32_t width) {
  return width > 1 ? format(e, "l%u[t * %u + v]", l->name, width)
                   : format(e, "l%u[t]", l->name);
}

const char *cuda_load_value(CudaWriter *w, const KernelOp *s, uint32_t width) {
  const CudaLocal *l = &w->locals[s->source_loop][s->source_output];
  switch (l->storage) {
  case STORAGE_SCALAR:
    return format(&w->e, "l%u", l->name);
  case STORAGE_REGISTERS:
    return register_of(&w->e, l, width);
  case STORAGE_NONE:
  case STORAGE_SHARED:
  case STORAGE_GROUP_SCRATCH:
  case STORAGE_POINT_SCRATCH:
    break;
  }
  return NULL;
}

static void store_value(const VectorAccess *v, Buffer *out, const LoopOutput *r,
                        const CudaLocal *l, const char *live, const char *x) {
  Emitter *e = &v->w->e;
  switch (l->storage) {
  case STORAGE_SCALAR:
    buffer_printf(out, "const %s l%u = %s;\n",
                  scalar_type(value_class(r->dtype)), l->name,
                  cuda_round_to_dtype(e, r->dtype, x));
    return;
  case STORAGE_REGISTERS:
    buffer_printf(out, "%s = %s;\n", register_of(e, l, v->width),
                  cuda_round_to_dtype(e, r->dtype, x));
    return;
  case STORAGE_POINT_SCRATCH:
    if (live)
      buffer_printf(out, "if (%s)\n", live);
    break;
  case STORAGE_NONE:
  case STORAGE_SHARED:
  case STORAGE_GROUP_SCRATCH:
    break;
  }
  cuda_put_store_at(out, r->dtype, format(e, "l%u", l->name),
                    emit_affine(e, r->local_index), x);
}

void cuda_put_output(VectorAccess *v, Buffer *out, uint32_t result,
                     const CudaLocal *l, const char *live, const char *x) {
  const LoopOutput *r = &v->loop->outputs.at[result];
  const char *stored = row_output_is_reduction(r)
                           ? x
                           : emit_store_value(&v->w->e, r->value_op, r->dtype);
  if (r->local_index)
    store_value(v, out, r, l, live, x);
  if (r->global_index)
    vector_put_store(v, out, r, live, stored);
}
