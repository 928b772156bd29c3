/* The passes of library kernels, and their distribution over blocks. */
#include "backend/cuda/library_kernels.h"

#include "backend/cuda/threads.h"
#include "backend/library_ops.h"
#include "machine/limits/cuda.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/code_indent.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

enum {
  SCRATCH_ALIGN_BYTES = 256, /* alignment of parts of scratch memory */
  SCAN_THREAD_ELEMENTS = 8,  /* equals AX_SCAN_EACH in prelude/scan.inc */
  SCAN_TILE_ELEMENTS = SCAN_THREAD_ELEMENTS * LIBRARY_BLOCK_THREADS,
  MIN_SCAN_PART = MIN_SCAN_PART_TILES * SCAN_TILE_ELEMENTS,
  RADIX = 256,              /* values of a digit */
  TOPK_BUFFER_ITEMS = 2048, /* in shared memory */
  MAX_TOPK = 1024,          /* limit of ax_top */
};

/* ---- passes ---- */

typedef struct LibraryKernelWriter {
  Arena *arena;
  const Node *n;
  const CudaTarget *target;
  CudaKernel *out;
  CudaPass *pass; /* the current pass */
  Buffer body;
} LibraryKernelWriter;

static int64_t ceil_div_i64(int64_t x, int64_t by) {
  return (x + by - 1) / by;
}
static int64_t min_i64(int64_t x, int64_t y) {
  return x < y ? x : y;
}
static int64_t max_i64(int64_t x, int64_t y) {
  return x < y ? y : x;
}

static void begin_pass(LibraryKernelWriter *r, const char *what,
                       uint32_t threads, int64_t blocks, int64_t shared) {
  CudaPass *p = NEW(r->arena, CudaPass);
  p->s = (CudaSchedule){.kind = CUDA_LIBRARY,
                        .block_threads = threads,
                        .description = what,
                        .group_threads = 1,
                        .vector_width = 1};
  snprintf(p->name, sizeof p->name, "axon_%u", r->out->passes.len);
  p->grid_blocks = blocks;
  p->shared_bytes = shared;
  VEC_PUSH(r->arena, r->out->passes, p);
  r->pass = p;
  r->body = (Buffer){.arena = r->arena};
}

/* Adds an integer argument to the pass. */
static const char *int_param(LibraryKernelWriter *r, int64_t x) {
  Call *call = &r->pass->emitted.call;
  VEC_PUSH(r->arena, call->ints, x);
  return arena_printf(r->arena, "a.n[%u]", call->ints.len - 1);
}
static const char *int32_param(LibraryKernelWriter *r, int64_t x) {
  return arena_printf(r->arena, "(int)%s", int_param(r, x));
}

static const char *pointer(LibraryKernelWriter *r, uint32_t at, bool reads,
                           const char *type) {
  return arena_printf(r->arena, "(%s%s *)a.p[%u]", reads ? "const " : "", type,
                      at);
}
static const char *input(LibraryKernelWriter *r, uint32_t at) {
  return pointer(r, 1 + at, true, memory_type(r->n->inputs[at]->dtype));
}
static const char *output(LibraryKernelWriter *r) {
  return pointer(r, 0, false, memory_type(r->n->dtype));
}
static const char *status_pointer(LibraryKernelWriter *r) {
  return pointer(r, r->n->input_count + 2, false, "int32_t");
}

/* Allocates scratch memory and returns its offset. */
static int64_t alloc_scratch(LibraryKernelWriter *r, int64_t bytes) {
  int64_t at = ceil_div_i64(r->out->scratch_bytes, SCRATCH_ALIGN_BYTES) *
               SCRATCH_ALIGN_BYTES;
  r->out->scratch_bytes = at + bytes;
  return at;
}
static const char *scratch_pointer(LibraryKernelWriter *r, const char *type,
                                   int64_t at) {
  return arena_printf(r->arena, "(%s *)((char *)a.p[%u] + %s)", type,
                      r->n->input_count + 1, int_param(r, at));
}

/* True if an earlier pass has the same source.  Then its function is launched
 * again. */
