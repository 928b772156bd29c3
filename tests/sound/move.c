/* Operations that move elements: slices, reshape, concat, ... */
#include "tests/sound/sound.h"

static bool one_operand(Gen *g, const Env *env, GenStep *s, int min, int max) {
  s->operands[0] = pick_var(g, env, min, max, false);
  s->operand_count = 1;
  return s->operands[0] >= 0;
}

static bool with_axis(Gen *g, const Env *env, GenStep *s) {
  if (!one_operand(g, env, s, 1, MAX_AXES))
    return false;
  s->axis = pick_axis(g, &env->var[s->operands[0]]);
  return true;
}

/* The axis of its first operand, if that is there and no star. */
static bool own_axis(const Env *env, const GenStep *s, int *axis) {
  const Extents *x = &env->var[s->operands[0]];
  return axis_of(x, s->axis, axis) && x->at[*axis] != BROADCAST_AXIS;
}

static void put_call(Buffer *out, const char *name, const GenStep *s) {
  PUT(out, "%s ~axis:%d v%d", name, s->axis, s->operands[0]);
}

/* ---- slices and indices ---- */

static IndexItem make_item(Gen *g, const Env *env, int64_t d) {
  IndexItem it = {IT_ALL, NULL, NULL, 0};
  int how = d == BROADCAST_AXIS ? 0 : random_below(g, 20);
  if (how < 7)
    return it;
  int64_t a = random_below(g, (int)d + 1),
          b = random_between(g, (int)a, (int)d);
  if (how < 12) {
    it.kind = IT_FROM, it.from = size_for(g, env, a);
  } else if (how < 16) {
    it.kind = IT_TO, it.to = size_for(g, env, b);
  } else if (how < 18 || !d) {
    it.kind = IT_FROM_TO;
    it.from = size_for(g, env, a), it.to = size_for(g, env, b);
  } else if (how < 19) {
    it.kind = IT_AT, it.from = size_for(g, env, random_below(g, (int)d));
  } else {
    it.kind = IT_BACK, it.back = random_between(g, 1, (int)d);
  }
  return it;
}

static void insert_item(Gen *g, GenStep *s, IndexItemKind kind) {
  int at = random_below(g, s->items + 1);
  for (int i = s->items++; i > at; i--)
    s->item[i] = s->item[i - 1];
  s->item[at] = (IndexItem){kind, NULL, NULL, 0};
}

static bool slice_make(Gen *g, const Env *env, GenStep *s) {
  s->operands[0] = pick_var(g, env, 1, 4, true);
  s->operand_count = 1;
  if (s->operands[0] < 0)
    return false;
  const Extents *x = &env->var[s->operands[0]];
  int named = random_percent(g, 15) ? random_below(g, x->rank) : x->rank;
  for (s->items = 0; s->items < named; s->items++)
    s->item[s->items] = make_item(g, env, x->at[s->items]);
  if (named < x->rank)
    s->item[s->items++].kind = IT_REST;
  if (x->rank < 4 && random_percent(g, 20))
    insert_item(g, s, random_percent(g, 50) ? IT_NEW : IT_STRETCH);
  return true;
}

/* Of one axis of d: what is left of it is *to - *from, if the item keeps it. */
static Truth item_range(const Env *env, const IndexItem *it, int64_t d,
                        int64_t *from, int64_t *to) {
  *from = 0, *to = d;
  if (it->from && size_value(it->from, env, from) != TRUTH_RIGHT)
    return TRUTH_WRONG;
  if (it->to && size_value(it->to, env, to) != TRUTH_RIGHT)
    return TRUTH_WRONG;
  if (it->kind == IT_AT)
    *to = *from + 1;
  if (it->kind == IT_BACK)
    *from = d - it->back, *to = *from + 1;
  return *from >= 0 && *from <= *to && *to <= d ? TRUTH_RIGHT : TRUTH_WRONG;
}

