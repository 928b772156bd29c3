/* Loops that are run at once: a turn, which was run once with a state that has
 * no value, is planned once, and its kernels run turn after turn, each on what
 * the turn before has left, with no host between.
 *
 * What of a turn does not depend on the state is run before the loop, for all
 * turns together: then each has a row of it.  Only moves and formulas stay in
 * the turn, where kernels do them on the way. */
#include "tensor/recipe.h"
#include "tensor/watch.h"

#include <string.h>

enum {
  NODES_MOST = 2000, /* of a turn */
  INDEX_CELLS = 24,
  INDEX_DEPTH = 6,
  INDEX_WORK = 4, /* a sine is better kept than computed in each turn */
  BYTES_MOST = 1 << 28, /* of what is computed for all turns */
};

typedef struct Row { /* what is another row of a tensor in each turn */
  Node *leaf;
  Node *all;    /* that has it; or NULL: the leaf itself, before */
  Tensor *rows; /* counted */
} Row;

typedef struct Stacked { /* what is kept of each turn */
  Tensor *all;
  size_t bytes; /* of one */
} Stacked;

typedef VEC(Node *) Dying; /* what is read for the last time */

typedef struct Looping {
  Graph *g;
  Arena *arena;
  const FoldTurn *turn;
  int64_t turns;
  Map seen;
  VEC(Node *) todo, inside; /* inside: what is run in each turn, */
  VEC(Node *) before;       /* and before the loop */
  VEC(Node *) roots;
  VEC(Row) rows;
  int64_t bytes;
  bool tensors; /* it is more than numbers */
  bool failed;
  Node **states;        /* NULL: the turn does not need it */
  Tensor **now, **next; /* what they are; counted */
  Stacked *kept;
  VEC(Node *) held; /* counted */
  Reached reached;
  Dying *dying; /* by clusters */
  Run run;
} Looping;

/* ---- what is run when ---- */

static bool depends(const Node *n) {
  return n->open || (n->guard && n->guard->open);
}

/* The axis of n that is the turn; UINT32_MAX: it has none. */
static uint32_t turn_axis(const Looping *l, const Node *n) {
  uint32_t k = 0;
  while (k < n->free_count && n->free[k] != l->turn->at)
    k++;
  return k < n->free_count ? k : UINT32_MAX;
}

/* Is it the turn's number in no other way than as the turn of what it reads?
 */
static bool is_of_one_turn(const Looping *l, const Node *n) {
  uint32_t axis = turn_axis(l, n), last = n->cell_count - 1;
  for (uint32_t k = 0; k < n->cell_count; k++) {
    const Cell *c = &n->cells[k];
    if (c->kind == CELL_AXIS && c->axis == axis && k == last)
      return false;
    for (uint32_t j = 0; j < c->arg_count; j++) {
      const Cell *x = &n->cells[c->args[j]];
      bool turn = c->kind == CELL_READ && j < c->node->free_count &&
                  c->node->free[j] == l->turn->at;
      if ((x->kind == CELL_AXIS && x->axis == axis) != turn)
        return false;
    }
  }
  return true;
}

/* Are its elements, or numbers, just put elsewhere? */
static bool is_move(const Node *n) {
  bool move = n->kind == NODE_COMP && n->reduce == PRIM_NONE && !n->guard;
  for (uint32_t k = 0; move && k < n->cell_count; k++) {
    const Cell *c = &n->cells[k];
    move = c->kind == CELL_CONST || c->kind == CELL_AXIS ||
           c->kind == CELL_READ ||
           (c->kind == CELL_OP && c->dtype == DT_I64 &&
            (c->op == PRIM_ADD || c->op == PRIM_SUB || c->op == PRIM_MUL));
  }
  return move && n->cells[n->cell_count - 1].kind != CELL_OP;
}

/* Is it of indices and numbers alone, by little?  Kernels compute that on the
 * way, and know then what is read at it. */
static bool is_of_indices(const Node *n, uint32_t depth) {
  bool of = n->kind == NODE_COMP && n->reduce == PRIM_NONE && !n->data &&
            n->cell_count <= INDEX_CELLS && depth < INDEX_DEPTH;
  for (uint32_t k = 0; of && k < n->cell_count; k++) {
    const Cell *c = &n->cells[k];
    of = c->kind != CELL_RANDOM &&
         (c->kind != CELL_OP || prim_cost(c->op) <= INDEX_WORK) &&
         (c->kind != CELL_READ || is_of_indices(c->node, depth + 1));
  }
  return of;
}

