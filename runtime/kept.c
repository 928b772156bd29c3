/* Forms of tensors that are kept: hung on tensors, and in one list of all that
 * have data, by when they were used last. */
#include "runtime/kept.h"
#include "runtime/internal.h"

#include <pthread.h>
#include <string.h>

struct Kept {
  struct Kept *next;          /* of the tensor */
  struct Kept *newer, *older; /* of all that have data */
  ArtifactKey form;
  void *data; /* NULL: it was wanted, but is not there */
  size_t bytes, block;
  uint64_t used;  /* when it was wanted last */
  uint32_t users; /* at this moment */
  bool gone;      /* from its tensor: the last user frees it */
};

static struct {
  pthread_once_t once;
  pthread_mutex_t lock;
  Kept *newest, *oldest;
  uint64_t limit, now;
  bool at_once;
  KeptCounts counts;
} all = {.once = PTHREAD_ONCE_INIT,
         .lock = PTHREAD_MUTEX_INITIALIZER,
         .limit = UINT64_MAX};

/* ---- the lock: no other one is taken under it ---- */

static void before_fork(void) {
  pthread_mutex_lock(&all.lock);
}

static void after_fork(void) {
  pthread_mutex_unlock(&all.lock);
}

static void set_up(void) {
  pthread_atfork(before_fork, after_fork, after_fork);
}

static void lock(void) {
  pthread_once(&all.once, set_up);
  pthread_mutex_lock(&all.lock);
}

static void unlock(void) {
  pthread_mutex_unlock(&all.lock);
}

/* ---- the list of all: with the lock ---- */

static void take_out(Kept *k) {
  *(k->newer ? &k->newer->older : &all.newest) = k->older;
  *(k->older ? &k->older->newer : &all.oldest) = k->newer;
  k->newer = k->older = NULL;
}

static void put_in(Kept *k) {
  k->older = all.newest;
  *(k->older ? &k->older->newer : &all.oldest) = k;
  all.newest = k;
}

/* ---- what is to be freed without the lock ---- */

typedef struct Block {
  struct Block *next;
  size_t size;
} Block;

static void free_blocks(Block *b) {
  while (b) {
    Block *next = b->next;
    block_free(b, b->size);
    b = next;
  }
}

static void lose_data(Kept *k, Block **freed) {
  if (!k->data)
    return;
  take_out(k);
  all.counts.bytes -= k->bytes;
  Block *b = k->data;
  *b = (Block){*freed, k->block};
  *freed = b;
  k->data = NULL;
}

/* Those not used since then, until all others take so many bytes at most. */
static bool make_room(uint64_t most, uint64_t since, Block **freed) {
  for (Kept *k = all.oldest, *newer; k && all.counts.bytes > most; k = newer) {
    newer = k->newer;
    if (k->used > since)
      return false;
    if (!k->users)
      lose_data(k, freed);
  }
  return all.counts.bytes <= most;
}

/* ---- one tensor's: with the lock ---- */

static Kept *find(const Tensor *t, const ArtifactKey *form) {
  Kept *k = t->kept;
  while (k && memcmp(&k->form, form, sizeof *form) != 0)
    k = k->next;
  return k;
}

/* Forms of one tensor that were wanted, and are not there: as many as a loop
 * over parts of it may want in turn, but not one of each place in it. */
enum { WANTED_MOST = 1024 };

/* Where there are so many, the first of them is as if it had not been. */
static void forget_first(Tensor *t) {
  Kept **first = NULL;
  uint32_t count = 0;
  for (Kept **k = &t->kept; *k; k = &(*k)->next)
    if (!(*k)->data && !(*k)->users) {
      first = k;
      count++;
    }
  if (count < WANTED_MOST)
    return;
  Kept *k = *first;
  *first = k->next;
  mem_free(k);
}

static Kept *add(Tensor *t, const ArtifactKey *form) {
  forget_first(t);
  Kept *k = mem_try_alloc(sizeof *k);
  if (!k)
    return NULL;
  *k = (Kept){.next = t->kept, .form = *form};
  t->kept = k;
  return k;
}

static uint64_t limit(void) {
  return all.limit == UINT64_MAX ? memory_physical() / 4 : all.limit;
}

/* ---- the door ---- */

typedef enum Found { FOUND, FOUND_NONE, FOUND_WANTED } Found;

