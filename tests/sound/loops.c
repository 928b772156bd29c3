/* Programs with `for`, compared by value: ranges that are written and
 * conditions on indices, where every access is tried out here; and ranges that
 * are inferred, by the rules of the reference. */
#include "tests/sound/sound.h"
#include "support/arena.h"

/* Expressions over indices and sizes: n and m are the sizes of x and z. */
typedef enum TermKind {
  T_INT,
  T_N,
  T_M,
  T_I,
  T_J,
  T_ADD,
  T_SUB,
  T_MUL,
  T_DIV,
  T_MOD,
} TermKind;

typedef struct Term {
  TermKind kind;
  int64_t n;
  struct Term *a, *b;
} Term;

typedef struct Point { /* what the names stand for */
  int64_t n, m, i, j;
} Point;

typedef enum CondKind { C_REL, C_AND, C_OR, C_NOT } CondKind;

typedef struct Cond {
  CondKind kind;
  int rel;
  Term *x, *y;
  struct Cond *a, *b;
} Cond;

/* ---- terms ---- */

static Term *term_new(Gen *g, TermKind kind, int64_t n, Term *a, Term *b) {
  Term *t = NEW(g->arena, Term);
  *t = (Term){kind, n, a, b};
  return t;
}

static Term *leaf(Gen *g, bool j, bool sizes) {
  if (random_percent(g, 25))
    return term_new(g, T_INT, random_below(g, 5), NULL, NULL);
  if (sizes && random_percent(g, 25))
    return term_new(g, T_N, 0, NULL, NULL);
  return term_new(g, j && random_percent(g, 50) ? T_J : T_I, 0, NULL, NULL);
}

static Term *make_term(Gen *g, int depth, bool j, bool sizes) {
  static const TermKind kinds[] = {T_ADD, T_ADD, T_SUB, T_MUL, T_DIV, T_MOD};
  if (!depth || random_percent(g, 30))
    return leaf(g, j, sizes);
  TermKind kind = kinds[random_below(g, ARRAY_LEN(kinds))];
  Term *a = make_term(g, depth - 1, j, sizes);
  Term *b = kind >= T_MUL
                ? term_new(g, T_INT, random_between(g, 1, 4), NULL, NULL)
                : make_term(g, depth - 1, j, sizes);
  return term_new(g, kind, 0, a, b);
}

static int64_t term_value(const Term *t, const Point *at) {
  int64_t a = t->a ? term_value(t->a, at) : 0;
  int64_t b = t->b ? term_value(t->b, at) : 0;
  int64_t q = b > 0 ? (a - (((a % b) + b) % b)) / b : 0;
  switch (t->kind) {
  case T_INT:
    return t->n;
  case T_N:
    return at->n;
  case T_M:
    return at->m;
  case T_I:
    return at->i;
  case T_J:
    return at->j;
  case T_ADD:
    return a + b;
  case T_SUB:
    return a - b;
  case T_MUL:
    return a * b;
  case T_DIV:
    return q;
  case T_MOD:
    return a - b * q;
  }
  return 0;
}

static void term_print(Buffer *out, const Term *t) {
  static const char *const name[] = {
      [T_N] = "n",     [T_M] = "m",     [T_I] = "i",
      [T_J] = "j",     [T_ADD] = " + ", [T_SUB] = " - ",
      [T_MUL] = " * ", [T_DIV] = " / ", [T_MOD] = " % ",
  };
  if (t->kind == T_INT) {
    PUT(out, "%d", (int)t->n);
  } else if (t->kind < T_ADD) {
    PUT(out, "%s", name[t->kind]);
  } else {
    PUT(out, "(");
    term_print(out, t->a);
    buffer_puts(out, name[t->kind]);
    term_print(out, t->b);
    PUT(out, ")");
  }
}

/* ---- conditions ---- */

