/* The text of an answer: from tokens, up to a stop text. */
#define _GNU_SOURCE
#include "serve/internal.h"
#include "support/mem.h"

#include <string.h>

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

static bool ends_open(const Buffer *text) {
  size_t n = strlen(replacement);
  return text->len >= n && !memcmp(text->text + text->len - n, replacement, n);
}

/* Adds the text that the last token completes.  Its first bytes may depend on
 * the tokens before it, so these are decoded, too. */
static void extend_text(const Server *s, Request *r) {
  Buffer old = {0}, all = {0};
  Fault fault = {0};
  TextStream *t = &r->stream;
  size_t count = (size_t)r->token_count;
  const int64_t *from = r->tokens + t->from;
  if (tokenizer_decode(s->tokenizer, from, t->before, false, &old, &fault) &&
      tokenizer_decode(s->tokenizer, from, count - t->from, false, &all,
                       &fault) &&
      all.len > old.len && !ends_open(&all)) {
    buffer_add(&r->text, all.text + old.len, all.len - old.len);
    t->from += t->before;
    t->before = count - t->from;
  }
  buffer_free(&old);
  buffer_free(&all);
}

/* Ends the text before the first stop text in it. */
static bool cut_at_stop(Request *r, size_t known) {
  char *first = NULL;
  for (size_t i = 0; i < MAX_STOPS && r->stops[i]; i++) {
    size_t n = strlen(r->stops[i]), from = known < n ? 0 : known - n + 1;
    char *found =
        r->text.len > from
            ? memmem(r->text.text + from, r->text.len - from, r->stops[i], n)
            : NULL;
    if (found && (!first || found < first))
      first = found;
  }
  if (!first)
    return false;
  *first = 0;
  r->text.len = (size_t)(first - r->text.text);
  return true;
}

void request_add_token(const Server *s, Request *r, int64_t token) {
  if (model_is_stop(s, token)) {
    r->reason = "stop";
    return;
  }
  r->tokens[r->token_count++] = token;
  size_t known = r->text.len;
  extend_text(s, r);
  if (cut_at_stop(r, known))
    r->reason = "stop";
  else if (r->token_count - r->prompt_count >= r->most)
    r->reason = "length";
}

/* The longest end of the text that begins a stop text. */
static size_t open_stop_bytes(const Request *r, const char *stop) {
  size_t n = strlen(stop) - 1;
  for (n = n < r->text.len ? n : r->text.len; n > 0; n--)
    if (!memcmp(r->text.text + r->text.len - n, stop, n))
      return n;
  return 0;
}

size_t request_certain_bytes(const Request *r) {
  size_t open = 0;
  for (size_t i = 0; !r->reason && i < MAX_STOPS && r->stops[i]; i++) {
    size_t n = open_stop_bytes(r, r->stops[i]);
    open = n > open ? n : open;
  }
  return r->text.len - open;
}

void request_free(Request *r) {
  for (size_t i = 0; i < MAX_STOPS; i++)
    mem_free(r->stops[i]);
  mem_free(r->tokens);
  mem_free(r->pages);
  mem_free(r->spans);
  mem_free(r->rows);
  buffer_free(&r->text);
  buffer_free(&r->events);
  mem_free(r);
}
