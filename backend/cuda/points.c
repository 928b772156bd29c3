/* Kernels without rows: a thread has a point, or some that lie next to each
 * other; or squares of points, where operands are read along one axis and
 * results written along another one. */
#include "backend/cuda/kernel.h"

#include <string.h>

#define format emit_format

enum { BANK = 4 /* bytes of shared memory that are accessed at once */ };

/* Elements of a square's row in memory: columns lie in different banks. */
static uint32_t pitch_of(const CudaWriter *w, Dtype t) {
  uint32_t bytes = dtype_info[t].bytes;
  return w->s->side + (bytes < BANK ? BANK / bytes : 1);
}

/* What is written for the loops of a pass, all at the same points. */
typedef struct Points {
  Buffer rows; /* what does not change along the last axis */
  Buffer loads, each, stores;
  uint32_t axis;                   /* the last one */
  const char *first, *full, *left; /* of vectors */
} Points;

static bool is_vector(const CudaWriter *w, const Quasi *at, const Points *p,
                      const Loop *loop) {
  return w->s->vector > 1 && cuda_is_vector(loop, at, p->axis, w->s->vector);
}

/* Reads of vectors go before their elements. */
static void give_loads(CudaWriter *w, Points *p, const Loop *loop,
                       const char **given) {
  Emitter *e = &w->e;
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    if (s->kind != STEP_READ || s->index_count ||
        !is_vector(w, s->address, p, loop))
      continue;
    const char *name = format(e, "r%u", e->names++);
    buffer_printf(&p->loads, "%s %s[%u];\n", memory_type(s->dtype), name,
                  w->s->vector);
    cuda_put_load(w, &p->loads, s, p->axis, name, p->first, p->full, p->left);
    given[j] = cuda_element(e, s->dtype, name, "v");
  }
}

/* What earlier loops of the pass left for this point. */
static void give_locals(CudaWriter *w, const Loop *loop, const char **given) {
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    if (s->kind == STEP_LOCAL &&
        w->locals[s->loop][s->result].place != PLACE_POINT)
      given[j] = format(&w->e, "l%u", w->locals[s->loop][s->result].name);
  }
}

static void put_result(CudaWriter *w, Points *p, const Loop *loop,
                       const Result *r, const CudaLocal *l) {
  Emitter *e = &w->e;
  const char *x = emit_scalar(e, r->step);
  const char *stored = emit_stored(e, r->step, r->dtype);
  if (r->local && l->place == PLACE_POINT)
    cuda_put_at(&p->each, r->dtype, format(e, "l%u", l->name),
                emit_quasi(e, r->local), x);
  else if (r->local)
    buffer_printf(&p->each, "const %s l%u = %s;\n",
                  scalar_type(class_of(r->dtype)), l->name,
                  cuda_kept(e, r->dtype, x));
  if (!r->out)
    return;
  if (!is_vector(w, r->out, p, loop)) {
    if (w->s->vector > 1)
      buffer_printf(&p->each, "if (v < %s)\n", p->left);
    cuda_put_store(w, &p->each, r, stored);
    return;
  }
  const char *name = format(e, "w%u", e->names++);
  buffer_printf(&p->loads, "%s %s[%u];\n", memory_type(r->dtype), name,
                w->s->vector);
  cuda_put_at(&p->each, r->dtype, name, "v", stored);
  cuda_put_vector(w, &p->stores, r, p->axis, name, p->first, p->full, p->left);
}

static void put_loop(CudaWriter *w, Points *p, uint32_t at) {
  Emitter *e = &w->e;
  const Loop *loop = w->k->loops.at[at];
  const char **given = NEW_ARRAY(e->arena, const char *, loop->steps.len);
  emit_begin_loop(e, loop, NO_LANE, w->s->vector > 1, &p->axis);
  give_loads(w, p, loop, given);
  give_locals(w, loop, given);
  e->given = given;
  emit_steps(e);
  e->given = NULL;
  Buffer results = {.arena = e->arena}, before = p->each;
  p->each = results;
  for (uint32_t j = 0; j < loop->results.len && !e->failed; j++)
    put_result(w, p, loop, &loop->results.at[j],
               &w->locals[w->pass->first + at][j]);
  results = p->each;
  p->each = before;
  emit_put(&e->head, &e->blocks[0]);
  emit_put(&p->rows, &e->blocks[ROW_LEVEL]);
  if (w->s->vector > 1)
    emit_put(&p->each, &e->blocks[ROW_LEVEL + 1]);
  else
    emit_put(&p->each, &p->rows);
  if (w->s->vector == 1)
    p->rows.len = 0;
  emit_put(&p->each, &e->checks);
  emit_put(&p->each, &results);
}

