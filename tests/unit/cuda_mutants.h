/* For the fake driver: runs mutants of kernels that programs launch.
 *
 *   FAKE_MUTANTS="EACH SCHEDULE[|WORD][@FUNCTION]"
 *   FAKE_MUTANTS_FILE=... FAKE_MUTANTS_LIST=...
 *
 * The first launched kernel is chosen whose schedule (the comment before it)
 * begins with SCHEDULE and which contains WORD.  It runs unchanged.  Then one
 * in EACH of its mutants runs, in a process of its own, on the memory from
 * before the launch.  With @FUNCTION, mutants of that function are taken, which
 * the kernel calls.  If EACH is 0, all mutants of calls and conditions run.
 * With a list, only mutants whose names are lines of it run.
 *
 * Mutants that leave the same memory run again when the kernel is launched
 * again, perhaps with other sizes.  At the end the surviving mutants are
 * written to the file, one per line, then the number of all. */
#include "backend/cuda/sim/mutate.h"
#include "support/arena.h"
#include "support/buffer.h"

enum { MUTANT_SEEDS = 3, MUTANT_SECONDS = 20, MUTANT_LAUNCHES = 6 };

typedef struct MutantRun {
  const SimLaunch *launch;
  char *before[FAKE_BLOCKS], *after[FAKE_BLOCKS];
  bool same[FAKE_BLOCKS]; /* memory must be equal afterwards */
} MutantRun;

static char *mutant_copy(const SimMemory *m) {
  char *to = malloc(m->bytes + 1);
  memcpy(to, m->address, m->bytes);
  return to;
}

static bool mutant_survives(void *owner, Sim *s, uint64_t seed) {
  const MutantRun *r = owner;
  SimLaunch launch = *r->launch;
  Buffer error = {0};
  launch.seed = seed;
  launch.max_steps = 3000000;
  for (uint32_t k = 0; k < launch.memory_count; k++)
    memcpy((void *)(uintptr_t)launch.memory[k].address, r->before[k],
           launch.memory[k].bytes);
  if (!sim_launch(s, &launch, &error))
    return false;
  for (uint32_t k = 0; k < launch.memory_count; k++)
    if (r->same[k] && memcmp(launch.memory[k].address, r->after[k],
                             launch.memory[k].bytes) != 0)
      return false;
  return true;
}

/* The part of a source that is one kernel. */
typedef struct MutantKernel {
  const char *text;
  char *kernel;    /* the kernel, from its schedule to its end */
  size_t from, to; /* its range in the source */
  uint32_t each, launches;
  char *list; /* NULL: no list */
  Arena *arena;
  Mutants mutants;
  bool *found;
} MutantKernel;

static MutantKernel mutant_of; /* at most one per program */

/* Chooses a function of the source in place of the kernel, from its signature
 * on. */
static bool mutant_function(MutantKernel *m, const char *text,
                            const char *function) {
  char call[80];
  snprintf(call, sizeof call, " %s(", function);
  for (const char *at = text; (at = strstr(at, call)); at++) {
    const char *begin = at;
    while (begin > text && begin[-1] != '\n')
      begin--;
    const char *head = strstr(begin, "INLINE ");
    if (!head || head > at)
      continue;
    const char *end = strstr(at, "\n}\n") + 3;
    m->from = (size_t)(begin - text);
    m->to = (size_t)(end - text);
    m->kernel = strndup(begin, (size_t)(end - begin));
    return true;
  }
  return false;
}

/* True if the kernel has this name and schedule, and the word after the bar. */
static bool mutant_matches(MutantKernel *m, const char *text, const char *name,
                           const char *wanted) {
  char head[80], words[200];
  snprintf(words, sizeof words, "%s", wanted);
  char *function = strchr(words, '@');
  if (function)
    *function++ = 0;
  const char *word = strchr(words, '|');
  size_t len = word ? (size_t)(word - words) : strlen(words);
  snprintf(head, sizeof head, "\n%s(const __grid_constant__", name);
  const char *at = strstr(text, head);
  const char *begin = at;
  while (begin && begin > text && strncmp(begin, "\n/* ", 4) != 0)
    begin--;
  if (!at || strncmp(begin + 4, words, len) != 0)
    return false;
  const char *end = strstr(at, "\n}\n") + 3;
  m->from = (size_t)(begin - text);
  m->to = (size_t)(end - text);
  m->kernel = strndup(begin, (size_t)(end - begin));
  bool is = !word || strstr(m->kernel, word + 1);
  if (is && !function)
    return true;
  free(m->kernel);
  return is && mutant_function(m, text, function);
}

/* Compares what others can read: all memory if another kernel follows,
 * otherwise the results. */
