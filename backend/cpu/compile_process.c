/* A compile process, in its own process group and folder. */
#define _GNU_SOURCE
#include "backend/cpu/compile_process.h"

#include "backend/cpu/cpu.h"
#include "runtime/temp_dir.h"
#include "support/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
  MAX_PATH_BYTES = TEMP_DIR_PATH_BYTES + 16,
  MAX_OBJECT_BYTES = 64 << 20,
  STOP_MS = 200, /* time for a compiler to remove its temporary files */
};

struct CompileProcess {
  pid_t pid;
  int exit_fd; /* readable once the compiler and its child processes have ended
                */
  TempDir dir;
  char source[MAX_PATH_BYTES], object[MAX_PATH_BYTES], log[MAX_PATH_BYTES];
};

/* ---- folder ---- */

bool compile_process_keeps_files(void) {
  const char *setting = getenv("AXON_CC_DEBUG");
  return setting && *setting;
}

static bool write_all(int file, const char *source, size_t len) {
  while (len > 0) {
    ssize_t n = write(file, source, len);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    source += n;
    len -= (size_t)n;
  }
  return true;
}

static const char head_text[] = "#define W ";

size_t compile_process_head_len(const char *source, size_t len) {
  const char *line = memchr(source, '\n', len);
  return line && strncmp(source, head_text, strlen(head_text)) == 0
             ? (size_t)(line + 1 - source)
             : 0;
}

/* The part of the prelude that the source uses is inserted after its head. */
static bool write_with_prelude(int file, const char *source, size_t len) {
  size_t head = compile_process_head_len(source, len);
  if (!head)
    return write_all(file, source, len);
  uint32_t width = (uint32_t)strtoul(source + strlen(head_text), NULL, 10);
  Buffer prelude = {0};
  bool succeeded =
      cpu_prelude_write(&prelude, width, source + head, len - head) &&
      write_all(file, source, head) &&
      write_all(file, prelude.text, prelude.len) &&
      write_all(file, source + head, len - head);
  buffer_free(&prelude);
  return succeeded;
}

static bool write_source(const CompileProcess *process, const char *source,
                         size_t len) {
  int file =
      open(process->source, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0)
    return false;
  bool succeeded = write_with_prelude(file, source, len);
  return close(file) == 0 && succeeded;
}

static void warn_untrusted_folder(const TrustFailure *reason) {
  trust_failure_warn(
      reason,
      "temporary files use another folder: other users could change them",
      "set TMPDIR to your own folder, or to one with the sticky bit; only you "
      "and root may write to its parent folders");
}

static bool try_folder(CompileProcess *process, const char *base,
                       const char *source, size_t len) {
  TrustFailure reason;
  if (!base || *base != '/')
    return false;
  if (!temp_dir_create(&process->dir, base, "job",
                       compile_process_keeps_files(), &reason)) {
    warn_untrusted_folder(&reason);
    return false;
  }
  snprintf(process->source, MAX_PATH_BYTES, "%s/kernel.c", process->dir.path);
  snprintf(process->object, MAX_PATH_BYTES, "%s/kernel.so", process->dir.path);
  snprintf(process->log, MAX_PATH_BYTES, "%s/log", process->dir.path);
  if (write_source(process, source, len))
    return true;
  process->dir.persistent = false;
  temp_dir_remove(&process->dir);
  return false;
}

/* Uses the first folder that is writable and not full. */
static bool make_folder(CompileProcess *process, const char *source,
                        size_t len) {
  const char *bases[] = {getenv("AXON_CC_DEBUG"), getenv("TMPDIR"), "/tmp",
                         "/var/tmp", "/dev/shm"};
  for (size_t k = 0; k < ARRAY_LEN(bases); k++)
    if (try_folder(process, bases[k], source, len))
      return true;
  return false;
}

/* ---- process ---- */

/* Puts temporary files of the compiler in its folder, and selects English
 * messages.  MALLOC_PERTURB_ finds mistakes in Axon, and costs a compiler a
 * tenth of its time. */
