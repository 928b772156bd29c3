/* libzip, loaded when the first archive is opened, and checks of entries. */
#include "runtime/zip_archive.h"

#include <string.h>

enum { MAX_DEFLATE_RATIO = 1032 }; /* bytes per deflated byte, at most */

LibZip libzip;

static const DynLib library =
    DYNLIB("libzip.so.4", "libzip4", ZIP_FUNCTIONS, libzip);

bool zip_load_library(Fault *fault) {
  return dynlib_load(&library, fault);
}

/* The list of entries is at the end of an archive. */
static void open_fault(const InputFile *in, zip_error_t *error, Fault *fault) {
  bool begins = in->size >= 4 && memcmp(in->bytes, "PK\3\4", 4) == 0;
  if (error->zip_err == ZIP_ER_NOZIP && begins)
    input_fault(in, fault,
                "the file is truncated: the list of entries at its end is "
                "missing");
  else if (error->zip_err == ZIP_ER_NOZIP)
    input_fault(in, fault, "it is no zip archive");
  else
    input_fault(in, fault, "%s", libzip.zip_error_strerror(error));
}

zip_t *zip_open_input(const InputFile *in, Fault *fault) {
  if (!zip_load_library(fault))
    return NULL;
  zip_error_t error;
  libzip.zip_error_init(&error);
  zip_source_t *source =
      libzip.zip_source_buffer_create(in->bytes, in->size, 0, &error);
  zip_t *zip = NULL;
  if (source)
    zip = libzip.zip_open_from_source(source, ZIP_RDONLY, &error);
  if (!zip) {
    open_fault(in, &error, fault);
    libzip.zip_source_free(source);
  }
  libzip.zip_error_fini(&error);
  return zip;
}

bool zip_check_entry(const InputFile *in, zip_t *zip, uint64_t entry_index,
                     size_t *size, size_t *compressed_bytes, Fault *fault) {
  zip_stat_t info;
  libzip.zip_stat_init(&info);
  zip_uint64_t wanted = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                        ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if (libzip.zip_stat_index(zip, entry_index, 0, &info) != 0 ||
      (info.valid & wanted) != wanted)
    return input_fault(in, fault, "%s", libzip.zip_strerror(zip));
  if (info.encryption_method != ZIP_EM_NONE)
    return input_fault(in, fault, "it is encrypted");
  bool stored = info.comp_method == ZIP_CM_STORE;
  if (!stored && info.comp_method != ZIP_CM_DEFLATE)
    return input_fault(in, fault,
                       "its compression method is neither stored nor deflated");
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

size_t zip_read_up_to(zip_file_t *file, void *to, size_t size) {
  size_t done = 0;
  while (done < size) {
    zip_int64_t bytes_read =
        libzip.zip_fread(file, (char *)to + done, (zip_uint64_t)(size - done));
    if (bytes_read <= 0)
      break;
    done += (size_t)bytes_read;
  }
  return done;
}

/* libzip compares checksums when it reads beyond the end. */
bool zip_is_at_end(zip_file_t *file) {
  char trailing_byte;
  return libzip.zip_fread(file, &trailing_byte, 1) == 0;
}
