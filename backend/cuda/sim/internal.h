/* backend/cuda/sim: what its files share.
 *
 * Who may see what is kept by clocks.  Each agent (a thread, its
 * cp.has_cp_async and its bulk stores, each mbarrier's loads, each warpgroup's
 * products) has a number and a time; an access is stamped with both.  A thread
 * has a clock: of each agent the time up to which it sees what that did.
 * Barriers join the clocks of those who arrive, into those who go on.  An
 * access is wrong if one before it, to the same byte, is not within the clock
 * of who does it.
 *
 * Of a clock's second half: what the asynchronous proxy (TMA, wgmma) sees of
 * what was done by plain accesses; ax_fence_async takes over the first half. */
#ifndef AXON_CUDA_SIM_INTERNAL_H
#define AXON_CUDA_SIM_INTERNAL_H

#include "backend/cuda/sim/abi.h"
#include "backend/cuda/sim/fiber.h"
#include "backend/cuda/sim/sim.h"

enum {
  SIM_WARP_LANES = 32,
  SIM_WARPGROUP_THREADS = 128, /* threads of a warpgroup */
  SIM_NAMED_BARRIERS = 16,     /* barriers of a block */
  SIM_SHARED_BASE = 1024,      /* the first address of dynamic shared memory */
  SIM_MAX_READERS = 3,         /* readers of a byte that are remembered */
  SIM_FIRST_CODE_SITE = 1 << 24, /* sites from here on are places in the code */
  SIM_TEXT_BYTES = 200,          /* of a site or an agent */
};

typedef uint32_t VectorClock; /* an array of them */

/* Agent << 32 | time, and flags above. */
typedef uint64_t Epoch;
#define EPOCH_ASYNC (1ull << 48) /* by the asynchronous proxy */
#define EPOCH_ATOMIC (1ull << 49)
#define EPOCH_MBARRIER (1ull << 50) /* the byte is of an mbarrier */

typedef struct ShadowCell { /* of a byte of shared memory */
  Epoch write, reads[SIM_MAX_READERS];
  uint32_t write_site, read_sites[SIM_MAX_READERS];
} ShadowCell;

typedef enum AgentKind {
  AGENT_THREAD,
  AGENT_CP_ASYNC,   /* cp.has_cp_async of a thread */
  AGENT_BULK_STORE, /* by the asynchronous proxy: bulk groups of a thread */
  AGENT_TMA_LOAD,   /* loads that arrive at an mbarrier */
  AGENT_WGMMA,      /* wgmma of a warpgroup */
} AgentKind;

