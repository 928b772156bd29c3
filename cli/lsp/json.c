/* JSON of the language server protocol, parsed by jansson.  Main entry point:
   lsp_parse_json. */
#include "cli/lsp/lsp.h"
#include "support/buffer.h"

#include <ctype.h>
#include <string.h>

bool lsp_load_json_library(void) {
  Fault fault = {0};
  if (json_load_library(&fault))
    return true;
  fprintf(stderr, "axon lsp: %s\n", fault.message);
  if (fault.help[0])
    fprintf(stderr, "%s\n", fault.help);
  return false;
}

/* True if an escaped surrogate begins at `at`: the first of a pair (\ud800 to
   \udbff), or the second. */
static bool is_surrogate(const char *text, size_t len, size_t at, bool first) {
  return at + 6 <= len && strncmp(text + at, "\\u", 2) == 0 &&
         strchr("dD", text[at + 2]) &&
         strchr(first ? "89abAB" : "cdefCDEF", text[at + 3]) &&
         isxdigit((unsigned char)text[at + 4]) &&
         isxdigit((unsigned char)text[at + 5]);
}

/* Editors may send a lone surrogate, which jansson rejects.  If the message
   were lost, the document would be wrong from then on.  So it is replaced by
   U+FFFD, which has the same number of UTF-16 units. */
static json_t *parse_lone_surrogates(const char *text, size_t len) {
  Buffer repaired = {0};
  buffer_add(&repaired, text, len);
  for (size_t i = 0; i < len; i++) {
    bool first = is_surrogate(text, len, i, true);
    if (first && is_surrogate(text, len, i + 6, false))
      i += 11;
    else if (first || is_surrogate(text, len, i, false))
      memcpy(repaired.text + i, "\\ufffd", 6);
    else if (text[i] == '\\')
      i++;
  }
  json_t *json = jansson.json_loadb(repaired.text, len, JSON_ALLOW_NUL, NULL);
  buffer_free(&repaired);
  return json;
}

json_t *lsp_parse_json(const char *text, size_t len) {
  json_t *json = jansson.json_loadb(text, len, JSON_ALLOW_NUL, NULL);
  return json ? json : parse_lone_surrogates(text, len);
}

void lsp_json_free(json_t *json) {
  json_decref_library(json);
}

const json_t *lsp_get(const json_t *json, const char *path) {
  char key[64];
  while (json && *path) {
    size_t len = strcspn(path, ".");
    if (len >= sizeof key || !json_is_object(json))
      return NULL;
    memcpy(key, path, len);
    key[len] = 0;
    json = jansson.json_object_get(json, key);
    path += len + (path[len] == '.');
  }
  return json;
}

const char *lsp_string(const json_t *json, const char *path) {
  const json_t *value = lsp_get(json, path);
  bool is = value && json_is_string(value);
  return is ? jansson.json_string_value(value) : NULL;
}

size_t lsp_string_len(const json_t *json, const char *path) {
  const json_t *value = lsp_get(json, path);
  bool is = value && json_is_string(value);
  return is ? jansson.json_string_length(value) : 0;
}

int64_t lsp_int(const json_t *json, const char *path, int64_t otherwise) {
  const json_t *value = lsp_get(json, path);
  return value && json_is_integer(value)
             ? (int64_t)jansson.json_integer_value(value)
             : otherwise;
}

bool lsp_bool(const json_t *json, const char *path) {
  const json_t *value = lsp_get(json, path);
  return value && json_is_true(value);
}

size_t lsp_array_count(const json_t *array) {
  return array && json_is_array(array) ? jansson.json_array_size(array) : 0;
}

const json_t *lsp_array_item(const json_t *array, size_t i) {
  return jansson.json_array_get(array, i);
}

bool lsp_has_string(const json_t *array, const char *text) {
  for (size_t i = 0; i < lsp_array_count(array); i++) {
    const char *item = lsp_string(lsp_array_item(array, i), "");
    if (item && strcmp(item, text) == 0)
      return true;
  }
  return false;
}
