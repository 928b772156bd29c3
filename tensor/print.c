/* The graph as text, and its verifier. */
#include "tensor/internal.h"

/* ---- walking: inputs before readers ---- */

typedef struct Walk {
  const Graph *g;
  Arena *arena;
  Map seen;
  VEC(const Node *) order;
} Walk;

typedef struct Step {
  const Node *node;
  uint32_t next;
} Step;

static void walk_from(Walk *w, const Node *root) {
  VEC(Step) stack = {0};
  if (!map_get(&w->seen, root))
    VEC_PUSH(w->arena, stack, ((Step){root, 0}));
  while (stack.len) {
    Step *s = &stack.at[stack.len - 1];
    const Node *n = s->node;
    if (map_get(&w->seen, n)) {
      stack.len--;
    } else if (s->next == node_child_count(n)) {
      map_put(&w->seen, n, w);
      VEC_PUSH(w->arena, w->order, n);
      stack.len--;
    } else {
      const Node *x = node_child(n, s->next++);
      if (x && !map_get(&w->seen, x))
        VEC_PUSH(w->arena, stack, ((Step){x, 0}));
    }
  }
}

/* Calls what is to be done with the walked nodes; a raise frees them. */
static bool walk(const Graph *g, uint32_t count, Node *const *roots,
                 Buffer *out, bool (*visit)(const Walk *, Buffer *)) {
  Walk w = {.g = g, .arena = arena_new()};
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    arena_free(w.arena);
    trap_raise(trap.kind);
  }
  map_init(&w.seen, w.arena);
  for (uint32_t k = 0; k < count; k++)
    walk_from(&w, roots[k]);
  bool good = visit(&w, out);
  trap_end(&trap);
  arena_free(w.arena);
  return good;
}

/* ---- printing ---- */

/* "f0", "i1", "r2": by the role of an axis */
static void print_axis(Buffer *out, const Node *n, uint32_t axis) {
  if (axis < n->free_count)
    buffer_printf(out, "f%u", axis);
  else if (axis < n->free_count + n->rank)
    buffer_printf(out, "i%u", axis - n->free_count);
  else
    buffer_printf(out, "r%u", axis - n->free_count - n->rank);
}

static void print_cell(const Graph *g, Buffer *out, const Node *n, uint32_t k,
                       bool top);

static void print_list(const Graph *g, Buffer *out, const Node *n,
                       const Cell *cell, const char *open, const char *close) {
  buffer_puts(out, open);
  for (uint32_t k = 0; k < cell->arg_count; k++) {
    if (k)
      buffer_puts(out, ", ");
    print_cell(g, out, n, cell->args[k], true);
  }
  buffer_puts(out, close);
}

static void print_op(const Graph *g, Buffer *out, const Node *n,
                     const Cell *cell, bool top) {
  const char *name = prim_info[cell->op].name;
  bool infix = name[0] == 'o' && name[1] == 'p' && name[2] == ' ';
  if (!infix || cell->arg_count != 2) {
    buffer_puts(out, name);
    print_list(g, out, n, cell, "(", ")");
    return;
  }
  if (!top)
    buffer_putc(out, '(');
  print_cell(g, out, n, cell->args[0], false);
  buffer_printf(out, " %s ", name + 3);
  print_cell(g, out, n, cell->args[1], false);
  if (!top)
    buffer_putc(out, ')');
}

/* A cell as an expression.  Shared ones that compute are named instead. */
static void print_cell_body(const Graph *g, Buffer *out, const Node *n,
                            const Cell *cell, bool top) {
  switch (cell->kind) {
  case CELL_CONST:
    scalar_print(out, cell->value);
    break;
  case CELL_SIZE:
    size_put(g, out, cell->size);
    break;
  case CELL_AXIS:
    print_axis(out, n, cell->axis);
    break;
  case CELL_READ:
    buffer_printf(out, "%%%u", cell->node->id);
    if (cell->arg_count)
      print_list(g, out, n, cell, "[", "]");
    break;
  case CELL_OP:
    print_op(g, out, n, cell, top);
    break;
  case CELL_SELECT:
    print_list(g, out, n, cell, "if(", ")");
    break;
  case CELL_CONVERT:
    buffer_puts(out, dtype_info[cell->dtype].name);
    print_list(g, out, n, cell, "(", ")");
    break;
  case CELL_RANDOM:
    buffer_puts(out, prim_info[cell->op].name);
    print_list(g, out, n, cell, "(", ")");
    break;
  }
}

