/* Shared by the files of the REPL. */
#ifndef AXON_CLI_REPL_H
#define AXON_CLI_REPL_H

#include "cli/cli.h"
#include "support/buffer.h"

typedef struct Repl {
  Session *session;
  Buffer input;            /* lines of an incomplete input */
  Buffer last_input;       /* the previous input */
  Buffer loaded_path;      /* path of the last file read by :load */
  bool line_editing, done; /* line editing is enabled; :quit was entered */
  bool show_time;          /* :set time on */
  bool width_set;          /* :set width */
} Repl;

/* Runs a text as one input and reports errors.  Returns false if more lines are
   needed. */
bool repl_run(Repl *repl, const char *text, bool final);
void repl_load(Repl *repl, const char *path);
/* Shows a definition with its type and, unless it is a function, its value. */
void repl_show(Session *session, Binding *binding, bool value);

/* ---- repl_commands.c: lines that begin with a colon ---- */
void command_run(Repl *repl, const char *line);
void command_for_each(void (*f)(void *, const char *name), void *arg);

/* ---- repl_completion.c ---- */
void repl_complete_word(void *repl, const char *line, int start, int end,
                        void (*add)(const char *word));

#endif
