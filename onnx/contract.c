/* Sums of products: Conv, MatMul or Einsum. */
#include "onnx/emit.h"
#include "session/state.h"

#include <string.h>

enum { MAX_FACTORS = 16, MAX_LETTERS = 52 };

typedef struct Factors {
  Formula *at[MAX_FACTORS];
  uint32_t count;
} Factors;

static bool collect_factors(Formula *f, Factors *out) {
  if (f->kind == BODY_OP && f->op == PRIM_MUL)
    return collect_factors(f->args[0], out) && collect_factors(f->args[1], out);
  if (out->count == MAX_FACTORS)
    return false;
  out->at[out->count++] = f;
  return true;
}

/* ---- convolutions ---- */

typedef struct Window { /* x[.., stride * out + dilation * in, ..] */
  uint32_t place, out, in;
  int64_t stride, dilation;
} Window;

/* Channels of data are counted in one of these ways: c of the sum; o of the
 * result, without a sum (depthwise); c in a group g, which has its own place or
 * none, as in `channels of a group * g + c` (has_group); or
 * o / (outputs of a group) * (channels of a group) + c. */
typedef struct Convolution {
  Formula *data, *weights;
  uint32_t batch, channel, group; /* places of data; UINT32_MAX: none */
  bool is_depthwise, has_group;
  bool data_are_joined, weights_are_joined; /* groups without a place */
  int64_t groups;
  Window windows[3];
  uint32_t window_count;
  uint32_t in_channel, out_channel, group_axis; /* axes */
} Convolution;

/* The axis, if an index is all of it. */
static bool plain_axis(Exporter *x, Formula *index, uint32_t *axis) {
  uint32_t axes = index->dim ? dim_axes(x, index->dim) : 0;
  *axis = 0;
  if (__builtin_popcount(axes) != 1)
    return false;
  *axis = (uint32_t)__builtin_ctz(axes);
  return dim_as_var(index->dim) == x->axis_vars[*axis];
}

static bool window_of(Exporter *x, Formula *index, uint32_t result,
                      Window *out) {
  uint32_t axes = index->dim ? dim_axes(x, index->dim) : 0;
  uint32_t outer = axes & result, inner = axes & ~result;
  Dim *slope, *rest, *end;
  int64_t zero;
  if (__builtin_popcount(outer) != 1 || __builtin_popcount(inner) != 1)
    return false;
  out->out = (uint32_t)__builtin_ctz(outer);
  out->in = (uint32_t)__builtin_ctz(inner);
  return dim_split_linear(x->dims, index->dim, x->axis_vars[out->out], &slope,
                          &rest) &&
         dim_is_int(slope, &out->stride) && out->stride > 0 &&
         dim_split_linear(x->dims, rest, x->axis_vars[out->in], &slope, &end) &&
         dim_is_int(slope, &out->dilation) && out->dilation > 0 &&
         dim_is_int(end, &zero) && zero == 0;
}

/* True if an index is `size of inner * outer + inner`. */
static bool joins_axes(Exporter *x, const AxisSizes *a, Dim *index,
                       uint32_t outer, uint32_t inner) {
  Dim *wanted =
      dim_add(x->dims,
              dim_mul(x->dims, dim_of_var(x->dims, x->axis_vars[outer]),
                      extent_dim(x->graph, a->extents[inner])),
              dim_of_var(x->dims, x->axis_vars[inner]));
  return index && dim_equal(wanted, index);
}

