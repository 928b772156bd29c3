/* Tests which texts of requests for embeddings take part in a step. */
#include "serve/embedding.c"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { WIDTH = 2, TEXTS = 5, AT_ONCE = 2 };

/* ---- in place of the other files of serve/ ---- */

void http_error(HttpError *e, unsigned status, const char *parameter,
                const char *format, ...) {
  (void)parameter, (void)format;
  e->status = status;
}
void scheduler_note_ready(Server *s) {
  (void)s;
}
/* Removes requests that are answered. */
bool scheduler_wait(Server *s) {
  for (Request **at = &s->running; *at;)
    if ((*at)->reason)
      *at = (*at)->next;
    else
      at = &(*at)->next;
  return s->running != NULL;
}

/* ---- requests ---- */

/* Input i has TEXTS - i tokens, all of them 10 * number + i: the first input is
 * the last span. */
static void fill_request(Request *r, int64_t number) {
  *r = (Request){.number = number, .input_count = TEXTS};
  r->spans = mem_alloc(TEXTS * sizeof *r->spans);
  r->tokens = mem_alloc(TEXTS * (TEXTS + 1) / 2 * sizeof *r->tokens);
  for (int64_t i = 0; i < TEXTS; i++) {
    r->spans[TEXTS - 1 - i] =
        (InputSpan){.start = r->prompt_count, .length = TEXTS - i, .input = i};
    for (int64_t k = 0; k < TEXTS - i; k++)
      r->tokens[r->prompt_count++] = 10 * number + i;
  }
}

/* The embedding of a text: its first token, and its length.  Returns the number
 * of texts, which are those of one request. */
static int64_t compute(const ServeTexts *texts, float rows[AT_ONCE][WIDTH]) {
  int64_t count = texts->texts < AT_ONCE ? texts->texts : AT_ONCE;
  for (int64_t k = 0; k < count; k++) {
    const int64_t *span = texts->spans + 2 * k;
    rows[k][0] = (float)texts->ids[span[0]];
    rows[k][1] = (float)span[1];
  }
  return count;
}

static void check_rows(const Request *r) {
  assert_non_null(r->reason);
  assert_int_equal(r->width, WIDTH);
  for (int64_t i = 0; i < TEXTS; i++) {
    assert_int_equal(r->rows[i * WIDTH], 10 * r->number + i);
    assert_int_equal(r->rows[i * WIDTH + 1], TEXTS - i);
  }
}

static void free_request(Request *r) {
  mem_free(r->spans);
  mem_free(r->tokens);
  mem_free(r->rows);
}

/* Requests are served round-robin, whatever they still have to do. */
static void test_round_robin(void **state) {
  (void)state;
  Server s = {0};
  Request a, b;
  ServeTexts texts;
  float rows[AT_ONCE][WIDTH];
  int64_t count = 0, step = 0;
  static const int64_t served[] = {1, 2, 1, 2, 1, 2};
  fill_request(&a, 1);
  fill_request(&b, 2);
  pthread_mutex_init(&s.lock, NULL);
  embedding_new(&s);
  s.running = &a;
  a.next = &b;
  for (;; step++) {
    server_next_texts(&s, rows[0], count, WIDTH, &texts);
    if (!texts.texts)
      break;
    assert_true(step < (int64_t)ARRAY_LEN(served));
    assert_ptr_equal(texts.ids, served[step] == 1 ? a.tokens : b.tokens);
    count = compute(&texts, rows);
  }
  assert_int_equal(step, ARRAY_LEN(served));
  assert_int_equal(s.metrics.texts, 2 * TEXTS);
  check_rows(&a);
  check_rows(&b);
  free_request(&a);
  free_request(&b);
  embedding_free(&s);
  pthread_mutex_destroy(&s.lock);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_robin)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
