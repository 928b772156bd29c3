/* axon bench: measures the time of functions and expressions of a program.
   Main entry point: verb_bench. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include "plan_report/plan_report.h"

#include "backend/cpu/jit.h"
#include "backend/cuda/cuda.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/clock.h"
#include "support/intern.h"
#include "support/json_writer.h"
#include "support/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/thread_pool.h"

/* A sample is the mean of as many runs as make the cost of reading the clock
   negligible.  Samples are taken for the requested time: longer while the
   median is imprecise, shorter if one takes very long. */
enum {
  WARMUP_RUNS = 3,
  MIN_SAMPLES = 5,
  MAX_SAMPLES = 100 * 1000,
  MAX_EXTENSION = 4
};
static const double min_sample_seconds = 20e-6; /* seconds */
/* relative standard error of the median */
static const double max_standard_error = 0.01;

typedef struct Timing {
  double first; /* seconds of the first run, including compilation */
  double median, min, lower_quartile,
      upper_quartile; /* seconds of a run: median and quartiles */
  int64_t runs;
} Timing;

typedef struct WorkCount { /* work of a run, if its kernels cover all of it */
  bool known;
  double operations, bytes; /* operations and bytes, as axon plan counts them */
  double roofline_seconds;  /* lower bound in seconds by the roofline model */
} WorkCount;

typedef struct BenchRow {
  const char *name;
  const char *text; /* the expression */
  Timing timing;
  WorkCount work;
  const char *error; /* NULL if it was timed */
} BenchRow;

typedef struct BenchRun {
  Options *options;
  Session *session;
  Arena *arena;    /* holds the rows */
  double *samples; /* MAX_SAMPLES elements */
  VEC(BenchRow) rows;
  double min_seconds; /* seconds */
  bool gpu_clock;     /* runs are timed by the GPU's clock */
  bool is_warm;       /* the first run, with compilation, is over */
  SessionStatus status;
} BenchRun;

/* ---- timing ---- */

/* Time of one run by the GPU's clock. */
static double time_on_gpu(BenchRun *b, Benchmark *repeated) {
  double seconds = 0;
  Fault fault = {0};
  bool good = cuda_timer_begin(&fault);
  if (good)
    b->status = session_benchmark_run(b->session, repeated);
  good = good && b->status == SESSION_OK && cuda_timer_end(&seconds, &fault);
  if (*fault.message)
    fprintf(stderr, "axon bench: %s\n", fault.message);
  if (!good && b->status == SESSION_OK)
    b->status = SESSION_ERROR;
  return good ? seconds : -1;
}

