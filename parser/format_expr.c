/* Formats expressions: line breaks, and parentheses where the grammar needs
   them or where the user put them around an operand. */
#include <string.h>

#include "parser/format.h"
#include "support/arena_text.h"
#include "support/intern.h"

/* Binding strength.  Open forms extend as far right as possible.  They may be
   right operands, but nothing may follow them. */
typedef enum Precedence {
  PREC_OPEN, /* fn, case, if, for */
  PREC_PIPE,
  PREC_COMPOSE,
  PREC_OR,
  PREC_AND,
  PREC_COMPARE,
  PREC_CONS,
  PREC_ADD,
  PREC_MUL,
  PREC_NEG,
  PREC_APP,
  PREC_POST,
} Precedence;

static const Precedence op_precedence[BIN_COUNT] = {
    [BIN_PIPE] = PREC_PIPE,  [BIN_COMPOSE] = PREC_COMPOSE,
    [BIN_OR] = PREC_OR,      [BIN_AND] = PREC_AND,
    [BIN_EQ] = PREC_COMPARE, [BIN_NE] = PREC_COMPARE,
    [BIN_LT] = PREC_COMPARE, [BIN_LE] = PREC_COMPARE,
    [BIN_GT] = PREC_COMPARE, [BIN_GE] = PREC_COMPARE,
    [BIN_CONS] = PREC_CONS,  [BIN_APPEND] = PREC_CONS,
    [BIN_ADD] = PREC_ADD,    [BIN_SUB] = PREC_ADD,
    [BIN_MUL] = PREC_MUL,    [BIN_DIV] = PREC_MUL,
    [BIN_MOD] = PREC_MUL,    [BIN_MATMUL] = PREC_MUL,
};

static Precedence precedence_of(const Expr *e) {
  switch (e->kind) {
  case EX_FN:
  case EX_CASE:
  case EX_IF:
  case EX_FOR:
    return PREC_OPEN;
  case EX_BIN:
    return op_precedence[e->op];
  case EX_NEG:
    return PREC_NEG;
  case EX_APP:
    return PREC_APP;
  case EX_ID:
  case EX_CON:
  case EX_NUM:
  case EX_STRING:
  case EX_HOLE:
  case EX_TUPLE:
  case EX_SEQ:
  case EX_ASCRIBE:
  case EX_OP:
  case EX_BRACKET:
  case EX_LIST:
  case EX_RECORD:
  case EX_RECORD_UPDATE:
  case EX_LET:
  case EX_FIELD:
  case EX_INDEX:
  case EX_ERROR:
    return PREC_POST;
  }
  return PREC_POST;
}

static bool is_open_form(const Expr *e) {
  return precedence_of(e) == PREC_OPEN;
}

/* The last operand that is not in parentheses. */
static const Expr *last_operand(const Expr *e) {
  while (e->kind == EX_BIN || e->kind == EX_NEG) {
    const Expr *last = e->arg[e->kind == EX_BIN ? 1 : 0];
    if (!is_open_form(last) && precedence_of(last) < precedence_of(e))
      return e;
    e = last;
  }
  return e;
}

static bool ends_open(const Expr *e) {
  return is_open_form(last_operand(e));
}

/* True if the text of the expression ends in rules, so that a following `|`
   would continue them. */
static bool ends_in_rules(const Expr *e) {
  for (;;) {
    e = last_operand(e);
    if (e->kind == EX_FN || e->kind == EX_CASE)
      return true;
    if (e->kind == EX_IF)
      e = e->arg[2];
    else if (e->kind == EX_FOR)
      e = e->arg[0];
    else
      return false;
  }
}

typedef enum Side { SIDE_LEFT, SIDE_RIGHT } Side;

static Doc *expr_doc(Formatter *f, const Expr *e);
static Doc *parenthesized_doc(Formatter *f, const Expr *e, Doc *body);

static Doc *with_comments(Formatter *f, const Expr *e, bool parens) {
  Doc *leading = fmt_leading_comments(f, e->span.start);
  Doc *body = expr_doc(f, e);
  if (parens && !fmt_has_comment_before(f, e->span.end))
    return DOC_CONCAT(f, leading, parenthesized_doc(f, e, body));
  return fmt_with_comments(f, leading, body, e->span, e->parenthesized, parens);
}

