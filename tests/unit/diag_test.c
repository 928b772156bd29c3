/* Diagnostics as text, and the width of text. */
#include "support/arena.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/diag_render.h"
#include "support/json_writer.h"
#include "support/source.h"
#include "support/span.h"
#include "support/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

typedef struct Fixture {
  Arena *arena;
  Sources sources;
  Diags diags;
  Buffer out;
} Fixture;

static int set_up(void **state) {
  static Fixture f;
  f = (Fixture){.arena = arena_new()};
  sources_init(&f.sources, f.arena);
  diags_init(&f.diags, f.arena);
  *state = &f;
  return 0;
}

static int tear_down(void **state) {
  Fixture *f = *state;
  buffer_free(&f->out);
  arena_free(f->arena);
  return 0;
}

static uint32_t file(Fixture *f, const char *text) {
  return sources_add(&f->sources, "a.axn", text, strlen(text), false);
}

static Span at(Fixture *f, uint32_t number, const char *word) {
  const char *text = sources_get(&f->sources, number)->text;
  uint32_t start = (uint32_t)(strstr(text, word) - text);
  return (Span){number, start, start + (uint32_t)strlen(word)};
}

static void renders(Fixture *f, const Diag *diag, const char *want) {
  f->out.len = 0;
  diag_render(&f->out, &f->sources, diag, false);
  assert_string_equal(f->out.text, want);
}

static void test_steps(void **state) {
  Fixture *f = *state;
  uint32_t n = file(f, "image\n  |> conv2d c1\n  |> flatten\n"
                       "  |> linear fc1\n");
  Diag *d = diag_error(&f->diags, 301, at(f, n, "linear fc1"),
                       "inner dimensions differ: %d and %d", 5408, 9216);
  diag_add_step(f->arena, d, at(f, n, "conv2d"), "f32[b, 32, 26, 26]",
                "28 - 3 + 1 = 26");
  diag_add_step(f->arena, d, at(f, n, "flatten"), "f32[b, 5408]",
                "32 * 13 * 13 = 5408");
  diag_add_step(f->arena, d, at(f, n, "linear fc1"), "fc1.w : f32[128, 9216]",
                NULL);
  d->primary_label = "5408 columns found";
  d->help = "declare fc1 with 5408 inputs";
  renders(f, d,
          "error[E0301]: inner dimensions differ: 5408 and 9216\n"
          "  ╭─ a.axn:4:6\n"
          "2 │   |> conv2d c1               f32[b, 32, 26, 26]     "
          "28 - 3 + 1 = 26\n"
          "3 │   |> flatten                 f32[b, 5408]           "
          "32 * 13 * 13 = 5408\n"
          "4 │   |> linear fc1              fc1.w : f32[128, 9216]\n"
          "  │      ────────── 5408 columns found\n"
          "  ╰─ help: declare fc1 with 5408 inputs\n");
}

static void test_gap_and_notes(void **state) {
  Fixture *f = *state;
  uint32_t n = file(f, "a\nb\nc\nd\n");
  Diag *d = diag_error(&f->diags, 0, at(f, n, "d"), "no");
  diag_add_label(f->arena, d, at(f, n, "a"), "from here");
  d->counterexample = "fails at n = 3";
  d->note = "one\ntwo";
  renders(f, d,
          "error: no\n"
          "  ╭─ a.axn:4:1\n"
          "1 │ a\n"
          "  │ ─ from here\n"
          "  ┆\n"
          "4 │ d\n"
          "  │ ─\n"
          "  ├─ fails at n = 3\n"
          "  ╰─ note: one\n"
          "           two\n");
}

static void test_tabs_and_wide(void **state) {
  Fixture *f = *state;
  uint32_t n = file(f, "\tä漢 bad\n");
  Diag *d = diag_warning(&f->diags, 7, at(f, n, "bad"), "careful");
  renders(f, d,
          "warning[W0007]: careful\n"
          "  ╭─ a.axn:1:5\n"
          "1 │     ä漢 bad\n"
          "  │         ───\n");
}

