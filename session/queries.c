/* Queries to a session: types, values, names, doctests, formatting. */
#include "diagnose/diagnose.h"
#include "session/state.h"
#include "support/intern.h"

#include <string.h>

/* ---- types and values ---- */

typedef struct Query {
  const char *text;
  size_t len;
  const char *type;
  Binding *binding;
  Buffer *out;
  const UnprovedConstraint *unproved;
  uint32_t count;
  TypeLeaves *leaves;
  const Diag *why;
  void **png; /* the bytes of a figure */
  size_t *png_len;
} Query;

/* Parses a text that is one expression.  NULL after an error. */
static Expr *query_parse_expr(Session *s, const Query *query) {
  SourceInput text = {.name = "input", .text = query->text, .len = query->len};
  uint32_t file = session_add_source(s, &text, (Span){0});
  Program program =
      parse_program(&s->sources, file, true, s->interner, s->arena, &s->diags);
  if (s->diags.errors)
    return NULL;
  if (program.dec_count == 1 && program.decs[0]->kind == DEC_EXPR)
    return program.decs[0]->expr;
  Span all = {file, 0, (uint32_t)query->len};
  session_error(s, 605, all, "expected exactly one expression");
  return NULL;
}

static SessionStatus query_expr_type(Session *s, void *arg) {
  Query *query = arg;
  Expr *expr = query_parse_expr(s, query);
  if (expr)
    query->type =
        checker_expr_type(s->checker, s->main_module, expr, &s->diags);
  return query->type ? SESSION_OK : SESSION_ERROR;
}

const char *session_expr_type(Session *s, const char *text, size_t len) {
  Query query = {.text = text, .len = len};
  return session_protected_call(s, query_expr_type, &query) == SESSION_OK
             ? query.type
             : NULL;
}

static SessionStatus query_leaves(Session *s, void *arg) {
  Query *query = arg;
  Binding *binding = checker_find(s->checker, s->main_module, query->text);
  Expr *expr = binding ? NULL : query_parse_expr(s, query);
  bool ok = binding
                ? binding_leaves(s->checker, binding, &s->diags, query->leaves)
                : expr && checker_expr_leaves(s->checker, s->main_module, expr,
                                              &s->diags, query->leaves);
  return ok ? SESSION_OK : SESSION_ERROR;
}

bool session_type_leaves(Session *s, const char *text, size_t len,
                         TypeLeaves *out) {
  Query query = {.text = text, .len = len, .leaves = out};
  return session_protected_call(s, query_leaves, &query) == SESSION_OK;
}

static SessionStatus query_binding(Session *s, void *arg) {
  Query *query = arg;
  query->binding = checker_find(s->checker, s->main_module, query->text);
  return SESSION_OK;
}

Binding *session_find_binding(Session *s, const char *name) {
  Query query = {.text = name};
  session_protected_call(s, query_binding, &query);
  return query.binding;
}

static SessionStatus query_binding_type(Session *s, void *arg) {
  Query *query = arg;
  query->type = binding_type(s->checker, query->binding);
  return SESSION_OK;
}

static SessionStatus query_explanation(Session *s, void *arg) {
  Query *query = arg;
  Diags ignored;
  diags_init(&ignored, s->arena);
  query->why = checker_explain_type(s->checker, query->binding, &ignored);
  return SESSION_OK;
}

const Diag *session_explain_type(Session *s, Binding *binding) {
  Query query = {.binding = binding};
  session_protected_call(s, query_explanation, &query);
  return query.why;
}

const char *session_binding_type(Session *s, Binding *binding) {
  Query query = {.binding = binding};
  session_protected_call(s, query_binding_type, &query);
  return query.type;
}

static SessionStatus query_print(Session *s, void *arg) {
  Query *query = arg;
  const Var *var = binding_var(query->binding);
  ValueHandle *held = var ? eval_global_handle(s->eval, var) : NULL;
  if (!held)
    return SESSION_ERROR;
  bool ok = eval_print(s->eval, held, query->out, &s->diags);
  value_handle_free(s->eval, held);
  return ok ? SESSION_OK : SESSION_ERROR;
}

bool session_binding_text(Session *s, Binding *binding, Buffer *out) {
  Query query = {.binding = binding, .out = out};
  SessionStatus status = session_protected_call(s, query_print, &query);
  if (status != SESSION_OK)
    s->print_status = status;
  return status == SESSION_OK;
}

static SessionStatus query_png(Session *s, void *arg) {
  Query *query = arg;
  const Var *var = binding_var(query->binding);
  ValueHandle *held = var ? eval_global_handle(s->eval, var) : NULL;
  if (!held)
    return SESSION_ERROR;
  bool ok = eval_figure_png(s->eval, held, (FigureSize){0}, query->png,
                            query->png_len, &s->diags);
  value_handle_free(s->eval, held);
  return ok ? SESSION_OK : SESSION_ERROR;
}

bool session_binding_png(Session *s, Binding *binding, void **bytes,
                         size_t *len) {
  Query query = {.binding = binding, .png = bytes, .png_len = len};
  return session_protected_call(s, query_png, &query) == SESSION_OK;
}

/* ---- names ---- */

typedef struct NameCallback {
  void (*name)(void *, const char *);
  void (*binding)(void *, Binding *);
  void *arg;
} NameCallback;

static void call_with_name(void *arg, Binding *binding) {
  NameCallback *each = arg;
  each->name(each->arg, binding_name(binding)->text);
}