typedef struct Agent {
  AgentKind kind;
  uint32_t rank, number; /* of the block in its cluster; of the thread, ... */
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

/* Registers that a product has: accumulators, or A. */
typedef struct WgmmaRegisters {
  const char *address;
  uint32_t bytes, wgmma_group; /* the wgmma group */
  bool written, in_flight;
  bool dirty;           /* written since the last fence */
  bool needs_hold;      /* has ended, and ax_wgmma_hold was not called */
  float *pending_value; /* of accumulators that fly: what they will be */
  int line;
} WgmmaRegisters;

struct SimThread {
  AxSelf self;
  SimBlock *block;
  Fiber fiber;
  ThreadState state;
  int op;                       /* what it waits in */
  AxCall *call;                 /* its own */
  const struct Warp *gathering; /* waits for the others of it, to do that */
  uint32_t agent;               /* its agent */
  VectorClock *clock;
  uint32_t cp_async_agent, bulk_agent;   /* their agents; 0: none yet */
  uint32_t cp_async_groups, bulk_groups; /* committed */
  uint32_t last_bulk_group;              /* the last that has something */
  int last_bulk_line;
  VEC(WgmmaRegisters) wgmma_registers;
  uint32_t wgmma_fences; /* ax_wgmma_fence since the last wait */
  bool cluster_arrived,
      cluster_barrier_done; /* at the cluster's barrier; it ended */
};

typedef struct SimBarrier {
  uint32_t count, arrived;
  VectorClock *clock; /* of those who arrived */
} SimBarrier;

typedef struct RemoteArrival { /* of a thread of another block, the last one */
  Epoch epoch;
  uint32_t phase; /* that it belongs to: so many have ended when it has */
  int line;
} RemoteArrival;

typedef struct Mbarrier {
  uint32_t offset, count, pending, phase; /* phases that have ended */
  int64_t pending_bytes;                  /* expected, less those that came */
  uint32_t pending_loads;                 /* under way, of this phase */
  uint32_t last_load_phase;               /* time of the last that began */
  int last_load_line;
  uint32_t agent;
  VectorClock *arriving_clock, *phase_clock;
  Epoch init_epoch;
  uint32_t init_thread; /* the thread that did it, in its block */
  bool is_fenced;       /* by the asynchronous proxy and the cluster */
  VEC(RemoteArrival) remote_arrivals;
  int line;
} Mbarrier;

typedef struct Warp { /* or a warpgroup */
  uint32_t waiting;   /* threads that wait in an op of all of them */
  uint32_t agent,
      committed_groups; /* of a warpgroup: its products; committed */
  uint32_t registers;   /* of a thread of the warpgroup; 0: as it began */
} Warp;

struct SimBlock {
  SimCluster *cluster;
  uint32_t rank, live_threads, grid_index; /* number: in the grid */
  AxIndex index;
  unsigned char *shared;
  ShadowCell *shadow;
  SimThread *threads;
  Warp *warps, *warpgroups;
  SimBarrier block_barrier, named_barriers[SIM_NAMED_BARRIERS];
  VEC(Mbarrier *) mbarriers;
};

/* What is done later than it is begun. */
typedef struct AsyncOp {
  SimThread *issuer;
  bool (*finish)(SimRun *r, const struct AsyncOp *p);
  int op, line;
  uint32_t group; /* its number */
  uint32_t agent; /* its agent */
  uint64_t n[8];
  const void *p[3];
  int coords[2 * SIM_MAX_RANK]; /* of a box; of pixels, offsets behind it */
  Mbarrier **mbarriers; /* where it arrives, one for each block, or NULL */
  SimBlock *block;
  float **accumulators; /* of a product: accumulators of each thread; and A */
  const unsigned **a;
} AsyncOp;

struct SimCluster {
  uint32_t number;
  SimBlock *blocks;
  uint32_t live_threads;            /* threads */
  uint32_t agent_count, max_agents; /* agents; and room for them */
  bool fenced;                      /* second halves are in use */
  Agent *agents;
  SimBarrier barrier;
  VectorClock *scratch;
  VectorClock *last_barrier_clock; /* of the last time that it ended */
  Arena *arena;
  VEC(AsyncOp *) pending;
  bool in_use;
};

struct Sim {
  void *library;
  const AxTable **table;
  char *folder, *path, *name;
  const char *from, *to; /* its constants */
  uintptr_t base;
};

/* Of a byte of global memory that the kernel may write: who wrote it last. */
typedef struct GlobalWrite {
  Epoch epoch; /* 0: nobody */
  uint64_t time;
  uint32_t cluster, block; /* of the grid; numbers from 1 on */
  uint32_t site;
} GlobalWrite;

/* When a block did what orders global memory between blocks. */
typedef struct BlockOrder {
  VEC(uint64_t) fences;
  uint64_t last_atomic; /* the last */
} BlockOrder;

struct SimRun {
  Sim *sim;
  const SimLaunch *launch;
  uint32_t threads, cluster_blocks; /* of a block; blocks of a cluster */
  void (*kernel)(const void *args);
  AxTable table;
  uint64_t random, steps;
  SimCluster *clusters;
  uint32_t cluster_count;
  SimThread *current; /* NULL: the host */
  VEC(SimThread *) ready;
  uint32_t pending_count;                   /* asynchronous, of all clusters */
  uint32_t next_cluster, finished_clusters; /* clusters of the grid */
  bool cluster_ended;                       /* one of them has */
  Arena *arena;
  SimMemory *ranges; /* sorted */
  const SimMemory *last_range;
  GlobalWrite **global_writes; /* for each range; NULL: nothing yet */
  BlockOrder *block_order;     /* of each block of the grid */
  uint64_t time;               /* fences and atomics up to now */
  Buffer *error;
  bool failed;
};

/* ---- run.c ---- */

/* Says what is wrong, once, at the site of thread t (NULL: of none); false. */
bool sim_fail(SimRun *r, const SimThread *t, uint32_t site, const char *format,
              ...) __attribute__((format(printf, 4, 5)));
uint32_t sim_random(SimRun *r, uint32_t below);
/* The current thread waits until it is woken. */
void sim_wait(SimRun *r, SimThread *t, int op, AxCall *call);
void sim_wake(SimRun *r, SimThread *t);
/* Another's turn: this one has said already when it goes on. */
void sim_pause(SimRun *r, SimThread *t);
/* Others may run first. */
void sim_yield(SimRun *r, SimThread *t);
const char *sim_op_name(int op);
/* Where that is in the text. */
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
/* The lesser of both: what all see. */
void clock_meet(const SimCluster *c, VectorClock *into,
                const VectorClock *from);
void clock_clear(const SimCluster *c, VectorClock *clock);
/* What the thread did is given on, and what it does next is not. */
void clock_release(SimThread *t, VectorClock *into);
/* The same to another block, of what the asynchronous proxy did. */
void clock_release_remote(SimThread *t, VectorClock *into);
Epoch clock_epoch(const SimThread *t);
static inline bool clock_sees(const VectorClock *clock, Epoch s) {
  return (uint32_t)s <= clock[s >> 32 & 0xffff];
}

typedef struct ShadowAccess {
  SimBlock *block;
  uint32_t offset, bytes;
  bool write;
  const VectorClock *clock; /* of who does it */
  Epoch epoch;              /* flags too */
  uint32_t site;
  const SimThread *thread;
} ShadowAccess;

/* Whether that may be done now; from now on it was. */
bool shadow_check(SimRun *r, const ShadowAccess *t);
/* By the thread itself. */
bool shadow_check_plain(SimRun *r, SimThread *t, SimBlock *block,
                        uint32_t offset, uint32_t bytes, bool write,
                        uint64_t flags, uint32_t site);
/* An address that a wrapper was given, to an offset in shared memory. */
bool shared_offset_of(SimRun *r, const SimThread *t, int line, uint64_t address,
                      uint32_t bytes, uint32_t align, uint32_t *offset);

/* ---- memory.c ---- */

/* Is it within global memory that may be touched so? */
bool global_check(SimRun *r, const SimThread *t, uint32_t site, const void *at,
                  size_t bytes, bool write);
/* And is what it reads or writes there ordered after the last write? */
bool global_order(SimRun *r, SimThread *t, uint32_t site, const void *at,
                  size_t bytes, bool write, bool atomic);
void global_free(SimRun *r);
void on_access(const void *at, unsigned long bytes, int write, int aligned,
               const void *pc);
void on_wrong(const char *what, const void *pc);
void op_memory(SimRun *r, SimThread *t, int op, AxCall *c);

/* ---- barriers.c ---- */

void op_barrier(SimRun *r, SimThread *t, int op, AxCall *c);
/* A thread has left its block. */
void barriers_on_thread_exit(SimRun *r, SimThread *t);
Mbarrier *mbarrier_at(SimRun *r, const SimThread *t, SimBlock *block,
                      uint64_t address, int line);
/* Bytes that came by a load. */
bool mbarrier_complete_bytes(SimRun *r, Mbarrier *m, SimBlock *block,
                             int64_t bytes);

/* ---- warp_collectives.c ---- */

/* Is the thread the last of `count`, from `first` on, to come to this op?  The
 * others wait; where it is not, it has waited, and the op is done. */
bool warp_gather(SimRun *r, SimThread *t, Warp *w, SimThread *first,
                 uint32_t count, int op, AxCall *c);
/* The others go on. */
void warp_wake(SimRun *r, SimThread *t, SimThread *first, uint32_t count);
/* What all of them see, until this is called again. */
const VectorClock *warp_common_clock(SimThread *first, uint32_t count);
void op_warp(SimRun *r, SimThread *t, int op, AxCall *c);
float ax_bits_to_float(AxType type, uint32_t bits);
float sim_from_f16(uint16_t bits);
uint16_t sim_to_f16(float x);

/* ---- async.c ---- */

void op_async(SimRun *r, SimThread *t, int op, AxCall *c);
AsyncOp *async_op_new(SimRun *r, SimThread *t, int op, const AxCall *c);
/* Those of an agent up to this group are done. */
bool async_op_finish_groups(SimRun *r, SimCluster *c, uint32_t who,
                            uint32_t group);
bool async_op_finish(SimRun *r, SimCluster *c, uint32_t which);

/* Bytes that an asynchronous write begins to write, and that arrive at m. */
bool async_write(SimRun *r, SimThread *t, SimBlock *b, Mbarrier *m,
                 uint32_t offset, uint32_t bytes, int line);
/* Bytes that the thread's bulk group begins to read. */
bool async_read(SimRun *r, SimThread *t, uint32_t offset, uint32_t bytes,
                int line);

/* ---- tma.c ---- */

void op_tma(SimRun *r, SimThread *t, int op, AxCall *c);

/* ---- wgmma.c ---- */

void op_warpgroup(SimRun *r, SimThread *t, int op, AxCall *c);
/* The thread touches its own stack: registers that a product has? */
bool wgmma_registers_check(SimRun *r, SimThread *t, const char *at,
                           size_t bytes, bool write, uint32_t site);
bool wgmma_registers_hold(SimRun *r, SimThread *t, const AxCall *c);

#endif
