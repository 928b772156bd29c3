/* Loops that are being differentiated.
 *
 * A loop of many iterations becomes a scan with a rule (vjp_rule.c).  The scan
 * keeps the state before each iteration, and values that are expensive to
 * compute again (tensor/loop_kept.c).  The reverse pass is again a scan: over
 * the kept states, backwards.  Its state is the cotangent of the loop's
 * state, and the sums of the gradients of all tensors that the function
 * captured.  One iteration of it differentiates one iteration of the loop.  So
 * both loops can be traced, and a symbolic number of iterations is no special
 * case.
 *
 * If the states would take too much memory, or an iteration cannot be traced,
 * the loop runs in about sqrt(n) segments.  Each one is a checkpoint, and
 * recursively a loop that is being differentiated. */
#include "eval/internal.h"
#include "machine/limits/planner.h"
#include "machine/machine.h"
#include "tensor/loop_kept.h"

#include <math.h>

static Value *frame_locals(Eval *vm) {
  return vm->stack + vm->fp->base;
}

/* ---- which loops ---- */

bool vm_is_recorded_loop(Eval *vm) {
  const Value *at = frame_locals(vm);
  bool has_tape = false;
  return vm->graph.recording_count &&
         vm_recorded_count(vm, at[0], &has_tape) +
                 vm_recorded_count(vm, at[1], &has_tape) +
                 vm_recorded_count(vm, at[2], &has_tape) >
             0;
}

/* True if a function in the current frame is a pullback.  Its tensors cannot be
 * separated from their tape. */
static bool has_pullback(Eval *vm) {
  const Value *at = frame_locals(vm);
  bool has_tape = false;
  for (int k = 0; k < 3; k++)
    vm_recorded_count(vm, at[k], &has_tape);
  return has_tape;
}

const Instr *vm_recorded_loop(Eval *vm, TracedLoopKind kind, const Instr *next,
                              const Instr *skip) {
  const Value *at = frame_locals(vm);
  bool repeats = kind == TRACED_LOOP_ITERATE;
  if (!vm_is_recorded_loop(vm) || has_pullback(vm))
    return skip;
  if (kind == TRACED_LOOP_WHILE)
    return vm_is_aot_tracing(vm) ? skip : next;
  size_t mark = vm->temp_count;
  vm_set_node_span(vm);
  int64_t count =
      repeats ? vm_size_maybe_wrapped(vm, at[0]) : vm_leading_size(vm, at[2]);
  if (extent_is_static(&vm->graph, count) && count < MIN_RECORDED_ITERATIONS)
    return skip;
  Value f = repeats ? at[1] : at[0], c = repeats ? at[2] : at[1], x = at[2];
  Fault fault = {0};
  if (repeats) {
    x = vm_value_of_node(vm, node_iota(&vm->graph, DT_I64, count, &fault),
                         &fault);
    vm_push_temp(vm, x);
  }
  if (kind != TRACED_LOOP_SCAN)
    f = vm_partial(
        vm, derivative_code(vm, repeats ? CODE_REPEAT_STEP : CODE_FOLD_STEP), 1,
        &f);
  *vm->sp++ = value_retain(f);
  *vm->sp++ = value_retain(c);
  *vm->sp++ = value_retain(x);
  vm_drop_temps(vm, mark);
  return next;
}

const Instr *vm_states_fit(Eval *vm, const Instr *next, const Instr *no) {
  size_t mark = vm->temp_count;
  FlatLeaves state = {.count = 0};
  int64_t count = vm_leading_size(vm, vm->sp[-1]);
  double bytes = 0;
  bool fits = vm_flatten(vm, vm->sp[-2], &state);
  for (uint32_t k = 0; k < state.count; k++) {
    double size = dtype_info[state.leaves[k]->dtype].bytes;
    for (uint32_t i = 0; i < state.leaves[k]->rank; i++)
      size *= (double)node_size(state.leaves[k], i);
    bytes += size;
  }
  if (!vm_is_aot_tracing(vm))
    fits = fits && bytes * (double)count <= (double)machine()->memory_bytes /
                                                KEPT_STATES_MEMORY_PART;
  vm_drop_temps(vm, mark);
  return fits ? next : no;
}

/* ---- segments ---- */

