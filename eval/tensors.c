/* Primitives that make nodes: arguments to nodes, axes and shapes resolved. */
#include "eval/internal.h"

#include <string.h>

#define FAULT Fault fault = {0}
#define MADE(node) vm_node(vm, (node), &fault)

void vm_shape(Eval *vm, Value v, uint32_t *rank, int64_t *shape,
              uint32_t *stars) {
  *rank = 0;
  *stars = 0;
  if (value_is_num(v))
    return;
  const Node *n = vm_to_node(vm, v);
  *rank = n->rank;
  *stars = n->stars;
  for (uint32_t k = 0; k < n->rank; k++)
    shape[k] = node_size(n, k);
}

static uint32_t one_axis(Eval *vm, Value axis, uint32_t rank) {
  int64_t k = vm_int(vm, axis), at = k < 0 ? k + rank : k;
  if (at < 0 || at >= rank)
    vm_fail(vm, 507, "axis %lld of a tensor with %u axes", (long long)k, rank);
  return (uint32_t)at;
}

void vm_axis(Eval *vm, Value axis, uint32_t rank, uint32_t *first,
             uint32_t *count) {
  *first = 0;
  *count = rank;
  if (axis.tag == V_AXIS_ALL || axis.tag == V_ABSENT || axis.tag == V_UNIT)
    return;
  if (axis.tag != V_TUPLE) {
    *first = one_axis(vm, axis, rank);
    *count = 1;
    return;
  }
  const Value *at = AS_FIELDS(axis)->at;
  uint32_t last = one_axis(vm, at[0], rank);
  *first = last;
  *count = axis.obj->len;
  for (uint32_t i = 1; i < axis.obj->len; i++) {
    uint32_t next = one_axis(vm, at[i], rank);
    if (next != last + 1)
      vm_fail(vm, 507, "the axes of a tuple must be adjacent and ascending");
    last = next;
  }
}

/* An optional axis that is the last one unless given. */
static uint32_t axis_or_last(Eval *vm, Value axis, uint32_t rank) {
  if (!rank)
    vm_fail(vm, 507, "a scalar has no axis");
  uint32_t first, count;
  if (axis.tag == V_ABSENT)
    return rank - 1;
  vm_axis(vm, axis, rank, &first, &count);
  if (count != 1)
    vm_fail(vm, 507, "one axis is wanted");
  return first;
}

static bool flag_of(Eval *vm, Value v) {
  return v.tag != V_ABSENT && vm_bool(vm, v);
}

/* The axes of a shape argument. */
static const Shape *shape_of(Eval *vm, Value v) {
  if (v.tag != V_SHAPE)
    vm_fail(vm, 599, "compiler bug in eval: a shape is wanted");
  const Shape *s = AS_SHAPE(v);
  if (s->obj.len > RANK_MAX)
    vm_fail(vm, 507, "a tensor of %u axes; at most %d are possible", s->obj.len,
            RANK_MAX);
  return s;
}

static const Shape *full_shape(Eval *vm, Value v) {
  const Shape *s = shape_of(vm, v);
  for (uint32_t i = 0; i < s->obj.len; i++)
    if (s->at[i] < 0)
      vm_fail(vm, 507, "a tensor's axis cannot be %lld long",
              (long long)s->at[i]);
  return s;
}

static Dtype elem_of(const PrimSite *site) {
  return site->elem == DT_NONE ? DT_F32 : site->elem;
}

#define PRIM(name) \
  Value name(Eval *vm, const PrimSite *site, Value *args, uint32_t n)
#define UNUSED (void)site, (void)n

/* ---- reductions and products ---- */

PRIM(prim_reduce) {
  UNUSED;
  FAULT;
  bool one = site->prim == PRIM_ARGMAX || site->prim == PRIM_ARGMIN;
  if (value_is_num(args[2]) && !one)
    return args[2];
  Node *x = vm_to_node(vm, args[2]);
  uint32_t first, count;
  if (one) {
    first = axis_or_last(vm, args[0], x->rank);
    count = 1;
  } else {
    vm_axis(vm, args[0], x->rank, &first, &count);
  }
  if (!count && !one)
    return value_retain(args[2]);
  return MADE(node_reduce(&vm->graph, site->prim, x, first, count,
                          flag_of(vm, args[1]), &fault));
}