/* An index of channels in groups of a static size. */
static bool find_divided_channel(Exporter *x, const AxisSizes *a,
                                 uint32_t result, uint32_t place,
                                 Convolution *c) {
  Dim *index = c->data->args[place]->dim;
  uint32_t axes = index ? dim_axes(x, index) : 0;
  uint32_t outer = axes & result, inner = axes & ~result;
  if (c->channel != UINT32_MAX || __builtin_popcount(outer) != 1 ||
      __builtin_popcount(inner) != 1)
    return false;
  c->channel = place;
  c->in_channel = (uint32_t)__builtin_ctz(inner);
  uint32_t out = (uint32_t)__builtin_ctz(outer);
  if (joins_axes(x, a, index, out, c->in_channel)) {
    c->data_are_joined = true;
    c->group = place;
    c->group_axis = out;
    return true;
  }
  int64_t all = known_extent(x, node_axes(c->data->node).extents[place]);
  int64_t ins = known_extent(x, a->extents[c->in_channel]);
  int64_t outs = known_extent(x, a->extents[out]);
  if (all < 1 || ins < 1 || outs < 1 || all % ins || outs % (all / ins))
    return false;
  c->groups = all / ins;
  Dim *group = dim_div(x->dims, dim_of_var(x->dims, x->axis_vars[out]),
                       dim_int(x->dims, outs / c->groups));
  Dim *wanted = dim_add(x->dims, dim_mul(x->dims, group, dim_int(x->dims, ins)),
                        dim_of_var(x->dims, x->axis_vars[c->in_channel]));
  return dim_equal(wanted, index);
}

static uint32_t dim_axes_of(Exporter *x, const Formula *index) {
  return index->dim ? dim_axes(x, index->dim) : 0;
}

static bool find_places(Exporter *x, const AxisSizes *a, uint32_t result,
                        uint32_t weight_axes, Convolution *c) {
  c->batch = c->channel = c->group = UINT32_MAX;
  c->groups = 1;
  for (uint32_t k = 0; k < c->data->arg_count; k++) {
    uint32_t axis;
    if (!plain_axis(x, c->data->args[k], &axis)) {
      bool is_window =
          !(dim_axes_of(x, c->data->args[k]) & weight_axes & result);
      if (is_window && c->window_count < 3 &&
          window_of(x, c->data->args[k], result, &c->windows[c->window_count]))
        c->windows[c->window_count++].place = k;
      else if (!find_divided_channel(x, a, result, k, c))
        return false;
      continue;
    }
    bool is_shared = weight_axes >> axis & 1, is_out = result >> axis & 1;
    uint32_t *place = !is_shared ? &c->batch : is_out ? &c->group : &c->channel;
    if (*place != UINT32_MAX)
      return false;
    *place = k;
    if (is_shared)
      *(is_out ? &c->group_axis : &c->in_channel) = axis;
  }
  return c->window_count && c->batch != UINT32_MAX &&
         (c->channel != UINT32_MAX || c->group != UINT32_MAX);
}

/* Groups have an own axis, or are channels. */
static bool find_groups(Exporter *x, const AxisSizes *a, Convolution *c) {
  AxisSizes from = node_axes(c->data->node);
  c->has_group = c->group != UINT32_MAX && c->channel != UINT32_MAX;
  c->is_depthwise = c->group != UINT32_MAX && c->channel == UINT32_MAX;
  if (c->has_group && c->groups != 1)
    return false;
  if (c->is_depthwise) {
    c->channel = c->group;
    c->in_channel = c->group_axis;
  }
  if (c->group != UINT32_MAX) {
    c->groups = known_extent(x, a->extents[c->group_axis]);
    if (c->groups < 1)
      return false;
  }
  if (c->data_are_joined) {
    int64_t channels;
    return extent_mul(x->graph, c->groups, a->extents[c->in_channel],
                      &channels) &&
           channels == from.extents[c->channel];
  }
  if (c->group != UINT32_MAX &&
      from.extents[c->group] != a->extents[c->group_axis])
    return false;
  return (c->group == UINT32_MAX && c->groups > 1) ||
         from.extents[c->channel] == a->extents[c->in_channel];
}

