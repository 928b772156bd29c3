/* Loads as C: from memory, and from local buffers of earlier loops. */
#include "backend/emit/scalar_ops.h"

#include <string.h>

#define format emit_format

bool emit_load_varies(const Emitter *e, const KernelOp *s) {
  for (uint32_t j = 0; j < s->checked_index_count; j++)
    if (e->ops.varies[s->checked_indices[j].index_op])
      return true;
  return emit_affine_varies(e, s->address);
}

/* Loads one element. */
static const char *emit_element_load(Emitter *e, Dtype t, const char *pointer,
                                     const char *op_index) {
  if (dtype_is_narrow_float(t))
    return format(e, "get_%s(%s + %s)", dtype_info[t].name, pointer, op_index);
  return format(e, "%s[%s]%s", pointer, op_index, t == DT_BOOL ? " != 0" : "");
}

/* " && n[0] > 0 ...": the loops inside of the level run.  Otherwise nothing is
 * loaded, and an index may be anywhere. */
static const char *emit_inner_loops_run(Emitter *e, uint32_t level) {
  const char *condition = "";
  for (uint32_t v = 0; v < e->loop->axis_count; v++)
    if (e->levels.of[v] > level)
      condition = format(e, "%s && %s > 0", condition,
                         emit_int(e, e->loop->extents[v]));
  return condition;
}

/* Adds checked indices that are equal in all lanes.  A load that always
 * executes tests them at the level at which they are known. */
static const char *add_uniform_index(Emitter *e, uint32_t op_index,
                                     const CheckedIndex *r,
                                     const char *address) {
  const char *index = emit_operand(e, r->index_op, 'l', false);
  const char *extent = emit_int(e, r->extent),
             *demanded = e->ops.demanded_lanes[op_index];
  uint32_t name = e->next_id++, level = e->ops.levels[r->index_op];
  const char *needed = emit_inner_loops_run(e, level);
  Buffer *b = emit_block_at(e, level);
  buffer_printf(b, "const int w%u = (uint64_t)%s >= (uint64_t)%s;\n", name,
                index, extent);
  buffer_printf(b, "const %s x%u = w%u ? 0 : %s;\n", emit_index_type(e), name,
                name, index);
  if (demanded && !strcmp(demanded, "ALL") &&
      !e->loop->ops.at[op_index].proved_safe)
    buffer_printf(b, "bad%u |= splat_b(w%u%s);\n",
                  emit_check_index(e, op_index), name, needed);
  else
    emit_check(e, op_index, false, format(e, "w%u", name));
  const char *t = emit_affine_term(e, r->stride, format(e, "x%u", name));
  return strcmp(address, "0") ? format(e, "%s + %s", address, t) : t;
}

static const char *add_varying_index(Emitter *e, uint32_t op_index,
                                     const CheckedIndex *r,
                                     const char *address) {
  const char *index = emit_vector(e, r->index_op, 'l');
  const char *extent = emit_int(e, r->extent);
  uint32_t name = e->next_id++;
  Buffer *b = emit_block_at(e, e->ops.levels[op_index]);
  buffer_printf(b, "const vl y%u = %s;\n", name, index);
  buffer_printf(b, "const vi w%u = test_l((vw)y%u >= (uint64_t)%s);\n", name,
                name, extent);
  buffer_printf(b, "const vl x%u = y%u & ~wide(w%u);\n", name, name, name);
  emit_check(e, op_index, true, format(e, "w%u", name));
  const char *t = emit_affine_term(e, r->stride, format(e, "x%u", name));
  return address ? format(e, "%s + %s", address, t) : t;
}

/* The only index that differs between lanes, if it makes the load contiguous;
 * NULL: there is none. */
