/* backend/cpu: kernels as they are run, kept for the next time. */
#ifndef AXON_CPU_PROGRAM_H
#define AXON_CPU_PROGRAM_H

#include "backend/cpu/cpu.h"
#include "runtime/artifact.h"

enum { POINTERS = 96 }; /* of a kernel: results and inputs */

/* A hash of the cluster's kernel with all its numbers. */
ArtifactKey kernel_key(const Cluster *c);

/* All that a call of a kernel wants beside its tensors.  Where two kernels are
 * the same but for these, so are their programs: it is made once in a process,
 * and not changed afterwards. */
typedef struct Program {
  Object *object; /* NULL: the kernel cannot be emitted */
  const int64_t *ints;
  const double *floats;
  const KeyWord *keys; /* of the integers */
  const Keeping *keepings;
  uint32_t int_count, float_count, key_count, out_count, keeping_count;
  uint32_t outs[POINTERS]; /* results that go to memory: nodes of the cluster */
  bool chunked;            /* sums of chunks, which are then added up */
  bool places;             /* or the best of each, with their values */
  uint64_t over; /* inputs whose place the one result may take (kernel_over) */
  bool shared;   /* units that follow one another copy the same */
  int64_t units, chunks;
  Dtype accumulator;
  size_t room;
  double work; /* simple operations */
  bool exact;  /* the reference backend computes the same bits */
} Program;

/* What is kept under a hash of all that it depends on; NULL: nothing. */
const Program *program_kept(ArtifactKey key);
/* Keeps a copy; NULL: there are too many. */
const Program *program_keep(ArtifactKey key, const Program *p);

/* True if the reference backend runs the kernel this time: the compiler is not
 * done, little is to be computed, and the results have the same bits.  Any
 * other kernel waits for the compiler, so that results do not depend on what
 * the cache holds. */
bool program_is_interpreted(const Graph *g, const Program *p);

/* The cluster's kernel, being compiled from now on; NULL: it cannot be
 * emitted.  Where there are too many it lives in the kernel's arena, and
 * cluster->passing is set. */
const Program *program_of(Cluster *cluster);

#endif
