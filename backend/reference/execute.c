/* The bytecode interpreter.  The main entry point is bytecode_run. */
#include "backend/reference/reference.h"
#include "support/trap.h"

#include <string.h>

enum { POLL_INTERVAL = 4096 };

void poll_interrupt(const Graph *g) {
  if (g->interrupt && flag_is_set(g->interrupt))
    trap_raise(FAIL_INTERRUPT);
}

static bool report_out_of_bounds(const Instruction *ins, int64_t index,
                                 Fault *fault) {
  fault_set(fault, "index %lld is out of bounds for axis %u of size %lld",
            (long long)index, ins->c, (long long)ins->extent);
  return false;
}

static Reg convert_reg(const Instruction *ins, Reg x) {
  return reg_from_scalar(
      scalar_convert(scalar_from_reg((Dtype)ins->from, x), (Dtype)ins->to));
}

/* The elements that a load reads along an axis. */
typedef struct StridedVector {
  const float *data;
  int64_t stride;
} StridedVector;

static StridedVector strided_vector_of(const Instruction *load, const Reg *r,
                                       uint32_t axis) {
  StridedVector w = {(const float *)load->base + r[load->a].i, 0};
  if (load->b == axis)
    w.stride = load->k;
  else
    w.data += load->k * r[load->b].i;
  return w;
}

static double dot(double sum, int64_t count, StridedVector x, StridedVector y) {
  for (int64_t i = 0; i < count; i++)
    sum += x.data[i * x.stride] * y.data[i * y.stride];
  return sum;
}

