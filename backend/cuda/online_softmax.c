/* Online softmax of rows that do not fit in registers.  A sum of exponentials
 * runs in the loop that computes the row maximum.  Each block of a thread's
 * elements is summed relative to the maximum so far, while it is in cache; the
 * previous sum is rescaled when the maximum grows.  The row is read once, and
 * once more by loops that use the sum (arXiv:1805.02867). */
#include "backend/cuda/row_kernel.h"
#include "support/arena.h"

#define format emit_format

void online_match(ThreadGroup *t) {
  CudaWriter *w = t->w;
  for (uint32_t j = 1; j < w->k->loops.len; j++) {
    OnlineSum *o = &t->online_sums[j];
    if (!w->s->rows[j].is_online)
      continue;
    cuda_match_online(w->k, w->s->rows, j, &o->pattern);
    for (uint32_t i = 0; i < j; i++)
      if (t->online_sums[i].pattern.matched &&
          t->online_sums[i].pattern.max_loop == o->pattern.max_loop &&
          t->online_sums[i].pattern.max_output == o->pattern.max_output)
        o->max_name = t->online_sums[i].max_name;
    if (!o->max_name)
      o->max_name = w->e.next_id++;
  }
}

static bool uses_max_of(const ThreadGroup *t, uint32_t from, uint32_t at) {
  return t->online_sums[from].pattern.matched &&
         t->online_sums[from].pattern.max_loop == at;
}

void online_declare(const ThreadGroup *t, uint32_t at, Buffer *out) {
  for (uint32_t j = at + 1; j < t->w->k->loops.len; j++)
    if (uses_max_of(t, j, at))
      cuda_accumulator_declare(&t->online_sums[j].running_sum, out);
}

void online_begin(const ThreadGroup *t, uint32_t at, Buffer *out) {
  for (uint32_t j = at + 1; j < t->w->k->loops.len; j++)
    if (uses_max_of(t, j, at))
      buffer_printf(out, "const float before%u = acc%u;\n", j,
                    t->online_sums[j].max_name);
}

void online_end(const ThreadGroup *t, uint32_t at, Buffer *out) {
  for (uint32_t j = at + 1; j < t->w->k->loops.len; j++)
    if (uses_max_of(t, j, at))
      buffer_printf(out, "const float own%u = acc%u;\n", j,
                    t->online_sums[j].max_name);
}

static const char *exp_expr(Emitter *e, const char *x) {
  return format(e, "first_f(exp_f(splat_f(%s)))", x);
}

/* Sums a block for loop `at`, rescales the running sum to the current maximum,
 * and adds both. */
static void put_block_sum(ThreadGroup *t, uint32_t at, Buffer *out) {
  Emitter *e = &t->w->e;
  OnlineSum *o = &t->online_sums[at];
  NestWriter *p = NEW(e->arena, NestWriter);
  Buffer update = {.arena = e->arena};
  LoopNest *terms = exp_sum_terms(t->w->k, at, &o->pattern);
  const char *current_max = exp_sum_finite_max(e, o->max_name);
  row_loop_begin(t, p, terms, at, current_max);
  o->block_sum = o->running_sum = p->accumulators[o->pattern.sum_output];
  o->running_sum.name = e->next_id++;
  cuda_accumulator_update(t->w, &o->block_sum, &update);
  nest_end_ops(p, &update);
  emit_append(out, &p->levels[OUTER_LEVEL]);
  cuda_accumulator_declare(&o->block_sum, out);
  uint32_t run = t->w->s->rows[o->pattern.max_loop].run_loop;
  nest_put(p, p->row->run_loop + 1, nest_run_place(p, run), out);
  const char *rescale =
      exp_expr(e, format(e, "before%u - %s", at, current_max));
  buffer_printf(out,
                "acc%u = (before%u == acc%u ? acc%u : acc%u * %s) + acc%u;\n",
                o->running_sum.name, at, o->max_name, o->running_sum.name,
                o->running_sum.name, rescale, o->block_sum.name);
}

Buffer online_put_blocks(ThreadGroup *t, uint32_t at) {
  Buffer all = {.arena = t->w->e.arena};
  for (uint32_t j = at + 1; j < t->w->k->loops.len; j++)
    if (uses_max_of(t, j, at)) {
      buffer_puts(&all, "{\n");
      put_block_sum(t, j, &all);
      buffer_puts(&all, "}\n");
    }
  return all;
}

void online_put_rescale(ThreadGroup *t, uint32_t at) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  const LoopNest *loop = w->k->loops.at[at];
  const OnlineSum *o = &t->online_sums[at];
  LoopNest *row_loop = loop_clone_empty(e->arena, loop);
  uint32_t *place = NEW_ARRAY(e->arena, uint32_t, loop->ops.len);
  Buffer results = {.arena = e->arena};
  NestWriter *p = NEW(e->arena, NestWriter);
  row_loop->axis_count = row_loop->spatial_axes = row_loop->parallel_axes;
  uint32_t v = loop_clone_op(e->arena, loop, row_loop, place, o->pattern.shift);
  VEC_PUSH(e->arena, row_loop->outputs,
           ((LoopOutput){.value_op = v,
                         .dtype = DT_F32,
                         .local_index = affine_new(e->arena, 0)}));
  row_loop_begin(t, p, row_loop, at, NULL);
  const char *x = emit_scalar(e, v);
  const char *shift = format(e, "own%u - %s", at, x);
  buffer_printf(&results, "acc%u *= %s;\n", o->running_sum.name,
                exp_expr(e, shift));
  p->vectors.loop = loop;
  p->accumulators[o->pattern.sum_output] = o->running_sum;
  thread_group_end_sum(t, p, o->pattern.sum_output, &results);
  emit_append(&t->body, &e->levels.code[OUTER_LEVEL]);
  emit_append(&t->body, &results);
  emit_append(&e->function.head, &e->levels.code[0]);
}
