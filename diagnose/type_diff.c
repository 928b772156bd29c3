/* Finds where two types differ, so that a message names the differing field
   instead of a large record.  Main entry points: type_diff and
   type_diff_sizes. */
#include "diagnose/internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/intern.h"

#include <string.h>

bool elems_differ(ElemVar *a, ElemVar *b) {
  a = elem_root(a), b = elem_root(b);
  if (a == b)
    return false;
  if (!(a->classes & b->classes) || (a->global && b->skolem) ||
      (a->skolem && b->global))
    return true;
  return (a->dtype != DT_NONE || a->skolem) &&
         (b->dtype != DT_NONE || b->skolem);
}

/* Searches for a difference of kind, or (sizes) a difference of sizes only.  If
   `left` is set, only of these two sizes. */
typedef struct DiffSearch {
  Checker *c;
  bool sizes;
  Dim *left, *right;
  TypeDiff *out;
} DiffSearch;

static bool record_diff(DiffSearch *s, const char *path, Type *actual,
                        Type *expected) {
  *s->out = (TypeDiff){.path = path, .actual = actual, .expected = expected};
  return true;
}

static bool sizes_differ(DiffSearch *s, const Dim *a, const Dim *b) {
  if (s->left)
    return (dim_equal(a, s->left) && dim_equal(b, s->right)) ||
           (dim_equal(a, s->right) && dim_equal(b, s->left));
  return !dim_equal(a, b);
}

/* Compares axes from the left or from the right, up to a splice. */
static bool axes_differ(DiffSearch *s, const Shape *a, const Shape *b,
                        bool right) {
  for (uint32_t i = 0; i < a->len && i < b->len; i++) {
    const ShapeAxis *x = &a->axes[right ? a->len - 1 - i : i];
    const ShapeAxis *y = &b->axes[right ? b->len - 1 - i : i];
    if (x->tag == SHAPE_SPLICE || y->tag == SHAPE_SPLICE)
      return false;
    if (x->tag == SHAPE_DIM && y->tag == SHAPE_DIM &&
        sizes_differ(s, x->dim, y->dim))
      return true;
  }
  return false;
}

static bool tensors_differ(DiffSearch *s, Type *actual, Type *expected) {
  Shape *a = shape_norm(s->c, actual->tensor.shape),
        *b = shape_norm(s->c, expected->tensor.shape);
  bool ranks =
      shape_has_known_rank(a) && shape_has_known_rank(b) && a->len != b->len;
  if (!s->sizes)
    return elems_differ(actual->tensor.elem, expected->tensor.elem) || ranks;
  return !ranks && (axes_differ(s, a, b, false) || axes_differ(s, a, b, true));
}

static bool find_diff(DiffSearch *s, const char *path, Type *actual,
                      Type *expected);

static const char *nested_path(DiffSearch *s, const char *path,
                               const char *name) {
  return *path ? arena_printf(s->c->arena, "%s.%s", path, name) : name;
}

static bool records_differ(DiffSearch *s, const char *path, Type *actual,
                           Type *expected) {
  actual = row_flat(s->c, actual), expected = row_flat(s->c, expected);
  for (uint32_t i = 0; i < actual->count; i++) {
    Type *other = row_field(expected, actual->record.labels[i]);
    if (other &&
        find_diff(s, nested_path(s, path, actual->record.labels[i]->text),
                  actual->args[i], other))
      return true;
  }
  for (int extra = 0; extra < 2 && !s->sizes; extra++) {
    const Type *has = extra ? actual : expected;
    Type *lacks = extra ? expected : actual;
    for (uint32_t i = 0; !lacks->record.rest && i < has->count; i++)
      if (!row_field(lacks, has->record.labels[i])) {
        record_diff(s, path, actual, expected);
        s->out->field = has->record.labels[i];
        s->out->extra = extra;
        return true;
      }
  }
  return false;
}

static bool components_differ(DiffSearch *s, const char *path, Type *actual,
                              Type *expected) {
  if (actual->count != expected->count)
    return !s->sizes && record_diff(s, path, actual, expected);
  for (uint32_t i = 0; i < actual->count; i++) {
    const char *part = actual->tag == TY_TUPLE
                           ? arena_printf(s->c->arena, "part %u", i + 1)
                           : "elements";
    if (find_diff(s, nested_path(s, path, part), actual->args[i],
                  expected->args[i]))
      return (actual->tag == TY_TUPLE ||
              actual->data.type == s->c->builtins.list_datatype) ||
             record_diff(s, path, actual,
                         expected); /* for a datatype, all of it */
  }
  return false;
}

/* Rewrites lift(n, {a : 'x, ...}) as {a : lift(n, 'x), ...}.  Other types stay
   unchanged. */
