/* Column reductions: vectors along a spatial axis, with an accumulator per
 * lane. */
#include "backend/cpu/loop_writer.h"
#include "machine/limits/cpu.h"

#define format emit_format

typedef struct ColumnReduction {
  uint32_t vectors;                  /* vectors of a block, at most */
  bool widens_to_f64, is_full_block; /* is_full_block: all vectors are valid */
  Buffer full_code, tail_code;
} ColumnReduction;

/* In a block with a constant number of vectors, accumulators stay in
 * registers. */
static void emit_full_block_results(Buffer *out, const ColumnReduction *c,
                                    const Buffer *full) {
  buffer_printf(out,
                "#pragma GCC unroll %u\nfor (int a = 0; a < %u; a++) {\n"
                "const int64_t j = start + a * W;\n(void)j;\n",
                c->vectors, c->vectors);
  emit_append(out, full);
  buffer_puts(out, "}\n");
}

static void emit_column_results(Emitter *e, Buffer *out, const Accumulator *f,
                                const ColumnReduction *c) {
  Buffer full = {.arena = e->arena}, tail = full;
  Accumulator stored_output = *f;
  LoopOutput r = *f->output;
  stored_output.output = &r;
  r.dtype = accumulator_stored_dtype(e, f);
  char class = emit_class(e, r.dtype),
       from = c->widens_to_f64 ? accumulator_final_class(f) : f->class;
  const char *name = c->widens_to_f64 && f->widens_to_f64 ? "sum"
                     : f->position                        ? "at"
                                                          : "acc";
  const char *x = format(e, "%s%u[a]", name, f->id);
  if (f->position && !f->wide_index)
    x = format(e, "wide(%s)", x);
  else if (!f->position && class != from)
    x = format(e, "CONVERT(%s, v%c)", x, class);
  emit_output_store(e, &full, &stored_output, x, true);
  emit_output_store(e, &tail, &stored_output, x, false);
  ArgReductionPart p = {f->class, f->id, f->wide_index,
                        "",       NULL,  f->out_address};
  if (f->position && e->cpu->schedule->reduction_chunk)
    emit_arg_column_partials(e, out, &p,
                             f->output->global_index->coef[e->vector_axis]);
  if (c->is_full_block) {
    emit_full_block_results(out, c, &full);
    return;
  }
  buffer_puts(out, "for (int64_t j = start, a = 0; j < end; j += W, a++)\n"
                   "if (j + W <= end) {\n");
  emit_append(out, &full);
  buffer_puts(out, "} else {\nconst int rest = (int)(end - j);\n");
  emit_append(out, &tail);
  buffer_puts(out, "}\n");
}

static void declare_accumulators(Emitter *e, Buffer *out, const Accumulator *f,
                                 uint32_t vectors, bool widens_to_f64) {
  buffer_printf(out, "v%c acc%u[%u];\n", vector_type_letter(f->class), f->id,
                vectors);
  if (f->position)
    buffer_printf(out, "v%c at%u[%u];\n", f->wide_index ? 'l' : 'i', f->id,
                  vectors);
  if ((widens_to_f64 && f->widens_to_f64))
    buffer_printf(out, "vd sum%u[%u];\n", f->id, vectors);
  buffer_printf(out,
                "for (int a = 0; a < %u; a++) {\nacc%u[a] = splat_%c(%s);\n",
                vectors, f->id, f->class, f->position ? "0" : f->identity);
  if (f->position)
    buffer_printf(out, "at%u[a] = splat_%c(-1);\n", f->id,
                  f->wide_index ? 'l' : 'i');
  if ((widens_to_f64 && f->widens_to_f64))
    buffer_printf(out, "sum%u[a] = (vd){0};\n", f->id);
  buffer_puts(out, "}\n");
  (void)e;
}

/* Splits the innermost reduction axis into runs.  After each run, f32 sums are
 * added to f64 accumulators. */
