/* Loops of a kernel as C: for-loops around straight-line code, and what
 * reductions need around them.
 *
 * The innermost for-loop goes over lanes; its block is written twice, for
 * whole vectors and for the rest of a row.  Lanes lie along an axis that is
 * reduced, and are then put together at the end; or along one that is kept,
 * and each has a sum of its own. */
#include "backend/cpu/loop_writer.h"

#include <string.h>

enum {
  MAX_INTERLEAVED_OPS = 8,
  MIN_TRANSPOSE_ROWS = 4,     /* of a square that is worth being turned */
  MIN_SEARCH_TERMS = 1 << 14, /* terms of a row that a search goes through */
};

#define format emit_format

/* ---- where for-loops are ---- */

bool emit_vector_axis_is_outer(const Emitter *e) {
  return e->vector_axis + 1 == e->loop->parallel_axes;
}

static bool is_task_axis(const Emitter *e, const LoopNest *loop, uint32_t v) {
  uint32_t outer = loop->parallel_axes;
  return v < outer && !(loop->staging == STAGE_OUT && v + 1 == outer) &&
         !(e->cpu->schedule->shape == TASK_TILE && v + 2 == outer) &&
         !(e->cpu->schedule->task_image_rows && v + 3 == outer);
}

/* ---- limits ---- */

bool loop_is_trimmed(const LoopNest *loop, uint32_t v) {
  return (loop->trim_bounds || loop->strip_mined) && v == loop->trimmed_axis;
}

/* The least or largest value of a limit among the rows. */
static const char *trim_bound_expr(Emitter *e, const TrimBound *bound) {
  uint32_t outer = e->kernel->parallel_axes;
  Buffer b = {.arena = e->arena};
  buffer_puts(&b, emit_int(e, bound->dividend.constant));
  for (uint32_t v = 0; v < outer; v++) {
    int64_t t = bound->dividend.coef[v];
    if (!t)
      continue;
    buffer_printf(&b, " + %s * ", emit_int(e, t));
    if (v + 1 < outer || e->cpu->schedule->shape == TASK_POINT)
      buffer_printf(&b, "i%u", v);
    else
      buffer_puts(&b, (t > 0) == bound->is_lower ? "lo" : "(hi - 1)");
  }
  return bound->divisor == 1 ? b.text
                             : format(e, "floor_div(%s, %s)", b.text,
                                      emit_int(e, bound->divisor));
}

static void emit_trim_bound(Emitter *e, Buffer *out, uint32_t at,
                            const TrimBound *bound, const char *name) {
  if (bound->exact_limit)
    buffer_printf(out, "if (%s < %s)\n", emit_int(e, bound->largest_index),
                  emit_int(e, bound->exact_limit));
  buffer_printf(out, "{ const int64_t x = %s%s;\nif (x %s %s%u)\n%s%u = x; }\n",
                trim_bound_expr(e, bound), bound->is_lower ? "" : " + 1",
                bound->is_lower ? ">" : "<", name, at, name, at);
}

bool kernel_may_run_untrimmed(const Kernel *k) {
  bool needs_fallback = k->trim_check != NULL;
  for (uint32_t j = 0; j < k->loops.len; j++)
    needs_fallback |= k->loops.at[j]->requires_finite;
  return needs_fallback;
}

/* One element at least is gone through, where there is one: so its loops need
 * no other way. */
static void emit_loop_trim_bounds(Emitter *e, Buffer *out, uint32_t at,
                                  const char *from, const char *to) {
  const LoopNest *loop = e->kernel->loops.at[at];
  const char *extent = emit_int(e, loop->extents[loop->trimmed_axis]);
  buffer_printf(out, "int64_t %s%u = 0, %s%u = %s;\n", from, at, to, at,
                extent);
  if (!loop->trim_bounds)
    return;
  if (kernel_may_run_untrimmed(e->kernel))
    buffer_puts(out, "if (!whole)\n");
  if (!extent_is_static(e->kernel->graph, loop->extents[loop->trimmed_axis]))
    buffer_printf(out, "if (%s > 0)\n", extent);
  buffer_puts(out, "{\n");
  for (uint32_t i = 0; i < e->kernel->trim_bounds.len; i++) {
    const TrimBound *bound = &e->kernel->trim_bounds.at[i];
    if (loop->trim_bounds >> i & 1)
      emit_trim_bound(e, out, at, bound, bound->is_lower ? from : to);
  }
  buffer_printf(out,
                "if (%s%u >= %s)\n%s%u = %s - 1;\n"
                "if (%s%u <= %s%u)\n%s%u = %s%u + 1;\n}\n",
                from, at, extent, from, at, extent, to, at, from, at, to, at,
                from, at);
}

