/* Recipes by the outlines that they were made of.  When there are too many all
 * are forgotten: what is still run is soon there again. */
#include "tensor/recipe.h"

#include "runtime/artifact.h"

#include <string.h>

enum {
  BUCKETS = 256,
  RECIPES_MOST = 1024,
  WORDS_MOST = 1 << 20,     /* of one outline */
  WORDS_MOST_ALL = 2 << 20, /* a recipe takes about as much again */
};

typedef struct Entry {
  struct Entry *next;
  ArtifactKey key;
  const uint64_t *words;
  uint32_t count;
  Recipe *recipe;
} Entry;

struct Memo {
  Arena *arena; /* of all recipes */
  Entry *buckets[BUCKETS];
  uint32_t recipes;
  uint64_t words;
};

static ArtifactKey key_of(const Outline *o) {
  return artifact_key(
      1, &(ArtifactPart){o->words.at, o->words.len * sizeof *o->words.at});
}

bool memo_takes(const Outline *o) {
  return !o->failed && o->words.len <= WORDS_MOST;
}

static Entry *find(const Memo *memo, const Outline *o, ArtifactKey key) {
  Entry *e = memo->buckets[key.word[0] % BUCKETS];
  while (e && (memcmp(&e->key, &key, sizeof key) != 0 ||
               e->count != o->words.len ||
               memcmp(e->words, o->words.at, e->count * sizeof *e->words) != 0))
    e = e->next;
  return e;
}

Recipe *memo_find(Graph *g, const Outline *o) {
  if (!g->memo || !memo_takes(o))
    return NULL;
  Entry *e = find(g->memo, o, key_of(o));
  return e ? e->recipe : NULL;
}

static void make_room(Graph *g, const Outline *o) {
  const Memo *memo = g->memo;
  if (memo && (memo->recipes >= RECIPES_MOST ||
               memo->words + o->words.len > WORDS_MOST_ALL))
    memo_end(g);
  if (g->memo)
    return;
  Arena *arena = arena_new();
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    arena_free(arena);
    trap_raise(trap.kind);
  }
  g->memo = NEW(arena, struct Memo);
  trap_end(&trap);
  g->memo->arena = arena;
}

Arena *memo_arena(Graph *g, const Outline *o) {
  make_room(g, o);
  return g->memo->arena;
}

void memo_keep(Graph *g, const Outline *o, Recipe *r) {
  Memo *memo = g->memo;
  ArtifactKey key = key_of(o);
  Entry *e = find(memo, o, key);
  if (e) {
    e->recipe = r;
    return;
  }
  uint64_t *words = NEW_ARRAY(memo->arena, uint64_t, o->words.len);
  memcpy(words, o->words.at, o->words.len * sizeof *words);
  e = NEW(memo->arena, Entry);
  Entry **bucket = &memo->buckets[key.word[0] % BUCKETS];
  *e = (Entry){*bucket, key, words, o->words.len, r};
  *bucket = e;
  memo->recipes++;
  memo->words += o->words.len;
}

void memo_end(Graph *g) {
  if (g->memo)
    arena_free(g->memo->arena);
  g->memo = NULL;
}
