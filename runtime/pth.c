/* Files that torch.save writes, .pth and .pt.  The pickle in them is read as
 * data (pickle.h).  There are two containers:
 *
 * - A zip archive: FOLDER/data.pkl, the elements in FOLDER/data/KEY, and
 *   perhaps FOLDER/byteorder.
 * - Before version 1.6: pickles one after another (a magic number, a version,
 *   facts about the system, the value, a list of keys), then for each key a
 *   number of elements in 8 bytes, and the elements.
 *
 * Everything is untrusted: each number is checked before use. */
#define _GNU_SOURCE
#include "runtime/pth.h"
#include "support/arena_text.h"
#include "support/mem.h"
#include "support/trap.h"

#include <stdlib.h>
#include <string.h>

static const uint8_t old_magic[] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9,
                                    0x20, 0x6a, 0xa8, 0x50, 0x19};
enum { OLD_VERSION = 1001, FOLDER_LIMIT_BYTES = 1024 };

static const char data_name[] = "data.pkl";

/* ---- the old container ---- */

static bool read_pickle(PthFile *file, Pickle *p, const uint8_t *at,
                        const uint8_t *end, PickleValue *value, Fault *fault) {
  *p = (Pickle){.in = &file->in, .arena = file->arena, .at = at, .end = end};
  p->names = pth_names(&p->name_count);
  p->wanted = pth_wanted;
  return pickle_read(p, value, fault);
}

static int by_key(const void *a, const void *b) {
  const PthStorage *x = *(PthStorage *const *)a, *y = *(PthStorage *const *)b;
  uint32_t len = x->key_len < y->key_len ? x->key_len : y->key_len;
  int order = memcmp(x->key, y->key, len);
  return order ? order : (x->key_len > y->key_len) - (x->key_len < y->key_len);
}

static bool same_key(PthStorage *const *a, PthStorage *const *b) {
  return by_key(a, b) == 0;
}

/* The first storage of this key in a sorted list, or the end of the list. */
static PthStorage **find_key(PthStorage **sorted, uint32_t count,
                             const PickleValue *key) {
  PthStorage wanted = {.key = key->text, .key_len = key->len}, *at = &wanted;
  uint32_t first = 0, end = count;
  while (first < end) {
    uint32_t middle = first + (end - first) / 2;
    if (by_key(&sorted[middle], &at) < 0)
      first = middle + 1;
    else
      end = middle;
  }
  bool found = first < count && same_key(&sorted[first], &at);
  return sorted + (found ? first : count);
}

/* Finds the elements of one key, for all storages of that key.  Each key is in
 * the list once. */
static bool place_storage(PthFile *file, PthStorage **sorted,
                          const PickleValue *key, size_t *at, Fault *fault) {
  PthStorage **end = sorted + file->storage_count, **s = end;
  size_t left = file->in.size - *at;
  uint64_t count;
  if (key->kind == PICKLE_TEXT)
    s = find_key(sorted, file->storage_count, key);
  if (s == end || s[0]->is_placed)
    return input_fault(&file->in, fault, "its list of storages is damaged");
  if (left < sizeof count)
    return input_fault(&file->in, fault, "the file is truncated");
  memcpy(&count, file->in.bytes + *at, sizeof count);
  left -= sizeof count;
  uint64_t width = s[0]->element ? s[0]->element->bytes : 1;
  if (count > left / width)
    return input_fault(&file->in, fault,
                       "the file is truncated: %llu bytes are needed, found "
                       "%zu",
                       (unsigned long long)(count * width), left);
  for (PthStorage **t = s; t < end && same_key(s, t); t++) {
    (*t)->at = *at + sizeof count;
    (*t)->bytes = (size_t)(count * width);
    (*t)->is_placed = true;
  }
  *at += sizeof count + (size_t)(count * width);
  return true;
}

static bool place_storages(PthFile *file, const uint8_t *at, Fault *fault) {
  uint32_t count = file->storage_count;
  PthStorage **sorted = NEW_ARRAY(file->arena, PthStorage *, count + 1);
  Pickle p;
  PickleValue keys;
  if (!read_pickle(file, &p, at, file->in.bytes + file->in.size, &keys, fault))
    return false;
  if (keys.kind != PICKLE_LIST)
    return input_fault(&file->in, fault, "its list of storages is damaged");
  for (uint32_t i = 0; i < count; i++)
    sorted[i] = &file->storages[i];
  qsort(sorted, count, sizeof *sorted, by_key);
  size_t offset = (size_t)(p.at - file->in.bytes);
  for (uint32_t i = 0; i < keys.items->len; i++)
    if (!place_storage(file, sorted, &keys.items->at[i], &offset, fault))
      return false;
  return true;
}