void emit_trim_bounds(Emitter *e, Buffer *out) {
  for (uint32_t j = 0; j < e->kernel->loops.len; j++)
    if (e->kernel->loops.at[j]->strip_mined)
      emit_loop_trim_bounds(e, out, j, "low", "high");
    else if (e->kernel->loops.at[j]->trim_bounds)
      emit_loop_trim_bounds(e, out, j, "from", "to");
}

void emit_trim_check(Emitter *e, Buffer *out) {
  const LoopNest *guard = e->kernel->trim_check;
  emit_begin_loop(e, guard, NO_AXIS, 0, NULL);
  emit_ops(e);
  emit_append(&e->function_head, &e->level_code[0]);
  buffer_puts(out, "{\n");
  emit_append(out, &e->level_code[OUTER_LEVEL]);
  for (uint32_t j = 0; j < guard->outputs.len; j++)
    buffer_printf(out, "missed |= %s;\n",
                  emit_scalar(e, guard->outputs.at[j].value_op));
  buffer_puts(out, "}\n");
}

/* ---- reductions ---- */

static bool is_arg_reduction(PrimId op) {
  return op == PRIM_ARGMAX || op == PRIM_ARGMIN;
}

static double reduced_points(const LoopNest *loop) {
  return loop_iterations_hint(loop, loop->spatial_axes, loop->axis_count);
}

/* Sums of floats go into doubles after each RUN vectors: as good as sums in
 * double, and as quick as sums in float.  Short ones do without. */
static bool sum_widens_to_f64(const Emitter *e, const Accumulator *f) {
  bool row =
      e->vector_axis != NO_AXIS && e->vector_axis >= e->loop->spatial_axes;
  double run = row ? (double)F32_RUN_VECTORS * e->width : F32_RUN_VECTORS;
  return f->op == PRIM_SUM && f->class == 'f' &&
         (e->cpu->schedule->reduction_chunk || reduced_points(e->loop) > run);
}

char accumulator_final_class(const Accumulator *f) {
  return f->widens_to_f64 ? 'd' : f->class;
}

/* Is it an extreme that the machine takes, numbers at least, of all lanes? */
static bool tracks_nan(const Emitter *e, const Accumulator *f) {
  return (f->op == PRIM_MAX || f->op == PRIM_MIN) && f->class == 'f' &&
         e->width == 16 && e->vector_axis != NO_AXIS &&
         e->vector_axis >= e->loop->spatial_axes;
}

static Dtype accumulator_dtype(const Accumulator *f) {
  char class = f->position ? 'l' : accumulator_final_class(f);
  return class == 'f'   ? DT_F32
         : class == 'd' ? DT_F64
         : class == 'l' ? DT_I64
         : class == 'b' ? DT_BOOL
                        : DT_I32;
}

static uint32_t add_output(Emitter *e, LoopOutput *r) {
  VEC_PUSH(e->arena, e->emitted->call.outputs, r);
  return e->emitted->call.outputs.len - 1;
}

/* May there be so many elements in the axes that are reduced? */
static bool has_wide_index(const LoopNest *loop) {
  for (uint32_t v = loop->spatial_axes; v < loop->axis_count; v++)
    if (!extent_is_static(loop->graph, loop->extents[v]))
      return true;
  return loop_iterations_hint(loop, loop->spatial_axes, loop->axis_count) >
         INT32_MAX;
}

/* How many elements come before this one in these axes. */
static const char *emit_reduced_position(Emitter *e) {
  AffineExpr *q = affine_new(e->arena, 0);
  int64_t stride = 1;
  for (uint32_t v = e->loop->axis_count; v-- > e->loop->spatial_axes;) {
    q->coef[v] = stride;
    stride = emit_extent_mul(e, stride, e->loop->extents[v]);
  }
  const char *base = emit_affine(e, q);
  bool is_vector = q->coef[e->vector_axis];
  if (has_wide_index(e->loop))
    return format(e, is_vector ? "%s + j + wide(lanes())" : "splat_l(%s)",
                  base);
  return format(e, is_vector ? "(int32_t)(%s + j) + lanes()" : "splat_i(%s)",
                base);
}

