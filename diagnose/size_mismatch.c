/* Messages about sizes and shapes that do not fit, for each kind of
   constraint. */
#include "diagnose/internal.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/intern.h"

#include <string.h>

/* ---- recursive calls with other sizes ---- */

/* The annotation that permits it: "fun haar (x : 'a[n]) : 'a[n]"; or NULL. */
static const char *annotated_signature(Checker *c, const Binding *b) {
  const Clause *k = binding_clause(b);
  Buffer text = {.arena = c->arena};
  Type *t = b->scheme->is_polymorphic && k ? ty_norm(c, b->scheme->type) : NULL;
  if (!t)
    return NULL;
  buffer_printf(&text, "fun %s", b->name->text);
  for (uint32_t i = 0; i < k->param_count; i++, t = ty_norm(c, t->fun.result)) {
    const Param *p = &k->params[i];
    if (p->label || p->default_value || p->pat->kind != PAT_VAR ||
        t->tag != TY_FUN)
      return NULL;
    buffer_printf(&text, " (%s : %s)", p->pat->id->text,
                  ty_text_within(c, b->scheme, t->fun.param));
  }
  buffer_printf(&text, " : %s", ty_text_within(c, b->scheme, t));
  return text.text;
}

/* Without an annotation, a function is monomorphic inside its definition. */
static bool recursive_call_error(Checker *c, const Origin *o, Diag **out) {
  if (!origin_recursive_callee(o) || !o->actual || !o->expected ||
      error_prints_alike(c, o->actual, o->expected))
    return false;
  const Shape *a = error_shape(c, o->actual), *b = error_shape(c, o->expected);
  const char *x, *y, *name = o->arg.recursive_callee->name->text;
  uint32_t i, j;
  bool size = error_find_one_axis(a, b, &i, &j);
  if (size)
    dims_text(c, a->axes[i].dim, b->axes[j].dim, &x, &y);
  else
    x = ty_text(c, o->actual), y = ty_text(c, o->expected);
  Diag *d = *out =
      error_at(c, 302, o->span,
               "the recursive call of %s has another %s: found %s, expected %s",
               name, size ? "size" : "shape", x, y);
  d->primary_label = error_two_types(c, "found %s, the parameter is %s",
                                     o->actual, o->expected);
  if (!c->inference.recursive_call)
    c->inference.recursive_call = d;
  const char *as = annotated_signature(c, o->arg.recursive_callee);
  const Clause *k = binding_clause(o->arg.recursive_callee);
  if (!k || !clause_is_annotated(k))
    d->help = arena_printf(
        c->arena, "annotate the parameters and the result to allow this%s",
        as ? arena_printf(c->arena, ": %s", as)
           : ", as in fun f (x : 'a[n]) : 'a[n]");
  return true;
}

/* "clamp low high x: x, limited to low ... high", from its documentation; NULL
   if that does not begin with the name. */
static const char *usage_text(Checker *c, const Origin *o) {
  const Expr *head = o->kind == ORIGIN_ARG && !o->number ? o->arg.callee : NULL;
  while (head && head->kind == EX_APP)
    head = head->arg[0];
  const char *doc = head && head->binding ? binding_doc(head->binding) : NULL;
  if (!doc)
    return NULL;
  const char *name = head->binding->name->text;
  size_t len = strlen(name);
  if (strncmp(doc, name, len) != 0 || doc[len] != ' ')
    return NULL;
  return arena_strndup(c->arena, doc, strcspn(doc, "\n"));
}

void size_error_shapes(Checker *c, const Shape *a, const Shape *b, Origin *o) {
  Diag *d;
  VEC_PUSH(c->arena, c->solver.contradicted, o);
  if (recursive_call_error(c, o, &d)) {
    error_add_provenance(c, d, o);
    return;
  }
  if (o->kind == ORIGIN_OPERATOR && o->actual && o->expected &&
      error_prints_alike(c, o->actual, o->expected)) {
    const char *expected = shape_text(c, a), *found = shape_text(c, b);
    d = error_at(c, 304, o->span, "%s give shape %s; expected %s",
                 error_subject(c, o), found, expected);
  } else if (o->kind == ORIGIN_OPERATOR && o->actual && o->expected)
    d = error_at(c, 303, o->span, "%s do not broadcast",
                 error_two_types(c, "%s and %s", o->actual, o->expected));
  else {
    const char *actual = shape_text(c, a), *expected = shape_text(c, b);
    d = error_at(c, 304, o->span, "%s has shape %s; expected %s",
                 error_subject(c, o), actual, expected);
    d->help = usage_text(c, o);
  }
  error_add_provenance(c, d, o);
}

/* ---- equations ---- */

