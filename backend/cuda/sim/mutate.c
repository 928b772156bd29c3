/* Finds mutants in the source text by names, brackets and numbers, without a
 * parser.  Mutants that do not compile are ignored. */
#define _GNU_SOURCE
#include "backend/cuda/sim/mutate.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/c_identifier.h"
#include "support/compiler.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct MutantFinder {
  Arena *arena;
  Mutants *out;
  const char *source;
  uint32_t line;
} MutantFinder;

static void add(MutantFinder *f, const char *from, const char *to,
                const char *with) {
  Mutant m = {(uint32_t)(from - f->source), (uint32_t)(to - f->source), with,
              f->line};
  VEC_PUSH(f->arena, f->out->all, m);
}

/* Skips to the end of the bracket that opens at p. */
static const char *skip_bracket(const char *p) {
  int depth = 0;
  for (; *p; p++) {
    depth += *p == '(' || *p == '[' || *p == '{';
    depth -= *p == ')' || *p == ']' || *p == '}';
    if (depth == 0)
      return p + 1;
  }
  return p;
}

/* True if a statement begins at p. */
static bool begins_statement(const MutantFinder *f, const char *p) {
  while (p > f->source && isspace((unsigned char)p[-1]))
    p--;
  return p > f->source && strchr(";{})", p[-1]);
}

/* ---- rules ---- */

/* Deletes a call ax_...(...); increases the <N> of a wait; flips a parity. */
static void find_call(MutantFinder *f, const char *name, const char *end) {
  const char *p = end;
  if (*p == '<') {
    const char *number = p + 1;
    p = strchr(p, '>');
    bool wait = p && !isdigit((unsigned char)*number) &&
                memmem(name, (size_t)(end - name), "_wait", 5);
    if (wait)
      add(f, number, p,
          arena_printf(f->arena, "%.*s + 1", (int)(p - number), number));
    p = p ? p + 1 : end;
  }
  if (*p != '(')
    return;
  const char *after = skip_bracket(p);
  if (begins_statement(f, name) && *after == ';')
    add(f, name, after, "");
  static const char *const flipped[] = {"ax_mbarrier_wait", "ax_mbarrier_try"};
  for (size_t j = 0; j < ARRAY_LEN(flipped); j++)
    if (strncmp(name, flipped[j], strlen(flipped[j])) == 0)
      add(f, after - 1, after - 1, " ^ 1");
}

/* Replaces the condition of an if by true and by false. */
static void find_if(MutantFinder *f, const char *p) {
  while (isspace((unsigned char)*p))
    p++;
  if (*p != '(')
    return;
  add(f, p, skip_bracket(p), "(true)");
  add(f, p, skip_bracket(p), "(false)");
}

/* True if the operator at p adds 0. */
static bool adds_nothing(const char *p) {
  return strncmp(p, " + 0", 4) == 0 && !strchr(".x", p[4 + (p[4] == 'u')]);
}

static void find_operator(MutantFinder *f, const char *p) {
  static const char *const pairs[][2] = {
      {" < ", " <= "},  {" <= ", " < "},  {" > ", " >= "},  {" >= ", " > "},
      {" == ", " != "}, {" != ", " == "}, {" && ", " || "}, {" || ", " && "},
      {" ^ ", " + "},   {" + ", " - "},   {" * ", " + "},   {" % ", " / "},
      {" / ", " % "}};
  for (size_t j = 0; j < ARRAY_LEN(pairs); j++) {
    size_t len = strlen(pairs[j][0]);
    if (strncmp(p, pairs[j][0], len) == 0 && !adds_nothing(p))
      add(f, p, p + len, pairs[j][1]);
  }
}

/* True if p is the size of an array in a declaration. */
static bool declares_array(const MutantFinder *f, const char *p) {
  static const char *const types[] = {"float ", "unsigned ", "int ", "int64_t ",
                                      "uint4 "};
  const char *line = p;
  while (line > f->source && line[-1] != '\n')
    line--;
  const char *first = line + strspn(line, " ");
  for (size_t j = 0; j < ARRAY_LEN(types); j++)
    if (strncmp(first, types[j], strlen(types[j])) == 0)
      return !memchr(line, '=', (size_t)(p - line));
  return false;
}

/* Increases a number: by 16 from 16 on, which keeps alignment, otherwise by 1.
 * Sizes of declared arrays are not changed. */
static const char *find_number(MutantFinder *f, const char *p) {
  const char *end = p;
  while (is_c_identifier_char(*end) || *end == '.')
    end++;
  bool is_integer = strspn(p, "0123456789") == (size_t)(end - p);
  long value = strtol(p, NULL, 10);
  if (is_integer && !(p[-1] == '[' && declares_array(f, p)))
    add(f, p, end,
        arena_printf(f->arena, "%ld", value + (value < 16 ? 1 : 16)));
  return end;
}

/* ---- whole source ---- */

