/* From the cells of a stored node to a program.
 *
 * Where a cell is computed is decided in two steps.  Depth: that of its
 * deepest axis.  Region: a cell needed by one side of a CELL_SELECT only is
 * computed in that side.  A cell that can fail (an index not proved in bounds,
 * an integer division) is never moved to where it might not be needed: it is
 * rather computed in several regions.  Others may be hoisted. */
#include "backend/reference/reference.h"

#include <string.h>

enum { ROOT, REGIONS_MOST = 4096, DOT_MOST = 1 << 22 };

typedef VEC(uint32_t) Numbers;

typedef struct Affine { /* constant + sum of times[k] * axis k */
  bool known;
  int64_t constant;
  int64_t *times;    /* one per axis */
  int64_t low, high; /* bounds, also where it is not affine */
} Affine;

typedef struct Info { /* of a cell */
  uint32_t depth, reg;
  bool fails; /* can it, or something that it needs, fail? */
  Affine affine;
  Numbers uses; /* regions that need it */
} Info;

typedef struct Placement {
  uint32_t cell, yes, no; /* a select's regions */
} Placement;

typedef struct Region {
  uint32_t parent, level, depth;
  VEC(Placement) cells; /* the last first */
} Region;

typedef struct Prefix { /* an address computed outside the innermost loop */
  int64_t constant;
  const int64_t *times;
  uint32_t reg;
} Prefix;

typedef struct Code {
  VEC(Ins) ins;
  Numbers cells;
} Code;

typedef struct Compiler {
  Arena *arena;
  const Node *n;
  uint32_t axes, outer; /* all; without the reduced ones */
  uint32_t guard_depth;
  Info *info;
  VEC(Region) regions;
  Code blocks[RANK_MAX + 1]; /* by depth */
  Code *out;                 /* where code goes now */
  uint32_t cell;             /* the cell that code is for */
  VEC(Reg) regs;
  VEC(Prefix) prefixes;
} Compiler;

/* ---- registers and instructions ---- */

static uint32_t new_reg(Compiler *c, Reg value) {
  VEC_PUSH(c->arena, c->regs, value);
  return c->regs.len - 1;
}

static uint32_t number_reg(Compiler *c, int64_t x) {
  return new_reg(c, (Reg){.i = x});
}

static Ins *emit(Compiler *c, Ins ins) {
  VEC_PUSH(c->arena, c->out->ins, ins);
  VEC_PUSH(c->arena, c->out->cells, c->cell);
  return &c->out->ins.at[c->out->ins.len - 1];
}

/* ---- what is known of the cells ---- */

static bool in_range(const Affine *a, int64_t extent) {
  return a->low >= 0 && a->high < extent;
}

static void affine_bounds(const Compiler *c, Affine *a) {
  int64_t low = a->constant, high = a->constant;
  bool over = false;
  for (uint32_t k = 0; k < c->axes; k++) {
    int64_t far;
    over |= __builtin_mul_overflow(a->times[k], c->n->extents[k] - 1, &far);
    int64_t *end = far < 0 ? &low : &high;
    over |= __builtin_add_overflow(*end, far, end);
  }
  a->known = !over;
  a->low = over ? INT64_MIN : low;
  a->high = over ? INT64_MAX : high;
}

static bool affine_sum(const Compiler *c, const Affine *x, int64_t factor,
                       const Affine *y, Affine *out) {
  int64_t part;
  bool over = __builtin_mul_overflow(y->constant, factor, &part) ||
              __builtin_add_overflow(x->constant, part, &out->constant);
  for (uint32_t k = 0; k < c->axes; k++)
    over |= __builtin_mul_overflow(y->times[k], factor, &part) ||
            __builtin_add_overflow(x->times[k], part, &out->times[k]);
  return !over;
}

static bool is_constant(const Compiler *c, const Affine *a) {
  for (uint32_t k = 0; a->known && k < c->axes; k++)
    if (a->times[k])
      return false;
  return a->known;
}

