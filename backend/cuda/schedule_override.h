/* backend/cuda: schedules of contractions from a file that AXON_SCHEDULES
 * names.  Example of a line:
 *
 *       sm_90a bf16 4096x4096x*: m=128 n=256 stages=4     # comment
 *
 * A line has the architecture, the type of the operands in tiles, and the rows
 * x columns x reduction terms; each may be a *. Then follow the changed fields
 * of the schedule, with the names of gemm.def.  If the MMA kind changes, the
 * other fields start from a default schedule of that kind.  The first line that
 * matches a contraction applies.  A line that
 * begins with `rows` is for fused attention: its sizes are the query rows, the
 * keys, and the head dimension. */
#ifndef AXON_CUDA_SCHEDULE_OVERRIDE_H
#define AXON_CUDA_SCHEDULE_OVERRIDE_H

#include "backend/cuda/attention.h"

typedef struct Buffer Buffer;

/* True if there is no file or if it is valid.  Otherwise false with a fault
 * that gives the position of the error. */
bool override_check(Fault *fault);
/* Applies the first matching line to the schedule.  NULL: applied, or no line
 * matches.  Otherwise a message why the line cannot be used; it stays valid. */
const char *override_apply(const char *arch, const GemmShape *shape,
                           const GpuSpec *gpu, GemmSchedule *s);
const char *override_apply_attention(const char *arch,
                                     const AttentionShape *shape,
                                     const GpuSpec *gpu, GemmSchedule *s);

/* Parses one line; for tests.  False with an error in `why`. */
typedef struct OverrideLine {
  bool is_attention;
  char arch[16];
  Dtype dtype;          /* DT_NONE: any */
  double m, n, k;       /* negative: any */
  const char *schedule; /* changed fields */
  uint32_t line_number;
  char message[160];
} OverrideLine;
bool override_read_line(char *text, OverrideLine *to, Buffer *why);

#endif
