/* Opaque operations: sorting, top-k, cumulative sums, scatter, permutations,
 * Fourier transforms, folds and scans.  The main entry point is opaque_run. */
#include "backend/reference/fourier.h"
#include "backend/reference/reference.h"
#include "support/arena.h"
#include "support/interrupt.h"

#include <string.h>

/* ---- order of elements: ascending, NaN last, stable ---- */

/* The value of an element as an integer with the same order. */
typedef struct SortKey {
  uint64_t key;
  int64_t index;
} SortKey;

static uint64_t sort_key(Scalar x) {
  if (!dtype_is_float(x.dtype))
    return (uint64_t)x.i ^ (uint64_t)1 << 63;
  if (isnan(x.f))
    return UINT64_MAX;
  double f = x.f == 0 ? 0 : x.f; /* -0 and 0 are equal */
  uint64_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

enum { POLL_MASK = (1 << 16) - 1 }; /* iterations between two polls */

static void poll_every(int64_t step) {
  if (!(step & POLL_MASK))
    interrupt_poll();
}

/* Merge sort, bottom-up.  scratch has room for n items. */
static void merge_sort(SortKey *items, SortKey *scratch, int64_t n) {
  SortKey *from = items, *to = scratch;
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t low = 0; low < n; low += 2 * width) {
      int64_t middle = low + width < n ? low + width : n;
      int64_t high = low + 2 * width < n ? low + 2 * width : n;
      int64_t i = low, j = middle;
      for (int64_t k = low; k < high; k++) {
        poll_every(k);
        if (i < middle && (j == high || from[i].key <= from[j].key))
          to[k] = from[i++];
        else
          to[k] = from[j++];
      }
    }
    SortKey *other = from;
    from = to;
    to = other;
  }
  if (from != items && n > 0)
    memcpy(items, from, (size_t)n * sizeof *items);
}

/* ---- lines of a tensor along an axis, for each value of the free indices
 * ---- */

typedef struct AxisLines {
  /* Of one slice, which has outer * length * inner elements. */
  int64_t outer, length, inner;
} AxisLines;

