/* The grammar: converts tokens to trees. ast_build.c constructs the nodes.
   bracket_recovery.c balances brackets before the grammar sees them.
   syntax_errors.c writes the messages of syntax errors. */
%require "3.8"
%define api.pure full
%define api.prefix {grammar_}
%define api.token.prefix {TOK_}
%define api.location.type {Span}
%define parse.error custom
%define lr.default-reduction consistent
%locations
%param {ParseState *ps}
%expect 0

%code requires {
#include "parser/internal.h"
}

%code provides {
int grammar_lex(GRAMMAR_STYPE *value, Span *span, ParseState *ps);
}

%code {
#include "support/arena.h"
#include "support/diag.h"
#include "support/intern.h"

/* Bison's stack lives in the arena, so that unwinding leaks nothing. */
#define YYMALLOC(size) arena_alloc(ps->arena, (size))
#define YYFREE(p) ((void)(p))
#define YYMAXDEPTH PARSE_MAX_STACK

/* The span of a rule: from its first to its last nonempty part.  An empty rule
   is located at the end of the preceding symbol. */
#define YYLLOC_DEFAULT(current, rhs, n)                        \
  do {                                                         \
    if (n)                                                     \
      (current) = YYRHSLOC(rhs, 1);                            \
    else                                                       \
      (current) = (Span){ps->file, YYRHSLOC(rhs, 0).end,       \
                         YYRHSLOC(rhs, 0).end};                \
    for (int i_ = 2; i_ <= (n); i_++)                          \
      (current) = rule_span((current), YYRHSLOC(rhs, i_));     \
  } while (0)

static Span rule_span(Span all, Span part) {
  if (part.end == part.start)
    return all;
  return all.end == all.start ? part : span_join(all, part);
}

/* A list of type T with one item, or with one more. */
#define FIRST(T, item)               \
  __extension__({                    \
    T *list_ = NEW(ps->arena, T);    \
    VEC_PUSH(ps->arena, *list_, (item)); \
    list_;                           \
  })
#define MORE(list, item) VEC_PUSH(ps->arena, *(list), (item))

/* Ends panic mode: errors are reported again. */
#define RESUME          \
  do {                  \
    yyerrok;            \
    ps->panic = false;  \
  } while (0)

/* The same, after a group that ends at `last`. */
#define RESUME_AFTER(last)   \
  do {                       \
    RESUME;                  \
    ps->recovered_end = (last).end; \
  } while (0)

static void add_failed_dec(ParseState *ps);
static void grammar_error(Span *span, ParseState *ps, const char *message);
static Givens givens_of(const GivenVec *facts);
static GivenExpr class_fact(Sym *tyvar, Sym *class, Span span);
static Clause clause_of(ParamVec *params, Expr *body, Span span);
static Clause case_rule(ParseState *ps, Pat *pat, Expr *body, Span span);
static Param param_of(Sym *label, Pat *pat, Span span);
static FunDef fun_of(ParseState *ps, const ClauseVec *clauses);
static void add_bare_expr(ParseState *ps, Expr *expr);
static void add_pat_field(ParseState *ps, PatFields *fields, PatField field);
}

%union {
  Sym *sym;
  const char *num;
  StringLiteral text;
  bool flag;
  BinOp op;
  RelOp relop;
  Name name;
  Expr *expr;
  Elem elem;
  Arg arg;
  FieldExpr field;
  Slice slice;
  Clause clause;
  Param param;
  Pat *pat;
  PatField pat_field;
  TypeExpr *type;
  DimExpr *dim;
  AxisExpr axis;
  GivenExpr fact;
  ConDef con;
  AxisParams bits;
  Dec *dec;
  Givens facts;
  SymVec *syms;
  ExprVec *exprs;
  ElemVec *elems;
  ArgVec *args;
  FieldVec *fields;
  BinderVec *binders;
  SliceVec *slices;
  ClauseVec *clauses;
  ParamVec *params;
  PatVec *pats;
  PatFields *pat_fields;
  TypeVec *types;
  TypeFieldVec *type_fields;
  AxisVec *axes;
  GivenVec *fact_list;
  ConVec *cons;
  FunVec *funs;
  DecVec *decs;
}

%token START_PROGRAM "the text" START_TYPE "a type's text"
%token END_OF_FILE 0 "the end of the text"
%token <sym> ID "a name" CON "a constructor" TYVAR "a type variable"
%token <sym> LABEL "a label" PUN "a labelled name"
%token <sym> OPTLABEL "an optional label" SOME "an unknown size"
%token <num> NUM "a number" FLOAT "a decimal number"
%token <num> NEGNUM "a negative number" NEGFLOAT "a negative decimal number"
%token <text> STRING "a string" SCHEDULE "a schedule"

%token AND "and" AS "as" CASE "case" DATATYPE "datatype" DO "do" ELSE "else"
%token END "end" FN "fn" FOR "for" FUN "fun" GIVEN "given" IF "if"
%token IMPORT "import" IN "in" LET "let" LIFT "lift" LIST "list" NEW "new"
%token OF "of" OP "op" OPEN "open" THEN "then" TYPE "type" VAL "val"
%token WITH "with"