static Points new_points(CudaWriter *w) {
  Buffer none = {.arena = w->e.arena};
  return (Points){.rows = none,
                  .loads = none,
                  .each = none,
                  .stores = none,
                  .axis = w->k->outer ? w->k->outer - 1 : NO_LANE,
                  .first = "first",
                  .full = "full && ",
                  .left = "left"};
}

/* Elements `first` .. of the last axis, at a point of the others. */
static int64_t put_place(CudaWriter *w, const Points *p) {
  Emitter *e = &w->e;
  Buffer *out = &w->body;
  const Loop *loop = w->k->loops.at[0];
  const char *type = w->dialect.index;
  uint32_t vector = w->s->vector;
  int64_t groups = emit_over(e, loop->extents[p->axis], vector), all = groups;
  for (uint32_t v = 0; v < p->axis; v++)
    all = emit_times(e, all, loop->extents[v]);
  buffer_printf(out,
                "const int64_t g = (int64_t)blockIdx.x * %u + threadIdx.x;\n"
                "if (g < %s) {\n",
                w->s->threads, emit_int(e, all));
  if (p->axis == 0)
    buffer_printf(out, "const %s x = (%s)g;\n", type, type);
  else
    buffer_printf(out,
                  "const %s y = floor_div((%s)g, %s);\n"
                  "const %s x = (%s)g - y * %s;\n",
                  type, type, emit_divisor(e, groups), type, type,
                  emit_int(e, groups));
  cuda_put_outer(w, out, p->axis, "y");
  if (vector > 1)
    buffer_printf(out,
                  "const %s first = x * %u, left = %s - first;\n"
                  "const bool full = left >= %u;\n",
                  type, vector, emit_int(e, loop->extents[p->axis]), vector);
  else
    buffer_printf(out, "const %s i%u = x;\n", type, p->axis);
  return all;
}

void cuda_put_points(CudaWriter *w) {
  Emitter *e = &w->e;
  Points p = new_points(w);
  Buffer *out = &w->body;
  uint32_t vector = w->s->vector;
  int64_t all = 1;
  if (w->k->outer)
    all = put_place(w, &p);
  else
    buffer_puts(out, "if (blockIdx.x == 0 && threadIdx.x == 0) {\n");
  for (uint32_t j = 0; j < w->k->loops.len && !e->failed; j++)
    put_loop(w, &p, j);
  emit_put(out, &p.rows);
  emit_put(out, &p.loads);
  if (vector > 1)
    buffer_printf(out,
                  "#pragma unroll\nfor (int v = 0; v < %u; v++) {\n"
                  "const %s i%u = first + (v < left ? v : 0);\n",
                  vector, w->dialect.index, p.axis);
  emit_put(out, &p.each);
  buffer_puts(out, vector > 1 ? "}\n" : "");
  emit_put(out, &p.stores);
  buffer_puts(out, "}\n");
  w->pass->blocks = emit_over(e, all, w->s->threads);
}

/* ---- squares ---- */

static bool reads_across(const CudaWriter *w, const Loop *loop, const Step *s,
                         uint32_t axis) {
  uint32_t side = w->s->turned;
  if (s->kind != STEP_READ || s->index_count || s->address->times[side] != 1 ||
      s->address->times[axis] == 0 || s->address->times[axis] == 1)
    return false;
  Quasi rest = *s->address;
  rest.times[side] = rest.times[axis] = 0;
  return !cuda_depends(loop, &rest, side) && !cuda_depends(loop, &rest, axis);
}

/* The operand's square, in the order in which it lies in memory: all that a
 * thread has of it is on its way at once. */
static void put_square(CudaWriter *w, Points *p, const Loop *loop,
                       const Step *s, const char *name, uint32_t at) {
  Emitter *e = &w->e;
  uint32_t side = w->s->turned, rows = w->s->threads / w->s->side;
  uint32_t each = w->s->side / rows;
  Quasi rest = *s->address;
  rest.times[side] = rest.times[p->axis] = 0;
  const char *t = memory_type(s->dtype);
  buffer_printf(&p->loads, "%s *const %s = (%s *)(ax_shared() + %u);\n", t,
                name, t, at);
  buffer_printf(&p->loads,
                "{\n%s parts[%u];\n"
                "#pragma unroll\n"
                "for (int q = 0; q < %u; q++) {\n"
                "const int r = down + q * %u;\n"
                "parts[q] = far0 + r < %s && near1 < %s\n"
                "? p%u[%s + %s * (far0 + r) + near1] : %s(0);\n}\n",
                t, each, each, rows, emit_int(e, loop->extents[p->axis]),
                emit_int(e, loop->extents[side]), s->input,
                emit_quasi(e, &rest), emit_int(e, s->address->times[p->axis]),
                t);
  buffer_printf(&p->loads,
                "#pragma unroll\n"
                "for (int q = 0; q < %u; q++)\n"
                "%s[(down + q * %u) * %u + along] = parts[q];\n}\n",
                each, name, rows, pitch_of(w, s->dtype));
}

