/* Row loops: vectors along a reduction axis, with a horizontal reduction at the
 * end, or along a stored axis. */
#include "backend/cpu/loop_writer.h"
#include "machine/limits/cpu.h"

#define format emit_format

/* Vector t with its lanes half_width .. 2 * half_width - 1 first. */
static const char *upper_half(Emitter *e, uint32_t half_width) {
  Buffer b = {.arena = e->arena};
  buffer_puts(&b, "__builtin_shufflevector(t, t");
  for (uint32_t l = 0; l < e->width; l++)
    buffer_printf(&b, ", %u", l < half_width ? l + half_width : l);
  buffer_puts(&b, ")");
  return b.text;
}

/* Combines two accumulators; NaN is tracked separately if tracks_nan. */
static const char *combine_accumulators(Emitter *e, const Accumulator *f,
                                        char class, const char *x,
                                        const char *y) {
  if (!f->tracks_nan)
    return emit_combine(e, f->op, class, true, x, y);
  return format(e, "%s_f(%s, %s)", accumulator_order(f)->join, x, y);
}

static void emit_horizontal_reduction(Emitter *e, Buffer *out,
                                      const Accumulator *f, const char *first) {
  const char *acc = format(e, "acc%u%s", f->id, first);
  if (f->position) {
    const char *place =
        format(e, "%s_lane(%s, at%u%s)", accumulator_arg_function(e, f), acc,
               f->id, first);
    ArgReductionPart p = {f->class, f->id, f->wide_index,
                          first,    place, f->out_address};
    if (e->cpu->schedule->reduction_chunk)
      emit_arg_row_partial(e, out, &p);
    else
      emit_scalar_output(e, out, f, place);
    return;
  }
  char class = accumulator_final_class(f);
  const char *from =
      f->widens_to_f64 ? format(e, "sum%u%s", f->id, f->row_subscript) : acc;
  buffer_printf(out, "{ v%c t = %s;\n", vector_type_letter(class), from);
  for (uint32_t half_width = e->width / 2; half_width; half_width /= 2)
    buffer_printf(
        out, "t = %s;\n",
        combine_accumulators(e, f, class, "t", upper_half(e, half_width)));
  if (f->tracks_nan)
    buffer_printf(out, "const float r = seen_end(first_f(t), seen%u%s);\n",
                  f->id, first);
  else
    buffer_printf(out, "const %s r = first_%c(t)%s;\n", scalar_type(class),
                  vector_type_letter(class), class == 'b' ? " & 1" : "");
  emit_scalar_output(e, out, f, "r");
  buffer_puts(out, "}\n");
}

/* Number of independent accumulators; 1 if there are many other operations. */
static uint32_t choose_interleave(const Emitter *e, const LoopWriter *n) {
  uint32_t ops = 0;
  for (uint32_t j = 0; j < n->count; j++)
    if (n->accumulators[j].op == PRIM_NONE)
      return 1;
  for (uint32_t j = 0; j < e->loop->ops.len; j++)
    ops += e->ops.varies[j];
  return ops <= MAX_INTERLEAVED_OPS ? INTERLEAVE_COUNT : 1;
}

/* A loop over accumulators, unrolled so that they stay in registers. */
static const char *interleave_loop(Emitter *e, uint32_t from,
                                   uint32_t interleave) {
  return format(e, "#pragma GCC unroll %u\nfor (int q = %u; q < %u; q++)\n",
                interleave, from, interleave);
}

/* Declares arrays of accumulators for the jammed rows. */
static void declare_jammed_accumulators(Emitter *e, Buffer *out,
                                        const Accumulator *f,
                                        uint32_t interleave) {
  char v = vector_type_letter(f->class);
  buffer_printf(out, "v%c acc%u[%u][%u];\n", v, f->id, e->cpu->jammed_rows,
                interleave);
  if (f->widens_to_f64)
    buffer_printf(out, "vd sum%u[%u];\n", f->id, e->cpu->jammed_rows);
  unroll_and_jam_each_point(e, out, false);
  buffer_printf(out, "%sacc%u[y][q] = splat_%c(%s);\n",
                interleave_loop(e, 0, interleave), f->id, f->class,
                f->identity);
  if (f->widens_to_f64)
    buffer_printf(out, "sum%u[y] = (vd){0};\n", f->id);
  buffer_puts(out, "}\n");
}

