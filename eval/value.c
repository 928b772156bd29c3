/* Memory of values: slabs, cut into objects of a size class.  Release is not
 * recursive. */
#include "eval/value.h"
#include "support/mem.h"
#include "support/trap.h"

#include <string.h>

enum { SLAB_BYTES = 64 * 1024, MAX_RELEASES_PER_STEP = 16 * 1024 };

typedef struct Slab {
  struct Slab *next;
  _Alignas(SIZE_CLASS_BYTES) char bytes[];
} Slab;

void *heap_alloc_large(size_t size) {
  return mem_alloc(size);
}

void *heap_alloc_from_slab(Heap *heap, uint32_t size_class) {
  size_t size = (size_t)size_class * SIZE_CLASS_BYTES;
  if (SANITIZED_BUILD)
    return mem_alloc(size);
  if ((size_t)(heap->bump_end - heap->bump) < size) {
    Slab *slab = mem_alloc(sizeof *slab + SLAB_BYTES);
    slab->next = heap->slabs;
    heap->slabs = slab;
    heap->bump = slab->bytes;
    heap->bump_end = slab->bytes + SLAB_BYTES;
  }
  void *piece = heap->bump;
  heap->bump += size;
  return piece;
}

static void enqueue_release(Heap *heap, Value v) {
  switch ((ValueTag)v.tag) {
  case V_NODE:
    node_release(v.node);
    return;
  case V_INDEX:
    index_var_release(v.index);
    return;
  case V_NONE:
  case V_UNIT:
  case V_ABSENT:
  case V_ALL_AXES:
  case V_DTYPE:
  case V_NIL:
  case V_NULLARY_CON:
  case V_FN:
  case V_RAW:
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
  case V_KEYS:
  case V_ENV:
  case V_TAPE:
  case V_PASS:
  case V_RULE:
    break;
  }
  v.obj->next = heap->release_queue;
  heap->release_queue = v.obj;
}

static void drop_ref(Heap *heap, Value v) {
  if (v.tag < V_HEAP)
    return;
  if (v.tag >= V_NODE || --v.obj->ref_count == 0)
    enqueue_release(heap, v);
}

static void drop_refs(Heap *heap, const Value *at, uint32_t len) {
  for (uint32_t i = 0; i < len; i++)
    drop_ref(heap, at[i]);
}

static void drop_children(Heap *heap, Obj *obj) {
  switch ((ValueTag)obj->tag) {
  case V_TUPLE:
  case V_KEYS:
  case V_ENV:
    drop_refs(heap, ((ValueArray *)(void *)obj)->at, obj->len);
    break;
  case V_RECORD:
    drop_refs(heap, ((Record *)(void *)obj)->at, obj->len);
    break;
  case V_CONS:
    drop_ref(heap, ((Cons *)(void *)obj)->head);
    drop_ref(heap, ((Cons *)(void *)obj)->tail);
    break;
  case V_CON:
    drop_ref(heap, ((ConApp *)(void *)obj)->arg);
    break;
  case V_PARTIAL:
    drop_ref(heap, ((Partial *)(void *)obj)->fn);
    drop_refs(heap, ((Partial *)(void *)obj)->args, obj->len);
    break;
  case V_TAPE:
    tape_close(((TapeObj *)(void *)obj)->tape);
    break;
  case V_PASS:
    if (((PassObj *)(void *)obj)->pass)
      reverse_pass_free(((PassObj *)(void *)obj)->pass);
    tape_release(((PassObj *)(void *)obj)->tape);
    break;
  case V_RULE:
    vjp_rule_release(((RuleObj *)(void *)obj)->rule);
    tape_release(((RuleObj *)(void *)obj)->tape);
    break;
  case V_STRING:
  case V_PRIM:
  case V_SHAPE:
  case V_KEY:
  case V_NONE:
  case V_UNIT:
  case V_ABSENT:
  case V_ALL_AXES:
  case V_DTYPE:
  case V_NIL:
  case V_NULLARY_CON:
  case V_FN:
  case V_RAW:
  case V_CLOSURE:
  case V_NODE:
  case V_INDEX:
    break;
  }
}

