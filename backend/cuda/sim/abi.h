/* backend/cuda/sim: interface between a kernel compiled for the host and the
 * simulator.  C and C++. */
#ifndef AXON_CUDA_ABI_H
#define AXON_CUDA_ABI_H

#include <stdint.h>

/* A call of an intrinsic: source line, operands, and result. */
typedef struct AxCall {
  int line;
  uint64_t n[8];
  const void *p[3];
  uint64_t result;
} AxCall;

/* Operations.  Warp operations (from AX_WARP on) execute once all lanes have
 * reached them, warpgroup operations (from AX_GROUP on) once all four warps
 * have.  Others execute per thread. */
typedef enum AxOp {
  AX_OP_NONE,
  AX_SHARED,         /* result: host address of shared memory */
  AX_SHARED_ADDRESS, /* p0: pointer into shared memory */
  AX_SYNC,           /* n0: reduction (AxVote) of n1 */
  AX_LOAD,  /* p0: global address, n0: bytes, n1: must never be written */
  AX_STORE, /* p0: address, n0: bytes of an atomic access */
  AX_ATOMIC,
  AX_YIELD,       /* n0: also a fence of global memory */
  AX_COPY,        /* n0: destination, p0: source, n1 of n2 bytes */
  AX_COPY_COMMIT, /* n0: pending groups */
  AX_COPY_WAIT,
  AX_FENCE_ASYNC,
  AX_FENCE_INIT,
  AX_MBARRIER_INIT, /* n0: mbarrier, n1: count */
  /* n0: mbarrier, n1: expected bytes, n2: rank, n3: other block */
  AX_MBARRIER_ARRIVE,
  AX_MBARRIER_TRY, /* n0: mbarrier, n1: parity */
  AX_MBARRIER_WAIT,
  AX_CLUSTER_RANK,
  AX_CLUSTER_BLOCKS,
  AX_CLUSTER_ARRIVE,
  AX_CLUSTER_WAIT, /* n0: address, n1: rank */
  AX_CLUSTER_LOAD,
  AX_BULK_LOAD,    /* n0: destination, p0: source, n1: bytes, n2: mbarrier */
  AX_BULK_STORE,   /* p0: destination, n0: source, n1: bytes */
  AX_TMA_PREFETCH, /* p0: map */
  /* n0: destination, p0: map, n1: mbarrier, n2: block mask or 0, n3: axes, p1:
   * int[] of coordinates, n4: im2col, offsets follow the coordinates, n5: the
   * mbarrier is in the first block of the pair */
  AX_TMA_LOAD,
  AX_TMA_STORE, /* n0: source, p0: map, n3: axes, p1: int[] of coordinates */
  AX_TMA_COMMIT,
  AX_TMA_WAIT,      /* n0: pending groups, n1: wait for reads only */
  AX_HOLD,          /* p0: d, n0: elements */
  AX_TCGEN05_FENCE, /* n0: after the barrier, not before it */
  /* n0: kind (AxKind), n1: address of d, n2, n3: descriptors, n4: instruction
   * descriptor, n5: add, n6: of a pair of blocks, n7: with scales, the address
   * of those of a, and of those of b << 32; without scales, 1: n2 is the
   * address of A in tensor memory, not a descriptor */
  AX_TCGEN05_MMA,
  AX_TCGEN05_COPY,   /* n0: address in tensor memory, n1: descriptor */
  AX_TCGEN05_COMMIT, /* n0: mbarrier, n1: block mask or 0, n2: of a pair */
  AX_TRAP,           /* p0: reason, or NULL */
  AX_WARP,           /* n0: id, n1: count, n2: arrive only */
  AX_BARRIER,
  AX_SYNC_WARP, /* n0: value, n1: AxShuffle, n2: operand */
  AX_SHUFFLE,
  AX_VOTE,  /* n0: AxVote, n1: value */
  AX_ELECT, /* p0: registers, n0: row address, n1: matrices, n2: transposed */
  AX_LDMATRIX,
  AX_STMATRIX, /* p0: d, p1: a, p2: b, n0: AxType, n1: k */
  AX_MMA,
  AX_TMEM_ALLOC,  /* n0: shared address of the result, n1: columns, n2: pair */
  AX_TMEM_PERMIT, /* n0: pair */
  AX_TMEM_FREE,   /* n0: address, n1: columns, n2: pair */
  AX_TMEM_LOAD,   /* p0: registers, n0: address, n1: columns */
  AX_TMEM_STORE,  /* the same; n2: pairs of 16-bit values */
  AX_TMEM_WAIT,   /* n0: for stores, not for loads */
  AX_GROUP,       /* n0: registers per thread, n1: increase */
  AX_REGISTERS,
  AX_WGMMA_FENCE,
  AX_WGMMA_COMMIT, /* n0: pending groups */
  AX_WGMMA_WAIT,
  /* p0: d, n0: AxType, n1: columns, n2: descriptor of a or p1: registers of a,
   * n3: descriptor of b, n4: add, n5 and n6: A and B are MN-major */
  AX_WGMMA,
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

typedef enum AxType {
  AX_F16,
  AX_BF16,
  AX_TF32,
  AX_E4M3,
  AX_E5M2,
  AX_BYTE, /* as a number */
} AxType;

/* Kinds of tcgen05.mma. */
typedef enum AxKind {
  AX_KIND_F16,
  AX_KIND_TF32,
  AX_KIND_F8,
  AX_KIND_MXF4,
  AX_KIND_NVF4,
} AxKind;

typedef struct AxIndex {
  unsigned x, y, z;
} AxIndex;

/* State of the running thread that the kernel reads. */
typedef struct AxSelf {
  /* lane.x: lane in the warp, lane.y: warp in the block */
  AxIndex thread, block, lane;
} AxSelf;

typedef struct AxTable {
  const AxSelf *self;
  AxIndex block_dim, grid_dim;
  void (*call)(int op, AxCall *call);
  /* Called by instrumented code before each access.  write: 0 or 1; aligned:
   * the address must be aligned. */
  void (*access)(const void *at, unsigned long bytes, int write, int aligned,
                 const void *pc);
  /* Called by instrumented code for undefined behaviour of C++. */
  void (*wrong)(const char *what, const void *pc);
  float (*from_f16)(uint16_t bits);
  uint16_t (*to_f16)(float x);
} AxTable;

#endif
