/* A graph as numbers: all that a plan depends on, and nothing of addresses. */
#include "tensor/recipe.h"

#include <math.h>
#include <string.h>

enum { LEAF = (int)0x80000000u, WORDS_FIRST = 512 /* of a small graph */ };

typedef struct Visit {
  Node *node;
  uint32_t next; /* child to look at */
} Visit;

typedef struct Walk {
  Outline *o;
  Arena *arena;
  Graph *graph;
  VEC(Visit) stack;
  VEC(uint32_t) node_refs, leaf_refs; /* from nodes of the outline */
  VEC(RowsRead) rows; /* those of the leaves' that are reads of rows */
  VEC(uint32_t)
  cell_words, leaf_words; /* where, in the outline, cells of the
                             node end, and leaves have extents */
} Walk;

static void put(Outline *o, uint64_t word) {
  VEC_PUSH(o->arena, o->words, word);
}

static void put2(Outline *o, uint64_t high, uint64_t low) {
  put(o, high << 32 | (low & UINT32_MAX));
}

/* ---- what a node reads ---- */

static uint32_t child_count(const Node *n) {
  return n->cell_count + n->input_count + 1;
}

static Node *child(const Node *n, uint32_t k) {
  if (k < n->cell_count)
    return n->cells[k].kind == CELL_READ ? n->cells[k].node : NULL;
  k -= n->cell_count;
  return k < n->input_count ? n->inputs[k] : n->guard;
}

static void put_extents(Outline *o, const Node *n) {
  put2(o, n->free_count, n->rank);
  put2(o, n->reduce_count, n->stars);
  for (uint32_t k = 0; k < n->free_count + n->rank + n->reduce_count; k++)
    put(o, (uint64_t)n->extents[k]);
}

static void put_leaf(Walk *w, Node *n) {
  Outline *o = w->o;
  VEC_PUSH(o->arena, o->leaves, n);
  VEC_PUSH(w->arena, w->leaf_refs, 0);
  n->mark = (uint32_t)LEAF | o->leaves.len;
  put2(o, UINT64_C(0xffff0000) | n->dtype, n->mark); /* no cell begins so */
  VEC_PUSH(w->arena, w->leaf_words, o->words.len + 2);
  put_extents(o, n);
}

/* The number of something read, which has one or is a leaf. */
static uint32_t refer(Walk *w, Node *n) {
  if (!n->mark)
    put_leaf(w, n);
  uint32_t at = (n->mark & ~(uint32_t)LEAF) - 1;
  if (n->mark & (uint32_t)LEAF)
    w->leaf_refs.at[at]++;
  else
    w->node_refs.at[at]++;
  return n->mark;
}

/* ---- bodies ---- */

/* ---- floats and keys ---- */

static uint32_t *params_slot(const Params *p, double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  uint32_t mask = p->cap - 1;
  uint32_t at = (uint32_t)(bits * UINT64_C(0x9e3779b97f4a7c15) >> 40) & mask;
  while (p->table[at] && p->values.at[p->table[at] - 1] != x)
    at = (at + 1) & mask;
  return &p->table[at];
}

uint32_t params_find(const Params *p, double x) {
  return p->cap ? *params_slot(p, x) - 1 : UINT32_MAX;
}

static void params_grow(Arena *arena, Params *p) {
  p->cap = p->cap ? 2 * p->cap : 32;
  p->table = NEW_ARRAY(arena, uint32_t, p->cap);
  for (uint32_t k = 0; k < p->values.len; k++)
    *params_slot(p, p->values.at[k]) = k + 1;
}

static uint32_t params_put(Arena *arena, Params *p, double x) {
  uint32_t at = params_find(p, x);
  if (at != UINT32_MAX)
    return at;
  VEC_PUSH(arena, p->values, x);
  if (2 * p->values.len >= p->cap)
    params_grow(arena, p);
  else
    *params_slot(p, x) = p->values.len;
  return p->values.len - 1;
}

/* May a plan depend on the value? */
static bool is_special(double x) {
  int exponent;
  return !isfinite(x) || x == 0 || fabs(frexp(x, &exponent)) == 0.5;
}

/* Of a parameter which one it is; else the bits. */
static void put_constant(Outline *o, Scalar x) {
  if (dtype_is_float(x.dtype) && !is_special(x.f))
    x.i = param_mark(params_put(o->arena, &o->params, x.f)).i;
  put(o, (uint64_t)x.i);
}

/* The last ones first: what is read is mostly near. */
uint32_t params_find_key(const Params *p, Key key) {
  for (uint32_t k = p->keys.len; k-- > 0;)
    if (memcmp(&p->keys.at[k], &key, sizeof key) == 0)
      return k;
  return UINT32_MAX;
}

