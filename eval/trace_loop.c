/* Traced loops: one iteration, run on a carry without a value, stands for all
 * iterations (JAX `scan`).
 *
 * If the iteration is a formula of the carry and the scanned elements, the loop
 * becomes a node (tensor/recurrence.c).  Otherwise all iterations are executed
 * immediately (plan/loop_execute.c).
 *
 * The host runs the loop in the ordinary way if the body needs the value of the
 * carry, has an effect, or fails.  So an error is reported in the iteration in
 * which it occurs. */
#include "eval/internal.h"

enum {
  /* Iterations from which tracing pays, if the carry is all scalars: the host
   * runs such loops fast. */
  MIN_SCALAR_CARRY_ITERATIONS = 4096,
  /* Iterations from which a recurrence pays.  A shorter one is unrolled: its
   * formula is fused with its readers. */
  MIN_RECURRENCE_ITERATIONS = 16,
  /* Iterations from which one plan of an iteration pays. */
  MIN_PLANNED_ITERATIONS = 2,
  ASSUMED_WHILE_ITERATIONS = 256 /* assumed trip count of a `while` */
};

/* Locals of a loop.  The builders in higher_order_prims.c define them. */
enum {
  LOCAL_FN,
  LOCAL_CARRY,
  LOCAL_SCANNED,
  LOCAL_ITERATION,
  LOCAL_CARRY_IN,
  LOCAL_CARRY_OUT
};
/* The same for iterate and while. */
enum { ITERATE_TRIP_COUNT, ITERATE_FN, ITERATE_CARRY };

static Value *frame_locals(Eval *vm) {
  return vm->stack + vm->fp->base;
}

static bool has_scanned_input(TracedLoopKind kind) {
  return kind != TRACED_LOOP_ITERATE && kind != TRACED_LOOP_BOTTOM_TESTED;
}

static Value *loop_function(Eval *vm, TracedLoopKind kind) {
  return frame_locals(vm) + (has_scanned_input(kind) ? LOCAL_FN : ITERATE_FN);
}

static Value *loop_carry(Eval *vm, TracedLoopKind kind) {
  return frame_locals(vm) +
         (has_scanned_input(kind) ? LOCAL_CARRY : ITERATE_CARRY);
}

static int64_t loop_trip_count(Eval *vm, TracedLoopKind kind) {
  if (kind == TRACED_LOOP_BOTTOM_TESTED)
    return ASSUMED_WHILE_ITERATIONS;
  return kind == TRACED_LOOP_ITERATE
             ? vm_size_maybe_wrapped(vm, frame_locals(vm)[ITERATE_TRIP_COUNT])
             : vm_leading_size(vm, frame_locals(vm)[LOCAL_SCANNED]);
}

/* True if nothing else is being traced. */
static bool is_outermost(const Eval *vm, size_t run_count) {
  return vm->symbolic_run_count == run_count && !vm->graph.guard;
}

static bool pays_to_trace(const Eval *vm, const FlatLeaves *carry,
                          int64_t trip_count) {
  bool all_scalars = !vm_must_defer(vm);
  for (uint32_t k = 0; k < carry->count; k++)
    all_scalars &= carry->leaves[k]->rank == 0;
  return carry->count &&
         (!all_scalars || trip_count >= MIN_SCALAR_CARRY_ITERATIONS);
}

/* True if the loop may become a recurrence or, if it is the outermost one, run
 * by the plan of one iteration. */
static bool may_trace(const Eval *vm, const Code *body, int64_t trip_count) {
  bool is_recurrence = trip_count >= MIN_RECURRENCE_ITERATIONS &&
                       !(body && body->is_not_recurrence);
  bool is_planned =
      trip_count >= MIN_PLANNED_ITERATIONS && is_outermost(vm, 0) &&
      !(body && body->is_recurrence && trip_count < MIN_RECURRENCE_ITERATIONS);
  return (is_recurrence || is_planned) && !(body && body->needs_carry_value);
}

/* Pushes the index and the carry of the iteration, then the function and its
 * arguments.  At the end of the iteration, normal or not, temporaries are
 * dropped down to `temp_mark`. */
