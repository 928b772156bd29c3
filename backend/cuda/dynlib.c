#define _GNU_SOURCE
#include "backend/cuda/dynlib.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

enum { POINTER_BYTES = sizeof(void *) };

static bool fill_table(void *handle, const char *const *symbols, void *table,
                       LoadedLibrary *out) {
  for (size_t k = 0; symbols[k]; k++) {
    void *function = dlsym(handle, symbols[k]);
    if (!function) {
      snprintf(out->error, sizeof out->error, "it has no function %.80s",
               symbols[k]);
      return false;
    }
    memcpy((char *)table + k * POINTER_BYTES, &function, POINTER_BYTES);
  }
  return true;
}

static void note_path(void *handle, const char *name, LoadedLibrary *out) {
  struct link_map *map = NULL;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && *map->l_name)
    name = map->l_name;
  snprintf(out->path, sizeof out->path, "%s", name);
}

/* dlerror starts with the name of the file that failed: this library or one of
 * its dependencies.  True if this library does not exist. */
static bool note_error(const char *name, LoadedLibrary *out) {
  const char *error = dlerror();
  size_t len = strlen(name);
  bool is_own_error = error && strncmp(error, name, len) == 0 &&
                      strncmp(error + len, ": ", 2) == 0;
  if (is_own_error)
    error += len + 2;
  snprintf(out->error, sizeof out->error, "%s",
           error ? error : "no reason given");
  return is_own_error && strstr(error, "No such file or directory");
}

LoadStatus load_library(const char *name, const char *const *symbols,
                        void *table, LoadedLibrary *out) {
  *out = (LoadedLibrary){.handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)};
  if (!out->handle)
    return note_error(name, out) ? LOAD_ABSENT : LOAD_INVALID;
  note_path(out->handle, name, out);
  if (fill_table(out->handle, symbols, table, out))
    return LOAD_OK;
  unload_library(out);
  return LOAD_INVALID;
}

void unload_library(LoadedLibrary *loaded) {
  dlclose(loaded->handle);
  loaded->handle = NULL;
}
