/* Types as people read them.  Variables without a name of the user's get
 * short fresh ones, in the order in which they appear. */
#include "typecheck/internal.h"

#include <string.h>

typedef struct Joining { /* a join that is being printed */
  const ShapeVar *var;
  const struct Joining *outer;
} Joining;

struct Names {
  Map named;          /* variables that have got their text */
  VEC(const char *) used;
  uint32_t next_dim, next_shape, next_elem;
};

struct Printer {
  Checker *c;
  Buffer out;
  Scheme *scheme;
  Names *names;
  const Map *apart; /* see ty_text_apart; or NULL */
  bool claiming; /* a first round, for those with names alone */
  bool choosing; /* what is undetermined is what it would be at top level */
  const Joining *joining;
};

static bool taken(Printer *p, const char *name) {
  for (uint32_t i = 0; i < p->names->used.len; i++)
    if (strcmp(p->names->used.at[i], name) == 0)
      return true;
  return p->apart && map_get(p->apart, intern_text(p->c->in, name));
}

static const char *claim(Printer *p, const char *name) {
  VEC_PUSH(p->c->arena, p->names->used, name);
  return name;
}

/* The i-th of "nmkpqdh..." and then n1, n2, ... */
static const char *fresh(Printer *p, const char *letters, uint32_t *next,
                         const char *prefix) {
  for (;;) {
    uint32_t i = (*next)++;
    size_t n = strlen(letters);
    const char *name =
        i < n ? arena_printf(p->c->arena, "%s%c", prefix, letters[i])
              : arena_printf(p->c->arena, "%s%c%u", prefix, letters[0],
                             i - (uint32_t)n + 1);
    if (!taken(p, name))
      return claim(p, name);
  }
}

static const char *wanted(Printer *p, Sym *name, const char *prefix) {
  if (!name)
    return NULL;
  const char *text = arena_printf(p->c->arena, "%s%s", prefix, name->text);
  if (!taken(p, text))
    return claim(p, text);
  for (uint32_t i = 1;; i++) {
    const char *more = arena_printf(p->c->arena, "%s%u", text, i);
    if (!taken(p, more))
      return claim(p, more);
  }
}

/* While the user's names are taken, others have none. */
static bool not_yet(const Printer *p, const Sym *name, const char **text) {
  if (!p->claiming || name)
    return false;
  *text = "";
  return true;
}

static void name_dim(void *arg, DimVar *v) {
  Printer *p = arg;
  if (map_get(&p->names->named, v) || not_yet(p, v->name, &v->text))
    return;
  map_put(&p->names->named, v, v);
  if (v->top)
    v->text = "?";
  else if (v->kind == DV_DATA)
    v->text = v->name ? wanted(p, v->name, "?")
                      : fresh(p, "nmkpq", &p->names->next_dim, "?");
  else if (v->name && p->apart && map_get(p->apart, v->name) == v)
    v->text = v->name->text;
  else
    v->text = v->name ? wanted(p, v->name, "")
                      : fresh(p, "nmkpqdhwbcef", &p->names->next_dim, "");
}

static void name_shape(void *arg, ShapeVar *v) {
  Printer *p = arg;
  if (map_get(&p->names->named, v) || not_yet(p, v->name, &v->text))
    return;
  map_put(&p->names->named, v, v);
  v->text = v->name ? wanted(p, v->name, "")
                    : fresh(p, "stuvwxyz", &p->names->next_shape, "");
}

static void name_elem(void *arg, ElemVar *v) {
  Printer *p = arg;
  if (map_get(&p->names->named, v) || not_yet(p, v->name, &v->text))
    return;
  map_put(&p->names->named, v, v);
  v->text = v->name ? wanted(p, v->name, "")
                    : fresh(p, "abcdefgh", &p->names->next_elem, "'");
}

static void name_ty(void *arg, TyVar *v) {
  Printer *p = arg;
  if (map_get(&p->names->named, v) || not_yet(p, v->name, &v->text))
    return;
  map_put(&p->names->named, v, v);
  v->text = v->name ? wanted(p, v->name, "")
                    : fresh(p, "abcdefgh", &p->names->next_elem, "'");
}

static Visit namer(Printer *p) {
  return (Visit){.ty = name_ty, .elem = name_elem, .dim = name_dim,
                 .shape = name_shape, .arg = p, .c = p->c};
}

