/* Library operations in plain C: sort, prefix sums, scatter, permutations;
 * linear algebra, which calls runtime/lapack.inc; and Fourier transforms, by
 * runtime/fourier.inc.
 * tensor/opaque.c defines them. */
#include "aot/host_code.h"

#include <string.h>

/* In addition to functions of backend/emit/prelude/scalar.inc. */
const char library_ops_source[] =
    "typedef struct SortItem { /* an element as an integer of the same order "
    "*/\n"
    "  uint64_t key;\n"
    "  int64_t index;\n"
    "} SortItem;\n"
    "INLINE int64_t add_i(int64_t x, int64_t y) {\n"
    "  return (int64_t)((uint64_t)x + (uint64_t)y);\n"
    "}\n"
    "INLINE uint64_t sort_key_i(int64_t x) {\n"
    "  return (uint64_t)x ^ (uint64_t)1 << 63;\n"
    "}\n"
    "INLINE uint64_t sort_key_d(double x) { /* NaN last */\n"
    "  double y = x == 0 ? 0 : x;\n"
    "  uint64_t bits;\n"
    "  memcpy(&bits, &y, sizeof bits);\n"
    "  if (x != x)\n"
    "    return UINT64_MAX;\n"
    "  return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;\n"
    "}\n"
    "/* Stable; items has room for as many again. */\n"
    "INLINE void merge_sort(SortItem *items, int64_t n) {\n"
    "  SortItem *from = items, *to = items + n;\n"
    "  for (int64_t width = 1; width < n; width *= 2) {\n"
    "    for (int64_t low = 0; low < n; low += 2 * width) {\n"
    "      int64_t middle = size_min(low + width, n), i = low, j = middle;\n"
    "      int64_t high = size_min(low + 2 * width, n);\n"
    "      for (int64_t k = low; k < high; k++)\n"
    "        if (i < middle &&\n"
    "            (j == high || from[i].key <= from[j].key))\n"
    "          to[k] = from[i++];\n"
    "        else\n"
    "          to[k] = from[j++];\n"
    "    }\n"
    "    SortItem *other = from;\n"
    "    from = to;\n"
    "    to = other;\n"
    "  }\n"
    "  if (from != items && n > 0)\n"
    "    memcpy(items, from, (size_t)n * sizeof *items);\n"
    "}\n";

/* Open for-loops. */
typedef struct OpLoops {
  HostEmitter *e;
  uint32_t outer_depth; /* block depth outside the loops */
  const char *indices[2 * MAX_RANK];
  uint32_t index_count;
} OpLoops;

static const char *open_axis_loop(OpLoops *o, int64_t extent) {
  HostEmitter *e = o->e;
  const char *i = host_emit_fresh_name(e, "i");
  host_emit_open_block(
      e, host_emit_format(e, "for (int64_t %s = 0; %s < %s; %s++)", i, i,
                          host_emit_extent(e, extent), i));
  return o->indices[o->index_count++] = i;
}

/* x[...] at the free indices of n and these own indices.  name: the pointer;
 * NULL: the storage of x. */
static const char *element_expr(OpLoops *o, const Node *n, const Node *x,
                                const char *name,
                                const char *const *own_indices) {
  HostEmitter *e = o->e;
  const char *at = NULL;
  for (uint32_t k = 0; k < x->free_count + x->rank; k++) {
    const char *i = k < x->free_count ? "0" : own_indices[k - x->free_count];
    for (uint32_t j = 0; k < x->free_count && j < n->free_count; j++)
      if (n->free_vars[j] == x->free_vars[k])
        i = o->indices[j];
    const char *extent = host_emit_extent(e, x->extents[k]);
    at = at ? host_emit_format(e, "(%s * %s + %s)", at, extent, i) : i;
  }
  return host_emit_format(e, "(%s)[%s]",
                          name ? name : host_emit_dense_pointer(e, x),
                          at ? at : "0");
}

