/* Loops whose lanes lie along an axis that is kept: each has a sum of its own.
 */
#include "backend/cpu/nests.h"

enum {
  COLUMNS = 64,
  BLOCK_VECTORS = 4, /* of sums that are written out */
};

#define format emit_format

typedef struct Columns {
  uint32_t vectors; /* of a block, at most */
  bool runs, block; /* block: it is whole */
  Buffer whole, part;
} Columns;

/* The sums of a block whose vectors are known stay in registers. */
static void emit_held_end(Buffer *out, const Columns *c, const Buffer *whole,
                          const Buffer *part) {
  buffer_printf(out,
                "#pragma GCC unroll %u\nfor (int a = 0; a < %u; a++) {\n"
                "const int64_t j = start + a * W;\n(void)j;\n",
                c->vectors, c->vectors);
  if (!c->block)
    buffer_puts(out, "if (j + W <= end) {\n");
  emit_put(out, whole);
  if (!c->block) {
    buffer_puts(out, "} else if (j < end) {\n"
                     "const int rest = (int)(end - j);\n");
    emit_put(out, part);
    buffer_puts(out, "}\n");
  }
  buffer_puts(out, "}\n");
}

static void emit_column_end(Emitter *e, Buffer *out, const Fold *f,
                            const Columns *c) {
  Buffer whole = {.arena = e->arena}, part = whole;
  Fold stored = *f;
  Result r = *f->r;
  stored.r = &r;
  r.dtype = nest_stored(e, f);
  char class = class_of(r.dtype), from = c->runs ? nest_end_class(f) : f->class;
  const char *name = c->runs && f->runs ? "sum" : f->where ? "at" : "acc";
  const char *x = format(e, "%s%u[a]", name, f->name);
  if (f->where && !f->far)
    x = format(e, "wide(%s)", x);
  else if (!f->where && class != from)
    x = format(e, "CONVERT(%s, v%c)", x, class);
  nest_store(e, &whole, &stored, x, true);
  nest_store(e, &part, &stored, x, false);
  BestPart p = {f->class, f->name, f->far, NULL, f->out};
  if (f->where && e->s->chunk)
    emit_best_columns(e, out, &p, f->r->out->times[e->lane]);
  if (c->block || e->few) {
    emit_held_end(out, c, &whole, &part);
    return;
  }
  buffer_puts(out, "for (int64_t j = start, a = 0; j < end; j += W, a++)\n"
                   "if (j + W <= end) {\n");
  emit_put(out, &whole);
  buffer_puts(out, "} else {\nconst int rest = (int)(end - j);\n");
  emit_put(out, &part);
  buffer_puts(out, "}\n");
}

static void declare_columns(Emitter *e, Buffer *out, const Fold *f,
                            uint32_t vectors, bool runs) {
  buffer_printf(out, "v%c acc%u[%u];\n", vector_letter(f->class), f->name,
                vectors);
  if (f->where)
    buffer_printf(out, "v%c at%u[%u];\n", f->far ? 'l' : 'i', f->name, vectors);
  if ((runs && f->runs))
    buffer_printf(out, "vd sum%u[%u];\n", f->name, vectors);
  buffer_printf(out,
                "for (int a = 0; a < %u; a++) {\nacc%u[a] = splat_%c(%s);\n",
                vectors, f->name, f->class, f->where ? "0" : f->identity);
  if (f->where)
    buffer_printf(out, "at%u[a] = splat_%c(-1);\n", f->name,
                  f->far ? 'l' : 'i');
  if ((runs && f->runs))
    buffer_printf(out, "sum%u[a] = (vd){0};\n", f->name);
  buffer_puts(out, "}\n");
  (void)e;
}

/* The innermost reduced axis in runs, after each of which sums of floats go
 * into doubles. */
static void open_runs(Nest *n, const char *from, const char *to) {
  buffer_printf(n->out,
                "for (int64_t run = %s, stop = %s; run < stop; run += %d) {\n"
                "const int64_t full = run + %d < stop ? run + %d : stop;\n",
                from, to, RUN, RUN, RUN);
}

static void close_runs(Nest *n, uint32_t vectors) {
  for (uint32_t j = 0; j < n->count; j++)
    if (n->folds[j].runs)
      buffer_printf(n->out,
                    "for (int a = 0; a < %u; a++) {\n"
                    "sum%u[a] += CONVERT(acc%u[a], vd);\nacc%u[a] = (vf){0};\n"
                    "}\n",
                    vectors, n->folds[j].name, n->folds[j].name,
                    n->folds[j].name);
  buffer_puts(n->out, "}\n");
}

