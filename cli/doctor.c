/* axon doctor: shows what this machine provides, and what is missing for Axon.
   Main entry point: verb_doctor. */
#define _GNU_SOURCE
#include "cli/cli.h"
#include "support/buffer.h"
#include "support/json_writer.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/cpu/compile_process.h"
#include "backend/cuda/cuda.h"
#include "machine/machine.h"
#include "runtime/artifact.h"
#include "runtime/thread_pool.h"

extern char **environ;

enum { LINE_BYTES = 4096, MAX_TRY_SECONDS = 10 };

static uint32_t missing_count; /* number of missing things */

static void put_row(const char *what, const char *format, ...)
    PRINTF_LIKE(2, 3);
static void put_row(const char *what, const char *format, ...) {
  va_list args;
  printf("%-11s ", what);
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
  putchar('\n');
}

static void report_missing(const char *why, const char *how) {
  missing_count++;
  printf("%-11s ! %s\n%-11s   %s\n", "", why, "", how);
}

/* ---- the machine ---- */

static const char *format_size(char out[32], uint64_t bytes) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double x = (double)bytes;
  size_t k = 0;
  while (x >= 1024 && k + 1 < ARRAY_LEN(units))
    x /= 1024, k++;
  if (!bytes)
    snprintf(out, 32, "unknown");
  else
    snprintf(out, 32, "%.*f %s", x < 10 && x != (int)x, x, units[k]);
  return out;
}

static void put_machine(void) {
  const Machine *m = machine();
  char text[4][32];
  put_row("processor", "%s, %d core%s, vectors of %u bytes",
          m->cpu_name[0] ? m->cpu_name : "unknown", m->cores,
          m->cores == 1 ? "" : "s", m->vector_bytes);
  put_row("memory", "%s; caches %s, %s, %s",
          format_size(text[0], m->memory_bytes),
          format_size(text[1], m->cache_bytes[0]),
          format_size(text[2], m->cache_bytes[1]),
          format_size(text[3], m->cache_bytes[2]));
  const char *wanted = getenv("AXON_THREADS");
  put_row("threads", "%d%s", thread_pool_size(),
          wanted ? " (AXON_THREADS)" : "; set AXON_THREADS=n to change");
}

/* ---- the compiler ---- */

/* The timeout of a test compilation, in seconds. */
static int try_seconds(const Toolchain *tools) {
  return tools->timeout_seconds < MAX_TRY_SECONDS ? tools->timeout_seconds
                                                  : MAX_TRY_SECONDS;
}

/* Reads the first line of the compiler's version output.  Returns false if
   there is none. */
static bool compiler_version_line(const Toolchain *tools,
                                  char line[LINE_BYTES]) {
  int ends[2];
  pid_t pid;
  const char *argv[MAX_COMPILER_ARGS + 1];
  uint32_t n = 0;
  for (; n < tools->user_arg_count; n++)
    argv[n] = tools->args[n];
  argv[n++] = "--version";
  argv[n] = NULL;
  if (pipe2(ends, O_CLOEXEC) != 0)
    return false;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null",
                                   O_WRONLY, 0);
  bool started = posix_spawn(&pid, tools->path, &actions, NULL,
                             (char *const *)(uintptr_t)argv, environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  struct pollfd end = {.fd = ends[0], .events = POLLIN};
  bool answers = poll(&end, 1, 1000 * try_seconds(tools)) > 0;
  FILE *in = fdopen(ends[0], "r");
  bool read = in && answers && fgets(line, LINE_BYTES, in);
  if (in)
    fclose(in);
  if (started && kill(pid, SIGKILL) == 0) /* it may still be running */
    waitpid(pid, NULL, 0);
  if (read)
    line[strcspn(line, "\n")] = '\0';
  return started && read;
}

/* Tests whether the compiler can compile kernels.  `why` receives the reason of
   a failure. */