static void test_places(void **state) {
  Fixture *f = *state;
  uint32_t n = file(f, "val x =\n  1\n");
  Span all = {n, 0, 11};
  Diag *d = diag_error(&f->diags, 1, all, "long");
  renders(f, d,
          "error[E0001]: long\n  ╭─ a.axn:1:1\n1 │ val x =\n  │ ───────\n");
  Diag *nowhere = diag_error(&f->diags, 2, (Span){0}, "nowhere");
  nowhere->help = "go";
  renders(f, nowhere, "error[E0002]: nowhere\n  ╰─ help: go\n");
  uint32_t lib = sources_add(&f->sources, "nn.axn", "a\nb\n", 4, true);
  Diag *inside = diag_error(&f->diags, 3, (Span){lib, 2, 3}, "inside");
  renders(f, inside, "error[E0003]: inside\n  ╭─ library nn.axn:2:1\n");
}

static void test_end_of_text(void **state) {
  Fixture *f = *state;
  uint32_t empty = file(f, "");
  Diag *d = diag_error(&f->diags, 1, (Span){empty, 0, 0}, "empty");
  renders(f, d, "error[E0001]: empty\n  ╭─ a.axn:1:1\n1 │\n  │ ─\n");
}

static void test_long_line(void **state) {
  Fixture *f = *state;
  char text[400];
  memset(text, 'a', sizeof text - 1);
  text[sizeof text - 1] = 0;
  text[300] = 'X';
  uint32_t n = file(f, text);
  Diag *d = diag_error(&f->diags, 1, (Span){n, 300, 301}, "far");
  diag_render(&f->out, &f->sources, d, false);
  const char *code = strstr(f->out.text, "…"), *mark = strstr(code, "\n");
  size_t x = utf8_columns(code, (size_t)(strchr(code, 'X') - code));
  const char *line = strstr(mark, "─");
  assert_int_equal(utf8_columns(mark + 1, (size_t)(line - mark - 1)), x + 4);
}

static void test_first_error_wins(void **state) {
  Fixture *f = *state;
  uint32_t n = file(f, "x");
  Span x = at(f, n, "x");
  diag_error(&f->diags, 1, x, "one");
  diag_error(&f->diags, 2, x, "two");
  diag_warning(&f->diags, 3, x, "three");
  assert_int_equal(f->diags.errors, 1);
  assert_int_equal(f->diags.warnings, 1);
  assert_int_equal(f->diags.all.len, 2);
}

static void test_utf8(void **state) {
  (void)state;
  assert_int_equal(utf8_valid_prefix("aä漢😀", 10), 10);
  assert_int_equal(utf8_valid_prefix("a\xff", 2), 1);
  assert_int_equal(utf8_valid_prefix("a\xc3", 2), 1);            /* cut off */
  assert_int_equal(utf8_valid_prefix("\xc0\x80", 2), 0);         /* overlong */
  assert_int_equal(utf8_valid_prefix("\xe0\x80\x80", 3), 0);     /* overlong */
  assert_int_equal(utf8_valid_prefix("\xed\xa0\x80", 3), 0);     /* surrogate */
  assert_int_equal(utf8_valid_prefix("\xf4\x90\x80\x80", 4), 0); /* too large */
  assert_int_equal(utf8_valid_prefix("a\0b", 3), 1);             /* NUL */
  assert_int_equal(utf8_columns("aä漢😀", 10), 6);
  assert_int_equal(utf8_columns("e\xcc\x81", 3), 1); /* combining */
}

/* The output is valid UTF-8 for every text. */
static void test_json_text(void **state) {
  (void)state;
  Buffer out = {0};
  json_quote(&out, "a\"\\\n\t漢😀");
  json_quote(&out, "\xff"
                   "b\xc3");
  json_quote(&out, "\xc3\xa4\x80"
                   "c"); /* one byte too many */
  json_quote_len(&out, "\xe6\xbc\xa2", 2);
  assert_string_equal(out.text, "\"a\\\"\\\\\\n\\u0009漢😀\""
                                "\"?b?\"\"ä?c\"\"??\"");
  buffer_free(&out);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(test_steps),     TEST(test_gap_and_notes),
      TEST(test_places),    TEST(test_tabs_and_wide),
      TEST(test_long_line), TEST(test_end_of_text),
      TEST(test_utf8),      TEST(test_first_error_wins),
      TEST(test_json_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
