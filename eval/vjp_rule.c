/* Calls whose derivative is not that of their operations: checkpoint,
 * custom_vjp, and scans of many iterations.
 *
 * The function runs without the tape, so that its nodes are freed as always.
 * Its results get a rule (VjpRule).  When a reverse pass reaches them, it
 * stops, and bytecode computes what the rule contributes: checkpoint runs the
 * function again, on a tape of its own; custom_vjp runs the user's pullback; a
 * scan runs backwards over its states (loop_rule.c). */
#include "eval/internal.h"
#include "support/buffer.h"
#include "support/mem.h"

#include <string.h>

static void release_rule(VjpRule *base) {
  CallRule *r = (CallRule *)base;
  Value parts[] = {r->function, r->argument, r->pullback,
                   r->residual, r->result,   r->zeros};
  for (uint32_t k = 0; k < sizeof parts / sizeof *parts; k++)
    value_release(r->heap, parts[k]);
  if (r->guard)
    node_release(r->guard);
  for (uint32_t k = 0; k < r->enclosing_count; k++)
    index_var_release(r->enclosing[k]);
  mem_free(r);
}

/* ---- the tensors of a value ---- */

enum { MAX_FUNCTION_DEPTH = 2000 }; /* of functions that captured functions */

/* Calls `visit` for each tensor, in the order of map_leaves with in_functions.
 */
typedef struct TensorVisit {
  Eval *vm;
  void (*visit)(struct TensorVisit *t, Value v);
  uint32_t depth;
  bool has_tape; /* a pullback was found: its tensors belong to its tape */
  uint32_t count;
  Node **nodes;
  VjpRule *rule;
} TensorVisit;

static void visit_tensors(TensorVisit *t, Value v);

static void visit_all(TensorVisit *t, const Value *at, uint32_t len) {
  for (uint32_t k = 0; k < len; k++)
    visit_tensors(t, at[k]);
}

static void visit_tensors(TensorVisit *t, Value v) {
  if (t->depth++ > MAX_FUNCTION_DEPTH)
    vm_fail(t->vm, 502, "a value has more than %d levels", MAX_FUNCTION_DEPTH);
  for (; v.tag == V_CONS; v = AS_CONS(v)->tail)
    visit_tensors(t, AS_CONS(v)->head);
  if (value_is_tensor(v))
    t->visit(t, v);
  else if (v.tag == V_TUPLE || v.tag == V_ENV || v.tag == V_CLOSURE)
    visit_all(t, AS_ARRAY(v)->at, v.obj->len);
  else if (v.tag == V_RECORD)
    visit_all(t, AS_RECORD(v)->at, v.obj->len);
  else if (v.tag == V_CON)
    visit_tensors(t, AS_CON(v)->arg);
  else if (v.tag == V_PARTIAL) {
    visit_tensors(t, AS_PARTIAL(v)->fn);
    visit_all(t, AS_PARTIAL(v)->args, v.obj->len);
  }
  t->has_tape |= v.tag == V_TAPE;
  t->depth--;
}

static bool is_recorded(Value v) {
  return v.tag == V_NODE && node_is_recorded(v.node);
}

static void visit_recorded(TensorVisit *t, Value v) {
  if (!is_recorded(v) || !dtype_is_float(v.node->dtype))
    return;
  if (t->nodes)
    t->nodes[t->count] = node_retain(v.node);
  t->count++;
}

uint32_t vm_recorded_count(Eval *vm, Value v, bool *has_tape) {
  TensorVisit t = {.vm = vm, .visit = visit_recorded};
  visit_tensors(&t, v);
  *has_tape |= t.has_tape;
  return t.count;
}

/* The floats of the argument of a custom_vjp, recorded or not. */
static void visit_float(TensorVisit *t, Value v) {
  if (!value_is_float_tensor(v))
    return;
  if (t->nodes)
    t->nodes[t->count] = node_retain(vm_to_node(t->vm, v));
  t->count++;
}

static void visit_indices(TensorVisit *t, Value v) {
  VjpRule *r = t->rule;
  for (uint32_t k = 0; v.tag == V_NODE && k < v.node->free_count; k++) {
    uint32_t at = 0;
    while (at < r->index_count && r->indices[at] != v.node->free_vars[k])
      at++;
    if (at == r->index_count && at < MAX_RANK)
      r->indices[r->index_count++] = index_var_retain(v.node->free_vars[k]);
  }
}

/* ---- the call ---- */

