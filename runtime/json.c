/* jansson, loaded when JSON is first read. */
#include "runtime/json.h"

#include "runtime/internal.h"

Jansson jansson;

static const DynLib library =
    DYNLIB("libjansson.so.4", "libjansson4", JSON_FUNCTIONS, jansson);

bool json_load_library(Fault *fault) {
  return dynlib_load(&library, fault);
}

/* json_decref would call json_delete directly. */
void json_decref_library(json_t *json) {
  if (json && json->refcount != (size_t)-1 && JSON_INTERNAL_DECREF(json) == 0)
    jansson.json_delete(json);
}
