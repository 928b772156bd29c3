/* JSON of the editor protocol: read by jansson, written to buffers. */
#include "cli/lsp.h"

#include <string.h>

#define FUNCTIONS(F)    \
  F(json_loadb)         \
  F(json_delete)        \
  F(json_object_get)    \
  F(json_array_size)    \
  F(json_array_get)     \
  F(json_integer_value) \
  F(json_string_value)  \
  F(json_string_length)

static LIBRARY_TABLE(FUNCTIONS) lib;
static const Library jansson =
    LIBRARY("libjansson.so.4", "libjansson4", FUNCTIONS, lib);

bool lsp_json_load(void) {
  Fault fault = {0};
  if (library_load(&jansson, &fault))
    return true;
  fprintf(stderr, "axon lsp: the library libjansson.so.4 is not installed\n"
                  "on Debian and Ubuntu: apt install libjansson4\n");
  return false;
}

/* ---- reading ---- */

json_t *lsp_parse(const char *text, size_t len) {
  return lib.json_loadb(text, len, JSON_ALLOW_NUL, NULL);
}

void lsp_free(json_t *json) {
  if (json)
    lib.json_delete(json); /* ours is the only reference */
}

const json_t *lsp_get(const json_t *json, const char *path) {
  char key[64];
  while (json && *path) {
    size_t len = strcspn(path, ".");
    if (len >= sizeof key || !json_is_object(json))
      return NULL;
    memcpy(key, path, len);
    key[len] = 0;
    json = lib.json_object_get(json, key);
    path += len + (path[len] == '.');
  }
  return json;
}

const char *lsp_string(const json_t *json, const char *path) {
  const json_t *value = lsp_get(json, path);
  return value && json_is_string(value) ? lib.json_string_value(value) : NULL;
}

size_t lsp_string_len(const json_t *json, const char *path) {
  const json_t *value = lsp_get(json, path);
  return value && json_is_string(value) ? lib.json_string_length(value) : 0;
}

int64_t lsp_int(const json_t *json, const char *path, int64_t otherwise) {
  const json_t *value = lsp_get(json, path);
  return value && json_is_integer(value)
             ? (int64_t)lib.json_integer_value(value)
             : otherwise;
}

bool lsp_bool(const json_t *json, const char *path) {
  const json_t *value = lsp_get(json, path);
  return value && json_is_true(value);
}

size_t lsp_count(const json_t *array) {
  return array && json_is_array(array) ? lib.json_array_size(array) : 0;
}

const json_t *lsp_item(const json_t *array, size_t i) {
  return lib.json_array_get(array, i);
}

bool lsp_has_string(const json_t *array, const char *text) {
  for (size_t i = 0; i < lsp_count(array); i++) {
    const char *item = lsp_string(lsp_item(array, i), "");
    if (item && strcmp(item, text) == 0)
      return true;
  }
  return false;
}

/* ---- writing ---- */

void out_text_len(Buffer *out, const char *text, size_t len) {
  buffer_putc(out, '"');
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char)text[i];
    size_t left = len - i < 4 ? len - i : 4;
    size_t valid = c < 0x80 ? 1 : utf8_valid(text + i, left);
    if (c == '"' || c == '\\')
      buffer_printf(out, "\\%c", c);
    else if (c == '\n')
      buffer_puts(out, "\\n");
    else if (c < ' ' || c == 0x7f)
      buffer_printf(out, "\\u%04x", c);
    else if (!valid)
      buffer_putc(out, '?');
    else
      buffer_putc(out, (char)c);
    for (size_t more = 1; c >= 0xc0 && valid && more < 4 && i + 1 < len &&
                          ((unsigned char)text[i + 1] & 0xc0) == 0x80;
         more++)
      buffer_putc(out, text[++i]);
  }
  buffer_putc(out, '"');
}

void out_text(Buffer *out, const char *text) {
  out_text_len(out, text, strlen(text));
}

void out_comma(Buffer *out) {
  if (out->len && !strchr("{[,:", out->text[out->len - 1]))
    buffer_putc(out, ',');
}

void out_key(Buffer *out, const char *name) {
  out_comma(out);
  buffer_printf(out, "\"%s\":", name);
}

void out_field(Buffer *out, const char *name, const char *text) {
  if (!text)
    return;
  out_key(out, name);
  out_text(out, text);
}
