/* Accumulators of a nest as C.  acc%u has a vector for each spatial iteration
 * in the scope (a row) and each part.  Long f32 sums have a vd sum%u for each
 * row. */
#include "backend/cpu/nest_writer.h"
#include "machine/limits/cpu.h"

#define format emit_format

/* Returns true if a sum is a number.  Without lanes, all lanes of its vector
 * are equal. */
static bool is_horizontal(const NestWriter *w) {
  uint32_t lanes = nest_lanes(w->nest);
  return lanes == NO_LOOP ||
         nest_axis_is_reduced(w->nest, w->nest->loops[lanes].axis);
}

/* ---- subscripts ---- */

void nest_index_sums(NestWriter *w) {
  const Nest *n = w->nest;
  const char *rows = NULL, *parts = NULL;
  w->row_count = w->part_count = 1;
  for (uint32_t j = w->sums_depth; j < n->loop_count; j++) {
    if (!nest_indexes_accumulators(n, j))
      continue;
    uint32_t count = (uint32_t)n->loops[j].count;
    bool is_part = n->loops[j].has_accumulators;
    const char **at = is_part ? &parts : &rows;
    *at = *at ? format(w->e, "(%s) * %u + n%u", *at, count, j)
              : format(w->e, "n%u", j);
    *(is_part ? &w->part_count : &w->row_count) *= count;
  }
  w->row_index = rows ? rows : "0";
  w->part_index = parts ? parts : "0";
}

static const char *subscript(NestWriter *w, const char *row, const char *part) {
  return w->part_count == 1
             ? format(w->e, "[%s]", row)
             : format(w->e, "[(%s) * %u + %s]", row, w->part_count, part);
}

/* Returns true if all accumulators are indexed by unrolled loops, so that they
 * stay in registers. */
static bool are_in_registers(const NestWriter *w) {
  const Nest *n = w->nest;
  for (uint32_t j = w->sums_depth; j < n->loop_count; j++)
    if (nest_indexes_accumulators(n, j) && n->loops[j].run != NEST_UNROLL)
      return false;
  return true;
}

/* Opens a loop over numbers. */
static void open_count(const NestWriter *w, const char *name, uint32_t from,
                       uint32_t to) {
  if (are_in_registers(w))
    buffer_printf(w->out, "#pragma GCC unroll %u\n", to);
  buffer_printf(w->out, "for (int %s = %u; %s < %u; %s++) {\n", name, from,
                name, to, name);
}

/* ---- declarations ---- */

/* Returns true if a state is a number, and not a vector. */
static bool is_scalar_state(const NestWriter *w, const Accumulator *f) {
  return f->op == PRIM_FOLD && nest_lanes(w->nest) == NO_LOOP;
}

static void declare(NestWriter *w, const Accumulator *f) {
  uint32_t all = w->row_count * w->part_count;
  Buffer *out = w->out;
  char at = f->wide_index ? 'l' : 'i';
  if (is_scalar_state(w, f))
    buffer_printf(out, "%s acc%u[%u];\n", scalar_type(f->class), f->id, all);
  else
    buffer_printf(out, "v%c acc%u[%u];\n", vector_type_letter(f->class), f->id,
                  all);
  if (f->op == PRIM_FOLD)
    return;
  if (f->position)
    buffer_printf(out, "v%c at%u[%u];\n", at, f->id, all);
  if (f->tracks_nan)
    buffer_printf(out, "seen_f seen%u[%u];\n", f->id, all);
  open_count(w, "a", 0, all);
  buffer_printf(out, "acc%u[a] = splat_%c(%s);\n", f->id, f->class,
                f->position ? "0" : f->identity);
  if (f->position)
    buffer_printf(out, "at%u[a] = splat_%c(-1);\n", f->id, at);
  if (f->tracks_nan)
    buffer_printf(out, "seen%u[a] = (seen_f)-1;\n", f->id);
  buffer_puts(out, "}\n");
  if (!f->widens_to_f64)
    return;
  buffer_printf(out, "vd sum%u[%u];\n", f->id, w->row_count);
  open_count(w, "a", 0, w->row_count);
  buffer_printf(out, "sum%u[a] = (vd){0};\n}\n", f->id);
}

