/* Constructors of tree nodes.  Each node stores the depth of its tree.  A node
   that is too deep is reported once and replaced by a leaf. */
#include <string.h>

#include "parser/internal.h"
#include "parser/parse.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/diag.h"
#include "support/intern.h"

const char *const binop_text[BIN_COUNT] = {
    [BIN_NONE] = "",    [BIN_PIPE] = "|>", [BIN_COMPOSE] = ">>",
    [BIN_OR] = "||",    [BIN_AND] = "&&",  [BIN_EQ] = "==",
    [BIN_NE] = "!=",    [BIN_LT] = "<",    [BIN_LE] = "<=",
    [BIN_GT] = ">",     [BIN_GE] = ">=",   [BIN_CONS] = "::",
    [BIN_APPEND] = "^", [BIN_ADD] = "+",   [BIN_SUB] = "-",
    [BIN_MUL] = "*",    [BIN_DIV] = "/",   [BIN_MOD] = "%",
    [BIN_MATMUL] = "@",
};

static void raise_depth(uint32_t *depth, uint32_t child) {
  if (child >= *depth)
    *depth = child + 1;
}

static uint32_t axes_depth(const Axes *axes) {
  uint32_t depth = 0;
  for (uint32_t i = 0; i < axes->len; i++) {
    const AxisExpr *axis = &axes->at[i];
    if (axis->dim)
      raise_depth(&depth, axis->dim->depth);
    if (axis->is_call)
      raise_depth(&depth, axes_depth(&axis->args) + 1);
  }
  return depth;
}

static uint32_t givens_depth(const Givens *facts) {
  uint32_t depth = 0;
  for (uint32_t i = 0; i < facts->len; i++)
    for (const GivenExpr *fact = &facts->at[i]; fact; fact = fact->condition) {
      if (fact->left)
        raise_depth(&depth, fact->left->depth);
      if (fact->right)
        raise_depth(&depth, fact->right->depth);
    }
  return depth;
}

/* ---- expressions ---- */

Expr *expr_new(ParseState *ps, ExprKind kind, Span span) {
  Expr *e = NEW(ps->arena, Expr);
  e->kind = kind;
  e->span = span;
  e->depth = 1;
  return e;
}

static Expr *expr_check_depth(ParseState *ps, Expr *e) {
  if (e->depth <= PARSE_MAX_DEPTH)
    return e;
  parse_error_depth(ps, e->span);
  return expr_new(ps, EX_ERROR, e->span);
}

Expr *expr_id(ParseState *ps, Sym *id, Span span) {
  Expr *e = expr_new(ps, EX_ID, span);
  e->id = id;
  return e;
}

Expr *expr_con(ParseState *ps, Sym *id, Span span) {
  Expr *e = expr_new(ps, EX_CON, span);
  e->id = id;
  return e;
}

Expr *expr_num(ParseState *ps, const char *num, bool is_float, Span span) {
  Expr *e = expr_new(ps, EX_NUM, span);
  e->num = num;
  e->is_float = is_float;
  return e;
}

Expr *expr_string(ParseState *ps, StringLiteral text, Span span) {
  if (!text.raw)
    return expr_new(ps, EX_ERROR, span);
  Expr *e = expr_new(ps, EX_STRING, span);
  e->text = text.text;
  e->text_len = text.len;
  e->num = text.raw;
  return e;
}

Expr *expr_unary(ParseState *ps, ExprKind kind, Expr *arg, Span span) {
  Expr *e = expr_new(ps, kind, span);
  e->arg[0] = arg;
  raise_depth(&e->depth, arg->depth);
  return expr_check_depth(ps, e);
}

Expr *expr_binary(ParseState *ps, BinOp op, Expr *left, Expr *right,
                  Span op_span, Span span) {
  Expr *e = expr_new(ps, EX_BIN, span);
  e->op = op;
  e->op_span = op_span;
  e->arg[0] = left;
  e->arg[1] = right;
  raise_depth(&e->depth, left->depth);
  raise_depth(&e->depth, right->depth);
  return expr_check_depth(ps, e);
}

Expr *expr_parens(Expr *expr, Span span) {
  expr->span = span;
  expr->parenthesized = true;
  return expr;
}

