/* Finds the place in the body of a function that requires the rank of a
   parameter.  Main entry point: error_mark_rank_origin. */
#include "diagnose/internal.h"
#include "support/arena_text.h"
#include "support/diag.h"
#include "support/intern.h"

#include <string.h>

typedef struct RankSearch {
  Checker *c;
  Span span;         /* the parameter */
  const char *path;  /* field of it, or "" */
  uint32_t rank;     /* the required rank */
  const Expr *found; /* result */
  const char *label;
} RankSearch;

/* Removes the last name from a path if it is `id`.  Returns false otherwise. */
static bool drop_name(const char *path, size_t *len, const Sym *id) {
  size_t n = strlen(id->text);
  if (*len < n || strncmp(path + *len - n, id->text, n) != 0)
    return false;
  *len -= n;
  if (*len == 0)
    return true;
  return path[--*len] == '.';
}

static bool is_param(const RankSearch *s, const Expr *e) {
  size_t len = strlen(s->path);
  while (e->kind == EX_ID && e->binding && binding_expr(e->binding))
    e = e->binding->value
            .expr; /* another name for it, or the input of a pipe */
  for (; e->kind == EX_FIELD && e->arg[0]; e = e->arg[0])
    if (!drop_name(s->path, &len, e->id))
      return false;
  return len == 0 && e->kind == EX_ID && e->binding &&
         e->binding->span.file == s->span.file &&
         e->binding->span.start == s->span.start;
}

static void record_found(RankSearch *s, const Expr *e, const char *label) {
  s->found = e;
  s->label = label;
}

static const char *axes_text(Checker *c, uint32_t n) {
  return arena_printf(c->arena, "%u %s", n, n == 1 ? "axis" : "axes");
}

/* x.[i, :n]: one item per axis. */
static void search_index(RankSearch *s, const Expr *e) {
  uint32_t items = 0;
  for (uint32_t i = 0; i < e->slice_count; i++) {
    if (e->slices[i].kind == SLICE_ELLIPSIS)
      return;
    items +=
        e->slices[i].kind == SLICE_INDEX || e->slices[i].kind == SLICE_RANGE;
  }
  if (items == s->rank && is_param(s, e->arg[0]))
    record_found(s, e,
                 arena_printf(s->c->arena, "%s here: one item per axis",
                              axes_text(s->c, items)));
}

static bool has_rank(Checker *c, Type *t, uint32_t rank) {
  t = ty_root(t);
  if (t->tag != TY_TENSOR)
    return false;
  Shape *shape = shape_norm(c, t->tensor.shape);
  return shape_has_known_rank(shape) && shape->len == rank;
}

/* "nn.conv2d expects 4 axes". */
static const char *callee_expects_text(const RankSearch *s, const Expr *e) {
  while (e->kind == EX_APP)
    e = e->arg[0];
  const char *name = error_source_text(s->c, e->span);
  return arena_printf(s->c->arena, "%s expects %s", name ? name : "this",
                      axes_text(s->c, s->rank));
}

/* Compares the arguments of an application with the declared type of the
   callee.  Returns the remaining type. */
static Type *search_args(RankSearch *s, const Expr *e) {
  const Expr *head = e->arg[0];
  Type *t;
  if (head->kind == EX_APP)
    t = search_args(s, head);
  else
    t = head->binding && head->binding->scheme &&
                !binding_is_recursive(head->binding)
            ? ty_root(head->binding->scheme->type)
            : NULL;
  for (uint32_t i = 0; i < e->arg_count && t && !s->found; i++) {
    if (e->args[i].label)
      continue;
    while (t->tag == TY_FUN && t->fun.label)
      t = ty_root(t->fun.result);
    if (t->tag != TY_FUN)
      return NULL;
    if (is_param(s, e->args[i].expr) && has_rank(s->c, t->fun.param, s->rank))
      record_found(s, e->args[i].expr, callee_expects_text(s, e));
    t = ty_root(t->fun.result);
  }
  return t;
}

static void search_expr(void *search, Expr *e) {
  RankSearch *s = search;
  if (s->found)
    return;
  if (e->kind == EX_INDEX)
    search_index(s, e);
  else if (e->kind == EX_APP)
    search_args(s, e);
  else if (e->kind == EX_BIN && e->desugared)
    search_args(s, e->desugared);
  if (!s->found)
    expr_visit_children(e, search_expr, s);
}

/* The name of an argument in the body.  NULL if a pattern matches it, or if an
   annotation gives its rank. */
static const Pat *param_of(const Clause *k, const Origin *o) {
  uint32_t number = 0;
  for (uint32_t i = 0; i < k->param_count; i++) {
    const Param *p = &k->params[i];
    bool it = p->label ? o->arg.label == p->label : ++number == o->number;
    if (it && (!p->label || o->arg.label))
      return p->pat && p->pat->kind == PAT_VAR ? p->pat : NULL;
  }
  return NULL;
}

void error_mark_rank_origin(Checker *c, Diag *d, const Origin *o,
                            const char *path, Type *expected) {
  const Expr *head = o->kind == ORIGIN_ARG ? o->arg.callee : NULL;
  while (head && head->kind == EX_APP)
    head = head->arg[0];
  Shape *shape = error_shape(c, expected);
  if (!head || !head->binding || !binding_clause(head->binding) || !shape ||
      !shape_has_known_rank(shape))
    return;
  const Clause *k = head->binding->value.clause;
  const Pat *param = param_of(k, o);
  if (!param || !error_source_text(c, param->span))
    return;
  RankSearch s = {
      .c = c, .span = param->span, .path = path, .rank = shape->len};
  search_expr(&s, k->body);
  if (!s.found)
    return;
  diag_add_label(c->arena, d, s.found->span, s.label);
  if (s.found->kind == EX_INDEX && !d->help)
    d->help = "to keep the other axes, write `...`: x.[i, ...]";
}
