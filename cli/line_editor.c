/* Line editing by libedit or readline, loaded on demand.  Main entry point:
 * line_editor_read.
 *
 * The library reads characters through next_char here.  Terminals enclose
 * pasted text in escape sequences (bracketed paste).  So pasted lines are kept
 * together, and tabs in them do not complete. */
#define _GNU_SOURCE
#include "cli/line_editor.h"

#include "runtime/trusted_dir.h"
#include "support/buffer.h"
#include "support/mem.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_HISTORY_LINES = 2000, ESC = 27, KILL_LINE = 'U' & 31 };

typedef char **Completer(const char *text, int start, int end);

typedef struct ReadlineApi { /* functions of libedit, under readline's names */
  void *handle;
  bool readline; /* GNU readline, which expects bytes instead of characters */
  char *(*read)(const char *prompt);
  int (*add_history)(const char *line);
  char **(*matches)(const char *text, char *(*next)(const char *, int));
  int (**getc)(FILE *);
  Completer **completer;
  int *completion_append;
  int *completion_over;
  char **line_buffer;
  const char **word_breaks;
} ReadlineApi;

static ReadlineApi lib;
static LineEditorHost host;
static Buffer typed, pasted; /* bytes read but not yet used */
static size_t typed_used, pasted_used;
static bool cancelled;
static int history_dir_fd = -1;

/* ---- characters ---- */

static bool was_interrupted(void) {
  if (!host.interrupted(host.owner))
    return false;
  cancelled = true;
  return true;
}

/* The next typed byte; -1 at the end, -2 for Ctrl-C, -3 if none arrives within
   timeout_ms milliseconds (negative: no limit). */
static int read_typed_byte(int timeout_ms) {
  for (;;) {
    if (was_interrupted()) /* before bytes that were typed later */
      return -2;
    if (typed_used < typed.len)
      return (unsigned char)typed.text[typed_used++];
    if (timeout_ms < 0) /* otherwise bytes may be pushed back: see follows */
      typed.len = typed_used = 0;
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    int ready = poll(&in, 1, timeout_ms);
    if (ready == 0)
      return -3;
    if (ready < 0 && errno == EINTR)
      continue;
    char part[4096];
    ssize_t n = read(STDIN_FILENO, part, sizeof part);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return -1;
    buffer_add(&typed, part, (size_t)n);
  }
}

static void unread_typed(size_t count) {
  typed_used -= count;
}

/* True if `rest` follows an escape character; otherwise consumes nothing.  The
   bytes of a sequence arrive together, so they are in one buffer. */
static bool follows(const char *rest) {
  size_t n = 0;
  while (rest[n]) {
    int byte = read_typed_byte(20);
    if (byte < 0)
      break;
    n++;
    if (byte != (unsigned char)rest[n - 1])
      break;
    if (!rest[n])
      return true;
  }
  unread_typed(n);
  return false;
}

/* Reads the pasted text.  Lines end in \n; other control characters are
   dropped. */
static void read_paste(void) {
  pasted.len = pasted_used = 0;
  for (;;) {
    int byte = read_typed_byte(-1);
    if (byte < 0 || (byte == ESC && follows("[201~")))
      return;
    if (byte == '\r' || byte == '\n')
      buffer_putc(&pasted, '\n');
    else if (byte == '\t')
      buffer_puts(&pasted, "  ");
    else if (byte >= ' ' && byte != 127)
      buffer_putc(&pasted, (char)byte);
  }
}

static int next_byte(void) {
  for (;;) {
    if (pasted_used < pasted.len)
      return (unsigned char)pasted.text[pasted_used++];
    int byte = read_typed_byte(-1);
    if (byte != ESC || !follows("[200~"))
      return byte;
    read_paste();
  }
}

/* Reads the rest of a UTF-8 sequence: libedit expects complete characters. */
static int decode_utf8_input(int first) {
  int continuation_bytes = first >= 0xf0   ? 3
                           : first >= 0xe0 ? 2
                           : first >= 0xc0 ? 1
                                           : 0;
  int code = continuation_bytes ? first & (0x3f >> continuation_bytes) : first;
  while (continuation_bytes-- > 0) {
    int byte = next_byte();
    if (byte < 0)
      return '?';
    code = code << 6 | (byte & 0x3f);
  }
  return code;
}

