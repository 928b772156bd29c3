/* Folds and scans of many turns.  Where the function is a formula of its state
 * and of elements, one turn of it, run with indices that have no value, stands
 * for all of them (tensor/fold.c); else they are run on the host. */
#include "eval/internal.h"

enum {
  NUMBERS_LEAST = 4096, /* turns of a state of numbers, which are quick, */
  TURNS_LEAST = 16      /* and of any other */
};

/* Locals: see the builders in loops.c. */
enum { FN, STATE, OVER, TURN, BEGUN };

static Value *locals(Eval *vm) {
  return vm->stack + vm->fp->base;
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
static void begin(Eval *vm, const Tensors *initial, const Instr *otherwise,
                  Code *body, size_t before) {
  Value *bp = locals(vm);
  size_t height = (size_t)(vm->sp - vm->stack);
  IndexVar *turn = index_var_new(vm_lead(vm, bp[OVER])), *open[RANK_MAX];
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
  Value state = vm_rebuild(vm, bp[STATE], &made);
  Value at = value_node(vm_temp(vm, node_index(&vm->graph, turn)));
  *vm->sp++ = state;
  *vm->sp++ = value_retain(bp[FN]);
  *vm->sp++ = value_retain(state);
  Value element = vm_slice(vm, bp[OVER], at);
  *vm->sp++ = element;
  vm_drop_temps(vm, mark);
}

const Instr *vm_order_begin(Eval *vm, TurnsKind kind, const Instr *next,
                            const Instr *otherwise) {
  if (kind == TURNS_ITERATE || kind == TURNS_WHILE)
    return otherwise;
  Value *bp = locals(vm);
  Code *body = vm_body_code(vm, bp[FN]);
  int64_t turns = vm_lead(vm, bp[OVER]);
  if (turns < TURNS_LEAST || (body && body->by_turns))
    return otherwise;
  size_t mark = vm->temp_count;
  Tensors initial = {.count = 0};
  bool good =
      vm_collect(vm, bp[STATE], &initial) && is_worth_it(vm, &initial, turns);
  if (good)
    begin(vm, &initial, otherwise, body, mark);
  vm_drop_temps(vm, mark);
  return good ? next : otherwise;
}

/* ---- the end of the turn ---- */

/* It is no formula: what began is undone, and it is run on the host. */
NORETURN static void give_up(Eval *vm) {
  Code *body = vm_body_code(vm, locals(vm)[FN]);
  if (body)
    body->by_turns = true;
  vm_abandon(vm, NULL);
}

static void check_states(Eval *vm, const Tensors *states,
                         const Tensors *results) {
  for (uint32_t k = 0; k < states->count; k++)
    if (states->at[k]->dtype != results->at[k]->dtype)
      give_up(vm);
}

static Value outputs(Eval *vm, const FoldTurn *turn, Value like, uint32_t first,
                     uint32_t count) {
  Node *nodes[LEAVES_MOST], *const *made = nodes;
  Fault fault = {0};
  for (uint32_t k = 0; k < count; k++) {
    nodes[k] = node_fold(&vm->graph, turn, first + k, &fault);
    if (!nodes[k])
      give_up(vm);
    vm_temp(vm, nodes[k]);
  }
  return vm_rebuild(vm, like, &made);
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
  if (!vm_collect(vm, bp[STATE], &initial) ||
      !vm_collect(vm, bp[BEGUN], &states) || !vm_collect(vm, next, &results) ||
      results.count != states.count)
    give_up(vm);
  check_states(vm, &states, &results);
  if (!vm_collect(vm, kept, &results))
    give_up(vm);
  FoldTurn turn = {.at = bp[TURN].index,
                   .state_count = states.count,
                   .initial = initial.at,
                   .states = states.at,
                   .results = results.at,
                   .reduces = kind == TURNS_REDUCE};
  Value r = outputs(vm, &turn, bp[BEGUN], 0, states.count);
  if (kind == TURNS_SCAN) {
    vm_own(vm, r);
    Value all =
        outputs(vm, &turn, kept, states.count, results.count - states.count);
    vm_own(vm, all);
    Value pair = vm_new_tuple(vm, 2);
    AS_FIELDS(pair)->at[0] = value_retain(r);
    AS_FIELDS(pair)->at[1] = value_retain(all);
    r = value_retain(pair);
  }
  vm_drop_temps(vm, mark);
  vm_attempt_end(vm);
  return r;
}
