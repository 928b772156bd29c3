/* Helps for recursive functions with an error: annotations with which the
   function has none, found by trial.  The sizes of the first annotation are
   those inferred.  Those of the second are unknown (`?`), so that they may
   differ between the calls without a relation.  Main entry point:
   checker_recursion_help. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/source.h"

typedef struct Annotation { /* of the parameters and the result */
  DiagEdit *edits;
  uint32_t count;
  const char *text; /* the function's head, for the message */
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

/* The annotation of clause k by the parts of the function type `type`. */
static bool annotate(Checker *c, const Clause *k, Type *type, Annotation *out) {
  Scheme *whole = scheme_mono(c, type);
  Buffer head = {.arena = c->arena};
  Type *t = ty_norm(c, type);
  *out =
      (Annotation){.edits = NEW_ARRAY(c->arena, DiagEdit, k->param_count + 1)};
  buffer_printf(&head, "fun %s", k->name->text);
  for (uint32_t i = 0; i < k->param_count; i++) {
    if (t->tag != TY_FUN)
      return false;
    const Param *p = &k->params[i];
    const char *text = arena_printf(c->arena, "(%s : %s)", param_name(p)->text,
                                    ty_text_within(c, whole, t->fun.param));
    buffer_printf(&head, " %s", text);
    out->edits[out->count++] = (DiagEdit){p->pat->span, text};
    t = ty_norm(c, t->fun.result);
  }
  const char *result =
      arena_printf(c->arena, " : %s", ty_text_within(c, whole, t));
  buffer_puts(&head, result);
  Span at = k->params[k->param_count - 1].pat->span;
  at.start = at.end;
  if (k->result)
    at.end = k->result->span.end;
  out->edits[out->count++] = (DiagEdit){at, result};
  out->text = head.text;
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

/* True if the declaration has no error with the annotation. */
static bool annotation_checks(Checker *c, Module *m, const Dec *dec,
                              const Annotation *a) {
  Buffer text = changed_text(c, dec, a);
  Diags ignored;
  diags_init(&ignored, c->arena);
  uint32_t file = sources_add(c->sources, "input", text.text, text.len, false);
  Program program = parse_range(c->sources, file, 0, (uint32_t)text.len,
                                c->interner, c->arena, &ignored);
  return program.dec_count == 1 && !ignored.errors &&
         checker_try_decs(c, m, program.decs, 1);
}

/* Keeps one of the errors since `from`: the annotation mends all of them.
   Prefers the given one. */
static Diag *keep_one_error(Diags *diags, uint32_t from,
                            const Diag *preferred) {
  Diag *kept = NULL;
  for (uint32_t i = from; i < diags->all.len; i++) {
    Diag *d = diags->all.at[i];
    if (d->severity == SEV_ERROR && (!kept || d == preferred))
      kept = d;
  }
  uint32_t len = from;
  for (uint32_t i = from; i < diags->all.len; i++) {
    Diag *d = diags->all.at[i];
    if (d->severity == SEV_ERROR && d != kept)
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
                      "if the recursive calls have other sizes, annotate the "
                      "parameters and the result: %s",
                      head);
}

void checker_recursion_help(Checker *c, Module *m, const Dec *dec, Diags *diags,
                            uint32_t from) {
  Type *type = c->inference.recursive_type;
  const Clause *k = dec->kind == DEC_FUN ? &dec->funs[0].clauses[0] : NULL;
  if (!type || !k || !has_plain_params(k))
    return;
  Annotation a;
  if (!annotate(c, k, type, &a) || !annotation_checks(c, m, dec, &a))
    if (!annotate(c, k, with_unknown_sizes(c, type), &a) ||
        !annotation_checks(c, m, dec, &a))
      return;
  Diag *d = keep_one_error(diags, from, c->inference.recursive_call);
  if (!d)
    return;
  d->fixit_count = 0; /* they implement the help that it had */
  d->help = help_text(c, d, a.text);
  diag_add_fixit_edits(c->arena, d, a.edits, a.count, "annotate %s",
                       k->name->text);
}
