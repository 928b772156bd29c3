/* Plan cache: cached plans, found by their plan keys.  When it is full, all
 * plans are dropped; graphs that still run are soon cached again. */
#include "plan/cached_plan.h"

#include "machine/limits/planner.h"
#include "runtime/artifact.h"
#include "support/arena.h"
#include "support/trap.h"

#include <string.h>

typedef struct CacheEntry {
  struct CacheEntry *next;
  ArtifactKey key;
  const uint64_t *words;
  uint32_t word_count;
  CachedPlan *plan;
} CacheEntry;

struct PlanCache {
  Arena *arena; /* of all cached plans */
  CacheEntry *buckets[PLAN_CACHE_BUCKETS];
  uint32_t plan_count;
  uint64_t word_count;
};

static ArtifactKey hash_plan_key(const PlanKey *o) {
  return artifact_key(
      1, &(ArtifactPart){o->words.at, o->words.len * sizeof *o->words.at});
}

bool plan_cache_accepts(const PlanKey *o) {
  return !o->uncacheable && o->words.len <= MAX_PLAN_KEY_WORDS;
}

static CacheEntry *find_entry(const PlanCache *cache, const PlanKey *o,
                              ArtifactKey key) {
  CacheEntry *e = cache->buckets[key.word[0] % PLAN_CACHE_BUCKETS];
  while (e &&
         (memcmp(&e->key, &key, sizeof key) != 0 ||
          e->word_count != o->words.len ||
          memcmp(e->words, o->words.at, e->word_count * sizeof *e->words) != 0))
    e = e->next;
  return e;
}

CachedPlan *plan_cache_find(Graph *g, const PlanKey *o) {
  if (!g->plan_cache || !plan_cache_accepts(o))
    return NULL;
  CacheEntry *e = find_entry(g->plan_cache, o, hash_plan_key(o));
  return e ? e->plan : NULL;
}

static void evict_if_full(Graph *g, const PlanKey *o) {
  const PlanCache *cache = g->plan_cache;
  if (cache && (cache->plan_count >= MAX_CACHED_PLANS ||
                cache->word_count + o->words.len > MAX_TOTAL_PLAN_KEY_WORDS))
    plan_cache_free(g);
  if (g->plan_cache)
    return;
  Arena *arena = arena_new();
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    arena_free(arena);
    trap_raise(trap.kind);
  }
  g->plan_cache = NEW(arena, struct PlanCache);
  trap_end(&trap);
  g->plan_cache->arena = arena;
}

Arena *plan_cache_arena(Graph *g, const PlanKey *o) {
  evict_if_full(g, o);
  return g->plan_cache->arena;
}

void plan_cache_insert(Graph *g, const PlanKey *o, CachedPlan *r) {
  PlanCache *cache = g->plan_cache;
  ArtifactKey key = hash_plan_key(o);
  CacheEntry *e = find_entry(cache, o, key);
  if (e) {
    e->plan = r;
    return;
  }
  uint64_t *words = NEW_ARRAY(cache->arena, uint64_t, o->words.len);
  memcpy(words, o->words.at, o->words.len * sizeof *words);
  e = NEW(cache->arena, CacheEntry);
  CacheEntry **bucket = &cache->buckets[key.word[0] % PLAN_CACHE_BUCKETS];
  *e = (CacheEntry){*bucket, key, words, o->words.len, r};
  *bucket = e;
  cache->plan_count++;
  cache->word_count += o->words.len;
}

void plan_cache_free(Graph *g) {
  if (g->plan_cache)
    arena_free(g->plan_cache->arena);
  g->plan_cache = NULL;
}
