/* Fuzzes all that `axon check` does: a program is parsed, checked and its
 * types and diagnostics are printed; nothing is run and no file is read.
 * Seeds: the tests' own programs, see run.sh. */
#define _GNU_SOURCE
#include <string.h>

#include "session/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void name_types(void *owner, Session *session, const Ran *ran) {
  (void)owner;
  for (uint32_t i = 0; i < ran->binding_count; i++)
    session_binding_type(session, ran->bindings[i]);
}

/* Programs that name files are left alone: it could be a device. */
static bool reads_files(const uint8_t *data, size_t size) {
  static const char *const words[] = {"import", "load", "read"};
  for (size_t i = 0; i < ARRAY_LEN(words); i++)
    if (memmem(data, size, words[i], strlen(words[i])))
      return true;
  return false;
}

static void render(Session *session) {
  Buffer text = {0};
  const Diags *diags = session_diags(session);
  for (uint32_t i = 0; i < diags->all.len; i++)
    diag_render(&text, session_sources(session), diags->all.at[i], true);
  buffer_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (reads_files(data, size))
    return 0;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE)
    return 0;
  SessionHost host = {.checked = name_types};
  Session *session = session_open(&host);
  SessionText text = {.name = "fuzz.axn", .bare = true};
  text.text = (const char *)data, text.len = size;
  SessionStatus status = session_check(session, &text);
  bool error = session_diags(session)->errors != 0;
  if ((status == SESSION_OK) == error) /* an error has a diagnostic */
    __builtin_trap();
  render(session);
  session_close(session);
  trap_end(&trap);
  return 0;
}
