/* Reads as C: of memory, and of what an earlier loop has left of this point. */
#include "backend/cpu/steps.h"
#include "backend/cpu/tiling.h"

#include <string.h>

#define format emit_format

bool step_read_varies(const Emitter *e, const Step *s) {
  for (uint32_t j = 0; j < s->index_count; j++)
    if (e->varies[s->indices[j].step])
      return true;
  return step_form_varies(e, s->address);
}

/* One element. */
static const char *get(Emitter *e, Dtype t, const char *pointer,
                       const char *at) {
  if (t == DT_F16 || t == DT_BF16)
    return format(e, "get_%s(%s + %s)", dtype_info[t].name, pointer, at);
  return format(e, "%s[%s]%s", pointer, at, t == DT_BOOL ? " != 0" : "");
}

/* Adds the checked indices that are the same in all lanes: what is read each
 * time is tested where the index is known. */
static const char *add_scalar_index(Emitter *e, uint32_t at, const ReadIndex *r,
                                    const char *address) {
  const char *index = step_operand(e, r->step, 'l', false);
  const char *extent = emit_int(e, r->extent), *need = e->need[at];
  uint32_t name = e->names++;
  Buffer *b = step_block(e, e->levels[r->step]);
  buffer_printf(b, "const int w%u = (uint64_t)%s >= (uint64_t)%s;\n", name,
                index, extent);
  buffer_printf(b, "const %s x%u = w%u ? 0 : %s;\n", step_index_type(e), name,
                name, index);
  if (need && !strcmp(need, "ALL") && !e->loop->steps.at[at].sure)
    buffer_printf(b, "bad%u |= splat_b(w%u);\n", step_check_number(e, at),
                  name);
  else
    step_check(e, at, false, format(e, "w%u", name));
  const char *t = step_term(e, r->stride, format(e, "x%u", name));
  return strcmp(address, "0") ? format(e, "%s + %s", address, t) : t;
}

static const char *add_lane_index(Emitter *e, uint32_t at, const ReadIndex *r,
                                  const char *address) {
  const char *index = emit_lanes(e, r->step, 'l');
  const char *extent = emit_int(e, r->extent);
  uint32_t name = e->names++;
  Buffer *b = step_block(e, e->levels[at]);
  buffer_printf(b, "const vl y%u = %s;\n", name, index);
  buffer_printf(b, "const vi w%u = test_l((vw)y%u >= (uint64_t)%s);\n", name,
                name, extent);
  buffer_printf(b, "const vl x%u = y%u & ~wide(w%u);\n", name, name, name);
  step_check(e, at, true, format(e, "w%u", name));
  const char *t = step_term(e, r->stride, format(e, "x%u", name));
  return address ? format(e, "%s + %s", address, t) : t;
}

/* Does it step with the lanes, and nothing else? */
static bool is_even(const Emitter *e, const Quasi *q) {
  for (uint32_t j = 0; j < QUOTIENTS; j++)
    if (q->times[KERNEL_AXES + j] && e->lane_quotients[j])
      return false;
  return true;
}

/* The one index that differs from lane to lane, where it goes up with them and
 * the lanes read lie next to each other; NULL: that is not so. */
static const ReadIndex *walking_index(const Emitter *e, const Step *s) {
  const ReadIndex *found = NULL;
  Graph *g = e->k->graph;
  int64_t step;
  if (!is_even(e, s->address))
    return NULL;
  for (uint32_t j = 0; j < s->index_count; j++) {
    const ReadIndex *r = &s->indices[j];
    const Step *index = &e->loop->steps.at[r->step];
    if (!e->varies[r->step])
      continue;
    if (found || index->kind != STEP_INDEX || !is_even(e, index->index) ||
        !size_mul(g, index->index->times[e->lane], r->stride, &step) ||
        !size_add(g, step, s->address->times[e->lane], &step) || step != 1)
      return NULL;
    found = r;
  }
  return found;
}