void nest_declare_sums(NestWriter *w) {
  for (uint32_t j = 0; j < w->count; j++)
    if (w->outputs[j].op != PRIM_NONE)
      declare(w, &w->outputs[j]);
}

/* ---- terms ---- */

bool nest_has_search_form(const NestWriter *w) {
  uint32_t lanes = nest_lanes(w->nest);
  uint32_t v = lanes == NO_LOOP ? NO_AXIS : w->nest->loops[lanes].axis;
  return v != NO_AXIS && w->part_count == INTERLEAVE_COUNT &&
         nest_find(w->nest, v, 2) != NO_LOOP &&
         nest_find(w->nest, v, 3) == NO_LOOP;
}

void nest_set_searched(NestWriter *w) {
  const Emitter *e = w->e;
  if (nest_has_search_form(w) && w->sums_depth < w->nest->loop_count &&
      w->count == 1 && w->row_count == 1 && is_horizontal(w) &&
      !w->precomputed && w->clamped == NO_LOOP && w->shuffled == NO_LOOP &&
      w->nest->stream.row_axis == NO_LOOP && !e->transpose.loads.len &&
      !loop_has_states(e->loop))
    w->searched = emit_arg_search_row(w->e, &w->outputs[0]);
}

/* Returns true if the row is so long that most vectors have no better element.
 * In shorter rows, the branch is mispredicted too often. */
static bool skips_worse_vectors(const NestWriter *w, const Accumulator *f) {
  const LoopNest *loop = w->nest->spec;
  const Schedule *s = w->e->cpu->schedule;
  uint32_t v = w->e->vector_axis, group = nest_find(w->nest, v, 1);
  if (nest_find(w->nest, v, 2) == NO_LOOP ||
      w->nest->loops[group].count != w->part_count)
    return false;
  int64_t terms = s->reduction_chunk && v == loop->spatial_axes
                      ? s->reduction_chunk
                      : loop->extents[v];
  return f->position && w->part_count > 1 &&
         extent_hint(loop->graph, terms) >= MIN_SEARCH_TERMS;
}

void nest_accumulate(NestWriter *w, Buffer *out, const Accumulator *f,
                     bool is_masked) {
  Emitter *e = w->e;
  const char *at = subscript(w, w->row_index, w->part_index);
  if (f->op == PRIM_FOLD) {
    nest_set_state(w, out, f, f->output->value_op);
    return;
  }
  if (!is_masked && skips_worse_vectors(w, f))
    /* every lane has a position after the first vectors */
    buffer_printf(out, "if (b%u == start || may_%c_%s(acc%u%s, %s))\n",
                  nest_find(w->nest, e->vector_axis, 2), f->class,
                  accumulator_order(f)->accumulate, f->id, at,
                  emit_vector(e, f->output->value_op, f->class));
  if (e->ops.contracted == NO_KERNEL_OP) {
    emit_accumulate(e, out, f, at, is_masked && is_horizontal(w));
    return;
  }
  const KernelOp *s = &e->loop->ops.at[e->ops.contracted];
  const char *acc = format(e, "acc%u%s", f->id, at),
             *sum = format(e, "fused_%c(%s, %s, %s)", f->class,
                           emit_vector(e, s->args[0], f->class),
                           emit_vector(e, s->args[1], f->class), acc);
  if (is_masked && is_horizontal(w))
    sum = format(e, "sel_%c(LIVE, %s, %s)", f->class, sum, acc);
  buffer_printf(out, "%s = %s;\n", acc, sum);
}

void nest_set_state(NestWriter *w, Buffer *out, const Accumulator *f,
                    uint32_t value_op) {
  const char *x = is_scalar_state(w, f)
                      ? format(w->e, "(%s)%s", scalar_type(f->class),
                               emit_scalar(w->e, value_op))
                      : emit_vector(w->e, value_op, f->class);
  buffer_printf(out, "%s = %s;\n", nest_sum_name(w, f), x);
}

