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
