/* Formatting of types, sizes, facts and patterns. */
#include "parser/format.h"

/* ---- sizes and axes ---- */

static int dim_level(const DimExpr *d) {
  switch (d->kind) {
  case DX_BIN:
    return d->op == '+' || d->op == '-' ? 1 : 2;
  case DX_NEG:
    return 3;
  case DX_NUM:
  case DX_ID:
  case DX_SOME:
  case DX_HOLE:
  case DX_CALL:
  case DX_SHAPE:
    return 4;
  }
  return 4;
}

static Doc *dim_doc(Formatter *f, const DimExpr *d, int least);

static Doc *dim_inner(Formatter *f, const DimExpr *d) {
  switch (d->kind) {
  case DX_NUM:
    return fmt_text(f, d->num);
  case DX_ID:
    return fmt_sym(f, d->id);
  case DX_SOME:
    return fmt_text(f,
                    d->id ? arena_printf(f->arena, "?%s", d->id->text) : "?");
  case DX_HOLE:
    return fmt_text(f, "_");
  case DX_NEG:
    return CAT(f, fmt_text(f, "-"), dim_doc(f, d->arg[0], 3));
  case DX_BIN: {
    int level = dim_level(d);
    Doc *left = dim_doc(f, d->arg[0], level);
    const char *op = arena_printf(f->arena, "%c ", d->op);
    Doc *right = dim_doc(f, d->arg[1], level + 1);
    return CAT(f, left, LINE(f), fmt_text(f, op), right);
  }
  case DX_CALL: {
    Doc *id = fmt_sym(f, d->id);
    return CAT(f, id, fmt_axes(f, "(", &d->axes, ")", d->span.end));
  }
  case DX_SHAPE:
    return fmt_axes(f, "[", &d->axes, "]", d->span.end);
  }
  return NULL;
}

static Doc *dim_doc(Formatter *f, const DimExpr *d, int least) {
  Doc *lead = fmt_lead(f, d->span.start);
  Doc *body = dim_inner(f, d);
  return fmt_wrap(f, lead, body, d->span, true, dim_level(d) < least);
}

static Doc *axis_doc(Formatter *f, const AxisExpr *axis) {
  switch (axis->kind) {
  case AXIS_DIM:
    return GROUP(f, ALIGN(f, dim_doc(f, axis->dim, 0)));
  case AXIS_STAR:
    return fmt_text(f, "*");
  case AXIS_SPLICE:
    break;
  }
  Doc *id = axis->id ? fmt_sym(f, axis->id) : NULL, *args = NULL;
  if (axis->call)
    args = fmt_axes(f, "(", &axis->args, ")", axis->span.end);
  return CAT(f, fmt_text(f, "..."), id, args);
}

Doc *fmt_axes(Formatter *f, const char *open, const Axes *axes,
              const char *close, uint32_t end) {
  if (open[0] == '(' && axes->len && axes->at[0].kind == AXIS_STAR)
    open = "( "; /* else it would open a comment */
  ItemVec items = {0};
  for (uint32_t i = 0; i < axes->len; i++) {
    Doc *lead = fmt_lead(f, axes->at[i].span.start);
    ITEM(f, items, CAT(f, lead, axis_doc(f, &axes->at[i])), NULL);
  }
  return fmt_list(f, open, &items, close, end, LIST_FILLS);
}

/* ---- facts ---- */

/* cond: it is one itself. */
static Doc *condition_doc(Formatter *f, const FactExpr *fact, bool cond) {
  static const char *const rel[] = {
      [REL_EQ] = "==", [REL_NE] = "!=", [REL_LT] = "<",
      [REL_LE] = "<=", [REL_GT] = ">",  [REL_GE] = ">=",
  };
  Doc *lead = fmt_lead(f, fact->span.start), *body = NULL;
  switch (fact->kind) {
  case FACT_REL: {
    Doc *left = dim_doc(f, fact->left, 0);
    const char *op = arena_printf(f->arena, "%s ", rel[fact->op]);
    body = CAT(f, left, LINE(f), fmt_text(f, op), dim_doc(f, fact->right, 0));
    break;
  }
  case FACT_CLASS:
    body = CAT(f, fmt_sym(f, fact->tyvar), fmt_text(f, " : "),
               fmt_sym(f, fact->id));
    break;
  case FACT_DIM:
    body = dim_doc(f, fact->left, 0);
    break;
  }
  if (fact->cond)
    body = CAT(f, body, LINE(f), fmt_text(f, cond ? "&& " : "if "),
               condition_doc(f, fact->cond, true));
  return CAT(f, lead, GROUP(f, ALIGN(f, body)));
}

Doc *fmt_given(Formatter *f, const Facts *facts) {
  if (!facts->len)
    return NULL;
  ItemVec items = {0};
  for (uint32_t i = 0; i < facts->len; i++)
    ITEM(f, items, condition_doc(f, &facts->at[i], false), NULL);
  Doc *all = fmt_list(f, "", &items, "", 0, LIST_FILLS);
  return GROUP(f, CAT(f, LINE(f), fmt_text(f, "given "), all));
}

