/* primitives: the tables that every later room reads. */
#ifndef AXON_PRIMITIVES_H
#define AXON_PRIMITIVES_H

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

#endif
