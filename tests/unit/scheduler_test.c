/* Tests the scheduler of `axon serve` without a model:
 *   tests/unit/scheduler_test [ARRIVALS [SEED]]
 *
 * A place of the pool has a hash of the text up to its token in place of keys
 * and values, and the next token is a function of this hash.  So an answer is
 * wrong if a page was shared, cleared or taken wrongly. */
#include "serve/pages.c"
#include "serve/scheduler.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { PAGES = 48, VOCABULARY = 50, ALIVE = 40, CONTEXT = 160 };

static int64_t arrivals = 10000;
static uint64_t seed = 1;

static uint64_t random_number(uint64_t below) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (seed >> 33) % below;
}

/* ---- in place of the other files of serve/ ---- */

static int64_t alive_requests;

void http_error(HttpError *e, unsigned status, const char *parameter,
                const char *format, ...) {
  (void)parameter, (void)format;
  e->status = status;
}
int http_port(const Server *s) {
  (void)s;
  return 0;
}
void http_wake(Request *r) {
  (void)r;
}
bool http_is_closed(const Request *r) {
  return r->is_suspended; /* as the test says */
}
void answer_events(const Server *s, Request *r) {
  (void)s, (void)r;
}
void embedding_new(Server *s) {
  (void)s;
}
void embedding_free(Server *s) {
  (void)s;
}
void request_add_token(const Server *s, Request *r, int64_t token) {
  (void)s;
  r->tokens[r->token_count++] = token;
  if (r->token_count - r->prompt_count >= r->most)
    r->reason = "length";
}
void request_free(Request *r) {
  mem_free(r->tokens);
  mem_free(r->pages);
  mem_free(r);
  alive_requests--;
}

/* ---- the model ---- */

static uint64_t pool[PAGES * SERVE_PAGE];

static uint64_t extend(uint64_t text, int64_t token) {
  return (text ^ (uint64_t)(token + 1)) * 0x9e3779b97f4a7c15u;
}

static int64_t next_token(uint64_t text) {
  return (int64_t)((text >> 40) % VOCABULARY);
}

static uint64_t hash_of(const int64_t *tokens, int64_t count) {
  uint64_t text = 1;
  for (int64_t i = 0; i < count; i++)
    text = extend(text, tokens[i]);
  return text;
}

static int64_t place_of(const ServeStep *step, int64_t token, int64_t at) {
  return step->tables[token * step->pages + at / SERVE_PAGE] * SERVE_PAGE +
         at % SERVE_PAGE;
}

static void clear_pages(const ServeStep *step) {
  for (int64_t i = 0; i < step->cleared; i++)
    memset(&pool[step->pages_cleared[i] * SERVE_PAGE], 0,
           SERVE_PAGE * sizeof *pool);
}

/* Computes a step, as llama.run does: adds to the places, which are zero. */
static int64_t compute(const ServeStep *step, int64_t *chosen) {
  clear_pages(step);
  for (int64_t i = 0; i < step->tokens; i++) {
    const int64_t *t = step->at_token + i * TOKEN_NUMBERS;
    if (t[2] < SERVE_PAGE)
      continue; /* an additional token */
    assert_int_equal(t[2], place_of(step, i, t[1]));
    assert_int_equal(pool[t[2]], 0);
    pool[t[2]] = extend(t[1] ? pool[place_of(step, i, t[1] - 1)] : 1, t[0]);
  }
  for (int64_t k = 0; k < step->texts; k++)
    chosen[k] = next_token(pool[step->at_token[step->last[k] * 3 + 2]]);
  return step->texts;
}

/* ---- requests ---- */

static Request *open_requests[ALIVE];

/* Prompts often begin as others do: with some of three pages. */
static Request *new_request(void) {
  Request *r = mem_alloc(sizeof *r);
  alive_requests++;
  r->prompt_count = 1 + (int64_t)random_number(100);
  r->most = 1 + (int64_t)random_number(40);
  r->token_count = r->prompt_count;
  r->tokens = mem_alloc((size_t)(r->prompt_count + r->most) * sizeof(int64_t));
  int64_t same = (int64_t)random_number(101), kind = 0;
  for (int64_t i = 0; i < r->prompt_count; i++) {
    kind = i % SERVE_PAGE ? kind : (int64_t)random_number(3);
    r->tokens[i] = i < same ? (kind * 7 + i % SERVE_PAGE) % VOCABULARY
                            : (int64_t)random_number(VOCABULARY);
  }
  r->choice[PENALTY] = 1;
  return r;
}

static void check_answer(const Request *r) {
  uint64_t text = hash_of(r->tokens, r->prompt_count);
  for (int64_t i = r->prompt_count; i < r->token_count; i++) {
    assert_int_equal(r->tokens[i], next_token(text));
    text = extend(text, r->tokens[i]);
  }
}

/* Returns false if the queue is full. */
static bool arrive(Server *s) {
  HttpError error = {0};
  for (size_t i = 0; i < ALIVE; i++) {
    if (open_requests[i])
      continue;
    Request *r = new_request();
    if (scheduler_add(s, r, &error))
      return (open_requests[i] = r);
    request_free(r);
    break;
  }
  return false;
}

/* Clients read their answers, and some go away before. */
static void visit_clients(Server *s) {
  for (size_t i = 0; i < ALIVE; i++) {
    Request *r = open_requests[i];
    if (!r)
      continue;
    check_answer(r);
    bool goes = random_number(100) == 0;
    if (r->state != REQUEST_ENDED && goes && random_number(2))
      r->is_suspended = true; /* its socket is closed */
    else if (r->state == REQUEST_ENDED || goes) {
      scheduler_release(s, r);
      open_requests[i] = NULL;
    }
  }
}

static void leaks_nothing(void **state) {
  (void)state;
  Server s = {.options = {.slots = 12,
                          .queue = 20,
                          .cache = (PAGES - 1) * SERVE_PAGE,
                          .context = CONTEXT,
                          .seconds = INT32_MAX,
                          .is_quiet = true},
              .stop_at = 1e300};
  int64_t chosen[STEP_TOKENS], count = 0;
  ServeStep step;
  pthread_mutex_init(&s.lock, NULL);
  pthread_cond_init(&s.changed, NULL);
  scheduler_new(&s);
  for (int64_t n = 0; n < arrivals || s.open_count || s.running_count;) {
    s.is_stopping = false;
    for (uint64_t k = random_number(4); k > 0 && n < arrivals; k--)
      n += arrive(&s);
    s.is_stopping = true; /* a step without texts does not wait */
    server_next_step(&s, chosen, count, &step);
    count = compute(&step, chosen);
    visit_clients(&s);
  }
  assert_int_equal(pages_free_count(s.pages), PAGES - 1);
  assert_int_equal(s.queue_length + s.running_count + alive_requests, 0);
  assert_true(s.metrics.shared_tokens > s.metrics.prompt_tokens / 20);
  assert_true(s.metrics.cancelled > arrivals / 100);
  assert_true(s.metrics.answers > arrivals / 2);
  scheduler_free(&s);
  pthread_mutex_destroy(&s.lock);
  pthread_cond_destroy(&s.changed);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(leaks_nothing)};
  if (argc > 1)
    arrivals = strtoll(argv[1], NULL, 10);
  if (argc > 2)
    seed = strtoull(argv[2], NULL, 10);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
