/* Schedules of kernels as text. */
#include "backend/cpu/schedule_text.h"

#include "backend/cpu/gemm_fields.h"
#include "backend/cpu/gemm_tiling.h"
#include "backend/cpu/nest_choose.h"
#include "backend/cpu/vector_axis.h"
#include "support/arena.h"
#include "support/arena_text.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

/* ---- printing ---- */

static bool is_gemm(const Schedule *s, uint32_t loop) {
  return s->gemm_tilings && s->gemm_tilings->by_loop[loop].is_gemm;
}

/* Iterations of a parallel axis in a task. */
static int64_t block_of(const Kernel *k, const Schedule *s, uint32_t v) {
  bool is_block = s->task_kind == TASK_COLUMNS || s->task_kind == TASK_TILE;
  if (v + 1 == k->parallel_axes && is_block)
    return s->last_axis_block;
  return v + 2 == k->parallel_axes && s->task_kind == TASK_TILE ? s->task_height
                                                                : 1;
}

static void print_head(Buffer *out, const Kernel *k, const Schedule *s) {
  buffer_puts(out, "  ");
  for (uint32_t v = 0; v < k->parallel_axes; v++) {
    buffer_printf(out, "%si%u", v ? ", " : "tasks ", k->axis_names[v]);
    if (block_of(k, s, v) != 1)
      buffer_printf(out, " %lld", (long long)block_of(k, s, v));
  }
  buffer_puts(out, k->parallel_axes ? "; " : "");
  if (s->reduction_chunk)
    buffer_printf(out, "chunk %lld; ", (long long)s->reduction_chunk);
  if (k->vectorize_outer)
    buffer_puts(out, "stage; ");
  if (s->transpose)
    buffer_puts(out, "transpose; ");
  if (isfinite(s->nontemporal_bytes))
    buffer_printf(out, "nontemporal %.0f; ", s->nontemporal_bytes);
  buffer_printf(out, "width %u\n", s->width);
}

static void print_gemm(Buffer *out, const Kernel *k, const Schedule *s,
                       uint32_t loop) {
  buffer_puts(out, "by gemm {");
  gemm_fields_print(out, k, s, loop);
  buffer_puts(out, "}");
  gemm_packs_print(out, s, loop);
}

void schedule_print(Buffer *out, const Kernel *k, const Schedule *s) {
  if (!s->gemm_tilings)
    print_head(out, k, s);
  for (uint32_t j = 0; j < k->loops.len; j++) {
    bool is_epilogue = j && s->nests[j - 1] && s->nests[j - 1]->has_epilogue;
    if (is_epilogue)
      continue;
    buffer_printf(out, "  %u: ", j + 1);
    if (is_gemm(s, j))
      print_gemm(out, k, s, j);
    else if (s->nests[j])
      nest_print_schedule(out, s->nests[j], s->nests[j]->task_steps);
    buffer_puts(out, "\n");
  }
}

/* ---- reading ---- */

#define BLANKS " \t\r\n"

typedef struct KernelHead {
  uint32_t axis_count; /* tasks, outermost first */
  uint8_t axes[MAX_KERNEL_AXES];
  int64_t blocks[MAX_KERNEL_AXES];
  int64_t chunk;
  uint32_t width; /* 0: the widest */
  bool stages, transposes;
  double nontemporal_bytes; /* INFINITY: none */
} KernelHead;

typedef struct LoopText {
  const char *steps; /* NULL: the chooser decides */
  uint32_t at;
} LoopText;

typedef struct ScheduleReader {
  Kernel *kernel;
  const char *text;
  uint32_t at, token; /* token: where the last item begins */
  KernelHead head;
  LoopText loops[MAX_KERNEL_LOOPS];
} ScheduleReader;

static void skip_blanks(ScheduleReader *r) {
  while (isspace((unsigned char)r->text[r->at]))
    r->at++;
}

static bool take_char(ScheduleReader *r, char c) {
  skip_blanks(r);
  bool found = r->text[r->at] == c;
  r->at += found;
  return found;
}

