/* Values with axes: alignment, and polynomials over the axes. */
#include "onnx/emit.h"
#include "session/state.h"
#include "support/arena_text.h"
#include "support/intern.h"

#include <string.h>

/* Indices of up to this many elements are constants of the model. */
enum { MAX_TABLE = 1 << 20 };

uint32_t lower_axes(uint32_t axes, uint32_t k) {
  return (uint32_t)__builtin_popcount(axes & ((1u << k) - 1));
}

/* ---- alignment ---- */

const char *unsqueeze_to(Exporter *x, Labeled v, uint32_t axes) {
  int64_t places[MAX_RANK];
  uint32_t count = 0;
  for (uint32_t k = 0; k < MAX_RANK; k++)
    if ((axes & ~v.axes) >> k & 1)
      places[count++] = lower_axes(axes, k);
  if (!count)
    return v.name;
  return put_op(x, "Unsqueeze", v.name, put_list(x, count, places), NULL);
}

const char *expand_to(Exporter *x, const AxisSizes *a, Labeled v,
                      uint32_t axes) {
  int64_t sizes[MAX_RANK];
  uint32_t count = 0;
  bool grows = false;
  for (uint32_t k = 0; k < a->count; k++)
    if (axes >> k & 1) {
      sizes[count++] = a->extents[k];
      grows |= !(v.axes >> k & 1) && a->extents[k] != 1;
    }
  const char *name = unsqueeze_to(x, v, axes);
  return grows ? put_op(x, "Expand", name, put_shape(x, count, sizes), NULL)
               : name;
}

uint32_t align_axes(Exporter *x, uint32_t count, const Labeled *v,
                    const char **names) {
  uint32_t axes = 0;
  for (uint32_t i = 0; i < count; i++)
    axes |= v[i].axes;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t first = v[i].axes ? (uint32_t)__builtin_ctz(v[i].axes) : MAX_RANK;
    uint32_t inner = first == MAX_RANK ? 0 : axes & ~((1u << first) - 1);
    names[i] = unsqueeze_to(x, v[i], inner);
  }
  return axes;
}

/* ---- polynomials ---- */

static uint32_t axis_of_var(const Exporter *x, const DimVar *var) {
  for (uint32_t k = 0; k < MAX_RANK; k++)
    if (x->axis_vars[k] == var)
      return k;
  return MAX_RANK;
}

typedef struct AxisSearch {
  Exporter *x;
  uint32_t axes;
  bool has_sizes;
} AxisSearch;

static void note_var(void *arg, DimVar *var) {
  AxisSearch *s = arg;
  uint32_t k = axis_of_var(s->x, var);
  if (k < MAX_RANK)
    s->axes |= 1u << k;
  else
    s->has_sizes = true;
}

uint32_t dim_axes(Exporter *x, Dim *d) {
  AxisSearch s = {.x = x};
  dim_each_var(d, note_var, NULL, &s);
  return s.axes;
}

/* ---- sizes of arguments ---- */

static const char *put_size_var(Exporter *x, const DimVar *var) {
  const Trace *t = x->trace;
  for (uint32_t k = 0; k < t->size_count; k++) {
    const TraceSize *s = &t->sizes[k];
    if (s->var != var)
      continue;
    if (s->arg == TRACE_INACCESSIBLE)
      export_fail(x, "give it a number in the type of --entry",
                  "no argument determines the size %s", s->name);
    const char *v = t->args[s->arg].name;
    if (s->axis != TRACE_SCALAR_VALUE) {
      v = put_op(x, "Shape", v, NULL, NULL);
      v = put_op(x, "Gather", v, put_int(x, s->axis), NULL);
    }
    if (s->offset)
      v = put_op(x, "Sub", v, put_extent(x, s->offset), NULL);
    if (s->coef != 1)
      v = put_op(x, "Div", v, put_extent(x, s->coef), NULL);
    return v;
  }
  export_fail(x, NULL, "it has a size of unknown origin");
}

/* ---- evaluation ---- */

typedef struct TablePoint {
  Exporter *x;
  int64_t at[MAX_RANK];
} TablePoint;

static int64_t point_value(void *arg, const DimVar *var) {
  const TablePoint *p = arg;
  return p->at[axis_of_var(p->x, var)];
}

