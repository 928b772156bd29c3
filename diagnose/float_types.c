/* Messages about the float types of structures: of `each`, and of the type
   ('x, 'b) cast. */
#include "diagnose/internal.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/intern.h"

/* "f32 and f64" */
static const char *float_types_text(Checker *c, uint32_t floats) {
  Buffer text = {.arena = c->arena};
  for (int t = 0; t < DT_COUNT; t++) {
    if (!(floats & 1u << t))
      continue;
    floats &= ~(1u << t);
    buffer_printf(&text, "%s%s",
                  !text.len ? ""
                  : floats  ? ", "
                            : " and ",
                  dtype_info[t].name);
  }
  return text.text;
}

bool diagnose_float_types(Checker *c, Type *actual, Type *expected, Origin *o) {
  ElemVar *floats = expected->tag == TY_VAR && expected->var->floats
                        ? elem_root(expected->var->floats)
                        : NULL;
  uint32_t found = floats ? ty_fixed_floats(c, actual) : 0;
  bool several = (found & (found - 1)) != 0;
  if (!found || (!several && !(found & ~floats->classes)))
    return false;
  Diag *d =
      several ? error_at(c, 308, o->span, "%s contains several float types: %s",
                         error_subject(c, o), float_types_text(c, found))
              : error_at(c, 308, o->span, "%s contains %s; expected %s",
                         error_subject(c, o), float_types_text(c, found),
                         float_types_text(c, floats->classes));
  d->help = several
                ? "all floats must have one type here: convert single parts "
                  "first, as in `f32 x`"
                : "there is no implicit conversion: convert it with `each`";
  error_note_callee(c, d, o);
  return true;
}

/* The datatype whose cast t is, or NULL. */
static Datatype *cast_datatype(Checker *c, Type *t) {
  t = ty_norm(c, t);
  Type *from = t->tag == TY_CAST ? ty_norm(c, t->cast.type) : t;
  return from != t && from->tag == TY_DATATYPE ? from->data.type : NULL;
}

static void hint_fixed_floats(Checker *c, Diag *d, Type *actual,
                              Type *expected) {
  TypeDiff part;
  if (type_diff(c, actual, expected, &part))
    actual = part.actual, expected = part.expected;
  Datatype *data = cast_datatype(c, actual);
  if (!data)
    data = cast_datatype(c, expected);
  if (!data)
    return;
  const char *name = data->name->text;
  d->note = arena_printf(c->arena,
                         "the constructors of %s contain %s, which stays the "
                         "same in all values of the datatype",
                         name, float_types_text(c, data->fixed_floats));
  d->help = arena_printf(c->arena,
                         "make the element type a parameter: datatype 'a %s = "
                         "... 'a[n] ...",
                         name);
}

/* The result of a function, if it is a tensor; or NULL. */
static Type *tensor_result(Checker *c, Type *t) {
  while (t->tag == TY_FUN)
    t = ty_norm(c, t->fun.result);
  return t->tag == TY_TENSOR ? t : NULL;
}

void hint_float_types(Checker *c, Diag *d, Type *actual, Type *expected,
                      const Origin *o) {
  hint_fixed_floats(c, d, actual, expected);
  if (d->help || o->kind != ORIGIN_ARG || actual->tag != TY_FUN ||
      expected->tag != TY_FUN)
    return;
  Type *found = tensor_result(c, actual), *wanted = tensor_result(c, expected);
  if (found && wanted &&
      !(elem_root(wanted->tensor.elem)->classes & ~(uint32_t)CLASS_FLOAT) &&
      !(elem_root(found->tensor.elem)->classes & CLASS_FLOAT))
    d->help = "its result must be a float";
}
