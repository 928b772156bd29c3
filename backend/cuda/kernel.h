/* backend/cuda: kernels of the tensor language as CUDA C++.
 *
 * A kernel becomes one text with some functions, its *passes*, which run one
 * after the other.  In a pass the points of the kernel's outer axes are shared
 * out over blocks; a point is worked on by a *team* of threads: one, some of a
 * warp, or a block.  What loops leave for later ones at a point lies in
 * registers, shared memory, or scratch memory, and what one pass leaves for the
 * next in scratch memory.
 *
 * Statements come from backend/emit/scalar_ops.c, as of one lane: so what an
 * operation means is written once.  Texts hold no sizes: these are parameters,
 * and what a text does depend on is in its schedules.  Nothing of it says asm:
 * beyond CUDA C++ there are only the ax_ functions of prelude/ and device/. */
#ifndef AXON_CUDA_KERNEL_H
#define AXON_CUDA_KERNEL_H

#include "backend/cuda/tensor_map.h"
#include "backend/emit/emit.h"

typedef enum CudaKernelKind {
  CUDA_ELEMENTWISE, /* a thread has some points that are next to each other */
  CUDA_TRANSPOSE,   /* squares, of which some operands are read along the other
                       side   and turned in shared memory */
  CUDA_ROW,         /* a team has a point */
  CUDA_GEMM,        /* a block has a tile of a contraction: gemm_pass.h */
  CUDA_ATTENTION,   /* or rows of one of two with weights between:
                       attention_analysis.h */
  CUDA_LIBRARY,     /* what library_kernels.c says */
  CUDA_KERNEL_KINDS,
} CudaKernelKind;

/* How a pass is run; chosen by schedule.c. */
typedef struct CudaSchedule {
  CudaKernelKind kind;
  uint32_t block_threads;          /* of a block */
  struct GemmPass *gemm;           /* TILE */
  struct AttentionPass *attention; /* ATTEND */
  const char *description;         /* ROUTINE: in words */
  uint32_t group_threads;          /* TEAM: of a point */
  bool coalesce_outer; /* TEAM: neighbours are of other points, next to each
                          other; and not: of one team */
  uint32_t
      vector_width; /* elements next to each other that a thread has at once */
  uint32_t vectors_in_registers; /* TEAM: so many times a vector of a row lie in
                                    the registers of a thread; 0: rows are gone
                                    through as often as there are loops */
  bool online_softmax;           /* TEAM: sums go on with the largest of a row
                                    (online_softmax.c) */
  uint32_t
      transposed_axis; /* TURNED: the axis that such operands are read along, */
  uint32_t tile_side;  /* and elements of a square's side */
  int64_t reduction_chunk; /* 0, or: terms of its one sum that a block takes;
                              another pass adds up what came of them */
} CudaSchedule;

/* Blocks of a grid whose teams have scratch memory of their own, at most. */
enum { CUDA_MAX_SCRATCH_BLOCKS = 1024 };

/* What the last of the pointers points to: a word for what checks find, and
 * counters of blocks that are done, from CUDA_COUNTERS_OFFSET on.  All of it is
 * 0 before a pass, and the counters are after it.  (Of a module, the word
 * alone.) */
enum {
  CUDA_COUNTER_COUNT = 4096,
  CUDA_COUNTERS_OFFSET = 256,
  CUDA_STATUS_BYTES = CUDA_COUNTERS_OFFSET + 4 * CUDA_COUNTER_COUNT, /* bytes */
};

/* A pass as it is started.  Its arguments are one struct: pointers (all of the
 * kernel's: results, inputs, scratch memory, the word for checks), indices,
 * divisors, numbers, tensor maps; cuda_fill_args fills it in. */
