/* Clusters: which stored nodes become one kernel.
 *
 * Two nodes may be in one where the reader's every access to the other has the
 * same variable in some of its axes: these are the *shared* axes, and along
 * them neither needs what another point computes.  So a maximum of each row,
 * what is subtracted from it and the sum of that share the rows; what follows
 * a matrix product shares all of its axes; a row softmax between two products
 * shares the rows with both.
 *
 * They are put together where that saves traffic with memory, leaves enough
 * independent points for all cores, and what is local to a point fits into a
 * cache. */
#include "tensor/group.h"
#include "tensor/kernel.h"

#include "machine/machine.h"

#include <string.h>

enum {
  LANES = 16,             /* points that go together, where they are vectors */
  LOCAL_MOST = 128 << 10, /* bytes of one row, if the backend does not say, */
  STRIP_MOST = 8 << 10,   /* of one of several columns, */
  TILE_MOST = 1 << 20,    /* of the rows that a product takes at a time */
  UNITS_LEAST = 4,        /* independent pieces for each core */
  DEPTHS_MOST = 512,      /* of two products that share a row: together */
  ROWS_LEAST = 256,       /* of a product, for each core */
  CACHED_MOST = 16 << 20, /* bytes that a cache keeps for the next kernel, */
  CHEAP_MOST = 1 << 20, /* of a product of few terms, which costs as much as */
  FEW_TERMS = 128,      /* to write it and to read it again */
  CUT_UNITS = 16,       /* fewer pieces than that, of */
  CUT_WORK = 1 << 20,   /* more work than that: sums are cut */
  MERGED_MOST = 4096,   /* stored nodes of a plan that is looked at, */
  BESIDE_LEAST = 1 << 20, /* points of a kernel that keeps its rows, and as */
  BESIDE = 64,            /* many times those of what comes before */
  ITEMS_MOST = 48,      /* of a cluster: backends take kernels of 64 loops */
  TILED_WORK = 1 << 24, /* terms of a product that is a kernel by itself where
                           rows between two may be one */
};
static const double stored_most = 4e9; /* bytes of rows that it leaves then */

typedef struct Candidate {
  PlanNode *p;
  Stage *stage; /* NULL: stays alone */
  Cuts cuts;
  bool product;
  bool fits;    /* has to, into a cache: cannot go in portions */
  bool tried;   /* the backend has no kernel of the rows that it would share */
  double depth; /* of a product: terms of a sum */
  struct Draft *draft;
  uint32_t shared[KERNEL_AXES];
  uint32_t position;
} Candidate;

typedef struct Draft {    /* a cluster under construction */
  VEC(Candidate *) items; /* in the order of the plan */
  uint32_t outer;
  uint32_t number, seen; /* number: after all that it reads */
  bool done;
  bool big;  /* its rows do not fit into a cache: they have to go in portions */
  bool rows; /* if the backend has a kernel for it */
  Cluster *cluster; /* once it is done */
} Draft;

typedef struct Clusterer {
  Plan *plan;
  Arena *arena;
  Candidate *items; /* one for each stored node, in order */
  uint32_t stamp, numbers;
  bool kernels;
} Clusterer;

static Candidate *item_of(const Clusterer *c, const Node *n) {
  PlanNode *p = n->mark ? c->plan->nodes.at[n->mark - 1] : NULL;
  return p && p->stored && p->needed ? &c->items[p->position] : NULL;
}

/* ---- stages ---- */

/* The reader walks over an axis of x as over several: x is cut likewise.
 * Windows that overlap do not. */
static void want_cuts(Clusterer *c, const Loop *reader, const Quasi *at,
                      uint32_t axis, const Node *x, Cuts *cuts) {
  Graph *g = reader->graph;
  for (uint32_t v = 0; v < reader->kept; v++) {
    int64_t t = at->times[v], left;
    Quasi *upper, *lower;
    if (t != 0 && t != 1 && size_holds(g, SIZE_LE, 0, t) &&
        size_mod(g, x->extents[axis], t, &left) && left == 0 &&
        quasi_split(c->arena, at, t, reader, &upper, &lower))
      cuts_add(g, cuts, axis, t);
  }
}