Accumulator accumulator_new(Emitter *e, uint32_t at) {
  const LoopOutput *r = &e->loop->outputs.at[at];
  Dtype t = e->loop->ops.at[r->value_op].dtype;
  Accumulator f = {.output = r, .op = r->reduce, .class = value_class(t)};
  f.id = e->next_id++;
  f.row_subscript = e->cpu->jammed_rows ? "[y]" : "";
  f.widens_to_f64 = sum_widens_to_f64(e, &f);
  f.tracks_nan = tracks_nan(e, &f);
  f.position = is_arg_reduction(r->reduce) ? emit_reduced_position(e) : NULL;
  f.wide_index = f.position && has_wide_index(e->loop);
  f.identity = emit_identity(r->reduce, t);
  return f;
}

void accumulator_set_addresses(Emitter *e, uint32_t loop, uint32_t at,
                               Accumulator *f) {
  LoopOutput *r = &e->loop->outputs.at[at];
  const LocalBuffer *l = &e->locals[loop][at];
  if (r->local_index)
    f->local_address =
        format(e, "l%u + %s", l->id, emit_local_offset(e, l, r->local_index));
  if (e->cpu->schedule->reduction_chunk) {
    e->cpu->out->accumulator_dtype = accumulator_dtype(f);
    e->cpu->out->is_arg_reduction = f->position != NULL;
  }
  if (r->global_index)
    f->out_address = format(
        e, "o%u + %s%s", add_output(e, r), emit_affine(e, r->global_index),
        e->cpu->schedule->reduction_chunk ? " + share" : "");
}

static const char *arg_reduction_function(Emitter *e, const Accumulator *f) {
  return format(e, "best_%c_%s%s", f->class,
                f->op == PRIM_ARGMAX ? "more" : "less",
                f->wide_index ? "_far" : "");
}

/* One more vector of values for an accumulator. */
void emit_accumulate(Emitter *e, Buffer *out, const Accumulator *f,
                     const char *at, bool masked) {
  const char *x = emit_vector(e, f->output->value_op, f->class);
  const char *acc = format(e, "acc%u%s", f->id, at);
  if (f->position) {
    buffer_printf(out, "%s(&%s, &at%u%s, %s, %s, LIVE);\n",
                  arg_reduction_function(e, f), acc, f->id, at, x, f->position);
    return;
  }
  if (masked)
    x = format(e, "sel_%c(LIVE, %s, splat_%c(%s))", f->class, x, f->class,
               f->identity);
  const char *accumulated =
      f->tracks_nan
          ? format(e, "%s_f(%s, x, &seen%u%s)",
                   f->op == PRIM_MAX ? "more" : "less", acc, f->id, at)
          : emit_combine(e, f->op, f->class, true, acc, "x");
  buffer_printf(out, "{ const v%c x = %s;\n%s = %s; }\n",
                vector_type_letter(f->class), x, acc, accumulated);
}

/* ---- for-loops ---- */

/* The lane's block, and what is done with it, for whole vectors before `to`;
 * for the rest of these, `part`. */
static void emit_vector_loop_to(Emitter *e, Buffer *out, const char *to,
                                const char *step, const Buffer *full,
                                const Buffer *tail) {
  const Buffer *body = &e->level_code[e->vector_level];
  buffer_printf(out, "for (; j + W <= %s; j += W%s) {\n%s", to, step,
                full_vector_macros);
  emit_append(out, body);
  emit_append(out, &e->check_code);
  emit_append(out, full);
  buffer_printf(
      out,
      "%s}\nif (j < %s) {\nconst int rest = (int)(%s - j);\n(void)rest;\n%s",
      undef_macros, to, to, tail_macros);
  emit_append(out, body);
  emit_append(out, &e->check_code);
  emit_append(out, tail);
  buffer_printf(out, "%s}\n", undef_macros);
}

/* for j in .. end - 1 */
void emit_vector_loop(Emitter *e, Buffer *out, const char *step,
                      const Buffer *full, const Buffer *tail) {
  emit_vector_loop_to(e, out, "end", step, full, tail);
}

/* The same, but first what is before `to`, a place in memory at j, is where
 * whole vectors may be streamed. */
