/* Bytecode that is cached with a plan: compiling the body of a small node
 * takes longer than running it.  Each run has other operands and constants. */
#include "backend/reference/reference.h"
#include "plan/fusion_group.h"
#include "support/arena.h"
#include "tensor/node.h"

#include <string.h>

/* Longer bytecode takes long to run, too. */
enum { MAX_CACHED_INSTRUCTIONS = 128 };

typedef struct CachedBytecode {
  Bytecode code;               /* its registers are copied before each run */
  uint32_t *loads, load_count; /* instructions that load from operands */
} CachedBytecode;

static bool is_load(const Instruction *i) {
  return i->op >= OP_LOAD_BOOL && i->op <= OP_LOAD_F64;
}

/* True if all memory that the code reads belongs to operands. */
static bool can_cache(const Bytecode *p, const Node *n) {
  bool can = p->count <= MAX_CACHED_INSTRUCTIONS && !n->guard;
  for (uint32_t k = 0; k < p->count && can; k++)
    can = p->code[k].op != OP_UNIFORM && p->code[k].op != OP_NORMAL &&
          (!is_load(&p->code[k]) ||
           p->body_ops[p->body_op_of[k]].kind == BODY_READ);
  return can;
}

static void *copy_array(Arena *arena, const void *from, size_t bytes) {
  return bytes ? memcpy(arena_alloc(arena, bytes), from, bytes) : NULL;
}

void bytecode_cache(const FusionGroup *group, uint32_t k, const Bytecode *p) {
  PlannedBody body;
  if (!can_cache(p, group->nodes.at[k]) ||
      !fusion_group_planned_body(group, k, &body) || *body.cached)
    return;
  Arena *arena = body.arena;
  CachedBytecode *cached = NEW(arena, CachedBytecode);
  cached->code = *p;
  cached->code.body_ops = body.ops;
  cached->code.code = copy_array(arena, p->code, p->count * sizeof *p->code);
  cached->code.body_op_of =
      copy_array(arena, p->body_op_of, p->count * sizeof *p->body_op_of);
  cached->code.regs =
      copy_array(arena, p->regs, p->reg_count * sizeof *p->regs);
  cached->code.constants =
      copy_array(arena, p->constants, p->constant_count * sizeof *p->constants);
  cached->loads = NEW_ARRAY(arena, uint32_t, p->count);
  for (uint32_t i = 0; i < p->count; i++)
    if (is_load(&p->code[i]))
      cached->loads[cached->load_count++] = i;
  *body.cached = cached;
}

bool bytecode_run_cached(const Graph *g, Arena *arena, const FusionGroup *group,
                         uint32_t k, void *out) {
  PlannedBody body;
  if (!fusion_group_planned_body(group, k, &body) || !*body.cached)
    return false;
  CachedBytecode *cached = *body.cached;
  Bytecode run = cached->code;
  run.regs = copy_array(arena, run.regs, run.reg_count * sizeof *run.regs);
  for (uint32_t i = 0; i < run.constant_count; i++)
    run.regs[run.constants[i].reg] = reg_from_scalar(
        fusion_group_constant(group, &body.ops[run.constants[i].body_op]));
  for (uint32_t i = 0; i < cached->load_count; i++) {
    uint32_t at = cached->loads[i];
    const Node *x = fusion_group_operand(group, &body.ops[run.body_op_of[at]]);
    if (!x->data)
      return false;
    run.code[at].base = x->data->data;
  }
  Span where = {0};
  Fault ignored_fault = {0};
  return bytecode_run(g, group->nodes.at[k], &run, out, &where, &ignored_fault);
}
