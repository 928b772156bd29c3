/* Derivatives of functions: vjp.
 *
 * The argument's tensors of floats become leaves of a tape
 * (tensor/gradient_tape.c). The function then runs as always.  So control flow,
 * closures and data structures need nothing of their own. */
#include "eval/internal.h"
#include "support/buffer.h"
#include "support/diag.h"

/* ---- structures ---- */

bool value_is_float_tensor(Value v) {
  return value_is_num(v) ? dtype_is_float((Dtype)v.tag)
                         : v.tag == V_NODE && dtype_is_float(v.node->dtype);
}

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
  if (!map->keeps_temps)
    vm_drop_temps(vm, mark);
  return first;
}

static Value map_function(LeafMap *map, Value v) {
  Eval *vm = map->vm;
  if (v.tag == V_PARTIAL) {
    uint32_t len = v.obj->len;
    Value fn = map_leaves(map, AS_PARTIAL(v)->fn);
    vm_push_temp(vm, fn);
    Partial *p =
        obj_new(&vm->heap, V_PARTIAL, sizeof *p + len * sizeof(Value), len);
    p->fn = value_retain(fn);
    for (uint32_t k = 0; k < len; k++)
      p->args[k] = value_unit();
    vm_push_temp(vm, value_obj(V_PARTIAL, p));
    map_parts(map, AS_PARTIAL(v)->args, p->args, len);
    return value_retain(value_obj(V_PARTIAL, p));
  }
  uint32_t len = v.obj->len;
  ValueArray *env =
      obj_new(&vm->heap, V_ENV, sizeof *env + len * sizeof(Value), len);
  for (uint32_t k = 0; k < len; k++)
    env->at[k] = value_unit();
  vm_push_temp(vm, value_obj(V_ENV, env));
  map_parts(map, AS_ARRAY(v)->at, env->at, len);
  v.obj = &env->obj;
  return value_retain(v);
}

Value map_leaves(LeafMap *map, Value v) {
  Eval *vm = map->vm;
  Value r;
  if (map->is_leaf ? map->is_leaf(map, v) : value_is_float_tensor(v))
    return map->leaf(map, v);
  if (v.tag == V_CLOSURE || v.tag == V_PARTIAL || v.tag == V_ENV)
    return map->in_functions ? map_function(map, v) : value_retain(v);
  if (v.tag == V_TUPLE || v.tag == V_KEYS) {
    r = v.tag == V_TUPLE ? vm_new_tuple(vm, v.obj->len)
                         : vm_new_keys(vm, v.obj->len);
    map_parts(map, AS_ARRAY(v)->at, AS_ARRAY(r)->at, v.obj->len);
    return value_retain(r);
  }
  if (v.tag == V_RECORD) {
    r = vm_new_record(vm, AS_RECORD(v)->layout);
    map_parts(map, AS_RECORD(v)->at, AS_RECORD(r)->at, v.obj->len);
    return value_retain(r);
  }
  if (v.tag == V_CONS)
    return map_list(map, v);
  if (v.tag != V_CON)
    return value_retain(v);
  Value arg = map_leaves(map, AS_CON(v)->arg);
  vm_push_temp(vm, arg);
  ConApp *c = obj_new(&vm->heap, V_CON, sizeof *c, 1);
  c->con = AS_CON(v)->con;
  c->arg = value_retain(arg);
  return value_obj(V_CON, c);
}

/* ---- vjp ---- */

static Value new_leaf(LeafMap *map, Value v) {
  Node *x = vm_to_node(map->vm, v);
  return value_node(node_leaf(&map->vm->graph, x, map->tape));
}

Tape *vm_push_tape(Eval *vm) {
  TapeObj *obj = obj_new(&vm->heap, V_TAPE, sizeof *obj, 0);
  obj->tape = tape_new(&vm->graph);
  IndexVar *enclosing[MAX_RANK];
  uint32_t count;
  *vm->sp++ = value_obj(V_TAPE, obj);
  if (!vm_enclosing_indices(vm, enclosing, &count))
    vm_bail_out(vm, NULL);
  tape_set_enclosing(obj->tape, count, enclosing);
  return obj->tape;
}

