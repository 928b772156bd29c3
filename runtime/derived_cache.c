/* The cache of derived data.  Derived data hang on their tensors, and are in
 * one list, ordered by their last use. */
#include "runtime/derived_cache.h"
#include "runtime/fork_lock.h"
#include "runtime/internal.h"
#include "support/mem.h"

#include <string.h>

struct DerivedData {
  struct DerivedData *next;          /* next one of the same tensor */
  struct DerivedData *newer, *older; /* list of all entries with data */
  ArtifactKey key;
  void *data; /* NULL: a miss is recorded, but there are no data */
  size_t bytes, alloc_bytes;
  uint64_t last_use; /* time of the last request */
  uint32_t pins;     /* current users */
  bool detached;     /* removed from its tensor; the last user frees it */
  bool uncached;     /* never had a tensor; not in the list */
};

static struct {
  DerivedData *newest, *oldest;
  uint64_t limit, now;
  uint32_t loop_count; /* loops that are running */
  bool at_once;
  DerivedCacheStats counts;
} cache = {.limit = UINT64_MAX};

/* No other lock is taken under it. */
DEFINE_FORK_LOCK()

/* ---- the list; the caller holds the lock ---- */

static void unlink_entry(DerivedData *k) {
  *(k->newer ? &k->newer->older : &cache.newest) = k->older;
  *(k->older ? &k->older->newer : &cache.oldest) = k->newer;
  k->newer = k->older = NULL;
}

static void link_entry(DerivedData *k) {
  k->older = cache.newest;
  *(k->older ? &k->older->newer : &cache.oldest) = k;
  cache.newest = k;
}

/* ---- blocks to free after the lock is released ---- */

typedef struct FreedBlock {
  struct FreedBlock *next;
  size_t size;
} FreedBlock;

static void free_blocks(FreedBlock *b) {
  while (b) {
    FreedBlock *next = b->next;
    caching_free(b, b->size);
    b = next;
  }
}

static void evict_data(DerivedData *k, FreedBlock **freed) {
  if (!k->data)
    return;
  if (!k->uncached) {
    unlink_entry(k);
    cache.counts.bytes -= k->bytes;
  }
  FreedBlock *b = k->data;
  *b = (FreedBlock){*freed, k->alloc_bytes};
  *freed = b;
  k->data = NULL;
}

/* Evicts entries that were last used before last_wanted, until all others take
 * at most max_bytes. */
static bool evict_until(uint64_t max_bytes, uint64_t last_wanted,
                        FreedBlock **freed) {
  for (DerivedData *k = cache.oldest, *newer;
       k && cache.counts.bytes > max_bytes; k = newer) {
    newer = k->newer;
    if (k->last_use > last_wanted)
      return false;
    if (!k->pins)
      evict_data(k, freed);
  }
  return cache.counts.bytes <= max_bytes;
}

/* ---- entries of one tensor; the caller holds the lock ---- */

static DerivedData *find_entry(const Tensor *t, const ArtifactKey *key) {
  DerivedData *k = t->derived;
  while (k && memcmp(&k->key, key, sizeof *key) != 0)
    k = k->next;
  return k;
}

/* Recorded misses per tensor.  Enough for a loop over the parts of a tensor,
 * but not for one part at each position. */
enum { MAX_MISSES_PER_TENSOR = 1024 };

/* Drops the oldest miss of a tensor that has too many. */
static void forget_oldest_miss(Tensor *t) {
  DerivedData **first = NULL;
  uint32_t count = 0;
  for (DerivedData **k = &t->derived; *k; k = &(*k)->next)
    if (!(*k)->data && !(*k)->pins) {
      first = k;
      count++;
    }
  if (count < MAX_MISSES_PER_TENSOR)
    return;
  DerivedData *k = *first;
  *first = k->next;
  mem_free(k);
}

static DerivedData *add_entry(Tensor *t, const ArtifactKey *key) {
  forget_oldest_miss(t);
  DerivedData *k = mem_try_alloc(sizeof *k);
  if (!k)
    return NULL;
  *k = (DerivedData){.next = t->derived, .key = *key};
  t->derived = k;
  return k;
}

