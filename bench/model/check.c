/* Evaluates the cost model on recorded tables (bench/record_model.sh):
 *
 *     bench/model/check [--terms] TABLE...
 *
 * For each table, a line: the share of the pairs of schedules whose times
 * differ by more than DECIDED that the model orders rightly, and the time of
 * its best schedule over that of the fastest.  --terms: also a line for each
 * schedule, with its measured and predicted time and its terms. */
#include "kernel/cost_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_POINTS = 256, LINE_BYTES = 1 << 16 };
static const double DECIDED = 1.05;

typedef struct Point {
  double seconds, predicted;
} Point;

typedef struct Table {
  CoreRates rates;
  uint32_t count;
  Point points[MAX_POINTS];
} Table;

/* Reads the next number of a line. */
static double take(char **at) {
  char *end;
  double x = strtod(*at, &end);
  if (end == *at) {
    fprintf(stderr, "check: a number is missing: %.60s\n", *at);
    exit(2);
  }
  *at = end;
  return x;
}

static CostCounts take_counts(char **at) {
  CostCounts c = {.type = (CoreType)take(at)};
  c.tasks = take(at);
  c.packed_vectors = take(at);
  c.calls = take(at);
  c.pages = take(at);
  for (int k = 0; k < CORE_BOUNDARIES; k++)
    c.bytes[k] = take(at);
  for (int k = 0; k < CORE_BOUNDARIES; k++)
    c.copied_bytes[k] = take(at);
  uint32_t count = (uint32_t)take(at);
  if (count > MAX_COST_BODIES) {
    fprintf(stderr, "check: %u loop bodies\n", count);
    exit(2);
  }
  for (; c.body_count < count; c.body_count++) {
    CostBody *b = &c.bodies[c.body_count];
    b->iterations = take(at);
    b->vectors = take(at);
    b->loads = take(at);
    b->elements = take(at);
    b->stores = take(at);
    b->others = take(at);
    b->serial = take(at);
  }
  return c;
}

static void print_terms(const Point *p, const CostTerms *t, const char *text) {
  printf("  %9.6f ms %9.6f ms", 1e3 * p->seconds, 1e3 * p->predicted);
  for (int j = 0; j < COST_TERM_COUNT; j++)
    printf(" %s %.0f %%", cost_term_keys[j], 100 * t->cycles[j] / t->total);
  printf(" %s", text);
}

static void read_rate(CoreRates *r, const char *line) {
  char key[32];
  double value;
  if (sscanf(line, "rate %31s %lf", key, &value) != 2)
    return;
  for (uint32_t k = 0; k < CORE_RATE_COUNT; k++)
    if (strcmp(core_rate_info[k].key, key) == 0)
      *core_rate(r, k) = value;
}

static void read_point(Table *t, char *at, bool shows_terms) {
  Point *p = &t->points[t->count];
  p->seconds = take(&at);
  CostCounts counts = take_counts(&at);
  CostTerms terms = cost_of_counts(&counts, &t->rates, 1);
  p->predicted = terms.total / t->rates.clock_hz;
  t->count++;
  if (shows_terms)
    print_terms(p, &terms, at);
}

static bool read_table(Table *t, const char *path, bool shows_terms) {
  static char line[LINE_BYTES];
  FILE *in = fopen(path, "r");
  *t = (Table){.rates = *machine_reference_rates()};
  while (in && t->count < MAX_POINTS && fgets(line, sizeof line, in)) {
    char *at = line + strlen("cache");
    if (strncmp(line, "rate ", 5) == 0)
      read_rate(&t->rates, line);
    else if (strncmp(line, "cache ", 6) == 0)
      for (int k = 0; k < CORE_BOUNDARIES; k++)
        t->rates.cache_bytes[k] = take(&at);
    else if (strncmp(line, "point ", 6) == 0)
      read_point(t, at, shows_terms);
  }
  if (in)
    fclose(in);
  return t->count > 1;
}

static void judge(const Table *t, const char *path) {
  uint32_t decided = 0, right = 0, chosen = 0, best = 0;
  for (uint32_t i = 0; i < t->count; i++) {
    const Point *a = &t->points[i];
    chosen = a->predicted < t->points[chosen].predicted ? i : chosen;
    best = a->seconds < t->points[best].seconds ? i : best;
    for (uint32_t j = 0; j < i; j++) {
      const Point *b = &t->points[j];
      double ratio = a->seconds / b->seconds;
      if (ratio < DECIDED && ratio > 1 / DECIDED)
        continue;
      decided++;
      right += (ratio > 1) == (a->predicted > b->predicted);
    }
  }
  const char *name = strrchr(path, '/');
  printf("%-26s %4u schedules %5u pairs %6.3f ordered %6.3f of the best\n",
         name ? name + 1 : path, t->count, decided,
         decided ? (double)right / decided : 1,
         t->points[chosen].seconds / t->points[best].seconds);
}

int main(int argc, char **argv) {
  static Table t;
  bool shows_terms = argc > 1 && strcmp(argv[1], "--terms") == 0;
  if (argc < 2 + shows_terms) {
    fprintf(stderr, "usage: %s [--terms] TABLE...\n", argv[0]);
    return 2;
  }
  for (int j = 1 + shows_terms; j < argc; j++) {
    if (!read_table(&t, argv[j], shows_terms)) {
      fprintf(stderr, "check: %s has no schedules\n", argv[j]);
      return 2;
    }
    judge(&t, argv[j]);
  }
  return 0;
}
