/* The function that is asked for: `f`, or `f : type`, which settles what its
 * own type leaves open. */
#include "session/trace.h"
#include "session/internal.h"

#include <string.h>

/* From `at` to `end` of the wrapper stands what is asked for at `span`; of
 * copied text each byte. */
typedef struct Piece {
  size_t at, end;
  Span span;
  bool copied;
} Piece;

typedef struct Wrapping {
  Session *s;
  const char *asked, *name;
  Span name_span;
  uint32_t file, own_file; /* of what is asked for, and of the wrapper */
  Buffer text;
  VEC(Piece) pieces;
} Wrapping;

static void add_piece(Wrapping *w, size_t at, Span span, bool copied) {
  VEC_PUSH(w->s->arena, w->pieces, ((Piece){at, w->text.len, span, copied}));
}

static void add_span(Wrapping *w, Span span) {
  size_t at = w->text.len;
  buffer_add(&w->text, w->asked + span.start, span.end - span.start);
  add_piece(w, at, span, true);
}

/* One of the parameters, or, without its type, of what is passed on. */
static void add_param(Wrapping *w, const TypeExpr *t, uint32_t i, bool typed) {
  size_t at = w->text.len;
  buffer_putc(&w->text, ' ');
  if (t->label)
    buffer_printf(&w->text, "~%s:", t->label->text);
  buffer_printf(&w->text, typed ? "(arg%u : " : "arg%u", i + 1);
  if (typed) {
    add_span(w, t->arg[0]->span);
    buffer_putc(&w->text, ')');
  }
  add_piece(w, at, t->arg[0]->span, false);
}

/* `nn.linear` is linear' there. */
static const char *own_name(const Wrapping *w) {
  const char *dot = strrchr(w->name, '.');
  return arena_printf(w->s->arena, "%s'", dot ? dot + 1 : w->name);
}

/* `fun f' (x : f32[n, k]) (y : f32[k, m]) = f x y`: then all that is said of
 * the parameters is a name that stands for any size. */
static bool wrap(Wrapping *w, uint32_t start) {
  Session *s = w->s;
  uint32_t i = 0;
  const TypeExpr *type = parse_type(&s->sources, w->file, start, NULL,
                                    s->interner, s->arena, &s->diags);
  if (!type || type->kind != TX_FUN) {
    if (type)
      session_error(s, 610, type->span, "--entry wants a function's type, as "
                                        "in 'f : f32[n] -> _'");
    return false;
  }
  buffer_printf(&w->text, "fun %s", own_name(w));
  add_piece(w, 0, w->name_span, false);
  const TypeExpr *t = type;
  for (; t->kind == TX_FUN; t = t->arg[1], i++)
    add_param(w, t, i, true);
  if (t->kind != TX_HOLE) {
    buffer_puts(&w->text, " : ");
    add_span(w, t->span);
  }
  add_span(w, (Span){w->file, type->span.end, (uint32_t)strlen(w->asked)});
  buffer_printf(&w->text, " = %s", w->name);
  for (t = type, i = 0; t->kind == TX_FUN; t = t->arg[1], i++)
    add_param(w, t, i, false);
  return true;
}

/* ---- what is wrong is told where it was asked for ---- */

static Span asked_at(const Wrapping *w, Span span) {
  if (span.file != w->own_file)
    return span;
  for (uint32_t k = 0; k < w->pieces.len; k++) {
    const Piece *p = &w->pieces.at[k];
    if (span.start < p->at || span.end > p->end)
      continue;
    if (!p->copied)
      return p->span;
    uint32_t from = p->span.start + (uint32_t)(span.start - p->at);
    return (Span){w->file, from, from + (span.end - span.start)};
  }
  return (Span){w->file, 0, (uint32_t)strlen(w->asked)};
}

static void tell_of_asked(const Wrapping *w, uint32_t first) {
  Session *s = w->s;
  for (uint32_t i = first; i < s->diags.all.len; i++) {
    Diag *d = s->diags.all.at[i];
    DiagStep *steps = NEW_ARRAY(s->arena, DiagStep, d->step_count + 1);
    DiagMark *marks = NEW_ARRAY(s->arena, DiagMark, d->mark_count + 1);
    for (uint32_t k = 0; k < d->step_count; k++) {
      steps[k] = d->steps[k];
      steps[k].span = asked_at(w, steps[k].span);
    }
    for (uint32_t k = 0; k < d->mark_count; k++) {
      marks[k] = d->marks[k];
      marks[k].span = asked_at(w, marks[k].span);
    }
    d->span = asked_at(w, d->span);
    d->steps = steps;
    d->marks = marks;
    d->fix_count = 0; /* of a text that is none of the program's */
  }
}

/* ---- both ---- */

static Binding *find(Session *s, const char *name) {
  return checker_find(s->checker, s->module, name);
}

static bool read_wrapper(Wrapping *w, Binding *of, EntryPoint *out) {
  Session *s = w->s;
  uint32_t before = s->diags.all.len;
  SessionText source = {.name = "--entry", .text = w->text.text,
                        .len = w->text.len};
  w->own_file = session_add_text(s, &source, (Span){0});
  bool good = session_check_source(s, w->own_file, s->module, false, false) &&
              checker_entry(s->checker, find(s, own_name(w)), of, w->name,
                            &s->diags, out);
  tell_of_asked(w, before);
  return good;
}

bool session_asked(Session *s, const char *entry, EntryPoint *out) {
  const char *colon = strchr(entry, ':');
  size_t len = colon ? (size_t)(colon - entry) : strlen(entry);
  const char *start = entry;
  while (len && *start == ' ')
    start++, len--;
  while (len && start[len - 1] == ' ')
    len--;
  const char *name = arena_text(s->arena, start, len);
  Binding *b = find(s, name);
  if (!b) {
    if (len)
      session_error(s, 610, (Span){0}, "there is no function `%s` to compile",
                    name);
    else
      session_error(s, 610, (Span){0},
                    "--entry wants a function, as in --entry f or --entry "
                    "'f : f32[n] -> _'");
    return false;
  }
  if (!colon)
    return checker_entry(s->checker, b, b, name, &s->diags, out);
  SessionText source = {.name = "--entry", .text = entry,
                        .len = strlen(entry)};
  Wrapping w = {.s = s, .asked = entry, .name = name,
                .text = {.arena = s->arena}};
  w.file = session_add_text(s, &source, (Span){0});
  w.name_span.file = w.file;
  w.name_span.start = (uint32_t)(start - entry);
  w.name_span.end = w.name_span.start + (uint32_t)len;
  return w.file && wrap(&w, (uint32_t)(colon - entry) + 1) &&
         read_wrapper(&w, b, out);
}
