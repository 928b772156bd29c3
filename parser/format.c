/* Formats a file: comments, lists and declarations.  Main entry point:
   format_source.  It parses the result again to verify that the tree and the
   comments are unchanged. */
#include "parser/format.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/source.h"

#include <string.h>

#include "parser/parse.h"

Doc *fmt_text(Formatter *f, const char *text) {
  return doc_text(f->arena, text, strlen(text));
}

Doc *fmt_sym(Formatter *f, const Sym *sym) {
  return doc_text(f->arena, sym->text, sym->len);
}

Doc *fmt_name(Formatter *f, const Name *name) {
  if (!name->module)
    return fmt_sym(f, name->id);
  return fmt_text(
      f, arena_printf(f->arena, "%s.%s", name->module->text, name->id->text));
}

/* ---- comments ---- */

bool fmt_newline_between(const Formatter *f, uint32_t from, uint32_t to) {
  return from < to && memchr(f->text + from, '\n', to - from) != NULL;
}

static uint32_t newlines_between(const Formatter *f, uint32_t from,
                                 uint32_t to) {
  uint32_t count = 0;
  for (; from < to; from++)
    count += f->text[from] == '\n';
  return count;
}

bool fmt_has_comment_before(const Formatter *f, uint32_t offset) {
  return f->next_comment < f->comments.len &&
         f->comments.at[f->next_comment].span.start < offset;
}

/* The next comment.  The text of a doc comment is not changed. */
static Doc *next_comment_doc(Formatter *f) {
  Comment comment = f->comments.at[f->next_comment++];
  const char *text = f->text + comment.span.start;
  size_t len = comment.span.end - comment.span.start;
  if (comment.doc)
    return doc_text(f->arena, text, len);
  uint32_t line, column;
  source_line_and_column(f->source, comment.span.start, &line, &column);
  return doc_comment(f->arena, text, len, column - 1);
}

static bool stands_alone(const Formatter *f, uint32_t offset) {
  while (offset && strchr(" \t", f->text[offset - 1]))
    offset--;
  return offset == 0 || f->text[offset - 1] == '\n';
}

Doc *fmt_leading_comments(Formatter *f, uint32_t offset) {
  DocVec all = {0};
  while (fmt_has_comment_before(f, offset)) {
    Span span = f->comments.at[f->next_comment].span;
    ADD_DOC(f, all, next_comment_doc(f));
    uint32_t after = fmt_has_comment_before(f, offset)
                         ? f->comments.at[f->next_comment].span.start
                         : offset;
    bool broken = fmt_newline_between(f, span.end, after);
    ADD_DOC(f, all, broken ? doc_hardline(f->arena) : fmt_text(f, " "));
  }
  return CONCAT_ALL(f, all);
}

Doc *fmt_trailing_comments(Formatter *f, uint32_t offset) {
  DocVec all = {0};
  while (fmt_has_comment_before(f, offset)) {
    bool alone = stands_alone(f, f->comments.at[f->next_comment].span.start);
    ADD_DOC(f, all, alone ? doc_hardline(f->arena) : fmt_text(f, " "));
    ADD_DOC(f, all, next_comment_doc(f));
  }
  return CONCAT_ALL(f, all);
}

static bool ends_line(const Formatter *f, uint32_t offset) {
  while (f->text[offset] && strchr(" \t\r", f->text[offset]))
    offset++;
  return f->text[offset] == '\n' || f->text[offset] == 0;
}

Doc *fmt_line_end_comments(Formatter *f, uint32_t end, uint32_t limit) {
  DocVec all = {0};
  uint32_t i = f->next_comment, last = end;
  while (i < f->comments.len && f->comments.at[i].span.start < limit &&
         !fmt_newline_between(f, last, f->comments.at[i].span.start))
    last = f->comments.at[i++].span.end;
  if (i == f->next_comment || !ends_line(f, last))
    return NULL;
  while (f->next_comment < i) {
    ADD_DOC(f, all, doc_zero_width(fmt_text(f, " ")));
    ADD_DOC(f, all, doc_zero_width(next_comment_doc(f)));
  }
  ADD_DOC(f, all, doc_break_parent(f->arena));
  return CONCAT_ALL(f, all);
}

