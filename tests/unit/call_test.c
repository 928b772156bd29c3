/* Tests calls of functions with values of the host, through axon.h. */
#include "session/axon.h"
#include "session/axon_dlpack.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char program[] =
    "(** An affine map. *)\n"
    "fun forward (p : {w : 'a[n, m], b : 'a[m]}) x = x @ p.w + p.b\n"
    "fun same x = x\n"
    "fun both x = (x, x)\n"
    "fun twice x = {double = x * 2, name = \"twice\", sizes = shape x}\n"
    "fun heads h x =\n"
    "  let val [b, n, _] = shape x\n"
    "  in x |> reshape [b, n, h, _] |> permute \"b n h d -> b h n d\" end\n"
    "fun total ~axis x = sum ~axis:axis x\n"
    "fun scaled ~by:(k = 2) x = x * k\n"
    "fun greet name = \"hello \" ^ name\n"
    "fun sums xs = lists.map sum xs\n"
    "fun loop x = while (fn v => v >= 0) (fn v => (v + 1) % 1000) x\n"
    "fun first (x, y) = x\n"
    "fun leave n = exit n\n"
    "fun times p = p.x * p.k\n"
    "fun at x i = x.[i]\n"
    "fun nothing () = 7\n"
    "fun draw k = (uniform k [3] : f32[3])\n"
    "fun keep x = {add = fn y => x + y, old = x}\n"
    "datatype found = None | Some of int\n"
    "fun find x = if x > 0 then Some x else None\n"
    "val weights = (ones [2, 3] : f32[2, 3])\n";

static int set_up(void **state) {
  AxnSession *s = axn_session_new();
  if (!s)
    return -1;
  if (axn_session_run(s, "model.axn", program, strlen(program)) != AXN_OK) {
    fprintf(stderr, "%s\n", axn_diag_text(s, 0));
    return -1;
  }
  *state = s;
  return 0;
}

static int tear_down(void **state) {
  axn_session_free(*state);
  return 0;
}

/* ---- short forms ---- */

static AxnValue *tensor(AxnSession *s, AxnDtype dtype, int rank,
                        const int64_t *shape, void *data) {
  AxnTensor t = {.dtype = dtype, .rank = rank, .shape = shape, .data = data};
  AxnValue *v = axn_value_tensor(s, &t, NULL, NULL);
  assert_non_null(v);
  return v;
}

static AxnValue *vector(AxnSession *s, float *data, int64_t n) {
  return tensor(s, AXN_F32, 1, &n, data);
}

enum { MOST = 4 };

/* Frees the arguments. */
static AxnStatus call(AxnSession *s, const char *name, AxnValue **result,
                      size_t count, AxnValue *const *values) {
  AxnArg args[MOST];
  AxnFunction *f = axn_function(s, name);
  assert_non_null(f);
  for (size_t i = 0; i < count; i++)
    args[i] = (AxnArg){.value = values[i]};
  AxnStatus status = axn_call(s, f, args, count, result);
  for (size_t i = 0; i < count; i++)
    axn_value_free(values[i]);
  return status;
}

static AxnValue *good(AxnSession *s, const char *name, size_t count,
                      AxnValue *const *values) {
  AxnValue *result;
  AxnStatus status = call(s, name, &result, count, values);
  if (status != AXN_OK)
    fprintf(stderr, "%s\n", axn_diag_text(s, 0));
  assert_int_equal(status, AXN_OK);
  return result;
}

static void bad(AxnSession *s, const char *name, const char *message,
                size_t count, AxnValue *const *values) {
  AxnValue *result;
  assert_int_equal(call(s, name, &result, count, values), AXN_ERROR);
  assert_null(result);
  assert_true(axn_diag_count(s) > 0);
  if (!strstr(axn_diag_text(s, 0), message))
    fprintf(stderr, "%s", axn_diag_text(s, 0));
  assert_non_null(strstr(axn_diag_text(s, 0), message));
}

