/* Random schedules of kernels, for tests of the steps and of generated code:
 * random heads and steps, of which those that are refused are left out. */
#ifndef AXON_TESTS_RANDOM_SCHEDULES_H
#define AXON_TESTS_RANDOM_SCHEDULES_H

#include "backend/cpu/nest_choose.h"
#include "backend/cpu/schedule_text.h"
#include "support/arena_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 4, STEPS = 14 };

typedef struct RandomSchedule {
  const Kernel *kernel;
  Arena *arena;
  uint64_t state;
  const char *head;
  const char *steps[MAX_KERNEL_LOOPS]; /* of each loop nest */
  Schedule made; /* what the text makes, if it is not refused */
} RandomSchedule;

static uint32_t below(RandomSchedule *r, uint32_t n) {
  r->state = r->state * 6364136223846793005u + 1442695040888963407u;
  return n ? (uint32_t)(r->state >> 33) % n : 0;
}

static const char *whole_text(const RandomSchedule *r) {
  Buffer out = {.arena = r->arena};
  buffer_printf(&out, "%s\n", r->head);
  for (uint32_t j = 0; j < MAX_KERNEL_LOOPS; j++)
    if (r->steps[j])
      buffer_printf(&out, "%u: %s\n", j + 1, r->steps[j]);
  return out.text;
}

static bool is_refused(RandomSchedule *r) {
  uint32_t at;
  Schedule s = {0};
  bool refused = schedule_read(kernel_copy(r->kernel), cpu_vector_bytes(),
                               whole_text(r), &at, &s) != NULL;
  if (!refused)
    r->made = s;
  return refused;
}

static const char *random_head(RandomSchedule *r) {
  Buffer out = {.arena = r->arena};
  uint32_t count = r->kernel->parallel_axes, blocks = below(r, 3);
  /* other axes are loops in a task */
  uint32_t tasks = below(r, 3) || !count ? count : 1 + below(r, count);
  bool used[MAX_KERNEL_AXES] = {0};
  for (uint32_t named = 0; named < tasks;) {
    uint32_t v = below(r, count);
    if (used[v])
      continue;
    used[v] = true;
    buffer_printf(&out, "%si%u", named ? ", " : "tasks ", v);
    int64_t extent = r->kernel->loops.at[0]->extents[v];
    bool is_short = extent >= 2 && extent <= 4;
    if (++named + blocks > tasks)
      buffer_printf(&out, " %u",
                    is_short ? (uint32_t)extent : 2 + below(r, 40));
  }
  static const char *const others[] = {"stage", "transpose", "nontemporal 16",
                                       "chunk 700"};
  if (below(r, 3) == 0)
    buffer_printf(&out, "%s%s", out.len ? "; " : "",
                  others[below(r, ARRAY_LEN(others))]);
  buffer_printf(&out, "%swidth %u", out.len ? "; " : "",
                below(r, 8) == 0 ? 1 : cpu_vector_bytes() / (4 << below(r, 2)));
  return out.text;
}

static const char *loop_name(const Nest *n, uint32_t at, char name[32]) {
  snprintf(name, 32, "i%u.%u", n->names[n->loops[at].axis], nest_piece(n, at));
  return name;
}

/* Vectors along a loop: tiles it, and moves the lanes inside. */
static void add_lanes(RandomSchedule *r, Buffer *out, const Nest *n,
                      uint32_t at) {
  char name[32];
  uint32_t axis = n->names[n->loops[at].axis];
  buffer_printf(out, "tile i%u %u %s; order ", axis, r->made.width,
                below(r, 3) ? "peel" : "mask");
  for (uint32_t j = 0; j < n->loop_count; j++)
    if (!nest_runs_outside(n, j))
      buffer_printf(
          out, "%s, ",
          n->loops[j].axis == n->loops[at].axis
              ? arena_printf(r->arena, "i%u.%u", axis, nest_piece(n, j) + 1)
              : loop_name(n, j, name));
  buffer_printf(out, "i%u; lanes i%u%s", axis, axis,
                below(r, 8) ? "" : " mask");
}

static void add_order(RandomSchedule *r, Buffer *out, const Nest *n) {
  bool used[MAX_NEST_LOOPS] = {0};
  char name[32];
  for (uint32_t left = n->loop_count; left;) {
    uint32_t j = below(r, n->loop_count);
    if (used[j])
      continue;
    used[j] = true;
    if (!nest_runs_outside(n, j) && below(r, 2))
      buffer_printf(out, "%s%s", out->len > 6 ? ", " : "order ",
                    loop_name(n, j, name));
    left--;
  }
}