static const CheckedIndex *unit_stride_index(const Emitter *e,
                                             const KernelOp *s) {
  const CheckedIndex *found = NULL;
  Graph *g = e->kernel->graph;
  int64_t stride;
  if (!emit_floor_divs_are_uniform(e, s->address))
    return NULL;
  for (uint32_t j = 0; j < s->checked_index_count; j++) {
    const CheckedIndex *r = &s->checked_indices[j];
    uint32_t start;
    const KernelOp *index = loop_index_affine(e->loop, r->index_op, &start);
    if (!e->ops.varies[r->index_op])
      continue;
    if (found || !index || (start != NO_OP && e->ops.varies[start]) ||
        !emit_floor_divs_are_uniform(e, index->affine) ||
        !extent_mul(g, index->affine->coef[e->vector_axis], r->stride,
                    &stride) ||
        !extent_add(g, stride, s->address->coef[e->vector_axis], &stride) ||
        stride != 1)
      return NULL;
    found = r;
  }
  return found;
}

/* A contiguous load of which some lanes may be out of bounds; these are not
 * loaded. */
static void emit_checked_vector_load(Emitter *e, uint32_t op_index,
                                     const KernelOp *s, const CheckedIndex *r,
                                     const char *base) {
  const AffineExpr *q = e->loop->ops.at[r->index_op].affine;
  const char *name = dtype_info[s->dtype].name;
  const char *index = emit_vector(e, r->index_op, e->ops.classes[r->index_op]);
  const char *extent = emit_int(e, r->extent);
  const char *from = format(
      e, "p%u + %s + %s + j", s->input, base,
      emit_affine_term(e, r->stride, format(e, "(%s)", emit_affine(e, q))));
  uint32_t w = e->next_id++;
  Buffer *b = emit_block_at(e, e->ops.levels[op_index]);
  if (e->ops.classes[r->index_op] == 'i')
    buffer_printf(b, "const vi w%u = test_i((vu)%s >= (uint32_t)%s);\n", w,
                  index, extent);
  else
    buffer_printf(b, "const vi w%u = test_l((vw)%s >= (uint64_t)%s);\n", w,
                  index, extent);
  emit_check(e, op_index, true, format(e, "w%u", w));
  emit_define_loaded(e, op_index,
                     format(e, "ldw_%s(%s, w%u, REST)", name, from, w));
}

/* The same for a sum of `start`, which is equal in all lanes, and an index of
 * stride 1: part of a row that begins at `start`.  Few loads are at its ends.
 */
static void emit_row_part_load(Emitter *e, uint32_t op_index, const KernelOp *s,
                               const AffineExpr *index, uint32_t start,
                               const char *extent, const char *base) {
  const char *name = dtype_info[s->dtype].name;
  uint32_t id = e->next_id++;
  Buffer *b = emit_block_at(e, e->ops.levels[op_index]);
  buffer_printf(b,
                "const int64_t f%u = %s + %s + j;\n"
                "const int in%u = f%u >= 0 && f%u <= %s - REST;\n"
                "const vi w%u = in%u ? splat_i(0) : outside_lanes(f%u, %s);\n",
                id, emit_operand(e, start, 'l', false), emit_affine(e, index),
                id, id, id, extent, id, id, id, extent);
  emit_check(e, op_index, true, format(e, "w%u", id));
  const char *from = format(e, "p%u + %s + f%u", s->input, base, id);
  emit_define_loaded(e, op_index,
                     format(e, "in%u ? LOAD(%s, %s) : ldw_%s(%s, w%u, REST)",
                            id, name, from, name, from, id));
}

static const char *lane_offset(Emitter *e, int64_t coef) {
  return coef == 1 ? "j" : format(e, "%s * j", emit_int(e, coef));
}

/* Two elements per lane.  If their number is odd, the element behind the last
 * is not read. */
static const char *emit_pair_load(Emitter *e, const KernelOp *s,
                                  const char *from) {
  if (!s->packed_elements)
    return format(e, "LOAD(pairs, %s + 2 * j)", from);
  return format(e, "ldh_pairs(%s + 2 * j, %s - 2 * j, REST)", from,
                emit_int(e, s->packed_elements));
}

