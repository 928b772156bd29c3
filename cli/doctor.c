/* axon doctor: what this machine has, and what Axon lacks on it. */
#define _GNU_SOURCE
#include "cli/cli.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/cpu/job.h"
#include "backend/cuda/cuda.h"
#include "machine/machine.h"
#include "runtime/artifact.h"
#include "runtime/pool.h"

extern char **environ;

enum { LINE = 4096, TRY_SECONDS = 10 };

static uint32_t lacking; /* things that are missing */

static void put(const char *what, const char *format, ...) PRINTF_LIKE(2, 3);
static void put(const char *what, const char *format, ...) {
  va_list args;
  printf("%-11s ", what);
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
  putchar('\n');
}

static void lack(const char *why, const char *how) {
  lacking++;
  printf("%-11s ! %s\n%-11s   %s\n", "", why, "", how);
}

/* ---- the machine ---- */

static const char *size_text(char out[32], uint64_t bytes) {
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
  put("processor", "%s, %d core%s, vectors of %u bytes",
      m->name[0] ? m->name : "unknown", m->cores, m->cores == 1 ? "" : "s",
      m->vector);
  put("memory", "%s; caches %s, %s, %s", size_text(text[0], m->memory),
      size_text(text[1], m->cache[0]), size_text(text[2], m->cache[1]),
      size_text(text[3], m->cache[2]));
  const char *wanted = getenv("AXON_THREADS");
  put("threads", "%d%s", pool_threads(),
      wanted ? " (AXON_THREADS)" : "; AXON_THREADS=n for others");
}

/* ---- the compiler ---- */

/* It has nothing to do that takes long. */
static int seconds_for(const Toolchain *tools) {
  return tools->seconds < TRY_SECONDS ? tools->seconds : TRY_SECONDS;
}

/* The first line that it writes about itself; false: it writes none. */
static bool first_line(const Toolchain *tools, char line[LINE]) {
  int ends[2];
  pid_t pid;
  const char *argv[TOOLCHAIN_WORDS + 1];
  uint32_t n = 0;
  for (; n < tools->own_words; n++)
    argv[n] = tools->words[n];
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
  bool answers = poll(&end, 1, 1000 * seconds_for(tools)) > 0;
  FILE *in = fdopen(ends[0], "r");
  bool read = in && answers && fgets(line, LINE, in);
  if (in)
    fclose(in);
  if (started && kill(pid, SIGKILL) == 0) /* what it may be at still */
    waitpid(pid, NULL, 0);
  if (read)
    line[strcspn(line, "\n")] = '\0';
  return started && read;
}

/* Can it do what kernels want?  `why` says what is wrong. */
static bool compiles(const Toolchain *tools, char *why, size_t size) {
  static const char text[] = "int axon_doctor(void) { return 1; }\n";
  const char *reason = NULL;
  Job *job = job_start(tools, text, sizeof text - 1, &reason);
  if (!job) {
    snprintf(why, size, "%s", reason);
    return false;
  }
  struct pollfd end = {.fd = job_end(job), .events = POLLIN};
  bool done = poll(&end, 1, 1000 * seconds_for(tools)) > 0, good = done;
  if (done) {
    good = job_wait(job, why, size);
    void *made = good ? dlopen(job_object(job), RTLD_NOW | RTLD_LOCAL) : NULL;
    if (good && !made)
      snprintf(why, size, "what it makes cannot be loaded: %s", dlerror());
    good = made && dlclose(made) == 0;
  } else {
    job_stop(job);
    snprintf(why, size, "it was not done with an empty kernel after %d s",
             seconds_for(tools));
  }
  job_free(job);
  return good;
}

static void put_compiler(void) {
  static const char slow[] = "without one kernels are interpreted, which is "
                             "slow",
                    how[] = "on Debian and Ubuntu: apt install gcc; or name "
                            "another one: AXON_CC=clang";
  const Toolchain *tools = toolchain();
  char line[LINE], why[400];
  if (!tools->found) {
    put("compiler", "none: there is no %s", tools->name);
    lack(slow, how);
    return;
  }
  put("compiler", "%s: %s", tools->name,
      first_line(tools, line) ? line : "it does not tell its version");
  if (!compiles(tools, why, sizeof why))
    lack(why, how);
}

/* ---- GPUs ---- */

static void hint(const char *how) {
  printf("%-11s   %s\n", "", how);
}

