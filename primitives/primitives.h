/* primitives: the tables that every later room reads. */
#ifndef AXON_PRIMITIVES_H
#define AXON_PRIMITIVES_H

#include <stdbool.h>
#include <stdint.h>

typedef enum PrimId {
  PRIM_NONE,
#define P(id, name, class, flags, scheme, doc, example) PRIM_##id,
#include "primitives/primitives.def"
#undef P
  PRIM_COUNT
} PrimId;

typedef enum PrimClass {
  PC_NONE,
  PC_MAP,
  PC_REDUCE,
  PC_MOVE,
  PC_MAKE,
  PC_OPAQUE,
  PC_CONTROL,
  PC_HOST,
} PrimClass;

enum PrimFlag { /* the letters of primitives.def */
                PRIM_COMMUTATIVE = 1,
                PRIM_ASSOCIATIVE = 2,
                PRIM_SPECIAL = 4,       /* T */
                PRIM_EFFECT_OF_ARG = 8, /* E */
                PRIM_EFFECT = 16,       /* I */
                PRIM_APPROXIMATE = 32,  /* X */
};

typedef struct PrimInfo {
  const char *name; /* operators are "op +" */
  PrimClass class;
  uint8_t flags;
  const char *scheme, *doc, *example;
} PrimInfo;
extern const PrimInfo prim_info[PRIM_COUNT];

PrimId prim_by_name(const char *name); /* PRIM_NONE when there is none */

/* ---- class MAP: map.def ---- */

typedef enum ArithStatus { /* how an operation on one element can fail */
                           ARITH_OK,
                           ARITH_DIVIDE_BY_ZERO, /* an integer divided by zero
                                                  */
                           ARITH_NEGATIVE_POWER, /* an integer to a negative
                                                    power */
} ArithStatus;

typedef struct PrimText { /* as C; NULL: there is none */
  const char *scalar, *vector;
} PrimText;

typedef struct MapInfo {
  uint8_t arity, cost;
  ArithStatus fault; /* of integers; the second argument decides */
  PrimId inverse;    /* of a comparison; PRIM_NONE: it is none */
  PrimText integer, f32, f64, uniform, cuda;
} MapInfo;
extern const MapInfo map_info[PRIM_COUNT]; /* other classes: zeros */

/* Is it one of == != < <= > >=? */
static inline bool prim_is_comparison(PrimId id) {
  return map_info[id].inverse != PRIM_NONE;
}

/* ---- class REDUCE: reduce.def ---- */

typedef enum ReduceState {
  REDUCE_NONE,
  REDUCE_VALUE,
  REDUCE_PLACE
} ReduceState;
typedef enum ReduceIdentity {
  IDENTITY_NONE,
  IDENTITY_ZERO,
  IDENTITY_ONE,
  IDENTITY_LOWEST,
  IDENTITY_HIGHEST,
} ReduceIdentity;
typedef enum ReduceAccumulator {
  ACCUMULATOR_OWN,
  ACCUMULATOR_WIDE,
  ACCUMULATOR_RUNS,
} ReduceAccumulator;
typedef enum ReduceOrder { ORDER_NONE, ORDER_MAX, ORDER_MIN } ReduceOrder;
enum ReduceFlag {
  REDUCE_ASSOCIATIVE = 1,
  REDUCE_COMMUTATIVE = 2,
  REDUCE_IDEMPOTENT = 4,
};

typedef struct ReduceInfo {
  ReduceState state;
  PrimId combine;
  ReduceIdentity of_bool, of_int, of_float;
  ReduceAccumulator accumulator;
  ReduceOrder order;
  uint8_t cost, flags;
  PrimText integer, floats;
} ReduceInfo;
extern const ReduceInfo reduce_info[PRIM_COUNT]; /* other classes: zeros */

/* Names that compiled code has for an order. */
typedef struct OrderInfo {
  const char *comparison; /* an element beside the best so far, in C */
  const char *accumulate; /* prelude functions of lanes: one that notes NaN, */
  const char *join;       /* and one of two accumulators of numbers */
  const char *cuda_place; /* of CUDA's prelude: the better of two places */
} OrderInfo;
extern const OrderInfo order_info[];

/* Is the result an index: argmax, argmin? */
static inline bool prim_is_arg_reduction(PrimId id) {
  return reduce_info[id].state == REDUCE_PLACE;
}

/* Is the result an element that is beyond all others: max, min? */
static inline bool prim_is_extreme(PrimId id) {
  return reduce_info[id].state == REDUCE_VALUE &&
         reduce_info[id].order != ORDER_NONE;
}

/* The reduction of VALUE state by a row of class MAP; PRIM_NONE: none is. */
PrimId prim_reduction_by(PrimId combine);

#endif
