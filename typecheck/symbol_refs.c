/* Symbol references: the names in a text, recorded during checking for editors.
 * Main entry points: checker_record_refs and checker_refs.
 *
 * The syntax tree itself describes expressions.  A type is stored as inferred,
 * so later solutions apply to it.  It is converted to text on demand. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/source.h"

#include <string.h>

struct SymbolRefs {
  VEC(SymbolRef) all;
};

SymbolRefs *checker_swap_refs(Checker *c, SymbolRefs *refs) {
  SymbolRefs *before = c->notes.recorded_refs;
  c->notes.recorded_refs = c->notes.active_refs = refs;
  return before;
}

void checker_record_refs(Checker *c, bool keep) {
  checker_swap_refs(c, keep ? NEW(c->arena, SymbolRefs) : NULL);
}

const SymbolRef *checker_refs(const Checker *c, uint32_t *count) {
  *count = c->notes.recorded_refs ? c->notes.recorded_refs->all.len : 0;
  return c->notes.recorded_refs ? c->notes.recorded_refs->all.at : NULL;
}

uint32_t refs_mark(const Checker *c) {
  return c->notes.recorded_refs ? c->notes.recorded_refs->all.len : 0;
}

/* The declaration is checked again: discards references of the first pass. */
void refs_truncate(Checker *c, uint32_t mark) {
  if (c->notes.recorded_refs)
    c->notes.recorded_refs->all.len = mark;
}

/* ---- what is noted ---- */

static SymbolRef *add_ref(Checker *c, SymbolRefKind kind, Span span) {
  SymbolRef p = {.kind = kind, .span = span, .scope = c->names.scope};
  VEC_PUSH(c->arena, c->notes.active_refs->all, p);
  return &c->notes.active_refs->all.at[c->notes.active_refs->all.len - 1];
}

/* True for a text that a user can open. */
static bool is_user_text(const Checker *c, Span span) {
  if (!c->notes.active_refs || !span.file)
    return false;
  const Source *source = sources_get(c->sources, span.file);
  return source && !source->is_library;
}

