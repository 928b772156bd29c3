/* Limits that were measured before, kept as text; or guesses. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "machine/internal.h"
#include "runtime/artifact.h"
#include "runtime/pool.h"
#include "runtime/trust.h"

enum { NAME = 64, NUMBERS = 2 * (3 + 2 * LEVEL_COUNT) + 1 };

static MachineLimits known;

/* ---- guesses ---- */

/* Of a core at 3 GHz, two multiply-adds a cycle, and of memory as a core has
 * it mostly, and all cores together: they reach twice that soon. */
static void guess(MachineLimits *l) {
  static const double bytes_a_cycle[LEVEL_COUNT] = {1.5, 0.75, 0.35, 0};
  static const double memory = 20e9, clock = 3e9;
  const Machine *m = machine();
  *l = (MachineLimits){.threads = pool_threads(), .fork = 2e-6};
  for (int all = 0; all < 2; all++) {
    double threads = all ? l->threads : 1;
    l->fma[all] = threads * clock * 4 * (m->vector / 4);
    if (machine_kernels(m->vector).multiply_bf16)
      l->bf16[all] = 2 * l->fma[all];
    double reach = memory * (threads < 2 ? threads : 2);
    for (int k = 0; k < LEVEL_COUNT; k++) {
      double rate = threads * clock * bytes_a_cycle[k] * m->vector;
      bool here = k < LEVEL_MEMORY && m->cache[k];
      l->read[k][all] = l->copy[k][all] = here ? rate : reach;
    }
    l->stream[all] = reach;
  }
}

/* ---- the file ---- */

/* The numbers in their order, of which none may be missing. */
static void numbers(MachineLimits *l, double *at[NUMBERS]) {
  uint32_t n = 0;
  for (int all = 0; all < 2; all++) {
    at[n++] = &l->fma[all];
    at[n++] = &l->bf16[all];
    at[n++] = &l->stream[all];
    for (int k = 0; k < LEVEL_COUNT; k++) {
      at[n++] = &l->read[k][all];
      at[n++] = &l->copy[k][all];
    }
  }
  at[n++] = &l->fork;
}

/* Whole numbers are the same in every locale; the last one is in seconds. */
static double scale(int i) {
  return i + 1 < NUMBERS ? 1 : 1e12;
}

static uint64_t key(void) {
  const Machine *m = machine();
  char text[512];
  int len = snprintf(text, sizeof text, "%s|%s|%zu %zu %zu|%u|%d|%d",
                     AXON_VERSION, m->name, m->cache[0], m->cache[1],
                     m->cache[2], m->vector, m->cores, pool_threads());
  return XXH3_64bits(text, (size_t)len);
}

/* In the folder of artifacts: a descriptor of it, or -1. */
static int find_file(char name[NAME], bool make) {
  char path[ARTIFACT_PATH];
  snprintf(name, NAME, "machine-%016llx.txt", (unsigned long long)key());
  return artifact_folder(path, make);
}

static FILE *open_in(int folder, const char *name, int flags, const char *how) {
  int file = openat(folder, name, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
  FILE *out = file < 0 ? NULL : fdopen(file, how);
  if (!out && file >= 0)
    close(file);
  return out;
}

static FILE *open_limits(void) {
  char name[NAME];
  int folder = find_file(name, false);
  FILE *in =
      folder < 0 ? NULL : open_in(folder, name, O_RDONLY | O_NONBLOCK, "r");
  if (folder >= 0)
    close(folder);
  return in;
}

static bool read_limits(MachineLimits *l) {
  FILE *in = open_limits();
  if (!in)
    return false;
  double *at[NUMBERS];
  numbers(l, at);
  bool good = true;
  for (int i = 0; i < NUMBERS && good; i++) {
    long long whole;
    good = fscanf(in, "%lld", &whole) == 1 && whole >= 0;
    *at[i] = good ? (double)whole / scale(i) : 0;
  }
  fclose(in);
  l->measured = good;
  l->threads = pool_threads();
  return good;
}

static void improve(MachineLimits *now) {
  MachineLimits kept;
  if (!read_limits(&kept))
    return;
  for (int all = 0; all < 2; all++) {
    if (now->fma[all] < kept.fma[all])
      now->fma[all] = kept.fma[all];
    if (now->bf16[all] < kept.bf16[all])
      now->bf16[all] = kept.bf16[all];
  }
  if (now->fork > kept.fork)
    now->fork = kept.fork;
}

bool machine_keep(MachineLimits *limits) {
  improve(limits);
  char name[NAME], text[NUMBERS * 24];
  int folder = find_file(name, true);
  if (folder < 0)
    return false;
  double *at[NUMBERS];
  numbers(limits, at);
  size_t len = 0;
  for (int i = 0; i < NUMBERS; i++)
    len += (size_t)snprintf(text + len, sizeof text - len, "%lld\n",
                            (long long)(*at[i] * scale(i)));
  bool good = trust_replace(folder, name, 0600, text, len);
  close(folder);
  return good;
}

static void find(void) {
  if (!read_limits(&known))
    guess(&known);
}

const MachineLimits *machine_limits(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find);
  return &known;
}
