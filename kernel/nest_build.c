/* Steps that a chooser applies. */
#include "kernel/nest.h"

static void take_step(NestBuilder *b, const NestStep *s) {
  const char *refusal = nest_apply(b->nest, s);
  b->refusal = b->refusal ? b->refusal : refusal;
}

void nest_build_step(NestBuilder *b, NestStepKind kind, uint32_t axis,
                     uint32_t piece, int64_t number, NestTail tail) {
  NestStep s = {.kind = kind,
                .piece_count = 1,
                .pieces = {{axis, piece}},
                .number = number,
                .tail = tail};
  take_step(b, &s);
}

void nest_build_flag(NestBuilder *b, NestStepKind kind) {
  NestStep s = {.kind = kind};
  take_step(b, &s);
}

/* Returns true if the loops are in this order already. */
static bool is_ordered(const Nest *n, const NestStep *s) {
  for (uint32_t j = 1; j < s->piece_count; j++)
    if (nest_find(n, s->pieces[j - 1].axis, s->pieces[j - 1].piece) >=
        nest_find(n, s->pieces[j].axis, s->pieces[j].piece))
      return false;
  return true;
}

void nest_build_order(NestBuilder *b, const NestStep *s) {
  bool is_needed = s->kind != STEP_ORDER || !is_ordered(b->nest, s);
  if (is_needed)
    take_step(b, s);
}

void nest_build_tasks(NestBuilder *b, const NestStep *order, uint32_t tasks) {
  nest_build_order(b, order);
  for (uint32_t j = 0; j < tasks; j++)
    nest_build_step(b, STEP_TASKS, order->pieces[j].axis,
                    order->pieces[j].piece, 0, TAIL_LESS);
  b->nest->task_steps = b->nest->steps.len;
}
