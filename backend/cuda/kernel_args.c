/* The argument struct of a pass, with the layout of its CUDA source: pointers,
 * indices, divisors, numbers, tensor maps. */
#include "backend/cuda/kernel.h"

#include <string.h>

typedef struct FastDivisor {
  uint32_t by, magic, shift;
} FastDivisor;
typedef struct ScalarParam {
  double f64;
  float f32;
} ScalarParam;

/* Offsets in bytes. */
typedef struct ArgsLayout {
  size_t ints, divisors, numbers, maps, end;
  uint32_t pointers;
} ArgsLayout;

static size_t align_up(size_t at, size_t to) {
  return (at + to - 1) / to * to;
}

static ArgsLayout args_layout(const CudaKernel *k, const CudaPass *p) {
  ArgsLayout at = {.pointers = k->pointer_count};
  size_t index = k->int32_indices ? sizeof(int32_t) : sizeof(int64_t);
  const Call *call = &p->emitted.call;
  at.ints = at.pointers * sizeof(uint64_t);
  at.divisors = at.ints + call->ints.len * index;
  at.numbers =
      at.divisors +
      p->divisors.len * (k->int32_indices ? sizeof(FastDivisor) : index);
  if (call->floats.len)
    at.numbers = align_up(at.numbers, sizeof(double));
  at.maps = at.numbers + call->floats.len * sizeof(ScalarParam);
  at.end = at.maps = align_up(at.maps, sizeof(double));
  if (p->tensor_maps.len) {
    at.maps = align_up(at.maps, KERNEL_ARGS_ALIGN);
    at.end = at.maps + p->tensor_maps.len * TENSOR_MAP_BYTES;
  }
  return at;
}

size_t cuda_args_bytes(const CudaKernel *k, const CudaPass *p) {
  return args_layout(k, p).end;
}

bool cuda_has_indirect_args(const CudaKernel *k, const CudaPass *p) {
  return cuda_args_bytes(k, p) > MAX_KERNEL_ARGS_BYTES;
}

/* floor(x / by) = (high half of x * magic, + x) >> shift for 0 <= x < 2^31:
 * Granlund and Montgomery, "Division by invariant integers using
 * multiplication" (1994), figure 4.1. */
static FastDivisor fast_divisor(int64_t by) {
  FastDivisor d = {.by = (uint32_t)by};
  while (((int64_t)1 << d.shift) < by)
    d.shift++;
  d.magic = (uint32_t)((((uint64_t)1 << 32) *
                        (((uint64_t)1 << d.shift) - (uint64_t)by)) /
                           (uint64_t)by +
                       1);
  return d;
}

static void put_index(bool narrow, char *to, uint32_t j, int64_t x) {
  int32_t small = (int32_t)x;
  if (narrow)
    memcpy(to + j * sizeof small, &small, sizeof small);
  else
    memcpy(to + j * sizeof x, &x, sizeof x);
}

void cuda_fill_args(const CudaKernel *k, const CudaPass *p,
                    const uint64_t *pointers, const double *floats,
                    const PrngKey *keys, void *to) {
  ArgsLayout at = args_layout(k, p);
  const Call *call = &p->emitted.call;
  char *bytes = to;
  memset(bytes, 0, at.end);
  memcpy(bytes, pointers, at.ints);
  for (uint32_t j = 0; j < call->ints.len; j++)
    put_index(k->int32_indices, bytes + at.ints, j, call->ints.at[j]);
  for (uint32_t j = 0; j < call->key_params.len; j++) {
    const KeyParam *w = &call->key_params.at[j];
    PrngKey key = key_resolve(key_placeholder(w->key_index), keys);
    put_index(k->int32_indices, bytes + at.ints, w->int_index,
              (int64_t)key.word[w->word_index]);
  }
  for (uint32_t j = 0; j < p->divisors.len; j++) {
    FastDivisor d = fast_divisor(p->divisors.at[j]);
    if (k->int32_indices)
      memcpy(bytes + at.divisors + j * sizeof d, &d, sizeof d);
    else
      put_index(false, bytes + at.divisors, j, p->divisors.at[j]);
  }
  for (uint32_t j = 0; j < call->floats.len; j++) {
    ScalarParam x = {floats[j], (float)floats[j]};
    memcpy(bytes + at.numbers + j * sizeof x, &x, sizeof x);
  }
}

bool cuda_encode_tensor_maps(const CudaKernel *k, const CudaPass *p,
                             CudaContext *gpu, const uint64_t *pointers,
                             void *to, Fault *fault) {
  char *bytes = (char *)to + args_layout(k, p).maps;
  for (uint32_t j = 0; j < p->tensor_maps.len; j++) {
    const TensorMap *m = &p->tensor_maps.at[j];
    bool empty = false;
    for (uint32_t v = 0; v < m->rank; v++)
      empty |= m->extent[v] == 0;
    TensorMap of = *m;
    if (empty) { /* an empty tensor has no address: use the word of checks */
      of.pointer_index = k->pointer_count - 1;
      of.offset_bytes = 0;
    }
    if (!tensor_map_encode(gpu, &of, pointers[of.pointer_index],
                           bytes + j * TENSOR_MAP_BYTES, fault))
      return false;
  }
  return true;
}
