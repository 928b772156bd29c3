/* Instructions on sizes, shapes, tensors and loops.  Each does so much work
 * that the cost of a call does not matter.  Operands are at vm->pc and on the
 * stack. */
#include "eval/internal.h"
#include "support/interrupt.h"
#include "support/trap.h"

/* Replaces the top n values by r. */
static void replace_top(Eval *vm, uint32_t n, Value r) {
  while (n--) {
    vm->sp--;
    value_release(&vm->heap, *vm->sp);
  }
  *vm->sp++ = r;
}

static void pop_to(Eval *vm, const Value *at) {
  while (vm->sp > at) {
    vm->sp--;
    value_release(&vm->heap, *vm->sp);
  }
}

/* The local that field a or b of an instruction names. */
static Value *local_at(Eval *vm, uint32_t at) {
  return vm->stack + vm->fp->base + at;
}

/* ---- sizes, shapes, tensors ---- */

void vm_SIZE_OP(Eval *vm) {
  DimOpKind op = (DimOpKind)vm->pc->a;
  replace_top(vm, 2, vm_dim_op(vm, op, vm->sp[-2], vm->sp[-1]));
}

void vm_SIZE_PRODUCT(Eval *vm) {
  if (vm->sp[-1].tag == V_UNIT)
    return; /* an unknown shape has an unknown product */
  const ShapeObj *s = AS_SHAPE(vm->sp[-1]);
  replace_top(vm, 1, vm_product(vm, s->obj.len, s->extents));
}

void vm_BUILD_SHAPE(Eval *vm) {
  Value *at = vm->sp;
  Value r =
      vm_build_shape(vm, vm->pc[1].ptr, &at, (UnknownSizePolicy)vm->pc->a);
  pop_to(vm, at);
  *vm->sp++ = r;
}

void vm_CHECK(Eval *vm) {
  Value *at = vm->sp - 2 - 2 * (int)vm->pc->a;
  vm_check(vm, vm->pc[1].ptr, at);
  pop_to(vm, at);
}

void vm_CHECK_LOADED(Eval *vm) {
  const CoreShape *expected = vm->pc[1].ptr;
  Value *at = vm->sp;
  for (uint32_t i = 0; i < expected->len; i++)
    at -= expected->axes[i].dim != NULL;
  vm_check_loaded_shape(vm, expected, at[-1], at);
  pop_to(vm, at);
}

void vm_UNPACK_SIZE(Eval *vm) {
  Value r = vm_unpack_size(vm, vm->pc[1].ptr, vm->sp[-1]);
  *vm->sp++ = r;
}

void vm_CHECK_UNPACKED(Eval *vm) {
  vm_check_unpacked_size(vm, vm->pc[1].ptr, vm->sp[-1],
                         *local_at(vm, vm->pc->b));
}

void vm_TENSOR_LITERAL(Eval *vm) {
  const LiteralSite *site = vm->pc[1].ptr;
  uint32_t n = site->count;
  Value *items = vm->sp - n;
  Dtype elem = site->is_dtype_dynamic ? (Dtype)items[-1].i : site->elem;
  Value r = vm_make_tensor(vm, site, elem, items);
  replace_top(vm, n + site->is_dtype_dynamic, r);
}

void vm_SHAPE_LITERAL(Eval *vm) {
  const LiteralSite *site = vm->pc[1].ptr;
  Value *at = vm->sp;
  for (uint32_t i = 0; i < site->count; i++)
    at -= !site->holes[i];
  Value r = vm_make_shape(vm, site, at);
  pop_to(vm, at);
  *vm->sp++ = r;
}

void vm_SUBSCRIPT(Eval *vm) {
  const SubscriptSite *site = vm->pc[1].ptr;
  uint32_t n = site->bound_count + 1;
  replace_top(vm, n, vm_subscript(vm, site, vm->sp - n));
}

/* ---- loops ---- */