static bool is_magic(const PickleValue *v) {
  return v->kind == PICKLE_LONG && v->len == sizeof old_magic &&
         memcmp(v->text, old_magic, v->len) == 0;
}

/* The length of a header in JSON comes first. */
static bool is_safetensors(const InputFile *in) {
  uint64_t length;
  if (in->size <= sizeof length)
    return false;
  memcpy(&length, in->bytes, sizeof length);
  return length <= in->size - sizeof length && in->bytes[sizeof length] == '{';
}

static bool begins_with(const InputFile *in, const char *text) {
  size_t len = strlen(text);
  return in->size >= len && memcmp(in->bytes, text, len) == 0;
}

/* A file that torch.save did not write, perhaps under another name. */
static bool other_file(const InputFile *in, Fault *fault) {
  static const struct {
    const char *begin, *help;
  } known[] = {
      {"\x93NUMPY", "it looks like a .npy file: rename it"},
      {"GGUF", "it looks like a .gguf file: rename it"},
      {"version https://git-lfs",
       "it is a pointer of Git LFS: git lfs pull loads the file"},
  };
  const char *help = pth_wanted;
  for (size_t i = 0; i < ARRAY_LEN(known); i++)
    if (begins_with(in, known[i].begin))
      help = known[i].help;
  if (is_safetensors(in))
    help = "it looks like a .safetensors file: rename it";
  input_fault(in, fault, "it is no file of torch.save");
  fault_set_help(fault, "%s", help);
  return false;
}

/* Reads the magic number, the version and the facts.  Elements always begin
 * with the least significant byte. */
static bool skip_preamble(PthFile *file, const uint8_t **at, Fault *fault) {
  Pickle p = {.at = *at};
  const uint8_t *end = file->in.bytes + file->in.size;
  PickleValue v;
  Fault unused = {0};
  if (!read_pickle(file, &p, p.at, end, &v, &unused) || !is_magic(&v))
    return other_file(&file->in, fault);
  if (!read_pickle(file, &p, p.at, end, &v, fault))
    return false;
  if (v.kind != PICKLE_INT || v.integer != OLD_VERSION)
    return input_fault(&file->in, fault, "its version is not %d", OLD_VERSION);
  if (!read_pickle(file, &p, p.at, end, &v, fault))
    return false;
  *at = p.at;
  return true;
}

static bool parse_old(PthFile *file, Fault *fault) {
  const uint8_t *at = file->in.bytes;
  Pickle p;
  PickleValue root;
  if (!skip_preamble(file, &at, fault) ||
      !read_pickle(file, &p, at, file->in.bytes + file->in.size, &root, fault))
    return false;
  return pth_find_storages(file, &p, fault) &&
         place_storages(file, p.at, fault) &&
         pth_find_tensors(file, &root, (size_t)(p.at - at), fault);
}

/* ---- the zip archive ---- */

/* Reads a whole entry.  The caller frees it. */
static void *read_entry(PthFile *file, uint64_t entry, size_t size,
                        Fault *fault) {
  void *to = mem_try_alloc(size + 1);
  zip_file_t *f = NULL;
  if (!to)
    input_no_memory(&file->in, fault);
  else if (!(f = libzip.zip_fopen_index(file->zip, entry, 0)))
    input_fault(&file->in, fault, "%s", libzip.zip_strerror(file->zip));
  else if (zip_read_up_to(f, to, size) == size && zip_is_at_end(f)) {
    libzip.zip_fclose(f);
    return to;
  } else {
    input_fault(&file->in, fault, "it is damaged");
  }
  if (f)
    libzip.zip_fclose(f);
  mem_free(to);
  return NULL;
}

/* The number of an entry of the folder, or -1. */
PRINTF_LIKE(2, 3)
static int64_t find_entry(PthFile *file, const char *format, ...) {
  va_list args;
  va_start(args, format);
  file->entry.len = 0;
  buffer_puts(&file->entry, file->prefix);
  buffer_vprintf(&file->entry, format, args);
  va_end(args);
  return libzip.zip_name_locate(file->zip, file->entry.text, 0);
}

