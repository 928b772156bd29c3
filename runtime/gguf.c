/* The reader of .gguf files.  Everything in them is untrusted: each number is
 * checked before use.  Memory grows with the file, never with a number in it.
 */
#include "runtime/gguf.h"
#include "runtime/fork_lock.h"
#include "runtime/internal.h"
#include "support/int_math.h"
#include "support/mem.h"

#include <stdlib.h>
#include <string.h>

enum {
  GGUF_MAX_RANK = 4,
  DEFAULT_ALIGNMENT = 32, /* bytes */
  MAX_ALIGNMENT = 1 << 20,
  MIN_VALUE_BYTES = 8 + 4 + 1,     /* an empty key, a type, a byte */
  MIN_ENTRY_BYTES = 8 + 4 + 4 + 8, /* no name, no axes */
  MIN_VERSION = 2,
  MAX_VERSION = 3,
};

/* Element types by their numbers.  Those with a dtype are ordinary elements.
 * The others stay blocks: u8[..., blocks, bytes]. */
typedef struct ElementType {
  const char *name;
  Dtype dtype;
  uint8_t elements; /* of a block, divided by 32; 0: one element */
  uint8_t bytes;    /* of a block */
} ElementType;

static const ElementType element_types[] = {
    [0] = {"F32", DT_F32, 0, 4},      [1] = {"F16", DT_F16, 0, 2},
    [2] = {"Q4_0", DT_NONE, 1, 18},   [3] = {"Q4_1", DT_NONE, 1, 20},
    [6] = {"Q5_0", DT_NONE, 1, 22},   [7] = {"Q5_1", DT_NONE, 1, 24},
    [8] = {"Q8_0", DT_NONE, 1, 34},   [9] = {"Q8_1", DT_NONE, 1, 36},
    [10] = {"Q2_K", DT_NONE, 8, 84},  [11] = {"Q3_K", DT_NONE, 8, 110},
    [12] = {"Q4_K", DT_NONE, 8, 144}, [13] = {"Q5_K", DT_NONE, 8, 176},
    [14] = {"Q6_K", DT_NONE, 8, 210}, [24] = {"I8", DT_I8, 0, 1},
    [26] = {"I32", DT_I32, 0, 4},     [27] = {"I64", DT_I64, 0, 8},
    [28] = {"F64", DT_F64, 0, 8},     [30] = {"BF16", DT_BF16, 0, 2},
    [39] = {"MXFP4", DT_NONE, 1, 17},
};

static const struct {
  uint8_t bytes; /* 0: not a number */
  Dtype dtype;   /* DT_NONE: Axon has no such type */
} number_types[GGUF_TYPE_COUNT] = {
    [GGUF_U8] = {1, DT_U8},    [GGUF_I8] = {1, DT_I8},
    [GGUF_U16] = {2, DT_NONE}, [GGUF_I16] = {2, DT_NONE},
    [GGUF_U32] = {4, DT_NONE}, [GGUF_I32] = {4, DT_I32},
    [GGUF_F32] = {4, DT_F32},  [GGUF_BOOL] = {1, DT_BOOL},
    [GGUF_U64] = {8, DT_NONE}, [GGUF_I64] = {8, DT_I64},
    [GGUF_F64] = {8, DT_F64},
};

typedef struct Entry {
  GgufText name;
  uint32_t type, rank;
  uint64_t dims[GGUF_MAX_RANK]; /* as in the file: the last axis first */
  uint64_t offset;              /* from the first tensor */
} Entry;

/* Its texts are in the file. */
typedef struct Header {
  GgufValue *values;
  size_t value_count;
  Entry *entries;
  size_t entry_count;
  size_t data; /* offset of the first tensor */
} Header;

struct Gguf {
  InputFile in;
  size_t at; /* offset of the next byte of the header */
  Header header;
  bool is_shared; /* the mapping of the file has the header */
};

/* Guards the mapping that is kept. */
DEFINE_FORK_LOCK()

/* ---- parts of the header ---- */

static bool take(Gguf *g, void *to, size_t len, Fault *fault) {
  if (len > g->in.size - g->at)
    return input_fault(&g->in, fault, "the file is truncated");
  memcpy(to, g->in.bytes + g->at, len);
  g->at += len;
  return true;
}

