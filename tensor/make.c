/* Constructors that compute: pointwise operations, reductions, choices, the
 * end of a `for`, and tensors made from sizes. */
#include "tensor/internal.h"

#include <stdatomic.h>
#include <string.h>

/* ---- broadcasting ---- */

/* Extends the form by the axes of x, aligned right; by[k] is the node that
 * decided own axis k. */
static bool join(Graph *g, Form *form, const Node *by[RANK_MAX], const Node *x,
                 Fault *fault) {
  uint32_t lead = form->rank - x->rank;
  const int64_t *own = node_own(x);
  for (uint32_t k = 0; k < x->rank; k++) {
    uint32_t at = lead + k;
    bool star = form->stars >> at & 1;
    if (!by[at] || (star && !node_is_star(x, k))) {
      by[at] = x;
      form->own[at] = own[k];
      form->stars &= ~(uint32_t)(1u << at);
      form->stars |= (uint32_t)node_is_star(x, k) << at;
    } else if (!node_is_star(x, k) && own[k] != form->own[at]) {
      fault_set(fault, "shapes %s and %s do not broadcast: %s meets %s",
                node_text(g, by[at]).text, node_text(g, x).text,
                size_text(g, form->own[at]).text, size_text(g, own[k]).text);
      fault->kind = FAULT_BROADCAST;
      if (own[k] == 1 || form->own[at] == 1)
        fault_help(fault, "a size of 1 does not stretch: write * for that axis,"
                          " as in x.[:, *]");
      if (!size_demand(g, SIZE_EQ, form->own[at], own[k], fault))
        return false;
    }
  }
  return true;
}

static bool form_broadcast(Graph *g, Form *form, uint32_t count,
                           Node *const *args, Fault *fault) {
  const Node *by[RANK_MAX] = {NULL};
  for (uint32_t k = 0; k < count; k++)
    if (args[k]->rank > form->rank)
      form->rank = args[k]->rank;
  for (uint32_t k = 0; k < count; k++)
    if (!join(g, form, by, args[k], fault))
      return false;
  return form_free(form, count, args, fault);
}

/* ---- pointwise ---- */

/* What an operation's scheme says: of which types its elements are, and
 * whether it is a test. */
typedef enum Wants {
  READ = 1,
  TEST = 2,
  BOOLS = 4,
  FLOATS = 8,
  NUMBERS = 16
} Wants;

static uint8_t read_scheme(const char *scheme) {
  return READ | (strstr(scheme, "-> bool[") ? TEST : 0) |
         (strncmp(scheme, "bool[", 5) == 0 ? BOOLS : 0) |
         (strstr(scheme, "'a : float") ? FLOATS : 0) |
         (strstr(scheme, "'a : num") ? NUMBERS : 0);
}

static uint8_t wants(PrimId op) {
  static _Atomic uint8_t known[PRIM_COUNT];
  uint8_t w = atomic_load_explicit(&known[op], memory_order_relaxed);
  if (!w) {
    w = read_scheme(prim_info[op].scheme);
    atomic_store_explicit(&known[op], w, memory_order_relaxed);
  }
  return w;
}

static bool is_test(PrimId op) {
  return wants(op) & TEST;
}

/* What the row's scheme wants of the element type. */
static bool class_fits(PrimId op, Dtype t) {
  uint8_t w = wants(op);
  if (w & BOOLS)
    return t == DT_BOOL;
  if (w & FLOATS)
    return dtype_is_float(t);
  return t != DT_BOOL || !(w & NUMBERS);
}

static bool map_types(PrimId op, uint32_t count, Node *const *args,
                      Fault *fault) {
  const char *name = prim_info[op].name;
  if (prim_info[op].class != PC_MAP || count == 0 || count > 3) {
    fault_set(fault, "%s is no pointwise operation", name);
    return false;
  }
  uint32_t first = op == PRIM_SELECT;
  if (first && (count != 3 || args[0]->dtype != DT_BOOL)) {
    fault_set(fault, "the condition of select must be bool, not %s",
              dtype_info[args[0]->dtype].name);
    return false;
  }
  Dtype t = args[first]->dtype;
  for (uint32_t k = first; k < count; k++)
    if (args[k]->dtype != t) {
      fault_set(fault, "element types differ: %s and %s", dtype_info[t].name,
                dtype_info[args[k]->dtype].name);
      return false;
    }
  if (op == PRIM_SELECT || op == PRIM_CONVERT || class_fits(op, t))
    return true;
  fault_set(fault, "%s does not take elements of type %s", name,
            dtype_info[t].name);
  return false;
}

typedef enum Fold { FOLD_NOT, FOLD_DONE, FOLD_FAULT } Fold;