PRIM(prim_matmul) {
  UNUSED;
  FAULT;
  return MADE(node_matmul(&vm->graph, vm_to_node(vm, args[0]),
                          vm_to_node(vm, args[1]), &fault));
}

PRIM(prim_dot) {
  UNUSED;
  FAULT;
  return MADE(node_dot(&vm->graph, vm_to_node(vm, args[0]),
                       vm_to_node(vm, args[1]), &fault));
}

PRIM(prim_outer) {
  UNUSED;
  FAULT;
  return MADE(node_outer(&vm->graph, vm_to_node(vm, args[0]),
                         vm_to_node(vm, args[1]), &fault));
}

/* ---- einsum and permute: axes by name ---- */

enum {
  DOTS = 64,
  LABEL_MOST = 64
}; /* axes of `...` are DOTS + k from the
      right */

typedef struct Labels {
  const char *name[LABEL_MOST];
  size_t len[LABEL_MOST];
  uint32_t count;
} Labels;

static uint8_t label_of(Eval *vm, Labels *labels, const char *name,
                        size_t len) {
  for (uint32_t i = 0; i < labels->count; i++)
    if (labels->len[i] == len && !memcmp(labels->name[i], name, len))
      return (uint8_t)i;
  if (labels->count == LABEL_MOST)
    vm_fail(vm, 507, "more than %d axis names", LABEL_MOST);
  labels->name[labels->count] = name;
  labels->len[labels->count] = len;
  return (uint8_t)labels->count++;
}

/* Reads the names of one operand up to `,`, `->` or the end. */
static const char *read_labels(Eval *vm, Labels *labels, const char *at,
                               uint32_t rank, uint32_t *dots, uint8_t *out,
                               uint32_t *count) {
  uint32_t place = UINT32_MAX;
  *count = 0;
  for (;;) {
    at += strspn(at, " \t\n");
    if (!*at || *at == ',' || !strncmp(at, "->", 2))
      break;
    if (!strncmp(at, "...", 3)) {
      place = *count;
      at += 3;
      continue;
    }
    size_t len = strcspn(at, " \t\n,-.");
    if (!len || *count == RANK_MAX)
      vm_fail(vm, 507, "axis names cannot be read at: %.20s", at);
    out[(*count)++] = label_of(vm, labels, at, len);
    at += len;
  }
  if (place != UINT32_MAX) {
    uint32_t more = rank != UINT32_MAX && rank > *count ? rank - *count : 0;
    if (rank == UINT32_MAX)
      more = *dots;
    else if (more > *dots)
      *dots = more;
    if (*count + more > RANK_MAX)
      vm_fail(vm, 507, "a tensor of more than %d axes", RANK_MAX);
    memmove(out + place + more, out + place, *count - place);
    for (uint32_t k = 0; k < more; k++)
      out[place + k] = (uint8_t)(DOTS + more - 1 - k);
    *count += more;
  }
  if (rank != UINT32_MAX && *count != rank)
    vm_fail(vm, 507, "%u axis names for a tensor with %u axes", *count, rank);
  return at;
}

/* The pattern is the literal; it may stand among the arguments too. */
static const char *pattern_of(const PrimSite *site, Value **args, uint32_t *n,
                              uint32_t tensors) {
  const char *text = site->literal;
  if (*n == tensors + 1 || !text) {
    text = AS_STRING((*args)[0])->text;
    ++*args;
    --*n;
  }
  return text;
}

static const char *expect(Eval *vm, const char *at, const char *what) {
  if (strncmp(at, what, strlen(what)))
    vm_fail(vm, 507, "`%s` is missing among the axis names", what);
  return at + strlen(what);
}

