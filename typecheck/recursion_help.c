/* Helps for recursive functions with an error: annotations with which the
   function has none, found by trial.  The sizes of the first annotation are
   those inferred.  In the second, the sizes of the result and of the parameters
   that a recursive call changes are unknown (`?`), so that they may differ
   between the calls without a relation.  Main entry point:
   checker_recursion_help. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/c_identifier.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/source.h"

#include <ctype.h>
#include <string.h>

typedef struct Annotation { /* of the parameters and the result */
  DiagEdit *edits;
  uint32_t count;
  const char *text;  /* the function's head, for the message */
  const char *types; /* of all parts */
} Annotation;

static Sym *param_name(const Param *p) {
  const Pat *pat = p->pat->kind == PAT_ASCRIBE ? p->pat->args[0] : p->pat;
  return p->label || p->default_value || pat->kind != PAT_VAR ? NULL : pat->id;
}

static bool has_plain_params(const Clause *k) {
  for (uint32_t i = 0; i < k->param_count; i++)
    if (!param_name(&k->params[i]))
      return false;
  return k->param_count > 0;
}

/* ---- parameters that a recursive call changes ---- */

typedef struct ParamUse {
  const Clause *clause;
  uint32_t param;
  bool is_changed;
} ParamUse;

static void note_recursive_call(void *arg, Expr *e) {
  ParamUse *use = arg;
  expr_visit_children(e, note_recursive_call, use);
  if (e->kind != EX_APP || e->arg[0]->kind != EX_ID ||
      e->arg[0]->id != use->clause->name || e->arg_count <= use->param)
    return;
  const Expr *x = e->args[use->param].expr;
  use->is_changed |=
      x->kind != EX_ID || x->id != param_name(&use->clause->params[use->param]);
}

static bool is_changed_by_recursion(const Dec *dec, uint32_t param) {
  ParamUse use = {&dec->funs[0].clauses[0], param, false};
  dec_visit_exprs(dec, note_recursive_call, &use);
  return use.is_changed;
}

/* ---- annotations ---- */

static Dim *unknown_size(TypeMapper *copy, DimVar *v) {
  Dim *d = meta_dim(copy->c, NULL, v->origin);
  dim_as_var(d)->unknown = true;
  return d;
}

static Type *with_unknown_sizes(Checker *c, Type *t) {
  TypeMapper copy = {.c = c, .dim = unknown_size};
  map_init(&copy.map, c->arena);
  return ty_copy(&copy, t);
}

/* The annotation of a function by the parts of the type `type`. */
static bool annotate(Checker *c, const Dec *dec, Type *type,
                     bool has_unknown_sizes, Annotation *out) {
  const Clause *k = &dec->funs[0].clauses[0];
  Scheme *whole = scheme_mono(c, type);
  Buffer head = {.arena = c->arena}, types = {.arena = c->arena};
  Type *t = ty_norm(c, type);
  *out =
      (Annotation){.edits = NEW_ARRAY(c->arena, DiagEdit, k->param_count + 1)};
  buffer_printf(&head, "fun %s", k->name->text);
  for (uint32_t i = 0; i < k->param_count; i++) {
    if (t->tag != TY_FUN)
      return false;
    const Param *p = &k->params[i];
    Type *part = has_unknown_sizes && is_changed_by_recursion(dec, i)
                     ? with_unknown_sizes(c, t->fun.param)
                     : t->fun.param;
    const char *type_text = ty_text_within(c, whole, part);
    const char *text =
        arena_printf(c->arena, "(%s : %s)", param_name(p)->text, type_text);
    buffer_printf(&head, " %s", text);
    buffer_printf(&types, "%s ", type_text);
    out->edits[out->count++] = p->pat->kind == PAT_ASCRIBE
                                   ? (DiagEdit){p->pat->type->span, type_text}
                                   : (DiagEdit){p->pat->span, text};
    t = ty_norm(c, t->fun.result);
  }
  if (has_unknown_sizes)
    t = with_unknown_sizes(c, t);
  const char *type_text = ty_text_within(c, whole, t);
  const char *result = arena_printf(c->arena, " : %s", type_text);
  buffer_puts(&head, result);
  buffer_puts(&types, result);
  Span at = k->params[k->param_count - 1].pat->span;
  at.start = at.end;
  out->edits[out->count++] = k->result ? (DiagEdit){k->result->span, type_text}
                                       : (DiagEdit){at, result};
  out->text = head.text;
  out->types = types.text;
  return true;
}

