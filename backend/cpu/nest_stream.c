/* Nests whose rows share input rows, as C (NestStream).
 *
 * An unrolled loop runs over the input rows of a block of rows.  Each input row
 * adds a term to each row whose window contains it.  Operands that are equal
 * for all rows and lanes, such as weights, are loaded and broadcast before
 * these loops.  If input rows end in padding, the vectors of an input row are
 * loaded once, and their masks are computed once for all input rows
 * (backend/emit/masked_load.c). */
#include "backend/cpu/nest_choose.h"
#include "backend/cpu/nest_writer.h"
#include "machine/limits/cpu.h"
#include "support/arena.h"

#include <string.h>

#define format emit_format

/* ---- queries ---- */

static uint32_t vector_loop(const NestWriter *w) {
  return nest_find(w->nest, w->e->vector_axis, 1);
}

static uint32_t row_loop(const NestWriter *w) {
  return nest_find(w->nest, w->nest->stream.row_axis, 0);
}

static uint32_t vectors(const NestWriter *w) {
  return (uint32_t)w->nest->loops[vector_loop(w)].count;
}

/* The first input row, relative to that of term 0. */
static long long first_input_row(const NestWriter *w) {
  const NestStream *s = &w->nest->stream;
  return s->term_stride < 0
             ? s->term_stride * (w->nest->spec->extents[s->term_axis] - 1)
             : 0;
}

/* Rows of a block; the rows behind the last block are single. */
static int64_t block_rows(const NestWriter *w, const NestState *s) {
  uint32_t row = row_loop(w);
  bool is_single = s->axes[w->nest->stream.row_axis].single == row;
  return is_single ? 1 : w->nest->loops[row].count;
}

/* ---- loops ---- */

void nest_write_input_rows(NestWriter *w, uint32_t depth, const NestState *s) {
  const NestStream *t = &w->nest->stream;
  long long rows = stream_input_rows(w->nest->spec, t, block_rows(w, s));
  buffer_printf(w->out,
                "#pragma GCC unroll %lld\nfor (int q = 0; q < %lld; q++) {\n"
                "const int64_t i%u = (%s) * %lld + (q + %lld);\n(void)i%u;\n",
                rows, rows, t->input_axis, s->axes[t->row_axis].begin,
                (long long)t->row_stride, first_input_row(w), t->input_axis);
  nest_append_level(w, s, t->input_axis);
  nest_write_loops(w, depth + 1, s);
  buffer_puts(w->out, "}\n");
}

void nest_write_output_rows(NestWriter *w, uint32_t depth, const NestState *s) {
  const NestStream *t = &w->nest->stream;
  long long rows = block_rows(w, s), stride = t->term_stride,
            terms = w->nest->spec->extents[t->term_axis];
  emit_append(w->out, &w->shared_loads);
  buffer_printf(
      w->out,
      "#pragma GCC unroll %lld\n"
      "for (int n%u = 0; n%u < %lld; n%u++) {\n"
      "const int far = q + %lld - n%u * %lld;\n"
      "if (far %% %lld != 0 || far / %lld < 0 || far / %lld >= %lld)\n"
      "continue;\n"
      "const int64_t i%u = %s + n%u, i%u = far / %lld;\n"
      "(void)i%u, (void)i%u;\n",
      rows, depth, depth, rows, depth, first_input_row(w), depth,
      (long long)t->row_stride, stride, stride, stride, terms, t->row_axis,
      s->axes[t->row_axis].begin, depth, t->term_axis, stride, t->row_axis,
      t->term_axis);
  nest_append_level(w, s, t->row_axis);
  nest_append_level(w, s, t->term_axis);
  nest_write_loops(w, depth + 1, s);
  buffer_puts(w->out, "}\n");
}

/* ---- shared loads ---- */

/* Returns true if the operation is a contiguous load, masked or not. */
static bool is_vector_load(const Emitter *e, uint32_t at) {
  const KernelOp *s = &e->loop->ops.at[at];
  return emit_is_masked_load(e, at) ||
         ((s->kind == KOP_LOAD || s->kind == KOP_LOAD_LOCAL) &&
          e->ops.varies[at] && emit_is_vector_load(e, s));
}

