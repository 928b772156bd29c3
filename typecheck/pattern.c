/* Patterns: the variables that they bind, and the type of value that they
   require. */
#include "typecheck/internal.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/diag.h"
#include "support/intern.h"

#include <string.h>

CorePat *corepat_new(Checker *c, CorePatKind kind, Span span) {
  CorePat *p = NEW(c->arena, CorePat);
  p->kind = kind;
  p->span = span;
  p->rest = -1;
  return p;
}

static Var *bind_name(Checker *c, Sym *name, Span span, Type *type, bool top) {
  Binding *b = binding_new(c, BK_VALUE, name, span);
  b->scheme = scheme_mono(c, type);
  b->value.var = var_new(c, name, span, top);
  scope_push(c, name, b);
  refs_add_binding(c, span, b, type);
  if (top && c->inference.pattern_bindings)
    VEC_PUSH(c->arena, *c->inference.pattern_bindings, b);
  return b->value.var;
}

static void pat_mismatch(Checker *c, Pat *p, Type *actual, Type *expected) {
  Origin *o = origin_new(c, ORIGIN_PATTERN, p->span);
  report_type_mismatch(c, expected, actual, o);
}

static void unify_pattern(Checker *c, Pat *p, Type *type, Type *expected) {
  Origin *o = origin_new(c, ORIGIN_PATTERN, p->span);
  if (!unify(c, type, expected, o))
    pat_mismatch(c, p, type, expected);
}

static CorePat *pat_parts(Checker *c, Pat *p, CorePatKind kind, Type **types,
                          bool top) {
  CorePat *cp = corepat_new(c, kind, p->span);
  cp->arg_count = p->arg_count;
  cp->args = NEW_ARRAY(c->arena, CorePat *, p->arg_count);
  for (uint32_t i = 0; i < p->arg_count; i++)
    cp->args[i] = infer_pattern(c, p->args[i], types[i], top);
  return cp;
}

static CorePat *pat_tuple(Checker *c, Pat *p, Type *type, bool top) {
  Type *t = ty_norm(c, type);
  if (t->tag != TY_TUPLE || t->count != p->arg_count) {
    Type **args = NEW_ARRAY(c->arena, Type *, p->arg_count);
    for (uint32_t i = 0; i < p->arg_count; i++)
      args[i] = ty_meta(c);
    Type *expected = ty_tuple(c, p->arg_count, args);
    unify_pattern(c, p, t, expected);
    t = expected;
  }
  return pat_parts(c, p, CP_TUPLE, t->args, top);
}

static CorePat *pat_list(Checker *c, Pat *p, Type *type, bool top) {
  Type *item = ty_meta(c);
  Type *list = ty_list(c, item);
  unify_pattern(c, p, type, list);
  Type **types = NEW_ARRAY(c->arena, Type *, p->arg_count);
  for (uint32_t i = 0; i < p->arg_count; i++)
    types[i] = p->kind == PAT_CONS && i == 1 ? list : item;
  return pat_parts(c, p, p->kind == PAT_CONS ? CP_CONS : CP_LIST, types, top);
}

/* After an error about a constructor: the names of its argument have any
   type. */
static CorePat *failed_con(Checker *c, Pat *p, bool top) {
  if (p->arg_count)
    infer_pattern(c, p->args[0], ty_meta(c), top);
  return corepat_new(c, CP_WILD, p->span);
}

static CorePat *pat_con(Checker *c, Pat *p, Type *type, bool top) {
  if (!p->name.module && (p->name.id == c->builtins.sym_true ||
                          p->name.id == c->builtins.sym_false)) {
    unify_pattern(c, p, type, ty_scalar(c, DT_BOOL, NULL));
    CorePat *cp = corepat_new(c, CP_BOOL, p->span);
    cp->flag = p->name.id == c->builtins.sym_true;
    return cp;
  }
  Binding *b = lookup(c, p->name.module, p->name.id);
  if (!b || b->kind != BK_CON) {
    error_unbound_con(c, p->name.module, p->name.id, p->span);
    return failed_con(c, p, top);
  }
  refs_add_binding(c, p->name.span, b, NULL);
  Type *t = scheme_instantiate(c, b->scheme,
                               origin_new(c, ORIGIN_PATTERN, p->span), NULL);
  CorePat *cp = corepat_new(c, CP_CON, p->span);
  cp->con = &b->con->con;
  if (b->con->con.has_arg != (p->arg_count == 1)) {
    error_at(c, 345, p->span, "constructor `%s` takes %s argument",
             b->name->text, b->con->con.has_arg ? "an" : "no")
        ->help =
        arena_printf(c->arena,
                     b->con->con.has_arg ? "write `(%s x)`, or `(%s _)`"
                                         : "write `%s` alone",
                     b->name->text, b->name->text);
    return failed_con(c, p, top);
  }
  if (!p->arg_count) {
    unify_pattern(c, p, type, t);
    return cp;
  }
  unify_pattern(c, p, type, t->fun.result);
  cp->args = NEW(c->arena, CorePat *);
  cp->arg_count = 1;
  cp->args[0] = infer_pattern(c, p->args[0], t->fun.param, top);
  return cp;
}