Expr *expr_items(ParseState *ps, ExprKind kind, ExprVec *items, Span span) {
  Expr *e = expr_new(ps, kind, span);
  if (items) {
    e->items = items->at;
    e->item_count = items->len;
  }
  for (uint32_t i = 0; i < e->item_count; i++)
    raise_depth(&e->depth, e->items[i]->depth);
  return expr_check_depth(ps, e);
}

Expr *expr_bracket(ParseState *ps, ElemVec *elems, Span span) {
  Expr *e = expr_new(ps, EX_BRACKET, span);
  e->item_count = elems->len;
  e->items = NEW_ARRAY(ps->arena, Expr *, elems->len);
  e->splices = NEW_ARRAY(ps->arena, bool, elems->len);
  for (uint32_t i = 0; i < elems->len; i++) {
    e->items[i] = elems->at[i].expr;
    e->splices[i] = elems->at[i].splice;
    raise_depth(&e->depth, e->items[i]->depth);
  }
  return expr_check_depth(ps, e);
}

Expr *expr_record(ParseState *ps, Expr *base, FieldVec *fields, Span span) {
  Expr *e = expr_new(ps, base ? EX_RECORD_UPDATE : EX_RECORD, span);
  e->arg[0] = base;
  if (base)
    raise_depth(&e->depth, base->depth);
  e->fields = fields->at;
  e->field_count = fields->len;
  for (uint32_t i = 0; i < fields->len; i++)
    raise_depth(&e->depth, fields->at[i].expr->depth);
  return expr_check_depth(ps, e);
}

Expr *expr_let(ParseState *ps, DecVec *decs, ExprVec *items, Span span) {
  Expr *e = expr_new(ps, EX_LET, span);
  e->decs = decs->at;
  e->dec_count = decs->len;
  e->items = items->at;
  e->item_count = items->len;
  for (uint32_t i = 0; i < e->dec_count; i++)
    raise_depth(&e->depth, e->decs[i]->depth);
  for (uint32_t i = 0; i < e->item_count; i++)
    raise_depth(&e->depth, e->items[i]->depth);
  return expr_check_depth(ps, e);
}

static uint32_t clauses_depth(const Clause *clauses, uint32_t count) {
  uint32_t depth = 0;
  for (uint32_t i = 0; i < count; i++) {
    const Clause *clause = &clauses[i];
    for (uint32_t j = 0; j < clause->param_count; j++) {
      const Param *param = &clause->params[j];
      raise_depth(&depth, param->pat->depth);
      if (param->type)
        raise_depth(&depth, param->type->depth);
      if (param->default_value)
        raise_depth(&depth, param->default_value->depth);
    }
    if (clause->result)
      raise_depth(&depth, clause->result->depth);
    raise_depth(&depth, givens_depth(&clause->given));
    raise_depth(&depth, clause->body->depth);
    raise_depth(&depth, clause->param_count);
  }
  return depth;
}

Expr *expr_clauses(ParseState *ps, ExprKind kind, Expr *arg, ClauseVec *clauses,
                   Span span) {
  Expr *e = expr_new(ps, kind, span);
  e->arg[0] = arg;
  if (arg)
    raise_depth(&e->depth, arg->depth);
  e->clauses = clauses->at;
  e->clause_count = clauses->len;
  raise_depth(&e->depth, clauses_depth(e->clauses, e->clause_count));
  return expr_check_depth(ps, e);
}

Expr *expr_if(ParseState *ps, Expr *test, Expr *yes, Expr *no, Span span) {
  Expr *e = expr_new(ps, EX_IF, span);
  e->arg[0] = test;
  e->arg[1] = yes;
  e->arg[2] = no;
  for (int i = 0; i < 3; i++)
    raise_depth(&e->depth, e->arg[i]->depth);
  return expr_check_depth(ps, e);
}

Expr *expr_for(ParseState *ps, BinderVec *binders, Expr *body, Span span) {
  Expr *e = expr_new(ps, EX_FOR, span);
  e->binders = binders->at;
  e->binder_count = binders->len;
  for (uint32_t i = 0; i < binders->len; i++)
    if (binders->at[i].range)
      raise_depth(&e->depth, binders->at[i].range->depth);
  e->arg[0] = body;
  raise_depth(&e->depth, body->depth);
  return expr_check_depth(ps, e);
}

