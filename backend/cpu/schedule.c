/* How a kernel is to be run, from what it reads and how. */
#include "backend/cpu/cpu.h"

#include "backend/cpu/emit.h"

enum { SPLIT_UNITS = 16, SPLIT_WORK = 1 << 17 };

uint32_t target_vector_bytes(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return 64;
  return __builtin_cpu_supports("avx2") ? 32 : 16;
#else
  return 16;
#endif
}

static uint32_t width_of(const Kernel *k) {
  for (uint32_t j = 0; j < k->steps.len; j++) {
    const Step *s = &k->steps.at[j];
    bool wide =
        s->dtype == DT_F64 ||
        (s->dtype == DT_I64 && s->kind != STEP_INDEX && s->kind != STEP_CONST);
    if (wide)
      return target_vector_bytes() / 8;
  }
  return target_vector_bytes() / 4;
}

/* What an element costs where lanes lie along axis v, in loads of a vector. */
static double lane_cost(const Kernel *k, uint32_t v, uint32_t width) {
  double cost = 1, extent = (double)k->extents[v], w = width;
  for (uint32_t j = 0; j < k->steps.len; j++) {
    const Step *s = &k->steps.at[j];
    if (s->kind != STEP_READ)
      continue;
    int64_t step = s->address->times[v];
    cost += step == 0 ? 0.5 : step == 1 ? 1 : w;
  }
  double vectors = (double)((k->extents[v] + width - 1) / width);
  cost *= vectors * w / extent;
  return v >= k->outer ? cost + w / extent * 4 : cost + 1;
}

Schedule schedule_choose(const Kernel *k) {
  Schedule s = {.form = LOOP_MAP, .lane = NO_LANE, .width = width_of(k)};
  bool where = k->reduce == PRIM_ARGMAX || k->reduce == PRIM_ARGMIN;
  if (k->axes == k->outer) {
    if (k->outer)
      s.lane = k->outer - 1;
    return s;
  }
  double best = 0;
  for (uint32_t v = k->outer; v < k->axes; v++) {
    double cost = lane_cost(k, v, s.width);
    if (s.lane == NO_LANE || cost < best) {
      best = cost;
      s.lane = v;
      s.form = LOOP_ROW;
    }
  }
  if (k->outer && !where && lane_cost(k, k->outer - 1, s.width) < best) {
    s.lane = k->outer - 1;
    s.form = LOOP_COLUMN;
  }
  double units = 1, work = 1;
  for (uint32_t v = 0; v < k->axes; v++) {
    work *= (double)k->extents[v];
    if (v < k->outer)
      units *= (double)k->extents[v];
  }
  if (s.form == LOOP_COLUMN)
    units /= 64 * s.width;
  s.split = !where && units < SPLIT_UNITS && work > SPLIT_WORK;
  return s;
}
