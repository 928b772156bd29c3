/* The sources of a batch follow each other.  Macros rename the functions of
 * each source, and its own macros end with it.  A source with anything else at
 * file scope is compiled alone. */
#include "backend/cpu/compile_batch.h"

#include "support/c_identifier.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char head[] = "#define W ";

enum { MAX_DEPTH = 64 };

typedef struct Name {
  const char *text;
  int len;
} Name;

/* Reads the items at file scope. */
typedef struct Scanner {
  const char *at, *end;
  int braces, parentheses, conditions;
  int saved[MAX_DEPTH]; /* braces at the begin of each #if */
  Name callee;          /* a name before a parenthesis at file scope */
  bool has_parameters;  /* the last item at file scope was a closing one */
  bool is_unknown;
} Scanner;

typedef enum Item { ITEM_END, ITEM_FUNCTION, ITEM_MACRO } Item;

static Name read_name(Scanner *s) {
  const char *from = s->at;
  while (s->at < s->end && is_c_identifier_char(*s->at))
    s->at++;
  return (Name){from, (int)(s->at - from)};
}

static bool name_is(Name n, const char *text) {
  return (size_t)n.len == strlen(text) &&
         memcmp(n.text, text, (size_t)n.len) == 0;
}

static void skip_line(Scanner *s) {
  while (s->at < s->end && *s->at != '\n')
    s->is_unknown |= *s->at++ == '\\';
}

static void skip_blanks(Scanner *s) {
  while (s->at < s->end && *s->at == ' ')
    s->at++;
}

/* Both branches of a condition leave the same braces open. */
static Item read_directive(Scanner *s, Name *name) {
  s->at++;
  Name directive = read_name(s);
  if (name_is(directive, "ifdef") || name_is(directive, "ifndef")) {
    if (s->conditions < MAX_DEPTH)
      s->saved[s->conditions] = s->braces;
    s->is_unknown |= s->conditions++ >= MAX_DEPTH;
  } else if (name_is(directive, "else") && s->conditions > 0) {
    s->braces = s->saved[s->conditions - 1];
  } else if (name_is(directive, "endif") && s->conditions > 0) {
    s->conditions--;
  } else if (name_is(directive, "define")) {
    skip_blanks(s);
    *name = read_name(s);
    skip_line(s);
    return ITEM_MACRO;
  } else if (!name_is(directive, "undef") && !name_is(directive, "pragma")) {
    s->is_unknown = true;
  }
  skip_line(s);
  return ITEM_END;
}

static bool is_file_scope(const Scanner *s) {
  return s->braces == 0 && s->parentheses == 0;
}

static void read_identifier(Scanner *s) {
  Name name = read_name(s);
  if (!is_file_scope(s))
    return;
  skip_blanks(s);
  if (s->at < s->end && *s->at == '(')
    s->callee = name;
  s->has_parameters = false;
}

static Item read_mark(Scanner *s, Name *name) {
  char c = *s->at++;
  if (c == '{' && s->braces++ == 0) {
    s->is_unknown |= !s->has_parameters;
    *name = s->callee;
    return s->has_parameters ? ITEM_FUNCTION : ITEM_END;
  }
  s->braces -= c == '}';
  s->parentheses += (c == '(') - (c == ')');
  if (is_file_scope(s)) {
    s->has_parameters = c == ')';
    s->is_unknown |= c == '=' || c == ';';
  }
  s->is_unknown |= c == '"' || c == '\'' || c == '\\' || s->braces < 0;
  return ITEM_END;
}

/* The next function or macro that the source defines. */
static Item next_item(Scanner *s, Name *name) {
  while (s->at < s->end && !s->is_unknown) {
    Item found = ITEM_END;
    if (*s->at == '#')
      found = read_directive(s, name);
    else if (is_c_identifier_char(*s->at))
      read_identifier(s);
    else if (*s->at == ' ' || *s->at == '\n')
      s->at++;
    else
      found = read_mark(s, name);
    if (found != ITEM_END)
      return found;
  }
  return ITEM_END;
}

static Scanner scanner_new(const char *source, size_t len) {
  const char *line = memchr(source, '\n', len);
  return (Scanner){.at = line ? line + 1 : source + len, .end = source + len};
}

bool compile_batch_accepts(const char *source, size_t len) {
  if (strncmp(source, head, strlen(head)) != 0)
    return false;
  Scanner s = scanner_new(source, len);
  Name name;
  while (next_item(&s, &name) != ITEM_END)
    ;
  return !s.is_unknown && s.braces == 0;
}

bool compile_batch_matches(const char *x, const char *y) {
  size_t len = strcspn(x, "\n");
  return strncmp(x, y, len + 1) == 0;
}

void compile_batch_suffix(char out[BATCH_SUFFIX_BYTES], uint64_t key) {
  snprintf(out, BATCH_SUFFIX_BYTES, "_%016" PRIx64, key);
}

void compile_batch_add(Buffer *out, const char *source, size_t len,
                       uint64_t key) {
  char suffix[BATCH_SUFFIX_BYTES];
  compile_batch_suffix(suffix, key);
  Scanner s = scanner_new(source, len), again = s;
  Name name;
  if (!out->len)
    buffer_add(out, source, (size_t)(s.at - source));
  for (Item item; (item = next_item(&s, &name)) != ITEM_END;)
    if (item == ITEM_FUNCTION)
      buffer_printf(out, "#undef %.*s\n#define %.*s %.*s%s\n", name.len,
                    name.text, name.len, name.text, name.len, name.text,
                    suffix);
  buffer_add(out, again.at, (size_t)(again.end - again.at));
  while (next_item(&again, &name) != ITEM_END)
    buffer_printf(out, "#undef %.*s\n", name.len, name.text);
}
