/* Choices between an element and something else, where the condition says that
 * the element is there: `if i >= p && i < n + p then x.[i - p] else 0`, as
 * padding writes it.  The lanes for which it holds are loaded, and nothing is
 * to be looked at. */
#include "backend/cpu/emit.h"

#include <math.h>

enum { SPAN_TERMS = 64 }; /* whose lanes are found out ahead */

#define format emit_format

static bool is_zero(const Step *s) {
  if (s->kind == STEP_INDEX)
    return s->low == 0 && s->high == 0;
  return s->kind == STEP_CONST &&
         (dtype_is_float(s->dtype) ? s->value.f == 0 && !signbit(s->value.f)
                                   : s->value.i == 0);
}

typedef struct Range {
  const Quasi *of;
  int64_t low, high; /* sizes */
} Range;

/* One part of of - x + y; false: it does not fit. */
static bool add_up(Graph *g, int64_t of, int64_t x, int64_t y, int64_t *sum) {
  return size_sub(g, of, x, sum) && size_add(g, *sum, y, sum);
}

/* x `op` y: what it says of a form that is x - y and a number. */
static void compare(const Loop *loop, const Step *c, Range *r) {
  const Step *x = &loop->steps.at[c->args[0]], *y = &loop->steps.at[c->args[1]];
  Graph *g = loop->graph;
  int64_t at, rest, strict;
  if (x->kind != STEP_INDEX || y->kind != STEP_INDEX ||
      !add_up(g, r->of->constant, x->index->constant, y->index->constant, &at))
    return;
  for (uint32_t v = 0; v < KERNEL_VARS; v++)
    if (!add_up(g, r->of->times[v], x->index->times[v], y->index->times[v],
                &rest) ||
        rest != 0)
      return;
  if ((c->op == PRIM_GE || c->op == PRIM_GT) &&
      size_add(g, at, c->op == PRIM_GT, &strict) &&
      (r->low == INT64_MIN || size_holds(g, SIZE_LE, r->low, strict)))
    r->low = strict;
  if ((c->op == PRIM_LE || c->op == PRIM_LT) &&
      size_sub(g, at, c->op == PRIM_LT, &strict) &&
      (r->high == INT64_MAX || size_holds(g, SIZE_LE, strict, r->high)))
    r->high = strict;
}

/* Recursion is as deep as a body, which the planner bounds. */
static void narrow(const Loop *loop, uint32_t condition, Range *r) {
  const Step *c = &loop->steps.at[condition];
  if (c->kind != STEP_OP || c->arg_count != 2)
    return;
  if (c->op == PRIM_AND) {
    narrow(loop, c->args[0], r);
    narrow(loop, c->args[1], r);
  } else {
    compare(loop, c, r);
  }
}

static bool is_even(const Emitter *e, const Quasi *q) {
  for (uint32_t j = 0; j < QUOTIENTS; j++)
    if (q->times[KERNEL_AXES + j] && e->lane_quotients[j])
      return false;
  return true;
}

/* Lanes next to each other, of which those that the condition holds for are
 * there. */
static bool is_there(const Emitter *e, const Step *read, uint32_t condition) {
  int64_t step = read->address->times[e->lane], part;
  Graph *g = e->k->graph;
  bool even = is_even(e, read->address);
  for (uint32_t j = 0; j < read->index_count; j++) {
    const ReadIndex *i = &read->indices[j];
    const Step *index = &e->loop->steps.at[i->step];
    if (index->kind != STEP_INDEX)
      return false;
    Range r = {index->index, index->low, index->high};
    narrow(e->loop, condition, &r);
    if (!size_holds(g, SIZE_LE, 0, r.low) ||
        !size_below(g, r.high, i->extent) ||
        !size_mul(g, index->index->times[e->lane], i->stride, &part) ||
        !size_add(g, step, part, &step))
      return false;
    even &= is_even(e, index->index);
  }
  return even && step == 1;
}

static bool is_read_once(const Loop *loop, uint32_t at) {
  uint32_t uses = 0;
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    for (uint32_t a = 0; a < s->arg_count; a++)
      uses += s->args[a] == at;
    for (uint32_t a = 0; s->kind == STEP_READ && a < s->index_count; a++)
      uses += s->indices[a].step == at;
  }
  for (uint32_t j = 0; j < loop->results.len; j++)
    uses += loop->results.at[j].step == at;
  return uses == 1;
}

