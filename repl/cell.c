/* Cells of a notebook.  Main entry point: repl_run_cell. */
#include "repl/repl.h"

#include "support/diag.h"

#include <string.h>

/* A line that begins with a colon in the first column. */
static bool is_command(const char *line) {
  return line[0] == ':' && ((line[1] >= 'a' && line[1] <= 'z') ||
                            (line[1] >= 'A' && line[1] <= 'Z'));
}

/* The part of a cell from `start` to `end`.  Newlines replace what is before
   it, so that messages name the lines of the cell; `|>` applies a function to
   `it`. */
static Buffer part_text(const char *cell, const char *start, const char *end) {
  Buffer text = {0};
  for (const char *p = cell; p < start; p++)
    if (*p == '\n')
      buffer_putc(&text, '\n');
  const char *first = start + strspn(start, " \t\n");
  buffer_puts(&text, strncmp(first, "|>", 2) == 0 ? "it" : "");
  buffer_add(&text, start, (size_t)(end - start));
  return text;
}

static bool ends_within(Repl *repl, const char *cell, const char *start,
                        const char *end) {
  Buffer text = part_text(cell, start, end);
  SessionStatus status = repl_cell_status(repl, text.text, text.len);
  buffer_free(&text);
  return status == SESSION_INCOMPLETE;
}

static SessionStatus run_part(Repl *repl, const char *name, const char *cell,
                              const char *start, const char *end) {
  size_t blank = strspn(start, " \t\r\n");
  if (start + blank >= end)
    return SESSION_OK;
  Buffer text = part_text(cell, start, end);
  SessionStatus status = repl_run(repl, name, text.text, text.len, true);
  buffer_free(&text);
  return status;
}

static SessionStatus run_command_line(Repl *repl, const char *start,
                                      const char *end) {
  Buffer line = {0};
  buffer_add(&line, start, (size_t)(end - start));
  repl->last_status = SESSION_OK;
  repl_run_command(repl, line.text);
  buffer_free(&line);
  if (repl->last_status == SESSION_OK && session_diags(repl->session)->errors)
    return SESSION_ERROR;
  return repl->last_status;
}

SessionStatus repl_run_cell(Repl *repl, const char *name, const char *text,
                            size_t len) {
  if (memchr(text, 0, len)) /* an error */
    return repl_run(repl, name, text, len, true);
  const char *start = text;
  SessionStatus status = SESSION_OK;
  for (const char *line = text; status == SESSION_OK && *line;) {
    const char *end = line + strcspn(line, "\n"), *next = end + (*end != 0);
    if (is_command(line) && !ends_within(repl, text, start, line)) {
      status = run_part(repl, name, text, start, line);
      if (status == SESSION_OK)
        status = run_command_line(repl, line, end);
      start = next;
    }
    line = next;
  }
  return status == SESSION_OK ? run_part(repl, name, text, start, text + len)
                              : status;
}

SessionStatus repl_cell_status(Repl *repl, const char *text, size_t len) {
  SourceInput source = {.name = "input", .text = text ? text : "", .len = len};
  source.allow_bare_expressions = true;
  return session_input_status(repl->session, &source);
}
