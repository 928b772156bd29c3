/* Vector loads and stores. */
#include "backend/cuda/kernel.h"

static bool divides(const LoopNest *loop, int64_t x, uint32_t vector) {
  int64_t left;
  return extent_floor_mod(loop->graph, x, vector, &left) && left == 0;
}

bool cuda_depends_on_axis(const LoopNest *loop, const AffineExpr *at,
                          uint32_t axis) {
  if (at->coef[axis])
    return true;
  for (uint32_t q = 0; q < loop->floor_div_count; q++)
    if (at->coef[MAX_KERNEL_AXES + q] &&
        cuda_depends_on_axis(loop, &loop->floor_divs[q].dividend, axis))
      return true;
  return false;
}

bool cuda_is_invariant(const LoopNest *loop, const AffineExpr *at,
                       uint32_t axis) {
  return !cuda_depends_on_axis(loop, at, axis);
}

bool cuda_is_vectorizable(const LoopNest *loop, const AffineExpr *at,
                          uint32_t axis, uint32_t vector) {
  if (at->coef[axis] != 1 || !divides(loop, at->constant, vector))
    return false;
  for (uint32_t v = 0; v < loop->axis_count; v++)
    if (v != axis && !divides(loop, at->coef[v], vector))
      return false;
  for (uint32_t q = 0; q < MAX_FLOOR_DIVS;
       q++) /* floor divisions are computed later */
    if (at->coef[MAX_KERNEL_AXES + q])
      return false;
  return true;
}

const char *cuda_load_element(Emitter *e, Dtype t, const char *array,
                              const char *at) {
  if (dtype_is_narrow_float(t))
    return emit_format(e, "get_%s(%s + %s)", dtype_info[t].name, array, at);
  return emit_format(e, "%s[%s]%s", array, at, t == DT_BOOL ? " != 0" : "");
}

void cuda_put_vector_load(CudaWriter *w, Buffer *out, const KernelOp *s,
                          uint32_t axis, const char *to, const char *first,
                          const char *full, const char *left) {
  Emitter *e = &w->e;
  buffer_printf(
      out, "ax_load<%u>(%s, p%u + (%s + %s), %sax_aligned(p%u), %s);\n",
      w->s->vector_width, to, s->input,
      cuda_address_without(e, s->address, axis), first, full, s->input, left);
}

void cuda_put_vector_store(CudaWriter *w, Buffer *out, const LoopOutput *r,
                           uint32_t axis, const char *from, const char *first,
                           const char *full, const char *left) {
  uint32_t o = cuda_output_index(w, r);
  buffer_printf(
      out, "ax_store<%u>(o%u + (%s + %s), %s, %sax_aligned(o%u), %s);\n",
      w->s->vector_width, o, cuda_address_without(&w->e, r->global_index, axis),
      first, from, full, o, left);
}
