#include "backend/cuda/arch.h"

#include "backend/cuda/attend.h"
#include "backend/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

enum { SHARED_PLAIN = 48 << 10 }; /* bytes that every block may have */

/* From a launch to the next one that waits for it. */
static const double launch_seconds = 2.5e-6;

const char *const cuda_archs[CUDA_ARCHS] = {
    "sm_90a", "sm_75", "sm_80", "sm_86", "sm_89", "sm_100a", "sm_120"};

const char *cuda_arch_near(const char *name) {
  size_t len = strspn(name, "sm_0123456789");
  for (int k = 0; k < CUDA_ARCHS; k++)
    if (strspn(cuda_archs[k], "sm_0123456789") == len &&
        strncmp(cuda_archs[k], name, len) == 0)
      return cuda_archs[k];
  return NULL;
}

const char *cuda_arch_named(const char *name, Fault *fault) {
  for (int k = 0; k < CUDA_ARCHS; k++)
    if (strcmp(cuda_archs[k], name) == 0)
      return cuda_archs[k];
  const char *near = cuda_arch_near(name);
  fault_set(fault, "`%.40s` is no architecture that kernels are made for",
            name);
  if (near)
    fault_help(fault, "`%s` is the one of that number", near);
  else
    fault_help(fault, "these are sm_75 (Turing), sm_80 and sm_86 (Ampere), "
                      "sm_89 (Ada), sm_90a (Hopper: H100, H200), sm_100a and "
                      "sm_120 (Blackwell), as in `cuda:sm_90a`");
  return NULL;
}

CudaTarget cuda_arch_target(const char *arch) {
  GemmGpu gpu = {.sms = 1, .block = SHARED_PLAIN};
  gemm_gpu(arch, &gpu);
  const char *tf32 = getenv("AXON_TF32");
  return (CudaTarget){.arch = arch,
                      .processors = (int)gpu.sms,
                      .tf32 = tf32 && strcmp(tf32, "1") == 0,
                      .shared = SHARED_PLAIN,
                      .shared_most = gpu.block};
}

/* ---- times ---- */

static void take(Prediction *p, CostBound bound, double seconds) {
  if (seconds <= p->limit)
    return;
  p->limit = seconds;
  p->bound = bound;
}

/* What its tiles take by their own count; *all: with all that is done between
 * and behind the products. */
static double tiles_seconds(const CudaKernel *k, const GemmGpu *gpu,
                            bool *all) {
  double seconds = 0;
  *all = false;
  for (uint32_t j = 0; j < k->passes.len; j++) {
    const CudaSchedule *s = &k->passes.at[j]->s;
    if (s->tile)
      seconds += gemm_seconds(&s->tile->shape, gpu, &s->tile->s);
    if (s->attend) {
      seconds += s->attend->seconds;
      *all = true;
    }
  }
  return seconds;
}

Prediction cuda_predict(const Cost *cost, const CudaKernel *k,
                        const CudaTarget *target) {
  GemmGpu gpu;
  Prediction p = {.bound = COST_MEMORY};
  if (!target->arch || !gemm_gpu(target->arch, &gpu))
    return p;
  gpu.sms = (uint32_t)target->processors;
  double clocks = gpu.sms * gpu.clock;
  double rate = clocks * (cost->wide > 4 ? gpu.twice : gpu.single);
  double bytes = cost->read + cost->written;
  bool all;
  double near = gpu.l2_rate * gpu.clock, tiles = tiles_seconds(k, &gpu, &all);
  take(&p, COST_LEVEL_2, bytes / near);
  take(&p, COST_MEMORY, bytes > gpu.l2 ? bytes / gpu.memory : 0);
  double scratch = (double)k->scratch; /* of the rest nothing is in memory */
  take(&p, COST_SCRATCH, 2 * scratch / (scratch > gpu.l2 ? gpu.memory : near));
  take(&p, COST_ARITHMETIC,
       (tiles > 0 ? tiles : cost->products / rate) +
           (all ? 0 : 2 * cost->others / rate));
  p.seconds = p.limit + launch_seconds * k->passes.len;
  return p;
}
