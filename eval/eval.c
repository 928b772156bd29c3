/* The room's door: declarations run, values held, errors caught. */
#include "eval/internal.h"

#include "backend/target.h"

#include <string.h>

enum { STACK_FIRST = 4096, FRAMES_FIRST = 256 };

static Flag never;

Eval *eval_new(Arena *session, DimCtx *dims, Interner *interner,
               const EvalHost *host) {
  Eval *vm = NEW(session, Eval);
  vm->arena = session;
  vm->dims = dims;
  vm->interner = interner;
  vm->host = host;
  target_begin(&vm->graph);
  vm->force_at = PENDING_LIMIT;
  map_init(&vm->size_globals, session);
  vm->stack = mem_alloc(STACK_FIRST * sizeof(Value));
  vm->stack_end = vm->stack + STACK_FIRST;
  vm->sp = vm->stack;
  Trap trap;
  if (TRAP_SET(trap) == FAIL_NONE) {
    vm->frames = mem_alloc(FRAMES_FIRST * sizeof(Frame));
    trap_end(&trap);
  } else {
    mem_free(vm->stack);
    trap_raise(trap.kind);
  }
  vm->frames_end = vm->frames + FRAMES_FIRST;
  vm->fp = vm->frames;
  return vm;
}

void eval_free(Eval *vm) {
  if (!vm)
    return;
  interrupt_watch(NULL);
  while (vm->held)
    held_free(vm, vm->held);
  for (Global *g = vm->globals; g; g = g->next) {
    value_release(&vm->heap, g->value);
    g->value = (Value){0};
  }
  while (vm->kept_count)
    value_release(&vm->heap, vm->kept[--vm->kept_count]);
  mem_free(vm->kept);
  mem_free(vm->code_at);
  mem_free(vm->stack);
  mem_free(vm->frames);
  mem_free(vm->temps);
  mem_free(vm->attempts);
  mem_free(vm->inits);
  heap_end(&vm->heap);
  graph_end(&vm->graph);
}

void eval_use_sources(Eval *vm, const Sources *sources) {
  vm->sources = sources;
}

void eval_watch(Eval *vm, const struct PlanWatch *watch) {
  vm->graph.watch = watch;
}

uint64_t eval_live(const Eval *vm) {
  return vm->heap.live;
}

/* ---- after an error ---- */

static void shrink(Eval *vm) {
  if (vm->stack_end - vm->stack > 64 * STACK_FIRST) {
    Value *stack = mem_try_alloc(STACK_FIRST * sizeof(Value));
    if (stack) {
      mem_free(vm->stack);
      vm->stack = vm->sp = stack;
      vm->stack_end = stack + STACK_FIRST;
    }
  }
  if (vm->frames_end - vm->frames > 64 * FRAMES_FIRST) {
    Frame *frames = mem_try_alloc(FRAMES_FIRST * sizeof(Frame));
    if (frames) {
      mem_free(vm->frames);
      vm->frames = vm->fp = frames;
      vm->frames_end = frames + FRAMES_FIRST;
    }
  }
}

static void tidy(Eval *vm) {
  vm->attempt_count = 0;
  vm->abandoning = vm->forcing = vm->stopping = false;
  vm->graph.guard = NULL;
  vm->graph.loop_depth = 0;
  vm->depth = vm->branches = 0;
  vm_reset(vm, 0, 0, 0);
  shrink(vm);
}

/* What a failed run leaves is released; its error becomes a diagnostic. */
void eval_failed(Eval *vm, FailKind kind) {
  const char *inside;
  vm->running = true;
  Span span = vm_span(vm, &inside);
  vm->running = false;
  vm->heap.slowly = kind == FAIL_INTERRUPT;
  tidy(vm);
  Diags *diags = vm->diags;
  vm->diags = NULL;
  if (kind == FAIL_MEMORY)
    diag_error(diags, 505, span, "out of memory");
  else if (kind == FAIL_INTERRUPT)
    trap_raise(FAIL_INTERRUPT);
}

void eval_enter(Eval *vm, Diags *diags) {
  vm->diags = diags;
  vm->interrupt = vm->host->interrupt ? vm->host->interrupt : &never;
  vm->graph.interrupt = vm->interrupt;
  interrupt_watch(vm->interrupt);
  vm->fp = vm->frames;
  vm->sp = vm->stack;
}

