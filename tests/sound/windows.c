/* Operations written with `for`, in the program or in nn: windows, strides,
 * convolution, pooling.  (loops.c has those that are compared by value.) */
#include "tests/sound/sound.h"

static bool one(Gen *g, const Env *env, GenStep *s, int min, int max) {
  s->operands[0] = pick_var(g, env, min, max, false);
  s->operand_count = 1;
  return s->operands[0] >= 0;
}

static int64_t floor_half(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

/* ---- of one axis ---- */

enum { W_SLIDE, W_STRIDE, W_UP, W_BACK, W_ROUND, W_STENCIL, W_FORMS };

/* How many sizes a form is made with: k, or k and o. */
static int window_sizes(int form) {
  return form == W_STRIDE || form == W_ROUND ? 2
         : form == W_SLIDE || form == W_UP   ? 1
                                             : 0;
}

static bool window_make(Gen *g, const Env *env, GenStep *s) {
  if (!one(g, env, s, 1, 1))
    return false;
  int64_t d = env->var[s->operands[0]].at[0];
  s->variant = random_below(g, W_FORMS);
  s->sizes = window_sizes(s->variant);
  s->size[0] = size_for(g, env,
                        random_between(g, 1,
                                       d > 3   ? 4
                                       : d > 0 ? (int)d
                                               : 1));
  s->size[1] = size_for(g, env, random_below(g, 3));
  if (s->variant == W_STRIDE) /* a symbolic slope has no range */
    s->size[0] = size_int(g, random_between(g, 1, 3));
  return true;
}

/* Of length d, seen through k and o. */
static int64_t window_range(int form, int64_t d, int64_t k, int64_t o) {
  switch (form % W_FORMS) {
  case W_SLIDE:
    return d - k + 1;
  case W_STRIDE:
    return floor_half(d - 1 - o, k) + 1;
  case W_UP:
    return k * d;
  case W_BACK:
    return d;
  case W_ROUND:
    return k;
  }
  return d - 2;
}

static Truth window_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = &env->var[s->operands[0]];
  int64_t k = 1, o = 0;
  int form = s->variant % W_FORMS;
  if (x->rank != 1)
    return TRUTH_WRONG;
  if (x->at[0] == BROADCAST_AXIS)
    return TRUTH_UNKNOWN;
  if ((s->sizes > 0 && size_value(s->size[0], env, &k) != TRUTH_RIGHT) ||
      (s->sizes > 1 && size_value(s->size[1], env, &o) != TRUTH_RIGHT))
    return TRUTH_WRONG;
  int64_t d = x->at[0];
  if ((form <= W_UP && k < 1) || o < 0 || !d)
    return TRUTH_UNKNOWN;
  if (form == W_ROUND && k < 0)
    return TRUTH_WRONG;
  *out = (Extents){1, {window_range(form, d, k, o)}};
  if (form == W_ROUND || form == W_UP || form == W_BACK)
    return TRUTH_RIGHT;
  return out->at[0] >= 1 ? TRUTH_RIGHT : TRUTH_WRONG;
}

static void window_print(Buffer *out, const GenStep *s) {
  int v = s->operands[0];
  switch (s->variant % W_FORMS) {
  case W_SLIDE:
    PUT(out, "(for i => sum (for k < ");
    size_print(out, s->size[0]);
    PUT(out, " => v%d.[i + k]))", v);
    return;
  case W_STRIDE:
    PUT(out, "(for i => v%d.[", v);
    size_print(out, s->size[0]);
    PUT(out, " * i + ");
    size_print(out, s->size[1]);
    PUT(out, "])");
    return;
  case W_UP:
    PUT(out, "(for i < ");
    size_print(out, s->size[0]);
    PUT(out, " * dim 0 v%d => v%d.[i / ", v, v);
    size_print(out, s->size[0]);
    PUT(out, "])");
    return;
  case W_BACK:
    PUT(out, "(for i => v%d.[dim 0 v%d - 1 - i])", v, v);
    return;
  case W_ROUND:
    PUT(out, "(for i < ");
    size_print(out, s->size[0]);
    PUT(out, " => v%d.[(i + ", v);
    size_print(out, s->size[1]);
    PUT(out, ") %% dim 0 v%d])", v);
    return;
  }
  PUT(out, "(for i => v%d.[i] - 2.0 * v%d.[i + 1] + v%d.[i + 2])", v, v, v);
}

