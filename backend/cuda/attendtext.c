/* Two products with weights between as the text of a pass. */
#include "backend/cuda/attend.h"
#include "backend/cuda/attentionemit.h"

#include <string.h>

#define format emit_format

/* The row's axis has this name, as loops number it each in their own way. */
#define TERM "at_n"

/* ---- axes and operands ---- */

static const char *stride_of(CudaWriter *w, const Step *read, uint32_t v) {
  int64_t times = read ? read->address->times[v] : 0;
  return times == 1 ? "1"
         : times    ? format(&w->e, "(int64_t)%s", emit_int(&w->e, times))
                    : NULL;
}

/* Axes of a loop, with the strides of two operands, of which one may not
 * be there. */
static GemmGroup group_of(CudaWriter *w, const Loop *loop, CudaAxes axes,
                          const Step *a, const Step *b) {
  Emitter *e = &w->e;
  GemmGroup g = {.count = axes.count};
  for (uint32_t j = 0; j < axes.count; j++) {
    uint32_t v = axes.axes[j];
    g.axes[j] = (GemmAxis){
        .name = format(e, "i%u", v),
        .extent = format(e, "%s", emit_int(e, loop->extents[v])),
        .stride_a = stride_of(w, a, v),
        .stride_b = stride_of(w, b, v),
    };
  }
  return g;
}

/* The row's axis, of b and v, which have different numbers of it. */
static GemmGroup term_group(CudaWriter *w, const CudaAttend *t) {
  const Loop *first = w->k->loops.at[0];
  uint32_t n = w->k->outer, last = w->k->loops.at[t->between.last]->kept;
  GemmGroup g = group_of(w, first, (CudaAxes){1, &n}, t->copy[ATTEND_B], NULL);
  g.axes[0].name = TERM;
  g.axes[0].stride_b = stride_of(w, t->copy[ATTEND_V], last);
  return g;
}

static void put_alias(CudaWriter *w, Buffer *out, uint32_t v) {
  buffer_printf(out, "const %s i%u = (%s)" TERM ";\n(void)i%u;\n",
                w->dialect.index, v, w->dialect.index, v);
}

static void put_value(CudaWriter *w, Buffer *out, const char *to,
                      uint32_t which) {
  const CudaAttend *t = w->s->attend;
  const Loop *side = t->side[which];
  buffer_puts(out, "{\n");
  if (which == ATTEND_B)
    put_alias(w, out, w->k->outer);
  if (which == ATTEND_V)
    put_alias(w, out, side->kept);
  cuda_put_steps(w, out, side, NULL);
  buffer_printf(out, "%s = %s;\n}\n", to,
                emit_scalar(&w->e, side->results.at[0].step));
}

static void put_value_a(void *owner, Buffer *out, const char *to) {
  put_value(owner, out, to, ATTEND_A);
}
static void put_value_b(void *owner, Buffer *out, const char *to) {
  put_value(owner, out, to, ATTEND_B);
}
static void put_value_v(void *owner, Buffer *out, const char *to) {
  put_value(owner, out, to, ATTEND_V);
}

static GemmOperand operand_of(CudaWriter *w, const Step *read,
                              void (*value)(void *, Buffer *, const char *)) {
  GemmOperand o = {.pointer = "0"};
  Emitter *e = &w->e;
  if (!read) {
    o.value = value;
    return o;
  }
  o.pointer = format(e, "p%u", read->input);
  if (read->address->constant)
    o.pointer =
        format(e, "(%s + %s)", o.pointer, emit_int(e, read->address->constant));
  return o;
}

/* ---- scores, factors, results ---- */

/* Of what is left of the row: the first product's value is x. */
static const char *given_of(CudaWriter *w, const Step *s, const char *x,
                            const char *most, const char *total) {
  const Result *r = &w->k->loops.at[s->loop]->results.at[s->result];
  if (s->loop >= w->s->attend->between.last)
    return NULL;
  return cuda_kept(&w->e, r->dtype,
                   s->loop == 0            ? x
                   : r->reduce == PRIM_MAX ? most
                                           : total);
}

static const char **given_all(CudaWriter *w, const Loop *loop, const char *x,
                              const char *most, const char *total) {
  const char **given = NEW_ARRAY(w->e.arena, const char *, loop->steps.len + 1);
  for (uint32_t j = 0; j < loop->steps.len; j++)
    if (loop->steps.at[j].kind == STEP_LOCAL)
      given[j] = given_of(w, &loop->steps.at[j], x, most, total);
  return given;
}

