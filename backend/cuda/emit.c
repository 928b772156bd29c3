/* A kernel as CUDA C++: its passes, and what all kinds of them share. */
#include "backend/cuda/attend.h"
#include "backend/cuda/reduce.h"
#include "backend/cuda/wrappers.h"

#include <math.h>
#include <string.h>

extern const char device_prelude_text[];

#define format emit_format

enum { SHARED_LINE = 16, SCRATCH_LINE = 256 };

/* ---- numbers ---- */

const char *cuda_divisor(Emitter *e, int64_t by) {
  CudaWriter *w = (CudaWriter *)e; /* which begins with it */
  VEC_PUSH(e->arena, w->pass->divisors, by);
  return format(e, "d[%u]", w->pass->divisors.len - 1);
}

const char *cuda_add_map(CudaWriter *w, const CudaMap *map) {
  VEC_PUSH(w->e.arena, w->pass->maps, *map);
  return format(&w->e, "&a.m[%u]", w->pass->maps.len - 1);
}

const char *cuda_address(Emitter *e, const Quasi *q, uint32_t without) {
  Quasi *rest = quasi_copy(e->arena, q);
  if (without < KERNEL_AXES)
    rest->times[without] = 0;
  return emit_quasi(e, rest);
}

void cuda_put_axes(CudaWriter *w, Buffer *out, const Loop *loop, uint32_t count,
                   const uint32_t *axes, const char *number) {
  Emitter *e = &w->e;
  const char *type = w->dialect.index, *rest = number;
  for (uint32_t k = count; k-- > 1;) {
    uint32_t name = e->names++, v = axes[k];
    buffer_printf(out,
                  "const %s u%u = floor_div(%s, %s);\n"
                  "const %s i%u = %s - u%u * %s;\n",
                  type, name, rest, emit_divisor(e, loop->extents[v]), type, v,
                  rest, name, emit_int(e, loop->extents[v]));
    rest = format(e, "u%u", name);
  }
  if (count)
    buffer_printf(out, "const %s i%u = %s;\n", type, axes[0], rest);
}

void cuda_put_outer(CudaWriter *w, Buffer *out, uint32_t count,
                    const char *number) {
  uint32_t axes[KERNEL_AXES];
  for (uint32_t v = 0; v < count; v++)
    axes[v] = v;
  cuda_put_axes(w, out, w->k->loops.at[0], count, axes, number);
}

/* ---- values ---- */

const char *cuda_kept(Emitter *e, Dtype t, const char *x) {
  switch (t) {
  case DT_F16:
  case DT_BF16:
    return format(e, "round_%s(%s)", dtype_info[t].name, x);
  case DT_BOOL:
    return format(e, "(%s) != 0", x);
  case DT_U8:
  case DT_I8:
  case DT_I32:
  case DT_I64:
  case DT_F32:
  case DT_F64:
    return format(e, "(%s)(%s)", memory_type(t), x);
  case DT_NONE:
  case DT_COUNT:
    break;
  }
  return x;
}

uint32_t cuda_out_number(const CudaWriter *w, const Result *r) {
  uint32_t j = 0;
  while (j < w->out->outs.len && w->out->outs.at[j]->node != r->node)
    j++;
  return j;
}

/* `*(p + at) = x` in a type */
void cuda_put_at(Buffer *out, Dtype t, const char *p, const char *at,
                 const char *x) {
  if (t == DT_F16 || t == DT_BF16)
    buffer_printf(out, "put_%s(%s + %s, %s);\n", dtype_info[t].name, p, at, x);
  else
    buffer_printf(out, "%s[%s] = (%s)(%s);\n", p, at, memory_type(t), x);
}

void cuda_put_store(CudaWriter *w, Buffer *out, const Result *r,
                    const char *x) {
  Emitter *e = &w->e;
  cuda_put_at(out, r->dtype, format(e, "o%u", cuda_out_number(w, r)),
              emit_quasi(e, r->out), x);
}

/* ---- steps ---- */

