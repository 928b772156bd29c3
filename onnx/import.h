/* onnx: ONNX models as programs.
 *
 * onnx_import reads a model and writes the text of a program.  The graph is
 * walked once.  Each value has an element type and a shape of polynomials
 * (size/dim.h).  Integers that are known as polynomials, such as the results of
 * `Shape`, are no part of the program, but of the sizes in it. */
#ifndef AXON_ONNX_IMPORT_H
#define AXON_ONNX_IMPORT_H

#include "runtime/runtime.h"

typedef struct Arena Arena;
typedef struct Buffer Buffer;

typedef struct ImportSetting { /* --set NAME=VALUES */
  const char *name;
  const int64_t *values;
  uint32_t count;
  bool is_list; /* else one number, without axes */
  bool used;
} ImportSetting;

typedef struct ImportRequest {
  const char *model_name;   /* for the comment at the top */
  const char *weights_path; /* as `load` in the program names it */
  const char *source_dir;   /* folder of the model: external data */
  bool is_check; /* a program to check: weights are zeros of their types */
  bool
      checks_results; /* sizes that the file states for results must be right */
  ImportSetting *settings;
  uint32_t setting_count;
} ImportRequest;

typedef struct ImportedStatement {
  uint32_t start;   /* offset in the program */
  const char *node; /* "the node `fc` (Gemm)" */
} ImportedStatement;

typedef struct ImportedModel {
  const char *program;
  const ImportedStatement *statements; /* if is_check: those of `model` */
  uint32_t statement_count;
  const char *const *weight_names;
  Tensor *const *weights; /* owned by the caller: tensor_free */
  uint32_t weight_count;
  const char *const *undetermined; /* what the file leaves open */
  uint32_t undetermined_count;
} ImportedModel;

Arena *import_arena_new(void);
void import_arena_free(Arena *arena);

/* Everything lies in the arena.  Returns false with a fault. */
bool onnx_import(Arena *arena, const void *bytes, size_t len,
                 const ImportRequest *request, ImportedModel *out,
                 Fault *fault);

#endif
