/* backend/cuda: schedules of kernels as text (plan/schedule_file.h).
 *
 *     kernel 5b1d0c2f9a3e4471 on sm_90a
 *       1: by gemm {way=wgmma copy=engine m=128 n=256}
 *       2: tile i0 128; blocks i0.1; threads i0
 *       3.1: tile i1 32; blocks i0; threads i1
 *       3.2: tile i1 64; blocks i0; threads i1
 *
 * Each line is a pass, or a loop nest of a pass.  It has the steps of a nest
 * (kernel/nest.h), or fields of `gemm` and `attention`, which are those of
 * gemm.def.  They replace those of the chosen schedule; the others stay.  `by
 * rows` is a pass whose steps are chosen. */
#ifndef AXON_CUDA_SCHEDULE_TEXT_H
#define AXON_CUDA_SCHEDULE_TEXT_H

#include "backend/cuda/kernel.h"
#include "plan/fusion_group.h"

typedef struct ScheduleEntry ScheduleEntry;

enum { MAX_PASS_TEXTS = 64 };

/* The steps of a loop nest in text. */
typedef struct StepsText {
  uint32_t loop; /* from 1; 0: all loop nests of the pass */
  uint32_t at;   /* position in the entry */
  const char *text;
} StepsText;

/* A pass in text. */
typedef struct PassText {
  CudaKernelKind kind; /* CUDA_NEST: it has steps */
  const char *fields;  /* of a routine; NULL: the pass has no line */
  uint32_t at;         /* its position in the entry */
  VEC(StepsText) steps;
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
