/* The node that is being imported: attributes, inputs, outputs. */
#include "onnx/internal.h"

#include <stdarg.h>
#include <string.h>

const char *text(Importer *im, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *out = arena_vprintf(im->arena, format, args);
  va_end(args);
  return out;
}

/* ---- attributes ---- */

const Attribute *find_attribute(Importer *im, const char *name) {
  for (size_t i = 0; i < im->node->n_attribute; i++) {
    const Attribute *a = im->node->attribute[i];
    if (a->name && strcmp(a->name, name) == 0)
      return a;
  }
  return NULL;
}

int64_t attr_int(Importer *im, const char *name, int64_t otherwise) {
  const Attribute *a = find_attribute(im, name);
  return a && a->has_i ? a->i : otherwise;
}

float attr_float(Importer *im, const char *name, float otherwise) {
  const Attribute *a = find_attribute(im, name);
  return a && a->has_f ? a->f : otherwise;
}

const char *attr_string(Importer *im, const char *name, const char *otherwise) {
  const Attribute *a = find_attribute(im, name);
  if (!a || !a->has_s)
    return otherwise;
  return arena_strndup(im->arena, (const char *)a->s.data, a->s.len);
}

uint32_t attr_ints(Importer *im, const char *name, const int64_t **out) {
  const Attribute *a = find_attribute(im, name);
  *out = a ? a->ints : NULL;
  if (a && a->n_ints > MAX_RANK * 4)
    import_fail(im, NULL, "the attribute `%s` has too many numbers", name);
  return a ? (uint32_t)a->n_ints : 0;
}

/* ---- inputs ---- */

uint32_t input_count(Importer *im) {
  return (uint32_t)im->node->n_input;
}

bool has_input(Importer *im, uint32_t i) {
  return i < im->node->n_input && im->node->input[i][0];
}

bool has_output(Importer *im, uint32_t i) {
  return i < im->node->n_output && im->node->output[i][0];
}

/* Before opset 7, the axes of operand 1 stand at an axis of operand 0, not at
   the last ones: `axis`, or that of the channels. */
static Value *aligned_operand(Importer *im, Value *v) {
  bool is_prelu = strcmp(im->node->op_type, "PRelu") == 0;
  const Attribute *axis = find_attribute(im, "axis");
  if (value_count(im, v) == 1 || v->shape.stars ||
      !(is_prelu || (attr_int(im, "broadcast", 0) && axis)))
    return v;
  uint32_t rank = raw_input(im, 0)->shape.rank;
  int64_t first = is_prelu ? 1 : axis->i;
  int64_t behind = rank - first - v->shape.rank;
  if (first < 0 || behind < 1)
    return v;
  Value *out = MAKE(im->arena, Value);
  Buffer stars = {.arena = im->arena};
  *out = (Value){.onnx_name = v->onnx_name, .dtype = v->dtype};
  out->shape = v->shape;
  for (int64_t k = 0; k < behind; k++) {
    buffer_puts(&stars, ", *");
    out->shape.stars |= 1u << out->shape.rank;
    out->shape.dims[out->shape.rank++] = num(im, 1);
  }
  out->text = text(im, "%s.[%s%s]", ref(im, v),
                   v->shape.rank == 1 ? ":" : "...", stars.text);
  return out;
}

Value *raw_input(Importer *im, uint32_t i) {
  if (!has_input(im, i))
    import_fail(im, NULL, "input %u is missing", i);
  Value *v = find_value(im, im->node->input[i]);
  if (!v)
    import_fail(im, NULL, "no node before it computes its input `%.80s`",
                im->node->input[i]);
  return i == 1 && im->opset < 7 ? aligned_operand(im, v) : v;
}

Value *plain(Importer *im, Value *v) {
  if (!v->shape.stars)
    return v;
  Value *out = MAKE(im->arena, Value);
  *out = *v;
  out->text = star_axes(im, ref(im, v), v->shape.rank, v->shape.stars, "new");
  out->shape.stars = 0;
  return out;
}

Value *input(Importer *im, uint32_t i) {
  return plain(im, raw_input(im, i));
}

/* A way to make integers known: --set takes inputs and sizes of the model. */
static const char *unknown_help(Importer *im, const Value *v,
                                const char *name) {
  for (uint32_t i = 0; i < im->parameters.len; i++)
    if (im->parameters.at[i] == v)
      return text(im,
                  "give its numbers: --set %s=1,2 (or 1 for a number without "
                  "axes)",
                  name);
  return "if it depends on an input of integers, or on sizes of inputs, give "
         "them their numbers: --set NAME=1,2";
}

