/* Objects: a table by the hash of their texts, and the processes that compile.
 *
 * Each job has a folder of its own for source, object and what the compiler
 * says, which goes when the job is done.  A job's compiler holds the other end
 * of a pipe, so its end can be waited for beside Ctrl-C, whatever the host
 * program does with SIGCHLD.  Nobody but who asks for objects looks after
 * jobs: there is no thread for it. */
#define _GNU_SOURCE
#include "backend/cpu/compiler.h"

#include "backend/cpu/job.h"
#include "backend/cpu/toolchain.h"
#include "runtime/notice.h"
#include "runtime/pool.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BUCKETS = 1024, LOOK_MS = 20 };

typedef enum State {
  STATE_NONE,
  STATE_WAITING, /* for a compiler */
  STATE_RUNNING,
  STATE_READY,
  STATE_FAILED,
} State;

struct Object {
  ArtifactKey key;
  State state;
  void *library;
  void *_Atomic kernel; /* its function `kernel`, once it was asked for */
  char *text;           /* until it is compiled */
  size_t len;
  Job *job;             /* while RUNNING */
  double seconds;       /* when that began; then how long it took */
  Object *next;         /* in its bucket */
  Object *other, *last; /* WAITING, RUNNING: in the list */
};

static const ArtifactKind kind = {"cpu", ".so"};

static struct {
  pthread_once_t once;
  pthread_mutex_t lock;
  Object *buckets[BUCKETS];
  Object *open; /* WAITING and RUNNING; the next to be started first */
  int running;
  bool left; /* to a child of fork: compilers_leave */
} table = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- what is told ---- */

static void tell_missing(const Toolchain *tools) {
  Notice n = {.code = 512};
  snprintf(n.message, sizeof n.message,
           "there is no C compiler: kernels are interpreted, which is slow");
  snprintf(n.note, sizeof n.note,
           "not found: %.200s; the last digits of floats may differ from those "
           "of compiled kernels",
           tools->name);
  snprintf(n.help, sizeof n.help,
           "install gcc or clang, or let AXON_CC name a compiler");
  notice_add(&n);
}

/* What the compiler says of the text is our fault; all else is of the machine,
 * which may be well again tomorrow.  `job` may be NULL: there is nowhere to
 * write. */
static void tell_failed(const char *why, const Job *job) {
  Notice n = {.code = 513};
  bool full = strstr(why, strerror(ENOSPC)) != NULL;
  bool ours = !full && strstr(why, "kernel.c:") != NULL;
  snprintf(n.message, sizeof n.message,
           "%sa kernel was not compiled, and is interpreted",
           ours ? "compiler bug: " : "");
  if (job && job_is_kept())
    snprintf(n.note, sizeof n.note, "%s\nkept in %.200s", why, job_folder(job));
  else
    snprintf(n.note, sizeof n.note, "%s", why);
  snprintf(n.help, sizeof n.help, "%s",
           full    ? "make room there, or let TMPDIR name another folder"
           : !ours ? "axon doctor tries the compiler; AXON_CC names another one"
           : job_is_kept()
               ? "please report it, with what was kept"
               : "AXON_CC_DEBUG=1 keeps the C text and what the compiler said");
  notice_add(&n);
}

/* ---- the table: all with the lock ---- */

static Object **bucket_of(ArtifactKey key) {
  return &table.buckets[key.word[0] % BUCKETS];
}

static Object *find(ArtifactKey key) {
  for (Object *o = *bucket_of(key); o; o = o->next)
    if (memcmp(&o->key, &key, sizeof key) == 0)
      return o;
  return NULL;
}

static void open_first(Object *o) {
  o->last = NULL;
  o->other = table.open;
  if (o->other)
    o->other->last = o;
  table.open = o;
}

static void close_one(Object *o) {
  *(o->last ? &o->last->other : &table.open) = o->other;
  if (o->other)
    o->other->last = o->last;
  o->other = o->last = NULL;
}

/* Behind all others: they were asked for before. */
static void open_last(Object *o) {
  Object *end = table.open;
  while (end && end->other)
    end = end->other;
  if (!end) {
    open_first(o);
    return;
  }
  end->other = o;
  o->last = end;
  o->other = NULL;
}

static bool load(Object *o, const char *path) {
  o->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  return o->library != NULL;
}

/* What was checked, whatever its path leads to by now.  The system takes a
 * name that it knows for the library that it knows, and numbers of descriptors
 * come again: so each name is another one, by how often it says "." and "/".
 */
static bool load_file(Object *o, int file) {
  static uint32_t loads;
  char name[160];
  int len = snprintf(name, sizeof name, "/proc/self/fd/");
  for (uint32_t n = ++loads; n; n >>= 1)
    len +=
        snprintf(name + len, sizeof name - (size_t)len, n & 1 ? ".//" : "./");
  snprintf(name + len, sizeof name - (size_t)len, "%d", file);
  return load(o, name);
}