static bool reuses_kernel(const LibraryKernelWriter *r) {
  for (uint32_t j = 0; j + 1 < r->out->passes.len; j++) {
    const CudaPass *p = r->out->passes.at[j];
    if (p->emitted.call.ints.len == r->pass->emitted.call.ints.len &&
        p->s.block_threads == r->pass->s.block_threads &&
        strcmp(p->emitted.source.text, r->body.text) == 0) {
      memcpy(r->pass->name, p->name, sizeof p->name);
      return true;
    }
  }
  return false;
}

static void end_pass(LibraryKernelWriter *r) {
  CudaPass *p = r->pass;
  p->emitted.source = r->body;
  if (reuses_kernel(r))
    return;
  buffer_printf(&r->out->source,
                "struct %s_args {\nvoid *p[%u];\nint64_t n[%u];\n};\n"
                "/* %s */\n"
                "extern \"C\" __global__ void __launch_bounds__(%u)\n"
                "%s(const __grid_constant__ %s_args a) {\n%s}\n",
                p->name, r->n->input_count + 3, p->emitted.call.ints.len,
                p->s.description, p->s.block_threads, p->name, p->name,
                r->body.text);
}

/* The number of parts per line, so that there are enough blocks. */
static int64_t part_count(const LibraryKernelWriter *r, int64_t lines,
                          int64_t length, int64_t part, int64_t max_parts) {
  int64_t target_parts = ceil_div_i64(
      (int64_t)LIBRARY_BLOCKS_PER_SM * r->target->sm_count, max_i64(lines, 1));
  return max_i64(min_i64(min_i64(target_parts, length / part), max_parts), 1);
}

/* ---- prefix sums ---- */

static const char *sum_type(Dtype t) {
  switch (t) {
  case DT_F32:
  case DT_F64:
    return "double";
  case DT_F16:
  case DT_BF16:
  case DT_F8_E4M3:
  case DT_F8_E5M2:
  case DT_F4_E2M1:
  case DT_F8_E8M0:
    return "float";
  case DT_I64:
    return "uint64_t";
  case DT_BOOL:
  case DT_U8:
  case DT_I8:
  case DT_I32:
  case DT_NONE:
  case DT_COUNT:
    break;
  }
  return "uint32_t";
}

typedef struct PrefixSum {
  /* element_traits: such as ax_of_f32 */
  const char *element_traits, *type, *sum;
  int64_t outer, length, inner;
  bool in_scratch; /* reads and writes scratch memory at scratch_offset */
  int64_t scratch_offset;
} PrefixSum;

static const char *scan_from(LibraryKernelWriter *r, const PrefixSum *s) {
  return s->in_scratch ? scratch_pointer(r, s->type, s->scratch_offset)
                       : input(r, 0);
}
static const char *scan_to(LibraryKernelWriter *r, const PrefixSum *s) {
  return s->in_scratch ? scratch_pointer(r, s->type, s->scratch_offset)
                       : output(r);
}

static void put_strided_scan(LibraryKernelWriter *r, const PrefixSum *s,
                             int64_t parts, int64_t chunk, int64_t sums,
                             bool last) {
  int64_t units = s->outer * parts * s->inner;
  begin_pass(r, last ? "running sums across memory" : "sums of parts",
             LIBRARY_BLOCK_THREADS, ceil_div_i64(units, LIBRARY_BLOCK_THREADS),
             0);
  const char *from = scan_from(r, s), *to = last ? scan_to(r, s) : "0";
  const char *totals = scratch_pointer(r, s->sum, sums);
  const char *outer = int_param(r, s->outer), *length = int_param(r, s->length);
  const char *inner = int_param(r, s->inner), *count = int_param(r, parts);
  buffer_printf(&r->body,
                "ax_scan_columns<%s, %d>(%s, %s, %s, %s, %s, %s, %s, %s);\n",
                s->element_traits, LIBRARY_BLOCK_THREADS, from, to, totals,
                outer, length, inner, count, int_param(r, chunk));
  end_pass(r);
}