/* What nobody asks for is not missing: programs run on the CPU. */
static void lack_for_gpu(const char *what, const Fault *fault, bool wanted) {
  put(what, "none%s", wanted ? "" : ", which only --target cuda needs");
  if (wanted)
    lack(fault->message, fault->help);
  else
    hint(fault->message), hint(fault->help);
}

static void put_devices(const CudaState *s) {
  char text[2][32];
  for (int k = 0; k < s->count && k < CUDA_DEVICES; k++) {
    const CudaDevice *d = &s->devices[k];
    put("gpu", "%s (%s), %d multiprocessors, %s, cache %s", d->name, d->arch,
        d->multiprocessors, size_text(text[0], d->memory),
        size_text(text[1], (uint64_t)d->l2));
  }
  if (!s->count)
    put("gpu", "none");
  put("driver", "%s%sfor CUDA %d.%d, %s", s->driver, *s->driver ? ", " : "",
      s->version / 1000, s->version % 1000 / 10, cuda_api_path());
  if (*s->device_fault.message)
    lack(s->device_fault.message, s->device_fault.help);
}

static void put_nvrtc(const Nvrtc *n) {
  Buffer archs = {0};
  for (uint32_t k = 0; k < n->arch_count; k++)
    buffer_printf(&archs, "%s%d", k ? ", " : "", n->archs[k]);
  put("nvrtc", "%d.%d, %s", n->major, n->minor, n->path);
  put("", "for sm_ %s", archs.text);
  if (*n->headers)
    put("", "headers in %s", n->headers);
  else
    put("", "without headers: cuda_fp16.h is not found beside it");
  buffer_free(&archs);
}

static void put_gpu(void) {
  CudaState s;
  Fault fault = {0};
  const char *target = getenv("AXON_TARGET"), *named = getenv("AXON_NVRTC");
  cuda_look(&s);
  bool wanted = target && strcmp(target, "cuda") == 0;
  if (s.api)
    put_devices(&s);
  else
    lack_for_gpu("gpu", &s.driver_fault, wanted);
  if (s.nvrtc)
    put_nvrtc(s.nvrtc);
  else
    lack_for_gpu("nvrtc", &s.nvrtc_fault,
                 wanted || s.count || (named && *named));
  if (!s.api || !s.nvrtc || *s.device_fault.message)
    return;
  if (cuda_try(&s, &fault))
    put("", "a kernel was compiled, and ran on the GPU");
  else
    lack(fault.message, fault.help);
  put("", "programs do not run there yet");
}

static void json_nvrtc(Buffer *out, const Nvrtc *n) {
  json_open(out, "nvrtc", '{');
  json_number(out, "version", n->major * 1000 + n->minor * 10);
  json_field(out, "path", n->path);
  json_field(out, "headers", n->headers);
  json_open(out, "archs", '[');
  for (uint32_t k = 0; k < n->arch_count; k++)
    buffer_printf(out, "%s%d", k ? "," : "", n->archs[k]);
  buffer_puts(out, "]}");
}

static void json_device(Buffer *out, const CudaDevice *d) {
  json_open(out, NULL, '{');
  json_field(out, "name", d->name);
  json_field(out, "arch", d->arch);
  json_number(out, "memory", (int64_t)d->memory);
  json_number(out, "multiprocessors", d->multiprocessors);
  json_number(out, "block_shared", d->block_shared);
  json_number(out, "l2", d->l2);
  json_number(out, "clock_khz", d->clock);
  json_number(out, "memory_clock_khz", d->memory_clock);
  json_number(out, "bus_bits", d->bus);
  buffer_putc(out, '}');
}

static void json_missing(Buffer *out, const Fault *fault) {
  if (!*fault->message)
    return;
  json_comma(out);
  json_text(out, fault->message);
}

