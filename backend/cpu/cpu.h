/* backend/cpu: internal interface of the CPU backend, which generates C. */
#ifndef AXON_CPU_H
#define AXON_CPU_H

#include "backend/cpu/jit.h"
#include "backend/emit/emit.h"
#include "plan/backend.h"
#include "runtime/artifact.h"
#include "machine/limits/cpu.h"
#include "support/vec.h"

typedef struct Arena Arena;

static inline int64_t ceil_div(int64_t x, int64_t y) {
  return (x + y - 1) / y;
}
static inline int64_t round_up(int64_t x, int64_t to) {
  return ceil_div(x, to) * to;
}

/* The part of a kernel that one task computes. */
typedef enum TaskKind {
  TASK_POINT, /* one iteration of the parallel axes; vectors along inner axes */
  TASK_ROWS,  /* several iterations of the last parallel axis, lo .. hi at a
                 time; vectors along inner axes */
  TASK_COLUMNS, /* lo .. hi of the last parallel axis; vectors along it, or
                   along an inner axis in a batch of small matmuls */
  TASK_TILE, /* lo .. hi of the last parallel axis and top .. bottom of the axis
                before it; for convolutions also above .. below of the axis
                before that */
} TaskKind;

/* The schedule of a kernel, chosen from its sizes and this machine.  Rounding
 * of reductions depends on the schedule, and so on the sizes, but never on the
 * number of threads. */
typedef struct Schedule {
  uint32_t vector_bytes; /* bytes of a vector register */
  TaskKind task_kind;
  uint32_t width;        /* lanes of a vector */
  uint32_t *vector_axes; /* vectorized axis of each loop */
  /* Iterations lo .. hi of the last parallel axis.  These are all iterations of
   * a task, except for TASK_ROWS. */
  int64_t last_axis_block;
  /* TASK_ROWS: iterations first .. last of the last parallel axis in a task,
   * which computes them block by block. */
  int64_t last_axis_span;
  int64_t task_height; /* TASK_TILE: iterations of the axis before the last */
  /* TASK_TILE: number of tasks along the axis before the last, if that is
   * symbolic, an extent (tensor/extent.h); 0: each task has task_height
   * iterations. */
  int64_t row_task_count;
  int64_t task_image_rows; /* convolutions: iterations of the image row axis,
                              whose positions are between those of the last
                              axis; 0: no such axis */
  int64_t
      row_pitch; /* convolutions: positions from one image row to the next */
  int64_t task_positions; /* convolutions: positions of a task, including stores
                             behind the last; 0: those of the last axis */
  bool transpose;         /* TASK_TILE: vectors are transposed in registers */
  int64_t reduction_chunk;  /* terms of the first reduction axis per chunk of a
                               split reduction; 0: not split */
  int64_t reduction_unroll; /* TASK_COLUMNS: terms per iteration */
  double
      nontemporal_bytes; /* outputs with more bytes use non-temporal stores */
  int64_t strip_length;  /* TASK_ROWS: elements of a strip of strip-mined loops;
                            0: none */
  struct Nest **nests;   /* of the other loops, by loop */
  struct GemmTilings *gemm_tilings; /* of the matmuls, by loop; NULL: none */
  const struct SmallProduct
      *small_product; /* of a batch of small matmuls; NULL: it is none */
  const struct GemmFields
      *gemm_fields; /* set by the user, by loop; NULL: none */
} Schedule;

/* An operand whose packed form may be cached from an earlier call:
 * prepack.c. */
typedef struct PrepackedOperand {
  uint32_t loop, input;
  ArtifactKey layout_key; /* hash of the layout, except for the tensor */
  int64_t offset; /* element of the tensor at which the operand begins */
  int64_t bytes, panel_count;
  bool prepack_pays, packs_once;
  const char *c_type, *panel_columns, *extent, *depth; /* as C expressions */
  const char *nonfinite_flags; /* offset of the flags of the panels; NULL: there
                                  are none */
  const char *kc_blocks,
      *kc; /* blocks of each panel, and terms of a block, as C expressions */
} PrepackedOperand;

