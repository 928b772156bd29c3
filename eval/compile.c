/* From the typed tree to code: closures, calls, bindings, control flow.
 * Patterns are in match.c, tensors and sizes in shapes.c. */
#include "eval/compile.h"

#include <stdlib.h>
#include <string.h>

static void compile_cond(Fn *fn, const Core *cond, CondJump *out);

/* ---- names ---- */

Global *global_of(Eval *vm, Var *var) {
  if (!var->home) {
    Global *g = NEW(vm->arena, Global);
    g->name = var->name ? var->name->text : NULL;
    g->next = vm->globals;
    vm->globals = g;
    var->home = g;
  }
  return var->home;
}

const Layout *layout_of(Eval *vm, Sym *const *labels, uint32_t len) {
  for (Layout *l = vm->layouts; l; l = l->next)
    if (l->len == len && !memcmp(l->labels, labels, len * sizeof *labels))
      return l;
  Layout *l = arena_alloc(vm->arena, sizeof *l + len * sizeof *labels);
  l->len = len;
  memcpy(l->labels, labels, len * sizeof *labels);
  l->next = vm->layouts;
  vm->layouts = l;
  return l;
}

bool fn_slot(const Fn *fn, const void *key, uint32_t *slot) {
  void *found = map_get(&fn->slots, key);
  if (found)
    *slot = (uint32_t)(uintptr_t)found - 1;
  return found != NULL;
}

void fn_bind(Fn *fn, const void *key, uint32_t slot) {
  map_put(&fn->slots, key, (void *)(uintptr_t)(slot + 1));
}

static Code *group_code(const Group *group, const void *key) {
  if (group)
    for (uint32_t i = 0; i < group->count; i++)
      if (group->vars[i] == key)
        return group->codes[i];
  return NULL;
}

bool fn_knows(const Fn *fn, const void *key) {
  uint32_t slot;
  for (; fn; fn = fn->outer)
    if (fn_slot(fn, key, &slot) || group_code(fn->group, key))
      return true;
  return false;
}

bool fn_load(Fn *fn, const void *key) {
  uint32_t slot;
  if (fn_slot(fn, key, &slot)) {
    emit(&fn->e, OP_LOCAL, 0, slot, 0, 1);
    return true;
  }
  Code *sibling = group_code(fn->group, key);
  if (sibling) {
    emit_ptr(&fn->e, OP_SELF, 0, 0, 0, 1, sibling);
    return true;
  }
  if (!fn_knows(fn->outer, key))
    return false;
  uint32_t at = 0;
  while (at < fn->captures->len && fn->captures->at[at] != key)
    at++;
  if (at == fn->captures->len)
    VEC_PUSH(fn->e.vm->arena, *fn->captures, key);
  emit(&fn->e, OP_ENV, 0, 0, (int32_t)at, 1);
  return true;
}

void compile_bug(Fn *fn, const char *what) {
  emit_ptr(&fn->e, OP_BUG, 0, 0, 0, 1,
           arena_text(fn->e.vm->arena, what, strlen(what)));
}

static void load_var(Fn *fn, Var *var) {
  if (var->global)
    emit_ptr(&fn->e, OP_GLOBAL, 0, 0, 0, 1, global_of(fn->e.vm, var));
  else if (!fn_load(fn, var))
    compile_bug(fn, "a variable has no value here");
}

/* ---- functions ---- */

/* The places that CORE_OPEN needs in a function, without those of the
 * functions inside it. */
static uint32_t count_opens(const Core *c) {
  if (!c)
    return 0;
  uint32_t n = c->kind == CORE_OPEN ? c->bind_count : 0;
  if (c->kind == CORE_LAM || c->kind == CORE_TLAM || c->kind == CORE_LETREC) {
    if (c->kind == CORE_LETREC)
      return n + count_opens(c->items[c->var_count]);
    return n;
  }
  if (c->kind == CORE_FOR) {
    for (uint32_t i = 0; i < c->param_count; i++)
      n += count_opens(c->ranges[i].expr);
    return n;
  }
  for (uint32_t i = 0; i < c->item_count; i++)
    n += count_opens(c->items[i]);
  for (uint32_t i = 0; i < c->rule_count; i++)
    n += count_opens(c->rules[i].body);
  for (uint32_t i = 0; i < c->slice_count; i++)
    n += count_opens(c->slices[i].from) + count_opens(c->slices[i].to);
  return n;
}

