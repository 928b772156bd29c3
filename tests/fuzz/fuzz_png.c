/* Fuzzes the reader of .png files: whatever the bytes, it returns a tensor or a
 * fault, allocates no more than the file can hold, and agrees with what it
 * says of the header.  Seeds: seeds/png. */
#include "tests/fuzz/reader.h"

static uint32_t crc(const uint8_t *at, size_t len) {
  uint32_t c = ~0u;
  for (size_t i = 0; i < len; i++) {
    c ^= at[i];
    for (int k = 0; k < 8; k++)
      c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
  }
  return ~c;
}

/* Makes the checksums right: else libpng would stop at the first chunk. */
static void fix_crcs(uint8_t *png, size_t size) {
  for (size_t at = 8; at + 12 <= size;) {
    uint32_t len = (uint32_t)png[at] << 24 | (uint32_t)png[at + 1] << 16 |
                   (uint32_t)png[at + 2] << 8 | png[at + 3];
    if (len > size - at - 12)
      return;
    uint32_t sum = crc(png + at + 4, len + 4);
    for (size_t i = 0; i < 4; i++)
      png[at + 8 + len + i] = (uint8_t)(sum >> (24 - 8 * i));
    at += len + 12;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t *copy = malloc(size + 1);
  if (!copy)
    return 0;
  memcpy(copy, data, size);
  reader_load(&png_format, copy, size, (LoadOptions){0});
  fix_crcs(copy, size);
  reader_load(&png_format, copy, size, (LoadOptions){0});
  free(copy);
  return 0;
}