static void begin_iteration(Eval *vm, TracedLoopKind kind, int64_t trip_count,
                            const FlatLeaves *carry_init, const Instr *fallback,
                            Code *body, size_t temp_mark) {
  size_t height = (size_t)(vm->sp - vm->stack);
  IndexVar *iteration = index_var_new(trip_count, NULL), *enclosing[MAX_RANK];
  uint32_t count = 0;
  *vm->sp++ = (Value){.tag = V_INDEX, .index = iteration};
  vm_symbolic_run_begin(vm, height, fallback, body, iteration, iteration, true);
  SymbolicRun *run = &vm->symbolic_runs[vm->symbolic_run_count - 1];
  run->is_traced_loop = true;
  run->temp_count = temp_mark;
  vm_set_node_span(vm);
  if (!vm_enclosing_indices(vm, enclosing, &count))
    vm_bail_out(vm, NULL);
  size_t mark = vm->temp_count;
  Node *carry_in[MAX_LEAVES], *const *made = carry_in;
  for (uint32_t k = 0; k < carry_init->count; k++)
    carry_in[k] =
        vm_temp_node(vm, node_loop_carried(&vm->graph, carry_init->leaves[k],
                                           count, enclosing));
  Value carry = vm_unflatten(vm, *loop_carry(vm, kind), &made);
  *vm->sp++ = carry;
  *vm->sp++ = value_retain(*loop_function(vm, kind));
  *vm->sp++ = value_retain(carry);
  if (has_scanned_input(kind)) {
    Value at = value_node(vm_temp_node(vm, node_index(&vm->graph, iteration)));
    Value element = vm_slice(vm, frame_locals(vm)[LOCAL_SCANNED], at);
    *vm->sp++ = element;
  }
  vm_drop_temps(vm, mark);
}

const Instr *vm_eager_loop_begin(Eval *vm, TracedLoopKind kind,
                                 const Instr *next, const Instr *fallback) {
  if (kind == TRACED_LOOP_WHILE || vm_is_recorded_loop(vm))
    return fallback;
  Code *body = vm_body_code(vm, *loop_function(vm, kind));
  int64_t trip_count = loop_trip_count(vm, kind);
  if (!may_trace(vm, body, trip_count) ||
      (kind == TRACED_LOOP_BOTTOM_TESTED && !is_outermost(vm, 0)))
    return fallback;
  size_t mark = vm->temp_count;
  FlatLeaves carry_init = {.count = 0};
  bool traced = vm_flatten(vm, *loop_carry(vm, kind), &carry_init) &&
                pays_to_trace(vm, &carry_init, trip_count);
  if (traced)
    begin_iteration(vm, kind, trip_count, &carry_init, fallback, body, mark);
  vm_drop_temps(vm, mark);
  return traced ? next : fallback;
}

/* ---- the end of an iteration ---- */

/* Undoes the traced iteration.  The host runs the loop, and later ones of this
 * body. */
NORETURN static void bail_out_of_loop(Eval *vm, TracedLoopKind kind) {
  Code *body = vm_body_code(vm, *loop_function(vm, kind));
  if (body && is_outermost(vm, 1))
    body->needs_carry_value = true;
  vm_bail_out(vm, NULL);
}

static bool carry_types_match(const FoldIteration *iteration) {
  for (uint32_t k = 0; k < iteration->carry_count; k++)
    if (iteration->carry_in[k]->dtype != iteration->results[k]->dtype)
      return false;
  return true;
}

/* Returns false if the iteration is not a recurrence formula. */
static bool make_recurrence(Eval *vm, TracedLoopKind kind,
                            const FoldIteration *iteration, Node **out) {
  Code *body = vm_body_code(vm, *loop_function(vm, kind));
  size_t mark = vm->temp_count;
  Fault fault = {0};
  if (kind == TRACED_LOOP_BOTTOM_TESTED || (body && body->is_not_recurrence))
    return false;
  for (uint32_t k = 0; k < iteration->carry_count + iteration->stacked_count;
       k++) {
    out[k] = node_fold(&vm->graph, iteration, k, &fault);
    if (!out[k]) {
      if (body)
        body->is_not_recurrence = true;
      vm_drop_temps(vm, mark);
      return false;
    }
    vm_temp_node(vm, out[k]);
  }
  return true;
}

/* True if the loop is a recurrence too short to be a node. */
static bool is_short_recurrence(Eval *vm, TracedLoopKind kind,
                                const FoldIteration *iteration, Node **out) {
  Code *body = vm_body_code(vm, *loop_function(vm, kind));
  size_t mark = vm->temp_count;
  if (iteration->index->extent >= MIN_RECURRENCE_ITERATIONS ||
      !make_recurrence(vm, kind, iteration, out))
    return false;
  vm_drop_temps(vm, mark);
  if (body)
    body->is_recurrence = true;
  return true;
}