static bool has_label(const Type *t, const Sym *label) {
  for (uint32_t i = 0; i < t->count; i++)
    if (t->record.labels[i] == label)
      return true;
  return false;
}

/* True if the labels of the pattern and of a completely known record agree, or
   if the record is not completely known.  Otherwise reports an error. */
static bool check_record_labels(Checker *c, Pat *p, Type *type,
                                Type *expected) {
  Type *t = ty_norm(c, type);
  if (t->tag != TY_RECORD || t->record.rest)
    return true;
  for (uint32_t i = 0; i < expected->count; i++)
    if (!has_label(t, expected->record.labels[i])) {
      error_at(c, 305, p->fields[i].span, "there is no field `%s` in %s",
               expected->record.labels[i]->text,
               ty_text(c, ty_forget_singletons(c, t)));
      return false;
    }
  for (uint32_t i = 0; i < t->count && !p->is_open; i++)
    if (!has_label(expected, t->record.labels[i])) {
      error_at(c, 305, p->span, "this pattern omits the field `%s`",
               t->record.labels[i]->text)
          ->help = "to ignore other fields, end the pattern with `...`";
      return false;
    }
  return true;
}

static CorePat *pat_record(Checker *c, Pat *p, Type *type, bool top) {
  uint32_t n = p->field_count;
  Type *expected = ty_new(c, TY_RECORD);
  expected->count = n;
  expected->record.labels = NEW_ARRAY(c->arena, Sym *, n);
  expected->args = NEW_ARRAY(c->arena, Type *, n);
  if (p->is_open)
    expected->record.rest = ty_meta(c);
  for (uint32_t i = 0; i < n; i++) {
    expected->record.labels[i] = p->fields[i].id;
    for (uint32_t k = 0; k < i; k++)
      if (expected->record.labels[k] == expected->record.labels[i])
        error_at(c, 343, p->fields[i].span, "duplicate field `%s`",
                 expected->record.labels[i]->text);
    expected->args[i] =
        p->fields[i].type
            ? annot_type(c, p->fields[i].type, top ? ANNOT_VAL : ANNOT_PARAM)
            : ty_meta(c);
  }
  if (check_record_labels(c, p, type, expected))
    unify_pattern(c, p, type, expected);
  CorePat *cp = corepat_new(c, CP_RECORD, p->span);
  cp->labels = expected->record.labels;
  cp->arg_count = n;
  cp->args = NEW_ARRAY(c->arena, CorePat *, n);
  for (uint32_t i = 0; i < n; i++) {
    PatField *f = &p->fields[i];
    refs_add_name(c, REF_FIELD, f->span, f->id, (Span){0}, expected->args[i]);
    if (f->pat) {
      cp->args[i] = infer_pattern(c, f->pat, expected->args[i], top);
    } else {
      cp->args[i] = corepat_new(c, CP_VAR, f->span);
      cp->args[i]->var = bind_name(c, f->id, f->span, expected->args[i], top);
    }
  }
  return cp;
}

