/* axon build: functions of a program for programs in other languages. */
#define _GNU_SOURCE
#include "backend/cpu/toolchain.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/image.h"
#include "backend/cuda/override.h"
#include "cli/cli.h"
#include "runtime/tempdir.h"
#include "session/build.h"

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

typedef struct Target {
  char stem[PATH_MAX]; /* "out/m" */
  char module[256];    /* "m" */
  const char *kind;    /* "so"; "": a program */
  uint32_t arch_count; /* for GPUs of these; 0: for the CPU */
  const char *archs[BUILD_ARCHS];
  const Session *session;
} Target;

static bool is_kind(const Target *t, const char *kind) {
  return strcmp(t->kind, kind) == 0;
}

/* The name is also a prefix of names in C. */
static bool is_identifier(const char *name) {
  if (!*name || (*name >= '0' && *name <= '9'))
    return false;
  for (const char *p = name; *p; p++)
    if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_' ||
          (*p >= '0' && *p <= '9')))
      return false;
  return true;
}

/* What is made for GPUs has kinds of its own. */
static const char *const kinds[] = {"c", "o", "a", "so", "cu", "ptx", "cubin"};

/* "cuda:sm_80,sm_90a"; -1: good. */
static int find_archs(const char *name, Target *t) {
  static char list[256];
  Fault fault = {0};
  if (strcmp(name, "cuda") == 0)
    name = cuda_archs[0];
  else if (strncmp(name, "cuda:", 5) == 0)
    name += 5;
  else
    return strcmp(name, "cpu") == 0
               ? -1
               : usage_error("build", "--target is cpu, or cuda:sm_90a and the"
                             " like, not `%s`", name);
  snprintf(list, sizeof list, "%s", name);
  for (char *at = strtok(list, ","); at; at = strtok(NULL, ",")) {
    const char *arch = cuda_arch_named(at, &fault);
    if (!arch)
      return usage_error("build", "%s: %s", fault.message, fault.help);
    for (uint32_t k = 0; k < t->arch_count; k++)
      if (t->archs[k] == arch)
        return usage_error("build", "%s is named twice", arch);
    t->archs[t->arch_count++] = arch;
  }
  return t->arch_count ? -1 : usage_error("build", "which architecture?  As in "
                                          "`--target cuda:sm_90a`");
}

/* Schedules of a file are built in: one that cannot be read is told. */
static int check_schedules(void) {
  Fault fault = {0};
  if (override_good(&fault))
    return -1;
  fprintf(stderr, "axon build: %s\nhelp: %s\n", fault.message, fault.help);
  return 1;
}

/* -1: good; else the status to exit with. */
static int check_kind(const Target *t) {
  bool own = is_kind(t, "cu") || is_kind(t, "ptx") || is_kind(t, "cubin");
  if (own && !t->arch_count)
    return usage_error("build", "what ends in .%s is for GPUs: --target "
                       "cuda:sm_90a says which", t->kind);
  if (t->arch_count && (is_kind(t, "") || is_kind(t, "c")))
    return usage_error("build", "for GPUs -o wants a name that ends in .cu, "
                       ".ptx, .cubin, .o, .a or .so");
  if (own && t->arch_count > 1)
    return usage_error("build", "what ends in .%s is for one architecture: "
                       "several go into .so, .a and .o", t->kind);
  return t->arch_count ? check_schedules() : -1;
}

static int find_target(const char *output, Target *t) {
  const char *slash = strrchr(output, '/'), *name = slash ? slash + 1 : output;
  const char *dot = strrchr(name, '.');
  for (size_t k = 0; dot && k < ARRAY_LEN(kinds); k++)
    if (strcmp(dot + 1, kinds[k]) == 0)
      t->kind = kinds[k];
  if (!dot) {
    dot = name + strlen(name);
    t->kind = "";
  }
  if (!t->kind || !*name)
    return usage_error("build", "-o wants a name that ends in .c, .o, .a or "
                       ".so, or for a program in none of these, not `%s`",
                       output);
  int status = check_kind(t);
  if (status >= 0)
    return status;
  snprintf(t->stem, sizeof t->stem, "%.*s", (int)(dot - output), output);
  snprintf(t->module, sizeof t->module, "%.*s", (int)(dot - name), name);
  if (is_kind(t, ""))
    snprintf(t->module, sizeof t->module, "axon");
  if (!is_identifier(t->module) || strlen(output) + 8 > sizeof t->stem)
    return usage_error("build", "`%s` is no name that C could give a function:"
                       " letters, digits and _, as in -o model.%s", t->module,
                       t->kind);
  return -1;
}

