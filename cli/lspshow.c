/* What stands there, for the eye: types and docs, the outline, hints of types,
 * the layout. */
#include "cli/lsp.h"

#include <string.h>

/* ---- hover ---- */

static void put_code(Buffer *out, bool markdown, const char *text) {
  buffer_printf(out, markdown ? "```axon\n%s\n```" : "%s", text);
}

/* A doc comment; its examples are code. */
static void put_doc(Buffer *out, bool markdown, const char *doc) {
  bool code = false;
  buffer_puts(out, "\n\n");
  for (const char *line = doc; *line;) {
    size_t len = strcspn(line, "\n");
    size_t margin = strspn(line, " \t");
    margin = margin < len ? margin : len;
    bool example = strncmp(line + margin, ">>> ", 4) == 0;
    if (markdown && example && !code)
      buffer_puts(out, "\n```axon\n");
    if (markdown && code && margin == len)
      buffer_puts(out, "```\n");
    code = example || (code && margin < len);
    buffer_add(out, line + margin, len - margin);
    line += len + (line[len] == '\n');
    if (*line)
      buffer_putc(out, '\n');
  }
  if (markdown && code)
    buffer_puts(out, "\n```");
}

typedef struct LabelType {
  const Sym *name;
  const char *type;
} LabelType;

static void find_label(void *arg, Sym *name, bool optional, const char *type) {
  LabelType *l = arg;
  (void)optional;
  if (name == l->name)
    l->type = type;
}

static void put_label(Ask *ask, const Place *p, Buffer *code) {
  LabelType l = {.name = p->name};
  if (p->bound)
    l.type = session_place_type(ask->session, p);
  else
    session_labels(ask->session, p, find_label, &l);
  buffer_printf(code, "~%s%s%s", p->name->text, l.type ? " : " : "",
                l.type ? l.type : "");
}

/* The general type of a name, and what it is here where that says more. */
static void put_value(Ask *ask, const Place *p, Buffer *code) {
  const char *here = session_place_type(ask->session, p), *type = here;
  const Var *var = p->binding ? binding_var(p->binding) : NULL;
  if (p->binding && (!var || var->global))
    type = session_binding_type(ask->session, p->binding);
  buffer_printf(code, "%s : %s", p->name->text, type ? type : "?");
  if (!p->bound && here && type && strncmp(here, type, strlen(here)) != 0)
    buffer_printf(code, "\n(* here *) %s", here);
}

static void put_name(Ask *ask, const Place *p, Buffer *code) {
  const char *type = NULL;
  switch (p->kind) {
  case PLACE_VALUE:
    put_value(ask, p, code);
    return;
  case PLACE_LABEL:
    put_label(ask, p, code);
    return;
  case PLACE_TYPE: {
    const Source *source =
        p->dec ? sources_get(session_sources(ask->session), p->dec->span.file)
               : NULL;
    if (source)
      buffer_add(code, source->text + p->dec->span.start,
                 p->dec->span.end - p->dec->span.start);
    else
      buffer_printf(code, "type %s", p->name->text);
    return;
  }
  case PLACE_MODULE:
    buffer_printf(code, "module %s", p->name->text);
    return;
  case PLACE_FIELD:
  case PLACE_SIZE:
    type = session_place_type(ask->session, p);
    buffer_printf(code, "%s%s%s", p->name->text, type ? " : " : "",
                  type             ? type
                  : *p->name->text == '\'' ? "  (a type)"
                                           : "  (a size)");
    return;
  case PLACE_EXPR:
  case PLACE_NONE:
    break;
  }
}

static void out_hover(Ask *ask, Span span, const char *code, const char *doc) {
  bool markdown = ask->work->markdown;
  Buffer text = {0};
  put_code(&text, markdown, code);
  if (doc)
    put_doc(&text, markdown, doc);
  buffer_puts(ask->out, "{\"contents\":{");
  json_field(ask->out, "kind", markdown ? "markdown" : "plaintext");
  json_field(ask->out, "value", text.text);
  buffer_puts(ask->out, "},\"range\":");
  out_span(ask, span);
  buffer_putc(ask->out, '}');
  buffer_free(&text);
}

void ask_hover(Ask *ask) {
  const Place *name = session_name_at(ask->session, ask->file, ask->offset);
  Buffer code = {0};
  if (name)
    put_name(ask, name, &code);
  if (code.len) {
    out_hover(ask, name->span, code.text, session_doc(ask->session, name));
  } else {
    const Place *p = session_expr_at(ask->session, ask->offset);
    const char *type = p ? session_place_type(ask->session, p) : NULL;
    if (type)
      out_hover(ask, p->span, type, NULL);
  }
  buffer_free(&code);
}