static CallRule *push_rule(Eval *vm, RuleKind kind) {
  static uint32_t last_id; /* shared by all graphs: ids only have to differ */
  RuleObj *obj = obj_new(&vm->heap, V_RULE, sizeof *obj, 0);
  obj->rule = NULL;
  obj->tape = NULL;
  *vm->sp++ = value_obj(V_RULE, obj);
  CallRule *r = mem_alloc(sizeof *r);
  *r = (CallRule){.base = {.refs = 1, .release = release_rule},
                  .heap = &vm->heap,
                  .kind = kind,
                  .id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED),
                  .span = vm->graph.span};
  obj->rule = &r->base;
  r->guard = vm->graph.guard ? node_retain(vm->graph.guard) : NULL;
  IndexVar *enclosing[MAX_RANK];
  uint32_t count;
  if (!vm_enclosing_indices(vm, enclosing, &count))
    vm_bail_out(vm, NULL);
  for (uint32_t k = 0; k < count; k++)
    r->enclosing[r->enclosing_count++] = index_var_retain(enclosing[k]);
  return r;
}

/* Inputs of a checkpoint: what is recorded.  Of a custom_vjp: each float of its
 * argument.  Of a scan: what the function captured and is recorded; each float
 * of the state; and of the elements, if some is recorded. */
static void visit_inputs(TensorVisit *t, CallRule *r) {
  t->count = 0;
  t->visit = visit_recorded;
  if (r->kind != RULE_CUSTOM)
    visit_tensors(t, r->function);
  r->captured_count = t->count;
  if (r->kind != RULE_CHECKPOINT)
    t->visit = visit_float;
  if (r->kind != RULE_SCAN) {
    visit_tensors(t, r->argument);
    return;
  }
  visit_tensors(t, AS_ARRAY(r->argument)->at[0]);
  if (r->has_element_inputs)
    visit_tensors(t, AS_ARRAY(r->argument)->at[1]);
}

static void set_inputs(Eval *vm, CallRule *r) {
  TensorVisit t = {.vm = vm};
  visit_inputs(&t, r);
  r->base.inputs = t.nodes = mem_alloc((t.count + 1) * sizeof *t.nodes);
  visit_inputs(&t, r);
  r->base.input_count = t.count;
}

static bool is_recorded_leaf(const LeafMap *map, Value v) {
  (void)map;
  return is_recorded(v);
}

static Value detached(LeafMap *map, Value v) {
  Fault fault = {0};
  Graph *g = &map->vm->graph;
  if (v.node->data && !v.node->free_count)
    return vm_value_of_node(map->vm, node_data(g, v.node->data), &fault);
  return vm_value_of_node(map->vm, node_stop_gradient(g, v.node), &fault);
}

Value vm_partial(Eval *vm, Code *code, uint32_t count, const Value *args) {
  Partial *p =
      obj_new(&vm->heap, V_PARTIAL, sizeof *p + count * sizeof(Value), count);
  p->fn = (Value){.tag = V_FN, .code = code};
  for (uint32_t k = 0; k < count; k++)
    p->args[k] = value_retain(args[k]);
  vm_push_temp(vm, value_obj(V_PARTIAL, p));
  return value_obj(V_PARTIAL, p);
}

/* Pushes the function and its arguments.  The function of a scan also outputs
 * its state, and if `keeps` other values for the reverse pass. */
static void push_call(Eval *vm, RuleKind kind, Value f, Value x, bool keeps) {
  size_t mark = vm->temp_count;
  if (kind != RULE_SCAN) {
    *vm->sp++ = value_retain(f);
    *vm->sp++ = value_retain(x);
    return;
  }
  Value args[] = {f, value_bool(keeps)};
  f = vm_partial(vm, derivative_code(vm, CODE_SCAN_STEP), 2, args);
  *vm->sp++ = value_retain(f);
  *vm->sp++ = value_retain(AS_ARRAY(x)->at[0]);
  *vm->sp++ = value_retain(AS_ARRAY(x)->at[1]);
  vm_drop_temps(vm, mark);
}

/* The argument of the function, as one value. */
static Value argument_of(Eval *vm, RuleKind kind, const Value *at) {
  if (kind != RULE_SCAN)
    return at[kind == RULE_CUSTOM ? 2 : 1];
  Value pair = vm_new_tuple(vm, 2);
  AS_ARRAY(pair)->at[0] = value_retain(at[1]);
  AS_ARRAY(pair)->at[1] = value_retain(at[2]);
  return pair;
}

