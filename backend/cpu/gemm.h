/* backend/cpu: what sums of products are written with, by gemm.c and
 * conv_gemm.c.  Neither is known to gemm_pack.c. */
#ifndef AXON_CPU_GEMM_H
#define AXON_CPU_GEMM_H

#include "backend/cpu/gemm_tiling.h"
#include "backend/cpu/cpu_emitter.h"

enum { LDA_ROWS = MAX_KC + 16, LDA_COLUMNS = MAX_MC };

/* ---- gemm_pack.c: operands as they lie, or copied ---- */

/* Where a tile's rows may be fewer, there are tiles of these parts of it. */
enum { SHORT_TILE_STEPS = 4 };
uint32_t gemm_short_tile_rows(const GemmTiling *t, uint32_t part);

const char *gemm_element_type(Dtype t);
/* Of what the tile reads, which may lie in memory as it is. */
const char *gemm_load_type(const GemmTiling *t);
/* Declares a pointer to `elements` elements of scratch memory. */
void gemm_scratch_pointer(Emitter *e, const char *name, int64_t elements,
                          Dtype t, Buffer *out);
/* The summed axes, in order; how many. */
uint32_t gemm_reduction_axes(const LoopNest *loop, uint32_t *order);
/* for k in from .. to - 1, with the summed axes that it stands for: open and
 * close. */
void gemm_open_term_loops(Emitter *e, Buffer *out, const LoopNest *loop,
                          const char *from, const char *to);
void gemm_close_term_loops(Emitter *e, Buffer *out, const LoopNest *loop);
/* What the functions of a loop's tile are called. */
const char *gemm_suffix(Emitter *e, uint32_t loop);
/* Begins the loop of an operand: what does not change with its loops goes to
 * where it belongs.  Its value, as lanes. */
const char *gemm_begin_operand(Emitter *e, const LoopNest *loop,
                               uint32_t vector_axis, uint32_t loops,
                               const uint32_t *order, Buffer *task_code);
/* The blocks of for-loops from .. to - 1. */
void gemm_append_levels(Emitter *e, Buffer *out, uint32_t from, uint32_t to);
/* Where an operand begins that is used as it lies: `a` or `b`, and `lda` or
 * `ldb`, how far apart its rows, or terms, are. */
void gemm_unpacked_operand(Emitter *e, const GemmTiling *t, const Operand *o,
                           uint32_t rows, Buffer *task_code, Buffer *out);
/* The left operand: `a`, and `lda` where it is used as it lies. */
void gemm_left_operand(Emitter *e, const GemmTiling *t, Buffer *task_code,
                       Buffer *body, Buffer *inner);
/* Its rows x0 .. x1 - 1, terms k0 .. k1 - 1, copied. */
void gemm_pack_a(Emitter *e, const GemmTiling *t, Buffer *task_code,
                 Buffer *out);
/* Terms from .. to - 1 of the columns n0 .. n1 - 1 of an operand, as panels of
 * b; its columns lie along the axis n. */
void gemm_pack_b(Emitter *e, const GemmTiling *t, const Operand *o,
                 uint32_t n_axis, uint32_t loop, Buffer *task_code,
                 Buffer *out);
/* Row x of it, and how far it is to the next one, as arguments of a tile. */
const char *gemm_row_arguments(Emitter *e, const GemmTiling *t);

/* ---- conv_gemm.c ---- */

/* A function that takes the tile of as many vectors as there are. */
void emit_conv_tile_dispatch(Emitter *e, const GemmTiling *t, uint32_t loop,
                             Buffer *out);
/* As emit_gemm, where the tile has a window. */
void emit_conv_gemm(Emitter *e, Buffer *out, uint32_t loop,
                    const Buffer *epilogue);

#endif
