/* Running with indices that have no value: the body of a `for` or map is run
 * once, on an index that is a node.  A conditional on such a node runs both
 * sides, each in a frame that copies its locals, and selects.  What needs a
 * value after all gives the attempt up: everything since it began is undone
 * and the loop is run on the host, index by index. */
#include "eval/internal.h"

#include <string.h>

void vm_attempt(Eval *vm, size_t height, const Instr *fallback, Code *body,
                const IndexVar *first, const IndexVar *last, bool hostable) {
  if (vm->attempt_count == vm->attempt_cap) {
    size_t cap = vm->attempt_cap ? vm->attempt_cap * 2 : 16;
    vm->attempts = mem_realloc(vm->attempts, vm->attempt_cap * sizeof(Attempt),
                               cap * sizeof(Attempt));
    vm->attempt_cap = cap;
  }
  vm->attempts[vm->attempt_count++] =
      (Attempt){.frame = (size_t)(vm->fp - vm->frames),
                .height = height,
                .temps = vm->temp_count,
                .fallback = fallback,
                .guard = vm->graph.guard,
                .depth = vm->depth,
                .branches = vm->branches,
                .first_node = vm->graph.next_node,
                .first_id = first->id,
                .last_id = last->id,
                .facts = vm_traces(vm) ? sizes_mark(&vm->graph) : 0,
                .loops = vm->graph.loop_depth,
                .hostable = hostable,
                .body = body};
  vm->branches = 0;
}

void vm_attempt_end(Eval *vm) {
  Attempt *a = &vm->attempts[--vm->attempt_count];
  vm->branches += a->branches;
}

NORETURN static void refuse_branch(Eval *vm) {
  vm_fail_at(vm, vm->graph.span, 612,
             "give the sizes that decide it as numbers: --entry 'f : f32[8, n] "
             "-> _'; or choose between elements, by select",
             "which way this goes is known only when the compiled function "
             "runs, and the ways cannot both be compiled: they come to more "
             "than tensors of one shape, or to no end");
}

void vm_abandon(Eval *vm, const Node *because) {
  if (vm_traces(vm) && !vm->attempt_count)
    refuse_branch(vm);
  if (!vm->attempt_count) {
    diag_error(vm->diags, 599, vm->graph.span,
               "compiler bug in eval: an index without a loop");
    trap_raise(FAIL_ERROR);
  }
  size_t to = vm->attempt_count - 1;
  if (because && because->free_count) {
    uint32_t id = because->free[because->free_count - 1]->id;
    while (to &&
           !(vm->attempts[to].first_id <= id && id <= vm->attempts[to].last_id))
      to--;
  }
  if (!vm->attempts[to].hostable) {
    vm->attempt_count = 0;
    vm_fail(vm, 612,
            "this needs the value of an index, or of an element, of a loop "
            "over a size that is known only when the compiled function runs");
  }
  Attempt *a = &vm->attempts[to];
  if (because && a->body)
    *(a->turns ? &a->body->by_turns : &a->body->on_host) = true;
  vm->abandon_to = to;
  vm->abandoning = true;
  trap_raise(FAIL_LIMIT);
}

void vm_resume(Eval *vm) {
  Attempt a = vm->attempts[vm->abandon_to];
  vm->attempt_count = vm->abandon_to;
  vm->forcing = false;
  vm->graph.guard = a.guard;
  vm->depth = a.depth;
  vm->branches = a.branches;
  vm->graph.loop_depth = a.loops;
  if (vm_traces(vm))
    sizes_reset(&vm->graph, a.facts);
  vm_reset(vm, a.frame, a.height, a.temps);
  vm->pc = a.fallback;
}

/* ---- conditionals of which both sides are run ---- */

/* What lies on the stack of the frame that meets one. */
enum {
  S_COND,
  S_OUTER, /* the guard around it, or unit */
  S_GUARD, /* the guard of the side being run */
  S_SITE,
  S_YES,
  S_NO, /* instructions */
  S_FACTS, /* sizes_mark before it */
  S_COUNT,
};

static Value instr_value(const Instr *at) {
  return (Value){.tag = V_FRAME, .i = (int64_t)(intptr_t)at};
}

static const Instr *value_instr(Value v) {
  return (const Instr *)(intptr_t)v.i;
}

static const Instr *join_of(const Code *code, const Instr *site) {
  uint32_t at = (uint32_t)(site - code->at);
  for (uint32_t i = 0; i < code->join_count; i++)
    if (code->joins[i].at == at)
      return code->joins[i].join ? code->at + code->joins[i].join : NULL;
  return NULL;
}

/* outer && (side == cond), owned. */
static Node *side_guard(Eval *vm, Node *cond, Node *outer, bool side) {
  Graph *g = &vm->graph;
  Fault fault = {0};
  g->guard = outer;
  Node *is = side ? node_retain(cond)
                  : node_map(g, PRIM_NOT, 1, &cond, DT_NONE, &fault);
  if (!is)
    vm_fault(vm, &fault);
  if (!outer)
    return is;
  size_t mark = vm->temp_count;
  vm_temp(vm, is);
  Node *no = vm_temp(vm, node_scalar(g, (Scalar){DT_BOOL, {.i = 0}}));
  Node *both = node_select_lazy(g, outer, is, no, &fault);
  vm_drop_temps(vm, mark);
  if (!both)
    vm_fault(vm, &fault);
  return both;
}

