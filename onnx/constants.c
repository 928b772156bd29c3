/* Constants: tensors of the file, and integers known as polynomials. */
#include "onnx/internal.h"
#include "support/file_open.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KNOWN = 4096, MAX_LITERAL = 16 };

typedef struct OnnxType { /* TensorProto.DataType */
  Dtype dtype;
  const char *name;
} OnnxType;

static const OnnxType onnx_types[] = {
    {DT_NONE, "undefined"},
    {DT_F32, "float"},
    {DT_U8, "uint8"},
    {DT_I8, "int8"},
    {DT_NONE, "uint16"},
    {DT_NONE, "int16"},
    {DT_I32, "int32"},
    {DT_I64, "int64"},
    {DT_NONE, "string"},
    {DT_BOOL, "bool"},
    {DT_F16, "float16"},
    {DT_F64, "double"},
    {DT_NONE, "uint32"},
    {DT_NONE, "uint64"},
    {DT_NONE, "complex64"},
    {DT_NONE, "complex128"},
    {DT_BF16, "bfloat16"},
    {DT_F8_E4M3, "float8e4m3fn"},
    {DT_NONE, "float8e4m3fnuz"},
    {DT_F8_E5M2, "float8e5m2"},
    {DT_NONE, "float8e5m2fnuz"},
    {DT_NONE, "uint4"},
    {DT_NONE, "int4"},
    {DT_F4_E2M1, "float4e2m1"},
    {DT_F8_E8M0, "float8e8m0"},
};

Dtype dtype_of_onnx(int32_t type) {
  return type >= 0 && (size_t)type < ARRAY_LEN(onnx_types)
             ? onnx_types[type].dtype
             : DT_NONE;
}

const char *onnx_type_name(int32_t type) {
  return type >= 0 && (size_t)type < ARRAY_LEN(onnx_types)
             ? onnx_types[type].name
             : "unknown";
}

/* ---- reading ---- */

static const char *external_entry(const TensorMessage *m, const char *key) {
  for (size_t i = 0; i < m->n_external_data; i++)
    if (m->external_data[i]->key && strcmp(m->external_data[i]->key, key) == 0)
      return m->external_data[i]->value;
  return NULL;
}

static size_t packed_bytes(const Tensor *t) {
  return t->dtype == DT_F4_E2M1 ? ((size_t)t->count + 1) / 2
                                : (size_t)t->count * dtype_info[t->dtype].bytes;
}

/* Data in another file of the model's folder. */
static void read_external(Importer *im, const TensorMessage *m, Tensor *t) {
  size_t bytes = packed_bytes(t);
  uint8_t *to = (uint8_t *)t->data +
                ((size_t)t->count * dtype_info[t->dtype].bytes - bytes);
  const char *place = external_entry(m, "location");
  const char *offset = external_entry(m, "offset");
  if (!place || place[0] == '/' || strstr(place, ".."))
    import_fail(im, NULL,
                "the external data of a tensor lie outside of the "
                "folder of the model");
  const char *path =
      arena_printf(im->arena, "%s/%s", im->request->source_dir, place);
  int fd = file_open_regular(path, NULL);
  FILE *in = fd < 0 ? NULL : fdopen(fd, "rb");
  if (!in)
    import_fail(im, "external data must lie beside the model",
                "%s, which holds data of the model, cannot be read: %s", path,
                file_open_error(errno));
  long start = offset ? strtol(offset, NULL, 10) : 0;
  bool ok = start >= 0 && fseek(in, start, SEEK_SET) == 0 &&
            fread(to, 1, bytes, in) == bytes;
  fclose(in);
  if (!ok)
    import_fail(im, NULL, "%s is shorter than the model says", path);
  if (t->dtype == DT_F4_E2M1)
    f4_unpack(t->data, to, (size_t)t->count);
}

