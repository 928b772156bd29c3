/* Literals of tensors and shapes, shapes that types give, x.[...], and the
 * sizes that CORE_OPEN names. */
#include "eval/internal.h"

#include <string.h>

/* ---- [a, b, ...s] ---- */

Value vm_make_tensor(Eval *vm, const ItemSite *site, Dtype elem, Value *items) {
  Fault fault = {0};
  uint32_t n = site->count, splices = 0;
  vm_place(vm);
  for (uint32_t i = 0; i < n; i++)
    splices += site->splices[i];
  if (!n) {
    int64_t shape[1] = {0};
    Scalar zero = scalar_convert((Scalar){DT_I64, {.i = 0}},
                                 elem == DT_NONE ? DT_F32 : elem);
    return vm_node(vm, node_full(&vm->graph, zero, 1, shape, 0, &fault),
                   &fault);
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
    vm_own(vm, row);
    parts[count++] = vm_to_node(vm, row);
  }
  Value r =
      vm_node(vm, node_concat(&vm->graph, 0, count, parts, &fault), &fault);
  vm_drop_temps(vm, mark);
  return r;
}

typedef struct Axes { /* a shape under construction */
  uint32_t rank;
  uint64_t stars;
  int64_t at[2 * RANK_MAX];
} Axes;

static void add_axis(Eval *vm, Axes *axes, int64_t size, bool star) {
  if (axes->rank == RANK_MAX)
    vm_fail(vm, 507, "a shape of more than %d axes", RANK_MAX);
  axes->stars |= (uint64_t)star << axes->rank;
  axes->at[axes->rank++] = size;
}

static void add_shape(Eval *vm, Axes *axes, Value shape) {
  if (shape.tag == V_UNIT)
    return; /* what has no elements may have any shape */
  if (shape.tag != V_SHAPE)
    vm_fail(vm, 599, "compiler bug in eval: a shape is wanted");
  const Shape *s = AS_SHAPE(shape);
  for (uint32_t k = 0; k < s->obj.len; k++)
    add_axis(vm, axes, s->at[k], s->stars >> k & 1);
}

Value vm_make_shape(Eval *vm, const ItemSite *site, Value *items) {
  Axes axes = {.rank = 0};
  for (uint32_t i = 0; i < site->count; i++) {
    if (site->holes[i]) {
      add_axis(vm, &axes, SHAPE_HOLE, false);
    } else if (site->splices[i]) {
      add_shape(vm, &axes, *items++);
    } else if (items->tag == V_UNIT) { /* a _ */
      add_axis(vm, &axes, SHAPE_HOLE, false);
      items++;
    } else {
      int64_t size = vm_size(vm, *items++);
      if (size < 0)
        vm_fail(vm, 507, "a size cannot be %lld", (long long)size);
      add_axis(vm, &axes, size, false);
    }
  }
  return value_shape(&vm->heap, axes.rank, axes.at, axes.stars);
}

/* ---- shapes that types give ---- */

static void sizes_meet(Eval *vm, int64_t x, int64_t y) {
  Fault fault = {0};
  fault_set(&fault, "sizes do not fit: %s meets %s",
            size_text(&vm->graph, x).text, size_text(&vm->graph, y).text);
  if (!size_demand(&vm->graph, SIZE_EQ, x, y, &fault))
    vm_fault(vm, &fault);
}

/* join: aligned right; absent < * < a size, two sizes are equal. */
static void join_into(Eval *vm, Axes *axes, Value shape) {
  Axes other = {.rank = 0};
  add_shape(vm, &other, shape);
  if (other.rank > axes->rank) {
    Axes swap = *axes;
    *axes = other;
    other = swap;
  }
  uint32_t offset = axes->rank - other.rank;
  for (uint32_t k = 0; k < other.rank; k++) {
    uint32_t at = offset + k;
    bool star = axes->stars >> at & 1, other_star = other.stars >> k & 1;
    if (other_star)
      continue;
    if (star) {
      axes->stars &= ~((uint64_t)1 << at);
      axes->at[at] = other.at[k];
    } else if (axes->at[at] != other.at[k]) {
      sizes_meet(vm, axes->at[at], other.at[k]);
    }
  }
}

