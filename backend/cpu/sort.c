/* The order of elements, by digits: items are a key of 32 bits above a number
 * of 32 bits, and are put in the order of one digit of the key after the
 * other, which is stable.  Keys of 64 bits are their lower halves first, then
 * the upper ones; of a long line, their leading bits, and what is equal in
 * these is put in its place afterwards, unless that is much.
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
  BLOCK = 256,      /* keys at a time */
  TOP_RARE = 16,    /* the largest are so few, one of so many, that most
                       elements are seen to be none of them at once */
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

/* Without a branch: of signs that are random each second one is a surprise. */
static uint32_t key_of_float(float x) {
  uint32_t bits, nan = x != x ? UINT32_MAX : 0;
  x += 0; /* -0 is 0 */
  memcpy(&bits, &x, sizeof bits);
  return (bits ^ (-(bits >> 31) | UINT32_C(1) << 31)) | nan;
}

static uint64_t key_of_double(double x) {
  uint64_t bits, nan = x != x ? UINT64_MAX : 0;
  x += 0;
  memcpy(&bits, &x, sizeof bits);
  return (bits ^ (-(bits >> 63) | UINT64_C(1) << 63)) | nan;
}

/* The keys of elements from `begin` on, of wide ones the lower halves. */
static void keys_of(const Sort *s, const void *x, int64_t begin, int count,
                    uint32_t *keys) {
  int64_t step = s->lines.inner;
#define EACH(T, key)                                \
  for (int k = 0; k < count; k++) {                 \
    T e = ((const T *)x)[(begin + k) * step];       \
    keys[k] = (uint32_t)(key);                      \
  }                                                 \
  break
  switch (s->dtype) {
  case DT_F32:
    EACH(float, key_of_float(e));
  case DT_F16:
    EACH(uint16_t, key_of_float((float)f16_to_double(e)));
  case DT_BF16:
    EACH(uint16_t, key_of_float((float)bf16_to_double(e)));
  case DT_I32:
    EACH(int32_t, (uint32_t)e ^ UINT32_C(1) << 31);
  case DT_I8:
    EACH(int8_t, (uint8_t)e ^ 0x80u);
  case DT_BOOL:
  case DT_U8:
    EACH(uint8_t, e);
  case DT_I64:
    EACH(int64_t, e);
  case DT_F64:
    EACH(double, key_of_double(e));
  default:
    break;
  }
#undef EACH
}

static uint64_t wide_key(const Sort *s, const void *x, int64_t i) {
  return s->dtype == DT_F64
             ? key_of_double(((const double *)x)[i])
             : (uint64_t)((const int64_t *)x)[i] ^ UINT64_C(1) << 63;
}

static void load(const Sort *s, const void *x, int64_t begin, int64_t end,
                 uint64_t *items) {
  uint32_t turn = s->turned ? UINT32_MAX : 0, keys[BLOCK];
  for (int64_t at = begin; at < end; at += BLOCK) {
    int count = end - at < BLOCK ? (int)(end - at) : BLOCK;
    keys_of(s, x, at, count, keys);
    for (int k = 0; k < count; k++)
      items[at + k] = (uint64_t)(keys[k] ^ turn) << 32 | (uint32_t)(at + k);
  }
}

