/* Threads wait for a new job by looking for it, for some microseconds, then
 * asleep; pieces of a job are taken from one counter. */
#define _GNU_SOURCE
#include "runtime/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS_MOST = 256, SPINS = 20000 };

static struct {
  pthread_once_t once;
  pthread_mutex_t caller; /* one job at a time */
  pthread_mutex_t lock;
  pthread_cond_t wake, done;
  int threads, started;
  pid_t owner; /* a child of fork has none of the threads */
  /* the job */
  PoolWork *work;
  void *context;
  volatile bool *stop;
  int64_t units, grain;
  _Atomic int64_t next;
  _Atomic int result, busy;
  _Atomic uint64_t job;
} pool = {.once = PTHREAD_ONCE_INIT,
          .caller = PTHREAD_MUTEX_INITIALIZER,
          .lock = PTHREAD_MUTEX_INITIALIZER,
          .wake = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER};

static void count_threads(void) {
  const char *wanted = getenv("AXON_THREADS");
  long count = wanted ? strtol(wanted, NULL, 10) : 0;
  cpu_set_t set;
  if (count <= 0)
    count = sched_getaffinity(0, sizeof set, &set) == 0
                ? CPU_COUNT(&set)
                : sysconf(_SC_NPROCESSORS_ONLN);
  pool.threads = count < 1              ? 1
                 : count > THREADS_MOST ? THREADS_MOST
                                        : (int)count;
}

int pool_threads(void) {
  pthread_once(&pool.once, count_threads);
  return pool.threads;
}

static void take_pieces(void) {
  for (;;) {
    int64_t begin =
        atomic_fetch_add_explicit(&pool.next, pool.grain, memory_order_relaxed);
    if (begin >= pool.units || (pool.stop && *pool.stop) ||
        atomic_load_explicit(&pool.result, memory_order_relaxed))
      return;
    int64_t end =
        pool.units - begin < pool.grain ? pool.units : begin + pool.grain;
    int result = pool.work(pool.context, begin, end);
    if (result)
      atomic_store(&pool.result, result);
  }
}

static inline void pause_a_little(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

static void wait_for_job(uint64_t seen) {
  for (int k = 0; k < SPINS; k++) {
    if (atomic_load_explicit(&pool.job, memory_order_acquire) != seen)
      return;
    pause_a_little();
  }
  pthread_mutex_lock(&pool.lock);
  while (atomic_load(&pool.job) == seen)
    pthread_cond_wait(&pool.wake, &pool.lock);
  pthread_mutex_unlock(&pool.lock);
}

static void *thread_main(void *argument) {
  uint64_t seen = (uint64_t)(uintptr_t)argument;
  for (;;) {
    wait_for_job(seen);
    seen = atomic_load(&pool.job);
    take_pieces();
    if (atomic_fetch_sub(&pool.busy, 1) == 1) {
      pthread_mutex_lock(&pool.lock);
      pthread_cond_signal(&pool.done);
      pthread_mutex_unlock(&pool.lock);
    }
  }
  return NULL;
}

static void start_threads(void) {
  if (pool.owner != getpid()) { /* at first, and after a fork */
    pool.owner = getpid();
    pool.started = 0;
  }
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  while (pool.started < pool.threads - 1) {
    pthread_t thread;
    uintptr_t job = (uintptr_t)atomic_load(&pool.job);
    if (pthread_create(&thread, &attributes, thread_main, (void *)job))
      break; /* fewer, then */
    pool.started++;
  }
  pthread_attr_destroy(&attributes);
}

static void wait_for_threads(void) {
  for (int k = 0; k < SPINS; k++) {
    if (atomic_load(&pool.busy) == 0)
      return;
    pause_a_little();
  }
  pthread_mutex_lock(&pool.lock);
  while (atomic_load(&pool.busy))
    pthread_cond_wait(&pool.done, &pool.lock);
  pthread_mutex_unlock(&pool.lock);
}

int pool_run(int64_t units, int64_t grain, PoolWork *work, void *context,
             volatile bool *stop) {
  if (grain < 1)
    grain = 1;
  if (pool_threads() == 1 || units <= grain) {
    int result = 0;
    for (int64_t u = 0; u < units && !result && !(stop && *stop); u += grain)
      result = work(context, u, units - u < grain ? units : u + grain);
    return result;
  }
  pthread_mutex_lock(&pool.caller);
  start_threads();
  pool.work = work;
  pool.context = context;
  pool.stop = stop;
  pool.units = units;
  pool.grain = grain;
  atomic_store(&pool.next, 0);
  atomic_store(&pool.result, 0);
  atomic_store(&pool.busy, pool.started);
  pthread_mutex_lock(&pool.lock);
  atomic_fetch_add(&pool.job, 1);
  pthread_cond_broadcast(&pool.wake);
  pthread_mutex_unlock(&pool.lock);
  take_pieces();
  wait_for_threads();
  int result = atomic_load(&pool.result);
  pthread_mutex_unlock(&pool.caller);
  return result;
}

void *pool_scratch(size_t bytes) {
  static _Thread_local struct {
    void *at;
    size_t bytes;
  } room;
  if (room.bytes < bytes) {
    free(room.at);
    room.bytes = 0;
    size_t size = (bytes + 4095) / 4096 * 4096;
    room.at = aligned_alloc(4096, size);
    if (!room.at)
      return NULL;
    room.bytes = size;
  }
  return room.at;
}