/* ---- shapes ---- */

static void put_dim(Printer *p, Dim *d0) {
  Dim *d = dim_resolve(p->c->dims, d0);
  if (dim_has_top(d)) {
    buffer_putc(&p->out, '?');
    return;
  }
  Visit v = namer(p);
  dim_visit(&v, d);
  dim_print(p->c->dims, &p->out, d);
}

static void put_shape(Printer *p, const Shape *s);

/* The arguments of a join: s, or [n, m]. */
static void put_joined(Printer *p, const Constraint *k) {
  for (uint32_t i = 0; i < k->join_count; i++) {
    if (i)
      buffer_puts(&p->out, ", ");
    Shape *s = shape_norm(p->c, k->joined[i]);
    if (s->len == 1 && s->at[0].tag == IT_SPLICE) {
      name_shape(p, s->at[0].var);
      buffer_puts(&p->out, s->at[0].var->text);
    } else {
      buffer_putc(&p->out, '[');
      put_shape(p, s);
      buffer_putc(&p->out, ']');
    }
  }
}

static bool is_joining(const Printer *p, const ShapeVar *v) {
  const Joining *j = p->joining;
  while (j && j->var != v)
    j = j->outer;
  return j != NULL;
}

/* A splice that a join of the scheme defines prints as that join; within it by
 * its name: a state that a loop makes larger joins with itself. */
static bool put_join(Printer *p, ShapeVar *v) {
  Scheme *s = is_joining(p, v) ? NULL : p->scheme;
  Joining inner = {v, p->joining};
  for (uint32_t i = 0; s && i < s->given_count; i++) {
    Constraint *k = s->given[i];
    if (k->kind != CN_JOIN)
      continue;
    Shape *r = shape_norm(p->c, k->a);
    if (r->len != 1 || r->at[0].tag != IT_SPLICE || r->at[0].var != v)
      continue;
    buffer_puts(&p->out, "...join(");
    p->joining = &inner;
    put_joined(p, k);
    p->joining = inner.outer;
    buffer_putc(&p->out, ')');
    return true;
  }
  return false;
}

static void put_shape(Printer *p, const Shape *s0) {
  Shape *s = shape_norm(p->c, s0);
  for (uint32_t i = 0; i < s->len; i++) {
    if (i)
      buffer_puts(&p->out, ", ");
    switch (s->at[i].tag) {
    case IT_DIM:
      put_dim(p, s->at[i].dim);
      break;
    case IT_STAR:
      buffer_putc(&p->out, '*');
      break;
    case IT_SPLICE:
      if (put_join(p, s->at[i].var))
        break;
      name_shape(p, s->at[i].var);
      buffer_printf(&p->out, "...%s", s->at[i].var->text);
      break;
    }
  }
}

/* A shape as an argument of shape(...), axis(...): a name alone stands for a
 * splice. */
static void put_shape_arg(Printer *p, const Shape *s0) {
  Shape *s = shape_norm(p->c, s0);
  if (s->len == 1 && s->at[0].tag == IT_SPLICE &&
      s->at[0].var->fixed != 1) {
    name_shape(p, s->at[0].var);
    buffer_puts(&p->out, s->at[0].var->text);
  } else if (s->len == 1 && s->at[0].tag == IT_DIM) {
    put_dim(p, s->at[0].dim);
  } else {
    buffer_putc(&p->out, '[');
    put_shape(p, s);
    buffer_putc(&p->out, ']');
  }
}

/* ---- types ---- */

enum { PREC_FUN, PREC_TUPLE, PREC_POST };

static void put_type(Printer *p, Type *t, int prec);

/* What an element type is, or will be by default: DT_NONE while open. */
static Dtype settled(const Printer *p, const ElemVar *e) {
  if (e->dtype != DT_NONE)
    return e->dtype;
  if (p->choosing)
    return elem_choice(e);
  if (e->rigid || !e->prefer)
    return DT_NONE;
  return e->prefer == 1 && (e->classes & 1u << DT_I64) ? DT_I64
         : e->classes & CLASS_FLOAT                    ? DT_F32
                                                       : DT_NONE;
}

static void put_elem(Printer *p, ElemVar *e) {
  e = elem_root(e);
  if (settled(p, e) != DT_NONE) {
    buffer_puts(&p->out, dtype_info[settled(p, e)].name);
    return;
  }
  name_elem(p, e);
  buffer_puts(&p->out, e->text);
}

