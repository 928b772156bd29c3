/* backend/cuda/sim: shared by its files.
 *
 * The race detector uses vector clocks.  Agents are threads, the cp.async
 * operations and the bulk stores of a thread, the loads of an mbarrier, the
 * wgmmas of a warpgroup, the products by tcgen05 of a thread, and the loads
 * from tensor memory of a warp.  Each agent has a number and a time.  An access
 * has an epoch: its agent and time.  A thread has a vector clock: for each
 * agent, the time up to which its effects are visible.  A barrier joins the
 * clocks of all arriving threads into those that it releases.  An access is a
 * race if an earlier access to the same byte is not within the clock of its
 * thread.
 *
 * The second half of a clock is for the asynchronous proxy (TMA, wgmma): the
 * plain accesses that it sees.  ax_fence_async copies the first half to the
 * second. */
#ifndef AXON_CUDA_SIM_INTERNAL_H
#define AXON_CUDA_SIM_INTERNAL_H

#include "backend/cuda/sim/abi.h"
#include "backend/cuda/sim/fiber.h"
#include "backend/cuda/sim/layouts.h"
#include "backend/cuda/sim/sim.h"
#include "support/vec.h"

#include <stdio.h>

typedef struct Arena Arena;
typedef struct Buffer Buffer;

enum {
  SIM_WARP_LANES = 32,
  SIM_WARPGROUP_THREADS = 128,
  SIM_NAMED_BARRIERS = 16, /* of a block */
  SIM_SHARED_BASE = 1024,  /* first address of dynamic shared memory */
  SIM_MAX_READERS = 3,     /* readers that a shadow cell stores */
  SIM_SHADOW_WORD = 4,     /* bytes that share a cell while it suffices */
  /* Larger sites are code addresses, smaller ones are lines. */
  SIM_FIRST_CODE_SITE = 1 << 24,
  SIM_TEXT_BYTES = 200, /* description of a site or an agent */
};

/* Array, indexed by agent.  Elements of agents that do not exist are 0. */
typedef uint32_t VectorClock;

/* Agent << 32 | time, and flags in higher bits. */
typedef uint64_t Epoch;
#define EPOCH_ASYNC (1ull << 48) /* by the asynchronous proxy */
#define EPOCH_ATOMIC (1ull << 49)
#define EPOCH_MBARRIER (1ull << 50) /* the byte belongs to an mbarrier */
#define EPOCH_SPLIT (1ull << 51)    /* each byte of the word has its own cell */

/* One byte of shared memory, or a word whose bytes have the same state. */
typedef struct ShadowCell {
  Epoch write, reads[SIM_MAX_READERS];
  uint32_t write_site, read_sites[SIM_MAX_READERS];
} ShadowCell;

typedef enum AgentKind {
  AGENT_THREAD,
  AGENT_CP_ASYNC,   /* cp.async of a thread */
  AGENT_BULK_STORE, /* bulk stores of a thread, by the asynchronous proxy */
  AGENT_TMA_LOAD,   /* loads that complete at an mbarrier */
  AGENT_WGMMA,      /* wgmmas of a warpgroup */
  AGENT_TCGEN05,    /* products by tcgen05 of a thread */
  AGENT_TMEM_LOAD,  /* loads from tensor memory of a warp */
  AGENT_TMEM_STORE, /* its stores to tensor memory */
} AgentKind;

typedef struct Agent {
  AgentKind kind;
  /* Block in the cluster; thread, mbarrier or warpgroup in the block. */
  uint32_t rank, number;
  /* Operations of its groups that are not complete, in order of issue. */
  struct AsyncOp *pending;
} Agent;

typedef struct SimBlock SimBlock;
typedef struct SimThread SimThread;
typedef struct SimCluster SimCluster;
typedef struct SimRun SimRun;

typedef enum ThreadState {
  THREAD_READY,
  THREAD_BLOCKED,
  THREAD_DONE
} ThreadState;

