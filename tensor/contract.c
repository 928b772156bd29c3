/* Products summed over axes: @, dot, outer, einsum. */
#include "tensor/internal.h"

#include <string.h>

enum { LABELS = 256 };

typedef struct Contraction {
  uint32_t count;
  Node *const *args;
  const uint8_t *const *labels;
  uint64_t seen[LABELS / 64]; /* which labels there are: the others' places
                                 hold nothing */
  struct Label {
    const Node *by; /* the node that gave the extent */
    int64_t extent;
    bool star;
    uint8_t own, reduced; /* 1 + position, or 0 */
  } label[LABELS];
} Contraction;

static bool is_seen(const Contraction *c, uint8_t label) {
  return c->seen[label / 64] >> label % 64 & 1;
}

static bool see_label(Graph *g, Contraction *c, const Node *x, uint32_t axis,
                      uint8_t label, Fault *fault) {
  struct Label *l = &c->label[label];
  int64_t extent = node_own(x)[axis];
  bool star = node_is_star(x, axis);
  if (!is_seen(c, label)) {
    c->seen[label / 64] |= UINT64_C(1) << label % 64;
    *l = (struct Label){.by = x, .extent = extent, .star = star};
  } else if (l->star && !star) {
    l->by = x;
    l->extent = extent;
    l->star = star;
  } else if (!star && extent != l->extent) {
    fault_set(fault,
              "sizes of one axis of a product differ: %s in %s and "
              "%s in %s",
              size_text(g, l->extent).text, node_text(g, l->by).text,
              size_text(g, extent).text, node_text(g, x).text);
    return size_demand(g, SIZE_EQ, l->extent, extent, fault);
  }
  return true;
}

static bool see_args(Graph *g, Contraction *c, Fault *fault) {
  Dtype t = c->args[0]->dtype;
  for (uint32_t k = 0; k < c->count; k++) {
    const Node *x = c->args[k];
    if (x->dtype != t || t == DT_BOOL) {
      fault_set(fault,
                "element types of a product must be one type of "
                "number, not %s and %s",
                dtype_info[t].name, dtype_info[x->dtype].name);
      return false;
    }
    for (uint32_t axis = 0; axis < x->rank; axis++)
      if (!see_label(g, c, x, axis, c->labels[k][axis], fault))
        return false;
  }
  return true;
}

static bool contraction_form(Contraction *c, Form *form, uint32_t out_rank,
                             const uint8_t *out, Fault *fault) {
  for (uint32_t k = 0; k < out_rank; k++) {
    struct Label *l = &c->label[out[k]];
    bool seen = is_seen(c, out[k]);
    if (!seen || l->own) {
      fault_set(fault, seen ? "an axis is named twice in the result"
                            : "an axis of the result is in no argument");
      return false;
    }
    l->own = (uint8_t)(k + 1);
    form->own[k] = l->extent;
    form->stars |= (uint32_t)l->star << k;
  }
  form->rank = out_rank;
  for (uint32_t k = 0; k < c->count; k++)
    for (uint32_t axis = 0; axis < c->args[k]->rank; axis++) {
      struct Label *l = &c->label[c->labels[k][axis]];
      if (l->own || l->reduced)
        continue;
      if (form->reduce_count == RANK_MAX) {
        fault_set(fault, "more than %d axes", RANK_MAX);
        return false;
      }
      form->reduced[form->reduce_count] = l->extent;
      l->reduced = (uint8_t)++form->reduce_count;
    }
  form->reduce = form->reduce_count ? PRIM_SUM : PRIM_NONE;
  return form_free(form, c->count, c->args, fault);
}

/* An argument at the axes that its labels stand for. */
static uint32_t read_labelled(Body *b, const Contraction *c, uint32_t k) {
  Node *x = c->args[k];
  uint32_t own[RANK_MAX];
  for (uint32_t axis = 0; axis < x->rank; axis++) {
    const struct Label *l = &c->label[c->labels[k][axis]];
    if (node_is_star(x, axis) && !l->star)
      own[axis] = body_int(b, 0);
    else
      own[axis] =
          l->own ? body_own(b, l->own - 1u) : body_reduced(b, l->reduced - 1u);
  }
  return body_read(b, x, own);
}

/* ---- a part of the factors first ---- */

/* Bit: of the axis of the form; they are numbered: own, reduced, free. */
static uint64_t arg_depends(const Contraction *c, const Form *form,
                            const Node *x, const uint8_t *labels) {
  uint64_t depends = 0;
  uint32_t named = form->rank + form->reduce_count;
  for (uint32_t axis = 0; axis < x->rank; axis++) {
    const struct Label *l = &c->label[labels[axis]];
    if (!node_is_star(x, axis) || l->star)
      depends |= UINT64_C(1)
                 << (l->own ? l->own - 1u : form->rank + l->reduced - 1u);
  }
  for (uint32_t j = 0; j < x->free_count; j++)
    depends |= UINT64_C(1) << (named + form_axis_of(form, x->free[j]));
  return depends;
}

