/* Quasi-affine forms of a loop's variables as C: addresses, indices and the
 * quotients that they are made of. */
#include "backend/cpu/steps.h"

enum { MORE_VALUES = 3 /* of a quotient, than one */ };

#define format emit_format

Buffer *step_block(Emitter *e, uint32_t level) {
  return &e->blocks[level];
}

const char *step_index_type(const Emitter *e) {
  return e->dialect ? e->dialect->index : "int64_t";
}

bool step_fits_i32(int64_t low, int64_t high) {
  return low >= -0x40000000 && high <= 0x3fffffff;
}

bool emit_fits_narrow(const Step *s) {
  return s->dtype == DT_I64 && step_fits_i32(s->low, s->high);
}

/* ---- quasi-affine forms as expressions ---- */

uint32_t emit_level(const Emitter *e, const Quasi *q) {
  uint32_t level = 0;
  for (uint32_t v = 0; v < KERNEL_VARS; v++)
    if (q->times[v] && e->level_of[v] > level)
      level = e->level_of[v];
  return level;
}

/* A variable that differs from lane to lane. */
static bool is_lane_var(const Emitter *e, uint32_t v) {
  return v == e->lane ||
         (v >= KERNEL_AXES && e->lane_quotients[v - KERNEL_AXES]);
}

bool step_form_varies(const Emitter *e, const Quasi *q) {
  for (uint32_t v = 0; v < KERNEL_VARS; v++)
    if (q->times[v] && is_lane_var(e, v))
      return true;
  return false;
}

const char *step_term(Emitter *e, int64_t times, const char *name) {
  return times == 1 ? name : format(e, "%s * %s", emit_int(e, times), name);
}

/* Names of a level that is written once more for its conditions alone (few.c)
 * are not all used there. */
const char *step_constant(const Emitter *e) {
  return e->spans ? "__attribute__((unused)) const" : "const";
}

/* The form without what differs from lane to lane, as a name or a number: built
 * up level by level, so that each part is computed where it changes. */
const char *emit_quasi(Emitter *e, const Quasi *q) {
  const char *sum = q->constant ? emit_int(e, q->constant) : NULL;
  for (uint32_t level = 0; level <= e->lane_level; level++) {
    uint32_t terms = 0;
    for (uint32_t v = 0; v < KERNEL_VARS; v++) {
      if (!q->times[v] || is_lane_var(e, v) || e->level_of[v] != level)
        continue;
      const char *name = v < KERNEL_AXES
                             ? format(e, "i%u", v)
                             : format(e, "q%u", e->quotients + v - KERNEL_AXES);
      const char *t = step_term(e, q->times[v], name);
      sum = sum ? format(e, "%s + %s", sum, t) : t;
      terms++;
    }
    if (terms) {
      buffer_printf(step_block(e, level), "%s %s a%u = %s;\n", step_constant(e),
                    step_index_type(e), e->names, sum);
      sum = format(e, "a%u", e->names++);
    }
  }
  return sum ? sum : "0";
}

/* ---- quotients ---- */

static void mark_quotients(const Quasi *q, bool *used) {
  for (uint32_t j = 0; j < QUOTIENTS; j++)
    used[j] |= q->times[KERNEL_AXES + j] != 0;
}

static void find_quotients(const Loop *loop, bool *used) {
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    if (s->kind == STEP_INDEX)
      mark_quotients(s->index, used);
    else if (s->kind == STEP_READ || s->kind == STEP_LOCAL)
      mark_quotients(s->address, used);
  }
  for (uint32_t j = loop->quotient_count; j-- > 0;)
    if (used[j])
      mark_quotients(&loop->quotients[j].of, used);
}

/* Values that fit are computed in 32 bits. */
bool step_is_small(const Quotient *q) {
  int64_t low, high;
  return !__builtin_mul_overflow(q->low, q->by, &low) &&
         !__builtin_mul_overflow(q->high + 1, q->by, &high) &&
         step_fits_i32(low, high);
}

