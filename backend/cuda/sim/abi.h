/* backend/cuda/sim: what a kernel that is compiled for the host calls, and what
 * it reads.  C and C++. */
#ifndef AXON_CUDA_ABI_H
#define AXON_CUDA_ABI_H

#include <stdint.h>

/* A call of a wrapper: which one, where, with what; and what it gives. */
typedef struct AxCall {
  int line;
  uint64_t n[8];
  const void *p[3];
  uint64_t result;
} AxCall;

/* Ops of a warp are done once all its lanes are there, those of a warpgroup
 * (from AX_GROUP on) once its four warps are; the others by each thread. */
typedef enum AxOp {
  AX_OP_NONE,
  AX_SHARED,         /* result: the host's address of shared memory */
  AX_SHARED_ADDRESS, /* p0: in it */
  AX_SYNC,           /* n0: what of n1 is wanted (AxVote) */
  AX_LOAD,           /* p0 global, n0 bytes; n1: that nobody writes */
  AX_STORE,
  AX_ATOMIC, /* p0, n0 bytes: it may be touched at once */
  AX_YIELD,  /* n0: and a fence of global memory */
  AX_COPY,   /* n0 to, p0 from, n1 bytes of n2 */
  AX_COPY_COMMIT,
  AX_COPY_WAIT, /* n0 pending */
  AX_FENCE_ASYNC,
  AX_FENCE_INIT,
  AX_MBARRIER_INIT,   /* n0 bar, n1 count */
  AX_MBARRIER_ARRIVE, /* n0 bar, n1 bytes expected, n2 rank, n3 other block */
  AX_MBARRIER_TRY,    /* n0 bar, n1 parity */
  AX_MBARRIER_WAIT,
  AX_CLUSTER_RANK,
  AX_CLUSTER_BLOCKS,
  AX_CLUSTER_ARRIVE,
  AX_CLUSTER_WAIT,
  AX_CLUSTER_LOAD, /* n0 address, n1 rank */
  AX_BULK_LOAD,    /* n0 to, p0 from, n1 bytes, n2 bar */
  AX_BULK_STORE,   /* p0 to, n0 from, n1 bytes */
  AX_TMA_PREFETCH, /* p0 map */
  AX_TMA_LOAD,     /* n0 to, p0 map, n1 bar, n2 blocks or 0, n3 axes, p1 int[];
                      n4: of pixels, offsets behind the coordinates */
  AX_TMA_STORE,    /* n0 from, p0 map, n3 axes, p1 int[] */
  AX_TMA_COMMIT,
  AX_TMA_WAIT,   /* n0 pending, n1 reads alone */
  AX_WGMMA_HOLD, /* p0 d, n0 elements */
  AX_TRAP,       /* p0: why, or NULL */
  AX_WARP,
  AX_BARRIER, /* n0 id, n1 count, n2 arrives alone */
  AX_SYNC_WARP,
  AX_SHUFFLE, /* n0 value, n1 AxShuffle, n2 operand */
  AX_VOTE,    /* n0 AxVote, n1 */
  AX_ELECT,
  AX_LDMATRIX, /* p0 registers, n0 row, n1 matrices, n2 transposed */
  AX_STMATRIX,
  AX_MMA, /* p0 d, p1 a, p2 b, n0 AxType, n1 k */
  AX_GROUP,
  AX_REGISTERS, /* n0 how many, n1 more */
  AX_WGMMA_FENCE,
  AX_WGMMA_COMMIT,
  AX_WGMMA_WAIT, /* n0 pending */
  AX_WGMMA,      /* p0 d, n0 AxType, n1 columns, n2 a or p1 its registers,
                    n3 b, n4 add, n5 and n6: A and B are MN-major */
} AxOp;

typedef enum AxVote {
  AX_VOTE_NONE,
  AX_VOTE_OR,
  AX_VOTE_AND,
  AX_VOTE_COUNT,
  AX_VOTE_BITS,
} AxVote;

typedef enum AxShuffle {
  AX_SHUFFLE_LANE,
  AX_SHUFFLE_XOR,
  AX_SHUFFLE_UP,
  AX_SHUFFLE_DOWN,
} AxShuffle;

typedef enum AxType { AX_F16, AX_BF16, AX_TF32 } AxType;

typedef struct AxIndex {
  unsigned x, y, z;
} AxIndex;

/* What a kernel reads of the thread that runs. */
typedef struct AxSelf {
  AxIndex thread, block, lane; /* lane.x, lane.y: its number in the warp, the
                                  warp's in the block */
} AxSelf;

typedef struct AxTable {
  const AxSelf *self;
  AxIndex block_dim, grid_dim;
  void (*call)(int op, AxCall *call);
  /* Of the compiler, before each access: write is 0 or 1, aligned is whether
   * the address must be. */
  void (*access)(const void *at, unsigned long bytes, int write, int aligned,
                 const void *pc);
  /* Of the compiler: what C++ leaves undefined. */
  void (*wrong)(const char *what, const void *pc);
  float (*from_f16)(uint16_t bits);
  uint16_t (*to_f16)(float x);
} AxTable;

#endif
