/* backend/cpu, for its own files: kernels as generated C. */
#ifndef AXON_CPU_H
#define AXON_CPU_H

#include "backend/cpu/compiler.h"
#include "tensor/kernel.h"

/* What a kernel leaves open, chosen from its sizes and from this machine; the
 * result of a sum depends on `split`, and so on the sizes, but never on how
 * many threads there are. */
typedef enum LoopForm {
  LOOP_MAP,    /* no reduction: lanes along the last axis of the result */
  LOOP_ROW,    /* lanes along a reduced axis, one result at a time */
  LOOP_COLUMN, /* lanes along an axis of the result that is kept */
} LoopForm;

typedef struct Schedule {
  LoopForm form;
  uint32_t lane;  /* the axis along which lanes lie */
  uint32_t width; /* lanes */
  bool split;     /* the first reduced axis is cut into chunks, each with its
                     own sum, and these are added at the end */
  uint32_t rows;  /* 0, or: the first so many axes are units, the others loops
                     inside of them; the axis before the lanes counts panels of
                     them, `limit` lanes in all, and the rest is made zero */
  int64_t limit;
} Schedule;

/* The arguments of a generated function: pointers (result first, then inputs),
 * integers, scalars. */
typedef struct Call {
  VEC(int64_t) ints;
  VEC(double) floats;
  int64_t units;  /* independent pieces */
  int64_t chunks; /* of the first reduced axis, if it is split */
} Call;

typedef struct Emitted {
  Buffer text;                 /* of the kernel, in the arena */
  Call call;                   /* what this one wants */
  uint32_t ints[2], floats[2]; /* of a contraction: where the numbers of what
                                  packs its two operands begin */
  Dtype accumulator;
  int64_t inner; /* of a split one: elements that a sum of chunks goes along */
} Emitted;

/* Bytes of a vector register of this machine that generated code is for. */
uint32_t target_vector_bytes(void);

Schedule schedule_choose(const Kernel *k);
/* False: there is something in the body that it cannot emit. */
bool emit_kernel(Arena *arena, const Kernel *k, const Schedule *s,
                 Emitted *out);

#endif
