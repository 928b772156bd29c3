/* Contractions, sums of products over axes: @, dot, outer, einsum. */
#include "tensor/internal.h"

#include <string.h>

enum { MAX_LABELS = 256 };

typedef struct Contraction {
  uint32_t count;
  Node *const *args;
  const uint8_t *const *labels;
  /* Bit set of labels; the entries of other labels are undefined. */
  uint64_t seen_labels[MAX_LABELS / 64];
  struct Label {
    const Node *extent_source; /* the node that determined the extent */
    int64_t extent;
    bool broadcast;
    uint8_t own_position, reduced_position; /* 1 + position, or 0 */
  } label[MAX_LABELS];
} Contraction;

static bool label_is_seen(const Contraction *c, uint8_t label) {
  return c->seen_labels[label / 64] >> label % 64 & 1;
}

static bool add_label(Graph *g, Contraction *c, const Node *x, uint32_t axis,
                      uint8_t label, Fault *fault) {
  struct Label *l = &c->label[label];
  int64_t extent = node_own_extents(x)[axis];
  bool broadcast = node_is_broadcast_axis(x, axis);
  if (!label_is_seen(c, label)) {
    c->seen_labels[label / 64] |= UINT64_C(1) << label % 64;
    *l = (struct Label){
        .extent_source = x, .extent = extent, .broadcast = broadcast};
  } else if (l->broadcast && !broadcast) {
    l->extent_source = x;
    l->extent = extent;
    l->broadcast = broadcast;
  } else if (!broadcast && extent != l->extent) {
    fault_set(
        fault,
        "sizes of one axis of a contraction differ: %s in %s and %s in %s",
        extent_text(g, l->extent).text,
        node_type_text(g, l->extent_source).text, extent_text(g, extent).text,
        node_type_text(g, x).text);
    return extent_require(g, EXTENT_EQ, l->extent, extent, fault);
  }
  return true;
}

static bool add_operand_labels(Graph *g, Contraction *c, Fault *fault) {
  Dtype t = c->args[0]->dtype;
  for (uint32_t k = 0; k < c->count; k++) {
    const Node *x = c->args[k];
    if (x->dtype != t || t == DT_BOOL) {
      fault_set(fault,
                "element types of a matrix product must be equal numeric "
                "types; found %s and %s",
                dtype_info[t].name, dtype_info[x->dtype].name);
      return false;
    }
    for (uint32_t axis = 0; axis < x->rank; axis++)
      if (!add_label(g, c, x, axis, c->labels[k][axis], fault))
        return false;
  }
  return true;
}

static bool contraction_spec(Contraction *c, NodeSpec *spec, uint32_t out_rank,
                             const uint8_t *out, Fault *fault) {
  for (uint32_t k = 0; k < out_rank; k++) {
    struct Label *l = &c->label[out[k]];
    bool seen = label_is_seen(c, out[k]);
    if (!seen || l->own_position) {
      fault_set(fault,
                seen ? "the result has a duplicate axis"
                     : "an axis of the result is not an axis of an argument");
      return false;
    }
    l->own_position = (uint8_t)(k + 1);
    spec->own_extents[k] = l->extent;
    spec->broadcast_mask |= (uint32_t)l->broadcast << k;
  }
  spec->rank = out_rank;
  for (uint32_t k = 0; k < c->count; k++)
    for (uint32_t axis = 0; axis < c->args[k]->rank; axis++) {
      struct Label *l = &c->label[c->labels[k][axis]];
      if (l->own_position || l->reduced_position)
        continue;
      if (spec->reduce_count == MAX_RANK) {
        fault_set(fault, "more than %d axes", MAX_RANK);
        return false;
      }
      spec->reduced_extents[spec->reduce_count] = l->extent;
      l->reduced_position = (uint8_t)++spec->reduce_count;
    }
  spec->reduce = spec->reduce_count ? PRIM_SUM : PRIM_NONE;
  return node_spec_add_free_of(spec, c->count, c->args, fault);
}