static uint32_t lam_arity(const Core *c) {
  uint32_t n = 0;
  if (c->kind == CORE_TLAM) {
    n = c->hidden_count;
    if (c->items[0]->kind != CORE_LAM)
      return n;
    c = c->items[0];
  }
  return n + c->param_count;
}

const void *hidden_key(const Hidden *h) {
  switch (h->kind) {
  case HID_ELEM:
    return h->elem.var;
  case HID_DIM:
    return h->dim_var;
  case HID_SHAPE:
    return h->shape_var;
  }
  return NULL;
}

static const void *bind_key(const CoreBind *b) {
  return b->shape ? (const void *)b->shape : b->var;
}

/* Hidden parameters that the caller did not know are read off the arguments,
 * of which the first is in slot `first`. */
static void read_shown(Fn *fn, const Core *tlam, uint32_t first) {
  Emit *e = &fn->e;
  Map done;
  map_init(&done, e->vm->arena);
  for (uint32_t i = 0; i < tlam->bind_count; i++) {
    const void *key = bind_key(&tlam->binds[i]);
    uint32_t slot;
    if (map_get(&done, key) || !fn_slot(fn, key, &slot))
      continue;
    map_put(&done, key, (void *)key);
    uint32_t known = emit(e, OP_JKNOWN, 0, slot, 0, 0);
    for (uint32_t k = i; k < tlam->bind_count; k++) {
      CoreBind *b = &tlam->binds[k];
      if (bind_key(b) != key)
        continue;
      emit(e, OP_LOCAL, 0, first + b->param, 0, 1);
      emit_ptr(e, k == i ? OP_OPENGET : OP_OPENSAME, 0, k == i ? 0 : slot, 0,
               k == i, b);
      if (k == i)
        emit(e, OP_SETLOCAL, 0, slot, 0, -1);
      emit(e, OP_POP, 0, 0, 0, -1);
    }
    emit_patch(e, known);
  }
}

/* c is a LAM, a TLAM, or (indices of a for) a FOR. */
static void compile_fn(Eval *vm, Fn *outer, Group *group, KeyVec *captures,
                       const Core *c, Code *code) {
  Fn fn = {.outer = outer, .group = group, .captures = captures, .lam = c};
  fn.e.vm = vm;
  fn.e.span = c->span;
  map_init(&fn.slots, vm->arena);
  uint32_t slot = 0;
  const Core *whole = c;
  if (c->kind == CORE_TLAM) {
    for (uint32_t i = 0; i < c->hidden_count; i++)
      fn_bind(&fn, hidden_key(&c->hidden[i]), slot++);
    if (c->items[0]->kind == CORE_LAM)
      c = c->items[0];
  }
  fn.lam = c;
  const CoreParam *params = c->kind == CORE_TLAM ? NULL : c->params;
  uint32_t count = params ? c->param_count : 0, first = slot;
  for (uint32_t i = 0; i < count; i++)
    fn_bind(&fn, params[i].var, slot++);
  fn.e.depth = fn.e.most = slot;
  uint32_t opens = count_opens(c->items[0]);
  for (uint32_t i = 0; i < count; i++)
    opens += count_opens(params[i].preset);
  fn.open_next = slot;
  if (opens)
    emit(&fn.e, OP_RESERVE, 0, 0, (int32_t)opens, (int)opens);
  if (whole != c)
    read_shown(&fn, whole, first);
  for (uint32_t i = 0; i < count; i++) {
    if (!params[i].preset)
      continue;
    uint32_t skip = emit(&fn.e, OP_JPRESENT, 0, first + i, 0, 0);
    compile(&fn, params[i].preset, false);
    emit(&fn.e, OP_SETLOCAL, 0, first + i, 0, -1);
    emit_patch(&fn.e, skip);
  }
  compile(&fn, c->items[0], true);
  emit_end(&fn.e, code);
}