static bool take_word(ScheduleReader *r, const char *word) {
  size_t len = strlen(word);
  skip_blanks(r);
  bool found = strncmp(r->text + r->at, word, len) == 0 &&
               !isalnum((unsigned char)r->text[r->at + len]);
  r->at += found ? (uint32_t)len : 0;
  return found;
}

static bool take_number(ScheduleReader *r, int64_t *number) {
  uint32_t begin = r->at;
  *number = 0;
  while (isdigit((unsigned char)r->text[r->at]) && *number < INT32_MAX)
    *number = *number * 10 + (r->text[r->at++] - '0');
  return r->at > begin && *number > 0 && *number <= INT32_MAX;
}

static bool take_bytes(ScheduleReader *r, double *bytes) {
  skip_blanks(r);
  uint32_t begin = r->at;
  *bytes = 0;
  while (isdigit((unsigned char)r->text[r->at]))
    *bytes = *bytes * 10 + (r->text[r->at++] - '0');
  return r->at > begin;
}

/* The number of a loop nest at the beginning of its steps, such as `2:`. */
static bool at_loop(const ScheduleReader *r, uint32_t at) {
  uint32_t end = at;
  while (isdigit((unsigned char)r->text[end]))
    end++;
  bool is_word =
      at && (isalnum((unsigned char)r->text[at - 1]) || r->text[at - 1] == '.');
  return end > at && !is_word && r->text[end] == ':';
}

static const char *read_tasks(ScheduleReader *r) {
  KernelHead *h = &r->head;
  uint32_t begin = r->token;
  do {
    int64_t axis = 0, block = 1;
    skip_blanks(r);
    r->token = schedule_error_place(r->text, begin, r->at);
    if (h->axis_count == MAX_KERNEL_AXES || r->text[r->at++] != 'i' ||
        !isdigit((unsigned char)r->text[r->at]))
      return "expected tasks A [n], B, …: the parallel axes, outermost first, "
             "and their iterations in a task";
    for (; isdigit((unsigned char)r->text[r->at]); r->at++)
      if (axis <= INT32_MAX)
        axis = axis * 10 + (r->text[r->at] - '0');
    skip_blanks(r);
    bool has_block =
        isdigit((unsigned char)r->text[r->at]) && !at_loop(r, r->at);
    if (has_block && !take_number(r, &block))
      return "the iterations in a task are a number from 1 to 2147483647";
    if (axis >= r->kernel->parallel_axes)
      return arena_printf(r->kernel->arena,
                          "i%lld is not one of the %u parallel axes",
                          (long long)axis, r->kernel->parallel_axes);
    if (memchr(h->axes, (int)axis, h->axis_count))
      return arena_printf(r->kernel->arena, "i%lld is named twice",
                          (long long)axis);
    h->axes[h->axis_count] = (uint8_t)axis;
    h->blocks[h->axis_count++] = block;
  } while (take_char(r, ','));
  return NULL;
}

static const char *read_head_item(ScheduleReader *r) {
  KernelHead *h = &r->head;
  const KernelHead before = *h;
  int64_t width = h->width, *to = NULL;
  double bytes;
  skip_blanks(r);
  r->token = r->at;
  if (take_word(r, "tasks"))
    return read_tasks(r);
  if (take_word(r, "stage"))
    h->stages = true;
  else if (take_word(r, "transpose"))
    h->transposes = true;
  else if (take_word(r, "width"))
    to = &width;
  else if (take_word(r, "chunk"))
    to = &h->chunk;
  else if (take_word(r, "nontemporal") && take_bytes(r, &bytes))
    h->nontemporal_bytes = bytes;
  else
    return "expected tasks A [n], …, width n, chunk n, stage, transpose, "
           "nontemporal n, or a loop nest such as `1:`";
  skip_blanks(r);
  if (to && !take_number(r, to))
    return "width and chunk have a number from 1 to 2147483647";
  h->width = (uint32_t)width;
  bool is_first =
      before.stages != h->stages || before.transposes != h->transposes ||
      (!before.width && h->width) || (!before.chunk && h->chunk) ||
      (isinf(before.nontemporal_bytes) && !isinf(h->nontemporal_bytes));
  return is_first ? NULL : "this is written twice: leave one of them out";
}

