/* zip: libzip, the library for zip archives.  It is loaded at first use.  Its
 * functions are called through the table `libzip`.
 *
 *   zip_t *zip = zip_open_input(&in, &fault);
 *   uint64_t packed;
 *   size_t size;
 *   if (zip_check_entry(&in, zip, 0, &size, &packed, &fault)) ...
 *   libzip.zip_discard(zip);
 *
 * Before anything is allocated, the stated size of an entry is checked against
 * what its compressed bytes can hold. */
#ifndef AXON_RUNTIME_ZIP_ARCHIVE_H
#define AXON_RUNTIME_ZIP_ARCHIVE_H

#include <zip.h>

#include "runtime/internal.h"

#define ZIP_FUNCTIONS(F)        \
  F(zip_open_from_source)       \
  F(zip_open)                   \
  F(zip_close)                  \
  F(zip_discard)                \
  F(zip_fclose)                 \
  F(zip_fopen_index)            \
  F(zip_fread)                  \
  F(zip_get_num_entries)        \
  F(zip_get_name)               \
  F(zip_name_locate)            \
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

#define ZIP_POINTER(name) __typeof__(&name) name;
typedef struct LibZip {
  ZIP_FUNCTIONS(ZIP_POINTER)
} LibZip;
extern LibZip libzip;

/* Loads the library.  Returns false with a fault that names the package. */
bool zip_load_library(Fault *fault);

/* Opens the bytes of a file.  Returns NULL with a fault.  libzip.zip_discard
 * closes the archive. */
zip_t *zip_open_input(const InputFile *in, Fault *fault);
/* Checks the stated sizes of an entry, unpacked and compressed. */
bool zip_check_entry(const InputFile *in, zip_t *zip, uint64_t entry_index,
                     size_t *size, size_t *compressed_bytes, Fault *fault);
/* Returns the number of bytes read: fewer than `size` at the end, or if the
 * entry is damaged. */
size_t zip_read_up_to(zip_file_t *file, void *to, size_t size);
/* True at the end of an entry with the right checksum. */
bool zip_is_at_end(zip_file_t *file);

#endif
