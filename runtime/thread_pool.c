/* The thread pool: threads that run the chunks of a parallel loop.
 *
 * Each worker has a state, which hands it a job and reports the end of the job.
 * A worker waits by polling its state for a while, then it sleeps: waking a
 * thread costs tens of microseconds, more than many kernels.  If the caller has
 * finished all chunks itself, it takes the job back from workers that have not
 * begun.  So it never waits for a worker to wake.
 *
 * The system may wake a thread on the core of its caller, and leave it there
 * for milliseconds (measured in a virtual machine).  So a worker that slept is
 * kept off the cores that other threads of the job use. */
#define _GNU_SOURCE
#include "runtime/thread_pool.h"

#include "runtime/cpu_quota.h"
#include "support/mem.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
  CACHE_LINE_BYTES = 64,
  /* Nanoseconds of polling.  The time between two kernels of a program is
   * shorter, planning included.  A virtual core that went to sleep may take a
   * millisecond to come back. */
  SPIN_NS = 500 * 1000,
  SPINS_PER_CLOCK_READ = 32, /* polls between two readings of the clock */
  /* Nanoseconds after the end of a small job in which another one counts as
   * part of a burst. */
  BURST_NS = 200 * 1000,
};

typedef enum WorkerState {
  WORKER_IDLE,
  WORKER_POSTED,
  WORKER_RUNNING
} WorkerState;

typedef struct Worker {
  /* A WorkerState; futexes wait for it. */
  _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t state;
  _Atomic uint32_t asleep; /* the worker is asleep and waits for POSTED */
  _Atomic uint32_t caller_waiting; /* the caller is asleep and waits for IDLE */
  _Atomic int last_core;           /* the core where it last ran */
  _Atomic bool is_pinned;          /* its affinity is restricted now */
  _Atomic bool started;
  pthread_t thread;
} Worker;

typedef enum LoopSchedule {
  SCHEDULE_DYNAMIC,
  SCHEDULE_STATIC,
  SCHEDULE_STATIC_REVERSE
} LoopSchedule;

typedef struct Partition { /* a range of iterations */
  _Alignas(CACHE_LINE_BYTES) _Atomic int64_t next;
  int64_t first, last, end; /* starts of the first and the last chunk */
} Partition;

static struct {
  pthread_once_t once;
  int threads;
  int64_t spin_ns;
  cpu_set_t cores; /* cores that this process may use */
  /* When thread_pool_is_awake last found it asleep, or the end of the job. */
  _Atomic int64_t asked;
  _Atomic bool taken; /* a caller uses the pool; guards all fields below */
  int started;        /* workers[1 .. started] have threads */
  Worker workers[MAX_POOL_THREADS];
  Partition parts[MAX_POOL_THREADS];
  /* the current job */
  ParallelBody *work;
  void *context;
  Flag *stop;
  int64_t grain;
  int part_count;
  bool backward; /* the last chunk of a partition runs first */
  _Atomic int result;
} pool = {.once = PTHREAD_ONCE_INIT};

/* ---- number of threads ---- */

static int usable_cores(cpu_set_t *set) {
  CPU_ZERO(set);
  long count = sched_getaffinity(0, sizeof *set, set) == 0
                   ? CPU_COUNT(set)
                   : sysconf(_SC_NPROCESSORS_ONLN);
  int granted = cpu_quota_cores("/sys/fs/cgroup", "/proc/self/cgroup");
  if (count > granted)
    count = granted;
  if (count > MAX_POOL_THREADS)
    count = MAX_POOL_THREADS;
  return count < 1 ? 1 : (int)count;
}

/* Returns 0 if it is not set, and -1 if it is invalid. */
static int threads_from_env(void) {
  const char *wanted = getenv("AXON_THREADS");
  if (!wanted || !*wanted)
    return 0;
  char *end;
  long count = strtol(wanted, &end, 10);
  bool good = !*end && count >= 1 && count <= MAX_POOL_THREADS;
  return good ? (int)count : -1;
}

bool thread_pool_check_env(Fault *fault) {
  cpu_set_t set;
  if (threads_from_env() >= 0)
    return true;
  fault_set(fault, "AXON_THREADS=%s is no number of threads",
            getenv("AXON_THREADS"));
  fault_set_help(
      fault,
      "use a number from 1 to %d, or unset it (default: all cores, here %d)",
      MAX_POOL_THREADS, usable_cores(&set));
  return false;
}

