/* Compiles sizes, shapes, tensor literals, subscripts and `for` to bytecode. */
#include "eval/compile.h"
#include "support/arena.h"
#include "support/intern.h"

#include <string.h>

/* The key of the value behind a size variable.  The value is an implicit
 * parameter, a size that CORE_UNPACK named, or an index of a `for`. */
static const void *size_key(const FunctionState *fn, const DimVar *var) {
  if (fn_knows(fn, var))
    return var;
  for (; fn; fn = fn->outer)
    for (uint32_t i = 0; fn->lambda && i < fn->lambda->param_count; i++) {
      const Var *param = fn->lambda->params[i].var;
      if (param->span.file && param->span.file == var->origin.file &&
          param->span.start == var->origin.start && param->name == var->name)
        return param;
    }
  return NULL;
}

static void load_size(FunctionState *fn, const DimVar *var) {
  Eval *vm = fn->emitter.vm;
  const void *key = size_key(fn, var);
  Global *global = map_get(&vm->size_globals, var);
  if (key && fn_emit_load(fn, key))
    return;
  if (global)
    emit_ptr(&fn->emitter, OP_LOAD_GLOBAL, 0, 0, 0, 1, global);
  else
    compile_bug(fn, "a size has no value here");
}

void compile_dim(FunctionState *fn, Dim *dim) {
  Eval *vm = fn->emitter.vm;
  BytecodeEmitter *e = &fn->emitter;
  dim = dim_resolve(vm->dims, dim);
  uint32_t count;
  const DimOp *ops = dim_postfix(vm->dims, dim, &count);
  if (!ops || !count) {
    compile_bug(fn, "a size does not fit in 64 bits");
    return;
  }
  for (uint32_t i = 0; i < count; i++)
    switch (ops[i].kind) {
    case DOP_INT:
      if (ops[i].num == (int32_t)ops[i].num)
        emit(e, OP_LOAD_INT, 0, 0, (int32_t)ops[i].num, 1);
      else
        emit_push_constant(e, value_int(ops[i].num));
      break;
    case DOP_VAR:
      load_size(fn, ops[i].var);
      break;
    case DOP_PROD:
      if (!fn_emit_load(fn, ops[i].shape))
        compile_bug(fn, "a shape has no value here");
      emit(e, OP_SIZE_PRODUCT, 0, 0, 0, 0);
      break;
    case DOP_ADD:
    case DOP_SUB:
    case DOP_MUL:
    case DOP_DIV:
    case DOP_MIN:
    case DOP_MAX:
      emit(e, OP_SIZE_OP, ops[i].kind, 0, 0, -1);
      break;
    }
}

static void note_implicit_var(void *arg, DimVar *v) {
  *(bool *)arg |= v->kind != DV_INDEX && v->kind != DV_EXISTENTIAL;
}

static void emit_known_check(FunctionState *fn, Dim *dim) {
  Sym *name = dim_as_var(dim) ? dim_as_var(dim)->name : NULL;
  bool has_implicit = false;
  dim_each_var(dim, note_implicit_var, NULL, &has_implicit);
  if (has_implicit)
    emit_ptr(&fn->emitter, OP_CHECK_KNOWN, 0, 0, 0, 0,
             name ? name->text : NULL);
}

/* Compiles CORE_DIM.  A size that nothing determines has no value. */
void compile_size(FunctionState *fn, Dim *dim) {
  dim = dim_resolve(fn->emitter.vm->dims, dim);
  if (dim_is_computable(fn, dim))
    compile_dim(fn, dim);
  else
    emit_push_constant(&fn->emitter, value_unit());
  emit_known_check(fn, dim);
}

static const CoreShape *copy_core_shape(FunctionState *fn,
                                        const CoreShape *ref) {
  CoreShape *copy = NEW(fn->emitter.vm->arena, CoreShape);
  *copy = *ref;
  if (ref->len) {
    copy->axes = NEW_ARRAY(fn->emitter.vm->arena, CoreAxis, ref->len);
    memcpy(copy->axes, ref->axes, ref->len * sizeof *ref->axes);
  }
  return copy;
}

