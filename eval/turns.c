/* Loops in a function that is traced, where nobody knows how often they turn,
 * or it is often: the body is run once, on a state that has no value, and the
 * turn becomes the body of a loop of the graph. */
#include "eval/internal.h"

#include <string.h>

enum { UNROLLED_MOST = 32 };

/* Where a loop's locals are: see the builders in loops.c. */
typedef struct Places {
  int fn, state, over; /* over: what is folded over, or -1 */
} Places;

static const Places places[] = {
    [TURNS_ITERATE] = {.fn = 1, .state = 2, .over = -1},
    [TURNS_FOLD] = {.fn = 0, .state = 1, .over = 2},
    [TURNS_REDUCE] = {.fn = 0, .state = 1, .over = 2},
    [TURNS_SCAN] = {.fn = 0, .state = 1, .over = 2},
    [TURNS_WHILE] = {.fn = 0, .state = 2, .over = -1},
    [TURNS_TESTED] = {.fn = 1, .state = 2, .over = -1},
};

NORETURN static void refuse(Eval *vm, const char *why) {
  vm_fail_at(vm, (Span){0}, 612,
             "give the number of its turns as a number: --entry 'f : f32[8, n] "
             "-> _'",
             "this loop turns as often as only the compiled function knows: %s",
             why);
}

/* ---- the tensors of a value, in order ---- */

bool vm_collect(Eval *vm, Value v, Tensors *out) {
  const Value *parts = NULL;
  bool all = true;
  if (value_is_tensor(v)) {
    if (out->count == LEAVES_MOST)
      return false;
    out->at[out->count++] = vm_to_node(vm, v);
    return true;
  }
  if (v.tag == V_TUPLE)
    parts = AS_FIELDS(v)->at;
  else if (v.tag == V_RECORD)
    parts = AS_RECORD(v)->at;
  else
    return v.tag == V_UNIT;
  for (uint32_t k = 0; all && k < v.obj->len; k++)
    all = vm_collect(vm, parts[k], out);
  return all;
}

static void collect(Eval *vm, Value v, Tensors *out) {
  if (!vm_collect(vm, v, out))
    refuse(vm, "its state is more than tensors, or has too many parts");
}

Value vm_rebuild(Eval *vm, Value v, Node *const **nodes) {
  Value r = v;
  if (value_is_tensor(v))
    return value_node(node_retain(*(*nodes)++));
  if (v.tag == V_TUPLE) {
    r = vm_new_tuple(vm, v.obj->len);
    for (uint32_t k = 0; k < v.obj->len; k++)
      AS_FIELDS(r)->at[k] = vm_rebuild(vm, AS_FIELDS(v)->at[k], nodes);
  } else if (v.tag == V_RECORD) {
    r = vm_new_record(vm, AS_RECORD(v)->layout);
    for (uint32_t k = 0; k < v.obj->len; k++)
      AS_RECORD(r)->at[k] = vm_rebuild(vm, AS_RECORD(v)->at[k], nodes);
  }
  return value_retain(r);
}

/* ---- a turn ---- */

static Value *locals(Eval *vm) {
  return vm->stack + vm->fp->base;
}

static int64_t turns(Eval *vm, TurnsKind kind) {
  const Value *bp = locals(vm);
  if (kind == TURNS_WHILE)
    return 0;
  return kind == TURNS_ITERATE ? vm_index_size(vm, bp[0])
                               : vm_lead(vm, bp[places[kind].over]);
}

bool vm_open_indices(Eval *vm, IndexVar **out, uint32_t *count) {
  *count = 0;
  for (size_t k = 0; k < vm->attempt_count; k++)
    for (const Value *v = vm->stack + vm->attempts[k].height;
         v < vm->sp && v->tag == V_INDEX; v++) {
      if (*count == RANK_MAX)
        return false;
      out[(*count)++] = v->index;
    }
  return true;
}

/* Pushed: a pair of the state and the turn's number, for the end; then what
 * the body is called with. */