/* Tests whether all quotients are equal in all lanes.  It suffices to compare
 * the first lane with the last, since quotients are monotonic.  NULL: some
 * quotients are not, or the load is not contiguous then. *rest becomes their
 * value. */
static const char *emit_uniform_quotient_test(Emitter *e, const AffineExpr *q,
                                              const char **rest) {
  const char *all_equal = NULL, *sum = NULL;
  for (uint32_t j = 0; j < MAX_FLOOR_DIVS; j++) {
    int64_t coef = q->coef[MAX_KERNEL_AXES + j];
    if (!coef || !e->floor_divs.varies[j])
      continue;
    if (!emit_floor_divs_are_uniform(e, &e->loop->floor_divs[j].dividend))
      return NULL;
    char c = floor_div_fits_i32(&e->loop->floor_divs[j]) ? 'i' : 'l';
    uint32_t name = e->floor_divs.first_name + j;
    const char *first = format(e, "first_%c(q%u)", c, name);
    const char *test = format(e, "%s == lane_%c(q%u, W - 1)", first, c, name);
    all_equal = all_equal ? format(e, "%s && %s", all_equal, test) : test;
    first = emit_affine_term(e, coef, first);
    sum = sum ? format(e, "%s + %s", sum, first) : first;
  }
  *rest = sum;
  return q->coef[e->vector_axis] == 1 ? all_equal : NULL;
}

/* The address of a gathered row. */
static const char *emit_row_pointer(Emitter *e, const KernelOp *s,
                                    const char *base) {
  AffineExpr *q = affine_copy(e->arena, s->address);
  q->coef[e->vector_axis] = 0;
  uint32_t level = emit_affine_level(e, q), name = e->next_id++;
  for (uint32_t j = 0; j < s->checked_index_count; j++)
    if (e->ops.levels[s->checked_indices[j].index_op] > level)
      level = e->ops.levels[s->checked_indices[j].index_op];
  bool is_outer = e->vector_axis + 1 == e->loop->parallel_axes &&
                  e->function.has_lane_begin &&
                  level >= OUTER_LEVEL; /* lo is known there */
  buffer_printf(emit_block_at(e, level),
                "const %s *r%u = p%u + %s%s;\nAPART(r%u);\n",
                memory_type(s->dtype), name, s->input, base,
                is_outer ? " + lo" : "", name);
  return format(e, is_outer ? "r%u + (j - lo)" : "r%u + j", name);
}

/* Loads lanes with a stride. */
static const char *emit_strided_load(Emitter *e, const KernelOp *s,
                                     const char *from, int64_t stride) {
  const char *name = dtype_info[s->dtype].name;
  if (stride == -1 && e->width > 1)
    return format(e, "ldb_%s(%s, REST)", name, from);
  bool has_small_stride =
      stride >= 2 && stride <= MAX_DEINTERLEAVE && e->width > 1;
  const char *rest =
      has_small_stride && e->reads_past_tail && s->kind == KOP_LOAD_LOCAL
          ? "W"
          : "REST";
  if (has_small_stride)
    return format(e, "lds%d_%s(%s, %s)", (int)stride, name, from, rest);
  return format(e, "lds_%s(%s, %s, %s)", name, from, emit_int(e, stride), rest);
}

bool emit_is_vector_load(const Emitter *e, const KernelOp *s) {
  int64_t stride = s->address->coef[e->vector_axis];
  if (s->kind == KOP_LOAD_LOCAL && e->vector_axis == e->loop->parallel_axes - 1)
    return !e->function.locals_by_point && !emit_affine_varies(e, s->address);
  for (uint32_t j = 0; s->kind == KOP_LOAD && j < s->checked_index_count; j++)
    if (e->ops.varies[s->checked_indices[j].index_op])
      return false;
  return emit_floor_divs_are_uniform(e, s->address) &&
         !emit_is_transposed_read(e, s) && stride >= 1 &&
         stride <= (e->width > 1 ? MAX_DEINTERLEAVE : 1);
}