/* The folder has the name of the file when it was saved. */
static bool find_folder(PthFile *file, Fault *fault) {
  int64_t count = libzip.zip_get_num_entries(file->zip, 0);
  size_t end = sizeof data_name - 1;
  for (int64_t i = 0; i < count && !file->prefix; i++) {
    const char *name = libzip.zip_get_name(file->zip, (uint64_t)i, 0);
    size_t len = name ? strlen(name) : 0;
    if (len >= end && strcmp(name + len - end, data_name) == 0 &&
        (len == end || name[len - end - 1] == '/'))
      file->prefix = arena_strndup(file->arena, name, len - end);
  }
  if (file->prefix && strlen(file->prefix) > FOLDER_LIMIT_BYTES)
    return input_fault(&file->in, fault, "the name of its folder is too long");
  if (file->prefix && find_entry(file, "constants.pkl") < 0)
    return true;
  if (!file->prefix) {
    input_fault(&file->in, fault,
                "it is no file of torch.save: it has no data.pkl");
    fault_set_help(fault, "%s", pth_wanted);
    return false;
  }
  input_fault(&file->in, fault,
              "it is a TorchScript program, not a file of torch.save");
  fault_set_help(fault, "save only the tensors: torch.save(torch.jit.load("
                        "\"program.pt\").state_dict(), \"model.pth\")");
  return false;
}

static bool read_byte_order(PthFile *file, Fault *fault) {
  int64_t entry = find_entry(file, "byteorder");
  size_t size, packed;
  if (entry < 0)
    return true;
  if (!zip_check_entry(&file->in, file->zip, (uint64_t)entry, &size, &packed,
                       fault))
    return false;
  if (size > sizeof "little")
    return input_fault(&file->in, fault, "its byte order is damaged");
  char *text = read_entry(file, (uint64_t)entry, size, fault);
  if (!text)
    return false;
  file->swap = size == 3 && memcmp(text, "big", size) == 0;
  bool known = file->swap || (size == 6 && memcmp(text, "little", size) == 0);
  mem_free(text);
  return known || input_fault(&file->in, fault, "its byte order is damaged");
}

static bool place_entry(PthFile *file, PthStorage *s, Fault *fault) {
  if (memchr(s->key, 0, s->key_len))
    return input_fault(&file->in, fault, "its list of storages is damaged");
  int64_t entry = find_entry(file, "data/%.*s", (int)s->key_len, s->key);
  if (entry < 0)
    return input_fault(&file->in, fault, "the file is truncated: %s is missing",
                       file->entry.text + strlen(file->prefix));
  s->at = (size_t)entry;
  return zip_check_entry(&file->in, file->zip, (uint64_t)entry, &s->bytes,
                         &s->packed_bytes, fault);
}

static bool place_entries(PthFile *file, Fault *fault) {
  for (uint32_t i = 0; i < file->storage_count; i++)
    if (!place_entry(file, &file->storages[i], fault))
      return false;
  return true;
}

static bool read_data_pickle(PthFile *file, size_t *size, Fault *fault) {
  int64_t entry = find_entry(file, "%s", data_name);
  size_t packed;
  if (entry < 0)
    return input_fault(&file->in, fault, "it has no data.pkl");
  if (!zip_check_entry(&file->in, file->zip, (uint64_t)entry, size, &packed,
                       fault) ||
      !input_check_header_size(&file->in, *size, fault))
    return false;
  file->pickle = read_entry(file, (uint64_t)entry, *size, fault);
  return file->pickle != NULL;
}

static bool parse_zip(PthFile *file, Fault *fault) {
  Pickle p;
  PickleValue root;
  size_t size;
  file->zip = zip_open_input(&file->in, fault);
  if (!file->zip || !find_folder(file, fault) ||
      !read_byte_order(file, fault) || !read_data_pickle(file, &size, fault))
    return false;
  const uint8_t *at = file->pickle;
  return read_pickle(file, &p, at, at + size, &root, fault) &&
         pth_find_storages(file, &p, fault) && place_entries(file, fault) &&
         pth_find_tensors(file, &root, size, fault);
}

/* ---- opening ---- */

static void close_file(PthFile *file) {
  names_free(&file->names);
  mem_free(file->pickle);
  if (file->zip)
    libzip.zip_discard(file->zip);
  if (file->arena)
    arena_free(file->arena);
}

