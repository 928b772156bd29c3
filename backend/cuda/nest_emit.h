/* backend/cuda: nests while their loops are printed. */
#ifndef AXON_CUDA_NEST_EMIT_H
#define AXON_CUDA_NEST_EMIT_H

#include "backend/cuda/nest.h"

struct ThreadGroup;

/* Loads of all elements of a thread before an unrolled loop, so that they are
 * in flight together.  `vectors` require the condition `aligned`; `scalars`
 * have no requirement. */
typedef struct EarlyLoads {
  Buffer vectors, scalars, aligned;
  uint32_t elements;
} EarlyLoads;

typedef struct NestWriter {
  CudaWriter *w;
  const Nest *nest;
  const LoopNest *spec;
  const char *ends[MAX_NEST_AXES];      /* by axis; NULL: not printed */
  uint32_t level_of[MAX_NEST_AXES];     /* by axis: scope of its index */
  uint32_t level_after[MAX_NEST_LOOPS]; /* by loop */
  uint32_t innermost;                   /* level */
  Buffer levels[MAX_LEVELS];            /* code of all loop nests */
  VectorAccess vectors;
  Buffer tiles;         /* loads of tiles in shared memory */
  int64_t shared_bytes; /* of tiles */

  /* Of a pass with sums: */
  struct ThreadGroup *group; /* NULL: it has none */
  const RowNest *row;
  RowLoopKind kind;
  uint32_t loop_index, registers; /* vectors of a thread in registers */
  int64_t row_length;             /* elements; symbolic size */
  CudaAccumulator accumulators[MAX_LOOP_OUTPUTS];
  EarlyLoads early;
  bool has_sums; /* which begin and end in the loops */
  Buffer begin_sums, end_sums, begin_run, end_run;
} NestWriter;

/* The loops around the place where the next one is printed. */
typedef struct NestPlace {
  const char *indices[MAX_NEST_AXES]; /* by axis, so far; NULL: none */
  const char *ends[MAX_NEST_AXES];    /* of a part of the axis; NULL: whole */
  bool is_range[MAX_NEST_AXES];       /* a loop over all indices is open */
  bool is_full[MAX_NEST_AXES];        /* no index is past the end */
  uint32_t level;
  bool is_pending;     /* the code of the level is not printed */
  const Buffer *early; /* loads that replace the code of lanes; or NULL */
} NestPlace;

/* ---- nest_emit.c ---- */

/* row: of a pass with sums; or NULL. */
void nest_begin(NestWriter *p, CudaWriter *w, const Nest *nest,
                const LoopNest *spec, const RowNest *row);
/* Emits the ops of a loop nest, but no stores.  first: replaces the value of
 * the first op; NULL: no replacement. */
void nest_put_ops(NestWriter *p, const LoopNest *loop, const char *first);
/* Appends the code of the ops, and of their results, to the levels. */
void nest_end_ops(NestWriter *p, const Buffer *results);
NestPlace nest_place(void);
/* The place in the runs of loop `at` over the row. */
NestPlace nest_run_place(const NestWriter *p, uint32_t at);
/* Prints the loops from number `at` on, and the code in them. */
void nest_put(NestWriter *p, uint32_t at, NestPlace place, Buffer *out);

/* ---- nest_index.c ---- */

/* The iterations of the outermost loop over an axis that has this step. */
int64_t nest_outermost_count(const NestWriter *p, uint32_t axis, int64_t step);
int64_t nest_loop_count(const NestWriter *p, uint32_t at);
/* The indices from one iteration to the next, and of the axis. */
int64_t nest_index_step(const NestWriter *p, uint32_t at);
int64_t nest_index_count(const NestWriter *p, uint32_t axis);
/* The end of an axis, or of the part of it that is open. */
const char *nest_end_of(NestWriter *p, const NestPlace *place, uint32_t axis);
void nest_add_index(const NestWriter *p, NestPlace *place, uint32_t axis,
                    const char *name, int64_t step);
const char *nest_index_of(const NestPlace *place, uint32_t axis);
/* Returns true if an index may be past the end: it is that of a tile, whose
 * loops, flattened ones included, are more than `exact`. */
bool nest_needs_test(const NestWriter *p, const NestPlace *place, uint32_t axis,
                     uint32_t exact);
/* Prints an index whose innermost loop was reached.  Returns true if the code
 * in the loop is in a test. */
bool nest_put_index(NestWriter *p, NestPlace *place, uint32_t axis,
                    Buffer *out);

/* ---- nest_operands.c ---- */

/* The value of an op that loads a tile, a vector, or a value in a register;
 * NULL: the load is scalar. */
const char *nest_bind_operand(NestWriter *p, const LoopNest *loop,
                              const KernelOp *s);

#endif