void vm_rule_begin(Eval *vm, RuleKind kind, const Value *at) {
  size_t mark = vm->temp_count;
  bool has_tape = false;
  vm_set_node_span(vm);
  Value f = at[0], x = argument_of(vm, kind, at);
  uint32_t captured = vm_recorded_count(vm, f, &has_tape);
  if (kind == RULE_CUSTOM && captured)
    vm_fail_at(vm, vm->graph.span, 522, "make it a part of the argument",
               "the function of `custom_vjp` captures a tensor that is being "
               "differentiated");
  if (vm_recorded_count(vm, x, &has_tape) + captured == 0 || has_tape) {
    *vm->sp++ = value_unit();
    push_call(vm, kind, f, x, false);
    vm_drop_temps(vm, mark);
    return;
  }
  CallRule *r = push_rule(vm, kind);
  r->function = value_retain(f);
  r->argument = value_retain(x);
  if (kind == RULE_CUSTOM)
    r->pullback = value_retain(at[1]);
  if (kind == RULE_SCAN)
    r->has_element_inputs = vm_recorded_count(vm, at[2], &has_tape) > 0;
  set_inputs(vm, r);
  LeafMap map = {.vm = vm,
                 .is_leaf = is_recorded_leaf,
                 .leaf = detached,
                 .in_functions = true};
  f = map_leaves(&map, f);
  vm_push_temp(vm, f);
  x = map_leaves(&map, x);
  vm_push_temp(vm, x);
  push_call(vm, kind, f, x, true);
  vm_drop_temps(vm, mark);
}

static Value output_with_rule(LeafMap *map, Value v) {
  Eval *vm = map->vm;
  Fault fault = {0};
  return vm_value_of_node(
      vm, node_with_rule(&vm->graph, vm_to_node(vm, v), map->rule, map->next++),
      &fault);
}

static Value output_number(LeafMap *map, Value v) {
  (void)v;
  return (Value){.tag = V_RAW, .i = map->next++};
}

/* A tuple of zeros like the floats of the result. */
static Value zeros_like(Eval *vm, Value result, uint32_t *count) {
  Node **floats = vm_float_tensors(vm, result, count);
  Value zeros = vm_new_tuple(vm, *count);
  for (uint32_t k = 0; k < *count; k++) {
    const Node *n = floats[k];
    Fault fault = {0};
    Node *zero =
        node_full(&vm->graph, (Scalar){.dtype = n->dtype}, n->rank,
                  n->extents + n->free_count, n->broadcast_mask, &fault);
    AS_ARRAY(zeros)->at[k] = vm_value_of_node(vm, zero, &fault);
  }
  return value_retain(zeros);
}

/* The pullback of a custom_vjp runs for each index on which anything
 * depends. */
static void set_indices(Eval *vm, CallRule *r, Value y) {
  TensorVisit t = {.vm = vm, .visit = visit_indices, .rule = &r->base};
  visit_tensors(&t, y);
  visit_tensors(&t, r->argument);
  visit_tensors(&t, r->residual);
}

/* The result of the primitive, for the result of the function.  The residual
 * becomes a part of the rule, unless that is NULL. */
static Value split_result(Eval *vm, RuleKind kind, CallRule *r, Value result) {
  Value residual, y;
  if (kind == RULE_CHECKPOINT)
    return result;
  if (kind == RULE_CUSTOM) {
    y = AS_ARRAY(result)->at[0];
    residual = AS_ARRAY(result)->at[1];
  } else { /* the last state, what each iteration keeps, and the outputs */
    const Value *outputs = AS_ARRAY(AS_ARRAY(result)->at[1])->at;
    y = vm_new_tuple(vm, 2);
    AS_ARRAY(y)->at[0] = value_retain(AS_ARRAY(result)->at[0]);
    AS_ARRAY(y)->at[1] = value_retain(outputs[1]);
    residual = outputs[0];
  }
  if (r)
    r->residual = value_retain(residual);
  return y;
}

Value vm_rule_end(Eval *vm, Value rule, RuleKind kind, Value result) {
  size_t mark = vm->temp_count;
  CallRule *r = rule.tag == V_UNIT ? NULL : rule_of(rule);
  vm_set_node_span(vm);
  Value y = split_result(vm, kind, r, result);
  if (r) {
    if (kind != RULE_CHECKPOINT)
      set_indices(vm, r, y);
    r->zeros = zeros_like(vm, y, &r->base.output_count);
    LeafMap numbers = {.vm = vm, .leaf = output_number};
    r->result = map_leaves(&numbers, y);
    LeafMap map = {.vm = vm, .leaf = output_with_rule, .rule = &r->base};
    y = map_leaves(&map, y);
    vm_push_temp(vm, y);
    if (kind == RULE_CHECKPOINT && !vm_must_defer(vm))
      vm_force_value(vm, y); /* so that intermediate values are freed now */
  }
  value_retain(y);
  vm_drop_temps(vm, mark);
  return y;
}

