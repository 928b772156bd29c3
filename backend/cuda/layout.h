/* backend/cuda: where things lie, as functions that can be computed with.
 *
 * A layout takes numbers to numbers: its modes, of an extent and a stride each,
 * count with the first one the fastest, and what they come to is added up.
 * Elements of a tile in memory, what a thread holds of an operand, what a lane
 * gives the address of, are layouts; and one is made of others by composition,
 * division by a tile, product and inverse, so that no table says which address
 * an instruction of a thread wants.  (The algebra is that of CUTLASS's
 * documentation of CuTe; constraints between layouts, Hexcute's,
 * arXiv:2504.16214.)
 *
 * Layouts are values: nothing is owned. */
#ifndef AXON_CUDA_LAYOUT_H
#define AXON_CUDA_LAYOUT_H

#include "support/support.h"

enum { LAYOUT_MAX_MODES = 16 };

typedef struct Layout {
  uint32_t rank;
  int64_t extent[LAYOUT_MAX_MODES], stride[LAYOUT_MAX_MODES];
} Layout;

/* Of one mode; more are put behind it, as long as there is room for them. */
Layout layout_mode(int64_t extent, int64_t stride);
Layout layout_append(Layout l, int64_t extent, int64_t stride);
Layout layout_concat(Layout l, Layout next);
int64_t layout_size(const Layout *l);
/* One more than the largest number that it gives. */
int64_t layout_cosize(const Layout *l);
int64_t layout_at(const Layout *l, int64_t index);

/* The same function, of as few modes as there can be. */
Layout layout_coalesce(Layout l);
/* a after b.  False: it is none, their extents do not divide each other. */
bool layout_compose(const Layout *a, const Layout *b, Layout *out);
/* What has the numbers below `size` that l leaves out: l and it together give
 * each of them once.  False: it is none. */
bool layout_complement(const Layout *l, int64_t size, Layout *out);
/* l cut into tiles: the first modes walk over one, the others over the tiles.
 */
bool layout_divide(const Layout *l, const Layout *tile, Layout *inside,
                   Layout *tiles);
/* l again and again, in places that it leaves out, as `of` counts them. */
bool layout_product(const Layout *l, const Layout *of, Layout *out);
/* Of a layout that gives each number below its size once. */
bool layout_inverse(const Layout *l, Layout *out);
bool layout_equal(const Layout *a, const Layout *b); /* as functions */
/* C text of what it gives for the index, an expression without operators. */
void layout_print(Buffer *out, const Layout *l, const char *index);

/* ---- swizzles ---- */

/* `bits` bits of a number, those from base + shift on, are added without carry
 * to those from base on. */
typedef struct Swizzle {
  uint32_t bits, base, shift;
} Swizzle;
int64_t swizzle_apply(Swizzle s, int64_t x);

/* ---- shared memory ---- */

enum { BANKS = 32, BANK_BYTES = 4, WARP = 32 };

/* How many times the banks are gone through while a warp's threads access so
 * many bytes each, at these addresses; those below 0 do not. */
uint32_t layout_wavefronts(const int64_t at[WARP], uint32_t bytes);

/* ---- instructions ---- */

/* What threads hold of a matrix: value v of thread t is the element at row
 * thread_row(t) + value_row(v), and column likewise. */
typedef struct FragmentLayout {
  Layout thread_row, thread_column, value_row, value_column;
} FragmentLayout;

/* 8 rows of 4 threads that hold so many elements next to each other: of which
 * all operands of the tensor cores are made. */
FragmentLayout fragment_layout_core(uint32_t elements);
/* Again and again: as further values, down and then across; as further
 * threads, down. */
FragmentLayout fragment_layout_repeat_values(FragmentLayout h, uint32_t down,
                                             uint32_t across);
FragmentLayout fragment_layout_repeat_threads(FragmentLayout h, uint32_t down);
uint32_t fragment_layout_rows(const FragmentLayout *h);
uint32_t fragment_layout_columns(const FragmentLayout *h);

/* mma's operands, of elements of so many bytes (b's rows are the columns of
 * the product), and wgmma's. */
FragmentLayout fragment_layout_mma_a(uint32_t bytes);
FragmentLayout fragment_layout_mma_b(uint32_t bytes);
FragmentLayout fragment_layout_mma_c(void);
FragmentLayout fragment_layout_wgmma_a(uint32_t bytes);
FragmentLayout fragment_layout_wgmma_d(uint32_t columns);

/* The element of the operand that each lane gives the address of, for ldmatrix
 * to load all of it.  turned: memory has the columns one after the other, and
 * the 8 elements are in one column.  False: it cannot load it. */
bool fragment_layout_ldmatrix(const FragmentLayout *h, uint32_t bytes,
                              bool transposed, Layout *row, Layout *column);

/* ---- tiles in shared memory ---- */

/* rows x columns of elements of so many bytes.  Of a row so many bytes lie
 * together, then come those of the next row; further columns follow behind the
 * last row. */
typedef struct SmemTile {
  uint32_t rows, columns, element_bytes;
  uint32_t panel_bytes; /* a power of two */
  Swizzle swizzle;
} SmemTile;

/* Bytes from where it begins; that is a multiple of 1024. */
int64_t smem_tile_offset(const SmemTile *t, int64_t row, int64_t column);
int64_t smem_tile_bytes(const SmemTile *t);
/* The same as C text, of unsigned expressions. */
void smem_tile_print_offset(Buffer *out, const SmemTile *t, const char *row,
                            const char *column);
/* One access of a warp: lane l's so many bytes begin at row(l), column(l). */
typedef struct SmemAccess {
  Layout row, column;
  uint32_t lane_bytes;
} SmemAccess;

/* A load of h, by ldmatrix or else of each thread's first element.  turned:
 * rows of the tile are columns of h. */
SmemAccess fragment_layout_access(const FragmentLayout *h, uint32_t bytes,
                                  bool transposed);
/* A store (or load) of elements that lie one behind the other, of so many bytes
 * a lane. */
SmemAccess smem_tile_row_access(const SmemTile *t, uint32_t bytes);
/* Its wavefronts. */
uint32_t smem_tile_wavefronts(const SmemTile *t, const SmemAccess *access);
/* Gives the tile the swizzle with which these wait least for banks. */
void smem_tile_choose_swizzle(SmemTile *t, uint32_t count,
                              const SmemAccess *accesses);

/* How wgmma is told of a tile: what its descriptor says. */
typedef struct SmemDescriptor {
  uint32_t swizzle; /* 0 none, 1 of 128 bytes, 2 of 64, 3 of 32 */
  uint32_t leading_bytes, stride_bytes; /* bytes */
  uint32_t k_step_bytes; /* bytes from one product's k to the next one's */
} SmemDescriptor;
/* turned: rows of the tile are k. */
SmemDescriptor smem_tile_descriptor(const SmemTile *t, bool transposed);

#endif
