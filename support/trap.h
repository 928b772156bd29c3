/* Traps: trap_raise unwinds to the innermost TRAP_SET of its thread. */
#ifndef AXON_SUPPORT_TRAP_H
#define AXON_SUPPORT_TRAP_H

#include "support/compiler.h"

#include <setjmp.h>

typedef enum FailKind {
  FAIL_NONE,
  FAIL_MEMORY,    /* an allocation failed */
  FAIL_ERROR,     /* a diagnostic was already emitted */
  FAIL_INTERRUPT, /* Ctrl-C */
  FAIL_LIMIT, /* nesting or effort limit; a diagnostic was already emitted */
} FailKind;

/* A handler to unwind to.  Traps nest; each thread has its own stack of
 * them.
 *
 *   Trap trap;
 *   if (TRAP_SET(trap) == FAIL_NONE) { ...; trap_end(&trap); }
 *   else { ... handle trap.kind ... }       (the trap has already ended here)
 */
typedef struct Trap {
  jmp_buf jump_buffer;
  FailKind kind;
  struct Trap *outer;
} Trap;

void trap_begin(Trap *trap);
void trap_end(Trap *trap);
#define TRAP_SET(trap) \
  (trap_begin(&(trap)), (FailKind)setjmp((trap).jump_buffer))
NORETURN void trap_raise(FailKind kind); /* unwinds to the innermost trap */

#endif
