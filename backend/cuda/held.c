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

static int64_t element_at(const SharedTile *t, bool turned, int64_t row,
                          int64_t column) {
  return turned ? shared_at(t, column, row) : shared_at(t, row, column);
}

/* Eight lanes at a time have a matrix read; or a thread reads the elements of
 * its registers one by one. */
uint32_t shared_load_cost(const SharedTile *t, const Held *h, bool turned) {
  Layout row, column;
  int64_t at[WARP];
  uint32_t cost = 0;
  int64_t values = layout_size(&h->value_row);
  if (held_addresses(h, t->bytes, turned, &row, &column)) {
    int64_t lanes = layout_size(&row);
    for (int64_t l = 0; l < WARP; l++)
      at[l] = l < lanes ? element_at(t, turned, layout_at(&row, l),
                                     layout_at(&column, l))
                        : -1;
    return layout_wavefronts(at, LINE);
  }
  for (int64_t v = 0; v < values; v++) {
    for (int64_t l = 0; l < WARP; l++)
      at[l] = element_at(
          t, turned, layout_at(&h->thread_row, l) + layout_at(&h->value_row, v),
          layout_at(&h->thread_column, l) + layout_at(&h->value_column, v));
    cost += layout_wavefronts(at, t->bytes);
  }
  return cost;
}

uint32_t shared_store_cost(const SharedTile *t, uint32_t store_bytes) {
  int64_t at[WARP];
  uint32_t each = store_bytes / t->bytes, across = t->columns / each;
  for (uint32_t l = 0; l < WARP; l++)
    at[l] = l / across < t->rows
                ? shared_at(t, l / across, (int64_t)(l % across) * each)
                : -1;
  return layout_wavefronts(at, store_bytes);
}

void shared_choose(SharedTile *t, const Held *h, bool turned,
                   uint32_t store_bytes) {
  uint32_t best = UINT32_MAX;
  SharedTile with = *t;
  for (uint32_t bits = 0; bits <= 3; bits++)
    for (uint32_t base = 4; base <= 5; base++)
      for (uint32_t shift = 3; shift >= 2; shift--) {
        with.swizzle = (Swizzle){bits, bits ? base : 0, bits ? shift : 0};
        if (bits &&
            (t->width > 1u << (base + shift) || t->width < 1u << (base + bits)))
          continue; /* it is the row that says how, and stays in its width */
        uint32_t cost = shared_load_cost(&with, h, turned) +
                        shared_store_cost(&with, store_bytes);
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
