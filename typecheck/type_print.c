/* Prints types for users.  Main entry points: ty_text_within and printer_type.
   Variables without a name in the program get short new names in order of
   appearance. */
#include "typecheck/types.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/intern.h"

#include <inttypes.h>
#include <string.h>

typedef struct BroadcastFrame { /* a broadcast that is being printed */
  const ShapeVar *var;
  const struct BroadcastFrame *outer;
} BroadcastFrame;

struct VarNames {
  Map named; /* variables whose names are already chosen */
  Map used;  /* set of their names, as Sym */
  uint32_t next_dim, next_shape, next_elem;
};

struct TypePrinter {
  Checker *c;
  Buffer out;
  Scheme *scheme;
  VarNames *names;
  const Map *avoided_names; /* NULL, or see ty_text_avoiding */
  bool reserving;      /* first pass: only reserves names from the program */
  bool apply_defaults; /* print undetermined variables as their top-level
                          defaults */
  const BroadcastFrame *broadcasts;
  Map sizes; /* texts of sizes: the sizes of a type mostly occur several times
              */
};

/* ---- text: the first pass has none ---- */

static void put(TypePrinter *p, const char *text) {
  if (!p->reserving)
    buffer_puts(&p->out, text);
}

static void put_char(TypePrinter *p, char c) {
  if (!p->reserving)
    buffer_putc(&p->out, c);
}

/* ---- names ---- */

static bool is_name_taken(TypePrinter *p, const char *name) {
  Sym *sym = intern_string(p->c->interner, name);
  return map_get(&p->names->used, sym) ||
         (p->avoided_names && map_get(p->avoided_names, sym));
}

static const char *reserve_name(TypePrinter *p, const char *name) {
  Sym *sym = intern_string(p->c->interner, name);
  map_put(&p->names->used, sym, sym);
  return sym->text;
}

/* Writes the i-th name of "nmkpqdh...", then n1, n2, ...  Types with thousands
   of variables are printed: printf would take most of the time. */
static void write_name(char *out, const char *letters, uint32_t i,
                       const char *prefix) {
  uint32_t count = (uint32_t)strlen(letters);
  while (*prefix)
    *out++ = *prefix++;
  *out++ = letters[i < count ? i : 0];
  if (i >= count) {
    uint32_t number = i - count + 1, scale = 1;
    while (number / scale >= 10)
      scale *= 10;
    for (; scale; scale /= 10)
      *out++ = (char)('0' + number / scale % 10);
  }
  *out = 0;
}

static const char *fresh_name(TypePrinter *p, const char *letters,
                              uint32_t *next, const char *prefix) {
  char name[16]; /* a prefix of one character, a letter, ten digits */
  do
    write_name(name, letters, (*next)++, prefix);
  while (is_name_taken(p, name));
  return reserve_name(p, name);
}

static const char *user_name(TypePrinter *p, Sym *name, const char *prefix) {
  if (!name)
    return NULL;
  const char *text = arena_printf(p->c->arena, "%s%s", prefix, name->text);
  if (!is_name_taken(p, text))
    return reserve_name(p, text);
  for (uint32_t i = 1;; i++) {
    const char *more = arena_printf(p->c->arena, "%s%u", text, i);
    if (!is_name_taken(p, more))
      return reserve_name(p, more);
  }
}

/* During the first pass, variables without a name from the program stay
   unnamed. */
static bool postpone_name(const TypePrinter *p, const Sym *name,
                          const char **text) {
  if (!p->reserving || name)
    return false;
  *text = "";
  return true;
}

static const char DIM_LETTERS[] = "nmkpqdhwbcef";

static void name_dim(void *arg, DimVar *v) {
  TypePrinter *p = arg;
  if (map_get(&p->names->named, v) ||
      postpone_name(p, v->name, &v->printed_name))
    return;
  map_put(&p->names->named, v, v);
  if (v->unknown)
    v->printed_name = "?";
  else if (v->kind == DV_EXISTENTIAL)
    v->printed_name = v->name
                          ? user_name(p, v->name, "?")
                          : fresh_name(p, "nmkpq", &p->names->next_dim, "?");
  else if (v->name && p->avoided_names &&
           map_get(p->avoided_names, v->name) == v)
    v->printed_name = v->name->text;
  else
    v->printed_name = v->name
                          ? user_name(p, v->name, "")
                          : fresh_name(p, DIM_LETTERS, &p->names->next_dim, "");
}

