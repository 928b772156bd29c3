/* Forces deferred values: decides when the graph runs, and converts nodes to
 * known scalars and tensors. */
#include "eval/internal.h"
#include "machine/limits/planner.h"
#include "support/mem.h"

#include <string.h>

bool value_is_tensor(Value v) {
  return value_is_num(v) || v.tag == V_NODE;
}

static uint32_t recording_factor(const Eval *vm) {
  return vm->graph.recording_count ? RECORDING_PENDING_FACTOR : 1;
}

static bool exceeds_pending_limit(const Eval *vm, uint32_t max) {
  max *= recording_factor(vm);
  return vm->graph.next_node_id - vm->last_forced_node > max ||
         vm->graph.pending_elements > vm->force_threshold;
}

/* Fails if the value is known only when the compiled function runs. */
static void fail_if_symbolic(Eval *vm, const Node *n) {
  if (n->symbolic)
    vm_fail_at(
        vm, n->span, 612,
        "pass it as an argument, or compile the code before and after it "
        "separately",
        "control flow depends on this value, which is known only at run time");
}

/* Returns false with a fault if a node fails. */
static bool try_force(Eval *vm, uint32_t count, Node *const *nodes,
                      Span *fault_span, Fault *fault) {
  bool ok = graph_force(&vm->graph, count, nodes, fault_span, fault);
  vm->last_forced_node = vm->graph.next_node_id;
  vm->force_threshold = vm->graph.pending_elements + MAX_PENDING_ELEMENTS;
  return ok;
}

void vm_force(Eval *vm, uint32_t count, Node *const *nodes) {
  for (uint32_t k = 0; vm_is_aot_tracing(vm) && k < count; k++)
    fail_if_symbolic(vm, nodes[k]);
  Span fault_span = {0};
  Fault fault = {0};
  bool ok = try_force(vm, count, nodes, &fault_span, &fault);
  vm->is_forcing = !ok;
  if (!ok)
    vm_fault_at(vm, fault_span, &fault);
}

static Node *data_node(Eval *vm, Tensor *t) {
  Trap trap;
  if (TRAP_SET(trap) == FAIL_NONE) {
    Node *node = node_data(&vm->graph, t);
    trap_end(&trap);
    tensor_release(t);
    return node;
  }
  tensor_release(t);
  trap_raise(trap.kind);
}

Value vm_value_of_tensor(Eval *vm, Tensor *t, const Fault *fault) {
  if (!t)
    vm_fault(vm, fault);
  return vm_value_of_node(vm, data_node(vm, t), fault);
}

Value vm_value_of_node(Eval *vm, Node *node, const Fault *fault) {
  if (!node)
    vm_fault(vm, fault);
  if (node->free_count) {
    if (vm->graph.next_node_id - vm->symbolic_runs[0].first_node >
        MAX_SYMBOLIC_NODES)
      vm_bail_out(vm, vm_temp_node(vm, node));
    return value_node(node);
  }
  Scalar x;
  if (!node->rank && node_known(node, &x)) {
    node_release(node);
    return value_scalar(x);
  }
  if (!node->data && exceeds_pending_limit(vm, MAX_PENDING_NODES) &&
      !vm_must_defer(vm)) {
    size_t mark = vm->temp_count;
    vm_temp_node(vm, node);
    vm_force(vm, 1, &node);
    vm->temp_count = mark;
  }
  if (!node->rank && node->data && !node_is_recorded(node)) {
    x = scalar_load(node->dtype, node->data->data);
    node_release(node);
    return value_scalar(x);
  }
  return value_node(node);
}

Node *vm_to_node(Eval *vm, Value v) {
  Node *n = vm_to_ragged_node(vm, v);
  if (n->row_lengths)
    vm_bail_out_of_rows(vm, n);
  return n;
}

Node *vm_to_ragged_node(Eval *vm, Value v) {
  if (v.tag == V_NODE)
    return v.node;
  if (value_is_num(v))
    return vm_temp_node(vm, node_scalar(&vm->graph, value_to_scalar(v)));
  vm_fail(vm, 599, "internal error in eval: expected a tensor");
}

Value vm_concrete_scalar(Eval *vm, Value v) {
  if (value_is_num(v))
    return v;
  if (v.tag == V_UNIT)
    vm_fail_unknown_size(vm, NULL);
  if (v.tag != V_NODE || v.node->rank)
    vm_fail(vm, 599, "internal error in eval: expected a number");
  Scalar x;
  if (node_known(v.node, &x))
    return value_scalar(x);
  if (v.node->free_count)
    vm_bail_out(vm, v.node);
  if (!v.node->data)
    vm_force(vm, 1, &v.node);
  return value_scalar(scalar_load(v.node->dtype, v.node->data->data));
}

