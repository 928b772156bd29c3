/* Formats types, sizes, givens and patterns. */
#include "parser/format.h"
#include "support/arena_text.h"
#include "support/intern.h"

/* ---- sizes and axes ---- */

static int dim_precedence(const DimExpr *d) {
  switch (d->kind) {
  case DX_BIN:
    return d->op == '+' || d->op == '-' ? 1 : 2;
  case DX_NEG:
    return 3;
  case DX_NUM:
  case DX_ID:
  case DX_EXISTENTIAL:
  case DX_HOLE:
  case DX_CALL:
  case DX_SHAPE:
    return 4;
  }
  return 4;
}

static Doc *dim_doc(Formatter *f, const DimExpr *d, int min_precedence);

static Doc *dim_form_doc(Formatter *f, const DimExpr *d) {
  switch (d->kind) {
  case DX_NUM:
    return fmt_text(f, d->num);
  case DX_ID:
    return fmt_sym(f, d->id);
  case DX_EXISTENTIAL:
    return fmt_text(f,
                    d->id ? arena_printf(f->arena, "?%s", d->id->text) : "?");
  case DX_HOLE:
    return fmt_text(f, "_");
  case DX_NEG:
    return DOC_CONCAT(f, fmt_text(f, "-"), dim_doc(f, d->arg[0], 3));
  case DX_BIN: {
    int precedence = dim_precedence(d);
    Doc *left = dim_doc(f, d->arg[0], precedence);
    const char *op = arena_printf(f->arena, "%c ", d->op);
    Doc *right = dim_doc(f, d->arg[1], precedence + 1);
    return DOC_CONCAT(f, left, LINE(f), fmt_text(f, op), right);
  }
  case DX_CALL: {
    Doc *id = fmt_sym(f, d->id);
    return DOC_CONCAT(f, id, fmt_axes(f, "(", &d->axes, ")", d->span.end));
  }
  case DX_SHAPE:
    return fmt_axes(f, "[", &d->axes, "]", d->span.end);
  }
  return NULL;
}

static Doc *dim_doc(Formatter *f, const DimExpr *d, int min_precedence) {
  Doc *leading = fmt_leading_comments(f, d->span.start);
  Doc *body = dim_form_doc(f, d);
  return fmt_with_comments(f, leading, body, d->span, true,
                           dim_precedence(d) < min_precedence);
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
  if (axis->is_call)
    args = fmt_axes(f, "(", &axis->args, ")", axis->span.end);
  return DOC_CONCAT(f, fmt_text(f, "..."), id, args);
}

Doc *fmt_axes(Formatter *f, const char *open, const Axes *axes,
              const char *close, uint32_t end) {
  if (open[0] == '(' && axes->len && axes->at[0].kind == AXIS_STAR)
    open = "( "; /* otherwise it would begin a comment */
  ItemVec items = {0};
  for (uint32_t i = 0; i < axes->len; i++) {
    Doc *leading = fmt_leading_comments(f, axes->at[i].span.start);
    ADD_ITEM(f, items, DOC_CONCAT(f, leading, axis_doc(f, &axes->at[i])), NULL);
  }
  return fmt_list(f, open, &items, close, end, LIST_FILL);
}

/* ---- facts ---- */

/* cond: the given is itself a condition. */
static Doc *condition_doc(Formatter *f, const GivenExpr *fact, bool cond) {
  static const char *const rel[] = {
      [REL_EQ] = "==", [REL_NE] = "!=", [REL_LT] = "<",
      [REL_LE] = "<=", [REL_GT] = ">",  [REL_GE] = ">=",
  };
  Doc *leading = fmt_leading_comments(f, fact->span.start), *body = NULL;
  switch (fact->kind) {
  case GIVEN_REL: {
    Doc *left = dim_doc(f, fact->left, 0);
    const char *op = arena_printf(f->arena, "%s ", rel[fact->op]);
    body = DOC_CONCAT(f, left, LINE(f), fmt_text(f, op),
                      dim_doc(f, fact->right, 0));
    break;
  }
  case GIVEN_CLASS:
    body = DOC_CONCAT(f, fmt_sym(f, fact->tyvar), fmt_text(f, " : "),
                      fmt_sym(f, fact->id));
    break;
  case GIVEN_DIM:
    body = dim_doc(f, fact->left, 0);
    break;
  }
  if (fact->condition)
    body = DOC_CONCAT(f, body, LINE(f), fmt_text(f, cond ? "&& " : "if "),
                      condition_doc(f, fact->condition, true));
  return DOC_CONCAT(f, leading, GROUP(f, ALIGN(f, body)));
}