static void open_free_loops(OpLoops *o, const Node *n) {
  HostEmitter *e = o->e;
  for (uint32_t k = 0; k < n->free_count; k++)
    open_axis_loop(o, n->extents[k]);
  if (n->guard)
    host_emit_open_block(
        e, host_emit_format(e, "if (%s)",
                            element_expr(o, n, n->guard, NULL, NULL)));
}

static OpLoops begin_loops(HostEmitter *e) {
  OpLoops o = {.e = e, .outer_depth = e->depth};
  host_emit_open_block(e, "");
  return o;
}

static void close_loops(const OpLoops *o) {
  while (o->e->depth > o->outer_depth)
    host_emit_close_block(o->e);
}

static const char *load_expr(HostEmitter *e, Dtype t, const char *x) {
  return dtype_is_narrow_float(t)
             ? host_emit_format(e, "from_%s(%s)", dtype_info[t].name, x)
             : x;
}

/* Opens loops over the own axes of x except one.  own_indices: the names of
 * their indices. */
static void open_own_loops(OpLoops *o, const Node *x, uint32_t skipped_axis,
                           const char **own_indices) {
  for (uint32_t k = 0; k < x->rank; k++)
    if (k != skipped_axis)
      own_indices[k] = open_axis_loop(o, x->extents[x->free_count + k]);
}

static const char *emit_sort_buffer(HostEmitter *e, int64_t count) {
  const char *items = host_emit_fresh_name(e, "items");
  const char *size = host_emit_extent(e, count);
  VEC_PUSH(e->arena, e->declarations,
           host_emit_format(e, "SortItem *%s = NULL;", items));
  host_emit_line(e,
                 "%s = allocate(mul_or_overflow(2, mul_or_overflow(1, %s)), "
                 "sizeof *%s, 0);",
                 items, size, items);
  host_emit_line(e, "if (!%s) %s", items,
                 host_emit_fail(e, (Span){0}, "out of memory"));
  return items;
}

static void emit_free_buffer(HostEmitter *e, const char *items) {
  host_emit_line(e, "free(%s);", items);
  host_emit_line(e, "%s = NULL;", items);
}

static const char *open_counted_loop(HostEmitter *e, const char *end) {
  const char *k = host_emit_fresh_name(e, "k");
  host_emit_open_block(
      e,
      host_emit_format(e, "for (int64_t %s = 0; %s < %s; %s++)", k, k, end, k));
  return k;
}

static void emit_sort(HostEmitter *e, const Node *n, const char *to,
                      uint32_t axis, bool index) {
  const Node *x = n->inputs[0];
  const char *own_indices[MAX_RANK], *k, *loaded;
  int64_t length = x->extents[x->free_count + axis];
  bool is_topk = n->op == PRIM_TOPK;
  const char *items = emit_sort_buffer(e, length),
             *end = host_emit_extent(e, length);
  OpLoops o = begin_loops(e);
  open_free_loops(&o, n);
  open_own_loops(&o, x, axis, own_indices);
  own_indices[axis] = k = open_counted_loop(e, end);
  loaded = load_expr(e, x->dtype, element_expr(&o, n, x, NULL, own_indices));
  host_emit_line(e, "%s[%s].key = %ssort_key_%s(%s);", items, k,
                 is_topk ? "~" : "", dtype_is_float(x->dtype) ? "d" : "i",
                 loaded);
  host_emit_line(e, "%s[%s].index = %s;", items, k, k);
  host_emit_close_block(e);
  host_emit_line(e, "merge_sort(%s, %s);", items, end);
  own_indices[axis] = k = open_counted_loop(
      e, host_emit_extent(e, n->extents[n->free_count + axis]));
  const char *at = element_expr(&o, n, n, to, own_indices);
  own_indices[axis] = host_emit_format(e, "%s[%s].index", items, k);
  host_emit_line(e, "%s = %s;", at,
                 index ? own_indices[axis]
                       : element_expr(&o, n, x, NULL, own_indices));
  close_loops(&o);
  emit_free_buffer(e, items);
}