int64_t vm_int(Eval *vm, Value v) {
  Value k = vm_concrete_scalar(vm, v);
  if (dtype_is_float((Dtype)k.tag))
    vm_fail(vm, 599, "internal error in eval: expected an integer");
  return k.i;
}

Value vm_value_of_size(Eval *vm, int64_t size) {
  return extent_is_static(&vm->graph, size)
             ? value_int(size)
             : value_node(node_extent_scalar(&vm->graph, size));
}

Value vm_product(Eval *vm, uint32_t count, const int64_t *sizes) {
  int64_t product = 1, next;
  for (uint32_t k = 0; k < count; k++, product = next)
    if (!extent_mul(&vm->graph, product, sizes[k], &next))
      vm_fail(vm, 506, "a size does not fit in 64 bits: %lld * %lld",
              (long long)product, (long long)sizes[k]);
  return vm_value_of_size(vm, product);
}

int64_t vm_size_maybe_wrapped(Eval *vm, Value v) {
  int64_t size;
  return v.tag == V_NODE && node_to_extent(&vm->graph, v.node, &size)
             ? size
             : vm_int(vm, v);
}

int64_t vm_size(Eval *vm, Value v) {
  int64_t size = vm_size_maybe_wrapped(vm, v);
  if (v.tag == DT_I64 && v.aux)
    vm_fail(vm, 506, "a size does not fit in 64 bits: it overflowed to %lld",
            (long long)size);
  return size;
}

bool vm_bool(Eval *vm, Value v) {
  if (v.tag == V_NODE && node_is_recorded(v.node))
    vm->graph.zero_reason_count++;
  return vm_concrete_scalar(vm, v).i != 0;
}

const Tensor *vm_tensor(Eval *vm, Value v) {
  Node *node = vm_to_node(vm, v);
  if (node->free_count)
    vm_bail_out(vm, node);
  if (!node->data)
    vm_force(vm, 1, &node);
  return node->data;
}

void vm_check_file(Eval *vm, const Tensor *t) {
  Fault fault = {0};
  if (tensor_mapped(t) && !tensor_check(t, &fault))
    vm_fault_at(vm, (Span){0}, &fault);
}

/* ---- all leaves of a value ---- */

typedef struct ForceWork {
  Eval *vm;
  /* Skip nodes that a kernel of their consumer has computed. */
  bool skip_inlined;
  bool collects_symbolic; /* also nodes with indices of loops */
  int64_t max_elements;   /* skip larger nodes */
  size_t max_values;      /* look at no more values */
  Node **nodes;
  size_t count, cap;
  Value *worklist; /* borrowed; a worklist, since a value can be deeper than the
                      C stack */
  size_t worklist_count, worklist_cap;
} ForceWork;

static void add_node(ForceWork *work, Node *node) {
  if (work->count == work->cap) {
    size_t cap = work->cap ? work->cap * 2 : 32;
    work->nodes = mem_realloc(work->nodes, work->cap * sizeof *work->nodes,
                              cap * sizeof *work->nodes);
    work->cap = cap;
  }
  work->nodes[work->count++] = node;
}

static void push_values(ForceWork *work, const Value *at, uint32_t len) {
  if (work->worklist_count + len > work->worklist_cap) {
    size_t cap = (work->worklist_cap + len) * 2;
    work->worklist =
        mem_realloc(work->worklist, work->worklist_cap * sizeof *work->worklist,
                    cap * sizeof *work->worklist);
    work->worklist_cap = cap;
  }
  if (len)
    memcpy(work->worklist + work->worklist_count, at, len * sizeof *at);
  work->worklist_count += len;
}

static bool is_wanted(const ForceWork *work, const Node *n) {
  return !n->data && (work->collects_symbolic || !n->free_count) &&
         !(work->skip_inlined && n->inlined) &&
         node_element_count(n) <= work->max_elements;
}

static void collect_deferred(ForceWork *work) {
  for (; work->worklist_count && work->max_values; work->max_values--) {
    Value v = work->worklist[--work->worklist_count];
    if (v.tag < V_HEAP)
      continue;
    switch ((ValueTag)v.tag) {
    case V_NODE:
      if (is_wanted(work, v.node))
        add_node(work, v.node);
      break;
    case V_TUPLE:
    case V_ENV:
      push_values(work, AS_ARRAY(v)->at, v.obj->len);
      break;
    case V_RECORD:
      push_values(work, AS_RECORD(v)->at, v.obj->len);
      break;
    case V_CONS:
      push_values(work, &AS_CONS(v)->tail, 1);
      push_values(work, &AS_CONS(v)->head, 1);
      break;
    case V_CON:
      push_values(work, &AS_CON(v)->arg, 1);
      break;
    default: /* a function may use what it captured later */
      break;
    }
  }
}

