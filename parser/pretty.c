/* Pretty printer: chooses the line breaks of documents (Wadler, "A prettier
   printer").  Main entry point: doc_print.  Nothing here recurses. */
#include "parser/pretty.h"
#include "support/arena.h"
#include "support/buffer.h"
#include "support/utf8.h"
#include "support/vec.h"

#include <string.h>

typedef enum DocKind {
  DOC_TEXT,
  DOC_COMMENT, /* column: of its first byte in the source */
  DOC_LINE,
  DOC_HARDLINE, /* indent: newlines */
  DOC_BREAK_PARENT,
  DOC_NEST, /* indent */
  DOC_ALIGN,
  DOC_GROUP,
  DOC_FLAT, /* its breaks are spaces */
  DOC_CAT,
} DocKind;

struct Doc {
  DocKind kind;
  bool forced;
  uint32_t width; /* columns on one line; at most MAX_DOC_WIDTH */
  uint32_t head;  /* columns before the first break */
  bool breaks;    /* contains a break */
  uint32_t indent, column;
  const char *text;
  size_t len;
  Doc **items; /* for all kinds except texts and breaks */
  uint32_t count;
};

/* Maximum width, and maximum indentation; the latter keeps the output
   linear. */
enum { MAX_DOC_WIDTH = 100000, MAX_INDENT = 56 };

static Doc *doc_new(Arena *arena, DocKind kind) {
  Doc *doc = NEW(arena, Doc);
  doc->kind = kind;
  return doc;
}

Doc *doc_text(Arena *arena, const char *text, size_t len) {
  Doc *doc = doc_new(arena, DOC_TEXT);
  doc->text = text;
  doc->len = len;
  const char *newline = memchr(text, '\n', len);
  size_t width = utf8_columns(text, newline ? (size_t)(newline - text) : len);
  doc->width = width < MAX_DOC_WIDTH ? (uint32_t)width : MAX_DOC_WIDTH;
  doc->head = doc->width;
  doc->breaks = doc->forced = newline != NULL;
  return doc;
}

Doc *doc_comment(Arena *arena, const char *text, size_t len, uint32_t column) {
  Doc *doc = doc_text(arena, text, len);
  doc->kind = DOC_COMMENT;
  doc->column = column;
  return doc;
}

Doc *doc_zero_width(Doc *doc) {
  doc->width = 0;
  return doc;
}

Doc *doc_line(Arena *arena) {
  Doc *doc = doc_new(arena, DOC_LINE);
  doc->width = 1;
  doc->breaks = true;
  return doc;
}

static Doc *doc_newlines(Arena *arena, uint32_t count) {
  Doc *doc = doc_new(arena, DOC_HARDLINE);
  doc->indent = count;
  doc->breaks = doc->forced = true;
  return doc;
}

Doc *doc_hardline(Arena *arena) {
  return doc_newlines(arena, 1);
}
Doc *doc_blank_line(Arena *arena) {
  return doc_newlines(arena, 2);
}

Doc *doc_break_parent(Arena *arena) {
  Doc *doc = doc_new(arena, DOC_BREAK_PARENT);
  doc->forced = true;
  return doc;
}

Doc *doc_cat(Arena *arena, Doc *const *items, uint32_t count) {
  Doc *doc = doc_new(arena, DOC_CAT);
  doc->items = NEW_ARRAY(arena, Doc *, count);
  for (uint32_t i = 0; i < count; i++) {
    if (!items[i])
      continue;
    doc->items[doc->count++] = items[i];
    doc->forced |= items[i]->forced;
    doc->head += doc->breaks ? 0 : items[i]->head;
    doc->breaks |= items[i]->breaks;
    doc->width += items[i]->width;
    if (doc->width > MAX_DOC_WIDTH)
      doc->width = MAX_DOC_WIDTH;
    if (doc->head > MAX_DOC_WIDTH)
      doc->head = MAX_DOC_WIDTH;
  }
  return doc->count ? doc : NULL;
}