/* Seconds per run; negative on failure. */
static double time_runs(BenchRun *b, Benchmark *repeated, int64_t count) {
  if (b->gpu_clock && b->is_warm)
    return time_on_gpu(b, repeated);
  double start = clock_seconds();
  for (int64_t i = 0; i < count; i++) {
    b->status = session_benchmark_run(b->session, repeated);
    if (b->status != SESSION_OK)
      return -1;
  }
  return (clock_seconds() - start) / (double)count;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void compute_statistics(Timing *t, double *samples, size_t count) {
  qsort(samples, count, sizeof *samples, by_size);
  t->min = samples[0];
  t->lower_quartile = samples[count / 4];
  t->median = count % 2 ? samples[count / 2]
                        : 0.5 * (samples[count / 2 - 1] + samples[count / 2]);
  t->upper_quartile = samples[count - 1 - count / 4];
}

/* For normally distributed samples, the standard error of the median is about
   0.93 quartile distances divided by the root of their number. */
static bool is_precise(const Timing *t, size_t count) {
  return 0.93 * (t->upper_quartile - t->lower_quartile) <
         max_standard_error * t->median * sqrt((double)count);
}

static bool has_enough_samples(const BenchRun *b, Timing *t, double *samples,
                               size_t count, double elapsed) {
  if (count == MAX_SAMPLES)
    return true;
  if (count < MIN_SAMPLES)
    return elapsed > MAX_EXTENSION * b->min_seconds;
  if (elapsed < b->min_seconds)
    return false;
  compute_statistics(t, samples, count);
  return elapsed > MAX_EXTENSION * b->min_seconds || is_precise(t, count);
}

static bool take_samples(BenchRun *b, Benchmark *repeated, Timing *t) {
  double *samples = b->samples;
  double run_seconds = time_runs(b, repeated, 1);
  if (run_seconds < 0)
    return false;
  int64_t runs_per_sample =
      b->gpu_clock ? 1
                   : 1 + (int64_t)(min_sample_seconds / (run_seconds + 1e-9));
  if (run_seconds < b->min_seconds / 100 &&
      !b->gpu_clock) { /* that was a cold start */
    run_seconds = time_runs(b, repeated, runs_per_sample);
    runs_per_sample =
        1 + (int64_t)(min_sample_seconds / (fabs(run_seconds) + 1e-9));
  }
  size_t count = 0;
  double start = clock_seconds();
  for (int k = 0; b->gpu_clock && k < WARMUP_RUNS; k++)
    time_runs(b, repeated, 1);
  while (count == 0 ||
         !has_enough_samples(b, t, samples, count, clock_seconds() - start)) {
    samples[count] = time_runs(b, repeated, runs_per_sample);
    if (samples[count++] < 0)
      return false;
    t->runs += runs_per_sample;
  }
  compute_statistics(t, samples, count);
  return true;
}

static bool measure(BenchRun *b, Benchmark *repeated, Timing *t) {
  b->is_warm = false;
  t->first = time_runs(b, repeated, 1);
  b->is_warm = true;
  return t->first >= 0 && take_samples(b, repeated, t);
}

/* ---- what a run does ---- */

static void add_kernel(WorkCount *w, const PlanKernel *k, double times) {
  if (k->is_alias)
    return;
  w->known = w->known && !k->fallback_reason && !k->is_library_op &&
             k->predicted.bound_seconds > 0;
  w->operations += times * (k->cost.contraction_flops + k->cost.other_ops);
  w->bytes += times * (k->cost.bytes_read + k->cost.bytes_written);
  w->roofline_seconds += times * k->predicted.bound_seconds;
}

/* Runs it once more and collects its kernels, as axon plan does. */
static WorkCount count_work(BenchRun *b, Benchmark *repeated) {
  PlanRecorder recorder = {.with_code = false};
  WorkCount w = {.known = !b->gpu_clock};
  plan_recorder_init(&recorder, b->session, false, false);
  session_set_observer(b->session, &recorder.observer);
  w.known &= session_benchmark_run(b->session, repeated) == SESSION_OK;
  session_set_observer(b->session, NULL);
  for (uint32_t j = 0; j < recorder.runs.len; j++) {
    const PlanRun *run = recorder.runs.at[j];
    for (uint32_t k = 0; k < run->kernels.len; k++)
      add_kernel(&w, &run->kernels.at[k], run->count);
  }
  w.known &= w.roofline_seconds > 0;
  plan_recorder_free(&recorder);
  return w;
}

/* ---- a row ---- */

/* Stores the message of the first error, and reports all. */
static void record_error(BenchRun *b, BenchRow *row) {
  const Diags *diags = session_diags(b->session);
  const char *why = b->status == SESSION_INTERRUPTED ? "interrupted"
                    : b->status == SESSION_EXITED    ? "the program calls exit"
                                                     : "out of memory";
  for (uint32_t i = diags->all.len; i-- > 0;)
    if (diags->all.at[i]->severity == SEV_ERROR)
      why = diags->all.at[i]->message;
  row->error = arena_printf(b->arena, "%s", why);
  terminal_report(b->session, b->options->quiet);
}

static void measure_row(BenchRun *b, BenchRow *row) {
  SourceInput text = {.name = "-e",
                      .text = row->text,
                      .allow_bare_expressions = true,
                      .len = strlen(row->text),
                      .is_complete = true};
  Benchmark *repeated = session_benchmark_new(b->session, &text, &b->status);
  if (!repeated || !measure(b, repeated, &row->timing))
    record_error(b, row);
  else
    row->work = count_work(b, repeated);
}

/* ---- what is timed ---- */

static void add_row(BenchRun *b, const char *name, const char *text) {
  VEC_PUSH(b->arena, b->rows, ((BenchRow){.name = name, .text = text}));
}

static void add_function(BenchRun *b, const char *name) {
  add_row(b, name, arena_printf(b->arena, "%s ()", name));
}

static bool takes_unit(const char *type) {
  return type && strncmp(type, "unit ->", 7) == 0;
}

static void add_own(void *arg, Binding *binding) {
  BenchRun *b = arg;
  const char *name = binding_name(binding)->text;
  if (takes_unit(session_binding_type(b->session, binding)))
    add_function(b, name);
}

static int add_named(BenchRun *b, const char *name) {
  Binding *binding = session_find_binding(b->session, name);
  terminal_report(b->session, true);
  if (!binding)
    return usage_error("bench", "the program has no `%s`", name);
  const char *type = session_binding_type(b->session, binding);
  if (!takes_unit(type))
    return usage_error("bench",
                       "`%s` is not a function of (): its type is "
                       "%s.\nBenchmark an expression: -e '%s ...'",
                       name, type ? type : "not known", name);
  add_function(b, name);
  return -1;
}

static int add_all(BenchRun *b) {
  const Options *o = b->options;
  for (int i = 1; i < o->arg_count; i++) {
    int status = add_named(b, o->args[i]);
    if (status >= 0)
      return status;
  }
  for (uint32_t i = 0; i < o->expr_count; i++)
    add_row(b, o->exprs[i], o->exprs[i]);
  if (o->arg_count <= 1 && !o->expr_count)
    session_each_binding(b->session, add_own, b);
  if (b->rows.len)
    return -1;
  return usage_error(
      "bench",
      "nothing to benchmark: %s has no function of (), for example\n  fun "
      "bench_product () = a @ b\nYou can also give an expression: -e 'a @ b'",
      o->args[0]);
}

/* ---- telling ---- */

/* Three digits in a suitable unit. */
static const char *format_duration(char out[16], double seconds) {
  static const struct {
    double unit;
    const char *name;
  } units[] = {{1, "s "}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}};
  size_t k = 0;
  while (k + 1 < ARRAY_LEN(units) && seconds < units[k].unit * 0.9995)
    k++;
  double x = seconds / units[k].unit;
  int digits = x < 9.995 ? 2 : x < 99.95 ? 1 : 0;
  snprintf(out, 16, "%.*f %s", digits, x, units[k].name);
  return out;
}

