/* The machine that runs programs: one instruction after the other. */
#include "backend/reference/reference.h"

#include <string.h>

enum { POLL_EVERY = 4096 };

void poll_interrupt(const Graph *g) {
  if (g->interrupt && flag_is_set(g->interrupt))
    trap_raise(FAIL_INTERRUPT);
}

static bool out_of_bounds(const Ins *ins, int64_t index, Fault *fault) {
  fault_set(fault, "index %lld is out of bounds for axis %u of size %lld",
            (long long)index, ins->c, (long long)ins->extent);
  return false;
}

static Reg convert(const Ins *ins, Reg x) {
  return reg_of(scalar_convert(scalar_of((Dtype)ins->from, x), (Dtype)ins->to));
}

/* What a load reads while an axis moves. */
typedef struct Walk {
  const float *at;
  int64_t step;
} Walk;

static Walk walk_of(const Ins *load, const Reg *r, uint32_t axis) {
  Walk w = {(const float *)load->base + r[load->a].i, 0};
  if (load->b == axis)
    w.step = load->k;
  else
    w.at += load->k * r[load->b].i;
  return w;
}

static double dot(double sum, int64_t count, Walk x, Walk y) {
  for (int64_t i = 0; i < count; i++)
    sum += x.at[i * x.step] * y.at[i * y.step];
  return sum;
}

