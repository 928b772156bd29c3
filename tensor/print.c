/* Prints the graph as text, and verifies it. */
#include "tensor/internal.h"
#include "support/arena.h"
#include "support/buffer.h"
#include "support/map.h"
#include "support/trap.h"
#include "support/vec.h"

/* ---- traversal: operands before consumers ---- */

typedef struct GraphWalk {
  const Graph *g;
  Arena *arena;
  Map seen;
  VEC(const Node *) order;
} GraphWalk;

typedef struct DfsFrame {
  const Node *node;
  uint32_t next_operand;
} DfsFrame;

static void visit_from(GraphWalk *w, const Node *root) {
  VEC(DfsFrame) stack = {0};
  if (!map_get(&w->seen, root))
    VEC_PUSH(w->arena, stack, ((DfsFrame){root, 0}));
  while (stack.len) {
    DfsFrame *s = &stack.at[stack.len - 1];
    const Node *n = s->node;
    if (map_get(&w->seen, n)) {
      stack.len--;
    } else if (s->next_operand == node_operand_count(n)) {
      map_put(&w->seen, n, w);
      VEC_PUSH(w->arena, w->order, n);
      stack.len--;
    } else {
      const Node *x = node_operand(n, s->next_operand++);
      if (x && !map_get(&w->seen, x))
        VEC_PUSH(w->arena, stack, ((DfsFrame){x, 0}));
    }
  }
}

/* Calls f with the nodes in order.  If it raises, the nodes are freed. */
static bool walk_graph(const Graph *g, uint32_t count, Node *const *roots,
                       Buffer *out,
                       bool (*visit)(const GraphWalk *, Buffer *)) {
  GraphWalk w = {.g = g, .arena = arena_new()};
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    arena_free(w.arena);
    trap_raise(trap.kind);
  }
  map_init(&w.seen, w.arena);
  for (uint32_t k = 0; k < count; k++)
    visit_from(&w, roots[k]);
  bool ok = visit(&w, out);
  trap_end(&trap);
  arena_free(w.arena);
  return ok;
}

/* ---- printing ---- */

/* Prints an axis by its role: "f0", "i1", "r2". */
static void print_axis(Buffer *out, const Node *n, uint32_t axis) {
  if (axis < n->free_count)
    buffer_printf(out, "f%u", axis);
  else if (axis < n->free_count + n->rank)
    buffer_printf(out, "i%u", axis - n->free_count);
  else
    buffer_printf(out, "r%u", axis - n->free_count - n->rank);
}

static void print_operand(const Graph *g, Buffer *out, const Node *n,
                          uint32_t k, bool outermost);

static void print_args(const Graph *g, Buffer *out, const Node *n,
                       const BodyOp *expr, const char *open,
                       const char *close) {
  buffer_puts(out, open);
  for (uint32_t k = 0; k < expr->arg_count; k++) {
    if (k)
      buffer_puts(out, ", ");
    print_operand(g, out, n, expr->args[k], true);
  }
  buffer_puts(out, close);
}

static void print_op(const Graph *g, Buffer *out, const Node *n,
                     const BodyOp *expr, bool outermost) {
  const char *name = prim_info[expr->op].name;
  bool infix = name[0] == 'o' && name[1] == 'p' && name[2] == ' ';
  if (!infix || expr->arg_count != 2) {
    buffer_puts(out, name);
    print_args(g, out, n, expr, "(", ")");
    return;
  }
  if (!outermost)
    buffer_putc(out, '(');
  print_operand(g, out, n, expr->args[0], false);
  buffer_printf(out, " %s ", name + 3);
  print_operand(g, out, n, expr->args[1], false);
  if (!outermost)
    buffer_putc(out, ')');
}

/* Prints an op as an expression.  A shared op that computes something is
 * printed by name. */
