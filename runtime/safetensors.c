/* .safetensors (github.com/huggingface/safetensors): the length of a header in
 * 8 bytes, the header (JSON, through jansson), then the bytes of the tensors
 * without gaps.  The header is untrusted: every number in it is checked before
 * use. */
#include "runtime/internal.h"
#include "runtime/json.h"
#include "support/json_writer.h"
#include "support/mem.h"
#include "support/utf8.h"

#include <stdlib.h>
#include <string.h>

enum {
  LENGTH_FIELD_BYTES = 8,
  MAX_HEADER_BYTES = 100 * 1000 * 1000,
  ALIGN = 64
};

static const struct {
  const char *name;
  Dtype dtype; /* DT_NONE: known, but unsupported by Axon */
} dtype_names[] = {
    {"BOOL", DT_BOOL},  {"U8", DT_U8},           {"I8", DT_I8},
    {"I32", DT_I32},    {"I64", DT_I64},         {"F16", DT_F16},
    {"BF16", DT_BF16},  {"F32", DT_F32},         {"F64", DT_F64},
    {"I16", DT_NONE},   {"U16", DT_NONE},        {"U32", DT_NONE},
    {"U64", DT_NONE},   {"F8_E4M3", DT_F8_E4M3}, {"F8_E5M2", DT_F8_E5M2},
    {"F4", DT_F4_E2M1}, {"F8_E8M0", DT_F8_E8M0},
};

/* ---- the header ---- */

typedef struct Entry {
  TensorHeader header;
  const char *dtype_name; /* spelling in the file */
  size_t start, end;      /* offsets in the file */
} Entry;

typedef struct SafetensorsFile {
  json_t *json;
  EntryNames names; /* names of the entries, in the same order */
  Entry *entries;
  size_t count;
  size_t data_offset; /* offset of the first byte after the header */
} SafetensorsFile;

static void file_close(SafetensorsFile *file) {
  names_free(&file->names);
  mem_free(file->entries);
  json_decref_library(file->json);
}

static bool get_size(const json_t *json, size_t *out) {
  if (!json || !json_is_integer(json) || jansson.json_integer_value(json) < 0)
    return false;
  *out = (size_t)jansson.json_integer_value(json);
  return true;
}

static bool read_shape(const InputFile *in, const json_t *shape, Entry *e,
                       Fault *fault) {
  if (!shape || !json_is_array(shape))
    return input_fault(in, fault, "no \"shape\"");
  size_t rank = jansson.json_array_size(shape);
  if (rank > MAX_RANK)
    return input_fault(in, fault, "its rank is more than %d", MAX_RANK);
  e->header.rank = (uint32_t)rank;
  for (size_t i = 0; i < rank; i++) {
    size_t extent;
    if (!get_size(jansson.json_array_get(shape, i), &extent))
      return input_fault(in, fault, "no valid \"shape\"");
    e->header.shape[i] = (int64_t)extent;
  }
  return true;
}

static bool read_range(const InputFile *in, const json_t *offsets, size_t data,
                       Entry *e, Fault *fault) {
  if (!offsets || !json_is_array(offsets) ||
      jansson.json_array_size(offsets) != 2 ||
      !get_size(jansson.json_array_get(offsets, 0), &e->start) ||
      !get_size(jansson.json_array_get(offsets, 1), &e->end) ||
      e->start > e->end)
    return input_fault(in, fault, "no valid \"data_offsets\"");
  size_t data_bytes = in->size - data;
  if (e->end > data_bytes)
    return input_fault(
        in, fault, "the file is truncated: byte %zu is needed, found %zu bytes",
        e->end, data_bytes);
  e->start += data;
  e->end += data;
  return true;
}

/* Two elements of F4 are in a byte, the first in its low half. */
static bool check_packed_size(const InputFile *in, const Entry *e,
                              Fault *fault) {
  int64_t count;
  size_t bytes, available = e->end - e->start;
  const TensorHeader *h = &e->header;
  if (!shape_count_and_bytes(h->dtype, h->rank, h->shape, &count, &bytes))
    return input_fault(in, fault, "its shape exceeds the size of any file");
  if (count % 2)
    return input_fault(in, fault, "its number of elements of F4 is odd");
  if ((size_t)count / 2 != available)
    return input_fault(in, fault,
                       "%zu elements of F4 need %zu bytes, found %zu",
                       (size_t)count, (size_t)count / 2, available);
  return true;
}

