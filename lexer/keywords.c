/* Keywords, foreign words and escapes: the parts of the lexer that need no
 * automaton. */
#include <stdlib.h>
#include <string.h>

#include "lexer/lexer.h"
#include "parser/parse.h"

const Keyword lexer_keywords[] = {
#define KEYWORD(token, text, kind) {text, KEYWORD_##kind, TOK_##token},
#include "lexer/keywords.def"
#undef KEYWORD
};
const uint32_t lexer_keyword_count = ARRAY_LEN(lexer_keywords);

enum {
  TOK_NONE = FOREIGN_NONE,
  TOK_MARGIN = FOREIGN_LINE_START,
  TOK_HEAD = FOREIGN_AFTER_BINDER
};

static const ForeignWord foreign_words[] = {
#define FOREIGN(text, blame, help) {text, TOK_##blame, help, NULL},
#define RENAMED(text, own) {text, FOREIGN_NONE, "write `" own "`", own},
#include "lexer/foreign.def"
#undef RENAMED
#undef FOREIGN
};

static int compare_word(const void *word, const void *foreign) {
  const char *a = word, *b = ((const ForeignWord *)foreign)->text;
  return *a == *b ? strcmp(a, b) : (unsigned char)*a - (unsigned char)*b;
}

const ForeignWord *lexer_find_foreign(const char *word) {
  return bsearch(word, foreign_words, ARRAY_LEN(foreign_words),
                 sizeof *foreign_words, compare_word);
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return -1;
}

static uint32_t encode_utf8(uint32_t point, char out[4]) {
  if (point < 0x80) {
    out[0] = (char)point;
    return 1;
  }
  uint32_t continuation_bytes = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  static const unsigned char lead[4] = {0, 0xc0, 0xe0, 0xf0};
  for (uint32_t i = continuation_bytes; i > 0; i--, point >>= 6)
    out[i] = (char)(0x80 | (point & 0x3f));
  out[0] = (char)(lead[continuation_bytes] | point);
  return continuation_bytes + 1;
}

static uint32_t unescape_hex(const char *text, uint32_t len, char out[4],
                             uint32_t *out_len, EscapeError *error_kind) {
  int high = len > 2 ? hex_digit(text[2]) : -1;
  int low = high >= 0 && len > 3 ? hex_digit(text[3]) : -1;
  if (low < 0) {
    *error_kind = ESCAPE_HEX;
    return 2;
  }
  out[0] = (char)(high * 16 + low);
  *out_len = 1;
  return 4;
}

static uint32_t unescape_unicode(const char *text, uint32_t len, char out[4],
                                 uint32_t *out_len, EscapeError *error_kind) {
  uint32_t i = 3, point = 0;
  bool valid = len > 2 && text[2] == '{';
  for (; valid && i < len && hex_digit(text[i]) >= 0; i++) {
    point = point * 16 + (uint32_t)hex_digit(text[i]);
    if (point > 0x10ffff)
      valid = false;
  }
  valid = valid && i > 3 && i < len && text[i] == '}' &&
          (point < 0xd800 || point > 0xdfff);
  if (!valid) {
    *error_kind = ESCAPE_UNICODE;
    return 2;
  }
  *out_len = encode_utf8(point, out);
  return i + 1;
}

uint32_t lexer_unescape(const char *text, uint32_t len, char out[4],
                        uint32_t *out_len, EscapeError *error_kind) {
  static const char from[] = "ntr\\\"0", to[] = "\n\t\r\\\"\0";
  *error_kind = ESCAPE_OK;
  *out_len = 0;
  char c = len > 1 ? text[1] : 0;
  const char *known = c ? strchr(from, c) : NULL;
  if (known) {
    out[0] = to[known - from];
    *out_len = 1;
    return 2;
  }
  if (c == 'x')
    return unescape_hex(text, len, out, out_len, error_kind);
  if (c == 'u')
    return unescape_unicode(text, len, out, out_len, error_kind);
  if (c == '\n' || c == '\r') { /* line continuation: skips the indentation of
                                   the next line */
    uint32_t i = 2;
    while (i < len && strchr(" \t\r\n", text[i]) && text[i])
      i++;
    return i;
  }
  *error_kind = ESCAPE_UNKNOWN;
  return len > 1 ? 2 : 1;
}

bool lexer_is_keyword(int token) {
  for (uint32_t i = 0; i < lexer_keyword_count; i++)
    if (lexer_keywords[i].token == token)
      return true;
  return false;
}
