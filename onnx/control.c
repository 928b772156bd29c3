/* Control flow: If, Scan and Loop.  The nodes of a nested graph become a `let`
   of their own.  What decides a shape is known when the model is imported: a
   branch that is decided is written alone, and a loop that cannot stay one is
   unrolled if its trip count is known. */
#include "onnx/ops.h"

#include <string.h>

enum { MAX_UNROLLED = 64 };

/* ---- nested graphs ---- */

static const Graph *nested_graph(Importer *im, const char *name) {
  const Attribute *a = find_attribute(im, name);
  if (!a || !a->g)
    import_fail(im, NULL, "it has no graph `%s`", name);
  return a->g;
}

static Value *graph_output(Importer *im, const Graph *g, size_t i) {
  const char *name = g->output[i]->name ? g->output[i]->name : "";
  Value *v = find_value(im, name);
  if (!v)
    import_fail(im, NULL, "no node computes the output `%.80s`", name);
  return plain(im, v);
}

static const char *graph_input_name(const Graph *g, size_t i) {
  return g->input[i]->name ? g->input[i]->name : "";
}

/* A parameter of a function whose values are like v. */
static Value *bind_parameter(Importer *im, const Graph *g, size_t i,
                             const Value *v) {
  Value *out = MAKE(im->arena, Value);
  out->onnx_name = graph_input_name(g, i);
  out->dtype = v->dtype;
  out->shape = v->shape;
  out->text = make_identifier(im, out->onnx_name, "x", 30);
  bind_value(im, out->onnx_name, out);
  return out;
}

static const char *tuple_items(Importer *im, uint32_t count,
                               const char *const *parts) {
  Buffer b = {.arena = im->arena};
  for (uint32_t i = 0; i < count; i++)
    buffer_printf(&b, i ? ", %s" : "%s", parts[i]);
  return b.text ? b.text : "";
}

static const char *tuple(Importer *im, uint32_t count,
                         const char *const *parts) {
  return count == 1 ? parts[0]
                    : text(im, "(%s)", tuple_items(im, count, parts));
}

/* The statements since then, around a result. */
static const char *close_block(Importer *im, const Statements *outer,
                               const char *result) {
  Buffer b = {.arena = im->arena};
  im->nested--;
  for (uint32_t i = 0; i < im->statements.len; i++)
    buffer_printf(&b, " val %s = %s\n", im->statements.at[i].name,
                  im->statements.at[i].text);
  bool is_empty = im->statements.len == 0;
  im->statements = *outer;
  return is_empty ? result : text(im, "let%s in %s end", b.text, result);
}

static Statements open_block(Importer *im) {
  Statements outer = im->statements;
  im->nested++;
  im->statements = (Statements){0};
  return outer;
}

/* Output i of the node, with a name that the program has already. */
static void define_named(Importer *im, uint32_t i, const char *name,
                         Dtype dtype, const Shape *shape) {
  Value *v = MAKE(im->arena, Value);
  v->onnx_name = has_output(im, i) ? im->node->output[i] : name;
  v->dtype = dtype;
  v->shape = *shape;
  v->text = name;
  define_alias(im, i, v);
}

static const char *output_name(Importer *im, uint32_t i) {
  const char *wish = has_output(im, i) ? im->node->output[i] : "unused";
  return make_identifier(im, wish, im->node->op_type, 30);
}

/* ---- If ---- */

static void import_decided(Importer *im, const Graph *g) {
  import_nodes(im, g);
  for (uint32_t i = 0; i < g->n_output; i++)
    define_alias(im, i, graph_output(im, g, i));
}

/* Both branches: their results have one type. */
static void import_branches(Importer *im, Value *condition,
                            const Graph *const *graphs) {
  uint32_t count = (uint32_t)graphs[0]->n_output;
  const char *sides[2];
  Value **results = MAKE_ARRAY(im->arena, Value *, count + 1);
  const char **parts = MAKE_ARRAY(im->arena, const char *, count + 1);
  const char *c = scalar_text(im, condition);
  for (int side = 0; side < 2; side++) {
    Statements outer = open_block(im);
    import_nodes(im, graphs[side]);
    for (uint32_t i = 0; i < count; i++) {
      Value *v = graph_output(im, graphs[side], i);
      if (side && (v->dtype != results[i]->dtype ||
                   !shapes_equal(&v->shape, &results[i]->shape)))
        import_fail(im, "give the input that decides it: --set NAME=1",
                    "its condition is not known, and its branches have "
                    "results of different types");
      results[i] = v;
      parts[i] = ref(im, v);
    }
    sides[side] = close_block(im, &outer, tuple(im, count, parts));
  }
  for (uint32_t i = 0; i < count; i++)
    parts[i] = output_name(im, i);
  Statement s = {.name = tuple(im, count, parts),
                 .text =
                     text(im, "if %s then %s else %s", c, sides[0], sides[1])};
  VEC_PUSH(im->arena, im->statements, s);
  for (uint32_t i = 0; i < count; i++)
    define_named(im, i, parts[i], results[i]->dtype, &results[i]->shape);
}