PRIM(prim_einsum) {
  FAULT;
  uint32_t tensors = 1;
  for (const char *c = site->literal ? site->literal : ""; *c; c++)
    tensors += *c == ',';
  const char *at = pattern_of(site, &args, &n, tensors);
  Labels labels = {.count = 0};
  uint8_t(*names)[RANK_MAX] = vm_scratch(vm, (n + 1) * sizeof *names);
  const uint8_t **list = vm_scratch(vm, n * sizeof *list);
  Node **nodes = vm_scratch(vm, n * sizeof *nodes);
  uint32_t dots = 0, count;
  for (uint32_t i = 0; i < n; i++) {
    nodes[i] = vm_to_node(vm, args[i]);
    if (i)
      at = expect(vm, at, ",");
    at = read_labels(vm, &labels, at, nodes[i]->rank, &dots, names[i], &count);
    list[i] = names[i];
  }
  at = expect(vm, at, "->");
  read_labels(vm, &labels, at, UINT32_MAX, &dots, names[n], &count);
  return MADE(node_einsum(&vm->graph, n, nodes, list, count, names[n], &fault));
}

PRIM(prim_permute) {
  FAULT;
  const char *at = pattern_of(site, &args, &n, 1);
  Labels labels = {.count = 0};
  Node *x = vm_to_node(vm, args[0]);
  uint8_t from[RANK_MAX], to[RANK_MAX];
  uint32_t dots = 0, count, order[RANK_MAX];
  at = read_labels(vm, &labels, at, x->rank, &dots, from, &count);
  at = expect(vm, at, "->");
  read_labels(vm, &labels, at, UINT32_MAX, &dots, to, &count);
  if (count != x->rank)
    vm_fail(vm, 507, "permute keeps all %u axes; %u are named", x->rank, count);
  for (uint32_t k = 0; k < count; k++) {
    uint32_t j = 0;
    while (j < count && from[j] != to[k])
      j++;
    if (j == count)
      vm_fail(vm, 507, "permute names an axis that is not there");
    order[k] = j;
  }
  return MADE(node_permute(&vm->graph, x, order, &fault));
}

/* ---- sizes ---- */

PRIM(prim_dim) {
  UNUSED;
  uint32_t rank, stars, first, count;
  int64_t shape[RANK_MAX];
  vm_shape(vm, args[1], &rank, shape, &stars);
  vm_axis(vm, args[0], rank, &first, &count);
  return vm_product(vm, count, shape + first);
}

PRIM(prim_shape) {
  UNUSED;
  uint32_t rank, stars;
  int64_t shape[RANK_MAX];
  vm_shape(vm, args[0], &rank, shape, &stars);
  return value_shape(&vm->heap, rank, shape, stars);
}

PRIM(prim_prod_of) {
  UNUSED;
  const Shape *s = shape_of(vm, args[0]);
  return vm_product(vm, s->obj.len, s->at);
}

PRIM(prim_rank) {
  UNUSED;
  uint32_t rank, stars;
  int64_t shape[RANK_MAX];
  vm_shape(vm, args[0], &rank, shape, &stars);
  return value_int(rank);
}

/* ---- moving elements ---- */

PRIM(prim_reshape) {
  UNUSED;
  FAULT;
  const Shape *s = shape_of(vm, args[0]);
  return MADE(node_reshape(&vm->graph, vm_to_node(vm, args[1]), s->obj.len,
                           s->at, (uint32_t)s->stars, &fault));
}

PRIM(prim_flatten) {
  UNUSED;
  FAULT;
  Node *x = vm_to_node(vm, args[0]);
  if (!x->rank)
    vm_fail(vm, 507, "flatten of a scalar");
  if (!node_axis_sized(&vm->graph, x, 0, "flatten", &fault))
    vm_fault(vm, &fault);
  Value rest = vm_product(vm, x->rank - 1, &x->extents[x->free_count + 1]);
  vm_own(vm, rest);
  int64_t shape[2] = {node_size(x, 0), vm_size(vm, rest)};
  return MADE(node_reshape(&vm->graph, x, 2, shape, x->stars & 1, &fault));
}

PRIM(prim_transpose) {
  UNUSED;
  FAULT;
  Node *x = vm_to_node(vm, args[0]);
  uint32_t order[RANK_MAX];
  if (x->rank < 2)
    vm_fail(vm, 507, "transpose of a tensor with %u axes", x->rank);
  for (uint32_t k = 0; k < x->rank; k++)
    order[k] = k;
  order[x->rank - 2] = x->rank - 1;
  order[x->rank - 1] = x->rank - 2;
  return MADE(node_permute(&vm->graph, x, order, &fault));
}

