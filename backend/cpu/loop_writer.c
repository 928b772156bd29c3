/* Outputs of a loop nest as C: accumulators, addresses, stores, and the range
 * of each axis in a task. */
#include "backend/cpu/loop_writer.h"

#include "backend/cpu/vector_axis.h"

#define format emit_format

/* ---- reductions ---- */

const OrderInfo *accumulator_order(const Accumulator *f) {
  return &order_info[reduce_info[f->op].order];
}

char accumulator_final_class(const Accumulator *f) {
  return f->widens_to_f64 ? 'd' : f->class;
}

/* Returns true for a minimum or maximum along f32 vectors of 16 lanes, whose
 * instruction ignores NaN. */
static bool tracks_nan(const Emitter *e, const Accumulator *f) {
  return prim_is_extreme(f->op) && f->class == 'f' && e->width == 16 &&
         e->vector_axis != NO_AXIS && e->vector_axis >= e->loop->spatial_axes;
}

static Dtype accumulator_dtype(const Emitter *e, const Accumulator *f) {
  if (e->has_byte_lanes)
    return f->output->dtype;
  char class = f->position ? 'l' : accumulator_final_class(f);
  return class == 'f'   ? DT_F32
         : class == 'd' ? DT_F64
         : class == 'l' ? DT_I64
         : class == 'b' ? DT_BOOL
                        : DT_I32;
}

/* Parts of an axis store the same output. */
uint32_t emit_output_number(Emitter *e, LoopOutput *r) {
  for (uint32_t j = 0; j < e->emitted->call.outputs.len; j++) {
    const LoopOutput *x = e->emitted->call.outputs.at[j];
    if (x == r || (e->cpu->part && x->node == r->node))
      return j;
  }
  VEC_PUSH(e->arena, e->emitted->call.outputs, r);
  return e->emitted->call.outputs.len - 1;
}

/* Returns true if positions have 64 bits: like the elements, or since the
 * number of reduced elements may exceed int32_t. */
static bool has_wide_index(const LoopNest *loop, char class) {
  if (class == 'd' || class == 'l')
    return true;
  for (uint32_t v = loop->spatial_axes; v < loop->axis_count; v++)
    if (!extent_is_static(loop->graph, loop->extents[v]))
      return true;
  return loop_iterations_hint(loop, loop->spatial_axes, loop->axis_count) >
         INT32_MAX;
}

/* Index of the element among the reduced elements. */
static const char *emit_reduced_position(Emitter *e, char class) {
  AffineExpr *q = affine_new(e->arena, 0);
  int64_t stride = 1;
  for (uint32_t v = e->loop->axis_count; v-- > e->loop->spatial_axes;) {
    q->coef[v] = stride;
    stride = emit_extent_mul(e, stride, e->loop->extents[v]);
  }
  const char *base = emit_affine(e, q);
  bool is_vector = e->vector_axis != NO_AXIS && q->coef[e->vector_axis];
  if (has_wide_index(e->loop, class))
    return format(e, is_vector ? "%s + j + wide(lanes())" : "splat_l(%s)",
                  base);
  return format(e, is_vector ? "(int32_t)(%s + j) + lanes()" : "splat_i(%s)",
                base);
}

Accumulator accumulator_new(Emitter *e, uint32_t at) {
  const LoopOutput *r = &e->loop->outputs.at[at];
  Dtype t = e->loop->ops.at[r->value_op].dtype;
  Accumulator f = {.output = r, .op = r->reduce, .class = emit_class(e, t)};
  f.id = e->next_id++;
  f.sums_bytes =
      e->has_byte_lanes && loop_op_is_byte_term(e->loop, r->value_op);
  if (f.sums_bytes)
    f.class = 's';
  f.widens_to_f64 =
      reduce_info[r->reduce].accumulator == ACCUMULATOR_RUNS && f.class == 'f';
  f.tracks_nan = tracks_nan(e, &f);
  f.position = prim_is_arg_reduction(r->reduce)
                   ? emit_reduced_position(e, f.class)
                   : NULL;
  f.wide_index = f.position && has_wide_index(e->loop, f.class);
  f.identity = emit_identity(r->reduce, t);
  return f;
}

void accumulator_set_addresses(Emitter *e, uint32_t loop, uint32_t at,
                               Accumulator *f) {
  LoopOutput *r = &e->loop->outputs.at[at];
  const LocalBuffer *l = &e->function.locals[loop][at];
  if (r->local_index)
    f->local_address =
        format(e, "l%u + %s", l->id, emit_local_offset(e, l, r->local_index));
  if (e->cpu->schedule->reduction_chunk) {
    e->cpu->out->accumulator_dtype = accumulator_dtype(e, f);
    e->cpu->out->is_arg_reduction = f->position != NULL;
  }
  if (r->global_index)
    f->out_address =
        format(e, "o%u + %s%s", emit_output_number(e, r),
               emit_affine(e, r->global_index),
               e->cpu->schedule->reduction_chunk ? " + share" : "");
}

