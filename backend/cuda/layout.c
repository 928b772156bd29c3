/* Layout algebra. */
#include "backend/cuda/layout.h"
#include "support/buffer.h"

#include <string.h>

Layout layout_mode(int64_t extent, int64_t stride) {
  Layout l = {.rank = 1};
  l.extent[0] = extent;
  l.stride[0] = stride;
  return l;
}

Layout layout_append(Layout l, int64_t extent, int64_t stride) {
  if (l.rank < LAYOUT_MAX_MODES) {
    l.extent[l.rank] = extent;
    l.stride[l.rank++] = stride;
  }
  return l;
}

Layout layout_concat(Layout l, Layout next) {
  for (uint32_t j = 0; j < next.rank; j++)
    l = layout_append(l, next.extent[j], next.stride[j]);
  return l;
}

int64_t layout_size(const Layout *l) {
  int64_t size = 1;
  for (uint32_t j = 0; j < l->rank; j++)
    size *= l->extent[j];
  return size;
}

int64_t layout_cosize(const Layout *l) {
  int64_t last = 0;
  for (uint32_t j = 0; j < l->rank; j++)
    last += (l->extent[j] - 1) * l->stride[j];
  return last + 1;
}

/* Indices past the end continue along the last mode. */
int64_t layout_at(const Layout *l, int64_t index) {
  int64_t at = 0;
  for (uint32_t j = 0; j < l->rank; j++) {
    bool last = j + 1 == l->rank;
    at += (last ? index : index % l->extent[j]) * l->stride[j];
    index /= l->extent[j];
  }
  return at;
}

Layout layout_coalesce(Layout l) {
  Layout to = {.rank = 0};
  for (uint32_t j = 0; j < l.rank; j++) {
    uint32_t last = to.rank - 1;
    if (l.extent[j] == 1)
      continue;
    if (to.rank && l.stride[j] == to.extent[last] * to.stride[last])
      to.extent[last] *= l.extent[j];
    else
      to = layout_append(to, l.extent[j], l.stride[j]);
  }
  return to.rank ? to : layout_mode(1, 0);
}

/* ---- composition ---- */

/* Composes one mode of b: `extent` indices of a with this stride. */
static bool compose_mode(const Layout *a, int64_t extent, int64_t stride,
                         Layout *out) {
  if (stride == 0 || extent == 1) {
    *out = layout_append(*out, extent, 0);
    return out->rank < LAYOUT_MAX_MODES;
  }
  for (uint32_t j = 0; j < a->rank && extent > 1; j++) {
    bool last = j + 1 == a->rank;
    int64_t mode_extent = a->extent[j];
    if (!last && stride >= mode_extent) {
      if (stride % mode_extent)
        return false;
      stride /= mode_extent;
      continue;
    }
    if (!last && mode_extent % stride)
      return false;
    int64_t used_extent = last ? extent : mode_extent / stride;
    if (used_extent > extent)
      used_extent = extent;
    if (extent % used_extent)
      return false;
    if (used_extent > 1)
      *out = layout_append(*out, used_extent, a->stride[j] * stride);
    extent /= used_extent;
    stride = 1;
  }
  return extent == 1 && out->rank < LAYOUT_MAX_MODES;
}

bool layout_compose(const Layout *a, const Layout *b, Layout *out) {
  Layout coalesced = layout_coalesce(*a), to = {.rank = 0};
  for (uint32_t j = 0; j < b->rank; j++)
    if (!compose_mode(&coalesced, b->extent[j], b->stride[j], &to))
      return false;
  *out = to.rank ? to : layout_mode(1, 0);
  return true;
}

/* ---- complement, division, product, inverse ---- */

/* Sorts the modes by stride.  Drops modes of extent 1. */
static Layout sort_modes(const Layout *l) {
  Layout to = {.rank = 0};
  for (uint32_t j = 0; j < l->rank; j++) {
    if (l->extent[j] == 1)
      continue;
    to = layout_append(to, l->extent[j], l->stride[j]);
    for (uint32_t i = to.rank - 1; i && to.stride[i - 1] > to.stride[i]; i--) {
      int64_t extent = to.extent[i], stride = to.stride[i];
      to.extent[i] = to.extent[i - 1];
      to.stride[i] = to.stride[i - 1];
      to.extent[i - 1] = extent;
      to.stride[i - 1] = stride;
    }
  }
  return to;
}

