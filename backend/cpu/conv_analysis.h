/* backend/cpu: products of which one side is read through a window that slides
 * over it, as in a convolution. */
#ifndef AXON_CPU_CONV_ANALYSIS_H
#define AXON_CPU_CONV_ANALYSIS_H

#include "backend/cpu/cpu.h"

/* How a side is read along an axis of the result: all of its forms have the
 * axis and some summed axes as multiples of one coordinate,
 *
 *     step * axis + sum of by[k] * k. */
typedef struct SlidingAccess {
  int64_t stride;
  int64_t dilation[MAX_KERNEL_AXES]; /* of summed axes; 0: it has no part */
  int64_t low, span; /* of the sum: it lies in low .. low + span */
  bool padded; /* one term alone has a part in it, and what is read is known
                  to be zero elsewhere than */
  int64_t valid_begin, valid_end; /* from .. to - 1 */
  uint32_t filter_axis;
} SlidingAccess;

enum { MAX_PEELED_TERMS = 8 }; /* of a column, at most, that are written out */

/* The tile of a line that begins at a column. */
typedef struct BorderTile {
  int64_t column;
  /* by term of the column: its rows that may read other than zeros */
  uint8_t row_begin[MAX_PEELED_TERMS], row_end[MAX_PEELED_TERMS];
} BorderTile;

/* Terms that are left out, since they multiply zeros around what is read. */
typedef struct PaddingPeel {
  int64_t group_terms; /* terms next to each other, of which each has some that
                          are left out; 0: none are */
  int64_t row_terms;   /* of them, those of one step of the row's term: lines
                          leave   out such; 0: they do not */
  uint32_t
      peeled_terms; /* terms of the column, the last ones, of which the tiles at
                       the ends of a line leave out rows; 0: they do not */
  double remaining_share; /* of all terms, that is left */
  BorderTile border_tiles[2];
  uint32_t border_tile_count;
} PaddingPeel;

/* What rows and columns of the result need of the side is put into scratch
 * memory: each element once, whatever it takes to compute it (zeros around an
 * image), in planes, one for each point of the summed axes that are free of the
 * rows and columns, and of these for each remainder by the steps.  Then a term
 * of the sum begins at an offset that is the same wherever the window stands,
 * and positions go on from one row to the next: lanes lie along all of them. */
typedef struct ConvWindow {
  bool vectorize_channels; /* lanes do not lie along positions, but across:
                              along the rows of the other side, which is copied
                              into panels for that; positions are the rows of a
                              tile, one after the other */
  LoopNest *
      copy_loop; /* the side: outer axes, free summed ones, then the
                    coordinates: of rows, where there are any, and of columns */
  bool has_rows; /* there is an axis of rows, the third to last outer one */
  SlidingAccess row, column;
  uint32_t reduction_axes;          /* summed axes, */
  int64_t extents[MAX_KERNEL_AXES]; /* in order, */
  bool is_free[MAX_KERNEL_AXES];    /* and whether they are free */
  int64_t plane_rows, row_pitch; /* of a plane: rows, and what they take up */
  int64_t plane_elements,
      plane_count;     /* elements, with what is behind the last */
  PaddingPeel padding; /* where lanes lie across */
} ConvWindow;

/* ---- which unit is best ---- */

typedef struct MicroTile {
  uint32_t mr, nr_vectors;
} MicroTile;

typedef struct ConvProblem { /* all there is to do */
  int64_t rows, image_rows, columns, depth, kc;
  int64_t element_bytes;   /* of an element */
  bool symbolic;           /* sizes are guesses: there are shorter tiles, too */
  bool transposed_weights; /* the other side lies along the terms */
  double batch;            /* points of other axes */
  uint32_t vector_lanes;
} ConvProblem;

typedef struct ConvTask {
  MicroTile tile;
  bool vectorize_channels;                            /* as in Window */
  int64_t task_height, task_image_rows, task_columns; /* as in Schedule */
} ConvTask;

enum {
  MAX_WINDOW_BYTES = 16 << 20, /* at most */
  ASSUMED_WINDOW_LENGTH = 3,   /* how long one is, where sizes are open */
};

/* In cycles, roughly; more than any other: it is too large. */
double conv_task_cost(const ConvWindow *w, const ConvProblem *problem,
                      const ConvTask *task);

/* In which ratio two multiples of a coordinate are: numbers, or sizes of which
 * one is the other, or a small multiple of it; false: neither. */
bool conv_stride_ratio(Graph *g, int64_t x, int64_t y, int64_t *of_x,
                       int64_t *of_y);
bool conv_has_stride_ratio(Graph *g, int64_t x, int64_t y, int64_t of_x,
                           int64_t of_y);
/* How b is read along an axis of the result; false: not in that way. */
bool conv_sliding_access(const LoopNest *b, uint32_t axis, SlidingAccess *r);
/* Does it have a part in the coordinate? */
bool conv_access_slides(const SlidingAccess *r);
/* row: NO_AXIS, or the axis of the rows. */
ConvWindow *conv_window_new(Arena *arena, const LoopNest *b, uint32_t row,
                            uint32_t column);
/* How far planes of a term are apart: each holds a remainder by the steps. */
int64_t conv_window_phases(const ConvWindow *w);
/* For a unit of so many rows and columns, which are sizes (tensor/extent.h);
 * false: an overflow. */
bool conv_window_set_size(ConvWindow *w, int64_t rows, int64_t columns,
                          uint32_t width);
/* Positions of such a unit, one row after the other. */
bool conv_window_positions(const ConvWindow *w, int64_t rows, int64_t columns,
                           int64_t *out);

/* ---- padding_peel.c ---- */

/* Where the coordinates are known to read zeros; the axes that they go along,
 * in a window that is new. */
void padding_peel_find_valid_range(ConvWindow *w, uint32_t row,
                                   uint32_t column);
/* Which terms are left out, of so many lines and columns, which are numbers. */
void padding_peel_choose(ConvWindow *w, int64_t image_rows, int64_t columns);
/* Those of the tiles of so many rows, in blocks of columns. */
void padding_peel_choose_border_tiles(ConvWindow *w, int64_t columns,
                                      int64_t block, int64_t rows);

#endif
