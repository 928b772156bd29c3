/* Executes the library operation of a node. */
#include "backend/cpu/library_ops.h"

#include "runtime/derived_cache.h"
#include "support/arena.h"
#include "support/trap.h"
#include "tensor/node.h"
#include <string.h>

/* True if the result may take the memory of the first input. */
static bool may_overwrite(const LibraryOp *r, const bool *donated) {
  const Node *n = r->node;
  if (n->op != PRIM_SCATTER || !donated || !donated[0] || n->guard ||
      r->graph->keeps_inputs)
    return false;
  const Tensor *x = n->inputs[0]->data;
  return x->count == node_element_count(n) && tensor_is_donatable(x) &&
         n->inputs[1]->data != x && n->inputs[2]->data != x &&
         library_op_scatter_in_place(r);
}

static Tensor *new_output(LibraryOp *r, const bool *donated) {
  Fault ignored = {0};
  const Node *n = r->node;
  r->in_place = may_overwrite(r, donated);
  if (r->in_place) {
    Tensor *x = n->inputs[0]->data;
    if (x->derived)
      derived_cache_invalidate(x);
    return tensor_retain(x);
  }
  if (!node_fits_memory(r->graph, n, &ignored))
    return NULL;
  return tensor_new(n->dtype, n->free_count + n->rank, n->extents, false,
                    &ignored);
}

static bool dispatch(LibraryOp *r, const bool *donated) {
  const Node *n = r->node;
  r->out = new_output(r, donated);
  if (!r->out)
    return false;
  r->out->broadcast_mask =
      n->free_count < 32 ? n->broadcast_mask << n->free_count : 0;
  if (r->out->count == 0 && n->op != PRIM_SCATTER) /* it checks indices */
    return true;
  switch ((int)n->op) { /* the operations of node_opaque */
  case PRIM_SORT:
    return library_op_sort(r);
  case PRIM_ARGSORT:
    return library_op_argsort(r);
  case PRIM_TOPK:
    return library_op_topk(r);
  case PRIM_PERMUTATION:
    return n->free_count == 0 && library_op_permutation(r);
  case PRIM_FOLD:
  case PRIM_SCAN:
    return library_op_recurrence(r);
  case PRIM_CUMSUM:
    return library_op_cumsum(r);
  case PRIM_SCATTER:
    return library_op_scatter(r);
  case PRIM_DFT:
  case PRIM_REAL_DFT:
  case PRIM_INVERSE_REAL_DFT:
    return library_op_fourier(r);
  }
  return false;
}

/* Returns true if the guard is true for a slice. */
static bool guard_holds(const Node *n, int64_t slice) {
  const Node *guard = n->guard;
  int64_t tensor = 0, stride = 1;
  for (uint32_t k = n->free_count, j = guard->free_count; k-- > 0;) {
    int64_t index = slice % n->extents[k];
    slice /= n->extents[k];
    if (!j || n->free_vars[k] != guard->free_vars[j - 1])
      continue;
    tensor += index * stride;
    stride *= guard->extents[--j];
  }
  return ((const uint8_t *)guard->data->data)[tensor];
}

/* Results of other slices are unused; they are set to zero. */
static void zero_unguarded(LibraryOp *r) {
  const Node *n = r->node;
  int64_t slices = 1;
  for (uint32_t k = 0; k < n->free_count; k++)
    slices *= n->extents[k];
  if (!slices)
    return;
  size_t slice_bytes =
      (size_t)(r->out->count / slices) * dtype_info[n->dtype].bytes;
  for (int64_t k = 0; k < slices; k++)
    if (!guard_holds(n, k))
      memset((char *)r->out->data + (size_t)k * slice_bytes, 0, slice_bytes);
}

static void release(LibraryOp *r) {
  tensor_release(r->out);
  tensor_release(r->scratch);
  tensor_release(r->scratch2);
  if (r->arena)
    arena_free(r->arena);
  *r = (LibraryOp){0};
}

/* The first input gave its tensor away. */
static void release_input(Node *n) {
  Tensor *t = n->data;
  t->rank = n->free_count + n->rank;
  memcpy(t->shape, n->extents, t->rank * sizeof *n->extents);
  n->inputs[0]->data = NULL;
  tensor_release(t);
}

bool library_op_run(Graph *g, Node *n, const bool *donated) {
  if (!library_op_exists(n))
    return false;
  LibraryOp r = {.graph = g, .node = n, .lines = library_op_lines(n)};
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    release(&r);
    trap_raise(trap.kind);
  }
  bool succeeded = dispatch(&r, donated);
  trap_end(&trap);
  if (succeeded && n->guard)
    zero_unguarded(&r);
  if (succeeded)
    n->data = tensor_retain(r.out);
  if (succeeded && r.in_place)
    release_input(n);
  release(&r);
  return succeeded;
}
