/* Register transpose: loops over tiles of two axes, whose loads are contiguous
 * along one axis and whose results are contiguous along the other.
 *
 * W vectors are loaded along the first axis and transposed in registers.  The
 * lanes then lie along the second axis. */
#include "backend/emit/emit.h"
#include "machine/limits/cpu.h"

#include <string.h>

/* A loop through memory compiles in a fraction of the time. */
static void emit_quick_transpose(const Emitter *e, Buffer *out, char v) {
  buffer_printf(out,
                "static __attribute__((noinline, unused)) void\n"
                "transpose%s_%c(v%c *x) {\n"
                "__typeof__(x[0][0]) from[W][W], to[W][W];\n"
                "__builtin_memcpy(from, x, sizeof from);\n"
                "for (int i = 0; i < W; i++)\n"
                "for (int j = 0; j < W; j++)\nto[i][j] = from[j][i];\n"
                "__builtin_memcpy(x, to, sizeof to);\n}\n",
                e->suffix, v, v);
}

/* Transposes W vectors of W lanes: lane i of vector j becomes lane j of vector
 * i. */
void emit_transpose_function(Emitter *e, Buffer *out, char v) {
  uint32_t width = e->width;
  if (width == 1) {
    buffer_printf(out, "INLINE void transpose%s_%c(v%c *x) {\n(void)x;\n}\n",
                  e->suffix, v, v);
    return;
  }
  buffer_puts(out, "#ifdef QUICK\n");
  emit_quick_transpose(e, out, v);
  buffer_printf(out, "#else\nINLINE void transpose%s_%c(v%c *x) {\nv%c y[W];\n",
                e->suffix, v, v, v);
  for (uint32_t s = width / 2; s; s /= 2) {
    for (uint32_t i = 0; i < width; i++) {
      if (i & s)
        continue;
      for (uint32_t half = 0; half < 2; half++) {
        buffer_printf(out, "y[%u] = __builtin_shufflevector(x[%u], x[%u]",
                      half ? i + s : i, i, i + s);
        for (uint32_t l = 0; l < width; l++) {
          uint32_t from =
              half ? (l & s ? l + width : l + s) : (l & s ? l - s + width : l);
          buffer_printf(out, ", %u", from);
        }
        buffer_puts(out, ");\n");
      }
    }
    for (uint32_t i = 0; i < width; i++)
      buffer_printf(out, "x[%u] = y[%u];\n", i, i);
  }
  buffer_puts(out, "}\n#endif\n");
}

void emit_transpose_functions(Emitter *e, Buffer *out) {
  for (const char *c = "fdil"; *c; c++)
    if (strchr(e->function.transpose_classes, *c))
      emit_transpose_function(e, out, *c);
}

/* Returns true if a load is strided along the vectors, but contiguous along the
 * rows. */
bool emit_is_transposed_read(const Emitter *e, const KernelOp *s) {
  return e->transpose.axis != NO_AXIS &&
         loop_load_is_contiguous(e->loop, loop_op_vars(e->arena, e->loop), s,
                                 e->transpose.axis);
}

const char *emit_transposed_read(Emitter *e, Dtype t, char class,
                                 const char *from, const char *stride) {
  uint32_t name = e->next_id++;
  char v = vector_type_letter(class);
  if (!strchr(e->function.transpose_classes, v))
    e->function.transpose_classes[strlen(e->function.transpose_classes)] = v;
  buffer_printf(&e->transpose.loads,
                "#pragma GCC unroll %u\nfor (int l = 0; l < W; l++)\n"
                "transposed%u[l] = LOAD(v%c, %s, %s + %s * (j + l));\n"
                "transpose%s_%c(transposed%u);\n",
                e->width, name, v, dtype_info[t].name, from, stride, e->suffix,
                v, name);
  buffer_printf(&e->transpose.decls, "v%c transposed%u[W];\n", v, name);
  return emit_format(e, "transposed%u[q]", name);
}

/* Appends the code of the rows.  Loads need one part of it, and results another
 * part; each of its lines defines a name, which is marked as used. */
static void append_used_block(Buffer *out, const Buffer *block) {
  emit_append(out, block);
  for (const char *line = block->len ? block->text : NULL; line && *line;) {
    const char *end = strchr(line, '\n'), *equals = strstr(line, " = ");
    if (!end || !equals || equals > end)
      break;
    const char *name = equals;
    while (name > line && name[-1] != ' ' && name[-1] != '*')
      name--;
    buffer_printf(out, "(void)%.*s;\n", (int)(equals - name), name);
    line = end + 1;
  }
}

static void emit_transposed_rows(Emitter *e, Buffer *out, const char *count,
                                 const char *macros, const Buffer *body) {
  uint32_t y = e->transpose.axis;
  if (e->loop->ops.len <= MAX_UNROLLED_ROW_OPS)
    buffer_printf(out, "#pragma GCC unroll %u\n", e->width);
  buffer_printf(out,
                "for (int q = 0; q < %s; q++) {\n"
                "const int64_t i%u = band + q;\n%s",
                count, y, macros);
  append_used_block(out, &e->levels.code[e->levels.of[y]]);
  emit_append(out, &e->levels.code[e->levels.vector]);
  emit_append(out, &e->check_code);
  emit_append(out, body);
  buffer_printf(out, "%s}\n", undef_macros);
}

/* Emits `count` rows. load: the load of vector l. */
static void emit_transposed_tile(Emitter *e, Buffer *out, const char *count,
                                 const char *load, const char *macros,
                                 const Buffer *body) {
  emit_append(out, &e->transpose.decls);
  buffer_printf(out, "{\nconst int64_t i%u = band;\n", e->transpose.axis);
  append_used_block(out, &e->levels.code[e->levels.of[e->transpose.axis]]);
  buffer_printf(out, "#define LOAD(V, T, p) %s\n", load);
  emit_append(out, &e->transpose.loads);
  buffer_puts(out, "#undef LOAD\n}\n");
  emit_transposed_rows(e, out, count, macros, body);
}

void emit_transposed_tiles(Emitter *e, Buffer *out, const char *from,
                           const char *to, const Buffer *full,
                           const Buffer *tail) {
  buffer_printf(out,
                "for (int64_t band = %s; band < %s; band += W) {\n"
                "const int high = %s - band < W ? (int)(%s - band) : W;\n"
                "for (int64_t j = start; j < end; j += W)\n"
                "if (high == W && j + W <= end) {\n",
                from, to, to, to);
  emit_transposed_tile(e, out, "W", "ld_##T(p)", full_vector_macros, full);
  buffer_puts(out, "} else if (j + W <= end) {\n");
  emit_transposed_tile(e, out, "high", "ldp_##T(p, high)", full_vector_macros,
                       full);
  buffer_puts(out, "} else {\nconst int rest = (int)(end - j);\n");
  emit_transposed_tile(e, out, "high", "l < rest ? ldp_##T(p, high) : (V){0}",
                       tail_macros, tail);
  buffer_puts(out, "}\n}\n");
}
