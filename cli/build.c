/* axon build: compiles functions of a program for programs in other languages.
   Main entry point: verb_build. */
#define _GNU_SOURCE
#include "aot/c_module.h"
#include "backend/cpu/toolchain.h"
#include "backend/cuda/code_cache.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/schedule_text.h"
#include "cli/cli.h"
#include "runtime/temp_dir.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* ---- where to ---- */

typedef struct BuildOutput {
  char stem[PATH_MAX];   /* "out/m" */
  char module[256];      /* "m" */
  const char *extension; /* "so"; "" for an executable */
  uint32_t arch_count; /* number of GPU architectures; 0: builds for the CPU */
  const char *archs[MAX_BUILD_ARCHS];
  const Session *session;
} BuildOutput;

static bool has_extension(const BuildOutput *t, const char *kind) {
  return strcmp(t->extension, kind) == 0;
}

/* The name is also a prefix of C names. */
static bool is_identifier(const char *name) {
  if (!*name || (*name >= '0' && *name <= '9'))
    return false;
  for (const char *p = name; *p; p++)
    if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_' ||
          (*p >= '0' && *p <= '9')))
      return false;
  return true;
}

/* Extensions of outputs; cu, ptx and cubin are for GPUs. */
static const char *const extensions[] = {"c",  "o",   "a",    "so",
                                         "cu", "ptx", "cubin"};

/* Parses "cuda:sm_80,sm_90a".  Returns -1 if valid. */
static int parse_archs(const char *name, BuildOutput *t) {
  static char list[256];
  Fault fault = {0};
  if (strcmp(name, "cuda") == 0)
    name = cuda_archs[0];
  else if (strncmp(name, "cuda:", 5) == 0)
    name += 5;
  else
    return strcmp(name, "cpu") == 0
               ? -1
               : usage_error("build",
                             "--target must be cpu, or a GPU such as "
                             "cuda:sm_90a; found `%s`",
                             name);
  snprintf(list, sizeof list, "%s", name);
  for (char *at = strtok(list, ","); at; at = strtok(NULL, ",")) {
    const char *arch = cuda_arch_named(at, &fault);
    if (!arch)
      return usage_error("build", "%s: %s", fault.message, fault.help);
    for (uint32_t k = 0; k < t->arch_count; k++)
      if (t->archs[k] == arch)
        return usage_error("build", "duplicate architecture %s", arch);
    t->archs[t->arch_count++] = arch;
  }
  return t->arch_count
             ? -1
             : usage_error(
                   "build",
                   "no architecture given; for example `--target cuda:sm_90a`");
}

/* Schedules of a file become part of the output: reports an unreadable file. */
static int check_schedules(void) {
  Fault fault = {0};
  if (cuda_schedules_check(&fault))
    return -1;
  fprintf(stderr, "axon build: %s\n", fault.message);
  return EXIT_DIAGNOSTICS;
}

/* Returns -1 if valid, otherwise the exit status. */
static int check_extension(const BuildOutput *t) {
  bool is_gpu_extension = has_extension(t, "cu") || has_extension(t, "ptx") ||
                          has_extension(t, "cubin");
  if (is_gpu_extension && !t->arch_count)
    return usage_error(
        "build",
        "a .%s file needs a GPU target, for example --target cuda:sm_90a",
        t->extension);
  if (t->arch_count && (has_extension(t, "") || has_extension(t, "c")))
    return usage_error("build", "for a GPU target, -o needs a name that ends "
                                "in .cu, .ptx, .cubin, .o, .a or .so");
  if (is_gpu_extension && t->arch_count > 1)
    return usage_error(
        "build",
        "a .%s file has one architecture; for several, use .so, .a or .o",
        t->extension);
  return t->arch_count ? check_schedules() : -1;
}

