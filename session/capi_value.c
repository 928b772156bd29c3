/* The C API (axon.h): values as arguments and results. */
#include "session/capi.h"
#include "support/utf8.h"

#include <math.h>
#include <string.h>

_Static_assert(AXN_F8_E8M0 + 1 == (int)DT_COUNT && AXN_F32 == (int)DT_F32 &&
                   AXN_I64 == (int)DT_I64 && AXN_BOOL == (int)DT_BOOL &&
                   AXN_RANK_MAX == (int)MAX_RANK,
               "the element types of axon.h are those of the tables");
_Static_assert(AXN_UNIT == (int)HOST_VALUE_UNIT &&
                   AXN_NUMBER == (int)HOST_VALUE_NUMBER &&
                   AXN_RECORD == (int)HOST_VALUE_RECORD &&
                   AXN_OTHER == (int)HOST_VALUE_OTHER,
               "the kinds of axon.h are those of data");

const char *axn_dtype_name(AxnDtype dtype) {
  return dtype > 0 && (int)dtype < DT_COUNT ? dtype_info[dtype].name : "";
}

size_t axn_dtype_size(AxnDtype dtype) {
  return dtype > 0 && (int)dtype < DT_COUNT ? dtype_info[dtype].bytes : 0;
}

/* ---- making ---- */

static void report_out_of_memory(AxnSession *a) {
  capi_error(a, 505, NULL, "out of memory");
}

static AxnValue *checked_value(AxnSession *a, HostValue *d) {
  if (!d)
    report_out_of_memory(a);
  return capi_value_of(d);
}

AxnValue *axn_value_int(AxnSession *a, int64_t x) {
  return checked_value(a, host_value_number((Scalar){DT_I64, {.i = x}}, true));
}

AxnValue *axn_value_float(AxnSession *a, double x) {
  return checked_value(a, host_value_number((Scalar){DT_F32, {.f = x}}, true));
}

AxnValue *axn_value_bool(AxnSession *a, bool x) {
  return checked_value(a,
                       host_value_number((Scalar){DT_BOOL, {.i = x}}, false));
}

AxnValue *axn_value_unit(AxnSession *a) {
  return checked_value(a, host_value_new(HOST_VALUE_UNIT, 0, NULL, 0, NULL));
}

AxnValue *axn_value_string(AxnSession *a, const char *text, size_t len) {
  if (len > UINT32_MAX || utf8_valid_prefix(text, len) != len) {
    capi_error(a, ERROR_BAD_VALUE, "pass bytes as a tensor of type u8",
               "a string must be UTF-8 without a zero byte");
    return NULL;
  }
  return checked_value(a,
                       host_value_new(HOST_VALUE_STRING, 0, text, len, NULL));
}

static AxnValue *make_compound(AxnSession *a, HostValueKind kind, size_t count,
                               const char *const *names,
                               AxnValue *const *items) {
  if (count > UINT32_MAX) {
    report_out_of_memory(a);
    return NULL;
  }
  for (size_t i = 0; i < count; i++) {
    if (items[i] && host_value_of(items[i])->depth < MAX_HOST_VALUE_DEPTH)
      continue;
    if (items[i])
      capi_error(a, ERROR_BAD_VALUE, NULL,
                 "a value is nested more than %d levels deep",
                 MAX_HOST_VALUE_DEPTH);
    else
      capi_error(a, ERROR_BAD_VALUE, NULL, "item %zu is NULL", i + 1);
    return NULL;
  }
  HostValue *d = host_value_new(kind, (uint32_t)count, NULL, 0, names);
  for (size_t i = 0; d && i < count; i++) {
    d->items[i] = host_value_retain(host_value_of(items[i]));
    if (d->items[i]->depth >= d->depth)
      d->depth = d->items[i]->depth + 1;
  }
  return checked_value(a, d);
}

AxnValue *axn_value_tuple(AxnSession *a, size_t count, AxnValue *const *items) {
  if (count == 1) {
    capi_error(a, ERROR_BAD_VALUE, "pass the item itself",
               "a tuple has at least two items");
    return NULL;
  }
  if (!count)
    return axn_value_unit(a);
  return make_compound(a, HOST_VALUE_TUPLE, count, NULL, items);
}

AxnValue *axn_value_list(AxnSession *a, size_t count, AxnValue *const *items) {
  return make_compound(a, HOST_VALUE_LIST, count, NULL, items);
}

