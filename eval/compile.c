/* Compiles the typed tree to bytecode: closures, calls, bindings and control
 * flow.  compile_prim.c compiles numbers and primitives, compile_match.c
 * patterns, compile_tensor.c tensors and sizes.  The main entry point is
 * compile_expr. */
#include "eval/compile.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/intern.h"

#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

Global *global_of(Eval *vm, Var *var) {
  if (!var->eval_global) {
    Global *g = NEW(vm->arena, Global);
    g->name = var->name ? var->name->text : NULL;
    g->next = vm->globals;
    vm->globals = g;
    var->eval_global = g;
  }
  return var->eval_global;
}

const RecordLayout *record_layout_intern(Eval *vm, Sym *const *labels,
                                         uint32_t len) {
  for (RecordLayout *l = vm->layouts; l; l = l->next)
    if (l->len == len && !memcmp(l->labels, labels, len * sizeof *labels))
      return l;
  RecordLayout *l = arena_alloc(vm->arena, sizeof *l + len * sizeof *labels);
  l->len = len;
  memcpy(l->labels, labels, len * sizeof *labels);
  l->next = vm->layouts;
  vm->layouts = l;
  return l;
}

bool fn_slot(const FunctionState *fn, const void *key, uint32_t *slot) {
  void *found = map_get(&fn->slots, key);
  if (found)
    *slot = (uint32_t)(uintptr_t)found - 1;
  return found != NULL;
}

void fn_bind(FunctionState *fn, const void *key, uint32_t slot) {
  map_put(&fn->slots, key, (void *)(uintptr_t)(slot + 1));
}

static Code *group_code(const LetrecGroup *group, const void *key) {
  if (group)
    for (uint32_t i = 0; i < group->count; i++)
      if (group->vars[i] == key)
        return group->codes[i];
  return NULL;
}

bool fn_knows(const FunctionState *fn, const void *key) {
  uint32_t slot;
  for (; fn; fn = fn->outer)
    if (fn_slot(fn, key, &slot) || group_code(fn->group, key))
      return true;
  return false;
}

bool fn_emit_load(FunctionState *fn, const void *key) {
  uint32_t slot;
  if (fn_slot(fn, key, &slot)) {
    emit(&fn->emitter, OP_LOAD_LOCAL, 0, slot, 0, 1);
    return true;
  }
  Code *sibling = group_code(fn->group, key);
  if (sibling) {
    emit_ptr(&fn->emitter, OP_LOAD_SELF, 0, 0, 0, 1, sibling);
    return true;
  }
  if (!fn_knows(fn->outer, key))
    return false;
  uint32_t at = 0;
  while (at < fn->captures->len && fn->captures->at[at] != key)
    at++;
  if (at == fn->captures->len)
    VEC_PUSH(fn->emitter.vm->arena, *fn->captures, key);
  emit(&fn->emitter, OP_LOAD_CAPTURE, 0, 0, (int32_t)at, 1);
  return true;
}

void compile_bug(FunctionState *fn, const char *what) {
  emit_ptr(&fn->emitter, OP_BUG, 0, 0, 0, 1,
           arena_strndup(fn->emitter.vm->arena, what, strlen(what)));
}

static void load_var(FunctionState *fn, Var *var) {
  if (var->global)
    emit_ptr(&fn->emitter, OP_LOAD_GLOBAL, 0, 0, 0, 1,
             global_of(fn->emitter.vm, var));
  else if (!fn_emit_load(fn, var))
    compile_bug(fn, "a variable has no value here");
}

/* ---- functions ---- */

/* Counts the stack slots that CORE_UNPACK needs in a function.  Inner functions
 * have their own slots. */
