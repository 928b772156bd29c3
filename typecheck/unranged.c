/* Why the range of an index cannot be inferred (the rules are in loops.c), and
 * which one to write. */
#include "errors.h"

#include <string.h>

typedef enum Reason {
  RE_NONE,    /* nothing is indexed by it */
  RE_GUARDED, /* only under a condition on indices */
  RE_SHARED,  /* only together with another that has no range */
  RE_OTHER,   /* in a way that bounds nothing, as i * i */
} Reason;

typedef struct Why { /* of one index */
  Reason reason;
  const Access *access; /* that could have told, or NULL */
  const char *range;    /* that is right; or NULL */
} Why;

typedef struct Unwritten { /* a `for`, for its message */
  Checker *c;
  const Loop *loop;
  const Expr *expr;
  uint32_t from; /* of its accesses */
  Why *why;      /* of each index that has no range */
} Unwritten;

/* ---- what an access says ---- */

typedef struct Other {
  const DimVar *but;
  bool found;
} Other;

static void find_other(void *arg, DimVar *v) {
  Other *o = arg;
  o->found |= v->kind == DV_INDEX && v != o->but && !index_range_of(v);
}

static Reason reason_of(const Access *a, Dim *term, const DimVar *v) {
  if (a->guarded)
    return RE_GUARDED;
  Other o = {.but = v};
  dim_each_var(term, find_other, NULL, &o);
  return o.found ? RE_SHARED : RE_OTHER;
}

static bool within(Span inner, Span outer) {
  return inner.file == outer.file && inner.start >= outer.start &&
         inner.end <= outer.end;
}

/* Is this a name of outside the `for`, or a field of one? */
static bool known_outside(const Expr *base, const Expr *loop) {
  while (base->kind == EX_FIELD)
    base = base->arg[0];
  return base->kind == EX_ID && base->means &&
         !within(base->means->span, loop->span);
}

/* Of x.[i] and x.[i - 1] the size of that axis keeps i in bounds, as far as a
 * range can. */
static const char *range_by(const Unwritten *u, const Access *a, Dim *term,
                            DimVar *v) {
  Checker *c = u->c;
  Dim *slope, *rest;
  int64_t n, offset;
  if (a->side || !a->expr || !dim_linear(c->dims, term, v, &slope, &rest) ||
      !dim_is_int(slope, &n) || n != 1 || !dim_is_int(rest, &offset) ||
      offset > 0 || !known_outside(a->expr->arg[0], u->expr))
    return NULL;
  const char *base = error_path_text(c, a->expr->arg[0]);
  return base ? arena_printf(c->arena, "dim %d %s", a->number, base) : NULL;
}

/* Two axes that an index moves along and that are not known to be equal leave
 * it to the user which of them it is. */
static Why why_of(const Unwritten *u, DimVar *v) {
  Checker *c = u->c;
  Why why = {RE_NONE, NULL, NULL};
  const Access *told = NULL; /* whose axis is the range */
  for (uint32_t i = u->from; i < c->accesses.len; i++) {
    const Access *a = &c->accesses.at[i];
    Dim *term = dim_resolve(c->dims, a->term);
    if (!a->axis || !dim_mentions(c->dims, term, v))
      continue;
    const char *range = range_by(u, a, term, v);
    if (!why.access || (range && !told)) {
      why.access = a;
      why.reason = reason_of(a, term, v);
    }
    if (!range)
      continue;
    bool same = !told || dim_equal(dim_resolve(c->dims, told->axis),
                                   dim_resolve(c->dims, a->axis));
    why.range = !same ? NULL : told ? why.range : range;
    told = a;
  }
  return why;
}

/* ---- the message ---- */

/* "`i`, `j` and `k`" */
static const char *names_of(const Unwritten *u, uint32_t count) {
  Buffer text = {.arena = u->c->arena};
  uint32_t said = 0;
  for (uint32_t i = 0; i < u->loop->count; i++)
    if (!u->loop->range[i]) {
      said++;
      buffer_printf(&text, "%s`%s`",
                    said == 1       ? ""
                    : said == count ? " and "
                                    : ", ",
                    u->expr->binders[i].id->text);
    }
  return text.text;
}

