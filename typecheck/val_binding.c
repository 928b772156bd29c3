/* Value declarations: their types, and which variables are generalized. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/diag.h"
#include "support/intern.h"

/* ---- what generalises ---- */

static bool is_syntactic_value(const Expr *e) {
  bool is = true;
  switch (e->kind) {
  case EX_ID:
  case EX_CON:
  case EX_OP:
  case EX_FN:
  case EX_NUM:
  case EX_STRING:
    return true;
  case EX_ASCRIBE:
  case EX_FIELD:
    return is_syntactic_value(e->arg[0]);
  case EX_TUPLE:
  case EX_LIST:
    for (uint32_t i = 0; i < e->item_count; i++)
      is &= is_syntactic_value(e->items[i]);
    return is;
  case EX_RECORD:
    for (uint32_t i = 0; i < e->field_count; i++)
      is &= is_syntactic_value(e->fields[i].expr);
    return is;
  case EX_APP:
    is = e->arg[0]->kind == EX_CON;
    for (uint32_t i = 0; i < e->arg_count; i++)
      is &= is_syntactic_value(e->args[i].expr);
    return is;
  case EX_HOLE:
  case EX_SEQ:
  case EX_BRACKET:
  case EX_RECORD_UPDATE:
  case EX_LET:
  case EX_CASE:
  case EX_IF:
  case EX_FOR:
  case EX_BIN:
  case EX_NEG:
  case EX_INDEX:
  case EX_ERROR:
    return false;
  }
  return false;
}

typedef struct FunctionSearch {
  Checker *c;
  Map seen;          /* datatypes */
  bool in_datatypes; /* also searches lists and constructors */
} FunctionSearch;

static bool mentions_fun(FunctionSearch *f, Type *t, int depth) {
  t = ty_norm(f->c, t);
  bool data = f->in_datatypes && t->tag == TY_DATATYPE;
  if (t->tag == TY_FUN)
    return true;
  if (depth > 8 || (t->tag != TY_RECORD && t->tag != TY_TUPLE && !data))
    return false;
  for (uint32_t i = 0; i < t->count; i++)
    if (mentions_fun(f, t->args[i], depth + 1))
      return true;
  if (!data || map_get(&f->seen, t->data.type))
    return false;
  map_put(&f->seen, t->data.type, t);
  for (uint32_t i = 0; i < t->data.type->con_count; i++) {
    const struct DataCon *k = &t->data.type->cons[i];
    if (k->con.has_arg &&
        mentions_fun(f, k->scheme->type->fun.param, depth + 1))
      return true;
  }
  return false;
}

/* A constructor without an argument, also of a module, or `list []`.  Labels of
   records begin with a small letter. */
static bool is_empty_structure(const Expr *e) {
  return e->kind == EX_CON || (e->kind == EX_LIST && !e->item_count) ||
         (e->kind == EX_FIELD && e->id->text[0] >= 'A' &&
          e->id->text[0] <= 'Z');
}

/* True if a value is generalized: functions, values that contain them, and
   empty structures.  A generalized value is evaluated at each use, so a
   computed list is not generalized. */
static bool is_generalizable(Checker *c, const Expr *e, Type *t) {
  if (is_empty_structure(e))
    return true;
  FunctionSearch f = {.c = c, .in_datatypes = is_syntactic_value(e)};
  map_init(&f.seen, c->arena);
  return mentions_fun(&f, t, 0);
}

/* ---- sizes and annotations ---- */

static void error_size_of_itself(Checker *c, const DimVar *v) {
  const char *name = dim_var_name(c->dims, v);
  error_at(c, 363, v->origin, "cannot determine the size `%s`", name)->help =
      arena_printf(c->arena,
                   "the value needs it: define it before, as in `val %s = 3`, "
                   "or assume it with -D %s=3",
                   name, name);
}

/* Sizes that an annotation names and nothing has solved are read off the
   value. */
void bind_discovered_sizes(Checker *c, Scope *mark, Type *t, Core **core) {
  VEC(DimVar *) found = {0};
  for (Scope *s = c->names.scope; s && s != mark; s = s->outer) {
    DimVar *v = s->dim ? dim_as_var(dim_resolve(c->dims, s->dim)) : NULL;
    if (v && v->kind == DV_META && !v->solution && !v->unknown &&
        v->name == s->name && !dim_var_in_parameter(c, v))
      VEC_PUSH(c->arena, found, v);
  }
  if (!found.len)
    return;
  Map fresh;
  map_init(&fresh, c->arena);
  for (uint32_t i = 0; i < found.len; i++)
    if (requires_size(c, *core, found.at[i])) {
      error_size_of_itself(c, found.at[i]);
      return;
    }
  for (uint32_t i = 0; i < found.len; i++) {
    found.at[i]->kind = DV_EXISTENTIAL;
    wakeup_dim_solved(c, found.at[i]);
    found.at[i]->level = c->inference.level;
    map_put(&fresh, found.at[i], found.at[i]);
    VEC_PUSH(c->arena, c->sizes.discovered, found.at[i]);
  }
  unpack_sizes(c, t, core, &fresh);
}