static bool take_text(Gguf *g, GgufText *text, Fault *fault) {
  uint64_t len = 0;
  if (!take(g, &len, sizeof len, fault))
    return false;
  if (len > g->in.size - g->at)
    return input_fault(&g->in, fault, "the file is truncated");
  *text = (GgufText){(const char *)g->in.bytes + g->at, len};
  g->at += len;
  return true;
}

static bool skip_items(Gguf *g, GgufType type, uint64_t count, Fault *fault) {
  uint64_t left = g->in.size - g->at, bytes = number_types[type].bytes;
  GgufText text;
  if (bytes && count > left / bytes)
    return input_fault(&g->in, fault, "the file is truncated");
  g->at += bytes * count;
  for (uint64_t i = 0; i < count && !bytes; i++)
    if (!take_text(g, &text, fault))
      return false;
  return true;
}

static bool take_value(Gguf *g, GgufValue *v, Fault *fault) {
  uint32_t type = 0;
  v->count = 1;
  if (!take_text(g, &v->key, fault) || !take(g, &type, sizeof type, fault))
    return false;
  v->is_array = type == GGUF_ARRAY;
  if (v->is_array && (!take(g, &type, sizeof type, fault) ||
                      !take(g, &v->count, sizeof v->count, fault)))
    return false;
  if (type >= GGUF_TYPE_COUNT || type == GGUF_ARRAY)
    return input_fault(
        &g->in, fault, "the type %u of its metadata \"%.*s\" is not supported",
        type, (int)(v->key.len < 80 ? v->key.len : 80), v->key.text);
  v->type = type;
  v->at = g->in.bytes + g->at;
  return skip_items(g, v->type, v->count, fault);
}

static bool take_entry(Gguf *g, Entry *e, Fault *fault) {
  if (!take_text(g, &e->name, fault) ||
      !take(g, &e->rank, sizeof e->rank, fault))
    return false;
  if (e->rank > GGUF_MAX_RANK || !e->name.len ||
      memchr(e->name.text, 0, e->name.len))
    return input_fault(&g->in, fault, "its list of tensors is damaged");
  return take(g, e->dims, sizeof *e->dims * e->rank, fault) &&
         take(g, &e->type, sizeof e->type, fault) &&
         take(g, &e->offset, sizeof e->offset, fault);
}

static bool take_counts(Gguf *g, Fault *fault) {
  char magic[4];
  uint32_t version = 0;
  uint64_t entries = 0, values = 0;
  if (!take(g, magic, sizeof magic, fault))
    return false;
  if (memcmp(magic, "GGUF", sizeof magic) != 0)
    return input_fault(&g->in, fault, "it is not a .gguf file");
  if (!take(g, &version, sizeof version, fault))
    return false;
  if (version < MIN_VERSION || version > MAX_VERSION)
    return input_fault(&g->in, fault,
                       "its version is %u; Axon reads versions %d and %d",
                       version, MIN_VERSION, MAX_VERSION);
  if (!take(g, &entries, sizeof entries, fault) ||
      !take(g, &values, sizeof values, fault))
    return false;
  size_t left = g->in.size - g->at;
  if (entries > left / MIN_ENTRY_BYTES || values > left / MIN_VALUE_BYTES)
    return input_fault(&g->in, fault, "the file is truncated");
  g->header.values = mem_try_alloc(sizeof *g->header.values * (values + 1));
  g->header.entries = mem_try_alloc(sizeof *g->header.entries * (entries + 1));
  g->header.value_count = values;
  g->header.entry_count = entries;
  return (g->header.values && g->header.entries) ||
         input_no_memory(&g->in, fault);
}

static bool find_data(Gguf *g, Fault *fault) {
  const GgufValue *v = gguf_find(g, "general.alignment");
  size_t alignment = DEFAULT_ALIGNMENT;
  if (v) {
    const uint8_t *at = v->at;
    if (v->type != GGUF_U32 || v->is_array)
      return input_fault(&g->in, fault, "its alignment is invalid");
    alignment = (size_t)gguf_next_number(&at, v->type).i;
  }
  if (alignment > MAX_ALIGNMENT || !int_is_power_of_two((int64_t)alignment))
    return input_fault(&g->in, fault, "its alignment is invalid");
  g->header.data = (g->at + alignment - 1) & ~(alignment - 1);
  return true;
}

/* ---- where tensors lie ---- */

/* Bytes of the file. */
typedef struct Extent {
  const Entry *entry;
  size_t start, end;
} Extent;