static bool load_artifact(Object *o) {
  Artifact found;
  if (!artifact_find(&kind, o->key, &found))
    return false;
  bool good = load_file(o, found.file);
  artifact_close(&found);
  if (!good && access("/proc/self/fd", X_OK) == 0)
    artifact_drop(&found);
  return good;
}

/* ---- jobs ---- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void settle(Object *o, State state) {
  close_one(o);
  o->state = state;
  mem_free(o->text);
  o->text = NULL;
}

static void start(Object *o) {
  const char *why = NULL;
  o->seconds = now();
  o->job = job_start(toolchain(), o->text, o->len, &why);
  if (o->job) {
    o->state = STATE_RUNNING;
    table.running++;
    return;
  }
  tell_failed(why, NULL);
  settle(o, STATE_FAILED);
}

/* Straight from where it was made: to be found again is for others. */
static bool load_made(Object *o) {
  size_t len;
  void *bytes = job_read_object(o->job, &len);
  if (!bytes)
    return false;
  bool kept = artifact_keep(&kind, o->key, bytes, len);
  mem_free(bytes);
  /* the folder for temporary files may be one that nothing is run from */
  return load(o, job_object(o->job)) || (kept && load_artifact(o));
}

static void end(Object *o, bool good, const char *why) {
  table.running--;
  if (!good)
    tell_failed(why, o->job);
  job_free(o->job);
  o->job = NULL;
  o->seconds = now() - o->seconds;
  settle(o, good ? STATE_READY : STATE_FAILED);
}

static void finish(Object *o) {
  char why[300];
  bool good = job_wait(o->job, why, sizeof why);
  if (good && !(good = load_made(o))) {
    const char *error = dlerror();
    snprintf(why, sizeof why, "it cannot be loaded: %.200s",
             error ? error : "it cannot be read");
  }
  end(o, good, why);
}

/* A compiler that hangs is not waited for. */
static void give_up(Object *o) {
  char why[100];
  job_stop(o->job);
  snprintf(why, sizeof why,
           "the C compiler was stopped after %d s (AXON_CC_SECONDS)",
           toolchain()->seconds);
  end(o, false, why);
}

/* Ends what has ended, or takes too long, and starts what there is room for. */
static void look_after_jobs(void) {
  for (Object *o = table.open, *other; o; o = other) {
    other = o->other;
    if (o->state == STATE_RUNNING && job_is_done(o->job))
      finish(o);
    else if (o->state == STATE_RUNNING &&
             now() - o->seconds > toolchain()->seconds)
      give_up(o);
  }
  for (Object *o = table.open, *other; o; o = other) {
    other = o->other;
    if (table.running >= pool_threads())
      return;
    if (o->state == STATE_WAITING)
      start(o);
  }
}

/* A child of fork has no part in the compilers of its parent, unless it is
 * made to have. */
static void before_fork(void) {
  pthread_mutex_lock(&table.lock);
}

static void after_fork(void) {
  pthread_mutex_unlock(&table.lock);
}

static void disown_jobs(void) {
  for (Object *o = table.open; o; o = o->other)
    if (o->state == STATE_RUNNING) {
      job_disown(o->job);
      o->job = NULL;
      o->state = STATE_WAITING;
    }
  table.running = 0;
}

static void after_fork_child(void) {
  if (!table.left)
    disown_jobs();
  pthread_mutex_unlock(&table.lock);
}

static void set_up(void) {
  pthread_atfork(before_fork, after_fork, after_fork_child);
}

static void lock(void) {
  pthread_once(&table.once, set_up);
  pthread_mutex_lock(&table.lock);
}

static void unlock(void) {
  pthread_mutex_unlock(&table.lock);
}

/* Until a compiler ends; for a little while. */
static void poll_jobs(void) {
  struct pollfd ends[POOL_THREADS_MOST];
  nfds_t count = 0;
  lock();
  for (Object *r = table.open; r; r = r->other)
    if (r->state == STATE_RUNNING && count < POOL_THREADS_MOST)
      ends[count++] = (struct pollfd){.fd = job_end(r->job), .events = POLLIN};
  unlock();
  poll(ends, count, LOOK_MS);
}

/* ---- what is being compiled at the end of the process ---- */

/* Pages are not copied by fork, but their tables are, and nobody else gets
 * them before the child ends. */
static bool is_small(void) {
  enum { SMALL = 256 << 20 };
  long all = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  bool read = file && fscanf(file, "%ld %ld", &all, &resident) == 2;
  if (file)
    fclose(file);
  return read && resident < SMALL / sysconf(_SC_PAGESIZE);
}