static void declare_accumulators(Emitter *e, Buffer *out, const Accumulator *f,
                                 uint32_t interleave) {
  char v = vector_type_letter(f->class);
  const char *each = interleave_loop(e, 0, interleave);
  const char *first = f->position ? "0" : f->identity;
  if (interleave > 1)
    buffer_printf(out, "v%c acc%u[%u];\n%sacc%u[q] = splat_%c(%s);\n", v, f->id,
                  interleave, each, f->id, f->class, first);
  else
    buffer_printf(out, "v%c acc%u = splat_%c(%s);\n", v, f->id, f->class,
                  first);
  char at = f->wide_index ? 'l' : 'i';
  if (f->position && interleave > 1)
    buffer_printf(out, "v%c at%u[%u];\n%sat%u[q] = splat_%c(-1);\n", at, f->id,
                  interleave, each, f->id, at);
  else if (f->position)
    buffer_printf(out, "v%c at%u = splat_%c(-1);\n", at, f->id, at);
  if (f->widens_to_f64)
    buffer_printf(out, "vd sum%u = {0};\n", f->id);
  if (f->tracks_nan && interleave > 1)
    buffer_printf(out, "seen_f seen%u[%u];\n%sseen%u[q] = (seen_f)-1;\n", f->id,
                  interleave, each, f->id);
  else if (f->tracks_nan)
    buffer_printf(out, "seen_f seen%u = (seen_f)-1;\n", f->id);
}

/* Combines the interleaved accumulators in acc%u[0], and adds f32 sums to the
 * f64 accumulator. */
static void combine_interleaved(Emitter *e, Buffer *out, const Accumulator *f,
                                uint32_t interleave) {
  bool array = interleave > 1 || e->cpu->jammed_rows;
  const char *first = array ? "[0]" : "";
  const char *one = format(e, "acc%u%s[0]", f->id, f->row_subscript);
  const char *other = format(e, "acc%u%s[q]", f->id, f->row_subscript);
  if (interleave > 1)
    buffer_puts(out, interleave_loop(e, 1, interleave));
  if (interleave > 1 && f->position)
    buffer_printf(out, "%s = %s_of(%s, &at%u[0], %s, at%u[q]);\n", one,
                  accumulator_arg_function(e, f), one, f->id, other, f->id);
  else if (interleave > 1)
    buffer_printf(
        out, "%s = %s%s", one, combine_accumulators(e, f, f->class, one, other),
        f->tracks_nan ? format(e, ", seen%u[0] &= seen%u[q];\n", f->id, f->id)
                      : ";\n");
  if (!f->widens_to_f64)
    return;
  buffer_printf(out, "sum%u%s += CONVERT(acc%u%s%s, vd);\n", f->id,
                f->row_subscript, f->id, f->row_subscript, first);
  if (array)
    buffer_printf(out, "%sacc%u%s[q] = (vf){0};\n",
                  interleave_loop(e, 0, interleave), f->id, f->row_subscript);
  else
    buffer_printf(out, "acc%u = (vf){0};\n", f->id);
}

/* Returns true if the row is so long that most vectors have no better element.
 * In shorter rows, the branch is mispredicted too often. */
static bool skips_worse_vectors(const Emitter *e, const Accumulator *f) {
  const LoopNest *loop = e->loop;
  bool parts =
      e->cpu->schedule->reduction_chunk && e->vector_axis == loop->spatial_axes;
  int64_t terms =
      parts ? e->cpu->schedule->reduction_chunk : loop->extents[e->vector_axis];
  return f->position && extent_hint(loop->graph, terms) >= MIN_SEARCH_TERMS;
}

/* Several vectors per iteration, each with its own accumulator. */
static void emit_interleaved_loop(Emitter *e, Buffer *out,
                                  const LoopWriter *n) {
  buffer_printf(out,
                "for (; j + %d * W <= end; j += %d * W) {\n"
                "const int64_t first = j;\n%s"
                "#pragma GCC unroll %d\n"
                "for (int q = 0; q < %d; q++) {\n"
                "const int64_t j = first + q * W;\n(void)j;\n",
                INTERLEAVE_COUNT, INTERLEAVE_COUNT, full_vector_macros,
                INTERLEAVE_COUNT, INTERLEAVE_COUNT);
  emit_append(out, &e->levels.code[e->levels.vector]);
  emit_append(out, &e->check_code);
  for (uint32_t j = 0; j < n->count; j++) {
    const Accumulator *f = &n->accumulators[j];
    if (skips_worse_vectors(
            e, f)) /* every lane has a position after the first vector */
      buffer_printf(out, "if (first == start || may_%c_%s(acc%u[q], %s))\n",
                    f->class, accumulator_order(f)->accumulate, f->id,
                    emit_vector(e, f->output->value_op, f->class));
    emit_accumulate(e, out, f, format(e, "%s[q]", f->row_subscript), false);
  }
  if (e->cpu->jammed_rows)
    buffer_puts(out, "}\n");
  buffer_printf(out, "}\n%s}\n", undef_macros);
}

/* The address of the first output with non-temporal stores, as an argument;
 * NULL: there is none. */
static const char *nontemporal_address(Emitter *e, const LoopWriter *n) {
  for (uint32_t j = 0; j < n->count; j++) {
    const Accumulator *f = &n->accumulators[j];
    if (f->op == PRIM_NONE && accumulator_is_nontemporal(e, f))
      return format(e, "%s(%s + j)", dtype_info[f->output->dtype].name,
                    f->out_address);
  }
  return NULL;
}

