/* pool: threads that share out the units of a kernel. */
#ifndef AXON_POOL_H
#define AXON_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Works on units begin .. end - 1; other than 0 stops the rest. */
typedef int PoolWork(void *context, int64_t begin, int64_t end);

/* Threads that take part, the caller's among them: AXON_THREADS, or the cores
 * that this process may use. */
int pool_threads(void);
/* Runs work over 0 .. units - 1 in pieces of `grain`, which threads take as
 * they get free.  Returns the first result that is not 0.  `stop`, if there is
 * one, ends it between pieces.  From one thread at a time; others wait. */
int pool_run(int64_t units, int64_t grain, PoolWork *work, void *context,
             volatile bool *stop);

/* Scratch memory of the calling thread, 64-byte aligned, kept until it asks
 * for more or ends.  NULL: there is none. */
void *pool_scratch(size_t bytes);

#endif
