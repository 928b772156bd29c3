/* Fix-its: edits of the text that implement a help.  They are only made for the
   user's own text. */
#include "diagnose/internal.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/source.h"

#include <string.h>

static const Source *own_source(Checker *c, Span span) {
  const Source *s = span.file ? sources_get(c->sources, span.file) : NULL;
  return s && !s->is_library ? s : NULL;
}

static const char *text_of(Checker *c, Span span) {
  const Source *s = own_source(c, span);
  return s ? arena_strndup(c->arena, s->text + span.start,
                           span.end - span.start)
           : NULL;
}

static bool is_atomic_expr(const Expr *e, const char *text) {
  switch (e->kind) {
  case EX_ID:
  case EX_CON:
  case EX_STRING:
  case EX_TUPLE:
  case EX_SEQ:
  case EX_ASCRIBE:
  case EX_OP:
  case EX_BRACKET:
  case EX_RECORD:
  case EX_RECORD_UPDATE:
  case EX_LET:
  case EX_FIELD:
  case EX_INDEX:
    return true;
  case EX_NUM:
    return text[0] != '-';
  case EX_HOLE:
  case EX_LIST:
  case EX_FN:
  case EX_CASE:
  case EX_IF:
  case EX_FOR:
  case EX_BIN:
  case EX_NEG:
  case EX_APP:
  case EX_ERROR:
    break;
  }
  return e->parenthesized;
}

const char *fixit_argument_text(Checker *c, const Expr *e) {
  const char *text = text_of(c, e->span);
  return !text || is_atomic_expr(e, text)
             ? text
             : arena_printf(c->arena, "(%s)", text);
}

/* True if the argument comes from a pipe. */
static bool comes_by_pipe(const Origin *o, const Expr *e) {
  return o->kind == ORIGIN_ARG && e == o->expr && e->kind == EX_ID &&
         (o->span.start != e->span.start || o->span.end != e->span.end);
}

void fixit_apply(Checker *c, Diag *d, const Origin *o, const Expr *e,
                 const char *fun) {
  Span at = comes_by_pipe(o, e) ? o->span : e->span;
  const char *text = fixit_argument_text(c, e);
  if (!text || !own_source(c, at))
    return;
  if (comes_by_pipe(o, e)) {
    at.end = at.start;
    diag_add_fixit(c->arena, d, at, arena_printf(c->arena, "%s |> ", fun),
                   "insert `%s`", fun);
    return;
  }
  bool operand = o->kind == ORIGIN_OPERATOR;
  const char *all =
      arena_printf(c->arena, operand ? "%s %s" : "(%s %s)", fun, text);
  diag_add_fixit(c->arena, d, at, all, "write `%s %s`", fun, text);
}

void fixit_index(Checker *c, Diag *d, const Origin *o, const Expr *e,
                 const char *items) {
  const char *text = fixit_argument_text(c, e);
  if (!text || comes_by_pipe(o, e))
    return;
  const char *all = arena_printf(c->arena, "%s.[%s]", text, items);
  diag_add_fixit(c->arena, d, e->span, all, "write `%s`", all);
}

void fixit_replace(Checker *c, Diag *d, Span span, const char *text) {
  const Source *source = own_source(c, span);
  if (source && !source_drops_comment(source, span, text))
    diag_add_fixit(c->arena, d, span, text, "write `%s`", text);
}

void fixit_tuple(Checker *c, Diag *d, const Arg *args, uint32_t count) {
  Buffer text = {.arena = c->arena};
  for (uint32_t i = 0; i < count; i++) {
    Span span = args[i].expr->span;
    const char *item = text_of(c, span);
    if (!item || (i && args[i].span.start < args[i - 1].span.end))
      return;
    size_t len = strlen(item);
    bool parens = args[i].expr->kind == EX_APP && args[i].expr->parenthesized;
    buffer_printf(&text, "%s%.*s", i ? ", " : "(", (int)len - 2 * parens,
                  item + parens);
  }
  buffer_puts(&text, ")");
  d->help = arena_printf(c->arena, "write %s", text.text);
  fixit_replace(c, d, span_join(args[0].span, args[count - 1].span), text.text);
}

void fixit_labels(Checker *c, Diag *d, const Arg *args, uint32_t count,
                  uint32_t first) {
  Buffer text = {.arena = c->arena};
  for (uint32_t i = 0; i < count; i++) {
    const Arg *a = &args[i < count - first ? first + i : i - (count - first)];
    Span span = a->span;
    if (a->label_span.file && a->label_span.start < span.start)
      span.start = a->label_span.start;
    const char *item = text_of(c, span);
    if (!item || (i && args[i].span.start < args[i - 1].span.end))
      return;
    buffer_printf(&text, "%s%s", i ? " " : "", item);
  }
  fixit_replace(c, d, span_join(args[0].span, args[count - 1].span), text.text);
}

void fixit_wrap_callee(Checker *c, Diag *d, const Origin *o, const char *fun) {
  Span at = o->arg.callee->span;
  at.end = at.start;
  if (own_source(c, at))
    diag_add_fixit(c->arena, d, at, arena_printf(c->arena, "%s ", fun),
                   "write `%s %s`", fun, o->subject ? o->subject : "");
}

void fixit_swap(Checker *c, Diag *d, const Expr *a, const Expr *b) {
  const char *x = a && b ? fixit_argument_text(c, a) : NULL;
  const char *y = x ? fixit_argument_text(c, b) : NULL;
  if (!y || a->span.file != b->span.file || a->span.end > b->span.start)
    return;
  DiagEdit edits[2] = {{a->span, y}, {b->span, x}};
  diag_add_fixit_edits(c->arena, d, edits, 2, "write `%s %s`", y, x);
}
