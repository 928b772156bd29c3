/* Nodes and for-indices: making, counting, letting go. */
#include "tensor/internal.h"

#include <string.h>

/* ---- indices ---- */

IndexVar *index_var_new(int64_t extent) {
  static uint32_t last; /* of all graphs: ids only need to ascend */
  IndexVar *v = mem_alloc(sizeof *v);
  v->id = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
  v->extent = extent;
  v->refs = 1;
  return v;
}

IndexVar *index_var_retain(IndexVar *v) {
  v->refs++;
  return v;
}

void index_var_release(IndexVar *v) {
  if (v && --v->refs == 0)
    mem_free(v);
}

/* ---- forms ---- */

void form_free_add(Form *form, IndexVar *v) {
  uint32_t at = 0;
  while (at < form->free_count && form->free[at]->id < v->id)
    at++;
  if (at < form->free_count && form->free[at] == v)
    return;
  for (uint32_t k = form->free_count++; k > at; k--)
    form->free[k] = form->free[k - 1];
  form->free[at] = v;
}

bool form_free(Form *form, uint32_t count, Node *const *nodes, Fault *fault) {
  for (uint32_t k = 0; k < count; k++)
    for (uint32_t f = 0; f < nodes[k]->free_count; f++) {
      if (form->free_count == RANK_MAX) {
        fault_set(fault, "more than %d nested indices", RANK_MAX);
        return false;
      }
      form_free_add(form, nodes[k]->free[f]);
    }
  return true;
}

uint32_t form_axis_of(const Form *form, const IndexVar *v) {
  for (uint32_t k = 0; k < form->free_count; k++)
    if (form->free[k] == v)
      return k;
  return UINT32_MAX;
}

/* ---- nodes ---- */

int64_t extents_product(uint32_t count, const int64_t *extents) {
  int64_t product = 1;
  bool over = false;
  for (uint32_t k = 0; k < count; k++) {
    if (extents[k] == 0)
      return 0;
    over |= __builtin_mul_overflow(product, extents[k], &product);
  }
  return over ? INT64_MAX : product;
}

int64_t node_count(const Node *n) {
  return extents_product(n->free_count + n->rank, n->extents);
}

static bool is_approximate(PrimId op, Dtype dtype) {
  return dtype_is_float(dtype) && (prim_info[op].flags & PRIM_APPROXIMATE);
}

bool node_is_exact(const Node *n) {
  if (is_approximate(n->reduce, n->dtype))
    return false;
  for (uint32_t k = 0; k < n->cell_count; k++) {
    const Cell *c = &n->cells[k];
    if ((c->kind == CELL_OP || c->kind == CELL_RANDOM) &&
        is_approximate(c->op, c->dtype))
      return false;
  }
  return true;
}

int64_t *node_own(const Node *n) {
  return n->extents + n->free_count;
}

bool node_is_star(const Node *n, uint32_t axis) {
  return n->stars >> axis & 1;
}

static uint32_t loop_children(const Node *n) {
  const Turns *l = n->loop;
  return l ? 2 + 2 * l->state_count + l->out_count : 0;
}

uint32_t node_child_count(const Node *n) {
  return n->cell_count + n->input_count + 1 + loop_children(n);
}

Node *node_child(const Node *n, uint32_t k) {
  if (k < n->cell_count)
    return n->cells[k].kind == CELL_READ ? n->cells[k].node : NULL;
  k -= n->cell_count;
  if (k <= n->input_count)
    return k < n->input_count ? n->inputs[k] : n->guard;
  k -= n->input_count + 1;
  if (k-- == 0)
    return n->loop->more;
  if (k <= n->loop->state_count)
    return k ? n->loop->states[k - 1] : n->loop->turn;
  return n->loop->results[k - n->loop->state_count - 1];
}

/* The extents lie behind the node, then the free indices. */
static int64_t *first_extents(Node *n) {
  return (int64_t *)(n + 1);
}

Node *node_try_alloc(Graph *g, NodeKind kind, const Form *form) {
  uint32_t axes = form->free_count + form->rank + form->reduce_count;
  size_t size = sizeof(Node) + axes * sizeof(int64_t) +
                form->free_count * sizeof(IndexVar *);
  Node *n = mem_try_alloc(size);
  if (!n)
    return NULL;
  n->kind = kind;
  n->refs = 1;
  n->id = g->next_node++;
  n->dtype = form->dtype;
  n->free_count = form->free_count;
  n->rank = form->rank;
  n->stars = form->stars;
  n->span = g->span;
  n->reduce = form->reduce;
  n->reduce_count = form->reduce_count;
  n->extents = first_extents(n);
  n->free = (IndexVar **)(n->extents + axes);
  int64_t *e = n->extents;
  for (uint32_t k = 0; k < form->free_count; k++) {
    n->free[k] = index_var_retain(form->free[k]);
    *e++ = form->free[k]->extent;
  }
  for (uint32_t k = 0; k < form->rank; k++)
    *e++ = form->own[k];
  for (uint32_t k = 0; k < form->reduce_count; k++)
    *e++ = form->reduced[k];
  for (uint32_t k = 0; g->sizes && k < axes; k++)
    n->open |= !size_is_number(g, n->extents[k]);
  return n;
}

Node *node_alloc(Graph *g, NodeKind kind, const Form *form) {
  Node *n = node_try_alloc(g, kind, form);
  if (!n)
    trap_raise(FAIL_MEMORY);
  return n;
}