uint32_t fmt_find_char(const Formatter *f, char c, uint32_t from,
                       uint32_t stop) {
  for (uint32_t i = f->next_comment; from < stop;) {
    while (i < f->comments.len && f->comments.at[i].span.end <= from)
      i++;
    if (i < f->comments.len && f->comments.at[i].span.start == from)
      from = f->comments.at[i].span.end;
    else if (f->text[from] == c)
      return from;
    else
      from++;
  }
  return stop;
}

Doc *fmt_with_comments(Formatter *f, Doc *leading, Doc *body, Span span,
                       bool had_parens, bool parens) {
  bool doc = fmt_has_comment_before(f, span.end) &&
             f->comments.at[f->next_comment].doc;
  if (fmt_has_comment_before(f, span.end) && (had_parens || doc))
    parens = true;
  Doc *trailing = fmt_trailing_comments(f, span.end);
  body = DOC_CONCAT(f, body, trailing);
  if (parens)
    body = DOC_CONCAT(f, fmt_text(f, "("), ALIGN(f, body), fmt_text(f, ")"));
  return DOC_CONCAT(f, leading, body);
}

/* ---- lists ---- */

Doc *fmt_list(Formatter *f, const char *open, const ItemVec *items,
              const char *close, uint32_t end, ListStyle style) {
  DocVec all = {0};
  for (uint32_t i = 0; i < items->len; i++) {
    Doc *comma = i + 1 < items->len ? fmt_text(f, ",") : NULL;
    Doc *item = DOC_CONCAT(f, i ? LINE(f) : NULL, items->at[i].doc, comma);
    bool may_stay = style == LIST_FILL && i && !items->at[i - 1].trailing;
    ADD_DOC(f, all, may_stay ? GROUP(f, item) : item);
    ADD_DOC(f, all, items->at[i].trailing);
  }
  if (style == LIST_BROKEN)
    ADD_DOC(f, all, doc_break_parent(f->arena));
  ADD_DOC(f, all, fmt_trailing_comments(f, end));
  Doc *inside = ALIGN(f, CONCAT_ALL(f, all));
  return GROUP(f, DOC_CONCAT(f, fmt_text(f, open), inside, fmt_text(f, close)));
}

/* ---- declarations ---- */

static Doc *tyvars_doc(Formatter *f, const Dec *dec) {
  if (!dec->tyvar_count)
    return NULL;
  if (dec->tyvar_count == 1)
    return DOC_CONCAT(f, fmt_sym(f, dec->tyvars[0]), fmt_text(f, " "));
  ItemVec all = {0};
  for (uint32_t i = 0; i < dec->tyvar_count; i++)
    ADD_ITEM(f, all, fmt_sym(f, dec->tyvars[i]), NULL);
  return DOC_CONCAT(f, fmt_list(f, "(", &all, ")", 0, LIST_FILL),
                    fmt_text(f, " "));
}

static Doc *type_head(Formatter *f, const char *word, const Dec *dec) {
  Doc *axes = NULL;
  if (dec->has_axes)
    axes = fmt_axes(f, "[", &dec->axes, "]", 0);
  return DOC_CONCAT(f, fmt_text(f, word), tyvars_doc(f, dec),
                    fmt_sym(f, dec->name), axes, fmt_text(f, " ="));
}

/* "head = body".  The body gets its own line if it does not fit. */
static Doc *definition_doc(Formatter *f, Doc *head, Doc *body) {
  return GROUP(f,
               DOC_CONCAT(f, head, NEST(f, 2, DOC_CONCAT(f, LINE(f), body))));
}

