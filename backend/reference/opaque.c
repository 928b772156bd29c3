/* Sorting, running sums, scatter, permutations, and the operations whose
 * result's size only data decides. */
#include "backend/reference/reference.h"

#include <string.h>

/* ---- order of elements: ascending, NaN last, stable ---- */

typedef struct Keyed { /* an element as an integer of the same order */
  uint64_t order;
  int64_t index;
} Keyed;

static uint64_t order_of(Scalar x) {
  if (!dtype_is_float(x.dtype))
    return (uint64_t)x.i ^ (uint64_t)1 << 63;
  if (isnan(x.f))
    return UINT64_MAX;
  double f = x.f == 0 ? 0 : x.f; /* -0 and 0 are equal */
  uint64_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

enum { POLL_MASK = (1 << 16) - 1 }; /* steps from one poll to the next */

static void poll_at(int64_t step) {
  if (!(step & POLL_MASK))
    interrupt_poll();
}

/* Merge sort, from the bottom up; scratch holds as many items. */
static void sort_keyed(Keyed *items, Keyed *scratch, int64_t n) {
  Keyed *from = items, *to = scratch;
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t low = 0; low < n; low += 2 * width) {
      int64_t middle = low + width < n ? low + width : n;
      int64_t high = low + 2 * width < n ? low + 2 * width : n;
      int64_t i = low, j = middle;
      for (int64_t k = low; k < high; k++) {
        poll_at(k);
        if (i < middle && (j == high || from[i].order <= from[j].order))
          to[k] = from[i++];
        else
          to[k] = from[j++];
      }
    }
    Keyed *other = from;
    from = to;
    to = other;
  }
  if (from != items && n > 0)
    memcpy(items, from, (size_t)n * sizeof *items);
}

/* ---- lines of a tensor along an axis, for each value of free indices ---- */

typedef struct Lines {
  int64_t outer, length, inner; /* of one slice: outer * length * inner */
} Lines;

static Lines lines_of(const Node *x, uint32_t axis) {
  const int64_t *own = x->extents + x->free_count;
  Lines l = {1, own[axis], 1};
  for (uint32_t k = 0; k < axis; k++)
    l.outer *= own[k];
  for (uint32_t k = axis + 1; k < x->rank; k++)
    l.inner *= own[k];
  return l;
}

static int64_t slice_count(const Node *x) {
  int64_t count = 1;
  for (uint32_t k = 0; k < x->rank; k++)
    count *= x->extents[x->free_count + k];
  return count;
}

/* Number, among x's slices, of the slice for n's slice number `slice`. */
static int64_t slice_of(const Node *n, const Node *x, int64_t slice) {
  int64_t index[RANK_MAX], number = 0;
  for (uint32_t k = n->free_count; k-- > 0; slice /= n->extents[k])
    index[k] = slice % n->extents[k];
  for (uint32_t k = 0; k < x->free_count; k++)
    for (uint32_t j = 0; j < n->free_count; j++)
      if (n->free[j] == x->free[k])
        number = number * x->extents[k] + index[j];
  return number;
}

typedef struct Job { /* one slice of an opaque node */
  const Graph *graph;
  Arena *arena;
  const Node *node;
  Tensor *out;
  int64_t slice;
  int64_t *first;         /* of the slice's elements, in each input */
  Keyed *items, *scratch; /* of one line */
} Job;

static Scalar input_at(const Job *job, uint32_t input, int64_t i) {
  const Tensor *x = job->node->inputs[input]->data;
  return scalar_load(x->dtype, tensor_at(x, job->first[input] + i));
}

static void output(const Job *job, int64_t i, Scalar x) {
  int64_t first = job->slice * slice_count(job->node);
  scalar_store(x, tensor_at(job->out, first + i));
}

static void output_index(const Job *job, int64_t i, int64_t index) {
  output(job, i, (Scalar){.dtype = DT_I64, .i = index});
}

static int64_t element(const Lines *l, int64_t line, int64_t k) {
  return (line / l->inner * l->length + k) * l->inner + line % l->inner;
}

static void load_line(const Job *job, const Lines *l, int64_t line) {
  for (int64_t k = 0; k < l->length; k++) {
    poll_at(k);
    job->items[k] = (Keyed){order_of(input_at(job, 0, element(l, line, k))), k};
  }
}