bool emit_is_masked(const Emitter *e, uint32_t at) {
  const Step *s = &e->loop->steps.at[at];
  if (s->kind != STEP_SELECT || !e->varies[at])
    return false;
  const Step *read = &e->loop->steps.at[s->args[1]];
  return read->kind == STEP_READ && !read->pairs && read->dtype == s->dtype &&
         is_read_once(e->loop, s->args[1]) && is_there(e, read, s->args[0]);
}

bool emit_masked_else(const Emitter *e, uint32_t at) {
  return !is_zero(&e->loop->steps.at[e->loop->steps.at[at].args[2]]);
}

/* ---- lanes from one to another ---- */

/* Is it of sizes, and of numbers that leave room for them in 64 bits? */
static bool is_moderate(const Emitter *e, const Quasi *q) {
  const Graph *g = e->k->graph;
  bool small = g->sizes != NULL;
  for (uint32_t v = 0; v <= KERNEL_VARS && small; v++) {
    int64_t x = v < KERNEL_VARS ? q->times[v] : q->constant;
    small = !size_is_number(g, x) || (x > INT32_MIN && x < INT32_MAX);
  }
  return small;
}

/* How the lanes of what is compared go: up or down by one; 0: otherwise. */
static int lanes_compared(const Emitter *e, const Step *c) {
  const Step *x = &e->loop->steps.at[c->args[0]];
  const Step *y = &e->loop->steps.at[c->args[1]];
  if (x->kind != STEP_INDEX || y->kind != STEP_INDEX ||
      !(emit_fits_narrow(x) || is_moderate(e, x->index)) ||
      !(emit_fits_narrow(y) || is_moderate(e, y->index)) ||
      !is_even(e, x->index) || !is_even(e, y->index))
    return 0;
  int64_t step;
  bool known = size_sub(e->k->graph, x->index->times[e->lane],
                        y->index->times[e->lane], &step);
  return known && (step == 1 || step == -1) ? (int)step : 0;
}

/* Does the condition hold for lanes next to each other, and no others? */
static bool is_range(const Emitter *e, uint32_t condition) {
  const Step *c = &e->loop->steps.at[condition];
  if (!e->varies[condition])
    return true;
  if (c->kind != STEP_OP || c->arg_count != 2)
    return false;
  if (c->op == PRIM_AND)
    return is_range(e, c->args[0]) && is_range(e, c->args[1]);
  return (c->op == PRIM_GE || c->op == PRIM_GT || c->op == PRIM_LE ||
          c->op == PRIM_LT) &&
         lanes_compared(e, c);
}

bool emit_is_ranged(const Emitter *e, uint32_t at) {
  const Step *s = &e->loop->steps.at[at];
  return e->s->width > 1 && emit_is_masked(e, at) &&
         (!emit_masked_else(e, at) ||
          e->loop->steps.at[s->args[2]].kind == STEP_CONST) &&
         is_range(e, s->args[0]);
}

typedef struct Lanes { /* as C; NULL: there is no such bound */
  const char *from, *to, *when;
  uint32_t level; /* where all of it is known */
  uint64_t terms; /* axes that from and to depend on, and are summed */
  bool apart;     /* from and to are written out, not built up by level */
} Lanes;

static const char *tighter(Emitter *e, const char *x, const char *y, char op) {
  return x ? format(e, "(%s %c %s ? %s : %s)", x, op, y, x, y) : y;
}

static const char *written_out(Emitter *e, const Quasi *q) {
  const char *sum = emit_int(e, q->constant);
  for (uint32_t v = 0; v < KERNEL_AXES; v++)
    if (q->times[v])
      sum = format(e, "%s + %s * i%u", sum, emit_int(e, q->times[v]), v);
  return sum;
}

/* j times 1 or -1 is at least, or less than, a form and 0 or 1. */
static void add_bound(Emitter *e, const Step *c, Lanes *r) {
  int step = lanes_compared(e, c);
  Quasi *q = quasi_copy(e->arena, e->loop->steps.at[c->args[1]].index);
  e->failed |=
      !quasi_add(e->k->graph, q, -1, e->loop->steps.at[c->args[0]].index);
  q->times[e->lane] = 0;
  bool least = c->op == PRIM_GE || c->op == PRIM_GT;
  q->constant = emit_plus(e, q->constant, c->op == PRIM_GT || c->op == PRIM_LE);
  const char *bound = r->apart ? written_out(e, q) : emit_quasi(e, q);
  uint32_t level = r->apart ? 0 : emit_level(e, q);
  for (uint32_t v = e->loop->kept; v < KERNEL_VARS; v++)
    if (q->times[v])
      r->terms |= (uint64_t)1 << v;
  r->level = level > r->level ? level : r->level;
  if (step < 0) {
    bound = format(e, "(1 - (%s))", bound);
    least = !least;
  }
  if (least)
    r->from = tighter(e, r->from, bound, '>');
  else
    r->to = tighter(e, r->to, bound, '<');
}

