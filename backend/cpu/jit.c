/* JIT objects: a hash table of compiled sources, and the compile processes.
 *
 * Each compile process has its own folder for source, object and compiler
 * output.  The folder is removed at the end.  The compiler inherits the write
 * end of a pipe.  So poll can wait for its end and for an interrupt, whatever
 * the host program does with SIGCHLD.  There is no thread that watches the
 * processes: callers of this file start and collect them. */
#define _GNU_SOURCE
#include "backend/cpu/jit.h"

#include "backend/cpu/compile_batch.h"
#include "backend/cpu/compile_process.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/toolchain.h"
#include "machine/limits/cpu.h"
#include "runtime/temp_dir.h"
#include "runtime/thread_pool.h"
#include "runtime/warn_once.h"
#include "support/clock.h"
#include "support/interrupt.h"
#include "support/mem.h"
#include "support/trap.h"

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
#include <unistd.h>

enum { HASH_BUCKETS = 1024 };

typedef enum JitState {
  JIT_DEFERRED, /* its quick object serves until the kernel is hot */
  JIT_WAITING,  /* for a free process slot */
  JIT_RUNNING,
  JIT_BATCHED, /* the process of another object compiles it, too */
  JIT_READY,
  JIT_FAILED,
} JitState;

struct JitObject {
  ArtifactKey key;
  CompileLevel level;
  JitState state;
  JitObject *quick;        /* compiled with little optimization; or NULL */
  JitObject *optimized;    /* of which this is the quick one; or NULL */
  double quick_operations; /* that the quick object has run */
  void *dl_handle;
  void *_Atomic kernel; /* the function `kernel`, once it was looked up */
  char *source;         /* until it is compiled */
  size_t source_len;
  CompileProcess *process;    /* if RUNNING */
  JitObject *batch_next;      /* RUNNING, BATCHED: of the same process */
  bool may_join;              /* a batch; false if one with it failed */
  CompileLibraries libraries; /* of its last process, or of the next one */
  bool is_batched;            /* the object is that of a batch */
  double
      seconds; /* RUNNING: start time; afterwards the time of the compilation */
  JitObject *bucket_next;           /* next in its bucket */
  JitObject *list_next, *list_prev; /* WAITING, RUNNING, BATCHED: in the list of
                                       pending objects */
};

static const ArtifactKind artifact_kind = {"cpu", ".so"};

static struct {
  pthread_once_t once;
  pthread_mutex_t lock;
  JitObject *buckets[HASH_BUCKETS];
  JitObject *pending; /* WAITING, RUNNING and BATCHED; the first one that waits
                         starts next */
  int running[COMPILE_OPTIMIZED + 1]; /* by level */
  double quick_end; /* when the last quick compilation ended */
  bool optimizes_always;
  bool needs_libraries; /* an object was useless without them */
  bool detached;        /* a child of fork finishes them: jit_detach */
} jit_objects = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- warnings ---- */

static void warn_no_compiler(const Toolchain *tools) {
  OnceWarning n = {.code = 512};
  snprintf(n.message, sizeof n.message,
           "there is no C compiler: kernels are interpreted, which is slow");
  snprintf(n.note, sizeof n.note,
           "not found: %.200s; the last digits of floats may differ from "
           "compiled kernels",
           tools->name);
  snprintf(n.help, sizeof n.help,
           "install gcc or clang, or set AXON_CC to a compiler");
  warn_once(&n);
}

/* A compiler error in kernel.c is a bug of Axon.  All other failures depend on
 * the machine and may be temporary. process: NULL if no folder could be
 * written. */
static void warn_compile_failed(const char *reason,
                                const CompileProcess *process) {
  OnceWarning n = {.code = 513};
  bool disk_is_full = strstr(reason, strerror(ENOSPC)) != NULL;
  bool is_our_bug = !disk_is_full && strstr(reason, "kernel.c:") != NULL;
  snprintf(n.message, sizeof n.message,
           "%sa kernel was not compiled: it is interpreted",
           is_our_bug ? "internal error: " : "");
  if (process && compile_process_keeps_files())
    snprintf(n.note, sizeof n.note, "%s\nkept in %.200s", reason,
             compile_process_folder(process));
  else
    snprintf(n.note, sizeof n.note, "%s", reason);
  snprintf(
      n.help, sizeof n.help, "%s",
      disk_is_full ? "free space there, or set TMPDIR to another folder"
      : !is_our_bug
          ? "run axon doctor to test the compiler; AXON_CC selects another one"
      : compile_process_keeps_files()
          ? "please report it, with the kept files"
          : "AXON_CC_DEBUG=1 keeps the C code and the compiler output");
  warn_once(&n);
}