/* Reads an operand at the axes of its labels. */
static uint32_t read_operand(BodyBuilder *b, const Contraction *c, uint32_t k) {
  Node *x = c->args[k];
  uint32_t own[MAX_RANK];
  for (uint32_t axis = 0; axis < x->rank; axis++) {
    const struct Label *l = &c->label[c->labels[k][axis]];
    if (node_is_broadcast_axis(x, axis) && !l->broadcast)
      own[axis] = body_int(b, 0);
    else
      own[axis] = l->own_position
                      ? body_own_axis(b, l->own_position - 1u)
                      : body_reduced_axis(b, l->reduced_position - 1u);
  }
  return body_read(b, x, own);
}

/* ---- contraction order: some factors first ---- */

/* A bit set of axes of the node spec, numbered: own, reduced, free. */
static uint64_t operand_axes(const Contraction *c, const NodeSpec *spec,
                             const Node *x, const uint8_t *labels) {
  uint64_t axes = 0;
  uint32_t bound_axes = spec->rank + spec->reduce_count;
  for (uint32_t axis = 0; axis < x->rank; axis++) {
    const struct Label *l = &c->label[labels[axis]];
    if (!node_is_broadcast_axis(x, axis) || l->broadcast)
      axes |= UINT64_C(1) << (l->own_position
                                  ? l->own_position - 1u
                                  : spec->rank + l->reduced_position - 1u);
  }
  for (uint32_t j = 0; j < x->free_count; j++)
    axes |= UINT64_C(1) << (bound_axes +
                            node_spec_free_axis(spec, x->free_vars[j]));
  return axes;
}

static bool choose_contraction_step(const Graph *g, const Contraction *c,
                                    const NodeSpec *spec,
                                    ContractionStep *step) {
  double extents[3 * MAX_RANK];
  uint64_t axes[MAX_CONTRACTION_OPERANDS];
  uint32_t bound_axes = spec->rank + spec->reduce_count;
  if (c->count > MAX_CONTRACTION_OPERANDS || bound_axes + spec->free_count > 64)
    return false;
  for (uint32_t k = 0; k < spec->rank; k++)
    extents[k] = contraction_order_extent(g, spec->own_extents[k]);
  for (uint32_t k = 0; k < spec->reduce_count; k++)
    extents[spec->rank + k] =
        contraction_order_extent(g, spec->reduced_extents[k]);
  for (uint32_t k = 0; k < spec->free_count; k++)
    extents[bound_axes + k] =
        contraction_order_extent(g, spec->free_vars[k]->extent);
  for (uint32_t k = 0; k < c->count; k++)
    axes[k] = operand_axes(c, spec, c->args[k], c->labels[k]);
  uint64_t summed = ((UINT64_C(1) << spec->reduce_count) - 1) << spec->rank;
  ContractionOperands f = {c->count, bound_axes + spec->free_count, extents,
                           axes, summed};
  return contraction_order_step(&f, step);
}

static bool contains(uint32_t count, const uint8_t *labels, uint8_t label) {
  for (uint32_t k = 0; k < count; k++)
    if (labels[k] == label)
      return true;
  return false;
}

/* The labels of a product of some factors, without the labels that are
 * summed. */
static uint32_t intermediate_labels(const Contraction *c, const NodeSpec *spec,
                                    const ContractionStep *step,
                                    uint8_t *labels) {
  uint32_t count = 0;
  for (uint32_t k = 0; k < c->count; k++)
    for (uint32_t axis = 0; step->operands >> k & 1 && axis < c->args[k]->rank;
         axis++) {
      uint8_t label = c->labels[k][axis];
      const struct Label *l = &c->label[label];
      bool summed =
          l->reduced_position &&
          step->summed_axes >> (spec->rank + l->reduced_position - 1u) & 1;
      if (!summed && !contains(count, labels, label))
        labels[count++] = label;
    }
  return count;
}

