/* Tapes: which nodes depend on the leaves of a differentiated call. */
#include "tensor/internal.h"
#include "support/mem.h"
#include "support/trap.h"

#include <string.h>

Tape *tape_new(Graph *g) {
  static uint32_t last; /* shared by all graphs: ids only have to ascend */
  Tape *t = mem_alloc(sizeof *t);
  *t = (Tape){.graph = g, .refs = 1, .recording = true, .open = true};
  g->recording_count++;
  t->zero_reason_count = ++g->zero_reason_count;
  t->first_node = g->next_node_id ? g->next_node_id : 1;
  t->id = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
  return t;
}

void tape_set_enclosing(Tape *t, uint32_t count, IndexVar *const *indices) {
  if (!count)
    return;
  t->enclosing = mem_alloc(count * sizeof *t->enclosing);
  t->enclosing_count = count;
  for (uint32_t k = 0; k < count; k++)
    t->enclosing[k] = index_var_retain(indices[k]);
}

void tape_stop_recording(Tape *t) {
  if (t->recording)
    t->may_be_zero = t->graph->zero_reason_count != t->zero_reason_count;
  t->graph->recording_count -= t->recording;
  t->recording = false;
}

Tape *tape_retain(Tape *t) {
  t->refs++;
  return t;
}

void tape_release(Tape *t) {
  if (!t || --t->refs)
    return;
  for (uint32_t k = 0; k < t->enclosing_count; k++)
    index_var_release(t->enclosing[k]);
  mem_free(t->enclosing);
  mem_free(t);
}

void tape_close(Tape *t) {
  Node **settled = t->settled;
  uint32_t count = t->settled_count;
  tape_stop_recording(t);
  t->open = false;
  t->settled = NULL;
  t->settled_count = t->settled_capacity = 0;
  for (uint32_t k = 0; k < count; k++) {
    vjp_rule_release(settled[k]->rule);
    settled[k]->rule = NULL;
    if (settled[k]->data)
      node_drop_references(settled[k]);
    node_release(settled[k]);
  }
  mem_free(settled);
  tape_release(t);
}

void node_set_tape(Node *n, Tape *tape) {
  if (n->tape == tape || (n->tape && n->tape->id < tape->id))
    return;
  tape->refs++;
  tape_release(n->tape);
  n->tape = tape;
}

static void add_settled(Tape *t, Node *n) {
  if (t->settled_count == t->settled_capacity) {
    uint32_t capacity = t->settled_capacity ? 2 * t->settled_capacity : 16;
    t->settled = mem_realloc(t->settled, t->settled_capacity * sizeof(Node *),
                             capacity * sizeof(Node *));
    t->settled_capacity = capacity;
  }
  t->settled[t->settled_count++] = node_retain(n);
}

void node_settle(Node *n) {
  Tape *t = n->tape;
  if (!t || !t->open || n->rule) {
    if (n->data)
      node_drop_references(n);
    return;
  }
  node_restore_own_body(n);
  if (n->data)
    add_settled(t, n);
}

/* A node that reads x at its own indices, with more free indices. */
static Node *identity_node(Graph *g, Node *x, uint32_t index_count,
                           IndexVar *const *indices) {
  NodeSpec spec = node_spec_like(x);
  for (uint32_t k = 0; k < index_count; k++)
    node_spec_add_free(&spec, indices[k]);
  BodyBuilder b;
  body_init(&b, g, &spec);
  uint32_t own[MAX_RANK];
  for (uint32_t k = 0; k < x->rank; k++)
    own[k] = body_own_axis(&b, k);
  return body_finish_read(&b, g, x, own, NULL);
}

Node *node_leaf(Graph *g, Node *x, Tape *tape) {
  Node *leaf = identity_node(g, x, 0, NULL);
  node_set_tape(leaf, tape);
  return leaf;
}

Node *node_stop_gradient(Graph *g, Node *x) {
  Node *n = identity_node(g, x, 0, NULL);
  tape_release(n->tape);
  n->tape = NULL;
  return n;
}

Node *node_with_rule(Graph *g, Node *y, VjpRule *rule, uint32_t output_index) {
  Node *n = y->data && !y->free_count && !rule->index_count
                ? node_data(g, y->data)
                : identity_node(g, y, rule->index_count, rule->indices);
  for (uint32_t k = 0; k < rule->input_count; k++)
    if (node_is_recorded(rule->inputs[k]))
      node_set_tape(n, rule->inputs[k]->tape);
  n->rule = rule;
  rule->refs++;
  n->output_index = output_index;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    node_release(n);
    trap_raise(trap.kind);
  }
  add_settled(n->tape, n); /* its rule is released when the tape is closed */
  trap_end(&trap);
  return n;
}
