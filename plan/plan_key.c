/* Plan keys: a graph as a sequence of numbers, with everything that a plan
 * depends on, and without addresses.  The main entry point is
 * plan_key_build. */
#include "machine/limits/planner.h"
#include "plan/cached_plan.h"
#include "plan/schedule_file.h"
#include "support/arena.h"
#include "support/trap.h"

#include <math.h>
#include <string.h>

enum { LEAF_BIT = (int)0x80000000u };

typedef struct DfsFrame {
  Node *node;
  uint32_t next_operand; /* next operand to visit */
} DfsFrame;

typedef struct KeyBuilder {
  PlanKey *key;
  Arena *arena;
  Graph *graph;
  VEC(DfsFrame) stack;
  VEC(uint32_t) node_refs, leaf_refs; /* references from nodes of the key */
  VEC(RowSliceRead) row_reads;        /* reads of rows of leaves */
  /* Positions in the key: the end of the ops of each node, and the extents of
   * each leaf. */
  VEC(uint32_t)
  op_word_ends, leaf_extent_words;
} KeyBuilder;

static void append_word(PlanKey *o, uint64_t word) {
  VEC_PUSH(o->arena, o->words, word);
}

static void append_halves(PlanKey *o, uint64_t high, uint64_t low) {
  append_word(o, high << 32 | (low & UINT32_MAX));
}

/* ---- operands of a node ---- */

static uint32_t operand_count(const Node *n) {
  return n->body_op_count + n->input_count + 1;
}

static Node *operand(const Node *n, uint32_t k) {
  if (k < n->body_op_count)
    return n->body_ops[k].kind == BODY_READ ? n->body_ops[k].node : NULL;
  k -= n->body_op_count;
  return k < n->input_count ? n->inputs[k] : n->guard;
}

static void append_extents(PlanKey *o, const Node *n) {
  append_halves(o, n->free_count, n->rank);
  append_halves(o, n->reduce_count, n->broadcast_mask);
  for (uint32_t k = 0; k < n->free_count + n->rank + n->reduce_count; k++)
    append_word(o, (uint64_t)n->extents[k]);
}

static void append_leaf(KeyBuilder *w, Node *n) {
  PlanKey *o = w->key;
  VEC_PUSH(o->arena, o->leaves, n);
  VEC_PUSH(w->arena, w->leaf_refs, 0);
  n->mark = (uint32_t)LEAF_BIT | o->leaves.len;
  /* No body op begins with this word. */
  append_halves(o, UINT64_C(0xffff0000) | n->dtype, n->mark);
  VEC_PUSH(w->arena, w->leaf_extent_words, o->words.len + 2);
  append_extents(o, n);
}

/* Returns the number of an operand.  Adds a leaf if it has none. */
static uint32_t reference_node(KeyBuilder *w, Node *n) {
  if (!n->mark)
    append_leaf(w, n);
  uint32_t at = (n->mark & ~(uint32_t)LEAF_BIT) - 1;
  if (n->mark & (uint32_t)LEAF_BIT)
    w->leaf_refs.at[at]++;
  else
    w->node_refs.at[at]++;
  return n->mark;
}

/* ---- bodies ---- */

/* ---- floats and random keys ---- */

static uint32_t *plan_params_slot(const PlanParams *p, double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  uint32_t mask = p->hash_capacity - 1;
  uint32_t at = (uint32_t)(bits * UINT64_C(0x9e3779b97f4a7c15) >> 40) & mask;
  while (p->hash_table[at] && p->values.at[p->hash_table[at] - 1] != x)
    at = (at + 1) & mask;
  return &p->hash_table[at];
}

uint32_t plan_params_find(const PlanParams *p, double x) {
  return p->hash_capacity ? *plan_params_slot(p, x) - 1 : UINT32_MAX;
}

static void plan_params_grow(Arena *arena, PlanParams *p) {
  p->hash_capacity = p->hash_capacity ? 2 * p->hash_capacity : 32;
  p->hash_table = NEW_ARRAY(arena, uint32_t, p->hash_capacity);
  for (uint32_t k = 0; k < p->values.len; k++)
    *plan_params_slot(p, p->values.at[k]) = k + 1;
}

