/* Loops whose lanes lie along an axis that is kept: each has a sum of its own.
 */
#include "backend/cpu/nests.h"

enum { COLUMNS = 64 };

#define format emit_format

typedef struct Columns {
  uint32_t vectors; /* of a block, at most */
  bool runs, block; /* block: it is whole */
  Buffer whole, part;
} Columns;

/* The sums of a block whose vectors are known stay in registers. */
static void emit_held_end(Buffer *out, const Columns *c, const Buffer *whole) {
  buffer_printf(out,
                "#pragma GCC unroll %u\nfor (int a = 0; a < %u; a++) {\n"
                "const int64_t j = start + a * W;\n(void)j;\n",
                c->vectors, c->vectors);
  emit_put(out, whole);
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
  BestPart p = {f->class, f->name, f->far, "", NULL, f->out};
  if (f->where && e->s->chunk)
    emit_best_columns(e, out, &p, f->r->out->times[e->lane]);
  if (c->block) {
    emit_held_end(out, c, &whole);
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

/* The lanes of a whole block: their sums stay in registers. */
static void emit_block(Emitter *e, Buffer *out, uint32_t vectors,
                       const Buffer *text) {
  buffer_printf(out,
                "#pragma GCC unroll %u\nfor (int a = 0; a < %u; a++) {\n"
                "const int64_t j = start + a * W;\n(void)j;\n%s",
                vectors, vectors, whole_macros);
  emit_put(out, &e->blocks[e->lane_level]);
  emit_put(out, &e->checks);
  emit_put(out, text);
  buffer_printf(out, "%s}\n", no_macros);
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
    emit_block(e, out, c->vectors, &c->whole);
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

/* How many vectors are gone through at a time. */
static uint32_t block_vectors(const Emitter *e) {
  int64_t most = nest_is_outer(e) ? e->s->block : e->loop->extents[e->lane];
  if (!size_is_number(e->k->graph, most))
    return COLUMNS;
  int64_t vectors = (most + e->s->width - 1) / e->s->width;
  return nest_is_outer(e) || vectors <= schedule_held(e->s->bytes)
             ? (uint32_t)vectors
             : COLUMNS;
}

/* Whole blocks, and others. */
static void emit_held(Emitter *e, Nest *n, Columns *c) {
  uint32_t opened = n->opened;
  buffer_printf(n->out, "if (end - start == %u * W) {\n", c->vectors);
  c->block = true;
  emit_column_loops(e, n, c);
  buffer_puts(n->out, "} else {\n");
  n->opened = opened;
  c->block = false;
  emit_column_loops(e, n, c);
  buffer_puts(n->out, "}\n");
}

void nest_columns(Emitter *e, Nest *n) {
  Buffer *out = n->out;
  bool outer = nest_is_outer(e);
  Columns c = {.vectors = block_vectors(e), .whole = {.arena = e->arena}};
  c.part = c.whole;
  nest_open(e, n, n->kept);
  if (outer)
    nest_range(e, out, true);
  else
    buffer_printf(out,
                  "for (int64_t start = %s, last = %s; start < last; "
                  "start += %u * W) {\n"
                  "const int64_t end = start + %u * W < last ? start + %u * W "
                  ": last;\n",
                  nest_from(e, e->lane), nest_to(e, e->lane), c.vectors,
                  c.vectors, c.vectors);
  for (uint32_t j = 0; j < n->count; j++) {
    const Fold *f = &n->folds[j];
    if (f->op == PRIM_NONE) {
      const char *x = emit_stored(e, f->r->step, f->r->dtype);
      nest_store(e, &c.whole, f, x, true);
      nest_store(e, &c.part, f, x, false);
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
  if (!outer)
    buffer_puts(out, "}\n");
  nest_close(n, 0);
}
