/* backend/cpu, the loops of a kernel as C: shared by nests.c, columns.c, few.c
 * and together.c. */
#ifndef AXON_CPU_NESTS_H
#define AXON_CPU_NESTS_H

#include "backend/cpu/emit.h"

enum {
  RUN = 128,    /* vectors of floats that are summed up in floats */
  UNROLLED = 4, /* vectors at a time, each with a sum of its own */
};

typedef struct Fold { /* what is done with a result */
  const Result *r;
  uint32_t name; /* of the accumulator: acc%u */
  const char *point; /* which of those of several points: "[y]"; or "" */
  PrimId op;
  char class;           /* of the accumulator */
  const char *where;    /* of argmax and argmin: how many come before, as
                           lanes; else NULL */
  bool runs;            /* it goes on in doubles: goes_in_runs */
  bool seen;            /* what is no number is noted beside: is_noted */
  bool far;             /* that may be more than an int32_t holds */
  const char *identity; /* as a scalar of the class */
  const char *out;      /* where the result begins in memory, or NULL */
  const char *local;    /* and among local values, or NULL */
} Fold;

typedef struct Nest { /* a loop being written */
  Buffer *out;
  Fold folds[RESULTS_MOST];
  uint32_t count;
  uint32_t kept; /* how many of the for-loops go over axes that are kept */
  uint32_t opened;
} Nest;

/* ---- nests.c ---- */

/* Do lanes lie along the last outer axis? */
bool nest_is_outer(const Emitter *e);
/* Where an axis begins and ends. */
const char *nest_from(Emitter *e, uint32_t v);
const char *nest_to(Emitter *e, uint32_t v);
/* Declares `start` and `end` of the lanes. */
void nest_range(Emitter *e, Buffer *out, bool declare);
/* The next for-loop; all up to `to`; closes those after it. */
void nest_open_one(Emitter *e, Nest *n, const char *from, const char *to);
void nest_open(Emitter *e, Nest *n, uint32_t to);
void nest_close(Nest *n, uint32_t to);
/* One more vector of values for an accumulator. */
void nest_take(Emitter *e, Buffer *out, const Fold *f, const char *at,
               bool masked);
/* x to where the result goes: a whole vector, or its first `rest` lanes. */
void nest_store(Emitter *e, Buffer *out, const Fold *f, const char *x,
                bool whole);
/* The class of a sum that is complete, and the type in which it is stored. */
char nest_end_class(const Fold *f);
Dtype nest_stored(const Emitter *e, const Fold *f);

/* A result of the loop at hand; and where it goes, before the blocks are
 * written, since that adds to them. */
Fold nest_fold(Emitter *e, uint32_t result);
void nest_place(Emitter *e, uint32_t loop, uint32_t result, Fold *f);

/* ---- together.c: sums of several points at once ---- */

/* Around what is done once for some points. */
void together_begin(Emitter *e, Buffer *out);
void together_end(Buffer *out);
/* Opens a loop over these, with what is known of each, or without. */
void together_each(Emitter *e, Buffer *out, bool known);
/* Where the local values of the point at hand are: of one of these, or, behind
 * all that, of the unit's. */
void together_place(Emitter *e, Buffer *out, bool inside);

/* ---- few.c ---- */

/* Is it a sum (or the like) over so few terms that they are better written out,
 * and its lanes stay in registers: windows that slide along the lanes? */
bool nest_is_short(const Schedule *s, const Loop *loop, uint32_t lane);
/* The loop, with `loops` for-loops around its lanes, in order. */
void nest_few(Emitter *e, Buffer *out, uint32_t at, uint32_t lane,
              uint32_t loops, const uint32_t *order);

/* ---- columns.c: lanes along an axis that is kept ---- */

void nest_columns(Emitter *e, Nest *n);

#endif
