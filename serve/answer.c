/* Answers as JSON and as server-sent events (OpenAI's interface). */
#include "serve/internal.h"
#include "support/json_writer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- errors ---- */

void http_error(HttpError *e, unsigned status, const char *parameter,
                const char *format, ...) {
  va_list args;
  e->status = status;
  e->type = status == 401   ? "authentication_error"
            : status == 429 ? "rate_limit_error"
            : status < 500  ? "invalid_request_error"
                            : "server_error";
  e->code = NULL;
  e->parameter = parameter;
  va_start(args, format);
  vsnprintf(e->message, sizeof e->message, format, args);
  va_end(args);
}

static void put_text_or_null(Buffer *out, const char *name, const char *text) {
  json_key(out, name);
  if (text)
    json_quote(out, text);
  else
    buffer_puts(out, "null");
}

void answer_error(const HttpError *e, Buffer *out) {
  json_open(out, NULL, '{');
  json_open(out, "error", '{');
  json_string_field(out, "message", e->message);
  json_string_field(out, "type", e->type);
  put_text_or_null(out, "param", e->parameter);
  put_text_or_null(out, "code", e->code);
  buffer_puts(out, "}}");
}

/* ---- answers ---- */

static void open_answer(const Server *s, const Request *r, const char *kind,
                        Buffer *out) {
  json_open(out, NULL, '{');
  json_key(out, "id");
  buffer_printf(out, "\"%s-%lld\"",
                r->kind == REQUEST_CHAT ? "chatcmpl" : "cmpl",
                (long long)r->number);
  json_string_field(out, "object", kind);
  json_int_field(out, "created", s->created);
  json_string_field(out, "model", s->name);
}

static void put_usage(const Request *r, Buffer *out) {
  int64_t made = r->token_count - r->prompt_count;
  json_open(out, "usage", '{');
  json_int_field(out, "prompt_tokens", r->prompt_count);
  json_int_field(out, "completion_tokens", made);
  json_int_field(out, "total_tokens", r->token_count);
  buffer_putc(out, '}');
}

static void put_content(const char *name, const char *text, size_t len,
                        Buffer *out) {
  json_key(out, name);
  json_quote_len(out, text ? text : "", len);
}

static void put_choice(const Request *r, Buffer *out) {
  json_open(out, NULL, '{');
  json_int_field(out, "index", 0);
  if (r->kind == REQUEST_CHAT) {
    json_open(out, "message", '{');
    json_string_field(out, "role", "assistant");
    put_content("content", r->text.text, r->text.len, out);
    buffer_putc(out, '}');
  } else {
    put_content("text", r->text.text, r->text.len, out);
  }
  json_key(out, "logprobs");
  buffer_puts(out, "null");
  put_text_or_null(out, "finish_reason", r->reason);
  buffer_putc(out, '}');
}

static void answer_text(const Server *s, const Request *r, Buffer *out) {
  bool is_chat = r->kind == REQUEST_CHAT;
  open_answer(s, r, is_chat ? "chat.completion" : "text_completion", out);
  json_open(out, "choices", '[');
  put_choice(r, out);
  buffer_putc(out, ']');
  put_usage(r, out);
  buffer_puts(out, "}\n");
}

/* ---- embeddings ---- */

static void put_base64(const uint8_t *bytes, size_t count, Buffer *out) {
  static const char digits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < count; i += 3) {
    size_t left = count - i;
    uint32_t bits = (uint32_t)bytes[i] << 16;
    bits |= left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
    bits |= left > 2 ? bytes[i + 2] : 0;
    buffer_putc(out, digits[bits >> 18]);
    buffer_putc(out, digits[bits >> 12 & 63]);
    buffer_putc(out, left > 1 ? digits[bits >> 6 & 63] : '=');
    buffer_putc(out, left > 2 ? digits[bits & 63] : '=');
  }
}

/* In base64: numbers of four bytes, the lowest first. */
static void put_encoded(const float *row, int64_t width, Buffer *out) {
  Buffer bytes = {0};
  for (int64_t j = 0; j < width; j++) {
    uint32_t bits;
    memcpy(&bits, &row[j], sizeof bits);
    for (int shift = 0; shift < 32; shift += 8)
      buffer_putc(&bytes, (char)(bits >> shift & 255));
  }
  buffer_putc(out, '"');
  put_base64((const uint8_t *)bytes.text, bytes.len, out);
  buffer_putc(out, '"');
  buffer_free(&bytes);
}

/* Nine digits give the same numbers when they are read. */
static void put_numbers(const float *row, int64_t width, Buffer *out) {
  buffer_putc(out, '[');
  for (int64_t j = 0; j < width; j++)
    buffer_printf(out, j ? ",%.9g" : "%.9g", (double)row[j]);
  buffer_putc(out, ']');
}

static void answer_embeddings(const Server *s, const Request *r, Buffer *out) {
  json_open(out, NULL, '{');
  json_string_field(out, "object", "list");
  json_open(out, "data", '[');
  for (int64_t i = 0; i < r->input_count; i++) {
    json_open(out, NULL, '{');
    json_string_field(out, "object", "embedding");
    json_int_field(out, "index", i);
    json_key(out, "embedding");
    (r->wants_base64 ? put_encoded : put_numbers)(r->rows + i * r->width,
                                                  r->width, out);
    buffer_putc(out, '}');
  }
  buffer_putc(out, ']');
  json_string_field(out, "model", s->name);
  json_open(out, "usage", '{');
  json_int_field(out, "prompt_tokens", r->prompt_count);
  json_int_field(out, "total_tokens", r->prompt_count);
  buffer_puts(out, "}}\n");
}

