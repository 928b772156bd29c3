/* Quasi-affine expressions of loop variables as C: addresses, indices and floor
 * divisions. */
#include "backend/emit/scalar_ops.h"
#include "machine/limits/cpu.h"

#define format emit_format

Buffer *emit_block_at(Emitter *e, uint32_t level) {
  return &e->levels.code[level];
}

const char *emit_index_type(const Emitter *e) {
  return e->dialect->index_type;
}

bool range_fits_i32(int64_t low, int64_t high) {
  return low >= -0x40000000 && high <= 0x3fffffff;
}

bool emit_fits_i32(const KernelOp *s) {
  return s->dtype == DT_I64 && range_fits_i32(s->low, s->high);
}

/* ---- quasi-affine expressions ---- */

uint32_t emit_affine_level(const Emitter *e, const AffineExpr *q) {
  uint32_t level = 0;
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++)
    if (q->coef[v] && e->levels.of[v] > level)
      level = e->levels.of[v];
  return level;
}

/* Returns true if the variable differs between lanes. */
static bool var_varies_by_lane(const Emitter *e, uint32_t v) {
  return v == e->vector_axis ||
         (v >= MAX_KERNEL_AXES && e->floor_divs.varies[v - MAX_KERNEL_AXES]);
}

bool emit_affine_varies(const Emitter *e, const AffineExpr *q) {
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++)
    if (q->coef[v] && var_varies_by_lane(e, v))
      return true;
  return false;
}

const char *emit_affine_term(Emitter *e, int64_t coef, const char *name) {
  return coef == 1 ? name : format(e, "%s * %s", emit_int(e, coef), name);
}

/* The same for an axis of the current loop nest. */
static const char *emit_axis_term(Emitter *e, uint32_t v, int64_t coef,
                                  const char *name) {
  bool is_kept = e->keeps_sizes && v < MAX_KERNEL_AXES && coef != 1 &&
                 v + 1 >= e->loop->parallel_axes;
  return is_kept ? format(e, "%s * %s", emit_kept_int(e, coef), name)
                 : emit_affine_term(e, coef, name);
}

/* The shared loads of backend/cpu/nest_stream.c emit a level again only for its
 * conditions, and searched rows have no terms, so that some names are
 * unused. */
const char *emit_const_qualifier(const Emitter *e) {
  return e->hoisted_masks || e->may_search ? "__attribute__((unused)) const"
                                           : "const";
}

/* The expression without the parts that differ between lanes, as a name or a
 * number.  It is built up level by level, so that each part is
 * loop-invariant. */
const char *emit_affine(Emitter *e, const AffineExpr *q) {
  const char *sum = q->constant ? emit_int(e, q->constant) : NULL;
  for (uint32_t level = 0; level <= e->levels.vector; level++) {
    uint32_t terms = 0;
    for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++) {
      if (!q->coef[v] || var_varies_by_lane(e, v) || e->levels.of[v] != level)
        continue;
      const char *name =
          v < MAX_KERNEL_AXES
              ? format(e, "i%u", v)
              : format(e, "q%u",
                       e->floor_divs.first_name + v - MAX_KERNEL_AXES);
      const char *t = emit_axis_term(e, v, q->coef[v], name);
      sum = sum ? format(e, "%s + %s", sum, t) : t;
      terms++;
    }
    if (terms) {
      buffer_printf(emit_block_at(e, level), "%s %s a%u = %s;\n",
                    emit_const_qualifier(e), emit_index_type(e), e->next_id,
                    sum);
      sum = format(e, "a%u", e->next_id++);
    }
  }
  return sum ? sum : "0";
}

/* ---- floor divisions ---- */

static void mark_floor_divs(const AffineExpr *q, bool *used) {
  for (uint32_t j = 0; j < MAX_FLOOR_DIVS; j++)
    used[j] |= q->coef[MAX_KERNEL_AXES + j] != 0;
}

static void find_floor_divs(const LoopNest *loop, bool *used) {
  for (uint32_t j = 0; j < loop->ops.len; j++) {
    const KernelOp *s = &loop->ops.at[j];
    if (s->kind == KOP_AFFINE)
      mark_floor_divs(s->affine, used);
    else if (s->kind == KOP_LOAD || s->kind == KOP_LOAD_LOCAL)
      mark_floor_divs(s->address, used);
  }
  for (uint32_t j = loop->floor_div_count; j-- > 0;)
    if (used[j])
      mark_floor_divs(&loop->floor_divs[j].dividend, used);
}

/* Values that fit are computed in 32 bits. */
bool floor_div_fits_i32(const FloorDiv *q) {
  int64_t low, high;
  return !__builtin_mul_overflow(q->low, q->divisor, &low) &&
         !__builtin_mul_overflow(q->high + 1, q->divisor, &high) &&
         range_fits_i32(low, high);
}

