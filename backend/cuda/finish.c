/* What is done with the sums of a product by the loops that follow it, each
 * element for itself. */
#include "backend/cuda/reduce.h"
#include "tensor/cost.h"

#include <string.h>

#define format emit_format

/* Results that gemmstore.c stores: floats, at an address of the axes alone. */
static bool is_plain(const Result *r) {
  return r->out && dtype_is_float(r->dtype) && cuda_is_affine(r->out) &&
         !r->out->constant;
}

/* Its number among these; UINT32_MAX: it is none of them. */
static uint32_t plain_number(const Kernel *k, const Result *which) {
  uint32_t count = 0;
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->results.len; i++) {
      const Result *r = &k->loops.at[j]->results.at[i];
      if (!is_plain(r) || count == GEMM_RESULTS)
        continue;
      if (r == which)
        return count;
      count++;
    }
  return UINT32_MAX;
}

static void put_result(CudaWriter *w, Buffer *out, const Result *r,
                       const CudaLocal *l, const char *x, const char *stored,
                       const char *const to[GEMM_RESULTS]) {
  Emitter *e = &w->e;
  uint32_t number = plain_number(w->k, r);
  if (r->local && l->place == PLACE_POINT)
    cuda_put_at(out, r->dtype, format(e, "l%u", l->name),
                emit_quasi(e, r->local), x);
  else if (r->local)
    buffer_printf(out, "const %s l%u = %s;\n%s",
                  scalar_type(class_of(r->dtype)), l->name,
                  cuda_kept(e, r->dtype, x),
                  w->reduce ? format(e, "(void)l%u;\n", l->name) : "");
  if (!to)
    return;
  if (number != UINT32_MAX)
    buffer_printf(out, "%s = %s;\n", to[number], stored);
  else if (r->out)
    cuda_put_store(w, out, r, stored);
}

/* Of a product whose rows come to numbers. */
static bool is_reduced(const CudaWriter *w, const Result *r) {
  return w->reduce && r->reduce != PRIM_NONE;
}

void cuda_put_loop(CudaWriter *w, Buffer *out, uint32_t at, const char *x,
                   const char *const to[GEMM_RESULTS],
                   const char *(*given_of)(CudaWriter *w, const Step *s)) {
  Emitter *e = &w->e;
  Loop *loop = NEW(e->arena, Loop); /* the emitter counts its steps later */
  *loop = *w->k->loops.at[at];
  const char **given = NEW_ARRAY(e->arena, const char *, loop->steps.len);
  Buffer results = {.arena = e->arena};
  for (uint32_t i = 0; i < loop->steps.len; i++) {
    const Step *s = &loop->steps.at[i];
    if (s->kind != STEP_LOCAL)
      continue;
    given[i] = given_of ? given_of(w, s) : NULL;
    if (!given[i] && w->locals[s->loop][s->result].place != PLACE_POINT)
      given[i] = format(e, "l%u", w->locals[s->loop][s->result].name);
  }
  if (x)
    memset(&loop->steps, 0, sizeof loop->steps);
  emit_begin_loop(e, loop, NO_LANE, 0, NULL);
  e->given = given;
  emit_steps(e);
  e->given = NULL;
  for (uint32_t i = 0; i < loop->results.len && !e->failed; i++) {
    const Result *r = &w->k->loops.at[at]->results.at[i];
    if (at && is_reduced(w, r)) {
      buffer_puts(&results, "if (there) {\n");
      cuda_sum_take(w, &w->reduce->sums[at][i], &results);
      buffer_puts(&results, "}\n");
      continue;
    }
    if (!r->out && !r->local)
      continue;
    put_result(w, &results, r, &w->locals[w->pass->first + at][i],
               x ? x : emit_scalar(e, r->step),
               x ? x : emit_stored(e, r->step, r->dtype), to);
  }
  emit_put(&e->head, &e->blocks[0]);
  emit_put(out, &e->blocks[ROW_LEVEL]);
  emit_put(out, &e->checks);
  emit_put(out, &results);
}

