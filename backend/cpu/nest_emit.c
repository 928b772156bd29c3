/* Nests as C.
 *
 * Each loop of a nest becomes a loop, around the code that is invariant in the
 * loops inside of it.  An unrolled loop has a constant number of iterations and
 * a pragma, so that the compiler keeps the accumulators, which are an array, in
 * registers.  A loop whose iterations may not fill its tiles is written twice:
 * for full tiles and for the rest.
 *
 * The variables are i%u, the index of axis %u; b%u and e%u, the range of a tile
 * of loop %u; and n%u, the number of the iteration of loop %u, which selects an
 * accumulator.  j is the first index of a vector. */
#include "backend/cpu/nest_choose.h"
#include "backend/cpu/nest_parts.h"
#include "backend/cpu/nest_writer.h"
#include "backend/emit/scalar_ops.h"
#include "support/arena.h"
#include "tensor/scalar_ops.h"

#include <string.h>

#define format emit_format

/* ---- invariant code ---- */

void nest_capture(NestWriter *w, NestCodeKind kind) {
  const Emitter *e = w->e;
  NestCode *to = &w->codes[kind];
  memcpy(to->levels, e->levels.code, sizeof to->levels);
  memcpy(to->level_of, e->levels.of, sizeof to->level_of);
  to->vector = e->levels.vector;
  to->check = e->check_code;
  to->is_used = true;
}

/* Broadcasts and shared loads have their own loops inside of the rows. */
void nest_append_level(const NestWriter *w, const NestState *s, uint32_t axis) {
  for (uint32_t j = 0; j < NEST_CODE_COUNT; j++) {
    const NestCode *c = &w->codes[j];
    bool is_active = !s->in_sums || j == s->code ||
                     (j == NEST_SHARED && s->code == NEST_BODY);
    if (c->is_used && is_active && c->level_of[axis] > OUTER_LEVEL)
      emit_append(w->out, &c->levels[c->level_of[axis]]);
  }
}

/* ---- full tiles ---- */

/* The extent of an axis and of its part in a task.  Returns false if the size
 * of a part is not known. */
static bool constant_extents(const NestWriter *w, uint32_t axis,
                             int64_t *extent, int64_t *task_extent) {
  const Nest *n = w->nest;
  const Schedule *schedule = w->e->cpu->schedule;
  *extent = *task_extent = n->spec->extents[axis];
  for (uint32_t j = 0; j < n->loop_count; j++)
    if (n->loops[j].axis == axis && n->loops[j].run == NEST_TASK)
      *task_extent = n->loops[j].step;
  return !w->copy && !w->e->cpu->part &&
         extent_is_static(n->spec->graph, *extent) &&
         !loop_is_trimmed(n->spec, axis) &&
         (axis >= n->spec->parallel_axes || !schedule->gemm_tilings);
}

/* Returns true if all tiles of a loop are full. */
static bool is_exact(const NestWriter *w, uint32_t depth) {
  const NestLoop *l = &w->nest->loops[depth];
  int64_t extent, task;
  for (uint32_t j = 0; j < depth; j++)
    if (w->nest->loops[j].axis == l->axis &&
        w->nest->loops[j].step % l->step != 0)
      return false;
  return constant_extents(w, l->axis, &extent, &task) &&
         extent % l->step == 0 && task % l->step == 0;
}

/* Returns true if a tile may be full.  The loop of an empty axis is written as
 * if it were, so that all variables have a use. */
static bool may_be_full(const NestWriter *w, uint32_t depth) {
  int64_t extent, task, step = w->nest->loops[depth].step;
  return !constant_extents(w, w->nest->loops[depth].axis, &extent, &task) ||
         extent == 0 || (extent >= step && task >= step);
}

/* ---- iterations ---- */

static const char *loop_name(NestWriter *w, char letter, uint32_t depth) {
  if (w->tiles && letter != 'i') /* the nests in it have the short names */
    return format(w->e, letter == 'b' ? "begin%u" : "end%u", depth);
  return format(w->e, "%c%u", letter, depth);
}

/* One iteration of a loop, whose first index is `begin`.  is_full: the loops of
 * the other pieces run completely. */
void nest_enter(NestWriter *w, uint32_t depth, const NestState *from,
                const char *begin, bool is_full) {
  NestState s = *from;
  const NestLoop *l = &w->nest->loops[depth];
  AxisRange *r = &s.axes[l->axis];
  uint32_t inner = nest_inner(w->nest, depth);
  r->begin = begin;
  r->is_full =
      is_full &&
      (inner == NO_LOOP ||
       w->nest->loops[inner].step * w->nest->loops[inner].count == l->step);
  if (is_full)
    r->end = format(w->e, "%s + %lld", begin, (long long)l->step);
  if (inner == NO_LOOP && l->run != NEST_LANES) {
    const char *name = format(w->e, "i%u", l->axis);
    if (strcmp(name, begin) != 0)
      buffer_printf(w->out, "const int64_t %s = %s;\n(void)%s;\n", name, begin,
                    name);
    nest_append_level(w, &s, l->axis);
  }
  bool is_guarded =
      w->guard && s.in_sums && s.code == NEST_BODY && depth == w->guard_depth;
  if (is_guarded)
    buffer_printf(w->out, "if (%s) {\n", w->guard);
  if (l->shuffles)
    nest_load_shuffled(w, &s);
  if (w->tiles)
    emit_append(w->out, &w->tiles->before[depth]);
  nest_write_loops(w, depth + 1, &s);
  if (w->tiles)
    emit_append(w->out, &w->tiles->after[depth]);
  if (is_guarded)
    buffer_puts(w->out, "}\n");
  if (w->copy && w->copy->line_end && l->axis == w->copy->axis &&
      inner == NO_LOOP)
    buffer_puts(w->out, w->copy->line_end);
}

/* Returns true if a loop counts its iterations, which select accumulators or
 * masks. */
static bool counts(const NestWriter *w, uint32_t depth, const NestState *s) {
  bool has_masks = w->copy && w->copy->masks && w->copy->masks->source.len;
  return (s->in_sums && nest_indexes_accumulators(w->nest, depth)) ||
         (has_masks && depth + 2 == w->nest->loop_count);
}

static void declare_count(NestWriter *w, uint32_t depth, const NestState *s) {
  if (counts(w, depth, s))
    buffer_printf(w->out, "int n%u = 0;\n", depth);
}

static const char *next_count(NestWriter *w, uint32_t depth,
                              const NestState *s) {
  return counts(w, depth, s) ? format(w->e, ", n%u++", depth) : "";
}

/* The end of an iteration of a loop, which may be a run. */
static void end_run(NestWriter *w, uint32_t depth, const NestState *s) {
  if (w->nest->loops[depth].is_run && s->code == NEST_BODY)
    nest_flush_run(w);
}

