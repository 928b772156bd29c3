/* Compiles the body of a materialized node to bytecode.
 *
 * The place of an op is determined by its depth and its region.  The depth is
 * that of its innermost axis.  If only one side of a BODY_SELECT needs an op,
 * its region is that side.
 *
 * An op that can fail (an index not proved in bounds, an integer division) must
 * not run where it is not needed.  If necessary it is emitted in several
 * regions.  Other ops may be hoisted.
 *
 * The main entry point is bytecode_compile. */
#include "backend/reference/reference.h"
#include "support/arena.h"
#include "support/vec.h"

#include <string.h>

enum { ROOT_REGION, MAX_REGIONS = 4096, MAX_DOT_LENGTH = 1 << 22 };

typedef VEC(uint32_t) IndexList;

typedef struct AffineIndex { /* constant + sum of coef[k] * axis k */
  bool known;
  int64_t constant;
  int64_t *coef;     /* one for each axis */
  int64_t low, high; /* bounds; valid even if the index is not affine */
} AffineIndex;

typedef struct OpInfo { /* what is known about a body op */
  uint32_t depth, reg;
  bool may_fail; /* the op, or an op that it needs, can fail */
  AffineIndex affine;
  IndexList uses; /* regions that use the op */
} OpInfo;

typedef struct OpPlacement {
  /* then_region, else_region: for a select. */
  uint32_t body_op, then_region, else_region;
} OpPlacement;

typedef struct SelectRegion {
  uint32_t parent, level, depth;
  VEC(OpPlacement) ops; /* in reverse order */
} SelectRegion;

/* An address computed outside the innermost loop. */
typedef struct HoistedAddress {
  int64_t constant;
  const int64_t *coef;
  uint32_t reg;
} HoistedAddress;

typedef struct CodeBlock {
  VEC(Instruction) instructions;
  IndexList body_ops;
} CodeBlock;

typedef struct BytecodeCompiler {
  Arena *arena;
  const Node *node;
  /* Number of all axes; of axes that are not reduced. */
  uint32_t axis_count, output_axes;
  uint32_t guard_depth;
  OpInfo *op_info;
  VEC(SelectRegion) regions;
  CodeBlock blocks[MAX_RANK + 1]; /* indexed by depth */
  CodeBlock *out;                 /* the block that receives code now */
  uint32_t current_op;            /* the op whose code is emitted now */
  VEC(Reg) regs;
  VEC(ConstantReg) constants;
  VEC(HoistedAddress) hoisted_addresses;
} BytecodeCompiler;

/* ---- registers and instructions ---- */

static uint32_t new_reg(BytecodeCompiler *c, Reg value) {
  VEC_PUSH(c->arena, c->regs, value);
  return c->regs.len - 1;
}

static uint32_t int_reg(BytecodeCompiler *c, int64_t x) {
  return new_reg(c, (Reg){.i = x});
}

static Instruction *emit(BytecodeCompiler *c, Instruction ins) {
  VEC_PUSH(c->arena, c->out->instructions, ins);
  VEC_PUSH(c->arena, c->out->body_ops, c->current_op);
  return &c->out->instructions.at[c->out->instructions.len - 1];
}

/* ---- analysis of ops ---- */

static bool in_range(const AffineIndex *a, int64_t extent) {
  return a->low >= 0 && a->high < extent;
}

static void affine_index_bounds(const BytecodeCompiler *c, AffineIndex *a) {
  int64_t low = a->constant, high = a->constant;
  bool overflow = false;
  for (uint32_t k = 0; k < c->axis_count; k++) {
    int64_t extreme;
    overflow |=
        __builtin_mul_overflow(a->coef[k], c->node->extents[k] - 1, &extreme);
    int64_t *end = extreme < 0 ? &low : &high;
    overflow |= __builtin_add_overflow(*end, extreme, end);
  }
  a->known = !overflow;
  a->low = overflow ? INT64_MIN : low;
  a->high = overflow ? INT64_MAX : high;
}

static bool affine_index_add_scaled(const BytecodeCompiler *c,
                                    const AffineIndex *x, int64_t factor,
                                    const AffineIndex *y, AffineIndex *out) {
  int64_t part;
  bool overflow = __builtin_mul_overflow(y->constant, factor, &part) ||
                  __builtin_add_overflow(x->constant, part, &out->constant);
  for (uint32_t k = 0; k < c->axis_count; k++)
    overflow |= __builtin_mul_overflow(y->coef[k], factor, &part) ||
                __builtin_add_overflow(x->coef[k], part, &out->coef[k]);
  return !overflow;
}