static bool try_compile(const Toolchain *tools, char *why, size_t size) {
  static const char text[] = "int axon_doctor(void) { return 1; }\n";
  const char *reason = NULL;
  CompileProcess *job = compile_process_start(
      tools, COMPILE_OPTIMIZED, WITH_LIBRARIES, text, sizeof text - 1, &reason);
  if (!job) {
    snprintf(why, size, "%s", reason);
    return false;
  }
  struct pollfd end = {.fd = compile_process_exit_fd(job), .events = POLLIN};
  bool done = poll(&end, 1, 1000 * try_seconds(tools)) > 0, good = done;
  if (done) {
    good = compile_process_wait(job, why, size);
    void *made =
        good ? dlopen(compile_process_object_path(job), RTLD_NOW | RTLD_LOCAL)
             : NULL;
    if (good && !made)
      snprintf(why, size, "cannot load its output: %s", dlerror());
    good = made && dlclose(made) == 0;
  } else {
    compile_process_kill(job);
    snprintf(why, size, "it did not compile an empty kernel in %d s",
             try_seconds(tools));
  }
  compile_process_free(job);
  return good;
}

static void put_compiler(void) {
  static const char slow[] =
      "without a C compiler, kernels are interpreted, which is slow",
                    how[] = "on Debian and Ubuntu: apt install gcc; or select "
                            "another one: AXON_CC=clang";
  const Toolchain *tools = toolchain();
  char line[LINE_BYTES], why[400];
  if (!tools->found) {
    put_row("compiler", "none: there is no %s", tools->name);
    report_missing(slow, how);
    return;
  }
  put_row("compiler", "%s: %s", tools->name,
          compiler_version_line(tools, line) ? line : "unknown version");
  if (!try_compile(tools, why, sizeof why))
    report_missing(why, how);
}

/* ---- GPUs ---- */

static void put_hint(const char *how) {
  printf("%-11s   %s\n", "", how);
}

/* A GPU only counts as missing if it was requested: programs also run on the
   CPU. */
static void report_missing_gpu(const char *what, const Fault *fault,
                               bool wanted) {
  put_row(what, "none%s", wanted ? "" : "; only --target cuda needs it");
  if (wanted)
    report_missing(fault->message, fault->help);
  else
    put_hint(fault->message), put_hint(fault->help);
}

static void put_devices(const CudaState *s) {
  char text[2][32];
  for (int k = 0; k < s->count && k < CUDA_MAX_DEVICES; k++) {
    const CudaDeviceInfo *d = &s->devices[k];
    put_row("gpu", "%s (%s), %d multiprocessors, %s, cache %s", d->name,
            d->arch, d->sm_count, format_size(text[0], d->memory_bytes),
            format_size(text[1], (uint64_t)d->l2_bytes));
  }
  if (!s->count)
    put_row("gpu", "none");
  put_row("driver", "%s%sfor CUDA %d.%d, %s", s->driver, *s->driver ? ", " : "",
          s->version / 1000, s->version % 1000 / 10, cuda_api_path());
  if (*s->device_fault.message)
    report_missing(s->device_fault.message, s->device_fault.help);
}

static void put_nvrtc(const Nvrtc *n) {
  Buffer archs = {0};
  for (uint32_t k = 0; k < n->arch_count; k++)
    buffer_printf(&archs, "%s%d", k ? ", " : "", n->archs[k]);
  put_row("nvrtc", "%d.%d, %s", n->major, n->minor, n->path);
  put_row("", "for sm_ %s", archs.text);
  if (*n->headers)
    put_row("", "headers in %s", n->headers);
  else
    put_row("", "without headers: cuda_fp16.h is not in its folder");
  buffer_free(&archs);
}

static void put_gpu(void) {
  CudaState s;
  Fault fault = {0};
  const char *target = getenv("AXON_TARGET"), *named = getenv("AXON_NVRTC");
  cuda_probe(&s);
  bool wanted = target && strcmp(target, "cuda") == 0;
  if (s.api)
    put_devices(&s);
  else
    report_missing_gpu("gpu", &s.driver_fault, wanted);
  if (s.nvrtc)
    put_nvrtc(s.nvrtc);
  else
    report_missing_gpu("nvrtc", &s.nvrtc_fault,
                       wanted || s.count || (named && *named));
  if (!s.api || !s.nvrtc || *s.device_fault.message)
    return;
  if (cuda_self_test(&s, &fault))
    put_row("", "a test kernel was compiled and ran on the GPU");
  else
    report_missing(fault.message, fault.help);
  put_row("", "programs do not run there yet");
}