static void put_contiguous_scan(LibraryKernelWriter *r, const PrefixSum *s,
                                int64_t parts, int64_t chunk, int64_t sums,
                                bool last) {
  int threads = s->length <= MAX_WARP_LINE ? WARP : LIBRARY_BLOCK_THREADS;
  int tile = threads * SCAN_THREAD_ELEMENTS;
  begin_pass(r, last ? "running sums" : "sums of parts", (uint32_t)threads,
             s->outer * parts,
             8 * WARP + 8 * (tile + tile / SCAN_THREAD_ELEMENTS));
  const char *from = scan_from(r, s), *to = last ? scan_to(r, s) : "";
  const char *totals = scratch_pointer(r, s->sum, sums);
  const char *length = int_param(r, s->length), *count = int_param(r, parts);
  buffer_printf(&r->body, "ax_scan_%s<%s, %d>(%s, %s%s%s, %s, %s, %s);\n",
                last ? "lines" : "parts", s->element_traits, threads, from, to,
                last ? ", " : "", totals, length, count, int_param(r, chunk));
  end_pass(r);
}

static void put_prefix_sum(LibraryKernelWriter *r, const PrefixSum *s) {
  bool strided = s->inner > 1 || s->length <= MAX_THREAD_LINE;
  int64_t parts =
      strided
          ? part_count(r,
                       ceil_div_i64(s->outer * s->inner, LIBRARY_BLOCK_THREADS),
                       s->length, MIN_COLUMN_PART, MAX_COLUMN_PARTS)
          : part_count(r, s->outer, s->length, MIN_SCAN_PART, MAX_SCAN_PARTS);
  int64_t chunk = ceil_div_i64(s->length, parts), sums = 0;
  if (!strided)
    chunk = ceil_div_i64(chunk, SCAN_TILE_ELEMENTS) * SCAN_TILE_ELEMENTS;
  parts = ceil_div_i64(s->length, chunk);
  if (parts > 1)
    sums =
        alloc_scratch(r, s->outer * parts * s->inner * (int64_t)sizeof(double));
  for (int last = parts == 1; last < 2; last++)
    (strided ? put_strided_scan : put_contiguous_scan)(r, s, parts, chunk, sums,
                                                       last != 0);
}

static bool cumsum(LibraryKernelWriter *r, const AxisLines *l) {
  Dtype t = r->n->dtype;
  const char *of = arena_printf(r->arena, "ax_of_%s", dtype_info[t].name);
  const PrefixSum s = {of,        memory_type(t), sum_type(t), l->outer,
                       l->length, l->inner,       false,       0};
  put_prefix_sum(r, &s);
  return true;
}

/* ---- sorting ---- */

typedef struct SortSpec {
  /* element_traits: such as ax_of_f32; NULL: put_key_source gives the keys */
  const char *element_traits, *type;
  Dtype dtype;
  AxisLines lines;
  int64_t take;               /* sorted elements of each line that are stored */
  bool descending, wide_keys; /* descending order; 64-bit keys */
  bool want_indices;          /* stores indices instead of elements */
  /* At least 0: stores items there, in scratch memory; negative: stores
   * elements or indices. */
  int64_t items_offset;
  /* Writes the source of the keys, if they are not elements.  items: NULL, or
   * the items sorted by the lower halves of the keys; then the result gives the
   * upper halves. */
  const char *(*put_key_source)(LibraryKernelWriter *r, const char *items);
  int key_bits; /* bits per key */
} SortSpec;

static void bitonic_sort(LibraryKernelWriter *r, const SortSpec *o) {
  int64_t padded_length = 1, item_bytes = o->wide_keys ? 16 : 8,
          lines_per_block = 1;
  int64_t lines = o->lines.outer * o->lines.inner;
  while (padded_length < o->lines.length)
    padded_length *= 2;
  while (2 * padded_length * lines_per_block * item_bytes <=
             BITONIC_SHARED_BYTES &&
         (padded_length * lines_per_block < MIN_BITONIC_ITEMS ||
          o->lines.inner > lines_per_block) &&
         lines_per_block < lines)
    lines_per_block *= 2;
  begin_pass(r, "lines sorted in shared memory", LIBRARY_BLOCK_THREADS,
             ceil_div_i64(lines, lines_per_block),
             padded_length * lines_per_block * item_bytes);
  const char *count = int_param(r, lines);
  const char *length = int_param(r, o->lines.length);
  const char *inner = int_param(r, o->lines.inner);
  const char *take = int_param(r, o->take);
  const char *padded = int32_param(r, padded_length);
  const char *per_block = int32_param(r, lines_per_block);
  buffer_printf(&r->body,
                "ax_sort_short<%s, %s, %d, %s>(%s, %s, %s, %s, %s, %s, %s, %s, "
                "%s);\n",
                o->element_traits, o->wide_keys ? "ax_wide_item" : "ax_item",
                LIBRARY_BLOCK_THREADS, o->want_indices ? "true" : "false",
                input(r, 0), output(r), count, length, inner, take, padded,
                per_block, int32_param(r, o->descending));
  end_pass(r);
}

