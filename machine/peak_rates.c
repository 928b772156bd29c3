/* Peak rates: saved as text, or estimated. */
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
#include "runtime/thread_pool.h"
#include "runtime/trusted_dir.h"

enum { NAME = 64, RATE_COUNT = 2 * (3 + 2 * LEVEL_COUNT) + 1 };

static PeakRates cached_rates;

/* ---- guesses ---- */

/* Estimates for a core at 3 GHz with two multiply-adds per cycle, and for
 * typical memory.  All cores together reach twice the bandwidth of one core. */
static void estimate_rates(PeakRates *l) {
  static const double bytes_a_cycle[LEVEL_COUNT] = {1.5, 0.75, 0.35, 0};
  static const double core_dram_bandwidth = 20e9, clock_hz = 3e9;
  const Machine *m = machine();
  *l = (PeakRates){.threads = thread_pool_size(), .fork_join_seconds = 2e-6};
  for (int all = 0; all < 2; all++) {
    double threads = all ? l->threads : 1;
    l->f32_flops[all] = threads * clock_hz * 4 * (m->vector_bytes / 4);
    if (machine_microbenchmarks(m->vector_bytes).dot_bf16)
      l->bf16_flops[all] = 2 * l->f32_flops[all];
    double dram_bandwidth = core_dram_bandwidth * (threads < 2 ? threads : 2);
    for (int k = 0; k < LEVEL_COUNT; k++) {
      double rate = threads * clock_hz * bytes_a_cycle[k] * m->vector_bytes;
      bool is_cached = k < LEVEL_DRAM && m->cache_bytes[k];
      l->read_bandwidth[k][all] = l->copy_bandwidth[k][all] =
          is_cached ? rate : dram_bandwidth;
    }
    l->nontemporal_bandwidth[all] = dram_bandwidth;
  }
}

/* ---- the file ---- */

/* Lists the rates in the order of the file.  The file must contain all. */
static void list_rates(PeakRates *l, double *rate_refs[RATE_COUNT]) {
  uint32_t n = 0;
  for (int all = 0; all < 2; all++) {
    rate_refs[n++] = &l->f32_flops[all];
    rate_refs[n++] = &l->bf16_flops[all];
    rate_refs[n++] = &l->nontemporal_bandwidth[all];
    for (int k = 0; k < LEVEL_COUNT; k++) {
      rate_refs[n++] = &l->read_bandwidth[k][all];
      rate_refs[n++] = &l->copy_bandwidth[k][all];
    }
  }
  rate_refs[n++] = &l->fork_join_seconds;
}

/* The factor that makes rate i a whole number, since these are the same in
 * every locale.  The last rate is in seconds. */
static double fixed_point_scale(int i) {
  return i + 1 < RATE_COUNT ? 1 : 1e12;
}

void machine_identity(char text[MACHINE_TEXT]) {
  const Machine *m = machine();
  snprintf(text, MACHINE_TEXT, "%s|%s|%zu %zu %zu|%u", AXON_VERSION,
           m->cpu_name, m->cache_bytes[0], m->cache_bytes[1], m->cache_bytes[2],
           m->vector_bytes);
}

static uint64_t machine_hash(MachineFile which) {
  char text[MACHINE_TEXT + 32];
  machine_identity(text);
  size_t len = strlen(text);
  if (which == MACHINE_PEAK)
    len += (size_t)snprintf(text + len, sizeof text - len, "|%d|%d",
                            machine()->cores, thread_pool_size());
  return XXH3_64bits(text, len);
}

/* Opens the folder of artifacts; -1 if there is none. */
static int find_file(MachineFile which, char name[NAME], bool make) {
  static const char *const kinds[] = {
      [MACHINE_PEAK] = "machine", [MACHINE_CORE] = "core"};
  char path[ARTIFACT_PATH_BYTES];
  snprintf(name, NAME, "%s-%016llx.txt", kinds[which],
           (unsigned long long)machine_hash(which));
  return artifact_open_root(path, make);
}

static FILE *open_in(int folder, const char *name, int flags, const char *how) {
  int file = openat(folder, name, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
  FILE *out = file < 0 ? NULL : fdopen(file, how);
  if (!out && file >= 0)
    close(file);
  return out;
}

FILE *machine_file_read(MachineFile which) {
  char name[NAME];
  int folder = find_file(which, name, false);
  FILE *in =
      folder < 0 ? NULL : open_in(folder, name, O_RDONLY | O_NONBLOCK, "r");
  if (folder >= 0)
    close(folder);
  return in;
}

bool machine_file_write(MachineFile which, const char *text, size_t len) {
  char name[NAME];
  int folder = find_file(which, name, true);
  if (folder < 0)
    return false;
  bool good = trust_replace(folder, name, 0600, text, len);
  close(folder);
  return good;
}

/* Returns true if a machine may have these rates: less than an exabyte, or an
 * exaflop, per second.  Machines may lack a cache, or bf16. */
static bool are_possible(PeakRates *l) {
  double *rate_refs[RATE_COUNT];
  list_rates(l, rate_refs);
  bool good = l->fork_join_seconds <= 1;
  for (int i = 0; i < RATE_COUNT; i++)
    good &= *rate_refs[i] >= 0 && *rate_refs[i] < 1e18;
  for (int all = 0; all < 2; all++)
    good &= l->f32_flops[all] > 0 && l->nontemporal_bandwidth[all] > 0 &&
            l->read_bandwidth[LEVEL_DRAM][all] > 0 &&
            l->copy_bandwidth[LEVEL_DRAM][all] > 0;
  return good;
}

static bool load_rates(PeakRates *l) {
  FILE *in = machine_file_read(MACHINE_PEAK);
  if (!in)
    return false;
  double *rate_refs[RATE_COUNT];
  list_rates(l, rate_refs);
  bool good = true;
  for (int i = 0; i < RATE_COUNT && good; i++) {
    long long whole;
    good = fscanf(in, "%lld", &whole) == 1 && whole >= 0;
    *rate_refs[i] = good ? (double)whole / fixed_point_scale(i) : 0;
  }
  fclose(in);
  good = good && are_possible(l);
  l->measured = good;
  l->threads = thread_pool_size();
  return good;
}

static void keep_better_rates(PeakRates *measured) {
  PeakRates saved;
  if (!load_rates(&saved))
    return;
  for (int all = 0; all < 2; all++) {
    if (measured->f32_flops[all] < saved.f32_flops[all])
      measured->f32_flops[all] = saved.f32_flops[all];
    if (measured->bf16_flops[all] < saved.bf16_flops[all])
      measured->bf16_flops[all] = saved.bf16_flops[all];
  }
  if (measured->fork_join_seconds > saved.fork_join_seconds)
    measured->fork_join_seconds = saved.fork_join_seconds;
}

bool machine_save_peak_rates(PeakRates *rates) {
  keep_better_rates(rates);
  char text[RATE_COUNT * 24];
  double *rate_refs[RATE_COUNT];
  list_rates(rates, rate_refs);
  size_t len = 0;
  for (int i = 0; i < RATE_COUNT; i++)
    len += (size_t)snprintf(text + len, sizeof text - len, "%lld\n",
                            (long long)(*rate_refs[i] * fixed_point_scale(i)));
  return machine_file_write(MACHINE_PEAK, text, len);
}

static void load_or_estimate(void) {
  if (!load_rates(&cached_rates))
    estimate_rates(&cached_rates);
}

const PeakRates *machine_peak_rates(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_or_estimate);
  return &cached_rates;
}
