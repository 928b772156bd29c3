/* Rows of tensors, of a graph whose outline is taken.
 *
 * What reads of a tensor a few rows alone, at places that are numbers, as a
 * turn of a loop over rows or over batches of them does, reads a tensor of
 * these instead, which lies in the same memory, at places that are counted
 * from its first row.  So graphs have the same outline wherever the rows are,
 * and one plan does for all turns. */
#include "tensor/recipe.h"

#include <string.h>

static bool is_number(const Cell *c) {
  return c->kind == CELL_CONST && c->dtype == DT_I64;
}

/* The cell with the number that the index begins at, from where it goes on for
 * *count rows; UINT32_MAX: it is none of that. */
static uint32_t beginning(const Node *n, uint32_t index, int64_t *count) {
  const Cell *c = &n->cells[index];
  *count = 1;
  if (is_number(c))
    return index;
  if (c->kind != CELL_OP || c->op != PRIM_ADD || c->arg_count != 2)
    return UINT32_MAX;
  for (uint32_t k = 0; k < 2; k++) {
    const Cell *x = &n->cells[c->args[k]], *y = &n->cells[c->args[1 - k]];
    if (x->kind != CELL_AXIS || !is_number(y))
      continue;
    *count = n->extents[x->axis];
    return c->args[1 - k];
  }
  return UINT32_MAX;
}

/* By one cell, and once? */
static bool is_used_once(const Node *n, uint32_t cell) {
  uint32_t uses = cell == n->cell_count - 1;
  for (uint32_t k = 0; k < n->cell_count; k++)
    for (uint32_t j = 0; j < n->cells[k].arg_count; j++)
      uses += n->cells[k].args[j] == cell;
  return uses == 1;
}

static bool may_be_cut(const Graph *g, const Node *leaf) {
  const Backend *backend = g->backend ? g->backend : &backend_reference;
  return backend->parts && leaf->data && !leaf->data->device &&
         !leaf->there && !leaf->free_count && leaf->rank &&
         leaf->extents[0] > 1;
}

bool rows_find(const Graph *g, Node *n, uint32_t read, RowsRead *out) {
  const Cell *c = &n->cells[read];
  const Node *leaf = c->node;
  if (!may_be_cut(g, leaf) || n->cells[c->args[0]].kind == CELL_AXIS)
    return false;
  uint32_t index = c->args[0];
  *out = (RowsRead){.node = n, .read = read};
  out->number = beginning(n, index, &out->count);
  if (out->number == UINT32_MAX)
    return false;
  out->from = n->cells[out->number].value.i;
  return out->from >= 0 && out->count > 0 && out->from < leaf->extents[0] &&
         out->count <= leaf->extents[0] - out->from &&
         is_used_once(n, out->number) && is_used_once(n, index);
}

/* NULL: no memory. */
static Node *part_of(Graph *g, const Node *leaf, int64_t from, int64_t count) {
  Tensor *t = tensor_part(leaf->data, from, count);
  Form form = {.dtype = leaf->dtype, .rank = leaf->rank, .stars = leaf->stars};
  if (!t)
    return NULL;
  memcpy(form.own, t->shape, t->rank * sizeof form.own[0]);
  Node *part = node_try_alloc(g, NODE_DATA, &form);
  if (!part) {
    tensor_release(t);
    return NULL;
  }
  part->data = t;
  part->span = leaf->span;
  part->safe = true;
  return part;
}

Node *rows_cut(Graph *g, Node *leaf, uint32_t count, const RowsRead *reads) {
  int64_t low = INT64_MAX, high = 0;
  for (uint32_t k = 0; k < count; k++) {
    int64_t end = reads[k].from + reads[k].count;
    low = reads[k].from < low ? reads[k].from : low;
    high = end > high ? end : high;
  }
  bool whole = low == 0 && high == leaf->extents[0];
  Node *part = whole ? NULL : part_of(g, leaf, low, high - low);
  if (!part)
    return NULL;
  for (uint32_t k = 0; k < count; k++) {
    Cell *cells = reads[k].node->cells;
    cells[reads[k].number].value.i -= low;
    cells[reads[k].read].node = node_retain(part);
    node_release(leaf);
  }
  node_release(part); /* who reads it holds it */
  return part;
}
