/* Folds and scans whose function is a formula: a turn, which was run once with
 * a state that has no value, becomes a list of pointwise cells.
 *
 * What of it does not depend on the state is a tensor with an element for each
 * turn, computed as any other before the loop begins; what does is done in
 * order, turn by turn, but apart for each element of the state. */
#include "tensor/internal.h"

#include <string.h>

enum {
  CELLS_MOST = 200,
  DEPTH_MOST = 200,
  OPERANDS_MOST = 60,
  BYTES_MOST = 1 << 28,
};

typedef struct Folding {
  Graph *g;
  Arena *arena;
  const FoldTurn *turn;
  const Node *shape; /* of the state: each part has it */
  Map flat;          /* of nodes: 1 + their cells */
  VEC(Cell) cells;
  VEC(Node *) inputs;     /* counted */
  VEC(uint32_t) operands; /* of inputs: their cells */
  uint32_t *states;       /* of each state 1 + its cell, or 0 */
  uint64_t turning;       /* inputs that have an element for each turn */
  uint32_t depth;
  bool failed;
} Folding;

/* ---- what depends on the state ---- */

/* Does it, or is it needed under a condition that does?  Then it is part of the
 * turn, where its condition needs no look: that is for what can fail. */
static bool depends_on(const Node *n) {
  return n->open || (n->guard && n->guard->open);
}

static bool has_shape(const Folding *f, const Node *n) {
  const Node *like = f->shape;
  if (n->rank != like->rank || n->stars != like->stars)
    return false;
  for (uint32_t k = 0; k < n->rank; k++)
    if (node_own(n)[k] != node_own(like)[k])
      return false;
  return true;
}

/* ---- cells of the loop ---- */

static uint32_t add_cell(Folding *f, const Cell *like, const uint32_t *args) {
  Cell c = *like;
  c.args = NEW_ARRAY(f->arena, uint32_t, c.arg_count);
  if (c.arg_count)
    memcpy(c.args, args, c.arg_count * sizeof *args);
  if (f->cells.len >= CELLS_MOST)
    f->failed = true;
  else
    VEC_PUSH(f->arena, f->cells, c);
  return f->cells.len - 1;
}

static uint32_t add_operand(Folding *f, const Node *n) {
  Cell c = {.kind = CELL_AXIS, .dtype = n->dtype, .span = n->span};
  return add_cell(f, &c, NULL);
}

static bool has_turn(const Folding *f, const Node *n) {
  for (uint32_t k = 0; k < n->free_count; k++)
    if (n->free[k] == f->turn->at)
      return true;
  return false;
}

static bool is_own_axis(const Node *n, const Cell *index, uint32_t k) {
  return index->kind == CELL_AXIS && index->axis == n->free_count + k;
}

/* A free index, or the node that is just that. */
static bool is_free_axis(const Node *n, const Cell *index, const IndexVar *v) {
  const Node *x = index->kind == CELL_READ ? index->node : NULL;
  if (x && x->kind == NODE_COMP && x->free_count == 1 && x->rank == 0 &&
      x->cell_count == 1 && x->cells[0].kind == CELL_AXIS)
    index = &n->cells[index->args[0]];
  return index->kind == CELL_AXIS && index->axis < n->free_count &&
         n->free[index->axis] == v;
}

Node *node_row_of(const Node *n, const IndexVar *at) {
  if (n->kind != NODE_COMP || n->reduce != PRIM_NONE || n->guard)
    return NULL;
  const Cell *c = &n->cells[n->cell_count - 1];
  Node *x = c->kind == CELL_READ ? c->node : NULL;
  if (!x || x->rank != n->rank + 1 || x->stars != n->stars << 1 ||
      node_own(x)[0] != at->extent)
    return NULL;
  const uint32_t *own = c->args + x->free_count;
  bool whole = is_free_axis(n, &n->cells[own[0]], at);
  for (uint32_t k = 0; k < x->free_count; k++)
    whole &=
        x->free[k] != at && is_free_axis(n, &n->cells[c->args[k]], x->free[k]);
  for (uint32_t k = 0; k < n->rank; k++)
    whole &= is_own_axis(n, &n->cells[own[k + 1]], k) &&
             node_own(x)[k + 1] == node_own(n)[k];
  return whole ? x : NULL;
}

