/* axon: finds the verb and calls it. */
#include "cli/cli.h"

#include "backend/cpu/jit.h"
#include "support/edit_distance.h"
#include "support/mem_inject.h"
#include "support/trap.h"

#ifdef __linux__
#include <malloc.h>
#endif
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int verb_help(int argc, char **argv);

typedef struct Verb {
  const char *name;
  int (*run)(int argc, char **argv);
} Verb;

static const Verb verbs[] = {
    {"bench", verb_bench},       {"build", verb_build},
    {"cache", verb_cache},       {"check", verb_check},
    {"doctor", verb_doctor},     {"dump", verb_dump},
    {"embed", verb_embed},       {"explain", verb_explain},
    {"export", verb_export},     {"fmt", verb_fmt},
    {"generate", verb_generate}, {"help", verb_help},
    {"import", verb_import},     {"jupyter", verb_jupyter},
    {"lsp", verb_lsp},           {"plan", verb_plan},
    {"repl", verb_repl},         {"run", verb_run},
    {"serve", verb_serve},       {"shapes", verb_shapes},
    {"test", verb_test},
};

static int verb_help(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "help", "", argc, argv);
  if (status >= 0)
    return status;
  const char *verb = o.arg_count ? o.args[0] : NULL;
  if (verb && !help_has(verb))
    return usage_error("help", "there is no verb `%s`", verb);
  help_print(verb);
  return terminal_flush(EXIT_OK);
}

enum { MAX_VERB_DISTANCE = 2 }; /* edit distance of a suggested verb */

static int unknown_verb(const char *name) {
  const char *nearest = NULL;
  int best = MAX_VERB_DISTANCE + 1;
  for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
    int d = edit_distance(name, verbs[i].name, MAX_VERB_DISTANCE);
    if (d < best)
      best = d, nearest = verbs[i].name;
  }
  if (nearest)
    return usage_error(NULL, "there is no verb `%s`: did you mean `%s`?", name,
                       nearest);
  return usage_error(NULL, "there is no verb or file `%s`", name);
}

static bool is_file_argument(const char *word) {
  size_t n = strlen(word);
  return (n > 4 && strcmp(word + n - 4, ".axn") == 0) ||
         access(word, F_OK) == 0 || strcmp(word, "-") == 0;
}

/* Handles a command line without a verb: options, a file, a program on stdin,
   or the REPL. */
static int run_without_verb(int argc, char **argv) {
  const char *first = argc > 1 ? argv[1] : NULL;
  if (!first)
    return isatty(STDIN_FILENO) ? verb_repl(argc, argv) : verb_eval(argc, argv);
  if (strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0) {
    puts("axon " AXON_VERSION);
    return terminal_flush(EXIT_OK);
  }
  if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0) {
    help_print(NULL);
    return terminal_flush(EXIT_OK);
  }
  if (first[0] == '-' && first[1])
    return verb_eval(argc, argv);
  if (!is_file_argument(first))
    return unknown_verb(first);
  return verb_run(argc, argv);
}

static int dispatch(int argc, char **argv) {
  for (size_t i = 0; argc > 1 && i < ARRAY_LEN(verbs); i++)
    if (strcmp(argv[1], verbs[i].name) == 0)
      return verbs[i].run(argc - 1, argv + 1);
  return run_without_verb(argc, argv);
}

/* All work is done in a thread with a stack of fixed size, so that the nesting
   depth of programs and types does not depend on `ulimit -s`.  Untouched parts
   of it take no memory. */
enum { STACK_BYTES = 512 * 1024 * 1024 };

typedef struct Invocation {
  int argc;
  char **argv;
  sigset_t signals;
  int status;
} Invocation;

static void *run_program(void *arg) {
  Invocation *program = arg;
  pthread_sigmask(SIG_SETMASK, &program->signals, NULL);
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    fflush(stdout);
    fputs("axon: out of memory\n", stderr);
    program->status = EXIT_DIAGNOSTICS;
    return NULL;
  }
  program->status = dispatch(program->argc, program->argv);
  trap_end(&trap);
  return NULL;
}

/* Opens closed standard streams, so that the next opened file does not get
   their numbers.  Using them is still an error. */
static void reserve_standard_streams(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0)
      open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv) {
  reserve_standard_streams();
#ifdef AXON_FAIL_ALLOC /* for tests/oom.sh */
  const char *after = getenv("AXON_FAIL_AFTER");
  const char *from = getenv("AXON_FAIL_FROM");
  mem_inject_failure_at(after ? strtoull(after, NULL, 10) : 0);
  if (from)
    mem_inject_failures_from(strtoull(from, NULL, 10));
#endif
  Invocation program = {.argc = argc, .argv = argv};
  pthread_attr_t attr;
  pthread_t thread;
#ifdef M_ARENA_MAX
  mallopt(M_ARENA_MAX, 1); /* only one thread at a time allocates */
#endif
  /* the other thread handles signals, which interrupt its reads */
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &program.signals);
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, STACK_BYTES);
  if (pthread_create(&thread, &attr, run_program, &program) == 0)
    pthread_join(thread, NULL);
  else /* the address space is limited */
    run_program(&program);
  if (program.status != EXIT_INTERRUPTED)
    jit_detach();
  return program.status;
}