static void json_nvrtc(Buffer *out, const Nvrtc *n) {
  json_open(out, "nvrtc", '{');
  json_int_field(out, "version", n->major * 1000 + n->minor * 10);
  json_string_field(out, "path", n->path);
  json_string_field(out, "headers", n->headers);
  json_open(out, "archs", '[');
  for (uint32_t k = 0; k < n->arch_count; k++)
    buffer_printf(out, "%s%d", k ? "," : "", n->archs[k]);
  buffer_puts(out, "]}");
}

static void json_device(Buffer *out, const CudaDeviceInfo *d) {
  json_open(out, NULL, '{');
  json_string_field(out, "name", d->name);
  json_string_field(out, "arch", d->arch);
  json_int_field(out, "memory", (int64_t)d->memory_bytes);
  json_int_field(out, "multiprocessors", d->sm_count);
  json_int_field(out, "block_shared", d->block_shared_bytes);
  json_int_field(out, "l2", d->l2_bytes);
  json_int_field(out, "clock_khz", d->clock_khz);
  json_int_field(out, "memory_clock_khz", d->memory_clock_khz);
  json_int_field(out, "bus_bits", d->memory_bus_bits);
  buffer_putc(out, '}');
}

static void json_missing(Buffer *out, const Fault *fault) {
  if (!*fault->message)
    return;
  json_comma(out);
  json_quote(out, fault->message);
}

static void json_gpu(Buffer *out) {
  CudaState s;
  cuda_probe(&s);
  json_open(out, "cuda", '{');
  if (s.api) {
    json_int_field(out, "version", s.version);
    json_string_field(out, "driver", s.driver);
  }
  json_open(out, "devices", '[');
  for (int k = 0; k < s.count && k < CUDA_MAX_DEVICES; k++)
    json_device(out, &s.devices[k]);
  buffer_putc(out, ']');
  if (s.nvrtc)
    json_nvrtc(out, s.nvrtc);
  json_open(out, "missing", '[');
  json_missing(out, &s.driver_fault);
  json_missing(out, &s.device_fault);
  json_missing(out, &s.nvrtc_fault);
  buffer_puts(out, "]}");
}

/* ---- the cache ---- */

/* True if the path is writable, or can be created. */
static bool is_writable_path(const char *path, bool *there) {
  char part[LINE_BYTES];
  struct stat is;
  snprintf(part, sizeof part, "%s", path);
  *there = stat(part, &is) == 0;
  for (char *slash; stat(part, &is) != 0 && (slash = strrchr(part, '/'));)
    snprintf(slash, 2, "%s", slash == part ? "/" : "");
  return stat(part, &is) == 0 && S_ISDIR(is.st_mode) &&
         access(part, W_OK | X_OK) == 0;
}

static void put_cache(void) {
  ArtifactStats t;
  artifact_stats(&t);
  if (!t.path[0]) {
    put_row("cache", "none");
    report_missing("compiled kernels are not cached",
                   "set HOME or XDG_CACHE_HOME to a writable folder");
    return;
  }
  bool there,
      usable = is_writable_path(t.path, &there) && !t.unusable_reason[0];
  put_row("cache", "%s%s", t.path,
          there || !usable ? "" : " (not created yet)");
  if (!usable)
    report_missing(t.unusable_reason[0] ? t.unusable_reason
                   : there              ? "this folder is not writable"
                                        : "cannot create this folder",
                   "change its owner, or set XDG_CACHE_HOME to another folder");
}

/* ---- limits ---- */

static void put_rate(const char *what, const double rate[2], const char *unit) {
  printf("  %-28s %9.0f", what, rate[0] / 1e9);
  if (machine_peak_rates()->threads > 1)
    printf(" %9.0f", rate[1] / 1e9);
  printf("  %s\n", unit);
}

