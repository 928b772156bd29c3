/* Recipes: what a plan came to, in the numbers of an outline; and clusters of
 * other nodes made by them. */
#include "tensor/recipe.h"
#include "tensor/watch.h"

#include <string.h>

enum { OFTEN = 256 }; /* times as much as is worth a compiler */

typedef struct Made { /* a stored node with its fused body */
  uint32_t number;
  PrimId reduce;
  uint32_t reduce_count;
  int64_t *extents; /* NULL: they are the node's still */
  Cell *cells;      /* of reads: numbers instead of nodes */
  uint32_t cell_count, arg_count;
} Made;

typedef struct RecipeCluster {
  uint32_t count, input_count;
  Made *made;
  bool routine;
  bool compiled;    /* a backend has something in the place of bodies */
  uint32_t *inputs; /* of the kernel */
  bool *dying;      /* of each: nothing reads it later */
  uint32_t same;    /* 1 + whose data it has; or 0 */
  void *backend;
  const char *interpreted;
} RecipeCluster;

struct Recipe {
  uint32_t count;
  RecipeCluster *clusters;
  VEC(uint32_t)
  late;               /* nodes that are read after the last of their readers in
                         the graph has let go of them (find_late) */
  double work, least; /* operations that are interpreted, in a run; for which
                         a compiler is worth it */
  double runs;
  bool odd; /* how often it has run */
};

/* ---- from a plan ---- */

typedef struct Maker {
  Arena *arena;
  const Outline *o;
  Map leaves; /* Node * to its number and 1 */
} Maker;

static uint32_t number_of(const Maker *m, const Node *n) {
  if (n->mark)
    return n->mark - 1;
  return (uint32_t)(uintptr_t)map_get(&m->leaves, n) - 1;
}

static void take_cells(const Maker *m, const Node *n, Made *made) {
  for (uint32_t k = 0; k < n->cell_count; k++)
    made->arg_count += n->cells[k].arg_count;
  made->cell_count = n->cell_count;
  made->cells = NEW_ARRAY(m->arena, Cell, n->cell_count);
  uint32_t *args = NEW_ARRAY(m->arena, uint32_t, made->arg_count);
  for (uint32_t k = 0; k < n->cell_count; k++) {
    Cell *c = &made->cells[k];
    *c = n->cells[k];
    c->args = args;
    args += c->arg_count;
    if (c->arg_count)
      memcpy(c->args, n->cells[k].args, c->arg_count * sizeof *args);
    if (c->kind == CELL_READ)
      c->node = (Node *)(uintptr_t)number_of(m, c->node);
  }
}

static void take_body(const Maker *m, const Node *n, Made *made) {
  uint32_t axes = n->free_count + n->rank + n->reduce_count;
  made->number = number_of(m, n);
  if (n->kind != NODE_COMP)
    return;
  made->reduce = n->reduce;
  made->reduce_count = n->reduce_count;
  if (n->extents != (const int64_t *)(n + 1)) {
    made->extents = NEW_ARRAY(m->arena, int64_t, axes);
    memcpy(made->extents, n->extents, axes * sizeof *made->extents);
  }
  take_cells(m, n, made);
}

static void take_cluster(const Maker *m, const Cluster *c, RecipeCluster *r) {
  r->count = c->nodes.len;
  r->made = NEW_ARRAY(m->arena, Made, r->count);
  for (uint32_t k = 0; k < r->count; k++)
    take_body(m, c->nodes.at[k], &r->made[k]);
  r->backend = c->backend;
  r->routine = c->routine;
  r->interpreted = c->interpreted;
  r->compiled = c->backend != NULL;
  r->same = c->same ? number_of(m, c->same) + 1 : 0;
  if (!c->kernel)
    return;
  r->input_count = c->kernel->inputs.len;
  r->inputs = NEW_ARRAY(m->arena, uint32_t, r->input_count);
  for (uint32_t k = 0; k < r->input_count; k++)
    r->inputs[k] = number_of(m, c->kernel->inputs.at[k]);
}

static double work_of(const Node *n) {
  uint32_t axes = n->free_count + n->rank + n->reduce_count;
  return (double)n->cell_count * (double)extents_product(axes, n->extents);
}

/* ---- what is read for the last time ---- */

enum { NEVER = UINT32_MAX };

/* When each node lets go of what it reads: with the cluster that leaves its
 * data, or when all that read it have; else never. */
static void find_last(const Maker *m, const Plan *plan, uint32_t *last) {
  const Outline *o = m->o;
  uint32_t *times = NEW_ARRAY(plan->arena, uint32_t, o->nodes.len);
  bool *stored = NEW_ARRAY(plan->arena, bool, o->nodes.len);
  for (uint32_t k = 0; k < plan->clusters.len; k++) {
    const Cluster *c = plan->clusters.at[k];
    for (uint32_t j = 0; j < c->nodes.len; j++) {
      uint32_t number = number_of(m, c->nodes.at[j]);
      times[number] = k;
      stored[number] = !c->backend || cluster_stores(c, c->nodes.at[j]);
    }
  }
  for (uint32_t k = o->nodes.len; k-- > 0;) {
    if (!stored[k])
      times[k] = o->held[k] ? NEVER : last[k];
    for (uint32_t j = k ? o->child_end.at[k - 1] : 0; j < o->child_end.at[k];
         j++) {
      uint32_t x = o->children.at[j];
      last[x] = times[k] > last[x] ? times[k] : last[x];
    }
  }
}

