/* Limits how many bytes a file may unpack to.  Parses sizes in settings. */
#include "runtime/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Images of one color, and masks that are almost all zero, are compressed a
 * thousand to one, like decompression bombs.  So only small files may have such
 * a ratio; large ones are refused by default.  Weights and photographs are
 * compressed four to one at best. */
enum { MAX_TRUSTED_RATIO = 64, HEADER_MEMORY_FACTOR = 16 };
#define DEFAULT_FILE_LIMIT_BYTES ((uint64_t)512 << 20)

bool parse_byte_size(const char *text, uint64_t *out) {
  char *end;
  errno = 0;
  unsigned long long n = strtoull(text, &end, 10);
  if (end == text || errno || *text == '-')
    return false;
  end += strspn(end, " ");
  static const char units[] = "KMGT";
  const char *unit = *end ? strchr(units, *end & ~0x20) : NULL;
  uint32_t shift = unit ? 10 * (uint32_t)(unit - units + 1) : 0;
  end += unit != NULL;
  if (unit && strncasecmp(end, "ib", 2) == 0)
    end += 2;
  else if (strcasecmp(end, "b") == 0)
    end++;
  *out = (uint64_t)n << shift;
  return !*end && *out >> shift == n;
}

static const char *limit_from_env(void) {
  const char *wanted = getenv("AXON_FILE_LIMIT");
  return wanted && *wanted ? wanted : NULL;
}

static uint64_t file_limit(void) {
  const char *wanted = limit_from_env();
  uint64_t limit;
  return wanted && parse_byte_size(wanted, &limit) ? limit
                                                   : DEFAULT_FILE_LIMIT_BYTES;
}

bool file_check_env(Fault *fault) {
  const char *wanted = limit_from_env();
  uint64_t limit;
  if (!wanted || parse_byte_size(wanted, &limit))
    return true;
  fault_set(fault, "AXON_FILE_LIMIT=%.80s is no size", wanted);
  fault_set_help(
      fault, "use a number of bytes, or a number with K, M, G or T, as 512M");
  return false;
}

/* The suggested limit is a power of two: "2G". */
static bool refuse(const InputFile *in, Fault *fault, const char *what,
                   uint64_t size, uint64_t limit, uint64_t wanted) {
  char size_text[32], limit_text[32];
  uint64_t mebibytes = 1;
  while (mebibytes < 1 << 20 && mebibytes << 20 < wanted)
    mebibytes *= 2;
  format_bytes(size_text, sizeof size_text, size);
  format_bytes(limit_text, sizeof limit_text, limit);
  input_fault(in, fault, "%s %s, more than the limit of %s", what, size_text,
              limit_text);
  fault_set_help(
      fault,
      "if you trust the file, raise the limit: AXON_FILE_LIMIT=%llu%c in the "
      "environment",
      (unsigned long long)(mebibytes >= 1024 ? mebibytes / 1024 : mebibytes),
      mebibytes >= 1024 ? 'G' : 'M');
  return false;
}

bool input_check_decompressed_size(const InputFile *in,
                                   uint64_t compressed_bytes, uint64_t size,
                                   Fault *fault) {
  uint64_t limit = file_limit();
  if (size <= limit || size / MAX_TRUSTED_RATIO <= compressed_bytes)
    return true;
  return refuse(in, fault, "its compression ratio is suspicious: it needs",
                size, limit, size);
}

bool input_check_header_size(const InputFile *in, uint64_t size, Fault *fault) {
  uint64_t limit = file_limit() / HEADER_MEMORY_FACTOR;
  return size <= limit || refuse(in, fault, "its header needs", size, limit,
                                 size * HEADER_MEMORY_FACTOR);
}