static bool has_word(const char *text, const char *word, size_t len) {
  for (const char *at = text; *at;) {
    size_t n = 0;
    while (is_c_identifier_char(at[n]))
      n++;
    if (n == len && memcmp(at, word, len) == 0)
      return true;
    at += n ? n : 1;
  }
  return false;
}

/* True if a size in these types has a name that also occurs in the text, but
   not in the types that the program has: the size would capture it. */
static bool captures_name(const char *types, const char *text,
                          const char *own_types) {
  int brackets = 0;
  bool after_dim = false; /* in dim(n) */
  for (const char *at = types; *at;) {
    size_t n = 0;
    while (is_c_identifier_char(at[n]))
      n++;
    bool is_size = n && (brackets || after_dim) && !isdigit((unsigned char)*at);
    if (is_size && has_word(text, at, n) && !has_word(own_types, at, n))
      return true;
    if (n || *at != '(')
      after_dim = n == strlen("dim") && memcmp(at, "dim", n) == 0;
    brackets += (*at == '[') - (*at == ']');
    at += n ? n : 1;
  }
  return false;
}

/* The types that the parameters have in the program. */
static const char *own_types(Checker *c, const Dec *dec) {
  const char *text = sources_get(c->sources, dec->span.file)->text;
  const Clause *k = &dec->funs[0].clauses[0];
  Buffer out = {.arena = c->arena};
  buffer_puts(&out, " ");
  for (uint32_t i = 0; i < k->param_count; i++) {
    const Pat *p = k->params[i].pat;
    uint32_t from = p->kind == PAT_ASCRIBE ? p->args[0]->span.end : p->span.end;
    buffer_add(&out, text + from, p->span.end - from);
  }
  return out.text;
}

/* The names of the parameters, and what the annotation leaves of the
   declaration. */
static const char *text_outside(Checker *c, const Dec *dec,
                                const Annotation *a) {
  const char *text = sources_get(c->sources, dec->span.file)->text;
  const Clause *k = &dec->funs[0].clauses[0];
  Buffer out = {.arena = c->arena};
  uint32_t at = a->edits[a->count - 1].span.end;
  for (uint32_t i = 0; i < k->param_count; i++)
    buffer_printf(&out, "%s ", param_name(&k->params[i])->text);
  buffer_add(&out, text + at, dec->span.end - at);
  return out.text;
}

/* The text of a declaration with these changes. */
static Buffer changed_text(Checker *c, const Dec *dec, const Annotation *a) {
  const char *text = sources_get(c->sources, dec->span.file)->text;
  Buffer out = {.arena = c->arena};
  uint32_t at = dec->span.start;
  for (uint32_t i = 0; i < a->count; i++) {
    buffer_add(&out, text + at, a->edits[i].span.start - at);
    buffer_puts(&out, a->edits[i].text);
    at = a->edits[i].span.end;
  }
  buffer_add(&out, text + at, dec->span.end - at);
  return out;
}

/* ---- trials ---- */

/* An annotation is tried in a copy of the declaration.  Its errors are then
   those that the annotation does not mend. */
typedef struct Trial {
  Checker *c;
  Module *module;
  const Dec *dec;
  const Diags *diags; /* of the declaration: */
  uint32_t from;      /* from here on */
  Diags remaining;
} Trial;

/* The position in the changed text. */
static uint32_t changed_position(const Trial *t, const Annotation *a,
                                 uint32_t at) {
  uint32_t changed = at - t->dec->span.start;
  for (uint32_t i = 0; i < a->count; i++) {
    Span span = a->edits[i].span;
    if (span.end <= at)
      changed += (uint32_t)strlen(a->edits[i].text) - (span.end - span.start);
  }
  return changed;
}

static bool is_remaining(const Trial *t, const Annotation *a, const Diag *d) {
  uint32_t start = changed_position(t, a, d->span.start);
  for (uint32_t i = 0; i < t->remaining.all.len; i++) {
    const Diag *other = t->remaining.all.at[i];
    if (other->code == d->code && other->span.start == start)
      return true;
  }
  return false;
}

