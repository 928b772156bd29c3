/* Casts: types with another element type in place of each float type.  Main
   entry point: ty_cast. */
#include "typecheck/types.h"
#include "support/arena.h"

uint32_t ty_fixed_floats(Checker *c, Type *t) {
  t = ty_norm(c, t);
  uint32_t found = 0;
  if (t->tag == TY_TENSOR && elem_root(t->tensor.elem)->dtype != DT_NONE)
    found = elem_root(t->tensor.elem)->classes & CLASS_FLOAT;
  if (t->tag == TY_LIFT)
    found = ty_fixed_floats(c, t->lift.type);
  if (t->tag == TY_CAST)
    found = elem_root(t->cast.elem)->dtype != DT_NONE
                ? elem_root(t->cast.elem)->classes
                : 0;
  if (t->tag == TY_DATATYPE)
    found = t->data.type->fixed_floats;
  for (uint32_t i = 0; ty_has_args(t) && i < t->count; i++)
    found |= ty_fixed_floats(c, t->args[i]);
  return found;
}

ElemVar *datatype_fixed_float(Checker *c, const Datatype *d) {
  for (int t = 0; t < DT_COUNT; t++)
    if (d->fixed_floats == 1u << t)
      return elem_fixed(c, (Dtype)t);
  return NULL;
}

static Type *cast_components(Checker *c, Type *t, ElemVar *elem) {
  charge_work(c, COPY_WORK);
  Type *r = ty_new(c, t->tag);
  *r = *t;
  r->alias = NULL;
  r->args = NEW_ARRAY(c->arena, Type *, t->count);
  bool same = true;
  for (uint32_t i = 0; i < t->count; i++) {
    r->args[i] = ty_cast(c, t->args[i], elem);
    same &= r->args[i] == ty_norm(c, t->args[i]);
  }
  if (t->tag == TY_RECORD && t->record.rest) {
    r->record.rest = ty_cast(c, t->record.rest, elem);
    same &= r->record.rest == ty_norm(c, t->record.rest);
  }
  return same ? t : r;
}

/* True if the cast of a normalized t has no other form so far. */
static bool is_cast_stuck(const Type *t, ElemVar *elem) {
  elem = elem_root(elem);
  if (t->tag == TY_VAR)
    return !t->var->floats || elem_root(t->var->floats) != elem;
  return t->tag == TY_DATATYPE && t->data.type->fixed_floats &&
         t->data.type->fixed_floats != 1u << elem->dtype;
}

static Type *new_stuck_cast(Checker *c, Type *t, ElemVar *elem) {
  if (t->tag == TY_VAR && !t->var->floats) {
    t->var->floats = elem_meta(c, CLASS_FLOAT);
    t->var->floats->level = t->var->level;
  }
  Type *cast = ty_new(c, TY_CAST);
  cast->cast.type = t;
  cast->cast.elem = elem;
  return cast;
}

Type *ty_cast(Checker *c, Type *t, ElemVar *elem) {
  t = ty_norm(c, t);
  if (is_cast_stuck(t, elem))
    return new_stuck_cast(c, t, elem);
  switch (t->tag) {
  case TY_TENSOR: {
    elem_require_default_int(c, t->tensor.elem);
    ElemVar *from = elem_root(t->tensor.elem);
    return !(from->classes & CLASS_FLOAT) || from == elem_root(elem)
               ? t
               : ty_tensor(c, elem, t->tensor.shape, NULL);
  }
  case TY_TUPLE:
  case TY_RECORD:
  case TY_DATATYPE:
    return cast_components(c, t, elem);
  case TY_LIFT:
    return ty_lift(c, t->lift.dim, ty_cast(c, t->lift.type, elem));
  case TY_CAST:
    return ty_cast(c, t->cast.type, elem);
  case TY_VAR:
  case TY_FUN:
  case TY_SHAPE:
  case TY_AXIS:
  case TY_KEEP:
    return t;
  }
  return t;
}

Type *ty_cast_norm(Checker *c, Type *t) {
  Type *inner = ty_norm(c, t->cast.type);
  return is_cast_stuck(inner, t->cast.elem) ? t
                                            : ty_cast(c, inner, t->cast.elem);
}
