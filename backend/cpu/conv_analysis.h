/* backend/cpu: matmuls with an operand that is read through a sliding window,
 * as in a convolution. */
#ifndef AXON_CPU_CONV_ANALYSIS_H
#define AXON_CPU_CONV_ANALYSIS_H

#include "backend/cpu/cpu.h"
#include "machine/limits/cpu.h"

typedef struct Arena Arena;

/* Access of an operand along an axis of the result.  All affine expressions
 * contain the axis and some reduction axes only as multiples of one coordinate:
 *
 * stride * axis + sum of dilation[k] * k */
typedef struct SlidingAccess {
  int64_t stride;
  int64_t dilation[MAX_KERNEL_AXES]; /* of reduction axes; 0: not in the
                                        coordinate */
  int64_t low, span; /* the sum over k is in low .. low + span */
  bool padded; /* only filter_axis is in the coordinate, and elements outside
                  valid_begin .. valid_end - 1 are known to be zero */
  int64_t valid_begin, valid_end;
  uint32_t filter_axis;
} SlidingAccess;

/* The tile that begins at a column of an image row. */
typedef struct BorderTile {
  int64_t column;
  /* by column of the filter: rows of the tile that may read elements other than
   * zeros */
  uint8_t row_begin[MAX_PEELED_TERMS], row_end[MAX_PEELED_TERMS];
} BorderTile;

/* Terms that are skipped because they multiply padding. */
typedef struct PaddingPeel {
  int64_t group_terms; /* consecutive terms of one group; each group skips the
                          same terms; 0: no term is skipped */
  int64_t row_terms; /* terms of one filter row in a group; image rows skip such
                        terms; 0: they skip none */
  uint32_t peeled_terms;  /* columns of the filter, the innermost terms, for
                             which border tiles skip rows; 0: none */
  double remaining_share; /* part of all terms that remains */
  BorderTile border_tiles[2];
  uint32_t border_tile_count;
} PaddingPeel;

/* The part of the operand that a task needs, copied to scratch memory (im2col).
 * Each element is computed once, also if it is padding.
 *
 * There is one plane for each point of the free reduction axes, which do not
 * move the window, and for each phase of the strides.  In a plane, each term
 * has a constant offset from the position, and positions continue from one
 * image row to the next.  So vectors lie along all positions. */
typedef struct ConvWindow {
  bool vectorize_channels; /* vectors lie along the rows of the other operand,
                              the output channels, which is packed into panels;
                              positions are the rows of a tile */
  LoopNest *copy_loop;     /* copies the operand.  Its axes: parallel axes, free
                              reduction axes, coordinate of rows if has_rows,
                              coordinate of columns */
  bool has_rows; /* the third to last parallel axis is the image row */
  SlidingAccess row, column;
  uint32_t reduction_axes;          /* number of reduction axes */
  int64_t extents[MAX_KERNEL_AXES]; /* extents of the reduction axes */
  bool is_free[MAX_KERNEL_AXES];    /* by reduction axis: it does not move the
                                       window */
  int64_t plane_rows, row_pitch;    /* rows of a plane, and elements per row */
  int64_t plane_elements,
      plane_count; /* elements of a plane, including its padding for overread;
                      number of planes */
  PaddingPeel padding; /* used if vectorize_channels */
} ConvWindow;

/* ---- choice of a task ---- */

typedef struct MicroTile {
  uint32_t mr, nr_vectors;
} MicroTile;

typedef struct ConvProblem { /* size of the whole convolution */
  int64_t rows, image_rows, columns, depth, kc;
  int64_t element_bytes;
  bool symbolic;             /* sizes are hints; there are also shorter tiles */
  bool has_contiguous_terms; /* of the other operand, the weights */
  bool keeps_weights;        /* they are prepacked */
  double batch;              /* product of the other parallel extents */
  uint32_t vector_lanes;
} ConvProblem;

typedef struct ConvTask {
  MicroTile tile;
  bool vectorize_channels; /* as in ConvWindow */
  /* task_height, task_image_rows and last_axis_block of Schedule */
  int64_t task_height, task_image_rows, task_columns;
} ConvTask;

/* Finds how b is read along an axis of the result.  Returns false if it is not
 * through a window. */
bool conv_sliding_access(const LoopNest *b, uint32_t axis, SlidingAccess *r);
/* Returns true if a reduction axis moves the window. */
bool conv_access_slides(const SlidingAccess *r);
/* Creates the window. row: the axis of image rows, or NO_AXIS.  Returns NULL if
 * there is none. */
ConvWindow *conv_window_new(Arena *arena, const LoopNest *b, uint32_t row,
                            uint32_t column);
/* Planes of one term: one for each phase of the strides. */
int64_t conv_window_phases(const ConvWindow *w);
/* Sets the sizes for a task of `rows` image rows and `columns` columns, which
 * are extents (tensor/extent.h).  Returns false on overflow. */
bool conv_window_set_size(ConvWindow *w, int64_t rows, int64_t columns,
                          uint32_t width);
/* Positions of such a task, including those between image rows. */
bool conv_window_positions(const ConvWindow *w, int64_t rows, int64_t columns,
                           int64_t *out);

/* ---- padding_peel.c ---- */

/* Finds the coordinates outside of which the window of a new ConvWindow reads
 * zeros. */
void padding_peel_find_valid_range(ConvWindow *w, uint32_t row,
                                   uint32_t column);
/* Chooses the terms that are skipped. image_rows and columns are constants. */
void padding_peel_choose(ConvWindow *w, int64_t image_rows, int64_t columns);
/* Chooses border tiles of `rows` rows for tasks of `block` columns. */
void padding_peel_choose_border_tiles(ConvWindow *w, int64_t columns,
                                      int64_t block, int64_t rows);

#endif
