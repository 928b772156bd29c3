/* Documents, and the choice of their line breaks.  Nothing here recurses. */
#include "parser/pretty.h"

#include <string.h>

typedef enum DocKind {
  DOC_TEXT,
  DOC_COMMENT, /* column: of its first byte in the source */
  DOC_LINE,
  DOC_HARD, /* indent: newlines */
  DOC_BREAK,
  DOC_NEST, /* indent */
  DOC_ALIGN,
  DOC_GROUP,
  DOC_CAT,
} DocKind;

struct Doc {
  DocKind kind;
  bool forced;
  uint32_t width; /* on one line; at most WIDE */
  uint32_t indent, column;
  const char *text;
  size_t len;
  Doc **items; /* of all but texts and breaks */
  uint32_t count;
};

/* Lines this deep are not indented further, so that output stays linear. */
enum { WIDE = 100000, INDENT_MOST = 56 };

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
  size_t width = utf8_width(text, newline ? (size_t)(newline - text) : len);
  doc->width = width < WIDE ? (uint32_t)width : WIDE;
  doc->forced = newline != NULL;
  return doc;
}

Doc *doc_comment(Arena *arena, const char *text, size_t len, uint32_t column) {
  Doc *doc = doc_text(arena, text, len);
  doc->kind = DOC_COMMENT;
  doc->column = column;
  return doc;
}

Doc *doc_hidden(Doc *doc) {
  doc->width = 0;
  return doc;
}

Doc *doc_line(Arena *arena) {
  Doc *doc = doc_new(arena, DOC_LINE);
  doc->width = 1;
  return doc;
}

static Doc *doc_newlines(Arena *arena, uint32_t count) {
  Doc *doc = doc_new(arena, DOC_HARD);
  doc->indent = count;
  doc->forced = true;
  return doc;
}

Doc *doc_hard(Arena *arena) {
  return doc_newlines(arena, 1);
}
Doc *doc_blank(Arena *arena) {
  return doc_newlines(arena, 2);
}

Doc *doc_break(Arena *arena) {
  Doc *doc = doc_new(arena, DOC_BREAK);
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
    doc->width += items[i]->width;
    if (doc->width > WIDE)
      doc->width = WIDE;
  }
  return doc->count ? doc : NULL;
}

static Doc *doc_around(Arena *arena, DocKind kind, uint32_t indent, Doc *body) {
  if (!body)
    return NULL;
  Doc *doc = doc_cat(arena, &body, 1);
  doc->kind = kind;
  doc->indent = indent;
  return doc;
}

Doc *doc_nest(Arena *arena, uint32_t indent, Doc *body) {
  return doc_around(arena, DOC_NEST, indent, body);
}

Doc *doc_align(Arena *arena, Doc *body) {
  return doc_around(arena, DOC_ALIGN, 0, body);
}

Doc *doc_group(Arena *arena, Doc *body) {
  return doc_around(arena, DOC_GROUP, 0, body);
}

bool doc_forced(const Doc *doc) {
  return doc && doc->forced;
}
uint32_t doc_width(const Doc *doc) {
  return doc ? doc->width : 0;
}

/* ---- printing ---- */

typedef struct Task {
  const Doc *doc;
  uint32_t indent;
  bool flat;
} Task;

typedef VEC(Task) TaskVec;

typedef struct Printer {
  Buffer *out;
  Arena *arena;
  uint32_t width, column;
  size_t line_start;         /* of the output's last line */
  uint32_t newlines, indent; /* owed before the next text */
  bool begun;
  TaskVec tasks, probe;
} Printer;

static void push(Printer *p, TaskVec *tasks, const Doc *doc, uint32_t indent,
                 bool flat) {
  VEC_PUSH(p->arena, *tasks, ((Task){doc, indent, flat}));
}

static void push_items(Printer *p, TaskVec *tasks, const Doc *doc,
                       uint32_t indent, bool flat) {
  for (uint32_t i = doc->count; i > 0; i--)
    push(p, tasks, doc->items[i - 1], indent, flat);
}

/* One step of a trial: what is left of the room, or -1 once the line has
 * ended in time. */
