/* Argmax and argmin of rows in memory, and of long rows, split into chunks for
 * all threads.
 *
 * Each chunk stores its position and, behind the positions of all chunks, its
 * value in eight bytes.  Chunks are combined in order: the first of equal
 * elements wins, and NaN is larger than any number. */
#include "backend/cpu/loop_writer.h"

#define format emit_format

/* ---- rows in memory ---- */

static bool has_search(Dtype t) {
  return t == DT_U8 || t == DT_I8 || t == DT_I32 || t == DT_I64 ||
         t == DT_F16 || t == DT_BF16 || t == DT_F32 || t == DT_F64;
}

bool emit_can_search(const Emitter *e) {
  const LoopNest *loop = e->loop;
  if (loop->outputs.len != 1 ||
      !prim_is_arg_reduction(loop->outputs.at[0].reduce))
    return false;
  const KernelOp *s = &loop->ops.at[loop->outputs.at[0].value_op];
  uint32_t v = loop->spatial_axes;
  return s->kind == KOP_LOAD && !s->checked_index_count && e->width > 1 &&
         loop->axis_count == v + 1 && e->vector_axis == v &&
         !loop_is_trimmed(loop, v) && !loop->floor_div_count &&
         s->address->coef[v] == 1 && has_search(s->dtype) &&
         loop_extent_hint(loop, v) >= MIN_SEARCHED_ROW;
}

const char *emit_arg_search_row(Emitter *e, const Accumulator *f) {
  const LoopNest *loop = e->loop;
  const KernelOp *s = &loop->ops.at[f->output->value_op];
  uint32_t v = loop->spatial_axes;
  if (!emit_can_search(e))
    return NULL;
  AffineExpr *q = affine_copy(e->arena, s->address);
  q->coef[v] = 0;
  return format(e, "p%u + %s", s->input, emit_affine(e, q));
}

const char *emit_arg_search(Emitter *e, const Accumulator *f, const char *row) {
  const KernelOp *s = &e->loop->ops.at[f->output->value_op];
  return format(e, "first_%s_%s(%s + start, end - start) + start",
                accumulator_order(f)->accumulate, dtype_info[s->dtype].name,
                row);
}

/* ---- chunks ---- */

static void emit_bits_union(Buffer *out, char class, const char *names) {
  buffer_printf(out, "union { %s x; int64_t bits; } %s = {.bits = 0};\n",
                scalar_type(class), names);
}

void emit_arg_row_partial(Buffer *out, const ArgReductionPart *p) {
  char index_class = p->wide_index ? 'l' : 'i';
  buffer_printf(out, "{ const int64_t r = %s;\n", p->best_index);
  emit_bits_union(out, p->class, "value");
  if (p->row && dtype_is_narrow_float(p->dtype))
    buffer_printf(out, "value.x = get_%s(%s + r);\n", dtype_info[p->dtype].name,
                  p->row);
  else if (p->row)
    buffer_printf(out, "value.x = *(%s + r);\n", p->row);
  else
    buffer_printf(out,
                  "for (int l = 0; l < W; l++)\n"
                  "if (lane_%c(at%u%s, l) == r)\n"
                  "value.x = lane_%c(acc%u%s, l);\n",
                  index_class, p->accumulator_id, p->accumulator_index,
                  p->class, p->accumulator_id, p->accumulator_index);
  buffer_printf(out, "*(%s) = r;\n*(%s + values) = value.bits; }\n", p->address,
                p->address);
}

void emit_arg_column_partials(Emitter *e, Buffer *out,
                              const ArgReductionPart *p, int64_t stride) {
  buffer_puts(out, "for (int64_t j = start, a = 0; j < end; j += W, a++)\n"
                   "for (int l = 0; l < W && j + l < end; l++) {\n");
  emit_bits_union(out, p->class, "value");
  buffer_printf(out,
                "value.x = lane_%c(acc%u[a], l);\n"
                "*(%s + (j + l) * %s + values) = value.bits;\n}\n",
                p->class, p->accumulator_id, p->address, emit_int(e, stride));
}

void emit_arg_combine(Emitter *e, Buffer *out) {
  const LoopNest *loop = e->kernel->loops.at[0];
  const LoopOutput *r = &loop->outputs.at[0];
  char class = value_class(loop->ops.at[r->value_op].dtype);
  const char *op = order_info[reduce_info[r->reduce].order].comparison;
  buffer_printf(out,
                "%sint fold%s" TASK_PARAMETERS "(void)c, (void)room;\n"
                "int64_t *restrict const o = p[0];\n"
                "const int64_t *const s = p[1], *const v = s + n[0] * n[1];\n"
                "for (int64_t u = begin; u < end; u++) {\n",
                *e->suffix ? "static " : "", e->suffix);
  emit_bits_union(out, class, "next = {.bits = 0}, best");
  buffer_printf(out,
                "int64_t at = 0;\nbest.bits = v[u];\n"
                "for (int64_t k = 1; k < n[0]; k++) {\n"
                "next.bits = v[k * n[1] + u];\n"
                "if (next.x %s best.x%s) {\n"
                "best = next;\nat = k;\n}\n}\n"
                "o[u] = s[at * n[1] + u];\n}\nreturn 0;\n}\n",
                op,
                is_float_class(class)
                    ? " || (next.x != next.x && best.x == best.x)"
                    : "");
}
