/* Sums, or maxima, of few terms, whose lanes lie along an axis that is kept:
 * the terms are written out, and what is summed up stays in registers, so many
 * vectors of a block.
 *
 * Where windows of neighbouring rows overlap, several rows go at a time: a
 * vector is loaded once for all of them.  The sum then goes over the rows that
 * are read, *lines*, and of each line there is a term of each row whose window
 * has it.  Where terms are many, loops go over those of other axes, around the
 * lines.  What terms have that is the same for all rows and lanes, as weights
 * are, is read before all of these, as vectors.  Where lines end in padding,
 * the lanes that are inside are found out once for all lines (masked.c).
 * What would finish such sums in a loop of its own does it here. */
#include "backend/cpu/nests.h"
#include "backend/cpu/window.h"

#include <string.h>

enum {
  BLOCK_VECTORS = 4, /* of a row, at most, */
  SUMS = 8,          /* of all rows: with more, gcc takes twice as long */
  WRITTEN = 100,     /* such that no more terms of all rows are written out, */
  ROLLED = 16,       /* and terms are, where there are more, but in loops */
  STRIPS = 64,       /* vectors of a row, the lanes of which are found ahead */
};

#define format emit_format

typedef struct Few {
  Emitter *e;
  uint32_t at, lane;
  uint32_t others, row; /* axes around the rows, in order; rows, or NO_LANE */
  uint32_t order[KERNEL_AXES];
  uint32_t rows, vectors; /* at a time */
  /* line = step * row + by * term + a number */
  uint32_t term, line; /* NO_LANE: rows do not go together */
  int64_t step, by;
  bool rolled;           /* loops over other axes of terms are around lines */
  bool padded;           /* lines end in padding */
  uint32_t *ahead;       /* loads that are the same for all rows of a line, */
  uint32_t aheads;       /* so many */
  const char **given;    /* of steps: where they are already, or NULL */
  Buffer loads;          /* the loop of the loads ahead, */
  Buffer common[LEVELS]; /* and what that needs between the loops */
  uint32_t line_level;
  Buffer weights;          /* the loops of what is read before all rows, */
  Buffer weighing[LEVELS]; /* and what that needs around them */
  Spans spans;
  Buffer sums[2][2], ends[2][2]; /* of one row or several; of a whole block or
                                    a part */
  Buffer levels[LEVELS];         /* what is between the loops */
} Few;

bool nest_is_short(const Schedule *s, const Loop *loop, uint32_t lane) {
  if (lane + 1 == loop->outer && s->shape != UNIT_TILE)
    return false;
  if (loop->results.len != 1 || !sums_are_short(loop) || lane >= loop->kept)
    return false;
  for (uint32_t v = loop->kept; v < loop->axes; v++)
    if (is_limited(loop, v) || (s->chunk && v == loop->kept))
      return false;
  return true;
}

/* ---- rows that go together ---- */

static Quasi *form_of(const Step *s) {
  return s->kind == STEP_INDEX                           ? s->index
         : s->kind == STEP_READ || s->kind == STEP_LOCAL ? s->address
                                                         : NULL;
}

/* Is the axis in all forms with the term a multiple of one line, in which
 * windows of neighbouring rows overlap? */
static bool goes_with(const Loop *loop, Few *f, uint32_t term) {
  int64_t step = 0, by = 0;
  for (uint32_t j = 0; j < loop->quotient_count; j++)
    if (loop->quotients[j].of.times[f->row] ||
        loop->quotients[j].of.times[term])
      return false;
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Quasi *q = form_of(&loop->steps.at[j]);
    if (!q || !q->times[f->row] || !q->times[term])
      continue;
    int64_t x = q->times[f->row], y = q->times[term];
    if (step ? !window_has_ratio(loop->graph, x, y, step, by)
             : !window_ratio(loop->graph, x, y, &step, &by))
      return false;
  }
  if (step < 0) { /* rows go up */
    step = -step;
    by = -by;
  }
  int64_t far = (by < 0 ? -by : by) * (loop->extents[term] - 1);
  if (!step || far < step)
    return false;
  f->step = step;
  f->by = by;
  f->term = term;
  return true;
}

/* Lines that so many rows read. */
static int64_t lines_of(const Few *f, const Loop *loop, uint32_t rows) {
  int64_t by = f->by < 0 ? -f->by : f->by;
  return f->step * (rows - 1) + by * (loop->extents[f->term] - 1) + 1;
}

/* Are a quarter of the loads saved, at least? */
static bool saves_loads(const Few *f, const Loop *loop, uint32_t rows) {
  return 4 * lines_of(f, loop, rows) <= 3 * rows * loop->extents[f->term];
}

/* As many as read the fewest lines, of all rows that a unit has. */
static uint32_t best_rows(const Few *f, const Loop *loop, uint32_t most) {
  const Schedule *s = f->e->s;
  bool unit = f->row < loop->outer && s->shape == UNIT_TILE && !s->tiling;
  int64_t all = unit ? s->height : loop_guess(loop, f->row), least = INT64_MAX;
  uint32_t best = most;
  for (uint32_t rows = most; rows > 1; rows--) {
    int64_t lines = all / rows * lines_of(f, loop, rows) +
                    all % rows * lines_of(f, loop, 1);
    if (lines < least && saves_loads(f, loop, rows)) {
      least = lines;
      best = rows;
    }
  }
  return best;
}