%token LPAREN "(" RPAREN ")" LBRACKET "[" DOTBRACKET ".[" RBRACKET "]"
%token LBRACE "{" RBRACE "}" COMMA "," SEMI ";" COLON ":" DOT "."
%token ELLIPSIS "..." EQUAL "=" DARROW "=>" ARROW "->" EFFECT "->!"
%token BAR "|" HOLE "_" QUESTION "?"
%token PIPE "|>" COMPOSE ">>" OR "||" ANDAND "&&"
%token EQ "==" NE "!=" LT "<" LE "<=" GT ">" GE ">="
%token CONS "::" CARET "^" PLUS "+" MINUS "-"
%token STAR "*" SLASH "/" PERCENT "%" AT "@"

%precedence LOW "=>" "else"
%precedence "|"
%left "|>"
%left ">>"
%left "||"
%left "&&"
%nonassoc "==" "!=" "<" "<=" ">" ">="
%right "::" "^"
%left "+" "-"
%left "*" "/" "%" "@"
%precedence NEGATION

%type <dec> dec
%type <decs> decs
%type <funs> funs
%type <clauses> fun frules rules
%type <clause> clause frule rule
%type <params> params
%type <param> param
%type <syms> tyvars tyvar_list tyvar_commas
%type <bits> axis_params
%type <cons> cons
%type <con> con
%type <sym> as binder
%type <facts> given
%type <fact_list> facts class_facts
%type <fact> fact conditions plain_fact
%type <relop> relop

%type <type> type_opt type product postfix atype named
%type <types> products types
%type <type_fields> type_fields
%type <axes> axes axes_opt axes_bracket axes_parens
%type <axis> axis
%type <dim> dim
%type <name> qid qcon

%type <expr> expr app post atom
%type <args> args
%type <arg> arg
%type <exprs> exprs seq exprs_opt
%type <elems> elems elems_opt
%type <elem> elem
%type <fields> fields fields_opt
%type <field> field
%type <slices> slices
%type <slice> slice
%type <binders> ids ranges binders
%type <op> binop

%type <pat> pat tpat apat spat
%type <pats> tpats pats pats_opt spats spats_opt
%type <pat_fields> pat_fields
%type <pat_field> pat_field

%initial-action {
  @$ = (Span){ps->file, ps->lexer.begin, ps->lexer.begin};
}

%%

start
  : START_PROGRAM top
  | START_TYPE type given { ps->type = $2; ps->given = $3; }
  | START_TYPE error
  ;

top
  : segment
  | top ";" segment
  ;

segment
  : %empty
  | decs_or_expr
  ;

decs_or_expr
  : expr                { add_bare_expr(ps, $1); }
  | dec                 { VEC_PUSH(ps->arena, ps->decs, $1); }
  | error               { add_failed_dec(ps); }
  | decs_or_expr dec {
      if (@2.start >= ps->ignore_decs_before)
        VEC_PUSH(ps->arena, ps->decs, $2);
    }
  | decs_or_expr error  { add_failed_dec(ps); }
  ;

/* ---- declarations ---- */

decs
  : %empty              { $$ = NEW(ps->arena, DecVec); }
  | decs dec            { $$ = $1; MORE($$, $2); }
  | decs ";"            { $$ = $1; }
  | decs error          { $$ = $1; }
  ;

/* Words at which parsing resumes after an error. */
val: "val" {
      if (parse_begins_dec(ps, @1))
        RESUME;
    };
fun_word: "fun" {
      if (parse_begins_dec(ps, @1))
        RESUME;
    };
type_word: "type"       { RESUME; };
datatype: "datatype"    { RESUME; };
import: "import"        { RESUME; };
open: "open"            { RESUME; };
do: "do"                { RESUME; };
in: "in"                { RESUME; };

dec
  : val pat type_opt given "=" expr {
      $$ = dec_new(ps, DEC_VAL, @$);
      $$->pat = $2;
      $$->type = $3;
      $$->given = $4;
      $$->expr = @1.start + 1 == ps->after_non_dec_start
                    ? expr_new(ps, EX_ERROR, @6) /* in the body of a function */
                    : $6;
      dec_finish(ps, $$);
    }
  | fun_word funs {
      $$ = dec_new(ps, DEC_FUN, @$);
      $$->funs = $2->at;
      $$->fun_count = $2->len;
      dec_finish(ps, $$);
    }
  | type_word tyvars ID axis_params "=" type {
      $$ = dec_type(ps, DEC_TYPE, $2, $3, @3, $4, @$);
      $$->type = $6;
      dec_finish(ps, $$);
    }
  | datatype tyvars ID axis_params "=" cons {
      $$ = dec_type(ps, DEC_DATATYPE, $2, $3, @3, $4, @$);
      $$->cons = $6->at;
      $$->con_count = $6->len;
      dec_finish(ps, $$);
    }
  | import ID as {
      $$ = dec_new(ps, DEC_IMPORT, @$);
      $$->id = $2;
      $$->as = $3;
      dec_finish(ps, $$);
    }
  | import STRING as {
      $$ = dec_new(ps, DEC_IMPORT, @$);
      $$->path = $2.text;
      $$->as = $3;
      dec_finish(ps, $$);
    }
  | open ID {
      $$ = dec_new(ps, DEC_OPEN, @$);
      $$->id = $2;
      dec_finish(ps, $$);
    }
  | SCHEDULE {
      $$ = dec_schedule(ps, $1, @$);
      dec_finish(ps, $$);
    }
  | do expr {
      $$ = dec_new(ps, DEC_DO, @$);
      $$->expr = $2;
      dec_finish(ps, $$);
    }
  ;