void session_each_name(Session *s, void (*f)(void *, const char *name),
                       void *arg) {
  NameCallback each = {.name = f, .arg = arg};
  module_each(s->main_module, call_with_name, &each);
  stdlib_each_name(f, arg);
  for (PrimId id = 1; id < PRIM_COUNT; id++)
    if (strncmp(prim_info[id].name, "op ", 3) != 0)
      f(arg, prim_info[id].name);
  for (Dtype t = 1; t < DT_COUNT; t++)
    f(arg, dtype_info[t].name);
}

void session_each_binding(Session *s, void (*f)(void *, Binding *), void *arg) {
  module_each(s->main_module, f, arg);
}

void session_each_field(Session *s, Binding *binding,
                        void (*f)(void *, const char *name), void *arg) {
  binding_fields(s->checker, binding, f, arg);
}

CheckStats session_stats(const Session *s) {
  return checker_stats(s->checker);
}

static SessionStatus query_unproved(Session *s, void *arg) {
  Query *query = arg;
  query->unproved = checker_unproved(s->checker, &query->count);
  return SESSION_OK;
}

const UnprovedConstraint *session_unproved_constraints(Session *s,
                                                       uint32_t *count) {
  Query query = {0};
  session_protected_call(s, query_unproved, &query);
  *count = query.count;
  return query.unproved;
}

void session_reject_unproved(Session *s) {
  if (session_diags(s)->errors)
    return; /* what an error left unknown would be reported again */
  uint32_t count;
  const UnprovedConstraint *open = checker_run_time_checks(s->checker, &count);
  for (uint32_t i = 0; i < count; i++) {
    Diag *diag = session_error(s, 362, open[i].span, "checked at run time: %s",
                               open[i].text);
    diag->primary_label = open[i].reason;
    if (i == 0)
      diag->help = "without --strict, the program makes such a check when it "
                   "runs";
  }
}

/* ---- examples ---- */

typedef struct DocLines { /* iterates over the lines of a doc comment */
  const char *at;
  const char *text; /* current line, without margins */
  size_t len;
} DocLines;

static bool next_line(DocLines *lines) {
  if (!lines->at || !*lines->at)
    return false;
  const char *p = lines->at, *end = p + strcspn(p, "\n");
  lines->at = *end ? end + 1 : end;
  while (p < end && (*p == ' ' || *p == '\t'))
    p++;
  while (end > p && strchr(" \t\r", end[-1]))
    end--;
  lines->text = p;
  lines->len = (size_t)(end - p);
  return true;
}

static bool starts_with(const DocLines *lines, const char *mark) {
  size_t n = strlen(mark);
  return lines->len >= n && strncmp(lines->text, mark, n) == 0;
}

static void add_line(Buffer *b, const char *text, size_t len) {
  if (b->len)
    buffer_putc(b, '\n');
  buffer_add(b, text, len);
}

static const char *documented_name(const Dec *dec) {
  if (dec->name)
    return dec->name->text;
  if (dec->kind == DEC_FUN)
    return dec->funs[0].name->text;
  return dec->pat && dec->pat->id ? dec->pat->id->text : NULL;
}

typedef VEC(DocTest) DocTests;

/* Collects doctests: `>>> ` with an expression, continued by `... ` lines, then
   the expected output up to an empty line, the next doctest or the end. */
static void add_doc_tests(Session *s, const Dec *dec, DocTests *all) {
  DocLines lines = {.at = dec->doc};
  const Source *source = sources_get(&s->sources, dec->doc_span.file);
  const char *start = strstr(source->text + dec->doc_span.start, dec->doc);
  bool more = next_line(&lines);
  while (more) {
    if (!starts_with(&lines, ">>> ")) {
      more = next_line(&lines);
      continue;
    }
    Buffer text = {.arena = s->arena}, expected = {.arena = s->arena};
    uint32_t at =
        start ? (uint32_t)(start - source->text + (lines.text - dec->doc))
              : dec->doc_span.start;
    do
      add_line(&text, lines.text + 4, lines.len - 4);
    while ((more = next_line(&lines)) && starts_with(&lines, "... "));
    for (; more && lines.len && !starts_with(&lines, ">>> ");
         more = next_line(&lines))
      add_line(&expected, lines.text, lines.len);
    DocTest example = {.span = {dec->doc_span.file, at, dec->doc_span.end},
                       .name = documented_name(dec)};
    example.text = text.text;
    example.expected = expected.text;
    VEC_PUSH(s->arena, *all, example);
  }
}

const DocTest *session_doc_tests(Session *s, uint32_t *count) {
  DocTests all = {0};
  for (uint32_t i = 0; i < s->current_program.dec_count; i++)
    if (s->current_program.decs[i]->doc)
      add_doc_tests(s, s->current_program.decs[i], &all);
  *count = all.len;
  return all.at;
}

/* ---- formatting ---- */

typedef struct FormatRequest {
  const SourceInput *text;
  Buffer *out;
} FormatRequest;

static SessionStatus format(Session *s, void *arg) {
  FormatRequest *f = arg;
  uint32_t file = session_add_source(s, f->text, (Span){0});
  bool ok = file && format_source(&s->sources, file, s->interner, s->arena,
                                  &s->diags, f->out);
  return ok ? SESSION_OK : SESSION_ERROR;
}

bool session_format(Session *s, const SourceInput *text, Buffer *out) {
  FormatRequest f = {text, out};
  return session_protected_call(s, format, &f) == SESSION_OK;
}

static SessionStatus format_quietly(Session *s, void *arg) {
  diags_init(&s->diags, s->arena);
  return format(s, arg);
}

bool session_format_without_diags(Session *s, const SourceInput *text,
                                  Buffer *out) {
  Diags diags = s->diags;
  FormatRequest f = {text, out};
  bool ok = session_protected_call(s, format_quietly, &f) == SESSION_OK;
  s->diags = diags;
  return ok;
}
