/* Prints trees as s-expressions, without spans, for tests.  Main entry point:
   ast_dump. */
#include <string.h>

#include "parser/parser.h"
#include "support/buffer.h"
#include "support/intern.h"

static void dump_expr(Buffer *b, const Expr *e);
static void dump_pat(Buffer *b, const Pat *p);
static void dump_type(Buffer *b, const TypeExpr *t);
static void dump_dim(Buffer *b, const DimExpr *d);
static void dump_dec(Buffer *b, const Dec *dec);

static void dump_sym(Buffer *b, const Sym *id) {
  buffer_puts(b, id ? id->text : "-");
}

static void dump_quoted(Buffer *b, const char *text, uint32_t len) {
  buffer_putc(b, '"');
  for (uint32_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c < ' ' || c == '"' || c == '\\' || c == 127)
      buffer_printf(b, "\\x%02x", c);
    else
      buffer_putc(b, (char)c);
  }
  buffer_putc(b, '"');
}

static void dump_name(Buffer *b, const Name *n) {
  if (n->module)
    buffer_printf(b, "%s.", n->module->text);
  dump_sym(b, n->id);
}

/* ---- sizes and axes ---- */

static void dump_axes(Buffer *b, const Axes *axes) {
  buffer_putc(b, '[');
  for (uint32_t i = 0; i < axes->len; i++) {
    const AxisExpr *axis = &axes->at[i];
    if (i)
      buffer_putc(b, ' ');
    switch (axis->kind) {
    case AXIS_DIM:
      dump_dim(b, axis->dim);
      break;
    case AXIS_STAR:
      buffer_putc(b, '*');
      break;
    case AXIS_SPLICE:
      buffer_puts(b, "...");
      if (axis->id)
        dump_sym(b, axis->id);
      if (axis->is_call)
        dump_axes(b, &axis->args);
      break;
    }
  }
  buffer_putc(b, ']');
}

static void dump_dim(Buffer *b, const DimExpr *d) {
  switch (d->kind) {
  case DX_NUM:
    buffer_puts(b, d->num);
    break;
  case DX_ID:
    dump_sym(b, d->id);
    break;
  case DX_EXISTENTIAL:
    buffer_putc(b, '?');
    if (d->id)
      dump_sym(b, d->id);
    break;
  case DX_HOLE:
    buffer_putc(b, '_');
    break;
  case DX_NEG:
    buffer_puts(b, "(- ");
    dump_dim(b, d->arg[0]);
    buffer_putc(b, ')');
    break;
  case DX_BIN:
    buffer_printf(b, "(%c ", d->op);
    dump_dim(b, d->arg[0]);
    buffer_putc(b, ' ');
    dump_dim(b, d->arg[1]);
    buffer_putc(b, ')');
    break;
  case DX_CALL:
    buffer_putc(b, '(');
    dump_sym(b, d->id);
    buffer_putc(b, ' ');
    dump_axes(b, &d->axes);
    buffer_putc(b, ')');
    break;
  case DX_SHAPE:
    dump_axes(b, &d->axes);
    break;
  }
}

static void dump_given_expr(Buffer *b, const GivenExpr *fact) {
  static const char *const rel[] = {
      [REL_EQ] = "==", [REL_NE] = "!=", [REL_LT] = "<",
      [REL_LE] = "<=", [REL_GT] = ">",  [REL_GE] = ">=",
  };
  if (fact->condition)
    buffer_puts(b, "(if ");
  switch (fact->kind) {
  case GIVEN_REL:
    buffer_printf(b, "(%s ", rel[fact->op]);
    dump_dim(b, fact->left);
    buffer_putc(b, ' ');
    dump_dim(b, fact->right);
    buffer_putc(b, ')');
    break;
  case GIVEN_CLASS:
    buffer_printf(b, "(class %s %s)", fact->tyvar->text, fact->id->text);
    break;
  case GIVEN_DIM:
    dump_dim(b, fact->left);
    break;
  }
  if (fact->condition) {
    buffer_putc(b, ' ');
    dump_given_expr(b, fact->condition);
    buffer_putc(b, ')');
  }
}

