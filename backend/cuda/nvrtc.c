/* Loads NVRTC and compiles with it. */
#define _GNU_SOURCE
#include "backend/cuda/nvrtc.h"

#include "backend/cuda/driver.h"
#include "backend/cuda/dynlib.h"
#include "backend/cuda/ptxas_report.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
  MIN_MAJOR = 12,
  MAX_MAJOR = 13,
  /* nvrtcResult: "NVRTC", chapter "Error Handling" */
  NVRTC_INVALID_OPTION = 5,
  NVRTC_COMPILATION = 6,
  NVRTC_BUILTINS = 7,
  MAX_OUTPUT_BYTES = 512 << 20, /* limit for plausible outputs */
};

static const char *const symbols[] = {
#define NV(result, name, symbol, arguments) symbol,
#include "backend/cuda/nvrtc.def"
#undef NV
    NULL};

_Static_assert(ARRAY_LEN(symbols) - 1 == sizeof(NvrtcApi) / sizeof(void *),
               "a row is a pointer");

static struct {
  pthread_once_t once;
  bool good;
  Nvrtc nvrtc;
  Fault fault; /* set if loading failed */
} found = {.once = PTHREAD_ONCE_INIT};

#define INSTALL_HELP                                                        \
  "install the CUDA toolkit, or only this library: apt install libnvrtc12 " \
  "(Debian 13, Ubuntu 24.04), pip install nvidia-cuda-nvrtc (CUDA 12: "     \
  "nvidia-cuda-nvrtc-cu12); or let AXON_NVRTC name the file"

/* ---- loading ---- */

/* True if the library is usable.  `fault` keeps the first library that exists
 * but is unusable. */
static bool load_candidate(Nvrtc *n, const char *name, Fault *fault) {
  LoadedLibrary library;
  LoadStatus end = load_library(name, symbols, &n->api, &library);
  if (end == LOAD_OK) {
    int count = 0;
    memcpy(n->path, library.path, sizeof n->path);
    if (n->api.version(&n->major, &n->minor) == 0 && n->major >= MIN_MAJOR &&
        n->api.arch_count(&count) == 0 && count > 0 &&
        count <= NVRTC_MAX_ARCHS && n->api.archs(n->archs) == 0) {
      n->arch_count = (uint32_t)count;
      return true;
    }
    snprintf(library.error, sizeof library.error,
             "found NVRTC %d.%d; CUDA %d or later is required", n->major,
             n->minor, MIN_MAJOR);
    unload_library(&library);
  }
  if (!*fault->message && end != LOAD_ABSENT) {
    fault_set(fault, "cannot use NVRTC, the CUDA compiler: %.150s: %s", name,
              library.error);
    fault_set_help(fault, INSTALL_HELP);
  }
  return false;
}

static bool load_found(void *owner, const char *name) {
  Nvrtc *n = owner;
  return load_candidate(n, name, &found.fault);
}

static void load_requested(Nvrtc *n, const char *requested, Fault *fault) {
  Fault wrong = {0};
  found.good = load_candidate(n, requested, &wrong);
  if (found.good)
    return;
  if (*wrong.message)
    fault_set(fault, "AXON_NVRTC: %s", wrong.message);
  else
    fault_set(fault, "AXON_NVRTC=%.300s: file not found", requested);
  fault_set_help(fault, "set it to the path of the library, libnvrtc.so.13 or "
                        "libnvrtc.so.12, or unset it");
}

/* The newest CUDA version that the driver supports: an older driver rejects
 * code of a newer NVRTC. */
static int max_driver_major(void) {
  Fault ignored;
  int version;
  const CudaApi *api = cuda_api(&ignored);
  if (!api || !cuda_version(api, &version, &ignored))
    return MAX_MAJOR;
  int major = version / 1000;
  return major < MIN_MAJOR ? MIN_MAJOR : major < MAX_MAJOR ? major : MAX_MAJOR;
}