static void add_children(Looping *l, const Node *n) {
  for (uint32_t k = 0; k < node_child_count(n); k++)
    if (node_child(n, k))
      VEC_PUSH(l->arena, l->todo, node_child(n, k));
}

/* It is there as long as the loop, and no kernel takes its memory. */
static void hold(Looping *l, Node *n) {
  VEC_PUSH(l->arena, l->held, n);
  node_retain(n);
}

static void let_held_go(Looping *l) {
  for (uint32_t k = 0; k < l->held.len; k++)
    node_release(l->held.at[k]);
  l->held.len = 0;
}

static void run_before(Looping *l, Node *n) {
  hold(l, n);
  if (!n->data)
    VEC_PUSH(l->arena, l->before, n);
}

static void run_inside(Looping *l, Node *n) {
  l->failed |= l->inside.len >= NODES_MOST;
  l->tensors |= n->rank > 0 || n->reduce != PRIM_NONE;
  VEC_PUSH(l->arena, l->inside, n);
  add_children(l, n);
}

static void add_state(Looping *l, const Node *n) {
  uint32_t k = 0;
  while (k < l->turn->state_count && l->turn->states[k] != n)
    k++;
  if (k == l->turn->state_count)
    l->failed = true; /* another loop's */
  else
    l->states[k] = l->turn->states[k];
}

/* All turns of it are there before the loop. */
static void add_row(Looping *l, Node *n, Node *all) {
  int64_t count = node_count(n), bytes = dtype_info[n->dtype].bytes;
  bool made = !all && !n->data;
  VEC_PUSH(l->arena, l->rows, ((Row){.leaf = n, .all = all}));
  if (all)
    run_before(l, all);
  else if (made)
    VEC_PUSH(l->arena, l->before, n);
  l->failed |= made && count > (BYTES_MOST - l->bytes) / bytes;
  if (made && !l->failed)
    l->bytes += count * bytes;
}

static void look_at(Looping *l, Node *n) {
  bool turning = turn_axis(l, n) != UINT32_MAX;
  if (n->kind == NODE_STATE) {
    add_state(l, n);
  } else if (depends(n)) {
    l->failed |=
        n->kind == NODE_COMP ? !is_of_one_turn(l, n) : n->kind != NODE_OPAQUE;
    run_inside(l, n);
  } else if (turning) {
    Node *all = n->data ? NULL : node_row_of(n, l->turn->at);
    bool formula = n->kind == NODE_COMP && n->reduce == PRIM_NONE && !n->guard;
    if (all || n->data || !formula || !is_of_one_turn(l, n))
      add_row(l, n, all);
    else
      run_inside(l, n);
  } else if (!n->data && (is_move(n) || is_of_indices(n, 0))) {
    add_children(l, n);
  } else {
    run_before(l, n);
  }
}

static void look(Looping *l) {
  const FoldTurn *t = l->turn;
  map_init(&l->seen, l->arena);
  l->roots.len = l->rows.len = l->inside.len = l->before.len = 0;
  for (uint32_t k = 0; k < t->state_count + t->out_count; k++)
    VEC_PUSH(l->arena, l->roots, t->results[k]);
  if (t->more)
    VEC_PUSH(l->arena, l->roots, t->more);
  for (uint32_t k = 0; k < l->roots.len; k++)
    VEC_PUSH(l->arena, l->todo, l->roots.at[k]);
  while (l->todo.len && !l->failed) {
    Node *n = l->todo.at[--l->todo.len];
    if (map_get(&l->seen, n))
      continue;
    map_put(&l->seen, n, n);
    look_at(l, n);
  }
  l->failed |= !l->tensors; /* numbers are quicker on the host */
}

static bool has_shape_of(const Node *n, const Node *like) {
  return n->dtype == like->dtype && n->rank == like->rank &&
         n->stars == like->stars &&
         (!n->rank ||
          memcmp(node_own(n), node_own(like), n->rank * sizeof(int64_t)) == 0);
}

static bool keeps_shapes(const FoldTurn *t) {
  for (uint32_t k = 0; k < t->state_count; k++)
    if (!has_shape_of(t->results[k], t->initial[k]) ||
        !has_shape_of(t->states[k], t->initial[k]))
      return false;
  return true;
}

