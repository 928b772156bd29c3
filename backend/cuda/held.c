/* What instructions of the tensor cores hold and read, as layouts. */
#include "backend/cuda/layout.h"

#include <string.h>

enum { CORE_ROWS = 8, CORE_THREADS = 4, REGISTER_BYTES = 4, LINE = 16 };

Held held_core(uint32_t elements) {
  Layout nothing = layout_mode(1, 0);
  return (Held){
      .thread_row = layout_with(layout_mode(CORE_THREADS, 0), CORE_ROWS, 1),
      .thread_column =
          layout_with(layout_mode(CORE_THREADS, elements), CORE_ROWS, 0),
      .value_row = elements > 1 ? layout_mode(elements, 0) : nothing,
      .value_column = elements > 1 ? layout_mode(elements, 1) : nothing,
  };
}

uint32_t held_rows(const Held *h) {
  return (uint32_t)(layout_reach(&h->thread_row) + layout_reach(&h->value_row) -
                    1);
}

uint32_t held_columns(const Held *h) {
  return (uint32_t)(layout_reach(&h->thread_column) +
                    layout_reach(&h->value_column) - 1);
}

Held held_values(Held h, uint32_t down, uint32_t across) {
  uint32_t rows = held_rows(&h), columns = held_columns(&h);
  h.value_row = layout_with(layout_with(h.value_row, down, rows), across, 0);
  h.value_column =
      layout_with(layout_with(h.value_column, down, 0), across, columns);
  return h;
}

Held held_threads(Held h, uint32_t down) {
  h.thread_row = layout_with(h.thread_row, down, held_rows(&h));
  h.thread_column = layout_with(h.thread_column, down, 0);
  return h;
}

/* A is two cores by two, B two along k, and C one of sums in 32 bits below
 * another. */
Held held_mma_a(uint32_t bytes) {
  return held_values(held_core(REGISTER_BYTES / bytes), 2, 2);
}

Held held_mma_b(uint32_t bytes) {
  return held_values(held_core(REGISTER_BYTES / bytes), 1, 2);
}

Held held_mma_c(void) {
  return held_values(held_core(2), 2, 1);
}

/* Four warps, each of which does the same with its 16 rows. */
Held held_wgmma_a(uint32_t bytes) {
  return held_threads(held_mma_a(bytes), 4);
}

Held held_wgmma_d(uint32_t columns) {
  return held_threads(held_values(held_mma_c(), 1, columns / CORE_ROWS), 4);
}

/* ---- ldmatrix ---- */

static bool compose_both(const Held *h, bool threads, Layout with, Layout *row,
                         Layout *column) {
  Layout r, c;
  if (!layout_compose(threads ? &h->thread_row : &h->value_row, &with, &r) ||
      !layout_compose(threads ? &h->thread_column : &h->value_column, &with,
                      &c))
    return false;
  *row = layout_join(*row, r);
  *column = layout_join(*column, c);
  return true;
}

/* Lane 8 j + r is asked where row r of the j-th matrix begins, whose elements
 * go to register j: those of thread 4 r on, or, where it is turned, element
 * r % 2 of thread r / 2. */
bool held_addresses(const Held *h, uint32_t bytes, bool turned, Layout *row,
                    Layout *column) {
  uint32_t each = REGISTER_BYTES / bytes;
  int64_t registers = layout_size(&h->value_row) / each;
  if (registers > WARP / CORE_ROWS || (turned && each != 2))
    return false;
  *row = *column = layout_mode(1, 0);
  if (turned && (!compose_both(h, false, layout_mode(2, 1), row, column) ||
                 !compose_both(h, true, layout_mode(4, 1), row, column)))
    return false;
  if (!turned &&
      !compose_both(h, true, layout_mode(CORE_ROWS, CORE_THREADS), row, column))
    return false;
  return compose_both(h, false, layout_mode(registers, each), row, column);
}

/* ---- tiles in shared memory ---- */

int64_t shared_at(const SharedTile *t, int64_t row, int64_t column) {
  int64_t byte = column * t->bytes, inside = byte % t->width;
  int64_t at = byte / t->width * t->rows * t->width + row * t->width + inside;
  return swizzle_at(t->swizzle, at);
}

int64_t shared_bytes(const SharedTile *t) {
  int64_t row = (int64_t)t->columns * t->bytes;
  return (row + t->width - 1) / t->width * t->width * t->rows;
}

