/* .npy files: one NumPy array, format versions 1.0 to 3.0
 * (numpy.org/doc/stable/reference/generated/numpy.lib.format.html).  A file has
 * a magic string, the length of a header, the header (a Python dictionary), and
 * the data.  Nothing is unpickled. */
#include "runtime/internal.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "files hold little-endian numbers, and tensors take them so");

static const char magic[] = "\x93NUMPY";
enum {
  MAGIC_BYTES = sizeof magic - 1,
  MAX_HEADER_BYTES = 64 * 1024,
  ALIGN = 64
};

static const struct {
  char kind;
  uint8_t bytes;
  Dtype dtype;         /* DT_NONE: Axon has no such type */
  const char *nearest; /* the type to which it can be converted */
} descr_table[] = {
    {'b', 1, DT_BOOL, NULL},       {'u', 1, DT_U8, NULL},
    {'i', 1, DT_I8, NULL},         {'i', 4, DT_I32, NULL},
    {'i', 8, DT_I64, NULL},        {'f', 2, DT_F16, NULL},
    {'f', 4, DT_F32, NULL},        {'f', 8, DT_F64, NULL},
    {'u', 2, DT_NONE, "int32"},    {'i', 2, DT_NONE, "int32"},
    {'u', 4, DT_NONE, "int64"},    {'u', 8, DT_NONE, "int64"},
    {'f', 16, DT_NONE, "float64"}, {'f', 12, DT_NONE, "float64"},
    {'c', 8, DT_F32, NULL},        {'c', 16, DT_F64, NULL}, /* pairs */
};

/* ---- the dictionary ---- */

typedef struct HeaderParser {
  const char *at, *end;
} HeaderParser;

static void skip_space(HeaderParser *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t'))
    r->at++;
}

static bool accept(HeaderParser *r, const char *word) {
  skip_space(r);
  size_t len = strlen(word);
  if ((size_t)(r->end - r->at) < len || memcmp(r->at, word, len) != 0)
    return false;
  r->at += len;
  return true;
}

static bool peek(HeaderParser *r, char c) {
  skip_space(r);
  return r->at < r->end && *r->at == c;
}

/* Reads 'text' without escapes; NumPy writes none. */
static bool read_string(HeaderParser *r, char *out, size_t size) {
  skip_space(r);
  if (r->at == r->end || (*r->at != '\'' && *r->at != '"'))
    return false;
  char quote = *r->at++;
  size_t len = 0;
  while (r->at < r->end && *r->at != quote && *r->at != '\\') {
    if (len + 1 < size)
      out[len++] = *r->at;
    r->at++;
  }
  out[len] = 0;
  return accept(r, (char[]){quote, 0});
}

/* A long of Python 2 ends in L. */
static bool read_extent(HeaderParser *r, int64_t *out) {
  skip_space(r);
  const char *start = r->at;
  *out = 0;
  for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
    if (__builtin_mul_overflow(*out, 10, out) ||
        __builtin_add_overflow(*out, *r->at - '0', out))
      return false;
  bool ok = r->at > start;
  accept(r, "L");
  return ok;
}

static bool read_shape(HeaderParser *r, const InputFile *in,
                       TensorHeader *header, Fault *fault) {
  if (!accept(r, "("))
    return input_fault(in, fault, "its header has no shape");
  while (!accept(r, ")")) {
    if (header->rank == MAX_RANK)
      return input_fault(in, fault, "its rank is more than %d", MAX_RANK);
    if (!read_extent(r, &header->shape[header->rank++]))
      return input_fault(in, fault, "its header has no valid shape");
    if (!accept(r, ",") && !peek(r, ')'))
      return input_fault(in, fault, "its header has no valid shape");
  }
  return true;
}

/* `descr` is NULL for a list of fields. */
static bool unsupported_dtype_fault(const InputFile *in, Fault *fault,
                                    const char *descr, const char *nearest) {
  if (descr)
    input_fault(in, fault, "its NumPy element type '%.40s' has no Axon type",
                descr);
  else
    input_fault(in, fault, "its elements are structures");
  if (nearest)
    fault_set_help(fault,
                   "convert it with NumPy: numpy.save(\"new.npy\", "
                   "numpy.load(\"old.npy\").astype(\"%s\"))",
                   nearest);
  else
    fault_set_help(fault, "only arrays of booleans, integers and floats can be "
                          "loaded");
  return false;
}

