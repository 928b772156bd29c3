/* backend/cuda: what a kernel uses, as its compiler reports. */
#ifndef AXON_CUDA_REPORT_H
#define AXON_CUDA_REPORT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct CudaReport {
  uint32_t registers; /* of a thread */
  uint32_t shared;    /* bytes that the text gives a block */
  uint32_t stack;     /* bytes of a thread, in memory; of these: */
  uint32_t spill_stores, spill_loads; /* registers that there were not */
  uint32_t barriers;
} CudaReport;

/* Of the kernel of this name.  False: the log has nothing of it. */
bool cuda_report(const char *log, const char *kernel, CudaReport *out);
/* Bytes that all its kernels store since they have too few registers. */
uint32_t cuda_report_spilled(const char *log);
/* Whether the log says anything else: a warning, say, or that products of
 * warpgroups wait for each other.  Where that begins, or NULL. */
const char *cuda_report_other(const char *log);

#endif