static Node *contract_step(Graph *g, const Contraction *c, const NodeSpec *spec,
                           const ContractionStep *step, uint32_t out_rank,
                           const uint8_t *out, Fault *fault) {
  Node *args[MAX_CONTRACTION_OPERANDS];
  const uint8_t *labels[MAX_CONTRACTION_OPERANDS];
  uint8_t intermediate[MAX_CONTRACTION_OPERANDS * MAX_RANK];
  uint32_t count = 0, rest = 0,
           rank = intermediate_labels(c, spec, step, intermediate);
  for (uint32_t k = 0; k < c->count; k++)
    if (step->operands >> k & 1) {
      args[count] = c->args[k];
      labels[count++] = c->labels[k];
    }
  Node *part = node_einsum(g, count, args, labels, rank, intermediate, fault);
  if (!part)
    return NULL;
  for (uint32_t k = 0; k < c->count; k++)
    if (!(step->operands >> k & 1)) {
      args[rest] = c->args[k];
      labels[rest++] = c->labels[k];
    }
  args[rest] = part;
  labels[rest++] = intermediate;
  Node *n = node_einsum(g, rest, args, labels, out_rank, out, fault);
  node_release(part);
  return n;
}

static Node *contract(Graph *g, Contraction *c, uint32_t out_rank,
                      const uint8_t *out, Fault *fault) {
  NodeSpec spec = {.dtype = c->args[0]->dtype};
  if (!add_operand_labels(g, c, fault) ||
      !contraction_spec(c, &spec, out_rank, out, fault))
    return NULL;
  bool is_half = dtype_is_narrow_float(spec.dtype);
  Dtype t = is_half && spec.reduce_count ? DT_F32 : spec.dtype;
  ContractionStep step;
  if (!is_half && spec.reduce_count &&
      choose_contraction_step(g, c, &spec, &step))
    return contract_step(g, c, &spec, &step, out_rank, out, fault);
  BodyBuilder b;
  body_init(&b, g, &spec);
  uint32_t product = 0;
  for (uint32_t k = 0; k < c->count; k++) {
    uint32_t x = body_convert(&b, read_operand(&b, c, k), t);
    product = k ? body_op2(&b, PRIM_MUL, t, product, x) : x;
  }
  return body_finish(&b, g, fault);
}

Node *node_einsum(Graph *g, uint32_t count, Node *const *args,
                  const uint8_t *const *labels, uint32_t out_rank,
                  const uint8_t *out, Fault *fault) {
  if (count == 0 || out_rank > MAX_RANK) {
    fault_set(fault,
              count ? "more than %d axes" : "einsum needs at least one tensor",
              MAX_RANK);
    return NULL;
  }
  Contraction c; /* allocated here, since its table is large */
  c.count = count;
  c.args = args;
  c.labels = labels;
  memset(c.seen_labels, 0, sizeof c.seen_labels);
  return contract(g, &c, out_rank, out, fault);
}

/* ---- @, dot, outer ---- */

static bool check_matmul(Graph *g, const Node *a, const Node *b, Fault *fault) {
  if (a->rank < 2 || b->rank < 2) {
    fault_set(
        fault,
        "a matrix product needs 2 or more axes on both sides; found %s @ %s",
        node_type_text(g, a).text, node_type_text(g, b).text);
    fault_set_help(fault, "for a product with a vector, use dot");
    return false;
  }
  int64_t k = node_own_extents(a)[a->rank - 1],
          l = node_own_extents(b)[b->rank - 2];
  if (k == l)
    return true;
  fault_set(fault,
            "inner dimensions of a matrix product differ: %s and %s "
            "(%s @ %s)",
            extent_text(g, k).text, extent_text(g, l).text,
            node_type_text(g, a).text, node_type_text(g, b).text);
  fault->kind = FAULT_INNER_SIZE;
  return extent_require(g, EXTENT_EQ, k, l, fault);
}

/* Labels of @: batch axes count from the right; then n, k, m. */
enum { MATMUL_N = MAX_RANK, MATMUL_K, MATMUL_M };

static void batch_labels(uint32_t batch_rank, uint8_t *labels) {
  for (uint32_t k = 0; k < batch_rank; k++)
    labels[k] = (uint8_t)(batch_rank - 1 - k);
}

