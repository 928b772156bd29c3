/* The C API (axon.h): exchange of tensors by DLPack. */
#include "session/axon_dlpack.h"
#include "session/capi.h"
#include "support/mem.h"

#include <string.h>

/* ---- types ---- */

static DLDataType dtype_to_dlpack(Dtype dtype) {
  static const uint8_t codes[] = {
      ['b'] = kDLBool, ['u'] = kDLUInt, ['i'] = kDLInt, ['f'] = kDLFloat};
  DLDataType type = {
      .bits = dtype == DT_F4_E2M1 ? 4 : (uint8_t)(dtype_info[dtype].bytes * 8),
      .lanes = 1};
  type.code = dtype == DT_BF16      ? kDLBfloat
              : dtype == DT_F8_E4M3 ? kDLFloat8_e4m3fn
              : dtype == DT_F8_E5M2 ? kDLFloat8_e5m2
              : dtype == DT_F4_E2M1 ? kDLFloat4_e2m1fn
              : dtype == DT_F8_E8M0 ? kDLFloat8_e8m0fnu
                                    : codes[(uint8_t)dtype_info[dtype].class];
  return type;
}

static Dtype dtype_from_dlpack(DLDataType type) {
  for (Dtype t = DT_NONE + 1; t < DT_COUNT; t++) {
    DLDataType known = dtype_to_dlpack(t);
    if (known.code == type.code && known.bits == type.bits && type.lanes == 1)
      return t;
  }
  return DT_NONE;
}

/* ---- in ---- */

/* Elements of 4 bits are packed, two in a byte, except with a flag. */
static bool check_importable(AxnSession *a, const DLTensor *t, uint64_t flags) {
  bool is_padded = flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
  if (t->device.device_type != kDLCPU)
    capi_error(a, ERROR_BAD_VALUE, "first copy it to CPU memory",
               "a tensor is on an unsupported device (DLPack device type %d)",
               (int)t->device.device_type);
  else if (dtype_from_dlpack(t->dtype) == DT_NONE)
    capi_error(a, ERROR_BAD_VALUE,
               "convert it: Axon supports bool, u8, i8, i32, i64, f16, bf16, "
               "f32, f64, f8_e4m3, f8_e5m2, f4_e2m1 and f8_e8m0",
               "a tensor has an unsupported element type (DLPack type code %d, "
               "%d bits, %d lanes)",
               t->dtype.code, t->dtype.bits, t->dtype.lanes);
  else if (t->dtype.bits < 8 && !is_padded)
    capi_error(a, ERROR_BAD_VALUE, "pass the packed bytes, as u8, to unpack_f4",
               "a tensor has two f4_e2m1 in each byte; Axon needs one");
  else
    return true;
  return false;
}

static AxnValue *import_dlpack(AxnSession *a, const DLTensor *t, uint64_t flags,
                               void (*release)(void *owner), void *owner) {
  if (!check_importable(a, t, flags))
    return NULL;
  AxnTensor tensor = {.dtype = (AxnDtype)dtype_from_dlpack(t->dtype),
                      .rank = t->ndim,
                      .shape = t->shape,
                      .strides = t->strides,
                      .data =
                          t->data ? (char *)t->data + t->byte_offset : NULL};
  return axn_value_tensor(a, &tensor, release, owner);
}

static void delete_versioned(void *owner) {
  DLManagedTensorVersioned *m = owner;
  if (m->deleter)
    m->deleter(m);
}

static void delete_unversioned(void *owner) {
  DLManagedTensor *m = owner;
  if (m->deleter)
    m->deleter(m);
}

AxnValue *axn_value_from_dlpack(AxnSession *a, DLManagedTensorVersioned *m) {
  if (m->version.major == DLPACK_MAJOR_VERSION)
    return import_dlpack(a, &m->dl_tensor, m->flags, delete_versioned, m);
  capi_error(a, ERROR_BAD_VALUE, "request version 1 of DLPack",
             "a tensor uses the unsupported DLPack version %u.%u",
             m->version.major, m->version.minor);
  return NULL;
}

AxnValue *axn_value_from_dlpack_old(AxnSession *a, DLManagedTensor *m) {
  return import_dlpack(a, &m->dl_tensor, 0, delete_unversioned, m);
}

/* ---- out ---- */

