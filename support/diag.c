/* Diagnostics: stored as data, and rendered as text.  Main entry points:
 * diag_error and diag_render.
 *
 *   error[E0301]: inner dimensions of a matrix product differ: 5408 and 9216
 *      ╭─ lenet.axn:14:6
 *   13 │   |> flatten       f32[b, 5408]    32 * 13 * 13 = 5408
 *   14 │   |> linear fc1    fc1.w : f32[128, 9216]
 *      │      ────────── 5408 columns found, fc1.w needs 9216
 *      ╰─ help: declare fc1 with 5408 inputs
 *
 * The lines of the primary file appear once, in order.  Steps add columns to
 * the right of their lines, labels add underlines below.  Other files follow
 * under headings of their own. */
#include "support/diag.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/compiler.h"
#include "support/diag_render.h"
#include "support/map.h"
#include "support/mem.h"
#include "support/source.h"
#include "support/span.h"
#include "support/utf8.h"
#include "support/vec.h"

#include <string.h>

void diags_init(Diags *diags, Arena *arena) {
  *diags = (Diags){.arena = arena};
  map_init(&diags->by_span, arena);
}

/* A hash: different spans may have the same key. */
static const void *span_key(Span span) {
  uint64_t h = span.file * 0x9e3779b97f4a7c15u;
  h = (h ^ span.start) * 0x9e3779b97f4a7c15u;
  h = (h ^ span.end) * 0x9e3779b97f4a7c15u;
  return (const void *)(uintptr_t)(h | 1);
}

/* The checker may discard a diagnostic and report it again. */
static bool is_still_listed(const Diags *diags, const Diag *diag) {
  return diag->index < diags->all.len && diags->all.at[diag->index] == diag;
}

static bool is_duplicate(const Diags *diags, const Diag *diag) {
  for (const Diag *old = diag->previous_in_bucket; old;
       old = old->previous_in_bucket) {
    if (!is_still_listed(diags, old) || old->severity != diag->severity ||
        old->span.file != diag->span.file ||
        old->span.start != diag->span.start || old->span.end != diag->span.end)
      continue;
    bool same_text = strcmp(old->message, diag->message) == 0;
    if (same_text || (diag->span.file && diag->severity == SEV_ERROR))
      return true;
  }
  return false;
}

static PRINTF_LIKE(5, 0) Diag *diag_add(Diags *diags, Severity severity,
                                        uint16_t code, Span span,
                                        const char *format, va_list args) {
  Diag *diag = NEW(diags->arena, Diag);
  diag->severity = severity;
  diag->code = code;
  diag->span = span;
  diag->axis = -1;
  diag->message = arena_vprintf(diags->arena, format, args);
  const void *key = span_key(span);
  diag->previous_in_bucket = map_get(&diags->by_span, key);
  if (is_duplicate(diags, diag))
    return diag;
  map_put(&diags->by_span, key, diag);
  diag->index = diags->all.len;
  VEC_PUSH(diags->arena, diags->all, diag);
  diags->errors += severity == SEV_ERROR;
  diags->warnings += severity == SEV_WARNING;
  return diag;
}

Diag *diag_error(Diags *diags, uint16_t code, Span span, const char *format,
                 ...) {
  va_list args;
  va_start(args, format);
  Diag *diag = diag_add(diags, SEV_ERROR, code, span, format, args);
  va_end(args);
  return diag;
}

Diag *diag_warning(Diags *diags, uint16_t code, Span span, const char *format,
                   ...) {
  va_list args;
  va_start(args, format);
  Diag *diag = diag_add(diags, SEV_WARNING, code, span, format, args);
  va_end(args);
  return diag;
}

Diag *diag_note(Diags *diags, Span span, const char *format, ...) {
  va_list args;
  va_start(args, format);
  Diag *diag = diag_add(diags, SEV_NOTE, 0, span, format, args);
  va_end(args);
  return diag;
}

/* ---- what is added ---- */

/* A copy of an array with one more, zeroed element. */
static void *copy_with_room_for_one(Arena *arena, const void *at,
                                    uint32_t count, size_t item) {
  void *all = arena_alloc(arena, (count + 1) * item);
  if (count)
    memcpy(all, at, count * item);
  return all;
}

