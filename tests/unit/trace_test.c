/* Tests AOT tracing against ordinary evaluation.  The graph of a function with
 * symbolic sizes, with numbers put in for its size variables, must give the
 * same results.  Its requirements must hold exactly if ordinary evaluation
 * succeeds. */
#include "aot/trace.h"
#include "plan/execute.h"
#include "session/state.h"
#include "support/mem.h"
#include "tensor/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- sizes, such as "n=3 k=5" ---- */

static const char *sizes_now;

static int64_t size_named(const char *name) {
  size_t len = strlen(name);
  for (const char *p = sizes_now; *p; p += strcspn(p, " "), p += *p == ' ')
    if (strncmp(p, name, len) == 0 && p[len] == '=')
      return strtoll(p + len + 1, NULL, 10);
  fail_msg("no size %s in \"%s\"", name, sizes_now);
  return 0;
}

static int64_t value_of(void *arg, const DimVar *v) {
  return size_named(dim_var_name(arg, v));
}

/* ---- a graph with numbers in place of sizes ---- */

enum { NODES_MOST = 20 * 1000 };

typedef struct Concrete {
  Session *s;
  const Trace *trace;
  Graph *g;
  Node **made; /* indexed by node number */
  Node **owned;
  uint32_t owned_count, inner[NODES_MOST]; /* nesting depth of visited loops */
  Tensor **data;
  IndexVar *from[8192], *to[8192];
  uint32_t index_count;
} Concrete;

static int64_t number(Concrete *c, int64_t size) {
  int64_t out;
  if (!extent_evaluate(&c->trace->graph, size, value_of, &c->s->dims, &out))
    fail_msg("a size cannot be computed at %s", sizes_now);
  return out;
}

static IndexVar *index_at(Concrete *c, IndexVar *v) {
  for (uint32_t k = 0; k < c->index_count; k++)
    if (c->from[k] == v)
      return c->to[k];
  assert_true(c->index_count < ARRAY_LEN(c->from));
  c->from[c->index_count] = v;
  return c->to[c->index_count++] = index_var_new(number(c, v->extent), NULL);
}

static Node *at_numbers(Concrete *c, Node *n);

static NodeSpec form_at(Concrete *c, const Node *n) {
  NodeSpec f = {.dtype = n->dtype,
                .rank = n->rank,
                .broadcast_mask = n->broadcast_mask,
                .reduce = n->reduce,
                .reduce_count = n->reduce_count};
  /* This order of visits keeps the ids of indices ascending. */
  for (uint32_t k = 0; k < n->free_count; k++)
    f.free_vars[f.free_count++] = index_at(c, n->free_vars[k]);
  for (uint32_t k = 0; k < n->rank; k++)
    f.own_extents[k] = number(c, n->extents[n->free_count + k]);
  for (uint32_t k = 0; k < n->reduce_count; k++)
    f.reduced_extents[k] = number(c, n->extents[n->free_count + n->rank + k]);
  return f;
}

static Node *comp_at(Concrete *c, Node *n) {
  NodeSpec form = form_at(c, n);
  Node *copy = node_alloc(c->g, NODE_COMP, &form);
  uint32_t args = 0;
  for (uint32_t k = 0; k < n->body_op_count; k++)
    args += n->body_ops[k].arg_count;
  copy->body_ops = mem_alloc(n->body_op_count * sizeof(BodyOp) + args * 4);
  copy->body_op_count = n->body_op_count;
  uint32_t *at = (uint32_t *)(copy->body_ops + n->body_op_count);
  for (uint32_t k = 0; k < n->body_op_count; k++) {
    BodyOp *cell = &copy->body_ops[k];
    *cell = n->body_ops[k];
    memcpy(at, cell->args, cell->arg_count * sizeof *at);
    cell->args = at;
    at += cell->arg_count;
    if (cell->kind == BODY_READ)
      cell->node = node_retain(at_numbers(c, cell->node));
    if (cell->kind == BODY_EXTENT) {
      int64_t x = number(c, cell->extent);
      cell->kind = BODY_CONST;
      cell->value = (Scalar){DT_I64, {.i = x}};
    }
  }
  return copy;
}

