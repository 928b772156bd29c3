/* Derivatives of functions: vjp.
 *
 * The argument's tensors of floats become leaves of a tape (tensor/tape.c).
 * The function then runs as always.  So control flow, closures and data
 * structures need nothing of their own. */
#include "eval/internal.h"

/* ---- structures ---- */

/* Replaces the tensors of a value, in order: tuples, records, lists and
 * datatypes of tensors.  Other values stay. */
typedef struct LeafMap {
  Eval *vm;
  /* Returns an owned value for a tensor of floats. */
  Value (*leaf)(struct LeafMap *map, Value v);
  Tape *tape;    /* for new leaves */
  Node **nodes;  /* the next leaves */
  uint32_t next; /* number of leaves so far */
} LeafMap;

static bool is_float_tensor(Value v) {
  return value_is_num(v) ? dtype_is_float((Dtype)v.tag)
                         : v.tag == V_NODE && dtype_is_float(v.node->dtype);
}

static Value map_leaves(LeafMap *map, Value v);

static void map_parts(LeafMap *map, const Value *from, Value *to,
                      uint32_t count) {
  for (uint32_t k = 0; k < count; k++)
    to[k] = map_leaves(map, from[k]);
}

/* Iterative along the list, which may be long. */
static Value map_list(LeafMap *map, Value v) {
  Eval *vm = map->vm;
  Value first = {.tag = V_NIL}, *end = &first;
  size_t mark = vm->temp_count;
  for (; v.tag == V_CONS; v = AS_CONS(v)->tail) {
    Value head = map_leaves(map, AS_CONS(v)->head);
    vm_push_temp(vm, head);
    Value cell = value_cons(&vm->heap, head, (Value){.tag = V_NIL});
    vm->temps[vm->temp_count - 1] = value_unit(); /* the cell has taken it */
    *end = cell;
    if (end == &first)
      vm_push_temp(vm, cell);
    end = &AS_CONS(cell)->tail;
  }
  first = value_retain(first);
  vm_drop_temps(vm, mark);
  return first;
}

/* Returns an owned value. */
static Value map_leaves(LeafMap *map, Value v) {
  Eval *vm = map->vm;
  Value r;
  if (is_float_tensor(v))
    return map->leaf(map, v);
  switch ((ValueTag)v.tag) {
  case V_TUPLE:
    r = vm_new_tuple(vm, v.obj->len);
    map_parts(map, AS_ARRAY(v)->at, AS_ARRAY(r)->at, v.obj->len);
    return value_retain(r);
  case V_RECORD:
    r = vm_new_record(vm, AS_RECORD(v)->layout);
    map_parts(map, AS_RECORD(v)->at, AS_RECORD(r)->at, v.obj->len);
    return value_retain(r);
  case V_CONS:
    return map_list(map, v);
  case V_CON: {
    Value arg = map_leaves(map, AS_CON(v)->arg);
    vm_push_temp(vm, arg);
    ConApp *c = obj_new(&vm->heap, V_CON, sizeof *c, 1);
    c->con = AS_CON(v)->con;
    c->arg = value_retain(arg);
    return value_obj(V_CON, c);
  }
  default:
    return value_retain(v);
  }
}

/* ---- vjp ---- */

static Value new_leaf(LeafMap *map, Value v) {
  Node *x = vm_to_node(map->vm, v);
  return value_node(node_leaf(&map->vm->graph, x, map->tape));
}

void vm_vjp_begin(Eval *vm, Value v) {
  size_t mark = vm->temp_count;
  vm_set_node_span(vm);
  TapeObj *obj = obj_new(&vm->heap, V_TAPE, sizeof *obj, 0);
  obj->tape = tape_new(&vm->graph);
  *vm->sp++ = value_obj(V_TAPE, obj);
  LeafMap map = {.vm = vm, .leaf = new_leaf, .tape = obj->tape};
  Value leaves = map_leaves(&map, v);
  *vm->sp++ = leaves;
  vm_drop_temps(vm, mark);
}

static Value count_leaf(LeafMap *map, Value v) {
  map->next++;
  return value_retain(v);
}

static Value collect_leaf(LeafMap *map, Value v) {
  map->nodes[map->next++] = vm_to_node(map->vm, v);
  return value_retain(v);
}

/* The tensors of floats of a value, in memory of the machine's scratch. */
static Node **leaves_of(Eval *vm, Value v, uint32_t *count) {
  LeafMap map = {.vm = vm, .leaf = count_leaf};
  vm_push_temp(vm, map_leaves(&map, v));
  map.nodes = vm_scratch(vm, (map.next + 1) * sizeof *map.nodes);
  map.leaf = collect_leaf;
  map.next = 0;
  vm_push_temp(vm, map_leaves(&map, v));
  *count = map.next;
  return map.nodes;
}

/* The next cotangent; zeros if it is NULL. */
static Value next_cotangent(LeafMap *map, Value v) {
  Eval *vm = map->vm;
  Node *leaf = vm_to_node(vm, v), *n = map->nodes[map->next++];
  Fault fault = {0};
  if (n)
    return vm_value_of_node(vm, node_retain(n), &fault);
  return vm_value_of_node(
      vm,
      node_full(&vm->graph, (Scalar){.dtype = leaf->dtype}, leaf->rank,
                leaf->extents + leaf->free_count, leaf->broadcast_mask, &fault),
      &fault);
}

Value vm_pullback(Eval *vm, const Value *args) {
  size_t mark = vm->temp_count;
  uint32_t leaf_count, output_count, cotangent_count;
  vm_set_node_span(vm);
  Node **leaves = leaves_of(vm, args[1], &leaf_count);
  Node **outputs = leaves_of(vm, args[2], &output_count);
  Node **cotangents = leaves_of(vm, args[3], &cotangent_count);
  if (output_count != cotangent_count)
    vm_fail(vm, 507, "the cotangent has %u tensors, but the result has %u",
            cotangent_count, output_count);
  for (uint32_t k = 0; k < output_count; k++)
    if (outputs[k]->rank != cotangents[k]->rank)
      vm_fail(vm, 507, "the cotangent has another shape than the result");
  Node **out = vm_scratch(vm, (leaf_count + 1) * sizeof *out);
  Fault fault = {0};
  if (!graph_vjp(&vm->graph, output_count, outputs, cotangents, leaf_count,
                 leaves, out, &fault))
    vm_fault(vm, &fault);
  for (uint32_t k = 0; k < leaf_count; k++)
    if (out[k])
      vm_temp_node(vm, out[k]);
  LeafMap map = {.vm = vm, .leaf = next_cotangent, .nodes = out};
  Value r = map_leaves(&map, args[1]);
  vm_drop_temps(vm, mark);
  return r;
}

/* ---- stop_gradient ---- */

static Value stop_leaf(LeafMap *map, Value v) {
  Fault fault = {0};
  if (v.tag != V_NODE || !v.node->tape)
    return value_retain(v);
  return vm_value_of_node(
      map->vm, node_stop_gradient(&map->vm->graph, v.node), &fault);
}

Value prim_stop_gradient(Eval *vm, const PrimSite *site, Value *args,
                         uint32_t n) {
  (void)site, (void)n;
  size_t mark = vm->temp_count;
  vm_set_node_span(vm);
  LeafMap map = {.vm = vm, .leaf = stop_leaf};
  Value r = map_leaves(&map, args[0]);
  vm_drop_temps(vm, mark);
  return r;
}
