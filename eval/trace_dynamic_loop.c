/* Loops during AOT tracing, if the trip count is unknown or large.  The body
 * runs once, on a carry that has no value.  This iteration becomes the body of
 * a loop node of the graph.  Short loops are unrolled. */
#include "eval/internal.h"

#include <string.h>

enum { MAX_UNROLLED_ITERATIONS = 32 };

/* The locals of a loop.  The builders in higher_order_prims.c define them. */
typedef struct LoopLocals {
  int fn, carry, scanned; /* scanned: -1 if the loop has no scanned input */
} LoopLocals;

static const LoopLocals loop_locals[] = {
    [TRACED_LOOP_ITERATE] = {.fn = 1, .carry = 2, .scanned = -1},
    [TRACED_LOOP_FOLD] = {.fn = 0, .carry = 1, .scanned = 2},
    [TRACED_LOOP_REDUCE] = {.fn = 0, .carry = 1, .scanned = 2},
    [TRACED_LOOP_SCAN] = {.fn = 0, .carry = 1, .scanned = 2},
    [TRACED_LOOP_WHILE] = {.fn = 0, .carry = 2, .scanned = -1},
    [TRACED_LOOP_BOTTOM_TESTED] = {.fn = 1, .carry = 2, .scanned = -1},
};

NORETURN static void fail_dynamic_loop(Eval *vm, const char *why) {
  vm_fail_at(vm, (Span){0}, 612,
             "fix the trip count: --entry 'f : f32[8, n] -> _'",
             "the trip count of this loop is known only at run time: %s", why);
}

/* ---- the tensors of a value, in order ---- */

bool vm_flatten(Eval *vm, Value v, FlatLeaves *out) {
  const Value *parts = NULL;
  bool all = true;
  if (value_is_tensor(v)) {
    if (out->count == MAX_LEAVES)
      return false;
    out->leaves[out->count++] = vm_to_node(vm, v);
    return true;
  }
  if (v.tag == V_TUPLE)
    parts = AS_ARRAY(v)->at;
  else if (v.tag == V_RECORD)
    parts = AS_RECORD(v)->at;
  else
    return v.tag == V_UNIT;
  for (uint32_t k = 0; all && k < v.obj->len; k++)
    all = vm_flatten(vm, parts[k], out);
  return all;
}

static void flatten_or_fail(Eval *vm, Value v, FlatLeaves *out) {
  if (!vm_flatten(vm, v, out))
    fail_dynamic_loop(
        vm,
        "its state contains values that are not tensors, or too many parts");
}

Value vm_unflatten(Eval *vm, Value v, Node *const **nodes) {
  Value r = v;
  if (value_is_tensor(v))
    return value_node(node_retain(*(*nodes)++));
  if (v.tag == V_TUPLE) {
    r = vm_new_tuple(vm, v.obj->len);
    for (uint32_t k = 0; k < v.obj->len; k++)
      AS_ARRAY(r)->at[k] = vm_unflatten(vm, AS_ARRAY(v)->at[k], nodes);
  } else if (v.tag == V_RECORD) {
    r = vm_new_record(vm, AS_RECORD(v)->layout);
    for (uint32_t k = 0; k < v.obj->len; k++)
      AS_RECORD(r)->at[k] = vm_unflatten(vm, AS_RECORD(v)->at[k], nodes);
  }
  return value_retain(r);
}

/* ---- one iteration ---- */

static Value *frame_locals(Eval *vm) {
  return vm->stack + vm->fp->base;
}

static int64_t loop_trip_count(Eval *vm, TracedLoopKind kind) {
  const Value *bp = frame_locals(vm);
  if (kind == TRACED_LOOP_WHILE)
    return 0;
  return kind == TRACED_LOOP_ITERATE
             ? vm_size_maybe_wrapped(vm, bp[0])
             : vm_leading_size(vm, bp[loop_locals[kind].scanned]);
}

bool vm_enclosing_indices(Eval *vm, IndexVar **out, uint32_t *count) {
  *count = 0;
  for (size_t k = 0; k < vm->symbolic_run_count; k++)
    for (const Value *v = vm->stack + vm->symbolic_runs[k].stack_height;
         v < vm->sp && v->tag == V_INDEX; v++) {
      if (*count == MAX_RANK)
        return false;
      out[(*count)++] = v->index;
    }
  return true;
}

/* Pushes a pair of the carry and the iteration number, which vm_traced_loop_end
 * uses.  Then pushes the function and its arguments. */