static void want_cuts_of_inputs(Clusterer *c, const Candidate *item) {
  const Loop *loop = item->stage->loop;
  for (uint32_t j = 0; j < loop->steps.len; j++) {
    const Step *s = &loop->steps.at[j];
    Candidate *x = s->kind == STEP_READ ? item_of(c, s->node) : NULL;
    if (!x || s->index_count)
      continue;
    for (uint32_t k = 0; k < s->node->free_count + s->node->rank; k++)
      want_cuts(c, loop, s->at[k], k, s->node, &x->cuts);
  }
}

static void note_product(Clusterer *c, Candidate *item) {
  Product p;
  const Loop *loop = item->stage->loop;
  item->product = product_find_any(c->arena, loop, &p);
  item->depth = loop_points(loop, loop->kept, loop->axes);
}

/* Readers before what they read, so that cuts are known. */
static bool node_is_empty(const Node *n) {
  for (uint32_t k = 0; k < n->free_count + n->rank; k++)
    if (n->extents[k] == 0)
      return true;
  return false;
}

static void make_stages(Clusterer *c) {
  for (uint32_t k = c->plan->stored.len; k-- > 0;) {
    Candidate *item = &c->items[k];
    Node *n = item->p->node;
    if (n->kind != NODE_COMP || node_is_empty(n))
      continue;
    item->stage = stage_new(c->arena, c->plan->graph, n, &item->cuts);
    if (!item->stage)
      continue;
    item->draft->outer = item->stage->loop->kept;
    for (uint32_t v = 0; v < item->stage->loop->kept; v++)
      item->shared[v] = v;
    note_product(c, item);
    want_cuts_of_inputs(c, item);
  }
}

/* ---- which axes two clusters share ---- */

typedef struct Pairs { /* of a's shared axis: which of b's, or UINT32_MAX */
  uint32_t of[KERNEL_AXES];
  bool any, failed;
  bool big;  /* what is local to a row does not fit into a cache */
  bool rows; /* the backend is to be asked */
} Pairs;

/* Which of the reader's shared axes a form is; UINT32_MAX: none. */
static uint32_t shared_axis(const Candidate *reader, const Quasi *q,
                            int64_t extent) {
  const Draft *d = reader->draft;
  for (uint32_t b = 0; b < d->outer; b++) {
    uint32_t v = reader->shared[b];
    if (q->times[v] != 1 || reader->stage->loop->extents[v] != extent)
      continue;
    Quasi alone = {.constant = 0};
    alone.times[v] = 1;
    return quasi_equal(&alone, q) ? b : UINT32_MAX;
  }
  return UINT32_MAX;
}

/* What one access says: each axis of a must go with one of b. */
static void pair_access(Clusterer *c, const Candidate *x,
                        const Candidate *reader, const Step *s, Pairs *pairs) {
  Quasi *forms[KERNEL_AXES], *parts[KERNEL_AXES];
  const Loop *loop = x->stage->loop;
  pairs->failed |= s->index_count > 0;
  for (uint32_t axis = 0;
       axis < s->node->free_count + s->node->rank && !pairs->failed; axis++) {
    pairs->failed = !stage_split(c->arena, x->stage, axis, s->at[axis],
                                 reader->stage->loop, parts);
    for (uint32_t k = 0; k < x->stage->parts[axis]; k++)
      forms[x->stage->first[axis] + k] = parts[k];
  }
  if (pairs->failed)
    return;
  for (uint32_t a = 0; a < x->draft->outer; a++) {
    uint32_t v = x->shared[a];
    uint32_t b = shared_axis(reader, forms[v], loop->extents[v]);
    if (!pairs->any)
      pairs->of[a] = b;
    else if (pairs->of[a] != b)
      pairs->of[a] = UINT32_MAX;
  }
  pairs->any = true;
}

static void find_pairs(Clusterer *c, const Draft *a, const Draft *b,
                       Pairs *pairs) {
  for (uint32_t k = 0; k < b->items.len; k++) {
    const Candidate *reader = b->items.at[k];
    const Loop *loop = reader->stage->loop;
    for (uint32_t j = 0; j < loop->steps.len && !pairs->failed; j++) {
      const Step *s = &loop->steps.at[j];
      const Candidate *x = s->kind == STEP_READ ? item_of(c, s->node) : NULL;
      if (x && x->draft == a)
        pair_access(c, x, reader, s, pairs);
    }
  }
}