/* Finds the places of the weights in the order of Conv. */
static bool weight_order(Exporter *x, const AxisSizes *a, uint32_t result,
                         Convolution *c, int64_t *perm, uint32_t *count) {
  uint32_t places[MAX_RANK], used = 0, channel = c->in_channel;
  uint32_t group = c->has_group ? 1u << c->group_axis : 0;
  int64_t join_size;
  AxisSizes w = node_axes(c->weights->node);
  for (uint32_t k = 0; k < MAX_RANK; k++)
    places[k] = UINT32_MAX;
  for (uint32_t k = 0; k < c->weights->arg_count; k++) {
    uint32_t axis, joined = dim_axes_of(x, c->weights->args[k]) & ~group;
    int64_t size = w.extents[k];
    if (!plain_axis(x, c->weights->args[k], &axis)) {
      if (!group || used & group || __builtin_popcount(joined) != 1)
        return false;
      axis = (uint32_t)__builtin_ctz(joined);
      if (!joins_axes(x, a, c->weights->args[k]->dim, c->group_axis, axis) ||
          !extent_mul(x->graph, a->extents[axis], c->groups, &join_size) ||
          join_size != size)
        return false;
      c->weights_are_joined = true;
      used |= group;
      size = a->extents[axis];
    }
    if (used >> axis & 1 || size != a->extents[axis])
      return false;
    used |= 1u << axis;
    places[axis] = k;
  }
  uint32_t outs = used & result & ~(1u << channel | group);
  if (!(used >> channel & 1) || (used & group) != group)
    return false;
  if (c->is_depthwise ? outs != 0 : __builtin_popcount(outs) != 1)
    return false;
  c->out_channel = c->is_depthwise ? channel : (uint32_t)__builtin_ctz(outs);
  *count = 0;
  if (c->has_group && !c->weights_are_joined)
    perm[(*count)++] = places[c->group_axis];
  perm[(*count)++] = places[c->out_channel];
  if (!c->is_depthwise)
    perm[(*count)++] = places[channel];
  used &= ~(1u << c->out_channel | 1u << channel | group);
  for (uint32_t k = 0; k < c->window_count; k++) {
    uint32_t in = c->windows[k].in;
    if (!(used >> in & 1))
      return false;
    used &= ~(1u << in);
    perm[(*count)++] = places[in];
  }
  return used == 0;
}

/* Conv may have windows behind those that are wanted. */
static const char *cut_result(Exporter *x, const AxisSizes *a,
                              const Convolution *c, const char *name) {
  AxisSizes from = node_axes(c->data->node);
  for (uint32_t k = 0; k < c->window_count; k++) {
    const Window *w = &c->windows[k];
    int64_t window, size, place = 2 + k, zero = 0;
    if (extent_sub(x->graph, a->extents[w->in], 1, &window) &&
        extent_mul(x->graph, window, w->dilation, &window) &&
        extent_sub(x->graph, from.extents[w->place], window, &size) &&
        extent_sub(x->graph, size, 1, &size) &&
        extent_floor_div(x->graph, size, w->stride, &size) &&
        extent_add(x->graph, size, 1, &size) && size == a->extents[w->out])
      continue;
    OpMessage *op = op_new(x, "Slice");
    op_input(x, op, name);
    op_input(x, op, put_list(x, 1, &zero));
    op_input(x, op, put_shape(x, 1, &a->extents[w->out]));
    op_input(x, op, put_list(x, 1, &place));
    name = op_output(x, op);
  }
  return name;
}

/* The value with axes `at` and `at + 1` as one. */
static const char *join_axes(Exporter *x, const char *name, uint32_t rank,
                             const int64_t *sizes, uint32_t at) {
  int64_t shape[MAX_RANK];
  uint32_t n = 0;
  for (uint32_t k = 0; k < rank; k++)
    if (k != at + 1)
      shape[n++] = sizes[k];
    else if (!extent_mul(x->graph, shape[n - 1], sizes[k], &shape[n - 1]))
      export_fail(x, NULL, "a size is too large");
  return put_op(x, "Reshape", name, put_shape(x, n, shape), NULL);
}

