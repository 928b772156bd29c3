/* Rows asked for before their turn: those that data chooses, and the next one
 * while what is left of this one comes from a cache.
 *
 * Caches foresee what lies behind the row at hand, but not the row that the
 * next index names; and while it comes from memory there is nothing else to do.
 * So, beside each vector of a row, that of a row some indices ahead is asked
 * for: of the next ones along the innermost axis that the indices have, as they
 * lie in memory, be it of the next point's.  What is read there is looked at
 * before it is an address; a wrong one costs a line of the cache at most. */
#include "backend/cpu/emit.h"
#include "machine/machine.h"

#define format emit_format

enum {
  FETCHED = 12 << 10, /* bytes that are under way, of the first cache */
  AHEAD_MOST = 48,    /* rows */
  LINE = 64,          /* a row is a few of them at least, */
  LINES_LEAST = 2,
  ROW_MOST = 8 << 10, /* and so many bytes at most: then caches foresee it */
  HELD = 16 << 10,    /* a row that the first cache holds beside another */
};

/* What is read at a place that is known, perhaps converted; NULL: it is not. */
static const Step *plain_index(const Emitter *e, uint32_t at) {
  const Step *s = &e->loop->steps.at[at];
  while (s->kind == STEP_CONVERT)
    s = &e->loop->steps.at[s->args[0]];
  if (s->kind != STEP_READ || s->index_count || dtype_is_float(s->dtype) ||
      s->dtype == DT_BOOL)
    return NULL;
  for (uint32_t v = KERNEL_AXES; v < KERNEL_VARS; v++)
    if (s->address->times[v])
      return NULL;
  return s;
}

/* The axis along which its next element is wanted next; NO_LANE: none is. */
static uint32_t next_axis(const Emitter *e, const Step *index) {
  uint32_t found = NO_LANE;
  for (uint32_t v = 0; v < e->loop->axes; v++)
    if (index->address->times[v] &&
        (found == NO_LANE || e->level_of[v] >= e->level_of[found]))
      found = v;
  return found;
}

static double row_bytes(const Emitter *e, const Step *s, uint32_t axis) {
  double bytes = dtype_info[s->dtype].bytes;
  for (uint32_t v = 0; v < e->loop->axes; v++)
    if (s->address->times[v] &&
        (v == e->lane || e->level_of[v] > e->level_of[axis]))
      bytes *= (double)loop_guess(e->loop, v);
  return bytes;
}

/* How many rows ahead; 0: it is in a cache anyway, or not worth it. */
static int64_t how_far(const Emitter *e, const Step *s, uint32_t axis) {
  double all = node_guess(e->k->graph, s->node) * dtype_info[s->dtype].bytes;
  double row = row_bytes(e, s, axis);
  if (all <= (double)machine()->cache[1] || row < LINES_LEAST * LINE ||
      row > ROW_MOST)
    return 0;
  int64_t rows = (int64_t)(FETCHED / row);
  return rows < 1 ? 1 : rows > AHEAD_MOST ? AHEAD_MOST : rows;
}

/* The index so many elements ahead, or 0 where that is none. */
static const char *index_ahead(Emitter *e, const ReadIndex *r, const Step *s,
                               int64_t elements) {
  int64_t count = 1;
  for (uint32_t k = 0; k < s->node->free_count + s->node->rank; k++)
    count = emit_times(e, count, s->node->extents[k]);
  const char *at = emit_quasi(e, s->address), *ahead = emit_int(e, elements);
  uint32_t name = e->names++;
  buffer_printf(&e->blocks[e->levels[r->step]],
                "const int64_t f%u = p%u[%s + %s < %s ? %s + %s : %s];\n", name,
                s->input, at, ahead, emit_int(e, count), at, ahead, at);
  return format(e, "%s * ((uint64_t)f%u < (uint64_t)%s ? f%u : 0)",
                emit_int(e, r->stride), name, emit_int(e, r->extent), name);
}

/* How many rows ahead, along *axis; 0: not at all. */
static int64_t rows_ahead(const Emitter *e, const Step *s, uint32_t *axis) {
  *axis = NO_LANE;
  if (e->s->width == 1 || e->s->tiling)
    return 0;
  for (uint32_t j = 0; j < s->index_count; j++) {
    const Step *index = plain_index(e, s->indices[j].step);
    if (!index)
      return 0;
    if (*axis == NO_LANE)
      *axis = next_axis(e, index);
  }
  return *axis == NO_LANE ? 0 : how_far(e, s, *axis);
}

const char *emit_foreseen(Emitter *e, const Step *s) {
  uint32_t axis;
  int64_t rows = rows_ahead(e, s, &axis);
  if (!rows)
    return NULL;
  const char *base = emit_quasi(e, s->address);
  for (uint32_t j = 0; j < s->index_count; j++) {
    const ReadIndex *r = &s->indices[j];
    const Step *index = plain_index(e, r->step);
    int64_t elements = emit_times(e, rows, index->address->times[axis]);
    base = format(e, "%s + %s", base, index_ahead(e, r, index, elements));
  }
  return base;
}

/* ---- the next row ---- */

static bool reads(const Loop *loop, const Step *s) {
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *x = &loop->steps.at[j];
    if (x->kind == STEP_READ && x->node == s->node && !x->index_count &&
        quasi_equal(x->address, s->address))
      return true;
  }
  return false;
}

/* Has an earlier loop read the row, and no later one will? */
static bool is_last_reader(const Emitter *e, const Step *s) {
  bool before = false;
  for (uint32_t j = 0; j < e->at; j++)
    before |= reads(e->k->loops.at[j], s);
  for (uint32_t j = e->at + 1; j < e->k->loops.len; j++)
    if (reads(e->k->loops.at[j], s))
      return false;
  return before;
}

static bool is_row_of_point(const Emitter *e, const Step *s) {
  uint32_t outer = e->k->outer;
  for (uint32_t v = KERNEL_AXES; v < KERNEL_VARS; v++)
    if (s->address->times[v])
      return false;
  return e->s->shape == UNIT_POINT && e->s->width > 1 && !e->s->chunk &&
         outer > 0 && e->k->loops.at[e->at] == e->loop && e->lane >= outer &&
         s->address->times[e->lane] == 1 && s->address->times[outer - 1];
}

const char *emit_next_row(Emitter *e, const Step *s) {
  uint32_t last = e->k->outer - 1;
  double each = dtype_info[s->dtype].bytes, row;
  if (s->index_count || !is_row_of_point(e, s) || !is_last_reader(e, s))
    return NULL;
  row = each * (double)loop_guess(e->loop, e->lane);
  if (node_guess(e->k->graph, s->node) * each <= (double)machine()->cache[1] ||
      row < LINES_LEAST * LINE || row > (double)machine()->cache[1] / 4)
    return NULL;
  const char *base = emit_quasi(e, s->address);
  uint32_t name = e->names++;
  buffer_printf(&e->blocks[ROW_LEVEL],
                "const int64_t f%u = i%u + 1 < %s ? %s : 0;\n", name, last,
                emit_int(e, e->loop->extents[last]),
                emit_int(e, s->address->times[last]));
  return format(e, "__builtin_prefetch(p%u + %s + f%u + j, 0, %d);\n", s->input,
                base, name, row > HELD ? 2 : 3);
}