static void batch_error(Checker *c, Constraint *k) {
  Origin *o = k->origin;
  const char *x, *y;
  dims_text(c, k->left, k->right, &x, &y);
  Diag *d = error_at(
      c, 303, o->span,
      "batch axes of a matrix product do not broadcast: %s and %s", x, y);
  d->primary_label = error_two_types(c, "%s @ %s", o->actual, o->expected);
  error_add_details(c, d, k);
}

static void inner_error(Checker *c, Constraint *k) {
  Origin *o = k->origin;
  /* the left side is the actual type: its size was found */
  Type *a = ty_norm(c, o->actual), *b = ty_norm(c, o->expected);
  Dim *x = NULL, *y = NULL;
  if (a->tag == TY_TENSOR && b->tag == TY_TENSOR) {
    Shape *s = shape_norm(c, a->tensor.shape),
          *t = shape_norm(c, b->tensor.shape);
    if (s->len && t->len > 1 && s->axes[s->len - 1].tag == SHAPE_DIM &&
        t->axes[t->len - 2].tag == SHAPE_DIM) {
      x = s->axes[s->len - 1].dim;
      y = t->axes[t->len - 2].dim;
    }
  }
  if (!x || dim_equal(x, y))
    x = dim_resolve(c->dims, k->left), y = dim_resolve(c->dims, k->right);
  const char *left = dim_to_text(c, x), *right = dim_to_text(c, y);
  Diag *d = error_inner_sizes(c, o->span, left, right);
  d->primary_label = error_two_types(c, "%s @ %s", a, b);
  error_add_details(c, d, k);
  hint_matmul_inner(c, d, o, x, y);
}

static void squeeze_error(Checker *c, Constraint *k) {
  Origin *o = k->origin;
  Dim *one = dim_int(c->dims, 1), *x = dim_resolve(c->dims, k->left);
  if (dim_equal(x, one))
    x = dim_resolve(c->dims, k->right);
  Diag *d = error_at(c, 302, o->span,
                     "squeeze removes only axes that are * or 1; found size %s",
                     dim_to_text(c, x));
  if (o->actual)
    d->primary_label =
        arena_printf(c->arena, "found %s", ty_text(c, o->actual));
  error_add_details(c, d, k);
}

/* The size of the left operand comes first. */
static void operand_sizes(Checker *c, const Origin *o, const char **x,
                          const char **y) {
  Shape *a = error_shape(c, o->actual), *b = error_shape(c, o->expected);
  uint32_t i, j;
  if (error_find_one_axis(a, b, &i, &j))
    dims_text(c, a->axes[i].dim, b->axes[j].dim, x, y);
}

/* Reports an inexact division as the only cause. */
static bool inexact_division_error(Checker *c, Constraint *k) {
  Origin *o = k->origin;
  NonMultiple inexact;
  if ((o->actual && o->expected) ||
      !divisibility_inexact_division(c, k->left, k->right, &inexact))
    return false;
  Diag *d = error_at(c, 302, o->span, "%s; %s requires it", inexact.text,
                     error_subject(c, o));
  error_note_scheme(c, d, o);
  error_add_details(c, d, k);
  d->counterexample = NULL; /* the message contains it */
  return true;
}

static bool is_about_operands(const Origin *o) {
  return o->kind == ORIGIN_OPERATOR && !o->number && o->actual && o->expected;
}

static Diag *operands_error(Checker *c, Constraint *k) {
  Origin *o = k->origin;
  const char *x, *y;
  dims_text(c, k->left, k->right, &x, &y);
  operand_sizes(c, o, &x, &y);
  Diag *d =
      error_at(c, 303, o->span, "%s do not broadcast: %s and %s differ",
               error_two_types(c, "%s and %s", o->actual, o->expected), x, y);
  if (k->divisor) {
    dims_text(c, k->left, k->divisor, &x, &y);
    d->note = arena_printf(c->arena, "%s is not a multiple of %s", x, y);
  } else {
    hint_broadcast(c, d, o);
  }
  return d;
}

/* The axis of two tensors that has the two sizes of k, counted from the right
   from 1; 0: there is none. */
static uint32_t differing_axis(Checker *c, const TypeDiff *part,
                               const Constraint *k) {
  Dim *left = dim_resolve(c->dims, k->left),
      *right = dim_resolve(c->dims, k->right);
  const Shape *a = error_shape(c, part->actual),
              *b = error_shape(c, part->expected);
  for (uint32_t i = 1; a && b && i <= a->len && i <= b->len; i++) {
    const ShapeAxis *x = &a->axes[a->len - i], *y = &b->axes[b->len - i];
    if (x->tag == SHAPE_SPLICE || y->tag == SHAPE_SPLICE)
      break;
    if (x->tag == SHAPE_DIM && y->tag == SHAPE_DIM &&
        ((dim_equal(x->dim, left) && dim_equal(y->dim, right)) ||
         (dim_equal(x->dim, right) && dim_equal(y->dim, left))))
      return i;
  }
  return 0;
}

