/* backend/cpu: which C compiler, and how it is called; for jit.c. */
#ifndef AXON_CPU_TOOLCHAIN_H
#define AXON_CPU_TOOLCHAIN_H

#include "runtime/artifact.h"

enum { MAX_COMPILER_ARGS = 40 };

typedef struct Toolchain {
  bool found;
  char path[ARTIFACT_PATH_BYTES]; /* of the program */
  char name[256];                 /* as it was asked for */
  ArtifactKey key; /* of all that an object depends on beside its text:
                      the compiler, flags, the CPU, the prelude */
  const char *args[MAX_COMPILER_ARGS]; /* its first arguments, NULL-ended */
  uint32_t arg_count;
  uint32_t
      user_arg_count;  /* of them: the program, and what AXON_CC has after it */
  int timeout_seconds; /* that a text may take: one that takes longer hangs */
} Toolchain;

/* Found once.  AXON_CC names it, perhaps with arguments; else it is the first
 * of cc, gcc, clang in PATH. */
const Toolchain *toolchain(void);
/* AXON_CC_SECONDS is a number of seconds, or unset. */
bool toolchain_check(Fault *fault);
/* What follows the names of the files: libraries.  NULL-ended. */
extern const char *const toolchain_libraries[];

#endif