/* An operand that must bind at least this strongly. */
static Doc *operand_doc(Formatter *f, const Expr *e, Precedence min_precedence,
                        Side side) {
  bool parens =
      is_open_form(e) ? side == SIDE_LEFT : precedence_of(e) < min_precedence;
  if (side == SIDE_LEFT && ends_open(e))
    parens = true;
  if (e->kind == EX_BIN && e->parenthesized)
    parens = true;
  return with_comments(f, e, parens);
}

Doc *fmt_expr(Formatter *f, const Expr *e) {
  return with_comments(f, e, false);
}

Doc *fmt_clause_body(Formatter *f, const Expr *e, bool more_follow) {
  return with_comments(f, e, more_follow && ends_in_rules(e));
}

/* In parentheses.  The body of a function is indented relative to the start of
   the line. */
static Doc *parenthesized_doc(Formatter *f, const Expr *e, Doc *body) {
  bool hanging =
      e->kind == EX_FOR || (e->kind == EX_FN && e->clause_count == 1);
  if (!hanging)
    body = ALIGN(f, body);
  return DOC_CONCAT(f, fmt_text(f, "("), body, fmt_text(f, ")"));
}

/* An expression that may precede a dot or an argument. */
static Doc *postfix_doc(Formatter *f, const Expr *e) {
  return with_comments(f, e, precedence_of(e) < PREC_POST);
}

/* ---- literals and lists ---- */

static bool is_atom(const Expr *e) {
  return e->kind == EX_NUM || e->kind == EX_ID || e->kind == EX_CON ||
         e->kind == EX_HOLE || e->kind == EX_STRING;
}

/* One item per line if the source has that; atoms fill lines. */
static Doc *items_doc(Formatter *f, const char *open, const Expr *e,
                      const char *close) {
  ItemVec items = {0};
  bool all_atoms = e->item_count > 0, broken = false;
  for (uint32_t i = 0; i < e->item_count; i++) {
    const Expr *item = e->items[i];
    Doc *doc;
    if (e->splices && e->splices[i]) {
      bool number = item->kind == EX_NUM && item->num[0] == '-';
      bool parens = precedence_of(item) < PREC_POST || number;
      Doc *leading = fmt_leading_comments(f, item->span.start);
      doc = DOC_CONCAT(f, leading, fmt_text(f, "..."),
                       with_comments(f, item, parens));
    } else {
      doc = fmt_expr(f, item);
    }
    all_atoms &= is_atom(item);
    if (i)
      broken |=
          fmt_newline_between(f, e->items[i - 1]->span.end, item->span.start);
    uint32_t next =
        i + 1 < e->item_count ? e->items[i + 1]->span.start : e->span.end;
    ADD_ITEM(f, items, doc, fmt_line_end_comments(f, item->span.end, next));
  }
  ListStyle style = all_atoms ? LIST_FILL : broken ? LIST_BROKEN : LIST_GROUP;
  return fmt_list(f, open, &items, close, e->span.end, style);
}

static Doc *seq_items(Formatter *f, Expr *const *items, uint32_t count) {
  DocVec all = {0};
  for (uint32_t i = 0; i < count; i++) {
    if (i)
      ADD_DOC(f, all, DOC_CONCAT(f, fmt_text(f, ";"), LINE(f)));
    ADD_DOC(f, all, fmt_expr(f, items[i]));
  }
  return CONCAT_ALL(f, all);
}

static Doc *seq_doc(Formatter *f, const Expr *e) {
  Doc *items = seq_items(f, e->items, e->item_count);
  Doc *trailing = fmt_trailing_comments(f, e->span.end);
  return GROUP(f, DOC_CONCAT(f, fmt_text(f, "("),
                             ALIGN(f, DOC_CONCAT(f, items, trailing)),
                             fmt_text(f, ")")));
}