static bool failed(const char *path, const char *what) {
  fprintf(stderr, "axon build: cannot %s %s: %s\n", what, path,
          strerror(errno));
  return false;
}

static bool write_file(const char *path, const Buffer *text) {
  return host_write(path, text) || failed(path, "write");
}

/* ---- compiling ---- */

enum { WORDS_MOST = TOOLCHAIN_WORDS + 32, LOOK_NS = 5000000 };

typedef struct Command {
  const char *words[WORDS_MOST];
  uint32_t count;
} Command;

static void add(Command *c, const char *word) {
  if (c->count + 1 < WORDS_MOST)
    c->words[c->count++] = word;
}

/* In a group of its own: a compiler is several processes, which Ctrl-C ends
 * together. */
static bool start(Command *c, pid_t *pid) {
  posix_spawnattr_t attributes;
  c->words[c->count] = NULL;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  errno = posix_spawnp(pid, c->words[0], NULL, &attributes,
                       (char *const *)(uintptr_t)c->words, environ);
  posix_spawnattr_destroy(&attributes);
  return !errno || failed(c->words[0], "run");
}

/* Looks again and again: Ctrl-C may come before it could wait for a signal. */
static bool run(const Session *session, Command *c) {
  pid_t pid, ended;
  int status;
  if (!start(c, &pid))
    return false;
  while ((ended = waitpid(pid, &status, WNOHANG)) == 0 &&
         !session_interrupted(session))
    nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
  if (ended == 0) {
    kill(-pid, SIGTERM);
    waitpid(pid, &status, 0);
    return false;
  }
  if (ended < 0)
    return failed(c->words[0], "wait for");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return true;
  if (WIFSIGNALED(status))
    fprintf(stderr, "axon build: %s was ended by signal %d (%s)\n",
            c->words[0], WTERMSIG(status), strsignal(WTERMSIG(status)));
  else
    fprintf(stderr, "axon build: %s failed\n", c->words[0]);
  return false;
}

/* As kernels are compiled: what they mean is no matter of flags. */
static void add_compiler(Command *c) {
  static const char *const flags[] = {
#if defined(__x86_64__) || defined(__i386__)
      "-march=native",
#elif defined(__aarch64__)
      "-mcpu=native",
#endif
      "-O2", "-ftree-vectorize", "-std=c11", "-fPIC", "-fwrapv",
      "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
      "-Wno-psabi", "-pthread", "-DAXON_PTHREADS"};
  const Toolchain *chain = toolchain();
  for (uint32_t k = 0; k < chain->own_words; k++)
    add(c, chain->words[k]);
  for (size_t k = 0; k < ARRAY_LEN(flags); k++)
    add(c, flags[k]);
}

/* Not each command that succeeds is a compiler. */
static bool did_make(const Command *c, const char *path) {
  struct stat info;
  if (stat(path, &info) == 0)
    return true;
  fprintf(stderr,
          "axon build: %s ended well, but made no file: is it a C compiler? "
          "AXON_CC names one\n",
          c->words[0]);
  return false;
}

static bool compile(const Target *t, const char *folder, const char *source,
                    const char *object, const char *output) {
  const Session *session = t->session;
  bool shared = is_kind(t, "so"), archive = is_kind(t, "a");
  Command cc = {.count = 0}, ar = {.count = 0};
  const char *made = archive ? object : output;
  add_compiler(&cc);
  if (!is_kind(t, ""))
    add(&cc, shared ? "-shared" : "-c");
  for (const char *const *w = (const char *const[]){"-I", folder, "-o", made,
                                                   source, NULL};
       *w; w++)
    add(&cc, *w);
  if (shared || is_kind(t, ""))
    add(&cc, "-lm");
  if (shared && t->arch_count)
    add(&cc, "-ldl");
  if (!run(session, &cc) || !did_make(&cc, made))
    return false;
  if (!archive)
    return true;
  for (const char *const *w = (const char *const[]){"ar", "rcs", output, object,
                                                   NULL};
       *w; w++)
    add(&ar, *w);
  return run(session, &ar);
}

/* A folder, a device or a pipe is no place for it, nor one that nothing can be
 * put into: that is told before all the work.  -1: good. */
static int check_place(const char *output) {
  struct stat info;
  char folder[PATH_MAX];
  const char *slash = strrchr(output, '/');
  if (stat(output, &info) == 0 && !S_ISREG(info.st_mode))
    return usage_error("build", "%s is no file: -o would put one in its place",
                       output);
  snprintf(folder, sizeof folder, "%.*s",
           slash ? (int)(slash - output) + 1 : 1, slash ? output : ".");
  if (access(folder, W_OK | X_OK) == 0)
    return -1;
  failed(output, "write");
  return EXIT_DIAGNOSTICS;
}