static bool check_size(const InputFile *in, const Entry *e, Fault *fault) {
  if (!e->header.dtype)
    return true;
  return e->header.dtype == DT_F4_E2M1
             ? check_packed_size(in, e, fault)
             : input_check_data_size(in, &e->header, e->end - e->start, fault);
}

static bool read_entry(const InputFile *in, const json_t *json, size_t data,
                       Entry *e, Fault *fault) {
  if (!json_is_object(json))
    return input_fault(in, fault, "its header has no object there");
  const json_t *dtype = jansson.json_object_get(json, "dtype");
  if (!dtype || !json_is_string(dtype))
    return input_fault(in, fault, "no \"dtype\"");
  e->dtype_name = jansson.json_string_value(dtype);
  for (size_t i = 0; i < ARRAY_LEN(dtype_names); i++)
    if (strcmp(dtype_names[i].name, e->dtype_name) == 0)
      e->header.dtype = dtype_names[i].dtype;
  return read_shape(in, jansson.json_object_get(json, "shape"), e, fault) &&
         read_range(in, jansson.json_object_get(json, "data_offsets"), data, e,
                    fault) &&
         check_size(in, e, fault);
}

static int by_start(const void *a, const void *b) {
  const Entry *x = *(Entry *const *)a, *y = *(Entry *const *)b;
  if (x->start != y->start)
    return x->start < y->start ? -1 : 1;
  return x->end < y->end ? -1 : x->end > y->end;
}

/* True if the entries cover the data exactly once. */
static bool check_contiguous(const InputFile *in, const SafetensorsFile *file,
                             Fault *fault) {
  Entry **sorted = mem_try_alloc(sizeof *sorted * (file->count + 1));
  if (!sorted)
    return input_no_memory(in, fault);
  for (size_t i = 0; i < file->count; i++)
    sorted[i] = &file->entries[i];
  qsort(sorted, file->count, sizeof *sorted, by_start);
  size_t at = file->data_offset, i = 0;
  while (i < file->count && sorted[i]->start == at)
    at = sorted[i++]->end;
  bool overlap = i < file->count && sorted[i]->start < at;
  bool is_covered = i == file->count && at == in->size;
  mem_free(sorted);
  if (overlap)
    return input_fault(in, fault, "two of its tensors overlap");
  if (!is_covered)
    return input_fault(in, fault, "bytes from %zu on are not part of a tensor",
                       at);
  return true;
}

static bool read_entries(InputFile *in, SafetensorsFile *file, Fault *fault) {
  for (void *at = jansson.json_object_iter(file->json); at;
       at = jansson.json_object_iter_next(file->json, at)) {
    const char *name = jansson.json_object_iter_key(at);
    if (strcmp(name, "__metadata__") == 0)
      continue;
    in->entry_name = name;
    if (!read_entry(in, jansson.json_object_iter_value(at), file->data_offset,
                    &file->entries[file->count++], fault))
      return false;
    in->entry_name = NULL;
    if (!names_add(&file->names, name))
      return input_no_memory(in, fault);
  }
  return check_contiguous(in, file, fault);
}

static bool file_open(InputFile *in, SafetensorsFile *file, Fault *fault) {
  *file = (SafetensorsFile){0};
  if (!json_load_library(fault))
    return false;
  uint64_t length = 0;
  if (in->size < LENGTH_FIELD_BYTES + 2)
    return input_fault(in, fault, "the file is truncated");
  memcpy(&length, in->bytes, LENGTH_FIELD_BYTES);
  if (length > in->size - LENGTH_FIELD_BYTES || length > MAX_HEADER_BYTES)
    return input_fault(in, fault, "its header length of %llu bytes is invalid",
                       (unsigned long long)length);
  if (!input_check_header_size(in, length, fault))
    return false;
  json_error_t error;
  file->json = jansson.json_loadb((const char *)in->bytes + LENGTH_FIELD_BYTES,
                                  length, JSON_REJECT_DUPLICATES, &error);
  if (!file->json)
    return input_fault(in, fault, "its header is damaged: %s", error.text);
  if (!json_is_object(file->json))
    return input_fault(in, fault, "its header is damaged: no object");
  size_t count = jansson.json_object_size(file->json);
  file->data_offset = LENGTH_FIELD_BYTES + length;
  file->entries = mem_try_alloc(sizeof *file->entries * (count + 1));
  if (!file->entries)
    return input_no_memory(in, fault);
  return read_entries(in, file, fault);
}

