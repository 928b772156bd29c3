/* Kernels with rows: a team of threads has a point of the outer axes, and goes
 * through the kernel's loops there, one after the other.
 *
 * Of what is kept of a row, or of the terms of a sum, each thread has its
 * share, and sums are put together afterwards (ax_fold).  Where both are, what
 * is kept is shared out and each thread has sums of its own.  Long sums of
 * floats go on in a second number after RUN terms, so that they are as good as
 * sums of short ones. */
#include "backend/cuda/team.h"

#include <string.h>

#define format emit_format

enum { RUN = 128, UNROLL = 4, UNROLL_ONES = 8, FOLD_BYTES = 16, WARP = 32 };
enum { LONG = 64 /* steps of a loop, of which one turn is work enough */ };
enum { CROWD = 1024 /* threads of a block */ };
enum { MANY = 4 /* vectors that are read in a turn: two turns of a crowd */ };
enum { PORTION = 4 /* vectors of a thread, which are read again soon */ };

static bool is_sum(const Result *r) {
  return team_wants(r) && r->reduce != PRIM_NONE;
}

static const CudaLocal *local_of(const CudaWriter *w, uint32_t loop,
                                 uint32_t result) {
  return &w->locals[loop][result];
}

/* ---- where local values lie ---- */

bool team_rows_match(const CudaWriter *w, const Loop *x, const Loop *y) {
  uint32_t a[KERNEL_AXES], b[KERNEL_AXES];
  LoopKind kx = team_kind(x), ky = team_kind(y);
  if ((kx != LOOP_KEPT && kx != LOOP_SUMS) ||
      (ky != LOOP_KEPT && ky != LOOP_SUMS) || x->axes != y->axes ||
      memcmp(x->extents, y->extents, x->axes * sizeof *x->extents) != 0)
    return false;
  uint32_t count = cuda_shared_axes(x, w->s, a);
  return cuda_shared_axes(y, w->s, b) == count &&
         memcmp(a, b, count * sizeof *a) == 0;
}

/* Does every loop read the row's values just where they were made? */
static bool may_be_held(const CudaWriter *w, uint32_t at, uint32_t result) {
  const Loop *from = w->k->loops.at[at];
  const Result *r = &from->results.at[result];
  if (!w->s->held || team_kind(from) == LOOP_BOTH)
    return false;
  for (uint32_t j = 0; j < w->k->loops.len; j++) {
    const Loop *loop = w->k->loops.at[j];
    for (uint32_t i = 0; i < loop->steps.len; i++) {
      const Step *s = &loop->steps.at[i];
      if (s->kind == STEP_LOCAL && s->loop == w->pass->first + at &&
          s->result == result &&
          (!team_rows_match(w, from, loop) ||
           !quasi_equal(s->address, r->local)))
        return false;
    }
  }
  return true;
}

enum { SHARED_ALIGN = 16 };

static void place_local(Team *t, uint32_t at, uint32_t result) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  const Loop *loop = w->k->loops.at[at];
  const Result *r = &loop->results.at[result];
  CudaLocal *l = &w->locals[w->pass->first + at][result];
  LoopKind kind = team_kind(loop);
  if (!r->local || l->place == PLACE_POINT)
    return;
  if (kind == LOOP_SINGLE || (kind == LOOP_SUMS && r->reduce != PRIM_NONE)) {
    l->place = PLACE_VALUE;
    return;
  }
  const char *type = scalar_type(class_of(r->dtype));
  if (may_be_held(w, at, result)) {
    l->place = PLACE_HELD;
    buffer_printf(&t->body, "%s l%u[%u];\n", type, l->name,
                  w->s->held * w->s->vector);
    return;
  }
  int64_t bytes = emit_times(e, r->local_size, dtype_info[r->dtype].bytes);
  bytes = emit_times(e, emit_over(e, bytes, SHARED_ALIGN), SHARED_ALIGN);
  int64_t more = emit_plus(e, t->shared, bytes);
  int64_t points = w->s->threads / w->s->team;
  bool fits =
      size_is_number(w->k->graph, more) &&
      more * points + w->s->threads * FOLD_BYTES <= (int64_t)w->target->shared;
  l->place = fits ? PLACE_SHARED : PLACE_SLOT;
  l->at = fits ? t->shared : t->slots;
  if (fits)
    t->shared = more;
  else
    t->slots = emit_plus(e, t->slots, bytes);
}

