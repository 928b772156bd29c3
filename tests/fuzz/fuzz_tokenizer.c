/* Fuzzes the readers of tokenizers: whatever the bytes, they make a tokenizer
 * or a fault, and the tokenizer encodes and decodes without an error of the
 * sanitizers.  Seeds: seeds/tokenizer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/tokenizer.h"
#include "support/buffer.h"
#include "support/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(int64_t id) {
  static const char text[] =
      "Hello, w\xc3\xb6rld  12 \xe4\xbd\xa0<|x|> don't\n";
  Fault fault = {0};
  TokenIds ids = {0};
  Buffer out = {0};
  if (tokenizer_encode(id, text, sizeof text - 1, true, &ids, &fault))
    tokenizer_decode(id, ids.at, ids.count, true, &out, &fault);
  buffer_free(&out);
  mem_free(ids.at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static char path[64];
  bool is_gguf = size >= 4 && memcmp(data, "GGUF", 4) == 0;
  Fault fault = {0};
  snprintf(path, sizeof path, "/tmp/fuzz_tokenizer_%d.%s", (int)getpid(),
           is_gguf ? "gguf" : "json");
  FILE *f = fopen(path, "wb");
  if (!f)
    abort();
  fwrite(data, 1, size, f);
  fclose(f);
  int64_t id = tokenizer_open(path, &fault);
  unlink(path);
  if (id < 0 && !fault.message[0])
    abort();
  if (id >= 0)
    use(id);
  tokenizer_close(id);
  return 0;
}
