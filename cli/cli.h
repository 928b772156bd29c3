/* cli: the program `axon`, a user of session/. One file per verb. */
#ifndef AXON_CLI_H
#define AXON_CLI_H

#include "session/session.h"
#include "support/compiler.h"
#include "support/diag.h"

typedef struct Buffer Buffer;
typedef struct Sources Sources;

enum { /* exit statuses */
       EXIT_OK = 0,
       EXIT_DIAGNOSTICS = 1,
       EXIT_USAGE = 2,
       EXIT_INTERNAL = 70,
       EXIT_INTERRUPTED = 130,
};

enum { INTERNAL_ERROR_CODE = 599 }; /* E0599: an internal error of Axon */

/* ---- options.c ---- */

enum { MAX_DEFINES = 64, MAX_EXPRS = 64, MAX_ENTRIES = 64, MAX_SETTINGS = 64 };

typedef struct Options {
  const char *verb;
  bool quiet, check, stats, list_unproved, strict, plain, json, show_code,
      show_schedule, dry_run, stable, install, uninstall, user, external,
      measure;
  const char *exprs[MAX_EXPRS];
  uint32_t expr_count;
  const char *stage;         /* or NULL */
  const char *explain_name;  /* name given to --why, or NULL */
  const char *kernel_number; /* number of the requested kernel, or NULL */
  const char *entries[MAX_ENTRIES]; /* functions given to --entry */
  uint32_t entry_count;
  const char *settings[MAX_SETTINGS]; /* given to --set */
  uint32_t setting_count;
  const char *output; /* output of build or import, or NULL */
  const char *prefix; /* folder of an installation, or NULL */
  const char *target; /* target as given, or NULL */
  /* GPU architecture of plan, from `cuda:sm_90a`; or NULL */
  const char *gpu_arch;
  /* values of options of generate, or NULL */
  const char *max_tokens, *seed, *temperature, *top_k, *top_p, *min_p, *penalty;
  /* values of options of serve, or NULL */
  const char *host, *port, *slots, *queue, *cache, *context, *tokens, *timeout,
      *body;
  const char *search, *passages; /* values of options of embed, or NULL */
  const char *min_seconds;       /* seconds to time each expression, or NULL */
  struct Define {
    char name[64];
    int64_t value;
    bool matched; /* it names an existential size */
  } defines[MAX_DEFINES];
  uint32_t define_count;
  char **args; /* remaining arguments: files, and arguments of the program */
  int arg_count;
} Options;

/* Parses the options of a verb.  `letters` lists them: e q D (also --define) c
   (--check) s (--stats) o (--open) S (--strict) p (--plain) g (--stage) w
   (--why) E (--entry) j (--json) m (--seconds) t (--target) C (--code) k
   (--kernel) y (--dry) b (--stable) O (--output, -o) i (--install)
   u (--uninstall) U (--user) P (--prefix) d (--schedule)
   f (--schedules) n (--set) x (--external) G (those of generate) H (those of
   serve) M (those of embed).  All verbs take --color, --diagnostics and --help.
   With a + in front, the first file ends the options; later arguments belong to
   the program.  Returns -1 to continue, otherwise the exit status. */
int options_parse(Options *options, const char *verb, const char *letters,
                  int argc, char **argv);
/* Read the value of an option; NULL leaves the default.  They return false
   after a message if it is not a number from `least` to `most`. */
bool option_number(const char *verb, const char *name, const char *text,
                   double least, double most, double *value);
bool option_integer(const char *verb, const char *name, const char *text,
                    int64_t least, int64_t most, int64_t *value);
PRINTF_LIKE(2, 3)
int usage_error(const char *verb, const char *format, ...);

/* ---- plan.c ---- */

/* True for stages of kernels: specs, facts, ... */
bool plan_has_stage(const char *text);
/* Prints the plan of the program that the options name, or a stage of its
   kernels.  only_kernel: 0 for all.  Returns the exit status. */
int plan_print(Options *o, int64_t only_kernel);

/* ---- help.c ---- */

void help_print(const char *verb); /* NULL: help of the program */
bool help_has(const char *verb);

/* ---- terminal.c: the host of a session on a terminal ---- */