/* Recursion is as deep as a body, which the planner bounds. */
static void find_lanes(Emitter *e, uint32_t condition, Lanes *r) {
  const Step *c = &e->loop->steps.at[condition];
  if (!e->varies[condition]) {
    const char *x = emit_scalar(e, condition);
    uint32_t level = e->levels[condition];
    r->level = level > r->level ? level : r->level;
    r->when = r->when ? format(e, "%s && %s", r->when, x) : x;
  } else if (c->op == PRIM_AND) {
    find_lanes(e, c->args[0], r);
    find_lanes(e, c->args[1], r);
  } else {
    add_bound(e, c, r);
  }
}

/* The bounds by name, where they are known: `from%u` and `to%u`. */
static uint32_t name_lanes(Emitter *e, const Lanes *r) {
  Buffer *b = &e->blocks[r->level];
  uint32_t name = e->names++;
  if (r->from)
    buffer_printf(b, "const int64_t first%u = %s;\n", name, r->from);
  if (r->when)
    buffer_printf(b, "const int64_t last%u = %s ? %s : 0;\n", name, r->when,
                  r->to ? r->to : "0x3fffffffffffffff");
  else if (r->to)
    buffer_printf(b, "const int64_t last%u = %s;\n", name, r->to);
  return name;
}

void emit_each_scalar(const Emitter *e, uint32_t condition, EmitStep *found,
                      void *context) {
  const Step *c = &e->loop->steps.at[condition];
  if (!e->varies[condition])
    found(context, condition);
  else if (c->op == PRIM_AND)
    for (uint32_t j = 0; j < 2; j++)
      emit_each_scalar(e, c->args[j], found, context);
}

/* The variables that the bounds of the lanes depend on. */
static uint64_t variables_of(const Emitter *e, uint32_t condition) {
  const Step *c = &e->loop->steps.at[condition];
  uint64_t all = 0;
  if (!e->varies[condition])
    return 0;
  if (c->op == PRIM_AND)
    return variables_of(e, c->args[0]) | variables_of(e, c->args[1]);
  for (uint32_t a = 0; a < 2; a++)
    for (uint32_t v = 0; v < KERNEL_VARS; v++)
      if (e->loop->steps.at[c->args[a]].index->times[v])
        all |= (uint64_t)1 << v;
  return all;
}

/* Are the lanes the same in all lines, and of few terms? */
static bool is_spanned(const Emitter *e, uint32_t condition) {
  const Loop *loop = e->loop;
  uint64_t of = variables_of(e, condition);
  int64_t all = 1;
  if (of >> KERNEL_AXES || of >> e->spans->line & 1)
    return false;
  for (uint32_t v = loop->kept; v < loop->axes; v++)
    if (v != e->lane && of >> v & 1 &&
        (!size_is_number(loop->graph, loop->extents[v]) ||
         __builtin_mul_overflow(all, loop->extents[v], &all) ||
         all > SPAN_TERMS))
      return false;
  return true;
}

/* Is it a form of the line that has no part of it in a quotient? */
static bool has_line_outright(const Emitter *e, uint32_t at) {
  const Step *s = &e->loop->steps.at[at];
  if (s->kind != STEP_INDEX)
    return false;
  for (uint32_t v = KERNEL_AXES; v < KERNEL_VARS; v++)
    if (s->index->times[v])
      return false;
  return true;
}

/* Does the condition say between which bounds the line is? */
static bool is_between(const Emitter *e, uint32_t condition) {
  const Step *c = &e->loop->steps.at[condition];
  if (e->varies[condition] && c->op != PRIM_AND)
    return true;
  if (c->kind != STEP_OP || c->arg_count != 2)
    return false;
  if (c->op == PRIM_AND)
    return is_between(e, c->args[0]) && is_between(e, c->args[1]);
  return (c->op == PRIM_GE || c->op == PRIM_GT || c->op == PRIM_LE ||
          c->op == PRIM_LT) &&
         e->levels[condition] <= e->level_of[e->spans->line] &&
         has_line_outright(e, c->args[0]) && has_line_outright(e, c->args[1]);
}

/* The lanes, as they are found out before the lines: an element of an array by
 * the terms that they depend on, and by the vector. */
