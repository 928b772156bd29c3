/* Derivatives, as bytecode: vjp, the primitives with rules, loops that are
 * being differentiated, each. */
#include "eval/builtin_code.h"
#include "machine/limits/planner.h"

#define CALL(n, which) \
  emit_call_code(e, (n), derivative_code(e->vm, CODE_##which))

/* ---- vjp ---- */

/* Locals: tape, argument, result, cotangent | pass.  A rule runs between two
 * steps of the pass. */
static void build_pullback(BytecodeEmitter *e) {
  I(PULLBACK_BEGIN, 0, 0);
  uint32_t loop = e->instrs.len, out = I(PULLBACK_STEP, 0, 4);
  I(CALL_VALUE, 2, 0), I(PULLBACK_CONTRIBUTE, 0, 4);
  emit_jump_back(e, loop);
  emit_patch_jump(e, out);
  I(PULLBACK_END, 0, 4), I(RETURN, 0, 0);
  e->max_stack_depth += MAX_RANK;
}

/* The result, and a function from its cotangent to that of x. */
void build_vjp(BytecodeEmitter *e) { /* locals: f x | tape leaves y */
  BytecodeEmitter inner;
  builtin_begin(&inner, e->vm, 1);
  for (int32_t k = 0; k < 3; k++)
    emit(&inner, OP_LOAD_CAPTURE, 0, 0, k, 0);
  emit(&inner, OP_LOAD_LOCAL, 0, 0, 0, 0);
  emit_call_code(&inner, 4, derivative_code(e->vm, CODE_PULLBACK));
  emit(&inner, OP_RETURN, 0, 0, 0, 0);
  Code *pullback = builtin_finish(&inner, 1, "pullback");
  I(VJP_BEGIN, 0, 1);
  LOC(0), LOC(3), I(CALL_VALUE, 1, 0);
  I(VJP_END, 0, 2);
  LOC(4), LOC(2), LOC(3), LOC(4);
  emit_ptr(e, OP_MAKE_CLOSURE, 0, 3, 0, 0, pullback);
  I(MAKE_TUPLE, 0, 2), I(RETURN, 0, 0);
}

/* ---- checkpoint and custom_vjp ---- */

void build_checkpoint(BytecodeEmitter *e) { /* locals: f x */
  I(RULE_BEGIN, RULE_CHECKPOINT, 0), I(CALL_VALUE, 1, 0);
  I(RULE_END, RULE_CHECKPOINT, 0), I(RETURN, 0, 0);
}

void build_custom_vjp(BytecodeEmitter *e) { /* locals: f g x */
  I(RULE_BEGIN, RULE_CUSTOM, 0), I(CALL_VALUE, 1, 0);
  I(RULE_END, RULE_CUSTOM, 0), I(RETURN, 0, 0);
}

/* Runs the function of a checkpoint again, and its reverse pass.  Locals: rule,
 * cotangents | tape leaves f x. */
static void build_replay(BytecodeEmitter *e) {
  I(REPLAY_BEGIN, 0, 0);
  LOC(2), LOC(3), TAKE(4), TAKE(5), I(CALL_VALUE, 1, 0), I(VJP_END, 0, 2);
  TAKE(1), CALL(4, PULLBACK), I(REPLAY_END, 0, 0), I(RETURN, 0, 0);
}

/* Runs the pullback of a custom_vjp.  Locals: rule, cotangents | residual. */
static void build_custom(BytecodeEmitter *e) {
  uint32_t kept = I(CUSTOM_RESIDUAL, 0, 0);
  I(CALL_VALUE, 1, 0), I(TUPLE_GET, 0, 1);
  emit_patch_jump(e, kept);
  I(CUSTOM_PULLBACK, 0, 0), I(CALL_VALUE, 2, 0), I(CUSTOM_END, 0, 0);
  I(RETURN, 0, 0);
}

/* ---- loops ----
 *
 * Every loop is converted to a scan.  If one iteration of it can be traced, all
 * states are kept, and the reverse pass is a scan over them, backwards
 * (loop_rule.c).  Otherwise the loop runs in segments, each one a checkpoint.
 */

void build_recorded_loop(BytecodeEmitter *e, TracedLoopKind kind) {
  uint32_t skip = I(RECORDED_LOOP, kind, 0);
  CALL(3, SCAN);
  if (kind != TRACED_LOOP_SCAN)
    I(TUPLE_GET, 0, 0);
  I(RETURN, 0, 0);
  emit_patch_jump(e, skip);
}

static void build_recorded_scan(BytecodeEmitter *e) { /* locals: f c x | rule */
  LOC(0), LOC(1), LOC(2);
  uint32_t large = I(STATES_FIT, 0, 0);
  for (int k = 0; k < 3; k++)
    I(POP, 0, 0);
  I(RULE_BEGIN, RULE_SCAN, 0), CALL(3, STATES);
  uint32_t untraced = I(JUMP_IF_UNIT, 0, 0);
  I(RULE_END, RULE_SCAN, 0), I(RETURN, 0, 0);
  emit_patch_jump(e, untraced);
  LOC(0), LOC(1), LOC(2);
  emit_patch_jump(e, large);
  CALL(3, SEGMENTS), I(RETURN, 0, 0);
}

static void build_states(BytecodeEmitter *e) { /* locals: f c x */
  uint32_t start = I(TRACED_LOOP_BEGIN, TRACED_LOOP_SCAN, 0);
  I(CALL_VALUE, 2, 0), I(TRACED_LOOP_END, TRACED_LOOP_SCAN, 0);
  I(RETURN, 0, 0);
  emit_patch_jump(e, start);
  emit_push_constant(e, value_unit());
  I(RETURN, 0, 0);
}

static void build_segments(BytecodeEmitter *e) { /* f c x | i n k outputs */
  uint32_t few = I(SEGMENTS_BEGIN, 0, 0);
  uint32_t loop = e->instrs.len, out = EXIT_UNLESS_LESS(3, 4);
  I(SEGMENT, 0, 0);
  emit_call_code(e, 2, higher_order_code(e->vm, PRIM_CHECKPOINT));
  I(UNPAIR, 0, 0), TAKE(6), I(MAKE_CONS, 0, 0), SET(6), SET(1);
  emit_jump_back(e, loop);
  emit_patch_jump(e, out);
  TAKE(1), TAKE(6), I(SEGMENTS_END, 0, 0), I(MAKE_TUPLE, 0, 2);
  I(RETURN, 0, 0);
  emit_patch_jump(e, few);
  TAKE(0), TAKE(1), TAKE(2), CALL(3, HOST_SCAN), I(RETURN, 0, 0);
}

static void build_scan_pair(BytecodeEmitter *e) { /* locals: f (c, x) */
  I(PUSH_SCAN, 0, 0), LOC(0), TAKE(1), I(UNPAIR, 0, 0);
  I(CALL_VALUE, 3, 0), I(RETURN, 0, 0);
}

/* Locals: f, keeps, c, x | c', y, kept values. */
static void build_scan_step(BytecodeEmitter *e) {
  LOC(0), LOC(2), TAKE(3), I(CALL_VALUE, 2, 0), I(UNPAIR, 0, 0);
  I(KEPT_VALUES, 0, 0), TAKE(4), TAKE(2), TAKE(6), I(MAKE_TUPLE, 0, 2);
  TAKE(5), I(MAKE_TUPLE, 0, 2), I(MAKE_TUPLE, 0, 2), I(RETURN, 0, 0);
}

static void build_fold_step(BytecodeEmitter *e) { /* locals: f c x */
  LOC(0), TAKE(1), TAKE(2), I(CALL_VALUE, 2, 0);
  emit_push_constant(e, value_unit());
  I(MAKE_TUPLE, 0, 2), I(RETURN, 0, 0);
}

static void build_repeat_step(BytecodeEmitter *e) { /* locals: f c x */
  LOC(0), TAKE(1), I(CALL_VALUE, 1, 0);
  emit_push_constant(e, value_unit());
  I(MAKE_TUPLE, 0, 2), I(RETURN, 0, 0);
}

/* Locals: rule, cotangents | states. */
static void build_scan_rule(BytecodeEmitter *e) {
  uint32_t kept = I(SCAN_RESIDUAL, 0, 0);
  I(CALL_VALUE, 3, 0), I(TUPLE_GET, 0, 1), I(TUPLE_GET, 0, 0);
  emit_patch_jump(e, kept);
  I(SCAN_ADJOINT, 0, 0), I(CALL_VALUE, 3, 0), I(SCAN_CONTRIBUTIONS, 0, 0);
  I(RETURN, 0, 0);
}

/* Locals: captured, f, id, are elements differentiated, carry, row | tape,
 * leaves, y, values. */
static void build_adjoint_step(BytecodeEmitter *e) {
  I(ADJOINT_STEP_BEGIN, 0, 0), I(CALL_VALUE, 2, 0), I(VJP_END, 0, 6);
  I(ADJOINT_STEP_VALUES, 0, 0);
  LOC(6), LOC(7), TAKE(8), I(ADJOINT_STEP_COTANGENT, 0, 0);
  CALL(4, PULLBACK), I(ADJOINT_STEP_END, 0, 0), I(RETURN, 0, 0);
}

void build_recorded_while(BytecodeEmitter *e) { /* locals: p f x */
  uint32_t skip = I(RECORDED_LOOP, TRACED_LOOP_WHILE, 0);
  LOC(0), LOC(1), TAKE(2), CALL(3, WHILE), I(RETURN, 0, 0);
  emit_patch_jump(e, skip);
}

/* The first segment is no checkpoint: most loops are short. */
static void build_while_segments(BytecodeEmitter *e) { /* locals: p f x */
  LOC(0), LOC(1), TAKE(2), CALL(3, BOUNDED_WHILE), SET(2);
  uint32_t loop = e->instrs.len;
  LOC(0), LOC(2), I(CALL_VALUE, 1, 0);
  uint32_t out = I(JUMP_IF_CONCRETE_FALSE, 0, 0);
  I(WHILE_SEGMENT, 0, 0), TAKE(2);
  emit_call_code(e, 2, higher_order_code(e->vm, PRIM_CHECKPOINT)), SET(2);
  emit_jump_back(e, loop);
  emit_patch_jump(e, out);
  TAKE(2), I(RETURN, 0, 0);
}

static void build_bounded_while(BytecodeEmitter *e) { /* locals: p f x | i */
  I(LOAD_INT, 0, 0);
  uint32_t loop = e->instrs.len;
  LOC(0), LOC(2), I(CALL_VALUE, 1, 0);
  uint32_t out = I(JUMP_IF_CONCRETE_FALSE, 0, 0);
  uint32_t more = emit_ptr(e, OP_JLT_LK, 0, 3, MAX_WHILE_SEGMENT, 0, NULL);
  LOC(1), TAKE(2), I(CALL_VALUE, 1, 0), SET(2);
  I(INC, 0, 3), I(FORCE_IF_PENDING, 0, 2);
  emit_jump_back(e, loop);
  emit_patch_jump(e, out);
  emit_patch_jump(e, more);
  TAKE(2), I(RETURN, 0, 0);
}

/* ---- the table of codes ---- */

static const struct {
  uint32_t arity;
  void (*build)(BytecodeEmitter *e);
  const char *name;
} codes[] = {
    [CODE_PULLBACK] = {4, build_pullback, "pullback"},
    [CODE_REPLAY] = {2, build_replay, "checkpoint"},
    [CODE_CUSTOM] = {2, build_custom, "custom_vjp"},
    [CODE_SCAN_RULE] = {2, build_scan_rule, "scan"},
    [CODE_SCAN] = {3, build_recorded_scan, "scan"},
    [CODE_STATES] = {3, build_states, "scan"},
    [CODE_SEGMENTS] = {3, build_segments, "scan"},
    [CODE_HOST_SCAN] = {3, build_host_scan, "scan"},
    [CODE_SCAN_PAIR] = {2, build_scan_pair, "scan"},
    [CODE_SCAN_STEP] = {4, build_scan_step, "scan"},
    [CODE_FOLD_STEP] = {3, build_fold_step, "fold"},
    [CODE_REPEAT_STEP] = {3, build_repeat_step, "iterate"},
    [CODE_ADJOINT_STEP] = {6, build_adjoint_step, "scan"},
    [CODE_BOUNDED_WHILE] = {3, build_bounded_while, "while"},
    [CODE_WHILE] = {3, build_while_segments, "while"},
};

Code *derivative_code(Eval *vm, DerivativeCode which) {
  if (!vm->derivative_codes[which]) {
    BytecodeEmitter e;
    builtin_begin(&e, vm, codes[which].arity);
    codes[which].build(&e);
    vm->derivative_codes[which] =
        builtin_finish(&e, codes[which].arity, codes[which].name);
  }
  return vm->derivative_codes[which];
}

/* ---- each ---- */

/* Maps f over the elements of each tensor.  Locals: f, then k structures.  Then
 * the tensors, the results, and the current tensors. */
static void build_each(BytecodeEmitter *e, uint32_t k, bool sums) {
  static const PrimId maps[] = {PRIM_MAP1, PRIM_MAP2, PRIM_MAP3};
  Code *map = higher_order_code(e->vm, maps[k - 1]);
  uint32_t rest = k + 1, results = k + 2, current = k + 3;
  I(EACH_BEGIN, k, 0);
  emit_push_constant(e, (Value){.tag = V_NIL});
  emit_push_constant(e, value_unit());
  uint32_t loop = e->instrs.len;
  uint32_t out = I(LIST_NEXT, 0, rest);
  SET(current), LOC(0);
  for (uint32_t i = 0; i < k; i++)
    LOC(current), I(TUPLE_GET, 0, i);
  emit_ptr(e, OP_CALL_CODE, k + 1, 0, 0, 0, map);
  TAKE(results), I(MAKE_CONS, 0, 0), SET(results);
  emit_jump_back(e, loop);
  emit_patch_jump(e, out);
  TAKE(results), I(LIST_REVERSE, 0, 0);
  I(EACH_END, k, sums), I(RETURN, 0, 0);
}

void build_each1(BytecodeEmitter *e) {
  build_each(e, 1, false);
}
void build_each2(BytecodeEmitter *e) {
  build_each(e, 2, false);
}
void build_each3(BytecodeEmitter *e) {
  build_each(e, 3, false);
}
void build_total(BytecodeEmitter *e) {
  build_each(e, 1, true);
}