Expr *expr_app(ParseState *ps, Expr *fn, ArgVec *args, Span span) {
  Expr *e = expr_new(ps, EX_APP, span);
  e->arg[0] = fn;
  raise_depth(&e->depth, fn->depth);
  e->args = args->at;
  e->arg_count = args->len;
  for (uint32_t i = 0; i < args->len; i++)
    raise_depth(&e->depth, args->at[i].expr->depth);
  raise_depth(&e->depth, args->len); /* as deep as the type of the function */
  return expr_check_depth(ps, e);
}

Expr *expr_field(ParseState *ps, Expr *arg, Sym *id, Span id_span, Span span) {
  Expr *e = expr_new(ps, EX_FIELD, span);
  e->arg[0] = arg;
  e->id = id;
  e->op_span = id_span;
  raise_depth(&e->depth, arg->depth);
  return expr_check_depth(ps, e);
}

Slice slice_range(Expr *from, Expr *to, Expr *step, Span span) {
  return (Slice){
      .kind = SLICE_RANGE, .span = span, .from = from, .to = to, .step = step};
}

Slice slice_of_expr(Expr *e, Span span) {
  if (e->kind == EX_BIN && e->op == BIN_CONS && !e->parenthesized)
    return slice_range(e->arg[0], NULL, e->arg[1], span);
  return (Slice){.kind = SLICE_INDEX, .span = span, .from = e};
}

Expr *expr_index(ParseState *ps, Expr *arg, SliceVec *slices, Span span) {
  Expr *e = expr_new(ps, EX_INDEX, span);
  e->arg[0] = arg;
  raise_depth(&e->depth, arg->depth);
  e->slices = slices->at;
  e->slice_count = slices->len;
  for (uint32_t i = 0; i < slices->len; i++) {
    if (slices->at[i].from)
      raise_depth(&e->depth, slices->at[i].from->depth);
    if (slices->at[i].to)
      raise_depth(&e->depth, slices->at[i].to->depth);
    if (slices->at[i].step)
      raise_depth(&e->depth, slices->at[i].step->depth);
  }
  return expr_check_depth(ps, e);
}

Expr *expr_ascribe(ParseState *ps, Expr *arg, TypeExpr *type, Span span) {
  Expr *e = expr_new(ps, EX_ASCRIBE, span);
  e->arg[0] = arg;
  e->type = type;
  raise_depth(&e->depth, arg->depth);
  raise_depth(&e->depth, type->depth);
  return expr_check_depth(ps, e);
}

/* ---- patterns ---- */

Pat *pat_new(ParseState *ps, PatKind kind, Span span) {
  Pat *p = NEW(ps->arena, Pat);
  p->kind = kind;
  p->span = span;
  p->depth = 1;
  return p;
}

static Pat *pat_check_depth(ParseState *ps, Pat *p) {
  if (p->depth <= PARSE_MAX_DEPTH)
    return p;
  parse_error_depth(ps, p->span);
  return pat_new(ps, PAT_WILD, p->span);
}

Pat *pat_var(ParseState *ps, Sym *id, Span span) {
  Pat *p = pat_new(ps, PAT_VAR, span);
  p->id = id;
  p->id_span = span;
  return p;
}

Pat *pat_num(ParseState *ps, const char *num, bool is_float, Span span) {
  Pat *p = pat_new(ps, PAT_NUM, span);
  p->num = num;
  p->is_float = is_float;
  return p;
}

static Pat *pat_set_args(ParseState *ps, Pat *p, Pat **args, uint32_t count) {
  p->args = args;
  p->arg_count = count;
  for (uint32_t i = 0; i < count; i++)
    raise_depth(&p->depth, args[i]->depth);
  return pat_check_depth(ps, p);
}

static Pat **pat_pair(ParseState *ps, Pat *a, Pat *b) {
  Pat **args = NEW_ARRAY(ps->arena, Pat *, 2);
  args[0] = a;
  args[1] = b;
  return args;
}

