/* backend/emit: what the checks of micro-kernels of all targets have in common
 * (plan/schedule_file.h). */
#ifndef AXON_EMIT_MICRO_CHECK_H
#define AXON_EMIT_MICRO_CHECK_H

#include "plan/schedule_file.h"
#include "runtime/artifact.h"

/* Memory that child processes share, zero; NULL: there is none. */
void *micro_shared_memory(size_t bytes);
/* Runs the check in another process, which it may end.  It has this many CPU
 * seconds.  Returns false if there is no process; otherwise `status` is that of
 * waitpid. */
bool micro_process_run(uint32_t seconds, void (*check)(void *owner),
                       void *owner, int *status);
/* True if the check needed too much time. */
bool micro_process_timed_out(int status);

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
