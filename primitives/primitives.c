/* The table of primitives as a C array.  Main entry point: prim_by_name. */
#include "primitives/primitives.h"

#include <string.h>

enum {
  C = PRIM_COMMUTATIVE,
  A = PRIM_ASSOCIATIVE,
  T = PRIM_SPECIAL,
  E = PRIM_EFFECT_OF_ARG,
  I = PRIM_EFFECT,
  X = PRIM_APPROXIMATE,
  L = PRIM_LOOP,
};

const PrimInfo prim_info[PRIM_COUNT] = {
#define P(id, name, class, flags, derivative, scheme, doc, example)    \
  [PRIM_##id] = {name,   PC_##class, (flags), DERIVATIVE_##derivative, \
                 scheme, doc,        example},
#include "primitives/primitives.def"
#undef P
};

PrimId prim_by_name(const char *name) {
  for (PrimId id = 1; id < PRIM_COUNT; id++)
    if (prim_info[id].name[0] == name[0] && !strcmp(prim_info[id].name, name))
      return id;
  return PRIM_NONE;
}
