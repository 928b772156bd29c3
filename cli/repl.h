/* What the files of the REPL share. */
#ifndef AXON_CLI_REPL_H
#define AXON_CLI_REPL_H

#include "cli/cli.h"

typedef struct Repl {
  Session *session;
  Buffer input;       /* lines so far of an input that goes on */
  Buffer last;        /* the input before this one */
  Buffer loaded;      /* path of the file that :load read last */
  bool editing, done; /* lines are edited; :quit was typed */
  bool timing;        /* :set time on */
  bool width_set;     /* :set width */
} Repl;

/* Runs a text as one input and reports.  False where more lines are needed. */
bool repl_run(Repl *repl, const char *text, bool final);
void repl_load(Repl *repl, const char *path);
/* Shows a definition with its type and, unless it is a function, its value. */
void repl_show(Session *session, Binding *binding, bool value);

/* ---- commands.c: lines that begin with a colon ---- */
void command_run(Repl *repl, const char *line);
void command_each(void (*f)(void *, const char *name), void *arg);

/* ---- complete.c ---- */
void complete_word(void *repl, const char *line, int start, int end,
                   void (*add)(const char *word));

#endif