static Doc *fields_doc(Formatter *f, const Expr *e) {
  ItemVec items = {0};
  bool broken = false;
  Doc *base = NULL;
  if (e->kind == EX_RECORD_UPDATE)
    base = DOC_CONCAT(f, postfix_doc(f, e->arg[0]), fmt_text(f, " with "));
  for (uint32_t i = 0; i < e->field_count; i++) {
    const FieldExpr *field = &e->fields[i];
    if (i)
      broken |=
          fmt_newline_between(f, field[-1].expr->span.end, field->span.start);
    Doc *leading = fmt_leading_comments(f, field->span.start), *value = NULL;
    Doc *id = fmt_sym(f, field->id);
    bool pun = field->expr->kind == EX_ID && field->expr->id == field->id;
    if (!pun)
      value = DOC_CONCAT(
          f, fmt_text(f, " ="),
          NEST(f, 2, DOC_CONCAT(f, LINE(f), fmt_expr(f, field->expr))));
    Doc *item = DOC_CONCAT(f, leading, GROUP(f, DOC_CONCAT(f, id, value)));
    uint32_t next =
        i + 1 < e->field_count ? e->fields[i + 1].span.start : e->span.end;
    Doc *line_end_comments =
        fmt_line_end_comments(f, field->expr->span.end, next);
    ADD_ITEM(f, items, i ? item : DOC_CONCAT(f, base, item), line_end_comments);
  }
  return fmt_list(f, "{", &items, "}", e->span.end,
                  broken ? LIST_BROKEN : LIST_GROUP);
}

static Doc *ascribe_doc(Formatter *f, const Expr *e) {
  Doc *arg = fmt_expr(f, e->arg[0]);
  Doc *type = fmt_type(f, e->type);
  Doc *trailing = fmt_trailing_comments(f, e->span.end);
  Doc *inside =
      DOC_CONCAT(f, arg, LINE(f), fmt_text(f, ": "), ALIGN(f, type), trailing);
  return GROUP(
      f, DOC_CONCAT(f, fmt_text(f, "("), ALIGN(f, inside), fmt_text(f, ")")));
}

/* ---- operators ---- */

/* True if the left operand belongs to the same chain: a + b in a + b - c. */
static bool continues_chain(const Expr *e) {
  const Expr *left = e->arg[0];
  return left->kind == EX_BIN && !left->parenthesized &&
         op_precedence[left->op] == op_precedence[e->op] &&
         op_precedence[e->op] != PREC_CONS &&
         op_precedence[e->op] != PREC_COMPARE && !ends_open(left);
}

/* What follows the first operand: a break, an operator and an operand. */
static Doc *op_item(Formatter *f, const Expr *e, const Expr *right,
                    Precedence min_precedence, bool *broken) {
  uint32_t left_end = e->arg[0]->span.end;
  *broken |= fmt_newline_between(f, left_end, e->op_span.start);
  const char *op = arena_printf(f->arena, "%s ", binop_text[e->op]);
  Doc *line_end_comments = fmt_line_end_comments(f, left_end, e->op_span.start);
  Doc *leading = fmt_leading_comments(f, e->op_span.start);
  Doc *doc = ALIGN(f, operand_doc(f, right, min_precedence, SIDE_RIGHT));
  return DOC_CONCAT(f, line_end_comments, LINE(f), leading, fmt_text(f, op),
                    doc);
}

/* a :: b :: c, which nests to the right. */
static Doc *right_chain(Formatter *f, const Expr *e) {
  DocVec all = {0};
  bool broken = false;
  Doc *first = operand_doc(f, e->arg[0], PREC_CONS + 1, SIDE_LEFT);
  ADD_DOC(f, all, ALIGN(f, first));
  for (;;) {
    const Expr *right = e->arg[1];
    bool more = right->kind == EX_BIN && !right->parenthesized &&
                op_precedence[right->op] == PREC_CONS;
    ADD_DOC(f, all,
            more ? op_item(f, e, right->arg[0], PREC_CONS + 1, &broken)
                 : op_item(f, e, right, PREC_CONS, &broken));
    if (!more)
      break;
    e = right;
  }
  return GROUP(f, ALIGN(f, CONCAT_ALL(f, all)));
}

