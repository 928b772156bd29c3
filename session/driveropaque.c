/* Sorting, running sums, scatter and permutations, as tensor/opaque.c says what
 * they are, in plain C. */
#include "session/driver.h"

#include <string.h>

/* Beside what is taken from backend/cpu/prelude/scalar.inc. */
const char opaque_runtime[] =
    "typedef struct Keyed { /* an element as an integer of the same order */\n"
    "  uint64_t order;\n"
    "  int64_t index;\n"
    "} Keyed;\n"
    "INLINE int64_t add_i(int64_t x, int64_t y) {\n"
    "  return (int64_t)((uint64_t)x + (uint64_t)y);\n"
    "}\n"
    "INLINE uint64_t order_i(int64_t x) {\n"
    "  return (uint64_t)x ^ (uint64_t)1 << 63;\n"
    "}\n"
    "INLINE uint64_t order_d(double x) { /* NaN last */\n"
    "  double y = x == 0 ? 0 : x;\n"
    "  uint64_t bits;\n"
    "  memcpy(&bits, &y, sizeof bits);\n"
    "  if (x != x)\n"
    "    return UINT64_MAX;\n"
    "  return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;\n"
    "}\n"
    "/* Stable; items has room for as many again. */\n"
    "INLINE void sort_keyed(Keyed *items, int64_t n) {\n"
    "  Keyed *from = items, *to = items + n;\n"
    "  for (int64_t width = 1; width < n; width *= 2) {\n"
    "    for (int64_t low = 0; low < n; low += 2 * width) {\n"
    "      int64_t middle = size_min(low + width, n), i = low, j = middle;\n"
    "      int64_t high = size_min(low + 2 * width, n);\n"
    "      for (int64_t k = low; k < high; k++)\n"
    "        if (i < middle &&\n"
    "            (j == high || from[i].order <= from[j].order))\n"
    "          to[k] = from[i++];\n"
    "        else\n"
    "          to[k] = from[j++];\n"
    "    }\n"
    "    Keyed *other = from;\n"
    "    from = to;\n"
    "    to = other;\n"
    "  }\n"
    "  if (from != items && n > 0)\n"
    "    memcpy(items, from, (size_t)n * sizeof *items);\n"
    "}\n";

typedef struct Opaque { /* for-loops that are open */
  Driver *e;
  uint32_t depth; /* before the first of them */
  const char *axis[2 * RANK_MAX];
  uint32_t axis_count;
} Opaque;

static const char *axis_loop(Opaque *o, int64_t extent) {
  Driver *e = o->e;
  const char *i = driver_fresh(e, "i");
  driver_open(e, driver_format(e, "for (int64_t %s = 0; %s < %s; %s++)", i, i,
                               driver_size(e, extent), i));
  return o->axis[o->axis_count++] = i;
}

/* x[...] at the free indices of n at hand and these own ones; name: where it
 * is, NULL: where it always is */
static const char *element(Opaque *o, const Node *n, const Node *x,
                           const char *name, const char *const *own) {
  Driver *e = o->e;
  const char *at = NULL;
  for (uint32_t k = 0; k < x->free_count + x->rank; k++) {
    const char *i = k < x->free_count ? "0" : own[k - x->free_count];
    for (uint32_t j = 0; k < x->free_count && j < n->free_count; j++)
      if (n->free[j] == x->free[k])
        i = o->axis[j];
    const char *extent = driver_size(e, x->extents[k]);
    at = at ? driver_format(e, "(%s * %s + %s)", at, extent, i) : i;
  }
  return driver_format(e, "(%s)[%s]", name ? name : driver_place(e, x),
                       at ? at : "0");
}

static void free_axes(Opaque *o, const Node *n) {
  Driver *e = o->e;
  for (uint32_t k = 0; k < n->free_count; k++)
    axis_loop(o, n->extents[k]);
  if (n->guard)
    driver_open(
        e, driver_format(e, "if (%s)", element(o, n, n->guard, NULL, NULL)));
}

static Opaque begin(Driver *e) {
  Opaque o = {.e = e, .depth = e->depth};
  driver_open(e, "");
  return o;
}

static void finish(const Opaque *o) {
  while (o->e->depth > o->depth)
    driver_close(o->e);
}

