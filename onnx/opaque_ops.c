/* Nodes that are no comprehensions: sorting, scatter, folds and loops. */
#include "onnx/emit.h"
#include "session/state.h"
#include "support/arena_text.h"

#include <string.h>

/* ---- operands ---- */

static uint32_t free_place(const Node *n, const IndexVar *v) {
  for (uint32_t k = 0; k < n->free_count; k++)
    if (n->free_vars[k] == v)
      return k;
  return UINT32_MAX;
}

/* The axes of an operand among those of n: free axes by name, own axes from
 * `first` on. */
static Labeled operand_value(Exporter *x, const Node *n, Node *operand,
                             uint32_t first) {
  Labeled v = node_value(x, settled_node(x, operand)), out = {v.name, 0};
  for (uint32_t k = 0; k < operand->free_count + operand->rank; k++) {
    uint32_t axis = k < operand->free_count
                        ? free_place(n, operand->free_vars[k])
                        : first + k - operand->free_count;
    if (axis >= MAX_RANK)
      export_fail(x, NULL, "it has too many axes");
    if (v.axes >> k & 1)
      out.axes |= 1u << axis;
  }
  return out;
}

/* An operand with all axes: the free axes of n and its own ones. */
static const char *whole_operand(Exporter *x, const Node *n, Node *operand) {
  AxisSizes a = {.count = n->free_count + operand->rank};
  memcpy(a.extents, n->extents, n->free_count * sizeof a.extents[0]);
  memcpy(a.extents + n->free_count, operand->extents + operand->free_count,
         operand->rank * sizeof a.extents[0]);
  return expand_to(x, &a, operand_value(x, n, operand, n->free_count),
                   (1u << a.count) - 1);
}

static Labeled whole(const Node *n, const char *name) {
  return (Labeled){name, (1u << (n->free_count + n->rank)) - 1};
}

/* ---- operators ---- */

static Labeled put_topk(Exporter *x, Node *n, int64_t k, int64_t axis,
                        bool largest, uint32_t output) {
  OpMessage *op = op_new(x, "TopK");
  op_input(x, op, whole_operand(x, n, n->inputs[0]));
  op_input(x, op, put_shape(x, 1, &k));
  op_int(x, op, "axis", axis);
  op_int(x, op, "largest", largest);
  const char *values = op_output(x, op), *indices = op_output(x, op);
  return whole(n, output ? indices : values);
}

static Labeled lower_sort(Exporter *x, Node *n) {
  int64_t axis = n->free_count + n->params[0];
  return put_topk(x, n, n->extents[axis], axis, false, n->op == PRIM_ARGSORT);
}

static Labeled lower_topk(Exporter *x, Node *n) {
  return put_topk(x, n, n->params[0], -1, true, n->output_index);
}

static Labeled lower_cumsum(Exporter *x, Node *n) {
  const char *operand = whole_operand(x, n, n->inputs[0]);
  const char *axis = put_int(x, n->free_count + n->params[0]);
  return whole(n, put_op(x, "CumSum", operand, axis, NULL));
}

static Labeled lower_scatter(Exporter *x, Node *n) {
  int64_t last = 1;
  if (n->free_count)
    export_fail(x, NULL, "ONNX has no `scatter` inside of a `for`");
  OpMessage *op = op_new(x, "ScatterND");
  op_input(x, op, whole_operand(x, n, n->inputs[0]));
  const char *index = whole_operand(x, n, n->inputs[1]);
  if (n->inputs[1]->dtype != DT_I64)
    index = put_cast(x, index, DT_I64);
  op_input(x, op, put_op(x, "Unsqueeze", index, put_list(x, 1, &last), NULL));
  op_input(x, op, whole_operand(x, n, n->inputs[2]));
  op_string(x, op, "reduction", "add");
  return whole(n, op_output(x, op));
}

/* ---- loops: the operator Loop ---- */

typedef struct LoopWriter {
  Exporter *x;
  OpMessage *op;
  ModelGraph graph;
  Scope scope;
  const char *iteration, *condition;
  VEC(Onnx__ValueInfoProto *) inputs, outputs;
} LoopWriter;