static void emit_nontemporal_loop(Emitter *e, Buffer *out, const char *to,
                                  const Buffer *full, const Buffer *tail) {
  buffer_printf(out,
                "for (int64_t stop = j + ahead_%s, done = 0; !done; "
                "stop = end) {\n"
                "done = stop >= end;\nstop = done ? end : stop;\n",
                to);
  emit_vector_loop_to(e, out, "stop", "", full, tail);
  buffer_puts(out, "j = stop;\n}\n");
}

void loop_writer_open_one(Emitter *e, LoopWriter *n, const char *from,
                          const char *to) {
  uint32_t v = e->loop_order[n->open_loops++];
  buffer_printf(n->out, "for (int64_t i%u = %s; i%u < %s; i%u++) {\n", v, from,
                v, to, v);
  emit_append(n->out, &e->level_code[e->level_of[v]]);
}

static bool is_split_reduction(const Emitter *e, uint32_t v) {
  uint32_t first = e->loop->spatial_axes;
  return e->cpu->schedule->reduction_chunk && v == first;
}

/* Where an axis begins and ends. */
const char *emit_axis_begin(Emitter *e, uint32_t v) {
  uint32_t outer = e->loop->parallel_axes;
  return is_split_reduction(e, v)      ? "from"
         : v + 1 == outer              ? "lo"
         : v + 3 == outer              ? "above"
         : v < outer                   ? "y0"
         : loop_is_trimmed(e->loop, v) ? format(e, "from%u", e->loop_index)
                                       : "0";
}

const char *emit_axis_end(Emitter *e, uint32_t v) {
  uint32_t outer = e->loop->parallel_axes;
  return is_split_reduction(e, v)      ? "to"
         : v + 1 == outer              ? "hi"
         : v + 3 == outer              ? "below"
         : v < outer                   ? "y1"
         : loop_is_trimmed(e->loop, v) ? format(e, "to%u", e->loop_index)
                                       : emit_int(e, e->loop->extents[v]);
}

void loop_writer_open(Emitter *e, LoopWriter *n, uint32_t to) {
  while (n->open_loops < to) {
    uint32_t v = e->loop_order[n->open_loops];
    loop_writer_open_one(e, n, emit_axis_begin(e, v), emit_axis_end(e, v));
  }
}

void loop_writer_close(LoopWriter *n, uint32_t to) {
  while (n->open_loops > to) {
    buffer_puts(n->out, "}\n");
    n->open_loops--;
  }
}

void emit_vector_range(Emitter *e, Buffer *out, bool declare) {
  const char *type = declare ? "const int64_t " : "";
  if (emit_vector_axis_is_outer(e))
    buffer_printf(out, "%sstart = lo, end = hi;\n", type);
  else
    buffer_printf(out, "%sstart = %s, end = %s;\n", type,
                  emit_axis_begin(e, e->vector_axis),
                  emit_axis_end(e, e->vector_axis));
}

/* ---- results ---- */

/* Is it stored past the caches, in whole vectors? */
static bool output_is_nontemporal(const Emitter *e, const Accumulator *f) {
  return f->out_address && !e->cpu->schedule->reduction_chunk &&
         schedule_is_nontemporal_along(e->cpu->schedule, e->loop, f->output,
                                       e->vector_axis);
}

/* Lanes to places that are so many elements apart. */
static void emit_strided_store(Emitter *e, Buffer *out, const char *name,
                               const char *to, int64_t step, const char *x,
                               const char *rest) {
  if (step >= 2 && step <= MAX_DEINTERLEAVE && e->width > 1)
    buffer_printf(out, "sts%d_%s(%s + j * %d, %s, %s);\n", (int)step, name, to,
                  (int)step, x, rest);
  else
    buffer_printf(out, "sts_%s(%s + j * %s, %s, %s, %s);\n", name, to,
                  emit_int(e, step), emit_int(e, step), x, rest);
}

