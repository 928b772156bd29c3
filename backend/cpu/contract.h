/* backend/cpu: products summed over axes, as packed and tiled loops. */
#ifndef AXON_CPU_CONTRACT_H
#define AXON_CPU_CONTRACT_H

#include "backend/cpu/cpu.h"

typedef struct Operand { /* one of the two factors of a product */
  Kernel *pack;          /* how it is laid out in panels */
  Schedule schedule;     /* of that */
  uint64_t depends;      /* the axes that it depends on */
  bool whole;            /* it depends on all axes outside of the tile */
  bool local;            /* packed by each unit, for itself */
  int64_t panels, panel; /* how many, elements of each */
  int64_t units;         /* panels times the axes outside of the tile */
} Operand;

/* result[outer, m, n] = sum over k of a[outer, k, m] * b[outer, k, n] */
typedef struct Contraction {
  const Kernel *k;
  uint32_t m, n;          /* axes of the result that the tile covers */
  uint32_t rows, vectors; /* of the tile that lies in registers */
  uint32_t width;
  int64_t depth;                     /* of the sum */
  int64_t block_k, block_m, block_n; /* elements: of a pass, of a unit */
  int64_t outer;                     /* products of the other axes */
  Operand a, b;
} Contraction;

/* False: it is no contraction, or one too small to be worth the packing. */
bool contraction_find(Arena *arena, const Kernel *k, Contraction *c);
bool contraction_emit(Arena *arena, const Contraction *c, Emitted *out);

#endif