static Truth slice_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = &env->var[s->operands[0]];
  int named = 0, axis = 0;
  bool rest = false;
  for (int i = 0; i < s->items; i++) {
    IndexItemKind k = s->item[i].kind;
    rest |= k == IT_REST;
    named += k != IT_NEW && k != IT_STRETCH && k != IT_REST;
  }
  if (named > x->rank || (named < x->rank && !rest))
    return TRUTH_WRONG;
  if (!env->ranks_known && axes_has_star(x))
    return TRUTH_UNKNOWN; /* a size was wanted before there was a star */
  for (int i = 0; i < s->items; i++) {
    const IndexItem *it = &s->item[i];
    int64_t from, to;
    if (it->kind == IT_NEW || it->kind == IT_STRETCH) {
      out->at[out->rank++] = it->kind == IT_NEW ? 1 : BROADCAST_AXIS;
    } else if (it->kind == IT_REST) {
      for (int n = x->rank - named; n > 0; n--)
        out->at[out->rank++] = x->at[axis++];
    } else if (it->kind == IT_ALL) {
      out->at[out->rank++] = x->at[axis++];
    } else {
      int64_t d = x->at[axis++]; /* a star is cut as any axis of 1 */
      if (item_range(env, it, d == BROADCAST_AXIS ? 1 : d, &from, &to) ==
          TRUTH_WRONG)
        return TRUTH_WRONG;
      if (it->kind != IT_AT && it->kind != IT_BACK)
        out->at[out->rank++] = to - from;
    }
  }
  return TRUTH_RIGHT;
}

static void item_print(Buffer *out, const IndexItem *it) {
  switch (it->kind) {
  case IT_NEW:
    PUT(out, "new");
    return;
  case IT_STRETCH:
    PUT(out, "*");
    return;
  case IT_REST:
    PUT(out, "...");
    return;
  case IT_BACK:
    PUT(out, "-%d", (int)it->back);
    return;
  case IT_ALL:
  case IT_FROM:
  case IT_TO:
  case IT_FROM_TO:
  case IT_AT:
    break;
  }
  if (it->from)
    size_print(out, it->from);
  if (it->kind != IT_AT)
    PUT(out, ":");
  if (it->to)
    size_print(out, it->to);
}

static void slice_print(Buffer *out, const GenStep *s) {
  PUT(out, "v%d.[", s->operands[0]);
  for (int i = 0; i < s->items; i++) {
    PUT(out, "%s", i ? ", " : "");
    item_print(out, &s->item[i]);
  }
  PUT(out, "]");
}

/* ---- reshape ---- */

static bool reshape_make(Gen *g, const Env *env, GenStep *s) {
  if (!one_operand(g, env, s, 1, 4))
    return false;
  int64_t left = axes_prod(&env->var[s->operands[0]]), sizes[4];
  if (left < 1)
    return false;
  s->sizes = random_between(g, 1, 4);
  for (int i = 0; i < s->sizes; i++) {
    int64_t d = i + 1 == s->sizes ? left : 1;
    for (int tries = 0; tries < 4 && i + 1 < s->sizes; tries++) {
      d = random_between(g, 1, left < 8 ? (int)left : 8);
      if (left % d == 0)
        break;
      d = 1;
    }
    sizes[i] = d, left /= d;
  }
  int hole = random_percent(g, 50) ? random_below(g, s->sizes) : -1;
  for (int i = 0; i < s->sizes; i++)
    s->size[i] = i == hole ? NULL : size_for(g, env, sizes[i]);
  return true;
}

static Truth reshape_shape(const Env *env, const GenStep *s, Extents *out) {
  int64_t have = axes_prod(&env->var[s->operands[0]]), known = 1;
  int hole = -1;
  out->rank = s->sizes;
  for (int i = 0; i < s->sizes; i++) {
    if (!s->size[i]) {
      hole = i;
      continue;
    }
    if (size_value(s->size[i], env, &out->at[i]) != TRUTH_RIGHT ||
        out->at[i] < 0)
      return TRUTH_WRONG;
    known *= out->at[i];
  }
  if (!have || !known) /* equations cancel sizes that may be 0 */
    return TRUTH_UNKNOWN;
  if (hole < 0)
    return known == have ? TRUTH_RIGHT : TRUTH_WRONG;
  out->at[hole] = have / known;
  return have % known ? TRUTH_WRONG : TRUTH_RIGHT;
}

static void put_sizes(Buffer *out, const GenStep *s) {
  PUT(out, "[");
  for (int i = 0; i < s->sizes; i++) {
    PUT(out, "%s", i ? ", " : "");
    if (s->size[i])
      size_print(out, s->size[i]);
    else
      PUT(out, "_");
  }
  PUT(out, "]");
}