static const char *var_text(Eval *vm, const Var *var) {
  (void)vm;
  return var && var->name ? var->name->text : NULL;
}

static void load_captures(Fn *fn, const KeyVec *captures) {
  for (uint32_t i = 0; i < captures->len; i++)
    if (!fn_load(fn, captures->at[i]))
      compile_bug(fn, "a captured variable has no value here");
}

void compile_closure(Fn *fn, const Core *c, uint32_t arity) {
  Eval *vm = fn->e.vm;
  Code *code = code_new(vm, arity, NULL);
  KeyVec captures = {0};
  compile_fn(vm, fn, NULL, &captures, c, code);
  if (!captures.len) {
    emit_const(&fn->e, (Value){.tag = V_FN, .code = code});
    return;
  }
  load_captures(fn, &captures);
  emit_ptr(&fn->e, OP_CLOSURE, 0, captures.len, 0, 1 - (int)captures.len, code);
}

static void compile_letrec(Fn *fn, const Core *c, bool tail) {
  Eval *vm = fn->e.vm;
  Group group = {.vars = c->vars, .count = c->var_count};
  group.codes = NEW_ARRAY(vm->arena, Code *, c->var_count);
  KeyVec captures = {0};
  for (uint32_t i = 0; i < c->var_count; i++)
    group.codes[i] =
        code_new(vm, lam_arity(c->items[i]), var_text(vm, c->vars[i]));
  for (uint32_t i = 0; i < c->var_count; i++)
    compile_fn(vm, fn, &group, &captures, c->items[i], group.codes[i]);
  uint32_t base = fn->e.depth;
  if (captures.len) {
    load_captures(fn, &captures);
    emit(&fn->e, OP_MAKEENV, 0, captures.len, 0, 1 - (int)captures.len);
  }
  for (uint32_t i = 0; i < c->var_count; i++) {
    if (captures.len)
      emit_ptr(&fn->e, OP_FNENV, 0, base, 0, 1, group.codes[i]);
    else
      emit_const(&fn->e, (Value){.tag = V_FN, .code = group.codes[i]});
    fn_bind(fn, c->vars[i], fn->e.depth - 1);
  }
  uint32_t extra = fn->e.depth - base;
  compile(fn, c->items[c->var_count], tail);
  if (!tail)
    emit(&fn->e, OP_SLIDE, 0, 0, (int32_t)extra, -(int)extra);
}

/* ---- numbers and primitives ---- */