static void put_local_pointers(Team *t) {
  CudaWriter *w = t->w;
  for (uint32_t j = 0; j < w->k->loops.len; j++)
    for (uint32_t i = 0; i < w->k->loops.at[j]->results.len; i++) {
      const Result *r = &w->k->loops.at[j]->results.at[i];
      const CudaLocal *l = local_of(w, w->pass->first + j, i);
      const char *type = memory_type(r->dtype);
      if (r->local && (l->place == PLACE_SHARED || l->place == PLACE_SLOT))
        buffer_printf(&w->head, "%s *const l%u = (%s *)(%s + %s);\n", type,
                      l->name, type, l->place == PLACE_SHARED ? "local" : "own",
                      emit_int(&w->e, l->at));
    }
}

/* ---- sums ---- */

static double terms_of(const CudaWriter *w, const Nest *n) {
  const Loop *loop = n->loop;
  double terms = loop_points(loop, loop->kept, loop->axes);
  double share = n->kind == LOOP_SUMS ? w->s->team : 1;
  if (w->s->chunk)
    terms = (double)w->s->chunk;
  return loop->graph->sizes ? 1e9 : terms / share;
}

static void begin_sum(Team *t, Nest *n, uint32_t j) {
  CudaWriter *w = t->w;
  CudaSum *s = &n->sums[j];
  *s = cuda_sum_new(w, n->loop, &n->loop->results.at[j]);
  for (uint32_t i = n->at + 1; i < w->k->loops.len; i++)
    if (t->online[i].near.is && t->online[i].near.loop == n->at &&
        t->online[i].near.result == j)
      s->name = t->online[i].largest;
  s->runs = s->r->reduce == PRIM_SUM && s->class == 'f' && !n->held &&
            terms_of(w, n) > RUN;
}

static void declare_sum(const CudaSum *s, Buffer *out) {
  cuda_sum_declare(s, out);
  if (s->runs)
    buffer_printf(out, "%s sum%u = 0;\n", s->type, s->name);
}

static void end_run(const CudaSum *s, Buffer *out) {
  if (s->runs)
    buffer_printf(out, "sum%u += acc%u;\nacc%u = 0;\n", s->name, s->name,
                  s->name);
}

static void end_sum(const CudaSum *s, Buffer *out) {
  if (s->runs)
    buffer_printf(out, "acc%u += sum%u;\n", s->name, s->name);
}

/* Sums that take turns in so many rooms need one barrier each: who reads one
 * has passed the next one's barrier before it is written again.  A sum that is
 * alone has one behind it instead, where the next point begins. */
static uint32_t room_count(const Team *t) {
  return t->w->s->across || t->folds < 2 ? 1 : 2 + t->folds % 2;
}
static uint32_t room_size(const Team *t) {
  return (t->w->s->across ? t->w->s->threads : WARP) * (t->pairs ? 16 : 8);
}
static uint32_t room_at(const Team *t, uint32_t fold) {
  bool third = fold + 1 == t->folds && t->folds % 2;
  return room_count(t) == 1 ? 0 : (third ? 2 : fold % 2) * room_size(t);
}

void team_put_fold(Team *t, const CudaSum *s, Buffer *out) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  if (w->s->team == 1)
    return;
  cuda_sum_join(w, s, out,
                w->s->across ? format(e, "ax_fold_across<%u, %u>", w->s->team,
                                      w->s->threads / w->s->team)
                             : format(e, "ax_fold<%u>", w->s->team),
                format(e, "ax_shared() + %u", room_at(t, t->folded++)));
}

/* ---- what steps are given ---- */

static bool is_row_read(const Nest *n, const Step *s) {
  return s->kind == STEP_READ && !s->index_count &&
         cuda_depends(n->loop, s->address, n->axes[n->count - 1]);
}

static const char *held_row(Team *t, const Nest *n, const Step *s) {
  for (uint32_t j = 0; j < t->rows.len; j++) {
    const Row *row = &t->rows.at[j];
    if (row->read->input == s->input &&
        quasi_equal(row->read->address, s->address) &&
        team_rows_match(t->w, row->loop, n->loop))
      return row->name;
  }
  return NULL;
}