/* The parts that differ between lanes, as a vector of class i or l. */
const char *emit_varying_terms(Emitter *e, const AffineExpr *q, char class) {
  const char *cast = class == 'i' ? "(int32_t)" : "", *sum = NULL;
  for (uint32_t v = 0; v < MAX_KERNEL_VARS; v++) {
    if (!q->coef[v] || !var_varies_by_lane(e, v))
      continue;
    const char *x =
        class == 'i' ? "((int32_t)j + lanes())" : "(j + wide(lanes()))";
    if (v != e->vector_axis) {
      bool fits_i32 =
          floor_div_fits_i32(&e->loop->floor_divs[v - MAX_KERNEL_AXES]);
      x = format(e, "q%u", e->floor_divs.first_name + v - MAX_KERNEL_AXES);
      if (fits_i32 != (class == 'i'))
        x = format(e, "%s(%s)", fits_i32 ? "wide" : "narrow", x);
    }
    if (q->coef[v] != 1)
      x = format(e, "%s%s * %s", cast, emit_int(e, q->coef[v]), x);
    sum = sum ? format(e, "%s + %s", sum, x) : x;
  }
  return sum;
}

/* An empty axis has divisor 0, which becomes 1. */
const char *emit_divisor(Emitter *e, int64_t divisor) {
  Graph *g = e->kernel->graph;
  divisor = extent_proved(g, EXTENT_LE, 1, divisor) ? divisor
                                                    : extent_max(g, divisor, 1);
  return e->dialect->emit_divisor(e, divisor);
}

/* A floor division with few values, such as an index that wraps around once:
 * the lowest value plus the number of thresholds reached.  NULL: it has more
 * values. */
static const char *emit_few_valued_floor_div(Emitter *e, const FloorDiv *q,
                                             const char *dividend,
                                             bool fits_i32) {
  Graph *g = e->kernel->graph;
  const char *cast = fits_i32 ? "(int32_t)" : "";
  int64_t extra_values = extent_sub_saturating(g, q->high, q->low),
          next = q->low;
  if (extra_values < 1 || extra_values > MAX_EXTRA_QUOTIENT_VALUES)
    return NULL;
  const char *sum = format(e, "%s%s", cast, emit_int(e, q->low));
  for (int64_t k = 0; k < extra_values; k++) {
    if (!extent_add(g, next, 1, &next))
      return NULL;
    sum = format(e, "%s - %s(test_%c((%s) >= %s%s))", sum,
                 fits_i32 ? "" : "wide", fits_i32 ? 'i' : 'l', dividend, cast,
                 emit_int(e, emit_extent_mul(e, next, q->divisor)));
  }
  return sum;
}

/* A floor division in each lane. */
static void emit_varying_floor_div(Emitter *e, uint32_t j) {
  const FloorDiv *q = &e->loop->floor_divs[j];
  bool fits_i32 = floor_div_fits_i32(q);
  char class = fits_i32 ? 'i' : 'l';
  const char *cast = fits_i32 ? "(int32_t)" : "",
             *base = emit_affine(e, &q->dividend);
  const char *dividend = format(e, "%s%s + %s", cast, base,
                                emit_varying_terms(e, &q->dividend, class));
  const char *value = emit_few_valued_floor_div(e, q, dividend, fits_i32);
  if (!value)
    value = format(e, "div_%c(%s, splat_%c(%s%s))", class, dividend, class,
                   cast, emit_divisor(e, q->divisor));
  buffer_printf(emit_block_at(e, e->levels.vector), "const v%c q%u = %s;\n",
                class, e->floor_divs.first_name + j, value);
}

void emit_floor_divs(Emitter *e) {
  bool used[MAX_FLOOR_DIVS] = {false};
  find_floor_divs(e->loop, used);
  for (uint32_t j = 0; j < e->loop->floor_div_count; j++) {
    const FloorDiv *q = &e->loop->floor_divs[j];
    if (!used[j])
      continue;
    uint32_t level = e->levels.of[MAX_KERNEL_AXES + j] =
        emit_affine_level(e, &q->dividend);
    e->floor_divs.varies[j] = emit_affine_varies(e, &q->dividend);
    if (e->floor_divs.varies[j]) {
      emit_varying_floor_div(e, j);
      continue;
    }
    const char *dividend = emit_affine(e, &q->dividend);
    buffer_printf(emit_block_at(e, level),
                  "const %s q%u = floor_div(%s, %s);\n", emit_index_type(e),
                  e->floor_divs.first_name + j, dividend,
                  emit_divisor(e, q->divisor));
  }
}

bool emit_floor_divs_are_uniform(const Emitter *e, const AffineExpr *q) {
  for (uint32_t j = 0; j < MAX_FLOOR_DIVS; j++)
    if (q->coef[MAX_KERNEL_AXES + j] && e->floor_divs.varies[j])
      return false;
  return true;
}