static void affine_op(const Compiler *c, PrimId op, const Affine *x,
                      const Affine *y, Affine *out) {
  bool good = x->known && y->known;
  if (good && (op == PRIM_ADD || op == PRIM_SUB)) {
    good = affine_sum(c, x, op == PRIM_ADD ? 1 : -1, y, out);
  } else if (good && op == PRIM_MUL && is_constant(c, y)) {
    Affine zero = {.times = NEW_ARRAY(c->arena, int64_t, c->axes)};
    good = affine_sum(c, &zero, y->constant, x, out);
  } else if (good && op == PRIM_MUL && is_constant(c, x)) {
    affine_op(c, op, y, x, out);
    return;
  } else {
    good = false;
  }
  if (good)
    affine_bounds(c, out);
}

/* Bounds of what is not affine, as far as indices need them. */
static void loose_bounds(PrimId op, const Affine *x, const Affine *y,
                         Affine *out) {
  bool bounded = x->low != INT64_MIN && x->high != INT64_MAX;
  bool number = y->low == y->high && y->low > 0;
  if (op == PRIM_MOD && y->low > 0 && y->high != INT64_MAX) {
    out->low = 0;
    out->high = y->high - 1;
  } else if (op == PRIM_DIV && number && bounded) {
    out->low = int_div(x->low, y->low);
    out->high = int_div(x->high, y->low);
  } else if ((op == PRIM_ADD || op == PRIM_SUB) && bounded &&
             y->low != INT64_MIN && y->high != INT64_MAX) {
    bool add = op == PRIM_ADD;
    bool over = add ? __builtin_add_overflow(x->low, y->low, &out->low) ||
                          __builtin_add_overflow(x->high, y->high, &out->high)
                    : __builtin_sub_overflow(x->low, y->high, &out->low) ||
                          __builtin_sub_overflow(x->high, y->low, &out->high);
    if (over) {
      out->low = INT64_MIN;
      out->high = INT64_MAX;
    }
  }
}

static Affine affine_of(const Compiler *c, const Cell *cell) {
  Affine a = {.low = INT64_MIN, .high = INT64_MAX};
  if (cell->dtype != DT_I64)
    return a;
  if (cell->kind == CELL_CONST || cell->kind == CELL_AXIS) {
    a.times = NEW_ARRAY(c->arena, int64_t, c->axes);
    if (cell->kind == CELL_AXIS)
      a.times[cell->axis] = 1;
    else
      a.constant = cell->value.i;
    affine_bounds(c, &a);
  } else if (cell->kind == CELL_OP && cell->arg_count == 2) {
    const Affine *x = &c->info[cell->args[0]].affine;
    const Affine *y = &c->info[cell->args[1]].affine;
    a.times = NEW_ARRAY(c->arena, int64_t, c->axes);
    affine_op(c, cell->op, x, y, &a);
    if (!a.known)
      loose_bounds(cell->op, x, y, &a);
  }
  return a;
}

/* Is argument k of a read an address that needs no register of its own? */
static bool is_direct(const Compiler *c, const Cell *read, uint32_t k) {
  const Affine *a = &c->info[read->args[k]].affine;
  return a->known && in_range(a, read->node->extents[k]);
}

static bool can_fail(const Compiler *c, const Cell *cell) {
  if (cell->kind == CELL_READ)
    for (uint32_t k = 0; k < cell->arg_count; k++)
      if (!in_range(&c->info[cell->args[k]].affine, cell->node->extents[k]))
        return true;
  if (cell->kind == CELL_OP && kind_of(cell->dtype) == KIND_I &&
      (cell->op == PRIM_DIV || cell->op == PRIM_MOD || cell->op == PRIM_POW)) {
    const Affine *y = &c->info[cell->args[1]].affine;
    return !(y->low > 0 || (y->high < 0 && cell->op != PRIM_POW));
  }
  return false;
}