/* The upper halves, in the order of the lower ones. */
static void load_upper(const Sort *s, const void *x, int64_t begin, int64_t end,
                       uint64_t *items) {
  uint32_t turn = s->turned ? UINT32_MAX : 0;
  for (int64_t k = begin; k < end; k++) {
    uint32_t at = (uint32_t)items[k];
    uint64_t key = wide_key(s, x, (int64_t)at * s->lines.inner) >> 32;
    items[k] = (key ^ turn) << 32 | at;
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
  /* of wide keys: what is taken off them, of each part if need be; how many
   * bits of them are not among the leading ones */
  uint64_t low, lows[PARTS], highs[PARTS];
  uint32_t dropped;
  int64_t begin[PARTS + 1]; /* of parts that share no run of equal ones */
  bool crowded[PARTS];      /* a run is long */
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

/* ---- wide keys: by their 32 leading bits ---- */

static int range_part(void *context, int64_t begin, int64_t end) {
  Shared *h = context;
  for (int64_t part = begin; part < end; part++) {
    uint64_t low = UINT64_MAX, high = 0;
    for (int64_t k = part_begin(h, part); k < part_begin(h, part + 1); k++) {
      uint64_t key = wide_key(h->s, h->s->from, k);
      low = key < low ? key : low;
      high = key > high ? key : high;
    }
    h->lows[part] = low, h->highs[part] = high;
  }
  return 0;
}

/* Those that any two keys differ in. */
static void find_leading(Shared *h) {
  uint64_t high = 0;
  h->low = UINT64_MAX;
  for (uint32_t part = 0; part < PARTS; part++) {
    h->low = h->lows[part] < h->low ? h->lows[part] : h->low;
    high = h->highs[part] > high ? h->highs[part] : high;
  }
  while ((high - h->low) >> h->dropped > UINT32_MAX)
    h->dropped++;
}

static int load_leading_part(void *context, int64_t begin, int64_t end) {
  const Shared *h = context;
  for (int64_t k = part_begin(h, begin); k < part_begin(h, end); k++) {
    uint64_t key = wide_key(h->s, h->s->from, k) - h->low;
    h->items[k] = key >> h->dropped << 32 | (uint32_t)k;
  }
  return 0;
}

static bool is_same(const Shared *h, int64_t k) { /* as the one before it */
  return k > 0 && k < h->n && (h->items[k] ^ h->items[k - 1]) >> 32 == 0;
}

/* false: one is long. */
static bool part_at_runs(Shared *h) {
  for (int64_t part = 0; part <= PARTS; part++) {
    int64_t at = part_begin(h, part), most = at + SHORT;
    while (is_same(h, at) && at < most)
      at++;
    if (at == most)
      return false;
    h->begin[part] = at;
  }
  return true;
}

static void mend_run(const Shared *h, int64_t begin, int64_t end) {
  uint64_t *items = h->items;
  for (int64_t k = begin + 1; k < end; k++) {
    uint64_t item = items[k];
    uint64_t key = wide_key(h->s, h->s->from, (uint32_t)item);
    int64_t j = k;
    for (; j > begin; j--) {
      if (wide_key(h->s, h->s->from, (uint32_t)items[j - 1]) <= key)
        break;
      items[j] = items[j - 1];
    }
    items[j] = item;
  }
}

static int mend_part(void *context, int64_t begin, int64_t end) {
  Shared *h = context;
  for (int64_t part = begin; part < end; part++)
    for (int64_t k = h->begin[part], first; k < h->begin[part + 1];) {
      for (first = k++; is_same(h, k) && k < h->begin[part + 1];)
        k++;
      if (k - first > SHORT)
        h->crowded[part] = true;
      else if (k - first > 1)
        mend_run(h, first, k);
    }
  return 0;
}

/* false: too many are equal in these. */
static bool order_leading(Shared *h) {
  const Routine *r = h->s->r;
  routine_share(r, PARTS, 1, range_part, h);
  find_leading(h);
  routine_share(r, PARTS, 1, load_leading_part, h);
  order_shared(h);
  if (h->dropped == 0)
    return true;
  bool mends = part_at_runs(h);
  if (mends)
    routine_share(r, PARTS, 1, mend_part, h);
  for (uint32_t part = 0; part < PARTS; part++)
    mends &= !h->crowded[part];
  return mends;
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
  if (!s->wide || !order_leading(&h)) {
    routine_share(r, PARTS, 1, load_part, &h);
    order_shared(&h);
    if (s->wide) {
      routine_share(r, PARTS, 1, load_upper_part, &h);
      order_shared(&h);
    }
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

/* The least `count` items so far, as a heap, the largest of them on top. */
typedef struct Heap {
  uint64_t *items;
  int64_t count, have;
} Heap;

static void sift(uint64_t *items, int64_t count, int64_t at) {
  uint64_t item = items[at];
  for (int64_t k; (k = 2 * at + 1) < count; at = k) {
    k += k + 1 < count && items[k + 1] > items[k];
    if (items[k] < item)
      break;
    items[at] = items[k];
  }
  items[at] = item;
}

static void heap_take(Heap *h, uint64_t item) {
  if (h->have == h->count) {
    if (item < h->items[0]) {
      h->items[0] = item;
      sift(h->items, h->count, 0);
    }
    return;
  }
  h->items[h->have++] = item;
  for (int64_t k = h->have == h->count ? h->count / 2 : 0; k-- > 0;)
    sift(h->items, h->count, k);
}

/* In their order. */
static void heap_end(Heap *h) {
  for (int64_t k = h->count; k-- > 1;) {
    uint64_t item = h->items[k];
    h->items[k] = h->items[0];
    h->items[0] = item;
    sift(h->items, k, 0);
  }
}

typedef struct Top { /* of lines, each in so many parts */
  const Sort *s;
  int64_t count, parts;
  uint64_t *items; /* `count` of each part */
} Top;

static int64_t top_begin(const Top *t, int64_t part) {
  int64_t n = t->s->lines.length, rest = n % t->parts;
  return n / t->parts * part + (part < rest ? part : rest);
}

static void top_part(const Top *t, int64_t unit) {
  const void *x = at_line(t->s, unit / t->parts);
  int64_t part = unit % t->parts, end = top_begin(t, part + 1);
  Heap h = {.items = t->items + unit * t->count, .count = t->count};
  uint32_t keys[BLOCK];
  for (int64_t at = top_begin(t, part); at < end; at += BLOCK) {
    int count = end - at < BLOCK ? (int)(end - at) : BLOCK;
    keys_of(t->s, x, at, count, keys);
    for (int k = 0; k < count; k++)
      if (h.have < h.count || ~keys[k] <= h.items[0] >> 32)
        heap_take(&h, (uint64_t)~keys[k] << 32 | (uint32_t)(at + k));
  }
}

static int top_parts(void *context, int64_t begin, int64_t end) {
  for (int64_t unit = begin; unit < end; unit++)
    top_part(context, unit);
  return 0;
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

/* The least of those of all parts. */
static int join_parts(void *context, int64_t begin, int64_t end) {
  const Top *t = context;
  for (int64_t line = begin; line < end; line++) {
    uint64_t *items = t->items + line * t->parts * t->count;
    Heap h = {.items = items, .count = t->count};
    for (int64_t k = 0; k < t->parts * t->count; k++)
      heap_take(&h, items[k]);
    heap_end(&h);
    put_top(t->s, line, at_line(t->s, line), items);
  }
  return 0;
}

/* Few of many: what is among them is rare, and each part of a line has its own.
 */
static bool top_rare(const Sort *s, int64_t count, Routine *r) {
  int64_t lines = s->lines.outer, n = s->lines.length;
  Top t = {.s = s, .count = count, .parts = 1};
  while (t.parts < PARTS && n / (2 * t.parts) >= TOP_RARE * count &&
         n / t.parts >= SHARED / PARTS)
    t.parts *= 2;
  t.items = routine_room(&r->room, lines * t.parts * count *
                                       (int64_t)sizeof *t.items);
  return t.items &&
         routine_share(r, lines * t.parts, 1 + WORK * t.parts / n, top_parts,
                       &t) &&
         routine_share(r, lines, 1 + WORK / (t.parts * count), join_parts, &t);
}

static int top_lines(void *context, int64_t begin, int64_t end) {
  const Sort *s = context;
  for (int64_t line = begin; line < end; line++) {
    const void *x = at_line(s, line);
    const uint64_t *items = ordered_line(s, x);
    if (!items)
      return 1;
    put_top(s, line, x, items);
  }
  return 0;
}

bool routine_topk(Routine *r) {
  Sort s = sort_of(r);
  int64_t count = r->node->params[0], n = s.lines.length;
  s.turned = true;
  if (n > UINT32_MAX)
    return false;
  if (count > 0 && !s.wide && count <= n / TOP_RARE)
    return top_rare(&s, count, r);
  return routine_share(r, s.lines.outer, 1 + WORK / n, top_lines, &s);
}

/* ---- permutations: the order of random keys ---- */

typedef struct Keys {
  Key key;
  uint64_t *to;
} Keys;

/* As integers of that order, some at a time; the last ones may be beyond. */
static int draw_keys(void *context, int64_t begin, int64_t end) {
  const Keys *k = context;
  for (int64_t i = begin; i < end; i++) {
    uint64_t *to = k->to + KEY_WORDS * i;
    key_words64(k->key, (uint64_t)i, to);
    for (int j = 0; j < KEY_WORDS; j++)
      to[j] ^= UINT64_C(1) << 63;
  }
  return 0;
}

bool routine_permutation(Routine *r) {
  int64_t n = r->node->params[0];
  Keys keys = {.key = r->node->key};
  int64_t draws = (n + KEY_WORDS - 1) / KEY_WORDS;
  keys.to = routine_room(&r->more,
                         draws * KEY_WORDS * (int64_t)sizeof *keys.to);
  if (!keys.to ||
      !routine_share(r, draws, WORK / KEY_WORDS, draw_keys, &keys))
    return false;
  Sort s = {.r = r,
            .lines = {1, n, 1},
            .from = keys.to,
            .to = r->out->data,
            .dtype = DT_I64,
            .wide = true};
  return sort(&s, r);
}
