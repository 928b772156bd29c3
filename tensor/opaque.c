/* Nodes that are no comprehension.  What their parameters mean:
 *
 *   SORT, ARGSORT, CUMSUM   inputs x            params axis
 *   SCATTER                 inputs x, index, y
 *   PERMUTATION             key                 params n
 *   TOPK                    inputs x            params k; outputs values (0)
 *                                               and indices (1)
 *   FOLD, SCAN              inputs states, others
 *                                               params turns, how many states,
 *                                               the set of inputs that have an
 *                                               element for each turn, output
 *
 * A fold has cells, which compute one turn for one element of its states:
 * CELL_AXIS k is input k there (one without axes is the same for all), the
 * last cells are what each state becomes, and of a scan what is kept.
 *
 * With free indices each slice is treated on its own (a permutation has
 * none).  Their inputs are always stored. */
#include "tensor/internal.h"

#include <string.h>

static void like(Form *form, const Node *x) {
  form->dtype = x->dtype;
  form->rank = x->rank;
  form->stars = x->stars;
  memcpy(form->own, node_own(x), x->rank * sizeof form->own[0]);
}

static bool along_axis(const Graph *g, Form *form, PrimId op, const Node *x,
                       int64_t axis, Fault *fault) {
  if (axis < 0 || axis >= x->rank) {
    fault_set(fault, "%s along axis %lld, but %s has %u", prim_info[op].name,
              (long long)axis, node_text(g, x).text, x->rank);
    return false;
  }
  if (!node_axis_sized(g, x, (uint32_t)axis, prim_info[op].name, fault))
    return false;
  like(form, x);
  if (op == PRIM_ARGSORT)
    form->dtype = DT_I64;
  return true;
}

static bool scatter_form(Graph *g, Form *form, const Node *x, const Node *index,
                         const Node *y, Fault *fault) {
  if (!dtype_is_int(index->dtype) || x->dtype != y->dtype) {
    fault_set(fault,
              "scatter wants integer indices and one element type, not "
              "%s, %s, %s",
              node_text(g, x).text, node_text(g, index).text,
              node_text(g, y).text);
    return false;
  }
  bool fits = index->rank == 1 && x->rank >= 1 && x->rank == y->rank;
  for (uint32_t k = 0; k == 0 || (fits && k < x->rank); k++) {
    int64_t rows = fits ? node_own(k ? x : index)[k] : 0;
    if (fits && rows == node_own(y)[k])
      continue;
    fault_set(fault,
              "scatter wants rows of one shape and an index for each, "
              "not %s, %s, %s",
              node_text(g, x).text, node_text(g, index).text,
              node_text(g, y).text);
    if (!fits || !size_demand(g, SIZE_EQ, rows, node_own(y)[k], fault))
      return false;
  }
  like(form, x);
  return true;
}

static bool topk_form(Graph *g, Form *form, const Node *x, int64_t k,
                      uint32_t output, Fault *fault) {
  int64_t ends[] = {0, k, x->rank ? node_own(x)[x->rank - 1] : 0};
  for (uint32_t at = 0; at < 2; at++) {
    if (x->rank && size_plainly(g, SIZE_LE, ends[at], ends[at + 1]))
      continue;
    fault_set(fault, "topk of %s elements from %s", size_text(g, k).text,
              node_text(g, x).text);
    if (!x->rank || !size_demand(g, SIZE_LE, ends[at], ends[at + 1], fault))
      return false;
  }
  like(form, x);
  form->own[x->rank - 1] = k;
  form->stars &= ~((uint32_t)1 << (x->rank - 1));
  if (output)
    form->dtype = DT_I64;
  return true;
}

static bool permutation_form(Graph *g, Form *form, int64_t n, Fault *fault) {
  if (!size_plainly(g, SIZE_LE, 0, n)) {
    fault_set(fault, "a size cannot be negative: %s is asked for",
              size_text(g, n).text);
    if (!size_demand(g, SIZE_LE, 0, n, fault))
      return false;
  }
  form->dtype = DT_I64;
  form->rank = 1;
  form->own[0] = n;
  return true;
}

static bool opaque_form(Graph *g, Form *form, PrimId op, uint32_t count,
                        Node *const *inputs, const int64_t params[4],
                        uint32_t output, Fault *fault) {
  if (op == PRIM_PERMUTATION && count == 0)
    return permutation_form(g, form, params[0], fault);
  if (op == PRIM_SCATTER && count == 3)
    return scatter_form(g, form, inputs[0], inputs[1], inputs[2], fault);
  if (op == PRIM_TOPK && count == 1)
    return topk_form(g, form, inputs[0], params[0], output, fault);
  if ((op == PRIM_SORT || op == PRIM_ARGSORT || op == PRIM_CUMSUM) &&
      count == 1)
    return along_axis(g, form, op, inputs[0], params[0], fault);
  fault_set(fault, "%s is no operation on %u tensors", prim_info[op].name,
            count);
  return false;
}

static void take_inputs(Graph *g, Node *n, uint32_t count, Node *const *inputs,
                        const Form *form) {
  n->inputs = mem_try_alloc(count * sizeof *n->inputs);
  if (!n->inputs) {
    node_release(n);
    trap_raise(FAIL_MEMORY);
  }
  n->input_count = count;
  for (uint32_t k = 0; k < count; k++) {
    n->inputs[k] = node_retain(inputs[k]);
    node_needs(n, inputs[k]);
  }
  node_set_guard(g, n, form);
  node_count_pending(g, n);
}

Node *node_opaque(Graph *g, PrimId op, uint32_t count, Node *const *inputs,
                  const int64_t params[4], Key key, uint32_t output,
                  Fault *fault) {
  Form form = {0};
  if (!opaque_form(g, &form, op, count, inputs, params, output, fault) ||
      !form_free(&form, count, inputs, fault))
    return NULL;
  if (form.free_count + form.rank > RANK_MAX) {
    fault_set(fault, "more than %d axes and indices together", RANK_MAX);
    return NULL;
  }
  Node *n = node_alloc(g, NODE_OPAQUE, &form);
  n->op = op;
  n->key = key;
  n->output = output;
  memcpy(n->params, params, sizeof n->params);
  take_inputs(g, n, count, inputs, &form);
  return n;
}

Node *node_in_order(Graph *g, const FoldLoop *loop, bool all, const Node *shape,
                    uint32_t count, Node *const *inputs, Dtype dtype,
                    Fault *fault) {
  Form form = {.dtype = dtype, .rank = shape->rank + all,
               .stars = shape->stars << all};
  form.own[0] = loop->turns;
  memcpy(form.own + all, node_own(shape), shape->rank * sizeof form.own[0]);
  bool fits = form_free(&form, count, inputs, fault) &&
              form.free_count + form.rank <= RANK_MAX;
  Node *n = fits ? node_try_alloc(g, NODE_OPAQUE, &form) : NULL;
  if (!n) {
    mem_free(loop->cells);
    return NULL;
  }
  n->op = all ? PRIM_SCAN : PRIM_FOLD;
  n->cells = loop->cells;
  n->cell_count = loop->cell_count;
  n->params[0] = loop->turns;
  n->params[1] = loop->states;
  n->params[2] = (int64_t)loop->turning;
  n->params[3] = loop->output;
  take_inputs(g, n, count, inputs, &form);
  return n;
}
