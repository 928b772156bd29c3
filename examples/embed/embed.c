/* Calls the functions of model.axn with arrays of this program.
 *
 *   cc embed.c $(pkg-config --cflags --libs axon) -o embed
 *   ./embed model.axn
 */
#include <axon.h>
#include <stdint.h>

#include <stdio.h>
#include <stdlib.h>

static AxnSession *session;

static void fail(void) { /* a program would go on: this one just says why */
  for (size_t i = 0; i < axn_diag_count(session); i++)
    fputs(axn_diag_text(session, i), stderr);
  exit(1);
}

static AxnValue *some(AxnValue *value) { /* or the reason why there is none */
  if (!value)
    fail();
  return value;
}

static char *read_file(const char *path, size_t *len) {
  static char text[1 << 16];
  FILE *file = fopen(path, "r");
  if (!file) {
    perror(path);
    exit(1);
  }
  *len = fread(text, 1, sizeof text, file);
  fclose(file);
  return text;
}

/* Values over arrays: nothing is copied, the array has to stay. */
static AxnValue *matrix(float *data, int64_t rows, int64_t columns) {
  int64_t shape[] = {rows, columns};
  AxnTensor t = {.dtype = AXN_F32, .rank = 2, .shape = shape, .data = data};
  return some(axn_value_tensor(session, &t, NULL, NULL));
}

static AxnValue *vector(float *data, int64_t size) {
  AxnTensor t = {.dtype = AXN_F32, .rank = 1, .shape = &size, .data = data};
  return some(axn_value_tensor(session, &t, NULL, NULL));
}

/* A record of two fields, which it takes over. */
static AxnValue *record(const char *one, AxnValue *x, const char *two,
                        AxnValue *y) {
  AxnValue *r = axn_value_record(session, 2, (const char *[]){one, two},
                                 (AxnValue *[]){x, y});
  axn_value_free(x);
  axn_value_free(y);
  return some(r);
}

static AxnStatus call(const char *name, AxnValue **result, const AxnValue *x,
                      const AxnValue *y) {
  AxnFunction *f = axn_function(session, name);
  if (!f)
    fail();
  AxnArg args[] = {{.value = x}, {.value = y}};
  return axn_call(session, f, args, y ? 2 : 1, result);
}

static void print(const char *what, const AxnValue *value) {
  AxnTensor t;
  if (!axn_value_get(value, &t))
    return;
  int64_t count = 1;
  for (int32_t i = 0; i < t.rank; i++)
    count *= t.shape[i];
  printf("%s:", what);
  for (int64_t i = 0; i < count; i++)
    printf(" %.4f", (double)((float *)t.data)[i]);
  printf("\n");
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s model.axn\n", argv[0]);
    return 2;
  }
  session = axn_session_new();
  if (!session)
    return 1;
  size_t len;
  const char *text = read_file(argv[1], &len);
  if (axn_session_run(session, argv[1], text, len) != AXN_OK)
    fail();

  float w1[] = {1, -1, 0.5f, 0.25f, -0.5f, 1}, b1[] = {0, 0.5f, -0.5f};
  float w2[] = {1, 0, 0, 1, 0.5f, -0.5f}, b2[] = {0.25f, 0};
  float x[] = {1, 2, 3, 4, 5, 6, 7, 8};
  AxnValue *p = record("first",
                       record("w", matrix(w1, 2, 3), //
                              "b", vector(b1, 3)),
                       "second",
                       record("w", matrix(w2, 3, 2), //
                              "b", vector(b2, 2)));

  AxnValue *y, *z;
  for (int64_t rows = 1; rows <= 4; rows += 3) { /* one code for all sizes */
    AxnValue *batch = matrix(x, rows, 2);
    if (call("forward", &y, p, batch) != AXN_OK)
      fail();
    print("forward", y);
    if (rows == 4 && call("describe", &z, batch, NULL) == AXN_OK) {
      print("mean", axn_value_field(z, "mean"));
      print("deviation", axn_value_field(z, "deviation"));
      axn_value_free(z);
    }
    axn_value_free(y);
    axn_value_free(batch);
  }

  AxnValue *wrong = matrix(x, 2, 4); /* does not fit, and is told so */
  if (call("forward", &y, p, wrong) == AXN_ERROR)
    printf("%s\n", axn_diag_get(session, 0)->message);
  axn_value_free(wrong);
  axn_value_free(p);
  axn_session_free(session);
  return 0;
}