/* ---- hash table; the caller holds the lock ---- */

static JitObject **bucket_of(ArtifactKey key) {
  return &jit_objects.buckets[key.word[0] % HASH_BUCKETS];
}

static JitObject *find_object(ArtifactKey key) {
  for (JitObject *o = *bucket_of(key); o; o = o->bucket_next)
    if (memcmp(&o->key, &key, sizeof key) == 0)
      return o;
  return NULL;
}

static void list_prepend(JitObject *o) {
  o->list_prev = NULL;
  o->list_next = jit_objects.pending;
  if (o->list_next)
    o->list_next->list_prev = o;
  jit_objects.pending = o;
}

static void list_remove(JitObject *o) {
  *(o->list_prev ? &o->list_prev->list_next : &jit_objects.pending) =
      o->list_next;
  if (o->list_next)
    o->list_next->list_prev = o->list_prev;
  o->list_next = o->list_prev = NULL;
}

/* Appends at the end: objects start in the order of their requests. */
static void list_append(JitObject *o) {
  JitObject *end = jit_objects.pending;
  while (end && end->list_next)
    end = end->list_next;
  if (!end) {
    list_prepend(o);
    return;
  }
  end->list_next = o;
  o->list_prev = end;
  o->list_next = NULL;
}

static void *find_suffixed(const JitObject *o, const char *name) {
  char suffix[BATCH_SUFFIX_BYTES], full[64];
  compile_batch_suffix(suffix, o->key.word[0]);
  snprintf(full, sizeof full, "%s%s", name, suffix);
  return dlsym(o->dl_handle, full);
}

/* In the object of a batch, functions have a suffix. */
static void *find_symbol(const JitObject *o, const char *name) {
  if (!o->dl_handle)
    return NULL;
  void *found = find_suffixed(o, name);
  return found ? found : dlsym(o->dl_handle, name);
}

static bool dl_load(JitObject *o, const char *path) {
  o->dl_handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  return o->dl_handle != NULL;
}

/* Closes the library of a batch that lacks the kernel of this object, and
 * returns false. */
static bool check_kernel(JitObject *o) {
  if (!o->is_batched || find_suffixed(o, "kernel"))
    return true;
  dlclose(o->dl_handle);
  o->dl_handle = NULL;
  return false;
}

/* Loads the file that was verified, whatever its path refers to now.  The
 * dynamic loader reuses a library with a known name, and descriptor numbers
 * repeat.  So each name is made unique by a different sequence of "./" and
 * ".//". */
static bool load_file(JitObject *o, int file) {
  static uint32_t loads;
  char name[160];
  int len = snprintf(name, sizeof name, "/proc/self/fd/");
  for (uint32_t n = ++loads; n; n >>= 1)
    len +=
        snprintf(name + len, sizeof name - (size_t)len, n & 1 ? ".//" : "./");
  snprintf(name + len, sizeof name - (size_t)len, "%d", file);
  return dl_load(o, name);
}

/* The artifact of an object in a batch, except the first one: it refers to the
 * artifact of the first object, which contains the kernels of all. */
typedef struct BatchReference {
  char magic[8];
  ArtifactKey first;
} BatchReference;

static const char reference_magic[8] = "axnbatch";

static bool read_reference(const Artifact *found, BatchReference *out) {
  return found->size == sizeof *out &&
         pread(found->fd, out, sizeof *out, 0) == (ssize_t)sizeof *out &&
         memcmp(out->magic, reference_magic, sizeof reference_magic) == 0;
}

static bool store_reference(const JitObject *o, const JitObject *first) {
  BatchReference r = {.first = first->key};
  memcpy(r.magic, reference_magic, sizeof reference_magic);
  return artifact_store(&artifact_kind, o->key, &r, sizeof r);
}

/* is_stale: the first artifact is missing or lacks this kernel, since the first
 * object was compiled again without the others. */
