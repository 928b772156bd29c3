/* Unicode, by utf8proc.  Its declarations are repeated here, so that a build
 * needs no header. */
#include "runtime/unicode.h"
#include "runtime/internal.h"
#include "support/mem.h"
#include "support/trap.h"
#include "support/utf8.h"

#include <stdlib.h>
#include <string.h>

enum {
  OPTION_STABLE = 1 << 1,
  OPTION_COMPAT = 1 << 2,
  OPTION_COMPOSE = 1 << 3,
  OPTION_DECOMPOSE = 1 << 4,
  REPLACEMENT = 0xfffd,
};

/* utf8proc_category_t */
enum {
  CATEGORY_MN = 6,
  CATEGORY_ME = 8,
  CATEGORY_ND = 9,
  CATEGORY_NO = 11,
  CATEGORY_PC = 12,
  CATEGORY_PO = 18,
  CATEGORY_CC = 26,
  CATEGORY_CO = 29,
};

int utf8proc_category(int32_t code);
int32_t utf8proc_tolower(int32_t code);
ptrdiff_t utf8proc_map(const uint8_t *text, ptrdiff_t len, uint8_t **out,
                       int options);

#define FUNCTIONS(F) F(utf8proc_category) F(utf8proc_tolower) F(utf8proc_map)

static DYNLIB_TABLE(FUNCTIONS) lib;
/* The functions above are equal in both versions. */
static const DynLib newer =
    DYNLIB("libutf8proc.so.3", "libutf8proc3", FUNCTIONS, lib);
static const DynLib older =
    DYNLIB("libutf8proc.so.2", "libutf8proc2", FUNCTIONS, lib);

bool unicode_load(Fault *fault) {
  Fault unused;
  return dynlib_load(&newer, &unused) || dynlib_load(&older, fault);
}

bool unicode_normalize(Buffer *out, const char *text, size_t len,
                       NormalForm form, Fault *fault) {
  static const int options[] = {
      [FORM_NFC] = OPTION_STABLE | OPTION_COMPOSE,
      [FORM_NFD] = OPTION_STABLE | OPTION_DECOMPOSE,
      [FORM_NFKC] = OPTION_STABLE | OPTION_COMPOSE | OPTION_COMPAT,
      [FORM_NFKD] = OPTION_STABLE | OPTION_DECOMPOSE | OPTION_COMPAT};
  uint8_t *result = NULL;
  ptrdiff_t count = lib.utf8proc_map((const uint8_t *)text, (ptrdiff_t)len,
                                     &result, options[form]);
  if (count < 0) {
    fault_set(fault, "the text cannot be normalized: it is too long");
    return false;
  }
  Trap trap;
  if (TRAP_SET(trap) == FAIL_NONE) {
    buffer_add(out, (const char *)result, (size_t)count);
    trap_end(&trap);
    free(result);
    return true;
  }
  free(result);
  trap_raise(trap.kind);
}

void unicode_put_lower(Buffer *out, uint32_t code) {
  if (code == 0x130) /* the only character with two small ones */
    buffer_puts(out, "i\xcc\x87");
  else
    unicode_put(out, (uint32_t)lib.utf8proc_tolower((int32_t)code));
}

bool unicode_is_space(uint32_t c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static int category(uint32_t code) {
  return lib.utf8proc_category((int32_t)code);
}

bool unicode_is_punctuation(uint32_t code) {
  int c = category(code);
  return c >= CATEGORY_PC && c <= CATEGORY_PO;
}

bool unicode_is_mark(uint32_t code) {
  int c = category(code);
  return c >= CATEGORY_MN && c <= CATEGORY_ME;
}

bool unicode_is_nonspacing(uint32_t code) {
  return category(code) == CATEGORY_MN;
}

bool unicode_is_number(uint32_t code) {
  int c = category(code);
  return c >= CATEGORY_ND && c <= CATEGORY_NO;
}

bool unicode_is_other(uint32_t code) {
  int c = category(code);
  return c >= CATEGORY_CC && c <= CATEGORY_CO;
}

/* ---- UTF-8 ---- */

uint32_t unicode_next(const char **at) {
  const unsigned char *p = (const unsigned char *)*at;
  int more = *p < 0x80 ? 0 : *p < 0xe0 ? 1 : *p < 0xf0 ? 2 : 3;
  uint32_t code = more ? *p & (0x3fu >> more) : *p;
  for (int i = 1; i <= more; i++)
    code = code << 6 | (p[i] & 0x3fu);
  *at += more + 1;
  return code;
}

void unicode_put(Buffer *out, uint32_t code) {
  if (code < 0x80) {
    buffer_putc(out, (char)code);
    return;
  }
  int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  buffer_putc(out, (char)(0xff00 >> (more + 1) | code >> 6 * more));
  while (more-- > 0)
    buffer_putc(out, (char)(0x80 | (code >> 6 * more & 0x3f)));
}

/* Length of the longest start of a character at `p` that is no character. */
static size_t broken_part(const unsigned char *p, size_t len) {
  unsigned char first = p[0], low = 0x80, high = 0xbf;
  size_t want = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1, n = 1;
  if (first < 0xc2 || first > 0xf4)
    return 1;
  if (first == 0xe0)
    low = 0xa0;
  if (first == 0xed)
    high = 0x9f;
  if (first == 0xf0)
    low = 0x90;
  if (first == 0xf4)
    high = 0x8f;
  for (; n <= want && n < len && p[n] >= low && p[n] <= high; n++)
    low = 0x80, high = 0xbf;
  return n;
}

void unicode_put_lossy(Buffer *out, const char *text, size_t len) {
  size_t done = 0;
  while (done < len) {
    size_t valid = utf8_valid_prefix(text + done, len - done);
    buffer_add(out, text + done, valid);
    done += valid;
    if (done == len)
      return;
    if (!text[done]) { /* utf8_valid_prefix stops here */
      buffer_putc(out, text[done++]);
      continue;
    }
    unicode_put(out, REPLACEMENT);
    done += broken_part((const unsigned char *)text + done, len - done);
  }
}