void diag_add_step(Arena *arena, Diag *diag, Span span, const char *shape,
                   const char *text) {
  DiagStep *all = copy_with_room_for_one(arena, diag->steps, diag->step_count,
                                         sizeof *diag->steps);
  all[diag->step_count++] = (DiagStep){span, shape, text};
  diag->steps = all;
}

static bool has_error(const Diags *diags, uint32_t from, const Diag *warning) {
  Span span = warning->span;
  for (uint32_t i = from; i < diags->all.len; i++) {
    const Diag *d = diags->all.at[i];
    if (d->severity == SEV_ERROR &&
        (d->cause == warning ||
         (d->span.file == span.file && d->span.start == span.start &&
          d->span.end == span.end)))
      return true;
  }
  return false;
}

static bool have_one_mistake(const Diag *a, const Diag *b) {
  const char *part = a->mistake_part, *other = b->mistake_part;
  return a->mistake.file && a->mistake.file == b->mistake.file &&
         a->mistake.start == b->mistake.start &&
         a->mistake.end == b->mistake.end &&
         (part && other ? strcmp(part, other) == 0 : part == other);
}

static bool repeats_mistake(const Diags *diags, uint32_t from, uint32_t at) {
  for (uint32_t i = from; i < at; i++) {
    if (have_one_mistake(diags->all.at[i], diags->all.at[at]))
      return true;
  }
  return false;
}

void diags_drop_explained(Diags *diags, uint32_t from) {
  VEC(Diag *) kept = {0};
  for (uint32_t i = from; i < diags->all.len; i++) {
    Diag *d = diags->all.at[i];
    if (d->severity == SEV_WARNING && has_error(diags, from, d))
      diags->warnings--;
    else if (d->severity == SEV_ERROR && repeats_mistake(diags, from, i))
      diags->errors--;
    else
      VEC_PUSH(diags->arena, kept, d);
  }
  if (kept.len)
    memcpy(diags->all.at + from, kept.at, kept.len * sizeof *kept.at);
  diags->all.len = from + kept.len;
}

void diag_add_label(Arena *arena, Diag *diag, Span span, const char *label) {
  DiagLabel *all = copy_with_room_for_one(
      arena, diag->labels, diag->label_count, sizeof *diag->labels);
  all[diag->label_count++] = (DiagLabel){span, label};
  diag->labels = all;
}

static void append_fixit(Arena *arena, Diag *diag, const char *title,
                         const DiagEdit *edits, uint32_t count) {
  DiagFixIt *all = copy_with_room_for_one(
      arena, diag->fixits, diag->fixit_count, sizeof *diag->fixits);
  DiagEdit *own = NEW_ARRAY(arena, DiagEdit, count);
  memcpy(own, edits, count * sizeof *own);
  all[diag->fixit_count++] = (DiagFixIt){title, own, count};
  diag->fixits = all;
}

void diag_add_fixit(Arena *arena, Diag *diag, Span span, const char *text,
                    const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *title = arena_vprintf(arena, format, args);
  va_end(args);
  append_fixit(arena, diag, title, &(DiagEdit){span, text}, 1);
}

void diag_add_fixit_edits(Arena *arena, Diag *diag, const DiagEdit *edits,
                          uint32_t count, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *title = arena_vprintf(arena, format, args);
  va_end(args);
  append_fixit(arena, diag, title, edits, count);
}

/* ---- rendering ---- */

enum {
  TAB_COLUMNS = 4,
  MAX_CODE_COLUMNS = 100, /* columns of code on a line without steps */
  MAX_CODE_COLUMNS_BESIDE_STEPS = 60, /* columns of code on a line with steps */
  /* minimum column of shapes, so that successive messages align */
  MIN_SHAPE_COLUMN = 29,
  MIN_TEXT_COLUMN = 23, /* minimum column of texts, for the same reason */
  CONTEXT_COLUMNS = 12, /* columns shown before an underline far to the right */
};

typedef enum TextStyle {
  STYLE_NONE,
  STYLE_ERROR,
  STYLE_WARNING,
  STYLE_FRAME,
  STYLE_HELP,
  STYLE_BOLD,
  STYLE_SHAPE
} TextStyle;

