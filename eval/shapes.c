/* From the typed tree to code: sizes, shapes, tensors, `for`. */
#include "eval/compile.h"

#include <string.h>

/* The value behind a size variable: a hidden parameter, a size that CORE_OPEN
 * named, or the index of a `for`. */
static const void *dim_key(const Fn *fn, const DimVar *var) {
  if (fn_knows(fn, var))
    return var;
  for (; fn; fn = fn->outer)
    for (uint32_t i = 0; fn->lam && i < fn->lam->param_count; i++) {
      const Var *param = fn->lam->params[i].var;
      if (param->span.file && param->span.file == var->origin.file &&
          param->span.start == var->origin.start && param->name == var->name)
        return param;
    }
  return NULL;
}

static void load_size(Fn *fn, const DimVar *var) {
  Eval *vm = fn->e.vm;
  const void *key = dim_key(fn, var);
  Global *global = map_get(&vm->size_globals, var);
  if (key && fn_load(fn, key))
    return;
  if (global)
    emit_ptr(&fn->e, OP_GLOBAL, 0, 0, 0, 1, global);
  else
    compile_bug(fn, "a size has no value here");
}

void compile_dim(Fn *fn, Dim *dim) {
  Eval *vm = fn->e.vm;
  Emit *e = &fn->e;
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
        emit(e, OP_INT, 0, 0, (int32_t)ops[i].num, 1);
      else
        emit_const(e, value_int(ops[i].num));
      break;
    case DOP_VAR:
      load_size(fn, ops[i].var);
      break;
    case DOP_PROD:
      if (!fn_load(fn, ops[i].shape))
        compile_bug(fn, "a shape has no value here");
      emit(e, OP_DIMPROD, 0, 0, 0, 0);
      break;
    case DOP_ADD:
    case DOP_SUB:
    case DOP_MUL:
    case DOP_DIV:
    case DOP_MIN:
    case DOP_MAX:
      emit(e, OP_DIMOP, ops[i].kind, 0, 0, -1);
      break;
    }
}

static void is_hidden(void *arg, DimVar *v) {
  *(bool *)arg |= v->kind != DV_INDEX && v->kind != DV_DATA;
}

static void size_is_known(Fn *fn, Dim *dim) {
  Sym *name = dim_as_var(dim) ? dim_as_var(dim)->name : NULL;
  bool hidden = false;
  dim_each_var(dim, is_hidden, NULL, &hidden);
  if (hidden)
    emit_ptr(&fn->e, OP_KNOWN, 0, 0, 0, 0, name ? name->text : NULL);
}

/* As a value: a size that nothing decides is none. */
void compile_size(Fn *fn, Dim *dim) {
  dim = dim_resolve(fn->e.vm->dims, dim);
  if (dim_known(fn, dim))
    compile_dim(fn, dim);
  else
    emit_const(&fn->e, value_unit());
  size_is_known(fn, dim);
}

static const ShapeRef *keep_ref(Fn *fn, const ShapeRef *ref) {
  ShapeRef *copy = NEW(fn->e.vm->arena, ShapeRef);
  *copy = *ref;
  if (ref->len) {
    copy->at = NEW_ARRAY(fn->e.vm->arena, ShapeItem, ref->len);
    memcpy(copy->at, ref->at, ref->len * sizeof *ref->at);
  }
  return copy;
}

static void shape_ref(Fn *fn, const ShapeRef *ref, Unknowns unknown) {
  int pushed = 0;
  for (uint32_t i = 0; i < ref->len; i++) {
    const ShapeItem *item = &ref->at[i];
    switch (item->kind) {
    case SI_DIM:
      compile_dim(fn, item->dim);
      pushed++;
      break;
    case SI_STAR:
      break;
    case SI_SPLICE:
      if (!fn_load(fn, item->var))
        compile_bug(fn, "a shape has no value here");
      pushed++;
      break;
    case SI_JOIN:
      for (uint32_t k = 0; k < item->join_count; k++)
        shape_ref(fn, &item->joined[k], unknown);
      pushed += (int)item->join_count;
      break;
    }
  }
  emit_ptr(&fn->e, OP_SHAPEREF, unknown, 0, 0, 1 - pushed, keep_ref(fn, ref));
}

void compile_shape_ref(Fn *fn, const ShapeRef *ref) {
  shape_ref(fn, ref, UNKNOWN_WRONG);
}

void compile_shape_value(Fn *fn, const Core *c) {
  shape_ref(fn, &c->shape, c->flag ? UNKNOWN_EMPTY : UNKNOWN_WRONG);
}

