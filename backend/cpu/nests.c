/* Loops of a kernel as C: for-loops around straight-line code, and what
 * reductions need around them.
 *
 * The innermost for-loop goes over lanes; its block is written twice, for
 * whole vectors and for the rest of a row.  Lanes lie along an axis that is
 * reduced, and are then put together at the end; or along one that is kept,
 * and each has a sum of its own. */
#include "backend/cpu/nests.h"

#include <string.h>

enum {
  UNROLLED_OPS = 8,
  FEW_ROWS = 4,       /* of a square that is worth being turned */
  SEARCHED = 1 << 14, /* terms of a row that a search goes through */
};

#define format emit_format

void emit_put(Buffer *out, const Buffer *text) {
  if (text->len)
    buffer_add(out, text->text, text->len);
}

/* ---- where for-loops are ---- */

bool nest_is_outer(const Emitter *e) {
  return e->lane + 1 == e->loop->outer;
}

static bool is_row_var(const Emitter *e, const Loop *loop, uint32_t v) {
  uint32_t outer = loop->outer;
  return v < outer && !(loop->copy == COPY_OUT && v + 1 == outer) &&
         !(e->s->shape == UNIT_TILE && v + 2 == outer) &&
         !(e->s->strip && v + 3 == outer);
}

void emit_begin_loop(Emitter *e, const Loop *loop, uint32_t lane,
                     uint32_t loops, const uint32_t *order) {
  e->first += e->loop ? e->loop->steps.len : 0;
  e->quotients += e->loop ? e->loop->quotient_count : 0;
  e->loop = loop;
  e->lane = lane;
  e->loops = loops;
  uint32_t level = ROW_LEVEL, count = loop->steps.len;
  for (uint32_t v = 0; v < loop->axes; v++)
    e->level_of[v] = ROW_LEVEL;
  for (uint32_t j = 0; j < loops; j++) {
    e->order[j] = order[j];
    e->level_of[order[j]] = ++level;
  }
  e->lane_level = lane == NO_LANE ? level : level + 1;
  e->level_of[NO_LANE] = 0;
  memset(e->lane_quotients, 0, sizeof e->lane_quotients);
  if (lane != NO_LANE)
    e->level_of[lane] = e->lane_level;
  for (uint32_t j = 0; j < LEVELS; j++)
    e->blocks[j] = (Buffer){.arena = e->arena};
  e->checks = (Buffer){.arena = e->arena};
  e->turned = e->turned_names = e->checks;
  e->rows = NO_LANE;
  e->fused = NO_STEP;
  e->levels = NEW_ARRAY(e->arena, uint32_t, count);
  e->varies = NEW_ARRAY(e->arena, bool, count);
  e->rounds = NEW_ARRAY(e->arena, bool, count);
  e->classes = NEW_ARRAY(e->arena, char, count);
  e->need = NEW_ARRAY(e->arena, const char *, count);
}

/* ---- limits ---- */

bool is_limited(const Loop *loop, uint32_t v) {
  return (loop->limits || loop->portioned) && v == loop->limited;
}

/* The least or largest value of a limit among the rows. */
static const char *limit_text(Emitter *e, const Limit *limit) {
  uint32_t outer = e->k->outer;
  Buffer b = {.arena = e->arena};
  buffer_puts(&b, emit_int(e, limit->of.constant));
  for (uint32_t v = 0; v < outer; v++) {
    int64_t t = limit->of.times[v];
    if (!t)
      continue;
    buffer_printf(&b, " + %s * ", emit_int(e, t));
    if (v + 1 < outer || e->s->shape == UNIT_POINT)
      buffer_printf(&b, "i%u", v);
    else
      buffer_puts(&b, (t > 0) == limit->least ? "lo" : "(hi - 1)");
  }
  return limit->by == 1
             ? b.text
             : format(e, "floor_div(%s, %s)", b.text, emit_int(e, limit->by));
}

static void emit_limit(Emitter *e, Buffer *out, uint32_t at, const Limit *limit,
                       const char *name) {
  if (limit->exact)
    buffer_printf(out, "if (%s < %s)\n", emit_int(e, limit->most),
                  emit_int(e, limit->exact));
  buffer_printf(out, "{ const int64_t x = %s%s;\nif (x %s %s%u)\n%s%u = x; }\n",
                limit_text(e, limit), limit->least ? "" : " + 1",
                limit->least ? ">" : "<", name, at, name, at);
}

bool may_be_whole(const Kernel *k) {
  bool may = k->guard != NULL;
  for (uint32_t j = 0; j < k->loops.len; j++)
    may |= k->loops.at[j]->finite;
  return may;
}

/* One element at least is gone through, where there is one: so its loops need
 * no other way. */