static uint32_t count_unpack_slots(const Core *c) {
  if (!c)
    return 0;
  uint32_t n = c->kind == CORE_UNPACK ? c->size_path_count : 0;
  if (c->kind == CORE_LAM || c->kind == CORE_TLAM || c->kind == CORE_LETREC) {
    if (c->kind == CORE_LETREC)
      return n + count_unpack_slots(c->items[c->var_count]);
    return n;
  }
  if (c->kind == CORE_FOR) {
    for (uint32_t i = 0; i < c->param_count; i++)
      n += count_unpack_slots(c->ranges[i].expr);
    return n;
  }
  for (uint32_t i = 0; i < c->item_count; i++)
    n += count_unpack_slots(c->items[i]);
  for (uint32_t i = 0; i < c->rule_count; i++)
    n += count_unpack_slots(c->rules[i].body);
  for (uint32_t i = 0; i < c->slice_count; i++)
    n += count_unpack_slots(c->slices[i].from) +
         count_unpack_slots(c->slices[i].to) +
         count_unpack_slots(c->slices[i].step);
  return n;
}

static uint32_t lambda_arity(const Core *c) {
  uint32_t n = 0;
  if (c->kind == CORE_TLAM) {
    n = c->implicit_count;
    if (c->items[0]->kind != CORE_LAM)
      return n;
    c = c->items[0];
  }
  return n + c->param_count;
}

const void *size_path_key(const SizePath *b) {
  return b->shape_var ? (const void *)b->shape_var : b->var;
}

/* The caller did not know some implicit arguments.  The function reads them off
 * its arguments, the first of which is in slot `first`. */
static void emit_implicits_from_args(FunctionState *fn, const Core *tlam,
                                     uint32_t first) {
  BytecodeEmitter *e = &fn->emitter;
  Map done;
  map_init(&done, e->vm->arena);
  for (uint32_t i = 0; i < tlam->size_path_count; i++) {
    const void *key = size_path_key(&tlam->size_paths[i]);
    uint32_t slot;
    if (map_get(&done, key) || !fn_slot(fn, key, &slot))
      continue;
    map_put(&done, key, (void *)key);
    uint32_t known = emit(e, OP_JUMP_IF_KNOWN, 0, slot, 0, 0);
    for (uint32_t k = i; k < tlam->size_path_count; k++) {
      SizePath *b = &tlam->size_paths[k];
      if (size_path_key(b) != key)
        continue;
      emit(e, OP_LOAD_LOCAL, 0, first + b->param_index, 0, 1);
      emit_ptr(e, k == i ? OP_UNPACK_SIZE : OP_CHECK_UNPACKED, 0,
               k == i ? 0 : slot, 0, k == i, b);
      if (k == i)
        emit(e, OP_STORE_LOCAL, 0, slot, 0, -1);
      emit(e, OP_POP, 0, 0, 0, -1);
    }
    emit_patch_jump(e, known);
  }
}

/* c is a LAM, a TLAM, or a FOR together with its indices. */
static void compile_fn(Eval *vm, FunctionState *outer, LetrecGroup *group,
                       KeyVec *captures, const Core *c, Code *code) {
  FunctionState fn = {
      .outer = outer, .group = group, .captures = captures, .lambda = c};
  fn.emitter.vm = vm;
  fn.emitter.span = c->span;
  map_init(&fn.slots, vm->arena);
  uint32_t slot = 0;
  const Core *outer_lambda = c;
  if (c->kind == CORE_TLAM) {
    for (uint32_t i = 0; i < c->implicit_count; i++)
      fn_bind(&fn, implicit_var(&c->implicits[i]), slot++);
    if (c->items[0]->kind == CORE_LAM)
      c = c->items[0];
  }
  fn.lambda = c;
  const CoreParam *params = c->kind == CORE_TLAM ? NULL : c->params;
  uint32_t count = params ? c->param_count : 0, first = slot;
  for (uint32_t i = 0; i < count; i++)
    fn_bind(&fn, params[i].var, slot++);
  fn.emitter.stack_depth = fn.emitter.max_stack_depth = slot;
  uint32_t unpack_slots = count_unpack_slots(c->items[0]);
  for (uint32_t i = 0; i < count; i++)
    unpack_slots += count_unpack_slots(params[i].default_value);
  fn.next_unpack_slot = slot;
  if (unpack_slots)
    emit(&fn.emitter, OP_RESERVE, 0, 0, (int32_t)unpack_slots,
         (int)unpack_slots);
  if (outer_lambda != c)
    emit_implicits_from_args(&fn, outer_lambda, first);
  for (uint32_t i = 0; i < count; i++) {
    if (!params[i].default_value)
      continue;
    uint32_t skip = emit(&fn.emitter, OP_JUMP_IF_PRESENT, 0, first + i, 0, 0);
    compile(&fn, params[i].default_value, false);
    emit(&fn.emitter, OP_STORE_LOCAL, 0, first + i, 0, -1);
    emit_patch_jump(&fn.emitter, skip);
  }
  compile(&fn, c->items[0], true);
  emit_last_uses(&fn.emitter);
  emit_finish(&fn.emitter, code);
}