/* What is computed of sizes is one, and a comparison that is decided, too. */
static Node *folded_sizes(Graph *g, Node *made) {
  int64_t size;
  SizeFact fact;
  Node *known = NULL;
  if (made->rank || made->free_count)
    return made;
  for (uint32_t k = 0; k < made->cell_count; k++)
    if (made->cells[k].kind == CELL_READ)
      return made;
  if (made->dtype == DT_I64 && node_to_size(g, made, &size))
    known = node_size_scalar(g, size);
  else if (made->dtype == DT_BOOL && node_to_fact(g, made, &fact)) {
    Verdict v = size_test(g, fact.test, fact.x, fact.y);
    if (v != OPEN)
      known = node_scalar(g, (Scalar){DT_BOOL, {.i = v == PROVED}});
  }
  if (!known)
    return made;
  node_release(made);
  return known;
}

static Fold fold(Graph *g, PrimId op, uint32_t count, Node *const *args,
                 Dtype result, Scalar *value, Fault *fault) {
  Scalar x[3];
  for (uint32_t k = 0; k < count; k++)
    if (!node_known(args[k], &x[k]))
      return FOLD_NOT;
  Arith bad = scalar_apply(op, count, x, result, value);
  if (bad == ARITH_OK)
    return FOLD_DONE;
  if (g->guard) /* it may be that this is never run */
    return FOLD_NOT;
  fault_set_kind(fault, FAULT_ARITHMETIC, arith_text(bad));
  return FOLD_FAULT;
}

Node *node_map(Graph *g, PrimId op, uint32_t count, Node *const *args,
               Dtype result, Fault *fault) {
  if (!map_types(op, count, args, fault))
    return NULL;
  if (op != PRIM_CONVERT)
    result = is_test(op) ? DT_BOOL : args[op == PRIM_SELECT]->dtype;
  else if (args[0]->dtype == result)
    return node_retain(args[0]);
  Scalar value;
  Fold folded = fold(g, op, count, args, result, &value, fault);
  if (folded == FOLD_DONE)
    return node_scalar(g, value);
  Form form = {.dtype = result};
  if (folded == FOLD_FAULT || !form_broadcast(g, &form, count, args, fault))
    return NULL;
  Body b;
  body_init(&b, g, &form);
  uint32_t cells[3];
  for (uint32_t k = 0; k < count; k++)
    cells[k] = body_read_axes(&b, args[k], form.rank - args[k]->rank);
  if (op == PRIM_CONVERT)
    body_convert(&b, cells[0], result);
  else
    body_op(&b, op, result, count, cells);
  Node *made = body_node(&b, g, fault);
  return made && g->sizes ? folded_sizes(g, made) : made;
}

/* ---- choosing ---- */

static bool same_shape(Graph *g, const Node *a, const Node *b, Fault *fault) {
  bool same = a->rank == b->rank;
  for (uint32_t k = 0; k == 0 || (same && k < a->rank); k++) {
    if (same && (!a->rank || node_own(a)[k] == node_own(b)[k]))
      continue;
    fault_set(fault, "the branches of if differ in shape: %s and %s",
              node_text(g, a).text, node_text(g, b).text);
    same =
        same && size_demand(g, SIZE_EQ, node_own(a)[k], node_own(b)[k], fault);
  }
  return same;
}

Node *node_select_lazy(Graph *g, Node *c, Node *a, Node *b, Fault *fault) {
  Scalar known;
  if (c->dtype != DT_BOOL || c->rank || a->dtype != b->dtype) {
    fault_set(fault,
              "if wants a bool and two values of one type, not %s, %s, "
              "%s",
              node_text(g, c).text, node_text(g, a).text, node_text(g, b).text);
    return NULL;
  }
  if (!same_shape(g, a, b, fault))
    return NULL;
  if (node_known(c, &known))
    return node_retain(known.i ? a : b);
  Form form = {
      .dtype = a->dtype, .rank = a->rank, .stars = a->stars & b->stars};
  memcpy(form.own, node_own(a), a->rank * sizeof form.own[0]);
  if (!form_free(&form, 3, (Node *[]){c, a, b}, fault))
    return NULL;
  Body body;
  body_init(&body, g, &form);
  uint32_t own[RANK_MAX];
  for (uint32_t k = 0; k < form.rank; k++)
    own[k] = body_own(&body, k);
  uint32_t test = body_read(&body, c, own), x = body_read(&body, a, own);
  uint32_t y = body_read(&body, b, own);
  body_select(&body, test, x, y);
  return body_node(&body, g, fault);
}

/* ---- reductions ---- */