/* The accumulator type, as for reductions of the type. */
static const char *accumulator_type(Dtype t) {
  return !dtype_is_float(t)         ? "int64_t"
         : dtype_is_narrow_float(t) ? "float"
                                    : "double";
}

static const char *add_expr(HostEmitter *e, Dtype t, const char *x,
                            const char *y) {
  return host_emit_format(e, dtype_is_float(t) ? "%s + %s" : "add_i(%s, %s)", x,
                          y);
}

static const char *store_expr(HostEmitter *e, Dtype t, const char *x) {
  return dtype_is_narrow_float(t)
             ? host_emit_format(e, "to_%s(%s)", dtype_info[t].name, x)
             : x;
}

static const char *store_sum_expr(HostEmitter *e, Dtype t, const char *sum) {
  if (t == DT_BOOL)
    return host_emit_format(e, "%s != 0", sum);
  return dtype_is_float(t)
             ? store_expr(
                   e, t,
                   host_emit_format(e, t == DT_F32 ? "(float)%s" : "%s", sum))
             : host_emit_format(e, "(%s)%s", host_emit_c_type(t), sum);
}

static void emit_cumsum(HostEmitter *e, const Node *n, const char *to) {
  const Node *x = n->inputs[0];
  const char *own_indices[MAX_RANK];
  uint32_t axis = (uint32_t)n->params[0];
  OpLoops o = begin_loops(e);
  open_free_loops(&o, n);
  open_own_loops(&o, x, axis, own_indices);
  const char *sum = host_emit_fresh_name(e, "a");
  host_emit_line(e, "%s %s = 0;", accumulator_type(n->dtype), sum);
  own_indices[axis] = open_counted_loop(
      e, host_emit_extent(e, x->extents[x->free_count + axis]));
  const char *y =
      load_expr(e, x->dtype, element_expr(&o, n, x, NULL, own_indices));
  host_emit_line(e, "%s = %s;", sum, add_expr(e, n->dtype, sum, y));
  host_emit_line(e, "%s = %s;", element_expr(&o, n, n, to, own_indices),
                 store_sum_expr(e, n->dtype, sum));
  close_loops(&o);
}

static void emit_scatter(HostEmitter *e, const Node *n, const char *to) {
  const Node *x = n->inputs[0], *index = n->inputs[1], *y = n->inputs[2];
  const char *own_indices[MAX_RANK], *sums = host_emit_fresh_name(e, "sums"),
                                     *count = "1";
  const char *type = accumulator_type(n->dtype), *flat = "0", *loaded;
  for (uint32_t k = 0; k < n->rank; k++)
    count =
        host_emit_format(e, "mul_or_overflow(%s, %s)", count,
                         host_emit_extent(e, n->extents[n->free_count + k]));
  VEC_PUSH(e->arena, e->declarations,
           host_emit_format(e, "%s *%s = NULL;", type, sums));
  host_emit_line(e, "%s = allocate(%s, sizeof *%s, 0);", sums, count, sums);
  host_emit_line(e, "if (!%s) %s", sums,
                 host_emit_fail(e, (Span){0}, "out of memory"));
  OpLoops o = begin_loops(e);
  open_free_loops(&o, n);
  uint32_t depth = e->depth;
  for (uint32_t part = 0; part < 3; part++) {
    const Node *over = part == 1 ? y : x;
    o.index_count = n->free_count;
    open_own_loops(&o, over, UINT32_MAX, own_indices);
    const char *first = own_indices[0];
    if (part == 1) {
      const char *row = host_emit_fresh_name(e, "row");
      loaded = load_expr(e, index->dtype,
                         element_expr(&o, n, index, NULL, own_indices));
      host_emit_line(e, "const int64_t %s = %s;", row, loaded);
      host_emit_line(e, "if (%s < 0 || %s >= %s) %s", row, row,
                     host_emit_extent(e, n->extents[n->free_count]),
                     host_emit_fail(e, n->span, "an index is out of bounds"));
      first = row;
    }
    flat = first;
    for (uint32_t k = 1; k < n->rank; k++)
      flat = host_emit_format(
          e, "(%s * %s + %s)", flat,
          host_emit_extent(e, n->extents[n->free_count + k]), own_indices[k]);
    const char *sum = host_emit_format(e, "%s[%s]", sums, flat);
    if (part == 2)
      host_emit_line(e, "%s = %s;", element_expr(&o, n, n, to, own_indices),
                     store_sum_expr(e, n->dtype, sum));
    else
      loaded = load_expr(e, over->dtype,
                         element_expr(&o, n, over, NULL, own_indices));
    if (part < 2)
      host_emit_line(e, "%s = %s;", sum,
                     part ? add_expr(e, n->dtype, sum, loaded) : loaded);
    while (e->depth > depth)
      host_emit_close_block(e);
  }
  close_loops(&o);
  host_emit_line(e, "free(%s);", sums);
  host_emit_line(e, "%s = NULL;", sums);
}