static Type *distribute_lift(DiffSearch *s, Type *t) {
  t = ty_norm(s->c, t);
  Type *inner = t->tag == TY_LIFT ? ty_norm(s->c, t->lift.type) : t;
  if (inner == t || inner->tag != TY_RECORD)
    return t;
  Type *r = ty_new(s->c, TY_RECORD);
  *r = *row_flat(s->c, inner);
  Type **fields = NEW_ARRAY(s->c->arena, Type *, r->count);
  for (uint32_t i = 0; i < r->count; i++)
    fields[i] = ty_lift(s->c, t->lift.dim, r->args[i]);
  r->args = fields;
  return r;
}

/* True for a cast of a variable that is not solved. */
static bool is_cast_of_unknown(DiffSearch *s, Type *t) {
  Type *from = t->tag == TY_CAST ? ty_norm(s->c, t->cast.type) : t;
  return from != t && from->tag == TY_VAR && !from->var->skolem;
}

/* A part of a function.  Inside of a structure it is named, as in "parameter
   2.layer.w". */
static bool function_part_differs(DiffSearch *s, const char *path,
                                  const char *part, Type *actual,
                                  Type *expected) {
  const char *inner = nested_path(s, path, part);
  if (!find_diff(s, inner, actual, expected))
    return false;
  s->out->is_in_function = strlen(s->out->path) > strlen(inner);
  return true;
}

static bool is_short(DiffSearch *s, Type *a, Type *b) {
  enum { MAX_QUOTED_BYTES = 160 };
  return strlen(ty_text(s->c, a)) + strlen(ty_text(s->c, b)) <=
         MAX_QUOTED_BYTES;
}

/* The parameters of a curried function are counted without labelled ones. */
static bool functions_differ(DiffSearch *s, const char *path, Type *actual,
                             Type *expected) {
  Type *x = actual, *y = expected;
  bool differs = false;
  uint32_t number = 0;
  for (; !differs && x->tag == TY_FUN && y->tag == TY_FUN;
       x = ty_norm(s->c, x->fun.result), y = ty_norm(s->c, y->fun.result)) {
    const char *part =
        x->fun.label
            ? arena_printf(s->c->arena, "parameter ~%s", x->fun.label->text)
            : arena_printf(s->c->arena, "parameter %u", ++number);
    differs = function_part_differs(s, path, part, x->fun.param, y->fun.param);
  }
  if (!differs && !function_part_differs(s, path, "result", x, y))
    return false;
  return (s->out->is_in_function && !is_short(s, actual, expected)) ||
         record_diff(s, path, actual, expected);
}

static bool find_diff(DiffSearch *s, const char *path, Type *actual,
                      Type *expected) {
  actual = distribute_lift(s, actual), expected = distribute_lift(s, expected);
  if (actual == expected || actual->tag == TY_LIFT ||
      expected->tag == TY_LIFT || is_cast_of_unknown(s, actual) ||
      is_cast_of_unknown(s, expected) ||
      (actual->tag == TY_VAR && !actual->var->skolem) ||
      (expected->tag == TY_VAR && !expected->var->skolem))
    return false;
  if (actual->tag != expected->tag ||
      (actual->tag == TY_DATATYPE && actual->data.type != expected->data.type))
    return !s->sizes && record_diff(s, path, actual, expected);
  switch (actual->tag) {
  case TY_TENSOR:
    return tensors_differ(s, actual, expected) &&
           record_diff(s, path, actual, expected);
  case TY_RECORD:
    return records_differ(s, path, actual, expected);
  case TY_TUPLE:
  case TY_DATATYPE:
    return components_differ(s, path, actual, expected);
  case TY_FUN:
    return functions_differ(s, path, actual, expected);
  case TY_VAR:
    return !s->sizes && actual->var != expected->var &&
           record_diff(s, path, actual, expected);
  case TY_LIFT:
  case TY_CAST:
  case TY_SHAPE:
  case TY_AXIS:
  case TY_KEEP:
    break;
  }
  return false;
}

bool type_diff(Checker *c, Type *actual, Type *expected, TypeDiff *out) {
  DiffSearch s = {.c = c, .out = out};
  return find_diff(&s, "", actual, expected);
}

bool type_diff_sizes(Checker *c, Type *actual, Type *expected, Dim *left,
                     Dim *right, TypeDiff *out) {
  DiffSearch s = {.c = c, .out = out, .sizes = true};
  s.left = dim_resolve(c->dims, left), s.right = dim_resolve(c->dims, right);
  if (find_diff(&s, "", actual, expected))
    return true;
  s.left = NULL;
  return find_diff(&s, "", actual, expected);
}