static void name_shape(void *arg, ShapeVar *v) {
  TypePrinter *p = arg;
  if (map_get(&p->names->named, v) ||
      postpone_name(p, v->name, &v->printed_name))
    return;
  map_put(&p->names->named, v, v);
  v->printed_name = v->name ? user_name(p, v->name, "")
                    : v->fixed_rank == 1
                        ? fresh_name(p, DIM_LETTERS, &p->names->next_dim, "")
                        : fresh_name(p, "stuvwxyz", &p->names->next_shape, "");
}

static void name_elem(void *arg, ElemVar *v) {
  TypePrinter *p = arg;
  if (map_get(&p->names->named, v) ||
      postpone_name(p, v->name, &v->printed_name))
    return;
  map_put(&p->names->named, v, v);
  v->printed_name = v->name
                        ? user_name(p, v->name, "")
                        : fresh_name(p, "abcdefgh", &p->names->next_elem, "'");
}

static void name_ty(void *arg, TyVar *v) {
  TypePrinter *p = arg;
  if (map_get(&p->names->named, v) ||
      postpone_name(p, v->name, &v->printed_name))
    return;
  map_put(&p->names->named, v, v);
  v->printed_name = v->name
                        ? user_name(p, v->name, "")
                        : fresh_name(p, "abcdefgh", &p->names->next_elem, "'");
}

static TypeVisitor naming_visit(TypePrinter *p) {
  return (TypeVisitor){.ty = name_ty,
                       .elem = name_elem,
                       .dim = name_dim,
                       .shape = name_shape,
                       .arg = p,
                       .c = p->c};
}

/* ---- shapes ---- */

/* The text of a resolved size; empty during the first pass. */
static const char *size_text(TypePrinter *p, Dim *d) {
  if (dim_has_unknown(d))
    return "?";
  TypeVisitor v = naming_visit(p);
  dim_visit(&v, d);
  const DimVar *var = dim_as_var(d);
  if (p->reserving || var)
    return p->reserving ? "" : dim_var_name(p->c->dims, var);
  Buffer text = {.arena = p->c->arena};
  dim_print(p->c->dims, &text, d);
  return text.text;
}

static void put_dim(TypePrinter *p, Dim *d0) {
  Dim *d = dim_resolve(p->c->dims, d0);
  const char *text = map_get(&p->sizes, d);
  if (!text)
    map_put(&p->sizes, d, (void *)(text = size_text(p, d)));
  put(p, text);
}

static void put_shape(TypePrinter *p, const Shape *s);

/* Prints the arguments of a broadcast: s, or [n, m]. */
static void put_broadcast_args(TypePrinter *p, const Constraint *k) {
  for (uint32_t i = 0; i < k->broadcast_arg_count; i++) {
    if (i)
      put(p, ", ");
    Shape *s = shape_norm(p->c, k->broadcast_args[i]);
    if (s->len == 1 && s->axes[0].tag == SHAPE_SPLICE) {
      name_shape(p, s->axes[0].var);
      put(p, s->axes[0].var->printed_name);
    } else {
      put_char(p, '[');
      put_shape(p, s);
      put_char(p, ']');
    }
  }
}

static bool is_printing_broadcast(const TypePrinter *p, const ShapeVar *v) {
  const BroadcastFrame *j = p->broadcasts;
  while (j && j->var != v)
    j = j->outer;
  return j != NULL;
}

/* Prints a splice that a broadcast defines as that broadcast.  Inside of it
   prints its name, since the state of a loop may broadcast with itself. */
static bool put_broadcast(TypePrinter *p, ShapeVar *v) {
  Scheme *s = is_printing_broadcast(p, v) ? NULL : p->scheme;
  BroadcastFrame inner = {v, p->broadcasts};
  for (uint32_t i = 0; s && i < s->given_count; i++) {
    Constraint *k = s->given[i];
    if (k->kind != CN_BROADCAST)
      continue;
    Shape *r = shape_norm(p->c, k->a);
    if (r->len != 1 || r->axes[0].tag != SHAPE_SPLICE || r->axes[0].var != v)
      continue;
    put(p, "...join(");
    p->broadcasts = &inner;
    put_broadcast_args(p, k);
    p->broadcasts = inner.outer;
    put_char(p, ')');
    return true;
  }
  return false;
}