static void emit_permutation(HostEmitter *e, const Node *n, const char *to) {
  const char *items = emit_sort_buffer(e, n->params[0]), *k;
  const char *end = host_emit_extent(e, n->params[0]);
  k = open_counted_loop(e, end);
  host_emit_line(e, "%s[%s].key = bits64(UINT64_C(%llu), UINT64_C(%llu), %s);",
                 items, k, (unsigned long long)n->key.word[0],
                 (unsigned long long)n->key.word[1], k);
  host_emit_line(e, "%s[%s].index = %s;", items, k, k);
  host_emit_close_block(e);
  host_emit_line(e, "merge_sort(%s, %s);", items, end);
  k = open_counted_loop(e, end);
  host_emit_line(e, "%s[%s] = %s[%s].index;", to, k, items, k);
  host_emit_close_block(e);
  emit_free_buffer(e, items);
}

/* ---- linear algebra ---- */

static const char *emit_doubles(HostEmitter *e, const char *count) {
  const char *x = host_emit_fresh_name(e, "matrix");
  VEC_PUSH(e->arena, e->declarations,
           host_emit_format(e, "double *%s = NULL;", x));
  host_emit_line(e, "%s = allocate(%s, sizeof *%s, 0);", x, count, x);
  host_emit_line(e, "if (!%s) %s", x,
                 host_emit_fail(e, (Span){0}, "out of memory"));
  return x;
}

/* The number of own elements of x behind the first own axes. */
static const char *inner_count(HostEmitter *e, const Node *x, uint32_t first) {
  const char *count = "1";
  for (uint32_t k = first; k < x->rank; k++)
    count =
        host_emit_format(e, "mul_or_overflow(%s, %s)", count,
                         host_emit_extent(e, x->extents[x->free_count + k]));
  return count;
}

/* Copies one matrix, or what follows the first own axes, from x to a buffer, or
 * back.  own_indices: of the first own axes. */
static void emit_matrix_copy(OpLoops *o, const Node *n, const Node *x,
                             const char *storage, uint32_t first,
                             const char **own_indices, const char *buffer) {
  HostEmitter *e = o->e;
  uint32_t depth = e->depth;
  const char *at = "0";
  for (uint32_t k = first; k < x->rank; k++) {
    const char *extent = host_emit_extent(e, x->extents[x->free_count + k]);
    own_indices[k] = open_counted_loop(e, extent);
    at = host_emit_format(e, "(%s * %s + %s)", at, extent, own_indices[k]);
  }
  const char *element = element_expr(o, n, x, storage, own_indices);
  if (storage)
    host_emit_line(
        e, "%s = %s;", element,
        store_expr(
            e, x->dtype,
            host_emit_format(e, x->dtype == DT_F64 ? "%s[%s]" : "(float)%s[%s]",
                             buffer, at)));
  else
    host_emit_line(e, "%s[%s] = %s;", buffer, at,
                   load_expr(e, x->dtype, element));
  while (e->depth > depth)
    host_emit_close_block(e);
}