static const char *emit_gather_prefetch(Emitter *e, const KernelOp *s) {
  const Dialect *d = e->dialect;
  return d->emit_gather_prefetch ? d->emit_gather_prefetch(e, s) : NULL;
}

static const char *emit_next_row_prefetch(Emitter *e, const KernelOp *s) {
  const Dialect *d = e->dialect;
  return d->emit_next_row_prefetch ? d->emit_next_row_prefetch(e, s) : NULL;
}

/* A pointer to the elements of an input that a load reads.  Words of four bytes
 * may begin anywhere: is_unaligned if the access admits that. */
static const char *input_pointer(Emitter *e, const KernelOp *s,
                                 bool is_unaligned) {
  const char *form = !s->packed_bytes ? "p%u"
                     : is_unaligned   ? "((const quads *)p%u)"
                                      : "((const int32_t *)(const void *)p%u)";
  return format(e, form, s->input);
}

/* A contiguous or strided load, also of a row that data select. */
static void emit_direct_load(Emitter *e, uint32_t op_index, const KernelOp *s,
                             const char *base) {
  int64_t stride = s->address->coef[e->vector_axis];
  bool is_quads = s->packed_bytes && stride == 1;
  const char *name = is_quads ? "quads" : dtype_info[s->dtype].name;
  bool row = stride == 1 && s->checked_index_count;
  const char *from =
      row ? emit_row_pointer(e, s, base)
          : format(e, "%s + %s + %s", input_pointer(e, s, is_quads), base,
                   lane_offset(e, stride));
  const char *prefetched = row ? emit_gather_prefetch(e, s) : NULL;
  if (prefetched)
    buffer_printf(emit_block_at(e, e->ops.levels[op_index]),
                  "__builtin_prefetch(%s);\n",
                  emit_row_pointer(e, s, prefetched));
  const char *next = row ? NULL : emit_next_row_prefetch(e, s);
  if (next)
    buffer_puts(emit_block_at(e, e->ops.levels[op_index]), next);
  emit_define_loaded(e, op_index,
                     stride == 1 ? format(e, "LOAD(%s, %s)", name, from)
                                 : emit_strided_load(e, s, from, stride));
}

/* Lanes at any place. */
static void emit_gather(Emitter *e, uint32_t op_index, const KernelOp *s,
                        const char *base) {
  const char *name = dtype_info[s->dtype].name;
  const char *index = emit_varying_terms(e, s->address, 'l'), *rest;
  bool has_varying_index = false;
  for (uint32_t j = 0; j < s->checked_index_count; j++)
    if (e->ops.varies[s->checked_indices[j].index_op]) {
      has_varying_index = true;
      index = add_varying_index(e, op_index, &s->checked_indices[j], index);
    }
  const char *gather = format(e, "ldx_%s(%s + %s, %s, REST)", name,
                              input_pointer(e, s, false), base, index);
  const char *is_uniform =
      has_varying_index ? NULL
                        : emit_uniform_quotient_test(e, s->address, &rest);
  if (is_uniform)
    gather = format(e, "%s ? LOAD(%s, %s + %s + j + %s) : %s", is_uniform, name,
                    input_pointer(e, s, false), base, rest, gather);
  emit_define_loaded(e, op_index, gather);
}

/* How the lanes of a load from memory are read.  *unit_stride: the index of
 * LOAD_CHECKED and LOAD_ROW_PART. */