/* What is not needed at some turns, as 0 there: it may be that it fails. */
static Node *where_needed(Folding *f, Node *n) {
  if (!n->guard)
    return node_retain(n);
  Form form = {.dtype = n->dtype, .rank = n->rank, .stars = n->stars};
  Fault fault = {0};
  Body b;
  for (uint32_t k = 0; k < n->free_count; k++)
    form_free_add(&form, n->free[k]);
  memcpy(form.own, node_own(n), n->rank * sizeof form.own[0]);
  body_init(&b, f->g, &form);
  uint32_t needed = body_read(&b, n->guard, NULL);
  uint32_t x = body_read_axes(&b, n, 0);
  body_select(&b, needed, x, body_const(&b, (Scalar){.dtype = n->dtype}));
  return body_node(&b, f->g, &fault);
}

/* All turns of what has one element for each. */
static Node *all_turns(Folding *f, Node *n) {
  IndexVar *at = f->turn->at;
  Fault fault = {0};
  Node *whole = node_row_of(n, f->turn->at);
  if (whole)
    return node_retain(whole);
  Node *each = where_needed(f, n);
  Node *all = each ? node_close(f->g, each, 1, &at, &fault) : NULL;
  node_release(each);
  /* turn by turn each of them would be gone again */
  f->failed |= all && node_count(all) > BYTES_MOST / dtype_info[n->dtype].bytes;
  return all;
}

/* A value that is there before the loop begins; taken. */
static uint32_t add_input(Folding *f, Node *n) {
  bool turns = has_turn(f, n);
  Node *all = turns ? all_turns(f, n) : node_retain(n);
  uint32_t cell = add_operand(f, n);
  node_release(n);
  if (!all || f->failed || f->inputs.len >= OPERANDS_MOST) {
    f->failed = true;
    if (all)
      node_release(all);
    return 0;
  }
  f->turning |= (uint64_t)turns << f->inputs.len;
  VEC_PUSH(f->arena, f->inputs, all);
  VEC_PUSH(f->arena, f->operands, cell);
  return cell;
}

static uint32_t input_of(Folding *f, Node *n) {
  uintptr_t known = (uintptr_t)map_get(&f->flat, n);
  if (!known && !f->failed) {
    known = add_input(f, node_retain(n)) + (uintptr_t)1;
    map_put(&f->flat, n, (void *)known);
  }
  return known ? (uint32_t)known - 1 : 0;
}

/* ---- what does not depend on the state, as nodes of their own ---- */

static void need_cells(const Node *n, uint32_t at, bool *needed) {
  needed[at] = true;
  for (uint32_t k = at + 1; k-- > 0;)
    for (uint32_t a = 0; needed[k] && a < n->cells[k].arg_count; a++)
      needed[n->cells[k].args[a]] = true;
}

static uint32_t copy_read(Body *b, const Cell *c, const uint32_t *place) {
  Node *x = c->node;
  IndexBinding bound[RANK_MAX];
  uint32_t own[RANK_MAX];
  for (uint32_t k = 0; k < x->free_count; k++)
    bound[k] = (IndexBinding){x->free[k], place[c->args[k]]};
  for (uint32_t k = 0; k < x->rank; k++)
    own[k] = place[c->args[x->free_count + k]];
  return body_read_bound(b, x, own, x->free_count, bound);
}

static uint32_t copy_cell(Body *b, const Node *n, const Cell *c,
                          const uint32_t *place) {
  uint32_t args[3] = {0};
  for (uint32_t k = 0; c->kind != CELL_READ && k < c->arg_count && k < 3; k++)
    args[k] = place[c->args[k]];
  switch (c->kind) {
  case CELL_CONST:
    return body_const(b, c->value);
  case CELL_SIZE:
    return body_int(b, c->size);
  case CELL_AXIS:
    return c->axis < n->free_count ? body_free(b, c->axis)
                                   : body_own(b, c->axis - n->free_count);
  case CELL_READ:
    return copy_read(b, c, place);
  case CELL_OP:
    return body_op(b, c->op, c->dtype, c->arg_count, args);
  case CELL_SELECT:
    return body_select(b, args[0], args[1], args[2]);
  case CELL_CONVERT:
    return body_convert(b, args[0], c->dtype);
  case CELL_RANDOM:
    return body_random(b, c->op, c->key, c->dtype, args[0]);
  }
  return 0;
}