#define VALUES(...)                                                          \
  sizeof((AxnValue *[]){__VA_ARGS__}) / sizeof(AxnValue *), (AxnValue *[]) { \
    __VA_ARGS__                                                              \
  }

static AxnTensor look(const AxnValue *v) {
  AxnTensor t = {0};
  assert_true(axn_value_get(v, &t));
  return t;
}

/* ---- tests ---- */

static AxnValue *parameters(AxnSession *s, float *w, float *b, int64_t n,
                            int64_t m) {
  AxnValue *items[] = {tensor(s, AXN_F32, 2, (int64_t[]){n, m}, w),
                       vector(s, b, m)};
  AxnValue *p = axn_value_record(s, 2, (const char *[]){"w", "b"}, items);
  axn_value_free(items[0]);
  axn_value_free(items[1]);
  return p;
}

static void test_record(void **state) {
  float w[6] = {1, 2, 3, 4, 5, 6}, b[3] = {10, 20, 30}, x[4] = {1, 0, 0, 1};
  for (int64_t rows = 2; rows > 0; rows--) {
    AxnValue *y =
        good(*state, "forward",
             VALUES(parameters(*state, w, b, 2, 3),
                    tensor(*state, AXN_F32, 2, (int64_t[]){rows, 2}, x)));
    AxnTensor t = look(y);
    assert_int_equal(t.dtype, AXN_F32);
    assert_int_equal(t.rank, 2);
    assert_int_equal(t.shape[0], rows);
    assert_int_equal(t.shape[1], 3);
    assert_null(t.strides);
    assert_false(t.readonly);
    assert_int_equal((uintptr_t)t.data % 64, 0);
    assert_true(((float *)t.data)[0] == 11 && ((float *)t.data)[2] == 33);
    axn_value_free(y);
  }
}

static void test_mismatch(void **state) {
  float w[6] = {0}, b[3] = {0}, x[6] = {0};
  for (int again = 0; again < 2; again++)
    bad(*state, "forward", "matrix product differ: 3 and 2",
        VALUES(parameters(*state, w, b, 2, 3),
               tensor(*state, AXN_F32, 2, (int64_t[]){2, 3}, x)));
}

static void test_types(void **state) {
  float x[2] = {1, 2};
  double d[2] = {1, 2};
  AxnValue *p[] = {vector(*state, x, 2), NULL};
  int64_t two = 2;
  p[1] = tensor(*state, AXN_F64, 1, &two, d);
  AxnValue *t = axn_value_tuple(*state, 2, p);
  axn_value_free(p[0]);
  axn_value_free(p[1]);
  AxnValue *y = good(*state, "first", VALUES(t));
  assert_int_equal(look(y).dtype, AXN_F32);
  axn_value_free(y);
  bad(*state, "greet", "string", VALUES(axn_value_int(*state, 3)));
  bad(*state, "twice", "numeric", VALUES(axn_value_bool(*state, true)));
  bad(*state, "greet", "takes 1 argument; found 2",
      VALUES(axn_value_int(*state, 3), axn_value_int(*state, 3)));
}

static void test_borrowed(void **state) {
  float x[2] = {1, 2};
  AxnValue *y = good(*state, "same", VALUES(vector(*state, x, 2)));
  AxnTensor t = look(y);
  assert_ptr_not_equal(t.data, x);
  x[0] = 5;
  assert_true(((float *)t.data)[0] == 1);
  assert_false(t.readonly);
  axn_value_free(y);
  y = good(*state, "both", VALUES(vector(*state, x, 2)));
  assert_int_equal(axn_value_kind(y), AXN_TUPLE);
  assert_int_equal(axn_value_count(y), 2);
  assert_true(look(axn_value_item(y, 0)).readonly);
  assert_null(axn_value_item(y, 2));
  axn_value_free(y);
  AxnValue *w;
  assert_int_equal(axn_session_value(*state, "weights", &w), AXN_OK);
  assert_true(look(w).readonly);
  axn_value_free(w);
  assert_int_equal(axn_session_value(*state, "no_such", &w), AXN_ERROR);
}

