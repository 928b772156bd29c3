/* Fields of matmuls in the text of schedules. */
#include "backend/cpu/gemm_fields.h"

#include "backend/cpu/gemm_tiling.h"
#include "backend/cpu/micro_kernel.h"
#include "machine/limits/planner.h"
#include "support/arena_text.h"
#include "support/buffer.h"

#include <ctype.h>
#include <string.h>

static const char *const keys[] = {
#define GEMM_FIELD(name, key, meaning) [GEMM_##name] = key,
#include "backend/cpu/gemm_fields.def"
};

static const struct {
  GemmField field;
  int64_t value;
  const char *word;
} words[] = {
#define GEMM_WORD(name, value, word) {GEMM_##name, value, word},
#include "backend/cpu/gemm_fields.def"
};

const GemmFields *gemm_fields_set(const Schedule *s, uint32_t loop) {
  static const GemmFields none;
  return s->gemm_fields ? &s->gemm_fields[loop] : &none;
}

/* ---- the fields of a schedule ---- */

/* True for the first matmul among loops from .. loop. */
static bool is_first_gemm(const Schedule *s, uint32_t from, uint32_t loop) {
  for (uint32_t j = from; j < loop; j++)
    if (s->gemm_tilings->by_loop[j].is_gemm)
      return false;
  return true;
}

/* Fields that the matmul does not have are 0, and symbolic ones, too. */
static GemmFields fields_of(const Kernel *k, const Schedule *s, uint32_t loop) {
  const GemmTiling *t = &s->gemm_tilings->by_loop[loop];
  GemmFields f = {
      .of = {[GEMM_MR] = t->mr, [GEMM_NR] = (int64_t)t->nr_vectors * s->width}};
  if (!k->loops.at[loop]->accumulated_axes)
    f.of[GEMM_KC] = t->kc;
  if (s->task_kind == TASK_TILE && !s->reduction_chunk) {
    f.of[GEMM_ROWS] = s->row_task_count ? 0 : s->task_height;
    f.of[GEMM_COLUMNS] = s->last_axis_block;
    f.of[GEMM_IMAGE_ROWS] = s->task_image_rows;
  } else if (s->task_kind == TASK_ROWS && is_first_gemm(s, 0, loop)) {
    f.of[GEMM_ROWS] = s->last_axis_block;
    f.of[GEMM_SPAN] = t->shares_panels ? 0 : s->last_axis_span;
  }
  if (k->loops.at[loop]->strip_mined && is_first_gemm(s, k->strip_begin, loop))
    f.of[GEMM_STRIP] = s->strip_length;
  if (t->window)
    f.of[GEMM_ALONG] = t->window->vectorize_channels ? GEMM_ALONG_CHANNELS
                                                     : GEMM_ALONG_POSITIONS;
  for (uint32_t j = 0; j < GEMM_FIELD_COUNT; j++)
    if (!extent_is_static(k->graph, f.of[j]))
      f.of[j] = 0;
  return f;
}

/* ---- printing and reading ---- */

static void print_field(Buffer *out, GemmField field, int64_t value) {
  for (size_t j = 0; j < ARRAY_LEN(words); j++)
    if (words[j].field == field && words[j].value == value) {
      buffer_printf(out, "%s=%s", keys[field], words[j].word);
      return;
    }
  buffer_printf(out, "%s=%lld", keys[field], (long long)value);
}

void gemm_fields_print(Buffer *out, const Kernel *k, const Schedule *s,
                       uint32_t loop) {
  GemmFields f = fields_of(k, s, loop);
  const MicroKernel *micro = s->gemm_tilings->by_loop[loop].micro;
  const char *separator = "";
  if (micro) {
    buffer_printf(out, "micro=%s", micro->name);
    separator = " ";
  }
  for (uint32_t j = 0; j < GEMM_FIELD_COUNT; j++) {
    if (!f.of[j])
      continue;
    buffer_puts(out, separator);
    print_field(out, (GemmField)j, f.of[j]);
    separator = " ";
  }
}

static bool has_words(uint32_t field) {
  for (size_t j = 0; j < ARRAY_LEN(words); j++)
    if (words[j].field == field)
      return true;
  return false;
}

