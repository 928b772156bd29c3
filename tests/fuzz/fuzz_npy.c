/* Fuzzes the reader of .npy files: whatever the bytes, it returns a tensor or a
 * fault, allocates no more than the file can hold, and agrees with what it
 * says of the header.  Seeds: seeds/npy. */
#include "tests/fuzz/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  reader_load(&npy_format, data, size, (LoadOptions){0});
  return 0;
}