static uint32_t plan_params_intern(Arena *arena, PlanParams *p, double x) {
  uint32_t at = plan_params_find(p, x);
  if (at != UINT32_MAX)
    return at;
  VEC_PUSH(arena, p->values, x);
  if (2 * p->values.len >= p->hash_capacity)
    plan_params_grow(arena, p);
  else
    *plan_params_slot(p, x) = p->values.len;
  return p->values.len - 1;
}

/* True if a plan may depend on the value. */
static bool affects_plan(double x) {
  int exponent;
  return !isfinite(x) || x == 0 || fabs(frexp(x, &exponent)) == 0.5;
}

/* Appends the index of a parameter, or the bits of another constant. */
static void append_constant(PlanKey *o, Scalar x) {
  if (dtype_is_float(x.dtype) && !affects_plan(x.f))
    x.i = param_nan_box(plan_params_intern(o->arena, &o->params, x.f)).i;
  append_word(o, (uint64_t)x.i);
}

/* Searches from the end, since the last ones are used most. */
uint32_t plan_params_find_key(const PlanParams *p, PrngKey key) {
  for (uint32_t k = p->random_keys.len; k-- > 0;)
    if (memcmp(&p->random_keys.at[k], &key, sizeof key) == 0)
      return k;
  return UINT32_MAX;
}

static void append_random_key(PlanKey *o, PrngKey key) {
  uint32_t at = plan_params_find_key(&o->params, key);
  if (at == UINT32_MAX) {
    at = o->params.random_keys.len;
    VEC_PUSH(o->arena, o->params.random_keys, key);
  }
  append_word(o, at);
}

static void append_op(KeyBuilder *w, const BodyOp *c) {
  PlanKey *o = w->key;
  uint64_t header = (uint64_t)c->kind << 24 | (uint64_t)c->dtype << 16;
  uint32_t number = c->kind == BODY_READ   ? reference_node(w, c->node)
                    : c->kind == BODY_AXIS ? c->axis
                                           : (uint32_t)c->op;
  append_halves(o, header | c->arg_count, number);
  append_halves(o, c->span.start, c->span.end);
  append_halves(o, c->span.file, c->arg_count ? c->args[0] : 0);
  for (uint32_t k = 1; k < c->arg_count; k += 2)
    append_halves(o, c->args[k], k + 1 < c->arg_count ? c->args[k + 1] : 0);
  o->uncacheable |= c->arg_count > UINT16_MAX;
  if (c->kind == BODY_CONST)
    append_constant(o, c->value);
  if (c->kind == BODY_EXTENT)
    append_word(o, (uint64_t)c->extent);
  if (c->kind == BODY_RANDOM)
    append_random_key(o, c->key);
}

static void note_row_read(KeyBuilder *w, Node *n, uint32_t op_index) {
  uint32_t mark = n->body_ops[op_index].node->mark;
  RowSliceRead r;
  if (!(mark & (uint32_t)LEAF_BIT) ||
      !row_view_match(w->graph, n, op_index, &r))
    return;
  r.leaf_number = (mark & ~(uint32_t)LEAF_BIT) - 1;
  r.key_word = w->op_word_ends.at[r.start_op] - 1;
  VEC_PUSH(w->arena, w->row_reads, r);
}

/* ---- nodes ---- */

/* Appends which free indices of n are the free indices of x. */
static void append_index_map(KeyBuilder *w, const Node *n, const Node *x) {
  for (uint32_t k = 0; k < x->free_count; k++) {
    uint32_t at = 0;
    while (at < n->free_count && n->free_vars[at] != x->free_vars[k])
      at++;
    append_word(w->key, at);
  }
}