/* ---- the outline ---- */

enum { /* SymbolKind */
  SYMBOL_MODULE = 2,
  SYMBOL_CLASS = 5,
  SYMBOL_FUNCTION = 12,
  SYMBOL_VARIABLE = 13,
  SYMBOL_CONSTRUCTOR = 22, /* of an enumeration: EnumMember */
};

static const Place *bound_at(Ask *ask, Span name) {
  return session_place(ask->session, PLACE_VALUE, name);
}

static void out_symbol(Ask *ask, const char *name, int kind, Span whole,
                       Span at) {
  const Place *p = kind == SYMBOL_CLASS ? NULL : bound_at(ask, at);
  const char *type = p ? session_place_type(ask->session, p) : NULL;
  if (type && kind == SYMBOL_VARIABLE && strstr(type, " -> "))
    kind = SYMBOL_FUNCTION;
  json_open(ask->out, NULL, '{');
  json_field(ask->out, "name", name);
  json_field(ask->out, "detail", type);
  json_key(ask->out, "kind");
  buffer_printf(ask->out, "%d,\"range\":", kind);
  out_span(ask, whole);
  buffer_puts(ask->out, ",\"selectionRange\":");
  out_span(ask, at);
}

static void out_pattern(Ask *ask, const Dec *dec, const Pat *p) {
  if (p->kind == PAT_VAR || p->kind == PAT_AS) {
    Span at = p->id_span.file ? p->id_span : p->span;
    out_symbol(ask, p->id->text, SYMBOL_VARIABLE, dec->span, at);
    buffer_putc(ask->out, '}');
  }
  for (uint32_t i = 0; i < p->arg_count; i++)
    out_pattern(ask, dec, p->args[i]);
  for (uint32_t i = 0; i < p->field_count; i++)
    if (p->fields[i].pat) {
      out_pattern(ask, dec, p->fields[i].pat);
    } else {
      out_symbol(ask, p->fields[i].id->text, SYMBOL_VARIABLE, dec->span,
                 p->fields[i].span);
      buffer_putc(ask->out, '}');
    }
}

static void out_type(Ask *ask, const Dec *dec) {
  out_symbol(ask, dec->name->text, SYMBOL_CLASS, dec->span, dec->name_span);
  if (dec->con_count) {
    json_open(ask->out, "children", '[');
    for (uint32_t i = 0; i < dec->con_count; i++) {
      out_symbol(ask, dec->cons[i].name->text, SYMBOL_CONSTRUCTOR,
                 dec->cons[i].span, dec->cons[i].span);
      buffer_putc(ask->out, '}');
    }
    buffer_putc(ask->out, ']');
  }
  buffer_putc(ask->out, '}');
}

static void out_dec(Ask *ask, const Dec *dec) {
  switch (dec->kind) {
  case DEC_VAL:
    out_pattern(ask, dec, dec->pat);
    return;
  case DEC_FUN:
    for (uint32_t i = 0; i < dec->fun_count; i++) {
      const Fun *f = &dec->funs[i];
      Span whole = span_join(f->name_span,
                             f->clauses[f->clause_count - 1].span);
      out_symbol(ask, f->name->text, SYMBOL_FUNCTION,
                 dec->fun_count == 1 ? dec->span : whole, f->name_span);
      buffer_putc(ask->out, '}');
    }
    return;
  case DEC_TYPE:
  case DEC_DATATYPE:
    out_type(ask, dec);
    return;
  case DEC_IMPORT:
  case DEC_OPEN:
  case DEC_DO:
  case DEC_EXPR:
    return;
  }
}

void ask_symbols(Ask *ask) {
  const Program *program = session_program(ask->session);
  buffer_putc(ask->out, '[');
  for (uint32_t i = 0; i < program->dec_count; i++)
    out_dec(ask, program->decs[i]);
  buffer_putc(ask->out, ']');
}

/* ---- hints ---- */

enum { HINT_COLUMNS = 60 }; /* a longer type would push the line away */

typedef struct Hints {
  Ask *ask;
  uint32_t start, end;
  bool one; /* the one at `start`, as it is wanted now with its edits */
} Hints;