/* An axis of b goes with one of a only. */
static uint32_t count_pairs(const Draft *a, const Draft *b, Pairs *pairs) {
  bool taken[KERNEL_AXES] = {false};
  uint32_t count = 0;
  (void)b;
  for (uint32_t k = 0; k < a->outer; k++) {
    uint32_t with = pairs->of[k];
    if (with == UINT32_MAX)
      continue;
    if (taken[with])
      pairs->of[k] = UINT32_MAX;
    else
      count++;
    taken[with] = true;
  }
  return count;
}

/* ---- is it worth it? ---- */

typedef struct Merge {
  const Graph *graph;
  const Draft *a, *b;
  const Pairs *pairs;
  double points;
  bool columns;       /* what is next to each other in memory is shared */
  double local_bytes; /* of one point, all values that one reads of another */
  bool product_a, product_b, all; /* all axes of a's products are shared */
} Merge;

static uint32_t count_products(const Draft *d) {
  uint32_t count = 0;
  for (uint32_t k = 0; k < d->items.len; k++)
    count += d->items.at[k]->product;
  return count;
}

static bool has_product(const Draft *d) {
  return count_products(d) > 0;
}

/* Is what lies next to each other in the largest value of a shared? */
static bool pairs_last_axis(const Merge *m) {
  const Candidate *largest = m->a->items.at[0];
  for (uint32_t k = 1; k < m->a->items.len; k++)
    if (node_guess(m->graph, m->a->items.at[k]->p->node) >
        node_guess(m->graph, largest->p->node))
      largest = m->a->items.at[k];
  const Loop *loop = largest->stage->loop;
  for (uint32_t k = 0; k < m->a->outer; k++)
    if (m->pairs->of[k] != UINT32_MAX && loop->kept > 0 &&
        largest->shared[k] == loop->kept - 1)
      return true;
  return false;
}

static void measure(Clusterer *c, Merge *m) {
  const Candidate *first = m->a->items.at[0];
  (void)c;
  m->points = 1;
  m->all = true;
  for (uint32_t k = 0; k < m->a->outer; k++)
    if (m->pairs->of[k] != UINT32_MAX)
      m->points *= (double)size_guess(
          m->graph, first->stage->loop->extents[first->shared[k]]);
    else
      m->all = false;
  for (uint32_t k = 0; k < m->a->items.len; k++) {
    const Node *n = m->a->items.at[k]->p->node;
    m->local_bytes +=
        node_guess(m->graph, n) / m->points * dtype_info[n->dtype].bytes;
    if (m->a->items.at[k]->product)
      m->all &= m->a->outer == m->a->items.at[k]->stage->loop->kept;
  }
  m->product_a = has_product(m->a);
  m->product_b = has_product(m->b);
  m->columns = pairs_last_axis(m);
}

static double depth_of(const Draft *d) {
  double depth = 0;
  for (uint32_t k = 0; k < d->items.len; k++)
    if (d->items.at[k]->product)
      depth += d->items.at[k]->depth;
  return depth;
}

/* Do rows that a product takes at a time fit into a cache? */
static bool is_small(const Merge *m) {
  return m->local_bytes * LANES <= TILE_MOST;
}

static bool has_to_fit(const Draft *d) {
  for (uint32_t k = 0; k < d->items.len; k++)
    if (d->items.at[k]->fits)
      return true;
  return false;
}

/* Or could they go in portions?  The product's other side is copied for each
 * few rows then, so it had better have few terms. */
static bool may_be_big(const Merge *m) {
  return depth_of(m->a) <= 2 * FEW_TERMS && !has_to_fit(m->a) &&
         !has_to_fit(m->b);
}

static const char *too_few_points(const Merge *m, double least) {
  return m->points >= least * machine()->processors
             ? NULL
             : "too few points are shared for all cores";
}

/* Has one of them a sum so long, for so few points, that it is better cut?  As
 * part of a cluster it cannot be. */
static bool is_cut(const Merge *m) {
  const Backend *b = m->graph->backend; /* those with teams want no lanes */
  bool lanes = m->columns && !(b && b->row_most);
  double units = m->points / (lanes ? LANES : 1);
  double depth = 1;
  for (uint32_t k = 0; k < m->a->items.len; k++)
    if (m->a->items.at[k]->depth > depth)
      depth = m->a->items.at[k]->depth;
  for (uint32_t k = 0; k < m->b->items.len; k++)
    if (m->b->items.at[k]->depth > depth)
      depth = m->b->items.at[k]->depth;
  return units < CUT_UNITS && depth * m->points >= CUT_WORK;
}