static void load_referenced(JitObject *o, const BatchReference *r,
                            bool *is_stale) {
  Artifact found;
  *is_stale = !artifact_open(&artifact_kind, r->first, &found);
  if (*is_stale)
    return;
  o->is_batched = true;
  bool loaded = load_file(o, found.fd);
  *is_stale = loaded && !check_kernel(o);
  o->is_batched = false;
  artifact_close(&found);
}

static bool load_artifact(JitObject *o) {
  Artifact found;
  BatchReference r;
  bool is_stale;
  if (!artifact_lookup(&artifact_kind, o->key, &found))
    return false;
  if (read_reference(&found, &r)) {
    load_referenced(o, &r, &is_stale);
  } else {
    is_stale = !(load_file(o, found.fd) && check_kernel(o)) &&
               access("/proc/self/fd", X_OK) == 0;
  }
  artifact_close(&found);
  if (is_stale)
    artifact_delete(&found);
  return o->dl_handle != NULL;
}

/* ---- compile processes ---- */

static void finish_object(JitObject *o, JitState state) {
  list_remove(o);
  o->state = state;
  mem_free(o->source);
  o->source = NULL;
}

/* Puts a deferred object in the list of those that wait for a process. */
static void enqueue(JitObject *o) {
  if (o->state != JIT_DEFERRED)
    return;
  o->state = JIT_WAITING;
  bool joins_level =
      o->level == COMPILE_QUICK || toolchain()->optimizes_batches;
  o->may_join = joins_level && compile_batch_accepts(o->source, o->source_len);
  list_append(o);
}

/* The optimizing compiler reports why it fails.  It may succeed where the quick
 * one fails. */
static void fail_object(JitObject *o, const char *reason) {
  if (o->optimized)
    enqueue(o->optimized);
  else
    warn_compile_failed(reason, o->process);
}

/* ---- batches ---- */

/* The number of sources for one process: the objects of this level that wait
 * are divided among as many processes as may run at a time, and
 * MAX_BATCH_KERNELS is the most. */
static uint32_t batch_size(CompileLevel level) {
  int64_t waiting = 0;
  for (const JitObject *o = jit_objects.pending; o; o = o->list_next)
    waiting += o->state == JIT_WAITING && o->level == level;
  int64_t fair_share = ceil_div(waiting, thread_pool_size());
  return (uint32_t)(fair_share < MAX_BATCH_KERNELS ? fair_share
                                                   : MAX_BATCH_KERNELS);
}

/* Adds objects that wait to the batch of the first one. */
static void gather_batch(JitObject *first) {
  uint32_t left = first->may_join ? batch_size(first->level) : 1;
  JitObject **end = &first->batch_next;
  for (JitObject *o = jit_objects.pending; o && left > 1; o = o->list_next) {
    if (o == first || o->state != JIT_WAITING || !o->may_join ||
        o->level != first->level ||
        !compile_batch_matches(first->source, o->source))
      continue;
    o->state = JIT_BATCHED;
    o->is_batched = first->is_batched = true;
    *end = o;
    end = &o->batch_next;
    left--;
  }
}

/* The other objects of a batch wait again. */
static void dissolve_batch(JitObject *first, bool compiles_alone) {
  JitObject *next = first->batch_next;
  first->batch_next = NULL;
  first->is_batched = false;
  for (JitObject *o = next; o; o = next) {
    next = o->batch_next;
    o->batch_next = NULL;
    o->is_batched = false;
    o->state = JIT_WAITING;
    o->may_join &= !compiles_alone;
  }
}

static bool batch_text(const JitObject *first, Buffer *out) {
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE)
    return false;
  for (const JitObject *o = first; o; o = o->batch_next)
    compile_batch_add(out, o->source, o->source_len, o->key.word[0]);
  trap_end(&trap);
  return true;
}

static void start_process(JitObject *o, const char **reason) {
  Buffer text = {0};
  if (o->batch_next && !batch_text(o, &text))
    dissolve_batch(o, true);
  bool is_batch = o->batch_next != NULL;
  o->process = compile_process_start(
      toolchain(), o->level, o->libraries, is_batch ? text.text : o->source,
      is_batch ? text.len : o->source_len, reason);
  buffer_free(&text);
}

static void start_compile(JitObject *o) {
  const char *reason = NULL;
  o->seconds = clock_seconds();
  if (jit_objects.needs_libraries)
    o->libraries = WITH_LIBRARIES;
  gather_batch(o);
  start_process(o, &reason);
  if (!o->process && o->batch_next) {
    dissolve_batch(o, true);
    start_process(o, &reason);
  }
  if (o->process) {
    o->state = JIT_RUNNING;
    jit_objects.running[o->level]++;
    return;
  }
  fail_object(o, reason);
  finish_object(o, JIT_FAILED);
}

