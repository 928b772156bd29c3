/* support: memory, interned strings, containers, source files and diagnostics.
 * Nothing here depends on the language.
 *
 * Ownership: memory of an arena lives until the arena is freed.  The caller
 * frees memory of mem_alloc.
 *
 * Out of memory: allocations never return NULL.  They unwind to the innermost
 * TRAP (see below), so no caller needs a check.  The exceptions are the mem_try
 * functions. */
#ifndef AXON_SUPPORT_H
#define AXON_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof *(a))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define NORETURN __attribute__((noreturn))

/* ---- trap.c, interrupt.c, mem.c: allocation and unwinding ---- */

typedef enum FailKind {
  FAIL_NONE,
  FAIL_MEMORY,    /* an allocation failed */
  FAIL_ERROR,     /* a diagnostic was already emitted */
  FAIL_INTERRUPT, /* Ctrl-C */
  FAIL_LIMIT, /* nesting or effort limit; a diagnostic was already emitted */
} FailKind;

/* A handler to unwind to.  Traps nest; each thread has its own stack of
 * them.
 *
 *   Trap trap;
 *   if (TRAP_SET(trap) == FAIL_NONE) { ...; trap_end(&trap); }
 *   else { ... handle trap.kind ... }       (the trap has already ended here)
 */
typedef struct Trap {
  jmp_buf jump_buffer;
  FailKind kind;
  struct Trap *outer;
} Trap;

void trap_begin(Trap *trap);
void trap_end(Trap *trap);
#define TRAP_SET(trap) \
  (trap_begin(&(trap)), (FailKind)setjmp((trap).jump_buffer))
NORETURN void trap_raise(FailKind kind); /* unwinds to the innermost trap */

/* A flag that another thread or a signal handler sets and others poll.  It does
   not order other memory accesses. */
typedef _Atomic bool Flag;
_Static_assert(ATOMIC_BOOL_LOCK_FREE == 2, "a handler must be able to set it");

static inline bool flag_is_set(const Flag *flag) {
  return atomic_load_explicit(flag, memory_order_relaxed);
}
static inline void flag_set(Flag *flag, bool to) {
  atomic_store_explicit(flag, to, memory_order_relaxed);
}

/* Interrupts of long computations: sets the flag that this thread polls; NULL
   for none. */
void interrupt_set_flag(Flag *flag);
bool interrupt_pending(void);
void interrupt_poll(void); /* raises FAIL_INTERRUPT if the flag is set */

void *mem_alloc(size_t size);     /* zeroed; raises FAIL_MEMORY */
void *mem_try_alloc(size_t size); /* zeroed; NULL on failure */
/* Aligned to `align`, not zeroed; NULL on failure. */
void *mem_try_alloc_aligned(size_t align, size_t size);
/* raises FAIL_MEMORY */
void *mem_realloc(void *old, size_t old_size, size_t size);
void mem_free(void *p);
/* For tests: the n-th allocation from now on fails, or all from the n-th on; 0
   turns this off. mem_failure_injected: true if one has failed since. */
void mem_inject_failure_at(uint64_t n);
void mem_inject_failures_from(uint64_t n);
bool mem_failure_injected(void);
/* For allocations from other sources: true if this one should fail. */
bool mem_should_fail(void);

/* ---- arena.c ---- */

typedef struct Arena Arena;
Arena *arena_new(void);
void arena_free(Arena *arena);
/* Frees all allocations.  Keeps the newest chunk for reuse, unless it is larger
   than `max_retained_bytes`. */
void arena_reset(Arena *arena, size_t max_retained_bytes);
void *arena_alloc(Arena *arena, size_t size); /* zeroed, 16-byte aligned */
/* NUL-terminated */
char *arena_strndup(Arena *arena, const char *text, size_t len);
char *arena_printf(Arena *arena, const char *format, ...) PRINTF_LIKE(2, 3);
char *arena_vprintf(Arena *arena, const char *format, va_list args);
#define NEW(arena, type) ((type *)arena_alloc((arena), sizeof(type)))
#define NEW_ARRAY(arena, type, n) \
  ((type *)arena_alloc((arena), sizeof(type) * (size_t)(n)))

/* Growable arrays in an arena:  VEC(Dim *) v = {0};  VEC_PUSH(a, v, d); */
#define VEC(type)      \
  struct {             \
    type *at;          \
    uint32_t len, cap; \
  }
#define VEC_PUSH(arena, v, x)                                                \
  do {                                                                       \
    if ((v).len == (v).cap)                                                  \
      (v).at = vec_grow((arena), (v).at, sizeof *(v).at, (v).len, &(v).cap); \
    (v).at[(v).len++] = (x);                                                 \
  } while (0)
void *vec_grow(Arena *arena, void *at, size_t item, uint32_t len,
               uint32_t *cap);

/* ---- intern.c: a Sym is a string with one address per interner ---- */

typedef struct Sym {
  uint32_t len;
  uint32_t hash;
  char text[]; /* NUL-terminated */
} Sym;

typedef struct Interner Interner;
Interner *interner_new(Arena *arena); /* lives in the arena */
Sym *intern(Interner *in, const char *text, size_t len);
Sym *intern_string(Interner *in, const char *text);

/* ---- map.c: pointer (or non-zero integer) to pointer, in an arena ---- */

typedef struct Map {
  Arena *arena;
  struct MapSlot {
    const void *key;
    void *value;
  } * slots;
  uint32_t len, cap;
} Map;

void map_init(Map *map, Arena *arena);
void *map_get(const Map *map, const void *key); /* NULL if absent */
void map_put(Map *map, const void *key, void *value);
void map_delete(Map *map, const void *key);

/* ---- buffer.c: text under construction ---- */

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
void buffer_free(Buffer *b);

