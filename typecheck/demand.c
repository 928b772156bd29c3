/* Why a function wants that many axes: the place in its body that says so. */
#include "errors.h"

#include <string.h>

typedef struct Search {
  Checker *c;
  Span span;            /* where the parameter stands */
  const char *path;     /* of a field of it, or "" */
  uint32_t rank;        /* that is wanted */
  const Expr *at;       /* found */
  const char *says;
} Search;

/* The text that is left of a path without its last name, if that is `id`. */
static bool drop_name(const char *path, size_t *len, const Sym *id) {
  size_t n = strlen(id->text);
  if (*len < n || strncmp(path + *len - n, id->text, n) != 0)
    return false;
  *len -= n;
  if (*len == 0)
    return true;
  return path[--*len] == '.';
}

static bool is_param(const Search *s, const Expr *e) {
  size_t len = strlen(s->path);
  while (e->kind == EX_ID && e->means && e->means->value)
    e = e->means->value; /* another name for it, or what a pipe brings */
  for (; e->kind == EX_FIELD && e->arg[0]; e = e->arg[0])
    if (!drop_name(s->path, &len, e->id))
      return false;
  return len == 0 && e->kind == EX_ID && e->means &&
         e->means->span.file == s->span.file &&
         e->means->span.start == s->span.start;
}

static void found(Search *s, const Expr *e, const char *says) {
  s->at = e;
  s->says = says;
}

static const char *axes(Checker *c, uint32_t n) {
  return arena_printf(c->arena, "%u %s", n, n == 1 ? "axis" : "axes");
}

/* x.[i, :n]: an item for each axis. */
static void look_index(Search *s, const Expr *e) {
  uint32_t items = 0;
  for (uint32_t i = 0; i < e->slice_count; i++) {
    if (e->slices[i].kind == SLICE_REST)
      return;
    items += e->slices[i].kind == SLICE_AT || e->slices[i].kind == SLICE_RANGE;
  }
  if (items == s->rank && is_param(s, e->arg[0]))
    found(s, e,
          arena_printf(s->c->arena, "%s here: an item for each",
                       axes(s->c, items)));
}

static bool has_rank(Checker *c, Type *t, uint32_t rank) {
  t = ty_root(t);
  if (t->tag != TY_TENSOR)
    return false;
  Shape *shape = shape_norm(c, t->shape);
  return shape_known_rank(shape) && shape->len == rank;
}

/* "nn.conv2d wants 4 axes" */
static const char *called(const Search *s, const Expr *e) {
  while (e->kind == EX_APP)
    e = e->arg[0];
  const char *name = error_written(s->c, e->span);
  return arena_printf(s->c->arena, "%s wants %s", name ? name : "this",
                      axes(s->c, s->rank));
}

/* The arguments of an application, one after the other, against the declared
 * type of what is called; the type that is left. */
static Type *look_args(Search *s, const Expr *e) {
  const Expr *head = e->arg[0];
  Type *t;
  if (head->kind == EX_APP)
    t = look_args(s, head);
  else
    t = head->means && head->means->scheme && !head->means->recursive
            ? ty_root(head->means->scheme->type)
            : NULL;
  for (uint32_t i = 0; i < e->arg_count && t && !s->at; i++) {
    if (e->args[i].label)
      continue;
    while (t->tag == TY_FUN && t->label)
      t = ty_root(t->arg[1]);
    if (t->tag != TY_FUN)
      return NULL;
    if (is_param(s, e->args[i].expr) && has_rank(s->c, t->arg[0], s->rank))
      found(s, e->args[i].expr, called(s, e));
    t = ty_root(t->arg[1]);
  }
  return t;
}

static void look(void *search, Expr *e) {
  Search *s = search;
  if (s->at)
    return;
  if (e->kind == EX_INDEX)
    look_index(s, e);
  else if (e->kind == EX_APP)
    look_args(s, e);
  else if (e->kind == EX_BIN && e->call)
    look_args(s, e->call);
  if (!s->at)
    expr_each_part(e, look, s);
}

/* The name that an argument is given in the body; NULL: a pattern takes it
 * apart, or an annotation says how many axes it has. */
static const Pat *param_of(const Clause *k, const Origin *o) {
  uint32_t number = 0;
  for (uint32_t i = 0; i < k->param_count; i++) {
    const Param *p = &k->params[i];
    bool it = p->label ? o->label == p->label : ++number == o->number;
    if (it && (!p->label || o->label))
      return p->pat && p->pat->kind == PAT_VAR ? p->pat : NULL;
  }
  return NULL;
}

void error_demand(Checker *c, Diag *d, const Origin *o, const char *path,
                  Type *want) {
  const Expr *head = o->head;
  while (head && head->kind == EX_APP)
    head = head->arg[0];
  Shape *shape = error_shape(c, want);
  if (o->kind != OR_ARG || !head || !head->means || !head->means->clause ||
      !shape || !shape_known_rank(shape))
    return;
  const Clause *k = head->means->clause;
  const Pat *param = param_of(k, o);
  if (!param || !error_written(c, param->span))
    return;
  Search s = {.c = c, .span = param->span, .path = path, .rank = shape->len};
  look(&s, k->body);
  if (!s.at)
    return;
  diag_mark(c->arena, d, s.at->span, s.says);
  if (s.at->kind == EX_INDEX && !d->help)
    d->help = "an index with `...` leaves other axes as they are: x.[i, ...]";
}
