/* axon bench: how long functions and expressions of a program take. */
#define _GNU_SOURCE
#include "cli/plan.h"

#include "backend/cuda/cuda.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/pool.h"

/* A sample is the mean of so many runs that reading the clock does not count;
 * samples are taken for the time that is wanted, longer while the middle of
 * them is not sure, and shorter where one takes very long. */
enum {
  WARM_RUNS = 3,
  SAMPLES_LEAST = 5,
  SAMPLES_MOST = 100 * 1000,
  LONGER = 4
};
static const double sample_least = 20e-6; /* seconds */
static const double sure = 0.01;          /* of the median */

typedef struct Timing {
  double first; /* seconds of the first run: of compiling, too */
  double median, least, lower, upper; /* of a run; lower, upper: quartiles */
  int64_t runs;
} Timing;

typedef struct Work { /* of a run, if its kernels say all of it */
  bool known;
  double operations, bytes; /* as axon plan counts them */
  double limit;             /* seconds that the machine's limits allow it */
} Work;

typedef struct Row {
  const char *name;
  const char *text; /* the expression */
  Timing timing;
  Work work;
  const char *error; /* NULL: it was timed */
} Row;

typedef struct Bench {
  Options *options;
  Session *session;
  Arena *arena;    /* of the rows */
  double *samples; /* room for SAMPLES_MOST */
  VEC(Row) rows;
  double wanted; /* seconds */
  bool there;    /* runs are timed by the GPU's clock, */
  bool warm;     /* but the first one, of compiling, too */
  SessionStatus status;
} Bench;

/* ---- timing ---- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Of one, as the GPU takes it. */
static double timed_there(Bench *b, Repeated *repeated) {
  double seconds = 0;
  Fault fault = {0};
  bool good = cuda_time_begin(&fault);
  if (good)
    b->status = session_repeat(b->session, repeated);
  good = good && b->status == SESSION_OK && cuda_time_end(&seconds, &fault);
  if (*fault.message)
    fprintf(stderr, "axon bench: %s\n", fault.message);
  if (!good && b->status == SESSION_OK)
    b->status = SESSION_ERROR;
  return good ? seconds : -1;
}

