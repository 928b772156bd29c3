/* Places: the names of a text, kept while it is checked for those who ask, such
 * as editors.  What an expression is stands in the tree itself.  A type is kept
 * as it was inferred, and so is solved along with the rest; it becomes text
 * when it is asked for. */
#include "typecheck/internal.h"

#include <string.h>

struct Places {
  VEC(Place) all;
};

Places *checker_swap_places(Checker *c, Places *places) {
  Places *before = c->kept;
  c->kept = c->places = places;
  return before;
}

void checker_keep_places(Checker *c, bool keep) {
  checker_swap_places(c, keep ? NEW(c->arena, Places) : NULL);
}

const Place *checker_places(const Checker *c, uint32_t *count) {
  *count = c->kept ? c->kept->all.len : 0;
  return c->kept ? c->kept->all.at : NULL;
}

uint32_t places_mark(const Checker *c) {
  return c->kept ? c->kept->all.len : 0;
}

/* A declaration is checked once more: what the last round said is gone. */
void places_forget(Checker *c, uint32_t mark) {
  if (c->kept)
    c->kept->all.len = mark;
}

/* ---- what is noted ---- */

static Place *add(Checker *c, PlaceKind kind, Span span) {
  Place p = {.kind = kind, .span = span, .scope = c->scope};
  VEC_PUSH(c->arena, c->places->all, p);
  return &c->places->all.at[c->places->all.len - 1];
}

/* Of a text that somebody can look at. */
static bool wanted(const Checker *c, Span span) {
  if (!c->places || !span.file)
    return false;
  const Source *source = sources_get(c->sources, span.file);
  return source && !source->library;
}