static LoadForm global_load_form(const Emitter *e, uint32_t op_index,
                                 const CheckedIndex **unit_stride) {
  const KernelOp *s = &e->loop->ops.at[op_index];
  bool is_direct = emit_floor_divs_are_uniform(e, s->address);
  for (uint32_t j = 0; j < s->checked_index_count; j++)
    is_direct &= !e->ops.varies[s->checked_indices[j].index_op];
  if (s->packed_pairs)
    return LOAD_PAIRS;
  if (!e->ops.varies[op_index])
    return LOAD_UNIFORM;
  if (is_direct && s->address->coef[e->vector_axis] == 1)
    return LOAD_CONTIGUOUS;
  if (is_direct)
    return emit_is_transposed_read(e, s) ? LOAD_TRANSPOSED : LOAD_STRIDED;
  uint32_t start;
  *unit_stride = unit_stride_index(e, s);
  if (!*unit_stride)
    return LOAD_GATHER;
  loop_index_affine(e->loop, (*unit_stride)->index_op, &start);
  return start == NO_OP                ? LOAD_CHECKED
         : (*unit_stride)->stride == 1 ? LOAD_ROW_PART
                                       : LOAD_GATHER;
}

void emit_load_op(Emitter *e, uint32_t op_index, const KernelOp *s) {
  const char *base = emit_affine(e, s->address);
  const CheckedIndex *unit_stride = NULL;
  uint32_t start;
  for (uint32_t j = 0; j < s->checked_index_count; j++)
    if (!e->ops.varies[s->checked_indices[j].index_op])
      base = add_uniform_index(e, op_index, &s->checked_indices[j], base);
  switch (global_load_form(e, op_index, &unit_stride)) {
  case LOAD_PAIRS:
    emit_define(e, op_index,
                emit_pair_load(e, s, format(e, "p%u + %s", s->input, base)));
    break;
  case LOAD_UNIFORM:
    emit_define(
        e, op_index,
        emit_element_load(e, s->dtype, input_pointer(e, s, true), base));
    break;
  case LOAD_TRANSPOSED:
    emit_define_loaded(
        e, op_index,
        emit_transposed_read(
            e, s->dtype, e->ops.classes[op_index],
            format(e, "%s + %s", input_pointer(e, s, false), base),
            emit_int(e, s->address->coef[e->vector_axis])));
    break;
  case LOAD_CONTIGUOUS:
  case LOAD_STRIDED:
    emit_direct_load(e, op_index, s, base);
    break;
  case LOAD_CHECKED:
    emit_checked_vector_load(e, op_index, s, unit_stride, base);
    break;
  case LOAD_ROW_PART: {
    const KernelOp *index =
        loop_index_affine(e->loop, unit_stride->index_op, &start);
    emit_row_part_load(e, op_index, s, index->affine, start,
                       emit_int(e, unit_stride->extent), base);
    break;
  }
  case LOAD_GATHER:
    emit_gather(e, op_index, s, base);
    break;
  }
}

/* ---- local buffers ---- */

const char *emit_local_offset(Emitter *e, const LocalBuffer *l,
                              const AffineExpr *q) {
  return e->dialect->emit_local_offset ? e->dialect->emit_local_offset(e, l, q)
                                       : emit_affine(e, q);
}

/* Lanes along the rows of a task, as in packing. */
static void emit_local_row_gather(Emitter *e, uint32_t op_index,
                                  const KernelOp *s) {
  const LocalBuffer *l = &e->function.locals[s->source_loop][s->source_output];
  const char *inner = emit_affine(e, s->address);
  emit_define_loaded(e, op_index,
                     format(e, "lds_%s(l%u + %s + (j - lo) * %s, %s, REST)",
                            dtype_info[s->dtype].name, l->id, inner,
                            l->point_elements, l->point_elements));
}

/* Loads a staged output along the last parallel axis. */
static void emit_staged_load(Emitter *e, uint32_t op_index, const KernelOp *s,
                             const LocalBuffer *l) {
  const char *from =
      format(e, "l%u + %s + (i%u - lo)", l->id,
             emit_local_offset(e, l, s->address), e->loop->parallel_axes - 1);
  const char *stride =
      format(e, "%s * %s", emit_int(e, s->address->coef[e->vector_axis]),
             l->row_elements);
  emit_define(e, op_index,
              emit_transposed_read(e, s->dtype, e->ops.classes[op_index], from,
                                   stride));
}

