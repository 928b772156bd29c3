/* Declarations shared by the files of backend/reference/: bytecode of bodies.
 *
 * A comprehension becomes one list of register instructions, loops included.
 * The code of depth d runs whenever axis d (free, own, then reduced) has a new
 * value.  It contains every op whose innermost axis is d.  The register of an
 * axis holds its index. */
#ifndef AXON_REFERENCE_H
#define AXON_REFERENCE_H

#include "tensor/scalar_ops.h"
#include "tensor/tensor.h"

typedef struct Arena Arena;
typedef struct FusionGroup FusionGroup;

typedef enum OpCode {
#define O(name) OP_##name,
#include "backend/reference/ops.def"
#undef O
#define OPS_MAP(id) OP_##id##_I, OP_##id##_F, OP_##id##_D,
#define OPS_REDUCE(id) OP_##id##_I, OP_##id##_F, OP_##id##_D, OP_##id##_W,
#define OPS_NONE(id)
#define OPS_MOVE OPS_NONE
#define OPS_MAKE OPS_NONE
#define OPS_OPAQUE OPS_NONE
#define OPS_CONTROL OPS_NONE
#define OPS_HOST OPS_NONE
#define P(id, name, class, flags, derivative, scheme, doc, example) \
  OPS_##class(id)
#include "primitives/primitives.def"
#undef P
  OP_COUNT
} OpCode;

typedef struct Instruction {
  uint16_t op;
  uint8_t from, to; /* dtypes */
  int32_t jump;     /* distance to the target, in instructions */
  uint32_t d, a, b, c;
  int64_t k;
  union {
    const void *base; /* loads: elements; random numbers: a key */
    int64_t extent;   /* OP_INDEX */
  };
} Instruction;

/* A register with the value of a BODY_CONST. */
typedef struct ConstantReg {
  uint32_t reg, body_op;
} ConstantReg;

typedef struct Bytecode {
  const BodyOp *body_ops; /* what was compiled */
  Instruction *code;
  /* For each instruction: the body op to which it belongs. */
  uint32_t *body_op_of;
  uint32_t count, reg_count;
  Reg *regs; /* contains the constants */
  ConstantReg *constants;
  uint32_t constant_count;
} Bytecode;

/* ---- compile.c ---- */

/* Returns bytecode in the arena.  All operands of n must have data. */
Bytecode *bytecode_compile(Arena *arena, const Node *n);

/* ---- cached_bytecode.c ---- */

/* Caches the bytecode of node k of a group with its plan, if its operands
 * and constants can be replaced. */
void bytecode_cache(const FusionGroup *group, uint32_t k, const Bytecode *p);
/* Runs the cached bytecode of node k.  Returns false if there is none,
 * or if it fails: then the node must be compiled and run again. */
bool bytecode_run_cached(const Graph *g, Arena *arena, const FusionGroup *group,
                         uint32_t k, void *out);

/* ---- execute.c ---- */

/* Fills `out`, which must be zero wherever a guard may be false. */
bool bytecode_run(const Graph *g, const Node *n, const Bytecode *p, void *out,
                  Span *where, Fault *fault);
/* Raises FAIL_INTERRUPT after Ctrl-C. */
void poll_interrupt(const Graph *g);

/* ---- opaque.c ---- */

bool opaque_run(const Graph *g, Arena *arena, const Node *n, Tensor *out,
                Fault *fault);

#endif