const char *accumulator_arg_function(Emitter *e, const Accumulator *f) {
  return format(e, "best_%c_%s%s", f->class, accumulator_order(f)->accumulate,
                f->wide_index ? "_far" : "");
}

/* Adds one vector to an accumulator. */
void emit_accumulate(Emitter *e, Buffer *out, const Accumulator *f,
                     const char *at, bool masked) {
  char class = f->sums_bytes ? e->ops.classes[f->output->value_op] : f->class;
  const char *x = emit_vector(e, f->output->value_op, class);
  const char *acc = format(e, "acc%u%s", f->id, at);
  const KernelOp *s = &e->loop->ops.at[f->output->value_op];
  if (s->kind == KOP_DOT_BYTES && !masked) {
    buffer_printf(out, "%s = dot_bytes(%s, %s, %s);\n", acc,
                  emit_vector(e, s->args[0], 'i'),
                  emit_vector(e, s->args[1], 'i'), acc);
    return;
  }
  if (f->position) {
    buffer_printf(out, "%s(&%s, &at%u%s, %s, %s, LIVE);\n",
                  accumulator_arg_function(e, f), acc, f->id, at, x,
                  f->position);
    return;
  }
  if (masked)
    x = format(e, "sel_%c(LIVE, %s, splat_%c(%s))", class, x, class,
               f->identity);
  if (f->sums_bytes)
    x = format(e, "sums_%c(%s)", class, x);
  const char *accumulated =
      f->tracks_nan ? format(e, "%s_f(%s, x, &seen%u%s)",
                             accumulator_order(f)->accumulate, acc, f->id, at)
                    : emit_combine(e, f->op, f->class, true, acc, "x");
  buffer_printf(out, "{ const v%c x = %s;\n%s = %s; }\n",
                vector_type_letter(f->class), x, acc, accumulated);
}

/* ---- loops ---- */

static bool is_split_reduction(const Emitter *e, uint32_t v) {
  uint32_t first = e->loop->spatial_axes;
  return e->cpu->schedule->reduction_chunk && v == first;
}

/* First index of an axis, and the index after the last. */
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
         : e->keeps_sizes              ? emit_kept_int(e, e->loop->extents[v])
                                       : emit_int(e, e->loop->extents[v]);
}

/* ---- results ---- */

/* Returns true if the output uses non-temporal stores for full vectors. */
bool accumulator_is_nontemporal(const Emitter *e, const Accumulator *f) {
  return f->out_address && !e->cpu->schedule->reduction_chunk &&
         schedule_is_nontemporal_along(e->cpu->schedule, e->loop, f->output,
                                       e->vector_axis);
}

/* Stores the lanes with a stride of `step` elements. */
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
  bool outer = e->vector_axis + 1 == e->loop->parallel_axes;
  const char *rest = full ? "W" : "rest";
  if (f->out_address) {
    int64_t step = f->output->global_index->coef[e->vector_axis];
    bool is_nontemporal = full && accumulator_is_nontemporal(e, f);
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

static void emit_scalar_store(Buffer *out, Dtype t, const char *to,
                              const char *x) {
  if (!to)
    return;
  if (dtype_is_narrow_float(t))
    buffer_printf(out, "put_%s(%s, %s);\n", dtype_info[t].name, to, x);
  else
    buffer_printf(out, "*(%s) = (%s)%s;\n", to, memory_type(t), x);
}

Dtype accumulator_stored_dtype(const Emitter *e, const Accumulator *f) {
  return e->cpu->schedule->reduction_chunk ? accumulator_dtype(e, f)
                                           : f->output->dtype;
}

/* Combines x with the stored state of a reduction. */
static void emit_combined_store(Emitter *e, Buffer *out, const Accumulator *f,
                                const char *x) {
  char class = accumulator_final_class(f);
  const char *type = memory_type(f->output->dtype);
  buffer_printf(out, "{ %s *const s = %s;\nconst %s x = %s;\n*s = (%s)%s; }\n",
                type, f->local_address, scalar_type(class), x, type,
                emit_combine(e, f->op, class, false, "*s", "x"));
}

void emit_scalar_output(Emitter *e, Buffer *out, const Accumulator *f,
                        const char *x) {
  if (f->output->updates && f->op != PRIM_NONE) {
    emit_combined_store(e, out, f, x);
    return;
  }
  emit_scalar_store(out, accumulator_stored_dtype(e, f), f->out_address, x);
  emit_scalar_store(out, f->output->dtype, f->local_address, x);
}
