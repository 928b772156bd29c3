/* Tests axon.h, used like a program that links the library. */
#include "session/axon.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct Output {
  char text[1024];
  size_t len;
} Output;

static void keep(void *owner, const char *text, size_t len) {
  Output *out = owner;
  assert_true(out->len + len < sizeof out->text);
  memcpy(out->text + out->len, text, len);
  out->len += len;
  out->text[out->len] = 0;
}

static int set_up(void **state) {
  *state = axn_session_new();
  return *state ? 0 : -1;
}

static int tear_down(void **state) {
  axn_session_free(*state);
  return 0;
}

static AxnStatus run(AxnSession *s, const char *text) {
  return axn_session_run(s, "test", text, strlen(text));
}

static void test_version(void **state) {
  (void)state;
  assert_string_equal(axn_version(), AXON_VERSION);
}

static void test_output(void **state) {
  Output out = {0};
  axn_session_output(*state, keep, &out);
  assert_int_equal(run(*state, "do print (sum [1, 2, 3])"), AXN_OK);
  assert_string_equal(out.text, "6\n");
}

static void test_definitions_stay(void **state) {
  assert_int_equal(run(*state, "val x = [1, 2]"), AXN_OK);
  assert_int_equal(run(*state, "x * 2"), AXN_OK);
  assert_string_equal(axn_session_print(*state, "it"), "[2, 4]");
  assert_string_equal(axn_session_type(*state, "x"), "i64[2]");
  assert_null(axn_session_type(*state, "nothing"));
  assert_null(axn_session_print(*state, "nothing"));
}

static void test_png(void **state) {
  size_t len = 1;
  assert_int_equal(run(*state, "val f = plot.line [1, 2] [3, 4]; val x = 1"),
                   AXN_OK);
  const unsigned char *png = axn_session_png(*state, "f", &len);
  if (png) {
    assert_true(len > 1000);
    assert_memory_equal(png, "\x89PNG\r\n\x1a\n", 8);
  } else { /* there is no cairo */
    assert_non_null(strstr(axn_diag_text(*state, 0), "libcairo2"));
  }
  assert_null(axn_session_png(*state, "x", &len));
  assert_int_equal(len, 0);
  assert_null(axn_session_png(*state, "nothing", &len));
  run(*state, "val g = plot.axes ~x_limits:(1, 1) (list [f])");
  assert_null(axn_session_png(*state, "g", &len));
  assert_non_null(strstr(axn_diag_text(*state, 0), "limits of the x axis"));
}

static void test_leaves(void **state) {
  assert_int_equal(run(*state, "fun f n k = {w = normal k [n, 3], k}"), AXN_OK);
  AxnLeaf leaves[2];
  const char *total;
  assert_int_equal(axn_session_leaves(*state, "f", leaves, 2, &total), 2);
  assert_string_equal(leaves[0].path, "w");
  assert_string_equal(leaves[0].type, "f32[n, 3]");
  assert_string_equal(leaves[0].count, "3*n");
  assert_null(leaves[1].count);
  assert_string_equal(total, "3*n");
  assert_int_equal(axn_session_leaves(*state, "f 4", leaves, 1, NULL), 2);
  assert_string_equal(leaves[0].count, "12");
  assert_int_equal(axn_session_leaves(*state, "nothing", leaves, 2, NULL), 0);
  assert_int_equal(axn_diag_count(*state), 1);
}

static void test_diagnostics(void **state) {
  assert_int_equal(run(*state, "val a = [1, 2]\nval b = a @ true"), AXN_ERROR);
  assert_true(axn_diag_count(*state) >= 1);
  const AxnDiag *diag = axn_diag_get(*state, 0);
  assert_non_null(diag);
  assert_ptr_equal(diag, axn_diag_get(*state, 0));
  assert_int_equal(diag->severity, AXN_SEVERITY_ERROR);
  assert_string_equal(diag->place.file, "test");
  assert_int_equal(diag->place.line, 2);
  assert_non_null(strstr(axn_diag_text(*state, 0), diag->message));
  assert_null(axn_diag_get(*state, 1000));
  assert_null(axn_diag_text(*state, 1000));
  assert_int_equal(run(*state, "val c = 1"), AXN_OK);
  assert_int_equal(axn_diag_count(*state), 0);
}

static void test_fix(void **state) {
  const char *text = "fun f weight = weihgt + 1";
  assert_int_equal(run(*state, text), AXN_ERROR);
  const AxnDiag *diag = axn_diag_get(*state, 0);
  assert_string_equal(diag->help, "did you mean `weight`?");
  assert_int_equal(diag->axis, -1);
  assert_int_equal(diag->fix_count, 1);
  assert_int_equal(diag->fixes[0].edit_count, 1);
  const AxnEdit *edit = &diag->fixes[0].edits[0];
  assert_string_equal(edit->text, "weight");
  assert_int_equal(edit->place.start, strstr(text, "weihgt") - text);
  assert_int_equal(edit->place.end, edit->place.start + strlen("weihgt"));
}

static void test_chain(void **state) {
  assert_int_equal(run(*state, "fun f (x : f32[b, 4, 6]) (w : f32[20, 3]) =\n"
                               "  let val y = x |> flatten\n  in y @ w end"),
                   AXN_ERROR);
  const AxnDiag *diag = axn_diag_get(*state, 0);
  assert_int_equal(diag->code, 301);
  assert_int_equal(diag->step_count, 1);
  assert_string_equal(diag->steps[0].expression, "flatten");
  assert_string_equal(diag->steps[0].shape, "f32[b, 24]");
  assert_int_equal(diag->steps[0].place.line, 2);
}

