/* Primitives that take functions, written as bytecode.  A loop keeps its state
 * on the stack of the machine.  So deep recursion, an interrupt, or a bailout
 * of the body is no special case. */
#include "eval/builtin_code.h"

#include <string.h>

/* ---- bytecode of primitives ---- */

void builtin_begin(BytecodeEmitter *e, Eval *vm, uint32_t arity) {
  *e = (BytecodeEmitter){
      .vm = vm, .stack_depth = arity, .max_stack_depth = arity + 40};
}

void emit_jump_back(BytecodeEmitter *e, uint32_t to) {
  emit(e, OP_JUMP_BACK, 0, 0, (int32_t)to - (int32_t)e->instrs.len, 0);
}

void emit_call_code(BytecodeEmitter *e, uint32_t n, const Code *code) {
  emit_ptr(e, OP_CALL_CODE, n, 0, 0, 0, code);
}

Code *builtin_finish(BytecodeEmitter *e, uint32_t arity, const char *name) {
  Code *code = code_new(e->vm, arity, name);
  code->is_builtin = true;
  emit_finish(e, code);
  return code;
}

enum {
  /* Iterations of a `while` before tracing is first tried. */
  WHILE_TRACE_AFTER_ITERATIONS = 16,
  /* Iterations before tracing is tried again, if it failed. */
  WHILE_RETRACE_AFTER_ITERATIONS = 1 << 20
};

/* During tracing, one iteration of the loop may become a graph. */
static void build_traced_loop(BytecodeEmitter *e, TracedLoopKind kind) {
  uint32_t start = I(TRACED_LOOP_BEGIN, kind, 0);
  I(CALL_VALUE, kind == TRACED_LOOP_ITERATE ? 1 : 2, 0);
  I(TRACED_LOOP_END, kind, 0), I(RETURN, 0, 0);
  emit_patch_jump(e, start);
}

static void build_iterate(BytecodeEmitter *e) { /* locals: n f x | i */
  build_recorded_loop(e, TRACED_LOOP_ITERATE);
  build_traced_loop(e, TRACED_LOOP_ITERATE);
  I(FORCE_INT, 0, 0);
  I(LOAD_INT, 0, 0);
  uint32_t loop = e->instrs.len, out = EXIT_UNLESS_LESS(3, 0);
  LOC(1), TAKE(2), I(CALL_VALUE, 1, 0), SET(2);
  I(INC, 0, 3), I(FORCE_IF_PENDING, 0, 2);
  emit_jump_back(e, loop);
  emit_patch_jump(e, out);
  TAKE(2), I(RETURN, 0, 0);
}

/* Traces one iteration for the remaining iterations of a long `while`.  The
 * test p runs on the result of the iteration. */
static void build_bottom_tested_loop(BytecodeEmitter *e) { /* locals: p f x */
  uint32_t start = I(TRACED_LOOP_BEGIN, TRACED_LOOP_BOTTOM_TESTED, 0);
  I(CALL_VALUE, 1, 0), LOC(0), LOC(5), I(CALL_VALUE, 1, 0);
  I(TRACED_LOOP_END, TRACED_LOOP_BOTTOM_TESTED, 0), I(RETURN, 0, 0);
  emit_patch_jump(e, start);
}

static void build_while(BytecodeEmitter *e) { /* locals: p f x | iterations */
  build_recorded_while(e);
  I(LOAD_INT, 0, 0);
  uint32_t loop = e->instrs.len;
  LOC(0), LOC(2), I(CALL_VALUE, 1, 0);
  uint32_t symbolic = I(JUMP_IF_SYMBOLIC, 0, 0),
           out = I(JUMP_IF_CONCRETE_FALSE, 0, 0);
  uint32_t many =
      emit_ptr(e, OP_JLT_LK, 0, 3, WHILE_TRACE_AFTER_ITERATIONS, 0, NULL);
  LOC(1), TAKE(2), I(CALL_VALUE, 1, 0), SET(2);
  I(INC, 0, 3), I(FORCE_IF_PENDING, 0, 2);
  emit_jump_back(e, loop);
  emit_patch_jump(e, many);
  I(POP, 0, 0);
  build_bottom_tested_loop(e);
  emit(e, OP_LOAD_INT, 0, 0, -WHILE_RETRACE_AFTER_ITERATIONS, 0);
  LOC(1), TAKE(2), I(CALL_VALUE, 1, 0), SET(2);
  I(FORCE_IF_PENDING, 0, 2);
  emit_jump_back(e, loop);
  emit_patch_jump(e, out);
  TAKE(2), I(RETURN, 0, 0);
  emit_patch_jump(e, symbolic);
  I(POP, 0, 0);
  emit(e, OP_TRACED_LOOP_BEGIN, TRACED_LOOP_WHILE, 0, 1, 0);
  I(CALL_VALUE, 1, 0), LOC(1), LOC(3), I(TUPLE_GET, 0, 0), I(CALL_VALUE, 1, 0);
  I(TRACED_LOOP_END, TRACED_LOOP_WHILE, 0), I(RETURN, 0, 0);
}

