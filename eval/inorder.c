/* Loops of many turns.  One turn, run with a state that has no value, stands
 * for all of them: where it is a formula of state and elements they are a node
 * (tensor/fold.c), and else they are run at once (tensor/turns.c).  What needs
 * the state's value, or has an effect, is run on the host, as is a loop in
 * which something goes wrong: so errors are those of the turn that has them. */
#include "eval/internal.h"

enum {
  NUMBERS_LEAST = 4096, /* turns of a state of numbers, which are quick, */
  TURNS_LEAST = 16      /* and of any other */
};

/* Locals: see the builders in loops.c. */
enum { FN, STATE, OVER, TURN, BEGUN };
enum { TIMES, FN_AGAIN, STATE_AGAIN }; /* of iterate */

static Value *locals(Eval *vm) {
  return vm->stack + vm->fp->base;
}

static Value *function_of(Eval *vm, TurnsKind kind) {
  return locals(vm) + (kind == TURNS_ITERATE ? FN_AGAIN : FN);
}

static Value *state_of(Eval *vm, TurnsKind kind) {
  return locals(vm) + (kind == TURNS_ITERATE ? STATE_AGAIN : STATE);
}

static int64_t turns_of(Eval *vm, TurnsKind kind) {
  return kind == TURNS_ITERATE ? vm_index_size(vm, locals(vm)[TIMES])
                               : vm_lead(vm, locals(vm)[OVER]);
}

/* Is it the only thing that is being found out? */
static bool is_outermost(const Eval *vm, size_t attempts) {
  return vm->attempt_count == attempts && !vm->graph.guard;
}

static bool is_worth_it(Eval *vm, const Tensors *state, int64_t turns) {
  bool numbers = !vm_in_attempt(vm);
  for (uint32_t k = 0; k < state->count; k++)
    numbers &= state->at[k]->rank == 0;
  return state->count && turns >= (numbers ? NUMBERS_LEAST : TURNS_LEAST);
}

/* Pushed: the turn's index, the state that it begins with; then what the
 * function is called with.  Temporaries up to `before` are there when it ends,
 * however it does. */
static void begin(Eval *vm, TurnsKind kind, int64_t turns,
                  const Tensors *initial, const Instr *otherwise, Code *body,
                  size_t before) {
  size_t height = (size_t)(vm->sp - vm->stack);
  IndexVar *turn = index_var_new(turns), *open[RANK_MAX];
  uint32_t count = 0;
  *vm->sp++ = (Value){.tag = V_INDEX, .index = turn};
  vm_attempt(vm, height, otherwise, body, turn, turn, true);
  Attempt *attempt = &vm->attempts[vm->attempt_count - 1];
  attempt->turns = true;
  attempt->temps = before;
  vm_place(vm);
  if (!vm_open_indices(vm, open, &count))
    vm_abandon(vm, NULL);
  size_t mark = vm->temp_count;
  Node *states[LEAVES_MOST], *const *made = states;
  for (uint32_t k = 0; k < initial->count; k++)
    states[k] =
        vm_temp(vm, node_state(&vm->graph, initial->at[k], count, open));
  Value state = vm_rebuild(vm, *state_of(vm, kind), &made);
  *vm->sp++ = state;
  *vm->sp++ = value_retain(*function_of(vm, kind));
  *vm->sp++ = value_retain(state);
  if (kind != TURNS_ITERATE) {
    Value at = value_node(vm_temp(vm, node_index(&vm->graph, turn)));
    Value element = vm_slice(vm, locals(vm)[OVER], at);
    *vm->sp++ = element;
  }
  vm_drop_temps(vm, mark);
}

const Instr *vm_order_begin(Eval *vm, TurnsKind kind, const Instr *next,
                            const Instr *otherwise) {
  if (kind == TURNS_WHILE)
    return otherwise;
  Code *body = vm_body_code(vm, *function_of(vm, kind));
  int64_t turns = turns_of(vm, kind);
  if (turns < TURNS_LEAST ||
      (body && (body->by_turns || (body->no_formula && !is_outermost(vm, 0)))))
    return otherwise;
  size_t mark = vm->temp_count;
  Tensors initial = {.count = 0};
  bool good = vm_collect(vm, *state_of(vm, kind), &initial) &&
              is_worth_it(vm, &initial, turns);
  if (good)
    begin(vm, kind, turns, &initial, otherwise, body, mark);
  vm_drop_temps(vm, mark);
  return good ? next : otherwise;
}

