/* Conditions on one axis: the value is a concatenation of what holds on ranges
 * of this axis.  This is how Axon's graph has concatenation and padding. */
#include "onnx/emit.h"
#include "session/state.h"

typedef struct Range { /* from <= axis < to */
  uint32_t axis;       /* MAX_RANK: none yet */
  Dim *from, *to;      /* NULL: as the axis */
} Range;

/* Adds the condition e >= 0. */
static bool restrict_range(Exporter *x, Dim *e, Range *range) {
  uint32_t axes = dim_axes(x, e);
  Dim *slope, *rest;
  int64_t n;
  if (__builtin_popcount(axes) != 1)
    return false;
  uint32_t k = (uint32_t)__builtin_ctz(axes);
  if ((range->axis != MAX_RANK && range->axis != k) ||
      !dim_split_linear(x->dims, e, x->axis_vars[k], &slope, &rest) ||
      !dim_is_int(slope, &n) || (n != 1 && n != -1))
    return false;
  range->axis = k;
  Dim **end = n == 1 ? &range->from : &range->to;
  Dim *value = n == 1 ? dim_neg(x->dims, rest)
                      : dim_add(x->dims, rest, dim_int(x->dims, 1));
  if (*end)
    return false;
  *end = value;
  return true;
}

static bool condition_range(Exporter *x, Formula *c, Range *range) {
  if (c->kind != BODY_OP || c->arg_count != 2)
    return false;
  if (c->op == PRIM_AND)
    return condition_range(x, c->args[0], range) &&
           condition_range(x, c->args[1], range);
  Dim *l = c->args[0]->dim, *r = c->args[1]->dim;
  if (!l || !r)
    return false;
  Dim *less = dim_sub(x->dims, r, l), *more = dim_neg(x->dims, less);
  Dim *one = dim_int(x->dims, 1);
  if (c->op == PRIM_LT)
    return restrict_range(x, dim_sub(x->dims, less, one), range);
  if (c->op == PRIM_LE)
    return restrict_range(x, less, range);
  if (c->op == PRIM_GT)
    return restrict_range(x, dim_sub(x->dims, more, one), range);
  if (c->op == PRIM_GE)
    return restrict_range(x, more, range);
  return c->op == PRIM_EQ && restrict_range(x, more, range) &&
         restrict_range(x, less, range);
}

static bool reads_nodes(const Formula *f) {
  if (f->kind == BODY_READ)
    return true;
  for (uint32_t k = 0; k < f->arg_count; k++)
    if (reads_nodes(f->args[k]))
      return true;
  return false;
}

/* ---- pieces ---- */

typedef struct Shift { /* of an axis, by an offset */
  Exporter *x;
  DimVar *var;
  Dim *by;
  Map done;
} Shift;

static Dim *shifted_var(void *arg, DimVar *var) {
  Shift *s = arg;
  return var == s->var ? dim_add(s->x->dims, dim_of_var(s->x->dims, var), s->by)
                       : NULL;
}

static Formula *shift(Shift *s, Formula *f) {
  Formula *out = map_get(&s->done, f);
  if (out)
    return out;
  out = MAKE(s->x->arena, Formula);
  *out = *f;
  map_put(&s->done, f, out);
  if (f->dim)
    out->dim = dim_subst(s->x->dims, f->dim, shifted_var, NULL, s);
  out->args = MAKE_ARRAY(s->x->arena, Formula *, f->arg_count + 1);
  for (uint32_t k = 0; k < f->arg_count; k++)
    out->args[k] = shift(s, f->args[k]);
  out->has_result = false;
  return out;
}

typedef struct Piece {
  Formula *value;
  Dim *from, *to;
} Piece;

static AxisSizes piece_axes(Exporter *x, const AxisSizes *a, uint32_t axis,
                            const Piece *p) {
  AxisSizes out = *a;
  out.extents[axis] = extent_of_dim(x->graph, dim_sub(x->dims, p->to, p->from));
  return out;
}

static Labeled lower_piece(Exporter *x, const AxisSizes *a, uint32_t axis,
                           const Piece *p) {
  AxisSizes inner = piece_axes(x, a, axis, p);
  Shift s = {.x = x, .var = x->axis_vars[axis], .by = p->from};
  map_init(&s.done, x->arena);
  return lower_formula(x, &inner, shift(&s, p->value));
}

