/* session: functions of a program as a C module that stands alone.
 *
 * Each becomes one C function for all sizes: of libc and libm alone, without
 * state, and with threads where it is compiled with them.  What it is called
 * with and gives is told by a header, and for other languages by a manifest
 * (doc/embedding.md). */
#ifndef AXON_AOT_C_MODULE_H
#define AXON_AOT_C_MODULE_H

#include "session/session.h"

enum { MAX_BUILD_ARCHS = 7 };

/* Texts of the session's arena. */
typedef struct BuildFiles {
  Buffer source, header, manifest;
  /* of a module for GPUs: kernels, by architecture, what the host's part goes
   * on with when their code or names are known, and these names */
  Buffer device_sources[MAX_BUILD_ARCHS], source_tail, symbol_table;
} BuildFiles;

typedef enum BuildTarget {
  BUILD_PORTABLE,   /* the text has forms for several kinds of vectors */
  BUILD_NATIVE,     /* for this machine's alone */
  BUILD_EXECUTABLE, /* likewise, with a main that calls the functions */
  BUILD_CUDA,       /* for GPUs */
} BuildTarget;

/* module: an identifier of C, with which all names begin.  entries: as
 * trace_function takes them; none: all that trace_entry_names finds. */
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
