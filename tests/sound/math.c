/* Operations that compute: pointwise, reductions, products. */
#include "tests/sound/sound.h"

#include <string.h>

static bool two_operands(Gen *g, const Env *env, Step *s, int least,
                         bool stars) {
  s->in[0] = pick_var(g, env, least, MOST_AXES, stars);
  s->in[1] = pick_var(g, env, least, MOST_AXES, stars);
  s->ins = 2;
  return s->in[0] >= 0 && s->in[1] >= 0;
}

/* ---- pointwise ---- */

static bool join_make(Gen *g, const Env *env, Step *s) {
  s->form = pick(g, 6);
  return two_operands(g, env, s, 0, true);
}

static Truth join_shape(const Env *env, const Step *s, Extents *out) {
  return axes_join(&env->var[s->in[0]], &env->var[s->in[1]], out);
}

static void join_print(Buffer *out, const Step *s) {
  static const char *const form[] = {
      "$0 + $1",       "$0 * $1",           "$0 - $1",
      "maximum $0 $1", "select true $0 $1", "$0 / $1",
  };
  put_form(out, form[s->form % 6], s);
}

static bool plain_make(Gen *g, const Env *env, Step *s) {
  s->form = pick(g, 3);
  s->in[0] = pick_var(g, env, 0, MOST_AXES, true);
  s->ins = 1;
  return s->in[0] >= 0;
}

static Truth plain_shape(const Env *env, const Step *s, Extents *out) {
  *out = env->var[s->in[0]];
  return RIGHT;
}

static void plain_print(Buffer *out, const Step *s) {
  static const char *const name[] = {"exp", "tanh", "abs"};
  PUT(out, "%s v%d", name[s->form % 3], s->in[0]);
}

/* ---- reductions: form % 3 is the function, form / 3 the kind of axis ---- */

enum { BY_AXIS, BY_TWO, BY_ALL, BY_NONE, REDUCE_KINDS };

static bool reduce_make(Gen *g, const Env *env, Step *s) {
  int kind = chance(g, 65) ? BY_AXIS : pick(g, REDUCE_KINDS);
  s->in[0] = pick_var(g, env, kind == BY_TWO ? 2 : kind == BY_AXIS, MOST_AXES,
                      true);
  s->ins = 1;
  if (s->in[0] < 0)
    return false;
  const Extents *x = &env->var[s->in[0]];
  s->form = pick(g, 3) + 3 * kind;
  s->keep = chance(g, 50);
  s->axis = kind == BY_AXIS  ? pick_axis(g, x)
            : kind == BY_TWO ? (chance(g, 50) ? -2 : pick(g, x->rank - 1))
                             : 0;
  return true;
}

static Truth reduce_shape(const Env *env, const Step *s, Extents *out) {
  const Extents *x = &env->var[s->in[0]];
  int kind = s->form / 3 % REDUCE_KINDS, first, last;
  if (kind >= BY_ALL) {
    first = 0, last = x->rank - 1;
  } else {
    if (!axis_of(x, s->axis, &first) ||
        !axis_of(x, s->axis + (kind == BY_TWO), &last))
      return WRONG;
    if (!env->ranks && axes_has_star(x))
      return UNSURE; /* a size was wanted before there was a star */
  }
  for (int i = 0; i < x->rank; i++)
    if (i < first || i > last)
      out->at[out->rank++] = x->at[i];
    else if (s->keep)
      out->at[out->rank++] = STAR;
  return RIGHT;
}

static void reduce_print(Buffer *out, const Step *s) {
  static const char *const name[] = {"sum", "max", "mean"};
  PUT(out, "%s ", name[s->form % 3]);
  int kind = s->form / 3 % REDUCE_KINDS;
  if (kind == BY_AXIS)
    PUT(out, "~axis:%d ", s->axis);
  else if (kind == BY_TWO)
    PUT(out, "~axis:(%d, %d) ", s->axis, s->axis + 1);
  else if (kind == BY_ALL)
    PUT(out, "~axis:all ");
  PUT(out, "%sv%d", s->keep ? "~keep:true " : "", s->in[0]);
}

