/* The chain of a message: the expressions through which data came to where it
 * did not fit, with their shapes and how these were computed.
 *
 * It is found backwards, from the expression at fault through the names that
 * hold its parts.  In a function whose condition a call does not meet (see
 * Origin.inner), the shapes are those of that call. */
#include "typecheck/internal.h"

#include <string.h>

enum {
  STEPS_MOST = 6,  /* shown of one operand */
  LOOKED_AT = 256, /* expressions */
};

typedef struct Step {
  DiagStep is;
  const char *param; /* whose shape it is in the call; or NULL */
} Step;

/* A body that is being looked into, and what its parameters stand for. */
typedef struct Body {
  struct Body *outer;
  const Clause *clause;
  const Expr *call; /* in the body further out, of which this is: */
  PutIn *as;
} Body;

typedef struct Chain {
  Checker *c;
  PutIn *as;          /* the sizes of the call of this body; or NULL */
  Body *body;         /* or NULL: the one with the fault */
  uint32_t depth;     /* of those that were looked into */
  Dim *about[2];      /* the sizes that met, */
  uint32_t axis, rank; /* and where; rank 0: not known */
  VEC(Step) steps;
  uint32_t budget;
  bool whole;   /* all of it is wanted: no bodies but this one, all operands, */
  bool library; /* also where that is the library's */
  int64_t looked_for; /* not 0: a size of this number is, and its term, */
  Dim *computed;      /* not a mere number; or NULL */
} Chain;

/* ---- shapes as a call has them ---- */

static Type *put_ty(Copy *copy, TyVar *v) { return map_get(&copy->map, v); }

static ElemVar *put_elem(Copy *copy, ElemVar *v) {
  return map_get(&copy->map, v);
}

static Dim *put_dim(Copy *copy, DimVar *v) { return map_get(&copy->map, v); }

static Shape *put_shape(Copy *copy, ShapeVar *v) {
  return map_get(&copy->map, v);
}

static Copy putting_in(Checker *c, const PutIn *as) {
  return (Copy){.c = c, .ty = put_ty, .elem = put_elem, .dim = put_dim,
                .shape = put_shape, .map = *as->map};
}

Type *put_in_type(Checker *c, const PutIn *as, Type *t) {
  for (; as && t; as = as->outer) {
    Copy copy = putting_in(c, as);
    t = ty_copy(&copy, t);
  }
  return t;
}

Dim *put_in_dim(Checker *c, const PutIn *as, Dim *d) {
  for (; as && d; as = as->outer) {
    Copy copy = putting_in(c, as);
    d = dim_copy(&copy, d);
  }
  return d;
}

static PutIn *one_further(Checker *c, const Map *map, PutIn *outer) {
  PutIn *as = NEW(c->arena, PutIn);
  *as = (PutIn){map, outer};
  return as;
}

PutIn *put_in_of(Checker *c, const Origin *call) {
  PutIn *as = NULL;
  for (; call->inner; call = call->inner)
    as = one_further(c, call->put_in, as);
  return as;
}

/* ---- arithmetic ---- */

static void written_items(const Shape *s, uint32_t depth, ShapeIt **items,
                          uint32_t *count) {
  enum { DEEPEST = 4 };
  for (uint32_t i = 0; i < s->len && *count < RANK_MAX; i++) {
    const ShapeIt *it = &s->at[i];
    if (it->tag == IT_SPLICE && it->var->bound && depth < DEEPEST)
      written_items(it->var->bound, depth + 1, items, count);
    else
      items[(*count)++] = (ShapeIt *)it;
  }
}

void chain_items(const Shape *s, ShapeIt **items, uint32_t *count) {
  *count = 0;
  written_items(s, 0, items, count);
}

/* An item as a call has it, and as it stands in the body, where numbers are
 * not put in. */
static const char *arithmetic_of(Checker *c, const ShapeIt *it,
                                 const ShapeIt *plain) {
  if (it->tag != IT_DIM)
    return NULL;
  const char *text = dim_arithmetic(c, it->dim);
  if (!text && plain && plain->tag == IT_DIM &&
      dim_is_const(dim_resolve(c->dims, plain->dim)))
    text = dim_arithmetic(c, plain->dim);
  return text;
}