/* ---- reading ---- */

static const Entry *select_entry(InputFile *in, const SafetensorsFile *file,
                                 const LoadOptions *options, Fault *fault) {
  uint32_t entry_index;
  if (!names_select(&file->names, in, options, &entry_index, fault))
    return NULL;
  const Entry *e = &file->entries[entry_index];
  if (e->header.dtype)
    return e;
  input_fault(in, fault, "its element type %.40s has no Axon type",
              e->dtype_name);
  fault_set_help(
      fault,
      "convert it with PyTorch or NumPy, for example to int32 or float32");
  return NULL;
}

static Tensor *read_entry_tensor(const InputFile *in, const Entry *e,
                                 Fault *fault) {
  const TensorHeader *h = &e->header;
  if (h->dtype != DT_F4_E2M1)
    return input_read_tensor(in, e->start, h, fault);
  Tensor *t = tensor_new(h->dtype, h->rank, h->shape, false, fault);
  if (t)
    f4_unpack(t->data, in->bytes + e->start, (size_t)t->count);
  return t;
}

static bool st_header(InputFile *in, const LoadOptions *options,
                      TensorHeader *header, Fault *fault) {
  SafetensorsFile file;
  const Entry *e = NULL;
  if (file_open(in, &file, fault))
    e = select_entry(in, &file, options, fault);
  if (e)
    *header = e->header;
  file_close(&file);
  in->entry_name = NULL;
  return e != NULL;
}

static Tensor *st_load(InputFile *in, const LoadOptions *options,
                       Fault *fault) {
  SafetensorsFile file;
  const Entry *e = NULL;
  Tensor *t = NULL;
  if (file_open(in, &file, fault))
    e = select_entry(in, &file, options, fault);
  if (e)
    t = read_entry_tensor(in, e, fault);
  file_close(&file);
  in->entry_name = NULL;
  return t;
}

static bool st_names(InputFile *in, EntryNames *names, Fault *fault) {
  SafetensorsFile file;
  bool ok = file_open(in, &file, fault);
  if (ok) {
    *names = file.names;
    file.names = (EntryNames){0};
  }
  file_close(&file);
  in->entry_name = NULL;
  return ok;
}

static bool load_entries(InputFile *in, const SafetensorsFile *file,
                         NamedTensors *out, Fault *fault) {
  const char *name = out->text;
  for (size_t i = 0; i < file->count; i++, name += strlen(name) + 1) {
    const Entry *e = &file->entries[i];
    NamedTensor *to = &out->all[out->count++];
    *to = (NamedTensor){.name = name, .header = e->header};
    for (size_t k = 0; k < ARRAY_LEN(dtype_names); k++)
      if (strcmp(dtype_names[k].name, e->dtype_name) == 0)
        to->dtype_name = dtype_names[k].name;
    if (!to->dtype_name)
      to->dtype_name = "?";
    if (!e->header.dtype)
      continue;
    to->tensor = read_entry_tensor(in, e, fault);
    if (!to->tensor)
      return false;
  }
  return true;
}

static bool st_load_all(InputFile *in, NamedTensors *out, Fault *fault) {
  SafetensorsFile file;
  bool ok = file_open(in, &file, fault);
  in->entry_name = NULL;
  if (ok) {
    out->all = mem_try_alloc(sizeof *out->all * (file.count + 1));
    out->text = file.names.text;
    file.names = (EntryNames){0};
    ok = out->all ? load_entries(in, &file, out, fault)
                  : input_no_memory(in, fault);
  }
  file_close(&file);
  return ok;
}

/* ---- writing ---- */

static size_t tensor_bytes(const Tensor *t) {
  return t->dtype == DT_F4_E2M1 ? (size_t)t->count / 2
                                : (size_t)t->count * dtype_info[t->dtype].bytes;
}

