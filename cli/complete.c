/* Tab: commands, keywords, names, what is in a module, fields of records. */
#define _GNU_SOURCE
#include "cli/repl.h"

#include "lexer/lexer.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

typedef struct Search {
  Repl *repl;
  const char *word; /* what was typed of it */
  size_t len;
  const char *before; /* put in front of what is found: "r." of a field */
  size_t before_len;
  void (*add)(const char *word);
} Search;

static void offer(void *arg, const char *name) {
  Search *s = arg;
  if (strncmp(name, s->word, s->len) != 0)
    return;
  Buffer full = {0};
  buffer_add(&full, s->before, s->before_len);
  buffer_puts(&full, name);
  s->add(full.text);
  buffer_free(&full);
}

static void offer_fields(Search *s, const char *word, size_t len) {
  size_t dot = len;
  while (dot > 0 && word[dot - 1] != '.')
    dot--;
  if (!dot)
    return;
  Buffer owner = {0};
  buffer_add(&owner, word, dot - 1);
  Binding *binding = session_find(s->repl->session, owner.text);
  buffer_free(&owner);
  if (!binding)
    return;
  Search fields = *s;
  fields.before = word, fields.before_len = dot;
  fields.word = word + dot, fields.len = len - dot;
  session_fields(s->repl->session, binding, offer, &fields);
}

static bool is_directory(DIR *dir, const char *name) {
  struct stat status;
  return fstatat(dirfd(dir), name, &status, 0) == 0 && S_ISDIR(status.st_mode);
}

/* Entries of the directory that `path` names so far.  A word begins behind a
 * `-` too, so that a name may have begun before it. */
static void offer_files(Search *s, const char *path) {
  const char *end = s->word + s->len, *base = end;
  while (base > path && base[-1] != '/')
    base--;
  Buffer directory = {0}, begun = {0}, name = {0};
  buffer_add(&directory, path, (size_t)(base - path));
  if (base < s->word)
    buffer_add(&begun, base, (size_t)(s->word - base));
  DIR *dir = opendir(directory.len ? directory.text : ".");
  for (struct dirent *e; dir && (e = readdir(dir));) {
    if ((e->d_name[0] == '.' && *base != '.') ||
        (begun.len && strncmp(e->d_name, begun.text, begun.len) != 0))
      continue;
    name.len = 0;
    buffer_puts(&name, e->d_name + begun.len);
    if (is_directory(dir, e->d_name))
      buffer_putc(&name, '/');
    offer(s, name.text);
  }
  if (dir)
    closedir(dir);
  buffer_free(&directory);
  buffer_free(&begun);
  buffer_free(&name);
}

/* Behind the quote of a string that is not closed before `at`; else NULL. */
static const char *open_string(const char *line, const char *at) {
  const char *quote = NULL;
  for (const char *p = line; p < at; p++)
    if (*p == '"')
      quote = quote ? NULL : p + 1;
    else if (*p == '\\' && quote && p + 1 < at)
      p++;
  return quote;
}

static void offer_command(void *arg, const char *name) {
  offer(arg, name + 1); /* the colon is no part of a word */
}

void complete_word(void *owner, const char *line, int start, int end,
                   void (*add)(const char *word)) {
  Repl *repl = owner;
  Search s = {.repl = repl, .before = "", .add = add};
  s.word = line + start, s.len = (size_t)(end - start);
  size_t indent = strspn(line, " \t");
  const char *rest = line + indent;
  if (*rest == ':' && (size_t)start == indent + 1) {
    command_each(offer_command, &s);
    return;
  }
  if (strncmp(rest, ":l", 2) == 0) {
    rest += strcspn(rest, " \t");
    offer_files(&s, rest + strspn(rest, " \t"));
    return;
  }
  const char *string = open_string(line, s.word);
  if (string) {
    offer_files(&s, string);
    return;
  }
  if (!s.len)
    return;
  session_each_name(repl->session, offer, &s);
  for (uint32_t i = 0; i < lexer_keyword_count; i++)
    offer(&s, lexer_keywords[i].text);
  offer_fields(&s, s.word, s.len);
  session_clear_diags(repl->session);
}
