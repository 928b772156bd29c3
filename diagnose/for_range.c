/* Explains why the range of a `for` index cannot be inferred, and suggests one.
   The rules are in typecheck/for_loop.c.  Main entry point: diagnose_range. */
#include "diagnose/internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/source.h"

#include <string.h>

typedef enum RangeFailure {
  RANGE_NO_ACCESS, /* it indexes nothing */
  RANGE_GUARDED,   /* all accesses are under conditions on indices */
  RANGE_SHARED,    /* each access also has another index without range */
  RANGE_UNBOUNDED, /* no access bounds it, for example i * i */
} RangeFailure;

typedef struct IndexRangeFailure { /* failure of one index */
  RangeFailure reason;
  const IndexAccess *access; /* access that could have determined it, or NULL */
  const char *range;         /* the correct range, or NULL */
} IndexRangeFailure;

typedef struct RangeDiagnostic { /* a `for` in a message */
  Checker *c;
  const ForScope *scope;
  const Expr *expr;
  uint32_t first_access;       /* first access in its body */
  IndexRangeFailure *failures; /* one per index without range */
} RangeDiagnostic;

/* ---- what an access says ---- */

typedef struct OtherIndexSearch {
  const DimVar *but;
  bool found;
} OtherIndexSearch;

static void note_other_index(void *arg, DimVar *v) {
  OtherIndexSearch *o = arg;
  o->found |= v->kind == DV_INDEX && v != o->but && !index_range_of(v);
}

static RangeFailure range_failure_of(const IndexAccess *a, Dim *index_expr,
                                     const DimVar *v) {
  if (a->guarded)
    return RANGE_GUARDED;
  OtherIndexSearch o = {.but = v};
  dim_each_var(index_expr, note_other_index, NULL, &o);
  return o.found ? RANGE_SHARED : RANGE_UNBOUNDED;
}

static bool span_within(Span inner, Span outer) {
  return inner.file == outer.file && inner.start >= outer.start &&
         inner.end <= outer.end;
}

/* True if it is a name from outside of the `for`, or a field of one. */
static bool known_outside(const Expr *base, const Expr *loop) {
  while (base->kind == EX_FIELD)
    base = base->arg[0];
  return base->kind == EX_ID && base->binding &&
         !span_within(base->binding->span, loop->span);
}

/* The size of the axis as a range, for accesses such as x.[i] and x.[i - 1]: it
   keeps i in bounds where a range can. */
static const char *range_from_axis(const RangeDiagnostic *u,
                                   const IndexAccess *a, Dim *index_expr,
                                   DimVar *v) {
  Checker *c = u->c;
  Dim *slope, *rest;
  int64_t n, offset;
  if (a->side || !a->expr ||
      !dim_split_linear(c->dims, index_expr, v, &slope, &rest) ||
      !dim_is_int(slope, &n) || n != 1 || !dim_is_int(rest, &offset) ||
      offset > 0 || !known_outside(a->expr->arg[0], u->expr))
    return NULL;
  const char *base = error_expr_path(c, a->expr->arg[0]);
  return base ? arena_printf(c->arena, "dim %d %s", a->axis_number, base)
              : NULL;
}

/* If an index moves along two axes that are not known to be equal, the user has
   to choose. */
static IndexRangeFailure index_failure_of(const RangeDiagnostic *u, DimVar *v) {
  Checker *c = u->c;
  IndexRangeFailure why = {RANGE_NO_ACCESS, NULL, NULL};
  const IndexAccess *told = NULL; /* the access whose axis is the range */
  for (uint32_t i = u->first_access; i < c->loops.accesses.len; i++) {
    const IndexAccess *a = &c->loops.accesses.at[i];
    Dim *index_expr = dim_resolve(c->dims, a->index_expr);
    if (!a->axis_size || !dim_mentions(c->dims, index_expr, v))
      continue;
    const char *range = range_from_axis(u, a, index_expr, v);
    if (!why.access || (range && !told)) {
      why.access = a;
      why.reason = range_failure_of(a, index_expr, v);
    }
    if (!range)
      continue;
    bool same = !told || dim_equal(dim_resolve(c->dims, told->axis_size),
                                   dim_resolve(c->dims, a->axis_size));
    why.range = !same ? NULL : told ? why.range : range;
    told = a;
  }
  return why;
}

/* ---- the message ---- */

/* "`i`, `j` and `k`" */
static const char *names_of(const RangeDiagnostic *u, uint32_t count) {
  Buffer text = {.arena = u->c->arena};
  uint32_t said = 0;
  for (uint32_t i = 0; i < u->scope->count; i++)
    if (!u->scope->ranges[i]) {
      said++;
      buffer_printf(&text, "%s`%s`",
                    said == 1       ? ""
                    : said == count ? " and "
                                    : ", ",
                    u->expr->binders[i].id->text);
    }
  return text.text;
}