void emit_output_store(Emitter *e, Buffer *out, const Accumulator *f,
                       const char *x, bool full) {
  const char *name = dtype_info[f->output->dtype].name;
  bool outer = emit_vector_axis_is_outer(e);
  const char *rest = full ? "W" : "rest";
  if (f->out_address) {
    int64_t step = f->output->global_index->coef[e->vector_axis];
    bool is_nontemporal = full && output_is_nontemporal(e, f);
    e->cpu->has_nontemporal |= is_nontemporal;
    if (step != 1)
      emit_strided_store(e, out, name, f->out_address, step, x, rest);
    else if (full)
      buffer_printf(out, "%s_%s(%s + j, %s);\n", is_nontemporal ? "nt" : "st",
                    name, f->out_address, x);
    else
      buffer_printf(out, "stp_%s(%s + j, %s, rest);\n", name, f->out_address,
                    x);
  }
  if (!f->local_address)
    return;
  int64_t step = outer ? 1 : f->output->local_index->coef[e->vector_axis];
  const char *to =
      outer ? format(e, "%s + (j - lo)", f->local_address) : f->local_address;
  if (step != 1)
    emit_strided_store(e, out, name, to, step, x, rest);
  else if (!outer)
    to = format(e, "%s + j", f->local_address);
  if (step == 1 && full)
    buffer_printf(out, "st_%s(%s, %s);\n", name, to, x);
  else if (step == 1)
    buffer_printf(out, "stp_%s(%s, %s, rest);\n", name, to, x);
}

static void emit_scalar_store(Emitter *e, Buffer *out, Dtype t, const char *to,
                              const char *x) {
  if (!to)
    return;
  if (t == DT_F16 || t == DT_BF16)
    buffer_printf(out, "put_%s(%s, %s);\n", dtype_info[t].name, to, x);
  else
    buffer_printf(out, "*(%s) = (%s)%s;\n", to, memory_type(t), x);
  (void)e;
}

Dtype accumulator_stored_dtype(const Emitter *e, const Accumulator *f) {
  return e->cpu->schedule->reduction_chunk ? accumulator_dtype(f)
                                           : f->output->dtype;
}

static void emit_scalar_output(Emitter *e, Buffer *out, const Accumulator *f,
                               const char *x) {
  if (f->output->loop_carried) {
    emit_online_update(e, out, f->output, f->local_address, x);
    return;
  }
  emit_scalar_store(e, out, accumulator_stored_dtype(e, f), f->out_address, x);
  emit_scalar_store(e, out, f->output->dtype, f->local_address, x);
}

/* ---- lanes along a reduced axis, or along one of stored values ---- */

/* t with its lanes half .. 2 * half - 1 in front. */
static const char *upper_half(Emitter *e, uint32_t half_width) {
  Buffer b = {.arena = e->arena};
  buffer_puts(&b, "__builtin_shufflevector(t, t");
  for (uint32_t l = 0; l < e->width; l++)
    buffer_printf(&b, ", %u", l < half_width ? l + half_width : l);
  buffer_puts(&b, ")");
  return b.text;
}

/* Of accumulators that hold numbers, where it is noted whether others came. */
static const char *combine_accumulators(Emitter *e, const Accumulator *f,
                                        char class, const char *x,
                                        const char *y) {
  if (!f->tracks_nan)
    return emit_combine(e, f->op, class, true, x, y);
  return format(e, "%s_f(%s, %s)", f->op == PRIM_MAX ? "top" : "low", x, y);
}