static bool affine_index_is_constant(const BytecodeCompiler *c,
                                     const AffineIndex *a) {
  for (uint32_t k = 0; a->known && k < c->axis_count; k++)
    if (a->coef[k])
      return false;
  return a->known;
}

static void affine_index_op(const BytecodeCompiler *c, PrimId op,
                            const AffineIndex *x, const AffineIndex *y,
                            AffineIndex *out) {
  bool is_affine = x->known && y->known;
  if (is_affine && (op == PRIM_ADD || op == PRIM_SUB)) {
    is_affine = affine_index_add_scaled(c, x, op == PRIM_ADD ? 1 : -1, y, out);
  } else if (is_affine && op == PRIM_MUL && affine_index_is_constant(c, y)) {
    AffineIndex zero = {.coef = NEW_ARRAY(c->arena, int64_t, c->axis_count)};
    is_affine = affine_index_add_scaled(c, &zero, y->constant, x, out);
  } else if (is_affine && op == PRIM_MUL && affine_index_is_constant(c, x)) {
    affine_index_op(c, op, y, x, out);
    return;
  } else {
    is_affine = false;
  }
  if (is_affine)
    affine_index_bounds(c, out);
}

/* Computes the bounds of a result that is not affine, as far as indices need
 * them. */
static void interval_bounds(PrimId op, const AffineIndex *x,
                            const AffineIndex *y, AffineIndex *out) {
  bool bounded = x->low != INT64_MIN && x->high != INT64_MAX;
  bool number = y->low == y->high && y->low > 0;
  if (op == PRIM_MOD && y->low > 0 && y->high != INT64_MAX) {
    out->low = 0;
    out->high = y->high - 1;
  } else if (op == PRIM_DIV && number && bounded) {
    out->low = int_floor_div(x->low, y->low);
    out->high = int_floor_div(x->high, y->low);
  } else if ((op == PRIM_ADD || op == PRIM_SUB) && bounded &&
             y->low != INT64_MIN && y->high != INT64_MAX) {
    bool add = op == PRIM_ADD;
    bool overflow =
        add ? __builtin_add_overflow(x->low, y->low, &out->low) ||
                  __builtin_add_overflow(x->high, y->high, &out->high)
            : __builtin_sub_overflow(x->low, y->high, &out->low) ||
                  __builtin_sub_overflow(x->high, y->low, &out->high);
    if (overflow) {
      out->low = INT64_MIN;
      out->high = INT64_MAX;
    }
  }
}

static AffineIndex affine_index_of(const BytecodeCompiler *c,
                                   const BodyOp *expr) {
  AffineIndex a = {.low = INT64_MIN, .high = INT64_MAX};
  if (expr->dtype != DT_I64)
    return a;
  if (expr->kind == BODY_CONST || expr->kind == BODY_AXIS) {
    a.coef = NEW_ARRAY(c->arena, int64_t, c->axis_count);
    if (expr->kind == BODY_AXIS)
      a.coef[expr->axis] = 1;
    else
      a.constant = expr->value.i;
    affine_index_bounds(c, &a);
  } else if (expr->kind == BODY_OP && expr->arg_count == 2) {
    const AffineIndex *x = &c->op_info[expr->args[0]].affine;
    const AffineIndex *y = &c->op_info[expr->args[1]].affine;
    a.coef = NEW_ARRAY(c->arena, int64_t, c->axis_count);
    affine_index_op(c, expr->op, x, y, &a);
    if (!a.known)
      interval_bounds(expr->op, x, y, &a);
  }
  return a;
}

/* True if argument k of a read is an address that needs no register of its
 * own. */
static bool is_direct_index(const BytecodeCompiler *c, const BodyOp *read,
                            uint32_t k) {
  const AffineIndex *a = &c->op_info[read->args[k]].affine;
  return a->known && in_range(a, read->node->extents[k]);
}

static bool can_fail(const BytecodeCompiler *c, const BodyOp *expr) {
  if (expr->kind == BODY_READ)
    for (uint32_t k = 0; k < expr->arg_count; k++)
      if (!in_range(&c->op_info[expr->args[k]].affine, expr->node->extents[k]))
        return true;
  if (expr->kind == BODY_OP && compute_kind(expr->dtype) == KIND_I &&
      map_info[expr->op].fault != ARITH_OK) {
    const AffineIndex *y = &c->op_info[expr->args[1]].affine;
    return !(y->low > 0 ||
             (y->high < 0 && map_info[expr->op].fault == ARITH_DIVIDE_BY_ZERO));
  }
  return false;
}