typedef struct SnippetRow { /* a source line, or a further remark on it */
  const Source *source;
  uint32_t line;
  Span span;         /* span of the step or label, or none */
  const char *shape; /* shape of a step, shown to the right of the code */
  const char *text;  /* text next to the shape, or below the line */
  bool has_primary;  /* the underline of the primary span follows */
} SnippetRow;

typedef struct Renderer {
  Buffer *out;
  const Sources *sources;
  const Diag *diag;
  bool colour;
  int gutter;
  size_t shape_column, text_column;
  SnippetRow *rows;
  size_t row_count;
} Renderer;

static void set_style(Renderer *r, TextStyle style) {
  static const char *const codes[] = {
      [STYLE_NONE] = "\033[0m",       [STYLE_ERROR] = "\033[1;31m",
      [STYLE_WARNING] = "\033[1;33m", [STYLE_FRAME] = "\033[34m",
      [STYLE_HELP] = "\033[1;32m",    [STYLE_BOLD] = "\033[1m",
      [STYLE_SHAPE] = "\033[36m",
  };
  if (r->colour)
    buffer_puts(r->out, codes[style]);
}

static void put_styled(Renderer *r, TextStyle style, const char *text) {
  set_style(r, style);
  buffer_puts(r->out, text);
  set_style(r, STYLE_NONE);
}

static TextStyle severity_style(const Diag *diag) {
  return diag->severity == SEV_ERROR     ? STYLE_ERROR
         : diag->severity == SEV_WARNING ? STYLE_WARNING
                                         : STYLE_BOLD;
}

static void put_spaces(Buffer *out, size_t n) {
  while (n-- > 0)
    buffer_putc(out, ' ');
}

/* The source, if the span can be shown with its line. */
static const Source *visible_source(const Sources *sources, Span span) {
  const Source *source = span.file ? sources_get(sources, span.file) : NULL;
  return source && !source->is_library ? source : NULL;
}

static uint32_t line_of(const Source *source, uint32_t offset) {
  uint32_t line, column;
  source_line_and_column(source, offset, &line, &column);
  return line;
}

/* ---- a line of source as columns ---- */

typedef struct LineText {
  const char *text;
  size_t len;
} LineText;

static LineText text_of_line(const Source *source, uint32_t line) {
  uint32_t start = source->line_starts[line - 1];
  uint32_t end = line < source->line_count ? source->line_starts[line]
                                           : (uint32_t)source->len;
  while (end > start && strchr(" \t\r\n", source->text[end - 1]))
    end--;
  return (LineText){source->text + start, end - start};
}

/* Reads one character.  Returns its bytes in text[0..len), its columns if it
   stands at `column`, and what is printed for it. */
static size_t next_character(const char *text, size_t len, size_t column,
                             size_t *width, const char **print) {
  unsigned char c = (unsigned char)text[0];
  *print = NULL;
  if (c == '\t') {
    *width = TAB_COLUMNS - column % TAB_COLUMNS;
    *print = &"    "[TAB_COLUMNS - *width];
    return 1;
  }
  if (c < ' ' || c == 0x7f) {
    *width = 1, *print = "?";
    return 1;
  }
  size_t n = 1;
  while (n < len && n < 4 && ((unsigned char)text[n] & 0xc0) == 0x80)
    n++;
  if (utf8_valid_prefix(text, n) != n) {
    *width = 1, *print = "?";
    return 1;
  }
  *width = utf8_columns(text, n);
  return n;
}

/* The column of a byte offset in a line. */
static size_t column_of_offset(LineText line, size_t offset) {
  size_t column = 0, width;
  const char *print;
  for (size_t i = 0; i < offset && i < line.len; column += width)
    i += next_character(line.text + i, line.len - i, column, &width, &print);
  return column;
}

/* Prints columns [from, to) of a line, with marks where it is truncated.
   Returns the number of columns printed. */
static size_t put_line_columns(Buffer *out, LineText line, size_t from,
                               size_t to) {
  size_t column = 0, printed = 0, width;
  if (from > 0) {
    buffer_puts(out, "…");
    printed = 1, from++;
  }
  for (size_t i = 0; i < line.len; column += width) {
    const char *print;
    size_t n =
        next_character(line.text + i, line.len - i, column, &width, &print);
    if (column + width > to && i + n <= line.len) {
      buffer_puts(out, "…");
      return printed + 1;
    }
    if (column >= from) {
      if (print)
        buffer_puts(out, print);
      else
        buffer_add(out, line.text + i, n);
      printed += width;
    }
    i += n;
  }
  return printed;
}

