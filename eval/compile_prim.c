/* Compiles numbers, primitives and their calls.  Operations and comparisons of
 * two scalars have their own opcodes. */
#include "eval/compile.h"
#include "support/arena.h"
#include "support/arena_text.h"

#include <stdlib.h>
#include <string.h>

static Scalar parse_number_as(Dtype dtype, const char *text) {
  bool negative = *text == '-';
  const char *digits = text + negative;
  bool hex = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
  if (!dtype_is_float(dtype)) {
    int64_t n;
    if (strpbrk(digits, hex ? ".pP" : ".eE")) {
      n = scalar_convert((Scalar){DT_F64, {.f = strtod(text, NULL)}}, DT_I64).i;
    } else {
      uint64_t u = strtoull(digits, NULL, hex ? 16 : 10);
      n = (int64_t)(negative ? -u : u);
    }
    if (dtype == DT_BOOL)
      return (Scalar){DT_BOOL, {.i = n != 0}};
    return (Scalar){dtype, {.i = dtype_wrap(dtype, n)}};
  }
  Scalar x = {.dtype = dtype};
  x.f = dtype_parse(dtype, text, NULL);
  return x;
}

NumLiteral *num_literal(Eval *vm, const char *text) {
  NumLiteral *site = NEW(vm->arena, NumLiteral);
  for (Dtype t = DT_NONE + 1; t < DT_COUNT; t++)
    site->by_dtype[t] = parse_number_as(t, text);
  return site;
}

Dtype num_dtype(const Core *c) {
  if (c->elem.dtype != DT_NONE)
    return c->elem.dtype;
  if (c->elem.var)
    return DT_NONE;
  return c->is_float ? DT_F32 : DT_I64;
}

void compile_num(FunctionState *fn, const Core *c) {
  Dtype dtype = num_dtype(c);
  if (dtype == DT_NONE && !fn_emit_load(fn, c->elem.var))
    dtype = c->is_float ? DT_F32 : DT_I64;
  if (dtype == DT_NONE) {
    emit_ptr(&fn->emitter, OP_LOAD_NUM_DYNAMIC, 0, 0, 0, 0,
             num_literal(fn->emitter.vm, c->num));
    return;
  }
  Scalar x = parse_number_as(dtype, c->num);
  if (dtype == DT_I64 && x.i == (int32_t)x.i)
    emit(&fn->emitter, OP_LOAD_INT, 0, 0, (int32_t)x.i, 1);
  else
    emit_push_constant(&fn->emitter, value_scalar(x));
}

static PrimSite *prim_site(FunctionState *fn, const Core *c, bool *dynamic) {
  Eval *vm = fn->emitter.vm;
  PrimSite *site = NEW(vm->arena, PrimSite);
  site->prim = c->prim;
  site->arity = c->arity;
  site->elem = c->elem.dtype;
  if (c->literal)
    site->literal = arena_strndup(vm->arena, c->literal, strlen(c->literal));
  *dynamic = site->elem == DT_NONE && c->elem.var && fn_knows(fn, c->elem.var);
  return site;
}

void compile_prim(FunctionState *fn, const Core *c) {
  Eval *vm = fn->emitter.vm;
  Code *code = higher_order_code(vm, c->prim);
  if (code) {
    emit_push_constant(&fn->emitter, (Value){.tag = V_FN, .code = code});
    return;
  }
  bool dynamic;
  PrimSite *site = prim_site(fn, c, &dynamic);
  if (dynamic) {
    fn_emit_load(fn, c->elem.var);
    emit_ptr(&fn->emitter, OP_MAKE_PRIM, 0, 0, 0, 0, site);
    return;
  }
  PrimObj *obj = obj_new(&vm->heap, V_PRIM, sizeof *obj, 0);
  obj->site = *site;
  emit_push_constant(&fn->emitter, value_obj(V_PRIM, obj));
}

/* True for an integer literal that fits into an instruction.  The literal takes
 * the type of the other operand. */