static void put_turned_loop(CudaWriter *w, Points *p, uint32_t at,
                            uint32_t *shared) {
  Emitter *e = &w->e;
  const Loop *loop = w->k->loops.at[at];
  const char **given = NEW_ARRAY(e->arena, const char *, loop->steps.len);
  uint32_t order[] = {w->s->turned, p->axis};
  emit_begin_loop(e, loop, NO_LANE, 2, order);
  e->level_of[p->axis] = e->level_of[w->s->turned];
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    if (!reads_across(w, loop, s, p->axis))
      continue;
    const char *name = format(e, "r%u", e->names++);
    put_square(w, p, loop, s, name, *shared);
    *shared += w->s->side * pitch_of(w, s->dtype) * dtype_info[s->dtype].bytes;
    *shared = (*shared + 15) / 16 * 16;
    given[j] = cuda_element(e, s->dtype, name,
                            format(e, "along * %u + r", pitch_of(w, s->dtype)));
  }
  give_locals(w, loop, given);
  e->given = given;
  emit_steps(e);
  e->given = NULL;
  Buffer before = p->each;
  p->each = (Buffer){.arena = e->arena};
  for (uint32_t j = 0; j < loop->results.len && !e->failed; j++)
    put_result(w, p, loop, &loop->results.at[j],
               &w->locals[w->pass->first + at][j]);
  Buffer results = p->each;
  p->each = before;
  emit_put(&e->head, &e->blocks[0]);
  emit_put(&p->rows, &e->blocks[ROW_LEVEL]);
  emit_put(&p->each, &e->blocks[ROW_LEVEL + 1]);
  emit_put(&p->each, &e->checks);
  emit_put(&p->each, &results);
}

void cuda_put_turned(CudaWriter *w) {
  Emitter *e = &w->e;
  Points p = new_points(w);
  Buffer *out = &w->body, outer = {.arena = e->arena};
  const Loop *loop = w->k->loops.at[0];
  uint32_t side = w->s->turned, shared = 0, axes[KERNEL_AXES], count = 0;
  const uint32_t edge = w->s->side;
  int64_t far = emit_over(e, loop->extents[p.axis], edge);
  int64_t near = emit_over(e, loop->extents[side], edge), all;
  all = emit_times(e, far, near);
  for (uint32_t v = 0; v < p.axis; v++)
    if (v != side) {
      all = emit_times(e, all, loop->extents[v]);
      axes[count++] = v;
    }
  const char *type = w->dialect.index;
  buffer_printf(
      &outer,
      "const int along = threadIdx.x %% %u, down = threadIdx.x / %u;\n"
      "const %s y = floor_div((%s)blockIdx.x, %s);\n"
      "const %s far0 = ((%s)blockIdx.x - y * %s) * %u;\n"
      "const %s z = floor_div(y, %s), near0 = (y - z * %s) * %u;\n"
      "const %s near1 = near0 + along;\n",
      edge, edge, type, type, emit_divisor(e, far), type, type,
      emit_int(e, far), edge, type, emit_divisor(e, near), emit_int(e, near),
      edge, type);
  cuda_put_axes(w, &outer, loop, count, axes, "z");
  for (uint32_t j = 0; j < w->k->loops.len && !e->failed; j++)
    put_turned_loop(w, &p, j, &shared);
  emit_put(out, &outer);
  emit_put(out, &p.rows);
  emit_put(out, &p.loads);
  buffer_printf(out,
                "ax_sync();\n"
                "#pragma unroll 4\n"
                "for (int r = down; r < %u; r += %u) {\n"
                "const %s i%u = far0 + along, i%u = near0 + r;\n"
                "if (i%u < %s && i%u < %s) {\n",
                edge, w->s->threads / edge, type, p.axis, side, p.axis,
                emit_int(e, loop->extents[p.axis]), side,
                emit_int(e, loop->extents[side]));
  emit_put(out, &p.each);
  buffer_puts(out, "}\n}\n");
  w->pass->blocks = all;
  w->pass->shared = shared;
}