/* ---- of two ---- */

static bool cross_make(Gen *g, const Env *env, GenStep *s) {
  s->variant = random_below(g, 6);
  int rank = s->variant == 0 ? 1 : 2;
  if (!one(g, env, s, rank, rank))
    return false;
  bool lone = s->variant == 1 || s->variant == 2 || s->variant == 4;
  s->operands[1] = lone ? s->operands[0] : pick_var(g, env, rank, rank, false);
  s->operand_count = lone ? 1 : 2;
  return s->operands[1] >= 0;
}

static Truth cross_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = &env->var[s->operands[0]];
  const Extents *y = s->operand_count > 1 ? &env->var[s->operands[1]] : x;
  int form = s->variant % 6, rank = form == 0 ? 1 : 2;
  if (x->rank != rank || y->rank != rank)
    return TRUTH_WRONG;
  if (axes_has_star(x) || axes_has_star(y))
    return TRUTH_UNKNOWN;
  switch (form) {
  case 0:
    *out = *x;
    return x->at[0] == y->at[0] ? TRUTH_RIGHT : TRUTH_WRONG;
  case 1:
    *out = (Extents){2, {x->at[1], x->at[0]}};
    return TRUTH_RIGHT;
  case 2:
    *out = (Extents){1, {x->at[0]}};
    return x->at[0] == x->at[1] ? TRUTH_RIGHT : TRUTH_WRONG;
  case 3:
    *out = (Extents){2, {x->at[0], y->at[1]}};
    return x->at[1] == y->at[0] ? TRUTH_RIGHT : TRUTH_WRONG;
  case 4:
    *out = (Extents){2, {x->at[0] - 1, x->at[1]}};
    return x->at[0] >= 2 ? TRUTH_RIGHT : TRUTH_WRONG;
  }
  *out = *x;
  return axes_equal(x, y) ? TRUTH_RIGHT : TRUTH_WRONG;
}

static void cross_print(Buffer *out, const GenStep *s) {
  static const char *const form[] = {
      "(for i => $0.[i] * $1.[i])",
      "(for j i => $0.[i, j])",
      "(for i => $0.[i, i])",
      "(for i j => sum (for k => $0.[i, k] * $1.[k, j]))",
      "(for i j => $0.[i + 1, j] - $0.[i, j])",
      "(for i j => $0.[i, j] + $1.[i, j])",
  };
  put_template(out, form[s->variant % 6], s);
}

/* ---- convolution and pooling of nn ---- */

enum { SZ_OUT, SZ_IN, SZ_KERNEL, SZ_STRIDE, SZ_PADDING, SZ_DILATION, SZ_BIAS };

static bool conv_make(Gen *g, const Env *env, GenStep *s) {
  s->variant = random_below(g, 2); /* conv1d, conv2d */
  int rank = 3 + s->variant;
  if (!one(g, env, s, rank, rank))
    return false;
  const Extents *x = &env->var[s->operands[0]];
  int64_t o = random_between(g, 1, 3);
  s->sizes = 7;
  s->size[SZ_OUT] = size_for(g, env, o);
  s->size[SZ_IN] = size_for(g, env, x->at[1]);
  s->size[SZ_KERNEL] = size_for(g, env, random_between(g, 1, 3));
  s->size[SZ_STRIDE] =
      size_int(g, random_percent(g, 60) ? 1 : random_between(g, 1, 3));
  s->size[SZ_PADDING] = size_int(g, random_below(g, 3));
  s->size[SZ_DILATION] = size_int(g, random_percent(g, 70) ? 1 : 2);
  s->size[SZ_BIAS] = size_for(g, env, o);
  return true;
}