/* True if the annotation mends the error about the recursive call, and the
   remaining errors are others of the declaration, which do not follow from the
   function's type. */
static bool mends_recursion(const Trial *t, const Annotation *a) {
  const Diag *recursive = t->c->inference.recursive_call;
  uint32_t found = 0, errors = 0;
  for (uint32_t i = 0; i < t->remaining.all.len; i++)
    errors += t->remaining.all.at[i]->severity == SEV_ERROR;
  for (uint32_t i = t->from; i < t->diags->all.len; i++) {
    const Diag *d = t->diags->all.at[i];
    found += d->severity == SEV_ERROR && is_remaining(t, a, d) &&
             error_is_closed(t->dec, d->span);
  }
  return recursive && !is_remaining(t, a, recursive) && found == errors;
}

static bool annotation_helps(Trial *t, const Annotation *a) {
  Checker *c = t->c;
  diags_init(&t->remaining, c->arena);
  if (captures_name(a->types, text_outside(c, t->dec, a), own_types(c, t->dec)))
    return false;
  Buffer text = changed_text(c, t->dec, a);
  uint32_t file = sources_add(c->sources, "input", text.text, text.len, false);
  Program program = parse_range(c->sources, file, 0, (uint32_t)text.len,
                                c->interner, c->arena, &t->remaining);
  return program.dec_count == 1 && !t->remaining.errors &&
         (checker_try_decs(c, t->module, program.decs, 1, &t->remaining) ||
          mends_recursion(t, a));
}

/* Keeps one of the errors that the annotation mends, and the others.  Prefers
   that about the recursive call. */
static Diag *keep_one_error(const Trial *t, const Annotation *a, Diags *diags) {
  Diag *kept = NULL;
  for (uint32_t i = t->from; i < diags->all.len; i++) {
    Diag *d = diags->all.at[i];
    if (d->severity == SEV_ERROR && !is_remaining(t, a, d) &&
        (!kept || d == t->c->inference.recursive_call))
      kept = d;
  }
  uint32_t len = t->from;
  for (uint32_t i = t->from; i < diags->all.len; i++) {
    Diag *d = diags->all.at[i];
    if (d->severity == SEV_ERROR && d != kept && !is_remaining(t, a, d))
      diags->errors--;
    else
      diags->all.at[len++] = d;
  }
  diags->all.len = len;
  return kept;
}

static const char *help_text(Checker *c, const Diag *d, const char *head) {
  if (d == c->inference.recursive_call)
    return arena_printf(
        c->arena, "annotate the parameters and the result to allow this: %s",
        head);
  return arena_printf(c->arena,
                      "if the recursive calls have other sizes or types, "
                      "annotate the parameters and the result: %s",
                      head);
}

static void note_open_global(void *arg, ElemVar *e) {
  *(bool *)arg |= elem_root(e)->global && elem_root(e)->dtype == DT_NONE;
}

/* Later declarations may still determine an element type of the function. */
static bool has_open_global(Checker *c, Type *t) {
  bool has = false;
  TypeVisitor visit = {.elem = note_open_global, .arg = &has, .c = c};
  ty_visit(&visit, t);
  return has;
}

void checker_recursion_help(Checker *c, Module *m, const Dec *dec, Diags *diags,
                            uint32_t from) {
  Type *type = c->inference.recursive_type;
  const Clause *k = dec->kind == DEC_FUN ? &dec->funs[0].clauses[0] : NULL;
  if (!type || !k || !has_plain_params(k) || has_open_global(c, type))
    return;
  Annotation a;
  Trial trial = {.c = c, .module = m, .dec = dec, .diags = diags, .from = from};
  if (!annotate(c, dec, type, false, &a) || !annotation_helps(&trial, &a))
    if (!annotate(c, dec, type, true, &a) || !annotation_helps(&trial, &a))
      return;
  Diag *d = keep_one_error(&trial, &a, diags);
  if (!d)
    return;
  d->fixit_count = 0; /* they implement the help that it had */
  d->help = help_text(c, d, a.text);
  const Source *source = sources_get(c->sources, dec->span.file);
  for (uint32_t i = 0; i < a.count; i++)
    if (source_drops_comment(source, a.edits[i].span, a.edits[i].text))
      return;
  diag_add_fixit_edits(c->arena, d, a.edits, a.count, "annotate %s",
                       k->name->text);
}
