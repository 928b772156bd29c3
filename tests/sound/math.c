/* Operations that compute: pointwise, reductions, products. */
#include "tests/sound/sound.h"

#include <string.h>

static bool two_operands(Gen *g, const Env *env, GenStep *s, int min,
                         bool stars) {
  s->operands[0] = pick_var(g, env, min, MAX_AXES, stars);
  s->operands[1] = pick_var(g, env, min, MAX_AXES, stars);
  s->operand_count = 2;
  return s->operands[0] >= 0 && s->operands[1] >= 0;
}

/* ---- pointwise ---- */

static bool join_make(Gen *g, const Env *env, GenStep *s) {
  s->variant = random_below(g, 6);
  return two_operands(g, env, s, 0, true);
}

static Truth join_shape(const Env *env, const GenStep *s, Extents *out) {
  return axes_join(&env->var[s->operands[0]], &env->var[s->operands[1]], out);
}

static void join_print(Buffer *out, const GenStep *s) {
  static const char *const form[] = {
      "$0 + $1",       "$0 * $1",           "$0 - $1",
      "maximum $0 $1", "select true $0 $1", "$0 / $1",
  };
  put_template(out, form[s->variant % 6], s);
}

static bool plain_make(Gen *g, const Env *env, GenStep *s) {
  s->variant = random_below(g, 3);
  s->operands[0] = pick_var(g, env, 0, MAX_AXES, true);
  s->operand_count = 1;
  return s->operands[0] >= 0;
}

static Truth plain_shape(const Env *env, const GenStep *s, Extents *out) {
  *out = env->var[s->operands[0]];
  return TRUTH_RIGHT;
}

static void plain_print(Buffer *out, const GenStep *s) {
  static const char *const name[] = {"exp", "tanh", "abs"};
  PUT(out, "%s v%d", name[s->variant % 3], s->operands[0]);
}

/* ---- reductions: form % 3 is the function, form / 3 the kind of axis ---- */

enum { BY_AXIS, BY_TWO, BY_ALL, BY_NONE, REDUCE_KINDS };

static bool reduce_make(Gen *g, const Env *env, GenStep *s) {
  int kind = random_percent(g, 65) ? BY_AXIS : random_below(g, REDUCE_KINDS);
  s->operands[0] =
      pick_var(g, env, kind == BY_TWO ? 2 : kind == BY_AXIS, MAX_AXES, true);
  s->operand_count = 1;
  if (s->operands[0] < 0)
    return false;
  const Extents *x = &env->var[s->operands[0]];
  s->variant = random_below(g, 3) + 3 * kind;
  s->keep_axes = random_percent(g, 50);
  s->axis = kind == BY_AXIS ? pick_axis(g, x)
            : kind == BY_TWO
                ? (random_percent(g, 50) ? -2 : random_below(g, x->rank - 1))
                : 0;
  return true;
}

static Truth reduce_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = &env->var[s->operands[0]];
  int kind = s->variant / 3 % REDUCE_KINDS, first, last;
  if (kind >= BY_ALL) {
    first = 0, last = x->rank - 1;
  } else {
    if (!axis_of(x, s->axis, &first) ||
        !axis_of(x, s->axis + (kind == BY_TWO), &last))
      return TRUTH_WRONG;
    if (!env->ranks_known && axes_has_star(x))
      return TRUTH_UNKNOWN; /* a size was wanted before there was a star */
  }
  for (int i = 0; i < x->rank; i++)
    if (i < first || i > last)
      out->at[out->rank++] = x->at[i];
    else if (s->keep_axes)
      out->at[out->rank++] = BROADCAST_AXIS;
  return TRUTH_RIGHT;
}

static void reduce_print(Buffer *out, const GenStep *s) {
  static const char *const name[] = {"sum", "max", "mean"};
  PUT(out, "%s ", name[s->variant % 3]);
  int kind = s->variant / 3 % REDUCE_KINDS;
  if (kind == BY_AXIS)
    PUT(out, "~axis:%d ", s->axis);
  else if (kind == BY_TWO)
    PUT(out, "~axis:(%d, %d) ", s->axis, s->axis + 1);
  else if (kind == BY_ALL)
    PUT(out, "~axis:all ");
  PUT(out, "%sv%d", s->keep_axes ? "~keep:true " : "", s->operands[0]);
}

/* ---- products ---- */

static bool matmul_make(Gen *g, const Env *env, GenStep *s) {
  return two_operands(g, env, s, 2, false);
}