static Doc *left_chain(Formatter *f, const Expr *e) {
  Precedence precedence = op_precedence[e->op];
  VEC(const Expr *) chain = {0};
  const Expr *first = e;
  VEC_PUSH(f->arena, chain, e);
  while (continues_chain(first)) {
    first = first->arg[0];
    VEC_PUSH(f->arena, chain, first);
  }
  DocVec all = {0};
  bool broken = false;
  Precedence min_precedence =
      precedence == PREC_COMPARE ? precedence + 1 : precedence;
  ADD_DOC(f, all,
          ALIGN(f, operand_doc(f, first->arg[0], min_precedence, SIDE_LEFT)));
  for (uint32_t i = chain.len; i > 0; i--) {
    const Expr *link = chain.at[i - 1];
    ADD_DOC(f, all, op_item(f, link, link->arg[1], precedence + 1, &broken));
  }
  if (broken && precedence == PREC_PIPE)
    ADD_DOC(f, all, doc_break_parent(f->arena));
  return GROUP(f, ALIGN(f, CONCAT_ALL(f, all)));
}

static Doc *binary_doc(Formatter *f, const Expr *e) {
  return op_precedence[e->op] == PREC_CONS ? right_chain(f, e)
                                           : left_chain(f, e);
}

/* True if the text begins with a digit, or a minus sign. */
static bool begins_with_number(const Expr *e) {
  for (;;) {
    switch (e->kind) {
    case EX_NUM:
    case EX_NEG:
      return true;
    case EX_APP:
    case EX_FIELD:
    case EX_INDEX:
    case EX_BIN:
      e = e->arg[0];
      break;
    case EX_ID:
    case EX_CON:
    case EX_STRING:
    case EX_HOLE:
    case EX_TUPLE:
    case EX_SEQ:
    case EX_ASCRIBE:
    case EX_OP:
    case EX_BRACKET:
    case EX_LIST:
    case EX_RECORD:
    case EX_RECORD_UPDATE:
    case EX_LET:
    case EX_FN:
    case EX_CASE:
    case EX_IF:
    case EX_FOR:
    case EX_ERROR:
      return false;
    }
  }
}

static Doc *negation_doc(Formatter *f, const Expr *e) {
  const char *minus = begins_with_number(e->arg[0]) ? "- " : "-";
  Doc *arg = operand_doc(f, e->arg[0], PREC_NEG, SIDE_RIGHT);
  return DOC_CONCAT(f, fmt_text(f, minus), ALIGN(f, arg));
}

/* ---- application ---- */

static Doc *arg_doc(Formatter *f, const Arg *arg) {
  if (!arg->label) {
    const Expr *e = arg->expr;
    bool list = e->kind == EX_LIST; /* `f list [x]` reads as two arguments */
    return with_comments(f, e, precedence_of(e) < PREC_POST || list);
  }
  Doc *leading = fmt_leading_comments(f, arg->span.start);
  bool pun = arg->expr->kind == EX_ID && arg->expr->id == arg->label;
  const char *text =
      arena_printf(f->arena, pun ? "~%s" : "~%s:", arg->label->text);
  Doc *value = NULL;
  if (!pun)
    value = postfix_doc(f, arg->expr);
  return DOC_CONCAT(f, leading, fmt_text(f, text), value,
                    pun ? fmt_trailing_comments(f, arg->span.end) : NULL);
}

/* Maximum columns before a last argument that begins on the same line and
   continues below. */
static uint32_t max_hanging_width(const Expr *e) {
  enum { MAX_HANGING_WIDTH = 40, MAX_NARROW_HANGING_WIDTH = 16 };
  switch (e->kind) {
  case EX_FN:
    return e->clause_count == 1 ? MAX_HANGING_WIDTH : MAX_NARROW_HANGING_WIDTH;
  case EX_FOR:
  case EX_BRACKET:
  case EX_LIST:
  case EX_RECORD:
  case EX_RECORD_UPDATE:
  case EX_TUPLE:
  case EX_SEQ:
    return MAX_HANGING_WIDTH;
  case EX_APP:
  case EX_BIN:
  case EX_CASE:
  case EX_IF:
  case EX_ASCRIBE:
    return MAX_NARROW_HANGING_WIDTH;
  case EX_ID:
  case EX_CON:
  case EX_NUM:
  case EX_STRING:
  case EX_HOLE:
  case EX_OP:
  case EX_LET:
  case EX_NEG:
  case EX_FIELD:
  case EX_INDEX:
  case EX_ERROR:
    return 0;
  }
  return 0;
}

