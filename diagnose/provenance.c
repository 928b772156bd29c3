/* Provenance traces: the expressions through which data reached the place where
 * it did not fit, with their shapes and how these were computed.  Main entry
 * point: provenance_add.
 *
 * The trace is found backwards, from the expression at fault through the names
 * of its parts.  Inside a function whose constraint a call violates
 * (Origin.body_origin), the shapes are those of that call. */
#include "diagnose/internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/source.h"

#include <string.h>

enum {
  MAX_SHOWN_STEPS = 6,     /* steps shown per operand */
  MAX_VISITED_EXPRS = 256, /* visited expressions */
};

typedef struct ProvenanceStep {
  DiagStep step;
  const char *param; /* parameter with this shape in the call, or NULL */
} ProvenanceStep;

/* A function body that the trace enters, and the values of its parameters. */
typedef struct InlinedBody {
  struct InlinedBody *outer;
  const Clause *clause;
  const Expr *call; /* the call, in the outer body */
  CallSubstitution *substitution;
} InlinedBody;

typedef struct ProvenanceTrace {
  Checker *c;
  CallSubstitution
      *substitution;   /* the variables of the body in this call, or NULL */
  InlinedBody *body;   /* innermost body; NULL: the one with the fault */
  uint32_t depth;      /* number of entered bodies */
  Dim *sizes[2];       /* the sizes that differ */
  uint32_t axis, rank; /* the axis that differs; rank 0: unknown */
  VEC(ProvenanceStep) steps;
  uint32_t budget;
  bool complete;       /* show everything: only this body, all operands */
  bool library;        /* also show text of the library */
  int64_t sought_size; /* nonzero: searches for a size with this value */
  Dim *computed; /* and its term, if that is not a plain number; or NULL */
} ProvenanceTrace;

/* ---- shapes as a call has them ---- */

static Type *substitute_ty(TypeMapper *copy, TyVar *v) {
  return map_get(&copy->map, v);
}

static ElemVar *substitute_elem(TypeMapper *copy, ElemVar *v) {
  return map_get(&copy->map, v);
}

static Dim *substitute_dim(TypeMapper *copy, DimVar *v) {
  return map_get(&copy->map, v);
}

static Shape *substitute_shape(TypeMapper *copy, ShapeVar *v) {
  return map_get(&copy->map, v);
}

static TypeMapper substitution_copy(Checker *c,
                                    const CallSubstitution *substitution) {
  return (TypeMapper){.c = c,
                      .ty = substitute_ty,
                      .elem = substitute_elem,
                      .dim = substitute_dim,
                      .shape = substitute_shape,
                      .map = *substitution->map};
}

Type *call_substitute_type(Checker *c, const CallSubstitution *substitution,
                           Type *t) {
  for (; substitution && t; substitution = substitution->outer) {
    TypeMapper copy = substitution_copy(c, substitution);
    t = ty_copy(&copy, t);
  }
  return t;
}

Dim *call_substitute_dim(Checker *c, const CallSubstitution *substitution,
                         Dim *d) {
  for (; substitution && d; substitution = substitution->outer) {
    TypeMapper copy = substitution_copy(c, substitution);
    d = dim_copy(&copy, d);
  }
  return d;
}

static CallSubstitution *substitution_push(Checker *c, const Map *map,
                                           CallSubstitution *outer) {
  CallSubstitution *substitution = NEW(c->arena, CallSubstitution);
  *substitution = (CallSubstitution){map, outer};
  return substitution;
}

CallSubstitution *call_substitution_of(Checker *c, const Origin *call) {
  CallSubstitution *substitution = NULL;
  for (; call->body_origin; call = call->body_origin)
    substitution = substitution_push(c, call->substitution, substitution);
  return substitution;
}

/* ---- arithmetic ---- */

static void collect_axes(const Shape *s, uint32_t depth, ShapeAxis **items,
                         uint32_t *count) {
  enum { MAX_SOLUTION_DEPTH = 4 };
  for (uint32_t i = 0; i < s->len && *count < MAX_RANK; i++) {
    const ShapeAxis *it = &s->axes[i];
    if (it->tag == SHAPE_SPLICE && it->var->solution &&
        depth < MAX_SOLUTION_DEPTH)
      collect_axes(it->var->solution, depth + 1, items, count);
    else
      items[(*count)++] = (ShapeAxis *)it;
  }
}