static void emit_limits_of(Emitter *e, Buffer *out, uint32_t at,
                           const char *from, const char *to) {
  const Loop *loop = e->k->loops.at[at];
  const char *extent = emit_int(e, loop->extents[loop->limited]);
  buffer_printf(out, "int64_t %s%u = 0, %s%u = %s;\n", from, at, to, at,
                extent);
  if (!loop->limits)
    return;
  if (may_be_whole(e->k))
    buffer_puts(out, "if (!whole)\n");
  if (!size_is_number(e->k->graph, loop->extents[loop->limited]))
    buffer_printf(out, "if (%s > 0)\n", extent);
  buffer_puts(out, "{\n");
  for (uint32_t i = 0; i < e->k->limits.len; i++) {
    const Limit *limit = &e->k->limits.at[i];
    if (loop->limits >> i & 1)
      emit_limit(e, out, at, limit, limit->least ? from : to);
  }
  buffer_printf(out,
                "if (%s%u >= %s)\n%s%u = %s - 1;\n"
                "if (%s%u <= %s%u)\n%s%u = %s%u + 1;\n}\n",
                from, at, extent, from, at, extent, to, at, from, at, to, at,
                from, at);
}

void emit_limits(Emitter *e, Buffer *out) {
  for (uint32_t j = 0; j < e->k->loops.len; j++)
    if (e->k->loops.at[j]->portioned)
      emit_limits_of(e, out, j, "low", "high");
    else if (e->k->loops.at[j]->limits)
      emit_limits_of(e, out, j, "from", "to");
}

void emit_guard(Emitter *e, Buffer *out) {
  const Loop *guard = e->k->guard;
  emit_begin_loop(e, guard, NO_LANE, 0, NULL);
  emit_steps(e);
  emit_put(&e->head, &e->blocks[0]);
  buffer_puts(out, "{\n");
  emit_put(out, &e->blocks[ROW_LEVEL]);
  for (uint32_t j = 0; j < guard->results.len; j++)
    buffer_printf(out, "missed |= %s;\n",
                  emit_scalar(e, guard->results.at[j].step));
  buffer_puts(out, "}\n");
}

/* ---- reductions ---- */

static const char *least_text(Dtype t, bool most) {
  switch (t) {
  case DT_U8:
    return most ? "0" : "255";
  case DT_I8:
    return most ? "-128" : "127";
  case DT_I32:
    return most ? "(-0x7fffffff - 1)" : "0x7fffffff";
  case DT_I64:
    return most ? "(-0x7fffffffffffffff - 1)" : "0x7fffffffffffffff";
  case DT_F16:
  case DT_BF16:
  case DT_F32:
  case DT_F64:
    return most ? "-__builtin_inff()" : "__builtin_inff()";
  case DT_BOOL:
  case DT_NONE:
  case DT_COUNT:
    break;
  }
  return "0";
}

const char *emit_identity(PrimId op, Dtype t) {
  if (op == PRIM_MAX || op == PRIM_MIN)
    return least_text(t, op == PRIM_MAX);
  return op == PRIM_PROD || op == PRIM_ALL ? "1" : "0";
}

static bool is_where(PrimId op) {
  return op == PRIM_ARGMAX || op == PRIM_ARGMIN;
}

static double terms_of(const Loop *loop) {
  return loop_points(loop, loop->kept, loop->axes);
}

/* Sums of floats go into doubles after each RUN vectors: as good as sums in
 * double, and as quick as sums in float.  Short ones do without. */
static bool goes_in_runs(const Emitter *e, const Fold *f) {
  bool row = e->lane != NO_LANE && e->lane >= e->loop->kept;
  double run = row ? (double)RUN * e->s->width : RUN;
  return f->op == PRIM_SUM && f->class == 'f' &&
         (e->s->chunk || terms_of(e->loop) > run);
}

char nest_end_class(const Fold *f) {
  return f->runs ? 'd' : f->class;
}

/* Is it an extreme that the machine takes, numbers at least, of all lanes? */
static bool is_noted(const Emitter *e, const Fold *f) {
  return (f->op == PRIM_MAX || f->op == PRIM_MIN) && f->class == 'f' &&
         e->s->width == 16 && e->lane != NO_LANE && e->lane >= e->loop->kept;
}

static Dtype accumulator_dtype(const Fold *f) {
  char class = f->where ? 'l' : nest_end_class(f);
  return class == 'f'   ? DT_F32
         : class == 'd' ? DT_F64
         : class == 'l' ? DT_I64
         : class == 'b' ? DT_BOOL
                        : DT_I32;
}

static uint32_t out_number(Emitter *e, Result *r) {
  VEC_PUSH(e->arena, e->out->call.outs, r);
  return e->out->call.outs.len - 1;
}