static const char *var_name(Eval *vm, const Var *var) {
  (void)vm;
  return var && var->name ? var->name->text : NULL;
}

static void load_captures(FunctionState *fn, const KeyVec *captures) {
  for (uint32_t i = 0; i < captures->len; i++)
    if (!fn_emit_load(fn, captures->at[i]))
      compile_bug(fn, "a captured variable has no value here");
}

void compile_closure(FunctionState *fn, const Core *c, uint32_t arity) {
  Eval *vm = fn->emitter.vm;
  Code *code = code_new(vm, arity, NULL);
  KeyVec captures = {0};
  compile_fn(vm, fn, NULL, &captures, c, code);
  if (!captures.len) {
    emit_push_constant(&fn->emitter, (Value){.tag = V_FN, .code = code});
    return;
  }
  load_captures(fn, &captures);
  emit_ptr(&fn->emitter, OP_MAKE_CLOSURE, 0, captures.len, 0,
           1 - (int)captures.len, code);
}

static void compile_letrec(FunctionState *fn, const Core *c, bool tail) {
  Eval *vm = fn->emitter.vm;
  LetrecGroup group = {.vars = c->vars, .count = c->var_count};
  group.codes = NEW_ARRAY(vm->arena, Code *, c->var_count);
  KeyVec captures = {0};
  for (uint32_t i = 0; i < c->var_count; i++)
    group.codes[i] =
        code_new(vm, lambda_arity(c->items[i]), var_name(vm, c->vars[i]));
  for (uint32_t i = 0; i < c->var_count; i++)
    compile_fn(vm, fn, &group, &captures, c->items[i], group.codes[i]);
  uint32_t base = fn->emitter.stack_depth;
  if (captures.len) {
    load_captures(fn, &captures);
    emit(&fn->emitter, OP_MAKE_ENV, 0, captures.len, 0, 1 - (int)captures.len);
  }
  for (uint32_t i = 0; i < c->var_count; i++) {
    if (captures.len)
      emit_ptr(&fn->emitter, OP_MAKE_SIBLING, 0, base, 0, 1, group.codes[i]);
    else
      emit_push_constant(&fn->emitter,
                         (Value){.tag = V_FN, .code = group.codes[i]});
    fn_bind(fn, c->vars[i], fn->emitter.stack_depth - 1);
  }
  uint32_t extra = fn->emitter.stack_depth - base;
  compile(fn, c->items[c->var_count], tail);
  if (!tail)
    emit(&fn->emitter, OP_SLIDE, 0, 0, (int32_t)extra, -(int)extra);
}

/* ---- application ---- */

static void compile_implicit_arg(FunctionState *fn, const ImplicitArg *h) {
  switch (h->kind) {
  case IMPLICIT_ELEM:
    if (h->elem.dtype != DT_NONE || !h->elem.var)
      emit_push_constant(&fn->emitter,
                         (Value){.tag = V_DTYPE, .i = h->elem.dtype});
    else if (!fn_emit_load(fn, h->elem.var))
      compile_bug(fn, "an element type is not known here");
    return;
  case IMPLICIT_DIM:
    if (dim_is_computable(fn, h->dim))
      compile_dim(fn, h->dim);
    else /* an error only if the program uses it */
      emit_push_constant(&fn->emitter, value_unit());
    return;
  case IMPLICIT_SHAPE:
    compile_shape_arg(fn, h);
    return;
  }
}

/* f, applied to its implicit arguments, then to its arguments. */
typedef struct AppSpine {
  const Core *head;
  const ImplicitArg *implicits;
  uint32_t implicit_count;
  VEC(Core *) args;
} AppSpine;