bool layout_complement(const Layout *l, int64_t size, Layout *out) {
  Layout modes = sort_modes(l), to = {.rank = 0};
  int64_t cosize = 1;
  for (uint32_t j = 0; j < modes.rank; j++) {
    if (modes.stride[j] == 0 || modes.stride[j] % cosize)
      return false;
    to = layout_append(to, modes.stride[j] / cosize, cosize);
    cosize = modes.extent[j] * modes.stride[j];
  }
  to = layout_append(to, (size + cosize - 1) / cosize, cosize);
  *out = layout_coalesce(to);
  return true;
}

bool layout_divide(const Layout *l, const Layout *tile, Layout *inside,
                   Layout *tiles) {
  Layout rest;
  return layout_complement(tile, layout_size(l), &rest) &&
         layout_compose(l, tile, inside) && layout_compose(l, &rest, tiles);
}

bool layout_product(const Layout *l, const Layout *repeats, Layout *out) {
  Layout rest, more;
  if (!layout_complement(l, layout_size(l) * layout_cosize(repeats), &rest) ||
      !layout_compose(&rest, repeats, &more) ||
      l->rank + more.rank > LAYOUT_MAX_MODES)
    return false;
  *out = layout_concat(*l, more);
  return true;
}

bool layout_inverse(const Layout *l, Layout *out) {
  Layout modes = sort_modes(l), to = {.rank = 0};
  int64_t cosize = 1;
  for (uint32_t j = 0; j < modes.rank; j++) {
    if (modes.stride[j] != cosize)
      return false;
    int64_t index_stride = 1;
    for (uint32_t i = 0; l->stride[i] != cosize || l->extent[i] == 1; i++)
      index_stride *= l->extent[i];
    to = layout_append(to, modes.extent[j], index_stride);
    cosize *= modes.extent[j];
  }
  *out = layout_coalesce(to);
  return true;
}

bool layout_equal(const Layout *a, const Layout *b) {
  Layout x = layout_coalesce(*a), y = layout_coalesce(*b);
  if (x.rank != y.rank)
    return false;
  for (uint32_t j = 0; j < x.rank; j++)
    if (x.extent[j] != y.extent[j] || x.stride[j] != y.stride[j])
      return false;
  return true;
}

void layout_print(Buffer *out, const Layout *l, const char *index) {
  Layout s = layout_coalesce(*l);
  int64_t index_stride = 1;
  bool any = false;
  buffer_putc(out, '(');
  for (uint32_t j = 0; j < s.rank; j++) {
    if (s.stride[j]) {
      buffer_puts(out, any ? " + " : "");
      buffer_puts(out, index);
      if (index_stride > 1)
        buffer_printf(out, " / %lldu", (long long)index_stride);
      if (j + 1 < s.rank)
        buffer_printf(out, " %% %lldu", (long long)s.extent[j]);
      if (s.stride[j] > 1)
        buffer_printf(out, " * %lldu", (long long)s.stride[j]);
      any = true;
    }
    index_stride *= s.extent[j];
  }
  buffer_puts(out, any ? ")" : "0u)");
}

/* ---- swizzles and bank conflicts ---- */

int64_t swizzle_apply(Swizzle s, int64_t x) {
  int64_t mask = (((int64_t)1 << s.bits) - 1) << s.base;
  return x ^ (x >> s.shift & mask);
}

/* Accesses to different words of one bank are serialized; accesses to the same
 * word are one.  Accesses of 8 bytes run per half-warp, of 16 bytes per
 * quarter-warp.  Their words are in as many adjacent banks, which count as
 * one. */
uint32_t layout_wavefronts(const int64_t at[WARP], uint32_t bytes) {
  uint32_t unit = bytes > BANK_BYTES ? bytes : BANK_BYTES;
  uint32_t banks = BANKS * BANK_BYTES / unit;
  uint32_t lanes_per_phase = WARP * BANK_BYTES / unit, total = 0;
  for (uint32_t from = 0; from < WARP; from += lanes_per_phase) {
    uint32_t bank_units[BANKS][WARP];
    uint32_t count[BANKS] = {0}, max = 0;
    for (uint32_t t = from; t < from + lanes_per_phase; t++) {
      if (at[t] < 0)
        continue;
      uint32_t number = (uint32_t)at[t] / unit, bank = number % banks, i = 0;
      while (i < count[bank] && bank_units[bank][i] != number)
        i++;
      if (i == count[bank])
        bank_units[bank][count[bank]++] = number;
      max = count[bank] > max ? count[bank] : max;
    }
    total += max;
  }
  return total;
}