/* What open sizes may be like says nothing of how deep products are.  Where
 * rows of one are reduced before the other one reads them, they are long as a
 * rule, and the products are not deep. */
static bool may_be_shallow(const Merge *m) {
  bool reduces = false;
  for (uint32_t k = 0; k < m->a->items.len; k++) {
    const Candidate *x = m->a->items.at[k];
    const Loop *loop = x->stage->loop;
    reduces |= !x->product && loop->axes > loop->kept;
    for (uint32_t v = loop->kept; v < loop->axes && x->product; v++)
      if (size_is_number(m->graph, loop->extents[v]))
        return false;
  }
  return reduces;
}

static bool has_open_size(const Graph *g, const Node *n) {
  bool open = false;
  for (uint32_t k = 0; k < n->free_count + n->rank; k++)
    open |= !size_is_number(g, n->extents[k]);
  return open;
}

/* Backends that have kernels for rows between products multiply by tiles, in
 * which no row is whole: as part of another kernel, a product that is some work
 * would be done point by point.  Its rows have to have room; what sizes may be
 * like says nothing of that. */
static bool is_better_tiled(const Merge *m) {
  const Backend *b = m->graph->backend;
  double work = 0, bytes = 0;
  if (!b || !b->has_rows || !m->product_a || m->all)
    return false;
  for (uint32_t k = 0; k < m->a->items.len; k++) {
    const Candidate *x = m->a->items.at[k];
    const Node *n = x->p->node;
    if (!x->product)
      continue;
    work += node_guess(m->graph, n) * x->depth;
    if (!has_open_size(m->graph, n))
      bytes += node_guess(m->graph, n) * dtype_info[n->dtype].bytes;
  }
  return work >= TILED_WORK && bytes <= stored_most;
}

static double most_points(const Draft *d) {
  double most = 0;
  for (uint32_t k = 0; k < d->items.len; k++) {
    const Loop *loop = d->items.at[k]->stage->loop;
    double points = loop_points(loop, 0, loop->axes);
    most = points > most ? points : most;
  }
  return most;
}

/* Is a next to nothing beside b, which would share fewer axes for its sake?
 * As lengths of texts, or a factor of each head, beside a softmax: with them it
 * would not have its rows. */
static bool is_beside(const Merge *m) {
  uint32_t shared = 0;
  for (uint32_t k = 0; k < m->a->outer; k++)
    shared += m->pairs->of[k] != UINT32_MAX;
  double points = most_points(m->b);
  return shared < m->b->outer && points >= BESIDE_LEAST &&
         points >= BESIDE * most_points(m->a);
}

/* Why it is not worth it; NULL: it is.
 * The sum of the second product goes over what the first one computes, and
 * its other axes are as many as the depth of that: then it is compute that is
 * shared out, not memory, if these are large. */
static const char *why_not_worth(const Merge *m) {
  static const char large[] = "what one point leaves for it fills the cache";
  if (m->product_b && !m->product_a)
    return "a product reads it, in an order of its own";
  if (is_beside(m))
    return "it is little, and would leave no whole rows";
  if (is_cut(m))
    return "a long sum is cut into parts for all cores";
  if (m->product_a && !m->product_b && m->all)
    return NULL;
  if (is_better_tiled(m))
    return "its product is better off as tiles, which have no whole rows";
  if (m->product_a && m->product_b && m->all)
    return "two products at each point would be in each other's way";
  if (m->product_a && m->product_b) {
    double others = 0;
    for (uint32_t k = 0; k < m->b->items.len; k++)
      if (m->b->items.at[k]->product)
        others = node_guess(m->graph, m->b->items.at[k]->p->node) / m->points;
    if (depth_of(m->a) + others > DEPTHS_MOST && !may_be_shallow(m))
      return "two products of such depth are work, not memory";
    return is_small(m) || may_be_big(m) ? too_few_points(m, LANES * UNITS_LEAST)
                                        : large;
  }
  double cached = depth_of(m->a) <= FEW_TERMS ? CHEAP_MOST : CACHED_MOST;
  if (m->product_a && m->local_bytes * m->points < cached)
    return "whole rows of a product share fewer copies";
  if (m->product_a)
    return is_small(m) || may_be_big(m) ? too_few_points(m, ROWS_LEAST) : large;
  if (m->columns && !m->all)
    return m->local_bytes <= STRIP_MOST ? too_few_points(m, LANES * UNITS_LEAST)
                                        : large;
  const Backend *b = m->graph->backend;
  if (b && b->row_most) /* which runs loops apart where points are few */
    return m->local_bytes <= b->row_most ? NULL : large;
  return m->local_bytes <= LOCAL_MOST ? too_few_points(m, UNITS_LEAST) : large;
}