/* Are there as many terms for all sizes? */
static bool are_numbers(const Loop *loop) {
  for (uint32_t v = loop->kept; v < loop->axes; v++)
    if (!size_is_number(loop->graph, loop->extents[v]))
      return false;
  return true;
}

static void choose_rows(const Loop *loop, Few *f) {
  f->rows = 1;
  f->term = NO_LANE;
  if (f->row == NO_LANE || loop->axes == KERNEL_AXES)
    return;
  int64_t extent = loop_guess(loop, f->row);
  uint32_t most = SUMS / f->vectors;
  most = extent < most ? (uint32_t)extent : most;
  for (uint32_t v = loop->kept; v < loop->axes && most > 1; v++) {
    if (!size_is_number(loop->graph, loop->extents[v]) ||
        !goes_with(loop, f, v))
      continue;
    double terms = loop_points(loop, loop->kept, loop->axes);
    bool rolled = !are_numbers(loop) ||
                  (terms > ROLLED && terms > (double)loop->extents[v]);
    double rows = WRITTEN / (rolled ? (double)loop->extents[v] : terms);
    rows = rows < most ? rows : most;
    if (rows < 2 || !saves_loads(f, loop, (uint32_t)rows))
      continue;
    f->line = loop->axes;
    f->rolled = rolled;
    f->rows = best_rows(f, loop, (uint32_t)rows);
    return;
  }
  f->term = NO_LANE;
}

/* A line, in a form with a row and a term. */
static int64_t line_of(const Loop *loop, const Few *f, const Quasi *q) {
  int64_t x = q->times[f->row], y = q->times[f->term], line = INT64_MAX;
  if (size_is_number(loop->graph, x) && size_is_number(loop->graph, y))
    return x / f->step;
  if (f->step == 1) /* else a term is one, up or down */
    return x;
  return size_mul(loop->graph, y, f->by, &line) ? line : INT64_MAX;
}

/* The loop with lines in place of rows and terms, where these go together. */
static Loop *by_lines(Arena *arena, const Loop *from, const Few *f) {
  Loop *loop = loop_copy(arena, from);
  loop->extents[loop->axes++] = 1;
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    Quasi *q = form_of(&loop->steps.at[j]);
    if (!q || !q->times[f->row] || !q->times[f->term])
      continue;
    q->times[f->line] = line_of(loop, f, q);
    q->times[f->row] = q->times[f->term] = 0;
  }
  return loop;
}

/* Vectors of a block: such that blocks have no idle ones. */
static uint32_t few_vectors(const Emitter *e, const Loop *loop, uint32_t lane) {
  bool outer = lane + 1 == loop->outer;
  int64_t most = outer ? e->s->block : loop->extents[lane];
  uint32_t best = BLOCK_VECTORS;
  if (!size_is_number(e->k->graph, most))
    return best;
  int64_t vectors = (most + e->s->width - 1) / e->s->width;
  if (vectors <= best)
    return (uint32_t)vectors;
  for (uint32_t v = best; v > 1; v--)
    if ((vectors + v - 1) / v * v < (vectors + best - 1) / best * best)
      best = v;
  return best;
}

/* ---- what finishes sums ---- */

static bool reads_sum(const Loop *loop, uint32_t at) {
  for (uint32_t j = 0; j < loop->steps.len; j++)
    if (loop->steps.at[j].kind == STEP_LOCAL && loop->steps.at[j].loop == at)
      return true;
  return false;
}

/* A multiple of the one inner axis becomes multiples of the inner axes of the
 * sums, over which it goes as over one; false: an overflow. */
static bool spread(const Loop *sums, Quasi *q) {
  int64_t times = q ? q->times[sums->outer] : 0;
  for (uint32_t v = sums->kept; q && v-- > sums->outer;) {
    q->times[v] = times;
    if (!size_mul(sums->graph, times, sums->extents[v], &times))
      return false;
  }
  return true;
}

/* A copy of the loop over the axes of the sums; NULL: it goes over others. */
static Loop *over_axes_of(Arena *arena, const Loop *sums, const Loop *from) {
  uint32_t outer = sums->outer, inner = sums->kept - outer;
  bool same = from->axes == sums->kept, ok = true;
  int64_t all;
  for (uint32_t v = outer; same && v < sums->kept; v++)
    same = from->extents[v] == sums->extents[v];
  if (same)
    return loop_copy(arena, from);
  if (inner < 2 || from->axes != outer + 1 || from->quotient_count ||
      !size_product(sums->graph, inner, sums->extents + outer, &all) ||
      all != from->extents[outer])
    return NULL;
  Loop *loop = loop_copy(arena, from);
  loop->axes = loop->kept = sums->kept;
  for (uint32_t v = outer; v < sums->kept; v++)
    loop->extents[v] = sums->extents[v];
  for (uint32_t j = 0; j < loop->steps.len; j++)
    ok &= spread(sums, form_of(&loop->steps.at[j]));
  for (uint32_t j = 0; j < loop->results.len; j++)
    ok &= spread(sums, loop->results.at[j].out) &&
          spread(sums, loop->results.at[j].local);
  return ok ? loop : NULL;
}