/* Elements of a list: `?` admits different sizes. */
static void hint_list_sizes(Diag *d, const Origin *o) {
  bool is_item = o->kind == ORIGIN_ELEMENT || o->kind == ORIGIN_OPERATOR;
  if (is_item && !d->help && o->subject &&
      (strcmp(o->subject, "list") == 0 || strcmp(o->subject, "::") == 0))
    d->help = "for different sizes, write `?` in the type of the list, as in "
              "f32[?] list, or `forget x`";
}

/* [[1, 2], [3]]: the first one is marked; concat has an axis. */
static void hint_ragged_literal(Diag *d, const Origin *o) {
  if (o->kind == ORIGIN_ELEMENT && !d->help && !o->subject && !o->whole &&
      !o->operands.axis && o->other_span.file)
    d->help = "the parts of a tensor have equal shapes; for a list with "
              "different sizes, write `(list [x, y] : f32[?] list)`";
}

/* The function of a loop changes an integer that its type follows as a size. */
static void hint_loop_integer(Checker *c, Diag *d, const Constraint *k) {
  const Origin *o = k->origin;
  int64_t step;
  if ((prim_info[o->prim].flags & PRIM_LOOP) && !d->help &&
      o->kind == ORIGIN_ARG && o->actual &&
      ty_norm(c, o->actual)->tag == TY_FUN &&
      dim_is_int(dim_sub(c->dims, dim_resolve(c->dims, k->left),
                         dim_resolve(c->dims, k->right)),
                 &step))
    d->help = "if each iteration changes an integer of the state, annotate it, "
              "as in (x, i : int)";
}

/* A value has another size than expected.  `multiple` is a better text, if
   given. */
static Diag *value_error(Checker *c, Constraint *k, const char *multiple) {
  Origin *o = k->origin;
  const char *x, *y;
  dims_text(c, k->left, k->right, &x, &y);
  Diag *d = multiple ? error_at(c, 302, o->span, "sizes differ in %s: %s",
                                error_subject(c, o), multiple)
                     : error_sizes_differ(c, o, x, y);
  if (!hint_concat_axis(c, d, o) && o->actual && o->expected)
    hint_axis_order(c, d, o, o->expr, o->actual, o->expected);
  hint_list_sizes(d, o);
  hint_ragged_literal(d, o);
  TypeDiff part;
  bool found =
      o->actual && o->expected &&
      type_diff_sizes(c, o->actual, o->expected, k->left, k->right, &part);
  if (!found)
    hint_loop_integer(c, d, k);
  if (found && !d->help)
    hint_record_field(c, d, o, &part);
  if (!o->actual || !o->expected)
    error_note_scheme(c, d, o);
  else if (found && *part.path)
    d->primary_label =
        arena_printf(c->arena, "%s : %s", part.path,
                     error_two_types(c, "found %s, expected %s", part.actual,
                                     part.expected));
  else if (!error_prints_alike(c, o->actual, o->expected))
    d->primary_label =
        error_two_types(c, "found %s, expected %s", o->actual, o->expected);
  if (found && *part.path)
    error_set_mistake_in(d, o, &part, d->primary_label);
  error_note_callee(c, d, o);
  if (found)
    error_mark_size_origin(c, d, o, part.path, differing_axis(c, &part, k));
  else if (o->actual)
    error_mark_size_origin(c, d, o, "", 0); /* an integer */
  return d;
}

static Diag *reshape_error(Checker *c, Constraint *k, const char *x,
                           const char *y) {
  Origin *o = k->origin;
  Diag *d = error_at(c, 302, o->span,
                     "reshape changes the number of elements: %s and %s differ",
                     x, y);
  Type *data =
      origin_arg_count(o) == 2 ? o->arg.args[1].expr->inferred_type : NULL;
  const char *shape =
      data ? error_source_text(c, o->arg.args[0].expr->span) : NULL;
  if (shape)
    d->primary_label = arena_printf(
        c->arena, "from %s to %s",
        ty_text(
            c, ty_norm(c, call_substitute_type(c, o->call_substitution, data))),
        shape);
  if (origin_arg_count(o))
    hint_reshape(c, d, o->arg.args[0].expr, k);
  return d;
}

