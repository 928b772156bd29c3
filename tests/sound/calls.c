/* Operations that a program defines for itself, as users do: wrappers that
 * take axes, records, functions over functions, conditions on sizes, recursion,
 * facts after `given`.  They are polymorphic, and so called at many shapes. */
#include "tests/sound/sound.h"

#include <string.h>

static bool one(Gen *g, const Env *env, GenStep *s, int min, int max,
                bool stars) {
  s->operands[0] = pick_var(g, env, min, max, stars);
  s->operand_count = 1;
  return s->operands[0] >= 0;
}

static bool two(Gen *g, const Env *env, GenStep *s, int min) {
  s->operands[1] = pick_var(g, env, min, MAX_AXES, false);
  bool found = one(g, env, s, min, MAX_AXES, false);
  s->operand_count = 2;
  return found && s->operands[1] >= 0;
}

static Extents rest_of(const Extents *x) {
  Extents rest = {.rank = x->rank - 1};
  for (int i = 1; i < x->rank; i++)
    rest.at[i - 1] = x->at[i];
  return rest;
}

static Extents lifted(int64_t n, const Extents *x) {
  Extents all = {.rank = x->rank + 1, .at = {n}};
  for (int i = 0; i < x->rank; i++)
    all.at[i + 1] = x->at[i];
  return all;
}

/* ---- wrappers that take an axis, and ~keep ---- */

static bool wrap_make(Gen *g, const Env *env, GenStep *s) {
  s->keep_axes = random_percent(g, 50);
  s->variant = random_below(g, 3);
  if (!one(g, env, s, 1, MAX_AXES, true))
    return false;
  s->axis = pick_axis(g, &env->var[s->operands[0]]);
  return true;
}

/* Forms: a reduction; one that centres; one with the axis last. */
static Truth wrap_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = &env->var[s->operands[0]];
  int axis;
  if (!axis_of(x, s->variant == 2 ? -1 : s->axis, &axis))
    return TRUTH_WRONG;
  if (axes_has_star(x) &&
      (!env->ranks_known || (s->variant && x->at[axis] == BROADCAST_AXIS)))
    return TRUTH_UNKNOWN; /* a size was wanted before there was a star */
  if (s->variant) {
    *out = *x;
    return TRUTH_RIGHT;
  }
  for (int i = 0; i < x->rank; i++)
    if (i != axis || s->keep_axes)
      out->at[out->rank++] = i == axis ? BROADCAST_AXIS : x->at[i];
  return TRUTH_RIGHT;
}

static void wrap_print(Buffer *out, const GenStep *s) {
  if (s->variant == 0)
    PUT(out, "h_red ~axis:%d ~keep:%s v%d", s->axis,
        s->keep_axes ? "true" : "false", s->operands[0]);
  else if (s->variant == 1)
    PUT(out, "h_center ~axis:%d v%d", s->axis, s->operands[0]);
  else
    PUT(out, "nn.softmax v%d", s->operands[0]);
}

/* ---- a layer: a record with two fields, and rows of any others ---- */

static bool dense_make(Gen *g, const Env *env, GenStep *s) {
  if (!one(g, env, s, 2, MAX_AXES, false))
    return false;
  const Extents *x = &env->var[s->operands[0]];
  int64_t m = random_between(g, 1, 4);
  s->sizes = 3;
  s->size[0] = size_for(g, env, m);
  s->size[1] = size_for(g, env, x->at[x->rank - 1]);
  s->size[2] = size_for(g, env, m);
  return true;
}

static Truth dense_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = &env->var[s->operands[0]];
  int64_t o, c, b;
  if (s->variant >= s->op->right_variants || x->rank < 2 ||
      x->at[x->rank - 1] == BROADCAST_AXIS ||
      x->at[x->rank - 2] == BROADCAST_AXIS ||
      size_value(s->size[0], env, &o) != TRUTH_RIGHT ||
      size_value(s->size[1], env, &c) != TRUTH_RIGHT ||
      size_value(s->size[2], env, &b) != TRUTH_RIGHT || o < 0 || o != b ||
      c != x->at[x->rank - 1])
    return TRUTH_WRONG;
  *out = *x;
  out->at[x->rank - 1] = o;
  return TRUTH_RIGHT;
}

