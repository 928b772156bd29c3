/* Tensors in memory, and faults. */
#include "runtime/derived_cache.h"
#include "runtime/internal.h"
#include "support/mem.h"
#include "support/trap.h"
#include "support/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIGN = 64 };

/* ---- faults ---- */

/* A message may quote text from a file.  No byte of it may control the
 * terminal. */
static void make_printable(char *text) {
  size_t len = strlen(text), done = 0;
  while ((done += utf8_valid_prefix(text + done, len - done)) < len)
    text[done++] = '?';
  for (unsigned char *p = (unsigned char *)text; *p; p++)
    if (*p < ' ' || *p == 0x7f)
      *p = '?';
    else if (*p == 0xc2 && p[1] < 0xa0) /* U+0080 to U+009F control it, too */
      p[0] = p[1] = '?';
}

void fault_set(Fault *fault, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(fault->message, sizeof fault->message, format, args);
  va_end(args);
  make_printable(fault->message);
  fault->help[0] = 0;
  fault->kind = FAULT_SHAPE;
}

void fault_set_kind(Fault *fault, FaultKind kind, const char *message) {
  fault_set(fault, "%s", message);
  fault->kind = kind;
}

void fault_set_help(Fault *fault, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(fault->help, sizeof fault->help, format, args);
  va_end(args);
  make_printable(fault->help);
}

/* ---- sizes ---- */

/* An extent of zero does not hide an overflow of the others, since strides are
 * computed from those. */
bool shape_count_and_bytes(Dtype dtype, uint32_t rank, const int64_t *shape,
                           int64_t *count, size_t *bytes) {
  int64_t product = dtype_info[dtype].bytes ? dtype_info[dtype].bytes : 1;
  bool empty = false;
  for (uint32_t i = 0; i < rank; i++) {
    if (shape[i] < 0)
      return false;
    if (shape[i] == 0)
      empty = true;
    else if (__builtin_mul_overflow(product, shape[i], &product))
      return false;
  }
  if (product > INT64_MAX - ALIGN)
    return false;
  *bytes = empty ? 0 : (size_t)product;
  int64_t bytes_each = dtype_info[dtype].bytes ? dtype_info[dtype].bytes : 1;
  *count = empty ? 0 : product / bytes_each;
  return true;
}

void format_tensor_type(char *out, size_t size, Dtype dtype, uint32_t rank,
                        const int64_t *shape, uint32_t broadcast_mask) {
  size_t len = (size_t)snprintf(out, size, "%s", dtype_info[dtype].name);
  for (uint32_t i = 0; i < rank && len < size; i++) {
    const char *separator = i ? ", " : "[";
    if (broadcast_mask >> i & 1)
      len += (size_t)snprintf(out + len, size - len, "%s*", separator);
    else
      len += (size_t)snprintf(out + len, size - len, "%s%lld", separator,
                              (long long)shape[i]);
  }
  if (rank && len < size)
    snprintf(out + len, size - len, "]");
}

void tensor_print_type(Buffer *out, const Tensor *t) {
  char text[MAX_RANK * 24 + 16];
  format_tensor_type(text, sizeof text, t->dtype, t->rank, t->shape,
                     t->broadcast_mask);
  buffer_puts(out, text);
}

/* ---- memory ---- */

static uint64_t read_number_file(const char *path) {
  FILE *f = fopen(path, "re");
  unsigned long long n = 0;
  if (f) {
    if (fscanf(f, "%llu", &n) != 1) /* "max" */
      n = 0;
    fclose(f);
  }
  return n;
}

uint64_t memory_limit(void) {
  static _Atomic uint64_t cached;
  if (cached)
    return cached;
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  uint64_t total = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
  const char *const limits[] = {"/sys/fs/cgroup/memory.max",
                                "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
  for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
    uint64_t limit = read_number_file(limits[i]);
    if (limit && (!total || limit < total))
      total = limit;
  }
  cached = total ? total : UINT64_MAX;
  return cached;
}

void format_bytes(char *out, size_t size, uint64_t bytes) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) {
    snprintf(out, size, "%llu bytes", (unsigned long long)bytes);
    return;
  }
  double n = (double)bytes / 1024;
  size_t unit = 0;
  for (; n >= 1024 && unit + 1 < ARRAY_LEN(units); unit++)
    n /= 1024;
  snprintf(out, size, "%.1f %s", n, units[unit]);
}

static void set_out_of_memory(Fault *fault, Dtype dtype, uint32_t rank,
                              const int64_t *shape, size_t bytes) {
  char type[200], need[32], have[32];
  format_tensor_type(type, sizeof type, dtype, rank, shape, 0);
  format_bytes(need, sizeof need, bytes);
  format_bytes(have, sizeof have, memory_limit());
  fault_set(fault, "%s needs %s of memory", type, need);
  fault->kind = FAULT_MEMORY;
  fault_set_help(fault,
                 bytes > memory_limit()
                     ? "this machine has %s: process the data in parts, or "
                       "reduce it before it is stored"
                     : "this machine has %s, and not enough of it is free",
                 have);
}

static Tensor *tensor_alloc_header(Dtype dtype, uint32_t rank,
                                   const int64_t *shape, int64_t count) {
  Tensor *t = mem_try_alloc(sizeof *t);
  if (!t)
    return NULL;
  t->refs = 1;
  t->dtype = dtype;
  t->rank = rank;
  t->count = count;
  if (rank)
    memcpy(t->shape, shape, rank * sizeof *shape);
  return t;
}