/* True if the two facts are written as 'a, 'b : float. */
static bool share_class(const GivenExpr *x, const GivenExpr *y) {
  return x->kind == GIVEN_CLASS && y->kind == GIVEN_CLASS && x->id == y->id &&
         !x->condition && !y->condition;
}

static Doc *class_variable_doc(Formatter *f, const GivenExpr *fact) {
  return DOC_CONCAT(f, fmt_leading_comments(f, fact->span.start),
                    fmt_sym(f, fact->tyvar));
}

Doc *fmt_given(Formatter *f, const Givens *facts) {
  if (!facts->len)
    return NULL;
  ItemVec items = {0};
  for (uint32_t i = 0; i < facts->len; i++) {
    const GivenExpr *fact = &facts->at[i];
    bool shares = i + 1 < facts->len && share_class(fact, fact + 1);
    ADD_ITEM(f, items,
             shares ? class_variable_doc(f, fact)
                    : condition_doc(f, fact, false),
             NULL);
  }
  Doc *all = fmt_list(f, "", &items, "", 0, LIST_FILL);
  return GROUP(f, DOC_CONCAT(f, LINE(f), fmt_text(f, "given "), all));
}

/* ---- types ---- */

typedef enum TypePrecedence {
  TYPE_ANY,
  TYPE_PRODUCT,
  TYPE_POSTFIX
} TypePrecedence;

static Doc *type_doc(Formatter *f, const TypeExpr *t,
                     TypePrecedence min_precedence);

static TypePrecedence type_precedence(const TypeExpr *t) {
  return t->kind == TX_FUN     ? TYPE_ANY
         : t->kind == TX_TUPLE ? TYPE_PRODUCT
                               : TYPE_POSTFIX;
}

/* a -> b -> c, with arrows at the ends of lines. */
static Doc *fun_type_doc(Formatter *f, const TypeExpr *t) {
  DocVec all = {0};
  for (;;) {
    if (t->label)
      ADD_DOC(f, all,
              fmt_text(f, arena_printf(f->arena,
                                       "%c%s:", t->is_optional ? '?' : '~',
                                       t->label->text)));
    ADD_DOC(f, all, type_doc(f, t->arg[0], TYPE_PRODUCT));
    ADD_DOC(f, all, fmt_text(f, t->has_effect ? " ->!" : " ->"));
    ADD_DOC(f, all, LINE(f));
    if (t->arg[1]->kind != TX_FUN)
      break;
    t = t->arg[1];
    ADD_DOC(f, all, fmt_leading_comments(f, t->span.start));
  }
  ADD_DOC(f, all, type_doc(f, t->arg[1], TYPE_ANY));
  return GROUP(f, ALIGN(f, CONCAT_ALL(f, all)));
}

static Doc *tuple_type_doc(Formatter *f, const TypeExpr *t) {
  DocVec all = {0};
  for (uint32_t i = 0; i < t->arg_count; i++) {
    if (i)
      ADD_DOC(f, all, DOC_CONCAT(f, LINE(f), fmt_text(f, "* ")));
    ADD_DOC(f, all, type_doc(f, t->args[i], TYPE_POSTFIX));
  }
  return GROUP(f, ALIGN(f, CONCAT_ALL(f, all)));
}

