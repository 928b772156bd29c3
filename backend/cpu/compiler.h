/* backend/cpu: texts of kernels to functions, by the system's C compiler.
 *
 * A text is compiled once, however often and by whomever it is asked for: by
 * a process of its own, beside what goes on here, and by as many at a time as
 * pool_threads() says.  What was made is kept as an artifact, so that the next
 * process only loads it.  Objects live as long as the process; any thread may
 * ask for them.  Where there is no compiler, or it fails, there is a notice,
 * and no function. */
#ifndef AXON_CPU_COMPILER_H
#define AXON_CPU_COMPILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A compiled kernel: 0, or 1 when some index or divisor was wrong.  room is
 * scratch memory of this thread, 64-byte aligned. */
typedef int KernelFunction(void *const *pointers, const int64_t *ints,
                           const double *floats, int64_t begin, int64_t end,
                           char *room);

typedef struct Object Object;

/* The object of a C text: found, or being compiled from now on.  Does not
 * wait.  Raises when it is out of memory. */
Object *object_request(const char *text, size_t len);
/* Does object_function know already?  Ask now and then: it also starts what
 * waits for a compiler. */
bool object_ready(Object *object);
/* Seconds that its compiler took in this process; 0: it was found. */
double object_seconds(Object *object);
/* Waits; raises FAIL_INTERRUPT on Ctrl-C.  NULL: it could not be compiled, or
 * has no such function. */
void *object_function(Object *object, const char *name);
/* The one named `kernel`, which is looked up once. */
KernelFunction *object_kernel(Object *object);

/* Just before the process ends: what is being compiled is finished and kept
 * by a process that outlives this one, so that the next one finds it.  Not for
 * a library: it forks.  Without, compilers are ended with the process. */
void compilers_leave(void);

#endif
