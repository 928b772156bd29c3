/* The sources of a batch follow each other.  Macros rename the functions of
 * each source, and its own macros end with it.  A source with anything else at
 * file scope is compiled alone. */
#include "backend/cpu/compile_batch.h"

#include "backend/cpu/compile_process.h"
#include "support/c_identifier.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

typedef struct Name {
  const char *text;
  int len;
} Name;

typedef struct Scope {
  int braces, parentheses;
  Name callee;         /* a name before a parenthesis at file scope */
  bool has_parameters; /* the last item at file scope was a closing one */
} Scope;

typedef struct Condition {
  Scope begin;
  Scope end; /* of each branch; until #else: begin */
} Condition;

/* Reads the items at file scope. */
typedef struct Scanner {
  const char *at, *end;
  Scope scope;
  int condition_count;
  Condition conditions[MAX_DEPTH]; /* that enclose the place, outermost first */
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

static void begin_condition(Scanner *s) {
  if (s->condition_count >= MAX_DEPTH)
    s->is_unknown = true;
  else
    s->conditions[s->condition_count++] = (Condition){s->scope, s->scope};
}

static void begin_else(Scanner *s) {
  if (!s->condition_count) {
    s->is_unknown = true;
    return;
  }
  Condition *c = &s->conditions[s->condition_count - 1];
  c->end = s->scope;
  s->scope = c->begin;
}

/* Both branches must leave the same braces and parentheses open. */
static void end_condition(Scanner *s) {
  if (!s->condition_count) {
    s->is_unknown = true;
    return;
  }
  const Scope *end = &s->conditions[--s->condition_count].end;
  s->is_unknown |= end->braces != s->scope.braces ||
                   end->parentheses != s->scope.parentheses;
}

static Item read_directive(Scanner *s, Name *name) {
  s->at++;
  Name directive = read_name(s);
  if (name_is(directive, "ifdef") || name_is(directive, "ifndef")) {
    begin_condition(s);
  } else if (name_is(directive, "else")) {
    begin_else(s);
  } else if (name_is(directive, "endif")) {
    end_condition(s);
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
  return s->scope.braces == 0 && s->scope.parentheses == 0;
}

static void read_identifier(Scanner *s) {
  Name name = read_name(s);
  if (!is_file_scope(s))
    return;
  skip_blanks(s);
  if (s->at < s->end && *s->at == '(')
    s->scope.callee = name;
  s->scope.has_parameters = false;
}

static Item read_mark(Scanner *s, Name *name) {
  char c = *s->at++;
  if (c == '{' && s->scope.braces++ == 0) {
    s->is_unknown |= !s->scope.has_parameters;
    *name = s->scope.callee;
    return s->scope.has_parameters ? ITEM_FUNCTION : ITEM_END;
  }
  s->scope.braces -= c == '}';
  s->scope.parentheses += (c == '(') - (c == ')');
  if (is_file_scope(s)) {
    s->scope.has_parameters = c == ')';
    s->is_unknown |= c == '=' || c == ';';
  }
  s->is_unknown |= c == '"' || c == '\'' || c == '\\' || s->scope.braces < 0;
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
  return (Scanner){.at = source + compile_process_head_len(source, len),
                   .end = source + len};
}

bool compile_batch_accepts(const char *source, size_t len) {
  Scanner s = scanner_new(source, len);
  if (s.at == source)
    return false;
  bool has_kernel = false;
  Name name;
  for (Item item; (item = next_item(&s, &name)) != ITEM_END;)
    has_kernel |= item == ITEM_FUNCTION && name_is(name, "kernel");
  return has_kernel && !s.is_unknown && is_file_scope(&s) &&
         s.condition_count == 0;
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