/* It is needed where the node is, no more: elsewhere it may not be run. */
static Node *guarded(Folding *f, Body *b, const Node *n) {
  Graph *g = f->g;
  Node *outer = g->guard, *made;
  Fault fault = {0};
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    g->guard = outer;
    trap_raise(trap.kind);
  }
  if (n->guard && !n->guard->open)
    g->guard = n->guard;
  made = body_node(b, g, &fault);
  trap_end(&trap);
  g->guard = outer;
  return made;
}

/* Cell `at` of the node as a node of the same axes. */
static Node *part_of(Folding *f, const Node *n, uint32_t at) {
  Form form = {.dtype = n->cells[at].dtype, .rank = n->rank, .stars = n->stars};
  for (uint32_t k = 0; k < n->free_count; k++)
    form_free_add(&form, n->free[k]);
  memcpy(form.own, node_own(n), n->rank * sizeof form.own[0]);
  bool *needed = NEW_ARRAY(f->arena, bool, at + 1);
  uint32_t *place = NEW_ARRAY(f->arena, uint32_t, at + 1);
  need_cells(n, at, needed);
  Body b;
  body_init(&b, f->g, &form);
  for (uint32_t k = 0; k <= at; k++)
    if (needed[k])
      place[k] = copy_cell(&b, n, &n->cells[k], place);
  /* the last cell is the value: one that was there already is not */
  if (place[at] + 1 != b.count) {
    body_drop(&b);
    return NULL;
  }
  return guarded(f, &b, n);
}

/* ---- a turn, flattened ---- */

static uint32_t flatten(Folding *f, Node *n);

/* Is it read at the place that is computed? */
static bool reads_there(const Node *n, const Cell *c) {
  const Node *x = c->node;
  bool there = true;
  for (uint32_t k = 0; k < c->arg_count; k++) {
    const Cell *index = &n->cells[c->args[k]];
    there &= k < x->free_count ? is_free_axis(n, index, x->free[k])
                               : is_own_axis(n, index, k - x->free_count);
  }
  return there;
}

static uint32_t before_loop(Folding *f, const Node *n, uint32_t at) {
  const Cell *c = &n->cells[at];
  if (c->kind == CELL_CONST)
    return add_cell(f, c, NULL);
  if (c->kind == CELL_READ && reads_there(n, c) &&
      (has_shape(f, c->node) || c->node->rank == 0))
    return input_of(f, c->node);
  Node *part = part_of(f, n, at);
  f->failed |= !part;
  return part ? add_input(f, part) : 0;
}

static bool can_fail(const Node *n, const Cell *c) {
  if (c->kind != CELL_OP || dtype_is_float(c->dtype) ||
      (c->op != PRIM_DIV && c->op != PRIM_MOD && c->op != PRIM_POW))
    return false;
  const Cell *y = &n->cells[c->args[1]];
  return y->kind != CELL_CONST || y->value.i <= 0;
}

static uint32_t flatten_cell(Folding *f, const Node *n, uint32_t at,
                             const uint32_t *place) {
  const Cell *c = &n->cells[at];
  uint32_t args[3];
  if (c->kind == CELL_READ)
    return reads_there(n, c) ? flatten(f, c->node) : (f->failed = true, 0);
  f->failed |= can_fail(n, c) || c->kind == CELL_RANDOM || c->arg_count > 3;
  for (uint32_t k = 0; !f->failed && k < c->arg_count; k++)
    args[k] = place[c->args[k]] ? place[c->args[k]] - 1
                                : before_loop(f, n, c->args[k]);
  return f->failed ? 0 : add_cell(f, c, args);
}

static bool cell_depends(Folding *f, const Node *n, uint32_t at,
                         const uint32_t *place) {
  const Cell *c = &n->cells[at];
  bool depends = c->kind == CELL_READ && depends_on(c->node);
  for (uint32_t k = 0; k < c->arg_count; k++) {
    f->failed |= c->kind == CELL_READ && place[c->args[k]];
    depends |= place[c->args[k]] != 0;
  }
  return depends;
}