static void put_axes(TypePrinter *p, const Shape *s) {
  for (uint32_t i = 0; i < s->len; i++) {
    if (i)
      put(p, ", ");
    switch (s->axes[i].tag) {
    case SHAPE_DIM:
      put_dim(p, s->axes[i].dim);
      break;
    case SHAPE_STAR:
      put_char(p, '*');
      break;
    case SHAPE_SPLICE:
      if (put_broadcast(p, s->axes[i].var))
        break;
      name_shape(p, s->axes[i].var);
      /* a size or a *: both are one axis */
      put(p, s->axes[i].var->fixed_rank == 1 ? "" : "...");
      put(p, s->axes[i].var->printed_name);
      break;
    }
  }
}

static void put_shape(TypePrinter *p, const Shape *s) {
  put_axes(p, shape_norm(p->c, s));
}

/* Prints a shape as an argument of shape(...) or axis(...).  There a single
   name is a splice. */
static void put_shape_arg(TypePrinter *p, const Shape *s0) {
  Shape *s = shape_norm(p->c, s0);
  if (s->len == 1 && s->axes[0].tag == SHAPE_SPLICE &&
      s->axes[0].var->fixed_rank != 1) {
    name_shape(p, s->axes[0].var);
    put(p, s->axes[0].var->printed_name);
  } else if (s->len == 1 && s->axes[0].tag == SHAPE_DIM) {
    put_dim(p, s->axes[0].dim);
  } else {
    put_char(p, '[');
    put_shape(p, s);
    put_char(p, ']');
  }
}

/* ---- types ---- */

enum { PREC_FUN, PREC_TUPLE, PREC_POST };

static void put_type(TypePrinter *p, Type *t, int prec);

/* The element type, or its default; DT_NONE if undetermined. */
static Dtype printed_dtype(const TypePrinter *p, const ElemVar *e,
                           bool has_axes) {
  if (elem_shown_dtype(e) != DT_NONE)
    return elem_shown_dtype(e);
  if (p->apply_defaults)
    return elem_default_dtype(e);
  if (e->skolem || !e->default_preference)
    return DT_NONE;
  if (e->default_preference == PREFERS_INT && (e->classes & 1u << DT_I64))
    return has_axes && e->prefers_by_scheme && (e->classes & CLASS_FLOAT)
               ? DT_NONE
               : DT_I64;
  return e->classes & CLASS_FLOAT ? DT_F32 : DT_NONE;
}

static void put_elem(TypePrinter *p, ElemVar *e, bool has_axes) {
  e = elem_root(e);
  if (printed_dtype(p, e, has_axes) != DT_NONE) {
    put(p, dtype_info[printed_dtype(p, e, has_axes)].name);
    return;
  }
  name_elem(p, e);
  put(p, e->printed_name);
}

static void put_tensor(TypePrinter *p, Type *t) {
  Shape *s = shape_norm(p->c, t->tensor.shape);
  ElemVar *e = elem_root(t->tensor.elem);
  if (!s->len && printed_dtype(p, e, false) == DT_I64) {
    Dim *d = ty_singleton(p->c, t);
    if (!d || dim_divides_by_zero(p->c->dims, d)) {
      put(p, "int");
      return;
    }
    put(p, "dim(");
    put_dim(p, d);
    put_char(p, ')');
    return;
  }
  put_elem(p, e, s->len > 0);
  if (s->len || printed_dtype(p, e, false) == DT_NONE) {
    put_char(p, '[');
    put_axes(p, s);
    put_char(p, ']');
  }
}

static void put_fun(TypePrinter *p, Type *t, int prec) {
  if (prec > PREC_FUN)
    put_char(p, '(');
  if (t->fun.label)
    buffer_printf(&p->out, "%c%s:", t->fun.optional ? '?' : '~',
                  t->fun.label->text);
  put_type(p, t->fun.param, PREC_TUPLE);
  put(p, effect_root(t->fun.effect)->tag == EF_IMPURE ? " ->! " : " -> ");
  put_type(p, t->fun.result, PREC_FUN);
  if (prec > PREC_FUN)
    put_char(p, ')');
}