static const char **compiler_environment(const CompileProcess *process,
                                         char folder[MAX_PATH_BYTES]) {
  size_t environ_count = 0, used = 0;
  while (environ[environ_count])
    environ_count++;
  const char **out = mem_try_alloc((environ_count + 3) * sizeof *out);
  if (!out)
    return NULL;
  for (size_t k = 0; k < environ_count; k++)
    if (strncmp(environ[k], "TMPDIR=", 7) != 0 &&
        strncmp(environ[k], "LC_ALL=", 7) != 0 &&
        strncmp(environ[k], "MALLOC_PERTURB_=", 16) != 0)
      out[used++] = environ[k];
  snprintf(folder, MAX_PATH_BYTES, "TMPDIR=%s", process->dir.path);
  out[used++] = folder;
  out[used] = "LC_ALL=C";
  return out;
}

/* A separate process group: Ctrl-C at the terminal must not end the compiler,
 * since its kernel would then be recorded as failed.  Signal handlers and masks
 * of the host program are not inherited. */
static void set_spawn_attributes(posix_spawnattr_t *attributes) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  sigdelset(&all, SIGKILL);
  sigdelset(&all, SIGSTOP);
  posix_spawnattr_init(attributes);
  posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP |
                                           POSIX_SPAWN_SETSIGMASK |
                                           POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(attributes, 0);
  posix_spawnattr_setsigmask(attributes, &none);
  posix_spawnattr_setsigdefault(attributes, &all);
}

static void set_spawn_files(posix_spawn_file_actions_t *actions,
                            const CompileProcess *process, int end) {
  posix_spawn_file_actions_init(actions);
  posix_spawn_file_actions_adddup2(actions, end, 1);
  posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(actions, 2, process->log,
                                   O_CREAT | O_WRONLY | O_APPEND, 0600);
}

static bool spawn(const Toolchain *tools, CompileLevel level,
                  CompileLibraries libraries, CompileProcess *process,
                  int end) {
  const char *argv[MAX_COMPILER_ARGS + 16];
  char folder[MAX_PATH_BYTES];
  uint32_t n = 0;
  for (; n < tools->arg_count; n++)
    argv[n] = tools->args[n];
  const LevelFlags flags = toolchain_level_flags(level);
  for (uint32_t k = 0; k < ARRAY_LEN(flags.flag) && flags.flag[k]; k++)
    argv[n++] = flags.flag[k];
  argv[n++] = "-o";
  argv[n++] = process->object;
  argv[n++] = process->source;
  for (const char *const *l = toolchain_libraries;
       libraries == WITH_LIBRARIES && *l; l++)
    argv[n++] = *l;
  argv[n] = NULL;
  const char **env = compiler_environment(process, folder);
  if (!env)
    return false;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
  set_spawn_attributes(&attributes);
  set_spawn_files(&actions, process, end);
  int error = posix_spawn(&process->pid, tools->path, &actions, &attributes,
                          (char *const *)argv, (char *const *)env);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  mem_free(env);
  return error == 0;
}

CompileProcess *compile_process_start(const Toolchain *tools,
                                      CompileLevel level,
                                      CompileLibraries libraries,
                                      const char *source, size_t len,
                                      const char **reason) {
  int ends[2];
  CompileProcess *process = mem_try_alloc(sizeof *process);
  *reason = "out of memory";
  if (!process)
    return NULL;
  *reason = "no writable folder for temporary files";
  if (!make_folder(process, source, len)) {
    mem_free(process);
    return NULL;
  }
  *reason = "cannot start a process";
  if (pipe2(ends, O_CLOEXEC) != 0) {
    temp_dir_remove(&process->dir);
    mem_free(process);
    return NULL;
  }
  process->exit_fd = ends[0];
  bool succeeded = spawn(tools, level, libraries, process, ends[1]);
  close(ends[1]);
  if (succeeded)
    return process;
  compile_process_free(process);
  return NULL;
}