void cuda_put_steps(CudaWriter *w, Buffer *out, const Loop *loop,
                    const char **given) {
  Emitter *e = &w->e;
  emit_begin_loop(e, loop, NO_LANE, 0, NULL);
  e->given = given;
  emit_steps(e);
  e->given = NULL;
  emit_put(&e->head, &e->blocks[0]);
  emit_put(out, &e->blocks[ROW_LEVEL]);
  emit_put(out, &e->checks);
}

/* ---- local values ---- */

static int64_t lines(CudaWriter *w, int64_t bytes, int64_t line) {
  return emit_times(&w->e, emit_over(&w->e, bytes, line), line);
}

int64_t cuda_take_bytes(CudaWriter *w, int64_t bytes) {
  int64_t at = w->out->scratch_next;
  w->out->scratch = emit_plus(&w->e, at, bytes);
  w->out->scratch_next = emit_plus(&w->e, at, lines(w, bytes, SCRATCH_LINE));
  return at;
}

int64_t cuda_take_scratch(CudaWriter *w, int64_t count, Dtype t) {
  return cuda_take_bytes(w, emit_times(&w->e, count, dtype_info[t].bytes));
}

/* Number of the pass's j-th loop in the whole kernel. */
static uint32_t loop_number(const CudaPass *p, uint32_t j) {
  return p->first + j;
}

static const char *note_of(const CudaWriter *w, const CudaPass *p, uint32_t j,
                           const char *const *notes) {
  return notes[w->reduce ? w->reduce->number[j] : loop_number(p, j)];
}

/* A value that other passes read lies at its point's place, as `local` says. */
static void put_point_local(CudaWriter *w, const CudaLocal *l, Dtype t) {
  Emitter *e = &w->e;
  buffer_printf(&w->head, "%s *const l%u = (%s *)(scratch + %s);\n",
                memory_type(t), l->name, memory_type(t), emit_int(e, l->at));
}

/* ---- a pass ---- */

static void put_pointers(CudaWriter *w, Buffer *out, const Kernel *whole) {
  uint32_t outs = w->out->outs.len, ins = whole->inputs.len;
  for (uint32_t j = 0; j < outs; j++) {
    const char *t = memory_type(w->out->outs.at[j]->dtype);
    buffer_printf(out, "%s *__restrict__ const o%u = (%s *)a.p[%u];\n", t, j, t,
                  j);
  }
  for (uint32_t j = 0; j < ins; j++) {
    const char *t = memory_type(whole->inputs.at[j]->dtype);
    buffer_printf(out,
                  "const %s *__restrict__ const p%u = (const %s *)a.p[%u];\n",
                  t, j, t, outs + j);
  }
  buffer_printf(out, "char *const scratch = (char *)a.p[%u];\n", outs + ins);
}

static void put_names(const CudaWriter *w, Buffer *out) {
  const CudaPass *p = w->pass;
  if (p->emitted.call.ints.len)
    buffer_printf(out, "const %s *const n = a.n;\n", w->dialect.index);
  if (p->divisors.len)
    buffer_printf(out, "const %s *const d = a.d;\n",
                  w->out->narrow ? "ax_divisor" : "ax_wide_divisor");
  if (p->emitted.call.floats.len)
    buffer_puts(out, "const ax_number *const c = a.c;\n");
}

static void put_struct(const CudaWriter *w, Buffer *out, const Kernel *whole) {
  const CudaPass *p = w->pass;
  buffer_printf(out, "struct %s_args {\nvoid *p[%u];\n", p->name,
                w->out->outs.len + whole->inputs.len + 2);
  if (p->emitted.call.ints.len)
    buffer_printf(out, "%s n[%u];\n", w->dialect.index,
                  p->emitted.call.ints.len);
  if (p->divisors.len)
    buffer_printf(out, "%s d[%u];\n",
                  w->out->narrow ? "ax_divisor" : "ax_wide_divisor",
                  p->divisors.len);
  if (p->emitted.call.floats.len)
    buffer_printf(out, "ax_number c[%u];\n", p->emitted.call.floats.len);
  if (p->maps.len)
    buffer_printf(out, "ax_tensor_map m[%u];\n", p->maps.len);
  buffer_puts(out, "};\n");
}

/* The last one is that of all that follow. */
uint32_t cuda_check_bit(uint32_t number) {
  return 1u << (number < CHECK_BITS ? number : CHECK_BITS);
}

