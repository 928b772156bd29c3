/* A kernel as C functions.
 *
 * `kernel` works on units begin .. end - 1 of what can be done apart: points
 * of the outer axes, rows or columns of them, or parts of a long sum, which
 * `fold` then adds up.  The loops of the kernel stand in it one after the
 * other; what one leaves for the next lies in scratch memory. */
#include "backend/cpu/emit.h"
#include "backend/cpu/keeping.h"

#define format emit_format

/* ---- local values ---- */

enum { BEHIND = 320, ROW_PADDED = 256, ROW_PADDING = 16 };

static int64_t row_points(const Schedule *s) {
  return s->places ? s->places : divide_up(s->block, s->width) * s->width;
}

static int64_t points_of(Emitter *e) {
  const Schedule *s = e->s;
  int64_t block = divide_up(s->block, s->width) * s->width;
  switch (s->shape) {
  case UNIT_POINT:
    return 1;
  case UNIT_ROWS:
    return s->block;
  case UNIT_COLUMNS:
    return block;
  case UNIT_MEMBERS:
    return 1;
  case UNIT_TILE:
    return emit_times(e, row_points(s),
                      tiling_passes(s) ? s->tiling->of[0].block_m : s->height);
  }
  return 1;
}

static void emit_locals(Emitter *e, Buffer *out) {
  for (uint32_t j = 0; j < e->k->loops.len; j++) {
    const Loop *loop = e->k->loops.at[j];
    e->locals[j] = NEW_ARRAY(e->arena, Local, loop->results.len);
    for (uint32_t i = 0; i < loop->results.len; i++) {
      const Result *r = &loop->results.at[i];
      Local *l = &e->locals[j][i];
      if (!r->local || e->finish[j])
        continue;
      l->name = e->names++;
      l->portioned = loop->portioned && loop_keeps(loop, r, loop->limited);
      uint32_t points = together_points(e->k, e->s, j);
      l->together = points > 0;
      int64_t size = l->portioned ? e->s->portion : r->local_size;
      if (r->carried && r->reduce != PRIM_SUM)
        size = 2; /* portions.c */
      /* rows that do not fall upon each other in a cache */
      if (e->s->shape == UNIT_ROWS &&
          size_guess(e->k->graph, size) >= ROW_PADDED)
        size = emit_plus(e, size, ROW_PADDING);
      l->size = emit_int(e, size);
      l->block = emit_int(e, row_points(e->s));
      const char *type = memory_type(r->dtype);
      int64_t count = emit_times(e, size, points ? points : points_of(e));
      /* whole vectors may end behind the last: of sums of few terms, four,
       * whose lanes may be four elements apart */
      count = emit_plus(e, count, BEHIND);
      buffer_printf(out, "%s *restrict const %c%u = (%s *)(room + %s);\n", type,
                    l->portioned || l->together ? 'r' : 'l', l->name, type,
                    emit_room(e, count, r->dtype));
    }
  }
}

/* ---- which part of the work a unit is ---- */

/* least: of blocks, also where there is nothing in it. */
static int64_t emit_range(Emitter *e, Buffer *out, const char *from,
                          const char *to, const char *count, int64_t extent,
                          int64_t block, int64_t least) {
  int64_t blocks = size_max(e->k->graph, emit_over(e, extent, block), least);
  const char *size = emit_int(e, block), *n = emit_int(e, extent);
  buffer_printf(out,
                "const int64_t %s = %s, %s = row %% %s * %s;\n"
                "const int64_t %s = %s + %s < %s ? %s + %s : %s;\n"
                "row /= %s;\n",
                count, emit_int(e, blocks), from, count, size, to, from, size,
                n, from, size, n, count);
  return blocks;
}

/* As many rows in each, whole tiles. */
static int64_t emit_bands(Emitter *e, Buffer *out, int64_t extent) {
  const char *n = emit_int(e, extent), *bands = emit_int(e, e->s->bands);
  uint32_t rows = e->s->tiling->of[0].rows;
  buffer_printf(out,
                "const int64_t bands = %s, height = ((%s + bands - 1) / bands "
                "+ %u) / %u * %u;\n"
                "const int64_t top = row %% bands * height;\n"
                "const int64_t bottom = top + height < %s ? top + height : "
                "%s;\nrow /= bands;\n",
                bands, n, rows - 1, rows, rows, n, n);
  return e->s->bands;
}

