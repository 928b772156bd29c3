/* Fuzzes the reader of .csv files: whatever the bytes, it returns a tensor or a
 * fault, allocates no more than the file can hold, and agrees with what it
 * says of the header.  Seeds: seeds/csv. */
#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void load(const uint8_t *data, size_t size, LoadOptions options) {
  Input in = {.path = "fuzz.csv", .bytes = data, .size = size};
  Fault fault = {0};
  Header is;
  bool header = csv_format.header(&in, &options, &is, &fault);
  Tensor *t = csv_format.load(&in, &options, &fault);
  if (!t && !fault.message[0])
    abort();
  if (t && (!header || is.rank != t->rank ||
            memcmp(is.shape, t->shape, is.rank * sizeof *is.shape) != 0))
    abort();
  if (t) {
    Buffer text = {0};
    tensor_print(&text, t, 100, 80);
    buffer_free(&text);
  }
  tensor_release(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const Dtype types[] = {DT_NONE, DT_BOOL, DT_I64, DT_F16, DT_F64};
  for (size_t i = 0; i < ARRAY_LEN(types); i++)
    load(data, size, (LoadOptions){.want = types[i], .header = i == 0});
  return 0;
}