typedef struct CudaPass {
  CudaSchedule s;
  Kernel *k; /* what it does, as a kernel; its loops are, in the whole one, */
  uint32_t first_loop; /* these from here on; UINT32_MAX: it adds up chunks */
  char name[16];
  EmittedKernel emitted; /* its call's numbers */
  VEC(int64_t) divisors; /* sizes */
  VEC(TensorMap) tensor_maps;
  VEC(int64_t) int32_sizes; /* open sizes that its text has in 32 bits */
  int64_t counter_count,
      counters_offset;          /* of a module's: so many lie there in scratch
                                   memory, and are 0 before; sizes */
  int64_t rows, columns, tiles; /* of a product, sizes */
  int64_t grid_blocks;     /* of a grid that has all there is to do: a size; */
  int64_t max_grid_blocks; /* at most so many are started; 0: all */
  int64_t shared_bytes;    /* bytes of a block's shared memory: a size */
  uint32_t rng_key_index;  /* 1 + which two of its indices are the words of the
                              node's  random key; or 0 */
} CudaPass;

typedef struct CudaKernel {
  Buffer source;
  VEC(CudaPass *) passes;
  VEC(LoopOutput *) outputs;
  uint32_t pointer_count; /* of each pass's arguments */
  int64_t
      scratch_bytes; /* bytes of scratch memory: a size; it ends where its last
                        part does, so that what is read beyond that is seen */
  int64_t scratch_next;  /* where another part would begin */
  bool int32_indices;    /* indices are of 32 bits */
  uint32_t check_count;  /* how many there are in all passes */
  bool requires_align16; /* tensors are to begin at multiples of 16 bytes */
} CudaKernel;

/* What is known of the device. */
typedef struct CudaTarget {
  const char *arch; /* "sm_90a"; NULL: it is not known */
  int sm_count;
  uint32_t default_shared_bytes; /* bytes that a block may have; */
  uint32_t optin_shared_bytes;   /* that has to ask for them */
  bool allow_tf32;         /* products of f32 may round their factors to it */
  bool has_tensor_maps;    /* who starts passes makes their tensor maps */
  const char *name_prefix; /* of its passes' names; NULL: "axon" */
} CudaTarget;

/* False: there is something in it that is not emitted.  notes: as for
 * emit_kernel.  May put the kernel's axes into another order. */
bool cuda_emit(Kernel *k, const CudaTarget *target, const char *const *notes,
               CudaKernel *out);
/* Is it one that has rows of a product, and leaves none in memory? */
bool cuda_fuses_product_rows(const Kernel *k, const CudaTarget *target);
/* What the check of this number sets, counted over all passes. */
uint32_t cuda_check_bit(uint32_t number);
/* With all that it stands on: what NVRTC takes.  False: there is no memory. */
bool cuda_full_source(const Buffer *source, Buffer *out);

/* Bytes of a pass's arguments, and these: pointers in the order above; floats:
 * the pass's own, with their values; keys: what marks of them stand for. */
size_t cuda_args_bytes(const CudaKernel *k, const CudaPass *p);
void cuda_fill_args(const CudaKernel *k, const CudaPass *p,
                    const uint64_t *pointers, const double *floats,
                    const PrngKey *keys, void *to);
/* The tensor maps among them, of tensors at these places. */
bool cuda_encode_tensor_maps(const CudaKernel *k, const CudaPass *p,
                             CudaContext *gpu, const uint64_t *pointers,
                             void *to, Fault *fault);
enum {
  MAX_KERNEL_ARGS_BYTES = 4096,
  KERNEL_ARGS_ALIGN = 64 /* they are aligned to */
};
/* Are there more than the driver takes?  Then they lie in memory of the device,
 * and the one argument is where. */
bool cuda_has_indirect_args(const CudaKernel *k, const CudaPass *p);

/* "team of 32, 4 elements, 8 times in registers" */
void cuda_schedule_print(Buffer *out, const CudaSchedule *s);

/* ---- schedule.c ---- */

/* Is it run loop by loop, since a team for each of its points is too little? */
bool cuda_needs_fission(const Kernel *k, const CudaTarget *target);
/* Gives a pass its schedule; may put its axes into another order.  whole: it is
 * not to leave sums of chunks. */
void cuda_schedule(CudaPass *p, const CudaTarget *target, bool no_split);
/* The axes that a team shares out, that of neighbours last; their number. */
uint32_t cuda_distributed_axes(const LoopNest *loop, const CudaSchedule *s,
                               uint32_t axes[MAX_KERNEL_AXES]);

