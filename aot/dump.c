#include "aot/dump.h"
#include "aot/trace.h"
#include "session/state.h"

#include <string.h>

static const char *const stages[] = {
    [DUMP_AST] = "tree",
    [DUMP_CORE] = "core",
    [DUMP_GRAPH] = "graph",
};

DumpStage dump_stage_by_name(const char *name) {
  for (size_t i = 1; i < ARRAY_LEN(stages); i++)
    if (strcmp(stages[i], name) == 0)
      return (DumpStage)i;
  return DUMP_NONE;
}

typedef struct DumpRequest {
  const SourceInput *text;
  DumpStage stage;
  uint32_t entry_count;
  const char *const *entries;
  Buffer *out;
} DumpRequest;

static SessionStatus dump_tree(Session *s, const DumpRequest *d) {
  uint32_t file = session_add_source(s, d->text, (Span){0});
  if (!file)
    return SESSION_ERROR;
  Program program =
      parse_program(&s->sources, file, d->text->allow_bare_expressions,
                    s->interner, s->arena, &s->diags);
  ast_dump(d->out, &program);
  return s->diags.errors ? SESSION_ERROR : SESSION_OK;
}

static SessionStatus dump_core(Session *s, const DumpRequest *d) {
  SessionStatus status = session_check(s, d->text);
  for (uint32_t i = 0; status == SESSION_OK && i < s->pending.len; i++)
    if (s->pending.at[i].core)
      core_print(&s->dims, d->out, s->pending.at[i].core);
  session_discard_pending(s);
  return status;
}

static SessionStatus dump_graph(Session *s, const DumpRequest *d) {
  SessionStatus status = session_check(s, d->text);
  EntryNames names = {.arena = s->arena};
  if (status == SESSION_OK)
    names = trace_entry_names(s, d->entry_count, d->entries);
  for (uint32_t i = 0; status == SESSION_OK && i < names.names.len; i++) {
    Trace trace;
    status = trace_function(s, names.names.at[i], &trace);
    if (status != SESSION_OK)
      break;
    trace_print(&trace, d->out);
    trace_free(s, &trace);
  }
  session_discard_pending(s);
  return status;
}

static SessionStatus dump(Session *s, void *arg) {
  const DumpRequest *d = arg;
  switch (d->stage) {
  case DUMP_AST:
    return dump_tree(s, d);
  case DUMP_CORE:
    return dump_core(s, d);
  case DUMP_GRAPH:
    return dump_graph(s, d);
  case DUMP_NONE:
  case DUMP_COUNT:
    break;
  }
  return SESSION_ERROR;
}

SessionStatus session_dump(Session *s, const SourceInput *text, DumpStage stage,
                           uint32_t entry_count, const char *const *entries,
                           Buffer *out) {
  DumpRequest d = {text, stage, entry_count, entries, out};
  return session_protected_call(s, dump, &d);
}