static const char *load(Driver *e, Dtype t, const char *x) {
  return t == DT_F16    ? driver_format(e, "from_f16(%s)", x)
         : t == DT_BF16 ? driver_format(e, "from_bf16(%s)", x)
                        : x;
}

/* Loops over the own axes of x but one; own: what they are called. */
static void lines(Opaque *o, const Node *x, uint32_t skipped,
                  const char **own) {
  for (uint32_t k = 0; k < x->rank; k++)
    if (k != skipped)
      own[k] = axis_loop(o, x->extents[x->free_count + k]);
}

static const char *get_items(Driver *e, int64_t count) {
  const char *items = driver_fresh(e, "items");
  const char *size = driver_size(e, count);
  VEC_PUSH(e->arena, e->declared, driver_format(e, "Keyed *%s = NULL;", items));
  driver_line(e, "%s = room(times(2, times(1, %s)), sizeof *%s, 0);", items,
              size, items);
  driver_line(e, "if (!%s) %s", items,
              driver_fail(e, (Span){0}, "out of memory"));
  return items;
}

static void let_go(Driver *e, const char *items) {
  driver_line(e, "free(%s);", items);
  driver_line(e, "%s = NULL;", items);
}

static const char *open_count(Driver *e, const char *end) {
  const char *k = driver_fresh(e, "k");
  driver_open(
      e, driver_format(e, "for (int64_t %s = 0; %s < %s; %s++)", k, k, end, k));
  return k;
}

static void driver_order(Driver *e, const Node *n, const char *to,
                         uint32_t axis, bool index) {
  const Node *x = n->inputs[0];
  const char *own[RANK_MAX], *k, *held;
  int64_t length = x->extents[x->free_count + axis];
  bool top = n->op == PRIM_TOPK;
  const char *items = get_items(e, length), *end = driver_size(e, length);
  Opaque o = begin(e);
  free_axes(&o, n);
  lines(&o, x, axis, own);
  own[axis] = k = open_count(e, end);
  held = load(e, x->dtype, element(&o, n, x, NULL, own));
  driver_line(e, "%s[%s].order = %sorder_%s(%s);", items, k, top ? "~" : "",
              dtype_is_float(x->dtype) ? "d" : "i", held);
  driver_line(e, "%s[%s].index = %s;", items, k, k);
  driver_close(e);
  driver_line(e, "sort_keyed(%s, %s);", items, end);
  own[axis] = k =
      open_count(e, driver_size(e, n->extents[n->free_count + axis]));
  const char *at = element(&o, n, n, to, own);
  own[axis] = driver_format(e, "%s[%s].index", items, k);
  driver_line(e, "%s = %s;", at,
              index ? own[axis] : element(&o, n, x, NULL, own));
  finish(&o);
  let_go(e, items);
}

/* Accumulated as sums of the kind are. */
static const char *sum_type(Dtype t) {
  return !dtype_is_float(t)            ? "int64_t"
         : t == DT_F16 || t == DT_BF16 ? "float"
                                       : "double";
}

static const char *sum_of(Driver *e, Dtype t, const char *x, const char *y) {
  return driver_format(e, dtype_is_float(t) ? "%s + %s" : "add_i(%s, %s)", x,
                       y);
}

static const char *store(Driver *e, Dtype t, const char *x) {
  return t == DT_F16    ? driver_format(e, "to_f16(%s)", x)
         : t == DT_BF16 ? driver_format(e, "to_bf16(%s)", x)
                        : x;
}

static const char *sum_stored(Driver *e, Dtype t, const char *sum) {
  if (t == DT_BOOL)
    return driver_format(e, "%s != 0", sum);
  return dtype_is_float(t)
             ? store(e, t,
                     driver_format(e, t == DT_F32 ? "(float)%s" : "%s", sum))
             : driver_format(e, "(%s)%s", driver_type(t), sum);
}

static void driver_cumsum(Driver *e, const Node *n, const char *to) {
  const Node *x = n->inputs[0];
  const char *own[RANK_MAX];
  uint32_t axis = (uint32_t)n->params[0];
  Opaque o = begin(e);
  free_axes(&o, n);
  lines(&o, x, axis, own);
  const char *sum = driver_fresh(e, "a");
  driver_line(e, "%s %s = 0;", sum_type(n->dtype), sum);
  own[axis] = open_count(e, driver_size(e, x->extents[x->free_count + axis]));
  const char *y = load(e, x->dtype, element(&o, n, x, NULL, own));
  driver_line(e, "%s = %s;", sum, sum_of(e, n->dtype, sum, y));
  driver_line(e, "%s = %s;", element(&o, n, n, to, own),
              sum_stored(e, n->dtype, sum));
  finish(&o);
}

