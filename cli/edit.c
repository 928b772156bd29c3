/* Line editing.  The library asks for characters here (next_char), so that a
 * pasted text, which terminals bracket with escape sequences, is told from a
 * typed one: its lines are kept together, and tabs in it complete nothing. */
#define _GNU_SOURCE
#include "cli/edit.h"

#include "runtime/trust.h"

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

enum { HISTORY_KEPT = 2000, ESC = 27, KILL_LINE = 'U' & 31 };

typedef char **Completer(const char *text, int start, int end);

typedef struct Library { /* of libedit, under readline's names */
  void *handle;
  bool readline; /* GNU's: it wants bytes rather than characters */
  char *(*read)(const char *prompt);
  int (*add_history)(const char *line);
  char **(*matches)(const char *text, char *(*next)(const char *, int));
  int (**getc)(FILE *);
  Completer **completer;
  int *append;
  int *over;
  char **line;
  const char **breaks;
} Library;

static Library lib;
static EditHost host;
static Buffer typed, pasted; /* bytes that were read and not yet used */
static size_t typed_used, pasted_used;
static bool cancelled;
static int history_folder = -1;

/* ---- characters ---- */

static bool was_interrupted(void) {
  if (!host.interrupted(host.owner))
    return false;
  cancelled = true;
  return true;
}

/* The next byte typed; -1 at the end, -2 for Ctrl-C, -3 when none comes within
 * `wait` milliseconds (wait < 0: for ever). */
