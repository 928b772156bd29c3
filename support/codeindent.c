/* The lines of generated C, moved in as far as they are nested, so that a
 * person can read it: what writes it need not know how deep it is. */
#include "support/support.h"

#include <ctype.h>
#include <string.h>

enum { DEPTH_MOST = 64, STEP = 2 };

typedef struct Nesting {
  uint32_t depth;              /* braces that are open */
  uint32_t parens[DEPTH_MOST]; /* and in each of them: parentheses */
  uint32_t heads;              /* lines such as `if (x)` before this one */
  bool comment;                /* one that began on a line before */
} Nesting;

static void nesting_add(Nesting *n, const char *line, size_t len) {
  for (size_t k = 0; k < len; k++) {
    const char *at = line + k;
    bool pair = k + 1 < len;
    if (n->comment) {
      n->comment = !(pair && at[0] == '*' && at[1] == '/');
      k += !n->comment;
    } else if (pair && at[0] == '/' && at[1] == '*') {
      n->comment = true;
      k++;
    } else if (*at == '{' && n->depth + 1 < DEPTH_MOST) {
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

/* Is its statement on the next line? */
static bool is_head(const char *line, size_t len) {
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

/* Blanks before the line; what closes braces stands where they were opened. */
static size_t indent_of(const Nesting *n, const char *line, size_t len) {
  uint32_t depth = n->depth;
  for (size_t k = 0; k < len && line[k] == '}' && depth; k++)
    depth--;
  if (n->comment)
    return depth * STEP + (*line == '*');
  if (*line == '#' && strncmp(line, "#pragma", 7) != 0)
    return 0;
  bool goes_on = n->parens[depth] && *line != '}';
  return (depth + n->heads) * STEP + (goes_on ? 2 * STEP : 0);
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
      bool apart = n.comment || *line == '#';
      buffer_printf(out, "%*s", (int)indent_of(&n, line, rest), "");
      buffer_add(out, line, rest);
      nesting_add(&n, line, rest);
      if (!apart && !n.parens[n.depth])
        n.heads = is_head(line, rest) ? n.heads + 1 : 0;
    }
    buffer_add(out, "\n", 1);
    text = end + (*end == '\n');
  }
}