static void close_f32_run(Emitter *e, const LoopWriter *n,
                          uint32_t interleave) {
  buffer_puts(n->out, "j = end;\n");
  if (e->cpu->jammed_rows)
    unroll_and_jam_each_point(e, n->out, false);
  for (uint32_t j = 0; j < n->count; j++)
    if (n->accumulators[j].widens_to_f64)
      combine_interleaved(e, n->out, &n->accumulators[j], interleave);
  buffer_puts(n->out, e->cpu->jammed_rows ? "}\n}\n" : "}\n");
}

/* The loop over the vectors of a row, with `interleave` accumulators. */
static void emit_reduction_loop(Emitter *e, const LoopWriter *n,
                                uint32_t interleave, const Buffer *full,
                                const Buffer *tail) {
  bool widens_to_f64 = false;
  for (uint32_t j = 0; j < n->count; j++)
    widens_to_f64 |= n->accumulators[j].widens_to_f64;
  emit_vector_range(e, n->out, true);
  if (widens_to_f64)
    buffer_printf(
        n->out,
        "for (int64_t j = start, last = end; j < last;) {\n"
        "const int64_t end = j + %d * W < last ? j + %d * W : last;\n",
        F32_RUN_VECTORS, F32_RUN_VECTORS);
  else
    buffer_puts(n->out, "int64_t j = start;\n");
  if (interleave > 1)
    emit_interleaved_loop(e, n->out, n);
  const char *nontemporal = nontemporal_address(e, n);
  if (nontemporal)
    emit_nontemporal_loop(e, n->out, nontemporal, full, tail);
  else
    emit_vector_loop(e, n->out, "", full, tail);
  if (widens_to_f64)
    close_f32_run(e, n, interleave);
}

static void emit_row_result(Emitter *e, const LoopWriter *n,
                            const Accumulator *f, uint32_t interleave,
                            const char *first) {
  if (f->op == PRIM_NONE)
    return;
  if (!f->widens_to_f64)
    combine_interleaved(e, n->out, f, interleave);
  emit_horizontal_reduction(e, n->out, f, first);
}

void emit_row_nest(Emitter *e, LoopWriter *n) {
  Buffer full = {.arena = e->arena}, tail = full, *out = n->out;
  uint32_t interleave = choose_interleave(e, n);
  const char *first = interleave > 1 ? "[0]" : "";
  loop_writer_open(
      e, n, e->transpose.loads.len ? n->spatial_loops - 1 : n->spatial_loops);
  for (uint32_t j = 0; j < n->count; j++) {
    const Accumulator *f = &n->accumulators[j];
    if (f->op == PRIM_NONE) {
      const char *x =
          emit_store_value(e, f->output->value_op, f->output->dtype);
      emit_output_store(e, &full, f, x, true);
      emit_output_store(e, &tail, f, x, false);
      continue;
    }
    declare_accumulators(e, out, f, interleave);
    emit_accumulate(e, &full, f, first, false);
    emit_accumulate(e, &tail, f, first, true);
  }
  if (e->transpose.loads.len) {
    emit_vector_range(e, out, true);
    emit_transposed_tiles(e, out, emit_axis_begin(e, e->transpose.axis),
                          emit_axis_end(e, e->transpose.axis), &full, &tail);
    loop_writer_close(n, 0);
    return;
  }
  loop_writer_open(e, n, e->levels.count);
  emit_reduction_loop(e, n, interleave, &full, &tail);
  loop_writer_close(n, n->spatial_loops);
  for (uint32_t j = 0; j < n->count; j++)
    emit_row_result(e, n, &n->accumulators[j], interleave, first);
  loop_writer_close(n, 0);
}

/* The same for several jammed rows. */
void emit_jammed_nest(Emitter *e, const LoopWriter *n) {
  Buffer jammed_block = {.arena = e->arena}, full = jammed_block,
         tail = jammed_block;
  Buffer *block = &e->levels.code[e->levels.vector];
  uint32_t interleave = choose_interleave(e, n);
  unroll_and_jam_begin(e, n->out);
  for (uint32_t j = 0; j < n->count; j++) {
    declare_jammed_accumulators(e, n->out, &n->accumulators[j], interleave);
    emit_accumulate(e, &full, &n->accumulators[j], "[y][0]", false);
    emit_accumulate(e, &tail, &n->accumulators[j], "[y][0]", true);
  }
  unroll_and_jam_each_point(e, &jammed_block, true);
  emit_append(&jammed_block, block);
  *block = jammed_block;
  buffer_puts(&full, "}\n");
  buffer_puts(&tail, "}\n");
  emit_reduction_loop(e, n, interleave, &full, &tail);
  unroll_and_jam_each_point(e, n->out, true);
  unroll_and_jam_bind_locals(e, n->out, true);
  for (uint32_t j = 0; j < n->count; j++)
    emit_row_result(e, n, &n->accumulators[j], interleave, "[y][0]");
  buffer_puts(n->out, "}\n");
  unroll_and_jam_end(n->out);
}
