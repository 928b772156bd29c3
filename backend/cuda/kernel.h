/* backend/cuda: compiles kernels to CUDA C++.
 *
 * A kernel becomes one source with one or more *passes*: `__global__` functions
 * that run one after the other.  A pass distributes the points of the parallel
 * axes over thread blocks.  A *thread group* computes a point: one thread, a
 * part of a warp, or a whole block.  Within a pass, intermediates are in
 * registers, shared memory or scratch memory.  Between passes, they are in
 * scratch memory.
 *
 * Statements come from backend/emit/scalar_ops.c, which emits them for one
 * lane.  So each operation is defined once.  Sizes are parameters of the
 * source.  The source depends only on the kernel and its schedules.  It
 * contains no inline PTX: it uses CUDA C++ and the ax_ functions of prelude/
 * and device/. */
#ifndef AXON_CUDA_KERNEL_H
#define AXON_CUDA_KERNEL_H

#include "backend/cuda/tensor_map.h"
#include "backend/emit/emit.h"
#include "support/buffer.h"
#include "support/vec.h"

typedef struct KernelText KernelText; /* schedule_text.h */

typedef enum CudaKernelKind {
  CUDA_NEST, /* loops without sums, all in one nest: nest.h */
  CUDA_ROW,  /* a thread group computes a point; each loop nest has a nest */
  CUDA_GEMM, /* a block computes a tile of a contraction: gemm_pass.h */
  /* A block computes rows of fused attention: attention_analysis.h. */
  CUDA_ATTENTION,
  CUDA_LIBRARY, /* a library operation: library_kernels.c */
  CUDA_KERNEL_KINDS,
} CudaKernelKind;

/* The schedule of a pass; schedule.c chooses it. */
typedef struct CudaSchedule {
  CudaKernelKind kind;
  uint32_t block_threads;   /* threads per block */
  struct Nest **nests;      /* CUDA_NEST: one; CUDA_ROW: by loop nest */
  struct RowNest *rows;     /* CUDA_ROW: what they say, and for all of them: */
  struct ValueHomes *homes; /* CUDA_ROW: values between loop nests */
  struct GemmPass *gemm;    /* CUDA_GEMM */
  struct AttentionPass *attention; /* CUDA_ATTENTION */
  const char *description;         /* CUDA_LIBRARY: description */
  uint32_t group_threads;          /* threads per point */
  /* Adjacent threads compute adjacent points; otherwise they are in one
   * group. */
  bool coalesce_outer;
  uint32_t vector_width; /* elements per vector access */
  /* Vectors of a row per thread that stay in registers; 0: each loop reads the
   * row again. */
  uint32_t vectors_in_registers;
  /* Sums are rescaled when the maximum of the row grows
   * (online_softmax.c). */
  bool online_softmax;
  /* Terms of the split reduction per block; another pass combines the partial
   * results. 0: not split. */
  int64_t reduction_chunk;
} CudaSchedule;

/* Layout of the memory at the last pointer argument: the word of failed checks,
 * then counters of finished blocks at CUDA_COUNTERS_OFFSET.  All of it is 0
 * before a pass.  Each pass resets its counters.  In standalone modules, only
 * the word exists. */
enum {
  CUDA_COUNTER_COUNT = 4096,
  CUDA_COUNTERS_OFFSET = 256,
  CUDA_STATUS_BYTES = CUDA_COUNTERS_OFFSET + 4 * CUDA_COUNTER_COUNT,
};

/* A pass, as it is launched.  Its arguments are one struct, which
 * cuda_fill_args fills: pointers, indices, divisors, numbers, tensor maps.  The
 * pointers are the same for all passes: outputs, inputs, scratch memory, word
 * of failed checks. */
