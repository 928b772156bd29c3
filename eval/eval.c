/* Entry points of eval/: runs declarations, holds values for callers, and turns
 * errors into diagnostics.  The main entry point is eval_run. */
#include "eval/internal.h"

#include "backend/target.h"
#include "machine/limits/planner.h"
#include "support/arena.h"
#include "support/diag.h"
#include "support/interrupt.h"
#include "support/mem.h"

#include <string.h>

enum { INITIAL_STACK_VALUES = 4096, INITIAL_FRAMES = 256 };

static Flag never_interrupted;

Eval *eval_new(Arena *session, DimCtx *dims, Interner *interner,
               const EvalHost *host) {
  Eval *vm = NEW(session, Eval);
  vm->arena = session;
  vm->dims = dims;
  vm->interner = interner;
  vm->host = host;
  target_configure(&vm->graph);
  vm->force_threshold = MAX_PENDING_ELEMENTS;
  map_init(&vm->size_globals, session);
  vm->stack = mem_alloc(INITIAL_STACK_VALUES * sizeof(Value));
  vm->stack_end = vm->stack + INITIAL_STACK_VALUES;
  vm->sp = vm->stack;
  Trap trap;
  if (TRAP_SET(trap) == FAIL_NONE) {
    vm->frames = mem_alloc(INITIAL_FRAMES * sizeof(Frame));
    trap_end(&trap);
  } else {
    mem_free(vm->stack);
    trap_raise(trap.kind);
  }
  vm->frames_end = vm->frames + INITIAL_FRAMES;
  vm->fp = vm->frames;
  return vm;
}

void eval_free(Eval *vm) {
  if (!vm)
    return;
  interrupt_set_flag(NULL);
  while (vm->handles)
    value_handle_free(vm, vm->handles);
  for (Global *g = vm->globals; g; g = g->next) {
    value_release(&vm->heap, g->value);
    g->value = (Value){0};
  }
  while (vm->constant_count)
    value_release(&vm->heap, vm->constants[--vm->constant_count]);
  mem_free(vm->constants);
  mem_free(vm->codes);
  mem_free(vm->stack);
  mem_free(vm->frames);
  mem_free(vm->temps);
  mem_free(vm->symbolic_runs);
  mem_free(vm->lazy_inits);
  heap_free_all(&vm->heap);
  graph_clear_caches(&vm->graph);
}

void eval_set_sources(Eval *vm, const Sources *sources) {
  vm->sources = sources;
}

void eval_set_observer(Eval *vm, const struct PlanObserver *observer) {
  vm->graph.observer = observer;
}

uint64_t eval_live_objects(const Eval *vm) {
  return vm->heap.live_objects;
}

/* ---- after an error ---- */

static void shrink_stacks(Eval *vm) {
  if (vm->stack_end - vm->stack > 64 * INITIAL_STACK_VALUES) {
    Value *stack = mem_try_alloc(INITIAL_STACK_VALUES * sizeof(Value));
    if (stack) {
      mem_free(vm->stack);
      vm->stack = vm->sp = stack;
      vm->stack_end = stack + INITIAL_STACK_VALUES;
    }
  }
  if (vm->frames_end - vm->frames > 64 * INITIAL_FRAMES) {
    Frame *frames = mem_try_alloc(INITIAL_FRAMES * sizeof(Frame));
    if (frames) {
      mem_free(vm->frames);
      vm->frames = vm->fp = frames;
      vm->frames_end = frames + INITIAL_FRAMES;
    }
  }
}

static void reset_machine(Eval *vm) {
  vm->symbolic_run_count = 0;
  vm_forget_row_lengths(vm);
  vm->replay_depth = 0;
  vm->is_bailing_out = vm->is_forcing = vm->is_branch_failing = false;
  vm->graph.guard = NULL;
  vm->graph.loop_depth = 0;
  vm->branch_depth = vm->branch_count = 0;
  if (vm->host->deferral)
    interrupt_end_deferral(vm->host->deferral);
  vm_unwind(vm, 0, 0, 0);
  shrink_stacks(vm);
}

/* Releases what a failed run left behind.  Turns its error into a
 * diagnostic. */
void eval_recover(Eval *vm, FailKind kind) {
  const char *library_function;
  vm->is_running = true;
  Span span = vm_user_span(vm, &library_function);
  vm->is_running = false;
  vm->heap.release_incrementally = kind == FAIL_INTERRUPT;
  reset_machine(vm);
  Diags *diags = vm->diags;
  vm->diags = NULL;
  if (kind == FAIL_MEMORY)
    diag_error(diags, 505, span, "out of memory");
  else if (kind == FAIL_INTERRUPT)
    trap_raise(FAIL_INTERRUPT);
}

void eval_enter(Eval *vm, Diags *diags) {
  vm->diags = diags;
  vm->interrupt =
      vm->host->interrupt ? vm->host->interrupt : &never_interrupted;
  vm->graph.interrupt = vm->interrupt;
  interrupt_set_flag(vm->interrupt);
  vm->fp = vm->frames;
  vm->sp = vm->stack;
}

/* ---- held values ---- */