static void sort_slice(const Job *job) {
  const Node *n = job->node;
  Lines l = lines_of(n->inputs[0], (uint32_t)n->params[0]);
  for (int64_t line = 0; line < l.outer * l.inner; line++) {
    poll_interrupt(job->graph);
    load_line(job, &l, line);
    sort_keyed(job->items, job->scratch, l.length);
    for (int64_t k = 0; k < l.length; k++) {
      poll_at(k);
      int64_t from = job->items[k].index, to = element(&l, line, k);
      if (n->op == PRIM_ARGSORT)
        output_index(job, to, from);
      else
        output(job, to, input_at(job, 0, element(&l, line, from)));
    }
  }
}

/* The largest first, among equal ones the first, NaN before all: the order of
 * sorting the other way round, but stable. */
static void topk_slice(const Job *job) {
  const Node *n = job->node, *x = n->inputs[0];
  Lines l = lines_of(x, x->rank - 1);
  int64_t count = n->params[0];
  for (int64_t line = 0; line < l.outer; line++) {
    poll_interrupt(job->graph);
    load_line(job, &l, line);
    interrupt_poll();
    for (int64_t k = 0; k < l.length; k++)
      job->items[k].order = ~job->items[k].order;
    sort_keyed(job->items, job->scratch, l.length);
    for (int64_t k = 0; k < count; k++) {
      int64_t from = job->items[k].index;
      if (n->output)
        output_index(job, line * count + k, from);
      else
        output(job, line * count + k, input_at(job, 0, line * l.length + from));
    }
  }
}

/* Accumulated as sums are: in double, in float for 16 bits, in integers. */
static Scalar sum_start(Dtype t) {
  bool narrow = t == DT_F16 || t == DT_BF16;
  return scalar_convert((Scalar){.dtype = DT_I64}, !dtype_is_float(t) ? DT_I64
                                                   : narrow           ? DT_F32
                                                                      : DT_F64);
}

static void sum_add(Scalar *sum, Scalar x) {
  if (sum->dtype == DT_I64)
    sum->i = (int64_t)((uint64_t)sum->i + (uint64_t)x.i);
  else
    sum->f = dtype_round(sum->dtype, sum->f + x.f);
}

static void cumsum_slice(const Job *job) {
  const Node *n = job->node;
  Lines l = lines_of(n->inputs[0], (uint32_t)n->params[0]);
  for (int64_t line = 0; line < l.outer * l.inner; line++) {
    poll_interrupt(job->graph);
    Scalar sum = sum_start(n->dtype);
    for (int64_t k = 0; k < l.length; k++) {
      poll_at(k);
      sum_add(&sum, input_at(job, 0, element(&l, line, k)));
      output(job, element(&l, line, k), scalar_convert(sum, n->dtype));
    }
  }
}

/* ---- scatter ---- */

static bool scatter_slice(const Job *job, Fault *fault) {
  const Node *n = job->node, *index = n->inputs[1];
  int64_t count = slice_count(n), rows = n->extents[n->free_count];
  int64_t row = rows ? count / rows : 0, added = slice_count(index);
  Scalar *sums = NEW_ARRAY(job->arena, Scalar, count);
  for (int64_t i = 0; i < count; i++) {
    poll_at(i);
    sums[i] = sum_start(n->dtype);
    sum_add(&sums[i], input_at(job, 0, i));
  }
  for (int64_t k = 0; k < added; k++) {
    poll_interrupt(job->graph);
    int64_t at = input_at(job, 1, k).i;
    if (at < 0 || at >= rows) {
      fault_set(fault, "index %lld is out of bounds for axis 0 of size %lld",
                (long long)at, (long long)rows);
      return false;
    }
    for (int64_t i = 0; i < row; i++)
      sum_add(&sums[at * row + i], input_at(job, 2, k * row + i));
  }
  for (int64_t i = 0; i < count; i++) {
    poll_at(i);
    output(job, i, scalar_convert(sums[i], n->dtype));
  }
  return true;
}

/* ---- permutation: the order of random keys ---- */

static void permutation(const Job *job) {
  int64_t n = job->node->params[0];
  for (int64_t k = 0; k < n; k++) {
    poll_at(k);
    job->items[k] = (Keyed){key_bits64(job->node->key, (uint64_t)k), k};
  }
  sort_keyed(job->items, job->scratch, n);
  for (int64_t k = 0; k < n; k++) {
    poll_at(k);
    output_index(job, k, job->items[k].index);
  }
}