static void put_tensor(Printer *p, Type *t) {
  Shape *s = shape_norm(p->c, t->shape);
  ElemVar *e = elem_root(t->elem);
  if (!s->len && settled(p, e) == DT_I64) {
    Dim *d = term_of(p->c, t);
    if (!d) {
      buffer_puts(&p->out, "int");
      return;
    }
    buffer_puts(&p->out, "dim(");
    put_dim(p, d);
    buffer_putc(&p->out, ')');
    return;
  }
  put_elem(p, e);
  if (s->len || settled(p, e) == DT_NONE) {
    buffer_putc(&p->out, '[');
    put_shape(p, s);
    buffer_putc(&p->out, ']');
  }
}

static void put_fun(Printer *p, Type *t, int prec) {
  if (prec > PREC_FUN)
    buffer_putc(&p->out, '(');
  if (t->label)
    buffer_printf(&p->out, "%c%s:", t->optional ? '?' : '~', t->label->text);
  put_type(p, t->arg[0], PREC_TUPLE);
  buffer_puts(&p->out,
              effect_root(t->effect)->tag == EF_EFFECT ? " ->! " : " -> ");
  put_type(p, t->arg[1], PREC_FUN);
  if (prec > PREC_FUN)
    buffer_putc(&p->out, ')');
}

static void put_record(Printer *p, Type *t) {
  buffer_putc(&p->out, '{');
  bool first = true;
  while (t && t->tag == TY_RECORD) {
    for (uint32_t i = 0; i < t->count; i++) {
      buffer_printf(&p->out, "%s%s : ", first ? "" : ", ",
                    t->labels[i]->text);
      put_type(p, t->args[i], PREC_FUN);
      first = false;
    }
    t = t->arg[0] ? ty_root(t->arg[0]) : NULL;
  }
  if (t)
    buffer_puts(&p->out, first ? "..." : ", ...");
  buffer_putc(&p->out, '}');
}

static void put_data(Printer *p, Type *t) {
  if (t->count == 1) {
    put_type(p, t->args[0], PREC_POST);
    buffer_putc(&p->out, ' ');
  } else if (t->count > 1) {
    buffer_putc(&p->out, '(');
    for (uint32_t i = 0; i < t->count; i++) {
      if (i)
        buffer_puts(&p->out, ", ");
      put_type(p, t->args[i], PREC_FUN);
    }
    buffer_puts(&p->out, ") ");
  }
  if (t->data->module && t->data->module->len)
    buffer_printf(&p->out, "%s.", t->data->module->text);
  buffer_puts(&p->out, t->data->name->text);
  if (t->data->dim_arity) {
    buffer_putc(&p->out, '[');
    for (uint32_t i = 0; i < t->data->dim_arity; i++) {
      if (i)
        buffer_puts(&p->out, ", ");
      put_dim(p, t->dims[i]);
    }
    buffer_putc(&p->out, ']');
  }
}

static void put_call(Printer *p, const char *name, Shape **args, int n) {
  buffer_printf(&p->out, "%s(", name);
  for (int i = 0; i < n; i++) {
    if (i)
      buffer_puts(&p->out, ", ");
    put_shape_arg(p, args[i]);
  }
  buffer_putc(&p->out, ')');
}