/* ---- rematerialize.c ---- */

/* The kernel of a pass that is the first one, with little left along rows for
 * later loops. */
Kernel *cuda_rematerialize(const Kernel *k);

/* ---- pass_writer.c: what the kinds of passes share ---- */

/* Where a local value lies. */
typedef enum CudaStorage {
  STORAGE_NONE,
  STORAGE_SCALAR, /* one number in a register, l%u, the same in all of a team */
  STORAGE_REGISTERS, /* l%u[t * vector + v] of the thread that has the element
                      */
  STORAGE_SHARED,    /* a pointer, l%u */
  STORAGE_GROUP_SCRATCH, /* likewise, into scratch memory that a team has for
                            itself */
  STORAGE_POINT_SCRATCH, /* and into what each point has: for passes that follow
                          */
} CudaStorage;

typedef struct CudaLocal {
  CudaStorage storage;
  uint32_t name;
  int64_t scratch_offset; /* STORAGE_POINT_SCRATCH: bytes into the scratch
                             memory, a size */
} CudaLocal;

/* Where in scratch memory parts of a reduction lie, and of an argmax, behind
 * their values, their places in the row: sizes. */
typedef struct PartialReduction {
  Dtype dtype;
  int64_t offset, index_offset;
  bool is_arg_reduction;
} PartialReduction;

/* What a pass is written with. */
typedef struct CudaWriter {
  Emitter e;
  Dialect dialect;
  CudaKernel *out;
  CudaPass *pass;
  CudaSchedule *s;
  const CudaTarget *target;
  const Kernel *k;
  CudaLocal
      *locals[MAX_KERNEL_LOOPS]; /* by the whole kernel's loop and result */
  Buffer head, body;             /* of the pass */
  int64_t point_count;           /* of its outer axes: a size */
  int64_t part_count;            /* of chunks: how many of a sum, a size, */
  PartialReduction partial_out;  /* which are left there */
  const PartialReduction
      *partials_in; /* those that the pass at hand reads, as inputs behind
                       the kernel's; their number */
  uint32_t partials_in_count;
  struct GemmRowReduction *row_reduction; /* of the pass at hand; or NULL */
} CudaWriter;

/* A loop's steps as statements, where each of its axes v has the C name i%u,
 * already declared where they will stand.  given: of each step, a C expression
 * that is its value, of the scalar type of its class, or NULL; or NULL.  What
 * depends on no axis goes to the kernel's head; all else to `out`, in order.
 * Afterwards emit_scalar(&w->e, step) is what a step's value is called.
 *
 * This is how a tile's epilogue is written: given[the step that is the
 * product's KOP_LOAD_LOCAL] is the accumulator.  And its prologue: the factor's
 * loop, and emit_scalar of the factor's step. */
void cuda_put_ops(CudaWriter *w, Buffer *out, const LoopNest *loop,
                  const char **precomputed);
/* The statement that stores a result of the loop at hand. */
void cuda_put_store(CudaWriter *w, Buffer *out, const LoopOutput *r,
                    const char *x);
/* `p[at] = x` in memory of a type. */
void cuda_put_store_at(Buffer *out, Dtype t, const char *p, const char *at,
                       const char *x);
/* The expression x as a value of the type would be read from memory. */
const char *cuda_round_to_dtype(Emitter *e, Dtype t, const char *x);
uint32_t cuda_output_index(const CudaWriter *w, const LoopOutput *r);
/* Statements that declare i%u of some axes from their number in row-major
 * order; of the first outer ones. */
void cuda_put_unravel(CudaWriter *w, Buffer *out, const LoopNest *loop,
                      uint32_t count, const uint32_t *axes, const char *number);
void cuda_put_unravel_outer(CudaWriter *w, Buffer *out, uint32_t count,
                            const char *number);