/* ---- rows between products ---- */

static bool was_tried(const Draft *d) {
  for (uint32_t k = 0; k < d->items.len; k++)
    if (d->items.at[k]->tried)
      return true;
  return false;
}

static bool has_sums(const Draft *d) {
  for (uint32_t k = 0; k < d->items.len; k++) {
    const Loop *loop = d->items.at[k]->stage->loop;
    if (loop->axes > loop->kept)
      return true;
  }
  return false;
}

/* Does b read nothing of a but what comes before its last product? */
static bool reads_rows(const Draft *a, const Draft *b) {
  uint32_t last = a->items.len;
  while (last && !a->items.at[last - 1]->product)
    last--;
  for (uint32_t i = 0; i < b->items.len; i++) {
    const PlanNode *p = b->items.at[i]->p;
    for (uint32_t j = 0; j < p->inputs.len; j++)
      for (uint32_t k = last ? last - 1 : 0; k < a->items.len; k++)
        if (a->items.at[k]->p == p->inputs.at[j])
          return false;
  }
  return true;
}

/* Is it a product, what its rows come to, a product with these, or what is done
 * with each element of that?  Backends may have a kernel for such that keeps no
 * rows, which then is worth it whatever the rows' number and size; else all is
 * as if nobody had asked (find_unfit).  *why: not for what follows, of which
 * there is too much. */
static bool is_of_rows(const Merge *m, const char **why) {
  const Backend *b = m->graph->backend;
  uint32_t first = count_products(m->a), second = count_products(m->b);
  *why = NULL;
  if (!b || !b->has_rows || first == 0 || m->all || was_tried(m->a) ||
      was_tried(m->b))
    return false;
  if (first == 1 && second <= 1)
    return true;
  uint32_t shared = 0;
  for (uint32_t k = 0; k < m->a->outer; k++)
    shared += m->pairs->of[k] != UINT32_MAX;
  if (second || shared < m->a->outer ||
      (has_sums(m->b) && !reads_rows(m->a, m->b)))
    *why = "rows between two products are in no memory there";
  return true;
}

/* ---- order ---- */

static Draft *input_draft(const Clusterer *c, const Candidate *item,
                          uint32_t j) {
  return c->items[item->p->inputs.at[j]->position].draft;
}

/* Numbers drafts so that each comes after those that it reads.  Recursion is
 * shallow: the nodes were in such an order before some were put together. */
static void number_draft(Clusterer *c, Draft *d) {
  if (d->seen == c->stamp)
    return;
  d->seen = c->stamp;
  for (uint32_t k = 0; k < d->items.len; k++)
    for (uint32_t j = 0; j < d->items.at[k]->p->inputs.len; j++)
      number_draft(c, input_draft(c, d->items.at[k], j));
  d->number = ++c->numbers;
}

static void number_drafts(Clusterer *c) {
  c->stamp++;
  c->numbers = 0;
  for (uint32_t k = 0; k < c->plan->stored.len; k++)
    number_draft(c, c->items[k].draft);
}

static bool waits_for(Clusterer *c, Draft *d, const Draft *a, bool directly) {
  if (d->seen == c->stamp || d->number < a->number)
    return false;
  d->seen = c->stamp;
  for (uint32_t k = 0; k < d->items.len; k++)
    for (uint32_t j = 0; j < d->items.at[k]->p->inputs.len; j++) {
      Draft *x = input_draft(c, d->items.at[k], j);
      if (x == a ? directly : x != d && waits_for(c, x, a, true))
        return true;
    }
  return false;
}

/* Would b have to wait for something that has to wait for a? */
static bool has_way_round(Clusterer *c, const Draft *a, Draft *b) {
  c->stamp++;
  return waits_for(c, b, a, false);
}

/* ---- merging ---- */