static void driver_scatter(Driver *e, const Node *n, const char *to) {
  const Node *x = n->inputs[0], *index = n->inputs[1], *y = n->inputs[2];
  const char *own[RANK_MAX], *sums = driver_fresh(e, "sums"), *count = "1";
  const char *type = sum_type(n->dtype), *flat = "0", *kept;
  for (uint32_t k = 0; k < n->rank; k++)
    count = driver_format(e, "times(%s, %s)", count,
                          driver_size(e, n->extents[n->free_count + k]));
  VEC_PUSH(e->arena, e->declared,
           driver_format(e, "%s *%s = NULL;", type, sums));
  driver_line(e, "%s = room(%s, sizeof *%s, 0);", sums, count, sums);
  driver_line(e, "if (!%s) %s", sums,
              driver_fail(e, (Span){0}, "out of memory"));
  Opaque o = begin(e);
  free_axes(&o, n);
  uint32_t depth = e->depth;
  for (uint32_t part = 0; part < 3; part++) {
    const Node *over = part == 1 ? y : x;
    o.axis_count = n->free_count;
    lines(&o, over, UINT32_MAX, own);
    const char *first = own[0];
    if (part == 1) {
      const char *row = driver_fresh(e, "row");
      kept = load(e, index->dtype, element(&o, n, index, NULL, own));
      driver_line(e, "const int64_t %s = %s;", row, kept);
      driver_line(e, "if (%s < 0 || %s >= %s) %s", row, row,
                  driver_size(e, n->extents[n->free_count]),
                  driver_fail(e, n->span, "an index is out of bounds"));
      first = row;
    }
    flat = first;
    for (uint32_t k = 1; k < n->rank; k++)
      flat =
          driver_format(e, "(%s * %s + %s)", flat,
                        driver_size(e, n->extents[n->free_count + k]), own[k]);
    const char *sum = driver_format(e, "%s[%s]", sums, flat);
    if (part == 2)
      driver_line(e, "%s = %s;", element(&o, n, n, to, own),
                  sum_stored(e, n->dtype, sum));
    else
      kept = load(e, over->dtype, element(&o, n, over, NULL, own));
    if (part < 2)
      driver_line(e, "%s = %s;", sum,
                  part ? sum_of(e, n->dtype, sum, kept) : kept);
    while (e->depth > depth)
      driver_close(e);
  }
  finish(&o);
  driver_line(e, "free(%s);", sums);
  driver_line(e, "%s = NULL;", sums);
}

static void driver_permutation(Driver *e, const Node *n, const char *to) {
  const char *items = get_items(e, n->params[0]), *k;
  const char *end = driver_size(e, n->params[0]);
  k = open_count(e, end);
  driver_line(e, "%s[%s].order = bits64(UINT64_C(%llu), UINT64_C(%llu), %s);",
              items, k, (unsigned long long)n->key.word[0],
              (unsigned long long)n->key.word[1], k);
  driver_line(e, "%s[%s].index = %s;", items, k, k);
  driver_close(e);
  driver_line(e, "sort_keyed(%s, %s);", items, end);
  k = open_count(e, end);
  driver_line(e, "%s[%s] = %s[%s].index;", to, k, items, k);
  driver_close(e);
  let_go(e, items);
}

void driver_opaque(Driver *e, const Node *n, const char *to) {
  e->m->opaque = true;
  switch ((int)n->op) { /* the kinds of node_opaque */
  case PRIM_SORT:
  case PRIM_ARGSORT:
    driver_order(e, n, to, (uint32_t)n->params[0], n->op == PRIM_ARGSORT);
    break;
  case PRIM_TOPK:
    driver_order(e, n, to, n->rank - 1, n->output != 0);
    break;
  case PRIM_CUMSUM:
    driver_cumsum(e, n, to);
    break;
  case PRIM_SCATTER:
    driver_scatter(e, n, to);
    break;
  case PRIM_PERMUTATION:
    driver_permutation(e, n, to);
    break;
  }
}