/* Lanes next to each other, of which some may lie outside: these are not read.
 */
static void emit_walking_read(Emitter *e, uint32_t at, const Step *s,
                              const ReadIndex *r, const char *base) {
  const Quasi *q = e->loop->steps.at[r->step].index;
  const char *name = dtype_info[s->dtype].name;
  const char *index = emit_lanes(e, r->step, e->classes[r->step]);
  const char *extent = emit_int(e, r->extent);
  const char *from =
      format(e, "p%u + %s + %s + j", s->input, base,
             step_term(e, r->stride, format(e, "(%s)", emit_quasi(e, q))));
  uint32_t w = e->names++;
  Buffer *b = step_block(e, e->levels[at]);
  if (e->classes[r->step] == 'i')
    buffer_printf(b, "const vi w%u = test_i((vu)%s >= (uint32_t)%s);\n", w,
                  index, extent);
  else
    buffer_printf(b, "const vi w%u = test_l((vw)%s >= (uint64_t)%s);\n", w,
                  index, extent);
  step_check(e, at, true, format(e, "w%u", w));
  step_define_loaded(e, at, format(e, "ldw_%s(%s, w%u, REST)", name, from, w));
}

static const char *lane_step(Emitter *e, int64_t times) {
  return times == 1 ? "j" : format(e, "%s * j", emit_int(e, times));
}

/* Two elements a lane; of an odd number of them all is read but what lies
 * behind the last. */
static const char *load_pairs(Emitter *e, const Step *s, const char *from) {
  if (!s->terms)
    return format(e, "LOAD(pairs, %s + 2 * j)", from);
  return format(e, "ldh_pairs(%s + 2 * j, %s - 2 * j, REST)", from,
                emit_int(e, s->terms));
}

/* Are the quotients of the form the same in all lanes?  They are where they are
 * in the first one and the last, since they go up or down with the lanes; NULL:
 * not all do, or what is read is not next to each other then.  *rest: what they
 * come to. */
static const char *even_lanes(Emitter *e, const Quasi *q, const char **rest) {
  const char *same = NULL, *sum = NULL;
  for (uint32_t j = 0; j < QUOTIENTS; j++) {
    int64_t times = q->times[KERNEL_AXES + j];
    if (!times || !e->lane_quotients[j])
      continue;
    if (!is_even(e, &e->loop->quotients[j].of))
      return NULL;
    char c = step_is_small(&e->loop->quotients[j]) ? 'i' : 'l';
    uint32_t name = e->quotients + j;
    const char *first = format(e, "first_%c(q%u)", c, name);
    const char *test = format(e, "%s == lane_%c(q%u, W - 1)", first, c, name);
    same = same ? format(e, "%s && %s", same, test) : test;
    first = step_term(e, times, first);
    sum = sum ? format(e, "%s + %s", sum, first) : first;
  }
  *rest = sum;
  return q->times[e->lane] == 1 ? same : NULL;
}

/* Where a row that indices choose begins. */
static const char *indexed_row(Emitter *e, const Step *s, const char *base) {
  Quasi *q = quasi_copy(e->arena, s->address);
  q->times[e->lane] = 0;
  uint32_t level = emit_level(e, q), name = e->names++;
  for (uint32_t j = 0; j < s->index_count; j++)
    if (e->levels[s->indices[j].step] > level)
      level = e->levels[s->indices[j].step];
  bool outer = e->lane + 1 == e->loop->outer && !e->s->tiling &&
               level >= ROW_LEVEL; /* where lo is known */
  buffer_printf(
      step_block(e, level), "const %s *r%u = p%u + %s%s;\nAPART(r%u);\n",
      memory_type(s->dtype), name, s->input, base, outer ? " + lo" : "", name);
  return format(e, outer ? "r%u + (j - lo)" : "r%u + j", name);
}

