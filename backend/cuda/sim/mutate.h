/* backend/cuda/sim: mutation tests for the simulator.  Rules create mutants of
 * a kernel: each call of an intrinsic is deleted, waits permit one more pending
 * group, parities are flipped, conditions become true, false, or off by one,
 * operators are exchanged (except + 0), and each number is increased. */
#ifndef AXON_CUDA_MUTATE_H
#define AXON_CUDA_MUTATE_H

#include "backend/cuda/sim/sim.h"
#include "support/vec.h"

typedef struct Arena Arena;

typedef struct Mutant {
  uint32_t from, to; /* the replaced part of the source */
  const char *replacement;
  uint32_t line;
} Mutant;

typedef struct Mutants {
  const char *source;
  VEC(Mutant) all;
} Mutants;

void mutants_find(Arena *arena, const char *source, Mutants *out);
/* The source of a mutant, in the arena. */
char *mutant_text(Arena *arena, const Mutants *m, uint32_t which);
/* True if the mutant deletes a call, or weakens a call or condition. */
bool mutant_loosens_sync(const Mutants *m, uint32_t which);
/* For lists: the original line and the change. */
char *mutant_name(Arena *arena, const Mutants *m, uint32_t which);

typedef enum MutantOutcome {
  MUTANT_SURVIVED,
  /* The simulator reported an error, or the result is wrong. */
  MUTANT_KILLED,
  MUTANT_STILLBORN, /* does not compile, or is equivalent */
  MUTANT_TIMED_OUT, /* or crashed the host process */
} MutantOutcome;

/* Runs a mutant in a child process with a limit of CPU seconds.  run: true if
 * the kernel gives the right result with this seed. */
MutantOutcome mutant_run(const char *source, uint32_t seeds, uint32_t seconds,
                         bool (*run)(void *owner, Sim *s, uint64_t seed),
                         void *owner);

#endif
