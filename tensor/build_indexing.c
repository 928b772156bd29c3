/* Indexing: x.[...] with exact indices, ranges, new axes and gathers. */
#include "tensor/internal.h"

static bool is_index_type(const Node *x, Fault *fault) {
  if (dtype_is_int(x->dtype))
    return true;
  fault_set(fault, "indices must be integers; found %s",
            dtype_info[x->dtype].name);
  return false;
}

static bool check_index(Graph *g, const Node *x, uint32_t axis,
                        const Node *index, Fault *fault) {
  Scalar known;
  int64_t extent = node_own_extents(x)[axis], at;
  if (!is_index_type(index, fault))
    return false;
  if (g->guard || (!node_known(index, &known) && !node_is_extent(index, &at)))
    return true; /* what is unknown here is checked at run time */
  if (node_known(index, &known))
    at = known.i;
  int64_t last = extent_sub_saturating(g, extent, 1);
  if (extent_holds_trivially(g, EXTENT_LE, 0, at) &&
      extent_holds_trivially(g, EXTENT_LE, at, last))
    return true;
  fault_set(fault, "index %s is out of bounds for axis %u of size %s",
            extent_text(g, at).text, axis, extent_text(g, extent).text);
  Fault saved = *fault;
  if (!extent_require(g, EXTENT_LE, 0, at, fault))
    return false;
  *fault = saved;
  return extent_require(g, EXTENT_LE, at, last, fault);
}

static bool check_slice(Graph *g, const Node *x, uint32_t axis,
                        const Subscript *subscript, Fault *fault) {
  int64_t extent = node_own_extents(x)[axis];
  int64_t ends[] = {0, subscript->start, subscript->stop, extent};
  for (uint32_t k = 0; k < 3; k++) {
    if (extent_holds_trivially(g, EXTENT_LE, ends[k], ends[k + 1]))
      continue;
    fault_set(fault, "slice %s:%s is out of bounds for axis %u of size %s",
              extent_text(g, subscript->start).text,
              extent_text(g, subscript->stop).text, axis,
              extent_text(g, extent).text);
    fault_set_help(fault,
                   "slices are not truncated: the largest slice of %s along "
                   "axis %u is 0:%s",
                   node_type_text(g, x).text, axis,
                   extent_text(g, extent).text);
    if (!extent_require(g, EXTENT_LE, ends[k], ends[k + 1], fault))
      return false;
  }
  return true;
}

static void push_axis(NodeSpec *spec, int64_t extent, bool is_broadcast) {
  spec->broadcast_mask |= (uint32_t)is_broadcast << spec->rank;
  spec->own_extents[spec->rank++] = extent;
}

static bool rank_fits(const NodeSpec *spec, uint32_t added, Fault *fault) {
  if (spec->rank + added <= MAX_RANK)
    return true;
  fault_set(fault, "more than %d axes", MAX_RANK);
  return false;
}

/* The step of a slice.  A step beyond the end selects one element, as the size
 * does, and products with the size do not overflow. */
static int64_t slice_step(Graph *g, const Subscript *s) {
  int64_t size = extent_sub_saturating(g, s->stop, s->start);
  if (!extent_is_static(g, size) || !extent_is_static(g, s->step))
    return s->step ? s->step : 1;
  size = size > 0 ? size : 1;
  return s->step > size    ? size
         : s->step < -size ? -size
         : s->step         ? s->step
                           : 1;
}

/* Appends the axes of the result for one subscript.  *axis is the next axis of
 * x; it is advanced. */