static void put_cell(const char *text, int width) {
  printf("%*s%s", width - (int)utf8_columns(text, strlen(text)), "", text);
}

static int name_width(const BenchRun *b) {
  int width = 0;
  for (uint32_t i = 0; i < b->rows.len; i++) {
    int w = (int)utf8_columns(b->rows.at[i].name, strlen(b->rows.at[i].name));
    width = w > width ? w : width;
  }
  return width > 40 ? 40 : width;
}

static void put_heading(int width, bool gpu_clock) {
  printf("%*s", width, "");
  put_cell("median", 11);
  put_cell("spread", 8);
  put_cell("fastest", 11);
  put_cell("first", 11);
  put_cell("runs", 9);
  if (!gpu_clock) {
    put_cell("Gop/s", 8);
    put_cell("GB/s", 8);
    put_cell("of limit", 10);
  }
  putchar('\n');
}

static void put_rate(double rate) {
  char text[16];
  snprintf(text, sizeof text, "%.*f", rate < 9.95 ? 1 : 0, rate);
  put_cell(text, 8);
}

static void put_work(const BenchRow *row) {
  const WorkCount *w = &row->work;
  char text[16];
  if (!w->known)
    return;
  put_rate(1e-9 * w->operations / row->timing.median);
  put_rate(1e-9 * w->bytes / row->timing.median);
  snprintf(text, sizeof text, "%.0f %%",
           100 * w->roofline_seconds / row->timing.median);
  put_cell(text, 10);
}

static void put_row(const BenchRow *row, int width) {
  const Timing *t = &row->timing;
  char text[16];
  printf("%-*s", width, row->name);
  if (row->error) {
    printf("   failed: %s\n", row->error);
    return;
  }
  put_cell(format_duration(text, t->median), 11);
  double spread = 50 * (t->upper_quartile - t->lower_quartile) / t->median;
  snprintf(text, sizeof text, "±%.*f %%", spread < 99.95 ? 1 : 0, spread);
  put_cell(text, 8);
  put_cell(format_duration(text, t->min), 11);
  put_cell(format_duration(text, t->first), 11);
  printf("%9lld", (long long)t->runs);
  put_work(row);
  putchar('\n');
}

static void json_real(Buffer *out, const char *name, double x) {
  json_key(out, name);
  buffer_printf(out, "%.9g", x);
}

static void json_row(Buffer *out, const BenchRow *row) {
  const Timing *t = &row->timing;
  json_open(out, NULL, '{');
  json_string_field(out, "name", row->name);
  json_string_field(out, "error", row->error);
  if (!row->error) {
    json_int_field(out, "runs", t->runs);
    json_real(out, "median", t->median);
    json_real(out, "least", t->min);
    json_real(out, "lower_quartile", t->lower_quartile);
    json_real(out, "upper_quartile", t->upper_quartile);
    json_real(out, "first", t->first);
  }
  if (row->work.known) {
    json_real(out, "operations", row->work.operations);
    json_real(out, "bytes", row->work.bytes);
    json_real(out, "limit", row->work.roofline_seconds);
  }
  buffer_putc(out, '}');
}