static const char *loop_name(LoopWriter *w, const char *what) {
  return arena_printf(w->x->arena, "Loop_%s_%u", what, ++w->x->name_count);
}

static const char *add_loop_input(LoopWriter *w, const char *what, Dtype dtype,
                                  uint32_t rank, const int64_t *extents) {
  const char *name = loop_name(w, what);
  VEC_PUSH(w->x->arena, w->inputs,
           value_info(w->x, name, dtype, rank, extents));
  return name;
}

/* Results need names of their own. */
static void add_loop_output(LoopWriter *w, const char *value, Dtype dtype,
                            uint32_t rank, const int64_t *extents) {
  const char *name = put_op(w->x, "Identity", value, NULL, NULL);
  VEC_PUSH(w->x->arena, w->outputs,
           value_info(w->x, name, dtype, rank, extents));
}

static void begin_loop(LoopWriter *w, Exporter *x, uint32_t depth,
                       const char *count, const char *condition) {
  *w = (LoopWriter){.x = x};
  w->scope = (Scope){.graph = &w->graph, .parent = x->scope, .depth = depth};
  map_init(&w->scope.values, x->arena);
  map_init(&w->scope.loops, x->arena);
  w->op = op_new(x, "Loop");
  op_input(x, w->op, count);
  op_input(x, w->op, condition);
  w->iteration = add_loop_input(w, "iteration", DT_I64, 0, NULL);
  w->condition = add_loop_input(w, "condition", DT_BOOL, 0, NULL);
}

static void end_loop(LoopWriter *w) {
  Onnx__GraphProto *g = graph_message(w->x, &w->graph, "body");
  g->n_input = w->inputs.len;
  g->input = w->inputs.at;
  g->n_output = w->outputs.len;
  g->output = w->outputs.at;
  op_graph(w->x, w->op, "body", g);
}

/* ---- loops of elements ---- */

typedef struct FoldAxes { /* free axes, the iterations, own axes */
  AxisSizes all;
  uint32_t iteration; /* their axis */
  uint32_t carried;
} FoldAxes;

static FoldAxes fold_axes(const Node *n) {
  bool is_scan = n->op == PRIM_SCAN;
  uint32_t own = n->rank - is_scan;
  FoldAxes f = {.iteration = n->free_count};
  f.all.count = n->free_count + 1 + own;
  memcpy(f.all.extents, n->extents, n->free_count * sizeof f.all.extents[0]);
  f.all.extents[f.iteration] = n->params[0];
  memcpy(f.all.extents + f.iteration + 1, n->extents + n->free_count + is_scan,
         own * sizeof f.all.extents[0]);
  f.carried = ((1u << f.all.count) - 1) & ~(1u << f.iteration);
  return f;
}

static void carried_extents(const FoldAxes *f, int64_t *out) {
  for (uint32_t k = 0, n = 0; k < f->all.count; k++)
    if (k != f->iteration)
      out[n++] = f->all.extents[k];
}

static Labeled fold_input(LoopWriter *w, const FoldAxes *f, const Node *n,
                          uint32_t k, Labeled v) {
  bool is_sliced = (uint64_t)n->params[2] >> k & 1;
  if (!is_sliced || !(v.axes >> f->iteration & 1))
    return v;
  OpMessage *op = op_new(w->x, "Gather");
  op_input(w->x, op, v.name);
  op_input(w->x, op, w->iteration);
  op_int(w->x, op, "axis", lower_axes(v.axes, f->iteration));
  return (Labeled){op_output(w->x, op), v.axes & ~(1u << f->iteration)};
}

static Labeled fold_result(Exporter *x, const Node *n, const FoldAxes *f,
                           const char *name) {
  if (n->op == PRIM_FOLD)
    return whole(n, name);
  int64_t perm[MAX_RANK];
  for (uint32_t k = 0; k < f->all.count; k++)
    perm[k] = k == f->iteration ? 0 : k < f->iteration ? k + 1 : k;
  return whole(n, put_transpose(x, name, f->all.count, perm));
}