/* A loop over a whole axis of few iterations, besides loop `at`; or NO_LOOP. */
static uint32_t short_loop(const Nest *n, uint32_t at) {
  for (uint32_t j = 0; j < n->loop_count; j++) {
    const NestLoop *l = &n->loops[j];
    bool is_kept = l->axis < n->spec->spatial_axes && l->run == NEST_SERIAL;
    int64_t extent = is_kept ? n->spec->extents[l->axis] : 0;
    if (l->axis != n->loops[at].axis && extent >= 2 && extent <= 4 &&
        (!l->count || l->count == extent) && nest_piece(n, j) == 0)
      return j;
  }
  return NO_LOOP;
}

/* Vectors that are stored interleaved: unrolls such a loop just outside of the
 * terms and of the lanes of another axis. */
static void add_interleave(RandomSchedule *r, Buffer *out, const Nest *n,
                           uint32_t at) {
  char name[32];
  uint32_t few = short_loop(n, at), axis = n->names[n->loops[at].axis];
  if (few == NO_LOOP || n->loops[at].axis >= n->spec->spatial_axes)
    return;
  uint32_t woven = n->names[n->loops[few].axis];
  buffer_printf(out, "unroll i%u; tile i%u %u peel; order ", woven, axis,
                r->made.width);
  for (uint32_t j = 0; j < n->loop_count; j++)
    if (!nest_runs_outside(n, j) && j != few &&
        n->loops[j].axis != n->loops[at].axis &&
        n->loops[j].axis < n->spec->spatial_axes)
      buffer_printf(out, "%s, ", loop_name(n, j, name));
  buffer_printf(out, "i%u.1, i%u, ", axis, woven);
  for (uint32_t j = 0; j < n->loop_count; j++)
    if (!nest_runs_outside(n, j) && n->loops[j].axis >= n->spec->spatial_axes)
      buffer_printf(out, "%s, ", loop_name(n, j, name));
  buffer_printf(out, "i%u; lanes i%u; interleave i%u", axis, axis, woven);
}

/* Lanes of flattened loops, whose operands are shuffled: the axes in the task
 * that are not summed, and perhaps a tile of the loop outside of them. */
static void add_shuffle(RandomSchedule *r, Buffer *out, const Nest *n) {
  uint32_t first = 0, end = 0;
  char name[32];
  while (first < n->loop_count && n->loops[first].run == NEST_TASK)
    first++;
  for (end = first;
       end < n->loop_count && n->loops[end].axis < n->spec->spatial_axes;)
    end++;
  bool has_tile = below(r, 2);
  if (end - first < (has_tile ? 2u : 3u))
    return;
  loop_name(n, first, name);
  if (has_tile)
    buffer_printf(out, "tile %s %u; flatten %s, ", name, 1 + below(r, 4), name);
  else
    buffer_puts(out, "flatten ");
  for (uint32_t j = first + 1; j < end; j++)
    buffer_printf(out, "%si%u", j > first + 1 ? ", " : "",
                  n->names[n->loops[j].axis]);
  uint32_t lanes = n->spec->axis_count;
  buffer_printf(out, "; tile i%u %u mask; unroll i%u.1; ", lanes, r->made.width,
                lanes);
  for (uint32_t v = n->spec->spatial_axes; v < n->spec->axis_count; v++)
    buffer_printf(out, "unroll i%u; ", n->names[v]);
  buffer_puts(out, "order ");
  for (uint32_t v = n->spec->spatial_axes; v < n->spec->axis_count; v++)
    buffer_printf(out, "i%u, ", n->names[v]);
  buffer_printf(out, "i%u.1, i%u; lanes i%u mask; shuffle i%u", lanes, lanes,
                lanes, n->names[n->loops[first].axis]);
}