/* Called by the library.  Ctrl-C clears the line and ends it. */
static int next_char(FILE *in) {
  static bool ending;
  (void)in;
  if (ending) {
    ending = false;
    return '\n';
  }
  int byte = next_byte();
  if (byte == -2) {
    ending = true;
    pasted.len = pasted_used = 0;
    return KILL_LINE;
  }
  return byte < 0 || lib.readline ? byte : decode_utf8_input(byte);
}

bool line_editor_is_pasting(void) {
  return pasted_used < pasted.len;
}

/* ---- completion ---- */

typedef struct Candidates {
  char **at;
  size_t len, cap, next;
} Candidates;
static Candidates candidates;

static void add_candidate(void *arg, const char *word) {
  (void)arg;
  for (size_t i = 0; i < candidates.len; i++)
    if (strcmp(candidates.at[i], word) == 0)
      return;
  if (candidates.len == candidates.cap) {
    size_t cap = candidates.cap ? candidates.cap * 2 : 64;
    char **at = realloc(candidates.at, cap * sizeof *at);
    if (!at)
      return;
    candidates.at = at, candidates.cap = cap;
  }
  char *copy = strdup(word);
  if (copy)
    candidates.at[candidates.len++] = copy;
}

/* Called by the library, which frees the result. */
static char *next_candidate(const char *text, int state) {
  (void)text;
  if (!state)
    candidates.next = 0;
  return candidates.next < candidates.len ? candidates.at[candidates.next++]
                                          : NULL;
}

static char **complete(const char *text, int start, int end) {
  candidates.len = 0;
  const char *line = *lib.line_buffer;
  host.complete(host.owner, line, start, end, add_candidate, NULL);
  size_t indent = strspn(line, " \t");
  bool command = line[indent] == ':' && (size_t)start == indent + 1;
  *lib.completion_append = command ? ' ' : 0;
  *lib.completion_over = 1;
  if (candidates.len)
    return lib.matches(text, next_candidate);
  return NULL;
}

/* ---- history: an input a line, the newest last ---- */

/* Opens the state directory.  Other users must neither read nor replace its
   files. */
static int open_state_dir(void) {
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  char path[TRUSTED_PATH_BYTES];
  TrustFailure why;
  int len = -1;
  if (state && *state == '/')
    len = snprintf(path, sizeof path, "%s/axon", state);
  else if (home && *home == '/')
    len = snprintf(path, sizeof path, "%s/.local/state/axon", home);
  if (len < 0 || len >= TRUSTED_PATH_BYTES)
    return -1;
  int folder = trusted_dir_open_private(path, true, &why);
  if (folder < 0)
    trust_failure_warn(&why,
                       "the history is not saved: other users could change it",
                       "set XDG_STATE_HOME to your own folder; only you and "
                       "root may write to its parent folders");
  return folder;
}

static FILE *open_history(const char *name, int flags, const char *how) {
  int file = history_dir_fd < 0 ? -1
                                : openat(history_dir_fd, name,
                                         flags | O_NONBLOCK | O_CLOEXEC, 0600);
  FILE *out = file < 0 ? NULL : fdopen(file, how);
  if (!out && file >= 0)
    close(file);
  return out;
}

static void rewrite_history(char **lines, size_t count) {
  Buffer text = {0};
  for (size_t i = 0; i < count; i++)
    buffer_puts(&text, lines[i]);
  trust_replace(history_dir_fd, "history", 0600, text.text, text.len);
  buffer_free(&text);
}

static void load_history(void) {
  FILE *in = open_history("history", O_RDONLY, "r");
  if (!in)
    return;
  char *ring[MAX_HISTORY_LINES] = {0}, *line = NULL;
  size_t count = 0, size = 0;
  while (getline(&line, &size, in) > 0) {
    char **slot = &ring[count++ % MAX_HISTORY_LINES];
    free(*slot);
    *slot = line;
    line = NULL, size = 0;
  }
  free(line);
  fclose(in);
  size_t kept = count < MAX_HISTORY_LINES ? count : MAX_HISTORY_LINES;
  char *sorted[MAX_HISTORY_LINES];
  for (size_t i = 0; i < kept; i++)
    sorted[i] = ring[(count - kept + i) % MAX_HISTORY_LINES];
  if (count > 2 * MAX_HISTORY_LINES)
    rewrite_history(sorted, kept);
  for (size_t i = 0; i < kept; i++) {
    sorted[i][strcspn(sorted[i], "\n")] = 0;
    lib.add_history(sorted[i]);
    free(sorted[i]);
  }
}