/* True if the last argument may begin on the line of the others, which have
   this width.  The variables of a function or `for` are not separated from its
   arrow. */
static bool may_hang(const Expr *last, uint32_t width, const Doc *doc) {
  enum { MAX_HANGING_HEAD_WIDTH = 72 };
  bool has_head = last->kind == EX_FN || last->kind == EX_FOR;
  return width < max_hanging_width(last) &&
         (!has_head || width + doc_head_width(doc) <= MAX_HANGING_HEAD_WIDTH);
}

static Doc *app_doc(Formatter *f, const Expr *e) {
  Doc *head = postfix_doc(f, e->arg[0]);
  DocVec args = {0};
  uint32_t width = doc_width(head);
  bool forced = doc_is_forced(head), one_per_line = false;
  for (uint32_t i = 0; i < e->arg_count; i++) {
    Doc *arg = arg_doc(f, &e->args[i]);
    ADD_DOC(f, args, arg);
    if (i + 1 < e->arg_count) {
      width += doc_width(arg) + 1;
      forced |= doc_is_forced(arg);
      one_per_line |= is_open_form(
          e->args[i].expr); /* all on one line, or each on its own */
    }
  }
  bool hanging = !forced && may_hang(e->args[e->arg_count - 1].expr, width,
                                     args.at[args.len - 1]);
  DocVec all = {0};
  for (uint32_t i = 0; i < args.len; i++) {
    Doc *space = hanging ? fmt_text(f, " ") : LINE(f);
    Doc *arg = DOC_CONCAT(f, space, args.at[i]);
    ADD_DOC(f, all, hanging || one_per_line ? arg : GROUP(f, arg));
  }
  if (hanging)
    return DOC_CONCAT(f, head, CONCAT_ALL(f, all));
  Doc *rest = NEST(f, 2, CONCAT_ALL(f, all));
  return one_per_line ? GROUP(f, DOC_CONCAT(f, head, rest))
                      : DOC_CONCAT(f, head, rest);
}

/* ---- fields and indices ---- */

static Doc *index_base_doc(Formatter *f, const Expr *e) {
  return with_comments(f, e, precedence_of(e) < PREC_POST || e->kind == EX_NUM);
}

/* True if a colon next to it needs no space. */
static bool is_atom_or_absent(const Expr *e) {
  return !e || (is_atom(e) && !e->parenthesized);
}

static Doc *slice_doc(Formatter *f, const Slice *slice) {
  Doc *leading = fmt_leading_comments(f, slice->span.start);
  switch (slice->kind) {
  case SLICE_INDEX: /* a list in parentheses is no slice with a step */
    return DOC_CONCAT(f, leading,
                      with_comments(f, slice->from,
                                    slice->from->kind == EX_BIN &&
                                        slice->from->op == BIN_CONS));
  case SLICE_ELLIPSIS:
    return DOC_CONCAT(f, leading, fmt_text(f, "..."));
  case SLICE_NEWAXIS:
    return DOC_CONCAT(f, leading, fmt_text(f, "new"));
  case SLICE_STAR:
    return DOC_CONCAT(f, leading, fmt_text(f, "*"));
  case SLICE_RANGE:
    break;
  }
  bool tight = is_atom_or_absent(slice->from) && is_atom_or_absent(slice->to) &&
               is_atom_or_absent(slice->step);
  Doc *from = slice->from ? fmt_expr(f, slice->from) : NULL;
  Doc *to = slice->to ? fmt_expr(f, slice->to) : NULL;
  Doc *step = slice->step ? fmt_expr(f, slice->step) : NULL;
  Doc *space = tight ? NULL : fmt_text(f, " ");
  const char *colons = step && !to ? "::" : ":";
  Doc *rest = step ? DOC_CONCAT(f, to ? space : NULL,
                                to ? fmt_text(f, ":") : NULL, space, step)
                   : NULL;
  return DOC_CONCAT(f, leading, from, from ? space : NULL, fmt_text(f, colons),
                    to ? space : NULL, to, rest);
}