static bool has_quotients(const Quasi *q) {
  for (uint32_t j = 0; j < QUOTIENTS; j++)
    if (q->times[KERNEL_AXES + j])
      return true;
  return false;
}

/* Does a later loop read it at the same place? */
static bool is_read_again(const Team *t, const Nest *n, const Step *s) {
  for (uint32_t j = n->at + 1; j < t->w->k->loops.len; j++) {
    const Loop *loop = t->w->k->loops.at[j];
    for (uint32_t i = 0; i < loop->steps.len; i++) {
      const Step *x = &loop->steps.at[i];
      if (x->kind == STEP_READ && !x->index_count && x->input == s->input &&
          quasi_equal(x->address, s->address) &&
          team_rows_match(t->w, n->loop, loop))
        return true;
    }
  }
  return false;
}

/* A read of the row: from registers, as a vector, or NULL: as it stands. */
static const char *give_read(Team *t, Nest *n, const Step *s) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  uint32_t axis = n->axes[n->count - 1];
  const char *index = n->vector > 1 ? format(e, "t * %u + v", n->vector) : "t";
  bool vector =
      n->vector > 1 && cuda_is_vector(n->loop, s->address, axis, n->vector);
  bool whole = !has_quotients(s->address);
  const char *name = n->held && whole ? held_row(t, n, s) : NULL;
  if (name)
    return cuda_element(e, s->dtype, name, index);
  bool keeps =
      n->held && whole && is_read_again(t, n, s) && (vector || n->vector == 1);
  if (!vector && !keeps)
    return NULL;
  name = format(e, "r%u", e->names++);
  const char *type = memory_type(s->dtype);
  if (keeps) {
    buffer_printf(&t->body, "%s %s[%u];\n", type, name, n->held * n->vector);
    VEC_PUSH(e->arena, t->rows, ((Row){n->loop, s, name}));
  } else {
    buffer_printf(&n->loads, "%s %s[%u];\n", type, name, n->vector);
  }
  const char *element = cuda_element(e, s->dtype, name, keeps ? index : "v");
  if (!vector)
    return format(e, "(%s[t] = p%u[%s], %s)", name, s->input,
                  emit_quasi(e, s->address), element);
  cuda_put_load(w, &n->loads, s, axis,
                keeps ? format(e, "%s + t * %u", name, n->vector) : name,
                "first", "", format(e, "%u", n->vector));
  return element;
}

static const char *give_local(CudaWriter *w, const Nest *n, const Step *s) {
  Emitter *e = &w->e;
  const CudaLocal *l = local_of(w, s->loop, s->result);
  switch (l->place) {
  case PLACE_VALUE:
    return format(e, "l%u", l->name);
  case PLACE_HELD:
    return n->vector > 1 ? format(e, "l%u[t * %u + v]", l->name, n->vector)
                         : format(e, "l%u[t]", l->name);
  case PLACE_NONE:
  case PLACE_SHARED:
  case PLACE_SLOT:
  case PLACE_POINT:
    break;
  }
  return NULL;
}

static const char **give_all(Team *t, Nest *n) {
  const Loop *loop = n->loop;
  const char **given = NEW_ARRAY(t->w->e.arena, const char *, loop->steps.len);
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    if (s->kind == STEP_LOCAL)
      given[j] = give_local(t->w, n, s);
    else if (n->kind != LOOP_SINGLE && n->kind != LOOP_BOTH &&
             is_row_read(n, s))
      given[j] = give_read(t, n, s);
  }
  return given;
}

/* ---- loops ---- */

enum { SHARED_LEVEL = ROW_LEVEL + 1 };

/* Axes that are shared out: at one level, and elements of vectors at the next
 * one; then those that a thread goes through. */