as
  : %empty              { $$ = NULL; }
  | "as" ID             { $$ = $2; }
  ;

tyvars
  : %empty              { $$ = NULL; }
  | tyvar_list
  | "(" tyvar_commas ")" { $$ = $2; }
  ;

tyvar_list
  : TYVAR               { $$ = FIRST(SymVec, $1); }
  | tyvar_list TYVAR    { $$ = $1; MORE($$, $2); }
  ;

tyvar_commas
  : TYVAR               { $$ = FIRST(SymVec, $1); }
  | tyvar_commas "," TYVAR { $$ = $1; MORE($$, $3); }
  ;

axis_params
  : %empty              { $$ = (AxisParams){0}; }
  | axes_bracket        { $$ = (AxisParams){true, axes_of($1)}; }
  ;

cons
  : con                 { $$ = FIRST(ConVec, $1); }
  | cons "|" con        { $$ = $1; MORE($$, $3); }
  ;

con
  : CON                 { $$ = (ConDef){$1, @1, NULL}; }
  | CON "of" type       { $$ = (ConDef){$1, @1, $3}; }
  ;

funs
  : fun                 { $$ = FIRST(FunVec, fun_of(ps, $1)); }
  | funs "and" fun      { $$ = $1; MORE($$, fun_of(ps, $3)); }
  ;

fun
  : clause              { $$ = FIRST(ClauseVec, $1); }
  | fun "|" clause      { $$ = $1; MORE($$, $3); }
  ;

clause
  : ID params type_opt given "=" expr {
      $$ = clause_of($2, $6, @$);
      $$.name = $1;
      $$.name_span = @1;
      $$.result = $3;
      $$.given = $4;
    }
  ;

params
  : param               { $$ = FIRST(ParamVec, $1); }
  | params param        { $$ = $1; MORE($$, $2); }
  ;

param
  : apat                { $$ = param_of(NULL, $1, @$); }
  | LABEL apat          { $$ = param_of($1, $2, @$); }
  | PUN                 { $$ = param_of($1, pat_var(ps, $1, @$), @$); }
  | LABEL "(" pat type_opt "=" expr ")" {
      $$ = param_of($1, $3, @$);
      $$.type = $4;
      $$.default_value = $6;
    }
  ;

given
  : %empty              { $$ = (Givens){0}; }
  | "given" facts       { $$ = givens_of($2); }
  ;

facts
  : fact                { $$ = FIRST(GivenVec, $1); }
  | facts "," fact      { $$ = $1; MORE($$, $3); }
  | class_facts         { $$ = $1; }
  | facts "," class_facts {
      $$ = $1;
      for (uint32_t i = 0; i < $3->len; i++)
        MORE($$, $3->at[i]);
    }
  ;

/* 'a, 'b : float */
class_facts
  : TYVAR "," TYVAR ":" ID {
      $$ = FIRST(GivenVec, class_fact($1, $5, @1));
      MORE($$, class_fact($3, $5, @3));
    }
  | TYVAR "," class_facts {
      $$ = FIRST(GivenVec, class_fact($1, $3->at[0].id, @1));
      for (uint32_t i = 0; i < $3->len; i++)
        MORE($$, $3->at[i]);
    }
  ;

fact
  : plain_fact
  | plain_fact "if" conditions {
      $$ = $1;
      $$.span = @$;
      $$.condition = NEW(ps->arena, GivenExpr);
      *$$.condition = $3;
    }
  ;

conditions
  : plain_fact
  | plain_fact "&&" conditions {
      $$ = $1;
      $$.span = @$;
      $$.condition = NEW(ps->arena, GivenExpr);
      *$$.condition = $3;
    }
  ;

plain_fact
  : dim {
      $$ = (GivenExpr){.kind = GIVEN_DIM, .span = @$, .left = $1};
    }
  | dim relop dim {
      $$ = (GivenExpr){.kind = GIVEN_REL, .span = @$, .op = $2, .left = $1,
                      .right = $3};
    }
  | TYVAR ":" ID {
      $$ = class_fact($1, $3, @$);
    }
  ;

relop
  : "=="                { $$ = REL_EQ; }
  | "!="                { $$ = REL_NE; }
  | "<"                 { $$ = REL_LT; }
  | "<="                { $$ = REL_LE; }
  | ">"                 { $$ = REL_GT; }
  | ">="                { $$ = REL_GE; }
  ;

/* ---- types ---- */

type_opt
  : %empty              { $$ = NULL; }
  | ":" type            { $$ = $2; }
  ;

type
  : product
  | product "->" type   { $$ = type_fun(ps, $1, $3, false, @$); }
  | product "->!" type  { $$ = type_fun(ps, $1, $3, true, @$); }
  | LABEL product "->" type {
      $$ = type_fun(ps, $2, $4, false, @$);
      $$->label = $1;
    }
  | LABEL product "->!" type {
      $$ = type_fun(ps, $2, $4, true, @$);
      $$->label = $1;
    }
  | OPTLABEL product "->" type {
      $$ = type_fun(ps, $2, $4, false, @$);
      $$->label = $1;
      $$->is_optional = true;
    }
  | OPTLABEL product "->!" type {
      $$ = type_fun(ps, $2, $4, true, @$);
      $$->label = $1;
      $$->is_optional = true;
    }
  ;