/* Locals: f c x | i n. */
static void build_fold_loop(BytecodeEmitter *e, TracedLoopKind kind) {
  build_recorded_loop(e, kind);
  build_traced_loop(e, kind);
  I(LOAD_INT, 0, 0), I(LEADING_SIZE, 0, 2);
  uint32_t loop = e->instrs.len, out = EXIT_UNLESS_LESS(3, 4);
  LOC(0), TAKE(1), I(SLICE, 3, 2), I(CALL_VALUE, 2, 0), SET(1);
  I(INC, 0, 3), I(FORCE_IF_PENDING, 0, 1);
  emit_jump_back(e, loop);
  emit_patch_jump(e, out);
  TAKE(1), I(RETURN, 0, 0);
}

static void build_fold(BytecodeEmitter *e) {
  build_fold_loop(e, TRACED_LOOP_FOLD);
}
static void build_reduce(BytecodeEmitter *e) {
  build_fold_loop(e, TRACED_LOOP_REDUCE);
}

/* If there are no iterations, a map over no element determines the types of the
 * outputs. */
void build_host_scan(BytecodeEmitter *e) { /* locals: f c x | i n outputs */
  Code *map = higher_order_code(e->vm, PRIM_MAP1);
  I(LOAD_INT, 0, 0), I(LEADING_SIZE, 0, 2);
  emit_push_constant(e, (Value){.tag = V_NIL});
  uint32_t loop = e->instrs.len, out = EXIT_UNLESS_LESS(3, 4);
  LOC(0), TAKE(1), I(SLICE, 3, 2), I(CALL_VALUE, 2, 0), I(UNPAIR, 0, 0);
  TAKE(5), I(MAKE_CONS, 0, 0), SET(5), SET(1);
  I(INC, 0, 3), I(FORCE_IF_PENDING, 5, 1);
  emit_jump_back(e, loop);
  emit_patch_jump(e, out);
  uint32_t some = emit_ptr(e, OP_JLT_LK, 0, 4, 1, 0, NULL);
  LOC(1), LOC(0), LOC(1), I(CALL_VALUE, 1, 0), LOC(2);
  emit_ptr(e, OP_CALL_CODE, 2, 0, 0, 0, map);
  I(TUPLE_GET, 0, 1), I(MAKE_TUPLE, 0, 2), I(RETURN, 0, 0);
  emit_patch_jump(e, some);
  TAKE(1), TAKE(5), I(STACK_LIST, 0, 0), I(MAKE_TUPLE, 0, 2), I(RETURN, 0, 0);
}

static void build_scan(BytecodeEmitter *e) {
  build_recorded_loop(e, TRACED_LOOP_SCAN);
  build_traced_loop(e, TRACED_LOOP_SCAN);
  build_host_scan(e);
}

static void build_progress(BytecodeEmitter *e) { /* locals: n f x | i */
  I(FORCE_INT, 0, 0);
  I(LOAD_INT, 0, 0), I(PROGRESS, 3, 0);
  uint32_t loop = e->instrs.len, out = EXIT_UNLESS_LESS(3, 0);
  LOC(1), LOC(3), TAKE(2), I(CALL_VALUE, 2, 0), SET(2);
  I(INC, 0, 3), I(FORCE_IF_PENDING, 0, 2), I(PROGRESS, 3, 0);
  emit_jump_back(e, loop);
  emit_patch_jump(e, out);
  TAKE(2), I(RETURN, 0, 0);
}

static void
build_defer_interrupt(BytecodeEmitter *e) { /* locals: f x | begins */
  I(DEFER_BEGIN, 0, 0);
  LOC(0), TAKE(1), I(CALL_VALUE, 1, 0);
  I(DEFER_END, 0, 2), I(RETURN, 0, 0);
}

static void build_list_map(BytecodeEmitter *e) { /* locals: f xs | ys */
  emit_push_constant(e, (Value){.tag = V_NIL});
  uint32_t loop = e->instrs.len;
  LOC(0);
  uint32_t out = I(LIST_NEXT, 0, 1);
  I(CALL_VALUE, 1, 0), TAKE(2), I(MAKE_CONS, 0, 0), SET(2);
  emit_jump_back(e, loop);
  emit_patch_jump(e, out);
  I(POP, 0, 0), TAKE(2), I(LIST_REVERSE, 0, 0), I(RETURN, 0, 0);
}

static void build_list_fold(BytecodeEmitter *e) { /* locals: f c xs */
  uint32_t loop = e->instrs.len;
  LOC(0), TAKE(1);
  uint32_t out = I(LIST_NEXT, 0, 2);
  I(CALL_VALUE, 2, 0), SET(1), I(FORCE_IF_PENDING, 0, 1);
  emit_jump_back(e, loop);
  emit_patch_jump(e, out);
  I(RETURN, 0, 0);
}

