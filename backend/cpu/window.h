/* backend/cpu: products of which one side is read through a window that slides
 * over it, as in a convolution. */
#ifndef AXON_CPU_WINDOW_H
#define AXON_CPU_WINDOW_H

#include "backend/cpu/cpu.h"

/* How a side is read along an axis of the result: all of its forms have the
 * axis and some summed axes as multiples of one coordinate,
 *
 *     step * axis + sum of by[k] * k. */
typedef struct Reach {
  int64_t step;
  int64_t by[KERNEL_AXES]; /* of summed axes; 0: it has no part */
  int64_t low, span;       /* of the sum: it lies in low .. low + span */
  bool rimmed; /* one term alone has a part in it, and what is read is known
                  to be zero elsewhere than */
  int64_t from, to; /* from .. to - 1 */
  uint32_t term;
} Reach;

enum { RIM_TERMS = 8 }; /* of a column, at most, that are written out */

/* The tile of a line that begins at a column. */
typedef struct LineEnd {
  int64_t at;
  /* by term of the column: its rows that may read other than zeros */
  uint8_t from[RIM_TERMS], to[RIM_TERMS];
} LineEnd;

/* Terms that are left out, since they multiply zeros around what is read. */
typedef struct Rims {
  int64_t group;    /* terms next to each other, of which each has some that
                       are left out; 0: none are */
  int64_t row;      /* of them, those of one step of the row's term: lines leave
                       out such; 0: they do not */
  uint32_t written; /* terms of the column, the last ones, of which the tiles at
                       the ends of a line leave out rows; 0: they do not */
  double share;     /* of all terms, that is left */
  LineEnd ends[2];
  uint32_t end_count;
} Rims;

/* What rows and columns of the result need of the side is put into scratch
 * memory: each element once, whatever it takes to compute it (zeros around an
 * image), in planes, one for each point of the summed axes that are free of the
 * rows and columns, and of these for each remainder by the steps.  Then a term
 * of the sum begins at an offset that is the same wherever the window stands,
 * and positions go on from one row to the next: lanes lie along all of them. */
typedef struct Window {
  bool across; /* lanes do not lie along positions, but across: along the rows
                  of the other side, which is copied into panels for that;
                  positions are the rows of a tile, one after the other */
  Loop *loop;  /* the side: outer axes, free summed ones, then the coordinates:
                  of rows, where there are any, and of columns */
  bool rows;   /* there is an axis of rows, the third to last outer one */
  Reach row, column;
  uint32_t terms;               /* summed axes, */
  int64_t extents[KERNEL_AXES]; /* in order, */
  bool free[KERNEL_AXES];       /* and whether they are free */
  int64_t lines, pitch;         /* of a plane: rows, and what they take up */
  int64_t plane, planes;        /* elements, with what is behind the last */
  Rims rims;                    /* where lanes lie across */
} Window;

/* ---- which unit is best ---- */

typedef struct TileShape {
  uint32_t rows, vectors;
} TileShape;

typedef struct WindowWork { /* all there is to do */
  int64_t rows, lines, columns, depth, block_k;
  int64_t bytes; /* of an element */
  bool open;     /* sizes are guesses: there are shorter tiles, too */
  bool turned;   /* the other side lies along the terms */
  double others; /* points of other axes */
  uint32_t width;
} WindowWork;

typedef struct WindowUnit {
  TileShape tile;
  bool across;                  /* as in Window */
  int64_t height, strip, block; /* as in Schedule */
} WindowUnit;

enum {
  WINDOW_BYTES = 16 << 20, /* at most */
  WINDOW_GUESS = 3,        /* how long one is, where sizes are open */
};

/* In cycles, roughly; more than any other: it is too large. */
double window_cost(const Window *w, const WindowWork *work,
                   const WindowUnit *unit);

/* In which ratio two multiples of a coordinate are: numbers, or sizes of which
 * one is the other, or a small multiple of it; false: neither. */
bool window_ratio(Graph *g, int64_t x, int64_t y, int64_t *of_x, int64_t *of_y);
bool window_has_ratio(Graph *g, int64_t x, int64_t y, int64_t of_x,
                      int64_t of_y);
/* How b is read along an axis of the result; false: not in that way. */
bool window_reach(const Loop *b, uint32_t axis, Reach *r);
/* Does it have a part in the coordinate? */
bool window_slides(const Reach *r);
/* row: NO_LANE, or the axis of the rows. */
Window *window_new(Arena *arena, const Loop *b, uint32_t row, uint32_t column);
/* How far planes of a term are apart: each holds a remainder by the steps. */
int64_t window_phases(const Window *w);
/* For a unit of so many rows and columns, which are sizes (tensor/size.h);
 * false: an overflow. */
bool window_size(Window *w, int64_t rows, int64_t columns, uint32_t width);
/* Positions of such a unit, one row after the other. */
bool window_positions(const Window *w, int64_t rows, int64_t columns,
                      int64_t *out);

/* ---- rims.c ---- */

/* Where the coordinates are known to read zeros; the axes that they go along,
 * in a window that is new. */
void rims_bound(Window *w, uint32_t row, uint32_t column);
/* Which terms are left out, of so many lines and columns, which are numbers. */
void rims_find(Window *w, int64_t lines, int64_t columns);
/* Those of the tiles of so many rows, in blocks of columns. */
void rims_choose_ends(Window *w, int64_t columns, int64_t block, int64_t rows);

#endif