static void begin_nest(CudaWriter *w, Nest *n) {
  Emitter *e = &w->e;
  const Loop *loop = n->loop;
  uint32_t order[KERNEL_AXES], loops = 0, level = SHARED_LEVEL;
  for (uint32_t v = loop->outer; v < loop->axes; v++)
    order[loops++] = v;
  emit_begin_loop(e, loop, NO_LANE, loops, order);
  for (uint32_t k = 0; k < n->count; k++)
    e->level_of[n->axes[k]] = level;
  if (n->vector > 1)
    e->level_of[n->axes[n->count - 1]] = ++level;
  if (n->kind == LOOP_BOTH)
    for (uint32_t v = loop->kept; v < loop->axes; v++)
      e->level_of[v] = ++level;
  e->lane_level = level;
}

/* for (j ...) { its axes; what vectors are loaded; for (v ...) { ... */
static void open_row(CudaWriter *w, const Nest *n, Buffer *out,
                     const char *from, const char *to) {
  Emitter *e = &w->e;
  const char *type = w->dialect.index;
  uint32_t last = n->axes[n->count - 1], step = w->s->team * n->vector;
  if (n->held)
    buffer_printf(out,
                  "#pragma unroll\nfor (int t = 0; t < %u; t++) {\n"
                  "const %s j = (t * %u + lane) * %u;\n"
                  "if (j < %s) {\n",
                  n->held, type, w->s->team, n->vector, to);
  else
    buffer_printf(out, "for (%s j = %s; j < %s; j += %u) {\n", type, from, to,
                  step);
  if (n->vector == 1) {
    cuda_put_axes(w, out, n->loop, n->count, n->axes, "j");
  } else if (n->count == 1) {
    buffer_printf(out, "const %s first = j;\n", type);
  } else {
    int64_t extent = n->loop->extents[last];
    buffer_printf(out,
                  "const %s group = floor_div(j, %s);\n"
                  "const %s first = j - group * %s;\n",
                  type, emit_divisor(e, extent), type, emit_int(e, extent));
    cuda_put_axes(w, out, n->loop, n->count - 1, n->axes, "group");
  }
  emit_put(out, &e->blocks[SHARED_LEVEL]);
  emit_put(out, &n->loads);
  if (n->vector > 1) {
    buffer_printf(out,
                  "#pragma unroll\nfor (int v = 0; v < %u; v++) {\n"
                  "const %s i%u = first + v;\n",
                  n->vector, type, last);
    emit_put(out, &e->blocks[SHARED_LEVEL + 1]);
  }
}

static void close_row(const Nest *n, Buffer *out) {
  if (n->vector > 1)
    buffer_puts(out, "}\n");
  emit_put(out, &n->stores);
  buffer_puts(out, n->held ? "}\n}\n" : "}\n");
}

static bool has_runs(const Nest *n) {
  for (uint32_t j = 0; j < n->loop->results.len; j++)
    if (n->sums[j].runs)
      return true;
  return false;
}

/* ---- results ---- */

/* One number of a team. */
void team_put_one(Team *t, const Nest *n, uint32_t j, const char *x,
                  Buffer *out) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  const Result *r = &n->loop->results.at[j];
  const CudaLocal *l = local_of(w, w->pass->first + n->at, j);
  if (w->parts) {
    buffer_puts(out, "if (live && lane == 0) {\n");
    cuda_sum_leave(w, &n->sums[j], &w->left,
                   format(e, "part * %s + point", emit_int(e, w->points)), out);
    buffer_puts(out, "}\n");
    return;
  }
  if (r->local && l->place == PLACE_VALUE)
    buffer_printf(out, "const %s l%u = %s;\n", scalar_type(class_of(r->dtype)),
                  l->name, cuda_kept(e, r->dtype, x));
  if (r->local && l->place == PLACE_POINT) {
    buffer_puts(out, "if (live && lane == 0)\n");
    cuda_put_at(out, r->dtype, format(e, "l%u", l->name),
                emit_quasi(e, r->local), x);
  }
  if (r->out) {
    buffer_puts(out, "if (live && lane == 0)\n");
    cuda_put_store(w, out, r, x);
  }
}

