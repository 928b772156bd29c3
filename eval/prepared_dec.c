/* Prepared declarations: declarations that run many times, for benchmarks. */
#include "eval/internal.h"
#include "support/arena.h"

struct PreparedDec {
  const Code *code;
  Global *result;
};

static void force_globals(Eval *vm, bool skip_inlined) {
  for (Global *g = vm->globals; g; g = g->next)
    (skip_inlined ? vm_force_not_inlined : vm_force_value)(vm, g->value);
}

static void run_prepared(Eval *vm, const PreparedDec *prepared) {
  Global *g = prepared->result;
  value_release(&vm->heap, vm_run(vm, prepared->code, 0, NULL));
  vm_force_value(vm, g->value);
  value_release(&vm->heap, g->value);
  g->value = value_unit();
}

bool eval_force_globals(Eval *vm, bool skip_inlined, Diags *diags) {
  Trap trap;
  eval_enter(vm, diags);
  if (TRAP_SET(trap) == FAIL_NONE) {
    force_globals(vm, skip_inlined);
    trap_end(&trap);
    vm_drop_temps(vm, 0);
    return true;
  }
  eval_recover(vm, trap.kind);
  return false;
}

PreparedDec *eval_prepare_dec(Eval *vm, const CoreDec *dec, Diags *diags) {
  Trap trap;
  eval_enter(vm, diags);
  if (TRAP_SET(trap) == FAIL_NONE) {
    PreparedDec *prepared = NEW(vm->arena, PreparedDec);
    prepared->code = compile_bind(vm, dec, false);
    prepared->result = global_of(vm, dec->pat->var);
    trap_end(&trap);
    return prepared;
  }
  eval_recover(vm, trap.kind);
  return NULL;
}

bool eval_run_prepared(Eval *vm, const PreparedDec *prepared, Diags *diags) {
  Trap trap;
  eval_enter(vm, diags);
  if (TRAP_SET(trap) == FAIL_NONE) {
    run_prepared(vm, prepared);
    trap_end(&trap);
    vm_drop_temps(vm, 0);
    return true;
  }
  eval_recover(vm, trap.kind);
  return false;
}