/* ---- products ---- */

static bool matmul_make(Gen *g, const Env *env, Step *s) {
  return two_operands(g, env, s, 2, false);
}

static Truth matmul_shape(const Env *env, const Step *s, Extents *out) {
  const Extents *x = &env->var[s->in[0]], *y = &env->var[s->in[1]];
  Extents front_x = *x, front_y = *y;
  if (x->rank < 2 || y->rank < 2)
    return WRONG;
  int64_t n = x->at[x->rank - 2], k = x->at[x->rank - 1];
  int64_t l = y->at[y->rank - 2], m = y->at[y->rank - 1];
  front_x.rank -= 2, front_y.rank -= 2;
  if (n == STAR || k == STAR || l == STAR || m == STAR || k != l ||
      axes_join(&front_x, &front_y, out) != RIGHT)
    return WRONG;
  out->at[out->rank++] = n;
  out->at[out->rank++] = m;
  return RIGHT;
}

static void matmul_print(Buffer *out, const Step *s) {
  PUT(out, "v%d @ v%d", s->in[0], s->in[1]);
}

static bool dot_make(Gen *g, const Env *env, Step *s) {
  s->form = pick(g, 2);
  return two_operands(g, env, s, 1, false);
}

static Truth dot_shape(const Env *env, const Step *s, Extents *out) {
  const Extents *x = &env->var[s->in[0]], *y = &env->var[s->in[1]];
  if (s->form % 2) {
    if (x->rank != 1 || y->rank != 1 || x->at[0] == STAR || y->at[0] == STAR)
      return WRONG;
    *out = (Extents){2, {x->at[0], y->at[0]}};
    return RIGHT;
  }
  *out = *x;
  return x->rank >= 1 && y->rank == 1 && y->at[0] != STAR &&
                 x->at[--out->rank] == y->at[0]
             ? RIGHT
             : WRONG;
}

static void dot_print(Buffer *out, const Step *s) {
  PUT(out, "%s v%d v%d", s->form % 2 ? "outer" : "dot", s->in[0], s->in[1]);
}

/* ---- einsum: a letter is a label, a dot stands for ... ---- */

static const struct {
  const char *in[2], *out;
} sums[] = {
    {{"ij", "jk"}, "ik"},    {{"bik", "bkj"}, "bij"}, {{"ij", "j"}, "i"},
    {{"i", "j"}, "ij"},      {{".i", ".i"}, "."},     {{".ik", "kj"}, ".ij"},
    {{"ii", NULL}, "i"},     {{"ijk", NULL}, "kj"},   {{"ij", "ij"}, ""},
    {{".ij", ".j"}, ".i"},
};
enum { SUMS = ARRAY_LEN(sums) };

static bool einsum_make(Gen *g, const Env *env, Step *s) {
  s->form = pick(g, SUMS);
  if (!two_operands(g, env, s, 1, false))
    return false;
  s->ins = sums[s->form].in[1] ? 2 : 1;
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
    if (d == STAR || (*known != STAR && *known != d))
      return false;
    *known = d;
  }
  return true;
}

