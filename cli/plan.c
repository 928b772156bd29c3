/* axon plan: shows the kernels that compute a program's tensors.  Main entry
   point: verb_plan. */
#include "cli/cli.h"
#include "plan_report/plan_report.h"

#include "backend/cpu/jit.h"
#include "backend/cuda/cuda.h"
#include "support/buffer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NEST_STEPS = 1000 };

typedef struct Planner {
  Options *options;
  Session *session;
  PlanRecorder recorder;
  PlanStyle style;
} Planner;

/* Discards the output of the program. */
static void discard_output(void *owner, const char *text, size_t len) {
  (void)owner, (void)text, (void)len;
}

static bool discard_show(void *owner, const Tensor *t, const char *file,
                         int64_t size, Fault *fault) {
  (void)owner, (void)t, (void)file, (void)size, (void)fault;
  return true;
}

/* Computes a bare expression as if it were printed. */
static void compute_value(void *owner, Session *session,
                          const DeclResult *ran) {
  (void)owner;
  if (!ran->is_bare_expression || !ran->binding_count)
    return;
  Buffer text = {0};
  session_binding_text(session, ran->bindings[0], &text);
  buffer_free(&text);
}

static SessionStatus run_text(Planner *p, const SourceInput *text, bool last,
                              int *code) {
  SessionStatus status = session_check(p->session, text);
  terminal_report(p->session, p->options->quiet);
  terminal_match_defines(p->session, p->options);
  if (status == SESSION_OK && last && !terminal_defines_matched(p->options)) {
    *code = EXIT_DIAGNOSTICS;
    return SESSION_ERROR;
  }
  return status == SESSION_OK ? session_run(p->session) : status;
}

/* Values that the program made but never needed are computed at the end, so
   that `val y = softmax x` shows a plan.  If expressions are given, all values
   are computed before them. */
static SessionStatus run_file(Planner *p, int *code) {
  const Options *o = p->options;
  SourceInput text = {0};
  Buffer program = {0};
  if (!o->arg_count)
    return SESSION_OK;
  SessionStatus status = SESSION_ERROR;
  if (read_program_argument(o->args[0], &text, &program))
    status = run_text(p, &text, !o->expr_count, code);
  p->recorder.unused_by_program = true;
  if (status == SESSION_OK)
    status = session_force_globals(p->session, !o->expr_count);
  p->recorder.unused_by_program = false;
  buffer_free(&program);
  return status;
}

static void ignore_planned(void *owner, const PlanSummary *planned) {
  (void)owner, (void)planned;
}
static void ignore_again(void *owner) {
  (void)owner;
}

static bool ignore_ran(void *owner, uint32_t at, double seconds) {
  (void)owner, (void)at, (void)seconds;
  return false;
}

/* If expressions are given, shows only their plans.  Nothing runs on the GPU of
   another machine. */
static SessionStatus run_all(Planner *p, int *code) {
  static const PlanObserver ignore_all = {NULL, ignore_planned, ignore_ran,
                                          ignore_again, true};
  const Options *o = p->options;
  if (!o->expr_count)
    session_set_observer(p->session, &p->recorder.observer);
  else if (p->style.arch)
    session_set_observer(p->session, &ignore_all);
  SessionStatus status = run_file(p, code);
  session_set_observer(p->session, &p->recorder.observer);
  for (uint32_t i = 0; i < o->expr_count && status == SESSION_OK; i++) {
    SourceInput text = {
        .name = "-e", .text = o->exprs[i], .allow_bare_expressions = true};
    text.len = strlen(text.text);
    status = run_text(p, &text, i + 1 == o->expr_count, code);
  }
  session_set_observer(p->session, NULL);
  return status;
}

static uint32_t kernel_count(const PlanRecorder *recorder) {
  uint32_t count = 0;
  for (uint32_t j = 0; j < recorder->runs.len; j++)
    count += recorder->runs.at[j]->kernels.len;
  return count;
}

static void put_plan(const PlanRecorder *recorder, const PlanStyle *style,
                     bool json) {
  Buffer out = {0};
  if (json)
    plan_json(&out, recorder, style);
  else if (style->with_schedule || style->with_stage)
    plan_schedules(&out, recorder, style);
  else
    plan_text(&out, recorder, style);
  terminal_hide_progress();
  if (out.text)
    fwrite(out.text, 1, out.len, stdout);
  buffer_free(&out);
}

static int read_kernel(const char *text, int64_t *out) {
  char *end;
  errno = 0;
  *out = strtoll(text, &end, 10);
  if (end != text && !*end && !errno && *out > 0)
    return -1;
  return usage_error("plan", "--kernel needs a number such as 2; found `%s`",
                     text);
}

