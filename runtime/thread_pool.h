/* thread_pool: threads that share the tasks of a kernel, with scratch memory.
 *
 * Any thread may call thread_pool_parallel_for.  One call at a time uses the
 * threads of the pool.  A concurrent or nested call runs its tasks itself.  So
 * at most the callers and the threads of the pool are at work.  Results must
 * not depend on the thread that computes them.  A child of fork makes its own
 * threads when needed. */
#ifndef AXON_THREAD_POOL_H
#define AXON_THREAD_POOL_H

#include "runtime/runtime.h"
#include "support/flag.h"

/* Runs the tasks begin .. end - 1.  A result other than 0 stops the rest.  It
 * runs in any thread without a trap, so it must not raise. */
typedef int ParallelBody(void *context, int64_t begin, int64_t end);

enum { MAX_POOL_THREADS = 256 };

/* Number of threads including the caller: AXON_THREADS, or the cores that this
 * process may use. */
int thread_pool_size(void);
/* Sets a fault if AXON_THREADS is not a number from 1 to MAX_POOL_THREADS. */
bool thread_pool_check_env(Fault *fault);

/* Runs tasks 0 .. tasks - 1 in chunks of `grain` tasks.  Free threads take the
 * next chunk.  Suitable for chunks that differ, or whose neighbours read the
 * same data.  Returns the first result other than 0. `stop`, if not NULL, ends
 * the loop between chunks. */
int thread_pool_parallel_for(int64_t tasks, int64_t grain, ParallelBody *body,
                             void *context, Flag *stop);
/* The same, but each thread begins with its own partition, which is equal in
 * each call.  Finished threads help others.  Suitable for long walks over
 * memory, and for data of the last call in a core's cache. */
int thread_pool_parallel_for_static(int64_t tasks, int64_t grain,
                                    ParallelBody *body, void *context,
                                    Flag *stop);

/* The same, but each partition is processed from its end.  Suitable after a
 * walk over the same memory: its end is still in a cache. */
int thread_pool_parallel_for_reverse(int64_t tasks, int64_t grain,
                                     ParallelBody *body, void *context,
                                     Flag *stop);

/* True if the threads needed for this number of chunks are awake, or if small
 * jobs follow each other closely.  Waking threads takes longer than a small
 * job, so a caller had better run a single one alone. */
bool thread_pool_is_awake(int64_t chunks);

/* Scratch memory of the calling thread: 64-byte aligned, not cleared, valid
 * until the thread requests more.  A second call returns the same memory.  NULL
 * when out of memory. */
void *thread_pool_scratch(size_t bytes);

#endif