static void dump_given(Buffer *b, const Givens *facts) {
  if (!facts->len)
    return;
  buffer_puts(b, " (given");
  for (uint32_t i = 0; i < facts->len; i++) {
    buffer_putc(b, ' ');
    dump_given_expr(b, &facts->at[i]);
  }
  buffer_putc(b, ')');
}

/* ---- types ---- */

static void dump_types(Buffer *b, TypeExpr *const *args, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    buffer_putc(b, ' ');
    dump_type(b, args[i]);
  }
}

static void dump_fun_type(Buffer *b, const TypeExpr *t) {
  buffer_puts(b, t->has_effect ? "(->! " : "(-> ");
  if (t->label)
    buffer_printf(b, "%c%s: ", t->is_optional ? '?' : '~', t->label->text);
  dump_type(b, t->arg[0]);
  buffer_putc(b, ' ');
  dump_type(b, t->arg[1]);
  buffer_putc(b, ')');
}

static void dump_type(Buffer *b, const TypeExpr *t) {
  switch (t->kind) {
  case TX_VAR:
    dump_sym(b, t->id);
    if (t->has_axes)
      dump_axes(b, &t->axes);
    break;
  case TX_NAME:
    if (t->arg_count)
      buffer_putc(b, '(');
    dump_name(b, &t->name);
    if (t->has_axes)
      dump_axes(b, &t->axes);
    dump_types(b, t->args, t->arg_count);
    if (t->arg_count)
      buffer_putc(b, ')');
    break;
  case TX_CALL:
    buffer_puts(b, "(call ");
    dump_name(b, &t->name);
    buffer_putc(b, ' ');
    dump_axes(b, &t->axes);
    buffer_putc(b, ')');
    break;
  case TX_FUN:
    dump_fun_type(b, t);
    break;
  case TX_TUPLE:
    buffer_puts(b, "(*");
    dump_types(b, t->args, t->arg_count);
    buffer_putc(b, ')');
    break;
  case TX_RECORD:
    buffer_puts(b, "{");
    for (uint32_t i = 0; i < t->field_count; i++) {
      buffer_printf(b, "%s%s: ", i ? " " : "", t->fields[i].id->text);
      dump_type(b, t->fields[i].type);
    }
    buffer_puts(b, t->is_open ? " ...}" : "}");
    break;
  case TX_LIFT:
    buffer_puts(b, "(lift ");
    dump_dim(b, t->dim);
    buffer_putc(b, ' ');
    dump_type(b, t->arg[0]);
    buffer_putc(b, ')');
    break;
  case TX_HOLE:
    buffer_putc(b, '_');
    break;
  }
}

/* ---- patterns ---- */

static void dump_pats(Buffer *b, const char *head, const Pat *p) {
  buffer_printf(b, "(%s", head);
  for (uint32_t i = 0; i < p->arg_count; i++) {
    buffer_putc(b, ' ');
    dump_pat(b, p->args[i]);
  }
  buffer_putc(b, ')');
}

static void dump_pat_record(Buffer *b, const Pat *p) {
  buffer_puts(b, "{");
  for (uint32_t i = 0; i < p->field_count; i++) {
    const PatField *field = &p->fields[i];
    buffer_printf(b, "%s%s", i ? " " : "", field->id->text);
    if (field->type) {
      buffer_puts(b, ": ");
      dump_type(b, field->type);
    }
    if (field->pat) {
      buffer_puts(b, "=");
      dump_pat(b, field->pat);
    }
  }
  buffer_puts(b, p->is_open ? " ...}" : "}");
}