static void release_work(ForceWork *work) {
  mem_free(work->nodes);
  mem_free(work->worklist);
}

static void force_values(Eval *vm, Value a, Value b, bool skip_inlined) {
  ForceWork work = {.vm = vm,
                    .skip_inlined = skip_inlined,
                    .max_elements = INT64_MAX,
                    .max_values = SIZE_MAX};
  Trap trap;
  if (TRAP_SET(trap) == FAIL_NONE) {
    push_values(&work, &a, 1);
    push_values(&work, &b, 1);
    collect_deferred(&work);
    if (work.count)
      vm_force(vm, (uint32_t)work.count, work.nodes);
    trap_end(&trap);
    release_work(&work);
    return;
  }
  release_work(&work);
  trap_raise(trap.kind);
}

/* A node of a traced loop has no value yet: the plan stores it in each
 * iteration. */
void vm_force_in_loop(Eval *vm, Value v) {
  ForceWork work = {
      .vm = vm, .max_elements = INT64_MAX, .max_values = SIZE_MAX};
  Trap trap;
  if (TRAP_SET(trap) == FAIL_NONE) {
    work.collects_symbolic = true;
    push_values(&work, &v, 1);
    collect_deferred(&work);
    for (size_t k = 0; k < work.count; k++)
      work.nodes[k]->is_forced = work.nodes[k]->kind == NODE_COMP;
    trap_end(&trap);
    release_work(&work);
    return;
  }
  release_work(&work);
  trap_raise(trap.kind);
}

void vm_force_value(Eval *vm, Value v) {
  if (v.tag >= V_HEAP)
    force_values(vm, v, value_unit(), false);
}

void vm_force_not_inlined(Eval *vm, Value v) {
  if (v.tag >= V_HEAP)
    force_values(vm, v, value_unit(), true);
}

void vm_force_if_pending(Eval *vm, Value state, Value condition) {
  if (!exceeds_pending_limit(vm, MAX_PENDING_NODES_IN_LOOP) ||
      vm_must_defer(vm))
    return;
  force_values(vm, state, condition, false);
  vm->last_forced_node = vm->graph.next_node_id;
}

/* ---- recursive functions ---- */

/* True if a call of the function is active in a frame that is not far from the
 * top. */
static bool is_active(const Eval *vm, const Code *code) {
  const Frame *f = vm->fp;
  for (uint32_t k = 0; k < MAX_RECURSION_PERIOD && f > vm->frames; k++, f--)
    if (f->code == code)
      return true;
  return false;
}

/* Adds the deferred values on the stack, from the top.  Large values may be
 * formulas that nobody stores: they stay deferred. */
static void collect_stack(ForceWork *work) {
  const Eval *vm = work->vm;
  for (const Value *at = vm->sp; at-- > vm->stack && work->max_values;) {
    push_values(work, at, 1);
    collect_deferred(work);
  }
}

/* The result alone is not enough: values of the callers, such as the halves of
 * an array, would become a part of each piece of the graph, in another way each
 * time.
 *
 * The program may never need some of the values.  So a node that fails stays
 * deferred, without an error. */
static void force_stack(Eval *vm) {
  ForceWork work = {.vm = vm,
                    .max_elements = MAX_CALLER_ELEMENTS,
                    .max_values = MAX_CALLER_VALUES};
  Trap trap;
  if (TRAP_SET(trap) == FAIL_NONE) {
    collect_stack(&work);
    Span ignored_span = {0};
    Fault ignored = {0};
    if (work.count)
      try_force(vm, (uint32_t)work.count, work.nodes, &ignored_span, &ignored);
    trap_end(&trap);
    release_work(&work);
    return;
  }
  release_work(&work);
  trap_raise(trap.kind);
}

/* Only nodes of this call count.  Thus the graph of a recursion is cut between
 * equal calls, wherever they are. */
void vm_force_after_call(Eval *vm, const Frame *ended) {
  uint32_t made = vm->graph.next_node_id - ended->first_node;
  if (made > MAX_PENDING_NODES_IN_LOOP * recording_factor(vm) &&
      exceeds_pending_limit(vm, MAX_PENDING_NODES_IN_LOOP) &&
      !vm_must_defer(vm) && is_active(vm, ended->code))
    force_stack(vm);
}

void vm_force_after_iteration(Eval *vm) {
  if (vm_must_defer(vm) ||
      !exceeds_pending_limit(vm, MAX_PENDING_NODES_IN_LOOP))
    return;
  force_stack(vm);
  vm->fp->first_node = vm->graph.next_node_id;
}