static const char *span(Emitter *e, uint32_t condition) {
  Lanes r = {.apart = true};
  Buffer *out = &e->spans->text, body = {.arena = e->arena};
  uint32_t name = e->names++, opened = 0;
  long long all = 1;
  const char *place = "0";
  find_lanes(e, condition, &r);
  for (uint32_t v = e->loop->kept; v < e->loop->axes; v++) {
    if (!(r.terms >> v & 1))
      continue;
    long long extent = e->loop->extents[v];
    buffer_printf(&body, "for (int64_t i%u = 0; i%u < %lld; i%u++)\n", v, v,
                  extent, v);
    place = opened++ ? format(e, "(%s) * %lld + i%u", place, extent, v)
                     : format(e, "i%u", v);
    all *= extent;
  }
  buffer_printf(out, "span there%u[%lld][%u];\n", name, all, e->spans->vectors);
  emit_put(out, &body);
  buffer_printf(out,
                "for (int a = 0; a < %u; a++) {\n"
                "const int64_t j = start + a * W;\n"
                "there%u[%s][a] = span_of(%s, %s, end - j);\n}\n",
                e->spans->vectors, name, place,
                r.from ? format(e, "%s - j", r.from) : "0",
                r.to ? format(e, "%s - j", r.to) : "W");
  const char *x = format(e, "there%u[%s][%s]", name, place, e->spans->vector);
  if (!r.when)
    return x;
  const char **when = &e->spans->when;
  *when = *when ? format(e, "%s && %s", *when, r.when) : r.when;
  e->spans->known &= is_between(e, condition);
  return format(e, "span_if(inside || (%s), %s)", r.when, x);
}

static const char *ranged(Emitter *e, uint32_t at, const char *place) {
  const Step *s = &e->loop->steps.at[at];
  Dtype t = e->loop->steps.at[s->args[1]].dtype;
  char class = e->classes[at];
  bool narrows = class == 'i' && t == DT_I64;
  const char *name = dtype_info[t].name, *x;
  const char *other = emit_masked_else(e, at)
                          ? emit_lanes(e, s->args[2], narrows ? 'l' : class)
                          : format(e, "splat_%c(0)", narrows ? 'l' : class);
  if (e->spans && is_spanned(e, s->args[0])) {
    const char *lanes = span(e, s->args[0]);
    x = format(e, "ldm_%s(%s, %s, %s, inside)", name, place, lanes, other);
  } else {
    Lanes r = {.level = 0};
    find_lanes(e, s->args[0], &r);
    uint32_t bounds = name_lanes(e, &r);
    const char *from = r.from ? format(e, "first%u - j", bounds) : "0";
    const char *to = r.to || r.when ? format(e, "last%u - j", bounds) : "W";
    x = format(e, "ldr_%s(%s, %s, %s, REST, %s)", name, place, from, to, other);
  }
  return narrows ? format(e, "narrow(%s)", x) : x;
}

/* What is wanted at the next point is asked for. */
static void emit_fetch(Emitter *e, uint32_t input, const Quasi *q,
                       const char *place) {
  Buffer *b = &e->blocks[e->lane_level];
  int64_t far = q->times[e->fetched];
  if (far)
    buffer_printf(b, "__builtin_prefetch(p%u + %s + j + %s);\n", input, place,
                  emit_int(e, far));
}

const char *emit_masked(Emitter *e, uint32_t at) {
  const Step *s = &e->loop->steps.at[at];
  const Step *read = &e->loop->steps.at[s->args[1]];
  Quasi *at_all = quasi_copy(e->arena, read->address); /* as one form, whose
      parts are computed where they change */
  for (uint32_t j = 0; j < read->index_count; j++) {
    const ReadIndex *i = &read->indices[j];
    const Quasi *index = e->loop->steps.at[i->step].index;
    e->failed |= !quasi_add(e->k->graph, at_all, i->stride, index);
  }
  const char *place = emit_quasi(e, at_all);
  emit_fetch(e, read->input, at_all, place);
  if (emit_is_ranged(e, at))
    return ranged(e, at, format(e, "p%u + %s + j", read->input, place));
  const char *mask = emit_lanes(e, s->args[0], 'b');
  const char *x =
      format(e, "ldw_%s(p%u + %s + j, ~%s, REST)", dtype_info[read->dtype].name,
             read->input, place, mask);
  char class = e->classes[at];
  if (class == 'i' && read->dtype == DT_I64)
    x = format(e, "narrow(%s)", x);
  if (!emit_masked_else(e, at))
    return x;
  return format(e, "sel_%c(%s, %s, %s)", class, mask, x,
                emit_lanes(e, s->args[2], class));
}