/* ---- one turn of what was made for all ---- */

/* Reads are of one turn. */
static void drop_arguments(Looping *l, const Node *n) {
  uint32_t axis = turn_axis(l, n);
  for (uint32_t k = 0; n->kind == NODE_COMP && k < n->cell_count; k++) {
    Cell *c = &n->cells[k];
    uint32_t at = c->kind == CELL_READ ? turn_axis(l, c->node) : UINT32_MAX;
    if (c->kind == CELL_AXIS && c->axis == axis)
      *c = (Cell){.kind = CELL_CONST, .dtype = DT_I64, .value = {DT_I64, {0}}};
    else if (c->kind == CELL_AXIS && axis != UINT32_MAX && c->axis > axis)
      c->axis--;
    if (at == UINT32_MAX)
      continue;
    c->arg_count--;
    memmove(c->args + at, c->args + at + 1,
            (c->arg_count - at) * sizeof *c->args);
  }
}

static void drop_axis(Looping *l, Node *n) {
  uint32_t axis = turn_axis(l, n);
  n->open = false;
  if (axis == UINT32_MAX)
    return;
  uint32_t axes = n->free_count + n->rank + n->reduce_count;
  index_var_release(n->free[axis]);
  n->free_count--;
  memmove(n->free + axis, n->free + axis + 1,
          (n->free_count - axis) * sizeof *n->free);
  memmove(n->extents + axis, n->extents + axis + 1,
          (axes - axis - 1) * sizeof *n->extents);
}

static Tensor *got(Tensor *t) {
  if (!t)
    trap_raise(FAIL_MEMORY);
  return t;
}

/* Its data are others in each turn.  The loop holds it, once: planning may find
 * that nothing reads it. */
static void make_leaf(Looping *l, Node *n) {
  node_settle(n);
  tensor_release(n->data);
  n->data = NULL;
  n->there = true;
  drop_axis(l, n);
}

static Tensor *row_at(const Row *r, int64_t turn) {
  Tensor *t = got(tensor_part(r->rows, turn, 1));
  t->rank--;
  memmove(t->shape, t->shape + 1, t->rank * sizeof *t->shape);
  return t;
}

static void make_turn(Looping *l) {
  const FoldTurn *t = l->turn;
  for (uint32_t k = 0; k < l->rows.len; k++) {
    Row *r = &l->rows.at[k];
    r->rows = tensor_retain(r->all ? r->all->data : r->leaf->data);
    hold(l, r->leaf);
  }
  for (uint32_t k = 0; k < l->inside.len; k++)
    drop_arguments(l, l->inside.at[k]);
  for (uint32_t k = 0; k < l->inside.len; k++)
    drop_axis(l, l->inside.at[k]);
  for (uint32_t k = 0; k < l->rows.len; k++) {
    make_leaf(l, l->rows.at[k].leaf);
    l->rows.at[k].leaf->data = row_at(&l->rows.at[k], 0);
  }
  for (uint32_t k = 0; k < t->state_count; k++) {
    l->now[k] = tensor_retain(t->initial[k]->data);
    if (!l->states[k])
      continue;
    make_leaf(l, l->states[k]);
    l->states[k]->data = tensor_retain(l->now[k]);
  }
}

/* Where they are already, the part that is read goes on in memory. */
static void next_row(Row *r, int64_t turn) {
  Tensor *t = r->leaf->data;
  if (t && t->refs == 1 && !t->kept) {
    t->data = tensor_at(r->rows, turn * t->count);
    return;
  }
  tensor_release(t);
  r->leaf->data = NULL;
  r->leaf->data = row_at(r, turn);
}

/* ---- the plan ---- */

/* Who watches is told of a plan that nobody keeps. */
static bool plan_watched(Looping *l, Fault *fault) {
  if (!run_find_watched(&l->run, l->roots.len, l->roots.at, fault))
    return false;
  for (uint32_t k = 0; k < l->run.count; k++) {
    const Cluster *c = l->run.clusters[k];
    for (uint32_t j = 0; j < c->nodes.len; j++) {
      VEC_PUSH(l->arena, l->reached.nodes, c->nodes.at[j]);
      VEC_PUSH(l->arena, l->held, node_retain(c->nodes.at[j]));
    }
  }
  l->reached.computed = l->reached.nodes.len;
  return true;
}