/* ---- the reverse pass ---- */

static bool is_among(uint32_t count, IndexVar *const *vars, const IndexVar *v) {
  for (uint32_t k = 0; k < count; k++)
    if (vars[k] == v)
      return true;
  return false;
}

/* Pushes the current guard and the indices of comprehensions that have ended
 * since the call.  Then the code runs as it ran there. */
static void enter_call(Eval *vm, const CallRule *r) {
  IndexVar *active[MAX_RANK], *first = NULL, *last = NULL;
  uint32_t count;
  if (!vm_enclosing_indices(vm, active, &count))
    vm_bail_out(vm, NULL);
  Node *guard = vm->graph.guard;
  *vm->sp++ = guard ? value_node(node_retain(guard)) : value_unit();
  size_t height = (size_t)(vm->sp - vm->stack);
  for (uint32_t k = 0; k < r->enclosing_count; k++)
    if (!is_among(count, active, r->enclosing[k])) {
      last = r->enclosing[k];
      first = first ? first : last;
      *vm->sp++ = (Value){.tag = V_INDEX, .index = index_var_retain(last)};
    }
  if (first)
    vm_symbolic_run_begin(vm, height, NULL, NULL, first, last, false);
  if (r->guard)
    vm->graph.guard = r->guard;
  vm->replay_depth++;
}

/* Drops what enter_call has pushed. */
static void leave_call(Eval *vm) {
  vm->replay_depth--;
  if (vm->sp[-1].tag == V_INDEX)
    vm_symbolic_run_end(vm);
  for (; vm->sp[-1].tag == V_INDEX; vm->sp--)
    value_release(&vm->heap, vm->sp[-1]);
  vm->sp--;
  vm->graph.guard = NULL;
  if (vm->sp->tag == V_NODE)
    vm->graph.guard = vm->sp->node; /* an outer branch holds it */
  value_release(&vm->heap, *vm->sp);
}

/* What computes the contributions of a rule. */
static const DerivativeCode codes[] = {[RULE_CHECKPOINT] = CODE_REPLAY,
                                       [RULE_CUSTOM] = CODE_CUSTOM,
                                       [RULE_SCAN] = CODE_SCAN_RULE};

const Instr *vm_pullback_step(Eval *vm, Value pass, const Instr *next,
                              const Instr *done) {
  VjpRule *rule;
  Node *const *cotangents;
  Fault fault = {0};
  ReverseStatus status =
      reverse_pass_run(AS_PASS(pass)->pass, &rule, &cotangents, &fault);
  if (status == REVERSE_FAILED)
    vm_fault(vm, &fault);
  if (status == REVERSE_DONE)
    return done;
  const CallRule *r = (const CallRule *)rule;
  size_t mark = vm->temp_count;
  Value parts = vm_new_tuple(vm, rule->output_count);
  for (uint32_t k = 0; k < rule->output_count; k++)
    AS_ARRAY(parts)->at[k] = cotangents[k]
                                 ? value_node(node_retain(cotangents[k]))
                                 : value_retain(AS_ARRAY(r->zeros)->at[k]);
  RuleObj *obj = obj_new(&vm->heap, V_RULE, sizeof *obj, 0);
  obj->rule = rule;
  rule->refs++;
  obj->tape = tape_retain(AS_PASS(pass)->tape);
  vm_push_temp(vm, value_obj(V_RULE, obj));
  enter_call(vm, r);
  *vm->sp++ = (Value){.tag = V_FN, .code = derivative_code(vm, codes[r->kind])};
  *vm->sp++ = value_retain(value_obj(V_RULE, obj));
  *vm->sp++ = value_retain(parts);
  vm_drop_temps(vm, mark);
  return next;
}

void vm_pullback_contribute(Eval *vm, Value pass) {
  size_t mark = vm->temp_count;
  Value parts = *--vm->sp;
  vm_push_temp(vm, parts);
  leave_call(vm);
  vm_set_node_span(vm);
  Node **nodes = vm_scratch(vm, (parts.obj->len + 1) * sizeof *nodes);
  for (uint32_t k = 0; k < parts.obj->len; k++)
    nodes[k] = vm_to_node(vm, AS_ARRAY(parts)->at[k]);
  Fault fault = {0};
  if (!reverse_pass_contribute(AS_PASS(pass)->pass, nodes, &fault))
    vm_fault(vm, &fault);
  vm_drop_temps(vm, mark);
}