/* What a file must hold; a NULL size is any. */
void compile_loaded(Fn *fn, const ShapeRef *want) {
  int pushed = 0;
  for (uint32_t i = 0; i < want->len; i++)
    if (want->at[i].dim) {
      compile_dim(fn, want->at[i].dim);
      pushed++;
    }
  emit_ptr(&fn->e, OP_LOADED, 0, 0, 0, -pushed, keep_ref(fn, want));
}

/* Where it stands, can the size be computed?  One that only a function inside
 * knows cannot: then the operations test for themselves. */
bool dim_known(Fn *fn, Dim *dim) {
  Eval *vm = fn->e.vm;
  uint32_t count;
  const DimOp *ops =
      dim_postfix(vm->dims, dim_resolve(vm->dims, dim), &count);
  for (uint32_t i = 0; ops && i < count; i++) {
    const DimVar *var = ops[i].var;
    if (ops[i].kind == DOP_VAR && !map_get(&vm->size_globals, var) &&
        !dim_key(fn, var))
      return false;
    if (ops[i].kind == DOP_PROD && !fn_knows(fn, ops[i].shape))
      return false;
  }
  return ops && count;
}

/* The same of a shape. */
bool shape_known(Fn *fn, const ShapeRef *ref) {
  for (uint32_t i = 0; i < ref->len; i++) {
    const ShapeItem *item = &ref->at[i];
    if ((item->kind == SI_DIM && !dim_known(fn, item->dim)) ||
        (item->kind == SI_SPLICE && !fn_knows(fn, item->var)))
      return false;
    for (uint32_t k = 0; item->kind == SI_JOIN && k < item->join_count; k++)
      if (!shape_known(fn, &item->joined[k]))
        return false;
  }
  return true;
}

void compile_shape_arg(Fn *fn, const Hidden *h) {
  if (h->unknown || !shape_known(fn, &h->shape))
    emit_const(&fn->e, value_unit());
  else
    shape_ref(fn, &h->shape, UNKNOWN_STAYS);
}

static bool check_known(Fn *fn, const CoreCheck *check) {
  bool known = dim_known(fn, check->left) && dim_known(fn, check->right);
  for (uint32_t i = 0; i < check->cond_count; i++)
    known = known && dim_known(fn, check->conds[i].left) &&
            dim_known(fn, check->conds[i].right);
  return known && check->cond_count <= UINT8_MAX;
}

