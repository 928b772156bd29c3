/* Integer division by constants, without a division instruction. */
#include "backend/emit/emit.h"

#define format emit_format

typedef struct Interval {
  int64_t low, high;
} Interval;

static Interval interval_of(const Graph *g, const KernelOp *s) {
  if (s->dtype == DT_U8)
    return (Interval){0, UINT8_MAX};
  return (Interval){extent_is_static(g, s->low) ? s->low : INT64_MIN,
                    extent_is_static(g, s->high) ? s->high : INT64_MAX};
}

const char *emit_divide_by_constant(Emitter *e, const char *x,
                                    const KernelOp *dividend, int divisor) {
  Interval b = interval_of(e->kernel->graph, dividend);
  for (int shift = 8; shift < 31 && b.low >= 0; shift++) {
    int64_t multiplier = (((int64_t)1 << shift) + divisor - 1) / divisor;
    int64_t excess = multiplier * divisor - ((int64_t)1 << shift);
    if (b.high > INT32_MAX / multiplier)
      break;
    if (b.high * excess < (int64_t)1 << shift)
      return format(e, "((%s * %d) >> %d)", x, (int)multiplier, shift);
  }
  if (b.low >= 0)
    return format(e, "(vi)((vu)%s / %du)", x, divisor);
  return format(e, "(((%s ^ (%s >> 31)) / %d) ^ (%s >> 31))", x, x, divisor, x);
}
