/* The tables of the classes MAP and REDUCE as C arrays. */
#include "primitives/primitives.h"

#include <stddef.h>

#define TEXT(scalar, vector) \
  { scalar, vector }
#define NONE \
  { NULL, NULL }
#define SAME \
  { NULL, NULL }
#define ONNX(text) \
  { text, text }
#define ONNX2(integer, floats) \
  { integer, floats }

const MapInfo map_info[PRIM_COUNT] = {
#define M(id, arity, cost, fault, inverse, ...) \
  [PRIM_##id] = {arity, cost, ARITH_##fault, PRIM_##inverse, __VA_ARGS__},
#include "primitives/map.def"
#undef M
};

enum { A = REDUCE_ASSOCIATIVE, C = REDUCE_COMMUTATIVE, I = REDUCE_IDEMPOTENT };

const ReduceInfo reduce_info[PRIM_COUNT] = {
#define R(id, state, combine, of_bool, of_int, of_float, accumulator, order, \
          cost, flags, integer, floats, onnx)                                \
  [PRIM_##id] = {REDUCE_##state,                                             \
                 PRIM_##combine,                                             \
                 IDENTITY_##of_bool,                                         \
                 IDENTITY_##of_int,                                          \
                 IDENTITY_##of_float,                                        \
                 ACCUMULATOR_##accumulator,                                  \
                 ORDER_##order,                                              \
                 cost,                                                       \
                 flags,                                                      \
                 integer,                                                    \
                 floats,                                                     \
                 onnx},
#include "primitives/reduce.def"
#undef R
};

const OrderInfo order_info[] = {
    [ORDER_MAX] = {">", "more", "top", "ax_most"},
    [ORDER_MIN] = {"<", "less", "low", "ax_least"},
};

PrimId prim_reduction_by(PrimId combine) {
  for (PrimId id = 1; id < PRIM_COUNT; id++)
    if (reduce_info[id].state == REDUCE_VALUE &&
        reduce_info[id].combine == combine)
      return id;
  return PRIM_NONE;
}

/* ---- checks that each row of the two classes, and no other, has a row here
   ---- */

enum {
#define M(id, arity, cost, fault, inverse, integer, f32, f64, uniform, cuda, \
          onnx)                                                              \
  MAP_ROW_##id,
#include "primitives/map.def"
#undef M
};
enum {
#define R(id, ...) REDUCE_ROW_##id,
#include "primitives/reduce.def"
#undef R
};

#define ROW_NONE(id)
#define ROW_MAP(id) MAP_OF_##id = MAP_ROW_##id,
#define ROW_REDUCE(id) REDUCE_OF_##id = REDUCE_ROW_##id,
#define ROW_MOVE ROW_NONE
#define ROW_MAKE ROW_NONE
#define ROW_OPAQUE ROW_NONE
#define ROW_CONTROL ROW_NONE
#define ROW_HOST ROW_NONE
#define P(id, name, class, flags, derivative, scheme, doc, example) \
  ROW_##class(id)
enum {
#include "primitives/primitives.def"
};
#undef P

#define M(id, arity, cost, ...)          \
  _Static_assert(MAP_OF_##id >= 0, #id); \
  _Static_assert((cost) >= 1, "cost of " #id);
#include "primitives/map.def"
#undef M
#define R(id, state, combine, of_bool, of_int, of_float, accumulator, order, \
          cost, ...)                                                         \
  _Static_assert(REDUCE_OF_##id >= 0, #id);                                  \
  _Static_assert((cost) >= 1, "cost of " #id);
#include "primitives/reduce.def"
#undef R
