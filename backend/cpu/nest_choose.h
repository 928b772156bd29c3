/* backend/cpu: choice of the schedule of a loop nest in a task. */
#ifndef AXON_CPU_NEST_CHOOSE_H
#define AXON_CPU_NEST_CHOOSE_H

#include "backend/cpu/loop_writer.h"
#include "kernel/nest.h"

typedef struct NestChoice {
  Arena *arena;
  const Kernel *kernel;
  const Schedule *schedule;
  uint32_t at; /* the loop nest */
  LoopNest *loop;
  NestBuilder builder;
  uint32_t vector_axis; /* NO_AXIS: none */
  uint32_t order_count; /* the other axes in a task, outermost first */
  uint32_t order[MAX_KERNEL_AXES];
} NestChoice;

/* ---- nest_choose.c ---- */

enum { MAX_NEST_CANDIDATES = 6 };

typedef struct NestTrial { /* a nest that the CPU can run */
  Nest *nest;
  double cycles; /* by the cost model, in one thread; 0: it is the only one */
} NestTrial;

/* Makes the nests that a loop nest can have, at most MAX_NEST_CANDIDATES, the
 * one that is good in general first.  Returns their number. */
uint32_t nest_try(const Kernel *k, const Schedule *s, uint32_t loop,
                  NestTrial *to);
/* The least of them; NULL: there is none. */
Nest *nest_choose(const Kernel *k, const Schedule *s, uint32_t loop);
/* The nest with the steps that the tasks determine, and no others.  Returns
 * NULL if a step is refused. */
Nest *nest_new_task(const Kernel *k, const Schedule *s, uint32_t loop);
/* ---- nest_forms.c ---- */

/* A nest with the steps that the tasks determine. */
NestChoice nest_begin_choice(const Kernel *k, const Schedule *s, uint32_t loop);
/* Long f32 sums are added to an f64 accumulator after each F32_RUN_VECTORS
 * vectors: as accurate as an f64 sum, and as fast as an f32 sum.  Returns true
 * if the loop has such sums. */
bool nest_needs_runs(const LoopNest *loop, const Schedule *s,
                     uint32_t vector_axis);
/* Vectors along a reduced or stored axis. */
void nest_form_rows(NestChoice *c, int64_t number);
/* The same, and the vectors of a short axis are stored interleaved. */
void nest_form_interleaved(NestChoice *c, int64_t number);
/* Vectors along a spatial axis, with an accumulator for each lane: a block of
 * `vectors` vectors at a time. */
void nest_form_columns(NestChoice *c, int64_t vectors);
/* Number of vectors of a block that has all columns of a task, if their number
 * is known and not too large. */
int64_t nest_block_vectors(const NestChoice *c);
/* `points` iterations of the last parallel axis share the load of a row. */
void nest_form_jam(NestChoice *c, int64_t points);
/* Blocks of elements of the states, around the iterations. */
void nest_form_recurrence(NestChoice *c, int64_t number);

/* ---- nest_refusal.c ---- */

/* Returns NULL, or the reason for which the CPU cannot run the nest of a
 * loop. */
const char *nest_refusal(const Kernel *k, const Schedule *s, uint32_t loop,
                         const Nest *n);

/* ---- interleave.c ---- */

/* The axis whose elements lie between those along vector axis v, in
 * all results of the loop; NO_AXIS: there is none, there are few vectors, or
 * the loop has long sums.
 * Examples are the two numbers of each element of a complex tensor. */
uint32_t interleave_axis(const LoopNest *loop, uint32_t v, uint32_t width);
/* Returns true if there is one, and tasks have all its iterations beside those
 * of the vectors. */
bool interleave_has_tasks(const NestChoice *c);

/* ---- unroll_and_jam.c ---- */

/* Returns true if iterations of the last task may run together. */
bool unroll_and_jam_is_valid(const Kernel *k, const Schedule *s, uint32_t loop);
/* Number of iterations for which that pays; 0: none. */
uint32_t unroll_and_jam_points(const Kernel *k, const Schedule *s,
                               uint32_t loop);

/* ---- short_reduction_nest.c ---- */

/* The loop after a short reduction, if it can run as its epilogue; otherwise
 * NULL.  It must have the same axes, and no other loop may read the
 * reduction. */
LoopNest *short_reduction_epilogue(const Kernel *k, const Schedule *s,
                                   Arena *arena, uint32_t at);

/* Returns true if a reduction is so short that its terms are unrolled while the
 * accumulators stay in registers.  Windows that slide along the vectors are
 * such reductions. */
bool short_reduction_is_unrolled(const Schedule *s, const LoopNest *loop,
                                 uint32_t vector_axis);
/* Returns true if the number of terms is constant. */
bool short_reduction_has_constant_terms(const LoopNest *loop);
/* The steps of such a reduction. */
void short_reduction_nest(NestChoice *c, bool has_epilogue);
/* The loop with the axis of input rows in place of rows and terms. */
LoopNest *nest_index_by_input_rows(const Nest *n);

#endif