static const char *read_head(ScheduleReader *r) {
  skip_blanks(r);
  while (r->text[r->at] && !at_loop(r, r->at)) {
    const char *error = read_head_item(r);
    if (error)
      return error;
    take_char(r, ';');
    skip_blanks(r);
  }
  return NULL;
}

/* Finds the steps of each loop nest. */
static const char *read_loops(ScheduleReader *r) {
  while (r->text[r->at]) {
    r->token = r->at;
    int64_t loop;
    if (!take_number(r, &loop) || loop > MAX_KERNEL_LOOPS)
      return "no loop nest has this number";
    if (r->loops[loop - 1].steps)
      return "this loop nest has steps already";
    r->at++; /* the colon */
    uint32_t begin = r->at;
    while (r->text[r->at] && !at_loop(r, r->at))
      r->at++;
    r->loops[loop - 1] = (LoopText){
        arena_strndup(r->kernel->arena, r->text + begin, r->at - begin), begin};
  }
  return NULL;
}

/* ---- tasks ---- */

enum { MAX_BLOCK_ROUNDING = 64 }; /* blocks are multiples of vectors */

static const char *check_blocks(const ScheduleReader *r) {
  const KernelHead *h = &r->head;
  const LoopNest *loop = r->kernel->loops.at[0];
  for (uint32_t j = 0; j < h->axis_count; j++) {
    int64_t extent = loop_extent_hint(loop, h->axes[j]);
    if (h->blocks[j] > round_up(extent, MAX_BLOCK_ROUNDING))
      return arena_printf(
          r->kernel->arena, "i%u has %lld iterations, and a task of %lld",
          h->axes[j], (long long)extent, (long long)h->blocks[j]);
  }
  return NULL;
}

/* Returns true if parallel axes may be loops in a task. */
static bool axes_may_be_inner(const Kernel *k) {
  const LoopNest *loop = k->loops.at[0];
  bool has_locals = k->loops.len > 1 || k->accumulated_axes;
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    has_locals |= loop->outputs.at[j].local_index != NULL;
  return !has_locals;
}

/* Orders the parallel axes as the tasks are.  Axes that are not named are loops
 * in a task. */
static const char *apply_tasks(ScheduleReader *r, Schedule *s) {
  Kernel *k = r->kernel;
  KernelHead *h = &r->head;
  for (uint32_t v = 0; !h->axis_count && v < k->parallel_axes; v++)
    h->axes[v] = (uint8_t)v, h->blocks[v] = 1;
  h->axis_count = h->axis_count ? h->axis_count : k->parallel_axes;
  if (h->axis_count < k->parallel_axes && !axes_may_be_inner(k))
    return arena_printf(k->arena,
                        "the kernel has %u parallel axes: name each, since "
                        "only one loop nest without local values may have "
                        "loops over them in its tasks",
                        k->parallel_axes);
  uint32_t blocks = 0, inner = k->parallel_axes - h->axis_count;
  for (uint32_t j = 0; j < h->axis_count; j++) {
    if (h->blocks[j] == 1 && blocks)
      return arena_printf(k->arena,
                          "i%u follows an axis with a block: tasks "
                          "with blocks come last",
                          h->axes[j]);
    blocks += h->blocks[j] > 1;
  }
  if (blocks > 2)
    return "tasks have blocks along at most two axes";
  for (uint32_t j = 0; j < h->axis_count; j++) {
    uint32_t v = 0;
    while (k->axis_names[v] != h->axes[j])
      v++;
    kernel_move_axis_last(k, v);
  }
  for (uint32_t j = 0; j < inner; j++)
    kernel_move_axis_last(k, 0);
  if (inner)
    kernel_make_axes_inner(k, h->axis_count);
  static const TaskKind kinds[] = {TASK_POINT, TASK_COLUMNS, TASK_TILE};
  s->task_kind = kinds[blocks];
  s->last_axis_block = blocks ? h->blocks[h->axis_count - 1] : 1;
  s->task_height = blocks > 1 ? h->blocks[h->axis_count - 2] : 1;
  s->reduction_chunk = h->chunk;
  return NULL;
}