/* The value, or 0 if it is invalid. */
static int64_t read_value(uint32_t field, const char *text, size_t len) {
  for (size_t j = 0; j < ARRAY_LEN(words); j++)
    if (words[j].field == field && strlen(words[j].word) == len &&
        memcmp(words[j].word, text, len) == 0)
      return words[j].value;
  int64_t number = 0;
  for (size_t j = 0; j < len; j++) {
    if (!isdigit((unsigned char)text[j]) || number > INT32_MAX)
      return 0;
    number = number * 10 + (text[j] - '0');
  }
  return has_words(field) || number > INT32_MAX ? 0 : number;
}

/* Reads the name of a micro-kernel, whose tile is set, too. */
static const char *read_micro(const Kernel *k, const char *text, size_t len,
                              GemmFields *to) {
  const char *name = arena_strndup(k->arena, text, len);
  if (to->micro)
    return "micro is set twice";
  to->micro = schedule_micro_kernel(k->graph, name);
  if (!to->micro)
    return arena_printf(k->arena,
                        "no micro-kernel of the program is named %s: write "
                        "`kernel %s : f32[M, k] @ f32[k, N] = c` and its code",
                        name, name);
  if (to->micro->is_cuda)
    return arena_printf(k->arena,
                        "micro=%s is a micro-kernel in CUDA C++, for GPUs: "
                        "write it in C, after `= c`, or write the schedule for "
                        "`on cuda`",
                        name);
  const int64_t sizes[2] = {to->micro->rows, to->micro->columns};
  for (uint32_t j = GEMM_MR; j <= GEMM_NR; j++) {
    if (to->of[j] && to->of[j] != sizes[j])
      return arena_printf(k->arena, "micro=%s has %s=%lld", name, keys[j],
                          (long long)sizes[j]);
    to->of[j] = sizes[j];
  }
  return NULL;
}

static const char *read_field(const Kernel *k, const char *text, size_t len,
                              GemmFields *to) {
  size_t name = strcspn(text, "= \t\r\n");
  const char *value = text + name + (name < len);
  size_t value_len = len - (size_t)(value - text);
  uint32_t field = 0;
  if (name == 5 && memcmp(text, "micro", 5) == 0)
    return read_micro(k, value, value_len, to);
  while (field < GEMM_FIELD_COUNT &&
         (strlen(keys[field]) != name || memcmp(keys[field], text, name) != 0))
    field++;
  if (field == GEMM_FIELD_COUNT)
    return arena_printf(k->arena, "%.*s is not a field of gemm", (int)name,
                        text);
  int64_t number = read_value(field, value, value_len);
  if (!number)
    return arena_printf(k->arena, "%.*s: invalid value of %s", (int)len, text,
                        keys[field]);
  if (to->of[field] && (to->of[field] != number || !to->micro))
    return arena_printf(k->arena, "%s is set twice", keys[field]);
  to->of[field] = number;
  return NULL;
}

const char *gemm_fields_read(const Kernel *k, const char *text, GemmFields *to,
                             uint32_t *at) {
  for (const char *p = text; *(p += strspn(p, " \t\r\n"));) {
    size_t len = strcspn(p, " \t\r\n");
    *at = (uint32_t)(p - text);
    const char *error = read_field(k, p, len, to);
    if (error)
      return error;
    p += len;
  }
  return NULL;
}

/* ---- refusals ---- */

static const char *refuse_tile(const Kernel *k, const Schedule *s,
                               const GemmFields *set, const GemmTiling *t) {
  if (set->of[GEMM_NR] % s->width)
    return arena_printf(k->arena,
                        "nr=%lld: a vector has %u lanes, of which "
                        "%lld is no multiple",
                        (long long)set->of[GEMM_NR], s->width,
                        (long long)set->of[GEMM_NR]);
  int64_t registers = vector_registers(s->vector_bytes),
          vectors = t->nr_vectors, needed = tile_registers(t->mr, vectors);
  if ((set->of[GEMM_MR] || set->of[GEMM_NR]) && needed > registers &&
      !set->micro)
    return arena_printf(k->arena,
                        "a tile of %u rows x %lld vectors needs %lld vector "
                        "registers: there are %lld",
                        t->mr, (long long)vectors, (long long)needed,
                        (long long)registers);
  return NULL;
}