Pat *pat_con(ParseState *ps, Name name, Pat *arg, Span span) {
  Pat *p = pat_new(ps, PAT_CON, span);
  p->name = name;
  return arg ? pat_set_args(ps, p, pat_pair(ps, arg, NULL), 1) : p;
}

Pat *pat_args(ParseState *ps, PatKind kind, PatVec *args, Span span) {
  Pat *p = pat_new(ps, kind, span);
  return args ? pat_set_args(ps, p, args->at, args->len) : p;
}

Pat *pat_binary(ParseState *ps, PatKind kind, Pat *a, Pat *b, Span span) {
  Pat *p = pat_new(ps, kind, span);
  return pat_set_args(ps, p, pat_pair(ps, a, b), b ? 2 : 1);
}

Pat *pat_record(ParseState *ps, PatFields *fields, Span span) {
  Pat *p = pat_new(ps, PAT_RECORD, span);
  p->fields = fields->at.at;
  p->field_count = fields->at.len;
  p->is_open = fields->open;
  for (uint32_t i = 0; i < p->field_count; i++) {
    if (p->fields[i].pat)
      raise_depth(&p->depth, p->fields[i].pat->depth);
    if (p->fields[i].type)
      raise_depth(&p->depth, p->fields[i].type->depth);
  }
  return pat_check_depth(ps, p);
}

Pat *pat_ascribe(ParseState *ps, Pat *pat, TypeExpr *type, Span span) {
  Pat *p = pat_new(ps, PAT_ASCRIBE, span);
  p->type = type;
  raise_depth(&p->depth, type->depth);
  return pat_set_args(ps, p, pat_pair(ps, pat, NULL), 1);
}

/* ---- types ---- */

TypeExpr *type_new(ParseState *ps, TypeExprKind kind, Span span) {
  TypeExpr *t = NEW(ps->arena, TypeExpr);
  t->kind = kind;
  t->span = span;
  t->depth = 1;
  return t;
}

TypeExpr *type_error(ParseState *ps, Span span) {
  TypeExpr *t = type_new(ps, TX_HOLE, span);
  t->is_error = true;
  return t;
}

static TypeExpr *type_check_depth(ParseState *ps, TypeExpr *t) {
  if (t->depth <= PARSE_MAX_DEPTH)
    return t;
  parse_error_depth(ps, t->span);
  return type_error(ps, t->span);
}

TypeExpr *type_name(ParseState *ps, Name name, Span span) {
  TypeExpr *t = type_new(ps, TX_NAME, span);
  t->name = name;
  return t;
}

TypeExpr *type_apply(ParseState *ps, TypeVec *args, TypeExpr *name, Span span) {
  name->span = span;
  name->args = args->at;
  name->arg_count = args->len;
  for (uint32_t i = 0; i < args->len; i++)
    raise_depth(&name->depth, args->at[i]->depth);
  return type_check_depth(ps, name);
}

TypeExpr *type_axes(ParseState *ps, TypeExpr *type, AxisVec *axes, Span span) {
  if (!axes)
    return type_error(ps, span);
  type->span = span;
  type->has_axes = true;
  type->axes = axes_of(axes);
  raise_depth(&type->depth, axes_depth(&type->axes));
  return type_check_depth(ps, type);
}

TypeExpr *type_call(ParseState *ps, Name name, AxisVec *axes, Span span) {
  if (!axes)
    return type_error(ps, span);
  TypeExpr *t = type_new(ps, TX_CALL, span);
  t->name = name;
  t->axes = axes_of(axes);
  raise_depth(&t->depth, axes_depth(&t->axes));
  return type_check_depth(ps, t);
}

TypeExpr *type_fun(ParseState *ps, TypeExpr *from, TypeExpr *to, bool effect,
                   Span span) {
  TypeExpr *t = type_new(ps, TX_FUN, span);
  t->arg[0] = from;
  t->arg[1] = to;
  t->has_effect = effect;
  raise_depth(&t->depth, from->depth);
  raise_depth(&t->depth, to->depth);
  return type_check_depth(ps, t);
}