static void build_tabulate(BytecodeEmitter *e) { /* locals: n f | i ys */
  I(FORCE_INT, 0, 0);
  I(LOAD_INT, 0, 0);
  emit_push_constant(e, (Value){.tag = V_NIL});
  uint32_t loop = e->instrs.len, out = EXIT_UNLESS_LESS(2, 0);
  LOC(1), LOC(2), I(CALL_VALUE, 1, 0), TAKE(3), I(MAKE_CONS, 0, 0), SET(3);
  I(INC, 0, 2);
  emit_jump_back(e, loop);
  emit_patch_jump(e, out);
  TAKE(3), I(LIST_REVERSE, 0, 0), I(RETURN, 0, 0);
}

/* Locals: f, then k ranges (for) or k tensors (map).  Then the indices.  On the
 * host, these are followed by the counter, its end, and the results. */
static void build_for(BytecodeEmitter *e, uint32_t k, bool map) {
  for (uint32_t i = 1; i <= k && !map; i++)
    I(FORCE_INT, 1, i);
  uint32_t start = I(FOR_BEGIN, k, 0);
  if (map)
    e->instrs.at[start].op = OP_MAP_BEGIN;
  I(CALL_VALUE, k, 0);
  emit(e, map ? OP_MAP_END : OP_FOR_END, k, 0, 0, 0);
  I(RETURN, 0, 0);
  emit_patch_jump(e, start);
  I(HOST_LOOP_BEGIN, k, map);
  uint32_t loop = e->instrs.len;
  uint32_t out = I(HOST_LOOP_STEP, k, map);
  I(CALL_VALUE, k, 0), TAKE(k + 3), I(MAKE_CONS, 0, 0), SET(k + 3);
  I(INC, 0, k + 1);
  emit_jump_back(e, loop);
  emit_patch_jump(e, out);
  I(HOST_LOOP_END, k, map), I(RETURN, 0, 0);
}

static void build_map1(BytecodeEmitter *e) {
  build_for(e, 1, true);
}
static void build_map2(BytecodeEmitter *e) {
  build_for(e, 2, true);
}
static void build_map3(BytecodeEmitter *e) {
  build_for(e, 3, true);
}

static void build_filter(BytecodeEmitter *e) { /* locals: p x */
  Code *map = higher_order_code(e->vm, PRIM_MAP1);
  LOC(1), LOC(0), LOC(1);
  emit_ptr(e, OP_CALL_CODE, 2, 0, 0, 0, map);
  I(FILTER, 0, 0), I(RETURN, 0, 0);
}

typedef struct HigherOrderPrim {
  uint32_t arity;
  void (*build)(BytecodeEmitter *e);
} HigherOrderPrim;

static const HigherOrderPrim higher_order_prims[PRIM_COUNT] = {
#define F(id, function)
#define H(id, arity, build) [PRIM_##id] = {arity, build},
#include "eval/prims.def"
#undef F
#undef H
};

Code *higher_order_code(Eval *vm, PrimId prim) {
  const HigherOrderPrim *c = &higher_order_prims[prim];
  if (c->build && !vm->higher_order_codes[prim]) {
    BytecodeEmitter e;
    builtin_begin(&e, vm, c->arity);
    c->build(&e);
    vm->higher_order_codes[prim] =
        builtin_finish(&e, c->arity, prim_info[prim].name);
  }
  return vm->higher_order_codes[prim];
}

Code *for_code(Eval *vm, uint32_t indices) {
  if (indices > MAX_RANK)
    vm_fail(vm, 511, "`for` with more than %d indices", MAX_RANK);
  if (!vm->for_codes[indices]) {
    BytecodeEmitter e;
    builtin_begin(&e, vm, indices + 1);
    e.max_stack_depth += 3 * indices;
    build_for(&e, indices, false);
    vm->for_codes[indices] = builtin_finish(&e, indices + 1, NULL);
  }
  return vm->for_codes[indices];
}

/* ---- slices of the inputs of map and fold ---- */

/* The first part of x that has axes: a tensor or keys. */
static bool first_leaf(Value x, Value *leaf) {
  uint32_t n = 0;
  const Value *at = NULL;
  if (x.tag == V_NODE || x.tag == V_KEYS) {
    *leaf = x;
    return true;
  }
  if (x.tag == V_TUPLE)
    at = AS_ARRAY(x)->at, n = x.obj->len;
  else if (x.tag == V_RECORD)
    at = AS_RECORD(x)->at, n = x.obj->len;
  for (uint32_t i = 0; i < n; i++)
    if (first_leaf(at[i], leaf))
      return true;
  return false;
}

