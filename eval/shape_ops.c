/* Tensor and shape literals, shapes from types, subscripts x.[...], and the
 * sizes that CORE_UNPACK names. */
#include "eval/internal.h"
#include "support/buffer.h"
#include "support/diag.h"

#include <string.h>

/* ---- [a, b, ...s] ---- */

Value vm_make_tensor(Eval *vm, const LiteralSite *site, Dtype elem,
                     Value *items) {
  Fault fault = {0};
  uint32_t n = site->count, splices = 0;
  vm_set_node_span(vm);
  for (uint32_t i = 0; i < n; i++)
    splices += site->splices[i];
  if (!n) {
    int64_t shape[1] = {0};
    Scalar zero = scalar_convert((Scalar){DT_I64, {.i = 0}},
                                 elem == DT_NONE ? DT_F32 : elem);
    return vm_value_of_node(
        vm, node_full(&vm->graph, zero, 1, shape, 0, &fault), &fault);
  }
  if (!splices)
    return vm_stack_items(vm, n, items);
  size_t mark = vm->temp_count;
  Node **parts = vm_scratch(vm, n * sizeof *parts);
  uint32_t count = 0;
  for (uint32_t i = 0, k; i < n; i = k) {
    k = i + 1;
    if (site->splices[i]) {
      parts[count++] = vm_to_node(vm, items[i]);
      continue;
    }
    while (k < n && !site->splices[k])
      k++;
    Value row = vm_stack_items(vm, k - i, items + i);
    vm_push_temp(vm, row);
    parts[count++] = vm_to_node(vm, row);
  }
  Value r = vm_value_of_node(
      vm, node_concat(&vm->graph, 0, count, parts, &fault), &fault);
  vm_drop_temps(vm, mark);
  return r;
}

typedef struct ShapeBuilder { /* a shape under construction */
  uint32_t rank;
  uint64_t broadcast_mask;
  int64_t extents[2 * MAX_RANK];
} ShapeBuilder;

static void add_axis(Eval *vm, ShapeBuilder *axes, int64_t size,
                     bool is_broadcast) {
  if (axes->rank == MAX_RANK)
    vm_fail(vm, 507, "a shape of more than %d axes", MAX_RANK);
  axes->broadcast_mask |= (uint64_t)is_broadcast << axes->rank;
  axes->extents[axes->rank++] = size;
}

static void add_shape(Eval *vm, ShapeBuilder *axes, Value shape) {
  if (shape.tag == V_UNIT)
    return; /* a tensor without elements may have any shape */
  if (shape.tag != V_SHAPE)
    vm_fail(vm, 599, "internal error in eval: expected a shape");
  const ShapeObj *s = AS_SHAPE(shape);
  for (uint32_t k = 0; k < s->obj.len; k++)
    add_axis(vm, axes, s->extents[k], s->broadcast_mask >> k & 1);
}

Value vm_make_shape(Eval *vm, const LiteralSite *site, Value *items) {
  ShapeBuilder axes = {.rank = 0};
  for (uint32_t i = 0; i < site->count; i++) {
    if (site->holes[i]) {
      add_axis(vm, &axes, SHAPE_HOLE, false);
    } else if (site->splices[i]) {
      add_shape(vm, &axes, *items++);
    } else if (items->tag == V_UNIT) { /* the hole _ */
      add_axis(vm, &axes, SHAPE_HOLE, false);
      items++;
    } else {
      int64_t size = vm_size(vm, *items++);
      if (size < 0)
        vm_fail(vm, 507, "a size cannot be %lld", (long long)size);
      add_axis(vm, &axes, size, false);
    }
  }
  return value_shape(&vm->heap, axes.rank, axes.extents, axes.broadcast_mask);
}

/* ---- shapes from types ---- */

static void require_equal_sizes(Eval *vm, int64_t x, int64_t y) {
  Fault fault = {0};
  fault_set(&fault, "sizes do not match: %s and %s",
            extent_text(&vm->graph, x).text, extent_text(&vm->graph, y).text);
  if (!extent_require(&vm->graph, EXTENT_EQ, x, y, &fault))
    vm_fault(vm, &fault);
}

