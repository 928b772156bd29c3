/* What the fuzzers of readers share: one load of the bytes, whatever they are.
 * Nothing here is owned by anybody: what is loaded is released. */
#ifndef AXON_TESTS_FUZZ_READER_H
#define AXON_TESTS_FUZZ_READER_H

#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"
#include "support/buffer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void reader_load(const FileFormat *format, const uint8_t *data,
                               size_t size, LoadOptions options) {
  InputFile in = {.path = "fuzz", .bytes = data, .size = size};
  Fault fault = {0};
  TensorHeader is;
  bool header = format->read_header(&in, &options, &is, &fault);
  Tensor *t = format->load(&in, &options, &fault);
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

#endif