/* The loop over full vectors follows.  A quick object on a machine whose masked
 * loads are fast does not have it: gcc takes half the time. */
static void begin_full_vectors(NestWriter *w) {
  buffer_puts(w->out, "#ifndef MASKS_ALL\n");
}

/* The code of the lanes that are left follows.  A quick object without full
 * vectors runs it for all vectors. */
static void begin_masked_vectors(NestWriter *w, const char *at, const char *end,
                                 const char *count) {
  buffer_printf(w->out,
                "if (%s < %s) {\n#else\n"
                "for (; %s < %s; %s += W%s) {\n#endif\n",
                at, end, at, end, at, count);
}

/* The iterations of loop `depth` that fill no tile: a loop over its inner piece
 * in place of both.  count: counts a vector in a quick object; NULL: lanes that
 * are left are fewer than a vector there, too. */
static void write_rest(NestWriter *w, uint32_t depth, uint32_t inner,
                       const NestState *from, const char *at, const char *end,
                       const char *count) {
  const NestLoop *l = &w->nest->loops[inner];
  NestState s = *from;
  AxisRange *r = &s.axes[l->axis];
  /* Terms have the first part, and each row has its own sum.  The lanes that
   * are left follow the rows that the next outer piece has counted. */
  bool is_lanes = l->run == NEST_LANES;
  uint32_t row = is_lanes ? nest_find(w->nest, l->axis, 1) : inner;
  bool is_row = !nest_axis_is_reduced(w->nest, l->axis) && counts(w, row, from);
  *r = (AxisRange){at, end, .single = inner, .is_counted = is_row};
  if (is_lanes) {
    if (count)
      begin_masked_vectors(w, at, end, count);
    else
      buffer_printf(w->out, "if (%s < %s) {\n", at, end);
    nest_write_loops(w, depth + 1, &s);
    buffer_puts(w->out, "}\n");
    return;
  }
  r->is_full = true;
  r->end = format(w->e, "%s + %lld", at, (long long)l->step);
  uint32_t next = nest_inner(w->nest, inner);
  count = is_row ? next_count(w, inner, from) : "";
  bool has_full_vectors = next != NO_LOOP && l->step > 1 &&
                          w->nest->loops[next].run == NEST_LANES &&
                          !(l->is_run && s.code == NEST_BODY);
  if (is_row)
    declare_count(w, inner, from);
  if (has_full_vectors)
    begin_full_vectors(w);
  buffer_printf(w->out, "for (; %s <= %s; %s += %lld%s) {\n", r->end, end, at,
                (long long)l->step, count);
  if (w->nest->loads_masked && l->axis == w->nest->stream.row_axis)
    nest_write_inside(w, false);
  nest_write_loops(w, depth + 1, &s);
  end_run(w, inner, from);
  buffer_puts(w->out, "}\n");
  if (next != NO_LOOP && l->step > 1) {
    write_rest(w, depth, next, from, at, end, has_full_vectors ? count : NULL);
    end_run(w, inner, from);
  }
}

/* ---- loops ---- */

/* The address of the first output with non-temporal stores, as an argument;
 * NULL: there is none. */
static const char *nontemporal_address(NestWriter *w, const char *at) {
  for (uint32_t j = 0; j < w->count; j++) {
    const Accumulator *f = &w->outputs[j];
    if (f->op == PRIM_NONE && accumulator_is_nontemporal(w->e, f))
      return format(w->e, "%s(%s + %s)", dtype_info[f->output->dtype].name,
                    f->out_address, at);
  }
  return NULL;
}

static void write_peeled_to(NestWriter *w, uint32_t depth, const NestState *s,
                            const char *at, const char *end) {
  const NestLoop *l = &w->nest->loops[depth];
  uint32_t inner = nest_inner(w->nest, depth);
  const char *count = next_count(w, depth, s);
  bool is_input = w->nest->loads_masked && l->axis == w->nest->stream.row_axis;
  bool has_lanes = w->nest->loops[inner].run == NEST_LANES;
  bool has_full_vectors = has_lanes && !is_input;
  if (has_full_vectors)
    begin_full_vectors(w);
  if (has_lanes || may_be_full(w, depth)) {
    buffer_printf(w->out, "for (; %s + %lld <= %s; %s += %lld%s) {\n", at,
                  (long long)l->step, end, at, (long long)l->step, count);
    if (is_input)
      nest_write_padded_rows(w, depth, s, at);
    else
      nest_enter(w, depth, s, at, true);
    buffer_puts(w->out, "}\n");
  }
  if (has_lanes || !is_exact(w, depth))
    write_rest(w, depth, inner, s, at, end, has_full_vectors ? count : NULL);
}

/* Full tiles, then the rest. */
static void write_peeled(NestWriter *w, uint32_t depth, const NestState *s) {
  const NestLoop *l = &w->nest->loops[depth];
  const AxisRange *r = &s->axes[l->axis];
  const char *at = loop_name(w, 'b', depth), *aligned = NULL;
  if (depth + 2 == w->nest->loop_count && s->code == NEST_BODY &&
      l->run != NEST_UNROLL)
    aligned = nontemporal_address(w, at);
  buffer_puts(w->out, "{\n");
  if (l->axis == w->nest->stream.row_axis)
    nest_begin_rows(w, s);
  buffer_printf(w->out, "int64_t %s = %s;\n", at, r->begin);
  declare_count(w, depth, s);
  if (aligned) /* the stores of full vectors are aligned */
    buffer_printf(w->out,
                  "for (int64_t stop = %s + ahead_%s, done = 0; !done; "
                  "stop = %s) {\n"
                  "done = stop >= %s;\nstop = done ? %s : stop;\n",
                  at, aligned, r->end, r->end, r->end);
  write_peeled_to(w, depth, s, at, aligned ? "stop" : r->end);
  if (aligned)
    buffer_printf(w->out, "%s = stop;\n}\n", at);
  buffer_puts(w->out, "}\n");
}

/* One code for full tiles, and one for the last tile. */
static void write_versions(NestWriter *w, uint32_t depth, const NestState *s,
                           const char *at, const char *end) {
  const NestLoop *l = &w->nest->loops[depth];
  bool full = may_be_full(w, depth), rest = !is_exact(w, depth);
  if (full && rest)
    buffer_printf(w->out, "if (%s - %s == %lld) {\n", end, at,
                  (long long)l->step);
  if (full)
    nest_enter(w, depth, s, at, true);
  if (full && rest)
    buffer_puts(w->out, "} else {\n");
  if (rest)
    nest_enter(w, depth, s, at, false);
  if (full && rest)
    buffer_puts(w->out, "}\n");
}