static void emit_shape(FunctionState *fn, const CoreShape *ref,
                       UnknownSizePolicy unknown_policy) {
  int pushed = 0;
  for (uint32_t i = 0; i < ref->len; i++) {
    const CoreAxis *item = &ref->axes[i];
    switch (item->kind) {
    case CORE_AXIS_DIM:
      compile_dim(fn, item->dim);
      pushed++;
      break;
    case CORE_AXIS_STAR:
      break;
    case CORE_AXIS_SPLICE:
      if (!fn_emit_load(fn, item->var))
        compile_bug(fn, "a shape has no value here");
      pushed++;
      break;
    case CORE_AXIS_BROADCAST:
      for (uint32_t k = 0; k < item->broadcast_arg_count; k++)
        emit_shape(fn, &item->broadcast_args[k], unknown_policy);
      pushed += (int)item->broadcast_arg_count;
      break;
    }
  }
  emit_ptr(&fn->emitter, OP_BUILD_SHAPE, unknown_policy, 0, 0, 1 - pushed,
           copy_core_shape(fn, ref));
}

void compile_shape_ref(FunctionState *fn, const CoreShape *ref) {
  emit_shape(fn, ref, UNKNOWN_SIZE_FAILS);
}

void compile_shape_value(FunctionState *fn, const Core *c) {
  emit_shape(fn, &c->shape,
             c->flag ? UNKNOWN_SIZE_IS_ZERO : UNKNOWN_SIZE_FAILS);
}

/* Pushes the shape that a file must have.  A NULL size accepts every size. */
void compile_load_check(FunctionState *fn, const CoreShape *expected) {
  int pushed = 0;
  for (uint32_t i = 0; i < expected->len; i++)
    if (expected->axes[i].dim) {
      compile_dim(fn, expected->axes[i].dim);
      pushed++;
    }
  emit_ptr(&fn->emitter, OP_CHECK_LOADED, 0, 0, 0, -pushed,
           copy_core_shape(fn, expected));
}

/* True if the size can be computed at this place.  It cannot if only an inner
 * function knows a part of it.  Operations then check the size themselves. */
bool dim_is_computable(FunctionState *fn, Dim *dim) {
  Eval *vm = fn->emitter.vm;
  uint32_t count;
  const DimOp *ops = dim_postfix(vm->dims, dim_resolve(vm->dims, dim), &count);
  for (uint32_t i = 0; ops && i < count; i++) {
    const DimVar *var = ops[i].var;
    if (ops[i].kind == DOP_VAR && !map_get(&vm->size_globals, var) &&
        !size_key(fn, var))
      return false;
    if (ops[i].kind == DOP_PROD && !fn_knows(fn, ops[i].shape))
      return false;
  }
  return ops && count;
}

/* The same for a shape. */
bool shape_is_computable(FunctionState *fn, const CoreShape *ref) {
  for (uint32_t i = 0; i < ref->len; i++) {
    const CoreAxis *item = &ref->axes[i];
    if ((item->kind == CORE_AXIS_DIM && !dim_is_computable(fn, item->dim)) ||
        (item->kind == CORE_AXIS_SPLICE && !fn_knows(fn, item->var)))
      return false;
    for (uint32_t k = 0;
         item->kind == CORE_AXIS_BROADCAST && k < item->broadcast_arg_count;
         k++)
      if (!shape_is_computable(fn, &item->broadcast_args[k]))
        return false;
  }
  return true;
}

void compile_shape_arg(FunctionState *fn, const ImplicitArg *h) {
  if (h->unknown || !shape_is_computable(fn, &h->shape))
    emit_push_constant(&fn->emitter, value_unit());
  else
    emit_shape(fn, &h->shape, UNKNOWN_SIZE_PROPAGATES);
}

static bool check_is_computable(FunctionState *fn, const CoreCheck *check) {
  bool is_computable =
      dim_is_computable(fn, check->left) && dim_is_computable(fn, check->right);
  for (uint32_t i = 0; i < check->condition_count; i++)
    is_computable = is_computable &&
                    dim_is_computable(fn, check->conditions[i].left) &&
                    dim_is_computable(fn, check->conditions[i].right);
  return is_computable && check->condition_count <= UINT8_MAX;
}