/* Registers of a wgmma, accumulators or operand A; or of a load from tensor
 * memory. */
typedef struct AsyncRegisters {
  const char *address;
  uint32_t bytes, wgmma_group; /* the wgmma group that uses them */
  bool written, in_flight;
  bool dirty; /* written since the last ax_wgmma_fence */
  /* The wgmma is complete, but ax_hold was not called. */
  bool needs_hold;
  /* Accumulators in flight: their value after completion. */
  float *pending_value;
  bool is_load;
  uint32_t tmem_address; /* of a load */
  int line;
} AsyncRegisters;

struct SimThread {
  AxSelf self;
  SimBlock *block;
  Fiber fiber;
  ThreadState state;
  int op;       /* blocked in this operation */
  AxCall *call; /* of the blocked operation */
  /* Blocked until the other lanes reach the same operation. */
  const struct Warp *gathering;
  uint32_t agent; /* of the thread itself */
  VectorClock *clock;
  uint32_t cp_async_agent, bulk_agent;   /* 0: none yet */
  uint32_t cp_async_groups, bulk_groups; /* committed groups */
  uint32_t last_bulk_group;              /* the last group that is not empty */
  int last_bulk_line;
  VEC(AsyncRegisters) async_registers;
  uint32_t wgmma_fences; /* calls of ax_wgmma_fence since the last wait */
  /* What tcgen05 instructions of the thread see; NULL: nothing. */
  VectorClock *tcgen05_clock;
  uint32_t tcgen05_agent, tcgen05_groups; /* its products; commits */
  /* Loads and stores of its warp that are complete. */
  uint32_t tmem_waited[2];
  /* Arrived at the cluster barrier; the barrier has completed since. */
  bool cluster_arrived, cluster_barrier_done;
};

typedef struct SimBarrier {
  uint32_t count, arrived;
  VectorClock *clock; /* joined clocks of the arrived threads */
} SimBarrier;

/* The last arrival of a thread of another block, or of a commit of tcgen05
 * products. */
typedef struct RemoteArrival {
  /* 0: of a commit.  Only a wait for the mbarrier orders anything after it. */
  Epoch epoch;
  /* The phase that it belongs to; complete once Mbarrier.phase reaches it. */
  uint32_t phase;
  int line;
} RemoteArrival;

typedef struct Mbarrier {
  uint32_t offset, count, pending, phase; /* phase: completed phases */
  /* Expected bytes minus arrived bytes. */
  int64_t pending_bytes;
  uint32_t pending_loads; /* in flight, of this phase */
  /* Phase of the last load that was issued. */
  uint32_t last_load_phase;
  int last_load_line;
  uint32_t agent;
  VectorClock *arriving_clock, *phase_clock;
  Epoch init_epoch;
  uint32_t init_thread; /* the thread in the block that initialized it */
  bool is_fenced;       /* visible to the asynchronous proxy and the cluster */
  /* Its thread has arrived at ax_cluster_begin; all threads have. */
  bool is_announced, is_known;
  VEC(RemoteArrival) remote_arrivals;
  int line;
} Mbarrier;

/* A warp or a warpgroup. */
typedef struct Warp {
  uint32_t waiting; /* threads that are blocked in a collective operation */
  const SimThread *waiter; /* one of them; NULL: none */
  uint32_t ended;          /* threads that have ended */
  /* Of a warpgroup: agent of its wgmmas; committed wgmma groups. */
  uint32_t agent, committed_groups;
  /* Of a warp: agents of its loads from tensor memory and of its stores; their
   * numbers. */
  uint32_t tmem_agents[2], tmem_accesses[2];
  uint32_t registers; /* per thread of the warpgroup; 0: initial number */
} Warp;

typedef struct TensorMemory TensorMemory;

