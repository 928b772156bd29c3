/* Indents lines of generated C by their nesting, for readers.  Code that writes
   C need not track its nesting.  Main entry point: code_indent. */
#include "support/code_indent.h"
#include "support/buffer.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { MAX_BRACE_DEPTH = 64, INDENT_COLUMNS = 2 };

typedef struct Nesting {
  uint32_t depth;                   /* number of open braces */
  uint32_t parens[MAX_BRACE_DEPTH]; /* open parentheses in each of them */
  /* preceding lines such as `if (x)` without a brace */
  uint32_t unbraced_headers;
  bool in_comment; /* in a comment that began on an earlier line */
} Nesting;

static void nesting_update(Nesting *n, const char *line, size_t len) {
  for (size_t k = 0; k < len; k++) {
    const char *at = line + k;
    bool has_next = k + 1 < len;
    if (n->in_comment) {
      n->in_comment = !(has_next && at[0] == '*' && at[1] == '/');
      k += !n->in_comment;
    } else if (has_next && at[0] == '/' && at[1] == '*') {
      n->in_comment = true;
      k++;
    } else if (*at == '{' && n->depth + 1 < MAX_BRACE_DEPTH) {
      n->parens[++n->depth] = 0;
    } else if (*at == '}' && n->depth) {
      n->depth--;
    } else if (*at == '(') {
      n->parens[n->depth]++;
    } else if (*at == ')' && n->parens[n->depth]) {
      n->parens[n->depth]--;
    }
  }
}

/* True if the controlled statement is on the next line. */
static bool is_control_header(const char *line, size_t len) {
  static const char *const words[] = {"if (", "if constexpr (", "for (",
                                      "while (", "else"};
  char last = line[len - 1];
  if (last != ')' && !(len == 4 && last == 'e'))
    return false;
  for (size_t k = 0; k < sizeof words / sizeof *words; k++)
    if (strncmp(line, words[k], strlen(words[k])) == 0)
      return true;
  return false;
}

/* Columns before the line.  A closing brace aligns with the line of its
   opener. */
static size_t indent_columns(const Nesting *n, const char *line, size_t len) {
  uint32_t depth = n->depth;
  for (size_t k = 0; k < len && line[k] == '}' && depth; k++)
    depth--;
  if (n->in_comment)
    return depth * INDENT_COLUMNS + (*line == '*');
  if (*line == '#' && strncmp(line, "#pragma", 7) != 0)
    return 0;
  bool is_continuation = n->parens[depth] && *line != '}';
  return (depth + n->unbraced_headers) * INDENT_COLUMNS +
         (is_continuation ? 2 * INDENT_COLUMNS : 0);
}

void code_indent(const char *text, Buffer *out) {
  Nesting n = {0};
  while (*text) {
    size_t len = strcspn(text, "\n");
    const char *line = text, *end = text + len;
    while (line < end && isspace((unsigned char)*line))
      line++;
    size_t rest = (size_t)(end - line);
    if (rest) {
      bool is_comment_or_directive = n.in_comment || *line == '#';
      buffer_printf(out, "%*s", (int)indent_columns(&n, line, rest), "");
      buffer_add(out, line, rest);
      nesting_update(&n, line, rest);
      if (!is_comment_or_directive && !n.parens[n.depth])
        n.unbraced_headers =
            is_control_header(line, rest) ? n.unbraced_headers + 1 : 0;
    }
    buffer_add(out, "\n", 1);
    text = end + (*end == '\n');
  }
}
