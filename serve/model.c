/* What the server itself reads from the files of a model: the tokenizer,
 * limits, tokens that end an answer, and the template of a conversation. */
#include "runtime/gguf.h"
#include "runtime/json.h"
#include "serve/internal.h"
#include "support/file_open.h"
#include "support/mem.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char message_start[] = "<|im_start|>",
                  message_end[] = "<|im_end|>";

static char *copy_text(const char *text, size_t len) {
  char *copy = mem_alloc(len + 1);
  memcpy(copy, text, len);
  return copy;
}

/* The name of the file, without folder and ending. */
static char *name_of(const char *path) {
  size_t end = strlen(path), start;
  while (end > 1 && path[end - 1] == '/')
    end--;
  for (start = end; start > 0 && path[start - 1] != '/';)
    start--;
  if (end - start > 5 && !memcmp(path + end - 5, ".gguf", 5))
    end -= 5;
  return copy_text(path + start, end - start);
}

static int64_t integer(const Gguf *file, const char *key, int64_t otherwise) {
  const GgufValue *v = gguf_find(file, key);
  if (!v || v->is_array || v->type == GGUF_STRING || v->type == GGUF_F32 ||
      v->type == GGUF_F64)
    return otherwise;
  const uint8_t *at = v->at;
  return gguf_next_number(&at, v->type).i;
}

static void add_stop(Server *s, int64_t token) {
  if (token >= 0 && s->stop_count < (int64_t)ARRAY_LEN(s->stop_tokens))
    s->stop_tokens[s->stop_count++] = token;
}

/* As llama.open_model: the end of the file's texts, and of a message. */
static bool find_stops(Server *s, const Gguf *file, Fault *fault) {
  static const char *const texts[] = {"<|im_end|>", "<|endoftext|>",
                                      "<|eot_id|>", "</s>"};
  add_stop(s, integer(file, "tokenizer.ggml.eos_token_id", -1));
  for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
    int64_t token;
    if (!tokenizer_find(s->tokenizer, texts[i], strlen(texts[i]), &token,
                        fault))
      return false;
    add_stop(s, token);
  }
  return true;
}

/* The system message in a template that writes one if the conversation has
 * none. */
static char *default_system(const char *text) {
  const char *start = strstr(text, "<|im_start|>system");
  if (!start)
    return NULL;
  start += strlen("<|im_start|>system");
  if (start[0] == '\\' && start[1] == 'n')
    start += 2;
  else if (start[0] == '\n')
    start++;
  else
    return NULL;
  const char *end = strstr(start, "<|im_end|>");
  return end ? copy_text(start, (size_t)(end - start)) : NULL;
}

/* Axon writes conversations in the format ChatML only. */
static bool read_template(Server *s, const Gguf *file, Fault *fault) {
  const GgufValue *v = gguf_find(file, "tokenizer.chat_template");
  if (!tokenizer_find(s->tokenizer, message_start, strlen(message_start),
                      &s->message_start, fault) ||
      !tokenizer_find(s->tokenizer, message_end, strlen(message_end),
                      &s->message_end, fault))
    return false;
  if (!v || v->is_array || v->type != GGUF_STRING || s->message_start < 0 ||
      s->message_end < 0)
    return true;
  const uint8_t *at = v->at;
  GgufText t = gguf_next_text(&at);
  char *text = copy_text(t.text, t.len);
  s->has_template = strstr(text, message_start) != NULL;
  s->system_message = s->has_template ? default_system(text) : NULL;
  mem_free(text);
  return true;
}

static void limit_context(Server *s, int64_t most) {
  if (!s->options.context || s->options.context > most)
    s->options.context = most;
}

static bool read_tokenizer(Server *s, const char *path, Fault *fault) {
  s->tokenizer = tokenizer_open(path, fault);
  return s->tokenizer >= 0 &&
         tokenizer_size(s->tokenizer, &s->vocabulary, fault);
}

static bool read_generator(Server *s, Fault *fault) {
  Gguf *file = gguf_open(s->options.model, fault);
  if (!file)
    return false;
  limit_context(s, integer(file, "llama.context_length", 2048));
  bool ok = read_tokenizer(s, s->options.model, fault) &&
            find_stops(s, file, fault) && read_template(s, file, fault);
  gguf_close(file);
  return ok;
}