static void put_record(TypePrinter *p, Type *t) {
  put_char(p, '{');
  bool first = true;
  while (t && t->tag == TY_RECORD) {
    for (uint32_t i = 0; i < t->count; i++) {
      put(p, first ? "" : ", ");
      put(p, t->record.labels[i]->text);
      put(p, " : ");
      put_type(p, t->args[i], PREC_FUN);
      first = false;
    }
    t = t->record.rest ? ty_norm(p->c, t->record.rest) : NULL;
  }
  if (t)
    put(p, first ? "..." : ", ...");
  put_char(p, '}');
}

static void put_datatype(TypePrinter *p, Type *t) {
  if (t->count == 1) {
    put_type(p, t->args[0], PREC_POST);
    put_char(p, ' ');
  } else if (t->count > 1) {
    put_char(p, '(');
    for (uint32_t i = 0; i < t->count; i++) {
      if (i)
        put(p, ", ");
      put_type(p, t->args[i], PREC_FUN);
    }
    put(p, ") ");
  }
  if (t->data.type->module && t->data.type->module->len)
    buffer_printf(&p->out, "%s.", t->data.type->module->text);
  put(p, t->data.type->name->text);
  if (t->data.type->dim_arity) {
    put_char(p, '[');
    for (uint32_t i = 0; i < t->data.type->dim_arity; i++) {
      if (i)
        put(p, ", ");
      put_dim(p, t->data.dims[i]);
    }
    put_char(p, ']');
  }
}

static void put_call(TypePrinter *p, const char *name, Shape **args, int n) {
  buffer_printf(&p->out, "%s(", name);
  for (int i = 0; i < n; i++) {
    if (i)
      put(p, ", ");
    put_shape_arg(p, args[i]);
  }
  put_char(p, ')');
}

static void put_type(TypePrinter *p, Type *t, int prec) {
  t = ty_norm(p->c, t);
  if (t->alias) {
    put(p, t->alias->text);
    for (uint32_t i = 0; i < t->alias_count; i++) {
      put(p, i ? ", " : "[");
      put_dim(p, t->alias_dims[i]);
    }
    put(p, t->alias_count ? "]" : "");
    return;
  }
  switch (t->tag) {
  case TY_VAR:
    name_ty(p, t->var);
    put(p, t->var->printed_name);
    return;
  case TY_TENSOR:
    put_tensor(p, t);
    return;
  case TY_FUN:
    put_fun(p, t, prec);
    return;
  case TY_TUPLE:
    if (!t->count) {
      put(p, "unit");
      return;
    }
    if (prec > PREC_TUPLE)
      put_char(p, '(');
    for (uint32_t i = 0; i < t->count; i++) {
      if (i)
        put(p, " * ");
      put_type(p, t->args[i], PREC_POST);
    }
    if (prec > PREC_TUPLE)
      put_char(p, ')');
    return;
  case TY_RECORD:
    put_record(p, t);
    return;
  case TY_DATATYPE:
    put_datatype(p, t);
    return;
  case TY_SHAPE:
    if (shape_norm(p->c, t->shape)->len == 1) {
      put_call(p, "shape", &t->shape, 1);
      return;
    }
    put(p, "shape(");
    put_shape(p, t->shape);
    put_char(p, ')');
    return;
  case TY_AXIS:
    put_call(p, "axis", t->axis, 3);
    return;
  case TY_KEEP:
    put_call(p, "keep", t->axis, 2);
    return;
  case TY_LIFT:
    put(p, "lift(");
    put_dim(p, t->lift.dim);
    put(p, ", ");
    put_type(p, t->lift.type, PREC_FUN);
    put_char(p, ')');
    return;
  case TY_CAST:
    put_char(p, '(');
    put_type(p, t->cast.type, PREC_FUN);
    put(p, ", ");
    put_elem(p, t->cast.elem, true);
    put(p, ") cast");
    return;
  }
}

/* ---- given ---- */