static bool as_small_int(const Core *c, int32_t *n) {
  if (c->kind != CORE_NUM || c->is_float || strpbrk(c->num, ".inan"))
    return false;
  if (!strchr(c->num, 'x') && strpbrk(c->num, "eE"))
    return false;
  if (strlen(c->num) > 9)
    return false;
  Dtype dtype = num_dtype(c);
  Scalar x = parse_number_as(DT_I64, c->num);
  if (x.i != (int32_t)x.i)
    return false;
  if (dtype != DT_NONE && !dtype_is_float(dtype) &&
      dtype_wrap(dtype, x.i) != x.i)
    return false;
  *n = (int32_t)x.i;
  return true;
}

static bool is_local_var(FunctionState *fn, const Core *c, uint32_t *slot) {
  return c->kind == CORE_VAR && !c->var->global && fn_slot(fn, c->var, slot);
}

/* The opcodes of a binary operation on two scalars, one for each form of the
 * operands; 0: there is no such opcode. */
typedef struct BinaryOps {
  Op ss, lk, ll, sk;
} BinaryOps;
static const BinaryOps arith_ops[PRIM_COUNT] = {
    [PRIM_ADD] = {OP_ADD_SS, OP_ADD_LK, OP_ADD_LL, OP_ADD_SK},
    [PRIM_SUB] = {OP_SUB_SS, OP_SUB_LK, OP_SUB_LL, OP_SUB_SK},
    [PRIM_MUL] = {OP_MUL_SS, OP_MUL_LK, OP_MUL_LL, OP_MUL_SK},
    [PRIM_DIV] = {OP_DIV_SS, 0, 0, OP_DIV_SK},
    [PRIM_MOD] = {OP_MOD_SS, 0, 0, OP_MOD_SK},
    [PRIM_LT] = {OP_LT_SS, 0, 0, 0},
    [PRIM_LE] = {OP_LE_SS, 0, 0, 0},
    [PRIM_GT] = {OP_GT_SS, 0, 0, 0},
    [PRIM_GE] = {OP_GE_SS, 0, 0, 0},
    [PRIM_EQ] = {OP_EQ_SS, 0, 0, 0},
    [PRIM_NE] = {OP_NE_SS, 0, 0, 0},
};
static const BinaryOps jump_ops[PRIM_COUNT] = {
    [PRIM_LT] = {OP_JLT_SS, OP_JLT_LK, OP_JLT_LL, OP_JLT_SK},
    [PRIM_LE] = {OP_JLE_SS, OP_JLE_LK, OP_JLE_LL, OP_JLE_SK},
    [PRIM_GT] = {OP_JGT_SS, OP_JGT_LK, OP_JGT_LL, OP_JGT_SK},
    [PRIM_GE] = {OP_JGE_SS, OP_JGE_LK, OP_JGE_LL, OP_JGE_SK},
    [PRIM_EQ] = {OP_JEQ_SS, OP_JEQ_LK, OP_JEQ_LL, OP_JEQ_SK},
    [PRIM_NE] = {OP_JNE_SS, OP_JNE_LK, OP_JNE_LL, OP_JNE_SK},
};

/* Emits a binary operation in its shortest form.  A jump gets a second word.
 * In total, the stack grows by `left` values. */
static uint32_t emit_binary(FunctionState *fn, const BinaryOps *ops,
                            const Core *x, const Core *y, Span span,
                            bool jump) {
  uint32_t a = 0, b = 0;
  int32_t k;
  int result_count = jump ? 0 : 1;
  BytecodeEmitter *e = &fn->emitter;
  Op op;
  uint32_t local_slot = 0;
  int32_t c = 0;
  int push;
  bool x_local = is_local_var(fn, x, &a), y_local = is_local_var(fn, y, &b);
  bool y_small = as_small_int(y, &k);
  if (ops->lk && x_local && y_small) {
    op = ops->lk, local_slot = a, c = k, push = result_count;
  } else if (ops->ll && x_local && y_local) {
    op = ops->ll, local_slot = a, c = (int32_t)b, push = result_count;
  } else if (ops->sk && y_small) {
    compile(fn, x, false);
    op = ops->sk, c = k, push = result_count - 1;
  } else {
    compile(fn, x, false);
    compile(fn, y, false);
    op = ops->ss, push = result_count - 2;
  }
  e->span = span;
  if (jump)
    return emit_ptr(e, op, 0, local_slot, c, push, NULL);
  return emit(e, op, 0, local_slot, c, push);
}