static void analyse_ops(BytecodeCompiler *c) {
  for (uint32_t k = 0; k < c->node->body_op_count; k++) {
    const BodyOp *expr = &c->node->body_ops[k];
    OpInfo *info = &c->op_info[k];
    info->depth = expr->kind == BODY_AXIS ? expr->axis + 1 : 0;
    info->affine = affine_index_of(c, expr);
    info->may_fail = can_fail(c, expr);
    for (uint32_t j = 0; j < expr->arg_count; j++) {
      const OpInfo *arg = &c->op_info[expr->args[j]];
      info->depth = arg->depth > info->depth ? arg->depth : info->depth;
      info->may_fail |= arg->may_fail;
    }
    if (info->may_fail && info->depth < c->guard_depth)
      info->depth = c->guard_depth; /* it may run only after the guard */
  }
}

/* ---- regions ---- */

static uint32_t new_region(BytecodeCompiler *c, uint32_t parent,
                           uint32_t depth) {
  SelectRegion r = {.parent = parent, .depth = depth};
  r.level = c->regions.len ? c->regions.at[parent].level + 1 : 0;
  VEC_PUSH(c->arena, c->regions, r);
  return c->regions.len - 1;
}

static uint32_t lowest_common_region(const BytecodeCompiler *c, uint32_t x,
                                     uint32_t y) {
  const SelectRegion *r = c->regions.at;
  while (x != y)
    if (r[x].level >= r[y].level)
      x = r[x].parent;
    else
      y = r[y].parent;
  return x;
}

/* The regions of a select are created one after the other. */
static uint32_t sibling_region(uint32_t region) {
  return region == ROOT_REGION ? ROOT_REGION : ((region - 1) ^ 1) + 1;
}

/* An op that both sides of a select need is hoisted before the select. */
static uint32_t hoisted_region(const BytecodeCompiler *c, const IndexList *uses,
                               uint32_t region) {
  for (uint32_t k = 0; k < uses->len && region != ROOT_REGION; k++)
    if (uses->at[k] == sibling_region(region))
      return hoisted_region(c, uses, c->regions.at[region].parent);
  return region;
}

static void add_use(BytecodeCompiler *c, uint32_t expr, uint32_t region) {
  IndexList *uses = &c->op_info[expr].uses;
  for (uint32_t k = 0; k < uses->len; k++)
    if (lowest_common_region(c, uses->at[k], region) == uses->at[k])
      return; /* it is placed here or in an enclosing region already */
  uint32_t kept = 0;
  region = hoisted_region(c, uses, region);
  for (uint32_t k = 0; k < uses->len; k++)
    if (lowest_common_region(c, uses->at[k], region) != region)
      uses->at[kept++] = uses->at[k];
  uses->len = kept;
  VEC_PUSH(c->arena, *uses, region);
}

static void place_op(BytecodeCompiler *c, uint32_t k, uint32_t region) {
  const BodyOp *expr = &c->node->body_ops[k];
  OpPlacement p = {.body_op = k};
  if (expr->kind == BODY_SELECT) {
    uint32_t depth = region == ROOT_REGION ? c->op_info[k].depth
                                           : c->regions.at[region].depth;
    p.then_region = new_region(c, region, depth);
    p.else_region = new_region(c, region, depth);
    add_use(c, expr->args[0], region);
    add_use(c, expr->args[1], p.then_region);
    add_use(c, expr->args[2], p.else_region);
  } else {
    for (uint32_t j = 0; j < expr->arg_count; j++)
      if (expr->kind != BODY_READ || !is_direct_index(c, expr, j))
        add_use(c, expr->args[j], region);
  }
  VEC_PUSH(c->arena, c->regions.at[region].ops, p);
}

static bool is_cheap_index_op(const BodyOp *expr) {
  return expr->kind == BODY_OP && expr->dtype == DT_I64 &&
         (expr->op == PRIM_ADD || expr->op == PRIM_SUB || expr->op == PRIM_MUL);
}