TypeExpr *type_tuple(ParseState *ps, TypeVec *args, Span span) {
  TypeExpr *t = type_new(ps, TX_TUPLE, span);
  t->args = args->at;
  t->arg_count = args->len;
  for (uint32_t i = 0; i < args->len; i++)
    raise_depth(&t->depth, args->at[i]->depth);
  return type_check_depth(ps, t);
}

TypeExpr *type_record(ParseState *ps, TypeFieldVec *fields, bool open,
                      Span span) {
  TypeExpr *t = type_new(ps, TX_RECORD, span);
  t->is_open = open;
  t->fields = fields->at;
  t->field_count = fields->len;
  for (uint32_t i = 0; i < fields->len; i++)
    raise_depth(&t->depth, fields->at[i].type->depth);
  return type_check_depth(ps, t);
}

TypeExpr *type_lift(ParseState *ps, DimExpr *dim, TypeExpr *type, Span span) {
  TypeExpr *t = type_new(ps, TX_LIFT, span);
  t->dim = dim;
  t->arg[0] = type;
  raise_depth(&t->depth, dim->depth);
  raise_depth(&t->depth, type->depth);
  return type_check_depth(ps, t);
}

/* ---- sizes ---- */

DimExpr *dim_new(ParseState *ps, DimExprKind kind, Span span) {
  DimExpr *d = NEW(ps->arena, DimExpr);
  d->kind = kind;
  d->span = span;
  d->depth = 1;
  return d;
}

static DimExpr *dim_error(ParseState *ps, Span span) {
  DimExpr *d = dim_new(ps, DX_HOLE, span);
  d->is_error = true;
  return d;
}

static DimExpr *dim_check_depth(ParseState *ps, DimExpr *d) {
  if (d->depth <= PARSE_MAX_DEPTH)
    return d;
  parse_error_depth(ps, d->span);
  return dim_error(ps, d->span);
}

DimExpr *dim_id(ParseState *ps, DimExprKind kind, Sym *id, Span span) {
  DimExpr *d = dim_new(ps, kind, span);
  d->id = id;
  return d;
}

DimExpr *dim_num(ParseState *ps, const char *num, Span span) {
  DimExpr *d = dim_new(ps, DX_NUM, span);
  d->num = num;
  return d;
}

DimExpr *dimexpr_neg(ParseState *ps, DimExpr *arg, Span span) {
  DimExpr *d = dim_new(ps, DX_NEG, span);
  d->arg[0] = arg;
  raise_depth(&d->depth, arg->depth);
  return dim_check_depth(ps, d);
}

DimExpr *dim_binary(ParseState *ps, char op, DimExpr *left, DimExpr *right,
                    Span span) {
  DimExpr *d = dim_new(ps, DX_BIN, span);
  d->op = op;
  d->arg[0] = left;
  d->arg[1] = right;
  raise_depth(&d->depth, left->depth);
  raise_depth(&d->depth, right->depth);
  return dim_check_depth(ps, d);
}

Axes axes_of(const AxisVec *axes) {
  return axes ? (Axes){axes->at, axes->len} : (Axes){0};
}

DimExpr *dim_call(ParseState *ps, Sym *id, AxisVec *axes, Span span) {
  if (!axes)
    return dim_error(ps, span);
  DimExpr *d = dim_id(ps, DX_CALL, id, span);
  d->axes = axes_of(axes);
  raise_depth(&d->depth, axes_depth(&d->axes));
  return dim_check_depth(ps, d);
}

DimExpr *dim_shape(ParseState *ps, AxisVec *axes, Span span) {
  if (!axes)
    return dim_error(ps, span);
  DimExpr *d = dim_new(ps, DX_SHAPE, span);
  d->axes = axes_of(axes);
  raise_depth(&d->depth, axes_depth(&d->axes));
  return dim_check_depth(ps, d);
}

AxisExpr axis_dim(DimExpr *dim) {
  return (AxisExpr){.kind = AXIS_DIM, .span = dim->span, .dim = dim};
}

/* ---- declarations ---- */

