/* Operations that a program defines for itself, as users do: wrappers that
 * take axes, records, functions over functions, conditions on sizes, recursion,
 * facts after `given`.  They are polymorphic, and so called at many shapes. */
#include "tests/sound/sound.h"

#include <string.h>

static bool one(Gen *g, const Env *env, Step *s, int least, int most,
                bool stars) {
  s->in[0] = pick_var(g, env, least, most, stars);
  s->ins = 1;
  return s->in[0] >= 0;
}

static bool two(Gen *g, const Env *env, Step *s, int least) {
  s->in[1] = pick_var(g, env, least, MOST_AXES, false);
  bool found = one(g, env, s, least, MOST_AXES, false);
  s->ins = 2;
  return found && s->in[1] >= 0;
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

static bool wrap_make(Gen *g, const Env *env, Step *s) {
  s->keep = chance(g, 50);
  s->form = pick(g, 3);
  if (!one(g, env, s, 1, MOST_AXES, true))
    return false;
  s->axis = pick_axis(g, &env->var[s->in[0]]);
  return true;
}

/* Forms: a reduction; one that centres; one with the axis last. */
static Truth wrap_shape(const Env *env, const Step *s, Extents *out) {
  const Extents *x = &env->var[s->in[0]];
  int axis;
  if (!axis_of(x, s->form == 2 ? -1 : s->axis, &axis))
    return WRONG;
  if (axes_has_star(x) && (!env->ranks || (s->form && x->at[axis] == STAR)))
    return UNSURE; /* a size was wanted before there was a star */
  if (s->form) {
    *out = *x;
    return RIGHT;
  }
  for (int i = 0; i < x->rank; i++)
    if (i != axis || s->keep)
      out->at[out->rank++] = i == axis ? STAR : x->at[i];
  return RIGHT;
}

static void wrap_print(Buffer *out, const Step *s) {
  if (s->form == 0)
    PUT(out, "h_red ~axis:%d ~keep:%s v%d", s->axis,
        s->keep ? "true" : "false", s->in[0]);
  else if (s->form == 1)
    PUT(out, "h_center ~axis:%d v%d", s->axis, s->in[0]);
  else
    PUT(out, "nn.softmax v%d", s->in[0]);
}

/* ---- a layer: a record with two fields, and rows of any others ---- */

static bool dense_make(Gen *g, const Env *env, Step *s) {
  if (!one(g, env, s, 2, MOST_AXES, false))
    return false;
  const Extents *x = &env->var[s->in[0]];
  int64_t m = between(g, 1, 4);
  s->sizes = 3;
  s->size[0] = size_for(g, env, m);
  s->size[1] = size_for(g, env, x->at[x->rank - 1]);
  s->size[2] = size_for(g, env, m);
  return true;
}

static Truth dense_shape(const Env *env, const Step *s, Extents *out) {
  const Extents *x = &env->var[s->in[0]];
  int64_t o, c, b;
  if (s->form >= s->op->forms || x->rank < 2 || x->at[x->rank - 1] == STAR ||
      x->at[x->rank - 2] == STAR || size_value(s->size[0], env, &o) != RIGHT ||
      size_value(s->size[1], env, &c) != RIGHT ||
      size_value(s->size[2], env, &b) != RIGHT || o < 0 || o != b ||
      c != x->at[x->rank - 1])
    return WRONG;
  *out = *x;
  out->at[x->rank - 1] = o;
  return RIGHT;
}

/* Wrong: a field that is missing; one that is not taken; one misspelt. */
static void dense_print(Buffer *out, const Step *s) {
  static const char *const call[] = {"nn.linear {", "h_dense {",
                                     "h_dense {extra = 1.0, ", "h_layer {",
                                     "h_dense {", "nn.linear {more = 1.0, ",
                                     "h_layer {"};
  PUT(out, "%sw = zeros [", call[s->form]);
  size_print(out, s->size[0]);
  PUT(out, ", ");
  size_print(out, s->size[1]);
  PUT(out, "]");
  if (s->form != 4) {
    PUT(out, s->form == 6 ? ", bias = zeros [" : ", b = zeros [");
    size_print(out, s->size[2]);
    PUT(out, "]");
  }
  PUT(out, "} v%d", s->in[0]);
}

/* ---- fields of records that hold anything ---- */

static bool field_make(Gen *g, const Env *env, Step *s) {
  s->in[0] = pick_var(g, env, 0, MOST_AXES, true);
  s->in[1] = pick_var(g, env, 0, MOST_AXES, true);
  s->ins = 2;
  return s->in[0] >= 0 && s->in[1] >= 0;
}

static Truth field_shape(const Env *env, const Step *s, Extents *out) {
  if (s->form >= s->op->forms)
    return WRONG;
  if (s->form == 1) {
    *out = env->var[s->in[1]];
    return RIGHT;
  }
  return axes_join(&env->var[s->in[0]], &env->var[s->in[1]], out);
}

static void field_print(Buffer *out, const Step *s) {
  static const char *const form[] = {
      "h_both {a = $0, b = $1}",
      "({p = $0, q = $1}).q",
      "h_both {a = $0, b = $1, c = true}",
      "(h_swap {a = $0, b = $1, tag = 1}) |> h_both",
      "h_both {a = $0, c = $1}",
      "({p = $0, q = $1}).r",
      "h_both (h_swap {a = $0, z = $1})",
  };
  put_form(out, form[s->form], s);
}

/* ---- functions over the leading axis ---- */

static bool lift_make(Gen *g, const Env *env, Step *s) {
  return one(g, env, s, 1, MOST_AXES - 1, false);
}

static Truth lift_shape(const Env *env, const Step *s, Extents *out) {
  const Extents *x = &env->var[s->in[0]];
  if (s->form >= s->op->forms || !x->rank || x->at[0] == STAR)
    return WRONG;
  Extents rest = rest_of(x), none = {.rank = 0};
  switch (s->form) {
  case 0: /* sums of rows */
  case 1:
  case 5:
    *out = lifted(x->at[0], &none);
    return RIGHT;
  case 4:
    *out = rest;
    return RIGHT;
  }
  *out = *x; /* the rows themselves */
  return RIGHT;
}

static void lift_print(Buffer *out, const Step *s) {
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
  put_form(out, form[s->form], s);
}

/* ---- loops that carry a state, and functions applied twice ---- */

static bool carry_make(Gen *g, const Env *env, Step *s) {
  s->form = pick(g, 5);
  return two(g, env, s, 1);
}

/* The state's shape must not change: join(state, other) == state. */
static Truth carry_shape(const Env *env, const Step *s, Extents *out) {
  const Extents *state = &env->var[s->in[0]], *x = &env->var[s->in[1]];
  Extents row = *x, after;
  if (s->form == 1 || s->form == 2) {
    if (!x->rank || x->at[0] == STAR)
      return WRONG;
    if (!x->at[0]) /* it is never run */
      return UNSURE;
    row = rest_of(x);
  }
  if (axes_join(state, &row, &after) != RIGHT || !axes_equal(state, &after))
    return s->form == 4 && axes_join(state, &row, out) == RIGHT ? RIGHT : WRONG;
  *out = *state;
  return RIGHT;
}

static void carry_print(Buffer *out, const Step *s) {
  static const char *const form[] = {
      "iterate 3 (fn c => c + $1) $0",
      "fold (fn c r => c + r) $0 $1",
      "fst (scan (fn c r => (c * r, c)) $0 $1)",
      "h_thrice (fn c => $1 + c) $0",
      "($1 |> fn d => fn c => c + d) $0",
  };
  put_form(out, form[s->form % 5], s);
}

/* ---- classes of element types ---- */

static bool class_make(Gen *g, const Env *env, Step *s) {
  return one(g, env, s, 0, MOST_AXES, true);
}

static Truth class_shape(const Env *env, const Step *s, Extents *out) {
  *out = env->var[s->in[0]];
  return s->form < s->op->forms ? RIGHT : WRONG;
}

static void class_print(Buffer *out, const Step *s) {
  static const char *const form[] = {
      "f32 (i64 $0)",       "h_square $0",
      "f32 (h_square (i32 $0))", "exp (f32 ($0 > 0.0))",
      "f32 (i64 $0 % 3)",   "exp (i64 $0)",
      "h_square ($0 > 0.0)", "sqrt ($0 > 0.0)",
      "f32 (not $0)",       "f32 (mean (i64 $0))",
  };
  put_form(out, form[s->form], s);
}

/* ---- conditions on sizes ---- */

static bool cond_make(Gen *g, const Env *env, Step *s) {
  if (!one(g, env, s, 1, MOST_AXES, false))
    return false;
  int64_t d = env->var[s->in[0]].at[0]; /* no star */
  s->form = pick(g, 6);
  s->sizes = 2;
  s->size[0] = size_for(g, env, between(g, 0, 5));
  s->size[1] = size_for(g, env, pick(g, (int)d + 1));
  return true;
}

static bool holds(int form, int64_t a, int64_t b) {
  switch (form % 6) {
  case 0: return a < b;
  case 1: return a <= b;
  case 2: return a == b;
  case 3: return a != b;
  case 4: return a > b;
  }
  return a >= b;
}

/* Where the first axis compares so with a size, some of it is left out.  An
 * axis that is not there is a mistake in what is never run, too, unless it is
 * known before that it never is. */
static Truth cond_shape(const Env *env, const Step *s, Extents *out) {
  const Extents *x = &env->var[s->in[0]];
  int64_t b, from;
  if (!x->rank || size_value(s->size[0], env, &b) != RIGHT)
    return WRONG;
  if (!env->ranks && axes_has_star(x))
    return UNSURE; /* a size was wanted before there was a star */
  *out = rest_of(x);
  int64_t d = x->at[0] == STAR ? 1 : x->at[0];
  bool runs = holds(s->form, d, b), fits = false;
  if (size_value(s->size[1], env, &from) == RIGHT)
    fits = from >= 0 && from <= d;
  else if (!runs && !size_has_axes(s->size[1], env))
    return UNSURE;
  if (!runs && env->skipped)
    *env->skipped = true;
  return fits || !runs ? RIGHT : WRONG;
}

static void cond_print(Buffer *out, const Step *s) {
  static const char *const rel[] = {"<", "<=", "==", "!=", ">", ">="};
  int v = s->in[0];
  PUT(out, "(if dim 0 v%d %s ", v, rel[s->form % 6]);
  size_print(out, s->size[0]);
  PUT(out, " then sum ~axis:0 v%d.[", v);
  size_print(out, s->size[1]);
  PUT(out, ":, ...] else sum ~axis:0 v%d)", v);
}

/* ---- facts after `given`, recursion, splices taken apart ---- */

static bool own_make(Gen *g, const Env *env, Step *s) {
  s->form = pick(g, 9);
  static const int least[] = {2, 1, 1, 1, 1, 2, 1, 1, 3};
  static const int most[] = {2, 1, 5, 6, 5, 5, 6, 1, 3};
  return one(g, env, s, least[s->form], most[s->form], s->form == 6);
}

static Truth own_shape(const Env *env, const Step *s, Extents *out) {
  const Extents *x = &env->var[s->in[0]];
  int n = x->rank;
  *out = *x;
  if (s->form != 6 && axes_has_star(x))
    return UNSURE; /* in a splice one is right */
  if (s->form != 6 && !n)
    return WRONG;
  switch (s->form) {
  case 0: /* both halves */
    if (n != 2 || x->at[0] % 2)
      return WRONG;
    out->at[0] /= 2;
    return RIGHT;
  case 1: /* annotated, recursive: at ever smaller sizes */
    out->rank = 0;
    return n == 1 ? RIGHT : WRONG;
  case 2: /* what is behind the first axis as one */
    *out = (Extents){2, {x->at[0], 1}};
    for (int i = 1; i < n; i++)
      out->at[1] *= x->at[i];
    return RIGHT;
  case 3: /* a new last axis */
    out->at[out->rank++] = 1;
    return RIGHT;
  case 4: /* twice as long */
    out->at[n - 1] *= 2;
    return RIGHT;
  case 5: /* the first two as one */
    if (n < 2)
      return WRONG;
    *out = rest_of(x);
    out->at[0] *= x->at[0];
    return RIGHT;
  case 6: /* as zeros_like */
    return RIGHT;
  case 7: /* in pairs */
    if (!axes_prod(x) || x->at[0] == 1)
      return UNSURE;
    *out = (Extents){2, {x->at[0] / 2, 2}};
    return axes_prod(out) == axes_prod(x) ? RIGHT : WRONG;
  }
  if (n < 3) /* two heads */
    return WRONG;
  if (!axes_prod(x) || x->at[2] == 1)
    return UNSURE;
  if (axes_prod(x) != x->at[0] * x->at[1] * (x->at[2] / 2) * 2)
    return WRONG;
  *out = (Extents){4, {x->at[0], 2, x->at[1], x->at[2] / 2}};
  return RIGHT;
}

static void own_print(Buffer *out, const Step *s) {
  static const char *const form[] = {
      "h_halves $0", "h_total $0", "h_rows $0",  "h_last $0",    "h_twin $0",
      "h_merge $0",  "h_like $0",  "h_pairs $0", "h_heads 2 $0",
  };
  put_form(out, form[s->form % 9], s);
}

/* A program has those of these definitions that it uses. */
static const struct {
  const char *name, *text;
} helpers[] = {
    {"h_red", "fun h_red ~axis:a ~keep:k x = sum ~axis:a ~keep:k x\n"},
    {"h_center",
     "fun h_center ~axis:a x = x - mean ~axis:a ~keep:true x\n"},
    {"h_dense", "fun h_dense p x = x @ transpose p.w + p.b\n"},
    {"h_layer",
     "type h_lin[o, c] = {w : f32[o, c], b : f32[o]}\n"
     "fun h_layer (p : h_lin[o, c]) x = x @ transpose p.w + p.b\n"},
    {"h_both", "fun h_both r = r.a + r.b\n"},
    {"h_swap", "fun h_swap r = {r with a = r.b, b = r.a}\n"},
    {"h_pair ", "fun h_pair r = {a = sum r, b = r}\n"},
    {"h_row ", "fun h_row x = let val [_, ...s] = shape x in s end\n"},
    {"h_thrice", "fun h_thrice f x = f (f (f x))\n"},
    {"h_square", "fun h_square x = x * x\n"},
    {"h_halves",
     "fun h_halves (x : 'a[n, m]) given n % 2 == 0, 'a : num =\n"
     "  x.[:n / 2, :] + x.[n / 2:, :]\n"},
    {"h_total",
     "fun h_total (x : f32[n]) : f32 =\n"
     "  if n == 0 then 0.0 else x.[0] + h_total x.[1:]\n"},
    {"h_rows",
     "fun h_rows x = let val [b, ...s] = shape x\n"
     "  in reshape [b, prod_of s] x end\n"},
    {"h_last",
     "fun h_last x = let val [...s, n] = shape x\n"
     "  in reshape [...s, n, 1] x end\n"},
    {"h_twin", "fun h_twin x = concat ~axis:-1 (x, x)\n"},
    {"h_merge",
     "fun h_merge x = let val [n, m, ...s] = shape x\n"
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
    {.name = "wrap", 9, wrap_make, wrap_shape, wrap_print, 0, 0,
     ROW_AXIS, .keeps = true},
    {.name = "dense", 8, dense_make, dense_shape, dense_print, 4, 3,
     ROW_RECORD},
    {.name = "field", 6, field_make, field_shape, field_print, 4, 3,
     ROW_RECORD},
    {.name = "lift", 8, lift_make, lift_shape, lift_print, 6, 3,
     ROW_LIFT},
    {.name = "carry", 6, carry_make, carry_shape, carry_print, 0, 0,
     ROW_NONE},
    {.name = "class", 6, class_make, class_shape, class_print, 5, 5,
     ROW_CLASS},
    {.name = "cond", 7, cond_make, cond_shape, cond_print, 0, 0,
     ROW_NONE},
    {.name = "own", 12, own_make, own_shape, own_print, 0, 0,
     ROW_NONE},
    {.name = NULL},
};
