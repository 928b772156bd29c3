/* The condition that a node made under an `if` on indices has to record.
 *
 * g->guard may mention indices that the node does not.  The node is needed
 * wherever some value of those makes the guard true, so what it records is
 * the part of the guard that speaks of its own indices alone: conjuncts are
 * taken apart, those over other indices only are dropped, and a mixed one
 * becomes `any` over the indices that are not the node's. */
#include "tensor/internal.h"

typedef enum Overlap { OVERLAP_NONE, OVERLAP_SOME, OVERLAP_ALL } Overlap;

static Overlap overlap(const Node *guard, const Form *form) {
  uint32_t shared = 0;
  for (uint32_t k = 0; k < guard->free_count; k++)
    shared += form_axis_of(form, guard->free[k]) != UINT32_MAX;
  return shared == guard->free_count ? OVERLAP_ALL
         : shared                    ? OVERLAP_SOME
                                     : OVERLAP_NONE;
}

static const Cell *read_of(const Node *n, uint32_t cell) {
  const Cell *c = &n->cells[cell];
  return c->kind == CELL_READ && c->node->rank == 0 ? c : NULL;
}

/* Is n `a && b`, or `if a then b else false`? */
static bool conjunction(const Node *n, Node **a, Node **b, bool *lazy) {
  if (n->kind != NODE_COMP || !n->cell_count || n->reduce != PRIM_NONE)
    return false;
  const Cell *top = &n->cells[n->cell_count - 1];
  *lazy = top->kind == CELL_SELECT;
  if (*lazy) {
    const Cell *other = &n->cells[top->args[2]];
    if (other->kind != CELL_CONST || other->value.i)
      return false;
  } else if (top->kind != CELL_OP || top->op != PRIM_AND) {
    return false;
  }
  const Cell *x = read_of(n, top->args[0]), *y = read_of(n, top->args[1]);
  if (!x || !y)
    return false;
  *a = x->node;
  *b = y->node;
  return true;
}

static Node *any_over_others(Graph *g, Node *guard, const Form *form) {
  IndexVar *others[RANK_MAX];
  uint32_t count = 0;
  for (uint32_t k = 0; k < guard->free_count; k++)
    if (form_axis_of(form, guard->free[k]) == UINT32_MAX)
      others[count++] = guard->free[k];
  Fault fault = {0};
  Node *closed = node_close(g, guard, count, others, &fault);
  if (!closed)
    return NULL;
  Node *any = node_reduce(g, PRIM_ANY, closed, 0, count, false, &fault);
  node_release(closed);
  return any;
}

static Node *project(Graph *g, Node *guard, const Form *form) {
  Overlap o = overlap(guard, form);
  if (o == OVERLAP_NONE)
    return NULL;
  if (o == OVERLAP_ALL)
    return node_retain(guard);
  Node *a, *b;
  bool lazy;
  if (!conjunction(guard, &a, &b, &lazy))
    return any_over_others(g, guard, form);
  Node *x = project(g, a, form);
  if (lazy && overlap(a, form) != OVERLAP_ALL && b->guard)
    return x; /* b may only be read where a holds: it is left out */
  Node *y = project(g, b, form);
  if (!x || !y)
    return x ? x : y;
  Node *no = lazy ? node_scalar(g, (Scalar){.dtype = DT_BOOL}) : NULL;
  Node *both = lazy ? node_select_lazy(g, x, y, no, NULL)
                    : node_map(g, PRIM_AND, 2, (Node *[]){x, y}, DT_NONE, NULL);
  node_release(no);
  node_release(x);
  node_release(y);
  return both;
}

Node *guard_for(Graph *g, const Form *form) {
  Node *guard = g->guard;
  if (overlap(guard, form) == OVERLAP_ALL && guard->free_count)
    return node_retain(guard);
  g->guard = NULL; /* the nodes made here are run everywhere */
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    g->guard = guard;
    trap_raise(trap.kind);
  }
  Node *part = project(g, guard, form);
  trap_end(&trap);
  g->guard = guard;
  return part;
}