/* Returns true if the operation is the result, or an operand of an operation
 * outside `shared`. */
static bool is_used_elsewhere(const LoopNest *loop, const bool *shared,
                              uint32_t at) {
  for (uint32_t j = at + 1; j < loop->ops.len; j++)
    for (uint32_t a = 0; a < loop->ops.at[j].arg_count; a++)
      if (loop->ops.at[j].args[a] == at && !shared[j])
        return true;
  return loop->outputs.at[0].value_op == at;
}

/* Finds vector loads that depend on the input row, but not on the row that uses
 * it.  Returns their number. */
static uint32_t find_shared_loads(const NestWriter *w, const LoopNest *loop,
                                  uint32_t *found) {
  const Emitter *e = w->e;
  const NestStream *t = &w->nest->stream;
  const uint64_t *depends = loop_op_vars(e->arena, loop);
  uint64_t rows = (uint64_t)1 << t->row_axis | (uint64_t)1 << t->term_axis;
  bool *shared = NEW_ARRAY(e->arena, bool, loop->ops.len);
  uint32_t count = 0;
  for (uint32_t j = 0; j < loop->ops.len; j++)
    shared[j] = !(depends[j] & rows) && is_vector_load(e, j);
  /* A select that becomes one masked load replaces the load of its element. */
  for (uint32_t j = 0; j < loop->ops.len; j++)
    if (emit_is_masked_load(e, j))
      shared[loop->ops.at[j].args[1]] = false;
  for (uint32_t j = 0; j < loop->ops.len; j++)
    if (shared[j] && is_used_elsewhere(loop, shared, j))
      found[count++] = j;
  return count;
}

void nest_set_outputs(Arena *arena, LoopNest *loop, const uint32_t *ops,
                      uint32_t count) {
  memset(&loop->outputs, 0, sizeof loop->outputs);
  for (uint32_t j = 0; j < count; j++) {
    LoopOutput r = {.value_op = ops[j], .local_index = affine_new(arena, 0)};
    VEC_PUSH(arena, loop->outputs, r);
  }
}

static void emit_shared_loads(NestWriter *w, const uint32_t *ops,
                              uint32_t count) {
  Emitter *e = w->e;
  Buffer *out = &w->shared_loads, copies = {.arena = e->arena};
  uint32_t v = vector_loop(w);
  for (uint32_t j = 0; j < count; j++) {
    uint32_t name = e->next_id++;
    char class = e->ops.classes[ops[j]];
    buffer_printf(out, "v%c in%u[%u];\n", vector_type_letter(class), name,
                  vectors(w));
    w->precomputed[ops[j]] = format(e, "in%u[n%u]", name, v);
    buffer_printf(&copies, "%s = %s;\n", w->precomputed[ops[j]],
                  emit_vector(e, ops[j], class));
  }
  buffer_printf(out,
                "#pragma GCC unroll %u\nfor (int n%u = 0; n%u < %u; n%u++) {\n"
                "const int64_t j = start + n%u * W;\n(void)j;\n"
                "const int rest = end - j < W ? end - j < 0 ? 0 : "
                "(int)(end - j) : W;\n(void)rest;\n%s",
                vectors(w), v, v, vectors(w), v, v, tail_macros);
  emit_append(out, &e->levels.code[e->levels.vector]);
  emit_append(out, &e->check_code);
  emit_append(out, &copies);
  buffer_printf(out, "%s}\n", undef_macros);
}

/* Returns true if a row has few enough vectors to precompute their masks. */
static bool may_hoist_masks(NestWriter *w, const LoopNest *loop) {
  const Schedule *s = w->e->cpu->schedule;
  uint32_t v = w->e->vector_axis;
  int64_t row =
      v + 1 == loop->parallel_axes ? s->last_axis_block : loop->extents[v];
  int64_t count = extent_is_static(loop->graph, row) ? ceil_div(row, s->width)
                                                     : MAX_ROW_MASKS + 1;
  w->masks.vector_count = (uint32_t)count;
  return count <= MAX_ROW_MASKS;
}