/* Data as Conv has them: batch, channels, windows. */
static const char *conv_data(Exporter *x, const Convolution *c) {
  AxisSizes from = node_axes(c->data->node);
  int64_t perm[MAX_RANK], sizes[MAX_RANK];
  uint32_t rank = 0;
  perm[rank++] = c->batch;
  bool joins = c->has_group && !c->data_are_joined;
  if (joins)
    perm[rank++] = c->group;
  perm[rank++] = c->channel;
  for (uint32_t k = 0; k < c->window_count; k++)
    perm[rank++] = c->windows[k].place;
  for (uint32_t k = 0; k < rank; k++)
    sizes[k] = from.extents[perm[k]];
  const char *name = put_transpose(x, node_whole(x, c->data->node), rank, perm);
  return joins ? join_axes(x, name, rank, sizes, 1) : name;
}

static const char *conv_weights(Exporter *x, const Convolution *c,
                                const int64_t *perm, uint32_t rank) {
  AxisSizes from = node_axes(c->weights->node);
  int64_t sizes[MAX_RANK], one = 1;
  for (uint32_t k = 0; k < rank; k++)
    sizes[k] = from.extents[perm[k]];
  const char *name =
      put_transpose(x, node_whole(x, c->weights->node), rank, perm);
  if (c->has_group && !c->weights_are_joined)
    return join_axes(x, name, rank, sizes, 0);
  return c->is_depthwise
             ? put_op(x, "Unsqueeze", name, put_list(x, 1, &one), NULL)
             : name;
}

static Labeled put_conv(Exporter *x, const AxisSizes *a, Convolution *c,
                        const int64_t *weight_perm, uint32_t weight_rank) {
  int64_t perm[MAX_RANK], strides[3], dilations[3], sizes[MAX_RANK];
  uint32_t axes[MAX_RANK] = {0}, mask = 0, rank = 1;
  plain_axis(x, c->data->args[c->batch], &axes[0]);
  if (c->has_group)
    axes[rank++] = c->group_axis;
  axes[rank++] = c->out_channel;
  for (uint32_t k = 0; k < c->window_count; k++) {
    strides[k] = c->windows[k].stride;
    dilations[k] = c->windows[k].dilation;
    axes[rank++] = c->windows[k].out;
  }
  OpMessage *op = op_new(x, "Conv");
  op_input(x, op, conv_data(x, c));
  op_input(x, op, conv_weights(x, c, weight_perm, weight_rank));
  op_ints(x, op, "strides", c->window_count, strides);
  op_ints(x, op, "dilations", c->window_count, dilations);
  op_int(x, op, "group", c->groups);
  const char *name = cut_result(x, a, c, op_output(x, op));
  for (uint32_t k = 0; k < rank; k++) {
    sizes[k] = a->extents[axes[k]];
    mask |= 1u << axes[k];
  }
  if (c->has_group)
    name = put_op(x, "Reshape", name, put_shape(x, rank, sizes), NULL);
  for (uint32_t k = 0; k < rank; k++)
    perm[lower_axes(mask, axes[k])] = k;
  return (Labeled){put_transpose(x, name, rank, perm), mask};
}

static bool lower_convolution(Exporter *x, const AxisSizes *a, uint32_t result,
                              Formula *data, Formula *weights, Labeled *out) {
  Convolution c = {.data = data, .weights = weights};
  int64_t perm[MAX_RANK];
  uint32_t weight_axes = 0, count = 0;
  if (data->kind != BODY_READ || weights->kind != BODY_READ ||
      !dtype_is_float(data->dtype) || data->arg_count > 6)
    return false;
  for (uint32_t k = 0; k < weights->arg_count; k++)
    if (weights->args[k]->dim)
      weight_axes |= dim_axes(x, weights->args[k]->dim);
  if (!find_places(x, a, result, weight_axes, &c) || !find_groups(x, a, &c) ||
      !weight_order(x, a, result, &c, perm, &count))
    return false;
  /* The channels and windows must be all axes of the sum. */
  uint32_t reduced = ((1u << a->count) - 1) & ~result;
  for (uint32_t k = 0; k < c.window_count; k++)
    reduced &= ~(1u << c.windows[k].in);
  if (reduced & ~(1u << c.in_channel))
    return false;
  *out = put_conv(x, a, &c, perm, count);
  return true;
}

/* ---- products of matrices ---- */