void provenance_axes(const Shape *s, ShapeAxis **items, uint32_t *count) {
  *count = 0;
  collect_axes(s, 0, items, count);
}

/* The arithmetic of an axis: as the call has it, and as in the body, without
   numbers for variables. */
static const char *axis_arithmetic(Checker *c, const ShapeAxis *it,
                                   const ShapeAxis *plain) {
  if (it->tag != SHAPE_DIM)
    return NULL;
  const char *text = dim_arithmetic(c, it->dim);
  if (!text && plain && plain->tag == SHAPE_DIM &&
      dim_is_const(dim_resolve(c->dims, plain->dim)))
    text = dim_arithmetic(c, plain->dim);
  return text;
}

/* The arithmetic of the size that matters, "28 - 3 + 1 = 26": one of the
   differing sizes, otherwise the size of the differing axis, otherwise the last
   computed one. */
static const char *relevant_arithmetic(const ProvenanceTrace *x, Type *t,
                                       Type *plain) {
  Checker *c = x->c;
  ShapeAxis *items[MAX_RANK], *others[MAX_RANK] = {NULL};
  uint32_t count = 0, other_count = 0;
  provenance_axes(t->tensor.shape, items, &count);
  provenance_axes(plain->tensor.shape, others, &other_count);
  bool same = count == other_count;
  const char *text, *last = NULL;
  for (uint32_t i = count; i-- > 0;) {
    text = axis_arithmetic(c, items[i], same ? others[i] : NULL);
    for (int k = 0; text && k < 2; k++)
      if (x->sizes[k] &&
          dim_equal(dim_resolve(c->dims, items[i]->dim), x->sizes[k]))
        return text;
    if (!last || (text && x->rank == count && x->axis == i))
      last = text;
  }
  return last;
}

/* ---- the way back ---- */

static bool is_shown(const ProvenanceTrace *x, Span span) {
  const Source *source =
      span.file ? sources_get(x->c->sources, span.file) : NULL;
  return source && (x->library || !source->is_library);
}

/* Records the term if the sought size is computed here. */
static void match_sought_size(ProvenanceTrace *x, Type *found) {
  Checker *c = x->c;
  Type *t = found ? ty_norm(c, found) : NULL;
  ShapeAxis *items[MAX_RANK];
  uint32_t count = 0;
  if (!t || t->tag != TY_TENSOR)
    return;
  provenance_axes(t->tensor.shape, items, &count);
  for (uint32_t i = 0; i < count && !x->computed; i++) {
    Dim *d = items[i]->tag == SHAPE_DIM ? items[i]->dim : NULL;
    int64_t n;
    if (d && !dim_as_var(d) && !dim_is_const(d) &&
        dim_is_int(dim_resolve(c->dims, d), &n) && n == x->sought_size)
      x->computed = d;
  }
}

/* Adds a step.  Skips values without axes and shapes equal to the last one. */
static void add_step(ProvenanceTrace *x, Span span, const char *name,
                     Type *found) {
  if (x->sought_size) {
    match_sought_size(x, found);
    return;
  }
  if (!found || !is_shown(x, span))
    return;
  Checker *c = x->c;
  Type *t = ty_norm(c, call_substitute_type(c, x->substitution, found));
  if (t->tag != TY_TENSOR || ty_norm(c, found)->tag != TY_TENSOR)
    return;
  Shape *s = shape_norm(c, t->tensor.shape);
  if (!s->len || (s->len == 1 && s->axes[0].tag == SHAPE_SPLICE))
    return;
  const char *shape = ty_text(c, ty_forget_singletons(c, t));
  ProvenanceStep *last = x->steps.len ? &x->steps.at[x->steps.len - 1] : NULL;
  if (last && strcmp(last->step.shape, shape) == 0)
    return;
  const char *text = name ? NULL : relevant_arithmetic(x, t, ty_norm(c, found));
  ProvenanceStep step = {{span, shape, text}, name};
  VEC_PUSH(c->arena, x->steps, step);
}

static void follow(ProvenanceTrace *x, Expr *e);

/* The argument of a call for a parameter. *next counts positional arguments. */
static Expr *arg_for(const Expr *call, const Param *param, uint32_t *next) {
  Expr *found = NULL;
  if (call->arg[0]->kind == EX_APP)
    found = arg_for(call->arg[0], param, next);
  for (uint32_t i = 0; i < call->arg_count && !found; i++) {
    const Arg *a = &call->args[i];
    if (param->label ? a->label == param->label : !a->label && (*next)-- == 0)
      found = a->expr;
  }
  return found;
}