static void reshape_print(Buffer *out, const GenStep *s) {
  PUT(out, "reshape ");
  put_sizes(out, s);
  PUT(out, " v%d", s->operands[0]);
}

/* ---- transpose, permute, flatten ---- */

static bool transpose_make(Gen *g, const Env *env, GenStep *s) {
  return one_operand(g, env, s, 2, MAX_AXES);
}

static Truth transpose_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = &env->var[s->operands[0]];
  *out = *x;
  int n = x->rank;
  if (n < 2 || x->at[n - 1] == BROADCAST_AXIS || x->at[n - 2] == BROADCAST_AXIS)
    return TRUTH_WRONG;
  out->at[n - 2] = x->at[n - 1], out->at[n - 1] = x->at[n - 2];
  return TRUTH_RIGHT;
}

static void transpose_print(Buffer *out, const GenStep *s) {
  PUT(out, "transpose v%d", s->operands[0]);
}

static bool flatten_make(Gen *g, const Env *env, GenStep *s) {
  return one_operand(g, env, s, 1, MAX_AXES);
}

static Truth flatten_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = &env->var[s->operands[0]];
  if (!x->rank || x->at[0] == BROADCAST_AXIS)
    return TRUTH_WRONG;
  Extents rest = {.rank = x->rank - 1};
  for (int i = 1; i < x->rank; i++)
    rest.at[i - 1] = x->at[i];
  *out = (Extents){2, {x->at[0], axes_prod(&rest)}};
  return TRUTH_RIGHT;
}

static void flatten_print(Buffer *out, const GenStep *s) {
  PUT(out, "flatten v%d", s->operands[0]);
}

static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                 {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

static bool permute_make(Gen *g, const Env *env, GenStep *s) {
  s->variant = random_below(g, 12);
  return one_operand(g, env, s, 3, s->variant < 6 ? 3 : 5);
}

/* The last six forms have `...` in front. */
static Truth permute_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = &env->var[s->operands[0]];
  int front = x->rank - 3;
  if (front < 0 || (front && s->variant < 6))
    return TRUTH_WRONG;
  *out = *x;
  for (int i = 0; i < 3; i++) {
    out->at[front + i] = x->at[front + orders[s->variant % 6][i]];
    if (out->at[front + i] == BROADCAST_AXIS)
      return TRUTH_WRONG;
  }
  return TRUTH_RIGHT;
}

static void permute_print(Buffer *out, const GenStep *s) {
  const char *dots = s->variant < 6 ? "" : "... ";
  const int *order = orders[s->variant % 6];
  PUT(out, "permute \"%sa b c -> %s%c %c %c\" v%d", dots, dots, 'a' + order[0],
      'a' + order[1], 'a' + order[2], s->operands[0]);
}

/* ---- concat, split ---- */

static Truth concat_shape(const Env *env, const GenStep *s, Extents *out) {
  int axis;
  if (!own_axis(env, s, &axis))
    return TRUTH_WRONG;
  *out = env->var[s->operands[0]];
  for (int i = 1; i < s->operand_count; i++) {
    const Extents *x = &env->var[s->operands[i]];
    if (x->rank != out->rank || x->at[axis] == BROADCAST_AXIS)
      return TRUTH_WRONG;
    for (int k = 0; k < x->rank; k++)
      if (k != axis && x->at[k] != out->at[k])
        return TRUTH_WRONG;
    out->at[axis] += x->at[axis];
  }
  return TRUTH_RIGHT;
}

static bool concat_make(Gen *g, const Env *env, GenStep *s) {
  if (!with_axis(g, env, s))
    return false;
  s->operand_count = random_between(g, 2, 3);
  for (int i = 1; i < s->operand_count; i++)
    if ((s->operands[i] = pick_var(g, env, 1, MAX_AXES, false)) < 0)
      return false;
  return true;
}

static void concat_print(Buffer *out, const GenStep *s) {
  PUT(out, "concat ~axis:%d (", s->axis);
  for (int i = 0; i < s->operand_count; i++)
    PUT(out, "%sv%d", i ? ", " : "", s->operands[i]);
  PUT(out, ")");
}

