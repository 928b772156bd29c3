/* Formatting a file: comments, lists and declarations; and the proof, by
 * parsing again, that the meaning and the comments are as they were. */
#include "parser/format.h"

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

bool fmt_pending(const Formatter *f, uint32_t offset) {
  return f->next < f->comments.len &&
         f->comments.at[f->next].span.start < offset;
}

/* The next comment; its text is not touched if it is documentation. */
static Doc *take_comment(Formatter *f) {
  Comment comment = f->comments.at[f->next++];
  const char *text = f->text + comment.span.start;
  size_t len = comment.span.end - comment.span.start;
  if (comment.doc)
    return doc_text(f->arena, text, len);
  uint32_t line, column;
  source_place(f->source, comment.span.start, &line, &column);
  return doc_comment(f->arena, text, len, column - 1);
}

static bool own_line(const Formatter *f, uint32_t offset) {
  while (offset && strchr(" \t", f->text[offset - 1]))
    offset--;
  return offset == 0 || f->text[offset - 1] == '\n';
}

Doc *fmt_lead(Formatter *f, uint32_t offset) {
  DocVec all = {0};
  while (fmt_pending(f, offset)) {
    Span span = f->comments.at[f->next].span;
    ADD(f, all, take_comment(f));
    uint32_t after =
        fmt_pending(f, offset) ? f->comments.at[f->next].span.start : offset;
    bool broken = fmt_newline_between(f, span.end, after);
    ADD(f, all, broken ? doc_hard(f->arena) : fmt_text(f, " "));
  }
  return ALL(f, all);
}

Doc *fmt_tail(Formatter *f, uint32_t offset) {
  DocVec all = {0};
  while (fmt_pending(f, offset)) {
    bool alone = own_line(f, f->comments.at[f->next].span.start);
    ADD(f, all, alone ? doc_hard(f->arena) : fmt_text(f, " "));
    ADD(f, all, take_comment(f));
  }
  return ALL(f, all);
}

static bool ends_line(const Formatter *f, uint32_t offset) {
  while (f->text[offset] && strchr(" \t\r", f->text[offset]))
    offset++;
  return f->text[offset] == '\n' || f->text[offset] == 0;
}

Doc *fmt_behind(Formatter *f, uint32_t end, uint32_t limit) {
  DocVec all = {0};
  uint32_t i = f->next, last = end;
  while (i < f->comments.len && f->comments.at[i].span.start < limit &&
         !fmt_newline_between(f, last, f->comments.at[i].span.start))
    last = f->comments.at[i++].span.end;
  if (i == f->next || !ends_line(f, last))
    return NULL;
  while (f->next < i) {
    ADD(f, all, doc_hidden(fmt_text(f, " ")));
    ADD(f, all, doc_hidden(take_comment(f)));
  }
  ADD(f, all, doc_break(f->arena));
  return ALL(f, all);
}