static uint32_t flatten_body(Folding *f, const Node *n) {
  uint32_t *place = NEW_ARRAY(f->arena, uint32_t, n->cell_count);
  for (uint32_t k = 0; k < n->cell_count && !f->failed; k++)
    if (cell_depends(f, n, k, place))
      place[k] = flatten_cell(f, n, k, place) + 1;
  uint32_t last = n->cell_count - 1;
  return place[last] || f->failed ? place[last] - 1 : before_loop(f, n, last);
}

static uint32_t state_of(Folding *f, const Node *n) {
  for (uint32_t k = 0; k < f->turn->state_count; k++)
    if (f->turn->states[k] == n) {
      if (!f->states[k])
        f->states[k] = add_operand(f, n) + 1;
      return f->states[k] - 1;
    }
  f->failed = true; /* another loop's */
  return 0;
}

static uint32_t flatten(Folding *f, Node *n) {
  uintptr_t known = (uintptr_t)map_get(&f->flat, n);
  uint32_t cell = 0;
  if (known || f->failed)
    return known ? (uint32_t)known - 1 : 0;
  if (!has_shape(f, n) || ++f->depth > DEPTH_MOST) {
    f->failed = true;
    return 0;
  }
  if (n->kind == NODE_STATE)
    cell = state_of(f, n);
  else if (!depends_on(n))
    cell = input_of(f, n);
  else if (n->kind == NODE_COMP && n->reduce == PRIM_NONE &&
           (n->safe || !n->guard || !n->guard->open))
    cell = flatten_body(f, n);
  else
    f->failed = true;
  f->depth--;
  if (!f->failed)
    map_put(&f->flat, n, (void *)(uintptr_t)(cell + 1));
  return cell;
}

/* ---- the node ---- */

typedef struct Values { /* cells of what a turn comes to */
  uint32_t *next;       /* of each state that is needed */
  uint32_t out;
} Values;

/* What one output needs: its cell, and those of all states that it needs, which
 * may need others. */
static void flatten_turn(Folding *f, uint32_t output, Values *v) {
  uint32_t states = f->turn->state_count;
  bool *done = NEW_ARRAY(f->arena, bool, states), more = true;
  v->next = NEW_ARRAY(f->arena, uint32_t, states);
  if (output < states)
    state_of(f, f->turn->states[output]);
  else
    v->out = flatten(f, f->turn->results[output]);
  while (more && !f->failed) {
    more = false;
    for (uint32_t k = 0; k < states && !f->failed; k++) {
      if (done[k] || !f->states[k])
        continue;
      done[k] = more = true;
      f->failed |= !has_shape(f, f->turn->initial[k]) ||
                   f->turn->initial[k]->dtype != f->turn->states[k]->dtype;
      v->next[k] = flatten(f, f->turn->results[k]);
    }
  }
}

/* The elementary reduction that a turn is; PRIM_NONE: it is none. */
static PrimId reduction_of(const Folding *f, const Values *v) {
  const Cell *c = &f->cells.at[v->next[0]];
  if (f->cells.len != 3 || f->inputs.len != 1 || !(f->turning & 1) ||
      f->inputs.at[0]->rank != f->shape->rank + 1 || c->kind != CELL_OP ||
      c->arg_count != 2 || c->args[0] == c->args[1])
    return PRIM_NONE;
  switch ((int)c->op) {
  case PRIM_ADD:
    return PRIM_SUM;
  case PRIM_MUL:
    return PRIM_PROD;
  case PRIM_MAXIMUM:
    return PRIM_MAX;
  case PRIM_MINIMUM:
    return PRIM_MIN;
  case PRIM_OR:
    return PRIM_ANY;
  case PRIM_AND:
    return PRIM_ALL;
  }
  return PRIM_NONE;
}

/* reduce by an operation that there is a reduction of: e, and all elements. */
static Node *reduction(const Folding *f, const Values *v, PrimId op,
                       Fault *fault) {
  const Cell *c = &f->cells.at[v->next[0]];
  Node *all = node_reduce(f->g, op, f->inputs.at[0], 0, 1, false, fault);
  if (!all)
    return NULL;
  Node *both[2] = {f->turn->initial[0], all};
  Node *made = node_map(f->g, c->op, 2, both, DT_NONE, fault);
  node_release(all);
  return made;
}

