/* json.h: jansson, the library for JSON, which is loaded when it is first
 * needed: its functions are called through the table `jansson`.
 *
 *   if (!json_ready(&fault)) ...
 *   json_t *all = jansson.json_array();
 *   jansson.json_array_append_new(all, jansson.json_integer(1));
 *   json_drop(all);
 *
 * As in jansson, `..._new` takes over its argument, which may be NULL; what
 * there is no memory for is NULL, and adding to NULL does nothing. */
#ifndef AXON_JSON_H
#define AXON_JSON_H

#include <jansson.h>

#include "runtime/runtime.h"

#define JSON_FUNCTIONS(F)   \
  F(json_loadb)             \
  F(json_delete)            \
  F(json_dumps)             \
  F(json_object)            \
  F(json_object_iter)       \
  F(json_object_iter_next)  \
  F(json_object_iter_key)   \
  F(json_object_iter_value) \
  F(json_object_get)        \
  F(json_object_set_new)    \
  F(json_object_size)       \
  F(json_array)             \
  F(json_array_append_new)  \
  F(json_array_size)        \
  F(json_array_get)         \
  F(json_string)            \
  F(json_string_value)      \
  F(json_integer)           \
  F(json_true)              \
  F(json_integer_value)

#define JSON_POINTER(name) __typeof__(&name) name;
typedef struct Jansson {
  JSON_FUNCTIONS(JSON_POINTER)
} Jansson;
extern Jansson jansson;

/* Loads it; false with a fault that names the package. */
bool json_ready(Fault *fault);
/* Gives back a reference; of NULL, too. */
void json_drop(json_t *json);

#endif