/* Is it kept in memory as it is computed? */
static bool is_as_computed(const Loop *loop, const Result *r) {
  Dtype t = loop->steps.at[r->step].dtype;
  return r->dtype == t && (t == DT_F32 || t == DT_F64);
}

Loop *few_finish(const Kernel *k, const Schedule *s, Arena *arena,
                 uint32_t at) {
  const Loop *sums = k->loops.at[at];
  const Result *r = &sums->results.at[0];
  bool tile = s->shape == UNIT_TILE && !s->tiling;
  if ((s->shape != UNIT_POINT && !tile) || at + 1 == k->loops.len ||
      !nest_is_short(s, sums, s->lanes[at]) || r->out || !r->local ||
      !is_as_computed(sums, r) || s->chunk || s->portion)
    return NULL;
  const Loop *next = k->loops.at[at + 1];
  if (next->axes != next->kept || next->copy != COPY_NONE || next->limits ||
      next->portioned || next->results.len > RESULTS_MOST)
    return NULL;
  for (uint32_t j = at + 2; j < k->loops.len; j++)
    if (reads_sum(k->loops.at[j], at))
      return NULL;
  Loop *loop = reads_sum(next, at) ? over_axes_of(arena, sums, next) : NULL;
  for (uint32_t j = 0; loop && j < loop->steps.len; j++) {
    const Step *x = &loop->steps.at[j];
    if (x->kind == STEP_LOCAL && x->loop == at &&
        !quasi_equal(x->address, r->local))
      return NULL;
  }
  return loop;
}

/* ---- the sums ---- */

static int64_t low_line(const Few *f, const Loop *loop) {
  return f->by < 0 ? f->by * (loop->extents[f->term] - 1) : 0;
}

/* What is known at a level, for all rows of a line and for the rest. */
static void emit_known(const Few *f, Buffer *out, uint32_t level) {
  emit_put(out, &f->common[level]);
  emit_put(out, &f->e->blocks[level]);
}

static void unroll(Buffer *out, long long times) {
  buffer_printf(out, "#pragma GCC unroll %lld\n", times);
}

/* How many there are may be open. */
static void open_terms(const Few *f, Buffer *out, uint32_t v) {
  Emitter *e = f->e;
  int64_t extent = e->loop->extents[v];
  bool number = size_is_number(e->k->graph, extent);
  if (number && !f->rolled)
    unroll(out, extent);
  buffer_printf(out, "for (int64_t i%u = 0; i%u < %s; i%u++) {\n", v, v,
                number ? format(e, "%lld", (long long)extent)
                       : emit_int(e, extent),
                v);
  emit_known(f, out, f->e->level_of[v]);
}

/* Lines that so many rows read, and the rows that a line has terms of. */
static void open_lines(Few *f, Buffer *out, uint32_t rows) {
  Emitter *e = f->e;
  int64_t low = low_line(f, e->loop);
  long long lines = lines_of(f, e->loop, rows);
  buffer_printf(out,
                "#pragma GCC unroll %lld\nfor (int q = 0; q < %lld; q++) {\n"
                "const int64_t i%u = row * %lld + (q + %lld);\n(void)i%u;\n",
                lines, lines, f->line, (long long)f->step, (long long)low,
                f->line);
  emit_known(f, out, e->level_of[f->line]);
}

static void open_rows(Few *f, Buffer *out, uint32_t rows) {
  Emitter *e = f->e;
  long long terms = e->loop->extents[f->term], low = low_line(f, e->loop),
            by = f->by;
  buffer_printf(
      out,
      "#pragma GCC unroll %u\nfor (int r = 0; r < %u; r++) {\n"
      "const int far = q + %lld - r * %lld;\n"
      "if (far %% %lld != 0 || far / %lld < 0 || far / %lld >= %lld)\n"
      "continue;\n"
      "const int64_t i%u = row + r, i%u = far / %lld;\n"
      "(void)i%u, (void)i%u;\n",
      rows, rows, low, (long long)f->step, by, by, by, terms, f->row, f->term,
      by, f->row, f->term);
  emit_put(out, &e->blocks[e->level_of[f->row]]);
  emit_put(out, &e->blocks[e->level_of[f->term]]);
}

/* Can vectors of which no lane is left be gone through like others? */
static bool reads_by_masks(const Few *f) {
  const Emitter *e = f->e;
  for (uint32_t j = 0; j < e->loop->steps.len; j++) {
    const Step *s = &e->loop->steps.at[j];
    bool reads = s->kind == STEP_READ || s->kind == STEP_LOCAL;
    bool there = (f->given && f->given[j]) || !emit_is_needed(e, j);
    if (reads && e->varies[j] && !there && !emit_is_near(e, s))
      return false;
  }
  return true;
}