void node_count_pending(Graph *g, const Node *n) {
  int64_t count = node_count(n);
  if (count <= PENDING_LARGE &&
      __builtin_add_overflow(g->pending, count, &g->pending))
    g->pending = INT64_MAX;
}

void node_set_guard(Graph *g, Node *n, const Form *form) {
  if (!g->guard && !g->part_next)
    return;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    node_release(n);
    trap_raise(trap.kind);
  }
  n->guard = guard_for(g, form, n->safe);
  trap_end(&trap);
}

Node *node_retain(Node *n) {
  n->refs++;
  return n;
}

/* A node that nobody holds waits in a list, linked through `backend`. */
static void unhold(Node *n, Node **dead) {
  if (n && --n->refs == 0) {
    n->backend = *dead;
    *dead = n;
  }
}

static void drop_inputs(Node *n, Node **dead) {
  for (uint32_t k = 0; k < n->cell_count; k++)
    if (n->cells[k].kind == CELL_READ)
      unhold(n->cells[k].node, dead);
  for (uint32_t k = 0; k < n->input_count; k++)
    unhold(n->inputs[k], dead);
  unhold(n->guard, dead);
  mem_free(n->cells);
  mem_free(n->inputs);
  n->cells = NULL;
  n->inputs = NULL;
  n->guard = NULL;
  n->cell_count = n->input_count = 0;
}

static void bury(Node *dead) {
  while (dead) {
    Node *n = dead;
    dead = n->backend;
    drop_inputs(n, &dead);
    for (uint32_t k = 0; k < n->free_count; k++)
      index_var_release(n->free[k]);
    tensor_release(n->data);
    turns_release(n->loop);
    if (n->extents != first_extents(n))
      mem_free(n->extents);
    mem_free(n);
  }
}

void node_release(Node *n) {
  Node *dead = NULL;
  unhold(n, &dead);
  bury(dead);
}

void node_settle(Node *n) {
  Node *dead = NULL;
  n->kind = NODE_DATA;
  n->reduce = n->op = PRIM_NONE;
  n->reduce_count = 0;
  drop_inputs(n, &dead);
  bury(dead);
}

/* ---- the simplest nodes ---- */

Node *node_data(Graph *g, Tensor *t) {
  Form form = {.dtype = t->dtype, .rank = t->rank, .stars = t->stars};
  memcpy(form.own, t->shape, t->rank * sizeof form.own[0]);
  Node *n = node_alloc(g, NODE_DATA, &form);
  n->data = tensor_retain(t);
  n->safe = true;
  return n;
}

Node *node_arg(Graph *g, uint32_t number, Dtype dtype, uint32_t rank,
               const int64_t *shape, uint32_t stars) {
  Form form = {.dtype = dtype, .rank = rank, .stars = stars};
  memcpy(form.own, shape, rank * sizeof form.own[0]);
  Node *n = node_alloc(g, NODE_ARG, &form);
  n->arg = number;
  n->open = true;
  n->safe = true;
  return n;
}

Node *node_scalar(Graph *g, Scalar x) {
  Form form = {.dtype = x.dtype};
  Body b;
  body_init(&b, g, &form);
  body_const(&b, x);
  return body_node(&b, g, NULL);
}

Node *node_index(Graph *g, IndexVar *v) {
  Form form = {.dtype = DT_I64, .free_count = 1, .free = {v}};
  Body b;
  body_init(&b, g, &form);
  body_free(&b, 0);
  return body_node(&b, g, NULL);
}

bool node_known(const Node *n, Scalar *out) {
  if (n->rank || n->free_count)
    return false;
  if (n->data) {
    *out = scalar_load(n->dtype, n->data->data);
    return true;
  }
  bool known = n->kind == NODE_COMP && n->reduce == PRIM_NONE &&
               n->cell_count == 1 && n->cells[0].kind == CELL_CONST;
  if (known)
    *out = n->cells[0].value;
  return known;
}

bool node_is_size(const Node *n, int64_t *out) {
  bool is = n->rank == 0 && n->free_count == 0 && n->kind == NODE_COMP &&
            n->cell_count == 1 && n->cells[0].kind == CELL_SIZE;
  if (is)
    *out = n->cells[0].size;
  return is;
}

/* ---- texts ---- */

TypeText form_text(const Graph *g, Dtype dtype, uint32_t rank,
                   const int64_t *extents, uint32_t stars) {
  TypeText t;
  size_t size = sizeof t.text, len;
  len = (size_t)snprintf(t.text, size, "%s", dtype_info[dtype].name);
  uint32_t k = 0;
  for (; k < rank && len + sizeof(SizeText) + 8 < size; k++) {
    const char *before = k ? ", " : "[";
    if (stars >> k & 1)
      len += (size_t)snprintf(t.text + len, size - len, "%s*", before);
    else
      len += (size_t)snprintf(t.text + len, size - len, "%s%s", before,
                              size_text(g, extents[k]).text);
  }
  if (rank)
    snprintf(t.text + len, size - len, k == rank ? "]" : ", ...]");
  return t;
}

TypeText node_text(const Graph *g, const Node *n) {
  return form_text(g, n->dtype, n->rank, node_own(n), n->stars);
}

bool node_axis_sized(const Graph *g, const Node *x, uint32_t axis,
                     const char *what, Fault *fault) {
  if (!node_is_star(x, axis))
    return true;
  fault_set(fault, "%s wants an axis of a size, but axis %u of %s stretches",
            what, axis, node_text(g, x).text);
  return false;
}

void node_print_type(const Graph *g, Buffer *out, const Node *n) {
  buffer_puts(out, node_text(g, n).text);
}
