/* Shared by the files that read requests.  The first error of a request
 * stays. */
#ifndef AXON_SERVE_PARSE_H
#define AXON_SERVE_PARSE_H

#include "runtime/json.h"
#include "serve/internal.h"

typedef struct Parse {
  const Server *s;
  const json_t *all;
  HttpError *error;
} Parse;

static inline bool parse_failed(const Parse *p) {
  return p->error->status != 0;
}

#define REFUSE(p, ...)                          \
  do {                                          \
    if (!parse_failed(p))                       \
      http_error((p)->error, 400, __VA_ARGS__); \
  } while (0)

/* A field, or NULL if it is missing or null. */
const json_t *parse_field(const Parse *p, const char *name);
int64_t parse_integer(Parse *p, const char *name, int64_t otherwise,
                      int64_t least, int64_t most);
/* The tokens in a list of a field, to be freed with mem_free.  `name` is how
 * messages call the list. */
int64_t *parse_tokens(Parse *p, const char *field, const char *name,
                      const json_t *list, size_t *count);

/* ---- parse_inputs.c ---- */

/* The fields of a request for embeddings. */
void parse_inputs(Parse *p, Request *r);

#endif
