/* axon.h: tensors from other libraries, and for them. */
#include "session/axon_dlpack.h"
#include "session/outside.h"

#include <string.h>

/* ---- types ---- */

static DLDataType type_out(Dtype dtype) {
  static const uint8_t codes[] = {
      ['b'] = kDLBool, ['u'] = kDLUInt, ['i'] = kDLInt, ['f'] = kDLFloat};
  DLDataType type = {.bits = (uint8_t)(dtype_info[dtype].bytes * 8),
                     .lanes = 1};
  type.code = dtype == DT_BF16 ? kDLBfloat
                               : codes[(uint8_t)dtype_info[dtype].class];
  return type;
}

static Dtype type_in(DLDataType type) {
  for (Dtype t = DT_NONE + 1; t < DT_COUNT; t++) {
    DLDataType known = type_out(t);
    if (known.code == type.code && known.bits == type.bits && type.lanes == 1)
      return t;
  }
  return DT_NONE;
}

/* ---- in ---- */

static bool is_ours(AxnSession *a, const DLTensor *t) {
  if (t->device.device_type != kDLCPU)
    axon_error(a, BAD_VALUE, "copy it to the memory of the CPU first",
               "a tensor lies on a device that Axon does not reach (DLPack's "
               "device type %d)",
               (int)t->device.device_type);
  else if (type_in(t->dtype) == DT_NONE)
    axon_error(a, BAD_VALUE,
               "convert it: Axon has bool, u8, i8, i32, i64, f16, bf16, f32 "
               "and f64",
               "a tensor has elements that Axon has not (DLPack's type code "
               "%d, %d bits, %d lanes)",
               t->dtype.code, t->dtype.bits, t->dtype.lanes);
  else
    return true;
  return false;
}

static AxnValue *take(AxnSession *a, const DLTensor *t,
                      void (*release)(void *owner), void *owner) {
  if (!is_ours(a, t))
    return NULL;
  AxnTensor is = {.dtype = (AxnDtype)type_in(t->dtype),
                  .rank = t->ndim,
                  .shape = t->shape,
                  .strides = t->strides,
                  .data = t->data ? (char *)t->data + t->byte_offset : NULL};
  return axn_value_tensor(a, &is, release, owner);
}

static void delete_versioned(void *owner) {
  DLManagedTensorVersioned *m = owner;
  if (m->deleter)
    m->deleter(m);
}

static void delete_old(void *owner) {
  DLManagedTensor *m = owner;
  if (m->deleter)
    m->deleter(m);
}

AxnValue *axn_value_from_dlpack(AxnSession *a, DLManagedTensorVersioned *m) {
  if (m->version.major == DLPACK_MAJOR_VERSION)
    return take(a, &m->dl_tensor, delete_versioned, m);
  axon_error(a, BAD_VALUE, "ask for version 1 of DLPack",
             "a tensor in the layout of DLPack %u.%u", m->version.major,
             m->version.minor);
  return NULL;
}

AxnValue *axn_value_from_dlpack_old(AxnSession *a, DLManagedTensor *m) {
  return take(a, &m->dl_tensor, delete_old, m);
}

/* ---- out ---- */

typedef struct Given {
  union {
    DLManagedTensorVersioned now;
    DLManagedTensor old;
  };
  Datum *datum;
  Tensor *copy; /* in its place, of what is not to be written to; or NULL */
  int64_t strides[RANK_MAX];
} Given;

static void give_free(Given *given) {
  datum_release(given->datum);
  tensor_release(given->copy);
  mem_free(given);
}

static void free_versioned(DLManagedTensorVersioned *m) {
  give_free(m->manager_ctx);
}

static void free_old(DLManagedTensor *m) { give_free(m->manager_ctx); }

static void fill(Given *given, DLTensor *out) {
  Datum *d = given->datum;
  const Tensor *t = given->copy ? given->copy : d->tensor;
  Dtype dtype = t ? t->dtype : d->number.dtype;
  *out = (DLTensor){.data = t ? t->data : (void *)&d->bits,
                    .device = {kDLCPU, 0},
                    .dtype = type_out(dtype)};
  if (!t || !t->rank)
    return;
  out->ndim = (int32_t)t->rank;
  out->shape = (int64_t *)(uintptr_t)t->shape;
  out->strides = given->strides;
  int64_t step = 1;
  for (uint32_t i = t->rank; i--;) {
    given->strides[i] = step;
    step *= t->shape[i];
  }
}

/* Of a number, and of what others see. */
static Tensor *copy_of(const Datum *d, Fault *fault) {
  const Tensor *t = d->tensor;
  Tensor *copy = t ? tensor_new(t->dtype, t->rank, t->shape, false, fault)
                   : tensor_new(d->number.dtype, 0, NULL, false, fault);
  size_t bytes = copy ? (size_t)copy->count * dtype_info[copy->dtype].bytes : 0;
  if (bytes)
    memcpy(copy->data, t ? t->data : (const void *)&d->bits, bytes);
  return copy;
}

static Given *give(AxnSession *a, AxnValue *value, bool writable) {
  Datum *d = datum_of(value);
  if (d->kind != DATUM_TENSOR && d->kind != DATUM_NUMBER) {
    axon_error(a, BAD_VALUE, NULL, "only a tensor can be handed to others");
    return NULL;
  }
  Given *given = mem_try_alloc(sizeof *given);
  Fault fault = {.message = "out of memory"};
  bool copies = writable && (d->shared || !d->tensor);
  if (given && copies)
    given->copy = copy_of(d, &fault);
  if (given && (!copies || given->copy)) {
    given->datum = datum_retain(d);
    return given;
  }
  mem_free(given);
  axon_error(a, 505, fault.help, "%s", fault.message);
  return NULL;
}

DLManagedTensorVersioned *axn_value_to_dlpack(AxnSession *a,
                                              AxnValue *value) {
  Given *given = give(a, value, false);
  if (!given)
    return NULL;
  bool readonly = datum_of(value)->shared || !datum_of(value)->tensor;
  given->now = (DLManagedTensorVersioned){
      .version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
      .manager_ctx = given,
      .deleter = free_versioned,
      .flags = readonly ? DLPACK_FLAG_BITMASK_READ_ONLY : 0};
  fill(given, &given->now.dl_tensor);
  return &given->now;
}

DLManagedTensor *axn_value_to_dlpack_old(AxnSession *a, AxnValue *value) {
  Given *given = give(a, value, true);
  if (!given)
    return NULL;
  given->old = (DLManagedTensor){.manager_ctx = given, .deleter = free_old};
  fill(given, &given->old.dl_tensor);
  return &given->old;
}