static void put_checks(CudaWriter *w, Buffer *head, Buffer *end,
                       const Kernel *whole) {
  uint32_t count = w->pass->emitted.call.checks.len;
  if (!count)
    return;
  for (uint32_t j = 0; j < count; j++) {
    buffer_printf(head, "vi bad%u = 0;\n", j);
    buffer_printf(end, "if (bad%u)\natomicOr((int32_t *)a.p[%u], %u);\n", j,
                  w->out->outs.len + whole->inputs.len + 1,
                  cuda_check_bit(w->out->checks + j));
  }
  w->out->checks += count;
}

/* Registers are as many as one block may have: so warps can give each other
 * some of theirs, which ptxas does not do where it may choose.  Others are
 * better left to it: it spills some that it gives as many as there are. */
static bool is_alone(const CudaSchedule *s) {
  return (s->shape == CUDA_ATTEND && s->attend->s.way == GEMM_WGMMA) ||
         (s->shape == CUDA_TILE && s->tile->s.way == GEMM_WGMMA);
}

static const char *parameter_of(CudaWriter *w) {
  return emit_format(&w->e,
                     cuda_is_far(w->out, w->pass)
                         ? "const %s_args *__restrict__ const far"
                         : "const __grid_constant__ %s_args a",
                     w->pass->name);
}

/* Blocks of a cluster are those of consecutive numbers. */
static const char *cluster_of(CudaWriter *w) {
  uint32_t blocks = w->s->tile ? gemm_cluster(&w->s->tile->s) : 1;
  return blocks > 1 ? emit_format(&w->e, " __cluster_dims__(%u)", blocks) : "";
}

/* The text of a pass, around its body. */
static void put_pass(CudaWriter *w, const Kernel *whole) {
  Buffer *out = &w->out->text;
  Buffer end = {.arena = w->e.arena}, head = end, schedule = end;
  put_checks(w, &head, &end, whole);
  cuda_schedule_put(&schedule, w->s);
  put_struct(w, out, whole);
  buffer_printf(
      out,
      "/* %s */\nextern \"C\" __global__ void __launch_bounds__(%u%s)%s\n"
      "%s(%s) {\n%s",
      schedule.text, w->s->threads, is_alone(w->s) ? ", 1" : " AX_BLOCKS",
      cluster_of(w), w->pass->name, parameter_of(w),
      cuda_is_far(w->out, w->pass) ? "const auto &a = *far;\n" : "");
  put_pointers(w, out, whole);
  put_names(w, out);
  emit_put(out, &head);
  emit_put(out, &w->head);
  emit_put(out, &w->e.head);
  emit_put(out, &w->body);
  emit_put(out, &end);
  buffer_puts(out, "}\n");
}

/* ---- loops apart: each a pass, what is between them in scratch memory ---- */

/* The place among all points' values. */
static void spread(CudaWriter *w, const Loop *loop, uint32_t outer, Quasi *q,
                   int64_t size) {
  for (uint32_t v = outer; v-- > 0;) {
    q->times[v] = emit_plus(&w->e, q->times[v], size);
    size = emit_times(&w->e, size, loop->extents[v]);
  }
}

static void add_apart(CudaWriter *w, Kernel *k, uint32_t at, CudaPass *p) {
  const Loop *from = k->loops.at[at];
  Loop *loop = loop_copy(k->arena, from);
  Kernel *one = NEW(k->arena, Kernel);
  *one = *k;
  one->loops = (typeof(one->loops)){0};
  VEC_PUSH(k->arena, one->loops, loop);
  for (uint32_t i = 0; i < loop->steps.len; i++) {
    Step *s = &loop->steps.at[i];
    if (s->kind == STEP_LOCAL)
      spread(w, loop, k->outer, s->address,
             k->loops.at[s->loop]->results.at[s->result].local_size);
  }
  for (uint32_t i = 0; i < loop->results.len; i++) {
    Result *r = &loop->results.at[i];
    if (r->local)
      spread(w, loop, k->outer, r->local, r->local_size);
  }
  one->outer = loop->outer = loop->kept;
  p->k = one;
  p->first = at;
}

/* ---- sums of chunks ---- */

