/* A compiler at work, in a process group and a folder of its own. */
#define _GNU_SOURCE
#include "backend/cpu/job.h"

#include "backend/cpu/cpu.h"
#include "runtime/tempdir.h"

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
  PATH = TEMPDIR_PATH + 16,
  OBJECT_MOST = 64 << 20,
  STOP_MS = 200, /* for a compiler to remove what it was writing */
};

struct Job {
  pid_t pid;
  int end; /* readable once the compiler and what it started have ended */
  TempDir dir;
  char source[PATH], object[PATH], log[PATH];
};

/* ---- its folder ---- */

bool job_is_kept(void) {
  const char *wanted = getenv("AXON_CC_DEBUG");
  return wanted && *wanted;
}

static bool write_all(int file, const char *text, size_t len) {
  while (len > 0) {
    ssize_t n = write(file, text, len);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    text += n;
    len -= (size_t)n;
  }
  return true;
}

/* The text begins with a line that says how wide vectors are; what it uses of
 * the prelude stands behind that. */
static bool write_text(int file, const char *text, size_t len) {
  static const char first[] = "#define W ";
  const char *line = memchr(text, '\n', len);
  if (!line || strncmp(text, first, strlen(first)) != 0)
    return write_all(file, text, len);
  size_t head = (size_t)(line + 1 - text);
  uint32_t width = (uint32_t)strtoul(text + strlen(first), NULL, 10);
  Buffer prelude = {0};
  bool good = prelude_write(&prelude, width, text + head, len - head) &&
              write_all(file, text, head) &&
              write_all(file, prelude.text, prelude.len) &&
              write_all(file, text + head, len - head);
  buffer_free(&prelude);
  return good;
}

static bool write_source(const Job *job, const char *text, size_t len) {
  int file = open(job->source, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0)
    return false;
  bool good = write_text(file, text, len);
  return close(file) == 0 && good;
}

static void tell(const Distrust *why) {
  trust_tell(why,
             "temporary files are put elsewhere, as others could change "
             "them",
             "let TMPDIR name a folder of your own, or one with the sticky "
             "bit, in folders that only you and root can write to");
}

static bool make_folder_in(Job *job, const char *base, const char *text,
                           size_t len) {
  Distrust why;
  if (!base || *base != '/')
    return false;
  if (!tempdir_make(&job->dir, base, "job", job_is_kept(), &why)) {
    tell(&why);
    return false;
  }
  snprintf(job->source, PATH, "%s/kernel.c", job->dir.path);
  snprintf(job->object, PATH, "%s/kernel.so", job->dir.path);
  snprintf(job->log, PATH, "%s/log", job->dir.path);
  if (write_source(job, text, len))
    return true;
  job->dir.kept = false;
  tempdir_remove(&job->dir);
  return false;
}

/* The first that can be written to and is not full. */
static bool make_folder(Job *job, const char *text, size_t len) {
  const char *bases[] = {getenv("AXON_CC_DEBUG"), getenv("TMPDIR"), "/tmp",
                         "/var/tmp", "/dev/shm"};
  for (size_t k = 0; k < ARRAY_LEN(bases); k++)
    if (make_folder_in(job, bases[k], text, len))
      return true;
  return false;
}

/* ---- its process ---- */

/* The compiler's own temporary files are to be in its folder, and what it says
 * in English. */
static const char **environment(const Job *job, char folder[PATH]) {
  size_t count = 0, kept = 0;
  while (environ[count])
    count++;
  const char **out = mem_try_alloc((count + 3) * sizeof *out);
  if (!out)
    return NULL;
  for (size_t k = 0; k < count; k++)
    if (strncmp(environ[k], "TMPDIR=", 7) != 0 &&
        strncmp(environ[k], "LC_ALL=", 7) != 0)
      out[kept++] = environ[k];
  snprintf(folder, PATH, "TMPDIR=%s", job->dir.path);
  out[kept++] = folder;
  out[kept] = "LC_ALL=C";
  return out;
}

/* Ctrl-C at the terminal is for us: a compiler that it ended would leave a
 * kernel that cannot be compiled.  What the host program made of signals is
 * none of the compiler's business. */