/* ---- code_indent.c: C, for people ---- */
/* Appends text to `out`, with lines indented by their nesting. */
void code_indent(const char *text, Buffer *out);

/* ---- json_writer.c: JSON, written to a buffer ---- */

/* Writes a quoted string; invalid UTF-8 becomes `?`. */
void json_quote(Buffer *out, const char *text);
void json_quote_len(Buffer *out, const char *text, size_t len);
/* Writes `"name":`.  This and the functions below put a comma in front if the
   object or array already has an element. */
void json_key(Buffer *out, const char *name);
void json_string_field(Buffer *out, const char *name,
                       const char *text); /* or NULL */
void json_int_field(Buffer *out, const char *name, int64_t n);
/* Opens `{` or `[`. name: the key inside of an object, NULL inside of an
   array. */
void json_open(Buffer *out, const char *name, char bracket);
void json_comma(Buffer *out);

/* ---- source.c: files and places in them ---- */

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

/* ---- diag.c: diagnostics as data, and their rendering ---- */

typedef enum Severity { SEV_NONE, SEV_ERROR, SEV_WARNING, SEV_NOTE } Severity;

/* A step of the provenance trace: how a shape arose. */
typedef struct DiagStep {
  Span span;         /* the expression */
  const char *shape; /* its shape: "f32[b, 32, 26, 26]" */
  const char *text;  /* arithmetic of the shape: "28 - 3 + 1 = 26"; or NULL */
} DiagStep;

/* A secondary span with a label. */
typedef struct DiagLabel {
  Span span;
  const char *text; /* "the annotation"; or NULL */
} DiagLabel;

typedef struct DiagEdit { /* replaces the text of `span` by `text` */
  Span span;              /* if empty, `text` is inserted */
  const char *text;
} DiagEdit;

/* A fix-it: a change of the program that implements the help line and that a
   tool can apply.  The edits are in order and do not overlap. */
typedef struct DiagFixIt {
  const char *title; /* "write `softmax`" */
  const DiagEdit *edits;
  uint32_t edit_count;
} DiagFixIt;

/* A diagnostic.  Every output format (text, JSON, SARIF, axon.h, editor) is
   generated from it. */
typedef struct Diag {
  Severity severity;
  uint16_t code;             /* 301 prints as E0301, or W0301 for a warning */
  const char *message;       /* one line, no full stop */
  Span span;                 /* primary span */
  const char *primary_label; /* text next to the underline, or NULL */
  const DiagStep *steps;     /* provenance trace, in program order */
  const DiagLabel *labels;   /* secondary spans */
  const DiagFixIt *fixits;   /* best first */
  uint32_t step_count, label_count, fixit_count;
  const char *found, *expected; /* types or sizes that differ, or NULL */
  int32_t axis; /* axis of `found` along which they differ, from 0; -1: none or
                   several */
  const char *note;           /* may have several lines, or NULL */
  const char *help;           /* or NULL */
  const char *counterexample; /* "fails at h = 350: 20 meets 21"; or NULL */
  const struct Diag
      *previous_in_bucket; /* an earlier diagnostic with the same hash key */
  uint32_t index;          /* index in Diags.all */
} Diag;

typedef struct Diags {
  Arena *arena;
  VEC(Diag *) all;
  Map by_span; /* last diagnostic per key; see previous_in_bucket */
  uint32_t errors, warnings;
} Diags;

void diags_init(Diags *diags, Arena *arena);
/* Adds a diagnostic and returns it, so that the caller can add steps and help.
   The message is formatted into the arena.  If an error already has the same
   primary span, the new one is returned but not stored. */
Diag *diag_error(Diags *diags, uint16_t code, Span span, const char *format,
                 ...) PRINTF_LIKE(4, 5);
Diag *diag_warning(Diags *diags, uint16_t code, Span span, const char *format,
                   ...) PRINTF_LIKE(4, 5);

/* Adds a note; it does not count as an error. */
Diag *diag_note(Diags *diags, Span span, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* Functions that add parts to a diagnostic.  Texts are not copied. */
void diag_add_step(Arena *arena, Diag *diag, Span span, const char *shape,
                   const char *text);
void diag_add_label(Arena *arena, Diag *diag, Span span, const char *label);
/* Adds a fix-it with one edit: replaces `span` by `text`.  The title is
   formatted into the arena. */
void diag_add_fixit(Arena *arena, Diag *diag, Span span, const char *text,
                    const char *format, ...) PRINTF_LIKE(5, 6);
/* Adds a fix-it with several edits; copies them. */
void diag_add_fixit_edits(Arena *arena, Diag *diag, const DiagEdit *edits,
                          uint32_t count, const char *format, ...)
    PRINTF_LIKE(5, 6);

/* Appends a diagnostic as text.  `colour` enables terminal colours.  Distant
   lines are separated by a gap mark.  Underlines are correct for wide
   characters and tabs. */
void diag_render(Buffer *out, const Sources *sources, const Diag *diag,
                 bool colour);

/* ---- diag_json.c ---- */

/* Appends a diagnostic as a JSON object on one line. */
void diag_json(Buffer *out, const Sources *sources, const Diag *diag);
const char *severity_name(Severity severity); /* "error" */
typedef struct DiagCode {
  char text[8]; /* "E0301" */
} DiagCode;
DiagCode diag_code(const Diag *diag); /* requires a diagnostic with a code */

/* ---- utf8.c ---- */

/* Length in bytes of the valid UTF-8 prefix of text[0..len), up to len.  NUL
   bytes count as invalid. */
size_t utf8_valid_prefix(const char *text, size_t len);
/* Display width: columns on a terminal. */
size_t utf8_columns(const char *text, size_t len);

#endif