/* Returns true if the lanes of an axis are masked behind its end. */
static bool masks_lanes(const NestWriter *w, uint32_t axis) {
  uint32_t lanes = nest_lanes(w->nest);
  return lanes != NO_LOOP && w->nest->loops[lanes].axis == axis &&
         w->nest->loops[lanes].tail == TAIL_MASK;
}

/* Declares the numbers of valid lanes of the masked vectors of a tile, so that
 * no iteration of the terms tests for the end.  Returns false if the loop has
 * no such vectors. */
static bool declare_valid_lanes(NestWriter *w, uint32_t depth, const char *at,
                                const char *end) {
  uint32_t axis = w->nest->loops[depth].axis,
           group = nest_inner(w->nest, depth);
  if (!depth || !masks_lanes(w, axis) || nest_find(w->nest, axis, 1) != group ||
      w->nest->loops[group].run != NEST_UNROLL ||
      w->nest->stream.row_axis != NO_LOOP)
    return false;
  long long count = w->nest->loops[group].count;
  buffer_printf(w->out,
                "int part%u[%lld];\n"
                "#pragma GCC unroll %lld\n"
                "for (int a = 0; a < %lld; a++) {\n"
                "const int64_t left = %s - %s - a * W;\n"
                "part%u[a] = left < W ? left < 0 ? 0 : (int)left : W;\n}\n",
                depth, count, count, count, end, at, depth);
  return true;
}

/* Returns true if a row of a small matmul has no more vectors than the tile. */
static bool is_only_tile(const NestWriter *w, uint32_t depth) {
  const NestLoop *l = &w->nest->loops[depth];
  int64_t max = (int64_t)w->e->kernel->small_product_vectors * w->e->width;
  return max && l->step == max && masks_lanes(w, l->axis) &&
         nest_find(w->nest, l->axis, nest_piece(w->nest, depth) + 1) == NO_LOOP;
}

/* The step of a loop: a number, or an argument of the function. */
static const char *step_text(NestWriter *w, const NestLoop *l) {
  return l->is_argument ? emit_int(w->e, l->step)
                        : format(w->e, "%lld", (long long)l->step);
}

/* Opens a loop over tiles with size%u iterations. */
static void open_sized_tiles(NestWriter *w, uint32_t depth,
                             const NestState *s) {
  const NestLoop *l = &w->nest->loops[depth];
  const AxisRange *r = &s->axes[l->axis];
  const char *at = loop_name(w, 'b', depth), *step = step_text(w, l),
             *full = "", *less = "";
  if (l->tail == TAIL_SPREAD) {
    full = format(w->e, ", full%u = %s - spread_of(%s - %s, %s)", depth, r->end,
                  r->end, r->begin, step);
    less = format(w->e, "%s >= full%u ? %lld : ", at, depth,
                  (long long)l->step - 1);
  }
  buffer_printf(w->out,
                "for (int64_t %s = %s, size%u%s; %s < %s; %s += size%u%s) {\n"
                "size%u = %s%s + %s <= %s ? %s : %s - %s;\n"
                "const int64_t %s = %s + size%u;\n(void)%s;\n",
                at, r->begin, depth, full, at, r->end, at, depth,
                next_count(w, depth, s), depth, less, at, step, r->end, step,
                r->end, at, loop_name(w, 'e', depth), at, depth,
                loop_name(w, 'e', depth));
}

/* Opens a loop over tiles, of which the last one may be smaller.  Loops over
 * terms run once without any. */
static void open_tiles(NestWriter *w, uint32_t depth, const NestState *s) {
  const NestLoop *l = &w->nest->loops[depth];
  const AxisRange *r = &s->axes[l->axis];
  const char *at = loop_name(w, 'b', depth), *end = loop_name(w, 'e', depth),
             *step = step_text(w, l), *once = "";
  if (w->tiles && w->tiles->may_be_empty &&
      nest_axis_is_reduced(w->nest, l->axis))
    once = format(w->e, " || %s == %s", at, r->begin);
  if (is_only_tile(w, depth))
    buffer_printf(w->out, "{\nconst int64_t %s = %s, %s = %s;\n", at, r->begin,
                  end, r->end);
  else
    buffer_printf(w->out,
                  "for (int64_t %s = %s; %s < %s%s; %s += %s%s) {\n"
                  "const int64_t %s = %s + %s < %s ? %s + %s : %s;\n"
                  "(void)%s;\n",
                  at, r->begin, at, r->end, once, at, step,
                  next_count(w, depth, s), end, at, step, r->end, at, step,
                  r->end, end);
}

/* Tiles of which the last one may have fewer iterations. */
static void write_tiles(NestWriter *w, uint32_t depth, const NestState *from) {
  const NestLoop *l = &w->nest->loops[depth];
  const char *at = loop_name(w, 'b', depth), *end = loop_name(w, 'e', depth);
  NestState s = *from;
  s.axes[l->axis].end = end;
  declare_count(w, depth, from);
  if (l->tail == TAIL_SPREAD || depth + 1 == nest_atom(w->nest))
    open_sized_tiles(w, depth, from);
  else
    open_tiles(w, depth, from);
  if (l->polls)
    buffer_puts(w->out, "if (stop && *stop)\nreturn 0;\n");
  if (w->nest->loads_masked && l->axis == w->e->vector_axis)
    buffer_printf(
        w->out, "const int64_t strip = (%s - first) / W;\n(void)strip;\n", at);
  if (l->tail == TAIL_LESS && declare_valid_lanes(w, depth, at, end))
    s.axes[l->axis].group = depth;
  if (l->tail == TAIL_IF)
    write_versions(w, depth, &s, at, end);
  else
    nest_enter(w, depth, &s, at, w->nest->loads_masked && is_exact(w, depth));
  end_run(w, depth, from);
  buffer_puts(w->out, "}\n");
}

/* Full tiles, of which the last one begins earlier. */
static void write_shifted(NestWriter *w, uint32_t depth, const NestState *s) {
  const NestLoop *l = &w->nest->loops[depth];
  const AxisRange *r = &s->axes[l->axis];
  const char *at = loop_name(w, 'b', depth);
  long long step = l->step;
  declare_count(w, depth, s);
  buffer_printf(w->out,
                "for (int64_t t%u = %s; t%u < %s; t%u += %lld%s) {\n"
                "const int64_t %s = t%u + %lld <= %s ? t%u : %s - %lld;\n",
                depth, r->begin, depth, r->end, depth, step,
                next_count(w, depth, s), at, depth, step, r->end, depth, r->end,
                step);
  nest_enter(w, depth, s, at, true);
  buffer_puts(w->out, "}\n");
}

