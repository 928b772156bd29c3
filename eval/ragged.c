/* Ragged loops: a `for` whose range depends on the index of an enclosing `for`,
 * as in `for i => sum (for k < n.[i] => ...)`.
 *
 * The row lengths n.[i] are computed first, for all rows.  The inner loop then
 * runs symbolically up to the longest row, under the guard `k < n.[i]`.  Its
 * result has a ragged axis (tensor/tensor.h).
 *
 * Elementwise operations, reductions, products and indexing accept ragged
 * tensors.  For any other operation the host runs the enclosing loop, row by
 * row. */
#include "eval/internal.h"
#include "machine/limits/planner.h"
#include "machine/machine.h"

#include <string.h>

void vm_bail_out_of_rows(Eval *vm, const Node *x) {
  for (uint32_t k = 0; k < x->rank; k++)
    if (node_row_length(x, k))
      vm_bail_out(vm, node_row_length(x, k));
  vm_bail_out(vm, x);
}

/* ---- row lengths ---- */

static bool has_traced_loop(const Eval *vm) {
  for (size_t k = 0; k < vm->symbolic_run_count; k++)
    if (vm->symbolic_runs[k].is_traced_loop)
      return true;
  return false;
}

bool vm_is_row_length(const Eval *vm, Value v) {
  return v.tag == V_NODE && !v.node->rank && v.node->free_count &&
         v.node->dtype == DT_I64 && !v.node->symbolic && !v.node->loop_depth &&
         !vm_is_aot_tracing(vm) && !has_traced_loop(vm) &&
         vm->symbolic_run_count;
}

/* x where the current guard is true, elsewhere 0: nobody needs it there. */
static Node *zero_outside_guard(Eval *vm, Node *x, Node *guard) {
  Fault fault = {0};
  Node *zero =
      vm_temp_node(vm, node_scalar(&vm->graph, (Scalar){.dtype = x->dtype}));
  Node *r = node_select_lazy(&vm->graph, guard, x, zero, &fault);
  if (!r)
    vm_fault(vm, &fault);
  return vm_temp_node(vm, r);
}

/* The values of a scalar for all its indices, as a tensor with data. */
static Node *values_for_all_indices(Eval *vm, Node *x) {
  Fault fault = {0};
  Node *closed = node_close(&vm->graph, x, x->free_count, x->free_vars, &fault);
  if (!closed)
    vm_fault(vm, &fault);
  vm_temp_node(vm, closed);
  vm_force(vm, 1, &closed);
  return closed;
}

/* Reads `all` at the indices. */
static Node *read_at_indices(Eval *vm, Node *all, IndexVar *const *indices) {
  Subscript items[MAX_RANK];
  Fault fault = {0};
  for (uint32_t k = 0; k < all->rank; k++)
    items[k] = (Subscript){
        .kind = SUBSCRIPT_INDEX,
        .index = vm_temp_node(vm, node_index(&vm->graph, indices[k]))};
  Node *r = node_subscript(&vm->graph, all, all->rank, items, &fault);
  if (!r)
    vm_fault(vm, &fault);
  return r;
}

/* The values of a row length that is still known, or NULL. */
static const Tensor *row_length_data(const Eval *vm, const Node *length) {
  for (uint32_t k = 0; k < MAX_KNOWN_ROW_LENGTHS; k++)
    if (vm->row_lengths[k].length == length)
      return vm->row_lengths[k].values->data;
  return NULL;
}

static bool has_indices(const Node *x, const Node *y) {
  return x->free_count == y->free_count &&
         !memcmp(x->free_vars, y->free_vars,
                 x->free_count * sizeof(IndexVar *));
}

/* The row length with these values.  Equal row lengths are one node, so that
 * loops over them end together.  like: has the indices. */
static Node *row_length_of(Eval *vm, Node *values, const Node *like) {
  const Tensor *t = values->data;
  for (uint32_t k = 0; k < MAX_KNOWN_ROW_LENGTHS; k++) {
    const RowLength *known = &vm->row_lengths[k];
    if (known->length && has_indices(known->length, like) &&
        !memcmp(known->values->data->data, t->data,
                (size_t)t->count * sizeof(int64_t)))
      return node_retain(known->length);
  }
  RowLength *slot =
      &vm->row_lengths[vm->next_row_length++ % MAX_KNOWN_ROW_LENGTHS];
  Node *length = read_at_indices(vm, values, like->free_vars);
  node_release(slot->length);
  node_release(slot->values);
  *slot = (RowLength){node_retain(length), node_retain(values)};
  return length;
}