int64_t vm_leading_size(Eval *vm, Value x) {
  Value leaf;
  bool found = first_leaf(x, &leaf);
  if (found && leaf.tag == V_KEYS)
    return leaf.obj->len;
  if (!found)
    vm_fail(vm, 507,
            "a loop over rows of a value without tensors, such as (): "
            "it has no leading axis");
  if (!leaf.node->rank)
    vm_fail(vm, 599, "internal error in eval: no leading axis");
  Fault fault = {0};
  if (node_row_length(leaf.node, 0))
    vm_bail_out(vm, node_row_length(leaf.node, 0));
  if (!node_axis_sized(&vm->graph, leaf.node, 0, "a loop over rows", &fault))
    vm_fault(vm, &fault);
  return node_size(leaf.node, 0);
}

int64_t vm_static_trip_count(Eval *vm, int64_t count) {
  if (extent_is_static(&vm->graph, count))
    return count;
  vm_fail_at(
      vm, (Span){0}, 612, "fix the size: --entry 'f : f32[8, n] -> _'",
      "a loop of %s iterations: the trip count must be known at compile time",
      extent_text(&vm->graph, count).text);
}

bool vm_loop_runs(Eval *vm, uint32_t k, LoopKind kind) {
  bool some = true;
  for (uint32_t i = 1; i <= k; i++) {
    Value leaf, v = vm->sp[-(int)i];
    int64_t n = 1;
    if (kind == LOOP_FOR && vm_is_row_length(vm, v))
      return true;
    if (kind == LOOP_FOR)
      n = vm_size(vm, v);
    else if (first_leaf(v, &leaf) && leaf.tag == V_KEYS)
      n = leaf.obj->len;
    else if (first_leaf(v, &leaf) && leaf.node->rank)
      n = node_size(leaf.node, 0);
    if (n < 0 || (n && kind != LOOP_FOR) || !extent_is_static(&vm->graph, n))
      return true;
    some = some && n;
  }
  return some;
}

enum { MIN_FORCED_ROWS = 8 }; /* shorter vectors are not forced early */

/* Forces a vector that a loop iterates over.  Its elements then become known
 * scalars, and operations on known scalars run immediately. */
static void force_vector(Eval *vm, Node *x, Value i) {
  if (value_is_num(i) && i.i == MIN_FORCED_ROWS && x->rank == 1 && !x->data &&
      !x->free_count && !vm_must_defer(vm))
    vm_force(vm, 1, &x);
}

static Value slice_node(Eval *vm, Node *x, Value i) {
  force_vector(vm, x, i);
  if (value_is_num(i) && x->data && !node_is_recorded(x) && !x->free_count &&
      x->rank == 1 && i.i >= 0 && i.i < node_size(x, 0)) {
    Value v = value_scalar(scalar_load(x->dtype, tensor_at(x->data, i.i)));
    vm_check_file(vm, x->data);
    return v;
  }
  Subscript items[MAX_RANK];
  items[0] = (Subscript){.kind = SUBSCRIPT_INDEX, .index = vm_to_node(vm, i)};
  for (uint32_t k = 1; k < x->rank; k++)
    items[k] = (Subscript){.kind = SUBSCRIPT_SLICE, .stop = node_size(x, k)};
  Fault fault = {0};
  Node *row = node_subscript(&vm->graph, x, x->rank, items, &fault);
  if (row)
    vm_subscript_row_lengths(vm, x, x->rank, items, row);
  return vm_value_of_node(vm, row, &fault);
}

static Value slice_value(Eval *vm, Value x, Value i) {
  Value r;
  switch ((ValueTag)x.tag) {
  case V_NODE:
    return slice_node(vm, x.node, i);
  case V_KEYS: /* needs the value of the index: keys are constants */
    return value_retain(AS_ARRAY(x)->at[vm_int(vm, i)]);
  case V_TUPLE:
    r = vm_new_tuple(vm, x.obj->len);
    for (uint32_t k = 0; k < x.obj->len; k++)
      AS_ARRAY(r)->at[k] = slice_value(vm, AS_ARRAY(x)->at[k], i);
    return value_retain(r);
  case V_RECORD:
    r = vm_new_record(vm, AS_RECORD(x)->layout);
    for (uint32_t k = 0; k < x.obj->len; k++)
      AS_RECORD(r)->at[k] = slice_value(vm, AS_RECORD(x)->at[k], i);
    return value_retain(r);
  default: /* unit, and values without axes */
    return value_retain(x);
  }
}

Value vm_slice(Eval *vm, Value x, Value i) {
  size_t mark = vm->temp_count;
  vm_set_node_span(vm);
  Value r = slice_value(vm, x, i);
  vm_drop_temps(vm, mark);
  return r;
}

/* ---- for and map: one symbolic run with indices that have no value ---- */

Code *vm_body_code(Eval *vm, Value f) {
  while (f.tag == V_PARTIAL) {
    Value fn = AS_PARTIAL(f)->fn;
    f = fn.tag == V_FN && fn.code->is_builtin ? AS_PARTIAL(f)->args[0] : fn;
  }
  return f.tag == V_FN ? f.code : f.tag == V_CLOSURE ? vm->codes[f.aux] : NULL;
}

