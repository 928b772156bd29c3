/* Tokenizers: text to the numbers of tokens and back.  A file is read once; its
 * tokenizer stays until the process ends, since values refer to it by number.
 *
 *   int64_t id = tokenizer_open("tokenizer.json", &fault);
 *   TokenIds ids = {0};
 *   tokenizer_encode(id, text, len, true, &ids, &fault);
 *   mem_free(ids.at); */
#ifndef AXON_RUNTIME_TOKENIZER_H
#define AXON_RUNTIME_TOKENIZER_H

#include "runtime/runtime.h"

typedef struct TokenIds {
  int64_t *at; /* to be freed with mem_free */
  size_t count;
} TokenIds;

/* Returns a number of at least 0, the same while the file does not change; -1
 * with a fault if the file cannot be read. */
int64_t tokenizer_open(const char *path, Fault *fault);

/* Frees a tokenizer that no value refers to. */
void tokenizer_close(int64_t id);

/* `add_special` adds the tokens of the model around the text, such as [CLS] and
 * [SEP].  The functions return false with a fault if there is no tokenizer
 * `id`, or for a token that it does not have.  They raise when out of memory.
 */
bool tokenizer_encode(int64_t id, const char *text, size_t len,
                      bool add_special, TokenIds *out, Fault *fault);
/* Encodes text in which special tokens are ordinary text, and adds none. */
bool tokenizer_encode_plain(int64_t id, const char *text, size_t len,
                            TokenIds *out, Fault *fault);
/* Adds the text of tokens to `out`.  Bytes that are not UTF-8 become U+FFFD. */
bool tokenizer_decode(int64_t id, const int64_t *ids, size_t count,
                      bool skip_special, Buffer *out, Fault *fault);
/* Adds the spelling of a token to `out`. */
bool tokenizer_token(int64_t id, int64_t token, Buffer *out, Fault *fault);
/* The number of a token, or -1. */
bool tokenizer_find(int64_t id, const char *text, size_t len, int64_t *token,
                    Fault *fault);
/* The largest number of a token, plus 1. */
bool tokenizer_size(int64_t id, int64_t *size, Fault *fault);

#endif
