/* .npz files: a zip archive of .npy files, as written by numpy.savez, through
 * libzip. */
#include "runtime/zip_archive.h"
#include "support/mem.h"

#include <string.h>

enum {
  /* Bytes; larger than the longest header that npy_parse accepts. */
  MAX_PREFIX_BYTES = 68 * 1024,
  MAX_NAME_BYTES = 256,
  DOS_DATE_1980 = 1 << 5 | 1,
};

static const char suffix[] = ".npy";

/* ---- reading ---- */

/* An entry that is no .npy file counts, but has no name. */
static bool collect_names(const InputFile *in, zip_t *zip, EntryNames *names,
                          Fault *fault) {
  zip_int64_t count = libzip.zip_get_num_entries(zip, 0);
  for (zip_int64_t i = 0; i < count; i++) {
    char name[MAX_NAME_BYTES] = "";
    const char *full = libzip.zip_get_name(zip, (zip_uint64_t)i, 0);
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
    libzip.zip_fclose(e->file);
  if (e->zip)
    libzip.zip_discard(e->zip);
}

static bool entry_open(ZipEntry *e, InputFile *in, const LoadOptions *options,
                       Fault *fault) {
  uint32_t entry_index;
  *e = (ZipEntry){.zip = zip_open_input(in, fault)};
  if (!e->zip || !find_entry(in, e->zip, options, &entry_index, fault))
    return false;
  in->entry_name = libzip.zip_get_name(e->zip, entry_index, 0);
  if (!zip_check_entry(in, e->zip, entry_index, &e->bytes, &e->compressed_bytes,
                       fault))
    return false;
  e->prefix = *in;
  e->prefix.mapped = NULL;
  e->prefix.size = e->bytes < MAX_PREFIX_BYTES ? e->bytes : MAX_PREFIX_BYTES;
  e->prefix.bytes = e->prefix.heap = mem_try_alloc(e->prefix.size);
  if (!e->prefix.heap)
    return input_no_memory(in, fault);
  e->file = libzip.zip_fopen_index(e->zip, entry_index, 0);
  if (!e->file)
    return input_fault(in, fault, "%s", libzip.zip_strerror(e->zip));
  if (zip_read_up_to(e->file, e->prefix.heap, e->prefix.size) != e->prefix.size)
    return input_fault(in, fault, "it is damaged");
  return npy_parse(&e->prefix, &e->npy, fault) &&
         input_check_data_size(in, &e->npy.header,
                               e->bytes - e->npy.data_offset, fault);
}

static bool read_data(ZipEntry *e, const InputFile *in, char *to,
                      Fault *fault) {
  size_t size = e->bytes - e->npy.data_offset;
  size_t prefix_bytes = e->prefix.size - e->npy.data_offset;
  if (prefix_bytes)
    memcpy(to, e->prefix.bytes + e->npy.data_offset, prefix_bytes);
  if (zip_read_up_to(e->file, to + prefix_bytes, size - prefix_bytes) !=
          size - prefix_bytes ||
      !zip_is_at_end(e->file))
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
  zip_t *zip = zip_open_input(in, fault);
  if (!zip)
    return false;
  bool ok = collect_names(in, zip, names, fault);
  libzip.zip_discard(zip);
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
      libzip.zip_source_buffer_fragment(zip, member->fragments, 2, 0);
  zip_int64_t at = -1;
  if (source)
    at = libzip.zip_file_add(zip, full, source, ZIP_FL_ENC_UTF_8);
  if (at < 0) {
    libzip.zip_source_free(source);
    return output_fault(out, fault, "%s", libzip.zip_strerror(zip));
  }
  libzip.zip_set_file_compression(zip, (zip_uint64_t)at, ZIP_CM_STORE, 0);
  libzip.zip_file_set_dostime(zip, (zip_uint64_t)at, 0, DOS_DATE_1980, 0);
  return true;
}

/* libzip writes a file of its own and renames it to out->temp_path. */
static bool write_zip(OutputFile *out, ZipMember *members, uint32_t count,
                      const char *const *names, Tensor *const *tensors,
                      Fault *fault) {
  int code = 0;
  zip_t *zip =
      libzip.zip_open(out->temp_path, ZIP_CREATE | ZIP_TRUNCATE, &code);
  if (!zip)
    return output_fault(out, fault, "libzip error %d", code);
  bool ok = true;
  for (uint32_t i = 0; ok && i < count; i++)
    ok = add_member(out, zip, &members[i], names[i], tensors[i], fault);
  if (ok && libzip.zip_close(zip) == 0)
    return true;
  if (ok)
    output_fault(out, fault, "%s", libzip.zip_strerror(zip));
  libzip.zip_discard(zip);
  return false;
}

static bool npz_save(OutputFile *out, uint32_t count, const char *const *names,
                     Tensor *const *tensors, Fault *fault) {
  if (!zip_load_library(fault))
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