/* Data of all running loops together. */
enum { MAX_LOOP_BYTES = 1 << 28 };

static uint64_t effective_limit(void) {
  uint64_t max = memory_limit() / 4, limit = cache.limit;
  if (cache.loop_count && limit < MAX_LOOP_BYTES)
    limit = MAX_LOOP_BYTES < max ? MAX_LOOP_BYTES : max;
  return limit == UINT64_MAX ? max : limit;
}

/* ---- entry points ---- */

typedef enum LookupResult {
  LOOKUP_HIT,
  LOOKUP_MISS,
  LOOKUP_BUILD
} LookupResult;

/* Unless there is no entry, k gets one more user. */
static LookupResult lookup(Tensor *t, const ArtifactKey *key, size_t bytes,
                           bool at_once, DerivedData **k,
                           uint64_t *last_wanted) {
  LookupResult found = LOOKUP_MISS;
  lock();
  bool fits = bytes <= effective_limit();
  *k = fits ? find_entry(t, key) : NULL;
  bool builds = *k != NULL || at_once || cache.at_once;
  if (fits && !*k)
    *k = add_entry(t, key);
  if (*k) {
    *last_wanted = (*k)->last_use;
    (*k)->last_use = ++cache.now;
  }
  if (*k && (*k)->data) {
    unlink_entry(*k);
    link_entry(*k);
    cache.counts.hits++;
    found = LOOKUP_HIT;
  } else if (*k && builds) {
    found = LOOKUP_BUILD;
  }
  if (found != LOOKUP_MISS)
    (*k)->pins++;
  unlock();
  return found;
}

/* If another thread has stored the data meanwhile, its data are used. */
static bool insert_data(DerivedData *k, void *data, size_t bytes,
                        size_t alloc_bytes, uint64_t last_wanted,
                        FreedBlock **freed) {
  lock();
  bool fits =
      k->data || k->detached ||
      evict_until(effective_limit() > bytes ? effective_limit() - bytes : 0,
                  last_wanted, freed);
  bool inserted = fits && !k->data && !k->detached;
  if (inserted) {
    k->data = data;
    k->bytes = bytes;
    k->alloc_bytes = alloc_bytes;
    cache.counts.bytes += bytes;
    cache.counts.builds++;
    link_entry(k);
  }
  unlock();
  return inserted;
}

/* True if the data fit into the limit, perhaps after evictions. */
static bool fits_in_limit(size_t bytes, uint64_t last_wanted) {
  lock();
  uint64_t free = effective_limit() > cache.counts.bytes
                      ? effective_limit() - cache.counts.bytes
                      : 0;
  for (const DerivedData *k = cache.oldest; k && free < bytes; k = k->newer)
    if (k->last_use <= last_wanted && !k->pins)
      free += k->bytes;
  unlock();
  return free >= bytes;
}

/* NULL: out of memory, or interrupted. */
static void *derive_block(size_t bytes, DeriveFunction *derive, void *context,
                          size_t *alloc_bytes) {
  void *data =
      caching_alloc(bytes > sizeof(FreedBlock) ? bytes : sizeof(FreedBlock),
                    false, alloc_bytes);
  if (!data || derive(context, data))
    return data;
  caching_free(data, *alloc_bytes);
  return NULL;
}

static void build_data(DerivedData *k, size_t bytes, uint64_t last_wanted,
                       DeriveFunction *derive, void *context) {
  FreedBlock *freed = NULL;
  size_t alloc_bytes;
  if (!fits_in_limit(bytes, last_wanted))
    return;
  void *data = derive_block(bytes, derive, context, &alloc_bytes);
  if (data && !insert_data(k, data, bytes, alloc_bytes, last_wanted, &freed))
    caching_free(data, alloc_bytes);
  free_blocks(freed);
}