/* && and || leave the left side on the stack. */
static bool keeps_value(const Instr *site) {
  return site->op == OP_AND_TEST || site->op == OP_OR_TEST;
}

/* What the condition says of sizes. */
static void assume_side(Eval *vm, const Value *cond, bool side) {
  Graph *g = &vm->graph;
  SizeFact f;
  sizes_reset(g, (uint32_t)cond[S_FACTS].i);
  if (!node_to_fact(g, cond[S_COND].node, &f))
    return;
  if (!side && f.test == SIZE_LE)
    f = (SizeFact){SIZE_LE, f.y, size_less(g, f.x, 1)};
  else if (!side)
    f.test = f.test == SIZE_EQ ? SIZE_NE : SIZE_EQ;
  sizes_assume(g, f);
}

static const Instr *run_side(Eval *vm, size_t cond_at, bool side) {
  Value *cond = vm->stack + cond_at;
  Node *outer = cond[S_OUTER].tag == V_NODE ? cond[S_OUTER].node : NULL;
  Node *guard = side_guard(vm, cond[S_COND].node, outer, side);
  value_release(&vm->heap, cond[S_GUARD]);
  cond[S_GUARD] = value_node(guard);
  vm->graph.guard = guard;
  if (vm_traces(vm))
    assume_side(vm, cond, side);
  size_t base = vm->fp->base, locals = cond_at - base;
  const Instr *site = value_instr(cond[S_SITE]);
  const Instr *to = value_instr(cond[side ? S_YES : S_NO]);
  const Code *code = vm->fp->code;
  vm_grow_stack(vm, locals + code->depth + S_COUNT + 8);
  if (vm->fp + 1 == vm->frames_end)
    vm_grow_frames(vm, NULL);
  size_t new_base = (size_t)(vm->sp - vm->stack);
  for (size_t i = 0; i < locals; i++)
    *vm->sp++ = value_retain(vm->stack[base + i]);
  if (keeps_value(site))
    *vm->sp++ = value_bool(side);
  Obj *env = vm->fp->env;
  if (env)
    env->refs++;
  *++vm->fp = (Frame){.ret = side ? then_instr : else_instr,
                      .code = code,
                      .env = env,
                      .join = join_of(code, site),
                      .base = new_base};
  return to;
}

const Instr *vm_branch(Eval *vm, Value cond, const Instr *site,
                       const Instr *yes, const Instr *no) {
  if (cond.tag == DT_BOOL)
    return cond.i ? yes : no;
  size_t mark = vm->temp_count;
  vm_own(vm, cond);
  vm_place(vm);
  if (cond.tag != V_NODE || cond.node->rank)
    vm_fail(vm, 599, "compiler bug in eval: a condition that is no bool");
  if (!cond.node->free_count && !cond.node->open) {
    bool holds = vm_bool(vm, cond);
    vm_drop_temps(vm, mark);
    if (keeps_value(site))
      *vm->sp++ = value_bool(holds);
    return holds ? yes : no;
  }
  if (vm->depth >= SYMBOLIC_DEPTH || vm->branches >= SYMBOLIC_BRANCHES)
    vm_abandon(vm, cond.node);
  vm_grow_stack(vm, S_COUNT + 8);
  size_t cond_at = (size_t)(vm->sp - vm->stack);
  Node *guard = vm->graph.guard;
  vm->sp[S_COND] = value_retain(cond);
  vm->sp[S_OUTER] = guard ? value_node(node_retain(guard)) : value_unit();
  vm->sp[S_GUARD] = value_unit();
  vm->sp[S_SITE] = instr_value(site);
  vm->sp[S_YES] = instr_value(yes);
  vm->sp[S_NO] = instr_value(no);
  vm->sp[S_FACTS] = (Value){
      .tag = V_FRAME, .i = vm_traces(vm) ? sizes_mark(&vm->graph) : 0};
  vm->sp += S_COUNT;
  vm_drop_temps(vm, mark);
  vm->depth++;
  vm->branches++;
  return run_side(vm, cond_at, true);
}

const Instr *vm_then_done(Eval *vm) {
  size_t at = (size_t)(vm->sp - vm->stack) - 1 - S_COUNT;
  vm->pc = value_instr(vm->stack[at + S_SITE]);
  vm_place(vm);
  return run_side(vm, at, false);
}

static void both_stopped(Eval *vm);

