/* backend/cpu: the C compiler and its command line, for jit.c. */
#ifndef AXON_CPU_TOOLCHAIN_H
#define AXON_CPU_TOOLCHAIN_H

#include "runtime/artifact.h"

enum { MAX_COMPILER_ARGS = 40 };

/* Both levels compute the same bits. */
typedef enum CompileLevel {
  /* With little optimization: it takes a third of the time to compile, and up
   * to three times as long to run. */
  COMPILE_QUICK,
  COMPILE_OPTIMIZED,
} CompileLevel;

typedef struct Toolchain {
  bool found;
  char path[ARTIFACT_PATH_BYTES]; /* of the program */
  char name[256];                 /* as the user requested it */
  ArtifactKey key; /* hash of all that an object depends on besides its source
                      and its level: the compiler, its flags, the CPU, the
                      prelude */
  const char *args[MAX_COMPILER_ARGS]; /* first arguments, NULL-terminated */
  uint32_t arg_count;
  uint32_t user_arg_count; /* the program and the arguments in AXON_CC, a prefix
                              of args */
  int timeout_seconds;     /* a compilation that takes longer is killed */
  bool quick_at_first;     /* small kernels: AXON_OPTIMIZE=later, sample */
  bool optimizes_sample;   /* AXON_OPTIMIZE=sample */
  bool optimizes_batches;  /* AXON_OPTIMIZE=together */
} Toolchain;

/* Detected once: AXON_CC, perhaps with arguments, or the first of cc, gcc,
 * clang in PATH. */
const Toolchain *toolchain(void);
/* Checks AXON_CC_SECONDS and AXON_OPTIMIZE. */
bool toolchain_check(Fault *fault);
/* The arguments that select a level; unused ones are NULL. */
typedef struct LevelFlags {
  const char *flag[6];
} LevelFlags;
LevelFlags toolchain_level_flags(CompileLevel level);
/* Arguments after the names of the files, NULL-terminated. */
extern const char *const toolchain_libraries[];

#endif