static bool has_place(const Loop *loop) {
  PrimId op = loop->results.at[0].reduce;
  return op == PRIM_ARGMAX || op == PRIM_ARGMIN;
}

/* Numbers of units: parts of the first reduced axis, tiles, then points. */
static void emit_unit(Emitter *e, Buffer *out) {
  const Schedule *s = e->s;
  const Loop *loop = e->k->loops.at[0];
  uint32_t points = loop->outer;
  int64_t units = 1;
  buffer_puts(out, "int64_t row = u;\n");
  if (s->shape == UNIT_ROWS)
    units = emit_range(e, out, "first", "last", "spans",
                       loop->extents[--points], s->span, 0);
  else if (s->shape != UNIT_POINT)
    units = emit_range(e, out, "lo", "hi", "blocks", loop->extents[--points],
                       s->block, 0);
  if (s->shape == UNIT_TILE && s->bands)
    units = emit_times(e, units, emit_bands(e, out, loop->extents[--points]));
  else if (s->shape == UNIT_TILE)
    units = emit_times(e, units,
                       emit_range(e, out, "top", "bottom", "bands",
                                  loop->extents[--points], s->height, 0));
  if (s->shape == UNIT_MEMBERS)
    points -= 2;
  if (s->shape == UNIT_TILE && !s->tiling)
    buffer_puts(out, "const int64_t y0 = top, y1 = bottom;\n");
  if (s->strip)
    units = emit_times(e, units,
                       emit_range(e, out, "above", "below", "strips",
                                  loop->extents[--points], s->strip, 0));
  if (s->chunk) {
    bool tile = s->shape == UNIT_TILE;
    int64_t extent = tile ? s->tiling->of[0].depth : loop->extents[loop->kept];
    e->out->call.chunks =
        emit_range(e, out, tile ? "part" : "from", tile ? "stop" : "to",
                   "chunks", extent, s->chunk, 1);
    units = emit_times(e, units, e->out->call.chunks);
    int64_t count = 1;
    for (uint32_t v = 0; v < loop->outer; v++)
      count = emit_times(e, count, loop->extents[v]);
    buffer_printf(out, "const int64_t share = %s / %s * %s;\n",
                  tile ? "part" : "from", emit_int(e, s->chunk),
                  emit_int(e, count));
    if (has_place(loop))
      buffer_printf(out, "const int64_t values = %s;\n",
                    emit_int(e, emit_times(e, count, e->out->call.chunks)));
  }
  for (uint32_t v = points; v-- > 0;) {
    units = emit_times(e, units, loop->extents[v]);
    const char *n = v ? emit_int(e, loop->extents[v]) : NULL;
    if (n)
      buffer_printf(out, "const int64_t i%u = row %% %s;\nrow /= %s;\n", v, n,
                    n);
    else
      buffer_printf(out, "const int64_t i%u = row;\n", v);
  }
  buffer_puts(out, "(void)row;\n");
  e->out->call.units = units;
}

/* ---- loops, in their sections ---- */

static bool is_product(const Emitter *e, uint32_t loop) {
  return e->s->tiling && e->s->tiling->of[loop].on;
}

static void emit_note(const Emitter *e, Buffer *out, uint32_t loop) {
  if (e->notes)
    buffer_printf(out, "/* %s */\n", e->notes[loop]);
}

/* Loops after a product that go over its tile are done part by part. */
static void emit_loops(Emitter *e, Buffer *out, uint32_t from, uint32_t count) {
  if (e->s->members) {
    emit_note(e, out, 0);
    emit_members(e, out);
    return;
  }
  for (uint32_t j = from; j < count;) {
    uint32_t to = j + 1;
    while (to < count && !is_product(e, to))
      to++;
    Buffer rest = {.arena = e->arena};
    for (uint32_t i = j + is_product(e, j); i < to; i++) {
      emit_note(e, &rest, i);
      if (i == 0 || !e->finish[i - 1])
        emit_nest(e, &rest, i, e->s->lanes[i]);
    }
    bool tile = is_product(e, j) && e->s->shape == UNIT_TILE;
    if (is_product(e, j)) {
      emit_note(e, out, j);
      emit_product(e, out, j, tile ? &rest : NULL);
    }
    if (e->s->shape == UNIT_ROWS && rest.len) {
      uint32_t v = e->k->outer - 1;
      buffer_printf(out, "for (int64_t i%u = lo; i%u < hi; i%u++) {\n", v, v,
                    v);
      emit_put(out, &rest);
      buffer_puts(out, "}\n");
    } else if (!tile) {
      emit_put(out, &rest);
    }
    j = to;
  }
}