static void write_serial(NestWriter *w, uint32_t depth, const NestState *s) {
  const AxisRange *r = &s->axes[w->nest->loops[depth].axis];
  const char *name = loop_name(w, 'i', w->nest->loops[depth].axis);
  declare_count(w, depth, s);
  buffer_printf(w->out, "for (int64_t %s = %s; %s < %s; %s++%s) {\n", name,
                r->begin, name, r->end, name, next_count(w, depth, s));
  nest_enter(w, depth, s, name, false);
  buffer_puts(w->out, "}\n");
}

/* Vectors from .. to - 1 of a whole axis. */
static void write_some_vectors(NestWriter *w, uint32_t depth,
                               const NestState *s, int64_t from, int64_t to,
                               bool are_full) {
  const NestLoop *l = &w->nest->loops[depth];
  long long first = from, last = to;
  if (to - from == 1)
    buffer_printf(w->out, "{\nconst int n%u = %lld;\n(void)n%u;\n", depth,
                  first, depth);
  else
    buffer_printf(w->out,
                  "#pragma GCC unroll %lld\n"
                  "for (int n%u = %lld; n%u < %lld; n%u++) {\n",
                  last, depth, first, depth, last, depth);
  buffer_printf(w->out, "const int64_t b%u = %s + n%u * %lld;\n", depth,
                s->axes[l->axis].begin, depth, (long long)l->step);
  nest_enter(w, depth, s, loop_name(w, 'b', depth), are_full);
  buffer_puts(w->out, "}\n");
}

/* The vectors of a whole axis, of which the last one may be masked.  It has at
 * least one lane. */
static void write_vectors(NestWriter *w, uint32_t depth,
                          const NestState *from) {
  const NestLoop *l = &w->nest->loops[depth];
  int64_t full = nest_constant_extent(w->nest, l->axis) / l->step;
  NestState s = *from;
  if (full)
    write_some_vectors(w, depth, &s, 0, full, true);
  s.axes[l->axis].single = nest_inner(w->nest, depth);
  if (full < l->count)
    write_some_vectors(w, depth, &s, full, l->count, false);
}

/* A constant number of iterations, or fewer in a tile that is not full. */
static void write_unrolled(NestWriter *w, uint32_t depth, const NestState *s) {
  const NestLoop *l = &w->nest->loops[depth];
  const AxisRange *r = &s->axes[l->axis];
  const char *begin = r->begin, *at;
  bool is_inner = nest_inner(w->nest, depth) == NO_LOOP,
       is_tile = nest_find(w->nest, l->axis, nest_piece(w->nest, depth) + 1) !=
                 NO_LOOP,
       is_whole = w->nest->spec->extents[l->axis] == l->count &&
                  nest_find(w->nest, l->axis, nest_piece(w->nest, depth) + 2) ==
                      NO_LOOP &&
                  !w->copy && !loop_is_trimmed(w->nest->spec, l->axis),
       is_bound = is_tile && !is_whole && !r->is_full &&
                  !masks_lanes(w, l->axis) && w->clamped != depth;
  if (!is_bound)
    buffer_printf(w->out, "#pragma GCC unroll %lld\n", (long long)l->count);
  buffer_printf(w->out, "for (int n%u = 0; n%u < %lld%s; n%u++) {\n", depth,
                depth, (long long)l->count,
                is_bound ? format(w->e, " && %s + n%u * %lld < %s", begin,
                                  depth, (long long)l->step, r->end)
                         : "",
                depth);
  at = l->step == 1
           ? format(w->e, "%s + n%u", begin, depth)
           : format(w->e, "%s + n%u * %lld", begin, depth, (long long)l->step);
  if (w->clamped == depth)
    at = format(w->e, "%s < bottom ? %s : bottom - 1", at, at);
  if (!is_inner) {
    buffer_printf(w->out, "const int64_t b%u = %s;\n(void)b%u;\n", depth, at,
                  depth);
    at = loop_name(w, 'b', depth);
  }
  nest_enter(w, depth, s, at, is_inner || r->is_full);
  buffer_puts(w->out, "}\n");
}

/* ---- vectors ---- */

/* Returns true if masked loads are correct for vectors without valid lanes. */
static bool loads_are_maskable(const Emitter *e, const char **precomputed) {
  for (uint32_t j = 0; j < e->loop->ops.len; j++) {
    const KernelOp *s = &e->loop->ops.at[j];
    bool reads = s->kind == KOP_LOAD || s->kind == KOP_LOAD_LOCAL;
    bool is_available =
        (precomputed && precomputed[j]) || !emit_is_demanded(e, j);
    if (reads && e->ops.varies[j] && !is_available &&
        !emit_is_vector_load(e, s))
      return false;
  }
  return true;
}

/* A vector, of which the lanes behind the end are masked unless is_full. */
static void write_vector(NestWriter *w, uint32_t depth, const NestState *s) {
  const NestLoop *l = &w->nest->loops[depth];
  const AxisRange *r = &s->axes[l->axis];
  const NestCode *c = &w->codes[s->code];
  bool full = r->is_full, may_be_empty = !full && r->single != depth;
  bool tests = may_be_empty && (s->code != NEST_BODY || !w->is_maskable);
  buffer_printf(w->out, "{ const int64_t j = %s;\n(void)j;\n", r->begin);
  if (may_be_empty && r->group)
    buffer_printf(w->out, "const int rest = part%u[n%u];\n(void)rest;\n%s",
                  r->group, nest_find(w->nest, l->axis, 1),
                  tests ? "if (rest > 0) {\n" : "");
  else if (may_be_empty)
    buffer_printf(w->out,
                  "const int64_t left = %s - j;\n"
                  "const int rest = left < W ? left < 0 ? 0 : (int)left : W;\n"
                  "(void)rest;\n%s",
                  r->end, tests ? "if (rest > 0) {\n" : "");
  else if (!full)
    buffer_printf(w->out, "const int rest = lanes_left(%s - j);\n(void)rest;\n",
                  r->end);
  buffer_puts(w->out, full ? full_vector_macros : tail_macros);
  if (s->code == NEST_BODY)
    nest_shuffle_lanes(w, s);
  if (c->is_used) {
    emit_append(w->out, &c->levels[c->vector]);
    emit_append(w->out, &c->check);
  }
  emit_append(w->out, &c->text[!full]);
  buffer_printf(w->out, "%s%s}\n", undef_macros, tests ? "}\n" : "");
}

/* ---- dispatch ---- */