/* Loads the object from the temporary folder of a process, and stores it as an
 * artifact for other processes.  The folder may be mounted noexec: then the
 * artifact is loaded. */
static bool load_compiled(JitObject *o, const CompileProcess *process) {
  size_t len;
  void *bytes = compile_process_read_object(process, &len);
  if (!bytes)
    return false;
  bool loaded = dl_load(o, compile_process_object_path(process));
  bool stored = (!loaded || check_kernel(o)) &&
                artifact_store(&artifact_kind, o->key, bytes, len);
  mem_free(bytes);
  return o->dl_handle || (stored && load_artifact(o));
}

/* The process of an object has ended, and those that it compiled are loaded.
 * If a batch fails, each of its objects is compiled alone.  again: compiles
 * this object again if it failed. */
static void end_compile(JitObject *o, bool succeeded, bool again,
                        const char *reason) {
  again = !succeeded && (again || o->batch_next);
  jit_objects.running[o->level]--;
  dissolve_batch(o, true);
  if (!succeeded && !again)
    fail_object(o, reason);
  compile_process_free(o->process);
  o->process = NULL;
  double now = clock_seconds();
  o->seconds = now - o->seconds;
  if (o->level == COMPILE_QUICK)
    jit_objects.quick_end = now;
  if (again) {
    o->state = JIT_WAITING;
    o->may_join = false;
  } else {
    finish_object(o, succeeded ? JIT_READY : JIT_FAILED);
  }
}

static bool load_member(JitObject *o, const JitObject *first) {
  bool loaded = dl_load(o, compile_process_object_path(first->process));
  bool stored = (!loaded || check_kernel(o)) && store_reference(o, first);
  return o->dl_handle || (stored && load_artifact(o));
}

/* Finishes the other objects of a batch.  Those that cannot be loaded remain in
 * it. */
static void load_batch(JitObject *first) {
  for (JitObject **at = &first->batch_next, *o; (o = *at);) {
    if (!load_member(o, first)) {
      at = &o->batch_next;
      continue;
    }
    *at = o->batch_next;
    o->batch_next = NULL;
    o->seconds = clock_seconds() - first->seconds;
    finish_object(o, JIT_READY);
  }
}

/* Without libraries, the linker or the loader may miss a function: an object
 * that failed alone, not for an error in its source, is linked with them.  If
 * that succeeds, later objects are linked with them at once. */
static bool add_libraries(JitObject *o, bool succeeded, const char *reason) {
  jit_objects.needs_libraries |= succeeded && o->libraries == WITH_LIBRARIES;
  if (succeeded || o->batch_next || o->libraries == WITH_LIBRARIES ||
      (strstr(reason, "kernel.c:") && !strstr(reason, "undefined")))
    return false;
  o->libraries = WITH_LIBRARIES;
  return true;
}

static void collect_compile(JitObject *o) {
  char reason[300] = "";
  bool succeeded = compile_process_wait(o->process, reason, sizeof reason);
  dlerror(); /* discards the message of an earlier call */
  if (succeeded && !(succeeded = load_compiled(o, o->process))) {
    const char *error = dlerror();
    snprintf(reason, sizeof reason, "cannot load it: %.200s",
             error ? error : "cannot read it");
  }
  bool again = add_libraries(o, succeeded, reason);
  if (succeeded)
    load_batch(o);
  end_compile(o, succeeded, again, reason);
}

/* Quick compilations do not wait for the others.  An object whose quick one
 * serves meanwhile waits for all of them, and for those that may follow at
 * once: they delay the program, and this does not. */
static bool may_start(const JitObject *o) {
  if (o->state != JIT_WAITING ||
      jit_objects.running[o->level] >= thread_pool_size())
    return false;
  bool is_served = o->quick && o->quick->state == JIT_READY;
  if (is_served && clock_seconds() - jit_objects.quick_end < JIT_QUICK_PAUSE)
    return false;
  for (const JitObject *x = jit_objects.pending; is_served && x;
       x = x->list_next)
    if (x->level == COMPILE_QUICK)
      return false;
  return true;
}