/* ---- held values ---- */

ValueHandle *eval_hold(Eval *vm, Value v) {
  ValueHandle *held = mem_try_alloc(sizeof *held);
  if (!held) {
    value_release(&vm->heap, v);
    trap_raise(FAIL_MEMORY);
  }
  held->value = v;
  held->next = vm->held;
  if (vm->held)
    vm->held->prev = held;
  vm->held = held;
  return held;
}

Value eval_held(const ValueHandle *held) {
  return held->value;
}

void held_free(Eval *vm, ValueHandle *held) {
  if (!held)
    return;
  if (held->next)
    held->next->prev = held->prev;
  if (held->prev)
    held->prev->next = held->next;
  else
    vm->held = held->next;
  value_release(&vm->heap, held->value);
  mem_free(held);
}

/* ---- running ---- */

static void run_dec(Eval *vm, const CoreDec *dec, ValueHandle **result) {
  Value v;
  switch (dec->kind) {
  case CD_FUNS:
    define_funs(vm, dec);
    return;
  case CD_BIND:
    value_release(&vm->heap, vm_run(vm, compile_bind(vm, dec, false), 0, NULL));
    return;
  case CD_EXPR:
    v = vm_run(vm, compile_expr(vm, dec->expr), 0, NULL);
    if (result)
      *result = eval_hold(vm, v);
    else
      value_release(&vm->heap, v);
    return;
  }
}

bool eval_run(Eval *vm, const CoreDec *dec, Diags *diags, ValueHandle **result) {
  Trap trap;
  if (result)
    *result = NULL;
  eval_enter(vm, diags);
  if (TRAP_SET(trap) == FAIL_NONE) {
    run_dec(vm, dec, result);
    trap_end(&trap);
    shrink(vm);
    vm->diags = NULL;
    return true;
  }
  eval_failed(vm, trap.kind);
  return false;
}

static void each_pat_var(const CorePat *pat, void (*f)(void *, Var *),
                         void *arg) {
  if (pat->var)
    f(arg, pat->var);
  for (uint32_t i = 0; i < pat->arg_count; i++)
    each_pat_var(pat->args[i], f, arg);
}

typedef struct Lazily {
  Eval *vm;
  LazyDec *lazy;
} Lazily;

static void make_lazy(void *arg, Var *var) {
  Lazily *l = arg;
  global_of(l->vm, var)->lazy = l->lazy;
}

bool eval_define_lazy(Eval *vm, const CoreDec *dec) {
  Lazily l = {vm, NEW(vm->arena, LazyDec)};
  CoreDec *copy = NEW(vm->arena, CoreDec);
  *copy = *dec;
  l.lazy->dec = copy;
  l.lazy->state = GS_LAZY;
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

ValueHandle *eval_global(Eval *vm, const Var *var) {
  const Global *g = var->home;
  if (!g || g->value.tag == V_NONE)
    return NULL;
  return eval_hold(vm, value_retain(g->value));
}

bool eval_print(Eval *vm, ValueHandle *held, Buffer *out, Diags *diags) {
  Trap trap;
  eval_enter(vm, diags);
  if (TRAP_SET(trap) == FAIL_NONE) {
    vm_print(vm, out, held->value, true);
    trap_end(&trap);
    vm_drop_temps(vm, 0);
    return true;
  }
  eval_failed(vm, trap.kind);
  return false;
}

Tensor *eval_tensor(Eval *vm, ValueHandle *held, Diags *diags) {
  Trap trap;
  if (!value_is_tensor(held->value))
    return NULL;
  eval_enter(vm, diags);
  if (TRAP_SET(trap) == FAIL_NONE) {
    const Tensor *t = vm_tensor(vm, held->value);
    tensor_retain((Tensor *)(uintptr_t)t);
    trap_end(&trap);
    vm_drop_temps(vm, 0);
    return (Tensor *)(uintptr_t)t;
  }
  eval_failed(vm, trap.kind);
  return NULL;
}

bool eval_exited(const Eval *vm, int *status) {
  if (vm->exited && status)
    *status = vm->status;
  return vm->exited;
}