static void put_key(Outline *o, Key key) {
  uint32_t at = params_find_key(&o->params, key);
  if (at == UINT32_MAX) {
    at = o->params.keys.len;
    VEC_PUSH(o->arena, o->params.keys, key);
  }
  put(o, at);
}

static void put_cell(Walk *w, const Cell *c) {
  Outline *o = w->o;
  uint64_t what = (uint64_t)c->kind << 24 | (uint64_t)c->dtype << 16;
  uint32_t number = c->kind == CELL_READ   ? refer(w, c->node)
                    : c->kind == CELL_AXIS ? c->axis
                                           : (uint32_t)c->op;
  put2(o, what | c->arg_count, number);
  put2(o, c->span.start, c->span.end);
  put2(o, c->span.file, c->arg_count ? c->args[0] : 0);
  for (uint32_t k = 1; k < c->arg_count; k += 2)
    put2(o, c->args[k], k + 1 < c->arg_count ? c->args[k + 1] : 0);
  o->failed |= c->arg_count > UINT16_MAX;
  if (c->kind == CELL_CONST)
    put_constant(o, c->value);
  if (c->kind == CELL_SIZE)
    put(o, (uint64_t)c->size);
  if (c->kind == CELL_RANDOM)
    put_key(o, c->key);
}

static void note_rows(Walk *w, Node *n, uint32_t cell) {
  uint32_t mark = n->cells[cell].node->mark;
  RowsRead r;
  if (!(mark & (uint32_t)LEAF) || !rows_find(w->graph, n, cell, &r))
    return;
  r.leaf = (mark & ~(uint32_t)LEAF) - 1;
  r.word = w->cell_words.at[r.number] - 1;
  VEC_PUSH(w->arena, w->rows, r);
}

/* ---- nodes ---- */

/* Which of n's free indices are x's. */
static void put_indices(Walk *w, const Node *n, const Node *x) {
  for (uint32_t k = 0; k < x->free_count; k++) {
    uint32_t at = 0;
    while (at < n->free_count && n->free[at] != x->free[k])
      at++;
    put(w->o, at);
  }
}

static void put_node(Walk *w, Node *n) {
  Outline *o = w->o;
  o->failed |= n->kind != NODE_COMP && n->kind != NODE_OPAQUE;
  put2(o, (uint64_t)n->kind << 16 | (uint64_t)n->dtype << 8 | n->safe,
       n->cell_count);
  put2(o, n->span.start, n->span.end);
  put2(o, n->span.file, (uint32_t)n->reduce);
  put_extents(o, n);
  w->cell_words.len = 0;
  for (uint32_t k = 0; k < n->cell_count; k++) {
    put_cell(w, &n->cells[k]);
    VEC_PUSH(w->arena, w->cell_words, o->words.len);
    if (n->cells[k].kind == CELL_READ && n->cells[k].arg_count)
      note_rows(w, n, k);
  }
  put2(o, n->guard ? refer(w, n->guard) : 0, n->input_count);
  if (n->guard)
    put_indices(w, n, n->guard);
  if (n->kind == NODE_OPAQUE) {
    put2(o, (uint64_t)n->op, n->output);
    for (uint32_t k = 0; k < ARRAY_LEN(n->params); k++)
      put(o, (uint64_t)n->params[k]);
    put_key(o, n->key);
    for (uint32_t k = 0; k < n->input_count; k++) {
      put(o, refer(w, n->inputs[k]));
      put_indices(w, n, n->inputs[k]);
    }
  }
  VEC_PUSH(o->arena, o->nodes, n);
  VEC_PUSH(w->arena, w->node_refs, 0);
  n->mark = o->nodes.len;
}

/* In the order of plan_make. */
static void walk(Walk *w, Node *root) {
  if (root->data || root->mark)
    return;
  VEC_PUSH(w->arena, w->stack, ((Visit){root, 0}));
  while (w->stack.len) {
    Visit *v = &w->stack.at[w->stack.len - 1];
    if (v->node->mark) {
      w->stack.len--;
    } else if (v->next == child_count(v->node)) {
      put_node(w, v->node);
      w->stack.len--;
    } else {
      Node *n = child(v->node, v->next++);
      if (n && !n->data && !n->mark)
        VEC_PUSH(w->arena, w->stack, ((Visit){n, 0}));
    }
  }
}

/* Does something else hold it?  Who has other data in it in each turn does, and
 * has no use for those of turns before. */
static bool is_held(const Node *n, uint32_t refs) {
  return n->refs > refs + n->there;
}

/* What else holds them decides whether they are worth storing. */
static void put_held(Walk *w) {
  Outline *o = w->o;
  for (uint32_t k = 0; k < o->nodes.len; k++)
    put(o, is_held(o->nodes.at[k], w->node_refs.at[k]));
  for (uint32_t k = 0; k < o->leaves.len; k++)
    put(o, is_held(o->leaves.at[k], w->leaf_refs.at[k]));
}