static void put_peak_rates(const PeakRates *l) {
  static const char *const from[] = {"level 1", "level 2", "level 3", "memory"};
  char what[32];
  printf("\n%-30s %9s", l->measured ? "limits" : "limits (estimates)",
         "1 thread");
  if (l->threads > 1)
    printf(" %7d t.", l->threads);
  putchar('\n');
  put_rate("multiply-add, f32", l->f32_flops, "GFLOP/s");
  if (l->bf16_flops[0] > 0)
    put_rate("multiply-add, bf16 to f32", l->bf16_flops, "GFLOP/s");
  for (int k = 0; k < LEVEL_COUNT; k++) {
    snprintf(what, sizeof what, "read from %s", from[k]);
    put_rate(what, l->read_bandwidth[k], "GB/s");
    snprintf(what, sizeof what, "copy within %s", from[k]);
    put_rate(what, l->copy_bandwidth[k], "GB/s");
  }
  put_rate("copy, non-temporal stores", l->nontemporal_bandwidth, "GB/s");
  printf("  %-28s %9.2f µs\n", "starting a parallel loop",
         1e6 * l->fork_join_seconds);
}

static void measure_peak_rates(void) {
  PeakRates l;
  if (!machine_measure_peak_rates(&l)) {
    put_peak_rates(machine_peak_rates());
    report_missing("cannot measure the limits: too little memory, or this axon "
                   "was\n              built without optimization",
                   "build it with -O2");
    return;
  }
  bool saved = machine_save_peak_rates(&l);
  put_peak_rates(&l);
  if (!saved)
    report_missing("cannot save the limits", "see `cache` above");
}

/* ---- the core ---- */

/* What a rate is that no measurement of this run gave. */
static void put_origin(bool is_measured, double spread) {
  const char *what = is_measured ? "measured before" : "typical";
  char problem[RATE_PROBLEM_TEXT];
  core_rate_problem(spread, problem);
  if (*problem)
    printf(" (%s: %s)", what, problem);
  else if (!is_measured)
    printf(" (typical)");
}

/* spread: of the measurement of this run; NULL: there was none. */
static void put_core_rates(const CoreRates *from, const double *spread) {
  CoreRates r = *from;
  printf("\n%s\n", r.measured ? "core, per cycle" : "core (typical values)");
  for (uint32_t k = 0; k < CORE_RATE_COUNT; k++) {
    const CoreRateInfo *info = &core_rate_info[k];
    bool is_clock = k == 0;
    printf("  %-28s %9.2f  %s", info->text,
           *core_rate(&r, k) / (is_clock ? 1e9 : 1),
           is_clock ? "GHz" : info->unit);
    if (r.measured || spread)
      put_origin(core_rate_is_measured(&r, k), spread ? spread[k] : 0);
    putchar('\n');
  }
}

/* Measures and saves the rates of the core.  Returns false if that is not
 * possible; *out is then what the cost model uses. */
static bool measure_core(CoreRates *out, double spread[CORE_RATE_COUNT],
                         bool *saved) {
  *saved = false;
  if (!machine_measure_core(out, spread)) {
    *out = *machine_core_rates();
    return false;
  }
  *saved = machine_save_core_rates(out, spread);
  return true;
}

static void put_saved_core(void) {
  if (machine_core_rates()->measured)
    put_core_rates(machine_core_rates(), NULL);
  if (!machine_core_rates_fault())
    return;
  char why[LINE_BYTES];
  snprintf(why, sizeof why, "the saved rates of the core are not used: %s",
           machine_core_rates_fault());
  putchar('\n');
  report_missing(why, "measure them again: axon doctor --measure");
}

static void put_core(bool measure) {
  CoreRates r;
  double spread[CORE_RATE_COUNT];
  bool saved;
  if (!measure) {
    put_saved_core();
    return;
  }
  bool measured = measure_core(&r, spread, &saved);
  put_core_rates(&r, measured ? spread : NULL);
  if (!measured)
    report_missing("cannot measure the core: too little memory, or this axon "
                   "was\n              built without optimization",
                   "build it with -O2");
  else if (!saved)
    report_missing("cannot save the rates of the core", "see `cache` above");
}

static void json_flag(Buffer *out, const char *name, bool value) {
  json_key(out, name);
  buffer_puts(out, value ? "true" : "false");
}