product
  : postfix
  | products            { $$ = type_tuple(ps, $1, @$); }
  ;

products
  : postfix "*" postfix { $$ = FIRST(TypeVec, $1); MORE($$, $3); }
  | products "*" postfix { $$ = $1; MORE($$, $3); }
  ;

postfix
  : atype
  | postfix "list" {
      Name name = {NULL, intern_string(ps->interner, "list"), @2};
      $$ = type_apply(ps, FIRST(TypeVec, $1), type_name(ps, name, @2), @$);
    }
  | postfix named       { $$ = type_apply(ps, FIRST(TypeVec, $1), $2, @$); }
  ;

/* A name, with or without axes. */
named
  : qid                 { $$ = type_name(ps, $1, @$); }
  | qid axes_bracket    { $$ = type_axes(ps, type_name(ps, $1, @1), $2, @$); }
  ;

atype
  : TYVAR {
      $$ = type_new(ps, TX_VAR, @$);
      $$->id = $1;
    }
  | TYVAR axes_bracket {
      TypeExpr *var = type_new(ps, TX_VAR, @1);
      var->id = $1;
      $$ = type_axes(ps, var, $2, @$);
    }
  | named
  | qid axes_parens     { $$ = type_call(ps, $1, $2, @$); }
  | "(" type ")"        { $$ = $2; $$->span = @$; }
  | "(" types ")" named { $$ = type_apply(ps, $2, $4, @$); }
  | "lift" "(" dim "," type ")" { $$ = type_lift(ps, $3, $5, @$); }
  | "{" "}" {
      $$ = type_record(ps, NEW(ps->arena, TypeFieldVec), false, @$);
    }
  | "{" "..." "}" {
      $$ = type_record(ps, NEW(ps->arena, TypeFieldVec), true, @$);
    }
  | "{" type_fields "}" { $$ = type_record(ps, $2, false, @$); }
  | "{" type_fields "," "..." "}" { $$ = type_record(ps, $2, true, @$); }
  | "_"                 { $$ = type_new(ps, TX_HOLE, @$); }
  | "(" error ")"       { RESUME_AFTER(@$); $$ = type_error(ps, @$); }
  | "{" error "}"       { RESUME_AFTER(@$); $$ = type_error(ps, @$); }
  ;

types
  : type "," type       { $$ = FIRST(TypeVec, $1); MORE($$, $3); }
  | types "," type      { $$ = $1; MORE($$, $3); }
  ;

type_fields
  : ID ":" type {
      TypeField field = {$1, @1, $3};
      $$ = FIRST(TypeFieldVec, field);
    }
  | type_fields "," ID ":" type {
      TypeField field = {$3, @3, $5};
      $$ = $1;
      MORE($$, field);
    }
  ;

qid
  : ID                  { $$ = (Name){NULL, $1, @$}; }
  | ID "." ID           { $$ = (Name){$1, $3, @$}; }
  ;

/* ---- axes and sizes ---- */

/* NULL after a syntax error. */
axes_bracket
  : "[" axes_opt "]"    { $$ = $2; }
  | "[" error "]"       { RESUME_AFTER(@$); $$ = NULL; }
  ;

axes_parens
  : "(" axes_opt ")"    { $$ = $2; }
  | "(" error ")"       { RESUME_AFTER(@$); $$ = NULL; }
  ;

axes_opt
  : %empty              { $$ = NEW(ps->arena, AxisVec); }
  | axes
  ;

axes
  : axis                { $$ = FIRST(AxisVec, $1); }
  | axes "," axis       { $$ = $1; MORE($$, $3); }
  ;

axis
  : dim                 { $$ = axis_dim($1); }
  | "*"                 { $$ = (AxisExpr){.kind = AXIS_STAR, .span = @$}; }
  | "..."               { $$ = (AxisExpr){.kind = AXIS_SPLICE, .span = @$}; }
  | "..." ID {
      $$ = (AxisExpr){.kind = AXIS_SPLICE, .span = @$, .id = $2};
    }
  | "..." ID axes_parens {
      $$ = (AxisExpr){.kind = AXIS_SPLICE, .span = @$, .id = $2,
                      .is_call = $3 != NULL, .args = axes_of($3)};
    }
  ;

dim
  : dim "+" dim         { $$ = dim_binary(ps, '+', $1, $3, @$); }
  | dim "-" dim         { $$ = dim_binary(ps, '-', $1, $3, @$); }
  | dim "*" dim         { $$ = dim_binary(ps, '*', $1, $3, @$); }
  | dim "/" dim         { $$ = dim_binary(ps, '/', $1, $3, @$); }
  | dim "%" dim         { $$ = dim_binary(ps, '%', $1, $3, @$); }
  | "-" dim %prec NEGATION { $$ = dimexpr_neg(ps, $2, @$); }
  | NUM                 { $$ = dim_num(ps, $1, @$); }
  | NEGNUM              { $$ = dimexpr_neg(ps, dim_num(ps, $1 + 1, @1), @$); }
  | ID                  { $$ = dim_id(ps, DX_ID, $1, @$); }
  | "?"                 { $$ = dim_id(ps, DX_EXISTENTIAL, NULL, @$); }
  | SOME                { $$ = dim_id(ps, DX_EXISTENTIAL, $1, @$); }
  | "_"                 { $$ = dim_new(ps, DX_HOLE, @$); }
  | "(" dim ")"         { $$ = $2; $$->span = @$; }
  | ID axes_parens      { $$ = dim_call(ps, $1, $2, @$); }
  | axes_bracket        { $$ = dim_shape(ps, $1, @$); }
  ;