static const char rest_text[] =
    "const int rest = end - j < W ? end - j < 0 ? 0 : (int)(end - j) : W;\n";

static void open_vectors(Buffer *out, uint32_t vectors) {
  buffer_printf(out,
                "#pragma GCC unroll %u\nfor (int a = 0; a < %u; a++) {\n"
                "const int64_t j = start + a * W;\n(void)j;\n",
                vectors, vectors);
}

/* The lanes of a block.  part: it is not whole. */
static void emit_block(Few *f, Buffer *out, const Buffer *text, bool part) {
  Emitter *e = f->e;
  bool masks = part && reads_by_masks(f);
  open_vectors(out, f->vectors);
  if (part)
    buffer_printf(out, "%s%s%s", rest_text,
                  masks ? "(void)rest;\n" : "if (rest > 0) {\n", part_macros);
  else
    buffer_puts(out, whole_macros);
  emit_put(out, &e->blocks[e->lane_level]);
  emit_put(out, &e->checks);
  emit_put(out, text);
  buffer_printf(out, "%s}\n%s", no_macros, part && !masks ? "}\n" : "");
}

/* ---- what all rows of a line share ---- */

/* Is it loaded, with lanes left out or whole? */
static bool is_load(const Emitter *e, uint32_t at) {
  const Step *s = &e->loop->steps.at[at];
  return emit_is_masked(e, at) ||
         ((s->kind == STEP_READ || s->kind == STEP_LOCAL) && e->varies[at] &&
          emit_is_near(e, s));
}

/* Does something else than these read the step, or is it the result? */
static bool is_wanted(const Loop *loop, const bool *shared, uint32_t at) {
  for (uint32_t j = at + 1; j < loop->steps.len; j++)
    for (uint32_t a = 0; a < loop->steps.at[j].arg_count; a++)
      if (loop->steps.at[j].args[a] == at && !shared[j])
        return true;
  return loop->results.at[0].step == at;
}

/* Lanes that are loaded, and depend on the line, not on the row that it is
 * for. */
static void find_ahead(Few *f, const Loop *loop) {
  Emitter *e = f->e;
  const uint64_t *depends = loop_depends(e->arena, loop);
  uint64_t rows = (uint64_t)1 << f->row | (uint64_t)1 << f->term;
  bool *shared = NEW_ARRAY(e->arena, bool, loop->steps.len);
  f->ahead = NEW_ARRAY(e->arena, uint32_t, loop->steps.len);
  f->aheads = 0;
  for (uint32_t j = 0; j < loop->steps.len; j++)
    shared[j] = !(depends[j] & rows) && is_load(e, j);
  /* the element of a choice that is one load is none itself */
  for (uint32_t j = 0; j < loop->steps.len; j++)
    if (emit_is_masked(e, j))
      shared[loop->steps.at[j].args[1]] = false;
  for (uint32_t j = 0; j < loop->steps.len; j++)
    if (shared[j] && is_wanted(loop, shared, j))
      f->ahead[f->aheads++] = j;
}

static void emit_ahead_loop(Few *f) {
  Emitter *e = f->e;
  Buffer *out = &f->loads, copies = {.arena = e->arena};
  for (uint32_t j = 0; j < f->aheads; j++) {
    uint32_t name = e->names++, at = f->ahead[j];
    char class = e->classes[at];
    buffer_printf(out, "v%c in%u[%u];\n", vector_letter(class), name,
                  f->vectors);
    f->given[at] = format(e, "in%u[a]", name);
    buffer_printf(&copies, "%s = %s;\n", f->given[at],
                  emit_lanes(e, at, class));
  }
  open_vectors(out, f->vectors);
  buffer_printf(out, "%s(void)rest;\n%s", rest_text, part_macros);
  emit_put(out, &e->blocks[e->lane_level]);
  emit_put(out, &e->checks);
  emit_put(out, &copies);
  buffer_printf(out, "%s}\n", no_macros);
}

/* Are there so few vectors in a row that their lanes may be known ahead? */
static bool count_strips(Few *f, const Loop *loop) {
  const Schedule *s = f->e->s;
  bool outer = f->lane + 1 == loop->outer;
  int64_t row = outer ? s->block : loop->extents[f->lane];
  int64_t vectors =
      size_is_number(loop->graph, row) ? divide_up(row, s->width) : STRIPS + 1;
  f->spans.vectors = (uint32_t)vectors;
  return vectors <= STRIPS;
}

/* The loads of the first `count` loops around the lanes, of lines. */
static void begin_ahead(Few *f, const Loop *lines, uint32_t count,
                        const uint32_t *order) {
  Emitter *e = f->e;
  Loop *loop = loop_copy(e->arena, lines);
  emit_begin_loop(e, loop, f->lane, count, order);
  e->few = true;
  emit_placed(e);
  find_ahead(f, loop);
  if (!f->aheads)
    return;
  memset(&loop->results, 0, sizeof loop->results);
  for (uint32_t j = 0; j < f->aheads; j++) {
    Result r = {.step = f->ahead[j], .local = quasi_new(e->arena, 0)};
    VEC_PUSH(e->arena, loop->results, r);
  }
  f->spans.line = f->line;
  f->spans.known = true;
  f->spans.vector = "strip + a";
  e->spans = count_strips(f, loop) ? &f->spans : NULL;
  emit_needed(e);
  e->spans = NULL;
  emit_ahead_loop(f);
  memcpy(f->common, e->blocks, sizeof f->common);
  f->line_level = e->level_of[f->line];
}

