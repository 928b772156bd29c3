/* What the files of the REPL share. */
#ifndef AXON_CLI_REPL_H
#define AXON_CLI_REPL_H

#include "cli/cli.h"

typedef struct Repl {
  Session *session;
  Buffer input;            /* lines so far of an input that goes on */
  Buffer last_input;       /* the input before this one */
  Buffer loaded_path;      /* path of the file that :load read last */
  bool line_editing, done; /* lines are edited; :quit was typed */
  bool show_time;          /* :set time on */
  bool width_set;          /* :set width */
} Repl;

/* Runs a text as one input and reports.  False where more lines are needed. */
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
