/* Bodies under construction: cells on the stack of the constructor, moved into
 * the node in one allocation at the end. */
#include "tensor/internal.h"

#include <string.h>

void body_init(Body *b, Graph *g, const Form *form) {
  b->graph = g;
  b->form = form;
  b->span = g->span;
  b->cells = b->first_cells;
  b->args = b->first_args;
  b->count = b->arg_count = 0;
  b->cap = BODY_CELLS;
  b->arg_cap = BODY_ARGS;
  memset(b->axis_cell, 0, sizeof b->axis_cell);
}

void body_drop(Body *b) {
  if (b->cells != b->first_cells)
    mem_free(b->cells);
  if (b->args != b->first_args)
    mem_free(b->args);
  b->cells = b->first_cells;
  b->args = b->first_args;
}

/* A bigger copy; the body is dropped before running out of memory is told. */
static void *bigger(Body *b, const void *old, size_t size, size_t new_size) {
  void *copy = mem_try_alloc(new_size);
  if (!copy) {
    body_drop(b);
    trap_raise(FAIL_MEMORY);
  }
  memcpy(copy, old, size);
  return copy;
}

static void rebase_args(Cell *cells, uint32_t count, const uint32_t *from,
                        uint32_t *to) {
  for (uint32_t k = 0; k < count; k++)
    if (cells[k].arg_count)
      cells[k].args = to + (cells[k].args - from);
}

static void reserve(Body *b, uint32_t args) {
  if (b->count == b->cap) {
    size_t size = b->cap * sizeof(Cell);
    Cell *cells = bigger(b, b->cells, size, 2 * size);
    if (b->cells != b->first_cells)
      mem_free(b->cells);
    b->cells = cells;
    b->cap *= 2;
  }
  if (b->arg_cap - b->arg_count < args) {
    uint32_t cap = 2 * b->arg_cap + args;
    uint32_t *grown =
        bigger(b, b->args, b->arg_count * sizeof *grown, cap * sizeof *grown);
    rebase_args(b->cells, b->count, b->args, grown);
    if (b->args != b->first_args)
      mem_free(b->args);
    b->args = grown;
    b->arg_cap = cap;
  }
}

static Cell *add(Body *b, CellKind kind, Dtype dtype, uint32_t count,
                 const uint32_t *args) {
  reserve(b, count);
  Cell *cell = &b->cells[b->count++];
  *cell = (Cell){.kind = kind, .dtype = dtype, .arg_count = count};
  cell->args = b->args + b->arg_count;
  cell->span = b->span;
  for (uint32_t k = 0; k < count; k++) /* few, mostly */
    cell->args[k] = args[k];
  b->arg_count += count;
  return cell;
}

static uint32_t last(const Body *b) {
  return b->count - 1;
}

/* ---- cells ---- */

uint32_t body_const(Body *b, Scalar x) {
  add(b, CELL_CONST, x.dtype, 0, NULL)->value = x;
  return last(b);
}

uint32_t body_int(Body *b, int64_t x) {
  if (!size_is_number(b->graph, x)) {
    add(b, CELL_SIZE, DT_I64, 0, NULL)->size = x;
    return last(b);
  }
  return body_const(b, (Scalar){.dtype = DT_I64, .i = x});
}

static uint32_t axis(Body *b, uint32_t k) {
  if (!b->axis_cell[k]) {
    add(b, CELL_AXIS, DT_I64, 0, NULL)->axis = k;
    b->axis_cell[k] = b->count;
  }
  return b->axis_cell[k] - 1;
}

uint32_t body_free(Body *b, uint32_t k) {
  return axis(b, k);
}
uint32_t body_own(Body *b, uint32_t k) {
  return axis(b, b->form->free_count + k);
}
uint32_t body_reduced(Body *b, uint32_t k) {
  return axis(b, b->form->free_count + b->form->rank + k);
}

uint32_t body_op(Body *b, PrimId op, Dtype result, uint32_t count,
                 const uint32_t *args) {
  add(b, CELL_OP, result, count, args)->op = op;
  return last(b);
}

uint32_t body_op2(Body *b, PrimId op, Dtype result, uint32_t x, uint32_t y) {
  return body_op(b, op, result, 2, (uint32_t[]){x, y});
}

static uint32_t with_int(Body *b, PrimId op, uint32_t x, int64_t k) {
  uint32_t y = body_int(b, k);
  return body_op2(b, op, DT_I64, x, y);
}

uint32_t body_plus(Body *b, uint32_t x, int64_t k) {
  return k == 0 ? x : with_int(b, PRIM_ADD, x, k);
}
uint32_t body_times(Body *b, uint32_t x, int64_t k) {
  return k == 1 ? x : with_int(b, PRIM_MUL, x, k);
}
uint32_t body_over(Body *b, uint32_t x, int64_t k) {
  return k == 1 ? x : with_int(b, PRIM_DIV, x, k);
}
uint32_t body_modulo(Body *b, uint32_t x, int64_t k) {
  return with_int(b, PRIM_MOD, x, k);
}

uint32_t body_select(Body *b, uint32_t c, uint32_t x, uint32_t y) {
  Dtype dtype = b->cells[x].dtype;
  add(b, CELL_SELECT, dtype, 3, (uint32_t[]){c, x, y});
  return last(b);
}

