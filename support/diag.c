/* Diagnostics: kept as data, and rendered as a person reads them.
 *
 *   error[E0301]: inner dimensions of a matrix product differ: 5408 and 9216
 *      ╭─ lenet.axn:14:6
 *   13 │   |> flatten       f32[b, 5408]    32 * 13 * 13 = 5408
 *   14 │   |> linear fc1    fc1.w : f32[128, 9216]
 *      │      ────────── 5408 columns arrive, fc1.w wants 9216
 *      ╰─ help: declare fc1 with 5408 inputs
 *
 * The lines of the primary file come in order, each once, with what the steps
 * say about them in columns to the right and marks below them; other files
 * follow under their own heading. */
#include "support.h"

#include <string.h>

void diags_init(Diags *diags, Arena *arena) {
  *diags = (Diags){.arena = arena};
  map_init(&diags->places, arena);
}

/* Different places may have one key. */
static const void *place_key(Span span) {
  uint64_t h = span.file * 0x9e3779b97f4a7c15u;
  h = (h ^ span.start) * 0x9e3779b97f4a7c15u;
  h = (h ^ span.end) * 0x9e3779b97f4a7c15u;
  return (const void *)(uintptr_t)(h | 1);
}

/* The checker may forget what it said and say it again. */
static bool is_kept(const Diags *diags, const Diag *diag) {
  return diag->index < diags->all.len && diags->all.at[diag->index] == diag;
}

static bool already_told(const Diags *diags, const Diag *diag) {
  for (const Diag *old = diag->before; old; old = old->before) {
    if (!is_kept(diags, old) || old->severity != diag->severity ||
        old->span.file != diag->span.file ||
        old->span.start != diag->span.start || old->span.end != diag->span.end)
      continue;
    bool same_text = strcmp(old->message, diag->message) == 0;
    if (same_text || (diag->span.file && diag->severity == SEV_ERROR))
      return true;
  }
  return false;
}

