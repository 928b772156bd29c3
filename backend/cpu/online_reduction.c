/* Strip-mined loops: the values that one strip passes to the next.
 *
 * A sum continues.  A maximum or minimum has two values.  The first one
 * scales the exponentials so far.  It is finite initially, so that a strip of
 * infinities yields no NaN.  The second one is the actual value, which becomes
 * the result at the end.
 *
 * A term that underflows relative to the maximum of the whole row is
 * zero, and zero times infinity is NaN.  Relative to the maximum of its strip,
 * the term may not underflow.  So rows with a non-finite result are computed
 * again, with the final maxima. */
#include "backend/cpu/cpu_emitter.h"

#define format emit_format

static const char *c_type_of(const LoopOutput *r) {
  return r->dtype == DT_F64 ? "double" : "float";
}

static const LoopOutput *output_of(const Emitter *e, uint32_t loop,
                                   uint32_t output_index) {
  return &e->kernel->loops.at[loop]->outputs.at[output_index];
}

/* ---- at the end of a strip ---- */

void emit_online_update(Emitter *e, Buffer *out, const LoopOutput *r,
                        const char *to, const char *x) {
  const char *type = c_type_of(r);
  if (!prim_is_extreme(r->reduce)) {
    buffer_printf(out, "*(%s) = (%s)(*(%s) + %s);\n", to, type, to, x);
    return;
  }
  const char *extreme =
      emit_combine(e, r->reduce, value_class(r->dtype), false, "m[1]", "x");
  buffer_printf(out, "{ %s *const m = %s;\nconst %s x = %s;\nm[1] = %s; }\n",
                type, to, type, x, extreme);
}

/* Multiplies all values of a row by the factor. */
static void emit_scale_output(Emitter *e, Buffer *out, uint32_t loop,
                              uint32_t output_index) {
  const LoopOutput *r = output_of(e, loop, output_index),
                   *extreme_output =
                       output_of(e, r->rescale_loop, r->rescale_output);
  const LocalBuffer *l = &e->function.locals[loop][output_index];
  const char *type = c_type_of(r), *name = dtype_info[r->dtype].name;
  char class = value_class(extreme_output->dtype);
  VEC_PUSH(e->arena, e->emitted->call.floats, r->slope);
  buffer_printf(out,
                "{ const %s f = (%s)first_%c(exp_%c(splat_%c((%s)c[%u] * (now "
                "- m[0]))));\n"
                "%s *const x = l%u + (i%u - lo) * %s;\n",
                type, type, class, class, class, c_type_of(extreme_output),
                e->emitted->call.floats.len - 1 - e->function.first_float, type,
                l->id, e->kernel->parallel_axes - 1, l->point_elements);
  if (r->local_elements == 1) {
    buffer_puts(out, "*x *= f; }\n");
    return;
  }
  const char *n = emit_int(e, r->local_elements);
  buffer_printf(out,
                "int64_t j = 0;\nfor (; j + W <= %s; j += W)\n"
                "st_%s(x + j, ld_%s(x + j) * f);\n"
                "for (; j < %s; j++)\nx[j] *= f; }\n",
                n, name, name, n);
}

/* is_final: rescales to the actual extreme, which may be infinite. */
static void emit_rescale_dependents(Emitter *e, Buffer *out, uint32_t loop,
                                    uint32_t output_index, bool is_final) {
  const Kernel *k = e->kernel;
  const LoopOutput *r = output_of(e, loop, output_index);
  const LocalBuffer *l = &e->function.locals[loop][output_index];
  const char *new_extreme =
      emit_combine(e, r->reduce, value_class(r->dtype), false, "m[0]", "m[1]");
  buffer_printf(out,
                "{ %s *const m = l%u + (i%u - lo) * %s;\nconst %s now = %s;\n"
                "if (!(now == m[0])) {\n",
                c_type_of(r), l->id, k->parallel_axes - 1, l->point_elements,
                c_type_of(r), is_final ? "m[1]" : new_extreme);
  for (uint32_t j = k->strip_begin; j < k->strip_end; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->outputs.len; i++) {
      const LoopOutput *s = output_of(e, j, i);
      if (s->rescaled && s->rescale_loop == loop &&
          s->rescale_output == output_index)
        emit_scale_output(e, out, j, i);
    }
  buffer_puts(out, "m[0] = now;\n}\n}\n");
}

static bool is_running_extreme(const LoopOutput *r) {
  return r->loop_carried && prim_is_extreme(r->reduce);
}

void emit_online_rescale(Emitter *e, Buffer *out, uint32_t loop) {
  for (uint32_t i = 0; i < e->kernel->loops.at[loop]->outputs.len; i++)
    if (is_running_extreme(output_of(e, loop, i)))
      emit_rescale_dependents(e, out, loop, i, false);
}

