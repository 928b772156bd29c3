/* Embeddings: whose texts take part in a step.
 *
 * A step has texts of one request, and the program computes the first ones of
 * them (bert.pool_first): the same ones as bert.embed does for the same list.
 * So an embedding depends on its own request only.  Requests are served
 * round-robin: one with many texts does not delay the others. */
#include "serve/internal.h"
#include "support/clock.h"
#include "support/mem.h"
#include "support/trap.h"

#include <math.h>
#include <string.h>

typedef struct TextArrays {
  Request *of; /* whose texts take part in the step; NULL: nobody's */
  int64_t spans[MAX_INPUTS][2];
  double start;
} TextArrays;

void embedding_new(Server *s) {
  s->text_arrays = mem_alloc(sizeof *s->text_arrays);
}

void embedding_free(Server *s) {
  mem_free(s->text_arrays);
}

/* ---- results ---- */

static bool is_finite(const float *row, int64_t width) {
  for (int64_t j = 0; j < width; j++)
    if (!isfinite(row[j]))
      return false;
  return true;
}

static void take_row(Server *s, Request *r, const float *row, int64_t width) {
  int64_t input = r->spans[r->done_count++].input;
  if (!r->rows)
    r->rows = mem_alloc((size_t)(r->input_count * width) * sizeof *r->rows);
  r->width = width;
  memcpy(r->rows + input * width, row, (size_t)width * sizeof *row);
  s->metrics.texts++;
  if (!is_finite(row, width))
    http_error(&r->error, 500, NULL,
               "the embedding of input %lld is not finite", (long long)input);
  if (r->done_count == r->input_count)
    r->reason = "stop";
}

static void take_rows(Server *s, const float *rows, int64_t count,
                      int64_t width) {
  TextArrays *a = s->text_arrays;
  Request *r = a->of;
  if (!r)
    return;
  s->metrics.steps++;
  s->metrics.step_seconds += clock_seconds() - a->start;
  for (int64_t k = 0; k < count && r->done_count < r->input_count; k++)
    take_row(s, r, rows + k * width, width);
  a->of = NULL;
}

/* ---- a step ---- */

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
  Request *r = a->of = s->running;
  int64_t count = r->input_count - r->done_count;
  for (int64_t k = 0; k < count; k++) {
    const InputSpan *span = &r->spans[r->done_count + k];
    a->spans[k][0] = span->start;
    a->spans[k][1] = span->length;
  }
  if (r->next)
    move_first_to_end(s);
  *texts = (ServeTexts){r->prompt_count, count, r->tokens, a->spans[0]};
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