static void read_at(const Maker *m, Recipe *r, uint32_t *last, uint32_t number,
                    uint32_t at) {
  if (last[number] >= at)
    return;
  last[number] = at;
  for (uint32_t j = 0; j < r->late.len; j++)
    if (r->late.at[j] == number)
      return;
  VEC_PUSH(m->arena, r->late, number);
}

/* What computes anew, as an index, a number that another one stores reads what
 * that has read and, in the graph, has let go of. */
static void find_late(const Maker *m, Recipe *r, uint32_t *last) {
  for (uint32_t k = 0; k < r->count; k++) {
    const RecipeCluster *c = &r->clusters[k];
    for (uint32_t j = 0; j < c->input_count; j++)
      read_at(m, r, last, c->inputs[j], k);
    for (uint32_t j = 0; !c->compiled && j < c->count; j++)
      for (uint32_t i = 0; i < c->made[j].cell_count; i++) {
        const Cell *cell = &c->made[j].cells[i];
        if (cell->kind == CELL_READ)
          read_at(m, r, last, (uint32_t)(uintptr_t)cell->node, k);
      }
  }
}

static void find_dying(const Maker *m, const Plan *plan, Recipe *r) {
  const Outline *o = m->o;
  uint32_t *last =
      NEW_ARRAY(plan->arena, uint32_t, o->nodes.len + o->leaves.len);
  find_last(m, plan, last);
  find_late(m, r, last);
  for (uint32_t k = 0; k < r->count; k++) {
    RecipeCluster *c = &r->clusters[k];
    c->dying = NEW_ARRAY(m->arena, bool, c->input_count);
    for (uint32_t j = 0; j < c->input_count; j++)
      c->dying[j] = !o->held[c->inputs[j]] && last[c->inputs[j]] == k;
  }
}

Recipe *recipe_new(Arena *arena, const Plan *plan, const Outline *o) {
  Maker m = {.arena = arena, .o = o};
  Recipe *r = NEW(arena, Recipe);
  map_init(&m.leaves, plan->arena);
  for (uint32_t k = 0; k < o->leaves.len; k++)
    map_put(&m.leaves, o->leaves.at[k],
            (void *)(uintptr_t)(o->nodes.len + k + 1));
  r->count = plan->clusters.len;
  r->clusters = NEW_ARRAY(arena, RecipeCluster, r->count);
  r->least = (double)plan->graph->least_work * OFTEN;
  for (uint32_t k = 0; k < r->count; k++) {
    const Cluster *c = plan->clusters.at[k];
    take_cluster(&m, c, &r->clusters[k]);
    for (uint32_t j = 0; !c->backend && !c->same && j < c->nodes.len; j++)
      if (c->nodes.at[j]->kind == NODE_COMP)
        r->work += work_of(c->nodes.at[j]);
  }
  find_dying(&m, plan, r);
  const Graph *g = plan->graph;
  if (g->often || !g->least_work || !g->backend || !g->backend->kernels)
    r->work = 0; /* it stays as it is */
  return r;
}

bool recipe_is_often(const Graph *g, double work, double times) {
  return times > 1 && work * times > (double)g->least_work * OFTEN;
}

bool recipe_ran(Recipe *r, double times) {
  r->runs += times;
  r->odd = !r->odd;
  return r->work > 0 && r->work * r->runs > r->least;
}

/* ---- to clusters ---- */

typedef struct Bound {
  const RecipeCluster *recipe;
  Node *const *nodes; /* by number */
  const double *params;
  const Key *keys;
} Bound;

static Node *node_at(const Outline *o, uint32_t number) {
  return number < o->nodes.len ? o->nodes.at[number]
                               : o->leaves.at[number - o->nodes.len];
}

/* A kernel goes over memory from where the one before it has ended, and the
 * next time the other way: what was used last is in the caches still. */
static bool goes_back(const Recipe *r, uint32_t cluster) {
  return (cluster & 1) != r->odd;
}

static void bind(Arena *arena, const RecipeCluster *r, const Outline *o,
                 Bound *bound, Cluster *c) {
  bound->recipe = r;
  c->bound = bound;
  c->backend = r->backend;
  c->routine = r->routine;
  c->interpreted = r->interpreted;
  c->params = bound->params;
  c->keys = bound->keys;
  c->nodes.at = NEW_ARRAY(arena, Node *, r->count);
  c->nodes.len = r->count;
  for (uint32_t k = 0; k < r->count; k++)
    c->nodes.at[k] = node_at(o, r->made[k].number);
  c->same = r->same ? node_at(o, r->same - 1) : NULL;
  if (!r->compiled)
    return;
  c->dying = r->dying;
  c->kernel = NEW(arena, Kernel);
  const Node **inputs = NEW_ARRAY(arena, const Node *, r->input_count);
  for (uint32_t k = 0; k < r->input_count; k++)
    inputs[k] = node_at(o, r->inputs[k]);
  c->kernel->inputs.at = inputs;
  c->kernel->inputs.len = r->input_count;
}

