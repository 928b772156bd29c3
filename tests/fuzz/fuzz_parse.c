/* Fuzzing of the lexer, the parser and the formatter: no input may crash them,
 * and whatever parses is formatted to text that says the same and stays as it
 * is when formatted again. */
#include <string.h>

#include "parser/parser.h"
#include "support/arena.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/diag_render.h"
#include "support/intern.h"
#include "support/source.h"
#include "support/trap.h"
#include "tests/fuzz/grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

const bool grammar_keeps_programs = false;

typedef struct Session {
  Arena *arena;
  Sources sources;
  Diags diags;
  Interner *interner;
} Session;

static void session_begin(Session *s) {
  s->arena = arena_new();
  sources_init(&s->sources, s->arena);
  diags_init(&s->diags, s->arena);
  s->interner = interner_new(s->arena);
}

static uint32_t add(Session *s, const char *text, size_t len) {
  return sources_add(&s->sources, "fuzz.axn", text, len, false);
}

static void render_all(Session *s) {
  Buffer out = {0};
  for (uint32_t i = 0; i < s->diags.all.len; i++)
    diag_render(&out, &s->sources, s->diags.all.at[i], false);
  buffer_free(&out);
}

static void check_format(Session *s, uint32_t file) {
  Buffer once = {0}, twice = {0};
  if (!format_source(&s->sources, file, s->interner, s->arena, &s->diags,
                     &once)) {
    for (uint32_t i = 0; i < s->diags.all.len; i++)
      if (s->diags.all.at[i]->code == 120)
        __builtin_trap();
    buffer_free(&once);
    return;
  }
  uint32_t again = add(s, once.text ? once.text : "", once.len);
  if (!format_source(&s->sources, again, s->interner, s->arena, &s->diags,
                     &twice) ||
      once.len != twice.len ||
      (once.len && memcmp(once.text, twice.text, once.len) != 0))
    __builtin_trap();
  buffer_free(&once);
  buffer_free(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Session s;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE)
    return 0;
  session_begin(&s);
  uint32_t file = add(&s, (const char *)data, size);
  Program program =
      parse_program(&s.sources, file, true, s.interner, s.arena, &s.diags);
  Buffer out = {0};
  ast_dump(&out, &program);
  buffer_free(&out);
  render_all(&s);
  parse_type(&s.sources, file, 0, NULL, s.interner, s.arena, &s.diags);
  Diags fresh;
  diags_init(&fresh, s.arena);
  s.diags = fresh;
  check_format(&s, file);
  arena_free(s.arena);
  trap_end(&trap);
  return 0;
}