/* ---- expressions ---- */

expr
  : expr "|>" expr      { $$ = expr_binary(ps, BIN_PIPE, $1, $3, @2, @$); }
  | expr ">>" expr      { $$ = expr_binary(ps, BIN_COMPOSE, $1, $3, @2, @$); }
  | expr "||" expr      { $$ = expr_binary(ps, BIN_OR, $1, $3, @2, @$); }
  | expr "&&" expr      { $$ = expr_binary(ps, BIN_AND, $1, $3, @2, @$); }
  | expr "==" expr      { $$ = expr_binary(ps, BIN_EQ, $1, $3, @2, @$); }
  | expr "!=" expr      { $$ = expr_binary(ps, BIN_NE, $1, $3, @2, @$); }
  | expr "<" expr       { $$ = expr_binary(ps, BIN_LT, $1, $3, @2, @$); }
  | expr "<=" expr      { $$ = expr_binary(ps, BIN_LE, $1, $3, @2, @$); }
  | expr ">" expr       { $$ = expr_binary(ps, BIN_GT, $1, $3, @2, @$); }
  | expr ">=" expr      { $$ = expr_binary(ps, BIN_GE, $1, $3, @2, @$); }
  | expr "::" expr      { $$ = expr_binary(ps, BIN_CONS, $1, $3, @2, @$); }
  | expr "^" expr       { $$ = expr_binary(ps, BIN_APPEND, $1, $3, @2, @$); }
  | expr "+" expr       { $$ = expr_binary(ps, BIN_ADD, $1, $3, @2, @$); }
  | expr "-" expr       { $$ = expr_binary(ps, BIN_SUB, $1, $3, @2, @$); }
  | expr "*" expr       { $$ = expr_binary(ps, BIN_MUL, $1, $3, @2, @$); }
  | expr "/" expr       { $$ = expr_binary(ps, BIN_DIV, $1, $3, @2, @$); }
  | expr "%" expr       { $$ = expr_binary(ps, BIN_MOD, $1, $3, @2, @$); }
  | expr "@" expr       { $$ = expr_binary(ps, BIN_MATMUL, $1, $3, @2, @$); }
  | "-" expr %prec NEGATION {
      $$ = expr_unary(ps, EX_NEG, $2, @$);
      $$->op_span = @1;
    }
  | app
  | "fn" frules %prec LOW { $$ = expr_clauses(ps, EX_FN, NULL, $2, @$); }
  | "case" expr "of" rules %prec LOW {
      $$ = expr_clauses(ps, EX_CASE, $2, $4, @$);
    }
  | "if" expr "then" expr "else" expr { $$ = expr_if(ps, $2, $4, $6, @$); }
  | "for" binders "=>" expr { $$ = expr_for(ps, $2, $4, @$); }
  ;

app
  : post
  | post args           { $$ = expr_app(ps, $1, $2, @$); }
  ;

args
  : arg                 { $$ = FIRST(ArgVec, $1); }
  | args arg            { $$ = $1; MORE($$, $2); }
  ;

arg
  : post                { $$ = (Arg){.span = @$, .expr = $1}; }
  | LABEL post {
      $$ = (Arg){.span = @$, .label = $1, .label_span = @1, .expr = $2};
    }
  | PUN {
      $$ = (Arg){.span = @$, .label = $1, .label_span = @1,
                 .expr = expr_id(ps, $1, @1)};
    }
  ;

post
  : atom
  | post "." ID         { $$ = expr_field(ps, $1, $3, @3, @$); }
  | post "." CON        { $$ = expr_field(ps, $1, $3, @3, @$); }
  | post ".[" slices "]" { $$ = expr_index(ps, $1, $3, @$); }
  | post ".[" error "]" { RESUME_AFTER(@$); $$ = expr_new(ps, EX_ERROR, @$); }
  ;

slices
  : slice               { $$ = FIRST(SliceVec, $1); }
  | slices "," slice    { $$ = $1; MORE($$, $3); }
  ;

slice
  : expr                { $$ = slice_of_expr($1, @$); }
  | expr ":" expr       { $$ = slice_range($1, $3, NULL, @$); }
  | expr ":"            { $$ = slice_range($1, NULL, NULL, @$); }
  | ":" expr            { $$ = slice_range(NULL, $2, NULL, @$); }
  | ":"                 { $$ = slice_range(NULL, NULL, NULL, @$); }
  | "::" expr           { $$ = slice_range(NULL, NULL, $2, @$); }
  | ":" expr ":" expr   { $$ = slice_range(NULL, $2, $4, @$); }
  | expr ":" expr ":" expr { $$ = slice_range($1, $3, $5, @$); }
  | "..."               { $$ = (Slice){.kind = SLICE_ELLIPSIS, .span = @$}; }
  | "new"               { $$ = (Slice){.kind = SLICE_NEWAXIS, .span = @$}; }
  | "*"                 { $$ = (Slice){.kind = SLICE_STAR, .span = @$}; }
  ;

