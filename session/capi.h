/* Shared by the files that implement axon.h. */
#ifndef AXON_SESSION_CAPI_H
#define AXON_SESSION_CAPI_H

#include "session/axon.h"
#include "session/session.h"
#include "support/buffer.h"
#include "support/compiler.h"
#include "support/span.h"
#include "support/vec.h"

typedef struct Arena Arena;
typedef struct Sources Sources;

struct AxnSession {
  Session *session;
  Buffer text, json; /* texts of the diagnostics last requested */
  void *png;         /* bytes of the figure last requested */
  Arena *arena;      /* holds the diagnostics handed out; or NULL */
  VEC(AxnDiag *) exported_diags;
  void (*write)(void *owner, const char *text, size_t len);
  void *owner;
  bool record_refs; /* records symbol references */
  bool is_busy;     /* running: the output callback must not make requests */
  int signal;       /* signal that interrupts it, or 0 */
  bool colours;     /* of the texts of diagnostics */
  const struct ShowDisplay *show_display; /* or NULL */
  struct InputSession *inputs; /* owned by repl/; NULL: no input so far */
};

/* ---- capi.c ---- */

AxnStatus capi_status(SessionStatus status);
/* Discards earlier diagnostics. */
void capi_clear_diags(AxnSession *a);
/* Adds an error without a place. */
void capi_error(AxnSession *a, uint16_t code, const char *help,
                const char *format, ...) PRINTF_LIKE(4, 5);
/* Brackets all functions that run the program.  Returns false if it is already
   running. */
bool capi_begin(AxnSession *a);
AxnStatus capi_end(AxnSession *a, SessionStatus status);

/* The file, bytes, lines and columns of a span. */
AxnPlace capi_place(const Sources *sources, Span span);

/* ---- capi_value.c ---- */

enum { ERROR_BAD_VALUE = 520 };
/* An AxnValue is a HostValue. */
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
