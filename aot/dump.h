/* Prints intermediate representations, for developers of Axon. */
#ifndef AXON_AOT_DUMP_H
#define AXON_AOT_DUMP_H

#include "session/session.h"

typedef struct Buffer Buffer;

typedef enum DumpStage {
  DUMP_NONE,
  DUMP_AST,   /* the syntax tree, as S-expressions */
  DUMP_CORE,  /* the typed program */
  DUMP_GRAPH, /* graphs of functions with symbolic sizes (aot/trace.h) */
  DUMP_COUNT,
} DumpStage;

/* DUMP_NONE if no stage has this name. */
DumpStage dump_stage_by_name(const char *name);
/* Appends the text of a stage to `out`, without running the program. entries:
 * the functions for DUMP_GRAPH; none: those of trace_entry_names. */
SessionStatus session_dump(Session *session, const SourceInput *text,
                           DumpStage stage, uint32_t entry_count,
                           const char *const *entries, Buffer *out);

#endif