/* How the size that matters came to be, "28 - 3 + 1 = 26": one that met
 * another, or that of the axis where they met, or else the last one that was
 * computed. */
static const char *arithmetic(const Chain *x, Type *t, Type *plain) {
  Checker *c = x->c;
  ShapeIt *items[RANK_MAX], *others[RANK_MAX] = {NULL};
  uint32_t count = 0, other_count = 0;
  chain_items(t->shape, items, &count);
  chain_items(plain->shape, others, &other_count);
  bool same = count == other_count;
  const char *text, *last = NULL;
  for (uint32_t i = count; i-- > 0;) {
    text = arithmetic_of(c, items[i], same ? others[i] : NULL);
    for (int k = 0; text && k < 2; k++)
      if (x->about[k] &&
          dim_equal(dim_resolve(c->dims, items[i]->dim), x->about[k]))
        return text;
    if (!last || (text && x->rank == count && x->axis == i))
      last = text;
  }
  return last;
}

/* ---- the way back ---- */

static bool is_shown(const Chain *x, Span span) {
  const Source *source =
      span.file ? sources_get(x->c->sources, span.file) : NULL;
  return source && (x->library || !source->library);
}

/* Is the number that is looked for computed here? */
static void look(Chain *x, Type *found) {
  Checker *c = x->c;
  Type *t = found ? ty_norm(c, found) : NULL;
  ShapeIt *items[RANK_MAX];
  uint32_t count = 0;
  if (!t || t->tag != TY_TENSOR)
    return;
  chain_items(t->shape, items, &count);
  for (uint32_t i = 0; i < count && !x->computed; i++) {
    Dim *d = items[i]->tag == IT_DIM ? items[i]->dim : NULL;
    int64_t n;
    if (d && !dim_as_var(d) && !dim_is_const(d) &&
        dim_is_int(dim_resolve(c->dims, d), &n) && n == x->looked_for)
      x->computed = d;
  }
}

/* What has no axes has come to no shape; what is as before says nothing. */
static void add(Chain *x, Span span, const char *name, Type *found) {
  if (x->looked_for) {
    look(x, found);
    return;
  }
  if (!found || !is_shown(x, span))
    return;
  Checker *c = x->c;
  Type *t = ty_norm(c, put_in_type(c, x->as, found));
  if (t->tag != TY_TENSOR || ty_norm(c, found)->tag != TY_TENSOR)
    return;
  Shape *s = shape_norm(c, t->shape);
  if (!s->len || (s->len == 1 && s->at[0].tag == IT_SPLICE))
    return;
  const char *shape = ty_text(c, ty_forget_terms(c, t));
  Step *last = x->steps.len ? &x->steps.at[x->steps.len - 1] : NULL;
  if (last && strcmp(last->is.shape, shape) == 0)
    return;
  const char *text = name ? NULL : arithmetic(x, t, ty_norm(c, found));
  Step step = {{span, shape, text}, name};
  VEC_PUSH(c->arena, x->steps, step);
}

static void follow(Chain *x, Expr *e);

/* The argument of a call that a parameter takes; *next counts the positional
 * ones. */
static Expr *arg_for(const Expr *call, const Param *param, uint32_t *next) {
  Expr *found = NULL;
  if (call->arg[0]->kind == EX_APP)
    found = arg_for(call->arg[0], param, next);
  for (uint32_t i = 0; i < call->arg_count && !found; i++) {
    const Arg *a = &call->args[i];
    if (param->label ? a->label == param->label
                     : !a->label && (*next)-- == 0)
      found = a->expr;
  }
  return found;
}

static Expr *arg_of_name(const Body *body, const Binding *b) {
  const Clause *k = body->clause;
  uint32_t positional = 0;
  for (uint32_t i = 0; i < k->param_count; i++) {
    const Param *p = &k->params[i];
    const Pat *pat = p->pat;
    while (pat && pat->kind == PAT_ASCRIBE)
      pat = pat->args[0];
    uint32_t next = positional;
    if (pat && pat->kind == PAT_VAR && pat->span.start == b->span.start &&
        pat->span.file == b->span.file)
      return arg_for(body->call, p, &next);
    positional += !p->label;
  }
  return NULL;
}