/* ---- rows ---- */

static bool row_precedes(const SnippetRow *a, const SnippetRow *b,
                         const Source *primary_source) {
  if (a->source != b->source)
    return a->source == primary_source && b->source != primary_source;
  return a->line < b->line;
}

static void add_row(Renderer *r, SnippetRow row, const Source *primary_source) {
  size_t i = r->row_count++;
  for (; i > 0 && row_precedes(&row, &r->rows[i - 1], primary_source); i--)
    r->rows[i] = r->rows[i - 1];
  r->rows[i] = row;
}

/* Adds a row for a span.  Returns true if it is on the primary line. */
static bool add_span_row(Renderer *r, Span span, const char *shape,
                         const char *text) {
  const Source *primary_source = visible_source(r->sources, r->diag->span);
  const Source *source = visible_source(r->sources, span);
  if (!source)
    return false;
  SnippetRow row = {source, line_of(source, span.start), span, shape, text,
                    false};
  add_row(r, row, primary_source);
  return source == primary_source &&
         row.line == line_of(primary_source, r->diag->span.start);
}

/* Rows on the primary line are shown together with the primary span. */
static void collect_rows(Renderer *r) {
  const Diag *diag = r->diag;
  const Source *primary_source = visible_source(r->sources, diag->span);
  bool have_primary = false;
  uint32_t line =
      primary_source ? line_of(primary_source, diag->span.start) : 0;
  for (uint32_t i = 0; i < diag->step_count; i++)
    have_primary |= add_span_row(r, diag->steps[i].span, diag->steps[i].shape,
                                 diag->steps[i].text);
  for (uint32_t i = 0; i < diag->label_count; i++)
    have_primary |=
        add_span_row(r, diag->labels[i].span, NULL, diag->labels[i].text);
  if (primary_source && !have_primary)
    add_row(r,
            (SnippetRow){
                .source = primary_source, .line = line, .has_primary = true},
            primary_source);
  for (size_t i = r->row_count; have_primary && i-- > 0;)
    if (r->rows[i].source == primary_source && r->rows[i].line == line) {
      r->rows[i].has_primary = true; /* last row of that line */
      break;
    }
}

/* A step is shown to the right of the code; a label is shown below it. */
static bool has_shape(const SnippetRow *row) {
  return row->shape;
}

static bool has_label(const SnippetRow *row) {
  return !row->shape && row->text;
}

/* Maximum columns of code on the line of a row. */
static size_t max_code_columns(const Renderer *r, const SnippetRow *row) {
  for (size_t i = 0; i < r->row_count; i++)
    if (has_shape(&r->rows[i]) && r->rows[i].source == row->source &&
        r->rows[i].line == row->line)
      return MAX_CODE_COLUMNS_BESIDE_STEPS;
  return MAX_CODE_COLUMNS;
}

/* The first column shown of a row's line.  It is nonzero only if the underline
   would otherwise be truncated. */
static size_t first_column(const Renderer *r, const SnippetRow *row) {
  const Source *primary_source = visible_source(r->sources, r->diag->span);
  if (row->source != primary_source ||
      row->line != line_of(primary_source, r->diag->span.start))
    return 0;
  LineText line = text_of_line(row->source, row->line);
  uint32_t start = row->source->line_starts[row->line - 1];
  size_t column = column_of_offset(line, r->diag->span.start - start);
  return column + CONTEXT_COLUMNS < max_code_columns(r, row)
             ? 0
             : column - CONTEXT_COLUMNS;
}

static bool continues(const Renderer *r, size_t i) {
  return i > 0 && r->rows[i].source == r->rows[i - 1].source &&
         r->rows[i].line == r->rows[i - 1].line;
}

