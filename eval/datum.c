/* Values as those outside hold them. */
#include "eval/eval.h"

#include <string.h>

static size_t text_room(const char *const *names, uint32_t len) {
  size_t room = 0;
  for (uint32_t i = 0; names && i < len; i++)
    room += strlen(names[i]) + 1;
  return room;
}

Datum *datum_new(DatumKind kind, uint32_t len, const char *text,
                 size_t text_len, const char *const *names) {
  size_t lists = (names ? 2 : 1) * (size_t)len * sizeof(void *);
  size_t room = sizeof(Datum) + lists + text_len + 1 + text_room(names, len);
  Datum *d = mem_try_alloc(room);
  if (!d)
    return NULL;
  *d = (Datum){.kind = kind, .refs = 1, .len = len, .deep = 1};
  d->items = (Datum **)(void *)(d + 1);
  if (names)
    d->names = (char **)(void *)(d->items + len);
  d->text = (char *)(d + 1) + lists;
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

Datum *datum_number(Scalar x, bool weak) {
  Datum *d = datum_new(DATUM_NUMBER, 0, NULL, 0, NULL);
  if (!d)
    return NULL;
  d->number = x;
  d->weak = weak;
  scalar_store(x, &d->bits);
  return d;
}

Scalar datum_weak(const Datum *d, Dtype as) {
  Scalar x = d->number;
  if (dtype_is_float(x.dtype))
    x.dtype = DT_F64;
  return scalar_convert(x, as ? as : d->number.dtype);
}

Datum *datum_retain(Datum *d) {
  __atomic_add_fetch(&d->refs, 1, __ATOMIC_RELAXED);
  return d;
}

void datum_release(Datum *d) {
  if (!d || __atomic_sub_fetch(&d->refs, 1, __ATOMIC_ACQ_REL))
    return;
  tensor_release(d->tensor);
  if (d->give_back)
    d->give_back(d->owner);
  for (uint32_t i = 0; i < d->len; i++)
    datum_release(d->items[i]);
  mem_free(d);
}