static void collect_spine(Eval *vm, const Core *c, AppSpine *out) {
  if (c->kind == CORE_APP) {
    collect_spine(vm, c->items[0], out);
    for (uint32_t i = 1; i < c->item_count; i++)
      VEC_PUSH(vm->arena, out->args, c->items[i]);
    return;
  }
  if (c->kind == CORE_TAPP) {
    out->implicits = c->implicits;
    out->implicit_count = c->implicit_count;
    c = c->items[0];
  }
  out->head = c;
}

static void emit_call(FunctionState *fn, bool tail, Op call, Op tail_call,
                      uint32_t n, int push, const void *ptr) {
  if (ptr)
    emit_ptr(&fn->emitter, tail ? tail_call : call, n, 0, 0, push, ptr);
  else
    emit(&fn->emitter, tail ? tail_call : call, n, 0, 0, push);
}

static void push_args(FunctionState *fn, const AppSpine *call, uint32_t from,
                      uint32_t to) {
  if (!from)
    for (uint32_t i = 0; i < call->implicit_count; i++)
      compile_implicit_arg(fn, &call->implicits[i]);
  for (uint32_t i = from; i < to; i++)
    compile(fn, call->args.at[i], false);
}

static void compile_app(FunctionState *fn, const Core *c, bool tail) {
  Eval *vm = fn->emitter.vm;
  AppSpine call = {0};
  collect_spine(vm, c, &call);
  const Core *f = call.head;
  uint32_t n = call.args.len, total_args = n + call.implicit_count;
  if (f->kind == CORE_PRIM) {
    Code *control = higher_order_code(vm, f->prim);
    uint32_t arity = control ? control->arity : f->arity;
    if (control && n == arity) {
      push_args(fn, &call, 0, n);
      bool scan = f->prim == PRIM_SCAN;
      uint32_t end = compile_empty_loop(fn, c, scan ? 1 : n - 1,
                                        scan ? LOOP_SCAN : LOOP_MAP);
      fn->emitter.span = c->span;
      emit_call(fn, tail && !end, OP_CALL_CODE, OP_TAIL_CALL_CODE, n,
                1 - (int)n, control);
      if (end)
        emit_patch_jump(&fn->emitter, end);
      if (end && tail)
        emit(&fn->emitter, OP_RETURN, 0, 0, 0, 0);
      return;
    }
    if (!control && n >= arity) {
      compile_prim_call(fn, f, call.args.at, arity, c);
      if (n > arity) {
        push_args(fn, &call, arity, n);
        fn->emitter.span = c->span;
        emit_call(fn, tail, OP_CALL_VALUE, OP_TAIL_CALL_VALUE, n - arity,
                  -(int)(n - arity), NULL);
      } else if (tail) {
        emit(&fn->emitter, OP_RETURN, 0, 0, 0, 0);
      }
      return;
    }
  }
  if (f->kind == CORE_VAR && f->var->global) {
    push_args(fn, &call, 0, n);
    fn->emitter.span = c->span;
    emit_call(fn, tail, OP_CALL_GLOBAL, OP_TAIL_CALL_GLOBAL, total_args,
              1 - (int)total_args, global_of(vm, f->var));
    fn->emitter.max_stack_depth =
        fn->emitter.stack_depth + 1 > fn->emitter.max_stack_depth
            ? fn->emitter.stack_depth + 1
            : fn->emitter.max_stack_depth;
    return;
  }
  Code *sibling = f->kind == CORE_VAR ? group_code(fn->group, f->var) : NULL;
  if (sibling && sibling->arity == total_args) {
    push_args(fn, &call, 0, n);
    fn->emitter.span = c->span;
    emit_call(fn, tail, OP_CALL_SIBLING, OP_TAIL_CALL_SIBLING, total_args,
              1 - (int)total_args, sibling);
    return;
  }
  compile(fn, f, false);
  push_args(fn, &call, 0, n);
  fn->emitter.span = c->span;
  emit_call(fn, tail, OP_CALL_VALUE, OP_TAIL_CALL_VALUE, total_args,
            -(int)total_args, NULL);
}

/* ---- conditionals ---- */