atom
  : ID                  { $$ = expr_id(ps, $1, @$); }
  | CON                 { $$ = expr_con(ps, $1, @$); }
  | NUM                 { $$ = expr_num(ps, $1, false, @$); }
  | FLOAT               { $$ = expr_num(ps, $1, true, @$); }
  | NEGNUM              { $$ = expr_num(ps, $1, false, @$); }
  | NEGFLOAT            { $$ = expr_num(ps, $1, true, @$); }
  | STRING              { $$ = expr_string(ps, $1, @$); }
  | "_"                 { $$ = expr_new(ps, EX_HOLE, @$); }
  | "(" ")"             { $$ = expr_items(ps, EX_TUPLE, NULL, @$); }
  | "(" expr ")"        { $$ = expr_parens($2, @$); }
  | "(" expr "," exprs ")" {
      ExprVec *all = FIRST(ExprVec, $2);
      for (uint32_t i = 0; i < $4->len; i++)
        MORE(all, $4->at[i]);
      $$ = expr_items(ps, EX_TUPLE, all, @$);
    }
  | "(" expr ";" seq ")" {
      ExprVec *all = FIRST(ExprVec, $2);
      for (uint32_t i = 0; i < $4->len; i++)
        MORE(all, $4->at[i]);
      $$ = expr_items(ps, EX_SEQ, all, @$);
    }
  | "(" expr ":" type ")" { $$ = expr_ascribe(ps, $2, $4, @$); }
  | "(" "op" binop ")" {
      $$ = expr_new(ps, EX_OP, @$);
      $$->op = $3;
      $$->op_span = @3;
    }
  | "[" elems_opt "]"   { $$ = expr_bracket(ps, $2, @$); }
  | "list" "[" exprs_opt "]" { $$ = expr_items(ps, EX_LIST, $3, @$); }
  | "{" fields_opt "}"  { $$ = expr_record(ps, NULL, $2, @$); }
  | "{" post "with" fields "}" { $$ = expr_record(ps, $2, $4, @$); }
  | "let" decs in seq "end" { $$ = expr_let(ps, $2, $4, @$); }
  | "(" error ")"       { RESUME_AFTER(@$); $$ = expr_new(ps, EX_ERROR, @$); }
  | "[" error "]"       { RESUME_AFTER(@$); $$ = expr_new(ps, EX_ERROR, @$); }
  | "list" "[" error "]" { RESUME_AFTER(@$); $$ = expr_new(ps, EX_ERROR, @$); }
  | "{" error "}"       { RESUME_AFTER(@$); $$ = expr_new(ps, EX_ERROR, @$); }
  | "let" decs error "end" {
      RESUME_AFTER(@$);
      $$ = expr_new(ps, EX_ERROR, @$);
    }
  | "let" decs in error "end" {
      RESUME_AFTER(@$);
      $$ = expr_new(ps, EX_ERROR, @$);
    }
  ;

binop
  : "|>"                { $$ = BIN_PIPE; }
  | ">>"                { $$ = BIN_COMPOSE; }
  | "||"                { $$ = BIN_OR; }
  | "&&"                { $$ = BIN_AND; }
  | "=="                { $$ = BIN_EQ; }
  | "!="                { $$ = BIN_NE; }
  | "<"                 { $$ = BIN_LT; }
  | "<="                { $$ = BIN_LE; }
  | ">"                 { $$ = BIN_GT; }
  | ">="                { $$ = BIN_GE; }
  | "::"                { $$ = BIN_CONS; }
  | "^"                 { $$ = BIN_APPEND; }
  | "+"                 { $$ = BIN_ADD; }
  | "-"                 { $$ = BIN_SUB; }
  | "*"                 { $$ = BIN_MUL; }
  | "/"                 { $$ = BIN_DIV; }
  | "%"                 { $$ = BIN_MOD; }
  | "@"                 { $$ = BIN_MATMUL; }
  ;

exprs_opt
  : %empty              { $$ = NULL; }
  | exprs
  ;

exprs
  : expr                { $$ = FIRST(ExprVec, $1); }
  | exprs "," expr      { $$ = $1; MORE($$, $3); }
  ;

seq
  : expr                { $$ = FIRST(ExprVec, $1); }
  | seq ";" expr        { $$ = $1; MORE($$, $3); }
  ;

elems_opt
  : %empty              { $$ = NEW(ps->arena, ElemVec); }
  | elems
  ;

elems
  : elem                { $$ = FIRST(ElemVec, $1); }
  | elems "," elem      { $$ = $1; MORE($$, $3); }
  ;

elem
  : expr                { $$ = (Elem){$1, false}; }
  | "..." post          { $$ = (Elem){$2, true}; }
  ;

fields_opt
  : %empty              { $$ = NEW(ps->arena, FieldVec); }
  | fields
  ;

fields
  : field               { $$ = FIRST(FieldVec, $1); }
  | fields "," field    { $$ = $1; MORE($$, $3); }
  ;

field
  : ID                  { $$ = (FieldExpr){$1, @1, expr_id(ps, $1, @1)}; }
  | ID "=" expr         { $$ = (FieldExpr){$1, @1, $3}; }
  ;

binders
  : ids
  | ranges
  ;

binder
  : ID
  | "_"                 { $$ = intern_string(ps->interner, "_"); }
  ;

