/* Nodes of the discrete Fourier transforms.  They are opaque nodes:
 *
 *   DFT               inputs re, im   params first axis, number of axes,
 *                                     is inverse; output 2 before the axes
 *   REAL_DFT          input x         params axis; output 2 before the axes
 *   INVERSE_REAL_DFT  inputs re, im   params axis, number of points
 *
 * An output with a leading axis of 2 has the real part, then the imaginary
 * part.  No transform is scaled. */
#include "tensor/internal.h"

#include <string.h>

/* False, with a fault, unless all inputs have the shape of the first one. */
static bool inputs_agree(Graph *g, PrimId op, uint32_t count,
                         Node *const *inputs, Fault *fault) {
  const Node *x = inputs[0];
  for (uint32_t k = 0; k < count; k++) {
    bool fits = inputs[k]->dtype == x->dtype && inputs[k]->rank == x->rank;
    if (!fits || (x->dtype != DT_F32 && x->dtype != DT_F64)) {
      fault_set(fault, "internal error: %s of %s and %s", prim_info[op].name,
                node_type_text(g, x).text, node_type_text(g, inputs[k]).text);
      return false;
    }
    for (uint32_t j = 0; j < x->rank; j++) {
      int64_t a = node_own_extents(x)[j], b = node_own_extents(inputs[k])[j];
      if (a == b)
        continue;
      fault_set(fault, "%s needs parts of equal shape; found %s and %s",
                prim_info[op].name, node_type_text(g, x).text,
                node_type_text(g, inputs[k]).text);
      if (!extent_require(g, EXTENT_EQ, a, b, fault))
        return false;
    }
  }
  return true;
}

/* The number of elements in the transform of n real elements. */
static bool half_length(Graph *g, int64_t n, int64_t *out, Fault *fault) {
  if (extent_floor_div(g, n, 2, out) && extent_add(g, *out, 1, out))
    return true;
  fault_set(fault, "a size does not fit into 64 bits");
  return false;
}

static bool set_inverse_length(Graph *g, NodeSpec *spec, const Node *x,
                               uint32_t axis, int64_t n, Fault *fault) {
  int64_t half, length = node_own_extents(x)[axis];
  if (!extent_holds_trivially(g, EXTENT_LE, 0, n)) {
    fault_set(fault, "a size cannot be negative; found %s",
              extent_text(g, n).text);
    if (!extent_require(g, EXTENT_LE, 0, n, fault))
      return false;
  }
  if (!half_length(g, n, &half, fault))
    return false;
  if (!extent_holds_trivially(g, EXTENT_EQ, half, length)) {
    fault_set(fault,
              "inverse_real_dft of %s to %s elements needs %s along "
              "this axis",
              node_type_text(g, x).text, extent_text(g, n).text,
              extent_text(g, half).text);
    if (!extent_require(g, EXTENT_EQ, half, length, fault))
      return false;
  }
  spec->own_extents[axis] = n;
  return true;
}

/* Adds the leading axis of two parts. */
static bool add_parts(NodeSpec *spec, Fault *fault) {
  if (spec->rank == MAX_RANK) {
    fault_set(fault, "more than %d axes and indices together", MAX_RANK);
    return false;
  }
  memmove(spec->own_extents + 1, spec->own_extents,
          spec->rank * sizeof spec->own_extents[0]);
  spec->own_extents[0] = 2;
  spec->rank++;
  spec->broadcast_mask <<= 1;
  return true;
}

bool fourier_spec(Graph *g, NodeSpec *spec, PrimId op, uint32_t count,
                  Node *const *inputs, const int64_t params[4], Fault *fault) {
  const Node *x = inputs[0];
  uint32_t first = (uint32_t)params[0];
  uint32_t axes = op == PRIM_DFT ? (uint32_t)params[1] : 1;
  if (!inputs_agree(g, op, count, inputs, fault))
    return false;
  for (uint32_t k = first; k < first + axes; k++)
    if (!node_axis_sized(g, x, k, prim_info[op].name, fault))
      return false;
  *spec = node_spec_like(x);
  spec->free_count = 0;
  for (uint32_t k = 1; k < count; k++)
    spec->broadcast_mask &= inputs[k]->broadcast_mask;
  if (op == PRIM_INVERSE_REAL_DFT)
    return set_inverse_length(g, spec, x, first, params[1], fault);
  if (op == PRIM_REAL_DFT && !half_length(g, node_own_extents(x)[first],
                                          &spec->own_extents[first], fault))
    return false;
  return add_parts(spec, fault);
}

/* x, repeated along the free indices of all inputs.  Then every slice has its
 * own inputs, as library operations require. */
static Node *with_free_of(Graph *g, Node *x, uint32_t count,
                          Node *const *inputs, Fault *fault) {
  NodeSpec spec = node_spec_like(x);
  if (!node_spec_add_free_of(&spec, count, inputs, fault))
    return NULL;
  if (spec.free_count == x->free_count)
    return node_retain(x);
  BodyBuilder b;
  body_init(&b, g, &spec);
  uint32_t own[MAX_RANK];
  for (uint32_t k = 0; k < x->rank; k++)
    own[k] = body_own_axis(&b, k);
  return body_finish_read(&b, g, x, own, fault);
}

Node *node_fourier(Graph *g, PrimId op, uint32_t count, Node *const *inputs,
                   const int64_t params[4], Fault *fault) {
  if (op == PRIM_DFT && !params[1]) /* of scalars: over no axis */
    return node_stack(g, count, inputs, fault);
  Node *all[2] = {NULL}, *n = NULL;
  bool complete = true;
  for (uint32_t k = 0; k < count; k++) {
    all[k] = with_free_of(g, inputs[k], count, inputs, fault);
    complete &= all[k] != NULL;
  }
  if (complete)
    n = node_opaque(g, op, count, all, params, (PrngKey){{0}}, 0, fault);
  for (uint32_t k = 0; k < count; k++)
    if (all[k])
      node_release(all[k]);
  return n;
}