/* ---- before the first and after the last strip ---- */

static void emit_init(Buffer *out, const LoopOutput *r, const LocalBuffer *l) {
  const char *initial = r->dtype == DT_F64 ? "__DBL_MAX__" : "__FLT_MAX__";
  char sign = reduce_info[r->reduce].order == ORDER_MAX ? '-' : '+';
  if (!prim_is_extreme(r->reduce))
    buffer_printf(out,
                  "for (int64_t x = 0; x < (hi - lo) * %s; x++)\n"
                  "l%u[x] = 0;\n",
                  l->point_elements, l->id);
  else
    buffer_printf(out,
                  "for (int64_t x = 0; !again && x < hi - lo; x++) {\n"
                  "l%u[2 * x] = %c%s;\nl%u[2 * x + 1] = %c__builtin_inff();\n"
                  "}\n",
                  l->id, sign, initial, l->id, sign);
}

static void emit_inits(Emitter *e, Buffer *out) {
  for (uint32_t j = e->kernel->strip_begin; j < e->kernel->strip_end; j++)
    for (uint32_t i = 0; i < e->kernel->loops.at[j]->outputs.len; i++)
      if (output_of(e, j, i)->loop_carried)
        emit_init(out, output_of(e, j, i), &e->function.locals[j][i]);
}

static void emit_final_rescales(Emitter *e, Buffer *out) {
  uint32_t row = e->kernel->parallel_axes - 1;
  buffer_printf(out, "for (int64_t i%u = lo; i%u < hi; i%u++) {\n", row, row,
                row);
  for (uint32_t j = e->kernel->strip_begin; j < e->kernel->strip_end; j++)
    for (uint32_t i = 0; i < e->kernel->loops.at[j]->outputs.len; i++)
      if (is_running_extreme(output_of(e, j, i)))
        emit_rescale_dependents(e, out, j, i, true);
  buffer_puts(out, "}\n");
}

/* Checks that all rescaled values are finite. */
static void emit_finite_check(Emitter *e, Buffer *out) {
  buffer_puts(out, "int odd_sums = 0;\n");
  for (uint32_t j = e->kernel->strip_begin; j < e->kernel->strip_end; j++)
    for (uint32_t i = 0; i < e->kernel->loops.at[j]->outputs.len; i++) {
      const LocalBuffer *l = &e->function.locals[j][i];
      if (output_of(e, j, i)->rescaled)
        buffer_printf(out,
                      "for (int64_t x = 0; x < (hi - lo) * %s; x++)\n"
                      "odd_sums |= !(l%u[x] - l%u[x] == 0);\n",
                      l->point_elements, l->id, l->id);
    }
  buffer_puts(out, "if (again || !odd_sums)\nbreak;\n");
}

/* ---- entry point ---- */

/* The part of each loop's axis, and of its values, that the strip has. */
static void emit_strip_bounds(Emitter *e, Buffer *out, uint32_t loop_index,
                              const char *size) {
  const LoopNest *loop = e->kernel->loops.at[loop_index];
  buffer_printf(out,
                "const int64_t from%u = low%u > at ? low%u : at;\n"
                "const int64_t to%u = high%u < at + %s ? high%u : at + %s;\n",
                loop_index, loop_index, loop_index, loop_index, loop_index,
                size, loop_index, size);
  for (uint32_t i = 0; i < loop->outputs.len; i++) {
    const LocalBuffer *l = &e->function.locals[loop_index][i];
    if (l->strip_mined)
      buffer_printf(out, "%s *const l%u = r%u - at;\n",
                    memory_type(loop->outputs.at[i].dtype), l->id, l->id);
  }
}

void emit_online_reduction(Emitter *e, Buffer *out, EmitLoops *loops) {
  uint32_t from = e->kernel->strip_begin, to = e->kernel->strip_end;
  const char *size = emit_int(e, e->cpu->schedule->strip_length);
  loops(e, out, 0, from);
  buffer_puts(out, "for (int again = 0;; again = 1) {\n");
  emit_inits(e, out);
  buffer_printf(out, "int64_t at0 = low%u, at1 = high%u;\n", from, from);
  for (uint32_t j = from + 1; j < to; j++)
    buffer_printf(out,
                  "if (low%u < at0)\nat0 = low%u;\n"
                  "if (high%u > at1)\nat1 = high%u;\n",
                  j, j, j, j);
  buffer_printf(out, "for (int64_t at = at0 / %s * %s; at < at1; at += %s) {\n",
                size, size, size);
  for (uint32_t j = from; j < to; j++)
    emit_strip_bounds(e, out, j, size);
  loops(e, out, from, to);
  buffer_puts(out, "}\n");
  emit_final_rescales(e, out);
  emit_finite_check(e, out);
  buffer_puts(out, "}\n");
  loops(e, out, to, e->kernel->loops.len);
}
