/* Loads a library when it is first needed, so that program start does not pay
 * for it. */
#include "runtime/internal.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

enum { POINTER_BYTES = sizeof(void *) };

static bool load(const DynLib *library) {
  void *handle = dlopen(library->soname, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return false;
  size_t count = 0;
  while (library->symbols[count])
    count++;
  /* From the last to the first: if the first is set, all are set. */
  for (size_t i = count; i-- > 0;) {
    void *function = dlsym(handle, library->symbols[i]);
    if (!function) {
      dlclose(handle);
      return false;
    }
    memcpy((char *)library->table + i * POINTER_BYTES, &function,
           POINTER_BYTES);
  }
  return true;
}

bool dynlib_load(const DynLib *library, Fault *fault) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  void *first;
  pthread_mutex_lock(&lock);
  memcpy(&first, library->table, POINTER_BYTES);
  bool there = first || load(library);
  pthread_mutex_unlock(&lock);
  if (there)
    return true;
  fault_set(fault, "the library %s is required here, but not installed",
            library->soname);
  fault_set_help(fault, "on Debian and Ubuntu: apt install %s",
                 library->package);
  return false;
}