/* Broadcasts `shape` into `axes`, aligned at the right.  An absent axis takes
 * any axis; * takes any size; two sizes must be equal. */
static void broadcast_into(Eval *vm, ShapeBuilder *axes, Value shape) {
  ShapeBuilder other = {.rank = 0};
  add_shape(vm, &other, shape);
  if (other.rank > axes->rank) {
    ShapeBuilder swap = *axes;
    *axes = other;
    other = swap;
  }
  uint32_t offset = axes->rank - other.rank;
  for (uint32_t k = 0; k < other.rank; k++) {
    uint32_t at = offset + k;
    bool is_broadcast = axes->broadcast_mask >> at & 1,
         other_is_broadcast = other.broadcast_mask >> k & 1;
    if (other_is_broadcast)
      continue;
    if (is_broadcast) {
      axes->broadcast_mask &= ~((uint64_t)1 << at);
      axes->extents[at] = other.extents[k];
    } else if (axes->extents[at] != other.extents[k]) {
      require_equal_sizes(vm, axes->extents[at], other.extents[k]);
    }
  }
}

/* A tensor without elements accepts any size. */
static int64_t size_or_zero(Value v) {
  return v.tag == DT_I64 && v.i > 0 ? v.i : 0;
}

Value vm_build_shape(Eval *vm, const CoreShape *ref, Value **at,
                     UnknownSizePolicy unknown_policy) {
  uint32_t pushed = 0;
  for (uint32_t i = 0; i < ref->len; i++)
    pushed += ref->axes[i].kind == CORE_AXIS_BROADCAST
                  ? ref->axes[i].broadcast_arg_count
                  : ref->axes[i].kind != CORE_AXIS_STAR;
  Value *v = *at - pushed;
  *at = v;
  for (uint32_t i = 0; i < pushed && unknown_policy != UNKNOWN_SIZE_IS_ZERO;
       i++)
    if (v[i].tag == V_UNIT && unknown_policy == UNKNOWN_SIZE_PROPAGATES)
      return value_unit();
    else if (v[i].tag == V_UNIT)
      vm_fail_unknown_size(vm, NULL);
  ShapeBuilder axes = {.rank = 0};
  for (uint32_t i = 0; i < ref->len; i++) {
    const CoreAxis *item = &ref->axes[i];
    switch (item->kind) {
    case CORE_AXIS_DIM: {
      int64_t size = unknown_policy == UNKNOWN_SIZE_IS_ZERO ? size_or_zero(*v)
                                                            : vm_size(vm, *v);
      v++;
      add_axis(vm, &axes, size, false);
      break;
    }
    case CORE_AXIS_STAR:
      add_axis(vm, &axes, 1, true);
      break;
    case CORE_AXIS_SPLICE:
      add_shape(vm, &axes, *v++);
      break;
    case CORE_AXIS_BROADCAST: {
      ShapeBuilder broadcasted = {.rank = 0};
      for (uint32_t k = 0; k < item->broadcast_arg_count; k++)
        broadcast_into(vm, &broadcasted, *v++);
      for (uint32_t k = 0; k < broadcasted.rank; k++)
        add_axis(vm, &axes, broadcasted.extents[k],
                 broadcasted.broadcast_mask >> k & 1);
      break;
    }
    }
  }
  return value_shape(&vm->heap, axes.rank, axes.extents, axes.broadcast_mask);
}

static void print_sizes(Buffer *out, uint32_t len, const int64_t *sizes) {
  for (uint32_t i = 0; i < len; i++)
    if (sizes[i] == SHAPE_HOLE)
      buffer_puts(out, i ? ", _" : "_");
    else
      buffer_printf(out, "%s%lld", i ? ", " : "", (long long)sizes[i]);
}