/* Wrong: a field that is missing; one that is not taken; one misspelt. */
static void dense_print(Buffer *out, const GenStep *s) {
  static const char *const call[] = {
      "nn.linear {", "h_dense {", "h_dense {extra = 1.0, ",
      "h_layer {",   "h_dense {", "nn.linear {more = 1.0, ",
      "h_layer {"};
  PUT(out, "%sw = zeros [", call[s->variant]);
  size_print(out, s->size[0]);
  PUT(out, ", ");
  size_print(out, s->size[1]);
  PUT(out, "]");
  if (s->variant != 4) {
    PUT(out, s->variant == 6 ? ", bias = zeros [" : ", b = zeros [");
    size_print(out, s->size[2]);
    PUT(out, "]");
  }
  PUT(out, "} v%d", s->operands[0]);
}

/* ---- fields of records that hold anything ---- */

static bool field_make(Gen *g, const Env *env, GenStep *s) {
  s->operands[0] = pick_var(g, env, 0, MAX_AXES, true);
  s->operands[1] = pick_var(g, env, 0, MAX_AXES, true);
  s->operand_count = 2;
  return s->operands[0] >= 0 && s->operands[1] >= 0;
}

static Truth field_shape(const Env *env, const GenStep *s, Extents *out) {
  if (s->variant >= s->op->right_variants)
    return TRUTH_WRONG;
  if (s->variant == 1) {
    *out = env->var[s->operands[1]];
    return TRUTH_RIGHT;
  }
  return axes_join(&env->var[s->operands[0]], &env->var[s->operands[1]], out);
}

static void field_print(Buffer *out, const GenStep *s) {
  static const char *const form[] = {
      "h_both {a = $0, b = $1}",
      "({p = $0, q = $1}).q",
      "h_both {a = $0, b = $1, c = true}",
      "(h_swap {a = $0, b = $1, tag = 1}) |> h_both",
      "h_both {a = $0, c = $1}",
      "({p = $0, q = $1}).r",
      "h_both (h_swap {a = $0, z = $1})",
  };
  put_template(out, form[s->variant], s);
}

/* ---- functions over the leading axis ---- */

static bool lift_make(Gen *g, const Env *env, GenStep *s) {
  return one(g, env, s, 1, MAX_AXES - 1, false);
}

static Truth lift_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = &env->var[s->operands[0]];
  if (s->variant >= s->op->right_variants || !x->rank ||
      x->at[0] == BROADCAST_AXIS)
    return TRUTH_WRONG;
  Extents rest = rest_of(x), none = {.rank = 0};
  switch (s->variant) {
  case 0: /* sums of rows */
  case 1:
  case 5:
    *out = lifted(x->at[0], &none);
    return TRUTH_RIGHT;
  case 4:
    *out = rest;
    return TRUTH_RIGHT;
  }
  *out = *x; /* the rows themselves */
  return TRUTH_RIGHT;
}

static void lift_print(Buffer *out, const GenStep *s) {
  static const char *const form[] = {
      "(map (fn r => {a = sum r, b = r}) $0).a",
      "fst (map (fn r => (sum r, r)) $0)",
      "(map h_pair $0).b",
      "map2 (fn r q => r + q) $0 $0",
      "reduce (fn a b => a + b) (zeros (h_row $0)) $0",
      "snd (scan (fn c r => (c + sum r, c)) 0.0 $0)",
      "map (fn r => r + 1.0) (sum $0)",
      "(map (fn r => {a = sum r, b = r}) (sum $0)).a",
      "fold (fn c r => c + r) 0.0 (max $0)",
  };
  put_template(out, form[s->variant], s);
}