/* Each object of a batch has the time limit of a kernel. */
static double time_limit(const JitObject *first) {
  double seconds = 0;
  for (const JitObject *o = first; o; o = o->batch_next)
    seconds += toolchain()->timeout_seconds;
  return seconds;
}

/* Kills a compiler that exceeds the time limit. */
static void time_out_compile(JitObject *o) {
  char reason[100];
  compile_process_kill(o->process);
  snprintf(reason, sizeof reason,
           "the C compiler was stopped after %d s (AXON_CC_SECONDS)",
           toolchain()->timeout_seconds);
  if (!o->batch_next) { /* the optimized one would take longer */
    if (o->optimized && o->optimized->state == JIT_DEFERRED)
      o->optimized->state = JIT_FAILED;
    o->optimized = NULL;
  }
  end_compile(o, false, false, reason);
}

/* An object whose process has ended, or takes too long; or NULL. */
static JitObject *ended_object(void) {
  for (JitObject *o = jit_objects.pending; o; o = o->list_next)
    if (o->state == JIT_RUNNING &&
        (compile_process_has_exited(o->process) ||
         clock_seconds() - o->seconds > time_limit(o)))
      return o;
  return NULL;
}

/* Collects processes that have ended, and kills those that take too long. */
static void reap(void) {
  for (JitObject *o; (o = ended_object());)
    if (compile_process_has_exited(o->process))
      collect_compile(o);
    else
      time_out_compile(o);
}

static void reap_and_start(void) {
  reap();
  for (JitObject *next, *o = jit_objects.pending; o; o = next) {
    next = o->list_next;
    if (may_start(o))
      start_compile(o);
  }
}

/* A child of fork does not share the compile processes of its parent, unless
 * jit_detach created it. */
static void lock_before_fork(void) {
  pthread_mutex_lock(&jit_objects.lock);
}

static void unlock_in_parent(void) {
  pthread_mutex_unlock(&jit_objects.lock);
}

static void forget_processes(void) {
  for (JitObject *o = jit_objects.pending; o; o = o->list_next)
    if (o->state == JIT_RUNNING) {
      compile_process_forget(o->process);
      o->process = NULL;
      o->state = JIT_WAITING;
      dissolve_batch(o, false);
    }
  memset(jit_objects.running, 0, sizeof jit_objects.running);
}

static int running_count(void) {
  return jit_objects.running[COMPILE_QUICK] +
         jit_objects.running[COMPILE_OPTIMIZED];
}

static void unlock_in_child(void) {
  if (!jit_objects.detached)
    forget_processes();
  pthread_mutex_unlock(&jit_objects.lock);
}

static void install_fork_handlers(void) {
  pthread_atfork(lock_before_fork, unlock_in_parent, unlock_in_child);
}

static void lock(void) {
  pthread_once(&jit_objects.once, install_fork_handlers);
  pthread_mutex_lock(&jit_objects.lock);
}

static void unlock(void) {
  pthread_mutex_unlock(&jit_objects.lock);
}

/* Waits until a compiler ends, at most JIT_POLL_MS.  A core without a compiler
 * removes the folders of killed processes meanwhile. */
static void poll_processes(void) {
  struct pollfd fds[2 * MAX_POOL_THREADS];
  nfds_t count = 0;
  lock();
  for (JitObject *r = jit_objects.pending; r; r = r->list_next)
    if (r->state == JIT_RUNNING && count < ARRAY_LEN(fds))
      fds[count++] = (struct pollfd){.fd = compile_process_exit_fd(r->process),
                                     .events = POLLIN};
  bool has_free_core = running_count() < thread_pool_size();
  unlock();
  if (poll(fds, count, 0) != 0)
    return;
  if (has_free_core)
    temp_dir_sweep();
  poll(fds, count, JIT_POLL_MS);
}

/* ---- compilations at the end of the process ---- */

/* fork copies page tables, and the child keeps the pages allocated until it
 * ends. */
static bool fork_is_cheap(void) {
  long virtual_pages = 0, resident_pages = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  bool read =
      file && fscanf(file, "%ld %ld", &virtual_pages, &resident_pages) == 2;
  if (file)
    fclose(file);
  return read && resident_pages < MAX_FORK_BYTES / sysconf(_SC_PAGESIZE);
}

/* Closes inherited files, so that readers of pipes do not wait for this
 * process. */