static bool plan_turn(Looping *l, Fault *fault) {
  l->run.times = (double)l->turns;
  if (l->g->watch)
    return plan_watched(l, fault);
  if (!run_find(&l->run, l->roots.len, l->roots.at, fault))
    return false;
  recipe_reach(l->arena, l->run.recipe, &l->run.outline, &l->reached);
  for (uint32_t k = 0; k < l->reached.nodes.len; k++)
    hold(l, l->reached.nodes.at[k]);
  return true;
}

/* What may go as soon as a cluster has run. */
static void find_dying(Looping *l) {
  Map inner;
  map_init(&inner, l->arena);
  for (uint32_t k = 0; k < l->reached.computed; k++)
    map_put(&inner, l->reached.nodes.at[k], l->reached.nodes.at[k]);
  for (uint32_t k = 0; k < l->run.count; k++) {
    const Cluster *c = l->run.clusters[k];
    for (uint32_t j = 0; c->dying && j < c->kernel->inputs.len; j++) {
      Node *x = (Node *)(uintptr_t)c->kernel->inputs.at[j];
      if (c->dying[j] && map_get(&inner, x))
        VEC_PUSH(l->arena, l->dying[k], x);
    }
  }
}

/* ---- turns ---- */

static void drop_data(Node *n) {
  tensor_release(n->data);
  n->data = NULL;
}

static bool run_turn(Looping *l, Fault *fault) {
  Span where = {0};
  for (uint32_t k = 0; k < l->run.count; k++) {
    if (!run_cluster(l->g, l->run.clusters[k], k, &where, fault))
      return false;
    for (uint32_t j = 0; j < l->dying[k].len; j++)
      drop_data(l->dying[k].at[j]);
  }
  return true;
}

static void keep_of_turn(Looping *l, int64_t turn) {
  const FoldTurn *t = l->turn;
  for (uint32_t k = 0; k < t->out_count; k++) {
    const Tensor *one = l->turn->results[t->state_count + k]->data;
    Stacked *kept = &l->kept[k];
    if (kept->bytes)
      memcpy((char *)kept->all->data + (size_t)turn * kept->bytes, one->data,
             kept->bytes);
  }
}

/* Is there another one? */
static bool goes_on(const Looping *l, int64_t turn) {
  const Node *more = l->turn->more;
  return more ? *(const bool *)more->data->data : turn + 1 < l->turns;
}

static void end_turn(Looping *l, int64_t turn) {
  const FoldTurn *t = l->turn;
  keep_of_turn(l, turn);
  for (uint32_t k = 0; k < t->state_count; k++)
    l->next[k] = tensor_retain(l->turn->results[k]->data);
  for (uint32_t k = 0; k < l->reached.computed; k++)
    drop_data(l->reached.nodes.at[k]);
  for (uint32_t k = 0; k < t->state_count; k++) {
    tensor_release(l->now[k]);
    l->now[k] = l->next[k];
    l->next[k] = NULL;
  }
}

/* What the state is now is the node's alone, so that its memory can be that of
 * the next one. */
static void begin_turn(Looping *l, int64_t turn) {
  for (uint32_t k = 0; k < l->rows.len; k++)
    next_row(&l->rows.at[k], turn);
  for (uint32_t k = 0; k < l->turn->state_count; k++) {
    Node *n = l->states[k];
    if (!n)
      continue;
    tensor_release(n->data);
    n->data = NULL;
    n->data = l->now[k];
    l->now[k] = NULL;
  }
}

static bool run_turns(Looping *l, Fault *fault) {
  bool more = true;
  for (int64_t turn = 0; more; turn++) {
    if (turn)
      begin_turn(l, turn);
    if (l->g->interrupt && flag_is_set(l->g->interrupt))
      trap_raise(FAIL_INTERRUPT);
    if (turn && l->g->watch)
      l->g->watch->again(l->g->watch->owner);
    if (!run_turn(l, fault))
      return false;
    more = goes_on(l, turn);
    end_turn(l, turn);
  }
  return true;
}

/* Files that were read may have changed: then the host finds it out, too. */
static bool is_whole(const Looping *l, Fault *fault) {
  for (uint32_t k = 0; k < l->rows.len; k++)
    if (!tensor_check(l->rows.at[k].rows, fault))
      return false;
  return run_is_whole(&l->run, fault);
}

/* ---- all of it ---- */

