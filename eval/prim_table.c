/* Maps each primitive to its function, by prims.def. */
#include "eval/internal.h"

static const PrimFn prim_functions[PRIM_COUNT] = {
#define F(id, function) [PRIM_##id] = function,
#define H(id, arity, build)
#include "eval/prims.def"
#undef F
#undef H
};

/* Each primitive of these classes has a row in prims.def. */
enum {
#define F(id, function) FUNCTION_ROW_##id,
#define H(id, arity, build) FUNCTION_ROW_##id,
#include "eval/prims.def"
#undef F
#undef H
};
enum {
#define ROW(id) FUNCTION_OF_##id = FUNCTION_ROW_##id,
#define ROW_MAP(id)
#define ROW_REDUCE(id)
#define ROW_MOVE ROW
#define ROW_MAKE ROW
#define ROW_OPAQUE ROW
#define ROW_CONTROL ROW
#define ROW_HOST ROW
#define P(id, name, class, flags, derivative, scheme, doc, example) \
  ROW_##class(id)
#include "primitives/primitives.def"
#undef P
};

PrimFn prim_function(PrimId prim) {
  if (prim_info[prim].class == PC_MAP)
    return prim_map;
  if (prim_info[prim].class == PC_REDUCE)
    return prim_reduce;
  return prim_functions[prim];
}