static void open_f32_runs(LoopWriter *n, const char *from, const char *to) {
  buffer_printf(n->out,
                "for (int64_t run = %s, stop = %s; run < stop; run += %d) {\n"
                "const int64_t full = run + %d < stop ? run + %d : stop;\n",
                from, to, F32_RUN_VECTORS, F32_RUN_VECTORS, F32_RUN_VECTORS);
}

static void close_f32_runs(LoopWriter *n, uint32_t vectors) {
  for (uint32_t j = 0; j < n->count; j++)
    if (n->accumulators[j].widens_to_f64)
      buffer_printf(n->out,
                    "for (int a = 0; a < %u; a++) {\n"
                    "sum%u[a] += CONVERT(acc%u[a], vd);\nacc%u[a] = (vf){0};\n"
                    "}\n",
                    vectors, n->accumulators[j].id, n->accumulators[j].id,
                    n->accumulators[j].id);
  buffer_puts(n->out, "}\n");
}

/* Emits a full block, whose accumulators stay in registers. */
static void emit_full_block(Emitter *e, Buffer *out, uint32_t vectors,
                            const Buffer *code) {
  buffer_printf(out,
                "#pragma GCC unroll %u\nfor (int a = 0; a < %u; a++) {\n"
                "const int64_t j = start + a * W;\n(void)j;\n%s",
                vectors, vectors, full_vector_macros);
  emit_append(out, &e->levels.code[e->levels.vector]);
  emit_append(out, &e->check_code);
  emit_append(out, code);
  buffer_printf(out, "%s}\n", undef_macros);
}

/* Emits vectors with several terms per iteration, from `from` on.  The caller
 * emits the remaining terms in a loop that begins at `term`. */
static void emit_unrolled_terms(Emitter *e, LoopWriter *n,
                                const ColumnReduction *c, const char *from,
                                const char *to) {
  uint32_t v = e->levels.order[n->open_loops];
  int terms = (int)e->cpu->schedule->reduction_unroll;
  Buffer vector_block = e->levels.code[e->levels.vector],
         body = {.arena = e->arena};
  Buffer full = body, tail = body;
  buffer_printf(&body,
                "#pragma GCC unroll %d\nfor (int t = 0; t < %d; t++) {\n"
                "const int64_t i%u = term + t;\n",
                terms, terms, v);
  emit_append(&body, &e->levels.code[e->levels.of[v]]);
  emit_append(&body, &vector_block);
  emit_append(&full, &c->full_code);
  emit_append(&tail, &c->tail_code);
  buffer_puts(&full, "}\n");
  buffer_puts(&tail, "}\n");
  buffer_printf(n->out,
                "int64_t term = %s;\nfor (; term + %d <= %s; term += %d) {\n"
                "int64_t j = start, a = 0;\n",
                from, terms, to, terms);
  e->levels.code[e->levels.vector] = body;
  emit_vector_loop(e, n->out, ", a++", &full, &tail);
  e->levels.code[e->levels.vector] = vector_block;
  buffer_puts(n->out, "}\n");
}

static void emit_reduction_loops(Emitter *e, LoopWriter *n,
                                 const ColumnReduction *c) {
  Buffer *out = n->out;
  for (uint32_t j = 0; j < n->count; j++)
    if (n->accumulators[j].op != PRIM_NONE)
      declare_accumulators(e, out, &n->accumulators[j], c->vectors,
                           c->widens_to_f64);
  bool terms = e->cpu->schedule->reduction_unroll > 1 && !c->is_full_block;
  loop_writer_open(e, n, e->levels.count - (c->widens_to_f64 || terms));
  const char *from = NULL, *to = NULL;
  if (n->open_loops < e->levels.count) {
    from = emit_axis_begin(e, e->levels.order[n->open_loops]);
    to = emit_axis_end(e, e->levels.order[n->open_loops]);
  }
  if (c->widens_to_f64) {
    open_f32_runs(n, from, to);
    from = "run", to = "full";
  }
  if (terms) {
    emit_unrolled_terms(e, n, c, from, to);
    from = "term";
  }
  if (n->open_loops < e->levels.count)
    loop_writer_open_one(e, n, from, to);
  if (c->is_full_block) {
    emit_full_block(e, out, c->vectors, &c->full_code);
  } else {
    buffer_puts(out, "int64_t j = start, a = 0;\n(void)a;\n");
    emit_vector_loop(e, out, ", a++", &c->full_code, &c->tail_code);
  }
  loop_writer_close(n, e->levels.count - (c->widens_to_f64 || terms));
  if (c->widens_to_f64)
    close_f32_runs(n, c->vectors);
  loop_writer_close(n, n->spatial_loops);
  for (uint32_t j = 0; j < n->count; j++)
    if (n->accumulators[j].op != PRIM_NONE)
      emit_column_results(e, out, &n->accumulators[j], c);
}

