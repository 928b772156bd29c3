/* Fuzzes the reader of .safetensors files: whatever the bytes, it returns a
 * tensor or a fault, allocates no more than the file can hold, and agrees with
 * what it says of the header.  Seeds: seeds/safetensors. */
#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void load(const uint8_t *data, size_t size, LoadOptions options) {
  Input in = {.path = "fuzz.safetensors", .bytes = data, .size = size};
  Fault fault = {0};
  Header is;
  bool header = safetensors_format.header(&in, &options, &is, &fault);
  Tensor *t = safetensors_format.load(&in, &options, &fault);
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
  Input in = {.path = "fuzz", .bytes = data, .size = size};
  Fault fault = {0};
  Names names = {0};
  load(data, size, (LoadOptions){0});
  if (safetensors_format.names(&in, &names, &fault)) {
    const char *name = names.text;
    for (uint32_t i = 0; i < names.count && i < 4; i++) {
      if (*name)
        load(data, size, (LoadOptions){.name = name});
      name += strlen(name) + 1;
    }
  }
  names_free(&names);
  return 0;
}
