/* Loops that go along an axis in portions: what goes from one portion to the
 * next.
 *
 * A sum goes on where it was.  Of an extreme there are two numbers: that by
 * which exponentials were scaled so far, which begins finite, so that a portion
 * of infinities leaves no NaN behind; and what it is, which comes into its
 * place in the end.
 *
 * What is too small beside the extreme of the whole row is zero, and zero times
 * infinity is no number; beside that of its portion it may not have been.  So
 * rows that come to what is not finite are done once more, with the extremes
 * that are known by then. */
#include "backend/cpu/emit.h"

#define format emit_format

static const char *type_of(const Result *r) {
  return r->dtype == DT_F64 ? "double" : "float";
}

static const Result *result_of(const Emitter *e, uint32_t loop, uint32_t at) {
  return &e->k->loops.at[loop]->results.at[at];
}

/* ---- at the end of a portion ---- */

void emit_carried(Emitter *e, Buffer *out, const Result *r, const char *to,
                  const char *x) {
  const char *type = type_of(r);
  if (r->reduce == PRIM_SUM) {
    buffer_printf(out, "*(%s) = (%s)(*(%s) + %s);\n", to, type, to, x);
    return;
  }
  const char *most = emit_extreme(e, r->reduce == PRIM_MAX, class_of(r->dtype),
                                  false, "m[1]", "x");
  buffer_printf(out, "{ %s *const m = %s;\nconst %s x = %s;\nm[1] = %s; }\n",
                type, to, type, x, most);
}

/* times the factor, all of a row */
static void emit_scaled(Emitter *e, Buffer *out, uint32_t loop, uint32_t at) {
  const Result *r = result_of(e, loop, at),
               *by = result_of(e, r->scale_loop, r->scale_result);
  const Local *l = &e->locals[loop][at];
  const char *type = type_of(r), *name = dtype_info[r->dtype].name;
  char class = class_of(by->dtype);
  VEC_PUSH(e->arena, e->out->call.floats, r->slope);
  buffer_printf(out,
                "{ const %s f = (%s)first_%c(exp_%c(splat_%c((%s)c[%u] * (now "
                "- m[0]))));\n"
                "%s *const x = l%u + (i%u - lo) * %s;\n",
                type, type, class, class, class, type_of(by),
                e->out->call.floats.len - 1 - e->floats_from, type, l->name,
                e->k->outer - 1, l->size);
  if (r->local_size == 1) {
    buffer_puts(out, "*x *= f; }\n");
    return;
  }
  const char *n = emit_int(e, r->local_size);
  buffer_printf(out,
                "int64_t j = 0;\nfor (; j + W <= %s; j += W)\n"
                "st_%s(x + j, ld_%s(x + j) * f);\n"
                "for (; j < %s; j++)\nx[j] *= f; }\n",
                n, name, name, n);
}

/* last: to what the extreme is, whatever that is */
static void emit_rescale(Emitter *e, Buffer *out, uint32_t loop, uint32_t at,
                         bool last) {
  const Kernel *k = e->k;
  const Result *r = result_of(e, loop, at);
  const Local *l = &e->locals[loop][at];
  const char *now = emit_extreme(e, r->reduce == PRIM_MAX, class_of(r->dtype),
                                 false, "m[0]", "m[1]");
  buffer_printf(out,
                "{ %s *const m = l%u + (i%u - lo) * %s;\nconst %s now = %s;\n"
                "if (!(now == m[0])) {\n",
                type_of(r), l->name, k->outer - 1, l->size, type_of(r),
                last ? "m[1]" : now);
  for (uint32_t j = k->portion_from; j < k->portion_to; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->results.len; i++) {
      const Result *s = result_of(e, j, i);
      if (s->scaled && s->scale_loop == loop && s->scale_result == at)
        emit_scaled(e, out, j, i);
    }
  buffer_puts(out, "m[0] = now;\n}\n}\n");
}

static bool is_carried_extreme(const Result *r) {
  return r->carried && r->reduce != PRIM_SUM;
}

void emit_rescaled(Emitter *e, Buffer *out, uint32_t loop) {
  for (uint32_t i = 0; i < e->k->loops.at[loop]->results.len; i++)
    if (is_carried_extreme(result_of(e, loop, i)))
      emit_rescale(e, out, loop, i, false);
}

/* ---- before the first and behind the last ---- */