static Value *locals(Eval *vm) {
  return vm->stack + vm->fp->base;
}

/* Pushes v.  As a function, so that an error in computing v is raised before
 * the stack grows. */
static void push(Eval *vm, Value v) {
  *vm->sp++ = v;
}

static void require_sizes(Eval *vm, ExtentRelation relation, int64_t x,
                          int64_t y, Fault *fault) {
  if (!extent_require(&vm->graph, relation, x, y, fault))
    vm_fault(vm, fault);
}

static void require_nonneg_extent(Eval *vm, int64_t extent) {
  Fault fault = {0};
  fault_set(&fault, "a `for` runs over %s indices",
            extent_text(&vm->graph, extent).text);
  require_sizes(vm, EXTENT_LE, 0, extent, &fault);
}

static void require_equal_leading_sizes(Eval *vm, int64_t x, int64_t y) {
  Fault fault = {0};
  fault_set(&fault, "map over leading axes of %s and %s",
            extent_text(&vm->graph, x).text, extent_text(&vm->graph, y).text);
  require_sizes(vm, EXTENT_EQ, x, y, &fault);
}

/* The range of index i of a loop: its extent and its row length, or NULL.  The
 * row length takes the place of the range. */
static int64_t loop_range(Eval *vm, Value *range, bool map, Node **row_length) {
  Value leaf;
  *row_length = map ? vm_leading_row_length(*range) : NULL;
  if (*row_length)
    return first_leaf(*range, &leaf) ? node_size(leaf.node, 0) : 0;
  if (map)
    return vm_leading_size(vm, *range);
  if (!vm_is_row_length(vm, *range))
    return vm_size(vm, *range);
  int64_t longest;
  Value length = vm_row_length(vm, *range, &longest);
  value_release(&vm->heap, *range);
  *range = length;
  *row_length = length.tag == V_NODE ? length.node : NULL;
  return longest;
}

/* Pushes the indices of a loop, and the guard of a ragged one. */
static Value *push_indices(Eval *vm, uint32_t count, const int64_t *extents,
                           Node *const *row_lengths) {
  size_t height = (size_t)(vm->sp - vm->stack);
  IndexVar *vars[MAX_RANK];
  bool is_ragged = false;
  for (uint32_t i = 0; i < count; i++) {
    vars[i] = index_var_new(extents[i], row_lengths[i]);
    *vm->sp++ = (Value){.tag = V_INDEX, .index = vars[i]};
    is_ragged |= row_lengths[i] != NULL;
  }
  if (is_ragged) {
    size_t mark = vm->temp_count;
    Node *guard = vm_row_guard(vm, count, vars, vm->graph.guard);
    *vm->sp++ = value_node(node_retain(guard));
    vm_drop_temps(vm, mark);
  }
  return vm->stack + height;
}

const Instr *vm_for_begin(Eval *vm, uint32_t k, bool map, const Instr *next,
                          const Instr *host_loop) {
  Value *bp = locals(vm);
  Code *body = vm_body_code(vm, bp[0]);
  uint32_t indices = map ? 1 : k;
  int64_t extents[MAX_RANK];
  Node *row_lengths[MAX_RANK], *row_length = NULL;
  bool can_bail_out = true;
  for (uint32_t i = 1; i <= k; i++) {
    int64_t extent = loop_range(vm, &bp[i], map, &row_lengths[i - 1]);
    if (map)
      vm_require_equal_rows(vm, row_lengths[0], row_lengths[i - 1]);
    if (row_lengths[i - 1])
      row_length = row_lengths[i - 1];
    extents[i - 1] = extent;
    can_bail_out = can_bail_out && extent_is_static(&vm->graph, extent);
    if (!extent_holds_trivially(&vm->graph, EXTENT_LE, 0, extent))
      require_nonneg_extent(vm, extent);
    if (map && extent != extents[0])
      require_equal_leading_sizes(vm, extents[0], extent);
  }
  if (body && body->needs_index_value && row_length)
    vm_bail_out(vm, row_length);
  if (body && body->needs_index_value && can_bail_out)
    return host_loop;
  size_t height = (size_t)(vm->sp - vm->stack);
  Value *vars = push_indices(vm, indices, extents, row_lengths);
  vm_symbolic_run_begin(vm, height, host_loop, body, vars[0].index,
                        vars[indices - 1].index, can_bail_out);
  if (row_length) {
    vm->symbolic_runs[vm->symbolic_run_count - 1].row_length = row_length;
    vm->graph.guard = vars[indices].node;
  }
  vm_set_node_span(vm);
  *vm->sp++ = value_retain(bp[0]);
  for (uint32_t i = 0; i < indices && !map; i++)
    push(vm, value_node(node_index(&vm->graph, vars[i].index)));
  if (map) {
    size_t mark = vm->temp_count;
    Value index =
        value_node(vm_temp_node(vm, node_index(&vm->graph, vars[0].index)));
    for (uint32_t i = 1; i <= k; i++)
      push(vm, slice_value(vm, bp[i], index));
    vm_drop_temps(vm, mark);
  }
  return next;
}

