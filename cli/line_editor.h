/* Editing a line on a terminal: libedit (or readline, as configured), loaded
 * when first needed; pasting and Ctrl-C are handled here. */
#ifndef AXON_CLI_LINE_EDITOR_H
#define AXON_CLI_LINE_EDITOR_H

#include <stdbool.h>

typedef struct LineEditorHost {
  void *owner;
  /* Calls `add` for each way to complete the word that ends at `end` of the
   * line and begins at `start`. */
  void (*complete)(void *owner, const char *line, int start, int end,
                   void (*add)(const char *word));
  bool (*interrupted)(void *owner); /* was Ctrl-C pressed?  Forgets it. */
} LineEditorHost;

/* Falls back to plain reading where the library is not installed. */
void line_editor_open(const LineEditorHost *host);
void line_editor_close(void);
/* A line, to be freed; NULL at the end.  *cancelled: Ctrl-C, the line is to be
 * forgotten. */
char *line_editor_read(const char *prompt, bool *cancelled);
/* Is the line just read in the middle of a text that was pasted? */
bool line_editor_is_pasting(void);
/* Keeps an input for the arrow keys and for the next session. */
void line_editor_add_history(const char *input);

#endif