/* Within limits, and once more without them where these were wrong. */
static void emit_limited(Emitter *e, Buffer *out) {
  const Kernel *k = e->k;
  const char *odd = e->s->shape == UNIT_ROWS ? "odd" : "0";
  if (k->guard)
    buffer_printf(out,
                  "for (int whole = %s, missed = 1; missed; whole = 1) {\n"
                  "missed = 0;\n",
                  odd);
  else if (may_be_whole(k))
    buffer_printf(out, "const int whole = %s;\n", odd);
  emit_limits(e, out);
  if (e->s->portion)
    emit_portions(e, out, emit_loops);
  else
    emit_loops(e, out, 0, k->loops.len);
  if (!k->guard)
    return;
  uint32_t v = k->outer - 1;
  if (e->s->shape == UNIT_ROWS)
    buffer_printf(out, "for (int64_t i%u = lo; i%u < hi; i%u++)\n", v, v, v);
  emit_guard(e, out);
  buffer_puts(out, "missed &= !whole;\n}\n");
}

/* Rows: what they share first, then some at a time. */
static void emit_rows(Emitter *e, Buffer *out) {
  for (uint32_t j = 0; j < e->k->loops.len; j++)
    if (is_product(e, j))
      emit_ahead(e, out, j);
  if (may_be_whole(e->k))
    emit_odd(e, out);
  const char *block = emit_int(e, e->s->block);
  buffer_printf(out,
                "for (int64_t lo = first; lo < last; lo += %s) {\n"
                "const int64_t hi = lo + %s < last ? lo + %s : last;\n",
                block, block, block);
  emit_limited(e, out);
  buffer_puts(out, "}\n");
}

/* ---- adding up chunks ---- */

enum { FOLDED = 64 }; /* elements at a time */

static const char *fold_text(Emitter *e, PrimId op, char class) {
  const char *x = "s[k * n[1] + u + i]";
  switch ((int)op) {
  case PRIM_SUM:
  case PRIM_PROD: {
    char sign = op == PRIM_SUM ? '+' : '*';
    if (is_float_class(class))
      return format(e, "r[i] %c %s", sign, x);
    const char *u = class == 'l' ? "uint64_t" : "uint32_t";
    return format(e, "(%s)((%s)r[i] %c (%s)%s)", scalar_type(class), u, sign, u,
                  x);
  }
  case PRIM_MAX:
  case PRIM_MIN:
    return emit_extreme(e, op == PRIM_MAX, class, false, "r[i]", x);
  case PRIM_ANY:
    return format(e, "r[i] | %s", x);
  default:
    return format(e, "r[i] & %s", x);
  }
}

static void emit_fold(Emitter *e, Buffer *out) {
  const Result *r = e->out->call.outs.at[0];
  if (e->out->call.places) {
    emit_best_fold(e, out);
    return;
  }
  Dtype from = e->out->call.accumulator, t = r->dtype;
  char class = class_of(from);
  const char *store =
      t == DT_F16 || t == DT_BF16
          ? format(e, "put_%s(o + u + i, (float)r[i])", dtype_info[t].name)
          : format(e, "o[u + i] = (%s)r[i]", memory_type(t));
  buffer_printf(out,
                "%sint fold%s(void *const *p, const int64_t *n,\n"
                "const double *c, int64_t begin, int64_t end, char *room) {\n"
                "(void)c, (void)room;\n"
                "%s *restrict const o = p[0];\nconst %s *const s = p[1];\n"
                "for (int64_t u = begin; u < end; u += %d) {\n"
                "const int count = end - u < %d ? (int)(end - u) : %d;\n"
                "%s r[%d];\n"
                "for (int i = 0; i < count; i++)\nr[i] = s[u + i];\n"
                "for (int64_t k = 1; k < n[0]; k++)\n"
                "for (int i = 0; i < count; i++)\nr[i] = %s;\n"
                "for (int i = 0; i < count; i++)\n%s;\n}\nreturn 0;\n}\n",
                *e->number ? "static " : "", e->number, memory_type(t),
                memory_type(from), FOLDED, FOLDED, FOLDED,
                class == 'f' ? "double" : scalar_type(class), FOLDED,
                fold_text(e, r->reduce, class), store);
}