/* Declares the accumulators, and stores them after the loops. */
static void write_sums(NestWriter *w, uint32_t depth, const NestState *from) {
  NestState s = *from;
  s.in_sums = true;
  buffer_puts(w->out, "{\n");
  if (w->e->vector_axis != NO_AXIS)
    buffer_printf(w->out,
                  "const int64_t start = %s, end = %s;\n"
                  "(void)start, (void)end;\n",
                  s.axes[w->e->vector_axis].begin,
                  s.axes[w->e->vector_axis].end);
  if (!w->searched)
    nest_declare_sums(w);
  if (loop_has_states(w->nest->spec)) {
    s.code = NEST_STATES;
    buffer_puts(w->out, "{\n");
    nest_write_loops(w, depth, &s);
    buffer_puts(w->out, "}\n");
    s.code = NEST_BODY;
  }
  bool is_guarded = w->guard && w->guard_depth == NO_LOOP;
  if (is_guarded)
    buffer_printf(w->out, "if (%s) {\n", w->guard);
  if (!w->searched)
    nest_write_loops(w, depth, &s);
  if (is_guarded)
    buffer_puts(w->out, "}\n");
  if (!w->searched)
    nest_join_parts(w);
  emit_append(w->out, &w->partials);
  s.code = NEST_RESULTS;
  nest_write_loops(w, depth, &s);
  buffer_puts(w->out, "}\n");
}

/* A loop that has one iteration, which an outer loop has chosen. */
static void write_single(NestWriter *w, uint32_t depth, const NestState *s) {
  const AxisRange *r = &s->axes[w->nest->loops[depth].axis];
  if (nest_indexes_accumulators(w->nest, depth) && !r->is_counted)
    buffer_printf(w->out, "const int n%u = 0;\n(void)n%u;\n", depth, depth);
  if (r->single == depth)
    nest_enter(w, depth, s, r->begin, true);
  else
    nest_write_loops(w, depth + 1, s);
}

/* Vectors along one axis that are loaded along another one. */
static void write_transposed(NestWriter *w, const NestState *s, uint32_t axis) {
  const AxisRange *r = &s->axes[w->e->vector_axis];
  buffer_printf(w->out, "const int64_t start = %s, end = %s;\n", r->begin,
                r->end);
  emit_transposed_tiles(w->e, w->out, s->axes[axis].begin, s->axes[axis].end,
                        &w->codes[NEST_BODY].text[0],
                        &w->codes[NEST_BODY].text[1]);
}

static void write_loop(NestWriter *w, uint32_t depth, const NestState *s) {
  const Nest *n = w->nest;
  const NestLoop *l = &n->loops[depth];
  const AxisRange *r = &s->axes[l->axis];
  bool flattens = w->tiles && nest_flattened_loop(n, l->axis);
  bool is_row = l->axis == n->stream.row_axis && nest_piece(n, depth) == 0;
  bool is_term =
      w->copy && w->copy->term_axes > 1 && l->axis == w->copy->first_term;
  if (w->copy)
    nest_declare_place(w, depth);
  if (l->run == NEST_ATOM)
    emit_append(w->out, &w->tiles->tile);
  else if (is_term)
    nest_write_terms(w, depth, s);
  else if (depth == nest_transposed(n))
    nest_write_transposed(w, depth, s);
  else if (l->run == NEST_LANES)
    write_vector(w, depth, s);
  else if (l->shuffles && l->step > 1)
    nest_write_blocks(w, depth, s);
  else if (w->shuffled < depth && l->run == NEST_UNROLL)
    nest_write_out(w, depth, s);
  else if (l->axis == n->stream.input_axis)
    nest_write_input_rows(w, depth, s);
  else if (is_row && s->code == NEST_BODY)
    nest_write_output_rows(w, depth, s);
  else if (r->single != NO_LOOP && r->single >= depth)
    write_single(w, depth, s);
  else if (w->e->transpose.loads.len && l->axis == w->e->transpose.axis)
    write_transposed(w, s, l->axis);
  else if (l->run == NEST_UNROLL && l->tail == TAIL_MASK &&
           nest_find(n, l->axis, 2) == NO_LOOP && masks_lanes(w, l->axis) &&
           nest_inner(n, depth) != NO_LOOP)
    write_vectors(w, depth, s);
  else if (l->run == NEST_UNROLL &&
           (r->is_full || nest_inner(n, depth) == NO_LOOP ||
            (masks_lanes(w, l->axis) && nest_piece(n, depth) == 1)))
    write_unrolled(w, depth, s);
  else if (nest_inner(n, depth) == NO_LOOP && !flattens)
    write_serial(w, depth, s);
  else if (l->tail == TAIL_PEEL || l->run == NEST_UNROLL)
    write_peeled(w, depth, s);
  else if (l->tail == TAIL_SHIFT)
    write_shifted(w, depth, s);
  else
    write_tiles(w, depth, s);
}

void nest_write_loops(NestWriter *w, uint32_t depth, const NestState *s) {
  const Nest *n = w->nest;
  if (depth == w->sums_depth && depth < n->loop_count && !s->in_sums) {
    write_sums(w, depth, s);
  } else if (depth == n->loop_count) {
    emit_append(w->out, &w->codes[s->code].text[0]);
  } else if (nest_runs_outside(n, depth) ||
             (s->code != NEST_BODY &&
              nest_axis_is_reduced(n, n->loops[depth].axis))) {
    nest_write_loops(w, depth + 1, s);
  } else {
    write_loop(w, depth, s);
  }
}

/* ---- the code of an iteration ---- */

/* The axes with loops in a task, in the order in which their indices become
 * known, except for the vector axis. */
static uint32_t index_order(const Nest *n, uint32_t *order) {
  uint32_t count = 0;
  for (uint32_t j = 0; j < n->loop_count; j++) {
    const NestLoop *l = &n->loops[j];
    if (l->run == NEST_LANES || nest_runs_outside(n, j) ||
        nest_inner(n, j) != NO_LOOP)
      continue;
    order[count++] = l->axis;
    if (l->axis == n->stream.row_axis)
      order[count++] = n->stream.term_axis;
  }
  return count;
}

/* The axis along which a loop reads contiguously, if its vectors are strided
 * there. */
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

/* Tasks follow the last parallel axis.  A loop that copies inputs prefetches
 * those of the next task. */
static uint32_t choose_prefetch_axis(const Emitter *e, const LoopNest *loop) {
  bool copies =
      e->cpu->schedule->task_kind == TASK_POINT && loop->parallel_axes > 0 &&
      loop->axis_count == loop->spatial_axes && e->kernel->loops.len > 1;
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    copies &= loop->outputs.at[j].local_index != NULL;
  return copies ? loop->parallel_axes - 1 : NO_AXIS;
}

static bool has_runs(const Nest *n) {
  for (uint32_t j = 0; j < n->loop_count; j++)
    if (n->loops[j].is_run)
      return true;
  return false;
}

static bool is_needed(const LoopOutput *r) {
  return r->global_index || r->local_index || r->reduce == PRIM_FOLD;
}