typedef struct CudaPass {
  CudaSchedule s;
  Kernel *k;     /* the loops of this pass */
  Kernel *whole; /* CUDA_ROW: before values are recomputed (rematerialize.c) */
  bool is_fissioned; /* the other passes read its values */
  /* Index of its first loop in the original kernel; UINT32_MAX: combines
   * partial results. */
  uint32_t first_loop;
  char name[16];
  EmittedKernel emitted; /* parameters of the call */
  VEC(int64_t) divisors; /* sizes */
  VEC(TensorMap) tensor_maps;
  /* Symbolic sizes that the source stores in 32 bits. */
  VEC(int64_t) int32_sizes;
  /* Standalone modules: counters in scratch memory, and their offset; symbolic
   * sizes.  They must be 0 before the launch. */
  int64_t counter_count, counters_offset;
  int64_t rows, columns, tiles; /* of the matmul; symbolic sizes */
  int64_t grid_blocks;          /* blocks for all the work; symbolic size */
  /* Launch at most this many; symbolic size; 0: no limit. */
  int64_t max_grid_blocks;
  /* Dynamic shared memory per block, bytes; symbolic size. */
  int64_t shared_bytes;
  /* 1 + index of the two index arguments that hold the random key of the node;
   * 0: none */
  uint32_t rng_key_index;
} CudaPass;

typedef struct CudaKernel {
  Buffer source;
  VEC(CudaPass *) passes;
  VEC(LoopOutput *) outputs;
  uint32_t pointer_count; /* pointers in the arguments of each pass */
  /* Symbolic size.  Ends exactly at the last part, so that out-of-bounds reads
   * are detected. */
  int64_t scratch_bytes;
  int64_t scratch_next;  /* aligned offset of the next part */
  bool int32_indices;    /* indices have 32 bits */
  uint32_t check_count;  /* checks in all passes */
  bool requires_align16; /* tensors must be 16-byte aligned */
} CudaKernel;

/* Properties of the device. */
typedef struct CudaTarget {
  const char *arch; /* "sm_90a"; NULL: unknown */
  int sm_count;
  uint32_t default_shared_bytes; /* shared memory per block, bytes */
  uint32_t optin_shared_bytes;   /* the same with opt-in */
  bool allow_tf32;         /* matmuls of f32 may round their operands to TF32 */
  bool has_tensor_maps;    /* the caller encodes tensor maps */
  const char *name_prefix; /* prefix of pass names; NULL: "axon" */
} CudaTarget;

/* Emits the kernel.  False if it contains an operation that has no CUDA code.
 * text: its schedule in text; or NULL.  notes: as in emit_kernel.  May permute
 * the axes of the kernel. */
bool cuda_emit(Kernel *k, const CudaTarget *target, KernelText *text,
               const char *const *notes, CudaKernel *out);
/* True if the kernel is fused attention or a matmul with row reductions, so
 * that the rows of the matmul are never stored. */
bool cuda_fuses_product_rows(const Kernel *k, const CudaTarget *target);
/* The status bit of a check.  Checks are numbered over all passes. */
uint32_t cuda_check_bit(uint32_t number);
/* Adds the prelude and the intrinsics that the source uses: the input of NVRTC.
 * False if memory is exhausted. */
bool cuda_full_source(const Buffer *source, Buffer *out);

/* cuda_args_bytes: size of the argument struct of a pass.  cuda_fill_args:
 * fills it.  pointers: in the order above; floats: the floating-point
 * parameters of the pass; keys: values of the random keys. */
size_t cuda_args_bytes(const CudaKernel *k, const CudaPass *p);
void cuda_fill_args(const CudaKernel *k, const CudaPass *p,
                    const uint64_t *pointers, const double *floats,
                    const PrngKey *keys, void *to);
/* Encodes the tensor maps in the argument struct.  pointers: device addresses
 * of the tensors. */
bool cuda_encode_tensor_maps(const CudaKernel *k, const CudaPass *p,
                             CudaContext *gpu, const uint64_t *pointers,
                             void *to, Fault *fault);