static Doc *doc_wrap(Arena *arena, DocKind kind, uint32_t indent, Doc *body) {
  if (!body)
    return NULL;
  Doc *doc = doc_cat(arena, &body, 1);
  doc->kind = kind;
  doc->indent = indent;
  return doc;
}

Doc *doc_nest(Arena *arena, uint32_t indent, Doc *body) {
  return doc_wrap(arena, DOC_NEST, indent, body);
}

Doc *doc_align(Arena *arena, Doc *body) {
  return doc_wrap(arena, DOC_ALIGN, 0, body);
}

Doc *doc_group(Arena *arena, Doc *body) {
  return doc_wrap(arena, DOC_GROUP, 0, body);
}

Doc *doc_flat(Arena *arena, Doc *body) {
  if (!body || body->forced)
    return body;
  Doc *doc = doc_wrap(arena, DOC_FLAT, 0, body);
  doc->head = doc->width;
  doc->breaks = false;
  return doc;
}

bool doc_is_forced(const Doc *doc) {
  return doc && doc->forced;
}
uint32_t doc_width(const Doc *doc) {
  return doc ? doc->width : 0;
}
uint32_t doc_head_width(const Doc *doc) {
  return doc ? doc->head : 0;
}

/* ---- printing ---- */

typedef struct PrintCommand {
  const Doc *doc;
  uint32_t indent;
  bool flat;
} PrintCommand;

typedef VEC(PrintCommand) PrintCommandVec;

typedef struct DocPrinter {
  Buffer *out;
  Arena *arena;
  uint32_t width, column;
  size_t line_start; /* offset of the last line of the output */
  /* to be printed before the next text */
  uint32_t pending_newlines, pending_indent;
  bool has_output;
  PrintCommandVec commands, trial;
} DocPrinter;

static void push(DocPrinter *p, PrintCommandVec *commands, const Doc *doc,
                 uint32_t indent, bool flat) {
  VEC_PUSH(p->arena, *commands, ((PrintCommand){doc, indent, flat}));
}

static void push_items(DocPrinter *p, PrintCommandVec *commands, const Doc *doc,
                       uint32_t indent, bool flat) {
  for (uint32_t i = doc->count; i > 0; i--)
    push(p, commands, doc->items[i - 1], indent, flat);
}

/* One step of a trial layout.  Returns the remaining columns, or -1 once the
   line has ended and fits. */
static int64_t trial_step(DocPrinter *p, PrintCommand command,
                          int64_t remaining) {
  const Doc *doc = command.doc;
  switch (doc->kind) {
  case DOC_TEXT:
  case DOC_COMMENT:
    remaining -= doc->width;
    return remaining >= 0 && doc->forced ? -1 : remaining >= 0 ? remaining : -2;
  case DOC_LINE:
    if (!command.flat)
      return -1;
    return remaining > 0 ? remaining - 1 : -2;
  case DOC_HARDLINE:
    return -1;
  case DOC_BREAK_PARENT:
    return remaining;
  case DOC_NEST:
  case DOC_ALIGN:
  case DOC_GROUP:
  case DOC_FLAT:
  case DOC_CAT:
    push_items(p, &p->trial, doc, 0, command.flat || doc->kind == DOC_FLAT);
    return remaining;
  }
  return remaining;
}

/* True if the group and what follows it up to the next break fit on the
   line. */
static bool fits(DocPrinter *p, const Doc *group) {
  int64_t remaining = (int64_t)p->width - p->column;
  if ((int64_t)group->width > remaining)
    return false;
  uint32_t rest = p->commands.len;
  p->trial.len = 0;
  push(p, &p->trial, group, 0, true);
  while (remaining >= 0) {
    PrintCommand command;
    if (p->trial.len)
      command = p->trial.at[--p->trial.len];
    else if (rest)
      command = p->commands.at[--rest];
    else
      return true;
    remaining = trial_step(p, command, remaining);
  }
  return remaining == -1;
}