static void count_up(void *owner) {
  ++*(int *)owner;
}

static void test_strides(void **state) {
  float x[6] = {1, 2, 3, 4, 5, 6};
  int freed = 0;
  AxnTensor t = {.dtype = AXN_F32, .rank = 2, .data = x};
  t.shape = (int64_t[]){3, 2};
  t.strides = (int64_t[]){1, 3}; /* x as [2, 3], transposed */
  AxnValue *v = axn_value_tensor(*state, &t, count_up, &freed);
  assert_int_equal(freed, 1); /* the call copied it */
  AxnValue *y = good(*state, "same", VALUES(v));
  assert_memory_equal(look(y).data, ((float[]){1, 4, 2, 5, 3, 6}), sizeof x);
  axn_value_free(y);
  t.strides = (int64_t[]){-2, -1};
  t.data = x + 5;
  v = axn_value_tensor(*state, &t, NULL, NULL);
  y = good(*state, "same", VALUES(v));
  assert_memory_equal(look(y).data, ((float[]){6, 5, 4, 3, 2, 1}), sizeof x);
  axn_value_free(y);
  t.strides = NULL;
  t.data = x;
  v = axn_value_tensor(*state, &t, count_up, &freed);
  assert_int_equal(freed, 1);
  axn_value_free(v);
  assert_int_equal(freed, 2);
  char odd[9];
  memcpy(odd + 1, (float[]){7, 8}, 8);
  t = (AxnTensor){.dtype = AXN_F32, .rank = 1, .data = odd + 1};
  t.shape = (int64_t[]){2};
  y = good(*state, "same", VALUES(axn_value_tensor(*state, &t, NULL, NULL)));
  assert_true(((float *)look(y).data)[1] == 8);
  axn_value_free(y);
}

static void no_tensor(AxnSession *s, AxnTensor t, const char *message) {
  assert_null(axn_value_tensor(s, &t, NULL, NULL));
  assert_non_null(strstr(axn_diag_text(s, 0), message));
}

static void test_no_tensors(void **state) {
  float x[2] = {0};
  const int64_t two = 2, below = -1, none[] = {3, 0};
  AxnTensor t = {.dtype = AXN_F32, .rank = 1, .shape = &two};
  no_tensor(*state, t, "is NULL");
  no_tensor(*state, (AxnTensor){.dtype = AXN_F32}, "is NULL");
  t.data = x;
  t.shape = NULL;
  no_tensor(*state, t, "is NULL");
  t.shape = &below;
  no_tensor(*state, t, "a negative size");
  t.shape = &two;
  t.rank = AXN_RANK_MAX + 1; /* its sizes are not read */
  no_tensor(*state, t, "must be 0 to 32");
  t = (AxnTensor){.dtype = AXN_F32, .rank = 2, .shape = none};
  AxnValue *y =
      good(*state, "same", VALUES(axn_value_tensor(*state, &t, NULL, NULL)));
  assert_int_equal(look(y).shape[1], 0);
  axn_value_free(y);
}