static void analyse(Compiler *c) {
  for (uint32_t k = 0; k < c->n->cell_count; k++) {
    const Cell *cell = &c->n->cells[k];
    Info *info = &c->info[k];
    info->depth = cell->kind == CELL_AXIS ? cell->axis + 1 : 0;
    info->affine = affine_of(c, cell);
    info->fails = can_fail(c, cell);
    for (uint32_t j = 0; j < cell->arg_count; j++) {
      const Info *arg = &c->info[cell->args[j]];
      info->depth = arg->depth > info->depth ? arg->depth : info->depth;
      info->fails |= arg->fails;
    }
    if (info->fails && info->depth < c->guard_depth)
      info->depth = c->guard_depth; /* only behind the guard */
  }
}

/* ---- regions ---- */

static uint32_t new_region(Compiler *c, uint32_t parent, uint32_t depth) {
  Region r = {.parent = parent, .depth = depth};
  r.level = c->regions.len ? c->regions.at[parent].level + 1 : 0;
  VEC_PUSH(c->arena, c->regions, r);
  return c->regions.len - 1;
}

static uint32_t common_region(const Compiler *c, uint32_t x, uint32_t y) {
  const Region *r = c->regions.at;
  while (x != y)
    if (r[x].level >= r[y].level)
      x = r[x].parent;
    else
      y = r[y].parent;
  return x;
}

/* The two sides of a select are made one after the other. */
static uint32_t other_side(uint32_t region) {
  return region == ROOT ? ROOT : ((region - 1) ^ 1) + 1;
}

/* What both sides of a select need is needed wherever that is. */
static uint32_t needed_from(const Compiler *c, const Numbers *uses,
                            uint32_t region) {
  for (uint32_t k = 0; k < uses->len && region != ROOT; k++)
    if (uses->at[k] == other_side(region))
      return needed_from(c, uses, c->regions.at[region].parent);
  return region;
}

static void use(Compiler *c, uint32_t cell, uint32_t region) {
  Numbers *uses = &c->info[cell].uses;
  for (uint32_t k = 0; k < uses->len; k++)
    if (common_region(c, uses->at[k], region) == uses->at[k])
      return; /* it is there already, or around it */
  uint32_t kept = 0;
  region = needed_from(c, uses, region);
  for (uint32_t k = 0; k < uses->len; k++)
    if (common_region(c, uses->at[k], region) != region)
      uses->at[kept++] = uses->at[k];
  uses->len = kept;
  VEC_PUSH(c->arena, *uses, region);
}

static void place(Compiler *c, uint32_t k, uint32_t region) {
  const Cell *cell = &c->n->cells[k];
  Placement p = {.cell = k};
  if (cell->kind == CELL_SELECT) {
    uint32_t depth =
        region == ROOT ? c->info[k].depth : c->regions.at[region].depth;
    p.yes = new_region(c, region, depth);
    p.no = new_region(c, region, depth);
    use(c, cell->args[0], region);
    use(c, cell->args[1], p.yes);
    use(c, cell->args[2], p.no);
  } else {
    for (uint32_t j = 0; j < cell->arg_count; j++)
      if (cell->kind != CELL_READ || !is_direct(c, cell, j))
        use(c, cell->args[j], region);
  }
  VEC_PUSH(c->arena, c->regions.at[region].cells, p);
}

static bool is_cheap(const Cell *cell) {
  return cell->kind == CELL_OP && cell->dtype == DT_I64 &&
         (cell->op == PRIM_ADD || cell->op == PRIM_SUB || cell->op == PRIM_MUL);
}

