/* Which texts take part in a step, and which pages they have.
 *
 * A request waits until there are pages for its prompt and its longest answer,
 * so a text that has begun can always go on.  Each step takes one token of each
 * text that is being answered, and, while there is room, tokens of prompts in
 * the order of arrival.  The numbers of tokens, texts and pages of a step are
 * rounded up to powers of two, so that few plans serve all steps: the
 * additional tokens write to page 0, which no text has.
 *
 * A text shares the full pages of its prompt that another text has computed
 * (pages.c).  It computes the last token of its prompt in any case. */
#include "serve/internal.h"
#include "support/clock.h"
#include "support/mem.h"
#include "support/trap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
  STEP_TOKENS = 64,    /* tokens of a step, at most */
  MIN_TABLE_PAGES = 4, /* in a table */
  TOKEN_NUMBERS = 3
};

/* The arrays of a step.  `texts` are the requests behind `last`. */
typedef struct StepArrays {
  int64_t at_token[STEP_TOKENS][TOKEN_NUMBERS];
  const Request *of_token[STEP_TOKENS];
  int64_t *tables, *seen, *cleared; /* of enough elements for all steps */
  int64_t last[STEP_TOKENS];
  Request *texts[STEP_TOKENS];
  float choices[STEP_TOKENS][CHOICE_NUMBERS];
  int64_t at_text[STEP_TOKENS][TOKEN_NUMBERS];
  int64_t tokens, text_count, cleared_count, seen_count;
  double start;
} StepArrays;

static int64_t power_of_two(int64_t n, int64_t least) {
  int64_t power = least;
  while (power < n)
    power *= 2;
  return power;
}

bool scheduler_new(Server *s) {
  if (s->is_encoder) {
    embedding_new(s);
    return true;
  }
  int64_t slots = s->options.slots;
  s->page_count = s->options.cache / SERVE_PAGE + 1;
  s->pages = pages_new(s->page_count);
  s->is_dirty = mem_alloc((size_t)s->page_count);
  StepArrays *a = s->arrays = mem_alloc(sizeof *a);
  int64_t pages =
      power_of_two(s->options.context / SERVE_PAGE + 1, MIN_TABLE_PAGES);
  a->tables = mem_alloc((size_t)(STEP_TOKENS * pages) * sizeof(int64_t));
  a->seen =
      mem_alloc((size_t)(slots * s->options.context + 1) * sizeof(int64_t));
  a->cleared = mem_alloc((size_t)(2 * s->page_count) * sizeof(int64_t));
  return true;
}

int64_t server_page_count(const Server *s) {
  return s->page_count;
}

void scheduler_free(Server *s) {
  Request *lists[] = {s->queue, s->running};
  for (size_t i = 0; i < ARRAY_LEN(lists); i++)
    for (Request *r = lists[i], *next; r; r = next) {
      next = r->next;
      request_free(r);
    }
  embedding_free(s);
  StepArrays *a = s->arrays;
  if (a) {
    mem_free(a->tables);
    mem_free(a->seen);
    mem_free(a->cleared);
  }
  mem_free(a);
  pages_free(s->pages);
  mem_free(s->is_dirty);
}

/* ---- requests come and go ---- */

bool scheduler_add(Server *s, Request *r, HttpError *error) {
  if (s->is_stopping) {
    http_error(error, 503, NULL, "the server is shutting down");
    return false;
  }
  int64_t count = s->queue_length + s->running_count;
  if (count >= s->options.slots + s->options.queue) {
    http_error(error, 429, NULL,
               "%lld requests have no answer yet; try again later",
               (long long)count);
    return false;
  }
  Request **end = &s->queue;
  while (*end)
    end = &(*end)->next;
  *end = r;
  r->number = ++s->last_number;
  r->arrived = clock_seconds();
  r->in_scheduler = r->has_connection = true;
  s->queue_length++;
  s->open_count++;
  pthread_cond_signal(&s->changed);
  return true;
}

void scheduler_release(Server *s, Request *r) {
  r->has_connection = false;
  r->is_cancelled = true;
  r->connection = NULL;
  s->open_count--;
  pthread_cond_signal(&s->changed);
  if (!r->in_scheduler)
    request_free(r);
}

static void free_pages(Server *s, Request *r) {
  pages_release(s->pages, r->pages, r->page_count);
  r->page_count = 0;
}

/* The request, already out of its list, is over. */
static void end_request(Server *s, Request *r) {
  free_pages(s, r);
  r->state = REQUEST_ENDED;
  r->in_scheduler = false;
  if (r->is_cancelled)
    s->metrics.cancelled++;
  else if (r->error.status)
    s->metrics.errors++;
  else
    s->metrics.answers++;
  if (!r->has_connection) {
    request_free(r);
    return;
  }
  if (r->is_stream)
    answer_events(s, r);
  http_wake(r);
}