static int check_entries(const Options *o) {
  for (uint32_t i = 0; i < o->entry_count; i++)
    for (uint32_t k = 0; k < i; k++)
      if (strcmp(o->entries[i], o->entries[k]) == 0)
        return usage_error("build", "--entry '%s' is there twice",
                           o->entries[i]);
  return -1;
}

typedef struct Folder { /* of the text and what is made on the way */
  TempDir dir;
  char source[PATH_MAX + 300], header[PATH_MAX + 300], object[PATH_MAX + 300];
  char made[PATH_MAX + 300];
} Folder;

static bool make_folder(const Target *t, Folder *f) {
  const char *tmp = getenv("TMPDIR");
  tmp = tmp && *tmp == '/' ? tmp : "/tmp";
  Distrust why;
  if (!tempdir_make(&f->dir, tmp, "build", false, &why)) {
    fprintf(stderr,
            "axon build: no folder can be made in %s: %s%s%s; TMPDIR names "
            "another one\n",
            tmp, why.distrusted ? why.path : "", why.distrusted ? ": " : "",
            why.why);
    return false;
  }
  snprintf(f->source, sizeof f->source, "%s/%s.c", f->dir.path, t->module);
  snprintf(f->header, sizeof f->header, "%s/%s.h", f->dir.path, t->module);
  snprintf(f->object, sizeof f->object, "%s/%s.o", f->dir.path, t->module);
  snprintf(f->made, sizeof f->made, "%s/%s.made", f->dir.path, t->module);
  return true;
}

static bool compile_text(const Target *t, const Buffer *text,
                         const Buffer *header, const char *output) {
  Folder f;
  if (!toolchain()->found) {
    fprintf(stderr, "axon build: there is no C compiler (%s): AXON_CC names "
            "one, and `-o %s.c` needs none\n", toolchain()->name, t->module);
    return false;
  }
  if (!make_folder(t, &f))
    return false;
  bool good = write_file(f.source, text) && write_file(f.header, header) &&
              compile(t, f.dir.path, f.source, f.object, f.made) &&
              (host_move(f.made, output) || failed(output, "write"));
  tempdir_remove(&f.dir);
  return good;
}

/* So that it may be moved, with what is beside it.  Of a file whose name does
 * not begin with lib, -l: is the way to say which. */
static bool write_package(const Target *t) {
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
    buffer_printf(&text, "-l:%s.%s", t->module, t->kind);
  buffer_printf(&text, "%s -lm -pthread\n", t->arch_count ? " -ldl" : "");
  bool good = write_file(path, &text);
  buffer_free(&text);
  return good;
}

/* ---- GPUs ---- */

static bool compile_device(const char *arch, bool ptx, const Buffer *text,
                           CudaCode *out) {
  Fault fault = {0};
  bool found;
  const Nvrtc *n = nvrtc(&fault);
  const CudaText t = {
      .text = text->text, .name = "module.cu", .arch = arch, .ptx = ptx};
  *out = (CudaCode){0};
  if (n && cuda_image(n, &t, out, &found, &fault))
    return true;
  fprintf(stderr, "axon build: %s\nhelp: %s\n", fault.message, fault.help);
  return false;
}

