/* The program: see run.sh. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sound/sound.h"
#include "support/arena.h"
#include "support/compiler.h"

enum { MAX_JOBS = 64, SECONDS = 10, STACK = 1 << 29 };

typedef enum FamilyKind { FAMILY_ALL, FAMILY_ROWS, FAMILY_LOOPS } FamilyKind;

typedef struct Options {
  uint64_t programs, seed, only;
  int jobs, stop; /* after so many findings */
  int family;     /* FAMILY_ALL, or the only one */
  bool one, quiet;
} Options;

typedef struct Slot { /* of a worker, in memory that all share */
  Tally tally;
  uint64_t next, current; /* which program; its seed */
} Slot;

/* ---- one program ---- */

static uint64_t seed_of(uint64_t seed, uint64_t number) {
  Gen g = {.state = seed * 0x100000001b3u + number};
  return gen_next(&g);
}

static FamilyKind family_of(Gen *g) {
  return random_percent(g, 82) ? FAMILY_ROWS : FAMILY_LOOPS;
}

static bool is_wanted(const Options *o, uint64_t seed) {
  Gen g = {.state = seed};
  return o->family == FAMILY_ALL || (int)family_of(&g) == o->family;
}

static void make(uint64_t seed, uint32_t drop, Arena *arena, Script *out) {
  Gen g = {.state = seed, .arena = arena, .dropped_parts = drop};
  if (family_of(&g) == FAMILY_ROWS)
    pipeline_script(&g, out);
  else
    loop_script(&g, out);
}

static Finding attempt(uint64_t seed, uint32_t drop, Tally *tally, Buffer *why,
                       Buffer *text, uint32_t *parts) {
  Arena *arena = arena_new();
  Script script;
  make(seed, drop, arena, &script);
  *parts = script.parts;
  if (text)
    script_print(text, &script);
  Finding f = script_check(&script, tally, why);
  script_free(&script);
  arena_free(arena);
  return f;
}

/* Leaves out what does not matter: calls, and operations that none uses. */
static uint32_t shrink(uint64_t seed, Finding want) {
  uint32_t drop = 0, parts, ignored;
  Buffer why = {0};
  for (bool again = true; again;) {
    again = false;
    attempt(seed, drop, NULL, &why, NULL, &parts);
    for (int bit = 31; bit >= 0; bit--) {
      uint32_t more = drop | (uint32_t)1 << bit;
      if (more == drop || !(parts >> bit & 1))
        continue;
      if (attempt(seed, more, NULL, &why, NULL, &ignored) == want) {
        drop = more, again = true;
        break;
      }
    }
  }
  buffer_free(&why);
  return drop;
}

static void report(uint64_t seed, Finding f) {
  Buffer why = {0}, text = {0};
  uint32_t parts;
  attempt(seed, shrink(seed, f), NULL, &why, &text, &parts);
  printf("---- --only %llu\n%s(* %s *)\n\n", (unsigned long long)seed,
         text.text, why.text);
  fflush(stdout);
  buffer_free(&why);
  buffer_free(&text);
}

/* ---- workers: a crash or a hang ends one, and is a finding ---- */

static void limit_time(void) {
  struct itimerval t = {.it_value = {.tv_sec = SECONDS}};
  setitimer(ITIMER_VIRTUAL, &t, NULL);
}

static void work(const Options *o, Slot *slot, int job) {
  struct rlimit memory = {(rlim_t)4 << 30, (rlim_t)4 << 30};
  if (!ADDRESS_SANITIZER) /* a sanitizer wants more room than there is */
    setrlimit(RLIMIT_AS, &memory);
  for (; slot->next < o->programs; slot->next += (uint64_t)o->jobs) {
    Buffer why = {0};
    uint32_t parts;
    slot->current = seed_of(o->seed, slot->next);
    if (!is_wanted(o, slot->current))
      continue;
    limit_time();
    Finding f = attempt(slot->current, 0, &slot->tally, &why, NULL, &parts);
    buffer_free(&why);
    if (f == FOUND_NOTHING)
      continue;
    if (!o->quiet)
      report(slot->current, f);
    if (o->stop && slot->tally.found[f] >= (uint64_t)o->stop)
      break;
  }
  (void)job;
}

/* What ended it was the program at hand: the next one begins a new worker. */
static bool ended_well(const Options *o, Slot *slot, int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return true;
  bool hang = WIFSIGNALED(status) && WTERMSIG(status) == SIGVTALRM;
  slot->tally.programs++;
  slot->tally.found[hang ? FOUND_HANG : FOUND_CRASH]++;
  printf("---- --only %llu\n(* %s *)\n\n", (unsigned long long)slot->current,
         hang ? "it does not end" : "a crash");
  fflush(stdout);
  slot->next += (uint64_t)o->jobs;
  return o->stop && slot->tally.found[FOUND_CRASH] >= (uint64_t)o->stop;
}

static pid_t start(const Options *o, Slot *slot, int job) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid)
    return pid;
  work(o, slot, job);
  fflush(stdout);
  _exit(0);
}

static void work_all(const Options *o, Slot *slots) {
  pid_t pid[MAX_JOBS];
  for (int i = 0; i < o->jobs; i++) {
    slots[i].next = (uint64_t)i;
    pid[i] = start(o, &slots[i], i);
  }
  int status;
  for (pid_t ended; (ended = wait(&status)) > 0;)
    for (int i = 0; i < o->jobs; i++)
      if (pid[i] == ended && !ended_well(o, &slots[i], status))
        pid[i] = start(o, &slots[i], i);
}

/* ---- the table ---- */