static Doc *name_type_doc(Formatter *f, const TypeExpr *t) {
  Doc *args = NULL;
  if (t->arg_count == 1) {
    args =
        DOC_CONCAT(f, type_doc(f, t->args[0], TYPE_POSTFIX), fmt_text(f, " "));
  } else if (t->arg_count) {
    ItemVec items = {0};
    for (uint32_t i = 0; i < t->arg_count; i++)
      ADD_ITEM(f, items, type_doc(f, t->args[i], TYPE_ANY), NULL);
    args = DOC_CONCAT(f, fmt_list(f, "(", &items, ")", 0, LIST_GROUP),
                      fmt_text(f, " "));
  }
  Doc *leading =
      t->arg_count ? fmt_leading_comments(f, t->name.span.start) : NULL;
  Doc *name = fmt_name(f, &t->name), *axes = NULL;
  if (t->has_axes)
    axes = fmt_axes(f, "[", &t->axes, "]", t->span.end);
  return DOC_CONCAT(f, args, leading, name, axes);
}

static Doc *record_type_doc(Formatter *f, const TypeExpr *t) {
  ItemVec items = {0};
  for (uint32_t i = 0; i < t->field_count; i++) {
    const TypeField *field = &t->fields[i];
    Doc *leading = fmt_leading_comments(f, field->span.start);
    Doc *id = fmt_sym(f, field->id);
    Doc *type = ALIGN(f, fmt_type(f, field->type));
    uint32_t next =
        i + 1 < t->field_count ? t->fields[i + 1].span.start : t->span.end;
    Doc *line_end_comments =
        fmt_line_end_comments(f, field->type->span.end, next);
    ADD_ITEM(f, items, DOC_CONCAT(f, leading, id, fmt_text(f, " : "), type),
             line_end_comments);
  }
  if (t->is_open)
    ADD_ITEM(f, items, fmt_text(f, "..."), NULL);
  return fmt_list(f, "{", &items, "}", t->span.end, LIST_GROUP);
}

static Doc *type_form_doc(Formatter *f, const TypeExpr *t) {
  switch (t->kind) {
  case TX_VAR: {
    Doc *id = fmt_sym(f, t->id);
    if (!t->has_axes)
      return id;
    return DOC_CONCAT(f, id, fmt_axes(f, "[", &t->axes, "]", t->span.end));
  }
  case TX_NAME:
    return name_type_doc(f, t);
  case TX_CALL: {
    Doc *name = fmt_name(f, &t->name);
    return DOC_CONCAT(f, name, fmt_axes(f, "(", &t->axes, ")", t->span.end));
  }
  case TX_FUN:
    return fun_type_doc(f, t);
  case TX_TUPLE:
    return tuple_type_doc(f, t);
  case TX_RECORD:
    return record_type_doc(f, t);
  case TX_LIFT: {
    ItemVec items = {0};
    ADD_ITEM(f, items, dim_doc(f, t->dim, 0), NULL);
    ADD_ITEM(f, items, fmt_type(f, t->arg[0]), NULL);
    return fmt_list(f, "lift(", &items, ")", t->span.end, LIST_GROUP);
  }
  case TX_HOLE:
    return fmt_text(f, "_");
  }
  return NULL;
}

static Doc *type_doc(Formatter *f, const TypeExpr *t,
                     TypePrecedence min_precedence) {
  Doc *leading = fmt_leading_comments(f, t->span.start);
  Doc *body = type_form_doc(f, t);
  return fmt_with_comments(f, leading, body, t->span, true,
                           type_precedence(t) < min_precedence);
}

Doc *fmt_type(Formatter *f, const TypeExpr *type) {
  return type_doc(f, type, TYPE_ANY);
}

/* ---- patterns ---- */

/* Context of a pattern: anywhere, left of `::`, or where only an atom may
   be. */
typedef enum PatPrecedence {
  PATTERN_ANY,
  PATTERN_HEAD,
  PATTERN_ATOM
} PatPrecedence;

static Doc *pat_doc(Formatter *f, const Pat *p, PatPrecedence min_precedence);

static PatPrecedence pat_precedence(const Pat *p) {
  if (p->kind == PAT_CONS || p->kind == PAT_AS)
    return PATTERN_ANY;
  return p->kind == PAT_CON && p->arg_count ? PATTERN_HEAD : PATTERN_ATOM;
}

