/* Adjoints of the discrete Fourier transforms (fourier.c).  With the real and
 * the imaginary part as separate arguments, each transform is a real linear
 * function:
 *
 *   DFT               its adjoint is the DFT with the other sign
 *   REAL_DFT          an element k with 0 < k < n/2 is half of what
 *                     INVERSE_REAL_DFT adds up for k and n - k
 *   INVERSE_REAL_DFT  the same the other way round: it counts twice */
#include "tensor/adjoint.h"

#include <string.h>

/* Part 0 or 1 of y; multiplied with `inner`, except at elements k = 0 and
 * 2 k = n of an axis. */
static Node *weighted_part(ReversePass *p, Node *y, int64_t part, uint32_t axis,
                           int64_t n, double inner) {
  NodeSpec spec = node_spec_like(y);
  spec.rank--;
  spec.broadcast_mask >>= 1;
  memmove(spec.own_extents, spec.own_extents + 1,
          spec.rank * sizeof spec.own_extents[0]);
  BodyBuilder b;
  body_init(&b, p->graph, &spec);
  uint32_t own[MAX_RANK];
  own[0] = body_int(&b, part);
  for (uint32_t k = 0; k < spec.rank; k++)
    own[k + 1] = body_own_axis(&b, k);
  uint32_t value = body_read(&b, y, own);
  if (inner != 1) {
    uint32_t k = own[axis + 1];
    uint32_t first = body_op2(&b, PRIM_EQ, DT_BOOL, k, body_int(&b, 0));
    uint32_t middle =
        body_op2(&b, PRIM_EQ, DT_BOOL, body_mul_int(&b, k, 2), body_int(&b, n));
    uint32_t once = body_op2(&b, PRIM_OR, DT_BOOL, first, middle);
    uint32_t weight = body_const(&b, (Scalar){y->dtype, {.f = inner}});
    body_select(&b, once, value,
                body_op2(&b, PRIM_MUL, y->dtype, value, weight));
  }
  return body_finish(&b, p->graph, p->fault);
}

/* Contributes the parts of y, which the function takes, to the inputs of n. */
static bool contribute_parts(ReversePass *p, const Node *n, Node *y,
                             int64_t length, double inner) {
  if (!reverse_own(p, y))
    return false;
  for (uint32_t k = 0; k < n->input_count; k++)
    if (reverse_depends(p, n->inputs[k]) &&
        !reverse_contribute(
            p, n->inputs[k],
            weighted_part(p, y, k, (uint32_t)n->params[0], length, inner)))
      return false;
  return true;
}

/* The transform `op` of the parts of g. */
static Node *transform_parts(ReversePass *p, PrimId op, Node *g,
                             const int64_t params[4], int64_t length,
                             double inner) {
  Node *parts[2];
  for (uint32_t k = 0; k < 2; k++) {
    parts[k] = reverse_own(
        p, weighted_part(p, g, k, (uint32_t)params[0], length, inner));
    if (!parts[k])
      return NULL;
  }
  return node_fourier(p->graph, op, 2, parts, params, p->fault);
}

bool adjoint_DFT(ReversePass *p, Node *n, Node *g) {
  int64_t params[4] = {n->params[0], n->params[1], !n->params[2]};
  return contribute_parts(p, n, transform_parts(p, PRIM_DFT, g, params, 0, 1),
                          0, 1);
}

bool adjoint_REAL_DFT(ReversePass *p, Node *n, Node *g) {
  Node *x = n->inputs[0];
  int64_t length = node_own_extents(x)[n->params[0]];
  int64_t params[4] = {n->params[0], length};
  return reverse_contribute(
      p, x, transform_parts(p, PRIM_INVERSE_REAL_DFT, g, params, length, 0.5));
}

bool adjoint_INVERSE_REAL_DFT(ReversePass *p, Node *n, Node *g) {
  return contribute_parts(p, n,
                          node_fourier(p->graph, PRIM_REAL_DFT, 1, &g,
                                       (int64_t[4]){n->params[0]}, p->fault),
                          n->params[1], 2);
}