static Node *opaque_at(Concrete *c, Node *n) {
  Node *inputs[4];
  int64_t params[4];
  Fault fault = {0};
  for (uint32_t k = 0; k < n->input_count; k++)
    inputs[k] = at_numbers(c, n->inputs[k]);
  for (uint32_t k = 0; k < 4; k++)
    params[k] = number(c, n->params[k]);
  Node *copy = node_opaque(c->g, n->op, n->input_count, inputs, params, n->key,
                           n->output_index, &fault);
  if (!copy)
    fail_msg("%s", fault.message);
  return copy;
}

static Node *own(Concrete *c, Node *n) {
  assert_true(c->owned_count < NODES_MOST);
  return c->owned[c->owned_count++] = n;
}

static void force(Concrete *c, uint32_t count, Node *const *nodes);

/* x, with the indices of n. */
static Node *widened(Concrete *c, Node *x, const Node *n) {
  NodeSpec form = form_at(c, n);
  BodyBuilder b;
  Fault fault = {0};
  body_init(&b, c->g, &form);
  body_read_broadcast(&b, x, 0);
  return own(c, body_finish(&b, c->g, &fault));
}

/* Each iteration has nodes of its own. */
static Node *loop_at(Concrete *c, const Node *n) {
  const LoopBody *l = n->loop_body;
  int64_t turns = number(c, l->trip_count);
  Node *state[64], *next[64], **outer = c->made, **outs = NULL;
  Fault fault = {0};
  bool stacked = n->output_index >= l->carry_count;
  for (uint32_t k = 0; k < l->carry_count; k++)
    state[k] = at_numbers(c, n->inputs[k]);
  outs = calloc((size_t)turns + 1, sizeof *outs);
  for (int64_t t = 0; l->condition || t < turns; t++) {
    c->made = malloc(NODES_MOST * sizeof *c->made);
    memcpy(c->made, outer, NODES_MOST * sizeof *c->made);
    for (uint32_t k = 0; k < NODES_MOST; k++)
      c->made[k] = c->inner[k] && c->inner[k] >= l->iteration->loop_depth
                       ? NULL
                       : c->made[k];
    for (uint32_t k = 0; k < l->carry_count; k++)
      c->made[l->carry_in[k]->id] = widened(c, state[k], l->carry_in[k]);
    c->made[l->iteration->id] =
        own(c, node_scalar(c->g, (Scalar){DT_I64, {.i = t}}));
    Node *more = l->condition ? at_numbers(c, l->condition) : NULL;
    if (more)
      force(c, 1, &more);
    if (more && !scalar_load(DT_BOOL, more->data->data).i) {
      free(c->made);
      break;
    }
    for (uint32_t k = 0; k < l->carry_count; k++)
      next[k] = at_numbers(c, l->results[k]);
    if (stacked)
      outs[t] = at_numbers(c, l->results[n->output_index]);
    memcpy(state, next, sizeof state);
    free(c->made);
  }
  c->made = outer;
  Node *out = stacked ? NULL : node_retain(state[n->output_index]);
  if (stacked && turns)
    out = node_stack(c->g, (uint32_t)turns, outs, &fault);
  if (stacked && !turns) {
    NodeSpec form = form_at(c, n);
    out = node_full(c->g, (Scalar){.dtype = n->dtype}, n->rank,
                    form.own_extents, n->broadcast_mask, &fault);
  }
  free(outs);
  return node_retain(widened(c, own(c, out), n));
}

static Node *at_numbers(Concrete *c, Node *n) {
  if (!n->symbolic && !n->free_count) /* otherwise it has other indices */
    return n;
  c->inner[n->id] = n->loop_depth;
  if (c->made[n->id])
    return c->made[n->id];
  Node *copy = n->kind == NODE_ARG    ? node_data(c->g, c->data[n->arg_index])
               : n->kind == NODE_COMP ? comp_at(c, n)
               : n->kind == NODE_LOOP ? loop_at(c, n)
                                      : opaque_at(c, n);
  if (n->guard && !copy->guard && n->kind != NODE_LOOP)
    copy->guard = node_retain(at_numbers(c, n->guard));
  return c->made[n->id] = own(c, copy);
}

