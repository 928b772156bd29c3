/* Hover, document symbols, inlay hints and formatting of the language server.
   Main entry point: lsp_hover. */
#include "cli/lsp/lsp.h"
#include "repl/type_text.h"
#include "support/buffer.h"
#include "support/intern.h"
#include "support/json_writer.h"
#include "support/source.h"
#include "support/utf8.h"

#include <string.h>

enum { MAX_HOVER_TYPE_BYTES = 400 };

/* ---- hover ---- */

static void put_code(Buffer *out, bool markdown, const char *text) {
  buffer_printf(out, markdown ? "```axon\n%s\n```" : "%s", text);
}

/* Writes a doc comment; its examples are formatted as code. */
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

static void put_label(LspRequest *request, const SymbolRef *p, Buffer *code) {
  LabelType l = {.name = p->name};
  if (p->is_definition)
    l.type = editor_ref_type(request->session, p);
  else
    editor_each_label(request->session, p, find_label, &l);
  buffer_printf(code, "~%s%s%s", p->name->text, l.type ? " : " : "",
                l.type ? l.type : "");
}

/* Writes the general type of a name, and its type at this use if that is more
   specific. */
static void put_value(LspRequest *request, const SymbolRef *p, Buffer *code) {
  const char *here = editor_ref_type(request->session, p), *type = here;
  const Var *var = p->binding ? binding_var(p->binding) : NULL;
  if (p->binding && (!var || var->global))
    type = session_binding_type(request->session, p->binding);
  buffer_printf(code, "%s : ", p->name->text);
  type_fold(type ? type : "?", MAX_HOVER_TYPE_BYTES, code);
  if (!p->is_definition && here && type &&
      strncmp(here, type, strlen(here)) != 0) {
    buffer_puts(code, "\n(* here *) ");
    type_fold(here, MAX_HOVER_TYPE_BYTES, code);
  }
}

static void put_name(LspRequest *request, const SymbolRef *p, Buffer *code) {
  const char *type = NULL;
  switch (p->kind) {
  case REF_VALUE:
    put_value(request, p, code);
    return;
  case REF_LABEL:
    put_label(request, p, code);
    return;
  case REF_TYPE: {
    const Source *source =
        p->dec
            ? sources_get(session_sources(request->session), p->dec->span.file)
            : NULL;
    if (source)
      buffer_add(code, source->text + p->dec->span.start,
                 p->dec->span.end - p->dec->span.start);
    else
      buffer_printf(code, "type %s", p->name->text);
    return;
  }
  case REF_MODULE:
    buffer_printf(code, "module %s", p->name->text);
    return;
  case REF_FIELD:
  case REF_SIZE:
    type = editor_ref_type(request->session, p);
    buffer_printf(code, "%s%s%s", p->name->text, type ? " : " : "",
                  type                     ? type
                  : *p->name->text == '\'' ? "  (a type)"
                                           : "  (a size)");
    return;
  case REF_EXPR:
  case REF_NONE:
    break;
  }
}

static void put_hover(LspRequest *request, Span span, const char *code,
                      const char *doc) {
  bool markdown = request->worker->markdown;
  Buffer text = {0};
  put_code(&text, markdown, code);
  if (doc)
    put_doc(&text, markdown, doc);
  buffer_puts(request->out, "{\"contents\":{");
  json_string_field(request->out, "kind", markdown ? "markdown" : "plaintext");
  json_string_field(request->out, "value", text.text);
  buffer_puts(request->out, "},\"range\":");
  lsp_put_span(request, span);
  buffer_putc(request->out, '}');
  buffer_free(&text);
}

void lsp_hover(LspRequest *request) {
  const SymbolRef *name =
      editor_ref_at(request->session, request->file, request->offset);
  Buffer code = {0};
  if (name)
    put_name(request, name, &code);
  if (code.len) {
    put_hover(request, name->span, code.text,
              editor_doc(request->session, name));
  } else {
    const SymbolRef *p = editor_expr_at(request->session, request->offset);
    const char *type = p ? editor_ref_type(request->session, p) : NULL;
    if (type)
      put_hover(request, p->span, type, NULL);
  }
  buffer_free(&code);
}

/* ---- the outline ---- */

