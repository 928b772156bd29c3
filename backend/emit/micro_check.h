/* backend/emit: what the checks of micro-kernels of all targets have in common
 * (plan/schedule_file.h). */
#ifndef AXON_EMIT_MICRO_CHECK_H
#define AXON_EMIT_MICRO_CHECK_H

#include "plan/schedule_file.h"
#include "runtime/artifact.h"

/* Memory that child processes share, zero; NULL: there is none. */
void *micro_shared_memory(size_t bytes);
/* How the process of a check ended. */
typedef struct MicroProcessEnd {
  int status; /* that of waitpid */
  bool timed_out;
  bool was_killed; /* by another process, or for want of memory */
} MicroProcessEnd;

/* Runs the check in another process, which it may end.  It has this many CPU
 * seconds.  Returns false if there is no process. */
bool micro_process_run(uint32_t seconds, void (*check)(void *owner),
                       void *owner, MicroProcessEnd *end);

/* The refusal of a check that did not finish: it is not kept. */
extern const char micro_killed[];

/* Returns NULL, or why the micro-kernel cannot be used, in the arena.  Runs the
 * check once: the verdict is kept in memory and, if there is no reason, as an
 * artifact.  It is for the definition of the micro-kernel and these parts. */
const char *micro_verdict(Arena *arena, const MicroKernel *m,
                          uint32_t part_count, const ArtifactPart *parts,
                          const char *(*check)(Arena *arena,
                                               const MicroKernel *m,
                                               const void *owner),
                          const void *owner);

#endif
