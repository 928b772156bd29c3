/* Pages of the pool, and which of them hold the beginnings of texts.
 *
 * A page whose tokens are all computed is known by its tokens and by the page
 * before it.  A text with the same beginning shares it: nobody writes to a full
 * page.  A page that no text has stays known until another text needs it; those
 * that were released first are taken first. */
#include "serve/pages.h"
#include "support/mem.h"

#include <string.h>

enum { NO_PAGE = -1 };

typedef struct Page {
  int64_t texts;          /* how many have it */
  int64_t before, behind; /* in the list of free pages */
  int64_t next;           /* of the pages with the same hash */
  uint64_t number;        /* of the page as a beginning; 0: it is none */
  uint64_t prefix;        /* the number of the page before it; 0: none */
  int64_t tokens[SERVE_PAGE];
} Page;

struct Pages {
  Page *all; /* page 0 belongs to no text */
  int64_t count, free_count, first_free, last_free;
  int64_t *buckets, bucket_mask;
  uint64_t last_number;
};

/* ---- the list of free pages ---- */

static void unlink_free(Pages *p, int64_t page) {
  Page *x = &p->all[page];
  *(x->before == NO_PAGE ? &p->first_free : &p->all[x->before].behind) =
      x->behind;
  *(x->behind == NO_PAGE ? &p->last_free : &p->all[x->behind].before) =
      x->before;
  p->free_count--;
}

static void append_free(Pages *p, int64_t page) {
  Page *x = &p->all[page];
  x->before = p->last_free;
  x->behind = NO_PAGE;
  *(p->last_free == NO_PAGE ? &p->first_free : &p->all[p->last_free].behind) =
      page;
  p->last_free = page;
  p->free_count++;
}

Pages *pages_new(int64_t count) {
  Pages *p = mem_alloc(sizeof *p);
  int64_t buckets = 16;
  while (buckets < 2 * count)
    buckets *= 2;
  *p = (Pages){.count = count,
               .first_free = NO_PAGE,
               .last_free = NO_PAGE,
               .bucket_mask = buckets - 1};
  p->all = mem_alloc((size_t)count * sizeof *p->all);
  p->buckets = mem_alloc((size_t)buckets * sizeof *p->buckets);
  for (int64_t i = 0; i < buckets; i++)
    p->buckets[i] = NO_PAGE;
  for (int64_t i = 1; i < count; i++)
    append_free(p, i);
  return p;
}

void pages_free(Pages *p) {
  if (!p)
    return;
  mem_free(p->all);
  mem_free(p->buckets);
  mem_free(p);
}

int64_t pages_free_count(const Pages *p) {
  return p->free_count;
}

/* ---- beginnings ---- */

static int64_t *bucket_of(Pages *p, uint64_t prefix, const int64_t *tokens) {
  uint64_t hash = prefix;
  for (int64_t i = 0; i < SERVE_PAGE; i++)
    hash = (hash ^ (uint64_t)tokens[i]) * 0x9e3779b97f4a7c15u;
  return &p->buckets[(int64_t)(hash >> 32) & p->bucket_mask];
}

static int64_t find(Pages *p, uint64_t prefix, const int64_t *tokens) {
  int64_t page = *bucket_of(p, prefix, tokens);
  while (page != NO_PAGE &&
         (p->all[page].prefix != prefix ||
          memcmp(p->all[page].tokens, tokens, sizeof p->all->tokens) != 0))
    page = p->all[page].next;
  return page;
}

static void forget_beginning(Pages *p, int64_t page) {
  Page *x = &p->all[page];
  if (!x->number)
    return;
  int64_t *at = bucket_of(p, x->prefix, x->tokens);
  while (*at != page)
    at = &p->all[*at].next;
  *at = x->next;
  x->number = 0;
}

uint64_t pages_add_beginning(Pages *p, int64_t page, uint64_t prefix,
                             const int64_t *tokens) {
  int64_t known = find(p, prefix, tokens);
  Page *x = &p->all[page];
  if (known != NO_PAGE)
    return p->all[known].number;
  x->prefix = prefix;
  memcpy(x->tokens, tokens, sizeof x->tokens);
  int64_t *bucket = bucket_of(p, prefix, tokens);
  x->next = *bucket;
  *bucket = page;
  return x->number = ++p->last_number;
}

int64_t pages_share(Pages *p, uint64_t *prefix, const int64_t *tokens) {
  int64_t page = find(p, *prefix, tokens);
  if (page == NO_PAGE)
    return 0;
  if (!p->all[page].texts++)
    unlink_free(p, page);
  *prefix = p->all[page].number;
  return page;
}

/* ---- texts ---- */

int64_t pages_take(Pages *p) {
  int64_t page = p->first_free;
  unlink_free(p, page);
  forget_beginning(p, page);
  p->all[page].texts = 1;
  return page;
}

void pages_release(Pages *p, const int64_t *pages, int64_t count) {
  /* the last page first: a page is useless without those before it */
  while (count-- > 0)
    if (!--p->all[pages[count]].texts)
      append_free(p, pages[count]);
}