/* ---- loops that carry a state, and functions applied twice ---- */

static bool carry_make(Gen *g, const Env *env, GenStep *s) {
  s->variant = random_below(g, 5);
  return two(g, env, s, 1);
}

/* The state's shape must not change: join(state, other) == state. */
static Truth carry_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *state = &env->var[s->operands[0]],
                *x = &env->var[s->operands[1]];
  Extents row = *x, after;
  if (s->variant == 1 || s->variant == 2) {
    if (!x->rank || x->at[0] == BROADCAST_AXIS)
      return TRUTH_WRONG;
    if (!x->at[0]) /* it is never run */
      return TRUTH_UNKNOWN;
    row = rest_of(x);
  }
  if (axes_join(state, &row, &after) != TRUTH_RIGHT ||
      !axes_equal(state, &after))
    return s->variant == 4 && axes_join(state, &row, out) == TRUTH_RIGHT
               ? TRUTH_RIGHT
               : TRUTH_WRONG;
  *out = *state;
  return TRUTH_RIGHT;
}

static void carry_print(Buffer *out, const GenStep *s) {
  static const char *const form[] = {
      "iterate 3 (fn c => c + $1) $0",           "fold (fn c r => c + r) $0 $1",
      "fst (scan (fn c r => (c * r, c)) $0 $1)", "h_thrice (fn c => $1 + c) $0",
      "($1 |> fn d => fn c => c + d) $0",
  };
  put_template(out, form[s->variant % 5], s);
}

/* ---- classes of element types ---- */

static bool class_make(Gen *g, const Env *env, GenStep *s) {
  return one(g, env, s, 0, MAX_AXES, true);
}

static Truth class_shape(const Env *env, const GenStep *s, Extents *out) {
  *out = env->var[s->operands[0]];
  return s->variant < s->op->right_variants ? TRUTH_RIGHT : TRUTH_WRONG;
}

static void class_print(Buffer *out, const GenStep *s) {
  static const char *const form[] = {
      "f32 (i64 $0)",         "h_square $0",      "f32 (h_square (i32 $0))",
      "exp (f32 ($0 > 0.0))", "f32 (i64 $0 % 3)", "exp (i64 $0)",
      "h_square ($0 > 0.0)",  "sqrt ($0 > 0.0)",  "f32 (not $0)",
      "f32 (mean (i64 $0))",
  };
  put_template(out, form[s->variant], s);
}

/* ---- conditions on sizes ---- */

static bool cond_make(Gen *g, const Env *env, GenStep *s) {
  if (!one(g, env, s, 1, MAX_AXES, false))
    return false;
  int64_t d = env->var[s->operands[0]].at[0]; /* no star */
  s->variant = random_below(g, 6);
  s->sizes = 2;
  s->size[0] = size_for(g, env, random_between(g, 0, 5));
  s->size[1] = size_for(g, env, random_below(g, (int)d + 1));
  return true;
}

static bool holds(int form, int64_t a, int64_t b) {
  switch (form % 6) {
  case 0:
    return a < b;
  case 1:
    return a <= b;
  case 2:
    return a == b;
  case 3:
    return a != b;
  case 4:
    return a > b;
  }
  return a >= b;
}

/* Where the first axis compares so with a size, some of it is left out.  An
 * axis that is not there is a mistake in what is never run, too, unless it is
 * known before that it never is. */
static Truth cond_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = &env->var[s->operands[0]];
  int64_t b, from;
  if (!x->rank || size_value(s->size[0], env, &b) != TRUTH_RIGHT)
    return TRUTH_WRONG;
  if (!env->ranks_known && axes_has_star(x))
    return TRUTH_UNKNOWN; /* a size was wanted before there was a star */
  *out = rest_of(x);
  int64_t d = x->at[0] == BROADCAST_AXIS ? 1 : x->at[0];
  bool runs = holds(s->variant, d, b), fits = false;
  if (size_value(s->size[1], env, &from) == TRUTH_RIGHT)
    fits = from >= 0 && from <= d;
  else if (!runs && !size_has_axes(s->size[1], env))
    return TRUTH_UNKNOWN;
  if (!runs && env->skipped)
    *env->skipped = true;
  return fits || !runs ? TRUTH_RIGHT : TRUTH_WRONG;
}

