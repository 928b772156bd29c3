/* What the files behind axon.h share. */
#ifndef AXON_SESSION_CAPI_H
#define AXON_SESSION_CAPI_H

#include "session/axon.h"
#include "session/session.h"

struct AxnSession {
  Session *session;
  Buffer text, json; /* of the diagnostics last asked for */
  Arena *arena;      /* of those that were told; or NULL */
  VEC(AxnDiag *) exported_diags;
  void (*write)(void *owner, const char *text, size_t len);
  void *owner;
  bool record_refs; /* are kept */
  bool is_busy;     /* running: its output function must not ask for more */
  int signal;       /* that interrupts it; or 0 */
};

/* ---- capi.c ---- */

AxnStatus capi_status(SessionStatus status);
/* Forgets what was said before. */
void capi_clear_diags(AxnSession *a);
/* An error without a place. */
void capi_error(AxnSession *a, uint16_t code, const char *help,
                const char *format, ...) PRINTF_LIKE(4, 5);
/* Around all that runs the program; false: it is running already. */
bool capi_begin(AxnSession *a);
AxnStatus capi_end(AxnSession *a, SessionStatus status);

/* The file, bytes, lines and columns of a span. */
AxnPlace capi_place(const Sources *sources, Span span);

/* ---- capi_value.c ---- */

enum { ERROR_BAD_VALUE = 520 };
/* An AxnValue is a Datum. */
static inline HostValue *host_value_of(const AxnValue *value) {
  return (HostValue *)(uintptr_t)value;
}
static inline AxnValue *capi_value_of(HostValue *d) {
  return (AxnValue *)(void *)d;
}

/* ---- capi_signal.c ---- */

void capi_signal_begin(AxnSession *a);
void capi_signal_end(AxnSession *a);

#endif