static bool parse(PthFile *file, Fault *fault) {
  bool is_zip = file->in.size > 4 && memcmp(file->in.bytes, "PK", 2) == 0;
  return is_zip ? parse_zip(file, fault) : parse_old(file, fault);
}

/* The caller closes the file, also after a fault. */
static bool open_file(const InputFile *in, PthFile *file, Fault *fault) {
  Trap trap;
  *file = (PthFile){.in = *in};
  FailKind kind = TRAP_SET(trap);
  if (kind == FAIL_NONE) {
    file->arena = arena_new();
    file->entry.arena = file->arena;
    bool ok = parse(file, fault);
    trap_end(&trap);
    return ok;
  }
  if (kind != FAIL_MEMORY)
    trap_raise(kind);
  return input_no_memory(in, fault);
}

/* ---- tensors ---- */

/* The bytes of a storage from the first one of its view. */
static size_t view_bytes(const PthStorage *s) {
  if (s->view_start > s->bytes)
    return 0;
  size_t left = s->bytes - (size_t)s->view_start;
  return s->view_bytes < left ? (size_t)s->view_bytes : left;
}

/* The bytes of a storage from its first element to the last one of a tensor.
 * Returns false if they exceed any storage. */
static bool bytes_needed(const PthTensor *t, uint64_t *bytes) {
  uint64_t last = t->offset, width = dtype_info[t->element->dtype].bytes;
  for (uint32_t i = 0; i < t->rank; i++) {
    uint64_t along;
    if (t->shape[i] == 0) {
      *bytes = 0;
      return true;
    }
    if (__builtin_mul_overflow((uint64_t)t->shape[i] - 1, t->strides[i],
                               &along) ||
        __builtin_add_overflow(last, along, &last))
      return false;
  }
  return !__builtin_add_overflow(last, (uint64_t)1, &last) &&
         !__builtin_mul_overflow(last, width, bytes);
}

/* Sets the header of a tensor whose elements all exist.  An expanded tensor
 * (stride 0) may be larger than its storage. */
static bool check_tensor(const PthFile *file, const InputFile *in,
                         const PthTensor *t, TensorHeader *h, Fault *fault) {
  const PthStorage *s = &file->storages[t->storage];
  uint64_t needed;
  int64_t count;
  size_t bytes;
  *h = (TensorHeader){.dtype = t->element->dtype, .rank = t->rank};
  if (!h->dtype) {
    input_fault(in, fault,
                t->shape ? "its element type %s has no Axon type"
                         : "it is a %s tensor; Axon reads dense ones",
                t->element->name);
    fault_set_help(fault, "%s", t->element->help);
    return false;
  }
  memcpy(h->shape, t->shape, sizeof *h->shape * t->rank);
  if (t->negated && !dtype_is_float(h->dtype)) {
    input_fault(in, fault, "it is a lazy negation of %s", t->element->name);
    fault_set_help(fault, "save x.resolve_neg() instead of x");
    return false;
  }
  if (!shape_count_and_bytes(h->dtype, h->rank, h->shape, &count, &bytes) ||
      !bytes_needed(t, &needed))
    return input_fault(in, fault, "its shape exceeds the size of any file");
  if (needed > view_bytes(s))
    return input_fault(in, fault,
                       "the file is truncated: %llu bytes are needed, found "
                       "%zu",
                       (unsigned long long)needed, view_bytes(s));
  return input_check_decompressed_size(
      in, file->zip ? s->packed_bytes : s->bytes,
      bytes > s->bytes ? bytes : s->bytes, fault);
}

/* True if the elements are in the order of rows. */
static bool is_row_major(const PthTensor *t) {
  uint64_t stride = 1;
  for (uint32_t i = t->rank; i-- > 0;) {
    if (t->shape[i] != 1 && t->strides[i] != stride)
      return false;
    stride *= (uint64_t)t->shape[i];
  }
  return true;
}

/* Copies the elements to the order of rows. */
static void copy_strided(Tensor *to, const PthTensor *t, const uint8_t *from,
                         bool swap) {
  size_t width = dtype_info[to->dtype].bytes;
  uint32_t last = t->rank - 1;
  size_t row = (size_t)t->shape[last], step = (size_t)t->strides[last] * width;
  int64_t index[MAX_RANK] = {0};
  uint8_t *out = to->data;
  for (int64_t left = to->count; left > 0; left -= t->shape[last]) {
    size_t at = 0;
    for (uint32_t i = 0; i < last; i++)
      at += (size_t)index[i] * (size_t)t->strides[i] * width;
    for (size_t i = 0; i < row; i++, out += width)
      copy_elements(out, from + at + i * step, 1, to->dtype, swap);
    for (uint32_t i = last; i-- > 0;) {
      if (++index[i] < t->shape[i])
        break;
      index[i] = 0;
    }
  }
}

