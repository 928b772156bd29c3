/* axon plan: how a program's tensors are computed, kernel by kernel. */
#include "cli/plan.h"

#include "backend/cuda/cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct Planner {
  Options *options;
  Session *session;
  PlanLog log;
  PlanStyle style;
} Planner;

/* What the program prints is not what was asked for. */
static void write_nothing(void *owner, const char *text, size_t len) {
  (void)owner, (void)text, (void)len;
}

static bool show_nothing(void *owner, const Tensor *t, const char *kind,
                         const char *file, int64_t size, Fault *fault) {
  (void)owner, (void)t, (void)kind, (void)file, (void)size, (void)fault;
  return true;
}

/* A bare expression is computed, as if it were printed. */
static void compute_value(void *owner, Session *session, const Ran *ran) {
  (void)owner;
  if (!ran->bare || !ran->binding_count)
    return;
  Buffer text = {0};
  session_binding_text(session, ran->bindings[0], &text);
  buffer_free(&text);
}

static SessionStatus run_text(Planner *p, const SessionText *text, bool last,
                              int *code) {
  SessionStatus status = session_check(p->session, text);
  host_report(p->session, p->options->quiet);
  host_note_defines(p->session, p->options);
  if (status == SESSION_OK && last && !host_defines_met(p->options)) {
    *code = EXIT_DIAGNOSTICS;
    return SESSION_ERROR;
  }
  return status == SESSION_OK ? session_run(p->session) : status;
}

/* What the program has made and never needed is computed at the end: whoever
 * writes `val y = softmax x` wants to see its plan.  Before expressions, all
 * is: they find it in memory. */
static SessionStatus run_file(Planner *p, int *code) {
  const Options *o = p->options;
  SessionText text = {0};
  Buffer program = {0};
  if (!o->arg_count)
    return SESSION_OK;
  SessionStatus status = SESSION_ERROR;
  if (host_text(o->args[0], &text, &program))
    status = run_text(p, &text, !o->expr_count, code);
  p->log.extra = true;
  if (status == SESSION_OK)
    status = session_settle(p->session, !o->expr_count);
  p->log.extra = false;
  buffer_free(&program);
  return status;
}

static void hear_nothing(void *owner, const Planned *planned) {
  (void)owner, (void)planned;
}
static void hear_no_turn(void *owner) {
  (void)owner;
}

static bool hear_no_time(void *owner, uint32_t at, double seconds) {
  (void)owner, (void)at, (void)seconds;
  return false;
}

/* With expressions, these alone are looked at; but nothing runs on a GPU that
 * is elsewhere. */
static SessionStatus run_all(Planner *p, int *code) {
  static const PlanWatch deaf = {NULL, hear_nothing, hear_no_time,
                                hear_no_turn, true};
  const Options *o = p->options;
  if (!o->expr_count)
    session_watch(p->session, &p->log.watch);
  else if (p->style.arch)
    session_watch(p->session, &deaf);
  SessionStatus status = run_file(p, code);
  session_watch(p->session, &p->log.watch);
  for (uint32_t i = 0; i < o->expr_count && status == SESSION_OK; i++) {
    SessionText text = {.name = "-e", .text = o->exprs[i], .bare = true};
    text.len = strlen(text.text);
    status = run_text(p, &text, i + 1 == o->expr_count, code);
  }
  session_watch(p->session, NULL);
  return status;
}

static uint32_t kernel_count(const PlanLog *log) {
  uint32_t count = 0;
  for (uint32_t j = 0; j < log->runs.len; j++)
    count += log->runs.at[j]->kernels.len;
  return count;
}

static void put_plan(const PlanLog *log, const PlanStyle *style, bool json) {
  Buffer out = {0};
  if (json)
    plan_json(&out, log, style);
  else if (!log->runs.len)
    buffer_puts(&out, "no tensors are computed\n");
  else
    plan_text(&out, log, style);
  host_hide_bar();
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
  return usage_error("plan", "--kernel wants a number, as 2, not `%s`", text);
}

static SessionHost host_of(const Options *o) {
  int count = o->arg_count > 1 ? o->arg_count - 1 : 0;
  SessionHost host = host_terminal(count, o->args + 1);
  host.eval.write = write_nothing;
  host.eval.show = show_nothing;
  host.ran = compute_value;
  return host;
}

static int finish(Planner *p, SessionStatus status, int code) {
  uint32_t count = kernel_count(&p->log);
  if (p->style.kernel > count && status == SESSION_OK)
    code = usage_error("plan", "there is no kernel %lld: there %s %u",
                       (long long)p->style.kernel, count == 1 ? "is" : "are",
                       count);
  else if (count || status == SESSION_OK)
    put_plan(&p->log, &p->style, p->options->json);
  int end = host_finish(p->session, status, p->options->quiet);
  return code ? code : end;
}

/* For a GPU that is named, or where there is none: planned, and not run. */
static const char *paper_of(const Options *o) {
  const char *target = getenv("AXON_TARGET");
  Fault ignored = {0};
  if (o->arch || (target && strcmp(target, "cuda") == 0 &&
                  !cuda_usable(&ignored))) {
    const char *arch = o->arch ? o->arch : cuda_archs[0];
    cuda_plan_for(arch);
    return arch;
  }
  return NULL;
}

int verb_plan(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "plan", "eqDjtCkyb", argc, argv);
  if (status >= 0)
    return status;
  if (!o.arg_count && !o.expr_count)
    return usage_error("plan", "which file?");
  Planner p = {.options = &o};
  if (o.kernel && (status = read_kernel(o.kernel, &p.style.kernel)) >= 0)
    return status;
  p.style.colour = host_colour_out() && !o.json;
  p.style.stable = o.stable;
  p.style.code = o.code;
  p.style.arch = paper_of(&o);
  p.style.dry = o.dry || p.style.arch;
  SessionHost host = host_of(&o);
  p.session = host_open(&host);
  host_catch_interrupt(p.session, false);
  host_apply_defines(p.session, &o);
  plan_listen(&p.log, p.session, o.code, p.style.dry);
  int code = 0;
  SessionStatus ended = run_all(&p, &code);
  status = finish(&p, ended, code);
  plan_forget(&p.log);
  session_close(p.session);
  return status;
}

void plan_while(Session *session, bool stable, void (*f)(void *), void *arg) {
  PlanLog log = {.code = false};
  plan_listen(&log, session, false, false);
  session_watch(session, &log.watch);
  f(arg);
  session_watch(session, NULL);
  PlanStyle style = {.colour = host_colour_out(), .stable = stable};
  put_plan(&log, &style, false);
  plan_forget(&log);
}
