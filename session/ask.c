/* What a session can be asked: types, values, names, examples, formatting. */
#include "session/internal.h"

#include <string.h>

/* ---- types and values ---- */

typedef struct Ask {
  const char *text;
  size_t len;
  const char *type;
  Binding *binding;
  Buffer *out;
  const OpenConstraint *open;
  uint32_t count;
  Leaves *leaves;
  const Diag *why;
} Ask;

/* The one expression that a text consists of; NULL after an error. */
static Expr *ask_expr(Session *s, const Ask *ask) {
  SessionText text = {.name = "input", .text = ask->text, .len = ask->len};
  uint32_t file = session_add_text(s, &text, (Span){0});
  Program program = parse_program(&s->sources, file, true, s->interner,
                                  s->arena, &s->diags);
  if (s->diags.errors)
    return NULL;
  if (program.dec_count == 1 && program.decs[0]->kind == DEC_EXPR)
    return program.decs[0]->expr;
  Span all = {file, 0, (uint32_t)ask->len};
  session_error(s, 605, all, "this is not one expression");
  return NULL;
}

static SessionStatus ask_expr_type(Session *s, void *arg) {
  Ask *ask = arg;
  Expr *expr = ask_expr(s, ask);
  if (expr)
    ask->type = checker_expr_type(s->checker, s->module, expr, &s->diags);
  return ask->type ? SESSION_OK : SESSION_ERROR;
}

const char *session_expr_type(Session *s, const char *text, size_t len) {
  Ask ask = {.text = text, .len = len};
  return session_guard(s, ask_expr_type, &ask) == SESSION_OK ? ask.type : NULL;
}

static SessionStatus ask_leaves(Session *s, void *arg) {
  Ask *ask = arg;
  Binding *binding = checker_find(s->checker, s->module, ask->text);
  Expr *expr = binding ? NULL : ask_expr(s, ask);
  bool ok = binding ? binding_leaves(s->checker, binding, &s->diags,
                                     ask->leaves)
                    : expr && checker_expr_leaves(s->checker, s->module, expr,
                                                  &s->diags, ask->leaves);
  return ok ? SESSION_OK : SESSION_ERROR;
}

bool session_leaves(Session *s, const char *text, size_t len, Leaves *out) {
  Ask ask = {.text = text, .len = len, .leaves = out};
  return session_guard(s, ask_leaves, &ask) == SESSION_OK;
}

static SessionStatus ask_find(Session *s, void *arg) {
  Ask *ask = arg;
  ask->binding = checker_find(s->checker, s->module, ask->text);
  return SESSION_OK;
}

Binding *session_find(Session *s, const char *name) {
  Ask ask = {.text = name};
  session_guard(s, ask_find, &ask);
  return ask.binding;
}

static SessionStatus ask_type(Session *s, void *arg) {
  Ask *ask = arg;
  ask->type = binding_type(s->checker, ask->binding);
  return SESSION_OK;
}

static SessionStatus ask_why(Session *s, void *arg) {
  Ask *ask = arg;
  Diags told;
  diags_init(&told, s->arena);
  ask->why = checker_why(s->checker, ask->binding, &told);
  return SESSION_OK;
}

const Diag *session_why(Session *s, Binding *binding) {
  Ask ask = {.binding = binding};
  session_guard(s, ask_why, &ask);
  return ask.why;
}

const char *session_binding_type(Session *s, Binding *binding) {
  Ask ask = {.binding = binding};
  session_guard(s, ask_type, &ask);
  return ask.type;
}

static SessionStatus ask_text(Session *s, void *arg) {
  Ask *ask = arg;
  const Var *var = binding_var(ask->binding);
  ValueHandle *held = var ? eval_global(s->eval, var) : NULL;
  if (!held)
    return SESSION_ERROR;
  bool ok = eval_print(s->eval, held, ask->out, &s->diags);
  held_free(s->eval, held);
  return ok ? SESSION_OK : SESSION_ERROR;
}

bool session_binding_text(Session *s, Binding *binding, Buffer *out) {
  Ask ask = {.binding = binding, .out = out};
  SessionStatus status = session_guard(s, ask_text, &ask);
  if (status != SESSION_OK)
    s->shown = status;
  return status == SESSION_OK;
}

/* ---- names ---- */

typedef struct Each {
  void (*name)(void *, const char *);
  void (*binding)(void *, Binding *);
  void *arg;
} Each;

static void each_binding(void *arg, Binding *binding) {
  Each *each = arg;
  each->name(each->arg, binding_name(binding)->text);
}

void session_each_name(Session *s, void (*f)(void *, const char *name),
                       void *arg) {
  Each each = {.name = f, .arg = arg};
  module_each(s->module, each_binding, &each);
  library_each_name(f, arg);
  for (PrimId id = 1; id < PRIM_COUNT; id++)
    if (strncmp(prim_info[id].name, "op ", 3) != 0)
      f(arg, prim_info[id].name);
  for (Dtype t = 1; t < DT_COUNT; t++)
    f(arg, dtype_info[t].name);
}

