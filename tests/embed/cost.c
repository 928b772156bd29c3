/* What a call from a host costs, and that it keeps no memory:
 *
 *   make -s tests/embed/cost && tests/embed/cost
 *
 * Prints microseconds; fails where calls leave memory behind. */
#include "session/axon.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { WARM = 2000, CALLS = 20000, SIZE = 8 };

static const char program[] = "fun scaled x = x * 2.0\n"
                              "fun same x = x\n"
                              "fun more x = x + 1\n"
                              "fun layer p x = tanh (x @ p.w + p.b)\n";

static AxnSession *session;
static float data[SIZE * SIZE];

static AxnValue *tensor(int32_t rank, const int64_t *shape) {
  AxnTensor t = {.dtype = AXN_F32, .rank = rank, .shape = shape, .data = data};
  return axn_value_tensor(session, &t, NULL, NULL);
}

static AxnValue *parameters(void) {
  AxnValue *items[] = {tensor(2, (int64_t[]){SIZE, SIZE}),
                       tensor(1, (int64_t[]){SIZE})};
  AxnValue *p = axn_value_record(session, 2, (const char *[]){"w", "b"}, items);
  axn_value_free(items[0]);
  axn_value_free(items[1]);
  return p;
}

static int call(AxnFunction *f, const char *name) {
  AxnArg args[2];
  size_t count = 0;
  AxnValue *result;
  if (strcmp(name, "layer") == 0) {
    args[count++] = (AxnArg){.value = parameters()};
    args[count++] = (AxnArg){.value = tensor(2, (int64_t[]){1, SIZE})};
  } else if (strcmp(name, "scaled") == 0) {
    args[count++] = (AxnArg){.value = axn_value_float(session, 1.5)};
  } else {
    args[count++] = (AxnArg){.value = tensor(1, (int64_t[]){SIZE})};
  }
  AxnStatus status = axn_call(session, f, args, count, &result);
  axn_value_free(result);
  while (count)
    axn_value_free((AxnValue *)(uintptr_t)args[--count].value);
  return status;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int measure(const char *name) {
  AxnFunction *f = axn_function(session, name);
  for (int i = 0; i < WARM; i++)
    if (call(f, name) != AXN_OK) {
      fputs(axn_diag_text(session, 0), stderr);
      return 1;
    }
  size_t used = mallinfo2().uordblks;
  double start = now();
  for (int i = 0; i < CALLS; i++)
    call(f, name);
  double took = now() - start;
  size_t kept = mallinfo2().uordblks;
  printf("%-8s %6.2f us\n", name, took / CALLS);
  if (kept <= used)
    return 0;
  printf("%s: %zu bytes more after %d calls\n", name, kept - used, CALLS);
  return 1;
}

int main(void) {
  session = axn_session_new();
  if (!session ||
      axn_session_run(session, "cost", program, strlen(program)) != AXN_OK)
    return 1;
  int status =
      measure("scaled") | measure("same") | measure("more") | measure("layer");
  axn_session_free(session);
  return status;
}
