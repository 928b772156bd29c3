/* Tests lack of memory at each allocation in turn.  Whole programs run in a
 * session in which the n-th allocation fails, alone or with all later ones.
 * The result is an error, and the session continues.  With
 * --enable-failing-alloc, arenas grow in small steps, so that more allocations
 * can fail. */
#include "session/axon.h"
#include "session/session.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/mem_inject.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void drop(void *owner, const char *text, size_t len) {
  (void)owner, (void)text, (void)len;
}

static const SessionHost host = {
    .eval = {.write = drop,
             .trace = drop,
             .print_width = 80,
             .print_limit = 1000},
};

static SourceInput text_of(const char *text) {
  return (SourceInput){.name = "memory.axn",
                       .text = text,
                       .len = strlen(text),
                       .allow_bare_expressions = true,
                       .is_complete = true};
}

typedef SessionStatus Way(Session *s, const SourceInput *text);

static SessionStatus as_input(Session *s, const SourceInput *text) {
  return session_input(s, text);
}

static SessionStatus as_program(Session *s, const SourceInput *text) {
  SessionStatus status = session_check(s, text);
  return status == SESSION_OK ? session_run(s) : status;
}

static void prints(Session *s, const char *name, const char *wanted) {
  Buffer text = {0};
  Binding *b = session_find_binding(s, name);
  assert_non_null(b);
  assert_true(session_binding_text(s, b, &text));
  buffer_putc(&text, 0);
  assert_string_equal(text.text, wanted);
  buffer_free(&text);
}

static void goes_on(Session *s) {
  SourceInput after = text_of("val after = sum [40, 2]");
  session_clear_diags(s);
  SessionStatus status = session_input(s, &after);
  if (status != SESSION_OK && session_diags(s)->all.len)
    print_error("%s\n", session_diags(s)->all.at[0]->message);
  assert_int_equal(status, SESSION_OK);
  prints(s, "after", "42");
  prints(s, "before", "[1, 2]");
}

/* True when fewer than n allocations were made. */
static bool run_failing(const char *text, Way *way, uint64_t n, bool on) {
  SourceInput before = text_of("val before = [1, 2]"), all = text_of(text);
  Session *s = session_open(&host);
  assert_non_null(s);
  assert_int_equal(session_input(s, &before), SESSION_OK);
  if (on)
    mem_inject_failures_from(n);
  else
    mem_inject_failure_at(n);
  SessionStatus status = way(s, &all);
  mem_inject_failure_at(0);
  bool failed = mem_failure_injected();
  if (status == SESSION_ERROR)
    assert_true(session_diags(s)->all.len > 0);
  goes_on(s);
  session_close(s);
  return !failed;
}

static void open_failing(void) {
  for (uint64_t n = 1, failed = 1; failed; n++) {
    mem_inject_failure_at(n);
    Session *s = session_open(&host);
    mem_inject_failure_at(0);
    failed = mem_failure_injected();
    assert_true(s || failed);
    session_close(s);
  }
}

static void fail_all(const char *text) {
  static Way *const ways[] = {as_input, as_program};
  uint64_t n = 0;
  for (size_t i = 0; i < ARRAY_LEN(ways); i++)
    for (int on = 0; on < 2; on++) {
      n = 1;
      while (!run_failing(text, ways[i], n, on))
        n++;
    }
  print_message("%llu allocations\n", (unsigned long long)n);
}

static void test_open(void **state) {
  (void)state;
  open_failing();
}

#define TEST(name, text)                  \
  static void test_##name(void **state) { \
    (void)state;                          \
    fail_all(text);                       \
  }

TEST(scalars, "val x = 1 + 2 * 3\nval y = (x, 2.5, \"a\" ^ \"b\", true)")

TEST(errors, "val a : f32[2, 3] = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]\n"
             "fun f (x : f32[n, k]) (y : f32[k, m]) = x @ y\n"
             "val b = f a a\nval c = unknown 1\nval d = 1 +\n")

TEST(types, "fun f (x : f32[...s, n, k]) (y : f32[k, 2 * m]) =\n"
            "  (x @ y, sum ~axis:0 y, dim 0 y, fn z => z * 2)\n"
            "fun g {a, b = (c, _), ...} = if a > 0 then c else g {a = -1,\n"
            "  b = (c, ())}\n"
            "datatype t = A | B of t * i64 | C of {a : t list}\n"
            "fun h A = 0 | h (B (x, n)) = n + h x | h (C {a}) = 1\n")

