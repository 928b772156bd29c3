/* Calls what axon build made of threads.axn, and prints a number of the bits of
 * what it gives.
 *
 *   threads         says on stderr how many threads were started; it is linked
 *                   with --wrap=pthread_create
 *   threads fail    where none can be
 *   threads hosts   from several threads at once */
#include "threads.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 900, COUNT = N * N, HOSTS = 3 };

int __real_pthread_create(pthread_t *, const pthread_attr_t *,
                          void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *,
                          void *(*)(void *), void *);

static atomic_int started;
static int fails;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*f)(void *), void *arg) {
  if (fails)
    return EAGAIN;
  atomic_fetch_add(&started, 1);
  return __real_pthread_create(thread, attr, f, arg);
}

static uint64_t mix(uint64_t h, const float *x, int64_t count) {
  for (int64_t k = 0; k < count; k++) {
    uint32_t bits;
    memcpy(&bits, &x[k], sizeof bits);
    h = (h ^ bits) * 1099511628211u;
  }
  return h;
}

typedef struct Call {
  float *x, *y, *out;
  int64_t *at;
  uint64_t hash;
  int codes[6];
} Call;

static void *run(void *call) {
  Call *c = call;
  uint64_t h = 14695981039346656037u;
  c->codes[0] = threads_product(N, N, N, c->x, c->y, c->out);
  h = mix(h, c->out, COUNT);
  c->codes[1] = threads_soft(N, N, c->x, c->out);
  h = mix(h, c->out, COUNT);
  c->codes[2] = threads_total(c->x, c->out);
  h = mix(h, c->out, 1);
  c->codes[3] = threads_pick(COUNT, COUNT, c->x, c->at, c->out);
  h = mix(h, c->out, COUNT);
  c->codes[4] = threads_wave(COUNT, c->x, c->out);
  c->hash = mix(h, c->out, COUNT);
  c->at[COUNT - 1] = COUNT;
  c->codes[5] = threads_pick(COUNT, COUNT, c->x, c->at, c->out);
  return NULL;
}

static Call call_new(void) {
  Call c = {.x = malloc(COUNT * sizeof *c.x),
            .y = malloc(COUNT * sizeof *c.y),
            .out = malloc(COUNT * sizeof *c.out),
            .at = malloc(COUNT * sizeof *c.at)};
  if (!c.x || !c.y || !c.out || !c.at)
    exit(1);
  uint32_t seed = 1;
  for (int64_t k = 0; k < COUNT; k++) {
    seed = seed * 1664525u + 1013904223u;
    c.x[k] = (float)(seed >> 8) / 8388608.0f - 1;
    c.y[k] = (float)(seed >> 16) / 32768.0f - 1;
    c.at[k] = seed % COUNT;
  }
  return c;
}

static void call_end(Call *c) {
  for (int k = 0; k < 6; k++)
    printf("%s\n", threads_message(c->codes[k]));
  printf("%016llx\n", (unsigned long long)c->hash);
  free(c->x);
  free(c->y);
  free(c->out);
  free(c->at);
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  Call calls[HOSTS];
  int hosts = strcmp(mode, "hosts") == 0 ? HOSTS : 1;
  pthread_t threads[HOSTS];
  fails = strcmp(mode, "fail") == 0;
  for (int k = 0; k < hosts; k++)
    calls[k] = call_new();
  for (int k = 1; k < hosts; k++)
    if (__real_pthread_create(&threads[k], NULL, run, &calls[k]))
      return 1;
  run(&calls[0]);
  for (int k = 1; k < hosts; k++)
    pthread_join(threads[k], NULL);
  for (int k = 0; k < hosts; k++)
    call_end(&calls[k]);
  fprintf(stderr, "%d\n", atomic_load(&started));
  return 0;
}