/* ---- types ---- */

typedef enum TypeLevel { TYPE_ANY, TYPE_PRODUCT, TYPE_POSTFIX } TypeLevel;

static Doc *type_doc(Formatter *f, const TypeExpr *t, TypeLevel least);

static TypeLevel type_level(const TypeExpr *t) {
  return t->kind == TX_FUN     ? TYPE_ANY
         : t->kind == TX_TUPLE ? TYPE_PRODUCT
                               : TYPE_POSTFIX;
}

/* a -> b -> c, with the arrows at the ends of lines. */
static Doc *fun_type_doc(Formatter *f, const TypeExpr *t) {
  DocVec all = {0};
  for (;;) {
    if (t->label)
      ADD(f, all,
          fmt_text(f, arena_printf(f->arena, "%c%s:", t->optional ? '?' : '~',
                                   t->label->text)));
    ADD(f, all, type_doc(f, t->arg[0], TYPE_PRODUCT));
    ADD(f, all, fmt_text(f, t->effect ? " ->!" : " ->"));
    ADD(f, all, LINE(f));
    if (t->arg[1]->kind != TX_FUN)
      break;
    t = t->arg[1];
    ADD(f, all, fmt_lead(f, t->span.start));
  }
  ADD(f, all, type_doc(f, t->arg[1], TYPE_ANY));
  return GROUP(f, ALIGN(f, ALL(f, all)));
}

static Doc *tuple_type_doc(Formatter *f, const TypeExpr *t) {
  DocVec all = {0};
  for (uint32_t i = 0; i < t->arg_count; i++) {
    if (i)
      ADD(f, all, CAT(f, LINE(f), fmt_text(f, "* ")));
    ADD(f, all, type_doc(f, t->args[i], TYPE_POSTFIX));
  }
  return GROUP(f, ALIGN(f, ALL(f, all)));
}

static Doc *name_type_doc(Formatter *f, const TypeExpr *t) {
  Doc *args = NULL;
  if (t->arg_count == 1) {
    args = CAT(f, type_doc(f, t->args[0], TYPE_POSTFIX), fmt_text(f, " "));
  } else if (t->arg_count) {
    ItemVec items = {0};
    for (uint32_t i = 0; i < t->arg_count; i++)
      ITEM(f, items, type_doc(f, t->args[i], TYPE_ANY), NULL);
    args =
        CAT(f, fmt_list(f, "(", &items, ")", 0, LIST_FITS), fmt_text(f, " "));
  }
  Doc *lead = t->arg_count ? fmt_lead(f, t->name.span.start) : NULL;
  Doc *name = fmt_name(f, &t->name), *axes = NULL;
  if (t->has_axes)
    axes = fmt_axes(f, "[", &t->axes, "]", t->span.end);
  return CAT(f, args, lead, name, axes);
}

static Doc *record_type_doc(Formatter *f, const TypeExpr *t) {
  ItemVec items = {0};
  for (uint32_t i = 0; i < t->field_count; i++) {
    const TypeField *field = &t->fields[i];
    Doc *lead = fmt_lead(f, field->span.start);
    Doc *id = fmt_sym(f, field->id);
    Doc *type = ALIGN(f, fmt_type(f, field->type));
    uint32_t next =
        i + 1 < t->field_count ? t->fields[i + 1].span.start : t->span.end;
    Doc *behind = fmt_behind(f, field->type->span.end, next);
    ITEM(f, items, CAT(f, lead, id, fmt_text(f, " : "), type), behind);
  }
  if (t->open)
    ITEM(f, items, fmt_text(f, "..."), NULL);
  return fmt_list(f, "{", &items, "}", t->span.end, LIST_FITS);
}

static Doc *type_inner(Formatter *f, const TypeExpr *t) {
  switch (t->kind) {
  case TX_VAR: {
    Doc *id = fmt_sym(f, t->id);
    if (!t->has_axes)
      return id;
    return CAT(f, id, fmt_axes(f, "[", &t->axes, "]", t->span.end));
  }
  case TX_NAME:
    return name_type_doc(f, t);
  case TX_CALL: {
    Doc *name = fmt_name(f, &t->name);
    return CAT(f, name, fmt_axes(f, "(", &t->axes, ")", t->span.end));
  }
  case TX_FUN:
    return fun_type_doc(f, t);
  case TX_TUPLE:
    return tuple_type_doc(f, t);
  case TX_RECORD:
    return record_type_doc(f, t);
  case TX_LIFT: {
    ItemVec items = {0};
    ITEM(f, items, dim_doc(f, t->dim, 0), NULL);
    ITEM(f, items, fmt_type(f, t->arg[0]), NULL);
    return fmt_list(f, "lift(", &items, ")", t->span.end, LIST_FITS);
  }
  case TX_HOLE:
    return fmt_text(f, "_");
  }
  return NULL;
}