void onnx_if(Importer *im, const char *how) {
  Value *condition = plain(im, raw_input(im, 0));
  Dim **known = known_ints(im, condition);
  const Graph *graphs[] = {nested_graph(im, "then_branch"),
                           nested_graph(im, "else_branch")};
  (void)how;
  for (int side = 0; side < 2; side++)
    if (graphs[side]->n_output != im->node->n_output)
      import_fail(im, NULL, "a branch has another number of outputs");
  if (value_count(im, condition) != 1)
    import_fail(im, NULL, "its condition is not one value");
  if (known)
    import_decided(im, graphs[!is_one(known[0])]);
  else
    import_branches(im, condition, graphs);
}

/* ---- loops ---- */

typedef struct LoopBody {
  const Graph *graph;
  uint32_t states;       /* values that iterations pass on */
  uint32_t results;      /* values that are stacked */
  uint32_t first_output; /* of the graph: the first state */
  Value **state;         /* before the loop */
  Value **result;        /* of one iteration */
  const char **next;     /* texts of the states behind an iteration */
} LoopBody;

/* The states are `states` inputs of the node from first_input on. */
static LoopBody loop_body(Importer *im, uint32_t first_input, uint32_t states,
                          uint32_t first_output) {
  LoopBody l = {.graph = nested_graph(im, "body"),
                .states = states,
                .first_output = first_output};
  uint32_t outputs = (uint32_t)im->node->n_output;
  if (l.graph->n_output != outputs + first_output)
    import_fail(im, NULL, "its body has another number of outputs");
  if (l.states > outputs)
    import_fail(im, NULL, "it has more states than outputs");
  l.results = outputs - l.states;
  l.state = MAKE_ARRAY(im->arena, Value *, l.states + 1);
  l.result = MAKE_ARRAY(im->arena, Value *, l.results + 1);
  l.next = MAKE_ARRAY(im->arena, const char *, l.states + 1);
  for (uint32_t i = 0; i < l.states; i++)
    l.state[i] = input(im, first_input + i);
  return l;
}

/* Parameters of a function for the states: inputs of the graph from `first`. */
static const char *state_parameters(Importer *im, const LoopBody *l,
                                    size_t first) {
  const char **parts = MAKE_ARRAY(im->arena, const char *, l->states + 1);
  for (uint32_t i = 0; i < l->states; i++)
    parts[i] = bind_parameter(im, l->graph, first + i, l->state[i])->text;
  return tuple(im, l->states, parts);
}

static const char *start_texts(Importer *im, const LoopBody *l) {
  const char **parts = MAKE_ARRAY(im->arena, const char *, l->states + 1);
  for (uint32_t i = 0; i < l->states; i++)
    parts[i] = ref(im, l->state[i]);
  return tuple(im, l->states, parts);
}

/* Imports one iteration.  Returns the texts of its results. */
static const char *import_iteration(Importer *im, LoopBody *l) {
  const char **parts = MAKE_ARRAY(im->arena, const char *, l->results + 1);
  import_nodes(im, l->graph);
  for (uint32_t i = 0; i < l->states; i++) {
    Value *v = graph_output(im, l->graph, l->first_output + i);
    if (v->dtype != l->state[i]->dtype ||
        !shapes_equal(&v->shape, &l->state[i]->shape))
      import_fail(im, NULL,
                  "its state `%.80s` changes its shape or element type from "
                  "iteration to iteration",
                  l->graph->output[l->first_output + i]->name);
    l->next[i] = ref(im, v);
  }
  for (uint32_t i = 0; i < l->results; i++) {
    l->result[i] = graph_output(im, l->graph, l->first_output + l->states + i);
    parts[i] = ref(im, l->result[i]);
  }
  return tuple(im, l->results, parts);
}