/* For what has no elements any size will do. */
static int64_t some_size(Value v) {
  return v.tag == DT_I64 && v.i > 0 ? v.i : 0;
}

void vm_unknown(Eval *vm, const char *name) {
  Buffer text = {.arena = vm->diags->arena};
  buffer_puts(&text, name ? "the size" : "a size");
  if (name)
    buffer_printf(&text, " `%s`", name);
  vm_fail(vm, 363, "%s cannot be found: nothing says what it is", text.text);
}

Value vm_shape_ref(Eval *vm, const ShapeRef *ref, Value **at,
                   Unknowns unknown) {
  uint32_t pushed = 0;
  for (uint32_t i = 0; i < ref->len; i++)
    pushed += ref->at[i].kind == SI_JOIN ? ref->at[i].join_count
                                         : ref->at[i].kind != SI_STAR;
  Value *v = *at - pushed;
  *at = v;
  for (uint32_t i = 0; i < pushed && unknown != UNKNOWN_EMPTY; i++)
    if (v[i].tag == V_UNIT && unknown == UNKNOWN_STAYS)
      return value_unit();
    else if (v[i].tag == V_UNIT)
      vm_unknown(vm, NULL);
  Axes axes = {.rank = 0};
  for (uint32_t i = 0; i < ref->len; i++) {
    const ShapeItem *item = &ref->at[i];
    switch (item->kind) {
    case SI_DIM: {
      int64_t size =
          unknown == UNKNOWN_EMPTY ? some_size(*v) : vm_size(vm, *v);
      v++;
      add_axis(vm, &axes, size, false);
      break;
    }
    case SI_STAR:
      add_axis(vm, &axes, 1, true);
      break;
    case SI_SPLICE:
      add_shape(vm, &axes, *v++);
      break;
    case SI_JOIN: {
      Axes joined = {.rank = 0};
      for (uint32_t k = 0; k < item->join_count; k++)
        join_into(vm, &joined, *v++);
      for (uint32_t k = 0; k < joined.rank; k++)
        add_axis(vm, &axes, joined.at[k], joined.stars >> k & 1);
      break;
    }
    }
  }
  return value_shape(&vm->heap, axes.rank, axes.at, axes.stars);
}

static void print_sizes(Buffer *out, uint32_t len, const int64_t *sizes) {
  for (uint32_t i = 0; i < len; i++)
    if (sizes[i] == SHAPE_HOLE)
      buffer_puts(out, i ? ", _" : "_");
    else
      buffer_printf(out, "%s%lld", i ? ", " : "", (long long)sizes[i]);
}

void vm_check_loaded(Eval *vm, const ShapeRef *want, Value v,
                     const Value *sizes) {
  uint32_t rank, stars;
  int64_t shape[RANK_MAX], wanted[RANK_MAX];
  vm_shape(vm, v, &rank, shape, &stars);
  uint32_t len = want->len < RANK_MAX ? want->len : RANK_MAX;
  bool fits = rank == want->len;
  for (uint32_t i = 0; i < len; i++) {
    wanted[i] = want->at[i].dim ? vm_index_size(vm, *sizes++) : SHAPE_HOLE;
    fits = fits && (wanted[i] == SHAPE_HOLE ||
                    size_holds(&vm->graph, SIZE_EQ, wanted[i], shape[i]));
  }
  if (fits)
    return;
  Buffer text = {.arena = vm->diags->arena};
  buffer_puts(&text, "the file holds a tensor of shape [");
  print_sizes(&text, rank, shape);
  buffer_puts(&text, "]; [");
  print_sizes(&text, len, wanted);
  buffer_puts(&text, "] is wanted");
  vm_fail(vm, 508, "%s", text.text);
}

/* ---- x.[items] ---- */