const Instr *vm_else_done(Eval *vm) {
  Value *s = vm->sp - 2 - S_COUNT;
  const Instr *site = value_instr(s[S_SITE]);
  vm->pc = site;
  vm->graph.guard = s[S_OUTER].tag == V_NODE ? s[S_OUTER].node : NULL;
  if (vm_traces(vm))
    sizes_reset(&vm->graph, (uint32_t)s[S_FACTS].i);
  size_t mark = vm->temp_count;
  vm_place(vm);
  Value r = value_select(vm, s[S_COND].node, s[S_COUNT], s[S_COUNT + 1]);
  vm_drop_temps(vm, mark);
  for (int i = 0; i < S_COUNT + 2; i++) {
    vm->sp--;
    value_release(&vm->heap, *vm->sp);
  }
  vm->depth--;
  if (r.tag == V_NONE)
    both_stopped(vm);
  *vm->sp++ = r;
  const Instr *join = join_of(vm->fp->code, site);
  return join ? join : ret_instr;
}

/* ---- errors of the program in a function that is traced ---- */

static bool is_side(const Frame *f) {
  return f->ret == then_instr || f->ret == else_instr;
}

static Frame *innermost_side(const Eval *vm) {
  Frame *f = vm->fp;
  while (f > vm->frames && !is_side(f))
    f--;
  return f > vm->frames ? f : NULL;
}

/* Where cond is false, or NULL, and code gets there. */
static void refuse_there(Eval *vm, Node *cond, const char *message) {
  Graph *g = &vm->graph;
  Node *outer = g->guard;
  if (cond) {
    Node *guard = side_guard(vm, cond, outer, false);
    vm_temp(vm, guard);
    g->guard = guard;
  }
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    g->guard = outer;
    trap_raise(trap.kind);
  }
  sizes_test(g, (SizeFact){SIZE_LE, 1, 0}, message);
  trap_end(&trap);
  g->guard = outer;
}

void vm_traced_assert(Eval *vm, Node *cond, const char *message) {
  SizeFact fact;
  if (cond->loops)
    vm_fail(vm, 612, "an assertion about the state of a loop of which only the "
                     "compiled function knows how often it turns");
  if (!node_to_fact(&vm->graph, cond, &fact))
    refuse_there(vm, cond, message);
  else if (size_require(&vm->graph, fact, NULL, 0, message, "") == REFUTED)
    vm_fail(vm, 503, "%s", message);
}

bool vm_traced_fail(Eval *vm, const char *message) {
  if (!vm_traces(vm) || !innermost_side(vm) || vm->graph.loop_depth)
    return false;
  vm->stopped_temps = vm->temp_count;
  refuse_there(vm, NULL, message);
  vm->stopping = true;
  trap_raise(FAIL_LIMIT);
}

/* The side comes to V_NONE, which is no value: the other one's is taken. */
void vm_side_stopped(Eval *vm) {
  Frame *f = innermost_side(vm);
  size_t at = (size_t)(f - vm->frames);
  while (vm->attempt_count && vm->attempts[vm->attempt_count - 1].frame > at)
    vm->branches = vm->attempts[--vm->attempt_count].branches;
  vm_reset(vm, at, f->base, vm->stopped_temps);
  vm->depth = 0;
  for (const Frame *side = f; side > vm->frames; side--)
    vm->depth += is_side(side);
  if (f->env)
    value_release(&vm->heap, value_obj(V_ENV, f->env));
  *vm->sp++ = (Value){.tag = V_NONE};
  vm->pc = f->ret;
  vm->fp--;
}

/* Neither side comes to a value. */
static void both_stopped(Eval *vm) {
  if (!innermost_side(vm))
    vm_fail(vm, 501, "it fails whatever it is called with");
  vm->stopped_temps = vm->temp_count;
  vm->stopping = true;
  trap_raise(FAIL_LIMIT);
}

/* ---- choosing between two values, leaf by leaf ---- */

static Value select_record(Eval *vm, Node *cond, Value a, Value b) {
  const Layout *layout = AS_RECORD(a)->layout;
  const Layout *other = AS_RECORD(b)->layout;
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

static bool same(Value a, Value b) {
  if (a.tag != b.tag || a.aux != b.aux)
    return false;
  return a.i == b.i || a.tag == V_UNIT || a.tag == V_NIL || a.tag == V_ABSENT ||
         a.tag == V_AXIS_ALL ||
         ((a.tag == V_STRING || a.tag == V_SHAPE) && values_equal(a, b));
}

Value value_select(Eval *vm, Node *cond, Value a, Value b) {
  if (same(a, b) || b.tag == V_NONE)
    return value_retain(a);
  if (a.tag == V_NONE)
    return value_retain(b);
  if (value_is_tensor(a) && value_is_tensor(b)) {
    Fault fault = {0};
    Node *x = vm_to_node(vm, a), *y = vm_to_node(vm, b);
    return vm_node(vm, node_select_lazy(&vm->graph, cond, x, y, &fault),
                   &fault);
  }
  if (a.tag == V_TUPLE && b.tag == V_TUPLE && a.obj->len == b.obj->len) {
    Value r = vm_new_tuple(vm, a.obj->len);
    for (uint32_t i = 0; i < a.obj->len; i++)
      AS_FIELDS(r)->at[i] =
          value_select(vm, cond, AS_FIELDS(a)->at[i], AS_FIELDS(b)->at[i]);
    return value_retain(r);
  }
  if (a.tag == V_RECORD && b.tag == V_RECORD)
    return select_record(vm, cond, a, b);
  vm_abandon(vm, cond);
}
