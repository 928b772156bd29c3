/* How much a file may unpack to, and sizes as settings say them. */
#include "runtime/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A picture of one colour, and a mask that is zero nearly everywhere, are
 * packed a thousand to one, as bombs are: so small ones of those are let
 * through, and large ones are asked about.  Weights and photographs are packed
 * four to one at best. */
enum { RATIO_USUAL = 64, HEADER_PART = 16 };
#define LIMIT_DEFAULT ((uint64_t)512 << 20)

bool size_parse(const char *text, uint64_t *out) {
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

static const char *limit_wanted(void) {
  const char *wanted = getenv("AXON_FILE_LIMIT");
  return wanted && *wanted ? wanted : NULL;
}

static uint64_t limit_of_files(void) {
  const char *wanted = limit_wanted();
  uint64_t limit;
  return wanted && size_parse(wanted, &limit) ? limit : LIMIT_DEFAULT;
}

bool file_check(Fault *fault) {
  const char *wanted = limit_wanted();
  uint64_t limit;
  if (!wanted || size_parse(wanted, &limit))
    return true;
  fault_set(fault, "AXON_FILE_LIMIT=%.80s is no size", wanted);
  fault_help(fault, "write bytes, or a number with K, M, G or T, as 512M");
  return false;
}

/* What is enough is a power of two: "2G". */
static bool refuse(const Input *in, Fault *fault, const char *what,
                   uint64_t size, uint64_t limit, uint64_t wanted) {
  char has[32], most[32];
  uint64_t mega = 1;
  while (mega < 1 << 20 && mega << 20 < wanted)
    mega *= 2;
  bytes_text(has, sizeof has, size);
  bytes_text(most, sizeof most, limit);
  input_fault(in, fault, "%s %s, more than the limit of %s", what, has, most);
  fault_help(fault,
             "if you trust it, raise the limit: AXON_FILE_LIMIT=%llu%c in the "
             "environment",
             (unsigned long long)(mega >= 1024 ? mega / 1024 : mega),
             mega >= 1024 ? 'G' : 'M');
  return false;
}

bool input_may_unpack(const Input *in, uint64_t packed, uint64_t size,
                      Fault *fault) {
  uint64_t limit = limit_of_files();
  if (size <= limit || size / RATIO_USUAL <= packed)
    return true;
  return refuse(in, fault, "it is packed as tightly as bombs are: it takes",
                size, limit, size);
}

bool input_may_parse(const Input *in, uint64_t size, Fault *fault) {
  uint64_t limit = limit_of_files() / HEADER_PART;
  return size <= limit ||
         refuse(in, fault, "its header takes", size, limit, size * HEADER_PART);
}
