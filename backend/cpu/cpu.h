/* backend/cpu, for its own files: kernels as generated C. */
#ifndef AXON_CPU_H
#define AXON_CPU_H

#include "backend/cpu/jit.h"
#include "backend/emit/emit.h"
#include "plan/backend.h"
#include "runtime/artifact.h"

static inline int64_t ceil_div(int64_t x, int64_t y) {
  return (x + y - 1) / y;
}
static inline int64_t round_up(int64_t x, int64_t to) {
  return ceil_div(x, to) * to;
}

/* What one call of a unit works on. */
typedef enum TaskShape {
  TASK_POINT,   /* one point of the outer axes: lanes lie along inner axes */
  TASK_ROWS,    /* a span of the last outer axis, lo .. hi at a time; lanes
                   likewise */
  TASK_COLUMNS, /* lo .. hi of the last outer axis, along which lanes lie */
  TASK_TILE,    /* that, and top .. bottom of the axis before it; perhaps
                   above .. below of the one before that */
  TASK_BATCHED_GEMM, /* lo .. hi of the last outer axis, a batch's; lanes along
                        both axes before it */
} TaskShape;

/* What a kernel leaves open, chosen from its sizes and from this machine; the
 * result of a sum depends on it, and so on the sizes, but never on how many
 * threads there are. */
typedef struct Schedule {
  uint32_t vector_bytes; /* of a vector register */
  TaskShape shape;
  uint32_t width;        /* lanes */
  uint32_t *vector_axes; /* of each loop: the axis along which they lie */
  int64_t task_columns;  /* points of the last outer axis in a unit; ROWS: at a
                            time */
  int64_t task_rows;     /* ROWS: in a unit */
  int64_t task_height;   /* TILE: points of the axis before it, */
  int64_t row_tasks;     /* at most, in so many parts, a size (tensor/extent.h);
                            0: each of so many */
  int64_t task_image_rows; /* TILE: and of the one before that, whose points are
                              positions between those of the last one, too; 0:
                              they are not */
  int64_t row_pitch;       /* positions from one to the next, and */
  int64_t task_positions; /* of a whole unit, with what may be stored behind the
                             last; 0: those of the last axis */
  bool transpose;         /* TILE: of vectors that are turned in registers */
  int64_t
      reduction_chunk; /* 0, or: the first axis that the one loop reduces is
                          cut into parts of so many, each with its own sum */
  int64_t reduction_unroll; /* COLUMNS: of sums, that are read at a time */
  double nontemporal_bytes; /* bytes from which on a result is stored past the
                               caches */
  int64_t strip_length;     /* ROWS: of the axis that some loops go along in
                               portions; 0: there are none */
  struct GemmTilings
      *gemm_tilings; /* of the products, by loop; NULL: there are none */
  struct BatchedGemm *batched_gemm; /* of TASK_BATCHED_GEMM */
} Schedule;

/* An operand that may be there in the form in which it is wanted, from a call
 * before: prepack.c. */
typedef struct PrepackedOperand {
  uint32_t loop, input;
  ArtifactKey layout_key; /* all that it depends on beside the tensor */
  int64_t offset;         /* where in it: elements */
  int64_t bytes, panel_count;
  bool prepack_pays;
  const char *c_type, *panel_columns, *extent, *depth; /* as C */
  const char
      *nonfinite_flags; /* where panels' marks begin; NULL: they have none */
  const char *kc_blocks, *kc; /* of each panel, and how many terms one has */
} PrepackedOperand;

/* A kernel in C, and what its calls want. */
typedef struct CpuKernel {
  EmittedKernel code;
  VEC(PrepackedOperand)
  prepacked;     /* pointers behind those of the inputs: NULL where it
                    is not there */
  int64_t tasks; /* independent pieces */
  int64_t reduction_chunks; /* of each element of the result */
  Dtype accumulator_dtype;
  bool is_arg_reduction; /* chunks leave the places they found, and behind all
                            of these the values there: twice as many numbers */
} CpuKernel;

/* Bytes of a vector register of this machine that generated code is for. */
uint32_t cpu_vector_bytes(void);

/* The set of inputs whose place in memory the kernel's one result may take:
 * each element is read just before that of the result is stored there, and
 * nothing can fail in between. */
uint64_t kernel_inplace_inputs(const Kernel *k);

/* May put the outer axes of the kernel into another order. */
void schedule_choose(Kernel *k, uint32_t vector_bytes, Schedule *s);
/* Does it reduce so few terms that they are better written out? */
bool short_reduction_applies(const LoopNest *loop);
/* Rows of such sums as units; false: there are others, or too few rows. */
bool short_reduction_choose(const Kernel *k, Schedule *s);
/* How many sums stay in registers of so many bytes. */
uint32_t schedule_max_accumulators(uint32_t vector_bytes);
/* Is a result stored past the caches, where its vectors are whole? */
bool schedule_is_nontemporal(const Schedule *s, const Graph *g,
                             const LoopOutput *r);
enum {
  ASSUMED_LLC_BYTES = 32 << 20,    /* bytes of the last cache, of open sizes */
  MIN_NONTEMPORAL_ROW_BYTES = 512, /* that results past the caches are long */
};
/* The same, of rows along an axis of a loop. */
bool schedule_is_nontemporal_along(const Schedule *s, const LoopNest *loop,
                                   const LoopOutput *r, uint32_t vector_axis);
/* False: there is something in the body that it cannot emit.  notes: comments,
 * one for each loop; NULL: none, and only such texts are compiled, since equal
 * ones are compiled once.  number: "", and its functions are `kernel` and
 * `fold` of an object of their own; else they are kernel12 and so on of a text
 * that has others. */
bool emit_kernel(const Kernel *k, const Schedule *s,
                 const char *const *comments, const char *suffix,
                 CpuKernel *out);

/* describe.c: see Backend. */
bool cpu_describe(const FusionGroup *c, Arena *arena,
                  const char *const *comments, KernelInfo *about);

/* ---- prelude.c ---- */

/* The prelude for kernels with `width` lanes. */
const char *cpu_prelude(uint32_t width);
/* Writes the part of the prelude that the kernel's `source` uses, for the place
 * between its `#define W` and the rest.  False: out of memory; it does not
 * raise. */
bool cpu_prelude_write(Buffer *out, uint32_t width, const char *source,
                       size_t len);

#endif
