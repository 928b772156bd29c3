/* Rows that data chooses, asked for before their turn.
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
