/* The body of a node, with the views and indices that it reads substituted.
 *
 * A *view* moves elements: its body is a read whose indices are sums and
 * multiples of axes.  A node of integers that reads no data is an *index*. */
#include "onnx/emit.h"
#include "plan/execute.h"
#include "session/state.h"

#include <string.h>

enum { MAX_SUBSTITUTIONS = 400 };

/* ---- kinds of nodes ---- */

static const BodyOp *body_root(const Node *n) {
  return &n->body_ops[n->body_op_count - 1];
}

static bool has_plain_body(const Node *n) {
  return n->kind == NODE_COMP && !n->data && n->reduce == PRIM_NONE &&
         n->body_op_count > 0;
}

static bool is_index(const Node *n) {
  if (!has_plain_body(n) || dtype_is_float(n->dtype))
    return false;
  for (uint32_t k = 0; k < n->body_op_count; k++) {
    const BodyOp *c = &n->body_ops[k];
    if (c->kind == BODY_RANDOM || (c->kind == BODY_READ && !is_index(c->node)))
      return false;
  }
  return true;
}

/* Operations of indices that keep a view cheap to substitute. */
static bool is_simple_index(const BodyOp *c) {
  return c->kind == BODY_CONST || c->kind == BODY_EXTENT ||
         c->kind == BODY_AXIS || (c->kind == BODY_READ && is_index(c->node)) ||
         (c->kind == BODY_OP && (c->op == PRIM_ADD || c->op == PRIM_SUB ||
                                 c->op == PRIM_MUL || c->op == PRIM_NEG));
}

static bool is_view(const Node *n) {
  if (!has_plain_body(n) || body_root(n)->kind != BODY_READ)
    return false;
  for (uint32_t k = 0; k + 1 < n->body_op_count; k++)
    if (!is_simple_index(&n->body_ops[k]))
      return false;
  return true;
}

static bool is_product(const Node *n) {
  return has_plain_body(n) && body_root(n)->kind == BODY_OP &&
         body_root(n)->op == PRIM_MUL;
}

static bool is_constant_body(const Node *n) {
  return has_plain_body(n) && n->body_op_count == 1 &&
         body_root(n)->kind == BODY_CONST;
}

/* A view of a constant that has more elements than the constant. */
static bool expands_constant(const Node *n) {
  return is_view(n) &&
         node_element_count(n) > node_element_count(body_root(n)->node);
}

/* Computes a node that depends on no argument.  It becomes a constant. */
Node *settled_node(Exporter *x, Node *n) {
  if (n->symbolic || n->data || n->kind == NODE_ARG)
    return n;
  Span where = n->span;
  Fault fault = {0};
  VEC_PUSH(x->arena, x->nodes, node_retain(n));
  if (graph_force(eval_graph(x->session->eval), 1, &n, &where, &fault))
    return n;
  x->span = where;
  export_fail(x, NULL, "%s", fault.message);
}

/* ---- building ---- */

typedef struct Builder {
  Exporter *x;
  const Node *node;
  Formula *const *axes; /* what the axes of the node stand for */
  Formula **done;       /* one for each op */
  bool splits_product;
  uint32_t depth;
} Builder;

static Formula *build(Exporter *x, const Node *n, Formula *const *axes,
                      bool splits_product, uint32_t depth);

static Formula *new_formula(Exporter *x, const BodyOp *c) {
  Formula *f = MAKE(x->arena, Formula);
  f->kind = c->kind;
  f->dtype = c->dtype;
  f->op = c->op;
  f->span = c->span;
  return f;
}

static bool is_positive(const Dim *d) {
  int64_t n;
  return !dim_is_int(d, &n) || n > 0;
}

static const struct {
  PrimId op;
  bool divides;
  Dim *(*make)(DimCtx *cx, Dim *l, Dim *r);
} dim_ops[] = {
    {PRIM_ADD, false, dim_add},     {PRIM_SUB, false, dim_sub},
    {PRIM_MUL, false, dim_mul},     {PRIM_DIV, true, dim_div},
    {PRIM_MOD, true, dim_mod},      {PRIM_MINIMUM, false, dim_min},
    {PRIM_MAXIMUM, false, dim_max},
};

/* The polynomial of an operation on polynomials, or NULL. */
static Dim *op_dim(const Builder *b, PrimId op, Formula *const *args,
                   uint32_t count) {
  DimCtx *cx = b->x->dims;
  Dim *l = args[0]->dim, *r = count > 1 ? args[1]->dim : l;
  if (!l || !r || args[0]->dtype != DT_I64)
    return NULL;
  if (op == PRIM_NEG)
    return dim_neg(cx, l);
  for (size_t k = 0; k < ARRAY_LEN(dim_ops); k++)
    if (dim_ops[k].op == op)
      return dim_ops[k].divides && !is_positive(r) ? NULL
                                                   : dim_ops[k].make(cx, l, r);
  return NULL;
}

