/* Completion and signature help.  Main entry points: editor_complete and
   editor_signature_help.  Checks the text with a name inserted at the cursor
   (cursor probe).  The reference of this name knows its scope. */
#include "editor/internal.h"
#include "lexer/lexer.h"
#include "session/stdlib.h"
#include "support/arena_text.h"
#include "support/intern.h"

#include <string.h>

static const char cursor_name[] = "here'of'cursor";

typedef struct CursorProbe {
  SourceInput text;     /* the original text */
  uint32_t offset;      /* cursor */
  uint32_t start;       /* start of the replaced text */
  uint32_t end;         /* end of the replaced text */
  uint32_t checked_end; /* text from here on is not checked */
  void (*f)(void *, const Completion *);
  void *arg;
  SignatureHelp *signature;
  bool found;
} CursorProbe;

static bool is_name_char(char c) {
  return c == '_' || c == '\'' || (c >= '0' && c <= '9') ||
         (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* ---- the probe ---- */

/* The reference of the cursor probe, or NULL. */
static const SymbolRef *cursor_ref(Session *s) {
  uint32_t count;
  const SymbolRef *all = session_refs(s, &count);
  for (uint32_t i = count; i-- > 0;)
    if (all[i].span.file == s->current_file && all[i].name &&
        strcmp(all[i].name->text, cursor_name) == 0)
      return &all[i];
  return NULL;
}

static void check_probe_text(Session *s, const CursorProbe *p,
                             const Buffer *text) {
  SourceInput probe = p->text;
  probe.text = text->text;
  probe.len = text->len;
  probe.is_separate_module = true;
  session_check(s, &probe);
}

/* Excludes later declarations: they cannot refer to the cursor probe, and
   checking them may take long if they use something in error. */
static void skip_later_decs(const Session *s, CursorProbe *p) {
  p->checked_end = (uint32_t)p->text.len;
  for (uint32_t i = s->current_program.dec_count; i-- > 0;)
    if (s->current_program.decs[i]->span.start >= p->end)
      p->checked_end = s->current_program.decs[i]->span.start;
}

/* Checks the complete declaration.  If that does not parse, ignores the text
   after the cursor. */
static void check_with_cursor(Session *s, const CursorProbe *p,
                              bool close_after_cursor) {
  Buffer text = {.arena = s->arena};
  buffer_add(&text, p->text.text, p->start);
  buffer_puts(&text, cursor_name);
  if (close_after_cursor) {
    uint32_t file =
        sources_add(&s->sources, "input", text.text, text.len, false);
    parse_close_partial(&s->sources, file, s->interner, s->arena, &text);
    checker_record_refs(s->checker, true);
  } else {
    buffer_add(&text, p->text.text + p->end, p->checked_end - p->end);
  }
  check_probe_text(s, p, &text);
}

/* ---- what is around our name ---- */

typedef struct CursorContext {
  Span span;          /* span of the cursor probe */
  const Dec *dec;     /* global declaration with the cursor */
  const Expr *app;    /* innermost application with the cursor, or NULL */
  uint32_t arg;       /* index of the argument with the cursor */
  const Expr *record; /* record whose field may be completed, or NULL */
  const Dec *record_dec;
} CursorContext;

static bool span_contains(Span outer, Span inner) {
  return outer.start <= inner.start && inner.end <= outer.end;
}

/* {r with x}, case r of {x} => ..., val {x} = r. */
static void note_record_field(CursorContext *f, Span field,
                              const Expr *record) {
  if (span_contains(field, f->span))
    f->record = record, f->record_dec = f->dec;
}

static void note_record_pattern(CursorContext *f, const Pat *p,
                                const Expr *record) {
  for (uint32_t i = 0; p && p->kind == PAT_RECORD && i < p->field_count; i++)
    note_record_field(f, p->fields[i].span, record);
}

static void search_context(void *arg, Expr *e) {
  CursorContext *f = arg;
  if (!span_contains(e->span, f->span))
    return;
  for (uint32_t i = 0; e->kind == EX_APP && i < e->arg_count; i++)
    if (span_contains(e->args[i].span, f->span))
      f->app = e, f->arg = i;
  for (uint32_t i = 0; e->kind == EX_RECORD_UPDATE && i < e->field_count; i++)
    note_record_field(f, e->fields[i].span, e->arg[0]);
  for (uint32_t i = 0; e->kind == EX_CASE && i < e->clause_count; i++)
    note_record_pattern(f, e->clauses[i].params[0].pat, e->arg[0]);
  for (uint32_t i = 0; i < e->dec_count; i++)
    note_record_pattern(f, e->decs[i]->pat, e->decs[i]->expr);
  expr_visit_children(e, search_context, f);
}

static CursorContext find_context(Session *s, const CursorProbe *p) {
  uint32_t len = (uint32_t)strlen(cursor_name);
  CursorContext f = {.span = {s->current_file, p->start, p->start + len}};
  for (uint32_t i = 0; i < s->current_program.dec_count; i++) {
    f.dec = s->current_program.decs[i];
    note_record_pattern(&f, f.dec->pat, f.dec->expr);
    dec_visit_exprs(f.dec, search_context, &f);
  }
  return f;
}

/* ---- offers ---- */

static bool has_typed_prefix(const CursorProbe *p, const char *name) {
  uint32_t len = p->offset - p->start;
  return strncmp(name, p->text.text + p->start, len) == 0;
}

static void complete_with(const CursorProbe *p, const Completion *o) {
  if (has_typed_prefix(p, o->name) && strcmp(o->name, cursor_name) != 0)
    p->f(p->arg, o);
}

typedef struct CompletionWriter {
  Session *s;
  const CursorProbe *probe;
  const char *prefix;      /* prefix of library names, "nn.", or NULL */
  uint32_t visible_before; /* names of the text are only offered after their
                              definition */
  const Expr *app; /* application whose labels are already used, or NULL */
} CompletionWriter;

static void complete_binding(void *arg, Binding *b) {
  static const int kinds[] = {[SYMBOL_KIND_NONE] = COMPLETION_VALUE,
                              [SYMBOL_KIND_VALUE] = COMPLETION_VALUE,
                              [SYMBOL_KIND_FUNCTION] = COMPLETION_FUNCTION,
                              [SYMBOL_KIND_SIZE] = COMPLETION_SIZE,
                              [SYMBOL_KIND_CONSTRUCTOR] =
                                  COMPLETION_CONSTRUCTOR,
                              [SYMBOL_KIND_MODULE] = COMPLETION_MODULE};
  const CompletionWriter *g = arg;
  const char *dot = strrchr(binding_name(b)->text, '.');
  Completion o = {.name = dot ? dot + 1 : binding_name(b)->text};
  Span span = binding_span(b);
  if (!has_typed_prefix(g->probe, o.name) ||
      (span.file == g->s->current_file && span.start >= g->visible_before))
    return;
  o.kind = kinds[binding_symbol_kind(g->s->checker, b)];
  o.type = binding_type(g->s->checker, b);
  o.doc = binding_doc(b);
  complete_with(g->probe, &o);
}

static void complete_stdlib_name(void *arg, const char *name) {
  const CompletionWriter *g = arg;
  size_t len = g->prefix ? strlen(g->prefix) : 0;
  if ((len && strncmp(name, g->prefix, len) != 0) || strchr(name + len, '.') ||
      !has_typed_prefix(g->probe, name + len))
    return;
  Binding *b = checker_find(g->s->checker, g->s->current_module, name);
  if (b)
    complete_binding(arg, b);
  else /* a type */
    complete_with(
        g->probe,
        &(Completion){.kind = COMPLETION_TYPE,
                      .name = intern_string(g->s->interner, name + len)->text});
}

static void complete_prims(CompletionWriter *g) {
  for (PrimId id = 1; id < PRIM_COUNT; id++)
    if (strncmp(prim_info[id].name, "op ", 3) != 0)
      complete_stdlib_name(g, prim_info[id].name);
}

static void complete_module_members(void *arg, Module *m) {
  CompletionWriter *g = arg;
  if (!module_is_library(m)) {
    module_each(m, complete_binding, g);
    return;
  }
  g->prefix = arena_printf(g->s->arena, "%s.", module_sym(m)->text);
  stdlib_each_name(complete_stdlib_name, g);
  complete_prims(g);
  g->prefix = NULL;
}

static void complete_local(void *arg, Sym *name, Binding *b, const char *type) {
  const CompletionWriter *g = arg;
  bool function =
      b && binding_symbol_kind(g->s->checker, b) == SYMBOL_KIND_FUNCTION;
  complete_with(g->probe, &(Completion){.kind = !b         ? COMPLETION_SIZE
                                                : function ? COMPLETION_FUNCTION
                                                           : COMPLETION_VALUE,
                                        .name = name->text,
                                        .type = type,
                                        .doc = b ? binding_doc(b) : NULL});
}

static void complete_types(const CursorProbe *p, const Program *program) {
  for (Dtype t = 1; t < DT_COUNT; t++)
    complete_with(
        p, &(Completion){.kind = COMPLETION_TYPE, .name = dtype_info[t].name});
  static const char *const others[] = {"int", "list", "string", "unit", "key"};
  for (size_t i = 0; i < ARRAY_LEN(others); i++)
    complete_with(p, &(Completion){.kind = COMPLETION_TYPE, .name = others[i]});
  for (uint32_t i = 0; i < program->dec_count; i++) {
    const Dec *dec = program->decs[i];
    if (dec->kind == DEC_TYPE || dec->kind == DEC_DATATYPE)
      complete_with(p, &(Completion){.kind = COMPLETION_TYPE,
                                     .name = dec->name->text,
                                     .doc = dec->doc});
  }
}

static void complete_module_names(const CursorProbe *p) {
  for (uint32_t i = 0; i < stdlib_file_count; i++)
    if (*stdlib_files[i].module)
      complete_with(p, &(Completion){.kind = COMPLETION_MODULE,
                                     .name = stdlib_files[i].module,
                                     .type = "module"});
}

/* Completes an unqualified name: locals, names of the program, the library,
   keywords. */
static void complete_names(Session *s, const CursorProbe *p,
                           const SymbolRef *ref) {
  CompletionWriter g = {.s = s, .probe = p, .visible_before = p->start};
  if (ref)
    ref_scope(s->checker, ref, complete_local, &g);
  module_each(s->current_module, complete_binding, &g);
  module_each_opened(s->current_module, complete_module_members, &g);
  stdlib_each_name(complete_stdlib_name, &g);
  complete_prims(&g);
  complete_module_names(p);
  if (ref)
    for (Dtype t = 1; t < DT_COUNT; t++)
      complete_stdlib_name(&g, dtype_info[t].name);
  else
    complete_types(p, &s->current_program);
  for (uint32_t i = 0; i < lexer_keyword_count; i++)
    complete_with(p, &(Completion){.kind = COMPLETION_KEYWORD,
                                   .name = lexer_keywords[i].text});
}

/* Completes after a dot: names of a module, or fields of a record. */
static void complete_field(void *arg, Sym *name, const char *type) {
  const CompletionWriter *g = arg;
  complete_with(g->probe, &(Completion){.kind = COMPLETION_FIELD,
                                        .name = name->text,
                                        .type = type});
}

static void complete_after_dot(Session *s, const CursorProbe *p) {
  CompletionWriter g = {.s = s, .probe = p, .visible_before = UINT32_MAX};
  uint32_t dot = p->start - 1, from = dot;
  while (from > 0 && is_name_char(p->text.text[from - 1]))
    from--;
  Sym *base = intern(s->interner, p->text.text + from, dot - from);
  const SymbolRef *ref = editor_expr_at(s, dot);
  Binding *b = checker_find(s->checker, s->current_module, base->text);
  Module *m = b ? binding_module(b) : NULL;
  const SymbolRef *name = editor_ref_at(s, s->current_file, dot);
  if (m && !(name && name->kind == REF_VALUE))
    complete_module_members(&g, m);
  else if (ref && ref->span.end == dot)
    ref_fields(s->checker, ref, complete_field, &g);
}

static void complete_label(void *arg, Sym *name, bool optional,
                           const char *type) {
  const CompletionWriter *g = arg;
  for (uint32_t i = 0; g->app && i < g->app->arg_count; i++)
    if (g->app->args[i].label == name)
      return;
  complete_with(g->probe, &(Completion){.kind = COMPLETION_LABEL,
                                        .name = name->text,
                                        .type = type,
                                        .doc = optional ? "optional" : NULL});
}

/* Completes fields in a record pattern or a record update. */
static void complete_record_fields(Session *s, const CursorProbe *p) {
  CompletionWriter g = {.s = s, .probe = p};
  CursorContext f = find_context(s, p);
  if (!f.record)
    return;
  SymbolRef ref = ref_of_expr(s->current_module, f.record_dec, f.record);
  ref_fields(s->checker, &ref, complete_field, &g);
}

static char char_before(const CursorProbe *p) {
  return p->start ? p->text.text[p->start - 1] : '\n';
}

static SessionStatus complete_at_cursor(Session *s, void *arg) {
  CursorProbe *p = arg;
  skip_later_decs(s, p);
  CheckedState saved = checked_state_save(s);
  CompletionWriter g = {.s = s, .probe = p};
  bool is_spread = p->start > 1 && p->text.text[p->start - 2] == '.';
  check_with_cursor(s, p, false);
  const SymbolRef *ref = cursor_ref(s);
  if (!ref) {
    check_with_cursor(s, p, true);
    ref = cursor_ref(s);
  }
  if (char_before(p) == '~' && ref) {
    g.app = find_context(s, p).app;
    ref_labels(s->checker, ref, complete_label, &g);
  } else if (char_before(p) == '.' && !is_spread) {
    complete_after_dot(s, p);
  } else if (char_before(p) != '~') {
    complete_record_fields(s, p);
    complete_names(s, p, ref);
  }
  checked_state_restore(s, &saved);
  return SESSION_OK;
}

static CursorProbe probe_init(const SourceInput *text, uint32_t offset) {
  CursorProbe p = {
      .text = *text, .offset = offset, .start = offset, .end = offset};
  while (p.start > 0 && is_name_char(text->text[p.start - 1]))
    p.start--;
  while (p.end < text->len && is_name_char(text->text[p.end]))
    p.end++;
  return p;
}

void editor_complete(Session *s, const SourceInput *text, uint32_t offset,
                     void (*f)(void *, const Completion *), void *arg) {
  CursorProbe p = probe_init(text, offset);
  p.f = f, p.arg = arg;
  session_protected_call(s, complete_at_cursor, &p);
}

/* ---- what is called ---- */

static SessionStatus find_signature(Session *s, void *arg) {
  CursorProbe *p = arg;
  skip_later_decs(s, p);
  CheckedState saved = checked_state_save(s);
  check_with_cursor(s, p, false);
  CursorContext f = find_context(s, p);
  if (!f.app) {
    check_with_cursor(s, p, true);
    f = find_context(s, p);
  }
  const Expr *head = f.app ? f.app->arg[0] : NULL;
  const SymbolRef *name =
      head ? editor_ref_at(s, s->current_file, head->span.end - 1) : NULL;
  if (name && name->kind == REF_VALUE && (name->binding || name->type)) {
    SignatureHelp *c = p->signature;
    *c = (SignatureHelp){.name = name->name->text,
                         .type = name->binding
                                     ? binding_type(s->checker, name->binding)
                                     : ref_type(s->checker, name),
                         .doc = editor_doc(s, name)};
    for (uint32_t i = 0; i < f.arg; i++)
      c->active_parameter += !f.app->args[i].label;
    if (f.app->args[f.arg].label)
      c->active_label = f.app->args[f.arg].label->text;
    p->found = true;
  }
  checked_state_restore(s, &saved);
  return SESSION_OK;
}

bool editor_signature_help(Session *s, const SourceInput *text, uint32_t offset,
                           SignatureHelp *out) {
  CursorProbe p = probe_init(text, offset);
  p.signature = out;
  return session_protected_call(s, find_signature, &p) == SESSION_OK && p.found;
}
