/* .npz: a zip archive of .npy files, as numpy.savez writes it, through libzip.
 * What an entry claims to hold is checked against what its compressed bytes
 * can hold at all before anything is allocated. */
#include "runtime/internal.h"

#include <string.h>
#include <zip.h>

#define FUNCTIONS(F)            \
  F(zip_open_from_source)       \
  F(zip_open)                   \
  F(zip_close)                  \
  F(zip_discard)                \
  F(zip_fclose)                 \
  F(zip_fopen_index)            \
  F(zip_fread)                  \
  F(zip_get_num_entries)        \
  F(zip_get_name)               \
  F(zip_stat_index)             \
  F(zip_stat_init)              \
  F(zip_error_init)             \
  F(zip_error_fini)             \
  F(zip_error_strerror)         \
  F(zip_strerror)               \
  F(zip_file_add)               \
  F(zip_file_set_dostime)       \
  F(zip_set_file_compression)   \
  F(zip_source_buffer_create)   \
  F(zip_source_buffer_fragment) \
  F(zip_source_free)

static LIBRARY_TABLE(FUNCTIONS) lib;
static const Library libzip = LIBRARY("libzip.so.4", "libzip4", FUNCTIONS, lib);

enum {
  DEFLATE_MOST = 1032,     /* times: no deflated byte holds more */
  PREFIX_MOST = 68 * 1024, /* holds the longest header that npy_parse takes */
  NAME_MOST = 256,
  DOS_DATE_1980 = 1 << 5 | 1,
};

static const char suffix[] = ".npy";

/* ---- reading ---- */

static zip_t *open_zip(const Input *in, Fault *fault) {
  if (!library_load(&libzip, fault))
    return NULL;
  zip_error_t error;
  lib.zip_error_init(&error);
  zip_source_t *source =
      lib.zip_source_buffer_create(in->bytes, in->size, 0, &error);
  zip_t *zip = NULL;
  if (source)
    zip = lib.zip_open_from_source(source, ZIP_RDONLY, &error);
  if (!zip) {
    input_fault(in, fault, "%s", lib.zip_error_strerror(&error));
    lib.zip_source_free(source);
  }
  lib.zip_error_fini(&error);
  return zip;
}

/* An entry that is no .npy file counts, but has no name. */
static bool collect_names(const Input *in, zip_t *zip, Names *names,
                          Fault *fault) {
  zip_int64_t count = lib.zip_get_num_entries(zip, 0);
  for (zip_int64_t i = 0; i < count; i++) {
    char name[NAME_MOST] = "";
    const char *full = lib.zip_get_name(zip, (zip_uint64_t)i, 0);
    size_t len = full ? strlen(full) : 0, end = sizeof suffix - 1;
    if (len > end && len - end < sizeof name &&
        strcmp(full + len - end, suffix) == 0)
      memcpy(name, full, len - end);
    if (!names_add(names, name))
      return input_no_memory(in, fault);
  }
  return true;
}

static bool find_entry(const Input *in, zip_t *zip, const LoadOptions *options,
                       uint32_t *number, Fault *fault) {
  Names names = {0};
  bool ok = collect_names(in, zip, &names, fault) &&
            names_choose(&names, in, options, number, fault);
  names_free(&names);
  return ok;
}

/* What the entry says that it holds, unpacked and as it is. */
static bool check_entry(const Input *in, zip_t *zip, uint32_t number,
                        size_t *size, size_t *packed, Fault *fault) {
  zip_stat_t info;
  lib.zip_stat_init(&info);
  zip_uint64_t wanted = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                        ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if (lib.zip_stat_index(zip, number, 0, &info) != 0 ||
      (info.valid & wanted) != wanted)
    return input_fault(in, fault, "%s", lib.zip_strerror(zip));
  if (info.encryption_method != ZIP_EM_NONE)
    return input_fault(in, fault, "it is encrypted");
  bool stored = info.comp_method == ZIP_CM_STORE;
  if (!stored && info.comp_method != ZIP_CM_DEFLATE)
    return input_fault(in, fault, "it is compressed in a way that .npz is not");
  if (info.comp_size > in->size)
    return input_fault(in, fault, "it is cut short");
  if (info.size > (stored ? 1 : DEFLATE_MOST) * info.comp_size)
    return input_fault(
        in, fault, "%llu bytes cannot hold the %llu that it claims",
        (unsigned long long)info.comp_size, (unsigned long long)info.size);
  *size = (size_t)info.size;
  *packed = (size_t)info.comp_size;
  return true;
}