static void append_node(KeyBuilder *w, Node *n) {
  PlanKey *o = w->key;
  o->uncacheable |= n->kind != NODE_COMP && n->kind != NODE_OPAQUE;
  append_halves(o,
                (uint64_t)n->kind << 16 | (uint64_t)n->dtype << 8 |
                    (uint64_t)n->is_forced << 1 | n->speculatable,
                n->body_op_count);
  append_halves(o, n->span.start, n->span.end);
  append_halves(o, n->span.file, (uint32_t)n->reduce);
  if (w->graph->schedules)
    append_word(o, schedule_number(w->graph, n));
  append_extents(o, n);
  w->op_word_ends.len = 0;
  for (uint32_t k = 0; k < n->body_op_count; k++) {
    append_op(w, &n->body_ops[k]);
    VEC_PUSH(w->arena, w->op_word_ends, o->words.len);
    if (n->body_ops[k].kind == BODY_READ && n->body_ops[k].arg_count)
      note_row_read(w, n, k);
  }
  append_halves(o, n->guard ? reference_node(w, n->guard) : 0, n->input_count);
  if (n->guard)
    append_index_map(w, n, n->guard);
  if (n->kind == NODE_OPAQUE) {
    append_halves(o, (uint64_t)n->op, n->output_index);
    for (uint32_t k = 0; k < ARRAY_LEN(n->params); k++)
      append_word(o, (uint64_t)n->params[k]);
    append_random_key(o, n->key);
    for (uint32_t k = 0; k < n->input_count; k++) {
      append_word(o, reference_node(w, n->inputs[k]));
      append_index_map(w, n, n->inputs[k]);
    }
  }
  VEC_PUSH(o->arena, o->nodes, n);
  VEC_PUSH(w->arena, w->node_refs, 0);
  n->mark = o->nodes.len;
}

/* Visits nodes in the same order as plan_fuse. */
static void append_reachable(KeyBuilder *w, Node *root) {
  if (root->data || root->mark)
    return;
  VEC_PUSH(w->arena, w->stack, ((DfsFrame){root, 0}));
  while (w->stack.len) {
    DfsFrame *v = &w->stack.at[w->stack.len - 1];
    if (v->node->mark) {
      w->stack.len--;
    } else if (v->next_operand == operand_count(v->node)) {
      append_node(w, v->node);
      w->stack.len--;
    } else {
      Node *n = operand(v->node, v->next_operand++);
      if (n && !n->data && !n->mark)
        VEC_PUSH(w->arena, w->stack, ((DfsFrame){n, 0}));
    }
  }
}

/* True if something outside the key holds the node.  A materialized node of a
 * loop has one more holder, which does not need the data of earlier
 * iterations. */
static bool is_externally_held(const Node *n, uint32_t refs) {
  return n->refs > refs + n->materialized;
}

/* A node that is held from outside may be worth storing, so this is part of the
 * key. */
static void append_held_flags(KeyBuilder *w) {
  PlanKey *o = w->key;
  for (uint32_t k = 0; k < o->nodes.len; k++)
    append_word(o, is_externally_held(o->nodes.at[k], w->node_refs.at[k]));
  for (uint32_t k = 0; k < o->leaves.len; k++)
    append_word(o, is_externally_held(o->leaves.at[k], w->leaf_refs.at[k]));
}

static void clear_marks(PlanKey *o) {
  for (uint32_t k = 0; k < o->nodes.len; k++)
    o->nodes.at[k]->mark = 0;
  for (uint32_t k = 0; k < o->leaves.len; k++)
    o->leaves.at[k]->mark = 0;
}

static void append_graph(KeyBuilder *w, uint32_t count, Node *const *roots) {
  PlanKey *o = w->key;
  const Graph *g = w->graph;
  append_halves(o, (uint64_t)g->fuse_mode, count);
  append_word(o, (uint64_t)(uintptr_t)g->backend);
  append_word(o, (uint64_t)g->max_tensor_bytes);
  append_word(o, (uint64_t)g->jit_threshold);
  for (uint32_t k = 0; k < count; k++)
    append_reachable(w, roots[k]);
  for (uint32_t k = 0; k < count; k++)
    append_word(o, roots[k]->data ? 0 : roots[k]->mark);
}

/* If all reads of a leaf are reads of some rows, replaces the leaf by these
 * rows. */
