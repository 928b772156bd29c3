/* Thread-value layouts of MMA operands, ldmatrix, shared memory tiles, and
 * wgmma descriptors. */
#include "backend/cuda/layout.h"
#include "support/buffer.h"
#include "support/compiler.h"

#include <string.h>

enum {
  CORE_ROWS = 8,
  CORE_THREADS = 4,
  REGISTER_BYTES = 4,
  LDMATRIX_ROW_BYTES = 16
};

FragmentLayout fragment_layout_core(uint32_t elements) {
  Layout nothing = layout_mode(1, 0);
  return (FragmentLayout){
      .thread_row = layout_append(layout_mode(CORE_THREADS, 0), CORE_ROWS, 1),
      .thread_column =
          layout_append(layout_mode(CORE_THREADS, elements), CORE_ROWS, 0),
      .value_row = elements > 1 ? layout_mode(elements, 0) : nothing,
      .value_column = elements > 1 ? layout_mode(elements, 1) : nothing,
  };
}

uint32_t fragment_layout_rows(const FragmentLayout *h) {
  return (uint32_t)(layout_cosize(&h->thread_row) +
                    layout_cosize(&h->value_row) - 1);
}

uint32_t fragment_layout_columns(const FragmentLayout *h) {
  return (uint32_t)(layout_cosize(&h->thread_column) +
                    layout_cosize(&h->value_column) - 1);
}

FragmentLayout fragment_layout_repeat_values(FragmentLayout h, uint32_t down,
                                             uint32_t across) {
  uint32_t rows = fragment_layout_rows(&h),
           columns = fragment_layout_columns(&h);
  h.value_row =
      layout_append(layout_append(h.value_row, down, rows), across, 0);
  h.value_column =
      layout_append(layout_append(h.value_column, down, 0), across, columns);
  return h;
}

FragmentLayout fragment_layout_repeat_threads(FragmentLayout h, uint32_t down) {
  h.thread_row = layout_append(h.thread_row, down, fragment_layout_rows(&h));
  h.thread_column = layout_append(h.thread_column, down, 0);
  return h;
}

/* mma operands consist of core matrices: A has 2 x 2, B has 1 x 2 along k, and
 * C has 2 x 1 with 32-bit elements. */
FragmentLayout fragment_layout_mma_a(uint32_t bytes) {
  return fragment_layout_repeat_values(
      fragment_layout_core(REGISTER_BYTES / bytes), 2, 2);
}

FragmentLayout fragment_layout_mma_b(uint32_t bytes) {
  return fragment_layout_repeat_values(
      fragment_layout_core(REGISTER_BYTES / bytes), 1, 2);
}

FragmentLayout fragment_layout_mma_c(void) {
  return fragment_layout_repeat_values(fragment_layout_core(2), 2, 1);
}

/* Four warps with 16 rows each. */
FragmentLayout fragment_layout_wgmma_a(uint32_t bytes) {
  return fragment_layout_repeat_threads(fragment_layout_mma_a(bytes), 4);
}

FragmentLayout fragment_layout_wgmma_d(uint32_t columns) {
  return fragment_layout_repeat_threads(
      fragment_layout_repeat_values(fragment_layout_mma_c(), 1,
                                    columns / CORE_ROWS),
      4);
}

/* ---- ldmatrix ---- */

static bool compose_coords(const FragmentLayout *h, bool threads,
                           Layout swizzled, Layout *row, Layout *column) {
  Layout r, c;
  if (!layout_compose(threads ? &h->thread_row : &h->value_row, &swizzled,
                      &r) ||
      !layout_compose(threads ? &h->thread_column : &h->value_column, &swizzled,
                      &c))
    return false;
  *row = layout_concat(*row, r);
  *column = layout_concat(*column, c);
  return true;
}

/* Lane 8 j + r supplies the address of row r of matrix j, whose elements go to
 * register j.  Thread 4 r + i gets element i of row r; if transposed, the row
 * supplies element r % 2 of threads r / 2, r / 2 + 4, .... */
