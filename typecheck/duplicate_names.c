/* Names that must be unique: variables of a pattern, parameters and their
   labels, functions of one `fun`, constructors, parameters of a type.  Also
   checks that a type mentions only declared parameters. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/diag.h"
#include "support/intern.h"

#include <string.h>

/* The names seen so far.  A list while there are few. */
typedef struct SeenNames {
  Checker *c;
  uint16_t code; /* of the message: "`what` x is `verb` twice" */
  const char *what, *verb;
  VEC(Sym *) names;
  VEC(Span) spans;
  Map map; /* maps a name to a Span; used for more than FEW names */
} SeenNames;

enum { MAX_LISTED_NAMES = 16 };

static SeenNames seen_names_new(Checker *c, const char *what,
                                const char *verb) {
  return (SeenNames){.c = c, .code = 370, .what = what, .verb = verb};
}

static SeenNames seen_labels_new(Checker *c, const char *what) {
  return (SeenNames){.c = c, .code = 343, .what = what, .verb = "given"};
}

static void error_twice(SeenNames *m, Span span, Span first, const Sym *name) {
  Diag *d = error_at(m->c, m->code, span, "%s `%s` is %s twice", m->what,
                     name->text, m->verb);
  if (m->code == 370)
    d->help = "rename one of them";
  diag_add_label(m->c->arena, d, first, "the first one");
}

static const Span *seen_before(SeenNames *m, Sym *name) {
  if (m->names.len > MAX_LISTED_NAMES)
    return map_get(&m->map, name);
  for (uint32_t i = 0; i < m->names.len; i++)
    if (m->names.at[i] == name)
      return &m->spans.at[i];
  return NULL;
}

/* Returns false if the name was seen before. */
static bool see_name(SeenNames *m, Sym *name, Span span) {
  Arena *arena = m->c->arena;
  const Span *first = seen_before(m, name);
  if (first) {
    error_twice(m, span, *first, name);
    return false;
  }
  VEC_PUSH(arena, m->names, name);
  VEC_PUSH(arena, m->spans, span);
  if (m->names.len <= MAX_LISTED_NAMES)
    return true;
  if (m->names.len == MAX_LISTED_NAMES + 1)
    map_init(&m->map, arena);
  uint32_t from = m->names.len == MAX_LISTED_NAMES + 1 ? 0 : m->names.len - 1;
  for (uint32_t i = from; i < m->names.len; i++) {
    Span *kept = NEW(arena, Span);
    *kept = m->spans.at[i];
    map_put(&m->map, m->names.at[i], kept);
  }
  return true;
}

/* ---- patterns ---- */

static void see_pattern(SeenNames *m, const Pat *p) {
  if ((p->kind == PAT_VAR || p->kind == PAT_AS || p->kind == PAT_SPLICE) &&
      p->id)
    see_name(m, p->id, p->id_span.file ? p->id_span : p->span);
  for (uint32_t i = 0; i < p->arg_count; i++)
    see_pattern(m, p->args[i]);
  for (uint32_t i = 0; i < p->field_count; i++) {
    if (p->fields[i].pat)
      see_pattern(m, p->fields[i].pat);
    else
      see_name(m, p->fields[i].id, p->fields[i].span);
  }
}

void check_unique_pattern(Checker *c, const Pat *p) {
  if (!p->arg_count && !p->field_count)
    return;
  SeenNames m = seen_names_new(c, "the variable", "bound");
  see_pattern(&m, p);
}

void check_unique_params(Checker *c, const Clause *k) {
  if (k->param_count == 1) {
    check_unique_pattern(c, k->params[0].pat);
    return;
  }
  SeenNames names = seen_names_new(c, "the parameter", "bound");
  SeenNames labels = seen_labels_new(c, "label");
  bool once = true;
  for (uint32_t i = 0; i < k->param_count; i++)
    if (k->params[i].label)
      once &= see_name(&labels, k->params[i].label, k->params[i].span);
  for (uint32_t i = 0; once && i < k->param_count; i++)
    see_pattern(&names, k->params[i].pat);
}