static size_t read_some(zip_file_t *file, void *to, size_t size) {
  size_t done = 0;
  while (done < size) {
    zip_int64_t got =
        lib.zip_fread(file, (char *)to + done, (zip_uint64_t)(size - done));
    if (got <= 0)
      break;
    done += (size_t)got;
  }
  return done;
}

typedef struct Entry {
  zip_t *zip;
  zip_file_t *file;
  Input prefix; /* the first bytes: the header, and perhaps data */
  NpyHeader npy;
  size_t size, packed; /* of the .npy file */
} Entry;

static void entry_close(Entry *e) {
  mem_free(e->prefix.heap);
  if (e->file)
    lib.zip_fclose(e->file);
  if (e->zip)
    lib.zip_discard(e->zip);
}

static bool entry_open(Entry *e, Input *in, const LoadOptions *options,
                       Fault *fault) {
  uint32_t number;
  *e = (Entry){.zip = open_zip(in, fault)};
  if (!e->zip || !find_entry(in, e->zip, options, &number, fault))
    return false;
  in->entry = lib.zip_get_name(e->zip, number, 0);
  if (!check_entry(in, e->zip, number, &e->size, &e->packed, fault))
    return false;
  e->prefix = *in;
  e->prefix.mapped = NULL;
  e->prefix.size = e->size < PREFIX_MOST ? e->size : PREFIX_MOST;
  e->prefix.bytes = e->prefix.heap = mem_try_alloc(e->prefix.size);
  if (!e->prefix.heap)
    return input_no_memory(in, fault);
  e->file = lib.zip_fopen_index(e->zip, number, 0);
  if (!e->file)
    return input_fault(in, fault, "%s", lib.zip_strerror(e->zip));
  if (read_some(e->file, e->prefix.heap, e->prefix.size) != e->prefix.size)
    return input_fault(in, fault, "it is damaged");
  return npy_parse(&e->prefix, &e->npy, fault) &&
         input_holds(in, &e->npy.is, e->size - e->npy.data, fault);
}

/* The byte behind the end is asked for: there libzip compares checksums. */
static bool read_data(Entry *e, const Input *in, char *to, Fault *fault) {
  size_t size = e->size - e->npy.data;
  size_t had = e->prefix.size - e->npy.data;
  if (had)
    memcpy(to, e->prefix.bytes + e->npy.data, had);
  char more;
  if (read_some(e->file, to + had, size - had) != size - had ||
      lib.zip_fread(e->file, &more, 1) != 0)
    return input_fault(in, fault, "it is damaged");
  return true;
}

static Tensor *entry_load(Entry *e, const Input *in, Fault *fault) {
  const Header *is = &e->npy.is;
  if (!input_may_unpack(in, e->packed, e->size, fault))
    return NULL;
  Tensor *t = tensor_new(is->dtype, is->rank, is->shape, false, fault);
  if (!t)
    return NULL;
  void *raw = t->data;
  bool plain = npy_is_plain(&e->npy), ok = true;
  if (!plain && !(raw = mem_try_alloc(e->size)))
    ok = input_no_memory(in, fault);
  ok = ok && read_data(e, in, raw, fault);
  if (ok && !plain)
    npy_arrange(t, raw, &e->npy);
  if (!plain)
    mem_free(raw);
  if (ok)
    return t;
  tensor_release(t);
  return NULL;
}