/* clang-format off: rows of instructions, and rows made from the table */
#define LABEL_NONE(id)
#define LABEL_MAP(id)                                           \
  [OP_##id##_I] = &&on_##id##_I, [OP_##id##_F] = &&on_##id##_F, \
  [OP_##id##_D] = &&on_##id##_D,
#define LABEL_REDUCE(id)                                        \
  [OP_##id##_I] = &&on_##id##_I, [OP_##id##_F] = &&on_##id##_F, \
  [OP_##id##_D] = &&on_##id##_D, [OP_##id##_W] = &&on_##id##_W,
#define LABEL_MOVE LABEL_NONE
#define LABEL_MAKE LABEL_NONE
#define LABEL_OPAQUE LABEL_NONE
#define LABEL_CONTROL LABEL_NONE
#define LABEL_HOST LABEL_NONE

#define DISPATCH(n)        \
  do {                     \
    ins += (n);            \
    goto *labels[ins->op]; \
  } while (0)
#define D r[ins->d]
#define A r[ins->a]
#define B r[ins->b]
#define C r[ins->c]

#define HANDLER(name, ...) \
  on_##name : __VA_ARGS__; \
  DISPATCH(1);
#define MAP_HANDLER(id, k)                               \
  on_##id##_##k : bad = ref_##id(KIND_##k, &D, A, B, C); \
  if (__builtin_expect(bad != ARITH_OK, 0))              \
    goto arithmetic;                                     \
  DISPATCH(1);
#define CODE_NONE(id)
#define CODE_MAP(id) MAP_HANDLER(id, I) MAP_HANDLER(id, F) MAP_HANDLER(id, D)
#define CODE_REDUCE CODE_NONE
#define CODE_MOVE CODE_NONE
#define CODE_MAKE CODE_NONE
#define CODE_OPAQUE CODE_NONE
#define CODE_CONTROL CODE_NONE
#define CODE_HOST CODE_NONE

#define ADDRESS(type) (((const type *)ins->base)[A.i + ins->k * B.i])
/* Combines D and x, in one kind of number.  For an arg reduction, x and its
 * position may replace D. */
#define ACCUMULATE_VALUE(combine, kind, member, x) \
  ref_##combine(KIND_##kind, &D, D, x, x)
#define ACCUMULATE_PLACE(combine, kind, member, x)                       \
  do {                                                                   \
    Reg *best = &D                                                       \
    , new = x, is_better;                                                \
    ref_##combine(KIND_##kind, &is_better, new, best[0], new);           \
    if (best[2].i == 0 || is_better.i ||                                 \
        (new.member != new.member &&best[0].member == best[0].member)) { \
      best[0] = new;                                                     \
      best[1].i = best[2].i;                                             \
    }                                                                    \
    best[2].i++;                                                         \
  } while (0)
#define REDUCE_HANDLER(id, state, combine)              \
  HANDLER(id##_I, ACCUMULATE_##state(combine, I, i, A)) \
  HANDLER(id##_F, ACCUMULATE_##state(combine, F, f, A)) \
  HANDLER(id##_D, ACCUMULATE_##state(combine, D, d, A)) \
  HANDLER(id##_W, ACCUMULATE_##state(combine, D, d, ((Reg){.d = A.f})))

bool bytecode_run(const Graph *g, const Node *n, const Bytecode *p, void *out,
                  Span *where, Fault *fault) {
  static const void *const labels[OP_COUNT] = {
#define O(name) [OP_##name] = &&on_##name,
#include "backend/reference/ops.def"
#undef O
#define P(id, name, class, flags, derivative, scheme, doc, example) \
  LABEL_##class(id)
#include "primitives/primitives.def"
#undef P
  };
  Reg *r = p->regs;
  const Instruction *ins = p->code;
  int64_t output_index = 0, bytes = dtype_info[n->dtype].bytes;
  uint32_t polls_left = POLL_INTERVAL;
  ArithStatus bad = ARITH_OK;
  DISPATCH(0);

  HANDLER(START, D.i = 0)
on_NEXT:
  if (__builtin_expect(--polls_left == 0, 0)) {
    polls_left = POLL_INTERVAL;
    poll_interrupt(g);
  }
  DISPATCH(++D.i < ins->k ? ins->jump : 1);
on_GUARD:
  if (A.i)
    DISPATCH(1);
  output_index += ins->k;
  DISPATCH(ins->jump);
on_JUMP:
  DISPATCH(ins->jump);
on_JUMP_FALSE:
  DISPATCH(A.i ? 1 : ins->jump);
  HANDLER(MOVE, D = A)
  HANDLER(AFFINE, D.i = A.i + ins->k * B.i)
on_INDEX:
  if (__builtin_expect((uint64_t)B.i >= (uint64_t)ins->extent, 0)) {
    *where = p->body_ops[p->body_op_of[ins - p->code]].span;
    return report_out_of_bounds(ins, B.i, fault);
  }
  D
  .i = A.i + ins->k * B.i;
  DISPATCH(1);
  HANDLER(LOAD_BOOL, D.i = ADDRESS(uint8_t) != 0)
  HANDLER(LOAD_U8, D.i = ADDRESS(uint8_t))
  HANDLER(LOAD_I8, D.i = ADDRESS(int8_t))
  HANDLER(LOAD_I32, D.i = ADDRESS(int32_t))
  HANDLER(LOAD_I64, D.i = ADDRESS(int64_t))
  HANDLER(LOAD_F16, D.f = (float)f16_to_double(ADDRESS(uint16_t)))
  HANDLER(LOAD_BF16, D.f = (float)bf16_to_double(ADDRESS(uint16_t)))
  HANDLER(LOAD_F32, D.f = ADDRESS(float))
  HANDLER(LOAD_F64, D.d = ADDRESS(double))
  HANDLER(LOAD_F8_E4M3, D.f = (float)f8_e4m3_to_double(ADDRESS(uint8_t)))
  HANDLER(LOAD_F8_E5M2, D.f = (float)f8_e5m2_to_double(ADDRESS(uint8_t)))
  HANDLER(LOAD_F4_E2M1, D.f = (float)f4_e2m1_to_double(ADDRESS(uint8_t)))
  HANDLER(LOAD_F8_E8M0, D.f = (float)f8_e8m0_to_double(ADDRESS(uint8_t)))
  HANDLER(STORE, scalar_store(scalar_from_reg((Dtype)ins->to, A),
                              (char *)out + output_index++ * bytes))
  HANDLER(STORE_F32, ((float *)out)[output_index++] = A.f)
  HANDLER(FIT, D = reg_round_or_wrap((Dtype)ins->to, D))
  HANDLER(CONVERT, D = convert_reg(ins, A))
  HANDLER(CONVERT_I_F, D.f = (float)A.i)
  HANDLER(CONVERT_I_D, D.d = (double)A.i)
  HANDLER(CONVERT_F_D, D.d = A.f)
  HANDLER(CONVERT_D_F, D.f = (float)A.d)
  HANDLER(UNIFORM, D = reg_from_scalar((Scalar){
                       .dtype = (Dtype)ins->to,
                       .f = prng_uniform(*(const PrngKey *)ins->base,
                                         (uint64_t)A.i, (Dtype)ins->to)}))
  HANDLER(NORMAL, D = reg_from_scalar((Scalar){
                      .dtype = (Dtype)ins->to,
                      .f = prng_normal(*(const PrngKey *)ins->base,
                                       (uint64_t)A.i, (Dtype)ins->to)}))
on_DOT:
  D
  .d = dot(D.d, ins->k, strided_vector_of(ins + 1, r, ins->a),
           strided_vector_of(ins + 2, r, ins->a));
  polls_left = polls_left > ins->k ? polls_left - (uint32_t)ins->k : 1;
  DISPATCH(ins->jump);
#define R(id, state, combine, ...) REDUCE_HANDLER(id, state, combine)
#include "primitives/reduce.def"
#undef R
#define P(id, name, class, flags, derivative, scheme, doc, example) \
  CODE_##class(id)
#include "primitives/primitives.def"
#undef P

arithmetic:
  *where = p->body_ops[p->body_op_of[ins - p->code]].span;
  fault_set_kind(fault, FAULT_ARITHMETIC, arith_message(bad));
  return false;
on_HALT:
  return true;
}