static Cond *make_cond(Gen *g, int depth, bool j) {
  Cond *c = NEW(g->arena, Cond);
  int how = depth ? random_below(g, 20) : 0;
  c->kind = how < 13 ? C_REL : how < 16 ? C_AND : how < 18 ? C_OR : C_NOT;
  if (c->kind == C_REL) {
    c->rel = random_below(g, 6);
    c->x = random_percent(g, 75) ? leaf(g, j, true) : make_term(g, 1, j, true);
    c->y = leaf(g, j, true);
    return c;
  }
  c->a = make_cond(g, depth - 1, j);
  if (c->kind != C_NOT)
    c->b = make_cond(g, depth - 1, j);
  return c;
}

static bool cond_holds(const Cond *c, const Point *at) {
  if (c->kind == C_AND)
    return cond_holds(c->a, at) && cond_holds(c->b, at);
  if (c->kind == C_OR)
    return cond_holds(c->a, at) || cond_holds(c->b, at);
  if (c->kind == C_NOT)
    return !cond_holds(c->a, at);
  int64_t x = term_value(c->x, at), y = term_value(c->y, at);
  switch (c->rel) {
  case 0:
    return x < y;
  case 1:
    return x <= y;
  case 2:
    return x == y;
  case 3:
    return x != y;
  case 4:
    return x > y;
  }
  return x >= y;
}

static void cond_print(Buffer *out, const Cond *c) {
  static const char *const rel[] = {
      " < ", " <= ", " == ", " != ", " > ", " >= "};
  PUT(out, c->kind == C_NOT ? "not (" : "(");
  if (c->kind == C_REL)
    term_print(out, c->x);
  else
    cond_print(out, c->a);
  if (c->kind != C_NOT)
    buffer_puts(out, c->kind == C_REL   ? rel[c->rel]
                     : c->kind == C_AND ? " && "
                                        : " || ");
  if (c->kind == C_REL)
    term_print(out, c->y);
  else if (c->kind != C_NOT)
    cond_print(out, c->b);
  PUT(out, ")");
}

/* ---- ranges that are written ---- */

typedef struct Loops { /* for i < r => sum (for j < q => x.[e]) */
  Term *range[2], *access[2];
  Cond *guard;     /* or NULL */
  bool two;        /* with j */
  bool other;      /* the other branch has an access, too */
  bool top;        /* at top level, of known size */
  int64_t n, step; /* the first call's */
} Loops;

static Term *make_range(Gen *g, bool inner) {
  Term *n = term_new(g, T_N, 0, NULL, NULL), *one = n;
  int64_t k = random_between(g, 1, 3);
  Term *by = term_new(g, T_INT, k, NULL, NULL);
  switch (random_below(g, inner ? 8 : 6)) {
  case 0:
    return term_new(g, T_INT, random_below(g, 6), NULL, NULL);
  case 1:
    return n;
  case 2:
    return term_new(g, T_ADD, 0, n, by);
  case 3:
    return term_new(g, T_MUL, 0, by, n);
  case 4:
    return term_new(g, T_DIV, 0, n, by);
  case 5:
    return random_percent(g, 50) ? n : term_new(g, T_MOD, 0, n, by);
  }
  one = term_new(g, T_INT, 1, NULL, NULL);
  return term_new(g, T_ADD, 0, term_new(g, T_I, 0, NULL, NULL), one);
}

static void make_loops(Gen *g, Loops *l) {
  l->two = random_percent(g, 40);
  l->top = random_percent(g, 40);
  l->range[0] = make_range(g, false);
  l->range[1] = make_range(g, true);
  bool sizes = random_percent(g, 30);
  l->access[0] = make_term(g, 2, l->two, sizes);
  l->access[1] = make_term(g, 1, l->two, false);
  l->guard = random_percent(g, 50) ? make_cond(g, 2, l->two) : NULL;
  l->other = l->guard && random_percent(g, 50);
  l->n = random_below(g, 8);
}

/* The index of the element of x that is added, or -1: none; false: there is no
 * such element. */
static bool loops_at(const Loops *l, const Point *at, int64_t *out) {
  *out = -1;
  const Term *e = !l->guard || cond_holds(l->guard, at) ? l->access[0]
                  : l->other                            ? l->access[1]
                                                        : NULL;
  if (!e)
    return true;
  *out = term_value(e, at);
  return *out >= 0 && *out < at->n;
}