/* Consumers are placed before operands, so all uses of an op are known. */
static void place_ops(BytecodeCompiler *c) {
  new_region(c, ROOT_REGION, 0);
  add_use(c, c->node->body_op_count - 1, ROOT_REGION);
  for (uint32_t k = c->node->body_op_count; k-- > 0;) {
    const BodyOp *expr = &c->node->body_ops[k];
    OpInfo *info = &c->op_info[k];
    if (info->uses.len == 0 || expr->kind == BODY_CONST ||
        expr->kind == BODY_AXIS)
      continue;
    if (info->may_fail && c->regions.len < MAX_REGIONS) {
      for (uint32_t j = 0; j < info->uses.len; j++)
        place_op(c, k, info->uses.at[j]);
      continue;
    }
    uint32_t region = info->uses.at[0];
    for (uint32_t j = 1; j < info->uses.len; j++)
      region = lowest_common_region(c, region, info->uses.at[j]);
    if (!info->may_fail &&
        (is_cheap_index_op(expr) || info->depth < c->regions.at[region].depth))
      region = ROOT_REGION;
    place_op(c, k, region);
  }
}

/* ---- code of ops ---- */

static uint32_t op_reg(BytecodeCompiler *c, uint32_t k) {
  const BodyOp *expr = &c->node->body_ops[k];
  if (expr->kind == BODY_AXIS)
    return expr->axis;
  if (c->op_info[k].reg)
    return c->op_info[k].reg - 1;
  bool constant = expr->kind == BODY_CONST;
  uint32_t reg =
      new_reg(c, constant ? reg_from_scalar(expr->value) : (Reg){.i = 0});
  if (constant)
    VEC_PUSH(c->arena, c->constants, ((ConstantReg){reg, k}));
  c->op_info[k].reg = 1 + reg;
  return reg;
}

static uint32_t innermost_axis(const BytecodeCompiler *c, const int64_t *coef) {
  for (uint32_t k = c->axis_count; k-- > 0;)
    if (coef[k])
      return k;
  return UINT32_MAX;
}

/* Returns a register with constant + sum of coef * axes.  It is computed in the
 * block of its innermost axis, which is strictly outside the current code. */
static uint32_t hoisted_address_reg(BytecodeCompiler *c, int64_t constant,
                                    int64_t *coef) {
  for (uint32_t k = 0; k < c->hoisted_addresses.len; k++) {
    const HoistedAddress *p = &c->hoisted_addresses.at[k];
    if (p->constant == constant &&
        memcmp(p->coef, coef, c->axis_count * sizeof *coef) == 0)
      return p->reg;
  }
  uint32_t axis = innermost_axis(c, coef), reg;
  if (axis == UINT32_MAX) {
    reg = int_reg(c, constant);
  } else {
    int64_t *rest = NEW_ARRAY(c->arena, int64_t, c->axis_count);
    memcpy(rest, coef, c->axis_count * sizeof *rest);
    rest[axis] = 0;
    uint32_t outer = hoisted_address_reg(c, constant, rest);
    reg = int_reg(c, 0);
    CodeBlock *here = c->out;
    c->out = &c->blocks[axis + 1];
    emit(
        c,
        (Instruction){
            .op = OP_AFFINE, .d = reg, .a = outer, .b = axis, .k = coef[axis]});
    c->out = here;
  }
  HoistedAddress p = {constant, coef, reg};
  VEC_PUSH(c->arena, c->hoisted_addresses, p);
  return reg;
}

static OpCode load_opcode(Dtype t) {
  return (OpCode)(OP_LOAD_BOOL + (t - DT_BOOL));
}

static void row_major_strides(const Node *x, int64_t *strides) {
  int64_t stride = 1;
  for (uint32_t k = x->free_count + x->rank; k-- > 0;) {
    strides[k] = stride;
    stride *= x->extents[k];
  }
}

/* Direct indices form one affine address.  Each other index is checked and
 * added. */
