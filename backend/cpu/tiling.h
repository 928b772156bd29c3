/* backend/cpu: sums of products as tiles that lie in registers. */
#ifndef AXON_CPU_TILING_H
#define AXON_CPU_TILING_H

#include "backend/cpu/window.h"

enum {
  BLOCK_K_MOST = 768,     /* terms of a pass */
  BLOCK_M_MOST = 96,      /* rows that are gone through at a time */
  UNIT_BYTES = 512 << 10, /* local values of a unit: where these are not */
  PORTION_ROWS = 12,      /* so many rows at least, rows go in portions */
};

typedef enum OperandForm {
  OPERAND_PLAIN,   /* as it lies in memory: a row by row, terms next to each
                      other; b term by term, columns next to each other */
  OPERAND_ROWS,    /* a: likewise, copied */
  OPERAND_COLUMNS, /* a: copied term by term, rows next to each other */
  OPERAND_PANELS,  /* b: copied as panels of NR columns, term by term */
  OPERAND_TURNED,  /* the same, from values that lie along the terms */
  OPERAND_WINDOW,  /* b: the same, panel by panel, from a window */
} OperandForm;

typedef struct Operand {
  Loop *loop; /* its one result is the product of the operand's factors */
  OperandForm form;
  bool keeps; /* it may be there from a call before: keeping.c; and */
  bool pays;  /* copying it takes so long that it should be */
} Operand;

/* result[others, m, n] = sum over k of a[others, m, k] * b[others, k, n] */
typedef struct Tile {
  bool on; /* this loop of the kernel is a product */
  uint32_t m, n;
  Operand a, b;
  uint32_t rows, vectors; /* of the tile */
  bool shorter;  /* through a window: there are tiles of fewer rows, too */
  bool less;     /* the last rows are tiles of one row less, where that comes
                    out, so that there are no rows left */
  uint32_t last; /* vectors of a tile of the last panel; 0: it is as others */
  int64_t depth; /* of the sum */
  int64_t block_k, block_m, block_n; /* of a pass */
  int64_t pack_k;                    /* terms of b that are copied at a time */
  bool passing; /* what the loops after it read is there for a pass only */
  bool ahead;   /* b is copied before the rows of a unit are gone through */
  bool once;    /* there is one tile of rows, which reads b as it lies, or as
                   it was kept, though its terms are far apart */
  Window *window;
  int64_t lines; /* through a window: that are turned at a time, a size */
  bool far; /* the left side is read as it lies, though copied, and comes from
               beyond the caches of a core: it is fetched ahead */
  Dtype dtype;   /* of the sums */
  Dtype element; /* of what is copied; DT_I32: terms are pairs of bf16, whose
                    products the machine adds up two at a time */
} Tile;

typedef struct Tiling {
  Tile of[KERNEL_LOOPS];
} Tiling;

static inline bool tiling_passes(const Schedule *s) {
  return s->tiling && s->tiling->of[0].passing;
}

/* Finds the kernel's products and a schedule that suits all of them; false:
 * there are none, or they are better off as ordinary loops. */
bool tiling_choose(Kernel *k, Schedule *s);
/* Of a product: the set of summed axes along which one of its sides is read
 * through a window that slides along an outer one, and which axis is that of
 * the other side's rows; 0: there are none. */
uint64_t tiling_slides(Arena *arena, const Loop *loop, uint32_t *rows);

/* ---- grid.c ---- */

/* How a product is cut into units. */
typedef struct Grid {
  int64_t m, n, depth; /* of it, */
  double others;       /* and how many there are */
  int64_t bytes;       /* of an element */
  double width;        /* lanes */
  double threads;
  int64_t height, block; /* rows and columns of a unit */
} Grid;

/* Chooses these for the tile; open: sizes are not known. */
void grid_choose(Grid *g, const Tile *t, bool open);

/* ---- pairs.c ---- */

/* Are both operands bf16 that is but widened, and has the machine dot products
 * of these? */
bool pairs_fit(const Schedule *s, const Tile *t);
/* The operand with pairs for terms; along: lanes lie along these. */
Loop *pairs_of(Arena *arena, const Loop *loop, bool along);

#endif