/* One of each element of a row. */
static void store_each(Team *t, Nest *n, uint32_t j, const char *x,
                       Buffer *out) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  const Result *r = &n->loop->results.at[j];
  const CudaLocal *l = local_of(w, w->pass->first + n->at, j);
  uint32_t axis = n->axes[n->count - 1];
  if (r->local && l->place == PLACE_HELD) {
    buffer_printf(out, "%s = %s;\n",
                  n->vector > 1
                      ? format(e, "l%u[t * %u + v]", l->name, n->vector)
                      : format(e, "l%u[t]", l->name),
                  cuda_kept(e, r->dtype, x));
  } else if (r->local) {
    if (l->place == PLACE_POINT)
      buffer_puts(out, "if (live)\n");
    cuda_put_at(out, r->dtype, format(e, "l%u", l->name),
                emit_quasi(e, r->local), x);
    t->waits |= l->place != PLACE_POINT;
  }
  if (!r->out)
    return;
  if (!is_sum(r))
    x = emit_stored(e, r->step, r->dtype);
  if (n->vector > 1 && cuda_is_vector(n->loop, r->out, axis, n->vector)) {
    const char *name = format(e, "w%u", e->names++);
    buffer_printf(&n->loads, "%s %s[%u];\n", memory_type(r->dtype), name,
                  n->vector);
    cuda_put_at(out, r->dtype, name, "v", x);
    buffer_puts(&n->stores, "if (live)\n");
    cuda_put_vector(w, &n->stores, r, axis, name, "first", "",
                    format(e, "%u", n->vector));
    return;
  }
  buffer_puts(out, "if (live)\n");
  cuda_put_store(w, out, r, x);
}

/* Of loops over terms: more where each is one element, and threads are not so
 * many that they have few registers, or need none but for what they read; one
 * of those that are long. */
static int unroll_of(const Team *t, const Nest *n) {
  if (n->loop->steps.len > LONG)
    return 1;
  bool crowd = t->w->s->threads >= CROWD && n->loop->steps.len > 2;
  uint32_t reads = 0;
  for (uint32_t j = 0; j < n->loop->steps.len; j++)
    reads += n->loop->steps.at[j].kind == STEP_READ;
  if (crowd && n->vector > 1 && reads >= MANY)
    return UNROLL / 2;
  return n->vector > 1 || crowd ? UNROLL : UNROLL_ONES;
}

/* What threads have written others may read from now on. */
static void put_wait(Team *t, Buffer *out) {
  const CudaSchedule *s = t->w->s;
  if (s->team == 1)
    return;
  buffer_puts(out, s->across || s->team > WARP ? "ax_sync();\n"
                                               : "ax_sync_warp();\n");
}

static bool writes_memory(const Team *t, const Nest *n) {
  for (uint32_t j = 0; j < n->loop->results.len; j++) {
    const CudaLocal *l = local_of(t->w, t->w->pass->first + n->at, j);
    if (n->loop->results.at[j].local &&
        (l->place == PLACE_SHARED || l->place == PLACE_SLOT))
      return true;
  }
  return false;
}

void team_put_walk(Team *t, const Nest *n, Buffer *out, const Buffer *takes,
                   const char *from, const char *to) {
  if (!n->held)
    buffer_printf(out, "#pragma unroll %d\n", unroll_of(t, n));
  open_row(t->w, n, out, from, to);
  emit_put(out, &t->w->e.checks);
  emit_put(out, takes);
  close_row(n, out);
}

/* ---- the four kinds ---- */

static void put_single(Team *t, Nest *n) {
  Emitter *e = &t->w->e;
  Buffer results = {.arena = e->arena};
  for (uint32_t j = 0; j < n->loop->results.len; j++)
    if (team_wants(&n->loop->results.at[j]))
      team_put_one(t, n, j, emit_scalar(e, n->loop->results.at[j].step),
                   &results);
  emit_put(&t->body, &e->blocks[ROW_LEVEL]);
  emit_put(&t->body, &e->checks);
  emit_put(&t->body, &results);
}

/* A result of each element. */
static void put_each(Team *t, Nest *n, uint32_t j, Buffer *out) {
  const Result *r = &n->loop->results.at[j];
  if (team_wants(r) && !is_sum(r))
    store_each(t, n, j, emit_scalar(&t->w->e, r->step), out);
}

static void put_kept(Team *t, Nest *n) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  Buffer results = {.arena = e->arena}, *out = &t->body;
  for (uint32_t j = 0; j < n->loop->results.len; j++)
    put_each(t, n, j, &results);
  emit_put(out, &e->blocks[ROW_LEVEL]);
  open_row(w, n, out,
           n->vector > 1 ? format(e, "lane * %u", n->vector) : "lane",
           emit_int(e, n->row));
  emit_put(out, &e->checks);
  emit_put(out, &results);
  close_row(n, out);
}