struct SimBlock {
  SimCluster *cluster;
  /* rank: in the cluster; grid_index: in the grid */
  uint32_t rank, live_threads, grid_index;
  AxIndex index;
  unsigned char *shared;
  ShadowCell *shadow, *shadow_bytes; /* of words; of bytes of split words */
  SimThread *threads;
  Warp *warps, *warpgroups;
  SimBarrier block_barrier, named_barriers[SIM_NAMED_BARRIERS];
  VEC(Mbarrier *) mbarriers;
  TensorMemory *tensor_memory;     /* NULL: not in use */
  VEC(VectorClock *) spare_clocks; /* of commits that are complete */
};

/* An asynchronous operation between issue and completion. */
typedef struct AsyncOp {
  SimThread *issuer;
  bool (*finish)(SimRun *r, const struct AsyncOp *p);
  int op, line;
  uint32_t group;       /* its commit group */
  uint32_t agent;       /* its agent */
  uint32_t place;       /* in the pending operations of the cluster */
  struct AsyncOp *next; /* of its agent */
  uint64_t n[8];
  const void *p[3];
  /* Of a box; in im2col mode, followed by the offsets. */
  int coords[2 * SIM_MAX_RANK];
  /* Mbarriers of the destination blocks, where it completes, by rank; or
   * NULL. */
  Mbarrier **mbarriers;
  SimBlock *block;
  VectorClock *clock; /* of a commit: what its products saw and did */
  /* Of a wgmma: accumulators and operand A of each thread. */
  float **accumulators;
  const unsigned **a;
} AsyncOp;

struct SimCluster {
  uint32_t number;
  SimBlock *blocks;
  uint32_t live_threads;            /* threads that have not exited */
  uint32_t agent_count, max_agents; /* and capacity of clocks */
  uint32_t tcgen05_group; /* blocks of its tcgen05 instructions; 0: none yet */
  bool fenced;            /* the second halves of clocks are in use */
  Agent *agents;
  SimBarrier barrier;
  VectorClock *scratch;
  VectorClock *last_barrier_clock; /* of the last completion */
  Arena *arena;
  VEC(AsyncOp *) pending;
  bool in_use;
};

struct Sim {
  void *library;
  const AxTable **table;
  char *folder, *path, *name;
  const char *from, *to; /* address range of its constants */
  uintptr_t base;
};

/* The last write to a byte of global memory. */
typedef struct GlobalWrite {
  Epoch epoch; /* 0: never written */
  uint64_t time;
  uint32_t cluster, block; /* in the grid, plus one */
  uint32_t site;
} GlobalWrite;

/* The times at which a block executed operations that order global memory. */
typedef struct BlockOrder {
  VEC(uint64_t) fences;
  uint64_t last_atomic; /* time of the last atomic operation */
  uint64_t acquired;    /* the same, of those before the last fence */
} BlockOrder;

struct SimRun {
  Sim *sim;
  const SimLaunch *launch;
  uint32_t threads, cluster_blocks; /* threads per block; blocks per cluster */
  void (*kernel)(const void *args);
  AxTable table;
  uint64_t random, steps;
  SimCluster *clusters;
  uint32_t cluster_count;
  SimThread *current; /* NULL: the host */
  VEC(SimThread *) ready;
  /* Asynchronous operations of all clusters. */
  uint32_t pending_count;
  uint32_t next_cluster, finished_clusters; /* clusters of the grid */
  /* A cluster has ended since the last refill. */
  bool cluster_ended;
  Arena *arena;
  SimMemory *ranges; /* sorted by address */
  const SimMemory *last_range;
  GlobalWrite **global_writes; /* per range; NULL: not written yet */
  BlockOrder *block_order;     /* per block of the grid */
  uint64_t time;               /* counts fences and atomic operations */
  Buffer *error;
  bool failed;
};

/* ---- run.c ---- */

/* Records the first error, at a site of thread t (NULL: of no thread).  Returns
 * false. */