/* Emits the shared loads for the first `count` loops around the vectors. */
static void begin_shared_loads(NestWriter *w, const LoopNest *spec,
                               uint32_t count, const uint32_t *order) {
  Emitter *e = w->e;
  LoopNest *loop = loop_clone(e->arena, spec);
  uint32_t *ops = NEW_ARRAY(e->arena, uint32_t, loop->ops.len);
  emit_begin_loop(e, loop, e->vector_axis, count, order);
  e->reads_past_tail = true;
  emit_place_ops(e);
  uint32_t found = find_shared_loads(w, loop, ops);
  if (!found)
    return;
  nest_set_outputs(e->arena, loop, ops, found);
  w->masks.line_axis = w->nest->stream.input_axis;
  w->masks.condition_is_interval = true;
  w->masks.vector_index = format(e, "strip + n%u", vector_loop(w));
  e->hoisted_masks = may_hoist_masks(w, loop) ? &w->masks : NULL;
  emit_demanded_ops(e);
  e->hoisted_masks = NULL;
  emit_shared_loads(w, ops, found);
  nest_capture(w, NEST_SHARED);
}

/* ---- broadcasts ---- */

/* Returns true for a float that is equal in all lanes and rows, depends on the
 * term, and is used only in vector operations. */
static bool is_broadcast_operand(const NestWriter *w, const LoopNest *loop,
                                 const uint64_t *depends, uint32_t at) {
  const Emitter *e = w->e;
  const NestStream *t = &w->nest->stream;
  uint64_t terms = (uint64_t)0 - ((uint64_t)1 << loop->spatial_axes);
  uint64_t rows = (uint64_t)1 << t->row_axis | (uint64_t)1 << t->input_axis;
  if (e->ops.varies[at] || !is_float_class(e->ops.classes[at]) ||
      !(depends[at] & terms & ~rows) || depends[at] & rows)
    return false;
  for (uint32_t j = at + 1; j < loop->ops.len; j++)
    for (uint32_t a = 0; a < loop->ops.at[j].arg_count; a++)
      if (loop->ops.at[j].args[a] == at && !e->ops.varies[j])
        return false;
  return true;
}

static void emit_broadcasts(NestWriter *w, const uint32_t *ops,
                            uint32_t count) {
  Emitter *e = w->e;
  Buffer *out = &w->broadcasts, body = {.arena = e->arena};
  const char *at = "0";
  long long all = 1;
  for (uint32_t j = w->outer_loops; j < e->levels.count; j++) {
    uint32_t v = e->levels.order[j];
    long long extent = e->loop->extents[v];
    at = format(e, "(%s) * %lld + i%u", at, extent, v);
    all *= extent;
    buffer_printf(&body,
                  "#pragma GCC unroll %lld\n"
                  "for (int64_t i%u = 0; i%u < %lld; i%u++) {\n",
                  extent, v, v, extent, v);
    emit_append(&body, &e->levels.code[e->levels.of[v]]);
  }
  for (uint32_t j = 0; j < count; j++) {
    char class = e->ops.classes[ops[j]];
    const char *name = format(e, "w%u", e->next_id++);
    buffer_printf(out, "v%c %s[%lld];\n", vector_type_letter(class), name, all);
    w->precomputed[ops[j]] = format(e, "%s[%s]", name, at);
    buffer_printf(&body, "%s = %s;\n", w->precomputed[ops[j]],
                  emit_vector(e, ops[j], class));
  }
  emit_append(out, &body);
  for (uint32_t j = w->outer_loops; j < e->levels.count; j++)
    buffer_puts(out, "}\n");
}

/* Emits the broadcasts of the first `count` loops, with terms in place of input
 * rows. */
