/* Regular expressions by PCRE2.  Its declarations are repeated here, so that a
 * build needs no header: the interface of libpcre2-8.so.0 is stable. */
#include "runtime/regex.h"
#include "support/mem.h"

#include <string.h>

typedef struct pcre2_real_code_8 PcreCode;
typedef struct pcre2_real_match_data_8 PcreMatch;
typedef struct pcre2_real_match_context_8 PcreContext;

enum {
  PCRE_UCP = 0x00020000,
  PCRE_UTF = 0x00080000,
  PCRE_NEVER_BACKSLASH_C =
      0x00100000, /* \C would match a part of a character */
  PCRE_SUBSTITUTE_GLOBAL = 0x00000100,
  PCRE_SUBSTITUTE_UNSET_EMPTY = 0x00000400,
  PCRE_SUBSTITUTE_OVERFLOW_LENGTH = 0x00001000,
  PCRE_NOTEMPTY_ATSTART = 0x00000008,
  PCRE_ERROR_NOMATCH = -1,
  PCRE_ERROR_BADREPLACEMENT = -35,
  PCRE_ERROR_MATCHLIMIT = -47,
  PCRE_ERROR_NOMEMORY = -48,
  PCRE_ERROR_NOSUBSTRING = -49,
  PCRE_ERROR_DEPTHLIMIT = -53,
  PCRE_ERROR_REPMISSINGBRACE = -58,
  PCRE_ERROR_HEAPLIMIT = -63,
  PCRE_NO_UTF_CHECK = 0x40000000,
  PCRE_MESSAGE_BYTES = 256,
  MESSAGE_PATTERN = 60, /* bytes of a pattern in a message */
  /* Limits against patterns that try exponentially many possibilities: calls of
     the matcher (about a second), and KiB of its memory. */
  MATCH_STEPS = 20000000,
  MATCH_HEAP_KIB = 1 << 20,
};

PcreCode *pcre2_compile_8(const uint8_t *pattern, size_t len, uint32_t options,
                          int *error, size_t *offset, void *context);
void pcre2_code_free_8(PcreCode *code);
PcreMatch *pcre2_match_data_create_from_pattern_8(const PcreCode *code,
                                                  void *context);
void pcre2_match_data_free_8(PcreMatch *match);
PcreContext *pcre2_match_context_create_8(void *context);
void pcre2_match_context_free_8(PcreContext *context);
int pcre2_set_match_limit_8(PcreContext *context, uint32_t limit);
int pcre2_set_heap_limit_8(PcreContext *context, uint32_t kibibytes);
int pcre2_match_8(const PcreCode *code, const uint8_t *text, size_t len,
                  size_t start, uint32_t options, PcreMatch *match,
                  PcreContext *context);
uint32_t pcre2_get_ovector_count_8(PcreMatch *match);
size_t *pcre2_get_ovector_pointer_8(PcreMatch *match);
int pcre2_get_error_message_8(int error, uint8_t *out, size_t size);
int pcre2_substitute_8(const PcreCode *code, const uint8_t *text, size_t len,
                       size_t start, uint32_t options, PcreMatch *match,
                       PcreContext *context, const uint8_t *replacement,
                       size_t replacement_len, uint8_t *out, size_t *out_len);

#define FUNCTIONS(F)                        \
  F(pcre2_compile_8)                        \
  F(pcre2_code_free_8)                      \
  F(pcre2_match_data_create_from_pattern_8) \
  F(pcre2_match_data_free_8)                \
  F(pcre2_match_context_create_8)           \
  F(pcre2_match_context_free_8)             \
  F(pcre2_set_match_limit_8)                \
  F(pcre2_set_heap_limit_8)                 \
  F(pcre2_match_8)                          \
  F(pcre2_get_ovector_count_8)              \
  F(pcre2_get_ovector_pointer_8)            \
  F(pcre2_get_error_message_8)              \
  F(pcre2_substitute_8)

static DYNLIB_TABLE(FUNCTIONS) lib;
static const DynLib pcre =
    DYNLIB("libpcre2-8.so.0", "libpcre2-8-0", FUNCTIONS, lib);

struct Regex {
  PcreCode *code;
  PcreMatch *match;
  PcreContext *context;
};