Tensor *tensor_new(Dtype dtype, uint32_t rank, const int64_t *shape,
                   bool zeroed, Fault *fault) {
  int64_t count;
  size_t bytes;
  if (rank > MAX_RANK) {
    fault_set(fault, "a tensor of rank %u: the maximum is %d", rank, MAX_RANK);
    return NULL;
  }
  if (!shape_count_and_bytes(dtype, rank, shape, &count, &bytes)) {
    char type[200];
    format_tensor_type(type, sizeof type, dtype, rank, shape, 0);
    fault_set(fault, "%s is too large for any memory", type);
    fault->kind = FAULT_MEMORY;
    return NULL;
  }
  if (bytes > memory_limit()) {
    set_out_of_memory(fault, dtype, rank, shape, bytes);
    return NULL;
  }
  Tensor *t = tensor_alloc_header(dtype, rank, shape, count);
  if (t)
    t->data = t->block = caching_alloc(bytes, zeroed, &t->alloc_bytes);
  if (t && t->data)
    return t;
  mem_free(t);
  set_out_of_memory(fault, dtype, rank, shape, bytes);
  return NULL;
}

Tensor *tensor_scalar(Scalar x) {
  Fault fault;
  Tensor *t = tensor_new(x.dtype, 0, NULL, true, &fault);
  if (!t)
    trap_raise(FAIL_MEMORY);
  scalar_store(x, t->data);
  return t;
}

Tensor *tensor_from_mapping(const TensorHeader *header, void *data,
                            Mapped *mapped) {
  int64_t count;
  size_t bytes;
  if (!shape_count_and_bytes(header->dtype, header->rank, header->shape, &count,
                             &bytes))
    return NULL;
  Tensor *t =
      tensor_alloc_header(header->dtype, header->rank, header->shape, count);
  if (!t)
    return NULL;
  t->data = data;
  t->mapped = mapped_retain(mapped);
  return t;
}

Tensor *tensor_borrow(Dtype dtype, uint32_t rank, const int64_t *shape,
                      void *data) {
  int64_t count;
  size_t bytes;
  if (rank > MAX_RANK ||
      !shape_count_and_bytes(dtype, rank, shape, &count, &bytes))
    return NULL;
  Tensor *t = tensor_alloc_header(dtype, rank, shape, count);
  if (!t)
    return NULL;
  t->data = data;
  t->is_borrowed = true;
  return t;
}

static Tensor *tensor_copy(const Tensor *t, Fault *fault) {
  Tensor *copy = tensor_new(t->dtype, t->rank, t->shape, false, fault);
  if (copy && t->count)
    memcpy(copy->data, t->data, (size_t)t->count * dtype_info[t->dtype].bytes);
  return copy;
}

Tensor *tensor_row_view(Tensor *t, int64_t first_row, int64_t count) {
  int64_t row = t->shape[0] ? t->count / t->shape[0] : 0;
  Tensor *view = tensor_alloc_header(t->dtype, t->rank, t->shape, row * count);
  if (!view)
    return NULL;
  view->shape[0] = count;
  view->broadcast_mask = t->broadcast_mask;
  view->data = tensor_at(t, first_row * row);
  view->base = tensor_retain(t->base ? t->base : t);
  return view;
}

bool tensor_is_donatable(const Tensor *t) {
  return __atomic_load_n(&t->refs, __ATOMIC_ACQUIRE) == 1 && !t->is_borrowed &&
         !t->mapped && !t->device_copy && t->data == t->block;
}

Tensor *tensor_detach(Tensor *t, Fault *fault) {
  if (!t->base)
    return tensor_retain(t);
  Tensor *copy = tensor_copy(t, fault);
  if (copy)
    copy->broadcast_mask = t->broadcast_mask;
  return copy;
}

Tensor *tensor_in_memory(Tensor *t, Fault *fault) {
  if (!tensor_mapped(t))
    return tensor_retain(t);
  Tensor *copy = tensor_copy(t, fault);
  if (copy && !tensor_check(t, fault)) {
    tensor_release(copy);
    return NULL;
  }
  if (copy)
    copy->broadcast_mask = t->broadcast_mask;
  return copy;
}

bool tensor_unborrow(Tensor *t, Fault *fault) {
  if (!t->is_borrowed)
    return true;
  Tensor *copy = tensor_copy(t, fault);
  if (!copy)
    return false;
  t->data = copy->data;
  t->block = copy->block;
  t->alloc_bytes = copy->alloc_bytes;
  t->is_borrowed = false;
  mem_free(copy);
  return true;
}

Tensor *tensor_retain(Tensor *t) {
  __atomic_add_fetch(&t->refs, 1, __ATOMIC_RELAXED);
  return t;
}

void (*tensor_device_release)(void *device);

void tensor_release(Tensor *t) {
  if (!t || __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL))
    return;
  if (t->device_copy)
    tensor_device_release(t->device_copy);
  if (t->derived)
    derived_cache_invalidate(t);
  if (t->base)
    tensor_release(t->base);
  else if (t->mapped)
    mapped_close(t->mapped);
  else if (!t->is_borrowed)
    caching_free(t->block, t->alloc_bytes);
  mem_free(t);
}

int tensor_order(const Tensor *a, const Tensor *b, bool is_total) {
  int order = 0;
  for (int64_t i = 0; i < a->count && !order; i++)
    order = scalar_order(scalar_load(a->dtype, tensor_at(a, i)),
                         scalar_load(b->dtype, tensor_at(b, i)), is_total);
  return order;
}