/* A node whose elements the formula reads. */
static Formula *read_of(Exporter *x, const BodyOp *c, Node *n, Formula **args) {
  Formula *f = new_formula(x, c);
  f->node = settled_node(x, n);
  f->args = args;
  f->arg_count = n->free_count + n->rank;
  if (f->node->data && f->node->data->count == 1) {
    f->kind = BODY_CONST;
    f->value = scalar_load(f->node->dtype, f->node->data->data);
    f->arg_count = 0;
    if (f->dtype == DT_I64)
      f->dim = dim_int(x->dims, f->value.i);
  }
  return f;
}

static Formula *build_read(const Builder *b, const BodyOp *c, Formula **args,
                           bool splits) {
  Node *n = c->node;
  bool is_constant = !n->symbolic && !is_index(n) && !expands_constant(n) &&
                     !is_constant_body(n);
  bool substitutes = !is_constant && b->depth < MAX_SUBSTITUTIONS &&
                     (is_index(n) || is_view(n) || is_constant_body(n) ||
                      (splits && is_product(n)));
  if (substitutes)
    return build(b->x, n, args, splits, b->depth + 1);
  return read_of(b->x, c, n, args);
}

static Formula *build_op(Builder *b, uint32_t k, bool splits) {
  const BodyOp *c = &b->node->body_ops[k];
  if (b->done[k])
    return b->done[k];
  if (c->kind == BODY_AXIS)
    return b->done[k] = b->axes[c->axis];
  Formula **args = MAKE_ARRAY(b->x->arena, Formula *, c->arg_count + 1);
  for (uint32_t i = 0; i < c->arg_count; i++)
    args[i] = build_op(b, c->args[i],
                       splits && c->kind == BODY_OP && c->op == PRIM_MUL);
  if (c->kind == BODY_READ)
    return b->done[k] = build_read(b, c, args, splits);
  Formula *f = new_formula(b->x, c);
  f->args = args;
  f->arg_count = c->arg_count;
  if (c->kind == BODY_RANDOM) {
    b->x->span = c->span;
    export_fail(b->x, "make the random numbers an argument",
                "`%s` of an argument's size is no operation of ONNX",
                prim_info[c->op].name);
  }
  if (c->kind == BODY_CONST)
    f->value = c->value;
  if (c->kind == BODY_CONST && c->dtype == DT_I64)
    f->dim = dim_int(b->x->dims, c->value.i);
  else if (c->kind == BODY_EXTENT)
    f->dim = extent_dim(b->x->graph, c->extent);
  else if (c->kind == BODY_OP && c->dtype == DT_I64)
    f->dim = op_dim(b, c->op, args, c->arg_count);
  return b->done[k] = f;
}

static Formula *build(Exporter *x, const Node *n, Formula *const *axes,
                      bool splits_product, uint32_t depth) {
  Builder b = {.x = x, .node = n, .axes = axes, .depth = depth};
  b.done = MAKE_ARRAY(x->arena, Formula *, n->body_op_count);
  return build_op(&b, n->body_op_count - 1, splits_product);
}

static Formula *axis_formula(Exporter *x, uint32_t k) {
  Formula *f = MAKE(x->arena, Formula);
  f->kind = BODY_AXIS;
  f->dtype = DT_I64;
  f->dim = dim_of_var(x->dims, x->axis_vars[k]);
  return f;
}

static Formula **axis_formulas(Exporter *x, uint32_t count) {
  Formula **axes = MAKE_ARRAY(x->arena, Formula *, count + 1);
  for (uint32_t k = 0; k < count; k++)
    axes[k] = axis_formula(x, k);
  return axes;
}

Formula *node_formula(Exporter *x, const Node *n, bool splits_product) {
  uint32_t count = n->free_count + n->rank + n->reduce_count;
  return build(x, n, axis_formulas(x, count), splits_product, 0);
}

Formula *input_formula(Exporter *x, Node *n) {
  BodyOp read = {.kind = BODY_READ, .dtype = n->dtype, .span = n->span};
  read.node = n;
  return read_of(x, &read, n, axis_formulas(x, n->free_count + n->rank));
}

/* Each operation of the loop, over values that are known. */
Formula **fold_formulas(Exporter *x, const Node *n, const Labeled *inputs) {
  Formula **axes = MAKE_ARRAY(x->arena, Formula *, n->input_count + 1);
  for (uint32_t k = 0; k < n->input_count; k++) {
    axes[k] = MAKE(x->arena, Formula);
    axes[k]->kind = BODY_AXIS;
    axes[k]->dtype = n->inputs[k]->dtype;
    axes[k]->has_result = true;
    axes[k]->result = inputs[k];
  }
  Builder b = {.x = x, .node = n, .axes = axes};
  b.done = MAKE_ARRAY(x->arena, Formula *, n->body_op_count);
  for (uint32_t k = 0; k < n->body_op_count; k++)
    build_op(&b, k, false);
  return b.done;
}
