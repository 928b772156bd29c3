/* axon build: functions of a program for programs in other languages. */
#define _GNU_SOURCE
#include "backend/cpu/toolchain.h"
#include "cli/cli.h"
#include "session/build.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- where to ---- */

typedef struct Target {
  char stem[PATH_MAX]; /* "out/m" */
  char module[256];    /* "m" */
  const char *kind;    /* "so"; "": a program */
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

/* -1: good; else the status to exit with. */
static int find_target(const char *output, Target *t) {
  static const char *const kinds[] = {"c", "o", "a", "so"};
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

enum { WORDS_MOST = TOOLCHAIN_WORDS + 32 };

typedef struct Command {
  const char *words[WORDS_MOST];
  uint32_t count;
} Command;

static void add(Command *c, const char *word) {
  if (c->count + 1 < WORDS_MOST)
    c->words[c->count++] = word;
}

static bool run(Command *c) {
  pid_t pid;
  int status;
  c->words[c->count] = NULL;
  errno = posix_spawnp(&pid, c->words[0], NULL, NULL,
                       (char *const *)(uintptr_t)c->words, environ);
  if (errno)
    return failed(c->words[0], "run");
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR)
      return failed(c->words[0], "wait for");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return true;
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

static bool compile(const Target *t, const char *folder, const char *source,
                    const char *object, const char *output) {
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
  if (!run(&cc))
    return false;
  if (!archive)
    return true;
  for (const char *const *w = (const char *const[]){"ar", "rcs", output, object,
                                                   NULL};
       *w; w++)
    add(&ar, *w);
  return run(&ar);
}

/* A folder, a device or a pipe is no place for it. */
static bool is_place(const char *output) {
  struct stat info;
  if (stat(output, &info) != 0 || S_ISREG(info.st_mode))
    return true;
  fprintf(stderr, "axon build: %s is no file: -o would put one in its place\n",
          output);
  return false;
}

/* A link stays a link. */
static bool put_in_place(const char *made, const char *output) {
  char *real = realpath(output, NULL);
  bool good = rename(made, real ? real : output) == 0;
  free(real);
  return good || failed(output, "write");
}

/* The text and what is made on the way lie in a folder of their own. */
static bool compile_text(const Target *t, const Buffer *text,
                         const char *output) {
  const char *tmp = getenv("TMPDIR");
  char folder[PATH_MAX], source[PATH_MAX + 300], object[PATH_MAX + 300];
  char include[PATH_MAX], made[PATH_MAX + 40];
  if (!toolchain()->found) {
    fprintf(stderr, "axon build: there is no C compiler (%s): AXON_CC names "
            "one, and `-o %s.c` needs none\n", toolchain()->name, t->module);
    return false;
  }
  snprintf(folder, sizeof folder, "%s/axon-build-XXXXXX",
           tmp && *tmp ? tmp : "/tmp");
  if (!mkdtemp(folder))
    return failed(folder, "make");
  snprintf(source, sizeof source, "%s/%s.c", folder, t->module);
  snprintf(object, sizeof object, "%s/%s.o", folder, t->module);
  const char *slash = strrchr(t->stem, '/');
  snprintf(include, sizeof include, "%.*s",
           slash ? (int)(slash - t->stem) + 1 : 1, slash ? t->stem : ".");
  snprintf(made, sizeof made, "%s.%ld.tmp", output, (long)getpid());
  bool good = write_file(source, text) &&
              compile(t, include, source, object, made) &&
              put_in_place(made, output);
  unlink(made);
  unlink(source);
  unlink(object);
  rmdir(folder);
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
  buffer_puts(&text, " -lm -pthread\n");
  bool good = write_file(path, &text);
  buffer_free(&text);
  return good;
}

static bool write_all(const Target *t, const char *output,
                      const BuildFiles *files) {
  char path[PATH_MAX + 8];
  if (is_kind(t, ""))
    return compile_text(t, &files->source, output);
  snprintf(path, sizeof path, "%s.h", t->stem);
  if (!write_file(path, &files->header))
    return false;
  snprintf(path, sizeof path, "%s.json", t->stem);
  if (!write_file(path, &files->manifest))
    return false;
  if ((is_kind(t, "so") || is_kind(t, "a")) && !write_package(t))
    return false;
  return is_kind(t, "c") ? write_file(output, &files->source)
                                   : compile_text(t, &files->source, output);
}

int verb_build(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "build", "DEO", argc, argv);
  if (status >= 0)
    return status;
  if (o.arg_count != 1)
    return usage_error("build", "which file?");
  Target target = {.kind = NULL};
  if (!o.output)
    return usage_error("build", "where to?  As in `-o model.c`");
  status = find_target(o.output, &target);
  if (status >= 0)
    return status;
  if (!is_place(o.output))
    return EXIT_USAGE;
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
  bool ok = host_text(o.args[0], &text, &program) &&
            session_build(session, &text, target.module, o.entry_count,
                          o.entries, kind, &files) == SESSION_OK;
  host_report(session, false);
  ok = ok && write_all(&target, o.output, &files);
  session_close(session);
  buffer_free(&program);
  return host_flush(ok ? EXIT_OK : EXIT_DIAGNOSTICS);
}
