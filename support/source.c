/* Source files, and positions in them. */
#include "support/source.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/span.h"
#include "support/vec.h"

#include <string.h>

void sources_init(Sources *sources, Arena *arena) {
  *sources = (Sources){.arena = arena};
  VEC_PUSH(arena, sources->files, NULL);
}

static void index_lines(Arena *arena, Source *s) {
  uint32_t count = 1;
  for (size_t i = 0; i < s->len; i++)
    count += s->text[i] == '\n';
  s->line_starts = NEW_ARRAY(arena, uint32_t, count);
  s->line_count = 1;
  for (size_t i = 0; i < s->len; i++)
    if (s->text[i] == '\n')
      s->line_starts[s->line_count++] = (uint32_t)i + 1;
}

uint32_t sources_add(Sources *sources, const char *name, const char *text,
                     size_t len, bool is_library) {
  Arena *arena = sources->arena;
  Source *s = NEW(arena, Source);
  s->name = arena_strndup(arena, name, strlen(name));
  s->text = is_library ? text : arena_strndup(arena, text, len);
  s->len = len;
  s->is_library = is_library;
  if (!is_library)
    index_lines(arena, s);
  VEC_PUSH(arena, sources->files, s);
  return sources->files.len - 1;
}

const Source *sources_get(const Sources *sources, uint32_t file) {
  return file < sources->files.len ? sources->files.at[file] : NULL;
}

void source_line_and_column(const Source *s, uint32_t offset, uint32_t *line,
                            uint32_t *column) {
  if (!s->line_starts) { /* library files are not indexed: positions in them are
                            rarely needed */
    *line = 1, *column = 1;
    for (uint32_t i = 0; i < offset && i < s->len; i++)
      if (s->text[i] == '\n')
        ++*line, *column = 1;
      else
        ++*column;
    return;
  }
  uint32_t low = 0, high = s->line_count;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (s->line_starts[middle] <= offset)
      low = middle;
    else
      high = middle;
  }
  *line = low + 1;
  *column = offset - s->line_starts[low] + 1;
}

uint32_t source_char_column(const Source *s, uint32_t offset) {
  uint32_t line, column, count = 1;
  source_line_and_column(s, offset, &line, &column);
  for (uint32_t i = offset - (column - 1); i < offset && i < s->len; i++)
    count += ((unsigned char)s->text[i] & 0xc0) != 0x80;
  return count;
}

bool sources_region(const Sources *sources, Span span, SourceRegion *out) {
  const Source *source = span.file ? sources_get(sources, span.file) : NULL;
  if (!source)
    return false;
  uint32_t bytes;
  *out = (SourceRegion){.source = source,
                        .column = source_char_column(source, span.start),
                        .end_column = source_char_column(source, span.end)};
  source_line_and_column(source, span.start, &out->line, &bytes);
  source_line_and_column(source, span.end, &out->end_line, &bytes);
  return true;
}

const char *source_excerpt(Arena *arena, const Sources *sources, Span span) {
  enum { MAX_EXCERPT_BYTES = 80 };
  const Source *s = span.file ? sources_get(sources, span.file) : NULL;
  if (!s || span.start >= span.end || span.end > s->len)
    return NULL;
  char *text =
      arena_strndup(arena, s->text + span.start, span.end - span.start);
  size_t len = 0;
  bool blank = false;
  for (const char *p = text; *p; p++) {
    if (strchr(" \t\r\n", *p)) {
      blank = len > 0;
      continue;
    }
    if (blank)
      text[len++] = ' ';
    text[len++] = *p;
    blank = false;
  }
  text[len] = 0;
  if (len <= MAX_EXCERPT_BYTES)
    return len ? text : NULL;
  len = MAX_EXCERPT_BYTES;
  while (((unsigned char)text[len] & 0xc0) == 0x80)
    len--;
  return arena_printf(arena, "%.*s…", (int)len, text);
}

static uint32_t comment_count(const char *text, size_t len) {
  uint32_t count = 0;
  for (size_t i = 0; i + 1 < len; i++)
    count += text[i] == '(' && text[i + 1] == '*';
  return count;
}

bool source_drops_comment(const Source *source, Span span,
                          const char *replacement) {
  return comment_count(source->text + span.start, span.end - span.start) >
         comment_count(replacement, strlen(replacement));
}