static Doc *index_doc(Formatter *f, const Expr *e) {
  Doc *base = index_base_doc(f, e->arg[0]);
  ItemVec items = {0};
  for (uint32_t i = 0; i < e->slice_count; i++)
    ADD_ITEM(f, items, slice_doc(f, &e->slices[i]), NULL);
  return DOC_CONCAT(f, base,
                    fmt_list(f, ".[", &items, "]", e->span.end, LIST_FILL));
}

/* ---- binding forms ---- */

Doc *fmt_param(Formatter *f, const Param *param) {
  Doc *leading = fmt_leading_comments(f, param->span.start), *label = NULL;
  const Pat *pat = param->pat;
  if (param->label) {
    bool pun = !param->default_value && pat->kind == PAT_VAR &&
               pat->id == param->label;
    label = fmt_text(
        f, arena_printf(f->arena, pun ? "~%s" : "~%s:", param->label->text));
    if (pun)
      return DOC_CONCAT(f, leading, label,
                        fmt_trailing_comments(f, param->span.end));
  }
  if (!param->default_value)
    return DOC_CONCAT(f, leading, label, fmt_pat_atom(f, pat));
  Doc *name = fmt_pat(f, pat), *type = NULL;
  if (param->type)
    type =
        DOC_CONCAT(f, fmt_text(f, " : "), ALIGN(f, fmt_type(f, param->type)));
  Doc *value = fmt_expr(f, param->default_value);
  Doc *trailing = fmt_trailing_comments(f, param->span.end);
  Doc *inside =
      DOC_CONCAT(f, name, type, fmt_text(f, " = "), ALIGN(f, value), trailing);
  return DOC_CONCAT(f, leading, label, fmt_text(f, "("), ALIGN(f, inside),
                    fmt_text(f, ")"));
}

static Doc *rule_head(Formatter *f, const Clause *clause, bool of_case) {
  if (of_case)
    return fmt_pat(f, clause->params[0].pat);
  DocVec params = {0};
  for (uint32_t i = 0; i < clause->param_count; i++) {
    if (i)
      ADD_DOC(f, params, fmt_text(f, " "));
    ADD_DOC(f, params, fmt_param(f, &clause->params[i]));
  }
  return CONCAT_ALL(f, params);
}

static Doc *rule_doc(Formatter *f, const Expr *e, uint32_t i) {
  const Clause *clause = &e->clauses[i];
  Doc *leading = fmt_leading_comments(f, clause->span.start);
  Doc *head = rule_head(f, clause, e->kind == EX_CASE);
  Doc *body = fmt_clause_body(f, clause->body, i + 1 < e->clause_count);
  return DOC_CONCAT(
      f, leading,
      GROUP(f, DOC_CONCAT(f, ALIGN(f, head), fmt_text(f, " =>"),
                          NEST(f, 2, DOC_CONCAT(f, LINE(f), body)))));
}

static bool rules_broken(const Formatter *f, const Expr *e) {
  for (uint32_t i = 1; i < e->clause_count; i++)
    if (fmt_newline_between(f, e->clauses[i - 1].span.end,
                            e->clauses[i].span.start))
      return true;
  return false;
}

static Doc *rule_separator_doc(Formatter *f, uint32_t indent, const Expr *e,
                               uint32_t i) {
  return fmt_rule_separator(f, indent, e->clauses[i - 1].span.end,
                            e->clauses[i].span.start);
}

static Doc *fn_doc(Formatter *f, const Expr *e) {
  if (e->clause_count == 1)
    return DOC_CONCAT(f, fmt_text(f, "fn "), rule_doc(f, e, 0));
  DocVec all = {0};
  if (rules_broken(f, e))
    ADD_DOC(f, all, doc_break_parent(f->arena));
  for (uint32_t i = 0; i < e->clause_count; i++) {
    if (i)
      ADD_DOC(f, all, rule_separator_doc(f, 1, e, i));
    ADD_DOC(f, all, NEST(f, 3, rule_doc(f, e, i)));
  }
  return GROUP(f,
               ALIGN(f, DOC_CONCAT(f, fmt_text(f, "fn "), CONCAT_ALL(f, all))));
}