/* Joins several lines to one.  The language treats a newline like a space, and
   strings cannot contain typed newlines. */
void line_editor_add_history(const char *input) {
  static char *last;
  Buffer line = {0};
  for (const char *p = input; *p; p++)
    if (*p != '\n')
      buffer_putc(&line, *p);
    else {
      while (p[1] == ' ' || p[1] == '\n')
        p++;
      buffer_putc(&line, ' ');
    }
  if (!lib.handle || !line.text || (last && strcmp(last, line.text) == 0)) {
    buffer_free(&line);
    return;
  }
  lib.add_history(line.text);
  FILE *out = open_history("history", O_CREAT | O_APPEND | O_WRONLY, "a");
  if (out) {
    fprintf(out, "%s\n", line.text);
    fclose(out);
  }
  mem_free(last);
  last = line.text;
}

/* ---- opening ---- */

static bool load_symbol(const char *name, void *slot) {
  void *at = dlsym(lib.handle, name);
  memcpy(slot, &at, sizeof at);
  return at != NULL;
}

static bool load_library(void) {
  lib.handle = dlopen(EDIT_SONAME, RTLD_NOW | RTLD_LOCAL);
  if (!lib.handle)
    return false;
  lib.readline = strncmp(EDIT_SONAME, "libreadline", 11) == 0;
  bool all =
      load_symbol("readline", &lib.read) &&
      load_symbol("add_history", &lib.add_history) &&
      load_symbol("rl_completion_matches", &lib.matches) &&
      load_symbol("rl_getc_function", &lib.getc) &&
      load_symbol("rl_attempted_completion_function", &lib.completer) &&
      load_symbol("rl_completion_append_character", &lib.completion_append) &&
      load_symbol("rl_attempted_completion_over", &lib.completion_over) &&
      load_symbol("rl_line_buffer", &lib.line_buffer) &&
      load_symbol("rl_basic_word_break_characters", &lib.word_breaks);
  if (!all) {
    dlclose(lib.handle);
    lib.handle = NULL;
  }
  return all;
}

static void set_bracketed_paste(bool on) {
  fputs(on ? "\033[?2004h" : "\033[?2004l", stdout);
  fflush(stdout);
}

void line_editor_open(const LineEditorHost *with) {
  host = *with;
  setlocale(LC_CTYPE, "");
  if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
    setlocale(LC_CTYPE, "C.UTF-8"); /* programs are always UTF-8 */
  if (!load_library())
    return;
  int *catch_signals; /* disabled: Ctrl-C is handled here */
  if (load_symbol("rl_catch_signals", &catch_signals))
    *catch_signals = 0;
  *lib.getc = next_char;
  *lib.completer = complete;
  *lib.word_breaks = host.word_breaks;
  history_dir_fd = open_state_dir();
  load_history();
}

void line_editor_close(void) {
  if (history_dir_fd >= 0)
    close(history_dir_fd);
  history_dir_fd = -1;
  buffer_free(&typed);
  buffer_free(&pasted);
  free(candidates.at);
  candidates = (Candidates){0};
}

static char *read_plain_line(const char *prompt) {
  fputs(prompt, stdout);
  fflush(stdout);
  char *line = NULL;
  size_t size = 0;
  ssize_t n;
  while ((n = getline(&line, &size, stdin)) < 0 && errno == EINTR &&
         !feof(stdin)) {
    clearerr(stdin);
    if (was_interrupted()) {
      puts("^C");
      free(line);
      return strdup("");
    }
  }
  if (n < 0) {
    free(line);
    return NULL;
  }
  line[strcspn(line, "\n")] = 0;
  return line;
}

char *line_editor_read(const char *prompt, bool *was_cancelled) {
  cancelled = false;
  char *line;
  if (lib.handle) {
    fflush(stdout);
    set_bracketed_paste(true);
    line = lib.read(prompt);
    set_bracketed_paste(false);
  } else {
    line = read_plain_line(prompt);
  }
  *was_cancelled = cancelled;
  return line;
}