/* The input of a pass over one digit: elements, the upper halves of the keys,
 * or items. */
typedef enum KeySource {
  KEYS_FROM_ELEMENTS,
  KEYS_FROM_UPPER_HALVES,
  KEYS_FROM_ITEMS
} KeySource;

static const char *radix_source(LibraryKernelWriter *r, const SortSpec *o,
                                KeySource source, int64_t items) {
  if (source != KEYS_FROM_ITEMS && o->put_key_source)
    return o->put_key_source(r,
                             source == KEYS_FROM_ELEMENTS
                                 ? NULL
                                 : scratch_pointer(r, "const ax_item", items));
  if (source == KEYS_FROM_ITEMS) {
    const char *from = scratch_pointer(r, "const ax_item", items);
    return arena_printf(r->arena, "ax_from_items{%s, %s}", from,
                        int_param(r, o->lines.length));
  }
  const char *length = int_param(r, o->lines.length);
  const char *inner = int_param(r, o->lines.inner);
  const char *elements = arena_printf(
      r->arena, "ax_from_elements<%s>{%s, %s, %s, %s}", o->element_traits,
      input(r, 0), length, inner, int32_param(r, o->descending));
  if (source == KEYS_FROM_ELEMENTS)
    return elements;
  return arena_printf(r->arena, "ax_from_upper<%s>{%s, %s}", o->element_traits,
                      elements, scratch_pointer(r, "const ax_item", items));
}

static const char *radix_destination(LibraryKernelWriter *r, const SortSpec *o,
                                     bool last, int64_t items) {
  if (!last || o->items_offset >= 0) {
    const char *to =
        scratch_pointer(r, "ax_item", last ? o->items_offset : items);
    return arena_printf(r->arena, "ax_to_items{%s, %s}", to,
                        int_param(r, o->lines.length));
  }
  const char *length = o->want_indices ? NULL : int_param(r, o->lines.length);
  const char *take = int_param(r, o->take);
  const char *inner = int_param(r, o->lines.inner);
  if (o->want_indices)
    return arena_printf(r->arena, "ax_to_places{%s, %s, %s}", output(r), take,
                        inner);
  return arena_printf(r->arena, "ax_to_elements<%s>{%s, %s, %s, %s, %s}",
                      o->element_traits, output(r), input(r, 0), length, take,
                      inner);
}

/* A pass over one digit of keys.  sizes: length, parts of a line, elements of a
 * part. */
static void put_digit_pass(LibraryKernelWriter *r, const char *function,
                           const char *operands, const int64_t *sizes,
                           int shift) {
  const char *length = int_param(r, sizes[0]), *parts = int_param(r, sizes[1]);
  const char *chunk = int_param(r, sizes[2]);
  buffer_printf(&r->body, "%s<%d>(%s, %s, %s, %s, %s);\n", function,
                LIBRARY_BLOCK_THREADS, operands, length, parts, chunk,
                int32_param(r, shift));
}

/* LSD radix sort.  Each digit has passes that count the keys per part, and then
 * move them. */