static Tensor *npz_load(Input *in, const LoadOptions *options, Fault *fault) {
  Entry e;
  Tensor *t = NULL;
  if (entry_open(&e, in, options, fault))
    t = entry_load(&e, in, fault);
  entry_close(&e);
  in->entry = NULL;
  return t;
}

static bool npz_header(Input *in, const LoadOptions *options, Header *is,
                       Fault *fault) {
  Entry e;
  bool ok = entry_open(&e, in, options, fault);
  if (ok)
    *is = e.npy.is;
  entry_close(&e);
  in->entry = NULL;
  return ok;
}

static bool npz_names(Input *in, Names *names, Fault *fault) {
  zip_t *zip = open_zip(in, fault);
  if (!zip)
    return false;
  bool ok = collect_names(in, zip, names, fault);
  lib.zip_discard(zip);
  return ok;
}

/* ---- writing: stored, as numpy.savez does ---- */

typedef struct Part { /* must live until the archive is closed */
  char header[NPY_HEADER_MOST];
  zip_buffer_fragment_t pieces[2];
} Part;

static bool add_part(Output *out, zip_t *zip, Part *part, const char *name,
                     const Tensor *t, Fault *fault) {
  char full[NAME_MOST + sizeof suffix];
  size_t len = npy_write_header(out, part->header, t, fault);
  if (!len)
    return false;
  if (!*name || strlen(name) >= NAME_MOST)
    return output_fault(out, fault, "\"%.80s\" cannot be the name of an entry",
                        name);
  snprintf(full, sizeof full, "%s%s", name, suffix);
  part->pieces[0].data = (zip_uint8_t *)part->header;
  part->pieces[0].length = len;
  part->pieces[1].data = t->data;
  part->pieces[1].length = (zip_uint64_t)t->count * dtype_info[t->dtype].bytes;
  zip_source_t *source =
      lib.zip_source_buffer_fragment(zip, part->pieces, 2, 0);
  zip_int64_t at = -1;
  if (source)
    at = lib.zip_file_add(zip, full, source, ZIP_FL_ENC_UTF_8);
  if (at < 0) {
    lib.zip_source_free(source);
    return output_fault(out, fault, "%s", lib.zip_strerror(zip));
  }
  lib.zip_set_file_compression(zip, (zip_uint64_t)at, ZIP_CM_STORE, 0);
  lib.zip_file_set_dostime(zip, (zip_uint64_t)at, 0, DOS_DATE_1980, 0);
  return true;
}

/* libzip writes a file of its own and renames it to out->temp. */
static bool write_zip(Output *out, Part *parts, uint32_t count,
                      const char *const *names, Tensor *const *tensors,
                      Fault *fault) {
  int code = 0;
  zip_t *zip = lib.zip_open(out->temp, ZIP_CREATE | ZIP_TRUNCATE, &code);
  if (!zip)
    return output_fault(out, fault, "libzip error %d", code);
  bool ok = true;
  for (uint32_t i = 0; ok && i < count; i++)
    ok = add_part(out, zip, &parts[i], names[i], tensors[i], fault);
  if (ok && lib.zip_close(zip) == 0)
    return true;
  if (ok)
    output_fault(out, fault, "%s", lib.zip_strerror(zip));
  lib.zip_discard(zip);
  return false;
}

static bool npz_save(Output *out, uint32_t count, const char *const *names,
                     Tensor *const *tensors, Fault *fault) {
  if (!library_load(&libzip, fault))
    return false;
  if (count == 0) /* libzip would delete the file */
    return output_fault(out, fault, "there is nothing to save");
  Part *parts = mem_try_alloc(sizeof *parts * count);
  if (!parts)
    return output_fault(out, fault, "out of memory");
  bool ok = write_zip(out, parts, count, names, tensors, fault);
  mem_free(parts);
  return ok;
}

const Format npz_format = {".npz", npz_header, npz_load, npz_names, npz_save};
