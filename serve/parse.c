/* Requests from JSON.  Fields that Axon does not know are ignored; those that
 * would change the answer are refused. */
#include "serve/parse.h"
#include "support/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { MAX_MESSAGES = 4096 };

const json_t *parse_field(const Parse *p, const char *name) {
  const json_t *x = jansson.json_object_get(p->all, name);
  return x && !json_is_null(x) ? x : NULL;
}

static double take_number(Parse *p, const char *name, double otherwise,
                          double least, double most) {
  const json_t *x = parse_field(p, name);
  if (!x)
    return otherwise;
  double value = json_is_number(x) ? jansson.json_number_value(x) : NAN;
  if (value >= least && value <= most)
    return value;
  REFUSE(p, name, "`%s` must be a number from %g to %g", name, least, most);
  return otherwise;
}

int64_t parse_integer(Parse *p, const char *name, int64_t otherwise,
                      int64_t least, int64_t most) {
  const json_t *x = parse_field(p, name);
  if (!x)
    return otherwise;
  int64_t value =
      json_is_integer(x) ? jansson.json_integer_value(x) : least - 1;
  if (json_is_integer(x) && value >= least && value <= most)
    return value;
  REFUSE(p, name, "`%s` must be an integer from %lld to %lld", name,
         (long long)least, (long long)most);
  return otherwise;
}

static bool take_bool(Parse *p, const json_t *x, const char *name) {
  if (x && !json_is_boolean(x))
    REFUSE(p, name, "`%s` must be true or false", name);
  return x && json_is_true(x);
}

/* ---- fields of all requests ---- */

static void take_choice(Parse *p, Request *r) {
  r->choice[TEMPERATURE] = (float)take_number(p, "temperature", 1, 0, 100);
  r->choice[TOP_K] = (float)parse_integer(p, "top_k", 0, 0, 1 << 24);
  r->choice[TOP_P] = (float)take_number(p, "top_p", 1, 0, 1);
  r->choice[MIN_P] = (float)take_number(p, "min_p", 0, 0, 1);
  r->choice[PENALTY] =
      (float)take_number(p, "repetition_penalty", 1, 0.01, 100);
  uint32_t random = 0;
  ssize_t got = getrandom(&random, sizeof random, GRND_NONBLOCK);
  r->seed = parse_integer(p, "seed", got > 0 ? random : 0, 0, INT64_MAX);
}

static void add_stop(Parse *p, Request *r, size_t at, const json_t *x) {
  size_t len = json_is_string(x) ? jansson.json_string_length(x) : 0;
  if (!len || len > MAX_STOP_BYTES || at >= MAX_STOPS) {
    REFUSE(p, "stop", "`stop` must be a string of 1 to %d bytes, or %d at most",
           MAX_STOP_BYTES, MAX_STOPS);
    return;
  }
  r->stops[at] = mem_alloc(len + 1);
  memcpy(r->stops[at], jansson.json_string_value(x), len);
}

static void take_stops(Parse *p, Request *r) {
  const json_t *x = parse_field(p, "stop");
  if (x && !json_is_array(x))
    add_stop(p, r, 0, x);
  for (size_t i = 0; x && i < jansson.json_array_size(x) && !parse_failed(p);
       i++)
    add_stop(p, r, i, jansson.json_array_get(x, i));
}

/* Fields with other values than these would need what Axon does not have. */
static void refuse_others(Parse *p) {
  static const char *const off[] = {"echo",      "logprobs",  "top_logprobs",
                                    "tools",     "functions", "suffix",
                                    "logit_bias"};
  parse_integer(p, "n", 1, 1, 1);
  parse_integer(p, "best_of", 1, 1, 1);
  take_number(p, "frequency_penalty", 0, 0, 0);
  take_number(p, "presence_penalty", 0, 0, 0);
  for (size_t i = 0; i < ARRAY_LEN(off); i++) {
    const json_t *x = parse_field(p, off[i]);
    bool is_off = !x || json_is_false(x) ||
                  (json_is_array(x) && !jansson.json_array_size(x)) ||
                  (json_is_object(x) && !jansson.json_object_size(x));
    if (!is_off)
      REFUSE(p, off[i], "`%s` is not supported", off[i]);
  }
  const json_t *format = parse_field(p, "response_format");
  const json_t *type = format ? jansson.json_object_get(format, "type") : NULL;
  const char *text = type ? jansson.json_string_value(type) : NULL;
  if (format && (!text || strcmp(text, "text") != 0))
    REFUSE(p, "response_format",
           "only the response format `text` is supported");
}