static bool check_batch_axes(Graph *g, const Node *a, const Node *b,
                             Fault *fault) {
  uint32_t batch_rank_a = a->rank - 2, batch_rank_b = b->rank - 2;
  for (uint32_t k = 1; k <= batch_rank_a && k <= batch_rank_b; k++) {
    int64_t x = node_own_extents(a)[batch_rank_a - k],
            y = node_own_extents(b)[batch_rank_b - k];
    if (x == y || node_is_broadcast_axis(a, batch_rank_a - k) ||
        node_is_broadcast_axis(b, batch_rank_b - k))
      continue;
    fault_set(fault,
              "batch axes of a matrix product do not broadcast: %s and %s "
              "differ (%s @ %s)",
              extent_text(g, x).text, extent_text(g, y).text,
              node_type_text(g, a).text, node_type_text(g, b).text);
    fault->kind = FAULT_BROADCAST;
    if (!extent_require(g, EXTENT_EQ, x, y, fault))
      return false;
  }
  return true;
}

Node *node_matmul(Graph *g, Node *a, Node *b, Fault *fault) {
  if (!check_matmul(g, a, b, fault) || !check_batch_axes(g, a, b, fault))
    return NULL;
  uint8_t labels_a[MAX_RANK], labels_b[MAX_RANK], out[MAX_RANK];
  uint32_t batch_rank_a = a->rank - 2, batch_rank_b = b->rank - 2,
           batch_rank =
               batch_rank_a > batch_rank_b ? batch_rank_a : batch_rank_b;
  batch_labels(batch_rank_a, labels_a);
  labels_a[batch_rank_a] = MATMUL_N, labels_a[batch_rank_a + 1] = MATMUL_K;
  batch_labels(batch_rank_b, labels_b);
  labels_b[batch_rank_b] = MATMUL_K, labels_b[batch_rank_b + 1] = MATMUL_M;
  batch_labels(batch_rank, out);
  out[batch_rank] = MATMUL_N, out[batch_rank + 1] = MATMUL_M;
  return node_einsum(g, 2, (Node *[]){a, b},
                     (const uint8_t *[]){labels_a, labels_b}, batch_rank + 2,
                     out, fault);
}

Node *node_dot(Graph *g, Node *a, Node *b, Fault *fault) {
  if (a->rank < 1 || b->rank != 1) {
    fault_set(fault, "dot needs a vector on the right; found dot %s %s",
              node_type_text(g, a).text, node_type_text(g, b).text);
    return NULL;
  }
  int64_t k = node_own_extents(a)[a->rank - 1], l = node_own_extents(b)[0];
  if (k != l) {
    fault_set(fault,
              "inner dimensions of a dot product differ: %s and "
              "%s (dot %s %s)",
              extent_text(g, k).text, extent_text(g, l).text,
              node_type_text(g, a).text, node_type_text(g, b).text);
    fault->kind = FAULT_INNER_SIZE;
    if (!extent_require(g, EXTENT_EQ, k, l, fault))
      return NULL;
  }
  uint8_t labels_a[MAX_RANK], labels_b[1] = {(uint8_t)(a->rank - 1)};
  for (uint32_t axis = 0; axis < a->rank; axis++)
    labels_a[axis] = (uint8_t)axis;
  return node_einsum(g, 2, (Node *[]){a, b},
                     (const uint8_t *[]){labels_a, labels_b}, a->rank - 1,
                     labels_a, fault);
}

Node *node_outer(Graph *g, Node *a, Node *b, Fault *fault) {
  if (a->rank != 1 || b->rank != 1) {
    fault_set(fault, "outer needs two vectors; found %s and %s",
              node_type_text(g, a).text, node_type_text(g, b).text);
    return NULL;
  }
  static const uint8_t labels_a[1] = {0}, labels_b[1] = {1}, out[2] = {0, 1};
  return node_einsum(g, 2, (Node *[]){a, b},
                     (const uint8_t *[]){labels_a, labels_b}, 2, out, fault);
}