void compile_checks(FunctionState *fn, const Core *c) {
  for (uint32_t i = 0; i < c->check_count; i++) {
    const CoreCheck *check = &c->checks[i];
    if (!check_is_computable(fn, check))
      continue;
    compile_dim(fn, check->left);
    compile_dim(fn, check->right);
    for (uint32_t k = 0; k < check->condition_count; k++) {
      compile_dim(fn, check->conditions[k].left);
      compile_dim(fn, check->conditions[k].right);
    }
    CoreCheck *copy = NEW(fn->emitter.vm->arena, CoreCheck);
    *copy = *check;
    emit_ptr(&fn->emitter, OP_CHECK, check->condition_count, 0, 0,
             -2 - 2 * (int)check->condition_count, copy);
  }
}

static Global *size_global(Eval *vm, const DimVar *var) {
  Global *g = map_get(&vm->size_globals, var);
  if (g)
    return g;
  g = NEW(vm->arena, Global);
  g->name = var->name ? var->name->text : NULL;
  g->next = vm->globals;
  vm->globals = g;
  map_put(&vm->size_globals, var, g);
  return g;
}

void compile_unpack(FunctionState *fn, const Core *c) {
  BytecodeEmitter *e = &fn->emitter;
  compile(fn, c->items[0], false);
  e->span = c->span;
  for (uint32_t i = 0; i < c->size_path_count; i++) {
    SizePath *bind = NEW(e->vm->arena, SizePath);
    *bind = c->size_paths[i];
    const void *key = size_path_key(bind);
    if (fn->is_top_level && bind->shape_var)
      continue; /* shapes belong to functions */
    if (bind->value)
      compile_dim(fn, bind->value);
    else
      emit_ptr(e, OP_UNPACK_SIZE, 0, 0, 0, 1, bind);
    if (fn->is_top_level) {
      emit_ptr(e, OP_STORE_GLOBAL, 0, 0, 0, -1, size_global(e->vm, bind->var));
      continue;
    }
    uint32_t slot;
    if (!fn_slot(fn, key, &slot)) {
      slot = fn->next_unpack_slot++;
      fn_bind(fn, key, slot);
    }
    emit(e, OP_STORE_LOCAL, 0, slot, 0, -1);
  }
}

static LiteralSite *literal_site_new(FunctionState *fn, const Core *c) {
  Arena *arena = fn->emitter.vm->arena;
  LiteralSite *site = NEW(arena, LiteralSite);
  site->count = c->item_count;
  site->splices = NEW_ARRAY(arena, bool, c->item_count + 1);
  site->holes = NEW_ARRAY(arena, bool, c->item_count + 1);
  for (uint32_t i = 0; i < c->item_count; i++) {
    site->splices[i] = c->splices && c->splices[i];
    site->holes[i] = !c->items[i];
    if (c->items[i] && c->items[i]->kind == CORE_DIM && c->items[i]->flag &&
        !dim_is_computable(fn, c->items[i]->dim))
      site->holes[i] = true;
  }
  return site;
}

void compile_tensor(FunctionState *fn, const Core *c) {
  LiteralSite *site = literal_site_new(fn, c);
  site->elem = c->elem.dtype;
  site->is_dtype_dynamic = !c->item_count && site->elem == DT_NONE &&
                           c->elem.var && fn_emit_load(fn, c->elem.var);
  for (uint32_t i = 0; i < c->item_count; i++)
    compile(fn, c->items[i], false);
  fn->emitter.span = c->span;
  emit_ptr(&fn->emitter, OP_TENSOR_LITERAL, 0, 0, 0,
           1 - (int)c->item_count - site->is_dtype_dynamic, site);
}

void compile_shape(FunctionState *fn, const Core *c) {
  LiteralSite *site = literal_site_new(fn, c);
  int pushed = 0;
  for (uint32_t i = 0; i < c->item_count; i++) {
    const Core *item = c->items[i];
    if (site->holes[i])
      continue;
    if (item->kind == CORE_DIM && item->flag)
      compile_dim(fn, item->dim);
    else
      compile(fn, item, false);
    pushed++;
  }
  fn->emitter.span = c->span;
  emit_ptr(&fn->emitter, OP_SHAPE_LITERAL, 0, 0, 0, 1 - pushed, site);
}

