/* onnx: functions as ONNX models.
 *
 * onnx_export traces a function, as `axon build` does (aot/trace.h), and writes
 * each node of the graph as operators of ONNX. */
#ifndef AXON_ONNX_EXPORT_H
#define AXON_ONNX_EXPORT_H

#include "session/session.h"

typedef struct Buffer Buffer;

typedef struct ExportRequest ExportRequest;
struct ExportRequest {
  const char *entry;      /* as for trace_function; NULL: the only function */
  const char *data_name;  /* name of the file with weights */
  bool has_external_data; /* weights are in this file in any case */
};

/* Appends the model.  Appends weights to `data` if they are external: on
 * request, or because the model would be too large for one message. */
SessionStatus onnx_export(Session *session, const SourceInput *text,
                          const ExportRequest *request, Buffer *model,
                          Buffer *data);

#endif