static const char *check_head(const ScheduleReader *r, const Schedule *s) {
  const Kernel *k = r->kernel;
  const KernelHead *h = &r->head;
  if (h->chunk && (s->task_kind == TASK_TILE || !schedule_can_split(k)))
    return "chunk: only a kernel that is one sum over all its axes but the "
           "parallel ones, with blocks along one axis, can be split";
  if (h->stages && (s->task_kind != TASK_COLUMNS || h->chunk))
    return "stage: needs tasks with a block along one axis, and no chunks";
  if (h->transposes && s->task_kind != TASK_TILE)
    return "transpose: needs tasks with blocks along two axes";
  if (h->transposes &&
      schedule_transpose_axis(k, k->parallel_axes - 1) != k->parallel_axes - 2)
    return "transpose: no load is contiguous along the axis before the last";
  return NULL;
}

/* Lanes of 32, 64 or 8 bits. */
static const char *check_width(const Kernel *k, uint32_t bytes,
                               const Schedule *s) {
  bool is_wide =
           s->width == bytes / 4 && !vector_axis_needs_64bit(k, s->vector_axes),
       is_byte = s->width == bytes && vector_axis_fits_bytes(k, s, bytes);
  if (s->width == 1 || s->width == bytes / 8 || is_wide || is_byte)
    return NULL;
  return arena_printf(k->arena,
                      "width %u: on this machine vectors have %u lanes, or %u "
                      "if no element of a vector has 64 bits",
                      s->width, bytes / 8, bytes / 4);
}

/* ---- nests ---- */

static const char *read_nest(ScheduleReader *r, Schedule *s, uint32_t at) {
  const LoopText *text = &r->loops[at];
  Nest *n = nest_new_task(r->kernel, s, at);
  uint32_t position = 0;
  r->token = text->at;
  if (!n)
    return "these tasks do not fit this loop nest";
  const char *error = nest_parse_schedule(n, text->steps, &position);
  if (error) {
    r->token = text->at + position;
    return error;
  }
  uint32_t lanes = nest_lanes(n);
  s->vector_axes[at] = lanes == NO_LOOP ? NO_AXIS : n->loops[lanes].axis;
  s->nests[at] = n;
  return NULL;
}

/* The text after `by gemm`; NULL: the loop nest has other steps. */
static const char *after_by_gemm(const ScheduleReader *r, uint32_t at) {
  const char *steps = r->loops[at].steps;
  if (!steps)
    return NULL;
  steps += strspn(steps, BLANKS);
  return strncmp(steps, "by gemm", 7) == 0 && strchr(BLANKS "{;", steps[7])
             ? steps + 7
             : NULL;
}

/* Reads `{key=value …}`, or nothing, and then `pack …`. */
static const char *read_gemm_fields(ScheduleReader *r, uint32_t at,
                                    const char *text, GemmFields *to) {
  const char *open = text + strspn(text, BLANKS);
  uint32_t position = 0;
  r->token = r->loops[at].at + (uint32_t)(open - r->loops[at].steps);
  size_t len = *open == '{' ? strcspn(open, "}") : 0;
  if (*open == '{' && !open[len])
    return "{ has no }";
  const char *end = open + len + (len > 0);
  const char *error =
      len ? gemm_fields_read(r->kernel,
                             arena_strndup(r->kernel->arena, open + 1, len - 1),
                             to, &position)
          : NULL;
  r->token += error ? 1 + position : 0;
  if (!error && (error = gemm_packs_read(r->kernel, end, to, &position)))
    r->token += (uint32_t)(end - open) + position;
  for (uint32_t j = 0; j < NEST_OPERAND_COUNT; j++)
    to->packs[j].at += (uint32_t)(end - r->loops[at].steps);
  return error;
}