void vm_vjp_begin(Eval *vm, Value v) {
  size_t mark = vm->temp_count;
  vm_set_node_span(vm);
  LeafMap map = {.vm = vm, .leaf = new_leaf, .tape = vm_push_tape(vm)};
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

Node **vm_float_tensors(Eval *vm, Value v, uint32_t *count) {
  LeafMap map = {.vm = vm, .leaf = count_leaf};
  vm_push_temp(vm, map_leaves(&map, v));
  map.nodes = vm_scratch(vm, (map.next + 1) * sizeof *map.nodes);
  map.leaf = collect_leaf;
  map.keeps_temps = true;
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

/* Fails at `span` unless two tensors have one shape. */
static void require_same_shape(Eval *vm, Span span, const Node *x,
                               const Node *like, const char *x_name,
                               const char *like_name) {
  bool same = x->rank == like->rank;
  Fault fault = {0};
  for (uint32_t k = 0; same && k < x->rank; k++)
    same = node_size(x, k) == node_size(like, k);
  if (same)
    return;
  Buffer found = {.arena = vm->arena}, expected = {.arena = vm->arena};
  node_print_type(&vm->graph, &found, x);
  node_print_type(&vm->graph, &expected, like);
  fault_set(&fault, "%s is %s, but %s is %s", x_name, found.text, like_name,
            expected.text);
  if (x->rank != like->rank)
    vm_fault_at(vm, span, &fault);
  for (uint32_t k = 0; k < x->rank; k++)
    if (!extent_require(&vm->graph, EXTENT_EQ, node_size(x, k),
                        node_size(like, k), &fault))
      vm_fault_at(vm, span, &fault);
}

void vm_require_same_shapes(Eval *vm, Span span, uint32_t count,
                            Node *const *xs, uint32_t like_count,
                            Node *const *like, const char *x_name,
                            const char *like_name) {
  if (count != like_count)
    vm_fail_at(vm, span, 507, NULL,
               "%s has %u tensor%s of floats, but %s has %u", x_name, count,
               count == 1 ? "" : "s", like_name, like_count);
  for (uint32_t k = 0; k < count; k++)
    require_same_shape(vm, span, xs[k], like[k], x_name, like_name);
}

static Span current_span(Eval *vm) {
  return vm_span_of_instr(vm->fp->code, vm->pc);
}

static bool has_no_elements(const Node *n) {
  for (uint32_t k = 0; k < n->rank; k++)
    if (node_size(n, k) == 0)
      return true;
  return false;
}

/* No output depends on a leaf. */
static bool is_independent(uint32_t count, Node *const *leaves,
                           Node *const *cotangents) {
  bool has_elements = false;
  for (uint32_t k = 0; k < count; k++) {
    if (cotangents[k])
      return false;
    has_elements |= !has_no_elements(leaves[k]);
  }
  return has_elements;
}

/* Warns, once at each place, that no output depends on a leaf. */
static void warn_independent(Eval *vm, const Tape *tape) {
  const char *library_function;
  Span span = vm_user_span(vm, &library_function);
  if (tape->may_be_zero)
    return;
  for (uint32_t k = 0; k < vm->diags->all.len; k++) {
    const Diag *d = vm->diags->all.at[k];
    if (d->code == 406 && d->span.file == span.file &&
        d->span.start == span.start)
      return;
  }
  diag_warning(vm->diags, 406, span,
               "the result does not depend on the argument: the gradient is 0")
      ->help = "integers, comparisons, floor, round, sign and stop_gradient "
               "have derivative 0";
}

Value vm_pullback_begin(Eval *vm, const Value *args) {
  size_t mark = vm->temp_count;
  uint32_t leaf_count, output_count, cotangent_count;
  vm_set_node_span(vm);
  Node **leaves = vm_float_tensors(vm, args[1], &leaf_count);
  Node **outputs = vm_float_tensors(vm, args[2], &output_count);
  Node **cotangents = vm_float_tensors(vm, args[3], &cotangent_count);
  vm_require_same_shapes(vm, current_span(vm), cotangent_count, cotangents,
                         output_count, outputs, "the cotangent", "the result");
  PassObj *obj = obj_new(&vm->heap, V_PASS, sizeof *obj, 0);
  obj->pass = NULL;
  obj->tape = tape_retain(AS_TAPE(args[0])->tape);
  vm_push_temp(vm, value_obj(V_PASS, obj));
  obj->pass = reverse_pass_new(&vm->graph, obj->tape, output_count, outputs,
                               cotangents, leaf_count, leaves);
  value_retain(value_obj(V_PASS, obj));
  vm_drop_temps(vm, mark);
  return value_obj(V_PASS, obj);
}

Value vm_pullback_end(Eval *vm, Value pass, Value argument) {
  size_t mark = vm->temp_count;
  uint32_t leaf_count;
  vm_set_node_span(vm);
  Node **leaves = vm_float_tensors(vm, argument, &leaf_count);
  Node **out = vm_scratch(vm, (leaf_count + 1) * sizeof *out);
  for (uint32_t k = 0; k < leaf_count; k++)
    out[k] = reverse_pass_cotangent(AS_PASS(pass)->pass, k);
  vm->graph.zero_reason_count++;
  if (is_independent(leaf_count, leaves, out))
    warn_independent(vm, AS_PASS(pass)->tape);
  LeafMap map = {.vm = vm, .leaf = next_cotangent, .nodes = out};
  Value r = map_leaves(&map, argument);
  vm_drop_temps(vm, mark);
  return r;
}

/* ---- each ---- */

/* A * axis has no size. */
static bool is_sized_vector(const Node *x) {
  return x->rank == 1 && !x->broadcast_mask;
}

/* x as a vector.  Returns a temporary. */
static Node *flattened(Eval *vm, Node *x) {
  Fault fault = {0};
  int64_t count;
  if (is_sized_vector(x))
    return vm_temp_node(vm, node_retain(x));
  if (!extent_product(&vm->graph, x->rank, x->extents + x->free_count, &count))
    vm_fail(vm, 506, "a size does not fit in 64 bits");
  Node *flat = node_reshape(&vm->graph, x, 1, &count, 0, &fault);
  if (!flat)
    vm_fault(vm, &fault);
  return vm_temp_node(vm, flat);
}

Value vm_collect_floats(Eval *vm, const Value *values, uint32_t count) {
  size_t mark = vm->temp_count;
  uint32_t leaf_count = 0, other;
  Node **leaves[3];
  vm_set_node_span(vm);
  for (uint32_t k = 0; k < count; k++) {
    leaves[k] = vm_float_tensors(vm, values[k], k ? &other : &leaf_count);
    if (k)
      vm_require_same_shapes(vm, current_span(vm), other, leaves[k], leaf_count,
                             leaves[0], "a structure", "the first one");
  }
  Value list = {.tag = V_NIL};
  for (uint32_t at = leaf_count; at-- > 0;) {
    size_t inner = vm->temp_count;
    Value item = vm_new_tuple(vm, count);
    for (uint32_t k = 0; k < count; k++)
      AS_ARRAY(item)->at[k] =
          value_node(node_retain(flattened(vm, leaves[k][at])));
    Value cell = value_cons(&vm->heap, value_retain(item), list);
    vm_drop_temps(vm, inner);
    if (at < leaf_count - 1) /* the cell has taken the list */
      vm->temps[vm->temp_count - 1] = cell;
    else
      vm_push_temp(vm, cell);
    list = cell;
  }
  value_retain(list);
  vm_drop_temps(vm, mark);
  return list;
}

/* The next vector, in the shape of v. */
static Value next_vector(LeafMap *map, Value v) {
  Eval *vm = map->vm;
  Node *like = vm_to_node(vm, v), *x = map->nodes[map->next++];
  Fault fault = {0};
  if (is_sized_vector(like))
    return vm_value_of_node(vm, node_retain(x), &fault);
  return vm_value_of_node(vm,
                          node_reshape(&vm->graph, x, like->rank,
                                       like->extents + like->free_count,
                                       like->broadcast_mask, &fault),
                          &fault);
}

/* The tensors of a list, as temporary memory. */
static Node **nodes_of_list(Eval *vm, Value list, uint32_t *count) {
  uint32_t n = 0;
  for (Value v = list; v.tag == V_CONS; v = AS_CONS(v)->tail)
    n++;
  Node **nodes = vm_scratch(vm, (n + 1) * sizeof *nodes);
  *count = n;
  n = 0;
  for (Value v = list; v.tag == V_CONS; v = AS_CONS(v)->tail)
    nodes[n++] = vm_to_node(vm, AS_CONS(v)->head);
  return nodes;
}

Value vm_replace_floats(Eval *vm, Value v, Value list) {
  size_t mark = vm->temp_count;
  uint32_t count;
  vm_set_node_span(vm);
  LeafMap map = {
      .vm = vm, .leaf = next_vector, .nodes = nodes_of_list(vm, list, &count)};
  Value r = map_leaves(&map, v);
  vm_drop_temps(vm, mark);
  return r;
}

Value vm_sum_floats(Eval *vm, Value like, Value list) {
  size_t mark = vm->temp_count;
  uint32_t count, leaf_count;
  vm_set_node_span(vm);
  Node **leaves = vm_float_tensors(vm, like, &leaf_count);
  Node **nodes = nodes_of_list(vm, list, &count), *sum = NULL;
  Fault fault = {0};
  for (uint32_t k = 0; k < count; k++) {
    Node *part =
        node_reduce(&vm->graph, PRIM_SUM, nodes[k], 0, 1, false, &fault);
    if (!part)
      vm_fault(vm, &fault);
    vm_temp_node(vm, part);
    Node *terms[2] = {sum, part};
    sum = sum ? node_map(&vm->graph, PRIM_ADD, 2, terms, DT_NONE, &fault)
              : node_retain(part);
    if (!sum)
      vm_fault(vm, &fault);
    vm_temp_node(vm, sum);
  }
  Scalar zero = {.dtype = leaf_count ? leaves[0]->dtype : DT_F32};
  if (!sum)
    sum = vm_temp_node(vm, node_scalar(&vm->graph, zero));
  Value r = vm_value_of_node(vm, node_retain(sum), &fault);
  vm_drop_temps(vm, mark);
  return r;
}

/* ---- stop_gradient ---- */

static Value stop_leaf(LeafMap *map, Value v) {
  Fault fault = {0};
  if (v.tag != V_NODE || !v.node->tape)
    return value_retain(v);
  return vm_value_of_node(map->vm, node_stop_gradient(&map->vm->graph, v.node),
                          &fault);
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

/* ---- by_rank ---- */

static Value rank_mask(LeafMap *map, Value v) {
  Eval *vm = map->vm;
  Node *like = vm_to_node(vm, v);
  Scalar one = {.dtype = like->dtype, .f = like->rank >= map->rank};
  Fault fault = {0};
  return vm_value_of_node(vm,
                          node_full(&vm->graph, one, like->rank,
                                    like->extents + like->free_count,
                                    like->broadcast_mask, &fault),
                          &fault);
}

Value prim_by_rank(Eval *vm, const PrimSite *site, Value *args, uint32_t n) {
  (void)site, (void)n;
  size_t mark = vm->temp_count;
  vm_set_node_span(vm);
  LeafMap map = {.vm = vm, .leaf = rank_mask, .rank = vm_int(vm, args[0])};
  Value r = map_leaves(&map, args[1]);
  vm_drop_temps(vm, mark);
  return r;
}
