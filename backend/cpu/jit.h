/* backend/cpu: just-in-time compilation of kernel sources with the system's C
 * compiler.
 *
 * Equal sources are compiled once.  Each compilation is a separate process.  At
 * most thread_pool_size() of them run at a time, while the program continues.
 * Objects are stored as artifacts, which later processes load.  An object lives
 * as long as the process, and any thread may use it.  If there is no compiler,
 * or it fails, there is a warning and no function.
 *
 * A kernel that runs for a short time is compiled with little optimization
 * first, which takes a third of the time.  It is compiled again, while the
 * program continues, if it runs often, or if an earlier process ran it too.
 * Both objects compute the same bits. */
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
 * operations: of one run; many operations are worth an optimized object from
 * the start.  Raises FAIL_MEMORY. */
JitObject *jit_request(const char *source, size_t len, double operations);
/* Returns true if jit_symbol would not wait.  Call it repeatedly: it also
 * starts waiting compilations. */
bool jit_is_ready(JitObject *object);
/* Counts a run.  A kernel that is hot is compiled with optimization. */
void jit_count_run(JitObject *object, double operations);
/* Seconds of the compilation in this process; 0: it was an artifact. */
double jit_compile_seconds(JitObject *object);
/* Waits for an object, quick or optimized.  Raises FAIL_INTERRUPT on Ctrl-C.
 * NULL: the compilation failed, or the function does not exist. */
void *jit_symbol(JitObject *object, const char *name);
/* The function `kernel`. */
KernelFunction *jit_kernel(JitObject *object);

/* Every kernel of this process is compiled with optimization, since its time is
 * measured. */
void jit_optimize_always(void);

/* Call before the process exits.  A forked child finishes the running
 * compilations and stores their objects for later processes.  Not for use in a
 * library, since it forks.  Without this call, exit kills the compilers. */
void jit_detach(void);

#endif