static void radix_sort(LibraryKernelWriter *r, const SortSpec *o) {
  int64_t lines = o->lines.outer * o->lines.inner, n = o->lines.length;
  int64_t parts = part_count(r, lines, n, 2 * RADIX_TILE_ITEMS, INT32_MAX);
  int64_t chunk =
      ceil_div_i64(ceil_div_i64(n, parts), RADIX_TILE_ITEMS) * RADIX_TILE_ITEMS;
  parts = ceil_div_i64(n, chunk);
  int64_t counts =
      alloc_scratch(r, lines * RADIX * parts * (int64_t)sizeof(uint32_t));
  int64_t key_buffers[] = {alloc_scratch(r, lines * n * 8),
                           alloc_scratch(r, lines * n * 8)};
  int passes = (int)ceil_div_i64(o->key_bits, 8);
  const int64_t sizes[] = {n, parts, chunk};
  for (int pass = 0; pass < passes; pass++) {
    KeySource source = pass == 0   ? KEYS_FROM_ELEMENTS
                       : pass == 4 ? KEYS_FROM_UPPER_HALVES
                                   : KEYS_FROM_ITEMS;
    int64_t from = key_buffers[pass % 2], to = key_buffers[(pass + 1) % 2];
    int shift = 32 + pass % 4 * 8;
    begin_pass(r, "digits counted", LIBRARY_BLOCK_THREADS, lines * parts,
               LIBRARY_BLOCK_THREADS / WARP * RADIX * 4);
    const char *keys = radix_source(r, o, source, from);
    keys = arena_printf(r->arena, "%s, %s", keys,
                        scratch_pointer(r, "uint32_t", counts));
    put_digit_pass(r, "ax_digit_count", keys, sizes, shift);
    end_pass(r);
    put_prefix_sum(r, &(PrefixSum){"ax_of_u32", "uint32_t", "uint32_t", lines,
                                   RADIX * parts, 1, true, counts});
    begin_pass(r, "moved by digits", LIBRARY_BLOCK_THREADS, lines * parts,
               RADIX_TILE_ITEMS * 8 +
                   (LIBRARY_BLOCK_THREADS / WARP * RADIX + 2 * RADIX + WARP) *
                       4);
    keys = radix_source(r, o, source, from);
    const char *moved = radix_destination(r, o, pass + 1 == passes, to);
    keys = arena_printf(r->arena, "%s, %s, %s", keys, moved,
                        scratch_pointer(r, "const uint32_t", counts));
    put_digit_pass(r, "ax_digit_move", keys, sizes, shift);
    end_pass(r);
  }
}

static bool fits_bitonic(const SortSpec *o) {
  return o->lines.length * (o->wide_keys ? 16 : 8) <= BITONIC_SHARED_BYTES;
}

static SortSpec sort_spec(LibraryKernelWriter *r, const AxisLines *l) {
  Dtype t = r->n->inputs[0]->dtype;
  return (SortSpec){.element_traits =
                        arena_printf(r->arena, "ax_of_%s", dtype_info[t].name),
                    .type = memory_type(t),
                    .dtype = t,
                    .lines = *l,
                    .take = l->length,
                    .wide_keys = dtype_info[t].bytes == 8,
                    .key_bits = 8 * (int)dtype_info[t].bytes,
                    .items_offset = -1};
}

static bool sort(LibraryKernelWriter *r, const SortSpec *o) {
  if (fits_bitonic(o))
    bitonic_sort(r, o);
  else
    radix_sort(r, o);
  return true;
}

/* ---- topk ---- */

static void put_topk_pass(LibraryKernelWriter *r, const SortSpec *o, int64_t n,
                          int64_t parts, int64_t items, bool first) {
  const char *item = o->wide_keys ? "ax_wide_item" : "ax_item";
  int64_t chunk = ceil_div_i64(n, parts);
  bool last = !first || parts == 1;
  begin_pass(r, last ? "the largest" : "the largest of parts",
             LIBRARY_BLOCK_THREADS, o->lines.outer * parts,
             TOPK_BUFFER_ITEMS * (o->wide_keys ? 16 : 8) + 16);
  const char *from;
  if (first)
    from = arena_printf(r->arena, "ax_top_element<%s, %s>{%s, %s}",
                        o->element_traits, item, input(r, 0), int_param(r, n));
  else {
    from = scratch_pointer(r, arena_printf(r->arena, "const %s", item), items);
    from = arena_printf(r->arena, "ax_top_item<%s>{%s, %s}", item, from,
                        int_param(r, n));
  }
  const char *to =
      !last ? arena_printf(r->arena, "ax_top_to_items<%s>{%s}", item,
                           scratch_pointer(r, item, items))
      : o->want_indices
          ? arena_printf(r->arena, "ax_top_to_places{%s}", output(r))
          : arena_printf(r->arena, "ax_top_to_elements<%s>{%s, %s, %s}",
                         o->type, output(r), input(r, 0),
                         int_param(r, o->lines.length));
  const char *length = int_param(r, n), *count = int_param(r, parts);
  const char *part = int_param(r, chunk);
  buffer_printf(&r->body, "ax_top<%d, %d, %s>(%s, %s, %s, %s, %s, %s);\n",
                LIBRARY_BLOCK_THREADS, TOPK_BUFFER_ITEMS, item, from, to,
                length, count, part, int32_param(r, o->take));
  end_pass(r);
}

