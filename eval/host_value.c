/* Host values: values that do not depend on an Eval. */
#include "eval/eval.h"
#include "support/mem.h"

#include <string.h>

static size_t names_bytes(const char *const *names, uint32_t len) {
  size_t bytes = 0;
  for (uint32_t i = 0; names && i < len; i++)
    bytes += strlen(names[i]) + 1;
  return bytes;
}

HostValue *host_value_new(HostValueKind kind, uint32_t len, const char *text,
                          size_t text_len, const char *const *names) {
  size_t list_bytes = (names ? 2 : 1) * (size_t)len * sizeof(void *);
  size_t bytes =
      sizeof(HostValue) + list_bytes + text_len + 1 + names_bytes(names, len);
  HostValue *d = mem_try_alloc(bytes);
  if (!d)
    return NULL;
  *d = (HostValue){.kind = kind, .ref_count = 1, .len = len, .depth = 1};
  d->items = (HostValue **)(void *)(d + 1);
  if (names)
    d->names = (char **)(void *)(d->items + len);
  d->text = (char *)(d + 1) + list_bytes;
  d->text_len = text_len;
  if (text_len)
    memcpy(d->text, text, text_len);
  char *at = d->text + text_len + 1;
  for (uint32_t i = 0; names && i < len; i++) {
    size_t size = strlen(names[i]) + 1;
    d->names[i] = memcpy(at, names[i], size);
    at += size;
  }
  return d;
}

HostValue *host_value_number(Scalar x, bool is_weakly_typed) {
  HostValue *d = host_value_new(HOST_VALUE_NUMBER, 0, NULL, 0, NULL);
  if (!d)
    return NULL;
  d->number = x;
  d->is_weakly_typed = is_weakly_typed;
  scalar_store(x, &d->bits);
  return d;
}

Scalar host_value_promote(const HostValue *d, Dtype dtype) {
  Scalar x = d->number;
  if (dtype_is_float(x.dtype))
    x.dtype = DT_F64;
  return scalar_convert(x, dtype ? dtype : d->number.dtype);
}

HostValue *host_value_retain(HostValue *d) {
  __atomic_add_fetch(&d->ref_count, 1, __ATOMIC_RELAXED);
  return d;
}

void host_value_release(HostValue *d) {
  if (!d || __atomic_sub_fetch(&d->ref_count, 1, __ATOMIC_ACQ_REL))
    return;
  tensor_release(d->tensor);
  if (d->release)
    d->release(d->owner);
  for (uint32_t i = 0; i < d->len; i++)
    host_value_release(d->items[i]);
  mem_free(d);
}
