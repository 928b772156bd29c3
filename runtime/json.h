/* json: jansson, the library that reads JSON.  It is loaded at first use.  Its
 * functions are called through the table `jansson`.
 *
 *   if (!json_load_library(&fault)) ...
 *   json_t *all = jansson.json_loadb(text, len, 0, NULL);
 *   size_t count = jansson.json_array_size(all);
 *   json_decref_library(all);
 *
 * json_quote and similar functions write JSON (support/json_writer.h). */
#ifndef AXON_JSON_H
#define AXON_JSON_H

#include <jansson.h>

#include "runtime/runtime.h"

#define JSON_FUNCTIONS(F)   \
  F(json_loadb)             \
  F(json_loadfd)            \
  F(json_delete)            \
  F(json_object_iter)       \
  F(json_object_iter_next)  \
  F(json_object_iter_key)   \
  F(json_object_iter_value) \
  F(json_object_get)        \
  F(json_object_size)       \
  F(json_array_size)        \
  F(json_array_get)         \
  F(json_string_value)      \
  F(json_string_length)     \
  F(json_integer_value)     \
  F(json_number_value)

#define JSON_POINTER(name) __typeof__(&name) name;
typedef struct Jansson {
  JSON_FUNCTIONS(JSON_POINTER)
} Jansson;
extern Jansson jansson;

/* Loads the library.  Returns false with a fault that names the package. */
bool json_load_library(Fault *fault);
/* Releases a reference; json may be NULL. */
void json_decref_library(json_t *json);

#endif