/* Users come after what they use, so all uses of a cell are known here. */
static void place_all(Compiler *c) {
  new_region(c, ROOT, 0);
  use(c, c->n->cell_count - 1, ROOT);
  for (uint32_t k = c->n->cell_count; k-- > 0;) {
    const Cell *cell = &c->n->cells[k];
    Info *info = &c->info[k];
    if (info->uses.len == 0 || cell->kind == CELL_CONST ||
        cell->kind == CELL_AXIS)
      continue;
    if (info->fails && c->regions.len < REGIONS_MOST) {
      for (uint32_t j = 0; j < info->uses.len; j++)
        place(c, k, info->uses.at[j]);
      continue;
    }
    uint32_t region = info->uses.at[0];
    for (uint32_t j = 1; j < info->uses.len; j++)
      region = common_region(c, region, info->uses.at[j]);
    if (!info->fails &&
        (is_cheap(cell) || info->depth < c->regions.at[region].depth))
      region = ROOT;
    place(c, k, region);
  }
}

/* ---- code for cells ---- */

static uint32_t reg_for(Compiler *c, uint32_t k) {
  const Cell *cell = &c->n->cells[k];
  if (cell->kind == CELL_AXIS)
    return cell->axis;
  if (c->info[k].reg == 0)
    c->info[k].reg =
        1 + new_reg(c, cell->kind == CELL_CONST ? reg_of(cell->value)
                                                : (Reg){.i = 0});
  return c->info[k].reg - 1;
}

static uint32_t last_axis(const Compiler *c, const int64_t *times) {
  for (uint32_t k = c->axes; k-- > 0;)
    if (times[k])
      return k;
  return UINT32_MAX;
}

/* A register that holds constant + sum of times * axes, computed where its
 * deepest axis moves on: strictly further out than the code that asks. */
static uint32_t prefix_reg(Compiler *c, int64_t constant, int64_t *times) {
  for (uint32_t k = 0; k < c->prefixes.len; k++) {
    const Prefix *p = &c->prefixes.at[k];
    if (p->constant == constant &&
        memcmp(p->times, times, c->axes * sizeof *times) == 0)
      return p->reg;
  }
  uint32_t axis = last_axis(c, times), reg;
  if (axis == UINT32_MAX) {
    reg = number_reg(c, constant);
  } else {
    int64_t *rest = NEW_ARRAY(c->arena, int64_t, c->axes);
    memcpy(rest, times, c->axes * sizeof *rest);
    rest[axis] = 0;
    uint32_t outer = prefix_reg(c, constant, rest);
    reg = number_reg(c, 0);
    Code *here = c->out;
    c->out = &c->blocks[axis + 1];
    emit(c, (Ins){.op = OP_AFFINE,
                  .d = reg,
                  .a = outer,
                  .b = axis,
                  .k = times[axis]});
    c->out = here;
  }
  Prefix p = {constant, times, reg};
  VEC_PUSH(c->arena, c->prefixes, p);
  return reg;
}

static OpCode load_code(Dtype t) {
  return (OpCode)(OP_LOAD_BOOL + (t - DT_BOOL));
}

static void strides_of(const Node *x, int64_t *strides) {
  int64_t stride = 1;
  for (uint32_t k = x->free_count + x->rank; k-- > 0;) {
    strides[k] = stride;
    stride *= x->extents[k];
  }
}

/* Direct arguments become one affine address; each other is checked and added
 * to it. */
static void emit_read(Compiler *c, const Cell *cell, uint32_t d) {
  const Node *x = cell->node;
  int64_t strides[RANK_MAX], constant = 0;
  int64_t *times = NEW_ARRAY(c->arena, int64_t, c->axes);
  strides_of(x, strides);
  for (uint32_t k = 0; k < cell->arg_count; k++) {
    if (!is_direct(c, cell, k))
      continue;
    const Affine *a = &c->info[cell->args[k]].affine;
    constant += a->constant * strides[k];
    for (uint32_t j = 0; j < c->axes; j++)
      times[j] += a->times[j] * strides[k];
  }
  uint32_t inner = last_axis(c, times);
  int64_t step = inner == UINT32_MAX ? 0 : times[inner];
  if (step)
    times[inner] = 0;
  uint32_t address = prefix_reg(c, constant, times);
  for (uint32_t k = 0; k < cell->arg_count; k++) {
    if (is_direct(c, cell, k))
      continue;
    emit(c, (Ins){.op = OP_INDEX,
                  .d = d,
                  .a = address,
                  .k = strides[k],
                  .b = reg_for(c, cell->args[k]),
                  .c = k - x->free_count,
                  .extent = x->extents[k]});
    address = d;
  }
  emit(c, (Ins){.op = load_code(x->dtype),
                .d = d,
                .a = address,
                .k = step,
                .b = step ? inner : address,
                .base = x->data->data});
}