static void print_expression(const Graph *g, Buffer *out, const Node *n,
                             const BodyOp *expr, bool outermost) {
  switch (expr->kind) {
  case BODY_CONST:
    scalar_print(out, expr->value);
    break;
  case BODY_EXTENT:
    extent_print(g, out, expr->extent);
    break;
  case BODY_AXIS:
    print_axis(out, n, expr->axis);
    break;
  case BODY_READ:
    buffer_printf(out, "%%%u", expr->node->id);
    if (expr->arg_count)
      print_args(g, out, n, expr, "[", "]");
    break;
  case BODY_OP:
    print_op(g, out, n, expr, outermost);
    break;
  case BODY_SELECT:
    print_args(g, out, n, expr, "if(", ")");
    break;
  case BODY_CONVERT:
    buffer_puts(out, dtype_info[expr->dtype].name);
    print_args(g, out, n, expr, "(", ")");
    break;
  case BODY_RANDOM:
    buffer_puts(out, prim_info[expr->op].name);
    print_args(g, out, n, expr, "(", ")");
    break;
  }
}

static bool is_let_bound(const Node *n, uint32_t k) {
  const BodyOp *expr = &n->body_ops[k];
  if (k == n->body_op_count - 1 || expr->kind == BODY_CONST ||
      expr->kind == BODY_EXTENT || expr->kind == BODY_AXIS)
    return false;
  uint32_t uses = 0;
  for (uint32_t j = k + 1; j < n->body_op_count; j++)
    for (uint32_t a = 0; a < n->body_ops[j].arg_count; a++)
      uses += n->body_ops[j].args[a] == k;
  return uses > 1;
}

static void print_operand(const Graph *g, Buffer *out, const Node *n,
                          uint32_t k, bool outermost) {
  if (is_let_bound(n, k))
    buffer_printf(out, "$%u", k);
  else
    print_expression(g, out, n, &n->body_ops[k], outermost);
}

static void print_comprehension(const Graph *g, Buffer *out, const Node *n) {
  if (n->reduce != PRIM_NONE) {
    buffer_printf(out, "%s[", prim_info[n->reduce].name);
    for (uint32_t k = 0; k < n->reduce_count; k++) {
      buffer_printf(out, "%sr%u < ", k ? ", " : "", k);
      extent_print(g, out, n->extents[n->free_count + n->rank + k]);
    }
    buffer_puts(out, "] ");
  }
  for (uint32_t k = 0; k < n->body_op_count; k++)
    if (is_let_bound(n, k)) {
      buffer_printf(out, "let $%u = ", k);
      print_expression(g, out, n, &n->body_ops[k], true);
      buffer_puts(out, " in ");
    }
  print_expression(g, out, n, &n->body_ops[n->body_op_count - 1], true);
}

/* Prints, for example, "loop[%2 < n] %3 = %0 then %7 makes %9: %7". */
static void print_loop(const Graph *g, Buffer *out, const Node *n) {
  const LoopBody *l = n->loop_body;
  buffer_printf(out, l->condition ? "loop[%%%u while %%%u]" : "loop[%%%u < ",
                l->iteration->id, l->condition ? l->condition->id : 0);
  if (!l->condition) {
    extent_print(g, out, l->trip_count);
    buffer_putc(out, ']');
  }
  for (uint32_t k = 0; k < l->carry_count; k++)
    buffer_printf(out, "%s %%%u = %%%u then %%%u", k ? "," : "",
                  l->carry_in[k]->id, n->inputs[k]->id, l->results[k]->id);
  bool is_stacked = n->output_index >= l->carry_count;
  buffer_printf(out, "%s %%%u", is_stacked ? ": all" : ": last",
                l->results[n->output_index]->id);
}

