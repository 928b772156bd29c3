/* Short reductions with vectors along a spatial axis.  The terms are unrolled,
 * and the accumulators of a block of vectors stay in registers.
 *
 * * * If the windows of neighbouring rows overlap, the loop over rows is
 * unrolled and jammed.  The rows then share the load of a vector.  The loop
 * then iterates over the input rows.  Each input row contributes a term to each
 * row whose window contains it.  If there are many terms, the other reduction
 * axes are loops around the input rows.
 *
 * * * Operands that are equal for all rows and lanes, such as weights, are
 * loaded and broadcast before these loops.  If input rows end in padding, the
 * masks of the vectors are computed once for all input rows
 * (backend/emit/masked_load.c).  The loop after the reduction is fused as its
 * epilogue if possible. */
#include "backend/cpu/unrolled_reduction.h"
#include "machine/limits/cpu.h"
#include "support/arena.h"

#include <string.h>

enum { CACHE_LINE_BYTES = 64 };

#define format emit_format

/* ---- the reduction ---- */

static int64_t first_input_row(const UnrolledReduction *f,
                               const LoopNest *loop) {
  return f->term_stride < 0 ? f->term_stride * (loop->extents[f->term_axis] - 1)
                            : 0;
}

/* Appends the loop-invariant code of a level: of the shared loads and of the
 * rest. */
static void append_level(const UnrolledReduction *f, Buffer *out,
                         uint32_t level) {
  emit_append(out, &f->shared_load_levels[level]);
  emit_append(out, &f->e->levels.code[level]);
}

static void emit_unroll_pragma(Buffer *out, long long times) {
  buffer_printf(out, "#pragma GCC unroll %lld\n", times);
}

/* The trip count may be symbolic. */
static void open_term_loop(const UnrolledReduction *f, Buffer *out,
                           uint32_t v) {
  Emitter *e = f->e;
  int64_t extent = e->loop->extents[v];
  bool is_constant = extent_is_static(e->kernel->graph, extent);
  if (is_constant && !f->partially_unrolled)
    emit_unroll_pragma(out, extent);
  buffer_printf(out, "for (int64_t i%u = 0; i%u < %s; i%u++) {\n", v, v,
                is_constant ? format(e, "%lld", (long long)extent)
                            : emit_int(e, extent),
                v);
  append_level(f, out, f->e->levels.of[v]);
}

/* Opens the loop over the input rows of `rows` rows. */
static void open_input_rows(UnrolledReduction *f, Buffer *out, uint32_t rows) {
  Emitter *e = f->e;
  int64_t low = first_input_row(f, e->loop);
  long long input_rows = unrolled_reduction_input_rows(f, e->loop, rows);
  buffer_printf(out,
                "#pragma GCC unroll %lld\nfor (int q = 0; q < %lld; q++) {\n"
                "const int64_t i%u = row * %lld + (q + %lld);\n(void)i%u;\n",
                input_rows, input_rows, f->input_row_axis,
                (long long)f->row_stride, (long long)low, f->input_row_axis);
  append_level(f, out, e->levels.of[f->input_row_axis]);
}

static void open_output_rows(UnrolledReduction *f, Buffer *out, uint32_t rows) {
  Emitter *e = f->e;
  long long terms = e->loop->extents[f->term_axis],
            low = first_input_row(f, e->loop), term_stride = f->term_stride;
  buffer_printf(
      out,
      "#pragma GCC unroll %u\nfor (int r = 0; r < %u; r++) {\n"
      "const int far = q + %lld - r * %lld;\n"
      "if (far %% %lld != 0 || far / %lld < 0 || far / %lld >= %lld)\n"
      "continue;\n"
      "const int64_t i%u = row + r, i%u = far / %lld;\n"
      "(void)i%u, (void)i%u;\n",
      rows, rows, low, (long long)f->row_stride, term_stride, term_stride,
      term_stride, terms, f->row_axis, f->term_axis, term_stride, f->row_axis,
      f->term_axis);
  emit_append(out, &e->levels.code[e->levels.of[f->row_axis]]);
  emit_append(out, &e->levels.code[e->levels.of[f->term_axis]]);
}