static const char *random_step(RandomSchedule *r, const Nest *n) {
  static const char *const flags[] = {"broadcast", "masked", "fma", "epilogue"};
  static const char *const tails[] = {"less",  "peel",  "if",    "mask",
                                      "clamp", "shift", "spread"};
  Buffer out = {.arena = r->arena};
  char one[32], other[32];
  if (!n->loop_count)
    return "fma";
  uint32_t at = below(r, n->loop_count);
  loop_name(n, at, one);
  loop_name(n, below(r, n->loop_count), other);
  switch (below(r, 10)) {
  case 0:
  case 1:
    buffer_printf(
        &out, "tile %s %u%s %s", one, 1 + below(r, below(r, 4) ? 9 : 130),
        below(r, 4) ? "" : " argument", tails[below(r, ARRAY_LEN(tails))]);
    break;
  case 2:
    add_lanes(r, &out, n, at);
    break;
  case 3:
    add_order(r, &out, n);
    break;
  case 4:
  case 5:
    buffer_printf(&out, "unroll %s", one);
    break;
  case 6:
    buffer_printf(&out, "%s %s", below(r, 2) ? "parts" : "run", one);
    break;
  case 8:
    add_interleave(r, &out, n, at);
    if (!out.len)
      buffer_printf(&out, "interleave %s", one);
    break;
  case 7:
    buffer_printf(&out, "stream %s, %s", one, other);
    break;
  default:
    buffer_puts(&out, flags[below(r, ARRAY_LEN(flags))]);
  }
  return out.len ? out.text : "fma";
}

/* Adds a step to a loop nest, unless it is refused. */
static void add_step(RandomSchedule *r, uint32_t loop, const char *step) {
  const char *before = r->steps[loop];
  r->steps[loop] =
      *before ? arena_printf(r->arena, "%s; %s", before, step) : step;
  if (strlen(r->steps[loop]) > 1500 || is_refused(r))
    r->steps[loop] = before;
}

/* Few loop nests can be interleaved: tries all loops of a nest without steps.
 */
static void try_interleave(RandomSchedule *r, uint32_t loop) {
  for (uint32_t at = 0; at < r->made.nests[loop]->loop_count; at++) {
    Buffer step = {.arena = r->arena};
    if (r->made.nests[loop]->loops[at].run == NEST_SERIAL)
      add_interleave(r, &step, r->made.nests[loop], at);
    if (step.len && !*r->steps[loop])
      add_step(r, loop, step.text);
  }
}

/* The same for shuffled lanes, which need a nest without steps. */
static void try_shuffle(RandomSchedule *r, uint32_t loop) {
  Buffer step = {.arena = r->arena};
  add_shuffle(r, &step, r->made.nests[loop]);
  if (step.len)
    add_step(r, loop, step.text);
}

/* Number of iterations of unrolled loops.  Compilers take long for many. */
static int64_t unrolled(const Nest *n) {
  int64_t count = 1;
  for (uint32_t j = 0; j < n->loop_count; j++)
    if (n->loops[j].run == NEST_UNROLL)
      count *= n->loops[j].count;
  return count;
}

/* Random fields of a matmul. */
static const char *random_gemm(RandomSchedule *r) {
  static const struct {
    const char *key;
    uint32_t max, of;
  } fields[] = {{"mr", 14, 1},     {"nr", 4, 0},         {"kc", 40, 1},
                {"rows", 12, 4},   {"span", 5, 8},       {"columns", 4, 16},
                {"columns", 9, 1}, {"image_rows", 10, 1}};
  Buffer out = {.arena = r->arena};
  uint32_t width = cpu_vector_bytes() / (4 << below(r, 2));
  buffer_puts(&out, "by gemm {");
  for (size_t j = 0; j < ARRAY_LEN(fields); j++)
    if (below(r, 3) == 0)
      buffer_printf(&out, " %s=%u", fields[j].key,
                    (1 + below(r, fields[j].max)) *
                        (fields[j].of ? fields[j].of : width));
  if (below(r, 4) == 0)
    buffer_printf(&out, " along=%s", below(r, 2) ? "channels" : "positions");
  buffer_puts(&out, "}");
  return out.text;
}

/* Random steps of a nest that packs an operand: of loops i0 to i2. */
static const char *random_pack_step(RandomSchedule *r) {
  uint32_t axis = below(r, 3), other = (axis + 1 + below(r, 2)) % 3;
  uint32_t width = r->made.width;
  switch (below(r, 6)) {
  case 0:
    return arena_printf(r->arena, "order i%u, i%u", axis, other);
  case 1:
    return arena_printf(r->arena, "tile i%u %u%s", axis, 1 + below(r, 9),
                        below(r, 2) ? "" : " peel");
  case 2:
    return arena_printf(r->arena, "order i%u, i%u; tile i%u %u peel; lanes i%u",
                        other, axis, axis, width, axis);
  case 3:
    return arena_printf(r->arena,
                        "tile i%u %u; tile i%u %u; "
                        "order i%u.1, i%u.1, i%u, i%u; unroll i%u; lanes i%u; "
                        "transpose i%u",
                        axis, width, other, width, axis, other, axis, other,
                        axis, other, axis);
  case 4:
    return arena_printf(r->arena, "unroll i%u", axis);
  default:
    return arena_printf(r->arena, "tile i%u %u; unroll i%u", axis,
                        1 + below(r, 6), axis);
  }
}