/* What others wait to see closed, they need not wait for. */
static void close_files(void) {
  DIR *files = opendir("/proc/self/fd");
  for (struct dirent *entry; files && (entry = readdir(files));) {
    int fd = atoi(entry->d_name);
    bool ours = fd == dirfd(files) || entry->d_name[0] == '.';
    for (Object *o = table.open; o && !ours; o = o->other)
      ours = o->state == STATE_RUNNING && job_has(o->job, fd);
    if (!ours)
      close(fd);
  }
  if (files)
    closedir(files);
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    open("/dev/null", O_RDWR);
}

static void drop_waiting(void) {
  for (Object *o = table.open, *other; o; o = other) {
    other = o->other;
    if (o->state == STATE_WAITING)
      settle(o, STATE_FAILED);
  }
}

/* The child: nobody waits for it, and it is of no terminal. */
_Noreturn static void finish_alone(void) {
  sigset_t none;
  sigemptyset(&none);
  setsid();
  close_files();
  for (int signal_number = 1; signal_number < 32; signal_number++)
    signal(signal_number, SIG_DFL);
  pthread_sigmask(SIG_SETMASK, &none, NULL);
  artifact_counts_begin();
  drop_waiting();
  while (table.running > 0) {
    poll_jobs();
    lock();
    look_after_jobs();
    unlock();
  }
  artifact_counts_add();
  _exit(0);
}

void compilers_leave(void) {
  lock();
  table.left = table.running > 0 && is_small();
  bool left = table.left;
  unlock();
  pid_t child = left ? fork() : -1;
  if (child == 0)
    finish_alone();
  if (child < 0)
    return;
  lock();
  disown_jobs();
  unlock();
}

/* Whoever has not left them to others wants them no more. */
__attribute__((destructor)) static void end_jobs(void) {
  if (pthread_mutex_trylock(&table.lock) != 0)
    return;
  for (Object *o = table.open; o; o = o->other)
    if (o->state == STATE_RUNNING) {
      job_stop(o->job);
      job_free(o->job);
      o->job = NULL;
      o->state = STATE_FAILED;
    }
  unlock();
}

/* ---- the door ---- */

static ArtifactKey key_of(const char *text, size_t len) {
  const ArtifactPart parts[] = {{&toolchain()->key, sizeof(ArtifactKey)},
                                {text, len}};
  return artifact_key(ARRAY_LEN(parts), parts);
}

static Object *object_new(ArtifactKey key, const char *text, size_t len) {
  Object *o = mem_try_alloc(sizeof *o);
  char *copy = mem_try_alloc(len + 1);
  if (!o || !copy) {
    mem_free(o);
    mem_free(copy);
    return NULL;
  }
  memcpy(copy, text, len);
  *o = (Object){.key = key, .text = copy, .len = len, .state = STATE_WAITING};
  return o;
}

static Object *add(ArtifactKey key, const char *text, size_t len) {
  Object *o = object_new(key, text, len);
  if (!o)
    return NULL;
  Object **bucket = bucket_of(key);
  o->next = *bucket;
  *bucket = o;
  open_last(o);
  if (load_artifact(o)) {
    settle(o, STATE_READY);
  } else if (!toolchain()->found) {
    tell_missing(toolchain());
    settle(o, STATE_FAILED);
  } else {
    look_after_jobs();
  }
  return o;
}

Object *object_request(const char *text, size_t len) {
  ArtifactKey key = key_of(text, len);
  lock();
  Object *o = find(key);
  if (!o)
    o = add(key, text, len);
  unlock();
  if (!o)
    trap_raise(FAIL_MEMORY);
  return o;
}

static bool is_settled(const Object *o) {
  return o->state == STATE_READY || o->state == STATE_FAILED;
}

bool object_ready(Object *o) {
  lock();
  if (!is_settled(o))
    look_after_jobs();
  bool ready = is_settled(o);
  unlock();
  return ready;
}

/* With the lock, which it lets go of while it sleeps.  Some job is running
 * then, this one's or one that it waits for. */
static void wait_a_little(Object *o) {
  if (o->state == STATE_WAITING) { /* it is wanted most */
    close_one(o);
    open_first(o);
  }
  look_after_jobs();
  if (is_settled(o))
    return;
  unlock();
  poll_jobs(); /* Ctrl-C may come to another thread */
  interrupt_poll();
  lock();
}

double object_seconds(Object *o) {
  lock();
  double seconds = is_settled(o) ? o->seconds : 0;
  unlock();
  return seconds;
}

KernelFunction *object_kernel(Object *o) {
  void *found = atomic_load_explicit(&o->kernel, memory_order_acquire);
  if (!found) {
    found = object_function(o, "kernel");
    atomic_store_explicit(&o->kernel, found, memory_order_release);
  }
  return (KernelFunction *)found;
}

void *object_function(Object *o, const char *name) {
  lock();
  while (!is_settled(o))
    wait_a_little(o);
  void *library = o->library;
  unlock();
  return library ? dlsym(library, name) : NULL;
}