static Labeled lower_fold(Exporter *x, Node *n) {
  FoldAxes f = fold_axes(n);
  uint32_t carry_count = (uint32_t)n->params[1];
  bool is_scan = n->op == PRIM_SCAN;
  int64_t extents[MAX_RANK];
  Labeled *inputs = MAKE_ARRAY(x->arena, Labeled, n->input_count + 1);
  LoopWriter w;
  carried_extents(&f, extents);
  for (uint32_t k = 0; k < n->input_count; k++) {
    bool is_sliced = (uint64_t)n->params[2] >> k & 1;
    inputs[k] = operand_value(x, n, n->inputs[k],
                              is_sliced ? f.iteration : f.iteration + 1);
  }
  begin_loop(&w, x, x->scope->depth, put_extent(x, n->params[0]), "");
  for (uint32_t k = 0; k < carry_count; k++)
    op_input(x, w.op, expand_to(x, &f.all, inputs[k], f.carried));
  Scope *outer = x->scope;
  w.scope.depth = UINT32_MAX; /* no node belongs to it */
  x->scope = &w.scope;
  for (uint32_t k = 0; k < n->input_count; k++)
    inputs[k] = k < carry_count
                    ? (Labeled){add_loop_input(&w, "carry", n->inputs[k]->dtype,
                                               f.all.count - 1, extents),
                                f.carried}
                    : fold_input(&w, &f, n, k, inputs[k]);
  Formula **ops = fold_formulas(x, n, inputs);
  uint32_t results = carry_count + is_scan;
  add_loop_output(&w, w.condition, DT_BOOL, 0, NULL);
  for (uint32_t k = 0; k < results; k++) {
    Formula *r = ops[n->body_op_count - results + k];
    Labeled v = lower_formula(x, &f.all, r);
    add_loop_output(&w, expand_to(x, &f.all, v, f.carried), r->dtype,
                    f.all.count - 1, extents);
  }
  x->scope = outer;
  end_loop(&w);
  const char *wanted = NULL;
  for (uint32_t k = 0; k < results; k++) {
    const char *name = op_output(x, w.op);
    if (k == (is_scan ? carry_count : (uint32_t)n->params[3]))
      wanted = name;
  }
  return fold_result(x, n, &f, wanted);
}

/* ---- loops of nodes ---- */

/* Writes the condition for values of the carry. */
static const char *loop_condition(Exporter *x, const LoopBody *l,
                                  const Labeled *carry, Labeled iteration) {
  Scope scope = {.graph = x->scope->graph, .parent = x->scope};
  Scope *outer = x->scope;
  scope.depth = l->iteration->loop_depth;
  if (outer->depth == scope.depth)
    scope.parent = outer->parent;
  map_init(&scope.values, x->arena);
  map_init(&scope.loops, x->arena);
  Labeled *bound = MAKE_ARRAY(x->arena, Labeled, l->carry_count + 1);
  for (uint32_t k = 0; k < l->carry_count; k++) {
    bound[k] = carry[k];
    map_put(&scope.values, l->carry_in[k], &bound[k]);
  }
  bound[l->carry_count] = iteration;
  map_put(&scope.values, l->iteration, &bound[l->carry_count]);
  x->scope = &scope;
  const char *out = node_whole(x, l->condition);
  x->scope = outer;
  return out;
}

