/* Symbolic runs: the body of a `for` or map runs once, on an index that is a
 * node without a value.  The result is then a graph for all indices.
 *
 * A conditional on such a node runs both sides and selects between their
 * results.  Each side runs in a frame that copies the locals.
 *
 * If the body needs a value, the run bails out: its effects are undone, and the
 * host runs the loop, index by index. */
#include "eval/internal.h"
#include "support/mem.h"

#include <string.h>

void vm_symbolic_run_begin(Eval *vm, size_t height, const Instr *fallback,
                           Code *body, const IndexVar *first,
                           const IndexVar *last, bool can_bail_out) {
  if (vm->symbolic_run_count == vm->symbolic_run_cap) {
    size_t cap = vm->symbolic_run_cap ? vm->symbolic_run_cap * 2 : 16;
    vm->symbolic_runs = mem_realloc(vm->symbolic_runs,
                                    vm->symbolic_run_cap * sizeof(SymbolicRun),
                                    cap * sizeof(SymbolicRun));
    vm->symbolic_run_cap = cap;
  }
  vm->symbolic_runs[vm->symbolic_run_count++] = (SymbolicRun){
      .frame = (size_t)(vm->fp - vm->frames),
      .stack_height = height,
      .temp_count = vm->temp_count,
      .fallback = fallback,
      .guard = vm->graph.guard,
      .branch_depth = vm->branch_depth,
      .branch_count = vm->branch_count,
      .first_node = vm->graph.next_node_id,
      .first_index_id = first->id,
      .last_index_id = last->id,
      .assumption_mark =
          vm_is_aot_tracing(vm) ? extent_table_mark(&vm->graph) : 0,
      .loop_depth = vm->graph.loop_depth,
      .replay_depth = vm->replay_depth,
      .can_bail_out = can_bail_out,
      .body = body};
  vm->branch_count = 0;
}

void vm_symbolic_run_end(Eval *vm) {
  SymbolicRun *a = &vm->symbolic_runs[--vm->symbolic_run_count];
  vm->branch_count += a->branch_count;
  if (!vm->symbolic_run_count)
    vm_forget_row_lengths(vm);
}

void vm_resume_after_bailout(Eval *vm) {
  SymbolicRun a = vm->symbolic_runs[vm->bailout_run];
  vm->symbolic_run_count = vm->bailout_run;
  if (!vm->symbolic_run_count)
    vm_forget_row_lengths(vm);
  vm->is_forcing = false;
  vm->graph.guard = a.guard;
  vm->branch_depth = a.branch_depth;
  vm->branch_count = a.branch_count;
  vm->graph.loop_depth = a.loop_depth;
  vm->replay_depth = a.replay_depth;
  if (vm_is_aot_tracing(vm))
    extent_table_rollback(&vm->graph, a.assumption_mark);
  vm_unwind(vm, a.frame, a.stack_height, a.temp_count);
  vm->pc = a.fallback;
}

/* ---- conditionals that run both sides ---- */

/* Layout of the stack slots of a symbolic branch. */
enum {
  BRANCH_COND,
  BRANCH_OUTER_GUARD, /* the guard of the enclosing branch, or unit */
  BRANCH_GUARD,       /* the guard of the side that is running */
  BRANCH_SITE,
  BRANCH_THEN,
  BRANCH_ELSE,            /* the first instruction of the other side */
  BRANCH_ASSUMPTION_MARK, /* extent_table_mark at the start of the branch */
  BRANCH_SLOTS,
};

static Value instr_value(const Instr *at) {
  return (Value){.tag = V_RAW, .i = (int64_t)(intptr_t)at};
}

static const Instr *value_instr(Value v) {
  return (const Instr *)(intptr_t)v.i;
}

static const Instr *join_point_of(const Code *code, const Instr *site) {
  uint32_t at = (uint32_t)(site - code->instrs);
  for (uint32_t i = 0; i < code->join_count; i++)
    if (code->joins[i].branch == at)
      return code->joins[i].join ? code->instrs + code->joins[i].join : NULL;
  return NULL;
}

