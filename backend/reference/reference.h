/* backend/reference, for its own files: bodies as linear programs.
 *
 * A comprehension becomes one list of instructions over registers, loops
 * included: the code of depth d runs whenever the d-th axis (free, own, then
 * reduced) has a new value, and holds every cell whose deepest axis that is.
 * The register of an axis holds its index. */
#ifndef AXON_REFERENCE_H
#define AXON_REFERENCE_H

#include "tensor/scalar.h"
#include "tensor/tensor.h"

/* r: registers; d, a, b, c: those of the instruction; k: its number */
typedef enum OpCode {
  OP_HALT,
  OP_START, /* r[d] = 0: an axis begins */
  OP_NEXT,  /* if (++r[d] < k) go back by `jump` */
  OP_GUARD, /* if r[a] is false skip k elements of the output, and jump */
  OP_JUMP,
  OP_JUMP_FALSE, /* unless r[a] */
  OP_MOVE,       /* r[d] = r[a] */
  OP_AFFINE,     /* r[d] = r[a] + k * r[b] */
  OP_INDEX, /* r[d] = r[a] + k * r[b], after 0 <= r[b] < extent; c: axis */
  OP_LOAD_BOOL, /* r[d] = base[r[a] + k * r[b]], and so on per dtype */
  OP_LOAD_U8,
  OP_LOAD_I8,
  OP_LOAD_I32,
  OP_LOAD_I64,
  OP_LOAD_F16,
  OP_LOAD_BF16,
  OP_LOAD_F32,
  OP_LOAD_F64,
  OP_STORE, /* the output's next element = r[a], of dtype `to` */
  OP_STORE_F32,
  OP_FIT,     /* r[d] = r[d] rounded or wrapped to dtype `to` */
  OP_CONVERT, /* r[d] = r[a], from dtype `from` to dtype `to` */
  OP_CONVERT_I_F,
  OP_CONVERT_I_D,
  OP_CONVERT_F_D,
  OP_CONVERT_D_F,
  OP_UNIFORM, /* r[d] = element r[a] of the key at base, of dtype `to` */
  OP_NORMAL,
  /* accumulation: r[d] with r[a]; _W: a float into a double */
  OP_SUM_I,
  OP_SUM_F,
  OP_SUM_W,
  OP_SUM_D,
  OP_PROD_I,
  OP_PROD_F,
  OP_PROD_W,
  OP_PROD_D,
  OP_MAX_I,
  OP_MAX_F,
  OP_MAX_D,
  OP_MIN_I,
  OP_MIN_F,
  OP_MIN_D,
  OP_ANY,
  OP_ALL,
  /* k times: r[d] += r1 * r2, floats into a double, where the next two
   * instructions load r1 and r2; r[a] is the axis that moves.  Then jumps. */
  OP_DOT,
  /* r[d]: the best so far; r[d + 1]: where; r[d + 2]: elements seen */
  OP_ARGMAX_I,
  OP_ARGMAX_F,
  OP_ARGMAX_D,
  OP_ARGMIN_I,
  OP_ARGMIN_F,
  OP_ARGMIN_D,
/* r[d] = ref_<ID>(r[a], r[b], r[c]) */
#define OPS_MAP(id) OP_##id##_I, OP_##id##_F, OP_##id##_D,
#define OPS_NONE(id)
#define OPS_REDUCE OPS_NONE
#define OPS_MOVE OPS_NONE
#define OPS_MAKE OPS_NONE
#define OPS_OPAQUE OPS_NONE
#define OPS_CONTROL OPS_NONE
#define OPS_HOST OPS_NONE
#define P(id, name, class, flags, scheme, doc, example) OPS_##class(id)
#include "primitives/primitives.def"
#undef P
  OP_COUNT
} OpCode;

typedef struct Ins {
  uint16_t op;
  uint8_t from, to; /* dtypes */
  int32_t jump;     /* to this many instructions from here */
  uint32_t d, a, b, c;
  int64_t k;
  union {
    const void *base; /* loads: elements; random: a Key */
    int64_t extent;   /* OP_INDEX */
  };
} Ins;

typedef struct Program {
  Ins *code;
  uint32_t *cell; /* per instruction: the node's cell that it is for */
  uint32_t count, reg_count;
  Reg *regs; /* constants are in place */
} Program;

/* ---- compile.c ---- */

/* In the arena.  All that the node reads has data. */
Program *program_new(Arena *arena, const Node *n);

/* ---- execute.c ---- */

/* Fills out, which is zero where a guard may be false. */
bool program_run(const Graph *g, const Node *n, const Program *p, void *out,
                 Span *where, Fault *fault);
/* Raises FAIL_INTERRUPT when the user wants to stop. */
void poll_interrupt(const Graph *g);

/* ---- opaque.c ---- */

bool opaque_run(const Graph *g, Arena *arena, const Node *n, Tensor *out,
                Fault *fault);

#endif