static void take_model(Parse *p) {
  const json_t *x = parse_field(p, "model");
  const char *name = x ? jansson.json_string_value(x) : NULL;
  if (!name)
    REFUSE(p, "model", "`model` must be the name of the model, a string");
  else if (strcmp(name, p->s->name) != 0 && !parse_failed(p)) {
    http_error(p->error, 404, "model", "this server has the model `%s` only",
               p->s->name);
    p->error->code = "model_not_found";
  }
}

static void take_stream(Parse *p, Request *r) {
  r->is_stream = take_bool(p, parse_field(p, "stream"), "stream");
  const json_t *options = parse_field(p, "stream_options");
  if (options && !json_is_object(options))
    REFUSE(p, "stream_options", "`stream_options` must be an object");
  else if (options)
    r->wants_usage = take_bool(
        p, jansson.json_object_get(options, "include_usage"), "include_usage");
}

/* ---- prompts ---- */

/* Takes the tokens of a prompt, unless there is a fault. */
static void take_tokens(Parse *p, Request *r, bool ok, TokenIds *ids,
                        const Fault *fault) {
  r->tokens = ids->at;
  r->prompt_count = (int64_t)ids->count;
  if (!ok)
    REFUSE(p, NULL, "%s", fault->message);
}

static void encode(Parse *p, Request *r, const char *text, size_t len) {
  Fault fault = {0};
  TokenIds ids = {0};
  bool ok = tokenizer_encode(p->s->tokenizer, text, len, true, &ids, &fault);
  take_tokens(p, r, ok, &ids, &fault);
}

int64_t *parse_tokens(Parse *p, const char *field, const char *name,
                      const json_t *list, size_t *count) {
  *count = jansson.json_array_size(list);
  int64_t *tokens = mem_alloc((*count + 1) * sizeof *tokens);
  for (size_t i = 0; i < *count; i++) {
    const json_t *x = jansson.json_array_get(list, i);
    tokens[i] = json_is_integer(x) ? jansson.json_integer_value(x) : -1;
    if (tokens[i] < 0 || tokens[i] >= p->s->vocabulary) {
      REFUSE(p, field, "item %zu of %s is no token from 0 to %lld", i, name,
             (long long)p->s->vocabulary - 1);
      break;
    }
  }
  return tokens;
}

static void take_token_list(Parse *p, Request *r, const json_t *list) {
  size_t count;
  r->tokens = parse_tokens(p, "prompt", "`prompt`", list, &count);
  r->prompt_count = (int64_t)count;
}

static void take_prompt(Parse *p, Request *r) {
  const json_t *x = parse_field(p, "prompt");
  bool is_one = x && json_is_array(x) && jansson.json_array_size(x) == 1 &&
                json_is_string(jansson.json_array_get(x, 0));
  if (is_one)
    x = jansson.json_array_get(x, 0);
  if (x && json_is_string(x))
    encode(p, r, jansson.json_string_value(x), jansson.json_string_length(x));
  else if (x && json_is_array(x))
    take_token_list(p, r, x);
  else
    REFUSE(p, "prompt", "`prompt` must be a string, or a list of tokens");
}

/* The text of a message: a string, or parts of type `text`. */
static bool add_content(const json_t *x, Buffer *out) {
  if (json_is_string(x)) {
    buffer_puts(out, jansson.json_string_value(x));
    return true;
  }
  size_t count = json_is_array(x) ? jansson.json_array_size(x) : 0;
  for (size_t i = 0; i < count; i++) {
    const json_t *part = jansson.json_array_get(x, i);
    const json_t *type = jansson.json_object_get(part, "type");
    const json_t *text = jansson.json_object_get(part, "text");
    const char *kind = type ? jansson.json_string_value(type) : NULL;
    if (!kind || strcmp(kind, "text") != 0 || !text || !json_is_string(text))
      return false;
    buffer_puts(out, jansson.json_string_value(text));
  }
  return count > 0;
}

static const char *role_of(const json_t *message) {
  static const char *const roles[] = {"system", "user", "assistant"};
  const json_t *x = jansson.json_object_get(message, "role");
  const char *role = x ? jansson.json_string_value(x) : NULL;
  for (size_t i = 0; role && i < ARRAY_LEN(roles); i++)
    if (!strcmp(role, roles[i]))
      return roles[i];
  return role && !strcmp(role, "developer") ? roles[0] : NULL;
}