static Doc *val_doc(Formatter *f, const Dec *dec) {
  Doc *pat = fmt_pat(f, dec->pat), *type = NULL;
  if (dec->type)
    type = DOC_CONCAT(f, fmt_text(f, " : "), ALIGN(f, fmt_type(f, dec->type)));
  Doc *given = fmt_given(f, &dec->given);
  Doc *head = DOC_CONCAT(f, fmt_text(f, "val "), ALIGN(f, pat), type,
                         NEST(f, 4, given), fmt_text(f, " ="));
  return definition_doc(f, head, fmt_expr(f, dec->expr));
}

static Doc *clause_doc(Formatter *f, const Clause *clause, bool last) {
  DocVec params = {0};
  Doc *leading = fmt_leading_comments(f, clause->span.start);
  for (uint32_t i = 0; i < clause->param_count; i++)
    ADD_DOC(f, params,
            GROUP(f, DOC_CONCAT(f, LINE(f), fmt_param(f, &clause->params[i]))));
  Doc *result = NULL;
  if (clause->result)
    result = GROUP(f, DOC_CONCAT(f, LINE(f), fmt_text(f, ": "),
                                 ALIGN(f, fmt_type(f, clause->result))));
  Doc *given = fmt_given(f, &clause->given);
  Doc *head = DOC_CONCAT(
      f, leading, fmt_sym(f, clause->name),
      NEST(f, 4, DOC_CONCAT(f, CONCAT_ALL(f, params), result, given)),
      fmt_text(f, " ="));
  return definition_doc(f, head, fmt_clause_body(f, clause->body, !last));
}

Doc *fmt_rule_separator(Formatter *f, uint32_t indent, uint32_t from,
                        uint32_t to) {
  uint32_t bar = fmt_find_char(f, '|', from, to);
  Doc *line_end_comments = fmt_line_end_comments(f, from, bar);
  Doc *leading = fmt_leading_comments(f, bar);
  return DOC_CONCAT(f, line_end_comments,
                    NEST(f, indent, DOC_CONCAT(f, LINE(f), leading)),
                    fmt_text(f, "| "));
}

static Doc *funs_doc(Formatter *f, const Dec *dec) {
  DocVec all = {0};
  for (uint32_t i = 0; i < dec->fun_count; i++) {
    const FunDef *fun = &dec->funs[i];
    if (i)
      ADD_DOC(f, all, doc_hardline(f->arena));
    for (uint32_t j = 0; j < fun->clause_count; j++) {
      const Clause *clause = &fun->clauses[j];
      if (j) {
        ADD_DOC(f, all,
                fmt_rule_separator(f, 2, fun->clauses[j - 1].span.end,
                                   clause->span.start));
        ADD_DOC(f, all, doc_break_parent(f->arena));
      } else {
        ADD_DOC(f, all, fmt_text(f, i ? "and " : "fun "));
      }
      Doc *doc = clause_doc(f, clause, j + 1 == fun->clause_count);
      ADD_DOC(f, all, fun->clause_count > 1 ? NEST(f, 4, doc) : doc);
    }
  }
  return CONCAT_ALL(f, all);
}

static uint32_t con_end(const ConDef *con) {
  return con->type ? con->type->span.end : con->span.end;
}

static Doc *datatype_doc(Formatter *f, const Dec *dec) {
  Doc *head = type_head(f, "datatype ", dec);
  DocVec all = {0};
  bool broken = false;
  for (uint32_t i = 0; i < dec->con_count; i++) {
    const ConDef *con = &dec->cons[i];
    if (i) {
      broken |=
          fmt_newline_between(f, dec->cons[i - 1].span.end, con->span.start);
      ADD_DOC(f, all,
              fmt_rule_separator(f, 0, con_end(con - 1), con->span.start));
    }
    Doc *leading = fmt_leading_comments(f, con->span.start), *type = NULL;
    if (con->type)
      type =
          DOC_CONCAT(f, fmt_text(f, " of "), ALIGN(f, fmt_type(f, con->type)));
    ADD_DOC(f, all, DOC_CONCAT(f, leading, fmt_sym(f, con->name), type));
  }
  if (!broken)
    return GROUP(
        f, DOC_CONCAT(f, head,
                      NEST(f, 2, DOC_CONCAT(f, LINE(f), CONCAT_ALL(f, all)))));
  Doc *first = DOC_CONCAT(f, doc_hardline(f->arena), fmt_text(f, "  "));
  return DOC_CONCAT(f, head,
                    NEST(f, 2, DOC_CONCAT(f, first, CONCAT_ALL(f, all))));
}