static AxisLines axis_lines_of(const Node *x, uint32_t axis) {
  const int64_t *own = x->extents + x->free_count;
  AxisLines l = {1, own[axis], 1};
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

/* Returns the number of the slice of x that slice `slice` of n uses. */
static int64_t slice_number(const Node *n, const Node *x, int64_t slice) {
  int64_t index[MAX_RANK], number = 0;
  for (uint32_t k = n->free_count; k-- > 0; slice /= n->extents[k])
    index[k] = slice % n->extents[k];
  for (uint32_t k = 0; k < x->free_count; k++)
    for (uint32_t j = 0; j < n->free_count; j++)
      if (n->free_vars[j] == x->free_vars[k])
        number = number * x->extents[k] + index[j];
  return number;
}

typedef struct SliceTask { /* one slice of an opaque node */
  const Graph *graph;
  Arena *arena;
  const Node *node;
  Tensor *out;
  int64_t slice;
  int64_t *first_elements;  /* first element of the slice in each input */
  SortKey *items, *scratch; /* items of one line */
} SliceTask;

static Scalar input_at(const SliceTask *task, uint32_t input, int64_t i) {
  const Tensor *x = task->node->inputs[input]->data;
  return scalar_load(x->dtype, tensor_at(x, task->first_elements[input] + i));
}

static void store_output(const SliceTask *task, int64_t i, Scalar x) {
  int64_t first = task->slice * slice_count(task->node);
  scalar_store(x, tensor_at(task->out, first + i));
}

static void store_index(const SliceTask *task, int64_t i, int64_t index) {
  store_output(task, i, (Scalar){.dtype = DT_I64, .i = index});
}

static int64_t line_element(const AxisLines *l, int64_t line, int64_t k) {
  return (line / l->inner * l->length + k) * l->inner + line % l->inner;
}

static void load_line(const SliceTask *task, const AxisLines *l, int64_t line) {
  for (int64_t k = 0; k < l->length; k++) {
    poll_every(k);
    task->items[k] =
        (SortKey){sort_key(input_at(task, 0, line_element(l, line, k))), k};
  }
}

static void sort_slice(const SliceTask *task) {
  const Node *n = task->node;
  AxisLines l = axis_lines_of(n->inputs[0], (uint32_t)n->params[0]);
  for (int64_t line = 0; line < l.outer * l.inner; line++) {
    poll_interrupt(task->graph);
    load_line(task, &l, line);
    merge_sort(task->items, task->scratch, l.length);
    for (int64_t k = 0; k < l.length; k++) {
      poll_every(k);
      int64_t from = task->items[k].index, to = line_element(&l, line, k);
      if (n->op == PRIM_ARGSORT)
        store_index(task, to, from);
      else
        store_output(task, to, input_at(task, 0, line_element(&l, line, from)));
    }
  }
}

/* Descending order; equal elements keep their order, and NaN comes first.  This
 * is the reverse order of a sort, but stable. */
static void topk_slice(const SliceTask *task) {
  const Node *n = task->node, *x = n->inputs[0];
  AxisLines l = axis_lines_of(x, x->rank - 1);
  int64_t count = n->params[0];
  for (int64_t line = 0; line < l.outer; line++) {
    poll_interrupt(task->graph);
    load_line(task, &l, line);
    interrupt_poll();
    for (int64_t k = 0; k < l.length; k++)
      task->items[k].key = ~task->items[k].key;
    merge_sort(task->items, task->scratch, l.length);
    for (int64_t k = 0; k < count; k++) {
      int64_t from = task->items[k].index;
      if (n->output_index)
        store_index(task, line * count + k, from);
      else
        store_output(task, line * count + k,
                     input_at(task, 0, line * l.length + from));
    }
  }
}

/* The accumulator of a cumulative sum has the type of that of a sum: double,
 * float for 16-bit floats, i64 for integers. */
static Scalar accumulator_init(Dtype t) {
  bool is_half = dtype_is_narrow_float(t);
  return scalar_convert((Scalar){.dtype = DT_I64}, !dtype_is_float(t) ? DT_I64
                                                   : is_half          ? DT_F32
                                                                      : DT_F64);
}

static void accumulate(Scalar *sum, Scalar x) {
  if (sum->dtype == DT_I64)
    sum->i = (int64_t)((uint64_t)sum->i + (uint64_t)x.i);
  else
    sum->f = dtype_round(sum->dtype, sum->f + x.f);
}

static void cumsum_slice(const SliceTask *task) {
  const Node *n = task->node;
  AxisLines l = axis_lines_of(n->inputs[0], (uint32_t)n->params[0]);
  for (int64_t line = 0; line < l.outer * l.inner; line++) {
    poll_interrupt(task->graph);
    Scalar sum = accumulator_init(n->dtype);
    for (int64_t k = 0; k < l.length; k++) {
      poll_every(k);
      accumulate(&sum, input_at(task, 0, line_element(&l, line, k)));
      store_output(task, line_element(&l, line, k),
                   scalar_convert(sum, n->dtype));
    }
  }
}

/* ---- scatter ---- */

static bool scatter_slice(const SliceTask *task, Fault *fault) {
  const Node *n = task->node, *index = n->inputs[1];
  int64_t count = slice_count(n), rows = n->extents[n->free_count];
  int64_t row = rows ? count / rows : 0, added = slice_count(index);
  Scalar *sums = NEW_ARRAY(task->arena, Scalar, count);
  for (int64_t i = 0; i < count; i++) {
    poll_every(i);
    sums[i] = accumulator_init(n->dtype);
    accumulate(&sums[i], input_at(task, 0, i));
  }
  for (int64_t k = 0; k < added; k++) {
    poll_interrupt(task->graph);
    int64_t at = input_at(task, 1, k).i;
    if (at < 0 || at >= rows) {
      fault_set(fault, "index %lld is out of bounds for axis 0 of size %lld",
                (long long)at, (long long)rows);
      return false;
    }
    for (int64_t i = 0; i < row; i++)
      accumulate(&sums[at * row + i], input_at(task, 2, k * row + i));
  }
  for (int64_t i = 0; i < count; i++) {
    poll_every(i);
    store_output(task, i, scalar_convert(sums[i], n->dtype));
  }
  return true;
}

/* ---- permutation: sorts random numbers ---- */

static void permutation(const SliceTask *task) {
  int64_t n = task->node->params[0];
  for (int64_t k = 0; k < n; k++) {
    poll_every(k);
    task->items[k] = (SortKey){prng_bits64(task->node->key, (uint64_t)k), k};
  }
  merge_sort(task->items, task->scratch, n);
  for (int64_t k = 0; k < n; k++) {
    poll_every(k);
    store_index(task, k, task->items[k].index);
  }
}

/* ---- Fourier transforms ---- */

static Scalar float_of(Dtype dtype, double x) {
  return (Scalar){.dtype = dtype, .f = dtype_round(dtype, x)};
}

/* An element of the input of a transform; a real or missing half of the
 * spectrum follows from its symmetry. */
static Complex spectrum_at(const SliceTask *task, const AxisLines *l,
                           int64_t line, int64_t k, int64_t points) {
  const Node *n = task->node;
  bool is_half = n->op == PRIM_INVERSE_REAL_DFT;
  bool is_mirrored = is_half && k >= l->length;
  int64_t at = line_element(l, line, is_mirrored ? points - k : k);
  Complex x = {input_at(task, 0, at).f, 0};
  if (n->input_count > 1 && !(is_half && (k == 0 || 2 * k == points)))
    x.im = input_at(task, 1, at).f;
  return is_mirrored ? (Complex){x.re, -x.im} : x;
}

typedef struct FourierBuffers {
  FourierTransform *transform;
  Complex *from, *to; /* one line */
  int64_t points;
} FourierBuffers;

static FourierBuffers fourier_buffers(const SliceTask *task, int64_t points) {
  const Node *n = task->node;
  return (FourierBuffers){fourier_new(task->arena, points,
                                      n->op == PRIM_INVERSE_REAL_DFT ||
                                          (n->op == PRIM_DFT && n->params[2])),
                          NEW_ARRAY(task->arena, Complex, points),
                          NEW_ARRAY(task->arena, Complex, points + 1), points};
}

/* REAL_DFT and INVERSE_REAL_DFT. */
static void real_fourier_slice(const SliceTask *task) {
  const Node *n = task->node;
  bool is_inverse = n->op == PRIM_INVERSE_REAL_DFT;
  AxisLines from = axis_lines_of(n->inputs[0], (uint32_t)n->params[0]);
  AxisLines to = from;
  FourierBuffers b =
      fourier_buffers(task, is_inverse ? n->params[1] : from.length);
  to.length = is_inverse ? b.points : b.points / 2 + 1;
  int64_t part = to.outer * to.length * to.inner;
  b.to[0] = (Complex){0, 0}; /* the transform of nothing */
  for (int64_t line = 0; line < from.outer * from.inner; line++) {
    poll_interrupt(task->graph);
    for (int64_t k = 0; k < b.points; k++)
      b.from[k] = spectrum_at(task, &from, line, k, b.points);
    fourier_apply(b.transform, b.from, b.to);
    for (int64_t k = 0; k < to.length; k++) {
      int64_t at = line_element(&to, line, k);
      store_output(task, at, float_of(n->dtype, b.to[k].re));
      if (!is_inverse)
        store_output(task, at + part, float_of(n->dtype, b.to[k].im));
    }
  }
}

/* DFT: the transform along each axis, in double precision. */
static void fourier_slice(const SliceTask *task) {
  const Node *n = task->node;
  int64_t count = slice_count(n->inputs[0]);
  Complex *all = NEW_ARRAY(task->arena, Complex, count);
  for (int64_t i = 0; i < count; i++)
    all[i] = (Complex){input_at(task, 0, i).f, input_at(task, 1, i).f};
  for (int64_t axis = n->params[0]; axis < n->params[0] + n->params[1];
       axis++) {
    AxisLines l = axis_lines_of(n->inputs[0], (uint32_t)axis);
    FourierBuffers b = fourier_buffers(task, l.length);
    for (int64_t line = 0; line < l.outer * l.inner; line++) {
      poll_interrupt(task->graph);
      for (int64_t k = 0; k < l.length; k++)
        b.from[k] = all[line_element(&l, line, k)];
      fourier_apply(b.transform, b.from, b.to);
      for (int64_t k = 0; k < l.length; k++)
        all[line_element(&l, line, k)] = b.to[k];
    }
  }
  for (int64_t i = 0; i < count; i++) {
    store_output(task, i, float_of(n->dtype, all[i].re));
    store_output(task, count + i, float_of(n->dtype, all[i].im));
  }
}

/* ---- folds and scans ---- */

typedef struct FoldElement { /* the computation of one element of the carry */
  const SliceTask *task;
  Scalar *inputs, *values; /* inputs: carry first; values: results of the ops */
  int64_t element;
} FoldElement;

static void load_inputs(const FoldElement *t, int64_t iteration,
                        uint32_t from) {
  const Node *n = t->task->node;
  for (uint32_t k = from; k < n->input_count; k++) {
    const Node *x = n->inputs[k];
    bool is_scanned = (uint64_t)n->params[2] >> k & 1;
    int64_t each = slice_count(x) / (is_scanned ? n->params[0] : 1);
    int64_t at = x->rank > is_scanned ? t->element : 0;
    t->inputs[k] =
        input_at(t->task, k, is_scanned ? iteration * each + at : at);
  }
}

static Scalar evaluate_op(const FoldElement *t, const BodyOp *c) {
  Scalar args[3] = {{.dtype = DT_NONE}}, value = c->value;
  for (uint32_t k = 0; k < c->arg_count && k < 3; k++)
    args[k] = t->values[c->args[k]];
  switch (c->kind) {
  case BODY_AXIS:
    return t->inputs[c->axis];
  case BODY_CONVERT:
    return scalar_convert(args[0], c->dtype);
  case BODY_SELECT:
    return args[0].i ? args[1] : args[2];
  case BODY_OP: /* folds contain no ops that can fail */
    scalar_apply(c->op, c->arg_count, args, c->dtype, &value);
    return value;
  case BODY_CONST:
  case BODY_EXTENT:
  case BODY_READ:
  case BODY_RANDOM:
    break;
  }
  return value;
}

/* Runs one iteration.  Returns the op of the last result. */
static uint32_t run_iteration(const FoldElement *t) {
  const Node *n = t->task->node;
  uint32_t carry_count = (uint32_t)n->params[1];
  uint32_t results = carry_count + (n->op == PRIM_SCAN);
  for (uint32_t k = 0; k < n->body_op_count; k++)
    t->values[k] = evaluate_op(t, &n->body_ops[k]);
  for (uint32_t k = 0; k < carry_count; k++)
    t->inputs[k] = t->values[n->body_op_count - results + k];
  return n->body_op_count - 1;
}

static void fold_slice(const SliceTask *task) {
  const Node *n = task->node;
  bool is_scan = n->op == PRIM_SCAN;
  int64_t iterations = n->params[0];
  int64_t count = slice_count(n) / (is_scan ? iterations : 1);
  FoldElement t = {.task = task};
  t.inputs = NEW_ARRAY(task->arena, Scalar, n->input_count);
  t.values = NEW_ARRAY(task->arena, Scalar, n->body_op_count);
  for (t.element = 0; t.element < count; t.element++) {
    load_inputs(&t, 0, 0);
    for (int64_t k = 0; k < iterations; k++) {
      poll_every(k);
      load_inputs(&t, k, (uint32_t)n->params[1]);
      uint32_t last = run_iteration(&t);
      if (is_scan)
        store_output(task, k * count + t.element, t.values[last]);
    }
    if (!is_scan)
      store_output(task, t.element, t.inputs[n->params[3]]);
  }
}

/* ---- linear algebra: one call of LAPACK for each matrix ---- */

static void load_matrix(const SliceTask *task, uint32_t input, int64_t count,
                        int64_t matrix, double *to) {
  for (int64_t i = 0; i < count; i++)
    to[i] = input_at(task, input, matrix * count + i).f;
}

static void set_lapack_fault(const SliceTask *task, LapackStatus status,
                             int64_t matrices, int64_t matrix, Fault *fault) {
  const char *text = lapack_status_text(status);
  if (matrices > 1 || task->node->free_count)
    fault_set(fault, "matrix %lld of the batch %s",
              (long long)(task->slice * matrices + matrix), text);
  else
    fault_set(fault, "the matrix %s", text);
  if (status == LAPACK_SINGULAR)
    fault_set_help(fault, "linalg.lstsq takes singular matrices too");
  if (status == LAPACK_NO_LIBRARY)
    fault_set_help(fault, "on Debian and Ubuntu: apt install %s",
                   "libopenblas0 (fast) or liblapack3");
}

static bool lapack_slice(const SliceTask *task, LapackOp op, Fault *fault) {
  const Node *n = task->node, *a = n->inputs[0];
  const Node *b = n->input_count > 1 ? n->inputs[1] : NULL;
  const int64_t *axes = a->extents + a->free_count + a->rank - 2;
  int64_t rows = axes[0], matrices = 1, b_count = 0;
  for (uint32_t k = 0; k + 2 < a->rank; k++)
    matrices *= a->extents[a->free_count + k];
  if (!matrices)
    return true;
  int64_t columns = b ? b->extents[b->free_count + b->rank - 1] : axes[1];
  int64_t a_count = rows * axes[1], out_count = slice_count(n) / matrices;
  if (b)
    b_count = rows * columns;
  double *x = NEW_ARRAY(task->arena, double, a_count);
  double *y = b ? NEW_ARRAY(task->arena, double, b_count) : NULL;
  double *out = NEW_ARRAY(task->arena, double, out_count);
  for (int64_t k = 0; k < matrices; k++) {
    poll_interrupt(task->graph);
    load_matrix(task, 0, a_count, k, x);
    if (b)
      load_matrix(task, 1, b_count, k, y);
    LapackStatus status = lapack_run(op, rows, columns, x, y, out);
    if (status) {
      set_lapack_fault(task, status, matrices, k, fault);
      return false;
    }
    for (int64_t i = 0; i < out_count; i++)
      store_output(
          task, k * out_count + i,
          scalar_convert((Scalar){.dtype = DT_F64, .f = out[i]}, n->dtype));
  }
  return true;
}

static void begin_slice(SliceTask *task, int64_t slice) {
  const Node *n = task->node;
  task->slice = slice;
  for (uint32_t k = 0; k < n->input_count; k++)
    task->first_elements[k] =
        slice_number(n, n->inputs[k], slice) * slice_count(n->inputs[k]);
}

static bool run_slice(const SliceTask *task, Fault *fault) {
  switch ((int)task->node->op) { /* the operations of node_opaque */
  case PRIM_SORT:
  case PRIM_ARGSORT:
    sort_slice(task);
    return true;
  case PRIM_TOPK:
    topk_slice(task);
    return true;
  case PRIM_CUMSUM:
    cumsum_slice(task);
    return true;
  case PRIM_SCATTER:
    return scatter_slice(task, fault);
  case PRIM_PERMUTATION:
    permutation(task);
    return true;
  case PRIM_DFT:
    fourier_slice(task);
    return true;
  case PRIM_REAL_DFT:
  case PRIM_INVERSE_REAL_DFT:
    real_fourier_slice(task);
    return true;
  case PRIM_FOLD:
  case PRIM_SCAN:
    fold_slice(task);
    return true;
  }
  LapackOp lapack = node_lapack_op(task->node->op, task->node->params);
  if (lapack)
    return lapack_slice(task, lapack, fault);
  fault_set(fault, "internal error: no opaque operation %s",
            prim_info[task->node->op].name);
  return false;
}

/* True if the node is needed for the free indices of this slice. */
static bool guard_holds(const Node *n, int64_t slice) {
  if (!n->guard)
    return true;
  const uint8_t *flags = n->guard->data->data;
  return flags[slice_number(n, n->guard, slice)] != 0;
}

static int64_t longest_line(const Node *n) {
  int64_t max = n->op == PRIM_PERMUTATION ? n->params[0] : 0;
  bool lines = n->input_count && n->op != PRIM_FOLD && n->op != PRIM_SCAN;
  for (uint32_t k = 0; lines && k < n->inputs[0]->rank; k++) {
    int64_t extent = n->inputs[0]->extents[n->inputs[0]->free_count + k];
    max = extent > max ? extent : max;
  }
  return max;
}

bool opaque_run(const Graph *g, Arena *arena, const Node *n, Tensor *out,
                Fault *fault) {
  int64_t slices = 1, line = longest_line(n);
  for (uint32_t k = 0; k < n->free_count; k++)
    slices *= n->extents[k];
  SliceTask task = {.graph = g, .arena = arena, .node = n, .out = out};
  task.first_elements = NEW_ARRAY(arena, int64_t, n->input_count);
  task.items = NEW_ARRAY(arena, SortKey, line);
  task.scratch = NEW_ARRAY(arena, SortKey, line);
  for (int64_t slice = 0; slice < slices; slice++) {
    poll_interrupt(g);
    begin_slice(&task, slice);
    if (guard_holds(n, slice) && !run_slice(&task, fault))
      return false;
  }
  return true;
}
