/* Adjoints of opaque nodes: one function per row of class OPAQUE with RULE in
 * primitives.def; those of Fourier transforms are in adjoint_fourier.c. */
#include "tensor/adjoint.h"

#include <string.h>

static Node *opaque1(ReversePass *p, PrimId op, Node *x, int64_t axis) {
  return reverse_own(p, node_opaque(p->graph, op, 1, &x, (int64_t[4]){axis},
                                    (PrngKey){0}, 0, p->fault));
}

/* x.[..., index.[...], ...]: takes along an axis; index has the axes of x. */
static Node *take_along_axis(ReversePass *p, Node *x, Node *index,
                             int64_t axis) {
  NodeSpec spec = node_spec_like(x);
  if (!node_spec_add_free_of(&spec, 1, &index, p->fault))
    return NULL;
  BodyBuilder b;
  body_init(&b, p->graph, &spec);
  uint32_t own[MAX_RANK];
  for (uint32_t k = 0; k < x->rank; k++)
    own[k] = body_own_axis(&b, k);
  own[axis] = body_read(&b, index, own);
  uint32_t value = body_read(&b, x, own);
  if (b.ops[value].kind == BODY_READ)
    b.ops[value].proved_safe = true;
  return body_finish(&b, p->graph, p->fault);
}

/* The result is x at a permutation: the adjoint is g at the inverse one. */
static bool adjoint_SORT(ReversePass *p, Node *n, Node *g) {
  int64_t axis = n->params[0];
  Node *order = opaque1(p, PRIM_ARGSORT, n->inputs[0], axis);
  Node *inverse = order ? opaque1(p, PRIM_ARGSORT, order, axis) : NULL;
  return inverse && reverse_contribute(p, n->inputs[0],
                                       take_along_axis(p, g, inverse, axis));
}

static bool adjoint_CUMSUM(ReversePass *p, Node *n, Node *g) {
  Graph *graph = p->graph;
  uint32_t axis = (uint32_t)n->params[0];
  Node *reversed = reverse_own(p, node_reverse(graph, g, axis, p->fault));
  Node *sums = reversed ? opaque1(p, PRIM_CUMSUM, reversed, axis) : NULL;
  return sums && reverse_contribute(p, n->inputs[0],
                                    node_reverse(graph, sums, axis, p->fault));
}

/* Each element gets the cotangents of the places that it was copied to. */
static bool adjoint_TOPK(ReversePass *p, Node *n, Node *g) {
  if (n->output_index != 0)
    return true;
  Node *x = n->inputs[0];
  Node *index =
      reverse_own(p, node_opaque(p->graph, PRIM_TOPK, 1, &x, n->params,
                                 (PrngKey){0}, 1, p->fault));
  NodeSpec spec = node_spec_like(x);
  if (!index || !node_spec_add_free_of(&spec, 1, &g, p->fault))
    return false;
  spec.reduce = PRIM_SUM;
  spec.reduce_count = 1;
  spec.reduced_extents[0] = n->params[0];
  BodyBuilder b;
  body_init(&b, p->graph, &spec);
  uint32_t own[MAX_RANK], last = x->rank - 1;
  for (uint32_t k = 0; k < x->rank; k++)
    own[k] = body_own_axis(&b, k);
  uint32_t column = own[last];
  own[last] = body_reduced_axis(&b, 0);
  uint32_t at = body_read(&b, index, own), value = body_read(&b, g, own);
  uint32_t same = body_op2(&b, PRIM_EQ, DT_BOOL, at, column);
  uint32_t zero = body_const(&b, (Scalar){.dtype = x->dtype});
  body_select(&b, same, value, zero);
  return reverse_contribute(p, x, body_finish(&b, p->graph, p->fault));
}

Node *reverse_sum_over(ReversePass *p, Node *contribution, uint32_t count,
                       IndexVar *const *vars) {
  if (!count || !contribution)
    return contribution;
  reverse_own(p, contribution);
  Node *closed =
      reverse_own(p, node_close(p->graph, contribution, count, vars, p->fault));
  return closed ? node_reduce(p->graph, PRIM_SUM, closed, 0, count, false,
                              p->fault)
                : NULL;
}

/* The sum of a contribution to input x of n, over the free indices of n that x
 * does not have.  Takes the contribution. */
static Node *summed_like(ReversePass *p, const Node *n, const Node *x,
                         Node *contribution) {
  IndexVar *vars[MAX_RANK];
  uint32_t count = 0;
  for (uint32_t k = 0; k < n->free_count; k++)
    if (!node_has_free(x, n->free_vars[k]) &&
        !reverse_is_enclosing(p, n->free_vars[k]) && contribution &&
        node_has_free(contribution, n->free_vars[k]))
      vars[count++] = n->free_vars[k];
  return reverse_sum_over(p, contribution, count, vars);
}

static bool adjoint_SCATTER(ReversePass *p, Node *n, Node *g) {
  Node *x = n->inputs[0], *rows = n->inputs[2];
  if (reverse_depends(p, x) &&
      !reverse_contribute(p, x, summed_like(p, n, x, node_retain(g))))
    return false;
  if (!reverse_depends(p, rows))
    return true;
  Node *taken = node_gather(p->graph, g, n->inputs[1], p->fault);
  return reverse_contribute(p, rows, summed_like(p, n, rows, taken));
}

#define RULE_OPAQUE_RULE(id) [PRIM_##id] = adjoint_##id,
#define RULE_OPAQUE_ZERO(id)
#define RULE_OPAQUE_LINEAR(id)
#define RULE_OPAQUE_CUSTOM(id)
#define RULE_MAP_PARTIALS(id)
#define RULE_MAP_LINEAR(id)
#define RULE_MAP_ZERO(id)
#define RULE_REDUCE_LINEAR(id)
#define RULE_REDUCE_RULE(id)
#define RULE_REDUCE_ZERO(id)
#define RULE_MOVE_LINEAR(id)
#define RULE_MAKE_ZERO(id)
#define RULE_CONTROL_LINEAR(id)
#define RULE_CONTROL_ZERO(id)
#define RULE_HOST_LINEAR(id)
#define RULE_HOST_ZERO(id)
static bool (*const rules[PRIM_COUNT])(ReversePass *, Node *, Node *) = {
#define P(id, name, class, flags, derivative, scheme, doc, example) \
  RULE_##class##_##derivative(id)
#include "primitives/primitives.def"
#undef P
};

bool adjoint_opaque(ReversePass *p, Node *n, Node *g) {
  if (rules[n->op])
    return rules[n->op](p, n, g);
  if (prim_info[n->op].derivative == DERIVATIVE_ZERO)
    return true;
  fault_set(p->fault, "no derivative of %s", prim_info[n->op].name);
  if (prim_info[n->op].derivative == DERIVATIVE_CUSTOM)
    fault_set_help(p->fault, "linalg.eigh has all derivatives, and "
                             "linalg.eig_vals the first one");
  return false;
}