/* May there be so many elements in the axes that are reduced? */
static bool is_far(const Loop *loop) {
  for (uint32_t v = loop->kept; v < loop->axes; v++)
    if (!size_is_number(loop->graph, loop->extents[v]))
      return true;
  return loop_points(loop, loop->kept, loop->axes) > INT32_MAX;
}

/* How many elements come before this one in these axes. */
static const char *position(Emitter *e) {
  Quasi *q = quasi_new(e->arena, 0);
  int64_t stride = 1;
  for (uint32_t v = e->loop->axes; v-- > e->loop->kept;) {
    q->times[v] = stride;
    stride = emit_times(e, stride, e->loop->extents[v]);
  }
  const char *base = emit_quasi(e, q);
  bool lanes = q->times[e->lane];
  if (is_far(e->loop))
    return format(e, lanes ? "%s + j + wide(lanes())" : "splat_l(%s)", base);
  return format(e, lanes ? "(int32_t)(%s + j) + lanes()" : "splat_i(%s)", base);
}

Fold nest_fold(Emitter *e, uint32_t at) {
  const Result *r = &e->loop->results.at[at];
  Dtype t = e->loop->steps.at[r->step].dtype;
  Fold f = {.r = r, .op = r->reduce, .class = class_of(t)};
  f.name = e->names++;
  f.point = e->together ? "[y]" : "";
  f.runs = goes_in_runs(e, &f);
  f.seen = is_noted(e, &f);
  f.where = is_where(r->reduce) ? position(e) : NULL;
  f.far = f.where && is_far(e->loop);
  f.identity = emit_identity(r->reduce, t);
  return f;
}

void nest_place(Emitter *e, uint32_t loop, uint32_t at, Fold *f) {
  Result *r = &e->loop->results.at[at];
  const Local *l = &e->locals[loop][at];
  if (r->local)
    f->local = format(e, "l%u + %s", l->name, emit_local(e, l, r->local));
  if (e->s->chunk) {
    e->out->call.accumulator = accumulator_dtype(f);
    e->out->call.places = f->where != NULL;
  }
  if (r->out)
    f->out = format(e, "o%u + %s%s", out_number(e, r), emit_quasi(e, r->out),
                    e->s->chunk ? " + share" : "");
}

static const char *combine(Emitter *e, const Fold *f, char class, bool lanes,
                           const char *acc, const char *x) {
  switch ((int)f->op) {
  case PRIM_SUM:
  case PRIM_PROD: {
    const char *op = f->op == PRIM_SUM ? "+" : "*";
    if (lanes || is_float_class(class))
      return format(e, "%s %s %s", acc, op, x);
    const char *u = class == 'l' ? "uint64_t" : "uint32_t";
    return format(e, "(%s)((%s)%s %s (%s)%s)", scalar_type(class), u, acc, op,
                  u, x);
  }
  case PRIM_MAX:
  case PRIM_MIN:
    return emit_extreme(e, f->op == PRIM_MAX, class, lanes, acc, x);
  case PRIM_ANY:
    return format(e, "%s | %s", acc, x);
  case PRIM_ALL:
    return format(e, "%s & %s", acc, x);
  }
  e->failed = true;
  return acc;
}

const char *emit_combined(Emitter *e, PrimId op, char class, const char *acc,
                          const char *x) {
  Fold f = {.op = op};
  return combine(e, &f, class, false, acc, x);
}

static const char *best_name(Emitter *e, const Fold *f) {
  return format(e, "best_%c_%s%s", f->class,
                f->op == PRIM_ARGMAX ? "more" : "less", f->far ? "_far" : "");
}

/* One more vector of values for an accumulator. */
void nest_take(Emitter *e, Buffer *out, const Fold *f, const char *at,
               bool masked) {
  const char *x = emit_lanes(e, f->r->step, f->class);
  const char *acc = format(e, "acc%u%s", f->name, at);
  if (f->where) {
    buffer_printf(out, "%s(&%s, &at%u%s, %s, %s, LIVE);\n", best_name(e, f),
                  acc, f->name, at, x, f->where);
    return;
  }
  if (masked)
    x = format(e, "sel_%c(LIVE, %s, splat_%c(%s))", f->class, x, f->class,
               f->identity);
  const char *taken =
      f->seen ? format(e, "%s_f(%s, x, &seen%u%s)",
                       f->op == PRIM_MAX ? "more" : "less", acc, f->name, at)
              : combine(e, f, f->class, true, acc, "x");
  buffer_printf(out, "{ const v%c x = %s;\n%s = %s; }\n",
                vector_letter(f->class), x, acc, taken);
}

/* ---- for-loops ---- */

const char whole_macros[] =
    "#define LOAD(T, p) ld_##T(p)\n#define REST W\n#define LIVE ALL\n";