static void add_messages(Parse *p, Request *r, const json_t *list) {
  size_t count = jansson.json_array_size(list);
  Message *messages = mem_alloc(count * sizeof *messages);
  Buffer *texts = mem_alloc(count * sizeof *texts);
  for (size_t i = 0; i < count && !parse_failed(p); i++) {
    const json_t *x = jansson.json_array_get(list, i);
    const json_t *content = jansson.json_object_get(x, "content");
    messages[i].role = json_is_object(x) ? role_of(x) : NULL;
    if (!messages[i].role)
      REFUSE(p, "messages",
             "message %zu needs a `role`: system, user or "
             "assistant",
             i);
    else if (!content || !add_content(content, &texts[i]))
      REFUSE(p, "messages",
             "message %zu needs a `content`: a string, or parts "
             "of type text",
             i);
    messages[i].text = texts[i].text ? texts[i].text : "";
  }
  if (!parse_failed(p)) {
    Fault fault = {0};
    TokenIds ids = {0};
    bool ok = model_chat_tokens(p->s, messages, count, &ids, &fault);
    take_tokens(p, r, ok, &ids, &fault);
  }
  for (size_t i = 0; i < count; i++)
    buffer_free(&texts[i]);
  mem_free(texts);
  mem_free(messages);
}

static void take_messages(Parse *p, Request *r) {
  const json_t *x = parse_field(p, "messages");
  size_t count = x && json_is_array(x) ? jansson.json_array_size(x) : 0;
  if (!count || count > MAX_MESSAGES)
    REFUSE(p, "messages", "`messages` must be a list of 1 to %d messages",
           MAX_MESSAGES);
  else if (!p->s->has_template)
    REFUSE(p, NULL,
           "this model has no template of conversations that Axon "
           "knows; use /v1/completions");
  else
    add_messages(p, r, x);
}

/* ---- room ---- */

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* The longest answer, and memory for it. */
static void take_room(Parse *p, Request *r) {
  const ServeOptions *o = &p->s->options;
  int64_t room = smaller(o->context, o->cache);
  const char *name = parse_field(p, "max_completion_tokens")
                         ? "max_completion_tokens"
                         : "max_tokens";
  int64_t most = parse_integer(p, name, r->kind == REQUEST_CHAT ? o->most : 16,
                               1, INT32_MAX);
  if (parse_failed(p))
    return;
  if (r->prompt_count == 0)
    REFUSE(p, NULL, "the prompt has no tokens");
  else if (r->prompt_count >= room) {
    REFUSE(p, NULL,
           "the prompt has %lld tokens; there is room for %lld with "
           "the answer",
           (long long)r->prompt_count, (long long)room);
    p->error->code = "context_length_exceeded";
  }
  r->most = smaller(smaller(most, o->most), room - r->prompt_count);
  r->token_count = r->prompt_count;
  r->stream.from = (size_t)r->prompt_count;
  if (parse_failed(p))
    return;
  size_t used = (size_t)r->prompt_count * sizeof *r->tokens;
  r->tokens =
      mem_realloc(r->tokens, used, used + (size_t)r->most * sizeof *r->tokens);
}

static void take_text(Parse *p, Request *r) {
  take_choice(p, r);
  take_stops(p, r);
  take_stream(p, r);
  refuse_others(p);
  if (!parse_failed(p))
    (r->kind == REQUEST_CHAT ? take_messages : take_prompt)(p, r);
  if (!parse_failed(p))
    take_room(p, r);
}

static void take_all(Parse *p, Request *r) {
  if (!json_is_object(p->all)) {
    REFUSE(p, NULL, "the body must be a JSON object");
    return;
  }
  take_model(p);
  (r->kind == REQUEST_EMBEDDING ? parse_inputs : take_text)(p, r);
}

static void refuse_text(const json_error_t *where, HttpError *error) {
  enum json_error_code code = json_error_code(where);
  bool is_nul =
      code == json_error_null_character || code == json_error_null_byte_in_key;
  http_error(error, 400, NULL, "%s: line %d, column %d: %s",
             is_nul ? "the body cannot be read" : "the body is no JSON",
             where->line, where->column,
             is_nul ? "texts cannot contain \\u0000" : where->text);
}

Request *request_parse(const Server *s, RequestKind kind, const char *body,
                       size_t len, HttpError *error) {
  json_error_t where;
  json_t *all =
      jansson.json_loadb(len ? body : "", len, JSON_REJECT_DUPLICATES, &where);
  if (!all) {
    refuse_text(&where, error);
    return NULL;
  }
  Request *r = mem_alloc(sizeof *r);
  Parse p = {.s = s, .all = all, .error = error};
  r->kind = kind;
  take_all(&p, r);
  json_decref_library(all);
  if (!parse_failed(&p))
    return r;
  request_free(r);
  return NULL;
}
