/* The interpreter's stack of values, its frames and its temporaries. */
#include "eval/internal.h"
#include "support/mem.h"

const Instr ret_instr[1] = {{{.op = OP_RETURN, .a = 0}}};
const Instr then_instr[1] = {{{.op = OP_THEN_DONE, .a = 0}}};
const Instr else_instr[1] = {{{.op = OP_ELSE_DONE, .a = 0}}};

/* ---- temporaries ---- */

static void push(Eval *vm, Value **at, size_t *count, size_t *cap, Value v) {
  if (*count == *cap) {
    Trap trap;
    size_t more = *cap ? *cap * 2 : 64;
    if (TRAP_SET(trap) == FAIL_NONE) {
      *at = mem_realloc(*at, *cap * sizeof(Value), more * sizeof(Value));
      trap_end(&trap);
    } else {
      value_release(&vm->heap, v);
      trap_raise(trap.kind);
    }
    *cap = more;
  }
  (*at)[(*count)++] = v;
}

void vm_push_temp(Eval *vm, Value v) {
  push(vm, &vm->temps, &vm->temp_count, &vm->temp_cap, v);
}

void vm_add_constant(Eval *vm, Value v) {
  push(vm, &vm->constants, &vm->constant_count, &vm->constant_cap, v);
}

void vm_drop_temps(Eval *vm, size_t mark) {
  while (vm->temp_count > mark)
    value_release(&vm->heap, vm->temps[--vm->temp_count]);
}

static Value new_array(Eval *vm, ValueTag tag, uint32_t len) {
  ValueArray *t = obj_new(&vm->heap, tag, sizeof *t + len * sizeof(Value), len);
  for (uint32_t i = 0; i < len; i++)
    t->at[i] = value_unit();
  Value v = value_obj(tag, t);
  vm_push_temp(vm, v);
  return v;
}

Value vm_new_tuple(Eval *vm, uint32_t len) {
  return new_array(vm, V_TUPLE, len);
}

Value vm_new_keys(Eval *vm, int64_t len) {
  if (len > UINT32_MAX)
    vm_fail(vm, 511, "%lld keys: too many", (long long)len);
  return new_array(vm, V_KEYS, (uint32_t)len);
}

Value vm_new_record(Eval *vm, const RecordLayout *layout) {
  Record *r = obj_new(&vm->heap, V_RECORD,
                      sizeof *r + layout->len * sizeof(Value), layout->len);
  r->layout = layout;
  for (uint32_t i = 0; i < layout->len; i++)
    r->at[i] = value_unit();
  Value v = value_obj(V_RECORD, r);
  vm_push_temp(vm, v);
  return v;
}

void *vm_scratch(Eval *vm, size_t size) {
  String *s = obj_new(&vm->heap, V_STRING, sizeof *s + size + 16, 0);
  vm_push_temp(vm, value_obj(V_STRING, s));
  return (void *)(((uintptr_t)s->text + 15) & ~(uintptr_t)15);
}

/* ---- the stack ---- */

void vm_unwind(Eval *vm, size_t frame, size_t height, size_t temps) {
  vm_drop_temps(vm, temps);
  while (vm->sp > vm->stack + height) {
    vm->sp--;
    value_release(&vm->heap, *vm->sp);
  }
  for (; vm->fp > vm->frames + frame; vm->fp--)
    if (vm->fp->env)
      value_release(&vm->heap, value_obj(V_ENV, vm->fp->env));
  while (vm->lazy_init_count &&
         vm->lazy_inits[vm->lazy_init_count - 1].frame > frame)
    vm->lazy_inits[--vm->lazy_init_count].lazy->state = GLOBAL_LAZY;
}

void vm_grow_frames(Eval *vm, Obj *env) {
  size_t used = (size_t)(vm->fp - vm->frames);
  size_t cap = (size_t)(vm->frames_end - vm->frames);
  size_t new_cap = cap * 2 < MAX_FRAMES ? cap * 2 : MAX_FRAMES;
  if (env)
    vm_push_temp(vm, value_obj(V_ENV, env));
  if (new_cap == cap)
    vm_fail_at(vm, vm_span_of_instr(vm->fp->code, vm->pc), 502,
               "this is the limit: use a loop (`iterate`, `while`, `fold`) or "
               "a call in tail position",
               "recursion too deep: %zu active calls", used + 1);
  vm->frames =
      mem_realloc(vm->frames, cap * sizeof(Frame), new_cap * sizeof(Frame));
  vm->frames_end = vm->frames + new_cap;
  vm->fp = vm->frames + used;
  if (env)
    vm->temp_count--;
}

void vm_grow_stack(Eval *vm, size_t need) {
  size_t used = (size_t)(vm->sp - vm->stack);
  size_t cap = (size_t)(vm->stack_end - vm->stack), new_cap = cap;
  while (new_cap < used + need)
    new_cap *= 2;
  if (new_cap == cap)
    return;
  if (new_cap > MAX_STACK_VALUES)
    new_cap = MAX_STACK_VALUES;
  if (new_cap < used + need)
    vm_fail_at(vm, vm_span_of_instr(vm->fp->code, vm->pc), 502,
               "this is the limit: use a loop (`iterate`, `while`, `fold`) or "
               "a call in tail position",
               "recursion too deep: active calls use %zu MiB",
               used * sizeof(Value) >> 20);
  vm->stack =
      mem_realloc(vm->stack, cap * sizeof(Value), new_cap * sizeof(Value));
  vm->stack_end = vm->stack + new_cap;
  vm->sp = vm->stack + used;
}