typedef struct DlpackExport {
  union {
    DLManagedTensorVersioned versioned;
    DLManagedTensor unversioned;
  };
  HostValue *value;
  Tensor *copy; /* copy that is exported instead of read-only data, or NULL */
  int64_t strides[MAX_RANK];
} DlpackExport;

static void export_free(DlpackExport *exported) {
  host_value_release(exported->value);
  tensor_release(exported->copy);
  mem_free(exported);
}

static void free_versioned(DLManagedTensorVersioned *m) {
  export_free(m->manager_ctx);
}

static void free_unversioned(DLManagedTensor *m) {
  export_free(m->manager_ctx);
}

static Dtype dtype_of(const HostValue *d) {
  return d->tensor ? d->tensor->dtype : d->number.dtype;
}

static void fill_dl_tensor(DlpackExport *exported, DLTensor *out) {
  HostValue *d = exported->value;
  const Tensor *t = exported->copy ? exported->copy : d->tensor;
  *out = (DLTensor){.data = t ? t->data : (void *)&d->bits,
                    .device = {kDLCPU, 0},
                    .dtype = dtype_to_dlpack(dtype_of(d))};
  if (!t || !t->rank)
    return;
  out->ndim = (int32_t)t->rank;
  out->shape = (int64_t *)(uintptr_t)t->shape;
  out->strides = exported->strides;
  int64_t step = 1;
  for (uint32_t i = t->rank; i--;) {
    exported->strides[i] = step;
    step *= t->shape[i];
  }
}

/* Copies a number, or data that others use. */
static Tensor *copy_tensor(const HostValue *d, Fault *fault) {
  const Tensor *t = d->tensor;
  Tensor *copy = t ? tensor_new(t->dtype, t->rank, t->shape, false, fault)
                   : tensor_new(d->number.dtype, 0, NULL, false, fault);
  size_t bytes = copy ? (size_t)copy->count * dtype_info[copy->dtype].bytes : 0;
  if (bytes)
    memcpy(copy->data, t ? t->data : (const void *)&d->bits, bytes);
  return copy;
}

static DlpackExport *export_new(AxnSession *a, AxnValue *value, bool writable) {
  HostValue *d = host_value_of(value);
  if (d->kind != HOST_VALUE_TENSOR && d->kind != HOST_VALUE_NUMBER) {
    capi_error(a, ERROR_BAD_VALUE, NULL, "only a tensor can be exported");
    return NULL;
  }
  DlpackExport *exported = mem_try_alloc(sizeof *exported);
  Fault fault = {.message = "out of memory"};
  bool must_copy = writable && (d->is_shared || !d->tensor);
  if (exported && must_copy)
    exported->copy = copy_tensor(d, &fault);
  if (exported && (!must_copy || exported->copy)) {
    exported->value = host_value_retain(d);
    return exported;
  }
  mem_free(exported);
  capi_error(a, 505, fault.help, "%s", fault.message);
  return NULL;
}

DLManagedTensorVersioned *axn_value_to_dlpack(AxnSession *a, AxnValue *value) {
  DlpackExport *exported = export_new(a, value, false);
  if (!exported)
    return NULL;
  bool readonly =
      host_value_of(value)->is_shared || !host_value_of(value)->tensor;
  exported->versioned = (DLManagedTensorVersioned){
      .version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
      .manager_ctx = exported,
      .deleter = free_versioned,
      .flags = (readonly ? DLPACK_FLAG_BITMASK_READ_ONLY : 0) |
               (dtype_of(host_value_of(value)) == DT_F4_E2M1
                    ? DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED
                    : 0)};
  fill_dl_tensor(exported, &exported->versioned.dl_tensor);
  return &exported->versioned;
}

DLManagedTensor *axn_value_to_dlpack_old(AxnSession *a, AxnValue *value) {
  DlpackExport *exported = export_new(a, value, true);
  if (!exported)
    return NULL;
  if (dtype_of(exported->value) == DT_F4_E2M1) {
    capi_error(a, ERROR_BAD_VALUE, "request version 1 of DLPack",
               "DLPack before version 1 packs two f4_e2m1 in each byte; Axon "
               "has one");
    export_free(exported);
    return NULL;
  }
  exported->unversioned =
      (DLManagedTensor){.manager_ctx = exported, .deleter = free_unversioned};
  fill_dl_tensor(exported, &exported->unversioned.dl_tensor);
  return &exported->unversioned;
}