AxnValue *axn_value_record(AxnSession *a, size_t count,
                           const char *const *names, AxnValue *const *items) {
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < i; k++)
      if (strcmp(names[i], names[k]) == 0) {
        capi_error(a, ERROR_BAD_VALUE, NULL,
                   "a record has a duplicate field %s", names[i]);
        return NULL;
      }
  return make_compound(a, HOST_VALUE_RECORD, count, count ? names : NULL,
                       items);
}

/* ---- tensors ---- */

static bool is_row_major(const AxnTensor *t) {
  int64_t step = 1;
  for (int32_t i = t->rank; t->strides && i--;) {
    if (t->shape[i] != 1 && t->strides[i] != step)
      return false;
    step *= t->shape[i];
  }
  return true;
}

static bool has_nonbinary_bool(const AxnTensor *t, int64_t count) {
  const uint8_t *at = t->data;
  uint8_t all = 0;
  for (int64_t i = 0; t->dtype == AXN_BOOL && i < count; i++)
    all |= at[i];
  return all > 1;
}

static void copy_items(uint8_t *to, const uint8_t *from, int64_t count,
                       int64_t step, size_t bytes, bool is_bool) {
  for (int64_t i = 0; i < count; i++, from += step * (int64_t)bytes) {
    if (is_bool)
      *to = *from != 0;
    else
      memcpy(to, from, bytes);
    to += bytes;
  }
}

/* Copies rows in order.  Requires that `out` has elements. */
static void copy_strided(Tensor *out, const AxnTensor *t) {
  size_t bytes = dtype_info[out->dtype].bytes;
  int64_t at[MAX_RANK] = {0}, step[MAX_RANK], row = 1;
  int64_t last = t->rank - 1;
  for (int64_t i = last, step_here = 1; i >= 0; i--) {
    step[i] = t->strides ? t->strides[i] : step_here;
    step_here *= t->shape[i];
  }
  if (t->rank)
    row = t->shape[last];
  uint8_t *to = out->data;
  const uint8_t *from = t->data;
  for (int64_t done = 0; done < out->count; done += row) {
    copy_items(to, from, row, t->rank ? step[last] : 1, bytes,
               out->dtype == DT_BOOL);
    to += row * (int64_t)bytes;
    for (int64_t i = last - 1; i >= 0; i--) {
      from += step[i] * (int64_t)bytes;
      if (++at[i] < t->shape[i])
        break;
      from -= step[i] * t->shape[i] * (int64_t)bytes;
      at[i] = 0;
    }
  }
}

static bool check_tensor(AxnSession *a, const AxnTensor *t) {
  bool sizes_ok = true, has_elements = true;
  int32_t rank = t->shape && t->rank <= MAX_RANK ? t->rank : 0;
  for (int32_t i = 0; i < rank; i++) {
    sizes_ok = sizes_ok && t->shape[i] >= 0;
    has_elements = has_elements && t->shape[i] > 0;
  }
  if ((int)t->dtype <= 0 || (int)t->dtype >= DT_COUNT)
    capi_error(a, ERROR_BAD_VALUE, NULL, "element type %d does not exist",
               (int)t->dtype);
  else if (t->rank < 0 || t->rank > MAX_RANK)
    capi_error(a, ERROR_BAD_VALUE, NULL,
               "a tensor of rank %d: the rank must be 0 to %d", (int)t->rank,
               MAX_RANK);
  else if (t->rank && !t->shape)
    capi_error(a, ERROR_BAD_VALUE, NULL,
               "the shape of a tensor of rank %d is NULL", (int)t->rank);
  else if (!sizes_ok)
    capi_error(a, ERROR_BAD_VALUE, NULL, "a tensor has a negative size");
  else if (has_elements && !t->data)
    capi_error(a, ERROR_BAD_VALUE, NULL,
               "the data of a tensor with elements is NULL");
  else
    return true;
  return false;
}

/* Borrows the data if possible. *copied: the data are not needed any more. */
static Tensor *borrow_or_copy(const AxnTensor *t, bool *copied, Fault *fault) {
  Tensor *borrowed =
      tensor_borrow((Dtype)t->dtype, (uint32_t)t->rank, t->shape, t->data);
  if (!borrowed) {
    fault_set_kind(fault, FAULT_MEMORY, "a tensor is too large for any memory");
    return NULL;
  }
  size_t bytes = dtype_info[borrowed->dtype].bytes;
  *copied =
      borrowed->count && (!is_row_major(t) || (uintptr_t)t->data % bytes ||
                          has_nonbinary_bool(t, borrowed->count));
  if (!*copied)
    return borrowed;
  tensor_release(borrowed);
  Tensor *copy =
      tensor_new((Dtype)t->dtype, (uint32_t)t->rank, t->shape, false, fault);
  if (copy)
    copy_strided(copy, t);
  return copy;
}

