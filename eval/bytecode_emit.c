/* Bytecode emitter: appends instructions and their source spans, tracks the
 * depth of the stack, and patches jumps. */
#include "eval/internal.h"
#include "support/arena.h"
#include "support/mem.h"

#include <string.h>

enum {
  STACK_SLACK_VALUES = 8
}; /* stack values that instructions may use beyond the known depth */

static void append_instr(BytecodeEmitter *e, Instr in) {
  VEC_PUSH(e->vm->arena, e->instrs, in);
  VEC_PUSH(e->vm->arena, e->spans, e->span);
}

uint32_t emit(BytecodeEmitter *e, Op op, uint32_t a, uint32_t b, int32_t c,
              int push) {
  if (a > UINT8_MAX || b > UINT16_MAX)
    vm_fail_at(e->vm, e->span, 511, "split it into smaller functions",
               "this function is too large");
  append_instr(
      e, (Instr){.op = (uint8_t)op, .a = (uint8_t)a, .b = (uint16_t)b, .c = c});
  uint32_t depth = e->stack_depth;
  e->stack_depth = (uint32_t)((int)depth + push);
  VEC_PUSH(e->vm->arena, e->starts,
           ((InstrStart){e->instrs.len - 1, depth, e->stack_depth}));
  if (e->stack_depth > e->max_stack_depth)
    e->max_stack_depth = e->stack_depth;
  return e->instrs.len - 1;
}

uint32_t emit_ptr(BytecodeEmitter *e, Op op, uint32_t a, uint32_t b, int32_t c,
                  int push, const void *ptr) {
  uint32_t at = emit(e, op, a, b, c, push);
  append_instr(e, (Instr){.ptr = ptr});
  return at;
}

void emit_patch_jump(BytecodeEmitter *e, uint32_t at) {
  Op op = (Op)e->instrs.at[at].op;
  if (op >= OP_JLT_SS && op <= OP_JNE_SK)
    e->instrs.at[at + 1].c = (int32_t)(e->instrs.len - at);
  else
    e->instrs.at[at].c = (int32_t)(e->instrs.len - at);
  VEC_PUSH(e->vm->arena, e->jumps, ((JumpTarget){at, e->instrs.len}));
}

uint32_t emit_add_constant(BytecodeEmitter *e, Value v) {
  vm_add_constant(e->vm, v);
  VEC_PUSH(e->vm->arena, e->constants, v);
  return e->constants.len - 1;
}

void emit_push_constant(BytecodeEmitter *e, Value v) {
  emit(e, OP_LOAD_CONST, 0, 0, (int32_t)emit_add_constant(e, v), 1);
}

Code *code_new(Eval *vm, uint32_t arity, const char *name) {
  Code *code = NEW(vm->arena, Code);
  code->arity = arity;
  code->name = name;
  code->id = vm->code_count;
  if (vm->code_count == vm->code_cap) {
    uint32_t cap = vm->code_cap ? vm->code_cap * 2 : 64;
    vm->codes = mem_realloc(vm->codes, vm->code_cap * sizeof(Code *),
                            cap * sizeof(Code *));
    vm->code_cap = cap;
  }
  vm->codes[vm->code_count++] = code;
  return code;
}

void emit_finish(BytecodeEmitter *e, Code *code) {
  code->instrs = e->instrs.at;
  code->spans = e->spans.at;
  code->instr_count = e->instrs.len;
  code->stack_depth = e->max_stack_depth + STACK_SLACK_VALUES;
  code->joins = e->joins.at;
  code->join_count = e->joins.len;
  code->constants = e->constants.at;
  for (uint32_t k = 0; k < e->spans.len && !code->is_user; k++)
    code->is_user = !vm_is_library_span(e->vm, e->spans.at[k]);
}