/* What of a form differs from lane to lane, as a vector of class i or l. */
const char *step_lane_terms(Emitter *e, const Quasi *q, char class) {
  const char *cast = class == 'i' ? "(int32_t)" : "", *sum = NULL;
  for (uint32_t v = 0; v < KERNEL_VARS; v++) {
    if (!q->times[v] || !is_lane_var(e, v))
      continue;
    const char *x =
        class == 'i' ? "((int32_t)j + lanes())" : "(j + wide(lanes()))";
    if (v != e->lane) {
      bool small = step_is_small(&e->loop->quotients[v - KERNEL_AXES]);
      x = format(e, "q%u", e->quotients + v - KERNEL_AXES);
      if (small != (class == 'i'))
        x = format(e, "%s(%s)", small ? "wide" : "narrow", x);
    }
    if (q->times[v] != 1)
      x = format(e, "%s%s * %s", cast, emit_int(e, q->times[v]), x);
    sum = sum ? format(e, "%s + %s", sum, x) : x;
  }
  return sum;
}

/* One that is 0 divides what has no elements. */
const char *emit_divisor(Emitter *e, int64_t by) {
  Graph *g = e->k->graph;
  by = size_holds(g, SIZE_LE, 1, by) ? by : size_max(g, by, 1);
  return e->dialect ? e->dialect->divisor(e, by) : emit_int(e, by);
}

/* A quotient that has but few values, as what wraps around once has: it is the
 * lowest and one more for each further one that is reached; NULL: it has more.
 */
static const char *few_values(Emitter *e, const Quotient *q, const char *of,
                              bool small) {
  Graph *g = e->k->graph;
  const char *cast = small ? "(int32_t)" : "";
  int64_t more = size_less(g, q->high, q->low), next = q->low;
  if (more < 1 || more > MORE_VALUES)
    return NULL;
  const char *sum = format(e, "%s%s", cast, emit_int(e, q->low));
  for (int64_t k = 0; k < more; k++) {
    if (!size_add(g, next, 1, &next))
      return NULL;
    sum = format(e, "%s - %s(test_%c((%s) >= %s%s))", sum, small ? "" : "wide",
                 small ? 'i' : 'l', of, cast,
                 emit_int(e, emit_times(e, next, q->by)));
  }
  return sum;
}

/* A quotient in each lane. */
static void emit_lane_quotient(Emitter *e, uint32_t j) {
  const Quotient *q = &e->loop->quotients[j];
  bool small = step_is_small(q);
  char class = small ? 'i' : 'l';
  const char *cast = small ? "(int32_t)" : "", *base = emit_quasi(e, &q->of);
  const char *of =
      format(e, "%s%s + %s", cast, base, step_lane_terms(e, &q->of, class));
  const char *value = few_values(e, q, of, small);
  if (!value)
    value = format(e, "div_%c(%s, splat_%c(%s%s))", class, of, class, cast,
                   emit_divisor(e, q->by));
  buffer_printf(step_block(e, e->lane_level), "const v%c q%u = %s;\n", class,
                e->quotients + j, value);
}

void step_quotients(Emitter *e) {
  bool used[QUOTIENTS] = {false};
  find_quotients(e->loop, used);
  for (uint32_t j = 0; j < e->loop->quotient_count; j++) {
    const Quotient *q = &e->loop->quotients[j];
    if (!used[j])
      continue;
    uint32_t level = e->level_of[KERNEL_AXES + j] = emit_level(e, &q->of);
    e->lane_quotients[j] = step_form_varies(e, &q->of);
    if (e->lane_quotients[j]) {
      emit_lane_quotient(e, j);
      continue;
    }
    const char *of = emit_quasi(e, &q->of);
    buffer_printf(step_block(e, level), "const %s q%u = floor_div(%s, %s);\n",
                  step_index_type(e), e->quotients + j, of,
                  emit_divisor(e, q->by));
  }
}