static Doc *case_doc(Formatter *f, const Expr *e) {
  Doc *subject = ALIGN(f, fmt_expr(f, e->arg[0]));
  DocVec all = {0};
  if (rules_broken(f, e))
    ADD_DOC(f, all, doc_break_parent(f->arena));
  for (uint32_t i = 0; i < e->clause_count; i++) {
    Doc *between = i ? rule_separator_doc(f, 0, e, i) : NEST(f, 2, LINE(f));
    ADD_DOC(f, all, DOC_CONCAT(f, between, NEST(f, 2, rule_doc(f, e, i))));
  }
  return GROUP(f, ALIGN(f, DOC_CONCAT(f, fmt_text(f, "case "), subject,
                                      fmt_text(f, " of"), CONCAT_ALL(f, all))));
}

/* A part of an `if`, with the comments before the next keyword. */
static Doc *doc_before_keyword(Formatter *f, const Expr *e, char word,
                               const Expr *next, bool parens) {
  Doc *doc = with_comments(f, e, parens);
  uint32_t at = fmt_find_char(f, word, e->span.end, next->span.start);
  return DOC_CONCAT(f, doc, fmt_trailing_comments(f, at));
}

/* Each branch is on the line of its condition if it fits. */
static Doc *if_doc(Formatter *f, const Expr *e) {
  DocVec all = {0};
  for (;;) {
    const Expr *branch = e->arg[1];
    Doc *test = doc_before_keyword(f, e->arg[0], 't', branch, false);
    Doc *yes =
        doc_before_keyword(f, branch, 'e', e->arg[2], branch->kind == EX_IF);
    Doc *arm =
        DOC_CONCAT(f, fmt_text(f, "if "), ALIGN(f, test), fmt_text(f, " then"),
                   NEST(f, 2, DOC_CONCAT(f, LINE(f), yes)));
    ADD_DOC(f, all, GROUP(f, arm));
    ADD_DOC(f, all, LINE(f));
    if (e->arg[2]->kind != EX_IF)
      break;
    e = e->arg[2];
    ADD_DOC(f, all, fmt_leading_comments(f, e->span.start));
    ADD_DOC(f, all, fmt_text(f, "else "));
  }
  Doc *no = fmt_expr(f, e->arg[2]);
  Doc *last = DOC_CONCAT(f, fmt_text(f, "else"),
                         NEST(f, 2, DOC_CONCAT(f, LINE(f), no)));
  ADD_DOC(f, all, GROUP(f, last));
  return GROUP(f, ALIGN(f, CONCAT_ALL(f, all)));
}

/* A head that is too long breaks between its ranges, and then within them. */
static Doc *for_doc(Formatter *f, const Expr *e) {
  enum { MAX_FLAT_HEAD_WIDTH = 64 };
  DocVec all = {0};
  bool ranges = false;
  for (uint32_t i = 0; i < e->binder_count; i++)
    ranges |= e->binders[i].range != NULL;
  for (uint32_t i = 0; i < e->binder_count; i++) {
    const Binder *binder = &e->binders[i];
    if (i)
      ADD_DOC(f, all,
              ranges ? DOC_CONCAT(f, fmt_text(f, ","), LINE(f))
                     : fmt_text(f, " "));
    ADD_DOC(f, all, fmt_leading_comments(f, binder->span.start));
    ADD_DOC(f, all, fmt_sym(f, binder->id));
    if (!binder->range)
      continue;
    ADD_DOC(f, all, fmt_text(f, " < "));
    ADD_DOC(
        f, all,
        ALIGN(f, with_comments(f, binder->range, is_open_form(binder->range))));
  }
  Doc *binders = GROUP(f, ALIGN(f, CONCAT_ALL(f, all)));
  Doc *head = DOC_CONCAT(f, fmt_text(f, "for "), binders, fmt_text(f, " =>"));
  if (doc_width(head) <= MAX_FLAT_HEAD_WIDTH)
    head = doc_flat(f->arena, head);
  Doc *body = fmt_expr(f, e->arg[0]);
  return GROUP(f,
               DOC_CONCAT(f, head, NEST(f, 2, DOC_CONCAT(f, LINE(f), body))));
}