/* A child of fork has one thread and no job. */
static void after_fork(void) {
  pool.started = 0;
  for (int k = 0; k < MAX_POOL_THREADS; k++) {
    atomic_store(&pool.workers[k].state, WORKER_IDLE);
    atomic_store(&pool.workers[k].started, false);
  }
  atomic_store(&pool.taken, false);
}

/* With more threads than cores, polling would take a core away from a thread
 * that works. */
static void set_up(void) {
  int wanted = threads_from_env(), cores = usable_cores(&pool.cores);
  pool.threads = wanted > 0 ? wanted : cores;
  pool.spin_ns = pool.threads > cores ? 0 : SPIN_NS;
  pthread_atfork(NULL, NULL, after_fork);
}

int thread_pool_size(void) {
  pthread_once(&pool.once, set_up);
  return pool.threads;
}

/* ---- waiting ---- */

static void futex_wait(_Atomic uint32_t *at, uint32_t seen) {
  syscall(SYS_futex, at, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *at) {
  syscall(SYS_futex, at, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static inline void cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

/* ---- affinity ---- */

/* Marks the core of the caller, or of a worker, as busy. */
static void mark_core_busy(cpu_set_t *rest, int core) {
  if (core >= 0 && core < CPU_SETSIZE)
    CPU_CLR(core, rest);
}

/* Called before a worker is woken: moves it off busy cores. */
static void pin_to_free_cores(Worker *w, cpu_set_t *rest) {
  int core = atomic_load_explicit(&w->last_core, memory_order_relaxed);
  bool is_free = core >= 0 && core < CPU_SETSIZE && CPU_ISSET(core, rest);
  if (!is_free && CPU_COUNT(rest) > 0 &&
      pthread_setaffinity_np(w->thread, sizeof *rest, rest) == 0)
    atomic_store(&w->is_pinned, true);
  else
    mark_core_busy(rest, core);
}

static void record_core(Worker *w) {
  atomic_store_explicit(&w->last_core, sched_getcpu(), memory_order_relaxed);
}

/* Lets it run on all cores again. */
static void unpin(Worker *w) {
  if (atomic_exchange(&w->is_pinned, false))
    sched_setaffinity(0, sizeof pool.cores, &pool.cores);
}

/* Polls for a while until the state differs from `is`. */
static bool spin_while_state(const Worker *w, WorkerState is) {
  int64_t deadline = now_ns() + pool.spin_ns;
  do {
    for (int k = 0; k < SPINS_PER_CLOCK_READ; k++) {
      if (atomic_load_explicit(&w->state, memory_order_acquire) != is)
        return true;
      cpu_relax();
    }
  } while (now_ns() < deadline);
  return false;
}

static void wait_for_job(Worker *w) {
  for (;;) {
    uint32_t posted = WORKER_POSTED;
    unpin(w);
    if (!spin_while_state(w, WORKER_IDLE)) {
      record_core(w);
      atomic_store(&w->asleep, 1);
      /* For this job, or to wait for the next. */
      futex_wait(&w->state, WORKER_IDLE);
      atomic_store(&w->asleep, 0);
    }
    if (atomic_compare_exchange_strong(&w->state, &posted, WORKER_RUNNING))
      return; /* otherwise the caller has taken the job back */
  }
}

static void wait_until_done(Worker *w) {
  uint32_t posted = WORKER_POSTED;
  if (atomic_compare_exchange_strong(&w->state, &posted, WORKER_IDLE))
    return;
  bool on_other_core = atomic_load(&w->last_core) != sched_getcpu();
  if (on_other_core && spin_while_state(w, WORKER_RUNNING))
    return;
  atomic_store(&w->caller_waiting, 1);
  while (atomic_load(&w->state) == WORKER_RUNNING)
    futex_wait(&w->state, WORKER_RUNNING);
  atomic_store(&w->caller_waiting, 0);
}

/* Posts to a polling worker with one store; waking a sleeping one takes two
 * system calls. */
static void post_job(Worker *w, cpu_set_t *rest) {
  if (atomic_load(&w->asleep))
    pin_to_free_cores(w, rest);
  else
    mark_core_busy(rest,
                   atomic_load_explicit(&w->last_core, memory_order_relaxed));
  atomic_store(&w->state, WORKER_POSTED);
  if (atomic_load(&w->asleep))
    futex_wake(&w->state);
}

/* ---- running chunks ---- */

static bool is_stopped(void) {
  return (pool.stop && flag_is_set(pool.stop)) ||
         atomic_load_explicit(&pool.result, memory_order_relaxed);
}

static void run_chunks(Partition *partition) {
  for (;;) {
    int64_t begin = atomic_fetch_add_explicit(&partition->next, pool.grain,
                                              memory_order_relaxed);
    if (begin > partition->last || is_stopped())
      return;
    if (pool.backward)
      begin = partition->first + partition->last - begin;
    int64_t rest = partition->end - begin;
    int64_t end = rest < pool.grain ? partition->end : begin + pool.grain;
    int result = pool.work(pool.context, begin, end), none = 0;
    if (result)
      atomic_compare_exchange_strong(&pool.result, &none, result);
  }
}

/* Runs its own partition first, then steals from others. */
static void run_partitions(int participant) {
  for (int k = 0; k < pool.part_count; k++)
    run_chunks(&pool.parts[(participant + k) % pool.part_count]);
}

static void *thread_main(void *argument) {
  Worker *w = argument;
  for (;;) {
    wait_for_job(w);
    record_core(w);
    run_partitions((int)(w - pool.workers));
    atomic_store(&w->state, WORKER_IDLE);
    if (atomic_load(&w->caller_waiting))
      futex_wake(&w->state);
  }
  return NULL;
}

/* Workers block signals, which are for the threads of the program.  Synchronous
 * signals stay unblocked: blocked, they would end the process. */
static void start_threads(int wanted) {
  static const int own_signals[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
  if (pool.started >= wanted)
    return;
  cpu_set_t rest = pool.cores;
  sigset_t all, before;
  pthread_attr_t attributes;
  sigfillset(&all);
  for (size_t k = 0; k < ARRAY_LEN(own_signals); k++)
    sigdelset(&all, own_signals[k]);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  mark_core_busy(&rest, sched_getcpu());
  if (CPU_COUNT(&rest) > 0)
    pthread_attr_setaffinity_np(&attributes, sizeof rest, &rest);
  while (pool.started < wanted) {
    Worker *w = &pool.workers[pool.started + 1];
    atomic_store(&w->is_pinned, true);
    atomic_store(&w->last_core, -1);
    if (pthread_create(&w->thread, &attributes, thread_main, w))
      break; /* continue with fewer threads */
    pthread_setname_np(w->thread, "axon-pool");
    atomic_store(&w->started, true);
    pool.started++;
  }
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static bool workers_are_awake(int participants) {
  for (int k = 1; k < participants; k++)
    if (!pool.workers[k].started || atomic_load(&pool.workers[k].asleep))
      return false;
  return true;
}

/* The next job of this thread is small, and the threads were asleep. */
static _Thread_local bool runs_alone;

bool thread_pool_is_awake(int64_t chunks) {
  int threads = thread_pool_size();
  if (workers_are_awake(chunks < threads ? (int)chunks : threads))
    return true;
  int64_t now = now_ns();
  bool is_burst = now - atomic_exchange(&pool.asked, now) < BURST_NS;
  runs_alone = !is_burst;
  return is_burst;
}

static void partition_tasks(int64_t tasks, int64_t chunks) {
  for (int k = 0; k < pool.part_count; k++) {
    int64_t chunks_each = chunks / pool.part_count,
            remainder = chunks % pool.part_count;
    int64_t first = chunks_each * k + (k < remainder ? k : remainder);
    int64_t last = first + chunks_each + (k < remainder);
    atomic_store_explicit(&pool.parts[k].next, first * pool.grain,
                          memory_order_relaxed);
    pool.parts[k].first = first * pool.grain;
    pool.parts[k].last = (last - 1) * pool.grain;
    pool.parts[k].end = last == chunks ? tasks : last * pool.grain;
  }
}

static int run_serial(int64_t tasks, int64_t grain, ParallelBody *body,
                      void *context, Flag *stop, LoopSchedule schedule) {
  int64_t chunks = tasks / grain + (tasks % grain > 0);
  for (int64_t k = 0; k < chunks; k++) {
    if (stop && flag_is_set(stop))
      return 0;
    int64_t u =
        (schedule == SCHEDULE_STATIC_REVERSE ? chunks - 1 - k : k) * grain;
    int result = body(context, u, tasks - u < grain ? tasks : u + grain);
    if (result)
      return result;
  }
  return 0;
}

static int parallel_for(int64_t tasks, int64_t grain, ParallelBody *body,
                        void *context, Flag *stop, LoopSchedule schedule) {
  if (grain < 1)
    grain = 1;
  int64_t chunks = tasks / grain + (tasks % grain > 0);
  if (thread_pool_size() == 1 || chunks <= 1 ||
      atomic_exchange_explicit(&pool.taken, true, memory_order_acquire)) {
    int result = run_serial(tasks, grain, body, context, stop, schedule);
    if (runs_alone)
      atomic_store_explicit(&pool.asked, now_ns(), memory_order_relaxed);
    runs_alone = false;
    return result;
  }
  int participants = chunks < pool.threads ? (int)chunks : pool.threads;
  start_threads(participants - 1);
  if (participants > pool.started + 1)
    participants = pool.started + 1;
  pool.work = body;
  pool.context = context;
  pool.stop = stop;
  pool.grain = grain;
  pool.part_count = schedule == SCHEDULE_DYNAMIC ? 1 : participants;
  pool.backward = schedule == SCHEDULE_STATIC_REVERSE;
  atomic_store_explicit(&pool.result, 0, memory_order_relaxed);
  partition_tasks(tasks, chunks);
  cpu_set_t rest = pool.cores;
  mark_core_busy(&rest, sched_getcpu());
  for (int k = 1; k < participants; k++)
    post_job(&pool.workers[k], &rest);
  run_partitions(0);
  for (int k = 1; k < participants; k++)
    wait_until_done(&pool.workers[k]);
  int result = atomic_load_explicit(&pool.result, memory_order_relaxed);
  atomic_store_explicit(&pool.taken, false, memory_order_release);
  return result;
}

int thread_pool_parallel_for(int64_t tasks, int64_t grain, ParallelBody *body,
                             void *context, Flag *stop) {
  return parallel_for(tasks, grain, body, context, stop, SCHEDULE_DYNAMIC);
}

int thread_pool_parallel_for_static(int64_t tasks, int64_t grain,
                                    ParallelBody *body, void *context,
                                    Flag *stop) {
  return parallel_for(tasks, grain, body, context, stop, SCHEDULE_STATIC);
}

int thread_pool_parallel_for_reverse(int64_t tasks, int64_t grain,
                                     ParallelBody *body, void *context,
                                     Flag *stop) {
  return parallel_for(tasks, grain, body, context, stop,
                      SCHEDULE_STATIC_REVERSE);
}

/* ---- scratch ---- */

typedef struct Scratch {
  void *at;
  size_t size;
} Scratch;

static _Thread_local Scratch scratch;
/* Frees the scratch memory when a thread ends. */
static pthread_key_t scratch_key;
static bool has_scratch_key;

static void scratch_free(void *at) {
  mem_free(at);
}

static void make_scratch_key(void) {
  has_scratch_key = pthread_key_create(&scratch_key, scratch_free) == 0;
}

void *thread_pool_scratch(size_t bytes) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (scratch.at && bytes <= scratch.size)
    return scratch.at;
  pthread_once(&once, make_scratch_key);
  size_t size = bytes < 2 * scratch.size ? 2 * scratch.size : bytes;
  size = (size < 4096 ? 4096 : size + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES *
         CACHE_LINE_BYTES;
  void *at =
      has_scratch_key ? mem_try_alloc_aligned(CACHE_LINE_BYTES, size) : NULL;
  if (!at || pthread_setspecific(scratch_key, at) != 0) {
    mem_free(at);
    return NULL;
  }
  mem_free(scratch.at);
  scratch = (Scratch){at, size};
  return at;
}