static void emit_load(BytecodeCompiler *c, const BodyOp *expr, uint32_t d) {
  const Node *x = expr->node;
  int64_t strides[MAX_RANK], constant = 0;
  int64_t *coef = NEW_ARRAY(c->arena, int64_t, c->axis_count);
  row_major_strides(x, strides);
  for (uint32_t k = 0; k < expr->arg_count; k++) {
    if (!is_direct_index(c, expr, k))
      continue;
    const AffineIndex *a = &c->op_info[expr->args[k]].affine;
    constant += a->constant * strides[k];
    for (uint32_t j = 0; j < c->axis_count; j++)
      coef[j] += a->coef[j] * strides[k];
  }
  uint32_t inner = innermost_axis(c, coef);
  int64_t step = inner == UINT32_MAX ? 0 : coef[inner];
  if (step)
    coef[inner] = 0;
  uint32_t address = hoisted_address_reg(c, constant, coef);
  for (uint32_t k = 0; k < expr->arg_count; k++) {
    if (is_direct_index(c, expr, k))
      continue;
    emit(c, (Instruction){.op = OP_INDEX,
                          .d = d,
                          .a = address,
                          .k = strides[k],
                          .b = op_reg(c, expr->args[k]),
                          .c = k - x->free_count,
                          .extent = x->extents[k]});
    address = d;
  }
  emit(c, (Instruction){.op = load_opcode(x->dtype),
                        .d = d,
                        .a = address,
                        .k = step,
                        .b = step ? inner : address,
                        .base = x->data->data});
}