static int64_t probe_step(Printer *p, Task task, int64_t room) {
  const Doc *doc = task.doc;
  switch (doc->kind) {
  case DOC_TEXT:
  case DOC_COMMENT:
    room -= doc->width;
    return room >= 0 && doc->forced ? -1 : room >= 0 ? room : -2;
  case DOC_LINE:
    if (!task.flat)
      return -1;
    return room > 0 ? room - 1 : -2;
  case DOC_HARD:
    return -1;
  case DOC_BREAK:
    return room;
  case DOC_NEST:
  case DOC_ALIGN:
  case DOC_GROUP:
  case DOC_CAT:
    push_items(p, &p->probe, doc, 0, task.flat);
    return room;
  }
  return room;
}

/* True if the group, and what follows it up to a break, ends in time. */
static bool fits(Printer *p, const Doc *group) {
  int64_t room = (int64_t)p->width - p->column;
  if ((int64_t)group->width > room)
    return false;
  uint32_t rest = p->tasks.len;
  p->probe.len = 0;
  push(p, &p->probe, group, 0, true);
  while (room >= 0) {
    Task task;
    if (p->probe.len)
      task = p->probe.at[--p->probe.len];
    else if (rest)
      task = p->tasks.at[--rest];
    else
      return true;
    room = probe_step(p, task, room);
  }
  return room == -1;
}

static void newline(Printer *p, uint32_t count, uint32_t indent) {
  if (count > p->newlines)
    p->newlines = count;
  p->indent = indent < INDENT_MOST ? indent : INDENT_MOST;
  p->column = p->indent;
}

static void settle(Printer *p) {
  Buffer *out = p->out;
  if (!p->newlines)
    return;
  while (out->len && out->text[out->len - 1] == ' ')
    out->text[--out->len] = 0;
  if (p->begun)
    for (uint32_t i = 0; i < p->newlines; i++)
      buffer_putc(out, '\n');
  p->line_start = out->len;
  for (uint32_t i = 0; i < p->indent; i++)
    buffer_putc(out, ' ');
  p->newlines = 0;
}

static void print_text(Printer *p, const Doc *doc) {
  settle(p);
  p->begun = true;
  buffer_add(p->out, doc->text, doc->len);
  if (!doc->forced) {
    p->column += doc->width;
    return;
  }
  size_t tail = 0;
  while (doc->text[doc->len - 1 - tail] != '\n')
    tail++;
  p->line_start = p->out->len - tail;
  p->column = (uint32_t)utf8_width(doc->text + doc->len - tail, tail);
}

/* A comment's later lines move as far as its first. */
static void print_comment(Printer *p, const Doc *doc) {
  settle(p);
  p->begun = true;
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

static void print_task(Printer *p, Task task) {
  const Doc *doc = task.doc;
  switch (doc->kind) {
  case DOC_TEXT:
    print_text(p, doc);
    break;
  case DOC_COMMENT:
    print_comment(p, doc);
    break;
  case DOC_LINE:
    if (!task.flat) {
      newline(p, 1, task.indent);
    } else if (!p->newlines) {
      buffer_putc(p->out, ' ');
      p->column++;
    }
    break;
  case DOC_HARD:
    newline(p, doc->indent, task.indent);
    break;
  case DOC_BREAK:
    break;
  case DOC_NEST:
    push_items(p, &p->tasks, doc, task.indent + doc->indent, task.flat);
    break;
  case DOC_ALIGN:
    push_items(p, &p->tasks, doc, p->column, task.flat);
    break;
  case DOC_GROUP:
    push_items(p, &p->tasks, doc, task.indent,
               task.flat || (!doc->forced && fits(p, doc)));
    break;
  case DOC_CAT:
    push_items(p, &p->tasks, doc, task.indent, task.flat);
    break;
  }
}

void doc_print(Buffer *out, const Doc *doc, Arena *arena, uint32_t width) {
  if (!doc)
    return;
  Printer p = {
      .out = out, .arena = arena, .width = width, .line_start = out->len};
  push(&p, &p.tasks, doc, 0, false);
  while (p.tasks.len)
    print_task(&p, p.tasks.at[--p.tasks.len]);
}
