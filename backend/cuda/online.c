/* Sums of exponents relative to the largest of a row that go on while that is
 * found, of rows that are not held: each portion of a thread's share is summed
 * relative to the largest so far, while caches have it, and what there is from
 * the portions before is scaled when that grows.  So a row is gone through
 * once, and once more by what needs its sum (arXiv:1805.02867). */
#include "backend/cuda/team.h"

#define format emit_format

static bool has_sums_alone(const Loop *loop) {
  for (uint32_t j = 0; j < loop->results.len; j++)
    if (team_wants(&loop->results.at[j]) &&
        loop->results.at[j].reduce == PRIM_NONE)
      return false;
  return team_kind(loop) == LOOP_SUMS;
}

static bool find_largest(const CudaWriter *w, uint32_t at, CudaNear *near) {
  const Kernel *k = w->k;
  for (uint32_t j = 0; j < at; j++) {
    const Loop *loop = k->loops.at[j];
    for (uint32_t i = 0; has_sums_alone(loop) && i < loop->results.len; i++)
      if (team_rows_match(w, loop, k->loops.at[at]) &&
          cuda_is_largest(k, at, near, j, i)) {
        near->loop = j;
        near->result = i;
        return true;
      }
  }
  return false;
}

void online_find(Team *t) {
  CudaWriter *w = t->w;
  if (w->s->held || w->s->across || w->parts || w->givens)
    return;
  for (uint32_t j = 1; j < w->k->loops.len; j++) {
    Online *o = &t->online[j];
    o->near.is = has_sums_alone(w->k->loops.at[j]) &&
                 cuda_near(w->k, j, &o->near) && find_largest(w, j, &o->near);
    for (uint32_t i = 0; o->near.is && i < j; i++)
      if (t->online[i].near.is && t->online[i].near.loop == o->near.loop &&
          t->online[i].near.result == o->near.result)
        o->largest = t->online[i].largest;
    if (o->near.is && !o->largest)
      o->largest = w->e.names++;
    w->s->online |= o->near.is;
  }
}

static bool is_next(const Team *t, uint32_t from, uint32_t at) {
  return t->online[from].near.is && t->online[from].near.loop == at;
}

void online_declare(const Team *t, uint32_t at, Buffer *out) {
  for (uint32_t j = at + 1; j < t->w->k->loops.len; j++)
    if (is_next(t, j, at))
      cuda_sum_declare(&t->online[j].all, out);
}

void online_begin(const Team *t, uint32_t at, Buffer *out) {
  for (uint32_t j = at + 1; j < t->w->k->loops.len; j++)
    if (is_next(t, j, at))
      buffer_printf(out, "const float before%u = acc%u;\n", j,
                    t->online[j].largest);
}

void online_end(const Team *t, uint32_t at, Buffer *out) {
  for (uint32_t j = at + 1; j < t->w->k->loops.len; j++)
    if (is_next(t, j, at))
      buffer_printf(out, "const float own%u = acc%u;\n", j,
                    t->online[j].largest);
}

static const char *exp_text(Emitter *e, const char *x) {
  return format(e, "first_f(exp_f(splat_f(%s)))", x);
}

/* The portion's part of the sum of loop `at`; then it is added to what is there
 * so far, which becomes one relative to the largest now. */
static void put_part(Team *t, uint32_t at, Buffer *out) {
  Emitter *e = &t->w->e;
  Online *o = &t->online[at];
  Nest n;
  Buffer takes = {.arena = e->arena};
  Loop *terms = cuda_near_terms(t->w->k, at, &o->near);
  const char *now = cuda_near_largest(e, o->largest);
  team_begin_loop(t, &n, terms, at, now);
  o->part = o->all = n.sums[o->near.sum];
  o->all.name = e->names++;
  cuda_sum_take(t->w, &o->part, &takes);
  emit_put(out, &e->blocks[ROW_LEVEL]);
  cuda_sum_declare(&o->part, out);
  team_put_walk(t, &n, out, &takes, "run", "stop");
  const char *by = exp_text(e, format(e, "before%u - %s", at, now));
  buffer_printf(
      out, "acc%u = (before%u == acc%u ? acc%u : acc%u * %s) + acc%u;\n",
      o->all.name, at, o->largest, o->all.name, o->all.name, by, o->part.name);
}

Buffer online_parts(Team *t, uint32_t at) {
  Buffer all = {.arena = t->w->e.arena};
  for (uint32_t j = at + 1; j < t->w->k->loops.len; j++)
    if (is_next(t, j, at)) {
      buffer_puts(&all, "{\n");
      put_part(t, j, &all);
      buffer_puts(&all, "}\n");
    }
  return all;
}

void online_put_scaled(Team *t, uint32_t at) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  const Loop *loop = w->k->loops.at[at];
  const Online *o = &t->online[at];
  Loop *of_row = loop_like(e->arena, loop);
  uint32_t *place = NEW_ARRAY(e->arena, uint32_t, loop->steps.len);
  Buffer results = {.arena = e->arena};
  Nest n;
  of_row->axes = of_row->kept = of_row->outer;
  uint32_t v = loop_take_step(e->arena, loop, of_row, place, o->near.v);
  VEC_PUSH(
      e->arena, of_row->results,
      ((Result){.step = v, .dtype = DT_F32, .local = quasi_new(e->arena, 0)}));
  team_begin_loop(t, &n, of_row, at, NULL);
  const char *x = emit_scalar(e, v);
  const char *of = format(e, "own%u - %s", at, x);
  buffer_printf(&results, "acc%u *= %s;\n", o->all.name, exp_text(e, of));
  n.loop = loop;
  n.sums[o->near.sum] = o->all;
  team_put_fold(t, &o->all, &results);
  team_put_one(t, &n, o->near.sum, cuda_sum_value(e, &o->all), &results);
  emit_put(&t->body, &e->blocks[ROW_LEVEL]);
  emit_put(&t->body, &results);
  emit_put(&e->head, &e->blocks[0]);
}
