/* Slow paths of the interpreter: partial and oversaturated applications, calls
 * of primitives, lazy definitions.  vm_run runs code. */
#include "eval/internal.h"
#include "support/mem.h"

#include <string.h>

static const Instr halt_instr[1] = {{{.op = OP_HALT, .a = 0}}};
static void push_frame(Eval *vm, const Code *code, uint32_t n, Obj *env,
                       const Instr *ret) {
  if (vm->fp + 1 == vm->frames_end)
    vm_grow_frames(vm, env);
  Frame *f = ++vm->fp;
  *f = (Frame){.ret = ret,
               .code = code,
               .env = env,
               .first_node = vm->graph.next_node_id};
  f->base = (size_t)(vm->sp - vm->stack) - n;
  vm_grow_stack(vm, code->stack_depth);
}

/* ---- runs ---- */

Value vm_run(Eval *vm, const Code *code, uint32_t count, const Value *args) {
  vm->sp = vm->stack;
  vm->fp = vm->frames;
  *vm->fp = (Frame){0};
  vm->is_running = true;
  vm_grow_stack(vm, count);
  for (uint32_t i = 0; i < count; i++)
    *vm->sp++ = value_retain(args[i]);
  push_frame(vm, code, count, NULL, halt_instr);
  vm->pc = code->instrs;
  for (;;) {
    Trap trap;
    if (TRAP_SET(trap) == FAIL_NONE) {
      vm_interpret(vm);
      trap_end(&trap);
      break;
    }
    if (trap.kind == FAIL_LIMIT && vm->is_bailing_out) {
      vm->is_bailing_out = false;
      vm_resume_after_bailout(vm);
      continue;
    }
    if (trap.kind == FAIL_LIMIT && vm->is_branch_failing) {
      vm->is_branch_failing = false;
      vm_branch_failed(vm);
      continue;
    }
    vm->is_running = false;
    trap_raise(trap.kind); /* the caller of vm_run cleans up */
  }
  vm->is_running = false;
  return *--vm->sp;
}

/* ---- calls ---- */

/* Replaces the current frame by a frame of `code` with the top n values. */
static void replace_frame(Eval *vm, const Code *code, uint32_t n, Obj *env) {
  Frame *f = vm->fp;
  if (f->code->is_user) {
    f->tail_caller = f->code;
    f->tail_call = vm->pc;
  }
  Value *bp = vm->stack + f->base, *args = vm->sp - n;
  for (Value *at = bp; at < args; at++)
    value_release(&vm->heap, *at);
  memmove(bp, args, n * sizeof(Value));
  vm->sp = bp + n;
  if (f->env)
    value_release(&vm->heap, value_obj(V_ENV, f->env));
  f->env = env;
  f->code = code;
  vm_grow_stack(vm, code->stack_depth);
}

static const Code *apply_rest_code(Eval *vm) {
  if (!vm->apply_rest_code) {
    BytecodeEmitter e = {.vm = vm};
    emit(&e, OP_APPLY_REST, 0, 0, 0, 0);
    Code *code = code_new(vm, 0, NULL);
    code->is_builtin = true;
    emit_finish(&e, code);
    vm->apply_rest_code = code;
  }
  return vm->apply_rest_code;
}

/* An application with more arguments than parameters.  A new frame keeps the
 * other arguments and applies the result to them. */
static const Instr *apply_oversaturated(Eval *vm, uint32_t n, uint32_t arity,
                                        const Instr *ret, bool tail) {
  const Code *rest_code = apply_rest_code(vm);
  uint32_t rest = n - arity;
  Value *at = vm->sp - n - 1; /* layout: f, arguments, other arguments */
  Value *copy = vm_scratch(vm, (n + 1) * sizeof(Value));
  memcpy(copy, at, (n + 1) * sizeof(Value));
  memcpy(at, copy + 1 + arity, rest * sizeof(Value));
  memcpy(at + rest, copy, (1 + arity) * sizeof(Value));
  vm_drop_temps(vm, vm->temp_count - 1);
  if (tail)
    replace_frame(vm, rest_code, n + 1, NULL);
  else
    push_frame(vm, rest_code, n + 1, NULL, ret);
  vm_grow_stack(vm, n + 8);
  return vm_apply(vm, arity, rest_code->instrs, false);
}

