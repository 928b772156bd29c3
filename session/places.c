/* What stands where in the text last checked: names, their definitions and
 * uses, also in what it imports, and types of expressions. */
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
  return p->name;
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

typedef struct Innermost {
  Session *s;
  const Dec *dec; /* of top level, at hand */
  uint32_t offset;
  const Place *best;
} Innermost;

static void nearer(Innermost *in, const Place *p) {
  if (p->type && (!in->best || width(p->span) <= width(in->best->span)))
    in->best = p;
}

/* Of two that cover the same, the outer one. */
static void look_into(void *arg, Expr *e) {
  Innermost *in = arg;
  if (!covers(e->span, in->s->file, in->offset))
    return;
  expr_each_part(e, look_into, in);
  const Expr *both[] = {e->call, e};
  for (size_t i = 0; i < ARRAY_LEN(both); i++)
    if (both[i] && covers(both[i]->span, in->s->file, in->offset)) {
      Place *p = NEW(in->s->arena, Place);
      *p = place_of_expr(in->s->checked, in->dec, both[i]);
      nearer(in, p);
    }
}

static SessionStatus find_expr(Session *s, void *arg) {
  Innermost *in = arg;
  uint32_t count;
  const Place *all = all_places(s, &count);
  for (uint32_t i = 0; i < count; i++)
    if (all[i].kind != PLACE_LABEL &&
        covers(all[i].span, s->file, in->offset))
      nearer(in, &all[i]);
  for (uint32_t i = 0; i < s->program.dec_count; i++) {
    in->dec = s->program.decs[i];
    if (covers(in->dec->span, s->file, in->offset))
      dec_each_expr(in->dec, look_into, in);
  }
  return SESSION_OK;
}

const Place *session_expr_at(Session *s, uint32_t offset) {
  Innermost in = {.s = s, .offset = offset};
  session_guard(s, find_expr, &in);
  return in.best;
}

/* ---- places by where they begin ---- */

static const void *beginning(Span span) {
  return (const void *)(uintptr_t)((uint64_t)span.file << 32 | span.start);
}

/* A place leads to the one before it that begins there too. */
static SessionStatus index_places(Session *s, void *arg) {
  PlaceIndex *x = &s->index;
  (void)arg;
  x->all = all_places(s, &x->count);
  x->before = NEW_ARRAY(s->arena, uint32_t, x->count + 1);
  map_init(&x->last, s->arena);
  for (uint32_t i = 0; i < x->count; i++) {
    const void *key = beginning(x->all[i].span);
    x->before[i] = (uint32_t)(uintptr_t)map_get(&x->last, key);
    map_put(&x->last, key, (void *)(uintptr_t)(i + 1));
  }
  return SESSION_OK;
}

const Place *session_place(Session *s, PlaceKind kind, Span span) {
  uint32_t count;
  const Place *all = all_places(s, &count), *found = NULL;
  PlaceIndex *x = &s->index;
  if ((x->all != all || x->count != count) &&
      session_guard(s, index_places, NULL) != SESSION_OK)
    return NULL;
  for (uint32_t i = (uint32_t)(uintptr_t)map_get(&x->last, beginning(span)); i;
       i = x->before[i - 1])
    if (all[i - 1].kind == kind && all[i - 1].span.end == span.end) {
      found = &all[i - 1];
      if (found->type) /* the last one with a type, or else the first */
        break;
    }
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

static bool same_name(const Session *s, const Place *a, const Place *b) {
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
    if (is_name(&all[i]) && same_name(s, u->of, &all[i]))
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