static void dump_pat(Buffer *b, const Pat *p) {
  switch (p->kind) {
  case PAT_WILD:
    buffer_putc(b, '_');
    break;
  case PAT_VAR:
    dump_sym(b, p->id);
    break;
  case PAT_NUM:
    buffer_printf(b, "%s%s", p->is_float ? "float:" : "", p->num);
    break;
  case PAT_STRING:
    dump_quoted(b, p->text, p->text_len);
    break;
  case PAT_CON:
    if (p->arg_count)
      buffer_puts(b, "(con ");
    dump_name(b, &p->name);
    if (p->arg_count) {
      buffer_putc(b, ' ');
      dump_pat(b, p->args[0]);
      buffer_putc(b, ')');
    }
    break;
  case PAT_TUPLE:
    dump_pats(b, "tuple", p);
    break;
  case PAT_RECORD:
    dump_pat_record(b, p);
    break;
  case PAT_SHAPE:
    dump_pats(b, "shape", p);
    break;
  case PAT_SPLICE:
    buffer_puts(b, "...");
    if (p->id)
      dump_sym(b, p->id);
    break;
  case PAT_LIST:
    dump_pats(b, "list", p);
    break;
  case PAT_CONS:
    dump_pats(b, "::", p);
    break;
  case PAT_AS:
    buffer_printf(b, "(as %s ", p->id->text);
    dump_pat(b, p->args[0]);
    buffer_putc(b, ')');
    break;
  case PAT_ASCRIBE:
    buffer_puts(b, "(: ");
    dump_pat(b, p->args[0]);
    buffer_putc(b, ' ');
    dump_type(b, p->type);
    buffer_putc(b, ')');
    break;
  }
}

static void dump_param(Buffer *b, const Param *param) {
  if (param->label)
    buffer_printf(b, "~%s:", param->label->text);
  if (param->default_value)
    buffer_puts(b, "(= ");
  dump_pat(b, param->pat);
  if (param->type) {
    buffer_puts(b, " : ");
    dump_type(b, param->type);
  }
  if (param->default_value) {
    buffer_putc(b, ' ');
    dump_expr(b, param->default_value);
    buffer_putc(b, ')');
  }
}

static void dump_clause(Buffer *b, const Clause *clause) {
  buffer_puts(b, " (");
  if (clause->name)
    buffer_printf(b, "%s ", clause->name->text);
  buffer_putc(b, '[');
  for (uint32_t i = 0; i < clause->param_count; i++) {
    if (i)
      buffer_putc(b, ' ');
    dump_param(b, &clause->params[i]);
  }
  buffer_putc(b, ']');
  if (clause->result) {
    buffer_puts(b, " : ");
    dump_type(b, clause->result);
  }
  dump_given(b, &clause->given);
  buffer_putc(b, ' ');
  dump_expr(b, clause->body);
  buffer_putc(b, ')');
}

/* ---- expressions ---- */

static void dump_items(Buffer *b, const char *head, const Expr *e) {
  buffer_printf(b, "(%s", head);
  for (uint32_t i = 0; i < e->item_count; i++) {
    buffer_puts(b, e->splices && e->splices[i] ? " ..." : " ");
    dump_expr(b, e->items[i]);
  }
  buffer_putc(b, ')');
}

static void dump_fields(Buffer *b, const Expr *e) {
  buffer_putc(b, '{');
  if (e->kind == EX_RECORD_UPDATE) {
    dump_expr(b, e->arg[0]);
    buffer_puts(b, " with ");
  }
  for (uint32_t i = 0; i < e->field_count; i++) {
    buffer_printf(b, "%s%s=", i ? " " : "", e->fields[i].id->text);
    dump_expr(b, e->fields[i].expr);
  }
  buffer_putc(b, '}');
}

static void dump_args(Buffer *b, const Expr *e) {
  buffer_puts(b, "(app ");
  dump_expr(b, e->arg[0]);
  for (uint32_t i = 0; i < e->arg_count; i++) {
    buffer_putc(b, ' ');
    if (e->args[i].label)
      buffer_printf(b, "~%s:", e->args[i].label->text);
    dump_expr(b, e->args[i].expr);
  }
  buffer_putc(b, ')');
}

