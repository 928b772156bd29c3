/* backend/cuda/sim: what its files share.
 *
 * Who may see what is kept by clocks.  Each agent (a thread, its cp.async and
 * its bulk stores, each mbarrier's loads, each warpgroup's products) has a
 * number and a time; an access is stamped with both.  A thread has a clock: of
 * each agent the time up to which it sees what that did.  Barriers join the
 * clocks of those who arrive, into those who go on.  An access is wrong if one
 * before it, to the same byte, is not within the clock of who does it.
 *
 * Of a clock's second half: what the asynchronous proxy (TMA, wgmma) sees of
 * what was done by plain accesses; ax_fence_async takes over the first half. */
#ifndef AXON_CUDA_SIM_INTERNAL_H
#define AXON_CUDA_SIM_INTERNAL_H

#include "backend/cuda/sim/abi.h"
#include "backend/cuda/sim/fiber.h"
#include "backend/cuda/sim/sim.h"

enum {
  SIM_LANES = 32,
  SIM_GROUP = 128,   /* threads of a warpgroup */
  SIM_NAMED = 16,    /* barriers of a block */
  SIM_BASE = 1024,   /* the first address of dynamic shared memory */
  SIM_READS = 3,     /* readers of a byte that are remembered */
  SIM_FAR = 1 << 24, /* sites from here on are places in the code */
  SIM_TEXT = 200,    /* of a site or an agent */
};

typedef uint32_t Clock; /* an array of them */

/* Agent << 32 | time, and flags above. */
typedef uint64_t Stamp;
#define STAMP_ASYNC (1ull << 48) /* by the asynchronous proxy */
#define STAMP_ATOMIC (1ull << 49)
#define STAMP_BARRIER (1ull << 50) /* the byte is of an mbarrier */

typedef struct Cell { /* of a byte of shared memory */
  Stamp write, reads[SIM_READS];
  uint32_t write_site, read_sites[SIM_READS];
} Cell;

typedef enum AgentKind {
  AGENT_THREAD,
  AGENT_COPY,    /* cp.async of a thread */
  AGENT_BULK,    /* by the asynchronous proxy: bulk groups of a thread */
  AGENT_LOAD,    /* loads that arrive at an mbarrier */
  AGENT_PRODUCT, /* wgmma of a warpgroup */
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
  THREAD_WAITS,
  THREAD_DONE
} ThreadState;

/* Registers that a product has: accumulators, or A. */
typedef struct Held {
  const char *at;
  uint32_t bytes, group; /* the wgmma group */
  bool written, flying;
  bool touched; /* written since the last fence */
  bool loose;   /* has ended, and ax_wgmma_hold was not called */
  float *real;  /* of accumulators that fly: what they will be */
  int line;
} Held;

struct SimThread {
  AxSelf self;
  SimBlock *block;
  Fiber fiber;
  ThreadState state;
  int op;                       /* what it waits in */
  AxCall *call;                 /* its own */
  const struct Warp *gathering; /* waits for the others of it, to do that */
  uint32_t id;                  /* its agent */
  Clock *clock;
  uint32_t copies, bulks;            /* their agents; 0: none yet */
  uint32_t copy_groups, bulk_groups; /* committed */
  uint32_t bulk_last;                /* the last that has something */
  int bulk_line;
  VEC(Held) held;
  uint32_t fences;                    /* ax_wgmma_fence since the last wait */
  bool cluster_arrived, cluster_seen; /* at the cluster's barrier; it ended */
};

typedef struct SimBarrier {
  uint32_t count, arrived;
  Clock *clock; /* of those who arrived */
} SimBarrier;

typedef struct FarArrival { /* of a thread of another block, the last one */
  Stamp stamp;
  uint32_t phase; /* that it belongs to: so many have ended when it has */
  int line;
} FarArrival;

