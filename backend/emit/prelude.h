/* backend/emit: extracts the sections of a prelude that a source uses
 * (prelude_sections.c). */
#ifndef AXON_EMIT_PRELUDE_H
#define AXON_EMIT_PRELUDE_H

#include <stddef.h>
#include <stdint.h>

typedef struct Arena Arena;
typedef struct Buffer Buffer;

/* prelude/scalar.inc: a vector of one lane is a scalar. */
extern const char scalar_prelude_text[];

/* Writes the sections that `source` uses. */
void prelude_write(Buffer *out, Arena *arena, const char *prelude,
                   const char *source, size_t len);
/* The same for a prelude that takes precedence over scalar_prelude_text. */
void prelude_write_overlay(Buffer *out, Arena *arena, const char *first,
                           const char *source, size_t len);
/* Writes the source and the sections that it uses.  Macros append the suffix to
 * the names of the prelude's functions and types, and are undefined after the
 * source, as W is. */
void prelude_wrap(Arena *arena, const char *prelude, uint32_t width,
                  const Buffer *source, const char *suffix, Buffer *out);

#endif