static const char *refuse_micro(const Kernel *k, const GemmFields *set,
                                const GemmTiling *t) {
  const MicroKernel *m = set->micro;
  if (!m)
    return NULL;
  if (t->window)
    return "a convolution has no micro-kernel";
  if (t->element_dtype != m->dtype)
    return arena_printf(k->arena, "micro=%s is for products of %s", m->name,
                        dtype_info[m->dtype].name);
  return micro_kernel_refusal(k->arena, m);
}

/* Iterations of a task along an axis: at most those of the axis, and a multiple
 * of `of`. */
static const char *refuse_size(const Kernel *k, const GemmFields *set,
                               GemmField field, uint32_t axis, int64_t of) {
  int64_t extent = k->loops.at[0]->extents[axis], size = set->of[field];
  if (size % of)
    return arena_printf(k->arena,
                        "%s=%lld is no multiple of the %lld of a "
                        "tile",
                        keys[field], (long long)size, (long long)of);
  if (extent_is_static(k->graph, extent) && size > round_up(extent, of))
    return arena_printf(k->arena, "%s=%lld: there are only %lld", keys[field],
                        (long long)size, (long long)extent);
  return NULL;
}

static const char *refuse_blocks(const Kernel *k, const Schedule *s,
                                 const GemmFields *set, const GemmTiling *t) {
  int64_t nr = (int64_t)t->nr_vectors * s->width;
  uint32_t last = k->parallel_axes - 1;
  if (set->of[GEMM_KC] > MAX_KC)
    return arena_printf(k->arena, "kc=%lld: a block has at most %d terms",
                        (long long)set->of[GEMM_KC], MAX_KC);
  if (s->task_kind != TASK_TILE)
    return refuse_size(k, set, GEMM_ROWS, last, 1);
  bool channels = gemm_is_along_channels(t);
  const char *error =
      refuse_size(k, set, GEMM_ROWS, last - 1, channels ? nr : t->mr);
  error = error ? error
                : refuse_size(k, set, GEMM_COLUMNS, last, t->window ? 1 : nr);
  return error || !s->task_image_rows
             ? error
             : refuse_size(k, set, GEMM_IMAGE_ROWS, last - 2, 1);
}

/* Memory of one task, which each thread has. */
static const char *refuse_memory(const Kernel *k, const Schedule *s,
                                 const GemmTiling *t) {
  double bytes = dtype_info[t->accumulator_dtype].bytes, rows, columns;
  if (s->task_kind == TASK_ROWS) {
    bytes = kernel_local_bytes(k, false) * (double)s->last_axis_block;
  } else {
    rows = (double)extent_hint(k->graph, s->task_height);
    columns = (double)extent_hint(k->graph, s->last_axis_block);
    bytes *= columns * (rows + (double)extent_hint(k->graph, t->pack_kc));
  }
  if (bytes <= MAX_SET_TASK_BYTES)
    return NULL;
  return arena_printf(k->arena, "a task would need %.0f bytes: at most %d",
                      bytes, MAX_SET_TASK_BYTES);
}

const char *gemm_fields_refusal(const Kernel *k, const Schedule *s,
                                uint32_t loop) {
  const GemmFields *set = gemm_fields_set(s, loop);
  const GemmTiling *t = &s->gemm_tilings->by_loop[loop];
  GemmFields is = fields_of(k, s, loop);
  const char *error = refuse_tile(k, s, set, t);
  error = error ? error : refuse_micro(k, set, t);
  error = error ? error : refuse_blocks(k, s, set, t);
  for (uint32_t j = 0; !error && j < GEMM_FIELD_COUNT; j++)
    if (set->of[j] && !is.of[j])
      error = arena_printf(k->arena, "this product has no field %s", keys[j]);
    else if (set->of[j] && set->of[j] != is.of[j])
      error =
          arena_printf(k->arena, "%s=%lld is not possible: it would be %lld",
                       keys[j], (long long)set->of[j], (long long)is.of[j]);
  for (uint32_t j = 0; !error && j < GEMM_FIELD_COUNT; j++)
    error = set->of[j] ? refuse_memory(k, s, t) : NULL;
  return error;
}