/* Can vectors of which no lane is left be gone through like others? */
static bool reads_by_masks(const Emitter *e) {
  for (uint32_t j = 0; j < e->loop->steps.len; j++) {
    const Step *s = &e->loop->steps.at[j];
    bool reads = s->kind == STEP_READ || s->kind == STEP_LOCAL;
    if (reads && e->varies[j] && !emit_is_near(e, s))
      return false;
  }
  return true;
}

/* The lanes of a block as so many vectors: their sums stay in registers.  part:
 * it is not whole. */
static void emit_block(Emitter *e, Buffer *out, uint32_t vectors,
                       const Buffer *text, bool part) {
  bool masks = part && reads_by_masks(e);
  buffer_printf(out,
                "#pragma GCC unroll %u\nfor (int a = 0; a < %u; a++) {\n"
                "const int64_t j = start + a * W;\n(void)j;\n",
                vectors, vectors);
  if (part)
    buffer_printf(out,
                  "const int rest = end - j < W ? end - j < 0 ? 0 : "
                  "(int)(end - j) : W;\n"
                  "%s%s",
                  masks ? "(void)rest;\n" : "if (rest > 0) {\n", part_macros);
  else
    buffer_puts(out, whole_macros);
  emit_put(out, &e->blocks[e->lane_level]);
  emit_put(out, &e->checks);
  emit_put(out, text);
  buffer_printf(out, "%s}\n%s", no_macros, part && !masks ? "}\n" : "");
}

/* Lanes and, in each of these, several terms of its sum, from `from` on; what
 * is left of them is for a loop that begins at `term`. */
static void emit_terms(Emitter *e, Nest *n, const Columns *c, const char *from,
                       const char *to) {
  uint32_t v = e->order[n->opened];
  int terms = (int)e->s->terms;
  Buffer lanes = e->blocks[e->lane_level], body = {.arena = e->arena};
  Buffer whole = body, part = body;
  buffer_printf(&body,
                "#pragma GCC unroll %d\nfor (int t = 0; t < %d; t++) {\n"
                "const int64_t i%u = term + t;\n",
                terms, terms, v);
  emit_put(&body, &e->blocks[e->level_of[v]]);
  emit_put(&body, &lanes);
  emit_put(&whole, &c->whole);
  emit_put(&part, &c->part);
  buffer_puts(&whole, "}\n");
  buffer_puts(&part, "}\n");
  buffer_printf(n->out,
                "int64_t term = %s;\nfor (; term + %d <= %s; term += %d) {\n"
                "int64_t j = start, a = 0;\n",
                from, terms, to, terms);
  e->blocks[e->lane_level] = body;
  emit_lane_loop(e, n->out, ", a++", &whole, &part);
  e->blocks[e->lane_level] = lanes;
  buffer_puts(n->out, "}\n");
}

static void emit_column_loops(Emitter *e, Nest *n, const Columns *c) {
  Buffer *out = n->out;
  for (uint32_t j = 0; j < n->count; j++)
    if (n->folds[j].op != PRIM_NONE)
      declare_columns(e, out, &n->folds[j], c->vectors, c->runs);
  bool terms = e->s->terms > 1 && !c->block;
  nest_open(e, n, e->loops - (c->runs || terms));
  const char *from = NULL, *to = NULL;
  if (n->opened < e->loops) {
    from = nest_from(e, e->order[n->opened]);
    to = nest_to(e, e->order[n->opened]);
  }
  if (c->runs) {
    open_runs(n, from, to);
    from = "run", to = "full";
  }
  if (terms) {
    emit_terms(e, n, c, from, to);
    from = "term";
  }
  if (n->opened < e->loops)
    nest_open_one(e, n, from, to);
  if (c->block) {
    emit_block(e, out, c->vectors, &c->whole, false);
  } else if (e->few) {
    emit_block(e, out, c->vectors, &c->part, true);
  } else {
    buffer_puts(out, "int64_t j = start, a = 0;\n(void)a;\n");
    emit_lane_loop(e, out, ", a++", &c->whole, &c->part);
  }
  nest_close(n, e->loops - (c->runs || terms));
  if (c->runs)
    close_runs(n, c->vectors);
  nest_close(n, n->kept);
  for (uint32_t j = 0; j < n->count; j++)
    if (n->folds[j].op != PRIM_NONE)
      emit_column_end(e, out, &n->folds[j], c);
}

