/* Vector loads and stores: one access of several elements before or after the
 * loop over the lanes, which then takes its elements from an array. */
#include "backend/cuda/kernel.h"

#define format emit_format

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

bool vector_fits(const VectorAccess *v, const AffineExpr *at) {
  return v->width > 1 && cuda_is_vectorizable(v->loop, at, v->axis, v->width);
}

const char *vector_declare(const VectorAccess *v, Buffer *out, char prefix,
                           Dtype t, uint32_t vectors) {
  Emitter *e = &v->w->e;
  const char *name = format(e, "%c%u", prefix, e->next_id++);
  buffer_printf(out, "%s %s[%u];\n", memory_type(t), name, vectors * v->width);
  return name;
}

/* The elements from `first` on. */
static const char *left_elements(const VectorAccess *v) {
  return v->is_masked ? "left" : format(&v->w->e, "%u", v->width);
}

void vector_put_load(const VectorAccess *v, Buffer *out, const KernelOp *s,
                     const char *to, const char *condition) {
  Emitter *e = &v->w->e;
  buffer_printf(
      out, "ax_load<%u>(%s, p%u + (%s + first), %sax_aligned(p%u), %s);\n",
      v->width, to, s->input, cuda_address_without(e, s->address, v->axis),
      condition      ? condition
      : v->is_masked ? "full && "
                     : "",
      s->input, left_elements(v));
}

const char *vector_load(VectorAccess *v, const KernelOp *s) {
  const char *name = vector_declare(v, &v->loads, 'r', s->dtype, 1);
  vector_put_load(v, &v->loads, s, name, NULL);
  return cuda_load_element(&v->w->e, s->dtype, name, "v");
}

/* Stores an element in its array, and the array after the lanes. */
static void vector_store(VectorAccess *v, Buffer *out, const LoopOutput *r,
                         const char *live, const char *x) {
  uint32_t o = cuda_output_index(v->w, r);
  const char *name = vector_declare(v, &v->loads, 'w', r->dtype, 1);
  cuda_put_store_at(out, r->dtype, name, "v", x);
  if (live)
    buffer_printf(&v->stores, "if (%s)\n", live);
  buffer_printf(
      &v->stores,
      "ax_store<%u>(o%u + (%s + first), %s, %sax_aligned(o%u), %s);\n",
      v->width, o, cuda_address_without(&v->w->e, r->global_index, v->axis),
      name, v->is_masked ? "full && " : "", o, left_elements(v));
}

void vector_put_store(VectorAccess *v, Buffer *out, const LoopOutput *r,
                      const char *live, const char *x) {
  if (vector_fits(v, r->global_index)) {
    vector_store(v, out, r, live, x);
    return;
  }
  if (live)
    buffer_printf(out, "if (%s)\n", live);
  if (v->is_masked)
    buffer_puts(out, "if (v < left)\n");
  cuda_put_store(v->w, out, r, x);
}

void vector_open(const VectorAccess *v, Buffer *out) {
  buffer_printf(out,
                "#pragma unroll\nfor (int v = 0; v < %u; v++) {\n"
                "const %s i%u = first + %s;\n",
                v->width, v->w->dialect.index_type, v->axis,
                v->is_masked ? "(v < left ? v : 0)" : "v");
}