/* Finds out whether a request that has no result yet must end. */
static bool must_end(Server *s, Request *r, double now) {
  r->is_cancelled |= http_is_closed(r);
  if (r->is_cancelled || r->reason)
    return true;
  if (s->is_closing)
    http_error(&r->error, 503, NULL, "the server is shutting down");
  else if (now - r->arrived > (double)s->options.seconds)
    http_error(&r->error, 408, NULL, "the answer took more than %lld seconds",
               (long long)s->options.seconds);
  return r->error.status != 0;
}

static void end_some(Server *s, Request **list, int64_t *count) {
  double now = clock_seconds();
  for (Request **at = list; *at;) {
    Request *r = *at;
    if (!must_end(s, r, now)) {
      at = &r->next;
      continue;
    }
    *at = r->next;
    r->next = NULL;
    --*count;
    end_request(s, r);
  }
}

void scheduler_end_all(Server *s) {
  end_some(s, &s->running, &s->running_count);
  end_some(s, &s->queue, &s->queue_length);
}

/* Takes the pages of other texts with the same beginning. */
static void share_pages(Server *s, Request *r) {
  while ((r->page_count + 1) * SERVE_PAGE < r->prompt_count) {
    int64_t page = pages_share(s->pages, &r->prefix,
                               r->tokens + r->page_count * SERVE_PAGE);
    if (!page)
      break;
    r->pages[r->page_count++] = page;
  }
  r->fresh = r->page_count;
  r->computed = r->page_count * SERVE_PAGE;
}

/* Gives a request its pages.  Returns false if there are not enough. */
static bool take_pages(Server *s, Request *r) {
  int64_t pages = (r->prompt_count + r->most + SERVE_PAGE - 1) / SERVE_PAGE;
  if (!r->pages)
    r->pages = mem_alloc((size_t)pages * sizeof *r->pages);
  r->prefix = 0;
  share_pages(s, r);
  if (pages - r->page_count > pages_free_count(s->pages)) {
    free_pages(s, r);
    return false;
  }
  while (r->page_count < pages)
    r->pages[r->page_count++] = pages_take(s->pages);
  return true;
}

/* Begins waiting requests, in order, while there are pages. */
static void begin_some(Server *s) {
  Request **end = &s->running;
  while (*end)
    end = &(*end)->next;
  while (s->queue && s->running_count < s->options.slots) {
    Request *r = s->queue;
    if (!s->is_encoder && !take_pages(s, r))
      return;
    s->queue = r->next;
    s->queue_length--;
    r->next = NULL;
    r->state = REQUEST_RUNS;
    *end = r;
    end = &r->next;
    s->running_count++;
    s->metrics.prompt_tokens += r->prompt_count;
    s->metrics.shared_tokens += r->computed;
  }
}

/* ---- a step ---- */

static void take_result(Server *s, Request *r, int64_t token) {
  if (!r->first) {
    r->first = clock_seconds();
    s->metrics.firsts++;
    s->metrics.first_seconds += r->first - r->arrived;
  }
  s->metrics.tokens++;
  request_add_token(s, r, token);
  if (!r->is_stream || !r->has_connection)
    return;
  answer_events(s, r);
  http_wake(r);
}

static void take_results(Server *s, const int64_t *chosen, int64_t count) {
  StepArrays *a = s->arrays;
  if (!a->tokens)
    return;
  s->metrics.steps++;
  s->metrics.step_seconds += clock_seconds() - a->start;
  for (int64_t i = 0; i < a->text_count && i < count; i++)
    take_result(s, a->texts[i], chosen[i]);
}

/* The last page that the text has filled can be shared from the next step on.
 */
static void note_full_page(Server *s, Request *r) {
  int64_t page = r->computed / SERVE_PAGE - 1;
  if (r->computed % SERVE_PAGE == 0)
    r->prefix = pages_add_beginning(s->pages, r->pages[page], r->prefix,
                                    r->tokens + page * SERVE_PAGE);
}

static void put_token(Server *s, Request *r) {
  StepArrays *a = s->arrays;
  int64_t position = r->computed++, page = r->pages[position / SERVE_PAGE];
  int64_t *to = a->at_token[a->tokens];
  to[0] = r->tokens[position];
  to[1] = position;
  to[2] = page * SERVE_PAGE + position % SERVE_PAGE;
  a->of_token[a->tokens++] = r;
  note_full_page(s, r);
}

static void put_choice(StepArrays *a, Request *r) {
  int64_t k = a->text_count++;
  a->texts[k] = r;
  a->last[k] = a->tokens - 1;
  memcpy(a->choices[k], r->choice, sizeof r->choice);
  if (r->choice[PENALTY] != 1) {
    memcpy(a->seen + a->seen_count, r->tokens,
           (size_t)r->token_count * sizeof *r->tokens);
    a->seen_count += r->token_count;
  }
  a->at_text[k][0] = r->seed;
  a->at_text[k][1] = r->token_count;
  a->at_text[k][2] = a->seen_count;
}