/* Seconds of a run; less than 0: it failed. */
static double timed(Bench *b, Repeated *repeated, int64_t count) {
  if (b->there && b->warm)
    return timed_there(b, repeated);
  double start = now();
  for (int64_t i = 0; i < count; i++) {
    b->status = session_repeat(b->session, repeated);
    if (b->status != SESSION_OK)
      return -1;
  }
  return (now() - start) / (double)count;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void summarise(Timing *t, double *samples, size_t count) {
  qsort(samples, count, sizeof *samples, by_size);
  t->least = samples[0];
  t->lower = samples[count / 4];
  t->median = count % 2 ? samples[count / 2]
                        : 0.5 * (samples[count / 2 - 1] + samples[count / 2]);
  t->upper = samples[count - 1 - count / 4];
}

/* The median's standard error is about 0.93 quartile distances by the root of
 * how many there are, were they normal. */
static bool is_sure(const Timing *t, size_t count) {
  return 0.93 * (t->upper - t->lower) < sure * t->median * sqrt((double)count);
}

static bool enough(const Bench *b, Timing *t, double *samples, size_t count,
                   double spent) {
  if (count == SAMPLES_MOST)
    return true;
  if (count < SAMPLES_LEAST)
    return spent > LONGER * b->wanted;
  if (spent < b->wanted)
    return false;
  summarise(t, samples, count);
  return spent > LONGER * b->wanted || is_sure(t, count);
}

static bool take_samples(Bench *b, Repeated *repeated, Timing *t) {
  double *samples = b->samples;
  double once = timed(b, repeated, 1);
  if (once < 0)
    return false;
  int64_t each = b->there ? 1 : 1 + (int64_t)(sample_least / (once + 1e-9));
  if (once < b->wanted / 100 && !b->there) { /* that was a cold start */
    once = timed(b, repeated, each);
    each = 1 + (int64_t)(sample_least / (fabs(once) + 1e-9));
  }
  size_t count = 0;
  double start = now();
  for (int k = 0; b->there && k < WARM_RUNS; k++)
    timed(b, repeated, 1);
  while (count == 0 || !enough(b, t, samples, count, now() - start)) {
    samples[count] = timed(b, repeated, each);
    if (samples[count++] < 0)
      return false;
    t->runs += each;
  }
  summarise(t, samples, count);
  return true;
}

static bool measure(Bench *b, Repeated *repeated, Timing *t) {
  b->warm = false;
  t->first = timed(b, repeated, 1);
  b->warm = true;
  return t->first >= 0 && take_samples(b, repeated, t);
}

/* ---- what a run does ---- */

static void add_kernel(Work *w, const PlanKernel *k, double times) {
  if (k->shared)
    return;
  w->known = w->known && !k->interpreted && !k->routine &&
             k->predicted.limit > 0;
  w->operations += times * (k->cost.products + k->cost.others);
  w->bytes += times * (k->cost.read + k->cost.written);
  w->limit += times * k->predicted.limit;
}

/* Runs it once more, and looks at its kernels as axon plan does. */
static Work work_of(Bench *b, Repeated *repeated) {
  PlanLog log = {.code = false};
  Work w = {.known = !b->there};
  plan_listen(&log, b->session, false, false);
  session_watch(b->session, &log.watch);
  w.known &= session_repeat(b->session, repeated) == SESSION_OK;
  session_watch(b->session, NULL);
  for (uint32_t j = 0; j < log.runs.len; j++) {
    const PlanRun *run = log.runs.at[j];
    for (uint32_t k = 0; k < run->kernels.len; k++)
      add_kernel(&w, &run->kernels.at[k], run->count);
  }
  w.known &= w.limit > 0;
  plan_forget(&log);
  return w;
}

/* ---- a row ---- */

/* Keeps what the first error says, and tells all of them. */
static void fail(Bench *b, Row *row) {
  const Diags *diags = session_diags(b->session);
  const char *why = b->status == SESSION_INTERRUPTED ? "interrupted"
                    : b->status == SESSION_EXITED    ? "it calls exit"
                                                     : "out of memory";
  for (uint32_t i = diags->all.len; i-- > 0;)
    if (diags->all.at[i]->severity == SEV_ERROR)
      why = diags->all.at[i]->message;
  row->error = arena_printf(b->arena, "%s", why);
  host_report(b->session, b->options->quiet);
}

static void run_row(Bench *b, Row *row) {
  SessionText text = {.name = "-e", .text = row->text, .bare = true,
                      .len = strlen(row->text), .final = true};
  Repeated *repeated = session_repeatable(b->session, &text, &b->status);
  if (!repeated || !measure(b, repeated, &row->timing))
    fail(b, row);
  else
    row->work = work_of(b, repeated);
}

/* ---- what is timed ---- */

static void add_row(Bench *b, const char *name, const char *text) {
  VEC_PUSH(b->arena, b->rows, ((Row){.name = name, .text = text}));
}

static void add_function(Bench *b, const char *name) {
  add_row(b, name, arena_printf(b->arena, "%s ()", name));
}

static bool wants_nothing(const char *type) {
  return type && strncmp(type, "unit ->", 7) == 0;
}

static void add_own(void *arg, Binding *binding) {
  Bench *b = arg;
  const char *name = binding_name(binding)->text;
  if (wants_nothing(session_binding_type(b->session, binding)))
    add_function(b, name);
}

static int add_named(Bench *b, const char *name) {
  Binding *binding = session_find(b->session, name);
  host_report(b->session, true);
  if (!binding)
    return usage_error("bench", "the program has no `%s`", name);
  const char *type = session_binding_type(b->session, binding);
  if (!wants_nothing(type))
    return usage_error(
        "bench",
        "`%s` is no function of (): its type is %s.\n"
        "Time an expression with it: -e '%s ...'",
        name, type ? type : "not known", name);
  add_function(b, name);
  return -1;
}

static int add_all(Bench *b) {
  const Options *o = b->options;
  for (int i = 1; i < o->arg_count; i++) {
    int status = add_named(b, o->args[i]);
    if (status >= 0)
      return status;
  }
  for (uint32_t i = 0; i < o->expr_count; i++)
    add_row(b, o->exprs[i], o->exprs[i]);
  if (o->arg_count <= 1 && !o->expr_count)
    session_each_own(b->session, add_own, b);
  if (b->rows.len)
    return -1;
  return usage_error("bench",
                     "nothing to time: %s has no function of (), such as\n"
                     "  fun bench_product () = a @ b\n"
                     "Or name an expression: -e 'a @ b'",
                     o->args[0]);
}

/* ---- telling ---- */

/* Three digits, in the unit that suits. */
static const char *duration(char out[16], double seconds) {
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
  printf("%*s%s", width - (int)utf8_width(text, strlen(text)), "", text);
}

static int name_width(const Bench *b) {
  int width = 0;
  for (uint32_t i = 0; i < b->rows.len; i++) {
    int w = (int)utf8_width(b->rows.at[i].name, strlen(b->rows.at[i].name));
    width = w > width ? w : width;
  }
  return width > 40 ? 40 : width;
}

static void put_heading(int width, bool there) {
  printf("%*s", width, "");
  put_cell("median", 11);
  put_cell("spread", 8);
  put_cell("fastest", 11);
  put_cell("first", 11);
  put_cell("runs", 9);
  if (!there) {
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

static void put_work(const Row *row) {
  const Work *w = &row->work;
  char text[16];
  if (!w->known)
    return;
  put_rate(1e-9 * w->operations / row->timing.median);
  put_rate(1e-9 * w->bytes / row->timing.median);
  snprintf(text, sizeof text, "%.0f %%",
           100 * w->limit / row->timing.median);
  put_cell(text, 10);
}

static void put_row(const Row *row, int width) {
  const Timing *t = &row->timing;
  char text[16];
  printf("%-*s", width, row->name);
  if (row->error) {
    printf("   failed: %s\n", row->error);
    return;
  }
  put_cell(duration(text, t->median), 11);
  double spread = 50 * (t->upper - t->lower) / t->median;
  snprintf(text, sizeof text, "±%.*f %%", spread < 99.95 ? 1 : 0, spread);
  put_cell(text, 8);
  put_cell(duration(text, t->least), 11);
  put_cell(duration(text, t->first), 11);
  printf("%9lld", (long long)t->runs);
  put_work(row);
  putchar('\n');
}

static void json_real(Buffer *out, const char *name, double x) {
  json_key(out, name);
  buffer_printf(out, "%.9g", x);
}

static void json_row(Buffer *out, const Row *row) {
  const Timing *t = &row->timing;
  json_open(out, NULL, '{');
  json_field(out, "name", row->name);
  json_field(out, "error", row->error);
  if (!row->error) {
    json_number(out, "runs", t->runs);
    json_real(out, "median", t->median);
    json_real(out, "least", t->least);
    json_real(out, "lower_quartile", t->lower);
    json_real(out, "upper_quartile", t->upper);
    json_real(out, "first", t->first);
  }
  if (row->work.known) {
    json_real(out, "operations", row->work.operations);
    json_real(out, "bytes", row->work.bytes);
    json_real(out, "limit", row->work.limit);
  }
  buffer_putc(out, '}');
}

static void put_json(const Bench *b) {
  Buffer out = {0};
  json_open(&out, NULL, '{');
  json_field(&out, "version", AXON_VERSION);
  if (b->options->arg_count)
    json_field(&out, "file", b->options->args[0]);
  json_number(&out, "threads", pool_threads());
  json_field(&out, "unit", "seconds");
  json_field(&out, "clock", b->there ? "gpu, second cache cold" : "host");
  json_key(&out, "limits_measured");
  buffer_puts(&out, machine_limits()->measured ? "true" : "false");
  json_open(&out, "results", '[');
  for (uint32_t i = 0; i < b->rows.len; i++)
    json_row(&out, &b->rows.at[i]);
  buffer_puts(&out, "]}\n");
  fwrite(out.text, 1, out.len, stdout);
  buffer_free(&out);
}

/* ---- the verb ---- */

/* What a program prints, each time, is not what was asked for. */
static void write_nothing(void *owner, const char *text, size_t len) {
  (void)owner, (void)text, (void)len;
}

static bool any_work(const Bench *b) {
  bool any = false;
  for (uint32_t i = 0; i < b->rows.len; i++)
    any |= b->rows.at[i].work.known;
  return any;
}

static int run_rows(Bench *b) {
  bool table = !b->options->json, failed = false;
  int width = name_width(b);
  if (table)
    put_heading(width, b->there);
  for (uint32_t i = 0; i < b->rows.len; i++) {
    Row *row = &b->rows.at[i];
    run_row(b, row);
    failed |= row->error != NULL;
    if (table)
      put_row(row, width);
    fflush(stdout);
    if (b->status == SESSION_INTERRUPTED)
      b->rows.len = i + 1; /* nothing is known of the others */
  }
  if (!table)
    put_json(b);
  else if (b->there)
    puts("by the GPU's clock, its second cache cold");
  else if (any_work(b) && !machine_limits()->measured)
    puts("limits are guesses here: `axon doctor` measures them");
  if (b->status == SESSION_INTERRUPTED)
    return host_flush(EXIT_INTERRUPTED);
  return host_flush(failed ? EXIT_DIAGNOSTICS : EXIT_OK);
}

static int run_bench(Bench *b) {
  Options *o = b->options;
  SessionText text = {0};
  Buffer program = {0};
  if (o->arg_count && !host_text(o->args[0], &text, &program))
    return EXIT_DIAGNOSTICS;
  if (!o->arg_count)
    text = (SessionText){.name = "-e", .text = ""};
  SessionStatus status = session_check(b->session, &text);
  host_report(b->session, o->quiet);
  host_note_defines(b->session, o);
  int code = -1;
  if (status == SESSION_OK && !host_defines_met(o))
    code = host_flush(EXIT_DIAGNOSTICS);
  else if (status != SESSION_OK ||
           (status = session_run(b->session)) != SESSION_OK)
    code = host_finish(b->session, status, o->quiet);
  host_report(b->session, o->quiet);
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
  return usage_error("bench", "--seconds wants a number, as 0.5, not `%s`",
                     text);
}

int verb_bench(int argc, char **argv) {
  Options o;
  Bench b = {.options = &o, .wanted = 0.5};
  int status = options_parse(&o, "bench", "eqDjmt", argc, argv);
  if (status >= 0)
    return status;
  if (!o.arg_count && !o.expr_count)
    return usage_error("bench", "which file?");
  if (o.seconds && (status = read_seconds(o.seconds, &b.wanted)) >= 0)
    return status;
  SessionHost host = host_terminal(0, NULL);
  host.eval.write = write_nothing;
  b.session = host_open(&host);
  b.there = strcmp(session_runs_on(b.session), "cuda") == 0;
  host_catch_interrupt(b.session, false);
  host_apply_defines(b.session, &o);
  b.arena = arena_new();
  b.samples = arena_alloc(b.arena, SAMPLES_MOST * sizeof *b.samples);
  status = run_bench(&b);
  arena_free(b.arena);
  session_close(b.session);
  return status;
}
