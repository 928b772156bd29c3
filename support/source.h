/* Source files, and positions in them. */
#ifndef AXON_SUPPORT_SOURCE_H
#define AXON_SUPPORT_SOURCE_H

#include "support/span.h"
#include "support/vec.h"

#include <stdbool.h>

typedef struct Arena Arena;

typedef struct Source {
  const char *name; /* as the user wrote it */
  const char *text; /* NUL-terminated */
  size_t len;
  uint32_t *line_starts; /* offsets of line starts */
  uint32_t line_count;
  /* part of the standard library: errors never point into it */
  bool is_library;
} Source;

typedef struct Sources {
  Arena *arena;
  VEC(Source *) files; /* files.at[0] is unused */
} Sources;

void sources_init(Sources *sources, Arena *arena);
/* Copies name and text into the arena.  Returns the number of the file. */
uint32_t sources_add(Sources *sources, const char *name, const char *text,
                     size_t len, bool is_library);
const Source *sources_get(const Sources *sources, uint32_t file);
/* Line and column, both from 1.  The column counts bytes. */
void source_line_and_column(const Source *source, uint32_t offset,
                            uint32_t *line, uint32_t *column);
/* The column in characters, from 1. */
uint32_t source_char_column(const Source *source, uint32_t offset);
/* Lines and columns from 1; columns count characters. */
typedef struct SourceRegion {
  const Source *source;
  uint32_t line, column, end_line, end_column;
} SourceRegion;
bool sources_region(const Sources *sources, Span span, SourceRegion *out);
/* The text of a span on one line, truncated if long.  NULL if it is empty. */
const char *source_excerpt(Arena *arena, const Sources *sources, Span span);
/* True if the text of the span has a comment that the replacement lacks. */
bool source_drops_comment(const Source *source, Span span,
                          const char *replacement);

#endif