bool sim_fail(SimRun *r, const SimThread *t, uint32_t site, const char *format,
              ...) __attribute__((format(printf, 4, 5)));
uint32_t sim_random(SimRun *r, uint32_t below);
/* Blocks the current thread until another one wakes it. */
void sim_wait(SimRun *r, SimThread *t, int op, AxCall *call);
void sim_wake(SimRun *r, SimThread *t);
/* Yields to another thread.  The caller has changed the state of this one. */
void sim_pause(SimRun *r, SimThread *t);
/* Yields to a random thread, possibly the same. */
void sim_yield(SimRun *r, SimThread *t);
const char *sim_op_name(int op);
/* Describes a site as a source position. */
void sim_site(const SimRun *r, uint32_t site, char out[SIM_TEXT_BYTES]);

/* ---- compile.c ---- */

void (*sim_entry(const Sim *s, const char *kernel))(const void *args);
uint32_t sim_cluster_blocks(const Sim *s, const char *kernel);

/* ---- race_detector.c ---- */

uint32_t agent_new(SimCluster *c, AgentKind kind, uint32_t rank,
                   uint32_t number);
VectorClock *clock_new(SimCluster *c);
void clock_join(const SimCluster *c, VectorClock *into,
                const VectorClock *from);
/* The minimum of both clocks: what all threads see. */
void clock_meet(const SimCluster *c, VectorClock *into,
                const VectorClock *from);
void clock_clear(const SimCluster *c, VectorClock *clock);
/* Makes the effects of the thread so far visible through `into`; later effects
 * are not. */
void clock_release(SimThread *t, VectorClock *into);
/* The same for a thread of another block, and only for effects of TMA and
 * wgmma. */
void clock_release_remote(SimThread *t, VectorClock *into);
void clock_join_remote(const SimCluster *c, VectorClock *into,
                       const VectorClock *from);
Epoch clock_epoch(const SimThread *t);
static inline bool clock_sees(const VectorClock *clock, Epoch s) {
  return (uint32_t)s <= clock[s >> 32 & 0xffff];
}

/* Describes who made an access with this epoch, and its site. */
void agent_describe(const SimRun *r, const SimThread *t, Epoch stamp,
                    uint32_t site, char *out, size_t size);

typedef struct ShadowAccess {
  SimBlock *block;
  uint32_t offset, bytes;
  bool write;
  const VectorClock *clock; /* of the accessing thread */
  Epoch epoch;              /* includes flags */
  uint32_t site;
  const SimThread *thread;
} ShadowAccess;

/* Checks an access for races and records it. */
bool shadow_check(SimRun *r, const ShadowAccess *t);
/* The same for a plain access by the thread itself. */
bool shadow_check_plain(SimRun *r, SimThread *t, SimBlock *block,
                        uint32_t offset, uint32_t bytes, bool write,
                        uint64_t flags, uint32_t site);
/* Converts an address argument to an offset in shared memory. */
bool shared_offset_of(SimRun *r, const SimThread *t, int line, uint64_t address,
                      uint32_t bytes, uint32_t align, uint32_t *offset);

/* ---- memory.c ---- */

/* True if the bytes are in a range of global memory that permits the access. */
bool global_check(SimRun *r, const SimThread *t, uint32_t site, const void *at,
                  size_t bytes, bool write);
/* True if the access is ordered after the last write to the bytes. */
bool global_order(SimRun *r, SimThread *t, uint32_t site, const void *at,
                  size_t bytes, bool write, bool atomic);
void global_free(SimRun *r);
void on_access(const void *at, unsigned long bytes, int write, int aligned,
               const void *pc);
void on_wrong(const char *what, const void *pc);
void op_memory(SimRun *r, SimThread *t, int op, AxCall *c);

/* ---- barriers.c ---- */