static Scalar number_at(Dtype dtype, const char *text) {
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

NumSite *num_site(Eval *vm, const char *text) {
  NumSite *site = NEW(vm->arena, NumSite);
  for (Dtype t = DT_NONE + 1; t < DT_COUNT; t++)
    site->at[t] = number_at(t, text);
  return site;
}

Dtype num_dtype(const Core *c) {
  if (c->elem.dtype != DT_NONE)
    return c->elem.dtype;
  if (c->elem.var)
    return DT_NONE;
  return c->is_float ? DT_F32 : DT_I64;
}

static void compile_num(Fn *fn, const Core *c) {
  Dtype dtype = num_dtype(c);
  if (dtype == DT_NONE && !fn_load(fn, c->elem.var))
    dtype = c->is_float ? DT_F32 : DT_I64;
  if (dtype == DT_NONE) {
    emit_ptr(&fn->e, OP_NUMDYN, 0, 0, 0, 0, num_site(fn->e.vm, c->num));
    return;
  }
  Scalar x = number_at(dtype, c->num);
  if (dtype == DT_I64 && x.i == (int32_t)x.i)
    emit(&fn->e, OP_INT, 0, 0, (int32_t)x.i, 1);
  else
    emit_const(&fn->e, value_scalar(x));
}

static PrimSite *prim_site(Fn *fn, const Core *c, bool *dynamic) {
  Eval *vm = fn->e.vm;
  PrimSite *site = NEW(vm->arena, PrimSite);
  site->prim = c->prim;
  site->arity = c->arity;
  site->elem = c->elem.dtype;
  if (c->literal)
    site->literal = arena_text(vm->arena, c->literal, strlen(c->literal));
  *dynamic = site->elem == DT_NONE && c->elem.var && fn_knows(fn, c->elem.var);
  return site;
}

static void compile_prim(Fn *fn, const Core *c) {
  Eval *vm = fn->e.vm;
  Code *code = control_code(vm, c->prim);
  if (code) {
    emit_const(&fn->e, (Value){.tag = V_FN, .code = code});
    return;
  }
  bool dynamic;
  PrimSite *site = prim_site(fn, c, &dynamic);
  if (dynamic) {
    fn_load(fn, c->elem.var);
    emit_ptr(&fn->e, OP_PRIMVAL, 0, 0, 0, 0, site);
    return;
  }
  PrimObj *obj = obj_new(&vm->heap, V_PRIM, sizeof *obj, 0);
  obj->site = *site;
  emit_const(&fn->e, value_obj(V_PRIM, obj));
}

/* Integer literals that an instruction can hold: they take the type of the
 * other operand. */
static bool small_number(const Core *c, int32_t *n) {
  if (c->kind != CORE_NUM || c->is_float || strpbrk(c->num, ".inan"))
    return false;
  if (!strchr(c->num, 'x') && strpbrk(c->num, "eE"))
    return false;
  if (strlen(c->num) > 9)
    return false;
  Dtype dtype = num_dtype(c);
  Scalar x = number_at(DT_I64, c->num);
  if (x.i != (int32_t)x.i)
    return false;
  if (dtype != DT_NONE && !dtype_is_float(dtype) &&
      dtype_wrap(dtype, x.i) != x.i)
    return false;
  *n = (int32_t)x.i;
  return true;
}

static bool in_slot(Fn *fn, const Core *c, uint32_t *slot) {
  return c->kind == CORE_VAR && !c->var->global && fn_slot(fn, c->var, slot);
}

/* The forms of an operation on two scalars; 0 where there is none. */
typedef struct BinaryOps {
  Op ss, lk, ll, sk;
} BinaryOps;
static const BinaryOps value_ops[PRIM_COUNT] = {
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

/* Emits a binary operation in its best form; jumps get a second word.  The
 * net effect on the depth is `left` values. */
static uint32_t emit_binary(Fn *fn, const BinaryOps *ops, const Core *x,
                            const Core *y, Span span, bool jump) {
  uint32_t a = 0, b = 0;
  int32_t k;
  int left = jump ? 0 : 1;
  Emit *e = &fn->e;
  Op op;
  uint32_t wide = 0;
  int32_t c = 0;
  int push;
  bool x_local = in_slot(fn, x, &a), y_local = in_slot(fn, y, &b);
  bool y_small = small_number(y, &k);
  if (ops->lk && x_local && y_small) {
    op = ops->lk, wide = a, c = k, push = left;
  } else if (ops->ll && x_local && y_local) {
    op = ops->ll, wide = a, c = (int32_t)b, push = left;
  } else if (ops->sk && y_small) {
    compile(fn, x, false);
    op = ops->sk, c = k, push = left - 1;
  } else {
    compile(fn, x, false);
    compile(fn, y, false);
    op = ops->ss, push = left - 2;
  }
  e->span = span;
  if (jump)
    return emit_ptr(e, op, 0, wide, c, push, NULL);
  return emit(e, op, 0, wide, c, push);
}

/* The right side is only run if it matters.  Where `shape`, that of the right
 * side, turns out to have axes, both are run. */
static void compile_lazy_logic(Fn *fn, PrimId prim, Core *const *args,
                               Span span, const ShapeRef *shape) {
  Emit *e = &fn->e;
  uint32_t tensor = 0, end = 0, depth = e->depth;
  compile(fn, args[0], false);
  if (shape->len) {
    compile_shape_ref(fn, shape);
    tensor = emit(e, OP_JAXES, 0, 0, 0, -1);
  }
  e->span = span;
  bool and = prim == PRIM_AND;
  uint32_t test = emit(e, and? OP_AND_TEST : OP_OR_TEST, 0, 0, 0, 0);
  compile(fn, args[1], false);
  e->span = span;
  emit(e, and? OP_AND_DONE : OP_OR_DONE, 0, 0, 0, -1);
  emit_patch(e, test);
  uint32_t join = emit(e, OP_JOIN, 0, 0, 0, 0);
  VEC_PUSH(e->vm->arena, e->joins, ((Join){test, join}));
  if (!shape->len)
    return;
  end = emit(e, OP_JMP, 0, 0, 0, 0);
  emit_patch(e, tensor);
  e->depth = depth + 1;
  compile(fn, args[1], false);
  e->span = span;
  PrimSite *site = NEW(e->vm->arena, PrimSite);
  *site = (PrimSite){.prim = prim, .arity = 2, .elem = DT_BOOL};
  emit_ptr(e, OP_PRIM, 2, 0, 0, -1, site);
  emit_patch(e, end);
}

static void compile_prim_call(Fn *fn, const Core *prim, Core *const *args,
                              uint32_t n, const Core *app) {
  Span span = app->span;
  Emit *e = &fn->e;
  bool logic = prim->prim == PRIM_AND || prim->prim == PRIM_OR;
  if (logic && n == 2 && !app->flag) {
    compile_lazy_logic(fn, prim->prim, args, span, &app->shape);
    return;
  }
  if (n == 2 && value_ops[prim->prim].ss) {
    emit_binary(fn, &value_ops[prim->prim], args[0], args[1], span, false);
    return;
  }
  bool dynamic;
  PrimSite *site = prim_site(fn, prim, &dynamic);
  if (dynamic)
    fn_load(fn, prim->elem.var);
  for (uint32_t i = 0; i < n; i++)
    compile(fn, args[i], false);
  e->span = span;
  emit_ptr(e, OP_PRIM, n, dynamic, 0, 1 - (int)n - dynamic, site);
  if (prim->prim == PRIM_LOAD && prim->flag)
    compile_loaded(fn, &prim->shape);
}

/* ---- application ---- */

static void compile_hidden(Fn *fn, const Hidden *h) {
  switch (h->kind) {
  case HID_ELEM:
    if (h->elem.dtype != DT_NONE || !h->elem.var)
      emit_const(&fn->e, (Value){.tag = V_DTYPE, .i = h->elem.dtype});
    else if (!fn_load(fn, h->elem.var))
      compile_bug(fn, "an element type is not known here");
    return;
  case HID_DIM:
    if (dim_known(fn, h->dim))
      compile_dim(fn, h->dim);
    else /* an error only if it is needed */
      emit_const(&fn->e, value_unit());
    return;
  case HID_SHAPE:
    compile_shape_arg(fn, h);
    return;
  }
}

typedef struct Call { /* f at hidden, then at args */
  const Core *f;
  const Hidden *hidden;
  uint32_t hidden_count;
  VEC(Core *) args;
} Call;

static void flatten_call(Eval *vm, const Core *c, Call *out) {
  if (c->kind == CORE_APP) {
    flatten_call(vm, c->items[0], out);
    for (uint32_t i = 1; i < c->item_count; i++)
      VEC_PUSH(vm->arena, out->args, c->items[i]);
    return;
  }
  if (c->kind == CORE_TAPP) {
    out->hidden = c->hidden;
    out->hidden_count = c->hidden_count;
    c = c->items[0];
  }
  out->f = c;
}

static void emit_call(Fn *fn, bool tail, Op call, Op tail_call, uint32_t n,
                      int push, const void *ptr) {
  if (ptr)
    emit_ptr(&fn->e, tail ? tail_call : call, n, 0, 0, push, ptr);
  else
    emit(&fn->e, tail ? tail_call : call, n, 0, 0, push);
}

static void push_args(Fn *fn, const Call *call, uint32_t from, uint32_t to) {
  if (!from)
    for (uint32_t i = 0; i < call->hidden_count; i++)
      compile_hidden(fn, &call->hidden[i]);
  for (uint32_t i = from; i < to; i++)
    compile(fn, call->args.at[i], false);
}

static void compile_app(Fn *fn, const Core *c, bool tail) {
  Eval *vm = fn->e.vm;
  Call call = {0};
  flatten_call(vm, c, &call);
  const Core *f = call.f;
  uint32_t n = call.args.len, all = n + call.hidden_count;
  if (f->kind == CORE_PRIM) {
    Code *control = control_code(vm, f->prim);
    uint32_t arity = control ? control->arity : f->arity;
    if (control && n == arity) {
      push_args(fn, &call, 0, n);
      bool scan = f->prim == PRIM_SCAN;
      uint32_t end = compile_nothing(fn, c, scan ? 1 : n - 1,
                                     scan ? LOOP_SCAN : LOOP_MAP);
      fn->e.span = c->span;
      emit_call(fn, tail && !end, OP_CALLC, OP_TAILC, n, 1 - (int)n, control);
      if (end)
        emit_patch(&fn->e, end);
      if (end && tail)
        emit(&fn->e, OP_RET, 0, 0, 0, 0);
      return;
    }
    if (!control && n >= arity) {
      compile_prim_call(fn, f, call.args.at, arity, c);
      if (n > arity) {
        push_args(fn, &call, arity, n);
        fn->e.span = c->span;
        emit_call(fn, tail, OP_CALLV, OP_TAILV, n - arity, -(int)(n - arity),
                  NULL);
      } else if (tail) {
        emit(&fn->e, OP_RET, 0, 0, 0, 0);
      }
      return;
    }
  }
  if (f->kind == CORE_VAR && f->var->global) {
    push_args(fn, &call, 0, n);
    fn->e.span = c->span;
    emit_call(fn, tail, OP_CALLG, OP_TAILG, all, 1 - (int)all,
              global_of(vm, f->var));
    fn->e.most = fn->e.depth + 1 > fn->e.most ? fn->e.depth + 1 : fn->e.most;
    return;
  }
  Code *sibling = f->kind == CORE_VAR ? group_code(fn->group, f->var) : NULL;
  if (sibling && sibling->arity == all) {
    push_args(fn, &call, 0, n);
    fn->e.span = c->span;
    emit_call(fn, tail, OP_CALLS, OP_TAILS, all, 1 - (int)all, sibling);
    return;
  }
  compile(fn, f, false);
  push_args(fn, &call, 0, n);
  fn->e.span = c->span;
  emit_call(fn, tail, OP_CALLV, OP_TAILV, all, -(int)all, NULL);
}

/* ---- conditionals ---- */

static void compile_cond(Fn *fn, const Core *cond, CondJump *out) {
  if (cond->kind == CORE_APP && cond->items[0]->kind == CORE_PRIM &&
      cond->item_count == 3 && jump_ops[cond->items[0]->prim].ss) {
    out->at = emit_binary(fn, &jump_ops[cond->items[0]->prim], cond->items[1],
                          cond->items[2], cond->span, true);
    return;
  }
  compile(fn, cond, false);
  fn->e.span = cond->span;
  out->at = emit(&fn->e, OP_JF, 0, 0, 0, -1);
}

static void compile_if(Fn *fn, const Core *c, bool tail) {
  Emit *e = &fn->e;
  CondJump jump;
  compile_cond(fn, c->items[0], &jump);
  uint32_t depth = e->depth, end = 0;
  compile(fn, c->items[1], tail);
  if (!tail)
    end = emit(e, OP_JMP, 0, 0, 0, 0);
  emit_patch(e, jump.at);
  e->depth = depth;
  compile(fn, c->items[2], tail);
  uint32_t join = 0;
  if (!tail) {
    emit_patch(e, end);
    e->span = c->span;
    join = emit(e, OP_JOIN, 0, 0, 0, 0);
  }
  VEC_PUSH(e->vm->arena, e->joins, ((Join){jump.at, join}));
}

/* ---- all kinds ---- */

static void push_items(Fn *fn, const Core *c, uint32_t from) {
  for (uint32_t i = from; i < c->item_count; i++)
    compile(fn, c->items[i], false);
}

static void compile_value(Fn *fn, const Core *c) {
  Eval *vm = fn->e.vm;
  Emit *e = &fn->e;
  switch (c->kind) {
  case CORE_NUM:
    compile_num(fn, c);
    return;
  case CORE_BOOL:
    emit_const(e, value_bool(c->flag));
    return;
  case CORE_STRING:
    emit_const(e, value_string(&vm->heap, c->text, c->text_len));
    return;
  case CORE_VAR:
    load_var(fn, c->var);
    return;
  case CORE_PRIM:
    compile_prim(fn, c);
    return;
  case CORE_LAM:
  case CORE_TLAM:
    if (!lam_arity(c)) /* no hidden parameter after all */
      compile(fn, c->items[0], false);
    else
      compile_closure(fn, c, lam_arity(c));
    return;
  case CORE_ABSENT:
    emit_const(e, (Value){.tag = V_ABSENT});
    return;
  case CORE_AXIS_ALL:
    emit_const(e, (Value){.tag = V_AXIS_ALL});
    return;
  case CORE_TUPLE:
    if (!c->item_count) {
      emit_const(e, value_unit());
      return;
    }
    push_items(fn, c, 0);
    emit(e, OP_TUPLE, 0, c->item_count, 0, 1 - (int)c->item_count);
    return;
  case CORE_RECORD:
    push_items(fn, c, 0);
    emit_ptr(e, OP_RECORD, 0, 0, 0, 1 - (int)c->item_count,
             layout_of(vm, c->labels, c->item_count));
    return;
  case CORE_FIELD: {
    compile(fn, c->items[0], false);
    FieldSite *site = NEW(vm->arena, FieldSite);
    site->label = c->label;
    e->span = c->span;
    emit_ptr(e, OP_FIELD, 0, 0, 0, 0, site);
    return;
  }
  case CORE_WITH:
    push_items(fn, c, 0);
    e->span = c->span;
    emit_ptr(e, OP_WITH, 0, 0, 0, 1 - (int)c->item_count,
             layout_of(vm, c->labels, c->item_count - 1));
    return;
  case CORE_CON:
    if (!c->item_count) {
      emit_const(e, (Value){.tag = V_CON0, .con = c->con});
      return;
    }
    compile(fn, c->items[0], false);
    emit_ptr(e, OP_CON, 0, 0, 0, 0, c->con);
    return;
  case CORE_LIST:
    push_items(fn, c, 0);
    emit(e, OP_LIST, 0, 0, (int32_t)c->item_count, 1 - (int)c->item_count);
    return;
  case CORE_CONS:
    push_items(fn, c, 0);
    emit(e, OP_CONS, 0, 0, 0, -1);
    return;
  case CORE_TENSOR:
    compile_tensor(fn, c);
    return;
  case CORE_SHAPE:
    compile_shape(fn, c);
    return;
  case CORE_FOR:
    compile_for(fn, c);
    return;
  case CORE_INDEX:
    compile_index(fn, c);
    return;
  case CORE_DIM:
    compile_size(fn, c->dim);
    return;
  case CORE_SHAPEVAL:
    compile_shape_value(fn, c);
    return;
  case CORE_OPEN:
    compile_open(fn, c);
    return;
  case CORE_TAPP:
    compile(fn, c->items[0], false);
    for (uint32_t i = 0; i < c->hidden_count; i++)
      compile_hidden(fn, &c->hidden[i]);
    e->span = c->span;
    if (c->hidden_count)
      emit(e, OP_CALLV, c->hidden_count, 0, 0, -(int)c->hidden_count);
    return;
  case CORE_ERROR:
    compile_bug(fn, "code that did not pass the checker is run");
    return;
  case CORE_APP:
  case CORE_LET:
  case CORE_LETREC:
  case CORE_CASE:
  case CORE_IF:
  case CORE_SEQ:
  case CORE_CHECK:
    return; /* in compile */
  }
}

void compile(Fn *fn, const Core *c, bool tail) {
  Emit *e = &fn->e;
  Span outer = e->span;
  e->span = c->span;
  switch (c->kind) {
  case CORE_APP:
    compile_app(fn, c, tail);
    break;
  case CORE_LET:
    compile(fn, c->items[0], false);
    fn_bind(fn, c->var, e->depth - 1);
    compile(fn, c->items[1], tail);
    if (!tail)
      emit(e, OP_SLIDE, 0, 0, 1, -1);
    break;
  case CORE_LETREC:
    compile_letrec(fn, c, tail);
    break;
  case CORE_CASE:
    compile_case(fn, c, tail);
    break;
  case CORE_IF:
    compile_if(fn, c, tail);
    break;
  case CORE_SEQ:
    for (uint32_t i = 0; i + 1 < c->item_count; i++) {
      compile(fn, c->items[i], false);
      emit(e, OP_POP, 0, 0, 0, -1);
    }
    compile(fn, c->items[c->item_count - 1], tail);
    break;
  case CORE_CHECK:
    compile_checks(fn, c);
    compile(fn, c->items[0], tail);
    break;
  case CORE_NUM:
  case CORE_BOOL:
  case CORE_STRING:
  case CORE_VAR:
  case CORE_PRIM:
  case CORE_LAM:
  case CORE_ABSENT:
  case CORE_TUPLE:
  case CORE_RECORD:
  case CORE_FIELD:
  case CORE_WITH:
  case CORE_CON:
  case CORE_LIST:
  case CORE_CONS:
  case CORE_TENSOR:
  case CORE_SHAPE:
  case CORE_FOR:
  case CORE_INDEX:
  case CORE_DIM:
  case CORE_SHAPEVAL:
  case CORE_AXIS_ALL:
  case CORE_OPEN:
  case CORE_TLAM:
  case CORE_TAPP:
  case CORE_ERROR:
    compile_value(fn, c);
    if (tail)
      emit(e, OP_RET, 0, 0, 0, 0);
    break;
  }
  e->span = outer;
}

/* ---- declarations ---- */

static void top_begin(Fn *fn, Eval *vm, KeyVec *captures, Span span) {
  *fn = (Fn){.captures = captures, .top = true};
  fn->e.vm = vm;
  fn->e.span = span;
  map_init(&fn->slots, vm->arena);
}

Code *compile_expr(Eval *vm, const Core *core) {
  Fn fn;
  KeyVec captures = {0};
  top_begin(&fn, vm, &captures, core->span);
  compile(&fn, core, false);
  emit(&fn.e, OP_RET, 0, 0, 0, 0);
  Code *code = code_new(vm, 0, NULL);
  emit_end(&fn.e, code);
  return code;
}

Code *compile_bind(Eval *vm, const CoreDec *dec, bool lazy) {
  Fn fn;
  KeyVec captures = {0};
  top_begin(&fn, vm, &captures, dec->span);
  if (lazy) /* the machine keeps the guard of who asked in slot 0 */
    fn.e.depth = fn.e.most = 1;
  compile(&fn, dec->expr, false);
  compile_global_pat(&fn, dec->pat, fn.e.depth - 1);
  if (lazy) {
    emit(&fn.e, OP_RET_INIT, 0, 0, 0, 0);
  } else {
    emit_const(&fn.e, value_unit());
    emit(&fn.e, OP_RET, 0, 0, 0, 0);
  }
  Code *code = code_new(vm, lazy ? 1 : 0, NULL);
  emit_end(&fn.e, code);
  return code;
}

void define_funs(Eval *vm, const CoreDec *dec) {
  Code **codes = NEW_ARRAY(vm->arena, Code *, dec->var_count);
  for (uint32_t i = 0; i < dec->var_count; i++) {
    KeyVec captures = {0};
    codes[i] =
        code_new(vm, lam_arity(dec->items[i]), var_text(vm, dec->vars[i]));
    compile_fn(vm, NULL, NULL, &captures, dec->items[i], codes[i]);
  }
  for (uint32_t i = 0; i < dec->var_count; i++) {
    Global *g = global_of(vm, dec->vars[i]);
    value_release(&vm->heap, g->value);
    g->value = (Value){.tag = V_FN, .code = codes[i]};
    g->code = codes[i];
  }
}
