/* Declarations that are run again and again. */
#include "eval/internal.h"

struct Rerun {
  const Code *code;
  Global *result;
};

static void settle(Eval *vm, bool unseen) {
  for (Global *g = vm->globals; g; g = g->next)
    (unseen ? vm_force_unseen : vm_force_value)(vm, g->value);
}

static void run_again(Eval *vm, const Rerun *rerun) {
  Global *g = rerun->result;
  value_release(&vm->heap, vm_run(vm, rerun->code, 0, NULL));
  vm_force_value(vm, g->value);
  value_release(&vm->heap, g->value);
  g->value = value_unit();
}

bool eval_settle(Eval *vm, bool unseen, Diags *diags) {
  Trap trap;
  eval_enter(vm, diags);
  if (TRAP_SET(trap) == FAIL_NONE) {
    settle(vm, unseen);
    trap_end(&trap);
    vm_drop_temps(vm, 0);
    return true;
  }
  eval_failed(vm, trap.kind);
  return false;
}

Rerun *eval_rerun_new(Eval *vm, const CoreDec *dec, Diags *diags) {
  Trap trap;
  eval_enter(vm, diags);
  if (TRAP_SET(trap) == FAIL_NONE) {
    Rerun *rerun = NEW(vm->arena, Rerun);
    rerun->code = compile_bind(vm, dec, false);
    rerun->result = global_of(vm, dec->pat->var);
    trap_end(&trap);
    return rerun;
  }
  eval_failed(vm, trap.kind);
  return NULL;
}

bool eval_rerun(Eval *vm, const Rerun *rerun, Diags *diags) {
  Trap trap;
  eval_enter(vm, diags);
  if (TRAP_SET(trap) == FAIL_NONE) {
    run_again(vm, rerun);
    trap_end(&trap);
    vm_drop_temps(vm, 0);
    return true;
  }
  eval_failed(vm, trap.kind);
  return false;
}