static Truth matmul_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = &env->var[s->operands[0]], *y = &env->var[s->operands[1]];
  Extents front_x = *x, front_y = *y;
  if (x->rank < 2 || y->rank < 2)
    return TRUTH_WRONG;
  int64_t n = x->at[x->rank - 2], k = x->at[x->rank - 1];
  int64_t l = y->at[y->rank - 2], m = y->at[y->rank - 1];
  front_x.rank -= 2, front_y.rank -= 2;
  if (n == BROADCAST_AXIS || k == BROADCAST_AXIS || l == BROADCAST_AXIS ||
      m == BROADCAST_AXIS || k != l ||
      axes_join(&front_x, &front_y, out) != TRUTH_RIGHT)
    return TRUTH_WRONG;
  out->at[out->rank++] = n;
  out->at[out->rank++] = m;
  return TRUTH_RIGHT;
}

static void matmul_print(Buffer *out, const GenStep *s) {
  PUT(out, "v%d @ v%d", s->operands[0], s->operands[1]);
}

static bool dot_make(Gen *g, const Env *env, GenStep *s) {
  s->variant = random_below(g, 2);
  return two_operands(g, env, s, 1, false);
}

static Truth dot_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = &env->var[s->operands[0]], *y = &env->var[s->operands[1]];
  if (s->variant % 2) {
    if (x->rank != 1 || y->rank != 1 || x->at[0] == BROADCAST_AXIS ||
        y->at[0] == BROADCAST_AXIS)
      return TRUTH_WRONG;
    *out = (Extents){2, {x->at[0], y->at[0]}};
    return TRUTH_RIGHT;
  }
  *out = *x;
  return x->rank >= 1 && y->rank == 1 && y->at[0] != BROADCAST_AXIS &&
                 x->at[--out->rank] == y->at[0]
             ? TRUTH_RIGHT
             : TRUTH_WRONG;
}

static void dot_print(Buffer *out, const GenStep *s) {
  PUT(out, "%s v%d v%d", s->variant % 2 ? "outer" : "dot", s->operands[0],
      s->operands[1]);
}

/* ---- einsum: a letter is a label, a dot stands for ... ---- */

static const struct {
  const char *in[2], *out;
} sums[] = {
    {{"ij", "jk"}, "ik"},  {{"bik", "bkj"}, "bij"}, {{"ij", "j"}, "i"},
    {{"i", "j"}, "ij"},    {{".i", ".i"}, "."},     {{".ik", "kj"}, ".ij"},
    {{"ii", NULL}, "i"},   {{"ijk", NULL}, "kj"},   {{"ij", "ij"}, ""},
    {{".ij", ".j"}, ".i"},
};
enum { SUMS = ARRAY_LEN(sums) };

static bool einsum_make(Gen *g, const Env *env, GenStep *s) {
  s->variant = random_below(g, SUMS);
  if (!two_operands(g, env, s, 1, false))
    return false;
  s->operand_count = sums[s->variant].in[1] ? 2 : 1;
  return true;
}

static bool match_labels(const char *labels, const Extents *x, int64_t *of,
                         Extents *dots) {
  int named = (int)strlen(labels) - (labels[0] == '.'), axis = 0;
  dots->rank = x->rank - named;
  if (dots->rank < 0 || (dots->rank && labels[0] != '.'))
    return false;
  for (const char *l = labels; *l; l++) {
    if (*l == '.') {
      for (int i = 0; i < dots->rank; i++)
        dots->at[i] = x->at[axis++];
      continue;
    }
    int64_t d = x->at[axis++], *known = &of[(unsigned char)*l];
    if (d == BROADCAST_AXIS || (*known != BROADCAST_AXIS && *known != d))
      return false;
    *known = d;
  }
  return true;
}

static Truth einsum_shape(const Env *env, const GenStep *s, Extents *out) {
  int64_t of[128];
  Extents front = {.rank = 0};
  for (int i = 0; i < 128; i++)
    of[i] = BROADCAST_AXIS;
  for (int i = 0; i < s->operand_count; i++) {
    Extents dots;
    const char *labels = sums[s->variant % SUMS].in[i];
    if (!match_labels(labels, &env->var[s->operands[i]], of, &dots) ||
        (labels[0] == '.' && axes_join(&front, &dots, &front) != TRUTH_RIGHT))
      return TRUTH_WRONG;
  }
  for (const char *l = sums[s->variant % SUMS].out; *l; l++) {
    for (int i = 0; *l == '.' && i < front.rank; i++)
      out->at[out->rank++] = front.at[i];
    if (*l != '.')
      out->at[out->rank++] = of[(unsigned char)*l];
  }
  return TRUTH_RIGHT;
}