static int parse_output(const char *output, BuildOutput *t) {
  const char *slash = strrchr(output, '/'), *name = slash ? slash + 1 : output;
  const char *dot = strrchr(name, '.');
  for (size_t k = 0; dot && k < ARRAY_LEN(extensions); k++)
    if (strcmp(dot + 1, extensions[k]) == 0)
      t->extension = extensions[k];
  if (!dot) {
    dot = name + strlen(name);
    t->extension = "";
  }
  if (!t->extension || !*name)
    return usage_error("build",
                       "-o needs a name that ends in .c, .o, .a or .so, or has "
                       "no extension (an executable); found `%s`",
                       output);
  int status = check_extension(t);
  if (status >= 0)
    return status;
  snprintf(t->stem, sizeof t->stem, "%.*s", (int)(dot - output), output);
  snprintf(t->module, sizeof t->module, "%.*s", (int)(dot - name), name);
  if (has_extension(t, ""))
    snprintf(t->module, sizeof t->module, "axon");
  if (!is_identifier(t->module) || strlen(output) + 8 > sizeof t->stem)
    return usage_error("build",
                       "`%s` is not a valid C name: use letters, digits and _, "
                       "as in -o model.%s",
                       t->module, t->extension);
  return -1;
}

static bool report_failed(const char *path, const char *what) {
  fprintf(stderr, "axon build: cannot %s %s: %s\n", what, path,
          strerror(errno));
  return false;
}

static bool write_file(const char *path, const Buffer *text) {
  return atomic_write(path, text) || report_failed(path, "write");
}

/* ---- compiling ---- */

enum { MAX_WORDS = MAX_COMPILER_ARGS + 32, POLL_INTERVAL_NS = 5000000 };

typedef struct Command {
  const char *words[MAX_WORDS];
  uint32_t count;
} Command;

static void add_word(Command *c, const char *word) {
  if (c->count + 1 < MAX_WORDS)
    c->words[c->count++] = word;
}

/* Starts a command in a process group of its own: a compiler consists of
   several processes, which Ctrl-C ends together. */
static bool spawn(Command *c, pid_t *pid) {
  posix_spawnattr_t attributes;
  c->words[c->count] = NULL;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  errno = posix_spawnp(pid, c->words[0], NULL, &attributes,
                       (char *const *)(uintptr_t)c->words, environ);
  posix_spawnattr_destroy(&attributes);
  return !errno || report_failed(c->words[0], "run");
}

/* Polls, since Ctrl-C may arrive before waiting for a signal could begin. */
static bool run_command(const Session *session, Command *c) {
  pid_t pid, ended;
  int status;
  if (!spawn(c, &pid))
    return false;
  while ((ended = waitpid(pid, &status, WNOHANG)) == 0 &&
         !session_interrupted(session))
    nanosleep(&(struct timespec){.tv_nsec = POLL_INTERVAL_NS}, NULL);
  if (ended == 0) {
    kill(-pid, SIGTERM);
    waitpid(pid, &status, 0);
    return false;
  }
  if (ended < 0)
    return report_failed(c->words[0], "wait for");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return true;
  if (WIFSIGNALED(status))
    fprintf(stderr, "axon build: %s was ended by signal %d (%s)\n", c->words[0],
            WTERMSIG(status), strsignal(WTERMSIG(status)));
  else
    fprintf(stderr, "axon build: %s failed\n", c->words[0]);
  return false;
}

/* Uses the flags that kernels need: their meaning must not depend on user
   flags. */
static void add_compiler(Command *c) {
  static const char *const flags[] = {
#if defined(__x86_64__) || defined(__i386__)
    "-march=native",
#elif defined(__aarch64__)
    "-mcpu=native",
#endif
    "-O2",
    "-ftree-vectorize",
    "-std=c11",
    "-fPIC",
    "-fwrapv",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-Wno-psabi",
    "-pthread",
    "-DAXON_PTHREADS"
  };
  const Toolchain *chain = toolchain();
  for (uint32_t k = 0; k < chain->user_arg_count; k++)
    add_word(c, chain->args[k]);
  for (size_t k = 0; k < ARRAY_LEN(flags); k++)
    add_word(c, flags[k]);
}

/* True if the command has created its output.  A command that succeeds need not
   be a compiler. */
static bool output_exists(const Command *c, const char *path) {
  struct stat info;
  if (stat(path, &info) == 0)
    return true;
  fprintf(stderr,
          "axon build: %s succeeded, but wrote no file; set AXON_CC to a C "
          "compiler\n",
          c->words[0]);
  return false;
}