/* Returns true if masked loads are correct for vectors without valid lanes. */
static bool loads_are_maskable(const UnrolledReduction *f) {
  const Emitter *e = f->e;
  for (uint32_t j = 0; j < e->loop->ops.len; j++) {
    const KernelOp *s = &e->loop->ops.at[j];
    bool reads = s->kind == KOP_LOAD || s->kind == KOP_LOAD_LOCAL;
    bool is_available =
        (f->precomputed && f->precomputed[j]) || !emit_is_demanded(e, j);
    if (reads && e->ops.varies[j] && !is_available &&
        !emit_is_vector_load(e, s))
      return false;
  }
  return true;
}

static const char tail_lanes_code[] =
    "const int rest = end - j < W ? end - j < 0 ? 0 : (int)(end - j) : W;\n";

static void open_vectors(Buffer *out, uint32_t vectors) {
  buffer_printf(out,
                "#pragma GCC unroll %u\nfor (int a = 0; a < %u; a++) {\n"
                "const int64_t j = start + a * W;\n(void)j;\n",
                vectors, vectors);
}

/* The body for each vector of a block. is_tail: lanes may be masked. */
static void emit_vector_block(UnrolledReduction *f, Buffer *out,
                              const Buffer *code, bool is_tail) {
  Emitter *e = f->e;
  bool is_masked = is_tail && loads_are_maskable(f);
  open_vectors(out, f->vectors);
  if (is_tail)
    buffer_printf(out, "%s%s%s", tail_lanes_code,
                  is_masked ? "(void)rest;\n" : "if (rest > 0) {\n",
                  tail_macros);
  else
    buffer_puts(out, full_vector_macros);
  emit_append(out, &e->levels.code[e->levels.vector]);
  emit_append(out, &e->check_code);
  emit_append(out, code);
  buffer_printf(out, "%s}\n%s", undef_macros,
                is_tail && !is_masked ? "}\n" : "");
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
 * it. */
static void find_shared_loads(UnrolledReduction *f, const LoopNest *loop) {
  Emitter *e = f->e;
  const uint64_t *depends = loop_op_vars(e->arena, loop);
  uint64_t rows = (uint64_t)1 << f->row_axis | (uint64_t)1 << f->term_axis;
  bool *shared = NEW_ARRAY(e->arena, bool, loop->ops.len);
  f->shared_loads = NEW_ARRAY(e->arena, uint32_t, loop->ops.len);
  f->shared_load_count = 0;
  for (uint32_t j = 0; j < loop->ops.len; j++)
    shared[j] = !(depends[j] & rows) && is_vector_load(e, j);
  /* A select that becomes one masked load replaces the load of its element. */
  for (uint32_t j = 0; j < loop->ops.len; j++)
    if (emit_is_masked_load(e, j))
      shared[loop->ops.at[j].args[1]] = false;
  for (uint32_t j = 0; j < loop->ops.len; j++)
    if (shared[j] && is_used_elsewhere(loop, shared, j))
      f->shared_loads[f->shared_load_count++] = j;
}

static void emit_shared_loads(UnrolledReduction *f) {
  Emitter *e = f->e;
  Buffer *out = &f->shared_load_code, copies = {.arena = e->arena};
  for (uint32_t j = 0; j < f->shared_load_count; j++) {
    uint32_t name = e->next_id++, at = f->shared_loads[j];
    char class = e->ops.classes[at];
    buffer_printf(out, "v%c in%u[%u];\n", vector_type_letter(class), name,
                  f->vectors);
    f->precomputed[at] = format(e, "in%u[a]", name);
    buffer_printf(&copies, "%s = %s;\n", f->precomputed[at],
                  emit_vector(e, at, class));
  }
  open_vectors(out, f->vectors);
  buffer_printf(out, "%s(void)rest;\n%s", tail_lanes_code, tail_macros);
  emit_append(out, &e->levels.code[e->levels.vector]);
  emit_append(out, &e->check_code);
  emit_append(out, &copies);
  buffer_printf(out, "%s}\n", undef_macros);
}

/* Returns true if a row has few enough vectors to precompute their masks. */
static bool may_hoist_masks(UnrolledReduction *f, const LoopNest *loop) {
  const Schedule *s = f->e->cpu->schedule;
  bool outer = f->vector_axis + 1 == loop->parallel_axes;
  int64_t row = outer ? s->last_axis_block : loop->extents[f->vector_axis];
  int64_t vectors = extent_is_static(loop->graph, row) ? ceil_div(row, s->width)
                                                       : MAX_ROW_MASKS + 1;
  f->hoisted_masks.vector_count = (uint32_t)vectors;
  return vectors <= MAX_ROW_MASKS;
}

/* Emits the shared loads for the first `count` loops around the vectors. */
static void begin_shared_loads(UnrolledReduction *f, const LoopNest *lines,
                               uint32_t count, const uint32_t *order) {
  Emitter *e = f->e;
  LoopNest *loop = loop_clone(e->arena, lines);
  emit_begin_loop(e, loop, f->vector_axis, count, order);
  e->reads_past_tail = true;
  emit_place_ops(e);
  find_shared_loads(f, loop);
  if (!f->shared_load_count)
    return;
  memset(&loop->outputs, 0, sizeof loop->outputs);
  for (uint32_t j = 0; j < f->shared_load_count; j++) {
    LoopOutput r = {.value_op = f->shared_loads[j],
                    .local_index = affine_new(e->arena, 0)};
    VEC_PUSH(e->arena, loop->outputs, r);
  }
  f->hoisted_masks.line_axis = f->input_row_axis;
  f->hoisted_masks.condition_is_interval = true;
  f->hoisted_masks.vector_index = "strip + a";
  e->hoisted_masks = may_hoist_masks(f, loop) ? &f->hoisted_masks : NULL;
  emit_demanded_ops(e);
  e->hoisted_masks = NULL;
  emit_shared_loads(f);
  memcpy(f->shared_load_levels, e->levels.code, sizeof f->shared_load_levels);
  f->input_row_level = e->levels.of[f->input_row_axis];
}

/* ---- hoisted broadcasts ---- */

/* Returns true for a float that is equal in all lanes and rows, depends on the
 * term, and is used only in vector operations. */
static bool is_broadcast_operand(const UnrolledReduction *f,
                                 const LoopNest *loop, const uint64_t *depends,
                                 uint32_t at) {
  const Emitter *e = f->e;
  uint64_t terms = (uint64_t)0 - ((uint64_t)1 << loop->spatial_axes);
  uint64_t rows = (uint64_t)1 << f->row_axis | (uint64_t)1 << f->input_row_axis;
  if (e->ops.varies[at] || !is_float_class(e->ops.classes[at]) ||
      !(depends[at] & terms & ~rows) || depends[at] & rows)
    return false;
  for (uint32_t j = at + 1; j < loop->ops.len; j++)
    for (uint32_t a = 0; a < loop->ops.at[j].arg_count; a++)
      if (loop->ops.at[j].args[a] == at && !e->ops.varies[j])
        return false;
  return true;
}

static void emit_hoisted_broadcasts(UnrolledReduction *f, const uint32_t *which,
                                    uint32_t count) {
  Emitter *e = f->e;
  const LoopNest *loop = e->loop;
  Buffer *out = &f->broadcast_code, body = {.arena = e->arena};
  const char *at = "0";
  long long all = 1;
  for (uint32_t j = f->outer_loops; j < e->levels.count; j++) {
    uint32_t v = e->levels.order[j];
    long long extent = loop->extents[v];
    at = format(e, "(%s) * %lld + i%u", at, extent, v);
    all *= extent;
    open_term_loop(f, &body, v);
  }
  for (uint32_t j = 0; j < count; j++) {
    char class = e->ops.classes[which[j]];
    const char *name = format(e, "w%u", e->next_id++);
    buffer_printf(out, "v%c %s[%lld];\n", vector_type_letter(class), name, all);
    f->precomputed[which[j]] = format(e, "%s[%s]", name, at);
    buffer_printf(&body, "%s = %s;\n", f->precomputed[which[j]],
                  emit_vector(e, which[j], class));
  }
  emit_append(out, &body);
  for (uint32_t j = f->outer_loops; j < e->levels.count; j++)
    buffer_puts(out, "}\n");
}

/* Emits the broadcasts of the first `count` loops, with terms in place of input
 * rows. */
static void begin_hoisted_broadcasts(UnrolledReduction *f,
                                     const LoopNest *lines, uint32_t count,
                                     const uint32_t *order) {
  Emitter *e = f->e;
  LoopNest *loop = loop_clone(e->arena, lines);
  uint32_t terms[MAX_KERNEL_AXES], loops = 0, found = 0;
  for (uint32_t j = 0; j < count; j++)
    terms[loops++] = order[j] == f->input_row_axis ? f->term_axis : order[j];
  emit_begin_loop(e, loop, f->vector_axis, loops, terms);
  e->reads_past_tail = true;
  emit_place_ops(e);
  const uint64_t *depends = loop_op_vars(e->arena, loop);
  uint32_t *which = NEW_ARRAY(e->arena, uint32_t, loop->ops.len);
  for (uint32_t j = 0; j < loop->ops.len; j++)
    if (is_broadcast_operand(f, loop, depends, j))
      which[found++] = j;
  if (!found || !unrolled_reduction_has_constant_terms(lines))
    return;
  memset(&loop->outputs, 0, sizeof loop->outputs);
  for (uint32_t j = 0; j < found; j++) {
    LoopOutput r = {.value_op = which[j],
                    .local_index = affine_new(e->arena, 0)};
    VEC_PUSH(e->arena, loop->outputs, r);
  }
  emit_demanded_ops(e);
  if (e->check_code.len) /* checks need lanes */
    return;
  emit_hoisted_broadcasts(f, which, found);
  memcpy(f->broadcast_levels, e->levels.code, sizeof f->broadcast_levels);
}

/* Subscript of a vector's accumulator. */
static const char *accumulator_subscript(const UnrolledReduction *f) {
  return f->term_axis == NO_AXIS ? "[a]"
                                 : format(f->e, "[r * %u + a]", f->vectors);
}

/* Returns true if the reduction sums products that have no other use.  Then
 * each product is fused with its addition, as in matmuls. */
static bool contracts_to_fma(const LoopNest *loop) {
  const LoopOutput *r = &loop->outputs.at[0];
  const KernelOp *s = &loop->ops.at[r->value_op];
  if (r->reduce != PRIM_SUM || s->kind != KOP_MAP || s->op != PRIM_MUL ||
      (s->dtype != DT_F32 && s->dtype != DT_F64))
    return false;
  for (uint32_t j = 0; j < loop->ops.len; j++)
    for (uint32_t a = 0; a < loop->ops.at[j].arg_count; a++)
      if (loop->ops.at[j].args[a] == r->value_op)
        return false;
  return true;
}

static void accumulate(UnrolledReduction *f, Buffer *out,
                       const Accumulator *accumulator) {
  Emitter *e = f->e;
  if (e->ops.contracted == NO_KERNEL_OP) {
    emit_accumulate(e, out, accumulator, accumulator_subscript(f), false);
    return;
  }
  const KernelOp *s = &e->loop->ops.at[e->ops.contracted];
  const char *acc =
      format(e, "acc%u%s", accumulator->id, accumulator_subscript(f));
  buffer_printf(out, "%s = fused_%c(%s, %s, %s);\n", acc, accumulator->class,
                emit_vector(e, s->args[0], accumulator->class),
                emit_vector(e, s->args[1], accumulator->class), acc);
}

static void emit_accumulators(UnrolledReduction *f,
                              const Accumulator *accumulator, uint32_t rows,
                              bool is_tail, Buffer *out) {
  Emitter *e = f->e;
  Buffer code = {.arena = e->arena};
  uint32_t accumulator_count = rows * f->vectors, open_loops = 0;
  buffer_printf(out,
                "v%c acc%u[%u];\n#pragma GCC unroll %u\n"
                "for (int a = 0; a < %u; a++)\nacc%u[a] = splat_%c(%s);\n",
                vector_type_letter(accumulator->class), accumulator->id,
                accumulator_count, accumulator_count, accumulator_count,
                accumulator->id, accumulator->class, accumulator->identity);
  accumulate(f, &code, accumulator);
  for (uint32_t j = f->outer_loops; j < e->levels.count; j++) {
    uint32_t v = e->levels.order[j];
    if (v < e->loop->spatial_axes || v == f->term_axis)
      continue;
    open_loops++;
    if (v == f->input_row_axis) {
      open_input_rows(f, out, rows);
      continue;
    }
    open_term_loop(f, out, v);
  }
  emit_append(out, &f->shared_load_code);
  if (f->term_axis != NO_AXIS) {
    open_output_rows(f, out, rows);
    open_loops++;
  }
  emit_vector_block(f, out, &code, is_tail);
  while (open_loops--)
    buffer_puts(out, "}\n");
}

/* ---- stores ---- */

static void emit_vector_epilogue(UnrolledReduction *f,
                                 const Accumulator *accumulators,
                                 uint32_t count, const Accumulator *sum,
                                 Buffer *out, bool has_full) {
  Emitter *e = f->e;
  const char *x = format(e, "acc%u%s", sum->id, accumulator_subscript(f));
  buffer_puts(out, has_full ? full_vector_macros : tail_macros);
  if (e->ops.precomputed) {
    emit_append(out, &e->levels.code[e->levels.vector]);
    emit_append(out, &e->check_code);
  }
  for (uint32_t j = 0; j < count; j++) {
    const Accumulator *g = &accumulators[j];
    char class = value_class(g->output->dtype);
    if (e->ops.precomputed)
      x = emit_vector(e, g->output->value_op, class);
    else if (class != sum->class)
      x = format(e, "CONVERT(%s, v%c)", x, class);
    emit_output_store(e, out, g, x, has_full);
  }
  buffer_puts(out, undef_macros);
}

static void emit_epilogue(UnrolledReduction *f, const Accumulator *accumulators,
                          uint32_t count, const Accumulator *sum, uint32_t rows,
                          bool is_tail, Buffer *out) {
  Emitter *e = f->e;
  if (f->term_axis != NO_AXIS) {
    buffer_printf(out,
                  "#pragma GCC unroll %u\nfor (int r = 0; r < %u; r++) {\n"
                  "const int64_t i%u = row + r;\n(void)i%u;\n",
                  rows, rows, f->row_axis, f->row_axis);
    emit_append(out, &e->levels.code[e->levels.of[f->row_axis]]);
  }
  open_vectors(out, f->vectors);
  if (is_tail)
    buffer_puts(out, "if (j + W <= end) {\n");
  emit_vector_epilogue(f, accumulators, count, sum, out, true);
  if (is_tail) {
    buffer_puts(out, "} else if (j < end) {\n"
                     "const int rest = (int)(end - j);\n(void)rest;\n");
    emit_vector_epilogue(f, accumulators, count, sum, out, false);
    buffer_puts(out, "}\n");
  }
  buffer_puts(out, f->term_axis != NO_AXIS ? "}\n}\n" : "}\n");
}

/* Begins the epilogue loop, or the stores of the reduction if there is none.
 * Returns the number of outputs. */
static uint32_t begin_epilogue(UnrolledReduction *f, LoopNest *epilogue,
                               const Accumulator *sum,
                               Accumulator *accumulators) {
  Emitter *e = f->e;
  const LoopNest *loop =
      epilogue ? epilogue : e->kernel->loops.at[f->loop_index];
  uint32_t loops = f->outer_loops + (f->term_axis != NO_AXIS), count = 0;
  emit_begin_loop(e, loop, f->vector_axis, loops, f->loop_order);
  e->reads_past_tail = false;
  e->loop_index = f->loop_index + (epilogue != NULL);
  if (epilogue) {
    const char **precomputed = NEW_ARRAY(e->arena, const char *, loop->ops.len);
    for (uint32_t j = 0; j < loop->ops.len; j++) {
      const KernelOp *s = &loop->ops.at[j];
      if (s->kind == KOP_LOAD_LOCAL && s->source_loop == f->loop_index)
        precomputed[j] =
            format(e, "acc%u%s", sum->id, accumulator_subscript(f));
    }
    e->ops.precomputed = precomputed;
    emit_ops(e);
  }
  for (uint32_t j = 0; j < loop->outputs.len; j++) {
    const LoopOutput *r = &loop->outputs.at[j];
    if (!r->global_index && !r->local_index)
      continue;
    accumulators[count] = epilogue ? accumulator_new(e, j) : *sum;
    accumulator_set_addresses(e, e->loop_index, j, &accumulators[count++]);
  }
  return count;
}

/* ---- entry point ---- */

static void append_block(UnrolledReduction *f, Buffer *out, bool is_jammed,
                         bool is_tail) {
  emit_append(out, &f->accumulate_code[is_jammed][is_tail]);
  emit_append(out, &f->finish_code[is_jammed][is_tail]);
}

/* The blocks of one row or of jammed rows: full blocks and the tail, if they
 * may occur. */
static void emit_column_blocks(UnrolledReduction *f, Buffer *out,
                               bool is_jammed, bool has_full, bool is_tail) {
  Emitter *e = f->e;
  bool outer = emit_vector_axis_is_outer(e);
  buffer_printf(out,
                "for (int64_t start = %s, last = %s; start < last; "
                "start += %u * W) {\n"
                "const int64_t end = start + %u * W < last ? start + %u * W "
                ": last;\n",
                outer ? "lo" : emit_axis_begin(e, f->vector_axis),
                outer ? "hi" : emit_axis_end(e, f->vector_axis), f->vectors,
                f->vectors, f->vectors);
  if (has_full && is_tail)
    buffer_printf(out, "if (end - start == %u * W) {\n", f->vectors);
  else if (has_full)
    buffer_puts(out, "(void)end;\n");
  if (has_full)
    append_block(f, out, is_jammed, false);
  if (has_full && is_tail)
    buffer_puts(out, "} else {\n");
  if (is_tail)
    append_block(f, out, is_jammed, true);
  buffer_puts(out, has_full && is_tail ? "}\n}\n" : "}\n");
}

/* Returns true if remainder rows are possible after the jammed rows.  Tiles of
 * matmuls may have any number of rows. */
static bool has_remainder_rows(const UnrolledReduction *f,
                               const LoopNest *loop) {
  const Schedule *s = f->e->cpu->schedule;
  return !extent_is_static(loop->graph, loop->extents[f->row_axis]) ||
         loop->extents[f->row_axis] % f->rows ||
         loop_is_trimmed(loop, f->row_axis) ||
         (f->row_axis < loop->parallel_axes &&
          (s->gemm_tilings || s->task_height % f->rows));
}

static void emit_row_loop(UnrolledReduction *f, Buffer *out, bool has_full,
                          bool is_tail) {
  Emitter *e = f->e;
  if (f->term_axis == NO_AXIS) {
    emit_column_blocks(f, out, false, has_full, is_tail);
    return;
  }
  const char *to = emit_axis_end(e, f->row_axis);
  buffer_printf(out, "int64_t row = %s;\nfor (; row + %u <= %s; row += %u) {\n",
                emit_axis_begin(e, f->row_axis), f->rows, to, f->rows);
  emit_column_blocks(f, out, true, has_full, is_tail);
  buffer_puts(out, "}\n");
  if (!has_remainder_rows(f, e->kernel->loops.at[f->loop_index]))
    return;
  buffer_printf(out, "for (; row < %s; row++) {\n", to);
  emit_column_blocks(f, out, false, has_full, is_tail);
  buffer_puts(out, "}\n");
}

/* The strips of vectors of one row or of jammed rows. */
static void emit_masked_strips(UnrolledReduction *f, Buffer *out,
                               bool is_jammed, bool is_tail, int inside) {
  buffer_printf(out, "enum { inside = %d };\n",
                inside || !f->hoisted_masks.line_condition);
  buffer_printf(out,
                "for (int64_t start = first, last = stop; start < last; "
                "start += %u * W) {\n"
                "const int64_t end = start + %u * W < last ? start + %u * W "
                ": last;\nconst int64_t strip = (start - first) / W;\n"
                "(void)end, (void)strip;\n",
                f->vectors, f->vectors, f->vectors);
  append_block(f, out, is_jammed, is_tail);
  buffer_puts(out, "}\n");
}

/* The strips of jammed rows, with a version for the common case that no input
 * row is padding. */
static void emit_jammed_strips(UnrolledReduction *f, Buffer *out,
                               bool is_tail) {
  Emitter *e = f->e;
  const LoopNest *loop = e->kernel->loops.at[f->loop_index];
  int64_t first_row = first_input_row(f, loop),
          last_row = unrolled_reduction_input_rows(f, loop, f->rows) - 1;
  if (!f->hoisted_masks.line_condition ||
      !f->hoisted_masks.condition_is_interval) {
    emit_masked_strips(f, out, true, is_tail, 0);
    return;
  }
  buffer_puts(out, "int all = 1;\n");
  for (uint32_t j = 0; j < 2; j++) {
    buffer_puts(out, "{\n");
    for (uint32_t v = loop->spatial_axes;
         f->partially_unrolled && v < loop->axis_count; v++)
      if (v != f->term_axis) /* the condition is the same for all terms */
        buffer_printf(out, "const int64_t i%u = 0;\n", v);
    for (uint32_t k = OUTER_LEVEL + f->outer_loops + 1; k < f->input_row_level;
         k++)
      emit_append(out, &f->shared_load_levels[k]);
    buffer_printf(out, "const int64_t i%u = row * %lld + (%lld);\n",
                  f->input_row_axis, (long long)f->row_stride,
                  (long long)(first_row + (j ? last_row : 0)));
    emit_append(out, &f->shared_load_levels[f->input_row_level]);
    buffer_printf(out, "all &= %s;\n}\n", f->hoisted_masks.line_condition);
  }
  buffer_puts(out, "if (all) {\n");
  emit_masked_strips(f, out, true, is_tail, 1);
  buffer_puts(out, "} else {\n");
  emit_masked_strips(f, out, true, is_tail, 0);
  buffer_puts(out, "}\n");
}

/* Rows with padding.  Masks are computed first, so that each row is read
 * sequentially. */
static void emit_padded_rows(UnrolledReduction *f, Buffer *out, bool is_tail) {
  Emitter *e = f->e;
  bool outer = emit_vector_axis_is_outer(e);
  const char *to = emit_axis_end(e, f->row_axis);
  buffer_printf(out, "const int64_t first = %s, stop = %s;\n",
                outer ? "lo" : emit_axis_begin(e, f->vector_axis),
                outer ? "hi" : emit_axis_end(e, f->vector_axis));
  if (f->hoisted_masks.source.len)
    buffer_puts(out, "const int64_t start = first, end = stop;\n");
  emit_append(out, &f->hoisted_masks.source);
  buffer_printf(out, "int64_t row = %s;\nfor (; row + %u <= %s; row += %u) {\n",
                emit_axis_begin(e, f->row_axis), f->rows, to, f->rows);
  emit_jammed_strips(f, out, is_tail);
  buffer_puts(out, "}\n");
  if (has_remainder_rows(f, e->kernel->loops.at[f->loop_index])) {
    buffer_printf(out, "for (; row < %s; row++) {\n", to);
    emit_masked_strips(f, out, false, is_tail, 0);
    buffer_puts(out, "}\n");
  }
}

static bool reads_padding(const LoopNest *loop) {
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    if (s->kind == KOP_SELECT && loop->ops.at[s->args[1]].kind == KOP_LOAD)
      return true;
  }
  return false;
}