/* An image as C: of words, as files of bytes take long to read. */
static void put_image(Buffer *out, uint32_t number, const CudaCode *code) {
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

/* The host's part with the code that it loads. */
static bool put_images(const Target *t, const BuildFiles *files, Buffer *out) {
  bool good = true;
  buffer_add(out, files->source.text, files->source.len);
  for (uint32_t k = 0; good && k < t->arch_count; k++) {
    CudaCode code;
    good = compile_device(t->archs[k], false, &files->device[k], &code);
    if (good)
      put_image(out, k, &code);
    cuda_code_free(&code);
  }
  buffer_puts(out, "static const void *const images[] = {");
  for (uint32_t k = 0; k < t->arch_count; k++)
    buffer_printf(out, "%simage%u", k ? ", " : "", k);
  buffer_puts(out, "};\nstatic int symbol_function(void **out, unsigned k) {\n"
                   "  return out && k ? 500 : 500;\n}\n");
  buffer_add(out, files->rest.text, files->rest.len);
  return good;
}

/* One text that nvcc takes: kernels in a namespace, apart from the host's.
 * Where the host's part is compiled nothing says what they are for, as they
 * ask; and PTX for what has an "a" has to be asked for as such. */
static void put_source(const Target *t, const BuildFiles *files, Buffer *out) {
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
  buffer_add(out, files->rest.text, files->rest.len);
  buffer_printf(out,
                "\n/* ---- kernels; where the host's part is compiled they are"
                " only looked at ---- */\n\n#ifndef __CUDA_ARCH__\n"
                "#define HOST_PASS\n#define __CUDA_ARCH__ %ld\n",
                10 * number);
  if (exact)
    buffer_printf(out, "#define __CUDA_ARCH_FEAT_SM%ld_ALL\n", number);
  buffer_puts(out, "#endif\nnamespace device {\n");
  buffer_add(out, files->device[0].text, files->device[0].len);
  buffer_puts(out, "}\n#ifdef HOST_PASS\n#undef __CUDA_ARCH__\n");
  if (exact)
    buffer_printf(out, "#undef __CUDA_ARCH_FEAT_SM%ld_ALL\n", number);
  buffer_puts(out, "#endif\n\n");
  buffer_add(out, files->symbols.text, files->symbols.len);
}

static bool write_code(const Target *t, const char *output,
                       const BuildFiles *files) {
  CudaCode code;
  bool ptx = is_kind(t, "ptx"),
       good = compile_device(t->archs[0], ptx, &files->device[0], &code);
  Buffer text = {0};
  if (good)
    buffer_add(&text, code.bytes, ptx ? strlen(code.bytes) : code.size);
  cuda_code_free(&code);
  good = good && write_file(output, &text);
  buffer_free(&text);
  return good;
}

static bool write_cuda(const Target *t, const char *output,
                       const BuildFiles *files) {
  Buffer text = {0};
  bool good = true;
  if (is_kind(t, "ptx") || is_kind(t, "cubin"))
    return write_code(t, output, files);
  if (is_kind(t, "cu"))
    put_source(t, files, &text);
  else
    good = put_images(t, files, &text);
  good = good && (is_kind(t, "cu") ? write_file(output, &text)
                                   : compile_text(t, &text, &files->header,
                                                  output));
  buffer_free(&text);
  return good;
}

static bool write_output(const Target *t, const char *output,
                         const BuildFiles *files) {
  if (t->arch_count)
    return write_cuda(t, output, files);
  return is_kind(t, "c")
             ? write_file(output, &files->source)
             : compile_text(t, &files->source, &files->header, output);
}

/* What is beside the output, once there is one. */
static bool write_all(const Target *t, const char *output,
                      const BuildFiles *files) {
  char header[PATH_MAX + 8], manifest[PATH_MAX + 8];
  snprintf(header, sizeof header, "%s.h", t->stem);
  snprintf(manifest, sizeof manifest, "%s.json", t->stem);
  if (!write_output(t, output, files))
    return false;
  return is_kind(t, "") ||
         (write_file(header, &files->header) &&
          write_file(manifest, &files->manifest) &&
          ((!is_kind(t, "so") && !is_kind(t, "a")) || write_package(t)));
}

int verb_build(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "build", "DEOt", argc, argv);
  if (status >= 0)
    return status;
  if (o.arg_count != 1)
    return usage_error("build", o.arg_count ? "one file at a time"
                                            : "which file?");
  Target target = {.kind = NULL};
  if (!o.output)
    return usage_error("build", "where to?  As in `-o model.c`");
  status = o.target ? find_archs(o.target, &target) : -1;
  if (status < 0)
    status = find_target(o.output, &target);
  if (status < 0)
    status = check_place(o.output);
  if (status < 0)
    status = check_entries(&o);
  if (status >= 0)
    return status;
  SessionHost host = host_terminal(0, NULL);
  Session *session = host_open(&host);
  host_catch_interrupt(session, false);
  host_apply_defines(session, &o);
  BuildTarget kind = is_kind(&target, "c")  ? BUILD_ANYWHERE
                     : is_kind(&target, "") ? BUILD_PROGRAM
                                            : BUILD_HERE;
  SessionText text = {.own_module = false};
  Buffer program = {0};
  BuildFiles files;
  SessionStatus done = SESSION_ERROR;
  bool read = host_text(o.args[0], &text, &program);
  target.session = session;
  if (read && target.arch_count)
    done = session_build_cuda(session, &text, target.module, o.entry_count,
                              o.entries, target.arch_count, target.archs,
                              &files);
  else if (read)
    done = session_build(session, &text, target.module, o.entry_count,
                         o.entries, kind, &files);
  host_report(session, false);
  host_note_defines(session, &o);
  if (done == SESSION_OK && !host_defines_met(&o))
    done = SESSION_ERROR;
  if (done == SESSION_OK && !write_all(&target, o.output, &files))
    done = session_interrupted(session) ? SESSION_INTERRUPTED : SESSION_ERROR;
  status = host_finish(session, done, false);
  session_close(session);
  buffer_free(&program);
  return status;
}
