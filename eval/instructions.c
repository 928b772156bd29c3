/* Instructions on sizes, shapes, tensors and loops: each does so much that a
 * call does not count.  They find their operands at vm->pc and on the stack. */
#include "eval/internal.h"

/* Puts r in the place of the top n values. */
static void replace(Eval *vm, uint32_t n, Value r) {
  while (n--) {
    vm->sp--;
    value_release(&vm->heap, *vm->sp);
  }
  *vm->sp++ = r;
}

static void drop_to(Eval *vm, const Value *at) {
  while (vm->sp > at) {
    vm->sp--;
    value_release(&vm->heap, *vm->sp);
  }
}

/* The local that field b or a names. */
static Value *local(Eval *vm, uint32_t at) {
  return vm->stack + vm->fp->base + at;
}

/* ---- sizes, shapes, tensors ---- */

void vm_DIMOP(Eval *vm) {
  DimOpKind op = (DimOpKind)vm->pc->a;
  replace(vm, 2, vm_dim_op(vm, op, vm->sp[-2], vm->sp[-1]));
}

void vm_DIMPROD(Eval *vm) {
  if (vm->sp[-1].tag == V_UNIT)
    return; /* as unknown as the shape */
  const Shape *s = AS_SHAPE(vm->sp[-1]);
  replace(vm, 1, vm_product(vm, s->obj.len, s->at));
}

void vm_SHAPEREF(Eval *vm) {
  Value *at = vm->sp;
  Value r = vm_shape_ref(vm, vm->pc[1].ptr, &at, (Unknowns)vm->pc->a);
  drop_to(vm, at);
  *vm->sp++ = r;
}

void vm_CHECK(Eval *vm) {
  Value *at = vm->sp - 2 - 2 * (int)vm->pc->a;
  vm_check(vm, vm->pc[1].ptr, at);
  drop_to(vm, at);
}

void vm_LOADED(Eval *vm) {
  const ShapeRef *want = vm->pc[1].ptr;
  Value *at = vm->sp;
  for (uint32_t i = 0; i < want->len; i++)
    at -= want->at[i].dim != NULL;
  vm_check_loaded(vm, want, at[-1], at);
  drop_to(vm, at);
}

void vm_OPENGET(Eval *vm) {
  Value r = vm_open(vm, vm->pc[1].ptr, vm->sp[-1]);
  *vm->sp++ = r;
}

void vm_OPENSAME(Eval *vm) {
  vm_open_same(vm, vm->pc[1].ptr, vm->sp[-1], *local(vm, vm->pc->b));
}

void vm_TENSOR(Eval *vm) {
  const ItemSite *site = vm->pc[1].ptr;
  uint32_t n = site->count;
  Value *items = vm->sp - n;
  Dtype elem = site->dynamic ? (Dtype)items[-1].i : site->elem;
  Value r = vm_make_tensor(vm, site, elem, items);
  replace(vm, n + site->dynamic, r);
}

void vm_SHAPE(Eval *vm) {
  const ItemSite *site = vm->pc[1].ptr;
  Value *at = vm->sp;
  for (uint32_t i = 0; i < site->count; i++)
    at -= !site->holes[i];
  Value r = vm_make_shape(vm, site, at);
  drop_to(vm, at);
  *vm->sp++ = r;
}

void vm_INDEX(Eval *vm) {
  const IndexSite *site = vm->pc[1].ptr;
  uint32_t n = site->pushed + 1;
  replace(vm, n, vm_index(vm, site, vm->sp - n));
}

/* ---- loops ---- */

void vm_FORCE_INT(Eval *vm) {
  Value *at = local(vm, vm->pc->b);
  int64_t i = vm_index_size(vm, *at);
  if (!vm->pc->a)
    vm_loop_count(vm, i);
  Value known = vm_size_value(vm, i);
  value_release(&vm->heap, *at);
  *at = known;
}

void vm_TICK(Eval *vm) {
  uint32_t more = vm->pc->a;
  vm_tick(vm, *local(vm, vm->pc->b), more ? *local(vm, more) : value_unit());
}

void vm_FOR_END(Eval *vm) {
  replace(vm, 1, vm_for_end(vm, vm->pc->a, false, vm->sp[-1]));
}

void vm_MAP_END(Eval *vm) {
  replace(vm, 1, vm_for_end(vm, vm->pc->a, true, vm->sp[-1]));
}

void vm_HOST_BEGIN(Eval *vm) {
  vm_host_begin(vm, vm->pc->a, vm->pc->b);
}

void vm_HOST_DONE(Eval *vm) {
  Value r = vm_host_done(vm, vm->pc->a, vm->pc->b);
  *vm->sp++ = r;
}

void vm_TURNS_END(Eval *vm) {
  replace(vm, 1, vm_turns_end(vm, (TurnsKind)vm->pc->a, vm->sp[-1]));
}

void vm_LEAD(Eval *vm) {
  int64_t lead = vm_lead(vm, *local(vm, vm->pc->b));
  lead = vm_loop_count(vm, lead);
  *vm->sp++ = value_int(lead);
}

void vm_SLICE(Eval *vm) {
  Value r = vm_slice(vm, *local(vm, vm->pc->b), *local(vm, vm->pc->a));
  *vm->sp++ = r;
}

void vm_STACK(Eval *vm) {
  replace(vm, 1, vm_stack_list(vm, vm->sp[-1], 0, NULL));
}

void vm_LIST_REV(Eval *vm) {
  replace(vm, 1, prim_list_reverse(vm, NULL, vm->sp - 1, 1));
}

void vm_PROGRESS(Eval *vm) {
  if (vm->host->progress)
    vm->host->progress(vm->host->owner, local(vm, vm->pc->a)->i,
                       local(vm, vm->pc->b)->i);
}

void vm_FILTER(Eval *vm) {
  replace(vm, 2, vm_filter(vm, vm->sp[-2], vm->sp[-1]));
}
