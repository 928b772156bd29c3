/* Code under construction: instructions, their places, the stack's depth. */
#include "eval/internal.h"

#include <string.h>

enum { SLACK = 8 }; /* room that instructions may use beyond the known depth */

static void one(Emit *e, Instr in) {
  VEC_PUSH(e->vm->arena, e->at, in);
  VEC_PUSH(e->vm->arena, e->spans, e->span);
}

uint32_t emit(Emit *e, Op op, uint32_t a, uint32_t b, int32_t c, int push) {
  if (a > UINT8_MAX || b > UINT16_MAX)
    vm_fail_at(e->vm, e->span, 511, "split it into smaller functions",
               "this function is too large");
  one(e, (Instr){.op = (uint8_t)op, .a = (uint8_t)a, .b = (uint16_t)b, .c = c});
  e->depth = (uint32_t)((int)e->depth + push);
  if (e->depth > e->most)
    e->most = e->depth;
  return e->at.len - 1;
}

uint32_t emit_ptr(Emit *e, Op op, uint32_t a, uint32_t b, int32_t c, int push,
                  const void *ptr) {
  uint32_t at = emit(e, op, a, b, c, push);
  one(e, (Instr){.ptr = ptr});
  return at;
}

void emit_patch(Emit *e, uint32_t at) {
  Op op = (Op)e->at.at[at].op;
  if (op >= OP_JLT_SS && op <= OP_JNE_SK)
    e->at.at[at + 1].c = (int32_t)(e->at.len - at);
  else
    e->at.at[at].c = (int32_t)(e->at.len - at);
}

uint32_t emit_keep(Emit *e, Value v) {
  vm_keep(e->vm, v);
  VEC_PUSH(e->vm->arena, e->consts, v);
  return e->consts.len - 1;
}

void emit_const(Emit *e, Value v) {
  emit(e, OP_CONST, 0, 0, (int32_t)emit_keep(e, v), 1);
}

Code *code_new(Eval *vm, uint32_t arity, const char *name) {
  Code *code = NEW(vm->arena, Code);
  code->arity = arity;
  code->name = name;
  code->number = vm->code_count;
  if (vm->code_count == vm->code_cap) {
    uint32_t cap = vm->code_cap ? vm->code_cap * 2 : 64;
    vm->code_at = mem_realloc(vm->code_at, vm->code_cap * sizeof(Code *),
                              cap * sizeof(Code *));
    vm->code_cap = cap;
  }
  vm->code_at[vm->code_count++] = code;
  return code;
}

void emit_end(Emit *e, Code *code) {
  code->at = e->at.at;
  code->spans = e->spans.at;
  code->count = e->at.len;
  code->depth = e->most + SLACK;
  code->joins = e->joins.at;
  code->join_count = e->joins.len;
  code->consts = e->consts.at;
}
