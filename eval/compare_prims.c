/* Equality and order of whole values: tensors, strings, and tuples, records,
 * lists and datatypes of them. */
#include "eval/internal.h"
#include "support/intern.h"
#include "support/mem.h"
#include "tensor/extent.h"

#include <string.h>

#define PRIM(name) \
  Value name(Eval *vm, const PrimSite *site, Value *args, uint32_t n)
#define UNUSED (void)site, (void)n

typedef struct Comparison {
  Eval *vm;
  Value *pairs; /* borrowed; a worklist, since a value can be deeper than the C
                   stack.  The next pair is at the end */
  size_t count, cap;
  bool is_order; /* a total order; else equality, as in IEEE 754 */
  Value unknown; /* the result for the tensors and numbers so far whose elements
                    are not known yet: a bool or an order; or V_NONE */
} Comparison;

static void push_pair(Comparison *c, Value a, Value b) {
  if (c->count + 2 > c->cap) {
    size_t cap = c->cap ? c->cap * 2 : 64;
    c->pairs = mem_realloc(c->pairs, c->cap * sizeof *c->pairs,
                           cap * sizeof *c->pairs);
    c->cap = cap;
  }
  c->pairs[c->count++] = a;
  c->pairs[c->count++] = b;
}

/* ---- numbers and tensors ---- */

static int order_of_ints(int64_t x, int64_t y) {
  return (x > y) - (x < y);
}

/* Shorter shapes first, then by size. */
static int order_of_shapes(Comparison *c, const Node *a, const Node *b) {
  if (a->rank != b->rank)
    return order_of_ints(a->rank, b->rank);
  for (uint32_t k = 0; k < a->rank; k++) {
    int64_t x = node_size(a, k), y = node_size(b, k);
    if (x == y)
      continue;
    const Graph *g = &c->vm->graph;
    if (!extent_is_static(g, x) || !extent_is_static(g, y))
      vm_fail_at(c->vm, (Span){0}, 612,
                 "give both tensors the same sizes, as in f32[n]",
                 "the sizes of compared tensors are known only at run time");
    return order_of_ints(x, y);
  }
  return 0;
}

/* The elements of a node that a loop or a compiled function computes later. */
static bool is_unknown(const Comparison *c, const Node *n) {
  return !n->data && (n->free_count || vm_must_defer(c->vm));
}

/* Adds `all (a == b)` to the unknown part of the result. */
static void compare_later(Comparison *c, Value a, Value b) {
  Eval *vm = c->vm;
  Value equal = vm_binary(vm, PRIM_EQ, a, b);
  vm_push_temp(vm, equal);
  if (equal.tag == V_NODE && equal.node->rank) {
    const PrimSite site = {.prim = PRIM_ALL, .elem = DT_BOOL, .arity = 3};
    Value args[3] = {{.tag = V_ALL_AXES}, {.tag = V_ABSENT}, equal};
    equal = prim_reduce(vm, &site, args, 3);
    vm_push_temp(vm, equal);
  }
  if (c->unknown.tag != V_NONE) {
    equal = vm_binary(vm, PRIM_AND, c->unknown, equal);
    vm_push_temp(vm, equal);
  }
  c->unknown = equal;
}

static Value temp_map(Eval *vm, PrimId op, Value a, Value b, Value x) {
  const PrimSite site = {.prim = op};
  Value args[3] = {a, b, x};
  Value r = prim_map(vm, &site, args, op == PRIM_SELECT ? 3 : 2);
  vm_push_temp(vm, r);
  return r;
}

/* Is the number a before b?  NaN is last. */
static Value is_before(Eval *vm, Value a, Value b) {
  const Value none = {.tag = V_NONE};
  Value less = temp_map(vm, PRIM_LT, a, b, none);
  Value number = temp_map(vm, PRIM_EQ, a, a, none);
  Value nan = temp_map(vm, PRIM_NE, b, b, none);
  Value nan_last = temp_map(vm, PRIM_AND, number, nan, none);
  return temp_map(vm, PRIM_OR, less, nan_last, none);
}

/* The order `first`, or `next` if it is 0. */
static Value order_then(Eval *vm, Value first, Value next) {
  Value same =
      temp_map(vm, PRIM_EQ, first, value_int(0), (Value){.tag = V_NONE});
  return temp_map(vm, PRIM_SELECT, same, next, first);
}

/* Adds the order of two numbers to the unknown part of the result. */
static void order_later(Comparison *c, Value a, Value b) {
  Eval *vm = c->vm;
  Value order = temp_map(vm, PRIM_SELECT, is_before(vm, b, a), value_int(1),
                         value_int(0));
  order = temp_map(vm, PRIM_SELECT, is_before(vm, a, b), value_int(-1), order);
  c->unknown =
      c->unknown.tag == V_NONE ? order : order_then(vm, c->unknown, order);
}