/* Returns true if the lanes are iterations of the last parallel axis, whose
 * values are rows of the local buffer. */
static bool lanes_are_outer(const Emitter *e) {
  return e->vector_axis == e->loop->parallel_axes - 1;
}

static LoadForm local_load_form(const Emitter *e, uint32_t op_index) {
  const KernelOp *s = &e->loop->ops.at[op_index];
  bool is_outer = lanes_are_outer(e);
  if (e->loop->staging == STAGE_OUT)
    return LOAD_TRANSPOSED;
  if (e->function.locals_by_point && is_outer)
    return LOAD_STRIDED;
  if (s->packed_pairs)
    return LOAD_PAIRS;
  if (!e->ops.varies[op_index])
    return LOAD_UNIFORM;
  if (is_outer ? emit_affine_varies(e, s->address)
               : !emit_floor_divs_are_uniform(e, s->address))
    return LOAD_GATHER;
  return is_outer || s->address->coef[e->vector_axis] == 1 ? LOAD_CONTIGUOUS
                                                           : LOAD_STRIDED;
}

LoadForm emit_load_form(const Emitter *e, uint32_t op_index) {
  const CheckedIndex *ignored;
  return e->loop->ops.at[op_index].kind == KOP_LOAD
             ? global_load_form(e, op_index, &ignored)
             : local_load_form(e, op_index);
}

static void emit_local_gather(Emitter *e, uint32_t op_index, const KernelOp *s,
                              const LocalBuffer *l, const char *to) {
  const char *index = emit_varying_terms(e, s->address, 'l'), *lane = "";
  if (lanes_are_outer(e)) {
    index = format(e, "wide(lanes()) + %s * (%s)", l->row_elements, index);
    lane = " + (j - lo)";
  }
  emit_define_loaded(e, op_index,
                     format(e, "ldx_%s(l%u + %s%s, %s, REST)",
                            dtype_info[s->dtype].name, l->id, to, lane, index));
}

static void emit_local_vector(Emitter *e, uint32_t op_index, const KernelOp *s,
                              const LocalBuffer *l, const char *to) {
  const char *from =
      lanes_are_outer(e)
          ? format(e, "l%u + %s + (j - lo)", l->id, to)
          : format(e, "l%u + %s + %s", l->id, to,
                   lane_offset(e, s->address->coef[e->vector_axis]));
  const char *load = e->reads_past_tail
                         ? "ld_%s(%s)"
                         : "LOAD(%s, %s)"; /* the overread is allocated */
  if (local_load_form(e, op_index) == LOAD_CONTIGUOUS)
    emit_define_loaded(e, op_index,
                       format(e, load, dtype_info[s->dtype].name, from));
  else
    emit_define_loaded(
        e, op_index,
        emit_strided_load(e, s, from, s->address->coef[e->vector_axis]));
}

void emit_local_load_op(Emitter *e, uint32_t op_index, const KernelOp *s) {
  const LocalBuffer *l = &e->function.locals[s->source_loop][s->source_output];
  LoadForm form = local_load_form(e, op_index);
  if (form == LOAD_TRANSPOSED) {
    emit_staged_load(e, op_index, s, l);
    return;
  }
  if (e->function.locals_by_point && lanes_are_outer(e)) {
    emit_local_row_gather(e, op_index, s);
    return;
  }
  const char *to = emit_local_offset(e, l, s->address);
  if (form == LOAD_PAIRS)
    emit_define(e, op_index,
                emit_pair_load(e, s, format(e, "l%u + %s", l->id, to)));
  else if (form == LOAD_UNIFORM)
    emit_define(e, op_index,
                emit_element_load(e, s->dtype, format(e, "l%u", l->id), to));
  else if (form == LOAD_GATHER)
    emit_local_gather(e, op_index, s, l, to);
  else
    emit_local_vector(e, op_index, s, l, to);
}
