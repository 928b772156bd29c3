/* Nests that copy operands of products to panels, rows or windows, or that test
 * their elements.
 *
 * k is the number of a term.  If the terms have several axes, i%u are the
 * indices of term k.  If the last of these axes is tiled, its loops run over
 * `run` terms, which differ in this axis only; the first of them is term k, and
 * the index behind the last one is `past`. */
#include "backend/cpu/nest_writer.h"
#include "machine/limits/cpu.h"

#define format emit_format

static uint32_t last_term_axis(const OperandCopy *c) {
  return c->first_term + c->term_axes - 1;
}

/* Returns true if the lanes lie along the terms. */
static bool has_term_lanes(const NestWriter *w) {
  return w->e->vector_axis == last_term_axis(w->copy);
}

/* ---- addresses ---- */

/* The place of a term among the copied ones.  at: its index along the last axis
 * of the terms. */
static const char *term_place(NestWriter *w, const char *at) {
  const OperandCopy *c = w->copy;
  if (c->term_axes == 1)
    return format(w->e, "(%s - %s)", at, c->from);
  return has_term_lanes(w) ? format(w->e, "((k - %s) + (%s - i%u))", c->from,
                                    at, last_term_axis(c))
                           : format(w->e, "(k - %s)", c->from);
}

/* Returns true for a loop over lines that is inside of the loop over the axis
 * of the lines: rows of several matrices follow each other. */
static bool is_other_line(const NestWriter *w, uint32_t at) {
  uint32_t v = w->nest->loops[at].axis;
  return !nest_runs_outside(w->nest, at) && v != w->copy->axis &&
         (v < w->copy->first_term || v > last_term_axis(w->copy));
}

/* The place of a line among the copied ones.  at: its index. */
static const char *line_place(NestWriter *w, const char *at) {
  const Nest *n = w->nest;
  const char *place = format(w->e, "(%s - %s)", at, w->copy->begin);
  for (uint32_t j = 0; j < n->loop_count; j++)
    if (is_other_line(w, j))
      place = format(w->e, "(%s * %s + i%u)", place,
                     emit_int(w->e, n->spec->extents[n->loops[j].axis]),
                     n->loops[j].axis);
  return place;
}

static uint32_t first_loop(const NestWriter *w, uint32_t axis) {
  uint32_t j = 0;
  while (w->nest->loops[j].axis != axis)
    j++;
  return j;
}

/* The loop before which `place` is declared: the address of a panel, of a line,
 * or of a term of all lines. */
static uint32_t place_depth(const NestWriter *w) {
  switch (w->copy->use) {
  case OPERAND_TO_ROWS:
  case OPERAND_TO_WINDOW:
    return first_loop(w, w->copy->first_term);
  case OPERAND_TO_COLUMNS:
    return first_loop(w, w->copy->axis);
  case OPERAND_TO_PANELS:
    return first_loop(w, w->copy->axis) + 1;
  case OPERAND_TESTED:
    break;
  }
  return NO_LOOP;
}

void nest_declare_place(NestWriter *w, uint32_t depth) {
  const OperandCopy *c = w->copy;
  long long pitch = c->pitch;
  if (depth != place_depth(w))
    return;
  buffer_printf(w->out, "%s *const place = %s", memory_type(c->dtype), c->to);
  if (c->use == OPERAND_TO_ROWS)
    buffer_printf(w->out, " + %s * %lld",
                  line_place(w, format(w->e, "i%u", c->axis)), pitch);
  if (c->use == OPERAND_TO_COLUMNS)
    buffer_printf(w->out, " + %s * %lld",
                  term_place(w, format(w->e, "i%u", c->first_term)), pitch);
  if (c->use == OPERAND_TO_PANELS)
    buffer_printf(w->out, " + (b%u - %s) * (%s - %s)", depth - 1, c->begin,
                  c->until, c->from);
  buffer_puts(w->out, ";\n");
}