enum { /* SymbolKind */
       SYMBOL_MODULE = 2,
       SYMBOL_CLASS = 5,
       SYMBOL_FUNCTION = 12,
       SYMBOL_VARIABLE = 13,
       SYMBOL_CONSTRUCTOR = 22, /* constructors are shown as EnumMember */
};

static const SymbolRef *declared_at(LspRequest *request, Span name) {
  return editor_find_ref(request->session, REF_VALUE, name);
}

static void put_symbol(LspRequest *request, const char *name, int kind,
                       Span whole, Span at) {
  const SymbolRef *p = kind == SYMBOL_CLASS ? NULL : declared_at(request, at);
  const char *type = p ? editor_ref_type(request->session, p) : NULL;
  if (type && kind == SYMBOL_VARIABLE && strstr(type, " -> "))
    kind = SYMBOL_FUNCTION;
  json_open(request->out, NULL, '{');
  json_string_field(request->out, "name", name);
  json_string_field(request->out, "detail", type);
  json_key(request->out, "kind");
  buffer_printf(request->out, "%d,\"range\":", kind);
  lsp_put_span(request, whole);
  buffer_puts(request->out, ",\"selectionRange\":");
  lsp_put_span(request, at);
}

static void put_pattern_symbols(LspRequest *request, const Dec *dec,
                                const Pat *p) {
  if (p->kind == PAT_VAR || p->kind == PAT_AS) {
    Span at = p->id_span.file ? p->id_span : p->span;
    put_symbol(request, p->id->text, SYMBOL_VARIABLE, dec->span, at);
    buffer_putc(request->out, '}');
  }
  for (uint32_t i = 0; i < p->arg_count; i++)
    put_pattern_symbols(request, dec, p->args[i]);
  for (uint32_t i = 0; i < p->field_count; i++)
    if (p->fields[i].pat) {
      put_pattern_symbols(request, dec, p->fields[i].pat);
    } else {
      put_symbol(request, p->fields[i].id->text, SYMBOL_VARIABLE, dec->span,
                 p->fields[i].span);
      buffer_putc(request->out, '}');
    }
}

static void put_type_symbol(LspRequest *request, const Dec *dec) {
  put_symbol(request, dec->name->text, SYMBOL_CLASS, dec->span, dec->name_span);
  if (dec->con_count) {
    json_open(request->out, "children", '[');
    for (uint32_t i = 0; i < dec->con_count; i++) {
      put_symbol(request, dec->cons[i].name->text, SYMBOL_CONSTRUCTOR,
                 dec->cons[i].span, dec->cons[i].span);
      buffer_putc(request->out, '}');
    }
    buffer_putc(request->out, ']');
  }
  buffer_putc(request->out, '}');
}

static void put_dec_symbols(LspRequest *request, const Dec *dec) {
  switch (dec->kind) {
  case DEC_VAL:
    put_pattern_symbols(request, dec, dec->pat);
    return;
  case DEC_FUN:
    for (uint32_t i = 0; i < dec->fun_count; i++) {
      const FunDef *f = &dec->funs[i];
      Span whole =
          span_join(f->name_span, f->clauses[f->clause_count - 1].span);
      put_symbol(request, f->name->text, SYMBOL_FUNCTION,
                 dec->fun_count == 1 ? dec->span : whole, f->name_span);
      buffer_putc(request->out, '}');
    }
    return;
  case DEC_TYPE:
  case DEC_DATATYPE:
    put_type_symbol(request, dec);
    return;
  case DEC_IMPORT:
  case DEC_OPEN:
  case DEC_DO:
  case DEC_SCHEDULE:
  case DEC_KERNEL:
  case DEC_EXPR:
    return;
  }
}

void lsp_document_symbols(LspRequest *request) {
  const Program *program = session_current_program(request->session);
  buffer_putc(request->out, '[');
  for (uint32_t i = 0; i < program->dec_count; i++)
    put_dec_symbols(request, program->decs[i]);
  buffer_putc(request->out, ']');
}

/* ---- hints ---- */

enum {
  MAX_HINT_COLUMNS = 60
}; /* columns; longer types would move the line too far */

typedef struct HintQuery {
  LspRequest *ask;
  uint32_t start, end;
  bool resolve_one; /* only the hint at `start`, with its edits */
} HintQuery;