const Instr *vm_segments_begin(Eval *vm, const Instr *next, const Instr *few) {
  int64_t n = vm_leading_size(vm, frame_locals(vm)[2]);
  n = vm_static_trip_count(vm, n);
  if (n <= MAX_UNROLLED_RECORDED)
    return few;
  *vm->sp++ = value_int(0);
  *vm->sp++ = value_int(n);
  *vm->sp++ = value_int((int64_t)ceil(sqrt((double)n)));
  *vm->sp++ = (Value){.tag = V_NIL};
  return next;
}

static bool is_any_tensor(const LeafMap *map, Value v) {
  (void)map;
  return value_is_tensor(v);
}

/* Rows map->start to map->stop of a tensor. */
static Value rows_of(LeafMap *map, Value v) {
  Eval *vm = map->vm;
  Node *x = vm_to_node(vm, v);
  Subscript items[MAX_RANK];
  for (uint32_t k = 0; k < x->rank; k++)
    items[k] = (Subscript){.kind = SUBSCRIPT_SLICE, .stop = node_size(x, k)};
  items[0].start = map->start;
  items[0].stop = map->stop;
  Fault fault = {0};
  return vm_value_of_node(
      vm, node_subscript(&vm->graph, x, x->rank, items, &fault), &fault);
}

void vm_segment(Eval *vm) {
  size_t mark = vm->temp_count;
  Value *at = frame_locals(vm);
  int64_t first = at[3].i, end = first + at[5].i;
  vm_set_node_span(vm);
  end = end < at[4].i ? end : at[4].i;
  LeafMap map = {.vm = vm,
                 .is_leaf = is_any_tensor,
                 .leaf = rows_of,
                 .start = first,
                 .stop = end};
  Value rows = map_leaves(&map, at[2]);
  vm_push_temp(vm, rows);
  Value pair = vm_new_tuple(vm, 2);
  AS_ARRAY(pair)->at[0] = value_retain(at[1]);
  AS_ARRAY(pair)->at[1] = value_retain(rows);
  Value f = vm_partial(vm, derivative_code(vm, CODE_SCAN_PAIR), 1, &at[0]);
  *vm->sp++ = value_retain(f);
  *vm->sp++ = value_retain(pair);
  at[3] = value_int(end);
  vm_drop_temps(vm, mark);
}

/* The next tensor of all segments, concatenated.  map->nodes: one after the
 * other, the tensors of each segment. */
static Value concatenated(LeafMap *map, Value v) {
  Eval *vm = map->vm;
  (void)v;
  Node **parts = vm_scratch(vm, map->segments * sizeof *parts);
  for (uint32_t k = 0; k < map->segments; k++)
    parts[k] = map->nodes[k * (map->count / map->segments) + map->next];
  map->next++;
  Fault fault = {0};
  return vm_value_of_node(
      vm, node_concat(&vm->graph, 0, map->segments, parts, &fault), &fault);
}

static Value add_node(LeafMap *map, Value v) {
  Node *n = vm_to_node(map->vm, v);
  if (map->nodes)
    map->nodes[map->count] = n;
  map->count++;
  return value_retain(v);
}

Value vm_segments_end(Eval *vm, Value outputs) {
  size_t mark = vm->temp_count;
  Value list = prim_list_reverse(vm, NULL, &outputs, 1);
  vm_push_temp(vm, list);
  LeafMap map = {.vm = vm,
                 .is_leaf = is_any_tensor,
                 .leaf = add_node,
                 .keeps_temps = true};
  vm_push_temp(vm, map_leaves(&map, list));
  map.nodes = vm_scratch(vm, (map.count + 1) * sizeof *map.nodes);
  map.count = 0;
  vm_push_temp(vm, map_leaves(&map, list));
  for (Value v = list; v.tag == V_CONS; v = AS_CONS(v)->tail)
    map.segments++;
  map.leaf = concatenated;
  vm_set_node_span(vm);
  Value r = map_leaves(&map, AS_CONS(list)->head);
  vm_drop_temps(vm, mark);
  return r;
}

/* ---- the reverse pass of a scan ---- */

static Value reversed(LeafMap *map, Value v) {
  Eval *vm = map->vm;
  Fault fault = {0};
  return vm_value_of_node(
      vm, node_reverse(&vm->graph, vm_to_node(vm, v), 0, &fault), &fault);
}

/* v with all tensors reversed along their first axis; a temporary. */
static Value rows_reversed(Eval *vm, Value v) {
  LeafMap map = {.vm = vm, .is_leaf = is_any_tensor, .leaf = reversed};
  Value r = map_leaves(&map, v);
  vm_push_temp(vm, r);
  return r;
}