static void merge(Clusterer *c, Draft *a, Draft *b, const Pairs *pairs) {
  uint32_t outer = 0, of_a[KERNEL_AXES], of_b[KERNEL_AXES];
  for (uint32_t k = 0; k < b->outer; k++) /* in the reader's order */
    for (uint32_t j = 0; j < a->outer; j++)
      if (pairs->of[j] == k) {
        of_a[outer] = j;
        of_b[outer++] = k;
      }
  Draft *d = NEW(c->arena, Draft);
  d->outer = outer;
  d->big = a->big || b->big || pairs->big;
  d->rows = a->rows || b->rows || pairs->rows;
  uint32_t i = 0, j = 0;
  while (i < a->items.len || j < b->items.len) {
    bool first = j == b->items.len ||
                 (i < a->items.len &&
                  a->items.at[i]->position < b->items.at[j]->position);
    Candidate *item = first ? a->items.at[i++] : b->items.at[j++];
    uint32_t old[KERNEL_AXES];
    memcpy(old, item->shared, sizeof old);
    for (uint32_t k = 0; k < outer; k++)
      item->shared[k] = old[first ? of_a[k] : of_b[k]];
    item->draft = d;
    VEC_PUSH(c->arena, d->items, item);
  }
}

/* Why b, which reads a, is not to be one with it; NULL: it is, along pairs. */
static const char *why_apart(Clusterer *c, const Draft *a, Draft *b,
                             Pairs *pairs) {
  *pairs = (Pairs){.any = false};
  if (!a->items.at[0]->stage)
    return "that is no kernel";
  if (!b->items.at[0]->stage)
    return "this is no kernel";
  if (a->items.len + b->items.len > ITEMS_MOST)
    return "there are too many values for one kernel";
  find_pairs(c, a, b, pairs);
  if (!pairs->any || pairs->failed)
    return "it is read at an index that data decides, or in parts";
  if (count_pairs(a, b, pairs) == 0)
    return a->outer == 0   ? "it is one value, which comes first"
           : b->outer == 0 ? "all of it goes into one value"
                           : "each point reads other points of it";
  Merge m = {.graph = c->plan->graph, .a = a, .b = b, .pairs = pairs};
  measure(c, &m);
  const char *why;
  pairs->rows = is_of_rows(&m, &why);
  pairs->big = !pairs->rows && m.product_a && !m.all && !is_small(&m);
  if (!pairs->rows)
    why = why_not_worth(&m);
  if (why)
    return why;
  return has_way_round(c, a, b) ? "something between them has to wait for it"
                                : NULL;
}

static void try_merge(Clusterer *c, Draft *a, Draft *b) {
  Pairs pairs;
  if (a == b || why_apart(c, a, b, &pairs))
    return;
  merge(c, a, b, &pairs);
  number_drafts(c);
}

/* ---- what comes out ---- */

static bool is_read_elsewhere(const Clusterer *c, const Candidate *x) {
  for (uint32_t k = x->position + 1; k < c->plan->stored.len; k++) {
    const PlanNode *p = c->items[k].p;
    for (uint32_t j = 0; j < p->inputs.len; j++)
      if (p->inputs.at[j] == x->p && c->items[k].draft != x->draft)
        return true;
  }
  return false;
}

static Kernel *kernel_of(Clusterer *c, const Draft *d) {
  if (!d->items.at[0]->stage)
    return NULL;
  Member *members = NEW_ARRAY(c->arena, Member, d->items.len);
  for (uint32_t k = 0; k < d->items.len; k++) {
    const Candidate *item = d->items.at[k];
    Member *m = &members[k];
    m->stage = item->stage;
    m->node = item->p->node;
    m->kept = item->p->root || item->p->required || is_read_elsewhere(c, item);
    memcpy(m->shared, item->shared, sizeof m->shared);
  }
  return kernel_assemble(c->arena, d->items.len, members, d->outer);
}

/* Of a node alone; NULL: nothing keeps it from being a kernel. */
static const char *why_interpreted(Arena *arena, const Node *n) {
  if (n->guard)
    return "it is run under a condition";
  if (n->kind == NODE_OPAQUE)
    return arena_printf(arena, "%s is no loop over indices",
                        prim_info[n->op].name);
  if (node_is_empty(n))
    return "it has no elements";
  return "it has too many axes, or divides them too often";
}

/* ---- for who asks ---- */

