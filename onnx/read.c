/* Reads of other nodes.  Indices that are axes become Transpose and Slice,
 * other ones Gather.  Indices that share an axis are first made one: the axes
 * of the operand that they index are flattened. */
#include "onnx/emit.h"
#include "session/state.h"

#include <string.h>

typedef struct ReadAxis { /* an axis of the operand, or of the result */
  bool is_done;
  uint32_t axis;  /* is_done */
  int64_t extent; /* else: of the operand */
  Dim *index;     /* or NULL: */
  Labeled value;  /* the index, computed */
  uint32_t axes;  /* that the index mentions */
} ReadAxis;

typedef struct Reader {
  Exporter *x;
  const AxisSizes *a;
  const char *name;
  ReadAxis axes[2 * MAX_RANK];
  uint32_t rank;
} Reader;

/* ---- bounds of indices ---- */

/* The least and the largest value of an index that is linear in the axes. */
static bool linear_bounds(Exporter *x, const AxisSizes *a, Dim *d, Dim **low,
                          Dim **high) {
  uint32_t axes = dim_axes(x, d);
  *low = *high = d;
  for (uint32_t k = 0; k < a->count; k++) {
    Dim *slope, *rest;
    int64_t n;
    if (!(axes >> k & 1))
      continue;
    Dim *last = dim_sub(x->dims, extent_dim(x->graph, a->extents[k]),
                        dim_int(x->dims, 1));
    for (int i = 0; i < 2; i++) {
      Dim **end = i ? high : low;
      if (!dim_split_linear(x->dims, *end, x->axis_vars[k], &slope, &rest) ||
          !dim_is_int(slope, &n))
        return false;
      *end = (n < 0) == (i == 0)
                 ? dim_add(x->dims, rest, dim_mul(x->dims, slope, last))
                 : rest;
    }
  }
  return true;
}

static bool is_in_bounds(Exporter *x, const AxisSizes *a, Dim *d,
                         int64_t extent) {
  Dim *low, *high;
  return linear_bounds(x, a, d, &low, &high) &&
         extent_proved(x->graph, EXTENT_LE, 0, extent_of_dim(x->graph, low)) &&
         extent_proved_less(x->graph, extent_of_dim(x->graph, high), extent);
}

/* An index that may be invalid where the value is not used is clipped. */
static Labeled index_value(const Reader *r, const ReadAxis *e) {
  Exporter *x = r->x;
  Labeled v = e->index ? put_dim(x, r->a, e->index) : e->value;
  if (!r->a->is_guarded ||
      (e->index && is_in_bounds(x, r->a, e->index, e->extent)))
    return v;
  int64_t last;
  if (!extent_sub(x->graph, e->extent, 1, &last))
    return v;
  const char *zero = put_int(x, 0);
  v.name = put_op(x, "Clip", v.name, zero, put_extent(x, last));
  return v;
}

/* ---- steps ---- */

static void transpose_to(Reader *r, const uint32_t *order) {
  int64_t perm[2 * MAX_RANK];
  ReadAxis old[2 * MAX_RANK];
  memcpy(old, r->axes, sizeof old);
  for (uint32_t k = 0; k < r->rank; k++) {
    perm[k] = order[k];
    r->axes[k] = old[order[k]];
  }
  r->name = put_transpose(r->x, r->name, r->rank, perm);
}

static void remove_axis(Reader *r, uint32_t at) {
  memmove(&r->axes[at], &r->axes[at + 1],
          (r->rank - at - 1) * sizeof r->axes[0]);
  r->rank--;
}

static const char *put_gather(Exporter *x, const char *name, const char *index,
                              uint32_t at) {
  OpMessage *op = op_new(x, "Gather");
  op_input(x, op, name);
  op_input(x, op, index);
  op_int(x, op, "axis", at);
  return op_output(x, op);
}

