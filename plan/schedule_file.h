/* plan: schedules from a file, in place of those that are chosen.
 *
 *     kernel 5b1d0c2f9a3e4471          (* nn.softmax x *)
 *       tasks i0; width 8
 *       1: tile i1 8 peel; lanes i1
 *
 *     kernel 5b1d0c2f9a3e4471 sm_90a   (* the same kernel on a GPU *)
 *       1: by rows {group=32 threads=256}
 *
 *     gemm sm_90a bf16 4096x4096x* {m=128 n=256 stages=4}
 *
 * A kernel is identified by a hash of its operations and sizes.
 * `axon plan --schedule` prints such entries.  A rule, `gemm` or `attention`,
 * is for all matrix products, or all fused attention, of an architecture, an
 * operand type and sizes; each of these may be *.  The sizes are rows x columns
 * x terms; of attention: query rows x keys x head dimension.  Backends read
 * the rest of an entry. */
#ifndef AXON_PLAN_SCHEDULE_FILE_H
#define AXON_PLAN_SCHEDULE_FILE_H

#include "plan/fusion_group.h"

typedef struct Buffer Buffer;

typedef enum ScheduleEntryKind {
  SCHEDULE_KERNEL,
  SCHEDULE_GEMM,
  SCHEDULE_ATTENTION,
} ScheduleEntryKind;

typedef struct ScheduleEntry {
  ScheduleEntryKind kind;
  uint64_t key;     /* SCHEDULE_KERNEL */
  char arch[16];    /* "": the CPU; "*": all GPUs */
  Dtype dtype;      /* rules; DT_NONE: any */
  double sizes[3];  /* rules; negative: any */
  const char *text; /* the schedule */
  uint32_t at;      /* where it begins in the file */
  bool is_used;
  char refusal[160]; /* of a rule: why it was not used; or empty */
} ScheduleEntry;

/* Reads the file.  Its schedules are used from now on.  Returns false with a
 * fault that names the position of an error.  Call it once, before kernels
 * run.  Without such a call, the file that AXON_SCHEDULES names is read. */
bool schedule_file_read(const char *path, Fault *fault);
/* Returns false, with a fault, if the file is invalid, or if a schedule could
 * not be applied. */
bool schedule_file_check(Fault *fault);
/* Appends a message about the entries that no kernel used. */
void schedule_file_put_unused(Buffer *out);

/* The number of entries, and one of them. */
uint32_t schedule_file_count(void);
const ScheduleEntry *schedule_file_entry(uint32_t at);
/* The entry of a kernel, or NULL.  arch: NULL for the CPU. */
ScheduleEntry *schedule_file_find(const FusionGroup *c, const char *arch);
/* The first rule for these operands, or NULL. */
ScheduleEntry *schedule_file_find_rule(ScheduleEntryKind kind, const char *arch,
                                       Dtype dtype, double m, double n,
                                       double k);
/* Tells that an entry was applied, or why a rule does not fit a kernel.  e:
 * may be NULL. */
void schedule_entry_report(ScheduleEntry *e, const char *refusal);
/* Tells that the entry of a kernel cannot be applied: no further kernel runs.
 * at: position in its text.  NULL: a schedule without a file. */
void schedule_entry_fail(const ScheduleEntry *e, uint32_t at,
                         const char *error);
/* An invalid entry in the file, before kernels run. */
void schedule_entry_fault(const ScheduleEntry *e, const char *error,
                          Fault *fault);

#endif