Dec *dec_new(ParseState *ps, DecKind kind, Span span) {
  Dec *dec = NEW(ps->arena, Dec);
  dec->kind = kind;
  dec->span = span;
  dec->depth = 1;
  return dec;
}

/* `schedule NAME = TEXT` or `kernel NAME : TEXT`. */
Dec *dec_schedule(ParseState *ps, StringLiteral text, Span span) {
  bool is_kernel = text.text[0] == 'k';
  Dec *dec = dec_new(ps, is_kernel ? DEC_KERNEL : DEC_SCHEDULE, span);
  const char *name =
      text.text + (is_kernel ? strlen("kernel") : strlen("schedule"));
  name += strspn(name, " \t");
  size_t len = strcspn(name, " \t\r=:");
  const char *body = strchr(name, is_kernel ? ':' : '=') + 1;
  dec->name = intern(ps->interner, name, len);
  dec->name_span.file = dec->text_span.file = span.file;
  dec->name_span.start = span.start + (uint32_t)(name - text.text);
  dec->name_span.end = dec->name_span.start + (uint32_t)len;
  dec->text = body;
  dec->text_span.start = span.start + (uint32_t)(body - text.text);
  dec->text_span.end = span.end;
  return dec;
}

Dec *dec_type(ParseState *ps, DecKind kind, SymVec *tyvars, Sym *name,
              Span name_span, AxisParams params, Span span) {
  Dec *dec = dec_new(ps, kind, span);
  if (tyvars) {
    dec->tyvars = tyvars->at;
    dec->tyvar_count = tyvars->len;
  }
  dec->name = name;
  dec->name_span = name_span;
  dec->has_axes = params.has_axes;
  dec->axes = params.axes;
  return dec;
}

void fun_check_names(ParseState *ps, const FunDef *fun) {
  for (uint32_t i = 1; i < fun->clause_count; i++) {
    const Clause *clause = &fun->clauses[i];
    if (clause->name == fun->name)
      continue;
    Diag *diag = parse_error(
        ps, 118, clause->name_span,
        "the clauses of one function bear one name: `%s` and `%s` differ",
        fun->name->text, clause->name->text);
    if (diag)
      diag->help = "a second function begins with `fun`, or with `and` where "
                   "the two call each other";
    return;
  }
}

static bool is_blank(const char *text, uint32_t from, uint32_t to) {
  for (; from < to; from++)
    if (!strchr(" \t\r\n\f;", text[from]))
      return false;
  return true;
}

/* Attaches the last doc comment, if only blanks separate it from the
   declaration. */
static void attach_doc_comment(ParseState *ps, Dec *dec) {
  const CommentVec *all = &ps->lexer.comments;
  uint32_t i = all->len;
  while (i > 0 && all->at[i - 1].span.end > dec->span.start)
    i--;
  if (i == 0 || !all->at[i - 1].doc)
    return;
  Span span = all->at[i - 1].span;
  const char *text = ps->lexer.text;
  if (!is_blank(text, span.end, dec->span.start))
    return;
  uint32_t start = span.start + 3, end = span.end - 2;
  while (start < end && strchr(" \t\r\n\f", text[start]))
    start++;
  while (end > start && strchr(" \t\r\n\f*", text[end - 1]))
    end--;
  dec->doc = arena_strndup(ps->arena, text + start, end - start);
  dec->doc_span = span;
}

Dec *dec_finish(ParseState *ps, Dec *dec) {
  attach_doc_comment(ps, dec);
  raise_depth(&dec->depth, givens_depth(&dec->given));
  raise_depth(&dec->depth, axes_depth(&dec->axes));
  if (dec->pat)
    raise_depth(&dec->depth, dec->pat->depth);
  if (dec->type)
    raise_depth(&dec->depth, dec->type->depth);
  if (dec->expr)
    raise_depth(&dec->depth, dec->expr->depth);
  for (uint32_t i = 0; i < dec->con_count; i++)
    if (dec->cons[i].type)
      raise_depth(&dec->depth, dec->cons[i].type->depth);
  for (uint32_t i = 0; i < dec->fun_count; i++)
    raise_depth(&dec->depth,
                clauses_depth(dec->funs[i].clauses, dec->funs[i].clause_count));
  return dec;
}