/* Negates each element, or the imaginary part of each pair. */
static void flip_signs(Tensor *to, bool only_imaginary) {
  size_t width = dtype_info[to->dtype].bytes;
  uint8_t *top = to->data; /* the byte of the sign */
  top += width - 1;
  for (int64_t i = only_imaginary; i < to->count; i += 1 + only_imaginary)
    top[(size_t)i * width] ^= 0x80;
}

/* Makes the tensor of the bytes of its storage. */
static Tensor *make_tensor(const PthFile *file, const PthTensor *t,
                           const TensorHeader *h, const uint8_t *storage,
                           Fault *fault) {
  size_t width = dtype_info[h->dtype].bytes;
  Tensor *out = tensor_new(h->dtype, h->rank, h->shape, false, fault);
  if (!out || !out->count)
    return out;
  const uint8_t *from = storage + t->offset * width;
  if (is_row_major(t))
    copy_elements(out->data, from, (size_t)out->count, h->dtype, file->swap);
  else
    copy_strided(out, t, from, file->swap);
  if (t->negated)
    flip_signs(out, false);
  if (t->conjugated)
    flip_signs(out, true);
  return out;
}

/* Tensors may share a storage: *kept is the last one that was unpacked. */
typedef struct Kept {
  void *bytes;
  uint32_t storage;
} Kept;

static const uint8_t *storage_bytes(PthFile *file, const PthTensor *t,
                                    Kept *kept, Fault *fault) {
  const PthStorage *s = &file->storages[t->storage];
  if (!file->zip)
    return file->in.bytes + s->at + s->view_start;
  if (!kept->bytes || file->storages[kept->storage].at != s->at) {
    mem_free(kept->bytes);
    kept->bytes = read_entry(file, s->at, s->bytes, fault);
    kept->storage = t->storage;
  }
  return kept->bytes ? (uint8_t *)kept->bytes + s->view_start : NULL;
}

static Tensor *load_tensor(PthFile *file, const InputFile *named,
                           const PthTensor *t, Kept *kept, TensorHeader *h,
                           Fault *fault) {
  if (!check_tensor(file, named, t, h, fault))
    return NULL;
  if (!file->zip && is_row_major(t) && !t->negated && !t->conjugated) {
    const PthStorage *s = &file->storages[t->storage];
    size_t offset = t->offset * dtype_info[h->dtype].bytes;
    return input_read_tensor(named, s->at + s->view_start + offset, h, fault);
  }
  const uint8_t *bytes = storage_bytes(file, t, kept, fault);
  return bytes ? make_tensor(file, t, h, bytes, fault) : NULL;
}

/* ---- the format ---- */

static bool no_tensor(const PthFile *file, Fault *fault) {
  if (file->unnamed)
    input_fault(&file->in, fault,
                "the keys of its tensors are neither texts nor integers");
  else if (file->others)
    input_fault(&file->in, fault,
                "no tensor is found in it: its other values (%u) are skipped",
                file->others);
  else
    input_fault(&file->in, fault, "it contains no tensor");
  fault_set_help(fault, "%s", pth_wanted);
  return false;
}

static bool select_tensor(PthFile *file, InputFile *named,
                          const LoadOptions *options, uint32_t *i,
                          Fault *fault) {
  if (!file->tensors.len)
    return no_tensor(file, fault);
  if (!names_select(&file->names, named, options, i, fault))
    return false;
  const char *name = file->names.text;
  for (uint32_t k = 0; k < *i; k++)
    name += strlen(name) + 1;
  named->entry_name = name;
  return true;
}

static bool pth_header(InputFile *in, const LoadOptions *options,
                       TensorHeader *header, Fault *fault) {
  PthFile file;
  InputFile named = *in;
  uint32_t i;
  bool ok = open_file(in, &file, fault) &&
            select_tensor(&file, &named, options, &i, fault) &&
            check_tensor(&file, &named, &file.tensors.at[i], header, fault);
  close_file(&file);
  return ok;
}