static void test_syntax_error(void **state) {
  assert_int_equal(run(*state, "val = = 3"), AXN_ERROR);
  assert_int_equal(run(*state, "1 + 1"), AXN_OK);
}

static void test_check_runs_nothing(void **state) {
  Output out = {0};
  axn_session_output(*state, keep, &out);
  const char *text = "do print 1";
  assert_int_equal(axn_session_check(*state, "t", text, strlen(text)), AXN_OK);
  assert_int_equal(out.len, 0);
  assert_int_equal(run(*state, "do print 2"), AXN_OK);
  assert_string_equal(out.text, "2\n");
}

typedef struct Told {
  size_t count;
  char text[1000];
} Told;

static void tell_use(void *owner, const AxnPlace *place) {
  Told *told = owner;
  size_t len = strlen(told->text);
  snprintf(told->text + len, sizeof told->text - len, "%u:%u ", place->line,
           place->column);
}

static void tell_shape(void *owner, const AxnShape *shape) {
  Told *told = owner;
  size_t len = strlen(told->text);
  snprintf(told->text + len, sizeof told->text - len, "%u:%u%c%s\n",
           shape->place.line, shape->place.column, shape->stage ? '|' : ':',
           shape->type);
}

static void test_places(void **state) {
  static const char text[] = "fun f c (x : f32[b, 28]) =\n"
                             "  x\n"
                             "  |> nn.linear c\n"
                             "val y = f {w = ones [3, 28], b = ones [3]}\n"
                             "  (ones [5, 28])\n"
                             "do print (y @ y)\n";
  AxnPlace place;
  assert_null(axn_type_at(*state, 0, NULL)); /* no program was checked */
  axn_session_keep_places(*state);
  assert_int_equal(axn_session_check(*state, "t", text, strlen(text)),
                   AXN_ERROR);
  size_t call = (size_t)(strstr(text, "f {w") - text);
  const char *type = axn_type_at(*state, call, &place);
  assert_string_equal(type, "{w : f32[3, 28], b : f32[3]} -> f32[5, 28] -> "
                            "f32[5, 3]");
  assert_int_equal(place.start, call);
  assert_int_equal(place.end, call + 1);
  assert_true(axn_definition_at(*state, call, &place));
  assert_int_equal(place.line, 1);
  assert_int_equal(place.column, 5);
  assert_string_equal(place.file, "t");
  size_t linear = (size_t)(strstr(text, "linear") - text);
  assert_true(axn_definition_at(*state, linear, &place));
  assert_string_equal(place.file, "nn.axn");
  assert_false(axn_definition_at(*state, strlen(text), &place));
  size_t operator=(size_t)(strstr(text, "@") - text);
  assert_non_null(axn_type_at(*state, operator, & place));
  Told told = {0};
  assert_int_equal(axn_uses_at(*state, call, tell_use, &told), 2);
  assert_string_equal(told.text, "1:5 4:9 ");
  told = (Told){0};
  axn_each_shape(*state, tell_shape, &told);
  assert_string_equal(told.text, "1:8:{w : f32[n, 28], b : f32[n]}\n"
                                 "2:4|f32[b, 28]\n"
                                 "3:17|f32[b, n]\n"
                                 "4:6:f32[5, 3]\n");
}

static void test_counts(void **state) {
  const char *text = "fun pair x = x.[0:2]\n"
                     "val y = pair (filter (fn v => v > 0) [1, 2, 3])";
  AxnStatus status = axn_session_check(*state, "test", text, strlen(text));
  assert_int_equal(status, AXN_OK);
  AxnCounts counts = axn_session_counts(*state);
  assert_true(counts.proved > 0);
  assert_int_equal(counts.carried, 1);
  assert_int_equal(counts.open, 1);
}

static void test_exit(void **state) {
  assert_int_equal(run(*state, "do exit 3"), AXN_EXITED);
  assert_int_equal(axn_exit_status(*state), 3);
}

static void test_interrupt(void **state) {
  axn_interrupt(*state);
  AxnStatus status = run(*state, "do print (while (fn x => x >= 0) "
                                 "(fn x => (x + 1) % 1000) 0)");
  assert_int_equal(status, AXN_INTERRUPTED);
  assert_int_equal(run(*state, "1 + 1"), AXN_OK);
}

static void test_many_sessions(void **state) {
  AxnSession *other = axn_session_new();
  assert_non_null(other);
  assert_int_equal(run(*state, "val x = 1"), AXN_OK);
  assert_int_equal(run(other, "val x = 2.5"), AXN_OK);
  assert_string_equal(axn_session_print(*state, "x"), "1");
  assert_string_equal(axn_session_print(other, "x"), "2.5");
  axn_session_free(other);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(test_version),
      TEST(test_output),
      TEST(test_definitions_stay),
      TEST(test_png),
      TEST(test_leaves),
      TEST(test_diagnostics),
      TEST(test_syntax_error),
      TEST(test_check_runs_nothing),
      TEST(test_places),
      TEST(test_counts),
      TEST(test_exit),
      TEST(test_interrupt),
      TEST(test_fix),
      TEST(test_chain),
      TEST(test_many_sessions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