static void print_node(const Graph *g, Buffer *out, const Node *n) {
  buffer_printf(out, "%%%u ", n->id);
  node_print_type(g, out, n);
  for (uint32_t k = 0; k < n->free_count; k++) {
    buffer_printf(out, "%sf%u < ", k ? ", " : " for ", k);
    extent_print(g, out, n->extents[k]);
  }
  if (n->guard)
    buffer_printf(out, " where %%%u", n->guard->id);
  buffer_puts(out, " = ");
  if (n->data)
    buffer_puts(out, "data");
  else if (n->kind == NODE_COMP)
    print_comprehension(g, out, n);
  else if (n->kind == NODE_ARG)
    buffer_printf(out, "argument %u", n->arg_index);
  else if (n->kind == NODE_LOOP_CARRIED)
    buffer_puts(out, "state");
  else if (n->kind == NODE_LOOP)
    print_loop(g, out, n);
  else
    buffer_puts(out, prim_info[n->op].name);
  for (uint32_t k = 0; !n->loop_body && k < n->input_count; k++)
    buffer_printf(out, " %%%u", n->inputs[k]->id);
  buffer_putc(out, '\n');
}

static bool print_nodes(const GraphWalk *w, Buffer *out) {
  for (uint32_t k = 0; k < w->order.len; k++)
    print_node(w->g, out, w->order.at[k]);
  return true;
}

void graph_print(const Graph *g, Buffer *out, uint32_t count,
                 Node *const *roots) {
  walk_graph(g, count, roots, out, print_nodes);
}

static bool number_nodes(const GraphWalk *w, Buffer *out) {
  (void)out;
  for (uint32_t k = 0; k < w->order.len; k++)
    ((Node *)(uintptr_t)w->order.at[k])->id = k;
  return true;
}

void graph_renumber(uint32_t count, Node *const *roots) {
  walk_graph(NULL, count, roots, NULL, number_nodes);
}

/* ---- verification ---- */

static bool report_error(Buffer *message, const Node *n, const char *what) {
  buffer_printf(message, "node %%%u: %s", n->id, what);
  return false;
}

static bool free_vars_are_subset(const Node *x, const Node *n) {
  for (uint32_t k = 0; k < x->free_count; k++) {
    bool found = false;
    for (uint32_t j = 0; j < n->free_count; j++)
      found |= n->free_vars[j] == x->free_vars[k];
    if (!found)
      return false;
  }
  return true;
}

static const char *op_error(const Node *n, const BodyOp *expr) {
  if (prim_info[expr->op].class != PC_MAP)
    return "an operation in a body is not pointwise";
  if (expr->arg_count == 0 || expr->arg_count > 3)
    return "an operation has no or too many arguments";
  uint32_t first = expr->op == PRIM_SELECT;
  Dtype t = n->body_ops[expr->args[expr->arg_count - 1]].dtype;
  for (uint32_t k = first; k < expr->arg_count; k++)
    if (n->body_ops[expr->args[k]].dtype != t)
      return "arguments of an operation differ in type";
  if (expr->dtype != prim_result_dtype(expr->op, t))
    return "the result of an operation has another type";
  return NULL;
}

static const char *read_error(const Node *n, const BodyOp *expr) {
  const Node *x = expr->node;
  if (!x || x->dtype != expr->dtype)
    return "a read has another type than what is read";
  if (expr->arg_count != x->free_count + x->rank)
    return "a read has not one index per axis";
  for (uint32_t k = 0; k < expr->arg_count; k++)
    if (n->body_ops[expr->args[k]].dtype != DT_I64)
      return "an index is not i64";
  return NULL;
}

static const char *body_op_error(const Node *n, uint32_t k) {
  const BodyOp *expr = &n->body_ops[k];
  uint32_t axes = n->free_count + n->rank + n->reduce_count;
  for (uint32_t j = 0; j < expr->arg_count; j++)
    if (expr->args[j] >= k)
      return "a cell needs a later one";
  switch (expr->kind) {
  case BODY_CONST:
    return expr->value.dtype == expr->dtype ? NULL
                                            : "a constant of another type";
  case BODY_EXTENT:
    return expr->dtype == DT_I64 ? NULL : "a size of another type";
  case BODY_AXIS:
    return expr->axis < axes && expr->dtype == DT_I64
               ? NULL
               : "an axis that is not there";
  case BODY_READ:
    return read_error(n, expr);
  case BODY_OP:
    return op_error(n, expr);
  case BODY_SELECT:
    return expr->arg_count == 3 &&
                   n->body_ops[expr->args[0]].dtype == DT_BOOL &&
                   n->body_ops[expr->args[1]].dtype == expr->dtype &&
                   n->body_ops[expr->args[2]].dtype == expr->dtype
               ? NULL
               : "a choice between types";
  case BODY_CONVERT:
    return expr->arg_count == 1 ? NULL : "a bad conversion";
  case BODY_RANDOM:
    return expr->arg_count == 1 && dtype_is_float(expr->dtype)
               ? NULL
               : "a bad random number";
  }
  return "a cell of no kind";
}