static bool topk(LibraryKernelWriter *r, const AxisLines *l) {
  SortSpec o = sort_spec(r, l);
  o.take = r->n->params[0];
  o.descending = true;
  o.want_indices = r->n->output_index != 0;
  if (fits_bitonic(&o) || o.take > MAX_TOPK)
    return sort(r, &o);
  int64_t parts = part_count(r, l->outer, l->length,
                             max_i64(MIN_TOPK_PART, 8 * o.take), INT32_MAX);
  int64_t items = 0;
  parts = ceil_div_i64(l->length, ceil_div_i64(l->length, parts));
  if (parts > 1)
    items =
        alloc_scratch(r, l->outer * parts * o.take * (o.wide_keys ? 16 : 8));
  put_topk_pass(r, &o, l->length, parts, items, true);
  if (parts > 1)
    put_topk_pass(r, &o, parts * o.take, 1, items, false);
  return true;
}

/* ---- permutation: argsort of random keys ---- */

/* items is NULL: lower halves of the random keys; otherwise upper halves in the
 * order of `items`. */
static const char random_items_source[] =
    "struct ax_random_items {\n"
    "uint64_t k0, k1;\nconst ax_item *items;\n"
    "__device__ void begin(int64_t) {}\n"
    "__device__ ax_item get(int64_t k) const {\n"
    "const int64_t place = items ? (uint32_t)items[k] : k;\n"
    "const uint64_t drawn = bits64(k0, k1, place);\n"
    "return (items ? drawn >> 32 : drawn) << 32 | (uint64_t)place;\n"
    "}\n};\n";

static const char *random_key_source(LibraryKernelWriter *r,
                                     const char *items) {
  r->pass->rng_key_index = r->pass->emitted.call.ints.len + 1;
  const char *first = int_param(r, 0), *second = int_param(r, 0);
  return arena_printf(r->arena,
                      "ax_random_items{(uint64_t)%s, (uint64_t)%s, %s}", first,
                      second, items ? items : "0");
}

static bool permutation(LibraryKernelWriter *r) {
  const int64_t n = r->n->params[0];
  SortSpec o = {.lines = {1, n, 1},
                .take = n,
                .want_indices = true,
                .key_bits = 64,
                .items_offset = -1,
                .put_key_source = random_key_source};
  if (r->n->free_count)
    return false;
  buffer_puts(&r->out->source, random_items_source);
  radix_sort(r, &o);
  return true;
}

/* ---- scatter ---- */

static const char *row_key_source(LibraryKernelWriter *r, const char *items) {
  (void)items; /* row keys have no upper halves */
  const Node *index = r->n->inputs[1];
  int64_t added = index->extents[index->free_count];
  int64_t rows = r->n->inputs[0]->extents[r->n->inputs[0]->free_count];
  int64_t count = 1;
  for (uint32_t k = 0; k <= index->free_count; k++)
    count *= index->extents[k];
  const char *length = int_param(r, added), *limit = int_param(r, rows);
  return arena_printf(r->arena, "ax_from_rows<%s>{%s, %s, %s, %s, %s}",
                      memory_type(index->dtype), input(r, 1), length, limit,
                      int_param(r, count), status_pointer(r));
}