static int order_of_tensors(Comparison *c, Value a, Value b) {
  if (value_is_num(a) && value_is_num(b))
    return scalar_order(value_to_scalar(a), value_to_scalar(b), c->is_order);
  const Node *x = vm_to_node(c->vm, a), *y = vm_to_node(c->vm, b);
  int order = order_of_shapes(c, x, y);
  if (order)
    return order;
  if (is_unknown(c, x) || is_unknown(c, y)) {
    if (!c->is_order)
      compare_later(c, a, b);
    else if (!x->rank)
      order_later(c, a, b);
    if (!c->is_order || !x->rank)
      return 0;
    if (vm_is_aot_tracing(c->vm) && !c->vm->symbolic_run_count)
      vm_fail_at(c->vm, (Span){0}, 612,
                 "order them by a number, as in `less (sum x) (sum y)`",
                 "the order of these tensors is known only at run time");
  }
  const Tensor *s = vm_tensor(c->vm, a), *t = vm_tensor(c->vm, b);
  order = tensor_order(s, t, c->is_order);
  vm_check_file(c->vm, s);
  vm_check_file(c->vm, t);
  return order;
}

/* ---- structures ---- */

typedef struct NodeStack { /* in memory of the machine's scratch */
  const Value **at;
  uint32_t count, cap;
} NodeStack;

static void push_node(Eval *vm, NodeStack *s, const Value *parts) {
  if (s->count == s->cap) {
    const Value **old = s->at;
    s->cap = s->cap ? 2 * s->cap : 64;
    s->at = vm_scratch(vm, s->cap * sizeof *s->at);
    memcpy(s->at, old ? old : s->at, s->count * sizeof *s->at);
  }
  s->at[s->count++] = parts;
}

const Value *const *vm_dict_items(Eval *vm, Value dict, uint32_t *count) {
  NodeStack items = {0}, path = {0};
  for (;;) {
    for (; dict.tag == V_CON; dict = path.at[path.count - 1][DICT_LEFT])
      push_node(vm, &path, AS_ARRAY(AS_CON(dict)->arg)->at);
    if (!path.count)
      break;
    push_node(vm, &items, path.at[--path.count]);
    dict = items.at[items.count - 1][DICT_RIGHT];
  }
  *count = items.count;
  return items.at;
}

/* In UTF-8, the order of bytes is the order of code points. */
static int order_of_strings(const String *a, const String *b) {
  uint32_t len = a->obj.len < b->obj.len ? a->obj.len : b->obj.len;
  int order = memcmp(a->text, b->text, len);
  return order ? order : order_of_ints(a->obj.len, b->obj.len);
}

static int order_of_shape_values(const ShapeObj *a, const ShapeObj *b) {
  int order = order_of_ints(a->obj.len, b->obj.len);
  for (uint32_t k = 0; k < a->obj.len && !order; k++)
    order = order_of_ints(a->extents[k], b->extents[k]);
  return order;
}

static int order_of_keys(const KeyObj *a, const KeyObj *b) {
  int order = 0;
  for (int i = 0; i < 2 && !order; i++)
    order =
        (a->key.word[i] > b->key.word[i]) - (a->key.word[i] < b->key.word[i]);
  return order;
}

/* The field with this label.  Records of one type can have different
 * layouts. */
static Value field_of(const Record *r, const Sym *label) {
  uint32_t i = 0;
  while (r->layout->labels[i] != label)
    i++;
  return r->at[i];
}

/* The label before `before` in alphabetical order; NULL: the last one. */
static const Sym *label_before(const RecordLayout *layout, const Sym *before) {
  const Sym *found = NULL;
  for (uint32_t i = 0; i < layout->len; i++) {
    const Sym *label = layout->labels[i];
    if ((!before || strcmp(label->text, before->text) < 0) &&
        (!found || strcmp(label->text, found->text) > 0))
      found = label;
  }
  return found;
}

static void push_fields(Comparison *c, const Record *a, const Record *b) {
  const Sym *label = NULL;
  while ((label = label_before(a->layout, label)))
    push_pair(c, field_of(a, label), field_of(b, label));
}

static int push_parts(Comparison *c, Value a, Value b) {
  const ValueArray *x = AS_ARRAY(a), *y = AS_ARRAY(b);
  for (uint32_t i = x->obj.len; i-- > 0 && x->obj.len == y->obj.len;)
    push_pair(c, x->at[i], y->at[i]);
  return order_of_ints(x->obj.len, y->obj.len);
}