static void fault_not_found(int newest, Fault *fault) {
  if (newest == MAX_MAJOR)
    fault_set(fault, "NVRTC, the CUDA compiler, is not found: libnvrtc.so.13 "
                     "or libnvrtc.so.12");
  else
    fault_set(fault,
              "NVRTC, the CUDA compiler, is not found: libnvrtc.so.%d (the "
              "driver supports CUDA %d)",
              newest, newest);
  fault_set_help(fault, INSTALL_HELP);
}

static void find_nvrtc(void) {
  Nvrtc *n = &found.nvrtc;
  const char *requested = getenv("AXON_NVRTC");
  if (requested && *requested) {
    load_requested(n, requested, &found.fault);
  } else {
    int newest = max_driver_major();
    for (int k = newest; k >= MIN_MAJOR && !found.good; k--)
      found.good = nvrtc_search(k, load_found, n);
    if (!found.good && !*found.fault.message)
      fault_not_found(newest, &found.fault);
  }
  found.fault.kind = FAULT_TARGET_UNAVAILABLE;
  if (found.good && !nvrtc_headers(n->path, n->headers))
    *n->headers = 0;
}

const Nvrtc *nvrtc(Fault *fault) {
  pthread_once(&found.once, find_nvrtc);
  if (found.good)
    return &found.nvrtc;
  *fault = found.fault;
  return NULL;
}

/* ---- architectures ---- */

bool nvrtc_compiles(const Nvrtc *n, const char *arch) {
  int number = strncmp(arch, "sm_", 3) == 0 ? atoi(arch + 3) : 0;
  for (uint32_t k = 0; k < n->arch_count; k++)
    if (n->archs[k] == number)
      return true;
  return false;
}

static bool check_arch(const Nvrtc *n, const char *arch, Fault *fault) {
  if (nvrtc_compiles(n, arch))
    return true;
  fault_set(
      fault,
      "NVRTC %d.%d does not compile for %.20s; it supports sm_%d to sm_%d",
      n->major, n->minor, arch, n->archs[0], n->archs[n->arch_count - 1]);
  fault_set_help(fault, "set AXON_NVRTC to another version");
  fault->kind = FAULT_TARGET_UNAVAILABLE;
  return false;
}

/* ---- compilation ---- */

/* The line of the first error in the log; otherwise its first line. */
static void first_error(const char *log, char out[300]) {
  const char *error = log ? strstr(log, "error") : NULL;
  if (!error && log)
    error = strstr(log, "fatal");
  while (error && error > log && error[-1] != '\n')
    error--;
  if (!error)
    error = log ? log : "";
  snprintf(out, 300, "%.*s", (int)strcspn(error, "\n"), error);
}

static void fault_compile(const Nvrtc *n, int result,
                          const KernelSource *source, const char *log,
                          Fault *fault) {
  char line[300];
  first_error(log, line);
  fault_set(fault, "NVRTC %d.%d did not compile %.60s for %.20s: %.80s: %s",
            n->major, n->minor, source->name, source->arch,
            n->api.error_string(result), line);
  fault->kind = FAULT_TARGET_UNAVAILABLE;
  if (result == NVRTC_BUILTINS)
    fault_set_help(fault,
                   "libnvrtc-builtins.so.%d.%d must be in the folder of %.150s",
                   n->major, n->minor, n->path);
  else if (result == NVRTC_COMPILATION || result == NVRTC_INVALID_OPTION)
    fault_set_help(fault, "this is an internal error: please report it");
}

/* Fetches an output of a program as a NUL-terminated string.  NULL if NVRTC
 * fails or memory is exhausted. */
static char *fetch_output(NvrtcProgram program,
                          int (*size_of)(NvrtcProgram, size_t *),
                          int (*get)(NvrtcProgram, char *), size_t *size) {
  *size = 0;
  if (size_of(program, size) != 0 || *size == 0 || *size > MAX_OUTPUT_BYTES)
    return NULL;
  char *source = mem_try_alloc(*size + 1);
  if (source && get(program, source) != 0) {
    mem_free(source);
    return NULL;
  }
  return source;
}