void vm_check_loaded_shape(Eval *vm, const CoreShape *expected, Value v,
                           const Value *sizes) {
  uint32_t rank, broadcast_mask;
  int64_t shape[MAX_RANK], expected_sizes[MAX_RANK];
  vm_shape_of(vm, v, &rank, shape, &broadcast_mask);
  uint32_t len = expected->len < MAX_RANK ? expected->len : MAX_RANK;
  bool fits = rank == expected->len;
  for (uint32_t i = 0; i < len; i++) {
    expected_sizes[i] = expected->axes[i].dim
                            ? vm_size_maybe_wrapped(vm, *sizes++)
                            : SHAPE_HOLE;
    fits = fits &&
           (expected_sizes[i] == SHAPE_HOLE ||
            extent_proved(&vm->graph, EXTENT_EQ, expected_sizes[i], shape[i]));
  }
  if (fits)
    return;
  Buffer text = {.arena = vm->diags->arena};
  buffer_puts(&text, "the file contains a tensor of shape [");
  print_sizes(&text, rank, shape);
  buffer_puts(&text, "]; expected [");
  print_sizes(&text, len, expected_sizes);
  buffer_puts(&text, "]");
  vm_fail(vm, 508, "%s", text.text);
}

/* ---- x.[items] ---- */

static int64_t index_from_end(Eval *vm, int64_t k, int64_t size) {
  int64_t at;
  return extent_add(&vm->graph, k, size, &at) ? at : k;
}

static int64_t slice_bound(Eval *vm, Value v, bool from_end, int64_t size) {
  int64_t k = vm_size_maybe_wrapped(vm, v);
  return from_end && k < 0 ? index_from_end(vm, k, size) : k;
}

/* Computes the position of the element x.[...].  Returns false unless all
 * indices and the data are known.  With the position no node is needed. */
static bool flat_element_index(const SubscriptSite *site, const Node *x,
                               const Value *at, int64_t *flat_index) {
  if (!x->data || node_is_recorded(x) || x->free_count ||
      site->count != x->rank || site->bound_count != x->rank)
    return false;
  *flat_index = 0;
  for (uint32_t k = 0; k < site->count; k++) {
    const struct SubscriptForm *item = &site->subscripts[k];
    if (item->kind != CS_AT || at[k].tag != DT_I64)
      return false;
    int64_t size = node_size(x, k), i = at[k].i;
    if (item->start_from_end && i < 0)
      i += size;
    if (i < 0 || i >= size)
      return false;
    *flat_index = *flat_index * size + i;
  }
  return true;
}

/* True if a bound of a slice depends on an outer index: rows have slices of
 * different sizes. */
static bool is_ragged_slice(const Eval *vm, const struct SubscriptForm *item,
                            const Value *bounds) {
  bool start = item->has_start && vm_is_row_length(vm, bounds[0]);
  bool stop = item->has_stop && vm_is_row_length(vm, bounds[item->has_start]);
  return (start || stop) && !item->has_step;
}

static RaggedSlice ragged_slice(Eval *vm, const struct SubscriptForm *item,
                                Value **bounds, const Node *x, uint32_t axis) {
  Value size = node_row_length(x, axis)
                   ? vm_ragged_size(vm, x, axis, 1)
                   : vm_value_of_size(vm, node_size(x, axis));
  vm_push_temp(vm, size);
  Value start = item->has_start ? *(*bounds)++ : value_int(0);
  Value stop = item->has_stop ? *(*bounds)++ : size;
  return vm_ragged_slice(vm, start, stop, size);
}