/* ---- what terms have before all rows ---- */

/* Is it a float that is the same in all lanes and rows, differs with the terms,
 * and is read by lanes alone? */
static bool is_weight(const Few *f, const Loop *loop, const uint64_t *depends,
                      uint32_t at) {
  const Emitter *e = f->e;
  uint64_t terms = (uint64_t)0 - ((uint64_t)1 << loop->kept);
  uint64_t rows = (uint64_t)1 << f->row | (uint64_t)1 << f->line;
  if (e->varies[at] || !is_float_class(e->classes[at]) ||
      !(depends[at] & terms & ~rows) || depends[at] & rows)
    return false;
  for (uint32_t j = at + 1; j < loop->steps.len; j++)
    for (uint32_t a = 0; a < loop->steps.at[j].arg_count; a++)
      if (loop->steps.at[j].args[a] == at && !e->varies[j])
        return false;
  return true;
}

static void emit_weights(Few *f, const uint32_t *which, uint32_t count) {
  Emitter *e = f->e;
  const Loop *loop = e->loop;
  Buffer *out = &f->weights, body = {.arena = e->arena};
  const char *at = "0";
  long long all = 1;
  for (uint32_t j = f->others; j < e->loops; j++) {
    uint32_t v = e->order[j];
    long long extent = loop->extents[v];
    at = format(e, "(%s) * %lld + i%u", at, extent, v);
    all *= extent;
    open_terms(f, &body, v);
  }
  for (uint32_t j = 0; j < count; j++) {
    char class = e->classes[which[j]];
    const char *name = format(e, "w%u", e->names++);
    buffer_printf(out, "v%c %s[%lld];\n", vector_letter(class), name, all);
    f->given[which[j]] = format(e, "%s[%s]", name, at);
    buffer_printf(&body, "%s = %s;\n", f->given[which[j]],
                  emit_lanes(e, which[j], class));
  }
  emit_put(out, &body);
  for (uint32_t j = f->others; j < e->loops; j++)
    buffer_puts(out, "}\n");
}

/* Of the loop over lines, with the first `count` loops around the lanes but
 * that of lines, and that over the terms of rows. */
static void begin_weights(Few *f, const Loop *lines, uint32_t count,
                          const uint32_t *order) {
  Emitter *e = f->e;
  Loop *loop = loop_copy(e->arena, lines);
  uint32_t terms[KERNEL_AXES], loops = 0, found = 0;
  for (uint32_t j = 0; j < count; j++)
    terms[loops++] = order[j] == f->line ? f->term : order[j];
  emit_begin_loop(e, loop, f->lane, loops, terms);
  e->few = true;
  emit_placed(e);
  const uint64_t *depends = loop_depends(e->arena, loop);
  uint32_t *which = NEW_ARRAY(e->arena, uint32_t, loop->steps.len);
  for (uint32_t j = 0; j < loop->steps.len; j++)
    if (is_weight(f, loop, depends, j))
      which[found++] = j;
  if (!found || !are_numbers(lines))
    return;
  memset(&loop->results, 0, sizeof loop->results);
  for (uint32_t j = 0; j < found; j++) {
    Result r = {.step = which[j], .local = quasi_new(e->arena, 0)};
    VEC_PUSH(e->arena, loop->results, r);
  }
  emit_needed(e);
  emit_weights(f, which, found);
  memcpy(f->weighing, e->blocks, sizeof f->weighing);
}

/* Where the sum of a vector is. */
static const char *place(const Few *f) {
  return f->term == NO_LANE ? "[a]" : format(f->e, "[r * %u + a]", f->vectors);
}

/* Is what is summed up a product of floats, and nothing else reads it?  Then
 * it is not rounded before it is added, as in other sums of products. */
static bool is_product(const Loop *loop) {
  const Result *r = &loop->results.at[0];
  const Step *s = &loop->steps.at[r->step];
  if (r->reduce != PRIM_SUM || s->kind != STEP_OP || s->op != PRIM_MUL ||
      (s->dtype != DT_F32 && s->dtype != DT_F64))
    return false;
  for (uint32_t j = 0; j < loop->steps.len; j++)
    for (uint32_t a = 0; a < loop->steps.at[j].arg_count; a++)
      if (loop->steps.at[j].args[a] == r->step)
        return false;
  return true;
}

static void take(Few *f, Buffer *out, const Fold *fold) {
  Emitter *e = f->e;
  if (e->fused == NO_STEP) {
    nest_take(e, out, fold, place(f), false);
    return;
  }
  const Step *s = &e->loop->steps.at[e->fused];
  const char *acc = format(e, "acc%u%s", fold->name, place(f));
  buffer_printf(out, "%s = fused_%c(%s, %s, %s);\n", acc, fold->class,
                emit_lanes(e, s->args[0], fold->class),
                emit_lanes(e, s->args[1], fold->class), acc);
}

