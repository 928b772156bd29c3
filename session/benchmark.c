/* Benchmarks: expressions that are computed many times, to be timed.  Main
   entry points: session_benchmark_new and session_benchmark_run. */
#include "session/internal.h"
#include "support/arena.h"

struct Benchmark {
  const PreparedDec *prepared;
};

typedef struct BenchmarkRequest {
  const SourceInput *text;
  Benchmark *benchmark;
} BenchmarkRequest;

static bool is_one_expression(Session *s) {
  if (s->current_program.dec_count == 1 &&
      s->pending.at[s->pending.len - 1].result.is_bare_expression)
    return true;
  Span all = {s->current_file, 0,
              (uint32_t)sources_get(&s->sources, s->current_file)->len};
  session_error(s, 605, all, "expected exactly one expression");
  return false;
}

/* The last pending declaration is the expression.  Earlier ones are parts of it
   that run once. */
static SessionStatus make_benchmark(Session *s, void *arg) {
  BenchmarkRequest *request = arg;
  uint32_t file = session_add_source(s, request->text, (Span){0});
  if (!file || !session_check_source(s, file, s->main_module, true, true) ||
      !is_one_expression(s))
    return SESSION_ERROR;
  const CoreDec *dec = s->pending.at[--s->pending.len].core;
  SessionStatus status = session_run_pending(s);
  if (status != SESSION_OK)
    return status;
  Benchmark *benchmark = NEW(s->arena, Benchmark);
  benchmark->prepared = eval_prepare_dec(s->eval, dec, &s->diags);
  if (!benchmark->prepared || !eval_force_globals(s->eval, false, &s->diags))
    return SESSION_ERROR;
  request->benchmark = benchmark;
  return SESSION_OK;
}

Benchmark *session_benchmark_new(Session *s, const SourceInput *text,
                                 SessionStatus *status) {
  SourceInput copy = *text;
  BenchmarkRequest request = {.text = &copy};
  *status = session_protected_call(s, make_benchmark, &request);
  return request.benchmark;
}

static SessionStatus force_globals(Session *s, void *arg) {
  const bool *skip_inlined = arg;
  return eval_force_globals(s->eval, *skip_inlined, &s->diags) ? SESSION_OK
                                                               : SESSION_ERROR;
}

SessionStatus session_force_globals(Session *s, bool skip_inlined) {
  return session_protected_call(s, force_globals, &skip_inlined);
}

static SessionStatus run_benchmark(Session *s, void *arg) {
  const Benchmark *benchmark = arg;
  bool ok = eval_run_prepared(s->eval, benchmark->prepared, &s->diags);
  if (eval_exited(s->eval, &s->exit_status))
    return SESSION_EXITED;
  return ok ? SESSION_OK : SESSION_ERROR;
}

SessionStatus session_benchmark_run(Session *s, Benchmark *benchmark) {
  return session_protected_call(s, run_benchmark, benchmark);
}