static void note_apart(Clusterer *c, Draft *d, ClusterNotes *notes,
                       const Draft *from) {
  Pairs pairs;
  for (uint32_t k = 0; k < notes->apart.len; k++)
    if (notes->apart.at[k].from == from->cluster)
      return;
  const char *why = c->plan->stored.len > MERGED_MOST
                        ? "there are too many values to look at all pairs"
                        : why_apart(c, from, d, &pairs);
  if (!why)
    why = "it was decided about before";
  Apart apart = {from->cluster, c->kernels ? why : "too little work"};
  VEC_PUSH(c->arena, notes->apart, apart);
}

static ClusterNotes *notes_of(Clusterer *c, Draft *d) {
  ClusterNotes *notes = NEW(c->arena, ClusterNotes);
  for (uint32_t k = 0; k < d->items.len; k++) {
    const PlanNode *p = d->items.at[k]->p;
    VEC_PUSH(c->arena, notes->stored, p->why);
    for (uint32_t j = 0; p->group && j < p->group->fused.len; j++)
      VEC_PUSH(c->arena, notes->fused, p->group->fused.at[j]);
    for (uint32_t j = 0; j < p->inputs.len; j++)
      if (input_draft(c, d->items.at[k], j) != d)
        note_apart(c, d, notes, input_draft(c, d->items.at[k], j));
  }
  return notes;
}

/* Clusters after those that they read. */
static void put(Clusterer *c, Draft *d) {
  if (d->done)
    return;
  d->done = true;
  for (uint32_t k = 0; k < d->items.len; k++)
    for (uint32_t j = 0; j < d->items.at[k]->p->inputs.len; j++)
      put(c, input_draft(c, d->items.at[k], j));
  Cluster *cluster = NEW(c->arena, Cluster);
  cluster->kernel = kernel_of(c, d);
  if (!c->kernels && d->items.at[0]->p->node->kind == NODE_COMP)
    cluster->interpreted = "too little work to compile";
  else if (!cluster->kernel)
    cluster->interpreted = why_interpreted(c->arena, d->items.at[0]->p->node);
  d->cluster = cluster;
  if (c->plan->graph->watch)
    cluster->notes = notes_of(c, d);
  for (uint32_t k = 0; k < d->items.len; k++)
    VEC_PUSH(c->arena, cluster->nodes, d->items.at[k]->p->node);
  VEC_PUSH(c->arena, c->plan->clusters, cluster);
}

static void merge_drafts(Clusterer *c) {
  number_drafts(c);
  for (uint32_t k = 0; k < c->plan->stored.len; k++)
    for (uint32_t j = 0; j < c->items[k].p->inputs.len; j++)
      try_merge(c, input_draft(c, &c->items[k], j), c->items[k].draft);
}

static void make_drafts(Clusterer *c) {
  for (uint32_t k = 0; k < c->plan->stored.len; k++) {
    Candidate *item = &c->items[k];
    *item = (Candidate){
        .p = c->plan->stored.at[k], .fits = item->fits, .tried = item->tried};
    item->p->position = item->position = k;
    item->draft = NEW(c->arena, Draft);
    VEC_PUSH(c->arena, item->draft->items, item);
  }
  if (c->kernels)
    make_stages(c);
  if (c->kernels && c->plan->stored.len <= MERGED_MOST)
    merge_drafts(c);
}

/* Notes the values whose rows would have to go in portions, and cannot, or that
 * the backend has no kernel for; false: there are none. */
static bool find_unfit(Clusterer *c) {
  bool any = false;
  for (uint32_t k = 0; k < c->plan->stored.len; k++) {
    const Draft *d = c->items[k].draft;
    if ((!d->big && !d->rows) || d->items.at[0] != &c->items[k])
      continue;
    const Kernel *kernel = kernel_of(c, d);
    if (kernel && (d->rows ? c->plan->graph->backend->has_rows(kernel)
                           : kernel_has_portions(kernel, NULL)))
      continue;
    any = true;
    for (uint32_t j = 0; j < d->items.len; j++)
      *(d->rows ? &d->items.at[j]->tried : &d->items.at[j]->fits) = true;
  }
  return any;
}

void plan_cluster(Plan *plan, bool kernels) {
  Clusterer c = {.plan = plan, .arena = plan->arena, .kernels = kernels};
  c.items = NEW_ARRAY(plan->arena, Candidate, plan->stored.len);
  make_drafts(&c);
  while (find_unfit(&c))
    make_drafts(&c);
  for (uint32_t k = 0; k < plan->stored.len; k++)
    put(&c, c.items[k].draft);
}