Value vm_subscript(Eval *vm, const SubscriptSite *site, Value *at) {
  size_t mark = vm->temp_count;
  Value *v = at + 1;
  int64_t flat_index;
  if (at[0].tag == V_NODE &&
      flat_element_index(site, at[0].node, v, &flat_index)) {
    const Tensor *t = at[0].node->data;
    Value x = value_scalar(scalar_load(t->dtype, tensor_at(t, flat_index)));
    vm_check_file(vm, t);
    return x;
  }
  vm_set_node_span(vm);
  Node *x = vm_to_ragged_node(vm, at[0]);
  Subscript items[3 * MAX_RANK];
  uint32_t count = 0, axis = 0, indexed_axes = 0;
  for (uint32_t i = 0; i < site->count; i++)
    indexed_axes += site->subscripts[i].kind == CS_AT ||
                    site->subscripts[i].kind == CS_RANGE;
  bool has_ellipsis = false;
  RaggedSlice slice = {.item = NULL};
  for (uint32_t i = 0; i < site->count; i++)
    has_ellipsis = has_ellipsis || site->subscripts[i].kind == CS_ELLIPSIS;
  if (indexed_axes > x->rank || (!has_ellipsis && indexed_axes != x->rank) ||
      site->count > 2 * MAX_RANK)
    vm_fail(vm, 507, "%u indices for a tensor with %u axes", indexed_axes,
            x->rank);
  for (uint32_t i = 0; i < site->count; i++) {
    const struct SubscriptForm *item = &site->subscripts[i];
    int64_t size = axis < x->rank ? node_size(x, axis) : 0;
    switch (item->kind) {
    case CS_AT: {
      Value k = *v++;
      if (item->start_from_end && value_is_num(k) && k.i < 0 &&
          node_row_length(x, axis))
        vm_bail_out(vm, node_row_length(x, axis));
      if (item->start_from_end && value_is_num(k) && k.i < 0)
        vm_push_temp(vm,
                     k = vm_value_of_size(vm, index_from_end(vm, k.i, size)));
      items[count++] = (Subscript){.kind = SUBSCRIPT_INDEX,
                                   .index = vm_to_ragged_node(vm, k)};
      axis++;
      break;
    }
    case CS_RANGE: {
      if (is_ragged_slice(vm, item, v)) {
        if (slice.item)
          vm_bail_out_of_rows(vm, vm_to_ragged_node(vm, *v));
        slice = ragged_slice(vm, item, &v, x, axis);
        slice.item = &items[count];
        items[count++] =
            (Subscript){.kind = SUBSCRIPT_INDEX, .index = slice.start};
        axis++;
        break;
      }
      int64_t from = item->has_start
                         ? slice_bound(vm, *v++, item->start_from_end, size)
                         : 0;
      int64_t to = item->has_stop
                       ? slice_bound(vm, *v++, item->stop_from_end, size)
                       : size;
      if (!vm_is_aot_tracing(vm) && (from < 0 || to > size || from > to))
        vm_fail_at(vm, item->span, 507, NULL,
                   "slice %lld:%lld is out of bounds for an axis of size %lld",
                   (long long)from, (long long)to, (long long)size);
      int64_t step = item->has_step ? vm_size_maybe_wrapped(vm, *v++) : 1;
      items[count++] = (Subscript){.kind = SUBSCRIPT_SLICE,
                                   .start = from,
                                   .stop = to,
                                   .step = step,
                                   .sized = item->has_start || item->has_stop ||
                                            item->has_step};
      axis++;
      break;
    }
    case CS_ELLIPSIS:
      for (uint32_t k = 0; k < x->rank - indexed_axes; k++, axis++)
        items[count++] =
            (Subscript){.kind = SUBSCRIPT_SLICE, .stop = node_size(x, axis)};
      break;
    case CS_NEWAXIS:
      items[count++] = (Subscript){.kind = SUBSCRIPT_NEW_AXIS};
      break;
    case CS_STAR:
      items[count++] = (Subscript){.kind = SUBSCRIPT_NEW_BROADCAST_AXIS};
      break;
    }
  }
  Fault fault = {0};
  Node *part;
  if (slice.item) {
    part = vm_subscript_ragged(vm, x, count, items, &slice, &fault);
  } else {
    part = node_subscript(&vm->graph, x, count, items, &fault);
    if (part)
      vm_subscript_row_lengths(vm, x, count, items, part);
  }
  Value r = vm_value_of_node(vm, part, &fault);
  vm_drop_temps(vm, mark);
  return r;
}

/* ---- sizes that get names ---- */

static Value follow_path_step(Eval *vm, const struct SizePathStep *step,
                              Value v) {
  if (!step->label && v.tag == V_TUPLE && step->index < v.obj->len)
    return AS_ARRAY(v)->at[step->index];
  if (step->label && v.tag == V_RECORD) {
    const RecordLayout *layout = AS_RECORD(v)->layout;
    for (uint32_t k = 0; k < layout->len; k++)
      if (layout->labels[k] == step->label)
        return AS_RECORD(v)->at[k];
  }
  vm_fail(vm, 599, "internal error in eval: no such part");
}