static void put_edit(LspRequest *request, uint32_t at, const char *text) {
  if (!*text)
    return;
  json_comma(request->out);
  buffer_puts(request->out, "{\"range\":");
  lsp_put_span(request, (Span){request->file, at, at});
  json_string_field(request->out, "newText", text);
  buffer_putc(request->out, '}');
}

static void put_hint_label(LspRequest *request, const InlayHint *hint) {
  bool stage = hint->kind == INLAY_HINT_PIPELINE_STAGE;
  Buffer label = {0};
  buffer_puts(&label, stage ? "" : ": ");
  if (utf8_columns(hint->type, strlen(hint->type)) <= MAX_HINT_COLUMNS)
    buffer_puts(&label, hint->type);
  else
    buffer_printf(&label, "%.*s...", MAX_HINT_COLUMNS - 3, hint->type);
  json_string_field(request->out, "label", label.text);
  if (strlen(hint->type) > MAX_HINT_COLUMNS)
    json_string_field(request->out, "tooltip", hint->type);
  buffer_printf(request->out, ",\"kind\":1,\"padding%s\":true",
                stage ? "Left" : "Right");
  buffer_free(&label);
}

static void put_inlay_hint(void *arg, const InlayHint *hint) {
  const HintQuery *h = arg;
  LspRequest *request = h->ask;
  if (hint->offset < h->start || hint->offset > h->end)
    return;
  if (h->resolve_one && request->out->text[request->out->len - 1] == '}')
    return;
  Position at = lsp_position_of(request->source->text, request->source->len,
                                hint->offset);
  json_comma(request->out);
  buffer_printf(request->out, "{\"position\":{\"line\":%u,\"character\":%u}",
                at.line, at.character);
  put_hint_label(request, hint);
  if (hint->edit_suffix) {
    json_open(request->out, "textEdits", '[');
    put_edit(request, hint->edit_start, hint->edit_prefix);
    put_edit(request, hint->edit_end, hint->edit_suffix);
    buffer_putc(request->out, ']');
  } else if (!h->resolve_one) {
    json_open(request->out, "data", '{');
    json_string_field(request->out, "uri", request->worker->uri);
    buffer_putc(request->out, '}');
  }
  buffer_putc(request->out, '}');
}

/* Edits of a hint are expensive to compute, so the editor requests them for a
   single hint. */
void lsp_inlay_hint_resolve(LspRequest *request) {
  Position at;
  if (!lsp_get_position(lsp_get(request->params, "position"), &at))
    return;
  uint32_t offset =
      (uint32_t)lsp_offset_of(request->source->text, request->source->len, at);
  HintQuery h = {request, offset, offset, true};
  editor_each_inlay_hint(request->session, offset, offset, true, put_inlay_hint,
                         &h);
}

void lsp_inlay_hints(LspRequest *request) {
  Position start, end;
  const Source *source = request->source;
  HintQuery h = {request, 0, (uint32_t)source->len, false};
  if (lsp_get_position(lsp_get(request->params, "range.start"), &start))
    h.start = (uint32_t)lsp_offset_of(source->text, source->len, start);
  if (lsp_get_position(lsp_get(request->params, "range.end"), &end))
    h.end = (uint32_t)lsp_offset_of(source->text, source->len, end);
  buffer_putc(request->out, '[');
  editor_each_inlay_hint(request->session, h.start, h.end, false,
                         put_inlay_hint, &h);
  buffer_putc(request->out, ']');
}

/* ---- layout ---- */

/* Writes the changed lines as one edit, so that the cursor keeps its position
   if possible. */
static void put_changed_lines(LspRequest *request, const char *new,
                              size_t new_len) {
  const char *old = request->source->text;
  size_t len = request->source->len, from = 0, to = len, new_to = new_len;
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
  buffer_puts(request->out, "{\"range\":");
  lsp_put_range(request->out, old, len, from, to);
  json_key(request->out, "newText");
  json_quote_len(request->out, new + from, new_to - from);
  buffer_putc(request->out, '}');
}

void lsp_formatting(LspRequest *request) {
  Buffer out = {0};
  bool ok = session_format_without_diags(request->session,
                                         &request->worker->text, &out);
  if (ok) {
    buffer_putc(request->out, '[');
    put_changed_lines(request, out.text ? out.text : "", out.len);
    buffer_putc(request->out, ']');
  } else {
    request->error_message = "this text has syntax errors: it is not formatted";
  }
  buffer_free(&out);
}