/* ---- data ---- */

static Tensor *data_for(Concrete *c, uint32_t k) {
  const TraceArg *a = &c->trace->args[k];
  int64_t shape[MAX_RANK];
  Fault fault = {0};
  for (uint32_t i = 0; i < a->rank; i++)
    shape[i] = number(c, a->shape[i]);
  Tensor *t = tensor_new(a->dtype, a->rank, shape, true, &fault);
  assert_non_null(t);
  t->broadcast_mask = a->broadcast_mask;
  bool sized =
      !a->rank && extent_table_arg_var(c->trace->graph.extent_table, k);
  for (int64_t i = 0; i < t->count; i++) {
    Scalar x = {.dtype = a->dtype};
    if (dtype_is_float(a->dtype))
      x.f = (double)((i * 7919 + 131 * k) % 1009 - 500) / 256;
    else
      x.i = a->is_size ? number(c, a->size)
            : sized    ? size_named(a->name)
                       : (i * 31 + k) % 2;
    scalar_store(x, tensor_at(t, i));
  }
  return t;
}

/* ---- comparing ---- */

typedef struct Other {
  Node *nodes[64];
  const char *names[64];
  uint32_t count;
} Other;

static void add_other(void *arg, const char *name, Node *node) {
  Other *o = arg;
  o->nodes[o->count] = node_retain(node);
  o->names[o->count++] = name;
}

static void same_tensor(const char *what, const Tensor *a, const Tensor *b) {
  bool same = a->dtype == b->dtype && a->rank == b->rank;
  for (uint32_t k = 0; same && k < a->rank; k++)
    same = a->shape[k] == b->shape[k];
  if (!same)
    fail_msg("%s at %s: another type", what, sizes_now);
  for (int64_t i = 0; i < a->count; i++) {
    Scalar x = scalar_load(a->dtype, tensor_at(a, i));
    Scalar y = scalar_load(b->dtype, tensor_at(b, i));
    double f = dtype_is_float(a->dtype) ? x.f : (double)x.i;
    double h = dtype_is_float(a->dtype) ? y.f : (double)y.i;
    double most = 1e-5 * (1 + (f < 0 ? -f : f));
    if (!(f == h || (f != f && h != h) || (f - h <= most && h - f <= most)))
      fail_msg("%s at %s: element %lld is %g, not %g", what, sizes_now,
               (long long)i, f, h);
  }
}

static bool fact_holds(Concrete *c, ExtentConstraint f) {
  int64_t x, y;
  if (!extent_evaluate(&c->trace->graph, f.x, value_of, &c->s->dims, &x) ||
      !extent_evaluate(&c->trace->graph, f.y, value_of, &c->s->dims, &y))
    return false; /* it divides by 0 */
  return f.relation == EXTENT_EQ   ? x == y
         : f.relation == EXTENT_LE ? x <= y
                                   : x != y;
}

static void force(Concrete *c, uint32_t count, Node *const *nodes) {
  Span where;
  Fault fault = {0};
  if (!graph_force(c->g, count, nodes, &where, &fault))
    fail_msg("%s: %s", sizes_now, fault.message);
}

static bool required(Concrete *c, const Requirement *r) {
  for (uint32_t k = 0; k < r->premise_count; k++)
    if (!fact_holds(c, r->premises[k]))
      return true;
  if (fact_holds(c, r->constraint))
    return true;
  if (!r->guard)
    return false;
  Node *guard = at_numbers(c, r->guard);
  force(c, 1, &guard);
  return scalar_load(DT_BOOL, guard->data->data).i == 0;
}