void cuda_put_loops(CudaWriter *w, Buffer *out, uint32_t first, const char *x,
                    const char *const to[GEMM_RESULTS],
                    const char *(*given)(CudaWriter *w, const Step *s)) {
  uint32_t last = w->reduce ? w->reduce->first : w->k->loops.len;
  for (uint32_t j = first; j < last; j++)
    cuda_put_loop(w, out, j, j == first ? x : NULL, to, given);
}

/* ---- results that TMA stores ---- */

void cuda_finish_shape(const Kernel *k, CudaTile *t) {
  GemmShape *s = &t->shape;
  CudaMap map;
  s->boxes = t->maps;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    for (uint32_t i = 0; i < loop->results.len; i++) {
      const Result *r = &loop->results.at[i];
      if (!r->out)
        continue;
      uint32_t bytes = dtype_info[r->dtype].bytes;
      s->results++;
      s->widest = bytes > s->widest ? bytes : s->widest;
      s->boxes &=
          plain_number(k, r) != UINT32_MAX && cuda_result_map(t, loop, r, &map);
    }
    for (uint32_t i = 0; j && i < loop->steps.len; i++) {
      const Step *step = &loop->steps.at[i];
      s->finish += step->kind == STEP_OP     ? prim_cost(step->op)
                   : step->kind == STEP_READ ? 2
                                             : 0.5;
    }
  }
  s->boxes &= s->results > 0;
}

bool cuda_touches_nothing(const Step *s) {
  switch (s->kind) {
  case STEP_CONST:
  case STEP_INDEX:
  case STEP_LOCAL:
  case STEP_SELECT:
  case STEP_CONVERT:
    return true;
  case STEP_OP: /* whole numbers may be divided by nothing */
    return dtype_is_float(s->dtype) || s->dtype == DT_BOOL;
  case STEP_READ:
  case STEP_RANDOM:
  case STEP_PAIR:
    break;
  }
  return false;
}

bool cuda_is_anywhere(const CudaWriter *w) {
  const Kernel *k = w->k;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    for (uint32_t i = 0; j && i < loop->steps.len; i++)
      if (!cuda_touches_nothing(&loop->steps.at[i]))
        return false;
    for (uint32_t i = 0; i < loop->results.len; i++) {
      const Result *r = &loop->results.at[i];
      if (j && is_reduced(w, r))
        continue;
      if ((r->local && w->locals[w->pass->first + j][i].place == PLACE_POINT) ||
          (r->out && plain_number(k, r) == UINT32_MAX))
        return false;
    }
  }
  return true;
}

static const char *result_map(CudaWriter *w, const Loop *loop,
                              const Result *r) {
  const CudaTile *t = w->s->tile;
  CudaMap map;
  if (!t || t->s.store != STORE_ENGINE || !cuda_result_map(t, loop, r, &map))
    return NULL;
  map.pointer = cuda_out_number(w, r);
  cuda_result_box(t, &map);
  return cuda_add_map(w, &map);
}

uint32_t cuda_give_results(CudaWriter *w, const CudaAxes axes[3],
                           GemmResult to[GEMM_RESULTS]) {
  Emitter *e = &w->e;
  const Kernel *k = w->k;
  uint32_t count = 0;
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->results.len; i++) {
      const Result *r = &k->loops.at[j]->results.at[i];
      uint32_t at = 0;
      if (plain_number(k, r) == UINT32_MAX)
        continue;
      GemmResult *each = &to[count++];
      each->pointer = format(e, "o%u", cuda_out_number(w, r));
      each->dtype = r->dtype;
      each->map = result_map(w, k->loops.at[j], r);
      for (uint32_t x = 0; x < 3; x++)
        for (uint32_t v = 0; v < axes[x].count; v++) {
          int64_t times = r->out->times[axes[x].axes[v]];
          each->strides[at++] = times == 1 ? "1"
                                : times    ? emit_int(e, times)
                                           : NULL;
        }
    }
  return count;
}
