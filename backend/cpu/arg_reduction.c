/* Argmax and argmin of long rows, split into chunks for all threads.
 *
 * Each chunk stores its position and, behind the positions of all chunks, its
 * value in eight bytes.  Chunks are combined in order: the first of equal
 * elements wins, and NaN is larger than any number. */
#include "backend/cpu/cpu_emitter.h"

static void emit_bits_union(Buffer *out, char class, const char *names) {
  buffer_printf(out, "union { %s x; int64_t bits; } %s = {.bits = 0};\n",
                scalar_type(class), names);
}

void emit_arg_row_partial(Buffer *out, const ArgReductionPart *p) {
  char index_class = p->wide_index ? 'l' : 'i';
  buffer_printf(out, "{ const int64_t r = %s;\n", p->best_index);
  emit_bits_union(out, p->class, "value");
  buffer_printf(out,
                "for (int l = 0; l < W; l++)\n"
                "if (lane_%c(at%u%s, l) == r)\n"
                "value.x = lane_%c(acc%u%s, l);\n"
                "*(%s) = r;\n*(%s + values) = value.bits; }\n",
                index_class, p->accumulator_id, p->accumulator_index, p->class,
                p->accumulator_id, p->accumulator_index, p->address,
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