/* Makes one index of all that belong to a group.  Other axes come first. */
static void flatten_group(Reader *r, const bool *in_group) {
  Exporter *x = r->x;
  uint32_t order[2 * MAX_RANK], count = 0, rest;
  for (uint32_t k = 0; k < r->rank; k++)
    if (!in_group[k])
      order[count++] = k;
  rest = count;
  for (uint32_t k = 0; k < r->rank; k++)
    if (in_group[k])
      order[count++] = k;
  transpose_to(r, order);
  ReadAxis all = {.extent = 1, .index = dim_int(x->dims, 0)};
  int64_t stride = 1, sizes[2 * MAX_RANK];
  for (uint32_t k = r->rank; k-- > rest;) {
    ReadAxis *e = &r->axes[k];
    Labeled scaled[2];
    all.axes |= e->axes;
    if (all.index && e->index &&
        (!r->a->is_guarded || is_in_bounds(x, r->a, e->index, e->extent))) {
      Dim *part = dim_mul(x->dims, e->index, extent_dim(x->graph, stride));
      all.index = dim_add(x->dims, all.index, part);
    } else {
      scaled[0] = all.index ? put_dim(x, r->a, all.index) : all.value;
      Labeled by[2] = {index_value(r, e)};
      by[1].name = put_extent(x, stride);
      scaled[1] = put_expression(x, "Mul($x, $y)", DT_I64, 2, by);
      all.value = put_expression(x, "Add($x, $y)", DT_I64, 2, scaled);
      all.index = NULL;
    }
    if (!extent_mul(x->graph, stride, e->extent, &stride))
      export_fail(x, NULL, "a size is too large");
  }
  all.extent = stride;
  for (uint32_t k = 0; k < rest; k++)
    sizes[k] = r->axes[k].extent;
  sizes[rest] = stride;
  r->name = put_op(x, "Reshape", r->name, put_shape(x, rest + 1, sizes), NULL);
  r->axes[rest] = all;
  r->rank = rest + 1;
}

/* Flattens the axes whose indices share an axis with those of axis k. */
static bool flatten_shared(Reader *r) {
  for (uint32_t k = 0; k < r->rank; k++) {
    bool in_group[2 * MAX_RANK] = {0};
    uint32_t axes = r->axes[k].axes, count = 1;
    in_group[k] = true;
    for (bool more = axes != 0; more;) {
      more = false;
      for (uint32_t j = 0; j < r->rank; j++)
        if (!in_group[j] && r->axes[j].axes & axes) {
          in_group[j] = more = true;
          axes |= r->axes[j].axes;
          count++;
        }
    }
    if (count > 1) {
      flatten_group(r, in_group);
      return true;
    }
  }
  return false;
}

static const char *ends_of(Exporter *x, Dim *d) {
  int64_t n, extent = extent_of_dim(x->graph, d);
  if (dim_is_int(d, &n))
    return put_list(x, 1, &n);
  return put_shape(x, 1, &extent);
}

/* An index that is `slope * axis + start`: all elements, or a Slice. */
static bool slice_axis(Reader *r, uint32_t at) {
  Exporter *x = r->x;
  ReadAxis *e = &r->axes[at];
  if (!e->index || __builtin_popcount(e->axes) != 1)
    return false;
  uint32_t k = (uint32_t)__builtin_ctz(e->axes);
  int64_t step, extent = r->a->extents[k], place = at;
  Dim *slope, *start;
  if (!dim_split_linear(x->dims, e->index, x->axis_vars[k], &slope, &start) ||
      !dim_is_int(slope, &step) || step == 0)
    return false;
  if (r->a->is_guarded && !is_in_bounds(x, r->a, e->index, e->extent))
    return false;
  int64_t zero;
  bool from_zero = dim_is_int(start, &zero) && zero == 0;
  if (!(step == 1 && from_zero && extent == e->extent)) {
    Dim *end =
        dim_add(x->dims, start,
                dim_add(x->dims,
                        dim_mul(x->dims, slope,
                                dim_sub(x->dims, extent_dim(x->graph, extent),
                                        dim_int(x->dims, 1))),
                        dim_int(x->dims, step < 0 ? -1 : 1)));
    int64_t before_all = INT64_MIN + 1;
    OpMessage *op = op_new(x, "Slice");
    op_input(x, op, r->name);
    op_input(x, op, ends_of(x, start));
    int64_t last;
    op_input(x, op,
             step < 0 && (!dim_is_int(end, &last) || last < 0)
                 ? put_list(x, 1, &before_all)
                 : ends_of(x, end));
    op_input(x, op, put_list(x, 1, &place));
    op_input(x, op, put_list(x, 1, &step));
    r->name = op_output(x, op);
  }
  e->is_done = true;
  e->axis = k;
  e->extent = extent;
  return true;
}