static void unmark(Outline *o) {
  for (uint32_t k = 0; k < o->nodes.len; k++)
    o->nodes.at[k]->mark = 0;
  for (uint32_t k = 0; k < o->leaves.len; k++)
    o->leaves.at[k]->mark = 0;
}

static void put_graph(Walk *w, uint32_t count, Node *const *roots) {
  Outline *o = w->o;
  const Graph *g = w->graph;
  put2(o, (uint64_t)g->fuse, count);
  put(o, (uint64_t)(uintptr_t)g->backend);
  put(o, (uint64_t)g->bytes_limit);
  put(o, (uint64_t)g->least_work);
  for (uint32_t k = 0; k < count; k++)
    walk(w, roots[k]);
  for (uint32_t k = 0; k < count; k++)
    put(o, roots[k]->data ? 0 : roots[k]->mark);
}

/* Leaves that nothing reads but rows of become tensors of these. */
static void cut_leaf(Walk *w, uint32_t leaf) {
  Outline *o = w->o;
  RowsRead *reads = NEW_ARRAY(w->arena, RowsRead, w->leaf_refs.at[leaf]);
  uint32_t count = 0;
  for (uint32_t j = 0; j < w->rows.len; j++)
    if (w->rows.at[j].leaf == leaf)
      reads[count++] = w->rows.at[j];
  Node *part = count && count == w->leaf_refs.at[leaf]
                   ? rows_cut(w->graph, o->leaves.at[leaf], count, reads)
                   : NULL;
  if (!part)
    return;
  o->leaves.at[leaf] = part;
  o->words.at[w->leaf_words.at[leaf]] = (uint64_t)part->extents[0];
  for (uint32_t j = 0; j < count; j++) {
    const Cell *number = &reads[j].node->cells[reads[j].number];
    o->words.at[reads[j].word] = (uint64_t)number->value.i;
  }
}

static void cut_leaves(Walk *w) {
  for (uint32_t k = 0; w->rows.len && k < w->o->leaves.len; k++)
    cut_leaf(w, k);
}

/* ---- what reads what ---- */

static uint32_t number_of(const Outline *o, const Node *n) {
  uint32_t at = (n->mark & ~(uint32_t)LEAF) - 1;
  return n->mark & (uint32_t)LEAF ? o->nodes.len + at : at;
}

static void add_children(Outline *o, uint32_t *refs) {
  for (uint32_t k = 0; k < o->nodes.len; k++) {
    const Node *n = o->nodes.at[k];
    for (uint32_t j = 0; j < child_count(n); j++) {
      const Node *x = child(n, j);
      if (!x)
        continue;
      VEC_PUSH(o->arena, o->children, number_of(o, x));
      refs[number_of(o, x)]++;
    }
    VEC_PUSH(o->arena, o->child_end, o->children.len);
  }
}

static void mark(Outline *o) {
  for (uint32_t k = 0; k < o->nodes.len; k++)
    o->nodes.at[k]->mark = k + 1;
  for (uint32_t k = 0; k < o->leaves.len; k++)
    o->leaves.at[k]->mark = (uint32_t)LEAF | (k + 1);
}

void outline_more(Outline *o, uint32_t count, Node *const *roots) {
  uint32_t all = o->nodes.len + o->leaves.len;
  uint32_t *refs = NEW_ARRAY(o->arena, uint32_t, all);
  o->held = NEW_ARRAY(o->arena, bool, all);
  Trap trap;
  mark(o);
  if (TRAP_SET(trap) != FAIL_NONE) {
    unmark(o);
    trap_raise(trap.kind);
  }
  add_children(o, refs);
  trap_end(&trap);
  for (uint32_t k = 0; k < count; k++)
    if (roots[k]->mark)
      o->held[number_of(o, roots[k])] = true;
  unmark(o);
  for (uint32_t k = 0; k < all; k++) {
    const Node *n =
        k < o->nodes.len ? o->nodes.at[k] : o->leaves.at[k - o->nodes.len];
    o->held[k] |= is_held(n, refs[k]);
  }
}

void outline_take(Outline *o, Graph *g, uint32_t count, Node *const *roots) {
  Walk w = {.o = o, .arena = o->arena, .graph = g};
  o->words.at = NEW_ARRAY(o->arena, uint64_t, WORDS_FIRST);
  o->words.cap = WORDS_FIRST;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    unmark(o);
    trap_raise(trap.kind);
  }
  put_graph(&w, count, roots);
  trap_end(&trap);
  unmark(o);
  cut_leaves(&w);
  put_held(&w);
}
