/* Type inference of tuples, lists, records, fields and brackets. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/diag.h"
#include "support/intern.h"

Core *infer_tuple(Checker *c, Expr *e, Type *expected, Origin *whole,
                  Type **type) {
  Core *core = core_new(c, CORE_TUPLE, e->span);
  core->items = NEW_ARRAY(c->arena, Core *, e->item_count);
  core->item_count = e->item_count;
  Type **parts = NEW_ARRAY(c->arena, Type *, e->item_count);
  bool fits =
      expected && expected->tag == TY_TUPLE && expected->count == e->item_count;
  for (uint32_t i = 0; i < e->item_count; i++) {
    Type *w = fits ? ty_norm(c, expected->args[i]) : NULL;
    if (w && w->tag != TY_VAR) {
      Origin *o = origin_new(c, ORIGIN_ELEMENT, e->items[i]->span);
      o->expr = e->items[i];
      o->number = i;
      o->whole = whole;
      core->items[i] = check(c, e->items[i], w, o);
      parts[i] = w;
    } else {
      core->items[i] = infer(c, e->items[i], &parts[i]);
    }
  }
  *type = ty_tuple(c, e->item_count, parts);
  return core;
}

Type *ty_given_item(Checker *c, Type *expected) {
  if (!expected || expected->tag != TY_DATATYPE ||
      expected->data.type != c->builtins.list_datatype)
    return NULL;
  Type *item = ty_norm(c, expected->args[0]);
  return item->tag == TY_VAR || type_has_unsolved_shape(c, item)
             ? NULL
             : ty_forget_singletons(c, item);
}

Core *infer_list(Checker *c, Expr *e, Type *expected, Type **type) {
  Core *core = core_new(c, CORE_LIST, e->span);
  core->items = NEW_ARRAY(c->arena, Core *, e->item_count);
  core->item_count = e->item_count;
  Type *item = ty_given_item(c, expected);
  bool given = item != NULL;
  for (uint32_t i = 0; i < e->item_count; i++) {
    Type *t;
    Origin *o = origin_new(c, ORIGIN_ELEMENT, e->items[i]->span);
    o->subject = "list";
    o->number = i;
    o->expr = e->items[i];
    if (given) {
      core->items[i] = check(c, e->items[i], item, o);
      continue;
    }
    uint32_t mark = c->dims->next_id;
    core->items[i] = infer(c, e->items[i], &t);
    t = ty_forget_local_sizes(c, t, mark, FORGET_FROM_UNKNOWN);
    if (i)
      o->other_span = e->items[0]->span;
    item = i ? ty_join(c, item, t, o) : t;
  }
  if (!given && item && e->item_count)
    item = ty_forget_singletons(c, item);
  *type = ty_list(c, item ? item : ty_meta(c));
  return core;
}

Core *infer_record(Checker *c, Expr *e, Type *expected, Type **type) {
  Core *core = core_new(c, CORE_RECORD, e->span);
  uint32_t n = e->field_count;
  core->items = NEW_ARRAY(c->arena, Core *, n);
  core->labels = NEW_ARRAY(c->arena, Sym *, n);
  core->item_count = core->label_count = n;
  Type *r = ty_new(c, TY_RECORD);
  r->args = NEW_ARRAY(c->arena, Type *, n);
  r->record.labels = NEW_ARRAY(c->arena, Sym *, n);
  r->count = n;
  check_unique_fields(c, e->fields, n);
  for (uint32_t i = 0; i < n; i++) {
    FieldExpr *f = &e->fields[i];
    core->labels[i] = r->record.labels[i] = f->id;
    Type *w = NULL;
    for (uint32_t k = 0;
         expected && expected->tag == TY_RECORD && k < expected->count; k++)
      if (expected->record.labels[k] == f->id)
        w = ty_norm(c, expected->args[k]);
    if (w && w->tag != TY_VAR) {
      Origin *o = origin_new(c, ORIGIN_FIELD, f->expr->span);
      o->subject = f->id->text;
      o->expr = f->expr;
      o->record = e;
      core->items[i] = check(c, f->expr, w, o);
      r->args[i] = w;
    } else {
      core->items[i] = infer(c, f->expr, &r->args[i]);
    }
    refs_add_name(c, REF_FIELD, f->span, f->id, (Span){0}, r->args[i]);
  }
  *type = r;
  return core;
}

/* Hints that a method of other languages is a function here. */
static void hint_method(Checker *c, Diag *d, Sym *name) {
  const ForeignWord *word = lexer_find_foreign(name->text);
  if (word)
    d->help = word->help; /* its value precedes it */
  else if (lookup(c, NULL, name))
    d->help = arena_printf(c->arena, "apply the function: `%s x`", name->text);
}

