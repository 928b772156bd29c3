/* What stands where in the text last checked, and in what it imports: names,
 * their definitions and uses, types of expressions. */
#include "session/internal.h"

#include <stdlib.h>
#include <string.h>

static SessionStatus keep_places(Session *s, void *arg) {
  (void)arg;
  checker_keep_places(s->checker, true);
  return SESSION_OK;
}

void session_keep_places(Session *s) { session_guard(s, keep_places, NULL); }

void session_on_unsaved(Session *s, Unsaved *f, void *owner) {
  s->unsaved = f;
  s->unsaved_owner = owner;
}

uint32_t session_file(const Session *s) { return s->file; }

const Program *session_program(const Session *s) { return &s->program; }

const Place *all_places(const Session *s, uint32_t *count) {
  return checker_places(s->checker, count);
}

static bool is_name(const Place *p) {
  return p->kind != PLACE_EXPR && p->kind != PLACE_STAGE && p->name;
}

static uint32_t width(Span span) { return span.end - span.start; }

static bool covers(Span span, uint32_t file, uint32_t offset) {
  return span.file == file && span.start <= offset && offset <= span.end;
}

/* Which of two places of one name says more.  A name may be bound and used by
 * one word (`{w}`, `~x`): then it is the value that is meant. */
static bool says_more(const Place *a, const Place *b) {
  static const int rank[] = {
      [PLACE_VALUE] = 4, [PLACE_SIZE] = 3, [PLACE_TYPE] = 3,
      [PLACE_MODULE] = 3, [PLACE_LABEL] = 2, [PLACE_FIELD] = 1};
  if (rank[a->kind] != rank[b->kind])
    return rank[a->kind] > rank[b->kind];
  return a->type || !b->type;
}

const Place *session_name_at(Session *s, uint32_t file, uint32_t offset) {
  uint32_t count;
  const Place *all = all_places(s, &count), *best = NULL;
  for (uint32_t i = 0; i < count; i++) {
    const Place *p = &all[i];
    if (!is_name(p) || !covers(p->span, file, offset))
      continue;
    bool begins = p->span.end != offset;
    bool best_begins = best && best->span.end != offset;
    if (!best || begins > best_begins ||
        (begins == best_begins && says_more(p, best)))
      best = p;
  }
  return best;
}

const Place *session_expr_at(Session *s, uint32_t file, uint32_t offset) {
  uint32_t count;
  const Place *all = all_places(s, &count), *best = NULL;
  for (uint32_t i = 0; i < count; i++) {
    const Place *p = &all[i];
    if (!p->type || p->kind == PLACE_LABEL ||
        !covers(p->span, file, offset))
      continue;
    if (!best || width(p->span) <= width(best->span))
      best = p;
  }
  return best;
}

const Place *session_place(Session *s, PlaceKind kind, Span span) {
  uint32_t count;
  const Place *all = all_places(s, &count), *found = NULL;
  for (uint32_t i = 0; i < count; i++)
    if (all[i].kind == kind && all[i].span.file == span.file &&
        all[i].span.start == span.start && all[i].span.end == span.end &&
        (!found || all[i].type))
      found = &all[i];
  return found;
}

/* ---- text ---- */

typedef struct PlaceText {
  const Place *place;
  const char *text;
} PlaceText;

/* Where a polymorphic name is bound, its own type; else as it is here. */
static SessionStatus place_text(Session *s, void *arg) {
  PlaceText *t = arg;
  const Place *p = t->place;
  if (p->binding && (p->bound || !p->type) && p->kind == PLACE_VALUE &&
      (p->binding == p->around || !p->type))
    t->text = binding_type(s->checker, p->binding);
  else
    t->text = place_type(s->checker, p);
  return SESSION_OK;
}

const char *session_place_type(Session *s, const Place *place) {
  PlaceText t = {.place = place};
  session_guard(s, place_text, &t);
  return t.text;
}

const char *session_doc(Session *s, const Place *p) {
  (void)s;
  if (p->binding && binding_doc(p->binding))
    return binding_doc(p->binding);
  return p->dec ? p->dec->doc : NULL;
}