static Truth conv_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = &env->var[s->operands[0]];
  int64_t z[7];
  if (x->rank != 3 + s->variant % 2 || axes_has_star(x))
    return TRUTH_WRONG;
  for (int i = 0; i < 7; i++)
    if (size_value(s->size[i], env, &z[i]) != TRUTH_RIGHT || z[i] < 0)
      return TRUTH_WRONG;
  if (!z[SZ_KERNEL] || !z[SZ_STRIDE] || !z[SZ_DILATION] || !axes_prod(x))
    return TRUTH_UNKNOWN;
  if (z[SZ_IN] != x->at[1] || z[SZ_OUT] != z[SZ_BIAS])
    return TRUTH_WRONG;
  *out = *x;
  out->at[1] = z[SZ_OUT];
  for (int i = 2; i < x->rank; i++) {
    int64_t room =
        x->at[i] + 2 * z[SZ_PADDING] - z[SZ_DILATION] * (z[SZ_KERNEL] - 1) - 1;
    if (room < 0)
      return TRUTH_WRONG;
    out->at[i] = room / z[SZ_STRIDE] + 1;
  }
  return TRUTH_RIGHT;
}

static void put_label(Buffer *out, const char *label, const Size *size) {
  PUT(out, " ~%s:", label);
  size_print(out, size);
}

static void conv_print(Buffer *out, const GenStep *s) {
  PUT(out, "nn.conv%dd", 1 + s->variant % 2);
  put_label(out, "stride", s->size[SZ_STRIDE]);
  put_label(out, "padding", s->size[SZ_PADDING]);
  put_label(out, "dilation", s->size[SZ_DILATION]);
  PUT(out, " {w = zeros [");
  size_print(out, s->size[SZ_OUT]);
  PUT(out, ", ");
  size_print(out, s->size[SZ_IN]);
  for (int i = 0; i <= s->variant % 2; i++) {
    PUT(out, ", ");
    size_print(out, s->size[SZ_KERNEL]);
  }
  PUT(out, "], b = zeros [");
  size_print(out, s->size[SZ_BIAS]);
  PUT(out, "]} v%d", s->operands[0]);
}

static bool pool_make(Gen *g, const Env *env, GenStep *s) {
  s->variant = random_below(g, 3); /* maxpool, avgpool, maxpool1d */
  int rank = s->variant == 2 ? 3 : 4;
  s->sizes = 2;
  s->size[0] = size_for(g, env, random_between(g, 1, 3));
  s->size[1] = size_int(g, random_between(g, 1, 3));
  return one(g, env, s, rank, rank);
}

static Truth pool_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = &env->var[s->operands[0]];
  int64_t k, stride;
  if (x->rank != (s->variant % 3 == 2 ? 3 : 4) || axes_has_star(x) ||
      size_value(s->size[0], env, &k) != TRUTH_RIGHT ||
      size_value(s->size[1], env, &stride) != TRUTH_RIGHT)
    return TRUTH_WRONG;
  if (k < 1 || stride < 1 || !axes_prod(x))
    return TRUTH_UNKNOWN;
  *out = *x;
  for (int i = 2; i < x->rank; i++) {
    if (x->at[i] < k)
      return TRUTH_WRONG;
    out->at[i] = (x->at[i] - k) / stride + 1;
  }
  return TRUTH_RIGHT;
}

static void pool_print(Buffer *out, const GenStep *s) {
  static const char *const name[] = {"maxpool", "avgpool", "maxpool1d"};
  PUT(out, "nn.%s", name[s->variant % 3]);
  put_label(out, "size", s->size[0]);
  put_label(out, "stride", s->size[1]);
  PUT(out, " v%d", s->operands[0]);
}

const Op loop_ops[] = {
    {.name = "window", 14, window_make, window_shape, window_print},
    {.name = "cross", 9, cross_make, cross_shape, cross_print},
    {.name = "conv", 8, conv_make, conv_shape, conv_print},
    {.name = "pool", 6, pool_make, pool_shape, pool_print},
    {.name = NULL},
};