/* The same key for each index. */
static Value repeat_key(Eval *vm, Value x, uint32_t count,
                        IndexVar *const *vars) {
  for (uint32_t i = count; i-- > 0;) {
    Value r = vm_new_keys(vm, vm_static_trip_count(vm, vars[i]->extent));
    for (uint32_t k = 0; k < r.obj->len; k++)
      AS_ARRAY(r)->at[k] = value_retain(x);
    x = r;
  }
  return value_retain(x);
}

static Value close_value(Eval *vm, Value x, uint32_t count,
                         IndexVar *const *vars) {
  Value r;
  if (value_is_tensor(x)) {
    Fault fault = {0};
    return vm_value_of_node(
        vm, vm_close_rows(vm, vm_to_ragged_node(vm, x), count, vars, &fault),
        &fault);
  }
  switch ((ValueTag)x.tag) {
  case V_TUPLE:
    r = vm_new_tuple(vm, x.obj->len);
    for (uint32_t k = 0; k < x.obj->len; k++)
      AS_ARRAY(r)->at[k] = close_value(vm, AS_ARRAY(x)->at[k], count, vars);
    return value_retain(r);
  case V_RECORD:
    r = vm_new_record(vm, AS_RECORD(x)->layout);
    for (uint32_t k = 0; k < x.obj->len; k++)
      AS_RECORD(r)->at[k] = close_value(vm, AS_RECORD(x)->at[k], count, vars);
    return value_retain(r);
  case V_UNIT:
    return x;
  case V_KEY:
  case V_KEYS:
    return repeat_key(vm, x, count, vars);
  default: /* the type checker admits nothing else */
    vm_fail(vm, 599,
            "internal error in eval: the result of `for` is not a tensor");
  }
}

Value vm_for_end(Eval *vm, uint32_t k, bool map, Value result) {
  Value *bp = locals(vm);
  uint32_t count = map ? 1 : k;
  IndexVar *vars[MAX_RANK];
  for (uint32_t i = 0; i < count; i++)
    vars[i] = bp[k + 1 + i].index;
  size_t mark = vm->temp_count;
  vm_set_node_span(vm);
  vm->graph.guard = vm->symbolic_runs[vm->symbolic_run_count - 1].guard;
  Value r = close_value(vm, result, count, vars);
  vm_drop_temps(vm, mark);
  vm_symbolic_run_end(vm);
  return r;
}

/* ---- for and map on the host ---- */

void vm_host_loop_begin(Eval *vm, uint32_t k, bool map) {
  Value *bp = locals(vm);
  Value total = vm_value_of_size(vm, map ? vm_leading_size(vm, bp[1]) : 1);
  for (uint32_t i = 1; i <= k && !map; i++)
    total = vm_dim_op(vm, DOP_MUL, total, bp[i]);
  *vm->sp++ = value_int(0);
  *vm->sp++ = total;
  *vm->sp++ = (Value){.tag = V_NIL};
}

bool vm_host_loop_step(Eval *vm, uint32_t k, bool map) {
  Value *bp = locals(vm);
  int64_t i = bp[k + 1].i;
  if (i >= bp[k + 2].i)
    return false;
  vm_force_if_pending(vm, bp[k + 3], value_unit());
  *vm->sp++ = value_retain(bp[0]);
  if (map) {
    for (uint32_t x = 1; x <= k; x++) {
      Value part = vm_slice(vm, bp[x], value_int(i));
      *vm->sp++ = part;
    }
    return true;
  }
  for (uint32_t x = k; x >= 1; x--) {
    vm->sp[x - 1] = value_int(i % bp[x].i);
    i /= bp[x].i;
  }
  vm->sp += k;
  return true;
}

Value vm_host_loop_end(Eval *vm, uint32_t k, bool map) {
  Value *bp = locals(vm);
  int64_t shape[MAX_RANK];
  uint32_t rank = map ? 1 : k;
  for (uint32_t i = 0; i < rank; i++)
    shape[i] = map ? bp[k + 2].i : bp[1 + i].i;
  return vm_stack_list(vm, bp[k + 3], rank, shape);
}

/* ---- stacking the results of a loop ---- */

typedef struct Stacking {
  uint32_t count; /* number of values */
  uint32_t rank;  /* number of axes over which they are stacked */
  const int64_t *shape;
  bool may_force; /* many deferred rows: run them now */
} Stacking;

static Scalar scalar_of_value(const Value *v) {
  return v->tag == V_NODE ? scalar_load(v->node->dtype, v->node->data->data)
                          : value_to_scalar(*v);
}