static PRINTF_LIKE(5, 0) Diag *
diag_add(Diags *diags, Severity severity, uint16_t code, Span span,
         const char *format, va_list args) {
  Diag *diag = NEW(diags->arena, Diag);
  diag->severity = severity;
  diag->code = code;
  diag->span = span;
  diag->axis = -1;
  diag->message = arena_vprintf(diags->arena, format, args);
  const void *place = place_key(span);
  diag->before = map_get(&diags->places, place);
  if (already_told(diags, diag))
    return diag;
  map_put(&diags->places, place, diag);
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

/* A copy of an array with room for one more; the new one is zeroed. */
static void *longer(Arena *arena, const void *at, uint32_t count,
                    size_t item) {
  void *all = arena_alloc(arena, (count + 1) * item);
  if (count)
    memcpy(all, at, count * item);
  return all;
}

void diag_step(Arena *arena, Diag *diag, Span span, const char *shape,
               const char *text) {
  DiagStep *all =
      longer(arena, diag->steps, diag->step_count, sizeof *diag->steps);
  all[diag->step_count++] = (DiagStep){span, shape, text};
  diag->steps = all;
}

void diag_mark(Arena *arena, Diag *diag, Span span, const char *label) {
  DiagMark *all =
      longer(arena, diag->marks, diag->mark_count, sizeof *diag->marks);
  all[diag->mark_count++] = (DiagMark){span, label};
  diag->marks = all;
}

static void add_fix(Arena *arena, Diag *diag, const char *title,
                    const DiagEdit *edits, uint32_t count) {
  DiagFix *all =
      longer(arena, diag->fixes, diag->fix_count, sizeof *diag->fixes);
  DiagEdit *own = NEW_ARRAY(arena, DiagEdit, count);
  memcpy(own, edits, count * sizeof *own);
  all[diag->fix_count++] = (DiagFix){title, own, count};
  diag->fixes = all;
}

void diag_fix(Arena *arena, Diag *diag, Span span, const char *text,
              const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *title = arena_vprintf(arena, format, args);
  va_end(args);
  add_fix(arena, diag, title, &(DiagEdit){span, text}, 1);
}

void diag_fix_edits(Arena *arena, Diag *diag, const DiagEdit *edits,
                    uint32_t count, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *title = arena_vprintf(arena, format, args);
  va_end(args);
  add_fix(arena, diag, title, edits, count);
}

/* ---- rendering ---- */

enum {
  TAB = 4,
  CODE_MOST = 100,      /* columns of code on a line that stands alone */
  CODE_MOST_STEPS = 60, /* with steps beside it */
  SHAPE_LEAST = 29,     /* the columns to the right begin here or later, so */
  TEXT_LEAST = 23,      /* that those of one message look like the next one's */
  LEAD = 12,            /* columns kept before an underline that is far out */
};

typedef enum Tint { TINT_NONE, TINT_ERROR, TINT_WARNING, TINT_FRAME,
                    TINT_HELP, TINT_BOLD, TINT_SHAPE } Tint;

typedef struct Row { /* a line of source, or one more remark on the same line */
  const Source *source;
  uint32_t line;
  Span span;            /* of the step or mark; or none */
  const char *shape;    /* of a step: columns to the right of the code */
  const char *text;     /* what is beside the shape, or below the line */
  bool primary;         /* the underline follows */
} Row;

typedef struct Render {
  Buffer *out;
  const Sources *sources;
  const Diag *diag;
  bool colour;
  int gutter;
  size_t shape_column, text_column;
  Row *rows;
  size_t row_count;
} Render;

static void tint(Render *r, Tint t) {
  static const char *const codes[] = {
      [TINT_NONE] = "\033[0m",       [TINT_ERROR] = "\033[1;31m",
      [TINT_WARNING] = "\033[1;33m", [TINT_FRAME] = "\033[34m",
      [TINT_HELP] = "\033[1;32m",    [TINT_BOLD] = "\033[1m",
      [TINT_SHAPE] = "\033[36m",
  };
  if (r->colour)
    buffer_puts(r->out, codes[t]);
}

static void tinted(Render *r, Tint t, const char *text) {
  tint(r, t);
  buffer_puts(r->out, text);
  tint(r, TINT_NONE);
}

static Tint severity_tint(const Diag *diag) {
  return diag->severity == SEV_ERROR     ? TINT_ERROR
         : diag->severity == SEV_WARNING ? TINT_WARNING
                                         : TINT_BOLD;
}

static void pad(Buffer *out, size_t n) {
  while (n-- > 0)
    buffer_putc(out, ' ');
}

/* A place that can be shown with its line of source. */
static const Source *shown(const Sources *sources, Span span) {
  const Source *source = span.file ? sources_get(sources, span.file) : NULL;
  return source && !source->library ? source : NULL;
}

static uint32_t line_of(const Source *source, uint32_t offset) {
  uint32_t line, column;
  source_place(source, offset, &line, &column);
  return line;
}

/* ---- a line of source as columns ---- */

typedef struct Line {
  const char *text;
  size_t len;
} Line;

static Line line_text(const Source *source, uint32_t line) {
  uint32_t start = source->lines[line - 1];
  uint32_t end = line < source->line_count ? source->lines[line]
                                           : (uint32_t)source->len;
  while (end > start && strchr(" \t\r\n", source->text[end - 1]))
    end--;
  return (Line){source->text + start, end - start};
}

/* The bytes of the character at text[0..len), its columns when it stands at
 * `column`, and what is printed for it. */
static size_t character(const char *text, size_t len, size_t column,
                        size_t *width, const char **print) {
  unsigned char c = (unsigned char)text[0];
  *print = NULL;
  if (c == '\t') {
    *width = TAB - column % TAB;
    *print = &"    "[TAB - *width];
    return 1;
  }
  if (c < ' ' || c == 0x7f) {
    *width = 1, *print = "?";
    return 1;
  }
  size_t n = 1;
  while (n < len && n < 4 && ((unsigned char)text[n] & 0xc0) == 0x80)
    n++;
  if (utf8_valid(text, n) != n) {
    *width = 1, *print = "?";
    return 1;
  }
  *width = utf8_width(text, n);
  return n;
}

/* The column of a byte offset in a line. */
static size_t line_column(Line line, size_t offset) {
  size_t column = 0, width;
  const char *print;
  for (size_t i = 0; i < offset && i < line.len; column += width)
    i += character(line.text + i, line.len - i, column, &width, &print);
  return column;
}

/* Prints columns [from, to) of a line, with marks where it was cut.  Returns
 * the columns printed. */
static size_t put_line(Buffer *out, Line line, size_t from, size_t to) {
  size_t column = 0, printed = 0, width;
  if (from > 0) {
    buffer_puts(out, "…");
    printed = 1, from++;
  }
  for (size_t i = 0; i < line.len; column += width) {
    const char *print;
    size_t n = character(line.text + i, line.len - i, column, &width, &print);
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

static bool row_before(const Row *a, const Row *b, const Source *first) {
  if (a->source != b->source)
    return a->source == first && b->source != first;
  return a->line < b->line;
}

static void add_row(Render *r, Row row, const Source *first) {
  size_t i = r->row_count++;
  for (; i > 0 && row_before(&row, &r->rows[i - 1], first); i--)
    r->rows[i] = r->rows[i - 1];
  r->rows[i] = row;
}

/* What is told of a place; true if that is on the primary line. */
static bool place_row(Render *r, Span span, const char *shape,
                      const char *text) {
  const Source *first = shown(r->sources, r->diag->span);
  const Source *source = shown(r->sources, span);
  if (!source)
    return false;
  Row row = {source, line_of(source, span.start), span, shape, text, false};
  add_row(r, row, first);
  return source == first && row.line == line_of(first, r->diag->span.start);
}

/* The primary line takes what is told of it as its own. */
static void collect_rows(Render *r) {
  const Diag *diag = r->diag;
  const Source *first = shown(r->sources, diag->span);
  bool have_primary = false;
  uint32_t line = first ? line_of(first, diag->span.start) : 0;
  for (uint32_t i = 0; i < diag->step_count; i++)
    have_primary |= place_row(r, diag->steps[i].span, diag->steps[i].shape,
                              diag->steps[i].text);
  for (uint32_t i = 0; i < diag->mark_count; i++)
    have_primary |=
        place_row(r, diag->marks[i].span, NULL, diag->marks[i].label);
  if (first && !have_primary)
    add_row(r, (Row){.source = first, .line = line, .primary = true}, first);
  for (size_t i = r->row_count; have_primary && i-- > 0;)
    if (r->rows[i].source == first && r->rows[i].line == line) {
      r->rows[i].primary = true; /* the last row of that line */
      break;
    }
}

/* A step has its columns to the right of the code; a mark is below it. */
static bool has_shape(const Row *row) { return row->shape; }

static bool is_mark(const Row *row) { return !row->shape && row->text; }

/* Of the line of a row. */
static size_t code_most(const Render *r, const Row *row) {
  for (size_t i = 0; i < r->row_count; i++)
    if (has_shape(&r->rows[i]) && r->rows[i].source == row->source &&
        r->rows[i].line == row->line)
      return CODE_MOST_STEPS;
  return CODE_MOST;
}

/* The first column shown of a row's line: not 0 only where the underline would
 * lie beyond what is shown. */
static size_t first_column(const Render *r, const Row *row) {
  const Source *first = shown(r->sources, r->diag->span);
  if (row->source != first || row->line != line_of(first, r->diag->span.start))
    return 0;
  Line line = line_text(row->source, row->line);
  uint32_t start = row->source->lines[row->line - 1];
  size_t column = line_column(line, r->diag->span.start - start);
  return column + LEAD < code_most(r, row) ? 0 : column - LEAD;
}

static bool continues(const Render *r, size_t i) {
  return i > 0 && r->rows[i].source == r->rows[i - 1].source &&
         r->rows[i].line == r->rows[i - 1].line;
}

/* Where the columns to the right of the code begin. */
static void measure(Render *r) {
  size_t code = 0, shape = 0;
  uint32_t most = 1;
  for (size_t i = 0; i < r->row_count; i++) {
    const Row *row = &r->rows[i];
    if (row->line > most)
      most = row->line;
    if (!has_shape(row))
      continue;
    Line line = line_text(row->source, row->line);
    size_t width = line_column(line, line.len) - first_column(r, row);
    if (width > code_most(r, row))
      width = code_most(r, row) + 1;
    if (width > code)
      code = width;
    size_t wide = utf8_width(row->shape, strlen(row->shape));
    if (row->text && wide > shape)
      shape = wide;
  }
  r->gutter = snprintf(NULL, 0, "%u", most) + 1;
  bool narrow = code + 4 < SHAPE_LEAST && shape;
  r->shape_column = narrow ? SHAPE_LEAST : code + 4;
  if (shape)
    shape = shape + 3 < TEXT_LEAST ? TEXT_LEAST : shape + 3;
  r->text_column = r->shape_column + shape;
}

static void put_frame(Render *r, const char *mark) {
  pad(r->out, (size_t)r->gutter);
  tinted(r, TINT_FRAME, mark);
}

static void put_place(Render *r, const char *mark, const Source *source,
                      uint32_t offset) {
  put_frame(r, mark);
  buffer_printf(r->out, " %s%s:%u:%u\n", source->library ? "library " : "",
                source->name, line_of(source, offset),
                source_column(source, offset));
}

/* Moves to a column, or puts two spaces where it is already passed. */
static size_t move_to(Buffer *out, size_t at, size_t column) {
  size_t gap = column > at ? column - at : 2;
  pad(out, gap);
  return at + gap;
}

static void put_remark(Render *r, const Row *row, size_t at) {
  at = move_to(r->out, at, r->shape_column);
  tinted(r, TINT_SHAPE, row->shape);
  at += utf8_width(row->shape, strlen(row->shape));
  if (row->text) {
    move_to(r->out, at, r->text_column);
    buffer_puts(r->out, row->text);
  }
}

static void put_underline(Render *r, const Row *row, Span span,
                          const char *label, Tint t) {
  Line line = line_text(row->source, row->line);
  uint32_t start = row->source->lines[row->line - 1];
  size_t from = line_column(line, span.start - start);
  size_t last = span.end > span.start ? span.end - start
                                      : span.start - start + 1;
  size_t to = line_column(line, last);
  size_t left = first_column(r, row), right = left + code_most(r, row);
  if (from < left)
    from = left;
  if (to > right)
    to = right;
  put_frame(r, "│");
  pad(r->out, 1 + (from < right ? from - left : 0));
  tint(r, t);
  size_t n = to > from ? to - from : 1;
  while (n-- > 0)
    buffer_puts(r->out, "─");
  if (label)
    buffer_printf(r->out, " %s", label);
  tint(r, TINT_NONE);
  buffer_putc(r->out, '\n');
}

/* The line of a row; returns the columns printed. */
static size_t put_code(Render *r, const Row *row) {
  tint(r, TINT_FRAME);
  buffer_printf(r->out, "%*u │", r->gutter - 1, row->line);
  tint(r, TINT_NONE);
  Line line = line_text(row->source, row->line);
  size_t left = first_column(r, row);
  if (line.len)
    buffer_putc(r->out, ' ');
  return put_line(r->out, line, left, left + code_most(r, row));
}

static void put_row(Render *r, size_t i) {
  const Row *row = &r->rows[i];
  size_t at = 0;
  if (continues(r, i)) {
    if (has_shape(row))
      put_frame(r, "│ ");
  } else {
    at = put_code(r, row);
  }
  if (has_shape(row))
    put_remark(r, row, at);
  if (has_shape(row) || !continues(r, i))
    buffer_putc(r->out, '\n');
  if (is_mark(row))
    put_underline(r, row, row->span, row->text, TINT_FRAME);
  if (row->primary)
    put_underline(r, row, r->diag->span, r->diag->label,
                  severity_tint(r->diag));
}

static void put_rows(Render *r) {
  for (size_t i = 0; i < r->row_count; i++) {
    const Row *row = &r->rows[i], *last = i ? row - 1 : NULL;
    if (last && last->source != row->source) {
      put_place(r, "├─", row->source, row->span.start);
    } else if (last && row->line == last->line + 2) { /* as short as a gap */
      put_code(r, &(Row){.source = row->source, .line = row->line - 1});
      buffer_putc(r->out, '\n');
    } else if (last && row->line > last->line + 1) {
      put_frame(r, "┆");
      buffer_putc(r->out, '\n');
    }
    put_row(r, i);
  }
}

/* What has no line to show: in the library, or nowhere. */
static void put_far(Render *r, Span span, const char *shape,
                    const char *text) {
  if (shown(r->sources, span) || (!shape && !text))
    return;
  const Source *source = sources_get(r->sources, span.file);
  put_frame(r, "│ ");
  if (source)
    buffer_printf(r->out, "library %s:%u  ", source->name,
                  line_of(source, span.start));
  if (shape)
    tinted(r, TINT_SHAPE, shape);
  if (shape && text)
    buffer_puts(r->out, "  ");
  buffer_printf(r->out, "%s\n", text ? text : "");
}

static void put_far_rows(Render *r) {
  const Diag *diag = r->diag;
  for (uint32_t i = 0; i < diag->step_count; i++)
    put_far(r, diag->steps[i].span, diag->steps[i].shape,
            diag->steps[i].text);
  for (uint32_t i = 0; i < diag->mark_count; i++)
    put_far(r, diag->marks[i].span, NULL, diag->marks[i].label);
}

/* ---- what closes the frame ---- */

static void put_note(Render *r, const char *name, Tint t, const char *text,
                     bool last) {
  const char *mark = last ? "╰─ " : "├─ ";
  size_t indent = strlen(name);
  put_frame(r, mark);
  tinted(r, t, name);
  for (const char *p = text, *line; *p; p = line) {
    size_t len = strcspn(p, "\n");
    line = p + len + (p[len] != 0);
    if (p != text) {
      put_frame(r, last ? "   " : "│  ");
      pad(r->out, indent);
    }
    buffer_add(r->out, p, len);
    buffer_putc(r->out, '\n');
  }
}

static void put_notes(Render *r) {
  const Diag *diag = r->diag;
  const struct {
    const char *name, *text;
    Tint tint;
  } notes[] = {
      {"", diag->witness, TINT_NONE},
      {"note: ", diag->note, TINT_BOLD},
      {"help: ", diag->help, TINT_HELP},
  };
  int left = 0;
  for (size_t i = 0; i < ARRAY_LEN(notes); i++)
    left += notes[i].text && *notes[i].text;
  for (size_t i = 0; i < ARRAY_LEN(notes); i++)
    if (notes[i].text && *notes[i].text)
      put_note(r, notes[i].name, notes[i].tint, notes[i].text, --left == 0);
}

static void put_head(Render *r) {
  const Diag *diag = r->diag;
  const char *name = diag->severity == SEV_ERROR     ? "error"
                     : diag->severity == SEV_WARNING ? "warning"
                                                     : "note";
  tint(r, severity_tint(diag));
  buffer_puts(r->out, name);
  if (diag->code)
    buffer_printf(r->out, "[%c%04u]", diag->severity == SEV_ERROR ? 'E' : 'W',
                  diag->code);
  tint(r, TINT_NONE);
  tint(r, TINT_BOLD);
  buffer_printf(r->out, ": %s\n", diag->message);
  tint(r, TINT_NONE);
}

void diag_render(Buffer *out, const Sources *sources, const Diag *diag,
                 bool colour) {
  Render r = {.out = out, .sources = sources, .diag = diag, .colour = colour};
  size_t most = (size_t)diag->step_count + diag->mark_count + 1;
  r.rows = mem_alloc(most * sizeof *r.rows);
  collect_rows(&r);
  measure(&r);
  put_head(&r);
  const Source *source =
      diag->span.file ? sources_get(sources, diag->span.file) : NULL;
  if (source)
    put_place(&r, "╭─", source, diag->span.start);
  else if (r.row_count)
    put_place(&r, "╭─", r.rows[0].source, r.rows[0].span.start);
  put_rows(&r);
  put_far_rows(&r);
  put_notes(&r);
  mem_free(r.rows);
}
