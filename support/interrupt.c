/* Interrupts (Ctrl-C): the flag that a thread polls. */
#include "support/interrupt.h"
#include "support/flag.h"
#include "support/trap.h"

static _Thread_local Flag *interrupt_flag;

void interrupt_set_flag(Flag *flag) {
  interrupt_flag = flag;
}

bool interrupt_pending(void) {
  return interrupt_flag && flag_is_set(interrupt_flag);
}

void interrupt_poll(void) {
  if (interrupt_pending())
    trap_raise(FAIL_INTERRUPT);
}

static bool change_state(InterruptDeferral *deferral, InterruptState from,
                         InterruptState to) {
  return atomic_compare_exchange_strong(&deferral->state, &from, to);
}

bool interrupt_defer(InterruptDeferral *deferral) {
  return change_state(deferral, INTERRUPT_DEFERRED, INTERRUPT_WAITING);
}

bool interrupt_begin_deferral(InterruptDeferral *deferral) {
  return change_state(deferral, INTERRUPT_IMMEDIATE, INTERRUPT_DEFERRED);
}

bool interrupt_end_deferral(InterruptDeferral *deferral) {
  return atomic_exchange(&deferral->state, INTERRUPT_IMMEDIATE) ==
         INTERRUPT_WAITING;
}

bool interrupt_waits(const InterruptDeferral *deferral) {
  return atomic_load(&deferral->state) == INTERRUPT_WAITING;
}