void answer_whole(const Server *s, const Request *r, Buffer *out) {
  (r->kind == REQUEST_EMBEDDING ? answer_embeddings : answer_text)(s, r, out);
}

/* ---- events ---- */

static void put_delta(const Request *r, const char *text, size_t len,
                      bool is_first, Buffer *out) {
  if (r->kind != REQUEST_CHAT) {
    put_content("text", text, len, out);
    return;
  }
  json_open(out, "delta", '{');
  if (is_first)
    json_string_field(out, "role", "assistant");
  if (len || is_first)
    put_content("content", text, len, out);
  buffer_putc(out, '}');
}

/* Takes the JSON. */
static void add_event(Request *r, Buffer *json) {
  buffer_puts(&r->events, "data: ");
  buffer_add(&r->events, json->text, json->len);
  buffer_puts(&r->events, "\n\n");
  buffer_free(json);
}

static void open_event(const Server *s, const Request *r, Buffer *out) {
  open_answer(s, r,
              r->kind == REQUEST_CHAT ? "chat.completion.chunk"
                                      : "text_completion",
              out);
  json_open(out, "choices", '[');
}

static void put_event(const Server *s, Request *r, const char *text, size_t len,
                      bool is_first, const char *reason) {
  Buffer out = {0};
  open_event(s, r, &out);
  json_open(&out, NULL, '{');
  json_int_field(&out, "index", 0);
  put_delta(r, text, len, is_first, &out);
  json_key(&out, "logprobs");
  buffer_puts(&out, "null");
  put_text_or_null(&out, "finish_reason", reason);
  buffer_puts(&out, "}]}");
  add_event(r, &out);
}

static void put_last_events(const Server *s, Request *r) {
  Buffer out = {0};
  if (r->error.status) {
    answer_error(&r->error, &out);
    add_event(r, &out);
    return;
  }
  put_event(s, r, NULL, 0, false, r->reason);
  if (r->wants_usage) {
    open_event(s, r, &out);
    buffer_putc(&out, ']');
    put_usage(r, &out);
    buffer_putc(&out, '}');
    add_event(r, &out);
  }
  buffer_puts(&r->events, "data: [DONE]\n\n");
}

void answer_events(const Server *s, Request *r) {
  if (!r->has_begun && r->kind == REQUEST_CHAT)
    put_event(s, r, NULL, 0, true, NULL);
  r->has_begun = true;
  size_t certain = request_certain_bytes(r);
  if (certain > r->told) {
    put_event(s, r, r->text.text + r->told, certain - r->told, false, NULL);
    r->told = certain;
  }
  if (r->state == REQUEST_ENDED)
    put_last_events(s, r);
}

/* ---- models and metrics ---- */

static void put_model(const Server *s, Buffer *out) {
  json_open(out, NULL, '{');
  json_string_field(out, "id", s->name);
  json_string_field(out, "object", "model");
  json_int_field(out, "created", s->created);
  json_string_field(out, "owned_by", "axon");
  json_int_field(out, "context_length", s->options.context);
  buffer_putc(out, '}');
}

void answer_models(const Server *s, bool is_list, Buffer *out) {
  if (!is_list) {
    put_model(s, out);
    return;
  }
  json_open(out, NULL, '{');
  json_string_field(out, "object", "list");
  json_open(out, "data", '[');
  put_model(s, out);
  buffer_puts(out, "]}");
}

static void put_metric(Buffer *out, const char *name, const char *type,
                       const char *help, double value) {
  buffer_printf(out, "# HELP axon_%s %s\n# TYPE axon_%s %s\naxon_%s %.9g\n",
                name, help, name, type, name, value);
}

static void put_counter(Buffer *out, const char *name, const char *help,
                        double value) {
  put_metric(out, name, "counter", help, value);
}

static void put_gauge(Buffer *out, const char *name, const char *help,
                      int64_t value) {
  put_metric(out, name, "gauge", help, (double)value);
}

static void put_generation_metrics(const Server *s, Buffer *out) {
  const Metrics *m = &s->metrics;
  put_counter(out, "shared_tokens_total",
              "Tokens of prompts that were in memory already.",
              (double)m->shared_tokens);
  put_counter(out, "tokens_total", "Tokens of answers.", (double)m->tokens);
  put_counter(out, "first_tokens_total", "Answers that have a token.",
              (double)m->firsts);
  put_counter(out, "first_token_seconds_total",
              "Seconds from requests to their first tokens.", m->first_seconds);
  put_gauge(out, "pages", "Pages of memory.", s->page_count - 1);
  put_gauge(out, "pages_free", "Pages that no request has.",
            pages_free_count(s->pages));
}

void answer_metrics(const Server *s, Buffer *out) {
  const Metrics *m = &s->metrics;
  put_counter(out, "answers_total", "Answers given.", (double)m->answers);
  put_counter(out, "errors_total", "Requests that ended with an error.",
              (double)m->errors);
  put_counter(out, "cancelled_total", "Requests whose client went away.",
              (double)m->cancelled);
  put_counter(out, "prompt_tokens_total", "Tokens of prompts.",
              (double)m->prompt_tokens);
  put_counter(out, "steps_total", "Steps of the model.", (double)m->steps);
  put_counter(out, "step_seconds_total", "Seconds in steps.", m->step_seconds);
  put_gauge(out, "requests_running", "Requests that are computed.",
            s->running_count);
  put_gauge(out, "requests_waiting", "Requests in the queue.", s->queue_length);
  if (s->is_encoder)
    put_counter(out, "texts_total", "Texts that have an embedding.",
                (double)m->texts);
  else
    put_generation_metrics(s, out);
}
