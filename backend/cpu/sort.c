/* The order of elements, by digits: items are a key of 32 bits above a number
 * of 32 bits, and are put in the order of one digit of the key after the
 * other, which is stable.  Keys of 64 bits are their lower halves first, then
 * the upper ones.
 *
 * Ascending, NaN last, -0 and 0 equal: a key has the order of its element. */
#include "backend/cpu/routines.h"

#include "runtime/pool.h"

#include <string.h>

enum {
  SHORT = 40, /* items that are put in their places one by one */
  DIGIT = 8,  /* bits; where threads share the items: */
  LONG_DIGIT = 11,
  SHARED = 1 << 16, /* items of one line that threads share */
  PARTS = 8,        /* in so many parts */
  WORK = 1 << 14,   /* items that a thread takes at a time */
  TOP_FEW = 64,     /* of the largest */
};

typedef struct Sort {
  const Routine *r;
  Lines lines;
  const void *from;
  void *to;
  Dtype dtype;
  bool wide, turned; /* keys of 64 bits; the largest first */
} Sort;

/* ---- keys ---- */

static uint32_t key_of_float(float x) {
  uint32_t bits;
  if (x != x)
    return UINT32_MAX;
  x += 0; /* -0 is 0 */
  memcpy(&bits, &x, sizeof bits);
  return bits >> 31 ? ~bits : bits | UINT32_C(1) << 31;
}

