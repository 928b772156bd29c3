/* Chance, shapes, and sizes as expressions. */
#include "tests/sound/sound.h"
#include "support/arena.h"

/* ---- chance: SplitMix64 (Steele, Lea, Flood 2014) ---- */

uint64_t gen_next(Gen *g) {
  uint64_t z = g->state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

int random_below(Gen *g, int n) {
  return (int)(gen_next(g) % (uint64_t)n);
}

int random_between(Gen *g, int lo, int hi) {
  return lo + random_below(g, hi - lo + 1);
}

bool random_percent(Gen *g, int percent) {
  return random_below(g, 100) < percent;
}

/* ---- shapes ---- */

int64_t axes_prod(const Extents *s) {
  int64_t p = 1;
  for (int i = 0; i < s->rank; i++)
    p *= s->at[i] == BROADCAST_AXIS ? 1 : s->at[i];
  return p;
}

bool axes_equal(const Extents *a, const Extents *b) {
  bool same = a->rank == b->rank;
  for (int i = 0; same && i < a->rank; i++)
    same = a->at[i] == b->at[i];
  return same;
}

bool axes_has_star(const Extents *s) {
  bool star = false;
  for (int i = 0; i < s->rank; i++)
    star |= s->at[i] == BROADCAST_AXIS;
  return star;
}

/* Aligned at the right: a missing axis < a star < a size. */
Truth axes_join(const Extents *a, const Extents *b, Extents *out) {
  Extents r = {.rank = a->rank > b->rank ? a->rank : b->rank};
  for (int i = 1; i <= r.rank; i++) {
    int64_t x = i <= a->rank ? a->at[a->rank - i] : BROADCAST_AXIS;
    int64_t y = i <= b->rank ? b->at[b->rank - i] : BROADCAST_AXIS;
    if (x != BROADCAST_AXIS && y != BROADCAST_AXIS && x != y)
      return TRUTH_WRONG;
    r.at[r.rank - i] = x == BROADCAST_AXIS ? y : x;
  }
  *out = r;
  return TRUTH_RIGHT;
}

static void axes_list(Buffer *out, const Extents *s) {
  for (int i = 0; i < s->rank; i++) {
    buffer_puts(out, i ? ", " : "");
    if (s->at[i] == BROADCAST_AXIS)
      buffer_putc(out, '*');
    else
      buffer_printf(out, "%lld", (long long)s->at[i]);
  }
}

void axes_type(Buffer *out, const Extents *s) {
  buffer_puts(out, s->rank ? "f32[" : "f32");
  axes_list(out, s);
  buffer_puts(out, s->rank ? "]" : "");
}

void axes_brackets(Buffer *out, const Extents *s) {
  buffer_putc(out, '[');
  axes_list(out, s);
  buffer_putc(out, ']');
}

/* ---- sizes ---- */

static Size *size_new(Gen *g, SizeKind kind, Size *a, Size *b) {
  Size *s = NEW(g->arena, Size);
  *s = (Size){.kind = kind, .a = a, .b = b};
  return s;
}

Size *size_int(Gen *g, int64_t n) {
  Size *s = size_new(g, SZ_INT, NULL, NULL);
  s->n = n;
  return s;
}

/* The size of some axis of which there is one; NULL: none. */
static Size *some_dim(Gen *g, const Env *env, int64_t *value) {
  for (int tries = 0; tries < 6; tries++) {
    int v = random_below(g, env->count);
    const Extents *s = &env->var[v];
    if (!s->rank)
      continue;
    int axis = random_below(g, s->rank);
    if (s->at[axis] == BROADCAST_AXIS)
      continue;
    Size *d = size_new(g, SZ_DIM, NULL, NULL);
    d->var = v;
    d->n = random_percent(g, 60) ? axis : axis - s->rank;
    *value = s->at[axis];
    return d;
  }
  return NULL;
}

/* d with something done to it so that it is n; NULL: that one does not. */
static Size *adapt(Gen *g, Size *d, int64_t have, int64_t n) {
  if (have == n)
    return random_percent(g, 12)
               ? size_new(g, random_percent(g, 50) ? SZ_MIN : SZ_MAX, d,
                          size_int(g, n))
               : d;
  if (have > n && have - n <= 3 && random_percent(g, 60))
    return size_new(g, SZ_SUB, d, size_int(g, have - n));
  if (n > have && n - have <= 2 && random_percent(g, 60))
    return size_new(g, SZ_ADD, d, size_int(g, n - have));
  for (int64_t k = 2; k <= 3; k++) {
    if (have / k == n)
      return size_new(g, SZ_DIV, d, size_int(g, k));
    if ((have + k - 1) / k == n)
      return size_new(g, SZ_DIV, size_new(g, SZ_ADD, d, size_int(g, k - 1)),
                      size_int(g, k));
    if (k * have == n)
      return size_new(g, SZ_MUL, size_int(g, k), d);
    if (have % k == n)
      return size_new(g, SZ_MOD, d, size_int(g, k));
  }
  return NULL;
}

static Size *some_prod(Gen *g, const Env *env, int64_t n) {
  int v = random_below(g, env->count);
  if (axes_prod(&env->var[v]) != n || axes_has_star(&env->var[v]))
    return NULL;
  Size *p = size_new(g, SZ_PROD, NULL, NULL);
  p->var = v;
  return p;
}

/* Two sizes that make up n. */
static Size *of_two(Gen *g, const Env *env, int64_t n) {
  int64_t a, b;
  Size *x = some_dim(g, env, &a), *y = some_dim(g, env, &b);
  if (!x || !y)
    return NULL;
  return a + b == n   ? size_new(g, SZ_ADD, x, y)
         : a - b == n ? size_new(g, SZ_SUB, x, y)
         : a * b == n ? size_new(g, SZ_MUL, x, y)
                      : NULL;
}

Size *size_for(Gen *g, const Env *env, int64_t n) {
  if (env->count && !random_percent(g, 35))
    for (int tries = 0; tries < 6; tries++) {
      int64_t have;
      int how = random_below(g, 10);
      Size *d = how == 0   ? some_prod(g, env, n)
                : how == 1 ? of_two(g, env, n)
                           : some_dim(g, env, &have);
      if (d && how > 1)
        d = adapt(g, d, have, n);
      if (d)
        return d;
    }
  return size_int(g, n);
}

bool size_mentions(const Size *s, int var) {
  if (!s)
    return false;
  return ((s->kind == SZ_DIM || s->kind == SZ_PROD) && s->var == var) ||
         size_mentions(s->a, var) || size_mentions(s->b, var);
}

bool size_has_axes(const Size *s, const Env *env) {
  int axis;
  if (!s)
    return true;
  return (s->kind != SZ_DIM || axis_of(&env->var[s->var], (int)s->n, &axis)) &&
         size_has_axes(s->a, env) && size_has_axes(s->b, env);
}

static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static Truth dim_value(const Size *s, const Env *env, int64_t *out) {
  int axis;
  const Extents *of = &env->var[s->var];
  if (!axis_of(of, (int)s->n, &axis))
    return TRUTH_WRONG;
  if (!env->ranks_known && env->unknown && axes_has_star(of))
    *env->unknown = true; /* a size was wanted before there was a star */
  *out = of->at[axis] == BROADCAST_AXIS ? 1 : of->at[axis];
  return TRUTH_RIGHT;
}

Truth size_value(const Size *s, const Env *env, int64_t *out) {
  int64_t a = 0, b = 0;
  if (s->a && size_value(s->a, env, &a) != TRUTH_RIGHT)
    return TRUTH_WRONG;
  if (s->b && size_value(s->b, env, &b) != TRUTH_RIGHT)
    return TRUTH_WRONG;
  switch (s->kind) {
  case SZ_INT:
    *out = s->n;
    break;
  case SZ_DIM:
    return dim_value(s, env, out);
  case SZ_PROD:
    *out = axes_prod(&env->var[s->var]);
    break;
  case SZ_ADD:
    *out = a + b;
    break;
  case SZ_SUB:
    *out = a - b;
    break;
  case SZ_MUL:
    *out = a * b;
    break;
  case SZ_MIN:
    *out = a < b ? a : b;
    break;
  case SZ_MAX:
    *out = a > b ? a : b;
    break;
  case SZ_DIV:
  case SZ_MOD:
    if (b < 1)
      return TRUTH_WRONG;
    *out = floor_div(a, b);
    if (s->kind == SZ_MOD)
      *out = a - b * *out;
    break;
  }
  return TRUTH_RIGHT;
}

void size_print(Buffer *out, const Size *s) {
  static const char *const sign[] = {
      [SZ_ADD] = " + ", [SZ_SUB] = " - ", [SZ_MUL] = " * ",
      [SZ_DIV] = " / ", [SZ_MOD] = " % ",
  };
  switch (s->kind) {
  case SZ_INT:
    buffer_printf(out, s->n < 0 ? "(%lld)" : "%lld", (long long)s->n);
    return;
  case SZ_DIM:
    buffer_printf(out, "(dim %d v%d)", (int)s->n, s->var);
    return;
  case SZ_PROD:
    buffer_printf(out, "(prod_of (shape v%d))", s->var);
    return;
  case SZ_MIN:
  case SZ_MAX:
    buffer_puts(out, s->kind == SZ_MIN ? "(minimum " : "(maximum ");
    size_print(out, s->a);
    buffer_putc(out, ' ');
    break;
  case SZ_ADD:
  case SZ_SUB:
  case SZ_MUL:
  case SZ_DIV:
  case SZ_MOD:
    buffer_putc(out, '(');
    size_print(out, s->a);
    buffer_puts(out, sign[s->kind]);
    break;
  }
  size_print(out, s->b);
  buffer_putc(out, ')');
}

/* ---- choosing ---- */

bool axis_of(const Extents *s, int literal, int *axis) {
  *axis = literal < 0 ? s->rank + literal : literal;
  return *axis >= 0 && *axis < s->rank;
}

int pick_axis(Gen *g, const Extents *s) {
  int axis = random_below(g, s->rank);
  return random_percent(g, 55) ? axis : axis - s->rank;
}

int pick_var(Gen *g, const Env *env, int min, int max, bool stars) {
  for (int tries = 0; tries < 8; tries++) {
    /* more often something new */
    int v =
        random_percent(g, 40) ? env->count - 1 : random_below(g, env->count);
    const Extents *s = &env->var[v];
    if (s->rank >= min && s->rank <= max && (stars || !axes_has_star(s)))
      return v;
  }
  return -1;
}

void put_template(Buffer *out, const char *form, const GenStep *s) {
  for (; *form; form++)
    if (*form == '$')
      buffer_printf(out, "v%d", s->operands[*++form - '0']);
    else
      buffer_putc(out, *form);
}