static void put_type(Printer *p, Type *t, int prec) {
  t = ty_norm(p->c, t);
  if (t->alias) {
    buffer_puts(&p->out, t->alias->text);
    for (uint32_t i = 0; i < t->alias_count; i++) {
      buffer_puts(&p->out, i ? ", " : "[");
      put_dim(p, t->alias_dims[i]);
    }
    buffer_puts(&p->out, t->alias_count ? "]" : "");
    return;
  }
  switch (t->tag) {
  case TY_VAR:
    name_ty(p, t->var);
    buffer_puts(&p->out, t->var->text);
    return;
  case TY_TENSOR:
    put_tensor(p, t);
    return;
  case TY_FUN:
    put_fun(p, t, prec);
    return;
  case TY_TUPLE:
    if (!t->count) {
      buffer_puts(&p->out, "unit");
      return;
    }
    if (prec > PREC_TUPLE)
      buffer_putc(&p->out, '(');
    for (uint32_t i = 0; i < t->count; i++) {
      if (i)
        buffer_puts(&p->out, " * ");
      put_type(p, t->args[i], PREC_POST);
    }
    if (prec > PREC_TUPLE)
      buffer_putc(&p->out, ')');
    return;
  case TY_RECORD:
    put_record(p, t);
    return;
  case TY_DATA:
    put_data(p, t);
    return;
  case TY_SHAPE:
    if (shape_norm(p->c, t->shape)->len == 1) {
      put_call(p, "shape", &t->shape, 1);
      return;
    }
    buffer_puts(&p->out, "shape(");
    put_shape(p, t->shape);
    buffer_putc(&p->out, ')');
    return;
  case TY_AXIS:
    put_call(p, "axis", t->axis, 3);
    return;
  case TY_KEEP:
    put_call(p, "keep", t->axis, 2);
    return;
  case TY_LIFT:
    buffer_puts(&p->out, "lift(");
    put_dim(p, t->dim);
    buffer_puts(&p->out, ", ");
    put_type(p, t->arg[0], PREC_FUN);
    buffer_putc(&p->out, ')');
    return;
  }
}

/* ---- given ---- */

static void put_relation(Printer *p, Dim *a, const char *op, Dim *b) {
  put_dim(p, a);
  buffer_printf(&p->out, " %s ", op);
  put_dim(p, b);
}

/* 0 <= h - k reads better as k <= h: negative terms change sides. */
static void put_le(Printer *p, Dim *a, Dim *b) {
  Checker *c = p->c;
  Dim *d = dim_resolve(c->dims, dim_sub(c->dims, b, a));
  Dim *left, *right;
  dim_split_signs(c->dims, d, &right, &left);
  put_relation(p, left, "<=", right);
}

/* n/4 == 2*(n/8) is n/4 % 2 == 0: the parts of that. */
static bool put_remainder(Printer *p, Dim *d) {
  Checker *c = p->c;
  Dim *part[2];
  if (!dim_is_remainder(c->dims, d, &part[0], &part[1]) ||
      !dim_cancels(c->dims, part[1]))
    return false;
  for (int i = 0; i < 2; i++) {
    Buffer text = {.arena = c->arena};
    dim_print(c->dims, &text, part[i]);
    bool alone = !strpbrk(text.text, i ? " */" : " ");
    buffer_printf(&p->out, alone ? "%s" : "(%s)", text.text);
    buffer_puts(&p->out, i ? " == 0" : " % ");
  }
  return true;
}

static size_t length(Checker *c, Dim *a, Dim *b) {
  Buffer text = {.arena = c->arena};
  dim_print(c->dims, &text, a);
  dim_print(c->dims, &text, b);
  return text.len;
}

/* 5 == n/2 + 3 reads better as 2 == n/2.  The constraint keeps the sides that
 * the user knows. */
static void drop_shared(Checker *c, Dim **a, Dim **b) {
  Dim *left, *right;
  if (!dim_share_term(*a, *b))
    return;
  dim_split_signs(c->dims, dim_sub(c->dims, *a, *b), &left, &right);
  int64_t n;
  bool none = (dim_is_int(left, &n) && !n) || (dim_is_int(right, &n) && !n);
  if (!none && length(c, left, right) < length(c, *a, *b))
    *a = left, *b = right;
}

/* d*(n/d) == n reads better as n % d == 0. */
static void put_eq(Printer *p, Dim *a, Dim *b) {
  Checker *c = p->c;
  for (int turn = 0; turn < 2; turn++) {
    Dim *d = dim_resolve(c->dims, turn ? dim_sub(c->dims, a, b)
                                       : dim_sub(c->dims, b, a));
    Buffer text = {.arena = c->arena};
    Visit v = namer(p);
    dim_visit(&v, d);
    if (put_remainder(p, d))
      return;
    dim_print(c->dims, &text, d);
    bool mod = strchr(text.text, '%') && text.text[0] != '-';
    if (mod)
      buffer_printf(&p->out, "%s == 0", text.text);
    if (mod)
      return;
  }
  a = dim_resolve(c->dims, a), b = dim_resolve(c->dims, b);
  drop_shared(c, &a, &b);
  put_relation(p, a, "==", b);
}