static void dump_slices(Buffer *b, const Expr *e) {
  buffer_puts(b, "(index ");
  dump_expr(b, e->arg[0]);
  for (uint32_t i = 0; i < e->slice_count; i++) {
    const Slice *slice = &e->slices[i];
    buffer_putc(b, ' ');
    if (slice->from)
      dump_expr(b, slice->from);
    switch (slice->kind) {
    case SLICE_INDEX:
      break;
    case SLICE_RANGE:
      buffer_putc(b, ':');
      break;
    case SLICE_ELLIPSIS:
      buffer_puts(b, "...");
      break;
    case SLICE_NEWAXIS:
      buffer_puts(b, "new");
      break;
    case SLICE_STAR:
      buffer_putc(b, '*');
      break;
    }
    if (slice->to)
      dump_expr(b, slice->to);
    if (slice->step) {
      buffer_putc(b, ':');
      dump_expr(b, slice->step);
    }
  }
  buffer_putc(b, ')');
}

static void dump_for(Buffer *b, const Expr *e) {
  buffer_puts(b, "(for");
  for (uint32_t i = 0; i < e->binder_count; i++) {
    buffer_printf(b, " %s", e->binders[i].id->text);
    if (e->binders[i].range) {
      buffer_putc(b, '<');
      dump_expr(b, e->binders[i].range);
    }
  }
  buffer_puts(b, " => ");
  dump_expr(b, e->arg[0]);
  buffer_putc(b, ')');
}

static void dump_args_array(Buffer *b, const char *head, const Expr *e,
                            int count) {
  buffer_printf(b, "(%s", head);
  for (int i = 0; i < count; i++) {
    buffer_putc(b, ' ');
    dump_expr(b, e->arg[i]);
  }
}

static void dump_clauses(Buffer *b, const Expr *e) {
  for (uint32_t i = 0; i < e->clause_count; i++)
    dump_clause(b, &e->clauses[i]);
  buffer_putc(b, ')');
}

static void dump_let(Buffer *b, const Expr *e) {
  buffer_puts(b, "(let (");
  for (uint32_t i = 0; i < e->dec_count; i++) {
    if (i)
      buffer_putc(b, ' ');
    dump_dec(b, e->decs[i]);
  }
  buffer_puts(b, ")");
  for (uint32_t i = 0; i < e->item_count; i++) {
    buffer_putc(b, ' ');
    dump_expr(b, e->items[i]);
  }
  buffer_putc(b, ')');
}

static void dump_expr(Buffer *b, const Expr *e) {
  switch (e->kind) {
  case EX_ID:
  case EX_CON:
    dump_sym(b, e->id);
    break;
  case EX_NUM:
    buffer_printf(b, "%s%s", e->is_float ? "float:" : "", e->num);
    break;
  case EX_STRING:
    dump_quoted(b, e->text, e->text_len);
    break;
  case EX_HOLE:
    buffer_putc(b, '_');
    break;
  case EX_TUPLE:
    dump_items(b, "tuple", e);
    break;
  case EX_SEQ:
    dump_items(b, "seq", e);
    break;
  case EX_ASCRIBE:
    dump_args_array(b, ":", e, 1);
    buffer_putc(b, ' ');
    dump_type(b, e->type);
    buffer_putc(b, ')');
    break;
  case EX_OP:
    buffer_printf(b, "(op %s)", binop_text[e->op]);
    break;
  case EX_BRACKET:
    dump_items(b, "bracket", e);
    break;
  case EX_LIST:
    dump_items(b, "list", e);
    break;
  case EX_RECORD:
  case EX_RECORD_UPDATE:
    dump_fields(b, e);
    break;
  case EX_LET:
    dump_let(b, e);
    break;
  case EX_FN:
    buffer_puts(b, "(fn");
    dump_clauses(b, e);
    break;
  case EX_CASE:
    dump_args_array(b, "case", e, 1);
    dump_clauses(b, e);
    break;
  case EX_IF:
    dump_args_array(b, "if", e, 3);
    buffer_putc(b, ')');
    break;
  case EX_FOR:
    dump_for(b, e);
    break;
  case EX_BIN:
    dump_args_array(b, binop_text[e->op], e, 2);
    buffer_putc(b, ')');
    break;
  case EX_NEG:
    dump_args_array(b, "neg", e, 1);
    buffer_putc(b, ')');
    break;
  case EX_APP:
    dump_args(b, e);
    break;
  case EX_FIELD:
    dump_args_array(b, ".", e, 1);
    buffer_printf(b, " %s)", e->id->text);
    break;
  case EX_INDEX:
    dump_slices(b, e);
    break;
  case EX_ERROR:
    buffer_puts(b, "(error)");
    break;
  }
}