const char part_macros[] =
    "#define LOAD(T, p) ldp_##T(p, rest)\n#define REST rest\n"
    "#define LIVE (lanes() < rest)\n";
const char no_macros[] = "#undef LOAD\n#undef REST\n#undef LIVE\n";

/* The lane's block, and what is done with it, for whole vectors before `to`;
 * for the rest of these, `part`. */
static void emit_lanes_to(Emitter *e, Buffer *out, const char *to,
                          const char *step, const Buffer *whole,
                          const Buffer *part) {
  const Buffer *body = &e->blocks[e->lane_level];
  buffer_printf(out, "for (; j + W <= %s; j += W%s) {\n%s", to, step,
                whole_macros);
  emit_put(out, body);
  emit_put(out, &e->checks);
  emit_put(out, whole);
  buffer_printf(
      out,
      "%s}\nif (j < %s) {\nconst int rest = (int)(%s - j);\n(void)rest;\n%s",
      no_macros, to, to, part_macros);
  emit_put(out, body);
  emit_put(out, &e->checks);
  emit_put(out, part);
  buffer_printf(out, "%s}\n", no_macros);
}

/* for j in .. end - 1 */
void emit_lane_loop(Emitter *e, Buffer *out, const char *step,
                    const Buffer *whole, const Buffer *part) {
  emit_lanes_to(e, out, "end", step, whole, part);
}

/* The same, but first what is before `to`, a place in memory at j, is where
 * whole vectors may be streamed. */
static void emit_stream_loop(Emitter *e, Buffer *out, const char *to,
                             const Buffer *whole, const Buffer *part) {
  buffer_printf(out,
                "for (int64_t stop = j + ahead_%s, done = 0; !done; "
                "stop = end) {\n"
                "done = stop >= end;\nstop = done ? end : stop;\n",
                to);
  emit_lanes_to(e, out, "stop", "", whole, part);
  buffer_puts(out, "j = stop;\n}\n");
}

void nest_open_one(Emitter *e, Nest *n, const char *from, const char *to) {
  uint32_t v = e->order[n->opened++];
  buffer_printf(n->out, "for (int64_t i%u = %s; i%u < %s; i%u++) {\n", v, from,
                v, to, v);
  emit_put(n->out, &e->blocks[e->level_of[v]]);
}

static bool is_chunked(const Emitter *e, uint32_t v) {
  uint32_t first = e->loop->kept;
  return e->s->chunk && v == first;
}

/* Where an axis begins and ends. */
const char *nest_from(Emitter *e, uint32_t v) {
  uint32_t outer = e->loop->outer;
  return is_chunked(e, v)         ? "from"
         : v + 1 == outer         ? "lo"
         : v + 3 == outer         ? "above"
         : v < outer              ? "y0"
         : is_limited(e->loop, v) ? format(e, "from%u", e->at)
                                  : "0";
}

const char *nest_to(Emitter *e, uint32_t v) {
  uint32_t outer = e->loop->outer;
  return is_chunked(e, v)         ? "to"
         : v + 1 == outer         ? "hi"
         : v + 3 == outer         ? "below"
         : v < outer              ? "y1"
         : is_limited(e->loop, v) ? format(e, "to%u", e->at)
                                  : emit_int(e, e->loop->extents[v]);
}

void nest_open(Emitter *e, Nest *n, uint32_t to) {
  while (n->opened < to) {
    uint32_t v = e->order[n->opened];
    nest_open_one(e, n, nest_from(e, v), nest_to(e, v));
  }
}

void nest_close(Nest *n, uint32_t to) {
  while (n->opened > to) {
    buffer_puts(n->out, "}\n");
    n->opened--;
  }
}

void nest_range(Emitter *e, Buffer *out, bool declare) {
  const char *type = declare ? "const int64_t " : "";
  if (nest_is_outer(e))
    buffer_printf(out, "%sstart = lo, end = hi;\n", type);
  else
    buffer_printf(out, "%sstart = %s, end = %s;\n", type, nest_from(e, e->lane),
                  nest_to(e, e->lane));
}

/* ---- results ---- */

/* Is it stored past the caches, in whole vectors? */
static bool is_streamed(const Emitter *e, const Fold *f) {
  return f->out && !e->s->chunk &&
         schedule_streams_along(e->s, e->loop, f->r, e->lane);
}

/* Lanes to places that are so many elements apart. */
static void store_apart(Emitter *e, Buffer *out, const char *name,
                        const char *to, int64_t step, const char *x,
                        const char *rest) {
  if (step >= 2 && step <= NEAR_STEPS && e->s->width > 1)
    buffer_printf(out, "sts%d_%s(%s + j * %d, %s, %s);\n", (int)step, name, to,
                  (int)step, x, rest);
  else
    buffer_printf(out, "sts_%s(%s + j * %s, %s, %s, %s);\n", name, to,
                  emit_int(e, step), emit_int(e, step), x, rest);
}