/* What more is known of a join than that it is one. */
static void put_join_result(Printer *p, const Constraint *k) {
  Shape *s = shape_norm(p->c, k->a);
  if (s->len == 1 && s->at[0].tag == IT_SPLICE)
    return;
  buffer_puts(&p->out, " == [");
  put_shape(p, s);
  buffer_putc(&p->out, ']');
}

typedef struct Unnamed {
  Printer *p;
  bool found;
} Unnamed;

static void unnamed_dim(void *arg, DimVar *v) {
  Unnamed *u = arg;
  u->found |= v->kind == DV_INDEX ||
              (v->level == LEVEL_GENERIC && !map_get(&u->p->names->named, v));
}

/* A condition that no caller can tell, as on a number that need be no size, is
 * left out: what is asked under it is asked. */
static bool can_tell(Printer *p, const Fact *f) {
  Unnamed u = {p, false};
  dim_each_var(dim_resolve(p->c->dims, f->dim), unnamed_dim, NULL, &u);
  return !f->index && !f->known && !u.found;
}

static void put_constraint(Printer *p, Constraint *k) {
  switch (k->kind) {
  case CN_DIM_EQ:
    put_eq(p, k->left, k->right);
    break;
  case CN_DIM_LE:
    put_le(p, k->left, k->right);
    break;
  case CN_DIM_NE:
    put_relation(p, k->left, "!=", k->right);
    break;
  case CN_SHAPE_EQ:
    buffer_putc(&p->out, '[');
    put_shape(p, k->a);
    buffer_puts(&p->out, "] == [");
    put_shape(p, k->b);
    buffer_putc(&p->out, ']');
    break;
  case CN_JOIN:
    buffer_puts(&p->out, "join(");
    put_joined(p, k);
    buffer_putc(&p->out, ')');
    put_join_result(p, k);
    break;
  case CN_KEEP:
    put_call(p, "keep", (Shape *[]){k->a, k->b}, 2);
    break;
  }
  bool first = true;
  for (Fact *f = k->facts; f; f = f->outer) {
    if (!p->claiming && !can_tell(p, f))
      continue;
    buffer_puts(&p->out, first ? " if " : " && ");
    first = false;
    Dim *zero = dim_int(p->c->dims, 0);
    if (f->eq || f->ne) {
      Dim *pos, *neg;
      dim_split_signs(p->c->dims, dim_resolve(p->c->dims, f->dim), &pos,
                      &neg);
      put_relation(p, pos, f->eq ? "==" : "!=", neg);
    } else {
      put_le(p, zero, f->dim);
    }
  }
}

typedef struct Reach {
  Printer *p;
  VEC(ElemVar *) elems;
  ShapeVar *look;
  bool found;
} Reach;

static void reach_elem(void *arg, ElemVar *e) {
  Reach *r = arg;
  for (uint32_t i = 0; i < r->elems.len; i++)
    if (r->elems.at[i] == e)
      return;
  VEC_PUSH(r->p->c->arena, r->elems, e);
}

static void reach_shape(void *arg, ShapeVar *v) {
  Reach *r = arg;
  r->found |= v == r->look;
}

/* Is the splice that a join defines part of the type itself? */
static bool join_shows(Printer *p, Constraint *k, Type *t) {
  Shape *s = shape_norm(p->c, k->a);
  if (s->len != 1 || s->at[0].tag != IT_SPLICE)
    return false;
  Reach r = {.p = p, .look = s->at[0].var};
  Visit v = {.shape = reach_shape, .arg = &r, .c = p->c};
  ty_visit(&v, t);
  return r.found;
}

static const char *class_name(uint32_t classes) {
  if (classes == CLASS_NUM)
    return "num";
  if (classes == CLASS_INT)
    return "int";
  if (classes == CLASS_FLOAT)
    return "float";
  return NULL;
}

static void put_given(Printer *p, Type *t) {
  bool any = false;
  Reach r = {.p = p};
  Visit v = {.elem = reach_elem, .arg = &r, .c = p->c};
  ty_visit(&v, t);
  Scheme *s = p->scheme;
  for (uint32_t i = 0; s && i < s->given_count; i++) {
    Constraint *k = s->given[i];
    if (k->enough || (k->kind == CN_JOIN && join_shows(p, k, t)))
      continue; /* nobody has to make sure of what is merely enough */
    buffer_puts(&p->out, any ? ", " : " given ");
    any = true;
    put_constraint(p, k);
  }
  for (uint32_t i = 0; i < r.elems.len; i++) {
    const char *name = class_name(r.elems.at[i]->classes);
    if (!name || r.elems.at[i]->level != LEVEL_GENERIC)
      continue;
    buffer_printf(&p->out, "%s%s : %s", any ? ", " : " given ",
                  r.elems.at[i]->text, name);
    any = true;
  }
}