uint32_t fmt_find(const Formatter *f, char c, uint32_t from, uint32_t stop) {
  for (uint32_t i = f->next; from < stop;) {
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

Doc *fmt_wrap(Formatter *f, Doc *lead, Doc *body, Span span, bool had_parens,
              bool parens) {
  bool doc = fmt_pending(f, span.end) && f->comments.at[f->next].doc;
  if (fmt_pending(f, span.end) && (had_parens || doc))
    parens = true;
  Doc *tail = fmt_tail(f, span.end);
  body = CAT(f, body, tail);
  if (parens)
    body = CAT(f, fmt_text(f, "("), ALIGN(f, body), fmt_text(f, ")"));
  return CAT(f, lead, body);
}

/* ---- lists ---- */

Doc *fmt_list(Formatter *f, const char *open, const ItemVec *items,
              const char *close, uint32_t end, ListStyle style) {
  DocVec all = {0};
  for (uint32_t i = 0; i < items->len; i++) {
    Doc *comma = i + 1 < items->len ? fmt_text(f, ",") : NULL;
    Doc *item = CAT(f, i ? LINE(f) : NULL, items->at[i].doc, comma);
    bool may_stay = style == LIST_FILLS && i && !items->at[i - 1].behind;
    ADD(f, all, may_stay ? GROUP(f, item) : item);
    ADD(f, all, items->at[i].behind);
  }
  if (style == LIST_BROKEN)
    ADD(f, all, doc_break(f->arena));
  ADD(f, all, fmt_tail(f, end));
  Doc *inside = ALIGN(f, ALL(f, all));
  return GROUP(f, CAT(f, fmt_text(f, open), inside, fmt_text(f, close)));
}

/* ---- declarations ---- */

static Doc *tyvars_doc(Formatter *f, const Dec *dec) {
  if (!dec->tyvar_count)
    return NULL;
  if (dec->tyvar_count == 1)
    return CAT(f, fmt_sym(f, dec->tyvars[0]), fmt_text(f, " "));
  ItemVec all = {0};
  for (uint32_t i = 0; i < dec->tyvar_count; i++)
    ITEM(f, all, fmt_sym(f, dec->tyvars[i]), NULL);
  return CAT(f, fmt_list(f, "(", &all, ")", 0, LIST_FILLS), fmt_text(f, " "));
}

static Doc *type_head(Formatter *f, const char *word, const Dec *dec) {
  Doc *axes = NULL;
  if (dec->has_axes)
    axes = fmt_axes(f, "[", &dec->axes, "]", 0);
  return CAT(f, fmt_text(f, word), tyvars_doc(f, dec), fmt_sym(f, dec->name),
             axes, fmt_text(f, " ="));
}

/* "head = body": the body on a line of its own if it does not fit. */
static Doc *define(Formatter *f, Doc *head, Doc *body) {
  return GROUP(f, CAT(f, head, NEST(f, 2, CAT(f, LINE(f), body))));
}

static Doc *val_doc(Formatter *f, const Dec *dec) {
  Doc *pat = fmt_pat(f, dec->pat), *type = NULL;
  if (dec->type)
    type = CAT(f, fmt_text(f, " : "), ALIGN(f, fmt_type(f, dec->type)));
  Doc *given = fmt_given(f, &dec->given);
  Doc *head = CAT(f, fmt_text(f, "val "), ALIGN(f, pat), type,
                  NEST(f, 4, given), fmt_text(f, " ="));
  return define(f, head, fmt_expr(f, dec->expr));
}

static Doc *clause_doc(Formatter *f, const Clause *clause, bool last) {
  DocVec params = {0};
  Doc *lead = fmt_lead(f, clause->span.start);
  for (uint32_t i = 0; i < clause->param_count; i++)
    ADD(f, params, GROUP(f, CAT(f, LINE(f), fmt_param(f, &clause->params[i]))));
  Doc *result = NULL;
  if (clause->result)
    result = GROUP(f, CAT(f, LINE(f), fmt_text(f, ": "),
                          ALIGN(f, fmt_type(f, clause->result))));
  Doc *given = fmt_given(f, &clause->given);
  Doc *head =
      CAT(f, lead, fmt_sym(f, clause->name),
          NEST(f, 4, CAT(f, ALL(f, params), result, given)), fmt_text(f, " ="));
  return define(f, head, fmt_body(f, clause->body, !last));
}

Doc *fmt_bar(Formatter *f, uint32_t indent, uint32_t from, uint32_t to) {
  uint32_t bar = fmt_find(f, '|', from, to);
  Doc *behind = fmt_behind(f, from, bar);
  Doc *lead = fmt_lead(f, bar);
  return CAT(f, behind, NEST(f, indent, CAT(f, LINE(f), lead)),
             fmt_text(f, "| "));
}

static Doc *funs_doc(Formatter *f, const Dec *dec) {
  DocVec all = {0};
  for (uint32_t i = 0; i < dec->fun_count; i++) {
    const Fun *fun = &dec->funs[i];
    if (i)
      ADD(f, all, doc_hard(f->arena));
    for (uint32_t j = 0; j < fun->clause_count; j++) {
      const Clause *clause = &fun->clauses[j];
      if (j) {
        ADD(f, all,
            fmt_bar(f, 2, fun->clauses[j - 1].span.end, clause->span.start));
        ADD(f, all, doc_break(f->arena));
      } else {
        ADD(f, all, fmt_text(f, i ? "and " : "fun "));
      }
      Doc *doc = clause_doc(f, clause, j + 1 == fun->clause_count);
      ADD(f, all, fun->clause_count > 1 ? NEST(f, 4, doc) : doc);
    }
  }
  return ALL(f, all);
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
      ADD(f, all, fmt_bar(f, 0, con_end(con - 1), con->span.start));
    }
    Doc *lead = fmt_lead(f, con->span.start), *type = NULL;
    if (con->type)
      type = CAT(f, fmt_text(f, " of "), ALIGN(f, fmt_type(f, con->type)));
    ADD(f, all, CAT(f, lead, fmt_sym(f, con->name), type));
  }
  if (!broken)
    return GROUP(f, CAT(f, head, NEST(f, 2, CAT(f, LINE(f), ALL(f, all)))));
  Doc *first = CAT(f, doc_hard(f->arena), fmt_text(f, "  "));
  return CAT(f, head, NEST(f, 2, CAT(f, first, ALL(f, all))));
}

