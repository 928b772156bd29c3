/* backend/cpu: what sums of products are written with, by products.c and
 * windows.c. */
#ifndef AXON_CPU_PRODUCTS_H
#define AXON_CPU_PRODUCTS_H

#include "backend/cpu/emit.h"
#include "backend/cpu/tiling.h"

enum { LDA_ROWS = BLOCK_K_MOST + 16, LDA_COLUMNS = BLOCK_M_MOST };

/* Where a tile's rows may be fewer, there are tiles of these parts of it. */
enum { PRODUCT_PARTS = 4 };
uint32_t product_part(const Tile *t, uint32_t part);

const char *product_type(Dtype t);
/* What the functions of a loop's tile are called. */
const char *product_id(Emitter *e, uint32_t loop);
/* Begins the loop of an operand: what does not change with its loops goes to
 * where it belongs.  Its value, as lanes. */
const char *product_begin(Emitter *e, const Loop *loop, uint32_t lane,
                          uint32_t loops, const uint32_t *order, Buffer *unit);
/* The blocks of for-loops from .. to - 1. */
void product_levels(Emitter *e, Buffer *out, uint32_t from, uint32_t to);
/* Where an operand begins that is used as it lies: `a` or `b`, and `lda` or
 * `ldb`, how far apart its rows, or terms, are. */
void product_plain(Emitter *e, const Tile *t, const Operand *o, uint32_t rows,
                   Buffer *unit, Buffer *out);
/* The left operand: `a`, and `lda` where it is used as it lies. */
void product_left(Emitter *e, const Tile *t, Buffer *unit, Buffer *body,
                  Buffer *inner);
/* Its rows x0 .. x1 - 1, terms k0 .. k1 - 1, copied. */
void product_copy_a(Emitter *e, const Tile *t, Buffer *unit, Buffer *out);
/* Terms from .. to - 1 of the columns n0 .. n1 - 1 of an operand, as panels of
 * b; its columns lie along the axis n. */
void product_copy_b(Emitter *e, const Tile *t, const Operand *o, uint32_t n,
                    uint32_t loop, Buffer *unit, Buffer *out);
/* Row x of it, and how far it is to the next one, as arguments of a tile. */
const char *product_rows(Emitter *e, const Tile *t);

/* ---- windows.c ---- */

/* A function that takes the tile of as many vectors as there are. */
void emit_window_tile(Emitter *e, const Tile *t, uint32_t loop, Buffer *out);
/* As emit_product, where the tile has a window. */
void emit_window(Emitter *e, Buffer *out, uint32_t loop, const Buffer *rest);

#endif