Dim **int_operand(Importer *im, uint32_t i, const char *attribute,
                  uint32_t *count) {
  const int64_t *numbers = NULL;
  *count = attribute ? attr_ints(im, attribute, &numbers) : 0;
  if (*count) {
    Dim **out = MAKE_ARRAY(im->arena, Dim *, *count);
    for (uint32_t k = 0; k < *count; k++)
      out[k] = num(im, numbers[k]);
    return out;
  }
  if (!has_input(im, i))
    return NULL;
  Value *v = raw_input(im, i);
  Dim **out = known_ints(im, v);
  if (!out)
    import_fail(im, unknown_help(im, v, im->node->input[i]),
                "input `%.80s` must be known when the model is imported",
                im->node->input[i]);
  *count = (uint32_t)value_count(im, v);
  return out;
}

static bool is_parameter(const Importer *im, const Value *v) {
  for (uint32_t i = 0; i < im->parameters.len; i++)
    if (im->parameters.at[i] == v)
      return true;
  return false;
}

Dim **size_operand(Importer *im, uint32_t i, const char *attribute,
                   uint32_t *count) {
  Value *v = has_input(im, i) ? plain(im, raw_input(im, i)) : NULL;
  int64_t n = v ? value_count(im, v) : -1;
  if (!v || known_ints(im, v) || dtype_is_float(v->dtype) ||
      v->dtype == DT_BOOL || v->shape.rank > 1 || n < 0 || n > MAX_RANK)
    return int_operand(im, i, attribute, count);
  Dim **out = MAKE_ARRAY(im->arena, Dim *, n + 1);
  const char *all = ref(im, v);
  v->is_size = !v->shape.rank && v->dtype == DT_I64 && is_parameter(im, v);
  for (int64_t k = 0; k < n; k++) {
    const char *item =
        v->shape.rank ? text(im, "%s.[%lld]", all, (long long)k) : all;
    if (v->dtype != DT_I64)
      item = text(im, "i64 %s", item);
    out[k] = data_size(im, "size", item);
  }
  if (v->dtype == DT_I64)
    v->ints = out; /* another operator that reads it has the same sizes */
  *count = (uint32_t)n;
  return out;
}

int64_t dim_number(Importer *im, Dim *d, const char *what) {
  int64_t n;
  if (!dim_is_int(d, &n))
    import_fail(im, "give a size its number, as in --set n=16",
                "%s depends on a size of the input: %s", what,
                extent_source(im, d));
  return n;
}

int64_t *const_operand(Importer *im, uint32_t i, const char *attribute,
                       uint32_t *count) {
  Dim **dims = int_operand(im, i, attribute, count);
  if (!dims)
    return NULL;
  int64_t *out = MAKE_ARRAY(im->arena, int64_t, *count + 1);
  for (uint32_t k = 0; k < *count; k++)
    out[k] = dim_number(im, dims[k], attribute ? attribute : "an operand");
  return out;
}

uint32_t normal_axis(Importer *im, int64_t axis, uint32_t rank) {
  int64_t k = axis < 0 ? axis + rank : axis;
  if (k < 0 || k >= rank)
    import_fail(im, NULL, "axis %lld of a tensor with %u axes", (long long)axis,
                rank);
  return (uint32_t)k;
}

/* ---- text ---- */

const char *extent_source(Importer *im, Dim *d) {
  Buffer b = {.arena = im->arena};
  dim_print(&im->dims, &b, d);
  return b.text;
}

const char *extent_atom(Importer *im, Dim *d) {
  const char *s = extent_source(im, d);
  return strpbrk(s, "-+*/% (") ? text(im, "(%s)", s) : s;
}

const char *sizes_text(Importer *im, const Shape *s) {
  Buffer b = {.arena = im->arena};
  buffer_putc(&b, '[');
  for (uint32_t k = 0; k < s->rank; k++) {
    if (k > 0)
      buffer_puts(&b, ", ");
    dim_print(&im->dims, &b, s->dims[k]);
  }
  buffer_putc(&b, ']');
  return b.text;
}

const char *float_text(Importer *im, double x) {
  Buffer b = {.arena = im->arena};
  scalar_print(&b, (Scalar){.dtype = DT_F32, .f = (float)x});
  return b.text[0] == '-' ? text(im, "(%s)", b.text) : b.text;
}

