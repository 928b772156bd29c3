/* Indices of the axes of a nest, as CUDA C++: sums of the iterations of their
 * loops. */
#include "backend/cuda/nest_emit.h"

#define format emit_format

/* ---- sizes ---- */

int64_t nest_outermost_count(const NestWriter *p, uint32_t axis, int64_t step) {
  Emitter *e = &p->w->e;
  const NestFlattened *f = nest_flattened(p->nest, axis);
  int64_t all = 1;
  if (!f)
    return emit_extent_ceil_div(e, p->spec->extents[axis], step);
  for (uint32_t j = f->count; j-- > 0;)
    all = emit_extent_mul(
        e, all, nest_outermost_count(p, f->loops[j].axis, f->loops[j].step));
  return emit_extent_ceil_div(e, all, step);
}

int64_t nest_loop_count(const NestWriter *p, uint32_t at) {
  const NestLoop *l = &p->nest->loops[at];
  return l->count ? l->count : nest_outermost_count(p, l->axis, l->step);
}

/* The elements of an iteration of a flattened loop: a row counts elements, and
 * others count vectors. */
static int64_t flattened_unit(const NestWriter *p, uint32_t axis) {
  const NestFlattened *f = nest_flattened(p->nest, axis);
  return f && p->row ? f->loops[f->count - 1].step : 1;
}

int64_t nest_index_step(const NestWriter *p, uint32_t at) {
  const NestLoop *l = &p->nest->loops[at];
  return l->step * flattened_unit(p, l->axis);
}

int64_t nest_index_count(const NestWriter *p, uint32_t axis) {
  return p->row && axis == p->row->axis ? p->row_length
                                        : nest_outermost_count(p, axis, 1);
}

const char *nest_end_of(NestWriter *p, const NestPlace *place, uint32_t axis) {
  if (!place->ends[axis] && !p->ends[axis])
    p->ends[axis] = emit_int(&p->w->e, nest_index_count(p, axis));
  return place->ends[axis] ? place->ends[axis] : p->ends[axis];
}

/* ---- indices ---- */

void nest_add_index(const NestWriter *p, NestPlace *place, uint32_t axis,
                    const char *name, int64_t step) {
  Emitter *e = &p->w->e;
  const char *term =
      step == 1 ? name : format(e, "%s * %lld", name, (long long)step);
  place->indices[axis] = place->indices[axis]
                             ? format(e, "%s + %s", place->indices[axis], term)
                             : term;
}

const char *nest_index_of(const NestPlace *place, uint32_t axis) {
  return place->indices[axis] ? place->indices[axis] : "0";
}

bool nest_needs_test(const NestWriter *p, const NestPlace *place, uint32_t axis,
                     uint32_t exact) {
  const Nest *n = p->nest;
  uint32_t count = nest_axis_is_flattened(n, axis);
  for (uint32_t j = 0; j < n->loop_count; j++)
    count += n->loops[j].axis == axis;
  return count > exact && !place->is_range[axis] && !place->is_full[axis];
}

/* The loops that became one loop, from its index g. */
static void put_flattened(const NestWriter *p, NestPlace *place,
                          const NestFlattened *f, const char *g, Buffer *out) {
  Emitter *e = &p->w->e;
  const char *names[MAX_KERNEL_AXES];
  int64_t counts[MAX_KERNEL_AXES];
  for (uint32_t j = 0; j < f->count; j++) {
    const NestLoop *l = &f->loops[j];
    bool is_whole = nest_find(p->nest, l->axis, 0) == NO_LOOP;
    int64_t step = l->step;
    if (p->row && l->step > 1) { /* g counts elements */
      counts[j] = p->spec->extents[l->axis];
      step = 1;
    } else {
      counts[j] = nest_outermost_count(p, l->axis, l->step);
    }
    names[j] = format(e, is_whole ? "i%u" : "f%u", l->axis);
    if (!is_whole)
      nest_add_index(p, place, l->axis, names[j], step);
  }
  cuda_put_unravel_names(p->w, out, f->count, names, counts, g);
}

bool nest_put_index(NestWriter *p, NestPlace *place, uint32_t axis,
                    Buffer *out) {
  Emitter *e = &p->w->e;
  const char *type = p->w->dialect.index_type, *g = nest_index_of(place, axis);
  const NestFlattened *f = nest_flattened(p->nest, axis);
  bool has_test = nest_needs_test(p, place, axis, 1);
  const char *name = format(e, f ? "g" : "i%u", axis);
  if (!f)
    buffer_printf(out, "const %s %s = %s;\n", type, name, g);
  else if (!place->is_range[axis] && p->row)
    buffer_printf(out, "const %s g = %s;\n", type, g);
  else if (!place->is_range[axis])
    buffer_printf(out, "const int64_t g = (int64_t)%s;\n", g);
  if (has_test)
    buffer_printf(out, "if (%s < %s) {\n", name, nest_end_of(p, place, axis));
  if (f && place->is_range[axis])
    put_flattened(p, place, f, g, out);
  else if (f)
    put_flattened(p, place, f, p->row ? "g" : format(e, "(%s)g", type), out);
  return has_test;
}
