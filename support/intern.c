/* String interning: equal texts have one address, so names compare as
   pointers. */
#include "support/intern.h"
#include "support/arena.h"

#include <string.h>

struct Interner {
  Arena *arena;
  Sym **slots;
  uint32_t len, cap;
};

Interner *interner_new(Arena *arena) {
  Interner *in = NEW(arena, Interner);
  in->arena = arena;
  in->cap = 1024;
  in->slots = NEW_ARRAY(arena, Sym *, in->cap);
  return in;
}

static uint32_t hash_text(const char *text, size_t len) {
  uint32_t h = 2166136261u; /* FNV-1a */
  for (size_t i = 0; i < len; i++)
    h = (h ^ (unsigned char)text[i]) * 16777619u;
  return h;
}

static Sym **find_slot(Sym **slots, uint32_t cap, uint32_t hash,
                       const char *text, size_t len) {
  uint32_t i = hash & (cap - 1);
  while (slots[i] && (slots[i]->hash != hash || slots[i]->len != len ||
                      memcmp(slots[i]->text, text, len) != 0))
    i = (i + 1) & (cap - 1);
  return &slots[i];
}

static void grow(Interner *in) {
  uint32_t cap = in->cap * 2;
  Sym **slots = NEW_ARRAY(in->arena, Sym *, cap);
  for (uint32_t i = 0; i < in->cap; i++)
    if (in->slots[i])
      *find_slot(slots, cap, in->slots[i]->hash, in->slots[i]->text,
                 in->slots[i]->len) = in->slots[i];
  in->slots = slots;
  in->cap = cap;
}

Sym *intern(Interner *in, const char *text, size_t len) {
  uint32_t hash = hash_text(text, len);
  Sym **slot = find_slot(in->slots, in->cap, hash, text, len);
  if (*slot)
    return *slot;
  Sym *sym = arena_alloc(in->arena, sizeof *sym + len + 1);
  sym->len = (uint32_t)len;
  sym->hash = hash;
  memcpy(sym->text, text, len);
  *slot = sym;
  if (++in->len * 2 > in->cap)
    grow(in);
  return sym;
}

Sym *intern_string(Interner *in, const char *text) {
  return intern(in, text, strlen(text));
}