/* Reads "<f4": byte order, kind, bytes. */
static bool read_descr(HeaderParser *r, const InputFile *in, NpyHeader *h,
                       Fault *fault) {
  char descr[64];
  if (!read_string(r, descr, sizeof descr))
    return unsupported_dtype_fault(in, fault, NULL, NULL);
  const char *p = descr + (*descr && strchr("<>|=", *descr) != NULL);
  unsigned bytes = 0;
  char kind = *p ? *p++ : 0;
  for (; *p >= '0' && *p <= '9' && bytes < 100; p++)
    bytes = bytes * 10 + (unsigned)(*p - '0');
  for (size_t i = 0; !*p && i < ARRAY_LEN(descr_table); i++)
    if (descr_table[i].kind == kind && descr_table[i].bytes == bytes) {
      h->header.dtype = descr_table[i].dtype;
      h->byte_swap = *descr == '>' && bytes > 1;
      h->has_pairs = kind == 'c';
      return h->header.dtype ||
             unsupported_dtype_fault(in, fault, descr, descr_table[i].nearest);
    }
  return unsupported_dtype_fault(in, fault, descr, NULL);
}

/* Complex elements are pairs of floats: adds the axis of a pair. */
static bool add_pair_axis(const InputFile *in, NpyHeader *h, Fault *fault) {
  if (h->fortran_order && h->header.rank > 1) {
    input_fault(in, fault, "its complex elements are in Fortran order");
    fault_set_help(fault, "convert it with NumPy: numpy.save(\"new.npy\", "
                          "numpy.ascontiguousarray(numpy.load(\"old.npy\")))");
    return false;
  }
  if (h->header.rank == MAX_RANK)
    return input_fault(in, fault, "its rank is more than %d", MAX_RANK - 1);
  h->fortran_order = false;
  h->header.shape[h->header.rank++] = 2;
  return true;
}

static bool read_bool(HeaderParser *r, bool *out) {
  *out = accept(r, "True");
  return *out || accept(r, "False");
}

static bool read_dict(HeaderParser *r, const InputFile *in, NpyHeader *h,
                      Fault *fault) {
  bool descr = false, shape = false, fortran = false;
  if (!accept(r, "{"))
    return input_fault(in, fault, "its header is damaged");
  while (!accept(r, "}")) {
    char key[32];
    if (!read_string(r, key, sizeof key) || !accept(r, ":"))
      return input_fault(in, fault, "its header is damaged");
    bool ok = false;
    if (strcmp(key, "descr") == 0 && !descr) {
      ok = descr = read_descr(r, in, h, fault);
      if (!ok)
        return false;
    } else if (strcmp(key, "shape") == 0 && !shape) {
      ok = shape = read_shape(r, in, &h->header, fault);
      if (!ok)
        return false;
    } else if (strcmp(key, "fortran_order") == 0 && !fortran) {
      ok = fortran = read_bool(r, &h->fortran_order);
    }
    if (!ok || (!accept(r, ",") && !peek(r, '}')))
      return input_fault(in, fault, "its header is damaged");
  }
  skip_space(r);
  if (!descr || !shape || !fortran || r->at != r->end)
    return input_fault(in, fault, "its header is damaged");
  return !h->has_pairs || add_pair_axis(in, h, fault);
}

bool npy_parse(const InputFile *in, NpyHeader *h, Fault *fault) {
  *h = (NpyHeader){0};
  const uint8_t *b = in->bytes;
  if (in->size < MAGIC_BYTES + 4 || memcmp(b, magic, MAGIC_BYTES) != 0)
    return input_fault(in, fault, "it is not a .npy file");
  int version = b[MAGIC_BYTES];
  if (version < 1 || version > 3)
    return input_fault(in, fault, "version %d of the format is not supported",
                       version);
  size_t start = version == 1 ? MAGIC_BYTES + 4 : MAGIC_BYTES + 6;
  if (in->size < start)
    return input_fault(in, fault, "the file is truncated");
  size_t len = (size_t)b[MAGIC_BYTES + 2] | (size_t)b[MAGIC_BYTES + 3] << 8;
  if (version > 1)
    len |= (size_t)b[MAGIC_BYTES + 4] << 16 | (size_t)b[MAGIC_BYTES + 5] << 24;
  if (len > MAX_HEADER_BYTES)
    return input_fault(in, fault, "its header of %zu bytes is too long", len);
  if (in->size - start < len)
    return input_fault(in, fault, "the file is truncated in its header");
  HeaderParser r = {(const char *)b + start, (const char *)b + start + len};
  h->data_offset = start + len;
  return read_dict(&r, in, h, fault);
}

/* ---- the data ---- */

bool npy_is_native_layout(const NpyHeader *h) {
  return !h->byte_swap && (!h->fortran_order || h->header.rank < 2) &&
         h->header.dtype != DT_BOOL;
}