/* Data that only the caller uses. */
static DerivedData *build_uncached(size_t bytes, DeriveFunction *derive,
                                   void *context) {
  DerivedData *k =
      bytes <= memory_limit() / 4 ? mem_try_alloc(sizeof *k) : NULL;
  if (!k)
    return NULL;
  *k = (DerivedData){
      .bytes = bytes, .pins = 1, .detached = true, .uncached = true};
  k->data = derive_block(bytes, derive, context, &k->alloc_bytes);
  if (!k->data) {
    mem_free(k);
    return NULL;
  }
  lock();
  cache.counts.builds++;
  unlock();
  return k;
}

ArtifactKey derived_cache_key_at(ArtifactKey key, int64_t from) {
  key.word[0] += (uint64_t)from * UINT64_C(0x9e3779b97f4a7c15);
  return key;
}

/* Derived data of a view are kept with its base, for the elements of the
 * view. */
static DerivedData *acquire(Tensor *t, const ArtifactKey *key, size_t bytes,
                            bool at_once, DeriveFunction *derive,
                            void *context) {
  DerivedData *k;
  uint64_t last_wanted;
  ArtifactKey shifted_key;
  if (t->base) {
    shifted_key =
        derived_cache_key_at(*key, (char *)t->data - (char *)t->base->data);
    key = &shifted_key;
    t = t->base;
  }
  if (t->is_borrowed)
    return NULL;
  LookupResult found = lookup(t, key, bytes, at_once, &k, &last_wanted);
  if (found == LOOKUP_BUILD)
    build_data(k, bytes, last_wanted, derive, context);
  if (found == LOOKUP_MISS)
    return NULL;
  if (found == LOOKUP_HIT)
    return k;
  lock(); /* another thread may be about to make it */
  bool is_there = k->data != NULL;
  unlock();
  if (is_there)
    return k;
  derived_cache_release(k);
  return NULL;
}

DerivedData *derived_cache_acquire(Tensor *t, const ArtifactKey *key,
                                   size_t bytes, DeriveFunction *derive,
                                   void *context) {
  return acquire(t, key, bytes, false, derive, context);
}

DerivedData *derived_cache_acquire_or_build(Tensor *t, const ArtifactKey *key,
                                            size_t bytes,
                                            DeriveFunction *derive,
                                            void *context) {
  DerivedData *k = acquire(t, key, bytes, true, derive, context);
  return k ? k : build_uncached(bytes, derive, context);
}

const void *derived_data(const DerivedData *k) {
  return k->data;
}

void derived_cache_release(DerivedData *k) {
  FreedBlock *freed = NULL;
  lock();
  bool last = !--k->pins && k->detached;
  if (last)
    evict_data(k, &freed);
  unlock();
  free_blocks(freed);
  if (last)
    mem_free(k);
}

void derived_cache_invalidate(Tensor *t) {
  FreedBlock *freed = NULL;
  DerivedData *ended = NULL;
  lock();
  for (DerivedData *k = t->derived, *next; k; k = next) {
    next = k->next;
    k->detached = true;
    if (k->pins)
      continue;
    evict_data(k, &freed);
    k->next = ended;
    ended = k;
  }
  t->derived = NULL;
  unlock();
  free_blocks(freed);
  while (ended) {
    DerivedData *next = ended->next;
    mem_free(ended);
    ended = next;
  }
}

void derived_cache_set_limit(uint64_t bytes) {
  lock();
  cache.limit = bytes;
  uint64_t max_bytes = effective_limit();
  unlock();
  derived_cache_trim(max_bytes);
}

void derived_cache_begin_loop(void) {
  lock();
  cache.loop_count++;
  unlock();
}

void derived_cache_end_loop(void) {
  lock();
  cache.loop_count--;
  uint64_t max_bytes = effective_limit();
  unlock();
  derived_cache_trim(max_bytes);
}

void derived_cache_trim(uint64_t bytes) {
  FreedBlock *freed = NULL;
  lock();
  evict_until(bytes, UINT64_MAX, &freed);
  unlock();
  free_blocks(freed);
}

void derived_cache_set_eager(bool on) {
  cache.at_once = on;
}

bool derived_cache_is_eager(void) {
  return cache.at_once;
}

DerivedCacheStats derived_cache_stats(void) {
  lock();
  DerivedCacheStats counts = cache.counts;
  unlock();
  return counts;
}
