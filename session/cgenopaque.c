/* Sorting, running sums, scatter and permutations, as tensor/opaque.c says what
 * they are. */
#include "session/cgen.h"

#include <string.h>

/* The element of x at these own indices, for the free ones of n at hand. */
static const char *element(Cgen *e, const Node *n, const Node *x,
                           const char *const *own) {
  const char *args[RANK_MAX];
  for (uint32_t k = 0; k < x->free_count; k++)
    for (uint32_t j = 0; j < n->free_count; j++)
      if (n->free[j] == x->free[k])
        args[k] = e->axis[j];
  memcpy(args + x->free_count, own, x->rank * sizeof *own);
  return cgen_address(e, x, args);
}

static const char *result(Cgen *e, const Node *n, const char *to,
                          const char *const *own) {
  NodeInfo *info = cgen_info(e, n);
  const char *kept = info->name;
  info->name = to;
  const char *address = element(e, n, n, own);
  info->name = kept;
  return address;
}

/* Loops over the own axes of x but one; own: what they are called. */
static void lines(Cgen *e, const Node *x, uint32_t skipped, const char **own) {
  for (uint32_t k = 0; k < x->rank; k++)
    if (k != skipped) {
      cgen_axis_loop(e, x->extents[x->free_count + k]);
      own[k] = e->axis[e->axis_count - 1];
    }
}

static const char *get_items(Cgen *e, int64_t count) {
  const char *items = cgen_fresh(e, "items");
  const char *size = cgen_size(e, count);
  VEC_PUSH(e->arena, e->declared,
           cgen_format(e, "Keyed *%s = NULL;", items));
  cgen_line(e, "%s = room(times(2, times(1, %s)), sizeof *%s, 0);", items, size,
            items);
  cgen_line(e, "if (!%s) %s", items,
            cgen_fail(e, (Span){0}, "out of memory"));
  return items;
}

static void let_go(Cgen *e, const char *items) {
  cgen_line(e, "free(%s);", items);
  cgen_line(e, "%s = NULL;", items);
}

static const char *open_count(Cgen *e, const char *end) {
  const char *k = cgen_fresh(e, "k");
  cgen_open(e, cgen_format(e, "for (int64_t %s = 0; %s < %s; %s++)", k, k, end,
                           k));
  return k;
}

static void cgen_order(Cgen *e, const Node *n, const char *to, uint32_t axis,
                       bool index) {
  const Node *x = n->inputs[0];
  const char *own[RANK_MAX], *k, *held;
  int64_t length = x->extents[x->free_count + axis];
  bool top = n->op == PRIM_TOPK;
  const char *items = get_items(e, length), *end = cgen_size(e, length);
  Nest nest = cgen_begin(e);
  cgen_free_axes(e, n);
  lines(e, x, axis, own);
  own[axis] = k = open_count(e, end);
  held = cgen_load(e, x->dtype, element(e, n, x, own));
  cgen_line(e, "%s[%s].order = %sorder_%s(%s);", items, k, top ? "~" : "",
            dtype_is_float(x->dtype) ? "d" : "i", held);
  cgen_line(e, "%s[%s].index = %s;", items, k, k);
  cgen_close(e);
  cgen_line(e, "sort_keyed(%s, %s);", items, end);
  own[axis] = k = open_count(e, cgen_size(e, n->extents[n->free_count + axis]));
  const char *at = result(e, n, to, own);
  own[axis] = cgen_format(e, "%s[%s].index", items, k);
  cgen_line(e, "%s = %s;", at, index ? own[axis] : element(e, n, x, own));
  cgen_finish(e, nest);
  let_go(e, items);
}

/* Accumulated as sums of the kind are. */
static const char *sum_type(Dtype t) {
  return !dtype_is_float(t)                   ? "int64_t"
         : t == DT_F16 || t == DT_BF16 ? "float"
                                       : "double";
}

static const char *sum_of(Cgen *e, Dtype t, const char *x, const char *y) {
  return cgen_format(e, dtype_is_float(t) ? "%s + %s" : "add_i(%s, %s)", x, y);
}

static const char *sum_stored(Cgen *e, Dtype t, const char *sum) {
  if (t == DT_BOOL)
    return cgen_format(e, "%s != 0", sum);
  return dtype_is_float(t)
             ? cgen_store(e, t, cgen_format(e, t == DT_F32 ? "(float)%s" : "%s",
                                            sum))
             : cgen_format(e, "(%s)%s", cgen_type(t), sum);
}