static int64_t from_the_end(Eval *vm, int64_t k, int64_t size) {
  int64_t at;
  return size_add(&vm->graph, k, size, &at) ? at : k;
}

static int64_t bound(Eval *vm, Value v, bool from_end, int64_t size) {
  int64_t k = vm_index_size(vm, v);
  return from_end && k < 0 ? from_the_end(vm, k, size) : k;
}

/* All indices known and the data there: the element, without a node. */
static bool element(const IndexSite *site, const Node *x, const Value *at,
                    int64_t *place) {
  if (!x->data || x->free_count || site->count != x->rank ||
      site->pushed != x->rank)
    return false;
  *place = 0;
  for (uint32_t k = 0; k < site->count; k++) {
    const struct IndexItem *item = &site->items[k];
    if (item->kind != CS_AT || at[k].tag != DT_I64)
      return false;
    int64_t size = node_size(x, k), i = at[k].i;
    if (item->from_end && i < 0)
      i += size;
    if (i < 0 || i >= size)
      return false;
    *place = *place * size + i;
  }
  return true;
}

Value vm_index(Eval *vm, const IndexSite *site, Value *at) {
  size_t mark = vm->temp_count;
  Value *v = at + 1;
  int64_t place;
  if (at[0].tag == V_NODE && element(site, at[0].node, v, &place)) {
    const Tensor *t = at[0].node->data;
    Value x = value_scalar(scalar_load(t->dtype, tensor_at(t, place)));
    vm_check_file(vm, t);
    return x;
  }
  vm_place(vm);
  Node *x = vm_to_node(vm, at[0]);
  Item items[3 * RANK_MAX];
  uint32_t count = 0, axis = 0, used = 0;
  for (uint32_t i = 0; i < site->count; i++)
    used += site->items[i].kind == CS_AT || site->items[i].kind == CS_RANGE;
  bool rest = false;
  for (uint32_t i = 0; i < site->count; i++)
    rest = rest || site->items[i].kind == CS_REST;
  if (used > x->rank || (!rest && used != x->rank) ||
      site->count > 2 * RANK_MAX)
    vm_fail(vm, 507, "%u indices for a tensor with %u axes", used, x->rank);
  for (uint32_t i = 0; i < site->count; i++) {
    const struct IndexItem *item = &site->items[i];
    int64_t size = axis < x->rank ? node_size(x, axis) : 0;
    switch (item->kind) {
    case CS_AT: {
      Value k = *v++;
      if (item->from_end && value_is_num(k) && k.i < 0)
        vm_own(vm, k = vm_size_value(vm, from_the_end(vm, k.i, size)));
      items[count++] = (Item){.kind = ITEM_AT, .index = vm_to_node(vm, k)};
      axis++;
      break;
    }
    case CS_RANGE: {
      int64_t from = item->from ? bound(vm, *v++, item->from_end, size) : 0;
      int64_t to = item->to ? bound(vm, *v++, item->to_end, size) : size;
      if (!vm_traces(vm) && (from < 0 || to > size || from > to))
        vm_fail_at(vm, item->span, 507, NULL,
                   "the slice %lld:%lld does not lie in an axis of %lld",
                   (long long)from, (long long)to, (long long)size);
      items[count++] = (Item){.kind = ITEM_RANGE, .from = from, .to = to,
                              .sized = item->from || item->to};
      axis++;
      break;
    }
    case CS_REST:
      for (uint32_t k = 0; k < x->rank - used; k++, axis++)
        items[count++] = (Item){.kind = ITEM_RANGE, .to = node_size(x, axis)};
      break;
    case CS_NEW:
      items[count++] = (Item){.kind = ITEM_NEW};
      break;
    case CS_STAR:
      items[count++] = (Item){.kind = ITEM_STAR};
      break;
    }
  }
  Fault fault = {0};
  Value r = vm_node(vm, node_index_items(&vm->graph, x, count, items, &fault),
                    &fault);
  vm_drop_temps(vm, mark);
  return r;
}

/* ---- sizes that get names ---- */

