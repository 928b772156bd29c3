/* Indexing: x.[...] with exact indices, ranges, new axes and gathers. */
#include "tensor/internal.h"

static bool is_index(const Node *x, Fault *fault) {
  if (dtype_is_int(x->dtype))
    return true;
  fault_set(fault, "indices are integers, not %s", dtype_info[x->dtype].name);
  return false;
}

static bool at_fits(Graph *g, const Node *x, uint32_t axis, const Node *index,
                    Fault *fault) {
  Scalar known;
  int64_t extent = node_own(x)[axis], at;
  if (!is_index(index, fault))
    return false;
  if (g->guard || (!node_known(index, &known) && !node_is_size(index, &at)))
    return true; /* what is not known here is checked when it runs */
  if (node_known(index, &known))
    at = known.i;
  int64_t last = size_less(g, extent, 1);
  if (size_plainly(g, SIZE_LE, 0, at) && size_plainly(g, SIZE_LE, at, last))
    return true;
  fault_set(fault, "index %s is out of bounds for axis %u of size %s",
            size_text(g, at).text, axis, size_text(g, extent).text);
  Fault again = *fault;
  if (!size_demand(g, SIZE_LE, 0, at, fault))
    return false;
  *fault = again;
  return size_demand(g, SIZE_LE, at, last, fault);
}

static bool range_fits(Graph *g, const Node *x, uint32_t axis, const Item *item,
                       Fault *fault) {
  int64_t extent = node_own(x)[axis];
  int64_t ends[] = {0, item->from, item->to, extent};
  for (uint32_t k = 0; k < 3; k++) {
    if (size_plainly(g, SIZE_LE, ends[k], ends[k + 1]))
      continue;
    fault_set(fault, "slice %s:%s does not fit axis %u of size %s",
              size_text(g, item->from).text, size_text(g, item->to).text, axis,
              size_text(g, extent).text);
    fault_help(fault, "slices do not clamp: of %s, axis %u has 0:%s",
               node_text(g, x).text, axis, size_text(g, extent).text);
    if (!size_demand(g, SIZE_LE, ends[k], ends[k + 1], fault))
      return false;
  }
  return true;
}

static void push_axis(Form *form, int64_t extent, bool star) {
  form->stars |= (uint32_t)star << form->rank;
  form->own[form->rank++] = extent;
}

static bool room_for(const Form *form, uint32_t more, Fault *fault) {
  if (form->rank + more <= RANK_MAX)
    return true;
  fault_set(fault, "more than %d axes", RANK_MAX);
  return false;
}

/* The axes that an item puts into the result; *axis: the axis of x that it
 * stands for, moved on. */
static bool item_form(Graph *g, Form *form, const Node *x, const Item *item,
                      uint32_t *axis, Fault *fault) {
  bool takes = item->kind == ITEM_AT || item->kind == ITEM_RANGE;
  if (takes && *axis == x->rank)
    return true; /* too many: told by the count */
  switch (item->kind) {
  case ITEM_AT: {
    const Node *index = item->index;
    if (!at_fits(g, x, *axis, index, fault) ||
        !room_for(form, index->rank, fault))
      return false;
    for (uint32_t k = 0; k < index->rank; k++)
      push_axis(form, node_own(index)[k], node_is_star(index, k));
    return form_free(form, 1, &item->index, fault);
  }
  case ITEM_RANGE: {
    if (!range_fits(g, x, *axis, item, fault) || !room_for(form, 1, fault))
      return false;
    int64_t size = size_less(g, item->to, item->from);
    push_axis(form, size, node_is_star(x, *axis) && !item->sized);
    return true;
  }
  case ITEM_NEW:
  case ITEM_STAR:
    if (!room_for(form, 1, fault))
      return false;
    push_axis(form, 1, item->kind == ITEM_STAR);
    return true;
  }
  return true;
}

static bool items_form(Graph *g, Form *form, Node *x, uint32_t count,
                       const Item *items, Fault *fault) {
  uint32_t axis = 0, taken = 0;
  if (!form_free(form, 1, &x, fault))
    return false;
  for (uint32_t k = 0; k < count; k++) {
    bool takes = items[k].kind == ITEM_AT || items[k].kind == ITEM_RANGE;
    if (!item_form(g, form, x, &items[k], &axis, fault))
      return false;
    taken += takes;
    axis += takes && axis < x->rank;
  }
  if (taken == x->rank)
    return true;
  fault_set(fault, "%u indices for the %u axes of %s", taken, x->rank,
            node_text(g, x).text);
  fault_help(fault, "index every axis, or write ... for the others");
  return false;
}

Node *node_index_items(Graph *g, Node *x, uint32_t count, const Item *items,
                       Fault *fault) {
  Form form = {.dtype = x->dtype};
  if (!items_form(g, &form, x, count, items, fault))
    return NULL;
  Body b;
  body_init(&b, g, &form);
  uint32_t own[RANK_MAX], axis = 0, at = 0;
  for (uint32_t k = 0; k < count; k++) {
    const Item *item = &items[k];
    if (item->kind == ITEM_RANGE) {
      own[axis++] = body_plus(&b, body_own(&b, at++), item->from);
    } else if (item->kind == ITEM_AT) {
      uint32_t index = body_read_axes(&b, item->index, at);
      own[axis++] = body_convert(&b, index, DT_I64);
      at += item->index->rank;
    } else {
      at++;
    }
  }
  return body_move(&b, g, x, own, fault);
}

Node *node_gather(Graph *g, Node *x, Node *index, Fault *fault) {
  if (x->rank == 0) {
    fault_set(fault, "gather from a scalar: %s has no rows",
              node_text(g, x).text);
    return NULL;
  }
  if (!node_axis_sized(g, x, 0, "gather", fault))
    return NULL;
  Item items[RANK_MAX];
  items[0] = (Item){.kind = ITEM_AT, .index = index};
  for (uint32_t k = 1; k < x->rank; k++)
    items[k] = (Item){.kind = ITEM_RANGE, .to = node_own(x)[k]};
  return node_index_items(g, x, x->rank, items, fault);
}