/* The values for all indices, as a constant; false if they are too many. */
static bool tabulate(Exporter *x, const AxisSizes *a, Dim *d, uint32_t axes,
                     const char **out) {
  AxisSearch s = {.x = x};
  int64_t sizes[MAX_RANK], count = 1;
  uint32_t rank = 0, op_count;
  dim_each_var(d, note_var, NULL, &s);
  Buffer key = {.arena = x->arena};
  dim_print(x->dims, &key, d);
  for (uint32_t k = 0; k < a->count; k++)
    if (axes >> k & 1) {
      int64_t n = known_extent(x, a->extents[k]);
      if (s.has_sizes || n < 0 || n > MAX_TABLE || (count *= n) > MAX_TABLE)
        return false;
      sizes[rank++] = n;
      buffer_printf(&key, " %u<%lld", k, (long long)n);
    }
  Sym *sym = intern_string(x->interner, key.text);
  *out = map_get(&x->constants, sym);
  if (*out)
    return true;
  Fault fault = {0};
  const DimOp *ops = dim_postfix(x->dims, d, &op_count);
  Tensor *t = ops ? tensor_new(DT_I64, rank, sizes, false, &fault) : NULL;
  if (!t)
    return false;
  TablePoint p = {.x = x};
  bool ok = true;
  for (int64_t i = 0; i < count && ok; i++) {
    int64_t rest = i;
    for (uint32_t k = a->count; k-- > 0;)
      if (axes >> k & 1) {
        p.at[k] = rest % a->extents[k];
        rest /= a->extents[k];
      }
    ok = dim_postfix_evaluate(ops, op_count, point_value, &p,
                              (int64_t *)t->data + i);
  }
  if (ok)
    *out = put_tensor(x, t);
  tensor_release(t);
  if (ok)
    map_put(&x->constants, sym, (void *)(uintptr_t)*out);
  return ok;
}

static Labeled put_var(Exporter *x, const AxisSizes *a, const DimVar *var) {
  uint32_t k = axis_of_var(x, var);
  if (k == MAX_RANK)
    return (Labeled){put_size_var(x, var), 0};
  const char *first = put_int(x, 0), *end = put_extent(x, a->extents[k]);
  const char *step = put_int(x, 1);
  return (Labeled){put_op(x, "Range", first, end, step), 1u << k};
}

static Labeled put_dim_op(Exporter *x, DimOpKind kind, const Labeled *args) {
  static const char *const names[] = {
      [DOP_ADD] = "Add($x, $y)", [DOP_SUB] = "Sub($x, $y)",
      [DOP_MUL] = "Mul($x, $y)", [DOP_DIV] = "Div(Sub($x, Mod($x, $y)), $y)",
      [DOP_MIN] = "Min($x, $y)", [DOP_MAX] = "Max($x, $y)",
  };
  return put_expression(x, names[kind], DT_I64, 2, args);
}

static Labeled put_postfix(Exporter *x, const AxisSizes *a, Dim *d) {
  uint32_t count, depth = 0;
  const DimOp *ops = dim_postfix(x->dims, d, &count);
  if (!ops)
    export_fail(x, NULL, "a size exceeds 64 bits");
  Labeled *stack = MAKE_ARRAY(x->arena, Labeled, count + 1);
  for (uint32_t k = 0; k < count; k++) {
    if (ops[k].kind == DOP_PROD)
      export_fail(x, NULL, "the rank of an argument is unknown");
    if (ops[k].kind == DOP_INT)
      stack[depth++] = (Labeled){put_int(x, ops[k].num), 0};
    else if (ops[k].kind == DOP_VAR)
      stack[depth++] = put_var(x, a, ops[k].var);
    else {
      depth--;
      stack[depth - 1] = put_dim_op(x, ops[k].kind, &stack[depth - 1]);
    }
  }
  return stack[0];
}

/* Sizes are computed once, in the outermost graph. */
static Labeled put_size(Exporter *x, Dim *d) {
  int64_t number, handle = extent_of_dim(x->graph, d);
  if (dim_is_int(d, &number))
    return (Labeled){put_int(x, number), 0};
  const void *key = (const void *)(uintptr_t)handle;
  const char *name = map_get(&x->main.sizes, key);
  if (!name) {
    Scope *scope = x->scope;
    x->scope = &x->main;
    name = put_postfix(x, NULL, d).name;
    x->scope = scope;
    map_put(&x->main.sizes, key, (void *)(uintptr_t)name);
  }
  return (Labeled){name, 0};
}

Labeled put_dim(Exporter *x, const AxisSizes *a, Dim *d) {
  uint32_t axes = dim_axes(x, d);
  const char *name;
  if (!axes)
    return put_size(x, d);
  if (tabulate(x, a, d, axes, &name))
    return (Labeled){name, axes};
  return put_postfix(x, a, d);
}