static void put_relation(TypePrinter *p, Dim *a, const char *op, Dim *b) {
  put_dim(p, a);
  put_char(p, ' ');
  put(p, op);
  put_char(p, ' ');
  put_dim(p, b);
}

/* Prints k <= h for 0 <= h - k: negative terms change sides. */
static void put_le(TypePrinter *p, Dim *a, Dim *b) {
  Checker *c = p->c;
  Dim *d = dim_resolve(c->dims, dim_sub(c->dims, b, a));
  Dim *left, *right;
  dim_split_signs(c->dims, d, &right, &left);
  put_relation(p, left, "<=", right);
}

/* Prints n/4 % 2 == 0 for n/4 == 2*(n/8), and n % 2 == 1 for
   n == 2*(n/2) + 1. */
static bool put_remainder(TypePrinter *p, Dim *d) {
  Checker *c = p->c;
  Dim *part[2];
  int64_t offset = 0;
  Dim *rest = d;
  if (!dim_is_remainder(c->dims, d, &part[0], &part[1])) {
    offset = dim_offset(d);
    rest = dim_sub(c->dims, d, dim_int(c->dims, offset));
    if (!dim_is_remainder(c->dims, rest, &part[0], &part[1]))
      return false;
  }
  if (!dim_is_cancellable_factor(c->dims, part[1]))
    return false;
  Dim *quotient = dim_div(c->dims, part[0], part[1]);
  Dim *remainder =
      dim_sub(c->dims, part[0], dim_mul(c->dims, part[1], quotient));
  for (int i = 0; i < 2; i++) {
    Buffer text = {.arena = c->arena};
    dim_print(c->dims, &text, part[i]);
    bool alone = !strpbrk(text.text, i ? " */" : " ");
    buffer_printf(&p->out, alone ? "%s" : "(%s)", text.text);
    put(p, i ? " == " : " % ");
  }
  buffer_printf(&p->out, "%" PRId64,
                dim_equal(rest, remainder) ? -offset : offset);
  return true;
}

static size_t printed_length(Checker *c, Dim *a, Dim *b) {
  Buffer text = {.arena = c->arena};
  dim_print(c->dims, &text, a);
  dim_print(c->dims, &text, b);
  return text.len;
}

/* Prints 2 == n/2 for 5 == n/2 + 3.  The constraint itself keeps the user's
   sides. */
static void cancel_shared_terms(Checker *c, Dim **a, Dim **b) {
  Dim *left, *right;
  if (!dim_share_monomial(*a, *b))
    return;
  dim_split_signs(c->dims, dim_sub(c->dims, *a, *b), &left, &right);
  int64_t n;
  bool none = (dim_is_int(left, &n) && !n) || (dim_is_int(right, &n) && !n);
  if (!none && printed_length(c, left, right) < printed_length(c, *a, *b))
    *a = left, *b = right;
}