static void put_labels(Buffer *out, const char *labels) {
  for (const char *l = labels; *l; l++) {
    PUT(out, "%s", l > labels ? " " : "");
    if (*l == '.')
      PUT(out, "...");
    else
      buffer_putc(out, *l);
  }
}

static void einsum_print(Buffer *out, const GenStep *s) {
  PUT(out, "einsum \"");
  for (int i = 0; i < s->operand_count; i++) {
    PUT(out, "%s", i ? ", " : "");
    put_labels(out, sums[s->variant % SUMS].in[i]);
  }
  PUT(out, " -> ");
  put_labels(out, sums[s->variant % SUMS].out);
  PUT(out, "\"");
  for (int i = 0; i < s->operand_count; i++)
    PUT(out, " v%d", s->operands[i]);
}

/* ---- stacking, topk, tril ---- */

static bool stack_make(Gen *g, const Env *env, GenStep *s) {
  if (!two_operands(g, env, s, 0, false) || env->var[s->operands[0]].rank > 4)
    return false;
  s->operand_count = random_between(g, 2, 3);
  s->operands[2] = s->operands[random_below(g, 2)];
  return true;
}

static Truth stack_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = &env->var[s->operands[0]];
  for (int i = 1; i < s->operand_count; i++)
    if (!axes_equal(x, &env->var[s->operands[i]]))
      return TRUTH_WRONG;
  *out = (Extents){.rank = x->rank + 1, .at = {s->operand_count}};
  for (int i = 0; i < x->rank; i++)
    out->at[i + 1] = x->at[i];
  return TRUTH_RIGHT;
}

static void stack_print(Buffer *out, const GenStep *s) {
  for (int i = 0; i < s->operand_count; i++)
    PUT(out, "%sv%d", i ? ", " : "[", s->operands[i]);
  PUT(out, "]");
}

static bool topk_make(Gen *g, const Env *env, GenStep *s) {
  s->operands[0] = pick_var(g, env, 1, MAX_AXES, false);
  s->operand_count = 1;
  if (s->operands[0] < 0)
    return false;
  const Extents *x = &env->var[s->operands[0]];
  s->sizes = 1;
  s->size[0] = size_for(g, env, random_below(g, (int)x->at[x->rank - 1] + 1));
  return true;
}

static Truth topk_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = &env->var[s->operands[0]];
  int64_t k;
  if (!x->rank || x->at[x->rank - 1] == BROADCAST_AXIS ||
      size_value(s->size[0], env, &k) != TRUTH_RIGHT || k < 0 ||
      k > x->at[x->rank - 1])
    return TRUTH_WRONG;
  *out = *x;
  out->at[x->rank - 1] = k;
  return TRUTH_RIGHT;
}

static void topk_print(Buffer *out, const GenStep *s) {
  PUT(out, "fst (topk ");
  size_print(out, s->size[0]);
  PUT(out, " v%d)", s->operands[0]);
}

static bool tril_make(Gen *g, const Env *env, GenStep *s) {
  s->operands[0] = pick_var(g, env, 2, MAX_AXES, false);
  s->operand_count = 1;
  return s->operands[0] >= 0;
}

static Truth tril_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = &env->var[s->operands[0]];
  *out = *x;
  return x->rank > 1 && x->at[x->rank - 1] != BROADCAST_AXIS &&
                 x->at[x->rank - 2] != BROADCAST_AXIS
             ? TRUTH_RIGHT
             : TRUTH_WRONG;
}

static void tril_print(Buffer *out, const GenStep *s) {
  PUT(out, "tril v%d", s->operands[0]);
}

const Op math_ops[] = {
    {.name = "join", 26, join_make, join_shape, join_print},
    {.name = "plain", 4, plain_make, plain_shape, plain_print},
    {.name = "reduce",
     18,
     reduce_make,
     reduce_shape,
     reduce_print,
     .takes_keep = true},
    {.name = "matmul", 14, matmul_make, matmul_shape, matmul_print},
    {.name = "dot", 6, dot_make, dot_shape, dot_print},
    {.name = "einsum", 8, einsum_make, einsum_shape, einsum_print},
    {.name = "stack", 5, stack_make, stack_shape, stack_print},
    {.name = "topk", 3, topk_make, topk_shape, topk_print},
    {.name = "tril", 2, tril_make, tril_shape, tril_print},
    {.name = NULL},
};