static void test_numbers(void **state) {
  double d[2] = {1, 2}, f;
  int64_t n, two = 2, shape[] = {1, 2, 4};
  float x[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  AxnValue *y =
      good(*state, "twice", VALUES(tensor(*state, AXN_F64, 1, &two, d)));
  assert_int_equal(look(axn_value_field(y, "double")).dtype, AXN_F64);
  assert_string_equal(axn_value_text(axn_value_field(y, "name"), NULL),
                      "twice");
  assert_true(
      axn_value_as_int(axn_value_item(axn_value_field(y, "sizes"), 0), &n));
  assert_int_equal(n, 2);
  assert_null(axn_value_field(y, "none"));
  axn_value_free(y);
  for (int64_t h = 1; h <= 4; h *= 2) {
    y = good(
        *state, "heads",
        VALUES(axn_value_int(*state, h), tensor(*state, AXN_F32, 3, shape, x)));
    assert_int_equal(look(y).shape[1], h);
    assert_int_equal(look(y).shape[3], 4 / h);
    axn_value_free(y);
  }
  y = good(*state, "twice", VALUES(axn_value_float(*state, 1.5)));
  assert_true(axn_value_as_float(axn_value_field(y, "double"), &f));
  assert_true(f == 3);
  axn_value_free(y);
  y = good(*state, "nothing", 0, NULL);
  assert_true(axn_value_as_int(y, &n) && n == 7);
  axn_value_free(y);
}

static void test_labels(void **state) {
  float x[6] = {1, 2, 3, 4, 5, 6};
  AxnFunction *f = axn_function(*state, "total");
  AxnParam params[2], result;
  assert_int_equal(axn_function_params(f, params, 2, &result), 2);
  assert_string_equal(params[0].label, "axis");
  assert_null(params[1].label);
  assert_string_equal(params[1].name, "x");
  f = axn_function(*state, "total");
  for (int64_t axis = 0; axis < 2; axis++) {
    AxnArg args[] = {
        {.value = axn_value_int(*state, axis), .label = "axis"},
        {.value = tensor(*state, AXN_F32, 2, (int64_t[]){2, 3}, x)}};
    AxnValue *y;
    assert_int_equal(axn_call(*state, f, args, 2, &y), AXN_OK);
    assert_int_equal(look(y).shape[0], axis ? 2 : 3);
    axn_value_free(y);
    axn_value_free((AxnValue *)args[0].value);
    axn_value_free((AxnValue *)args[1].value);
  }
}

static void test_about(void **state) {
  AxnFunction *f = axn_function(*state, "forward");
  AxnParam params[2], result;
  assert_int_equal(axn_function_params(f, params, 2, &result), 2);
  assert_string_equal(params[0].name, "p");
  assert_string_equal(params[0].type, "{w : 'a[n, m], b : 'a[m]}");
  assert_int_equal(params[0].rank, -1);
  assert_int_equal(result.dtype, AXN_NONE);
  assert_string_equal(axn_session_doc(*state, "forward"), "An affine map.");
  assert_null(axn_session_doc(*state, "same"));
  assert_null(axn_function(*state, "no_such"));
  assert_null(axn_function(*state, "1 + 1"));
  assert_non_null(strstr(axn_diag_json(*state), "\"E0312\""));
}

static void test_lists(void **state) {
  float x[3] = {1, 2, 3};
  AxnValue *items[] = {vector(*state, x, 2), vector(*state, x, 3)};
  AxnValue *list = axn_value_list(*state, 2, items);
  AxnValue *y = good(*state, "sums", VALUES(list));
  double sum;
  assert_int_equal(axn_value_kind(y), AXN_LIST);
  assert_true(axn_value_as_float(axn_value_item(y, 1), &sum) && sum == 6);
  axn_value_free(y);
  y = good(*state, "same", VALUES(axn_value_list(*state, 0, NULL)));
  assert_int_equal(axn_value_count(y), 0);
  axn_value_free(y);
  AxnValue *mixed[] = {items[0], axn_value_int(*state, 1)};
  bad(*state, "same", "items of different types",
      VALUES(axn_value_list(*state, 2, mixed)));
  axn_value_free(mixed[1]);
  axn_value_free(items[0]);
  axn_value_free(items[1]);
}

static void test_other_values(void **state) {
  AxnValue *y =
      good(*state, "greet", VALUES(axn_value_string(*state, "you", 3)));
  size_t len;
  assert_string_equal(axn_value_text(y, &len), "hello you");
  assert_int_equal(len, 9);
  axn_value_free(y);
  y = good(*state, "find", VALUES(axn_value_int(*state, 4)));
  assert_int_equal(axn_value_kind(y), AXN_CON);
  assert_string_equal(axn_value_text(y, NULL), "Some");
  int64_t n;
  assert_true(axn_value_as_int(axn_value_item(y, 0), &n) && n == 4);
  bad(*state, "same", "constructor", VALUES(y));
  y = good(*state, "key", VALUES(axn_value_int(*state, 4)));
  assert_int_equal(axn_value_kind(y), AXN_KEY);
  y = good(*state, "draw", VALUES(y));
  assert_int_equal(look(y).shape[0], 3);
  axn_value_free(y);
  assert_null(axn_value_string(*state, "\xff", 1));
}

/* A function keeps its first argument: from then on it is a copy. */
static void test_kept(void **state) {
  float *x = calloc(2, sizeof *x);
  AxnValue *y = good(*state, "keep", VALUES(vector(*state, x, 2)));
  free(x);
  assert_int_equal(axn_value_kind(axn_value_field(y, "add")), AXN_OTHER);
  assert_true(((float *)look(axn_value_field(y, "old")).data)[1] == 0);
  axn_value_free(y);
}

static void test_wrong_names(void **state) {
  AxnValue *one = axn_value_int(*state, 1);
  const char *name = "w : int} evil";
  bad(*state, "same", "field",
      VALUES(axn_value_record(*state, 1, &name, &one)));
  name = "end";
  bad(*state, "same", "field",
      VALUES(axn_value_record(*state, 1, &name, &one)));
  assert_null(axn_value_record(*state, 2, (const char *[]){"a", "a"},
                               (AxnValue *[]){one, one}));
  AxnValue *y = good(*state, "same", VALUES(one));
  axn_value_free(y);
}

/* A number with and one without a type, in the same field of a record. */
static void test_weak_inside(void **state) {
  double d[2] = {1, 2};
  float f = 2;
  int64_t two = 2;
  for (int way = 0; way < 4; way++) {
    AxnTensor number = {.dtype = AXN_F32, .data = &f};
    AxnValue *items[] = {tensor(*state, AXN_F64, 1, &two, d),
                         way & 1 ? axn_value_tensor(*state, &number, NULL, NULL)
                                 : axn_value_float(*state, 0.1)};
    AxnValue *p =
                 axn_value_record(*state, 2, (const char *[]){"x", "k"}, items),
             *y;
    if (way & 1) {
      bad(*state, "times", "f32", VALUES(p));
    } else {
      y = good(*state, "times", VALUES(p));
      assert_true(((double *)look(y).data)[0] == 0.1);
      axn_value_free(y);
    }
    axn_value_free(items[0]);
    axn_value_free(items[1]);
  }
}

static void test_exit(void **state) {
  AxnValue *y;
  assert_int_equal(call(*state, "leave", &y, VALUES(axn_value_int(*state, 3))),
                   AXN_EXITED);
  assert_null(y);
  assert_int_equal(axn_exit_status(*state), 3);
  y = good(*state, "nothing", 0, NULL);
  axn_value_free(y);
}

static void test_redefined(void **state) {
  AxnFunction *f = axn_function(*state, "nothing");
  const char *again = "fun nothing () = 8";
  AxnValue *y;
  int64_t n;
  assert_int_equal(axn_call(*state, f, NULL, 0, &y), AXN_OK);
  axn_value_free(y);
  assert_int_equal(axn_session_run(*state, "t", again, strlen(again)), AXN_OK);
  assert_int_equal(axn_call(*state, f, NULL, 0, &y), AXN_OK);
  assert_true(axn_value_as_int(y, &n) && n == 8);
  axn_value_free(y);
}

/* ---- errors, interrupts, and calls in the wrong order ---- */

static void test_run_error(void **state) {
  float x[2] = {1, 2};
  bad(*state, "at", "5",
      VALUES(vector(*state, x, 2), axn_value_int(*state, 5)));
  AxnValue *y = good(*state, "same", VALUES(vector(*state, x, 2)));
  axn_value_free(y);
}

static void *interrupt_soon(void *session) {
  usleep(50 * 1000);
  axn_interrupt(session);
  return NULL;
}

static void test_interrupt(void **state) {
  pthread_t other;
  AxnValue *y;
  pthread_create(&other, NULL, interrupt_soon, *state);
  assert_int_equal(call(*state, "loop", &y, VALUES(axn_value_int(*state, 0))),
                   AXN_INTERRUPTED);
  pthread_join(other, NULL);
  y = good(*state, "nothing", 0, NULL);
  axn_value_free(y);
}

static volatile sig_atomic_t signals;

static void note_signal(int number) {
  (void)number;
  signals++;
}

static void test_signal(void **state) {
  AxnValue *y;
  signal(SIGALRM, note_signal);
  axn_session_signal(*state, SIGALRM);
  signals = 0;
  ualarm(50 * 1000, 0);
  assert_int_equal(call(*state, "loop", &y, VALUES(axn_value_int(*state, 0))),
                   AXN_INTERRUPTED);
  assert_int_equal(signals, 1);
  raise(SIGALRM); /* the host's handler is restored */
  assert_int_equal(signals, 2);
  y = good(*state, "nothing", 0, NULL);
  axn_value_free(y);
  signal(SIGALRM, SIG_DFL);
}

static void call_back(void *session, const char *text, size_t len) {
  AxnValue *y;
  (void)text, (void)len;
  assert_int_equal(axn_session_value(session, "weights", &y), AXN_BUSY);
  assert_int_equal(axn_session_run(session, "t", "1", 1), AXN_BUSY);
  assert_null(axn_function(session, "same"));
}

static void test_busy(void **state) {
  axn_session_output(*state, call_back, *state);
  const char *text = "do print 1";
  assert_int_equal(axn_session_run(*state, "t", text, strlen(text)), AXN_OK);
}

static void *many_calls(void *arg) {
  bool *ok = arg;
  AxnSession *s = NULL;
  if (set_up((void **)&s) == 0) {
    AxnFunction *f = axn_function(s, "twice");
    float x[2] = {1, 2};
    *ok = true;
    for (int i = 0; i < 200 && *ok; i++) {
      AxnValue *v = vector(s, x, 2), *y;
      AxnArg args[] = {{.value = v}};
      AxnTensor t;
      *ok = axn_call(s, f, args, 1, &y) == AXN_OK &&
            axn_value_get(axn_value_field(y, "double"), &t) &&
            ((float *)t.data)[1] == 4;
      axn_value_free(v);
      axn_value_free(y);
    }
    axn_session_free(s);
  }
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  pthread_t threads[4];
  bool ok[4] = {false};
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, many_calls, &ok[i]);
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    assert_true(ok[i]);
  }
}

