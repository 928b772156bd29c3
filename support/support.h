/* support: memory, interned strings, containers, source files and diagnostics.
 *
 * Nothing here knows the language.  Ownership: what an arena gives lives until
 * the arena is freed; what mem_alloc gives is freed by its caller.
 *
 * Running out of memory never returns NULL: it unwinds to the innermost TRAP
 * (see below), so that no caller needs a check, except after mem_try_alloc. */
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
  FAIL_LIMIT,     /* nesting or effort limit; diagnostic already emitted */
} FailKind;

/* A place to unwind to.  Traps nest, a thread has its own stack of them:
 *
 *   Trap trap;
 *   if (TRAP_SET(trap) == FAIL_NONE) { ...; trap_end(&trap); }
 *   else { ... what trap.kind says ... }    (the trap is already ended here)
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

/* What another thread or the handler of a signal sets, and others look at now
 * and then; it says nothing of what else was written. */
typedef _Atomic bool Flag;
_Static_assert(ATOMIC_BOOL_LOCK_FREE == 2, "a handler must be able to set it");

static inline bool flag_is_set(const Flag *flag) {
  return atomic_load_explicit(flag, memory_order_relaxed);
}
static inline void flag_set(Flag *flag, bool to) {
  atomic_store_explicit(flag, to, memory_order_relaxed);
}

/* Ctrl-C, for what takes long: the flag that this thread watches, NULL none. */
void interrupt_set_flag(Flag *flag);
bool interrupt_pending(void);
void interrupt_poll(void); /* raises FAIL_INTERRUPT if it is set */

void *mem_alloc(size_t size);     /* zeroed; raises FAIL_MEMORY */
void *mem_try_alloc(size_t size); /* zeroed; NULL when it cannot */
/* At a multiple of `align`, not zeroed; NULL when it cannot. */
void *mem_try_alloc_aligned(size_t align, size_t size);
void *mem_realloc(void *old, size_t old_size, size_t size); /* raises */
void mem_free(void *p);
/* For tests: the n-th allocation from now fails, or it and all after it; 0
 * turns this off.  Whether one has failed since. */
void mem_inject_failure_at(uint64_t n);
void mem_inject_failures_from(uint64_t n);
bool mem_failure_injected(void);
/* For what takes memory from elsewhere: whether this allocation is to fail. */
bool mem_should_fail(void);

/* ---- arena.c ---- */

typedef struct Arena Arena;
Arena *arena_new(void);
void arena_free(Arena *arena);
/* All pieces are gone; of the memory the newest chunk stays for the next ones,
 * unless it is larger than `max_retained_bytes`. */
void arena_reset(Arena *arena, size_t max_retained_bytes);
void *arena_alloc(Arena *arena, size_t size); /* zeroed, 16-byte aligned */
char *arena_strndup(Arena *arena, const char *text, size_t len); /* NUL-ended */
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
  char text[]; /* NUL-ended */
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
void *map_get(const Map *map, const void *key); /* NULL when absent */
void map_put(Map *map, const void *key, void *value);
void map_delete(Map *map, const void *key);

/* ---- buffer.c: text under construction ---- */

/* On the heap, until buffer_free; or in an arena, where there is one, which
 * loses nothing when what adds to it unwinds. */
typedef struct Buffer {
  char *text; /* NUL-ended once anything was added, else NULL */
  size_t len, cap;
  Arena *arena; /* or NULL */
} Buffer;

void buffer_add(Buffer *b, const char *text, size_t len);
void buffer_puts(Buffer *b, const char *text);
void buffer_putc(Buffer *b, char c);
void buffer_printf(Buffer *b, const char *format, ...) PRINTF_LIKE(2, 3);
void buffer_vprintf(Buffer *b, const char *format, va_list args);
/* Characters since the last line end. */
int buffer_column(const Buffer *b);
void buffer_free(Buffer *b);

/* ---- code_indent.c: C, for people ---- */
/* A text with its lines moved in as far as they are nested, added to `out`. */
void code_indent(const char *text, Buffer *out);

/* ---- json_writer.c: JSON, written to a buffer ---- */

/* With its quotes; what is not UTF-8 is `?`. */
void json_quote(Buffer *out, const char *text);
void json_quote_len(Buffer *out, const char *text, size_t len);
/* `"name":`.  Here and below there is a comma in front where the object or
 * array that is being written has something already. */
void json_key(Buffer *out, const char *name);
void json_string_field(Buffer *out, const char *name,
                       const char *text); /* or NULL */
void json_int_field(Buffer *out, const char *name, int64_t n);
/* `{` or `[`, with its name in an object, NULL in an array. */
void json_open(Buffer *out, const char *name, char bracket);
void json_comma(Buffer *out);

/* ---- source.c: files and places in them ---- */

typedef struct Span {
  uint32_t file;       /* number in Sources; 0 is "no place" */
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
  const char *text; /* NUL-ended */
  size_t len;
  uint32_t *line_starts; /* offsets of line starts */
  uint32_t line_count;
  bool is_library; /* of the standard library: errors never point here */
} Source;

typedef struct Sources {
  Arena *arena;
  VEC(Source *) files; /* files.at[0] is unused */
} Sources;

void sources_init(Sources *sources, Arena *arena);
/* Copies name and text into the arena.  Returns the file's number. */
uint32_t sources_add(Sources *sources, const char *name, const char *text,
                     size_t len, bool is_library);
