/* The sections of a prelude that a kernel uses: those whose names it contains,
 * and those whose names these contain.
 *
 * A section begins with a line `//@ NAME ...`, the names that it defines.  It
 * refers only to earlier sections.  A section without names is always included.
 * So no list of dependencies is needed, and unused code costs no compile
 * time. */
#include "backend/emit/prelude.h"
#include "support/buffer.h"
#include "support/c_identifier.h"
#include "support/intern.h"
#include "support/map.h"
#include "support/vec.h"

#include <stdbool.h>
#include <string.h>

typedef struct Section {
  const char *names, *source,
      *end; /* names: begin of the header; it ends at source */
  bool is_used;
} Section;

typedef struct SectionTable {
  Arena *arena;
  Interner *interner;
  Map by_name; /* Sym to section index + 1 */
  VEC(Section) sections;
  bool is_fallback; /* in prelude_write_overlay: a section is only added if no
                       earlier one defines its names */
} SectionTable;

/* Skips a comment, a number with its suffixes, or one character. */
static const char *skip_token(const char *p, const char *end) {
  if (p + 1 < end && p[0] == '/' && p[1] == '*') {
    for (p += 2; p + 1 < end && (p[0] != '*' || p[1] != '/'); p++)
      ;
    return p + 1 < end ? p + 2 : end;
  }
  if (!is_c_identifier_char(*p))
    return p + 1;
  while (p < end && (is_c_identifier_char(*p) || *p == '.'))
    p++;
  return p;
}

/* The next name at or after *at; NULL: there is none. */
static const Sym *next_name(SectionTable *s, const char **at, const char *end) {
  const char *p = *at;
  while (p < end && !is_c_identifier_start(*p))
    p = skip_token(p, end);
  const char *from = p;
  while (p < end && is_c_identifier_char(*p))
    p++;
  *at = p;
  return p > from ? intern(s->interner, from, (size_t)(p - from)) : NULL;
}

/* Returns true if a section is unnamed or an earlier section defines one of its
 * names. */
static bool section_is_defined(SectionTable *s, const char *header,
                               const char *source) {
  const Sym *name;
  bool is_unnamed = true, is_defined = false;
  while ((name = next_name(s, &header, source))) {
    is_defined |= map_get(&s->by_name, name) != NULL;
    is_unnamed = false;
  }
  return is_unnamed || is_defined;
}

static void add_section(SectionTable *s, const char *header, const char *source,
                        const char *end) {
  const char *names = header;
  uint32_t index = s->sections.len + 1;
  const Sym *name;
  bool is_unnamed = true;
  if (s->is_fallback && section_is_defined(s, header, source))
    return;
  while ((name = next_name(s, &header, source))) {
    map_put(&s->by_name, name, (void *)(uintptr_t)index);
    is_unnamed = false;
  }
  VEC_PUSH(s->arena, s->sections,
           ((Section){is_unnamed ? source : names, source, end, is_unnamed}));
}

static void find_sections(SectionTable *s, const char *from) {
  const char *at = strstr(from, "//@");
  while (at) {
    const char *next = strstr(at + 3, "\n//@");
    const char *end = next ? next + 1 : at + strlen(at);
    const char *line = strchr(at, '\n');
    add_section(s, at + 3, line + 1, end);
    at = next ? end : NULL;
  }
}

static void mark_names(SectionTable *s, const char *source, const char *end) {
  const Sym *name;
  while ((name = next_name(s, &source, end))) {
    uintptr_t index = (uintptr_t)map_get(&s->by_name, name);
    if (index)
      s->sections.at[index - 1].is_used = true;
  }
}

/* ---- several preludes in one source ---- */

/* The names that the unnamed section defines. */
static const char unnamed_section_names[] =
    "vf vd vi vu vl vw v_u8 v_i8 v_u16 lane vb INLINE CONVERT";

static bool defines_macro(const Section *s, const Sym *name) {
  static const char define[] = "#define ";
  for (const char *p = s->source;
       (p = strstr(p, define)) && (p += strlen(define)) < s->end;)
    if (strncmp(p, name->text, strlen(name->text)) == 0 &&
        !is_c_identifier_char(p[strlen(name->text)]))
      return true;
  return false;
}

/* Renames the names of a section by macros, until `end` undefines them. */
static void rename_section(SectionTable *s, const Section *section,
                           const char *names, const char *until,
                           const char *suffix, Buffer *out, Buffer *end) {
  const Sym *name;
  while ((name = next_name(s, &names, until))) {
    if (!defines_macro(section, name))
      buffer_printf(out, "#define %s %s%s\n", name->text, name->text, suffix);
    buffer_printf(end, "#undef %s\n", name->text);
  }
}

static void rename_reachable(SectionTable *s, const char *suffix, Buffer *out,
                             Buffer *end) {
  for (uint32_t j = 0; j < s->sections.len; j++) {
    const Section *section = &s->sections.at[j];
    if (!section->is_used)
      continue;
    if (section->names == section->source)
      rename_section(s, section, unnamed_section_names,
                     unnamed_section_names + strlen(unnamed_section_names),
                     suffix, out, end);
    else
      rename_section(s, section, section->names, section->source, suffix, out,
                     end);
  }
}

static void write_reachable(const SectionTable *s, Buffer *out) {
  for (uint32_t j = 0; j < s->sections.len; j++)
    if (s->sections.at[j].is_used)
      buffer_add(out, s->sections.at[j].source,
                 (size_t)(s->sections.at[j].end - s->sections.at[j].source));
}

static void mark_reachable(SectionTable *s, const char *source, size_t len) {
  mark_names(s, source, source + len);
  for (uint32_t j = s->sections.len; j-- > 0;)
    if (s->sections.at[j].is_used)
      mark_names(s, s->sections.at[j].source, s->sections.at[j].end);
}

static void find_reachable(SectionTable *s, Arena *arena, const char *from,
                           const char *source, size_t len) {
  s->arena = arena;
  s->interner = interner_new(s->arena);
  map_init(&s->by_name, s->arena);
  find_sections(s, from);
  mark_reachable(s, source, len);
}

void prelude_wrap(Arena *arena, const char *prelude, uint32_t width,
                  const Buffer *source, const char *suffix, Buffer *out) {
  SectionTable s = {.arena = arena};
  Buffer end = {.arena = arena};
  find_reachable(&s, arena, prelude, source->text, source->len);
  rename_reachable(&s, suffix, out, &end);
  buffer_printf(out, "#define W %u\n", width);
  write_reachable(&s, out);
  buffer_add(out, source->text, source->len);
  buffer_puts(out, "#undef W\n");
  buffer_add(out, end.text, end.len);
}

void prelude_write(Buffer *out, Arena *arena, const char *prelude,
                   const char *source, size_t len) {
  SectionTable s = {.arena = arena};
  find_reachable(&s, arena, prelude, source, len);
  write_reachable(&s, out);
}

void prelude_write_overlay(Buffer *out, Arena *arena, const char *first,
                           const char *source, size_t len) {
  SectionTable s = {.arena = arena, .interner = interner_new(arena)};
  map_init(&s.by_name, arena);
  find_sections(&s, first);
  s.is_fallback = true;
  find_sections(&s, scalar_prelude_text);
  mark_reachable(&s, source, len);
  write_reachable(&s, out);
}
