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

enum { LAYOUT_MODES = 16 };

typedef struct Layout {
  uint32_t rank;
  int64_t extent[LAYOUT_MODES], stride[LAYOUT_MODES];
} Layout;

/* Of one mode; more are put behind it, as long as there is room for them. */
Layout layout_mode(int64_t extent, int64_t stride);
Layout layout_with(Layout l, int64_t extent, int64_t stride);
Layout layout_join(Layout l, Layout behind);
int64_t layout_size(const Layout *l);
/* One more than the largest number that it gives. */
int64_t layout_reach(const Layout *l);
int64_t layout_at(const Layout *l, int64_t index);

/* The same function, of as few modes as there can be. */
Layout layout_simple(Layout l);
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
int64_t swizzle_at(Swizzle s, int64_t x);

/* ---- shared memory ---- */

enum { BANKS = 32, BANK_BYTES = 4, WARP = 32 };

/* How many times the banks are gone through while a warp's threads access so
 * many bytes each, at these addresses; those below 0 do not. */
uint32_t layout_wavefronts(const int64_t at[WARP], uint32_t bytes);

/* ---- instructions ---- */

/* What threads hold of a matrix: value v of thread t is the element at row
 * thread_row(t) + value_row(v), and column likewise. */
typedef struct Held {
  Layout thread_row, thread_column, value_row, value_column;
} Held;

/* 8 rows of 4 threads that hold so many elements next to each other: of which
 * all operands of the tensor cores are made. */
Held held_core(uint32_t elements);
/* Again and again: as further values, down and then across; as further
 * threads, down. */
Held held_values(Held h, uint32_t down, uint32_t across);
Held held_threads(Held h, uint32_t down);
uint32_t held_rows(const Held *h);
uint32_t held_columns(const Held *h);

/* mma's operands, of elements of so many bytes (b's rows are the columns of
 * the product), and wgmma's. */
Held held_mma_a(uint32_t bytes);
Held held_mma_b(uint32_t bytes);
Held held_mma_c(void);
Held held_wgmma_a(uint32_t bytes);
Held held_wgmma_d(uint32_t columns);

/* The element of the operand that each lane gives the address of, for ldmatrix
 * to load all of it.  turned: memory has the columns one after the other, and
 * the 8 elements are in one column.  False: it cannot load it. */
bool held_addresses(const Held *h, uint32_t bytes, bool turned, Layout *row,
                    Layout *column);

/* ---- tiles in shared memory ---- */

/* rows x columns of elements of so many bytes.  Of a row so many bytes lie
 * together, then come those of the next row; further columns follow behind the
 * last row. */
typedef struct SharedTile {
  uint32_t rows, columns, bytes;
  uint32_t width; /* a power of two */
  Swizzle swizzle;
} SharedTile;

/* Bytes from where it begins; that is a multiple of 1024. */
int64_t shared_at(const SharedTile *t, int64_t row, int64_t column);
int64_t shared_bytes(const SharedTile *t);
/* The same as C text, of unsigned expressions. */
void shared_print(Buffer *out, const SharedTile *t, const char *row,
                  const char *column);
/* One access of a warp: lane l's so many bytes begin at row(l), column(l). */
typedef struct SharedAccess {
  Layout row, column;
  uint32_t bytes;
} SharedAccess;

/* A load of h, by ldmatrix or else of each thread's first element.  turned:
 * rows of the tile are columns of h. */
SharedAccess held_access(const Held *h, uint32_t bytes, bool turned);
/* A store (or load) of elements that lie one behind the other, of so many bytes
 * a lane. */
SharedAccess shared_rows(const SharedTile *t, uint32_t bytes);
/* Its wavefronts. */
uint32_t shared_cost(const SharedTile *t, const SharedAccess *access);
/* Gives the tile the swizzle with which these wait least for banks. */
void shared_choose(SharedTile *t, uint32_t count, const SharedAccess *accesses);

/* How wgmma is told of a tile: what its descriptor says. */
typedef struct SharedMatrix {
  uint32_t swizzle;         /* 0 none, 1 of 128 bytes, 2 of 64, 3 of 32 */
  uint32_t leading, stride; /* bytes */
  uint32_t step;            /* bytes from one product's k to the next one's */
} SharedMatrix;
/* turned: rows of the tile are k. */
SharedMatrix shared_matrix(const SharedTile *t, bool turned);

#endif