/* ---- the end of the turn ---- */

/* What began is undone, and it is run on the host. */
NORETURN static void give_up(Eval *vm, TurnsKind kind) {
  Code *body = vm_body_code(vm, *function_of(vm, kind));
  if (body && is_outermost(vm, 1))
    body->by_turns = true;
  vm_abandon(vm, NULL);
}

static bool same_types(const FoldTurn *turn) {
  for (uint32_t k = 0; k < turn->state_count; k++)
    if (turn->states[k]->dtype != turn->results[k]->dtype)
      return false;
  return true;
}

/* False: it is no formula. */
static bool make_formula(Eval *vm, TurnsKind kind, const FoldTurn *turn,
                         Node **out) {
  Code *body = vm_body_code(vm, *function_of(vm, kind));
  size_t mark = vm->temp_count;
  Fault fault = {0};
  if (body && body->no_formula)
    return false;
  for (uint32_t k = 0; k < turn->state_count + turn->out_count; k++) {
    out[k] = node_fold(&vm->graph, turn, k, &fault);
    if (!out[k]) {
      if (body)
        body->no_formula = true;
      vm_drop_temps(vm, mark);
      return false;
    }
    vm_temp(vm, out[k]);
  }
  return true;
}

/* Runs all turns.  False: something went wrong, or it cannot be done so. */
static bool run_at_once(Eval *vm, const FoldTurn *turn, Node **out) {
  Value *bp = locals(vm);
  if (!is_outermost(vm, 1))
    return false;
  for (uint32_t k = 0; k < turn->state_count; k++)
    node_retain(turn->states[k]);
  value_release(&vm->heap, bp[BEGUN]);
  bp[BEGUN] = value_unit();
  if (!graph_turns(&vm->graph, turn, out))
    return false;
  for (uint32_t k = 0; k < turn->state_count + turn->out_count; k++)
    vm_temp(vm, out[k]);
  vm->forced_node = vm->graph.next_node;
  return true;
}

/* What the turns come to, of nodes; owned. */
static Value result_of(Eval *vm, TurnsKind kind, Node *const *out, Value kept) {
  Value last = vm_rebuild(vm, *state_of(vm, kind), &out);
  if (kind != TURNS_SCAN)
    return last;
  vm_own(vm, last);
  Value all = vm_rebuild(vm, kept, &out);
  vm_own(vm, all);
  Value pair = vm_new_tuple(vm, 2);
  AS_FIELDS(pair)->at[0] = value_retain(last);
  AS_FIELDS(pair)->at[1] = value_retain(all);
  return value_retain(pair);
}

Value vm_order_end(Eval *vm, TurnsKind kind, Value result) {
  Value *bp = locals(vm), next = result, kept = value_unit();
  size_t mark = vm->temp_count;
  vm_place(vm);
  if (kind == TURNS_SCAN) {
    next = AS_FIELDS(result)->at[0];
    kept = AS_FIELDS(result)->at[1];
  }
  Tensors initial = {.count = 0}, states = {.count = 0}, results = {.count = 0};
  if (!vm_collect(vm, *state_of(vm, kind), &initial) ||
      !vm_collect(vm, bp[BEGUN], &states) || !vm_collect(vm, next, &results) ||
      results.count != states.count || !vm_collect(vm, kept, &results))
    give_up(vm, kind);
  FoldTurn turn = {.at = bp[TURN].index,
                   .state_count = states.count,
                   .out_count = results.count - states.count,
                   .initial = initial.at,
                   .states = states.at,
                   .results = results.at,
                   .reduces = kind == TURNS_REDUCE};
  Node *out[2 * LEAVES_MOST];
  if (!same_types(&turn) ||
      (!make_formula(vm, kind, &turn, out) && !run_at_once(vm, &turn, out)))
    give_up(vm, kind);
  Value r = result_of(vm, kind, out, kept);
  vm_drop_temps(vm, mark);
  vm_attempt_end(vm);
  return r;
}