/* Computes where the columns right of the code begin. */
static void compute_columns(Renderer *r) {
  size_t code = 0, shape = 0;
  uint32_t max = 1;
  for (size_t i = 0; i < r->row_count; i++) {
    const SnippetRow *row = &r->rows[i];
    if (row->line > max)
      max = row->line;
    if (!has_shape(row))
      continue;
    LineText line = text_of_line(row->source, row->line);
    size_t width = column_of_offset(line, line.len) - first_column(r, row);
    if (width > max_code_columns(r, row))
      width = max_code_columns(r, row) + 1;
    if (width > code)
      code = width;
    size_t wide = utf8_columns(row->shape, strlen(row->shape));
    if (row->text && wide > shape)
      shape = wide;
  }
  r->gutter = snprintf(NULL, 0, "%u", max) + 1;
  bool narrow = code + 4 < MIN_SHAPE_COLUMN && shape;
  r->shape_column = narrow ? MIN_SHAPE_COLUMN : code + 4;
  if (shape)
    shape = shape + 3 < MIN_TEXT_COLUMN ? MIN_TEXT_COLUMN : shape + 3;
  r->text_column = r->shape_column + shape;
}

static void put_frame(Renderer *r, const char *mark) {
  put_spaces(r->out, (size_t)r->gutter);
  put_styled(r, STYLE_FRAME, mark);
}

static void put_location(Renderer *r, const char *mark, const Source *source,
                         uint32_t offset) {
  put_frame(r, mark);
  buffer_printf(r->out, " %s%s:%u:%u\n", source->is_library ? "library " : "",
                source->name, line_of(source, offset),
                source_char_column(source, offset));
}

/* Pads to a column, or with two spaces if that column is already passed. */
static size_t pad_to_column(Buffer *out, size_t at, size_t column) {
  size_t gap = column > at ? column - at : 2;
  put_spaces(out, gap);
  return at + gap;
}

static void put_shape_columns(Renderer *r, const SnippetRow *row, size_t at) {
  at = pad_to_column(r->out, at, r->shape_column);
  put_styled(r, STYLE_SHAPE, row->shape);
  at += utf8_columns(row->shape, strlen(row->shape));
  if (row->text) {
    pad_to_column(r->out, at, r->text_column);
    buffer_puts(r->out, row->text);
  }
}

static void put_underline(Renderer *r, const SnippetRow *row, Span span,
                          const char *label, TextStyle style) {
  LineText line = text_of_line(row->source, row->line);
  uint32_t start = row->source->line_starts[row->line - 1];
  size_t from = column_of_offset(line, span.start - start);
  size_t last =
      span.end > span.start ? span.end - start : span.start - start + 1;
  size_t to = column_of_offset(line, last);
  size_t left = first_column(r, row), right = left + max_code_columns(r, row);
  if (from < left)
    from = left;
  if (to > right)
    to = right;
  put_frame(r, "│");
  put_spaces(r->out, 1 + (from < right ? from - left : 0));
  set_style(r, style);
  size_t n = to > from ? to - from : 1;
  while (n-- > 0)
    buffer_puts(r->out, "─");
  if (label)
    buffer_printf(r->out, " %s", label);
  set_style(r, STYLE_NONE);
  buffer_putc(r->out, '\n');
}

/* Prints the line of a row.  Returns the number of columns printed. */
static size_t put_code(Renderer *r, const SnippetRow *row) {
  set_style(r, STYLE_FRAME);
  buffer_printf(r->out, "%*u │", r->gutter - 1, row->line);
  set_style(r, STYLE_NONE);
  LineText line = text_of_line(row->source, row->line);
  size_t left = first_column(r, row);
  if (line.len)
    buffer_putc(r->out, ' ');
  return put_line_columns(r->out, line, left, left + max_code_columns(r, row));
}

static void put_row(Renderer *r, size_t i) {
  const SnippetRow *row = &r->rows[i];
  size_t at = 0;
  if (continues(r, i)) {
    if (has_shape(row))
      put_frame(r, "│ ");
  } else {
    at = put_code(r, row);
  }
  if (has_shape(row))
    put_shape_columns(r, row, at);
  if (has_shape(row) || !continues(r, i))
    buffer_putc(r->out, '\n');
  if (has_label(row))
    put_underline(r, row, row->span, row->text, STYLE_FRAME);
  if (row->has_primary)
    put_underline(r, row, r->diag->span, r->diag->primary_label,
                  severity_style(r->diag));
}