PRIM(prim_concat) {
  UNUSED;
  FAULT;
  const Value *at = &args[1];
  uint32_t count = 1;
  if (args[1].tag == V_TUPLE) {
    at = AS_FIELDS(args[1])->at;
    count = args[1].obj->len;
  }
  Node **nodes = vm_scratch(vm, count * sizeof *nodes);
  for (uint32_t i = 0; i < count; i++)
    nodes[i] = vm_to_node(vm, at[i]);
  uint32_t axis = axis_or_last(vm, args[0], nodes[0]->rank);
  return MADE(node_concat(&vm->graph, axis, count, nodes, &fault));
}

PRIM(prim_stack) {
  UNUSED;
  uint32_t count = 0;
  for (Value v = args[0]; v.tag == V_CONS; v = AS_CONS(v)->tail)
    count++;
  if (!count)
    vm_fail(vm, 507,
            "stack of an empty list: the shape of its elements is "
            "not known");
  Value items = vm_new_tuple(vm, count);
  count = 0;
  for (Value v = args[0]; v.tag == V_CONS; v = AS_CONS(v)->tail)
    AS_FIELDS(items)->at[count++] = value_retain(AS_CONS(v)->head);
  return vm_stack_items(vm, count, AS_FIELDS(items)->at);
}

PRIM(prim_unstack) {
  UNUSED;
  Value list = {.tag = V_NIL};
  for (int64_t i = vm_loop_count(vm, vm_lead(vm, args[0])) - 1; i >= 0; i--) {
    vm_own(vm, list);
    Value row = vm_slice(vm, args[0], value_int(i));
    vm_own(vm, row);
    Value cell = value_cons(&vm->heap, row, list);
    vm->temp_count -= 2;
    list = cell;
  }
  return list;
}

static Node *part_of(Eval *vm, Node *x, uint32_t axis, int64_t from, int64_t to,
                     Fault *fault) {
  Item items[RANK_MAX];
  for (uint32_t k = 0; k < x->rank; k++)
    items[k] = (Item){.kind = ITEM_RANGE, .to = node_size(x, k)};
  items[axis].from = from;
  items[axis].to = to;
  return node_index_items(&vm->graph, x, x->rank, items, fault);
}

PRIM(prim_split) {
  UNUSED;
  FAULT;
  Node *x = vm_to_node(vm, args[2]);
  uint32_t axis = axis_or_last(vm, args[0], x->rank);
  const Shape *s = AS_SHAPE(args[1]);
  Graph *g = &vm->graph;
  if (!node_axis_sized(g, x, axis, "split", &fault))
    vm_fault(vm, &fault);
  int64_t all = node_size(x, axis), known = 0;
  uint32_t holes = 0, count = s->obj.len;
  bool good = true;
  for (uint32_t i = 0; i < count; i++) {
    if (s->at[i] >= 0)
      good = good && size_add(g, known, s->at[i], &known);
    else
      holes++;
  }
  SizeTest test = holes ? SIZE_LE : SIZE_EQ;
  if (!good || holes > 1 || !size_plainly(g, test, known, all)) {
    fault_set(&fault, "split of %s into pieces of %s in all",
              size_text(g, all).text, size_text(g, known).text);
    if (!good || holes > 1 || !size_demand(g, test, known, all, &fault))
      vm_fault(vm, &fault);
  }
  Value r = vm_new_tuple(vm, count);
  int64_t from = 0;
  for (uint32_t i = 0; i < count; i++) {
    int64_t size = s->at[i] >= 0 ? s->at[i] : size_less(g, all, known), to;
    if (!size_add(g, from, size, &to))
      vm_fail(vm, 506, "a size does not fit in 64 bits");
    AS_FIELDS(r)->at[i] = MADE(part_of(vm, x, axis, from, to, &fault));
    from = to;
  }
  return value_retain(r);
}

