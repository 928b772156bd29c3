/* backend/cpu: small products of a batch, nothing of them copied. */
#ifndef AXON_CPU_MEMBERS_H
#define AXON_CPU_MEMBERS_H

#include "backend/cpu/cpu.h"

/* A block of an operand or of the result, m by n or so: one batch member's. */
typedef struct Block {
  const Step *read;   /* of an operand */
  int64_t rows, step; /* elements from row to row; from column to column */
  int64_t span;       /* from the first to behind the last */
  int64_t stride;     /* from member to member */
} Block;

/* result[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n].
 *
 * Where rows are short, m, n, k and how blocks lie are constants of the code;
 * there are some hundreds of such codes, not more.  Where they are longer, the
 * shape of a tile is one, and whether its last column of registers is full.
 * Where sizes are open there are tiles of each number of registers side by
 * side. */
typedef struct Members {
  uint32_t m, n, batch; /* outer axes */
  int64_t rows, columns, depth;
  int64_t at_once; /* members that are next to each other in each register */
  uint32_t tile_rows, vectors; /* of a tile; 0: whole blocks lie in registers */
  bool open; /* the most vectors: rows, columns and depth are sizes */
  Block a, b, c;
  Dtype dtype;
} Members;

/* Is the kernel such a product, and nothing else?  Of open sizes where it is
 * said to be `small` alone. */
bool members_choose(Kernel *k, Schedule *s);
/* Of open sizes: those of a member, which small ones are at most so large; 0:
 * it is no such product. */
int64_t members_open(const Kernel *k, uint32_t width, int64_t sizes[3]);
/* Does its result go past the caches? */
bool members_stream(const Schedule *s, const Graph *g, const Result *r);

#endif