/* What adds them up, as a kernel. */
static Kernel *fold_kernel(CudaWriter *w, const Kernel *k, int64_t parts) {
  const Loop *loop = k->loops.at[0];
  Kernel *fold = NEW(k->arena, Kernel);
  Loop *over = NEW(k->arena, Loop);
  *fold = *k;
  fold->loops = (typeof(fold->loops)){0};
  *over = (Loop){.graph = loop->graph,
                 .outer = loop->outer,
                 .kept = loop->kept,
                 .axes = loop->kept + 1};
  memcpy(over->extents, loop->extents, loop->kept * sizeof *loop->extents);
  over->extents[loop->kept] = parts;
  Step read = cuda_part_step(w, w->given, quasi_new(k->arena, 0));
  read.span = loop->steps.at[loop->results.at[0].step].span;
  spread(w, loop, loop->kept, read.address, 1);
  read.address->times[loop->kept] = w->points;
  Result r = loop->results.at[0];
  r.step = 0;
  r.out = quasi_copy(k->arena, r.out);
  r.local = quasi_copy(k->arena, r.local);
  VEC_PUSH(k->arena, over->steps, read);
  VEC_PUSH(k->arena, over->results, r);
  VEC_PUSH(k->arena, fold->loops, over);
  return fold;
}

/* ---- the whole ---- */

static CudaPass *new_pass(CudaKernel *out, Arena *arena,
                          const CudaTarget *target) {
  CudaPass *p = NEW(arena, CudaPass);
  snprintf(p->name, sizeof p->name, "%s_%u",
           target->prefix ? target->prefix : "axon", out->passes.len);
  p->emitted.text.arena = arena;
  VEC_PUSH(arena, out->passes, p);
  return p;
}

static void begin_pass(CudaWriter *w, CudaPass *p) {
  Arena *arena = w->e.arena;
  w->pass = p;
  w->s = &p->s;
  w->k = p->k;
  w->e.k = p->k;
  w->e.out = &p->emitted;
  w->e.head = w->body = w->head = (Buffer){.arena = arena};
  w->points = 1;
  for (uint32_t v = 0; v < p->k->outer; v++)
    w->points = emit_times(&w->e, w->points, p->k->loops.at[0]->extents[v]);
  p->shared = 0;
}

static void put_notes(CudaWriter *w, const CudaPass *p,
                      const char *const *notes) {
  for (uint32_t j = 0; notes && j < p->k->loops.len; j++)
    buffer_printf(&w->out->text, "/* %s */\n", note_of(w, p, j, notes));
}

static void put_body(CudaWriter *w) {
  switch (w->s->shape) {
  case CUDA_POINTS:
    cuda_put_points(w);
    break;
  case CUDA_TURNED:
    cuda_put_turned(w);
    break;
  case CUDA_TEAM:
    cuda_put_team(w);
    break;
  case CUDA_TILE:
    cuda_put_tile(w, &w->out->text);
    break;
  case CUDA_ATTEND:
    cuda_put_attend(w, &w->out->text);
    break;
  case CUDA_ROUTINE:
  case CUDA_SHAPES:
    break;
  }
}

/* Pointers to what was left by passes before, and is left for later ones. */
static void put_point_locals(CudaWriter *w, const Kernel *whole,
                             const CudaPass *p) {
  bool used[KERNEL_LOOPS][RESULTS_MOST] = {{false}};
  for (uint32_t j = 0; j < p->k->loops.len; j++) {
    const Loop *loop = p->k->loops.at[j];
    for (uint32_t i = 0; i < loop->steps.len; i++)
      if (loop->steps.at[i].kind == STEP_LOCAL)
        used[loop->steps.at[i].loop][loop->steps.at[i].result] = true;
    for (uint32_t i = 0; i < loop->results.len; i++)
      used[loop_number(p, j)][i] |= loop->results.at[i].local != NULL;
  }
  for (uint32_t j = 0; j < whole->loops.len; j++)
    for (uint32_t i = 0; i < whole->loops.at[j]->results.len; i++)
      if (used[j][i] && w->locals[j][i].place == PLACE_POINT)
        put_point_local(w, &w->locals[j][i],
                        whole->loops.at[j]->results.at[i].dtype);
}