static Doc *quoted_doc(Formatter *f, const char *text) {
  Buffer out = {.arena = f->arena};
  buffer_putc(&out, '"');
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\')
      buffer_printf(&out, "\\%c", c);
    else
      buffer_printf(&out, c < ' ' || c >= 127 ? "\\x%02x" : "%c", c);
  }
  buffer_putc(&out, '"');
  return doc_text(f->arena, out.text, out.len);
}

static Doc *import_doc(Formatter *f, const Dec *dec) {
  const char *word = dec->kind == DEC_OPEN ? "open " : "import ";
  Doc *leading = fmt_leading_comments(f, dec->span.end);
  Doc *what = dec->path ? quoted_doc(f, dec->path) : fmt_sym(f, dec->id);
  Doc *as =
      dec->as ? DOC_CONCAT(f, fmt_text(f, " as "), fmt_sym(f, dec->as)) : NULL;
  return DOC_CONCAT(f, fmt_text(f, word), leading, what, as);
}

static Doc *dec_doc(Formatter *f, const Dec *dec) {
  switch (dec->kind) {
  case DEC_VAL:
    return val_doc(f, dec);
  case DEC_FUN:
    return funs_doc(f, dec);
  case DEC_TYPE: {
    Doc *head = type_head(f, "type ", dec);
    return definition_doc(f, head, fmt_type(f, dec->type));
  }
  case DEC_DATATYPE:
    return datatype_doc(f, dec);
  case DEC_IMPORT:
  case DEC_OPEN:
    return import_doc(f, dec);
  case DEC_SCHEDULE: /* as they are written */
  case DEC_KERNEL:
    return doc_text(f->arena, f->text + dec->span.start,
                    dec->span.end - dec->span.start);
  case DEC_DO:
    return DOC_CONCAT(f, fmt_text(f, "do "), fmt_expr(f, dec->expr));
  case DEC_EXPR:
    return fmt_expr(f, dec->expr);
  }
  return NULL;
}

/* Adds comments up to an offset, on their own lines or after the previous item.
 *last is the end of that item, or UINT32_MAX at the beginning. */
static void dec_comments(Formatter *f, DocVec *all, uint32_t *last,
                         uint32_t offset) {
  while (fmt_has_comment_before(f, offset)) {
    Span span = f->comments.at[f->next_comment].span;
    uint32_t gap =
        *last == UINT32_MAX ? 1 : newlines_between(f, *last, span.start);
    if (*last != UINT32_MAX)
      ADD_DOC(f, *all,
              gap == 0   ? doc_zero_width(fmt_text(f, " "))
              : gap == 1 ? doc_hardline(f->arena)
                         : doc_blank_line(f->arena));
    Doc *comment = next_comment_doc(f);
    ADD_DOC(f, *all, gap == 0 ? doc_zero_width(comment) : comment);
    *last = span.end;
  }
}

Doc *fmt_decs(Formatter *f, Dec *const *decs, uint32_t count, uint32_t end) {
  DocVec all = {0};
  uint32_t last = UINT32_MAX;
  for (uint32_t i = 0; i < count; i++) {
    const Dec *dec = decs[i];
    dec_comments(f, &all, &last, dec->span.start);
    if (last != UINT32_MAX) {
      uint32_t gap = newlines_between(f, last, dec->span.start);
      ADD_DOC(f, all,
              gap > 1 ? doc_blank_line(f->arena) : doc_hardline(f->arena));
    }
    ADD_DOC(f, all, dec_doc(f, dec));
    ADD_DOC(f, all, fmt_trailing_comments(f, dec->span.end));
    last = dec->span.end;
  }
  dec_comments(f, &all, &last, end);
  return CONCAT_ALL(f, all);
}