/* Vectors per cache line, if rows are jammed. */
static uint32_t vectors_per_cache_line(const Emitter *e, const LoopNest *loop) {
  Dtype t = loop->outputs.at[0].dtype;
  uint32_t bytes = e->width * dtype_info[t].bytes;
  uint32_t vectors = CACHE_LINE_BYTES / bytes;
  return vectors < 1                       ? 1
         : vectors < MAX_ROW_BLOCK_VECTORS ? vectors
                                           : MAX_ROW_BLOCK_VECTORS;
}

/* Orders the loops around the vectors: other spatial axes, rows, terms. */
static void begin_reduction(UnrolledReduction *f, uint32_t loops,
                            const uint32_t *order) {
  Emitter *e = f->e;
  LoopNest *loop = e->kernel->loops.at[f->loop_index];
  uint32_t nest[MAX_KERNEL_AXES], count = 0, spatial_loops = 0;
  while (spatial_loops < loops && order[spatial_loops] < loop->spatial_axes)
    spatial_loops++;
  memcpy(f->loop_order, order, loops * sizeof *order);
  f->row_axis = spatial_loops ? order[spatial_loops - 1] : NO_AXIS;
  f->has_padding = reads_padding(loop);
  f->vectors = f->has_padding ? 1 : vectors_per_cache_line(e, loop);
  unrolled_reduction_choose_jam(loop, f);
  if (f->term_axis == NO_AXIS)
    f->vectors =
        unrolled_reduction_choose_block_vectors(e, loop, f->vector_axis);
  f->outer_loops = spatial_loops - (f->term_axis != NO_AXIS);
  if (f->term_axis == NO_AXIS) {
    emit_begin_loop(e, loop, f->vector_axis, loops, order);
  } else {
    for (uint32_t j = 0; j < f->outer_loops; j++)
      nest[count++] = order[j];
    if (!f->partially_unrolled)
      nest[count++] = f->input_row_axis;
    for (uint32_t j = spatial_loops; j < loops; j++)
      if (order[j] != f->term_axis)
        nest[count++] = order[j];
    if (f->partially_unrolled)
      nest[count++] = f->input_row_axis;
    LoopNest *lines = unrolled_reduction_index_by_input_rows(e->arena, loop, f);
    f->precomputed = NEW_ARRAY(e->arena, const char *, lines->ops.len);
    begin_hoisted_broadcasts(f, lines, count, nest);
    if (f->has_padding)
      begin_shared_loads(f, lines, count, nest);
    nest[count++] = f->row_axis;
    nest[count++] = f->term_axis;
    emit_begin_loop(e, lines, f->vector_axis, count, nest);
  }
  e->reads_past_tail = true;
  e->loop_index = f->loop_index;
  if (contracts_to_fma(e->loop))
    e->ops.contracted = e->loop->outputs.at[0].value_op;
  e->ops.precomputed = f->precomputed;
  emit_place_ops(e);
  for (uint32_t j = 0; f->precomputed && j < e->loop->ops.len; j++)
    if (f->precomputed[j]) {
      e->ops.varies[j] = true;
      e->ops.levels[j] = e->levels.vector;
    }
  emit_demanded_ops(e);
  e->ops.precomputed = NULL;
}