/* Binders that end in a plain name, and those that end in a range. */
ids
  : binder              { $$ = FIRST(BinderVec, ((Binder){$1, @1, NULL})); }
  | ids binder          { $$ = $1; MORE($$, ((Binder){$2, @2, NULL})); }
  | ids "," binder      { $$ = $1; MORE($$, ((Binder){$3, @3, NULL})); }
  | ranges "," binder   { $$ = $1; MORE($$, ((Binder){$3, @3, NULL})); }
  ;

ranges
  : binder "<" expr     { $$ = FIRST(BinderVec, ((Binder){$1, @1, $3})); }
  | ids binder "<" expr { $$ = $1; MORE($$, ((Binder){$2, @2, $4})); }
  | ids "," binder "<" expr {
      $$ = $1;
      MORE($$, ((Binder){$3, @3, $5}));
    }
  | ranges "," binder "<" expr {
      $$ = $1;
      MORE($$, ((Binder){$3, @3, $5}));
    }
  ;

frules
  : frule               { $$ = FIRST(ClauseVec, $1); }
  | frules "|" frule    { $$ = $1; MORE($$, $3); }
  ;

frule: params "=>" expr { $$ = clause_of($1, $3, @$); };

rules
  : rule                { $$ = FIRST(ClauseVec, $1); }
  | rules "|" rule      { $$ = $1; MORE($$, $3); }
  ;

rule: pat "=>" expr     { $$ = case_rule(ps, $1, $3, @$); };

/* ---- patterns ---- */

pat
  : apat
  | qcon apat           { $$ = pat_con(ps, $1, $2, @$); }
  | apat "::" pat       { $$ = pat_binary(ps, PAT_CONS, $1, $3, @$); }
  | qcon apat "::" pat {
      Pat *head = pat_con(ps, $1, $2, span_join(@1, @2));
      $$ = pat_binary(ps, PAT_CONS, head, $4, @$);
    }
  | ID "as" pat {
      $$ = pat_binary(ps, PAT_AS, $3, NULL, @$);
      $$->id = $1;
      $$->id_span = @1;
    }
  ;

apat
  : ID                  { $$ = pat_var(ps, $1, @$); }
  | "_"                 { $$ = pat_new(ps, PAT_WILD, @$); }
  | NUM                 { $$ = pat_num(ps, $1, false, @$); }
  | FLOAT               { $$ = pat_num(ps, $1, true, @$); }
  | NEGNUM              { $$ = pat_num(ps, $1, false, @$); }
  | NEGFLOAT            { $$ = pat_num(ps, $1, true, @$); }
  | STRING {
      $$ = pat_new(ps, PAT_STRING, @$);
      $$->text = $1.text;
      $$->text_len = $1.len;
      $$->num = $1.raw ? $1.raw : "\"\"";
    }
  | qcon                { $$ = pat_con(ps, $1, NULL, @$); }
  | "(" ")"             { $$ = pat_args(ps, PAT_TUPLE, NULL, @$); }
  | "(" tpat ")"        { $$ = $2; $$->span = @$; }
  | "(" tpat "," tpats ")" {
      PatVec *all = FIRST(PatVec, $2);
      for (uint32_t i = 0; i < $4->len; i++)
        MORE(all, $4->at[i]);
      $$ = pat_args(ps, PAT_TUPLE, all, @$);
    }
  | "{" "}" {
      $$ = pat_record(ps, NEW(ps->arena, PatFields), @$);
    }
  | "{" pat_fields "}"  { $$ = pat_record(ps, $2, @$); }
  | "[" spats_opt "]"   { $$ = pat_args(ps, PAT_SHAPE, $2, @$); }
  | "list" "[" pats_opt "]" { $$ = pat_args(ps, PAT_LIST, $3, @$); }
  | "(" error ")"       { RESUME_AFTER(@$); $$ = pat_new(ps, PAT_WILD, @$); }
  | "{" error "}"       { RESUME_AFTER(@$); $$ = pat_new(ps, PAT_WILD, @$); }
  | "[" error "]"       { RESUME_AFTER(@$); $$ = pat_new(ps, PAT_WILD, @$); }
  ;

qcon
  : CON                 { $$ = (Name){NULL, $1, @$}; }
  | ID "." CON          { $$ = (Name){$1, $3, @$}; }
  ;

/* In parentheses, a pattern may have a type. */
tpat
  : pat
  | pat ":" type        { $$ = pat_ascribe(ps, $1, $3, @$); }
  ;

tpats
  : tpat                { $$ = FIRST(PatVec, $1); }
  | tpats "," tpat      { $$ = $1; MORE($$, $3); }
  ;

pats_opt
  : %empty              { $$ = NULL; }
  | pats
  ;

pats
  : pat                 { $$ = FIRST(PatVec, $1); }
  | pats "," pat        { $$ = $1; MORE($$, $3); }
  ;

spats_opt
  : %empty              { $$ = NULL; }
  | spats
  ;

spats
  : spat                { $$ = FIRST(PatVec, $1); }
  | spats "," spat      { $$ = $1; MORE($$, $3); }
  ;

spat
  : pat
  | "..."               { $$ = pat_new(ps, PAT_SPLICE, @$); }
  | "..." ID {
      $$ = pat_new(ps, PAT_SPLICE, @$);
      $$->id = $2;
      $$->id_span = @2;
    }
  ;

pat_fields
  : pat_field {
      $$ = NEW(ps->arena, PatFields);
      add_pat_field(ps, $$, $1);
    }
  | pat_fields "," pat_field { $$ = $1; add_pat_field(ps, $$, $3); }
  ;

