/* serve: pages of the pool, for the scheduler only. */
#ifndef AXON_SERVE_PAGES_H
#define AXON_SERVE_PAGES_H

#include "serve/serve.h"

typedef struct Pages Pages;

/* Pages 1 .. count - 1 are free. */
Pages *pages_new(int64_t count);
void pages_free(Pages *p); /* or NULL */
int64_t pages_free_count(const Pages *p);

/* Takes a free page for one text.  There must be one. */
int64_t pages_take(Pages *p);
/* A text ends. */
void pages_release(Pages *p, const int64_t *pages, int64_t count);

/* A page holds these SERVE_PAGE tokens of a text.  prefix: the number of its
 * text up to the page before it; 0: there is none.  Returns the number of the
 * text up to this page. */
uint64_t pages_add_beginning(Pages *p, int64_t page, uint64_t prefix,
                             const int64_t *tokens);
/* Takes a page that holds these tokens behind `prefix`, and sets *prefix to its
 * number.  Returns 0 if there is none. */
int64_t pages_share(Pages *p, uint64_t *prefix, const int64_t *tokens);

#endif
