/* Spans: ranges of bytes of a source file. */
#ifndef AXON_SUPPORT_SPAN_H
#define AXON_SUPPORT_SPAN_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Span {
  uint32_t file;       /* number in Sources; 0 means no place */
  uint32_t start, end; /* byte offsets */
} Span;

static inline bool span_equal(Span a, Span b) {
  return a.file == b.file && a.start == b.start && a.end == b.end;
}

static inline bool span_is_within(Span inner, Span outer) {
  return inner.file == outer.file && inner.start >= outer.start &&
         inner.end <= outer.end;
}

static inline Span span_join(Span a, Span b) {
  if (!a.file)
    return b;
  if (b.file == a.file && b.end > a.end)
    a.end = b.end;
  return a;
}

#endif
