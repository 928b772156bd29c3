/* Embeddings: which texts take part in a step.
 *
 * A step computes texts of one padded length, as bert.embed does: only the
 * length of a text decides to which length it is padded, so its embedding does
 * not depend on other texts.  The first request decides on the length.  Each
 * request gives one text in turn while there is room.  Then the first request
 * becomes the last one, so that one with many texts does not delay the
 * others. */
#include "serve/internal.h"
#include "support/clock.h"
#include "support/mem.h"
#include "support/trap.h"

#include <math.h>
#include <string.h>

enum {
  MAX_TEXTS = 64,         /* of a step; --slots is less */
  MIN_TEXT_TOKENS = 16,   /* as bert.padded_length */
  STEP_TEXT_TOKENS = 4096 /* as bert.most_tokens */
};

typedef struct TextArrays {
  int64_t *ids; /* [rows, columns] */
  int64_t lengths[MAX_TEXTS];
  Request *of[MAX_TEXTS];
  int64_t inputs[MAX_TEXTS]; /* of these requests */
  int64_t count;             /* the rows that somebody wants */
  double start;
} TextArrays;

void embedding_new(Server *s) {
  int64_t context = s->options.context;
  int64_t most = context > STEP_TEXT_TOKENS ? context : STEP_TEXT_TOKENS;
  s->text_arrays = mem_alloc(sizeof *s->text_arrays);
  s->text_arrays->ids = mem_alloc((size_t)most * sizeof(int64_t));
}

void embedding_free(Server *s) {
  if (s->text_arrays)
    mem_free(s->text_arrays->ids);
  mem_free(s->text_arrays);
}

/* ---- results ---- */

static bool is_finite(const float *row, int64_t width) {
  for (int64_t j = 0; j < width; j++)
    if (!isfinite(row[j]))
      return false;
  return true;
}

static void take_row(Server *s, Request *r, int64_t input, const float *row,
                     int64_t width) {
  if (!r->rows)
    r->rows = mem_alloc((size_t)(r->input_count * width) * sizeof *r->rows);
  r->width = width;
  memcpy(r->rows + input * width, row, (size_t)width * sizeof *row);
  r->is_done[input] = true;
  s->metrics.texts++;
  if (!is_finite(row, width))
    http_error(&r->error, 500, NULL,
               "the embedding of input %lld is not finite", (long long)input);
  if (++r->done_count == r->input_count)
    r->reason = "stop";
}

static void take_rows(Server *s, const float *rows, int64_t count,
                      int64_t width) {
  TextArrays *a = s->text_arrays;
  if (!a->count)
    return;
  s->metrics.steps++;
  s->metrics.step_seconds += clock_seconds() - a->start;
  for (int64_t k = 0; k < a->count && k < count; k++)
    take_row(s, a->of[k], a->inputs[k], rows + k * width, width);
  a->count = 0;
}

/* ---- a step ---- */

static int64_t rounded(int64_t n, int64_t least, int64_t most) {
  int64_t power = least;
  while (power < n)
    power *= 2;
  return power < most ? power : most;
}

static int64_t start_of(const Request *r, int64_t input) {
  return input ? r->ends[input - 1] : 0;
}

static int64_t padded_length(const Server *s, const Request *r, int64_t input) {
  return rounded(r->ends[input] - start_of(r, input), MIN_TEXT_TOKENS,
                 s->options.context);
}

static bool has_input(const TextArrays *a, const Request *r, int64_t input) {
  for (int64_t k = 0; k < a->count; k++)
    if (a->of[k] == r && a->inputs[k] == input)
      return true;
  return false;
}

/* The first input that must be computed and has this padded length, or any if
 * it is 0; -1: there is none. */
static int64_t next_input(const Server *s, const Request *r, int64_t columns) {
  for (int64_t i = 0; i < r->input_count; i++)
    if (!r->is_done[i] && (!columns || padded_length(s, r, i) == columns) &&
        !has_input(s->text_arrays, r, i))
      return i;
  return -1;
}

static void put_input(TextArrays *a, Request *r, int64_t input,
                      int64_t columns) {
  int64_t k = a->count++, start = start_of(r, input);
  int64_t length = r->ends[input] - start, *to = a->ids + k * columns;
  memset(to, 0, (size_t)columns * sizeof *to);
  memcpy(to, r->tokens + start, (size_t)length * sizeof *to);
  a->lengths[k] = length;
  a->of[k] = r;
  a->inputs[k] = input;
}

static void put_inputs(Server *s, int64_t columns, int64_t most) {
  TextArrays *a = s->text_arrays;
  for (int64_t before = -1; before < a->count && a->count < most;) {
    before = a->count;
    for (Request *r = s->running; r && a->count < most; r = r->next) {
      int64_t input = next_input(s, r, columns);
      if (input >= 0)
        put_input(a, r, input, columns);
    }
  }
}

static void move_first_to_end(Server *s) {
  Request *first = s->running, **end = &first->next;
  while (*end)
    end = &(*end)->next;
  *end = first;
  s->running = first->next;
  first->next = NULL;
}

static void build_step(Server *s, ServeTexts *texts) {
  TextArrays *a = s->text_arrays;
  int64_t columns = padded_length(s, s->running, next_input(s, s->running, 0));
  int64_t most = STEP_TEXT_TOKENS / columns;
  most = most < 1 ? 1 : most < s->options.slots ? most : s->options.slots;
  put_inputs(s, columns, most);
  int64_t rows = rounded(a->count, 1, most);
  for (int64_t k = a->count; k < rows; k++) { /* rows that nobody wants */
    memset(a->ids + k * columns, 0, (size_t)columns * sizeof *a->ids);
    a->lengths[k] = 1;
  }
  if (s->running->next)
    move_first_to_end(s);
  *texts = (ServeTexts){rows, columns, a->ids, a->lengths};
  a->start = clock_seconds();
}

static void next_texts(Server *s, const float *rows, int64_t count,
                       int64_t width, ServeTexts *texts) {
  scheduler_note_ready(s);
  take_rows(s, rows, count, width);
  if (scheduler_wait(s))
    build_step(s, texts);
}

void server_next_texts(void *server, const float *rows, int64_t count,
                       int64_t width, ServeTexts *texts) {
  Server *s = server;
  Trap trap;
  memset(texts, 0, sizeof *texts);
  pthread_mutex_lock(&s->lock);
  if (TRAP_SET(trap) == FAIL_NONE) {
    next_texts(s, rows, count, width, texts);
    trap_end(&trap);
  }
  pthread_mutex_unlock(&s->lock);
  if (trap.kind != FAIL_NONE)
    trap_raise(trap.kind);
}