static bool scatter(LibraryKernelWriter *r, const AxisLines *l) {
  const Node *index = r->n->inputs[1];
  int64_t rows = l->outer * l->length, n = l->outer, bits = 1;
  n *= index->extents[index->free_count];
  while ((int64_t)1 << bits < rows)
    bits++;
  SortSpec o = {.lines = {1, n, 1},
                .key_bits = (int)bits,
                .put_key_source = row_key_source};
  o.items_offset = alloc_scratch(r, n * 8);
  int64_t starts = alloc_scratch(r, (rows + 1) * (int64_t)sizeof(uint32_t));
  if (n)
    radix_sort(r, &o);
  begin_pass(r, "where rows begin", LIBRARY_BLOCK_THREADS,
             ceil_div_i64(rows + 1, LIBRARY_BLOCK_THREADS), 0);
  const char *items = scratch_pointer(r, "const ax_item", o.items_offset);
  const char *begins = scratch_pointer(r, "uint32_t", starts);
  const char *row_count = int_param(r, rows);
  buffer_printf(&r->body, "ax_row_starts<%d>(%s, %s, %s, %s);\n",
                LIBRARY_BLOCK_THREADS, items, begins, row_count,
                int_param(r, n));
  end_pass(r);
  int64_t lanes = 1, count = rows * l->inner;
  while (lanes < LIBRARY_BLOCK_THREADS / 2 &&
         lanes * SCATTER_THREAD_TERMS * rows < n)
    lanes *= 2;
  Dtype t = r->n->dtype;
  begin_pass(r, "rows added up", LIBRARY_BLOCK_THREADS,
             ceil_div_i64(count, LIBRARY_BLOCK_THREADS / lanes),
             lanes > 1 ? LIBRARY_BLOCK_THREADS * 8 : 0);
  items = scratch_pointer(r, "const ax_item", o.items_offset);
  begins = scratch_pointer(r, "const uint32_t", starts);
  const char *elements = int_param(r, count);
  buffer_printf(
      &r->body,
      "ax_add_rows<ax_of_%s, %d, %lld>(%s, %s, %s, %s, %s, %s, %s);\n",
      dtype_info[t].name, LIBRARY_BLOCK_THREADS, (long long)lanes, input(r, 0),
      input(r, 2), output(r), items, begins, elements, int_param(r, l->inner));
  end_pass(r);
  r->out->check_count = 1;
  return true;
}

/* ---- all operations ---- */

static bool put_library_kernel(LibraryKernelWriter *r, const AxisLines *l) {
  SortSpec o;
  switch ((int)r->n->op) { /* see node_opaque */
  case PRIM_SORT:
  case PRIM_ARGSORT:
    o = sort_spec(r, l);
    o.want_indices = r->n->op == PRIM_ARGSORT;
    return sort(r, &o);
  case PRIM_TOPK:
    return topk(r, l);
  case PRIM_PERMUTATION:
    return permutation(r);
  case PRIM_CUMSUM:
    return cumsum(r, l);
  case PRIM_SCATTER:
    return scatter(r, l);
  }
  return false;
}

/* Element indices are divided in 32 bits. */
static bool exceeds_int32(const Node *n) {
  bool large = node_element_count(n) >= INT32_MAX;
  for (uint32_t k = 0; k < n->input_count; k++)
    large |= node_element_count(n->inputs[k]) >= INT32_MAX;
  return large;
}

bool library_kernel_emit(const Node *n, const CudaTarget *target, Arena *arena,
                         CudaKernel *out) {
  *out = (CudaKernel){.source = {.arena = arena},
                      .pointer_count = n->input_count + 3};
  if (!library_op_exists(n) || n->guard || node_element_count(n) == 0 ||
      exceeds_int32(n))
    return false;
  LibraryKernelWriter r = {
      .arena = arena, .n = n, .target = target, .out = out};
  AxisLines l = library_op_lines(n);
  if (!put_library_kernel(&r, &l))
    return false;
  Buffer text = {.arena = arena};
  code_indent(out->source.text, &text);
  out->source = text;
  return true;
}

static void put_form(Buffer *b, const Node *n) {
  buffer_printf(b, "%d %u:", n->dtype, n->free_count);
  for (uint32_t k = 0; k < n->free_count + n->rank; k++)
    buffer_printf(b, " %lld", (long long)n->extents[k]);
  buffer_puts(b, ";");
}

ArtifactKey library_kernel_key(const Node *n) {
  Buffer b = {0};
  buffer_printf(&b, "%d %u %lld ", n->op, n->output_index,
                (long long)n->params[0]);
  put_form(&b, n);
  for (uint32_t k = 0; k < n->input_count; k++)
    put_form(&b, n->inputs[k]);
  ArtifactKey key = artifact_key(1, &(ArtifactPart){b.text, b.len});
  buffer_free(&b);
  return key;
}
