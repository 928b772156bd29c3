/* Traps: unwinding to the innermost handler of a thread.  Main entry points:
   TRAP_SET and trap_raise. */
#include "support/trap.h"

static _Thread_local Trap *innermost;

void trap_begin(Trap *trap) {
  trap->kind = FAIL_NONE;
  trap->outer = innermost;
  innermost = trap;
}

void trap_end(Trap *trap) {
  innermost = trap->outer;
}

void trap_raise(FailKind kind) {
  Trap *trap = innermost;
  if (!trap) /* a bug: every entry point of the library sets a trap */
    __builtin_trap();
  innermost = trap->outer;
  trap->kind = kind;
  longjmp(trap->jump_buffer, (int)kind);
}