/* Returns NULL if the type is unknown. */
static const ElementType *type_of(const Entry *e) {
  bool known = e->type < ARRAY_LEN(element_types);
  return known && element_types[e->type].name ? &element_types[e->type] : NULL;
}

/* The axes of a file are in the opposite order. */
static bool entry_header(const InputFile *in, const Entry *e, TensorHeader *h,
                         Fault *fault) {
  const ElementType *type = type_of(e);
  uint64_t block = type->elements * 32u;
  *h = (TensorHeader){.dtype = type->dtype ? type->dtype : DT_U8,
                      .rank = e->rank};
  for (uint32_t i = 0; i < e->rank; i++) {
    if (e->dims[i] > INT64_MAX)
      return input_fault(in, fault, "an axis is too long");
    h->shape[e->rank - 1 - i] = (int64_t)e->dims[i];
  }
  if (!block)
    return true;
  if (!e->rank || e->dims[0] % block)
    return input_fault(in, fault, "its rows have no whole blocks of %s",
                       type->name);
  h->shape[e->rank - 1] /= (int64_t)block;
  h->shape[h->rank++] = type->bytes;
  return true;
}

static bool find_place(const Gguf *g, const InputFile *in, const Entry *e,
                       size_t bytes, Extent *place, Fault *fault) {
  if (g->header.data > in->size || e->offset > in->size - g->header.data ||
      bytes > in->size - g->header.data - e->offset)
    return input_fault(in, fault, "the file is truncated: %zu bytes are needed",
                       bytes);
  place->start = g->header.data + e->offset;
  place->end = place->start + bytes;
  return true;
}

/* Sets the header, and where the data are in the file. */
static bool locate(const Gguf *g, const InputFile *in, const Entry *e,
                   TensorHeader *h, Extent *place, Fault *fault) {
  int64_t count;
  size_t bytes;
  if (!type_of(e)) {
    input_fault(in, fault, "Axon cannot read its element type, number %u",
                e->type);
    fault_set_help(fault, "convert the model to Q4_K, Q6_K, Q8_0 or F16");
    return false;
  }
  if (!entry_header(in, e, h, fault))
    return false;
  if (!shape_count_and_bytes(h->dtype, h->rank, h->shape, &count, &bytes))
    return input_fault(in, fault, "its shape exceeds the size of any file");
  return find_place(g, in, e, bytes, place, fault);
}

static int by_start(const void *a, const void *b) {
  const Extent *x = a, *y = b;
  return x->start != y->start ? (x->start > y->start) - (x->start < y->start)
                              : (x->end > y->end) - (x->end < y->end);
}

typedef struct EntryName {
  char text[80];
} EntryName;

static EntryName name_of(const Entry *e) {
  EntryName name;
  size_t limit = sizeof name.text;
  snprintf(name.text, limit, "%.*s",
           (int)(e->name.len < limit ? e->name.len : limit - 1), e->name.text);
  return name;
}

/* The extents of the tensors that have elements.  Of an element type that is
 * unknown, the first byte counts.  Returns their number, or -1. */
static int64_t list_extents(const Gguf *g, Extent *out, Fault *fault) {
  int64_t count = 0;
  for (size_t i = 0; i < g->header.entry_count; i++) {
    const Entry *e = &g->header.entries[i];
    EntryName name = name_of(e);
    InputFile named = g->in;
    TensorHeader h;
    Extent place = {.entry = e};
    named.entry_name = name.text;
    if (!(type_of(e) ? locate(g, &named, e, &h, &place, fault)
                     : find_place(g, &named, e, 1, &place, fault)))
      return -1;
    if (place.end > place.start)
      out[count++] = place;
  }
  return count;
}

/* Returns true if no two tensors share a byte, and all lie in the file. */
static bool check_extents(const Gguf *g, Fault *fault) {
  Extent *all = mem_try_alloc(sizeof *all * (g->header.entry_count + 1));
  if (!all)
    return input_no_memory(&g->in, fault);
  int64_t count = list_extents(g, all, fault), i = 1;
  qsort(all, count < 0 ? 0 : (size_t)count, sizeof *all, by_start);
  while (i < count && all[i - 1].end <= all[i].start)
    i++;
  if (i < count)
    input_fault(&g->in, fault,
                "its tensors \"%s\" and \"%s\" overlap at byte %zu",
                name_of(all[i - 1].entry).text, name_of(all[i].entry).text,
                all[i].start);
  mem_free(all);
  return count >= 0 && i >= count;
}

