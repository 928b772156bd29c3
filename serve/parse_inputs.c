/* Inputs of requests for embeddings: texts, or lists of tokens. */
#include "serve/parse.h"
#include "support/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Inputs {
  Parse *p;
  Request *r;
  char name[48]; /* of the present input, in messages */
  size_t room;   /* tokens for which there is memory */
} Inputs;

static void add_input(Inputs *in, const int64_t *tokens, size_t count) {
  Request *r = in->r;
  int64_t most = in->p->s->options.context;
  size_t before = (size_t)r->prompt_count;
  if (count == 0) {
    REFUSE(in->p, "input", "%s has no tokens", in->name);
    return;
  }
  if ((int64_t)count > most) {
    REFUSE(in->p, "input", "%s has %zu tokens; there is room for %lld",
           in->name, count, (long long)most);
    in->p->error->code = "context_length_exceeded";
    return;
  }
  if (before + count > in->room) {
    in->room = 2 * (before + count);
    r->tokens = mem_realloc(r->tokens, before * sizeof *r->tokens,
                            in->room * sizeof *r->tokens);
  }
  memcpy(r->tokens + before, tokens, count * sizeof *tokens);
  r->prompt_count += (int64_t)count;
  r->spans[r->input_count] =
      (InputSpan){(int64_t)before, (int64_t)count, r->input_count};
  r->input_count++;
}

static void add_text(Inputs *in, const json_t *x) {
  Fault fault = {0};
  TokenIds ids = {0};
  if (tokenizer_encode(in->p->s->tokenizer, jansson.json_string_value(x),
                       jansson.json_string_length(x), true, &ids, &fault))
    add_input(in, ids.at, ids.count);
  else
    REFUSE(in->p, "input", "%s", fault.message);
  mem_free(ids.at);
}

static void add_tokens(Inputs *in, const json_t *x) {
  size_t count;
  int64_t *tokens = parse_tokens(in->p, "input", in->name, x, &count);
  if (!parse_failed(in->p))
    add_input(in, tokens, count);
  mem_free(tokens);
}

static void add_one(Inputs *in, const json_t *x) {
  if (json_is_string(x))
    add_text(in, x);
  else if (json_is_array(x))
    add_tokens(in, x);
  else
    REFUSE(in->p, "input", "%s is no text and no list of tokens", in->name);
}

/* Inputs of another kind than the first one are refused. */
static void add_all(Inputs *in, const json_t *list, size_t count) {
  const json_t *first = jansson.json_array_get(list, 0);
  for (size_t i = 0; i < count && !parse_failed(in->p); i++) {
    const json_t *x = jansson.json_array_get(list, i);
    if (json_typeof(x) != json_typeof(first))
      REFUSE(in->p, "input",
             "item %zu of `input` is of another type than item 0", i);
    snprintf(in->name, sizeof in->name, "item %zu of `input`", i);
    if (!parse_failed(in->p))
      add_one(in, x);
  }
}

/* In order of length; equally long ones in order of input. */
static int compare_spans(const void *left, const void *right) {
  const InputSpan *x = left, *y = right;
  if (x->length != y->length)
    return x->length < y->length ? -1 : 1;
  return x->input < y->input ? -1 : x->input > y->input;
}

static void take_inputs(Parse *p, Request *r) {
  const json_t *x = parse_field(p, "input");
  bool is_list = x && json_is_array(x);
  size_t count = is_list ? jansson.json_array_size(x) : 1;
  bool is_tokens =
      is_list && count && json_is_integer(jansson.json_array_get(x, 0));
  if (!x || (!is_list && !json_is_string(x))) {
    REFUSE(p, "input",
           "`input` must be a string, a list of tokens, or a list of these");
    return;
  }
  if (!count || (count > MAX_INPUTS && !is_tokens)) {
    REFUSE(p, "input", "`input` must have 1 to %d items", MAX_INPUTS);
    return;
  }
  bool is_one = !is_list || is_tokens;
  Inputs in = {.p = p, .r = r, .name = "`input`"};
  r->spans = mem_alloc((is_one ? 1 : count) * sizeof *r->spans);
  if (is_one)
    add_one(&in, x);
  else
    add_all(&in, x, count);
  qsort(r->spans, (size_t)r->input_count, sizeof *r->spans, compare_spans);
  r->token_count = r->prompt_count;
}

static void take_format(Parse *p, Request *r) {
  const json_t *x = parse_field(p, "encoding_format");
  const char *text = x ? jansson.json_string_value(x) : "float";
  r->wants_base64 = text && !strcmp(text, "base64");
  if (!text || (!r->wants_base64 && strcmp(text, "float") != 0))
    REFUSE(p, "encoding_format",
           "`encoding_format` must be \"float\" or \"base64\"");
}

/* The model was not trained so that the first numbers alone are embeddings. */
static void take_dimensions(Parse *p) {
  int64_t width = p->s->width, asked = width;
  if (parse_field(p, "dimensions"))
    asked = parse_integer(p, "dimensions", width, 1, INT32_MAX);
  if (asked != width)
    REFUSE(p, "dimensions",
           "the embeddings of this model have %lld numbers, and cannot be cut",
           (long long)width);
}

void parse_inputs(Parse *p, Request *r) {
  take_format(p, r);
  take_dimensions(p);
  if (!parse_failed(p))
    take_inputs(p, r);
}
