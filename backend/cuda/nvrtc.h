/* backend/cuda: NVRTC, NVIDIA's compiler of CUDA C++ as a library.
 *
 * It is loaded when somebody wants a kernel compiled, from where the toolkit,
 * the system's packages or a Python package have put it; no GPU is needed for
 * that.  What goes wrong is a Fault.  Any thread may compile, several at a
 * time. */
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
  char path[ARTIFACT_PATH_BYTES];    /* of the library */
  char headers[ARTIFACT_PATH_BYTES]; /* the folder of cuda_fp16.h; "" not found
                                      */
  int major, minor;
  int archs[NVRTC_MAX_ARCHS]; /* that it compiles for: 90 */
  uint32_t arch_count;
} Nvrtc;

/* Found once: AXON_NVRTC names the library; else the newest one that the
 * driver, where there is one, understands.  NULL: there is none. */
const Nvrtc *nvrtc(Fault *fault);
/* Does it compile for "sm_90a"? */
bool nvrtc_compiles(const Nvrtc *n, const char *arch);

typedef struct KernelSource {
  const char *source;
  const char *name;      /* for what the compiler says: "kernel.cu" */
  const char *arch;      /* "sm_90a" */
  bool want_ptx;         /* PTX is wanted, and no code of the machine */
  bool needs_headers;    /* it includes the toolkit's */
  uint32_t option_count; /* beside those that all kernels have */
  const char *options[NVRTC_MAX_OPTIONS];
} KernelSource;

typedef struct CompiledCode {
  char *bytes; /* a cubin, or PTX that ends in NUL */
  size_t size;
  char *log; /* what the compilers said; see ptxas_report.h */
} CompiledCode;

/* False with a fault; `out` then has the log alone, or nothing.  Either way it
 * is the caller's to free. */
bool nvrtc_compile(const Nvrtc *n, const KernelSource *source,
                   CompiledCode *out, Fault *fault);
void compiled_code_free(CompiledCode *code);

/* ---- nvrtc_find.c ---- */

/* Names that a library of this major version may have here, the best first, as
 * load_library takes them, until `try` says that it is one. */
bool nvrtc_search(int major, bool (*try)(void *owner, const char *name),
                  void *owner);
/* The folder of the headers that belong to a library; false: not found. */
bool nvrtc_headers(const char *library, char out[ARTIFACT_PATH_BYTES]);

#endif