static void close_inherited_files(void) {
  DIR *files = opendir("/proc/self/fd");
  for (struct dirent *entry; files && (entry = readdir(files));) {
    int fd = atoi(entry->d_name);
    bool keep_open = fd == dirfd(files) || entry->d_name[0] == '.';
    for (JitObject *o = jit_objects.pending; o && !keep_open; o = o->list_next)
      keep_open =
          o->state == JIT_RUNNING && compile_process_owns_fd(o->process, fd);
    if (!keep_open)
      close(fd);
  }
  if (files)
    closedir(files);
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    open("/dev/null", O_RDWR);
}

/* Starts the objects that failed without libraries, and drops the others that
 * wait. */
static void drop_waiting(void) {
  for (JitObject *o = jit_objects.pending, *next; o; o = next) {
    next = o->list_next;
    if (o->state == JIT_WAITING && o->libraries == WITH_LIBRARIES)
      start_compile(o);
    else if (o->state == JIT_WAITING)
      finish_object(o, JIT_FAILED);
  }
}

/* The child: a session leader without a terminal, for which no process waits.
 * It starts compilers only to link with libraries, not for the objects of a
 * batch that fails. */
_Noreturn static void run_detached(void) {
  sigset_t none;
  sigemptyset(&none);
  setsid();
  close_inherited_files();
  for (int signal_number = 1; signal_number < 32; signal_number++)
    signal(signal_number, SIG_DFL);
  pthread_sigmask(SIG_SETMASK, &none, NULL);
  artifact_stats_begin();
  drop_waiting();
  while (running_count() > 0) {
    poll_processes();
    lock();
    reap();
    drop_waiting();
    unlock();
  }
  artifact_stats_flush();
  _exit(0);
}

void jit_detach(void) {
  lock();
  jit_objects.detached = running_count() > 0 && fork_is_cheap();
  bool detached = jit_objects.detached;
  unlock();
  pid_t child = detached ? fork() : -1;
  if (child == 0)
    run_detached();
  if (child < 0)
    return;
  lock();
  forget_processes();
  unlock();
}

/* Kills the compilers that were not detached. */
__attribute__((destructor)) static void kill_processes(void) {
  if (pthread_mutex_trylock(&jit_objects.lock) != 0)
    return;
  for (JitObject *o = jit_objects.pending; o; o = o->list_next)
    if (o->state == JIT_RUNNING) {
      compile_process_kill(o->process);
      compile_process_free(o->process);
      o->process = NULL;
      o->state = JIT_FAILED;
      dissolve_batch(o, false);
    }
  unlock();
}

/* ---- interface ---- */

static ArtifactKey source_key(const char *source, size_t len,
                              CompileLevel level) {
  const LevelFlags flags = toolchain_level_flags(level);
  ArtifactPart parts[2 + ARRAY_LEN(flags.flag)] = {
      {&toolchain()->key, sizeof(ArtifactKey)}, {source, len}};
  size_t count = 2;
  for (size_t k = 0; k < ARRAY_LEN(flags.flag) && flags.flag[k]; k++)
    parts[count++] = (ArtifactPart){flags.flag[k], strlen(flags.flag[k])};
  return artifact_key(count, parts);
}

static JitObject *object_new(ArtifactKey key, CompileLevel level,
                             const char *source, size_t len) {
  JitObject *o = mem_try_alloc(sizeof *o);
  char *copy = mem_try_alloc(len + 1);
  if (!o || !copy) {
    mem_free(o);
    mem_free(copy);
    return NULL;
  }
  memcpy(copy, source, len);
  *o = (JitObject){.key = key,
                   .level = level,
                   .source = copy,
                   .source_len = len,
                   .state = JIT_DEFERRED};
  return o;
}

static void start_deferred(JitObject *o) {
  if (o->state != JIT_DEFERRED)
    return;
  enqueue(o);
  reap_and_start();
}

/* Inserts the object of a level.  It is ready if there is an artifact. */
static JitObject *insert_level(ArtifactKey key, CompileLevel level,
                               const char *source, size_t len) {
  JitObject *o = object_new(key, level, source, len);
  if (!o)
    return NULL;
  JitObject **bucket = bucket_of(key);
  o->bucket_next = *bucket;
  *bucket = o;
  if (!load_artifact(o) && toolchain()->found)
    return o;
  if (!o->dl_handle)
    warn_no_compiler(toolchain());
  list_append(o);
  finish_object(o, o->dl_handle ? JIT_READY : JIT_FAILED);
  return o;
}