static void emit_lapack_call(HostEmitter *e, const Node *n, LapackOp op,
                             const char *x, const char *y, const char *out) {
  const Node *a = n->inputs[0], *last = n->inputs[n->input_count - 1];
  const char *status = host_emit_fresh_name(e, "status");
  const char *rows =
      host_emit_extent(e, a->extents[a->free_count + a->rank - 2]);
  const char *columns =
      host_emit_extent(e, last->extents[last->free_count + last->rank - 1]);
  host_emit_line(e,
                 "const LapackStatus %s = lapack_run(%d, %s, %s, %s, %s, %s);",
                 status, (int)op, rows, columns, x, y, out);
  host_emit_open_block(e, host_emit_format(e, "if (%s)", status));
  for (LapackStatus k = LAPACK_OK + 1; k < LAPACK_STATUS_COUNT; k++)
    host_emit_line(e, "if (%s == %d) %s", status, (int)k,
                   host_emit_fail(e, n->span,
                                  host_emit_format(e, "a matrix %s",
                                                   lapack_status_text(k))));
  host_emit_close_block(e);
}

static void emit_lapack(HostEmitter *e, const Node *n, const char *to,
                        LapackOp op) {
  const Node *a = n->inputs[0];
  const Node *b = n->input_count > 1 ? n->inputs[1] : NULL;
  const char *own_indices[MAX_RANK];
  uint32_t batch = a->rank - 2;
  const char *x = emit_doubles(e, inner_count(e, a, batch));
  const char *y = b ? emit_doubles(e, inner_count(e, b, batch)) : "NULL";
  const char *out = emit_doubles(e, inner_count(e, n, batch));
  e->module->has_lapack = true;
  OpLoops o = begin_loops(e);
  open_free_loops(&o, n);
  for (uint32_t k = 0; k < batch; k++)
    own_indices[k] = open_axis_loop(&o, a->extents[a->free_count + k]);
  emit_matrix_copy(&o, n, a, NULL, batch, own_indices, x);
  if (b)
    emit_matrix_copy(&o, n, b, NULL, batch, own_indices, y);
  emit_lapack_call(e, n, op, x, y, out);
  emit_matrix_copy(&o, n, n, to, batch, own_indices, out);
  close_loops(&o);
  emit_free_buffer(e, x);
  if (b)
    emit_free_buffer(e, y);
  emit_free_buffer(e, out);
}

/* ---- Fourier transforms ---- */

static const char *axes_product(HostEmitter *e, const int64_t *extents,
                                uint32_t from, uint32_t to) {
  const char *product = "1";
  for (uint32_t k = from; k < to; k++)
    product = host_emit_format(e, "%s * %s", product,
                               host_emit_extent(e, extents[k]));
  return product;
}

/* The address of the first element of a slice of x; or of its second half. */
static const char *slice_address(OpLoops *o, const Node *n, const Node *x,
                                 const char *name, bool second_half) {
  const char *own_indices[MAX_RANK];
  for (uint32_t k = 0; k < x->rank; k++)
    own_indices[k] = k == 0 && second_half ? "1" : "0";
  return host_emit_format(o->e, "&%s",
                          element_expr(o, n, x, name, own_indices));
}

