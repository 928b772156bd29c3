/* Breaks the text of a type into lines.  Main entry point: type_lay_out. */
#include "repl/type_text.h"
#include "support/buffer.h"
#include "support/utf8.h"

#include <string.h>

/* The number of bytes of a type before the next possible line break: after an
   arrow, after a comma outside of shapes, or before `given`. */
static size_t unbreakable_prefix(const char *p, int *shapes) {
  for (size_t len = 0;; len++) {
    if (!p[len] || (len && strncmp(p + len, "given ", 6) == 0))
      return len;
    *shapes += (p[len] == '[') - (p[len] == ']');
    if (len && p[len] == ' ' && !*shapes && strchr(">!,", p[len - 1]))
      return len + 1;
  }
}

void type_lay_out(const char *type, size_t used, size_t width, bool colour,
                  Buffer *out) {
  buffer_puts(out, colour ? "\033[36m" : "");
  size_t column = used;
  int shapes = 0;
  for (const char *p = type; *p;) {
    size_t len = unbreakable_prefix(p, &shapes);
    bool blank = len && p[len - 1] == ' '; /* no blank at the end of a line */
    size_t wide = utf8_columns(p, len) - blank;
    if (p > type && column + 1 + wide > width) {
      buffer_puts(out, "\n    ");
      column = 4;
    } else if (p > type) {
      buffer_putc(out, ' ');
      column++;
    }
    buffer_add(out, p, len - blank);
    column += wide;
    p += len;
  }
  buffer_puts(out, colour ? "\033[0m" : "");
}