/* `pat : type`, without parentheses. */
static Doc *pat_with_type(Formatter *f, const Pat *p) {
  Doc *pat = fmt_pat(f, p->args[0]);
  Doc *type = fmt_type(f, p->type);
  Doc *trailing = fmt_trailing_comments(f, p->span.end);
  return DOC_CONCAT(f, pat, fmt_text(f, " : "), ALIGN(f, type), trailing);
}

/* An item.  That of a tuple needs no parentheses around its type. */
static Doc *pat_item_doc(Formatter *f, const Pat *p, bool in_tuple) {
  if (p->kind != PAT_ASCRIBE || !in_tuple)
    return fmt_pat(f, p);
  Doc *leading = fmt_leading_comments(f, p->span.start);
  return fmt_with_comments(f, leading, pat_with_type(f, p), p->span, true,
                           false);
}

static Doc *pats_doc(Formatter *f, const char *open, const Pat *p,
                     const char *close) {
  ItemVec items = {0};
  for (uint32_t i = 0; i < p->arg_count; i++)
    ADD_ITEM(f, items, pat_item_doc(f, p->args[i], p->kind == PAT_TUPLE), NULL);
  return fmt_list(f, open, &items, close, p->span.end, LIST_GROUP);
}

static Doc *pat_record_doc(Formatter *f, const Pat *p) {
  ItemVec items = {0};
  for (uint32_t i = 0; i < p->field_count; i++) {
    const PatField *field = &p->fields[i];
    Doc *leading = fmt_leading_comments(f, field->span.start), *more = NULL;
    Doc *id = fmt_sym(f, field->id);
    if (field->type)
      more =
          DOC_CONCAT(f, fmt_text(f, " : "), ALIGN(f, fmt_type(f, field->type)));
    else if (field->pat)
      more =
          DOC_CONCAT(f, fmt_text(f, " = "), ALIGN(f, fmt_pat(f, field->pat)));
    ADD_ITEM(f, items, DOC_CONCAT(f, leading, id, more), NULL);
  }
  if (p->is_open)
    ADD_ITEM(f, items, fmt_text(f, "..."), NULL);
  return fmt_list(f, "{", &items, "}", p->span.end, LIST_GROUP);
}

static Doc *ascribed_pat_doc(Formatter *f, const Pat *p) {
  return DOC_CONCAT(f, fmt_text(f, "("), ALIGN(f, pat_with_type(f, p)),
                    fmt_text(f, ")"));
}

static Doc *pat_form_doc(Formatter *f, const Pat *p) {
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
    return DOC_CONCAT(f, name, fmt_text(f, " "), arg);
  }
  case PAT_TUPLE:
    return pats_doc(f, "(", p, ")");
  case PAT_RECORD:
    return pat_record_doc(f, p);
  case PAT_SHAPE:
    return pats_doc(f, "[", p, "]");
  case PAT_SPLICE:
    return DOC_CONCAT(f, fmt_text(f, "..."), p->id ? fmt_sym(f, p->id) : NULL);
  case PAT_LIST:
    return pats_doc(f, "list [", p, "]");
  case PAT_CONS: {
    Doc *head = pat_doc(f, p->args[0], PATTERN_HEAD);
    return DOC_CONCAT(f, head, fmt_text(f, " :: "), fmt_pat(f, p->args[1]));
  }
  case PAT_AS:
    return DOC_CONCAT(f, fmt_sym(f, p->id), fmt_text(f, " as "),
                      fmt_pat(f, p->args[0]));
  case PAT_ASCRIBE:
    return ascribed_pat_doc(f, p);
  }
  return NULL;
}

static Doc *pat_doc(Formatter *f, const Pat *p, PatPrecedence min_precedence) {
  Doc *leading = fmt_leading_comments(f, p->span.start);
  Doc *body = pat_form_doc(f, p);
  bool list = min_precedence == PATTERN_ATOM && p->kind == PAT_LIST;
  return fmt_with_comments(f, leading, body, p->span, true,
                           list || pat_precedence(p) < min_precedence);
}

Doc *fmt_pat(Formatter *f, const Pat *pat) {
  return pat_doc(f, pat, PATTERN_ANY);
}

Doc *fmt_pat_atom(Formatter *f, const Pat *pat) {
  return pat_doc(f, pat, PATTERN_ATOM);
}