static void add(Tally *to, const Tally *from) {
  uint64_t *a = (uint64_t *)to;
  const uint64_t *b = (const uint64_t *)from;
  for (size_t i = 0; i < sizeof *to / sizeof *a; i++)
    a[i] += b[i];
}

static void print_rows(const Tally *t) {
  static const char *const name[] = {
      [CONSTRAINT_SIZE_EQ] = "dimension equality",
      [CONSTRAINT_SHAPE_EQ] = "shape equality with appends",
      [CONSTRAINT_BROADCAST] = "join",
      [CONSTRAINT_PRODUCT] = "prod, divisibility",
      [CONSTRAINT_SIZE_LE] = "d <= e",
      [CONSTRAINT_AXIS] = "axis",
      [CONSTRAINT_KEEP] = "keep",
      [CONSTRAINT_LIFT] = "lift",
      [CONSTRAINT_ELEM_CLASS] = "class",
      [CONSTRAINT_RECORD] = "record row",
  };
  printf("%-28s %10s %10s %10s\n", "programs with", "proved", "refuted",
         "open");
  for (ConstraintClass row = CONSTRAINT_NONE + 1; row < CONSTRAINT_CLASS_COUNT;
       row++)
    printf("%-28s %10llu %10llu %10llu\n", name[row],
           (unsigned long long)t->row[row][VERDICT_PROVED],
           (unsigned long long)t->row[row][VERDICT_REFUTED],
           (unsigned long long)t->row[row][VERDICT_OPEN]);
}

static void print_line(const char *what, const uint64_t *n) {
  uint64_t all = n[VERDICT_PROVED] + n[VERDICT_REFUTED] + n[VERDICT_OPEN];
  printf("%-28s %10llu %10llu %10llu   proved: %.3f %%\n", what,
         (unsigned long long)n[VERDICT_PROVED],
         (unsigned long long)n[VERDICT_REFUTED],
         (unsigned long long)n[VERDICT_OPEN],
         all ? 100.0 * (double)n[VERDICT_PROVED] / (double)all : 0.0);
}

static int print_tally(const Tally *t) {
  static const char *const name[] = {
      [FOUND_UNSOUND] = "proved, but wrong",
      [FOUND_RUN_FAILS] = "right, but it fails when run",
      [FOUND_RAN] = "wrong and open, but it runs",
      [FOUND_REFUTED] = "right, but refuted",
      [FOUND_WITNESS] = "right at its witness",
      [FOUND_TYPE] = "another type",
      [FOUND_VALUE] = "another result",
      [FOUND_BUG] = "an error that should not be",
      [FOUND_CRASH] = "crashes",
      [FOUND_HANG] = "does not end",
  };
  uint64_t bad = 0;
  printf("%llu programs\n\n", (unsigned long long)t->programs);
  print_rows(t);
  printf("\n%-28s %10s %10s %10s\n", "calls", "proved", "refuted", "open");
  print_line("right", t->right);
  print_line("wrong", t->wrong);
  print_line("right, sizes from data", t->data_right);
  print_line("wrong, sizes from data", t->data_wrong);
  printf("wrong ones that were run, and failed: %llu\n",
         (unsigned long long)t->wrong_ran);
  printf("witnesses that were tried, and failed: %llu\n\n",
         (unsigned long long)t->witnesses);
  for (Finding f = FOUND_NOTHING + 1; f < FOUND_COUNT; f++) {
    printf("%-28s %10llu\n", name[f], (unsigned long long)t->found[f]);
    bad += t->found[f];
  }
  return bad ? 1 : 0;
}

/* ---- options ---- */

static int show_one(const Options *o) {
  Buffer why = {0}, text = {0};
  uint32_t parts;
  Arena *arena = arena_new();
  Script script;
  make(o->only, 0, arena, &script);
  script_print(&text, &script);
  fputs(text.text, stdout);
  fflush(stdout);
  script_free(&script);
  arena_free(arena);
  Finding f = attempt(o->only, 0, NULL, &why, NULL, &parts);
  printf("(* %s *)\n", why.text ? why.text : "as expected");
  if (f != FOUND_NOTHING)
    report(o->only, f);
  return f != FOUND_NOTHING;
}

static bool parse(int argc, char **argv, Options *o) {
  *o = (Options){.programs = 1000, .seed = 1, .jobs = 1};
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--quiet") == 0) {
      o->quiet = true;
      continue;
    }
    if (i + 1 >= argc)
      return false;
    uint64_t n = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--programs") == 0)
      o->programs = n;
    else if (strcmp(argv[i], "--seed") == 0)
      o->seed = n;
    else if (strcmp(argv[i], "--jobs") == 0)
      o->jobs = n < 1 ? 1 : n > MAX_JOBS ? MAX_JOBS : (int)n;
    else if (strcmp(argv[i], "--family") == 0)
      o->family = (int)n;
    else if (strcmp(argv[i], "--stop") == 0)
      o->stop = (int)n;
    else if (strcmp(argv[i], "--only") == 0)
      o->only = n, o->one = true;
    else
      return false;
    i++;
  }
  return true;
}

static int check_programs(const Options *o) {
  size_t size = sizeof(Slot) * (size_t)o->jobs;
  Slot *slots = mmap(NULL, size, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Tally all = {0};
  if (slots == MAP_FAILED)
    return 2;
  work_all(o, slots);
  for (int i = 0; i < o->jobs; i++)
    add(&all, &slots[i].tally);
  return print_tally(&all);
}

int main(int argc, char **argv) {
  Options o;
  if (!parse(argc, argv, &o)) {
    fprintf(stderr, "usage: sound [--programs N] [--seed S] [--jobs J] "
                    "[--stop N] [--quiet] [--only SEED]\n");
    return 2;
  }
  return o.one ? show_one(&o) : check_programs(&o);
}
