/* backend/cpu: the schedule of a kernel: that of a file
 * (plan/schedule_file.h), or the chosen one. */
#ifndef AXON_CPU_SCHEDULE_MAKE_H
#define AXON_CPU_SCHEDULE_MAKE_H

#include "backend/cpu/cpu.h"

/* Makes the schedule of a group.  Changes k, a copy of its kernel.  bytes,
 * may_use_bytes: see schedule_choose; a schedule that a user wrote is for the
 * vectors of this machine.  Returns false if it cannot be applied. */
bool schedule_make(const FusionGroup *c, Kernel *k, uint32_t bytes,
                   bool may_use_bytes, Schedule *s);
/* True if a user wrote the schedule. */
bool schedule_is_given(const FusionGroup *c, uint32_t bytes);
/* Reports that there is no code for the schedule, if it is that of the file. */
void schedule_has_no_code(const FusionGroup *c);
/* Tests only: schedules of all kernels, in text; NULL: the chosen one. */
typedef const char *ScheduleSource(const Kernel *k);
void schedule_set_source(ScheduleSource *source);

/* The schedule as an entry of such a file. */
const char *schedule_entry(Arena *arena, const FusionGroup *c, const Kernel *k,
                           const Schedule *s);

#endif
