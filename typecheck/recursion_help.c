/* Helps for recursive functions with an error: annotations with which the
   function has none, found by trial.  The sizes of the first annotation are
   those inferred.  In the others, the sizes of the result and of the parameters
   that a recursive call changes are unknown (`?`), so that they may differ
   between the calls without a relation: in all functions of the group, or in
   one.  Main entry point: checker_recursion_help. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/c_identifier.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/source.h"

#include <string.h>

enum { MAX_HELPED_FUNS = 16 }; /* functions of a group that get a help */

typedef struct Annotation { /* of the parameters and the results */
  DiagEdit *edits;
  uint32_t count;
  Buffer text; /* the heads of the functions, for the message */
} Annotation;

static const Pat *unascribed(const Pat *p) {
  return p->kind == PAT_ASCRIBE ? p->args[0] : p;
}

static Sym *param_name(const Param *p) {
  const Pat *pat = unascribed(p->pat);
  return pat->kind == PAT_VAR ? pat->id : NULL;
}

static const char *text_of(Checker *c, Span at) {
  const char *text = sources_get(c->sources, at.file)->text;
  return arena_strndup(c->arena, text + at.start, at.end - at.start);
}

/* The annotated type of a parameter, or NULL. */
static const TypeExpr *param_type(const Param *p) {
  return p->pat->kind == PAT_ASCRIBE ? p->pat->type : p->type;
}

static const Clause *first_clause(const Dec *dec, uint32_t fun) {
  return &dec->funs[fun].clauses[0];
}

static bool all_have_params(const Dec *dec) {
  for (uint32_t i = 0; i < dec->fun_count; i++)
    if (!first_clause(dec, i)->param_count)
      return false;
  return true;
}

/* ---- parameters that a recursive call changes ---- */

typedef struct ChangedParams {
  const Dec *dec;
  bool **changed;  /* for each function: its parameters */
  uint32_t caller; /* the function whose calls are visited */
  bool more;       /* another one was found */
} ChangedParams;

/* True unless x is the same parameter, or an unchanged one of another
   function. */
static bool changes_param(const ChangedParams *p, const Expr *x, uint32_t fun,
                          uint32_t param) {
  const Clause *caller = first_clause(p->dec, p->caller);
  uint32_t i = 0;
  while (i < caller->param_count &&
         (!x->id || param_name(&caller->params[i]) != x->id))
    i++;
  return x->kind != EX_ID || i == caller->param_count ||
         (fun == p->caller ? i != param : p->changed[p->caller][i]);
}

/* The parameter that gets an argument: that with its label, or the next one
   without a label. */
static uint32_t param_of_arg(const Clause *k, const Expr *app, uint32_t arg) {
  uint32_t skipped = 0, i = 0;
  for (uint32_t j = 0; j < arg; j++)
    skipped += !app->args[j].label;
  for (; i < k->param_count; i++)
    if (k->params[i].label == app->args[arg].label &&
        (k->params[i].label || !skipped--))
      break;
  return i;
}

static void note_arg(ChangedParams *p, const Expr *x, uint32_t fun,
                     uint32_t param) {
  if (param >= first_clause(p->dec, fun)->param_count ||
      p->changed[fun][param] || !changes_param(p, x, fun, param))
    return;
  p->changed[fun][param] = p->more = true;
}

/* Notes the parameters that a call or pipe changes.  The value of a pipe is
   the last argument. */
static void note_call(void *arg, Expr *e) {
  ChangedParams *p = arg;
  expr_visit_children(e, note_call, p);
  const Expr *piped = e->kind == EX_BIN && e->op == BIN_PIPE ? e->arg[0] : NULL;
  const Expr *head = piped ? e->arg[1] : e;
  const Expr *app = head->kind == EX_APP ? head : NULL;
  if (app)
    head = app->arg[0];
  for (uint32_t f = 0; head->kind == EX_ID && f < p->dec->fun_count; f++) {
    const Clause *k = first_clause(p->dec, f);
    if (k->name != head->id)
      continue;
    for (uint32_t i = 0; app && !piped && i < app->arg_count; i++)
      note_arg(p, app->args[i].expr, f, param_of_arg(k, app, i));
    if (piped)
      note_arg(p, piped, f, k->param_count - 1);
  }
}

