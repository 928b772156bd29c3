/* backend/cuda: what a kernel uses, as its compiler reports. */
#ifndef AXON_CUDA_PTXAS_REPORT_H
#define AXON_CUDA_PTXAS_REPORT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct PtxasReport {
  uint32_t registers;    /* of a thread */
  uint32_t shared_bytes; /* bytes that the text gives a block */
  uint32_t stack_bytes;  /* bytes of a thread, in memory; of these: */
  uint32_t spill_stores, spill_loads; /* registers that there were not */
  uint32_t barriers;
} PtxasReport;

/* Of the kernel of this name.  False: the log has nothing of it. */
bool ptxas_report(const char *log, const char *kernel, PtxasReport *out);
/* Bytes that all its kernels store since they have too few registers. */
uint32_t ptxas_report_spilled(const char *log);
/* Whether the log says anything else: a warning, say, or that products of
 * warpgroups wait for each other.  Where that begins, or NULL. */
const char *ptxas_report_warning(const char *log);

#endif