static void emit_horizontal_reduction(Emitter *e, Buffer *out,
                                      const Accumulator *f, const char *first) {
  const char *acc = format(e, "acc%u%s", f->id, first);
  if (f->position) {
    const char *place = format(e, "%s_lane(%s, at%u%s)",
                               arg_reduction_function(e, f), acc, f->id, first);
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

/* Sums that do not wait for each other, where little else is done. */
static uint32_t choose_interleave(const Emitter *e, const LoopWriter *n) {
  uint32_t ops = 0;
  for (uint32_t j = 0; j < n->count; j++)
    if (n->accumulators[j].op == PRIM_NONE)
      return 1;
  for (uint32_t j = 0; j < e->loop->ops.len; j++)
    ops += e->varies[j];
  return ops <= MAX_INTERLEAVED_OPS ? INTERLEAVE_COUNT : 1;
}

/* A loop over accumulators: written out, so that these stay in registers. */
static const char *interleave_loop(Emitter *e, uint32_t from,
                                   uint32_t interleave) {
  return format(e, "#pragma GCC unroll %u\nfor (int q = %u; q < %u; q++)\n",
                interleave, from, interleave);
}

/* Of several points: arrays of sums. */
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

/* All of an accumulator as one vector, acc%u[0]; sums of floats go on in
 * doubles. */
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
                  arg_reduction_function(e, f), one, f->id, other, f->id);
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

/* So many terms in a row that for most of them it is long known that lanes have
 * had better ones; in a shorter one that is a surprise too often. */
static bool skips_worse_vectors(const Emitter *e, const Accumulator *f) {
  const LoopNest *loop = e->loop;
  bool parts =
      e->cpu->schedule->reduction_chunk && e->vector_axis == loop->spatial_axes;
  int64_t terms =
      parts ? e->cpu->schedule->reduction_chunk : loop->extents[e->vector_axis];
  return f->position && extent_hint(loop->graph, terms) >= MIN_SEARCH_TERMS;
}

/* The lanes of several vectors at a time, each with its own sum. */
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
  emit_append(out, &e->level_code[e->vector_level]);
  emit_append(out, &e->check_code);
  for (uint32_t j = 0; j < n->count; j++) {
    const Accumulator *f = &n->accumulators[j];
    if (skips_worse_vectors(e, f)) /* all lanes have a place after the first */
      buffer_printf(out, "if (first == start || may_%c_%s(acc%u[q], %s))\n",
                    f->class, f->op == PRIM_ARGMAX ? "more" : "less", f->id,
                    emit_vector(e, f->output->value_op, f->class));
    emit_accumulate(e, out, f, format(e, "%s[q]", f->row_subscript), false);
  }
  if (e->cpu->jammed_rows)
    buffer_puts(out, "}\n");
  buffer_printf(out, "}\n%s}\n", undef_macros);
}

/* Where the first result that is streamed goes, as an argument; NULL: there is
 * none. */
