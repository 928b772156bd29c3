/* Interrupts of long computations, such as by Ctrl-C. */
#ifndef AXON_SUPPORT_INTERRUPT_H
#define AXON_SUPPORT_INTERRUPT_H

#include "support/flag.h"

/* Interrupts of long computations: sets the flag that this thread polls; NULL
   for none. */
void interrupt_set_flag(Flag *flag);
bool interrupt_pending(void);
void interrupt_poll(void); /* raises FAIL_INTERRUPT if the flag is set */

/* Defers the first interrupt of a run, so that the run can save its state.  A
 * signal handler or another thread may request it meanwhile. */
typedef enum InterruptState {
  INTERRUPT_IMMEDIATE,
  INTERRUPT_DEFERRED, /* the next interrupt has to wait */
  INTERRUPT_WAITING   /* one waits */
} InterruptState;
typedef struct InterruptDeferral {
  _Atomic InterruptState state;
} InterruptDeferral;

/* Returns true if the interrupt waits; otherwise it takes effect now. */
bool interrupt_defer(InterruptDeferral *deferral);
/* Returns false if interrupts are deferred already. */
bool interrupt_begin_deferral(InterruptDeferral *deferral);
/* Returns true if an interrupt has waited. */
bool interrupt_end_deferral(InterruptDeferral *deferral);
bool interrupt_waits(const InterruptDeferral *deferral);

#endif