/* [b, h, ...s] matches a shape value: each item becomes a known size. */
static CorePat *pat_shape(Checker *c, Pat *p, Type *type, bool top) {
  CorePat *cp = corepat_new(c, CP_SHAPE, p->span);
  cp->arg_count = p->arg_count;
  cp->args = NEW_ARRAY(c->arena, CorePat *, p->arg_count);
  Shape *s = shape_new(c, 0);
  Shape **parts = NEW_ARRAY(c->arena, Shape *, p->arg_count);
  for (uint32_t i = 0; i < p->arg_count; i++) {
    if (p->args[i]->kind == PAT_SPLICE) {
      if (cp->rest >= 0)
        error_at(c, 346, p->args[i]->span,
                 "a shape pattern has at most one ...");
      parts[i] = shape_meta(c);
      cp->rest = (int)i;
    } else {
      Dim *d = meta_dim(c, p->args[i]->id, p->args[i]->span);
      parts[i] = shape_of_dims(c, 1, &d);
    }
    s = shape_concat(c, s, parts[i]);
  }
  Type *value = ty_norm(c, type);
  if (value->tag == TY_DATATYPE &&
      value->data.type == c->builtins.list_datatype)
    error_at(c, 305, p->span, "this pattern matches a shape, not a list")
        ->help = "to match a list, write `list [a, b]` or `x :: rest`";
  else
    unify_pattern(c, p, type, ty_shape(c, s));
  for (uint32_t i = 0; i < p->arg_count; i++) {
    Pat *item = p->args[i];
    if (item->kind != PAT_SPLICE) {
      cp->args[i] =
          infer_pattern(c, item, ty_int(c, parts[i]->axes[0].dim), top);
    } else if (item->id) {
      cp->args[i] = corepat_new(c, CP_VAR, item->span);
      cp->args[i]->var =
          bind_name(c, item->id, item->span, ty_shape(c, parts[i]), top);
    } else {
      cp->args[i] = corepat_new(c, CP_WILD, item->span);
    }
  }
  return cp;
}

static CorePat *pat_num(Checker *c, Pat *p, Type *type) {
  CorePat *cp = corepat_new(c, CP_NUM, p->span);
  ElemVar *e = elem_meta(c, p->is_float ? CLASS_FLOAT : CLASS_NUM);
  e->default_preference = p->is_float ? PREFERS_F32 : PREFERS_INT;
  literal_note(c, e, p->num, p->is_float);
  Type *t = ty_norm(c, type);
  /* an unknown value may be an integer */
  Dim *integer = t->tag == TY_VAR && !t->var->skolem && !p->is_float
                     ? meta_integer(c, (Span){0})
                     : NULL;
  Type *expected = ty_tensor(c, e, shape_new(c, 0), integer);
  if (t->tag == TY_TENSOR) {
    if (!unify_elem(c, t->tensor.elem, e) ||
        !unify_shape(c, t->tensor.shape, expected->tensor.shape,
                     origin_new(c, ORIGIN_PATTERN, p->span)))
      pat_mismatch(c, p, t, expected);
  } else {
    unify_pattern(c, p, t, expected);
  }
  cp->num = p->num;
  cp->is_float = p->is_float;
  cp->elem.var = e;
  return cp;
}

CorePat *infer_pattern(Checker *c, Pat *p, Type *type, bool top) {
  CorePat *cp;
  switch (p->kind) {
  case PAT_WILD:
    return corepat_new(c, CP_WILD, p->span);
  case PAT_VAR:
    cp = corepat_new(c, CP_VAR, p->span);
    cp->var = bind_name(c, p->id, p->span, type, top);
    c->names.scope->binding->value.expr = p->value;
    return cp;
  case PAT_NUM:
    return pat_num(c, p, type);
  case PAT_STRING:
    unify_pattern(c, p, type, ty_string(c));
    cp = corepat_new(c, CP_STRING, p->span);
    cp->text = p->text;
    cp->text_len = p->text_len;
    return cp;
  case PAT_CON:
    return pat_con(c, p, type, top);
  case PAT_TUPLE:
    return pat_tuple(c, p, type, top);
  case PAT_RECORD:
    return pat_record(c, p, type, top);
  case PAT_SHAPE:
    return pat_shape(c, p, type, top);
  case PAT_LIST:
  case PAT_CONS:
    return pat_list(c, p, type, top);
  case PAT_AS:
    cp = corepat_new(c, CP_AS, p->span);
    cp->var =
        bind_name(c, p->id, p->id_span.file ? p->id_span : p->span, type, top);
    cp->args = NEW(c->arena, CorePat *);
    cp->arg_count = 1;
    cp->args[0] = infer_pattern(c, p->args[0], type, top);
    return cp;
  case PAT_ASCRIBE: {
    Type *expected = annot_type(c, p->type, top ? ANNOT_VAL : ANNOT_PARAM);
    unify_pattern(c, p, type, expected);
    p->args[0]->value = p->value;
    cp = infer_pattern(c, p->args[0], expected, top);
    if (p->args[0]->kind == PAT_VAR)
      c->names.scope->binding->value.annotation_span = p->span;
    return cp;
  }
  case PAT_SPLICE:
    break;
  }
  error_at(c, 346, p->span, "... is allowed only in a shape pattern");
  return corepat_new(c, CP_WILD, p->span);
}
