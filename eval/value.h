/* Values of the evaluator: 16 bytes, unboxed if they are small.
 *
 * Ownership: a Value that points to an object holds one counted reference.
 * value_retain adds a reference; value_release drops one.  "Takes" in a comment
 * means that a function keeps the caller's reference. */
#ifndef AXON_EVAL_VALUE_H
#define AXON_EVAL_VALUE_H

#include "support/compiler.h"
#include "support/mem.h"
#include "tensor/tensor.h"
#include "typecheck/core.h"

typedef struct Sym Sym;

/* The tag of a number is its Dtype.  So one comparison of tags recognizes two
 * scalars of equal type. */
typedef enum ValueTag {
  V_NONE, /* 1 to DT_COUNT - 1: a scalar, in i or f as in Scalar */
  V_UNIT = DT_COUNT,
  V_ABSENT,      /* an omitted optional argument */
  V_ALL_AXES,    /* the axis argument `all` */
  V_DTYPE,       /* i: an element type, as an implicit argument */
  V_NIL,         /* the empty list */
  V_NULLARY_CON, /* con: a constructor without an argument */
  V_FN,          /* code: a function without captures */
  V_RAW,         /* i: a note of the machine on its own stack */
  V_HEAP,        /* larger tags: the payload is a counted reference */
  V_STRING = V_HEAP,
  V_TUPLE,
  V_RECORD,
  V_CONS,
  V_CON,
  V_CLOSURE, /* obj: the environment; aux: id of the code */
  V_PARTIAL,
  V_PRIM,
  V_SHAPE,
  V_KEY,
  V_KEYS, /* keys with a leading axis: an array of keys, or of V_KEYS */
  V_ENV,
  V_TAPE,  /* the record of a differentiated call; in environments only */
  V_PASS,  /* a reverse pass; on the machine's stack only */
  V_RULE,  /* a rule for derivatives; on the machine's stack only */
  V_NODE,  /* node: a tensor, or a scalar that is not known yet */
  V_INDEX, /* index: an index of a `for` in a symbolic run */
} ValueTag;

typedef struct Obj Obj;
typedef struct Code Code;

typedef struct Value {
  uint32_t tag;
  uint32_t aux;
  union {
    int64_t i;
    double f;
    const Con *con;
    Code *code;
    Obj *obj;
    Node *node;
    IndexVar *index;
  };
} Value;

/* Header of all heap objects. */
struct Obj {
  union {
    uint64_t ref_count;
    Obj *next; /* next in a free list or in the release queue */
  };
  uint8_t tag;
  uint8_t size_class; /* 0: allocated separately */
  uint32_t len;
};

typedef struct ValueArray { /* for V_TUPLE, V_KEYS and V_ENV */
  Obj obj;
  Value at[];
} ValueArray;

typedef struct RecordLayout { /* the labels of a record; interned */
  struct RecordLayout *next;
  uint32_t len;
  Sym *labels[];
} RecordLayout;

typedef struct Record {
  Obj obj;
  const RecordLayout *layout;
  Value at[];
} Record;

typedef struct Cons {
  Obj obj;
  Value head, tail;
} Cons;

typedef struct ConApp {
  Obj obj;
  const Con *con;
  Value arg;
} ConApp;

typedef struct String {
  Obj obj;     /* of len bytes */
  char text[]; /* NUL-terminated */
} String;

typedef struct ShapeObj {
  Obj obj; /* of len axes */
  uint64_t broadcast_mask;
  int64_t extents[]; /* SHAPE_HOLE: the hole _, whose size is to be solved */
} ShapeObj;
enum { SHAPE_HOLE = -1 };

typedef struct KeyObj {
  Obj obj;
  PrngKey key;
} KeyObj;

typedef struct TapeObj {
  Obj obj;
  Tape *tape; /* closed when the object is released */
} TapeObj;

typedef struct PassObj {
  Obj obj;
  ReversePass *pass; /* freed when the object is released */
  Tape *tape;        /* counted */
} PassObj;

typedef struct RuleObj {
  Obj obj;
  VjpRule *rule; /* counted */
  Tape *tape;    /* of the pass that has reached the rule; counted; or NULL */
} RuleObj;

/* a function with len arguments, which waits for more. */
typedef struct Partial {
  Obj obj;
  Value fn;
  Value args[];
} Partial;

/* One use of a primitive: what the compiler knows about it. */
typedef struct PrimSite {
  PrimId prim;
  Dtype elem; /* DT_NONE: none, or given by an implicit argument */
  uint32_t arity;
  const char *literal;
} PrimSite;

typedef struct PrimObj {
  Obj obj;
  PrimSite site;
} PrimObj;

/* With a sanitizer, each object is a separate allocation.  The interpreter then
 * has one dispatch; otherwise its compilation takes minutes. */
#define SANITIZED_BUILD ADDRESS_SANITIZER

/* ---- memory: size classes of 16 bytes, each with a free list ---- */