/* The outputs that are stored somewhere, and states. */
static void add_outputs(NestWriter *w) {
  Emitter *e = w->e;
  for (uint32_t j = 0; j < e->loop->outputs.len; j++) {
    const LoopOutput *r = &e->loop->outputs.at[j];
    if (!is_needed(r))
      continue;
    Accumulator *f = &w->outputs[w->count++];
    *f = accumulator_new(e, j);
    f->widens_to_f64 &= has_runs(w->nest);
  }
}

/* Emits the addresses of stored elements, of sums, or of both. */
static void set_addresses(NestWriter *w, bool of_elements, bool of_sums) {
  uint32_t count = 0;
  for (uint32_t j = 0; j < w->e->loop->outputs.len; j++) {
    const LoopOutput *r = &w->e->loop->outputs.at[j];
    if (!is_needed(r))
      continue;
    Accumulator *f = &w->outputs[count++];
    if (f->op == PRIM_NONE ? of_elements : of_sums)
      accumulator_set_addresses(w->e, w->loop_index, j, f);
  }
}

/* Returns true if results have their own loops: then the code of their
 * addresses must not be that of the terms. */
static bool has_result_loops(const NestWriter *w) {
  for (uint32_t j = w->sums_depth; j < w->nest->loop_count; j++)
    if (w->nest->loops[j].axis != w->e->vector_axis &&
        !nest_axis_is_reduced(w->nest, w->nest->loops[j].axis))
      return true;
  return w->nest->has_epilogue;
}

static void emit_body(NestWriter *w) {
  Emitter *e = w->e;
  Buffer *text = w->codes[NEST_BODY].text;
  if (e->vector_axis == NO_AXIS) {
    buffer_puts(text, "#define LIVE ALL\n");
    emit_append(text, &e->check_code);
  }
  for (uint32_t masked = 0; masked < 2; masked++)
    for (uint32_t j = 0; j < w->count; j++) {
      const Accumulator *f = &w->outputs[j];
      Buffer *out = &text[masked];
      if (f->op != PRIM_NONE)
        nest_accumulate(w, out, f, masked);
      else if (e->vector_axis == NO_AXIS)
        emit_scalar_output(e, out, f, emit_scalar(e, f->output->value_op));
      else
        nest_store_vector(
            w, out, f,
            emit_store_value(e, f->output->value_op, f->output->dtype),
            !masked);
    }
  if (e->vector_axis == NO_AXIS)
    buffer_puts(text, "#undef LIVE\n");
}

/* Reads of a state are reads of its accumulator. */
static void bind_states(NestWriter *w) {
  const LoopNest *spec = w->nest->spec;
  add_outputs(w);
  w->precomputed = NEW_ARRAY(w->e->arena, const char *, spec->ops.len);
  for (uint32_t j = 0; j < spec->ops.len; j++) {
    const KernelOp *s = &spec->ops.at[j];
    if (s->kind == KOP_LOAD_LOCAL && s->source_loop == w->loop_index)
      for (uint32_t k = 0; k < w->count; k++)
        if (w->outputs[k].output == &spec->outputs.at[s->source_output])
          w->precomputed[j] = nest_sum_name(w, &w->outputs[k]);
  }
}

/* Operands that each iteration has as vectors of their type in memory. */
static void place_loaded(NestWriter *w) {
  Emitter *e = w->e;
  for (uint32_t j = 0; j < e->loop->ops.len; j++)
    if (w->precomputed[j]) {
      e->ops.varies[j] = true;
      e->ops.levels[j] = e->levels.vector;
      w->precomputed[j] = emit_loaded(e, j, w->precomputed[j]);
    }
}

static void begin_body(NestWriter *w) {
  Emitter *e = w->e;
  const Nest *n = w->nest;
  uint32_t order[MAX_KERNEL_AXES + 1], count = index_order(n, order);
  uint32_t lanes = nest_lanes(n);
  LoopNest *spec = n->spec;
  bool has_stream = n->stream.row_axis != NO_LOOP;
  e->vector_axis = lanes == NO_LOOP ? NO_AXIS : n->loops[lanes].axis;
  if (w->shuffled != NO_LOOP) {
    e->vector_axis = n->flat->loops[n->flat->count - 1].axis;
    w->lanes_spec = spec = nest_index_by_lanes(n);
  }
  if (has_stream) {
    spec = nest_index_by_input_rows(n);
    nest_begin_stream(w, spec, count - 2, order);
  }
  emit_begin_loop(e, spec, e->vector_axis, count, order);
  e->loop_index = w->loop_index;
  e->reads_past_tail = lanes != NO_LOOP && n->loops[lanes].tail == TAIL_MASK;
  if (!e->reads_past_tail && !w->copy) {
    e->transpose.axis = choose_transpose_axis(e, spec, order);
    e->prefetch_axis = choose_prefetch_axis(e, spec);
  }
  if (n->fuses_products)
    e->ops.contracted = spec->outputs.at[0].value_op;
  if (loop_has_states(spec))
    bind_states(w);
  if (w->shuffled != NO_LOOP)
    nest_begin_shuffle(w);
  e->ops.precomputed = w->precomputed;
  e->may_search = nest_has_search_form(w) && emit_can_search(e);
  emit_place_ops(e);
  if (has_stream || w->shuffled != NO_LOOP)
    place_loaded(w);
  emit_demanded_ops(e);
  e->may_search = false;
  e->ops.precomputed = NULL;
  e->prefetch_axis = NO_AXIS;
  w->is_maskable = loads_are_maskable(e, w->precomputed);
  if (!w->count)
    add_outputs(w);
}

/* ---- guards ---- */

/* Returns true if an operation reports no fault and the lanes share it. */
static bool may_guard(const Emitter *e, uint32_t at) {
  const KernelOp *s = &e->loop->ops.at[at];
  bool is_safe =
      s->kind == KOP_LOAD
          ? !s->checked_index_count
          : s->kind == KOP_LOAD_LOCAL || s->kind == KOP_CONST ||
                s->kind == KOP_AFFINE || s->kind == KOP_CONVERT ||
                (s->kind == KOP_MAP && map_info[s->op].fault == ARITH_OK);
  for (uint32_t j = 0; j < s->arg_count && is_safe; j++)
    is_safe = may_guard(e, s->args[j]);
  return is_safe && !e->ops.varies[at];
}

/* Returns true if the operation is the result of the reduction of no terms. */
static bool is_identity(PrimId reduce, const KernelOp *s) {
  Scalar identity = reduce_identity(reduce, s->dtype);
  return s->kind == KOP_CONST && !scalar_is_param(s->value) &&
         (dtype_is_float(s->dtype) ? s->value.f == identity.f
                                   : s->value.i == identity.i);
}

/* The condition without which no term has an effect, as in the sum of `if c
 * then x else 0`, where no lane has its own c.  NO_KERNEL_OP: there is none. */