void check_unique_labels(Checker *c, const Arg *args, uint32_t count) {
  SeenNames labels = seen_labels_new(c, "label");
  for (uint32_t i = 0; i < count; i++)
    if (!args[i].label)
      labels.names.len = labels.spans.len = 0; /* next group */
    else
      see_name(&labels, args[i].label, args[i].label_span);
}

bool check_unique_binders(Checker *c, const Binder *binders, uint32_t count) {
  bool once = true;
  SeenNames m = seen_names_new(c, "the index", "bound");
  for (uint32_t i = 0; i < count; i++)
    if (strcmp(binders[i].id->text, "_") != 0)
      once &= see_name(&m, binders[i].id, binders[i].span);
  return once;
}

void check_unique_fields(Checker *c, const FieldExpr *fields, uint32_t count) {
  SeenNames m = seen_labels_new(c, "field");
  for (uint32_t i = 0; i < count; i++)
    see_name(&m, fields[i].id, fields[i].span);
}

/* ---- declarations ---- */

void check_unique_funs(Checker *c, const Dec *dec) {
  SeenNames m = seen_names_new(c, "the function", "defined");
  for (uint32_t i = 0; dec->fun_count > 1 && i < dec->fun_count; i++)
    see_name(&m, dec->funs[i].name, dec->funs[i].name_span);
}

static bool declares(const Dec *dec, const Sym *name) {
  for (uint32_t i = 0; i < dec->tyvar_count; i++)
    if (dec->tyvars[i] == name)
      return true;
  for (uint32_t i = 0; dec->has_axes && i < dec->axes.len; i++)
    if (dec->axes.at[i].kind == AXIS_DIM &&
        dec->axes.at[i].dim->kind == DX_ID && dec->axes.at[i].dim->id == name)
      return true;
  return false;
}

typedef struct TypeBody { /* body of a type declaration */
  Checker *c;
  const Dec *dec;
  VEC(Sym *) told; /* names already reported */
} TypeBody;

static void error_undeclared(TypeBody *in, const char *what, Sym *name,
                             Span span) {
  const Dec *dec = in->dec;
  for (uint32_t i = 0; i < in->told.len; i++)
    if (in->told.at[i] == name)
      return;
  VEC_PUSH(in->c->arena, in->told, name);
  bool size = name->text[0] != '\'';
  Diag *d = error_at(in->c, 371, span, "%s `%s` is not a parameter of `%s`",
                     what, name->text, dec->name->text);
  const char *kind = dec->kind == DEC_TYPE ? "type" : "datatype";
  if (!size && dec->tyvar_count)
    d->help =
        arena_printf(in->c->arena, "declare it before `%s`", dec->name->text);
  else if (!size)
    d->help = arena_printf(in->c->arena, "write `%s %s %s`", kind, name->text,
                           dec->name->text);
  else if (strcmp(what, "the size") == 0 && dec->has_axes)
    d->help = arena_printf(
        in->c->arena,
        "declare it in the brackets of `%s`, or write `?` for an unknown size",
        dec->name->text);
  else if (strcmp(what, "the size") == 0)
    d->help = arena_printf(in->c->arena,
                           "write `%s %s[%s]`, or `?` for an unknown size",
                           kind, dec->name->text, name->text);
}

static void walk_axes(TypeBody *in, Axes axes);

static void walk_dim(TypeBody *in, const DimExpr *d) {
  switch (d->kind) {
  case DX_ID:
    if (declares(in->dec, d->id))
      break;
    if (in->dec->kind == DEC_TYPE && annot_size_in_scope(in->c, d->id))
      break;
    error_undeclared(in, "the size", d->id, d->span);
    break;
  case DX_NEG:
    walk_dim(in, d->arg[0]);
    break;
  case DX_BIN:
    walk_dim(in, d->arg[0]);
    walk_dim(in, d->arg[1]);
    break;
  case DX_SHAPE:
  case DX_CALL:
    if (!d->id || strcmp(d->id->text, "prod") != 0)
      walk_axes(in, d->axes);
    break;
  case DX_NUM:
  case DX_EXISTENTIAL:
  case DX_HOLE:
    break;
  }
}