void vm_forget_row_lengths(Eval *vm) {
  for (uint32_t k = 0; k < MAX_KNOWN_ROW_LENGTHS; k++) {
    node_release(vm->row_lengths[k].length);
    node_release(vm->row_lengths[k].values);
    vm->row_lengths[k] = (RowLength){NULL, NULL};
  }
}

/* The values of a scalar in all rows, for the indices of *x, which are its own
 * and those of the guard. */
static Node *values_in_rows(Eval *vm, Node **x) {
  Node *guard = vm->graph.guard;
  vm->graph.guard = NULL; /* a bailout restores it */
  if (guard)
    *x = zero_outside_guard(vm, *x, guard);
  Node *all = values_for_all_indices(vm, *x);
  vm->graph.guard = guard;
  return all;
}

/* Elements of a ragged tensor of which padding may be stored.  Beyond, the host
 * runs the rows. */
static int64_t max_padded_elements(void) {
  return (int64_t)(machine()->memory_bytes / PADDED_MEMORY_PART);
}

Value vm_row_length(Eval *vm, Value v, int64_t *longest) {
  size_t mark = vm->temp_count;
  Node *x = v.node, *guard = vm->graph.guard;
  Node *all = values_in_rows(vm, &x);
  const int64_t *lengths = all->data->data;
  int64_t shortest = INT64_MAX;
  *longest = 0;
  for (int64_t k = 0; k < all->data->count; k++) {
    if (lengths[k] < 0) /* on the host, the row reports the error */
      vm_bail_out(vm, v.node);
    *longest = lengths[k] > *longest ? lengths[k] : *longest;
    shortest = lengths[k] < shortest ? lengths[k] : shortest;
  }
  if (*longest && all->data->count > max_padded_elements() / *longest)
    vm_bail_out(vm, v.node);
  vm->graph.guard = NULL;
  Value r = shortest >= *longest ? value_int(*longest)
                                 : value_node(row_length_of(vm, all, x));
  vm->graph.guard = guard;
  vm_drop_temps(vm, mark);
  return r;
}

void vm_require_equal_rows(Eval *vm, const Node *x, const Node *y) {
  if (x != y)
    vm_bail_out(vm, x ? x : y);
}

Node *vm_leading_row_length(Value x) {
  Node *found = NULL;
  if (x.tag == V_NODE)
    return x.node->rank ? node_row_length(x.node, 0) : NULL;
  for (uint32_t i = 0; x.tag == V_TUPLE && !found && i < x.obj->len; i++)
    found = vm_leading_row_length(AS_ARRAY(x)->at[i]);
  for (uint32_t i = 0; x.tag == V_RECORD && !found && i < x.obj->len; i++)
    found = vm_leading_row_length(AS_RECORD(x)->at[i]);
  return found;
}

/* ---- operations on ragged tensors ---- */

Value vm_ragged_size(Eval *vm, const Node *x, uint32_t first, uint32_t count) {
  size_t mark = vm->temp_count;
  Fault fault = {0};
  Value size = value_int(1);
  for (uint32_t k = first; k < first + count; k++) {
    Node *length = node_row_length(x, k);
    Value factor = length ? value_node(node_retain(length))
                          : vm_value_of_size(vm, node_size(x, k));
    vm_push_temp(vm, factor);
    if (value_is_num(size) && size.i == 1) {
      size = factor;
      continue;
    }
    Node *pair[2] = {vm_to_node(vm, size), vm_to_node(vm, factor)};
    size = vm_value_of_node(
        vm, node_map(&vm->graph, PRIM_MUL, 2, pair, DT_NONE, &fault), &fault);
    vm_push_temp(vm, size);
  }
  size = value_retain(size);
  vm_drop_temps(vm, mark);
  return size;
}

static bool any_ragged(uint32_t count, Node *const *nodes) {
  for (uint32_t k = 0; k < count; k++)
    if (nodes[k]->row_lengths)
      return true;
  return false;
}

