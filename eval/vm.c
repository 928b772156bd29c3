/* The bytecode interpreter: one loop over instructions.
 *
 * Instructions that take longer are functions (vm_tensor_ops.c).  Rare cases
 * are in vm_slow_path.c, symbolic.c and the builtins.  These see the stack
 * through vm->sp.  So use SAVE before anything that may unwind or move the
 * stack, and LOAD after it. */
#include "eval/internal.h"
#include "support/buffer.h"
#include "support/intern.h"

#include <string.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Converts an integer literal to the element type of the other operand. */
static Value literal_as(Value other, int32_t n) {
  Dtype dtype = value_is_num(other)   ? (Dtype)other.tag
                : other.tag == V_NODE ? other.node->dtype
                                      : DT_I64;
  return value_scalar(scalar_convert((Scalar){DT_I64, {.i = n}}, dtype));
}

/* Where the operands of an instruction are: S stack, L local, K constant. */
typedef enum OperandForm { FORM_SS, FORM_SK, FORM_LK, FORM_LL } OperandForm;

/* Runs the binary operation at vm->pc if its operands are not two i64.  Pushes
 * the result. */
static void binary_slow(Eval *vm, PrimId op, OperandForm form) {
  const Instr *pc = vm->pc;
  const Value *bp = vm->stack + vm->fp->base;
  uint32_t popped = form == FORM_SS ? 2 : form == FORM_SK;
  Value x = popped ? vm->sp[-(int)popped] : bp[pc->b];
  Value y = form == FORM_SS   ? vm->sp[-1]
            : form == FORM_LL ? bp[pc->c]
                              : literal_as(x, pc->c);
  Value r = vm_binary(vm, op, x, y);
  while (popped--) {
    vm->sp--;
    value_release(&vm->heap, *vm->sp);
  }
  *vm->sp++ = r;
}

/* The same for a compare-and-jump.  Returns the next instruction. */
static const Instr *compare_slow(Eval *vm, PrimId op, OperandForm form) {
  const Instr *pc = vm->pc;
  binary_slow(vm, op, form);
  vm->sp--;
  return vm_symbolic_branch(vm, *vm->sp, pc, pc + 2, pc + pc[1].c);
}

static bool is_con(Value v, const Con *con) {
  const Con *actual = v.tag == V_NULLARY_CON ? v.con
                      : v.tag == V_CON       ? AS_CON(v)->con
                                             : NULL;
  return actual && actual->tag == con->tag;
}

/* Pushes the parts in a set of bits; returns the new top of the stack.  If
 * `owned`, their holder gives them up. */
static Value *push_parts(Heap *heap, Value *sp, const Value *parts, uint32_t n,
                         uint32_t set, bool owned) {
  for (uint32_t i = 0; i < n; i++) {
    if (set >> i & 1)
      *sp++ = owned ? parts[i] : value_retain(parts[i]);
    else if (owned)
      value_release(heap, parts[i]);
  }
  return sp;
}

