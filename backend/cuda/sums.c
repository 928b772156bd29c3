/* Reductions as statements: what they accumulate in, how threads put together
 * what they have, and parts of them that another pass puts together. */
#include "backend/cuda/kernel.h"

#define format emit_format

bool cuda_is_where(PrimId op) {
  return op == PRIM_ARGMAX || op == PRIM_ARGMIN;
}

static bool is_far(const Loop *loop) {
  return loop->graph->sizes ||
         loop_points(loop, loop->kept, loop->axes) > INT32_MAX;
}

/* How many elements come before this one. */
static const char *position(Emitter *e, const Loop *loop) {
  Quasi *q = quasi_new(e->arena, 0);
  int64_t stride = 1;
  for (uint32_t v = loop->axes; v-- > loop->kept;) {
    q->times[v] = stride;
    stride = emit_times(e, stride, loop->extents[v]);
  }
  return emit_quasi(e, q);
}

/* ---- parts ---- */

static Dtype part_dtype(const Loop *loop, const Result *r) {
  char class = class_of(loop->steps.at[r->step].dtype);
  return class == 'f'   ? DT_F32
         : class == 'd' ? DT_F64
         : class == 'l' ? DT_I64
         : class == 'b' ? DT_BOOL
                        : DT_I32;
}

CudaPart cuda_take_part(CudaWriter *w, const Loop *loop, const Result *r,
                        int64_t count) {
  CudaPart p = {.dtype = part_dtype(loop, r)};
  p.at = cuda_take_scratch(w, count, p.dtype);
  p.where = cuda_is_where(r->reduce);
  if (p.where)
    p.places = cuda_take_scratch(w, count, DT_I64);
  return p;
}

Step cuda_part_step(const CudaWriter *w, const CudaPart *p, Quasi *address) {
  return (Step){.kind = STEP_READ,
                .dtype = p->dtype,
                .low = INT64_MIN,
                .high = INT64_MAX,
                .input = w->k->inputs.len + (uint32_t)(p - w->given),
                .address = address};
}

void cuda_put_parts(CudaWriter *w) {
  for (uint32_t j = 0; j < w->givens; j++) {
    const char *type = memory_type(w->given[j].dtype);
    buffer_printf(&w->head,
                  "const %s *const p%u = (const %s *)(scratch + %s);\n", type,
                  w->k->inputs.len + j, type, emit_int(&w->e, w->given[j].at));
  }
}

/* That a step reads; NULL: it does not. */
static const CudaPart *part_of(const CudaWriter *w, const Step *s) {
  return s->kind == STEP_READ && s->input >= w->k->inputs.len
             ? &w->given[s->input - w->k->inputs.len]
             : NULL;
}

/* As the pass before has left it beside the value. */
static const char *place_of_part(CudaWriter *w, const Step *s,
                                 const CudaPart *p) {
  Emitter *e = &w->e;
  return format(e, "((const int64_t *)(scratch + %s))[%s]",
                emit_int(e, p->places), emit_quasi(e, s->address));
}

/* ---- sums ---- */

CudaSum cuda_sum_new(CudaWriter *w, const Loop *loop, const Result *r) {
  Emitter *e = &w->e;
  Dtype t = loop->steps.at[r->step].dtype;
  CudaSum s = {.r = r, .name = e->names++, .class = class_of(t)};
  s.type = scalar_type(s.class);
  s.identity = emit_identity(r->reduce, t);
  if (!cuda_is_where(r->reduce))
    return s;
  const Step *of = &loop->steps.at[r->step];
  const CudaPart *part = part_of(w, of);
  s.where = part        ? place_of_part(w, of, part)
            : w->reduce ? "column"
                        : position(e, loop);
  bool narrow = s.class == 'f' || s.class == 'i' || s.class == 'b';
  s.place_type =
      narrow && !part && !w->parts && !is_far(loop) ? "int32_t" : "int64_t";
  return s;
}

void cuda_sum_declare(const CudaSum *s, Buffer *out) {
  if (s->where)
    buffer_printf(out, "ax_place<%s, %s> acc%u = {0, -1};\n", s->type,
                  s->place_type, s->name);
  else
    buffer_printf(out, "%s acc%u = %s;\n", s->type, s->name, s->identity);
}

void cuda_sum_take(CudaWriter *w, const CudaSum *s, Buffer *out) {
  Emitter *e = &w->e;
  const char *x = emit_scalar(e, s->r->step),
             *acc = format(e, "acc%u", s->name);
  if (s->where)
    buffer_printf(out, "%s(&%s, {%s, (%s)(%s)});\n",
                  s->r->reduce == PRIM_ARGMAX ? "ax_most" : "ax_least", acc, x,
                  s->place_type, s->where);
  else
    buffer_printf(out, "%s = %s;\n", acc,
                  emit_combined(e, s->r->reduce, s->class, acc, x));
}

void cuda_sum_join(CudaWriter *w, const CudaSum *s, Buffer *out,
                   const char *fold, const char *room) {
  Emitter *e = &w->e;
  const char *type = s->where
                         ? format(e, "ax_place<%s, %s>", s->type, s->place_type)
                         : s->type;
  buffer_printf(out, "acc%u = %s(acc%u, %s, [](%s x, %s y) {\n", s->name, fold,
                s->name, room, type, type);
  if (s->where)
    buffer_printf(out, "%s(&x, y);\nreturn x;\n});\n",
                  s->r->reduce == PRIM_ARGMAX ? "ax_most" : "ax_least");
  else
    buffer_printf(out, "return (%s)(%s);\n});\n", type,
                  emit_combined(e, s->r->reduce, s->class, "x", "y"));
}

const char *cuda_sum_value(Emitter *e, const CudaSum *s) {
  return format(e, s->where ? "acc%u.at" : "acc%u", s->name);
}

void cuda_sum_leave(CudaWriter *w, const CudaSum *s, const CudaPart *p,
                    const char *at, Buffer *out) {
  Emitter *e = &w->e;
  const char *type = memory_type(p->dtype);
  uint32_t name = e->names++;
  buffer_printf(&w->head, "%s *const parts%u = (%s *)(scratch + %s);\n", type,
                name, type, emit_int(e, p->at));
  cuda_put_at(out, p->dtype, format(e, "parts%u", name), at,
              format(e, s->where ? "acc%u.best" : "acc%u", s->name));
  if (s->where)
    buffer_printf(out, "((int64_t *)(scratch + %s))[%s] = acc%u.at;\n",
                  emit_int(e, p->places), at, s->name);
}
