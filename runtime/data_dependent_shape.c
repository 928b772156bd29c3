/* Operations whose result shape depends on data. */
#include "runtime/runtime.h"

#include <math.h>
#include <string.h>

enum {
  BLOCK_ELEMENTS = 64
}; /* elements that a loop without bounds check handles */

static int64_t count_true(const uint8_t *flags, int64_t n) {
  int64_t count = 0, i = 0;
  for (; i + BLOCK_ELEMENTS <= n; i += BLOCK_ELEMENTS) {
    uint8_t sum = 0;
    for (int64_t j = 0; j < BLOCK_ELEMENTS; j++)
      sum += flags[i + j] != 0;
    count += sum;
  }
  for (; i < n; i++)
    count += flags[i] != 0;
  return count;
}

Tensor *tensor_nonzero(const Tensor *x, Fault *fault) {
  const uint8_t *flags = x->data; /* of bool */
  int64_t count = count_true(flags, x->count), i = 0, k = 0;
  Tensor *t = tensor_new(DT_I64, 1, &count, false, fault);
  if (!t)
    return NULL;
  int64_t *to = t->data;
  /* The next position is always written, since a branch on the flags would be
   * mispredicted. */
  for (; k + BLOCK_ELEMENTS <= count; i += BLOCK_ELEMENTS)
    for (int64_t j = 0; j < BLOCK_ELEMENTS; j++) {
      to[k] = i + j;
      k += flags[i + j] != 0;
    }
  for (; k < count; i++) {
    to[k] = i;
    k += flags[i] != 0;
  }
  return t;
}

/* NaN equals NaN and 0 equals -0, as in sorting. */
static bool differs_from_previous(const Tensor *x, int64_t i) {
  if (i == 0)
    return true;
  Scalar a = scalar_load(x->dtype, tensor_at(x, i - 1)),
         b = scalar_load(x->dtype, tensor_at(x, i));
  if (!dtype_is_float(x->dtype))
    return a.i != b.i;
  return a.f != b.f && !(isnan(a.f) && isnan(b.f));
}

Tensor *tensor_run_starts(const Tensor *x, Fault *fault) {
  int64_t count = 0, to = 0;
  for (int64_t i = 0; i < x->count; i++)
    count += differs_from_previous(x, i);
  Tensor *t = tensor_new(DT_I64, 1, &count, false, fault);
  for (int64_t i = 0; t && to < count; i++)
    if (differs_from_previous(x, i))
      *(int64_t *)tensor_at(t, to++) = i;
  return t;
}

Tensor *tensor_take_rows(const Tensor *x, const Tensor *rows, Fault *fault) {
  int64_t shape[MAX_RANK];
  if (x->rank == 0 || rows->rank != 1) {
    fault_set(fault, "a scalar has no rows");
    return NULL;
  }
  memcpy(shape, x->shape, x->rank * sizeof *shape);
  shape[0] = rows->count;
  size_t row = dtype_info[x->dtype].bytes;
  for (uint32_t k = 1; k < x->rank; k++)
    row *= (size_t)shape[k];
  Tensor *t = tensor_new(x->dtype, x->rank, shape, false, fault);
  if (t)
    t->broadcast_mask = x->broadcast_mask & ~(uint32_t)1;
  for (int64_t i = 0; t && i < rows->count; i++) {
    int64_t at = scalar_load(rows->dtype, tensor_at(rows, i)).i;
    if (at < 0 || at >= x->shape[0]) {
      fault_set(fault, "index %lld is out of bounds for axis 0 of size %lld",
                (long long)at, (long long)x->shape[0]);
      tensor_release(t);
      return NULL;
    }
    memcpy((char *)t->data + (size_t)i * row,
           (const char *)x->data + (size_t)at * row, row);
  }
  return t;
}