static void put_json(const BenchRun *b) {
  Buffer out = {0};
  json_open(&out, NULL, '{');
  json_string_field(&out, "version", AXON_VERSION);
  if (b->options->arg_count)
    json_string_field(&out, "file", b->options->args[0]);
  json_int_field(&out, "threads", thread_pool_size());
  json_string_field(&out, "unit", "seconds");
  json_string_field(&out, "clock",
                    b->gpu_clock ? "gpu, second cache cold" : "host");
  json_key(&out, "limits_measured");
  buffer_puts(&out, machine_peak_rates()->measured ? "true" : "false");
  json_open(&out, "results", '[');
  for (uint32_t i = 0; i < b->rows.len; i++)
    json_row(&out, &b->rows.at[i]);
  buffer_puts(&out, "]}\n");
  fwrite(out.text, 1, out.len, stdout);
  buffer_free(&out);
}

/* ---- the verb ---- */

/* Discards the output of the program. */
static void discard_output(void *owner, const char *text, size_t len) {
  (void)owner, (void)text, (void)len;
}

static bool any_work_known(const BenchRun *b) {
  bool any = false;
  for (uint32_t i = 0; i < b->rows.len; i++)
    any |= b->rows.at[i].work.known;
  return any;
}

static int run_rows(BenchRun *b) {
  bool table = !b->options->json, failed = false;
  int width = name_width(b);
  if (table)
    put_heading(width, b->gpu_clock);
  for (uint32_t i = 0; i < b->rows.len; i++) {
    BenchRow *row = &b->rows.at[i];
    measure_row(b, row);
    failed |= row->error != NULL;
    if (table)
      put_row(row, width);
    fflush(stdout);
    if (b->status == SESSION_INTERRUPTED)
      b->rows.len = i + 1; /* the other rows are unknown */
  }
  if (!table)
    put_json(b);
  else if (b->gpu_clock)
    puts("measured by GPU events, with a cold L2 cache");
  else if (any_work_known(b) && !machine_peak_rates()->measured)
    puts("the limits are estimates; run `axon doctor` to measure them");
  if (b->status == SESSION_INTERRUPTED)
    return terminal_flush(EXIT_INTERRUPTED);
  return terminal_flush(failed ? EXIT_DIAGNOSTICS : EXIT_OK);
}

static int run_bench(BenchRun *b) {
  Options *o = b->options;
  SourceInput text = {0};
  Buffer program = {0};
  if (o->arg_count && !read_program_argument(o->args[0], &text, &program))
    return EXIT_DIAGNOSTICS;
  if (!o->arg_count)
    text = (SourceInput){.name = "-e", .text = ""};
  SessionStatus status = session_check(b->session, &text);
  terminal_report(b->session, o->quiet);
  terminal_match_defines(b->session, o);
  int code = -1;
  if (status == SESSION_OK && !terminal_defines_matched(o))
    code = terminal_flush(EXIT_DIAGNOSTICS);
  else if (status != SESSION_OK ||
           (status = session_run(b->session)) != SESSION_OK)
    code = terminal_finish(b->session, status, o->quiet);
  terminal_report(b->session, o->quiet);
  if (code < 0)
    code = add_all(b);
  if (code < 0)
    code = run_rows(b);
  buffer_free(&program);
  return code;
}

static int read_seconds(const char *text, double *out) {
  char *end;
  errno = 0;
  *out = strtod(text, &end);
  if (end != text && !*end && !errno && *out > 0 && *out <= 3600)
    return -1;
  return usage_error("bench",
                     "--seconds needs a number such as 0.5; found `%s`", text);
}

int verb_bench(int argc, char **argv) {
  Options o;
  BenchRun b = {.options = &o, .min_seconds = 0.5};
  int status = options_parse(&o, "bench", "eqDjmtf", argc, argv);
  if (status >= 0)
    return status;
  if (!o.arg_count && !o.expr_count)
    return usage_error("bench", "no file given");
  if (o.min_seconds &&
      (status = read_seconds(o.min_seconds, &b.min_seconds)) >= 0)
    return status;
  jit_optimize_always();
  SessionHost host = terminal_host(0, NULL);
  host.eval.write = discard_output;
  b.session = terminal_open_session(&host);
  b.gpu_clock = strcmp(session_target_name(b.session), "cuda") == 0;
  terminal_catch_interrupt(b.session, false);
  terminal_apply_defines(b.session, &o);
  b.arena = arena_new();
  b.samples = arena_alloc(b.arena, MAX_SAMPLES * sizeof *b.samples);
  status = run_bench(&b);
  arena_free(b.arena);
  session_close(b.session);
  return status;
}