bool nest_is_short(const Emitter *e, const Loop *loop, uint32_t lane) {
  if (lane + 1 == loop->outer && e->s->shape != UNIT_TILE)
    return false;
  if (loop->results.len != 1 || !sums_are_short(loop) || lane >= loop->kept)
    return false;
  for (uint32_t v = loop->kept; v < loop->axes; v++)
    if (is_limited(loop, v) || (e->s->chunk && v == loop->kept))
      return false;
  return true;
}

/* Vectors of a block of few terms: such that blocks have no idle ones. */
static uint32_t few_vectors(int64_t vectors) {
  uint32_t best = BLOCK_VECTORS;
  if (vectors <= best)
    return (uint32_t)vectors;
  for (uint32_t v = best; v > 1; v--)
    if ((vectors + v - 1) / v * v < (vectors + best - 1) / best * best)
      best = v;
  return best;
}

/* How many vectors are gone through at a time. */
static uint32_t block_vectors(const Emitter *e) {
  int64_t most = nest_is_outer(e) ? e->s->block : e->loop->extents[e->lane];
  if (!size_is_number(e->k->graph, most))
    return e->few ? BLOCK_VECTORS : COLUMNS;
  int64_t vectors = (most + e->s->width - 1) / e->s->width;
  if (e->few)
    return few_vectors(vectors);
  return nest_is_outer(e) || vectors <= schedule_held(e->s->bytes)
             ? (uint32_t)vectors
             : COLUMNS;
}

/* Whole blocks, and others, where there may be such. */
static void emit_held(Emitter *e, Nest *n, Columns *c) {
  int64_t extent = e->loop->extents[e->lane];
  int64_t block = (int64_t)c->vectors * e->s->width;
  bool number = size_is_number(e->k->graph, extent) && e->few;
  int64_t unit = nest_is_outer(e) ? e->s->block : extent;
  bool whole = !number || (extent >= block && unit >= block);
  bool part = !number || extent % block || unit % block;
  uint32_t opened = n->opened;
  if (whole && part)
    buffer_printf(n->out, "if (end - start == %u * W) {\n", c->vectors);
  c->block = true;
  if (whole && !part)
    buffer_puts(n->out, "(void)end;\n");
  if (whole)
    emit_column_loops(e, n, c);
  if (whole && part)
    buffer_puts(n->out, "} else {\n");
  n->opened = opened;
  c->block = false;
  if (part)
    emit_column_loops(e, n, c);
  if (whole && part)
    buffer_puts(n->out, "}\n");
}

void nest_columns(Emitter *e, Nest *n) {
  Buffer *out = n->out;
  bool outer = nest_is_outer(e), once = outer && !e->few;
  Columns c = {.vectors = block_vectors(e), .whole = {.arena = e->arena}};
  c.part = c.whole;
  nest_open(e, n, n->kept);
  if (once)
    nest_range(e, out, true);
  else
    buffer_printf(out,
                  "for (int64_t start = %s, last = %s; start < last; "
                  "start += %u * W) {\n"
                  "const int64_t end = start + %u * W < last ? start + %u * W "
                  ": last;\n",
                  outer ? "lo" : nest_from(e, e->lane),
                  outer ? "hi" : nest_to(e, e->lane), c.vectors, c.vectors,
                  c.vectors);
  for (uint32_t j = 0; j < n->count; j++) {
    const Fold *f = &n->folds[j];
    if (f->op == PRIM_NONE) {
      char class = class_of(f->r->dtype);
      nest_store(e, &c.whole, f, emit_lanes(e, f->r->step, class), true);
      nest_store(e, &c.part, f, emit_lanes(e, f->r->step, class), false);
      continue;
    }
    c.runs |= f->runs;
    nest_take(e, &c.whole, f, "[a]", false);
    nest_take(e, &c.part, f, "[a]", false);
  }
  if (c.vectors <= schedule_held(e->s->bytes))
    emit_held(e, n, &c);
  else
    emit_column_loops(e, n, &c);
  if (!once)
    buffer_puts(out, "}\n");
  nest_close(n, 0);
}