/* AXON_OPTIMIZE=sample: one source in eight, on each machine the same ones. */
static bool is_sample(const char *source, size_t len) {
  const ArtifactPart part = {source, len};
  return toolchain()->optimizes_sample &&
         artifact_key(1, &part).word[0] % 8 == 0;
}

/* Earlier processes used a quick object that is an artifact: the kernel is
 * optimized for later ones. */
static void add_quick_object(JitObject *o) {
  ArtifactKey key = source_key(o->source, o->source_len, COMPILE_QUICK);
  JitObject *quick = insert_level(key, COMPILE_QUICK, o->source, o->source_len);
  if (quick)
    quick->optimized = o;
  o->quick = quick;
  bool is_quick_needed = quick && quick->state != JIT_READY;
  if (is_quick_needed || !quick || !toolchain()->optimizes_sample)
    start_deferred(is_quick_needed ? quick : o);
}

void jit_optimize_always(void) {
  jit_objects.optimizes_always = true;
}

JitObject *jit_request(const char *source, size_t len, double operations) {
  bool is_small = operations < QUICK_OPS && toolchain()->quick_at_first &&
                  !jit_objects.optimizes_always && !is_sample(source, len);
  ArtifactKey key = source_key(source, len, COMPILE_OPTIMIZED);
  lock();
  JitObject *o = find_object(key);
  if (!o)
    o = insert_level(key, COMPILE_OPTIMIZED, source, len);
  if (o && o->state == JIT_DEFERRED && !is_small)
    start_deferred(o);
  else if (o && o->state == JIT_DEFERRED && !o->quick)
    add_quick_object(o);
  unlock();
  if (!o)
    trap_raise(FAIL_MEMORY);
  return o;
}

static bool is_done(const JitObject *o) {
  return o->state == JIT_READY || o->state == JIT_FAILED;
}

/* The object to use: the optimized one, or the quick one until that is
 * compiled.  NULL: neither is ready. */
static JitObject *ready_object(JitObject *o) {
  if (is_done(o))
    return o;
  return o->quick && o->quick->state == JIT_READY ? o->quick : NULL;
}

bool jit_is_ready(JitObject *o) {
  lock();
  if (!is_done(o))
    reap_and_start();
  bool ready = ready_object(o);
  unlock();
  return ready;
}

void jit_count_run(JitObject *o, double operations) {
  if (atomic_load_explicit(&o->kernel, memory_order_relaxed))
    return; /* it is optimized */
  lock();
  o->quick_operations += operations;
  if (o->quick_operations > HOT_QUICK_OPS && !toolchain()->optimizes_sample)
    start_deferred(o);
  unlock();
}

/* Called with the lock, which it releases while it waits.  Some process is
 * running then: that of this object, or one that this object waits for. */
static void wait_once(JitObject *o) {
  start_deferred(o);
  if (o->state == JIT_WAITING) { /* the caller needs it first */
    list_remove(o);
    list_prepend(o);
  }
  reap_and_start();
  if (is_done(o))
    return;
  unlock();
  poll_processes(); /* another thread may receive the interrupt signal */
  interrupt_poll();
  lock();
}

double jit_compile_seconds(JitObject *o) {
  lock();
  double seconds = is_done(o) ? o->seconds : 0;
  unlock();
  return seconds;
}

/* Called with the lock. */
static JitObject *wait_until_ready(JitObject *o) {
  JitObject *ready;
  while (!(ready = ready_object(o)))
    wait_once(o->quick && !is_done(o->quick) ? o->quick : o);
  return ready;
}

/* The optimized function needs no lock. */
KernelFunction *jit_kernel(JitObject *o) {
  void *found = atomic_load_explicit(&o->kernel, memory_order_acquire);
  if (found)
    return (KernelFunction *)found;
  lock();
  if (!is_done(o))
    reap_and_start();
  JitObject *ready = wait_until_ready(o);
  found = atomic_load_explicit(&ready->kernel, memory_order_relaxed);
  if (!found) {
    found = find_symbol(ready, "kernel");
    atomic_store_explicit(&ready->kernel, found, memory_order_release);
  }
  unlock();
  return (KernelFunction *)found;
}

void *jit_symbol(JitObject *o, const char *name) {
  lock();
  void *found = find_symbol(wait_until_ready(o), name);
  unlock();
  return found;
}
