/* ONNX models on the command line. */
#ifndef AXON_CLI_IMPORT_H
#define AXON_CLI_IMPORT_H

#include "cli/cli.h"
#include "onnx/import.h"

/* True for the name of an ONNX model. */
bool is_model_path(const char *path);
/* Reads a model as a program, for a check.  Returns false, with a message, if
 * that fails.  The caller releases the weights. */
bool read_model_program(Arena *arena, const Options *o, const char *path,
                        ImportedModel *out);
void release_weights(ImportedModel *model);

#endif
