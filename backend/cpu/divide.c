/* Integer division by numbers that are known, without one. */
#include "backend/cpu/emit.h"

#define format emit_format

typedef struct Bounds {
  int64_t low, high;
} Bounds;

static Bounds bounds_of(const Graph *g, const Step *s) {
  if (s->dtype == DT_U8)
    return (Bounds){0, UINT8_MAX};
  return (Bounds){size_is_number(g, s->low) ? s->low : INT64_MIN,
                  size_is_number(g, s->high) ? s->high : INT64_MAX};
}

const char *emit_divided(Emitter *e, const char *x, const Step *of, int by) {
  Bounds b = bounds_of(e->k->graph, of);
  for (int bits = 8; bits < 31 && b.low >= 0; bits++) {
    int64_t times = (((int64_t)1 << bits) + by - 1) / by;
    int64_t more = times * by - ((int64_t)1 << bits);
    if (b.high > INT32_MAX / times)
      break;
    if (b.high * more < (int64_t)1 << bits)
      return format(e, "((%s * %d) >> %d)", x, (int)times, bits);
  }
  if (b.low >= 0)
    return format(e, "(vi)((vu)%s / %du)", x, by);
  return format(e, "(((%s ^ (%s >> 31)) / %d) ^ (%s >> 31))", x, x, by, x);
}
