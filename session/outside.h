/* What the files behind axon.h share. */
#ifndef AXON_SESSION_OUTSIDE_H
#define AXON_SESSION_OUTSIDE_H

#include "session/axon.h"
#include "session/session.h"

struct AxnSession {
  Session *session;
  Buffer text, json; /* of the diagnostics last asked for */
  Arena *arena;      /* of those that were told; or NULL */
  VEC(AxnDiag *) told;
  void (*write)(void *owner, const char *text, size_t len);
  void *owner;
  bool places; /* are kept */
  bool busy;   /* running: its output function must not ask for more */
  int signal;  /* that interrupts it; or 0 */
};

/* ---- axon.c ---- */

AxnStatus axon_status(SessionStatus status);
/* Forgets what was said before. */
void axon_forget(AxnSession *a);
/* An error without a place. */
void axon_error(AxnSession *a, uint16_t code, const char *help,
                const char *format, ...) PRINTF_LIKE(4, 5);
/* Around all that runs the program; false: it is running already. */
bool axon_begin(AxnSession *a);
AxnStatus axon_end(AxnSession *a, SessionStatus status);

/* ---- axonvalue.c ---- */

enum { BAD_VALUE = 520 };
/* An AxnValue is a Datum. */
static inline Datum *datum_of(const AxnValue *value) {
  return (Datum *)(uintptr_t)value;
}
static inline AxnValue *value_of_datum(Datum *d) {
  return (AxnValue *)(void *)d;
}

/* ---- axonsignal.c ---- */

void signal_begin(AxnSession *a);
void signal_end(AxnSession *a);

#endif