static Truth loops_sum(const Loops *l, int64_t n, int64_t *range, int64_t *sum,
                       bool *vacuous) {
  Point at = {.n = n};
  int first = 0, second = 0;
  *sum = 0;
  *range = term_value(l->range[0], &at);
  for (at.i = 0; at.i < *range; at.i++) {
    int64_t max = l->two ? term_value(l->range[1], &at) : 1, e;
    for (at.j = 0; at.j < max; at.j++) {
      if (!loops_at(l, &at, &e))
        return TRUTH_WRONG;
      *sum += e < 0 ? 0 : e;
      bool guarded = !l->guard || cond_holds(l->guard, &at);
      first += guarded, second += !guarded;
    }
  }
  *vacuous = !first || (l->other && !second);
  return TRUTH_RIGHT;
}

static void put_body(Buffer *out, const Loops *l) {
  if (l->guard) {
    PUT(out, "if ");
    cond_print(out, l->guard);
    PUT(out, " then ");
  }
  PUT(out, "x.[");
  term_print(out, l->access[0]);
  PUT(out, "]");
  if (!l->guard)
    return;
  PUT(out, l->other ? " else x.[" : " else 0");
  if (l->other) {
    term_print(out, l->access[1]);
    PUT(out, "]");
  }
}

static void put_loops(Buffer *out, const Loops *l) {
  PUT(out, "for i < ");
  term_print(out, l->range[0]);
  PUT(out, " => ");
  if (l->two) {
    PUT(out, "sum (for j < ");
    term_print(out, l->range[1]);
    PUT(out, " => ");
  }
  put_body(out, l);
  PUT(out, l->two ? ")" : "");
}

static void put_results(Call *call, int at, int64_t range, int64_t sum) {
  PUT(&call->text, "do print (shape r%d)\ndo print (sum r%d)\n", at, at);
  if (call->truth != TRUTH_RIGHT)
    return;
  PUT(&call->type, "i64[%d]", (int)range);
  PUT(&call->output, "[%d]\n%d\n", (int)range, (int)sum);
}

static void written_script(Gen *g, Script *out) {
  Loops l = {.two = false};
  make_loops(g, &l);
  out->family = "loops", out->is_single_call = l.top;
  if (!l.top) {
    PUT(&out->defs, "fun f x =\n  let val n = dim 0 x\n  in ");
    put_loops(&out->defs, &l);
    PUT(&out->defs, " end\n");
  }
  for (int i = 0; i < (l.top ? 1 : 3); i++) {
    int64_t n = i ? random_below(g, 9) : l.n, range, sum;
    out->parts |= (uint32_t)1 << (16 + i);
    if (g->dropped_parts >> (16 + i) & 1)
      continue;
    Call *call = &out->call[out->calls++];
    call->truth = loops_sum(&l, n, &range, &sum, &call->vacuous);
    if (l.top) {
      PUT(&call->text,
          "val x = (iota %d : i64[%d])\nval n = %d\nval r%d = ", (int)n, (int)n,
          (int)n, i);
      put_loops(&call->text, &l);
      PUT(&call->text, "\n");
    } else {
      PUT(&call->text, "val r%d = f (iota %d : i64[%d])\n", i, (int)n, (int)n);
    }
    put_results(call, i, range, sum);
  }
}

/* ---- ranges that are inferred ---- */

/* An access x.[a*i + b], or x.[d - 1 - b - i] (back), or in a window
 * x.[a*i + c*k + b] for k < w.  of: x (0) or z (1). */
typedef struct Access {
  bool back, window;
  int64_t a, b, c, w;
  int of;
} Access;

typedef struct Inferred {
  Access access[3];
  int count;
} Inferred;

static void make_inferred(Gen *g, Inferred *p) {
  p->count = random_between(g, 1, 3);
  bool window = random_percent(g, 40);
  for (int i = 0; i < p->count; i++)
    p->access[i] = (Access){
        .back = !window && random_percent(g, 20),
        .window = window,
        .a = random_percent(g, 55) ? 1 : random_between(g, 2, 3),
        .b = random_percent(g, 50) ? 0 : random_between(g, 1, 2),
        .c = random_percent(g, 60) ? 1 : 2,
        .w = random_between(g, 1, 3),
        .of = i ? random_below(g, 2) : 0,
    };
}