const Instr *vm_traced_loop_begin(Eval *vm, TracedLoopKind kind,
                                  const Instr *next, const Instr *fallback) {
  if (!vm_is_aot_tracing(vm))
    return vm_eager_loop_begin(vm, kind, next, fallback);
  if (kind == TRACED_LOOP_WHILE && vm_is_recorded_loop(vm))
    vm_fail_at(vm, (Span){0}, 612,
               "give the number of iterations a bound: `iterate 100 (fn x => "
               "if p x then f x else x) x` instead of `while p f x`",
               "a compiled function has no derivative of a `while` whose "
               "condition is known only at run time");
  if (kind == TRACED_LOOP_BOTTOM_TESTED || vm_is_recorded_loop(vm))
    return fallback;
  int64_t count = loop_trip_count(vm, kind);
  if (kind != TRACED_LOOP_WHILE && extent_is_static(&vm->graph, count) &&
      count <= MAX_UNROLLED_ITERATIONS)
    return fallback;
  const LoopLocals *at = &loop_locals[kind];
  size_t mark = vm->temp_count;
  Graph *g = &vm->graph;
  FlatLeaves carry_init = {.count = 0};
  vm_set_node_span(vm);
  flatten_or_fail(vm, frame_locals(vm)[at->carry], &carry_init);
  IndexVar *enclosing[MAX_RANK];
  uint32_t enclosing_count;
  if (!vm_enclosing_indices(vm, enclosing, &enclosing_count))
    fail_dynamic_loop(vm, "it is inside too many index loops");
  g->loop_depth++;
  Node *carry_in[MAX_LEAVES], *const *made = carry_in;
  for (uint32_t k = 0; k < carry_init.count; k++)
    carry_in[k] =
        vm_temp_node(vm, node_loop_carried(g, carry_init.leaves[k],
                                           enclosing_count, enclosing));
  Node *zero = vm_temp_node(vm, node_scalar(g, (Scalar){DT_I64, {.i = 0}}));
  Node *iteration = vm_temp_node(vm, node_loop_carried(g, zero, 0, NULL));
  Value pair = vm_new_tuple(vm, 2), *bp = frame_locals(vm);
  AS_ARRAY(pair)->at[0] = vm_unflatten(vm, bp[at->carry], &made);
  AS_ARRAY(pair)->at[1] = value_node(node_retain(iteration));
  Value part = value_unit();
  if (at->scanned >= 0)
    part = vm_slice(vm, bp[at->scanned], AS_ARRAY(pair)->at[1]);
  *vm->sp++ = value_retain(pair);
  *vm->sp++ = value_retain(bp[at->fn]);
  *vm->sp++ = value_retain(AS_ARRAY(pair)->at[0]);
  if (at->scanned >= 0)
    *vm->sp++ = part;
  vm_drop_temps(vm, mark);
  return next;
}

/* The result of an iteration must have the type and shape of the carry. */
static void check_carry_shape(Eval *vm, Node *state, Node *result) {
  Fault fault = {0};
  if (state->dtype != result->dtype || state->rank != result->rank ||
      state->broadcast_mask != result->broadcast_mask)
    fail_dynamic_loop(vm, "the type of its state changes");
  for (uint32_t k = 0; k < state->rank; k++) {
    int64_t x = node_size(state, k), y = node_size(result, k);
    fault_set(&fault, "the state of a loop changes from %s to %s along axis %u",
              extent_text(&vm->graph, x).text, extent_text(&vm->graph, y).text,
              k);
    if (!extent_require(&vm->graph, EXTENT_EQ, x, y, &fault))
      vm_fault(vm, &fault);
  }
}

/* The outputs `first` to first + count - 1 of the loop, as a value like
 * `like`. */
static Value loop_outputs(Eval *vm, LoopBody *loop_body,
                          const FlatLeaves *carry_init, Value like,
                          uint32_t first, uint32_t count) {
  Node *nodes[MAX_LEAVES], *const *made = nodes;
  Fault fault = {0};
  for (uint32_t k = 0; k < count; k++) {
    nodes[k] =
        node_loop(&vm->graph, loop_body, carry_init->leaves, first + k, &fault);
    if (!nodes[k])
      vm_fault(vm, &fault);
    vm_temp_node(vm, nodes[k]);
  }
  return vm_unflatten(vm, like, &made);
}

static Value loop_results(Eval *vm, TracedLoopKind kind, LoopBody *loop_body,
                          const FlatLeaves *carry_init, Value state,
                          Value made) {
  Value last =
      loop_outputs(vm, loop_body, carry_init, state, 0, loop_body->carry_count);
  if (kind != TRACED_LOOP_SCAN)
    return last;
  vm_push_temp(vm, last);
  Value all = loop_outputs(vm, loop_body, carry_init, made,
                           loop_body->carry_count, loop_body->stacked_count);
  vm_push_temp(vm, all);
  Value pair = vm_new_tuple(vm, 2);
  AS_ARRAY(pair)->at[0] = value_retain(last);
  AS_ARRAY(pair)->at[1] = value_retain(all);
  return value_retain(pair);
}

Value vm_traced_loop_end(Eval *vm, TracedLoopKind kind, Value result) {
  if (!vm_is_aot_tracing(vm))
    return vm_eager_loop_end(vm, kind, result);
  Value *bp = frame_locals(vm);
  Value pair = bp[3], made = value_unit();
  Value next = result;
  size_t mark = vm->temp_count;
  vm_set_node_span(vm);
  if (kind == TRACED_LOOP_SCAN) {
    next = AS_ARRAY(result)->at[0];
    made = AS_ARRAY(result)->at[1];
  }
  FlatLeaves carry_init = {.count = 0}, carry_in = {.count = 0},
             carry_out = {.count = 0};
  flatten_or_fail(vm, bp[loop_locals[kind].carry], &carry_init);
  flatten_or_fail(vm, AS_ARRAY(pair)->at[0], &carry_in);
  flatten_or_fail(vm, next, &carry_out);
  if (carry_in.count != carry_out.count)
    fail_dynamic_loop(vm, "the type of its state changes");
  for (uint32_t k = 0; k < carry_in.count; k++)
    check_carry_shape(vm, carry_in.leaves[k], carry_out.leaves[k]);
  flatten_or_fail(vm, made, &carry_out);
  Node *condition = kind == TRACED_LOOP_WHILE ? vm_to_node(vm, bp[4]) : NULL;
  vm->graph.loop_depth--;
  LoopBody *loop_body =
      loop_body_new(loop_trip_count(vm, kind), condition,
                    AS_ARRAY(pair)->at[1].node, carry_in.count, carry_in.leaves,
                    carry_out.count - carry_in.count, carry_out.leaves);
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    loop_body_release(loop_body);
    trap_raise(trap.kind);
  }
  Value r = loop_results(vm, kind, loop_body, &carry_init,
                         AS_ARRAY(pair)->at[0], made);
  trap_end(&trap);
  loop_body_release(loop_body);
  vm_drop_temps(vm, mark);
  return r;
}