static Doc *type_doc(Formatter *f, const TypeExpr *t, TypeLevel least) {
  Doc *lead = fmt_lead(f, t->span.start);
  Doc *body = type_inner(f, t);
  return fmt_wrap(f, lead, body, t->span, true, type_level(t) < least);
}

Doc *fmt_type(Formatter *f, const TypeExpr *type) {
  return type_doc(f, type, TYPE_ANY);
}

/* ---- patterns ---- */

/* Where a pattern stands: anywhere; left of `::`; where only an atom may. */
typedef enum PatLevel { PATTERN_ANY, PATTERN_HEAD, PATTERN_ATOM } PatLevel;

static Doc *pat_doc(Formatter *f, const Pat *p, PatLevel least);

static PatLevel pat_level(const Pat *p) {
  if (p->kind == PAT_CONS || p->kind == PAT_AS)
    return PATTERN_ANY;
  return p->kind == PAT_CON && p->arg_count ? PATTERN_HEAD : PATTERN_ATOM;
}

static Doc *pats_doc(Formatter *f, const char *open, const Pat *p,
                     const char *close) {
  ItemVec items = {0};
  for (uint32_t i = 0; i < p->arg_count; i++)
    ITEM(f, items, fmt_pat(f, p->args[i]), NULL);
  return fmt_list(f, open, &items, close, p->span.end, LIST_FITS);
}

static Doc *pat_record_doc(Formatter *f, const Pat *p) {
  ItemVec items = {0};
  for (uint32_t i = 0; i < p->field_count; i++) {
    const PatField *field = &p->fields[i];
    Doc *lead = fmt_lead(f, field->span.start), *more = NULL;
    Doc *id = fmt_sym(f, field->id);
    if (field->type)
      more = CAT(f, fmt_text(f, " : "), ALIGN(f, fmt_type(f, field->type)));
    else if (field->pat)
      more = CAT(f, fmt_text(f, " = "), ALIGN(f, fmt_pat(f, field->pat)));
    ITEM(f, items, CAT(f, lead, id, more), NULL);
  }
  if (p->open)
    ITEM(f, items, fmt_text(f, "..."), NULL);
  return fmt_list(f, "{", &items, "}", p->span.end, LIST_FITS);
}

static Doc *ascribed_pat_doc(Formatter *f, const Pat *p) {
  Doc *pat = fmt_pat(f, p->args[0]);
  Doc *type = fmt_type(f, p->type);
  Doc *tail = fmt_tail(f, p->span.end);
  Doc *inside = CAT(f, pat, fmt_text(f, " : "), ALIGN(f, type), tail);
  return CAT(f, fmt_text(f, "("), ALIGN(f, inside), fmt_text(f, ")"));
}

static Doc *pat_inner(Formatter *f, const Pat *p) {
  switch (p->kind) {
  case PAT_WILD:
    return fmt_text(f, "_");
  case PAT_VAR:
    return fmt_sym(f, p->id);
  case PAT_NUM:
  case PAT_STRING:
    return fmt_text(f, p->num);
  case PAT_CON: {
    Doc *name = fmt_name(f, &p->name);
    if (!p->arg_count)
      return name;
    Doc *arg = pat_doc(f, p->args[0], PATTERN_ATOM);
    return CAT(f, name, fmt_text(f, " "), arg);
  }
  case PAT_TUPLE:
    return pats_doc(f, "(", p, ")");
  case PAT_RECORD:
    return pat_record_doc(f, p);
  case PAT_SHAPE:
    return pats_doc(f, "[", p, "]");
  case PAT_SPLICE:
    return CAT(f, fmt_text(f, "..."), p->id ? fmt_sym(f, p->id) : NULL);
  case PAT_LIST:
    return pats_doc(f, "list [", p, "]");
  case PAT_CONS: {
    Doc *head = pat_doc(f, p->args[0], PATTERN_HEAD);
    return CAT(f, head, fmt_text(f, " :: "), fmt_pat(f, p->args[1]));
  }
  case PAT_AS:
    return CAT(f, fmt_sym(f, p->id), fmt_text(f, " as "),
               fmt_pat(f, p->args[0]));
  case PAT_ASCRIBE:
    return ascribed_pat_doc(f, p);
  }
  return NULL;
}

static Doc *pat_doc(Formatter *f, const Pat *p, PatLevel least) {
  Doc *lead = fmt_lead(f, p->span.start);
  Doc *body = pat_inner(f, p);
  bool list = least == PATTERN_ATOM && p->kind == PAT_LIST;
  return fmt_wrap(f, lead, body, p->span, true, list || pat_level(p) < least);
}

Doc *fmt_pat(Formatter *f, const Pat *pat) {
  return pat_doc(f, pat, PATTERN_ANY);
}

Doc *fmt_pat_atom(Formatter *f, const Pat *pat) {
  return pat_doc(f, pat, PATTERN_ATOM);
}
