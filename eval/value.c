/* Memory of values: slabs cut into pieces, and release without recursion. */
#include "eval/value.h"

#include <string.h>

enum { SLAB_SIZE = 64 * 1024, RELEASED_AT_ONCE = 16 * 1024 };

typedef struct Slab {
  struct Slab *next;
  _Alignas(CLASS_STEP) char bytes[];
} Slab;

void *heap_big(size_t size) {
  return mem_alloc(size);
}

void *heap_more(Heap *heap, uint32_t class) {
  size_t size = (size_t) class * CLASS_STEP;
  if (CHECKED_HEAP)
    return mem_alloc(size);
  if ((size_t)(heap->fresh_end - heap->fresh) < size) {
    Slab *slab = mem_alloc(sizeof *slab + SLAB_SIZE);
    slab->next = heap->slabs;
    heap->slabs = slab;
    heap->fresh = slab->bytes;
    heap->fresh_end = slab->bytes + SLAB_SIZE;
  }
  void *piece = heap->fresh;
  heap->fresh += size;
  return piece;
}

static void doom(Heap *heap, Value v) {
  switch ((Tag)v.tag) {
  case V_NODE:
    node_release(v.node);
    return;
  case V_INDEX:
    index_var_release(v.index);
    return;
  case V_NONE:
  case V_UNIT:
  case V_ABSENT:
  case V_AXIS_ALL:
  case V_DTYPE:
  case V_NIL:
  case V_CON0:
  case V_FN:
  case V_FRAME:
    return;
  case V_STRING:
  case V_TUPLE:
  case V_RECORD:
  case V_CONS:
  case V_CON:
  case V_CLOSURE:
  case V_PARTIAL:
  case V_PRIM:
  case V_SHAPE:
  case V_KEY:
  case V_ENV:
    break;
  }
  v.obj->next = heap->doomed;
  heap->doomed = v.obj;
}

static void drop(Heap *heap, Value v) {
  if (v.tag < V_HEAP)
    return;
  if (v.tag >= V_NODE || --v.obj->refs == 0)
    doom(heap, v);
}

static void drop_all(Heap *heap, const Value *at, uint32_t len) {
  for (uint32_t i = 0; i < len; i++)
    drop(heap, at[i]);
}

static void take_apart(Heap *heap, Obj *obj) {
  switch ((Tag)obj->tag) {
  case V_TUPLE:
  case V_ENV:
    drop_all(heap, ((Fields *)(void *)obj)->at, obj->len);
    break;
  case V_RECORD:
    drop_all(heap, ((Record *)(void *)obj)->at, obj->len);
    break;
  case V_CONS:
    drop(heap, ((Cons *)(void *)obj)->head);
    drop(heap, ((Cons *)(void *)obj)->tail);
    break;
  case V_CON:
    drop(heap, ((ConApp *)(void *)obj)->arg);
    break;
  case V_PARTIAL:
    drop(heap, ((Partial *)(void *)obj)->fn);
    drop_all(heap, ((Partial *)(void *)obj)->at, obj->len);
    break;
  case V_STRING:
  case V_PRIM:
  case V_SHAPE:
  case V_KEY:
  case V_NONE:
  case V_UNIT:
  case V_ABSENT:
  case V_AXIS_ALL:
  case V_DTYPE:
  case V_NIL:
  case V_CON0:
  case V_FN:
  case V_FRAME:
  case V_CLOSURE:
  case V_NODE:
  case V_INDEX:
    break;
  }
}

static void release_some(Heap *heap, uint64_t most) {
  heap->releasing = true;
  while (heap->doomed && most--) {
    Obj *obj = heap->doomed;
    heap->doomed = obj->next;
    take_apart(heap, obj);
    heap->live--;
    if (CHECKED_HEAP || !obj->class) {
      mem_free(obj);
    } else {
      obj->next = heap->free[obj->class];
      heap->free[obj->class] = obj;
    }
  }
  heap->releasing = false;
  heap->slowly = heap->slowly && heap->doomed;
}

void heap_release(Heap *heap, Value v) {
  doom(heap, v);
  if (!heap->releasing)
    release_some(heap, heap->slowly ? RELEASED_AT_ONCE : UINT64_MAX);
}

void heap_end(Heap *heap) {
  release_some(heap, UINT64_MAX);
  for (Slab *slab = heap->slabs, *next; slab; slab = next) {
    next = slab->next;
    mem_free(slab);
  }
  *heap = (Heap){0};
}

Value value_string(Heap *heap, const char *text, size_t len) {
  if (len > UINT32_MAX - 64)
    trap_raise(FAIL_MEMORY);
  String *s = obj_new(heap, V_STRING, sizeof *s + len + 1, (uint32_t)len);
  if (len)
    memcpy(s->text, text, len);
  s->text[len] = 0;
  return value_obj(V_STRING, s);
}

Value value_cons(Heap *heap, Value head, Value tail) {
  Cons *cell = obj_new(heap, V_CONS, sizeof *cell, 2);
  cell->head = head;
  cell->tail = tail;
  return value_obj(V_CONS, cell);
}

Value value_shape(Heap *heap, uint32_t rank, const int64_t *at,
                  uint64_t stars) {
  Shape *s = obj_new(heap, V_SHAPE, sizeof *s + rank * sizeof *at, rank);
  s->stars = stars & ((1ull << rank) - 1);
  if (rank)
    memcpy(s->at, at, rank * sizeof *at);
  return value_obj(V_SHAPE, s);
}

Value value_key(Heap *heap, Key key) {
  KeyObj *k = obj_new(heap, V_KEY, sizeof *k, 0);
  k->key = key;
  return value_obj(V_KEY, k);
}
