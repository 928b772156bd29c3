/* Functions of the library: linear algebra, windows, updates, structures,
   samples. */
#include "tests/sound/sound.h"

#include <string.h>

static bool operands(Gen *g, const Env *env, GenStep *s, int count, int min,
                     int max) {
  s->operand_count = count;
  for (int i = 0; i < count; i++) {
    s->operands[i] = pick_var(g, env, min, max, false);
    if (s->operands[i] < 0)
      return false;
  }
  return true;
}

static const Extents *operand(const Env *env, const GenStep *s, int i) {
  return &env->var[s->operands[i]];
}

static bool any_star(const Env *env, const GenStep *s) {
  bool any = false;
  for (int i = 0; i < s->operand_count; i++)
    any |= axes_has_star(operand(env, s, i));
  return any;
}

/* ---- matrices: square ones, factors, products ---- */

enum { SQUARE_VARIANTS = 4 };

static bool square_make(Gen *g, const Env *env, GenStep *s) {
  s->variant = random_below(g, SQUARE_VARIANTS);
  if (!operands(g, env, s, 1, 2, s->variant < 2 ? MAX_AXES : 2))
    return false;
  const Extents *x = operand(env, s, 0);
  return x->at[x->rank - 1] == x->at[x->rank - 2];
}

static Truth square_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = operand(env, s, 0);
  int variant = s->variant % SQUARE_VARIANTS;
  if (any_star(env, s))
    return TRUTH_UNKNOWN;
  if (x->rank < 2 || (variant >= 2 && x->rank > 2) ||
      x->at[x->rank - 1] != x->at[x->rank - 2])
    return TRUTH_WRONG;
  *out = *x;
  out->rank -= variant == 3 ? 1 : 2;
  return TRUTH_RIGHT;
}

static void square_print(Buffer *out, const GenStep *s) {
  static const char *const form[] = {"linalg.det $0", "linalg.trace $0",
                                     "diag_sum $0", "diagonal $0"};
  put_template(out, form[s->variant % SQUARE_VARIANTS], s);
}

static bool qr_make(Gen *g, const Env *env, GenStep *s) {
  s->variant = random_below(g, 2);
  return operands(g, env, s, 1, 2, MAX_AXES);
}

static Truth qr_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = operand(env, s, 0);
  if (any_star(env, s))
    return TRUTH_UNKNOWN;
  if (x->rank < 2)
    return TRUTH_WRONG;
  *out = *x;
  int64_t n = x->at[x->rank - 2], m = x->at[x->rank - 1];
  out->at[x->rank - 1 - s->variant % 2] = n < m ? n : m;
  return TRUTH_RIGHT;
}

static void qr_print(Buffer *out, const GenStep *s) {
  put_template(out,
               s->variant % 2 ? "snd (linalg.qr $0)" : "fst (linalg.qr $0)", s);
}

static bool kron_make(Gen *g, const Env *env, GenStep *s) {
  return operands(g, env, s, 2, 2, 2);
}

static Truth kron_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = operand(env, s, 0), *y = operand(env, s, 1);
  if (any_star(env, s))
    return TRUTH_UNKNOWN;
  if (x->rank != 2 || y->rank != 2)
    return TRUTH_WRONG;
  *out = (Extents){2, {x->at[0] * y->at[0], x->at[1] * y->at[1]}};
  return TRUTH_RIGHT;
}

static void kron_print(Buffer *out, const GenStep *s) {
  put_template(out, "kron $0 $1", s);
}

/* ---- along an axis: differences, windows, convolutions ---- */

static bool diff_make(Gen *g, const Env *env, GenStep *s) {
  if (!operands(g, env, s, 1, 1, MAX_AXES))
    return false;
  const Extents *x = operand(env, s, 0);
  s->axis = pick_axis(g, x);
  int axis;
  return axis_of(x, s->axis, &axis) && x->at[axis] > 0;
}

static Truth diff_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = operand(env, s, 0);
  int axis;
  if (any_star(env, s))
    return TRUTH_UNKNOWN;
  if (!axis_of(x, s->axis, &axis) || x->at[axis] < 1)
    return TRUTH_WRONG;
  *out = *x;
  out->at[axis]--;
  return TRUTH_RIGHT;
}

static void diff_print(Buffer *out, const GenStep *s) {
  PUT(out, "diff ~axis:%d v%d", s->axis, s->operands[0]);
}

static bool convolve_make(Gen *g, const Env *env, GenStep *s) {
  s->variant = random_below(g, 2);
  if (!operands(g, env, s, 2, 1, 1))
    return false;
  int64_t n = operand(env, s, 0)->at[0], m = operand(env, s, 1)->at[0];
  return n > 0 && m > 0 && (s->variant || n <= m);
}

static Truth convolve_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = operand(env, s, 0), *y = operand(env, s, 1);
  bool full = s->variant % 2;
  if (any_star(env, s))
    return TRUTH_UNKNOWN;
  if (x->rank != 1 || y->rank != 1 || x->at[0] < 1 || y->at[0] < 1 ||
      (!full && x->at[0] > y->at[0]))
    return TRUTH_WRONG;
  *out =
      (Extents){1, {full ? x->at[0] + y->at[0] - 1 : y->at[0] - x->at[0] + 1}};
  return TRUTH_RIGHT;
}

static void convolve_print(Buffer *out, const GenStep *s) {
  put_template(out, s->variant % 2 ? "fft.convolve $0 $1" : "correlate $0 $1",
               s);
}