void compile_checks(Fn *fn, const Core *c) {
  for (uint32_t i = 0; i < c->check_count; i++) {
    const CoreCheck *check = &c->checks[i];
    if (!check_known(fn, check))
      continue;
    compile_dim(fn, check->left);
    compile_dim(fn, check->right);
    for (uint32_t k = 0; k < check->cond_count; k++) {
      compile_dim(fn, check->conds[k].left);
      compile_dim(fn, check->conds[k].right);
    }
    CoreCheck *copy = NEW(fn->e.vm->arena, CoreCheck);
    *copy = *check;
    emit_ptr(&fn->e, OP_CHECK, check->cond_count, 0, 0,
             -2 - 2 * (int)check->cond_count, copy);
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

void compile_open(Fn *fn, const Core *c) {
  Emit *e = &fn->e;
  compile(fn, c->items[0], false);
  e->span = c->span;
  for (uint32_t i = 0; i < c->bind_count; i++) {
    CoreBind *bind = NEW(e->vm->arena, CoreBind);
    *bind = c->binds[i];
    emit_ptr(e, OP_OPENGET, 0, 0, 0, 1, bind);
    if (fn->top) {
      emit_ptr(e, OP_SETGLOBAL, 0, 0, 0, -1, size_global(e->vm, bind->var));
      continue;
    }
    uint32_t slot;
    if (!fn_slot(fn, bind->var, &slot)) {
      slot = fn->open_next++;
      fn_bind(fn, bind->var, slot);
    }
    emit(e, OP_SETLOCAL, 0, slot, 0, -1);
  }
}

static ItemSite *item_site(Fn *fn, const Core *c) {
  Arena *arena = fn->e.vm->arena;
  ItemSite *site = NEW(arena, ItemSite);
  site->count = c->item_count;
  site->splices = NEW_ARRAY(arena, bool, c->item_count + 1);
  site->holes = NEW_ARRAY(arena, bool, c->item_count + 1);
  for (uint32_t i = 0; i < c->item_count; i++) {
    site->splices[i] = c->splices && c->splices[i];
    site->holes[i] = !c->items[i];
    if (c->items[i] && c->items[i]->kind == CORE_DIM && c->items[i]->flag &&
        !dim_known(fn, c->items[i]->dim))
      site->holes[i] = true;
  }
  return site;
}

void compile_tensor(Fn *fn, const Core *c) {
  ItemSite *site = item_site(fn, c);
  site->elem = c->elem.dtype;
  site->dynamic = !c->item_count && site->elem == DT_NONE && c->elem.var &&
                  fn_load(fn, c->elem.var);
  for (uint32_t i = 0; i < c->item_count; i++)
    compile(fn, c->items[i], false);
  fn->e.span = c->span;
  emit_ptr(&fn->e, OP_TENSOR, 0, 0, 0, 1 - (int)c->item_count - site->dynamic,
           site);
}

void compile_shape(Fn *fn, const Core *c) {
  ItemSite *site = item_site(fn, c);
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
  fn->e.span = c->span;
  emit_ptr(&fn->e, OP_SHAPE, 0, 0, 0, 1 - pushed, site);
}

void compile_index(Fn *fn, const Core *c) {
  Arena *arena = fn->e.vm->arena;
  IndexSite *site = NEW(arena, IndexSite);
  site->count = c->slice_count;
  site->items = NEW_ARRAY(arena, struct IndexItem, c->slice_count);
  compile(fn, c->items[0], false);
  for (uint32_t i = 0; i < c->slice_count; i++) {
    const CoreSlice *slice = &c->slices[i];
    site->items[i] = (struct IndexItem){slice->kind,       slice->from != NULL,
                                        slice->to != NULL, slice->from_end,
                                        slice->to_end,     slice->span};
    if (slice->from)
      compile(fn, slice->from, false);
    if (slice->to)
      compile(fn, slice->to, false);
    site->pushed += (slice->from != NULL) + (slice->to != NULL);
  }
  fn->e.span = c->span;
  emit_ptr(&fn->e, OP_INDEX, 0, 0, 0, -(int)site->pushed, site);
}

/* ---- loops over nothing: what they make is in their type ---- */

static bool fill_shape(Fn *fn, ShapeRef *ref) {
  Eval *vm = fn->e.vm;
  ShapeItem *at = NEW_ARRAY(vm->arena, ShapeItem, ref->len + 1);
  for (uint32_t i = 0; i < ref->len; i++) {
    at[i] = ref->at[i];
    if (at[i].kind == SI_DIM && !dim_known(fn, at[i].dim))
      at[i].dim = dim_int(vm->dims, 0);
    if (at[i].kind == SI_JOIN ||
        (at[i].kind == SI_SPLICE && !fn_knows(fn, at[i].var)))
      return false;
  }
  ref->at = at;
  return true;
}

/* A copy whose shapes can be computed here; NULL where some cannot. */
static Core *nothing_here(Fn *fn, const Core *c) {
  Arena *arena = fn->e.vm->arena;
  Core *copy = NEW(arena, Core);
  *copy = *c;
  if (c->kind == CORE_SHAPEVAL)
    return fill_shape(fn, &copy->shape) ? copy : NULL;
  copy->items = NEW_ARRAY(arena, Core *, c->item_count + 1);
  for (uint32_t i = 0; i < c->item_count; i++)
    if (!(copy->items[i] = nothing_here(fn, c->items[i])))
      return NULL;
  return copy;
}

uint32_t compile_nothing(Fn *fn, const Core *c, uint32_t n, LoopKind kind) {
  Emit *e = &fn->e;
  const Core *nothing = c->nothing ? nothing_here(fn, c->nothing) : NULL;
  if (!nothing)
    return 0;
  uint32_t depth = e->depth, drop = kind == LOOP_SCAN ? 1 : n + 1;
  e->span = c->span;
  uint32_t some = emit(e, OP_JSOME, n, kind, 0, 0);
  for (uint32_t i = 0; i < drop; i++)
    emit(e, OP_POP, 0, 0, 0, -1);
  if (kind == LOOP_SCAN) /* f and the state: the state stays */
    emit(e, OP_SLIDE, 0, 0, 1, -1);
  compile(fn, nothing, false);
  if (kind == LOOP_SCAN)
    emit(e, OP_TUPLE, 0, 2, 0, -1);
  uint32_t end = emit(e, OP_JMP, 0, 0, 0, 0);
  emit_patch(e, some);
  e->depth = depth;
  return end;
}

void compile_for(Fn *fn, const Core *c) {
  compile_closure(fn, c, c->param_count);
  for (uint32_t i = 0; i < c->param_count; i++)
    if (c->ranges[i].expr)
      compile(fn, c->ranges[i].expr, false);
    else
      compile_size(fn, c->ranges[i].dim);
  uint32_t end = compile_nothing(fn, c, c->param_count, LOOP_FOR);
  fn->e.span = c->span;
  emit_ptr(&fn->e, OP_CALLC, c->param_count + 1, 0, 0, -(int)c->param_count,
           for_code(fn->e.vm, c->param_count));
  if (end)
    emit_patch(&fn->e, end);
}