typedef struct Mbarrier {
  uint32_t offset, count, pending, phase; /* phases that have ended */
  int64_t bytes;                          /* expected, less those that came */
  uint32_t loads;                         /* under way, of this phase */
  uint32_t last;                          /* time of the last that began */
  int last_line;
  uint32_t agent;
  Clock *arrived, *ended;
  Stamp init;
  uint32_t by; /* the thread that did it, in its block */
  bool seen;   /* by the asynchronous proxy and the cluster */
  VEC(FarArrival) far;
  int line;
} Mbarrier;

typedef struct Warp {     /* or a warpgroup */
  uint32_t here;          /* threads that wait in an op of all of them */
  uint32_t agent, groups; /* of a warpgroup: its products; committed */
  uint32_t registers;     /* of a thread of the warpgroup; 0: as it began */
} Warp;

struct SimBlock {
  SimCluster *cluster;
  uint32_t rank, live, number; /* number: in the grid */
  AxIndex index;
  unsigned char *shared;
  Cell *cells;
  SimThread *threads;
  Warp *warps, *groups;
  SimBarrier all, named[SIM_NAMED];
  VEC(Mbarrier *) barriers;
};

/* What is done later than it is begun. */
typedef struct Pending {
  SimThread *by;
  bool (*finish)(SimRun *r, const struct Pending *p);
  int op, line;
  uint32_t group; /* its number */
  uint32_t who;   /* its agent */
  uint64_t n[8];
  const void *p[3];
  int at[2 * SIM_AXES]; /* of a box; of pixels, offsets behind it */
  Mbarrier **bars;      /* where it arrives, one for each block, or NULL */
  SimBlock *block;
  float **d; /* of a product: accumulators of each thread; and A */
  const unsigned **a;
} Pending;

struct SimCluster {
  uint32_t number;
  SimBlock *blocks;
  uint32_t live;             /* threads */
  uint32_t clocks, capacity; /* agents; and room for them */
  bool fenced;               /* second halves are in use */
  Agent *agents;
  SimBarrier barrier;
  Clock *scratch;
  Clock *barrier_last; /* of the last time that it ended */
  Arena *arena;
  VEC(Pending *) pending;
  bool used;
};

struct Sim {
  void *library;
  const AxTable **table;
  char *folder, *path, *name;
  const char *from, *to; /* its constants */
  uintptr_t base;
};

/* Of a byte of global memory that the kernel may write: who wrote it last. */
typedef struct Written {
  Stamp stamp; /* 0: nobody */
  uint64_t time;
  uint32_t cluster, block; /* of the grid; numbers from 1 on */
  uint32_t site;
} Written;

/* When a block did what orders global memory between blocks. */
typedef struct Ordered {
  VEC(uint64_t) fences;
  uint64_t atomic; /* the last */
} Ordered;