static void put_rows(Renderer *r) {
  for (size_t i = 0; i < r->row_count; i++) {
    const SnippetRow *row = &r->rows[i], *last = i ? row - 1 : NULL;
    if (last && last->source != row->source) {
      put_location(r, "├─", row->source, row->span.start);
      /* a single line is as short as a gap mark */
    } else if (last && row->line == last->line + 2) {
      put_code(r, &(SnippetRow){.source = row->source, .line = row->line - 1});
      buffer_putc(r->out, '\n');
    } else if (last && row->line > last->line + 1) {
      put_frame(r, "┆");
      buffer_putc(r->out, '\n');
    }
    put_row(r, i);
  }
}

/* Prints a remark without source line: in the library, or without span. */
static void put_without_snippet(Renderer *r, Span span, const char *shape,
                                const char *text) {
  if (visible_source(r->sources, span) || (!shape && !text))
    return;
  const Source *source = sources_get(r->sources, span.file);
  put_frame(r, "│ ");
  if (source)
    buffer_printf(r->out, "library %s:%u  ", source->name,
                  line_of(source, span.start));
  if (shape)
    put_styled(r, STYLE_SHAPE, shape);
  if (shape && text)
    buffer_puts(r->out, "  ");
  buffer_printf(r->out, "%s\n", text ? text : "");
}

static void put_rows_without_snippet(Renderer *r) {
  const Diag *diag = r->diag;
  for (uint32_t i = 0; i < diag->step_count; i++)
    put_without_snippet(r, diag->steps[i].span, diag->steps[i].shape,
                        diag->steps[i].text);
  for (uint32_t i = 0; i < diag->label_count; i++)
    put_without_snippet(r, diag->labels[i].span, NULL, diag->labels[i].text);
}

/* ---- what closes the frame ---- */

static void put_note(Renderer *r, const char *name, TextStyle style,
                     const char *text, bool last) {
  const char *mark = last ? "╰─ " : "├─ ";
  size_t indent = strlen(name);
  put_frame(r, mark);
  put_styled(r, style, name);
  for (const char *p = text, *line; *p; p = line) {
    size_t len = strcspn(p, "\n");
    line = p + len + (p[len] != 0);
    if (p != text) {
      put_frame(r, last ? "   " : "│  ");
      put_spaces(r->out, indent);
    }
    buffer_add(r->out, p, len);
    buffer_putc(r->out, '\n');
  }
}

static void put_notes(Renderer *r) {
  const Diag *diag = r->diag;
  const struct {
    const char *name, *text;
    TextStyle tint;
  } notes[] = {
      {"", diag->counterexample, STYLE_NONE},
      {"note: ", diag->note, STYLE_BOLD},
      {"help: ", diag->help, STYLE_HELP},
  };
  int left = 0;
  for (size_t i = 0; i < ARRAY_LEN(notes); i++)
    left += notes[i].text && *notes[i].text;
  for (size_t i = 0; i < ARRAY_LEN(notes); i++)
    if (notes[i].text && *notes[i].text)
      put_note(r, notes[i].name, notes[i].tint, notes[i].text, --left == 0);
}

static void put_header(Renderer *r) {
  const Diag *diag = r->diag;
  const char *name = diag->severity == SEV_ERROR     ? "error"
                     : diag->severity == SEV_WARNING ? "warning"
                                                     : "note";
  set_style(r, severity_style(diag));
  buffer_puts(r->out, name);
  if (diag->code)
    buffer_printf(r->out, "[%c%04u]", diag->severity == SEV_ERROR ? 'E' : 'W',
                  diag->code);
  set_style(r, STYLE_NONE);
  set_style(r, STYLE_BOLD);
  buffer_printf(r->out, ": %s\n", diag->message);
  set_style(r, STYLE_NONE);
}

void diag_render(Buffer *out, const Sources *sources, const Diag *diag,
                 bool colour) {
  Renderer r = {.out = out, .sources = sources, .diag = diag, .colour = colour};
  size_t max = (size_t)diag->step_count + diag->label_count + 1;
  r.rows = mem_alloc(max * sizeof *r.rows);
  collect_rows(&r);
  compute_columns(&r);
  put_header(&r);
  const Source *source =
      diag->span.file ? sources_get(sources, diag->span.file) : NULL;
  if (source)
    put_location(&r, "╭─", source, diag->span.start);
  else if (r.row_count)
    put_location(&r, "╭─", r.rows[0].source, r.rows[0].span.start);
  put_rows(&r);
  put_rows_without_snippet(&r);
  put_notes(&r);
  mem_free(r.rows);
}