static Shape stacked_shape(Importer *im, const Value *v, uint32_t axis,
                           Dim *length) {
  Shape shape = {.rank = v->shape.rank + 1};
  if (shape.rank > MAX_RANK)
    import_fail(im, NULL, "a result has more than %d axes", MAX_RANK);
  for (uint32_t k = 0; k < shape.rank; k++)
    shape.dims[k] = k < axis    ? v->shape.dims[k]
                    : k == axis ? length
                                : v->shape.dims[k - 1];
  return shape;
}

/* The statement `val (states, results) = expression`; the states are outputs of
   the node.  Returns the names of the results. */
static const char **put_loop(Importer *im, const LoopBody *l,
                             const char *expression) {
  const char **names = MAKE_ARRAY(im->arena, const char *, l->results + 1);
  const char **states = MAKE_ARRAY(im->arena, const char *, l->states + 1);
  for (uint32_t i = 0; i < l->states; i++)
    states[i] = output_name(im, i);
  for (uint32_t i = 0; i < l->results; i++)
    names[i] = output_name(im, l->states + i);
  Statement s = {.name = tuple(im, l->states, states), .text = expression};
  if (l->results)
    s.name = text(im, "(%s, %s)", s.name, tuple(im, l->results, names));
  VEC_PUSH(im->arena, im->statements, s);
  for (uint32_t i = 0; i < l->states; i++)
    define_named(im, i, states[i], l->state[i]->dtype, &l->state[i]->shape);
  return names;
}

/* ---- Scan ---- */

static int64_t axis_attribute(Importer *im, const char *name, uint32_t i) {
  const int64_t *all;
  uint32_t count = attr_ints(im, name, &all);
  return i < count ? all[i] : 0;
}

/* The size of axis k of v, which all scanned values share. */
static void require_length(Importer *im, Dim **length, const Value *v,
                           uint32_t k) {
  if (k >= v->shape.rank)
    import_fail(im, NULL, "an input has %u axes, not at least %u",
                v->shape.rank, k + 1);
  if (*length && !dim_equal(*length, v->shape.dims[k]))
    import_fail(im, NULL, "its inputs have different lengths");
  *length = v->shape.dims[k];
}

/* Scanned input k: its elements are a parameter of the body. */
static const char *scanned_items(Importer *im, const LoopBody *l, uint32_t k,
                                 Dim **length, const char **parameter) {
  Value *v = input(im, l->states + k), item = *v;
  uint32_t axis =
      normal_axis(im, axis_attribute(im, "scan_input_axes", k), v->shape.rank);
  require_length(im, length, v, axis);
  item.shape.rank--;
  for (uint32_t a = axis; a < item.shape.rank; a++)
    item.shape.dims[a] = item.shape.dims[a + 1];
  *parameter = bind_parameter(im, l->graph, l->states + k, &item)->text;
  const char *items = move_axis(im, ref(im, v), v->shape.rank, axis, 0);
  return axis_attribute(im, "scan_input_directions", k)
             ? text(im, "(reverse ~axis:0 %s)", items)
             : items;
}

static void define_stacked(Importer *im, const LoopBody *l, const char **names,
                           Dim *length) {
  for (uint32_t i = 0; i < l->results; i++) {
    const Value *v = l->result[i];
    uint32_t rank = v->shape.rank + 1;
    uint32_t axis =
        normal_axis(im, axis_attribute(im, "scan_output_axes", i), rank);
    const char *all = names[i];
    if (axis_attribute(im, "scan_output_directions", i))
      all = text(im, "(reverse ~axis:0 %s)", all);
    all = move_axis(im, all, rank, 0, axis);
    Shape shape = stacked_shape(im, v, axis, length);
    if (all == names[i])
      define_named(im, l->states + i, all, v->dtype, &shape);
    else
      define(im, l->states + i, v->dtype, &shape, "%s", all);
  }
}

/* Imports the body.  Returns a call of `scan`. */
static const char *scan_text(Importer *im, LoopBody *l, const char *state,
                             const char *item, const char *start,
                             const char *items) {
  Statements outer = open_block(im);
  const char *results = import_iteration(im, l);
  const char *body = close_block(
      im, &outer, text(im, "(%s, %s)", tuple(im, l->states, l->next), results));
  const char *scan =
      text(im, "scan (fn %s %s => %s) %s %s", state, item, body, start, items);
  return l->results ? scan : text(im, "fst (%s)", scan);
}