/* Lanes that are so many elements apart, from a place on. */
static const char *strided(Emitter *e, const Step *s, const char *from,
                           int64_t step) {
  const char *name = dtype_info[s->dtype].name;
  if (step == -1 && e->s->width > 1)
    return format(e, "ldb_%s(%s, REST)", name, from);
  bool near = step >= 2 && step <= NEAR_STEPS && e->s->width > 1;
  const char *rest = near && e->few && s->kind == STEP_LOCAL ? "W" : "REST";
  if (near)
    return format(e, "lds%d_%s(%s, %s)", (int)step, name, from, rest);
  return format(e, "lds_%s(%s, %s, %s)", name, from, emit_int(e, step), rest);
}

bool emit_is_near(const Emitter *e, const Step *s) {
  int64_t step = s->address->times[e->lane];
  if (s->kind == STEP_LOCAL && e->lane == e->loop->outer - 1)
    return e->s->shape != UNIT_ROWS && !step_form_varies(e, s->address);
  for (uint32_t j = 0; s->kind == STEP_READ && j < s->index_count; j++)
    if (e->varies[s->indices[j].step])
      return false;
  return is_even(e, s->address) && !is_turned(e, s) && step >= 1 &&
         step <= (e->s->width > 1 ? NEAR_STEPS : 1);
}

void step_read(Emitter *e, uint32_t at, const Step *s) {
  const char *base = emit_quasi(e, s->address);
  const char *name = dtype_info[s->dtype].name;
  int64_t step = s->address->times[e->lane];
  bool lanes = false;
  for (uint32_t j = 0; j < s->index_count; j++) {
    const ReadIndex *r = &s->indices[j];
    if (e->varies[r->step])
      lanes = true;
    else
      base = add_scalar_index(e, at, r, base);
  }
  if (s->pairs) {
    step_define(e, at, load_pairs(e, s, format(e, "p%u + %s", s->input, base)));
    return;
  }
  if (!e->varies[at]) {
    step_define(e, at, get(e, s->dtype, format(e, "p%u", s->input), base));
    return;
  }
  if (!lanes && is_even(e, s->address) && step != 1 && is_turned(e, s)) {
    step_define_loaded(e, at,
                       emit_turned_read(e, s->dtype, e->classes[at],
                                        format(e, "p%u + %s", s->input, base),
                                        emit_int(e, step)));
    return;
  }
  if (!lanes && is_even(e, s->address)) {
    bool row = step == 1 && s->index_count;
    const char *from =
        row ? indexed_row(e, s, base)
            : format(e, "p%u + %s + %s", s->input, base, lane_step(e, step));
    const char *ahead = row ? emit_foreseen(e, s) : NULL;
    if (ahead)
      buffer_printf(step_block(e, e->levels[at]), "__builtin_prefetch(%s);\n",
                    indexed_row(e, s, ahead));
    const char *next = row ? NULL : emit_next_row(e, s);
    if (next)
      buffer_puts(step_block(e, e->levels[at]), next);
    step_define_loaded(e, at,
                       step == 1 ? format(e, "LOAD(%s, %s)", name, from)
                                 : strided(e, s, from, step));
    return;
  }
  const ReadIndex *walking = walking_index(e, s);
  if (walking) {
    emit_walking_read(e, at, s, walking, base);
    return;
  }
  const char *index = step_lane_terms(e, s->address, 'l'), *rest;
  for (uint32_t j = 0; j < s->index_count; j++)
    if (e->varies[s->indices[j].step])
      index = add_lane_index(e, at, &s->indices[j], index);
  const char *apart =
      format(e, "ldx_%s(p%u + %s, %s, REST)", name, s->input, base, index);
  const char *even = lanes ? NULL : even_lanes(e, s->address, &rest);
  if (even)
    apart = format(e, "%s ? LOAD(%s, p%u + %s + j + %s) : %s", even, name,
                   s->input, base, rest, apart);
  step_define_loaded(e, at, apart);
}