/* Operands are states, then inputs; the last cells are what the states become,
 * and then what is kept of the turn. */
static void finish_cells(Folding *f, uint32_t output, const Values *v) {
  uint32_t states = 0, count = f->turn->state_count;
  for (uint32_t k = 0; k < count; k++)
    if (f->states[k])
      f->cells.at[f->states[k] - 1].axis = states++;
  for (uint32_t k = 0; k < f->operands.len; k++)
    f->cells.at[f->operands.at[k]].axis = states + k;
  for (uint32_t k = 0; k <= count; k++) {
    bool has = k < count ? f->states[k] != 0 : output >= count;
    uint32_t value = k < count ? v->next[k] : v->out;
    Cell copy = {.kind = CELL_CONVERT, .arg_count = 1};
    copy.dtype = f->cells.at[value].dtype;
    copy.span = f->cells.at[value].span;
    if (has)
      add_cell(f, &copy, &value);
  }
}

static Cell *cells_copied(const Folding *f) {
  size_t args = 0, size = f->cells.len * sizeof(Cell);
  for (uint32_t k = 0; k < f->cells.len; k++)
    args += f->cells.at[k].arg_count;
  Cell *cells = mem_try_alloc(size + args * sizeof(uint32_t));
  if (!cells)
    trap_raise(FAIL_MEMORY);
  uint32_t *at = (uint32_t *)(cells + f->cells.len);
  for (uint32_t k = 0; k < f->cells.len; k++) {
    cells[k] = f->cells.at[k];
    if (cells[k].arg_count)
      memcpy(at, cells[k].args, cells[k].arg_count * sizeof *at);
    cells[k].args = at;
    at += cells[k].arg_count;
  }
  return cells;
}

static Node *loop_node(Folding *f, uint32_t output, Fault *fault) {
  const FoldTurn *t = f->turn;
  bool all = output >= t->state_count;
  uint32_t count = 0, place = 0;
  Node **inputs =
      NEW_ARRAY(f->arena, Node *, t->state_count + f->inputs.len + 1);
  for (uint32_t k = 0; k < t->state_count; k++) {
    place += f->states[k] && k < output;
    if (f->states[k])
      inputs[count++] = t->initial[k];
  }
  FoldLoop loop = {.turns = t->at->extent,
                   .states = count,
                   .turning = f->turning << count,
                   .output = all ? 0 : place};
  for (uint32_t k = 0; k < f->inputs.len; k++)
    inputs[count++] = f->inputs.at[k];
  loop.cell_count = f->cells.len;
  loop.cells = cells_copied(f);
  return node_in_order(f->g, &loop, all, f->shape, count, inputs,
                       t->results[output]->dtype, fault);
}

static Node *fold_output(Folding *f, uint32_t output, Fault *fault) {
  Values v = {.out = 0};
  f->states = NEW_ARRAY(f->arena, uint32_t, f->turn->state_count);
  f->shape = f->turn->results[output];
  flatten_turn(f, output, &v);
  if (f->failed)
    return NULL;
  PrimId op = f->turn->reduces && f->turn->state_count == 1
                  ? reduction_of(f, &v)
                  : PRIM_NONE;
  if (op != PRIM_NONE)
    return reduction(f, &v, op, fault);
  finish_cells(f, output, &v);
  f->failed |= f->turn->state_count + f->inputs.len > OPERANDS_MOST;
  return f->failed ? NULL : loop_node(f, output, fault);
}

static void let_go(Folding *f) {
  for (uint32_t k = 0; k < f->inputs.len; k++)
    node_release(f->inputs.at[k]);
  arena_free(f->arena);
}

Node *node_fold(Graph *g, const FoldTurn *turn, uint32_t output, Fault *fault) {
  Folding f = {.g = g, .arena = arena_new(), .turn = turn};
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    let_go(&f);
    trap_raise(trap.kind);
  }
  map_init(&f.flat, f.arena);
  Node *made = fold_output(&f, output, fault);
  trap_end(&trap);
  let_go(&f);
  return made;
}