struct SimRun {
  Sim *sim;
  const SimLaunch *launch;
  uint32_t threads, per_cluster; /* of a block; blocks of a cluster */
  void (*kernel)(const void *args);
  AxTable table;
  uint64_t random, steps;
  SimCluster *clusters;
  uint32_t cluster_count;
  SimThread *current; /* NULL: the host */
  VEC(SimThread *) ready;
  uint32_t late;       /* asynchronous, of all clusters */
  uint32_t next, done; /* clusters of the grid */
  bool ended;          /* one of them has */
  Arena *arena;
  SimMemory *memory; /* sorted */
  const SimMemory *last;
  Written **written; /* for each range; NULL: nothing yet */
  Ordered *ordered;  /* of each block of the grid */
  uint64_t time;     /* fences and atomics up to now */
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
void sim_site(const SimRun *r, uint32_t site, char out[SIM_TEXT]);

/* ---- compile.c ---- */

void (*sim_entry(const Sim *s, const char *kernel))(const void *args);
uint32_t sim_cluster(const Sim *s, const char *kernel);

/* ---- clocks.c ---- */

uint32_t agent_new(SimCluster *c, AgentKind kind, uint32_t rank,
                   uint32_t number);
Clock *clock_new(SimCluster *c);
void clock_join(const SimCluster *c, Clock *into, const Clock *from);
/* The lesser of both: what all see. */
void clock_meet(const SimCluster *c, Clock *into, const Clock *from);
void clock_clear(const SimCluster *c, Clock *clock);
/* What the thread did is given on, and what it does next is not. */
void clock_release(SimThread *t, Clock *into);
/* The same to another block, of what the asynchronous proxy did. */
void clock_release_far(SimThread *t, Clock *into);
Stamp clock_stamp(const SimThread *t);
static inline bool clock_sees(const Clock *clock, Stamp s) {
  return (uint32_t)s <= clock[s >> 32 & 0xffff];
}

typedef struct Touch {
  SimBlock *block;
  uint32_t offset, bytes;
  bool write;
  const Clock *clock; /* of who does it */
  Stamp stamp;        /* flags too */
  uint32_t site;
  const SimThread *by;
} Touch;

/* Whether that may be done now; from now on it was. */
bool shadow_touch(SimRun *r, const Touch *t);
/* By the thread itself. */
bool shadow_plain(SimRun *r, SimThread *t, SimBlock *block, uint32_t offset,
                  uint32_t bytes, bool write, uint64_t flags, uint32_t site);
/* An address that a wrapper was given, to an offset in shared memory. */
bool shadow_offset(SimRun *r, const SimThread *t, int line, uint64_t address,
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
void barriers_left(SimRun *r, SimThread *t);
Mbarrier *mbarrier_at(SimRun *r, const SimThread *t, SimBlock *block,
                      uint64_t address, int line);
/* Bytes that came by a load. */
bool mbarrier_bytes(SimRun *r, Mbarrier *m, SimBlock *block, int64_t bytes);

/* ---- warps.c ---- */

/* Is the thread the last of `count`, from `first` on, to come to this op?  The
 * others wait; where it is not, it has waited, and the op is done. */
bool warp_gather(SimRun *r, SimThread *t, Warp *w, SimThread *first,
                 uint32_t count, int op, AxCall *c);
/* The others go on. */
void warp_wake(SimRun *r, SimThread *t, SimThread *first, uint32_t count);
/* What all of them see, until this is called again. */
const Clock *warp_meet(SimThread *first, uint32_t count);
void op_warp(SimRun *r, SimThread *t, int op, AxCall *c);
float number_of(AxType type, uint32_t bits);
float sim_from_f16(uint16_t bits);
uint16_t sim_to_f16(float x);

/* ---- async.c ---- */

void op_async(SimRun *r, SimThread *t, int op, AxCall *c);
Pending *pending_new(SimRun *r, SimThread *t, int op, const AxCall *c);
/* Those of an agent up to this group are done. */
bool pending_finish(SimRun *r, SimCluster *c, uint32_t who, uint32_t group);
bool pending_one(SimRun *r, SimCluster *c, uint32_t which);

/* Bytes that an asynchronous write begins to write, and that arrive at m. */
bool async_write(SimRun *r, SimThread *t, SimBlock *b, Mbarrier *m,
                 uint32_t offset, uint32_t bytes, int line);
/* Bytes that the thread's bulk group begins to read. */
bool async_read(SimRun *r, SimThread *t, uint32_t offset, uint32_t bytes,
                int line);

/* ---- box.c ---- */

void op_box(SimRun *r, SimThread *t, int op, AxCall *c);

/* ---- products.c ---- */

void op_group(SimRun *r, SimThread *t, int op, AxCall *c);
/* The thread touches its own stack: registers that a product has? */
bool held_touch(SimRun *r, SimThread *t, const char *at, size_t bytes,
                bool write, uint32_t site);
bool held_hold(SimRun *r, SimThread *t, const AxCall *c);

#endif