static bool **find_changed_params(Checker *c, const Dec *dec) {
  ChangedParams p = {.dec = dec};
  p.changed = NEW_ARRAY(c->arena, bool *, dec->fun_count);
  for (uint32_t f = 0; f < dec->fun_count; f++)
    p.changed[f] = NEW_ARRAY(c->arena, bool, first_clause(dec, f)->param_count);
  do {
    p.more = false;
    for (p.caller = 0; p.caller < dec->fun_count; p.caller++) {
      Dec caller = {.funs = &dec->funs[p.caller], .fun_count = 1};
      dec_visit_exprs(&caller, note_call, &p);
    }
  } while (p.more);
  return p.changed;
}

/* ---- annotations ---- */

static Dim *unknown_size(TypeMapper *copy, DimVar *v) {
  Dim *d = meta_dim(copy->c, NULL, v->origin);
  dim_set_unknown(copy->c->dims, dim_as_var(d));
  return d;
}

static Type *with_unknown_sizes(Checker *c, Type *t) {
  TypeMapper copy = {.c = c, .dim = unknown_size};
  map_init(&copy.map, c->arena);
  return ty_copy(&copy, t);
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

/* The types that the parameters of a function have in the program. */
static const char *own_types(Checker *c, const Dec *dec, uint32_t fun) {
  const Clause *k = first_clause(dec, fun);
  Buffer out = {.arena = c->arena};
  buffer_puts(&out, " ");
  for (uint32_t i = 0; i < k->param_count; i++) {
    const TypeExpr *t = param_type(&k->params[i]);
    buffer_printf(&out, "%s ", t ? text_of(c, t->span) : "");
  }
  return out.text;
}

/* The end of the parameters: the place of the result's type. */
static Span params_end(const Clause *k) {
  Span at = k->params[k->param_count - 1].span;
  at.start = at.end;
  return at;
}

/* The parameters of a function without their types, and its text after the
   annotation. */
static const char *text_outside(Checker *c, const Dec *dec, uint32_t fun) {
  const Clause *k = first_clause(dec, fun);
  Buffer out = {.arena = c->arena};
  Span rest = k->result ? k->result->span : params_end(k);
  rest.start = rest.end;
  rest.end = fun + 1 < dec->fun_count ? dec->funs[fun + 1].name_span.start
                                      : dec->span.end;
  for (uint32_t i = 0; i < k->param_count; i++)
    buffer_printf(&out, "%s ", text_of(c, unascribed(k->params[i].pat)->span));
  buffer_puts(&out, text_of(c, rest));
  return out.text;
}

/* The names in the text of a function that its types do not have.  A size with
   such a name would capture it. */
static Map *avoided_names(Checker *c, const Dec *dec, uint32_t fun) {
  const char *own = own_types(c, dec, fun);
  Map *avoided = NEW(c->arena, Map);
  map_init(avoided, c->arena);
  for (const char *at = text_outside(c, dec, fun); *at;) {
    size_t n = 0;
    while (is_c_identifier_char(at[n]))
      n++;
    Sym *name = n && !has_word(own, at, n) ? intern(c->interner, at, n) : NULL;
    if (name)
      map_put(avoided, name, name);
    at += n ? n : 1;
  }
  return avoided;
}

/* The change that annotates a parameter; the annotated one is appended to
   `head`. */
static DiagEdit annotate_param(Checker *c, const Param *p, const char *type,
                               Buffer *head) {
  const char *pat = text_of(c, unascribed(p->pat)->span);
  const TypeExpr *own = param_type(p);
  bool shorthand = p->label && span_equal(p->span, p->pat->span);
  if (shorthand)
    pat = p->label->text;
  const char *text = arena_printf(c->arena, "%s : %s", pat, type);
  buffer_puts(head, " ");
  if (p->label)
    buffer_printf(head, "~%s:", p->label->text);
  buffer_printf(head, "(%s", text);
  if (p->default_value)
    buffer_printf(head, " = %s", text_of(c, p->default_value->span));
  buffer_puts(head, ")");
  if (own)
    return (DiagEdit){own->span, type};
  if (shorthand)
    return (DiagEdit){p->span, arena_printf(c->arena, "~%s:(%s)", pat, text)};
  return (DiagEdit){p->pat->span, p->default_value
                                      ? text
                                      : arena_printf(c->arena, "(%s)", text)};
}

/* The annotation of a function by the parts of the type `type`. */
static bool annotate_fun(Checker *c, const Dec *dec, uint32_t fun, Type *type,
                         bool has_unknown_sizes, Annotation *out) {
  const Clause *k = first_clause(dec, fun);
  Scheme *whole = scheme_mono(c, type);
  const Map *avoided = avoided_names(c, dec, fun);
  const bool *changed = find_changed_params(c, dec)[fun];
  Type *t = ty_norm(c, type);
  buffer_printf(&out->text, fun ? " and %s" : "fun %s", k->name->text);
  for (uint32_t i = 0; i < k->param_count; i++) {
    if (t->tag != TY_FUN)
      return false;
    const Param *p = &k->params[i];
    Type *part = has_unknown_sizes && changed[i]
                     ? with_unknown_sizes(c, t->fun.param)
                     : t->fun.param;
    out->edits[out->count++] = annotate_param(
        c, p, ty_text_avoiding(c, whole, part, avoided), &out->text);
    t = ty_norm(c, t->fun.result);
  }
  if (has_unknown_sizes)
    t = with_unknown_sizes(c, t);
  const char *type_text = ty_text_avoiding(c, whole, t, avoided);
  const char *result = arena_printf(c->arena, " : %s", type_text);
  buffer_puts(&out->text, result);
  out->edits[out->count++] = k->result ? (DiagEdit){k->result->span, type_text}
                                       : (DiagEdit){params_end(k), result};
  return true;
}

/* Annotates all functions of the declaration: if one has no annotation, all
   are monomorphic.  The mask selects the functions with unknown sizes. */
static bool annotate(Checker *c, const Dec *dec, Type *const *types,
                     uint32_t unknown_mask, Annotation *out) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < dec->fun_count; i++)
    count += first_clause(dec, i)->param_count + 1;
  *out = (Annotation){.text.arena = c->arena};
  out->edits = NEW_ARRAY(c->arena, DiagEdit, count);
  for (uint32_t i = 0; i < dec->fun_count; i++)
    if (!annotate_fun(c, dec, i, types[i], unknown_mask >> i & 1, out))
      return false;
  return true;
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
  Buffer text = changed_text(c, t->dec, a);
  uint32_t file = sources_add(c->sources, "input", text.text, text.len, false);
  Program program = parse_range(c->sources, file, 0, (uint32_t)text.len,
                                c->interner, c->arena, &t->remaining);
  return program.dec_count == 1 && !t->remaining.errors &&
         (checker_try_decs(c, t->module, program.decs, 1, &t->remaining) ||
          mends_recursion(t, a));
}