/* ---- values of this point that an earlier loop has left ---- */

const char *emit_local(Emitter *e, const Local *l, const Quasi *q) {
  const char *inner = emit_quasi(e, q);
  const Schedule *s = e->s;
  uint32_t last = e->loop->outer - 1;
  const char *top = tiling_passes(s) ? "y0" : "top";
  if (s->shape == UNIT_POINT)
    return inner;
  if (s->shape == UNIT_ROWS)
    return format(e, "(i%u - lo) * %s + %s", last, l->size, inner);
  if (s->shape == UNIT_TILE && s->strip)
    return format(e, "(i%u - %s) * %s + (i%u - above) * %s", last - 1, top,
                  l->block, last - 2, emit_int(e, s->pitch));
  if (s->shape == UNIT_TILE)
    return format(e, "(i%u - %s) * %s", last - 1, top, l->block);
  return format(e, "(%s) * %s", inner, l->block);
}

/* Lanes along the rows of a unit, as copies of an operand have them. */
static void emit_local_rows(Emitter *e, uint32_t at, const Step *s) {
  const Local *l = &e->locals[s->loop][s->result];
  const char *inner = emit_quasi(e, s->address);
  step_define_loaded(e, at,
                     format(e, "lds_%s(l%u + %s + (j - lo) * %s, %s, REST)",
                            dtype_info[s->dtype].name, l->name, inner, l->size,
                            l->size));
}

/* What lies along the last outer axis, on its way to memory. */
static void emit_copied(Emitter *e, uint32_t at, const Step *s,
                        const Local *l) {
  const char *from = format(e, "l%u + %s + (i%u - lo)", l->name,
                            emit_local(e, l, s->address), e->loop->outer - 1);
  const char *step =
      format(e, "%s * %s", emit_int(e, s->address->times[e->lane]), l->block);
  step_define(e, at, emit_turned_read(e, s->dtype, e->classes[at], from, step));
}

void step_read_local(Emitter *e, uint32_t at, const Step *s) {
  const Local *l = &e->locals[s->loop][s->result];
  if (e->loop->copy == COPY_OUT) {
    emit_copied(e, at, s, l);
    return;
  }
  if (e->s->shape == UNIT_ROWS && e->lane == e->loop->outer - 1) {
    emit_local_rows(e, at, s);
    return;
  }
  const char *to = emit_local(e, l, s->address);
  const char *name = dtype_info[s->dtype].name;
  if (s->pairs) {
    step_define(e, at, load_pairs(e, s, format(e, "l%u + %s", l->name, to)));
    return;
  }
  if (!e->varies[at]) {
    step_define(e, at, get(e, s->dtype, format(e, "l%u", l->name), to));
    return;
  }
  bool outer = e->lane == e->loop->outer - 1;
  if (outer ? step_form_varies(e, s->address) : !is_even(e, s->address)) {
    const char *index = step_lane_terms(e, s->address, 'l');
    if (outer)
      index = format(e, "wide(lanes()) + %s * (%s)", l->block, index);
    const char *from =
        format(e, "l%u + %s%s", l->name, to, outer ? " + (j - lo)" : "");
    step_define_loaded(e, at,
                       format(e, "ldx_%s(%s, %s, REST)", name, from, index));
    return;
  }
  const char *from = outer ? format(e, "l%u + %s + (j - lo)", l->name, to)
                           : format(e, "l%u + %s + %s", l->name, to,
                                    lane_step(e, s->address->times[e->lane]));
  const char *load = e->few ? "ld_%s(%s)" : "LOAD(%s, %s)"; /* BEHIND */
  if (outer || s->address->times[e->lane] == 1)
    step_define_loaded(e, at, format(e, load, name, from));
  else
    step_define_loaded(e, at, strided(e, s, from, s->address->times[e->lane]));
}