static Diag *sizes_error(Checker *c, Constraint *k, const char *multiple) {
  Origin *o = k->origin;
  const char *x, *y;
  if (k->divisor && !is_about_operands(o)) {
    dims_text(c, k->left, k->divisor, &x, &y);
    Diag *d =
        error_at(c, 302, o->span, "%s is not a multiple of %s; %s requires it",
                 x, y, error_subject(c, o));
    error_note_scheme(c, d, o);
    return d;
  }
  dims_text(c, k->left, k->right, &x, &y);
  if (o->scheme && o->prim == PRIM_RESHAPE)
    return reshape_error(c, k, x, y);
  if (o->kind == ORIGIN_ARG && k->from_broadcast && !o->actual) {
    Diag *d = error_at(c, 303, o->span,
                       "shapes do not broadcast in %s: %s and %s differ",
                       error_subject(c, o), x, y);
    int64_t n;
    if ((dim_is_int(dim_resolve(c->dims, k->left), &n) && n == 1) ||
        (dim_is_int(dim_resolve(c->dims, k->right), &n) && n == 1))
      d->help = "an axis of size 1 does not broadcast: remove it with index 0, "
                "and add a broadcast axis, as in x.[:, *]";
    error_note_scheme(c, d, o);
    return d;
  }
  return is_about_operands(o) ? operands_error(c, k)
                              : value_error(c, k, multiple);
}

void size_error_eq(Checker *c, Constraint *k) {
  Origin *o = k->origin;
  if (o->prim == PRIM_MATMUL && o->actual && o->expected) {
    if (o->number)
      inner_error(c, k);
    else
      batch_error(c, k);
    return;
  }
  Diag *self;
  if (recursive_call_error(c, o, &self)) {
    error_add_details(c, self, k);
    return;
  }
  if (error_related_argument(c, k))
    return;
  if (o->prim == PRIM_SQUEEZE) {
    squeeze_error(c, k);
    return;
  }
  if (inexact_division_error(c, k))
    return;
  NonMultiple m;
  const char *multiple = divisibility_failure(c, k, &m) ? m.text : NULL;
  Diag *d = sizes_error(c, k, multiple);
  error_add_details(c, d, k);
  if (multiple)
    d->counterexample = NULL; /* the message contains it */
  error_note_loop_state(c, d, o);
  error_blame_reshape_hole(c, d, k);
}

/* ---- inequalities ---- */

static void find_ranged_index(void *found, DimVar *v) {
  const DimVar **index = found;
  if (v->kind == DV_INDEX && v->name && index_range_of(v) && !*index)
    *index = v;
}

/* The end of the written range of an index is too large: the range can be
   inferred. */
static const char *inferred_range_help(Checker *c, const Constraint *k) {
  const DimVar *index = NULL;
  int64_t n;
  dim_each_var(k->origin->index.from, find_ranged_index, NULL, &index);
  return index && !dim_is_int(dim_resolve(c->dims, k->left), &n)
             ? arena_printf(c->arena,
                            "without a written range, `for %s` takes the "
                            "largest one in bounds",
                            index->name->text)
             : NULL;
}

static void index_error(Checker *c, Constraint *k) {
  Origin *o = k->origin;
  const char *from = o->expr && o->expr->kind == EX_NUM && !o->index.to
                         ? o->expr->num
                         : dim_to_text(c, o->index.from);
  const char *size = dim_to_text(c, o->index.axis);
  Diag *d;
  if (!o->index.to)
    d = error_at(c, 307, o->span,
                 "index %s is out of bounds for axis %u of size %s", from,
                 o->number, size);
  else
    d = error_at(c, 307, o->span,
                 "slice %s:%s is out of bounds for axis %u of size %s", from,
                 dim_to_text(c, o->index.to), o->number, size);
  if (o->actual)
    d->primary_label = arena_printf(c->arena, "of %s", ty_text(c, o->actual));
  int64_t first, end;
  bool reversed =
      o->index.to && dim_is_int(dim_resolve(c->dims, o->index.from), &first) &&
      dim_is_int(dim_resolve(c->dims, o->index.to), &end) && end < first;
  d->help =
      reversed ? "the end of a slice is at or after its start; to reverse an "
                 "axis, use reverse"
      : o->index.to
          ? "slices are not truncated: for the rest of an axis, omit the end, "
            "as in x.[2:]"
          : inferred_range_help(c, k);
  if (!d->help)
    d->help =
        "indices are from 0 to size - 1; a literal -k counts from the end";
  error_add_details(c, d, k);
}

void size_error_le(Checker *c, Constraint *k) {
  Origin *o = k->origin;
  if (o->kind == ORIGIN_INDEX && o->index.axis) {
    index_error(c, k);
    return;
  }
  const char *x, *y;
  inequality_text(c, k->left, k->right, &x, &y);
  Diag *d = error_at(c, 306, o->span,
                     "a size is out of range in %s: %s <= %s does not hold",
                     error_subject(c, o), x, y);
  if (o->actual)
    d->primary_label = ty_text(c, o->actual);
  else
    error_note_scheme(c, d, o);
  error_add_details(c, d, k);
}
