/* What a stage of the pipeline makes of a text, for those who work on Axon. */
#include "session/internal.h"
#include "session/trace.h"

#include <string.h>

static const char *const stages[] = {
    [DUMP_TREE] = "tree",
    [DUMP_CORE] = "core",
    [DUMP_GRAPH] = "graph",
};

DumpStage dump_stage(const char *name) {
  for (size_t i = 1; i < ARRAY_LEN(stages); i++)
    if (strcmp(stages[i], name) == 0)
      return (DumpStage)i;
  return DUMP_NONE;
}

typedef struct Dumping {
  const SessionText *text;
  DumpStage stage;
  uint32_t entry_count;
  const char *const *entries;
  Buffer *out;
} Dumping;

static SessionStatus dump_tree(Session *s, const Dumping *d) {
  uint32_t file = session_add_text(s, d->text, (Span){0});
  if (!file)
    return SESSION_ERROR;
  Program program = parse_program(&s->sources, file, d->text->bare,
                                  s->interner, s->arena, &s->diags);
  ast_dump(d->out, &program);
  return s->diags.errors ? SESSION_ERROR : SESSION_OK;
}

static SessionStatus dump_core(Session *s, const Dumping *d) {
  SessionStatus status = session_check(s, d->text);
  for (uint32_t i = 0; status == SESSION_OK && i < s->waiting.len; i++)
    if (s->waiting.at[i].core)
      core_print(&s->dims, d->out, s->waiting.at[i].core);
  session_drop_waiting(s);
  return status;
}

static SessionStatus dump_graph(Session *s, const Dumping *d) {
  SessionStatus status = session_check(s, d->text);
  EntryNames names = {.arena = s->arena};
  if (status == SESSION_OK)
    names = session_entries(s, d->entry_count, d->entries);
  for (uint32_t i = 0; status == SESSION_OK && i < names.at.len; i++) {
    Trace trace;
    status = session_trace(s, names.at.at[i], &trace);
    if (status != SESSION_OK)
      break;
    trace_print(&trace, d->out);
    trace_free(s, &trace);
  }
  session_drop_waiting(s);
  return status;
}

static SessionStatus dump(Session *s, void *arg) {
  const Dumping *d = arg;
  switch (d->stage) {
  case DUMP_TREE: return dump_tree(s, d);
  case DUMP_CORE: return dump_core(s, d);
  case DUMP_GRAPH: return dump_graph(s, d);
  case DUMP_NONE:
  case DUMP_COUNT: break;
  }
  return SESSION_ERROR;
}

SessionStatus session_dump(Session *s, const SessionText *text,
                           DumpStage stage, uint32_t entry_count,
                           const char *const *entries, Buffer *out) {
  Dumping d = {text, stage, entry_count, entries, out};
  return session_guard(s, dump, &d);
}