static Expr *arg_of_binding(const InlinedBody *body, const Binding *b) {
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

/* Continues from a parameter with the argument, in the body of the call. */
static void follow_param(ProvenanceTrace *x, const Expr *e, const Binding *b) {
  InlinedBody *body = x->body;
  if (!body) {
    bool annotated = b->kind == BK_VALUE && b->value.annotation_span.file;
    if (x->substitution)
      add_step(x, annotated ? b->value.annotation_span : b->span, b->name->text,
               e->inferred_type);
    else if (!x->depth)
      add_step(x, e->span, NULL, e->inferred_type);
    return;
  }
  Expr *arg = arg_of_binding(body, b);
  if (!arg)
    return;
  CallSubstitution *substitution = x->substitution;
  x->substitution = body->substitution;
  x->body = body->outer;
  follow(x, arg);
  x->substitution = substitution;
  x->body = body;
}

static void follow_name(ProvenanceTrace *x, const Expr *e) {
  const Binding *b = e->binding;
  if (!b || !b->scheme)
    return;
  if (binding_expr(b))
    follow(x, b->value.expr);
  else
    follow_param(x, e, b);
}

static bool has_axes(Checker *c, Type *t) {
  t = t ? ty_norm(c, t) : NULL;
  return t && t->tag == TY_TENSOR && shape_norm(c, t->tensor.shape)->len;
}

/* The data is the last argument. */
static void follow_args(ProvenanceTrace *x, const Expr *e) {
  for (uint32_t i = e->arg_count; i-- > 0;) {
    Expr *a = e->args[i].expr;
    if (e->args[i].label || !has_axes(x->c, a->inferred_type))
      continue;
    follow(x, a);
    if (!x->complete)
      return;
  }
}

/* Enters a function of the user, with the sizes of this call. */
static bool follow_body(ProvenanceTrace *x, const Expr *e) {
  enum { MAX_INLINED_BODIES = 3 };
  const Expr *head = e->arg[0];
  while (head->kind == EX_APP)
    head = head->arg[0];
  const Binding *b = head->kind == EX_ID ? head->binding : NULL;
  if (!b || !binding_clause(b) || !is_shown(x, b->value.clause->span) ||
      x->complete || x->depth == MAX_INLINED_BODIES)
    return false;
  InlinedBody body = {x->body, b->value.clause, e, x->substitution};
  if (head->instance)
    x->substitution = substitution_push(x->c, &head->instance->substitution,
                                        body.substitution);
  x->body = &body;
  x->depth++;
  follow(x, b->value.clause->body);
  x->depth--;
  x->body = body.outer;
  x->substitution = body.substitution;
  return true;
}

/* Follows the operand with the shape of the result, otherwise the left one. */
static void follow_operand(ProvenanceTrace *x, const Expr *e) {
  if (x->complete) {
    follow(x, e->arg[0]);
    follow(x, e->arg[1]);
    return;
  }
  Type *whole = e->inferred_type ? ty_norm(x->c, e->inferred_type) : NULL;
  for (int i = 0; i < 2 && whole && whole->tag == TY_TENSOR; i++) {
    Type *t = e->arg[i]->inferred_type;
    t = t ? ty_norm(x->c, t) : NULL;
    if (t && t->tag == TY_TENSOR &&
        shape_equal(x->c, shape_norm(x->c, t->tensor.shape),
                    shape_norm(x->c, whole->tensor.shape))) {
      follow(x, e->arg[i]);
      return;
    }
  }
  follow(x, e->arg[0]);
}

/* True if the call itself explains its sizes, so that its body need not be
   entered. */
static bool is_computed(const ProvenanceTrace *x, Type *found) {
  Type *plain = found ? ty_norm(x->c, found) : NULL;
  Type *t =
      found ? ty_norm(x->c, call_substitute_type(x->c, x->substitution, found))
            : NULL;
  return t && t->tag == TY_TENSOR && plain->tag == TY_TENSOR &&
         relevant_arithmetic(x, t, plain);
}

static void follow_kind(ProvenanceTrace *x, Expr *e) {
  switch (e->kind) {
  case EX_ID:
    follow_name(x, e);
    return;
  case EX_BIN:
    if (e->desugared) {
      follow(x, e->desugared);
      return;
    }
    follow_operand(x, e);
    break;
  case EX_APP:
    if (is_computed(x, e->inferred_type) || !follow_body(x, e))
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
  case EX_RECORD_UPDATE:
  case EX_FN:
  case EX_ERROR:
    return;
  }
  add_step(x, e->span, NULL, e->inferred_type);
}

static void follow(ProvenanceTrace *x, Expr *e) {
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
    source_line_and_column(source, span.start, &line, &column);
  return line;
}

static bool same_line(Checker *c, Span a, Span b) {
  return a.file == b.file && line_of(c, a) == line_of(c, b);
}

/* A line shows its last expression, and others where sizes were computed.  The
   fault itself has a label instead. */
static bool is_step_shown(Checker *c, const ProvenanceTrace *x, uint32_t i,
                          Span fault) {
  const ProvenanceStep *s = &x->steps.at[i];
  if (s->step.text || s->param)
    return true;
  return !same_line(c, s->step.span, fault) &&
         (i + 1 == x->steps.len ||
          !same_line(c, s->step.span, x->steps.at[i + 1].step.span));
}

/* Adds the steps to one expression to the diagnostic. */
static void add_trace(Checker *c, Diag *d, const Origin *o, Expr *e) {
  ProvenanceTrace x = {.c = c,
                       .substitution = o->call_substitution,
                       .budget = MAX_VISITED_EXPRS,
                       .sizes = {o->sizes[0], o->sizes[1]}};
  Type *found = o->actual ? ty_norm(c, o->actual) : NULL;
  if (found && found->tag == TY_TENSOR && d->axis >= 0) {
    x.axis = (uint32_t)d->axis;
    x.rank = shape_norm(c, found->tensor.shape)->len;
  }
  if (e)
    follow(&x, e);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < x.steps.len; i++)
    if (is_step_shown(c, &x, i, o->span))
      x.steps.at[kept++] = x.steps.at[i];
  for (uint32_t i = kept > MAX_SHOWN_STEPS ? kept - MAX_SHOWN_STEPS : 0;
       i < kept; i++) {
    const ProvenanceStep *s = &x.steps.at[i];
    if (!has_step(d, s->step.span))
      diag_add_step(
          c->arena, d, s->step.span,
          s->param ? arena_printf(c->arena, "%s : %s", s->param, s->step.shape)
                   : s->step.shape,
          s->step.text);
  }
}