/* What changes places within a row is told by the row alone, so that most of
 * the address is the same for all columns. */
void shared_print(Buffer *out, const SharedTile *t, const char *row,
                  const char *column) {
  uint32_t each = t->width / t->bytes;
  const Swizzle *s = &t->swizzle;
  uint32_t mask = ((1u << s->bits) - 1) << s->base;
  buffer_puts(out, "(");
  if (t->columns > each)
    buffer_printf(out, "%s / %uu * %uu + ", column, each, t->rows * t->width);
  buffer_printf(out, "%s * %uu + ", row, t->width);
  buffer_printf(out, s->bits ? "((%s" : "(%s", column);
  if (t->columns > each)
    buffer_printf(out, " %% %uu", each);
  buffer_printf(out, " * %uu)", t->bytes);
  if (s->bits)
    buffer_printf(out, " ^ (%s * %uu >> %u & %uu))", row, t->width, s->shift,
                  mask);
  buffer_puts(out, ")");
}

/* ---- choosing a swizzle ---- */

SharedAccess held_access(const Held *h, uint32_t bytes, bool turned) {
  SharedAccess to = {.bytes = LINE};
  Layout row, column;
  if (!held_addresses(h, bytes, turned, &row, &column)) {
    to.bytes = bytes;
    row = h->thread_row;
    column = h->thread_column;
  }
  to.row = turned ? column : row;
  to.column = turned ? row : column;
  return to;
}

SharedAccess shared_rows(const SharedTile *t, uint32_t bytes) {
  uint32_t each = bytes / t->bytes, across = t->columns / each;
  if (across > WARP)
    across = WARP;
  return (SharedAccess){
      .row = layout_with(layout_mode(across, 0), WARP / across, 1),
      .column = layout_with(layout_mode(across, each), WARP / across, 0),
      .bytes = bytes};
}

uint32_t shared_cost(const SharedTile *t, const SharedAccess *access) {
  int64_t at[WARP], lanes = layout_size(&access->row);
  for (int64_t l = 0; l < WARP; l++) {
    int64_t row = layout_at(&access->row, l);
    at[l] = l < lanes && row < t->rows
                ? shared_at(t, row, layout_at(&access->column, l))
                : -1;
  }
  return layout_wavefronts(at, access->bytes);
}

/* It is the row that says how, and what changes places stays in its width. */
static bool may_swizzle(const SharedTile *t, Swizzle s) {
  return t->width <= 1u << (s.base + s.shift) &&
         t->width >= 1u << (s.base + s.bits);
}

void shared_choose(SharedTile *t, uint32_t count,
                   const SharedAccess *accesses) {
  static const uint8_t shifts[] = {3, 2, 4, 5, 6, 7}; /* TMA's is 3 */
  uint32_t best = UINT32_MAX;
  SharedTile with = *t;
  for (uint32_t bits = 0; bits <= 3; bits++)
    for (uint32_t base = 4; base <= 5; base++)
      for (size_t j = 0; j < ARRAY_LEN(shifts); j++) {
        uint32_t cost = 0;
        with.swizzle =
            bits ? (Swizzle){bits, base, shifts[j]} : (Swizzle){0, 0, 0};
        if (bits && !may_swizzle(t, with.swizzle))
          continue;
        for (uint32_t i = 0; i < count; i++)
          cost += shared_cost(&with, &accesses[i]);
        if (cost < best) {
          best = cost;
          t->swizzle = with.swizzle;
        }
      }
}

/* ---- what wgmma is told ---- */

/* Read off the tile: `stride` is from 8 rows to the next 8, or, of a tile that
 * is turned, from 8 rows of k; `leading` from one width of columns to the
 * next. */
SharedMatrix shared_matrix(const SharedTile *t, bool turned) {
  SharedTile plain = *t;
  plain.swizzle = (Swizzle){0};
  SharedMatrix m = {.swizzle = t->width == 128  ? 1
                               : t->width == 64 ? 2
                               : t->width == 32 ? 3
                                                : 0};
  uint32_t each = t->width / t->bytes;
  uint32_t k = 32 / t->bytes; /* of one product */
  m.stride = (uint32_t)shared_at(&plain, CORE_ROWS, 0);
  m.leading = t->columns > each ? (uint32_t)shared_at(&plain, 0, each) : 0;
  m.step =
      (uint32_t)(turned ? shared_at(&plain, k, 0) : shared_at(&plain, 0, k));
  return m;
}
