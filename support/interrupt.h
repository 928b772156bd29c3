/* Interrupts of long computations, such as by Ctrl-C. */
#ifndef AXON_SUPPORT_INTERRUPT_H
#define AXON_SUPPORT_INTERRUPT_H

#include "support/flag.h"

/* Interrupts of long computations: sets the flag that this thread polls; NULL
   for none. */
void interrupt_set_flag(Flag *flag);
bool interrupt_pending(void);
void interrupt_poll(void); /* raises FAIL_INTERRUPT if the flag is set */

#endif
