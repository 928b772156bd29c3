#include "backend/target.h"

#include "backend/cuda/cuda.h"
#include "runtime/kept.h"

#include <stdlib.h>
#include <string.h>

/* Operations that are done before a compiler would have begun. */
enum { TINY_WORK = 20000 };

static const struct Target {
  const Backend *backend;
  bool (*usable)(Fault *fault); /* NULL: always */
} targets[] = {
    {&backend_cpu, NULL},
    {&backend_cuda, cuda_usable},
    {&backend_reference, NULL},
};

const Backend *target_named(const char *name) {
  for (size_t k = 0; k < ARRAY_LEN(targets); k++)
    if (strcmp(targets[k].backend->name, name) == 0)
      return targets[k].backend;
  return NULL;
}

bool target_usable(const Backend *target, Fault *fault) {
  for (size_t k = 0; k < ARRAY_LEN(targets); k++)
    if (targets[k].backend == target && targets[k].usable)
      return targets[k].usable(fault);
  return true;
}

static const char *setting(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

/* -1: it is no number. */
static int64_t number_setting(const char *name, int64_t otherwise) {
  const char *text = setting(name);
  if (!text)
    return otherwise;
  char *end;
  long long number = strtoll(text, &end, 10);
  return *end || number < 0 ? -1 : number;
}

bool target_check(Fault *fault) {
  const char *name = setting("AXON_TARGET");
  if (name && !target_named(name)) {
    fault_set(fault, "AXON_TARGET=%s is nothing that programs run on", name);
    fault_help(fault, "it is " TARGET_NAMES ", or left unset");
    return false;
  }
  if (number_setting("AXON_TINY", TINY_WORK) < 0) {
    fault_set(fault, "AXON_TINY=%s is no number of operations",
              setting("AXON_TINY"));
    fault_help(fault, "give 0 or more, or leave it unset: then it is %d",
               TINY_WORK);
    return false;
  }
  if (number_setting("AXON_STREAM", 0) < 0) {
    fault_set(fault, "AXON_STREAM=%s is no number of bytes",
              setting("AXON_STREAM"));
    fault_help(fault, "give 0 or more, or leave it unset: then it is decided "
                      "by what the caches hold");
    return false;
  }
  if (number_setting("AXON_KEEP", 0) < 0) {
    fault_set(fault, "AXON_KEEP=%s is no number of bytes",
              setting("AXON_KEEP"));
    fault_help(fault, "give 0, so that no copies of operands are kept, or how "
                      "many bytes all of them may take: else it is a quarter "
                      "of the memory");
    return false;
  }
  if (number_setting("AXON_POOL", 0) < 0) {
    fault_set(fault, "AXON_POOL=%s is no number of bytes",
              setting("AXON_POOL"));
    fault_help(fault, "give 0, so that a GPU's memory goes back to the driver "
                      "at once, or how many bytes of it are kept for values to "
                      "come: else it is half of it");
    return false;
  }
  int64_t tf32 = number_setting("AXON_TF32", 0);
  if (tf32 < 0 || tf32 > 1) {
    fault_set(fault, "AXON_TF32=%s is neither 0 nor 1", setting("AXON_TF32"));
    fault_help(fault, "give 1, so that products of f32 on GPUs are rounded to "
                      "tf32, or leave it unset");
    return false;
  }
  return true;
}

void target_begin(Graph *g) {
  int64_t kept = number_setting("AXON_KEEP", -1);
  kept_limit(kept < 0 ? UINT64_MAX : (uint64_t)kept);
  const char *name = setting("AXON_TARGET");
  const Backend *target = name ? target_named(name) : NULL;
  int64_t tiny = number_setting("AXON_TINY", TINY_WORK);
  g->backend = target ? target : &backend_cpu;
  g->least_work = tiny < 0 ? TINY_WORK : tiny;
}