Node *vm_branch_guard(Eval *vm, Node *cond, Node *outer_guard, bool side) {
  Graph *g = &vm->graph;
  Fault fault = {0};
  g->guard = outer_guard;
  Node *is = side ? node_retain(cond)
                  : node_map(g, PRIM_NOT, 1, &cond, DT_NONE, &fault);
  if (!is)
    vm_fault(vm, &fault);
  if (!outer_guard)
    return is;
  size_t mark = vm->temp_count;
  vm_temp_node(vm, is);
  Node *no = vm_temp_node(vm, node_scalar(g, (Scalar){DT_BOOL, {.i = 0}}));
  Node *both = node_select_lazy(g, outer_guard, is, no, &fault);
  vm_drop_temps(vm, mark);
  if (!both)
    vm_fault(vm, &fault);
  return both;
}

/* && and || leave the left side on the stack. */
static bool keeps_left_operand(const Instr *site) {
  return site->op == OP_AND_TEST || site->op == OP_OR_TEST;
}

/* Assumes what the condition says about sizes. */
static void assume_condition(Eval *vm, const Value *cond, bool side) {
  Graph *g = &vm->graph;
  ExtentConstraint f;
  extent_table_rollback(g, (uint32_t)cond[BRANCH_ASSUMPTION_MARK].i);
  if (!node_to_constraint(g, cond[BRANCH_COND].node, &f))
    return;
  if (!side && f.relation == EXTENT_LE)
    f = (ExtentConstraint){EXTENT_LE, f.y, extent_sub_saturating(g, f.x, 1)};
  else if (!side)
    f.relation = f.relation == EXTENT_EQ ? EXTENT_NE : EXTENT_EQ;
  extent_table_assume(g, f);
}

static const Instr *run_branch(Eval *vm, size_t cond_at, bool side) {
  Value *cond = vm->stack + cond_at;
  Node *outer_guard = cond[BRANCH_OUTER_GUARD].tag == V_NODE
                          ? cond[BRANCH_OUTER_GUARD].node
                          : NULL;
  Node *guard = vm_branch_guard(vm, cond[BRANCH_COND].node, outer_guard, side);
  value_release(&vm->heap, cond[BRANCH_GUARD]);
  cond[BRANCH_GUARD] = value_node(guard);
  vm->graph.guard = guard;
  if (vm_is_aot_tracing(vm))
    assume_condition(vm, cond, side);
  size_t base = vm->fp->base, locals = cond_at - base;
  const Instr *site = value_instr(cond[BRANCH_SITE]);
  const Instr *to = value_instr(cond[side ? BRANCH_THEN : BRANCH_ELSE]);
  const Code *code = vm->fp->code;
  vm_grow_stack(vm, locals + code->stack_depth + BRANCH_SLOTS + 8);
  if (vm->fp + 1 == vm->frames_end)
    vm_grow_frames(vm, NULL);
  size_t new_base = (size_t)(vm->sp - vm->stack);
  for (size_t i = 0; i < locals; i++)
    *vm->sp++ = value_retain(vm->stack[base + i]);
  if (keeps_left_operand(site))
    *vm->sp++ = value_bool(side);
  Obj *env = vm->fp->env;
  if (env)
    env->ref_count++;
  *++vm->fp = (Frame){.ret = side ? then_instr : else_instr,
                      .code = code,
                      .env = env,
                      .join = join_point_of(code, site),
                      .first_node = vm->graph.next_node_id,
                      .base = new_base};
  return to;
}