static bool choose_split(const Graph *g, const Contraction *c, const Form *form,
                         Split *split) {
  double extents[3 * RANK_MAX];
  uint64_t depends[TERMS_MOST];
  uint32_t named = form->rank + form->reduce_count;
  if (c->count > TERMS_MOST || named + form->free_count > 64)
    return false;
  for (uint32_t k = 0; k < form->rank; k++)
    extents[k] = factor_extent(g, form->own[k]);
  for (uint32_t k = 0; k < form->reduce_count; k++)
    extents[form->rank + k] = factor_extent(g, form->reduced[k]);
  for (uint32_t k = 0; k < form->free_count; k++)
    extents[named + k] = factor_extent(g, form->free[k]->extent);
  for (uint32_t k = 0; k < c->count; k++)
    depends[k] = arg_depends(c, form, c->args[k], c->labels[k]);
  uint64_t summed = ((UINT64_C(1) << form->reduce_count) - 1) << form->rank;
  Factors f = {c->count, named + form->free_count, extents, depends, summed};
  return factors_split(&f, split);
}

static bool contains(uint32_t count, const uint8_t *labels, uint8_t label) {
  for (uint32_t k = 0; k < count; k++)
    if (labels[k] == label)
      return true;
  return false;
}

/* The labels of a product of some factors, but for those that are summed. */
static uint32_t part_labels(const Contraction *c, const Form *form,
                            const Split *split, uint8_t *labels) {
  uint32_t count = 0;
  for (uint32_t k = 0; k < c->count; k++)
    for (uint32_t axis = 0; split->factors >> k & 1 && axis < c->args[k]->rank;
         axis++) {
      uint8_t label = c->labels[k][axis];
      const struct Label *l = &c->label[label];
      bool summed =
          l->reduced && split->summed >> (form->rank + l->reduced - 1u) & 1;
      if (!summed && !contains(count, labels, label))
        labels[count++] = label;
    }
  return count;
}

static Node *contract_part(Graph *g, const Contraction *c, const Form *form,
                           const Split *split, uint32_t out_rank,
                           const uint8_t *out, Fault *fault) {
  Node *args[TERMS_MOST];
  const uint8_t *labels[TERMS_MOST];
  uint8_t made[TERMS_MOST * RANK_MAX];
  uint32_t count = 0, rest = 0, rank = part_labels(c, form, split, made);
  for (uint32_t k = 0; k < c->count; k++)
    if (split->factors >> k & 1) {
      args[count] = c->args[k];
      labels[count++] = c->labels[k];
    }
  Node *part = node_einsum(g, count, args, labels, rank, made, fault);
  if (!part)
    return NULL;
  for (uint32_t k = 0; k < c->count; k++)
    if (!(split->factors >> k & 1)) {
      args[rest] = c->args[k];
      labels[rest++] = c->labels[k];
    }
  args[rest] = part;
  labels[rest++] = made;
  Node *n = node_einsum(g, rest, args, labels, out_rank, out, fault);
  node_release(part);
  return n;
}

static Node *contract(Graph *g, Contraction *c, uint32_t out_rank,
                      const uint8_t *out, Fault *fault) {
  Form form = {.dtype = c->args[0]->dtype};
  if (!see_args(g, c, fault) ||
      !contraction_form(c, &form, out_rank, out, fault))
    return NULL;
  bool narrow = form.dtype == DT_F16 || form.dtype == DT_BF16;
  Dtype t = narrow && form.reduce_count ? DT_F32 : form.dtype;
  Split split;
  if (!narrow && form.reduce_count && choose_split(g, c, &form, &split))
    return contract_part(g, c, &form, &split, out_rank, out, fault);
  Body b;
  body_init(&b, g, &form);
  uint32_t product = 0;
  for (uint32_t k = 0; k < c->count; k++) {
    uint32_t x = body_convert(&b, read_labelled(&b, c, k), t);
    product = k ? body_op2(&b, PRIM_MUL, t, product, x) : x;
  }
  return body_node(&b, g, fault);
}

Node *node_einsum(Graph *g, uint32_t count, Node *const *args,
                  const uint8_t *const *labels, uint32_t out_rank,
                  const uint8_t *out, Fault *fault) {
  if (count == 0 || out_rank > RANK_MAX) {
    fault_set(fault, count ? "more than %d axes" : "einsum of nothing",
              RANK_MAX);
    return NULL;
  }
  Contraction c; /* its table is large */
  c.count = count;
  c.args = args;
  c.labels = labels;
  memset(c.seen, 0, sizeof c.seen);
  return contract(g, &c, out_rank, out, fault);
}