/* Prints n % d == 0 for d*(n/d) == n. */
static void put_eq(TypePrinter *p, Dim *a, Dim *b) {
  Checker *c = p->c;
  for (int swapped = 0; swapped < 2; swapped++) {
    Dim *d = dim_resolve(c->dims, swapped ? dim_sub(c->dims, a, b)
                                          : dim_sub(c->dims, b, a));
    Buffer text = {.arena = c->arena};
    TypeVisitor v = naming_visit(p);
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
  cancel_shared_terms(c, &a, &b);
  bool swap = dim_is_const(a); /* n == 4, not 4 == n */
  put_relation(p, swap ? b : a, "==", swap ? a : b);
}

/* Prints what else is known about the result of a broadcast. */
static void put_broadcast_result(TypePrinter *p, const Constraint *k) {
  Shape *s = shape_norm(p->c, k->a);
  if (s->len == 1 && s->axes[0].tag == SHAPE_SPLICE)
    return;
  put(p, " == [");
  put_shape(p, s);
  put_char(p, ']');
}

typedef struct UnnamedSearch {
  TypePrinter *p;
  bool found;
} UnnamedSearch;

static void note_unnamed(void *arg, DimVar *v) {
  UnnamedSearch *u = arg;
  u->found |= v->kind == DV_INDEX ||
              (v->level == LEVEL_GENERIC && !map_get(&u->p->names->named, v));
}

/* False for conditions that callers cannot test, for example on a number that
   need not be a size.  They are omitted; the constraint then looks
   unconditional. */
static bool is_visible_condition(TypePrinter *p, const Assumption *f) {
  UnnamedSearch u = {p, false};
  dim_each_var(dim_resolve(p->c->dims, f->dim), note_unnamed, NULL, &u);
  return f->role != ROLE_INDEX_RANGE && f->role != ROLE_UNCONDITIONAL &&
         !u.found;
}

static void put_constraint(TypePrinter *p, Constraint *k) {
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
    put_char(p, '[');
    put_shape(p, k->a);
    put(p, "] == [");
    put_shape(p, k->b);
    put_char(p, ']');
    break;
  case CN_BROADCAST:
    put(p, "join(");
    put_broadcast_args(p, k);
    put_char(p, ')');
    put_broadcast_result(p, k);
    break;
  case CN_KEEP:
    put_call(p, "keep", (Shape *[]){k->a, k->b}, 2);
    break;
  }
  bool first = true;
  for (Assumption *f = k->assumptions; f; f = f->outer) {
    if (!p->reserving && !is_visible_condition(p, f))
      continue;
    put(p, first ? " if " : " && ");
    first = false;
    Dim *zero = dim_int(p->c->dims, 0);
    if (f->relation != ASSUME_GE) {
      Dim *pos, *neg;
      dim_split_signs(p->c->dims, dim_resolve(p->c->dims, f->dim), &pos, &neg);
      put_relation(p, pos, f->relation == ASSUME_EQ ? "==" : "!=", neg);
    } else {
      put_le(p, zero, f->dim);
    }
  }
}

typedef struct PrintedVars {
  TypePrinter *p;
  Map seen; /* set of the elements */
  VEC(ElemVar *) elems;
  ShapeVar *sought;
  bool found;
  VEC(TyVar *) types; /* variables of class `data` or `tensors` */
} PrintedVars;

static void collect_type(void *arg, TyVar *v) {
  PrintedVars *r = arg;
  for (uint32_t i = 0; i < r->types.len; i++)
    if (r->types.at[i] == v)
      return;
  if ((v->is_data || v->is_stackable) && v->level == LEVEL_GENERIC)
    VEC_PUSH(r->p->c->arena, r->types, v);
}

/* True if t contains lift(n, v): then v is of class `tensors`. */
static bool contains_lift_of(Checker *c, Type *t, const TyVar *v) {
  t = ty_norm(c, t);
  if (t->tag == TY_LIFT) {
    Type *inner = ty_norm(c, t->lift.type);
    return (inner->tag == TY_VAR && inner->var == v) ||
           contains_lift_of(c, inner, v);
  }
  if (t->tag == TY_FUN)
    return contains_lift_of(c, t->fun.param, v) ||
           contains_lift_of(c, t->fun.result, v);
  for (uint32_t i = 0; ty_has_args(t) && i < t->count; i++)
    if (contains_lift_of(c, t->args[i], v))
      return true;
  return t->tag == TY_RECORD && t->record.rest &&
         contains_lift_of(c, t->record.rest, v);
}

/* The class of v to print in a scheme of type t, or NULL. */
static const char *printed_class(TypePrinter *p, const TyVar *v, Type *t) {
  if (!v->printed_name) /* the other fields of a record, printed as `...` */
    return NULL;
  if (!v->is_stackable)
    return "data";
  return contains_lift_of(p->c, t, v) ? NULL : "tensors";
}

static void collect_elem(void *arg, ElemVar *e) {
  PrintedVars *r = arg;
  if (map_get(&r->seen, e))
    return;
  map_put(&r->seen, e, e);
  VEC_PUSH(r->p->c->arena, r->elems, e);
}

static void match_shape(void *arg, ShapeVar *v) {
  PrintedVars *r = arg;
  r->found |= v == r->sought;
}

