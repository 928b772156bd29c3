/* backend/cuda: layout algebra.
 *
 * A layout maps indices to offsets.  It has modes, each with an extent and a
 * stride.  The first mode varies fastest, and the offsets of all modes are
 * added.  Layouts describe tiles in memory, the fragments of threads, and the
 * addresses of lanes.  New layouts come from composition, division, product and
 * inverse.  So no instruction needs a hand-written address table.
 *
 * The algebra is that of CuTe (CUTLASS documentation).  Constraints between
 * layouts: Hexcute, arXiv:2504.16214.
 *
 * Layouts are plain values. */
#ifndef AXON_CUDA_LAYOUT_H
#define AXON_CUDA_LAYOUT_H

#include "backend/cuda/threads.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct Buffer Buffer;

enum { LAYOUT_MAX_MODES = 16 };

typedef struct Layout {
  uint32_t rank;
  int64_t extent[LAYOUT_MAX_MODES], stride[LAYOUT_MAX_MODES];
} Layout;

/* A layout of one mode.  layout_append and layout_concat add slower modes; at
 * most LAYOUT_MAX_MODES in total. */
Layout layout_mode(int64_t extent, int64_t stride);
Layout layout_append(Layout l, int64_t extent, int64_t stride);
Layout layout_concat(Layout l, Layout next);
int64_t layout_size(const Layout *l);
/* The largest offset, plus one. */
int64_t layout_cosize(const Layout *l);
int64_t layout_at(const Layout *l, int64_t index);

/* The same function with as few modes as possible. */
Layout layout_coalesce(Layout l);
/* The composition a(b(index)).  False if the extents do not divide each
 * other. */
bool layout_compose(const Layout *a, const Layout *b, Layout *out);
/* The layout of the offsets below `size` that l does not reach: l and its
 * complement together reach each offset once.  False if none exists. */
bool layout_complement(const Layout *l, int64_t size, Layout *out);
/* Divides l into tiles: `inside` iterates within a tile, `tiles` over the
 * tiles. */
bool layout_divide(const Layout *l, const Layout *tile, Layout *inside,
                   Layout *tiles);
/* Repeats l in offsets of its complement, in the order of `of`. */
bool layout_product(const Layout *l, const Layout *of, Layout *out);
/* The inverse of a bijective layout. */
bool layout_inverse(const Layout *l, Layout *out);
bool layout_equal(const Layout *a, const Layout *b); /* equal as functions */
/* Writes the offset of an index as C.  index: an expression without
 * operators. */
void layout_print(Buffer *out, const Layout *l, const char *index);

/* ---- swizzles ---- */

/* XORs the `bits` bits of a number from bit base + shift on into the bits from
 * base on. */
typedef struct Swizzle {
  uint32_t bits, base, shift;
} Swizzle;
int64_t swizzle_apply(Swizzle s, int64_t x);

/* ---- shared memory ---- */

enum { BANKS = 32, BANK_BYTES = 4 };

/* Wavefronts (serialized shared memory accesses) of one warp that accesses
 * `bytes` bytes per lane at these addresses, which are multiples of `bytes`.
 * Lanes with negative addresses are inactive. */
uint32_t layout_wavefronts(const int64_t at[WARP], uint32_t bytes);

/* ---- instructions ---- */

/* The fragments of threads: value v of thread t is the matrix element at row
 * thread_row(t) + value_row(v) and column thread_column(t) +
 * value_column(v). */
typedef struct FragmentLayout {
  Layout thread_row, thread_column, value_row, value_column;
} FragmentLayout;

/* The 8 x 4 core of all tensor core fragments: 8 rows of 4 threads, each with
 * `elements` adjacent elements. */
FragmentLayout fragment_layout_core(uint32_t elements);
/* Repeats a fragment: as more values, down first; as more threads, down. */
FragmentLayout fragment_layout_repeat_values(FragmentLayout h, uint32_t down,
                                             uint32_t across);
FragmentLayout fragment_layout_repeat_threads(FragmentLayout h, uint32_t down);
uint32_t fragment_layout_rows(const FragmentLayout *h);
uint32_t fragment_layout_columns(const FragmentLayout *h);

/* The operand fragments of mma and wgmma, for elements of `bytes` bytes.  The
 * rows of operand b are columns of the result. */
FragmentLayout fragment_layout_mma_a(uint32_t bytes);
FragmentLayout fragment_layout_mma_b(uint32_t bytes);
FragmentLayout fragment_layout_mma_c(void);
FragmentLayout fragment_layout_wgmma_a(uint32_t bytes);
FragmentLayout fragment_layout_wgmma_d(uint32_t columns);

/* The element that each lane addresses in an ldmatrix that loads the whole
 * fragment.  transposed: memory is column-major, and the 8 elements of a row of
 * ldmatrix are in one column.  False if ldmatrix cannot load it. */
bool fragment_layout_ldmatrix(const FragmentLayout *h, uint32_t bytes,
                              bool transposed, Layout *row, Layout *column);

/* ---- tiles in shared memory ---- */

/* A tile of rows x columns.  It consists of panels: panel_bytes of each row are
 * contiguous, and the rows of a panel follow each other.  Further columns are
 * in the next panel. */
typedef struct SmemTile {
  uint32_t rows, columns, element_bytes;
  uint32_t panel_bytes; /* a power of two */
  Swizzle swizzle;
} SmemTile;

/* The offset of an element, bytes.  The tile itself must be 1024-byte
 * aligned. */
int64_t smem_tile_offset(const SmemTile *t, int64_t row, int64_t column);
int64_t smem_tile_bytes(const SmemTile *t);
/* Writes the offset as C, from unsigned expressions. */
void smem_tile_print_offset(Buffer *out, const SmemTile *t, const char *row,
                            const char *column);
/* One access of a warp: lane l accesses lane_bytes bytes at row(l),
 * column(l). */
typedef struct SmemAccess {
  Layout row, column;
  uint32_t lane_bytes;
} SmemAccess;

/* The loads of fragment h: by ldmatrix, or else the first element of each
 * thread.  transposed: rows of the tile are columns of h. */
SmemAccess fragment_layout_access(const FragmentLayout *h, uint32_t bytes,
                                  bool transposed);
/* An access to contiguous elements, `bytes` bytes per lane. */
SmemAccess smem_tile_row_access(const SmemTile *t, uint32_t bytes);
uint32_t smem_tile_wavefronts(const SmemTile *t, const SmemAccess *access);
/* Chooses the swizzle with the fewest bank conflicts for these accesses. */
void smem_tile_choose_swizzle(SmemTile *t, uint32_t count,
                              const SmemAccess *accesses);

/* The fields of a wgmma shared memory descriptor. */
typedef struct SmemDescriptor {
  uint32_t swizzle; /* 0: none, 1: 128 bytes, 2: 64 bytes, 3: 32 bytes */
  uint32_t leading_bytes, stride_bytes;
  uint32_t k_step_bytes; /* offset between consecutive wgmmas along k */
} SmemDescriptor;
/* transposed: rows of the tile are k. */
SmemDescriptor smem_tile_descriptor(const SmemTile *t, bool transposed);

#endif
