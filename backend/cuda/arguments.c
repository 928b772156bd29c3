/* The struct of arguments of a pass, as the compiler of its text lays it out:
 * pointers, indices, divisors, numbers, tensor maps. */
#include "backend/cuda/kernel.h"

#include <string.h>

typedef struct Divisor {
  uint32_t by, magic, shift;
} Divisor;
typedef struct Number {
  double wide;
  float narrow;
} Number;

typedef struct Places { /* in bytes */
  size_t ints, divisors, numbers, maps, end;
  uint32_t pointers;
} Places;

static size_t up(size_t at, size_t to) {
  return (at + to - 1) / to * to;
}

static Places places_of(const CudaKernel *k, const CudaPass *p) {
  Places at = {.pointers = k->pointers};
  size_t index = k->narrow ? sizeof(int32_t) : sizeof(int64_t);
  const Call *call = &p->emitted.call;
  at.ints = at.pointers * sizeof(uint64_t);
  at.divisors = at.ints + call->ints.len * index;
  at.numbers =
      at.divisors + p->divisors.len * (k->narrow ? sizeof(Divisor) : index);
  if (call->floats.len)
    at.numbers = up(at.numbers, sizeof(double));
  at.maps = at.numbers + call->floats.len * sizeof(Number);
  at.end = at.maps = up(at.maps, sizeof(double));
  if (p->maps.len) {
    at.maps = up(at.maps, ARGUMENTS_LINE);
    at.end = at.maps + p->maps.len * MAP_BYTES;
  }
  return at;
}

size_t cuda_argument_bytes(const CudaKernel *k, const CudaPass *p) {
  return places_of(k, p).end;
}

bool cuda_is_far(const CudaKernel *k, const CudaPass *p) {
  return cuda_argument_bytes(k, p) > ARGUMENTS_MOST;
}

/* floor(x / by) = (high half of x * magic, + x) >> shift for x below 2^31:
 * Granlund and Montgomery, "Division by invariant integers using
 * multiplication" (1994), figure 4.1. */
static Divisor divisor_of(int64_t by) {
  Divisor d = {.by = (uint32_t)by};
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

void cuda_arguments(const CudaKernel *k, const CudaPass *p,
                    const uint64_t *pointers, const double *floats,
                    const Key *keys, void *to) {
  Places at = places_of(k, p);
  const Call *call = &p->emitted.call;
  char *bytes = to;
  memset(bytes, 0, at.end);
  memcpy(bytes, pointers, at.ints);
  for (uint32_t j = 0; j < call->ints.len; j++)
    put_index(k->narrow, bytes + at.ints, j, call->ints.at[j]);
  for (uint32_t j = 0; j < call->keys.len; j++) {
    const KeyWord *w = &call->keys.at[j];
    Key key = key_value(key_mark(w->key), keys);
    put_index(k->narrow, bytes + at.ints, w->at, (int64_t)key.word[w->word]);
  }
  for (uint32_t j = 0; j < p->divisors.len; j++) {
    Divisor d = divisor_of(p->divisors.at[j]);
    if (k->narrow)
      memcpy(bytes + at.divisors + j * sizeof d, &d, sizeof d);
    else
      put_index(false, bytes + at.divisors, j, p->divisors.at[j]);
  }
  for (uint32_t j = 0; j < call->floats.len; j++) {
    Number x = {floats[j], (float)floats[j]};
    memcpy(bytes + at.numbers + j * sizeof x, &x, sizeof x);
  }
}

bool cuda_put_maps(const CudaKernel *k, const CudaPass *p, CudaGpu *gpu,
                   const uint64_t *pointers, void *to, Fault *fault) {
  char *bytes = (char *)to + places_of(k, p).maps;
  for (uint32_t j = 0; j < p->maps.len; j++) {
    const CudaMap *m = &p->maps.at[j];
    bool empty = false;
    for (uint32_t v = 0; v < m->rank; v++)
      empty |= m->extent[v] == 0;
    CudaMap of = *m;
    if (empty) { /* at what is always there: the word for checks */
      of.pointer = k->pointers - 1;
      of.at = 0;
    }
    if (!cuda_map_put(gpu, &of, pointers[of.pointer], bytes + j * MAP_BYTES,
                      fault))
      return false;
  }
  return true;
}