static uint64_t key_of_double(double x) {
  uint64_t bits;
  if (x != x)
    return UINT64_MAX;
  x += 0;
  memcpy(&bits, &x, sizeof bits);
  return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

/* The key of an element; of a wide one a half. */
static uint32_t key_at(const Sort *s, const void *x, int64_t i, int half) {
  switch (s->dtype) {
  case DT_F32:
    return key_of_float(((const float *)x)[i]);
  case DT_F16:
    return key_of_float((float)f16_to_double(((const uint16_t *)x)[i]));
  case DT_BF16:
    return key_of_float((float)bf16_to_double(((const uint16_t *)x)[i]));
  case DT_I32:
    return (uint32_t)((const int32_t *)x)[i] ^ UINT32_C(1) << 31;
  case DT_I8:
    return (uint8_t)((const int8_t *)x)[i] ^ 0x80u;
  case DT_BOOL:
  case DT_U8:
    return ((const uint8_t *)x)[i];
  case DT_I64:
    return (uint32_t)(((uint64_t)((const int64_t *)x)[i] ^ UINT64_C(1) << 63) >>
                      32 * half);
  case DT_F64:
    return (uint32_t)(key_of_double(((const double *)x)[i]) >> 32 * half);
  default:
    return 0;
  }
}

static void load(const Sort *s, const void *x, int64_t begin, int64_t end,
                 uint64_t *items) {
  uint32_t turn = s->turned ? UINT32_MAX : 0;
  for (int64_t k = begin; k < end; k++) {
    uint32_t key = key_at(s, x, k * s->lines.inner, 0) ^ turn;
    items[k] = (uint64_t)key << 32 | (uint32_t)k;
  }
}

/* The upper halves, in the order of the lower ones. */
static void load_upper(const Sort *s, const void *x, int64_t begin, int64_t end,
                       uint64_t *items) {
  uint32_t turn = s->turned ? UINT32_MAX : 0;
  for (int64_t k = begin; k < end; k++) {
    uint32_t at = (uint32_t)items[k];
    uint32_t key = key_at(s, x, (int64_t)at * s->lines.inner, 1) ^ turn;
    items[k] = (uint64_t)key << 32 | at;
  }
}

/* ---- the order of the keys, by one thread ---- */

static void place_one_by_one(uint64_t *items, int64_t n) {
  for (int64_t k = 1; k < n; k++) {
    uint64_t item = items[k];
    int64_t j = k;
    for (; j > 0 && items[j - 1] >> 32 > item >> 32; j--)
      items[j] = items[j - 1];
    items[j] = item;
  }
}

/* Counts to where each digit's items begin; false: all have the same. */
static bool add_up(uint32_t *counts, uint32_t digits, int64_t n) {
  uint32_t sum = 0;
  for (uint32_t d = 0; d < digits; d++) {
    uint32_t count = counts[d];
    if (count == n)
      return false;
    counts[d] = sum;
    sum += count;
  }
  return true;
}

static void swap(uint64_t **a, uint64_t **b) {
  uint64_t *c = *a;
  *a = *b;
  *b = c;
}

/* Where they are then: items or scratch. */
static uint64_t *order(uint64_t *items, uint64_t *scratch, int64_t n) {
  if (n <= SHORT) {
    place_one_by_one(items, n);
    return items;
  }
  uint32_t counts[4][1 << DIGIT] = {{0}};
  for (int64_t k = 0; k < n; k++)
    for (uint32_t p = 0; p < 4; p++)
      counts[p][items[k] >> (32 + DIGIT * p) & 0xff]++;
  for (uint32_t p = 0; p < 4; p++) {
    if (!add_up(counts[p], 1 << DIGIT, n))
      continue;
    for (int64_t k = 0; k < n; k++)
      scratch[counts[p][items[k] >> (32 + DIGIT * p) & 0xff]++] = items[k];
    swap(&items, &scratch);
  }
  return items;
}

/* ---- by all threads: each has a part of the items ---- */

enum { BUCKETS = 1 << LONG_DIGIT };

typedef struct Shared {
  const Sort *s;
  uint64_t *items, *scratch;
  uint32_t (*counts)[BUCKETS]; /* of each part */
  int64_t n;
  uint32_t shift;
} Shared;

static int64_t part_begin(const Shared *h, int64_t part) {
  return h->n / PARTS * part + (part < h->n % PARTS ? part : h->n % PARTS);
}

static uint32_t digit_of(const Shared *h, uint64_t item) {
  return (uint32_t)(item >> h->shift) & (BUCKETS - 1);
}

static int load_part(void *context, int64_t begin, int64_t end) {
  const Shared *h = context;
  load(h->s, h->s->from, part_begin(h, begin), part_begin(h, end), h->items);
  return 0;
}

static int load_upper_part(void *context, int64_t begin, int64_t end) {
  const Shared *h = context;
  load_upper(h->s, h->s->from, part_begin(h, begin), part_begin(h, end),
             h->items);
  return 0;
}

static int count_part(void *context, int64_t begin, int64_t end) {
  const Shared *h = context;
  for (int64_t part = begin; part < end; part++) {
    uint32_t *counts = h->counts[part];
    memset(counts, 0, sizeof h->counts[part]);
    for (int64_t k = part_begin(h, part); k < part_begin(h, part + 1); k++)
      counts[digit_of(h, h->items[k])]++;
  }
  return 0;
}

static int move_part(void *context, int64_t begin, int64_t end) {
  const Shared *h = context;
  for (int64_t part = begin; part < end; part++) {
    uint32_t *counts = h->counts[part];
    for (int64_t k = part_begin(h, part); k < part_begin(h, part + 1); k++)
      h->scratch[counts[digit_of(h, h->items[k])]++] = h->items[k];
  }
  return 0;
}

/* Those of a digit: part after part. */
static bool add_up_parts(const Shared *h) {
  uint32_t sum = 0;
  for (uint32_t d = 0; d < BUCKETS; d++) {
    uint32_t before = sum;
    for (uint32_t part = 0; part < PARTS; part++) {
      uint32_t count = h->counts[part][d];
      h->counts[part][d] = sum;
      sum += count;
    }
    if (sum - before == h->n)
      return false;
  }
  return true;
}

static void order_shared(Shared *h) {
  for (h->shift = 32; h->shift < 64; h->shift += LONG_DIGIT) {
    routine_share(h->s->r, PARTS, 1, count_part, h);
    if (!add_up_parts(h))
      continue;
    routine_share(h->s->r, PARTS, 1, move_part, h);
    swap(&h->items, &h->scratch);
  }
}

/* ---- what comes out ---- */

static void put(const Sort *s, void *y, int64_t begin, int64_t end,
                const uint64_t *items) {
  for (int64_t k = begin; k < end; k++)
    ((int64_t *)y)[k * s->lines.inner] = (uint32_t)items[k];
}

static int put_part(void *context, int64_t begin, int64_t end) {
  const Shared *h = context;
  put(h->s, h->s->to, part_begin(h, begin), part_begin(h, end), h->items);
  return 0;
}

static bool sort_shared(const Sort *s, Routine *r) {
  int64_t n = s->lines.length;
  Shared h = {.s = s, .n = n};
  h.items = routine_room(&r->room, 2 * n * (int64_t)sizeof *h.items +
                                       PARTS * (int64_t)sizeof *h.counts);
  if (!h.items)
    return false;
  h.scratch = h.items + n;
  h.counts = (uint32_t(*)[BUCKETS])(h.scratch + n);
  routine_share(r, PARTS, 1, load_part, &h);
  order_shared(&h);
  if (s->wide) {
    routine_share(r, PARTS, 1, load_upper_part, &h);
    order_shared(&h);
  }
  routine_share(r, PARTS, 1, put_part, &h);
  return true;
}

/* ---- lines ---- */

static const void *at_line(const Sort *s, int64_t line) {
  return (const char *)s->from +
         line_start(&s->lines, line) * dtype_info[s->dtype].bytes;
}

/* In the order of keys; NULL: there is no memory. */
static const uint64_t *ordered_line(const Sort *s, const void *x) {
  int64_t n = s->lines.length;
  uint64_t *items = pool_scratch(2 * (size_t)n * sizeof *items + 1);
  if (!items)
    return NULL;
  uint64_t *scratch = items + n;
  load(s, x, 0, n, items);
  uint64_t *there = order(items, scratch, n);
  if (s->wide) {
    load_upper(s, x, 0, n, there);
    there = order(there, there == items ? scratch : items, n);
  }
  return there;
}

static int sort_lines(void *context, int64_t begin, int64_t end) {
  const Sort *s = context;
  for (int64_t line = begin; line < end; line++) {
    const uint64_t *items = ordered_line(s, at_line(s, line));
    if (!items)
      return 1;
    put(s, (int64_t *)s->to + line_start(&s->lines, line), 0, s->lines.length,
        items);
  }
  return 0;
}

static bool sort(const Sort *s, Routine *r) {
  int64_t lines = s->lines.outer * s->lines.inner;
  if (s->lines.length > UINT32_MAX)
    return false;
  if (lines == 1 && s->lines.length >= SHARED)
    return sort_shared(s, r);
  return routine_share(r, lines, 1 + WORK / s->lines.length, sort_lines,
                       (void *)s);
}

static Sort sort_of(const Routine *r) {
  const Node *x = r->node->inputs[0];
  return (Sort){.r = r,
                .lines = r->lines,
                .from = x->data->data,
                .to = r->out->data,
                .dtype = x->dtype,
                .wide = dtype_info[x->dtype].bytes == 8};
}

bool routine_argsort(Routine *r) {
  Sort s = sort_of(r);
  return sort(&s, r);
}

/* ---- the largest ---- */

/* The least `count` items of a line, in their order: few, so that most items
 * are seen to be none of them at once. */
static void put_least(const Sort *s, const void *x, int64_t count,
                      uint64_t *least) {
  int64_t have = 0;
  for (int64_t k = 0; k < s->lines.length; k++) {
    uint32_t key = ~key_at(s, x, k, 0);
    uint64_t item = (uint64_t)key << 32 | (uint32_t)k;
    if (have == count && item >= least[count - 1])
      continue;
    int64_t j = have < count ? have++ : count - 1;
    for (; j > 0 && least[j - 1] > item; j--)
      least[j] = least[j - 1];
    least[j] = item;
  }
}

static void put_top(const Sort *s, int64_t line, const void *x,
                    const uint64_t *items) {
  const Node *n = s->r->node;
  int64_t count = n->params[0];
  size_t bytes = dtype_info[s->dtype].bytes;
  for (int64_t k = 0; k < count; k++) {
    uint32_t from = (uint32_t)items[k];
    if (n->output)
      ((int64_t *)s->to)[line * count + k] = from;
    else
      memcpy((char *)s->to + (size_t)(line * count + k) * bytes,
             (const char *)x + from * bytes, bytes);
  }
}

static int top_lines(void *context, int64_t begin, int64_t end) {
  const Sort *s = context;
  int64_t count = s->r->node->params[0];
  uint64_t least[TOP_FEW];
  for (int64_t line = begin; line < end; line++) {
    const void *x = at_line(s, line);
    const uint64_t *items = least;
    if (count <= TOP_FEW && !s->wide)
      put_least(s, x, count, least);
    else if (!(items = ordered_line(s, x)))
      return 1;
    put_top(s, line, x, items);
  }
  return 0;
}

bool routine_topk(Routine *r) {
  Sort s = sort_of(r);
  s.turned = true;
  return s.lines.length <= UINT32_MAX &&
         routine_share(r, s.lines.outer, 1 + WORK / s.lines.length, top_lines,
                       &s);
}

/* ---- permutations: the order of random keys ---- */

typedef struct Keys {
  Key key;
  uint64_t *to;
} Keys;

/* As integers of that order. */
static int draw_keys(void *context, int64_t begin, int64_t end) {
  const Keys *k = context;
  for (int64_t i = begin; i < end; i++)
    k->to[i] = key_bits64(k->key, (uint64_t)i) ^ UINT64_C(1) << 63;
  return 0;
}

bool routine_permutation(Routine *r) {
  int64_t n = r->node->params[0];
  Keys keys = {.key = r->node->key};
  keys.to = routine_room(&r->more, n * (int64_t)sizeof *keys.to);
  if (!keys.to || !routine_share(r, n, WORK, draw_keys, &keys))
    return false;
  Sort s = {.r = r,
            .lines = {1, n, 1},
            .from = keys.to,
            .to = r->out->data,
            .dtype = DT_I64,
            .wide = true};
  return sort(&s, r);
}