void nest_store(Emitter *e, Buffer *out, const Fold *f, const char *x,
                bool whole) {
  const char *name = dtype_info[f->r->dtype].name;
  bool outer = nest_is_outer(e);
  const char *rest = whole ? "W" : "rest";
  if (f->out) {
    int64_t step = f->r->out->times[e->lane];
    bool streamed = whole && is_streamed(e, f);
    e->streams |= streamed;
    if (step != 1)
      store_apart(e, out, name, f->out, step, x, rest);
    else if (whole)
      buffer_printf(out, "%s_%s(%s + j, %s);\n", streamed ? "nt" : "st", name,
                    f->out, x);
    else
      buffer_printf(out, "stp_%s(%s + j, %s, rest);\n", name, f->out, x);
  }
  if (!f->local)
    return;
  int64_t step = outer ? 1 : f->r->local->times[e->lane];
  const char *to = outer ? format(e, "%s + (j - lo)", f->local) : f->local;
  if (step != 1)
    store_apart(e, out, name, to, step, x, rest);
  else if (!outer)
    to = format(e, "%s + j", f->local);
  if (step == 1 && whole)
    buffer_printf(out, "st_%s(%s, %s);\n", name, to, x);
  else if (step == 1)
    buffer_printf(out, "stp_%s(%s, %s, rest);\n", name, to, x);
}

static void store_one(Emitter *e, Buffer *out, Dtype t, const char *to,
                      const char *x) {
  if (!to)
    return;
  if (t == DT_F16 || t == DT_BF16)
    buffer_printf(out, "put_%s(%s, %s);\n", dtype_info[t].name, to, x);
  else
    buffer_printf(out, "*(%s) = (%s)%s;\n", to, memory_type(t), x);
  (void)e;
}

Dtype nest_stored(const Emitter *e, const Fold *f) {
  return e->s->chunk ? accumulator_dtype(f) : f->r->dtype;
}

static void store_scalar(Emitter *e, Buffer *out, const Fold *f,
                         const char *x) {
  if (f->r->carried) {
    emit_carried(e, out, f->r, f->local, x);
    return;
  }
  store_one(e, out, nest_stored(e, f), f->out, x);
  store_one(e, out, f->r->dtype, f->local, x);
}

/* ---- lanes along a reduced axis, or along one of stored values ---- */

/* t with its lanes half .. 2 * half - 1 in front. */
static const char *upper_half(Emitter *e, uint32_t half) {
  Buffer b = {.arena = e->arena};
  buffer_puts(&b, "__builtin_shufflevector(t, t");
  for (uint32_t l = 0; l < e->s->width; l++)
    buffer_printf(&b, ", %u", l < half ? l + half : l);
  buffer_puts(&b, ")");
  return b.text;
}

/* Of accumulators that hold numbers, where it is noted whether others came. */
static const char *join(Emitter *e, const Fold *f, char class, const char *x,
                        const char *y) {
  if (!f->seen)
    return combine(e, f, class, true, x, y);
  return format(e, "%s_f(%s, %s)", f->op == PRIM_MAX ? "top" : "low", x, y);
}

static void emit_row_end(Emitter *e, Buffer *out, const Fold *f,
                         const char *first) {
  const char *acc = format(e, "acc%u%s", f->name, first);
  if (f->where) {
    const char *place =
        format(e, "%s_lane(%s, at%u%s)", best_name(e, f), acc, f->name, first);
    BestPart p = {f->class, f->name, f->far, first, place, f->out};
    if (e->s->chunk)
      emit_best_row(e, out, &p);
    else
      store_scalar(e, out, f, place);
    return;
  }
  char class = nest_end_class(f);
  const char *from = f->runs ? format(e, "sum%u%s", f->name, f->point) : acc;
  buffer_printf(out, "{ v%c t = %s;\n", vector_letter(class), from);
  for (uint32_t half = e->s->width / 2; half; half /= 2)
    buffer_printf(out, "t = %s;\n",
                  join(e, f, class, "t", upper_half(e, half)));
  if (f->seen)
    buffer_printf(out, "const float r = seen_end(first_f(t), seen%u%s);\n",
                  f->name, first);
  else
    buffer_printf(out, "const %s r = first_%c(t)%s;\n", scalar_type(class),
                  vector_letter(class), class == 'b' ? " & 1" : "");
  store_scalar(e, out, f, "r");
  buffer_puts(out, "}\n");
}