static void json_gpu(Buffer *out) {
  CudaState s;
  cuda_look(&s);
  json_open(out, "cuda", '{');
  if (s.api) {
    json_number(out, "version", s.version);
    json_field(out, "driver", s.driver);
  }
  json_open(out, "devices", '[');
  for (int k = 0; k < s.count && k < CUDA_DEVICES; k++)
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

/* May it be written to, or made in what there is of its path? */
static bool is_usable(const char *path, bool *there) {
  char part[LINE];
  struct stat is;
  snprintf(part, sizeof part, "%s", path);
  *there = stat(part, &is) == 0;
  for (char *slash; stat(part, &is) != 0 && (slash = strrchr(part, '/'));)
    snprintf(slash, 2, "%s", slash == part ? "/" : "");
  return stat(part, &is) == 0 && S_ISDIR(is.st_mode) &&
         access(part, W_OK | X_OK) == 0;
}

static void put_cache(void) {
  ArtifactTotals t;
  artifact_totals(&t);
  if (!t.path[0]) {
    put("cache", "none");
    lack("what is compiled is not kept from one run to the next",
         "set HOME or XDG_CACHE_HOME to a folder that you may write to");
    return;
  }
  bool there, usable = is_usable(t.path, &there) && !t.unused[0];
  put("cache", "%s%s", t.path, there || !usable ? "" : " (not made yet)");
  if (!usable)
    lack(t.unused[0] ? t.unused
         : there     ? "this is no folder that can be written to"
                     : "this folder cannot be made",
         "make it yours, or set XDG_CACHE_HOME to another one");
}

/* ---- limits ---- */

static void put_rate(const char *what, const double rate[2], const char *unit) {
  printf("  %-28s %9.0f", what, rate[0] / 1e9);
  if (machine_limits()->threads > 1)
    printf(" %9.0f", rate[1] / 1e9);
  printf("  %s\n", unit);
}

static void put_limits(const MachineLimits *l) {
  static const char *const from[] = {"level 1", "level 2", "level 3", "memory"};
  char what[32];
  printf("\n%-30s %9s", l->measured ? "limits" : "limits (guesses)",
         "1 thread");
  if (l->threads > 1)
    printf(" %7d t.", l->threads);
  putchar('\n');
  put_rate("multiply-add, f32", l->fma, "GFLOP/s");
  if (l->bf16[0] > 0)
    put_rate("multiply-add, bf16 to f32", l->bf16, "GFLOP/s");
  for (int k = 0; k < LEVEL_COUNT; k++) {
    snprintf(what, sizeof what, "read from %s", from[k]);
    put_rate(what, l->read[k], "GB/s");
    snprintf(what, sizeof what, "copy within %s", from[k]);
    put_rate(what, l->copy[k], "GB/s");
  }
  put_rate("copy past the caches", l->stream, "GB/s");
  printf("  %-28s %9.2f µs\n", "sharing out a job", 1e6 * l->fork);
}

static void measure(void) {
  MachineLimits l;
  if (!machine_measure(&l)) {
    put_limits(machine_limits());
    lack("the limits could not be measured: too little memory, or this axon "
         "was\n              built without optimisation",
         "build it with -O2");
    return;
  }
  bool kept = machine_keep(&l);
  put_limits(&l);
  if (!kept)
    lack("the limits could not be kept", "see the cache, above");
}

static void json_rates(Buffer *out, const char *name, const double rate[2]) {
  json_open(out, name, '[');
  buffer_printf(out, "%.6g,%.6g]", rate[0], rate[1]);
}

static void put_json(void) {
  static const char *const from[] = {"1", "2", "3", "memory"};
  MachineLimits l;
  if (machine_measure(&l))
    machine_keep(&l);
  else
    l = *machine_limits();
  Buffer out = {0};
  char name[32];
  json_open(&out, NULL, '{');
  json_field(&out, "version", AXON_VERSION);
  json_field(&out, "processor", machine()->name);
  json_number(&out, "cores", machine()->cores);
  json_number(&out, "threads", l.threads);
  json_number(&out, "vector_bytes", machine()->vector);
  json_key(&out, "measured");
  buffer_puts(&out, l.measured ? "true" : "false");
  json_rates(&out, "fma", l.fma);
  json_rates(&out, "bf16", l.bf16);
  for (int k = 0; k < LEVEL_COUNT; k++) {
    snprintf(name, sizeof name, "read_%s", from[k]);
    json_rates(&out, name, l.read[k]);
    snprintf(name, sizeof name, "copy_%s", from[k]);
    json_rates(&out, name, l.copy[k]);
  }
  json_rates(&out, "stream", l.stream);
  json_key(&out, "fork");
  buffer_printf(&out, "%.6g", l.fork);
  json_gpu(&out);
  buffer_puts(&out, "}\n");
  fwrite(out.text, 1, out.len, stdout);
  buffer_free(&out);
}

int verb_doctor(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "doctor", "j", argc, argv);
  if (status >= 0)
    return status;
  if (o.arg_count)
    return usage_error("doctor", "it takes no arguments");
  if (o.json) {
    put_json();
    return host_flush(EXIT_OK);
  }
  puts("axon " AXON_VERSION);
  put_machine();
  put_compiler();
  put_gpu();
  put_cache();
  measure();
  if (!lacking)
    puts("\nNothing is missing.");
  return host_flush(lacking ? EXIT_DIAGNOSTICS : EXIT_OK);
}