void session_each_own(Session *s, void (*f)(void *, Binding *), void *arg) {
  module_each(s->module, f, arg);
}

void session_fields(Session *s, Binding *binding,
                    void (*f)(void *, const char *name), void *arg) {
  binding_fields(s->checker, binding, f, arg);
}

CheckStats session_stats(const Session *s) { return checker_stats(s->checker); }

static SessionStatus ask_open(Session *s, void *arg) {
  Ask *ask = arg;
  ask->open = checker_open(s->checker, &ask->count);
  return SESSION_OK;
}

const OpenConstraint *session_open_constraints(Session *s, uint32_t *count) {
  Ask ask = {0};
  session_guard(s, ask_open, &ask);
  *count = ask.count;
  return ask.open;
}

void session_refuse_open(Session *s) {
  uint32_t count;
  const OpenConstraint *open = session_open_constraints(s, &count);
  for (uint32_t i = 0; i < count; i++)
    if (!open[i].name) {
      Diag *diag = session_error(s, 362, open[i].span,
                                 "only the running program can check: %s",
                                 open[i].text);
      diag->label = open[i].reason;
    }
}

/* ---- examples ---- */

typedef struct Lines { /* walks the lines of a doc comment */
  const char *at;
  const char *text; /* of the line at hand, without margins */
  size_t len;
} Lines;

static bool next_line(Lines *lines) {
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

static bool begins(const Lines *lines, const char *mark) {
  size_t n = strlen(mark);
  return lines->len >= n && strncmp(lines->text, mark, n) == 0;
}

static void add_line(Buffer *b, const char *text, size_t len) {
  if (b->len)
    buffer_putc(b, '\n');
  buffer_add(b, text, len);
}

static const char *documented(const Dec *dec) {
  if (dec->name)
    return dec->name->text;
  if (dec->kind == DEC_FUN)
    return dec->funs[0].name->text;
  return dec->pat && dec->pat->id ? dec->pat->id->text : NULL;
}

typedef VEC(Example) Examples;

/* An example is `>>> ` and a line, `... ` lines that go on with it, and then
 * what it prints, up to an empty line, the next example or the end. */
static void add_examples(Session *s, const Dec *dec, Examples *all) {
  Lines lines = {.at = dec->doc};
  const Source *source = sources_get(&s->sources, dec->doc_span.file);
  const char *start = strstr(source->text + dec->doc_span.start, dec->doc);
  bool more = next_line(&lines);
  while (more) {
    if (!begins(&lines, ">>> ")) {
      more = next_line(&lines);
      continue;
    }
    Buffer text = {.arena = s->arena}, expected = {.arena = s->arena};
    uint32_t at = start ? (uint32_t)(start - source->text +
                                     (lines.text - dec->doc))
                        : dec->doc_span.start;
    do
      add_line(&text, lines.text + 4, lines.len - 4);
    while ((more = next_line(&lines)) && begins(&lines, "... "));
    for (; more && lines.len && !begins(&lines, ">>> ");
         more = next_line(&lines))
      add_line(&expected, lines.text, lines.len);
    Example example = {.span = {dec->doc_span.file, at, dec->doc_span.end},
                       .name = documented(dec)};
    example.text = text.text;
    example.expected = expected.text;
    VEC_PUSH(s->arena, *all, example);
  }
}

const Example *session_examples(Session *s, uint32_t *count) {
  Examples all = {0};
  for (uint32_t i = 0; i < s->program.dec_count; i++)
    if (s->program.decs[i]->doc)
      add_examples(s, s->program.decs[i], &all);
  *count = all.len;
  return all.at;
}

/* ---- formatting ---- */

typedef struct Formatting {
  const SessionText *text;
  Buffer *out;
} Formatting;

static SessionStatus format(Session *s, void *arg) {
  Formatting *f = arg;
  uint32_t file = session_add_text(s, f->text, (Span){0});
  bool ok = file && format_source(&s->sources, file, s->interner, s->arena,
                                  &s->diags, f->out);
  return ok ? SESSION_OK : SESSION_ERROR;
}

bool session_format(Session *s, const SessionText *text, Buffer *out) {
  Formatting f = {text, out};
  return session_guard(s, format, &f) == SESSION_OK;
}

static SessionStatus format_quietly(Session *s, void *arg) {
  diags_init(&s->diags, s->arena);
  return format(s, arg);
}

bool session_format_quietly(Session *s, const SessionText *text,
                            Buffer *out) {
  Diags diags = s->diags;
  Formatting f = {text, out};
  bool ok = session_guard(s, format_quietly, &f) == SESSION_OK;
  s->diags = diags;
  return ok;
}