/* The loop of a node whose states are inputs from first_input on. */
static LoopBody scan_body(Importer *im, uint32_t first_input,
                          uint32_t *item_count) {
  int64_t count = attr_int(im, "num_scan_inputs", 0);
  uint32_t inputs = input_count(im);
  inputs = inputs < first_input ? 0 : inputs - first_input;
  if (count < 1 || count > inputs)
    import_fail(im, NULL, "`num_scan_inputs` does not fit its inputs");
  LoopBody l = loop_body(im, first_input, inputs - (uint32_t)count, 0);
  if (l.graph->n_input != inputs)
    import_fail(im, NULL, "its body has another number of inputs");
  *item_count = (uint32_t)count;
  return l;
}

/* One sequence of a batch. */
static Value without_leading_axes(const Value *v, uint32_t count) {
  Value item = *v;
  item.shape.rank -= count;
  for (uint32_t a = 0; a < item.shape.rank; a++)
    item.shape.dims[a] = v->shape.dims[a + count];
  return item;
}

/* The names of the loop's values in a function of one sequence. */
typedef struct Sequence {
  const char *states, *state_batch; /* parameter; argument */
  const char *items, *item_batch;
  const char *item, *scanned; /* parameter and argument of the iteration */
  Value **state;              /* with the axis of the batch */
  Dim *batch, *length;
} Sequence;

static void put_sequence_states(Importer *im, LoopBody *l, Sequence *s) {
  const char **names = MAKE_ARRAY(im->arena, const char *, l->states + 1);
  s->state_batch = start_texts(im, l);
  s->state = MAKE_ARRAY(im->arena, Value *, l->states + 1);
  for (uint32_t i = 0; i < l->states; i++) {
    s->state[i] = l->state[i];
    require_length(im, &s->batch, l->state[i], 0);
    l->state[i] = MAKE(im->arena, Value);
    *l->state[i] = without_leading_axes(s->state[i], 1);
    names[i] = make_identifier(im, "start", "start", 20);
  }
  s->states = tuple(im, l->states, names);
}

static void put_sequence_items(Importer *im, const LoopBody *l, Sequence *s,
                               uint32_t count, uint32_t first_input) {
  const char **names = MAKE_ARRAY(im->arena, const char *, count);
  const char **batches = MAKE_ARRAY(im->arena, const char *, count);
  const char **items = MAKE_ARRAY(im->arena, const char *, count);
  const char **scanned = MAKE_ARRAY(im->arena, const char *, count);
  for (uint32_t k = 0; k < count; k++) {
    Value *v = input(im, first_input + l->states + k);
    require_length(im, &s->batch, v, 0);
    require_length(im, &s->length, v, 1);
    Value item = without_leading_axes(v, 2);
    items[k] = bind_parameter(im, l->graph, l->states + k, &item)->text;
    names[k] = make_identifier(im, "items", "items", 20);
    batches[k] = ref(im, v);
    scanned[k] = axis_attribute(im, "directions", k)
                     ? text(im, "(reverse ~axis:0 %s)", names[k])
                     : names[k];
  }
  s->items = tuple(im, count, names);
  s->item_batch = tuple(im, count, batches);
  s->item = tuple(im, count, items);
  s->scanned = tuple(im, count, scanned);
}

/* Opset 8: each value has an axis of a batch in front, and the first input has
 * the lengths of the sequences. */
static void import_batched_scan(Importer *im) {
  uint32_t count;
  Sequence s = {0};
  if (has_input(im, 0))
    import_fail(im, NULL, "sequences of different lengths are not supported");
  LoopBody l = scan_body(im, 1, &count);
  put_sequence_states(im, &l, &s);
  const char *state = state_parameters(im, &l, 0);
  put_sequence_items(im, &l, &s, count, 1);
  const char *scan =
      scan_text(im, &l, state, s.item, l.states ? s.states : "()", s.scanned);
  const char *all =
      l.states
          ? text(im, "map (fn (%s, %s) => %s) (%s, %s)", s.states, s.items,
                 scan, s.state_batch, s.item_batch)
          : text(im, "map (fn %s => snd (%s)) %s", s.items, scan, s.item_batch);
  l.state = s.state;
  const char **names = put_loop(im, &l, all);
  for (uint32_t i = 0; i < l.results; i++) {
    Value stacked = *l.result[i];
    stacked.shape = stacked_shape(im, l.result[i], 0, s.length);
    Shape shape = stacked_shape(im, &stacked, 0, s.batch);
    define_named(im, l.states + i, names[i], stacked.dtype, &shape);
  }
}