TEST(tensors, "val a : f32[3, 3] = for i < 3, j < 3 => if i < j then 1.0\n"
              "  else 0.5\n"
              "val b = a @ a + sum a\n"
              "val narrow = sum (bf16 a * bf16 b)\n"
              "val closed = sum (for i j => bf16 a.[i, j] * bf16 b.[j, i])\n"
              "do print b\n"
              "do print (for i < 3 => b.[i, 0] * 2.0)\n"
              "do print (sort b, nn.softmax b, reshape [_] b)\n")

TEST(lists, "fun count 0 = list [] | count n = n :: count (n - 1)\n"
            "fun add (x, y) = x + y\n"
            "val l = lists.map (fn x => {x, name = string x}) (count 20)\n"
            "do print (lists.fold (fn n x => add (n, x.x)) 0 l)\n"
            "do print (strings.join \", \" (lists.map (fn x => x.name) l))\n"
            "val t = iterate 5 (fn x => map (fn y => y * 2.0) x) [1.0, 2.0]\n"
            "do print (scan (fn a b => (a + b, a)) 0.0 t)\n")

TEST(random, "val k = key 1\nval u : f32[4, 3] = normal k [4, 3]\n"
             "do print (format \"%s %d\" u 3)\n"
             "do print (gather u (permutation k 4), u.[1:3, :])\n"
             "do print (gather [1.0] (permutation k 4))\n")

TEST(files, "val t : f32[2, 3] = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]\n"
            "do save \"memory.npy\" t\ndo save \"memory.npz\" t\n"
            "do save \"memory.csv\" t\ndo save \"memory.safetensors\" t\n"
            "do save \"memory.png\" (zeros [4, 4, 3] : u8[4, 4, 3])\n"
            "val u : f32[n, m] = load \"memory.npy\"\ndo print u\n")

/* ---- calls from a host ---- */

static AxnStatus call_once(AxnSession *s, AxnFunction *f) {
  float x[] = {1, 2, 3};
  AxnTensor t = {
      .dtype = AXN_F32, .rank = 1, .shape = (int64_t[]){3}, .data = x};
  AxnValue *items[] = {axn_value_tensor(s, &t, NULL, NULL),
                       axn_value_string(s, "a", 1)};
  AxnValue *p = axn_value_record(s, 2, (const char *[]){"x", "s"}, items);
  AxnArg args[] = {{.value = p}, {.value = axn_value_float(s, 2)}};
  AxnValue *result;
  AxnStatus status = axn_call(s, f, args, 2, &result);
  axn_value_free(result);
  axn_value_free((AxnValue *)(uintptr_t)args[1].value);
  axn_value_free(p);
  axn_value_free(items[0]);
  axn_value_free(items[1]);
  return status;
}

/* The first call checks types; later calls do not. */
static bool call_failing(uint64_t n, bool on, bool known) {
  static const char text[] =
      "fun f (p : {x : f32[n], s : string}) k =\n"
      "  (p.x * k, list [p.s ^ \"b\"], {x = p.x, g = fn y => p.x + y})\n";
  AxnSession *s = axn_session_new();
  assert_int_equal(axn_session_run(s, "t", text, strlen(text)), AXN_OK);
  AxnFunction *f = axn_function(s, "f");
  assert_non_null(f);
  if (known)
    assert_int_equal(call_once(s, f), AXN_OK);
  if (on)
    mem_inject_failures_from(n);
  else
    mem_inject_failure_at(n);
  AxnStatus status = call_once(s, f);
  mem_inject_failure_at(0);
  bool failed = mem_failure_injected();
  if (status != AXN_OK)
    assert_true(failed && axn_diag_count(s) > 0);
  assert_int_equal(call_once(s, f), AXN_OK);
  axn_session_free(s);
  return failed;
}

static void test_calls(void **state) {
  (void)state;
  for (int way = 0; way < 4; way++) {
    uint64_t n = 1;
    while (call_failing(n, way & 1, way & 2))
      n++;
    print_message("%llu allocations\n", (unsigned long long)n);
  }
}

static int enter(void **state) {
  (void)state;
  static char folder[] = "/tmp/axon-memory-XXXXXX";
  return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave(void **state) {
  (void)state;
  static const char *const kinds[] = {"npy", "npz", "csv", "safetensors",
                                      "png"};
  for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
    char name[32];
    snprintf(name, sizeof name, "memory.%s", kinds[i]);
    unlink(name);
  }
  char folder[64];
  return getcwd(folder, sizeof folder) ? rmdir(folder) : -1;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_open),    cmocka_unit_test(test_scalars),
      cmocka_unit_test(test_errors),  cmocka_unit_test(test_types),
      cmocka_unit_test(test_tensors), cmocka_unit_test(test_lists),
      cmocka_unit_test(test_random),  cmocka_unit_test(test_files),
      cmocka_unit_test(test_calls),
  };
  return cmocka_run_group_tests(tests, enter, leave);
}