enum { SIZE_CLASS_COUNT = 17, SIZE_CLASS_BYTES = 16 };
typedef struct Heap {
  Obj *free_lists[SIZE_CLASS_COUNT];
  struct Slab *slabs;
  char *bump, *bump_end;
  Obj *release_queue; /* objects whose count fell to zero, and whose parts are
                         to be released */
  bool is_releasing;
  bool release_incrementally; /* each release does a part of the work, since
                                 Ctrl-C must not wait for millions of objects */
  uint64_t live_objects;      /* number of live objects */
} Heap;

void *heap_alloc_from_slab(Heap *heap, uint32_t size_class);
void *heap_alloc_large(size_t size);
/* Call it when the count falls to zero. */
void heap_release(Heap *heap, Value v);
void heap_free_all(Heap *heap);

/* Raises FAIL_MEMORY.  The contents are not cleared. */
static inline void *obj_new(Heap *heap, ValueTag tag, size_t size,
                            uint32_t len) {
  uint32_t size_class =
      (uint32_t)((size + SIZE_CLASS_BYTES - 1) / SIZE_CLASS_BYTES);
  Obj *obj;
  if (size_class < SIZE_CLASS_COUNT) {
    obj = heap->free_lists[size_class];
    if (obj)
      heap->free_lists[size_class] = obj->next;
    else
      obj = heap_alloc_from_slab(heap, size_class);
  } else {
    size_class = 0;
    obj = heap_alloc_large(size);
  }
  obj->ref_count = 1;
  obj->tag = (uint8_t)tag;
  obj->size_class = (uint8_t)size_class;
  obj->len = len;
  heap->live_objects++;
  return obj;
}

static inline Value value_retain(Value v) {
  if (v.tag >= V_HEAP) {
    if (v.tag < V_NODE)
      v.obj->ref_count++;
    else if (v.tag == V_NODE)
      node_retain(v.node);
    else
      index_var_retain(v.index);
  }
  return v;
}

static inline void value_release(Heap *heap, Value v) {
  if (v.tag < V_HEAP)
    return;
  if (v.tag >= V_NODE || --v.obj->ref_count == 0)
    heap_release(heap, v);
}

/* Frees an object that gave up its parts. */
static inline void obj_free(Heap *heap, Obj *obj) {
  heap->live_objects--;
  if (SANITIZED_BUILD || !obj->size_class) {
    mem_free(obj);
    return;
  }
  obj->next = heap->free_lists[obj->size_class];
  heap->free_lists[obj->size_class] = obj;
}

/* ---- constructors of values ---- */

static inline Value value_int(int64_t i) {
  return (Value){.tag = DT_I64, .i = i};
}
/* Integer arithmetic wraps around; size arithmetic must not.  `aux` marks an
 * integer that resulted from wrapping, so that it is not used as a size.
 *
 * True for an i64 that did not wrap. */
static inline bool value_is_unwrapped_int(const Value *v) {
  return ((uint64_t)v->aux << 32 | v->tag) == DT_I64;
}
static inline Value value_bool(bool b) {
  return (Value){.tag = DT_BOOL, .i = b};
}
static inline Value value_unit(void) {
  return (Value){.tag = V_UNIT};
}
static inline Value value_obj(ValueTag tag, void *obj) {
  return (Value){.tag = tag, .obj = obj};
}
static inline Value value_node(Node *node) { /* takes node */
  return (Value){.tag = V_NODE, .node = node};
}
static inline bool value_is_num(Value v) {
  return v.tag > V_NONE && v.tag < DT_COUNT;
}
static inline Value value_scalar(Scalar x) {
  Value v = {.tag = x.dtype, .i = x.i};
  if (dtype_is_float(x.dtype))
    v.f = x.f;
  return v;
}
static inline Scalar value_to_scalar(Value v) {
  Scalar x = {.dtype = (Dtype)v.tag, .i = v.i};
  if (dtype_is_float(x.dtype))
    x.f = v.f;
  return x;
}
Value value_string(Heap *heap, const char *text, size_t len);
Value value_cons(Heap *heap, Value head, Value tail); /* takes head and tail */
Value value_shape(Heap *heap, uint32_t rank, const int64_t *at,
                  uint64_t broadcast_mask);
Value value_key(Heap *heap, PrngKey key);

#define AS_ARRAY(v) ((ValueArray *)(void *)(v).obj)
#define AS_RECORD(v) ((Record *)(void *)(v).obj)
#define AS_CONS(v) ((Cons *)(void *)(v).obj)
#define AS_CON(v) ((ConApp *)(void *)(v).obj)
#define AS_STRING(v) ((String *)(void *)(v).obj)
#define AS_SHAPE(v) ((ShapeObj *)(void *)(v).obj)
#define AS_KEY(v) ((KeyObj *)(void *)(v).obj)
#define AS_TAPE(v) ((TapeObj *)(void *)(v).obj)
#define AS_PASS(v) ((PassObj *)(void *)(v).obj)
#define AS_RULE(v) ((RuleObj *)(void *)(v).obj)
#define AS_PARTIAL(v) ((Partial *)(void *)(v).obj)
#define AS_PRIM(v) ((PrimObj *)(void *)(v).obj)

#endif