static void emit_pass(CudaWriter *w, CudaPass *p, const Kernel *whole,
                      const char *const *notes) {
  begin_pass(w, p);
  put_notes(w, p, notes);
  put_point_locals(w, whole, p);
  cuda_put_parts(w);
  put_body(w);
  if (!w->e.failed)
    put_pass(w, whole);
}

/* Its one sum in parts, and then what adds these up. */
static void emit_chunks(CudaWriter *w, CudaPass *p, const Kernel *whole,
                        const char *const *notes) {
  const Loop *loop = p->k->loops.at[0];
  int64_t row = 1;
  for (uint32_t v = loop->kept; v < loop->axes; v++)
    row = emit_times(&w->e, row, loop->extents[v]);
  begin_pass(w, p);
  w->parts = size_max(p->k->graph, emit_over(&w->e, row, p->s.chunk), 1);
  int64_t values = emit_times(&w->e, w->parts, w->points), parts = w->parts;
  w->left = cuda_take_part(w, loop, &loop->results.at[0], values);
  emit_pass(w, p, whole, notes);
  w->parts = 0;
  w->given = &w->left;
  w->givens = 1;
  CudaPass *fold = new_pass(w->out, whole->arena, w->target);
  fold->k = fold_kernel(w, p->k, parts);
  fold->first = p->first;
  cuda_schedule(fold, w->target, true);
  emit_pass(w, fold, whole, NULL);
  w->given = NULL;
  w->givens = 0;
}

static void plan_pass(CudaWriter *w, CudaPass *p, const Kernel *whole,
                      const char *const *notes) {
  CudaTile *tile = cuda_tile_find(p->k, w->target);
  if (tile)
    p->s = (CudaSchedule){
        .shape = CUDA_TILE, .threads = gemm_threads(&tile->s), .tile = tile};
  else
    cuda_schedule(p, w->target, false);
  if (p->s.chunk)
    emit_chunks(w, p, whole, notes);
  else
    emit_pass(w, p, whole, notes);
}

/* apart: passes leave it for later ones. */
static void find_locals(CudaWriter *w, const Kernel *k, uint32_t j,
                        bool apart) {
  const Loop *loop = k->loops.at[j];
  int64_t points = 1;
  for (uint32_t v = 0; v < k->outer; v++)
    points = emit_times(&w->e, points, loop->extents[v]);
  w->locals[j] = NEW_ARRAY(k->arena, CudaLocal, loop->results.len);
  w->e.locals[j] = NEW_ARRAY(k->arena, Local, loop->results.len);
  for (uint32_t i = 0; i < loop->results.len; i++) {
    const Result *r = &loop->results.at[i];
    CudaLocal *l = &w->locals[j][i];
    l->name = w->e.locals[j][i].name = w->e.names++;
    w->e.locals[j][i].sum = r->reduce == PRIM_SUM;
    if (!r->local || !apart)
      continue;
    l->place = PLACE_POINT;
    l->at = cuda_take_scratch(w, emit_times(&w->e, points, r->local_size),
                              r->dtype);
  }
}

/* What goes on between two products, as one pass; before it, another one that
 * looks for what may not be left out. */
static void plan_attend(CudaWriter *w, Kernel *k, CudaAttend *t,
                        const char *const *notes) {
  if (t->finite) {
    CudaPass *look = new_pass(w->out, k->arena, w->target);
    Kernel *whole = NEW(k->arena, Kernel);
    *whole = *k;
    whole->loops = (typeof(whole->loops)){0};
    for (uint32_t j = 0; j < k->loops.len; j++)
      VEC_PUSH(k->arena, whole->loops, k->loops.at[j]);
    VEC_PUSH(k->arena, whole->loops, t->finite);
    find_locals(w, whole, k->loops.len, true);
    add_apart(w, whole, k->loops.len, look);
    plan_pass(w, look, whole, NULL);
  }
  CudaPass *p = new_pass(w->out, k->arena, w->target);
  p->k = k;
  p->s = (CudaSchedule){
      .shape = CUDA_ATTEND, .threads = gemm_threads(&t->s), .attend = t};
  emit_pass(w, p, k, notes);
}