/* Parts first to first + count - 1 of a tuple; a temporary. */
static Value parts_of(Eval *vm, Value tuple, uint32_t first, uint32_t count) {
  Value r = vm_new_tuple(vm, count);
  for (uint32_t k = 0; k < count; k++)
    AS_ARRAY(r)->at[k] = value_retain(AS_ARRAY(tuple)->at[first + k]);
  return r;
}

/* ---- open functions: what they captured and is an input becomes a hole, with
 * the number of the input ---- */

static bool is_captured_input(const LeafMap *map, Value v) {
  return v.tag == V_NODE && map->next < map->count &&
         v.node == map->rule->inputs[map->next];
}

static Value hole(LeafMap *map, Value v) {
  (void)v;
  return (Value){.tag = V_RAW, .aux = map->id, .i = map->next++};
}

static bool is_hole(const LeafMap *map, Value v) {
  return v.tag == V_RAW && v.aux == map->id;
}

static Value filled(LeafMap *map, Value v) {
  return value_retain(map->values[v.i]);
}

static uint32_t float_count(Eval *vm, Value v) {
  size_t mark = vm->temp_count;
  uint32_t count;
  vm_float_tensors(vm, v, &count);
  vm_drop_temps(vm, mark);
  return count;
}

/* The function of one iteration of the reverse pass; a temporary. */
static Value adjoint_step(Eval *vm, CallRule *r) {
  LeafMap holes = {.vm = vm,
                   .is_leaf = is_captured_input,
                   .leaf = hole,
                   .in_functions = true,
                   .count = r->captured_count,
                   .rule = &r->base,
                   .id = r->id};
  Value captured = vm_new_tuple(vm, r->captured_count);
  for (uint32_t k = 0; k < r->captured_count; k++)
    AS_ARRAY(captured)->at[k] = value_node(node_retain(r->base.inputs[k]));
  Value f = map_leaves(&holes, r->function);
  vm_push_temp(vm, f);
  Value args[] = {captured, f, value_int(r->id),
                  value_bool(r->has_element_inputs)};
  return vm_partial(vm, derivative_code(vm, CODE_ADJOINT_STEP), 4, args);
}

/* Zeros like the inputs that the function captured; a temporary. */
static Value captured_zeros(Eval *vm, const CallRule *r) {
  Value zeros = vm_new_tuple(vm, r->captured_count);
  for (uint32_t k = 0; k < r->captured_count; k++) {
    const Node *x = r->base.inputs[k];
    Fault fault = {0};
    Node *zero =
        node_full(&vm->graph, (Scalar){.dtype = x->dtype}, x->rank,
                  x->extents + x->free_count, x->broadcast_mask, &fault);
    AS_ARRAY(zeros)->at[k] = vm_value_of_node(vm, zero, &fault);
  }
  return zeros;
}

void vm_scan_adjoint(Eval *vm, Value rule, Value states, Value cotangents) {
  size_t mark = vm->temp_count;
  CallRule *r = rule_of(rule);
  vm_set_node_span(vm);
  uint32_t state_count = float_count(vm, AS_ARRAY(r->argument)->at[0]);
  uint32_t output_count = cotangents.obj->len - state_count;
  Value carry = vm_new_tuple(vm, 2), rows = vm_new_tuple(vm, 3);
  AS_ARRAY(carry)->at[0] =
      value_retain(parts_of(vm, cotangents, 0, state_count));
  AS_ARRAY(carry)->at[1] = value_retain(captured_zeros(vm, r));
  AS_ARRAY(rows)->at[0] = value_retain(rows_reversed(vm, states));
  AS_ARRAY(rows)->at[1] =
      value_retain(rows_reversed(vm, AS_ARRAY(r->argument)->at[1]));
  AS_ARRAY(rows)->at[2] = value_retain(
      rows_reversed(vm, parts_of(vm, cotangents, state_count, output_count)));
  Value step = adjoint_step(vm, r);
  vm_PUSH_SCAN(vm);
  *vm->sp++ = value_retain(step);
  *vm->sp++ = value_retain(carry);
  *vm->sp++ = value_retain(rows);
  vm_drop_temps(vm, mark);
}

/* Appends the parts of a tuple. */
static void append(Value to, uint32_t *count, Value tuple) {
  for (uint32_t k = 0; k < tuple.obj->len; k++)
    AS_ARRAY(to)->at[(*count)++] = value_retain(AS_ARRAY(tuple)->at[k]);
}