static void walk_axes(TypeBody *in, Axes axes) {
  for (uint32_t i = 0; i < axes.len; i++) {
    const AxisExpr *a = &axes.at[i];
    if (a->kind == AXIS_DIM)
      walk_dim(in, a->dim);
    else if (a->kind == AXIS_SPLICE && a->id && !a->is_call)
      error_undeclared(in, "the shape", a->id, a->span);
  }
}

static void walk_type(TypeBody *in, const TypeExpr *t) {
  if (t->kind == TX_VAR && !declares(in->dec, t->id))
    error_undeclared(in, "the type variable", t->id, t->span);
  if (t->has_axes)
    walk_axes(in, t->axes);
  if (t->dim)
    walk_dim(in, t->dim);
  for (int i = 0; i < 2; i++)
    if (t->arg[i])
      walk_type(in, t->arg[i]);
  if (t->kind == TX_CALL && strcmp(t->name.id->text, "dim") == 0)
    walk_axes(in, t->axes);
  for (uint32_t i = 0; i < t->arg_count; i++)
    walk_type(in, t->args[i]);
  for (uint32_t i = 0; i < t->field_count; i++)
    walk_type(in, t->fields[i].type);
}

static bool used_as_elem(const TypeExpr *t, const Sym *name) {
  if (t->kind == TX_VAR && t->id == name && t->has_axes)
    return true;
  for (int i = 0; i < 2; i++)
    if (t->arg[i] && used_as_elem(t->arg[i], name))
      return true;
  for (uint32_t i = 0; i < t->arg_count; i++)
    if (used_as_elem(t->args[i], name))
      return true;
  for (uint32_t i = 0; i < t->field_count; i++)
    if (used_as_elem(t->fields[i].type, name))
      return true;
  return false;
}

bool param_is_elem(const Dec *dec, uint32_t i) {
  Sym *name = dec->tyvars[i];
  if (dec->type && used_as_elem(dec->type, name))
    return true;
  for (uint32_t k = 0; k < dec->con_count; k++)
    if (dec->cons[k].type && used_as_elem(dec->cons[k].type, name))
      return true;
  return false;
}

void check_unique_type(Checker *c, const Dec *dec) {
  uint32_t errors = c->diags->errors;
  SeenNames params = seen_names_new(c, "the parameter", "declared");
  for (uint32_t i = 0; i < dec->tyvar_count; i++)
    see_name(&params, dec->tyvars[i], dec->name_span);
  for (uint32_t i = 0; dec->has_axes && i < dec->axes.len; i++) {
    const AxisExpr *a = &dec->axes.at[i];
    if (a->kind == AXIS_DIM && a->dim->kind == DX_ID)
      see_name(&params, a->dim->id, a->span);
    else
      error_at(c, 349, a->span, "a parameter of a type is a name");
  }
  const char *name = dec->name->text;
  if (dtype_by_name(name) != DT_NONE || strcmp(name, "int") == 0 ||
      strcmp(name, "unit") == 0)
    error_at(c, 342, dec->name_span, "cannot redefine `%s`", name)->help =
        "use another name: this is a predefined type";
  SeenNames cons = seen_names_new(c, "the constructor", "defined");
  TypeBody in = {.c = c, .dec = dec};
  bool sound = c->diags->errors == errors;
  for (uint32_t i = 0; i < dec->con_count; i++) {
    const ConDef *k = &dec->cons[i];
    see_name(&cons, k->name, k->span);
    if (k->name == c->builtins.sym_true || k->name == c->builtins.sym_false)
      error_at(c, 370, k->span, "cannot redefine `%s`", k->name->text)->help =
          "constructors begin with a capital letter";
    if (k->type && sound)
      walk_type(&in, k->type);
  }
  if (dec->type && sound)
    walk_type(&in, dec->type);
}