/* A product, and what its rows come to. */
static void plan_reduce(CudaWriter *w, Kernel *k, CudaReduce *t,
                        const char *const *notes) {
  CudaPass *p = new_pass(w->out, k->arena, w->target);
  p->k = t->front;
  p->s = (CudaSchedule){.shape = CUDA_TILE,
                        .threads = gemm_threads(&t->tile->s),
                        .tile = t->tile};
  begin_pass(w, p);
  w->reduce = t;
  cuda_reduce_begin(w);
  emit_pass(w, p, k, notes);
  w->reduce = NULL;
  w->given = t->parts;
  w->givens = t->count;
  CudaPass *rest = new_pass(w->out, k->arena, w->target);
  rest->k = cuda_reduce_rest(w, t, k);
  rest->first = t->behind;
  cuda_schedule(rest, w->target, true);
  emit_pass(w, rest, k, notes);
  w->given = NULL;
  w->givens = 0;
}

/* Sizes that are held in 32 bits, and all sums of them on the way. */
static bool quasi_is_narrow(const Loop *loop, const Quasi *q) {
  double most = fabs((double)q->constant);
  for (uint32_t v = 0; v < loop->axes; v++)
    most += fabs((double)q->times[v]) * (double)loop->extents[v];
  for (uint32_t j = 0; j < loop->quotient_count; j++)
    most += fabs((double)q->times[KERNEL_AXES + j]) *
            fmax(fabs((double)loop->quotients[j].low),
                 fabs((double)loop->quotients[j].high) + 1);
  return most < INT32_MAX;
}

static bool loop_is_narrow(const Loop *loop) {
  bool narrow = true;
  for (uint32_t j = 0; j < loop->quotient_count; j++)
    narrow &= quasi_is_narrow(loop, &loop->quotients[j].of) &&
              loop->quotients[j].by < INT32_MAX;
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    if (s->kind == STEP_INDEX)
      narrow &= quasi_is_narrow(loop, s->index);
    if (s->kind == STEP_LOCAL || s->kind == STEP_READ)
      narrow &= quasi_is_narrow(loop, s->address);
    if (s->kind == STEP_READ)
      narrow &= node_count(s->node) < INT32_MAX;
  }
  for (uint32_t j = 0; j < loop->results.len; j++) {
    const Result *r = &loop->results.at[j];
    narrow &= (!r->out || quasi_is_narrow(loop, r->out)) &&
              (!r->local || quasi_is_narrow(loop, r->local));
  }
  return narrow;
}

static bool kernel_is_narrow(const Kernel *k) {
  bool narrow = !k->graph->sizes;
  double points = 1;
  for (uint32_t j = 0; narrow && j < k->loops.len; j++) {
    narrow = loop_is_narrow(k->loops.at[j]) &&
             loop_points(k->loops.at[j], 0, k->loops.at[j]->axes) < INT32_MAX;
    points = loop_points(k->loops.at[j], 0, k->outer);
    for (uint32_t i = 0; i < k->loops.at[j]->results.len; i++)
      narrow &=
          points * (double)k->loops.at[j]->results.at[i].local_size < INT32_MAX;
  }
  return narrow;
}

/* Of what goes on between two products a block has some rows and terms, and no
 * number of all of them. */
static bool attend_is_narrow(const Kernel *k, const CudaAttend *t) {
  bool narrow = !k->graph->sizes && loop_is_narrow(t->score) &&
                loop_is_narrow(t->factors);
  for (uint32_t j = 0; j < ATTEND_SIDES; j++)
    narrow &= loop_is_narrow(t->side[j]);
  for (uint32_t j = t->between.last; j < k->loops.len; j++)
    narrow &= loop_is_narrow(k->loops.at[j]);
  if (t->finite)
    narrow &= loop_is_narrow(t->finite) &&
              loop_points(t->finite, 0, t->finite->axes) < INT32_MAX;
  return narrow && loop_points(k->loops.at[0], 0, k->outer) < INT32_MAX;
}

static bool ints_are_narrow(const CudaKernel *out) {
  for (uint32_t j = 0; j < out->passes.len; j++) {
    const CudaPass *p = out->passes.at[j];
    if (p->emitted.call.keys.len)
      return false;
    for (uint32_t i = 0; i < p->emitted.call.ints.len; i++) {
      int64_t x = p->emitted.call.ints.at[i];
      if (x < -INT32_MAX || x > INT32_MAX)
        return false;
    }
  }
  return true;
}