/* k: with a user more, unless there is none. */
static Found look(Tensor *t, const ArtifactKey *form, size_t bytes, Kept **k,
                  uint64_t *since) {
  Found found = FOUND_NONE;
  lock();
  bool may = bytes <= limit();
  *k = may ? find(t, form) : NULL;
  bool again = *k != NULL || all.at_once;
  if (may && !*k)
    *k = add(t, form);
  if (*k) {
    *since = (*k)->used;
    (*k)->used = ++all.now;
  }
  if (*k && (*k)->data) {
    take_out(*k);
    put_in(*k);
    all.counts.used++;
    found = FOUND;
  } else if (*k && again) {
    found = FOUND_WANTED;
  }
  if (found != FOUND_NONE)
    (*k)->users++;
  unlock();
  return found;
}

/* Where another thread has made it meanwhile, that one is as good. */
static bool attach(Kept *k, void *data, size_t bytes, size_t block,
                   uint64_t since, Block **freed) {
  lock();
  bool fits = k->data || k->gone ||
              make_room(limit() > bytes ? limit() - bytes : 0, since, freed);
  bool takes = fits && !k->data && !k->gone;
  if (takes) {
    k->data = data;
    k->bytes = bytes;
    k->block = block;
    all.counts.bytes += bytes;
    all.counts.made++;
    put_in(k);
  }
  unlock();
  return takes;
}

/* Is there room for it, or will there be? */
static bool has_room(size_t bytes, uint64_t since) {
  lock();
  uint64_t free = limit() > all.counts.bytes ? limit() - all.counts.bytes : 0;
  for (const Kept *k = all.oldest; k && free < bytes; k = k->newer)
    if (k->used <= since && !k->users)
      free += k->bytes;
  unlock();
  return free >= bytes;
}

static void make_data(Kept *k, size_t bytes, uint64_t since, KeptMake *make,
                      void *context) {
  Block *freed = NULL;
  size_t block, least = bytes > sizeof(Block) ? bytes : sizeof(Block);
  if (!has_room(bytes, since))
    return;
  void *data = block_new(least, false, &block);
  bool good = data && make(context, data);
  if (!good || !attach(k, data, bytes, block, since, &freed))
    if (data)
      block_free(data, block);
  free_blocks(freed);
}

ArtifactKey kept_form_at(ArtifactKey form, int64_t from) {
  form.word[0] += (uint64_t)from * UINT64_C(0x9e3779b97f4a7c15);
  return form;
}

/* Forms of a part are kept with the whole, as those of elements in there. */
Kept *kept_take(Tensor *t, const ArtifactKey *form, size_t bytes,
                KeptMake *make, void *context) {
  Kept *k;
  uint64_t since;
  ArtifactKey there;
  if (t->whole) {
    there = kept_form_at(*form, (char *)t->data - (char *)t->whole->data);
    form = &there;
    t = t->whole;
  }
  if (t->borrowed || !all.limit)
    return NULL;
  Found found = look(t, form, bytes, &k, &since);
  if (found == FOUND_WANTED)
    make_data(k, bytes, since, make, context);
  if (found == FOUND_NONE)
    return NULL;
  if (found == FOUND)
    return k;
  lock(); /* another thread may be about to make it */
  bool is_there = k->data != NULL;
  unlock();
  if (is_there)
    return k;
  kept_done(k);
  return NULL;
}

const void *kept_data(const Kept *k) {
  return k->data;
}

void kept_done(Kept *k) {
  Block *freed = NULL;
  lock();
  bool last = !--k->users && k->gone;
  if (last)
    lose_data(k, &freed);
  unlock();
  free_blocks(freed);
  if (last)
    mem_free(k);
}

void kept_drop(Tensor *t) {
  Block *freed = NULL;
  Kept *ended = NULL;
  lock();
  for (Kept *k = t->kept, *next; k; k = next) {
    next = k->next;
    k->gone = true;
    if (k->users)
      continue;
    lose_data(k, &freed);
    k->next = ended;
    ended = k;
  }
  t->kept = NULL;
  unlock();
  free_blocks(freed);
  while (ended) {
    Kept *next = ended->next;
    mem_free(ended);
    ended = next;
  }
}

void kept_limit(uint64_t bytes) {
  lock();
  all.limit = bytes;
  uint64_t most = limit();
  unlock();
  kept_trim(most);
}

void kept_trim(uint64_t bytes) {
  Block *freed = NULL;
  lock();
  make_room(bytes, UINT64_MAX, &freed);
  unlock();
  free_blocks(freed);
}

void kept_at_once(bool on) {
  all.at_once = on;
}

bool kept_is_at_once(void) {
  return all.at_once;
}

KeptCounts kept_counts(void) {
  lock();
  KeptCounts counts = all.counts;
  unlock();
  return counts;
}