static bool compile(const BuildOutput *t, const char *folder,
                    const char *source, const char *object,
                    const char *output) {
  const Session *session = t->session;
  bool shared = has_extension(t, "so"), archive = has_extension(t, "a");
  Command cc = {.count = 0}, ar = {.count = 0};
  const char *produced_path = archive ? object : output;
  add_compiler(&cc);
  if (!has_extension(t, ""))
    add_word(&cc, shared ? "-shared" : "-c");
  for (const char *const *w =
           (const char *const[]){"-I", folder, "-o", produced_path, source,
                                 NULL};
       *w; w++)
    add_word(&cc, *w);
  if (shared || has_extension(t, "")) {
    add_word(&cc, "-lm");
    add_word(&cc, "-Wl,-z,noseparate-code"); /* see backend/cpu/toolchain.c */
  }
  if (shared && t->arch_count)
    add_word(&cc, "-ldl");
  if (!run_command(session, &cc) || !output_exists(&cc, produced_path))
    return false;
  if (!archive)
    return true;
  for (const char *const *w =
           (const char *const[]){"ar", "rcs", output, object, NULL};
       *w; w++)
    add_word(&ar, *w);
  return run_command(session, &ar);
}

/* Rejects a folder, a device or a pipe, and a folder that cannot be written to,
   before the work begins.  Returns -1 if valid. */
static int check_output_path(const char *output) {
  struct stat info;
  char folder[PATH_MAX];
  const char *slash = strrchr(output, '/');
  if (stat(output, &info) == 0 && !S_ISREG(info.st_mode))
    return usage_error("build", "%s is not a regular file: -o would replace it",
                       output);
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - output) + 1 : 1,
           slash ? output : ".");
  if (access(folder, W_OK | X_OK) == 0)
    return -1;
  report_failed(output, "write");
  return EXIT_DIAGNOSTICS;
}

static int check_entries(const Options *o) {
  for (uint32_t i = 0; i < o->entry_count; i++)
    for (uint32_t k = 0; k < i; k++)
      if (strcmp(o->entries[i], o->entries[k]) == 0)
        return usage_error("build", "duplicate --entry '%s'", o->entries[i]);
  return -1;
}

typedef struct BuildDir { /* directory of the source and intermediate files */
  TempDir dir;
  char source[PATH_MAX + 300], header[PATH_MAX + 300], object[PATH_MAX + 300];
  char made[PATH_MAX + 300];
} BuildDir;

static bool make_build_dir(const BuildOutput *t, BuildDir *f) {
  const char *tmp = getenv("TMPDIR");
  tmp = tmp && *tmp == '/' ? tmp : "/tmp";
  TrustFailure failure;
  if (!temp_dir_create(&f->dir, tmp, "build", false, &failure)) {
    fprintf(stderr,
            "axon build: cannot create a folder in %s: %s%s%s; set TMPDIR to "
            "another one\n",
            tmp, failure.is_untrusted ? failure.path : "",
            failure.is_untrusted ? ": " : "", failure.reason);
    return false;
  }
  snprintf(f->source, sizeof f->source, "%s/%s.c", f->dir.path, t->module);
  snprintf(f->header, sizeof f->header, "%s/%s.h", f->dir.path, t->module);
  snprintf(f->object, sizeof f->object, "%s/%s.o", f->dir.path, t->module);
  snprintf(f->made, sizeof f->made, "%s/%s.made", f->dir.path, t->module);
  return true;
}

static bool compile_source(const BuildOutput *t, const Buffer *text,
                           const Buffer *header, const char *output) {
  BuildDir f;
  if (!toolchain()->found) {
    fprintf(stderr,
            "axon build: no C compiler (%s): set AXON_CC, or use `-o %s.c`, "
            "which needs none\n",
            toolchain()->name, t->module);
    return false;
  }
  if (!make_build_dir(t, &f))
    return false;
  bool good = write_file(f.source, text) && write_file(f.header, header) &&
              compile(t, f.dir.path, f.source, f.object, f.made) &&
              (host_move(f.made, output) || report_failed(output, "write"));
  temp_dir_remove(&f.dir);
  return good;
}

/* Writes a relocatable pkg-config file.  If the name of the library does not
   begin with lib, `-l:` names its file. */
static bool write_pkg_config(const BuildOutput *t) {
  bool named = strncmp(t->module, "lib", 3) == 0 && t->module[3];
  char path[PATH_MAX + 8];
  Buffer text = {0};
  snprintf(path, sizeof path, "%s.pc", t->stem);
  buffer_printf(&text,
                "Name: %s\nDescription: Functions written by axon build\n"
                "Version: 0\nCflags: -I${pcfiledir}\n"
                "Libs: -L${pcfiledir} ",
                t->module);
  if (named)
    buffer_printf(&text, "-l%s", t->module + 3);
  else
    buffer_printf(&text, "-l:%s.%s", t->module, t->extension);
  buffer_printf(&text, "%s -lm -pthread\n", t->arch_count ? " -ldl" : "");
  bool good = write_file(path, &text);
  buffer_free(&text);
  return good;
}

