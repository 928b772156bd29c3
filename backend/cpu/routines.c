/* Which routine a node has, and what all of them share. */
#include "backend/cpu/routines.h"

#include "runtime/pool.h"

#include <string.h>

void *routine_room(Tensor **at, int64_t bytes) {
  Fault ignored = {0};
  *at = tensor_new(DT_U8, 1, &bytes, false, &ignored);
  return *at ? (*at)->data : NULL;
}

bool routine_share(const Routine *r, int64_t units, int64_t grain,
                   int (*work)(void *, int64_t, int64_t), void *context) {
  int bad = pool_run_apart(units, grain, work, context, r->graph->interrupt);
  if (r->graph->interrupt && flag_is_set(r->graph->interrupt))
    trap_raise(FAIL_INTERRUPT);
  return bad == 0;
}

/* Then those of a slice are like another axis before all. */
static bool has_all_free(const Node *n) {
  for (uint32_t k = 0; k < n->input_count; k++) {
    const Node *x = n->inputs[k];
    if (x->free_count != n->free_count)
      return false;
    for (uint32_t j = 0; j < n->free_count; j++)
      if (x->free[j] != n->free[j])
        return false;
  }
  return true;
}

static uint32_t axis_of(const Node *n) {
  const Node *x = n->inputs[0];
  return x->free_count + (n->op == PRIM_TOPK      ? x->rank - 1
                          : n->op == PRIM_SCATTER ? 0
                                                  : (uint32_t)n->params[0]);
}

Lines routine_lines(const Node *n) {
  Lines l = {1, 1, 1};
  if (!n->input_count)
    return l;
  const Node *x = n->inputs[0];
  uint32_t axis = axis_of(n);
  l.length = x->extents[axis];
  for (uint32_t k = 0; k < axis; k++)
    l.outer *= x->extents[k];
  for (uint32_t k = axis + 1; k < x->free_count + x->rank; k++)
    l.inner *= x->extents[k];
  return l;
}

static bool run(Routine *r) {
  Fault ignored = {0};
  const Node *n = r->node;
  if (!node_fits_memory(r->graph, n, &ignored))
    return false;
  r->out = tensor_new(n->dtype, n->free_count + n->rank, n->extents, false,
                      &ignored);
  if (!r->out)
    return false;
  r->out->stars = n->free_count < 32 ? n->stars << n->free_count : 0;
  if (r->out->count == 0)
    return true;
  switch ((int)n->op) { /* the kinds of node_opaque */
  case PRIM_SORT:
    return routine_sort(r);
  case PRIM_ARGSORT:
    return routine_argsort(r);
  case PRIM_TOPK:
    return routine_topk(r);
  case PRIM_PERMUTATION:
    return n->free_count == 0 && routine_permutation(r);
  case PRIM_FOLD:
  case PRIM_SCAN:
    return routine_in_order(r);
  case PRIM_CUMSUM:
    return routine_cumsum(r);
  case PRIM_SCATTER:
    return routine_scatter(r);
  }
  return false;
}

/* Is the condition true at a slice? */
static bool is_wanted(const Node *n, int64_t slice) {
  const Node *guard = n->guard;
  int64_t at = 0, stride = 1;
  for (uint32_t k = n->free_count, j = guard->free_count; k-- > 0;) {
    int64_t index = slice % n->extents[k];
    slice /= n->extents[k];
    if (!j || n->free[k] != guard->free[j - 1])
      continue;
    at += index * stride;
    stride *= guard->extents[--j];
  }
  return ((const uint8_t *)guard->data->data)[at];
}

/* Where it is not, nobody looks, and there are zeros. */
static void clear_unwanted(Routine *r) {
  const Node *n = r->node;
  int64_t slices = 1;
  for (uint32_t k = 0; k < n->free_count; k++)
    slices *= n->extents[k];
  if (!slices)
    return;
  size_t each = (size_t)(r->out->count / slices) * dtype_info[n->dtype].bytes;
  for (int64_t k = 0; k < slices; k++)
    if (!is_wanted(n, k))
      memset((char *)r->out->data + (size_t)k * each, 0, each);
}

static void drop(Routine *r) {
  tensor_release(r->out);
  tensor_release(r->room);
  tensor_release(r->more);
  if (r->arena)
    arena_free(r->arena);
  *r = (Routine){0};
}

static bool is_in_order(const Node *n) {
  return n->op == PRIM_FOLD || n->op == PRIM_SCAN;
}

bool routine_has(const Node *n) {
  return n->kind == NODE_OPAQUE && (is_in_order(n) || has_all_free(n));
}

bool routine_run(Graph *g, Node *n) {
  if (!routine_has(n))
    return false;
  Routine r = {.graph = g, .node = n};
  if (!is_in_order(n))
    r.lines = routine_lines(n);
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    drop(&r);
    trap_raise(trap.kind);
  }
  bool good = run(&r);
  trap_end(&trap);
  if (good && n->guard)
    clear_unwanted(&r);
  if (good)
    n->data = tensor_retain(r.out);
  drop(&r);
  return good;
}