/* ---- free lists ---- */

enum {
  MIN_ORDERED_OBJECTS = 4096, /* a shorter list stays in the cache */
  BUCKET_BITS = 8,
  LOW_ADDRESS_BIT = 8, /* within 256 bytes any order is as good */
};

/* Orders the first `count` objects of a list by BUCKET_BITS bits of their
   addresses, from bit `shift` on.  Objects with equal bits keep their order. */
static void order_by_address_bits(Obj **list, uint64_t count, unsigned shift) {
  Obj *heads[1 << BUCKET_BITS] = {0};
  Obj **ends[1 << BUCKET_BITS];
  Obj *rest = *list;
  for (; count; count--) {
    Obj *obj = rest;
    uintptr_t bucket =
        (uintptr_t)obj >> shift & ((UINT64_C(1) << BUCKET_BITS) - 1);
    rest = obj->next;
    if (!heads[bucket])
      ends[bucket] = &heads[bucket];
    *ends[bucket] = obj;
    ends[bucket] = &obj->next;
  }
  Obj **end = list;
  for (uint32_t i = 0; i < 1 << BUCKET_BITS; i++)
    if (heads[i]) {
      *end = heads[i];
      end = ends[i];
    }
  *end = rest;
}

/* Orders the objects of a structure that was released, since the next large
   structure gets them: its objects are then close to each other, too.
   Otherwise most accesses to them would miss the cache. */
static void order_released(Heap *heap, const uint64_t *counts) {
  for (uint32_t i = 1; i < SIZE_CLASS_COUNT; i++)
    if (counts[i] >= MIN_ORDERED_OBJECTS && !SANITIZED_BUILD) {
      Obj **list = &heap->free_lists[i];
      order_by_address_bits(list, counts[i], LOW_ADDRESS_BIT);
      order_by_address_bits(list, counts[i], LOW_ADDRESS_BIT + BUCKET_BITS);
    }
}

/* Releases up to `max` objects of the queue, and counts them by size class
   unless counts is NULL. */
static void release_queued(Heap *heap, uint64_t max, uint64_t *counts) {
  while (heap->release_queue && max--) {
    Obj *obj = heap->release_queue;
    heap->release_queue = obj->next;
    drop_children(heap, obj);
    if (counts)
      counts[obj->size_class]++;
    obj_free(heap, obj);
  }
}

static void drain_release_queue(Heap *heap, uint64_t max) {
  heap->is_releasing = true;
  release_queued(heap, MIN_ORDERED_OBJECTS, NULL);
  if (heap->release_queue) {
    uint64_t counts[SIZE_CLASS_COUNT] = {0};
    release_queued(heap, max - MIN_ORDERED_OBJECTS, counts);
    order_released(heap, counts);
  }
  heap->is_releasing = false;
  heap->release_incrementally =
      heap->release_incrementally && heap->release_queue;
}

void heap_release(Heap *heap, Value v) {
  enqueue_release(heap, v);
  if (!heap->is_releasing)
    drain_release_queue(
        heap, heap->release_incrementally ? MAX_RELEASES_PER_STEP : UINT64_MAX);
}

void heap_free_all(Heap *heap) {
  drain_release_queue(heap, UINT64_MAX);
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
                  uint64_t broadcast_mask) {
  ShapeObj *s = obj_new(heap, V_SHAPE, sizeof *s + rank * sizeof *at, rank);
  s->broadcast_mask = broadcast_mask & ((1ull << rank) - 1);
  if (rank)
    memcpy(s->extents, at, rank * sizeof *at);
  return value_obj(V_SHAPE, s);
}

Value value_key(Heap *heap, PrngKey key) {
  KeyObj *k = obj_new(heap, V_KEY, sizeof *k, 0);
  k->key = key;
  return value_obj(V_KEY, k);
}
