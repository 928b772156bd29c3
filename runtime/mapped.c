/* Memory-mapped files as the elements of tensors.
 *
 * If such a file is truncated, or its disk fails, the system answers a read
 * with SIGBUS, in whatever thread.  The handler maps zeros there, so that the
 * reader continues, and records the loss.  The reader calls mapped_check before
 * it uses what it read.
 *
 * The handler reads a list that only grows; its entries are reused.  A signal
 * at any other address goes to the previous handler. */
#define _GNU_SOURCE
#include "runtime/fork_lock.h"
#include "runtime/internal.h"
#include "support/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct Mapped {
  /* read by the handler; the entry is unused if `end` is 0 */
  _Atomic uintptr_t begin, end;
  _Atomic bool lost; /* the content changed, or zeros replace a part of it */
  uint32_t refs;     /* readers and tensors that share the mapping */
  Mapped *next;
  struct stat was;
  int fd;     /* open, since to ask about a path takes ten times as long */
  char *path; /* as the user wrote it */
  void *note; /* what a reader has found in the file */
  void (*free_note)(void *note);
};

static Mapped *_Atomic all;
static _Atomic uint32_t live;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct sigaction before;
static uintptr_t page;

/* Guards changes of `all`. */
DEFINE_FORK_LOCK()

/* ---- the signal ---- */

static Mapped *find(uintptr_t at) {
  for (Mapped *m = atomic_load(&all); m; m = m->next)
    if (at < atomic_load(&m->end) && at >= atomic_load(&m->begin))
      return m;
  return NULL;
}

/* Maps zeros from `at` to the end of a truncated file. */
static bool put_zeros(Mapped *m, uintptr_t at) {
  at = at / page * page;
  atomic_store(&m->lost, true); /* before anybody can read a zero */
  return mmap((void *)at, atomic_load(&m->end) - at, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
              0) != MAP_FAILED;
}

/* Acts as if this handler did not exist. */
static void pass_on(int number, siginfo_t *info, void *context) {
  bool sent = info->si_code <= 0; /* sent by a process: no read has failed */
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(number, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
  } else if (!sent || before.sa_handler == SIG_DFL) {
    signal(number, SIG_DFL);
    if (sent)
      raise(number); /* otherwise the read fails again */
  }
}

static void handle(int number, siginfo_t *info, void *context) {
  int error = errno;
  Mapped *m = info->si_code > 0 ? find((uintptr_t)info->si_addr) : NULL;
  if (!m || !put_zeros(m, (uintptr_t)info->si_addr))
    pass_on(number, info, context);
  errno = error;
}

static void install_handler(void) {
  struct sigaction now = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
  page = (uintptr_t)sysconf(_SC_PAGESIZE);
  sigaction(SIGBUS, NULL, &before);
  now.sa_sigaction = handle;
  sigemptyset(&now.sa_mask);
  sigaction(SIGBUS, &now, NULL);
}

/* ---- the list of mapped files ---- */

static Mapped *take_entry(void) {
  Mapped *m = atomic_load(&all);
  while (m && m->path)
    m = m->next;
  if (m)
    return m;
  m = mem_try_alloc(sizeof *m);
  if (m) {
    m->next = atomic_load(&all);
    atomic_store(&all, m);
  }
  return m;
}

static void let_go(Mapped *m) {
  mem_free(m->path);
  m->path = NULL;
  if (m->fd >= 0)
    close(m->fd);
  if (m->note)
    m->free_note(m->note);
  m->note = NULL;
}

static bool fill(Mapped *m, int fd, const struct stat *is, const char *path) {
  size_t len = strlen(path) + 1;
  m->path = mem_try_alloc(len);
  if (m->path)
    memcpy(m->path, path, len);
  m->was = *is;
  m->fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  return m->path && m->fd >= 0;
}