static Doc *quoted_doc(Formatter *f, const char *text) {
  char *out = arena_alloc(f->arena, strlen(text) * 4 + 3);
  size_t len = 0;
  out[len++] = '"';
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') {
      out[len++] = '\\';
      out[len++] = (char)c;
    } else if (c < ' ' || c >= 127) {
      static const char hex[] = "0123456789abcdef";
      memcpy(out + len, "\\x", 2);
      out[len + 2] = hex[c >> 4];
      out[len + 3] = hex[c & 15];
      len += 4;
    } else {
      out[len++] = (char)c;
    }
  }
  out[len++] = '"';
  return doc_text(f->arena, out, len);
}

static Doc *import_doc(Formatter *f, const Dec *dec) {
  const char *word = dec->kind == DEC_OPEN ? "open " : "import ";
  Doc *lead = fmt_lead(f, dec->span.end);
  Doc *what = dec->path ? quoted_doc(f, dec->path) : fmt_sym(f, dec->id);
  Doc *as = dec->as ? CAT(f, fmt_text(f, " as "), fmt_sym(f, dec->as)) : NULL;
  return CAT(f, fmt_text(f, word), lead, what, as);
}

static Doc *dec_doc(Formatter *f, const Dec *dec) {
  switch (dec->kind) {
  case DEC_VAL:
    return val_doc(f, dec);
  case DEC_FUN:
    return funs_doc(f, dec);
  case DEC_TYPE: {
    Doc *head = type_head(f, "type ", dec);
    return define(f, head, fmt_type(f, dec->type));
  }
  case DEC_DATATYPE:
    return datatype_doc(f, dec);
  case DEC_IMPORT:
  case DEC_OPEN:
    return import_doc(f, dec);
  case DEC_DO:
    return CAT(f, fmt_text(f, "do "), fmt_expr(f, dec->expr));
  case DEC_EXPR:
    return fmt_expr(f, dec->expr);
  }
  return NULL;
}

/* Comments up to an offset, on their own lines or behind what came last;
 * *last is the end of what came last, or UINT32_MAX at the beginning. */