typedef struct Labels {
  const Place *place;
  void (*f)(void *, Sym *name, bool optional, const char *type);
  void *arg;
} Labels;

static SessionStatus each_label(Session *s, void *arg) {
  const Labels *l = arg;
  place_labels(s->checker, l->place, l->f, l->arg);
  return SESSION_OK;
}

void session_labels(Session *s, const Place *place,
                    void (*f)(void *, Sym *name, bool optional,
                              const char *type),
                    void *arg) {
  Labels l = {place, f, arg};
  session_guard(s, each_label, &l);
}

/* ---- one name ---- */

/* A file may have been read twice, as the text at hand and as an import. */
static bool same_file(const Session *s, uint32_t a, uint32_t b) {
  const Source *x = sources_get(&s->sources, a);
  const Source *y = sources_get(&s->sources, b);
  return a == b || (x && y && strcmp(x->name, y->name) == 0);
}

bool session_same_name(const Session *s, const Place *a, const Place *b) {
  if (a->kind != b->kind || a->name != b->name)
    return false;
  if (a->kind == PLACE_FIELD)
    return true;
  if (a->kind == PLACE_MODULE && a->binding && b->binding)
    return binding_target(a->binding) == binding_target(b->binding);
  if (!a->def.file || !b->def.file)
    return !a->def.file && !b->def.file && a->binding == b->binding &&
           a->binding;
  return a->def.start == b->def.start && same_file(s, a->def.file, b->def.file);
}

static int by_place(const void *a, const void *b) {
  const Place *x = *(const Place *const *)a, *y = *(const Place *const *)b;
  if (x->span.file != y->span.file)
    return x->span.file < y->span.file ? -1 : 1;
  return x->span.start < y->span.start ? -1 : x->span.start > y->span.start;
}

typedef struct Uses {
  const Place *of;
  VEC(const Place *) found;
} Uses;

static SessionStatus find_uses(Session *s, void *arg) {
  Uses *u = arg;
  uint32_t count;
  const Place *all = all_places(s, &count);
  for (uint32_t i = 0; i < count; i++)
    if (is_name(&all[i]) && session_same_name(s, u->of, &all[i]))
      VEC_PUSH(s->arena, u->found, &all[i]);
  if (u->found.len)
    qsort(u->found.at, u->found.len, sizeof *u->found.at, by_place);
  return SESSION_OK;
}

void session_each_use(Session *s, const Place *of,
                      void (*f)(void *, const Place *), void *arg) {
  Uses u = {.of = of};
  session_guard(s, find_uses, &u);
  const Place *before = NULL;
  for (uint32_t i = 0; i < u.found.len; i++) {
    const Place *p = u.found.at[i];
    if (!before || by_place(&before, &p) != 0)
      f(arg, p);
    before = p;
  }
}

typedef struct Defined {
  const Place *place;
  Span span;
} Defined;

static SessionStatus find_definition(Session *s, void *arg) {
  Defined *d = arg;
  const Place *p = d->place;
  Module *m = p->binding ? binding_target(p->binding) : NULL;
  if (!m) {
    d->span = p->def;
    return SESSION_OK;
  }
  if (module_is_library(m))
    d->span.file = library_file(s, module_called(m));
  for (uint32_t i = 0; i < s->imports.len; i++)
    if (s->imports.at[i].module == m)
      d->span.file = s->imports.at[i].file;
  return SESSION_OK;
}

Span session_definition(Session *s, const Place *place) {
  Defined d = {.place = place};
  session_guard(s, find_definition, &d);
  return d.span;
}

/* ---- another text in between ---- */

Known known_aside(Session *s) {
  Known k = {s->program, s->file,  s->waiting.len,
             s->checked, s->diags, checker_swap_places(s->checker, NULL)};
  diags_init(&s->diags, s->arena);
  checker_keep_places(s->checker, true);
  return k;
}

void known_back(Session *s, const Known *k) {
  s->program = k->program;
  s->file = k->file;
  s->waiting.len = k->waiting;
  s->checked = k->checked;
  s->diags = k->diags;
  checker_swap_places(s->checker, k->places);
}