static bool is_named(const Node *n, uint32_t k) {
  const Cell *cell = &n->cells[k];
  if (k == n->cell_count - 1 || cell->kind == CELL_CONST ||
      cell->kind == CELL_SIZE || cell->kind == CELL_AXIS)
    return false;
  uint32_t uses = 0;
  for (uint32_t j = k + 1; j < n->cell_count; j++)
    for (uint32_t a = 0; a < n->cells[j].arg_count; a++)
      uses += n->cells[j].args[a] == k;
  return uses > 1;
}

static void print_cell(const Graph *g, Buffer *out, const Node *n, uint32_t k,
                       bool top) {
  if (is_named(n, k))
    buffer_printf(out, "$%u", k);
  else
    print_cell_body(g, out, n, &n->cells[k], top);
}

static void print_comprehension(const Graph *g, Buffer *out, const Node *n) {
  if (n->reduce != PRIM_NONE) {
    buffer_printf(out, "%s[", prim_info[n->reduce].name);
    for (uint32_t k = 0; k < n->reduce_count; k++) {
      buffer_printf(out, "%sr%u < ", k ? ", " : "", k);
      size_put(g, out, n->extents[n->free_count + n->rank + k]);
    }
    buffer_puts(out, "] ");
  }
  for (uint32_t k = 0; k < n->cell_count; k++)
    if (is_named(n, k)) {
      buffer_printf(out, "let $%u = ", k);
      print_cell_body(g, out, n, &n->cells[k], true);
      buffer_puts(out, " in ");
    }
  print_cell_body(g, out, n, &n->cells[n->cell_count - 1], true);
}

/* "loop[%2 < n] %3 = %0 then %7 makes %9: %7" */
static void print_loop(const Graph *g, Buffer *out, const Node *n) {
  const Turns *l = n->loop;
  buffer_printf(out, l->more ? "loop[%%%u while %%%u]" : "loop[%%%u < ",
                l->turn->id, l->more ? l->more->id : 0);
  if (!l->more) {
    size_put(g, out, l->count);
    buffer_putc(out, ']');
  }
  for (uint32_t k = 0; k < l->state_count; k++)
    buffer_printf(out, "%s %%%u = %%%u then %%%u", k ? "," : "",
                  l->states[k]->id, n->inputs[k]->id, l->results[k]->id);
  bool stacked = n->output >= l->state_count;
  buffer_printf(out, "%s %%%u", stacked ? ": all" : ": last",
                l->results[n->output]->id);
}

static void print_node(const Graph *g, Buffer *out, const Node *n) {
  buffer_printf(out, "%%%u ", n->id);
  node_print_type(g, out, n);
  for (uint32_t k = 0; k < n->free_count; k++) {
    buffer_printf(out, "%sf%u < ", k ? ", " : " for ", k);
    size_put(g, out, n->extents[k]);
  }
  if (n->guard)
    buffer_printf(out, " where %%%u", n->guard->id);
  buffer_puts(out, " = ");
  if (n->data)
    buffer_puts(out, "data");
  else if (n->kind == NODE_COMP)
    print_comprehension(g, out, n);
  else if (n->kind == NODE_ARG)
    buffer_printf(out, "argument %u", n->arg);
  else if (n->kind == NODE_STATE)
    buffer_puts(out, "state");
  else if (n->kind == NODE_LOOP)
    print_loop(g, out, n);
  else
    buffer_puts(out, prim_info[n->op].name);
  for (uint32_t k = 0; !n->loop && k < n->input_count; k++)
    buffer_printf(out, " %%%u", n->inputs[k]->id);
  buffer_putc(out, '\n');
}

static bool print_nodes(const Walk *w, Buffer *out) {
  for (uint32_t k = 0; k < w->order.len; k++)
    print_node(w->g, out, w->order.at[k]);
  return true;
}

void graph_print(const Graph *g, Buffer *out, uint32_t count,
                 Node *const *roots) {
  walk(g, count, roots, out, print_nodes);
}

static bool number_nodes(const Walk *w, Buffer *out) {
  (void)out;
  for (uint32_t k = 0; k < w->order.len; k++)
    ((Node *)(uintptr_t)w->order.at[k])->id = k;
  return true;
}

void graph_number(uint32_t count, Node *const *roots) {
  walk(NULL, count, roots, NULL, number_nodes);
}

/* ---- verifying ---- */

static bool wrong(Buffer *message, const Node *n, const char *what) {
  buffer_printf(message, "node %%%u: %s", n->id, what);
  return false;
}

static bool free_is_subset(const Node *x, const Node *n) {
  for (uint32_t k = 0; k < x->free_count; k++) {
    bool found = false;
    for (uint32_t j = 0; j < n->free_count; j++)
      found |= n->free[j] == x->free[k];
    if (!found)
      return false;
  }
  return true;
}

