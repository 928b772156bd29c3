/* Argsort by radix sort.  An item is a 32-bit key above a 32-bit index.  Stable
 * passes sort the items digit by digit. 64-bit keys are sorted by their lower
 * halves, then by their upper halves.  In a long line, they are sorted by their
 * leading bits.  An insertion sort of equal runs follows, unless a run is long.
 *
 * The order is ascending, with NaN last and -0 equal to 0.  Keys are
 * unsigned integers in the order of the elements. */
#include "backend/cpu/library_ops.h"

#include "runtime/thread_pool.h"
#include "machine/limits/cpu.h"

#include <string.h>

enum {
  DIGIT_BITS = 8, /* bits of a digit; fixed, since radix_sort masks with 0xff */
};

typedef struct ArgSort {
  const LibraryOp *r;
  AxisLines lines;
  const void *from;
  void *to;
  Dtype dtype;
  bool has_64bit_keys, descending; /* descending: largest first */
} ArgSort;

/* ---- keys ---- */

/* Branch-free: a branch on a random sign is mispredicted half of the time. */
static uint32_t key_of_float(float x) {
  uint32_t bits, nan = x != x ? UINT32_MAX : 0;
  x += 0; /* -0 becomes 0 */
  memcpy(&bits, &x, sizeof bits);
  return (bits ^ (-(bits >> 31) | UINT32_C(1) << 31)) | nan;
}

static uint64_t key_of_double(double x) {
  uint64_t bits, nan = x != x ? UINT64_MAX : 0;
  x += 0;
  memcpy(&bits, &x, sizeof bits);
  return (bits ^ (-(bits >> 63) | UINT64_C(1) << 63)) | nan;
}

/* The keys of elements from `begin` on; of 64-bit keys the lower halves. */
static void keys_of(const ArgSort *s, const void *x, int64_t begin, int count,
                    uint32_t *keys) {
  int64_t step = s->lines.inner;
#define FOR_EACH_KEY(T, key)                  \
  for (int k = 0; k < count; k++) {           \
    T e = ((const T *)x)[(begin + k) * step]; \
    keys[k] = (uint32_t)(key);                \
  }                                           \
  break
  switch (s->dtype) {
  case DT_F32:
    FOR_EACH_KEY(float, key_of_float(e));
  case DT_F16:
    FOR_EACH_KEY(uint16_t, key_of_float((float)f16_to_double(e)));
  case DT_BF16:
    FOR_EACH_KEY(uint16_t, key_of_float((float)bf16_to_double(e)));
  case DT_F8_E4M3:
    FOR_EACH_KEY(uint8_t, key_of_float((float)f8_e4m3_to_double(e)));
  case DT_F8_E5M2:
    FOR_EACH_KEY(uint8_t, key_of_float((float)f8_e5m2_to_double(e)));
  case DT_F4_E2M1:
    FOR_EACH_KEY(uint8_t, key_of_float((float)f4_e2m1_to_double(e)));
  case DT_I32:
    FOR_EACH_KEY(int32_t, (uint32_t)e ^ UINT32_C(1) << 31);
  case DT_I8:
    FOR_EACH_KEY(int8_t, (uint8_t)e ^ 0x80u);
  case DT_BOOL:
  case DT_U8:
  case DT_F8_E8M0: /* exponents, and NaN after them */
    FOR_EACH_KEY(uint8_t, e);
  case DT_I64:
    FOR_EACH_KEY(int64_t, e);
  case DT_F64:
    FOR_EACH_KEY(double, key_of_double(e));
  case DT_NONE:
  case DT_COUNT:
    break;
  }
#undef FOR_EACH_KEY
}

static uint64_t key_64bit(const ArgSort *s, const void *x, int64_t i) {
  return s->dtype == DT_F64
             ? key_of_double(((const double *)x)[i])
             : (uint64_t)((const int64_t *)x)[i] ^ UINT64_C(1) << 63;
}

static void load_items(const ArgSort *s, const void *x, int64_t begin,
                       int64_t end, uint64_t *items) {
  uint32_t flip_mask = s->descending ? UINT32_MAX : 0, keys[KEY_BATCH];
  for (int64_t at = begin; at < end; at += KEY_BATCH) {
    int count = end - at < KEY_BATCH ? (int)(end - at) : KEY_BATCH;
    keys_of(s, x, at, count, keys);
    for (int k = 0; k < count; k++)
      items[at + k] =
          (uint64_t)(keys[k] ^ flip_mask) << 32 | (uint32_t)(at + k);
  }
}