/* A host whose environment has invalid settings. */
static void test_settings(void **state) {
  static const char text[] = "val one = 1";
  (void)state;
  AxnSession *s = axn_session_new();
  const char *before = getenv("AXON_THREADS");
  char *kept = before ? strdup(before) : NULL;
  setenv("AXON_THREADS", "none", 1);
  assert_int_equal(axn_session_run(s, "m", text, strlen(text)), AXN_ERROR);
  assert_non_null(strstr(axn_diag_text(s, 0), "AXON_THREADS=none"));
  if (kept)
    setenv("AXON_THREADS", kept, 1);
  else
    unsetenv("AXON_THREADS");
  free(kept);
  assert_int_equal(axn_session_run(s, "m", text, strlen(text)), AXN_OK);
  axn_session_free(s);
}

/* ---- DLPack ---- */

static int deleted;

static void delete_now(DLManagedTensorVersioned *m) {
  deleted++;
  free(m->manager_ctx);
  free(m);
}

static DLManagedTensorVersioned *managed(float *data, int64_t n) {
  DLManagedTensorVersioned *m = calloc(1, sizeof *m);
  int64_t *shape = malloc(sizeof *shape);
  *shape = n;
  *m = (DLManagedTensorVersioned){
      .version = {1, 0}, .manager_ctx = shape, .deleter = delete_now};
  m->dl_tensor = (DLTensor){.data = data,
                            .device = {kDLCPU, 0},
                            .ndim = 1,
                            .dtype = {kDLFloat, 32, 1},
                            .shape = shape,
                            .byte_offset = sizeof(float)};
  return m;
}

