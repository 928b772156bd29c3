/* Fuzzes the importer of ONNX models: whatever the bytes, it returns a program
 * and its weights, or a fault.  Seeds: seeds/onnx. */
#include "onnx/import.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  int64_t values[] = {2, 3};
  ImportSetting settings[] = {
      {.name = "n", .values = values, .count = 1},
      {.name = "target", .values = values, .count = 2, .is_list = true},
  };
  Arena *arena = import_arena_new();
  for (uint32_t run = 0; run < 4; run++) {
    ImportRequest request = {.model_name = "fuzz.onnx",
                             .weights_path = "fuzz.safetensors",
                             .source_dir = ".",
                             .is_check = run / 2,
                             .checks_results = run / 2,
                             .settings = settings,
                             .setting_count = run % 2 * 2};
    ImportedModel model = {0};
    Fault fault = {0};
    bool ok = onnx_import(arena, data, size, &request, &model, &fault);
    if (ok ? !model.program || !strstr(model.program, "fun model")
           : !fault.message[0])
      abort();
    for (uint32_t k = 0; k < model.statement_count; k++)
      if (strncmp(model.program + model.statements[k].start, "    val ", 8))
        abort();
    for (uint32_t k = 0; k < model.weight_count; k++)
      tensor_release(model.weights[k]);
  }
  import_arena_free(arena);
  return 0;
}
