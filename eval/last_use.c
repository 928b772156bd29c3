/* Last uses of locals: a value is released when it is no longer needed, not
 * when its function returns.  A kernel can then reuse the memory of a tensor
 * (in-place results), as for the parameters of a training step.
 *
 * A load becomes OP_LAST_LOCAL if no path from it reads the local again.  The
 * code of programs has only forward jumps, so one backward pass finds the live
 * locals.  The main entry point is emit_last_uses. */
#include "eval/internal.h"
#include "support/arena.h"

#include <string.h>

typedef struct LiveLocals {
  uint64_t *bits;
  uint32_t words;
} LiveLocals;

static void set_live(LiveLocals *live, uint32_t slot) {
  if (slot / 64 < live->words)
    live->bits[slot / 64] |= UINT64_C(1) << slot % 64;
}

static void set_dead(LiveLocals *live, uint32_t slot) {
  if (slot / 64 < live->words)
    live->bits[slot / 64] &= ~(UINT64_C(1) << slot % 64);
}

static bool is_live(const LiveLocals *live, uint32_t slot) {
  return slot / 64 >= live->words || live->bits[slot / 64] >> slot % 64 & 1;
}

static bool reads_two_locals(Op op) {
  return op == OP_ADD_LL || op == OP_SUB_LL || op == OP_MUL_LL ||
         op == OP_JLT_LL || op == OP_JLE_LL || op == OP_JGT_LL ||
         op == OP_JGE_LL || op == OP_JEQ_LL || op == OP_JNE_LL;
}

static bool unpacks_local(Op op) {
  return op == OP_UNPACK_TUPLE || op == OP_UNPACK_CONS || op == OP_UNPACK_CON;
}

static bool reads_one_local(Op op) {
  return op == OP_LOAD_LOCAL || unpacks_local(op) || op == OP_TEST_LOCAL_CONS ||
         op == OP_TEST_LOCAL_NIL || op == OP_TEST_LOCAL_CON ||
         op == OP_MAKE_SIBLING || op == OP_JUMP_IF_PRESENT ||
         op == OP_JUMP_IF_KNOWN || op == OP_CHECK_UNPACKED ||
         op == OP_FAIL_NO_MATCH || op == OP_ADD_LK || op == OP_SUB_LK ||
         op == OP_MUL_LK || op == OP_JLT_LK || op == OP_JLE_LK ||
         op == OP_JGT_LK || op == OP_JGE_LK || op == OP_JEQ_LK ||
         op == OP_JNE_LK;
}

/* True if the next instruction never runs after this one. */
static bool never_continues(Op op) {
  return op == OP_JUMP || op == OP_RETURN || op == OP_TAIL_CALL_VALUE ||
         op == OP_TAIL_CALL_GLOBAL || op == OP_TAIL_CALL_SIBLING ||
         op == OP_TAIL_CALL_CODE || op == OP_FAIL_NO_MATCH || op == OP_BUG;
}

static void visit_instr(Instr *in, const InstrStart *start, LiveLocals *live) {
  Op op = (Op)in->op;
  for (uint32_t slot = start->depth; slot < start->depth_after; slot++)
    set_dead(live, slot); /* it pushes a new value */
  if (op == OP_STORE_LOCAL)
    set_dead(live, in->b);
  if (op == OP_LOAD_LOCAL && !is_live(live, in->b))
    in->op = OP_LAST_LOCAL;
  if (unpacks_local(op))
    in->a = !is_live(live, in->b);
  if (reads_one_local(op) || reads_two_locals(op))
    set_live(live, in->b);
  if (reads_two_locals(op))
    set_live(live, (uint32_t)in->c);
}

/* Makes one instruction of the loads of neighbouring locals.  No jump may lead
 * to a load that is skipped. */
static void join_loads(BytecodeEmitter *e, uint64_t *const *live_at) {
  for (uint32_t k = 0; k < e->starts.len; k++) {
    Instr *first = &e->instrs.at[e->starts.at[k].at];
    uint32_t n = 1;
    if (first->op != OP_LAST_LOCAL)
      continue;
    while (k + n < e->starts.len && n < UINT8_MAX &&
           !live_at[first - e->instrs.at + n] && first[n].op == OP_LAST_LOCAL &&
           first[n].b == first->b + n)
      n++;
    if (n == 1)
      continue;
    first->op = OP_LAST_LOCALS;
    first->a = (uint8_t)n;
    k += n - 1;
  }
}

void emit_last_uses(BytecodeEmitter *e) {
  Arena *arena = e->vm->arena;
  uint32_t words = (e->max_stack_depth + 63) / 64;
  /* By instruction: the target of its jump, and the live locals if it is a
     target. */
  uint32_t *target = NEW_ARRAY(arena, uint32_t, e->instrs.len + 1);
  uint64_t **live_at = NEW_ARRAY(arena, uint64_t *, e->instrs.len + 1);
  for (uint32_t k = 0; k < e->jumps.len; k++) {
    target[e->jumps.at[k].from] = e->jumps.at[k].to;
    live_at[e->jumps.at[k].to] = NEW_ARRAY(arena, uint64_t, words);
  }
  LiveLocals live = {NEW_ARRAY(arena, uint64_t, words), words};
  for (uint32_t k = e->starts.len; k-- > 0;) {
    const InstrStart *start = &e->starts.at[k];
    Instr *in = &e->instrs.at[start->at];
    if (never_continues((Op)in->op))
      memset(live.bits, 0, words * sizeof *live.bits);
    for (uint32_t i = 0; target[start->at] && i < words; i++)
      live.bits[i] |= live_at[target[start->at]][i];
    visit_instr(in, start, &live);
    if (live_at[start->at])
      memcpy(live_at[start->at], live.bits, words * sizeof *live.bits);
  }
  join_loads(e, live_at);
}
