/* Calls from outside of a program: with values, or, to compile a function,
 * with what stands for them. */
#include "eval/internal.h"

#include <string.h>

Graph *eval_graph(Eval *vm) {
  return &vm->graph;
}

void eval_trace(Eval *vm, Sizes *sizes) {
  graph_end(&vm->graph); /* parts of guards know one or the other */
  vm->graph.sizes = sizes;
}

/* ---- arguments ---- */

static Value given_value(Eval *vm, const EvalArg *g);

static const Layout *given_layout(Eval *vm, const EvalArg *g) {
  return layout_of(vm, g->labels, g->count);
}

static Value given_parts(Eval *vm, const EvalArg *g) {
  bool record = g->kind == GIVEN_RECORD;
  Value v = record ? vm_new_record(vm, given_layout(vm, g))
                   : vm_new_tuple(vm, g->count);
  for (uint32_t k = 0; k < g->count; k++) {
    Value part = value_retain(given_value(vm, &g->parts[k]));
    if (record)
      AS_RECORD(v)->at[k] = part;
    else
      AS_FIELDS(v)->at[k] = part;
  }
  return v;
}

/* A temporary. */
static Value given_value(Eval *vm, const EvalArg *g) {
  Value v = value_unit();
  switch (g->kind) {
  case GIVEN_UNIT:
    return v;
  case GIVEN_ABSENT:
    return (Value){.tag = V_ABSENT};
  case GIVEN_SIZE:
    vm_own(vm, v = vm_size_value(vm, g->size));
    return v;
  case GIVEN_SHAPE:
    vm_own(vm, v = value_shape(&vm->heap, g->count, g->shape, g->stars));
    return v;
  case GIVEN_TENSOR: {
    Fault fault = {0};
    vm_own(vm, v = vm_node(vm, node_retain(g->node), &fault));
    return v;
  }
  case GIVEN_TUPLE:
    return g->count ? given_parts(vm, g) : v;
  case GIVEN_RECORD:
    return given_parts(vm, g);
  }
  return v;
}

/* ---- calls ---- */

static const Code *call_code(Eval *vm, const Var *fn, uint32_t count) {
  Emit e = {.vm = vm, .depth = count, .most = count + 8};
  emit_ptr(&e, OP_GLOBAL, 0, 0, 0, 1, global_of(vm, (Var *)(uintptr_t)fn));
  emit(&e, OP_REAPPLY, 0, 0, 0, -1);
  Code *code = code_new(vm, count, NULL);
  code->builtin = true;
  emit_end(&e, code);
  return code;
}

static ValueHandle *call(Eval *vm, const Var *fn, uint32_t count,
                  const EvalArg *args) {
  Value *values = vm_scratch(vm, (count + 1) * sizeof *values);
  for (uint32_t k = 0; k < count; k++)
    values[k] = given_value(vm, &args[k]);
  Value v = vm_run(vm, call_code(vm, fn, count), count, values);
  vm_drop_temps(vm, 0);
  return eval_hold(vm, v);
}

ValueHandle *eval_apply(Eval *vm, const Var *fn, uint32_t count, const EvalArg *args,
                Diags *diags) {
  Trap trap;
  eval_enter(vm, diags);
  if (TRAP_SET(trap) == FAIL_NONE) {
    ValueHandle *held = call(vm, fn, count, args);
    trap_end(&trap);
    vm->diags = NULL;
    return held;
  }
  eval_failed(vm, trap.kind);
  return NULL;
}

/* ---- what comes out ---- */

typedef struct Leafing {
  Eval *vm;
  LeafFn *f;
  void *arg;
} Leafing;

static bool each_leaf(Leafing *l, const char *path, Value v);

static bool part_leaf(Leafing *l, const char *path, const char *name, Value v) {
  Arena *arena = l->vm->arena;
  return each_leaf(l, *path ? arena_printf(arena, "%s.%s", path, name) : name,
                   v);
}

static bool each_leaf(Leafing *l, const char *path, Value v) {
  bool good = true;
  if (value_is_tensor(v)) {
    l->f(l->arg, path, vm_to_node(l->vm, v));
    return true;
  }
  switch ((Tag)v.tag) {
  case V_UNIT:
    return true;
  case V_TUPLE:
    for (uint32_t k = 0; good && k < v.obj->len; k++)
      good = part_leaf(l, path, arena_printf(l->vm->arena, "%u", k),
                       AS_FIELDS(v)->at[k]);
    return good;
  case V_RECORD:
    for (uint32_t k = 0; good && k < v.obj->len; k++)
      good = part_leaf(l, path, AS_RECORD(v)->layout->labels[k]->text,
                       AS_RECORD(v)->at[k]);
    return good;
  default:
    return false;
  }
}

bool eval_leaves(Eval *vm, ValueHandle *held, LeafFn *f, void *arg) {
  Leafing l = {vm, f, arg};
  bool good = each_leaf(&l, "", eval_held(held));
  vm_drop_temps(vm, 0);
  return good;
}