static void add_newlines(DocPrinter *p, uint32_t count, uint32_t indent) {
  if (count > p->pending_newlines)
    p->pending_newlines = count;
  p->pending_indent = indent < MAX_INDENT ? indent : MAX_INDENT;
  p->column = p->pending_indent;
}

static void flush_newlines(DocPrinter *p) {
  Buffer *out = p->out;
  if (!p->pending_newlines)
    return;
  while (out->len && out->text[out->len - 1] == ' ')
    out->text[--out->len] = 0;
  if (p->has_output)
    for (uint32_t i = 0; i < p->pending_newlines; i++)
      buffer_putc(out, '\n');
  p->line_start = out->len;
  for (uint32_t i = 0; i < p->pending_indent; i++)
    buffer_putc(out, ' ');
  p->pending_newlines = 0;
}

static void print_text(DocPrinter *p, const Doc *doc) {
  flush_newlines(p);
  p->has_output = true;
  buffer_add(p->out, doc->text, doc->len);
  if (!doc->forced) {
    p->column += doc->width;
    return;
  }
  size_t tail = 0;
  while (doc->text[doc->len - 1 - tail] != '\n')
    tail++;
  p->line_start = p->out->len - tail;
  p->column = (uint32_t)utf8_columns(doc->text + doc->len - tail, tail);
}

/* Shifts all lines of a comment like its first line. */
static void print_comment(DocPrinter *p, const Doc *doc) {
  flush_newlines(p);
  p->has_output = true;
  int64_t shift = (int64_t)(p->out->len - p->line_start) - doc->column;
  const char *text = doc->text, *end = text + doc->len;
  while (text < end) {
    const char *stop = memchr(text, '\n', (size_t)(end - text));
    const char *next = stop ? stop + 1 : end;
    const char *last = stop ? stop : end;
    while (stop && last > text && strchr(" \t\r", last[-1]))
      last--;
    buffer_add(p->out, text, (size_t)(last - text));
    text = next;
    if (!stop)
      break;
    buffer_putc(p->out, '\n');
    p->line_start = p->out->len;
    bool empty = text < end && (*text == '\n' || *text == '\r');
    for (int64_t i = 0; i < shift && !empty; i++)
      buffer_putc(p->out, ' ');
    for (int64_t i = shift; i < 0 && text < end && *text == ' '; i++)
      text++;
  }
  p->column = (uint32_t)(p->out->len - p->line_start);
}

static void print_command(DocPrinter *p, PrintCommand command) {
  const Doc *doc = command.doc;
  switch (doc->kind) {
  case DOC_TEXT:
    print_text(p, doc);
    break;
  case DOC_COMMENT:
    print_comment(p, doc);
    break;
  case DOC_LINE:
    if (!command.flat) {
      add_newlines(p, 1, command.indent);
    } else if (!p->pending_newlines) {
      buffer_putc(p->out, ' ');
      p->column++;
    }
    break;
  case DOC_HARDLINE:
    add_newlines(p, doc->indent, command.indent);
    break;
  case DOC_BREAK_PARENT:
    break;
  case DOC_NEST:
    push_items(p, &p->commands, doc, command.indent + doc->indent,
               command.flat);
    break;
  case DOC_ALIGN:
    push_items(p, &p->commands, doc, p->column, command.flat);
    break;
  case DOC_GROUP:
    push_items(p, &p->commands, doc, command.indent,
               command.flat || (!doc->forced && fits(p, doc)));
    break;
  case DOC_FLAT:
    push_items(p, &p->commands, doc, command.indent, true);
    break;
  case DOC_CAT:
    push_items(p, &p->commands, doc, command.indent, command.flat);
    break;
  }
}

void doc_print(Buffer *out, const Doc *doc, Arena *arena, uint32_t width) {
  if (!doc)
    return;
  DocPrinter p = {
      .out = out, .arena = arena, .width = width, .line_start = out->len};
  push(&p, &p.commands, doc, 0, false);
  while (p.commands.len)
    print_command(&p, p.commands.at[--p.commands.len]);
}
