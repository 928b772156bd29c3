/* What the operating system says about this machine. */
#define _GNU_SOURCE
#include "machine/machine.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "runtime/runtime.h"

static Machine found;

static int cores(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    return CPU_COUNT(&set);
  long count = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than a set holds */
  return count > 0 ? (int)count : 1;
}

static size_t size_of(int name) {
  long size = sysconf(name);
  return size > 0 ? (size_t)size : 0;
}

static void look(void) {
  found.cores = cores();
  found.memory = memory_physical();
  found.cache[0] = size_of(_SC_LEVEL1_DCACHE_SIZE);
  found.cache[1] = size_of(_SC_LEVEL2_CACHE_SIZE);
  found.cache[2] = size_of(_SC_LEVEL3_CACHE_SIZE);
  found.line = size_of(_SC_LEVEL1_DCACHE_LINESIZE);
  if (!found.line)
    found.line = 64;
}

const Machine *machine(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, look);
  return &found;
}