/* The axes from `axis` on, without the last `after`. */
static Value unpack_shape(Eval *vm, const SizePath *bind, Value v) {
  uint32_t rank, broadcast_mask;
  int64_t shape[MAX_RANK];
  vm_shape_of(vm, v, &rank, shape, &broadcast_mask);
  uint32_t from = (uint32_t)bind->axis;
  if (from + bind->axes_after > rank)
    vm_fail(vm, 507, "%u axes of a tensor with %u axes",
            from + bind->axes_after, rank);
  return value_shape(&vm->heap, rank - from - bind->axes_after, shape + from,
                     broadcast_mask >> from);
}

static bool shapes_agree(Eval *vm, Value a, Value b) {
  if (values_equal(a, b))
    return true;
  if (!vm_is_aot_tracing(vm) || a.tag != V_SHAPE || b.tag != V_SHAPE ||
      a.obj->len != b.obj->len ||
      AS_SHAPE(a)->broadcast_mask != AS_SHAPE(b)->broadcast_mask)
    return false;
  for (uint32_t k = 0; k < a.obj->len; k++) {
    Fault fault = {0};
    fault_set(&fault, "shapes must be equal, but they differ");
    if (!extent_require(&vm->graph, EXTENT_EQ, AS_SHAPE(a)->extents[k],
                        AS_SHAPE(b)->extents[k], &fault))
      return false;
  }
  return true;
}

void vm_check_unpacked_size(Eval *vm, const SizePath *bind, Value v,
                            Value known) {
  Value other = vm_unpack_size(vm, bind, v);
  size_t mark = vm->temp_count;
  vm_push_temp(vm, other);
  if (bind->shape_var && !shapes_agree(vm, other, known))
    vm_fail(vm, 303, "shapes must be equal, but they differ");
  int64_t x = bind->shape_var ? 0 : vm_size_maybe_wrapped(vm, known);
  int64_t y = bind->shape_var ? 0 : vm_size_maybe_wrapped(vm, other);
  if (!extent_holds_trivially(&vm->graph, EXTENT_EQ, x, y)) {
    Fault fault = {0};
    fault_set(&fault, "sizes must be equal, but they differ: %s and %s",
              extent_text(&vm->graph, x).text, extent_text(&vm->graph, y).text);
    if (!extent_require(&vm->graph, EXTENT_EQ, x, y, &fault))
      vm_fail(vm, 302, "%s", fault.message);
  }
  vm_drop_temps(vm, mark);
}

Value vm_unpack_size(Eval *vm, const SizePath *bind, Value v) {
  for (uint32_t i = 0; i < bind->step_count; i++)
    v = follow_path_step(vm, &bind->steps[i], v);
  if (bind->shape_var)
    return unpack_shape(vm, bind, v);
  if (v.tag == V_SHAPE) {
    int64_t len = v.obj->len,
            at = bind->axis < 0 ? bind->axis + len : bind->axis;
    if (at < 0 || at >= len)
      vm_fail(vm, 507, "item %d of a shape of %lld", bind->axis,
              (long long)len);
    return vm_value_of_size(vm, AS_SHAPE(v)->extents[at]);
  }
  if (bind->is_value) {
    if (v.tag == V_NODE && v.node->free_count)
      return value_retain(v);
    return vm_value_of_size(vm, vm_size_maybe_wrapped(vm, v));
  }
  uint32_t rank, broadcast_mask;
  int64_t shape[MAX_RANK];
  if (vm_is_ragged(v))
    rank = v.node->rank;
  else
    vm_shape_of(vm, v, &rank, shape, &broadcast_mask);
  int64_t at = bind->axis < 0 ? bind->axis + (int64_t)rank : bind->axis;
  if (at < 0 || at >= rank)
    vm_fail(vm, 507, "axis %d of a tensor with %u axes", bind->axis, rank);
  if (vm_is_ragged(v))
    return vm_ragged_size(vm, v.node, (uint32_t)at, 1);
  return vm_value_of_size(vm, shape[at]);
}