static void test_dlpack_in(void **state) {
  float x[3] = {1, 2, 3};
  deleted = 0;
  AxnValue *v = axn_value_from_dlpack(*state, managed(x, 2));
  assert_non_null(v);
  assert_ptr_equal(look(v).data, x + 1);
  assert_true(look(v).readonly);
  AxnValue *y = good(*state, "same", VALUES(v));
  assert_int_equal(deleted, 1);
  assert_true(((float *)look(y).data)[1] == 3);
  axn_value_free(y);
  DLManagedTensorVersioned *m = managed(x, 2);
  m->dl_tensor.device.device_type = kDLCUDA;
  assert_null(axn_value_from_dlpack(*state, m));
  assert_non_null(strstr(axn_diag_text(*state, 0), "device"));
  m->dl_tensor.device.device_type = kDLCPU;
  m->dl_tensor.dtype = (DLDataType){kDLComplex, 64, 1};
  assert_null(axn_value_from_dlpack(*state, m));
  m->dl_tensor.dtype = (DLDataType){kDLFloat, 32, 1};
  m->dl_tensor.data = NULL;
  assert_null(axn_value_from_dlpack(*state, m));
  assert_non_null(strstr(axn_diag_text(*state, 0), "is NULL"));
  m->version.major = 2;
  assert_null(axn_value_from_dlpack(*state, m));
  assert_int_equal(deleted, 1);
  delete_now(m);
}