static bool read_file_header(Gguf *g, Fault *fault) {
  Header *h = &g->header;
  if (!take_counts(g, fault))
    return false;
  for (size_t i = 0; i < h->value_count; i++)
    if (!take_value(g, &h->values[i], fault))
      return false;
  for (size_t i = 0; i < h->entry_count; i++)
    if (!take_entry(g, &h->entries[i], fault))
      return false;
  return find_data(g, fault) && check_extents(g, fault);
}

static void free_arrays(Header *h) {
  mem_free(h->values);
  mem_free(h->entries);
}

static void free_note(void *note) {
  free_arrays(note);
  mem_free(note);
}

/* Keeps the last mapping, so that the next reader of the file finds it. */
static void keep_mapping(Mapped *m) {
  static Mapped *kept;
  lock();
  Mapped *before = kept;
  kept = mapped_retain(m);
  unlock();
  if (before)
    mapped_close(before);
}

/* A header with many tokens takes as long to read as some tensors, so readers
 * of one mapping share it. */
static void share_header(Gguf *g) {
  Header *note =
      g->in.mapped && g->in.stays ? mem_try_alloc(sizeof *note) : NULL;
  if (!note)
    return;
  *note = g->header;
  g->is_shared = mapped_set_note(g->in.mapped, note, free_note);
  if (g->is_shared)
    keep_mapping(g->in.mapped);
  else
    mem_free(note);
}

/* Reads the header of an open file.  The caller frees it. */
static bool parse(const InputFile *in, Gguf *g, Fault *fault) {
  const Header *note = in->mapped ? mapped_note(in->mapped) : NULL;
  *g = (Gguf){.in = *in, .is_shared = note != NULL};
  if (note) {
    g->header = *note;
    return true;
  }
  if (!read_file_header(g, fault))
    return false;
  share_header(g);
  return true;
}

static void free_header(Gguf *g) {
  if (!g->is_shared)
    free_arrays(&g->header);
}

/* ---- metadata ---- */

Gguf *gguf_open(const char *path, Fault *fault) {
  Gguf *g = mem_try_alloc(sizeof *g);
  if (!g) {
    fault_set(fault, "cannot read \"%.200s\": out of memory", path);
    return NULL;
  }
  InputFile in;
  if (input_open(&in, path, fault) && parse(&in, g, fault))
    return g;
  gguf_close(g);
  return NULL;
}

void gguf_close(Gguf *g) {
  free_header(g);
  input_close(&g->in);
  mem_free(g);
}

const GgufValue *gguf_values(const Gguf *g, size_t *count) {
  *count = g->header.value_count;
  return g->header.values;
}

const GgufValue *gguf_find(const Gguf *g, const char *key) {
  size_t len = strlen(key);
  for (size_t i = 0; i < g->header.value_count; i++)
    if (g->header.values[i].key.len == len &&
        memcmp(g->header.values[i].key.text, key, len) == 0)
      return &g->header.values[i];
  return NULL;
}

GgufText gguf_next_text(const uint8_t **at) {
  uint64_t len = 0;
  memcpy(&len, *at, sizeof len);
  GgufText text = {(const char *)*at + sizeof len, len};
  *at += sizeof len + len;
  return text;
}

Scalar gguf_next_number(const uint8_t **at, GgufType type) {
  size_t bytes = number_types[type].bytes;
  Dtype dtype = number_types[type].dtype;
  uint64_t bits = 0;
  if (dtype) {
    Scalar x = scalar_load(dtype, *at);
    *at += bytes;
    return x;
  }
  memcpy(&bits, *at, bytes);
  *at += bytes;
  int64_t value = type == GGUF_I16 ? (int16_t)bits : (int64_t)bits;
  return (Scalar){DT_I64, {.i = value}};
}

/* ---- tensors ---- */

/* Returns NULL if the file has no such tensor. */
static const Entry *find_entry(const Gguf *g, const char *name) {
  size_t len = strlen(name);
  for (size_t i = 0; i < g->header.entry_count; i++) {
    const Entry *e = &g->header.entries[i];
    if (e->name.len == len && memcmp(e->name.text, name, len) == 0)
      return e;
  }
  return NULL;
}

