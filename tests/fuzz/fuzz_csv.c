/* Fuzzes the reader of .csv files: whatever the bytes, it returns a tensor or a
 * fault, allocates no more than the file can hold, and agrees with what it
 * says of the header.  Seeds: seeds/csv. */
#include "tests/fuzz/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const Dtype types[] = {DT_NONE, DT_BOOL, DT_I64, DT_F16, DT_F64};
  for (size_t i = 0; i < ARRAY_LEN(types); i++)
    reader_load(&csv_format, data, size,
                (LoadOptions){.dtype = types[i], .skip_header = i == 0});
  return 0;
}