void op_barrier(SimRun *r, SimThread *t, int op, AxCall *c);
/* Updates barriers after the exit of a thread. */
void barriers_on_thread_exit(SimRun *r, SimThread *t);
Mbarrier *mbarrier_at(SimRun *r, const SimThread *t, SimBlock *block,
                      uint64_t address, int line);
/* A load completes with these bytes. */
bool mbarrier_complete_bytes(SimRun *r, Mbarrier *m, SimBlock *block,
                             int64_t bytes);

/* One arrival of asynchronous operations, whose effects are in the clock. */
bool mbarrier_arrive_async(SimRun *r, Mbarrier *m, SimBlock *block,
                           const SimThread *by, const VectorClock *clock,
                           int line);

/* ---- warp_collectives.c ---- */

/* Waits until `count` threads from `first` on have reached a collective
 * operation.  True for the last one, which then executes it.  The others block,
 * and get false after the operation. */
bool warp_gather(SimRun *r, SimThread *t, Warp *w, SimThread *first,
                 uint32_t count, int op, AxCall *c);
/* Wakes the other threads. */
void warp_wake(SimRun *r, SimThread *t, SimThread *first, uint32_t count);
/* The clock of what all threads see.  Valid until the next call. */
const VectorClock *warp_common_clock(SimThread *first, uint32_t count);
void op_warp(SimRun *r, SimThread *t, int op, AxCall *c);
float ax_bits_to_float(AxType type, uint32_t bits);
uint32_t ax_type_bytes(AxType type);
float sim_from_f16(uint16_t bits);
uint16_t sim_to_f16(float x);

/* ---- async.c ---- */

void op_async(SimRun *r, SimThread *t, int op, AxCall *c);
AsyncOp *async_op_new(SimRun *r, SimThread *t, int op, const AxCall *c);
/* Makes the operation a part of a group of an agent.  Groups do not decrease.
 */
void async_op_set_group(AsyncOp *p, uint32_t agent, uint32_t group);
/* Completes all operations of an agent up to this group. */
bool async_op_finish_groups(SimRun *r, SimCluster *c, uint32_t who,
                            uint32_t group);
bool async_op_finish(SimRun *r, SimCluster *c, uint32_t which);

/* Begins an asynchronous write that completes at mbarrier m. */
bool async_write(SimRun *r, SimThread *t, SimBlock *b, Mbarrier *m,
                 uint32_t offset, uint32_t bytes, int line);
/* Begins a read by the current bulk group of the thread. */
bool async_read(SimRun *r, SimThread *t, uint32_t offset, uint32_t bytes,
                int line);

/* ---- tma.c ---- */

void op_tma(SimRun *r, SimThread *t, int op, AxCall *c);

/* ---- wgmma.c ---- */

void op_warpgroup(SimRun *r, SimThread *t, int op, AxCall *c);
/* Checks an access of the thread to its stack against the registers of wgmmas
 * and loads in flight. */
bool async_registers_check(SimRun *r, SimThread *t, const char *at,
                           size_t bytes, bool write, uint32_t site);
bool async_registers_hold(SimRun *r, SimThread *t, const AxCall *c);

/* An operand in shared memory of wgmma or tcgen05.mma. */
typedef struct MmaOperand {
  SmemOperand layout;
  uint32_t start;
} MmaOperand;
/* Reads the elements as numbers; k is the fastest axis of the result.  out
 * NULL: only checks the access.  access without epoch: only reads. */
bool mma_operand_read(SimRun *r, SimThread *t, const MmaOperand *o, AxType type,
                      uint32_t mn_count, uint32_t k_count, float *out,
                      const ShadowAccess *access);

/* ---- tcgen05.c ---- */

void op_tcgen05(SimRun *r, SimThread *t, int op, AxCall *c);
/* Operations of a warp on tensor memory. */
bool op_tensor_memory(SimRun *r, SimThread *first, int op, const AxCall *c);
/* Fails if the block has not freed its tensor memory. */
void tensor_memory_check_end(SimRun *r, const SimBlock *b);

#endif
