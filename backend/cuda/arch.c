#include "backend/cuda/arch.h"

#include "backend/cuda/attention_analysis.h"
#include "backend/cuda/cuda.h"
#include "machine/limits/cuda.h"

#include <stdlib.h>
#include <string.h>

enum {
  DEFAULT_SHARED_BYTES = 48 << 10
}; /* shared memory that every thread block may use, bytes */

const char *const cuda_archs[CUDA_ARCH_COUNT] = {
    "sm_90a", "sm_75", "sm_80", "sm_86", "sm_89", "sm_100a", "sm_120"};

const char *cuda_arch_of_number(const char *name) {
  size_t len = strspn(name, "sm_0123456789");
  for (int k = 0; k < CUDA_ARCH_COUNT; k++)
    if (strspn(cuda_archs[k], "sm_0123456789") == len &&
        strncmp(cuda_archs[k], name, len) == 0)
      return cuda_archs[k];
  return NULL;
}

const char *cuda_arch_named(const char *name, Fault *fault) {
  for (int k = 0; k < CUDA_ARCH_COUNT; k++)
    if (strcmp(cuda_archs[k], name) == 0)
      return cuda_archs[k];
  const char *same_number = cuda_arch_of_number(name);
  fault_set(fault, "`%.40s` is not a supported GPU architecture", name);
  if (same_number)
    fault_set_help(fault, "did you mean `%s`?", same_number);
  else
    fault_set_help(fault,
                   "these are sm_75 (Turing), sm_80 and sm_86 (Ampere), "
                   "sm_89 (Ada), sm_90a (Hopper: H100, H200), sm_100a and "
                   "sm_120 (Blackwell), as in `cuda:sm_90a`");
  return NULL;
}

CudaTarget cuda_arch_target(const char *arch) {
  GpuSpec gpu = {.sms = 1, .block_shared_bytes = DEFAULT_SHARED_BYTES};
  gpu_spec(arch, &gpu);
  const char *tf32 = getenv("AXON_TF32");
  return (CudaTarget){.arch = arch,
                      .sm_count = (int)gpu.sms,
                      .allow_tf32 = tf32 && strcmp(tf32, "1") == 0,
                      .default_shared_bytes = DEFAULT_SHARED_BYTES,
                      .optin_shared_bytes = gpu.block_shared_bytes};
}

/* ---- cost model ---- */

static void add_bound(Prediction *p, RooflineBound bound, double seconds) {
  if (seconds <= p->bound_seconds)
    return;
  p->bound_seconds = seconds;
  p->bound = bound;
}

/* Time of the matmul tiles by their own cost models.  *includes_epilogue: the
 * time also covers the operations between and after the matmuls. */
static double mma_seconds(const CudaKernel *k, const GpuSpec *gpu,
                          bool *includes_epilogue) {
  double seconds = 0;
  *includes_epilogue = false;
  for (uint32_t j = 0; j < k->passes.len; j++) {
    const CudaSchedule *s = &k->passes.at[j]->s;
    if (s->gemm)
      seconds += gemm_seconds(&s->gemm->shape, gpu, &s->gemm->s);
    if (s->attention) {
      seconds += s->attention->seconds;
      *includes_epilogue = true;
    }
  }
  return seconds;
}

Prediction cuda_predict(const Cost *cost, const CudaKernel *k,
                        const CudaTarget *target) {
  GpuSpec gpu;
  Prediction p = {.bound = ROOFLINE_MEMORY};
  if (!target->arch || !gpu_spec(target->arch, &gpu))
    return p;
  gpu.sms = (uint32_t)target->sm_count;
  double clocks = gpu.sms * gpu.clock_hz;
  double rate =
      clocks * (cost->widest_bytes > 4 ? gpu.f64_fma_rate : gpu.f32_fma_rate);
  double bytes = cost->bytes_read + cost->bytes_written;
  bool includes_epilogue;
  double l2_bandwidth = gpu.l2_bytes_per_clock * gpu.clock_hz,
         tiles = mma_seconds(k, &gpu, &includes_epilogue);
  add_bound(&p, ROOFLINE_L2, bytes / l2_bandwidth);
  add_bound(&p, ROOFLINE_MEMORY,
            bytes > gpu.l2_bytes ? bytes / gpu.dram_bandwidth : 0);
  /* Other intermediates never reach global memory. */
  double scratch = (double)k->scratch_bytes;
  add_bound(&p, ROOFLINE_SCRATCH,
            2 * scratch /
                (scratch > gpu.l2_bytes ? gpu.dram_bandwidth : l2_bandwidth));
  add_bound(&p, ROOFLINE_COMPUTE,
            (tiles > 0 ? tiles : cost->contraction_flops / rate) +
                (includes_epilogue ? 0 : 2 * cost->other_ops / rate));
  p.seconds = p.bound_seconds + LAUNCH_SECONDS * k->passes.len;
  return p;
}
