/* ONNX models on the command line. */
#ifndef AXON_CLI_IMPORT_H
#define AXON_CLI_IMPORT_H

#include "cli/cli.h"
#include "onnx/import.h"

/* True for the name of an ONNX model. */
bool is_model_path(const char *path);
/* Reads a model as a program, for a check.  Returns -1, or an exit status after
 * a message.  The caller releases the weights.  checks_results: sizes that the
 * file states for results must be right. */
int read_model_program(Arena *arena, const Options *o, const char *path,
                       bool checks_results, ImportedModel *out);
/* Adds the names of nodes to the diagnostics about a program of such a model.
 */
void name_nodes(Arena *arena, Session *session, const char *path,
                const ImportedModel *model);
void release_weights(ImportedModel *model);

#endif