static void out_edit(Ask *ask, uint32_t at, const char *text) {
  if (!*text)
    return;
  json_comma(ask->out);
  buffer_puts(ask->out, "{\"range\":");
  out_span(ask, (Span){ask->file, at, at});
  json_field(ask->out, "newText", text);
  buffer_putc(ask->out, '}');
}

static void out_label(Ask *ask, const Hint *hint) {
  bool stage = hint->kind == HINT_STAGE;
  Buffer label = {0};
  buffer_puts(&label, stage ? "" : ": ");
  if (utf8_width(hint->type, strlen(hint->type)) <= HINT_COLUMNS)
    buffer_puts(&label, hint->type);
  else
    buffer_printf(&label, "%.*s...", HINT_COLUMNS - 3, hint->type);
  json_field(ask->out, "label", label.text);
  if (strlen(hint->type) > HINT_COLUMNS)
    json_field(ask->out, "tooltip", hint->type);
  buffer_printf(ask->out, ",\"kind\":1,\"padding%s\":true",
                stage ? "Left" : "Right");
  buffer_free(&label);
}

static void out_hint(void *arg, const Hint *hint) {
  const Hints *h = arg;
  Ask *ask = h->ask;
  if (hint->at < h->start || hint->at > h->end)
    return;
  if (h->one && ask->out->text[ask->out->len - 1] == '}')
    return;
  Position at = lsp_position(ask->source->text, ask->source->len, hint->at);
  json_comma(ask->out);
  buffer_printf(ask->out, "{\"position\":{\"line\":%u,\"character\":%u}",
                at.line, at.character);
  out_label(ask, hint);
  if (hint->behind) {
    json_open(ask->out, "textEdits", '[');
    out_edit(ask, hint->before_at, hint->before);
    out_edit(ask, hint->behind_at, hint->behind);
    buffer_putc(ask->out, ']');
  } else if (!h->one) {
    json_open(ask->out, "data", '{');
    json_field(ask->out, "uri", ask->work->uri);
    buffer_putc(ask->out, '}');
  }
  buffer_putc(ask->out, '}');
}

/* What writes it takes some time to find out: it is asked for one alone. */
void ask_hint_edits(Ask *ask) {
  Position at;
  if (!lsp_get_position(lsp_get(ask->params, "position"), &at))
    return;
  uint32_t offset = (uint32_t)lsp_offset(ask->source->text,
                                         ask->source->len, at);
  Hints h = {ask, offset, offset, true};
  session_each_hint(ask->session, offset, offset, true, out_hint, &h);
}

void ask_hints(Ask *ask) {
  Position start, end;
  const Source *source = ask->source;
  Hints h = {ask, 0, (uint32_t)source->len, false};
  if (lsp_get_position(lsp_get(ask->params, "range.start"), &start))
    h.start = (uint32_t)lsp_offset(source->text, source->len, start);
  if (lsp_get_position(lsp_get(ask->params, "range.end"), &end))
    h.end = (uint32_t)lsp_offset(source->text, source->len, end);
  buffer_putc(ask->out, '[');
  session_each_hint(ask->session, h.start, h.end, false, out_hint, &h);
  buffer_putc(ask->out, ']');
}

/* ---- layout ---- */

/* The lines that change, as one edit: the cursor stays where it can. */
static void out_changed(Ask *ask, const char *new, size_t new_len) {
  const char *old = ask->source->text;
  size_t len = ask->source->len, from = 0, to = len, new_to = new_len;
  size_t line = 0;
  for (; from < len && from < new_len && old[from] == new[from]; from++)
    if (old[from] == '\n')
      line = from + 1;
  if (from == len && len == new_len)
    return;
  from = line;
  while (to > from && new_to > from && old[to - 1] == new[new_to - 1])
    to--, new_to--;
  while (to < len && to > 0 && old[to - 1] != '\n')
    to++, new_to++;
  buffer_puts(ask->out, "{\"range\":");
  out_range(ask->out, old, len, from, to);
  json_key(ask->out, "newText");
  json_text_len(ask->out, new + from, new_to - from);
  buffer_putc(ask->out, '}');
}

void ask_formatting(Ask *ask) {
  Buffer out = {0};
  bool ok = session_format_quietly(ask->session, &ask->work->text, &out);
  if (ok) {
    buffer_putc(ask->out, '[');
    out_changed(ask, out.text ? out.text : "", out.len);
    buffer_putc(ask->out, ']');
  } else {
    ask->refused = "this text has errors of syntax: it stays as it is";
  }
  buffer_free(&out);
}
