/* Schedules that a person has written down: AXON_SCHEDULES names a file, whose
 * lines are a family of kernels (rows: two products with rows between them),
 * a colon, and fields of a schedule, as a plan prints them.  The fields of the
 * last line of a family replace those that were chosen, where that can be
 * run. */
#include "backend/cuda/gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool gemm_override(const char *family, GemmSchedule *s) {
  const char *path = getenv("AXON_SCHEDULES");
  size_t len = strlen(family);
  char line[512];
  bool any = false;
  FILE *f = path && *path ? fopen(path, "re") : NULL;
  if (!f)
    return false;
  GemmSchedule chosen = *s;
  while (fgets(line, sizeof line, f)) {
    Buffer why = {0};
    line[strcspn(line, "\n")] = 0;
    if (strncmp(line, family, len) == 0 && line[len] == ':') {
      *s = chosen;
      any = gemm_parse(s, line + len + 1, &why);
    }
    buffer_free(&why);
  }
  fclose(f);
  if (!any)
    *s = chosen;
  return any;
}