uint32_t body_convert(Body *b, uint32_t x, Dtype to) {
  if (b->cells[x].dtype == to)
    return x;
  add(b, CELL_CONVERT, to, 1, &x);
  return last(b);
}

uint32_t body_random(Body *b, PrimId op, Key key, Dtype dtype, uint32_t n) {
  Cell *cell = add(b, CELL_RANDOM, dtype, 1, &n);
  cell->op = op;
  cell->key = key;
  return last(b);
}

/* ---- reads ---- */

uint32_t body_read_bound(Body *b, Node *x, const uint32_t *own,
                         uint32_t bound_count, const IndexBinding *bound) {
  Scalar known;
  int64_t size;
  if (node_known(x, &known))
    return body_const(b, known);
  if (node_is_size(x, &size))
    return body_int(b, size);
  uint32_t args[2 * RANK_MAX];
  for (uint32_t k = 0; k < x->free_count; k++) {
    uint32_t cell = UINT32_MAX;
    for (uint32_t j = 0; j < bound_count; j++)
      if (bound[j].var == x->free[k])
        cell = bound[j].cell;
    if (cell == UINT32_MAX)
      cell = body_free(b, form_axis_of(b->form, x->free[k]));
    args[k] = cell;
  }
  for (uint32_t k = 0; k < x->rank; k++)
    args[x->free_count + k] = own[k];
  add(b, CELL_READ, x->dtype, x->free_count + x->rank, args)->node = x;
  return last(b);
}

uint32_t body_read(Body *b, Node *x, const uint32_t *own) {
  return body_read_bound(b, x, own, 0, NULL);
}

uint32_t body_read_axes(Body *b, Node *x, uint32_t first) {
  uint32_t own[RANK_MAX];
  for (uint32_t k = 0; k < x->rank; k++) {
    bool stretch = node_is_star(x, k) && !(b->form->stars >> (first + k) & 1);
    own[k] = stretch ? body_int(b, 0) : body_own(b, first + k);
  }
  return body_read(b, x, own);
}

/* ---- the node ---- */

static bool safe_index(const Graph *g, const Node *n, const Cell *index,
                       int64_t extent) {
  if (index->kind == CELL_CONST)
    return index->value.i >= 0 &&
           (size_is_number(g, extent)
                ? index->value.i < extent
                : size_holds(g, SIZE_LE, index->value.i + 1, extent));
  return index->kind == CELL_AXIS &&
         size_holds(g, SIZE_LE, n->extents[index->axis], extent);
}

static bool safe_cell(const Graph *g, const Node *n, const Cell *cell) {
  if (cell->kind == CELL_READ) {
    bool safe = cell->node->safe || cell->node->data;
    for (uint32_t k = 0; k < cell->arg_count; k++)
      safe &=
          safe_index(g, n, &n->cells[cell->args[k]], cell->node->extents[k]);
    return safe;
  }
  if (cell->kind != CELL_OP || dtype_is_float(cell->dtype) ||
      (cell->op != PRIM_DIV && cell->op != PRIM_MOD && cell->op != PRIM_POW))
    return true;
  const Cell *y = &n->cells[cell->args[1]];
  return (y->kind == CELL_CONST && y->value.i > 0) ||
         (y->kind == CELL_SIZE && size_holds(g, SIZE_LE, 1, y->size));
}

static bool safe_body(const Graph *g, const Node *n) {
  bool safe = true;
  for (uint32_t k = 0; k < n->cell_count; k++)
    safe &= safe_cell(g, n, &n->cells[k]);
  return safe;
}

Node *body_node(Body *b, Graph *g, Fault *fault) {
  const Form *form = b->form;
  if (form->free_count + form->rank + form->reduce_count > RANK_MAX) {
    body_drop(b);
    fault_set(fault, "more than %d axes and indices together", RANK_MAX);
    return NULL;
  }
  size_t cells_size = b->count * sizeof(Cell);
  Cell *cells = mem_try_alloc(cells_size + b->arg_count * sizeof(uint32_t));
  Node *n = cells ? node_try_alloc(g, NODE_COMP, form) : NULL;
  if (!n) {
    mem_free(cells);
    body_drop(b);
    trap_raise(FAIL_MEMORY);
  }
  memcpy(cells, b->cells, cells_size);
  uint32_t *args = (uint32_t *)(cells + b->count);
  memcpy(args, b->args, b->arg_count * sizeof *args);
  rebase_args(cells, b->count, b->args, args);
  body_drop(b);
  n->cells = cells;
  n->cell_count = b->count;
  for (uint32_t k = 0; k < n->cell_count; k++)
    if (cells[k].kind == CELL_READ)
      node_needs(n, node_retain(cells[k].node));
    else
      n->open |= cells[k].kind == CELL_SIZE;
  n->safe = safe_body(g, n);
  node_set_guard(g, n, form);
  node_count_pending(g, n);
  return n;
}

Node *body_move(Body *b, Graph *g, Node *x, const uint32_t *own, Fault *fault) {
  body_read(b, x, own);
  return body_node(b, g, fault);
}
