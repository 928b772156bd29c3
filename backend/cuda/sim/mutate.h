/* backend/cuda/sim: does the simulator see what is wrong in a kernel?  Mutants
 * of its text are made by rules: each statement that calls a wrapper is left
 * out, waits let one more pend, parities are turned, conditions are true,
 * false, or off by one, other operators (but where 0 is added), and each number
 * is more. */
#ifndef AXON_CUDA_MUTATE_H
#define AXON_CUDA_MUTATE_H

#include "backend/cuda/sim/sim.h"

typedef struct Mutant {
  uint32_t from, to; /* of the text, what it replaces: */
  const char *replacement;
  uint32_t line;
} Mutant;

typedef struct Mutants {
  const char *source;
  VEC(Mutant) all;
} Mutants;

void mutants_find(Arena *arena, const char *source, Mutants *out);
/* The text of one, in the arena. */
char *mutant_text(Arena *arena, const Mutants *m, uint32_t which);
/* Does it leave out a call, or loosen one or a condition? */
bool mutant_loosens_sync(const Mutants *m, uint32_t which);
/* For lists: its line as it was, and what is otherwise. */
char *mutant_name(Arena *arena, const Mutants *m, uint32_t which);

typedef enum MutantOutcome {
  MUTANT_SURVIVED,
  MUTANT_KILLED,    /* it was told what is wrong, or the result was */
  MUTANT_STILLBORN, /* it does not compile, or is the same program */
  MUTANT_TIMED_OUT, /* or fell over the host */
} MutantOutcome;

/* Runs it in a process of its own, for so many seconds of a processor.  run:
 * does the kernel do what it should, with this seed? */
MutantOutcome mutant_run(const char *source, uint32_t seeds, uint32_t seconds,
                         bool (*run)(void *owner, Sim *s, uint64_t seed),
                         void *owner);

#endif