const char *cuda_divisor(Emitter *e, int64_t by);
/* Scratch memory, for so many values; where it begins, a size. */
int64_t cuda_alloc_scratch_bytes(CudaWriter *w, int64_t bytes);
int64_t cuda_alloc_scratch(CudaWriter *w, int64_t count, Dtype t);
/* The address of a tensor map that the pass has from now on. */
const char *cuda_add_tensor_map(CudaWriter *w, const TensorMap *map);
/* A size that is open, which texts have in 32 bits. */
void cuda_note_int32_size(CudaWriter *w, int64_t size);
/* The address without an axis's term. */
const char *cuda_address_without(Emitter *e, const AffineExpr *q,
                                 uint32_t without);

/* ---- reduction.c: reductions ---- */

/* What a result is accumulated in. */
typedef struct CudaAccumulator {
  const LoopOutput *r;
  uint32_t name; /* acc%u; of runs, which row_kernel.c has: sum%u, too */
  char class;
  const char *type, *identity,
      *index_expr; /* where: of argmax and argmin, or NULL */
  const char *index_type;
  bool blocked_sum;
} CudaAccumulator;

/* Is it the place of a value that is wanted? */
/* Of the loop at hand: statements that declare it, take in the element at hand,
 * put together what some threads have by `fold` of the prelude. */
CudaAccumulator cuda_accumulator_new(CudaWriter *w, const LoopNest *loop,
                                     const LoopOutput *r);
void cuda_accumulator_declare(const CudaAccumulator *s, Buffer *out);
void cuda_accumulator_update(CudaWriter *w, const CudaAccumulator *s,
                             Buffer *out);
void cuda_accumulator_combine(CudaWriter *w, const CudaAccumulator *s,
                              Buffer *out, const char *fold,
                              const char *scratch);
const char *cuda_accumulator_value(Emitter *e, const CudaAccumulator *s);

/* Scratch memory for so many parts; */
PartialReduction cuda_alloc_partials(CudaWriter *w, const LoopNest *loop,
                                     const LoopOutput *r, int64_t count);
/* a statement that leaves the sum as the part `at`; */
void cuda_accumulator_store_partial(CudaWriter *w, const CudaAccumulator *s,
                                    const PartialReduction *p, const char *at,
                                    Buffer *out);
/* one of w->partials_in as a step of another pass, and where all of these
 * are. */
KernelOp cuda_partial_load(const CudaWriter *w, const PartialReduction *p,
                           AffineExpr *address);
void cuda_put_partial_pointers(CudaWriter *w);

/* ---- vector_access.c: accesses of several elements ---- */

/* Is it a sum over the axes? */
bool cuda_is_affine(const AffineExpr *q);
/* Is the element at the form, along the axis, one of `vector` that lie next to
 * each other in memory and begin at a multiple of that? */
bool cuda_is_vectorizable(const LoopNest *loop, const AffineExpr *at,
                          uint32_t axis, uint32_t vector);
/* Is the read the same all along the axis? */
bool cuda_is_invariant(const LoopNest *loop, const AffineExpr *at,
                       uint32_t axis);
/* Element `at` of an array of values in memory's type, as a value. */
const char *cuda_load_element(Emitter *e, Dtype t, const char *array,
                              const char *at);
bool cuda_depends_on_axis(const LoopNest *loop, const AffineExpr *at,
                          uint32_t axis);
/* A vector's access as a statement: of `first` and those behind it on the axis.
 * full: "" or a test that all of them are there, with an "&& "; left: how many
 * are. */
void cuda_put_vector_load(CudaWriter *w, Buffer *out, const KernelOp *s,
                          uint32_t axis, const char *to, const char *first,
                          const char *full, const char *left);
void cuda_put_vector_store(CudaWriter *w, Buffer *out, const LoopOutput *r,
                           uint32_t axis, const char *from, const char *first,
                           const char *full, const char *left);

/* ---- elementwise.c, row_kernel.c, gemm_match.c, attention_analysis.c: the
 * kinds ---- */

void cuda_put_elementwise(CudaWriter *w);
void cuda_put_transpose(CudaWriter *w);
void cuda_put_row_kernel(CudaWriter *w);
void gemm_pass_print(Buffer *out, const struct GemmPass *t);
void attention_pass_print(Buffer *out, const struct AttentionPass *t);

#endif