const Instr *vm_symbolic_branch(Eval *vm, Value cond, const Instr *site,
                                const Instr *yes, const Instr *no) {
  if (cond.tag == DT_BOOL)
    return cond.i ? yes : no;
  size_t mark = vm->temp_count;
  vm_push_temp(vm, cond);
  vm_set_node_span(vm);
  if (cond.tag != V_NODE || cond.node->rank)
    vm_fail(vm, 599, "internal error in eval: a condition is not a bool");
  if (!cond.node->free_count && !cond.node->symbolic) {
    bool holds = vm_bool(vm, cond);
    vm_drop_temps(vm, mark);
    if (keeps_left_operand(site))
      *vm->sp++ = value_bool(holds);
    return holds ? yes : no;
  }
  if (vm->branch_depth >= MAX_SYMBOLIC_BRANCH_DEPTH ||
      vm->branch_count >= MAX_SYMBOLIC_BRANCHES)
    vm_bail_out(vm, cond.node);
  vm_grow_stack(vm, BRANCH_SLOTS + 8);
  size_t cond_at = (size_t)(vm->sp - vm->stack);
  Node *guard = vm->graph.guard;
  vm->sp[BRANCH_COND] = value_retain(cond);
  vm->sp[BRANCH_OUTER_GUARD] =
      guard ? value_node(node_retain(guard)) : value_unit();
  vm->sp[BRANCH_GUARD] = value_unit();
  vm->sp[BRANCH_SITE] = instr_value(site);
  vm->sp[BRANCH_THEN] = instr_value(yes);
  vm->sp[BRANCH_ELSE] = instr_value(no);
  vm->sp[BRANCH_ASSUMPTION_MARK] =
      (Value){.tag = V_RAW,
              .i = vm_is_aot_tracing(vm) ? extent_table_mark(&vm->graph) : 0};
  vm->sp += BRANCH_SLOTS;
  vm_drop_temps(vm, mark);
  vm->branch_depth++;
  vm->branch_count++;
  return run_branch(vm, cond_at, true);
}

const Instr *vm_then_done(Eval *vm) {
  size_t at = (size_t)(vm->sp - vm->stack) - 1 - BRANCH_SLOTS;
  vm->pc = value_instr(vm->stack[at + BRANCH_SITE]);
  vm_set_node_span(vm);
  return run_branch(vm, at, false);
}

static void both_branches_failed(Eval *vm);

const Instr *vm_else_done(Eval *vm) {
  Value *s = vm->sp - 2 - BRANCH_SLOTS;
  const Instr *site = value_instr(s[BRANCH_SITE]);
  vm->pc = site;
  vm->graph.guard =
      s[BRANCH_OUTER_GUARD].tag == V_NODE ? s[BRANCH_OUTER_GUARD].node : NULL;
  if (vm_is_aot_tracing(vm))
    extent_table_rollback(&vm->graph, (uint32_t)s[BRANCH_ASSUMPTION_MARK].i);
  size_t mark = vm->temp_count;
  vm_set_node_span(vm);
  Value r = value_select(vm, s[BRANCH_COND].node, s[BRANCH_SLOTS],
                         s[BRANCH_SLOTS + 1]);
  vm_drop_temps(vm, mark);
  for (int i = 0; i < BRANCH_SLOTS + 2; i++) {
    vm->sp--;
    value_release(&vm->heap, *vm->sp);
  }
  vm->branch_depth--;
  if (r.tag == V_NONE)
    both_branches_failed(vm);
  *vm->sp++ = r;
  const Instr *join = join_point_of(vm->fp->code, site);
  return join ? join : ret_instr;
}

/* ---- errors of the program during AOT tracing ---- */

static bool is_branch_frame(const Frame *f) {
  return f->ret == then_instr || f->ret == else_instr;
}

static Frame *innermost_branch_frame(const Eval *vm) {
  Frame *f = vm->fp;
  while (f > vm->frames && !is_branch_frame(f))
    f--;
  return f > vm->frames ? f : NULL;
}

/* The compiled function fails if it gets here and cond is false or NULL. */
static void add_runtime_failure(Eval *vm, Node *cond, const char *message) {
  Graph *g = &vm->graph;
  Node *outer_guard = g->guard;
  if (cond) {
    Node *guard = vm_branch_guard(vm, cond, outer_guard, false);
    vm_temp_node(vm, guard);
    g->guard = guard;
  }
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    g->guard = outer_guard;
    trap_raise(trap.kind);
  }
  extent_table_add_check(g, (ExtentConstraint){EXTENT_LE, 1, 0}, message);
  trap_end(&trap);
  g->guard = outer_guard;
}

void vm_aot_assert(Eval *vm, Node *cond, const char *message) {
  ExtentConstraint constraint;
  if (cond->loop_depth)
    vm_fail(vm, 612,
            "an assertion about the state of a loop whose trip count is known "
            "only at run time");
  if (!node_to_constraint(&vm->graph, cond, &constraint))
    add_runtime_failure(vm, cond, message);
  else if (extent_add_requirement(&vm->graph, constraint, NULL, 0, message,
                                  "") == CONTRADICTED)
    vm_fail(vm, 503, "%s", message);
}