static bool split_make(Gen *g, const Env *env, GenStep *s) {
  if (!with_axis(g, env, s))
    return false;
  int axis;
  own_axis(env, s, &axis);
  int64_t d = env->var[s->operands[0]].at[axis], a;
  if (d < 2)
    return false;
  a = random_between(g, 1, (int)d - 1);
  s->sizes = 2;
  s->variant = random_below(g, 2); /* the piece that goes on */
  s->size[0] = size_for(g, env, a);
  s->size[1] = size_for(g, env, d - a);
  if (random_percent(g, 60))
    s->size[random_below(g, 2)] = NULL;
  return true;
}

static Truth split_shape(const Env *env, const GenStep *s, Extents *out) {
  int axis;
  if (!own_axis(env, s, &axis))
    return TRUTH_WRONG;
  *out = env->var[s->operands[0]];
  int64_t d = out->at[axis], piece[2] = {0, 0};
  for (int i = 0; i < 2; i++)
    if (s->size[i] &&
        (size_value(s->size[i], env, &piece[i]) != TRUTH_RIGHT || piece[i] < 0))
      return TRUTH_WRONG;
  for (int i = 0; i < 2; i++)
    if (!s->size[i])
      piece[i] = d - piece[1 - i];
  out->at[axis] = piece[s->variant % 2];
  if (!piece[0] || !piece[1]) /* equations are divided by sizes */
    return TRUTH_UNKNOWN;
  return piece[0] >= 0 && piece[1] >= 0 && piece[0] + piece[1] == d
             ? TRUTH_RIGHT
             : TRUTH_WRONG;
}

static void split_print(Buffer *out, const GenStep *s) {
  PUT(out, "(case split ~axis:%d ", s->axis);
  put_sizes(out, s);
  PUT(out, " v%d of (a, b) => %c)", s->operands[0], "ab"[s->variant % 2]);
}

/* ---- pad, tile, repeat, reverse, roll, sort, squeeze ---- */

static bool pad_make(Gen *g, const Env *env, GenStep *s) {
  s->sizes = 2;
  s->size[0] = size_for(g, env, random_below(g, 3));
  s->size[1] = size_for(g, env, random_below(g, 4));
  return with_axis(g, env, s);
}

static Truth pad_shape(const Env *env, const GenStep *s, Extents *out) {
  int axis;
  int64_t p, q;
  if (!own_axis(env, s, &axis) ||
      size_value(s->size[0], env, &p) != TRUTH_RIGHT ||
      size_value(s->size[1], env, &q) != TRUTH_RIGHT || p < 0 || q < 0)
    return TRUTH_WRONG;
  *out = env->var[s->operands[0]];
  out->at[axis] += p + q;
  return TRUTH_RIGHT;
}

static void pad_print(Buffer *out, const GenStep *s) {
  PUT(out, "pad ~axis:%d ~before:", s->axis);
  size_print(out, s->size[0]);
  PUT(out, " ~after:");
  size_print(out, s->size[1]);
  PUT(out, " v%d", s->operands[0]);
}

static bool tile_make(Gen *g, const Env *env, GenStep *s) {
  s->sizes = 1;
  s->size[0] = size_for(g, env, random_between(g, 1, 3));
  s->variant = random_below(g, 2);
  return with_axis(g, env, s);
}

static Truth tile_shape(const Env *env, const GenStep *s, Extents *out) {
  int axis;
  int64_t k;
  if (!own_axis(env, s, &axis) ||
      size_value(s->size[0], env, &k) != TRUTH_RIGHT || k < 0)
    return TRUTH_WRONG;
  *out = env->var[s->operands[0]];
  out->at[axis] *= k;
  return TRUTH_RIGHT;
}

static void tile_print(Buffer *out, const GenStep *s) {
  PUT(out, "%s ~axis:%d ", s->variant % 2 ? "repeat" : "tile", s->axis);
  size_print(out, s->size[0]);
  PUT(out, " v%d", s->operands[0]);
}

static Truth same_shape(const Env *env, const GenStep *s, Extents *out) {
  int axis;
  *out = env->var[s->operands[0]];
  return own_axis(env, s, &axis) ? TRUTH_RIGHT : TRUTH_WRONG;
}

static bool along_axis_make(Gen *g, const Env *env, GenStep *s) {
  s->variant = random_below(g, 4);
  return with_axis(g, env, s);
}

