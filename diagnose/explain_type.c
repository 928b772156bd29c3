/* Explains the type of a name as a note: the shapes on the way to its value
   with their arithmetic, what unified two sizes, where each constraint comes
   from, and what its unknown sizes are.  Main entry point:
   checker_explain_type. */
#include "diagnose/internal.h"
#include "support/arena_text.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/source.h"

typedef struct Explanation {
  Checker *c;
  Diag *d;
  bool library; /* the name itself is from the library */
} Explanation;

static bool is_visible(const Explanation *w, Span span) {
  const Source *source =
      span.file ? sources_get(w->c->sources, span.file) : NULL;
  return source && (w->library || !source->is_library);
}

/* The origin nearest to the user's text. */
static const Origin *visible_origin(const Explanation *w, const Origin *o) {
  while (o && !is_visible(w, o->span))
    o = o->body_origin;
  return o;
}

/* ---- sizes that something made equal to others ---- */

static void explain_axis(Explanation *w, DimVar *v, uint32_t axis,
                         const char *of) {
  Checker *c = w->c;
  for (; v && v->solution && !v->unknown; v = dim_as_var(v->solution)) {
    const Origin *o = visible_origin(w, v->solved_by);
    if (o)
      diag_add_label(c->arena, w->d, o->span,
                     arena_printf(c->arena, "axis %u of %s is %s here", axis,
                                  of, dim_to_text(c, dim_of_var(c->dims, v))));
  }
}

static void explain_param_type(Explanation *w, Type *t, const char *of) {
  Checker *c = w->c;
  t = ty_norm(c, t);
  for (uint32_t i = 0; t->tag == TY_TENSOR && i < t->tensor.shape->len; i++)
    if (t->tensor.shape->axes[i].tag == SHAPE_DIM)
      explain_axis(w, dim_as_var(t->tensor.shape->axes[i].dim), i, of);
  for (uint32_t i = 0; t->tag == TY_RECORD && i < t->count; i++)
    explain_param_type(
        w, t->args[i],
        arena_printf(c->arena, "%s.%s", of, t->record.labels[i]->text));
}

static const char *param_name(Checker *c, const Binding *b, uint32_t i) {
  const Clause *k = binding_clause(b);
  const Pat *p = k && i < k->param_count ? k->params[i].pat : NULL;
  while (p && p->kind == PAT_ASCRIBE)
    p = p->args[0];
  return p && p->kind == PAT_VAR ? p->id->text
                                 : arena_printf(c->arena, "argument %u", i + 1);
}

/* ---- unknown sizes ---- */

typedef struct ExistentialSearch {
  Explanation *w;
  Map met;
} ExistentialSearch;

static void explain_existential(void *arg, DimVar *v) {
  ExistentialSearch *u = arg;
  if (v->kind != DV_EXISTENTIAL || map_get(&u->met, v) ||
      !is_visible(u->w, v->origin))
    return;
  map_put(&u->met, v, v);
  Checker *c = u->w->c;
  diag_add_label(c->arena, u->w->d, v->origin,
                 arena_printf(c->arena, "%s is known only after this has run",
                              dim_to_text(c, dim_of_var(c->dims, v))));
}

/* ---- conditions ---- */

static void explain_given(Explanation *w, Scheme *s, Constraint *given) {
  Checker *c = w->c;
  const Origin *o = visible_origin(w, given->origin);
  if (!o)
    return;
  const char *text = given_text(c, s, given);
  diag_add_label(c->arena, w->d, o->span,
                 o->kind == ORIGIN_GIVEN || !o->subject || o->kind != ORIGIN_ARG
                     ? arena_printf(c->arena, "given %s", text)
                     : arena_printf(c->arena, "given %s: required by %s", text,
                                    o->subject));
  for (o = o->body_origin; o; o = o->body_origin)
    if (is_visible(w, o->span))
      diag_add_label(c->arena, w->d, o->span,
                     o->kind == ORIGIN_ARG && o->subject
                         ? arena_printf(c->arena, "required by %s", o->subject)
                         : "required here");
}

const Diag *checker_explain_type(Checker *c, Binding *b, Diags *diags) {
  Scheme *s = binding_scheme(c, b);
  if (!s)
    return NULL;
  VarNames *names = var_names_share(c);
  const char *type = ty_text(c, s->type); /* also chooses the names */
  bool given = s->is_polymorphic && s->given_count;
  const Source *source = sources_get(c->sources, b->span.file);
  Diag *d = diag_note(diags, b->span, "%s : %s", b->name->text,
                      given || s->is_polymorphic ? scheme_text(c, s) : type);
  Explanation w = {c, d, source && source->is_library};
  const Clause *k = binding_clause(b);
  Expr *e = binding_expr(b) ? binding_expr(b) : k ? k->body : NULL;
  if (e)
    provenance_add_all(c, d, e, w.library);
  uint32_t i = 0;
  for (Type *t = ty_norm(c, s->type); t->tag == TY_FUN;
       t = ty_norm(c, t->fun.result), i++)
    explain_param_type(&w, t->fun.param, param_name(c, b, i));
  ExistentialSearch unknown = {.w = &w};
  map_init(&unknown.met, c->arena);
  TypeVisitor visit = {.dim = explain_existential, .arg = &unknown, .c = c};
  bool unpacked = b->kind == BK_VALUE && b->value.unpacked_type;
  ty_visit(&visit, unpacked ? b->value.unpacked_type : s->type);
  for (i = 0; i < s->given_count; i++)
    explain_given(&w, s, s->given[i]);
  c->notes.message_names = names;
  return d;
}