static bool same_file(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool same_times(const struct stat *a, const struct stat *b) {
  return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
         a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* The mapping of the same file under the same name, if it has not changed.
 * Kernels never write to a mapped tensor, so all loads share one mapping. */
static Mapped *find_same(const struct stat *is, const char *path) {
  for (Mapped *m = atomic_load(&all); m; m = m->next)
    if (m->path && strcmp(m->path, path) == 0 && same_file(&m->was, is) &&
        same_times(&m->was, is) && !atomic_load(&m->lost))
      return m;
  return NULL;
}

static Mapped *map_new(int fd, const struct stat *is, const char *path,
                       size_t size, void **at) {
  errno = ENOMEM;
  Mapped *m = take_entry();
  /* private and writable: a tensor may be written, the file never is */
  *at = m && fill(m, fd, is, path) ? mmap(NULL, size, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_NORESERVE, fd, 0)
                                   : MAP_FAILED;
  if (*at == MAP_FAILED) {
    int error = errno;
    if (m)
      let_go(m);
    errno = error;
    m = NULL;
  } else {
    m->refs = 1;
    atomic_store(&m->lost, false);
    atomic_store(&m->begin, (uintptr_t)*at);
    atomic_store(&m->end, (uintptr_t)*at + (size + page - 1) / page * page);
    atomic_fetch_add(&live, 1);
  }
  return m;
}

Mapped *mapped_open(int fd, const char *path, size_t size, void **at) {
  struct stat is;
  pthread_once(&once, install_handler);
  if (fstat(fd, &is) != 0)
    return NULL;
  lock();
  Mapped *m = (size_t)is.st_size == size ? find_same(&is, path) : NULL;
  if (m) {
    m->refs++;
    *at = (void *)atomic_load(&m->begin);
  } else {
    m = map_new(fd, &is, path, size, at);
  }
  unlock();
  return m;
}

Mapped *mapped_retain(Mapped *m) {
  lock();
  m->refs++;
  unlock();
  return m;
}

void mapped_close(Mapped *m) {
  lock();
  if (--m->refs) {
    unlock();
    return;
  }
  uintptr_t begin = atomic_load(&m->begin), end = atomic_load(&m->end);
  atomic_store(&m->end, 0); /* other files may be mapped there from now on */
  munmap((void *)begin, end - begin);
  let_go(m);
  atomic_fetch_sub(&live, 1);
  unlock();
}

/* ---- notes ---- */

bool mapped_set_note(Mapped *m, void *note, void (*free_note)(void *note)) {
  lock();
  bool is_first = !m->note;
  if (is_first) {
    m->note = note;
    m->free_note = free_note;
  }
  unlock();
  return is_first;
}

void *mapped_note(Mapped *m) {
  lock();
  void *note = m->note;
  unlock();
  return note;
}

/* ---- queries ---- */

bool mapped_any(void) {
  return atomic_load_explicit(&live, memory_order_relaxed) != 0;
}

bool mapped_same(const Mapped *a, const Mapped *b) {
  return same_file(&a->was, &b->was) && same_times(&a->was, &b->was);
}

/* True if the file has changed.  A renamed file is still itself. */
static bool has_changed(const Mapped *m, bool *shorter) {
  struct stat is;
  if (fstat(m->fd, &is) != 0)
    return false;
  *shorter = is.st_size < m->was.st_size;
  return !same_times(&is, &m->was);
}

bool mapped_is_lost(const Mapped *m) {
  return atomic_load(&m->lost);
}

bool mapped_check(Mapped *m, Fault *fault) {
  bool shorter = false, changed = has_changed(m, &shorter);
  if (changed)
    atomic_store(&m->lost, true);
  if (!atomic_load(&m->lost))
    return true;
  fault_set(fault, "cannot read \"%.200s\": %s", m->path,
            shorter   ? "the file was truncated after it was loaded"
            : changed ? "the file was changed after it was loaded"
                      : "a part of the file is missing");
  fault->kind = FAULT_FILE;
  fault_set_help(
      fault,
      "load it again; to change a file in use, replace it by a new file");
  return false;
}

bool tensor_check(const Tensor *t, Fault *fault) {
  Mapped *m = tensor_mapped(t);
  return !m || mapped_check(m, fault);
}

bool files_check(Fault *fault) {
  bool good = true;
  if (!mapped_any())
    return true;
  lock();
  for (Mapped *m = atomic_load(&all); m && good; m = m->next)
    good = !m->path || mapped_check(m, fault);
  unlock();
  return good;
}
