/* backend/cpu: schedules from a file, in place of those that are chosen.
 *
 *     kernel 5b1d0c2f9a3e4471   (* nn.softmax x *)
 *       tasks i0; width 8
 *       1: tile i1 8 peel; lanes i1
 *
 * A kernel is identified by a hash of its operations and sizes.
 * `axon plan --schedule` prints such a file (schedule_text.h). */
#ifndef AXON_CPU_SCHEDULE_FILE_H
#define AXON_CPU_SCHEDULE_FILE_H

#include "backend/cpu/cpu.h"

/* Reads the file.  Its schedules are used from now on.  Returns false with a
 * fault that names the position of an error.  Call it once, before kernels
 * run. */
bool schedule_file_read(const char *path, Fault *fault);
/* Returns the schedules of the file that no kernel used: their number, and the
 * position of the first one in `first`. */
uint32_t schedule_file_unused(Buffer *first);
/* Returns true, with a fault, if a schedule could not be applied. */
bool schedule_file_has_failed(Fault *fault);

/* Makes the schedule of a group: that of the file, or the chosen one.  Changes
 * k, a copy of its kernel.  Returns false if the file has one that cannot be
 * applied. */
bool schedule_make(const FusionGroup *c, Kernel *k, Schedule *s);
/* Reports that there is no code for the schedule, if it is that of the file. */
void schedule_has_no_code(const FusionGroup *c);
/* Tests only: schedules of all kernels, in text; NULL: the chosen one. */
typedef const char *ScheduleSource(const Kernel *k);
void schedule_set_source(ScheduleSource *source);

/* The schedule as an entry of such a file. */
const char *schedule_entry(Arena *arena, const FusionGroup *c, const Kernel *k,
                           const Schedule *s);

#endif