/* ---- GPUs ---- */

static bool compile_device(const char *arch, bool ptx, const Buffer *text,
                           CompiledCode *out) {
  Fault fault = {0};
  bool found;
  const Nvrtc *n = nvrtc(&fault);
  const KernelSource t = {
      .source = text->text, .name = "module.cu", .arch = arch, .want_ptx = ptx};
  *out = (CompiledCode){0};
  if (n && code_cache_compile(n, &t, out, &found, &fault))
    return true;
  fprintf(stderr, "axon build: %s\nhelp: %s\n", fault.message, fault.help);
  return false;
}

/* Writes a cubin as a C array of words, since arrays of bytes compile
   slowly. */
static void put_cubin_array(Buffer *out, uint32_t number,
                            const CompiledCode *code) {
  size_t words = (code->size + 7) / 8;
  buffer_printf(out, "static const uint64_t image%u[] = {", number);
  for (size_t k = 0; k < words; k++) {
    uint64_t word = 0;
    size_t left = code->size - 8 * k;
    memcpy(&word, code->bytes + 8 * k, left < 8 ? left : 8);
    buffer_printf(out, "%s0x%llx,", k % 4 ? " " : "\n",
                  (unsigned long long)word);
  }
  buffer_puts(out, " 0};\n");
}

/* Writes the host code together with the cubins that it loads. */
static bool put_host_with_cubins(const BuildOutput *t, const BuildFiles *files,
                                 Buffer *out) {
  bool good = true;
  buffer_add(out, files->source.text, files->source.len);
  for (uint32_t k = 0; good && k < t->arch_count; k++) {
    CompiledCode code;
    good = compile_device(t->archs[k], false, &files->device_sources[k], &code);
    if (good)
      put_cubin_array(out, k, &code);
    compiled_code_free(&code);
  }
  buffer_puts(out, "static const void *const images[] = {");
  for (uint32_t k = 0; k < t->arch_count; k++)
    buffer_printf(out, "%simage%u", k ? ", " : "", k);
  buffer_puts(out, "};\nstatic int symbol_function(void **out, unsigned k) {\n"
                   "  return out && k ? 500 : 500;\n}\n");
  buffer_add(out, files->source_tail.text, files->source_tail.len);
  return good;
}

/* Writes one source for nvcc: the kernels are in a namespace, separate from the
   host code. nvcc's host pass does not define the architecture that the kernels
   test, so this source does.  PTX for an architecture with suffix "a" must be
   requested explicitly. */
static void put_cu_source(const BuildOutput *t, const BuildFiles *files,
                          Buffer *out) {
  const char *arch = t->archs[0] + strlen("sm_");
  long number = strtol(arch, NULL, 10);
  bool exact = arch[strlen(arch) - 1] == 'a';
  buffer_printf(out,
                "/* nvcc -gencode arch=compute_%s,code=sm_%s -std=c++17"
                " --fmad=false -c %s.cu */\n",
                arch, arch, t->module);
  buffer_add(out, files->source.text, files->source.len);
  buffer_puts(out, "static const void *const images[] = {NULL};\n"
                   "static int symbol_function(void **out, unsigned k);\n");
  buffer_add(out, files->source_tail.text, files->source_tail.len);
  buffer_printf(out,
                "\n/* ---- kernels; where the host's part is compiled they are"
                " only looked at ---- */\n\n#ifndef __CUDA_ARCH__\n"
                "#define HOST_PASS\n#define __CUDA_ARCH__ %ld\n",
                10 * number);
  if (exact)
    buffer_printf(out, "#define __CUDA_ARCH_FEAT_SM%ld_ALL\n", number);
  buffer_puts(out, "#endif\nnamespace device {\n");
  buffer_add(out, files->device_sources[0].text, files->device_sources[0].len);
  buffer_puts(out, "}\n#ifdef HOST_PASS\n#undef __CUDA_ARCH__\n");
  if (exact)
    buffer_printf(out, "#undef __CUDA_ARCH_FEAT_SM%ld_ALL\n", number);
  buffer_puts(out, "#endif\n\n");
  buffer_add(out, files->symbol_table.text, files->symbol_table.len);
}