/* ---- the whole ---- */

static void emit_pointers(Emitter *e, Buffer *out) {
  const Call *call = &e->out->call;
  bool alone = kernel_over(e->k) == 0;
  for (uint32_t j = 0; j < call->outs.len; j++)
    buffer_printf(
        out, "%s *%s const o%u = p[%u];\n",
        memory_type(e->s->chunk ? call->accumulator : call->outs.at[j]->dtype),
        alone ? "restrict" : "", j, j);
  for (uint32_t j = 0; j < e->k->inputs.len; j++)
    buffer_printf(out, "const %s *const p%u = p[%u];\n",
                  memory_type(e->k->inputs.at[j]->dtype), j,
                  call->outs.len + j);
  if (call->keepings.len) /* a result may be called c */
    buffer_puts(out, "const double *const numbers = c;\n(void)numbers;\n");
  for (uint32_t j = 0; j < call->keepings.len; j++)
    buffer_printf(out, "const %s *const kept%u = p[%u];\n",
                  call->keepings.at[j].type, j,
                  call->outs.len + e->k->inputs.len + j);
}

/* One mask for each check: they are few. */
static void emit_checks(const Emitter *e, Buffer *out) {
  for (uint32_t j = 0; j < e->out->call.checks.len; j++)
    buffer_printf(out, "vi bad%u = splat_i(0);\n", j);
}

static void emit_end(const Emitter *e, Buffer *out) {
  buffer_printf(out, "}\n%sreturn ", e->streams ? "stream_end();\n" : "");
  for (uint32_t j = 0; j < e->out->call.checks.len; j++)
    buffer_printf(out, "%sany_lane(bad%u) << %u", j ? " | " : "", j, j);
  buffer_puts(out, e->out->call.checks.len ? ";\n}\n" : "0;\n}\n");
}

bool emit_kernel(const Kernel *k, const Schedule *s, const char *const *notes,
                 const char *number, Emitted *result) {
  *result = (Emitted){.text = {.arena = k->arena}};
  if (k->loops.len > KERNEL_LOOPS)
    return false;
  Emitter *e = NEW(k->arena, Emitter);
  e->arena = k->arena;
  e->k = k;
  e->s = s;
  e->notes = notes;
  e->fetched = NO_LANE;
  e->number = number;
  e->out = result;
  e->head = e->copies = (Buffer){.arena = k->arena};
  Buffer rows = e->head, body = e->head, locals = e->head;
  Buffer *out = &result->text;
  if (!*number)
    buffer_printf(out, "#define W %u\n", s->width);
  if (s->tiling)
    emit_tiles(e, out);
  if (s->members)
    emit_member_function(e, out);
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (j == 0 || !e->finish[j - 1])
      e->finish[j] = few_finish(k, s, k->arena, j);
  emit_unit(e, &rows);
  emit_locals(e, &locals);
  if (s->shape == UNIT_ROWS)
    emit_rows(e, &body);
  else
    emit_limited(e, &body);
  emit_turns(e, out);
  emit_put(out, &e->copies);
  buffer_printf(out,
                "%sint kernel%s(void *const *p, const int64_t *n,\n"
                "const double *c, int64_t begin, int64_t end, char *room) {\n"
                "(void)p, (void)n, (void)c, (void)room;\n",
                *number ? "static " : "", number);
  emit_pointers(e, out);
  emit_put(out, &locals);
  emit_checks(e, out);
  emit_put(out, &e->head);
  buffer_puts(out, "for (int64_t u = begin; u < end; u++) {\n");
  emit_put(out, &rows);
  emit_put(out, &body);
  emit_end(e, out);
  if (s->chunk)
    emit_fold(e, out);
  emit_keepings(e, out);
  return !e->failed;
}