bool fragment_layout_ldmatrix(const FragmentLayout *h, uint32_t bytes,
                              bool transposed, Layout *row, Layout *column) {
  uint32_t each = REGISTER_BYTES / bytes;
  int64_t registers = layout_size(&h->value_row) / each;
  if (registers > WARP / CORE_ROWS || (transposed && each != 2))
    return false;
  *row = *column = layout_mode(1, 0);
  if (transposed &&
      (!compose_coords(h, false, layout_mode(2, 1), row, column) ||
       !compose_coords(h, true, layout_mode(4, 1), row, column)))
    return false;
  if (!transposed &&
      !compose_coords(h, true, layout_mode(CORE_ROWS, CORE_THREADS), row,
                      column))
    return false;
  return compose_coords(h, false, layout_mode(registers, each), row, column);
}

/* ---- shared memory tiles ---- */

int64_t smem_tile_offset(const SmemTile *t, int64_t row, int64_t column) {
  int64_t byte = column * t->element_bytes, inside = byte % t->panel_bytes;
  int64_t at = byte / t->panel_bytes * t->rows * t->panel_bytes +
               row * t->panel_bytes + inside;
  return swizzle_apply(t->swizzle, at);
}

int64_t smem_tile_bytes(const SmemTile *t) {
  int64_t row = (int64_t)t->columns * t->element_bytes;
  return (row + t->panel_bytes - 1) / t->panel_bytes * t->panel_bytes * t->rows;
}

/* The swizzle term depends only on the row.  The rest of the address is the
 * same for all columns. */
void smem_tile_print_offset(Buffer *out, const SmemTile *t, const char *row,
                            const char *column) {
  uint32_t each = t->panel_bytes / t->element_bytes;
  const Swizzle *s = &t->swizzle;
  uint32_t mask = ((1u << s->bits) - 1) << s->base;
  buffer_puts(out, "(");
  if (t->columns > each)
    buffer_printf(out, "%s / %uu * %uu + ", column, each,
                  t->rows * t->panel_bytes);
  buffer_printf(out, "%s * %uu + ", row, t->panel_bytes);
  buffer_printf(out, s->bits ? "((%s" : "(%s", column);
  if (t->columns > each)
    buffer_printf(out, " %% %uu", each);
  buffer_printf(out, " * %uu)", t->element_bytes);
  if (s->bits)
    buffer_printf(out, " ^ (%s * %uu >> %u & %uu))", row, t->panel_bytes,
                  s->shift, mask);
  buffer_puts(out, ")");
}

/* ---- swizzle selection ---- */

SmemAccess fragment_layout_access(const FragmentLayout *h, uint32_t bytes,
                                  bool transposed) {
  SmemAccess to = {.lane_bytes = LDMATRIX_ROW_BYTES};
  Layout row, column;
  if (!fragment_layout_ldmatrix(h, bytes, transposed, &row, &column)) {
    to.lane_bytes = bytes;
    row = h->thread_row;
    column = h->thread_column;
  }
  to.row = transposed ? column : row;
  to.column = transposed ? row : column;
  return to;
}

SmemAccess smem_tile_row_access(const SmemTile *t, uint32_t bytes) {
  uint32_t each = bytes / t->element_bytes, lanes_per_row = t->columns / each;
  if (lanes_per_row > WARP)
    lanes_per_row = WARP;
  return (SmemAccess){.row = layout_append(layout_mode(lanes_per_row, 0),
                                           WARP / lanes_per_row, 1),
                      .column = layout_append(layout_mode(lanes_per_row, each),
                                              WARP / lanes_per_row, 0),
                      .lane_bytes = bytes};
}

/* The offsets of the lanes without the swizzle; -1 for inactive lanes. */
static void unswizzled_offsets(const SmemTile *t, const SmemAccess *access,
                               int64_t at[WARP]) {
  SmemTile plain = *t;
  int64_t lanes = layout_size(&access->row);
  plain.swizzle = (Swizzle){0};
  for (int64_t l = 0; l < WARP; l++) {
    int64_t row = layout_at(&access->row, l);
    at[l] = l < lanes && row < t->rows
                ? smem_tile_offset(&plain, row, layout_at(&access->column, l))
                : -1;
  }
}