Core *abstract_implicits(Checker *c, Scheme *s, Core *core) {
  if (!s->implicits.len)
    return core;
  Core *lam = core_items(c, CORE_TLAM, core->span, 1, core);
  lam->implicits = s->implicits.at;
  lam->implicit_count = s->implicits.len;
  implicit_find_paths(c, lam, s->type);
  s->type_lambda = lam;
  return lam;
}

static Type *val_annotation(Checker *c, Dec *dec) {
  Pat *p = dec->pat;
  if (dec->type)
    return annot_type(c, dec->type, ANNOT_VAL);
  if (p->kind == PAT_ASCRIBE)
    return annot_type(c, p->type, ANNOT_VAL);
  return NULL;
}

static void define_named_sizes(Checker *c, Scope *mark, bool top) {
  if (!top)
    return;
  for (Scope *s = c->names.scope; s && s != mark; s = s->outer)
    if (s->dim && s->name) {
      Binding *b = binding_new(c, BK_SIZE, s->name, s->span);
      b->dim = s->dim;
      b->scheme = scheme_mono(c, ty_int(c, s->dim));
      module_define(c, s->name, b);
    }
}

/* Checks a value against its annotation. *t is its own type.  Tensors are
   inferred first, so that the value of an integer is known. */
static Core *check_val(Checker *c, Dec *dec, Type *expected, Type **t) {
  Origin *o = origin_new(c, ORIGIN_ANNOTATION, dec->expr->span);
  o->other_span = dec->type ? dec->type->span : dec->pat->type->span;
  o->expr = dec->expr;
  Type *w = ty_norm(c, expected), *actual;
  *t = expected;
  if (w->tag != TY_TENSOR || dec->expr->kind == EX_FN ||
      dec->expr->kind == EX_IF || dec->expr->kind == EX_CASE)
    return check(c, dec->expr, expected, o);
  Core *core = infer_expecting(c, dec->expr, w, &actual);
  core = subsume(c, core, actual, w, o);
  actual = ty_norm(c, actual);
  if (actual->tag == TY_TENSOR && actual->tensor.singleton)
    *t =
        ty_tensor(c, w->tensor.elem, w->tensor.shape, actual->tensor.singleton);
  return core;
}

/* Infers the value and checks its annotation.  Given constraints of a function
   are assumed; those of other values must hold. */
static Core *infer_value(Checker *c, Dec *dec, Scope *mark, Type **t) {
  uint32_t serial = c->solver.serial;
  Type *expected = val_annotation(c, dec);
  bool fn = dec->expr->kind == EX_FN;
  if (fn)
    annot_givens(c, dec->given, ANNOT_VAL, true);
  if (!expected)
    return infer(c, dec->expr, t);
  Core *core = check_val(c, dec, expected, t);
  solve_pending(c);
  if (!fn) {
    uint32_t before = c->solver.serial;
    annot_givens(c, dec->given, ANNOT_VAL, false);
    runtime_checks_claim(c, core, before, true);
  }
  bind_discovered_sizes(c, mark, expected, &core);
  runtime_checks_claim(c, core, serial, true);
  return core;
}

/* ---- the declaration ---- */

/* A pattern and the value that it matches: of the whole declaration or of a
   part. */
typedef struct ValPart {
  Pat *pat;
  Type *type;
  Scheme *scheme; /* scheme that each use instantiates, or NULL */
  Core **core;
} ValPart;
typedef VEC(ValPart) ValParts;

/* Generalizes the type of a name. */
static Scheme *generalize_val(Checker *c, Sym *name, Type *t, Core **core,
                              bool top, uint32_t pending) {
  Scheme *s = NULL;
  scheme_generalize(c, 1, &t, &s, pending);
  runtime_checks_insert(c);
  dependent_check(c, s);
  if (top)
    note_deferred(c, s, name);
  implicit_collect(c, s, *core);
  required_sizes_mark(c, s, *core);
  *core = abstract_implicits(c, s, *core);
  return s;
}