static const char *reason_text(Reason reason) {
  switch (reason) {
  case RE_NONE: return "no axis is indexed by it";
  case RE_GUARDED:
    return "stands under a condition on an index, and so says nothing";
  case RE_SHARED: return "has more than one index without a range";
  case RE_OTHER: return "does not tell how far it may go";
  }
  return NULL;
}

static void say_why(const Unwritten *u, Diag *d) {
  const Expr *marked = NULL;
  for (uint32_t i = 0; i < u->loop->count; i++) {
    const Why *w = &u->why[i];
    Span span = u->expr->binders[i].span;
    if (u->loop->range[i])
      continue;
    if (!w->access && span.start == d->span.start)
      d->label = reason_text(w->reason);
    else if (!w->access)
      diag_mark(u->c->arena, d, span, reason_text(w->reason));
    else if (w->access->expr != marked)
      diag_mark(u->c->arena, d, w->access->expr->span, reason_text(w->reason));
    marked = w->access ? w->access->expr : marked;
  }
}

/* The range to be written; NULL: it follows from that of the others. */
static const char *range_to_write(const Unwritten *u, uint32_t i,
                                  uint32_t *unknown) {
  static const char *const some[] = {"n", "m", "k", "p"};
  const Why *w = &u->why[i];
  if (u->loop->range[i])
    return NULL;
  if (w->range)
    return w->range;
  bool later = false; /* does one share the access and come later? */
  for (uint32_t j = i + 1; j < u->loop->count; j++)
    later |= !u->loop->range[j] && u->why[j].access == w->access;
  if (w->reason == RE_SHARED && !later && *unknown)
    return NULL;
  return some[(*unknown)++ % ARRAY_LEN(some)];
}

static DiagEdit range_edit(const Unwritten *u, uint32_t i, const char *range) {
  Checker *c = u->c;
  Span at = u->expr->binders[i].span;
  const Source *source = sources_get(c->sources, at.file);
  const char *next = source ? source->text + at.end : "";
  next += strspn(next, " \t\r\n");
  at.start = at.end;
  bool last = i + 1 == u->loop->count;
  return (DiagEdit){at, arena_printf(c->arena, " < %s%s", range,
                                     last || *next == ',' ? "" : ",")};
}

/* What to write, as a fix where all of it is known. */
static void say_ranges(const Unwritten *u, Diag *d) {
  Checker *c = u->c;
  Buffer text = {.arena = c->arena};
  DiagEdit *edits = NEW_ARRAY(c->arena, DiagEdit, u->loop->count);
  uint32_t unknown = 0, count = 0;
  for (uint32_t i = 0; i < u->loop->count; i++) {
    const Binder *b = &u->expr->binders[i];
    const char *range = range_to_write(u, i, &unknown);
    if (range)
      edits[count++] = range_edit(u, i, range);
    else if (b->range)
      range = error_written(c, b->range->span);
    buffer_printf(&text, "%s%s", i ? " " : "", b->id->text);
    if (range)
      buffer_printf(&text, " < %s", range);
    if (range && i + 1 < u->loop->count)
      buffer_puts(&text, ",");
  }
  d->help = arena_printf(c->arena, "write for %s => ...", text.text);
  if (!unknown)
    diag_fix_edits(c->arena, d, edits, count, "write `for %s`", text.text);
}

void unranged_error(Checker *c, const Loop *l, const Expr *e, uint32_t from) {
  Unwritten u = {.c = c, .loop = l, .expr = e, .from = from};
  uint32_t count = 0, first = 0;
  u.why = NEW_ARRAY(c->arena, Why, l->count);
  for (uint32_t i = 0; i < l->count; i++) {
    if (l->range[i])
      continue;
    u.why[i] = why_of(&u, l->index[i]);
    first = count++ ? first : i;
  }
  if (!count)
    return;
  Diag *d = error_at(c, 352, e->binders[first].span,
                     "the range%s of %s cannot be inferred",
                     count == 1 ? "" : "s", names_of(&u, count));
  say_why(&u, d);
  say_ranges(&u, d);
}