static void substitute_row_view(KeyBuilder *w, uint32_t leaf) {
  PlanKey *o = w->key;
  RowSliceRead *reads =
      NEW_ARRAY(w->arena, RowSliceRead, w->leaf_refs.at[leaf]);
  uint32_t count = 0;
  for (uint32_t j = 0; j < w->row_reads.len; j++)
    if (w->row_reads.at[j].leaf_number == leaf)
      reads[count++] = w->row_reads.at[j];
  Node *part =
      count && count == w->leaf_refs.at[leaf]
          ? row_view_substitute(w->graph, o->leaves.at[leaf], count, reads)
          : NULL;
  if (!part)
    return;
  o->leaves.at[leaf] = part;
  o->words.at[w->leaf_extent_words.at[leaf]] = (uint64_t)part->extents[0];
  for (uint32_t j = 0; j < count; j++) {
    const BodyOp *number = &reads[j].node->body_ops[reads[j].start_op];
    o->words.at[reads[j].key_word] = (uint64_t)number->value.i;
  }
}

static void substitute_row_views(KeyBuilder *w) {
  for (uint32_t k = 0; w->row_reads.len && k < w->key->leaves.len; k++)
    substitute_row_view(w, k);
}

/* ---- operands by number ---- */

static uint32_t node_number(const PlanKey *o, const Node *n) {
  uint32_t at = (n->mark & ~(uint32_t)LEAF_BIT) - 1;
  return n->mark & (uint32_t)LEAF_BIT ? o->nodes.len + at : at;
}

static void add_operand_lists(PlanKey *o, uint32_t *refs) {
  for (uint32_t k = 0; k < o->nodes.len; k++) {
    const Node *n = o->nodes.at[k];
    for (uint32_t j = 0; j < operand_count(n); j++) {
      const Node *x = operand(n, j);
      if (!x)
        continue;
      VEC_PUSH(o->arena, o->operand_numbers, node_number(o, x));
      refs[node_number(o, x)]++;
    }
    VEC_PUSH(o->arena, o->operand_end, o->operand_numbers.len);
  }
}

static void set_marks(PlanKey *o) {
  for (uint32_t k = 0; k < o->nodes.len; k++)
    o->nodes.at[k]->mark = k + 1;
  for (uint32_t k = 0; k < o->leaves.len; k++)
    o->leaves.at[k]->mark = (uint32_t)LEAF_BIT | (k + 1);
}

void plan_key_add_uses(PlanKey *o, uint32_t count, Node *const *roots) {
  uint32_t all = o->nodes.len + o->leaves.len;
  uint32_t *refs = NEW_ARRAY(o->arena, uint32_t, all);
  o->externally_held = NEW_ARRAY(o->arena, bool, all);
  Trap trap;
  set_marks(o);
  if (TRAP_SET(trap) != FAIL_NONE) {
    clear_marks(o);
    trap_raise(trap.kind);
  }
  add_operand_lists(o, refs);
  trap_end(&trap);
  for (uint32_t k = 0; k < count; k++)
    if (roots[k]->mark)
      o->externally_held[node_number(o, roots[k])] = true;
  clear_marks(o);
  for (uint32_t k = 0; k < all; k++) {
    const Node *n =
        k < o->nodes.len ? o->nodes.at[k] : o->leaves.at[k - o->nodes.len];
    o->externally_held[k] |= is_externally_held(n, refs[k]);
  }
}

void plan_key_build(PlanKey *o, Graph *g, uint32_t count, Node *const *roots) {
  KeyBuilder w = {.key = o, .arena = o->arena, .graph = g};
  o->words.at = NEW_ARRAY(o->arena, uint64_t, INITIAL_PLAN_KEY_WORDS);
  o->words.cap = INITIAL_PLAN_KEY_WORDS;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    clear_marks(o);
    trap_raise(trap.kind);
  }
  append_graph(&w, count, roots);
  trap_end(&trap);
  clear_marks(o);
  substitute_row_views(&w);
  append_held_flags(&w);
}
