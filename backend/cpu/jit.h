/* backend/cpu: texts of kernels to functions, by the system's C compiler.
 *
 * A text is compiled once, however often and by whomever it is asked for: by
 * a process of its own, beside what goes on here, and by as many at a time as
 * thread_pool_size() says.  What was made is kept as an artifact, so that the
 * next process only loads it.  Objects live as long as the process; any thread
 * may ask for them.  Where there is no compiler, or it fails, there is a
 * notice, and no function. */
#ifndef AXON_CPU_JIT_H
#define AXON_CPU_JIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A compiled kernel: 0, or 1 when some index or divisor was wrong.  room is
 * scratch memory of this thread, 64-byte aligned. */
typedef int KernelFunction(void *const *pointers, const int64_t *ints,
                           const double *floats, int64_t begin, int64_t end,
                           char *room);

typedef struct JitObject JitObject;

/* The object of a C text: found, or being compiled from now on.  Does not
 * wait.  Raises when it is out of memory. */
JitObject *jit_request(const char *source, size_t len);
/* Does jit_symbol know already?  Ask now and then: it also starts what waits
 * for a compiler. */
bool jit_is_ready(JitObject *object);
/* Seconds that its compiler took in this process; 0: it was found. */
double jit_compile_seconds(JitObject *object);
/* Waits; raises FAIL_INTERRUPT on Ctrl-C.  NULL: it could not be compiled, or
 * has no such function. */
void *jit_symbol(JitObject *object, const char *name);
/* The one named `kernel`, which is looked up once. */
KernelFunction *jit_kernel(JitObject *object);

/* Just before the process ends: what is being compiled is finished and kept
 * by a process that outlives this one, so that the next one finds it.  Not for
 * a library: it forks.  Without, compilers are ended with the process. */
void jit_detach(void);

#endif