/* Whether a name that ends here would go on. */
static bool continues(char ch) {
  return ch == '_' || ch == '\'' || (ch >= '0' && ch <= '9') ||
         (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z');
}

static bool is_name(const Source *source, Span span, const Sym *name) {
  return span.end <= source->len && span.end - span.start == name->len &&
         memcmp(source->text + span.start, name->text, name->len) == 0 &&
         !continues(source->text[span.end]);
}

/* The name alone in what a node covers: `heads` of `~heads:`, `s` of `...s`,
 * 'a of 'a[n], `t` of `m.t`.  No place where the text does not have it there,
 * as in what the checker has made up. */
static Span name_span(const Checker *c, Span span, const Sym *name) {
  const Source *source = sources_get(c->sources, span.file);
  if (!source || span.end > source->len || span.end - span.start < name->len)
    return (Span){0};
  Span last = {span.file, span.end - name->len, span.end};
  while (span.start < span.end && strchr("~?.", source->text[span.start]))
    span.start++;
  span.end = span.start + name->len;
  return is_name(source, span, name)   ? span
         : is_name(source, last, name) ? last
                                       : (Span){0};
}

static Place *add_name(Checker *c, PlaceKind kind, Span span, Sym *name,
                       Span def) {
  if (!c->places || !name || !wanted(c, span))
    return NULL;
  span = name_span(c, span, name);
  if (!span.file)
    return NULL;
  Place *p = add(c, kind, span);
  p->name = name;
  p->def = def.file ? name_span(c, def, name) : def;
  p->bound = p->def.file == span.file && p->def.start == span.start;
  return p;
}

void places_name(Checker *c, PlaceKind kind, Span span, Sym *name, Span def,
                 Type *type) {
  Place *p = add_name(c, kind, span, name, def);
  if (p)
    p->type = type;
}

void places_binding(Checker *c, Span span, Binding *b, Type *type) {
  PlaceKind kind = b->kind == BK_MODULE ? PLACE_MODULE
                   : b->kind == BK_SIZE ? PLACE_SIZE
                                        : PLACE_VALUE;
  const char *dot = strrchr(b->name->text, '.'); /* of a primitive */
  Sym *name = dot ? intern_text(c->in, dot + 1) : b->name;
  Place *p = add_name(c, kind, span, name, b->span);
  if (!p)
    return;
  p->binding = b;
  p->type = type;
}

/* A module may be called otherwise than what it imports. */
void places_module(Checker *c, Span span, Sym *name, Binding *b) {
  Place *p = add_name(c, PLACE_MODULE, span, name, (Span){0});
  if (p)
    p->binding = b;
}

/* `import blocks`, `import "./blocks" as b`, `open b`. */
void places_import(Checker *c, const Dec *dec, Sym *name, Binding *b) {
  const Source *source = sources_get(c->sources, dec->span.file);
  Span last = {dec->span.file, dec->span.end - name->len, dec->span.end};
  if (source && dec->span.end >= name->len && is_name(source, last, name))
    places_module(c, last, name, b);
  else if (c->places && wanted(c, dec->span))
    add(c, PLACE_MODULE, dec->span)->binding = b;
}

void places_type(Checker *c, Span span, const TypeName *t) {
  const Dec *dec = t->dec ? t->dec : t->data ? t->data->dec : NULL;
  Place *p = add_name(c, PLACE_TYPE, span, t->name,
                      dec ? dec->name_span : (Span){0});
  if (p)
    p->dec = dec;
}

/* The first place of a name in an annotation is where it is bound. */
void places_size(Checker *c, Span span, Sym *name, bool shape) {
  for (Scope *s = c->scope; c->places && name && s; s = s->outer) {
    if (s->name != name)
      continue;
    if (s->binding) {
      places_binding(c, span, s->binding, NULL);
      return;
    }
    bool variable = s->elem || s->tyvar;
    if (!variable && (shape ? !s->shape : !s->dim))
      continue;
    if (!s->span.file)
      s->span = span;
    places_name(c, PLACE_SIZE, span, name, s->span, NULL);
    return;
  }
  Binding *b = c->places && name ? lookup_in(c, c->module, name) : NULL;
  if (b)
    places_binding(c, span, b, NULL);
}

static Span label_of(const Binding *b, const Sym *label) {
  for (uint32_t i = 0; b && b->clause && i < b->clause->param_count; i++)
    if (b->clause->params[i].label == label)
      return b->clause->params[i].span;
  return (Span){0};
}

static Type *type_of(Checker *c, Binding *b) {
  Scheme *s = b && !b->failed && b->kind != BK_MODULE ? binding_scheme(c, b)
                                                      : NULL;
  return s ? s->type : NULL;
}

void places_labels(Checker *c, const Arg *args, uint32_t count, Binding *b) {
  for (uint32_t i = 0; c->places && i < count; i++) {
    Sym *label = args[i].label;
    Place *p = label ? add_name(c, PLACE_LABEL, args[i].label_span, label,
                                label_of(b, label))
                     : NULL;
    if (!p)
      continue;
    p->applied = b;
    p->type = type_of(c, b);
  }
}

/* ---- in whose names a type is to be told ---- */

static bool inside(Span inner, Span outer) {
  return inner.file == outer.file && inner.start >= outer.start &&
         inner.end <= outer.end;
}

static Binding *around(const Module *m, const Dec *dec, Span span) {
  for (uint32_t i = 0; i < dec->fun_count; i++)
    for (uint32_t k = 0; k < dec->funs[i].clause_count; k++)
      if (inside(span, dec->funs[i].clauses[k].span))
        return map_get(&m->names, dec->funs[i].name);
  return dec->kind == DEC_VAL && dec->pat->kind == PAT_VAR
             ? map_get(&m->names, dec->pat->id)
             : NULL;
}

void places_finish(Checker *c, uint32_t mark, Module *module,
                   const Dec *dec) {
  for (uint32_t i = mark; c->kept && i < c->kept->all.len; i++) {
    Place *p = &c->kept->all.at[i];
    if (inside(p->span, dec->span))
      p->around = around(module, dec, p->span);
  }
}

Place place_of_expr(const Module *module, const Dec *dec, const Expr *e) {
  return (Place){.kind = PLACE_EXPR, .span = e->span, .type = e->inferred,
                 .around = around(module, dec, e->span)};
}

/* ---- what is told ---- */

typedef struct Quiet { /* nothing that is asked reports a mistake */
  Diags ignored, *diags;
} Quiet;

static void quiet_begin(Checker *c, Quiet *q) {
  diags_init(&q->ignored, c->arena);
  q->diags = c->diags;
  c->diags = &q->ignored;
  c->work = 0;
}

static Scheme *around_scheme(const Place *p) {
  const Binding *b = p->around;
  return b && !b->failed ? b->scheme : NULL;
}

const char *place_type(Checker *c, const Place *p) {
  Quiet q;
  quiet_begin(c, &q);
  const char *text = NULL;
  if (p->type)
    text = ty_text_within(c, around_scheme(p), p->type);
  c->diags = q.diags;
  return text;
}

/* ---- what can be written ---- */

typedef struct VisibleNames {
  Checker *c;
  Map *map;
} VisibleNames;

/* An integer may stand for its size: then its name is that of the size. */
static void note_name(VisibleNames *n, Sym *name, Type *type) {
  Type *t = type ? ty_norm(n->c, type) : NULL;
  Dim *term = t && t->tag == TY_TENSOR ? term_of(n->c, t) : NULL;
  DimVar *v = term ? dim_as_var(term) : NULL;
  map_put(n->map, name, v ? (void *)v : (void *)n);
}

Map *places_names(Checker *c, Module *m, const Place *from, uint32_t count) {
  VisibleNames n = {c, NEW(c->arena, Map)};
  map_init(n.map, c->arena);
  for (uint32_t i = 0; i < m->names.cap; i++) {
    const Binding *b = m->names.slots[i].key ? m->names.slots[i].value : NULL;
    if (b)
      note_name(&n, b->name, b->scheme ? b->scheme->type : NULL);
  }
  for (uint32_t i = 0; i < count; i++)
    if (from[i].kind == PLACE_VALUE && from[i].bound)
      note_name(&n, from[i].name, from[i].type);
  return n.map;
}

const char *place_annotation(Checker *c, const Place *p, const Map *names) {
  if (!p->type)
    return NULL;
  Quiet q;
  quiet_begin(c, &q);
  const char *text = ty_text_apart(c, around_scheme(p), p->type, names);
  c->diags = q.diags;
  return text;
}

bool place_is_tensor(Checker *c, const Place *p) {
  return p->type && ty_norm(c, p->type)->tag == TY_TENSOR;
}

void place_fields(Checker *c, const Place *p,
                  void (*f)(void *, Sym *name, const char *type), void *arg) {
  Quiet q;
  quiet_begin(c, &q);
  for (Type *t = p->type ? ty_norm(c, p->type) : NULL;
       t && t->tag == TY_RECORD; t = t->arg[0] ? ty_norm(c, t->arg[0]) : NULL)
    for (uint32_t i = 0; i < t->count; i++)
      f(arg, t->labels[i],
        ty_text_within(c, around_scheme(p), t->args[i]));
  c->diags = q.diags;
}

void place_labels(Checker *c, const Place *p,
                  void (*f)(void *, Sym *name, bool optional,
                            const char *type),
                  void *arg) {
  Quiet q;
  quiet_begin(c, &q);
  Scheme *s = p->applied ? p->applied->scheme : around_scheme(p);
  for (Type *t = p->type ? ty_norm(c, p->type) : NULL; t && t->tag == TY_FUN;
       t = ty_norm(c, t->arg[1]))
    if (t->label)
      f(arg, t->label, t->optional, ty_text_within(c, s, t->arg[0]));
  c->diags = q.diags;
}

static bool hidden_by(const Scope *from, const Scope *until) {
  for (const Scope *s = from; s != until; s = s->outer)
    if (s->name == until->name)
      return true;
  return false;
}

void place_scope(Checker *c, const Place *p,
                 void (*f)(void *, Sym *name, Binding *binding,
                           const char *type),
                 void *arg) {
  Quiet q;
  quiet_begin(c, &q);
  for (const Scope *s = p->scope; s; s = s->outer) {
    if (!s->name || s->name->text[0] == '|' || s->name->text[0] == '\'' ||
        hidden_by(p->scope, s))
      continue;
    const Binding *b = s->binding;
    const char *type = b && b->scheme
                           ? ty_text_within(c, around_scheme(p),
                                            b->scheme->type)
                           : "a size";
    f(arg, s->name, s->binding, type);
  }
  c->diags = q.diags;
}

BindingSort binding_sort(Checker *c, Binding *b) {
  switch (b->kind) {
  case BK_MODULE: return SORT_MODULE;
  case BK_CON: return SORT_CONSTRUCTOR;
  case BK_SIZE: return SORT_SIZE;
  case BK_VALUE:
  case BK_PRIM:
  case BK_DTYPE: break;
  }
  Scheme *s = binding_scheme(c, b);
  return s && ty_norm(c, s->type)->tag == TY_FUN ? SORT_FUNCTION : SORT_VALUE;
}

Span binding_span(const Binding *b) { return b->span; }
Module *binding_target(const Binding *b) {
  return b->kind == BK_MODULE ? b->target : NULL;
}
bool module_is_library(const Module *m) { return m->library; }
Sym *module_called(const Module *m) { return m->name; }
void module_each_opened(const Module *m, void (*f)(void *, Module *),
                        void *arg) {
  for (uint32_t i = 0; i < m->opened.len; i++)
    f(arg, m->opened.at[i]);
}
