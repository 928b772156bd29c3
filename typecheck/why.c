/* How the type of a name came about, as a note: the shapes on the way to its
 * value with their arithmetic, what made two sizes equal, where each condition
 * comes from, and what its unknown sizes are. */
#include "typecheck/internal.h"

typedef struct Why {
  Checker *c;
  Diag *d;
  bool library; /* that is what is asked about */
} Why;

static bool is_shown(const Why *w, Span span) {
  const Source *source =
      span.file ? sources_get(w->c->sources, span.file) : NULL;
  return source && (w->library || !source->library);
}

/* The place nearest to the user that brought something about. */
static const Origin *shown_origin(const Why *w, const Origin *o) {
  while (o && !is_shown(w, o->span))
    o = o->inner;
  return o;
}

/* ---- sizes that something made equal to others ---- */

static void why_axis(Why *w, DimVar *v, uint32_t axis, const char *of) {
  Checker *c = w->c;
  for (; v && v->bound && !v->top; v = dim_as_var(v->bound)) {
    const Origin *o = shown_origin(w, v->by);
    if (o)
      diag_mark(c->arena, w->d, o->span,
                arena_printf(c->arena, "axis %u of %s is %s here", axis, of,
                             dim_text_of(c, dim_of_var(c->dims, v))));
  }
}

static void why_type(Why *w, Type *t, const char *of) {
  Checker *c = w->c;
  t = ty_norm(c, t);
  for (uint32_t i = 0; t->tag == TY_TENSOR && i < t->shape->len; i++)
    if (t->shape->at[i].tag == IT_DIM)
      why_axis(w, dim_as_var(t->shape->at[i].dim), i, of);
  for (uint32_t i = 0; t->tag == TY_RECORD && i < t->count; i++)
    why_type(w, t->args[i],
             arena_printf(c->arena, "%s.%s", of, t->labels[i]->text));
}

static const char *param_name(Checker *c, const Binding *b, uint32_t i) {
  const Pat *p =
      b->clause && i < b->clause->param_count ? b->clause->params[i].pat : NULL;
  while (p && p->kind == PAT_ASCRIBE)
    p = p->args[0];
  return p && p->kind == PAT_VAR ? p->id->text
                                 : arena_printf(c->arena, "argument %u", i + 1);
}

/* ---- unknown sizes ---- */

typedef struct Unknown {
  Why *w;
  Map met;
} Unknown;

static void why_unknown(void *arg, DimVar *v) {
  Unknown *u = arg;
  if (v->kind != DV_DATA || map_get(&u->met, v) || !is_shown(u->w, v->origin))
    return;
  map_put(&u->met, v, v);
  Checker *c = u->w->c;
  diag_mark(c->arena, u->w->d, v->origin,
            arena_printf(c->arena, "%s is known when this has run",
                         dim_text_of(c, dim_of_var(c->dims, v))));
}

/* ---- conditions ---- */

static void why_given(Why *w, Scheme *s, Constraint *given) {
  Checker *c = w->c;
  const Origin *o = shown_origin(w, given->origin);
  if (!o)
    return;
  const char *text = given_text(c, s, given);
  diag_mark(c->arena, w->d, o->span,
            o->kind == OR_GIVEN || !o->what || o->kind != OR_ARG
                ? arena_printf(c->arena, "given %s", text)
                : arena_printf(c->arena, "given %s, by %s", text, o->what));
  for (o = o->inner; o; o = o->inner)
    if (is_shown(w, o->span))
      diag_mark(c->arena, w->d, o->span,
                o->kind == OR_ARG && o->what
                    ? arena_printf(c->arena, "there by %s", o->what)
                    : "there by this");
}

const Diag *checker_why(Checker *c, Binding *b, Diags *diags) {
  Scheme *s = binding_scheme(c, b);
  if (!s)
    return NULL;
  Names *names = names_share(c);
  const char *type = ty_text(c, s->type); /* gives the names */
  bool given = s->poly && s->given_count;
  const Source *source = sources_get(c->sources, b->span.file);
  Diag *d = diag_note(diags, b->span, "%s : %s", b->name->text,
                      given || s->poly ? scheme_text(c, s) : type);
  Why w = {c, d, source && source->library};
  Expr *e = b->value ? b->value : b->clause ? b->clause->body : NULL;
  if (e)
    chain_all(c, d, e, w.library);
  uint32_t i = 0;
  for (Type *t = ty_norm(c, s->type); t->tag == TY_FUN;
       t = ty_norm(c, t->arg[1]), i++)
    why_type(&w, t->arg[0], param_name(c, b, i));
  Unknown unknown = {.w = &w};
  map_init(&unknown.met, c->arena);
  Visit visit = {.dim = why_unknown, .arg = &unknown, .c = c};
  ty_visit(&visit, b->opened ? b->opened : s->type);
  for (i = 0; i < s->given_count; i++)
    why_given(&w, s, s->given[i]);
  c->names = names;
  return d;
}
