/* backend/cpu: just-in-time compilation of kernel sources with the system's C
 * compiler.
 *
 * * Equal sources are compiled once.  Each compilation is a separate process.
 * At most thread_pool_size() of them run at a time, while the program
 * continues.  Objects are stored as artifacts, which later processes load.  An
 * object lives as long as the process, and any thread may use it.  If there is
 * no compiler, or it fails, there is a warning and no function. */
#ifndef AXON_CPU_JIT_H
#define AXON_CPU_JIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A compiled kernel.  Returns 0, or 1 if an index or a divisor was invalid.
 * room: scratch memory of this thread, aligned to 64 bytes. */
typedef int KernelFunction(void *const *pointers, const int64_t *ints,
                           const double *floats, int64_t begin, int64_t end,
                           char *room);

typedef struct JitObject JitObject;

/* Finds the object of a C source, or starts its compilation.  Does not wait.
 * Raises FAIL_MEMORY. */
JitObject *jit_request(const char *source, size_t len);
/* Returns true if jit_symbol would not wait.  Call it repeatedly: it also
 * starts waiting compilations. */
bool jit_is_ready(JitObject *object);
/* Seconds of the compilation in this process; 0: it was an artifact. */
double jit_compile_seconds(JitObject *object);
/* Waits for the object.  Raises FAIL_INTERRUPT on Ctrl-C.  NULL: the
 * compilation failed, or the function does not exist. */
void *jit_symbol(JitObject *object, const char *name);
/* The function `kernel`, looked up once. */
KernelFunction *jit_kernel(JitObject *object);

/* Call before the process exits.  A forked child finishes the running
 * compilations and stores their objects for later processes.  Not for use in a
 * library, since it forks.  Without this call, exit kills the compilers. */
void jit_detach(void);

#endif
