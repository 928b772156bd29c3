/* The rates of a core: saved as text, or typical. */
#include "machine/internal.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES = 2048, FAULT_BYTES = 160 };
/* The file has thousandths, which every locale reads. */
static const double scale = 1000;
static const char machine_key[] = "machine ", typical[] = "typical";
static CoreRates reference, saved;
static char fault[FAULT_BYTES];

const CoreRateInfo core_rate_info[CORE_RATE_COUNT] = {
#define CORE_RATE(field, key, unit, reference, min, max, text) \
  {key, unit, text, reference, min, max},
#include "machine/core_rates.def"
};

double *core_rate(CoreRates *r, uint32_t index) {
  double *const all[] = {
#define CORE_RATE(field, key, unit, reference, min, max, text) &r->field,
#include "machine/core_rates.def"
  };
  return all[index];
}

bool core_rate_is_measured(const CoreRates *r, uint32_t index) {
  return r->measured >> index & 1;
}

bool core_rate_is_possible(uint32_t index, double rate) {
  return rate >= core_rate_info[index].min && rate <= core_rate_info[index].max;
}

void core_rate_problem(double spread, char text[RATE_PROBLEM_TEXT]) {
  *text = 0;
  if (isinf(spread))
    snprintf(text, RATE_PROBLEM_TEXT,
             "other programs disturbed this measurement");
  else if (spread >= IMPOSSIBLE_RATE)
    snprintf(text, RATE_PROBLEM_TEXT,
             "this measurement gave a rate that no core "
             "has");
  else if (spread > MAX_RATE_SPREAD)
    snprintf(text, RATE_PROBLEM_TEXT, "two measurements differed by %.0f %%",
             100 * spread);
}

/* ---- the file ---- */

/* A line with the machine, a line for each rate, and `end`. */
static size_t put_rates(CoreRates *r, char text[FILE_BYTES]) {
  char identity[MACHINE_TEXT];
  machine_identity(identity);
  size_t len =
      (size_t)snprintf(text, FILE_BYTES, "%s%s\n", machine_key, identity);
  for (uint32_t k = 0; k < CORE_RATE_COUNT; k++) {
    len += (size_t)snprintf(text + len, FILE_BYTES - len, "%s ",
                            core_rate_info[k].key);
    len +=
        (size_t)(core_rate_is_measured(r, k)
                     ? snprintf(text + len, FILE_BYTES - len, "%lld\n",
                                (long long)(*core_rate(r, k) * scale))
                     : snprintf(text + len, FILE_BYTES - len, "%s\n", typical));
  }
  return len + (size_t)snprintf(text + len, FILE_BYTES - len, "end\n");
}

/* Takes the next line. NULL: it is not complete. */
static char *take_line(char **at) {
  char *line = *at, *end = strchr(line, '\n');
  if (!end)
    return NULL;
  *end = '\0';
  *at = end + 1;
  return line;
}

/* Reads the line of rate k. */
static bool take_rate(CoreRates *r, uint32_t k, const char *line) {
  const CoreRateInfo *info = &core_rate_info[k];
  size_t len = strlen(info->key);
  if (!line || strncmp(line, info->key, len) != 0 || line[len] != ' ') {
    snprintf(fault, sizeof fault, "line %u is not that of `%s`", k + 2,
             info->key);
    return false;
  }
  const char *text = line + len + 1;
  if (strcmp(text, typical) == 0)
    return true;
  char *end;
  errno = 0;
  double rate = (double)strtoll(text, &end, 10) / scale;
  if (errno || end == text || *end || !core_rate_is_possible(k, rate)) {
    snprintf(fault, sizeof fault,
             "`%s %.20s` is not a number of thousandths from %.0f to %.0f",
             info->key, text, info->min * scale, info->max * scale);
    return false;
  }
  *core_rate(r, k) = rate;
  r->measured |= (uint32_t)1 << k;
  return true;
}

static bool read_rates(CoreRates *r, char *at) {
  char identity[MACHINE_TEXT];
  machine_identity(identity);
  char *line = take_line(&at);
  size_t len = sizeof machine_key - 1;
  if (!line || strncmp(line, machine_key, len) != 0 ||
      strcmp(line + len, identity) != 0) {
    snprintf(fault, sizeof fault, "it is not that of this machine");
    return false;
  }
  for (uint32_t k = 0; k < CORE_RATE_COUNT; k++)
    if (!take_rate(r, k, take_line(&at)))
      return false;
  line = take_line(&at);
  if (!line || strcmp(line, "end") != 0 || *at) {
    snprintf(fault, sizeof fault, "it does not end with `end`");
    return false;
  }
  return true;
}

/* Reads the saved rates, or takes the reference.  A file that cannot be right
 * counts as none. */
static void load_rates(CoreRates *r) {
  *r = *machine_reference_rates();
  fault[0] = '\0';
  FILE *in = machine_file_read(MACHINE_CORE);
  if (!in)
    return;
  char text[FILE_BYTES];
  size_t len = fread(text, 1, sizeof text - 1, in);
  text[len] = '\0';
  fclose(in);
  if (!read_rates(r, text))
    *r = *machine_reference_rates();
}

bool machine_save_core_rates(CoreRates *r,
                             const double spread[CORE_RATE_COUNT]) {
  CoreRates before;
  load_rates(&before);
  for (uint32_t k = 0; k < CORE_RATE_COUNT; k++) {
    uint32_t bit = (uint32_t)1 << k;
    if (core_rate_is_measured(r, k) && spread[k] <= MAX_RATE_SPREAD)
      continue;
    *core_rate(r, k) = *core_rate(&before, k);
    r->measured = (r->measured & ~bit) | (before.measured & bit);
  }
  char text[FILE_BYTES];
  return machine_file_write(MACHINE_CORE, text, put_rates(r, text));
}

/* ---- what the model reads ---- */

static void make_reference(void) {
  for (uint32_t k = 0; k < CORE_RATE_COUNT; k++)
    *core_rate(&reference, k) = core_rate_info[k].reference;
  static const double assumed_bytes[CORE_BOUNDARIES] = {32 << 10, 1 << 20,
                                                        32 << 20};
  for (int k = 0; k < CORE_BOUNDARIES; k++) {
    size_t bytes = machine()->cache_bytes[k];
    reference.cache_bytes[k] = bytes ? (double)bytes : assumed_bytes[k];
  }
}

const CoreRates *machine_reference_rates(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_reference);
  return &reference;
}

static void load_saved(void) {
  load_rates(&saved);
}

const CoreRates *machine_core_rates(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_saved);
  return &saved;
}

const char *machine_core_rates_fault(void) {
  machine_core_rates();
  return fault[0] ? fault : NULL;
}