/* more: what is done behind each portion. */
static void put_sums(Team *t, Nest *n, const Buffer *more) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  Buffer *out = &t->body, takes = {.arena = e->arena}, ends = takes;
  const char *from =
      format(e, "%slane * %u", w->parts ? "from + " : "", n->vector);
  const char *to = w->parts ? "to" : emit_int(e, n->row);
  bool portions = more->len > 0, runs = has_runs(n) || portions;
  uint32_t step = w->s->team * n->vector * (portions ? PORTION : RUN);
  for (uint32_t j = 0; j < n->loop->results.len; j++) {
    put_each(t, n, j, &takes);
    if (!is_sum(&n->loop->results.at[j]))
      continue;
    cuda_sum_take(w, &n->sums[j], &takes);
    team_put_fold(t, &n->sums[j], &ends);
    team_put_one(t, n, j, cuda_sum_value(e, &n->sums[j]), &ends);
  }
  emit_put(out, &e->blocks[ROW_LEVEL]);
  for (uint32_t j = 0; j < n->loop->results.len; j++)
    if (is_sum(&n->loop->results.at[j]))
      declare_sum(&n->sums[j], out);
  if (portions)
    online_declare(t, n->at, out);
  if (runs) {
    buffer_printf(out,
                  "for (%s run = %s; run < %s; run += %u) {\n"
                  "const %s stop = %s - run < %u ? %s : run + %u;\n",
                  w->dialect.index, from, to, step, w->dialect.index, to, step,
                  to, step);
    from = "run", to = "stop";
  }
  if (portions)
    online_begin(t, n->at, out);
  team_put_walk(t, n, out, &takes, from, to);
  for (uint32_t j = 0; runs && j < n->loop->results.len; j++)
    end_run(&n->sums[j], out);
  emit_put(out, more);
  buffer_puts(out, runs ? "}\n" : "");
  for (uint32_t j = 0; j < n->loop->results.len; j++)
    end_sum(&n->sums[j], out);
  if (portions)
    online_end(t, n->at, out);
  emit_put(out, &ends);
}

/* The axes that a thread goes through; the last one in runs. */
static void put_terms(CudaWriter *w, const Nest *n, const Buffer *takes,
                      Buffer *out) {
  Emitter *e = &w->e;
  const Loop *loop = n->loop;
  const char *type = w->dialect.index;
  bool runs = has_runs(n);
  for (uint32_t v = loop->kept; v < loop->axes; v++) {
    const char *from = "0", *to = emit_int(e, loop->extents[v]);
    if (runs && v + 1 == loop->axes) {
      buffer_printf(out,
                    "for (%s run = 0; run < %s; run += %d) {\n"
                    "const %s stop = %s - run < %d ? %s : run + %d;\n",
                    type, to, RUN, type, to, RUN, to, RUN);
      from = "run", to = "stop";
    }
    if (v + 1 == loop->axes)
      buffer_printf(out, "#pragma unroll %d\n", UNROLL);
    buffer_printf(out, "for (%s i%u = %s; i%u < %s; i%u++) {\n", type, v, from,
                  v, to, v);
    emit_put(out, &e->blocks[e->level_of[v]]);
  }
  emit_put(out, &e->checks);
  emit_put(out, takes);
  for (uint32_t v = loop->kept; v < loop->axes; v++) {
    buffer_puts(out, "}\n");
    if (v > loop->kept || !runs)
      continue;
    for (uint32_t j = 0; j < loop->results.len; j++)
      end_run(&n->sums[j], out);
    buffer_puts(out, "}\n");
  }
}