static void set_attributes(posix_spawnattr_t *attributes) {
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

static void set_files(posix_spawn_file_actions_t *actions, const Job *job,
                      int end) {
  posix_spawn_file_actions_init(actions);
  posix_spawn_file_actions_adddup2(actions, end, 1);
  posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(actions, 2, job->log,
                                   O_CREAT | O_WRONLY | O_APPEND, 0600);
}

static bool spawn(const Toolchain *tools, Job *job, int end) {
  const char *argv[TOOLCHAIN_WORDS + 8];
  char folder[PATH];
  uint32_t n = 0;
  for (; n < tools->word_count; n++)
    argv[n] = tools->words[n];
  argv[n++] = "-o";
  argv[n++] = job->object;
  argv[n++] = job->source;
  for (const char *const *l = toolchain_libraries; *l; l++)
    argv[n++] = *l;
  argv[n] = NULL;
  const char **env = environment(job, folder);
  if (!env)
    return false;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
  set_attributes(&attributes);
  set_files(&actions, job, end);
  int error = posix_spawn(&job->pid, tools->path, &actions, &attributes,
                          (char *const *)argv, (char *const *)env);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  mem_free(env);
  return error == 0;
}

Job *job_start(const Toolchain *tools, const char *text, size_t len,
               const char **why) {
  int ends[2];
  Job *job = mem_try_alloc(sizeof *job);
  *why = "there is no memory for it";
  if (!job)
    return NULL;
  *why = "there is no folder for temporary files that can be written to";
  if (!make_folder(job, text, len)) {
    mem_free(job);
    return NULL;
  }
  *why = "no process can be started";
  if (pipe2(ends, O_CLOEXEC) != 0) {
    tempdir_remove(&job->dir);
    mem_free(job);
    return NULL;
  }
  job->end = ends[0];
  bool good = spawn(tools, job, ends[1]);
  close(ends[1]);
  if (good)
    return job;
  job_free(job);
  return NULL;
}

bool job_is_done(const Job *job) {
  struct pollfd end = {.fd = job->end, .events = POLLIN};
  char said[256]; /* to its standard output, where nothing belongs */
  while (poll(&end, 1, 0) > 0)
    if (read(job->end, said, sizeof said) <= 0)
      return true;
  return false;
}

int job_end(const Job *job) {
  return job->end;
}

bool job_has(const Job *job, int file) {
  return file == job->end || file == job->dir.folder;
}

/* The first line in which the compiler says what is wrong, printable.  What
 * fails where a disk is full says so, and then other things. */
static void first_error(const Job *job, char *out, size_t size) {
  char text[4096] = "";
  int file = open(job->log, O_RDONLY | O_CLOEXEC);
  ssize_t n = file < 0 ? 0 : read(file, text, sizeof text - 1);
  if (file >= 0)
    close(file);
  text[n > 0 ? n : 0] = 0;
  const char *line = strstr(text, strerror(ENOSPC));
  if (!line)
    line = strstr(text, "error");
  while (line && line > text && line[-1] != '\n')
    line--;
  if (!line)
    line = text[0] ? text : "it said nothing";
  snprintf(out, size, "%.*s", (int)strcspn(line, "\n"), line);
  for (char *p = out; *p; p++)
    if (*p < ' ' || *p > '~')
      *p = '?';
}

/* A host program that ignores SIGCHLD, or waits for all its children, leaves
 * nothing to wait for: then the object says how it went. */
bool job_wait(Job *job, char *why, size_t size) {
  int status = 0;
  pid_t pid = job->pid;
  job->pid = 0;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) {
      status = 0;
      break;
    }
  if (WIFSIGNALED(status)) {
    snprintf(why, size, "the C compiler was ended by signal %d",
             WTERMSIG(status));
    return false;
  }
  if (WEXITSTATUS(status) == 0 && access(job->object, R_OK) == 0)
    return true;
  int len = WEXITSTATUS(status)
                ? snprintf(why, size,
                           "the C compiler failed (%d): ", WEXITSTATUS(status))
                : snprintf(why, size, "the C compiler made no file: ");
  first_error(job, why + len, size - (size_t)len);
  return false;
}

/* ---- what it made ---- */

const char *job_object(const Job *job) {
  return job->object;
}

const char *job_folder(const Job *job) {
  return job->dir.path;
}

void *job_read_object(const Job *job, size_t *len) {
  struct stat is;
  int file = open(job->object, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return NULL;
  char *bytes = NULL;
  *len = 0;
  if (fstat(file, &is) == 0 && is.st_size > 0 && is.st_size < OBJECT_MOST)
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

/* ---- its end ---- */

void job_stop(Job *job) {
  if (!job->pid)
    return;
  kill(-job->pid, SIGTERM);
  struct pollfd end = {.fd = job->end, .events = POLLIN};
  if (poll(&end, 1, STOP_MS) == 0)
    kill(-job->pid, SIGKILL);
  while (waitpid(job->pid, NULL, 0) < 0 && errno == EINTR)
    ;
  job->pid = 0;
}

void job_free(Job *job) {
  close(job->end);
  tempdir_remove(&job->dir);
  mem_free(job);
}

void job_disown(Job *job) {
  close(job->end);
  tempdir_disown(&job->dir);
  mem_free(job);
}
