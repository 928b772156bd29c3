#include "backend/target.h"

#include "backend/cuda/cuda.h"
#include "machine/machine.h"
#include "runtime/derived_cache.h"

#include <stdlib.h>
#include <string.h>

/* Operations that are done before a compiler would have begun. */
enum { DEFAULT_JIT_THRESHOLD_OPS = 20000 };

static const struct Target {
  const Backend *backend;
  bool (*is_available)(Fault *fault); /* NULL: always */
} targets[] = {
    {&backend_cpu, NULL},
    {&backend_cuda, cuda_is_usable},
    {&backend_reference, NULL},
};

const Backend *target_by_name(const char *name) {
  for (size_t k = 0; k < ARRAY_LEN(targets); k++)
    if (strcmp(targets[k].backend->name, name) == 0)
      return targets[k].backend;
  return NULL;
}

bool target_is_available(const Backend *target, Fault *fault) {
  for (size_t k = 0; k < ARRAY_LEN(targets); k++)
    if (targets[k].backend == target && targets[k].is_available)
      return targets[k].is_available(fault);
  return true;
}

static const char *env_setting(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

/* -1: it is no number. */
static int64_t env_number(const char *name, int64_t fallback) {
  const char *text = env_setting(name);
  if (!text)
    return fallback;
  char *end;
  long long number = strtoll(text, &end, 10);
  return *end || number < 0 ? -1 : number;
}

bool target_check_settings(Fault *fault) {
  const char *name = env_setting("AXON_TARGET");
  if (name && !target_by_name(name)) {
    fault_set(fault, "AXON_TARGET=%s is not a target", name);
    fault_set_help(fault, "use " TARGET_NAMES ", or unset it");
    return false;
  }
  if (env_number("AXON_TINY", DEFAULT_JIT_THRESHOLD_OPS) < 0) {
    fault_set(fault, "AXON_TINY=%s is not a number of operations",
              env_setting("AXON_TINY"));
    fault_set_help(fault, "use 0 or more, or unset it (default %d)",
                   DEFAULT_JIT_THRESHOLD_OPS);
    return false;
  }
  if (env_number("AXON_STREAM", 0) < 0) {
    fault_set(fault, "AXON_STREAM=%s is not a number of bytes",
              env_setting("AXON_STREAM"));
    fault_set_help(
        fault, "use 0 or more, or unset it (default: from the cache sizes)");
    return false;
  }
  int64_t vector = env_number("AXON_VECTOR", 16);
  if (vector != 16 && vector != 32 && vector != 64) {
    fault_set(fault, "AXON_VECTOR=%s is not a number of bytes of a vector",
              env_setting("AXON_VECTOR"));
    fault_set_help(fault, "use 16, 32 or 64, or unset it (default: the widest "
                          "vectors of this processor)");
    return false;
  }
  size_t caches[3];
  const char *sizes = env_setting("AXON_CACHES");
  if (sizes && !machine_read_caches(sizes, caches)) {
    fault_set(fault, "AXON_CACHES=%s is not the sizes of three caches", sizes);
    fault_set_help(fault, "use the bytes of the levels 1, 2 and 3, none less "
                          "than that before, such as "
                          "32768,1048576,33554432, or unset it (default: those "
                          "of this machine)");
    return false;
  }
  if (env_number("AXON_KEEP", 0) < 0) {
    fault_set(fault, "AXON_KEEP=%s is not a number of bytes",
              env_setting("AXON_KEEP"));
    fault_set_help(fault,
                   "use the maximum size in bytes of all prepacked operands, 0 "
                   "for none, or unset it (default: a quarter of the memory)");
    return false;
  }
  if (env_number("AXON_POOL", 0) < 0) {
    fault_set(fault, "AXON_POOL=%s is not a number of bytes",
              env_setting("AXON_POOL"));
    fault_set_help(
        fault, "use the maximum size in bytes of the GPU memory pool, 0 for no "
               "pool, or unset it (default: half of the GPU memory)");
    return false;
  }
  int64_t tf32 = env_number("AXON_TF32", 0);
  if (tf32 < 0 || tf32 > 1) {
    fault_set(fault, "AXON_TF32=%s is neither 0 nor 1",
              env_setting("AXON_TF32"));
    fault_set_help(
        fault,
        "use 1 for tf32 rounding of f32 matrix products on GPUs, or unset it");
    return false;
  }
  return true;
}

void target_configure(Graph *g) {
  int64_t cache_bytes = env_number("AXON_KEEP", -1);
  derived_cache_set_limit(cache_bytes < 0 ? UINT64_MAX : (uint64_t)cache_bytes);
  const char *name = env_setting("AXON_TARGET");
  const Backend *target = name ? target_by_name(name) : NULL;
  int64_t jit_threshold = env_number("AXON_TINY", DEFAULT_JIT_THRESHOLD_OPS);
  g->backend = target ? target : &backend_cpu;
  g->jit_threshold =
      jit_threshold < 0 ? DEFAULT_JIT_THRESHOLD_OPS : jit_threshold;
}