static bool reduce_fits(Graph *g, PrimId op, const Node *x, uint32_t first,
                        uint32_t count, Fault *fault) {
  const char *name = prim_info[op].name;
  if (prim_info[op].class != PC_REDUCE || !class_fits(op, x->dtype)) {
    fault_set(fault, "%s does not take elements of type %s", name,
              dtype_info[x->dtype].name);
    return false;
  }
  if (first > x->rank || count > x->rank - first) {
    fault_set(fault, "%s over axes %u to %u, but %s has %u", name, first,
              first + count - 1, node_text(g, x).text, x->rank);
    return false;
  }
  bool arg = op == PRIM_ARGMAX || op == PRIM_ARGMIN;
  for (uint32_t k = first; arg && k < first + count; k++) {
    if (!node_axis_sized(g, x, k, name, fault))
      return false;
    if (size_is_number(g, node_own(x)[k]) && node_own(x)[k] > 0)
      continue;
    fault_set(fault, "%s of nothing: %s has no elements there", name,
              node_text(g, x).text);
    if (!size_demand(g, SIZE_LE, 1, node_own(x)[k], fault))
      return false;
  }
  return true;
}

static void reduce_form(Form *form, const Node *x, uint32_t first,
                        uint32_t count, bool keep) {
  const int64_t *own = node_own(x);
  for (uint32_t k = 0; k < x->rank; k++) {
    bool gone = k >= first && k < first + count;
    if (gone)
      form->reduced[form->reduce_count++] = own[k];
    if (gone && !keep)
      continue;
    form->stars |= (uint32_t)(gone || node_is_star(x, k)) << form->rank;
    form->own[form->rank++] = gone ? 1 : own[k];
  }
}

static Node *reduce_node(Graph *g, const Form *form, Node *x, uint32_t first,
                         uint32_t count, bool keep, Fault *fault) {
  Body b;
  body_init(&b, g, form);
  uint32_t own[RANK_MAX], kept = keep ? count : 0;
  for (uint32_t k = 0; k < x->rank; k++)
    if (k >= first && k < first + count)
      own[k] = body_reduced(&b, k - first);
    else
      own[k] = body_own(&b, k < first ? k : k - count + kept);
  return body_move(&b, g, x, own, fault);
}

Node *node_reduce(Graph *g, PrimId op, Node *x, uint32_t first, uint32_t count,
                  bool keep, Fault *fault) {
  if (!reduce_fits(g, op, x, first, count, fault))
    return NULL;
  bool arg = op == PRIM_ARGMAX || op == PRIM_ARGMIN;
  if (count == 0 && !arg)
    return node_retain(x);
  bool apart = false;
  Node *sum = op == PRIM_SUM && !keep
                  ? sum_apart(g, x, first, count, &apart, fault)
                  : NULL;
  if (apart)
    return sum;
  Form form = {.dtype = arg ? DT_I64 : x->dtype, .reduce = op};
  form_free(&form, 1, &x, fault);
  reduce_form(&form, x, first, count, keep);
  sum = op == PRIM_SUM ? moments_sum(g, x, first, count, keep, &form, fault)
                       : NULL;
  if (sum)
    return sum;
  Node *wide = op == PRIM_SUM ? sum_wide(g, x, fault) : x;
  if (!wide || wide == x)
    return wide ? reduce_node(g, &form, x, first, count, keep, fault) : NULL;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    node_release(wide);
    trap_raise(trap.kind);
  }
  sum = reduce_node(g, &form, wide, first, count, keep, fault);
  trap_end(&trap);
  node_release(wide);
  return sum;
}

/* ---- the end of a `for` ---- */

Node *node_close(Graph *g, Node *x, uint32_t count, IndexVar *const *vars,
                 Fault *fault) {
  if (count + x->rank > RANK_MAX) {
    fault_set(fault, "more than %d axes", RANK_MAX);
    return NULL;
  }
  Form form = {.dtype = x->dtype,
               .rank = count + x->rank,
               .stars = count < 32 ? x->stars << count : 0};
  for (uint32_t k = 0; k < x->free_count; k++) {
    bool closed = false;
    for (uint32_t j = 0; j < count; j++)
      closed |= vars[j] == x->free[k];
    if (!closed)
      form_free_add(&form, x->free[k]);
  }
  for (uint32_t k = 0; k < count; k++)
    form.own[k] = vars[k]->extent;
  memcpy(form.own + count, node_own(x), x->rank * sizeof form.own[0]);
  Body b;
  body_init(&b, g, &form);
  IndexBinding bound[RANK_MAX];
  uint32_t own[RANK_MAX];
  for (uint32_t k = 0; k < count; k++)
    bound[k] = (IndexBinding){vars[k], body_own(&b, k)};
  for (uint32_t k = 0; k < x->rank; k++)
    own[k] = body_own(&b, count + k);
  body_read_bound(&b, x, own, count, bound);
  return body_node(&b, g, fault);
}