static const char *range_failure_text(RangeFailure reason) {
  switch (reason) {
  case RANGE_NO_ACCESS:
    return "it does not index any axis";
  case RANGE_GUARDED:
    return "this access depends on a condition on an index: it does not give a "
           "range";
  case RANGE_SHARED:
    return "this access has more than one index without a range";
  case RANGE_UNBOUNDED:
    return "this access does not bound the index";
  }
  return NULL;
}

static void label_failures(const RangeDiagnostic *u, Diag *d) {
  const Expr *marked = NULL;
  for (uint32_t i = 0; i < u->scope->count; i++) {
    const IndexRangeFailure *w = &u->failures[i];
    Span span = u->expr->binders[i].span;
    if (u->scope->ranges[i])
      continue;
    if (!w->access && span.start == d->span.start)
      d->primary_label = range_failure_text(w->reason);
    else if (!w->access)
      diag_add_label(u->c->arena, d, span, range_failure_text(w->reason));
    else if (w->access->expr != marked)
      diag_add_label(u->c->arena, d, w->access->expr->span,
                     range_failure_text(w->reason));
    marked = w->access ? w->access->expr : marked;
  }
}

/* The range to write; NULL if the other ranges determine it. */
static const char *suggested_range(const RangeDiagnostic *u, uint32_t i,
                                   uint32_t *unknown) {
  static const char *const some[] = {"n", "m", "k", "p"};
  const IndexRangeFailure *w = &u->failures[i];
  if (u->scope->ranges[i])
    return NULL;
  if (w->range)
    return w->range;
  /* true if an index of the same access is inferred later */
  bool inferred_later = false;
  for (uint32_t j = i + 1; j < u->scope->count; j++)
    inferred_later |=
        !u->scope->ranges[j] && u->failures[j].access == w->access;
  if (w->reason == RANGE_SHARED && !inferred_later && *unknown)
    return NULL;
  return some[(*unknown)++ % ARRAY_LEN(some)];
}

static DiagEdit range_edit(const RangeDiagnostic *u, uint32_t i,
                           const char *range) {
  Checker *c = u->c;
  Span at = u->expr->binders[i].span;
  const Source *source = sources_get(c->sources, at.file);
  const char *next = source ? source->text + at.end : "";
  next += strspn(next, " \t\r\n");
  at.start = at.end;
  bool last = i + 1 == u->scope->count;
  return (DiagEdit){at, arena_printf(c->arena, " < %s%s", range,
                                     last || *next == ',' ? "" : ",")};
}

/* Suggests ranges; with a fix-it if all are known. */
static void suggest_ranges(const RangeDiagnostic *u, Diag *d) {
  Checker *c = u->c;
  Buffer text = {.arena = c->arena};
  DiagEdit *edits = NEW_ARRAY(c->arena, DiagEdit, u->scope->count);
  uint32_t unknown = 0, count = 0;
  for (uint32_t i = 0; i < u->scope->count; i++) {
    const Binder *b = &u->expr->binders[i];
    const char *range = suggested_range(u, i, &unknown);
    if (range)
      edits[count++] = range_edit(u, i, range);
    else if (b->range)
      range = error_source_text(c, b->range->span);
    buffer_printf(&text, "%s%s", i ? " " : "", b->id->text);
    if (range)
      buffer_printf(&text, " < %s", range);
    if (range && i + 1 < u->scope->count)
      buffer_puts(&text, ",");
  }
  d->help = arena_printf(c->arena, "write: for %s => ...", text.text);
  if (!unknown)
    diag_add_fixit_edits(c->arena, d, edits, count, "write `for %s`",
                         text.text);
}

void diagnose_range(Checker *c, const ForScope *l, const Expr *e,
                    uint32_t from) {
  RangeDiagnostic u = {.c = c, .scope = l, .expr = e, .first_access = from};
  uint32_t count = 0, first = 0;
  u.failures = NEW_ARRAY(c->arena, IndexRangeFailure, l->count);
  for (uint32_t i = 0; i < l->count; i++) {
    if (l->ranges[i])
      continue;
    u.failures[i] = index_failure_of(&u, l->indices[i]);
    first = count++ ? first : i;
  }
  if (!count)
    return;
  Diag *d = error_at(c, 352, e->binders[first].span,
                     "the range%s of %s cannot be inferred",
                     count == 1 ? "" : "s", names_of(&u, count));
  label_failures(&u, d);
  suggest_ranges(&u, d);
}