static void cond_print(Buffer *out, const GenStep *s) {
  static const char *const rel[] = {"<", "<=", "==", "!=", ">", ">="};
  int v = s->operands[0];
  PUT(out, "(if dim 0 v%d %s ", v, rel[s->variant % 6]);
  size_print(out, s->size[0]);
  PUT(out, " then sum ~axis:0 v%d.[", v);
  size_print(out, s->size[1]);
  PUT(out, ":, ...] else sum ~axis:0 v%d)", v);
}

/* ---- facts after `given`, recursion, splices taken apart ---- */

static bool own_make(Gen *g, const Env *env, GenStep *s) {
  s->variant = random_below(g, 9);
  static const int min[] = {2, 1, 1, 1, 1, 2, 1, 1, 3};
  static const int max[] = {2, 1, 5, 6, 5, 5, 6, 1, 3};
  return one(g, env, s, min[s->variant], max[s->variant], s->variant == 6);
}

static Truth own_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = &env->var[s->operands[0]];
  int n = x->rank;
  *out = *x;
  if (s->variant != 6 && axes_has_star(x))
    return TRUTH_UNKNOWN; /* in a splice one is right */
  if (s->variant != 6 && !n)
    return TRUTH_WRONG;
  switch (s->variant) {
  case 0: /* both halves */
    if (n != 2 || x->at[0] % 2)
      return TRUTH_WRONG;
    out->at[0] /= 2;
    return TRUTH_RIGHT;
  case 1: /* annotated, recursive: at ever smaller sizes */
    out->rank = 0;
    return n == 1 ? TRUTH_RIGHT : TRUTH_WRONG;
  case 2: /* what is behind the first axis as one */
    *out = (Extents){2, {x->at[0], 1}};
    for (int i = 1; i < n; i++)
      out->at[1] *= x->at[i];
    return TRUTH_RIGHT;
  case 3: /* a new last axis */
    out->at[out->rank++] = 1;
    return TRUTH_RIGHT;
  case 4: /* twice as long */
    out->at[n - 1] *= 2;
    return TRUTH_RIGHT;
  case 5: /* the first two as one */
    if (n < 2)
      return TRUTH_WRONG;
    *out = rest_of(x);
    out->at[0] *= x->at[0];
    return TRUTH_RIGHT;
  case 6: /* as zeros_like */
    return TRUTH_RIGHT;
  case 7: /* in pairs */
    if (!axes_prod(x) || x->at[0] == 1)
      return TRUTH_UNKNOWN;
    *out = (Extents){2, {x->at[0] / 2, 2}};
    return axes_prod(out) == axes_prod(x) ? TRUTH_RIGHT : TRUTH_WRONG;
  }
  if (n < 3) /* two heads */
    return TRUTH_WRONG;
  if (!axes_prod(x) || x->at[2] == 1)
    return TRUTH_UNKNOWN;
  if (axes_prod(x) != x->at[0] * x->at[1] * (x->at[2] / 2) * 2)
    return TRUTH_WRONG;
  *out = (Extents){4, {x->at[0], 2, x->at[1], x->at[2] / 2}};
  return TRUTH_RIGHT;
}

static void own_print(Buffer *out, const GenStep *s) {
  static const char *const form[] = {
      "h_halves $0", "h_total $0", "h_rows $0",  "h_last $0",    "h_twin $0",
      "h_merge $0",  "h_like $0",  "h_pairs $0", "h_heads 2 $0",
  };
  put_template(out, form[s->variant % 9], s);
}

