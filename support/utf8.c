/* UTF-8: validation, and display width on a terminal. */
#include "support/utf8.h"
#include "support/compiler.h"

#include <stdbool.h>
#include <stdint.h>

/* Decodes the first character of text[0..len).  Returns its length in bytes, or
   0 if it is invalid (overlong forms, surrogates and NUL are). */
static size_t decode(const char *text, size_t len, uint32_t *code) {
  const unsigned char *s = (const unsigned char *)text;
  if (s[0] < 0x80) {
    *code = s[0];
    return s[0] != 0;
  }
  size_t continuation_bytes = s[0] >= 0xf0 ? 3 : s[0] >= 0xe0 ? 2 : 1;
  if (s[0] < 0xc2 || s[0] > 0xf4 || continuation_bytes >= len)
    return 0;
  static const uint32_t min_code[] = {0, 0x80, 0x800, 0x10000};
  uint32_t c = s[0] & (0x3fu >> continuation_bytes);
  for (size_t i = 1; i <= continuation_bytes; i++) {
    if ((s[i] & 0xc0) != 0x80)
      return 0;
    c = c << 6 | (s[i] & 0x3f);
  }
  if (c < min_code[continuation_bytes] || c > 0x10ffff ||
      (c >= 0xd800 && c <= 0xdfff))
    return 0;
  *code = c;
  return continuation_bytes + 1;
}

size_t utf8_valid_prefix(const char *text, size_t len) {
  size_t i = 0;
  while (i < len) {
    uint32_t code;
    size_t n = decode(text + i, len - i, &code);
    if (!n)
      break;
    i += n;
  }
  return i;
}

typedef struct CodeRange {
  uint32_t first, last;
} CodeRange;

/* Combining marks and invisible characters. */
static const CodeRange zero_width_ranges[] = {
    {0x300, 0x36f},     {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},
    {0x64b, 0x65f},     {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200b, 0x200f},
    {0x2060, 0x2064},   {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f},
    {0xe0100, 0xe01ef},
};

/* East Asian wide characters and emoji, from Unicode's EastAsianWidth.txt. */
static const CodeRange wide_ranges[] = {
    {0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0x4dbf},
    {0x4e00, 0xa4cf},   {0xa960, 0xa97f},   {0xac00, 0xd7a3},
    {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},
    {0xffe0, 0xffe6},   {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff},
    {0x1f900, 0x1f9ff}, {0x1fa70, 0x1faff}, {0x20000, 0x3fffd},
};

static bool in_ranges(uint32_t code, const CodeRange *ranges, size_t count) {
  for (size_t i = 0; i < count && code >= ranges[i].first; i++)
    if (code <= ranges[i].last)
      return true;
  return false;
}

size_t utf8_columns(const char *text, size_t len) {
  size_t width = 0, n;
  for (size_t i = 0; i < len; i += n) {
    uint32_t code = 0;
    n = decode(text + i, len - i, &code);
    if (!n)
      n = 1, width += 1; /* an invalid byte is shown as one mark */
    else if (in_ranges(code, wide_ranges, ARRAY_LEN(wide_ranges)))
      width += 2;
    else if (!in_ranges(code, zero_width_ranges, ARRAY_LEN(zero_width_ranges)))
      width += 1;
  }
  return width;
}
