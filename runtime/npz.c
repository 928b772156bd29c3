/* .npz files: a zip archive of .npy files, as written by numpy.savez, through
 * libzip.  Before anything is allocated, the stated size of an entry is checked
 * against what its compressed bytes can hold. */
#include "runtime/internal.h"
#include "support/mem.h"

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

static DYNLIB_TABLE(FUNCTIONS) lib;
static const DynLib libzip = DYNLIB("libzip.so.4", "libzip4", FUNCTIONS, lib);

enum {
  MAX_DEFLATE_RATIO = 1032, /* bytes per deflated byte, at most */
  /* Bytes; larger than the longest header that npy_parse accepts. */
  MAX_PREFIX_BYTES = 68 * 1024,
  MAX_NAME_BYTES = 256,
  DOS_DATE_1980 = 1 << 5 | 1,
};

static const char suffix[] = ".npy";

/* ---- reading ---- */

static zip_t *open_zip(const InputFile *in, Fault *fault) {
  if (!dynlib_load(&libzip, fault))
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
static bool collect_names(const InputFile *in, zip_t *zip, EntryNames *names,
                          Fault *fault) {
  zip_int64_t count = lib.zip_get_num_entries(zip, 0);
  for (zip_int64_t i = 0; i < count; i++) {
    char name[MAX_NAME_BYTES] = "";
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

static bool find_entry(const InputFile *in, zip_t *zip,
                       const LoadOptions *options, uint32_t *entry_index,
                       Fault *fault) {
  EntryNames names = {0};
  bool ok = collect_names(in, zip, &names, fault) &&
            names_select(&names, in, options, entry_index, fault);
  names_free(&names);
  return ok;
}

/* Checks the stated sizes of an entry, compressed and decompressed. */
static bool check_entry_size(const InputFile *in, zip_t *zip,
                             uint32_t entry_index, size_t *size,
                             size_t *compressed_bytes, Fault *fault) {
  zip_stat_t info;
  lib.zip_stat_init(&info);
  zip_uint64_t wanted = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                        ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if (lib.zip_stat_index(zip, entry_index, 0, &info) != 0 ||
      (info.valid & wanted) != wanted)
    return input_fault(in, fault, "%s", lib.zip_strerror(zip));
  if (info.encryption_method != ZIP_EM_NONE)
    return input_fault(in, fault, "it is encrypted");
  bool stored = info.comp_method == ZIP_CM_STORE;
  if (!stored && info.comp_method != ZIP_CM_DEFLATE)
    return input_fault(in, fault,
                       "it uses a compression method that .npz does not use");
  if (info.comp_size > in->size)
    return input_fault(in, fault, "the file is truncated");
  if (info.size > (stored ? 1 : MAX_DEFLATE_RATIO) * info.comp_size)
    return input_fault(in, fault, "%llu bytes cannot unpack to %llu bytes",
                       (unsigned long long)info.comp_size,
                       (unsigned long long)info.size);
  *size = (size_t)info.size;
  *compressed_bytes = (size_t)info.comp_size;
  return true;
}

static size_t read_up_to(zip_file_t *file, void *to, size_t size) {
  size_t done = 0;
  while (done < size) {
    zip_int64_t bytes_read =
        lib.zip_fread(file, (char *)to + done, (zip_uint64_t)(size - done));
    if (bytes_read <= 0)
      break;
    done += (size_t)bytes_read;
  }
  return done;
}

typedef struct ZipEntry {
  zip_t *zip;
  zip_file_t *file;
  InputFile prefix; /* the first bytes: the header, perhaps with data */
  NpyHeader npy;
  size_t bytes, compressed_bytes; /* of the .npy file */
} ZipEntry;

static void entry_close(ZipEntry *e) {
  mem_free(e->prefix.heap);
  if (e->file)
    lib.zip_fclose(e->file);
  if (e->zip)
    lib.zip_discard(e->zip);
}

static bool entry_open(ZipEntry *e, InputFile *in, const LoadOptions *options,
                       Fault *fault) {
  uint32_t entry_index;
  *e = (ZipEntry){.zip = open_zip(in, fault)};
  if (!e->zip || !find_entry(in, e->zip, options, &entry_index, fault))
    return false;
  in->entry_name = lib.zip_get_name(e->zip, entry_index, 0);
  if (!check_entry_size(in, e->zip, entry_index, &e->bytes,
                        &e->compressed_bytes, fault))
    return false;
  e->prefix = *in;
  e->prefix.mapped = NULL;
  e->prefix.size = e->bytes < MAX_PREFIX_BYTES ? e->bytes : MAX_PREFIX_BYTES;
  e->prefix.bytes = e->prefix.heap = mem_try_alloc(e->prefix.size);
  if (!e->prefix.heap)
    return input_no_memory(in, fault);
  e->file = lib.zip_fopen_index(e->zip, entry_index, 0);
  if (!e->file)
    return input_fault(in, fault, "%s", lib.zip_strerror(e->zip));
  if (read_up_to(e->file, e->prefix.heap, e->prefix.size) != e->prefix.size)
    return input_fault(in, fault, "it is damaged");
  return npy_parse(&e->prefix, &e->npy, fault) &&
         input_check_data_size(in, &e->npy.header,
                               e->bytes - e->npy.data_offset, fault);
}

/* Reads one byte beyond the end, since libzip compares checksums there. */
static bool read_data(ZipEntry *e, const InputFile *in, char *to,
                      Fault *fault) {
  size_t size = e->bytes - e->npy.data_offset;
  size_t prefix_bytes = e->prefix.size - e->npy.data_offset;
  if (prefix_bytes)
    memcpy(to, e->prefix.bytes + e->npy.data_offset, prefix_bytes);
  char trailing_byte;
  if (read_up_to(e->file, to + prefix_bytes, size - prefix_bytes) !=
          size - prefix_bytes ||
      lib.zip_fread(e->file, &trailing_byte, 1) != 0)
    return input_fault(in, fault, "it is damaged");
  return true;
}

static Tensor *entry_load(ZipEntry *e, const InputFile *in, Fault *fault) {
  const TensorHeader *header = &e->npy.header;
  if (!input_check_decompressed_size(in, e->compressed_bytes, e->bytes, fault))
    return NULL;
  Tensor *t =
      tensor_new(header->dtype, header->rank, header->shape, false, fault);
  if (!t)
    return NULL;
  void *raw = t->data;
  bool is_native = npy_is_native_layout(&e->npy), ok = true;
  if (!is_native && !(raw = mem_try_alloc(e->bytes)))
    ok = input_no_memory(in, fault);
  ok = ok && read_data(e, in, raw, fault);
  if (ok && !is_native)
    npy_convert(t, raw, &e->npy);
  if (!is_native)
    mem_free(raw);
  if (ok)
    return t;
  tensor_release(t);
  return NULL;
}

static Tensor *npz_load(InputFile *in, const LoadOptions *options,
                        Fault *fault) {
  ZipEntry e;
  Tensor *t = NULL;
  if (entry_open(&e, in, options, fault))
    t = entry_load(&e, in, fault);
  entry_close(&e);
  in->entry_name = NULL;
  return t;
}

static bool npz_header(InputFile *in, const LoadOptions *options,
                       TensorHeader *header, Fault *fault) {
  ZipEntry e;
  bool ok = entry_open(&e, in, options, fault);
  if (ok)
    *header = e.npy.header;
  entry_close(&e);
  in->entry_name = NULL;
  return ok;
}

static bool npz_names(InputFile *in, EntryNames *names, Fault *fault) {
  zip_t *zip = open_zip(in, fault);
  if (!zip)
    return false;
  bool ok = collect_names(in, zip, names, fault);
  lib.zip_discard(zip);
  return ok;
}

/* ---- writing: stored, not compressed, as in numpy.savez ---- */

typedef struct ZipMember { /* must live until the archive is closed */
  char header[MAX_NPY_HEADER_BYTES];
  zip_buffer_fragment_t fragments[2];
} ZipMember;

static bool add_member(OutputFile *out, zip_t *zip, ZipMember *member,
                       const char *name, const Tensor *t, Fault *fault) {
  char full[MAX_NAME_BYTES + sizeof suffix];
  size_t len = npy_write_header(out, member->header, t, fault);
  if (!len)
    return false;
  if (!*name || strlen(name) >= MAX_NAME_BYTES)
    return output_fault(out, fault, "\"%.80s\" cannot be the name of an entry",
                        name);
  snprintf(full, sizeof full, "%s%s", name, suffix);
  member->fragments[0].data = (zip_uint8_t *)member->header;
  member->fragments[0].length = len;
  member->fragments[1].data = t->data;
  member->fragments[1].length =
      (zip_uint64_t)t->count * dtype_info[t->dtype].bytes;
  zip_source_t *source =
      lib.zip_source_buffer_fragment(zip, member->fragments, 2, 0);
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

/* libzip writes a file of its own and renames it to out->temp_path. */
static bool write_zip(OutputFile *out, ZipMember *members, uint32_t count,
                      const char *const *names, Tensor *const *tensors,
                      Fault *fault) {
  int code = 0;
  zip_t *zip = lib.zip_open(out->temp_path, ZIP_CREATE | ZIP_TRUNCATE, &code);
  if (!zip)
    return output_fault(out, fault, "libzip error %d", code);
  bool ok = true;
  for (uint32_t i = 0; ok && i < count; i++)
    ok = add_member(out, zip, &members[i], names[i], tensors[i], fault);
  if (ok && lib.zip_close(zip) == 0)
    return true;
  if (ok)
    output_fault(out, fault, "%s", lib.zip_strerror(zip));
  lib.zip_discard(zip);
  return false;
}

static bool npz_save(OutputFile *out, uint32_t count, const char *const *names,
                     Tensor *const *tensors, Fault *fault) {
  if (!dynlib_load(&libzip, fault))
    return false;
  if (count == 0) /* libzip would delete the file */
    return output_fault(out, fault, "there is nothing to save");
  ZipMember *members = mem_try_alloc(sizeof *members * count);
  if (!members)
    return output_fault(out, fault, "out of memory");
  bool ok = write_zip(out, members, count, names, tensors, fault);
  mem_free(members);
  return ok;
}

const FileFormat npz_format = {".npz",    npz_header, npz_load,
                               npz_names, NULL,       npz_save};