static void put_score(void *owner, Buffer *out, const char *x, const char *to,
                      bool whole) {
  CudaWriter *w = owner;
  const Loop *score = whole ? w->s->attend->whole : w->s->attend->score;
  put_alias(w, out, w->k->outer);
  cuda_put_steps(w, out, score, given_all(w, score, x, NULL, NULL));
  buffer_printf(out, "%s = %s;\n", to,
                emit_scalar(&w->e, score->results.at[0].step));
}

static bool is_anywhere(const CudaAttend *t) {
  bool is = true;
  for (uint32_t j = 0; j < t->score->steps.len; j++)
    is &= cuda_touches_nothing(&t->score->steps.at[j]);
  return is;
}

static const char *given_of_row(CudaWriter *w, const Step *s) {
  return given_of(w, s, NULL, "most", "total");
}

/* A sum of no terms is 0, whatever they would have been divided by. */
static bool is_open_row(const CudaWriter *w) {
  return !size_is_number(w->k->graph, w->k->loops.at[0]->extents[w->k->outer]);
}

static void put_epilogue(void *owner, Buffer *out, const char *x,
                         const char *const to[GEMM_RESULTS]) {
  CudaWriter *w = owner;
  const CudaAttend *t = w->s->attend;
  const Loop *f = t->factors;
  uint32_t name = w->e.names++;
  w->dialect.over = "ax_over";
  cuda_put_steps(w, out, f, given_all(w, f, NULL, "most", "total"));
  buffer_printf(out, "float l%u = %s;\n", name, x);
  for (uint32_t j = 0; j < f->results.len; j++) {
    const char *factor = emit_scalar(&w->e, f->results.at[j].step);
    if (t->between.over[j])
      buffer_printf(out, "l%u = ax_over(l%u, (float)%s);\n", name, name,
                    factor);
    else
      buffer_printf(out, "l%u *= (float)%s;\n", name, factor);
  }
  if (is_open_row(w))
    buffer_printf(out, "l%u = terms == 0 ? 0.0f : l%u;\n", name, name);
  cuda_put_loops(w, out, t->between.last, format(&w->e, "l%u", name), to,
                 given_of_row);
  w->dialect.over = NULL;
}

/* Numbers whose reciprocals are as exact as any. */
static void put_plain(void *owner, Buffer *out, const char *to) {
  CudaWriter *w = owner;
  const Loop *divisors = w->s->attend->divisors;
  if (divisors)
    cuda_put_steps(w, out, divisors, NULL);
  for (uint32_t j = 0; divisors && j < divisors->results.len; j++) {
    const char *x = emit_scalar(&w->e, divisors->results.at[j].step);
    buffer_printf(out, "%s &= fabsf(%s) > 1e-30f && fabsf(%s) < 1e30f;\n", to,
                  x, x);
  }
  if (w->s->attend->unit)
    buffer_printf(out, "%s &= unit_whole > 1e-30f && unit_whole < 1e30f;\n",
                  to);
}

static void put_unit(void *owner, Buffer *out) {
  CudaWriter *w = owner;
  const Loop *unit = w->s->attend->unit;
  cuda_put_steps(w, out, unit, NULL);
  buffer_printf(out, "const float unit_whole = %s;\n",
                emit_scalar(&w->e, unit->results.at[0].step));
}

/* ---- limits ---- */

/* first_v and last_v: the values that an axis of the rows has in some rows
 * that follow each other. */
static void put_ranges(CudaWriter *w, Buffer *out, const CudaAttend *t) {
  const Loop *loop = w->k->loops.at[0];
  if (t->ms > 1)
    buffer_puts(out, "int64_t first = first_row, last = last_row;\n");
  else
    buffer_puts(out, "const int64_t first = first_row, last = last_row;\n");
  for (uint32_t j = t->ms; j-- > 0;) {
    const char *extent = emit_int(&w->e, loop->extents[t->m[j]]);
    buffer_printf(out,
                  "%sint64_t first_%u = first, last_%u = last;\n"
                  "(void)first_%u, (void)last_%u;\n",
                  j ? "" : "const ", t->m[j], t->m[j], t->m[j], t->m[j]);
    if (j)
      buffer_printf(out,
                    "first /= %s;\nlast /= %s;\n"
                    "first_%u = first == last ? first_%u %% %s : 0;\n"
                    "last_%u = first == last ? last_%u %% %s : %s - 1;\n",
                    extent, extent, t->m[j], t->m[j], extent, t->m[j], t->m[j],
                    extent, extent);
  }
}

