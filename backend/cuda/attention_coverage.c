/* Which values the blocks of an attention kernel read. */
#include "backend/cuda/attention_analysis.h"

#include "support/arena.h"

#include <string.h>

enum { MAX_COVERAGE_TILES = 1 << 22 }; /* tiles of all blocks of a batch */

typedef struct RowRange {
  int64_t first, last;
} RowRange;

/* The range of each row axis over rows `of`, as put_row_ranges of
 * attention_pass.c computes it. */
static void axis_ranges(const AttentionPass *t, const LoopNest *loop,
                        RowRange of, RowRange at[MAX_KERNEL_AXES]) {
  for (uint32_t j = t->m_count; j-- > 0;) {
    int64_t extent = loop->extents[t->m[j]];
    RowRange outer = {of.first / extent, of.last / extent};
    bool one = outer.first == outer.last;
    at[t->m[j]] = j == 0 ? of
                  : one  ? (RowRange){of.first % extent, of.last % extent}
                         : (RowRange){0, extent - 1};
    of = outer;
  }
}

static int64_t floor_quotient(int64_t x, int64_t by) {
  return x / by - (x % by < 0);
}

/* The loosest bound of these rows: the first term, or the one after the
 * last. */
static int64_t bound_of_rows(const AttentionPass *t, const TrimBound *bound,
                             const RowRange at[MAX_KERNEL_AXES]) {
  int64_t of = bound->dividend.constant;
  for (uint32_t j = 0; j < t->m_count; j++) {
    int64_t times = bound->dividend.coef[t->m[j]];
    of += times * (bound->is_lower == (times > 0) ? at[t->m[j]].first
                                                  : at[t->m[j]].last);
  }
  int64_t quotient = floor_quotient(of, bound->divisor);
  return bound->is_lower ? quotient : quotient + 1;
}

/* Marks the tiles that the block of these rows reads.  False: it does not read
 * all of them. */
static bool mark_tiles(const AttentionPass *t, const LoopNest *loop,
                       RowRange rows, int64_t terms, char *read) {
  RowRange at[MAX_KERNEL_AXES];
  int64_t low = 0, high = terms, n = t->s.n;
  axis_ranges(t, loop, rows, at);
  for (uint32_t j = 0; j < t->trimmed->trim_bounds.len; j++) {
    const TrimBound *bound = &t->trimmed->trim_bounds.at[j];
    if (!(t->trim_bounds >> j & 1))
      continue;
    int64_t limit = bound_of_rows(t, bound, at);
    if (bound->is_lower && limit > low)
      low = limit < terms ? limit : terms;
    if (!bound->is_lower && limit < high)
      high = limit > 0 ? limit : 0;
  }
  for (int64_t j = low / n; j * n < high; j++)
    read[j] = 1;
  return low < n && high > (terms - 1) / n * n;
}

/* True if the bounds depend on nothing but the rows. */
static bool have_row_bounds(const AttentionPass *t, const Kernel *k) {
  uint64_t rows = 0;
  for (uint32_t j = 0; j < t->m_count; j++)
    rows |= (uint64_t)1 << t->m[j];
  for (uint32_t j = 0; j < t->trimmed->trim_bounds.len; j++) {
    const TrimBound *bound = &t->trimmed->trim_bounds.at[j];
    for (uint32_t v = 0; v < k->parallel_axes; v++)
      if (t->trim_bounds >> j & 1 && bound->dividend.coef[v] &&
          !(rows >> v & 1))
        return false;
    if (t->trim_bounds >> j & 1 && (bound->load || bound->divisor < 1))
      return false;
  }
  return true;
}

AttentionCoverage attention_coverage(const AttentionPass *t, const Kernel *k) {
  const LoopNest *loop = k->loops.at[0];
  int64_t rows = 1, terms = loop->extents[k->parallel_axes];
  if (k->graph->extent_table || !have_row_bounds(t, k))
    return COVERAGE_UNKNOWN;
  for (uint32_t j = 0; j < t->m_count; j++)
    rows *= loop->extents[t->m[j]];
  int64_t tiles = (terms + t->s.n - 1) / t->s.n, m = t->s.m;
  if (!rows || !terms || tiles > MAX_COVERAGE_TILES / ((rows + m - 1) / m))
    return COVERAGE_UNKNOWN;
  char *read = NEW_ARRAY(k->arena, char, (size_t)tiles);
  bool each = true;
  for (int64_t row = 0; row < rows; row += m) {
    RowRange of = {row, (row + m < rows ? row + m : rows) - 1};
    each &= mark_tiles(t, loop, of, terms, read);
  }
  return each                             ? COVERAGE_EACH_BLOCK
         : memchr(read, 0, (size_t)tiles) ? COVERAGE_UNKNOWN
                                          : COVERAGE_TOGETHER;
}
