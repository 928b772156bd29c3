/* backend/cpu: interface between gemm.c, conv_gemm.c and gemm_pack.c. */
#ifndef AXON_CPU_GEMM_H
#define AXON_CPU_GEMM_H

#include "backend/cpu/gemm_tiling.h"
#include "backend/cpu/cpu_emitter.h"

enum { LDA_ROWS = MAX_KC + 16, LDA_COLUMNS = MAX_MC };

/* ---- gemm_pack.c: operands, packed or read in place ---- */

/* Shorter tiles have multiples of mr / SHORT_TILE_STEPS rows. */
enum { SHORT_TILE_STEPS = 4 };
uint32_t gemm_short_tile_rows(const GemmTiling *t, uint32_t part);

/* C type of the elements that a tile loads. */
const char *gemm_load_type(const GemmTiling *t);
/* Declares a pointer to `elements` elements of scratch memory. */
void gemm_scratch_pointer(Emitter *e, const char *name, int64_t elements,
                          Dtype t, Buffer *out);
/* Suffix of the names of the functions of a loop. */
const char *gemm_suffix(Emitter *e, uint32_t loop);
/* Declares the pointer `a` or `b` of an operand that is read in place, and
 * `lda` or `ldb`, the stride of its rows or terms. */
void gemm_unpacked_operand(Emitter *e, const GemmTiling *t, const Operand *o,
                           uint32_t rows, Buffer *task_code, Buffer *out);
/* Declares `a`, and `lda` if it is read in place. */
void gemm_left_operand(Emitter *e, const GemmTiling *t, Buffer *task_code,
                       Buffer *body, Buffer *inner);
/* Packs rows x0 .. x1 - 1 and terms k0 .. k1 - 1 of a. */
void gemm_pack_a(Emitter *e, const GemmTiling *t, Buffer *task_code,
                 Buffer *out);
/* Packs terms from .. to - 1 of the columns n0 .. n1 - 1 of an operand into
 * panels; n_axis is the axis of its columns. */
void gemm_pack_b(Emitter *e, const GemmTiling *t, const Operand *o,
                 uint32_t n_axis, Buffer *task_code, Buffer *out);
struct OperandCopy;
/* Emits a nest that copies a part of an operand. */
void gemm_emit_copy(Emitter *e, const struct Nest *n,
                    const struct OperandCopy *c, Buffer *out);
/* Tests all elements of b: sets `odds` in lanes with inf or NaN. */
void gemm_test_b(Emitter *e, const GemmTiling *t, Buffer *task_code,
                 Buffer *out);
/* The address of row x of a and its row stride, as arguments of a tile.  Packed
 * rows begin with row `first`. */
const char *gemm_row_arguments(Emitter *e, const GemmTiling *t,
                               const char *first);

/* ---- gemm.c, quick_tile.c: register tiles ---- */

/* A register tile, or a variant for an edge. */
typedef struct TileVariant {
  uint32_t mr, nr_vectors;
  bool prefetches; /* prefetches the next panel: for each term, `each` elements
                      of W rows; for grouped terms, one contiguous piece */
  bool is_partial; /* only `columns` columns of b exist */
  uint32_t
      border_tile; /* 1 + index of the border tile that skips rows; 0: none */
} TileVariant;

/* The tile of the last panel. */
TileVariant gemm_last_panel_tile(const GemmTiling *t);
/* The types and names, or only the names, of the parameters that say which
 * terms a tile has. */
const char *gemm_tile_sizes(const GemmTiling *t, bool typed);
/* Opens the loops over terms in groups, of which each iteration takes `step`
 * terms: two blocks. */
void gemm_open_term_groups(const GemmTiling *t, uint32_t step, Buffer *out);
/* True if a quick compilation has one function with loops for all tiles. */
bool quick_tile_applies(const GemmTiling *t);
/* Emits this function. */
void emit_quick_tile(Emitter *e, const GemmTiling *t, uint32_t loop,
                     Buffer *out);
/* True if a tile is a macro instead of a function, which saves 2% of a quick
 * compilation for each tile.  Border tiles are chosen by address. */
bool quick_tile_is_macro(const GemmTiling *t, const TileVariant *variant);
/* Emits the call that computes a tile: the body of its function, or the
 * replacement list of its macro. */
void emit_quick_tile_call(Emitter *e, const GemmTiling *t, uint32_t loop,
                          const TileVariant *variant, Buffer *out);

/* ---- conv_gemm.c ---- */

/* A function that calls the tile for a given number of vectors. */
void emit_conv_tile_dispatch(Emitter *e, const GemmTiling *t, uint32_t loop,
                             Buffer *out);
/* Like emit_gemm, for a matmul with a convolution window. */
void emit_conv_gemm(Emitter *e, Buffer *out, uint32_t loop,
                    const Buffer *epilogue);

#endif
