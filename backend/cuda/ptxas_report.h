/* backend/cuda: resource usage of kernels, from the ptxas report. */
#ifndef AXON_CUDA_PTXAS_REPORT_H
#define AXON_CUDA_PTXAS_REPORT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct PtxasReport {
  uint32_t registers;    /* per thread */
  uint32_t shared_bytes; /* static shared memory of a block, bytes */
  uint32_t stack_bytes;  /* local memory of a thread, bytes */
  uint32_t spill_stores, spill_loads; /* spilled registers, bytes */
  uint32_t barriers;
} PtxasReport;

/* The report of one kernel.  False if the log does not contain it. */
bool ptxas_report(const char *log, const char *kernel, PtxasReport *out);
/* Bytes of spill stores of all kernels. */
uint32_t ptxas_report_spilled(const char *log);
/* The first warning in the log, such as the serialization of wgmma; or NULL. */
const char *ptxas_report_warning(const char *log);

#endif
