/* axon cache: shows and clears the cache of compiled kernels.  Main entry
   point: verb_cache. */
#include "cli/cli.h"

#include "runtime/artifact.h"

#include <string.h>

static void put_bytes(uint64_t bytes) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
  double n = (double)bytes / 1024;
  size_t unit = 0;
  for (; n >= 1024 && unit + 1 < ARRAY_LEN(units); unit++)
    n /= 1024;
  if (bytes < 1024)
    printf("%u bytes", (unsigned)bytes);
  else
    printf("%.1f %s", n, units[unit]);
}

static void put_count(uint64_t n, const char *one, const char *more) {
  printf("%llu %s", (unsigned long long)n, n == 1 ? one : more);
}

static void put_entries(const ArtifactStats *t) {
  put_count(t->entries, "kernel", "kernels");
  printf(", ");
  put_bytes(t->bytes);
}

/* Returns false with a reason if there is no usable cache folder. */
static bool cache_is_usable(const ArtifactStats *t) {
  if (t->path[0])
    puts(t->path);
  if (t->unusable_reason[0])
    printf("the cache is disabled: %s\n", t->unusable_reason);
  return !t->unusable_reason[0];
}

static int show(void) {
  ArtifactStats t;
  artifact_stats(&t);
  if (!cache_is_usable(&t))
    return terminal_flush(EXIT_OK);
  put_entries(&t);
  printf("; limit ");
  put_bytes(artifact_limit());
  putchar('\n');
  put_count(t.hits, "time", "times");
  printf(" found, ");
  put_count(t.misses, "time", "times");
  puts(" compiled");
  return terminal_flush(EXIT_OK);
}

static int verify(void) {
  ArtifactStats t;
  artifact_verify(&t);
  if (!cache_is_usable(&t))
    return terminal_flush(EXIT_OK);
  put_entries(&t);
  if (t.corrupt)
    printf(": %u damaged, removed\n", t.corrupt);
  else
    puts(": no damaged entries");
  return terminal_flush(t.corrupt ? EXIT_DIAGNOSTICS : EXIT_OK);
}

static int clear(void) {
  ArtifactStats t;
  bool good = artifact_clear(&t);
  if (!cache_is_usable(&t))
    return terminal_flush(EXIT_OK);
  put_entries(&t);
  puts(good ? " removed" : ", some cannot be removed");
  return terminal_flush(good ? EXIT_OK : EXIT_DIAGNOSTICS);
}

int verb_cache(int argc, char **argv) {
  Options o;
  int status = options_parse(&o, "cache", "", argc, argv);
  if (status >= 0)
    return status;
  if (o.arg_count > 1)
    return usage_error("cache",
                       "expected at most one argument: verify or clear");
  Fault fault = {0};
  if (!artifact_check_env(&fault))
    return usage_error("cache", "%s: %s", fault.message, fault.help);
  if (!o.arg_count)
    return show();
  if (strcmp(o.args[0], "verify") == 0)
    return verify();
  if (strcmp(o.args[0], "clear") == 0)
    return clear();
  return usage_error("cache", "unknown argument `%s`; expected verify or clear",
                     o.args[0]);
}