/* True if all values are known scalars, or are once the deferred ones run. */
static bool all_scalars(Eval *vm, const Stacking *s, const Value *at) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < s->count; i++) {
    if (value_is_num(at[i]))
      continue;
    if (at[i].tag != V_NODE || at[i].node->rank || at[i].node->free_count ||
        node_is_recorded(at[i].node))
      return false;
    count += !at[i].node->data;
  }
  if (!count)
    return true;
  if (!s->may_force || s->count < MIN_FORCED_ROWS || vm_must_defer(vm))
    return false;
  Node **nodes = vm_scratch(vm, count * sizeof *nodes);
  count = 0;
  for (uint32_t i = 0; i < s->count; i++)
    if (at[i].tag == V_NODE && !at[i].node->data)
      nodes[count++] = at[i].node;
  vm_force(vm, count, nodes);
  return true;
}

static Value stack_scalars(Eval *vm, const Stacking *s, const Value *at) {
  Fault fault = {0};
  Dtype dtype = scalar_of_value(&at[0]).dtype;
  Tensor *t = tensor_new(dtype, s->rank, s->shape, false, &fault);
  if (!t)
    vm_fault(vm, &fault);
  for (uint32_t i = 0; i < s->count; i++)
    scalar_store(scalar_of_value(&at[i]), tensor_at(t, i));
  return vm_value_of_tensor(vm, t, &fault);
}

static bool has_same_shape(const Node *a, const Node *b) {
  if (a->rank != b->rank || a->broadcast_mask != b->broadcast_mask)
    return false;
  for (uint32_t k = 0; k < a->rank; k++)
    if (node_size(a, k) != node_size(b, k))
      return false;
  return true;
}

/* Copies the rows if all are materialized.  Otherwise the result is
 * deferred. */
static Node *copy_materialized_rows(Eval *vm, const Stacking *s,
                                    Node *const *nodes) {
  const Node *first = nodes[0];
  bool all = true;
  for (uint32_t i = 0; i < s->count; i++) {
    if (nodes[i]->free_count || node_is_recorded(nodes[i]) ||
        !has_same_shape(nodes[i], first))
      return NULL;
    all = all && nodes[i]->data;
  }
  if (!all && (!s->may_force || s->count < MIN_FORCED_ROWS))
    return NULL;
  if (!all)
    vm_force(vm, s->count, nodes);
  int64_t shape[2 * MAX_RANK];
  memcpy(shape, s->shape, s->rank * sizeof *shape);
  for (uint32_t k = 0; k < first->rank; k++)
    shape[s->rank + k] = node_size(first, k);
  Fault fault = {0};
  if (s->rank + first->rank > MAX_RANK)
    vm_fail(vm, 507, "a tensor of more than %d axes", MAX_RANK);
  Tensor *t =
      tensor_new(first->dtype, s->rank + first->rank, shape, false, &fault);
  if (!t)
    vm_fault(vm, &fault);
  t->broadcast_mask = first->broadcast_mask << s->rank;
  size_t bytes = (size_t)first->data->count * dtype_info[first->dtype].bytes;
  for (uint32_t i = 0; i < s->count && bytes; i++)
    memcpy((char *)t->data + i * bytes, nodes[i]->data->data, bytes);
  Value data = vm_value_of_tensor(vm, t, &fault);
  for (uint32_t i = 0; i < s->count && bytes; i++)
    vm_check_file(vm, nodes[i]->data);
  return data.tag == V_NODE ? data.node : NULL;
}

static Value stack_nodes(Eval *vm, const Stacking *s, const Value *at) {
  Node **nodes = vm_scratch(vm, s->count * sizeof *nodes);
  for (uint32_t i = 0; i < s->count; i++)
    nodes[i] = vm_to_node(vm, at[i]);
  Fault fault = {0};
  if (!vm->graph.guard) {
    Node *copied = copy_materialized_rows(vm, s, nodes);
    if (copied)
      return vm_value_of_node(vm, copied, &fault);
  }
  Node *node = node_stack(&vm->graph, s->count, nodes, &fault);
  if (node && s->rank != 1) {
    vm_temp_node(vm, node);
    int64_t shape[2 * MAX_RANK];
    memcpy(shape, s->shape, s->rank * sizeof *shape);
    for (uint32_t k = 1; k < node->rank; k++)
      shape[s->rank + k - 1] = node_size(node, k);
    node = node_reshape(&vm->graph, node, s->rank + node->rank - 1, shape,
                        node->broadcast_mask >> 1 << s->rank, &fault);
  }
  return vm_value_of_node(vm, node, &fault);
}

static Value stack_values(Eval *vm, const Stacking *s, const Value *at);

static Value stack_column(Eval *vm, const Stacking *s, const Value *at,
                          uint32_t k) {
  Value column = vm_new_tuple(vm, s->count);
  for (uint32_t i = 0; i < s->count; i++) {
    const Value *parts =
        at[i].tag == V_RECORD ? AS_RECORD(at[i])->at : AS_ARRAY(at[i])->at;
    AS_ARRAY(column)->at[i] = value_retain(parts[k]);
  }
  return stack_values(vm, s, AS_ARRAY(column)->at);
}