void emit_unrolled_reduction(Emitter *e, Buffer *out, uint32_t at,
                             uint32_t vector_axis, uint32_t loops,
                             const uint32_t *order) {
  const LoopNest *loop = e->kernel->loops.at[at];
  UnrolledReduction *f = NEW(e->arena, UnrolledReduction);
  Accumulator accumulators[MAX_LOOP_OUTPUTS];
  *f = (UnrolledReduction){.e = e,
                           .loop_index = at,
                           .vector_axis = vector_axis,
                           .input_row_axis = NO_AXIS};
  f->shared_load_code = f->hoisted_masks.source = f->broadcast_code =
      (Buffer){.arena = e->arena};
  begin_reduction(f, loops, order);
  int64_t extent = loop->extents[vector_axis];
  int64_t task_extent = vector_axis + 1 == loop->parallel_axes
                            ? e->cpu->schedule->last_axis_block
                            : extent;
  int64_t block = (int64_t)f->vectors * e->width;
  bool is_constant = extent_is_static(e->kernel->graph, extent);
  bool has_full = !is_constant || (extent >= block && task_extent >= block);
  bool is_tail = !is_constant || loop_is_trimmed(loop, vector_axis) ||
                 extent % block || task_extent % block;
  Accumulator sum = accumulator_new(e, 0);
  for (uint32_t j = 0; j < 4; j++) {
    f->accumulate_code[j / 2][j % 2] = (Buffer){.arena = e->arena};
    f->finish_code[j / 2][j % 2] = (Buffer){.arena = e->arena};
    emit_accumulators(f, &sum, j / 2 ? f->rows : 1, j % 2,
                      &f->accumulate_code[j / 2][j % 2]);
  }
  memcpy(f->level_code, e->levels.code, sizeof f->level_code);
  uint32_t count = begin_epilogue(f, e->cpu->epilogue[at], &sum, accumulators);
  for (uint32_t j = 0; j < 4; j++)
    emit_epilogue(f, accumulators, count, &sum, j / 2 ? f->rows : 1, j % 2,
                  &f->finish_code[j / 2][j % 2]);
  e->ops.precomputed = NULL;
  buffer_puts(out, "{\n");
  emit_append(&e->function.head, &f->broadcast_levels[0]);
  emit_append(&e->function.head, &f->shared_load_levels[0]);
  emit_append(&e->function.head, &f->level_code[0]);
  emit_append(&e->function.head, &e->levels.code[0]);
  emit_append(out, &f->broadcast_levels[OUTER_LEVEL]);
  emit_append(out, &f->shared_load_levels[OUTER_LEVEL]);
  emit_append(out, &f->level_code[OUTER_LEVEL]);
  emit_append(out, &e->levels.code[OUTER_LEVEL]);
  for (uint32_t j = 0; j < f->outer_loops; j++) {
    uint32_t v = f->loop_order[j];
    buffer_printf(out, "for (int64_t i%u = %s; i%u < %s; i%u++) {\n", v,
                  emit_axis_begin(e, v), v, emit_axis_end(e, v), v);
    emit_append(out, &f->broadcast_levels[e->levels.of[v]]);
    emit_append(out, &f->shared_load_levels[e->levels.of[v]]);
    emit_append(out, &f->level_code[e->levels.of[v]]);
    emit_append(out, &e->levels.code[e->levels.of[v]]);
  }
  emit_append(out, &f->broadcast_code);
  if (f->shared_load_code.len)
    emit_padded_rows(f, out, is_tail);
  else
    emit_row_loop(f, out, has_full, is_tail);
  for (uint32_t j = 0; j < f->outer_loops; j++)
    buffer_puts(out, "}\n");
  buffer_puts(out, "}\n");
}
