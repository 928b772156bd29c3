/* repl: inputs, commands and completion of the interactive prompt, for the
   terminal (cli/repl.c) and for other hosts, such as a notebook.  Main entry
   points: repl_run and repl_run_cell. */
#ifndef AXON_REPL_REPL_H
#define AXON_REPL_REPL_H

#include "repl/type_text.h"
#include "session/session.h"
#include "support/buffer.h"
#include "support/compiler.h"

typedef struct Repl Repl;

/* All texts go through these functions. */
typedef struct ReplHost {
  void *owner;
  void (*write)(const Repl *repl, const char *text, size_t len);
  int (*width)(const Repl *repl); /* columns of a line */
  /* Reports the diagnostics and clears them.  NULL: they stay in the session,
     for the caller of the input. */
  void (*report)(const Repl *repl, bool errors_only);
  /* A result as text that ends with a newline: "val x : i64 = 3\n".  name:
     "it" for a bare expression.  NULL: it is written. */
  void (*result)(const Repl *repl, const char *name, const char *text,
                 size_t len);
  bool colours;
  bool stable_plans;     /* `:plan` omits what differs between machines */
  bool echoes_interrupt; /* the terminal shows ^C, so a new line is needed */
} ReplHost;

struct Repl {
  Session *session;
  ReplHost host;
  Buffer loaded_path; /* path of the last file read by :load */
  SessionStatus last_status;
  bool done;      /* :quit was entered, or the program called `exit` */
  bool show_time; /* :set time on */
  bool width_set; /* :set width */
};

/* ---- input.c ---- */

PRINTF_LIKE(2, 3)
void repl_printf(const Repl *repl, const char *format, ...);
void repl_report(const Repl *repl);
/* Runs a text as one input and reports errors.  Returns SESSION_INCOMPLETE if
   more lines are needed, unless it is final. */
SessionStatus repl_run(Repl *repl, const char *name, const char *text,
                       size_t len, bool final);
void repl_load(Repl *repl, const char *path);
/* Shows a definition with its type and, unless it is a function, its value. */
void repl_show(const Repl *repl, Binding *binding, bool value);
/* For SessionHost.on_executed: shows the results of a declaration. */
void repl_show_results(const Repl *repl, const DeclResult *ran);

/* ---- cell.c ---- */

/* Runs the cell of a notebook: one complete input, in which lines may be
   commands.  Stops at the first error. */
SessionStatus repl_run_cell(Repl *repl, const char *name, const char *text,
                            size_t len);
/* SESSION_INCOMPLETE if the last line needs another one; SESSION_ERROR after a
   syntax error.  Runs nothing and keeps the diagnostics. */
SessionStatus repl_cell_status(Repl *repl, const char *text, size_t len);

/* ---- commands.c: lines that begin with a colon ---- */

void repl_run_command(Repl *repl, const char *line);
void repl_each_command(void (*f)(void *, const char *name), void *arg);
/* Appends what `:doc NAME` shows.  Returns false if there is no such name. */
bool repl_describe(const Repl *repl, const char *name, Buffer *out);

/* ---- completion.c ---- */

/* Characters that end a word. */
extern const char repl_word_breaks[];
/* Calls add for each completion of the word from `start` to `end`. */
void repl_complete_word(Repl *repl, const char *line, int start, int end,
                        void (*add)(void *arg, const char *word), void *arg);

#endif
