/* backend/cpu: sums of products as tiles that lie in registers. */
#ifndef AXON_CPU_TILING_H
#define AXON_CPU_TILING_H

#include "backend/cpu/cpu.h"

enum {
  BLOCK_K_MOST = 256, /* terms of a pass, so that a panel stays in cache */
  BLOCK_M_MOST = 96,  /* rows that are copied at a time */
};

typedef enum OperandForm {
  OPERAND_ROWS,    /* a: row m by row, k next to each other, LDA apart */
  OPERAND_COLUMNS, /* a: k by k, m next to each other, MC apart */
  OPERAND_PANELS,  /* b: panels of NR, k by k */
  OPERAND_TURNED,  /* the same, from values that lie along k */
  OPERAND_DIRECT,  /* b: local values as they are, a block apart */
} OperandForm;

typedef struct Operand {
  Loop *loop; /* its one result is the product of the operand's factors */
  OperandForm form;
} Operand;

/* result[others, m, n] = sum over k of a[others, m, k] * b[others, k, n] */
typedef struct Tile {
  bool on; /* this loop of the kernel is a product */
  uint32_t m, n;
  Operand a, b;
  uint32_t rows, vectors; /* of the tile */
  int64_t depth;          /* of the sum */
  int64_t block_k, block_m, block_n;
  Dtype dtype;
} Tile;

typedef struct Tiling {
  Tile of[KERNEL_LOOPS];
} Tiling;

/* Finds the kernel's products and a schedule that suits all of them; false:
 * there are none, or they are better off as ordinary loops. */
bool tiling_choose(Kernel *k, Schedule *s);

#endif