static Type *infer_part(Checker *c, Dec *dec, bool top, Core **out,
                        ValParts *parts) {
  Scope *mark = c->names.scope;
  uint32_t pending = c->solver.pending.len;
  uint32_t outer_params = c->inference.params.len;
  Effect *outer = c->inference.effect, *effect = effect_var(c);
  c->inference.effect = effect;
  c->inference.level++;
  Type *t;
  Sym *outer_name = c->inference.val_name;
  if (dec->pat->kind == PAT_VAR)
    c->inference.val_name = dec->pat->id;
  Expr *outer_function = c->inference.val_function;
  c->inference.val_function = dec->expr;
  *out = infer_value(c, dec, mark, &t);
  c->inference.val_function = outer_function;
  c->inference.val_name = outer_name;
  solve_pending(c);
  c->inference.level--;
  c->inference.effect = outer;
  effect = effect_close(c, effect);
  if (outer)
    effect_subsume(c, effect, outer, dec->expr->span, NULL);
  Pat *pat = dec->pat;
  if (pat->kind == PAT_ASCRIBE && !dec->type)
    pat = pat->args[0];
  ValPart part = {pat, t, NULL, out};
  if (effect->tag != EF_IMPURE && pat->kind == PAT_VAR &&
      is_generalizable(c, dec->expr, t))
    part.scheme = generalize_val(c, pat->id, t, out, top, pending);
  else
    ty_adjust_levels(c, t);
  c->inference.params.len = outer_params;
  /* uses name an integer without a known term after the variable */
  pat->value = dec->expr;
  VEC_PUSH(c->arena, *parts, part);
  return t;
}

/* (a, b) = (d, e) means a = d and b = e. */
static Type *infer_parts(Checker *c, Dec *dec, bool top, Core **out,
                         ValParts *parts) {
  Pat *p = dec->pat;
  Expr *e = dec->expr;
  if (dec->type || dec->given.len || p->kind != PAT_TUPLE ||
      e->kind != EX_TUPLE || !e->item_count || p->arg_count != e->item_count)
    return infer_part(c, dec, top, out, parts);
  Type **types = NEW_ARRAY(c->arena, Type *, e->item_count);
  *out = core_new(c, CORE_TUPLE, e->span);
  (*out)->items = NEW_ARRAY(c->arena, Core *, e->item_count);
  (*out)->item_count = e->item_count;
  for (uint32_t i = 0; i < e->item_count; i++) {
    Dec *part = NEW(c->arena, Dec);
    *part = *dec;
    part->pat = p->args[i];
    part->expr = e->items[i];
    types[i] = infer_parts(c, part, top, &(*out)->items[i], parts);
  }
  return e->inferred_type = ty_tuple(c, e->item_count, types);
}

/* Binds names after all parts are read. *part is the next part. */
static CorePat *bind_val_parts(Checker *c, Pat *p, bool top,
                               const ValPart **part) {
  CorePat *cp;
  const ValPart *at = *part;
  Pat *whole = p->kind == PAT_ASCRIBE ? p->args[0] : p;
  if (at->pat != p && at->pat != whole) {
    cp = corepat_new(c, CP_TUPLE, p->span);
    cp->arg_count = p->arg_count;
    cp->args = NEW_ARRAY(c->arena, CorePat *, p->arg_count);
    for (uint32_t i = 0; i < p->arg_count; i++)
      cp->args[i] = bind_val_parts(c, p->args[i], top, part);
    return cp;
  }
  ++*part;
  cp = infer_pattern(c, at->pat, at->type, top);
  if (at->scheme)
    c->names.scope->binding->scheme = at->scheme;
  return cp;
}

CoreDec *infer_val(Checker *c, Dec *dec, bool top) {
  Scope *mark = c->names.scope;
  ValParts parts = {0};
  CoreDec *d = NEW(c->arena, CoreDec);
  d->kind = CD_BIND;
  d->span = dec->span;
  check_unique_pattern(c, dec->pat);
  Type *t = infer_parts(c, dec, top, &d->expr, &parts);
  const ValPart *part = parts.at;
  d->pat = bind_val_parts(c, dec->pat, top, &part);
  if (d->pat->kind != CP_VAR)
    check_exhaustiveness(c, 1, &d->pat, t, d->pat->span);
  define_named_sizes(c, mark, top);
  for (uint32_t i = 0; top && i < parts.len; i++)
    if (!parts.at[i].scheme)
      VEC_PUSH(c->arena, c->sizes.unsized_values,
               ((UnsizedValue){parts.at[i].type, parts.at[i].core, dec}));
  return d;
}
