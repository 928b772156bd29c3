/* axon dump: prints a program after a stage of the pipeline.  The stages of
   kernels are those of axon plan, without running kernels.  Main entry point:
   verb_dump. */
#include "aot/dump.h"
#include "cli/cli.h"
#include "support/buffer.h"

int verb_dump(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "dump", "gDE", argc, argv);
  if (status >= 0)
    return status;
  if (o.arg_count != 1)
    return usage_error("dump", "no file given");
  DumpStage stage = o.stage ? dump_stage_by_name(o.stage) : DUMP_CORE;
  if (o.entry_count && stage != DUMP_GRAPH)
    return usage_error("dump", "--entry is for --stage=graph: leave it out");
  if (stage == DUMP_NONE && plan_has_stage(o.stage)) {
    o.dry_run = true;
    return plan_print(&o, 0);
  }
  if (stage == DUMP_NONE)
    return usage_error("dump",
                       "--stage must be tree, core or graph, or for kernels "
                       "specs, facts, schedule, nest, nest:K, lowered or code; "
                       "found `%s`",
                       o.stage);
  SessionHost host = terminal_host(0, NULL);
  Session *session = terminal_open_session(&host);
  terminal_apply_defines(session, &o);
  SourceInput text = {.is_separate_module = stage != DUMP_GRAPH};
  Buffer program = {0}, out = {0};
  bool ok = read_program_argument(o.args[0], &text, &program) &&
            session_dump(session, &text, stage, o.entry_count, o.entries,
                         &out) == SESSION_OK;
  terminal_match_defines(session, &o);
  if (out.len > 0)
    fwrite(out.text, 1, out.len, stdout);
  terminal_report(session, false);
  ok = ok && terminal_defines_matched(&o);
  session_close(session);
  buffer_free(&program);
  buffer_free(&out);
  return terminal_flush(ok ? EXIT_OK : EXIT_DIAGNOSTICS);
}