static void put_both(Team *t, Nest *n) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  Buffer *out = &t->body, takes = {.arena = e->arena}, ends = takes;
  for (uint32_t j = 0; j < n->loop->results.len; j++) {
    put_each(t, n, j, &takes);
    if (!is_sum(&n->loop->results.at[j]))
      continue;
    cuda_sum_take(w, &n->sums[j], &takes);
    end_sum(&n->sums[j], &ends);
    store_each(t, n, j, cuda_sum_value(e, &n->sums[j]), &ends);
  }
  emit_put(out, &e->blocks[ROW_LEVEL]);
  open_row(w, n, out, "lane", emit_int(e, n->row));
  for (uint32_t j = 0; j < n->loop->results.len; j++)
    if (is_sum(&n->loop->results.at[j]))
      declare_sum(&n->sums[j], out);
  put_terms(w, n, &takes, out);
  emit_put(out, &ends);
  close_row(n, out);
}

static bool is_any_wanted(const Loop *loop) {
  bool any = false;
  for (uint32_t j = 0; j < loop->results.len; j++)
    any |= team_wants(&loop->results.at[j]);
  return any;
}

void team_begin_loop(Team *t, Nest *n, const Loop *loop, uint32_t at,
                     const char *first) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  Buffer none = {.arena = e->arena};
  *n = (Nest){.loop = loop, .at = at, .vector = 1, .row = 1};
  n->kind = team_kind(loop);
  n->loads = n->stores = none;
  if (n->kind != LOOP_SINGLE)
    n->count = cuda_shared_axes(loop, w->s, n->axes);
  for (uint32_t k = 0; k < n->count; k++)
    n->row = emit_times(e, n->row, loop->extents[n->axes[k]]);
  if (n->kind == LOOP_KEPT || n->kind == LOOP_SUMS) {
    n->vector = w->s->vector;
    n->held = w->s->held;
  }
  begin_nest(w, n);
  e->given = give_all(t, n);
  if (first)
    e->given[0] = first;
  emit_steps(e);
  e->given = NULL;
  for (uint32_t j = 0; j < loop->results.len && !e->failed; j++)
    if (is_sum(&loop->results.at[j]))
      begin_sum(t, n, j);
  emit_put(&e->head, &e->blocks[0]);
  e->blocks[0].len = 0;
}

static void put_loop(Team *t, uint32_t at) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  Nest n;
  if (!is_any_wanted(w->k->loops.at[at]))
    return;
  if (t->online[at].near.is) {
    online_put_scaled(t, at);
    return;
  }
  Buffer more = online_parts(t, at);
  team_begin_loop(t, &n, w->k->loops.at[at], at, NULL);
  if (e->failed)
    return;
  switch (n.kind) {
  case LOOP_SINGLE:
    put_single(t, &n);
    break;
  case LOOP_KEPT:
    put_kept(t, &n);
    break;
  case LOOP_SUMS:
    put_sums(t, &n, &more);
    break;
  case LOOP_BOTH:
    put_both(t, &n);
    break;
  case LOOP_KINDS:
    break;
  }
  emit_put(&e->head, &e->blocks[0]);
  if (writes_memory(t, &n))
    put_wait(t, &t->body);
}

/* ---- the pass ---- */

/* Which thread of which team, and where a team's memory begins. */
static void put_team(Team *t) {
  CudaWriter *w = t->w;
  Emitter *e = &w->e;
  Buffer *head = &w->head;
  uint32_t width = w->s->threads / w->s->team;
  const char *thread = "(int)threadIdx.x";
  if (w->s->across)
    buffer_printf(head, "const int lane = %s / %u, slot = %s %% %u;\n", thread,
                  width, thread, width);
  else
    buffer_printf(head, "const int lane = %s %% %u, slot = %s / %u;\n", thread,
                  w->s->team, thread, w->s->team);
  int64_t room = t->folds ? room_count(t) * room_size(t) : 0;
  if (t->shared) {
    buffer_printf(
        head, "unsigned char *const local = ax_shared() + %lld + slot * %s;\n",
        (long long)room, emit_int(e, t->shared));
    room += t->shared * width;
  }
  if (t->slots) {
    int64_t all = emit_times(e, t->slots, (int64_t)CUDA_GRID_SLOTS * width);
    int64_t at = cuda_take_bytes(w, all);
    buffer_printf(
        head,
        "char *const own = scratch + %s + ((int64_t)blockIdx.x * %u + "
        "slot) * %s;\n",
        emit_int(e, at), width, emit_int(e, t->slots));
    w->pass->grid_most = CUDA_GRID_SLOTS;
  }
  w->pass->shared = room;
}

