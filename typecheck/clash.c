/* Where two types part: so that a message speaks of the field that differs and
 * not of a record that fills the screen. */
#include "typecheck/internal.h"

bool elems_clash(ElemVar *a, ElemVar *b) {
  a = elem_root(a), b = elem_root(b);
  if (a == b)
    return false;
  if (!(a->classes & b->classes))
    return true;
  return (a->dtype != DT_NONE || a->rigid) && (b->dtype != DT_NONE || b->rigid);
}

/* What is looked for: a difference of kind, or one of sizes alone; then, where
 * left is, of these two. */
typedef struct Search {
  Checker *c;
  bool sizes;
  Dim *left, *right;
  Clash *out;
} Search;

static bool found(Search *s, const char *path, Type *got, Type *want) {
  *s->out = (Clash){.path = path, .got = got, .want = want};
  return true;
}

static bool sizes_part(Search *s, const Dim *a, const Dim *b) {
  if (s->left)
    return (dim_equal(a, s->left) && dim_equal(b, s->right)) ||
           (dim_equal(a, s->right) && dim_equal(b, s->left));
  return !dim_equal(a, b);
}

/* From the left, or from the right, as far as both have no splice. */
static bool axes_part(Search *s, const Shape *a, const Shape *b, bool right) {
  for (uint32_t i = 0; i < a->len && i < b->len; i++) {
    const ShapeIt *x = &a->at[right ? a->len - 1 - i : i];
    const ShapeIt *y = &b->at[right ? b->len - 1 - i : i];
    if (x->tag == IT_SPLICE || y->tag == IT_SPLICE)
      return false;
    if (x->tag == IT_DIM && y->tag == IT_DIM && sizes_part(s, x->dim, y->dim))
      return true;
  }
  return false;
}

static bool tensors_part(Search *s, Type *got, Type *want) {
  Shape *a = shape_norm(s->c, got->shape), *b = shape_norm(s->c, want->shape);
  bool ranks =
      shape_known_rank(a) && shape_known_rank(b) && a->len != b->len;
  if (!s->sizes)
    return elems_clash(got->elem, want->elem) || ranks;
  return !ranks && (axes_part(s, a, b, false) || axes_part(s, a, b, true));
}

static bool walk(Search *s, const char *path, Type *got, Type *want);

static const char *below(Search *s, const char *path, const char *name) {
  return *path ? arena_printf(s->c->arena, "%s.%s", path, name) : name;
}

static bool records_part(Search *s, const char *path, Type *got, Type *want) {
  got = row_flat(s->c, got), want = row_flat(s->c, want);
  for (uint32_t i = 0; i < got->count; i++) {
    Type *other = row_field(want, got->labels[i]);
    if (other &&
        walk(s, below(s, path, got->labels[i]->text), got->args[i], other))
      return true;
  }
  for (int extra = 0; extra < 2 && !s->sizes; extra++) {
    const Type *has = extra ? got : want;
    Type *lacks = extra ? want : got;
    for (uint32_t i = 0; !lacks->arg[0] && i < has->count; i++)
      if (!row_field(lacks, has->labels[i])) {
        found(s, path, got, want);
        s->out->field = has->labels[i];
        s->out->extra = extra;
        return true;
      }
  }
  return false;
}

static bool parts_part(Search *s, const char *path, Type *got, Type *want) {
  if (got->count != want->count)
    return !s->sizes && found(s, path, got, want);
  for (uint32_t i = 0; i < got->count; i++) {
    const char *part = got->tag == TY_TUPLE
                           ? arena_printf(s->c->arena, "part %u", i + 1)
                           : "elements";
    if (walk(s, below(s, path, part), got->args[i], want->args[i]))
      return (got->tag == TY_TUPLE || got->data == s->c->data_list) ||
             found(s, path, got, want); /* of a datatype, all of it */
  }
  return false;
}

/* lift(n, {a : 'x, ...}) as {a : lift(n, 'x), ...}; others as they are. */
static Type *spread(Search *s, Type *t) {
  t = ty_norm(s->c, t);
  Type *inner = t->tag == TY_LIFT ? ty_norm(s->c, t->arg[0]) : t;
  if (inner == t || inner->tag != TY_RECORD)
    return t;
  Type *r = ty_new(s->c, TY_RECORD);
  *r = *row_flat(s->c, inner);
  Type **fields = NEW_ARRAY(s->c->arena, Type *, r->count);
  for (uint32_t i = 0; i < r->count; i++)
    fields[i] = ty_lift(s->c, t->dim, r->args[i]);
  r->args = fields;
  return r;
}

static bool walk(Search *s, const char *path, Type *got, Type *want) {
  got = spread(s, got), want = spread(s, want);
  if (got == want || got->tag == TY_LIFT || want->tag == TY_LIFT ||
      (got->tag == TY_VAR && !got->var->rigid) ||
      (want->tag == TY_VAR && !want->var->rigid))
    return false;
  if (got->tag != want->tag || (got->tag == TY_DATA && got->data != want->data))
    return !s->sizes && found(s, path, got, want);
  switch (got->tag) {
  case TY_TENSOR:
    return tensors_part(s, got, want) && found(s, path, got, want);
  case TY_RECORD: return records_part(s, path, got, want);
  case TY_TUPLE:
  case TY_DATA: return parts_part(s, path, got, want);
  case TY_FUN:
    return (walk(s, path, got->arg[0], want->arg[0]) ||
            walk(s, path, got->arg[1], want->arg[1])) &&
           found(s, path, got, want);
  case TY_VAR:
    return !s->sizes && got->var != want->var && found(s, path, got, want);
  case TY_LIFT:
  case TY_SHAPE:
  case TY_AXIS:
  case TY_KEEP: break;
  }
  return false;
}

bool type_clash(Checker *c, Type *got, Type *want, Clash *out) {
  Search s = {.c = c, .out = out};
  return walk(&s, "", got, want);
}

bool size_clash(Checker *c, Type *got, Type *want, Dim *left, Dim *right,
                Clash *out) {
  Search s = {.c = c, .out = out, .sizes = true};
  s.left = dim_resolve(c->dims, left), s.right = dim_resolve(c->dims, right);
  if (walk(&s, "", got, want))
    return true;
  s.left = NULL;
  return walk(&s, "", got, want);
}
