/* Spans: ranges of bytes of a source file. */
#ifndef AXON_SUPPORT_SPAN_H
#define AXON_SUPPORT_SPAN_H

#include <stdint.h>

typedef struct Span {
  uint32_t file;       /* number in Sources; 0 means no place */
  uint32_t start, end; /* byte offsets */
} Span;

static inline Span span_join(Span a, Span b) {
  if (!a.file)
    return b;
  if (b.file == a.file && b.end > a.end)
    a.end = b.end;
  return a;
}

#endif