static void compile_if(FunctionState *fn, const Core *c, bool tail) {
  BytecodeEmitter *e = &fn->emitter;
  JumpPatch jump;
  compile_cond(fn, c->items[0], &jump);
  uint32_t depth = e->stack_depth, end = 0;
  compile(fn, c->items[1], tail);
  if (!tail)
    end = emit(e, OP_JUMP, 0, 0, 0, 0);
  emit_patch_jump(e, jump.at);
  e->stack_depth = depth;
  compile(fn, c->items[2], tail);
  uint32_t join = 0;
  if (!tail) {
    emit_patch_jump(e, end);
    e->span = c->span;
    join = emit(e, OP_JOIN, 0, 0, 0, 0);
  }
  VEC_PUSH(e->vm->arena, e->joins, ((JoinPoint){jump.at, join}));
}

/* ---- all kinds ---- */

static void push_items(FunctionState *fn, const Core *c, uint32_t from) {
  for (uint32_t i = from; i < c->item_count; i++)
    compile(fn, c->items[i], false);
}

static void compile_tuple(FunctionState *fn, const Core *c) {
  BytecodeEmitter *e = &fn->emitter;
  if (!c->item_count) {
    emit_push_constant(e, value_unit());
    return;
  }
  push_items(fn, c, 0);
  emit(e, OP_MAKE_TUPLE, 0, c->item_count, 0, 1 - (int)c->item_count);
}

static void compile_field(FunctionState *fn, const Core *c) {
  BytecodeEmitter *e = &fn->emitter;
  compile(fn, c->items[0], false);
  FieldInlineCache *site = NEW(e->vm->arena, FieldInlineCache);
  site->label = c->label;
  e->span = c->span;
  emit_ptr(e, OP_RECORD_GET, 0, 0, 0, 0, site);
}

static void compile_con(FunctionState *fn, const Core *c) {
  BytecodeEmitter *e = &fn->emitter;
  if (!c->item_count) {
    emit_push_constant(e, (Value){.tag = V_NULLARY_CON, .con = c->con});
    return;
  }
  compile(fn, c->items[0], false);
  emit_ptr(e, OP_MAKE_CON, 0, 0, 0, 0, c->con);
}

/* Passes the implicit arguments. */
static void compile_type_application(FunctionState *fn, const Core *c) {
  BytecodeEmitter *e = &fn->emitter;
  compile(fn, c->items[0], false);
  for (uint32_t i = 0; i < c->implicit_count; i++)
    compile_implicit_arg(fn, &c->implicits[i]);
  e->span = c->span;
  if (c->implicit_count)
    emit(e, OP_CALL_VALUE, c->implicit_count, 0, 0, -(int)c->implicit_count);
}

static void compile_value(FunctionState *fn, const Core *c) {
  Eval *vm = fn->emitter.vm;
  BytecodeEmitter *e = &fn->emitter;
  switch (c->kind) {
  case CORE_NUM:
    compile_num(fn, c);
    return;
  case CORE_BOOL:
    emit_push_constant(e, value_bool(c->flag));
    return;
  case CORE_STRING:
    emit_push_constant(e, value_string(&vm->heap, c->text, c->text_len));
    return;
  case CORE_VAR:
    load_var(fn, c->var);
    return;
  case CORE_PRIM:
    compile_prim(fn, c);
    return;
  case CORE_LAM:
  case CORE_TLAM:
    if (!lambda_arity(c)) /* it has no implicit parameter */
      compile(fn, c->items[0], false);
    else
      compile_closure(fn, c, lambda_arity(c));
    return;
  case CORE_ABSENT:
    emit_push_constant(e, (Value){.tag = V_ABSENT});
    return;
  case CORE_ALL_AXES:
    emit_push_constant(e, (Value){.tag = V_ALL_AXES});
    return;
  case CORE_TUPLE:
    compile_tuple(fn, c);
    return;
  case CORE_RECORD:
    push_items(fn, c, 0);
    emit_ptr(e, OP_MAKE_RECORD, 0, 0, 0, 1 - (int)c->item_count,
             record_layout_intern(vm, c->labels, c->item_count));
    return;
  case CORE_FIELD:
    compile_field(fn, c);
    return;
  case CORE_WITH:
    push_items(fn, c, 0);
    e->span = c->span;
    emit_ptr(e, OP_RECORD_UPDATE, 0, 0, 0, 1 - (int)c->item_count,
             record_layout_intern(vm, c->labels, c->item_count - 1));
    return;
  case CORE_CON:
    compile_con(fn, c);
    return;
  case CORE_LIST:
    push_items(fn, c, 0);
    emit(e, OP_MAKE_LIST, 0, 0, (int32_t)c->item_count, 1 - (int)c->item_count);
    return;
  case CORE_CONS:
    push_items(fn, c, 0);
    emit(e, OP_MAKE_CONS, 0, 0, 0, -1);
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
  case CORE_SHAPE_VALUE:
    compile_shape_value(fn, c);
    return;
  case CORE_UNPACK:
    compile_unpack(fn, c);
    return;
  case CORE_TAPP:
    compile_type_application(fn, c);
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
    return; /* compile() handles it */
  }
}

