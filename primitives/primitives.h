/* primitives: tables of all primitives, read by later modules. */
#ifndef AXON_PRIMITIVES_H
#define AXON_PRIMITIVES_H

#include <stdbool.h>
#include <stdint.h>

typedef enum PrimId {
  PRIM_NONE,
#define P(id, name, class, flags, derivative, scheme, doc, example) PRIM_##id,
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

enum PrimFlag { /* letters of primitives.def */
                PRIM_COMMUTATIVE = 1,
                PRIM_ASSOCIATIVE = 2,
                PRIM_SPECIAL = 4,       /* T */
                PRIM_EFFECT_OF_ARG = 8, /* E */
                PRIM_EFFECT = 16,       /* I */
                PRIM_APPROXIMATE = 32,  /* X */
                PRIM_LOOP = 64,         /* L */
};

typedef enum Derivative { /* primitives.def explains them */
                          DERIVATIVE_NONE,
                          DERIVATIVE_PARTIALS,
                          DERIVATIVE_LINEAR,
                          DERIVATIVE_RULE,
                          DERIVATIVE_ZERO,
                          DERIVATIVE_CUSTOM,
} Derivative;

typedef struct PrimInfo {
  const char *name; /* operators are "op +" */
  PrimClass class;
  uint8_t flags;
  Derivative derivative;
  const char *scheme, *doc, *example;
} PrimInfo;
extern const PrimInfo prim_info[PRIM_COUNT];

PrimId prim_by_name(const char *name); /* PRIM_NONE if there is none */

/* ---- class MAP: map.def ---- */

/* How an operation on one element may fail. */
typedef enum ArithStatus {
  ARITH_OK,
  ARITH_DIVIDE_BY_ZERO, /* integer division by zero */
  ARITH_NEGATIVE_POWER, /* integer to a negative power */
  ARITH_NEGATIVE_SHIFT, /* integer shifted by a negative count */
} ArithStatus;

typedef struct PrimText { /* C text; NULL if there is none */
  const char *scalar, *vector;
} PrimText;

typedef struct OnnxText { /* NULL if ONNX cannot express it */
  const char *integer, *floats;
} OnnxText;

typedef struct MapInfo {
  uint8_t arity, cost;
  ArithStatus fault; /* for integers; depends on the second argument */
  PrimId inverse;    /* of a comparison; otherwise PRIM_NONE */
  PrimText integer, f32, f64, uniform, cuda;
  OnnxText onnx;
} MapInfo;
extern const MapInfo map_info[PRIM_COUNT]; /* other classes: zeros */

/* True for == != < <= > >=. */
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
  const char *onnx; /* its operator in ONNX, or NULL */
} ReduceInfo;
extern const ReduceInfo reduce_info[PRIM_COUNT]; /* other classes: zeros */

/* Names in compiled code for an order. */
typedef struct OrderInfo {
  const char *comparison; /* C operator: an element is better than the best */
  const char *accumulate; /* vector function of the prelude: accumulates and
                             records NaN */
  /* vector function that combines two accumulators without NaN */
  const char *join;
  /* CUDA prelude function: the better of two positions */
  const char *cuda_place;
} OrderInfo;
extern const OrderInfo order_info[];

/* True if the result is an index: argmax, argmin. */
static inline bool prim_is_arg_reduction(PrimId id) {
  return reduce_info[id].state == REDUCE_PLACE;
}

/* True if the result is an extreme element: max, min. */
static inline bool prim_is_extreme(PrimId id) {
  return reduce_info[id].state == REDUCE_VALUE &&
         reduce_info[id].order != ORDER_NONE;
}

/* The reduction of VALUE state that a MAP primitive combines; PRIM_NONE if
   none. */
PrimId prim_reduction_by(PrimId combine);

#endif