static bool fetch_code(const Nvrtc *n, NvrtcProgram program, bool ptx,
                       CompiledCode *out, Fault *fault) {
  const NvrtcApi *api = &n->api;
  out->bytes = fetch_output(program, ptx ? api->ptx_size : api->cubin_size,
                            ptx ? api->ptx : api->cubin, &out->size);
  if (!out->bytes)
    fault_set_kind(fault, FAULT_MEMORY,
                   "NVRTC returned no code, or out of memory");
  return out->bytes;
}

typedef struct Options {
  int count;
  const char *at[NVRTC_MAX_OPTIONS + 8];
  char arch[48], headers[ARTIFACT_PATH_BYTES + 20];
} Options;

/* --fmad=false: multiplications and additions are fused only if a kernel calls
 * fma.  So elementwise code gives the same results on all backends. */
static void fill_options(const Nvrtc *n, const KernelSource *source,
                         Options *o) {
  const char *number = source->arch + strlen("sm_");
  snprintf(o->arch, sizeof o->arch, "--gpu-architecture=%s_%.16s",
           source->want_ptx ? "compute" : "sm", number);
  o->at[o->count++] = o->arch;
  o->at[o->count++] = "--std=c++17";
  o->at[o->count++] = "--fmad=false";
  if (!source->want_ptx)
    o->at[o->count++] = "--ptxas-options=-v";
  if (source->needs_headers && *n->headers) {
    snprintf(o->headers, sizeof o->headers, "--include-path=%s", n->headers);
    o->at[o->count++] = o->headers;
  }
  for (uint32_t k = 0; k < source->option_count; k++)
    o->at[o->count++] = source->options[k];
}

static bool compile(const Nvrtc *n, const KernelSource *source,
                    CompiledCode *out, Fault *fault) {
  Options options = {0};
  NvrtcProgram program = NULL;
  *out = (CompiledCode){0};
  if (!check_arch(n, source->arch, fault))
    return false;
  fill_options(n, source, &options);
  int result =
      n->api.create(&program, source->source, source->name, 0, NULL, NULL);
  if (result == 0)
    result = n->api.compile(program, options.count, options.at);
  size_t ignored;
  if (program)
    out->log = fetch_output(program, n->api.log_size, n->api.log, &ignored);
  if (result != 0)
    fault_compile(n, result, source, out->log, fault);
  bool good =
      result == 0 && fetch_code(n, program, source->want_ptx, out, fault);
  if (program)
    n->api.destroy(&program);
  return good;
}

/* By default, ptxas limits registers per thread to allow more resident blocks,
 * and may spill.  If it spills, this compiles again with one block per SM, and
 * takes that code if it spills less.  The macro AX_BLOCKS of prelude/kernel.inc
 * sets the limit. */
bool nvrtc_compile(const Nvrtc *n, const KernelSource *source,
                   CompiledCode *out, Fault *fault) {
  bool good = compile(n, source, out, fault);
  KernelSource more_registers = *source;
  CompiledCode other;
  Fault ignored;
  if (!good || !ptxas_report_spilled(out->log) ||
      more_registers.option_count == NVRTC_MAX_OPTIONS ||
      !strstr(source->source, " AX_BLOCKS)"))
    return good;
  more_registers.options[more_registers.option_count++] =
      "--define-macro=AX_BLOCKS=,1";
  bool better =
      compile(n, &more_registers, &other, &ignored) &&
      ptxas_report_spilled(other.log) < ptxas_report_spilled(out->log);
  CompiledCode rejected = better ? *out : other;
  if (better)
    *out = other;
  compiled_code_free(&rejected);
  return true;
}

void compiled_code_free(CompiledCode *code) {
  mem_free(code->bytes);
  mem_free(code->log);
  *code = (CompiledCode){0};
}