static bool subscript_spec(Graph *g, NodeSpec *spec, const Node *x,
                           const Subscript *subscript, uint32_t *axis,
                           Fault *fault) {
  bool consumes_axis =
      subscript->kind == SUBSCRIPT_INDEX || subscript->kind == SUBSCRIPT_SLICE;
  if (consumes_axis && *axis == x->rank)
    return true; /* too many subscripts: the caller reports it */
  switch (subscript->kind) {
  case SUBSCRIPT_INDEX: {
    const Node *index = subscript->index;
    if (!check_index(g, x, *axis, index, fault) ||
        !rank_fits(spec, index->rank, fault))
      return false;
    for (uint32_t k = 0; k < index->rank; k++)
      push_axis(spec, node_own_extents(index)[k],
                node_is_broadcast_axis(index, k));
    return node_spec_add_free_of(spec, 1, &subscript->index, fault);
  }
  case SUBSCRIPT_SLICE: {
    if (!check_slice(g, x, *axis, subscript, fault) ||
        !rank_fits(spec, 1, fault))
      return false;
    int64_t size = extent_sub_saturating(g, subscript->stop, subscript->start);
    int64_t step = slice_step(g, subscript);
    step = step < 0 ? -step : step;
    if (step > 1 && !extent_ceil_div(g, size, step, &size)) {
      fault_set(fault, "a size is too large");
      return false;
    }
    push_axis(spec, size,
              node_is_broadcast_axis(x, *axis) && !subscript->sized);
    return true;
  }
  case SUBSCRIPT_NEW_AXIS:
  case SUBSCRIPT_NEW_BROADCAST_AXIS:
    if (!rank_fits(spec, 1, fault))
      return false;
    push_axis(spec, 1, subscript->kind == SUBSCRIPT_NEW_BROADCAST_AXIS);
    return true;
  }
  return true;
}

static bool subscripts_spec(Graph *g, NodeSpec *spec, Node *x, uint32_t count,
                            const Subscript *subscripts, Fault *fault) {
  uint32_t axis = 0, consumed = 0;
  if (!node_spec_add_free_of(spec, 1, &x, fault))
    return false;
  for (uint32_t k = 0; k < count; k++) {
    bool consumes_axis = subscripts[k].kind == SUBSCRIPT_INDEX ||
                         subscripts[k].kind == SUBSCRIPT_SLICE;
    if (!subscript_spec(g, spec, x, &subscripts[k], &axis, fault))
      return false;
    consumed += consumes_axis;
    axis += consumes_axis && axis < x->rank;
  }
  if (consumed == x->rank)
    return true;
  fault_set(fault, "%u indices for the %u axes of %s", consumed, x->rank,
            node_type_text(g, x).text);
  fault_set_help(fault, "index every axis, or write ... for the other axes");
  return false;
}

/* The index in x of element k of the slice. */
static uint32_t slice_index(BodyBuilder *b, uint32_t k, const Subscript *s) {
  int64_t step = slice_step(b->graph, s);
  if (step >= 0)
    return body_add_int(b, step > 1 ? body_mul_int(b, k, step) : k, s->start);
  uint32_t last = body_add_int(b, body_int(b, s->stop), -1);
  return body_op2(b, PRIM_SUB, DT_I64, last, body_mul_int(b, k, -step));
}

Node *node_subscript(Graph *g, Node *x, uint32_t count,
                     const Subscript *subscripts, Fault *fault) {
  NodeSpec spec;
  node_spec_init(&spec, x->dtype);
  if (!subscripts_spec(g, &spec, x, count, subscripts, fault))
    return NULL;
  BodyBuilder b;
  body_init(&b, g, &spec);
  uint32_t own[MAX_RANK], axis = 0, at = 0;
  for (uint32_t k = 0; k < count; k++) {
    const Subscript *subscript = &subscripts[k];
    if (subscript->kind == SUBSCRIPT_SLICE) {
      own[axis++] = slice_index(&b, body_own_axis(&b, at++), subscript);
    } else if (subscript->kind == SUBSCRIPT_INDEX) {
      uint32_t index = body_read_broadcast(&b, subscript->index, at);
      own[axis++] = body_convert(&b, index, DT_I64);
      at += subscript->index->rank;
    } else {
      at++;
    }
  }
  return body_finish_read(&b, g, x, own, fault);
}

Node *node_gather(Graph *g, Node *x, Node *index, Fault *fault) {
  if (x->rank == 0) {
    fault_set(fault, "cannot gather from a scalar: %s has no rows",
              node_type_text(g, x).text);
    return NULL;
  }
  if (!node_axis_sized(g, x, 0, "gather", fault))
    return NULL;
  Subscript subscripts[MAX_RANK];
  subscripts[0] = (Subscript){.kind = SUBSCRIPT_INDEX, .index = index};
  for (uint32_t k = 1; k < x->rank; k++)
    subscripts[k] =
        (Subscript){.kind = SUBSCRIPT_SLICE, .stop = node_own_extents(x)[k]};
  return node_subscript(g, x, x->rank, subscripts, fault);
}