const Instr *vm_turns_begin(Eval *vm, TurnsKind kind, const Instr *next,
                            const Instr *otherwise) {
  if (!vm_traces(vm))
    return vm_order_begin(vm, kind, next, otherwise);
  if (kind == TURNS_TESTED)
    return otherwise;
  int64_t count = turns(vm, kind);
  if (kind != TURNS_WHILE && size_is_number(&vm->graph, count) &&
      count <= UNROLLED_MOST)
    return otherwise;
  const Places *at = &places[kind];
  size_t mark = vm->temp_count;
  Graph *g = &vm->graph;
  Tensors initial = {.count = 0};
  vm_place(vm);
  collect(vm, locals(vm)[at->state], &initial);
  IndexVar *open[RANK_MAX];
  uint32_t count_open;
  if (!vm_open_indices(vm, open, &count_open))
    refuse(vm, "it stands inside of too many indices");
  g->loop_depth++;
  Node *states[LEAVES_MOST], *const *made = states;
  for (uint32_t k = 0; k < initial.count; k++)
    states[k] = vm_temp(vm, node_state(g, initial.at[k], count_open, open));
  Node *zero = vm_temp(vm, node_scalar(g, (Scalar){DT_I64, {.i = 0}}));
  Node *turn = vm_temp(vm, node_state(g, zero, 0, NULL));
  Value pair = vm_new_tuple(vm, 2), *bp = locals(vm);
  AS_FIELDS(pair)->at[0] = vm_rebuild(vm, bp[at->state], &made);
  AS_FIELDS(pair)->at[1] = value_node(node_retain(turn));
  Value part = value_unit();
  if (at->over >= 0)
    part = vm_slice(vm, bp[at->over], AS_FIELDS(pair)->at[1]);
  *vm->sp++ = value_retain(pair);
  *vm->sp++ = value_retain(bp[at->fn]);
  *vm->sp++ = value_retain(AS_FIELDS(pair)->at[0]);
  if (at->over >= 0)
    *vm->sp++ = part;
  vm_drop_temps(vm, mark);
  return next;
}

/* What a turn ends with is what the next one begins with. */
static void state_fits(Eval *vm, Node *state, Node *result) {
  Fault fault = {0};
  if (state->dtype != result->dtype || state->rank != result->rank ||
      state->stars != result->stars)
    refuse(vm, "its state changes its type");
  for (uint32_t k = 0; k < state->rank; k++) {
    int64_t x = node_size(state, k), y = node_size(result, k);
    fault_set(&fault, "the state of a loop changes from %s to %s along axis %u",
              size_text(&vm->graph, x).text, size_text(&vm->graph, y).text, k);
    if (!size_demand(&vm->graph, SIZE_EQ, x, y, &fault))
      vm_fault(vm, &fault);
  }
}

/* Of the values that the loop comes to: tensors from the first on. */
static Value outputs(Eval *vm, Turns *loop, const Tensors *initial, Value like,
                     uint32_t first, uint32_t count) {
  Node *nodes[LEAVES_MOST], *const *made = nodes;
  Fault fault = {0};
  for (uint32_t k = 0; k < count; k++) {
    nodes[k] = node_loop(&vm->graph, loop, initial->at, first + k, &fault);
    if (!nodes[k])
      vm_fault(vm, &fault);
    vm_temp(vm, nodes[k]);
  }
  return vm_rebuild(vm, like, &made);
}

static Value close_turns(Eval *vm, TurnsKind kind, Turns *loop,
                         const Tensors *initial, Value state, Value made) {
  Value last = outputs(vm, loop, initial, state, 0, loop->state_count);
  if (kind != TURNS_SCAN)
    return last;
  vm_own(vm, last);
  Value all =
      outputs(vm, loop, initial, made, loop->state_count, loop->out_count);
  vm_own(vm, all);
  Value pair = vm_new_tuple(vm, 2);
  AS_FIELDS(pair)->at[0] = value_retain(last);
  AS_FIELDS(pair)->at[1] = value_retain(all);
  return value_retain(pair);
}

Value vm_turns_end(Eval *vm, TurnsKind kind, Value result) {
  if (!vm_traces(vm))
    return vm_order_end(vm, kind, result);
  Value *bp = locals(vm);
  Value pair = bp[3], made = value_unit();
  Value next = result;
  size_t mark = vm->temp_count;
  vm_place(vm);
  if (kind == TURNS_SCAN) {
    next = AS_FIELDS(result)->at[0];
    made = AS_FIELDS(result)->at[1];
  }
  Tensors initial = {.count = 0}, states = {.count = 0}, results = {.count = 0};
  collect(vm, bp[places[kind].state], &initial);
  collect(vm, AS_FIELDS(pair)->at[0], &states);
  collect(vm, next, &results);
  if (states.count != results.count)
    refuse(vm, "its state changes its type");
  for (uint32_t k = 0; k < states.count; k++)
    state_fits(vm, states.at[k], results.at[k]);
  collect(vm, made, &results);
  Node *more = kind == TURNS_WHILE ? vm_to_node(vm, bp[4]) : NULL;
  vm->graph.loop_depth--;
  Turns *loop = turns_new(turns(vm, kind), more, AS_FIELDS(pair)->at[1].node,
                        states.count, states.at, results.count - states.count,
                        results.at);
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    turns_release(loop);
    trap_raise(trap.kind);
  }
  Value r =
      close_turns(vm, kind, loop, &initial, AS_FIELDS(pair)->at[0], made);
  trap_end(&trap);
  turns_release(loop);
  vm_drop_temps(vm, mark);
  return r;
}