bool compile_process_has_exited(const CompileProcess *process) {
  struct pollfd end = {.fd = process->exit_fd, .events = POLLIN};
  char discarded[256]; /* its standard output, which should be empty */
  while (poll(&end, 1, 0) > 0)
    if (read(process->exit_fd, discarded, sizeof discarded) <= 0)
      return true;
  return false;
}

int compile_process_exit_fd(const CompileProcess *process) {
  return process->exit_fd;
}

bool compile_process_owns_fd(const CompileProcess *process, int file) {
  return file == process->exit_fd || file == process->dir.lock_fd;
}

/* The first line of the log that reports an error, printable.  A full disk is
 * reported first, since it causes other errors. */
static void first_error(const CompileProcess *process, char *out, size_t size) {
  char source[4096] = "";
  int file = open(process->log, O_RDONLY | O_CLOEXEC);
  ssize_t n = file < 0 ? 0 : read(file, source, sizeof source - 1);
  if (file >= 0)
    close(file);
  source[n > 0 ? n : 0] = 0;
  const char *line = strstr(source, strerror(ENOSPC));
  if (!line)
    line = strstr(source, "error");
  while (line && line > source && line[-1] != '\n')
    line--;
  if (!line)
    line = source[0] ? source : "it printed nothing";
  snprintf(out, size, "%.*s", (int)strcspn(line, "\n"), line);
  for (char *p = out; *p; p++)
    if (*p < ' ' || *p > '~')
      *p = '?';
}

/* A host program that ignores SIGCHLD, or waits for all its children, collects
 * the exit status.  Then the existence of the object decides. */
bool compile_process_wait(CompileProcess *process, char *reason, size_t size) {
  int status = 0;
  pid_t pid = process->pid;
  process->pid = 0;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) {
      status = 0;
      break;
    }
  if (WIFSIGNALED(status)) {
    snprintf(reason, size, "the C compiler was ended by signal %d",
             WTERMSIG(status));
    return false;
  }
  if (WEXITSTATUS(status) == 0 && access(process->object, R_OK) == 0)
    return true;
  int len = WEXITSTATUS(status)
                ? snprintf(reason, size,
                           "the C compiler failed (%d): ", WEXITSTATUS(status))
                : snprintf(reason, size, "the C compiler wrote no file: ");
  first_error(process, reason + len, size - (size_t)len);
  return false;
}

/* ---- result ---- */

const char *compile_process_object_path(const CompileProcess *process) {
  return process->object;
}

const char *compile_process_folder(const CompileProcess *process) {
  return process->dir.path;
}

void *compile_process_read_object(const CompileProcess *process, size_t *len) {
  struct stat is;
  int file = open(process->object, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return NULL;
  char *bytes = NULL;
  *len = 0;
  if (fstat(file, &is) == 0 && is.st_size > 0 && is.st_size < MAX_OBJECT_BYTES)
    bytes = mem_try_alloc((size_t)is.st_size);
  while (bytes && *len < (size_t)is.st_size) {
    ssize_t n = read(file, bytes + *len, (size_t)is.st_size - *len);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0) {
      mem_free(bytes);
      bytes = NULL;
      break;
    }
    *len += (size_t)n;
  }
  close(file);
  return bytes;
}

/* ---- termination ---- */

void compile_process_kill(CompileProcess *process) {
  if (!process->pid)
    return;
  kill(-process->pid, SIGTERM);
  struct pollfd end = {.fd = process->exit_fd, .events = POLLIN};
  if (poll(&end, 1, STOP_MS) == 0)
    kill(-process->pid, SIGKILL);
  while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR)
    ;
  process->pid = 0;
}

void compile_process_free(CompileProcess *process) {
  close(process->exit_fd);
  temp_dir_remove(&process->dir);
  mem_free(process);
}

void compile_process_forget(CompileProcess *process) {
  close(process->exit_fd);
  temp_dir_disown(&process->dir);
  mem_free(process);
}