/* clang-format off: rows of instructions, and rows made from the table */
#define LABEL_NONE(id)
#define LABEL_MAP(id)                                           \
  [OP_##id##_I] = &&on_##id##_I, [OP_##id##_F] = &&on_##id##_F, \
  [OP_##id##_D] = &&on_##id##_D,
#define LABEL_REDUCE LABEL_NONE
#define LABEL_MOVE LABEL_NONE
#define LABEL_MAKE LABEL_NONE
#define LABEL_OPAQUE LABEL_NONE
#define LABEL_CONTROL LABEL_NONE
#define LABEL_HOST LABEL_NONE

#define GO(n)              \
  do {                     \
    ins += (n);            \
    goto *labels[ins->op]; \
  } while (0)
#define D r[ins->d]
#define A r[ins->a]
#define B r[ins->b]
#define C r[ins->c]

#define ON(name, ...)      \
  on_##name : __VA_ARGS__; \
  GO(1);
#define ON_MAP_KIND(id, k)                               \
  on_##id##_##k : bad = ref_##id(KIND_##k, &D, A, B, C); \
  if (__builtin_expect(bad != ARITH_OK, 0))              \
    goto arithmetic;                                     \
  GO(1);
#define CODE_NONE(id)
#define CODE_MAP(id) ON_MAP_KIND(id, I) ON_MAP_KIND(id, F) ON_MAP_KIND(id, D)
#define CODE_REDUCE CODE_NONE
#define CODE_MOVE CODE_NONE
#define CODE_MAKE CODE_NONE
#define CODE_OPAQUE CODE_NONE
#define CODE_CONTROL CODE_NONE
#define CODE_HOST CODE_NONE

#define ADDRESS(type) (((const type *)ins->base)[A.i + ins->k * B.i])
#define BEST(member, op)                                              \
  do {                                                                \
    Reg *best = &D;                                                   \
    if (best[2].i == 0 || A.member op best[0].member ||               \
        (A.member != A.member && best[0].member == best[0].member)) { \
      best[0] = A;                                                    \
      best[1].i = best[2].i;                                          \
    }                                                                 \
    best[2].i++;                                                      \
  } while (0)

bool program_run(const Graph *g, const Node *n, const Program *p, void *out,
                 Span *where, Fault *fault) {
  static const void *const labels[OP_COUNT] = {
#define O(name) [OP_##name] = &&on_##name,
#include "backend/reference/ops.def"
#undef O
#define P(id, name, class, flags, scheme, doc, example) LABEL_##class(id)
#include "primitives/primitives.def"
#undef P
  };
  Reg *r = p->regs;
  const Ins *ins = p->code;
  int64_t at = 0, bytes = dtype_info[n->dtype].bytes;
  uint32_t rounds = POLL_EVERY;
  Arith bad = ARITH_OK;
  GO(0);

  ON(START, D.i = 0)
on_NEXT:
  if (__builtin_expect(--rounds == 0, 0)) {
    rounds = POLL_EVERY;
    poll_interrupt(g);
  }
  GO(++D.i < ins->k ? ins->jump : 1);
on_GUARD:
  if (A.i)
    GO(1);
  at += ins->k;
  GO(ins->jump);
on_JUMP:
  GO(ins->jump);
on_JUMP_FALSE:
  GO(A.i ? 1 : ins->jump);
  ON(MOVE, D = A)
  ON(AFFINE, D.i = A.i + ins->k * B.i)
on_INDEX:
  if (__builtin_expect((uint64_t)B.i >= (uint64_t)ins->extent, 0)) {
    *where = n->cells[p->cell[ins - p->code]].span;
    return out_of_bounds(ins, B.i, fault);
  }
  D
  .i = A.i + ins->k * B.i;
  GO(1);
  ON(LOAD_BOOL, D.i = ADDRESS(uint8_t) != 0)
  ON(LOAD_U8, D.i = ADDRESS(uint8_t))
  ON(LOAD_I8, D.i = ADDRESS(int8_t))
  ON(LOAD_I32, D.i = ADDRESS(int32_t))
  ON(LOAD_I64, D.i = ADDRESS(int64_t))
  ON(LOAD_F16, D.f = (float)f16_to_double(ADDRESS(uint16_t)))
  ON(LOAD_BF16, D.f = (float)bf16_to_double(ADDRESS(uint16_t)))
  ON(LOAD_F32, D.f = ADDRESS(float))
  ON(LOAD_F64, D.d = ADDRESS(double))
  ON(STORE,
     scalar_store(scalar_of((Dtype)ins->to, A), (char *)out + at++ * bytes))
  ON(STORE_F32, ((float *)out)[at++] = A.f)
  ON(FIT, D = reg_fit((Dtype)ins->to, D))
  ON(CONVERT, D = convert(ins, A))
  ON(CONVERT_I_F, D.f = (float)A.i)
  ON(CONVERT_I_D, D.d = (double)A.i)
  ON(CONVERT_F_D, D.d = A.f)
  ON(CONVERT_D_F, D.f = (float)A.d)
  ON(UNIFORM,
     D = reg_of((Scalar){.dtype = (Dtype)ins->to,
                         .f = key_uniform(*(const Key *)ins->base,
                                          (uint64_t)A.i, (Dtype)ins->to)}))
  ON(NORMAL,
     D = reg_of((Scalar){.dtype = (Dtype)ins->to,
                         .f = key_normal(*(const Key *)ins->base, (uint64_t)A.i,
                                         (Dtype)ins->to)}))
  ON(SUM_I, D.i = (int64_t)((uint64_t)D.i + (uint64_t)A.i))
  ON(SUM_F, D.f += A.f)
  ON(SUM_W, D.d += A.f)
  ON(SUM_D, D.d += A.d)
  ON(PROD_I, D.i = (int64_t)((uint64_t)D.i * (uint64_t)A.i))
  ON(PROD_F, D.f *= A.f)
  ON(PROD_W, D.d *= A.f)
  ON(PROD_D, D.d *= A.d)
  ON(MAX_I, ref_MAXIMUM(KIND_I, &D, D, A, A))
  ON(MAX_F, ref_MAXIMUM(KIND_F, &D, D, A, A))
  ON(MAX_D, ref_MAXIMUM(KIND_D, &D, D, A, A))
  ON(MIN_I, ref_MINIMUM(KIND_I, &D, D, A, A))
  ON(MIN_F, ref_MINIMUM(KIND_F, &D, D, A, A))
  ON(MIN_D, ref_MINIMUM(KIND_D, &D, D, A, A))
  ON(ANY, D.i |= A.i)
  ON(ALL, D.i &= A.i)
on_DOT:
  D
  .d = dot(D.d, ins->k, walk_of(ins + 1, r, ins->a),
           walk_of(ins + 2, r, ins->a));
  rounds = rounds > ins->k ? rounds - (uint32_t)ins->k : 1;
  GO(ins->jump);
  ON(ARGMAX_I, BEST(i, >))
  ON(ARGMAX_F, BEST(f, >))
  ON(ARGMAX_D, BEST(d, >))
  ON(ARGMIN_I, BEST(i, <))
  ON(ARGMIN_F, BEST(f, <))
  ON(ARGMIN_D, BEST(d, <))
#define P(id, name, class, flags, scheme, doc, example) CODE_##class(id)
#include "primitives/primitives.def"
#undef P

arithmetic:
  *where = n->cells[p->cell[ins - p->code]].span;
  fault_set_kind(fault, FAULT_ARITHMETIC, arith_text(bad));
  return false;
on_HALT:
  return true;
}