/* ---- encoders ---- */

bool server_is_encoder(const char *path) {
  struct stat is;
  return stat(path, &is) == 0 && S_ISDIR(is.st_mode);
}

static bool read_size(const json_t *all, const char *path, const char *key,
                      int64_t *size, Fault *fault) {
  const json_t *x = jansson.json_object_get(all, key);
  *size = x && json_is_integer(x) ? jansson.json_integer_value(x) : 0;
  if (*size >= 1 && *size <= 1 << 24)
    return true;
  fault_set(fault, "%s has no number \"%s\" from 1 to %d", path, key, 1 << 24);
  return false;
}

static bool read_config(Server *s, const char *path, Fault *fault) {
  json_error_t error;
  int64_t context;
  int fd = file_open_regular(path, NULL);
  if (fd < 0) {
    fault_set(fault, "cannot read \"%s\": %s", path, file_open_error(errno));
    return false;
  }
  json_t *all = jansson.json_loadfd(fd, JSON_REJECT_DUPLICATES, &error);
  close(fd);
  if (!all) {
    fault_set(fault, "%s: %s", path, error.text);
    return false;
  }
  bool ok = read_size(all, path, "max_position_embeddings", &context, fault) &&
            read_size(all, path, "hidden_size", &s->width, fault);
  json_decref_library(all);
  if (ok)
    limit_context(s, context);
  return ok;
}

/* As bert.open_model, which reads the rest. */
static bool read_encoder(Server *s, Fault *fault) {
  Buffer config = {0}, tokenizer = {0};
  buffer_printf(&config, "%s/config.json", s->options.model);
  buffer_printf(&tokenizer, "%s/tokenizer.json", s->options.model);
  bool ok = read_config(s, config.text, fault) &&
            read_tokenizer(s, tokenizer.text, fault);
  buffer_free(&config);
  buffer_free(&tokenizer);
  return ok;
}

bool server_read_model(Server *s, Fault *fault) {
  s->name = name_of(s->options.model);
  s->is_encoder = server_is_encoder(s->options.model);
  return (s->is_encoder ? read_encoder : read_generator)(s, fault);
}

/* ---- conversations ---- */

static void add_tokens(TokenIds *to, const int64_t *tokens, size_t count) {
  to->at = mem_realloc(to->at, to->count * sizeof *to->at,
                       (to->count + count) * sizeof *to->at);
  if (count)
    memcpy(to->at + to->count, tokens, count * sizeof *tokens);
  to->count += count;
}

static bool add_text(const Server *s, const Buffer *text, TokenIds *to,
                     Fault *fault) {
  TokenIds ids = {0};
  bool ok =
      tokenizer_encode_plain(s->tokenizer, text->text, text->len, &ids, fault);
  if (ok)
    add_tokens(to, ids.at, ids.count);
  mem_free(ids.at);
  return ok;
}

/* The start of a message, and its end unless text is NULL. */
static bool add_message(const Server *s, const char *role, const char *text,
                        TokenIds *to, Fault *fault) {
  Buffer body = {0}, line = {0};
  buffer_printf(&body, "%s\n%s", role, text ? text : "");
  buffer_puts(&line, "\n");
  add_tokens(to, &s->message_start, 1);
  bool ok = add_text(s, &body, to, fault);
  if (ok && text) {
    add_tokens(to, &s->message_end, 1);
    ok = add_text(s, &line, to, fault);
  }
  buffer_free(&body);
  buffer_free(&line);
  return ok;
}

bool model_chat_tokens(const Server *s, const Message *messages, size_t count,
                       TokenIds *out, Fault *fault) {
  /* the tokens of the model around a text */
  bool ok = tokenizer_encode(s->tokenizer, "", 0, true, out, fault);
  if (ok && s->system_message && count &&
      strcmp(messages[0].role, "system") != 0)
    ok = add_message(s, "system", s->system_message, out, fault);
  for (size_t i = 0; i < count && ok; i++)
    ok = add_message(s, messages[i].role, messages[i].text, out, fault);
  return ok && add_message(s, "assistant", NULL, out, fault);
}

bool model_is_stop(const Server *s, int64_t token) {
  for (int64_t i = 0; i < s->stop_count; i++)
    if (s->stop_tokens[i] == token)
      return true;
  return false;
}