enum {
  MAX_KERNEL_ARGS_BYTES = 4096,
  KERNEL_ARGS_ALIGN = 64 /* alignment of the argument struct */
};
/* True if the arguments exceed the launch limit.  Then they are in device
 * memory, and the only argument is their address. */
bool cuda_has_indirect_args(const CudaKernel *k, const CudaPass *p);

/* Writes "thread groups of 32, 4 elements at once, rows in registers, 8
 * each". */
void cuda_schedule_print(Buffer *out, const CudaSchedule *s);

/* ---- schedule.c ---- */

/* True if each loop should be a pass, because one thread group per point leaves
 * the device underused. */
bool cuda_needs_fission(const Kernel *k, const CudaTarget *target);
/* Chooses the schedule of a pass.  May permute its axes.  no_split: do not
 * split the reduction into chunks. */
void cuda_schedule(CudaPass *p, const CudaTarget *target, bool no_split);
/* Returns true if rows can stay in registers, or if the only sum can be split
 * into chunks. */
bool cuda_can_keep_rows(const Kernel *k);
bool cuda_can_split_reduction(const Kernel *k);
/* Elements of the largest vector. */
uint32_t cuda_max_vector(const Kernel *k);
/* The axes that are distributed over a thread group, the vector axis last.
 * Returns their number. */
uint32_t cuda_distributed_axes(const LoopNest *loop, const CudaSchedule *s,
                               uint32_t axes[MAX_KERNEL_AXES]);

/* ---- rematerialize.c ---- */

/* A kernel that recomputes values in later loops, so that its first pass stores
 * little per row. */
Kernel *cuda_rematerialize(const Kernel *k);

/* ---- pass_writer.c: shared by all kinds of passes ---- */

/* Where a local value is stored. */
typedef enum CudaStorage {
  STORAGE_NONE,
  /* l%u: one register with the same value in all threads of the group. */
  STORAGE_SCALAR,
  /* l%u[t * vector + v] in the thread that owns the element. */
  STORAGE_REGISTERS,
  STORAGE_SHARED,        /* l%u: a pointer */
  STORAGE_GROUP_SCRATCH, /* l%u: a pointer to scratch memory of the group */
  /* l%u: a pointer to scratch memory of the point; later passes read it. */
  STORAGE_POINT_SCRATCH,
} CudaStorage;

typedef struct CudaLocal {
  CudaStorage storage;
  uint32_t name;
  /* STORAGE_POINT_SCRATCH: offset in scratch memory, bytes; symbolic size. */
  int64_t scratch_offset;
} CudaLocal;

/* Offsets of the partial results of a reduction in scratch memory; symbolic
 * sizes.  For argmax and argmin, index_offset: their row positions. */
typedef struct PartialReduction {
  Dtype dtype;
  int64_t offset, index_offset;
  bool is_arg_reduction;
} PartialReduction;

/* Loads of an epilogue that are loaded for two neighbouring columns at once. */
enum { MAX_PAIR_LOADS = 4 };
typedef struct PairLoads {
  uint32_t count;
  const KernelOp *op[MAX_PAIR_LOADS];
} PairLoads;

/* The state while a pass is generated. */
typedef struct CudaWriter {
  Emitter e;
  Dialect dialect;
  CudaKernel *out;
  CudaPass *pass;
  CudaSchedule *s;
  const CudaTarget *target;
  const Kernel *k;
  /* By loop and output of the original kernel. */
  CudaLocal *locals[MAX_KERNEL_LOOPS];
  Buffer head, body;            /* of the pass */
  int64_t point_count;          /* points of the parallel axes; symbolic size */
  int64_t part_count;           /* chunks of a split reduction; symbolic size */
  PartialReduction partial_out; /* receives the partial results */
  /* Partial results that the pass reads, numbered after the inputs of the
   * kernel. */
  const PartialReduction *partials_in;
  uint32_t partials_in_count;
  struct GemmRowReduction *row_reduction; /* of the current pass; or NULL */
  const PairLoads *pairs; /* of the epilogue of a matmul; or NULL */
  bool uses_pairs;        /* the current epilogue uses them */
  KernelText *text;       /* the schedule in text; or NULL */
} CudaWriter;