PRIM(prim_pad) {
  UNUSED;
  FAULT;
  Node *x = vm_to_node(vm, args[4]);
  uint32_t axis = axis_or_last(vm, args[0], x->rank);
  int64_t before = args[1].tag == V_ABSENT ? 0 : vm_size(vm, args[1]);
  int64_t after = args[2].tag == V_ABSENT ? 0 : vm_size(vm, args[2]);
  Scalar zero = scalar_convert((Scalar){DT_I64, {.i = 0}}, x->dtype);
  Scalar value =
      args[3].tag == V_ABSENT ? zero : value_to_scalar(vm_known(vm, args[3]));
  return MADE(node_pad(&vm->graph, x, axis, before, after, value, &fault));
}

PRIM(prim_reverse) {
  UNUSED;
  FAULT;
  Node *x = vm_to_node(vm, args[1]);
  return MADE(
      node_reverse(&vm->graph, x, axis_or_last(vm, args[0], x->rank), &fault));
}

PRIM(prim_roll) {
  UNUSED;
  FAULT;
  Node *x = vm_to_node(vm, args[2]);
  uint32_t axis = axis_or_last(vm, args[0], x->rank);
  int64_t by = vm_index_size(vm, args[1]);
  return MADE(node_roll(&vm->graph, x, axis, by, &fault));
}

PRIM(prim_tile) {
  UNUSED;
  FAULT;
  Node *x = vm_to_node(vm, args[2]);
  uint32_t axis = axis_or_last(vm, args[0], x->rank);
  return MADE(node_tile(&vm->graph, x, axis, vm_size(vm, args[1]),
                        site->prim == PRIM_REPEAT, &fault));
}

PRIM(prim_squeeze) {
  UNUSED;
  FAULT;
  Node *x = vm_to_node(vm, args[1]);
  uint32_t first, count;
  vm_axis(vm, args[0], x->rank, &first, &count);
  return MADE(node_squeeze(&vm->graph, x, first, count, &fault));
}

PRIM(prim_broadcast) {
  UNUSED;
  FAULT;
  const Shape *s = full_shape(vm, args[0]);
  return MADE(node_broadcast(&vm->graph, vm_to_node(vm, args[1]), s->obj.len,
                             s->at, (uint32_t)s->stars, &fault));
}

PRIM(prim_forget) {
  UNUSED;
  (void)vm;
  return value_retain(args[0]);
}

PRIM(prim_triangle) {
  UNUSED;
  FAULT;
  return MADE(node_triangle(&vm->graph, vm_to_node(vm, args[0]),
                            site->prim == PRIM_TRIL, &fault));
}

/* ---- gathering and ordering ---- */

static const Key no_key;

PRIM(prim_gather) {
  UNUSED;
  FAULT;
  return MADE(node_gather(&vm->graph, vm_to_node(vm, args[0]),
                          vm_to_node(vm, args[1]), &fault));
}

PRIM(prim_scatter) {
  FAULT;
  Node *nodes[3];
  int64_t params[4] = {0};
  for (uint32_t i = 0; i < n; i++)
    nodes[i] = vm_to_node(vm, args[i]);
  return MADE(
      node_opaque(&vm->graph, site->prim, n, nodes, params, no_key, 0, &fault));
}

PRIM(prim_one_hot) {
  UNUSED;
  FAULT;
  return MADE(node_one_hot(&vm->graph, vm_size(vm, args[0]),
                           vm_to_node(vm, args[1]), elem_of(site), &fault));
}

/* SORT, ARGSORT, CUMSUM */
PRIM(prim_sort) {
  UNUSED;
  FAULT;
  Node *x = vm_to_node(vm, args[1]);
  int64_t params[4] = {axis_or_last(vm, args[0], x->rank)};
  return MADE(
      node_opaque(&vm->graph, site->prim, 1, &x, params, no_key, 0, &fault));
}

PRIM(prim_topk) {
  UNUSED;
  FAULT;
  Node *x = vm_to_node(vm, args[1]);
  int64_t params[4] = {vm_size(vm, args[0])};
  Value r = vm_new_tuple(vm, 2);
  for (uint32_t i = 0; i < 2; i++)
    AS_FIELDS(r)->at[i] = MADE(
        node_opaque(&vm->graph, PRIM_TOPK, 1, &x, params, no_key, i, &fault));
  return value_retain(r);
}