/* Pages get zeros before their first use by another text. */
static void put_pages(Server *s, Request *r) {
  StepArrays *a = s->arrays;
  for (int64_t i = r->fresh; !r->has_pages && i < r->page_count; i++) {
    if (s->is_dirty[r->pages[i]])
      a->cleared[a->cleared_count++] = r->pages[i];
    s->is_dirty[r->pages[i]] = true;
  }
  r->has_pages = true;
}

/* Adds up to `most` tokens of a text. */
static void put_text(Server *s, Request *r, int64_t most) {
  StepArrays *a = s->arrays;
  put_pages(s, r);
  while (most-- > 0 && r->computed < r->token_count)
    put_token(s, r);
  if (r->computed == r->token_count)
    put_choice(a, r);
}

static void put_texts(Server *s) {
  StepArrays *a = s->arrays;
  for (Request *r = s->running; r; r = r->next)
    if (r->token_count - r->computed == 1 && a->tokens < STEP_TOKENS)
      put_text(s, r, 1);
  for (Request *r = s->running; r; r = r->next)
    if (r->token_count > r->computed && a->tokens < STEP_TOKENS)
      put_text(s, r, STEP_TOKENS - a->tokens);
}

/* Additional tokens and texts, whose results nobody wants. */
static void round_up(StepArrays *a, ServeStep *step) {
  step->tokens = power_of_two(a->tokens, 1);
  step->texts = power_of_two(a->text_count, 1);
  for (int64_t i = a->tokens; i < step->tokens; i++) {
    memset(a->at_token[i], 0, sizeof a->at_token[i]);
    a->of_token[i] = NULL;
  }
  for (int64_t k = a->text_count; k < step->texts; k++) {
    a->last[k] = 0;
    memset(a->choices[k], 0, sizeof a->choices[k]);
    a->choices[k][PENALTY] = 1;
    memset(a->at_text[k], 0, sizeof a->at_text[k]);
  }
  step->cleared = a->cleared_count ? power_of_two(a->cleared_count, 1) : 0;
  for (int64_t i = a->cleared_count; i < step->cleared; i++)
    a->cleared[i] = 0;
}

static void put_tables(StepArrays *a, ServeStep *step) {
  int64_t pages = 1;
  for (int64_t i = 0; i < a->tokens; i++)
    if (pages <= a->at_token[i][1] / SERVE_PAGE)
      pages = a->at_token[i][1] / SERVE_PAGE + 1;
  step->pages = power_of_two(pages, MIN_TABLE_PAGES);
  memset(a->tables, 0,
         (size_t)(step->tokens * step->pages) * sizeof *a->tables);
  for (int64_t i = 0; i < a->tokens; i++) {
    const Request *r = a->of_token[i];
    int64_t count = r->page_count < step->pages ? r->page_count : step->pages;
    memcpy(a->tables + i * step->pages, r->pages,
           (size_t)count * sizeof *r->pages);
  }
}

static void build_step(Server *s, ServeStep *step) {
  StepArrays *a = s->arrays;
  a->tokens = a->text_count = a->cleared_count = a->seen_count = 0;
  put_texts(s);
  round_up(a, step);
  put_tables(a, step);
  step->seen = a->seen_count;
  step->at_token = a->at_token[0];
  step->tables = a->tables;
  step->last = a->last;
  step->pages_cleared = a->cleared;
  step->choices = a->choices[0];
  step->at_text = a->at_text[0];
  step->tokens_seen = a->seen;
  a->start = clock_seconds();
}

/* ---- the loop ---- */

void scheduler_note_ready(Server *s) {
  if (!s->is_ready && !s->options.is_quiet)
    fprintf(stderr, "axon: %s is ready at http://%s:%d/\n", s->name,
            s->options.host, http_port(s));
  s->is_ready = true;
}

bool scheduler_wait(Server *s) {
  for (;;) {
    s->is_closing |= s->is_stopping && clock_seconds() >= s->stop_at;
    scheduler_end_all(s);
    begin_some(s);
    if (s->running)
      return true;
    if (s->is_stopping)
      return false;
    pthread_cond_wait(&s->changed, &s->lock);
  }
}

static void next_step(Server *s, const int64_t *chosen, int64_t count,
                      ServeStep *step) {
  scheduler_note_ready(s);
  take_results(s, chosen, count);
  if (scheduler_wait(s))
    build_step(s, step);
  else
    s->arrays->tokens = 0;
}

void server_next_step(void *server, const int64_t *chosen, int64_t count,
                      ServeStep *step) {
  Server *s = server;
  Trap trap;
  memset(step, 0, sizeof *step);
  pthread_mutex_lock(&s->lock);
  if (TRAP_SET(trap) == FAIL_NONE) {
    next_step(s, chosen, count, step);
    trap_end(&trap);
  }
  pthread_mutex_unlock(&s->lock);
  if (trap.kind != FAIL_NONE)
    trap_raise(trap.kind);
}
