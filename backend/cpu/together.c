/* Sums of several points at once.
 *
 * Where neighbours along the last outer axis each read a row of their own and
 * one that all of them share, as in the product of a matrix and a vector, a
 * row that is shared is loaded for several of them: to load it for each would
 * take a core as long as to load what is not shared from its second cache.
 * From further away one row after the other comes faster than several beside
 * each other.  Each sum is made in the order in which it is made alone, so that
 * it may be left to who works on the points which of them are together. */
#include "backend/cpu/nests.h"
#include "machine/machine.h"

/* Does a row lie along the lanes, of all points, or of each one? */
static bool is_row(const Loop *loop, const Step *s, bool shared) {
  const int64_t *times = s->address->times;
  return s->kind == STEP_READ && times[loop->kept] &&
         shared == !times[loop->outer - 1];
}

/* Do the second caches of all cores hold the tensor? */
static bool is_near(const Loop *loop, const Step *s) {
  const Machine *m = machine();
  return node_guess(loop->graph, s->node) * dtype_info[s->dtype].bytes <=
         (double)m->cache[1] * m->cores;
}

static bool shares_row(const Loop *loop) {
  bool shared = false, own = false;
  if (loop->quotient_count || !loop->outer)
    return false;
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    if (s->kind == STEP_LOCAL ||
        (s->kind == STEP_READ && (s->index_count || !is_near(loop, s))))
      return false;
    shared |= s->kind == STEP_READ && is_row(loop, s, true);
    own |= s->kind == STEP_READ && is_row(loop, s, false);
  }
  return shared && own;
}

static bool has_sums_alone(const Loop *loop) {
  for (uint32_t j = 0; j < loop->results.len; j++)
    if (loop->results.at[j].reduce != PRIM_SUM)
      return false;
  return loop->results.len > 0;
}

uint32_t together_points(const Kernel *k, const Schedule *s, uint32_t at) {
  const Loop *loop = k->loops.at[at];
  bool plain = s->shape == UNIT_POINT && !s->chunk && s->width > 1 &&
               !k->guard && !may_be_whole(k) && !loop->limits &&
               loop->copy == COPY_NONE && !loop->portioned;
  bool row = loop->kept == loop->outer && loop->axes == loop->kept + 1 &&
             s->lanes[at] == loop->kept;
  if (!plain || !row || nest_is_short(s, loop, s->lanes[at]) ||
      !has_sums_alone(loop) || !shares_row(loop))
    return 0;
  uint32_t points = schedule_held(s->bytes) / UNROLLED / loop->results.len;
  return points > 1 ? points : 0;
}

/* ---- as C ---- */

/* Points top .. bottom - 1, unless their sums are there: from%u is the unit of
 * the first, ready%u that behind the last.  What is known of a point stands in
 * each loop over them, whether that needs it or not. */
void together_begin(Emitter *e, Buffer *out) {
  uint32_t v = e->loop->outer - 1;
  const char *n = emit_int(e, e->loop->extents[v]);
  buffer_printf(&e->head,
                "int64_t from%u = begin, ready%u = begin;\n(void)from%u;\n",
                e->at, e->at, e->at);
  buffer_printf(out,
                "#pragma GCC diagnostic push\n"
                "#pragma GCC diagnostic ignored \"-Wunused-variable\"\n"
                "if (u >= ready%u) {\n"
                "const int64_t top = i%u, most = top + end - u;\n"
                "const int64_t rest = %s < most ? %s : most;\n"
                "const int64_t bottom = rest < top + %u ? rest : top + %u;\n"
                "from%u = u;\nready%u = u + bottom - top;\n",
                e->at, v, n, n, e->together, e->together, e->at, e->at);
}

void together_end(Buffer *out) {
  buffer_puts(out, "}\n#pragma GCC diagnostic pop\n");
}

void together_each(Emitter *e, Buffer *out, bool known) {
  uint32_t v = e->loop->outer - 1;
  buffer_printf(out, "#pragma GCC unroll %u\nfor (int y = 0; y < %u; y++) {\n",
                e->together, e->together);
  if (!known)
    return;
  buffer_printf(
      out, "const int64_t i%u = top + y < bottom ? top + y : bottom - 1;\n", v);
  emit_put(out, &e->blocks[ROW_LEVEL]);
}

void together_place(Emitter *e, Buffer *out, bool inside) {
  for (uint32_t j = 0; j < e->loop->results.len; j++) {
    const Local *l = &e->locals[e->at][j];
    const char *type = memory_type(e->loop->results.at[j].dtype);
    uint32_t v = e->loop->outer - 1;
    if (!l->together)
      continue;
    buffer_printf(out, "%s *const l%u = r%u + ", type, l->name, l->name);
    if (inside)
      buffer_printf(out, "(i%u - top) * %s;\n", v, l->size);
    else
      buffer_printf(out, "(u - from%u) * %s;\n", e->at, l->size);
  }
}