Dim *provenance_computed_dim(Checker *c, Expr *e, int64_t n) {
  ProvenanceTrace x = {.c = c, .budget = MAX_VISITED_EXPRS, .sought_size = n};
  follow(&x, e);
  return x.computed;
}

void provenance_add(Checker *c, Diag *d, const Origin *o) {
  if (origin_left(o)) {
    add_trace(c, d, o, o->operands.left);
    add_trace(c, d, o, o->operands.right);
  } else if (o->expr) {
    add_trace(c, d, o, o->expr);
  } else {
    for (uint32_t i = 0; i < origin_arg_count(o); i++)
      if (!o->arg.args[i].label &&
          has_axes(c, o->arg.args[i].expr->inferred_type))
        add_trace(c, d, o, o->arg.args[i].expr);
  }
}

void provenance_add_all(Checker *c, Diag *d, Expr *e, bool library) {
  ProvenanceTrace x = {.c = c,
                       .budget = 4 * MAX_VISITED_EXPRS,
                       .complete = true,
                       .library = library};
  follow(&x, e);
  for (uint32_t i = 0; i < x.steps.len; i++)
    if (!has_step(d, x.steps.at[i].step.span))
      diag_add_step(c->arena, d, x.steps.at[i].step.span,
                    x.steps.at[i].step.shape, x.steps.at[i].step.text);
}

void provenance_add_calls(Checker *c, Diag *d, Origin *call,
                          const Origin *met) {
  CallSubstitution *substitution = NULL;
  for (const Origin *in = call; in->body_origin; in = in->body_origin) {
    Origin at = *in;
    at.call_substitution = substitution;
    at.sizes[0] = met->sizes[0], at.sizes[1] = met->sizes[1];
    at.actual = met->actual; /* the type whose axis matters */
    provenance_add(c, d, &at);
    substitution = substitution_push(c, in->substitution, substitution);
  }
}
