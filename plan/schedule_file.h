/* plan: schedules that a user wrote, in place of those that are chosen.
 *
 *     kernel 5b1d0c2f9a3e4471          (* nn.softmax x *)
 *       tasks i0; width 8
 *       1: tile i1 8 peel; lanes i1
 *
 *     kernel 5b1d0c2f9a3e4471 on sm_90a   (* the same kernel on a GPU *)
 *       1: by rows {group=32 threads=256}
 *
 *     gemm sm_90a bf16 4096x4096x* {m=128 n=256 stages=4}
 *
 * A file has such entries.  A kernel is identified by a hash of its operations
 * and sizes; `axon plan --schedule` prints its entry.  A rule, `gemm` or
 * `attention`, is for all matrix products, or all fused attention, of an
 * architecture, an operand type and sizes; each of these may be *.  The sizes
 * are rows x columns x terms; of attention: query rows x keys x head dimension.
 * Backends read the rest of an entry.
 *
 * A program declares schedules, too (session/schedule_declaration.c).  They are
 * in the table of its graph.  A kernel is then identified by the place of an
 * expression whose value it stores.  Programs also declare which values are
 * stored, and where kernels end (plan/fusion.c, plan/fusion_groups.c). */
#ifndef AXON_PLAN_SCHEDULE_FILE_H
#define AXON_PLAN_SCHEDULE_FILE_H

#include "plan/fusion_group.h"
#include "support/span.h"

typedef struct Buffer Buffer;

typedef enum ScheduleEntryKind {
  SCHEDULE_KERNEL,
  SCHEDULE_GEMM,
  SCHEDULE_ATTENTION,
  SCHEDULE_DECLARED,
  SCHEDULE_STORE, /* declared: the value of an expression is stored */
  SCHEDULE_CUT,   /* the same, and other kernels read it */
} ScheduleEntryKind;

typedef struct ScheduleEntry {
  ScheduleEntryKind kind;
  uint64_t key;          /* SCHEDULE_KERNEL */
  Span span;             /* declared: the expression */
  char arch[16];         /* "": the CPU; "*": all GPUs */
  Dtype dtype;           /* rules; DT_NONE: any */
  double sizes[3];       /* rules; negative: any */
  const char *text;      /* the schedule */
  const char *path;      /* of the file where the text begins */
  uint32_t line, column; /* from 1 on */
  Span text_span;        /* declared: of the text */
  bool is_used;
  char refusal[160]; /* of a rule: why it was not used; or empty */
} ScheduleEntry;

/* A tile of matrix products that a program defines: it adds the product of
 * `rows` rows and `columns` columns to the result.
 *
 * In C it computes the register tile of the CPU.  The text defines
 *
 *     void NAME(const T *a, long a_row, long a_term, const T *b, long b_term,
 *               long terms, T *c, long c_row, int add);
 *
 * It computes c[i * c_row + j] = (add ? c[i * c_row + j] : 0) +
 *     sum over k < terms of a[i * a_row + k * a_term] * b[k * b_term + j]
 *
 * In CUDA it computes the tile of a thread (f32, f64) or of a warp (narrower
 * elements, by mma).  The text defines
 *
 *     template <class A, class B>
 *     AX_DEVICE void NAME(A a, B b, int terms, S (&c)[...]);
 *
 * which adds a stage's products to c (backend/cuda/gemm_micro.c). */
typedef struct MicroKernel {
  const char *name, *text;
  bool is_cuda; /* the text is CUDA C++, not C */
  Dtype dtype;  /* of the operands */
  uint32_t rows, columns;
  const char *path;          /* of the program */
  uint32_t line, first_line; /* of the text, of the declaration */
  Span span;                 /* of the name */
} MicroKernel;

typedef struct ScheduleTable {
  VEC(ScheduleEntry *) entries; /* a later one replaces an earlier one */
  VEC(const MicroKernel *) micro_kernels; /* the same */
  bool has_failed;
  Fault fault; /* of the first schedule that could not be applied */
  Span where;  /* the place of the error in the program */
} ScheduleTable;

/* Reads the file.  Its schedules are used from now on.  Returns false with a
 * fault that names the position of an error.  Call it once, before kernels
 * run.  Without such a call, the file that AXON_SCHEDULES names is read. */
bool schedule_file_read(const char *path, Fault *fault);
/* Returns false, with a fault, if AXON_SCHEDULES names an invalid file. */
bool schedule_check_env(Fault *fault);
/* Returns false, with a fault, also if a schedule could not be applied.  g:
 * NULL, or a graph with declared schedules; `where` is then the place of a
 * wrong one, and unchanged for a schedule in a file.  A wrong schedule is
 * reported once, and again if its kernel runs again. */
bool schedule_check(const Graph *g, Span *where, Fault *fault);
/* Returns true if schedule_check will report a schedule that could not be
 * applied. */
bool schedule_has_failed(const Graph *g);
/* Appends messages about the entries of the file, or the schedules that the
 * program declares, that no kernel used, and about micro-kernels that no
 * schedule names. */
void schedule_file_put_unused(Buffer *out);
void schedule_put_unused(const Graph *g, Buffer *out);
/* Replaces comments by blanks.  Returns the position of one without an end, or
 * SIZE_MAX. */
size_t schedule_blank_comments(char *text);
/* Appends text within a comment: it neither begins nor ends one. */
void schedule_put_comment(Buffer *out, const char *text);
/* Adds a declared schedule.  Errors of earlier ones no longer count. */
void schedule_declare(Graph *g, Arena *arena, ScheduleEntry *e);
/* Adds a micro-kernel; the same. */
void schedule_declare_micro_kernel(Graph *g, Arena *arena,
                                   const MicroKernel *m);
/* The micro-kernel of this name, or NULL. */
const MicroKernel *schedule_micro_kernel(const Graph *g, const char *name);

/* The number of entries, and one of them. */
uint32_t schedule_file_count(void);
const ScheduleEntry *schedule_file_entry(uint32_t at);
/* The entry of a kernel, or NULL.  arch: NULL for the CPU. */
ScheduleEntry *schedule_find(const FusionGroup *c, const char *arch);
/* Returns true if the program declares the schedule of the kernel. */
bool schedule_is_declared(const FusionGroup *c, const char *arch);
/* The last declaration that stores the value of a node, or NULL. */
ScheduleEntry *schedule_find_storage(const Graph *g, const Node *n);
/* The declared schedule of a node as a number; 0: there are none.  Equal plans
 * of one graph have equal numbers. */
uint32_t schedule_number(const Graph *g, const Node *n);
/* Appends the text of the declared schedule of a node, and of all
 * micro-kernels. */
void schedule_put_declared(const Graph *g, const Node *n, Buffer *out);
/* The first rule for these operands, or NULL. */
ScheduleEntry *schedule_file_find_rule(ScheduleEntryKind kind, const char *arch,
                                       Dtype dtype, double m, double n,
                                       double k);
/* Tells that an entry was applied, or why a rule does not fit a kernel.  e:
 * may be NULL. */
void schedule_entry_report(ScheduleEntry *e, const char *refusal);
/* Tells that the entry of a kernel cannot be applied: no further kernel runs.
 * at: position in its text.  e: NULL for a schedule without a place. */
void schedule_entry_fail(const FusionGroup *c, const ScheduleEntry *e,
                         uint32_t at, const char *error);
/* An invalid entry in the file, before kernels run. */
void schedule_entry_fault(const ScheduleEntry *e, const char *error,
                          Fault *fault);

#endif