void onnx_scan(Importer *im, const char *how) {
  (void)how;
  if (im->opset < 9) {
    import_batched_scan(im);
    return;
  }
  uint32_t count;
  LoopBody l = scan_body(im, 0, &count);
  const char **items = MAKE_ARRAY(im->arena, const char *, count);
  const char **names = MAKE_ARRAY(im->arena, const char *, count);
  const char *state = state_parameters(im, &l, 0);
  Dim *length = NULL;
  for (uint32_t k = 0; k < count; k++)
    items[k] = scanned_items(im, &l, k, &length, &names[k]);
  const char *scan = scan_text(im, &l, state, tuple(im, count, names),
                               start_texts(im, &l), tuple(im, count, items));
  define_stacked(im, &l, put_loop(im, &l, scan), length);
}

/* ---- Loop ---- */

typedef struct LoopCount {
  Dim *known;       /* the trip count; NULL: not known, or unlimited */
  const char *text; /* of the trip count; NULL: unlimited */
  Value *condition; /* before the loop; NULL: true */
} LoopCount;

static Value *known_value(Importer *im, Dtype dtype, Dim *d) {
  Value *v = MAKE(im->arena, Value);
  v->onnx_name = "";
  v->dtype = dtype;
  v->ints = MAKE_ARRAY(im->arena, Dim *, 1);
  v->ints[0] = d;
  return v;
}

static bool is_known_true(Importer *im, Value *v) {
  Dim **known = known_ints(im, v);
  return known && value_count(im, v) == 1 && is_one(known[0]);
}

static LoopCount loop_count(Importer *im) {
  LoopCount c = {0};
  if (has_input(im, 0)) {
    Value *v = input(im, 0);
    Dim **known = known_ints(im, v);
    int64_t n;
    if (value_count(im, v) != 1)
      import_fail(im, NULL, "its trip count is not one number");
    c.known = known ? known[0] : NULL;
    if (c.known && dim_is_int(c.known, &n) && n < 0)
      c.known = num(im, 0);
    c.text = c.known ? extent_atom(im, c.known) : scalar_text(im, v);
    if (c.known && dim_is_int(c.known, &n) && n >= INT32_MAX)
      c.known = NULL, c.text = NULL; /* no limit */
  }
  if (has_input(im, 1) && !is_known_true(im, input(im, 1)))
    c.condition = input(im, 1);
  return c;
}

/* The loop as iterate, while or scan. */
static void import_rolled(Importer *im, const LoopCount *c) {
  LoopBody l = loop_body(im, 2, input_count(im) - 2, 1);
  Value index = {.dtype = DT_I64};
  const char *start = start_texts(im, &l);
  Statements outer = open_block(im);
  const char *i = bind_parameter(im, l.graph, 0, &index)->text;
  /* The body only runs if the condition holds. */
  bind_value(im, graph_input_name(l.graph, 1),
             known_value(im, DT_BOOL, num(im, 1)));
  const char *state = state_parameters(im, &l, 2);
  const char *results = import_iteration(im, &l);
  Value *more = graph_output(im, l.graph, 0);
  bool is_counted = is_known_true(im, more) && !c->condition && c->text;
  const char *next = tuple(im, l.states, l.next);
  if (l.results && !is_counted)
    import_fail(im, "give the trip count its number: --set NAME=N",
                "it stacks results, and its trip count is not known");
  if (l.results) {
    const char *body =
        close_block(im, &outer, text(im, "(%s, %s)", next, results));
    Dim *count =
        c->known ? c->known
                 : data_size(im, "count", text(im, "maximum 0 %s", c->text));
    const char **names =
        put_loop(im, &l,
                 text(im, "scan (fn %s %s => %s) %s (iota %s)", state, i, body,
                      start, extent_atom(im, count)));
    define_stacked(im, &l, names, count);
  } else if (is_counted) {
    const char *body =
        close_block(im, &outer, text(im, "(%s + 1, %s)", i, next));
    put_loop(im, &l,
             text(im, "snd (iterate %s (fn (%s, %s) => %s) (0, %s))", c->text,
                  i, state, body, start));
  } else {
    const char *first = c->condition ? scalar_text(im, c->condition) : "true";
    const char *count = index_name(im, "count"), *go = index_name(im, "more");
    const char *limit = c->text ? text(im, " && %s < %s", count, c->text) : "";
    const char *body = close_block(
        im, &outer,
        text(im, "(%s + 1, %s, %s)", i, scalar_text(im, more), next));
    put_loop(im, &l,
             text(im,
                  "(case while (fn (%s, %s, _) => %s%s) (fn (%s, _, %s) => %s) "
                  "(0, %s, %s) of (_, _, states) => states)",
                  count, go, go, limit, i, state, body, first, start));
  }
}