PRIM(prim_nonzero) {
  UNUSED;
  FAULT;
  const Tensor *x = vm_tensor(vm, args[0]);
  Value r = vm_data(vm, run_nonzero(x, &fault), &fault);
  vm_check_file(vm, x);
  return r;
}

PRIM(prim_unique) {
  UNUSED;
  FAULT;
  Node *x = vm_to_node(vm, args[0]);
  int64_t params[4] = {0};
  Value sorted = MADE(
      node_opaque(&vm->graph, PRIM_SORT, 1, &x, params, no_key, 0, &fault));
  vm_temp(vm, sorted.node);
  return vm_data(vm, run_unique(vm_tensor(vm, sorted), &fault), &fault);
}

/* ---- making ---- */

/* ZEROS, ONES, FULL */
PRIM(prim_full) {
  UNUSED;
  FAULT;
  const Shape *s = full_shape(vm, args[0]);
  Value value = site->prim == PRIM_FULL
                    ? args[1]
                    : value_scalar(scalar_convert(
                          (Scalar){DT_I64, {.i = site->prim == PRIM_ONES}},
                          elem_of(site)));
  if (value_is_num(value))
    return MADE(node_full(&vm->graph, value_to_scalar(value), s->obj.len, s->at,
                          (uint32_t)s->stars, &fault));
  return MADE(node_broadcast(&vm->graph, vm_to_node(vm, value), s->obj.len,
                             s->at, (uint32_t)s->stars, &fault));
}

/* IOTA, EYE */
PRIM(prim_iota) {
  UNUSED;
  FAULT;
  int64_t size = vm_size(vm, args[0]);
  if (size < 0)
    vm_fail(vm, 507, "%s of %lld", prim_info[site->prim].name, (long long)size);
  return MADE(site->prim == PRIM_IOTA
                  ? node_iota(&vm->graph, elem_of(site), size, &fault)
                  : node_eye(&vm->graph, elem_of(site), size, &fault));
}

static Key key_of(Eval *vm, Value v) {
  if (v.tag != V_KEY)
    vm_fail(vm, 599, "compiler bug in eval: a key is wanted");
  return AS_KEY(v)->key;
}

/* Keys are numbers in the text of a kernel. */
static int64_t seed_of(Eval *vm, Value v) {
  if (vm_traces(vm) && v.tag == V_NODE && v.node->open)
    vm_fail_at(vm, (Span){0}, 612,
               "take the random numbers themselves as an argument, or give the "
               "seed as a number",
               "a function that is compiled can only make random numbers of "
               "seeds that are numbers in the program; this one is known only "
               "when the function runs");
  return vm_int(vm, v);
}

PRIM(prim_key) {
  UNUSED;
  return value_key(&vm->heap, key_from_seed(seed_of(vm, args[0])));
}

PRIM(prim_split_key) {
  UNUSED;
  Key key = key_of(vm, args[0]);
  Value r = vm_new_tuple(vm, 2);
  for (uint32_t i = 0; i < 2; i++)
    AS_FIELDS(r)->at[i] = value_key(&vm->heap, key_split(key, i));
  return value_retain(r);
}

PRIM(prim_fold_key) {
  UNUSED;
  uint64_t index = (uint64_t)seed_of(vm, args[1]);
  return value_key(&vm->heap, key_split(key_of(vm, args[0]), index));
}

PRIM(prim_random) {
  UNUSED;
  FAULT;
  const Shape *s = full_shape(vm, args[1]);
  return MADE(node_random(&vm->graph, site->prim, key_of(vm, args[0]),
                          elem_of(site), s->obj.len, s->at, (uint32_t)s->stars,
                          &fault));
}

PRIM(prim_permutation) {
  UNUSED;
  FAULT;
  int64_t params[4] = {vm_size(vm, args[1])};
  return MADE(node_opaque(&vm->graph, site->prim, 0, NULL, params,
                          key_of(vm, args[0]), 0, &fault));
}