/* What a kernel is, as one; all NULL: passes of its loops. */
typedef struct Found {
  CudaAttend *attend;
  CudaReduce *reduce;
} Found;

static bool emit_with(Kernel *k, const CudaTarget *target, const Found *found,
                      bool narrow, const char *const *notes, CudaKernel *out) {
  static const Schedule one_lane = {.width = 1, .shape = UNIT_POINT};
  CudaWriter *w = NEW(k->arena, CudaWriter);
  *out = (CudaKernel){.text = {.arena = k->arena}, .narrow = narrow};
  w->dialect = (Dialect){.index = narrow ? "int32_t" : "int64_t",
                         .narrow = narrow,
                         .divisor = cuda_divisor};
  w->out = out;
  w->target = target;
  w->e = (Emitter){.arena = k->arena, .k = k, .s = &one_lane, .number = ""};
  w->e.dialect = &w->dialect;
  Emitted unused = {0};
  w->e.out = &unused;
  for (uint32_t j = 0; j < k->loops.len; j++)
    for (uint32_t i = 0; i < k->loops.at[j]->results.len; i++)
      if (k->loops.at[j]->results.at[i].out)
        VEC_PUSH(k->arena, out->outs, &k->loops.at[j]->results.at[i]);
  out->pointers = out->outs.len + k->inputs.len + 2;
  bool whole = found->attend || found->reduce;
  bool apart = !whole && (cuda_is_apart(k, target) ||
                          (!cuda_tile_find(k, target) && cuda_tile_apart(k)));
  for (uint32_t j = 0; j < k->loops.len; j++)
    find_locals(w, k, j, apart);
  if (found->attend)
    plan_attend(w, k, found->attend, notes);
  else if (found->reduce)
    plan_reduce(w, k, found->reduce, notes);
  for (uint32_t j = 0; j < (whole ? 0 : apart ? k->loops.len : 1); j++) {
    CudaPass *p = new_pass(out, k->arena, target);
    p->k = k;
    if (apart)
      add_apart(w, k, j, p);
    plan_pass(w, p, k, notes);
  }
  for (uint32_t j = 0; j < out->passes.len; j++)
    w->e.failed |=
        cuda_is_far(out, out->passes.at[j]) && out->passes.at[j]->maps.len;
  Buffer indented = {.arena = k->arena};
  code_indent(out->text.text, &indented);
  out->text = indented;
  return !w->e.failed;
}

static bool is_emittable(const Kernel *k) {
  bool fits = k->loops.len <= KERNEL_LOOPS && !k->guard;
  for (uint32_t j = 0; fits && j < k->loops.len; j++)
    fits = k->loops.at[j]->results.len <= RESULTS_MOST;
  return fits;
}

bool cuda_keeps_no_rows(const Kernel *k, const CudaTarget *target) {
  return cuda_attend_find(k, target) || cuda_reduce_find(k, target);
}

bool cuda_emit(Kernel *k, const CudaTarget *target, const char *const *notes,
               CudaKernel *out) {
  if (!is_emittable(k))
    return false;
  Found found = {.attend = cuda_attend_find(k, target)};
  if (!found.attend)
    found.reduce = cuda_reduce_find(k, target);
  bool narrow =
      found.attend ? attend_is_narrow(k, found.attend) : kernel_is_narrow(k);
  if (!emit_with(k, target, &found, narrow, notes, out))
    return false;
  return !narrow || ints_are_narrow(out) ||
         emit_with(k, target, &found, false, notes, out);
}

bool cuda_whole_text(const Buffer *text, Buffer *out) {
  Arena *volatile arena = NULL;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    arena_free(arena);
    return false;
  }
  arena = arena_new();
  Buffer kernel = {.arena = arena};
  sections_write_both(&kernel, arena, device_prelude_text, text->text,
                      text->len);
  buffer_add(&kernel, text->text, text->len);
  bool good = wrappers_write(out, kernel.text);
  trap_end(&trap);
  arena_free(arena);
  return good;
}
