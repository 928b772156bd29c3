/* Fuzzes the reader of files of torch.save: whatever the bytes, it returns a
 * tensor or a fault, allocates no more than the file can hold, and agrees with
 * what it says of the header.  Seeds: seeds/pth. */
#include "tests/fuzz/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  InputFile in = {.path = "fuzz", .bytes = data, .size = size};
  Fault fault = {0};
  EntryNames names = {0};
  reader_load(&pth_format, data, size, (LoadOptions){0});
  if (pth_format.list_names(&in, &names, &fault)) {
    const char *name = names.text;
    for (uint32_t i = 0; i < names.count && i < 4; i++) {
      if (*name)
        reader_load(&pth_format, data, size, (LoadOptions){.name = name});
      name += strlen(name) + 1;
    }
  }
  names_free(&names);
  return 0;
}