static int order_of_lists(Comparison *c, Value a, Value b) {
  if (a.tag != b.tag)
    return a.tag == V_NIL ? -1 : 1;
  if (a.tag == V_NIL)
    return 0;
  push_pair(c, AS_CONS(a)->tail, AS_CONS(b)->tail);
  push_pair(c, AS_CONS(a)->head, AS_CONS(b)->head);
  return 0;
}

static const Con *con_of(Value v) {
  return v.tag == V_CON ? AS_CON(v)->con : v.con;
}

/* As lists of their items, which are in the order of the keys. */
static int order_of_dicts(Comparison *c, Value a, Value b) {
  uint32_t n, m;
  const Value *const *left = vm_dict_items(c->vm, a, &n);
  const Value *const *right = vm_dict_items(c->vm, b, &m);
  if (n != m && !c->is_order)
    return 1;
  push_pair(c, value_int(n), value_int(m));
  for (uint32_t i = n < m ? n : m; i-- > 0;) {
    push_pair(c, left[i][DICT_VALUE], right[i][DICT_VALUE]);
    push_pair(c, left[i][DICT_KEY], right[i][DICT_KEY]);
  }
  return 0;
}

/* Constructors are ordered as declared. */
static int order_of_datatypes(Comparison *c, Value a, Value b) {
  if (con_of(a)->is_dict)
    return order_of_dicts(c, a, b);
  int order = order_of_ints(con_of(a)->tag, con_of(b)->tag);
  if (!order && a.tag == V_CON)
    push_pair(c, AS_CON(a)->arg, AS_CON(b)->arg);
  return order;
}

/* Compares two values of one type, or pushes their parts. */
static int compare_pair(Comparison *c, Value a, Value b) {
  if (value_is_tensor(a))
    return order_of_tensors(c, a, b);
  switch ((ValueTag)a.tag) {
  case V_UNIT:
    return 0;
  case V_STRING:
    return order_of_strings(AS_STRING(a), AS_STRING(b));
  case V_TUPLE:
  case V_KEYS:
    return push_parts(c, a, b);
  case V_RECORD:
    push_fields(c, AS_RECORD(a), AS_RECORD(b));
    return 0;
  case V_NIL:
  case V_CONS:
    return order_of_lists(c, a, b);
  case V_NULLARY_CON:
  case V_CON:
    return order_of_datatypes(c, a, b);
  case V_SHAPE:
    return order_of_shape_values(AS_SHAPE(a), AS_SHAPE(b));
  case V_KEY:
    return order_of_keys(AS_KEY(a), AS_KEY(b));
  case V_NONE:
  case V_ABSENT:
  case V_ALL_AXES:
  case V_DTYPE:
  case V_FN:
  case V_RAW:
  case V_CLOSURE:
  case V_PARTIAL:
  case V_PRIM:
  case V_ENV:
  case V_TAPE:
  case V_PASS:
  case V_RULE:
  case V_NODE:
  case V_INDEX:
    break;
  }
  vm_fail(c->vm, 599, "internal error in eval: a value cannot be compared");
}

static int compare(Comparison *c, Value a, Value b) {
  int order = 0;
  push_pair(c, a, b);
  while (c->count && !order) {
    c->count -= 2;
    order = compare_pair(c, c->pairs[c->count], c->pairs[c->count + 1]);
  }
  return order;
}

static bool is_immediate(Value v) {
  return value_is_num(v) || v.tag == V_STRING;
}

/* The deferred tensors of both values run together. */
static int compare_values(Comparison *c, Value a, Value b) {
  Trap trap;
  if (is_immediate(a) && is_immediate(b))
    return compare_pair(c, a, b);
  if (!vm_must_defer(c->vm)) {
    vm_force_value(c->vm, a);
    vm_force_value(c->vm, b);
  }
  if (TRAP_SET(trap) == FAIL_NONE) {
    int order = compare(c, a, b);
    trap_end(&trap);
    mem_free(c->pairs);
    return order;
  }
  mem_free(c->pairs);
  trap_raise(trap.kind);
}

PRIM(prim_equal) {
  UNUSED;
  size_t mark = vm->temp_count;
  Comparison c = {.vm = vm};
  bool differ = compare_values(&c, args[0], args[1]) != 0;
  Value r = differ || c.unknown.tag == V_NONE ? value_bool(!differ)
                                              : value_retain(c.unknown);
  vm_drop_temps(vm, mark);
  return r;
}

PRIM(prim_compare) {
  UNUSED;
  size_t mark = vm->temp_count;
  Comparison c = {.vm = vm, .is_order = true};
  Value order =
      value_int(order_of_ints(compare_values(&c, args[0], args[1]), 0));
  if (c.unknown.tag != V_NONE)
    order = value_retain(order_then(vm, c.unknown, order));
  vm_drop_temps(vm, mark);
  return order;
}