/* The address of an element of the copy. */
static const char *address(NestWriter *w, const char *line, const char *term) {
  const OperandCopy *c = w->copy;
  if (c->use == OPERAND_TO_COLUMNS)
    return format(w->e, "place + (%s - %s)", line, c->begin);
  const char *at = term_place(w, term);
  if (c->use == OPERAND_TO_PANELS)
    return format(w->e, "place + %s * %lld + (%s - b%u)", at,
                  (long long)c->pitch, line, first_loop(w, c->axis));
  return format(w->e, "place + %s", at);
}

/* ---- vectors ---- */

static const char *copied_value(NestWriter *w) {
  const LoopOutput *r = &w->e->loop->outputs.at[0];
  return emit_vector(w->e, r->value_op, value_class(r->dtype));
}

void nest_copy_vector(NestWriter *w) {
  const OperandCopy *c = w->copy;
  const char *value = copied_value(w);
  char class = value_class(w->e->loop->outputs.at[0].dtype);
  for (uint32_t masked = 0; masked < 2; masked++) {
    Buffer *out = &w->codes[NEST_BODY].text[masked];
    if (c->use == OPERAND_TESTED)
      buffer_printf(out,
                    "{ const v%c x = %s;\n"
                    "odds |= test_%c(x - x != x - x) & LIVE; }\n",
                    class, value, class);
    else if (nest_transposed(w->nest) != NO_LOOP)
      buffer_printf(out, "x[l] = %s;\n", value);
    else /* the lanes behind the end are padding */
      buffer_printf(out, "st_%s(%s, %s);\n", dtype_info[c->dtype].name,
                    has_term_lanes(w)
                        ? address(w, format(w->e, "i%u", c->axis), "j")
                        : address(w, "j", format(w->e, "i%u", c->first_term)),
                    value);
  }
}

void nest_begin_masks(NestWriter *w) {
  HoistedMasks *masks = w->copy->masks;
  if (masks)
    masks->vector_index =
        format(w->e, "n%u", nest_find(w->nest, last_term_axis(w->copy), 1));
  w->e->hoisted_masks = masks;
}

/* The masks are computed before all lines. */
static void write_masks(NestWriter *w) {
  const OperandCopy *c = w->copy;
  buffer_printf(w->out,
                "enum { inside = 0 };\nconst int64_t start = %s, end = %s;\n",
                c->from, c->until);
  emit_append(w->out, &c->masks->source);
}

void nest_begin_copy(NestWriter *w, NestState *s) {
  const OperandCopy *c = w->copy;
  if (c->masks && c->masks->source.len)
    write_masks(w);
  for (uint32_t j = 0; j < w->nest->loop_count; j++) {
    uint32_t v = w->nest->loops[j].axis;
    AxisRange *r = &s->axes[v];
    r->single = NO_LOOP;
    if (v == c->axis) {
      r->begin = c->begin;
      r->end = c->end;
    } else if (c->term_axes == 1 && v == c->first_term) {
      r->begin = c->from;
      r->end = c->until;
    } else if (is_other_line(w, j)) {
      r->begin = "0";
      r->end = emit_int(w->e, w->nest->spec->extents[v]);
    }
  }
}

/* ---- terms with several axes ---- */

/* Begins with term `from`. */
static void declare_terms(NestWriter *w) {
  const OperandCopy *c = w->copy;
  buffer_printf(w->out, "int64_t term = %s;\n", c->from);
  for (uint32_t v = last_term_axis(c) + 1; v-- > c->first_term;) {
    const char *extent = emit_divisor(w->e, w->nest->spec->extents[v]);
    buffer_printf(w->out, "int64_t i%u = term %% %s;\nterm /= %s;\n", v, extent,
                  extent);
  }
}

/* Goes on to the term that is `step` terms behind the current one. */
static void advance_terms(NestWriter *w, const char *step) {
  const OperandCopy *c = w->copy;
  uint32_t last = last_term_axis(c);
  for (uint32_t v = last + 1; v-- > c->first_term;)
    buffer_printf(w->out, "if ((i%u += %s) == %s) {\ni%u = 0;\n", v,
                  v == last ? step : "1",
                  emit_int(w->e, w->nest->spec->extents[v]), v);
  for (uint32_t v = c->first_term; v <= last; v++)
    buffer_puts(w->out, "}\n");
}