/* The rates of a set of bits. */
static void json_rate_keys(Buffer *out, const char *name, uint32_t bits) {
  json_open(out, name, '[');
  for (uint32_t k = 0; k < CORE_RATE_COUNT; k++)
    if (bits >> k & 1) {
      json_comma(out);
      json_quote(out, core_rate_info[k].key);
    }
  buffer_putc(out, ']');
}

static void json_core(Buffer *out, bool measure) {
  CoreRates r = *machine_core_rates();
  double spread[CORE_RATE_COUNT];
  const char *fault = machine_core_rates_fault();
  bool saved, measured = measure && measure_core(&r, spread, &saved);
  uint32_t kept = 0;
  for (uint32_t k = 0; k < CORE_RATE_COUNT && measured; k++)
    kept |= (uint32_t)(spread[k] > MAX_RATE_SPREAD) << k;
  json_open(out, "core", '{');
  json_flag(out, "measured", r.measured != 0);
  if (measure)
    json_flag(out, "saved", saved);
  else if (fault)
    json_string_field(out, "fault", fault);
  for (uint32_t k = 0; k < CORE_RATE_COUNT; k++) {
    json_key(out, core_rate_info[k].key);
    buffer_printf(out, "%.6g", *core_rate(&r, k));
  }
  json_open(out, "cache_bytes", '[');
  for (int k = 0; k < CORE_BOUNDARIES; k++)
    buffer_printf(out, "%s%.0f", k ? "," : "", r.cache_bytes[k]);
  buffer_puts(out, "]");
  json_rate_keys(out, "typical", ~r.measured);
  json_rate_keys(out, "kept", kept);
  buffer_putc(out, '}');
}

static void json_rates(Buffer *out, const char *name, const double rate[2]) {
  json_open(out, name, '[');
  buffer_printf(out, "%.6g,%.6g]", rate[0], rate[1]);
}

static void put_json(bool measure) {
  static const char *const from[] = {"1", "2", "3", "memory"};
  PeakRates l;
  bool saved = false;
  if (machine_measure_peak_rates(&l))
    saved = machine_save_peak_rates(&l);
  else
    l = *machine_peak_rates();
  Buffer out = {0};
  char name[32];
  json_open(&out, NULL, '{');
  json_string_field(&out, "version", AXON_VERSION);
  json_string_field(&out, "processor", machine()->cpu_name);
  json_int_field(&out, "cores", machine()->cores);
  json_int_field(&out, "threads", l.threads);
  json_int_field(&out, "vector_bytes", machine()->vector_bytes);
  json_flag(&out, "measured", l.measured);
  json_flag(&out, "saved", saved);
  json_rates(&out, "fma", l.f32_flops);
  json_rates(&out, "bf16", l.bf16_flops);
  for (int k = 0; k < LEVEL_COUNT; k++) {
    snprintf(name, sizeof name, "read_%s", from[k]);
    json_rates(&out, name, l.read_bandwidth[k]);
    snprintf(name, sizeof name, "copy_%s", from[k]);
    json_rates(&out, name, l.copy_bandwidth[k]);
  }
  json_rates(&out, "stream", l.nontemporal_bandwidth);
  json_key(&out, "fork");
  buffer_printf(&out, "%.6g", l.fork_join_seconds);
  json_core(&out, measure);
  json_gpu(&out);
  buffer_puts(&out, "}\n");
  fwrite(out.text, 1, out.len, stdout);
  buffer_free(&out);
}

int verb_doctor(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "doctor", "jr", argc, argv);
  if (status >= 0)
    return status;
  if (o.arg_count)
    return usage_error("doctor", "it takes no arguments");
  if (o.json) {
    put_json(o.measure);
    return terminal_flush(EXIT_OK);
  }
  puts("axon " AXON_VERSION);
  put_machine();
  put_compiler();
  put_gpu();
  put_cache();
  measure_peak_rates();
  put_core(o.measure);
  if (!missing_count)
    puts("\nNothing is missing.");
  return terminal_flush(missing_count ? EXIT_DIAGNOSTICS : EXIT_OK);
}
