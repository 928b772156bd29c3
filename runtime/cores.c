/* How many cores a group of processes is granted (a container, a service):
 * it may be fewer than it may run on, and more threads than that are stopped
 * for the rest of each tenth of a second. */
#define _GNU_SOURCE
#include "runtime/cores.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { PATHS = 4096 };

/* One number or two. */
static bool read_numbers(const char *path, long long out[2]) {
  FILE *f = fopen(path, "re");
  bool good = f && fscanf(f, "%lld %lld", &out[0], &out[1]) >= 1;
  if (f)
    fclose(f);
  return good;
}

/* "150000 100000" in one file, or in two; no limit is "max", or -1. */
static int cores_of(const char *folder) {
  char path[PATHS + 32];
  long long part[2] = {0, 0};
  snprintf(path, sizeof path, "%s/cpu.max", folder);
  if (!read_numbers(path, part)) {
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!read_numbers(path, part))
      return INT_MAX;
    part[1] = part[0];
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!read_numbers(path, part))
      return INT_MAX;
  }
  if (part[0] <= 0 || part[1] <= 0)
    return INT_MAX;
  long long cores = (part[0] - 1) / part[1] + 1;
  return cores > INT_MAX ? INT_MAX : (int)cores;
}

/* A group has no more than the groups that it is in.  A container sees its own
 * group as the root, and a path that is not there. */
static int least_above(const char *root, const char *group) {
  char folder[PATHS];
  size_t base = strlen(root);
  int least = INT_MAX;
  int len = snprintf(folder, sizeof folder, "%s%s", root, group);
  if (len < 0 || (size_t)len >= sizeof folder)
    return least;
  for (;;) {
    int cores = cores_of(folder);
    least = cores < least ? cores : least;
    char *slash = strrchr(folder, '/');
    if (!slash || slash < folder + base)
      return least;
    *slash = '\0';
  }
}

/* Is it one of "cpu,cpuacct"? */
static bool has_cpu(const char *controllers) {
  for (const char *at = controllers; *at;) {
    size_t len = strcspn(at, ",");
    if (len == 3 && strncmp(at, "cpu", 3) == 0)
      return true;
    at += len + (at[len] == ',');
  }
  return false;
}

/* "0::/user.slice", of all controllers; "3:cpu,cpuacct:/docker/1f", of some. */
int cores_granted(const char *root, const char *groups) {
  char line[PATHS], folder[PATHS];
  int least = least_above(root, "");
  FILE *f = fopen(groups, "re");
  while (f && fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path)
      continue;
    *path++ = '\0';
    controllers++;
    if (*controllers && !has_cpu(controllers))
      continue;
    snprintf(folder, sizeof folder, *controllers ? "%s/cpu" : "%s", root);
    int cores = least_above(folder, path);
    least = cores < least ? cores : least;
  }
  if (f)
    fclose(f);
  return least;
}
