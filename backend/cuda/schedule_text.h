/* backend/cuda: schedules of kernels as text (plan/schedule_file.h).
 *
 *     kernel 5b1d0c2f9a3e4471 on sm_90a
 *       1: by gemm {way=wgmma copy=engine m=128 n=256}
 *       2: by rows {group=32 threads=256 vector=4}
 *       3: tile i0 128; blocks i0.1; threads i0
 *
 * Each line is a pass.  A pass without sums has steps (kernel/nest.h).  Fields
 * replace those of the chosen schedule; the others stay.  Fields of `gemm` and
 * `attention` are those of gemm.def. */
#ifndef AXON_CUDA_SCHEDULE_TEXT_H
#define AXON_CUDA_SCHEDULE_TEXT_H

#include "backend/cuda/kernel.h"
#include "plan/fusion_group.h"

typedef struct ScheduleEntry ScheduleEntry;

enum { MAX_PASS_TEXTS = 64 };

/* A pass in text. */
typedef struct PassText {
  CudaKernelKind kind;
  const char *fields; /* or steps; NULL: the line is missing */
  uint32_t at;        /* its position in the entry */
  uint32_t steps_at;  /* that of its steps */
} PassText;

/* The entry of a kernel. */
struct KernelText {
  Arena *arena;
  const FusionGroup *group;
  ScheduleEntry *entry;
  uint32_t count;
  PassText passes[MAX_PASS_TEXTS];
  bool has_failed;
};

/* Reports an error in the schedules that are for GPUs: false, with a fault. */
bool cuda_schedules_check(Fault *fault);
/* The entry of a kernel; NULL: there is none, or it has an error, which is then
 * reported. */
KernelText *kernel_text_find(Arena *arena, const FusionGroup *c,
                             const char *arch);
/* The text of a pass by its index, or of the first pass of a kind; NULL: there
 * is none. */
const PassText *kernel_text_pass(const KernelText *t, uint32_t at);
const PassText *kernel_text_kind(const KernelText *t, CudaKernelKind kind);
/* Reports that the text of a pass cannot be applied. */
void kernel_text_refuse(KernelText *t, const PassText *pass,
                        const char *reason);
/* The kernel was emitted as the text says. */
void kernel_text_finish(KernelText *t, uint32_t passes);
/* Applies the text of a pass that is no matrix product to the chosen schedule.
 * May permute its axes.  Returns false if it cannot be applied, which is then
 * reported. */
bool pass_text_apply(KernelText *t, const PassText *text, CudaPass *p,
                     const CudaTarget *target);

/* Appends the entry of a kernel. */
void kernel_text_print(Buffer *out, const FusionGroup *c, const CudaKernel *k,
                       const char *arch);
/* The fields of a rule. */
const char *rule_fields(const ScheduleEntry *e, Arena *arena);

#endif
