/* backend/cuda: schedules of contractions that a person has written into a
 * file, which AXON_SCHEDULES names.  A line of it is
 *
 *     sm_90a bf16 4096x4096x*: m=128 n=256 stages=4     # and a remark
 *
 * architecture, type of the operands in tiles, rows x columns x terms, each of
 * which may be a *; then what is changed of the schedule that was chosen, as
 * gemm.def has it (where the way is another one, of a usual schedule of that
 * way).  The first line that fits a contraction is taken.  A line that begins
 * with `rows` is of two products with rows between them: their rows, what these
 * are of, and the terms of the first one. */
#ifndef AXON_CUDA_SCHEDULE_OVERRIDE_H
#define AXON_CUDA_SCHEDULE_OVERRIDE_H

#include "backend/cuda/attention.h"

/* Is there no file, or one that can be read?  False with a fault that says
 * where it is wrong. */
bool override_check(Fault *fault);
/* Changes the schedule as the file says.  NULL: it did, or says nothing of it;
 * else which line is not used, and why; it lives as long as the process. */
const char *override_apply(const char *arch, const GemmShape *shape,
                           const GpuSpec *gpu, GemmSchedule *s);
const char *override_apply_attention(const char *arch,
                                     const AttentionShape *shape,
                                     const GpuSpec *gpu, GemmSchedule *s);

/* One line; for tests.  False: `why` says what is wrong. */
typedef struct OverrideLine {
  bool is_attention;
  char arch[16];
  Dtype dtype;          /* DT_NONE: any */
  double m, n, k;       /* -1: any */
  const char *schedule; /* of the schedule */
  uint32_t line_number;
  char message[160];
} OverrideLine;
bool override_read_line(char *text, OverrideLine *to, Buffer *why);

#endif
