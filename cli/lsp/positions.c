/* Positions of the language server: lines and UTF-16 units, or bytes if the
   editor supports that.  Also converts paths and URIs.  All other code uses
   byte offsets. */
#include "cli/lsp/lsp.h"
#include "support/buffer.h"
#include "support/json_writer.h"
#include "support/mem.h"

#include <string.h>

bool lsp_uses_utf8;

/* ---- positions ---- */

/* Bytes of the line break at p: \n, \r\n or \r; 0 if there is none. */
static size_t line_break_bytes(const char *p, const char *end) {
  if (p < end && *p == '\n')
    return 1;
  if (p < end && *p == '\r')
    return p + 1 < end && p[1] == '\n' ? 2 : 1;
  return 0;
}

/* Bytes of the character at p, and its units in the editor. */
static size_t character_bytes(const char *p, const char *end, uint32_t *units) {
  unsigned char c = (unsigned char)*p;
  size_t n = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
  if (n > (size_t)(end - p))
    n = (size_t)(end - p);
  *units = lsp_uses_utf8 ? (uint32_t)n : n == 4 ? 2 : 1;
  return n;
}

/* Starts of the lines of the text used last.  A cache, since most calls use the
   same text. */
static struct LineIndex {
  const char *text;
  size_t len;
  size_t *starts;
  uint32_t count;
} line_index;

static void index_lines(const char *text, size_t len) {
  if (line_index.text == text && line_index.len == len)
    return;
  size_t cap = 1;
  const char *p = text, *end = text + len;
  for (size_t i = 0; i < len; i++)
    cap += text[i] == '\n' || text[i] == '\r';
  mem_free(line_index.starts);
  line_index = (struct LineIndex){text, len, NULL, 0};
  line_index.starts = mem_alloc(cap * sizeof *line_index.starts);
  line_index.starts[line_index.count++] = 0;
  for (size_t n; p < end; p += n ? n : 1)
    if ((n = line_break_bytes(p, end)))
      line_index.starts[line_index.count++] = (size_t)(p + n - text);
}

Position lsp_position_of(const char *text, size_t len, size_t offset) {
  if (offset > len)
    offset = len;
  index_lines(text, len);
  uint32_t low = 0, high = line_index.count;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (line_index.starts[middle] <= offset)
      low = middle;
    else
      high = middle;
  }
  Position at = {.line = low};
  const char *p = text + line_index.starts[low], *stop = text + offset;
  for (size_t n; p < stop && !line_break_bytes(p, text + len); p += n) {
    uint32_t units;
    n = character_bytes(p, text + len, &units);
    if (p + n > stop)
      units = lsp_uses_utf8 ? (uint32_t)(stop - p) : 0;
    at.character += units;
  }
  return at;
}

size_t lsp_offset_of(const char *text, size_t len, Position at) {
  const char *p = text, *end = text + len;
  size_t n;
  while (at.line && p < end)
    if ((n = line_break_bytes(p, end))) {
      at.line--;
      p += n;
    } else {
      p++;
    }
  if (at.line)
    return len;
  while (at.character && p < end && !line_break_bytes(p, end)) {
    uint32_t units;
    n = character_bytes(p, end, &units);
    if (units > at.character) /* inside of a character: take its start */
      break;
    at.character -= units;
    p += n;
  }
  return (size_t)(p - text);
}

bool lsp_get_position(const json_t *json, Position *out) {
  int64_t line = lsp_int(json, "line", -1);
  int64_t character = lsp_int(json, "character", -1);
  if (line < 0 || character < 0)
    return false;
  out->line = line > UINT32_MAX ? UINT32_MAX : (uint32_t)line;
  out->character = character > UINT32_MAX ? UINT32_MAX : (uint32_t)character;
  return true;
}

static void put_position(Buffer *out, const char *name, Position at) {
  json_key(out, name);
  buffer_printf(out, "{\"line\":%u,\"character\":%u}", at.line, at.character);
}

void lsp_put_range(Buffer *out, const char *text, size_t len, size_t start,
                   size_t end) {
  buffer_putc(out, '{');
  put_position(out, "start", lsp_position_of(text, len, start));
  put_position(out, "end", lsp_position_of(text, len, end));
  buffer_putc(out, '}');
}

void lsp_apply_edit(Buffer *text, Position start, Position end,
                    const char *replacement, size_t replacement_len) {
  const char *old = text->text ? text->text : "";
  size_t from = lsp_offset_of(old, text->len, start);
  size_t to = lsp_offset_of(old, text->len, end);
  if (to < from)
    to = from;
  Buffer new = {0};
  buffer_add(&new, old, from);
  buffer_add(&new, replacement, replacement_len);
  buffer_add(&new, old + to, text->len - to);
  buffer_free(text);
  *text = new;
}

/* ---- paths ---- */

static int hex_digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

static char *string_copy(const char *text, size_t len) {
  char *out = mem_alloc(len + 1);
  memcpy(out, text, len);
  return out;
}

char *lsp_path_of_uri(const char *uri) {
  static const char scheme[] = "file://";
  if (strncmp(uri, scheme, sizeof scheme - 1) != 0)
    return string_copy(uri, strlen(uri));
  const char *p = uri + sizeof scheme - 1;
  if (*p != '/' && strchr(p, '/')) /* a host name, as in file://localhost/... */
    p = strchr(p, '/');
  char *out = string_copy(p, strlen(p)), *to = out;
  for (; *p; p++)
    if (*p == '%' && hex_digit(p[1]) >= 0 && hex_digit(p[2]) >= 0 &&
        (hex_digit(p[1]) || hex_digit(p[2]))) {
      *to++ = (char)(hex_digit(p[1]) * 16 + hex_digit(p[2]));
      p += 2;
    } else {
      *to++ = *p;
    }
  *to = 0;
  return out;
}

char *lsp_uri_of_path(const char *path) {
  Buffer out = {0};
  buffer_puts(&out, "file://");
  for (; *path; path++)
    if ((*path >= 'a' && *path <= 'z') || (*path >= 'A' && *path <= 'Z') ||
        (*path >= '0' && *path <= '9') || strchr("/-_.~", *path))
      buffer_putc(&out, *path);
    else
      buffer_printf(&out, "%%%02X", (unsigned char)*path);
  char *uri = string_copy(out.text, out.len);
  buffer_free(&out);
  return uri;
}