/* Loads the upper halves in the order of the lower ones. */
static void load_upper_halves(const ArgSort *s, const void *x, int64_t begin,
                              int64_t end, uint64_t *items) {
  uint32_t flip_mask = s->descending ? UINT32_MAX : 0;
  for (int64_t k = begin; k < end; k++) {
    uint32_t at = (uint32_t)items[k];
    uint64_t key = key_64bit(s, x, (int64_t)at * s->lines.inner) >> 32;
    items[k] = (key ^ flip_mask) << 32 | at;
  }
}

/* ---- sort by one thread ---- */

static void insertion_sort(uint64_t *items, int64_t n) {
  for (int64_t k = 1; k < n; k++) {
    uint64_t item = items[k];
    int64_t j = k;
    for (; j > 0 && items[j - 1] >> 32 > item >> 32; j--)
      items[j] = items[j - 1];
    items[j] = item;
  }
}

/* Replaces counts by the offset of each digit's items.  Returns false if all
 * items have the same digit. */
static bool counts_to_offsets(uint32_t *counts, uint32_t digits, int64_t n) {
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

/* Returns the sorted array: items or scratch. */
static uint64_t *radix_sort(uint64_t *items, uint64_t *scratch, int64_t n) {
  if (n <= MAX_INSERTION_SORT) {
    insertion_sort(items, n);
    return items;
  }
  uint32_t counts[4][1 << DIGIT_BITS] = {{0}};
  for (int64_t k = 0; k < n; k++)
    for (uint32_t p = 0; p < 4; p++)
      counts[p][items[k] >> (32 + DIGIT_BITS * p) & 0xff]++;
  for (uint32_t p = 0; p < 4; p++) {
    if (!counts_to_offsets(counts[p], 1 << DIGIT_BITS, n))
      continue;
    for (int64_t k = 0; k < n; k++)
      scratch[counts[p][items[k] >> (32 + DIGIT_BITS * p) & 0xff]++] = items[k];
    swap(&items, &scratch);
  }
  return items;
}

/* ---- sort by all threads, each with a part of the items ---- */

enum { BUCKETS = 1 << PARALLEL_DIGIT_BITS };

typedef struct ParallelSort {
  const ArgSort *s;
  uint64_t *items, *scratch;
  uint32_t (*counts)[BUCKETS]; /* of each part */
  int64_t n;
  uint32_t shift;
  /* of 64-bit keys: the minimum that is subtracted, the range of each part, and
   * the number of bits below the leading ones */
  uint64_t min_key, part_min_keys[ARGSORT_PARTS], part_max_keys[ARGSORT_PARTS];
  uint32_t dropped_bits;
  int64_t run_aligned_begin[ARGSORT_PARTS + 1]; /* parts whose borders are not
                                                   inside runs of equal items */
  bool has_long_run[ARGSORT_PARTS]; /* some run is too long to sort by insertion
                                     */
} ParallelSort;

static int64_t part_begin(const ParallelSort *h, int64_t part) {
  return h->n / ARGSORT_PARTS * part +
         (part < h->n % ARGSORT_PARTS ? part : h->n % ARGSORT_PARTS);
}

static uint32_t digit_of(const ParallelSort *h, uint64_t item) {
  return (uint32_t)(item >> h->shift) & (BUCKETS - 1);
}

static int load_part(void *context, int64_t begin, int64_t end) {
  const ParallelSort *h = context;
  load_items(h->s, h->s->from, part_begin(h, begin), part_begin(h, end),
             h->items);
  return 0;
}

static int load_upper_part(void *context, int64_t begin, int64_t end) {
  const ParallelSort *h = context;
  load_upper_halves(h->s, h->s->from, part_begin(h, begin), part_begin(h, end),
                    h->items);
  return 0;
}

static int count_part(void *context, int64_t begin, int64_t end) {
  const ParallelSort *h = context;
  for (int64_t part = begin; part < end; part++) {
    uint32_t *counts = h->counts[part];
    memset(counts, 0, sizeof h->counts[part]);
    for (int64_t k = part_begin(h, part); k < part_begin(h, part + 1); k++)
      counts[digit_of(h, h->items[k])]++;
  }
  return 0;
}

static int move_part(void *context, int64_t begin, int64_t end) {
  const ParallelSort *h = context;
  for (int64_t part = begin; part < end; part++) {
    uint32_t *counts = h->counts[part];
    for (int64_t k = part_begin(h, part); k < part_begin(h, part + 1); k++)
      h->scratch[counts[digit_of(h, h->items[k])]++] = h->items[k];
  }
  return 0;
}

/* Replaces counts by offsets: for each digit, part after part. */
static bool part_counts_to_offsets(const ParallelSort *h) {
  uint32_t sum = 0;
  for (uint32_t d = 0; d < BUCKETS; d++) {
    uint32_t previous = sum;
    for (uint32_t part = 0; part < ARGSORT_PARTS; part++) {
      uint32_t count = h->counts[part][d];
      h->counts[part][d] = sum;
      sum += count;
    }
    if (sum - previous == h->n)
      return false;
  }
  return true;
}

static void radix_sort_parallel(ParallelSort *h) {
  for (h->shift = 32; h->shift < 64; h->shift += PARALLEL_DIGIT_BITS) {
    library_op_parallel_for(h->s->r, ARGSORT_PARTS, 1, count_part, h);
    if (!part_counts_to_offsets(h))
      continue;
    library_op_parallel_for(h->s->r, ARGSORT_PARTS, 1, move_part, h);
    swap(&h->items, &h->scratch);
  }
}

/* ---- 64-bit keys: sort by their 32 leading bits ---- */

static int key_range_part(void *context, int64_t begin, int64_t end) {
  ParallelSort *h = context;
  for (int64_t part = begin; part < end; part++) {
    uint64_t low = UINT64_MAX, high = 0;
    for (int64_t k = part_begin(h, part); k < part_begin(h, part + 1); k++) {
      uint64_t key = key_64bit(h->s, h->s->from, k);
      low = key < low ? key : low;
      high = key > high ? key : high;
    }
    h->part_min_keys[part] = low, h->part_max_keys[part] = high;
  }
  return 0;
}

/* The leading 32 bits in which any two keys differ. */
static void choose_leading_bits(ParallelSort *h) {
  uint64_t high = 0;
  h->min_key = UINT64_MAX;
  for (uint32_t part = 0; part < ARGSORT_PARTS; part++) {
    h->min_key = h->part_min_keys[part] < h->min_key ? h->part_min_keys[part]
                                                     : h->min_key;
    high = h->part_max_keys[part] > high ? h->part_max_keys[part] : high;
  }
  while ((high - h->min_key) >> h->dropped_bits > UINT32_MAX)
    h->dropped_bits++;
}

static int load_leading_part(void *context, int64_t begin, int64_t end) {
  const ParallelSort *h = context;
  for (int64_t k = part_begin(h, begin); k < part_begin(h, end); k++) {
    uint64_t key = key_64bit(h->s, h->s->from, k) - h->min_key;
    h->items[k] = key >> h->dropped_bits << 32 | (uint32_t)k;
  }
  return 0;
}

static bool equals_previous(const ParallelSort *h,
                            int64_t k) { /* to the item before it */
  return k > 0 && k < h->n && (h->items[k] ^ h->items[k - 1]) >> 32 == 0;
}

/* Returns false if a run is long. */
static bool split_at_runs(ParallelSort *h) {
  for (int64_t part = 0; part <= ARGSORT_PARTS; part++) {
    int64_t at = part_begin(h, part), max = at + MAX_INSERTION_SORT;
    while (equals_previous(h, at) && at < max)
      at++;
    if (at == max)
      return false;
    h->run_aligned_begin[part] = at;
  }
  return true;
}

static void sort_run(const ParallelSort *h, int64_t begin, int64_t end) {
  uint64_t *items = h->items;
  for (int64_t k = begin + 1; k < end; k++) {
    uint64_t item = items[k];
    uint64_t key = key_64bit(h->s, h->s->from, (uint32_t)item);
    int64_t j = k;
    for (; j > begin; j--) {
      if (key_64bit(h->s, h->s->from, (uint32_t)items[j - 1]) <= key)
        break;
      items[j] = items[j - 1];
    }
    items[j] = item;
  }
}

static int sort_runs_part(void *context, int64_t begin, int64_t end) {
  ParallelSort *h = context;
  for (int64_t part = begin; part < end; part++)
    for (int64_t k = h->run_aligned_begin[part], first;
         k < h->run_aligned_begin[part + 1];) {
      for (first = k++;
           equals_previous(h, k) && k < h->run_aligned_begin[part + 1];)
        k++;
      if (k - first > MAX_INSERTION_SORT)
        h->has_long_run[part] = true;
      else if (k - first > 1)
        sort_run(h, first, k);
    }
  return 0;
}

/* Returns false if too many keys have equal leading bits. */
static bool sort_by_leading_bits(ParallelSort *h) {
  const LibraryOp *r = h->s->r;
  library_op_parallel_for(r, ARGSORT_PARTS, 1, key_range_part, h);
  choose_leading_bits(h);
  library_op_parallel_for(r, ARGSORT_PARTS, 1, load_leading_part, h);
  radix_sort_parallel(h);
  if (h->dropped_bits == 0)
    return true;
  bool runs_are_short = split_at_runs(h);
  if (runs_are_short)
    library_op_parallel_for(r, ARGSORT_PARTS, 1, sort_runs_part, h);
  for (uint32_t part = 0; part < ARGSORT_PARTS; part++)
    runs_are_short &= !h->has_long_run[part];
  return runs_are_short;
}

/* ---- result ---- */

static void store_indices(const ArgSort *s, void *y, int64_t begin, int64_t end,
                          const uint64_t *items) {
  for (int64_t k = begin; k < end; k++)
    ((int64_t *)y)[k * s->lines.inner] = (uint32_t)items[k];
}

static int store_indices_part(void *context, int64_t begin, int64_t end) {
  const ParallelSort *h = context;
  store_indices(h->s, h->s->to, part_begin(h, begin), part_begin(h, end),
                h->items);
  return 0;
}

static bool sort_parallel(const ArgSort *s, LibraryOp *r) {
  int64_t n = s->lines.length;
  ParallelSort h = {.s = s, .n = n};
  h.items = library_op_scratch(&r->scratch,
                               2 * n * (int64_t)sizeof *h.items +
                                   ARGSORT_PARTS * (int64_t)sizeof *h.counts);
  if (!h.items)
    return false;
  h.scratch = h.items + n;
  h.counts = (uint32_t(*)[BUCKETS])(h.scratch + n);
  if (!s->has_64bit_keys || !sort_by_leading_bits(&h)) {
    library_op_parallel_for(r, ARGSORT_PARTS, 1, load_part, &h);
    radix_sort_parallel(&h);
    if (s->has_64bit_keys) {
      library_op_parallel_for(r, ARGSORT_PARTS, 1, load_upper_part, &h);
      radix_sort_parallel(&h);
    }
  }
  library_op_parallel_for(r, ARGSORT_PARTS, 1, store_indices_part, &h);
  return true;
}

/* ---- lines ---- */

static const void *line_data(const ArgSort *s, int64_t line) {
  return (const char *)s->from +
         axis_line_start(&s->lines, line) * dtype_info[s->dtype].bytes;
}

/* Returns the sorted items; NULL: out of memory. */
static const uint64_t *sort_line(const ArgSort *s, const void *x) {
  int64_t n = s->lines.length;
  uint64_t *items = thread_pool_scratch(2 * (size_t)n * sizeof *items + 1);
  if (!items)
    return NULL;
  uint64_t *scratch = items + n;
  load_items(s, x, 0, n, items);
  uint64_t *sorted = radix_sort(items, scratch, n);
  if (s->has_64bit_keys) {
    load_upper_halves(s, x, 0, n, sorted);
    sorted = radix_sort(sorted, sorted == items ? scratch : items, n);
  }
  return sorted;
}

static int sort_lines(void *context, int64_t begin, int64_t end) {
  const ArgSort *s = context;
  for (int64_t line = begin; line < end; line++) {
    const uint64_t *items = sort_line(s, line_data(s, line));
    if (!items)
      return 1;
    store_indices(s, (int64_t *)s->to + axis_line_start(&s->lines, line), 0,
                  s->lines.length, items);
  }
  return 0;
}

static bool argsort(const ArgSort *s, LibraryOp *r) {
  int64_t lines = s->lines.outer * s->lines.inner;
  if (s->lines.length > UINT32_MAX)
    return false;
  if (lines == 1 && s->lines.length >= MIN_PARALLEL_KEYS)
    return sort_parallel(s, r);
  return library_op_parallel_for(
      r, lines, 1 + SORT_GRAIN_KEYS / s->lines.length, sort_lines, (void *)s);
}

static ArgSort argsort_new(const LibraryOp *r) {
  const Node *x = r->node->inputs[0];
  return (ArgSort){.r = r,
                   .lines = r->lines,
                   .from = x->data->data,
                   .to = r->out->data,
                   .dtype = x->dtype,
                   .has_64bit_keys = dtype_info[x->dtype].bytes == 8};
}

bool library_op_argsort(LibraryOp *r) {
  ArgSort s = argsort_new(r);
  return argsort(&s, r);
}

/* ---- top-k ---- */

/* The smallest `capacity` items so far, as a heap with the largest on top. */
typedef struct BoundedHeap {
  uint64_t *items;
  int64_t capacity, size;
} BoundedHeap;

static void sift_down(uint64_t *items, int64_t count, int64_t at) {
  uint64_t item = items[at];
  for (int64_t k; (k = 2 * at + 1) < count; at = k) {
    k += k + 1 < count && items[k + 1] > items[k];
    if (items[k] < item)
      break;
    items[at] = items[k];
  }
  items[at] = item;
}

static void heap_push(BoundedHeap *h, uint64_t item) {
  if (h->size == h->capacity) {
    if (item < h->items[0]) {
      h->items[0] = item;
      sift_down(h->items, h->capacity, 0);
    }
    return;
  }
  h->items[h->size++] = item;
  for (int64_t k = h->size == h->capacity ? h->capacity / 2 : 0; k-- > 0;)
    sift_down(h->items, h->capacity, k);
}

/* Sorts the items of the heap. */
static void heap_sort(BoundedHeap *h) {
  for (int64_t k = h->capacity; k-- > 1;) {
    uint64_t item = h->items[k];
    h->items[k] = h->items[0];
    h->items[0] = item;
    sift_down(h->items, k, 0);
  }
}

typedef struct TopK { /* top-k of several lines, each in `parts` parts */
  const ArgSort *s;
  int64_t count, parts;
  uint64_t *items; /* `count` items of each part */
} TopK;

static int64_t topk_part_begin(const TopK *t, int64_t part) {
  int64_t n = t->s->lines.length, rest = n % t->parts;
  return n / t->parts * part + (part < rest ? part : rest);
}

static void topk_part(const TopK *t, int64_t task) {
  const void *x = line_data(t->s, task / t->parts);
  int64_t part = task % t->parts, end = topk_part_begin(t, part + 1);
  BoundedHeap h = {.items = t->items + task * t->count, .capacity = t->count};
  uint32_t keys[KEY_BATCH];
  for (int64_t at = topk_part_begin(t, part); at < end; at += KEY_BATCH) {
    int count = end - at < KEY_BATCH ? (int)(end - at) : KEY_BATCH;
    keys_of(t->s, x, at, count, keys);
    for (int k = 0; k < count; k++)
      if (h.size < h.capacity || ~keys[k] <= h.items[0] >> 32)
        heap_push(&h, (uint64_t)~keys[k] << 32 | (uint32_t)(at + k));
  }
}

static int topk_parts(void *context, int64_t begin, int64_t end) {
  for (int64_t task = begin; task < end; task++)
    topk_part(context, task);
  return 0;
}

static void store_topk(const ArgSort *s, int64_t line, const void *x,
                       const uint64_t *items) {
  const Node *n = s->r->node;
  int64_t count = n->params[0];
  size_t bytes = dtype_info[s->dtype].bytes;
  for (int64_t k = 0; k < count; k++) {
    uint32_t from = (uint32_t)items[k];
    if (n->output_index)
      ((int64_t *)s->to)[line * count + k] = from;
    else
      memcpy((char *)s->to + (size_t)(line * count + k) * bytes,
             (const char *)x + from * bytes, bytes);
  }
}

/* Merges the heaps of all parts. */
static int topk_merge_parts(void *context, int64_t begin, int64_t end) {
  const TopK *t = context;
  for (int64_t line = begin; line < end; line++) {
    uint64_t *items = t->items + line * t->parts * t->count;
    BoundedHeap h = {.items = items, .capacity = t->count};
    for (int64_t k = 0; k < t->parts * t->count; k++)
      heap_push(&h, items[k]);
    heap_sort(&h);
    store_topk(t->s, line, line_data(t->s, line), items);
  }
  return 0;
}

/* For a small k, few elements enter the heap.  Each part of a line has its own
 * heap. */
static bool topk_by_heaps(const ArgSort *s, int64_t count, LibraryOp *r) {
  int64_t lines = s->lines.outer, n = s->lines.length;
  TopK t = {.s = s, .count = count, .parts = 1};
  while (t.parts < ARGSORT_PARTS &&
         n / (2 * t.parts) >= MIN_TOPK_RATIO * count &&
         n / t.parts >= MIN_PARALLEL_KEYS / ARGSORT_PARTS)
    t.parts *= 2;
  t.items = library_op_scratch(&r->scratch, lines * t.parts * count *
                                                (int64_t)sizeof *t.items);
  return t.items &&
         library_op_parallel_for(r, lines * t.parts,
                                 1 + SORT_GRAIN_KEYS * t.parts / n, topk_parts,
                                 &t) &&
         library_op_parallel_for(r, lines,
                                 1 + SORT_GRAIN_KEYS / (t.parts * count),
                                 topk_merge_parts, &t);
}

static int topk_by_sorting(void *context, int64_t begin, int64_t end) {
  const ArgSort *s = context;
  for (int64_t line = begin; line < end; line++) {
    const void *x = line_data(s, line);
    const uint64_t *items = sort_line(s, x);
    if (!items)
      return 1;
    store_topk(s, line, x, items);
  }
  return 0;
}

bool library_op_topk(LibraryOp *r) {
  ArgSort s = argsort_new(r);
  int64_t count = r->node->params[0], n = s.lines.length;
  s.descending = true;
  if (n > UINT32_MAX)
    return false;
  if (count > 0 && !s.has_64bit_keys && count <= n / MIN_TOPK_RATIO)
    return topk_by_heaps(&s, count, r);
  return library_op_parallel_for(r, s.lines.outer, 1 + SORT_GRAIN_KEYS / n,
                                 topk_by_sorting, &s);
}

/* ---- permutations: the order of random keys ---- */

typedef struct RandomKeys {
  PrngKey key;
  uint64_t *to;
} RandomKeys;

/* Draws batches of keys as signed integers; the last batch may be larger than
 * needed. */
static int draw_keys(void *context, int64_t begin, int64_t end) {
  const RandomKeys *k = context;
  for (int64_t i = begin; i < end; i++) {
    uint64_t *to = k->to + PRNG_BATCH_WORDS * i;
    prng_batch64(k->key, (uint64_t)i, to);
    for (int j = 0; j < PRNG_BATCH_WORDS; j++)
      to[j] ^= UINT64_C(1) << 63;
  }
  return 0;
}

bool library_op_permutation(LibraryOp *r) {
  int64_t n = r->node->params[0];
  RandomKeys keys = {.key = r->node->key};
  int64_t draws = (n + PRNG_BATCH_WORDS - 1) / PRNG_BATCH_WORDS;
  keys.to = library_op_scratch(&r->scratch2, draws * PRNG_BATCH_WORDS *
                                                 (int64_t)sizeof *keys.to);
  if (!keys.to ||
      !library_op_parallel_for(r, draws, SORT_GRAIN_KEYS / PRNG_BATCH_WORDS,
                               draw_keys, &keys))
    return false;
  ArgSort s = {.r = r,
               .lines = {1, n, 1},
               .from = keys.to,
               .to = r->out->data,
               .dtype = DT_I64,
               .has_64bit_keys = true};
  return argsort(&s, r);
}
