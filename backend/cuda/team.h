/* backend/cuda, for the files that write kernels with rows: a team of threads
 * goes through a kernel's loops at a point of its outer axes. */
#ifndef AXON_CUDA_TEAM_H
#define AXON_CUDA_TEAM_H

#include "backend/cuda/near.h"

typedef enum LoopKind {
  LOOP_SINGLE, /* no inner axes: all threads of a team do the same */
  LOOP_KEPT,   /* results all along the row */
  LOOP_SUMS,   /* one number comes of a row, */
  LOOP_BOTH,   /* or of each part of one; and perhaps there are results of
                  each element beside it */
  LOOP_KINDS,
} LoopKind;

static inline LoopKind team_kind(const Loop *loop) {
  if (loop->axes == loop->outer)
    return LOOP_SINGLE;
  if (loop->kept == loop->axes)
    return LOOP_KEPT;
  return loop->kept == loop->outer ? LOOP_SUMS : LOOP_BOTH;
}

/* An input's elements that a thread keeps for all loops. */
typedef struct Row {
  const Loop *loop;
  const Step *read;
  const char *name;
} Row;

/* A sum of exponents that goes on while the largest of the row is found, by a
 * loop before it: of each portion relative to the largest so far. */
typedef struct Online {
  CudaNear near;
  uint32_t largest; /* acc%u; what it was before a portion: before%u, and what a
                       thread has found in all of its: own%u */
  CudaSum part, all;
} Online;

typedef struct Team {
  CudaWriter *w;
  Buffer body;
  Online online[KERNEL_LOOPS]; /* by loop */
  VEC(Row) rows;
  uint32_t folds, folded; /* sums of a team in shared memory: all, so far */
  bool pairs, waits;      /* what else shared memory is used for */
  int64_t shared;         /* bytes of local values of one point, a size */
  int64_t slots;          /* bytes of scratch memory of one team, a size */
} Team;

/* A loop as it is written. */
typedef struct Nest {
  const Loop *loop;
  uint32_t at; /* its number in the pass */
  LoopKind kind;
  uint32_t axes[KERNEL_AXES], count; /* shared out; the last is of neighbours */
  uint32_t vector, held;
  int64_t row; /* elements that are shared out: a size */
  CudaSum sums[RESULTS_MOST];
  Buffer loads, stores;
} Nest;

/* ---- rows.c ---- */

static inline bool team_wants(const Result *r) {
  return r->out || r->local;
}
/* Do two loops share out the same row in the same way? */
bool team_rows_match(const CudaWriter *w, const Loop *x, const Loop *y);
/* A loop's steps, but for what stores them.  first: what its first step is; or
 * NULL, as it says. */
void team_begin_loop(Team *t, Nest *n, const Loop *loop, uint32_t at,
                     const char *first);
/* The loop over a row from `from` to `to`, of which `takes` is done with each
 * element. */
void team_put_walk(Team *t, const Nest *n, Buffer *out, const Buffer *takes,
                   const char *from, const char *to);
/* All that a team's threads have of a sum in one, for all of it; a result that
 * is one number of the team. */
void team_put_fold(Team *t, const CudaSum *s, Buffer *out);
void team_put_one(Team *t, const Nest *n, uint32_t j, const char *x,
                  Buffer *out);

/* ---- online.c: sums that go on with the largest of a row ---- */

void online_find(Team *t);
/* Of the loop `at` that has the largest: what is declared before its walk, what
 * stands at the beginning of each portion, what is done behind one (nothing:
 * no sum goes on with it), and what stands behind all of them. */
void online_declare(const Team *t, uint32_t at, Buffer *out);
void online_begin(const Team *t, uint32_t at, Buffer *out);
Buffer online_parts(Team *t, uint32_t at);
void online_end(const Team *t, uint32_t at, Buffer *out);
/* Where such a sum's own loop is: what threads have is scaled to v, and put
 * together. */
void online_put_scaled(Team *t, uint32_t at);

#endif
