/* Accesses of several elements that lie next to each other. */
#include "backend/cuda/kernel.h"

static bool divides(const Loop *loop, int64_t x, uint32_t vector) {
  int64_t left;
  return size_mod(loop->graph, x, vector, &left) && left == 0;
}

bool cuda_depends(const Loop *loop, const Quasi *at, uint32_t axis) {
  if (at->times[axis])
    return true;
  for (uint32_t q = 0; q < loop->quotient_count; q++)
    if (at->times[KERNEL_AXES + q] &&
        cuda_depends(loop, &loop->quotients[q].of, axis))
      return true;
  return false;
}

bool cuda_is_even(const Loop *loop, const Quasi *at, uint32_t axis) {
  return !cuda_depends(loop, at, axis);
}

bool cuda_is_affine(const Quasi *q) {
  for (uint32_t v = KERNEL_AXES; v < KERNEL_VARS; v++)
    if (q->times[v])
      return false;
  return true;
}

bool cuda_is_vector(const Loop *loop, const Quasi *at, uint32_t axis,
                    uint32_t vector) {
  if (at->times[axis] != 1 || !divides(loop, at->constant, vector))
    return false;
  for (uint32_t v = 0; v < loop->axes; v++)
    if (v != axis && !divides(loop, at->times[v], vector))
      return false;
  for (uint32_t q = 0; q < QUOTIENTS; q++) /* whose text comes later */
    if (at->times[KERNEL_AXES + q])
      return false;
  return true;
}

const char *cuda_element(Emitter *e, Dtype t, const char *array,
                         const char *at) {
  if (t == DT_F16 || t == DT_BF16)
    return emit_format(e, "get_%s(%s + %s)", dtype_info[t].name, array, at);
  return emit_format(e, "%s[%s]%s", array, at, t == DT_BOOL ? " != 0" : "");
}

void cuda_put_load(CudaWriter *w, Buffer *out, const Step *s, uint32_t axis,
                   const char *to, const char *first, const char *full,
                   const char *left) {
  Emitter *e = &w->e;
  buffer_printf(out,
                "ax_load<%u>(%s, p%u + (%s + %s), %sax_aligned(p%u), %s);\n",
                w->s->vector, to, s->input, cuda_address(e, s->address, axis),
                first, full, s->input, left);
}

void cuda_put_vector(CudaWriter *w, Buffer *out, const Result *r, uint32_t axis,
                     const char *from, const char *first, const char *full,
                     const char *left) {
  uint32_t o = cuda_out_number(w, r);
  buffer_printf(out,
                "ax_store<%u>(o%u + (%s + %s), %s, %sax_aligned(o%u), %s);\n",
                w->s->vector, o, cuda_address(&w->e, r->out, axis), first, from,
                full, o, left);
}