/* ---- files ---- */

typedef struct FormatPass { /* a text and its tree */
  ParseState ps;
  Sources sources;
  const char *text;
  size_t len;
} FormatPass;

static bool parse_pass(FormatPass *pass, Sources *sources, uint32_t file,
                       Interner *interner, Arena *arena, Diags *diags) {
  const Source *source = sources_get(sources, file);
  pass->text = source->text;
  pass->len = source->len;
  parse_begin(&pass->ps, sources, file, interner, arena, diags);
  parse_run(&pass->ps, 0, (uint32_t)source->len, TOK_START_PROGRAM);
  return !parse_failed(&pass->ps);
}

/* Removes what was appended to the buffer since its length was `from`, and
   returns it. */
static const char *take_appended(Buffer *out, size_t from, Arena *arena,
                                 size_t *len) {
  *len = out->len - from;
  const char *text = arena_strndup(arena, *len ? out->text + from : "", *len);
  out->len = from;
  return text;
}

static const char *render(const FormatPass *pass, Buffer *out, size_t *len) {
  const ParseState *ps = &pass->ps;
  Formatter f = {.arena = ps->arena,
                 .source = sources_get(ps->sources, ps->file),
                 .text = pass->text,
                 .comments = ps->lexer.comments};
  Doc *doc = fmt_decs(&f, ps->decs.at, ps->decs.len, UINT32_MAX);
  size_t from = out->len;
  doc_print(out, doc, ps->arena, FORMAT_WIDTH);
  if (out->len > from)
    buffer_putc(out, '\n');
  return take_appended(out, from, ps->arena, len);
}

static const char *ast_text(const FormatPass *pass, Buffer *out) {
  Program program = {.decs = pass->ps.decs.at, .dec_count = pass->ps.decs.len};
  size_t from = out->len, len;
  ast_dump(out, &program);
  return take_appended(out, from, pass->ps.arena, &len);
}

/* Parses formatted text.  Returns false if its tree differs. */
static bool has_same_ast(FormatPass *next, const FormatPass *pass,
                         const char *text, size_t len, Buffer *out) {
  const ParseState *ps = &pass->ps;
  Diags ignored_diags;
  diags_init(&ignored_diags, ps->arena);
  sources_init(&next->sources, ps->arena);
  uint32_t file = sources_add(&next->sources, "formatted", text, len, false);
  return parse_pass(next, &next->sources, file, ps->interner, ps->arena,
                    &ignored_diags) &&
         next->ps.lexer.comments.len == ps->lexer.comments.len &&
         strcmp(ast_text(next, out), ast_text(pass, out)) == 0;
}

bool format_source(Sources *sources, uint32_t file, Interner *interner,
                   Arena *arena, Diags *diags, Buffer *out) {
  enum { MAX_PASSES = 6 }; /* passes until the text is stable; usually two */
  FormatPass passes[2];
  FormatPass *pass = &passes[0], *next = &passes[1];
  if (!parse_pass(pass, sources, file, interner, arena, diags))
    return false;
  for (int i = 0; i < MAX_PASSES; i++) {
    size_t len;
    const char *text = render(pass, out, &len);
    if (len == pass->len && memcmp(text, pass->text, len) == 0)
      break;
    if (!has_same_ast(next, pass, text, len, out)) {
      diag_error(diags, 120, (Span){file, 0, 0},
                 "internal error: formatting would change this program");
      return false;
    }
    FormatPass *old = pass;
    pass = next;
    next = old;
  }
  buffer_add(out, pass->text, pass->len);
  return true;
}
