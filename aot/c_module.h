/* Ahead-of-time compilation of functions to a standalone C module.
 *
 * Each function becomes one C function for all sizes.  It uses only libc and
 * libm, has no state, and runs in parallel if it is compiled with threads.  A
 * header declares the functions; a manifest describes them for other languages
 * (doc/embedding.md). */
#ifndef AXON_AOT_C_MODULE_H
#define AXON_AOT_C_MODULE_H

#include "session/session.h"
#include "support/buffer.h"

enum { MAX_BUILD_ARCHS = 7 };

/* Generated texts, in the arena of the session. */
typedef struct BuildFiles {
  Buffer source, header, manifest;
  Buffer schedules; /* of the kernels, as --schedules reads them */
  /* BUILD_CUDA: the CUDA source per architecture, the part of the host code
   * that depends on compiled code or symbol names, and these names. */
  Buffer device_sources[MAX_BUILD_ARCHS], source_tail, symbol_table;
} BuildFiles;

typedef enum BuildTarget {
  BUILD_PORTABLE,   /* multiversioned for several vector instruction sets */
  BUILD_NATIVE,     /* for this machine only */
  BUILD_EXECUTABLE, /* BUILD_NATIVE, with a main that calls the functions */
  BUILD_CUDA,       /* for GPUs */
} BuildTarget;

/* module: a C identifier, the prefix of all names.  entries: as for
 * trace_function; none: those of trace_entry_names. */
SessionStatus build_c_module(Session *session, const SourceInput *text,
                             const char *module, uint32_t entry_count,
                             const char *const *entries, BuildTarget target,
                             BuildFiles *out);
/* The same for GPUs of these architectures. */
SessionStatus build_cuda_module(Session *session, const SourceInput *text,
                                const char *module, uint32_t entry_count,
                                const char *const *entries, uint32_t arch_count,
                                const char *const *archs, BuildFiles *out);

#endif