/* ---- folds and scans ---- */

typedef struct Turn { /* of one element of the states */
  const Job *job;
  Scalar *inputs, *values; /* states first; of cells */
  int64_t element;
} Turn;

static void load_inputs(const Turn *t, int64_t turn, uint32_t from) {
  const Node *n = t->job->node;
  for (uint32_t k = from; k < n->input_count; k++) {
    const Node *x = n->inputs[k];
    bool turns = (uint64_t)n->params[2] >> k & 1;
    int64_t each = slice_count(x) / (turns ? n->params[0] : 1);
    int64_t at = x->rank > turns ? t->element : 0;
    t->inputs[k] = input_at(t->job, k, turns ? turn * each + at : at);
  }
}

static Scalar cell_value(const Turn *t, const Cell *c) {
  Scalar args[3] = {{.dtype = DT_NONE}}, value = c->value;
  for (uint32_t k = 0; k < c->arg_count && k < 3; k++)
    args[k] = t->values[c->args[k]];
  switch (c->kind) {
  case CELL_AXIS:
    return t->inputs[c->axis];
  case CELL_CONVERT:
    return scalar_convert(args[0], c->dtype);
  case CELL_SELECT:
    return args[0].i ? args[1] : args[2];
  case CELL_OP: /* what may fail is in none of them */
    scalar_apply(c->op, c->arg_count, args, c->dtype, &value);
    return value;
  case CELL_CONST:
  case CELL_SIZE:
  case CELL_READ:
  case CELL_RANDOM:
    break;
  }
  return value;
}

/* What it comes to, from which cell on. */
static uint32_t run_turn(const Turn *t) {
  const Node *n = t->job->node;
  uint32_t states = (uint32_t)n->params[1];
  uint32_t results = states + (n->op == PRIM_SCAN);
  for (uint32_t k = 0; k < n->cell_count; k++)
    t->values[k] = cell_value(t, &n->cells[k]);
  for (uint32_t k = 0; k < states; k++)
    t->inputs[k] = t->values[n->cell_count - results + k];
  return n->cell_count - 1;
}

static void fold_slice(const Job *job) {
  const Node *n = job->node;
  bool all = n->op == PRIM_SCAN;
  int64_t turns = n->params[0], count = slice_count(n) / (all ? turns : 1);
  Turn t = {.job = job};
  t.inputs = NEW_ARRAY(job->arena, Scalar, n->input_count);
  t.values = NEW_ARRAY(job->arena, Scalar, n->cell_count);
  for (t.element = 0; t.element < count; t.element++) {
    load_inputs(&t, 0, 0);
    for (int64_t k = 0; k < turns; k++) {
      poll_at(k);
      load_inputs(&t, k, (uint32_t)n->params[1]);
      uint32_t last = run_turn(&t);
      if (all)
        output(job, k * count + t.element, t.values[last]);
    }
    if (!all)
      output(job, t.element, t.inputs[n->params[3]]);
  }
}

static void begin_slice(Job *job, int64_t slice) {
  const Node *n = job->node;
  job->slice = slice;
  for (uint32_t k = 0; k < n->input_count; k++)
    job->first[k] =
        slice_of(n, n->inputs[k], slice) * slice_count(n->inputs[k]);
}

static bool run_slice(const Job *job, Fault *fault) {
  switch ((int)job->node->op) { /* the kinds of node_opaque */
  case PRIM_SORT:
  case PRIM_ARGSORT:
    sort_slice(job);
    return true;
  case PRIM_TOPK:
    topk_slice(job);
    return true;
  case PRIM_CUMSUM:
    cumsum_slice(job);
    return true;
  case PRIM_SCATTER:
    return scatter_slice(job, fault);
  case PRIM_PERMUTATION:
    permutation(job);
    return true;
  case PRIM_FOLD:
  case PRIM_SCAN:
    fold_slice(job);
    return true;
  }
  fault_set(fault, "compiler bug: no opaque operation %s",
            prim_info[job->node->op].name);
  return false;
}

/* Is the node needed for this value of its free indices? */
static bool guard_holds(const Node *n, int64_t slice) {
  if (!n->guard)
    return true;
  const uint8_t *flags = n->guard->data->data;
  return flags[slice_of(n, n->guard, slice)] != 0;
}

