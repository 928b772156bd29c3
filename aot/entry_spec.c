/* Entry specifications: `f`, or `f : type`, which instantiates the type of
 * f. */
#include "aot/trace.h"
#include "session/state.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/intern.h"

#include <string.h>

/* Maps the range `start` .. `end` of the wrapper to a span of the
 * specification.  is_verbatim: maps each byte separately. */
typedef struct SourceMapEntry {
  size_t start, end;
  Span span;
  bool is_verbatim;
} SourceMapEntry;

typedef struct EntryWrapper {
  Session *session;
  const char *spec, *name;
  Span name_span;
  /* Of the specification, and of the wrapper. */
  uint32_t spec_file, wrapper_file;
  Buffer text;
  VEC(SourceMapEntry) source_map;
} EntryWrapper;

static void add_mapping(EntryWrapper *w, size_t at, Span span,
                        bool is_verbatim) {
  VEC_PUSH(w->session->arena, w->source_map,
           ((SourceMapEntry){at, w->text.len, span, is_verbatim}));
}

static void copy_span(EntryWrapper *w, Span span) {
  size_t at = w->text.len;
  buffer_add(&w->text, w->spec + span.start, span.end - span.start);
  add_mapping(w, at, span, true);
}

/* Adds a parameter, or without its type, an argument of the call. */
static void add_param(EntryWrapper *w, const TypeExpr *t, uint32_t i,
                      bool with_type) {
  size_t at = w->text.len;
  buffer_putc(&w->text, ' ');
  if (t->label)
    buffer_printf(&w->text, "~%s:", t->label->text);
  buffer_printf(&w->text, with_type ? "(arg%u : " : "arg%u", i + 1);
  if (with_type) {
    copy_span(w, t->arg[0]->span);
    buffer_putc(&w->text, ')');
  }
  add_mapping(w, at, t->arg[0]->span, false);
}

/* The name of the wrapper: linear' for `nn.linear`. */
static const char *wrapper_name(const EntryWrapper *w) {
  const char *dot = strrchr(w->name, '.');
  return arena_printf(w->session->arena, "%s'", dot ? dot + 1 : w->name);
}

/* Writes `fun f' (x : f32[n, k]) (y : f32[k, m]) = f x y`.  Then size variables
 * of the type are arbitrary sizes. */
static bool write_wrapper(EntryWrapper *w, uint32_t start) {
  Session *s = w->session;
  uint32_t i = 0;
  const TypeExpr *type = parse_type(&s->sources, w->spec_file, start, NULL,
                                    s->interner, s->arena, &s->diags);
  if (!type || type->kind != TX_FUN) {
    if (type)
      session_error(s, 610, type->span,
                    "--entry needs a function type, as in 'f : f32[n] -> _'");
    return false;
  }
  buffer_printf(&w->text, "fun %s", wrapper_name(w));
  add_mapping(w, 0, w->name_span, false);
  const TypeExpr *t = type;
  for (; t->kind == TX_FUN; t = t->arg[1], i++)
    add_param(w, t, i, true);
  if (t->kind != TX_HOLE) {
    buffer_puts(&w->text, " : ");
    copy_span(w, t->span);
  }
  copy_span(w, (Span){w->spec_file, type->span.end, (uint32_t)strlen(w->spec)});
  buffer_printf(&w->text, " = %s", w->name);
  for (t = type, i = 0; t->kind == TX_FUN; t = t->arg[1], i++)
    add_param(w, t, i, false);
  return true;
}

/* ---- errors are reported in the specification ---- */

static Span map_span(const EntryWrapper *w, Span span) {
  if (span.file != w->wrapper_file)
    return span;
  for (uint32_t k = 0; k < w->source_map.len; k++) {
    const SourceMapEntry *p = &w->source_map.at[k];
    if (span.start < p->start || span.end > p->end)
      continue;
    if (!p->is_verbatim)
      return p->span;
    uint32_t from = p->span.start + (uint32_t)(span.start - p->start);
    return (Span){w->spec_file, from, from + (span.end - span.start)};
  }
  return (Span){w->spec_file, 0, (uint32_t)strlen(w->spec)};
}

static void map_diags(const EntryWrapper *w, uint32_t first) {
  Session *s = w->session;
  for (uint32_t i = first; i < s->diags.all.len; i++) {
    Diag *d = s->diags.all.at[i];
    DiagStep *steps = NEW_ARRAY(s->arena, DiagStep, d->step_count + 1);
    DiagLabel *marks = NEW_ARRAY(s->arena, DiagLabel, d->label_count + 1);
    for (uint32_t k = 0; k < d->step_count; k++) {
      steps[k] = d->steps[k];
      steps[k].span = map_span(w, steps[k].span);
    }
    for (uint32_t k = 0; k < d->label_count; k++) {
      marks[k] = d->labels[k];
      marks[k].span = map_span(w, marks[k].span);
    }
    d->span = map_span(w, d->span);
    d->steps = steps;
    d->labels = marks;
    d->fixit_count = 0; /* fix-its would edit the wrapper */
  }
}

/* ---- entry ---- */

static Binding *find_binding(Session *s, const char *name) {
  return checker_find(s->checker, s->main_module, name);
}

static bool check_wrapper(EntryWrapper *w, Binding *of, EntryPoint *out) {
  Session *s = w->session;
  uint32_t before = s->diags.all.len;
  SourceInput source = {
      .name = "--entry", .text = w->text.text, .len = w->text.len};
  w->wrapper_file = session_add_source(s, &source, (Span){0});
  bool ok =
      session_check_source(s, w->wrapper_file, s->main_module, false, false) &&
      checker_entry(s->checker, find_binding(s, wrapper_name(w)), of, w->name,
                    &s->diags, out);
  map_diags(w, before);
  return ok;
}

bool entry_spec_resolve(Session *s, const char *entry, EntryPoint *out) {
  const char *colon = strchr(entry, ':');
  size_t len = colon ? (size_t)(colon - entry) : strlen(entry);
  const char *start = entry;
  while (len && *start == ' ')
    start++, len--;
  while (len && start[len - 1] == ' ')
    len--;
  const char *name = arena_strndup(s->arena, start, len);
  Binding *b = find_binding(s, name);
  if (!b) {
    if (len)
      session_error(s, 610, (Span){0}, "there is no function `%s` to compile",
                    name);
    else
      session_error(s, 610, (Span){0},
                    "--entry needs a function, as in --entry f or --entry 'f : "
                    "f32[n] -> _'");
    return false;
  }
  if (!colon)
    return checker_entry(s->checker, b, b, name, &s->diags, out);
  SourceInput source = {.name = "--entry", .text = entry, .len = strlen(entry)};
  EntryWrapper w = {
      .session = s, .spec = entry, .name = name, .text = {.arena = s->arena}};
  w.spec_file = session_add_source(s, &source, (Span){0});
  w.name_span.file = w.spec_file;
  w.name_span.start = (uint32_t)(start - entry);
  w.name_span.end = w.name_span.start + (uint32_t)len;
  return w.spec_file && write_wrapper(&w, (uint32_t)(colon - entry) + 1) &&
         check_wrapper(&w, b, out);
}