static uint32_t find_guard(const NestWriter *w) {
  const Emitter *e = w->e;
  const LoopNest *loop = e->loop;
  const Accumulator *f = &w->outputs[0];
  if (w->sums_depth == w->nest->loop_count || w->count != 1 ||
      f->op == PRIM_NONE || f->op == PRIM_FOLD || f->position ||
      f->tracks_nan || loop->accumulated_axes || w->precomputed ||
      w->nest->stream.row_axis != NO_LOOP || e->transpose.loads.len ||
      e->ops.contracted != NO_KERNEL_OP)
    return NO_KERNEL_OP;
  const KernelOp *s = &loop->ops.at[f->output->value_op];
  bool is_select =
      s->kind == KOP_SELECT || (s->kind == KOP_MAP && s->op == PRIM_SELECT);
  return is_select && is_identity(f->op, &loop->ops.at[s->args[2]]) &&
                 may_guard(e, s->args[0])
             ? s->args[0]
             : NO_KERNEL_OP;
}

/* The innermost loop over the axis whose indices make up a level. */
static uint32_t loop_of_level(const NestWriter *w, uint32_t level) {
  uint32_t found = NO_LOOP;
  for (uint32_t j = 0; j < w->nest->loop_count; j++)
    if (w->e->levels.of[w->nest->loops[j].axis] == level)
      found = j;
  return level == OUTER_LEVEL ? NO_LOOP : found;
}

/* Skips terms without effect, if their loops take longer than the test. */
static void set_guard(NestWriter *w) {
  const Nest *n = w->nest;
  uint32_t condition = find_guard(w);
  if (condition == NO_KERNEL_OP)
    return;
  uint32_t at = loop_of_level(w, w->e->ops.levels[condition]);
  w->guard_depth = at == NO_LOOP || at < w->sums_depth ? NO_LOOP : at;
  int64_t iterations = 1;
  for (uint32_t j = w->guard_depth == NO_LOOP ? w->sums_depth : at + 1;
       j < n->loop_count; j++)
    if (n->loops[j].count && n->loops[j].run != NEST_LANES)
      iterations *= n->loops[j].count;
  if (iterations >= MIN_GUARDED_ITERATIONS)
    w->guard = emit_scalar(w->e, condition);
}

/* ---- states ---- */

/* The axes with loops in a task that are not reduced, except for the vector
 * axis. */
static uint32_t spatial_order(const Nest *n, uint32_t *order) {
  uint32_t all = index_order(n, order), count = 0;
  for (uint32_t j = 0; j < all; j++)
    if (!nest_axis_is_reduced(n, order[j]))
      order[count++] = order[j];
  return count;
}

/* The first values of the states. */
static void begin_states(NestWriter *w) {
  Emitter *e = w->e;
  LoopNest *loop = loop_clone(e->arena, w->nest->spec);
  uint32_t order[MAX_KERNEL_AXES + 1],
      count = 0, *ops = NEW_ARRAY(e->arena, uint32_t, w->count);
  for (uint32_t j = 0; j < w->count; j++)
    if (w->outputs[j].op == PRIM_FOLD)
      ops[count++] = w->outputs[j].output->initial_op;
  nest_set_outputs(e->arena, loop, ops, count);
  emit_begin_loop(e, loop, e->vector_axis, spatial_order(w->nest, order),
                  order);
  emit_ops(e);
  for (uint32_t masked = 0; masked < 2; masked++)
    for (uint32_t j = 0; j < w->count; j++)
      if (w->outputs[j].op == PRIM_FOLD)
        nest_set_state(w, &w->codes[NEST_STATES].text[masked], &w->outputs[j],
                       w->outputs[j].output->initial_op);
  nest_capture(w, NEST_STATES);
}

/* ---- results ---- */

static void emit_results(NestWriter *w) {
  for (uint32_t masked = 0; masked < 2; masked++)
    for (uint32_t j = 0; j < w->count; j++)
      if (w->outputs[j].op != PRIM_NONE)
        nest_store_sum(w, &w->codes[NEST_RESULTS].text[masked], &w->outputs[j],
                       !masked);
}

/* The results of the epilogue, whose operand is the finished sum. */
static void emit_epilogue(NestWriter *w) {
  Emitter *e = w->e;
  Accumulator outputs[MAX_LOOP_OUTPUTS];
  uint32_t count = 0;
  for (uint32_t j = 0; j < e->loop->outputs.len; j++) {
    const LoopOutput *r = &e->loop->outputs.at[j];
    if (!r->global_index && !r->local_index)
      continue;
    outputs[count] = accumulator_new(e, j);
    accumulator_set_addresses(e, e->loop_index, j, &outputs[count++]);
  }
  for (uint32_t masked = 0; masked < 2; masked++)
    for (uint32_t j = 0; j < count; j++)
      emit_output_store(e, &w->codes[NEST_RESULTS].text[masked], &outputs[j],
                        emit_vector(e, outputs[j].output->value_op,
                                    value_class(outputs[j].output->dtype)),
                        !masked);
}

static void begin_epilogue(NestWriter *w, const LoopNest *epilogue) {
  Emitter *e = w->e;
  const char **precomputed =
      NEW_ARRAY(e->arena, const char *, epilogue->ops.len);
  for (uint32_t j = 0; j < epilogue->ops.len; j++) {
    const KernelOp *s = &epilogue->ops.at[j];
    if (s->kind == KOP_LOAD_LOCAL && s->source_loop == w->loop_index)
      precomputed[j] = nest_sum_name(w, &w->outputs[0]);
  }
  e->loop_index = w->loop_index + 1;
  e->ops.precomputed = precomputed;
  emit_ops(e);
  emit_epilogue(w);
  e->ops.precomputed = NULL;
}

static void begin_results(NestWriter *w, const LoopNest *epilogue) {
  Emitter *e = w->e;
  const Nest *n = w->nest;
  uint32_t order[MAX_KERNEL_AXES + 1], count = spatial_order(n, order);
  LoopNest *loop = w->lanes_spec ? w->lanes_spec : n->spec;
  emit_begin_loop(e, epilogue ? epilogue : loop, e->vector_axis, count, order);
  e->reads_past_tail = false;
  if (epilogue) {
    begin_epilogue(w, epilogue);
  } else {
    set_addresses(w, false, true);
    emit_results(w);
  }
  if (w->clamped != NO_LOOP)
    unroll_and_jam_bind_locals(
        e, &e->levels.code[e->levels.of[n->loops[w->clamped].axis]], true);
  nest_capture(w, NEST_RESULTS);
}