static void put_tensor(FILE *file, const Tensor *t) {
  const uint8_t *bytes = t->data;
  if (t->dtype != DT_F4_E2M1)
    fwrite(t->data, 1, tensor_bytes(t), file);
  else
    for (int64_t i = 0; i < t->count; i += 2)
      putc((bytes[i] & 15) | (bytes[i + 1] & 15) << 4, file);
}

static bool check_packable(const OutputFile *out, uint32_t count,
                           const char *const *names, Tensor *const *tensors,
                           Fault *fault) {
  for (uint32_t i = 0; i < count; i++)
    if (tensors[i]->dtype == DT_F4_E2M1 && tensors[i]->count % 2)
      return output_fault(out, fault,
                          "\"%.80s\" has an odd number of elements f4_e2m1, "
                          "and the format has two in a byte",
                          names[i]);
  return true;
}

static void put_header_entry(Buffer *b, const char *name, const Tensor *t,
                             size_t start) {
  const char *dtype_name = "";
  for (size_t i = 0; i < ARRAY_LEN(dtype_names); i++)
    if (dtype_names[i].dtype == t->dtype)
      dtype_name = dtype_names[i].name;
  json_quote(b, name);
  buffer_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", dtype_name);
  for (uint32_t i = 0; i < t->rank; i++)
    buffer_printf(b, i ? ",%lld" : "%lld", (long long)t->shape[i]);
  buffer_printf(b, "],\"data_offsets\":[%zu,%zu]}", start,
                start + tensor_bytes(t));
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool check_unique(const OutputFile *out, uint32_t count,
                         const char *const *names, Fault *fault) {
  const char **sorted = mem_try_alloc(sizeof *sorted * (count + 1));
  const char *twice = NULL;
  if (!sorted)
    return output_fault(out, fault, "out of memory");
  for (uint32_t i = 0; i < count; i++)
    sorted[i] = names[i];
  qsort(sorted, count, sizeof *sorted, by_text);
  for (uint32_t i = 1; i < count && !twice; i++)
    if (strcmp(sorted[i - 1], sorted[i]) == 0)
      twice = sorted[i];
  mem_free(sorted);
  return !twice ||
         output_fault(out, fault, "two tensors have the name \"%.80s\"", twice);
}

static bool check_names(const OutputFile *out, uint32_t count,
                        const char *const *names, Fault *fault) {
  for (uint32_t i = 0; i < count; i++) {
    const char *name = names[i];
    if (strcmp(name, "__metadata__") == 0 ||
        utf8_valid_prefix(name, strlen(name)) < strlen(name))
      return output_fault(out, fault, "\"%.80s\" is not a valid tensor name",
                          name);
  }
  return check_unique(out, count, names, fault);
}

/* Wide elements come first, so that all are aligned to their width. */
static bool st_save(OutputFile *out, uint32_t count, const char *const *names,
                    Tensor *const *tensors, Fault *fault) {
  static const uint8_t widths[] = {8, 4, 2, 1};
  if (!check_names(out, count, names, fault) ||
      !check_packable(out, count, names, tensors, fault))
    return false;
  Buffer *b = &out->scratch;
  size_t start = 0;
  bool first = true;
  buffer_putc(b, '{');
  for (size_t w = 0; w < ARRAY_LEN(widths); w++)
    for (uint32_t i = 0; i < count; i++)
      if (dtype_info[tensors[i]->dtype].bytes == widths[w]) {
        if (!first)
          buffer_putc(b, ',');
        first = false;
        put_header_entry(b, names[i], tensors[i], start);
        start += tensor_bytes(tensors[i]);
      }
  buffer_putc(b, '}');
  while ((LENGTH_FIELD_BYTES + b->len) % ALIGN)
    buffer_putc(b, ' ');
  uint64_t length = b->len;
  fwrite(&length, 1, LENGTH_FIELD_BYTES, out->file);
  fwrite(b->text, 1, b->len, out->file);
  for (size_t w = 0; w < ARRAY_LEN(widths); w++)
    for (uint32_t i = 0; i < count; i++)
      if (dtype_info[tensors[i]->dtype].bytes == widths[w])
        put_tensor(out->file, tensors[i]);
  return true;
}

const FileFormat safetensors_format = {".safetensors", st_header,   st_load,
                                       st_names,       st_load_all, st_save};