static bool swap_last(uint32_t axes, int64_t *perm, uint32_t *rank) {
  *rank = (uint32_t)__builtin_popcount(axes);
  for (uint32_t k = 0; k < *rank; k++)
    perm[k] = k;
  if (*rank < 2)
    return false;
  perm[*rank - 1] = *rank - 2;
  perm[*rank - 2] = *rank - 1;
  return true;
}

/* l[batch, i, r] and r[batch, j, r], or r[j, r] and any axes before r. */
static bool lower_matmul(Exporter *x, uint32_t result, Labeled l, Labeled r,
                         Labeled *out) {
  uint32_t batch = l.axes & r.axes & result, reduced = l.axes & ~result;
  uint32_t rows = l.axes & result & ~batch, columns = r.axes & result & ~batch;
  int64_t perm[MAX_RANK];
  uint32_t rank;
  if (reduced != (r.axes & ~result) || __builtin_popcount(reduced) != 1 ||
      __builtin_popcount(columns) != 1 || !rows || rows > columns ||
      (batch && (__builtin_popcount(rows) != 1 || batch > rows)))
    return false;
  swap_last(r.axes, perm, &rank);
  *out = (Labeled){
      put_op(x, "MatMul", l.name, put_transpose(x, r.name, rank, perm), NULL),
      batch | rows | columns};
  return true;
}

static void put_letters(Buffer *out, uint32_t axes) {
  for (uint32_t k = 0; k < MAX_RANK; k++)
    if (axes >> k & 1)
      buffer_putc(out, (char)(k < 26 ? 'a' + k : 'A' + (k - 26)));
}

static Labeled lower_einsum(Exporter *x, uint32_t result, uint32_t count,
                            const Labeled *v) {
  Buffer equation = {.arena = x->arena};
  OpMessage *op = op_new(x, "Einsum");
  uint32_t axes = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (i)
      buffer_putc(&equation, ',');
    put_letters(&equation, v[i].axes);
    op_input(x, op, v[i].name);
    axes |= v[i].axes;
  }
  axes &= result;
  buffer_puts(&equation, "->");
  put_letters(&equation, axes);
  op_string(x, op, "equation", equation.text);
  return (Labeled){op_output(x, op), axes};
}

static bool lower_product(Exporter *x, const AxisSizes *a, uint32_t result,
                          const Factors *f, Labeled *out) {
  Labeled inner[MAX_FACTORS], outer[MAX_FACTORS];
  uint32_t inner_count = 0, outer_count = 0, reduced = 0;
  for (uint32_t i = 0; i < f->count; i++) {
    Labeled v = lower_formula(x, a, f->at[i]);
    if (v.axes & ~result)
      inner[inner_count++] = v;
    else
      outer[outer_count++] = v;
    reduced |= v.axes & ~result;
  }
  if (inner_count < 2 || reduced != (((1u << a->count) - 1) & ~result))
    return false;
  if (inner_count != 2 || (!lower_matmul(x, result, inner[0], inner[1], out) &&
                           !lower_matmul(x, result, inner[1], inner[0], out)))
    *out = lower_einsum(x, result, inner_count, inner);
  for (uint32_t i = 0; i < outer_count; i++) {
    Labeled args[] = {*out, outer[i]};
    *out = put_expression(x, "Mul($x, $y)", f->at[0]->dtype, 2, args);
  }
  return true;
}

bool is_contraction(const Node *n) {
  return n->reduce == PRIM_SUM;
}

bool lower_contraction(Exporter *x, const AxisSizes *a, uint32_t result,
                       Formula *f, Labeled *out) {
  Factors factors = {.count = 0};
  if (!collect_factors(f, &factors) || factors.count < 2 ||
      a->count >= MAX_RANK)
    return false;
  if (factors.count == 2 &&
      (lower_convolution(x, a, result, factors.at[0], factors.at[1], out) ||
       lower_convolution(x, a, result, factors.at[1], factors.at[0], out)))
    return true;
  return lower_product(x, a, result, &factors, out);
}