static void along_axis_print(Buffer *out, const GenStep *s) {
  static const char *const names[] = {"reverse", "sort", "cumsum"};
  if (s->variant % 4 < 3)
    put_call(out, names[s->variant % 4], s);
  else
    PUT(out, "roll ~axis:%d 2 v%d", s->axis, s->operands[0]);
}

/* rfft, or irfft to one of the two sizes that fit. */
static bool fourier_make(Gen *g, const Env *env, GenStep *s) {
  int axis;
  s->variant = random_below(g, 2);
  if (!with_axis(g, env, s) || !own_axis(env, s, &axis))
    return false;
  int64_t d = env->var[s->operands[0]].at[axis];
  if (s->variant % 2 == 0)
    return true;
  s->sizes = 1;
  s->size[0] = size_for(g, env, 2 * (d - 1) + random_below(g, 2));
  return d > 0;
}

static Truth fourier_shape(const Env *env, const GenStep *s, Extents *out) {
  int axis;
  int64_t n;
  *out = env->var[s->operands[0]];
  if (!own_axis(env, s, &axis))
    return TRUTH_WRONG;
  int64_t *d = &out->at[axis];
  if (s->variant % 2 == 0) {
    *d = *d / 2 + 1;
    return TRUTH_RIGHT;
  }
  if (size_value(s->size[0], env, &n) != TRUTH_RIGHT || n < 0 ||
      n / 2 + 1 != *d)
    return TRUTH_WRONG;
  *d = n;
  return TRUTH_RIGHT;
}

static void fourier_print(Buffer *out, const GenStep *s) {
  int v = s->operands[0];
  if (s->variant % 2 == 0) {
    PUT(out, "(fft.rfft ~axis:%d v%d).im", s->axis, v);
    return;
  }
  PUT(out, "fft.irfft ~axis:%d ", s->axis);
  size_print(out, s->size[0]);
  PUT(out, " {re = v%d, im = v%d}", v, v);
}

static bool squeeze_make(Gen *g, const Env *env, GenStep *s) {
  s->operands[0] = pick_var(g, env, 1, MAX_AXES, true);
  s->operand_count = 1;
  if (s->operands[0] < 0)
    return false;
  s->axis = pick_axis(g, &env->var[s->operands[0]]);
  return true;
}

static Truth squeeze_shape(const Env *env, const GenStep *s, Extents *out) {
  const Extents *x = &env->var[s->operands[0]];
  int axis;
  if (!axis_of(x, s->axis, &axis) ||
      (x->at[axis] != BROADCAST_AXIS && x->at[axis] != 1))
    return TRUTH_WRONG;
  if (!env->ranks_known && axes_has_star(x))
    return TRUTH_UNKNOWN;
  for (int i = 0; i < x->rank; i++)
    if (i != axis)
      out->at[out->rank++] = x->at[i];
  return TRUTH_RIGHT;
}

static void squeeze_print(Buffer *out, const GenStep *s) {
  put_call(out, "squeeze", s);
}

/* ---- gather, broadcast, stacking ---- */

static bool gather_make(Gen *g, const Env *env, GenStep *s) {
  if (!one_operand(g, env, s, 1, 5))
    return false;
  s->variant = random_between(g, 1, 3);
  return env->var[s->operands[0]].at[0] > 0;
}

static Truth gather_shape(const Env *env, const GenStep *s, Extents *out) {
  *out = env->var[s->operands[0]];
  if (!out->rank || out->at[0] == BROADCAST_AXIS)
    return TRUTH_WRONG;
  if (!out->at[0])
    return TRUTH_UNKNOWN;
  out->at[0] = s->variant;
  return TRUTH_RIGHT;
}

static void gather_print(Buffer *out, const GenStep *s) {
  PUT(out, "gather v%d [%s]", s->operands[0],
      s->variant == 1   ? "0"
      : s->variant == 2 ? "0, 0"
                        : "0, 0, 0");
}

static bool broadcast_make(Gen *g, const Env *env, GenStep *s) {
  s->operands[0] = pick_var(g, env, 0, 3, true);
  s->operand_count = 1;
  if (s->operands[0] < 0)
    return false;
  const Extents *x = &env->var[s->operands[0]];
  int more = random_below(g, 2);
  s->sizes = x->rank + more;
  for (int i = 0; i < s->sizes; i++) {
    int64_t d = i < more ? BROADCAST_AXIS : x->at[i - more];
    s->size[i] =
        size_for(g, env, d == BROADCAST_AXIS ? random_between(g, 1, 5) : d);
  }
  return s->sizes > 0;
}