static bool write_ptx_or_cubin(const BuildOutput *t, const char *output,
                               const BuildFiles *files) {
  CompiledCode code;
  bool ptx = has_extension(t, "ptx"),
       good =
           compile_device(t->archs[0], ptx, &files->device_sources[0], &code);
  Buffer text = {0};
  if (good)
    buffer_add(&text, code.bytes, ptx ? strlen(code.bytes) : code.size);
  compiled_code_free(&code);
  good = good && write_file(output, &text);
  buffer_free(&text);
  return good;
}

static bool write_cuda(const BuildOutput *t, const char *output,
                       const BuildFiles *files) {
  Buffer text = {0};
  bool good = true;
  if (has_extension(t, "ptx") || has_extension(t, "cubin"))
    return write_ptx_or_cubin(t, output, files);
  if (has_extension(t, "cu"))
    put_cu_source(t, files, &text);
  else
    good = put_host_with_cubins(t, files, &text);
  good = good && (has_extension(t, "cu")
                      ? write_file(output, &text)
                      : compile_source(t, &text, &files->header, output));
  buffer_free(&text);
  return good;
}

static bool write_output(const BuildOutput *t, const char *output,
                         const BuildFiles *files) {
  if (t->arch_count)
    return write_cuda(t, output, files);
  return has_extension(t, "c")
             ? write_file(output, &files->source)
             : compile_source(t, &files->source, &files->header, output);
}

/* Writes the files next to the output, after the output. */
static bool write_all(const BuildOutput *t, const char *output,
                      const BuildFiles *files) {
  char header[PATH_MAX + 8], manifest[PATH_MAX + 8];
  snprintf(header, sizeof header, "%s.h", t->stem);
  snprintf(manifest, sizeof manifest, "%s.json", t->stem);
  if (!write_output(t, output, files))
    return false;
  return has_extension(t, "") ||
         (write_file(header, &files->header) &&
          write_file(manifest, &files->manifest) &&
          ((!has_extension(t, "so") && !has_extension(t, "a")) ||
           write_pkg_config(t)));
}

int verb_build(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "build", "DEOdft", argc, argv);
  if (status >= 0)
    return status;
  if (o.arg_count != 1)
    return usage_error("build",
                       o.arg_count ? "expected one file" : "no file given");
  BuildOutput target = {.extension = NULL};
  if (!o.output)
    return usage_error("build", "no output given; for example `-o model.c`");
  status = o.target ? parse_archs(o.target, &target) : -1;
  if (status < 0)
    status = parse_output(o.output, &target);
  if (status < 0)
    status = check_output_path(o.output);
  if (status < 0)
    status = check_entries(&o);
  if (status >= 0)
    return status;
  SessionHost host = terminal_host(0, NULL);
  Session *session = terminal_open_session(&host);
  terminal_catch_interrupt(session, false);
  terminal_apply_defines(session, &o);
  BuildTarget kind = has_extension(&target, "c")  ? BUILD_PORTABLE
                     : has_extension(&target, "") ? BUILD_EXECUTABLE
                                                  : BUILD_NATIVE;
  SourceInput text = {.is_separate_module = false};
  Buffer program = {0};
  BuildFiles files;
  SessionStatus done = SESSION_ERROR;
  bool read = read_program_argument(o.args[0], &text, &program);
  target.session = session;
  if (read && target.arch_count)
    done =
        build_cuda_module(session, &text, target.module, o.entry_count,
                          o.entries, target.arch_count, target.archs, &files);
  else if (read)
    done = build_c_module(session, &text, target.module, o.entry_count,
                          o.entries, kind, &files);
  if (done == SESSION_OK && o.show_schedule && files.schedules.text)
    fputs(files.schedules.text, stdout);
  if (done != SESSION_INTERRUPTED)
    session_check_schedules(session);
  if (session_diags(session)->errors)
    done = SESSION_ERROR;
  terminal_report(session, false);
  terminal_match_defines(session, &o);
  if (done == SESSION_OK && !terminal_defines_matched(&o))
    done = SESSION_ERROR;
  if (done == SESSION_OK && !write_all(&target, o.output, &files))
    done = session_interrupted(session) ? SESSION_INTERRUPTED : SESSION_ERROR;
  status = terminal_finish(session, done, false);
  session_close(session);
  buffer_free(&program);
  return status;
}