void vm_interpret(Eval *vm) {
  static const void *const labels[OP_COUNT] = {
#define O(name) [OP_##name] = &&do_##name,
#include "eval/ops.def"
#undef O
  };
  const Instr *pc = vm->pc;
  Value *sp = vm->sp;
  Frame *fp = vm->fp;
  Value *bp = vm->stack + fp->base;
  Heap *const heap = &vm->heap;
  Flag *const interrupt = vm->interrupt;
  Code *code; /* the function to call, with n arguments and env */
  uint32_t n;
  Obj *env;
  const Instr *ret;

#if SANITIZED_BUILD
#define DISPATCH goto dispatch
#else
#define DISPATCH goto *labels[pc->op]
#endif
#define NEXT  \
  do {        \
    pc++;     \
    DISPATCH; \
  } while (0)
#define NEXT2 \
  do {        \
    pc += 2;  \
    DISPATCH; \
  } while (0)
#define SAVE (vm->pc = pc, vm->sp = sp, vm->fp = fp)
#define LOAD (sp = vm->sp, fp = vm->fp, bp = vm->stack + fp->base)
#define JUMP     \
  do {           \
    pc += pc->c; \
    DISPATCH;    \
  } while (0)
/* Continues at an instruction that a slow-path function returned. */
#define CONTINUE_AT(where) \
  do {                     \
    SAVE;                  \
    pc = (where);          \
    LOAD;                  \
    DISPATCH;              \
  } while (0)
#define MADE_MANY_NODES(frame) \
  (vm->graph.next_node_id - (frame)->first_node > MAX_PENDING_NODES_IN_LOOP)
#define POLL                            \
  if (UNLIKELY(flag_is_set(interrupt))) \
  (SAVE, vm_poll_interrupt(vm))
#define POLL_CALL /* env is not on the stack yet */ \
  if (UNLIKELY(flag_is_set(interrupt))) {           \
    SAVE;                                           \
    if (env)                                        \
      vm_push_temp(vm, value_obj(V_ENV, env));      \
    vm_poll_interrupt(vm);                          \
  }
#define RELEASE(v)               \
  do {                           \
    Value freed_ = (v);          \
    value_release(heap, freed_); \
  } while (0)

#if SANITIZED_BUILD
dispatch:
  goto *labels[pc->op];
#endif
  DISPATCH;

do_LOAD_LOCAL:
  *sp++ = value_retain(bp[pc->b]);
  NEXT;
do_MOVE_LOCAL:
  *sp++ = bp[pc->b];
  bp[pc->b] = value_unit();
  NEXT;
do_LAST_LOCAL:
  *sp++ = bp[pc->b];
  if (UNLIKELY(vm_must_defer(vm)))
    value_retain(sp[-1]);
  else
    bp[pc->b] = value_unit();
  NEXT;
do_LAST_LOCALS : {
  Value *from = bp + pc->b;
  bool copies = vm_must_defer(vm);
  n = pc->a;
  for (Value *end = from + n; from < end; from++) {
    *sp++ = copies ? value_retain(*from) : *from;
    if (LIKELY(!copies))
      *from = value_unit();
  }
  pc += n;
  DISPATCH;
}
do_STORE_LOCAL : {
  Value old = bp[pc->b];
  bp[pc->b] = *--sp;
  RELEASE(old);
  NEXT;
}
do_LOAD_CAPTURE:
  *sp++ = value_retain(((ValueArray *)(void *)fp->env)->at[pc->c]);
  NEXT;
do_LOAD_CONST:
  *sp++ = value_retain(fp->code->constants[pc->c]);
  NEXT;
do_LOAD_INT:
  *sp++ = value_int(pc->c);
  NEXT;
do_LOAD_GLOBAL : {
  Global *g = (Global *)pc[1].ptr;
  if (UNLIKELY(g->value.tag == V_NONE))
    CONTINUE_AT(vm_run_lazy_init(vm, g, pc));
  *sp++ = value_retain(g->value);
  NEXT2;
}
do_STORE_GLOBAL : {
  Global *g = (Global *)pc[1].ptr;
  Value old = g->value;
  g->value = *--sp;
  g->code = g->value.tag == V_FN ? g->value.code : NULL;
  RELEASE(old);
  NEXT2;
}
do_LOAD_SELF : {
  Code *self = (Code *)pc[1].ptr;
  if (fp->env) {
    fp->env->ref_count++;
    *sp++ = (Value){.tag = V_CLOSURE, .aux = self->id, .obj = fp->env};
  } else {
    *sp++ = (Value){.tag = V_FN, .code = self};
  }
  NEXT2;
}
do_MAKE_SIBLING : {
  Value e = value_retain(bp[pc->b]);
  *sp++ = (Value){
      .tag = V_CLOSURE, .aux = ((const Code *)pc[1].ptr)->id, .obj = e.obj};
  NEXT2;
}
do_MAKE_CLOSURE:
  SAVE;
  n = pc->b;
  {
    ValueArray *f = obj_new(heap, V_ENV, sizeof *f + n * sizeof(Value), n);
    sp -= n;
    memcpy(f->at, sp, n * sizeof(Value));
    *sp++ = (Value){
        .tag = V_CLOSURE, .aux = ((const Code *)pc[1].ptr)->id, .obj = &f->obj};
  }
  NEXT2;
do_MAKE_ENV:
  SAVE;
  n = pc->b;
  {
    ValueArray *f = obj_new(heap, V_ENV, sizeof *f + n * sizeof(Value), n);
    sp -= n;
    memcpy(f->at, sp, n * sizeof(Value));
    *sp++ = value_obj(V_ENV, f);
  }
  NEXT;
do_POP:
  sp--;
  RELEASE(*sp);
  NEXT;
do_SLIDE : {
  Value top = *--sp;
  for (int32_t i = 0; i < pc->c; i++) {
    sp--;
    RELEASE(*sp);
  }
  *sp++ = top;
  NEXT;
}
do_RESERVE:
  for (int32_t i = 0; i < pc->c; i++)
    *sp++ = value_unit();
  NEXT;

do_JUMP:
  JUMP;
do_JUMP_BACK:
  POLL;
  JUMP;
do_JUMP_IF_FALSE : {
  Value c = sp[-1];
  if (LIKELY(c.tag == DT_BOOL)) {
    sp--;
    if (c.i)
      NEXT;
    JUMP;
  }
  sp--;
  CONTINUE_AT(vm_symbolic_branch(vm, c, pc, pc + 1, pc + pc->c));
}
do_JUMP_IF_CONCRETE_FALSE : {
  SAVE;
  bool holds = vm_bool(vm, sp[-1]);
  sp--;
  RELEASE(*sp);
  if (holds)
    NEXT;
  JUMP;
}
do_JUMP_IF_AXES : {
  bool axes = sp[-1].obj->len != 0;
  sp--;
  RELEASE(*sp);
  if (axes)
    JUMP;
  NEXT;
}
do_JUMP_IF_LOOP_RUNS : {
  SAVE;
  bool runs = vm_loop_runs(vm, pc->a, (LoopKind)pc->b);
  if (runs)
    JUMP;
  NEXT;
}
do_JUMP_IF_PRESENT:
  if (bp[pc->b].tag != V_ABSENT)
    JUMP;
  NEXT;
do_JUMP_IF_KNOWN:
  if (LIKELY(bp[pc->b].tag != V_UNIT))
    JUMP;
  NEXT;
do_JOIN:
  if (UNLIKELY(fp->join == pc))
    goto do_RETURN;
  NEXT;

do_CALL_VALUE : {
  n = pc->a;
  Value f = sp[-(int)n - 1];
  if (f.tag == V_FN) {
    code = f.code;
    env = NULL;
  } else if (f.tag == V_CLOSURE) {
    code = vm->codes[f.aux];
    env = f.obj;
  } else {
    CONTINUE_AT(vm_apply(vm, n, pc + 1, false));
  }
  if (UNLIKELY(code->arity != n))
    CONTINUE_AT(vm_apply(vm, n, pc + 1, false));
  ret = pc + 1;
  sp--;
  for (Value *at = sp - n; at < sp; at++)
    at[0] = at[1];
  goto enter;
}
do_CALL_CODE:
  n = pc->a;
  code = (Code *)pc[1].ptr;
  env = NULL;
  ret = pc + 2;
  goto enter;
do_CALL_SIBLING:
  n = pc->a;
  code = (Code *)pc[1].ptr;
  env = fp->env;
  if (env)
    env->ref_count++;
  ret = pc + 2;
  goto enter;
do_CALL_GLOBAL : {
  Global *g = (Global *)pc[1].ptr;
  n = pc->a;
  code = g->code;
  if (UNLIKELY(!code || code->arity != n))
    goto call_global;
  env = NULL;
  ret = pc + 2;
}
enter: /* calls code with the top n values and env (owned); returns to ret */
  POLL_CALL;
  if (UNLIKELY(++fp == vm->frames_end)) {
    fp--;
    SAVE;
    vm_grow_frames(vm, env);
    LOAD;
    fp++;
  }
  bp = sp - n;
  fp->ret = ret;
  fp->code = code;
  fp->env = env;
  fp->join = NULL;
  fp->tail_caller = NULL;
  fp->first_node = vm->graph.next_node_id;
  fp->base = (size_t)(bp - vm->stack);
  if (UNLIKELY((size_t)(vm->stack_end - bp) < code->stack_depth)) {
    SAVE;
    vm_grow_stack(vm, code->stack_depth);
    LOAD;
  }
  pc = code->instrs;
  DISPATCH;
call_global : {
  Global *g = (Global *)pc[1].ptr;
  if (g->value.tag == V_NONE)
    CONTINUE_AT(vm_run_lazy_init(vm, g, pc));
  bool tail = pc->op == OP_TAIL_CALL_GLOBAL;
  for (Value *at = sp; at > sp - n; at--)
    at[0] = at[-1];
  sp++;
  sp[-(int)n - 1] = value_retain(g->value);
  CONTINUE_AT(vm_apply(vm, n, pc + 2, tail));
}

do_TAIL_CALL_VALUE : {
  n = pc->a;
  Value f = sp[-(int)n - 1];
  if (f.tag == V_FN) {
    code = f.code;
    env = NULL;
  } else if (f.tag == V_CLOSURE) {
    code = vm->codes[f.aux];
    env = f.obj;
  } else {
    CONTINUE_AT(vm_apply(vm, n, NULL, true));
  }
  if (UNLIKELY(code->arity != n))
    CONTINUE_AT(vm_apply(vm, n, NULL, true));
  sp[-(int)n - 1] = value_unit();
  goto enter_tail;
}
do_TAIL_CALL_CODE:
  n = pc->a;
  code = (Code *)pc[1].ptr;
  env = NULL;
  goto enter_tail;
do_TAIL_CALL_SIBLING:
  n = pc->a;
  code = (Code *)pc[1].ptr;
  env = fp->env;
  if (env)
    env->ref_count++;
  goto enter_tail;
do_TAIL_CALL_GLOBAL : {
  Global *g = (Global *)pc[1].ptr;
  n = pc->a;
  code = g->code;
  if (UNLIKELY(!code || code->arity != n))
    goto call_global;
  env = NULL;
}
enter_tail : {
  POLL_CALL;
  bool ends_iteration = code == fp->code;
  if (fp->code->is_user) {
    fp->tail_caller = fp->code;
    fp->tail_call = pc;
  }
  Value *args = sp - n;
  for (Value *at = bp; at < args; at++)
    value_release(heap, *at);
  for (uint32_t i = 0; i < n; i++)
    bp[i] = args[i];
  sp = bp + n;
  if (fp->env)
    RELEASE(value_obj(V_ENV, fp->env));
  fp->env = env;
  fp->code = code;
  pc = code->instrs;
  if (UNLIKELY((size_t)(vm->stack_end - bp) < code->stack_depth)) {
    SAVE;
    vm_grow_stack(vm, code->stack_depth);
    LOAD;
  }
  if (UNLIKELY(MADE_MANY_NODES(fp)) && ends_iteration) {
    SAVE;
    vm_force_after_iteration(vm);
  }
  DISPATCH;
}

do_RETURN : {
  Value result = *--sp;
  while (sp > bp) {
    sp--;
    RELEASE(*sp);
  }
  *sp++ = result;
  if (fp->env)
    RELEASE(value_obj(V_ENV, fp->env));
  pc = fp->ret;
  fp--;
  bp = vm->stack + fp->base;
  if (UNLIKELY(MADE_MANY_NODES(fp + 1))) {
    SAVE;
    vm_force_after_call(vm, fp + 1);
  }
  DISPATCH;
}
do_RETURN_LAZY_INIT : {
  LazyInit *init = &vm->lazy_inits[--vm->lazy_init_count];
  init->lazy->state = GLOBAL_DONE;
  vm->graph.guard = bp->tag == V_NODE ? bp->node : NULL;
  while (sp > bp) {
    sp--;
    RELEASE(*sp);
  }
  pc = fp->ret;
  fp--;
  bp = vm->stack + fp->base;
  DISPATCH;
}
do_HALT:
  SAVE;
  return;
do_APPLY_REST : {
  Value f = sp[-1];
  n = (uint32_t)(sp - bp) - 1;
  memmove(bp + 1, bp, n * sizeof(Value));
  *bp = f;
  CONTINUE_AT(vm_apply(vm, n, NULL, true));
}
do_THEN_DONE:
  CONTINUE_AT(vm_then_done(vm));
do_ELSE_DONE:
  CONTINUE_AT(vm_else_done(vm));
do_FAIL_NO_MATCH : {
  SAVE;
  Buffer text = {0};
  vm_print(vm, &text, bp[pc->b], true);
  char shown[200];
  size_t len = text.len;
  bool is_truncated = len >= sizeof shown - 4;
  if (is_truncated)
    len = sizeof shown - 4;
  if (len)
    memcpy(shown, text.text, len);
  memcpy(shown + len, is_truncated ? "..." : "", is_truncated ? 4 : 1);
  buffer_free(&text);
  vm_fail(vm, 504, "no case matches %s", shown);
}
do_BUG:
  SAVE;
  vm_fail(vm, 599, "internal error in eval: %s", (const char *)pc[1].ptr);

  /* ---- scalars ---- */

#define SLOW(op, form)         \
  do {                         \
    SAVE;                      \
    binary_slow(vm, op, form); \
    LOAD;                      \
    NEXT;                      \
  } while (0)
#define SLOW_SS(op) SLOW(op, FORM_SS)
#define SLOW_SK(op) SLOW(op, FORM_SK)
#define SLOW_LK(op) SLOW(op, FORM_LK)
#define SLOW_LL(op) SLOW(op, FORM_LL)
#define BOTH(t) (x->tag == (t) && y->tag == (t))

/* Sums that wrap around take the slow path (see value_is_unwrapped_int). */
#define ARITH(NAME, op, over)                                            \
  do_##NAME##_SS : {                                                     \
    Value *x = sp - 2, *y = sp - 1;                                      \
    int64_t r;                                                           \
    if (LIKELY(value_is_unwrapped_int(x) && value_is_unwrapped_int(y) && \
               !over(x->i, y->i, &r))) {                                 \
      x->i = r;                                                          \
      sp--;                                                              \
      NEXT;                                                              \
    }                                                                    \
    if (BOTH(DT_F32)) {                                                  \
      x->f = (double)((float)x->f op(float) y->f);                       \
      sp--;                                                              \
      NEXT;                                                              \
    }                                                                    \
    if (BOTH(DT_F64)) {                                                  \
      x->f = x->f op y->f;                                               \
      sp--;                                                              \
      NEXT;                                                              \
    }                                                                    \
    SLOW_SS(PRIM_##NAME);                                                \
  }                                                                      \
  do_##NAME##_LL : {                                                     \
    const Value *x = bp + pc->b, *y = bp + pc->c;                        \
    int64_t r;                                                           \
    if (LIKELY(value_is_unwrapped_int(x) && value_is_unwrapped_int(y) && \
               !over(x->i, y->i, &r))) {                                 \
      *sp++ = value_int(r);                                              \
      NEXT;                                                              \
    }                                                                    \
    SLOW_LL(PRIM_##NAME);                                                \
  }                                                                      \
  do_##NAME##_LK : {                                                     \
    const Value *x = bp + pc->b;                                         \
    int64_t r, k = pc->c;                                                \
    if (LIKELY(value_is_unwrapped_int(x) && !over(x->i, k, &r))) {       \
      *sp++ = value_int(r);                                              \
      NEXT;                                                              \
    }                                                                    \
    SLOW_LK(PRIM_##NAME);                                                \
  }                                                                      \
  do_##NAME##_SK : {                                                     \
    Value *x = sp - 1;                                                   \
    int64_t r, k = pc->c;                                                \
    if (LIKELY(value_is_unwrapped_int(x) && !over(x->i, k, &r))) {       \
      x->i = r;                                                          \
      NEXT;                                                              \
    }                                                                    \
    SLOW_SK(PRIM_##NAME);                                                \
  }
  ARITH(ADD, +, __builtin_add_overflow)
  ARITH(SUB, -, __builtin_sub_overflow)
  ARITH(MUL, *, __builtin_mul_overflow)

#define FLOOR_DIV(x, y) ((x) / (y) - ((x) % (y) != 0 && ((x) < 0) != ((y) < 0)))
#define FLOOR_MOD(x, y) \
  ((x) % (y) + ((x) % (y) != 0 && ((x) < 0) != ((y) < 0) ? (y) : 0))
#define DIVISION(NAME, FORMULA)                                              \
  do_##NAME##_SS : {                                                         \
    Value *x = sp - 2, *y = sp - 1;                                          \
    if (LIKELY(value_is_unwrapped_int(x) && y->tag == DT_I64 && y->i != 0 && \
               y->i != -1)) {                                                \
      x->i = FORMULA(x->i, y->i);                                            \
      sp--;                                                                  \
      NEXT;                                                                  \
    }                                                                        \
    SLOW_SS(PRIM_##NAME);                                                    \
  }                                                                          \
  do_##NAME##_SK : {                                                         \
    Value *x = sp - 1;                                                       \
    int64_t y = pc->c;                                                       \
    if (LIKELY(value_is_unwrapped_int(x) && y != 0 && y != -1)) {            \
      x->i = FORMULA(x->i, y);                                               \
      NEXT;                                                                  \
    }                                                                        \
    SLOW_SK(PRIM_##NAME);                                                    \
  }
  DIVISION(DIV, FLOOR_DIV)
  DIVISION(MOD, FLOOR_MOD)

#define COMPARE(NAME, op)            \
  do_##NAME##_SS : {                 \
    Value *x = sp - 2, *y = sp - 1;  \
    if (LIKELY(BOTH(DT_I64))) {      \
      *x = value_bool(x->i op y->i); \
      sp--;                          \
      NEXT;                          \
    }                                \
    SLOW_SS(PRIM_##NAME);            \
  }
  COMPARE(LT, <)
  COMPARE(LE, <=)
  COMPARE(GT, >)
  COMPARE(GE, >=)
  COMPARE(EQ, ==)
  COMPARE(NE, !=)

#define BRANCH_ON(holds) \
  do {                   \
    if (holds)           \
      NEXT2;             \
    pc += pc[1].c;       \
    DISPATCH;            \
  } while (0)
#define COMPARE_JUMP(NAME, op)                           \
  do_J##NAME##_SS : {                                    \
    Value *x = sp - 2, *y = sp - 1;                      \
    if (LIKELY(BOTH(DT_I64))) {                          \
      sp -= 2;                                           \
      BRANCH_ON(x->i op y->i);                           \
    }                                                    \
    CONTINUE_AT(compare_slow(vm, PRIM_##NAME, FORM_SS)); \
  }                                                      \
  do_J##NAME##_SK : {                                    \
    Value *x = sp - 1;                                   \
    if (LIKELY(x->tag == DT_I64)) {                      \
      sp--;                                              \
      BRANCH_ON(x->i op pc->c);                          \
    }                                                    \
    CONTINUE_AT(compare_slow(vm, PRIM_##NAME, FORM_SK)); \
  }                                                      \
  do_J##NAME##_LK : {                                    \
    const Value *x = bp + pc->b;                         \
    if (LIKELY(x->tag == DT_I64))                        \
      BRANCH_ON(x->i op pc->c);                          \
    CONTINUE_AT(compare_slow(vm, PRIM_##NAME, FORM_LK)); \
  }                                                      \
  do_J##NAME##_LL : {                                    \
    const Value *x = bp + pc->b, *y = bp + pc->c;        \
    if (LIKELY(BOTH(DT_I64)))                            \
      BRANCH_ON(x->i op y->i);                           \
    CONTINUE_AT(compare_slow(vm, PRIM_##NAME, FORM_LL)); \
  }
  COMPARE_JUMP(LT, <)
  COMPARE_JUMP(LE, <=)
  COMPARE_JUMP(GT, >)
  COMPARE_JUMP(GE, >=)
  COMPARE_JUMP(EQ, ==)
  COMPARE_JUMP(NE, !=)

do_AND_TEST : {
  Value c = sp[-1];
  if (LIKELY(c.tag == DT_BOOL)) {
    if (c.i)
      NEXT;
    JUMP;
  }
  if (c.tag == V_NODE && c.node->rank)
    NEXT;
  sp--;
  CONTINUE_AT(vm_symbolic_branch(vm, c, pc, pc + 1, pc + pc->c));
}
do_OR_TEST : {
  Value c = sp[-1];
  if (LIKELY(c.tag == DT_BOOL)) {
    if (!c.i)
      NEXT;
    JUMP;
  }
  if (c.tag == V_NODE && c.node->rank)
    NEXT;
  sp--;
  CONTINUE_AT(vm_symbolic_branch(vm, c, pc, pc + pc->c, pc + 1));
}
do_AND_DONE:
  if (LIKELY(sp[-2].tag == DT_BOOL)) {
    sp[-2] = sp[-1];
    sp--;
    NEXT;
  }
  SLOW_SS(PRIM_AND);
do_OR_DONE:
  if (LIKELY(sp[-2].tag == DT_BOOL)) {
    sp[-2] = sp[-1];
    sp--;
    NEXT;
  }
  SLOW_SS(PRIM_OR);
do_LOAD_NUM_DYNAMIC:
  sp[-1] = value_scalar(((const NumLiteral *)pc[1].ptr)->by_dtype[sp[-1].i]);
  NEXT2;
do_CALL_PRIM : {
  SAVE;
  n = pc->a;
  const PrimSite *site = pc[1].ptr;
  PrimSite dynamic;
  uint32_t dtype_below = pc->b;
  if (dtype_below) {
    dynamic = *site;
    dynamic.elem = (Dtype)sp[-(int)n - 1].i;
    site = &dynamic;
  }
  Value r = vm_call_prim(vm, site, sp - n, n);
  LOAD;
  for (uint32_t i = 0; i < n; i++) {
    sp--;
    RELEASE(*sp);
  }
  sp -= dtype_below;
  *sp++ = r;
  NEXT2;
}
do_COMPARE : {
  const Value *x = sp - 2, *y = sp - 1;
  if (UNLIKELY(!BOTH(DT_I64)))
    goto do_CALL_PRIM;
  int64_t order = (x->i > y->i) - (x->i < y->i);
  sp--;
  sp[-1] = value_int(order);
  NEXT2;
}
do_MAKE_PRIM : {
  SAVE;
  PrimObj *p = obj_new(heap, V_PRIM, sizeof *p, 0);
  p->site = *(const PrimSite *)pc[1].ptr;
  p->site.elem = (Dtype)sp[-1].i;
  sp[-1] = value_obj(V_PRIM, p);
  NEXT2;
}

  /* ---- structures ---- */

do_MAKE_TUPLE:
  SAVE;
  n = pc->b;
  {
    ValueArray *t = obj_new(heap, V_TUPLE, sizeof *t + n * sizeof(Value), n);
    sp -= n;
    for (uint32_t i = 0; i < n; i++)
      t->at[i] = sp[i];
    *sp++ = value_obj(V_TUPLE, t);
  }
  NEXT;
do_MAKE_RECORD:
  SAVE;
  {
    const RecordLayout *layout = pc[1].ptr;
    n = layout->len;
    Record *r = obj_new(heap, V_RECORD, sizeof *r + n * sizeof(Value), n);
    r->layout = layout;
    sp -= n;
    memcpy(r->at, sp, n * sizeof(Value));
    *sp++ = value_obj(V_RECORD, r);
  }
  NEXT2;
do_RECORD_GET : {
  FieldInlineCache *site = (FieldInlineCache *)pc[1].ptr;
  Record *r = AS_RECORD(sp[-1]);
  if (UNLIKELY(r->layout != site->layout)) {
    uint32_t k = 0;
    while (k < r->layout->len && r->layout->labels[k] != site->label)
      k++;
    if (k == r->layout->len) {
      SAVE;
      vm_fail(vm, 599, "internal error in eval: no field %s",
              site->label->text);
    }
    site->layout = r->layout;
    site->index = k;
  }
  Value field = value_retain(r->at[site->index]);
  RELEASE(sp[-1]);
  sp[-1] = field;
  NEXT2;
}
do_RECORD_UPDATE:
  SAVE;
  {
    const RecordLayout *changes = pc[1].ptr;
    n = changes->len;
    const Record *old = AS_RECORD(sp[-(int)n - 1]);
    uint32_t len = old->layout->len;
    Record *r = obj_new(heap, V_RECORD, sizeof *r + len * sizeof(Value), len);
    r->layout = old->layout;
    for (uint32_t k = 0; k < len; k++) {
      uint32_t i = 0;
      while (i < n && changes->labels[i] != old->layout->labels[k])
        i++;
      r->at[k] = value_retain(i < n ? sp[(int)i - (int)n] : old->at[k]);
    }
    for (uint32_t i = 0; i <= n; i++) {
      sp--;
      RELEASE(*sp);
    }
    *sp++ = value_obj(V_RECORD, r);
  }
  NEXT2;
do_MAKE_CON:
  SAVE;
  {
    ConApp *c = obj_new(heap, V_CON, sizeof *c, 1);
    c->con = pc[1].ptr;
    c->arg = sp[-1];
    sp[-1] = value_obj(V_CON, c);
  }
  NEXT2;
do_MAKE_CONS : {
  SAVE;
  Cons *cell = obj_new(heap, V_CONS, sizeof *cell, 2);
  sp--;
  cell->head = sp[-1];
  cell->tail = sp[0];
  sp[-1] = value_obj(V_CONS, cell);
  NEXT;
}
do_MAKE_LIST:
  *sp++ = (Value){.tag = V_NIL};
  for (int32_t i = 0; i < pc->c; i++) {
    SAVE;
    Cons *cell = obj_new(heap, V_CONS, sizeof *cell, 2);
    sp--;
    cell->head = sp[-1];
    cell->tail = sp[0];
    sp[-1] = value_obj(V_CONS, cell);
  }
  NEXT;
do_TUPLE_GET : {
  Value part = value_retain(AS_ARRAY(sp[-1])->at[pc->b]);
  RELEASE(sp[-1]);
  sp[-1] = part;
  NEXT;
}
do_LIST_HEAD : {
  Value part = value_retain(AS_CONS(sp[-1])->head);
  RELEASE(sp[-1]);
  sp[-1] = part;
  NEXT;
}
do_LIST_TAIL : {
  Value part = value_retain(AS_CONS(sp[-1])->tail);
  RELEASE(sp[-1]);
  sp[-1] = part;
  NEXT;
}
do_CON_ARG : {
  Value part = value_retain(AS_CON(sp[-1])->arg);
  RELEASE(sp[-1]);
  sp[-1] = part;
  NEXT;
}
/* Unpacks local b: `parts`, `n` of them, in `inner`, an object in it or NULL.
 */
#define UNPACK(inner, parts, n)                                       \
  do {                                                                \
    Value whole_ = bp[pc->b];                                         \
    Obj *inner_ = (inner);                                            \
    bool last_ = pc->a && !vm_must_defer(vm);                         \
    bool owned_ = last_ && whole_.obj->ref_count == 1 &&              \
                  (!inner_ || inner_->ref_count == 1);                \
    sp = push_parts(heap, sp, (parts), (n), (uint32_t)pc->c, owned_); \
    if (last_)                                                        \
      bp[pc->b] = value_unit();                                       \
    if (owned_) {                                                     \
      if (inner_)                                                     \
        obj_free(heap, inner_);                                       \
      obj_free(heap, whole_.obj);                                     \
    } else if (last_) {                                               \
      RELEASE(whole_);                                                \
    }                                                                 \
    NEXT;                                                             \
  } while (0)
do_UNPACK_TUPLE:
  UNPACK(NULL, AS_ARRAY(whole_)->at, whole_.obj->len);
do_UNPACK_CONS:
  UNPACK(NULL, &AS_CONS(whole_)->head, 2);
do_UNPACK_CON:
  UNPACK(AS_CON(whole_)->arg.obj, AS_ARRAY(AS_CON(whole_)->arg)->at,
         inner_->len);
do_TEST_LOCAL_CONS:
  if (bp[pc->b].tag == V_CONS)
    NEXT;
  JUMP;
do_TEST_LOCAL_NIL:
  if (bp[pc->b].tag == V_NIL)
    NEXT;
  JUMP;
do_TEST_LOCAL_CON:
  if (is_con(bp[pc->b], pc[1].ptr))
    NEXT2;
  JUMP;
do_TEST_CONS:
  sp--;
  if (sp->tag != V_CONS)
    JUMP;
  RELEASE(*sp);
  NEXT;
do_TEST_NIL:
  sp--;
  if (sp->tag == V_NIL)
    NEXT;
  RELEASE(*sp);
  JUMP;
do_TEST_CON : {
  sp--;
  bool same = is_con(*sp, pc[1].ptr);
  RELEASE(*sp);
  if (same)
    NEXT2;
  JUMP;
}
do_TEST_NUM : {
  const NumLiteral *site = pc[1].ptr;
  if (pc->b)
    sp--;
  Value x = sp[-1];
  if (LIKELY(x.tag == DT_I64)) {
    sp--;
    if (x.i == site->by_dtype[DT_I64].i)
      NEXT2;
    JUMP;
  }
  Dtype dtype = value_is_num(x)   ? (Dtype)x.tag
                : x.tag == V_NODE ? x.node->dtype
                                  : DT_I64;
  SAVE;
  Value r = vm_binary(vm, PRIM_EQ, x, value_scalar(site->by_dtype[dtype]));
  LOAD;
  RELEASE(sp[-1]);
  sp--;
  if (r.tag == DT_BOOL) {
    if (r.i)
      NEXT2;
    JUMP;
  }
  CONTINUE_AT(vm_symbolic_branch(vm, r, pc, pc + 2, pc + pc->c));
}
do_TEST_BOOL : {
  Value x = *--sp;
  if (LIKELY(x.tag == DT_BOOL)) {
    if (x.i == pc->a)
      NEXT;
    JUMP;
  }
  if (pc->a)
    CONTINUE_AT(vm_symbolic_branch(vm, x, pc, pc + 1, pc + pc->c));
  CONTINUE_AT(vm_symbolic_branch(vm, x, pc, pc + pc->c, pc + 1));
}
do_TEST_STR : {
  sp--;
  bool same = values_equal(*sp, fp->code->constants[pc->b]);
  RELEASE(*sp);
  if (same)
    NEXT;
  JUMP;
}
do_TEST_SHAPE : {
  sp--;
  uint32_t len = sp->obj->len;
  RELEASE(*sp);
  if (pc->b ? len == pc->a : len >= pc->a)
    NEXT;
  JUMP;
}
do_SHAPE_GET : {
  const ShapeObj *s = AS_SHAPE(sp[-1]);
  int64_t size = s->extents[pc->b ? s->obj.len - 1 - pc->a : pc->a];
  SAVE;
  Value got = vm_value_of_size(vm, size);
  RELEASE(sp[-1]);
  sp[-1] = got;
  NEXT;
}
do_SHAPE_SLICE : {
  SAVE;
  const ShapeObj *s = AS_SHAPE(sp[-1]);
  uint32_t len = s->obj.len - pc->a - pc->b;
  Value rest = value_shape(heap, len, s->extents + pc->a,
                           s->broadcast_mask >> pc->a & ((1ull << len) - 1));
  RELEASE(sp[-1]);
  sp[-1] = rest;
  NEXT;
}

/* ---- sizes, shapes, tensors, loops: see vm_tensor_ops.c ---- */

#define OUT_OF_LINE(NAME, next) \
  do_##NAME : SAVE;             \
  vm_##NAME(vm);                \
  LOAD;                         \
  next
  OUT_OF_LINE(SIZE_OP, NEXT);
  OUT_OF_LINE(SIZE_PRODUCT, NEXT);
  OUT_OF_LINE(BUILD_SHAPE, NEXT2);
  OUT_OF_LINE(CHECK, NEXT2);
  OUT_OF_LINE(CHECK_LOADED, NEXT2);
  OUT_OF_LINE(UNPACK_SIZE, NEXT2);
  OUT_OF_LINE(CHECK_UNPACKED, NEXT2);
  OUT_OF_LINE(TENSOR_LITERAL, NEXT2);
  OUT_OF_LINE(SHAPE_LITERAL, NEXT2);
  OUT_OF_LINE(SUBSCRIPT, NEXT2);
  OUT_OF_LINE(FORCE_INT, NEXT);
  OUT_OF_LINE(FORCE_IF_PENDING, NEXT);
  OUT_OF_LINE(FOR_END, NEXT);
  OUT_OF_LINE(MAP_END, NEXT);
  OUT_OF_LINE(HOST_LOOP_BEGIN, NEXT);
  OUT_OF_LINE(HOST_LOOP_END, NEXT);
  OUT_OF_LINE(TRACED_LOOP_END, NEXT);
  OUT_OF_LINE(LEADING_SIZE, NEXT);
  OUT_OF_LINE(SLICE, NEXT);
  OUT_OF_LINE(STACK_LIST, NEXT);
  OUT_OF_LINE(LIST_REVERSE, NEXT);
  OUT_OF_LINE(PROGRESS, NEXT);
  OUT_OF_LINE(DEFER_BEGIN, NEXT);
  OUT_OF_LINE(DEFER_END, NEXT);
  OUT_OF_LINE(FILTER, NEXT);
  OUT_OF_LINE(VJP_BEGIN, NEXT);
  OUT_OF_LINE(VJP_END, NEXT);
  OUT_OF_LINE(PULLBACK_BEGIN, NEXT);
  OUT_OF_LINE(PULLBACK_CONTRIBUTE, NEXT);
  OUT_OF_LINE(PULLBACK_END, NEXT);
  OUT_OF_LINE(RULE_BEGIN, NEXT);
  OUT_OF_LINE(RULE_END, NEXT);
  OUT_OF_LINE(REPLAY_BEGIN, NEXT);
  OUT_OF_LINE(REPLAY_END, NEXT);
  OUT_OF_LINE(CUSTOM_PULLBACK, NEXT);
  OUT_OF_LINE(CUSTOM_END, NEXT);
  OUT_OF_LINE(PUSH_SCAN, NEXT);
  OUT_OF_LINE(WHILE_SEGMENT, NEXT);
  OUT_OF_LINE(SEGMENT, NEXT);
  OUT_OF_LINE(SEGMENTS_END, NEXT);
  OUT_OF_LINE(SCAN_ADJOINT, NEXT);
  OUT_OF_LINE(SCAN_CONTRIBUTIONS, NEXT);
  OUT_OF_LINE(ADJOINT_STEP_BEGIN, NEXT);
  OUT_OF_LINE(KEPT_VALUES, NEXT);
  OUT_OF_LINE(ADJOINT_STEP_VALUES, NEXT);
  OUT_OF_LINE(ADJOINT_STEP_COTANGENT, NEXT);
  OUT_OF_LINE(ADJOINT_STEP_END, NEXT);
  OUT_OF_LINE(EACH_BEGIN, NEXT);
  OUT_OF_LINE(EACH_END, NEXT);

do_CHECK_KNOWN:
  if (UNLIKELY(sp[-1].tag == V_UNIT)) {
    SAVE;
    vm_fail_unknown_size(vm, pc[1].ptr);
  }
  NEXT2;
do_INC:
  bp[pc->b].i++;
  NEXT;
do_FOR_BEGIN:
  CONTINUE_AT(vm_for_begin(vm, pc->a, false, pc + 1, pc + pc->c));
do_MAP_BEGIN:
  CONTINUE_AT(vm_for_begin(vm, pc->a, true, pc + 1, pc + pc->c));
do_HOST_LOOP_STEP : {
  SAVE;
  bool more = vm_host_loop_step(vm, pc->a, pc->b);
  LOAD;
  if (more)
    NEXT;
  JUMP;
}
do_JUMP_IF_SYMBOLIC:
  if (LIKELY(sp[-1].tag != V_NODE || !sp[-1].node->symbolic))
    NEXT;
  sp--;
  RELEASE(*sp);
  JUMP;
do_TRACED_LOOP_BEGIN:
  CONTINUE_AT(
      vm_traced_loop_begin(vm, (TracedLoopKind)pc->a, pc + 1, pc + pc->c));
do_PULLBACK_STEP:
  CONTINUE_AT(vm_pullback_step(vm, bp[pc->b], pc + 1, pc + pc->c));
do_CUSTOM_RESIDUAL:
do_SCAN_RESIDUAL:
  CONTINUE_AT(vm_rule_residual(vm, bp[0], pc + 1, pc + pc->c));
do_RECORDED_LOOP:
  if (LIKELY(!vm->graph.recording_count))
    JUMP;
  CONTINUE_AT(vm_recorded_loop(vm, (TracedLoopKind)pc->a, pc + 1, pc + pc->c));
do_STATES_FIT:
  CONTINUE_AT(vm_states_fit(vm, pc + 1, pc + pc->c));
do_SEGMENTS_BEGIN:
  CONTINUE_AT(vm_segments_begin(vm, pc + 1, pc + pc->c));
do_JUMP_IF_UNIT:
  if (sp[-1].tag != V_UNIT)
    NEXT;
  sp--;
  JUMP;
do_UNPAIR : {
  Value pair = *--sp;
  *sp++ = value_retain(AS_ARRAY(pair)->at[0]);
  *sp++ = value_retain(AS_ARRAY(pair)->at[1]);
  RELEASE(pair);
  NEXT;
}
do_LIST_NEXT : {
  Value list = bp[pc->b];
  if (list.tag != V_CONS)
    JUMP;
  *sp++ = value_retain(AS_CONS(list)->head);
  bp[pc->b] = value_retain(AS_CONS(list)->tail);
  RELEASE(list);
  NEXT;
}
}
