/* Tab completion: commands, keywords, names, names of a module, fields of
   records. */
#define _GNU_SOURCE
#include "repl/repl.h"

#include "lexer/lexer.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

typedef struct CompletionQuery {
  Repl *repl;
  const char *word; /* what was typed of the word */
  size_t len;
  const char *prefix; /* put in front of each completion: "r." for a field */
  size_t prefix_len;
  void (*add)(void *arg, const char *word);
  void *arg;
} CompletionQuery;

static void add_candidate(void *arg, const char *name) {
  CompletionQuery *query = arg;
  if (strncmp(name, query->word, query->len) != 0)
    return;
  Buffer full = {0};
  buffer_add(&full, query->prefix, query->prefix_len);
  buffer_puts(&full, name);
  query->add(query->arg, full.text);
  buffer_free(&full);
}

static void add_fields(CompletionQuery *query, const char *word, size_t len) {
  size_t dot = len;
  while (dot > 0 && word[dot - 1] != '.')
    dot--;
  if (!dot)
    return;
  Buffer owner = {0};
  buffer_add(&owner, word, dot - 1);
  Binding *binding = session_find_binding(query->repl->session, owner.text);
  buffer_free(&owner);
  if (!binding)
    return;
  CompletionQuery fields = *query;
  fields.prefix = word, fields.prefix_len = dot;
  fields.word = word + dot, fields.len = len - dot;
  session_each_field(query->repl->session, binding, add_candidate, &fields);
}

static bool is_directory(DIR *dir, const char *name) {
  struct stat status;
  return fstatat(dirfd(dir), name, &status, 0) == 0 && S_ISDIR(status.st_mode);
}

/* Completes entries of a directory.  A word also begins after `-`, so the file
   name may have begun before it. */
static void add_files(CompletionQuery *query, const char *path) {
  const char *end = query->word + query->len, *base = end;
  while (base > path && base[-1] != '/')
    base--;
  Buffer directory = {0}, typed_prefix = {0}, name = {0};
  buffer_add(&directory, path, (size_t)(base - path));
  if (base < query->word)
    buffer_add(&typed_prefix, base, (size_t)(query->word - base));
  DIR *dir = opendir(directory.len ? directory.text : ".");
  for (struct dirent *e; dir && (e = readdir(dir));) {
    if ((e->d_name[0] == '.' && *base != '.') ||
        (typed_prefix.len &&
         strncmp(e->d_name, typed_prefix.text, typed_prefix.len) != 0))
      continue;
    name.len = 0;
    buffer_puts(&name, e->d_name + typed_prefix.len);
    if (is_directory(dir, e->d_name))
      buffer_putc(&name, '/');
    add_candidate(query, name.text);
  }
  if (dir)
    closedir(dir);
  buffer_free(&directory);
  buffer_free(&typed_prefix);
  buffer_free(&name);
}

/* The text after the opening quote of a string that is not closed before `at`,
   or NULL. */
static const char *open_string(const char *line, const char *at) {
  const char *quote = NULL;
  for (const char *p = line; p < at; p++)
    if (*p == '"')
      quote = quote ? NULL : p + 1;
    else if (*p == '\\' && quote && p + 1 < at)
      p++;
  return quote;
}

static void add_command(void *arg, const char *name) {
  add_candidate(arg, name + 1); /* the colon is not part of the word */
}

const char repl_word_breaks[] = " \t\n\"\\@><=;|&{}()+-*/%,[]:~!^";

void repl_complete_word(Repl *repl, const char *line, int start, int end,
                        void (*add)(void *arg, const char *word), void *arg) {
  CompletionQuery query = {.repl = repl, .prefix = "", .add = add, .arg = arg};
  query.word = line + start, query.len = (size_t)(end - start);
  size_t indent = strspn(line, " \t");
  const char *rest = line + indent;
  if (*rest == ':' && (size_t)start == indent + 1) {
    repl_each_command(add_command, &query);
    return;
  }
  if (strncmp(rest, ":l", 2) == 0) {
    rest += strcspn(rest, " \t");
    add_files(&query, rest + strspn(rest, " \t"));
    return;
  }
  const char *string = open_string(line, query.word);
  if (string) {
    add_files(&query, string);
    return;
  }
  if (!query.len)
    return;
  session_each_name(repl->session, add_candidate, &query);
  for (uint32_t i = 0; i < lexer_keyword_count; i++)
    add_candidate(&query, lexer_keywords[i].text);
  add_fields(&query, query.word, query.len);
  session_clear_diags(repl->session);
}