/* A parameter goes on with the argument, in the body of the call. */
static void follow_param(Chain *x, const Expr *e, const Binding *b) {
  Body *body = x->body;
  if (!body) {
    if (x->as)
      add(x, b->said.file ? b->said : b->span, b->name->text, e->inferred);
    else if (!x->depth)
      add(x, e->span, NULL, e->inferred);
    return;
  }
  Expr *arg = arg_of_name(body, b);
  if (!arg)
    return;
  PutIn *as = x->as;
  x->as = body->as;
  x->body = body->outer;
  follow(x, arg);
  x->as = as;
  x->body = body;
}

static void follow_name(Chain *x, const Expr *e) {
  const Binding *b = e->means;
  if (!b || !b->scheme)
    return;
  if (b->value)
    follow(x, b->value);
  else
    follow_param(x, e, b);
}

static bool has_axes(Checker *c, Type *t) {
  t = t ? ty_norm(c, t) : NULL;
  return t && t->tag == TY_TENSOR && shape_norm(c, t->shape)->len;
}

/* Data is the last argument. */
static void follow_args(Chain *x, const Expr *e) {
  for (uint32_t i = e->arg_count; i-- > 0;) {
    Expr *a = e->args[i].expr;
    if (e->args[i].label || !has_axes(x->c, a->inferred))
      continue;
    follow(x, a);
    if (!x->whole)
      return;
  }
}

/* Into a function of the user's, as this call has it. */
static bool follow_body(Chain *x, const Expr *e) {
  enum { BODIES_MOST = 3 };
  const Expr *head = e->arg[0];
  while (head->kind == EX_APP)
    head = head->arg[0];
  const Binding *b = head->kind == EX_ID ? head->means : NULL;
  if (!b || !b->clause || !is_shown(x, b->clause->span) || x->whole ||
      x->depth == BODIES_MOST)
    return false;
  Body body = {x->body, b->clause, e, x->as};
  if (head->inst)
    x->as = one_further(x->c, &head->inst->map, body.as);
  x->body = &body;
  x->depth++;
  follow(x, b->clause->body);
  x->depth--;
  x->body = body.outer;
  x->as = body.as;
  return true;
}

/* The operand whose shape is that of the result, the left one else. */
static void follow_operand(Chain *x, const Expr *e) {
  if (x->whole) {
    follow(x, e->arg[0]);
    follow(x, e->arg[1]);
    return;
  }
  Type *whole = e->inferred ? ty_norm(x->c, e->inferred) : NULL;
  for (int i = 0; i < 2 && whole && whole->tag == TY_TENSOR; i++) {
    Type *t = e->arg[i]->inferred;
    t = t ? ty_norm(x->c, t) : NULL;
    if (t && t->tag == TY_TENSOR &&
        shape_same(x->c, shape_norm(x->c, t->shape),
                   shape_norm(x->c, whole->shape))) {
      follow(x, e->arg[i]);
      return;
    }
  }
  follow(x, e->arg[0]);
}

/* Where a call says itself how its sizes came to be, its body need not. */
static bool is_computed(const Chain *x, Type *found) {
  Type *plain = found ? ty_norm(x->c, found) : NULL;
  Type *t = found ? ty_norm(x->c, put_in_type(x->c, x->as, found)) : NULL;
  return t && t->tag == TY_TENSOR && plain->tag == TY_TENSOR &&
         arithmetic(x, t, plain);
}

static void follow_kind(Chain *x, Expr *e) {
  switch (e->kind) {
  case EX_ID:
    follow_name(x, e);
    return;
  case EX_BIN:
    if (e->call) {
      follow(x, e->call);
      return;
    }
    follow_operand(x, e);
    break;
  case EX_APP:
    if (is_computed(x, e->inferred) || !follow_body(x, e))
      follow_args(x, e);
    break;
  case EX_INDEX:
  case EX_NEG:
    follow(x, e->arg[0]);
    break;
  case EX_ASCRIBE:
    follow(x, e->arg[0]);
    return;
  case EX_LET:
  case EX_SEQ:
    if (e->item_count)
      follow(x, e->items[e->item_count - 1]);
    return;
  case EX_IF:
  case EX_CASE:
  case EX_FOR:
  case EX_BRACKET:
  case EX_FIELD:
    break;
  case EX_NUM:
  case EX_STRING:
  case EX_CON:
  case EX_HOLE:
  case EX_TUPLE:
  case EX_OP:
  case EX_LIST:
  case EX_RECORD:
  case EX_WITH:
  case EX_FN:
  case EX_ERROR:
    return;
  }
  add(x, e->span, NULL, e->inferred);
}

