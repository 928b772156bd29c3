/* Generated C, laid out for people. */
#include "cli/plan.h"

#include <string.h>

enum { STEP = 2, DEEPEST = 24 };

/* How far a line moves the ones behind it. */
static int braces(const char *line, size_t len) {
  int depth = 0;
  for (size_t k = 0; k < len; k++)
    depth += (line[k] == '{') - (line[k] == '}');
  return depth;
}

static size_t leading(const char *line, size_t len) {
  size_t count = 0;
  while (count < len && line[count] == '}')
    count++;
  return count;
}

/* Does a statement go on, or wait for its body, on the next line? */
static bool is_open(const char *line, size_t len) {
  return len && !strchr(";{}/>", line[len - 1]);
}

void plan_code(Buffer *out, const char *code) {
  int depth = 0, open = 0;
  for (const char *line = code; *line;) {
    size_t len = strcspn(line, "\n"), blanks = strspn(line, " ");
    const char *text = line + (blanks < len ? blanks : len);
    size_t left = (size_t)(line + len - text);
    bool directive = left && (*text == '#' || *text == '@');
    bool comment = left && (*text == '*' || strncmp(text, "/*", 2) == 0);
    int at = depth - (int)leading(text, left) + (open ? 1 : 0);
    at = at < 0 ? 0 : at > DEEPEST ? DEEPEST : at;
    if (left && *text == '@')
      buffer_puts(out, "/* ... vectors of W lanes: the prelude ... */\n");
    if (left && *text == '@')
      text++, left--;
    if (left)
      buffer_printf(out, "%*s%.*s\n",
                    directive ? 0 : STEP * at + (*text == '*'), "", (int)left,
                    text);
    if (!directive && !comment) {
      depth += braces(text, left);
      open = is_open(text, left);
    }
    line += len + (line[len] == '\n');
  }
}