/* Sums that do not wait for each other, where little else is done. */
static uint32_t sums_at_once(const Emitter *e, const Nest *n) {
  uint32_t ops = 0;
  for (uint32_t j = 0; j < n->count; j++)
    if (n->folds[j].op == PRIM_NONE)
      return 1;
  for (uint32_t j = 0; j < e->loop->steps.len; j++)
    ops += e->varies[j];
  return ops <= UNROLLED_OPS ? UNROLLED : 1;
}

/* A loop over accumulators: written out, so that these stay in registers. */
static const char *each_sum(Emitter *e, uint32_t from, uint32_t sums) {
  return format(e, "#pragma GCC unroll %u\nfor (int q = %u; q < %u; q++)\n",
                sums, from, sums);
}

/* Of several points: arrays of sums. */
static void declare_points(Emitter *e, Buffer *out, const Fold *f,
                           uint32_t sums) {
  char v = vector_letter(f->class);
  buffer_printf(out, "v%c acc%u[%u][%u];\n", v, f->name, e->together, sums);
  if (f->runs)
    buffer_printf(out, "vd sum%u[%u];\n", f->name, e->together);
  together_each(e, out, false);
  buffer_printf(out, "%sacc%u[y][q] = splat_%c(%s);\n", each_sum(e, 0, sums),
                f->name, f->class, f->identity);
  if (f->runs)
    buffer_printf(out, "sum%u[y] = (vd){0};\n", f->name);
  buffer_puts(out, "}\n");
}

static void declare_row(Emitter *e, Buffer *out, const Fold *f, uint32_t sums) {
  char v = vector_letter(f->class);
  const char *each = each_sum(e, 0, sums);
  const char *first = f->where ? "0" : f->identity;
  if (sums > 1)
    buffer_printf(out,
                  "v%c acc%u[%u];\n%sacc%u[q] = splat_%c(%s);\n", v, f->name,
                  sums, each, f->name, f->class, first);
  else
    buffer_printf(out, "v%c acc%u = splat_%c(%s);\n", v, f->name, f->class,
                  first);
  char at = f->far ? 'l' : 'i';
  if (f->where && sums > 1)
    buffer_printf(out,
                  "v%c at%u[%u];\n%sat%u[q] = splat_%c(-1);\n", at, f->name,
                  sums, each, f->name, at);
  else if (f->where)
    buffer_printf(out, "v%c at%u = splat_%c(-1);\n", at, f->name, at);
  if (f->runs)
    buffer_printf(out, "vd sum%u = {0};\n", f->name);
  if (f->seen && sums > 1)
    buffer_printf(out,
                  "seen_f seen%u[%u];\n%sseen%u[q] = (seen_f)-1;\n", f->name,
                  sums, each, f->name);
  else if (f->seen)
    buffer_printf(out, "seen_f seen%u = (seen_f)-1;\n", f->name);
}

/* All of an accumulator as one vector, acc%u[0]; sums of floats go on in
 * doubles. */
static void gather_sums(Emitter *e, Buffer *out, const Fold *f, uint32_t sums) {
  bool array = sums > 1 || e->together;
  const char *first = array ? "[0]" : "";
  const char *one = format(e, "acc%u%s[0]", f->name, f->point);
  const char *other = format(e, "acc%u%s[q]", f->name, f->point);
  if (sums > 1)
    buffer_puts(out, each_sum(e, 1, sums));
  if (sums > 1 && f->where)
    buffer_printf(out, "%s = %s_of(%s, &at%u[0], %s, at%u[q]);\n", one,
                  best_name(e, f), one, f->name, other, f->name);
  else if (sums > 1)
    buffer_printf(
        out, "%s = %s%s", one, join(e, f, f->class, one, other),
        f->seen ? format(e, ", seen%u[0] &= seen%u[q];\n", f->name, f->name)
                : ";\n");
  if (!f->runs)
    return;
  buffer_printf(out, "sum%u%s += CONVERT(acc%u%s%s, vd);\n", f->name, f->point,
                f->name, f->point, first);
  if (array)
    buffer_printf(out, "%sacc%u%s[q] = (vf){0};\n", each_sum(e, 0, sums),
                  f->name, f->point);
  else
    buffer_printf(out, "acc%u = (vf){0};\n", f->name);
}

/* So many terms in a row that for most of them it is long known that lanes have
 * had better ones; in a shorter one that is a surprise too often. */
static bool is_search(const Emitter *e, const Fold *f) {
  const Loop *loop = e->loop;
  bool parts = e->s->chunk && e->lane == loop->kept;
  int64_t terms = parts ? e->s->chunk : loop->extents[e->lane];
  return f->where && size_guess(loop->graph, terms) >= SEARCHED;
}