static Labeled concat_pieces(Exporter *x, const AxisSizes *a, uint32_t axis,
                             uint32_t count, const Piece *pieces) {
  Labeled values[3];
  uint32_t axes = 1u << axis;
  for (uint32_t i = 0; i < count; i++) {
    values[i] = lower_piece(x, a, axis, &pieces[i]);
    axes |= values[i].axes;
  }
  OpMessage *op = op_new(x, "Concat");
  for (uint32_t i = 0; i < count; i++) {
    AxisSizes inner = piece_axes(x, a, axis, &pieces[i]);
    op_input(x, op, expand_to(x, &inner, values[i], axes));
  }
  op_int(x, op, "axis", lower_axes(axes, axis));
  return (Labeled){op_output(x, op), axes};
}

/* The piece in the middle, with a constant around it. */
static Labeled pad_piece(Exporter *x, const AxisSizes *a, uint32_t axis,
                         const Piece *piece, const Formula *around) {
  AxisSizes inner = piece_axes(x, a, axis, piece);
  Labeled v = lower_piece(x, a, axis, piece);
  uint32_t axes = v.axes | 1u << axis, rank = 0;
  int64_t pads[2 * MAX_RANK] = {0};
  const char *name = expand_to(x, &inner, v, axes);
  uint32_t place = lower_axes(axes, axis);
  rank = (uint32_t)__builtin_popcount(axes);
  pads[place] = extent_of_dim(x->graph, piece->from);
  if (!extent_sub(x->graph, a->extents[axis],
                  extent_of_dim(x->graph, piece->to), &pads[rank + place]))
    export_fail(x, NULL, "a size is too large");
  OpMessage *op = op_new(x, "Pad");
  op_input(x, op, name);
  op_input(x, op, put_shape(x, 2 * rank, pads));
  op_input(x, op, put_scalar(x, around->value));
  return (Labeled){op_output(x, op), axes};
}

static bool is_ordered(Exporter *x, Dim *l, Dim *r) {
  return extent_proved(x->graph, EXTENT_LE, extent_of_dim(x->graph, l),
                       extent_of_dim(x->graph, r));
}

static bool lower_ranges(Exporter *x, const AxisSizes *a, Formula *f,
                         Labeled *out) {
  Range range = {.axis = MAX_RANK};
  if (!condition_range(x, f->args[0], &range) ||
      !(reads_nodes(f->args[1]) || reads_nodes(f->args[2])))
    return false;
  Dim *zero = dim_int(x->dims, 0);
  Dim *size = extent_dim(x->graph, a->extents[range.axis]);
  Dim *from = range.from ? range.from : zero, *to = range.to ? range.to : size;
  if (!is_ordered(x, from, to) || !is_ordered(x, zero, from) ||
      !is_ordered(x, to, size))
    return false;
  Piece all[] = {
      {f->args[2], zero, from}, {f->args[1], from, to}, {f->args[2], to, size}};
  Piece pieces[3];
  uint32_t count = 0;
  for (int i = 0; i < 3; i++)
    if (!dim_equal(all[i].from, all[i].to))
      pieces[count++] = all[i];
  if (count == 0)
    return false;
  *out = f->args[2]->kind == BODY_CONST && !dim_equal(from, to)
             ? pad_piece(x, a, range.axis, &all[1], f->args[2])
             : concat_pieces(x, a, range.axis, count, pieces);
  return true;
}

Labeled lower_select(Exporter *x, const AxisSizes *a, Formula *f) {
  Labeled out, args[3];
  if (lower_ranges(x, a, f, &out))
    return out;
  AxisSizes guarded = *a;
  guarded.is_guarded = true;
  args[0] = lower_formula(x, a, f->args[0]);
  args[1] = lower_formula(x, &guarded, f->args[1]);
  args[2] = lower_formula(x, &guarded, f->args[2]);
  /* ONNX Runtime has no Where of bool. */
  const char *how = f->dtype == DT_BOOL ? "Or(And($x, $y), And(Not($x), $z))"
                                        : map_info[PRIM_SELECT].onnx.integer;
  return put_expression(x, how, f->dtype, 3, args);
}