static void emit_start(Buffer *out, const Result *r, const Local *l) {
  const char *least = r->dtype == DT_F64 ? "__DBL_MAX__" : "__FLT_MAX__";
  char sign = r->reduce == PRIM_MAX ? '-' : '+';
  if (r->reduce == PRIM_SUM)
    buffer_printf(out,
                  "for (int64_t x = 0; x < (hi - lo) * %s; x++)\n"
                  "l%u[x] = 0;\n",
                  l->size, l->name);
  else
    buffer_printf(out,
                  "for (int64_t x = 0; !again && x < hi - lo; x++) {\n"
                  "l%u[2 * x] = %c%s;\nl%u[2 * x + 1] = %c__builtin_inff();\n"
                  "}\n",
                  l->name, sign, least, l->name, sign);
}

static void emit_starts(Emitter *e, Buffer *out) {
  for (uint32_t j = e->k->portion_from; j < e->k->portion_to; j++)
    for (uint32_t i = 0; i < e->k->loops.at[j]->results.len; i++)
      if (result_of(e, j, i)->carried)
        emit_start(out, result_of(e, j, i), &e->locals[j][i]);
}

static void emit_ends(Emitter *e, Buffer *out) {
  uint32_t row = e->k->outer - 1;
  buffer_printf(out, "for (int64_t i%u = lo; i%u < hi; i%u++) {\n", row, row,
                row);
  for (uint32_t j = e->k->portion_from; j < e->k->portion_to; j++)
    for (uint32_t i = 0; i < e->k->loops.at[j]->results.len; i++)
      if (is_carried_extreme(result_of(e, j, i)))
        emit_rescale(e, out, j, i, true);
  buffer_puts(out, "}\n");
}

/* Is all of them finite that an extreme scales? */
static void emit_finite(Emitter *e, Buffer *out) {
  buffer_puts(out, "int odd_sums = 0;\n");
  for (uint32_t j = e->k->portion_from; j < e->k->portion_to; j++)
    for (uint32_t i = 0; i < e->k->loops.at[j]->results.len; i++) {
      const Local *l = &e->locals[j][i];
      if (result_of(e, j, i)->scaled)
        buffer_printf(out,
                      "for (int64_t x = 0; x < (hi - lo) * %s; x++)\n"
                      "odd_sums |= !(l%u[x] - l%u[x] == 0);\n",
                      l->size, l->name, l->name);
    }
  buffer_puts(out, "if (again || !odd_sums)\nbreak;\n");
}

/* ---- the whole ---- */

/* The part of each loop's axis, and of its values, that the portion has. */
static void emit_portion(Emitter *e, Buffer *out, uint32_t at,
                         const char *size) {
  const Loop *loop = e->k->loops.at[at];
  buffer_printf(out,
                "const int64_t from%u = low%u > at ? low%u : at;\n"
                "const int64_t to%u = high%u < at + %s ? high%u : at + %s;\n",
                at, at, at, at, at, size, at, size);
  for (uint32_t i = 0; i < loop->results.len; i++) {
    const Local *l = &e->locals[at][i];
    if (l->portioned)
      buffer_printf(out, "%s *const l%u = r%u - at;\n",
                    memory_type(loop->results.at[i].dtype), l->name, l->name);
  }
}

void emit_portions(Emitter *e, Buffer *out, EmitLoops *loops) {
  uint32_t from = e->k->portion_from, to = e->k->portion_to;
  const char *size = emit_int(e, e->s->portion);
  loops(e, out, 0, from);
  buffer_puts(out, "for (int again = 0;; again = 1) {\n");
  emit_starts(e, out);
  buffer_printf(out, "int64_t at0 = low%u, at1 = high%u;\n", from, from);
  for (uint32_t j = from + 1; j < to; j++)
    buffer_printf(out,
                  "if (low%u < at0)\nat0 = low%u;\n"
                  "if (high%u > at1)\nat1 = high%u;\n",
                  j, j, j, j);
  buffer_printf(out, "for (int64_t at = at0 / %s * %s; at < at1; at += %s) {\n",
                size, size, size);
  for (uint32_t j = from; j < to; j++)
    emit_portion(e, out, j, size);
  loops(e, out, from, to);
  buffer_puts(out, "}\n");
  emit_ends(e, out);
  emit_finite(e, out);
  buffer_puts(out, "}\n");
  loops(e, out, to, e->k->loops.len);
}