/* The point that a team has; those behind the last do it once more. */
static void put_point(CudaWriter *w, Buffer *out) {
  Emitter *e = &w->e;
  const char *type = w->dialect.index, *points = emit_int(e, w->points);
  uint32_t width = w->s->threads / w->s->team;
  int64_t groups = emit_over(e, w->points, width), blocks = groups;
  const char *group = "block";
  if (w->parts)
    blocks = emit_times(e, groups, w->parts);
  buffer_printf(out,
                "for (int64_t block = blockIdx.x; block < %s; block += "
                "gridDim.x) {\n",
                emit_int(e, blocks));
  if (w->parts) {
    const Loop *loop = w->k->loops.at[0];
    int64_t row = 1;
    for (uint32_t v = loop->kept; v < loop->axes; v++)
      row = emit_times(e, row, loop->extents[v]);
    const char *chunk = emit_int(e, w->s->chunk), *end = emit_int(e, row);
    buffer_printf(out,
                  "const %s part = floor_div((%s)block, %s);\n"
                  "const int64_t group = block - (int64_t)part * %s;\n"
                  "const %s from = part * %s;\n"
                  "const %s to = %s - from < %s ? %s : from + %s;\n",
                  type, type, emit_divisor(e, groups), emit_int(e, groups),
                  type, chunk, type, end, chunk, end, chunk);
    group = "group";
  }
  buffer_printf(out,
                "const int64_t at = %s * %u + slot;\n"
                "const bool live = at < %s;\n"
                "const %s point = (%s)(live ? at : %s - 1);\n",
                group, width, points, type, type, points);
  cuda_put_outer(w, out, w->k->outer, "point");
  w->pass->blocks = blocks;
}

/* Which sums a team puts together. */
static void count_folds(Team *t) {
  const Kernel *k = t->w->k;
  for (uint32_t j = 0; t->w->s->team > 1 && j < k->loops.len; j++) {
    const Loop *loop = k->loops.at[j];
    if (team_kind(loop) != LOOP_SUMS)
      continue;
    for (uint32_t i = 0; i < loop->results.len; i++) {
      t->folds += is_sum(&loop->results.at[i]);
      t->pairs |= is_sum(&loop->results.at[i]) &&
                  cuda_is_where(loop->results.at[i].reduce);
    }
  }
  t->waits = t->folds == 1 && t->w->s->team > WARP && !t->w->s->across;
}

/* Do rows fit that loops leave for later ones? */
static bool rows_fit(const CudaWriter *w) {
  double bytes = 0;
  for (uint32_t j = 0; j < w->k->loops.len; j++)
    for (uint32_t i = 0; i < w->k->loops.at[j]->results.len; i++) {
      const Result *r = &w->k->loops.at[j]->results.at[i];
      if (!r->local || team_kind(w->k->loops.at[j]) == LOOP_SINGLE)
        continue;
      if (!size_is_number(w->k->graph, r->local_size))
        return false;
      bytes += (double)size_guess(w->k->graph, r->local_size) *
               dtype_info[r->dtype].bytes;
    }
  double points = w->s->threads / w->s->team;
  return bytes * points + w->s->threads * FOLD_BYTES <= w->target->shared;
}

void cuda_put_team(CudaWriter *w) {
  Emitter *e = &w->e;
  if (w->k->loops.len > 1 && !w->s->held && !w->s->across && !w->pass->first &&
      !rows_fit(w))
    w->k = e->k = cuda_recompute(w->k);
  Team t = {.w = w, .body = {.arena = e->arena}};
  Buffer *out = &w->body;
  online_find(&t);
  count_folds(&t);
  for (uint32_t j = 0; j < w->k->loops.len; j++)
    for (uint32_t i = 0; i < w->k->loops.at[j]->results.len; i++)
      place_local(&t, j, i);
  w->dialect.over = "ax_quotient";
  for (uint32_t j = 0; j < w->k->loops.len && !e->failed; j++)
    put_loop(&t, j);
  w->dialect.over = NULL;
  put_team(&t);
  put_local_pointers(&t);
  put_point(w, out);
  emit_put(out, &t.body);
  if (t.waits)
    put_wait(&t, out);
  buffer_puts(out, "}\n");
}