static void emit_fourier_status(HostEmitter *e, const Node *n,
                                const char *axis) {
  static const char *const failures[][2] = {
      {"FOURIER_NO_MEMORY", "out of memory"},
      {"FOURIER_NO_LIBRARY",
       "Fourier transforms need the library FFTW: libfftw3.so.3 and "
       "libfftw3f.so.3 (on Debian and Ubuntu: apt install libfftw3-double3 "
       "libfftw3-single3)"},
      {"FOURIER_NO_PLAN", "a Fourier transform of more than 2^31 - 1 points"}};
  const char *status = host_emit_fresh_name(e, "status");
  host_emit_line(e, "const int %s = fourier_run_axis(&%s);", status, axis);
  for (size_t k = 0; k < ARRAY_LEN(failures); k++)
    host_emit_line(e, "if (%s == %s) %s", status, failures[k][0],
                   host_emit_fail(e, n->span, failures[k][1]));
}

/* The transform along one axis; all but the first one run in place. */
static void emit_fourier_axis(OpLoops *o, const Node *n, const char *to,
                              uint32_t axis, bool in_place) {
  HostEmitter *e = o->e;
  const Node *x = n->inputs[0];
  const int64_t *own = x->extents + x->free_count;
  bool has_parts = n->op != PRIM_INVERSE_REAL_DFT;
  const char *to_re = slice_address(o, n, n, to, false), *to_im = "NULL";
  if (has_parts)
    to_im = slice_address(o, n, n, to, true);
  const char *re = to_re, *im = to_im;
  if (!in_place) {
    re = slice_address(o, n, x, NULL, false);
    im = n->input_count > 1 ? slice_address(o, n, n->inputs[1], NULL, false)
                            : "NULL";
  }
  host_emit_open_block(e, "");
  const char *name = host_emit_fresh_name(e, "axis");
  const char *outer = axes_product(e, own, 0, axis);
  const char *size = host_emit_extent(e, has_parts ? own[axis] : n->params[1]);
  const char *inner = axes_product(e, own, axis + 1, x->rank);
  host_emit_line(
      e, "const FourierAxis %s = {%s, %d, %d, %s, %s, %s, %s, %s, %s, %s};",
      name,
      n->op == PRIM_DFT ? "FOURIER_COMPLEX"
      : has_parts       ? "FOURIER_REAL"
                        : "FOURIER_INVERSE_REAL",
      n->op == PRIM_DFT && n->params[2], x->dtype == DT_F64, outer, size, inner,
      re, im, to_re, to_im);
  emit_fourier_status(e, n, name);
  host_emit_close_block(e);
}

static void emit_fourier(HostEmitter *e, const Node *n, const char *to) {
  uint32_t first = (uint32_t)n->params[0];
  uint32_t axes = n->op == PRIM_DFT ? (uint32_t)n->params[1] : 1;
  e->module->has_fourier = true;
  OpLoops o = begin_loops(e);
  open_free_loops(&o, n);
  for (uint32_t k = 0; k < axes; k++)
    emit_fourier_axis(&o, n, to, first + k, k > 0);
  close_loops(&o);
}

void host_emit_library_op(HostEmitter *e, const Node *n, const char *to) {
  e->module->has_library_ops = true;
  switch ((int)n->op) { /* see node_opaque */
  case PRIM_SORT:
  case PRIM_ARGSORT:
    emit_sort(e, n, to, (uint32_t)n->params[0], n->op == PRIM_ARGSORT);
    break;
  case PRIM_TOPK:
    emit_sort(e, n, to, n->rank - 1, n->output_index != 0);
    break;
  case PRIM_CUMSUM:
    emit_cumsum(e, n, to);
    break;
  case PRIM_SCATTER:
    emit_scatter(e, n, to);
    break;
  case PRIM_PERMUTATION:
    emit_permutation(e, n, to);
    break;
  case PRIM_DFT:
  case PRIM_REAL_DFT:
  case PRIM_INVERSE_REAL_DFT:
    emit_fourier(e, n, to);
    break;
  }
  LapackOp lapack = node_lapack_op(n->op, n->params);
  if (lapack)
    emit_lapack(e, n, to, lapack);
}
