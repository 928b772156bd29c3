/* A dlopen that finds no LAPACK: tests/check_numeric.sh preloads it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

void *dlopen(const char *name, int flags) {
  if (name && (strstr(name, "lapack") || strstr(name, "openblas")))
    return NULL;
  void *(*next)(const char *, int) = NULL;
  void *symbol = dlsym(RTLD_NEXT, "dlopen");
  memcpy(&next, &symbol, sizeof next);
  return next(name, flags);
}