/* Returns true if a loop nest is `by gemm`. */
static bool read_all_gemm_fields(ScheduleReader *r, GemmFields *fields,
                                 const char **error) {
  bool found = false;
  *error = NULL;
  for (uint32_t j = 0; !*error && j < MAX_KERNEL_LOOPS; j++) {
    const char *text = after_by_gemm(r, j);
    found |= text != NULL;
    *error = text ? read_gemm_fields(r, j, text, &fields[j]) : NULL;
  }
  return found;
}

static const char *read_gemm(ScheduleReader *r, Schedule *s, uint32_t at) {
  uint32_t position = 0;
  if (!is_gemm(s, at))
    return "this loop nest is no matrix product";
  const char *error = gemm_fields_refusal(r->kernel, s, at);
  error = error ? error : gemm_packs_apply(r->kernel, s, at, &position);
  r->token += position;
  return error;
}

static const char *read_nests(ScheduleReader *r, Schedule *s) {
  Kernel *k = r->kernel;
  const char *error = NULL;
  for (uint32_t j = 0; !error && j < MAX_KERNEL_LOOPS; j++) {
    r->token = r->loops[j].at;
    if (j >= k->loops.len)
      error = r->loops[j].steps
                  ? arena_printf(k->arena, "the kernel has %u loop nest%s",
                                 k->loops.len, k->loops.len == 1 ? "" : "s")
                  : NULL;
    else if (after_by_gemm(r, j))
      error = read_gemm(r, s, j);
    else if (r->loops[j].steps && is_gemm(s, j))
      error = "this loop nest is a matrix product: write `by gemm` here, or "
              "steps for each";
    else if (r->loops[j].steps)
      error = read_nest(r, s, j);
    else if (!is_gemm(s, j) && !(s->nests[j] = nest_choose(k, s, j)))
      error = arena_printf(k->arena, "loop nest %u needs steps", j + 1);
  }
  for (uint32_t j = 0; !error && j < k->loops.len; j++) {
    r->token = r->loops[j].at;
    error = s->nests[j] ? nest_refusal(k, s, j, s->nests[j]) : NULL;
  }
  return error;
}

static const char *read_schedule(ScheduleReader *r, uint32_t bytes,
                                 Schedule *s) {
  Kernel *k = r->kernel;
  skip_blanks(r);
  uint32_t head = r->at;
  const char *error = read_head(r);
  error = error ? error : read_loops(r);
  if (error)
    return error;
  GemmFields *fields = NEW_ARRAY(k->arena, GemmFields, MAX_KERNEL_LOOPS);
  memset(fields, 0, MAX_KERNEL_LOOPS * sizeof *fields);
  bool by_gemm = read_all_gemm_fields(r, fields, &error);
  if (error)
    return error;
  r->token = head;
  if (by_gemm) {
    if (r->head.axis_count || r->head.width)
      return "the tasks of a kernel with `by gemm` are those of the product";
    schedule_choose_with(k, bytes, true, fields, s);
    return read_nests(r, s);
  }
  uint32_t widest = bytes / (vector_axis_needs_64bit(k, NULL) ? 8 : 4);
  *s = (Schedule){.vector_bytes = bytes,
                  .width = r->head.width ? r->head.width : widest,
                  .nontemporal_bytes = r->head.nontemporal_bytes,
                  .transpose = r->head.transposes,
                  .reduction_unroll = 1};
  error = check_blocks(r);
  error = error ? error : apply_tasks(r, s);
  error = error ? error : check_head(r, s);
  if (error)
    return error;
  if (r->head.stages)
    kernel_stage_strided(k, k->parallel_axes - 1);
  else
    schedule_trim(k, s);
  schedule_prepare_nests(k, s);
  error = read_nests(r, s);
  r->token = error ? r->token : head;
  return error ? error : check_width(k, bytes, s);
}

const char *schedule_read(Kernel *k, uint32_t bytes, const char *text,
                          uint32_t *at, Schedule *s) {
  ScheduleReader r = {
      .kernel = k, .text = text, .head.nontemporal_bytes = INFINITY};
  const char *error = read_schedule(&r, bytes, s);
  *at = error ? r.token : 0;
  return error;
}