/* Returns false after an error: a value of this type has no such field. */
static bool may_have_field(Checker *c, Type *t, Sym *name, Span span) {
  const Type *from = t->tag == TY_CAST ? ty_norm(c, t->cast.type) : t;
  if (from->tag == TY_VAR || (t->tag == TY_RECORD && t->record.rest))
    return true;
  for (uint32_t i = 0; t->tag == TY_RECORD && i < t->count; i++)
    if (t->record.labels[i] == name)
      return true;
  const char *shown = ty_text(c, ty_forget_singletons(c, t));
  Diag *d;
  if (t->tag == TY_RECORD) {
    d = error_at(c, 305, span, "there is no field `%s` in %s", name->text,
                 shown);
    suggest(c, d,
            (Suggestion){
                .kind = SUGGEST_FIELD, .span = span, .name = name, .type = t});
    return false;
  }
  d = error_at(c, 305, span, "%s has no field `%s`",
               t->tag == TY_TENSOR ? "a tensor" : "this", name->text);
  d->note = arena_printf(c->arena, "it is %s", shown);
  hint_method(c, d, name);
  if (!d->help)
    d->help = "only records have fields";
  return false;
}

static Type *record_with_row(Checker *c, Sym **labels, uint32_t n, Type *rest) {
  Type *r = ty_new(c, TY_RECORD);
  r->count = n;
  r->record.labels = labels;
  r->args = NEW_ARRAY(c->arena, Type *, n);
  for (uint32_t i = 0; i < n; i++)
    r->args[i] = ty_meta(c);
  r->record.rest = rest;
  return r;
}

Core *infer_with(Checker *c, Expr *e, Type **type) {
  Type *base;
  uint32_t n = e->field_count;
  Core *core = core_new(c, CORE_WITH, e->span);
  core->items = NEW_ARRAY(c->arena, Core *, n + 1);
  core->labels = NEW_ARRAY(c->arena, Sym *, n);
  core->item_count = n + 1;
  core->label_count = n;
  core->items[0] = infer(c, e->arg[0], &base);
  check_unique_fields(c, e->fields, n);
  for (uint32_t i = 0; i < n; i++)
    core->labels[i] = e->fields[i].id;
  for (uint32_t i = 0; i < n; i++)
    if (!may_have_field(c, ty_norm(c, base), e->fields[i].id,
                        e->fields[i].span))
      return core_error(c, e->span, type);
  Type *rest = ty_meta(c);
  Type *old = record_with_row(c, core->labels, n, rest);
  Origin *o = origin_new(c, ORIGIN_FIELD, e->arg[0]->span);
  if (!unify(c, base, old, o))
    report_type_mismatch(c, base, old, o);
  Type *new = record_with_row(c, core->labels, n, rest);
  for (uint32_t i = 0; i < n; i++)
    core->items[i + 1] = infer(c, e->fields[i].expr, &new->args[i]);
  for (uint32_t i = 0; i < n; i++)
    refs_add_name(c, REF_FIELD, e->fields[i].span, e->fields[i].id, (Span){0},
                  new->args[i]);
  *type = new;
  return core;
}

/* m.name or m.Con, where m is a module.  NULL if it is a field of a value. */
static Core *infer_member(Checker *c, Expr *e, Type **type) {
  Expr *base = e->arg[0];
  if (base->kind != EX_ID)
    return NULL;
  bool con = e->id->text[0] >= 'A' && e->id->text[0] <= 'Z';
  Binding *member = con ? lookup(c, base->id, e->id) : NULL;
  if (member)
    return infer_binding_use(c, member, e->span, e->op_span, type,
                             origin_new(c, ORIGIN_ARG, e->span));
  Binding *b = lookup(c, NULL, base->id);
  if (!b && lexer_find_foreign(base->id->text) &&
      lexer_find_foreign(e->id->text)) /* np.newaxis */
    return error_unbound_name(c, NULL, e->id, e->span, e->op_span, type);
  if (!b || b->kind != BK_MODULE)
    return NULL;
  member = lookup(c, base->id, e->id);
  refs_add_module(c, base->span, base->id, b);
  if (!member)
    return error_unbound_name(c, base->id, e->id, e->span, e->op_span, type);
  Origin *o =
      use_origin(c, e, member,
                 arena_printf(c->arena, "%s.%s", base->id->text, e->id->text));
  e->binding = member;
  return infer_binding_use(c, member, e->span, e->op_span, type, o);
}