Value vm_scan_contributions(Eval *vm, Value result) {
  size_t mark = vm->temp_count;
  const Value *carry = AS_ARRAY(AS_ARRAY(result)->at[0])->at;
  vm_set_node_span(vm);
  Value elements = rows_reversed(vm, AS_ARRAY(result)->at[1]);
  uint32_t count = 0;
  Value r = vm_new_tuple(vm, carry[0].obj->len + carry[1].obj->len +
                                 elements.obj->len);
  append(r, &count, carry[1]);
  append(r, &count, carry[0]);
  append(r, &count, elements);
  vm_replay_end(vm, r);
  value_retain(r);
  vm_drop_temps(vm, mark);
  return r;
}

/* ---- values that are kept besides the states ---- */

/* Finds the values of an iteration from state c, whose result is y. */
static uint32_t values_of_iteration(Eval *vm, Value c, Value y,
                                    Node *out[MAX_KEPT_VALUES]) {
  FlatLeaves carry = {.count = 0}, results = {.count = 0};
  return vm_flatten(vm, c, &carry) && vm_flatten(vm, y, &results)
             ? loop_kept_values(carry.count, carry.leaves, results.count,
                                results.leaves, out)
             : 0;
}

static double node_bytes(const Node *n) {
  return (double)shape_element_count(n->rank, node_own_extents(n)) *
         dtype_info[n->dtype].bytes;
}

/* The bytes of one iteration that may be kept besides its state c. */
static double max_kept_bytes(Eval *vm, Value c) {
  const SymbolicRun *run = &vm->symbolic_runs[vm->symbolic_run_count - 1];
  double count = (double)vm->stack[run->stack_height].index->extent,
         memory = (double)machine()->memory_bytes / KEPT_STATES_MEMORY_PART,
         state_bytes = 0;
  FlatLeaves state = {.count = 0};
  vm_flatten(vm, c, &state);
  for (uint32_t k = 0; k < state.count; k++)
    state_bytes += node_bytes(state.leaves[k]);
  double rest = memory / count - state_bytes;
  return fmin(rest, MAX_KEPT_VALUES_RATIO * state_bytes);
}

Value vm_kept_values(Eval *vm, const Value *at) {
  enum { KEEPS = 1, STATE, ELEMENT, NEW_STATE, OUTPUT };
  size_t mark = vm->temp_count;
  Node *values[MAX_KEPT_VALUES];
  if (!at[KEEPS].i || vm_is_aot_tracing(vm))
    return value_unit();
  Value y = vm_new_tuple(vm, 2);
  AS_ARRAY(y)->at[0] = value_retain(at[NEW_STATE]);
  AS_ARRAY(y)->at[1] = value_retain(at[OUTPUT]);
  uint32_t count = values_of_iteration(vm, at[STATE], y, values);
  double bytes = 0, max = max_kept_bytes(vm, at[STATE]);
  Value r = value_unit();
  if (count)
    r = vm_new_tuple(vm, count);
  for (uint32_t k = 0; k < count; k++) {
    bool fits = bytes + node_bytes(values[k]) <= max;
    bytes += fits ? node_bytes(values[k]) : 0;
    AS_ARRAY(r)->at[k] =
        fits ? value_node(node_retain(values[k])) : value_unit();
  }
  value_retain(r);
  vm_drop_temps(vm, mark);
  return r;
}

/* ---- one iteration of the reverse pass ---- */

enum { /* locals of CODE_ADJOINT_STEP */
       STEP_CAPTURED,
       STEP_FUNCTION,
       STEP_ID,
       STEP_HAS_ELEMENT_INPUTS,
       STEP_CARRY,
       STEP_ROW,
       STEP_RESULT = 8,
       STEP_VALUES
};

/* The row of the iteration: what it keeps, the element, the cotangents. */
static const Value *kept_row(const Value *at) {
  return AS_ARRAY(AS_ARRAY(at[STEP_ROW])->at[0])->at;
}

/* A leaf, which is also the next one of map->nodes. */
static Value step_leaf(LeafMap *map, Value v) {
  Eval *vm = map->vm;
  Node *leaf = node_leaf(&vm->graph, vm_to_node(vm, v), map->tape);
  map->nodes[map->next++] = vm_temp_node(vm, leaf);
  return value_node(node_retain(leaf));
}