static void write_loop_body(LoopWriter *w, const Node *n,
                            const Labeled *carry) {
  Exporter *x = w->x;
  const LoopBody *l = n->loop_body;
  uint32_t count = l->carry_count + l->stacked_count;
  Labeled *next = MAKE_ARRAY(x->arena, Labeled, count + 1);
  Labeled *bound = MAKE_ARRAY(x->arena, Labeled, l->carry_count + 1);
  const char **values = MAKE_ARRAY(x->arena, const char *, count + 1);
  for (uint32_t k = 0; k < l->carry_count; k++) {
    bound[k] = carry[k];
    map_put(&w->scope.values, l->carry_in[k], &bound[k]);
  }
  bound[l->carry_count] = (Labeled){w->iteration, 0};
  map_put(&w->scope.values, l->iteration, &bound[l->carry_count]);
  for (uint32_t k = 0; k < count; k++) {
    values[k] = whole_operand(x, n, l->results[k]);
    next[k] =
        (Labeled){values[k], (1u << (n->free_count + l->results[k]->rank)) - 1};
  }
  const char *more = w->condition;
  if (l->condition)
    more = loop_condition(
        x, l, next,
        (Labeled){put_op(x, "Add", w->iteration, put_int(x, 1), NULL), 0});
  add_loop_output(w, more, DT_BOOL, 0, NULL);
  for (uint32_t k = 0; k < count; k++) {
    const Node *r = l->results[k];
    int64_t extents[MAX_RANK];
    memcpy(extents, n->extents, n->free_count * sizeof extents[0]);
    memcpy(extents + n->free_count, r->extents + r->free_count,
           r->rank * sizeof extents[0]);
    add_loop_output(w, values[k], r->dtype, n->free_count + r->rank, extents);
  }
}

static const char **write_loop(Exporter *x, Node *n) {
  const LoopBody *l = n->loop_body;
  uint32_t count = l->carry_count + l->stacked_count;
  Labeled *carry = MAKE_ARRAY(x->arena, Labeled, l->carry_count + 1);
  LoopWriter w;
  for (uint32_t k = 0; k < l->carry_count; k++) {
    const Node *c = l->carry_in[k];
    if (c->free_count != n->free_count)
      export_fail(x, "apply the loop to whole tensors",
                  "ONNX has no such loop inside of a `for`");
    carry[k] = (Labeled){whole_operand(x, n, n->inputs[k]),
                         (1u << (n->free_count + c->rank)) - 1};
  }
  const char *start = "";
  if (l->condition)
    start = loop_condition(x, l, carry, (Labeled){put_int(x, 0), 0});
  begin_loop(&w, x, l->iteration->loop_depth,
             l->condition ? "" : put_extent(x, l->trip_count), start);
  for (uint32_t k = 0; k < l->carry_count; k++) {
    const Node *c = l->carry_in[k];
    op_input(x, w.op, carry[k].name);
    carry[k].name = add_loop_input(&w, "carry", c->dtype,
                                   c->free_count + c->rank, c->extents);
  }
  Scope *outer = x->scope;
  x->scope = &w.scope;
  write_loop_body(&w, n, carry);
  x->scope = outer;
  end_loop(&w);
  const char **names = MAKE_ARRAY(x->arena, const char *, count + 1);
  for (uint32_t k = 0; k < count; k++)
    names[k] = op_output(x, w.op);
  return names;
}

/* Stacked outputs have the iterations as their first axis; free axes belong
 * before it. */
Labeled lower_loop(Exporter *x, Node *n) {
  const LoopBody *l = n->loop_body;
  const char **names = map_get(&x->scope->loops, l);
  if (!names) {
    names = write_loop(x, n);
    map_put(&x->scope->loops, l, names);
  }
  const char *name = names[n->output_index];
  if (n->output_index < l->carry_count || !n->free_count)
    return whole(n, name);
  int64_t perm[MAX_RANK];
  for (uint32_t k = 0; k < n->free_count + n->rank; k++)
    perm[k] = k < n->free_count ? k + 1 : k == n->free_count ? 0 : k;
  return whole(n, put_transpose(x, name, n->free_count + n->rank, perm));
}

/* ---- the table ---- */

static const struct {
  PrimId op;
  Labeled (*lower)(Exporter *x, Node *n);
} rows[] = {
    {PRIM_SORT, lower_sort},       {PRIM_ARGSORT, lower_sort},
    {PRIM_TOPK, lower_topk},       {PRIM_CUMSUM, lower_cumsum},
    {PRIM_SCATTER, lower_scatter}, {PRIM_FOLD, lower_fold},
    {PRIM_SCAN, lower_fold},
};

Labeled lower_opaque(Exporter *x, Node *n) {
  for (size_t k = 0; k < ARRAY_LEN(rows); k++)
    if (rows[k].op == n->op)
      return rows[k].lower(x, n);
  export_fail(x, NULL, "ONNX has no operator for `%s`", prim_info[n->op].name);
}