static bool copy_ints(const TensorMessage *m, Tensor *t) {
  Dtype d = t->dtype;
  bool is_i64 = d == DT_I64;
  if ((is_i64 ? m->n_int64_data : m->n_int32_data) != (size_t)t->count)
    return false;
  for (int64_t i = 0; i < t->count; i++) {
    int64_t x = is_i64 ? m->int64_data[i] : m->int32_data[i];
    if (dtype_is_narrow_float(d)) { /* its bits; machines are little-endian */
      uint16_t bits = (uint16_t)x;
      memcpy(tensor_at(t, i), &bits, dtype_info[d].bytes);
    } else
      scalar_store((Scalar){.dtype = d, .i = dtype_wrap(d, x)},
                   tensor_at(t, i));
  }
  return true;
}

/* Two elements are in a byte; int32_data has one byte in each number. */
static bool copy_packed(const TensorMessage *m, Tensor *t) {
  size_t bytes = packed_bytes(t);
  bool is_raw = m->has_raw_data && m->raw_data.len > 0;
  if ((is_raw ? m->raw_data.len : m->n_int32_data) != bytes)
    return false;
  for (size_t i = 0; i < (size_t)t->count; i += 2) {
    uint8_t pair =
        is_raw ? m->raw_data.data[i / 2] : (uint8_t)m->int32_data[i / 2];
    size_t rest = (size_t)t->count - i;
    f4_unpack(tensor_at(t, (int64_t)i), &pair, rest < 2 ? rest : 2);
  }
  return true;
}

static bool copy_elements(const TensorMessage *m, Tensor *t, size_t bytes) {
  if (t->dtype == DT_F4_E2M1)
    return copy_packed(m, t);
  if (m->has_raw_data && m->raw_data.len > 0) {
    if (m->raw_data.len != bytes)
      return false;
    memcpy(t->data, m->raw_data.data, bytes);
    return true;
  }
  if (t->count == 0)
    return true;
  if (t->dtype != DT_F32 && t->dtype != DT_F64)
    return copy_ints(m, t);
  bool is_f32 = t->dtype == DT_F32;
  if ((is_f32 ? m->n_float_data : m->n_double_data) != (size_t)t->count)
    return false;
  memcpy(t->data, is_f32 ? (void *)m->float_data : (void *)m->double_data,
         bytes);
  return true;
}

enum { EXTERNAL = 1 }; /* TensorProto.DataLocation */

/* An upper bound of the elements that a message contains, before memory for
   them is allocated. */
static void check_count(Importer *im, const TensorMessage *m, const char *name,
                        Dtype dtype) {
  int64_t count = 1;
  size_t there = m->raw_data.len / dtype_info[dtype].bytes + m->n_float_data +
                 m->n_int32_data + m->n_int64_data + m->n_double_data;
  if (dtype == DT_F4_E2M1)
    there *= 2;
  for (size_t k = 0; k < m->n_dims; k++)
    if (m->dims[k] < 0 || __builtin_mul_overflow(count, m->dims[k], &count))
      import_fail(im, NULL, "the sizes of the tensor `%.80s` are invalid",
                  name);
  if (!(m->has_data_location && m->data_location == EXTERNAL) && count > 0 &&
      (uint64_t)count > there)
    import_fail(im, NULL,
                "the tensor `%.80s` has fewer elements than its "
                "sizes say",
                name);
}

Dtype require_dtype(Importer *im, int32_t type, const char *what,
                    const char *name) {
  Dtype dtype = dtype_of_onnx(type);
  if (!dtype)
    import_fail(im, NULL,
                "the %s `%.80s` has the element type %s, which Axon does not "
                "have",
                what, name, onnx_type_name(type));
  return dtype;
}

Tensor *constant_tensor(Importer *im, Dtype dtype, uint32_t rank,
                        const int64_t *sizes) {
  Tensor *t = tensor_new(dtype, rank, sizes, false, im->fault);
  if (!t)
    longjmp(im->failed, 1);
  VEC_PUSH(im->arena, im->tensors, t);
  return t;
}