/* Where floats compare as indices do for small enough sizes alone, of which
 * numbers have been looked at (limit.c), what follows is for these; for others
 * no tile is whole. */
static void put_holds(CudaWriter *w, Buffer *out, const Limit *limit,
                      bool inside) {
  if (!limit->exact || size_is_number(w->k->graph, limit->most))
    return;
  const char *most = emit_int(&w->e, limit->most);
  const char *exact = emit_int(&w->e, limit->exact);
  if (inside)
    buffer_printf(out, "if (%s >= %s)\nwhole_high = 0;\nelse\n", most, exact);
  else
    buffer_printf(out, "if (%s < %s)\n", most, exact);
}

/* The bound that none of these rows goes beyond; inside: that all of them go
 * to. */
static void put_bound(CudaWriter *w, Buffer *out, const CudaAttend *t,
                      const Limit *limit, bool inside) {
  Emitter *e = &w->e;
  const char *near = inside ? "last" : "first",
             *far = inside ? "first" : "last";
  const char *to = inside ? "whole_" : "";
  uint64_t rows = 0;
  for (uint32_t j = 0; j < t->ms; j++)
    rows |= (uint64_t)1 << t->m[j];
  buffer_printf(out, "{\nconst int64_t of = (int64_t)%s",
                emit_int(e, limit->of.constant));
  for (uint32_t v = 0; v < w->k->outer; v++) {
    int64_t times = limit->of.times[v];
    if (!times)
      continue;
    buffer_printf(out, " + (int64_t)%s * ", emit_int(e, times));
    if (rows >> v & 1)
      buffer_printf(out, "%s_%u", limit->least == (times > 0) ? near : far, v);
    else
      buffer_printf(out, "(int64_t)i%u", v);
  }
  const char *by = emit_int(e, limit->by);
  buffer_printf(
      out, ";\nconst int64_t at = of / %s - (of %% %s < 0 ? 1 : 0);\n", by, by);
  put_holds(w, out, limit, inside);
  if (limit->least)
    buffer_printf(out,
                  "%slow = at > %slow ? (int)(at < terms ? at : terms) : "
                  "%slow;\n}\n",
                  to, to, to);
  else
    buffer_printf(out,
                  "%shigh = at < %shigh ? (int)(at < -1 ? 0 : at + 1) : "
                  "%shigh;\n}\n",
                  to, to, to);
}

static void put_bounds(CudaWriter *w, Buffer *out, bool inside) {
  const CudaAttend *t = w->s->attend;
  put_ranges(w, out, t);
  for (uint32_t j = 0; j < t->limited->limits.len; j++)
    if (t->limits >> j & 1)
      put_bound(w, out, t, &t->limited->limits.at[j], inside);
}

static void put_inside(void *owner, Buffer *out, const char *first,
                       const char *last) {
  (void)first, (void)last;
  put_bounds(owner, out, true);
}

static void put_limits(void *owner, Buffer *out, const char *first,
                       const char *last) {
  CudaWriter *w = owner;
  const CudaAttend *t = w->s->attend;
  const Loop *finite = t->finite;
  Quasi at = {.constant = 0};
  int64_t size = 1;
  (void)first, (void)last;
  for (uint32_t v = finite->outer; v-- > 0;) {
    at.times[v] = finite->extents[v] == 1 ? 0 : size;
    size = emit_times(&w->e, size, finite->extents[v]);
  }
  buffer_puts(out, "if (!odd[0");
  for (uint32_t v = 0; v < finite->outer; v++)
    if (at.times[v])
      buffer_printf(out, " + i%u * (int64_t)%s", v,
                    emit_int(&w->e, at.times[v]));
  buffer_puts(out, "]) {\n");
  put_bounds(w, out, false);
  buffer_puts(out, "}\n");
}

/* Were limits wrong in a row? */
static void put_wrong(void *owner, Buffer *out, const char *most,
                      const char *total, const char *to) {
  CudaWriter *w = owner;
  const Loop *guard = w->s->attend->limited->guard;
  cuda_put_steps(w, out, guard, given_all(w, guard, NULL, most, total));
  for (uint32_t j = 0; j < guard->results.len; j++)
    buffer_printf(out, "%s |= (bool)(%s);\n", to,
                  emit_scalar(&w->e, guard->results.at[j].step));
}