/* Number of vectors of a block. */
static uint32_t block_vectors(const Emitter *e) {
  int64_t max_columns = emit_vector_axis_is_outer(e)
                            ? e->cpu->schedule->last_axis_block
                            : e->loop->extents[e->vector_axis];
  if (!extent_is_static(e->kernel->graph, max_columns))
    return MAX_COLUMN_BLOCK_VECTORS;
  int64_t vectors = (max_columns + e->width - 1) / e->width;
  return emit_vector_axis_is_outer(e) ||
                 vectors <=
                     schedule_max_accumulators(e->cpu->schedule->vector_bytes)
             ? (uint32_t)vectors
             : MAX_COLUMN_BLOCK_VECTORS;
}

/* Emits full blocks and partial blocks. */
static void emit_register_blocks(Emitter *e, LoopWriter *n,
                                 ColumnReduction *c) {
  uint32_t open_loops = n->open_loops;
  buffer_printf(n->out, "if (end - start == %u * W) {\n", c->vectors);
  c->is_full_block = true;
  emit_reduction_loops(e, n, c);
  buffer_puts(n->out, "} else {\n");
  n->open_loops = open_loops;
  c->is_full_block = false;
  emit_reduction_loops(e, n, c);
  buffer_puts(n->out, "}\n");
}

void emit_column_reduction(Emitter *e, LoopWriter *n) {
  Buffer *out = n->out;
  bool is_outer = emit_vector_axis_is_outer(e);
  ColumnReduction c = {.vectors = block_vectors(e),
                       .full_code = {.arena = e->arena}};
  c.tail_code = c.full_code;
  loop_writer_open(e, n, n->spatial_loops);
  if (is_outer)
    emit_vector_range(e, out, true);
  else
    buffer_printf(out,
                  "for (int64_t start = %s, last = %s; start < last; "
                  "start += %u * W) {\n"
                  "const int64_t end = start + %u * W < last ? start + %u * W "
                  ": last;\n",
                  emit_axis_begin(e, e->vector_axis),
                  emit_axis_end(e, e->vector_axis), c.vectors, c.vectors,
                  c.vectors);
  for (uint32_t j = 0; j < n->count; j++) {
    const Accumulator *f = &n->accumulators[j];
    if (f->op == PRIM_NONE) {
      const char *x =
          emit_store_value(e, f->output->value_op, f->output->dtype);
      emit_output_store(e, &c.full_code, f, x, true);
      emit_output_store(e, &c.tail_code, f, x, false);
      continue;
    }
    c.widens_to_f64 |= f->widens_to_f64;
    emit_accumulate(e, &c.full_code, f, "[a]", false);
    emit_accumulate(e, &c.tail_code, f, "[a]", false);
  }
  if (c.vectors <= schedule_max_accumulators(e->cpu->schedule->vector_bytes))
    emit_register_blocks(e, n, &c);
  else
    emit_reduction_loops(e, n, &c);
  if (!is_outer)
    buffer_puts(out, "}\n");
  loop_writer_close(n, 0);
}