static const Instr *make_partial_app(Eval *vm, uint32_t n, Value f) {
  Partial *p = obj_new(&vm->heap, V_PARTIAL, sizeof *p + n * sizeof(Value), n);
  Value *at = vm->sp - n - 1;
  p->fn = f;
  memcpy(p->args, at + 1, n * sizeof(Value));
  *at = value_obj(V_PARTIAL, p);
  vm->sp = at + 1;
  return NULL;
}

const Instr *vm_apply(Eval *vm, uint32_t n, const Instr *ret, bool tail) {
  for (;;) {
    Value *at = vm->sp - n - 1, f = *at;
    if (!n)
      return tail ? ret_instr : ret;
    if (f.tag == V_PARTIAL) {
      Partial *p = AS_PARTIAL(f);
      uint32_t k = p->obj.len;
      vm_grow_stack(vm, k + 8);
      at = vm->sp - n - 1;
      memmove(at + 1 + k, at + 1, n * sizeof(Value));
      at[0] = value_retain(p->fn);
      for (uint32_t i = 0; i < k; i++)
        at[1 + i] = value_retain(p->args[i]);
      vm->sp += k;
      n += k;
      value_release(&vm->heap, f);
      continue;
    }
    uint32_t arity;
    const Code *code = NULL;
    if (f.tag == V_FN || f.tag == V_CLOSURE) {
      code = f.tag == V_FN ? f.code : vm->codes[f.aux];
      arity = code->arity;
    } else if (f.tag == V_PRIM) {
      arity = AS_PRIM(f)->site.arity;
    } else {
      vm_fail(vm, 599,
              "internal error in eval: an applied value is not a "
              "function");
    }
    if (n > arity)
      return apply_oversaturated(vm, n, arity, ret, tail);
    if (n < arity) {
      make_partial_app(vm, n, f);
      return tail ? ret_instr : ret;
    }
    if (!code) {
      Value r = vm_call_prim(vm, &AS_PRIM(f)->site, at + 1, n);
      for (uint32_t i = 0; i <= n; i++) {
        vm->sp--;
        value_release(&vm->heap, *vm->sp);
      }
      *vm->sp++ = r;
      return tail ? ret_instr : ret;
    }
    Obj *env = f.tag == V_CLOSURE ? f.obj : NULL;
    memmove(at, at + 1, n * sizeof(Value));
    vm->sp--;
    if (tail)
      replace_frame(vm, code, n, env);
    else
      push_frame(vm, code, n, env, ret);
    return code->instrs;
  }
}

const Instr *vm_run_lazy_init(Eval *vm, Global *g, const Instr *resume_at) {
  LazyDec *lazy = g->lazy;
  if (!lazy || lazy->state == GLOBAL_DONE)
    vm_fail(vm, 599, "internal error in eval: %s has no value yet",
            g->name ? g->name : "a size");
  if (lazy->state == GLOBAL_RUNNING)
    vm_fail(vm, 510, "the definition of %s needs its own value",
            g->name ? g->name : "a value");
  if (lazy->dec->kind == CD_FUNS) {
    define_functions(vm, lazy->dec);
    lazy->state = GLOBAL_DONE;
    return resume_at;
  }
  if (!lazy->code)
    lazy->code = compile_bind(vm, lazy->dec, true);
  if (vm->lazy_init_count == vm->lazy_init_cap) {
    size_t cap = vm->lazy_init_cap ? vm->lazy_init_cap * 2 : 16;
    vm->lazy_inits =
        mem_realloc(vm->lazy_inits, vm->lazy_init_cap * sizeof(LazyInit),
                    cap * sizeof(LazyInit));
    vm->lazy_init_cap = cap;
  }
  vm_grow_stack(vm, 8);
  Node *guard = vm->graph.guard;
  *vm->sp++ = guard ? value_node(node_retain(guard)) : value_unit();
  push_frame(vm, lazy->code, 1, NULL, resume_at);
  vm->lazy_inits[vm->lazy_init_count++] =
      (LazyInit){lazy, (size_t)(vm->fp - vm->frames)};
  lazy->state = GLOBAL_RUNNING;
  vm->graph.guard = NULL;
  return lazy->code->instrs;
}

Value vm_call_prim(Eval *vm, const PrimSite *site, Value *args, uint32_t n) {
  PrimFn fn = prim_function(site->prim);
  if (!fn)
    vm_fail(vm, 599, "internal error in eval: no function for %s",
            prim_info[site->prim].name);
  size_t mark = vm->temp_count;
  vm_set_node_span(vm);
  Value r = fn(vm, site, args, n);
  vm_drop_temps(vm, mark);
  return r;
}