static const char *add_weight(Importer *im, Value *v) {
  const char *name = make_identifier(im, v->onnx_name, "weight", 48);
  for (uint32_t i = 0; i < im->weights.len; i++)
    if (strcmp(im->weight_names.at[i], v->onnx_name) == 0)
      return im->loads.at[i].name;
  Buffer b = {.arena = im->arena};
  if (im->request->is_check) {
    const char *sizes = sizes_text(im, &v->shape);
    b.text = arena_printf(im->arena, "(broadcast %s 0 : %s%s)", sizes,
                          dtype_info[v->dtype].name, sizes);
    if (v->dtype == DT_BOOL)
      b.text = arena_printf(im->arena, "(broadcast %s false)", sizes);
    VEC_PUSH(im->arena, im->loads,
             ((Statement){.name = name, .text = b.text, .value = v}));
    VEC_PUSH(im->arena, im->weight_names, v->onnx_name);
    VEC_PUSH(im->arena, im->weights, v->tensor);
    return name;
  }
  buffer_puts(&b, "load ~name:\"");
  for (const char *c = v->onnx_name; *c; c++)
    buffer_printf(&b, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
  buffer_printf(&b, "\" \"%s\"", im->request->weights_path);
  Statement load = {.name = name, .text = b.text, .value = v};
  VEC_PUSH(im->arena, im->loads, load);
  VEC_PUSH(im->arena, im->weight_names, v->onnx_name);
  VEC_PUSH(im->arena, im->weights, v->tensor);
  return name;
}

const char *ref(Importer *im, Value *v) {
  if (v->text)
    return v->text;
  if (is_small_constant(v) || !v->tensor)
    return literal(im, v, true);
  if (v->tensor->count == 0)
    return text(im, "(zeros %s : %s%s)", sizes_text(im, &v->shape),
                dtype_info[v->dtype].name, sizes_text(im, &v->shape));
  v->text = add_weight(im, v);
  return v->text;
}

const char *scalar_text(Importer *im, Value *v) {
  if (v->tensor && v->tensor->count == 1) {
    Value number = *v;
    number.shape = scalar_shape();
    return literal(im, &number, true);
  }
  const char *all = ref(im, v);
  for (uint32_t k = 0; k < v->shape.rank; k++)
    all = text(im, "%s.[0]", all);
  return all;
}

/* ---- outputs ---- */

const char *local(Importer *im, const char *wish, const char *expression) {
  Statement s = {.name = make_identifier(im, wish, "value", 30),
                 .text = expression};
  VEC_PUSH(im->arena, im->statements, s);
  return s.name;
}

Dim *new_size(Importer *im, const char *wish) {
  const char *name = make_identifier(im, wish, "n", 30);
  Sym *sym = intern_string(im->interner, name);
  VEC_PUSH(im->arena, im->size_names, sym->text);
  return dim_of_var(&im->dims,
                    dim_new_var(&im->dims, DV_SKOLEM, sym, (Span){0}));
}

Dim *data_size(Importer *im, const char *wish, const char *expression) {
  Dim *size = new_size(im, wish);
  Statement s = {.name = extent_source(im, size), .text = expression};
  VEC_PUSH(im->arena, im->statements, s);
  return size;
}

/* In a program, a size with `min` or `max` has a name: an expression writes it
   otherwise than a type. */
Dim *extreme_size(Importer *im, Dim *a, Dim *b, bool is_min) {
  Dim *d = is_min ? dim_min(&im->dims, a, b) : dim_max(&im->dims, a, b);
  if (dim_is_const(d) || dim_equal(d, a) || dim_equal(d, b))
    return d;
  const char *x = extent_atom(im, a), *y = extent_atom(im, b);
  return data_size(im, is_min ? "smaller" : "larger",
                   text(im, "%s %s %s", is_min ? "minimum" : "maximum", x, y));
}

static void bind_output(Importer *im, uint32_t i, Value *v) {
  if (has_output(im, i))
    bind_value(im, im->node->output[i], v);
}

Value *define(Importer *im, uint32_t i, Dtype dtype, const Shape *shape,
              const char *format, ...) {
  Value *v = MAKE(im->arena, Value);
  if (!has_output(im, i))
    return v;
  if (shape->rank > MAX_RANK)
    import_fail(im, NULL, "a result has more than %d axes", MAX_RANK);
  for (uint32_t k = 0; k < shape->rank; k++)
    if (dim_is_const(shape->dims[k]) && dim_sign(shape->dims[k]) < 0)
      import_fail(im, NULL, "a result has the size %s at axis %u",
                  extent_source(im, shape->dims[k]), k);
  va_list args;
  va_start(args, format);
  const char *expression = arena_vprintf(im->arena, format, args);
  va_end(args);
  const char *op = im->node->op_type;
  v->onnx_name = im->node->output[i];
  v->dtype = dtype;
  v->shape = *shape;
  Statement s = {.name = make_identifier(im, v->onnx_name, op, 30),
                 .text = expression,
                 .value = v};
  v->text = s.name;
  VEC_PUSH(im->arena, im->statements, s);
  bind_output(im, i, v);
  return v;
}

void define_alias(Importer *im, uint32_t i, Value *v) {
  bind_output(im, i, v);
}

void define_ints(Importer *im, uint32_t i, Dtype dtype, const Shape *shape,
                 Dim **ints) {
  Value *v = MAKE(im->arena, Value);
  v->onnx_name = has_output(im, i) ? im->node->output[i] : "";
  v->dtype = dtype;
  v->shape = *shape;
  v->ints = ints;
  bind_output(im, i, v);
}