/* Tries the inferred sizes, then unknown ones in all functions, then in one. */
static bool find_annotation(Trial *t, Type *const *types, Annotation *a) {
  uint32_t count = t->dec->fun_count;
  for (uint32_t trial = 0; trial < (count > 1 ? count + 2 : 2); trial++) {
    uint32_t mask = trial == 0   ? 0
                    : trial == 1 ? UINT32_MAX
                                 : UINT32_C(1) << (trial - 2);
    if (annotate(t->c, t->dec, types, mask, a) && annotation_helps(t, a))
      return true;
  }
  return false;
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

static bool any_has_open_global(Checker *c, Type *const *types,
                                uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (has_open_global(c, types[i]))
      return true;
  return false;
}

void checker_recursion_help(Checker *c, Module *m, const Dec *dec, Diags *diags,
                            uint32_t from) {
  Type *const *types = c->inference.recursive_types;
  if (!types || dec->kind != DEC_FUN || dec->fun_count > MAX_HELPED_FUNS ||
      !all_have_params(dec) || any_has_open_global(c, types, dec->fun_count))
    return;
  Annotation a;
  Trial trial = {.c = c, .module = m, .dec = dec, .diags = diags, .from = from};
  if (!find_annotation(&trial, types, &a))
    return;
  Diag *d = keep_one_error(&trial, &a, diags);
  if (!d)
    return;
  d->fixit_count = 0; /* they implement the help that it had */
  d->help = help_text(c, d, a.text.text);
  const Source *source = sources_get(c->sources, dec->span.file);
  for (uint32_t i = 0; i < a.count; i++)
    if (source_drops_comment(source, a.edits[i].span, a.edits[i].text))
      return;
  diag_add_fixit_edits(c->arena, d, a.edits, a.count, "annotate %s",
                       first_clause(dec, 0)->name->text);
}