/* The keys at[0], at[1], ..., in row-major order. */
static Value stack_keys(Eval *vm, uint32_t rank, const int64_t *shape,
                        const Value *at) {
  if (!rank)
    return value_retain(at[0]);
  int64_t stride = 1;
  for (uint32_t k = 1; k < rank; k++)
    stride *= shape[k];
  Value r = vm_new_keys(vm, shape[0]);
  for (uint32_t i = 0; i < r.obj->len; i++)
    AS_ARRAY(r)->at[i] =
        stack_keys(vm, rank - 1, shape + 1, at + (int64_t)i * stride);
  return value_retain(r);
}

static Value stack_values(Eval *vm, const Stacking *s, const Value *at) {
  Value first = at[0], r;
  if (all_scalars(vm, s, at))
    return stack_scalars(vm, s, at);
  if (value_is_num(first))
    return stack_nodes(vm, s, at);
  switch ((ValueTag)first.tag) {
  case V_NODE:
    return stack_nodes(vm, s, at);
  case V_TUPLE:
    r = vm_new_tuple(vm, first.obj->len);
    for (uint32_t k = 0; k < first.obj->len; k++)
      AS_ARRAY(r)->at[k] = stack_column(vm, s, at, k);
    return value_retain(r);
  case V_RECORD:
    r = vm_new_record(vm, AS_RECORD(first)->layout);
    for (uint32_t k = 0; k < first.obj->len; k++)
      AS_RECORD(r)->at[k] = stack_column(vm, s, at, k);
    return value_retain(r);
  case V_UNIT:
    return first;
  case V_KEY:
  case V_KEYS:
    return stack_keys(vm, s->rank, s->shape, at);
  default: /* the type checker admits nothing else */
    vm_fail(vm, 599, "internal error in eval: a stacked value is not a tensor");
  }
}

Value vm_stack_items(Eval *vm, uint32_t n, const Value *at) {
  int64_t length = n;
  Stacking s = {n, 1, &length, false};
  size_t mark = vm->temp_count;
  Value r = stack_values(vm, &s, at);
  vm_drop_temps(vm, mark);
  return r;
}

Value vm_stack_list(Eval *vm, Value reversed_list, uint32_t rank,
                    const int64_t *shape) {
  size_t mark = vm->temp_count;
  vm_set_node_span(vm);
  uint32_t n = 0;
  for (Value v = reversed_list; v.tag == V_CONS; v = AS_CONS(v)->tail)
    n++;
  int64_t length = n;
  Stacking s = {n, rank ? rank : 1, rank ? shape : &length, true};
  Value r;
  if (!n) {
    Fault fault = {0};
    r = vm_value_of_node(vm,
                         node_full(&vm->graph, (Scalar){DT_F32, {.i = 0}},
                                   s.rank, s.shape, 0, &fault),
                         &fault);
  } else {
    Value items = vm_new_tuple(vm, n);
    for (Value v = reversed_list; v.tag == V_CONS; v = AS_CONS(v)->tail)
      AS_ARRAY(items)->at[--n] = value_retain(AS_CONS(v)->head);
    r = stack_values(vm, &s, AS_ARRAY(items)->at);
  }
  vm_drop_temps(vm, mark);
  return r;
}

Value vm_take_rows(Eval *vm, Node *x, Tensor *rows, const Fault *fault) {
  Fault own = *fault;
  if (!rows)
    vm_fault(vm, fault);
  if (!node_is_recorded(x)) {
    Tensor *t = tensor_take_rows(x->data, rows, &own);
    tensor_release(rows);
    Value r = vm_value_of_tensor(vm, t, &own);
    vm_check_file(vm, x->data);
    return r;
  }
  size_t mark = vm->temp_count; /* a gather has a derivative */
  Value at = vm_value_of_tensor(vm, rows, &own);
  vm_push_temp(vm, at);
  Node *taken = node_gather(&vm->graph, x, vm_to_node(vm, at), &own);
  Value r = vm_value_of_node(vm, taken, &own);
  vm_drop_temps(vm, mark);
  return r;
}

Value vm_filter(Eval *vm, Value rows, Value mask) {
  size_t mark = vm->temp_count;
  vm_set_node_span(vm);
  Node *nodes[2] = {vm_to_node(vm, rows), vm_to_node(vm, mask)};
  for (int i = 0; i < 2; i++)
    if (nodes[i]->free_count)
      vm_bail_out(vm, nodes[i]);
  vm_force(vm, 2, nodes);
  Fault fault = {0};
  if (!node_axis_sized(&vm->graph, nodes[0], 0, "filter", &fault))
    vm_fault(vm, &fault);
  Tensor *indices = tensor_nonzero(nodes[1]->data, &fault);
  Value r = vm_take_rows(vm, nodes[0], indices, &fault);
  vm_drop_temps(vm, mark);
  return r;
}