/* ---- parts ---- */

/* Combines two accumulators; NaN is tracked separately if tracks_nan. */
static const char *combine(Emitter *e, const Accumulator *f, char class,
                           const char *x, const char *y) {
  if (!f->tracks_nan)
    return emit_combine(e, f->op, class, true, x, y);
  return format(e, "%s_f(%s, %s)", accumulator_order(f)->join, x, y);
}

/* Adds the other parts of a row to its first part. */
static void join_parts(NestWriter *w, const Accumulator *f) {
  Emitter *e = w->e;
  const char *one = subscript(w, "y", "0"), *other = subscript(w, "y", "q"),
             *acc = format(e, "acc%u%s", f->id, one),
             *part = format(e, "acc%u%s", f->id, other);
  if (w->part_count == 1)
    return;
  open_count(w, "q", 1, w->part_count);
  if (f->position)
    buffer_printf(w->out, "%s = %s_of(%s, &at%u%s, %s, at%u%s);\n", acc,
                  accumulator_arg_function(e, f), acc, f->id, one, part, f->id,
                  other);
  else
    buffer_printf(w->out, "%s = %s;\n", acc,
                  combine(e, f, f->class, acc, part));
  if (f->tracks_nan)
    buffer_printf(w->out, "seen%u%s &= seen%u%s;\n", f->id, one, f->id, other);
  buffer_puts(w->out, "}\n");
}

void nest_flush_run(NestWriter *w) {
  for (uint32_t j = 0; j < w->count; j++) {
    const Accumulator *f = &w->outputs[j];
    if (!f->widens_to_f64)
      continue;
    open_count(w, "y", 0, w->row_count);
    join_parts(w, f);
    buffer_printf(w->out, "sum%u[y] += CONVERT(acc%u%s, vd);\n", f->id, f->id,
                  subscript(w, "y", "0"));
    open_count(w, "q", 0, w->part_count);
    buffer_printf(w->out, "acc%u%s = (vf){0};\n}\n}\n", f->id,
                  subscript(w, "y", "q"));
  }
}

void nest_join_parts(NestWriter *w) {
  for (uint32_t j = 0; j < w->count && w->part_count > 1; j++) {
    if (w->outputs[j].op == PRIM_NONE || w->outputs[j].widens_to_f64)
      continue;
    open_count(w, "y", 0, w->row_count);
    join_parts(w, &w->outputs[j]);
    buffer_puts(w->out, "}\n");
  }
}

/* ---- results ---- */

void nest_declare_interleaved(const NestWriter *w) {
  uint32_t at = nest_interleaved(w->nest);
  for (uint32_t j = 0; at != NO_LOOP && j < w->count; j++)
    buffer_printf(
        w->out, "v%c woven%u[%lld];\n(void)woven%u;\n",
        vector_type_letter(emit_class(w->e, w->outputs[j].output->dtype)),
        w->outputs[j].id, (long long)w->nest->loops[at].count,
        w->outputs[j].id);
}

void nest_store_vector(NestWriter *w, Buffer *out, const Accumulator *f,
                       const char *x, bool is_full) {
  uint32_t at = nest_interleaved(w->nest);
  if (at == NO_LOOP || !is_full) {
    emit_output_store(w->e, out, f, x, is_full);
    return;
  }
  int count = (int)w->nest->loops[at].count;
  buffer_printf(out,
                "woven%u[n%u] = %s;\n"
                "if (n%u == %d)\nstw%d_%s(%s + j * %d - %d, woven%u);\n",
                f->id, at, x, at, count - 1, count,
                dtype_info[f->output->dtype].name, f->out_address, count,
                count - 1, f->id);
}

/* Vector t, of `width` lanes, with its lanes half_width .. 2 * half_width - 1
 * first. */
