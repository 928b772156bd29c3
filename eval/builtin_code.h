/* Builtins as bytecode: a small assembler for the files that write them. */
#ifndef AXON_EVAL_BUILTIN_CODE_H
#define AXON_EVAL_BUILTIN_CODE_H

#include "eval/internal.h"

void builtin_begin(BytecodeEmitter *e, Eval *vm, uint32_t arity);
Code *builtin_finish(BytecodeEmitter *e, uint32_t arity, const char *name);
void emit_jump_back(BytecodeEmitter *e, uint32_t to);
/* Calls code with the top n values. */
void emit_call_code(BytecodeEmitter *e, uint32_t n, const Code *code);

/* They emit to `e`. */
#define I(op, a, b) emit(e, OP_##op, (a), (b), 0, 0)
#define LOC(k) I(LOAD_LOCAL, 0, k)
#define TAKE(k) I(MOVE_LOCAL, 0, k)
#define SET(k) I(STORE_LOCAL, 0, k)
/* Leaves the loop unless local i < local n. */
#define EXIT_UNLESS_LESS(i, n) emit_ptr(e, OP_JLT_LL, 0, (i), (n), 0, NULL)

/* ---- derivative_prims.c ---- */

void build_vjp(BytecodeEmitter *e);
void build_checkpoint(BytecodeEmitter *e);
void build_custom_vjp(BytecodeEmitter *e);
void build_each1(BytecodeEmitter *e);
void build_each2(BytecodeEmitter *e);
void build_each3(BytecodeEmitter *e);
void build_total(BytecodeEmitter *e);
/* The start of a loop: a loop of many iterations that is being differentiated
 * runs as a scan with a rule. */
void build_recorded_loop(BytecodeEmitter *e, TracedLoopKind kind);
/* The same for `while`.  Locals: p f x. */
void build_recorded_while(BytecodeEmitter *e);

/* ---- higher_order_prims.c ---- */

/* scan, one iteration after the other.  Locals: f c x. */
void build_host_scan(BytecodeEmitter *e);

#endif
