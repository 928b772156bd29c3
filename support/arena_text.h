/* Strings in an arena. */
#ifndef AXON_SUPPORT_ARENA_TEXT_H
#define AXON_SUPPORT_ARENA_TEXT_H

#include "support/compiler.h"

#include <stdarg.h>

typedef struct Arena Arena;

/* NUL-terminated */
char *arena_strndup(Arena *arena, const char *text, size_t len);
char *arena_printf(Arena *arena, const char *format, ...) PRINTF_LIKE(2, 3);
char *arena_vprintf(Arena *arena, const char *format, va_list args);

#endif
