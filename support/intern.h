/* Interned strings: a Sym is a string with one address per interner. */
#ifndef AXON_SUPPORT_INTERN_H
#define AXON_SUPPORT_INTERN_H

#include <stddef.h>
#include <stdint.h>

typedef struct Arena Arena;

typedef struct Sym {
  uint32_t len;
  uint32_t hash;
  char text[]; /* NUL-terminated */
} Sym;

typedef struct Interner Interner;
Interner *interner_new(Arena *arena); /* lives in the arena */
Sym *intern(Interner *in, const char *text, size_t len);
Sym *intern_string(Interner *in, const char *text);

#endif
