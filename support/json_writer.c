/* Writes JSON to buffers. */
#include "support/json_writer.h"
#include "support/buffer.h"
#include "support/utf8.h"

#include <stdbool.h>
#include <string.h>

void json_quote_len(Buffer *out, const char *text, size_t len) {
  buffer_putc(out, '"');
  for (size_t i = 0, n; i < len; i += n) {
    unsigned char c = (unsigned char)text[i];
    /* bytes of the character */
    n = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    bool valid = n <= len - i && utf8_valid_prefix(text + i, n) == n;
    if (c == '"' || c == '\\')
      buffer_printf(out, "\\%c", c);
    else if (c == '\n')
      buffer_puts(out, "\\n");
    else if (c < ' ' || c == 0x7f)
      buffer_printf(out, "\\u%04x", c);
    else if (valid)
      buffer_add(out, text + i, n);
    else
      buffer_putc(out, '?');
    if (!valid)
      n = 1;
  }
  buffer_putc(out, '"');
}

void json_quote(Buffer *out, const char *text) {
  json_quote_len(out, text, strlen(text));
}

void json_comma(Buffer *out) {
  if (out->len && !strchr("{[,:", out->text[out->len - 1]))
    buffer_putc(out, ',');
}

void json_key(Buffer *out, const char *name) {
  json_comma(out);
  buffer_printf(out, "\"%s\":", name);
}

void json_string_field(Buffer *out, const char *name, const char *text) {
  if (!text)
    return;
  json_key(out, name);
  json_quote(out, text);
}

void json_int_field(Buffer *out, const char *name, int64_t n) {
  json_key(out, name);
  buffer_printf(out, "%lld", (long long)n);
}

void json_open(Buffer *out, const char *name, char bracket) {
  if (name)
    json_key(out, name);
  else
    json_comma(out);
  buffer_putc(out, bracket);
}