/* Fortran order: the first index varies fastest. */
static void copy_from_fortran_order(Tensor *out, const char *data,
                                    const NpyHeader *h) {
  size_t size = dtype_info[h->header.dtype].bytes;
  uint32_t rank = h->header.rank, last = rank - 1;
  int64_t strides[MAX_RANK], index[MAX_RANK] = {0}, source_offset = 0;
  strides[0] = 1;
  for (uint32_t i = 1; i < rank; i++)
    strides[i] = strides[i - 1] * h->header.shape[i - 1];
  for (int64_t row = 0; row < out->count; row += h->header.shape[last]) {
    for (int64_t i = 0; i < h->header.shape[last]; i++)
      copy_elements(tensor_at(out, row + i),
                    data + (size_t)(source_offset + i * strides[last]) * size,
                    1, h->header.dtype, h->byte_swap);
    for (uint32_t axis = last; axis-- > 0;) {
      source_offset += strides[axis];
      if (++index[axis] < h->header.shape[axis])
        break;
      source_offset -= strides[axis] * index[axis];
      index[axis] = 0;
    }
  }
}

void npy_convert(Tensor *out, const void *data, const NpyHeader *h) {
  if (out->count && h->fortran_order && h->header.rank > 1)
    copy_from_fortran_order(out, data, h);
  else
    copy_elements(out->data, data, (size_t)out->count, out->dtype,
                  h->byte_swap);
}

static bool npy_header(InputFile *in, const LoadOptions *options,
                       TensorHeader *header, Fault *fault) {
  (void)options;
  NpyHeader h;
  if (!npy_parse(in, &h, fault))
    return false;
  *header = h.header;
  return input_check_data_size(in, header, in->size - h.data_offset, fault);
}

static Tensor *npy_load(InputFile *in, const LoadOptions *options,
                        Fault *fault) {
  (void)options;
  NpyHeader h;
  if (!npy_parse(in, &h, fault) ||
      !input_check_data_size(in, &h.header, in->size - h.data_offset, fault))
    return NULL;
  if (npy_is_native_layout(&h))
    return input_read_tensor(in, h.data_offset, &h.header, fault);
  Tensor *t =
      tensor_new(h.header.dtype, h.header.rank, h.header.shape, false, fault);
  if (t)
    npy_convert(t, in->bytes + h.data_offset, &h);
  return t;
}

/* ---- writing ---- */

size_t npy_write_header(const OutputFile *out, char text[MAX_NPY_HEADER_BYTES],
                        const Tensor *t, Fault *fault) {
  const char *descr = NULL;
  char code[8];
  for (size_t i = 0; i < ARRAY_LEN(descr_table) && !descr; i++)
    if (descr_table[i].dtype == t->dtype && t->dtype) {
      snprintf(code, sizeof code, "%c%c%d",
               descr_table[i].bytes > 1 ? '<' : '|', descr_table[i].kind,
               descr_table[i].bytes);
      descr = code;
    }
  if (!descr) {
    output_fault(out, fault, "NumPy has no type for %s",
                 dtype_info[t->dtype].name);
    fault_set_help(fault,
                   "save it as .safetensors, or convert it with f32 first");
    return 0;
  }
  size_t start = MAGIC_BYTES + 4;
  size_t len = start;
  len += (size_t)sprintf(
      text + len, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
  for (uint32_t i = 0; i < t->rank; i++)
    len += (size_t)sprintf(text + len, i ? ", %lld" : "%lld",
                           (long long)t->shape[i]);
  len += (size_t)sprintf(text + len, t->rank == 1 ? ",), }" : "), }");
  while ((len + 1) % ALIGN)
    text[len++] = ' ';
  text[len++] = '\n';
  memcpy(text, magic, MAGIC_BYTES);
  text[MAGIC_BYTES] = 1;
  text[MAGIC_BYTES + 1] = 0;
  text[MAGIC_BYTES + 2] = (char)((len - start) & 0xff);
  text[MAGIC_BYTES + 3] = (char)((len - start) >> 8);
  return len;
}

static bool npy_save(OutputFile *out, uint32_t count, const char *const *names,
                     Tensor *const *tensors, Fault *fault) {
  (void)count, (void)names;
  const Tensor *t = tensors[0];
  char text[MAX_NPY_HEADER_BYTES];
  size_t len = npy_write_header(out, text, t, fault);
  if (!len)
    return false;
  fwrite(text, 1, len, out->file);
  fwrite(t->data, dtype_info[t->dtype].bytes, (size_t)t->count, out->file);
  return true;
}

const FileFormat npy_format = {".npy", npy_header, npy_load,
                               NULL,   NULL,       npy_save};