/* && and ||.  The right side runs only if it decides the result.  But if the
 * right side has axes, both sides run.  `shape` is the shape of the right
 * side. */
static void compile_short_circuit(FunctionState *fn, PrimId prim,
                                  Core *const *args, Span span,
                                  const CoreShape *shape) {
  BytecodeEmitter *e = &fn->emitter;
  uint32_t tensor = 0, end = 0, depth = e->stack_depth;
  compile(fn, args[0], false);
  if (shape->len) {
    compile_shape_ref(fn, shape);
    tensor = emit(e, OP_JUMP_IF_AXES, 0, 0, 0, -1);
  }
  e->span = span;
  bool and = prim == PRIM_AND;
  uint32_t test = emit(e, and? OP_AND_TEST : OP_OR_TEST, 0, 0, 0, 0);
  compile(fn, args[1], false);
  e->span = span;
  emit(e, and? OP_AND_DONE : OP_OR_DONE, 0, 0, 0, -1);
  emit_patch_jump(e, test);
  uint32_t join = emit(e, OP_JOIN, 0, 0, 0, 0);
  VEC_PUSH(e->vm->arena, e->joins, ((JoinPoint){test, join}));
  if (!shape->len)
    return;
  end = emit(e, OP_JUMP, 0, 0, 0, 0);
  emit_patch_jump(e, tensor);
  e->stack_depth = depth + 1;
  compile(fn, args[1], false);
  e->span = span;
  PrimSite *site = NEW(e->vm->arena, PrimSite);
  *site = (PrimSite){.prim = prim, .arity = 2, .elem = DT_BOOL};
  emit_ptr(e, OP_CALL_PRIM, 2, 0, 0, -1, site);
  emit_patch_jump(e, end);
}

void compile_prim_call(FunctionState *fn, const Core *prim, Core *const *args,
                       uint32_t n, const Core *app) {
  Span span = app->span;
  BytecodeEmitter *e = &fn->emitter;
  bool logic = prim->prim == PRIM_AND || prim->prim == PRIM_OR;
  if (logic && n == 2 && !app->flag) {
    compile_short_circuit(fn, prim->prim, args, span, &app->shape);
    return;
  }
  if (n == 2 && arith_ops[prim->prim].ss) {
    emit_binary(fn, &arith_ops[prim->prim], args[0], args[1], span, false);
    return;
  }
  bool dynamic;
  PrimSite *site = prim_site(fn, prim, &dynamic);
  if (dynamic)
    fn_emit_load(fn, prim->elem.var);
  for (uint32_t i = 0; i < n; i++)
    compile(fn, args[i], false);
  e->span = span;
  Op op = prim->prim == PRIM_COMPARE && !dynamic ? OP_COMPARE : OP_CALL_PRIM;
  emit_ptr(e, op, n, dynamic, 0, 1 - (int)n - dynamic, site);
  if (prim->prim == PRIM_LOAD && prim->flag)
    compile_load_check(fn, &prim->shape);
}

void compile_cond(FunctionState *fn, const Core *cond, JumpPatch *out) {
  if (cond->kind == CORE_APP && cond->items[0]->kind == CORE_PRIM &&
      cond->item_count == 3 && jump_ops[cond->items[0]->prim].ss) {
    out->at = emit_binary(fn, &jump_ops[cond->items[0]->prim], cond->items[1],
                          cond->items[2], cond->span, true);
    return;
  }
  compile(fn, cond, false);
  fn->emitter.span = cond->span;
  out->at = emit(&fn->emitter, OP_JUMP_IF_FALSE, 0, 0, 0, -1);
}
