/* pool: threads that share out the units of a kernel, and memory of theirs to
 * work in.
 *
 * Any thread of any program may call thread_pool_parallel_for.  One call at a
 * time has the threads of the pool; another that comes meanwhile, or from
 * within work, does its units itself, so that there are never more threads at
 * work than there were callers, and those of the pool.  What is computed must
 * not depend on who does it.  A child of fork makes threads of its own when it
 * needs them. */
#ifndef AXON_THREAD_POOL_H
#define AXON_THREAD_POOL_H

#include "runtime/runtime.h"

/* Works on units begin .. end - 1; other than 0 stops the rest.  It runs in
 * any thread, where there is no trap: it must not raise. */
typedef int ParallelBody(void *context, int64_t begin, int64_t end);

enum { MAX_POOL_THREADS = 256 };

/* Threads that take part, the caller's among them: AXON_THREADS, or the cores
 * that this process may use. */
int thread_pool_size(void);
/* A fault where AXON_THREADS is no number from 1 to MAX_POOL_THREADS. */
bool thread_pool_check_env(Fault *fault);

/* Runs work over 0 .. units - 1 in pieces of `grain`, which threads take in
 * their order as they get free: for pieces that differ, or whose neighbours
 * read the same.  Returns the first result that is not 0.  `stop`, if there is
 * one, ends it between pieces. */
int thread_pool_parallel_for(int64_t tasks, int64_t grain, ParallelBody *body,
                             void *context, Flag *stop);
/* The same, but each thread begins with a part of its own, one after the other
 * and the same in each call; who is done helps the others.  For long walks
 * over memory, and for data that the last call left in a core's cache. */
int thread_pool_parallel_for_static(int64_t tasks, int64_t grain,
                                    ParallelBody *body, void *context,
                                    Flag *stop);

/* The same, each part from its end: after a walk over the same memory, whose
 * end is still in a cache where the beginning is not. */
int thread_pool_parallel_for_reverse(int64_t tasks, int64_t grain,
                                     ParallelBody *body, void *context,
                                     Flag *stop);

/* Are the threads awake that would share out so many pieces?  To wake them
 * takes longer than a small job does, so that who has one had better do it
 * alone.  Who asks often wakes them. */
bool thread_pool_is_awake(int64_t chunks);

/* Memory of the calling thread, 64-byte aligned, not cleared, kept until the
 * thread asks for more; a second call gives the same.  NULL: there is none. */
void *thread_pool_scratch(size_t bytes);

#endif