static void cgen_cumsum(Cgen *e, const Node *n, const char *to) {
  const Node *x = n->inputs[0];
  const char *own[RANK_MAX];
  uint32_t axis = (uint32_t)n->params[0];
  Nest nest = cgen_begin(e);
  cgen_free_axes(e, n);
  lines(e, x, axis, own);
  const char *sum = cgen_fresh(e, "a");
  cgen_line(e, "%s %s = 0;", sum_type(n->dtype), sum);
  own[axis] = open_count(e, cgen_size(e, x->extents[x->free_count + axis]));
  const char *y = cgen_load(e, x->dtype, element(e, n, x, own));
  cgen_line(e, "%s = %s;", sum, sum_of(e, n->dtype, sum, y));
  cgen_line(e, "%s = %s;", result(e, n, to, own),
            sum_stored(e, n->dtype, sum));
  cgen_finish(e, nest);
}

static void cgen_scatter(Cgen *e, const Node *n, const char *to) {
  const Node *x = n->inputs[0], *index = n->inputs[1], *y = n->inputs[2];
  const char *own[RANK_MAX], *sums = cgen_fresh(e, "sums"), *count = "1";
  const char *type = sum_type(n->dtype), *flat = "0", *kept;
  for (uint32_t k = 0; k < n->rank; k++)
    count = cgen_format(e, "times(%s, %s)", count,
                        cgen_size(e, n->extents[n->free_count + k]));
  VEC_PUSH(e->arena, e->declared, cgen_format(e, "%s *%s = NULL;", type, sums));
  cgen_line(e, "%s = room(%s, sizeof *%s, 0);", sums, count, sums);
  cgen_line(e, "if (!%s) %s", sums, cgen_fail(e, (Span){0}, "out of memory"));
  Nest nest = cgen_begin(e);
  cgen_free_axes(e, n);
  uint32_t depth = e->depth;
  for (uint32_t part = 0; part < 3; part++) {
    const Node *over = part == 1 ? y : x;
    e->axis_count = n->free_count;
    lines(e, over, UINT32_MAX, own);
    const char *first = own[0];
    if (part == 1) {
      const char *row = cgen_fresh(e, "row");
      kept = cgen_load(e, index->dtype, element(e, n, index, own));
      cgen_line(e, "const int64_t %s = %s;", row, kept);
      cgen_line(e, "if (%s < 0 || %s >= %s) %s", row, row,
                cgen_size(e, n->extents[n->free_count]),
                cgen_fail(e, n->span, "an index is out of bounds"));
      first = row;
    }
    flat = first;
    for (uint32_t k = 1; k < n->rank; k++)
      flat = cgen_format(e, "(%s * %s + %s)", flat,
                         cgen_size(e, n->extents[n->free_count + k]), own[k]);
    const char *sum = cgen_format(e, "%s[%s]", sums, flat);
    if (part == 2)
      cgen_line(e, "%s = %s;", result(e, n, to, own),
                sum_stored(e, n->dtype, sum));
    else
      kept = cgen_load(e, over->dtype, element(e, n, over, own));
    if (part < 2)
      cgen_line(e, "%s = %s;", sum,
                part ? sum_of(e, n->dtype, sum, kept) : kept);
    while (e->depth > depth)
      cgen_close(e);
  }
  cgen_finish(e, nest);
  cgen_line(e, "free(%s);", sums);
  cgen_line(e, "%s = NULL;", sums);
}

static void cgen_permutation(Cgen *e, const Node *n, const char *to) {
  const char *items = get_items(e, n->params[0]), *k;
  const char *end = cgen_size(e, n->params[0]);
  k = open_count(e, end);
  cgen_line(e, "%s[%s].order = bits64(UINT64_C(%llu), UINT64_C(%llu), %s);",
            items, k, (unsigned long long)n->key.word[0],
            (unsigned long long)n->key.word[1], k);
  cgen_line(e, "%s[%s].index = %s;", items, k, k);
  cgen_close(e);
  cgen_line(e, "sort_keyed(%s, %s);", items, end);
  k = open_count(e, end);
  cgen_line(e, "%s[%s] = %s[%s].index;", to, k, items, k);
  cgen_close(e);
  let_go(e, items);
}

void cgen_opaque(Cgen *e, const Node *n, const char *to) {
  switch ((int)n->op) { /* the kinds of node_opaque */
  case PRIM_SORT:
  case PRIM_ARGSORT:
    cgen_order(e, n, to, (uint32_t)n->params[0], n->op == PRIM_ARGSORT);
    break;
  case PRIM_TOPK:
    cgen_order(e, n, to, n->rank - 1, n->output != 0);
    break;
  case PRIM_CUMSUM:
    cgen_cumsum(e, n, to);
    break;
  case PRIM_SCATTER:
    cgen_scatter(e, n, to);
    break;
  case PRIM_PERMUTATION:
    cgen_permutation(e, n, to);
    break;
  }
}
