/* From nodes to what is known: when the graph is run, and what comes out. */
#include "eval/internal.h"

#include <string.h>

bool value_is_tensor(Value v) {
  return value_is_num(v) || v.tag == V_NODE;
}

bool vm_in_attempt(const Eval *vm) {
  return vm->attempt_count || vm->graph.guard || vm_traces(vm);
}

static bool much_pending(const Eval *vm, uint32_t most) {
  return vm->graph.next_node - vm->forced_node > most ||
         vm->graph.pending > vm->force_at;
}

/* What a compiled function will know is not known yet. */
static void refuse_open(Eval *vm, const Node *n) {
  if (n->open)
    vm_fail_at(vm, n->span, 612,
               "hand it over as an argument, or compile what comes before and "
               "after it apart",
               "this value decides how the function goes on, but is known only "
               "when the compiled function runs");
}

void vm_force(Eval *vm, uint32_t count, Node *const *nodes) {
  for (uint32_t k = 0; vm_traces(vm) && k < count; k++)
    refuse_open(vm, nodes[k]);
  Span where = {0};
  Fault fault = {0};
  bool done = graph_force(&vm->graph, count, nodes, &where, &fault);
  vm->forced_node = vm->graph.next_node;
  vm->force_at = vm->graph.pending + PENDING_LIMIT;
  vm->forcing = !done;
  if (!done)
    vm_fault_at(vm, where, &fault);
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

Value vm_data(Eval *vm, Tensor *t, const Fault *fault) {
  if (!t)
    vm_fault(vm, fault);
  return vm_node(vm, data_node(vm, t), fault);
}

Value vm_node(Eval *vm, Node *node, const Fault *fault) {
  if (!node)
    vm_fault(vm, fault);
  if (node->free_count) {
    if (vm->graph.next_node - vm->attempts[0].first_node > SYMBOLIC_NODES)
      vm_abandon(vm, vm_temp(vm, node));
    return value_node(node);
  }
  Scalar x;
  if (!node->rank && node_known(node, &x)) {
    node_release(node);
    return value_scalar(x);
  }
  if (!node->data && much_pending(vm, PENDING_NODES) && !vm_in_attempt(vm)) {
    size_t mark = vm->temp_count;
    vm_temp(vm, node);
    vm_force(vm, 1, &node);
    vm->temp_count = mark;
  }
  if (!node->rank && node->data) {
    x = scalar_load(node->dtype, node->data->data);
    node_release(node);
    return value_scalar(x);
  }
  return value_node(node);
}

Node *vm_to_node(Eval *vm, Value v) {
  if (v.tag == V_NODE)
    return v.node;
  if (value_is_num(v))
    return vm_temp(vm, node_scalar(&vm->graph, value_to_scalar(v)));
  vm_fail(vm, 599, "compiler bug in eval: a tensor is wanted");
}

Value vm_known(Eval *vm, Value v) {
  if (value_is_num(v))
    return v;
  if (v.tag == V_UNIT)
    vm_unknown(vm, NULL);
  if (v.tag != V_NODE || v.node->rank)
    vm_fail(vm, 599, "compiler bug in eval: a number is wanted");
  Scalar x;
  if (node_known(v.node, &x))
    return value_scalar(x);
  if (v.node->free_count)
    vm_abandon(vm, v.node);
  if (!v.node->data)
    vm_force(vm, 1, &v.node);
  return value_scalar(scalar_load(v.node->dtype, v.node->data->data));
}

int64_t vm_int(Eval *vm, Value v) {
  Value k = vm_known(vm, v);
  if (dtype_is_float((Dtype)k.tag))
    vm_fail(vm, 599, "compiler bug in eval: an integer is wanted");
  return k.i;
}

Value vm_size_value(Eval *vm, int64_t size) {
  return size_is_number(&vm->graph, size)
             ? value_int(size)
             : value_node(node_size_scalar(&vm->graph, size));
}

Value vm_product(Eval *vm, uint32_t count, const int64_t *sizes) {
  int64_t product = 1, next;
  for (uint32_t k = 0; k < count; k++, product = next)
    if (!size_mul(&vm->graph, product, sizes[k], &next))
      vm_fail(vm, 506, "a size does not fit in 64 bits: %lld * %lld",
              (long long)product, (long long)sizes[k]);
  return vm_size_value(vm, product);
}

int64_t vm_index_size(Eval *vm, Value v) {
  int64_t size;
  return v.tag == V_NODE && node_to_size(&vm->graph, v.node, &size)
             ? size
             : vm_int(vm, v);
}

int64_t vm_size(Eval *vm, Value v) {
  int64_t size = vm_index_size(vm, v);
  if (v.tag == DT_I64 && v.aux)
    vm_fail(vm, 506,
            "a size does not fit in 64 bits: it wrapped around to %lld",
            (long long)size);
  return size;
}

bool vm_bool(Eval *vm, Value v) {
  return vm_known(vm, v).i != 0;
}

const Tensor *vm_tensor(Eval *vm, Value v) {
  Node *node = vm_to_node(vm, v);
  if (node->free_count)
    vm_abandon(vm, node);
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

typedef struct ForceJob {
  Eval *vm;
  bool unseen; /* only what no kernel has computed for its readers */
  Node **nodes;
  size_t count, cap;
  Value *todo; /* borrowed: a value can be deeper than the C stack */
  size_t todo_count, todo_cap;
} ForceJob;

static void add_node(ForceJob *job, Node *node) {
  if (job->count == job->cap) {
    size_t cap = job->cap ? job->cap * 2 : 32;
    job->nodes = mem_realloc(job->nodes, job->cap * sizeof *job->nodes,
                             cap * sizeof *job->nodes);
    job->cap = cap;
  }
  job->nodes[job->count++] = node;
}

static void add_values(ForceJob *job, const Value *at, uint32_t len) {
  if (job->todo_count + len > job->todo_cap) {
    size_t cap = (job->todo_cap + len) * 2;
    job->todo = mem_realloc(job->todo, job->todo_cap * sizeof *job->todo,
                            cap * sizeof *job->todo);
    job->todo_cap = cap;
  }
  if (len)
    memcpy(job->todo + job->todo_count, at, len * sizeof *at);
  job->todo_count += len;
}

static void collect(ForceJob *job) {
  while (job->todo_count) {
    Value v = job->todo[--job->todo_count];
    if (v.tag < V_HEAP)
      continue;
    switch ((Tag)v.tag) {
    case V_NODE:
      if (!v.node->data && !v.node->free_count &&
          !(job->unseen && v.node->inlined))
        add_node(job, v.node);
      break;
    case V_TUPLE:
    case V_ENV:
      add_values(job, AS_FIELDS(v)->at, v.obj->len);
      break;
    case V_RECORD:
      add_values(job, AS_RECORD(v)->at, v.obj->len);
      break;
    case V_CONS:
      add_values(job, &AS_CONS(v)->tail, 1);
      add_values(job, &AS_CONS(v)->head, 1);
      break;
    case V_CON:
      add_values(job, &AS_CON(v)->arg, 1);
      break;
    default: /* functions keep what they captured for later */
      break;
    }
  }
}

static void force_all(Eval *vm, Value a, Value b, bool unseen) {
  ForceJob job = {.vm = vm, .unseen = unseen};
  Trap trap;
  if (TRAP_SET(trap) == FAIL_NONE) {
    add_values(&job, &a, 1);
    add_values(&job, &b, 1);
    collect(&job);
    if (job.count)
      vm_force(vm, (uint32_t)job.count, job.nodes);
    trap_end(&trap);
    mem_free(job.nodes);
    mem_free(job.todo);
    return;
  }
  mem_free(job.nodes);
  mem_free(job.todo);
  trap_raise(trap.kind);
}

void vm_force_value(Eval *vm, Value v) {
  if (v.tag >= V_HEAP)
    force_all(vm, v, value_unit(), false);
}

void vm_force_unseen(Eval *vm, Value v) {
  if (v.tag >= V_HEAP)
    force_all(vm, v, value_unit(), true);
}

void vm_tick(Eval *vm, Value state, Value more) {
  if (!much_pending(vm, TURN_NODES) || vm_in_attempt(vm))
    return;
  force_all(vm, state, more, false);
  vm->forced_node = vm->graph.next_node;
}
