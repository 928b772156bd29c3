/* session: functions of a program as a C module that stands alone.
 *
 * Each becomes one C function for all sizes: of libc and libm alone, without
 * state, and with threads where it is compiled with them.  What it is called
 * with and gives is told by a header, and for other languages by a manifest
 * (doc/embedding.md). */
#ifndef AXON_SESSION_BUILD_H
#define AXON_SESSION_BUILD_H

#include "session/session.h"

enum { BUILD_ARCHS = 7 };

typedef struct BuildFiles { /* texts of the session's arena */
  Buffer source, header, manifest;
  /* of a module for GPUs: kernels, by architecture, what the host's part goes
   * on with when their code or names are known, and these names */
  Buffer device[BUILD_ARCHS], rest, symbols;
} BuildFiles;

typedef enum BuildTarget {
  BUILD_ANYWHERE, /* the text has forms for several kinds of vectors */
  BUILD_HERE,     /* for this machine's alone */
  BUILD_PROGRAM,  /* likewise, with a main that calls the functions */
  BUILD_CUDA,     /* for GPUs */
} BuildTarget;

/* module: an identifier of C, with which all names begin.  entries: as
 * session_trace takes them; none: all that session_entries finds. */
SessionStatus session_build(Session *session, const SessionText *text,
                            const char *module, uint32_t entry_count,
                            const char *const *entries, BuildTarget target,
                            BuildFiles *out);
/* The same for GPUs of these architectures. */
SessionStatus session_build_cuda(Session *session, const SessionText *text,
                                 const char *module, uint32_t entry_count,
                                 const char *const *entries,
                                 uint32_t arch_count, const char *const *archs,
                                 BuildFiles *out);

#endif