static void emit_sums(Few *f, const Fold *fold, uint32_t rows, bool part,
                      Buffer *out) {
  Emitter *e = f->e;
  Buffer text = {.arena = e->arena};
  uint32_t sums = rows * f->vectors, opened = 0;
  buffer_printf(out,
                "v%c acc%u[%u];\n#pragma GCC unroll %u\n"
                "for (int a = 0; a < %u; a++)\nacc%u[a] = splat_%c(%s);\n",
                vector_letter(fold->class), fold->name, sums, sums, sums,
                fold->name, fold->class, fold->identity);
  take(f, &text, fold);
  for (uint32_t j = f->others; j < e->loops; j++) {
    uint32_t v = e->order[j];
    if (v < e->loop->kept || v == f->term)
      continue;
    opened++;
    if (v == f->line) {
      open_lines(f, out, rows);
      continue;
    }
    open_terms(f, out, v);
  }
  emit_put(out, &f->loads);
  if (f->term != NO_LANE) {
    open_rows(f, out, rows);
    opened++;
  }
  emit_block(f, out, &text, part);
  while (opened--)
    buffer_puts(out, "}\n");
}

/* ---- what is done with them ---- */

static void emit_vector_end(Few *f, const Fold *folds, uint32_t count,
                            const Fold *sum, Buffer *out, bool whole) {
  Emitter *e = f->e;
  const char *x = format(e, "acc%u%s", sum->name, place(f));
  buffer_puts(out, whole ? whole_macros : part_macros);
  if (e->given) {
    emit_put(out, &e->blocks[e->lane_level]);
    emit_put(out, &e->checks);
  }
  for (uint32_t j = 0; j < count; j++) {
    const Fold *g = &folds[j];
    char class = class_of(g->r->dtype);
    if (e->given)
      x = emit_lanes(e, g->r->step, class);
    else if (class != sum->class)
      x = format(e, "CONVERT(%s, v%c)", x, class);
    nest_store(e, out, g, x, whole);
  }
  buffer_puts(out, no_macros);
}

static void emit_end(Few *f, const Fold *folds, uint32_t count, const Fold *sum,
                     uint32_t rows, bool part, Buffer *out) {
  Emitter *e = f->e;
  if (f->term != NO_LANE) {
    buffer_printf(out,
                  "#pragma GCC unroll %u\nfor (int r = 0; r < %u; r++) {\n"
                  "const int64_t i%u = row + r;\n(void)i%u;\n",
                  rows, rows, f->row, f->row);
    emit_put(out, &e->blocks[e->level_of[f->row]]);
  }
  open_vectors(out, f->vectors);
  if (part)
    buffer_puts(out, "if (j + W <= end) {\n");
  emit_vector_end(f, folds, count, sum, out, true);
  if (part) {
    buffer_puts(out, "} else if (j < end) {\n"
                     "const int rest = (int)(end - j);\n(void)rest;\n");
    emit_vector_end(f, folds, count, sum, out, false);
    buffer_puts(out, "}\n");
  }
  buffer_puts(out, f->term != NO_LANE ? "}\n}\n" : "}\n");
}

/* The loop whose values finish the sums, or just where these go. */
static uint32_t begin_end(Few *f, Loop *finish, const Fold *sum, Fold *folds) {
  Emitter *e = f->e;
  const Loop *loop = finish ? finish : e->k->loops.at[f->at];
  uint32_t loops = f->others + (f->term != NO_LANE), count = 0;
  emit_begin_loop(e, loop, f->lane, loops, f->order);
  e->few = false;
  e->at = f->at + (finish != NULL);
  if (finish) {
    const char **given = NEW_ARRAY(e->arena, const char *, loop->steps.len);
    for (uint32_t j = 0; j < loop->steps.len; j++) {
      const Step *s = &loop->steps.at[j];
      if (s->kind == STEP_LOCAL && s->loop == f->at)
        given[j] = format(e, "acc%u%s", sum->name, place(f));
    }
    e->given = given;
    emit_steps(e);
  }
  for (uint32_t j = 0; j < loop->results.len; j++) {
    const Result *r = &loop->results.at[j];
    if (!r->out && !r->local)
      continue;
    folds[count] = finish ? nest_fold(e, j) : *sum;
    nest_place(e, e->at, j, &folds[count++]);
  }
  return count;
}

/* ---- the whole ---- */

static void emit_part(Few *f, Buffer *out, bool several, bool part) {
  emit_put(out, &f->sums[several][part]);
  emit_put(out, &f->ends[several][part]);
}

/* Blocks of a row, or of several: whole ones, and others, where there may be
 * such. */
