/* Reads properties of the machine from the operating system. */
#define _GNU_SOURCE
#include "machine/machine.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/runtime.h"

/* More than a cache has. */
#define MAX_CACHE_BYTES ((unsigned long long)1 << 40)
static Machine detected;

static int processors(void) {
  long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? (int)count : 1;
}

static int count_cores(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    return CPU_COUNT(&set);
  return processors(); /* more cores than a cpu_set_t holds */
}

static size_t sysconf_size(int name) {
  long size = sysconf(name);
  return size > 0 ? (size_t)size : 0;
}

static uint32_t vector_bytes(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return 64;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return 32;
#endif
  return 16;
}

/* Reads the first "model name" that Linux reports.  Some processors have
 * none. */
static void read_cpu_name(char *name, size_t size) {
  FILE *in = fopen("/proc/cpuinfo", "re");
  char line[256];
  while (in && fgets(line, sizeof line, in)) {
    const char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || !colon)
      continue;
    snprintf(name, size, "%s", colon + 1 + strspn(colon + 1, " \t"));
    name[strcspn(name, "\n")] = '\0';
    break;
  }
  if (in)
    fclose(in);
}

/* Reads one line of /sys/devices/system/cpu/cpu0/cache/index<k>/<attribute>. */
static bool read_sysfs_cache(int k, const char *attribute, char line[64]) {
  char path[96];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s",
           k, attribute);
  FILE *in = fopen(path, "re");
  bool good = in && fgets(line, 64, in);
  if (in)
    fclose(in);
  return good;
}

/* Reads the cache sizes that one core sees from Linux.  The sysconf values
 * instead add up the caches of a whole socket. */
static void detect_caches(size_t cache[3]) {
  char line[64], unit = 0;
  for (int k = 0; read_sysfs_cache(k, "type", line); k++) {
    unsigned long size = 0;
    bool data = strncmp(line, "Instruction", 11) != 0;
    int level = read_sysfs_cache(k, "level", line) ? line[0] - '1' : -1;
    if (!data || level < 0 || level > 2 || !read_sysfs_cache(k, "size", line) ||
        sscanf(line, "%lu%c", &size, &unit) != 2)
      continue;
    cache[level] = (size_t)size << (unit == 'M' ? 20 : unit == 'K' ? 10 : 0);
  }
  static const int names[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE,
                              _SC_LEVEL3_CACHE_SIZE};
  for (int level = 0; level < 3; level++)
    if (!cache[level])
      cache[level] = sysconf_size(names[level]);
}

bool machine_read_caches(const char *text, size_t cache[3]) {
  unsigned long long of[3];
  int len = 0;
  if (text[strspn(text, "0123456789,")] ||
      sscanf(text, "%llu,%llu,%llu%n", &of[0], &of[1], &of[2], &len) != 3 ||
      text[len] || !of[0] || of[0] > of[1] || of[1] > of[2] ||
      of[2] > MAX_CACHE_BYTES)
    return false;
  for (int level = 0; level < 3; level++)
    cache[level] = (size_t)of[level];
  return true;
}

static void detect_machine(void) {
  detected.cores = count_cores();
  detected.processors = processors();
  detected.memory_bytes = memory_limit();
  const char *caches = getenv("AXON_CACHES");
  if (!caches || !machine_read_caches(caches, detected.cache_bytes))
    detect_caches(detected.cache_bytes);
  detected.cache_line_bytes = sysconf_size(_SC_LEVEL1_DCACHE_LINESIZE);
  if (!detected.cache_line_bytes)
    detected.cache_line_bytes = 64;
  detected.vector_bytes = vector_bytes();
  read_cpu_name(detected.cpu_name, sizeof detected.cpu_name);
}

const Machine *machine(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, detect_machine);
  return &detected;
}