static const char *skip_comment(MutantFinder *f, const char *p) {
  const char *end = p;
  if (p[0] == '/' && p[1] == '*')
    end = strstr(p, "*/") + 2;
  else if (p[0] == '#' || (p[0] == '/' && p[1] == '/'))
    end = p + strcspn(p, "\n");
  else if (*p == '"')
    end = strchr(p + 1, '"') + 1;
  for (; p < end; p++)
    f->line += *p == '\n';
  return end;
}

/* Skips __launch_bounds__: mutations of the head of a kernel are
 * meaningless. */
static const char *find_name(MutantFinder *f, const char *p) {
  const char *end = p;
  while (is_c_identifier_char(*end))
    end++;
  size_t len = (size_t)(end - p);
  if (strncmp(p, "__launch_bounds__", len) == 0 && *end == '(')
    return skip_bracket(end);
  if (strncmp(p, "ax_", 3) == 0)
    find_call(f, p, end);
  else if (len == 2 && strncmp(p, "if", 2) == 0)
    find_if(f, end);
  return end;
}

void mutants_find(Arena *arena, const char *source, Mutants *out) {
  MutantFinder f = {arena, out, source, 1};
  *out = (Mutants){.source = source};
  for (const char *p = source; *p;) {
    const char *after = skip_comment(&f, p);
    if (after > p)
      p = after;
    else if (isdigit((unsigned char)*p))
      p = find_number(&f, p);
    else if (is_c_identifier_char(*p))
      p = find_name(&f, p);
    else {
      find_operator(&f, p);
      f.line += *p++ == '\n';
    }
  }
}

char *mutant_text(Arena *arena, const Mutants *m, uint32_t which) {
  const Mutant *x = &m->all.at[which];
  return arena_printf(arena, "%.*s%s%s", (int)x->from, m->source,
                      x->replacement, m->source + x->to);
}

bool mutant_loosens_sync(const Mutants *m, uint32_t which) {
  const Mutant *x = &m->all.at[which];
  const char *at = m->source + x->from;
  size_t near = x->from < 12 ? x->from : 12;
  bool waits = near && at[-1] == '<' && memmem(at - near, near, "_wait", 5);
  return waits || !*x->replacement || strstr(x->replacement, "^ 1") ||
         *x->replacement == '(';
}

char *mutant_name(Arena *arena, const Mutants *m, uint32_t which) {
  const Mutant *x = &m->all.at[which];
  const char *line = m->source + x->from;
  while (line > m->source && line[-1] != '\n')
    line--;
  line += strspn(line, " ");
  int before = (int)(m->source + x->from - line);
  const char *old = m->source + x->from;
  int len = (int)(x->to - x->from),
      rest = (int)strcspn(m->source + x->to, "\n");
  for (int j = 0; j < len; j++)
    if (old[j] == '\n')
      len = j;
  /* Also the controlled statement, or the statement that follows a deleted
   * call. */
  const char *end = m->source + x->to + rest, *then = end;
  if (end[-1] == ')' || !*x->replacement)
    then += strspn(end, " \n");
  return arena_printf(arena, "%.*s{%.*s=>%s}%.*s%s%.*s", before, line, len, old,
                      x->replacement, rest, m->source + x->to,
                      then > end ? " " : "",
                      then > end ? (int)strcspn(then, "\n") : 0, then);
}

/* ---- execution ---- */

static int child(const char *source, uint32_t seeds,
                 bool (*run)(void *owner, Sim *s, uint64_t seed), void *owner) {
  Buffer error = {0};
  Sim *s = sim_compile(source, "mutant.cu", &error);
  bool good = s != NULL;
  if (!s)
    return MUTANT_STILLBORN;
  for (uint64_t seed = 1; seed <= seeds && good; seed++)
    good = run(owner, s, seed);
  sim_free(s);
  return good ? MUTANT_SURVIVED : MUTANT_KILLED;
}

/* The temporary files of a crashed child are deleted with its folder. */
MutantOutcome mutant_run(const char *source, uint32_t seeds, uint32_t seconds,
                         bool (*run)(void *owner, Sim *s, uint64_t seed),
                         void *owner) {
  char *folder = sim_temp_dir();
  if (!folder)
    return MUTANT_STILLBORN;
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    int outcome;
    setenv("TMPDIR", folder, 1);
    /* CPU seconds: on a busy machine, correct kernels may take long. */
    struct rlimit max = {seconds, seconds};
    signal(SIGXCPU, SIG_DFL);
    setrlimit(RLIMIT_CPU, &max);
    outcome = child(source, seeds, run, owner);
    fflush(NULL);
    _exit(outcome);
  }
  int status = 0;
  bool ended = pid > 0 && waitpid(pid, &status, 0) == pid;
  sim_remove_dir(folder);
  free(folder);
  if (!ended)
    return MUTANT_STILLBORN;
  return WIFEXITED(status) ? (MutantOutcome)WEXITSTATUS(status)
                           : MUTANT_TIMED_OUT;
}