static Truth broadcast_shape(const Env *env, const GenStep *s, Extents *out) {
  Extents want = {.rank = s->sizes};
  for (int i = 0; i < s->sizes; i++)
    if (size_value(s->size[i], env, &want.at[i]) != TRUTH_RIGHT ||
        want.at[i] < 0)
      return TRUTH_WRONG;
  if (axes_join(&env->var[s->operands[0]], &want, out) != TRUTH_RIGHT)
    return TRUTH_WRONG;
  return axes_equal(out, &want) ? TRUTH_RIGHT : TRUTH_WRONG;
}

static void broadcast_print(Buffer *out, const GenStep *s) {
  PUT(out, "broadcast ");
  put_sizes(out, s);
  PUT(out, " v%d", s->operands[0]);
}

static bool fill_make(Gen *g, const Env *env, GenStep *s) {
  s->variant = random_below(g, 3);
  s->sizes = random_between(g, 1, 3);
  for (int i = 0; i < s->sizes; i++)
    s->size[i] = size_for(g, env, random_between(g, 1, 5));
  return true;
}

static Truth fill_shape(const Env *env, const GenStep *s, Extents *out) {
  out->rank = s->sizes;
  for (int i = 0; i < s->sizes; i++)
    if (size_value(s->size[i], env, &out->at[i]) != TRUTH_RIGHT ||
        out->at[i] < 0)
      return TRUTH_WRONG;
  return TRUTH_RIGHT;
}

/* Floats, or a literal of the library that meets them may make it integers. */
static void fill_print(Buffer *out, const GenStep *s) {
  int form = s->variant % 3;
  PUT(out, "%s ", form == 0 ? "(zeros" : form == 1 ? "(ones" : "full");
  put_sizes(out, s);
  PUT(out, "%s", form == 2 ? " 2.0" : " : f32[...])");
}

/* ---- sizes that data decides ---- */

static bool filter_make(Gen *g, const Env *env, GenStep *s) {
  s->variant = random_below(g, 2);
  return one_operand(g, env, s, 1, s->variant ? 1 : 4);
}

/* It keeps every row; or those that are positive, which depends. */
static Truth filter_shape(const Env *env, const GenStep *s, Extents *out) {
  *out = env->var[s->operands[0]];
  if (!out->rank || out->at[0] == BROADCAST_AXIS ||
      (s->variant % 2 && out->rank > 1))
    return TRUTH_WRONG;
  return TRUTH_RIGHT;
}

static void filter_print(Buffer *out, const GenStep *s) {
  put_template(out,
               s->variant % 2 ? "filter (fn r => not (r > inf)) $0"
                              : "filter (fn r => sum r != inf || true) $0",
               s);
}

const Op move_ops[] = {
    {.name = "slice", 24, slice_make, slice_shape, slice_print},
    {.name = "reshape", 12, reshape_make, reshape_shape, reshape_print},
    {.name = "transpose", 5, transpose_make, transpose_shape, transpose_print},
    {.name = "flatten", 4, flatten_make, flatten_shape, flatten_print},
    {.name = "permute", 4, permute_make, permute_shape, permute_print},
    {.name = "concat", 10, concat_make, concat_shape, concat_print},
    {.name = "split", 6, split_make, split_shape, split_print},
    {.name = "pad", 5, pad_make, pad_shape, pad_print},
    {.name = "tile", 4, tile_make, tile_shape, tile_print},
    {.name = "turn", 4, along_axis_make, same_shape, along_axis_print},
    {.name = "fourier", 4, fourier_make, fourier_shape, fourier_print},
    {.name = "squeeze", 5, squeeze_make, squeeze_shape, squeeze_print},
    {.name = "gather", 3, gather_make, gather_shape, gather_print},
    {.name = "broadcast", 3, broadcast_make, broadcast_shape, broadcast_print},
    {.name = "fill", 6, fill_make, fill_shape, fill_print},
    {.name = "filter",
     2,
     filter_make,
     filter_shape,
     filter_print,
     .size_depends_on_data = true},
    {.name = NULL},
};