static const char *finish(Printer *p) {
  return p->out.text ? p->out.text : "";
}

static Names *names_new(Checker *c) {
  Names *names = NEW(c->arena, Names);
  map_init(&names->named, c->arena);
  return names;
}

/* Of a type that stands for itself. */
static Printer own_printer(Checker *c) {
  return (Printer){.c = c, .out.arena = c->arena, .names = names_new(c)};
}

/* Of a part of a message, in which one variable has one name. */
static Printer printer(Checker *c) {
  Printer p = {.c = c, .out.arena = c->arena};
  p.names = c->names ? c->names : names_new(c);
  return p;
}

/* The user's names are taken before fresh ones are chosen. */
static void claim_names(Printer *p, Type *t) {
  p->claiming = true;
  put_type(p, t, PREC_FUN);
  p->claiming = false;
  p->out.len = 0;
  p->names->next_shape = p->names->next_elem = 0;
}

Names *names_share(Checker *c) {
  Names *before = c->names;
  if (!before)
    c->names = names_new(c);
  return before;
}

void names_claim(Checker *c, Type *t) {
  Printer p = printer(c);
  claim_names(&p, t);
}

void names_claim_dim(Checker *c, Dim *d) {
  Printer p = printer(c);
  p.claiming = true;
  put_dim(&p, d);
}

const char *ty_text(Checker *c, Type *t) {
  Printer p = printer(c);
  claim_names(&p, t);
  put_type(&p, t, PREC_FUN);
  return finish(&p);
}

const char *ty_text_apart(Checker *c, Scheme *around, Type *t,
                          const Map *apart) {
  Printer p = printer(c);
  p.apart = apart;
  p.scheme = around;
  claim_names(&p, around ? around->type : t);
  if (around) {
    put_type(&p, around->type, PREC_FUN);
    put_given(&p, around->type);
    p.out.len = 0;
  }
  put_type(&p, t, PREC_FUN);
  return finish(&p);
}

const char *ty_text_within(Checker *c, Scheme *around, Type *t) {
  return ty_text_apart(c, around, t, NULL);
}

const char *scheme_text(Checker *c, Scheme *s) {
  Printer p = own_printer(c);
  p.scheme = s;
  claim_names(&p, s->type);
  put_type(&p, s->type, PREC_FUN);
  put_given(&p, s->type);
  return finish(&p);
}

Printer *printer_new(Checker *c, Scheme *s, bool choosing) {
  Printer *p = NEW(c->arena, Printer);
  *p = own_printer(c);
  p->scheme = s;
  p->choosing = choosing;
  claim_names(p, s->type);
  put_type(p, s->type, PREC_FUN);
  return p;
}

const char *printer_type(Printer *p, Type *t) {
  p->out.len = 0;
  put_type(p, t, PREC_FUN);
  return arena_text(p->c->arena, p->out.text, p->out.len);
}

const char *printer_dim(Printer *p, Dim *d) {
  p->out.len = 0;
  put_dim(p, d);
  return arena_text(p->c->arena, p->out.text, p->out.len);
}

const char *given_text(Checker *c, Scheme *s, Constraint *given) {
  Printer p = own_printer(c);
  p.scheme = s;
  put_type(&p, s->type, PREC_FUN);
  size_t start = p.out.len;
  put_constraint(&p, given);
  return arena_text(c->arena, p.out.text + start, p.out.len - start);
}

const char *shape_text(Checker *c, const Shape *s) {
  Printer p = printer(c);
  buffer_putc(&p.out, '[');
  put_shape(&p, s);
  buffer_putc(&p.out, ']');
  return finish(&p);
}

void dims_text(Checker *c, Dim *a, Dim *b, const char **x, const char **y) {
  Printer p = printer(c);
  put_dim(&p, a);
  size_t len = p.out.len;
  put_dim(&p, b);
  *x = arena_text(c->arena, p.out.text, len);
  *y = arena_text(c->arena, p.out.text + len, p.out.len - len);
}