bool vm_aot_fail(Eval *vm, const char *message) {
  if (!vm_is_aot_tracing(vm) || !innermost_branch_frame(vm) ||
      vm->graph.loop_depth)
    return false;
  vm->failed_branch_temps = vm->temp_count;
  add_runtime_failure(vm, NULL, message);
  vm->is_branch_failing = true;
  trap_raise(FAIL_LIMIT);
}

/* The side failed.  Its result is V_NONE, so that the result of the other side
 * is used. */
void vm_branch_failed(Eval *vm) {
  Frame *f = innermost_branch_frame(vm);
  size_t at = (size_t)(f - vm->frames);
  while (vm->symbolic_run_count &&
         vm->symbolic_runs[vm->symbolic_run_count - 1].frame > at)
    vm->branch_count = vm->symbolic_runs[--vm->symbolic_run_count].branch_count;
  vm_unwind(vm, at, f->base, vm->failed_branch_temps);
  vm->branch_depth = 0;
  for (const Frame *side = f; side > vm->frames; side--)
    vm->branch_depth += is_branch_frame(side);
  if (f->env)
    value_release(&vm->heap, value_obj(V_ENV, f->env));
  *vm->sp++ = (Value){.tag = V_NONE};
  vm->pc = f->ret;
  vm->fp--;
}

/* Neither side has a result. */
static void both_branches_failed(Eval *vm) {
  if (!innermost_branch_frame(vm))
    vm_fail(vm, 501, "it fails for all arguments");
  vm->failed_branch_temps = vm->temp_count;
  vm->is_branch_failing = true;
  trap_raise(FAIL_LIMIT);
}

/* ---- select between two values, leaf by leaf ---- */

static Value select_record(Eval *vm, Node *cond, Value a, Value b) {
  const RecordLayout *layout = AS_RECORD(a)->layout;
  const RecordLayout *other = AS_RECORD(b)->layout;
  Value r = vm_new_record(vm, layout);
  for (uint32_t i = 0; i < layout->len; i++) {
    uint32_t k = 0;
    while (k < other->len && other->labels[k] != layout->labels[i])
      k++;
    AS_RECORD(r)->at[i] =
        value_select(vm, cond, AS_RECORD(a)->at[i], AS_RECORD(b)->at[k]);
  }
  return value_retain(r);
}

static bool is_identical(Value a, Value b) {
  if (a.tag != b.tag || a.aux != b.aux)
    return false;
  return a.i == b.i || a.tag == V_UNIT || a.tag == V_NIL || a.tag == V_ABSENT ||
         a.tag == V_ALL_AXES ||
         ((a.tag == V_STRING || a.tag == V_SHAPE) && values_equal(a, b));
}

Value value_select(Eval *vm, Node *cond, Value a, Value b) {
  if (is_identical(a, b) || b.tag == V_NONE)
    return value_retain(a);
  if (a.tag == V_NONE)
    return value_retain(b);
  if (value_is_tensor(a) && value_is_tensor(b)) {
    Fault fault = {0};
    Node *sides[2] = {vm_to_ragged_node(vm, a), vm_to_ragged_node(vm, b)};
    Node *r = node_select_lazy(&vm->graph, cond, sides[0], sides[1], &fault);
    return vm_value_of_node(vm, vm_broadcast_row_lengths(vm, 2, sides, r),
                            &fault);
  }
  if (a.tag == V_TUPLE && b.tag == V_TUPLE && a.obj->len == b.obj->len) {
    Value r = vm_new_tuple(vm, a.obj->len);
    for (uint32_t i = 0; i < a.obj->len; i++)
      AS_ARRAY(r)->at[i] =
          value_select(vm, cond, AS_ARRAY(a)->at[i], AS_ARRAY(b)->at[i]);
    return value_retain(r);
  }
  if (a.tag == V_RECORD && b.tag == V_RECORD)
    return select_record(vm, cond, a, b);
  vm_bail_out(vm, cond);
}