Tensor *read_tensor(Importer *im, const TensorMessage *m, const char *name) {
  Dtype dtype = require_dtype(im, m->data_type, "tensor", name);
  if (m->n_dims > MAX_RANK)
    import_fail(im, NULL, "the tensor `%.80s` has more than %d axes", name,
                MAX_RANK);
  check_count(im, m, name, dtype);
  Tensor *t = constant_tensor(im, dtype, (uint32_t)m->n_dims, m->dims);
  size_t bytes = (size_t)t->count * dtype_info[dtype].bytes;
  if (m->has_data_location && m->data_location == EXTERNAL)
    read_external(im, m, t);
  else if (!copy_elements(m, t, bytes))
    import_fail(im, NULL, "the data of the tensor `%.80s` do not fit its sizes",
                name);
  return t;
}

Value *constant_value(Importer *im, const char *name, Tensor *t) {
  Value *v = MAKE(im->arena, Value);
  v->onnx_name = name;
  v->dtype = t->dtype;
  v->tensor = t;
  v->shape.rank = t->rank;
  for (uint32_t k = 0; k < t->rank; k++)
    v->shape.dims[k] = num(im, t->shape[k]);
  return v;
}

/* ---- known integers ---- */

int64_t value_count(Importer *im, const Value *v) {
  int64_t n;
  return dim_is_int(dims_product(im, &v->shape, 0, v->shape.rank), &n) ? n : -1;
}

Dim **known_ints(Importer *im, Value *v) {
  if (v->ints || !v->tensor || dtype_is_float(v->dtype) ||
      v->tensor->count > MAX_KNOWN)
    return v->ints;
  v->ints = MAKE_ARRAY(im->arena, Dim *, v->tensor->count + 1);
  for (int64_t i = 0; i < v->tensor->count; i++)
    v->ints[i] = num(im, scalar_load(v->dtype, tensor_at(v->tensor, i)).i);
  return v->ints;
}

/* ---- literals ---- */

bool is_small_constant(const Value *v) {
  return v->tensor && v->tensor->count <= MAX_LITERAL && v->tensor->rank <= 2 &&
         v->tensor->count > 0;
}

static void note_list(Importer *im, const char *list, size_t len, Dtype dtype) {
  Sym *sym = intern(im->interner, list, len);
  uintptr_t before = (uintptr_t)map_get(&im->lists, sym);
  uintptr_t now = before && before != dtype ? DT_COUNT : dtype;
  map_put(&im->lists, sym, (void *)now);
}

static void print_elements(Importer *im, Buffer *b, const Value *v,
                           uint32_t axis, int64_t *next) {
  if (axis == v->shape.rank) {
    if (v->tensor)
      scalar_print(b, scalar_load(v->dtype, tensor_at(v->tensor, *next)));
    else if (v->dtype == DT_BOOL)
      buffer_puts(b, is_one(v->ints[*next]) ? "true" : "false");
    else
      dim_print(&im->dims, b, v->ints[*next]);
    ++*next;
    return;
  }
  int64_t n = 0;
  size_t start = b->len;
  dim_is_int(v->shape.dims[axis], &n);
  buffer_putc(b, '[');
  for (int64_t i = 0; i < n; i++) {
    if (i > 0)
      buffer_puts(b, ", ");
    print_elements(im, b, v, axis + 1, next);
  }
  buffer_putc(b, ']');
  note_list(im, b->text + start, b->len - start, v->dtype);
}

const char *literal(Importer *im, Value *v, bool is_typed) {
  Buffer b = {.arena = im->arena};
  int64_t next = 0;
  print_elements(im, &b, v, 0, &next);
  bool is_default =
      v->shape.rank == 0
          ? v->dtype == DT_F32 || v->dtype == DT_I64 || v->dtype == DT_BOOL
          : v->dtype == DT_F32 || v->dtype == DT_BOOL;
  if (is_typed && !is_default) {
    const char *s = v->shape.rank ? sizes_text(im, &v->shape) : "";
    if (v->tensor)
      return text(im, "(%s : %s%s)", b.text, dtype_info[v->dtype].name, s);
    return v->dtype == DT_I64 ? text(im, "(%s : i64%s)", b.text, s)
                              : text(im, "(%s (%s : i64%s))",
                                     dtype_info[v->dtype].name, b.text, s);
  }
  bool is_atom = v->shape.rank > 0 || !strpbrk(b.text, "-+*/% ");
  return is_atom ? b.text : text(im, "(%s)", b.text);
}