const char *gguf_tensor_type(const Gguf *g, const char *name) {
  const Entry *e = find_entry(g, name);
  if (!e)
    return "";
  return type_of(e) ? type_of(e)->name : "?";
}

bool gguf_find_rows(const Gguf *g, const char *name, GgufRows *rows,
                    Fault *fault) {
  const Entry *e = find_entry(g, name);
  InputFile named = g->in;
  TensorHeader h;
  Extent place;
  if (!e)
    return input_fault(&g->in, fault, "it contains no tensor \"%.80s\"", name);
  named.entry_name = name;
  if (!locate(g, &named, e, &h, &place, fault))
    return false;
  if (h.rank != 3 || !type_of(e)->elements || !h.shape[1])
    return input_fault(&named, fault, "it is no matrix of blocks");
  *rows = (GgufRows){type_of(e)->name, g->in.bytes + place.start, h.shape[0],
                     h.shape[1]};
  return true;
}

bool gguf_check(const Gguf *g, Fault *fault) {
  return !g->in.mapped || mapped_check(g->in.mapped, fault);
}

static bool add_names(const Gguf *g, EntryNames *names, Fault *fault) {
  bool ok = true;
  for (size_t i = 0; i < g->header.entry_count && ok; i++) {
    const GgufText *text = &g->header.entries[i].name;
    char *copy = mem_try_alloc(text->len + 1);
    if (copy) {
      memcpy(copy, text->text, text->len);
      copy[text->len] = 0;
    }
    ok = copy && names_add(names, copy);
    mem_free(copy);
  }
  return ok || input_no_memory(&g->in, fault);
}

/* Reads the header and finds the tensor of the options. */
static bool select_tensor(const InputFile *in, const LoadOptions *options,
                          TensorHeader *h, Extent *place, Fault *fault) {
  Gguf g;
  EntryNames names = {0};
  uint32_t i;
  bool ok = parse(in, &g, fault) && add_names(&g, &names, fault) &&
            names_select(&names, in, options, &i, fault);
  if (ok) {
    InputFile named = *in;
    EntryName name = name_of(&g.header.entries[i]);
    named.entry_name = name.text;
    ok = locate(&g, &named, &g.header.entries[i], h, place, fault);
  }
  names_free(&names);
  free_header(&g);
  return ok;
}

static bool read_header(InputFile *in, const LoadOptions *options,
                        TensorHeader *header, Fault *fault) {
  Extent place;
  return select_tensor(in, options, header, &place, fault);
}

static Tensor *load(InputFile *in, const LoadOptions *options, Fault *fault) {
  TensorHeader header;
  Extent place;
  return select_tensor(in, options, &header, &place, fault)
             ? input_read_tensor(in, place.start, &header, fault)
             : NULL;
}

static bool list_names(InputFile *in, EntryNames *names, Fault *fault) {
  Gguf g;
  bool ok = parse(in, &g, fault) && add_names(&g, names, fault);
  free_header(&g);
  if (!ok)
    names_free(names);
  return ok;
}

static bool load_entry(const Gguf *g, const Entry *e, NamedTensor *to,
                       Fault *fault) {
  InputFile named = g->in;
  Extent place;
  const ElementType *type = type_of(e);
  named.entry_name = to->name;
  to->dtype_name = type ? type->name : "?";
  if (!locate(g, &named, e, &to->header, &place, fault))
    return false;
  to->tensor = input_read_tensor(&named, place.start, &to->header, fault);
  return to->tensor != NULL;
}

static bool load_all(InputFile *in, NamedTensors *out, Fault *fault) {
  Gguf g;
  EntryNames names = {0};
  bool ok = parse(in, &g, fault) && add_names(&g, &names, fault);
  out->text = names.text;
  if (ok) {
    out->all = mem_try_alloc(sizeof *out->all * (g.header.entry_count + 1));
    ok = out->all || input_no_memory(in, fault);
  }
  const char *name = names.text;
  for (size_t i = 0; ok && i < g.header.entry_count;
       i++, name += strlen(name) + 1) {
    out->all[out->count] = (NamedTensor){.name = name};
    ok = load_entry(&g, &g.header.entries[i], &out->all[out->count++], fault);
  }
  free_header(&g);
  return ok;
}

const FileFormat gguf_format = {".gguf",    read_header, load,
                                list_names, load_all,    output_unsupported};