/* A program has those of these definitions that it uses. */
static const struct {
  const char *name, *text;
} helpers[] = {
    {"h_red", "fun h_red ~axis:a ~keep:k x = sum ~axis:a ~keep:k x\n"},
    {"h_center", "fun h_center ~axis:a x = x - mean ~axis:a ~keep:true x\n"},
    {"h_dense", "fun h_dense p x = x @ transpose p.w + p.b\n"},
    {"h_layer", "type h_lin[o, c] = {w : f32[o, c], b : f32[o]}\n"
                "fun h_layer (p : h_lin[o, c]) x = x @ transpose p.w + p.b\n"},
    {"h_both", "fun h_both r = r.a + r.b\n"},
    {"h_swap", "fun h_swap r = {r with a = r.b, b = r.a}\n"},
    {"h_pair ", "fun h_pair r = {a = sum r, b = r}\n"},
    {"h_row ", "fun h_row x = let val [_, ...s] = shape x in s end\n"},
    {"h_thrice", "fun h_thrice f x = f (f (f x))\n"},
    {"h_square", "fun h_square x = x * x\n"},
    {"h_halves", "fun h_halves (x : 'a[n, m]) given n % 2 == 0, 'a : num =\n"
                 "  x.[:n / 2, :] + x.[n / 2:, :]\n"},
    {"h_total", "fun h_total (x : f32[n]) : f32 =\n"
                "  if n == 0 then 0.0 else x.[0] + h_total x.[1:]\n"},
    {"h_rows", "fun h_rows x = let val [b, ...s] = shape x\n"
               "  in reshape [b, prod_of s] x end\n"},
    {"h_last", "fun h_last x = let val [...s, n] = shape x\n"
               "  in reshape [...s, n, 1] x end\n"},
    {"h_twin", "fun h_twin x = concat ~axis:-1 (x, x)\n"},
    {"h_merge", "fun h_merge x = let val [n, m, ...s] = shape x\n"
                "  in reshape [n * m, ...s] x end\n"},
    {"h_like", "fun h_like x = zeros (shape x) + x\n"},
    {"h_pairs", "fun h_pairs x = reshape [dim 0 x / 2, 2] x\n"},
    {"h_heads",
     "fun h_heads h x = reshape [dim 0 x, dim 1 x, h, dim 2 x / h] x\n"
     "  |> permute \"b t h d -> b h t d\"\n"},
};

void put_helpers(Buffer *out, const char *text) {
  for (uint32_t i = 0; i < ARRAY_LEN(helpers); i++)
    if (strstr(text, helpers[i].name))
      buffer_puts(out, helpers[i].text);
}

const Op call_ops[] = {
    {.name = "wrap",
     9,
     wrap_make,
     wrap_shape,
     wrap_print,
     0,
     0,
     CONSTRAINT_AXIS,
     .takes_keep = true},
    {.name = "dense",
     8,
     dense_make,
     dense_shape,
     dense_print,
     4,
     3,
     CONSTRAINT_RECORD},
    {.name = "field",
     6,
     field_make,
     field_shape,
     field_print,
     4,
     3,
     CONSTRAINT_RECORD},
    {.name = "lift",
     8,
     lift_make,
     lift_shape,
     lift_print,
     6,
     3,
     CONSTRAINT_LIFT},
    {.name = "carry",
     6,
     carry_make,
     carry_shape,
     carry_print,
     0,
     0,
     CONSTRAINT_NONE},
    {.name = "class",
     6,
     class_make,
     class_shape,
     class_print,
     5,
     5,
     CONSTRAINT_ELEM_CLASS},
    {.name = "cond",
     7,
     cond_make,
     cond_shape,
     cond_print,
     0,
     0,
     CONSTRAINT_NONE},
    {.name = "own", 12, own_make, own_shape, own_print, 0, 0, CONSTRAINT_NONE},
    {.name = NULL},
};