static void fail(Fault *fault, int error) {
  uint8_t message[PCRE_MESSAGE_BYTES] = "";
  lib.pcre2_get_error_message_8(error, message, sizeof message);
  fault_set(fault, "the regular expression failed: %s", message);
  if (error == PCRE_ERROR_MATCHLIMIT || error == PCRE_ERROR_DEPTHLIMIT ||
      error == PCRE_ERROR_HEAPLIMIT)
    fault_set_help(fault,
                   "the search tries too many possibilities: avoid nested "
                   "repetitions such as (a+)+, or use possessive ones: a++");
  if (error == PCRE_ERROR_NOSUBSTRING || error == PCRE_ERROR_BADREPLACEMENT ||
      error == PCRE_ERROR_REPMISSINGBRACE)
    fault_set_help(fault, "in a replacement, $1 and ${name} are groups of the "
                          "pattern, and $$ is a dollar sign");
}

Regex *regex_compile(const char *pattern, size_t len, Fault *fault) {
  int error;
  size_t offset;
  if (!dynlib_load(&pcre, fault))
    return NULL;
  PcreCode *code = lib.pcre2_compile_8(
      (const uint8_t *)pattern, len,
      PCRE_UTF | PCRE_UCP | PCRE_NEVER_BACKSLASH_C, &error, &offset, NULL);
  if (!code) {
    uint8_t message[PCRE_MESSAGE_BYTES] = "";
    lib.pcre2_get_error_message_8(error, message, sizeof message);
    fault_set(fault, "the regular expression is wrong at byte %zu: %s", offset,
              message);
    size_t from = offset > MESSAGE_PATTERN ? offset - MESSAGE_PATTERN : 0;
    while (from < offset && ((unsigned char)pattern[from] & 0xc0) == 0x80)
      from++; /* to the start of a character */
    fault_set_help(fault, "the error is after \"%.*s\"", (int)(offset - from),
                   pattern + from);
    return NULL;
  }
  Regex *r = mem_try_alloc(sizeof *r);
  if (r)
    *r = (Regex){code, lib.pcre2_match_data_create_from_pattern_8(code, NULL),
                 lib.pcre2_match_context_create_8(NULL)};
  else
    lib.pcre2_code_free_8(code);
  if (r && r->match && r->context) {
    lib.pcre2_set_match_limit_8(r->context, MATCH_STEPS);
    lib.pcre2_set_heap_limit_8(r->context, MATCH_HEAP_KIB);
    return r;
  }
  regex_free(r);
  fail(fault, PCRE_ERROR_NOMEMORY);
  return NULL;
}

void regex_free(Regex *r) {
  if (!r)
    return;
  lib.pcre2_match_context_free_8(r->context);
  lib.pcre2_match_data_free_8(r->match);
  lib.pcre2_code_free_8(r->code);
  mem_free(r);
}

int regex_search(Regex *r, const char *text, size_t len, size_t start,
                 bool is_after_empty, Fault *fault) {
  int result = lib.pcre2_match_8(r->code, (const uint8_t *)text, len, start,
                                 (is_after_empty ? PCRE_NOTEMPTY_ATSTART : 0) |
                                     (start ? PCRE_NO_UTF_CHECK : 0),
                                 r->match, r->context);
  if (result >= 0)
    return (int)lib.pcre2_get_ovector_count_8(r->match);
  if (result == PCRE_ERROR_NOMATCH)
    return 0;
  fail(fault, result);
  return -1;
}

bool regex_group(const Regex *r, uint32_t group, size_t *from, size_t *to) {
  const size_t *ends = lib.pcre2_get_ovector_pointer_8(r->match);
  *from = ends[2 * group];
  *to = ends[2 * group + 1];
  return *from != SIZE_MAX && *from <= *to;
}

char *regex_replace(Regex *r, const char *text, size_t len,
                    const char *replacement, size_t replacement_len,
                    size_t *result_len, Fault *fault) {
  size_t size = len + len / 4 + 64;
  int result = PCRE_ERROR_NOMEMORY;
  /* The second time, the size is the required one. */
  for (int i = 0; i < 2 && result == PCRE_ERROR_NOMEMORY; i++) {
    char *out = mem_try_alloc(size);
    *result_len = size;
    result = !out ? PCRE_ERROR_NOMEMORY
                  : lib.pcre2_substitute_8(
                        r->code, (const uint8_t *)text, len, 0,
                        PCRE_SUBSTITUTE_GLOBAL | PCRE_SUBSTITUTE_UNSET_EMPTY |
                            PCRE_SUBSTITUTE_OVERFLOW_LENGTH,
                        r->match, r->context, (const uint8_t *)replacement,
                        replacement_len, (uint8_t *)out, result_len);
    if (result >= 0)
      return out;
    mem_free(out);
    size = *result_len;
  }
  fail(fault, result);
  return NULL;
}
