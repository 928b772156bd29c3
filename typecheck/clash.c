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

/* What is looked for: a difference of kind, or one of sizes alone. */
typedef struct Search {
  Checker *c;
  bool sizes;
  Clash *out;
} Search;

static bool found(Search *s, const char *path, Type *got, Type *want) {
  *s->out = (Clash){.path = path, .got = got, .want = want};
  return true;
}

static bool tensors_part(Search *s, Type *got, Type *want) {
  Shape *a = shape_norm(s->c, got->shape), *b = shape_norm(s->c, want->shape);
  bool known = shape_known_rank(a) && shape_known_rank(b);
  if (!s->sizes)
    return elems_clash(got->elem, want->elem) || (known && a->len != b->len);
  for (uint32_t i = 0; known && a->len == b->len && i < a->len; i++)
    if (a->at[i].tag == IT_DIM && b->at[i].tag == IT_DIM &&
        !dim_equal(a->at[i].dim, b->at[i].dim))
      return true;
  return false;
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

static bool walk(Search *s, const char *path, Type *got, Type *want) {
  got = ty_norm(s->c, got), want = ty_norm(s->c, want);
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

bool size_clash(Checker *c, Type *got, Type *want, Clash *out) {
  Search s = {.c = c, .out = out, .sizes = true};
  return walk(&s, "", got, want);
}