static void test_dlpack_out(void **state) {
  float x[6] = {1, 2, 3, 4, 5, 6};
  AxnValue *y = good(*state, "same",
                     VALUES(tensor(*state, AXN_F32, 2, (int64_t[]){2, 3}, x)));
  DLManagedTensorVersioned *m = axn_value_to_dlpack(*state, y);
  assert_non_null(m);
  assert_ptr_equal(m->dl_tensor.data, look(y).data);
  assert_int_equal(m->flags & DLPACK_FLAG_BITMASK_READ_ONLY, 0);
  axn_value_free(y); /* the struct keeps the data */
  assert_int_equal(m->dl_tensor.strides[0], 3);
  assert_true(((float *)m->dl_tensor.data)[5] == 6);
  m->deleter(m);
  assert_int_equal(axn_session_value(*state, "weights", &y), AXN_OK);
  m = axn_value_to_dlpack(*state, y);
  assert_int_equal(m->flags & DLPACK_FLAG_BITMASK_READ_ONLY, 1);
  m->deleter(m);
  DLManagedTensor *old = axn_value_to_dlpack_old(*state, y);
  assert_ptr_not_equal(old->dl_tensor.data, look(y).data);
  old->deleter(old);
  axn_value_free(y);
  y = axn_value_int(*state, 3);
  m = axn_value_to_dlpack(*state, y);
  assert_int_equal(m->dl_tensor.ndim, 0);
  m->deleter(m);
  axn_value_free(y);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(test_record),       TEST(test_mismatch),    TEST(test_types),
      TEST(test_borrowed),     TEST(test_strides),     TEST(test_numbers),
      TEST(test_labels),       TEST(test_about),       TEST(test_lists),
      TEST(test_other_values), TEST(test_kept),        TEST(test_wrong_names),
      TEST(test_redefined),    TEST(test_run_error),   TEST(test_interrupt),
      TEST(test_signal),       TEST(test_busy),        TEST(test_threads),
      TEST(test_no_tensors),   TEST(test_settings),    TEST(test_dlpack_in),
      TEST(test_dlpack_out),   TEST(test_weak_inside), TEST(test_exit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