static void gather_axis(Reader *r, uint32_t at) {
  ReadAxis e = r->axes[at];
  Labeled index = index_value(r, &e);
  uint32_t count = (uint32_t)__builtin_popcount(index.axes);
  r->name = put_gather(r->x, r->name, index.name, at);
  remove_axis(r, at);
  memmove(&r->axes[at + count], &r->axes[at],
          (r->rank - at) * sizeof r->axes[0]);
  r->rank += count;
  for (uint32_t k = 0; k < MAX_RANK; k++)
    if (index.axes >> k & 1)
      r->axes[at++] =
          (ReadAxis){.is_done = true, .axis = k, .extent = r->a->extents[k]};
}

static Labeled in_order(Reader *r) {
  uint32_t order[2 * MAX_RANK], axes = 0;
  for (uint32_t k = 0; k < r->rank; k++)
    axes |= 1u << r->axes[k].axis;
  for (uint32_t k = 0; k < r->rank; k++)
    order[lower_axes(axes, r->axes[k].axis)] = k;
  transpose_to(r, order);
  return (Labeled){r->name, axes};
}

/* True if the elements keep their order: the indices, as one number, count the
 * elements of the result. */
static bool reshape_all(Reader *r, Labeled *out) {
  Exporter *x = r->x;
  Dim *place = dim_int(x->dims, 0), *stride = dim_int(x->dims, 1);
  Dim *wanted = place, *count = stride;
  uint32_t axes = 0, rank = 0;
  int64_t sizes[MAX_RANK];
  for (uint32_t k = r->rank; k-- > 0;) {
    if (!r->axes[k].index)
      return false;
    axes |= r->axes[k].axes;
    place = dim_add(x->dims, place, dim_mul(x->dims, r->axes[k].index, stride));
    stride = dim_mul(x->dims, stride, extent_dim(x->graph, r->axes[k].extent));
  }
  for (uint32_t k = r->a->count; k-- > 0;)
    if (axes >> k & 1) {
      wanted = dim_add(
          x->dims, wanted,
          dim_mul(x->dims, dim_of_var(x->dims, x->axis_vars[k]), count));
      count = dim_mul(x->dims, count, extent_dim(x->graph, r->a->extents[k]));
    }
  if (!dim_equal(place, wanted) || !dim_equal(stride, count))
    return false;
  for (uint32_t k = 0; k < r->a->count; k++)
    if (axes >> k & 1)
      sizes[rank++] = r->a->extents[k];
  *out = (Labeled){
      put_op(x, "Reshape", r->name, put_shape(x, rank, sizes), NULL), axes};
  return true;
}

static bool is_plain(const Reader *r) {
  uint32_t seen = 0;
  for (uint32_t k = 0; k < r->rank; k++) {
    const ReadAxis *e = &r->axes[k];
    if (!e->index || seen & e->axes || __builtin_popcount(e->axes) > 1)
      return false;
    seen |= e->axes;
  }
  return true;
}

Labeled lower_read(Exporter *x, const AxisSizes *a, Formula *f) {
  Labeled source = node_value(x, f->node);
  AxisSizes from = node_axes(f->node);
  Reader *r = MAKE(x->arena, Reader);
  r->x = x;
  r->a = a;
  r->name = source.name;
  for (uint32_t k = 0; k < f->arg_count; k++) {
    if (!(source.axes >> k & 1))
      continue;
    Formula *index = f->args[k];
    ReadAxis *e = &r->axes[r->rank++];
    e->extent = from.extents[k];
    e->index = index->dim;
    if (!e->index)
      e->value = lower_formula(x, a, index);
    e->axes = e->index ? dim_axes(x, e->index) : e->value.axes;
  }
  Labeled out;
  if (!is_plain(r) && reshape_all(r, &out))
    return out;
  while (flatten_shared(r))
    ;
  for (uint32_t k = 0; k < r->rank;) {
    if (r->axes[k].is_done || slice_axis(r, k)) {
      k++;
      continue;
    }
    gather_axis(r, k);
  }
  return in_order(r);
}
