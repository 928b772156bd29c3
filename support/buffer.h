/* Buffers: text under construction. */
#ifndef AXON_SUPPORT_BUFFER_H
#define AXON_SUPPORT_BUFFER_H

#include "support/compiler.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct Arena Arena;

/* On the heap until buffer_free, or in `arena` if that is set.  With an arena
   nothing leaks if code that appends unwinds. */
typedef struct Buffer {
  char *text; /* NUL-terminated; NULL while nothing was added */
  size_t len, cap;
  Arena *arena; /* or NULL */
} Buffer;

void buffer_add(Buffer *b, const char *text, size_t len);
void buffer_puts(Buffer *b, const char *text);
void buffer_putc(Buffer *b, char c);
void buffer_printf(Buffer *b, const char *format, ...) PRINTF_LIKE(2, 3);
void buffer_vprintf(Buffer *b, const char *format, va_list args);
/* Number of characters since the last newline. */
int buffer_column(const Buffer *b);
bool buffer_equal(const Buffer *x, const Buffer *y);
void buffer_free(Buffer *b);

#endif