static int typed_byte(int wait) {
  for (;;) {
    if (was_interrupted()) /* before what was typed after it */
      return -2;
    if (typed_used < typed.len)
      return (unsigned char)typed.text[typed_used++];
    if (wait < 0) /* else bytes may be given back: see follows */
      typed.len = typed_used = 0;
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    int ready = poll(&in, 1, wait);
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

static void untype(size_t count) {
  typed_used -= count;
}

/* After an escape character: does `rest` follow?  If not, nothing is taken.
 * Bytes of one sequence arrive together, so they are in one buffer. */
static bool follows(const char *rest) {
  size_t n = 0;
  while (rest[n]) {
    int byte = typed_byte(20);
    if (byte < 0)
      break;
    n++;
    if (byte != (unsigned char)rest[n - 1])
      break;
    if (!rest[n])
      return true;
  }
  untype(n);
  return false;
}

/* What is between the brackets, lines ended by \n, without other controls. */
static void read_paste(void) {
  pasted.len = pasted_used = 0;
  for (;;) {
    int byte = typed_byte(-1);
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
    int byte = typed_byte(-1);
    if (byte != ESC || !follows("[200~"))
      return byte;
    read_paste();
  }
}

/* The rest of a UTF-8 sequence: libedit takes whole characters. */
static int whole_character(int first) {
  int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
  int code = more ? first & (0x3f >> more) : first;
  while (more-- > 0) {
    int byte = next_byte();
    if (byte < 0)
      return '?';
    code = code << 6 | (byte & 0x3f);
  }
  return code;
}

/* Ctrl-C empties the line and ends it. */
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
  return byte < 0 || lib.readline ? byte : whole_character(byte);
}

bool edit_pasting(void) {
  return pasted_used < pasted.len;
}

/* ---- completion ---- */

typedef struct Words {
  char **at;
  size_t len, cap, next;
} Words;
static Words words;

static void add_word(const char *word) {
  for (size_t i = 0; i < words.len; i++)
    if (strcmp(words.at[i], word) == 0)
      return;
  if (words.len == words.cap) {
    size_t cap = words.cap ? words.cap * 2 : 64;
    char **at = realloc(words.at, cap * sizeof *at);
    if (!at)
      return;
    words.at = at, words.cap = cap;
  }
  char *copy = strdup(word);
  if (copy)
    words.at[words.len++] = copy;
}

/* The library frees what it is given. */
static char *next_word(const char *text, int state) {
  (void)text;
  if (!state)
    words.next = 0;
  return words.next < words.len ? words.at[words.next++] : NULL;
}

static char **complete(const char *text, int start, int end) {
  words.len = 0;
  const char *line = *lib.line;
  host.complete(host.owner, line, start, end, add_word);
  size_t indent = strspn(line, " \t");
  bool command = line[indent] == ':' && (size_t)start == indent + 1;
  *lib.append = command ? ' ' : 0;
  *lib.over = 1;
  if (words.len)
    return lib.matches(text, next_word);
  return NULL;
}

/* ---- history: an input a line, the newest last ---- */

/* Nobody else is to see it, or to put another one in its place. */
static int open_state(void) {
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  char path[TRUST_PATH];
  Distrust why;
  int len = -1;
  if (state && *state == '/')
    len = snprintf(path, sizeof path, "%s/axon", state);
  else if (home && *home == '/')
    len = snprintf(path, sizeof path, "%s/.local/state/axon", home);
  if (len < 0 || len >= TRUST_PATH)
    return -1;
  int folder = trust_open_own(path, true, &why);
  if (folder < 0)
    trust_tell(&why, "no history is kept, as others could change it",
               "let XDG_STATE_HOME name a folder of your own, in folders that "
               "only you and root can write to");
  return folder;
}

static FILE *open_history(const char *name, int flags, const char *how) {
  int file = history_folder < 0 ? -1
                                : openat(history_folder, name,
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
  trust_replace(history_folder, "history", 0600, text.text, text.len);
  buffer_free(&text);
}

static void load_history(void) {
  FILE *in = open_history("history", O_RDONLY, "r");
  if (!in)
    return;
  char *ring[HISTORY_KEPT] = {0}, *line = NULL;
  size_t count = 0, size = 0;
  while (getline(&line, &size, in) > 0) {
    char **slot = &ring[count++ % HISTORY_KEPT];
    free(*slot);
    *slot = line;
    line = NULL, size = 0;
  }
  free(line);
  fclose(in);
  size_t kept = count < HISTORY_KEPT ? count : HISTORY_KEPT;
  char *sorted[HISTORY_KEPT];
  for (size_t i = 0; i < kept; i++)
    sorted[i] = ring[(count - kept + i) % HISTORY_KEPT];
  if (count > 2 * HISTORY_KEPT)
    rewrite_history(sorted, kept);
  for (size_t i = 0; i < kept; i++) {
    sorted[i][strcspn(sorted[i], "\n")] = 0;
    lib.add_history(sorted[i]);
    free(sorted[i]);
  }
}

/* Several lines become one: a line break is a space to the language, but for
 * those in strings, which cannot be typed over several lines. */
void edit_remember(const char *input) {
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

static bool symbol(const char *name, void *slot) {
  void *at = dlsym(lib.handle, name);
  memcpy(slot, &at, sizeof at);
  return at != NULL;
}

static bool load(void) {
  lib.handle = dlopen(EDIT_SONAME, RTLD_NOW | RTLD_LOCAL);
  if (!lib.handle)
    return false;
  lib.readline = strncmp(EDIT_SONAME, "libreadline", 11) == 0;
  bool all = symbol("readline", &lib.read) &&
             symbol("add_history", &lib.add_history) &&
             symbol("rl_completion_matches", &lib.matches) &&
             symbol("rl_getc_function", &lib.getc) &&
             symbol("rl_attempted_completion_function", &lib.completer) &&
             symbol("rl_completion_append_character", &lib.append) &&
             symbol("rl_attempted_completion_over", &lib.over) &&
             symbol("rl_line_buffer", &lib.line) &&
             symbol("rl_basic_word_break_characters", &lib.breaks);
  if (!all) {
    dlclose(lib.handle);
    lib.handle = NULL;
  }
  return all;
}

static void bracket_paste(bool on) {
  fputs(on ? "\033[?2004h" : "\033[?2004l", stdout);
  fflush(stdout);
}

void edit_open(const EditHost *with) {
  host = *with;
  setlocale(LC_CTYPE, "");
  if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
    setlocale(LC_CTYPE, "C.UTF-8"); /* programs are UTF-8, always */
  if (!load())
    return;
  int *catch_signals; /* Ctrl-C is ours */
  if (symbol("rl_catch_signals", &catch_signals))
    *catch_signals = 0;
  *lib.getc = next_char;
  *lib.completer = complete;
  *lib.breaks = " \t\n\"\\@><=;|&{}()+-*/%,[]:~!^";
  history_folder = open_state();
  load_history();
}

void edit_close(void) {
  if (history_folder >= 0)
    close(history_folder);
  history_folder = -1;
  buffer_free(&typed);
  buffer_free(&pasted);
  free(words.at);
  words = (Words){0};
}

static char *plain_line(const char *prompt) {
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

char *edit_line(const char *prompt, bool *was_cancelled) {
  cancelled = false;
  char *line;
  if (lib.handle) {
    fflush(stdout);
    bracket_paste(true);
    line = lib.read(prompt);
    bracket_paste(false);
  } else {
    line = plain_line(prompt);
  }
  *was_cancelled = cancelled;
  return line;
}