void vm_adjoint_step_begin(Eval *vm, const Value *at) {
  size_t mark = vm->temp_count;
  const Value *row = AS_ARRAY(at[STEP_ROW])->at;
  Value captured = at[STEP_CAPTURED], state = kept_row(at)[0];
  bool has_element_inputs = at[STEP_HAS_ELEMENT_INPUTS].i;
  vm_set_node_span(vm);
  Tape *tape = vm_push_tape(vm);
  uint32_t captured_count = captured.obj->len,
           count = captured_count + float_count(vm, state) +
                   (has_element_inputs ? float_count(vm, row[1]) : 0);
  LeafMap map = {
      .vm = vm, .leaf = step_leaf, .tape = tape, .keeps_temps = true};
  map.nodes = vm_scratch(vm, (count + 1) * sizeof *map.nodes);
  Value captured_leaves = map_leaves(&map, captured);
  vm_push_temp(vm, captured_leaves);
  Value c = map_leaves(&map, state);
  vm_push_temp(vm, c);
  Value x =
      has_element_inputs ? map_leaves(&map, row[1]) : value_retain(row[1]);
  vm_push_temp(vm, x);
  LeafMap fill = {.vm = vm,
                  .is_leaf = is_hole,
                  .leaf = filled,
                  .in_functions = true,
                  .values = AS_ARRAY(captured_leaves)->at,
                  .id = (uint32_t)at[STEP_ID].i};
  Value f = map_leaves(&fill, at[STEP_FUNCTION]);
  vm_push_temp(vm, f);
  Value leaves = vm_new_tuple(vm, count);
  for (uint32_t k = 0; k < count; k++)
    AS_ARRAY(leaves)->at[k] = value_node(node_retain(map.nodes[k]));
  *vm->sp++ = value_retain(leaves);
  *vm->sp++ = value_retain(f);
  *vm->sp++ = value_retain(c);
  *vm->sp++ = value_retain(x);
  vm_drop_temps(vm, mark);
}

Value vm_adjoint_step_values(Eval *vm, const Value *at) {
  size_t mark = vm->temp_count;
  Node *values[MAX_KEPT_VALUES];
  uint32_t count = 0;
  if (kept_row(at)[1].tag == V_TUPLE)
    count = values_of_iteration(vm, kept_row(at)[0], at[STEP_RESULT], values);
  Value r = vm_new_tuple(vm, count);
  for (uint32_t k = 0; k < count; k++)
    AS_ARRAY(r)->at[k] = value_node(node_retain(values[k]));
  value_retain(r);
  vm_drop_temps(vm, mark);
  return r;
}

/* Makes the nodes of the iteration read the kept values.  The gradients depend
 * on them, and do not change. */
static void use_kept_values(Eval *vm, const Value *at) {
  Value kept = kept_row(at)[1], values = at[STEP_VALUES];
  if (kept.tag != V_TUPLE || kept.obj->len != values.obj->len)
    return;
  for (uint32_t k = 0; k < kept.obj->len; k++) {
    Value x = AS_ARRAY(kept)->at[k];
    Node *n = AS_ARRAY(values)->at[k].node;
    if (x.tag == V_NODE && node_has_type_of(n, x.node))
      node_read_instead(&vm->graph, n, x.node);
  }
}

Value vm_adjoint_step_end(Eval *vm, const Value *at, Value gradients) {
  size_t mark = vm->temp_count;
  use_kept_values(vm, at);
  const Value *sums = AS_ARRAY(AS_ARRAY(at[STEP_CARRY])->at[1])->at;
  uint32_t captured_count = at[STEP_CAPTURED].obj->len,
           state_count = AS_ARRAY(at[STEP_CARRY])->at[0].obj->len,
           before = captured_count + state_count;
  vm_set_node_span(vm);
  Value new_sums = vm_new_tuple(vm, captured_count);
  for (uint32_t k = 0; k < captured_count; k++)
    AS_ARRAY(new_sums)->at[k] =
        vm_binary(vm, PRIM_ADD, sums[k], AS_ARRAY(gradients)->at[k]);
  Value carry = vm_new_tuple(vm, 2), pair = vm_new_tuple(vm, 2);
  AS_ARRAY(carry)->at[0] =
      value_retain(parts_of(vm, gradients, captured_count, state_count));
  AS_ARRAY(carry)->at[1] = value_retain(new_sums);
  AS_ARRAY(pair)->at[0] = value_retain(carry);
  AS_ARRAY(pair)->at[1] = value_retain(
      parts_of(vm, gradients, before, gradients.obj->len - before));
  value_retain(pair);
  vm_drop_temps(vm, mark);
  return pair;
}
