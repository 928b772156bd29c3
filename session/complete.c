/* What can be written at a place, and what is called there: the text is
 * checked with a name of ours put there, which then knows what it sees. */
#include "lexer/lexer.h"
#include "session/internal.h"
#include "session/stdlib.h"

#include <string.h>

static const char our_name[] = "here'of'cursor";

typedef struct Probe {
  SessionText text;  /* as it is */
  uint32_t offset;   /* where something is to be written: from */
  uint32_t start;    /* here, */
  uint32_t end;      /* instead of what goes on to here; */
  uint32_t until;    /* what begins here is not looked at */
  void (*f)(void *, const Offer *);
  void *arg;
  Called *called;
  bool found;
} Probe;

static bool in_name(char c) {
  return c == '_' || c == '\'' || (c >= '0' && c <= '9') ||
         (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* ---- the probe ---- */

/* The place of our name in what was checked; or NULL. */
static const Place *our_place(Session *s) {
  uint32_t count;
  const Place *all = all_places(s, &count);
  for (uint32_t i = count; i-- > 0;)
    if (all[i].span.file == s->file && all[i].name &&
        strcmp(all[i].name->text, our_name) == 0)
      return &all[i];
  return NULL;
}

static void check_probe(Session *s, const Probe *p, const Buffer *text) {
  SessionText probe = p->text;
  probe.text = text->text;
  probe.len = text->len;
  probe.own_module = true;
  session_check(s, &probe);
}

/* Declarations behind the one at hand take no part: our name is none that they
 * know, and what uses something that failed may take long. */
static void leave_rest(const Session *s, Probe *p) {
  p->until = (uint32_t)p->text.len;
  for (uint32_t i = s->program.dec_count; i-- > 0;)
    if (s->program.decs[i]->span.start >= p->end)
      p->until = s->program.decs[i]->span.start;
}

/* With all of the declaration; or, where that does not parse, without what
 * follows. */
static void probe(Session *s, const Probe *p, bool cut) {
  Buffer text = {.arena = s->arena};
  buffer_add(&text, p->text.text, p->start);
  buffer_puts(&text, our_name);
  if (cut) {
    uint32_t file =
        sources_add(&s->sources, "input", text.text, text.len, false);
    parse_closing(&s->sources, file, s->interner, s->arena, &text);
    checker_keep_places(s->checker, true);
  } else {
    buffer_add(&text, p->text.text + p->end, p->until - p->end);
  }
  check_probe(s, p, &text);
}

/* ---- what is around our name ---- */

typedef struct Search {
  Span span;         /* of our name */
  const Dec *dec;    /* of top level, at hand */
  const Expr *app;   /* the innermost application, or NULL, */
  uint32_t arg;      /* and in which argument */
  const Expr *whole; /* the record of which it may name a field, or NULL: */
  const Dec *whole_dec;
} Search;

static bool around(Span outer, Span inner) {
  return outer.start <= inner.start && inner.end <= outer.end;
}

/* {r with x}, case r of {x} => ..., val {x} = r */
static void part_of(Search *f, Span field, const Expr *whole) {
  if (around(field, f->span))
    f->whole = whole, f->whole_dec = f->dec;
}

static void part_of_pat(Search *f, const Pat *p, const Expr *whole) {
  for (uint32_t i = 0; p && p->kind == PAT_RECORD && i < p->field_count; i++)
    part_of(f, p->fields[i].span, whole);
}

static void search(void *arg, Expr *e) {
  Search *f = arg;
  if (!around(e->span, f->span))
    return;
  for (uint32_t i = 0; e->kind == EX_APP && i < e->arg_count; i++)
    if (around(e->args[i].span, f->span))
      f->app = e, f->arg = i;
  for (uint32_t i = 0; e->kind == EX_WITH && i < e->field_count; i++)
    part_of(f, e->fields[i].span, e->arg[0]);
  for (uint32_t i = 0; e->kind == EX_CASE && i < e->clause_count; i++)
    part_of_pat(f, e->clauses[i].params[0].pat, e->arg[0]);
  for (uint32_t i = 0; i < e->dec_count; i++)
    part_of_pat(f, e->decs[i]->pat, e->decs[i]->expr);
  expr_each_part(e, search, f);
}

static Search search_program(Session *s, const Probe *p) {
  uint32_t len = (uint32_t)strlen(our_name);
  Search f = {.span = {s->file, p->start, p->start + len}};
  for (uint32_t i = 0; i < s->program.dec_count; i++) {
    f.dec = s->program.decs[i];
    part_of_pat(&f, f.dec->pat, f.dec->expr);
    dec_each_expr(f.dec, search, &f);
  }
  return f;
}

/* ---- offers ---- */

static bool begins_so(const Probe *p, const char *name) {
  uint32_t len = p->offset - p->start;
  return strncmp(name, p->text.text + p->start, len) == 0;
}

static void offer(const Probe *p, const Offer *o) {
  if (begins_so(p, o->name) && strcmp(o->name, our_name) != 0)
    p->f(p->arg, o);
}

typedef struct Offering {
  Session *s;
  const Probe *probe;
  const char *prefix; /* of library names: "nn."; or NULL */
  uint32_t before;    /* names of the text are offered behind their place */
  const Expr *app;    /* whose labels are not offered again; or NULL */
} Offering;

static void offer_binding(void *arg, Binding *b) {
  static const int kinds[] = {
      [SORT_NONE] = OFFER_VALUE,          [SORT_VALUE] = OFFER_VALUE,
      [SORT_FUNCTION] = OFFER_FUNCTION,   [SORT_SIZE] = OFFER_SIZE,
      [SORT_CONSTRUCTOR] = OFFER_CONSTRUCTOR,
      [SORT_MODULE] = OFFER_MODULE};
  const Offering *g = arg;
  const char *dot = strrchr(binding_name(b)->text, '.');
  Offer o = {.name = dot ? dot + 1 : binding_name(b)->text};
  Span span = binding_span(b);
  if (!begins_so(g->probe, o.name) ||
      (span.file == g->s->file && span.start >= g->before))
    return;
  o.kind = kinds[binding_sort(g->s->checker, b)];
  o.type = binding_type(g->s->checker, b);
  o.doc = binding_doc(b);
  offer(g->probe, &o);
}

static void offer_library(void *arg, const char *name) {
  const Offering *g = arg;
  size_t len = g->prefix ? strlen(g->prefix) : 0;
  if ((len && strncmp(name, g->prefix, len) != 0) || strchr(name + len, '.') ||
      !begins_so(g->probe, name + len))
    return;
  Binding *b = checker_find(g->s->checker, g->s->checked, name);
  if (b)
    offer_binding(arg, b);
  else /* a type */
    offer(g->probe,
          &(Offer){.kind = OFFER_TYPE,
                   .name = intern_text(g->s->interner, name + len)->text});
}

static void offer_prims(Offering *g) {
  for (PrimId id = 1; id < PRIM_COUNT; id++)
    if (strncmp(prim_info[id].name, "op ", 3) != 0)
      offer_library(g, prim_info[id].name);
}

static void offer_module(void *arg, Module *m) {
  Offering *g = arg;
  if (!module_is_library(m)) {
    module_each(m, offer_binding, g);
    return;
  }
  g->prefix = arena_printf(g->s->arena, "%s.", module_called(m)->text);
  library_each_name(offer_library, g);
  offer_prims(g);
  g->prefix = NULL;
}

static void offer_local(void *arg, Sym *name, Binding *b, const char *type) {
  const Offering *g = arg;
  bool function = b && binding_sort(g->s->checker, b) == SORT_FUNCTION;
  offer(g->probe, &(Offer){.kind = !b         ? OFFER_SIZE
                                   : function ? OFFER_FUNCTION
                                              : OFFER_VALUE,
                           .name = name->text,
                           .type = type,
                           .doc = b ? binding_doc(b) : NULL});
}

static void offer_types(const Probe *p, const Program *program) {
  for (Dtype t = 1; t < DT_COUNT; t++)
    offer(p, &(Offer){.kind = OFFER_TYPE, .name = dtype_info[t].name});
  static const char *const others[] = {"int", "list", "string", "unit", "key"};
  for (size_t i = 0; i < ARRAY_LEN(others); i++)
    offer(p, &(Offer){.kind = OFFER_TYPE, .name = others[i]});
  for (uint32_t i = 0; i < program->dec_count; i++) {
    const Dec *dec = program->decs[i];
    if (dec->kind == DEC_TYPE || dec->kind == DEC_DATATYPE)
      offer(p, &(Offer){.kind = OFFER_TYPE, .name = dec->name->text,
                        .doc = dec->doc});
  }
}

static void offer_modules(const Probe *p) {
  for (uint32_t i = 0; i < stdlib_file_count; i++)
    if (*stdlib_files[i].module)
      offer(p, &(Offer){.kind = OFFER_MODULE, .name = stdlib_files[i].module,
                        .type = "module"});
}

/* A name by itself: locals, names of the program, the library, keywords. */
static void offer_names(Session *s, const Probe *p, const Place *place) {
  Offering g = {.s = s, .probe = p, .before = p->start};
  if (place)
    place_scope(s->checker, place, offer_local, &g);
  module_each(s->checked, offer_binding, &g);
  module_each_opened(s->checked, offer_module, &g);
  library_each_name(offer_library, &g);
  offer_prims(&g);
  offer_modules(p);
  if (place)
    for (Dtype t = 1; t < DT_COUNT; t++)
      offer_library(&g, dtype_info[t].name);
  else
    offer_types(p, &s->program);
  for (uint32_t i = 0; i < lexer_keyword_count; i++)
    offer(p, &(Offer){.kind = OFFER_KEYWORD, .name = lexer_keywords[i].text});
}

/* Behind a dot: what is in a module, or the fields of a record. */
static void offer_field(void *arg, Sym *name, const char *type) {
  const Offering *g = arg;
  offer(g->probe, &(Offer){.kind = OFFER_FIELD, .name = name->text,
                           .type = type});
}

static void offer_members(Session *s, const Probe *p) {
  Offering g = {.s = s, .probe = p, .before = UINT32_MAX};
  uint32_t dot = p->start - 1, from = dot;
  while (from > 0 && in_name(p->text.text[from - 1]))
    from--;
  Sym *base = intern(s->interner, p->text.text + from, dot - from);
  const Place *place = session_expr_at(s, dot);
  Binding *b = checker_find(s->checker, s->checked, base->text);
  Module *m = b ? binding_target(b) : NULL;
  const Place *name = session_name_at(s, s->file, dot);
  if (m && !(name && name->kind == PLACE_VALUE))
    offer_module(&g, m);
  else if (place && place->span.end == dot)
    place_fields(s->checker, place, offer_field, &g);
}

static void offer_label(void *arg, Sym *name, bool optional,
                        const char *type) {
  const Offering *g = arg;
  for (uint32_t i = 0; g->app && i < g->app->arg_count; i++)
    if (g->app->args[i].label == name)
      return;
  offer(g->probe, &(Offer){.kind = OFFER_LABEL, .name = name->text,
                           .type = type,
                           .doc = optional ? "may be left out" : NULL});
}

/* Fields of a record that is taken apart or changed. */
static void offer_parts(Session *s, const Probe *p) {
  Offering g = {.s = s, .probe = p};
  Search f = search_program(s, p);
  if (!f.whole)
    return;
  Place place = place_of_expr(s->checked, f.whole_dec, f.whole);
  place_fields(s->checker, &place, offer_field, &g);
}

static char before(const Probe *p) {
  return p->start ? p->text.text[p->start - 1] : '\n';
}

static SessionStatus complete(Session *s, void *arg) {
  Probe *p = arg;
  leave_rest(s, p);
  Known known = known_aside(s);
  Offering g = {.s = s, .probe = p};
  bool spread = p->start > 1 && p->text.text[p->start - 2] == '.';
  probe(s, p, false);
  const Place *place = our_place(s);
  if (!place) {
    probe(s, p, true);
    place = our_place(s);
  }
  if (before(p) == '~' && place) {
    g.app = search_program(s, p).app;
    place_labels(s->checker, place, offer_label, &g);
  } else if (before(p) == '.' && !spread) {
    offer_members(s, p);
  } else if (before(p) != '~') {
    offer_parts(s, p);
    offer_names(s, p, place);
  }
  known_back(s, &known);
  return SESSION_OK;
}

static Probe probe_at(const SessionText *text, uint32_t offset) {
  Probe p = {.text = *text, .offset = offset, .start = offset, .end = offset};
  while (p.start > 0 && in_name(text->text[p.start - 1]))
    p.start--;
  while (p.end < text->len && in_name(text->text[p.end]))
    p.end++;
  return p;
}

void session_complete(Session *s, const SessionText *text, uint32_t offset,
                      void (*f)(void *, const Offer *), void *arg) {
  Probe p = probe_at(text, offset);
  p.f = f, p.arg = arg;
  session_guard(s, complete, &p);
}

/* ---- what is called ---- */

static SessionStatus find_called(Session *s, void *arg) {
  Probe *p = arg;
  leave_rest(s, p);
  Known known = known_aside(s);
  probe(s, p, false);
  Search f = search_program(s, p);
  if (!f.app) {
    probe(s, p, true);
    f = search_program(s, p);
  }
  const Expr *head = f.app ? f.app->arg[0] : NULL;
  const Place *name =
      head ? session_name_at(s, s->file, head->span.end - 1) : NULL;
  if (name && name->kind == PLACE_VALUE && (name->binding || name->type)) {
    Called *c = p->called;
    *c = (Called){.name = name->name->text,
                  .type = name->binding
                              ? binding_type(s->checker, name->binding)
                              : place_type(s->checker, name),
                  .doc = session_doc(s, name)};
    for (uint32_t i = 0; i < f.arg; i++)
      c->number += !f.app->args[i].label;
    if (f.app->args[f.arg].label)
      c->label = f.app->args[f.arg].label->text;
    p->found = true;
  }
  known_back(s, &known);
  return SESSION_OK;
}

bool session_called(Session *s, const SessionText *text, uint32_t offset,
                    Called *out) {
  Probe p = probe_at(text, offset);
  p.called = out;
  return session_guard(s, find_called, &p) == SESSION_OK && p.found;
}