static uint32_t swizzled_wavefronts(Swizzle s, const int64_t at[WARP],
                                    uint32_t bytes) {
  int64_t swizzled[WARP];
  for (uint32_t l = 0; l < WARP; l++)
    swizzled[l] = at[l] < 0 ? -1 : swizzle_apply(s, at[l]);
  return layout_wavefronts(swizzled, bytes);
}

uint32_t smem_tile_wavefronts(const SmemTile *t, const SmemAccess *access) {
  int64_t at[WARP];
  unswizzled_offsets(t, access, at);
  return swizzled_wavefronts(t->swizzle, at, access->lane_bytes);
}

/* The swizzle must depend only on the row, and permute only within the panel
 * width. */
static bool is_swizzle_valid(const SmemTile *t, Swizzle s) {
  return t->panel_bytes <= 1u << (s.base + s.shift) &&
         t->panel_bytes >= 1u << (s.base + s.bits);
}

enum { MAX_SWIZZLE_BITS = 3, MAX_SWIZZLES = 40 };

/* No swizzle is first. */
static uint32_t valid_swizzles(const SmemTile *t, Swizzle out[MAX_SWIZZLES]) {
  static const uint8_t shifts[] = {3, 2, 4, 5, 6, 7}; /* TMA uses 3 */
  uint32_t count = 0;
  out[count++] = (Swizzle){0};
  for (uint32_t bits = 1; bits <= MAX_SWIZZLE_BITS; bits++)
    for (uint32_t base = 4; base <= 5; base++)
      for (size_t j = 0; j < ARRAY_LEN(shifts); j++) {
        Swizzle s = {bits, base, shifts[j]};
        if (is_swizzle_valid(t, s))
          out[count++] = s;
      }
  return count;
}

void smem_tile_choose_swizzle(SmemTile *t, uint32_t count,
                              const SmemAccess *accesses) {
  Swizzle swizzles[MAX_SWIZZLES];
  uint32_t cost[MAX_SWIZZLES] = {0}, best = 0;
  uint32_t swizzle_count = valid_swizzles(t, swizzles);
  for (uint32_t i = 0; i < count; i++) {
    int64_t at[WARP];
    unswizzled_offsets(t, &accesses[i], at);
    for (uint32_t j = 0; j < swizzle_count; j++)
      cost[j] += swizzled_wavefronts(swizzles[j], at, accesses[i].lane_bytes);
  }
  for (uint32_t j = 1; j < swizzle_count; j++)
    if (cost[j] < cost[best])
      best = j;
  t->swizzle = swizzles[best];
}

/* ---- wgmma descriptors ---- */

/* `stride_bytes` is the distance between groups of 8 rows; if transposed,
 * these are rows of k.  `leading_bytes` is the distance between panels. */
SmemDescriptor smem_tile_descriptor(const SmemTile *t, bool transposed) {
  SmemTile unswizzled = *t;
  unswizzled.swizzle = (Swizzle){0};
  SmemDescriptor m = {.swizzle = t->panel_bytes == 128  ? 1
                                 : t->panel_bytes == 64 ? 2
                                 : t->panel_bytes == 32 ? 3
                                                        : 0};
  uint32_t each = t->panel_bytes / t->element_bytes;
  uint32_t k = 32 / t->element_bytes; /* depth of one wgmma */
  m.stride_bytes = (uint32_t)smem_tile_offset(&unswizzled, CORE_ROWS, 0);
  m.leading_bytes =
      t->columns > each ? (uint32_t)smem_tile_offset(&unswizzled, 0, each) : 0;
  m.k_step_bytes = (uint32_t)(transposed ? smem_tile_offset(&unswizzled, k, 0)
                                         : smem_tile_offset(&unswizzled, 0, k));
  return m;
}