/* Adds such a nest to the schedule of a matmul, unless it is refused. */
static void add_pack(RandomSchedule *r, uint32_t loop, const char *side) {
  const char *before = r->steps[loop], *steps = "";
  for (uint32_t i = 0; i < STEPS; i++) {
    const char *more = arena_printf(r->arena, "%s%s%s", steps,
                                    *steps ? "; " : "", random_pack_step(r));
    r->steps[loop] =
        arena_printf(r->arena, "%s\n  pack %s {%s}", before, side, more);
    steps = is_refused(r) ? steps : more;
  }
  r->steps[loop] =
      *steps ? arena_printf(r->arena, "%s\n  pack %s {%s}", before, side, steps)
             : before;
}

/* Schedules of a kernel with matmuls; NULL: it has none. */
static const char *random_gemms(RandomSchedule *r) {
  bool found = false;
  r->head = "";
  for (uint32_t j = 0; j < MAX_KERNEL_LOOPS / 4; j++) {
    r->steps[j] = "by gemm";
    bool refused = is_refused(r);
    found |= !refused;
    for (uint32_t i = 0; i < STEPS && !refused; i++) {
      const char *before = r->steps[j];
      r->steps[j] = random_gemm(r);
      if (is_refused(r))
        r->steps[j] = before;
    }
    if (refused)
      r->steps[j] = NULL;
    for (uint32_t i = 0; i < 2 && !refused; i++)
      if (below(r, 2))
        add_pack(r, j, i ? "right" : "left");
  }
  return found ? whole_text(r) : NULL;
}

/* The first steps of a loop nest, perhaps with runs of a long sum; NULL: it
 * keeps those that Axon chooses. */
static const char *first_steps(RandomSchedule *r, uint32_t loop) {
  const LoopNest *of = r->kernel->loops.at[loop];
  r->steps[loop] = "";
  for (uint32_t v = of->axis_count; is_refused(r) && v > of->spatial_axes; v--)
    r->steps[loop] = arena_printf(r->arena, "tile i%u %u; run i%u.1", v - 1,
                                  2 + below(r, 127), v - 1);
  return is_refused(r) ? NULL : r->steps[loop];
}

/* A schedule that is not refused, and that depends on the kernel only; NULL:
 * none was found. */
static const char *random_schedule(const Kernel *k) {
  RandomSchedule r = {.kernel = k, .arena = k->arena};
  Buffer text = {.arena = k->arena};
  kernel_print(&text, k);
  for (size_t j = 0; j < text.len; j++)
    if (!isdigit((unsigned char)text.text[j])) /* nodes are numbered */
      r.state = r.state * 31 + (unsigned char)text.text[j];
  const char *gemms = below(&r, 3) ? random_gemms(&r) : NULL;
  if (gemms)
    return gemms;
  memset(r.steps, 0, sizeof r.steps);
  bool refused = true;
  for (uint32_t j = 0; refused && j < HEADS; j++) {
    r.head = random_head(&r);
    refused = is_refused(&r);
  }
  if (refused)
    return NULL;
  for (uint32_t j = 0; j < k->loops.len; j++) {
    r.steps[j] = first_steps(&r, j);
    if (r.steps[j] && r.made.nests[j] && below(&r, 2))
      try_interleave(&r, j);
    if (r.steps[j] && !*r.steps[j] && r.made.nests[j] && below(&r, 4))
      try_shuffle(&r, j);
    for (uint32_t i = 0; r.steps[j] && i < STEPS; i++)
      add_step(&r, j, random_step(&r, r.made.nests[j]));
  }
  for (uint32_t j = 0; j < k->loops.len; j++)
    if (r.made.nests[j] && unrolled(r.made.nests[j]) > 64)
      return NULL;
  return whole_text(&r);
}

#endif