static void compare_at(Session *s, const Trace *t, const char *sizes) {
  sizes_now = sizes;
  Concrete c = {.s = s, .trace = t, .g = eval_graph(s->eval)};
  c.made = calloc(NODES_MOST, sizeof *c.made);
  c.owned = calloc(NODES_MOST, sizeof *c.owned);
  c.data = calloc(t->arg_count + 1, sizeof *c.data);
  Node **leaves = calloc(t->arg_count + 1, sizeof *leaves);
  for (uint32_t k = 0; k < t->arg_count; k++) {
    c.data[k] = data_for(&c, k);
    leaves[k] = node_data(c.g, c.data[k]);
  }
  const Requirement *broken = NULL;
  for (uint32_t k = 0; !broken && k < t->requirement_count; k++)
    if (!required(&c, &t->requirements[k]))
      broken = &t->requirements[k];
  /* the type may require more than the body */
  bool given = broken && strstr(broken->message, " requires ");
  session_clear_diags(s);
  ValueHandle *held = trace_apply(s, &t->entry, leaves, value_of, &s->dims);
  Other other = {.count = 0};
  if (held) {
    assert_true(eval_each_leaf(s->eval, held, add_other, &other));
    force(&c, other.count, other.nodes);
  }
  if (held && broken && !given)
    fail_msg("%s at %s: refused in vain: %s", t->name, sizes, broken->message);
  if (!held && !broken)
    fail_msg("%s at %s: nothing requires: %s", t->name, sizes,
             session_diags(s)->all.at[0]->message);
  for (uint32_t k = 0; held && !broken && k < t->result_count; k++) {
    Node *n = at_numbers(&c, t->results[k].node);
    node_retain(n);
    force(&c, 1, &n);
    assert_string_equal(t->results[k].name, other.names[k]);
    same_tensor(t->name, n->data, other.nodes[k]->data);
    node_release(n);
  }
  for (uint32_t k = 0; k < other.count; k++)
    node_release(other.nodes[k]);
  value_handle_free(s->eval, held);
  while (c.owned_count)
    node_release(c.owned[--c.owned_count]);
  for (uint32_t k = 0; k < t->arg_count; k++) {
    tensor_release(c.data[k]);
    node_release(leaves[k]);
  }
  while (c.index_count)
    index_var_release(c.to[--c.index_count]);
  free(c.owned), free(c.made), free(c.data), free(leaves);
}

/* ---- what is compared ---- */

typedef struct Case {
  const char *text, *entry;
  const char *sizes[6];
} Case;

static void quiet(void *owner, const char *text, size_t len) {
  (void)owner, (void)text, (void)len;
}

static void fail_diags(Session *s, const char *what) {
  Buffer out = {0};
  for (uint32_t i = 0; i < session_diags(s)->all.len; i++)
    buffer_printf(&out, "%s\n", session_diags(s)->all.at[i]->message);
  fail_msg("%s: %.*s", what, (int)out.len, out.text);
}

static void check_case(const Case *c) {
  SessionHost host = {.eval = {.write = quiet, .trace = quiet}};
  Session *s = session_open(&host);
  assert_non_null(s);
  SourceInput text = {.name = "case", .text = c->text, .len = strlen(c->text)};
  if (session_check(s, &text) != SESSION_OK)
    fail_diags(s, c->text);
  Trace trace;
  if (trace_function(s, c->entry, &trace) != SESSION_OK)
    fail_diags(s, c->text);
  Buffer wrong = {0};
  if (!graph_verify(trace.root_count, trace.roots, &wrong))
    fail_msg("%s: %s", c->text, wrong.text);
  for (uint32_t k = 0; k < ARRAY_LEN(c->sizes) && c->sizes[k]; k++)
    compare_at(s, &trace, c->sizes[k]);
  trace_free(s, &trace);
  session_close(s);
}

#include "tests/unit/trace_cases.h"

static size_t first_case, last_case = ARRAY_LEN(cases);

static void test_cases(void **state) {
  (void)state;
  setenv("AXON_VERIFY", "1", 1);
  for (size_t k = first_case; k < last_case; k++)
    check_case(&cases[k]);
}

/* trace_test N: only case N */
int main(int argc, char **argv) {
  if (argc > 1) {
    first_case = strtoul(argv[1], NULL, 10);
    last_case = first_case + 1;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