static const char *op_error(const Node *n, const Cell *cell) {
  if (prim_info[cell->op].class != PC_MAP)
    return "an operation in a body is not pointwise";
  if (cell->arg_count == 0 || cell->arg_count > 3)
    return "an operation has no or too many arguments";
  uint32_t first = cell->op == PRIM_SELECT;
  Dtype t = n->cells[cell->args[cell->arg_count - 1]].dtype;
  for (uint32_t k = first; k < cell->arg_count; k++)
    if (n->cells[cell->args[k]].dtype != t)
      return "arguments of an operation differ in type";
  if (cell->dtype != t && cell->dtype != DT_BOOL)
    return "the result of an operation has another type";
  return NULL;
}

static const char *read_error(const Node *n, const Cell *cell) {
  const Node *x = cell->node;
  if (!x || x->dtype != cell->dtype)
    return "a read has another type than what is read";
  if (cell->arg_count != x->free_count + x->rank)
    return "a read has not one index per axis";
  for (uint32_t k = 0; k < cell->arg_count; k++)
    if (n->cells[cell->args[k]].dtype != DT_I64)
      return "an index is not i64";
  return NULL;
}

static const char *cell_error(const Node *n, uint32_t k) {
  const Cell *cell = &n->cells[k];
  uint32_t axes = n->free_count + n->rank + n->reduce_count;
  for (uint32_t j = 0; j < cell->arg_count; j++)
    if (cell->args[j] >= k)
      return "a cell needs a later one";
  switch (cell->kind) {
  case CELL_CONST:
    return cell->value.dtype == cell->dtype ? NULL
                                            : "a constant of another type";
  case CELL_SIZE:
    return cell->dtype == DT_I64 ? NULL : "a size of another type";
  case CELL_AXIS:
    return cell->axis < axes && cell->dtype == DT_I64
               ? NULL
               : "an axis that is not there";
  case CELL_READ:
    return read_error(n, cell);
  case CELL_OP:
    return op_error(n, cell);
  case CELL_SELECT:
    return cell->arg_count == 3 && n->cells[cell->args[0]].dtype == DT_BOOL &&
                   n->cells[cell->args[1]].dtype == cell->dtype &&
                   n->cells[cell->args[2]].dtype == cell->dtype
               ? NULL
               : "a choice between types";
  case CELL_CONVERT:
    return cell->arg_count == 1 ? NULL : "a bad conversion";
  case CELL_RANDOM:
    return cell->arg_count == 1 && dtype_is_float(cell->dtype)
               ? NULL
               : "a bad random number";
  }
  return "a cell of no kind";
}

static const char *value_error(const Node *n) {
  Dtype t = n->cells[n->cell_count - 1].dtype;
  bool arg = n->reduce == PRIM_ARGMAX || n->reduce == PRIM_ARGMIN;
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
  if (axes > RANK_MAX)
    return "it has too many axes";
  for (uint32_t k = 0; k < axes; k++)
    if (n->extents[k] < 0)
      return "an extent is negative";
  for (uint32_t k = 0; k < n->rank; k++)
    if (node_is_star(n, k) && n->extents[n->free_count + k] != 1)
      return "a stretching axis is not of extent 1";
  if (n->rank < 32 && n->stars >> n->rank)
    return "an axis that is not there stretches";
  for (uint32_t k = 0; k < n->free_count; k++) {
    if (n->extents[k] != n->free[k]->extent)
      return "a free axis has not the extent of its index";
    if (k && n->free[k - 1]->id >= n->free[k]->id)
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
       !free_is_subset(n->guard, n)))
    error = "its guard is no bool over its free indices";
  for (uint32_t k = 0; !error && k < n->input_count; k++)
    if (!free_is_subset(n->inputs[k], n))
      error = "an input has other free indices";
  if (error || n->kind != NODE_COMP || n->data)
    return error;
  if (n->cell_count == 0)
    return "it has no body";
  for (uint32_t k = 0; !error && k < n->cell_count; k++)
    error = cell_error(n, k);
  return error ? error : value_error(n);
}

static bool verify_nodes(const Walk *w, Buffer *message) {
  for (uint32_t k = 0; k < w->order.len; k++) {
    const char *error = node_error(w->order.at[k]);
    if (error)
      return wrong(message, w->order.at[k], error);
  }
  return true;
}

bool graph_verify(uint32_t count, Node *const *roots, Buffer *message) {
  return walk(NULL, count, roots, message, verify_nodes);
}