void nest_write_terms(NestWriter *w, uint32_t depth, const NestState *from) {
  const OperandCopy *c = w->copy;
  uint32_t last = last_term_axis(c);
  bool has_runs = has_term_lanes(w);
  NestState s = *from;
  declare_terms(w);
  if (has_runs) {
    const char *extent = emit_int(w->e, w->nest->spec->extents[last]);
    buffer_printf(w->out,
                  "for (int64_t k = %s, run; k < %s; k += run) {\n"
                  "run = %s - i%u < %s - k ? %s - i%u : %s - k;\n"
                  "const int64_t past = i%u + run;\n",
                  c->from, c->until, extent, last, c->until, extent, last,
                  c->until, last);
    s.axes[last].begin = format(w->e, "i%u", last);
    s.axes[last].end = "past";
  } else {
    buffer_printf(w->out, "for (int64_t k = %s; k < %s; k++) {\n", c->from,
                  c->until);
  }
  for (uint32_t v = c->first_term; v + has_runs <= last; v++)
    nest_append_level(w, &s, v);
  nest_write_loops(w, depth + c->term_axes - has_runs, &s);
  advance_terms(w, has_runs ? "run" : "1");
  buffer_puts(w->out, "}\n");
}

/* ---- blocks of vectors that are transposed ---- */

/* Loads a vector for each lane, and stores the transposed vectors. is_full: the
 * block has all lanes and vectors; otherwise `rest` lanes. */
static void write_block(NestWriter *w, const NestState *s, bool is_full) {
  const NestCode *code = &w->codes[NEST_BODY];
  uint32_t axis = w->nest->transposed_axis;
  const AxisRange *lines = &s->axes[axis], *terms = &s->axes[w->e->vector_axis];
  bool unrolled = is_full && w->e->loop->ops.len <= MAX_UNROLLED_OPS;
  const char *unroll =
      unrolled ? format(w->e, "#pragma GCC unroll %u\n", w->e->width) : "";
  char v = vector_type_letter(value_class(w->copy->dtype));
  buffer_printf(w->out,
                "%sfor (int l = 0; l < W; l++) {\nconst int64_t i%u = %s;\n"
                "(void)i%u;\n",
                unroll, axis,
                is_full ? format(w->e, "%s + l", lines->begin)
                        : format(w->e, "%s + l < %s ? %s + l : %s - 1",
                                 lines->begin, lines->end, lines->begin,
                                 lines->end),
                axis);
  nest_append_level(w, s, axis);
  buffer_printf(w->out, "const int64_t j = %s;\n(void)j;\n%s", terms->begin,
                is_full ? full_vector_macros : tail_macros);
  emit_append(w->out, &code->levels[code->vector]);
  emit_append(w->out, &code->check);
  emit_append(w->out, &code->text[!is_full]);
  buffer_printf(w->out,
                "%s}\ntranspose%s_%c(x);\n%s"
                "for (int l = 0; l < %s; l++)\n*(v%c_u *)(%s) = x[l];\n",
                undef_macros, w->e->suffix, v, unroll, is_full ? "W" : "rest",
                v,
                address(w, lines->begin, format(w->e, "%s + l", terms->begin)));
}

void nest_write_transposed(NestWriter *w, uint32_t depth, const NestState *s) {
  const AxisRange *lines = &s->axes[w->nest->loops[depth].axis],
                  *terms = &s->axes[w->e->vector_axis];
  buffer_printf(w->out,
                "v%c x[W];\nconst int rest = (int)(%s - %s);\n"
                "if (rest == W && %s - %s == W) {\n",
                vector_type_letter(value_class(w->copy->dtype)), terms->end,
                terms->begin, lines->end, lines->begin);
  write_block(w, s, true);
  buffer_puts(w->out, "} else {\n");
  write_block(w, s, false);
  buffer_puts(w->out, "}\n");
}