static const char *value_error(const Node *n) {
  Dtype t = n->body_ops[n->body_op_count - 1].dtype;
  bool arg = prim_is_arg_reduction(n->reduce);
  if (n->reduce == PRIM_NONE)
    return n->reduce_count ? "axes are reduced by nothing"
           : t != n->dtype ? "the body has another type than the node"
                           : NULL;
  if (prim_info[n->reduce].class != PC_REDUCE)
    return "it reduces with what is no reduction";
  if (arg)
    return n->dtype == DT_I64 ? NULL : "an argmax is not i64";
  if (t != n->dtype && !(t == DT_F32 && dtype_is_float(n->dtype)))
    return "the reduced body has another type than the node";
  return NULL;
}

static const char *axes_error(const Node *n) {
  uint32_t axes = n->free_count + n->rank + n->reduce_count;
  if (axes > MAX_RANK)
    return "it has too many axes";
  for (uint32_t k = 0; k < axes; k++)
    if (n->extents[k] < 0)
      return "an extent is negative";
  for (uint32_t k = 0; k < n->rank; k++)
    if (node_is_broadcast_axis(n, k) && n->extents[n->free_count + k] != 1)
      return "a stretching axis is not of extent 1";
  if (n->rank < 32 && n->broadcast_mask >> n->rank)
    return "an axis that is not there stretches";
  for (uint32_t k = 0; k < n->free_count; k++) {
    if (n->extents[k] != n->free_vars[k]->extent)
      return "a free axis has not the extent of its index";
    if (k && n->free_vars[k - 1]->id >= n->free_vars[k]->id)
      return "free indices do not ascend";
  }
  return NULL;
}

static const char *data_error(const Node *n) {
  const Tensor *t = n->data;
  if (!t)
    return n->kind == NODE_DATA ? "a data node has no data" : NULL;
  if (t->dtype != n->dtype || t->rank != n->free_count + n->rank)
    return "its data is of another type";
  for (uint32_t k = 0; k < t->rank; k++)
    if (t->shape[k] != n->extents[k])
      return "its data has another shape";
  return NULL;
}

static const char *node_error(const Node *n) {
  const char *error = axes_error(n);
  if (!error)
    error = data_error(n);
  if (!error && n->refs == 0)
    error = "nobody holds it";
  if (!error && n->guard &&
      (n->guard->dtype != DT_BOOL || n->guard->rank ||
       !free_vars_are_subset(n->guard, n)))
    error = "its guard is no bool over its free indices";
  for (uint32_t k = 0; !error && k < n->input_count; k++)
    if (!free_vars_are_subset(n->inputs[k], n))
      error = "an input has other free indices";
  if (error || n->kind != NODE_COMP || n->data)
    return error;
  if (n->body_op_count == 0)
    return "it has no body";
  for (uint32_t k = 0; !error && k < n->body_op_count; k++)
    error = body_op_error(n, k);
  return error ? error : value_error(n);
}

static bool verify_nodes(const GraphWalk *w, Buffer *message) {
  for (uint32_t k = 0; k < w->order.len; k++) {
    const char *error = node_error(w->order.at[k]);
    if (error)
      return report_error(message, w->order.at[k], error);
  }
  return true;
}

bool graph_verify(uint32_t count, Node *const *roots, Buffer *message) {
  return walk_graph(NULL, count, roots, message, verify_nodes);
}