static OpCode map_opcode(PrimId op, ComputeKind kind) {
  switch (op) { /* the others are no elementwise operations */
#define CODE_NONE(id) case PRIM_##id:
#define CODE_MAP(id) \
  case PRIM_##id:    \
    return (OpCode)(OP_##id##_I + kind);
#define CODE_REDUCE CODE_NONE
#define CODE_MOVE CODE_NONE
#define CODE_MAKE CODE_NONE
#define CODE_OPAQUE CODE_NONE
#define CODE_CONTROL CODE_NONE
#define CODE_HOST CODE_NONE
#define P(id, name, class, flags, derivative, scheme, doc, example) \
  CODE_##class(id)
#include "primitives/primitives.def"
#undef P
  case PRIM_NONE:
  case PRIM_COUNT:
    break;
  }
  return OP_HALT;
}

static bool needs_rounding(Dtype t) {
  return t == DT_U8 || t == DT_I8 || t == DT_I32 || dtype_is_narrow_float(t);
}

static void emit_op(BytecodeCompiler *c, const BodyOp *expr, uint32_t d) {
  uint32_t regs[3] = {0, 0, 0};
  for (uint32_t k = 0; k < expr->arg_count && k < 3; k++)
    regs[k] = op_reg(c, expr->args[k]);
  const BodyOp *typed = &c->node->body_ops[expr->args[expr->op == PRIM_SELECT]];
  emit(c, (Instruction){.op = map_opcode(expr->op, compute_kind(typed->dtype)),
                        .d = d,
                        .a = regs[0],
                        .b = regs[1],
                        .c = regs[2]});
  if (needs_rounding(expr->dtype) && expr->op != PRIM_SELECT)
    emit(c, (Instruction){.op = OP_FIT, .d = d, .to = expr->dtype});
}

static OpCode convert_opcode(Dtype from, Dtype to) {
  bool whole = !dtype_is_float(from);
  if (to == DT_F32 && from == DT_F64)
    return OP_CONVERT_D_F;
  if (to == DT_F32)
    return whole ? OP_CONVERT_I_F : OP_MOVE;
  if (to == DT_F64)
    return whole ? OP_CONVERT_I_D : OP_CONVERT_F_D;
  if (to == DT_I64 && whole)
    return OP_MOVE;
  return OP_CONVERT;
}

static void emit_convert(BytecodeCompiler *c, const BodyOp *expr, uint32_t d) {
  Dtype from = c->node->body_ops[expr->args[0]].dtype;
  emit(c, (Instruction){.op = convert_opcode(from, expr->dtype),
                        .d = d,
                        .a = op_reg(c, expr->args[0]),
                        .from = from,
                        .to = expr->dtype});
}

static void emit_region(BytecodeCompiler *c, uint32_t region);

static void patch_jump(BytecodeCompiler *c, uint32_t from) {
  c->out->instructions.at[from].jump =
      (int32_t)(c->out->instructions.len - from);
}

static void emit_select(BytecodeCompiler *c, const BodyOp *expr,
                        const OpPlacement *p, uint32_t d) {
  uint32_t test = c->out->instructions.len;
  emit(c, (Instruction){.op = OP_JUMP_FALSE, .a = op_reg(c, expr->args[0])});
  emit_region(c, p->then_region);
  emit(c, (Instruction){.op = OP_MOVE, .d = d, .a = op_reg(c, expr->args[1])});
  uint32_t end = c->out->instructions.len;
  emit(c, (Instruction){.op = OP_JUMP});
  patch_jump(c, test);
  emit_region(c, p->else_region);
  emit(c, (Instruction){.op = OP_MOVE, .d = d, .a = op_reg(c, expr->args[2])});
  patch_jump(c, end);
}

static void emit_body_op(BytecodeCompiler *c, const OpPlacement *p) {
  const BodyOp *expr = &c->node->body_ops[p->body_op];
  uint32_t d = op_reg(c, p->body_op);
  c->current_op = p->body_op;
  switch (expr->kind) {
  case BODY_CONST:
  case BODY_EXTENT: /* extents are numbers when a graph runs */
  case BODY_AXIS:
    break;
  case BODY_READ:
    emit_load(c, expr, d);
    break;
  case BODY_OP:
    emit_op(c, expr, d);
    break;
  case BODY_SELECT: {
    OpPlacement copy = *p;
    emit_select(c, expr, &copy, d);
    break;
  }
  case BODY_CONVERT:
    emit_convert(c, expr, d);
    break;
  case BODY_RANDOM:
    emit(c,
         (Instruction){.op = expr->op == PRIM_NORMAL ? OP_NORMAL : OP_UNIFORM,
                       .d = d,
                       .a = op_reg(c, expr->args[0]),
                       .to = expr->dtype,
                       .base = &expr->key});
    break;
  }
}

static void emit_region(BytecodeCompiler *c, uint32_t region) {
  for (uint32_t k = c->regions.at[region].ops.len; k-- > 0;)
    emit_body_op(c, &c->regions.at[region].ops.at[k]);
}

/* Emits the ops outside of selects, each at its depth.  Outer depths come
 * first, since code may add addresses to outer depths. */
static void emit_root(BytecodeCompiler *c) {
  const SelectRegion *root = &c->regions.at[ROOT_REGION];
  for (uint32_t depth = 0; depth <= c->axis_count; depth++)
    for (uint32_t k = root->ops.len; k-- > 0;)
      if (c->op_info[root->ops.at[k].body_op].depth == depth) {
        c->out = &c->blocks[depth];
        emit_body_op(c, &root->ops.at[k]);
      }
}

/* ---- loops ---- */

static void append_block(BytecodeCompiler *c, const CodeBlock *block) {
  for (uint32_t k = 0; k < block->instructions.len; k++) {
    c->current_op = block->body_ops.at[k];
    emit(c, block->instructions.at[k]);
  }
}

static void emit_loop_end(BytecodeCompiler *c, uint32_t axis,
                          uint32_t loop_start) {
  uint32_t here = c->out->instructions.len;
  emit(c, (Instruction){.op = OP_NEXT,
                        .d = axis,
                        .k = c->node->extents[axis],
                        .jump = (int32_t)loop_start - (int32_t)here});
}

/* Emits a load of the guard.  If it is false, the rest of the iteration is
 * skipped.  Returns the jump, which the caller patches. */
static uint32_t emit_guard(BytecodeCompiler *c) {
  const Node *guard = c->node->guard;
  int64_t strides[MAX_RANK], skipped = 1;
  row_major_strides(guard, strides);
  uint32_t d = int_reg(c, 0), address = int_reg(c, 0);
  for (uint32_t k = 0; k < guard->free_count; k++)
    for (uint32_t j = 0; j < c->node->free_count; j++)
      if (c->node->free_vars[j] == guard->free_vars[k]) {
        emit(c, (Instruction){.op = OP_AFFINE,
                              .d = d,
                              .a = address,
                              .b = j,
                              .k = strides[k]});
        address = d;
      }
  for (uint32_t k = c->guard_depth; k < c->output_axes; k++)
    skipped *= c->node->extents[k];
  emit(c, (Instruction){.op = OP_LOAD_BOOL,
                        .d = d,
                        .a = address,
                        .b = address,
                        .base = guard->data->data});
  uint32_t at = c->out->instructions.len;
  emit(c, (Instruction){.op = OP_GUARD, .a = d, .k = skipped});
  return at;
}

/* In the order of the instructions of a REDUCE primitive. */
typedef enum AccumulatorKind { ACC_I, ACC_F, ACC_D, ACC_W } AccumulatorKind;

static AccumulatorKind accumulator_kind(const BytecodeCompiler *c, Dtype body) {
  ComputeKind kind = compute_kind(body);
  if (kind != KIND_F)
    return kind == KIND_I ? ACC_I : ACC_D;
  bool is_wide = reduce_info[c->node->reduce].accumulator != ACCUMULATOR_OWN;
  return is_wide && c->node->dtype == DT_F32 ? ACC_W : ACC_F;
}

/* The first instruction of each REDUCE primitive. */
static const OpCode first_accumulate[PRIM_COUNT] = {
#define R(id, ...) [PRIM_##id] = OP_##id##_I,
#include "primitives/reduce.def"
#undef R
};

typedef struct Reduction { /* how a reduction accumulates */
  bool is_arg_reduction;
  OpCode op;
  Reg identity;
  Dtype accumulator_dtype; /* type of the accumulator */
} Reduction;

static Reduction reduction_of(const BytecodeCompiler *c) {
  Dtype body = c->node->body_ops[c->node->body_op_count - 1].dtype;
  PrimId op = c->node->reduce;
  AccumulatorKind kind = accumulator_kind(c, body);
  Reduction f = {.is_arg_reduction = prim_is_arg_reduction(op),
                 .op = (OpCode)(first_accumulate[op] + kind),
                 .accumulator_dtype = body};
  if (f.is_arg_reduction)
    f.accumulator_dtype = DT_I64;
  else if (reduce_info[op].accumulator != ACCUMULATOR_OWN)
    f.accumulator_dtype = kind == ACC_I   ? DT_I64
                          : kind == ACC_F ? DT_F32
                                          : DT_F64;
  f.identity = reg_from_scalar(
      scalar_convert(reduce_identity(op, body), f.accumulator_dtype));
  return f;
}

/* Initializes the accumulator, which has three registers.  Returns the
 * first. */
static uint32_t emit_reduction_start(BytecodeCompiler *c, const Reduction *f) {
  uint32_t start = new_reg(c, f->identity), zero = int_reg(c, 0);
  uint32_t acc = int_reg(c, 0);
  int_reg(c, 0), int_reg(c, 0);
  emit(c, (Instruction){.op = OP_MOVE, .d = acc, .a = start});
  if (f->is_arg_reduction)
    emit(c, (Instruction){.op = OP_MOVE, .d = acc + 2, .a = zero});
  return acc;
}

/* Returns the register with the result, in the type of the node. */
static uint32_t emit_reduction_end(BytecodeCompiler *c, const Reduction *f,
                                   uint32_t acc) {
  uint32_t d = int_reg(c, 0);
  OpCode op = f->accumulator_dtype == c->node->dtype
                  ? OP_MOVE
                  : convert_opcode(f->accumulator_dtype, c->node->dtype);
  emit(c, (Instruction){.op = op,
                        .d = d,
                        .a = f->is_arg_reduction ? acc + 1 : acc,
                        .from = f->accumulator_dtype,
                        .to = c->node->dtype});
  return d;
}

static void emit_store(BytecodeCompiler *c, uint32_t reg) {
  bool is_f32 = c->node->dtype == DT_F32;
  emit(c, (Instruction){.op = is_f32 ? OP_STORE_F32 : OP_STORE,
                        .a = reg,
                        .to = c->node->dtype});
}

/* True if the innermost loop consists of two loads, their product, and the sum.
 * loop_start is its first instruction. */
static bool is_dot_product(const BytecodeCompiler *c, uint32_t loop_start,
                           uint32_t product) {
  const Instruction *i = c->out->instructions.at + loop_start;
  return c->out->instructions.len - loop_start == 4 &&
         c->node->extents[c->axis_count - 1] < MAX_DOT_LENGTH &&
         i[0].op == OP_LOAD_F32 && i[1].op == OP_LOAD_F32 &&
         i[2].op == OP_MUL_F && i[3].op == OP_SUM_W && i[3].a == product &&
         ((i[2].a == i[0].d && i[2].b == i[1].d) ||
          (i[2].a == i[1].d && i[2].b == i[0].d));
}

/* Puts one instruction before the loop that executes the whole loop. */
static void emit_dot(BytecodeCompiler *c, uint32_t loop_start, uint32_t acc) {
  /* Makes room; then the loop moves by one. */
  emit(c, (Instruction){.op = OP_JUMP});
  Instruction *i = c->out->instructions.at + loop_start;
  memmove(i + 1, i, 4 * sizeof *i);
  uint32_t *body_op = c->out->body_ops.at + loop_start;
  memmove(body_op + 1, body_op, 4 * sizeof *body_op);
  i[0] = (Instruction){.op = OP_DOT,
                       .d = acc,
                       .a = c->axis_count - 1,
                       .jump = 6,
                       .k = c->node->extents[c->axis_count - 1]};
}

static void emit_reduction(BytecodeCompiler *c) {
  Reduction f = reduction_of(c);
  uint32_t acc = emit_reduction_start(c, &f), loop_start[MAX_RANK];
  bool empty = false;
  for (uint32_t k = c->output_axes; k < c->axis_count; k++)
    empty |= c->node->extents[k] == 0;
  for (uint32_t k = c->output_axes; k < c->axis_count && !empty; k++) {
    emit(c, (Instruction){.op = OP_START, .d = k});
    loop_start[k] = c->out->instructions.len;
    append_block(c, &c->blocks[k + 1]);
  }
  if (!empty)
    emit(c, (Instruction){.op = f.op,
                          .d = acc,
                          .a = op_reg(c, c->node->body_op_count - 1)});
  if (!empty && f.op == OP_SUM_W &&
      is_dot_product(c, loop_start[c->axis_count - 1],
                     op_reg(c, c->node->body_op_count - 1)))
    emit_dot(c, loop_start[c->axis_count - 1], acc);
  for (uint32_t k = c->axis_count; k-- > c->output_axes && !empty;)
    emit_loop_end(c, k, loop_start[k]);
  emit_store(c, emit_reduction_end(c, &f, acc));
}

static void emit_loops(BytecodeCompiler *c) {
  uint32_t loop_start[MAX_RANK], guard = UINT32_MAX;
  if (c->node->guard && c->guard_depth == 0)
    guard = emit_guard(c);
  append_block(c, &c->blocks[0]);
  for (uint32_t k = 0; k < c->output_axes; k++) {
    emit(c, (Instruction){.op = OP_START, .d = k});
    loop_start[k] = c->out->instructions.len;
    if (c->node->guard && k + 1 == c->guard_depth)
      guard = emit_guard(c);
    append_block(c, &c->blocks[k + 1]);
  }
  if (c->node->reduce != PRIM_NONE)
    emit_reduction(c);
  else
    emit_store(c, op_reg(c, c->node->body_op_count - 1));
  for (uint32_t k = c->output_axes; k-- > 0;) {
    if (guard != UINT32_MAX && k + 1 == c->guard_depth)
      patch_jump(c, guard);
    emit_loop_end(c, k, loop_start[k]);
  }
  if (guard != UINT32_MAX && c->guard_depth == 0)
    patch_jump(c, guard);
  emit(c, (Instruction){.op = OP_HALT});
}

static uint32_t guard_depth(const Node *n) {
  uint32_t depth = 0;
  for (uint32_t k = 0; n->guard && k < n->guard->free_count; k++)
    for (uint32_t j = 0; j < n->free_count; j++)
      if (n->free_vars[j] == n->guard->free_vars[k] && j + 1 > depth)
        depth = j + 1;
  return depth;
}

/* The body of an empty reduction never runs and has no code. */
static bool has_body(const BytecodeCompiler *c) {
  for (uint32_t k = c->output_axes; k < c->axis_count; k++)
    if (c->node->extents[k] == 0)
      return false;
  return true;
}

Bytecode *bytecode_compile(Arena *arena, const Node *n) {
  BytecodeCompiler *c = NEW(arena, BytecodeCompiler);
  c->arena = arena;
  c->node = n;
  c->output_axes = n->free_count + n->rank;
  c->axis_count = c->output_axes + n->reduce_count;
  c->guard_depth = guard_depth(n);
  c->op_info = NEW_ARRAY(arena, OpInfo, n->body_op_count);
  for (uint32_t k = 0; k < c->axis_count; k++)
    int_reg(c, 0);
  if (has_body(c)) {
    analyse_ops(c);
    place_ops(c);
    emit_root(c);
  }
  CodeBlock *code = NEW(arena, CodeBlock);
  c->out = code;
  emit_loops(c);
  Bytecode *p = NEW(arena, Bytecode);
  *p = (Bytecode){.body_ops = n->body_ops,
                  .code = code->instructions.at,
                  .body_op_of = code->body_ops.at,
                  .count = code->instructions.len,
                  .reg_count = c->regs.len,
                  .regs = c->regs.at,
                  .constants = c->constants.at,
                  .constant_count = c->constants.len};
  return p;
}
