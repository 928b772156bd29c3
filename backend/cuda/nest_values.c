/* Where values between the loop nests of a pass live, and how they are stored
 * there and read: in one register of a thread, in a register for each element,
 * in shared memory, or in scratch memory. */
#include "backend/cuda/nest.h"
#include "support/arena.h"
#include "tensor/extent.h"

#define format emit_format

enum { SHARED_ALIGN = 16 };

const CudaLocal *cuda_value(const CudaWriter *w, uint32_t at, uint32_t result) {
  return &w->locals[w->pass->first_loop + at][result];
}

/* ---- choices ---- */

/* True if every loop reads the values in the threads that computed them. */
static bool fits_in_registers(const CudaPass *p, uint32_t at, uint32_t result) {
  const LoopNest *from = p->k->loops.at[at];
  const LoopOutput *r = &from->outputs.at[result];
  if (!p->s.vectors_in_registers || row_loop_kind(from) == ROW_PARTIAL_REDUCE)
    return false;
  for (uint32_t j = 0; j < p->k->loops.len; j++) {
    const LoopNest *loop = p->k->loops.at[j];
    for (uint32_t i = 0; i < loop->ops.len; i++) {
      const KernelOp *s = &loop->ops.at[i];
      if (s->kind == KOP_LOAD_LOCAL && s->source_loop == p->first_loop + at &&
          s->source_output == result &&
          (!row_nests_match(&p->s.rows[at], &p->s.rows[j]) ||
           !affine_equal(s->address, r->local_index)))
        return false;
    }
  }
  return true;
}

/* Places a value in the memory of its point: in shared memory if it fits, after
 * the values before it.  Returns false if its size is too large. */
static bool place_in_memory(const CudaPass *p, const CudaTarget *target,
                            const LoopOutput *r, ValueHomes *h, ValueHome *to) {
  Graph *g = p->k->graph;
  int64_t bytes, lines, after;
  if (!extent_mul(g, r->local_elements, dtype_info[r->dtype].bytes, &bytes) ||
      !extent_ceil_div(g, bytes, SHARED_ALIGN, &lines) ||
      !extent_mul(g, lines, SHARED_ALIGN, &bytes) ||
      !extent_add(g, h->shared_bytes, bytes, &after))
    return false;
  int64_t points = p->s.block_threads / p->s.group_threads;
  if (extent_is_static(g, after) &&
      after * points + p->s.block_threads * REDUCTION_SLOT_BYTES <=
          (int64_t)target->default_shared_bytes) {
    *to = (ValueHome){STORAGE_SHARED, h->shared_bytes};
    h->shared_bytes = after;
    return true;
  }
  *to = (ValueHome){STORAGE_GROUP_SCRATCH, h->scratch_bytes};
  return extent_add(g, h->scratch_bytes, bytes, &h->scratch_bytes);
}

static bool choose_home(const CudaPass *p, const CudaTarget *target,
                        uint32_t at, uint32_t result, ValueHomes *h) {
  const LoopNest *loop = p->k->loops.at[at];
  const LoopOutput *r = &loop->outputs.at[result];
  ValueHome *to = &h->of[at][result];
  RowLoopKind kind = row_loop_kind(loop);
  if (!r->local_index)
    return true;
  if (p->is_fissioned)
    to->storage = STORAGE_POINT_SCRATCH;
  else if (kind == ROW_SCALAR || (kind == ROW_REDUCE && r->reduce != PRIM_NONE))
    to->storage = STORAGE_SCALAR;
  else if (fits_in_registers(p, at, result))
    to->storage = STORAGE_REGISTERS;
  else
    return place_in_memory(p, target, r, h, to);
  return true;
}

const char *cuda_choose_homes(CudaPass *p, const CudaTarget *target) {
  ValueHomes *h = NEW(p->k->arena, ValueHomes);
  bool fits = true;
  for (uint32_t j = 0; j < p->k->loops.len; j++) {
    uint32_t count = p->k->loops.at[j]->outputs.len;
    h->of[j] = NEW_ARRAY(p->k->arena, ValueHome, count);
    for (uint32_t i = 0; i < count; i++)
      fits &= choose_home(p, target, j, i, h);
  }
  p->s.homes = h;
  return fits ? NULL : "has values of more than 2^63 bytes for each point";
}

void cuda_put_homes(CudaWriter *w, Buffer *registers) {
  for (uint32_t j = 0; j < w->k->loops.len; j++)
    for (uint32_t i = 0; i < w->k->loops.at[j]->outputs.len; i++) {
      const LoopOutput *r = &w->k->loops.at[j]->outputs.at[i];
      CudaLocal *l = &w->locals[w->pass->first_loop + j][i];
      if (!r->local_index || w->pass->is_fissioned)
        continue;
      ValueHome home = w->s->homes ? w->s->homes->of[j][i]
                                   : (ValueHome){.storage = STORAGE_SCALAR};
      l->storage = home.storage;
      l->scratch_offset = home.offset;
      if (home.storage == STORAGE_REGISTERS)
        buffer_printf(registers, "%s l%u[%u];\n",
                      scalar_type(value_class(r->dtype)), l->name,
                      w->s->vectors_in_registers * w->s->vector_width);
    }
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