static Tensor *pth_load(InputFile *in, const LoadOptions *options,
                        Fault *fault) {
  PthFile file;
  InputFile named = *in;
  TensorHeader header;
  Kept kept = {0};
  uint32_t i;
  Tensor *t = NULL;
  if (open_file(in, &file, fault) &&
      select_tensor(&file, &named, options, &i, fault))
    t = load_tensor(&file, &named, &file.tensors.at[i], &kept, &header, fault);
  mem_free(kept.bytes);
  close_file(&file);
  return t;
}

static bool pth_list_names(InputFile *in, EntryNames *names, Fault *fault) {
  PthFile file;
  bool ok = open_file(in, &file, fault);
  if (ok) {
    *names = file.names;
    file.names = (EntryNames){0};
  }
  close_file(&file);
  return ok;
}

/* Orders tensors by their storage, so that each storage is unpacked once. */
static int by_storage(const void *a, const void *b, void *storages) {
  const PthTensor *x = *(PthTensor *const *)a, *y = *(PthTensor *const *)b;
  const PthStorage *all = storages;
  size_t at_x = all[x->storage].at, at_y = all[y->storage].at;
  if (at_x != at_y)
    return at_x < at_y ? -1 : 1;
  return x < y ? -1 : x > y;
}

static PthTensor **tensors_by_storage(PthFile *file) {
  PthTensor **sorted =
      mem_try_alloc(sizeof *sorted * ((size_t)file->tensors.len + 1));
  for (uint32_t i = 0; sorted && i < file->tensors.len; i++)
    sorted[i] = &file->tensors.at[i];
  if (sorted)
    qsort_r(sorted, file->tensors.len, sizeof *sorted, by_storage,
            file->storages);
  return sorted;
}

static void list_tensors(const PthFile *file, NamedTensors *out) {
  const char *name = out->text;
  for (uint32_t i = 0; i < file->tensors.len; i++, name += strlen(name) + 1) {
    const PthTensor *t = &file->tensors.at[i];
    NamedTensor *to = &out->all[out->count++];
    *to = (NamedTensor){.name = name, .dtype_name = t->element->name};
    to->header = (TensorHeader){.dtype = t->element->dtype, .rank = t->rank};
    if (t->rank)
      memcpy(to->header.shape, t->shape, sizeof *t->shape * t->rank);
  }
}

/* Expanded tensors may all share one element. */
static bool check_total(const PthFile *file, const TensorHeader *h,
                        uint64_t *total, Fault *fault) {
  int64_t count;
  size_t bytes;
  if (!shape_count_and_bytes(h->dtype, h->rank, h->shape, &count, &bytes) ||
      __builtin_add_overflow(*total, bytes, total))
    *total = UINT64_MAX;
  return input_check_decompressed_size(&file->in, file->in.size, *total, fault);
}

static bool load_tensors(PthFile *file, NamedTensors *out, Fault *fault) {
  InputFile named = file->in;
  Kept kept = {0};
  uint64_t total = 0;
  PthTensor **sorted = tensors_by_storage(file);
  bool ok = sorted || input_no_memory(&file->in, fault);
  list_tensors(file, out);
  for (uint32_t i = 0; ok && i < file->tensors.len; i++) {
    NamedTensor *to = &out->all[sorted[i] - file->tensors.at];
    named.entry_name = to->name;
    if (!to->header.dtype)
      continue;
    ok = check_total(file, &to->header, &total, fault);
    if (ok)
      to->tensor =
          load_tensor(file, &named, sorted[i], &kept, &to->header, fault);
    ok = to->tensor != NULL;
  }
  mem_free(sorted);
  mem_free(kept.bytes);
  return ok;
}

static bool pth_load_all(InputFile *in, NamedTensors *out, Fault *fault) {
  PthFile file;
  bool ok = open_file(in, &file, fault);
  if (ok) {
    out->all = mem_try_alloc(sizeof *out->all * (file.tensors.len + 1));
    out->text = file.names.text;
    file.names = (EntryNames){0};
    ok =
        out->all ? load_tensors(&file, out, fault) : input_no_memory(in, fault);
  }
  close_file(&file);
  return ok;
}

const FileFormat pth_format = {".pth",       pth_header,
                               pth_load,     pth_list_names,
                               pth_load_all, output_unsupported};
const FileFormat pt_format = {".pt",          pth_header,   pth_load,
                              pth_list_names, pth_load_all, output_unsupported};
