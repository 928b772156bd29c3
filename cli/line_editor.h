/* Line editing on a terminal: libedit (or readline, as configured), loaded on
   demand.  The module handles pasting and Ctrl-C itself. */
#ifndef AXON_CLI_LINE_EDITOR_H
#define AXON_CLI_LINE_EDITOR_H

#include <stdbool.h>

typedef struct LineEditorHost {
  void *owner;
  /* Calls `add` for each completion of the word from `start` to `end` of the
     line. */
  void (*complete)(void *owner, const char *line, int start, int end,
                   void (*add)(void *arg, const char *word), void *arg);
  const char *word_breaks; /* characters that end a word */
  /* true if Ctrl-C was pressed; clears that */
  bool (*interrupted)(void *owner);
} LineEditorHost;

/* Falls back to plain reading if the library is not installed. */
void line_editor_open(const LineEditorHost *host);
void line_editor_close(void);
/* Reads a line, which the caller frees.  NULL at the end. *cancelled: Ctrl-C
   was pressed, so discard the line. */
char *line_editor_read(const char *prompt, bool *cancelled);
/* True if the last line is in the middle of a pasted text. */
bool line_editor_is_pasting(void);
/* Adds an input to the history, for the arrow keys and later sessions. */
void line_editor_add_history(const char *input);

#endif