pat_field
  : ID                  { $$ = (PatField){$1, @1, NULL, NULL}; }
  | ID ":" type         { $$ = (PatField){$1, @1, $3, NULL}; }
  | ID "=" pat          { $$ = (PatField){$1, @1, NULL, $3}; }
  | "..."               { $$ = (PatField){0}; }
  ;

%%

static GivenExpr class_fact(Sym *tyvar, Sym *class, Span span) {
  return (GivenExpr){
      .kind = GIVEN_CLASS, .span = span, .tyvar = tyvar, .id = class};
}

static Givens givens_of(const GivenVec *facts) {
  return (Givens){facts->at, facts->len};
}

static Clause clause_of(ParamVec *params, Expr *body, Span span) {
  return (Clause){.span = span,
                  .params = params->at,
                  .param_count = params->len,
                  .body = body};
}

static Param param_of(Sym *label, Pat *pat, Span span) {
  return (Param){.span = span, .label = label, .pat = pat};
}

static Clause case_rule(ParseState *ps, Pat *pat, Expr *body, Span span) {
  Param param = param_of(NULL, pat, pat->span);
  return clause_of(FIRST(ParamVec, param), body, span);
}

static FunDef fun_of(ParseState *ps, const ClauseVec *clauses) {
  FunDef fun = {clauses->at[0].name, clauses->at[0].name_span, clauses->at,
             clauses->len};
  fun_check_names(ps, &fun);
  return fun;
}

static void add_pat_field(ParseState *ps, PatFields *fields, PatField field) {
  if (field.id)
    VEC_PUSH(ps->arena, fields->at, field);
  else
    fields->open = true;
}

static void add_bare_expr(ParseState *ps, Expr *expr) {
  Dec *dec = dec_new(ps, DEC_EXPR, expr->span);
  dec->expr = expr;
  VEC_PUSH(ps->arena, ps->decs, dec_finish(ps, dec));
  if (ps->allow_bare_expr || expr->kind == EX_ERROR ||
      (ps->error_count && ps->error_at >= expr->span.start))
    return;
  const Expr *head = expr->kind == EX_APP ? expr->arg[0] : expr;
  const ForeignWord *word =
      head->kind == EX_ID ? lexer_find_foreign(head->id->text) : NULL;
  if (word && word->error_token == FOREIGN_LINE_START) {
    parse_error_foreign(ps, word, head->span);
    ps->ignore_decs_before = parse_line_end(ps, head->span.end);
    return;
  }
  Diag *diag = parse_error(ps, 116, expr->span,
                           "expected a declaration; found an expression");
  if (diag)
    diag->help = expr->kind == EX_NEG && expr->arg[0]->kind == EX_NEG
                     ? "a comment is `(* ... *)`"
                     : "to run it, write `do` before it; to name its value, "
                       "write `val x =`";
}

/* A declaration with a syntax error: its name has any type. */
static void add_failed_dec(ParseState *ps) {
  DecName failed = ps->failed;
  ps->failed = (DecName){0};
  ps->type_missing |= failed.is_type;
  if (!failed.name)
    return;
  Dec *dec = dec_new(ps, DEC_VAL, failed.span);
  dec->pat = pat_new(ps, PAT_VAR, failed.span);
  dec->pat->id = failed.name;
  dec->expr = expr_new(ps, EX_ERROR, failed.span);
  VEC_PUSH(ps->arena, ps->decs, dec_finish(ps, dec));
}

/* Bison calls this only if its stack is full. */
static void grammar_error(Span *span, ParseState *ps, const char *message) {
  (void)message;
  parse_error_depth(ps, *span);
}

/* The number of a token, or PARSE_NONTERMINAL + n for a nonterminal. */
static int symbol_number(yysymbol_kind_t symbol) {
  if (symbol == YYSYMBOL_YYEOF)
    return 0;
  for (int token = TOK_GRAMMAR_error; token <= YYMAXUTOK; token++)
    if (YYTRANSLATE(token) == symbol)
      return token;
  return PARSE_NONTERMINAL + (int)symbol;
}

const char *parse_symbol_name(int symbol) {
  if (symbol >= PARSE_NONTERMINAL)
    return yysymbol_name((yysymbol_kind_t)(symbol - PARSE_NONTERMINAL));
  return yysymbol_name(YYTRANSLATE(symbol));
}

static int yyreport_syntax_error(const yypcontext_t *context, ParseState *ps) {
  enum { STACK = 64 };
  yysymbol_kind_t expected[YYNTOKENS];
  int numbers[YYNTOKENS], stack[STACK], depth = 0;
  int count = yypcontext_expected_tokens(context, expected, YYNTOKENS);
  for (int i = 0; i < count; i++)
    numbers[i] = symbol_number(expected[i]);
  for (yy_state_t *s = context->yyssp; *s && depth < STACK; s--)
    stack[depth++] = symbol_number(YY_ACCESSING_SYMBOL(*s));
  SyntaxError error = {
      .found = symbol_number(yypcontext_token(context)),
      .span = *yypcontext_location(context),
      .expected = numbers,
      .expected_count = count < 0 ? 0 : count,
      .stack = stack,
      .stack_len = depth,
  };
  parse_syntax_error(ps, &error);
  return 0;
}