/* ---- declarations ---- */

static void dump_dec_head(Buffer *b, const char *word, const Dec *dec) {
  buffer_printf(b, "(%s", word);
  for (uint32_t i = 0; i < dec->tyvar_count; i++)
    buffer_printf(b, " %s", dec->tyvars[i]->text);
  buffer_printf(b, " %s", dec->name->text);
  if (dec->has_axes)
    dump_axes(b, &dec->axes);
}

static void dump_funs(Buffer *b, const Dec *dec) {
  buffer_puts(b, "(fun");
  for (uint32_t i = 0; i < dec->fun_count; i++) {
    if (i)
      buffer_puts(b, " and");
    for (uint32_t j = 0; j < dec->funs[i].clause_count; j++)
      dump_clause(b, &dec->funs[i].clauses[j]);
  }
  buffer_putc(b, ')');
}

static void dump_datatype(Buffer *b, const Dec *dec) {
  dump_dec_head(b, "datatype", dec);
  for (uint32_t i = 0; i < dec->con_count; i++) {
    buffer_printf(b, " (%s", dec->cons[i].name->text);
    if (dec->cons[i].type) {
      buffer_putc(b, ' ');
      dump_type(b, dec->cons[i].type);
    }
    buffer_putc(b, ')');
  }
  buffer_putc(b, ')');
}

static void dump_val(Buffer *b, const Dec *dec) {
  buffer_puts(b, "(val ");
  dump_pat(b, dec->pat);
  if (dec->type) {
    buffer_puts(b, " : ");
    dump_type(b, dec->type);
  }
  dump_given(b, &dec->given);
  buffer_putc(b, ' ');
  dump_expr(b, dec->expr);
  buffer_putc(b, ')');
}

static void dump_dec(Buffer *b, const Dec *dec) {
  if (dec->doc) {
    buffer_puts(b, "(doc ");
    dump_quoted(b, dec->doc, (uint32_t)strlen(dec->doc));
    buffer_puts(b, ") ");
  }
  switch (dec->kind) {
  case DEC_VAL:
    dump_val(b, dec);
    break;
  case DEC_FUN:
    dump_funs(b, dec);
    break;
  case DEC_TYPE:
    dump_dec_head(b, "type", dec);
    buffer_putc(b, ' ');
    dump_type(b, dec->type);
    buffer_putc(b, ')');
    break;
  case DEC_DATATYPE:
    dump_datatype(b, dec);
    break;
  case DEC_IMPORT:
    buffer_puts(b, "(import ");
    if (dec->path)
      dump_quoted(b, dec->path, (uint32_t)strlen(dec->path));
    else
      dump_sym(b, dec->id);
    if (dec->as)
      buffer_printf(b, " as %s", dec->as->text);
    buffer_putc(b, ')');
    break;
  case DEC_OPEN:
    buffer_printf(b, "(open %s)", dec->id->text);
    break;
  case DEC_SCHEDULE:
  case DEC_KERNEL:
    buffer_printf(b, "(%s %s ", dec->kind == DEC_KERNEL ? "kernel" : "schedule",
                  dec->name->text);
    dump_quoted(b, dec->text, (uint32_t)strlen(dec->text));
    buffer_putc(b, ')');
    break;
  case DEC_DO:
  case DEC_EXPR:
    buffer_puts(b, dec->kind == DEC_DO ? "(do " : "(expr ");
    dump_expr(b, dec->expr);
    buffer_putc(b, ')');
    break;
  }
}

void ast_dump(Buffer *out, const Program *program) {
  for (uint32_t i = 0; i < program->dec_count; i++) {
    dump_dec(out, program->decs[i]);
    buffer_putc(out, '\n');
  }
}

void ast_dump_type(Buffer *out, const TypeExpr *type, const Givens *given) {
  dump_type(out, type);
  if (given)
    dump_given(out, given);
  buffer_putc(out, '\n');
}