static const char *nontemporal_address(Emitter *e, const LoopWriter *n) {
  for (uint32_t j = 0; j < n->count; j++) {
    const Accumulator *f = &n->accumulators[j];
    if (f->op == PRIM_NONE && output_is_nontemporal(e, f))
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

/* The loop over lanes of a row, which has sums of so many vectors. */
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

static void emit_row_nest(Emitter *e, LoopWriter *n) {
  Buffer full = {.arena = e->arena}, tail = full, *out = n->out;
  uint32_t interleave = choose_interleave(e, n);
  const char *first = interleave > 1 ? "[0]" : "";
  loop_writer_open(
      e, n, e->transpose_loads.len ? n->spatial_loops - 1 : n->spatial_loops);
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
  if (e->transpose_loads.len) {
    emit_vector_range(e, out, true);
    emit_transposed_tiles(e, out, emit_axis_begin(e, e->transpose_axis),
                          emit_axis_end(e, e->transpose_axis), &full, &tail);
    loop_writer_close(n, 0);
    return;
  }
  loop_writer_open(e, n, e->loop_count);
  emit_reduction_loop(e, n, interleave, &full, &tail);
  loop_writer_close(n, n->spatial_loops);
  for (uint32_t j = 0; j < n->count; j++)
    emit_row_result(e, n, &n->accumulators[j], interleave, first);
  loop_writer_close(n, 0);
}

/* The same for several points at once. */
static void emit_jammed_nest(Emitter *e, const LoopWriter *n) {
  Buffer is_vector = {.arena = e->arena}, full = is_vector, tail = is_vector;
  Buffer *block = &e->level_code[e->vector_level];
  uint32_t interleave = choose_interleave(e, n);
  unroll_and_jam_begin(e, n->out);
  for (uint32_t j = 0; j < n->count; j++) {
    declare_jammed_accumulators(e, n->out, &n->accumulators[j], interleave);
    emit_accumulate(e, &full, &n->accumulators[j], "[y][0]", false);
    emit_accumulate(e, &tail, &n->accumulators[j], "[y][0]", true);
  }
  unroll_and_jam_each_point(e, &is_vector, true);
  emit_append(&is_vector, block);
  *block = is_vector;
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

/* ---- no lanes: one element ---- */

static void emit_scalar_nest(Emitter *e, LoopWriter *n) {
  loop_writer_open(e, n, e->loop_count);
  buffer_puts(n->out, "#define LIVE ALL\n");
  emit_append(n->out, &e->check_code);
  buffer_puts(n->out, "#undef LIVE\n");
  for (uint32_t j = 0; j < n->count; j++)
    emit_scalar_output(e, n->out, &n->accumulators[j],
                       emit_scalar(e, n->accumulators[j].output->value_op));
  loop_writer_close(n, 0);
}

/* ---- the whole ---- */

/* The axis along which a loop reads what is stored along the lanes. */
static uint32_t choose_transpose_axis(const Emitter *e, const LoopNest *loop,
                                      const uint32_t *order) {
  if (e->cpu->schedule->transpose)
    return order[0];
  if (loop->staging == STAGE_OUT)
    return loop->parallel_axes - 1;
  return loop->staging == STAGE_IN &&
                 loop_extent_hint(loop, loop->contiguous_axis) >=
                     MIN_TRANSPOSE_ROWS
             ? loop->contiguous_axis
             : NO_AXIS;
}

/* Units go along the last outer axis: what the next one copies is fetched while
 * this one's copy is worked on. */
static uint32_t choose_prefetch_axis(const Emitter *e, const LoopNest *loop) {
  bool copies =
      e->cpu->schedule->shape == TASK_POINT && loop->parallel_axes > 0 &&
      loop->axis_count == loop->spatial_axes && e->kernel->loops.len > 1;
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    copies &= loop->outputs.at[j].local_index != NULL;
  return copies ? loop->parallel_axes - 1 : NO_AXIS;
}

void emit_loop_nest(Emitter *e, Buffer *out, uint32_t at,
                    uint32_t vector_axis) {
  const LoopNest *loop = e->kernel->loops.at[at];
  uint32_t order[MAX_KERNEL_AXES], loops = 0;
  for (uint32_t v = 0; v < loop->axis_count; v++)
    if (v != vector_axis && !is_task_axis(e, loop, v) &&
        !(loop->staging == STAGE_OUT && v < loop->parallel_axes))
      order[loops++] = v;
  if (loop->staging == STAGE_OUT)
    order[loops++] = loop->parallel_axes - 1;
  if (e->cpu->schedule
          ->task_image_rows) { /* it is nearer to the lanes in memory */
    order[0] = loop->parallel_axes - 2;
    order[1] = loop->parallel_axes - 3;
  }
  if (unrolled_reduction_applies(e->cpu->schedule, loop, vector_axis)) {
    emit_unrolled_reduction(e, out, at, vector_axis, loops, order);
    return;
  }
  emit_begin_loop(e, loop, vector_axis, loops, order);
  e->loop_index = at;
  e->reads_past_tail = false;
  e->transpose_axis = choose_transpose_axis(e, loop, order);
  e->prefetch_axis = choose_prefetch_axis(e, loop);
  e->cpu->jammed_rows = unroll_and_jam_points(e->kernel, e->cpu->schedule, at);
  emit_ops(e);
  e->prefetch_axis = NO_AXIS;
  LoopWriter n = {.out = out};
  if (loop->outputs.len > MAX_LOOP_OUTPUTS) {
    e->failed = true;
    return;
  }
  bool reduces = false;
  for (uint32_t j = 0; j < loop->outputs.len; j++) {
    const LoopOutput *r = &loop->outputs.at[j];
    if (!r->global_index && !r->local_index)
      continue;
    n.accumulators[n.count] = accumulator_new(e, j);
    accumulator_set_addresses(e, at, j, &n.accumulators[n.count]);
    reduces |= n.accumulators[n.count].op != PRIM_NONE;
    n.count++;
  }
  if (e->failed)
    return;
  for (uint32_t j = 0; j < e->loop_count; j++)
    n.spatial_loops +=
        e->loop_order[j] < (reduces ? loop->spatial_axes : loop->axis_count);
  buffer_puts(out, "{\n");
  emit_append(&e->function_head, &e->level_code[0]);
  if (!e->cpu->jammed_rows)
    emit_append(out, &e->level_code[OUTER_LEVEL]);
  if (e->cpu->jammed_rows)
    emit_jammed_nest(e, &n);
  else if (vector_axis == NO_AXIS)
    emit_scalar_nest(e, &n);
  else if (reduces && vector_axis < loop->spatial_axes)
    emit_column_reduction(e, &n);
  else
    emit_row_nest(e, &n);
  emit_online_rescale(e, out, at);
  buffer_puts(out, "}\n");
  if (e->cpu->jammed_rows)
    unroll_and_jam_bind_locals(e, out, false);
  e->cpu->jammed_rows = 0;
}
