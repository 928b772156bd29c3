/* Pickles (docs.python.org/3/library/pickle.html), as data.  The reader makes
 * values of the bytes.  It never calls anything: a call in a pickle becomes a
 * value, PICKLE_CALL, which says what Python would have called.  Only names in
 * the list of the caller are read; any other name is an error.
 *
 *   static const char *const names[] = {"collections.OrderedDict"};
 *   Pickle p = {.in = &in, .arena = arena, .at = first, .end = end,
 *               .names = names, .name_count = 1};
 *   if (pickle_read(&p, &value, &fault)) ...    p.at is behind the pickle
 *
 * Values are in the arena, texts in the bytes.  Allocations may raise
 * (support/trap.h).  Values may be shared, and may contain themselves: bound
 * the depth and the length of walks. */
#ifndef AXON_RUNTIME_PICKLE_H
#define AXON_RUNTIME_PICKLE_H

#include "runtime/internal.h"
#include "support/arena.h"
#include "support/vec.h"

typedef enum PickleKind {
  PICKLE_NONE, /* Python's None */
  PICKLE_BOOL,
  PICKLE_INT,
  PICKLE_LONG, /* an integer of more than 64 bits */
  PICKLE_FLOAT,
  PICKLE_TEXT,
  PICKLE_BYTES,
  PICKLE_LIST,
  PICKLE_TUPLE,
  PICKLE_DICT, /* items: keys and values in turn */
  PICKLE_SET,
  PICKLE_NAME,   /* a name of the list */
  PICKLE_CALL,   /* a call of a name */
  PICKLE_STORED, /* an object outside of the pickle */
} PickleKind;

typedef struct PickleItems PickleItems;
typedef struct PickleCall PickleCall;

typedef struct PickleValue {
  uint8_t kind;  /* a PickleKind */
  uint16_t name; /* NAME, CALL: index in the list of names */
  uint32_t len;  /* TEXT, BYTES, LONG: bytes; STORED: index in `stored` */
  union {
    int64_t integer;    /* BOOL, INT */
    double number;      /* FLOAT */
    const char *text;   /* TEXT, BYTES, LONG; not NUL-terminated */
    PickleItems *items; /* LIST, TUPLE, DICT, SET */
    PickleCall *call;   /* CALL */
  };
} PickleValue;

struct PickleItems { /* for VEC_PUSH */
  PickleValue *at;
  uint32_t len, cap;
};

struct PickleCall {
  PickleItems arguments;
  PickleItems items; /* keys and values that were set afterwards */
};

typedef struct Pickle {
  const InputFile *in; /* for faults */
  Arena *arena;
  const uint8_t *at, *end;
  const char *const *names; /* "module.name" */
  size_t name_count;
  const char *wanted; /* what to do about other names: a help */
  PickleItems stored; /* tuples: the identifiers of objects outside */
  /* private, and 0 at first */
  const uint8_t *begin;
  PickleItems stack, memo;
  VEC(uint32_t) marks;  /* lengths of the stack */
  size_t checked_bytes; /* the size is within the limit up to here */
} Pickle;

bool pickle_read(Pickle *p, PickleValue *out, Fault *fault);

/* True for a TEXT of these characters. */
bool pickle_is_text(const PickleValue *v, const char *text);

#endif