static bool make_kept(Looping *l, Fault *fault) {
  const FoldTurn *t = l->turn;
  for (uint32_t k = 0; k < t->out_count; k++) {
    const Node *n = t->results[t->state_count + k];
    Stacked *kept = &l->kept[k];
    int64_t shape[RANK_MAX];
    if (n->rank == RANK_MAX)
      return false;
    shape[0] = l->turns;
    memcpy(shape + 1, node_own(n), n->rank * sizeof *shape);
    kept->all = tensor_new(n->dtype, n->rank + 1, shape, false, fault);
    if (!kept->all)
      return false;
    kept->all->stars = n->stars << 1;
    kept->bytes = (size_t)extents_product(n->rank, node_own(n)) *
                  dtype_info[n->dtype].bytes;
  }
  return true;
}

static Node *data_of(Looping *l, Tensor *t) {
  VEC_PUSH(l->arena, l->held, node_data(l->g, t));
  return l->held.at[l->held.len - 1];
}

static bool make_results(Looping *l, Node **out, Fault *fault) {
  const FoldTurn *t = l->turn;
  for (uint32_t k = 0; k < t->state_count; k++) {
    const Node *n = t->initial[k];
    Tensor *own = tensor_settled(l->now[k], fault);
    if (!own)
      return false;
    tensor_release(l->now[k]);
    l->now[k] = own;
    own->stars = n->stars;
    out[k] = data_of(l, own);
  }
  for (uint32_t k = 0; k < t->out_count; k++)
    out[t->state_count + k] = data_of(l, l->kept[k].all);
  for (uint32_t k = 0; k < t->state_count + t->out_count; k++)
    node_retain(out[k]);
  return true;
}

/* That may have stored what turns would compute, too, or have let go of what
 * they would read: so they are looked at again. */
static bool begin_loop(Looping *l, Fault *fault) {
  const FoldTurn *t = l->turn;
  Span where = {0};
  look(l);
  for (uint32_t k = 0; k < t->state_count; k++)
    run_before(l, t->initial[k]);
  for (uint32_t k = 0; k < l->before.len; k++)
    hold(l, l->before.at[k]);
  if (l->failed ||
      !graph_force(l->g, l->before.len, l->before.at, &where, fault))
    return false;
  let_held_go(l);
  look(l);
  return !l->failed && !l->before.len;
}

static bool run_loop(Looping *l, Node **out) {
  Fault unheard = {0};
  if (!keeps_shapes(l->turn) || !begin_loop(l, &unheard) ||
      !make_kept(l, &unheard))
    return false;
  make_turn(l);
  run_begin(l->g, &l->run);
  if (!plan_turn(l, &unheard))
    return false;
  l->dying = NEW_ARRAY(l->arena, Dying, l->run.count);
  find_dying(l);
  return run_turns(l, &unheard) && is_whole(l, &unheard) &&
         make_results(l, out, &unheard);
}

static void let_go(Looping *l) {
  const FoldTurn *t = l->turn;
  for (uint32_t k = 0; k < t->state_count; k++)
    node_release(t->states[k]);
  if (l->run.graph)
    run_end(&l->run);
  let_held_go(l);
  for (uint32_t k = 0; k < l->rows.len; k++)
    tensor_release(l->rows.at[k].rows);
  for (uint32_t k = 0; l->now && k < t->state_count; k++) {
    tensor_release(l->now[k]);
    tensor_release(l->next[k]);
  }
  for (uint32_t k = 0; l->kept && k < t->out_count; k++)
    tensor_release(l->kept[k].all);
  arena_free(l->arena);
}

static bool can_run(const Graph *g) {
  return g->backend && g->backend->kernels && g->backend->parts &&
         !g->guard && !g->sizes;
}

bool graph_turns(Graph *g, const FoldTurn *turn, Node **out) {
  Looping l = {.g = g, .turn = turn, .turns = turn->at->extent};
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    let_go(&l);
    trap_raise(trap.kind);
  }
  l.arena = arena_new();
  l.states = NEW_ARRAY(l.arena, Node *, turn->state_count + 1);
  l.now = NEW_ARRAY(l.arena, Tensor *, 2 * turn->state_count + 1);
  l.next = l.now + turn->state_count;
  l.kept = NEW_ARRAY(l.arena, Stacked, turn->out_count + 1);
  bool good = can_run(g) && run_loop(&l, out);
  trap_end(&trap);
  let_go(&l);
  return good;
}