static Value step_into(Eval *vm, const struct CoreStep *step, Value v) {
  if (!step->label && v.tag == V_TUPLE && step->index < v.obj->len)
    return AS_FIELDS(v)->at[step->index];
  if (step->label && v.tag == V_RECORD) {
    const Layout *layout = AS_RECORD(v)->layout;
    for (uint32_t k = 0; k < layout->len; k++)
      if (layout->labels[k] == step->label)
        return AS_RECORD(v)->at[k];
  }
  vm_fail(vm, 599, "compiler bug in eval: no such part");
}

/* The axes from `axis` on, but for the last `after`. */
static Value open_shape(Eval *vm, const CoreBind *bind, Value v) {
  uint32_t rank, stars;
  int64_t shape[RANK_MAX];
  vm_shape(vm, v, &rank, shape, &stars);
  uint32_t from = (uint32_t)bind->axis;
  if (from + bind->after > rank)
    vm_fail(vm, 507, "%u axes of a tensor with %u axes", from + bind->after,
            rank);
  return value_shape(&vm->heap, rank - from - bind->after, shape + from,
                     stars >> from);
}

static bool shapes_agree(Eval *vm, Value a, Value b) {
  if (values_equal(a, b))
    return true;
  if (!vm_traces(vm) || a.tag != V_SHAPE || b.tag != V_SHAPE ||
      a.obj->len != b.obj->len || AS_SHAPE(a)->stars != AS_SHAPE(b)->stars)
    return false;
  for (uint32_t k = 0; k < a.obj->len; k++) {
    Fault fault = {0};
    fault_set(&fault, "shapes that have to be the same differ");
    if (!size_demand(&vm->graph, SIZE_EQ, AS_SHAPE(a)->at[k],
                     AS_SHAPE(b)->at[k], &fault))
      return false;
  }
  return true;
}

void vm_open_same(Eval *vm, const CoreBind *bind, Value v, Value known) {
  Value other = vm_open(vm, bind, v);
  size_t mark = vm->temp_count;
  vm_own(vm, other);
  if (bind->shape && !shapes_agree(vm, other, known))
    vm_fail(vm, 303, "shapes that have to be the same differ");
  int64_t x = bind->shape ? 0 : vm_index_size(vm, known);
  int64_t y = bind->shape ? 0 : vm_index_size(vm, other);
  if (!size_plainly(&vm->graph, SIZE_EQ, x, y)) {
    Fault fault = {0};
    fault_set(&fault, "sizes that have to be the same differ: %s and %s",
              size_text(&vm->graph, x).text, size_text(&vm->graph, y).text);
    if (!size_demand(&vm->graph, SIZE_EQ, x, y, &fault))
      vm_fail(vm, 302, "%s", fault.message);
  }
  vm_drop_temps(vm, mark);
}

Value vm_open(Eval *vm, const CoreBind *bind, Value v) {
  for (uint32_t i = 0; i < bind->step_count; i++)
    v = step_into(vm, &bind->steps[i], v);
  if (bind->shape)
    return open_shape(vm, bind, v);
  if (v.tag == V_SHAPE) {
    int64_t len = v.obj->len,
            at = bind->axis < 0 ? bind->axis + len : bind->axis;
    if (at < 0 || at >= len)
      vm_fail(vm, 507, "item %d of a shape of %lld", bind->axis,
              (long long)len);
    return vm_size_value(vm, AS_SHAPE(v)->at[at]);
  }
  if (bind->value) {
    if (v.tag == V_NODE && v.node->free_count)
      return value_retain(v);
    return vm_size_value(vm, vm_index_size(vm, v));
  }
  uint32_t rank, stars;
  int64_t shape[RANK_MAX];
  vm_shape(vm, v, &rank, shape, &stars);
  int64_t at = bind->axis < 0 ? bind->axis + (int64_t)rank : bind->axis;
  if (at < 0 || at >= rank)
    vm_fail(vm, 507, "axis %d of a tensor with %u axes", bind->axis, rank);
  return vm_size_value(vm, shape[at]);
}
