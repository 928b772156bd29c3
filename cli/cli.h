/* cli: the program `axon`, a user of session/.  One file a verb. */
#ifndef AXON_CLI_H
#define AXON_CLI_H

#include "session/session.h"

enum { /* exit statuses */
       EXIT_OK = 0,
       EXIT_DIAGNOSTICS = 1,
       EXIT_USAGE = 2,
       EXIT_INTERNAL = 70,
       EXIT_INTERRUPTED = 130,
};

enum { INTERNAL_ERROR_CODE = 599 }; /* E0599: a fault of Axon itself */

/* ---- options.c ---- */

enum { MAX_DEFINES = 64, MAX_EXPRS = 64, MAX_ENTRIES = 64 };

typedef struct Options {
  const char *verb;
  bool quiet, check, stats, list_unproved, strict, plain, json, show_code,
      dry_run, stable;
  const char *exprs[MAX_EXPRS];
  uint32_t expr_count;
  const char *stage;                /* or NULL */
  const char *explain_name;         /* a name; or NULL */
  const char *kernel_number;        /* its number; or NULL */
  const char *entries[MAX_ENTRIES]; /* functions, as --entry has them */
  uint32_t entry_count;
  const char *output;      /* of build; or NULL */
  const char *target;      /* as it was given; or NULL */
  const char *gpu_arch;    /* of plan: of `cuda:sm_90a`; or NULL */
  const char *min_seconds; /* to time each for; or NULL */
  struct Define {
    char name[64];
    int64_t value;
    bool matched; /* it is the name of a size that data leaves open */
  } defines[MAX_DEFINES];
  uint32_t define_count;
  char **args; /* what is left: files and arguments of the program */
  int arg_count;
} Options;

/* Which options a verb takes, a letter each: e q D (also --define) c (--check)
 * s (--stats) o (--open) S (--strict) p (--plain) g (--stage) w (--why)
 * E (--entry) j (--json) m (--seconds) t (--target) C (--code) k (--kernel)
 * y (--dry) b (--stable) O (--output, -o).  All take --color, --diagnostics and
 * --help.  With a + in front the first file ends them: what follows is for the
 * program.  Returns -1 to go on, else the status to exit with. */
int options_parse(Options *options, const char *verb, const char *letters,
                  int argc, char **argv);
PRINTF_LIKE(2, 3)
int usage_error(const char *verb, const char *format, ...);

/* ---- help.c ---- */

void help_print(const char *verb); /* NULL: of all */
bool help_has(const char *verb);

/* ---- terminal.c: the terminal as a session sees it ---- */

void terminal_set_colour(const char *when); /* auto, always, never */
bool terminal_colours_stdout(void);
bool terminal_colours_stderr(void);
int terminal_width(void);
/* Prints a type after `used` columns: in colour, and in several lines where the
 * terminal is too narrow for it. */
void terminal_put_type(const char *type, size_t used);
/* Before anything is written to the terminal: a progress bar is removed. */
void terminal_hide_progress(void);
/* A host whose output goes to stdout; the program's arguments are borrowed. */
SessionHost terminal_host(int arg_count, char **args);
/* A session on the terminal: never NULL, says so and exits when it cannot, or
 * when a setting in the environment is none. */
Session *terminal_open_session(const SessionHost *host);
/* Ctrl-C stops what runs in this session; a second one ends the program unless
 * `always`. */
void terminal_catch_interrupt(Session *session, bool never_exits);
/* Prints the diagnostics so far to stderr and forgets them. */
void terminal_report(Session *session, bool errors_only);
/* Exit status for a session's status, after its diagnostics were printed. */
int terminal_finish(Session *session, SessionStatus status, bool quiet);
void terminal_apply_defines(Session *session, const Options *options);
/* Notes each -D whose name is a size of what was checked. */
void terminal_match_defines(const Session *session, Options *options);
/* False, with a message, for those that were never noted. */
bool terminal_defines_matched(const Options *options);
/* Flushes stdout; a status other than 0 when that fails. */
int terminal_flush(int status);
/* All of a file.  False when it cannot be read, or is no text of
 * a program for its length: errno says which. */
bool read_program(FILE *in, Buffer *text);
/* The same of stdin.  False, with a message, when it cannot be read. */
bool read_program_stdin(Buffer *text);
/* The whole file at once: one that is there keeps its rights, and is as it was
 * where this fails (errno); a link stays a link. */
bool atomic_write(const char *path, const Buffer *text);
/* The same, of what another file holds, which stays. */
bool host_move(const char *from, const char *path);
/* The program of an argument, `-` being stdin, which `program` will hold. */
bool read_program_argument(const char *path, SourceInput *text,
                           Buffer *program);

/* ---- diagnostic_output.c: diagnostics as text, JSON lines or SARIF ---- */

bool report_set_format(const char *format); /* false: there is no such */
/* To stdout: how the type of a name came about. */
void report_type_provenance(Session *session, Binding *binding);
void report_diag(Buffer *out, const Sources *sources, const Diag *diag);
void report_flush(void); /* what is to follow the last one */

/* ---- explain.c: the pages about codes ---- */

typedef struct ExplainPage {
  uint16_t code;
  Severity severity;
  const char *title, *text;
} ExplainPage;
const ExplainPage *explain_page(uint16_t code); /* or NULL */

/* ---- show.c, plot.c, paint.c ---- */

bool show_tensor(void *owner, const Tensor *t, const char *kind,
                 const char *file, int64_t size, Fault *fault);

/* ---- verbs ---- */

int verb_run(int argc, char **argv);
int verb_eval(int argc, char **argv); /* axon -e ... */
int verb_build(int argc, char **argv);
int verb_cache(int argc, char **argv);
int verb_bench(int argc, char **argv);
int verb_check(int argc, char **argv);
int verb_doctor(int argc, char **argv);
int verb_dump(int argc, char **argv);
int verb_explain(int argc, char **argv);
int verb_fmt(int argc, char **argv);
int verb_plan(int argc, char **argv);
int verb_lsp(int argc, char **argv);
int verb_test(int argc, char **argv);
int verb_shapes(int argc, char **argv);
int verb_repl(int argc, char **argv);

#endif