ValueHandle *value_handle_new(Eval *vm, Value v) {
  ValueHandle *handle = mem_try_alloc(sizeof *handle);
  if (!handle) {
    value_release(&vm->heap, v);
    trap_raise(FAIL_MEMORY);
  }
  handle->value = v;
  handle->next = vm->handles;
  if (vm->handles)
    vm->handles->prev = handle;
  vm->handles = handle;
  return handle;
}

Value value_handle_get(const ValueHandle *handle) {
  return handle->value;
}

void value_handle_free(Eval *vm, ValueHandle *handle) {
  if (!handle)
    return;
  if (handle->next)
    handle->next->prev = handle->prev;
  if (handle->prev)
    handle->prev->next = handle->next;
  else
    vm->handles = handle->next;
  value_release(&vm->heap, handle->value);
  mem_free(handle);
}

/* ---- running ---- */

static void run_dec(Eval *vm, const CoreDec *dec, ValueHandle **result) {
  Value v;
  switch (dec->kind) {
  case CD_FUNS:
    define_functions(vm, dec);
    return;
  case CD_BIND:
    value_release(&vm->heap, vm_run(vm, compile_bind(vm, dec, false), 0, NULL));
    return;
  case CD_EXPR:
    v = vm_run(vm, compile_expr(vm, dec->expr), 0, NULL);
    if (result)
      *result = value_handle_new(vm, v);
    else
      value_release(&vm->heap, v);
    return;
  }
}

bool eval_run(Eval *vm, const CoreDec *dec, Diags *diags,
              ValueHandle **result) {
  Trap trap;
  if (result)
    *result = NULL;
  eval_enter(vm, diags);
  if (TRAP_SET(trap) == FAIL_NONE) {
    run_dec(vm, dec, result);
    trap_end(&trap);
    shrink_stacks(vm);
    vm->diags = NULL;
    return true;
  }
  eval_recover(vm, trap.kind);
  return false;
}

static void each_pat_var(const CorePat *pat, void (*f)(void *, Var *),
                         void *arg) {
  if (pat->var)
    f(arg, pat->var);
  for (uint32_t i = 0; i < pat->arg_count; i++)
    each_pat_var(pat->args[i], f, arg);
}

typedef struct LazyDefinition {
  Eval *vm;
  LazyDec *lazy;
} LazyDefinition;

static void make_lazy(void *arg, Var *var) {
  LazyDefinition *l = arg;
  global_of(l->vm, var)->lazy = l->lazy;
}

bool eval_define_lazy(Eval *vm, const CoreDec *dec) {
  LazyDefinition l = {vm, NEW(vm->arena, LazyDec)};
  CoreDec *copy = NEW(vm->arena, CoreDec);
  *copy = *dec;
  l.lazy->dec = copy;
  l.lazy->state = GLOBAL_LAZY;
  switch (dec->kind) {
  case CD_FUNS:
    for (uint32_t i = 0; i < dec->var_count; i++)
      make_lazy(&l, dec->vars[i]);
    return true;
  case CD_BIND:
    each_pat_var(dec->pat, make_lazy, &l);
    return true;
  case CD_EXPR:
    return false;
  }
  return false;
}

ValueHandle *eval_global_handle(Eval *vm, const Var *var) {
  const Global *g = var->eval_global;
  if (!g || g->value.tag == V_NONE)
    return NULL;
  return value_handle_new(vm, value_retain(g->value));
}

bool eval_print(Eval *vm, ValueHandle *handle, Buffer *out, Diags *diags) {
  Trap trap;
  eval_enter(vm, diags);
  if (TRAP_SET(trap) == FAIL_NONE) {
    vm_print_or_draw(vm, out, handle->value, true);
    trap_end(&trap);
    vm_drop_temps(vm, 0);
    return true;
  }
  eval_recover(vm, trap.kind);
  return false;
}

Tensor *eval_tensor(Eval *vm, ValueHandle *handle, Diags *diags) {
  Trap trap;
  if (!value_is_tensor(handle->value))
    return NULL;
  eval_enter(vm, diags);
  if (TRAP_SET(trap) == FAIL_NONE) {
    const Tensor *t = vm_tensor(vm, handle->value);
    tensor_retain((Tensor *)(uintptr_t)t);
    trap_end(&trap);
    vm_drop_temps(vm, 0);
    return (Tensor *)(uintptr_t)t;
  }
  eval_recover(vm, trap.kind);
  return NULL;
}

bool eval_figure_png(Eval *vm, ValueHandle *handle, FigureSize size,
                     void **bytes, size_t *len, Diags *diags) {
  Trap trap;
  bool ok = false;
  eval_enter(vm, diags);
  if (TRAP_SET(trap) == FAIL_NONE) {
    ok = vm_figure_png(vm, handle->value, size, bytes, len);
    trap_end(&trap);
    vm_drop_temps(vm, 0);
    return ok;
  }
  eval_recover(vm, trap.kind);
  return false;
}

bool eval_exited(const Eval *vm, int *status) {
  if (vm->exited && status)
    *status = vm->status;
  return vm->exited;
}