static void begin_broadcasts(NestWriter *w, const LoopNest *spec,
                             uint32_t count, const uint32_t *order) {
  Emitter *e = w->e;
  const NestStream *t = &w->nest->stream;
  LoopNest *loop = loop_clone(e->arena, spec);
  uint32_t terms[MAX_KERNEL_AXES + 1], found = 0;
  for (uint32_t j = 0; j < count; j++)
    terms[j] = order[j] == t->input_axis ? t->term_axis : order[j];
  emit_begin_loop(e, loop, e->vector_axis, count, terms);
  e->reads_past_tail = true;
  emit_place_ops(e);
  const uint64_t *depends = loop_op_vars(e->arena, loop);
  uint32_t *ops = NEW_ARRAY(e->arena, uint32_t, loop->ops.len);
  for (uint32_t j = 0; j < loop->ops.len; j++)
    if (is_broadcast_operand(w, loop, depends, j))
      ops[found++] = j;
  if (!found || !short_reduction_has_constant_terms(spec))
    return;
  nest_set_outputs(e->arena, loop, ops, found);
  emit_demanded_ops(e);
  if (e->check_code.len) /* checks need lanes */
    return;
  emit_broadcasts(w, ops, found);
  nest_capture(w, NEST_BROADCASTS);
}

void nest_begin_stream(NestWriter *w, const LoopNest *spec, uint32_t count,
                       const uint32_t *order) {
  while (order[w->outer_loops] < spec->spatial_axes)
    w->outer_loops++;
  w->precomputed = NEW_ARRAY(w->e->arena, const char *, spec->ops.len);
  if (w->nest->loads_broadcasts)
    begin_broadcasts(w, spec, count, order);
  if (w->nest->loads_masked)
    begin_shared_loads(w, spec, count, order);
}

/* ---- padding ---- */

/* Broadcasts, and the masks of the vectors of a row.  Each row is then read
 * sequentially. */
void nest_begin_rows(NestWriter *w, const NestState *s) {
  const AxisRange *r = &s->axes[w->e->vector_axis];
  emit_append(w->out, &w->broadcasts);
  if (!w->nest->loads_masked)
    return;
  buffer_printf(w->out,
                "const int64_t first = %s, stop = %s;\n"
                "(void)first, (void)stop;\n",
                r->begin, r->end);
  if (w->masks.source.len)
    buffer_puts(w->out, "const int64_t start = first, end = stop;\n");
  emit_append(w->out, &w->masks.source);
}

void nest_write_inside(NestWriter *w, bool inside) {
  buffer_printf(w->out, "enum { inside = %d };\n",
                inside || !w->masks.line_condition);
}

/* Whether an input row of a block is padding is the same for all terms. */
static void test_input_row(NestWriter *w, const char *row, long long offset) {
  const Nest *n = w->nest;
  const NestStream *t = &n->stream;
  const NestCode *c = &w->codes[NEST_SHARED];
  uint32_t last = c->level_of[t->input_axis];
  buffer_puts(w->out, "{\n");
  for (uint32_t j = w->sums_depth; j < n->loop_count; j++) {
    uint32_t v = n->loops[j].axis;
    if (nest_axis_is_reduced(n, v) && v != t->input_axis &&
        c->level_of[v] < last)
      buffer_printf(w->out, "const int64_t i%u = 0;\n(void)i%u;\n", v, v);
  }
  for (uint32_t k = OUTER_LEVEL + w->outer_loops + 1; k < last; k++)
    emit_append(w->out, &c->levels[k]);
  buffer_printf(w->out, "const int64_t i%u = (%s) * %lld + (%lld);\n",
                t->input_axis, row, (long long)t->row_stride,
                first_input_row(w) + offset);
  emit_append(w->out, &c->levels[last]);
  buffer_printf(w->out, "all &= %s;\n}\n", w->masks.line_condition);
}

/* A version for the common case that no input row is padding. */
void nest_write_padded_rows(NestWriter *w, uint32_t depth, const NestState *s,
                            const char *at) {
  int64_t rows = w->nest->loops[row_loop(w)].count;
  if (!w->masks.line_condition || !w->masks.condition_is_interval) {
    nest_write_inside(w, false);
    nest_enter(w, depth, s, at, true);
    return;
  }
  buffer_puts(w->out, "int all = 1;\n");
  test_input_row(w, at, 0);
  test_input_row(w, at,
                 stream_input_rows(w->nest->spec, &w->nest->stream, rows) - 1);
  buffer_puts(w->out, "if (all) {\n");
  nest_write_inside(w, true);
  nest_enter(w, depth, s, at, true);
  buffer_puts(w->out, "} else {\n");
  nest_write_inside(w, false);
  nest_enter(w, depth, s, at, true);
  buffer_puts(w->out, "}\n");
}
