/* Operands of nests: tiles in shared memory, rows in registers, vectors, and
 * values that earlier loop nests of the pass computed for this point.
 *
 * If operands are contiguous along another axis than the results, a block loads
 * square tiles of them in their memory order, and transposes them in shared
 * memory. */
#include "backend/cuda/row_kernel.h"
#include "machine/limits/cuda.h"
#include "support/arena.h"

#define format emit_format

/* ---- tiles in shared memory ---- */

/* The index of a tile along an axis.  The outermost loop of the axis is over
 * blocks. */
static const char *tile_begin(const NestWriter *p, uint32_t axis) {
  uint32_t j = 0;
  while (p->nest->loops[j].axis != axis)
    j++;
  return format(&p->w->e, "b%u * %lld", j, (long long)p->nest->loops[j].step);
}

/* Loads the tile of an operand in its memory order, so that accesses are
 * coalesced: adjacent threads load along the contiguous axis.  A thread issues
 * all its loads before the first store.  Returns the element of a thread. */
static const char *put_tile(NestWriter *p, const LoopNest *loop,
                            const KernelOp *s) {
  CudaWriter *w = p->w;
  Emitter *e = &w->e;
  const Nest *n = p->nest;
  uint32_t last = n->loop_count - 1, far = n->loops[last].axis,
           near = n->shared_axis, side = cuda_nest_tile_side(n),
           rows = (uint32_t)n->loops[last - 1].count,
           pitch = cuda_nest_tile_pitch(n, s->dtype);
  const char *name = format(e, "r%u", e->next_id++), *t = memory_type(s->dtype),
             *far0 = tile_begin(p, far), *near0 = tile_begin(p, near);
  AffineExpr rest = *s->address;
  rest.coef[near] = rest.coef[far] = 0;
  const char *far_extent = emit_int(e, loop->extents[far]);
  const char *near_extent = emit_int(e, loop->extents[near]);
  const char *base = emit_affine(e, &rest);
  const char *far_stride = emit_int(e, s->address->coef[far]);
  buffer_printf(&p->tiles,
                "%s *const %s = (%s *)(ax_shared() + %lld);\n"
                "{\n%s parts[%u];\n"
                "#pragma unroll\n"
                "for (int q = 0; q < %u; q++) {\n"
                "const int r = t%u + q * %u;\n"
                "parts[q] = %s + r < %s && %s + t%u < %s\n"
                "? p%u[%s + %s * (%s + r) + %s + t%u] : %s(0);\n}\n",
                t, name, t, (long long)p->shared_bytes, t, side / rows,
                side / rows, last - 1, rows, far0, far_extent, near0, last,
                near_extent, s->input, base, far_stride, far0, near0, last, t);
  buffer_printf(&p->tiles,
                "#pragma unroll\n"
                "for (int q = 0; q < %u; q++)\n"
                "%s[(t%u + q * %u) * %u + t%u] = parts[q];\n}\n",
                side / rows, name, last - 1, rows, pitch, last);
  p->shared_bytes += cuda_nest_tile_bytes(n, s->dtype);
  return cuda_load_element(
      e, s->dtype, name,
      format(e, "t%u * %u + i%u - %s", last, pitch, near, near0));
}

/* ---- rows in registers ---- */

static bool is_same_load(const KernelOp *x, const KernelOp *y) {
  return x->kind == KOP_LOAD && !x->checked_index_count &&
         x->input == y->input && affine_equal(x->address, y->address);
}

static const char *find_register_row(const NestWriter *p, const KernelOp *s) {
  for (uint32_t j = 0; j < p->group->register_rows.len; j++) {
    const RegisterRow *row = &p->group->register_rows.at[j];
    if (is_same_load(row->load, s) && row_nests_match(row->nest, p->row))
      return row->name;
  }
  return NULL;
}

/* True if a later loop nest loads the same element in the same thread. */
static bool is_read_again(const NestWriter *p, const KernelOp *s) {
  const CudaWriter *w = p->w;
  for (uint32_t j = p->loop_index + 1; j < w->k->loops.len; j++) {
    const LoopNest *loop = w->k->loops.at[j];
    for (uint32_t i = 0; i < loop->ops.len; i++)
      if (is_same_load(&loop->ops.at[i], s) &&
          row_nests_match(p->row, &w->s->rows[j]))
        return true;
  }
  return false;
}

/* Loads all row elements of a thread before the loop. */
static void put_early_load(NestWriter *p, const KernelOp *s, const char *name) {
  EarlyLoads *early = &p->early;
  const char *to = format(&p->w->e, "%s + t * %u", name, p->vectors.width);
  vector_put_load(&p->vectors, &early->vectors, s, to, "true || ");
  vector_put_load(&p->vectors, &early->scalars, s, to, "false && ");
  buffer_printf(&early->aligned, "%sax_aligned(p%u)",
                early->aligned.len ? " && " : "", s->input);
  early->elements += p->registers * p->vectors.width;
}

/* A load in an unrolled loop over a row.  NULL: the load is scalar. */
static const char *bind_row(NestWriter *p, const KernelOp *s) {
  Emitter *e = &p->w->e;
  uint32_t width = p->vectors.width, elements = p->registers * width;
  const char *index = width > 1 ? format(e, "t * %u + v", width) : "t";
  bool is_vector = vector_fits(&p->vectors, s->address);
  const char *name = find_register_row(p, s);
  if (name)
    return cuda_load_element(e, s->dtype, name, index);
  bool keep = is_read_again(p, s) && (is_vector || width == 1);
  if (!is_vector && !keep)
    return NULL;
  if (!keep && p->early.elements + elements > MAX_EARLY_ELEMENTS)
    return vector_load(&p->vectors, s);
  name =
      vector_declare(&p->vectors, &p->group->body, 'r', s->dtype, p->registers);
  if (keep)
    VEC_PUSH(e->arena, p->group->register_rows,
             ((RegisterRow){p->row, s, name}));
  const char *element = cuda_load_element(e, s->dtype, name, index);
  if (!is_vector)
    return format(e, "(%s[t] = p%u[%s], %s)", name, s->input,
                  emit_affine(e, s->address), element);
  put_early_load(p, s, name);
  return element;
}

/* ---- all operands ---- */

const char *nest_bind_operand(NestWriter *p, const LoopNest *loop,
                              const KernelOp *s) {
  if (s->kind == KOP_LOAD_LOCAL)
    return cuda_load_value(p->w, s, p->vectors.width);
  if (s->kind != KOP_LOAD || s->checked_index_count)
    return NULL;
  if (cuda_nest_shares(p->nest, loop, s))
    return put_tile(p, loop, s);
  if (p->registers && !affine_has_floor_divs(s->address) &&
      cuda_depends_on_axis(loop, s->address, p->vectors.axis))
    return bind_row(p, s);
  return vector_fits(&p->vectors, s->address) ? vector_load(&p->vectors, s)
                                              : NULL;
}