/* The lanes of several vectors at a time, each with its own sum. */
static void emit_unrolled(Emitter *e, Buffer *out, const Nest *n) {
  buffer_printf(out,
                "for (; j + %d * W <= end; j += %d * W) {\n"
                "const int64_t first = j;\n%s"
                "#pragma GCC unroll %d\n"
                "for (int q = 0; q < %d; q++) {\n"
                "const int64_t j = first + q * W;\n(void)j;\n",
                UNROLLED, UNROLLED, whole_macros, UNROLLED, UNROLLED);
  emit_put(out, &e->blocks[e->lane_level]);
  emit_put(out, &e->checks);
  for (uint32_t j = 0; j < n->count; j++) {
    const Fold *f = &n->folds[j];
    if (is_search(e, f)) /* all lanes have a place after the first */
      buffer_printf(out, "if (first == start || may_%c_%s(acc%u[q], %s))\n",
                    f->class, f->op == PRIM_ARGMAX ? "more" : "less", f->name,
                    emit_lanes(e, f->r->step, f->class));
    nest_take(e, out, f, format(e, "%s[q]", f->point), false);
  }
  if (e->together)
    buffer_puts(out, "}\n");
  buffer_printf(out, "}\n%s}\n", no_macros);
}

/* Where the first result that is streamed goes, as an argument; NULL: there is
 * none. */
static const char *stream_at(Emitter *e, const Nest *n) {
  for (uint32_t j = 0; j < n->count; j++) {
    const Fold *f = &n->folds[j];
    if (f->op == PRIM_NONE && is_streamed(e, f))
      return format(e, "%s(%s + j)", dtype_info[f->r->dtype].name, f->out);
  }
  return NULL;
}

static void gather_runs(Emitter *e, const Nest *n, uint32_t sums) {
  buffer_puts(n->out, "j = end;\n");
  if (e->together)
    together_each(e, n->out, false);
  for (uint32_t j = 0; j < n->count; j++)
    if (n->folds[j].runs)
      gather_sums(e, n->out, &n->folds[j], sums);
  buffer_puts(n->out, e->together ? "}\n}\n" : "}\n");
}

/* The loop over lanes of a row, which has sums of so many vectors. */
static void emit_terms(Emitter *e, const Nest *n, uint32_t sums,
                       const Buffer *whole, const Buffer *part) {
  bool runs = false;
  for (uint32_t j = 0; j < n->count; j++)
    runs |= n->folds[j].runs;
  nest_range(e, n->out, true);
  if (runs)
    buffer_printf(
        n->out,
        "for (int64_t j = start, last = end; j < last;) {\n"
        "const int64_t end = j + %d * W < last ? j + %d * W : last;\n",
        RUN, RUN);
  else
    buffer_puts(n->out, "int64_t j = start;\n");
  if (sums > 1)
    emit_unrolled(e, n->out, n);
  const char *stream = stream_at(e, n);
  if (stream)
    emit_stream_loop(e, n->out, stream, whole, part);
  else
    emit_lane_loop(e, n->out, "", whole, part);
  if (runs)
    gather_runs(e, n, sums);
}

static void emit_row_sum(Emitter *e, const Nest *n, const Fold *f,
                         uint32_t sums, const char *first) {
  if (f->op == PRIM_NONE)
    return;
  if (!f->runs)
    gather_sums(e, n->out, f, sums);
  emit_row_end(e, n->out, f, first);
}

static void emit_row(Emitter *e, Nest *n) {
  Buffer whole = {.arena = e->arena}, part = whole, *out = n->out;
  uint32_t sums = sums_at_once(e, n);
  const char *first = sums > 1 ? "[0]" : "";
  nest_open(e, n, e->turned.len ? n->kept - 1 : n->kept);
  for (uint32_t j = 0; j < n->count; j++) {
    const Fold *f = &n->folds[j];
    if (f->op == PRIM_NONE) {
      const char *x = emit_stored(e, f->r->step, f->r->dtype);
      nest_store(e, &whole, f, x, true);
      nest_store(e, &part, f, x, false);
      continue;
    }
    declare_row(e, out, f, sums);
    nest_take(e, &whole, f, first, false);
    nest_take(e, &part, f, first, true);
  }
  if (e->turned.len) {
    nest_range(e, out, true);
    emit_turned(e, out, nest_from(e, e->rows), nest_to(e, e->rows), &whole,
                &part);
    nest_close(n, 0);
    return;
  }
  nest_open(e, n, e->loops);
  emit_terms(e, n, sums, &whole, &part);
  nest_close(n, n->kept);
  for (uint32_t j = 0; j < n->count; j++)
    emit_row_sum(e, n, &n->folds[j], sums, first);
  nest_close(n, 0);
}

