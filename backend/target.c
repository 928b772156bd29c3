#include "backend/target.h"

#include "backend/cuda/cuda.h"
#include "machine/machine.h"
#include "runtime/derived_cache.h"

#include <stdlib.h>
#include <string.h>

/* Operations that are done before a compiler would have begun; the help for
 * AXON_TINY names them. */
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

/* Settings that are numbers: 0 or more, or those from `least` to `most`. */
static const struct NumberSetting {
  const char *name, *what, *help;
  int64_t least, most;
} number_settings[] = {
    {"AXON_TINY", "is not a number of operations",
     "use 0 or more, or unset it (default 20000)", 0, INT64_MAX},
    {"AXON_STREAM", "is not a number of bytes",
     "use 0 or more, or unset it (default: from the cache sizes)", 0,
     INT64_MAX},
    {"AXON_KEEP", "is not a number of bytes",
     "use the maximum size in bytes of all prepacked operands, 0 for none, or "
     "unset it (default: a quarter of the memory)",
     0, INT64_MAX},
    {"AXON_POOL", "is not a number of bytes",
     "use the maximum size in bytes of the GPU memory pool, 0 for no pool, or "
     "unset it (default: half of the GPU memory)",
     0, INT64_MAX},
    {"AXON_TF32", "is neither 0 nor 1",
     "use 1 for tf32 rounding of f32 matrix products on GPUs, or unset it", 0,
     1},
};

static bool fail_setting(Fault *fault, const char *name, const char *what,
                         const char *help) {
  fault_set(fault, "%s=%s %s", name, env_setting(name), what);
  fault_set_help(fault, "%s", help);
  return false;
}

static bool check_numbers(Fault *fault) {
  for (size_t k = 0; k < ARRAY_LEN(number_settings); k++) {
    const struct NumberSetting *s = &number_settings[k];
    int64_t number = env_number(s->name, s->least);
    if (number < s->least || number > s->most)
      return fail_setting(fault, s->name, s->what, s->help);
  }
  return true;
}

bool target_check_settings(Fault *fault) {
  const char *name = env_setting("AXON_TARGET"),
             *sizes = env_setting("AXON_CACHES");
  int64_t vector = env_number("AXON_VECTOR", 16);
  size_t caches[3];
  if (name && !target_by_name(name))
    return fail_setting(fault, "AXON_TARGET", "is not a target",
                        "use " TARGET_NAMES ", or unset it");
  if (vector != 16 && vector != 32 && vector != 64)
    return fail_setting(fault, "AXON_VECTOR",
                        "is not a number of bytes of a vector",
                        "use 16, 32 or 64, or unset it (default: the widest "
                        "vectors of this processor)");
  if (sizes && !machine_read_caches(sizes, caches))
    return fail_setting(fault, "AXON_CACHES",
                        "is not the sizes of three caches",
                        "use the bytes of the levels 1, 2 and 3, none less "
                        "than that before, such as 32768,1048576,33554432, or "
                        "unset it (default: those of this machine)");
  return check_numbers(fault);
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