void vm_FORCE_INT(Eval *vm) {
  Value *at = local_at(vm, vm->pc->b);
  if (vm->pc->a && vm_is_row_length(vm, *at))
    return;
  int64_t i = vm_size_maybe_wrapped(vm, *at);
  if (!vm->pc->a)
    vm_static_trip_count(vm, i);
  Value concrete = vm_value_of_size(vm, i);
  value_release(&vm->heap, *at);
  *at = concrete;
}

void vm_FORCE_IF_PENDING(Eval *vm) {
  uint32_t more = vm->pc->a;
  vm_force_if_pending(vm, *local_at(vm, vm->pc->b),
                      more ? *local_at(vm, more) : value_unit());
}

void vm_FOR_END(Eval *vm) {
  replace_top(vm, 1, vm_for_end(vm, vm->pc->a, false, vm->sp[-1]));
}

void vm_MAP_END(Eval *vm) {
  replace_top(vm, 1, vm_for_end(vm, vm->pc->a, true, vm->sp[-1]));
}

void vm_HOST_LOOP_BEGIN(Eval *vm) {
  vm_host_loop_begin(vm, vm->pc->a, vm->pc->b);
}

void vm_HOST_LOOP_END(Eval *vm) {
  Value r = vm_host_loop_end(vm, vm->pc->a, vm->pc->b);
  *vm->sp++ = r;
}

void vm_TRACED_LOOP_END(Eval *vm) {
  replace_top(vm, 1,
              vm_traced_loop_end(vm, (TracedLoopKind)vm->pc->a, vm->sp[-1]));
}

void vm_LEADING_SIZE(Eval *vm) {
  int64_t lead = vm_leading_size(vm, *local_at(vm, vm->pc->b));
  lead = vm_static_trip_count(vm, lead);
  *vm->sp++ = value_int(lead);
}

void vm_SLICE(Eval *vm) {
  Value r = vm_slice(vm, *local_at(vm, vm->pc->b), *local_at(vm, vm->pc->a));
  *vm->sp++ = r;
}

void vm_STACK_LIST(Eval *vm) {
  replace_top(vm, 1, vm_stack_list(vm, vm->sp[-1], 0, NULL));
}

void vm_LIST_REVERSE(Eval *vm) {
  replace_top(vm, 1, prim_list_reverse(vm, NULL, vm->sp - 1, 1));
}

/* After an interrupt that waits, the bar keeps its place. */
void vm_PROGRESS(Eval *vm) {
  if (vm->host->progress && !vm_interrupt_waits(vm))
    vm->host->progress(vm->host->owner, local_at(vm, vm->pc->a)->i,
                       local_at(vm, vm->pc->b)->i);
}

/* A symbolic run defers nothing: it may end without DEFER_END. */
void vm_DEFER_BEGIN(Eval *vm) {
  InterruptDeferral *deferral = vm->host->deferral;
  bool begins =
      deferral && !vm_must_defer(vm) && interrupt_begin_deferral(deferral);
  *vm->sp++ = value_int(begins);
}

void vm_DEFER_END(Eval *vm) {
  if (local_at(vm, vm->pc->b)->i && interrupt_end_deferral(vm->host->deferral))
    trap_raise(FAIL_INTERRUPT);
}

void vm_FILTER(Eval *vm) {
  replace_top(vm, 2, vm_filter(vm, vm->sp[-2], vm->sp[-1]));
}

void vm_VJP_BEGIN(Eval *vm) {
  vm_vjp_begin(vm, *local_at(vm, vm->pc->b));
}

void vm_VJP_END(Eval *vm) {
  tape_stop_recording(AS_TAPE(*local_at(vm, vm->pc->b))->tape);
}

void vm_PULLBACK_BEGIN(Eval *vm) {
  Value pass = vm_pullback_begin(vm, local_at(vm, 0));
  *vm->sp++ = pass;
}

void vm_PULLBACK_CONTRIBUTE(Eval *vm) {
  vm_pullback_contribute(vm, *local_at(vm, vm->pc->b));
}

