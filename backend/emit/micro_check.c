/* Runs checks of micro-kernels in another process, and keeps their verdicts. */
#define _GNU_SOURCE
#include "backend/emit/micro_check.h"

#include "support/arena.h"
#include "support/arena_text.h"
#include "support/mem.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- process ---- */

void *micro_shared_memory(size_t bytes) {
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? NULL : at;
}

static void limit_child(uint32_t seconds) {
  struct rlimit cpu = {seconds, seconds + 1}, core = {0, 0};
  for (int number = 1; number < 32; number++)
    signal(number, SIG_DFL);
  /* Ctrl-C is for the program, and no verdict. */
  signal(SIGINT, SIG_IGN);
  signal(SIGQUIT, SIG_IGN);
  signal(SIGTERM, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  setrlimit(RLIMIT_CPU, &cpu);
  setrlimit(RLIMIT_CORE, &core);
  alarm(60 * seconds); /* it may sleep */
}

bool micro_process_run(uint32_t seconds, void (*check)(void *owner),
                       void *owner, MicroProcessEnd *end) {
  struct rusage used = {0};
  *end = (MicroProcessEnd){0};
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    limit_child(seconds);
    check(owner);
    _exit(0);
  }
  while (child > 0 && wait4(child, &end->status, 0, &used) < 0 &&
         errno == EINTR)
    ;
  int number = WIFSIGNALED(end->status) ? WTERMSIG(end->status) : 0;
  bool used_all = used.ru_utime.tv_sec + used.ru_stime.tv_sec >= seconds;
  end->was_killed = number == SIGKILL && !used_all;
  end->timed_out =
      number == SIGXCPU || number == SIGALRM || (number == SIGKILL && used_all);
  return child > 0;
}

const char micro_killed[] =
    "the process that checks it was killed: is there too little memory?";

/* ---- verdicts ---- */

enum { MAX_PARTS = 12, REFUSAL_BYTES = 600 };

typedef struct KnownVerdict {
  struct KnownVerdict *next;
  ArtifactKey key;
  char refusal[REFUSAL_BYTES]; /* empty: it can be used */
} KnownVerdict;

static pthread_mutex_t verdict_lock = PTHREAD_MUTEX_INITIALIZER;
static KnownVerdict *known_verdicts;
static const ArtifactKind verdict_kind = {"micro", ".ok"};

static ArtifactKey verdict_key(const MicroKernel *m, uint32_t part_count,
                               const ArtifactPart *parts) {
  const uint32_t spec[] = {(uint32_t)m->is_cuda, (uint32_t)m->dtype, m->rows,
                           m->columns};
  ArtifactPart all[MAX_PARTS] = {{spec, sizeof spec},
                                 {m->name, strlen(m->name)},
                                 {m->text, strlen(m->text)}};
  for (uint32_t j = 0; j < part_count; j++)
    all[3 + j] = parts[j];
  return artifact_key(3 + part_count, all);
}

static bool is_stored(ArtifactKey key) {
  Artifact stored;
  bool found = artifact_lookup(&verdict_kind, key, &stored);
  if (found)
    artifact_close(&stored);
  return found;
}

/* Copies the verdict.  Returns false if it is not known. */
static bool find_verdict(ArtifactKey key, char refusal[REFUSAL_BYTES]) {
  bool found = false;
  pthread_mutex_lock(&verdict_lock);
  for (const KnownVerdict *v = known_verdicts; v && !found; v = v->next) {
    found = memcmp(&v->key, &key, sizeof key) == 0;
    if (found)
      snprintf(refusal, REFUSAL_BYTES, "%s", v->refusal);
  }
  pthread_mutex_unlock(&verdict_lock);
  return found;
}

/* Without memory, the verdict is not kept. */
static void keep_verdict(ArtifactKey key, const char *refusal) {
  KnownVerdict *v = mem_try_alloc(sizeof *v);
  if (!v)
    return;
  *v = (KnownVerdict){.key = key};
  snprintf(v->refusal, sizeof v->refusal, "%s", refusal);
  pthread_mutex_lock(&verdict_lock);
  v->next = known_verdicts;
  known_verdicts = v;
  pthread_mutex_unlock(&verdict_lock);
}

const char *micro_verdict(Arena *arena, const MicroKernel *m,
                          uint32_t part_count, const ArtifactPart *parts,
                          const char *(*check)(Arena *arena,
                                               const MicroKernel *m,
                                               const void *owner),
                          const void *owner) {
  ArtifactKey key = verdict_key(m, part_count, parts);
  char known[REFUSAL_BYTES] = "";
  if (!find_verdict(key, known)) {
    const char *refusal = is_stored(key) ? NULL : check(arena, m, owner);
    snprintf(known, sizeof known, "%s", refusal ? refusal : "");
    if (!refusal)
      artifact_store(&verdict_kind, key, m->name, strlen(m->name));
    if (refusal != micro_killed)
      keep_verdict(key, known);
  }
  return *known ? arena_printf(arena, "micro=%s: %s", m->name, known) : NULL;
}
