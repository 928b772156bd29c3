/* AOT tracing: runs a function on arguments and sizes that have no value yet,
 * so that its result is a graph.  eval_apply runs the function. */
#include "eval/internal.h"
#include "support/arena_text.h"
#include "support/intern.h"

#include <string.h>

Graph *eval_graph(Eval *vm) {
  return &vm->graph;
}

void eval_set_aot_tracing(Eval *vm, ExtentTable *sizes) {
  /* Cached parts of guards depend on whether sizes are symbolic. */
  graph_clear_caches(&vm->graph);
  vm->graph.extent_table = sizes;
}

/* ---- arguments ---- */

static Value arg_value(Eval *vm, const EvalArg *g);

static const RecordLayout *arg_layout(Eval *vm, const EvalArg *g) {
  return record_layout_intern(vm, g->labels, g->count);
}

static Value arg_parts(Eval *vm, const EvalArg *g) {
  bool record = g->kind == EVAL_ARG_RECORD;
  Value v = record ? vm_new_record(vm, arg_layout(vm, g))
                   : vm_new_tuple(vm, g->count);
  for (uint32_t k = 0; k < g->count; k++) {
    Value part = value_retain(arg_value(vm, &g->parts[k]));
    if (record)
      AS_RECORD(v)->at[k] = part;
    else
      AS_ARRAY(v)->at[k] = part;
  }
  return v;
}

/* Returns a temporary. */
static Value arg_value(Eval *vm, const EvalArg *g) {
  Value v = value_unit();
  switch (g->kind) {
  case EVAL_ARG_UNIT:
    return v;
  case EVAL_ARG_ABSENT:
    return (Value){.tag = V_ABSENT};
  case EVAL_ARG_SIZE:
    vm_push_temp(vm, v = vm_value_of_size(vm, g->size));
    return v;
  case EVAL_ARG_SHAPE:
    vm_push_temp(
        vm, v = value_shape(&vm->heap, g->count, g->shape, g->broadcast_mask));
    return v;
  case EVAL_ARG_TENSOR: {
    Fault fault = {0};
    vm_push_temp(vm, v = vm_value_of_node(vm, node_retain(g->node), &fault));
    return v;
  }
  case EVAL_ARG_TUPLE:
    return g->count ? arg_parts(vm, g) : v;
  case EVAL_ARG_RECORD:
    return arg_parts(vm, g);
  }
  return v;
}

/* ---- calls ---- */

static const Code *apply_code(Eval *vm, const Var *fn, uint32_t count) {
  BytecodeEmitter e = {
      .vm = vm, .stack_depth = count, .max_stack_depth = count + 8};
  emit_ptr(&e, OP_LOAD_GLOBAL, 0, 0, 0, 1, global_of(vm, (Var *)(uintptr_t)fn));
  emit(&e, OP_APPLY_REST, 0, 0, 0, -1);
  Code *code = code_new(vm, count, NULL);
  code->is_builtin = true;
  emit_finish(&e, code);
  return code;
}

static ValueHandle *apply(Eval *vm, const Var *fn, uint32_t count,
                          const EvalArg *args) {
  Value *values = vm_scratch(vm, (count + 1) * sizeof *values);
  for (uint32_t k = 0; k < count; k++)
    values[k] = arg_value(vm, &args[k]);
  Value v = vm_run(vm, apply_code(vm, fn, count), count, values);
  vm_drop_temps(vm, 0);
  return value_handle_new(vm, v);
}

ValueHandle *eval_apply(Eval *vm, const Var *fn, uint32_t count,
                        const EvalArg *args, Diags *diags) {
  Trap trap;
  eval_enter(vm, diags);
  if (TRAP_SET(trap) == FAIL_NONE) {
    ValueHandle *handle = apply(vm, fn, count, args);
    trap_end(&trap);
    vm->diags = NULL;
    return handle;
  }
  eval_recover(vm, trap.kind);
  return NULL;
}

/* ---- tensors of a result ---- */

typedef struct LeafVisitor {
  Eval *vm;
  LeafFn *f;
  void *arg;
} LeafVisitor;

static bool each_leaf(LeafVisitor *l, const char *path, Value v);

static bool each_leaf_of_part(LeafVisitor *l, const char *path,
                              const char *name, Value v) {
  Arena *arena = l->vm->arena;
  return each_leaf(l, *path ? arena_printf(arena, "%s.%s", path, name) : name,
                   v);
}

static bool each_leaf(LeafVisitor *l, const char *path, Value v) {
  bool ok = true;
  if (value_is_tensor(v)) {
    l->f(l->arg, path, vm_to_node(l->vm, v));
    return true;
  }
  switch ((ValueTag)v.tag) {
  case V_UNIT:
    return true;
  case V_TUPLE:
    for (uint32_t k = 0; ok && k < v.obj->len; k++)
      ok = each_leaf_of_part(l, path, arena_printf(l->vm->arena, "%u", k),
                             AS_ARRAY(v)->at[k]);
    return ok;
  case V_RECORD:
    for (uint32_t k = 0; ok && k < v.obj->len; k++)
      ok = each_leaf_of_part(l, path, AS_RECORD(v)->layout->labels[k]->text,
                             AS_RECORD(v)->at[k]);
    return ok;
  default:
    return false;
  }
}

bool eval_each_leaf(Eval *vm, ValueHandle *handle, LeafFn *f, void *arg) {
  LeafVisitor l = {vm, f, arg};
  bool ok = each_leaf(&l, "", value_handle_get(handle));
  vm_drop_temps(vm, 0);
  return ok;
}