/* ---- from sizes ---- */

static bool form_shape(Graph *g, Form *form, uint32_t rank,
                       const int64_t *shape, uint32_t stars, Fault *fault) {
  if (rank > RANK_MAX) {
    fault_set(fault, "more than %d axes", RANK_MAX);
    return false;
  }
  form->rank = rank;
  form->stars = stars;
  for (uint32_t k = 0; k < rank; k++) {
    form->own[k] = shape[k];
    if (size_is_number(g, shape[k]) && shape[k] >= 0)
      continue;
    fault_set(fault, "a size cannot be negative: %s is asked for",
              size_text(g, shape[k]).text);
    if (!size_demand(g, SIZE_LE, 0, shape[k], fault))
      return false;
  }
  return true;
}

Node *node_full(Graph *g, Scalar x, uint32_t rank, const int64_t *shape,
                uint32_t stars, Fault *fault) {
  Form form = {.dtype = x.dtype};
  if (!form_shape(g, &form, rank, shape, stars, fault))
    return NULL;
  Body b;
  body_init(&b, g, &form);
  body_const(&b, x);
  return body_node(&b, g, fault);
}

Node *node_iota(Graph *g, Dtype dtype, int64_t n, Fault *fault) {
  Form form = {.dtype = dtype};
  if (!form_shape(g, &form, 1, &n, 0, fault))
    return NULL;
  Body b;
  body_init(&b, g, &form);
  body_convert(&b, body_own(&b, 0), dtype);
  return body_node(&b, g, fault);
}

Node *node_eye(Graph *g, Dtype dtype, int64_t n, Fault *fault) {
  Form form = {.dtype = dtype};
  if (!form_shape(g, &form, 2, (int64_t[]){n, n}, 0, fault))
    return NULL;
  Body b;
  body_init(&b, g, &form);
  uint32_t row = body_own(&b, 0), column = body_own(&b, 1);
  uint32_t same = body_op2(&b, PRIM_EQ, DT_BOOL, row, column);
  body_convert(&b, same, dtype);
  return body_node(&b, g, fault);
}

Node *node_random(Graph *g, PrimId op, Key key, Dtype dtype, uint32_t rank,
                  const int64_t *shape, uint32_t stars, Fault *fault) {
  Form form = {.dtype = dtype};
  if (!form_shape(g, &form, rank, shape, stars, fault))
    return NULL;
  if (!dtype_is_float(dtype)) {
    fault_set(fault, "random numbers are floats, not %s",
              dtype_info[dtype].name);
    return NULL;
  }
  int64_t count;
  if (!size_product(g, rank, shape, &count)) {
    fault_set(fault, "%s has too many elements",
              form_text(g, dtype, rank, shape, stars).text);
    return NULL;
  }
  Body b;
  body_init(&b, g, &form);
  uint32_t number = UINT32_MAX;
  int64_t stride = 1;
  for (uint32_t k = rank; k-- > 0;) {
    uint32_t part = body_times(&b, body_own(&b, k), stride);
    size_mul(g, stride, form.own[k] ? form.own[k] : 1, &stride);
    number = number == UINT32_MAX
                 ? part
                 : body_op2(&b, PRIM_ADD, DT_I64, number, part);
  }
  if (number == UINT32_MAX)
    number = body_int(&b, 0);
  body_random(&b, op, key, dtype, number);
  return body_node(&b, g, fault);
}

Node *node_one_hot(Graph *g, int64_t k, Node *index, Dtype dtype,
                   Fault *fault) {
  Form form = {.dtype = dtype};
  if (!dtype_is_int(index->dtype)) {
    fault_set(fault, "indices are integers, not %s",
              dtype_info[index->dtype].name);
    return NULL;
  }
  uint32_t rank = index->rank;
  int64_t shape[RANK_MAX + 1];
  memcpy(shape, node_own(index), rank * sizeof shape[0]);
  shape[rank] = k;
  if (!form_shape(g, &form, rank + 1, shape, index->stars, fault) ||
      !form_free(&form, 1, &index, fault))
    return NULL;
  Body b;
  body_init(&b, g, &form);
  uint32_t at = body_convert(&b, body_read_axes(&b, index, 0), DT_I64);
  uint32_t own = body_own(&b, rank);
  body_convert(&b, body_op2(&b, PRIM_EQ, DT_BOOL, at, own), dtype);
  return body_node(&b, g, fault);
}
