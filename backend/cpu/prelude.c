/* What a kernel's text stands on: of the files in prelude/, the sections that
 * it names, and those that these name.
 *
 * A section begins with a line `//@ NAME ...` of the names that it defines
 * (`//@1` in the place of it where W is 1: prelude/scalar.inc) and refers to
 * sections before it alone; one without names is always there.  So nobody
 * keeps a list of what needs what, and what a kernel does not use costs it no
 * time to compile. */
#include "backend/cpu/cpu.h"

#include <string.h>

extern const char prelude_text[];

typedef struct Section {
  const char *names, *text, *end; /* names: of its header, up to the text */
  bool used;
} Section;

typedef struct Sections {
  Arena *arena;
  Interner *names;
  Map of_name; /* Sym to its place + 1 */
  VEC(Section) all;
  bool later; /* of a library behind others: what these have it need not */
} Sections;

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool in_name(char c) {
  return is_letter(c) || (c >= '0' && c <= '9');
}

/* Past what is no name: a comment, a number and its suffixes, a character. */
static const char *skip(const char *p, const char *end) {
  if (p + 1 < end && p[0] == '/' && p[1] == '*') {
    for (p += 2; p + 1 < end && (p[0] != '*' || p[1] != '/'); p++)
      ;
    return p + 1 < end ? p + 2 : end;
  }
  if (!in_name(*p))
    return p + 1;
  while (p < end && (in_name(*p) || *p == '.'))
    p++;
  return p;
}

/* The next name at or after *at; NULL: there is none. */
static const Sym *next_name(Sections *s, const char **at, const char *end) {
  const char *p = *at;
  while (p < end && !is_letter(*p))
    p = skip(p, end);
  const char *from = p;
  while (p < end && in_name(*p))
    p++;
  *at = p;
  return p > from ? intern(s->names, from, (size_t)(p - from)) : NULL;
}

/* Is a section always there, or of a name that others have? */
static bool is_there(Sections *s, const char *header, const char *text) {
  const Sym *name;
  bool always = true, there = false;
  while ((name = next_name(s, &header, text))) {
    there |= map_get(&s->of_name, name) != NULL;
    always = false;
  }
  return always || there;
}

static void add_section(Sections *s, const char *header, const char *text,
                        const char *end) {
  const char *names = header;
  uint32_t place = s->all.len + 1;
  const Sym *name;
  bool always = true;
  if (s->later && is_there(s, header, text))
    return;
  while ((name = next_name(s, &header, text))) {
    map_put(&s->of_name, name, (void *)(uintptr_t)place);
    always = false;
  }
  VEC_PUSH(s->arena, s->all,
           ((Section){always ? text : names, text, end, always}));
}

/* Those for kernels of one lane, or for the others. */
static void find_sections(Sections *s, const char *from, bool scalar) {
  const char *at = strstr(from, "//@");
  while (at) {
    const char *next = strstr(at + 3, "\n//@");
    const char *end = next ? next + 1 : at + strlen(at);
    const char *line = strchr(at, '\n');
    if ((at[3] == '1') == scalar)
      add_section(s, at + 3 + scalar, line + 1, end);
    at = next ? end : NULL;
  }
}

static void use_names(Sections *s, const char *text, const char *end) {
  const Sym *name;
  while ((name = next_name(s, &text, end))) {
    uintptr_t place = (uintptr_t)map_get(&s->of_name, name);
    if (place)
      s->all.at[place - 1].used = true;
  }
}

/* ---- several in one text ---- */

/* What the section that is always there defines. */
static const char always[] = "vf vd vi vu vl vw v_u8 v_i8 v_u16 INLINE CONVERT";

static bool defines_macro(const Section *s, const Sym *name) {
  static const char define[] = "#define ";
  for (const char *p = s->text;
       (p = strstr(p, define)) && (p += strlen(define)) < s->end;)
    if (strncmp(p, name->text, strlen(name->text)) == 0 &&
        !in_name(p[strlen(name->text)]))
      return true;
  return false;
}

/* Its names are others, up to `end`, so that the text may have them again. */
static void rename_section(Sections *s, const Section *of, const char *names,
                           const char *until, const char *suffix, Buffer *out,
                           Buffer *end) {
  const Sym *name;
  while ((name = next_name(s, &names, until))) {
    if (!defines_macro(of, name))
      buffer_printf(out, "#define %s %s%s\n", name->text, name->text, suffix);
    buffer_printf(end, "#undef %s\n", name->text);
  }
}

static void rename_used(Sections *s, const char *suffix, Buffer *out,
                        Buffer *end) {
  for (uint32_t j = 0; j < s->all.len; j++) {
    const Section *of = &s->all.at[j];
    if (!of->used)
      continue;
    if (of->names == of->text)
      rename_section(s, of, always, always + strlen(always), suffix, out, end);
    else
      rename_section(s, of, of->names, of->text, suffix, out, end);
  }
}

static void write_used(const Sections *s, Buffer *out) {
  for (uint32_t j = 0; j < s->all.len; j++)
    if (s->all.at[j].used)
      buffer_add(out, s->all.at[j].text,
                 (size_t)(s->all.at[j].end - s->all.at[j].text));
}

static void mark_used(Sections *s, const char *text, size_t len) {
  use_names(s, text, text + len);
  for (uint32_t j = s->all.len; j-- > 0;)
    if (s->all.at[j].used)
      use_names(s, s->all.at[j].text, s->all.at[j].end);
}

static void find_used(Sections *s, Arena *arena, const char *from, bool scalar,
                      const char *text, size_t len) {
  s->arena = arena;
  s->names = interner_new(s->arena);
  map_init(&s->of_name, s->arena);
  find_sections(s, from, scalar);
  mark_used(s, text, len);
}

void prelude_part(Arena *arena, uint32_t width, const Buffer *text,
                  const char *suffix, Buffer *out) {
  Sections s = {.arena = arena};
  Buffer end = {.arena = arena};
  find_used(&s, arena, prelude_text, width == 1, text->text, text->len);
  rename_used(&s, suffix, out, &end);
  buffer_printf(out, "#define W %u\n", width);
  write_used(&s, out);
  buffer_add(out, text->text, text->len);
  buffer_puts(out, "#undef W\n");
  buffer_add(out, end.text, end.len);
}

void sections_write(Buffer *out, Arena *arena, const char *from,
                    const char *text, size_t len) {
  Sections s = {.arena = arena};
  find_used(&s, arena, from, false, text, len);
  write_used(&s, out);
}

void sections_write_both(Buffer *out, Arena *arena, const char *first,
                         const char *text, size_t len) {
  Sections s = {.arena = arena, .names = interner_new(arena)};
  map_init(&s.of_name, arena);
  find_sections(&s, first, false);
  s.later = true;
  find_sections(&s, prelude_text, true);
  mark_used(&s, text, len);
  write_used(&s, out);
}

bool prelude_write(Buffer *out, uint32_t width, const char *text, size_t len) {
  Arena *volatile arena = NULL;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    arena_free(arena);
    return false;
  }
  arena = arena_new();
  Sections s = {.arena = arena};
  find_used(&s, arena, prelude_text, width == 1, text, len);
  write_used(&s, out);
  trap_end(&trap);
  arena_free(s.arena);
  return true;
}