/* Executes all iterations.  Returns false if it fails or is not possible
 * here. */
static bool execute_loop(Eval *vm, const FoldIteration *iteration, Node **out) {
  Value *bp = frame_locals(vm);
  if (!is_outermost(vm, 1))
    return false;
  for (uint32_t k = 0; k < iteration->carry_count; k++)
    node_retain(iteration->carry_in[k]);
  value_release(&vm->heap, bp[LOCAL_CARRY_IN]);
  bp[LOCAL_CARRY_IN] = value_unit();
  if (!graph_execute_loop(&vm->graph, iteration, out))
    return false;
  for (uint32_t k = 0; k < iteration->carry_count + iteration->stacked_count;
       k++)
    vm_temp_node(vm, out[k]);
  vm->last_forced_node = vm->graph.next_node_id;
  return true;
}

/* Builds the result of the loop from nodes.  The caller owns it. */
static Value loop_result(Eval *vm, TracedLoopKind kind, Node *const *out,
                         Value stacked) {
  Value last = vm_unflatten(vm, *loop_carry(vm, kind), &out);
  if (kind != TRACED_LOOP_SCAN)
    return last;
  vm_push_temp(vm, last);
  Value all = vm_unflatten(vm, stacked, &out);
  vm_push_temp(vm, all);
  Value pair = vm_new_tuple(vm, 2);
  AS_ARRAY(pair)->at[0] = value_retain(last);
  AS_ARRAY(pair)->at[1] = value_retain(all);
  return value_retain(pair);
}

/* True for the loop of a reverse pass: its sums are contributions, which have
 * no order. */
static bool is_reverse_pass(Eval *vm, TracedLoopKind kind) {
  Value f = *loop_function(vm, kind);
  return f.tag == V_PARTIAL && AS_PARTIAL(f)->fn.tag == V_FN &&
         AS_PARTIAL(f)->fn.code == vm->derivative_codes[CODE_ADJOINT_STEP];
}

Value vm_eager_loop_end(Eval *vm, TracedLoopKind kind, Value result) {
  Value *bp = frame_locals(vm), next = result, stacked = value_unit();
  size_t mark = vm->temp_count;
  vm_set_node_span(vm);
  if (kind == TRACED_LOOP_BOTTOM_TESTED)
    next = bp[LOCAL_CARRY_OUT];
  if (kind == TRACED_LOOP_SCAN) {
    next = AS_ARRAY(result)->at[0];
    stacked = AS_ARRAY(result)->at[1];
  }
  FlatLeaves carry_init = {.count = 0}, carry_in = {.count = 0},
             carry_out = {.count = 0};
  if (!vm_flatten(vm, *loop_carry(vm, kind), &carry_init) ||
      !vm_flatten(vm, bp[LOCAL_CARRY_IN], &carry_in) ||
      !vm_flatten(vm, next, &carry_out) || carry_out.count != carry_in.count ||
      !vm_flatten(vm, stacked, &carry_out))
    bail_out_of_loop(vm, kind);
  FoldIteration iteration = {.index = bp[LOCAL_ITERATION].index,
                             .carry_count = carry_in.count,
                             .stacked_count = carry_out.count - carry_in.count,
                             .initial = carry_init.leaves,
                             .carry_in = carry_in.leaves,
                             .results = carry_out.leaves,
                             .condition = kind == TRACED_LOOP_BOTTOM_TESTED
                                              ? vm_to_node(vm, result)
                                              : NULL,
                             .associative = kind == TRACED_LOOP_REDUCE,
                             .reorders_sums = is_reverse_pass(vm, kind)};
  Node *out[2 * MAX_LEAVES];
  if (carry_types_match(&iteration) &&
      is_short_recurrence(vm, kind, &iteration, out))
    vm_bail_out(vm, NULL);
  if (!carry_types_match(&iteration) ||
      (!make_recurrence(vm, kind, &iteration, out) &&
       !execute_loop(vm, &iteration, out)))
    bail_out_of_loop(vm, kind);
  Value r = loop_result(vm, kind, out, stacked);
  vm_drop_temps(vm, mark);
  vm_symbolic_run_end(vm);
  return r;
}