/* Emits the ops of a loop as statements.  The indices i%u of all axes must be
 * declared before `out`.  precomputed: NULL, or for each op a C expression for
 * its value, or NULL.  Statements that depend on no axis go to the head of the
 * kernel, all others to `out`.  Afterwards emit_scalar(&w->e, op) is the name
 * of a value.
 *
 * Tiled epilogues use it with precomputed[the KOP_LOAD_LOCAL of the matmul] =
 * the accumulator.  Prologues of operands use it with the loop of the operand,
 * and emit_scalar of its op. */
void cuda_put_ops(CudaWriter *w, Buffer *out, const LoopNest *loop,
                  const char **precomputed);
/* Stores an output of the current loop. */
void cuda_put_store(CudaWriter *w, Buffer *out, const LoopOutput *r,
                    const char *x);
/* Stores x at `p[at]` in memory type t. */
void cuda_put_store_at(Buffer *out, Dtype t, const char *p, const char *at,
                       const char *x);
/* The value of x after a store and a load in type t. */
const char *cuda_round_to_dtype(Emitter *e, Dtype t, const char *x);
uint32_t cuda_output_index(const CudaWriter *w, const LoopOutput *r);
/* An affine address at the axis variables i0 to i(axis_count - 1). */
const char *cuda_address_at(CudaWriter *w, const AffineExpr *q,
                            uint32_t axis_count);
/* Declares i%u for the given axes from a linear index in row-major order;
 * cuda_put_unravel_outer: for the first `count` axes. */
void cuda_put_unravel(CudaWriter *w, Buffer *out, const LoopNest *loop,
                      uint32_t count, const uint32_t *axes, const char *number);
void cuda_put_unravel_outer(CudaWriter *w, Buffer *out, uint32_t count,
                            const char *number);
/* The same for values with these names and sizes. */
void cuda_put_unravel_names(CudaWriter *w, Buffer *out, uint32_t count,
                            const char *const *names, const int64_t *sizes,
                            const char *number);
const char *cuda_divisor(Emitter *e, int64_t by);
/* Allocates scratch memory.  Returns its offset, a symbolic size. */
int64_t cuda_alloc_scratch_bytes(CudaWriter *w, int64_t bytes);
int64_t cuda_alloc_scratch(CudaWriter *w, int64_t count, Dtype t);
/* Adds a tensor map to the pass.  Returns the expression of its address. */
const char *cuda_add_tensor_map(CudaWriter *w, const TensorMap *map);
/* Notes a size that the source stores in 32 bits.  Ignores static sizes. */
/* The counters of the device, for kernels that are launched one by one. */
const char *cuda_device_counters(CudaWriter *w);
void cuda_note_int32_size(CudaWriter *w, int64_t size);
/* The address without the term of one axis. */
const char *cuda_address_without(Emitter *e, const AffineExpr *q,
                                 uint32_t without);

/* ---- reduction.c: reductions ---- */

/* The accumulator of a reduction. */
typedef struct CudaAccumulator {
  const LoopOutput *r;
  /* The variable acc%u; blocked sums also have sum%u, to which each run adds
   * acc%u. */
  uint32_t name;
  char class;
  const char *type, *identity;
  /* The position of the current element, for argmax and argmin; or NULL. */
  const char *index_expr;
  const char *index_type;
  bool blocked_sum;
} CudaAccumulator;

/* Statements for an output of the current loop: declare the accumulator, update
 * it with the current element, and combine threads.  fold: a prelude
 * function. */
CudaAccumulator cuda_accumulator_new(CudaWriter *w, const LoopNest *loop,
                                     const LoopOutput *r);
