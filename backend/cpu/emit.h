/* backend/cpu, emitting C: shared by steps.c and loops.c. */
#ifndef AXON_CPU_EMIT_H
#define AXON_CPU_EMIT_H

#include "backend/cpu/cpu.h"

enum {
  ROW_LEVEL = 1,
  LEVELS = KERNEL_AXES + 3,
  NO_LANE = KERNEL_VARS - 1, /* a variable that is nowhere */
};

typedef struct Emitter {
  Arena *arena;
  const Kernel *k;
  Schedule s;
  Emitted *out;
  uint32_t order[KERNEL_AXES], level_of[KERNEL_AXES]; /* of loops */
  uint32_t loops, lane_level;                         /* loops: inside rows */
  Buffer blocks[LEVELS];
  Buffer checks;
  uint32_t *levels; /* of steps */
  bool *varies;     /* with the lane */
  char *classes;    /* f d i l b: of steps, as lanes */
  const char **need;
  uint32_t quotient_level[KERNEL_VARS];
  uint32_t ints_from, floats_from; /* of the call: this function's own */
  const char *to;                  /* where a row of the result begins */
  uint32_t names;
  bool failed;
} Emitter;

/* steps.c */
const char *emit_format(Emitter *e, const char *text, ...) PRINTF_LIKE(2, 3);
const char *emit_int(Emitter *e, int64_t x); /* a parameter */
/* The form without the lane's term, as a name or a number. */
const char *emit_quasi(Emitter *e, const Quasi *q);
/* A step's value as lanes of a class. */
const char *emit_lanes(Emitter *e, uint32_t step, char class);
char class_of(Dtype t);
char vector_letter(char class);
const char *scalar_type(char class);
const char *memory_type(Dtype t);
bool is_float_class(char class);
/* The larger or smaller of two; NaN wins. */
const char *emit_extreme(Emitter *e, bool most, char class, bool lanes,
                         const char *x, const char *y);
/* loops.c: a function NAME_units, and NAME that calls it. */
bool emit_function(Arena *arena, const Kernel *k, const Schedule *s,
                   const char *name, Emitted *result);
void emit_entry(Buffer *out, const char *name);

/* Everything but loops: the steps, in their blocks. */
void emit_steps(Emitter *e);

#endif