Node *vm_broadcast_row_lengths(Eval *vm, uint32_t count, Node *const *args,
                               Node *result) {
  if (!result || !any_ragged(count, args))
    return result;
  for (uint32_t i = 0; i < count; i++) {
    const Node *x = args[i];
    uint32_t offset = result->rank - x->rank;
    for (uint32_t k = 0; k < x->rank; k++)
      node_set_row_length(result, offset + k, node_row_length(x, k));
  }
  for (uint32_t i = 0; i < count; i++) {
    const Node *x = args[i];
    uint32_t offset = result->rank - x->rank;
    for (uint32_t k = 0; k < x->rank; k++)
      if (!(x->broadcast_mask >> k & 1) &&
          node_row_length(x, k) != node_row_length(result, offset + k)) {
        vm_temp_node(vm, result);
        vm_bail_out_of_rows(vm, result);
      }
  }
  return result;
}

void vm_require_reducible_rows(Eval *vm, PrimId op, const Node *x,
                               uint32_t first, uint32_t count) {
  for (uint32_t k = first; prim_is_arg_reduction(op) && k < first + count;
       k++) {
    const Node *length = node_row_length(x, k);
    const Tensor *t = length ? row_length_data(vm, length) : NULL;
    if (length && !t)
      vm_bail_out(vm, length);
    for (int64_t i = 0; t && i < t->count; i++)
      if (((const int64_t *)t->data)[i] <= 0)
        vm_bail_out(vm, length);
  }
}

/* Of the contracted axis only: other row lengths would be those of the
 * result. */
void vm_factors_of_product(Eval *vm, const Value *args, Node *factors[2]) {
  const Node *lengths[2] = {NULL, NULL};
  for (uint32_t i = 0; i < 2; i++) {
    Fault fault = {0};
    Node *x = factors[i] = vm_to_ragged_node(vm, args[i]);
    uint32_t contracted = i && x->rank > 1 ? x->rank - 2 : x->rank - 1;
    for (uint32_t k = 0; x->row_lengths && k < x->rank; k++)
      if (k != contracted && node_row_length(x, k))
        vm_bail_out_of_rows(vm, x);
    if (!x->row_lengths)
      continue;
    lengths[i] = node_row_length(x, contracted);
    factors[i] = node_mask_padding(&vm->graph, x, contracted, 1,
                                   (Scalar){.dtype = x->dtype}, &fault);
    if (!factors[i])
      vm_fault(vm, &fault);
    vm_temp_node(vm, factors[i]);
  }
  vm_require_equal_rows(vm, lengths[0], lengths[1]);
}

void vm_subscript_row_lengths(Eval *vm, const Node *x, uint32_t count,
                              const Subscript *items, Node *result) {
  uint32_t axis = 0, out = 0;
  for (uint32_t i = 0; i < count; i++) {
    const Subscript *item = &items[i];
    if (item->kind == SUBSCRIPT_INDEX) {
      for (uint32_t k = 0; k < item->index->rank; k++)
        node_set_row_length(result, out++, node_row_length(item->index, k));
      axis++;
    } else if (item->kind == SUBSCRIPT_SLICE) {
      Node *length = node_row_length(x, axis++);
      if (length && item->sized) { /* part of a row */
        vm_temp_node(vm, result);
        vm_bail_out(vm, length);
      }
      node_set_row_length(result, out++, length);
    } else {
      out++;
    }
  }
}

/* ---- the inner loop ---- */

Node *vm_row_guard(Eval *vm, uint32_t count, IndexVar *const *indices,
                   Node *outer) {
  Graph *g = &vm->graph;
  Fault fault = {0};
  Node *guard = outer;
  for (uint32_t k = 0; k < count; k++) {
    if (!indices[k]->row_length)
      continue;
    Node *pair[2] = {vm_temp_node(vm, node_index(g, indices[k])),
                     indices[k]->row_length};
    Node *inside = node_map(g, PRIM_LT, 2, pair, DT_NONE, &fault);
    if (!inside)
      vm_fault(vm, &fault);
    vm_temp_node(vm, inside);
    guard = guard ? vm_temp_node(vm, vm_branch_guard(vm, inside, guard, true))
                  : inside;
  }
  return guard;
}

static bool depends_on(const Node *x, uint32_t count, IndexVar *const *vars) {
  for (uint32_t k = 0; k < x->free_count; k++)
    for (uint32_t j = 0; j < count; j++)
      if (x->free_vars[k] == vars[j])
        return true;
  return false;
}

Node *vm_close_rows(Eval *vm, Node *x, uint32_t count, IndexVar *const *vars,
                    Fault *fault) {
  for (uint32_t k = 0; k < x->rank; k++)
    if (node_row_length(x, k) && depends_on(node_row_length(x, k), count, vars))
      vm_bail_out(vm, node_row_length(x, k));
  return node_close(&vm->graph, x, count, vars, fault);
}