void cuda_accumulator_declare(const CudaAccumulator *s, Buffer *out);
/* At the end of a run, and of all runs. */
void cuda_accumulator_end_run(const CudaAccumulator *s, Buffer *out);
void cuda_accumulator_end(const CudaAccumulator *s, Buffer *out);
void cuda_accumulator_update(CudaWriter *w, const CudaAccumulator *s,
                             Buffer *out);
void cuda_accumulator_combine(CudaWriter *w, const CudaAccumulator *s,
                              Buffer *out, const char *fold,
                              const char *scratch);
const char *cuda_accumulator_value(Emitter *e, const CudaAccumulator *s);
/* Returns true if long sums of the output have a second accumulator. */
bool cuda_sums_runs(const LoopNest *loop, const LoopOutput *r);

/* Allocates scratch memory for partial results. */
PartialReduction cuda_alloc_partials(CudaWriter *w, const LoopNest *loop,
                                     const LoopOutput *r, int64_t count);
/* Stores the accumulator as partial result `at`. */
void cuda_accumulator_store_partial(CudaWriter *w, const CudaAccumulator *s,
                                    const PartialReduction *p, const char *at,
                                    Buffer *out);
/* cuda_partial_load: the load of a partial result from w->partials_in in a
 * later pass.  cuda_put_partial_pointers: declares pointers to them. */
KernelOp cuda_partial_load(const CudaWriter *w, const PartialReduction *p,
                           AffineExpr *address);
void cuda_put_partial_pointers(CudaWriter *w);

/* ---- vector_access.c: vector loads and stores ---- */

/* True if accesses at `at` form aligned vectors along the axis. */
bool cuda_is_vectorizable(const LoopNest *loop, const AffineExpr *at,
                          uint32_t axis, uint32_t vector);
/* True if the address does not depend on the axis. */
bool cuda_is_invariant(const LoopNest *loop, const AffineExpr *at,
                       uint32_t axis);
/* The value of element `at` of an array in memory type t. */
const char *cuda_load_element(Emitter *e, Dtype t, const char *array,
                              const char *at);
bool cuda_depends_on_axis(const LoopNest *loop, const AffineExpr *at,
                          uint32_t axis);
/* The accesses of a loop nest in vectors along an axis.  `first` is the index
 * at which a vector begins. */
typedef struct VectorAccess {
  CudaWriter *w;
  const LoopNest *loop;
  uint32_t axis, width; /* of the lanes; width 1: there are none */
  /* Lanes behind the end repeat the first element, and store nothing: `left`
   * elements remain, and `full` says that all do. */
  bool is_masked;
  Buffer loads, stores; /* before and after the loop over the lanes */
} VectorAccess;

bool vector_fits(const VectorAccess *v, const AffineExpr *at);
/* Declares an array for several vectors.  Returns its name. */
const char *vector_declare(const VectorAccess *v, Buffer *out, char prefix,
                           Dtype t, uint32_t vectors);
/* Loads a vector; vector_put_load: to an array.  condition: "" or a test that
 * ends in an operator; NULL: that of the lanes.  vector_load returns the
 * element of a lane. */
void vector_put_load(const VectorAccess *v, Buffer *out, const KernelOp *s,
                     const char *to, const char *condition);
const char *vector_load(VectorAccess *v, const KernelOp *s);
/* Stores x as an element of a vector if it can.  live: a condition; or NULL. */
void vector_put_store(VectorAccess *v, Buffer *out, const LoopOutput *r,
                      const char *live, const char *x);
/* Opens the loop over the lanes. */
void vector_open(const VectorAccess *v, Buffer *out);

/* ---- nest_emit.c, row_kernel.c, gemm_match.c, attention_analysis.c ---- */

void cuda_put_nest(CudaWriter *w);
void cuda_put_row_kernel(CudaWriter *w);
void gemm_pass_print(Buffer *out, const struct GemmPass *t);
void attention_pass_print(Buffer *out, const struct AttentionPass *t);

#endif