/* A size of at most axis 0, or, for `unfold`, of the last axis. */
static bool part_make(Gen *g, const Env *env, GenStep *s) {
  s->variant = random_below(g, 2);
  if (!operands(g, env, s, 1, 1, MAX_AXES - 1))
    return false;
  const Extents *x = operand(env, s, 0);
  int64_t n = x->at[s->variant ? x->rank - 1 : 0];
  if (n < 1)
    return false;
  s->sizes = 1;
  s->size[0] = size_for(g, env, random_between(g, 1, (int)n));
  return true;
}

static Truth part_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = operand(env, s, 0);
  bool unfold = s->variant % 2;
  int64_t k;
  if (any_star(env, s))
    return TRUTH_UNKNOWN;
  if (!x->rank || size_value(s->size[0], env, &k) != TRUTH_RIGHT || k < 0)
    return TRUTH_WRONG;
  int axis = unfold ? x->rank - 1 : 0;
  if (k > x->at[axis])
    return TRUTH_WRONG;
  *out = *x;
  if (unfold) {
    out->at[axis] = x->at[axis] - k + 1;
    out->at[out->rank++] = k;
  } else {
    out->at[0] = k;
  }
  return TRUTH_RIGHT;
}

static void part_print(Buffer *out, const GenStep *s) {
  PUT(out, s->variant % 2 ? "unfold ~axis:-1 " : "random.sample (key 1) ");
  size_print(out, s->size[0]);
  PUT(out, " v%d", s->operands[0]);
}

/* ---- updates and bounds ---- */

static bool update_make(Gen *g, const Env *env, GenStep *s) {
  if (!operands(g, env, s, 2, 1, MAX_AXES))
    return false;
  const Extents *x = operand(env, s, 0), *y = operand(env, s, 1);
  if (x->rank != y->rank || x->at[0] > y->at[0])
    return false;
  s->sizes = 1;
  s->size[0] =
      size_for(g, env, random_below(g, (int)(y->at[0] - x->at[0]) + 1));
  for (int i = 1; i < x->rank; i++)
    if (x->at[i] != y->at[i])
      return false;
  return true;
}

static Truth update_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = operand(env, s, 0), *y = operand(env, s, 1);
  int64_t at;
  if (any_star(env, s))
    return TRUTH_UNKNOWN;
  if (!x->rank || x->rank != y->rank ||
      size_value(s->size[0], env, &at) != TRUTH_RIGHT || at < 0 ||
      at + x->at[0] > y->at[0])
    return TRUTH_WRONG;
  for (int i = 1; i < x->rank; i++)
    if (x->at[i] != y->at[i])
      return TRUTH_WRONG;
  *out = *y;
  return TRUTH_RIGHT;
}

static void update_print(Buffer *out, const GenStep *s) {
  PUT(out, "set_slice ~axis:0 ");
  size_print(out, s->size[0]);
  PUT(out, " v%d v%d", s->operands[0], s->operands[1]);
}

static Truth clamp_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = operand(env, s, 2);
  Extents low, all;
  if (any_star(env, s))
    return TRUTH_UNKNOWN;
  if (axes_join(operand(env, s, 0), x, &low) != TRUTH_RIGHT ||
      axes_join(operand(env, s, 1), &low, &all) != TRUTH_RIGHT ||
      !axes_equal(&all, x))
    return TRUTH_WRONG;
  *out = *x;
  return TRUTH_RIGHT;
}

static bool clamp_make(Gen *g, const Env *env, GenStep *s) {
  Extents out = {0};
  return operands(g, env, s, 3, 0, MAX_AXES) &&
         clamp_shape(env, s, &out) == TRUTH_RIGHT;
}

static void clamp_print(Buffer *out, const GenStep *s) {
  put_template(out, "clamp $0 $1 $2", s);
}

/* ---- structures, whose parts have one type ---- */

enum { SAME_VARIANTS = 3 };

static bool same_make(Gen *g, const Env *env, GenStep *s) {
  s->variant = random_below(g, SAME_VARIANTS);
  return operands(g, env, s, 2, 0, MAX_AXES) &&
         axes_equal(operand(env, s, 0), operand(env, s, 1));
}

static Truth same_shape_of_both(const Env *env, const GenStep *s,
                                Extents *out) {
  const Extents *x = operand(env, s, 0);
  if (any_star(env, s))
    return TRUTH_UNKNOWN;
  if (!axes_equal(x, operand(env, s, 1)))
    return TRUTH_WRONG;
  *out = *x;
  return TRUTH_RIGHT;
}

static void same_print(Buffer *out, const GenStep *s) {
  static const char *const form[] = {
      "dicts.get 1 $0 (dicts.of_list (list [(2, $1)]))",
      "if equal ($0, 1) ($1, 2) then $0 else $1",
      "get_or $0 (dicts.find \"a\" (dicts.insert \"a\" $1 dicts.Empty))",
  };
  put_template(out, form[s->variant % SAME_VARIANTS], s);
}

const Op library_ops[] = {
    {.name = "square", 3, square_make, square_shape, square_print},
    {.name = "qr", 2, qr_make, qr_shape, qr_print},
    {.name = "kron", 2, kron_make, kron_shape, kron_print},
    {.name = "diff", 3, diff_make, diff_shape, diff_print},
    {.name = "convolve", 2, convolve_make, convolve_shape, convolve_print},
    {.name = "part", 3, part_make, part_shape, part_print},
    {.name = "update", 3, update_make, update_shape, update_print},
    {.name = "clamp", 3, clamp_make, clamp_shape, clamp_print},
    {.name = "same", 4, same_make, same_shape_of_both, same_print},
    {.name = NULL},
};
