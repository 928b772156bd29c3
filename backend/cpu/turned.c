/* What is turned: loops over squares of two axes, of which what is read lies
 * next to each other along one, and results along the other.
 *
 * W vectors are read along the first one, turned in registers, and are then
 * lanes along the second one. */
#include "backend/cpu/emit.h"

#include <string.h>

enum {
  TURNED_OPS = 8
}; /* of so many steps are all W rows written one by one */

/* Turns W vectors by W lanes: lane i of vector j becomes lane j of vector i.
 */
void emit_turn(Emitter *e, Buffer *out, char v) {
  uint32_t width = e->s->width;
  buffer_printf(out, "INLINE void turn%s_%c(v%c *x) {\n", e->number, v, v);
  if (width == 1) {
    buffer_puts(out, "(void)x;\n}\n");
    return;
  }
  buffer_printf(out, "v%c y[W];\n", v);
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
  buffer_puts(out, "}\n");
}

void emit_turns(Emitter *e, Buffer *out) {
  for (const char *c = "fdil"; *c; c++)
    if (strchr(e->turns, *c))
      emit_turn(e, out, *c);
}

/* A read whose lanes are apart, but which is one vector along the rows. */
bool is_turned(const Emitter *e, const Step *s) {
  return e->rows != NO_LANE &&
         loop_reads_line(e->loop, loop_depends(e->arena, e->loop), s, e->rows);
}

const char *emit_turned_read(Emitter *e, Dtype t, char class, const char *from,
                             const char *step) {
  uint32_t name = e->names++;
  char v = vector_letter(class);
  if (!strchr(e->turns, v))
    e->turns[strlen(e->turns)] = v;
  buffer_printf(&e->turned,
                "#pragma GCC unroll %u\nfor (int l = 0; l < W; l++)\n"
                "turned%u[l] = LOAD(v%c, %s, %s + %s * (j + l));\n"
                "turn%s_%c(turned%u);\n",
                e->s->width, name, v, dtype_info[t].name, from, step, e->number,
                v, name);
  buffer_printf(&e->turned_names, "v%c turned%u[W];\n", v, name);
  return emit_format(e, "turned%u[q]", name);
}

/* The block of the rows, of which reads need a part, and results another one:
 * each of its lines defines a name, and none is to be missed. */
static void put_block(Buffer *out, const Buffer *block) {
  emit_put(out, block);
  for (const char *line = block->len ? block->text : NULL; line && *line;) {
    const char *end = strchr(line, '\n'), *is = strstr(line, " = ");
    if (!end || !is || is > end)
      break;
    const char *name = is;
    while (name > line && name[-1] != ' ' && name[-1] != '*')
      name--;
    buffer_printf(out, "(void)%.*s;\n", (int)(is - name), name);
    line = end + 1;
  }
}

static void emit_rows(Emitter *e, Buffer *out, const char *count,
                      const char *macros, const Buffer *rest) {
  uint32_t y = e->rows;
  if (e->loop->steps.len <= TURNED_OPS)
    buffer_printf(out, "#pragma GCC unroll %u\n", e->s->width);
  buffer_printf(out,
                "for (int q = 0; q < %s; q++) {\n"
                "const int64_t i%u = band + q;\n%s",
                count, y, macros);
  put_block(out, &e->blocks[e->level_of[y]]);
  emit_put(out, &e->blocks[e->lane_level]);
  emit_put(out, &e->checks);
  emit_put(out, rest);
  buffer_printf(out, "%s}\n", no_macros);
}

/* `count` rows; load: of the l-th vector of these. */
static void emit_square(Emitter *e, Buffer *out, const char *count,
                        const char *load, const char *macros,
                        const Buffer *rest) {
  emit_put(out, &e->turned_names);
  buffer_printf(out, "{\nconst int64_t i%u = band;\n", e->rows);
  put_block(out, &e->blocks[e->level_of[e->rows]]);
  buffer_printf(out, "#define LOAD(V, T, p) %s\n", load);
  emit_put(out, &e->turned);
  buffer_puts(out, "#undef LOAD\n}\n");
  emit_rows(e, out, count, macros, rest);
}

void emit_turned(Emitter *e, Buffer *out, const char *from, const char *to,
                 const Buffer *whole, const Buffer *part) {
  buffer_printf(out,
                "for (int64_t band = %s; band < %s; band += W) {\n"
                "const int high = %s - band < W ? (int)(%s - band) : W;\n"
                "for (int64_t j = start; j < end; j += W)\n"
                "if (high == W && j + W <= end) {\n",
                from, to, to, to);
  emit_square(e, out, "W", "ld_##T(p)", whole_macros, whole);
  buffer_puts(out, "} else if (j + W <= end) {\n");
  emit_square(e, out, "high", "ldp_##T(p, high)", whole_macros, whole);
  buffer_puts(out, "} else {\nconst int rest = (int)(end - j);\n");
  emit_square(e, out, "high", "l < rest ? ldp_##T(p, high) : (V){0}",
              part_macros, part);
  buffer_puts(out, "}\n}\n");
}
