/* Tests the check of library definitions that need themselves: the checker must
 * end, whatever the library contains. */
#include "parser/parser.h"
#include "session/session.h"
#include "session/state.h"
#include "support/intern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* The prelude, and the modules m and k. */
typedef struct Definition {
  const char *module, *name, *text;
  Dec *dec; /* parsed at the first use */
} Definition;

static Definition definitions[] = {
    {"", "turn", "fun turn x = x * 0.5", NULL},
    {"", "circular", "val circular = circular + 1.0", NULL},
    {"m", "turn", "val turn = turn 4.0", NULL},
    {"m", "later", "fun later ~by:(by = later 1.0) x = x * by", NULL},
    {"m", "again", "fun again 0 = 0 | again n = again (n - 1)", NULL},
    {"m", "one", "fun one x = other x", NULL},
    {"m", "other", "fun other x = one x", NULL},
    {"m", "here", "fun here x = k.there x", NULL},
    {"k", "there", "fun there x = m.here x", NULL},
    {"m", "left", "type left = right", NULL},
    {"m", "right", "type right = left", NULL},
    {"m", "typed", "fun typed (x : left) = x", NULL},
};

static Dec *find_definition(void *owner, Sym *module, Sym *name) {
  Session *s = owner;
  for (size_t i = 0; i < sizeof definitions / sizeof *definitions; i++) {
    Definition *d = &definitions[i];
    if (strcmp(d->module, module ? module->text : "") != 0 ||
        strcmp(d->name, name->text) != 0)
      continue;
    if (!d->dec) {
      uint32_t len = (uint32_t)strlen(d->text);
      uint32_t file = sources_add(&s->sources, "library", d->text, len, true);
      d->dec = parse_range(&s->sources, file, 0, len, s->interner, s->arena,
                           &s->diags)
                   .decs[0];
    }
    return d->dec;
  }
  return NULL;
}

static bool has_module(void *owner, Sym *module) {
  (void)owner;
  return strcmp(module->text, "m") == 0 || strcmp(module->text, "k") == 0;
}

/* Checks a program with this library.  Returns the first message, or "". */
static const char *check(Session *s, const char *text) {
  SourceInput input = {.name = "test", .text = text, .len = strlen(text)};
  session_check(s, &input);
  return s->diags.all.len ? s->diags.all.at[0]->message : "";
}

static void expect(const char *text, const char *message) {
  SessionHost host = {0};
  Session *s = session_open(&host);
  assert_non_null(s);
  s->check_host.library_definition = find_definition;
  s->check_host.library_module = has_module;
  s->check_host.library_names = NULL;
  for (size_t i = 0; i < sizeof definitions / sizeof *definitions; i++)
    definitions[i].dec = NULL;
  assert_string_equal(check(s, text), message);
  session_close(s);
}

static void test_own_names(void **state) {
  (void)state;
  expect("val x : f32 = m.turn", "");
  expect("val x = m.again 3", "");
  expect("val x = circular", "`circular` is not defined");
  expect("val x = m.later ~by:2.0 1.0", "");
}

static void test_cycles(void **state) {
  (void)state;
  expect("val x = m.one 1", "`one` is not defined");
  expect("val x = m.other 1", "`other` is not defined");
  expect("val x = m.here 1", "module `m` has no `here`");
  expect("val x = m.typed 1", "type `left` is not defined");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_own_names),
      cmocka_unit_test(test_cycles),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