const Source *sources_get(const Sources *sources, uint32_t file);
/* Both from 1; the column counts bytes. */
void source_line_and_column(const Source *source, uint32_t offset,
                            uint32_t *line, uint32_t *column);
/* The column in characters, from 1, as people and most tools count. */
uint32_t source_char_column(const Source *source, uint32_t offset);
/* Lines and columns from 1, columns in characters. */
typedef struct SourceRegion {
  const Source *source;
  uint32_t line, column, end_line, end_column;
} SourceRegion;
bool sources_region(const Sources *sources, Span span, SourceRegion *out);
/* What stands at a place, on one line, and cut where that is long.  NULL where
 * there is nothing. */
const char *source_excerpt(Arena *arena, const Sources *sources, Span span);

/* ---- diag.c: diagnostics are data; printing them is one of their uses ---- */

typedef enum Severity { SEV_NONE, SEV_ERROR, SEV_WARNING, SEV_NOTE } Severity;

/* A link of the chain by which sizes came to differ. */
typedef struct DiagStep {
  Span span;         /* the expression */
  const char *shape; /* what is there: "f32[b, 32, 26, 26]" */
  const char *text;  /* how it came to be: "28 - 3 + 1 = 26"; or NULL */
} DiagStep;

/* A secondary place, and what is to be said of it. */
typedef struct DiagLabel {
  Span span;
  const char *text; /* "the annotation"; or NULL */
} DiagLabel;

typedef struct DiagEdit { /* `text` in the place of what stands at the span */
  Span span;              /* where it is empty `text` is inserted */
  const char *text;
} DiagEdit;

/* A change to the program that a tool can make by itself: what the help line
 * says.  The edits are in order and do not overlap. */
typedef struct DiagFixIt {
  const char *title; /* "write `softmax`" */
  const DiagEdit *edits;
  uint32_t edit_count;
} DiagFixIt;

/* What a person and every tool is told; all that show one (text, JSON, SARIF,
 * axon.h, the editor) read this. */
typedef struct Diag {
  Severity severity;
  uint16_t code;             /* 301 prints as E0301, or W0301 for a warning */
  const char *message;       /* one line, no full stop */
  Span span;                 /* the primary place */
  const char *primary_label; /* beside the underline; or NULL */
  const DiagStep *steps;     /* the chain, in order of the program */
  const DiagLabel *labels;   /* secondary places */
  const DiagFixIt *fixits;   /* the best first */
  uint32_t step_count, label_count, fixit_count;
  const char *found, *expected; /* types or sizes that met; or NULL */
  int32_t axis;     /* of `found` along which they differ, from 0; -1: none
                     * or several */
  const char *note; /* may have several lines; or NULL */
  const char *help; /* or NULL */
  const char *counterexample; /* "fails at h = 350: 20 meets 21"; or NULL */
  const struct Diag
      *previous_in_bucket; /* an earlier one, perhaps at the same place */
  uint32_t index;          /* among all */
} Diag;

typedef struct Diags {
  Arena *arena;
  VEC(Diag *) all;
  Map by_span; /* the last of each, see `before` */
  uint32_t errors, warnings;
} Diags;

void diags_init(Diags *diags, Arena *arena);
/* Adds a diagnostic and returns it, so that the caller can add steps and help.
 * The message is formatted into the arena.  The first error per span wins:
 * a second one at the same primary span is returned but not kept. */
Diag *diag_error(Diags *diags, uint16_t code, Span span, const char *format,
                 ...) PRINTF_LIKE(4, 5);
Diag *diag_warning(Diags *diags, uint16_t code, Span span, const char *format,
                   ...) PRINTF_LIKE(4, 5);

/* What is no mistake: not counted. */
Diag *diag_note(Diags *diags, Span span, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* What is added to a diagnostic; the texts are not copied. */
void diag_add_step(Arena *arena, Diag *diag, Span span, const char *shape,
                   const char *text);
void diag_add_label(Arena *arena, Diag *diag, Span span, const char *label);
/* A fix of one edit: `text` in the place of the span.  The title is
 * formatted into the arena. */
void diag_add_fixit(Arena *arena, Diag *diag, Span span, const char *text,
                    const char *format, ...) PRINTF_LIKE(5, 6);
/* One of several edits, which are copied. */
void diag_add_fixit_edits(Arena *arena, Diag *diag, const DiagEdit *edits,
                          uint32_t count, const char *format, ...)
    PRINTF_LIKE(5, 6);

/* Appends the text of a diagnostic as a person reads it.  Terminal colours
 * only where `colour` is set.  Lines that are far apart are shown with a gap;
 * wide characters and tabs keep the underline in place. */
void diag_render(Buffer *out, const Sources *sources, const Diag *diag,
                 bool colour);

/* ---- diag_json.c ---- */

/* Appends a diagnostic as an object on one line. */
void diag_json(Buffer *out, const Sources *sources, const Diag *diag);
const char *severity_name(Severity severity); /* "error" */
typedef struct DiagCode {
  char text[8]; /* "E0301" */
} DiagCode;
DiagCode diag_code(const Diag *diag); /* of one that has a code */

/* ---- utf8.c ---- */

/* Length in bytes of the valid UTF-8 prefix of text[0..len); == len if all is
 * valid.  NUL bytes are invalid here. */
size_t utf8_valid_prefix(const char *text, size_t len);
/* Columns that the text takes on a terminal. */
size_t utf8_columns(const char *text, size_t len);

#endif