static void dec_comments(Formatter *f, DocVec *all, uint32_t *last,
                         uint32_t offset) {
  while (fmt_pending(f, offset)) {
    Span span = f->comments.at[f->next].span;
    uint32_t gap =
        *last == UINT32_MAX ? 1 : newlines_between(f, *last, span.start);
    if (*last != UINT32_MAX)
      ADD(f, *all,
          gap == 0   ? doc_hidden(fmt_text(f, " "))
          : gap == 1 ? doc_hard(f->arena)
                     : doc_blank(f->arena));
    Doc *comment = take_comment(f);
    ADD(f, *all, gap == 0 ? doc_hidden(comment) : comment);
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
      ADD(f, all, gap > 1 ? doc_blank(f->arena) : doc_hard(f->arena));
    }
    ADD(f, all, dec_doc(f, dec));
    ADD(f, all, fmt_tail(f, dec->span.end));
    last = dec->span.end;
  }
  dec_comments(f, &all, &last, end);
  return ALL(f, all);
}

/* ---- files ---- */

typedef struct Round { /* a text and what it parses to */
  ParseState ps;
  Sources sources;
  const char *text;
  size_t len;
} Round;

static bool parse_round(Round *round, Sources *sources, uint32_t file,
                        Interner *interner, Arena *arena, Diags *diags) {
  const Source *source = sources_get(sources, file);
  round->text = source->text;
  round->len = source->len;
  parse_begin(&round->ps, sources, file, interner, arena, diags);
  parse_run(&round->ps, 0, (uint32_t)source->len, TOK_START_PROGRAM);
  return !parse_failed(&round->ps);
}

/* What was appended to the buffer since it was `from` long, taken off it. */
static const char *take(Buffer *out, size_t from, Arena *arena, size_t *len) {
  *len = out->len - from;
  const char *text = arena_text(arena, *len ? out->text + from : "", *len);
  out->len = from;
  return text;
}

static const char *render(const Round *round, Buffer *out, size_t *len) {
  const ParseState *ps = &round->ps;
  Formatter f = {.arena = ps->arena,
                 .source = sources_get(ps->sources, ps->file),
                 .text = round->text,
                 .comments = ps->lexer.comments};
  Doc *doc = fmt_decs(&f, ps->decs.at, ps->decs.len, UINT32_MAX);
  size_t from = out->len;
  doc_print(out, doc, ps->arena, FORMAT_WIDTH);
  if (out->len > from)
    buffer_putc(out, '\n');
  return take(out, from, ps->arena, len);
}

static const char *meaning(const Round *round, Buffer *out) {
  Program program = {round->ps.decs.at, round->ps.decs.len, false};
  size_t from = out->len, len;
  ast_dump(out, &program);
  return take(out, from, round->ps.arena, &len);
}

/* Parses formatted text: false if it says something else than before. */
static bool same_meaning(Round *next, const Round *round, const char *text,
                         size_t len, Buffer *out) {
  const ParseState *ps = &round->ps;
  Diags unseen;
  diags_init(&unseen, ps->arena);
  sources_init(&next->sources, ps->arena);
  uint32_t file = sources_add(&next->sources, "formatted", text, len, false);
  return parse_round(next, &next->sources, file, ps->interner, ps->arena,
                     &unseen) &&
         next->ps.lexer.comments.len == ps->lexer.comments.len &&
         strcmp(meaning(next, out), meaning(round, out)) == 0;
}

bool format_source(Sources *sources, uint32_t file, Interner *interner,
                   Arena *arena, Diags *diags, Buffer *out) {
  enum { ROUNDS = 6 }; /* until the text stays as it is: two, mostly */
  Round rounds[2];
  Round *round = &rounds[0], *next = &rounds[1];
  if (!parse_round(round, sources, file, interner, arena, diags))
    return false;
  for (int i = 0; i < ROUNDS; i++) {
    size_t len;
    const char *text = render(round, out, &len);
    if (len == round->len && memcmp(text, round->text, len) == 0)
      break;
    if (!same_meaning(next, round, text, len, out)) {
      diag_error(diags, 120, (Span){file, 0, 0},
                 "compiler bug: formatting would change this program");
      return false;
    }
    Round *old = round;
    round = next;
    next = old;
  }
  buffer_add(out, round->text, round->len);
  return true;
}