/* True if the character continues a name. */
static bool continues_name(char ch) {
  return ch == '_' || ch == '\'' || (ch >= '0' && ch <= '9') ||
         (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z');
}

static bool is_name(const Source *source, Span span, const Sym *name) {
  return span.end <= source->len && span.end - span.start == name->len &&
         memcmp(source->text + span.start, name->text, name->len) == 0 &&
         !continues_name(source->text[span.end]);
}

/* The span of the name alone in a node's span: `heads` of `~heads:`, `s` of
   `...s`, 'a of 'a[n], `t` of `m.t`.  No span if the text does not contain the
   name there, as for synthesized nodes. */
static Span name_span(const Checker *c, Span span, const Sym *name) {
  const Source *source = sources_get(c->sources, span.file);
  if (!source || span.end > source->len || span.end - span.start < name->len)
    return (Span){0};
  Span last = {span.file, span.end - name->len, span.end};
  while (span.start < span.end && strchr("~?.", source->text[span.start]))
    span.start++;
  span.end = span.start + name->len;
  return is_name(source, span, name)   ? span
         : is_name(source, last, name) ? last
                                       : (Span){0};
}

static SymbolRef *add_name(Checker *c, SymbolRefKind kind, Span span, Sym *name,
                           Span def) {
  if (!c->notes.active_refs || !name || !is_user_text(c, span))
    return NULL;
  span = name_span(c, span, name);
  if (!span.file)
    return NULL;
  SymbolRef *p = add_ref(c, kind, span);
  p->name = name;
  p->definition = def.file ? name_span(c, def, name) : def;
  p->is_definition =
      p->definition.file == span.file && p->definition.start == span.start;
  return p;
}

void refs_add_name(Checker *c, SymbolRefKind kind, Span span, Sym *name,
                   Span def, Type *type) {
  SymbolRef *p = add_name(c, kind, span, name, def);
  if (p)
    p->type = type;
}

void refs_add_binding(Checker *c, Span span, Binding *b, Type *type) {
  SymbolRefKind kind = b->kind == BK_MODULE ? REF_MODULE
                       : b->kind == BK_SIZE ? REF_SIZE
                                            : REF_VALUE;
  const char *dot = strrchr(b->name->text, '.'); /* of a primitive */
  Sym *name = dot ? intern_string(c->interner, dot + 1) : b->name;
  SymbolRef *p = add_name(c, kind, span, name, b->span);
  if (!p)
    return;
  p->binding = b;
  p->type = type;
}

/* A module may have another name than the file that it imports. */
void refs_add_module(Checker *c, Span span, Sym *name, Binding *b) {
  SymbolRef *p = add_name(c, REF_MODULE, span, name, (Span){0});
  if (p)
    p->binding = b;
}

/* Records `import blocks`, `import "./blocks" as b`, or `open b`. */
void refs_add_import(Checker *c, const Dec *dec, Sym *name, Binding *b) {
  const Source *source = sources_get(c->sources, dec->span.file);
  Span last = {dec->span.file, dec->span.end - name->len, dec->span.end};
  if (source && dec->span.end >= name->len && is_name(source, last, name))
    refs_add_module(c, last, name, b);
  else if (c->notes.active_refs && is_user_text(c, dec->span))
    add_ref(c, REF_MODULE, dec->span)->binding = b;
}

void refs_add_type(Checker *c, Span span, const TypeName *t) {
  const Dec *dec = t->dec ? t->dec : t->data ? t->data->dec : NULL;
  SymbolRef *p =
      add_name(c, REF_TYPE, span, t->name, dec ? dec->name_span : (Span){0});
  if (p)
    p->dec = dec;
}

/* The first occurrence of a name in an annotation is its definition. */
void refs_add_size(Checker *c, Span span, Sym *name, bool shape) {
  for (Scope *s = c->names.scope; c->notes.active_refs && name && s;
       s = s->outer) {
    if (s->name != name)
      continue;
    if (s->binding) {
      refs_add_binding(c, span, s->binding, NULL);
      return;
    }
    bool variable = s->elem || s->tyvar;
    if (!variable && (shape ? !s->shape : !s->dim))
      continue;
    if (!s->span.file)
      s->span = span;
    refs_add_name(c, REF_SIZE, span, name, s->span, NULL);
    return;
  }
  Binding *b =
      c->notes.active_refs && name ? lookup_in(c, c->names.module, name) : NULL;
  if (b)
    refs_add_binding(c, span, b, NULL);
}

static Span label_definition(const Binding *b, const Sym *label) {
  const Clause *k = b ? binding_clause(b) : NULL;
  for (uint32_t i = 0; k && i < k->param_count; i++)
    if (k->params[i].label == label)
      return k->params[i].span;
  return (Span){0};
}

static Type *type_of(Checker *c, Binding *b) {
  Scheme *s =
      b && !b->has_error && b->kind != BK_MODULE ? binding_scheme(c, b) : NULL;
  return s ? s->type : NULL;
}

void refs_add_labels(Checker *c, const Arg *args, uint32_t count, Binding *b) {
  for (uint32_t i = 0; c->notes.active_refs && i < count; i++) {
    Sym *label = args[i].label;
    SymbolRef *p = label ? add_name(c, REF_LABEL, args[i].label_span, label,
                                    label_definition(b, label))
                         : NULL;
    if (!p)
      continue;
    p->callee = b;
    p->type = type_of(c, b);
  }
}

/* ---- in whose names a type is to be told ---- */

static bool span_contains(Span inner, Span outer) {
  return inner.file == outer.file && inner.start >= outer.start &&
         inner.end <= outer.end;
}

static Binding *enclosing_binding(const Module *m, const Dec *dec, Span span) {
  for (uint32_t i = 0; i < dec->fun_count; i++)
    for (uint32_t k = 0; k < dec->funs[i].clause_count; k++)
      if (span_contains(span, dec->funs[i].clauses[k].span))
        return map_get(&m->names, dec->funs[i].name);
  return dec->kind == DEC_VAL && dec->pat->kind == PAT_VAR
             ? map_get(&m->names, dec->pat->id)
             : NULL;
}

void refs_finish(Checker *c, uint32_t mark, Module *module, const Dec *dec) {
  for (uint32_t i = mark;
       c->notes.recorded_refs && i < c->notes.recorded_refs->all.len; i++) {
    SymbolRef *p = &c->notes.recorded_refs->all.at[i];
    if (span_contains(p->span, dec->span))
      p->enclosing = enclosing_binding(module, dec, p->span);
  }
}

SymbolRef ref_of_expr(const Module *module, const Dec *dec, const Expr *e) {
  return (SymbolRef){.kind = REF_EXPR,
                     .span = e->span,
                     .type = e->inferred_type,
                     .enclosing = enclosing_binding(module, dec, e->span)};
}

/* ---- what is told ---- */

typedef struct QuietDiags { /* queries report no errors */
  Diags ignored, *diags;
} QuietDiags;

static void quiet_begin(Checker *c, QuietDiags *q) {
  diags_init(&q->ignored, c->arena);
  q->diags = c->diags;
  c->diags = &q->ignored;
  c->inference.work = 0;
}

static Scheme *enclosing_scheme(const SymbolRef *p) {
  const Binding *b = p->enclosing;
  return b && !b->has_error ? b->scheme : NULL;
}

const char *ref_type(Checker *c, const SymbolRef *p) {
  QuietDiags q;
  quiet_begin(c, &q);
  const char *text = NULL;
  if (p->type)
    text = ty_text_within(c, enclosing_scheme(p), p->type);
  c->diags = q.diags;
  return text;
}

/* ---- what can be written ---- */

typedef struct VisibleNames {
  Checker *c;
  Map *map;
} VisibleNames;

/* The name of an integer may also be the name of its size. */
static void add_visible_name(VisibleNames *n, Sym *name, Type *type) {
  Type *t = type ? ty_norm(n->c, type) : NULL;
  Dim *singleton = t && t->tag == TY_TENSOR ? ty_singleton(n->c, t) : NULL;
  DimVar *v = singleton ? dim_as_var(singleton) : NULL;
  map_put(n->map, name, v ? (void *)v : (void *)n);
}

Map *refs_visible_names(Checker *c, Module *m, const SymbolRef *from,
                        uint32_t count) {
  VisibleNames n = {c, NEW(c->arena, Map)};
  map_init(n.map, c->arena);
  for (uint32_t i = 0; i < m->names.cap; i++) {
    const Binding *b = m->names.slots[i].key ? m->names.slots[i].value : NULL;
    if (b)
      add_visible_name(&n, b->name, b->scheme ? b->scheme->type : NULL);
  }
  for (uint32_t i = 0; i < count; i++)
    if (from[i].kind == REF_VALUE && from[i].is_definition)
      add_visible_name(&n, from[i].name, from[i].type);
  return n.map;
}

const char *ref_annotation(Checker *c, const SymbolRef *p, const Map *names) {
  if (!p->type)
    return NULL;
  QuietDiags q;
  quiet_begin(c, &q);
  const char *text = ty_text_avoiding(c, enclosing_scheme(p), p->type, names);
  c->diags = q.diags;
  return text;
}

bool ref_is_tensor(Checker *c, const SymbolRef *p) {
  return p->type && ty_norm(c, p->type)->tag == TY_TENSOR;
}

void ref_fields(Checker *c, const SymbolRef *p,
                void (*f)(void *, Sym *name, const char *type), void *arg) {
  QuietDiags q;
  quiet_begin(c, &q);
  for (Type *t = p->type ? ty_norm(c, p->type) : NULL; t && t->tag == TY_RECORD;
       t = t->record.rest ? ty_norm(c, t->record.rest) : NULL)
    for (uint32_t i = 0; i < t->count; i++)
      f(arg, t->record.labels[i],
        ty_text_within(c, enclosing_scheme(p), t->args[i]));
  c->diags = q.diags;
}

void ref_labels(Checker *c, const SymbolRef *p,
                void (*f)(void *, Sym *name, bool optional, const char *type),
                void *arg) {
  QuietDiags q;
  quiet_begin(c, &q);
  Scheme *s = p->callee ? p->callee->scheme : enclosing_scheme(p);
  for (Type *t = p->type ? ty_norm(c, p->type) : NULL; t && t->tag == TY_FUN;
       t = ty_norm(c, t->fun.result))
    if (t->fun.label)
      f(arg, t->fun.label, t->fun.optional, ty_text_within(c, s, t->fun.param));
  c->diags = q.diags;
}

static bool is_shadowed(const Scope *from, const Scope *until) {
  for (const Scope *s = from; s != until; s = s->outer)
    if (s->name == until->name)
      return true;
  return false;
}

void ref_scope(Checker *c, const SymbolRef *p,
               void (*f)(void *, Sym *name, Binding *binding, const char *type),
               void *arg) {
  QuietDiags q;
  quiet_begin(c, &q);
  for (const Scope *s = p->scope; s; s = s->outer) {
    if (!s->name || s->name->text[0] == '|' || s->name->text[0] == '\'' ||
        is_shadowed(p->scope, s))
      continue;
    const Binding *b = s->binding;
    const char *type =
        b && b->scheme ? ty_text_within(c, enclosing_scheme(p), b->scheme->type)
                       : "a size";
    f(arg, s->name, s->binding, type);
  }
  c->diags = q.diags;
}

BindingSymbolKind binding_symbol_kind(Checker *c, Binding *b) {
  switch (b->kind) {
  case BK_MODULE:
    return SYMBOL_KIND_MODULE;
  case BK_CON:
    return SYMBOL_KIND_CONSTRUCTOR;
  case BK_SIZE:
    return SYMBOL_KIND_SIZE;
  case BK_VALUE:
  case BK_PRIM:
  case BK_DTYPE:
    break;
  }
  Scheme *s = binding_scheme(c, b);
  return s && ty_norm(c, s->type)->tag == TY_FUN ? SYMBOL_KIND_FUNCTION
                                                 : SYMBOL_KIND_VALUE;
}

Span binding_span(const Binding *b) {
  return b->span;
}
Module *binding_module(const Binding *b) {
  return b->kind == BK_MODULE ? b->imported : NULL;
}
bool module_is_library(const Module *m) {
  return m->library;
}
Sym *module_sym(const Module *m) {
  return m->name;
}
void module_each_opened(const Module *m, void (*f)(void *, Module *),
                        void *arg) {
  for (uint32_t i = 0; i < m->opened.len; i++)
    f(arg, m->opened.at[i]);
}