void compile(FunctionState *fn, const Core *c, bool tail) {
  BytecodeEmitter *e = &fn->emitter;
  Span outer = e->span;
  e->span = c->span;
  switch (c->kind) {
  case CORE_APP:
    compile_app(fn, c, tail);
    break;
  case CORE_LET:
    compile(fn, c->items[0], false);
    fn_bind(fn, c->var, e->stack_depth - 1);
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
  case CORE_SHAPE_VALUE:
  case CORE_ALL_AXES:
  case CORE_UNPACK:
  case CORE_TLAM:
  case CORE_TAPP:
  case CORE_ERROR:
    compile_value(fn, c);
    if (tail)
      emit(e, OP_RETURN, 0, 0, 0, 0);
    break;
  }
  e->span = outer;
}

/* ---- declarations ---- */

static void begin_declaration(FunctionState *fn, Eval *vm, KeyVec *captures,
                              Span span) {
  *fn = (FunctionState){.captures = captures, .is_top_level = true};
  fn->emitter.vm = vm;
  fn->emitter.span = span;
  map_init(&fn->slots, vm->arena);
}

Code *compile_expr(Eval *vm, const Core *core) {
  FunctionState fn;
  KeyVec captures = {0};
  begin_declaration(&fn, vm, &captures, core->span);
  compile(&fn, core, false);
  emit(&fn.emitter, OP_RETURN, 0, 0, 0, 0);
  Code *code = code_new(vm, 0, NULL);
  emit_last_uses(&fn.emitter);
  emit_finish(&fn.emitter, code);
  return code;
}

Code *compile_bind(Eval *vm, const CoreDec *dec, bool lazy) {
  FunctionState fn;
  KeyVec captures = {0};
  begin_declaration(&fn, vm, &captures, dec->span);
  if (lazy) /* the caller's guard is in slot 0 */
    fn.emitter.stack_depth = fn.emitter.max_stack_depth = 1;
  compile(&fn, dec->expr, false);
  compile_global_pat(&fn, dec->pat, fn.emitter.stack_depth - 1);
  if (lazy) {
    emit(&fn.emitter, OP_RETURN_LAZY_INIT, 0, 0, 0, 0);
  } else {
    emit_push_constant(&fn.emitter, value_unit());
    emit(&fn.emitter, OP_RETURN, 0, 0, 0, 0);
  }
  Code *code = code_new(vm, lazy ? 1 : 0, NULL);
  emit_last_uses(&fn.emitter);
  emit_finish(&fn.emitter, code);
  return code;
}

void define_functions(Eval *vm, const CoreDec *dec) {
  Code **codes = NEW_ARRAY(vm->arena, Code *, dec->var_count);
  for (uint32_t i = 0; i < dec->var_count; i++) {
    KeyVec captures = {0};
    codes[i] =
        code_new(vm, lambda_arity(dec->items[i]), var_name(vm, dec->vars[i]));
    compile_fn(vm, NULL, NULL, &captures, dec->items[i], codes[i]);
  }
  for (uint32_t i = 0; i < dec->var_count; i++) {
    Global *g = global_of(vm, dec->vars[i]);
    value_release(&vm->heap, g->value);
    g->value = (Value){.tag = V_FN, .code = codes[i]};
    g->code = codes[i];
  }
}