void terminal_set_colour(const char *when); /* auto, always, never */
bool terminal_colours_stdout(void);
bool terminal_colours_stderr(void);
ColourDepth terminal_colour_depth(int fd);
/* True if the locale names another encoding than UTF-8. */
bool terminal_is_ascii(void);
int terminal_width(void);
/* Prints a type after `used` columns: in colour, and on several lines if the
   terminal is too narrow. */
void terminal_put_type(const char *type, size_t used);
/* The same, but a long type is shortened (type_fold).  Returns true if it
   was. */
bool terminal_put_short_type(const char *type, size_t used);

/* ---- progress.c ---- */
/* True if standard error is a terminal that shows progress. */
bool progress_is_shown(void);
/* Callbacks of EvalHost. */
void progress_update(void *owner, int64_t done, int64_t total);
void progress_track(void *owner, const char *name, double x, double y);
/* Output was written, which ends at the end of a line or within one. */
void progress_note_line(bool has_ended);
/* Removes the progress bar and the curves.  Call before writing to the
   terminal. */
void terminal_hide_progress(void);

/* ---- terminal.c ---- */
/* A host whose output goes to stdout.  Borrows the program's arguments. */
SessionHost terminal_host(int arg_count, char **args);
/* Opens a session on the terminal.  Never returns NULL: exits with a message if
   that fails, or if an environment variable is invalid. */
Session *terminal_open_session(const SessionHost *host);
/* Ctrl-C interrupts this session.  A second one ends the program, unless
   `never_exits`. */
void terminal_catch_interrupt(Session *session, bool never_exits);
/* Diagnostics are shown without places: the program is not the user's. */
void terminal_hide_places(void);
/* Prints the diagnostics so far to stderr and clears them. */
void terminal_report(Session *session, bool errors_only);
/* Prints the diagnostics of a session.  Returns the exit status for its
   status. */
int terminal_finish(Session *session, SessionStatus status, bool quiet);
void terminal_apply_defines(Session *session, const Options *options);
/* Marks each -D whose name is an existential size of the checked text. */
void terminal_match_defines(const Session *session, Options *options);
/* Returns false, with a message, if some -D was never marked. */
bool terminal_defines_matched(const Options *options);
/* Flushes stdout.  Returns a nonzero status if that fails. */
int terminal_flush(int status);
/* Reads a complete file.  Returns false if it is unreadable or too long for a
   program; errno says which. */
bool read_program(FILE *in, Buffer *text);
/* The same for stdin.  Returns false with a message. */
bool read_program_stdin(Buffer *text);
/* Writes a file atomically.  An existing file keeps its permissions, and is
   unchanged after a failure (errno).  A link stays a link. */
bool atomic_write(const char *path, const Buffer *text);
/* The same with the contents of another file, which is kept. */
bool host_move(const char *from, const char *path);
/* Reads the program named by an argument; `-` is stdin.  `program` stores its
   text. */
bool read_program_argument(const char *path, SourceInput *text,
                           Buffer *program);

/* ---- diagnostic_output.c: diagnostics as text, JSON lines or SARIF ---- */

/* returns false for an unknown format */
bool report_set_format(const char *format);
/* Prints the explanation of a type to stdout. */
void report_type_provenance(Session *session, Binding *binding);
void report_diag(Buffer *out, const Sources *sources, const Diag *diag);
void report_flush(void); /* writes what must follow the last diagnostic */

/* ---- explain.c: the pages about codes ---- */

typedef struct ExplainPage {
  uint16_t code;
  Severity severity;
  const char *title, *text;
} ExplainPage;
const ExplainPage *explain_page(uint16_t code); /* or NULL */

/* ---- terminal_image.c ---- */

typedef struct Image Image;

/* `size` columns wide; 0: as wide as fits. */
void image_print(const Image *p, int64_t size);

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
int verb_embed(int argc, char **argv);
int verb_generate(int argc, char **argv);
int verb_fmt(int argc, char **argv);
int verb_plan(int argc, char **argv);
int verb_export(int argc, char **argv);
int verb_import(int argc, char **argv);
int verb_jupyter(int argc, char **argv);
int verb_serve(int argc, char **argv);
int verb_lsp(int argc, char **argv);
int verb_test(int argc, char **argv);
int verb_shapes(int argc, char **argv);
int verb_repl(int argc, char **argv);

#endif