static Truth einsum_shape(const Env *env, const Step *s, Extents *out) {
  int64_t of[128];
  Extents front = {.rank = 0};
  for (int i = 0; i < 128; i++)
    of[i] = STAR;
  for (int i = 0; i < s->ins; i++) {
    Extents dots;
    const char *labels = sums[s->form % SUMS].in[i];
    if (!match_labels(labels, &env->var[s->in[i]], of, &dots) ||
        (labels[0] == '.' && axes_join(&front, &dots, &front) != RIGHT))
      return WRONG;
  }
  for (const char *l = sums[s->form % SUMS].out; *l; l++) {
    for (int i = 0; *l == '.' && i < front.rank; i++)
      out->at[out->rank++] = front.at[i];
    if (*l != '.')
      out->at[out->rank++] = of[(unsigned char)*l];
  }
  return RIGHT;
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

static void einsum_print(Buffer *out, const Step *s) {
  PUT(out, "einsum \"");
  for (int i = 0; i < s->ins; i++) {
    PUT(out, "%s", i ? ", " : "");
    put_labels(out, sums[s->form % SUMS].in[i]);
  }
  PUT(out, " -> ");
  put_labels(out, sums[s->form % SUMS].out);
  PUT(out, "\"");
  for (int i = 0; i < s->ins; i++)
    PUT(out, " v%d", s->in[i]);
}

/* ---- stacking, topk, tril ---- */

static bool stack_make(Gen *g, const Env *env, Step *s) {
  if (!two_operands(g, env, s, 0, false) || env->var[s->in[0]].rank > 4)
    return false;
  s->ins = between(g, 2, 3);
  s->in[2] = s->in[pick(g, 2)];
  return true;
}

static Truth stack_shape(const Env *env, const Step *s, Extents *out) {
  const Extents *x = &env->var[s->in[0]];
  for (int i = 1; i < s->ins; i++)
    if (!axes_equal(x, &env->var[s->in[i]]))
      return WRONG;
  *out = (Extents){.rank = x->rank + 1, .at = {s->ins}};
  for (int i = 0; i < x->rank; i++)
    out->at[i + 1] = x->at[i];
  return RIGHT;
}

static void stack_print(Buffer *out, const Step *s) {
  for (int i = 0; i < s->ins; i++)
    PUT(out, "%sv%d", i ? ", " : "[", s->in[i]);
  PUT(out, "]");
}

static bool topk_make(Gen *g, const Env *env, Step *s) {
  s->in[0] = pick_var(g, env, 1, MOST_AXES, false);
  s->ins = 1;
  if (s->in[0] < 0)
    return false;
  const Extents *x = &env->var[s->in[0]];
  s->sizes = 1;
  s->size[0] = size_for(g, env, pick(g, (int)x->at[x->rank - 1] + 1));
  return true;
}

static Truth topk_shape(const Env *env, const Step *s, Extents *out) {
  const Extents *x = &env->var[s->in[0]];
  int64_t k;
  if (!x->rank || x->at[x->rank - 1] == STAR ||
      size_value(s->size[0], env, &k) != RIGHT || k < 0 ||
      k > x->at[x->rank - 1])
    return WRONG;
  *out = *x;
  out->at[x->rank - 1] = k;
  return RIGHT;
}

static void topk_print(Buffer *out, const Step *s) {
  PUT(out, "fst (topk ");
  size_print(out, s->size[0]);
  PUT(out, " v%d)", s->in[0]);
}

static bool tril_make(Gen *g, const Env *env, Step *s) {
  s->in[0] = pick_var(g, env, 2, MOST_AXES, false);
  s->ins = 1;
  return s->in[0] >= 0;
}

static Truth tril_shape(const Env *env, const Step *s, Extents *out) {
  const Extents *x = &env->var[s->in[0]];
  *out = *x;
  return x->rank > 1 && x->at[x->rank - 1] != STAR &&
                 x->at[x->rank - 2] != STAR
             ? RIGHT
             : WRONG;
}

static void tril_print(Buffer *out, const Step *s) {
  PUT(out, "tril v%d", s->in[0]);
}

const Op math_ops[] = {
    {.name = "join", 26, join_make, join_shape, join_print},
    {.name = "plain", 4, plain_make, plain_shape, plain_print},
    {.name = "reduce", 18, reduce_make, reduce_shape, reduce_print,
     .keeps = true},
    {.name = "matmul", 14, matmul_make, matmul_shape, matmul_print},
    {.name = "dot", 6, dot_make, dot_shape, dot_print},
    {.name = "einsum", 8, einsum_make, einsum_shape, einsum_print},
    {.name = "stack", 5, stack_make, stack_shape, stack_print},
    {.name = "topk", 3, topk_make, topk_shape, topk_print},
    {.name = "tril", 2, tril_make, tril_shape, tril_print},
    {.name = NULL},
};