/* ---- checkpoint ---- */

/* True for the next input of the rule. */
static bool is_next_input(const LeafMap *map, Value v) {
  return v.tag == V_NODE && map->next < map->rule->input_count &&
         v.node == map->rule->inputs[map->next];
}

static Value next_input_leaf(LeafMap *map, Value v) {
  (void)v;
  return value_node(node_retain(map->nodes[map->next++]));
}

void vm_replay_begin(Eval *vm, Value rule) {
  size_t mark = vm->temp_count;
  CallRule *r = rule_of(rule);
  uint32_t count = r->base.input_count;
  const Tape *outer = AS_RULE(rule)->tape;
  vm_set_node_span(vm);
  TapeObj *obj = obj_new(&vm->heap, V_TAPE, sizeof *obj, 0);
  obj->tape = tape_new(&vm->graph);
  *vm->sp++ = value_obj(V_TAPE, obj);
  tape_set_enclosing(obj->tape, outer->enclosing_count, outer->enclosing);
  Value leaves = vm_new_tuple(vm, count);
  Node **nodes = vm_scratch(vm, (count + 1) * sizeof *nodes);
  for (uint32_t k = 0; k < count; k++) {
    nodes[k] = node_leaf(&vm->graph, r->base.inputs[k], obj->tape);
    AS_ARRAY(leaves)->at[k] = value_node(nodes[k]);
  }
  *vm->sp++ = value_retain(leaves);
  LeafMap map = {.vm = vm,
                 .is_leaf = is_next_input,
                 .leaf = next_input_leaf,
                 .in_functions = true,
                 .nodes = nodes,
                 .rule = &r->base};
  Value f = map_leaves(&map, r->function);
  *vm->sp++ = f;
  Value x = map_leaves(&map, r->argument);
  *vm->sp++ = x;
  vm_drop_temps(vm, mark);
}

void vm_replay_end(Eval *vm, Value contributions) {
  if (!vm_must_defer(vm)) /* so that what the tape recorded is freed now */
    vm_force_value(vm, contributions);
}

/* ---- custom_vjp ---- */

const Instr *vm_rule_residual(Eval *vm, Value rule, const Instr *next,
                              const Instr *kept) {
  const CallRule *r = rule_of(rule);
  bool recorded = false;
  for (uint32_t k = 0; k < r->base.input_count; k++)
    recorded |= node_is_recorded(r->base.inputs[k]);
  if (!recorded) {
    *vm->sp++ = value_retain(r->residual);
    return kept;
  }
  if (r->kind == RULE_SCAN)
    vm_PUSH_SCAN(vm);
  push_call(vm, r->kind, r->function, r->argument, false);
  return next;
}

static bool is_output_number(const LeafMap *map, Value v) {
  (void)map;
  return v.tag == V_RAW;
}

static Value cotangent_of_number(LeafMap *map, Value v) {
  return value_retain(map->values[v.i]);
}

void vm_custom_pullback(Eval *vm, Value rule, Value residual,
                        Value cotangents) {
  size_t mark = vm->temp_count;
  const CallRule *r = rule_of(rule);
  LeafMap map = {.vm = vm,
                 .is_leaf = is_output_number,
                 .leaf = cotangent_of_number,
                 .values = AS_ARRAY(cotangents)->at};
  Value ct = map_leaves(&map, r->result);
  vm_push_temp(vm, ct);
  *vm->sp++ = value_retain(r->pullback);
  *vm->sp++ = value_retain(residual);
  *vm->sp++ = value_retain(ct);
  vm_drop_temps(vm, mark);
}

Value vm_custom_end(Eval *vm, Value rule, Value result) {
  size_t mark = vm->temp_count;
  const CallRule *r = rule_of(rule);
  uint32_t count;
  vm_set_node_span(vm);
  Node **nodes = vm_float_tensors(vm, result, &count);
  vm_require_same_shapes(vm, r->span, count, nodes, r->base.input_count,
                         r->base.inputs, "the result of the pullback",
                         "the argument of `custom_vjp`");
  Value parts = vm_new_tuple(vm, count);
  for (uint32_t k = 0; k < count; k++)
    AS_ARRAY(parts)->at[k] = value_node(node_retain(nodes[k]));
  value_retain(parts);
  vm_drop_temps(vm, mark);
  return parts;
}