/* ---- slices ---- */

static Node *subtract(Eval *vm, Value x, Value y) {
  Node *pair[2] = {vm_to_node(vm, x), vm_to_node(vm, y)};
  Fault fault = {0};
  Node *r = node_map(&vm->graph, PRIM_SUB, 2, pair, DT_NONE, &fault);
  if (!r)
    vm_fault(vm, &fault);
  return vm_temp_node(vm, r);
}

bool vm_is_equal_in_rows(Eval *vm, Value x, Value y) {
  if (!vm_is_row_length(vm, x) && !vm_is_row_length(vm, y))
    return false;
  size_t mark = vm->temp_count;
  Node *d = subtract(vm, x, y);
  Value v = value_node(d);
  bool is_equal = false;
  if (vm_is_row_length(vm, v)) {
    const Tensor *t = values_in_rows(vm, &d)->data;
    is_equal = true;
    for (int64_t k = 0; k < t->count; k++)
      is_equal = is_equal && !((const int64_t *)t->data)[k];
  }
  vm_drop_temps(vm, mark);
  return is_equal;
}

/* Bails out unless x <= y in all rows. */
static void require_ordered_rows(Eval *vm, Value x, Value y) {
  Node *d = subtract(vm, y, x), *reason = d;
  Value v = value_node(d);
  if (!vm_is_row_length(vm, v)) {
    if (vm_int(vm, v) < 0)
      vm_bail_out(vm, NULL);
    return;
  }
  const Tensor *t = values_in_rows(vm, &d)->data;
  for (int64_t k = 0; k < t->count; k++)
    if (((const int64_t *)t->data)[k] < 0)
      vm_bail_out(vm, reason);
}

RaggedSlice vm_ragged_slice(Eval *vm, Value start, Value stop, Value size) {
  RaggedSlice r = {.start = vm_to_node(vm, start)};
  require_ordered_rows(vm, value_int(0), start);
  require_ordered_rows(vm, stop, size);
  Value length = value_node(subtract(vm, stop, start));
  if (vm_is_row_length(vm, length))
    vm_push_temp(vm, length = vm_row_length(vm, length, &r.longest));
  else
    r.longest = vm_int(vm, length);
  bool is_ragged = length.tag == V_NODE && length.node->free_count;
  r.row_length = is_ragged ? length.node : NULL;
  return r;
}

/* Moves axis 0 behind the next `by` axes. */
static Node *move_first_axis(Eval *vm, Node *x, uint32_t by, Fault *fault) {
  uint32_t order[MAX_RANK];
  for (uint32_t k = 0; k < x->rank; k++)
    order[k] = k < by ? k + 1 : k == by ? 0 : k;
  Node *r = node_permute(&vm->graph, x, order, fault);
  for (uint32_t k = 0; r && k < x->rank; k++)
    node_set_row_length(r, k, node_row_length(x, order[k]));
  return r;
}

Node *vm_subscript_ragged(Eval *vm, Node *x, uint32_t count, Subscript *items,
                          const RaggedSlice *slice, Fault *fault) {
  Graph *g = &vm->graph;
  Node *outer = g->guard;
  IndexVar *row = index_var_new(slice->longest, slice->row_length);
  vm_push_temp(vm, (Value){.tag = V_INDEX, .index = row});
  Node *pair[2] = {slice->start, vm_temp_node(vm, node_index(g, row))};
  g->guard = vm_row_guard(vm, 1, &row, outer); /* a bailout restores it */
  slice->item->index =
      vm_temp_node(vm, node_map(g, PRIM_ADD, 2, pair, DT_NONE, fault));
  uint32_t before = 0;
  for (const Subscript *s = items; s < slice->item; s++)
    before += s->kind == SUBSCRIPT_INDEX ? s->index->rank : 1;
  Node *part = node_subscript(g, x, count, items, fault);
  if (!part)
    return NULL;
  vm_subscript_row_lengths(vm, x, count, items, part);
  vm_temp_node(vm, part);
  g->guard = outer;
  Node *closed = vm_close_rows(vm, part, 1, &row, fault);
  if (!closed || !before)
    return closed;
  return move_first_axis(vm, vm_temp_node(vm, closed), before, fault);
}