/* One iteration after another, each with a known index. */
static void import_unrolled(Importer *im, const LoopCount *c) {
  LoopBody l = loop_body(im, 2, input_count(im) - 2, 1);
  int64_t count = MAX_UNROLLED, at = 0;
  if (c->known)
    count = dim_number(im, c->known, "the trip count");
  const char ***parts = MAKE_ARRAY(im->arena, const char **, l.results + 1);
  for (uint32_t k = 0; k < l.results; k++)
    parts[k] = MAKE_ARRAY(im->arena, const char *, MAX_UNROLLED + 1);
  for (bool more = true; more && at < count; at++) {
    bind_value(im, graph_input_name(l.graph, 0),
               known_value(im, DT_I64, num(im, at)));
    bind_value(im, graph_input_name(l.graph, 1),
               known_value(im, DT_BOOL, num(im, 1)));
    for (uint32_t k = 0; k < l.states; k++)
      bind_value(im, graph_input_name(l.graph, 2 + k), l.state[k]);
    import_nodes(im, l.graph);
    Value *go_on = graph_output(im, l.graph, 0);
    Dim **known = known_ints(im, go_on);
    if (!known || value_count(im, go_on) != 1)
      import_fail(im, NULL, "its condition depends on data");
    more = is_one(known[0]);
    for (uint32_t k = 0; k < l.states; k++)
      l.state[k] = graph_output(im, l.graph, 1 + k);
    for (uint32_t k = 0; k < l.results; k++) {
      Value *v = graph_output(im, l.graph, 1 + l.states + k);
      if (at > 0 && !shapes_equal(&v->shape, &l.result[k]->shape))
        import_fail(im, NULL, "a stacked result changes its shape");
      l.result[k] = v;
      parts[k][at] = ref(im, v);
    }
    if (more && at + 1 == MAX_UNROLLED)
      import_fail(im, NULL, "it has too many iterations to be unrolled");
  }
  for (uint32_t k = 0; k < l.states; k++)
    define_alias(im, k, l.state[k]);
  for (uint32_t k = 0; k < l.results; k++) {
    if (at == 0)
      import_fail(im, NULL, "it stacks results of no iteration");
    Shape shape = stacked_shape(im, l.result[k], 0, num(im, at));
    define(im, l.states + k, l.result[k]->dtype, &shape, "stack (list [%s])",
           tuple_items(im, (uint32_t)at, parts[k]));
  }
}

/* True if the loop could be written as one; otherwise nothing has changed but
   names, and the fault says why. */
static bool try_rolled(Importer *im, const LoopCount *c) {
  Statements statements = im->statements;
  const Node *node = im->node;
  int depth = im->depth, nested = im->nested;
  jmp_buf outer;
  memcpy(outer, im->failed, sizeof outer);
  bool ok = setjmp(im->failed) == 0;
  if (ok)
    import_rolled(im, c);
  memcpy(im->failed, outer, sizeof outer);
  if (!ok) {
    im->statements = statements;
    im->node = node;
    im->depth = depth;
    im->nested = nested;
  }
  return ok;
}

void onnx_loop(Importer *im, const char *how) {
  LoopCount c = loop_count(im);
  int64_t n;
  bool is_short = c.known && dim_is_int(c.known, &n) && n <= MAX_UNROLLED;
  (void)how;
  if (input_count(im) < 2 || nested_graph(im, "body")->n_input < 2)
    import_fail(im, NULL, "it has too few inputs");
  if (nested_graph(im, "body")->n_input != input_count(im))
    import_fail(im, NULL, "its body has another number of inputs");
  if (c.condition || !is_short)
    import_rolled(im, &c);
  else if (!try_rolled(im, &c))
    import_unrolled(im, &c);
}