/* The type of a field, or NULL.  Then *row becomes the row that may contain it:
   the last one, behind the known fields. */
static Type *find_field(Checker *c, Type **row, const Sym *name) {
  for (Type *r = *row; r->tag == TY_RECORD; *row = r) {
    for (uint32_t i = 0; i < r->count; i++)
      if (r->record.labels[i] == name)
        return r->args[i];
    if (!r->record.rest)
      break;
    r = ty_norm(c, r->record.rest);
  }
  return NULL;
}

Core *infer_field(Checker *c, Expr *e, Type **type) {
  Core *member = infer_member(c, e, type);
  if (member)
    return member;
  Expr *base = e->arg[0];
  Type *t;
  Core *core = core_new(c, CORE_FIELD, e->span);
  core->label = e->id;
  core->items = NEW(c->arena, Core *);
  core->item_count = 1;
  core->items[0] = infer(c, base, &t);
  Type *row = t = ty_norm(c, t);
  *type = find_field(c, &row, e->id);
  if (*type) {
    refs_add_name(c, REF_FIELD, e->op_span, e->id, (Span){0}, *type);
    return core;
  }
  if (!may_have_field(c, t, e->id, e->op_span.file ? e->op_span : e->span))
    return core_error(c, e->span, type);
  Sym **label = NEW(c->arena, Sym *);
  *label = e->id;
  Type *open = record_with_row(c, label, 1, ty_meta(c));
  Origin *o =
      origin_new(c, ORIGIN_FIELD, e->op_span.file ? e->op_span : e->span);
  o->subject = e->id->text;
  if (!unify(c, row, open, o))
    report_type_mismatch(c, t, open, o);
  *type = open->args[0];
  refs_add_name(c, REF_FIELD, e->op_span, e->id, (Span){0}, *type);
  return core;
}

/* Returns true after an error: a tensor cannot have an element of this type. */
static bool error_not_an_element(Checker *c, Expr *whole, Expr *item, Type *t) {
  t = ty_norm(c, t);
  if (t->tag != TY_DATATYPE && t->tag != TY_TUPLE && t->tag != TY_RECORD &&
      t->tag != TY_FUN)
    return false;
  Diag *d = error_at(c, 305, item->span, "a tensor has no elements of type %s",
                     ty_text(c, ty_forget_singletons(c, t)));
  d->help = whole->item_count == 1 ? "write a list as `list [x]`"
                                   : "write a list as `list [x, y]`";
  return true;
}

/* [a, b, c] as a tensor: the items have one shape, and a leading axis is
   added. */
Core *infer_bracket(Checker *c, Expr *e, Type **type) {
  Core *core = core_new(c, CORE_TENSOR, e->span);
  core->items = NEW_ARRAY(c->arena, Core *, e->item_count);
  core->item_count = e->item_count;
  core->splices = NEW_ARRAY(c->arena, bool, e->item_count);
  ElemVar *elem = elem_meta(c, CLASS_ANY);
  Shape *row = e->item_count ? NULL : shape_new(c, 0);
  Dim *n = dim_int(c->dims, 0);
  Type *first = NULL;
  for (uint32_t i = 0; i < e->item_count; i++) {
    Type *t;
    Origin *o = origin_new(c, ORIGIN_ELEMENT, e->items[i]->span);
    o->number = i;
    o->expr = e->items[i];
    if (i)
      o->other_span = e->items[0]->span;
    bool splice = e->splices && e->splices[i];
    core->splices[i] = splice;
    core->items[i] = infer(c, e->items[i], &t);
    if (error_not_an_element(c, e, e->items[i], t)) {
      *type = ty_meta(c);
      return core;
    }
    if (!row)
      row = shape_meta(c);
    Shape *whole = row;
    if (splice) {
      Dim *m = meta_dim(c, NULL, e->items[i]->span);
      whole = shape_concat(c, shape_of_dims(c, 1, &m), row);
      n = dim_add(c->dims, n, m);
    } else {
      n = dim_add(c->dims, n, dim_int(c->dims, 1));
    }
    Type *expected = ty_tensor(c, elem, whole, NULL);
    if (first)
      o->actual = t, o->expected = first;
    core->items[i] = subsume(c, core->items[i], t, expected, o);
    first = first ? first : t;
  }
  core->elem.var = elem;
  *type =
      ty_tensor(c, elem, shape_concat(c, shape_of_dims(c, 1, &n), row), NULL);
  return core;
}