/* Reads a tensor of rank 0 immediately. */
static HostValue *read_scalar(const AxnTensor *t) {
  uint64_t bits = 0;
  memcpy(&bits, t->data, dtype_info[t->dtype].bytes);
  Scalar x = scalar_load((Dtype)t->dtype, &bits);
  if (x.dtype == DT_BOOL)
    x.i = (bits & 0xff) != 0;
  return host_value_number(x, false);
}

AxnValue *axn_value_tensor(AxnSession *a, const AxnTensor *t,
                           void (*release)(void *owner), void *owner) {
  if (!check_tensor(a, t))
    return NULL;
  bool copied = true;
  Fault fault = {0};
  HostValue *d = t->rank ? host_value_new(HOST_VALUE_TENSOR, 0, NULL, 0, NULL)
                         : read_scalar(t);
  if (d && t->rank) {
    d->tensor = borrow_or_copy(t, &copied, &fault);
    if (!d->tensor) {
      host_value_release(d);
      capi_error(a, 505, fault.help, "%s", fault.message);
      return NULL;
    }
  }
  if (d && !copied) {
    d->is_shared = true;
    d->release = release;
    d->owner = owner;
  } else if (d && release) {
    release(owner);
  }
  return checked_value(a, d);
}

/* ---- looking ---- */

AxnValue *axn_value_retain(AxnValue *value) {
  return capi_value_of(host_value_retain(host_value_of(value)));
}

void axn_value_free(AxnValue *value) {
  host_value_release(host_value_of(value));
}

AxnKind axn_value_kind(const AxnValue *value) {
  return (AxnKind)host_value_of(value)->kind;
}

size_t axn_value_count(const AxnValue *value) {
  return host_value_of(value)->len;
}

AxnValue *axn_value_item(const AxnValue *value, size_t index) {
  const HostValue *d = host_value_of(value);
  return index < d->len ? capi_value_of(d->items[index]) : NULL;
}

const char *axn_value_name(const AxnValue *value, size_t index) {
  const HostValue *d = host_value_of(value);
  return d->names && index < d->len ? d->names[index] : NULL;
}

AxnValue *axn_value_field(const AxnValue *value, const char *name) {
  const HostValue *d = host_value_of(value);
  for (uint32_t i = 0; d->names && i < d->len; i++)
    if (strcmp(d->names[i], name) == 0)
      return capi_value_of(d->items[i]);
  return NULL;
}

const char *axn_value_text(const AxnValue *value, size_t *len) {
  const HostValue *d = host_value_of(value);
  if (d->kind != HOST_VALUE_STRING && d->kind != HOST_VALUE_CONSTRUCTOR &&
      d->kind != HOST_VALUE_OTHER)
    return NULL;
  if (len)
    *len = d->text_len;
  return d->text;
}

bool axn_value_get(const AxnValue *value, AxnTensor *out) {
  HostValue *d = host_value_of(value);
  if (d->kind == HOST_VALUE_NUMBER)
    *out = (AxnTensor){
        .dtype = (AxnDtype)d->number.dtype, .data = &d->bits, .readonly = true};
  else if (d->kind == HOST_VALUE_TENSOR)
    *out = (AxnTensor){.dtype = (AxnDtype)d->tensor->dtype,
                       .rank = (int32_t)d->tensor->rank,
                       .shape = d->tensor->shape,
                       .data = d->tensor->data,
                       .readonly = d->is_shared};
  else
    return false;
  return true;
}

bool axn_value_as_int(const AxnValue *value, int64_t *out) {
  const HostValue *d = host_value_of(value);
  if (d->kind != HOST_VALUE_NUMBER || dtype_is_float(d->number.dtype))
    return false;
  *out = d->number.i;
  return true;
}

bool axn_value_as_float(const AxnValue *value, double *out) {
  const HostValue *d = host_value_of(value);
  if (d->kind != HOST_VALUE_NUMBER || d->number.dtype == DT_BOOL)
    return false;
  *out = dtype_is_float(d->number.dtype) ? d->number.f : (double)d->number.i;
  return true;
}