/* True if the splice that a broadcast defines occurs in the type itself. */
static bool broadcast_occurs_in_type(TypePrinter *p, Constraint *k, Type *t) {
  Shape *s = shape_norm(p->c, k->a);
  if (s->len != 1 || s->axes[0].tag != SHAPE_SPLICE)
    return false;
  PrintedVars r = {.p = p, .sought = s->axes[0].var};
  TypeVisitor v = {.shape = match_shape, .arg = &r, .c = p->c};
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

/* The class to print of e, or NULL. */
static const char *printed_elem_class(const ElemVar *e) {
  return e->level == LEVEL_GENERIC ? class_name(e->classes) : NULL;
}

/* Prints "'a, 'b : float" for the class of element first and for all later
   elements of this class. */
static bool put_class(TypePrinter *p, const PrintedVars *r, uint32_t first,
                      bool any) {
  const char *name = printed_elem_class(r->elems.at[first]);
  for (uint32_t i = 0; i < first; i++)
    if (printed_elem_class(r->elems.at[i]) == name)
      return any;
  bool begun = false;
  for (uint32_t i = first; name && i < r->elems.len; i++) {
    if (printed_elem_class(r->elems.at[i]) != name)
      continue;
    put(p, begun || any ? ", " : " given ");
    put(p, r->elems.at[i]->printed_name);
    begun = true;
  }
  if (begun)
    buffer_printf(&p->out, " : %s", name);
  return any || begun;
}

static void put_given(TypePrinter *p, Type *t) {
  bool any = false;
  PrintedVars r = {.p = p, .seen.arena = p->c->arena};
  TypeVisitor v = {
      .ty = collect_type, .elem = collect_elem, .arg = &r, .c = p->c};
  ty_visit(&v, t);
  Scheme *s = p->scheme;
  for (uint32_t i = 0; s && i < s->given_count; i++) {
    Constraint *k = s->given[i];
    if (k->sufficient_only ||
        (k->kind == CN_BROADCAST && broadcast_occurs_in_type(p, k, t)))
      continue; /* merely sufficient: callers need not ensure it */
    put(p, any ? ", " : " given ");
    any = true;
    put_constraint(p, k);
  }
  for (uint32_t i = 0; i < r.elems.len; i++)
    any = put_class(p, &r, i, any);
  for (uint32_t i = 0; i < r.types.len; i++) {
    const char *name = printed_class(p, r.types.at[i], t);
    if (!name)
      continue;
    buffer_printf(&p->out, "%s%s : %s", any ? ", " : " given ",
                  r.types.at[i]->printed_name, name);
    any = true;
  }
}

static const char *printed_text(TypePrinter *p) {
  return p->out.text ? p->out.text : "";
}

static VarNames *names_new(Checker *c) {
  VarNames *names = NEW(c->arena, VarNames);
  map_init(&names->named, c->arena);
  map_init(&names->used, c->arena);
  return names;
}

/* For a type printed on its own. */
static TypePrinter printer_with_own_names(Checker *c) {
  TypePrinter p = {.c = c, .out.arena = c->arena, .names = names_new(c)};
  map_init(&p.sizes, c->arena);
  return p;
}

/* For a part of a message, in which each variable has one name. */
static TypePrinter printer_with_shared_names(Checker *c) {
  TypePrinter p = {.c = c, .out.arena = c->arena};
  map_init(&p.sizes, c->arena);
  p.names = c->notes.message_names ? c->notes.message_names : names_new(c);
  return p;
}

static void note_named_dim(void *arg, DimVar *v) {
  *(bool *)arg |= v->name != NULL;
}

static void note_named_shape(void *arg, ShapeVar *v) {
  *(bool *)arg |= v->name != NULL;
}

static void note_named_elem(void *arg, ElemVar *v) {
  *(bool *)arg |= v->name != NULL;
}

static void note_named_ty(void *arg, TyVar *v) {
  *(bool *)arg |= v->name != NULL;
}

static void note_alias(void *arg, Type *t) {
  *(bool *)arg |= t->alias_count > 0;
}

/* False if the text of t has no name from the program. */
static bool may_have_user_names(TypePrinter *p, Type *t) {
  bool found = false;
  TypeVisitor v = {.ty = note_named_ty,
                   .elem = note_named_elem,
                   .dim = note_named_dim,
                   .shape = note_named_shape,
                   .alias = note_alias,
                   .arg = &found,
                   .done = &found,
                   .c = p->c};
  ty_visit(&v, t);
  const Scheme *s = p->scheme;
  for (uint32_t i = 0; s && !found && i < s->given_count; i++)
    if (s->given[i]->kind == CN_BROADCAST) /* may be part of the type */
      constraint_visit(&v, s->given[i]);
  return found;
}

/* Reserves names from the program before new names are chosen. */
static void reserve_user_names(TypePrinter *p, Type *t) {
  if (may_have_user_names(p, t)) {
    p->reserving = true;
    put_type(p, t, PREC_FUN);
    p->reserving = false;
    map_init(&p->sizes, p->c->arena);
    p->out.len = 0;
  }
  p->names->next_shape = p->names->next_elem = 0;
}

VarNames *var_names_share(Checker *c) {
  VarNames *before = c->notes.message_names;
  if (!before)
    c->notes.message_names = names_new(c);
  return before;
}

void var_names_reserve(Checker *c, Type *t) {
  TypePrinter p = printer_with_shared_names(c);
  reserve_user_names(&p, t);
}

void var_names_reserve_dim(Checker *c, Dim *d) {
  TypePrinter p = printer_with_shared_names(c);
  p.reserving = true;
  put_dim(&p, d);
}

const char *ty_text(Checker *c, Type *t) {
  TypePrinter p = printer_with_shared_names(c);
  reserve_user_names(&p, t);
  put_type(&p, t, PREC_FUN);
  return printed_text(&p);
}

const char *ty_text_avoiding(Checker *c, Scheme *enclosing, Type *t,
                             const Map *avoided) {
  TypePrinter p = printer_with_shared_names(c);
  p.avoided_names = avoided;
  p.scheme = enclosing;
  reserve_user_names(&p, enclosing ? enclosing->type : t);
  if (enclosing) {
    put_type(&p, enclosing->type, PREC_FUN);
    put_given(&p, enclosing->type);
    p.out.len = 0;
  }
  put_type(&p, t, PREC_FUN);
  return printed_text(&p);
}

const char *ty_text_within(Checker *c, Scheme *enclosing, Type *t) {
  return ty_text_avoiding(c, enclosing, t, NULL);
}

const char *scheme_text(Checker *c, Scheme *s) {
  TypePrinter p = printer_with_own_names(c);
  p.scheme = s;
  reserve_user_names(&p, s->type);
  put_type(&p, s->type, PREC_FUN);
  put_given(&p, s->type);
  return printed_text(&p);
}

TypePrinter *printer_new(Checker *c, Scheme *s, bool apply_defaults) {
  TypePrinter *p = NEW(c->arena, TypePrinter);
  *p = printer_with_own_names(c);
  p->scheme = s;
  p->apply_defaults = apply_defaults;
  reserve_user_names(p, s->type);
  put_type(p, s->type, PREC_FUN);
  return p;
}

const char *printer_type(TypePrinter *p, Type *t) {
  p->out.len = 0;
  put_type(p, t, PREC_FUN);
  return arena_strndup(p->c->arena, p->out.text, p->out.len);
}

const char *printer_dim(TypePrinter *p, Dim *d) {
  p->out.len = 0;
  put_dim(p, d);
  return arena_strndup(p->c->arena, p->out.text, p->out.len);
}

const char *printer_given(TypePrinter *p, Constraint *given) {
  p->out.len = 0;
  put_constraint(p, given);
  return arena_strndup(p->c->arena, p->out.text, p->out.len);
}

const char *given_text(Checker *c, Scheme *s, Constraint *given) {
  return printer_given(printer_new(c, s, false), given);
}

const char *shape_text(Checker *c, const Shape *s) {
  TypePrinter p = printer_with_shared_names(c);
  buffer_putc(&p.out, '[');
  put_shape(&p, s);
  buffer_putc(&p.out, ']');
  return printed_text(&p);
}

void dims_text(Checker *c, Dim *a, Dim *b, const char **x, const char **y) {
  TypePrinter p = printer_with_shared_names(c);
  put_dim(&p, a);
  size_t len = p.out.len;
  put_dim(&p, b);
  *x = arena_strndup(c->arena, p.out.text, len);
  *y = arena_strndup(c->arena, p.out.text + len, p.out.len - len);
}

const char *dim_to_text(Checker *c, Dim *d) {
  TypePrinter p = printer_with_shared_names(c);
  put_dim(&p, d);
  return printed_text(&p);
}