/* ---- the whole ---- */

static int64_t count_of(CudaWriter *w, uint32_t count, const uint32_t *axes) {
  int64_t all = 1;
  for (uint32_t j = 0; j < count; j++)
    all = emit_times(&w->e, all, w->k->loops.at[0]->extents[axes[j]]);
  return all;
}

static const char *map_of(CudaWriter *w, const CudaAttend *t, uint32_t which) {
  CudaMap map = t->map[which];
  uint32_t box[2];
  AttentionParts p;
  attention_schedules(&t->shape, &t->s, &p);
  map.pointer = w->out->outs.len + t->copy[which]->input;
  if (which == ATTEND_A)
    gemm_box(&p.first_shape, &p.first, false, box, &map.swizzle);
  else
    gemm_box(&p.second_shape, &p.second, which == ATTEND_V, box, &map.swizzle);
  map.box[0] = box[0];
  map.box[1] = box[1];
  return cuda_add_map(w, &map);
}

static void give_maps(CudaWriter *w, const CudaAttend *t, AttentionText *g) {
  if (t->s.copy != BY_ENGINE)
    return;
  g->a.map = map_of(w, t, ATTEND_A);
  g->b.map = map_of(w, t, ATTEND_B);
  g->v.map = map_of(w, t, ATTEND_V);
}

static void give_limits(CudaWriter *w, const CudaAttend *t, AttentionText *g) {
  if (!t->limited)
    return;
  /* what the pass before this one has left (emit.c) */
  buffer_printf(&w->head,
                "const bool *const odd = (const bool *)(scratch + %s);\n",
                emit_int(&w->e, w->locals[w->k->loops.len][0].at));
  g->limits = put_limits;
  g->inside = put_inside;
  if (t->shape.again)
    g->wrong = put_wrong;
}

void cuda_put_attend(CudaWriter *w, Buffer *before) {
  const CudaAttend *t = w->s->attend;
  const Kernel *k = w->k;
  const Loop *first = k->loops.at[0], *last = k->loops.at[t->between.last];
  const CudaAxes batch = {t->batches, t->batch}, m = {t->ms, t->m};
  const CudaAxes terms = {t->ks, t->k}, e = {t->es, t->e};
  const Step *a = t->copy[ATTEND_A], *b = t->copy[ATTEND_B];
  const Step *v = t->copy[ATTEND_V];
  AttentionText g = {.shape = &t->shape,
                     .schedule = &t->s,
                     .name = w->pass->name,
                     .batch = group_of(w, first, batch, a, NULL),
                     .m = group_of(w, first, m, a, NULL),
                     .k = group_of(w, first, terms, a, NULL),
                     .inner = group_of(w, first, batch, b, v),
                     .n = term_group(w, t),
                     .terms = group_of(w, first, terms, b, NULL),
                     .e = group_of(w, last, e, NULL, v),
                     .a = operand_of(w, a, put_value_a),
                     .b = operand_of(w, b, put_value_b),
                     .v = operand_of(w, v, put_value_v),
                     .score = put_score,
                     .anywhere = is_anywhere(t),
                     .epilogue = put_epilogue,
                     .owner = w};
  const CudaAxes axes[] = {batch, m, e};
  g.plain = t->divisors || t->unit ? put_plain : NULL;
  g.unit = t->unit ? put_unit : NULL;
  const GemmSide sides[] = {t->shape.a, t->shape.b, t->shape.v};
  w->out->lines |= cuda_wants_lines(sides, 3, t->shape.store_align);
  g.results = cuda_give_results(w, axes, g.result);
  give_limits(w, t, &g);
  give_maps(w, t, &g);
  int64_t rows = count_of(w, t->ms, t->m);
  int64_t heads = count_of(w, t->batches, t->batch);
  w->pass->blocks = emit_times(&w->e, emit_over(&w->e, rows, t->s.m), heads);
  cuda_note_narrow(w, rows);
  cuda_note_narrow(w, heads);
  cuda_note_narrow(w, first->extents[k->outer]);
  cuda_note_narrow(w, w->pass->blocks);
  w->pass->shared = attention_shared(&t->shape, &t->s);
  attention_put(before, &w->body, &g);
}