/* The same for several points at once. */
static void emit_together(Emitter *e, const Nest *n) {
  Buffer lanes = {.arena = e->arena}, whole = lanes, part = lanes;
  Buffer *block = &e->blocks[e->lane_level];
  uint32_t sums = sums_at_once(e, n);
  together_begin(e, n->out);
  for (uint32_t j = 0; j < n->count; j++) {
    declare_points(e, n->out, &n->folds[j], sums);
    nest_take(e, &whole, &n->folds[j], "[y][0]", false);
    nest_take(e, &part, &n->folds[j], "[y][0]", true);
  }
  together_each(e, &lanes, true);
  emit_put(&lanes, block);
  *block = lanes;
  buffer_puts(&whole, "}\n");
  buffer_puts(&part, "}\n");
  emit_terms(e, n, sums, &whole, &part);
  together_each(e, n->out, true);
  together_place(e, n->out, true);
  for (uint32_t j = 0; j < n->count; j++)
    emit_row_sum(e, n, &n->folds[j], sums, "[y][0]");
  buffer_puts(n->out, "}\n");
  together_end(n->out);
}

/* ---- no lanes: one element ---- */

static void emit_single(Emitter *e, Nest *n) {
  nest_open(e, n, e->loops);
  buffer_puts(n->out, "#define LIVE ALL\n");
  emit_put(n->out, &e->checks);
  buffer_puts(n->out, "#undef LIVE\n");
  for (uint32_t j = 0; j < n->count; j++)
    store_scalar(e, n->out, &n->folds[j], emit_scalar(e, n->folds[j].r->step));
  nest_close(n, 0);
}

/* ---- the whole ---- */

/* The axis along which a loop reads what is stored along the lanes. */
static uint32_t turned_rows(const Emitter *e, const Loop *loop,
                            const uint32_t *order) {
  if (e->s->turned)
    return order[0];
  if (loop->copy == COPY_OUT)
    return loop->outer - 1;
  return loop->copy == COPY_IN && loop_guess(loop, loop->next) >= FEW_ROWS
             ? loop->next
             : NO_LANE;
}

/* Units go along the last outer axis: what the next one copies is fetched while
 * this one's copy is worked on. */
static uint32_t fetched_axis(const Emitter *e, const Loop *loop) {
  bool copies = e->s->shape == UNIT_POINT && loop->outer > 0 &&
                loop->axes == loop->kept && e->k->loops.len > 1;
  for (uint32_t j = 0; j < loop->results.len; j++)
    copies &= loop->results.at[j].local != NULL;
  return copies ? loop->outer - 1 : NO_LANE;
}

void emit_nest(Emitter *e, Buffer *out, uint32_t at, uint32_t lane) {
  const Loop *loop = e->k->loops.at[at];
  uint32_t order[KERNEL_AXES], loops = 0;
  for (uint32_t v = 0; v < loop->axes; v++)
    if (v != lane && !is_row_var(e, loop, v) &&
        !(loop->copy == COPY_OUT && v < loop->outer))
      order[loops++] = v;
  if (loop->copy == COPY_OUT)
    order[loops++] = loop->outer - 1;
  if (e->s->strip) { /* it is nearer to the lanes in memory */
    order[0] = loop->outer - 2;
    order[1] = loop->outer - 3;
  }
  if (nest_is_short(e->s, loop, lane)) {
    nest_few(e, out, at, lane, loops, order);
    return;
  }
  emit_begin_loop(e, loop, lane, loops, order);
  e->at = at;
  e->few = false;
  e->rows = turned_rows(e, loop, order);
  e->fetched = fetched_axis(e, loop);
  e->together = together_points(e->k, e->s, at);
  emit_steps(e);
  e->fetched = NO_LANE;
  Nest n = {.out = out};
  if (loop->results.len > RESULTS_MOST) {
    e->failed = true;
    return;
  }
  bool reduces = false;
  for (uint32_t j = 0; j < loop->results.len; j++) {
    const Result *r = &loop->results.at[j];
    if (!r->out && !r->local)
      continue;
    n.folds[n.count] = nest_fold(e, j);
    nest_place(e, at, j, &n.folds[n.count]);
    reduces |= n.folds[n.count].op != PRIM_NONE;
    n.count++;
  }
  if (e->failed)
    return;
  for (uint32_t j = 0; j < e->loops; j++)
    n.kept += e->order[j] < (reduces ? loop->kept : loop->axes);
  buffer_puts(out, "{\n");
  emit_put(&e->head, &e->blocks[0]);
  if (!e->together)
    emit_put(out, &e->blocks[ROW_LEVEL]);
  if (e->together)
    emit_together(e, &n);
  else if (lane == NO_LANE)
    emit_single(e, &n);
  else if (reduces && lane < loop->kept)
    nest_columns(e, &n);
  else
    emit_row(e, &n);
  emit_rescaled(e, out, at);
  buffer_puts(out, "}\n");
  if (e->together)
    together_place(e, out, false);
  e->together = 0;
}
