/* Fuzzes all that `axon check` does: a program is parsed, checked and its
 * types and diagnostics are printed; nothing is run.  An error has a
 * diagnostic, none is a bug of the compiler, and none takes long.  Seeds: the
 * tests' own programs, see run.sh; changes: grammar.c. */
#define _GNU_SOURCE
#include <string.h>
#include <time.h>

#include "session/session.h"
#include "support/buffer.h"
#include "support/diag_render.h"
#include "support/trap.h"
#include "tests/fuzz/grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

const bool grammar_keeps_programs = true;

enum { SECONDS = 5, COMPILER_BUG = 599 };

static void name_types(void *owner, Session *session, const DeclResult *ran) {
  (void)owner;
  for (uint32_t i = 0; i < ran->binding_count; i++)
    session_binding_type(session, ran->bindings[i]);
}

static bool has(const uint8_t *data, size_t size, const char *text) {
  return memmem(data, size, text, strlen(text)) != NULL;
}

/* Files of this folder may be named, and no others: they could be devices. */
static bool leaves_folder(const uint8_t *data, size_t size) {
  return (has(data, size, "import") && has(data, size, "\"")) ||
         (has(data, size, "load") && has(data, size, "/"));
}

static void render(Session *session) {
  Buffer text = {0};
  const Diags *diags = session_diags(session);
  for (uint32_t i = 0; i < diags->all.len; i++) {
    diag_render(&text, session_sources(session), diags->all.at[i], true);
    if (diags->all.at[i]->code == COMPILER_BUG)
      __builtin_trap();
  }
  buffer_free(&text);
}

static void check(Session *session, const uint8_t *data, size_t size) {
  SourceInput text = {.name = "fuzz.axn", .allow_bare_expressions = true};
  text.text = (const char *)data, text.len = size;
  clock_t start = clock(); /* of the processor: others may be busy */
  SessionStatus status = session_check(session, &text);
  bool error = session_diags(session)->errors != 0;
  if ((status == SESSION_OK) == error) /* an error has a diagnostic */
    __builtin_trap();
  render(session);
  if (clock() - start > SECONDS * CLOCKS_PER_SEC)
    __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (leaves_folder(data, size))
    return 0;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE)
    return 0;
  SessionHost host = {.on_checked = name_types};
  Session *session = session_open(&host);
  check(session, data, size);
  session_close(session);
  trap_end(&trap);
  return 0;
}