static int64_t longest_line(const Node *n) {
  int64_t most = n->op == PRIM_PERMUTATION ? n->params[0] : 0;
  bool lines = n->input_count && n->op != PRIM_FOLD && n->op != PRIM_SCAN;
  for (uint32_t k = 0; lines && k < n->inputs[0]->rank; k++) {
    int64_t extent = n->inputs[0]->extents[n->inputs[0]->free_count + k];
    most = extent > most ? extent : most;
  }
  return most;
}

bool opaque_run(const Graph *g, Arena *arena, const Node *n, Tensor *out,
                Fault *fault) {
  int64_t slices = 1, line = longest_line(n);
  for (uint32_t k = 0; k < n->free_count; k++)
    slices *= n->extents[k];
  Job job = {.graph = g, .arena = arena, .node = n, .out = out};
  job.first = NEW_ARRAY(arena, int64_t, n->input_count);
  job.items = NEW_ARRAY(arena, Keyed, line);
  job.scratch = NEW_ARRAY(arena, Keyed, line);
  for (int64_t slice = 0; slice < slices; slice++) {
    poll_interrupt(g);
    begin_slice(&job, slice);
    if (guard_holds(n, slice) && !run_slice(&job, fault))
      return false;
  }
  return true;
}

/* ---- sizes that data decides ---- */

enum { RUN = 64 }; /* elements between two looks at what there is to do */

static int64_t count_true(const uint8_t *is, int64_t n) {
  int64_t count = 0, i = 0;
  for (; i + RUN <= n; i += RUN) {
    uint8_t sum = 0;
    for (int64_t j = 0; j < RUN; j++)
      sum += is[i + j] != 0;
    count += sum;
  }
  for (; i < n; i++)
    count += is[i] != 0;
  return count;
}

Tensor *run_nonzero(const Tensor *x, Fault *fault) {
  const uint8_t *is = x->data; /* of bool */
  int64_t count = count_true(is, x->count), i = 0, k = 0;
  Tensor *t = tensor_new(DT_I64, 1, &count, false, fault);
  if (!t)
    return NULL;
  int64_t *to = t->data;
  /* nobody can foresee which: the next place is written in any case */
  for (; k + RUN <= count; i += RUN)
    for (int64_t j = 0; j < RUN; j++) {
      to[k] = i + j;
      k += is[i + j] != 0;
    }
  for (; k < count; i++) {
    to[k] = i;
    k += is[i] != 0;
  }
  return t;
}

/* Is element i of what is sorted another one than the element before it? */
static bool is_new(const Tensor *x, int64_t i) {
  return i == 0 || order_of(scalar_load(x->dtype, tensor_at(x, i))) !=
                       order_of(scalar_load(x->dtype, tensor_at(x, i - 1)));
}

Tensor *run_unique(const Tensor *x, Fault *fault) {
  int64_t count = 0, to = 0;
  for (int64_t i = 0; i < x->count; i++)
    count += is_new(x, i);
  Tensor *t = tensor_new(x->dtype, 1, &count, false, fault);
  size_t bytes = dtype_info[x->dtype].bytes;
  for (int64_t i = 0; t && to < count; i++)
    if (is_new(x, i))
      memcpy(tensor_at(t, to++), tensor_at(x, i), bytes);
  return t;
}

Tensor *run_take_rows(const Tensor *x, const Tensor *rows, Fault *fault) {
  int64_t shape[RANK_MAX];
  if (x->rank == 0 || rows->rank != 1) {
    fault_set(fault, "rows of a scalar");
    return NULL;
  }
  memcpy(shape, x->shape, x->rank * sizeof *shape);
  shape[0] = rows->count;
  size_t row = dtype_info[x->dtype].bytes;
  for (uint32_t k = 1; k < x->rank; k++)
    row *= (size_t)shape[k];
  Tensor *t = tensor_new(x->dtype, x->rank, shape, false, fault);
  if (t)
    t->stars = x->stars & ~(uint32_t)1;
  for (int64_t i = 0; t && i < rows->count; i++) {
    int64_t at = scalar_load(rows->dtype, tensor_at(rows, i)).i;
    if (at < 0 || at >= x->shape[0]) {
      fault_set(fault, "index %lld is out of bounds for axis 0 of size %lld",
                (long long)at, (long long)x->shape[0]);
      tensor_release(t);
      return NULL;
    }
    memcpy((char *)t->data + (size_t)i * row,
           (const char *)x->data + (size_t)at * row, row);
  }
  return t;
}
