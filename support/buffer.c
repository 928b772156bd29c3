/* Growable text buffers. */
#include "support/buffer.h"
#include "support/arena.h"
#include "support/mem.h"

#include <string.h>

static void grow(Buffer *b, size_t more) {
  size_t cap = b->cap ? b->cap : b->arena ? 64 : 256;
  while (cap - b->len <= more)
    cap *= 2;
  if (b->arena) {
    char *text = arena_alloc(b->arena, cap);
    if (b->len)
      memcpy(text, b->text, b->len);
    b->text = text;
  } else
    b->text = mem_realloc(b->text, b->cap, cap);
  b->cap = cap;
}

static inline void reserve(Buffer *b, size_t more) {
  if (b->cap - b->len <= more)
    grow(b, more);
}

void buffer_add(Buffer *b, const char *text, size_t len) {
  reserve(b, len);
  if (len)
    memcpy(b->text + b->len, text, len);
  b->len += len;
  b->text[b->len] = 0;
}

void buffer_puts(Buffer *b, const char *text) {
  buffer_add(b, text, strlen(text));
}

void buffer_putc(Buffer *b, char c) {
  reserve(b, 1);
  b->text[b->len++] = c;
  b->text[b->len] = 0;
}

void buffer_vprintf(Buffer *b, const char *format, va_list args) {
  va_list args_copy;
  va_copy(args_copy, args);
  int len = vsnprintf(NULL, 0, format, args_copy);
  va_end(args_copy);
  if (len < 0)
    return;
  reserve(b, (size_t)len);
  vsnprintf(b->text + b->len, (size_t)len + 1, format, args);
  b->len += (size_t)len;
}

void buffer_printf(Buffer *b, const char *format, ...) {
  va_list args;
  va_start(args, format);
  buffer_vprintf(b, format, args);
  va_end(args);
}

int buffer_column(const Buffer *b) {
  int column = 0;
  for (size_t i = b->len; i-- > 0 && b->text[i] != '\n';)
    column += ((unsigned char)b->text[i] & 0xc0) != 0x80;
  return column;
}

bool buffer_equal(const Buffer *x, const Buffer *y) {
  return x->len == y->len && (!x->len || memcmp(x->text, y->text, x->len) == 0);
}

void buffer_free(Buffer *b) {
  if (!b->arena)
    mem_free(b->text);
  *b = (Buffer){.arena = b->arena};
}