void recipe_hold(const Recipe *r, const Outline *o) {
  for (uint32_t k = 0; k < r->late.len; k++)
    node_retain(node_at(o, r->late.at[k]));
}

void recipe_let_go(const Recipe *r, const Outline *o) {
  for (uint32_t k = 0; k < r->late.len; k++)
    node_release(node_at(o, r->late.at[k]));
}

void recipe_reach(Arena *arena, const Recipe *r, const Outline *o,
                  Reached *out) {
  for (uint32_t k = 0; k < r->count; k++)
    for (uint32_t j = 0; j < r->clusters[k].count; j++)
      VEC_PUSH(arena, out->nodes, node_at(o, r->clusters[k].made[j].number));
  out->computed = out->nodes.len;
  for (uint32_t k = 0; k < r->count; k++) {
    const RecipeCluster *c = &r->clusters[k];
    for (uint32_t j = 0; j < c->input_count; j++)
      VEC_PUSH(arena, out->nodes, node_at(o, c->inputs[j]));
    if (c->same)
      VEC_PUSH(arena, out->nodes, node_at(o, c->same - 1));
    for (uint32_t j = 0; !c->compiled && j < c->count; j++)
      for (uint32_t i = 0; i < c->made[j].cell_count; i++) {
        const Cell *cell = &c->made[j].cells[i];
        if (cell->kind == CELL_READ)
          VEC_PUSH(arena, out->nodes,
                   node_at(o, (uint32_t)(uintptr_t)cell->node));
      }
  }
}

Cluster **recipe_bind(Arena *arena, const Recipe *r, const Outline *o,
                      uint32_t *count) {
  Cluster **clusters = NEW_ARRAY(arena, Cluster *, r->count);
  Cluster *at = NEW_ARRAY(arena, Cluster, r->count);
  Bound *bounds = NEW_ARRAY(arena, Bound, r->count);
  Node **nodes = NEW_ARRAY(arena, Node *, o->nodes.len + o->leaves.len);
  for (uint32_t k = 0; k < o->nodes.len + o->leaves.len; k++)
    nodes[k] = node_at(o, k);
  for (uint32_t k = 0; k < r->count; k++) {
    bounds[k].nodes = nodes;
    bounds[k].params = o->params.values.at;
    bounds[k].keys = o->params.keys.at;
    bind(arena, &r->clusters[k], o, &bounds[k], &at[k]);
    at[k].backward = goes_back(r, k);
    clusters[k] = &at[k];
  }
  *count = r->count;
  return clusters;
}

/* ---- bodies ---- */

static void fill_cells(const Bound *b, const Made *made, Cell *cells) {
  uint32_t *args = (uint32_t *)(cells + made->cell_count);
  for (uint32_t k = 0; k < made->cell_count; k++) {
    Cell *c = &cells[k];
    *c = made->cells[k];
    c->args = args;
    args += c->arg_count;
    if (c->arg_count)
      memcpy(c->args, made->cells[k].args, c->arg_count * sizeof *args);
    if (c->kind == CELL_READ)
      c->node = node_retain(b->nodes[(uintptr_t)c->node]);
    if (c->kind == CELL_CONST)
      c->value = param_value(c->value, b->params);
    if (c->kind == CELL_RANDOM)
      c->key = key_value(c->key, b->keys);
  }
}

static void replace_cells(Node *n, Cell *cells, uint32_t count) {
  Cell *old = n->cells;
  uint32_t old_count = n->cell_count;
  n->cells = cells;
  n->cell_count = count;
  for (uint32_t k = 0; k < old_count; k++)
    if (old[k].kind == CELL_READ)
      node_release(old[k].node);
  mem_free(old);
}

static void put_body(const Bound *b, const Made *made, Node *n) {
  bool wider = made->extents && made->reduce_count != n->reduce_count;
  size_t size =
      (n->free_count + n->rank + made->reduce_count) * sizeof *made->extents;
  int64_t *extents = wider ? mem_try_alloc(size) : NULL;
  Cell *cells = mem_try_alloc(made->cell_count * sizeof *cells +
                              made->arg_count * sizeof(uint32_t));
  if (!cells || (wider && !extents)) {
    mem_free(cells);
    mem_free(extents);
    trap_raise(FAIL_MEMORY);
  }
  fill_cells(b, made, cells);
  n->reduce = made->reduce;
  n->reduce_count = made->reduce_count;
  if (wider) /* the first ones lie in the node's own block */
    n->extents = memcpy(extents, made->extents, size);
  replace_cells(n, cells, made->cell_count);
  node_release(n->guard); /* it is in the body */
  n->guard = NULL;
}

void cluster_bodies(const Cluster *c) {
  for (uint32_t k = 0; c->bound && k < c->nodes.len; k++) {
    const Made *made = &c->bound->recipe->made[k];
    if (made->cell_count && !c->nodes.at[k]->data)
      put_body(c->bound, made, c->nodes.at[k]);
  }
}
