/* backend/emit: what emitted texts take of a prelude, a text of sections
 * (prelude_sections.c). */
#ifndef AXON_EMIT_PRELUDE_H
#define AXON_EMIT_PRELUDE_H

#include "support/support.h"

/* prelude/scalar.inc: a vector of one lane is a number. */
extern const char scalar_prelude_text[];

/* The sections of a prelude that a text uses. */
void prelude_write(Buffer *out, Arena *arena, const char *prelude,
                   const char *source, size_t len);
/* The same of a prelude that comes first, and of scalar_prelude_text the names
 * that it does not define. */
void prelude_write_overlay(Buffer *out, Arena *arena, const char *first,
                           const char *source, size_t len);
/* The text with all that it uses, W and that alone defined while it lasts: the
 * names of its functions and types end in the suffix. */
void prelude_wrap(Arena *arena, const char *prelude, uint32_t width,
                  const Buffer *source, const char *suffix, Buffer *out);

#endif