static const char *upper_half(Emitter *e, uint32_t width, uint32_t half_width) {
  Buffer b = {.arena = e->arena};
  buffer_puts(&b, "__builtin_shufflevector(t, t");
  for (uint32_t l = 0; l < width; l++)
    buffer_printf(&b, ", %u", l < half_width ? l + half_width : l);
  buffer_puts(&b, ")");
  return b.text;
}

static void store_arg_position(NestWriter *w, Buffer *out, const Accumulator *f,
                               const char *at) {
  Emitter *e = w->e;
  const char *place = w->searched ? emit_arg_search(e, f, w->searched)
                                  : format(e, "%s_lane(acc%u%s, at%u%s)",
                                           accumulator_arg_function(e, f),
                                           f->id, at, f->id, at);
  ArgReductionPart p = {.class = f->class,
                        .accumulator_id = f->id,
                        .wide_index = f->wide_index,
                        .accumulator_index = at,
                        .best_index = place,
                        .address = f->out_address,
                        .row = w->searched,
                        .dtype = e->loop->ops.at[f->output->value_op].dtype};
  if (e->cpu->schedule->reduction_chunk)
    emit_arg_row_partial(out, &p);
  else
    emit_scalar_output(e, out, f, place);
}

/* Reduces the lanes of a sum. */
static void store_lane_sum(NestWriter *w, Buffer *out, const Accumulator *f) {
  Emitter *e = w->e;
  const char *at = subscript(w, w->row_index, "0");
  if (f->position) {
    store_arg_position(w, out, f, at);
    return;
  }
  char class = accumulator_final_class(f);
  buffer_printf(out, "{ v%c t = %s%u%s;\n", vector_type_letter(class),
                f->widens_to_f64 ? "sum" : "acc", f->id,
                f->widens_to_f64 ? format(e, "[%s]", w->row_index) : at);
  bool has_lanes = nest_lanes(w->nest) != NO_LOOP;
  uint32_t width = f->sums_bytes ? e->width / 8 : e->width;
  for (uint32_t half_width = has_lanes ? width / 2 : 0; half_width;
       half_width /= 2)
    buffer_printf(out, "t = %s;\n",
                  combine(e, f, class, "t", upper_half(e, width, half_width)));
  if (f->tracks_nan)
    buffer_printf(out, "const float r = seen_end(first_f(t), seen%u%s);\n",
                  f->id, at);
  else
    buffer_printf(out, "const %s r = first_%c(t)%s;\n", scalar_type(class),
                  vector_type_letter(class), class == 'b' ? " & 1" : "");
  emit_scalar_output(e, out, f, "r");
  buffer_puts(out, "}\n");
}

/* Stores a vector of sums. */
static void store_vector_sum(NestWriter *w, Buffer *out, const Accumulator *f,
                             bool is_full) {
  Emitter *e = w->e;
  Accumulator stored = *f;
  LoopOutput r = *f->output;
  stored.output = &r;
  r.dtype = accumulator_stored_dtype(e, f);
  char class = emit_class(e, r.dtype), from = accumulator_final_class(f);
  const char *x = f->widens_to_f64
                      ? format(e, "sum%u[%s]", f->id, w->row_index)
                      : format(e, "%s%u%s", f->position ? "at" : "acc", f->id,
                               subscript(w, w->row_index, "0"));
  if (f->position && !f->wide_index)
    x = format(e, "wide(%s)", x);
  else if (!f->position && class != from)
    x = format(e, "CONVERT(%s, v%c)", x, class);
  nest_store_vector(w, out, &stored, x, is_full);
}

void nest_store_sum(NestWriter *w, Buffer *out, const Accumulator *f,
                    bool is_full) {
  if (is_scalar_state(w, f))
    emit_scalar_output(w->e, out, f, nest_sum_name(w, f));
  else if (is_horizontal(w))
    store_lane_sum(w, out, f);
  else
    store_vector_sum(w, out, f, is_full);
}

const char *nest_sum_name(NestWriter *w, const Accumulator *f) {
  return format(w->e, "acc%u%s", f->id, subscript(w, w->row_index, "0"));
}