/* Chunks of argmax and argmin along columns also store the values there. */
static void emit_partials(NestWriter *w) {
  Emitter *e = w->e;
  for (uint32_t j = 0; j < w->count; j++) {
    const Accumulator *f = &w->outputs[j];
    ArgReductionPart p = {.class = f->class,
                          .accumulator_id = f->id,
                          .wide_index = f->wide_index,
                          .accumulator_index = "",
                          .address = f->out_address};
    if (f->position && e->cpu->schedule->reduction_chunk &&
        e->vector_axis < e->loop->spatial_axes)
      emit_arg_column_partials(e, &w->partials, &p,
                               f->output->global_index->coef[e->vector_axis]);
  }
}

/* ---- entry point ---- */

/* The indices of the vector axis in a part of it. */
static void begin_part(NestWriter *w, AxisRange *r) {
  Emitter *e = w->e;
  const LoopPart *part = e->cpu->part;
  const char *from = emit_int(e, part->from), *to = emit_int(e, part->to);
  buffer_printf(w->out,
                "const int64_t part_begin = %s > %s ? %s : %s;\n"
                "const int64_t part_end = %s < %s ? %s : %s;\n",
                r->begin, from, r->begin, from, r->end, to, r->end, to);
  r->begin = "part_begin";
  r->end = "part_end";
}

/* Keeps the text after lowering, if it is wanted. */
static void keep_lowered_text(NestWriter *w, uint32_t at) {
  Emitter *e = w->e;
  const LoopPart *part = e->cpu->part;
  const char **text = e->emitted->lowered ? &e->emitted->lowered[at] : NULL;
  if (!text || (*text && !part))
    return;
  const char *lowered = emit_lowered_text(e, w->nest, w->searched != NULL);
  *text = !part ? lowered
                : format(e, "%spart of i%u from %lld to %lld\n%s",
                         *text ? *text : "", w->nest->names[e->vector_axis],
                         (long long)part->from, (long long)part->to, lowered);
}

static void begin_ranges(NestWriter *w, NestState *s) {
  const LoopNest *spec = w->nest->spec;
  for (uint32_t v = 0; v < spec->axis_count; v++)
    s->axes[v] = (AxisRange){emit_axis_begin(w->e, v), emit_axis_end(w->e, v),
                             .single = NO_LOOP};
  if (w->clamped != NO_LOOP)
    s->axes[w->nest->loops[w->clamped].axis].begin = "top";
}

static NestWriter *new_writer(Emitter *e, Buffer *out, const Nest *n) {
  NestWriter *w = NEW(e->arena, NestWriter);
  *w = (NestWriter){.e = e,
                    .nest = n,
                    .out = out,
                    .outputs =
                        NEW_ARRAY(e->arena, Accumulator, n->spec->outputs.len),
                    .sums_depth = nest_accumulator_depth(n),
                    .clamped = nest_clamped(n),
                    .shuffled = nest_shuffled(n)};
  Buffer empty = {.arena = e->arena};
  for (uint32_t j = 0; j < NEST_CODE_COUNT; j++)
    w->codes[j].text[0] = w->codes[j].text[1] = empty;
  w->partials = w->broadcasts = w->shared_loads = w->masks.source = empty;
  return w;
}

TileCode *tile_code_new(Emitter *e, const Nest *n) {
  const Buffer empty = {.arena = e->arena};
  TileCode *c = NEW(e->arena, TileCode);
  c->tile = empty;
  for (uint32_t j = 0; j < MAX_NEST_LOOPS; j++)
    c->before[j] = c->after[j] = empty;
  for (uint32_t v = 0; v < n->spec->axis_count; v++) {
    c->begin[v] = "0";
    c->end[v] = emit_int(e, n->spec->extents[v]);
  }
  return c;
}

void tile_code_name(TileCode *c, uint32_t at, const char *begin,
                    const char *end) {
  buffer_printf(&c->before[at],
                "const int64_t %s = begin%u, %s = end%u;\n(void)%s;\n", begin,
                at, end, at, end);
}

void emit_tiles(Emitter *e, Buffer *out, const Nest *n, const TileCode *code) {
  NestWriter *w = new_writer(e, out, n);
  NestState s = {.code = NEST_BODY};
  w->tiles = code;
  for (uint32_t v = 0; v <= MAX_KERNEL_AXES; v++)
    s.axes[v] = (AxisRange){code->begin[v], code->end[v], .single = NO_LOOP};
  nest_write_loops(w, 0, &s);
}

void emit_operand_copy(Emitter *e, Buffer *out, const Nest *n,
                       const OperandCopy *copy) {
  NestWriter *w = new_writer(e, out, n);
  NestState s = {.code = NEST_BODY};
  const NestCode *body = &w->codes[NEST_BODY];
  w->copy = copy;
  w->loop_index = e->loop_index;
  nest_begin_masks(w);
  begin_body(w);
  nest_copy_vector(w);
  e->hoisted_masks = NULL;
  nest_capture(w, NEST_BODY);
  emit_append(&e->function.head, &body->levels[0]);
  emit_append(copy->task_code, &body->levels[OUTER_LEVEL]);
  buffer_puts(out, "{\n");
  nest_begin_copy(w, &s);
  nest_write_loops(w, 0, &s);
  buffer_puts(out, "}\n");
}

void emit_nest(Emitter *e, Buffer *out, uint32_t at, const Nest *n,
               const LoopNest *epilogue) {
  NestWriter *w = new_writer(e, out, n);
  NestState s = {.code = NEST_BODY};
  w->loop_index = at;
  nest_index_sums(w);
  e->keeps_sizes = nest_unrolls_rows(n);
  begin_body(w);
  bool separate = has_result_loops(w);
  set_addresses(w, true, !separate);
  if (e->failed)
    return;
  set_guard(w);
  nest_set_searched(w);
  keep_lowered_text(w, at);
  emit_body(w);
  if (!separate) {
    emit_results(w);
    emit_partials(w);
  }
  nest_capture(w, NEST_BODY);
  begin_ranges(w, &s);
  uint32_t jammed = w->clamped == NO_LOOP ? NO_AXIS : n->loops[w->clamped].axis;
  if (loop_has_states(n->spec))
    begin_states(w);
  if (separate)
    begin_results(w, epilogue);
  buffer_puts(out, "{\n");
  for (uint32_t j = 0; j < NEST_CODE_COUNT; j++)
    if (w->codes[j].is_used)
      emit_append(&e->function.head, &w->codes[j].levels[0]);
  for (uint32_t j = 0; j < NEST_CODE_COUNT; j++)
    if (w->codes[j].is_used)
      emit_append(out, &w->codes[j].levels[OUTER_LEVEL]);
  nest_declare_interleaved(w);
  if (e->cpu->part)
    begin_part(w, &s.axes[e->vector_axis]);
  if (jammed != NO_AXIS)
    unroll_and_jam_begin(e, out);
  nest_write_loops(w, 0, &s);
  if (jammed != NO_AXIS)
    unroll_and_jam_end(out);
  buffer_puts(out, "}\n");
  e->keeps_sizes = false;
}