/* ---- @, dot, outer ---- */

static bool matmul_fits(Graph *g, const Node *a, const Node *b, Fault *fault) {
  if (a->rank < 2 || b->rank < 2) {
    fault_set(fault,
              "a matrix product wants two axes or more on both sides, "
              "not %s @ %s",
              node_text(g, a).text, node_text(g, b).text);
    fault_help(fault, "dot is the product with a vector");
    return false;
  }
  int64_t k = node_own(a)[a->rank - 1], l = node_own(b)[b->rank - 2];
  if (k == l)
    return true;
  fault_set(fault,
            "inner dimensions of a matrix product differ: %s and %s "
            "(%s @ %s)",
            size_text(g, k).text, size_text(g, l).text, node_text(g, a).text,
            node_text(g, b).text);
  fault->kind = FAULT_INNER;
  return size_demand(g, SIZE_EQ, k, l, fault);
}

/* Labels of @: the axes in front count from the right, then n, k, m. */
enum { MATMUL_N = RANK_MAX, MATMUL_K, MATMUL_M };

static void front_labels(uint32_t front, uint8_t *labels) {
  for (uint32_t k = 0; k < front; k++)
    labels[k] = (uint8_t)(front - 1 - k);
}

static bool fronts_join(Graph *g, const Node *a, const Node *b, Fault *fault) {
  uint32_t fa = a->rank - 2, fb = b->rank - 2;
  for (uint32_t k = 1; k <= fa && k <= fb; k++) {
    int64_t x = node_own(a)[fa - k], y = node_own(b)[fb - k];
    if (x == y || node_is_star(a, fa - k) || node_is_star(b, fb - k))
      continue;
    fault_set(fault,
              "axes in front of a matrix product do not broadcast: "
              "%s meets %s (%s @ %s)",
              size_text(g, x).text, size_text(g, y).text, node_text(g, a).text,
              node_text(g, b).text);
    fault->kind = FAULT_BROADCAST;
    if (!size_demand(g, SIZE_EQ, x, y, fault))
      return false;
  }
  return true;
}

Node *node_matmul(Graph *g, Node *a, Node *b, Fault *fault) {
  if (!matmul_fits(g, a, b, fault) || !fronts_join(g, a, b, fault))
    return NULL;
  uint8_t la[RANK_MAX], lb[RANK_MAX], out[RANK_MAX];
  uint32_t fa = a->rank - 2, fb = b->rank - 2, front = fa > fb ? fa : fb;
  front_labels(fa, la);
  la[fa] = MATMUL_N, la[fa + 1] = MATMUL_K;
  front_labels(fb, lb);
  lb[fb] = MATMUL_K, lb[fb + 1] = MATMUL_M;
  front_labels(front, out);
  out[front] = MATMUL_N, out[front + 1] = MATMUL_M;
  return node_einsum(g, 2, (Node *[]){a, b}, (const uint8_t *[]){la, lb},
                     front + 2, out, fault);
}

Node *node_dot(Graph *g, Node *a, Node *b, Fault *fault) {
  if (a->rank < 1 || b->rank != 1) {
    fault_set(fault, "dot wants a vector on the right, not dot %s %s",
              node_text(g, a).text, node_text(g, b).text);
    return NULL;
  }
  int64_t k = node_own(a)[a->rank - 1], l = node_own(b)[0];
  if (k != l) {
    fault_set(fault,
              "inner dimensions of a dot product differ: %s and "
              "%s (dot %s %s)",
              size_text(g, k).text, size_text(g, l).text, node_text(g, a).text,
              node_text(g, b).text);
    fault->kind = FAULT_INNER;
    if (!size_demand(g, SIZE_EQ, k, l, fault))
      return NULL;
  }
  uint8_t la[RANK_MAX], lb[1] = {(uint8_t)(a->rank - 1)};
  for (uint32_t axis = 0; axis < a->rank; axis++)
    la[axis] = (uint8_t)axis;
  return node_einsum(g, 2, (Node *[]){a, b}, (const uint8_t *[]){la, lb},
                     a->rank - 1, la, fault);
}

Node *node_outer(Graph *g, Node *a, Node *b, Fault *fault) {
  if (a->rank != 1 || b->rank != 1) {
    fault_set(fault, "outer wants two vectors, not %s and %s",
              node_text(g, a).text, node_text(g, b).text);
    return NULL;
  }
  static const uint8_t la[1] = {0}, lb[1] = {1}, out[2] = {0, 1};
  return node_einsum(g, 2, (Node *[]){a, b}, (const uint8_t *[]){la, lb}, 2,
                     out, fault);
}