/* The largest range of i that stays in bounds of d. */
static int64_t permitted(const Access *a, int64_t d) {
  if (a->back)
    return d - a->b;
  int64_t room = d - 1 - a->b - (a->window ? a->c * (a->w - 1) : 0);
  return room < 0 ? 0 : room / a->a + 1;
}

static Truth inferred_range(const Inferred *p, const int64_t d[2],
                            int64_t *range) {
  int64_t min[2] = {INT64_MAX, INT64_MAX};
  bool shortened = false;
  for (int i = 0; i < p->count; i++) {
    const Access *a = &p->access[i];
    int64_t here = permitted(a, d[a->of]);
    shortened |= a->b > 0 || (a->window && a->w > 1);
    if (a->window && i && here != permitted(&p->access[0], d[0]))
      return TRUTH_WRONG; /* rule 3: several must agree */
    if (here < min[a->of])
      min[a->of] = here;
  }
  *range = min[0];
  if (min[1] != INT64_MAX && min[1] != min[0])
    return TRUTH_WRONG;
  return *range >= 1 || !shortened ? TRUTH_RIGHT : TRUTH_WRONG;
}

static int64_t inferred_sum(const Inferred *p, const int64_t d[2],
                            int64_t range) {
  int64_t sum = 0;
  for (int64_t i = 0; i < range; i++)
    for (int n = 0; n < p->count; n++) {
      const Access *a = &p->access[n];
      for (int64_t k = 0; k < (a->window ? a->w : 1); k++)
        sum += a->back ? d[a->of] - 1 - a->b - i
                       : a->a * i + a->b + (a->window ? a->c * k : 0);
    }
  return sum;
}

static void put_access(Buffer *out, const Access *a) {
  char name = a->of ? 'z' : 'x';
  if (a->window)
    PUT(out, "sum (for k < %d => ", (int)a->w);
  PUT(out, "%c.[", name);
  if (a->back)
    PUT(out, "dim 0 %c - %d - i", name, 1 + (int)a->b);
  else if (a->a == 1)
    PUT(out, "i");
  else
    PUT(out, "%d * i", (int)a->a);
  if (a->window && a->c == 1)
    PUT(out, " + k");
  else if (a->window)
    PUT(out, " + %d * k", (int)a->c);
  if (!a->back && a->b)
    PUT(out, " + %d", (int)a->b);
  PUT(out, a->window ? "])" : "]");
}

static void inferred_script(Gen *g, Script *out) {
  Inferred p;
  make_inferred(g, &p);
  out->family = "ranges";
  PUT(&out->defs, "fun f x z = for i => ");
  for (int i = 0; i < p.count; i++) {
    PUT(&out->defs, i ? " + " : "");
    put_access(&out->defs, &p.access[i]);
  }
  PUT(&out->defs, "\n");
  for (int i = 0; i < 3; i++) {
    int64_t d[2] = {random_below(g, 10), 0}, range;
    d[1] = random_percent(g, 50) ? d[0] : random_below(g, 10);
    if (i == 0) /* a right one, if there is any */
      for (int x = 0; x < 100 && inferred_range(&p, d, &range) != TRUTH_RIGHT;
           x++)
        d[0] = x / 10, d[1] = x % 10;
    out->parts |= (uint32_t)1 << (16 + i);
    if (g->dropped_parts >> (16 + i) & 1)
      continue;
    Call *call = &out->call[out->calls++];
    call->truth = inferred_range(&p, d, &range);
    PUT(&call->text, "val r%d = f (iota %d : i64[%d]) (iota %d : i64[%d])\n", i,
        (int)d[0], (int)d[0], (int)d[1], (int)d[1]);
    put_results(call, i, range, inferred_sum(&p, d, range));
  }
}

void loop_script(Gen *g, Script *out) {
  *out = (Script){.family = NULL};
  if (random_percent(g, 60))
    written_script(g, out);
  else
    inferred_script(g, out);
}