static void mutant_compare(MutantRun *r, const char *text, const char *kernel) {
  const uint64_t *pointers = r->launch->args;
  const char *first = strstr(text, "extern \"C\"");
  bool all = first && strstr(first + 1, "extern \"C\"");
  bool named = strstr(kernel, " const o0 = ");
  for (uint32_t j = 0; j < 64; j++) {
    char name[40];
    snprintf(name, sizeof name, " const o%u = ", j);
    if (!all && (named ? !strstr(kernel, name) : j > 0))
      break;
    for (uint32_t k = 0; k < r->launch->memory_count; k++) {
      uint64_t at = (uint64_t)(uintptr_t)r->launch->memory[k].address;
      r->same[k] |= all || (pointers[j] >= at &&
                            pointers[j] < at + r->launch->memory[k].bytes);
    }
  }
}

static char *mutant_list(void) {
  Buffer text = {0};
  const char *path = getenv("FAKE_MUTANTS_LIST");
  FILE *f = path ? fopen(path, "r") : NULL;
  buffer_putc(&text, '\n');
  for (int c; f && (c = getc(f)) != EOF;)
    buffer_putc(&text, (char)c);
  if (f)
    fclose(f);
  return path ? text.text : NULL;
}

static bool mutant_listed(const MutantKernel *m, uint32_t j) {
  Buffer line = {0};
  buffer_printf(&line, "\n%s\n", mutant_name(m->arena, &m->mutants, j));
  bool is = strstr(m->list, line.text);
  buffer_free(&line);
  return is;
}

/* True if mutant j should run. */
static bool mutant_wanted(const MutantKernel *m, uint32_t j) {
  if (m->list)
    return mutant_listed(m, j);
  return m->each ? j % m->each == m->each / 2
                 : mutant_loosens_sync(&m->mutants, j);
}

static void mutants_run(MutantRun *r) {
  MutantKernel *m = &mutant_of;
  for (uint32_t j = 0; j < m->mutants.all.len; j++) {
    Buffer whole = {0};
    if (!mutant_wanted(m, j) || m->found[j])
      continue;
    buffer_add(&whole, m->text, m->from);
    buffer_puts(&whole, mutant_text(m->arena, &m->mutants, j));
    buffer_puts(&whole, m->text + m->to);
    m->found[j] = mutant_run(whole.text, MUTANT_SEEDS, MUTANT_SECONDS,
                             mutant_survives, r) != MUTANT_SURVIVED;
    buffer_free(&whole);
  }
}

static void mutants_report(void) {
  MutantKernel *m = &mutant_of;
  FILE *f = fopen(getenv("FAKE_MUTANTS_FILE"), "w");
  uint32_t tried = 0, found = 0;
  for (uint32_t j = 0; f && j < m->mutants.all.len; j++) {
    if (!mutant_wanted(m, j))
      continue;
    tried++;
    found += m->found[j];
    if (!m->found[j] || m->list)
      fprintf(f, "%s%s\n", m->found[j] ? "found: " : "",
              mutant_name(m->arena, &m->mutants, j));
  }
  if (f)
    fprintf(f, "%u of %u found, in %u starts\n", found, tried, m->launches);
  if (f)
    fclose(f);
}

/* True if this is the kernel whose mutants run.  The first match is taken. */
static bool mutant_chosen(const char *text, const char *name) {
  MutantKernel *m = &mutant_of, other = {0};
  const char *how = getenv("FAKE_MUTANTS");
  char *words = NULL;
  uint32_t each = how ? (uint32_t)strtoul(how, &words, 10) : 0;
  if (!how || !getenv("FAKE_MUTANTS_FILE"))
    return false;
  if (!mutant_matches(&other, text, name, words + 1))
    return false;
  if (!m->text) {
    *m = other;
    m->text = text;
    m->each = each;
    m->list = mutant_list();
    m->arena = arena_new();
    mutants_find(m->arena, m->kernel, &m->mutants);
    m->found = calloc(m->mutants.all.len, sizeof *m->found);
    return true;
  }
  bool same = strcmp(m->kernel, other.kernel) == 0;
  if (same) { /* the code around it may differ */
    m->text = text;
    m->from = other.from;
    m->to = other.to;
  }
  free(other.kernel);
  return same;
}

/* Replaces sim_launch. */
static bool mutants_launch(Sim *s, const char *text, const SimLaunch *launch,
                           Buffer *error) {
  static pid_t mine;
  if (!mine)
    mine = getpid();
  if (getpid() != mine || !mutant_chosen(text, launch->kernel) ||
      mutant_of.launches == MUTANT_LAUNCHES)
    return sim_launch(s, launch, error);
  MutantRun r = {.launch = launch};
  mutant_of.launches++;
  for (uint32_t k = 0; k < launch->memory_count; k++)
    r.before[k] = mutant_copy(&launch->memory[k]);
  bool good = sim_launch(s, launch, error);
  for (uint32_t k = 0; k < launch->memory_count; k++)
    r.after[k] = mutant_copy(&launch->memory[k]);
  mutant_compare(&r, mutant_of.text, mutant_of.kernel);
  if (good)
    mutants_run(&r);
  mutants_report();
  for (uint32_t k = 0; k < launch->memory_count; k++) {
    memcpy((void *)(uintptr_t)launch->memory[k].address, r.after[k],
           launch->memory[k].bytes);
    free(r.before[k]);
    free(r.after[k]);
  }
  return good;
}