static void follow(Chain *x, Expr *e) {
  if (!x->budget)
    return;
  x->budget--;
  follow_kind(x, e);
}

static bool has_step(const Diag *d, Span span) {
  for (uint32_t i = 0; i < d->step_count; i++)
    if (d->steps[i].span.file == span.file &&
        d->steps[i].span.start == span.start &&
        d->steps[i].span.end == span.end)
      return true;
  return false;
}

static uint32_t line_of(Checker *c, Span span) {
  const Source *source = sources_get(c->sources, span.file);
  uint32_t line = 0, column;
  if (source)
    source_place(source, span.start, &line, &column);
  return line;
}

static bool same_line(Checker *c, Span a, Span b) {
  return a.file == b.file && line_of(c, a) == line_of(c, b);
}

/* A line tells what the last of its expressions has come to; others where
 * something was computed.  That of the fault itself has a label. */
static bool says_more(Checker *c, const Chain *x, uint32_t i, Span fault) {
  const Step *s = &x->steps.at[i];
  if (s->is.text || s->param)
    return true;
  return !same_line(c, s->is.span, fault) &&
         (i + 1 == x->steps.len ||
          !same_line(c, s->is.span, x->steps.at[i + 1].is.span));
}

/* The steps to one expression become the diagnostic's. */
static void add_way(Checker *c, Diag *d, const Origin *o, Expr *e) {
  Chain x = {.c = c, .as = o->as, .budget = LOOKED_AT,
             .about = {o->about[0], o->about[1]}};
  Type *found = o->got ? ty_norm(c, o->got) : NULL;
  if (found && found->tag == TY_TENSOR && d->axis >= 0) {
    x.axis = (uint32_t)d->axis;
    x.rank = shape_norm(c, found->shape)->len;
  }
  if (e)
    follow(&x, e);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < x.steps.len; i++)
    if (says_more(c, &x, i, o->span))
      x.steps.at[kept++] = x.steps.at[i];
  for (uint32_t i = kept > STEPS_MOST ? kept - STEPS_MOST : 0; i < kept; i++) {
    const Step *s = &x.steps.at[i];
    if (!has_step(d, s->is.span))
      diag_step(c->arena, d, s->is.span,
                s->param ? arena_printf(c->arena, "%s : %s", s->param,
                                        s->is.shape)
                         : s->is.shape,
                s->is.text);
  }
}

Dim *chain_computed(Checker *c, Expr *e, int64_t n) {
  Chain x = {.c = c, .budget = LOOKED_AT, .looked_for = n};
  follow(&x, e);
  return x.computed;
}

void chain_add(Checker *c, Diag *d, const Origin *o) {
  if (o->left) {
    add_way(c, d, o, o->left);
    add_way(c, d, o, o->right);
  } else if (o->expr) {
    add_way(c, d, o, o->expr);
  } else {
    for (uint32_t i = 0; i < o->arg_count; i++)
      if (!o->args[i].label && has_axes(c, o->args[i].expr->inferred))
        add_way(c, d, o, o->args[i].expr);
  }
}

void chain_all(Checker *c, Diag *d, Expr *e, bool library) {
  Chain x = {.c = c, .budget = 4 * LOOKED_AT, .whole = true,
             .library = library};
  follow(&x, e);
  for (uint32_t i = 0; i < x.steps.len; i++)
    if (!has_step(d, x.steps.at[i].is.span))
      diag_step(c->arena, d, x.steps.at[i].is.span, x.steps.at[i].is.shape,
                x.steps.at[i].is.text);
}

void chain_calls(Checker *c, Diag *d, Origin *call, const Origin *met) {
  PutIn *as = NULL;
  for (const Origin *in = call; in->inner; in = in->inner) {
    Origin at = *in;
    at.as = as;
    at.about[0] = met->about[0], at.about[1] = met->about[1];
    at.got = met->got; /* whose axis matters */
    chain_add(c, d, &at);
    as = one_further(c, in->put_in, as);
  }
}