static void emit_columns(Few *f, Buffer *out, bool several, bool whole,
                         bool part) {
  Emitter *e = f->e;
  bool outer = nest_is_outer(e);
  buffer_printf(out,
                "for (int64_t start = %s, last = %s; start < last; "
                "start += %u * W) {\n"
                "const int64_t end = start + %u * W < last ? start + %u * W "
                ": last;\n",
                outer ? "lo" : nest_from(e, f->lane),
                outer ? "hi" : nest_to(e, f->lane), f->vectors, f->vectors,
                f->vectors);
  if (whole && part)
    buffer_printf(out, "if (end - start == %u * W) {\n", f->vectors);
  else if (whole)
    buffer_puts(out, "(void)end;\n");
  if (whole)
    emit_part(f, out, several, false);
  if (whole && part)
    buffer_puts(out, "} else {\n");
  if (part)
    emit_part(f, out, several, true);
  buffer_puts(out, whole && part ? "}\n}\n" : "}\n");
}

/* Is there anything left of rows that go several at a time?  Tiles of products
 * may have any number of them. */
static bool has_rest(const Few *f, const Loop *loop) {
  const Schedule *s = f->e->s;
  return !size_is_number(loop->graph, loop->extents[f->row]) ||
         loop->extents[f->row] % f->rows || is_limited(loop, f->row) ||
         (f->row < loop->outer && (s->tiling || s->height % f->rows));
}

static void emit_rows(Few *f, Buffer *out, bool whole, bool part) {
  Emitter *e = f->e;
  if (f->term == NO_LANE) {
    emit_columns(f, out, false, whole, part);
    return;
  }
  const char *to = nest_to(e, f->row);
  buffer_printf(out, "int64_t row = %s;\nfor (; row + %u <= %s; row += %u) {\n",
                nest_from(e, f->row), f->rows, to, f->rows);
  emit_columns(f, out, true, whole, part);
  buffer_puts(out, "}\n");
  if (!has_rest(f, e->k->loops.at[f->at]))
    return;
  buffer_printf(out, "for (; row < %s; row++) {\n", to);
  emit_columns(f, out, false, whole, part);
  buffer_puts(out, "}\n");
}

/* The strips of some rows, one after the other. */
static void emit_strips(Few *f, Buffer *out, bool several, bool part,
                        int inside) {
  buffer_printf(out, "enum { inside = %d };\n", inside || !f->spans.when);
  buffer_printf(out,
                "for (int64_t start = first, last = stop; start < last; "
                "start += %u * W) {\n"
                "const int64_t end = start + %u * W < last ? start + %u * W "
                ": last;\nconst int64_t strip = (start - first) / W;\n"
                "(void)end, (void)strip;\n",
                f->vectors, f->vectors, f->vectors);
  emit_part(f, out, several, part);
  buffer_puts(out, "}\n");
}

/* Several rows: most often, all lines are there. */
static void emit_lines(Few *f, Buffer *out, bool part) {
  Emitter *e = f->e;
  const Loop *loop = e->k->loops.at[f->at];
  int64_t low = low_line(f, loop), last = lines_of(f, loop, f->rows) - 1;
  if (!f->spans.when || !f->spans.known) {
    emit_strips(f, out, true, part, 0);
    return;
  }
  buffer_puts(out, "int all = 1;\n");
  for (uint32_t j = 0; j < 2; j++) {
    buffer_puts(out, "{\n");
    for (uint32_t v = loop->kept; f->rolled && v < loop->axes; v++)
      if (v != f->term) /* of any term */
        buffer_printf(out, "const int64_t i%u = 0;\n", v);
    for (uint32_t k = ROW_LEVEL + f->others + 1; k < f->line_level; k++)
      emit_put(out, &f->common[k]);
    buffer_printf(out, "const int64_t i%u = row * %lld + (%lld);\n", f->line,
                  (long long)f->step, (long long)(low + (j ? last : 0)));
    emit_put(out, &f->common[f->line_level]);
    buffer_printf(out, "all &= %s;\n}\n", f->spans.when);
  }
  buffer_puts(out, "if (all) {\n");
  emit_strips(f, out, true, part, 1);
  buffer_puts(out, "} else {\n");
  emit_strips(f, out, true, part, 0);
  buffer_puts(out, "}\n");
}

/* Rows of what is padded, of which first the lanes inside are found out: memory
 * is gone through as it lies. */
static void emit_padded(Few *f, Buffer *out, bool part) {
  Emitter *e = f->e;
  bool outer = nest_is_outer(e);
  const char *to = nest_to(e, f->row);
  buffer_printf(out, "const int64_t first = %s, stop = %s;\n",
                outer ? "lo" : nest_from(e, f->lane),
                outer ? "hi" : nest_to(e, f->lane));
  if (f->spans.text.len)
    buffer_puts(out, "const int64_t start = first, end = stop;\n");
  emit_put(out, &f->spans.text);
  buffer_printf(out, "int64_t row = %s;\nfor (; row + %u <= %s; row += %u) {\n",
                nest_from(e, f->row), f->rows, to, f->rows);
  emit_lines(f, out, part);
  buffer_puts(out, "}\n");
  if (has_rest(f, e->k->loops.at[f->at])) {
    buffer_printf(out, "for (; row < %s; row++) {\n", to);
    emit_strips(f, out, false, part, 0);
    buffer_puts(out, "}\n");
  }
}

static bool is_padded(const Loop *loop) {
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    if (s->kind == STEP_SELECT && loop->steps.at[s->args[1]].kind == STEP_READ)
      return true;
  }
  return false;
}