const char *dim_text_of(Checker *c, Dim *d) {
  Printer p = printer(c);
  put_dim(&p, d);
  return finish(&p);
}

/* ---- arithmetic ---- */

/* A number that stays as it is written: 3 * 3, not 9. */
static Dim *number(Checker *c, int64_t n) {
  DimVar *v = dim_new_var(c->dims, DV_RIGID, NULL, (Span){0});
  v->text = arena_printf(c->arena, "%lld", (long long)n);
  return dim_of_var(c->dims, v);
}

/* Solved variables become their numbers; 0 and 1 just vanish. */
static Dim *as_number(void *arg, DimVar *v) {
  Checker *c = arg;
  if (v->kind != DV_META || !v->bound || v->top)
    return NULL;
  Dim *d = dim_resolve(c->dims, dim_of_var(c->dims, v));
  int64_t n;
  if (!dim_is_int(d, &n) || n == 0 || n == 1)
    return d;
  return number(c, n);
}

static const char *factor_text(Checker *c, Dim *d) {
  d = dim_resolve(c->dims, d);
  const char *text = dim_text_of(c, d);
  return dim_as_var(d) || dim_is_const(d)
             ? text
             : arena_printf(c->arena, "(%s)", text);
}

static Dim *as_numbers(void *arg, ShapeVar *v) {
  Checker *c = arg;
  if (!v->bound)
    return NULL;
  Shape *s = shape_norm(c, v->bound);
  Dim *product = dim_int(c->dims, 1);
  for (uint32_t i = 0; i < s->len; i++) {
    DimVar *number = dim_new_var(c->dims, DV_RIGID, NULL, (Span){0});
    number->text = s->at[i].tag == IT_DIM ? factor_text(c, s->at[i].dim) : "1";
    product =
        dim_mul(c->dims, product, dim_of_var(c->dims, number));
  }
  return product;
}

static Dim *in_numbers(Checker *c, Dim *d) {
  return dim_subst(c->dims, d, as_number, as_numbers, c);
}

/* Of a product, what each factor has come to: 64 * 13 * 13. */
static Dim *product_in_numbers(Checker *c, Dim *d) {
  Dim *factors[DIM_FACTORS], *whole = dim_int(c->dims, 1);
  if (!dim_is_const(dim_resolve(c->dims, d)))
    return in_numbers(c, d);
  uint32_t count = dim_factor(c->dims, d, factors);
  if (count < 2)
    return in_numbers(c, d);
  for (uint32_t i = 0; i < count; i++) {
    int64_t n;
    bool computed = !dim_as_var(factors[i]) && !dim_is_const(factors[i]) &&
                    dim_is_int(dim_resolve(c->dims, factors[i]), &n) && n > 1;
    whole = dim_mul(c->dims, whole,
                    computed ? number(c, n) : in_numbers(c, factors[i]));
  }
  return whole;
}

/* a <= b, of numbers as they came about and without what both sides have:
 * k*d + 1 <= l + d of k = 10, l = d = 1 is "10" and "1". */
void order_text(Checker *c, Dim *a, Dim *b, const char **x, const char **y) {
  dims_text(c, a, b, x, y);
  if (!dim_is_const(dim_resolve(c->dims, a)) ||
      !dim_is_const(dim_resolve(c->dims, b)))
    return;
  Dim *pos, *neg, *d = dim_sub(c->dims, b, a);
  d = dim_subst(c->dims, d, as_number, as_numbers, c);
  if (dim_is_const(d))
    return;
  dim_split_signs(c->dims, d, &pos, &neg);
  Buffer text = {.arena = c->arena};
  dim_print(c->dims, &text, neg);
  size_t len = text.len;
  dim_print(c->dims, &text, pos);
  *x = arena_text(c->arena, text.text, len);
  *y = arena_text(c->arena, text.text + len, text.len - len);
}

const char *dim_arithmetic(Checker *c, Dim *d) {
  if (dim_as_var(d) || dim_is_const(d))
    return NULL;
  Dim *shown = product_in_numbers(c, d);
  if (dim_as_var(shown) || dim_is_const(shown))
    return NULL;
  Buffer text = {.arena = c->arena};
  dim_print(c->dims, &text, shown);
  const char *result = dim_text_of(c, d);
  return strcmp(text.text, result) == 0
             ? NULL
             : arena_printf(c->arena, "%s = %s", text.text, result);
}