/* True if the source has the text between `let` and the body on several
   lines. */
static bool let_broken(const Formatter *f, const Expr *e) {
  return e->dec_count > 1 ||
         (e->dec_count && fmt_newline_between(f, e->decs[0]->span.start,
                                              e->items[0]->span.start));
}

/* A single short declaration stays on the line of its `let`, with a long body
   below it.  Everything else is in blocks. */
static Doc *let_doc(Formatter *f, const Expr *e) {
  enum { MAX_INLINE_DEC_WIDTH = 72, MAX_INLINE_BODY_WIDTH = 64 };
  bool broken = let_broken(f, e);
  uint32_t in = e->items[0]->span.start;
  if (e->dec_count)
    in = fmt_find_char(f, 'i', e->decs[e->dec_count - 1]->span.end, in);
  Doc *decs = fmt_decs(f, e->decs, e->dec_count, in);
  Doc *items = seq_items(f, e->items, e->item_count);
  items = DOC_CONCAT(f, items, fmt_trailing_comments(f, e->span.end));
  Doc *body = NEST(f, 2, DOC_CONCAT(f, LINE(f), items)), *head = NULL;
  Doc *end = DOC_CONCAT(f, LINE(f), fmt_text(f, "end"));
  bool block = e->dec_count > 1 || doc_is_forced(decs) ||
               doc_width(decs) > MAX_INLINE_DEC_WIDTH ||
               (e->dec_count && e->decs[0]->kind == DEC_FUN);
  bool beside = !block && (doc_is_forced(items) ||
                           doc_width(items) > MAX_INLINE_BODY_WIDTH);
  if (broken && block)
    head = DOC_CONCAT(f, NEST(f, 2, DOC_CONCAT(f, LINE(f), decs)), LINE(f));
  else if (!decs)
    head = LINE(f);
  else
    head = DOC_CONCAT(f, fmt_text(f, " "), NEST(f, 4, decs),
                      broken && beside ? fmt_text(f, " ") : LINE(f));
  body = DOC_CONCAT(f, fmt_text(f, "in"), body, end);
  if (broken && !block && !beside)
    body = GROUP(f, body);
  return GROUP(
      f, ALIGN(f, DOC_CONCAT(f, fmt_text(f, "let"), head, body,
                             broken ? doc_break_parent(f->arena) : NULL)));
}

/* ---- all forms ---- */

static Doc *expr_doc(Formatter *f, const Expr *e) {
  switch (e->kind) {
  case EX_ID:
  case EX_CON:
    return fmt_sym(f, e->id);
  case EX_NUM:
  case EX_STRING:
    return fmt_text(f, e->num);
  case EX_HOLE:
    return fmt_text(f, "_");
  case EX_TUPLE:
    return items_doc(f, "(", e, ")");
  case EX_SEQ:
    return seq_doc(f, e);
  case EX_ASCRIBE:
    return ascribe_doc(f, e);
  case EX_OP:
    return fmt_text(f, arena_printf(f->arena, "(op %s)", binop_text[e->op]));
  case EX_BRACKET:
    return items_doc(f, "[", e, "]");
  case EX_LIST:
    return items_doc(f, "list [", e, "]");
  case EX_RECORD:
  case EX_RECORD_UPDATE:
    return fields_doc(f, e);
  case EX_LET:
    return let_doc(f, e);
  case EX_FN:
    return fn_doc(f, e);
  case EX_CASE:
    return case_doc(f, e);
  case EX_IF:
    return if_doc(f, e);
  case EX_FOR:
    return for_doc(f, e);
  case EX_BIN:
    return binary_doc(f, e);
  case EX_NEG:
    return negation_doc(f, e);
  case EX_APP:
    return app_doc(f, e);
  case EX_FIELD: {
    Doc *base = index_base_doc(f, e->arg[0]);
    return DOC_CONCAT(f, base, fmt_text(f, "."), fmt_sym(f, e->id));
  }
  case EX_INDEX:
    return index_doc(f, e);
  case EX_ERROR:
    return fmt_text(f, "_");
  }
  return NULL;
}