/* Axes around the lanes: of other kept ones, of rows, of terms. */
static void begin_sums(Few *f, uint32_t loops, const uint32_t *order) {
  Emitter *e = f->e;
  Loop *loop = e->k->loops.at[f->at];
  uint32_t sums[KERNEL_AXES], count = 0, kept = 0;
  while (kept < loops && order[kept] < loop->kept)
    kept++;
  memcpy(f->order, order, loops * sizeof *order);
  f->row = kept ? order[kept - 1] : NO_LANE;
  f->padded = is_padded(loop);
  f->vectors = 1;
  choose_rows(loop, f);
  if (f->term == NO_LANE)
    f->vectors = few_vectors(e, loop, f->lane);
  f->others = kept - (f->term != NO_LANE);
  if (f->term == NO_LANE) {
    emit_begin_loop(e, loop, f->lane, loops, order);
  } else {
    for (uint32_t j = 0; j < f->others; j++)
      sums[count++] = order[j];
    if (!f->rolled)
      sums[count++] = f->line;
    for (uint32_t j = kept; j < loops; j++)
      if (order[j] != f->term)
        sums[count++] = order[j];
    if (f->rolled)
      sums[count++] = f->line;
    Loop *lines = by_lines(e->arena, loop, f);
    f->given = NEW_ARRAY(e->arena, const char *, lines->steps.len);
    begin_weights(f, lines, count, sums);
    if (f->padded)
      begin_ahead(f, lines, count, sums);
    sums[count++] = f->row;
    sums[count++] = f->term;
    emit_begin_loop(e, lines, f->lane, count, sums);
  }
  e->few = true;
  e->at = f->at;
  if (is_product(e->loop))
    e->fused = e->loop->results.at[0].step;
  e->given = f->given;
  emit_placed(e);
  for (uint32_t j = 0; f->given && j < e->loop->steps.len; j++)
    if (f->given[j]) {
      e->varies[j] = true;
      e->levels[j] = e->lane_level;
    }
  emit_needed(e);
  e->given = NULL;
}

void nest_few(Emitter *e, Buffer *out, uint32_t at, uint32_t lane,
              uint32_t loops, const uint32_t *order) {
  const Loop *loop = e->k->loops.at[at];
  Few *f = NEW(e->arena, Few);
  Fold folds[RESULTS_MOST];
  *f = (Few){.e = e, .at = at, .lane = lane, .line = NO_LANE};
  f->loads = f->spans.text = f->weights = (Buffer){.arena = e->arena};
  begin_sums(f, loops, order);
  int64_t extent = loop->extents[lane];
  int64_t unit = lane + 1 == loop->outer ? e->s->block : extent;
  int64_t block = (int64_t)f->vectors * e->s->width;
  bool number = size_is_number(e->k->graph, extent);
  bool whole = !number || (extent >= block && unit >= block);
  bool part =
      !number || is_limited(loop, lane) || extent % block || unit % block;
  Fold sum = nest_fold(e, 0);
  for (uint32_t j = 0; j < 4; j++) {
    f->sums[j / 2][j % 2] = (Buffer){.arena = e->arena};
    f->ends[j / 2][j % 2] = (Buffer){.arena = e->arena};
    emit_sums(f, &sum, j / 2 ? f->rows : 1, j % 2, &f->sums[j / 2][j % 2]);
  }
  memcpy(f->levels, e->blocks, sizeof f->levels);
  uint32_t count = begin_end(f, e->finish[at], &sum, folds);
  for (uint32_t j = 0; j < 4; j++)
    emit_end(f, folds, count, &sum, j / 2 ? f->rows : 1, j % 2,
             &f->ends[j / 2][j % 2]);
  e->given = NULL;
  buffer_puts(out, "{\n");
  emit_put(&e->head, &f->weighing[0]);
  emit_put(&e->head, &f->common[0]);
  emit_put(&e->head, &f->levels[0]);
  emit_put(&e->head, &e->blocks[0]);
  emit_put(out, &f->weighing[ROW_LEVEL]);
  emit_put(out, &f->common[ROW_LEVEL]);
  emit_put(out, &f->levels[ROW_LEVEL]);
  emit_put(out, &e->blocks[ROW_LEVEL]);
  for (uint32_t j = 0; j < f->others; j++) {
    uint32_t v = f->order[j];
    buffer_printf(out, "for (int64_t i%u = %s; i%u < %s; i%u++) {\n", v,
                  nest_from(e, v), v, nest_to(e, v), v);
    emit_put(out, &f->weighing[e->level_of[v]]);
    emit_put(out, &f->common[e->level_of[v]]);
    emit_put(out, &f->levels[e->level_of[v]]);
    emit_put(out, &e->blocks[e->level_of[v]]);
  }
  emit_put(out, &f->weights);
  if (f->loads.len)
    emit_padded(f, out, part);
  else
    emit_rows(f, out, whole, part);
  for (uint32_t j = 0; j < f->others; j++)
    buffer_puts(out, "}\n");
  buffer_puts(out, "}\n");
}