static OpCode map_code(PrimId op, Kind kind) {
  switch ((int)op) { /* the rows of class MAP; the others are no case */
#define CODE_NONE(id)
#define CODE_MAP(id) \
  case PRIM_##id:    \
    return (OpCode)(OP_##id##_I + kind);
#define CODE_REDUCE CODE_NONE
#define CODE_MOVE CODE_NONE
#define CODE_MAKE CODE_NONE
#define CODE_OPAQUE CODE_NONE
#define CODE_CONTROL CODE_NONE
#define CODE_HOST CODE_NONE
#define P(id, name, class, flags, scheme, doc, example) CODE_##class(id)
#include "primitives/primitives.def"
#undef P
  }
  return OP_HALT;
}

static bool needs_fit(Dtype t) {
  return t == DT_U8 || t == DT_I8 || t == DT_I32 || t == DT_F16 || t == DT_BF16;
}

static void emit_op(Compiler *c, const Cell *cell, uint32_t d) {
  uint32_t regs[3] = {0, 0, 0};
  for (uint32_t k = 0; k < cell->arg_count && k < 3; k++)
    regs[k] = reg_for(c, cell->args[k]);
  const Cell *typed = &c->n->cells[cell->args[cell->op == PRIM_SELECT]];
  emit(c, (Ins){.op = map_code(cell->op, kind_of(typed->dtype)),
                .d = d,
                .a = regs[0],
                .b = regs[1],
                .c = regs[2]});
  if (needs_fit(cell->dtype) && cell->op != PRIM_SELECT)
    emit(c, (Ins){.op = OP_FIT, .d = d, .to = cell->dtype});
}

static OpCode convert_code(Dtype from, Dtype to) {
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

static void emit_convert(Compiler *c, const Cell *cell, uint32_t d) {
  Dtype from = c->n->cells[cell->args[0]].dtype;
  emit(c, (Ins){.op = convert_code(from, cell->dtype),
                .d = d,
                .a = reg_for(c, cell->args[0]),
                .from = from,
                .to = cell->dtype});
}

static void emit_region(Compiler *c, uint32_t region);

static void jump_here(Compiler *c, uint32_t from) {
  c->out->ins.at[from].jump = (int32_t)(c->out->ins.len - from);
}

static void emit_select(Compiler *c, const Cell *cell, const Placement *p,
                        uint32_t d) {
  uint32_t test = c->out->ins.len;
  emit(c, (Ins){.op = OP_JUMP_FALSE, .a = reg_for(c, cell->args[0])});
  emit_region(c, p->yes);
  emit(c, (Ins){.op = OP_MOVE, .d = d, .a = reg_for(c, cell->args[1])});
  uint32_t end = c->out->ins.len;
  emit(c, (Ins){.op = OP_JUMP});
  jump_here(c, test);
  emit_region(c, p->no);
  emit(c, (Ins){.op = OP_MOVE, .d = d, .a = reg_for(c, cell->args[2])});
  jump_here(c, end);
}

static void emit_cell(Compiler *c, const Placement *p) {
  const Cell *cell = &c->n->cells[p->cell];
  uint32_t d = reg_for(c, p->cell);
  c->cell = p->cell;
  switch (cell->kind) {
  case CELL_CONST:
  case CELL_SIZE: /* a graph that is run has numbers */
  case CELL_AXIS:
    break;
  case CELL_READ:
    emit_read(c, cell, d);
    break;
  case CELL_OP:
    emit_op(c, cell, d);
    break;
  case CELL_SELECT: {
    Placement copy = *p;
    emit_select(c, cell, &copy, d);
    break;
  }
  case CELL_CONVERT:
    emit_convert(c, cell, d);
    break;
  case CELL_RANDOM:
    emit(c, (Ins){.op = cell->op == PRIM_NORMAL ? OP_NORMAL : OP_UNIFORM,
                  .d = d,
                  .a = reg_for(c, cell->args[0]),
                  .to = cell->dtype,
                  .base = &cell->key});
    break;
  }
}

static void emit_region(Compiler *c, uint32_t region) {
  for (uint32_t k = c->regions.at[region].cells.len; k-- > 0;)
    emit_cell(c, &c->regions.at[region].cells.at[k]);
}

/* The cells of no select's side, each at its depth, outer depths first: code
 * may add addresses to depths further out. */
static void emit_root(Compiler *c) {
  const Region *root = &c->regions.at[ROOT];
  for (uint32_t depth = 0; depth <= c->axes; depth++)
    for (uint32_t k = root->cells.len; k-- > 0;)
      if (c->info[root->cells.at[k].cell].depth == depth) {
        c->out = &c->blocks[depth];
        emit_cell(c, &root->cells.at[k]);
      }
}

/* ---- loops ---- */

static void append(Compiler *c, const Code *block) {
  for (uint32_t k = 0; k < block->ins.len; k++) {
    c->cell = block->cells.at[k];
    emit(c, block->ins.at[k]);
  }
}

static void emit_next(Compiler *c, uint32_t axis, uint32_t top) {
  uint32_t here = c->out->ins.len;
  emit(c, (Ins){.op = OP_NEXT,
                .d = axis,
                .k = c->n->extents[axis],
                .jump = (int32_t)top - (int32_t)here});
}

/* Reads the guard; where it is false the rest of this iteration is skipped.
 * Returns where the jump is, to be patched. */
static uint32_t emit_guard(Compiler *c) {
  const Node *guard = c->n->guard;
  int64_t strides[RANK_MAX], skipped = 1;
  strides_of(guard, strides);
  uint32_t d = number_reg(c, 0), address = number_reg(c, 0);
  for (uint32_t k = 0; k < guard->free_count; k++)
    for (uint32_t j = 0; j < c->n->free_count; j++)
      if (c->n->free[j] == guard->free[k]) {
        emit(c, (Ins){.op = OP_AFFINE,
                      .d = d,
                      .a = address,
                      .b = j,
                      .k = strides[k]});
        address = d;
      }
  for (uint32_t k = c->guard_depth; k < c->outer; k++)
    skipped *= c->n->extents[k];
  emit(c, (Ins){.op = OP_LOAD_BOOL,
                .d = d,
                .a = address,
                .b = address,
                .base = guard->data->data});
  uint32_t at = c->out->ins.len;
  emit(c, (Ins){.op = OP_GUARD, .a = d, .k = skipped});
  return at;
}

typedef enum Variant { V_I, V_F, V_W, V_D } Variant;

static Variant variant_of(const Compiler *c, Dtype body) {
  Kind kind = kind_of(body);
  if (kind != KIND_F)
    return kind == KIND_I ? V_I : V_D;
  return c->n->dtype == DT_F32 ? V_W : V_F;
}

static OpCode by_kind(OpCode first, Kind kind) {
  return (OpCode)(first + kind);
}

typedef struct Fold { /* how a reduction accumulates */
  OpCode op;
  Reg identity;
  Dtype held; /* type of the accumulator */
} Fold;

static Reg least(Dtype t) {
  if (dtype_is_float(t))
    return reg_of((Scalar){.dtype = t, .f = -INFINITY});
  int64_t x = t == DT_I64   ? INT64_MIN
              : t == DT_I32 ? INT32_MIN
              : t == DT_I8  ? INT8_MIN
                            : 0;
  return (Reg){.i = x};
}

static Reg greatest(Dtype t) {
  if (dtype_is_float(t))
    return reg_of((Scalar){.dtype = t, .f = INFINITY});
  int64_t x = t == DT_I64   ? INT64_MAX
              : t == DT_I32 ? INT32_MAX
              : t == DT_I8  ? INT8_MAX
                            : UINT8_MAX;
  return (Reg){.i = x};
}

static Fold fold_of(const Compiler *c) {
  Dtype body = c->n->cells[c->n->cell_count - 1].dtype;
  Kind kind = kind_of(body);
  PrimId op = c->n->reduce;
  Fold f = {.held = body};
  if (op == PRIM_SUM || op == PRIM_PROD) {
    Variant v = variant_of(c, body);
    f.op = (OpCode)((op == PRIM_SUM ? OP_SUM_I : OP_PROD_I) + v);
    f.held = v == V_I ? DT_I64 : v == V_F ? DT_F32 : DT_F64;
    f.identity = reg_of(scalar_convert(
        (Scalar){.dtype = DT_I64, .i = op == PRIM_PROD}, f.held));
  } else if (op == PRIM_MAX || op == PRIM_MIN) {
    f.op = by_kind(op == PRIM_MAX ? OP_MAX_I : OP_MIN_I, kind);
    f.identity = op == PRIM_MAX ? least(body) : greatest(body);
  } else if (op == PRIM_ANY || op == PRIM_ALL) {
    f.op = op == PRIM_ANY ? OP_ANY : OP_ALL;
    f.identity = (Reg){.i = op == PRIM_ALL};
  } else {
    f.op = by_kind(op == PRIM_ARGMAX ? OP_ARGMAX_I : OP_ARGMIN_I, kind);
    f.held = DT_I64;
  }
  return f;
}

/* Sets up the accumulator, three registers; returns the first. */
static uint32_t emit_fold_start(Compiler *c, const Fold *f) {
  uint32_t start = new_reg(c, f->identity), zero = number_reg(c, 0);
  uint32_t acc = number_reg(c, 0);
  number_reg(c, 0), number_reg(c, 0);
  emit(c, (Ins){.op = OP_MOVE, .d = acc, .a = start});
  if (f->op >= OP_ARGMAX_I && f->op <= OP_ARGMIN_D)
    emit(c, (Ins){.op = OP_MOVE, .d = acc + 2, .a = zero});
  return acc;
}

/* The register with the reduction's value in the node's type. */
static uint32_t emit_fold_end(Compiler *c, const Fold *f, uint32_t acc) {
  uint32_t d = number_reg(c, 0);
  bool where = f->op >= OP_ARGMAX_I && f->op <= OP_ARGMIN_D;
  OpCode op =
      f->held == c->n->dtype ? OP_MOVE : convert_code(f->held, c->n->dtype);
  emit(c, (Ins){.op = op,
                .d = d,
                .a = where ? acc + 1 : acc,
                .from = f->held,
                .to = c->n->dtype});
  return d;
}

static void emit_store(Compiler *c, uint32_t reg) {
  bool fast = c->n->dtype == DT_F32;
  emit(
      c,
      (Ins){.op = fast ? OP_STORE_F32 : OP_STORE, .a = reg, .to = c->n->dtype});
}

/* Is the innermost loop a sum of products of two loads and nothing else?
 * `top` is where it begins: two loads, a product, the sum. */
static bool is_dot(const Compiler *c, uint32_t top, uint32_t product) {
  const Ins *i = c->out->ins.at + top;
  return c->out->ins.len - top == 4 && c->n->extents[c->axes - 1] < DOT_MOST &&
         i[0].op == OP_LOAD_F32 && i[1].op == OP_LOAD_F32 &&
         i[2].op == OP_MUL_F && i[3].op == OP_SUM_W && i[3].a == product &&
         ((i[2].a == i[0].d && i[2].b == i[1].d) ||
          (i[2].a == i[1].d && i[2].b == i[0].d));
}

/* Puts one instruction before the loop that does the whole of it. */
static void emit_dot(Compiler *c, uint32_t top, uint32_t acc) {
  emit(c, (Ins){.op = OP_JUMP}); /* makes room: the loop moves by one */
  Ins *i = c->out->ins.at + top;
  memmove(i + 1, i, 4 * sizeof *i);
  i[0] = (Ins){.op = OP_DOT,
               .d = acc,
               .a = c->axes - 1,
               .jump = 6,
               .k = c->n->extents[c->axes - 1]};
}

static void emit_reduction(Compiler *c) {
  Fold f = fold_of(c);
  uint32_t acc = emit_fold_start(c, &f), top[RANK_MAX];
  bool empty = false;
  for (uint32_t k = c->outer; k < c->axes; k++)
    empty |= c->n->extents[k] == 0;
  for (uint32_t k = c->outer; k < c->axes && !empty; k++) {
    emit(c, (Ins){.op = OP_START, .d = k});
    top[k] = c->out->ins.len;
    append(c, &c->blocks[k + 1]);
  }
  if (!empty)
    emit(c, (Ins){.op = f.op, .d = acc, .a = reg_for(c, c->n->cell_count - 1)});
  if (!empty && f.op == OP_SUM_W &&
      is_dot(c, top[c->axes - 1], reg_for(c, c->n->cell_count - 1)))
    emit_dot(c, top[c->axes - 1], acc);
  for (uint32_t k = c->axes; k-- > c->outer && !empty;)
    emit_next(c, k, top[k]);
  emit_store(c, emit_fold_end(c, &f, acc));
}

static void emit_loops(Compiler *c) {
  uint32_t top[RANK_MAX], guard = UINT32_MAX;
  if (c->n->guard && c->guard_depth == 0)
    guard = emit_guard(c);
  append(c, &c->blocks[0]);
  for (uint32_t k = 0; k < c->outer; k++) {
    emit(c, (Ins){.op = OP_START, .d = k});
    top[k] = c->out->ins.len;
    if (c->n->guard && k + 1 == c->guard_depth)
      guard = emit_guard(c);
    append(c, &c->blocks[k + 1]);
  }
  if (c->n->reduce != PRIM_NONE)
    emit_reduction(c);
  else
    emit_store(c, reg_for(c, c->n->cell_count - 1));
  for (uint32_t k = c->outer; k-- > 0;) {
    if (guard != UINT32_MAX && k + 1 == c->guard_depth)
      jump_here(c, guard);
    emit_next(c, k, top[k]);
  }
  if (guard != UINT32_MAX && c->guard_depth == 0)
    jump_here(c, guard);
  emit(c, (Ins){.op = OP_HALT});
}

static uint32_t guard_depth(const Node *n) {
  uint32_t depth = 0;
  for (uint32_t k = 0; n->guard && k < n->guard->free_count; k++)
    for (uint32_t j = 0; j < n->free_count; j++)
      if (n->free[j] == n->guard->free[k] && j + 1 > depth)
        depth = j + 1;
  return depth;
}

/* With an empty reduction the body is never run, and has no code. */
static bool has_body(const Compiler *c) {
  for (uint32_t k = c->outer; k < c->axes; k++)
    if (c->n->extents[k] == 0)
      return false;
  return true;
}

Program *program_new(Arena *arena, const Node *n) {
  Compiler *c = NEW(arena, Compiler);
  c->arena = arena;
  c->n = n;
  c->outer = n->free_count + n->rank;
  c->axes = c->outer + n->reduce_count;
  c->guard_depth = guard_depth(n);
  c->info = NEW_ARRAY(arena, Info, n->cell_count);
  for (uint32_t k = 0; k < c->axes; k++)
    number_reg(c, 0);
  if (has_body(c)) {
    analyse(c);
    place_all(c);
    emit_root(c);
  }
  Code *code = NEW(arena, Code);
  c->out = code;
  emit_loops(c);
  Program *p = NEW(arena, Program);
  *p = (Program){code->ins.at, code->cells.at, code->ins.len, c->regs.len,
                 c->regs.at};
  return p;
}
