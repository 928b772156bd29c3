/* backend/cuda: NVRTC, NVIDIA's CUDA C++ compiler as a library.
 *
 * It is loaded when the first kernel is compiled: from the CUDA toolkit, system
 * packages, or Python packages.  It needs no GPU.  Failures are Faults.  All
 * functions are thread-safe. */
#ifndef AXON_CUDA_NVRTC_H
#define AXON_CUDA_NVRTC_H

#include "runtime/artifact.h"

typedef struct NvrtcProgramIs *NvrtcProgram;

typedef struct NvrtcApi {
#define NV(result, name, symbol, arguments) result(*name) arguments;
#include "backend/cuda/nvrtc.def"
#undef NV
} NvrtcApi;

enum { NVRTC_MAX_ARCHS = 64, NVRTC_MAX_OPTIONS = 16 };

typedef struct Nvrtc {
  NvrtcApi api;
  char path[ARTIFACT_PATH_BYTES]; /* of the library */
  /* Folder of cuda_fp16.h; "" if not found. */
  char headers[ARTIFACT_PATH_BYTES];
  int major, minor;
  int archs[NVRTC_MAX_ARCHS]; /* supported architectures: 90 */
  uint32_t arch_count;
} Nvrtc;

/* Finds NVRTC once: the library that AXON_NVRTC names, otherwise the newest one
 * that the driver supports.  NULL with a fault if there is none. */
const Nvrtc *nvrtc(Fault *fault);
/* True if NVRTC compiles for the architecture, such as "sm_90a". */
bool nvrtc_compiles(const Nvrtc *n, const char *arch);

typedef struct KernelSource {
  const char *source;
  const char *name;      /* for compiler messages: "kernel.cu" */
  const char *arch;      /* "sm_90a" */
  bool want_ptx;         /* output is PTX instead of a cubin */
  bool needs_headers;    /* includes CUDA headers */
  uint32_t option_count; /* options besides those of all kernels */
  const char *options[NVRTC_MAX_OPTIONS];
} KernelSource;

typedef struct CompiledCode {
  char *bytes; /* a cubin, or PTX that ends in NUL */
  size_t size;
  char *log; /* output of the compilers; see ptxas_report.h */
} CompiledCode;

/* False with a fault; then `out` has at most the log.  The caller always frees
 * `out`. */
bool nvrtc_compile(const Nvrtc *n, const KernelSource *source,
                   CompiledCode *out, Fault *fault);
void compiled_code_free(CompiledCode *code);

/* ---- nvrtc_find.c ---- */

/* Calls `try` with candidate names for a library of this major version, the
 * best first, until `try` returns true.  load_library accepts the names. */
bool nvrtc_search(int major, bool (*try)(void *owner, const char *name),
                  void *owner);
/* The folder of the headers that belong to a library.  False if not found. */
bool nvrtc_headers(const char *library, char out[ARTIFACT_PATH_BYTES]);

#endif