void vm_PULLBACK_END(Eval *vm) {
  Value r = vm_pullback_end(vm, *local_at(vm, vm->pc->b), *local_at(vm, 1));
  *vm->sp++ = r;
}

void vm_RULE_BEGIN(Eval *vm) {
  vm_rule_begin(vm, (RuleKind)vm->pc->a, local_at(vm, 0));
}

void vm_RULE_END(Eval *vm) {
  replace_top(vm, 2,
              vm_rule_end(vm, vm->sp[-2], (RuleKind)vm->pc->a, vm->sp[-1]));
}

void vm_REPLAY_BEGIN(Eval *vm) {
  vm_replay_begin(vm, *local_at(vm, 0));
}

void vm_REPLAY_END(Eval *vm) {
  vm_replay_end(vm, vm->sp[-1]);
}

void vm_CUSTOM_PULLBACK(Eval *vm) {
  vm_custom_pullback(vm, *local_at(vm, 0), *local_at(vm, 2), *local_at(vm, 1));
}

void vm_CUSTOM_END(Eval *vm) {
  replace_top(vm, 1, vm_custom_end(vm, *local_at(vm, 0), vm->sp[-1]));
}

void vm_PUSH_SCAN(Eval *vm) {
  *vm->sp++ = (Value){.tag = V_FN, .code = higher_order_code(vm, PRIM_SCAN)};
}

void vm_WHILE_SEGMENT(Eval *vm) {
  size_t mark = vm->temp_count;
  Value part = vm_partial(vm, derivative_code(vm, CODE_BOUNDED_WHILE), 2,
                          local_at(vm, 0));
  *vm->sp++ = value_retain(part);
  vm_drop_temps(vm, mark);
}

void vm_SEGMENT(Eval *vm) {
  vm_segment(vm);
}

void vm_SEGMENTS_END(Eval *vm) {
  replace_top(vm, 1, vm_segments_end(vm, vm->sp[-1]));
}

void vm_SCAN_ADJOINT(Eval *vm) {
  vm_scan_adjoint(vm, *local_at(vm, 0), *local_at(vm, 2), *local_at(vm, 1));
}

void vm_SCAN_CONTRIBUTIONS(Eval *vm) {
  replace_top(vm, 1, vm_scan_contributions(vm, vm->sp[-1]));
}

void vm_ADJOINT_STEP_BEGIN(Eval *vm) {
  vm_adjoint_step_begin(vm, local_at(vm, 0));
}

void vm_KEPT_VALUES(Eval *vm) {
  Value kept = vm_kept_values(vm, local_at(vm, 0));
  *vm->sp++ = kept;
}

void vm_ADJOINT_STEP_VALUES(Eval *vm) {
  Value values = vm_adjoint_step_values(vm, local_at(vm, 0));
  *vm->sp++ = values;
}

void vm_ADJOINT_STEP_COTANGENT(Eval *vm) {
  size_t mark = vm->temp_count;
  Value ct = vm_new_tuple(vm, 2), carry = *local_at(vm, 4),
        row = *local_at(vm, 5);
  AS_ARRAY(ct)->at[0] = value_retain(AS_ARRAY(carry)->at[0]);
  AS_ARRAY(ct)->at[1] = value_retain(AS_ARRAY(row)->at[2]);
  *vm->sp++ = value_retain(ct);
  vm_drop_temps(vm, mark);
}

void vm_ADJOINT_STEP_END(Eval *vm) {
  replace_top(vm, 1, vm_adjoint_step_end(vm, local_at(vm, 0), vm->sp[-1]));
}

void vm_EACH_BEGIN(Eval *vm) {
  Value list = vm_collect_floats(vm, local_at(vm, 1), vm->pc->a);
  *vm->sp++ = list;
}

void vm_EACH_END(Eval *vm) {
  Value like = *local_at(vm, 1), list = vm->sp[-1];
  replace_top(vm, 1,
              vm->pc->b ? vm_sum_floats(vm, like, list)
                        : vm_replace_floats(vm, like, list));
}