static const struct {
  const char *name;
  PlanStage stage;
} stages[] = {{"specs", PLAN_SPECS},       {"facts", PLAN_FACTS},
              {"schedule", PLAN_SCHEDULE}, {"nest", PLAN_NESTS},
              {"lowered", PLAN_LOWERED},   {"code", PLAN_CODE}};

/* Reads "nest:K". */
static bool read_steps(const char *text, StageChoice *to) {
  char *end = NULL;
  if (strncmp(text, "nest:", 5) != 0 || text[5] < '0' || text[5] > '9')
    return false;
  unsigned long steps = strtoul(text + 5, &end, 10);
  *to = (StageChoice){PLAN_NESTS, (uint32_t)steps};
  return !*end && steps <= MAX_NEST_STEPS;
}

static bool read_stage(const char *text, StageChoice *to) {
  for (size_t j = 0; j < ARRAY_LEN(stages); j++)
    if (strcmp(text, stages[j].name) == 0) {
      *to = (StageChoice){stages[j].stage, MAX_NEST_STEPS};
      return true;
    }
  return read_steps(text, to);
}

bool plan_has_stage(const char *text) {
  StageChoice ignored;
  return read_stage(text, &ignored);
}

static SessionHost host_of(const Options *o) {
  int count = o->arg_count > 1 ? o->arg_count - 1 : 0;
  SessionHost host = terminal_host(count, o->args + 1);
  host.eval.write = discard_output;
  host.eval.show = discard_show;
  host.on_executed = compute_value;
  return host;
}

static int finish(Planner *p, SessionStatus status, int code) {
  uint32_t count = kernel_count(&p->recorder);
  if (p->style.only_kernel > count && status == SESSION_OK)
    code = usage_error("plan", "there is no kernel %lld: there %s %u",
                       (long long)p->style.only_kernel,
                       count == 1 ? "is" : "are", count);
  else if (count || status == SESSION_OK)
    put_plan(&p->recorder, &p->style, p->options->json);
  int end = terminal_finish(p->session, status, p->options->quiet);
  Buffer unused = {0};
  if (end == EXIT_OK && !p->options->quiet)
    session_put_unused_schedules(p->session, &unused);
  if (unused.text)
    fputs(unused.text, stderr);
  buffer_free(&unused);
  return code ? code : end;
}

/* The architecture, if a GPU is named or missing: then plans without
   running. */
static const char *absent_gpu_arch(const Options *o) {
  const char *target = getenv("AXON_TARGET");
  Fault ignored = {0};
  if (o->gpu_arch ||
      (target && strcmp(target, "cuda") == 0 && !cuda_is_usable(&ignored))) {
    const char *arch = o->gpu_arch ? o->gpu_arch : cuda_archs[0];
    cuda_plan_for(arch);
    return arch;
  }
  return NULL;
}

int plan_print(Options *o, int64_t only_kernel) {
  jit_optimize_always();
  Planner p = {.options = o, .style.only_kernel = only_kernel};
  StageChoice shown = {PLAN_NO_STAGE, 0};
  if (o->stage && !read_stage(o->stage, &shown))
    return usage_error("plan",
                       "--stage must be specs, facts, schedule, nest, nest:K "
                       "for K steps of a schedule, lowered or code; found "
                       "`%s`",
                       o->stage);
  p.style.with_stage = o->stage != NULL;
  p.style.colour = terminal_colours_stdout() && !o->json;
  p.style.stable = o->stable;
  p.style.with_code = o->show_code;
  p.style.with_schedule = o->show_schedule;
  p.style.arch = absent_gpu_arch(o);
  p.style.dry_run = o->dry_run || p.style.arch;
  SessionHost host = host_of(o);
  p.session = terminal_open_session(&host);
  terminal_catch_interrupt(p.session, false);
  terminal_apply_defines(p.session, o);
  plan_recorder_init(&p.recorder, p.session, o->show_code, p.style.dry_run);
  p.recorder.shown = shown;
  int code = 0;
  SessionStatus ended = run_all(&p, &code);
  int status = finish(&p, ended, code);
  plan_recorder_free(&p.recorder);
  session_close(p.session);
  return status;
}

int verb_plan(int argc, char **argv) {
  Options o;
  int64_t only_kernel = 0;
  int status = options_parse(&o, "plan", "eqDjtCkybdfg", argc, argv);
  if (status >= 0)
    return status;
  if (!o.arg_count && !o.expr_count)
    return usage_error("plan", "no file given");
  if (o.kernel_number &&
      (status = read_kernel(o.kernel_number, &only_kernel)) >= 0)
    return status;
  return plan_print(&o, only_kernel);
}