/* A kernel in C, and the parameters of its calls. */
typedef struct CpuKernel {
  EmittedKernel code;
  VEC(PrepackedOperand)
  prepacked;     /* pointers behind those of the inputs; NULL: not cached */
  int64_t tasks; /* number of independent tasks */
  int64_t reduction_chunks; /* partial results of each element */
  Dtype accumulator_dtype;
  bool is_arg_reduction; /* chunks of an argmax or argmin: their positions are
                            followed by the values there, so that there are
                            twice as many numbers */
} CpuKernel;

/* Bytes of a vector register of this machine, for generated code. */
uint32_t cpu_vector_bytes(void);

/* The set of inputs whose memory the output of the kernel may reuse.  Each
 * element is read before the same element is stored, not again later, and
 * nothing fails in between. */
uint64_t kernel_inplace_inputs(const Kernel *k, const Schedule *s,
                               const LoopOutput *output);

/* Chooses the schedule.  May permute the parallel axes of the kernel. */
/* may_use_bytes: lanes may have 8 bits. */
void schedule_choose(Kernel *k, uint32_t vector_bytes, bool may_use_bytes,
                     Schedule *s);
/* The same with fields of matmuls that the user set, by loop. */
void schedule_choose_with(Kernel *k, uint32_t vector_bytes, bool may_use_bytes,
                          const struct GemmFields *fields, Schedule *s);
/* Trims loops as the tasks of the schedule allow. */
void schedule_trim(Kernel *k, const Schedule *s);
bool schedule_has_byte_lanes(const Schedule *s);
/* Chooses vectors for the loops of a schedule with tasks.  No loop has a nest
 * yet. */
void schedule_prepare_nests(Kernel *k, Schedule *s);
/* Returns true if the reduction can be split into chunks. */
bool schedule_can_split(const Kernel *k);
/* The parallel axis along which a load is contiguous that is strided along the
 * vector axis; NO_AXIS: there is none, or the kernel has reductions. */
uint32_t schedule_transpose_axis(const Kernel *k, uint32_t vector_axis);
/* Returns true if there is a schedule for a kernel with accumulated axes. */
bool schedule_can_accumulate(const Kernel *k);
/* Returns true if the loop reduces so few terms that they are unrolled. */
bool short_reduction_applies(const LoopNest *loop);
/* Returns true if neighbours along an axis of the results read the same
 * elements. */
bool short_reduction_slides(const LoopNest *loop);
/* Makes tasks of rows of short reductions.  Returns false if there are other
 * loops, or too few rows. */
bool short_reduction_choose(const Kernel *k, Schedule *s);
/* Number of accumulators that stay in registers. */
uint32_t schedule_max_accumulators(uint32_t vector_bytes);
/* Returns true if the output uses non-temporal stores for full vectors. */
bool schedule_is_nontemporal(const Schedule *s, const Graph *g,
                             const LoopOutput *r);
/* The same for rows along an axis of a loop. */
bool schedule_is_nontemporal_along(const Schedule *s, const LoopNest *loop,
                                   const LoopOutput *r, uint32_t vector_axis);
/* Emits the C source.  Returns false if an operation has no code generation.
 * comments: one for each loop, or NULL.  Sources with comments are not
 * compiled, since equal sources are compiled once; they come with the text of
 * the lowered nests. suffix: "" names the
 * functions `kernel` and `fold`; otherwise they are kernel12 and so on, in a
 * source with other kernels. */
bool emit_kernel(const Kernel *k, const Schedule *s,
                 const char *const *comments, const char *suffix,
                 CpuKernel *out);

/* Defined in describe.c; see Backend. */
bool cpu_describe(const FusionGroup *c, Arena *arena,
                  const char *const *comments, KernelInfo *about);

/* ---- prelude.c ---- */

/* The prelude for vectors of `width` lanes. */
const char *cpu_prelude(uint32_t width);
/* Writes the part of the prelude that `source` uses, to be inserted after
 * `#define W` of the kernel.  Returns false if out of memory; does not
 * raise. */
bool cpu_prelude_write(Buffer *out, uint32_t width, const char *source,
                       size_t len);

#endif