void compile_index(FunctionState *fn, const Core *c) {
  Arena *arena = fn->emitter.vm->arena;
  SubscriptSite *site = NEW(arena, SubscriptSite);
  site->count = c->slice_count;
  site->subscripts = NEW_ARRAY(arena, struct SubscriptForm, c->slice_count);
  compile(fn, c->items[0], false);
  for (uint32_t i = 0; i < c->slice_count; i++) {
    const CoreSlice *slice = &c->slices[i];
    site->subscripts[i] =
        (struct SubscriptForm){.kind = slice->kind,
                               .has_start = slice->from,
                               .has_stop = slice->to,
                               .has_step = slice->step,
                               .start_from_end = slice->from_end,
                               .stop_from_end = slice->to_end,
                               .span = slice->span};
    if (slice->from)
      compile(fn, slice->from, false);
    if (slice->to)
      compile(fn, slice->to, false);
    if (slice->step)
      compile(fn, slice->step, false);
    site->bound_count +=
        (slice->from != NULL) + (slice->to != NULL) + (slice->step != NULL);
  }
  fn->emitter.span = c->span;
  emit_ptr(&fn->emitter, OP_SUBSCRIPT, 0, 0, 0, -(int)site->bound_count, site);
}

/* ---- loops without iterations: the type determines the result ---- */

static bool fill_unknown_sizes(FunctionState *fn, CoreShape *ref) {
  Eval *vm = fn->emitter.vm;
  CoreAxis *at = NEW_ARRAY(vm->arena, CoreAxis, ref->len + 1);
  for (uint32_t i = 0; i < ref->len; i++) {
    at[i] = ref->axes[i];
    if (at[i].kind == CORE_AXIS_DIM && !dim_is_computable(fn, at[i].dim))
      at[i].dim = dim_int(vm->dims, 0);
    if (at[i].kind == CORE_AXIS_BROADCAST ||
        (at[i].kind == CORE_AXIS_SPLICE && !fn_knows(fn, at[i].var)))
      return false;
  }
  ref->axes = at;
  return true;
}

/* Copies c with shapes that can be computed at this place.  Returns NULL if
 * some shape cannot. */
static Core *empty_result_here(FunctionState *fn, const Core *c) {
  Arena *arena = fn->emitter.vm->arena;
  Core *copy = NEW(arena, Core);
  *copy = *c;
  if (c->kind == CORE_SHAPE_VALUE)
    return fill_unknown_sizes(fn, &copy->shape) ? copy : NULL;
  copy->items = NEW_ARRAY(arena, Core *, c->item_count + 1);
  for (uint32_t i = 0; i < c->item_count; i++)
    if (!(copy->items[i] = empty_result_here(fn, c->items[i])))
      return NULL;
  return copy;
}

uint32_t compile_empty_loop(FunctionState *fn, const Core *c, uint32_t n,
                            LoopKind kind) {
  BytecodeEmitter *e = &fn->emitter;
  const Core *empty_result =
      c->empty_result ? empty_result_here(fn, c->empty_result) : NULL;
  if (!empty_result)
    return 0;
  uint32_t depth = e->stack_depth, drop_count = kind == LOOP_SCAN ? 1 : n + 1;
  e->span = c->span;
  uint32_t some = emit(e, OP_JUMP_IF_LOOP_RUNS, n, kind, 0, 0);
  for (uint32_t i = 0; i < drop_count; i++)
    emit(e, OP_POP, 0, 0, 0, -1);
  if (kind == LOOP_SCAN) /* f and the carry: the carry stays on the stack */
    emit(e, OP_SLIDE, 0, 0, 1, -1);
  compile(fn, empty_result, false);
  if (kind == LOOP_SCAN)
    emit(e, OP_MAKE_TUPLE, 0, 2, 0, -1);
  uint32_t end = emit(e, OP_JUMP, 0, 0, 0, 0);
  emit_patch_jump(e, some);
  e->stack_depth = depth;
  return end;
}

void compile_for(FunctionState *fn, const Core *c) {
  compile_closure(fn, c, c->param_count);
  for (uint32_t i = 0; i < c->param_count; i++)
    if (c->ranges[i].expr)
      compile(fn, c->ranges[i].expr, false);
    else
      compile_size(fn, c->ranges[i].dim);
  uint32_t end = compile_empty_loop(fn, c, c->param_count, LOOP_FOR);
  fn->emitter.span = c->span;
  emit_ptr(&fn->emitter, OP_CALL_CODE, c->param_count + 1, 0, 0,
           -(int)c->param_count, for_code(fn->emitter.vm, c->param_count));
  if (end)
    emit_patch_jump(&fn->emitter, end);
}
