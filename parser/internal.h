/* Parser, internal: the state that the grammar's actions share, and
   constructors of tree nodes.  Everything lives in the arena of the parse. */
#ifndef AXON_PARSER_INTERNAL_H
#define AXON_PARSER_INTERNAL_H

#include "lexer/lexer.h"
#include "parser/parser.h"
#include "support/compiler.h"
#include "support/span.h"
#include "support/vec.h"

typedef struct Arena Arena;
typedef struct Diag Diag;
typedef struct Diags Diags;
typedef struct Interner Interner;
typedef struct Sources Sources;
typedef struct Sym Sym;

/* Maximum number of symbols on Bison's stack, and of errors before the parser
   gives up. */
enum { PARSE_MAX_STACK = 20000, PARSE_MAX_ERRORS = 20 };

/* Nonterminals of the grammar are numbered from here. */
enum { PARSE_NONTERMINAL = 1000 };

typedef struct Elem { /* element of a bracket */
  Expr *expr;
  bool splice;
} Elem;

typedef struct AxisParams { /* parameters of a type declaration */
  bool has_axes;
  Axes axes;
} AxisParams;

typedef VEC(Sym *) SymVec;
typedef VEC(Expr *) ExprVec;
typedef VEC(Elem) ElemVec;
typedef VEC(Arg) ArgVec;
typedef VEC(FieldExpr) FieldVec;
typedef VEC(Binder) BinderVec;
typedef VEC(Slice) SliceVec;
typedef VEC(Clause) ClauseVec;
typedef VEC(Param) ParamVec;
typedef VEC(Pat *) PatVec;
typedef VEC(PatField) PatFieldVec;
typedef VEC(TypeExpr *) TypeVec;
typedef VEC(TypeField) TypeFieldVec;
typedef VEC(AxisExpr) AxisVec;
typedef VEC(GivenExpr) GivenVec;
typedef VEC(ConDef) ConVec;
typedef VEC(FunDef) FunVec;
typedef VEC(Dec *) DecVec;

typedef struct PatFields {
  PatFieldVec at;
  bool open;
} PatFields;

typedef struct TokenStream
    TokenStream; /* balanced stream of tokens (bracket_recovery.c) */

/* The name that `val` or `fun` declares. */
typedef struct DecName {
  Sym *name; /* or NULL */
  Span span;
  bool is_type; /* `type` or `datatype` instead; without a name */
} DecName;

typedef struct ParseState {
  Arena *arena;
  Interner *interner;
  Diags *diags;
  const Sources *sources;
  uint32_t file;
  Lexer lexer;
  TokenStream *tokens;
  int start_token;      /* selects the start symbol; returned first */
  bool allow_bare_expr; /* DEC_EXPR is allowed at top level */

  /* Errors. */
  bool panic;          /* skipping until parsing can resume */
  bool reported_depth; /* the depth limit was reported */
  uint32_t error_count, incomplete_errors; /* as in the lexer */
  uint32_t error_at;                       /* offset of the last error */
  bool after_local_val; /* since the last word that begins a declaration */
  uint32_t after_non_dec_start; /* after the start of a word that begins no
                                   declaration */
  uint32_t ignore_decs_before;  /* ignores declarations before this offset */
  uint32_t recovered_end; /* end of the last group skipped after an error */
  DecName failed; /* the declaration with the last error; no name: none */

  /* Results. */
  DecVec decs;
  bool type_missing; /* see Program */
  TypeExpr *type;
  Givens given;
} ParseState;

/* ---- parser.c ---- */

void parse_begin(ParseState *ps, Sources *sources, uint32_t file,
                 Interner *interner, Arena *arena, Diags *diags);
/* Parses [start, end) into ps->decs or ps->type. */
void parse_run(ParseState *ps, uint32_t start, uint32_t end, int start_token);
bool parse_failed(const ParseState *ps);
bool parse_incomplete(const ParseState *ps);

/* ---- bracket_recovery.c ---- */

void tokens_init(ParseState *ps);
/* Call after the parser has reported an error at the last token. */
void tokens_enter_panic_mode(ParseState *ps);
/* True if the last token is an inserted closer. */
bool tokens_last_is_inserted(const ParseState *ps);
/* Span of the second last token. */
Span tokens_previous_span(const ParseState *ps);
/* The word of another language in this declaration that probably caused an
   error at a token of this kind, or NULL. */
const ForeignWord *tokens_blamed_foreign(const ParseState *ps, int seen,
                                         Span *span);
/* In the declarations of the innermost `let`, or of the one that the last token
   closed before its `in`: the first token of a line that is indented no more
   than the `val` or `fun` before it, and continues that declaration.  Probably
   a word is missing before it.  No file: there is none. */
Span tokens_outdented(const ParseState *ps);
/* What the last `val`, `fun`, `type` or `datatype` outside brackets declares,
   since a `;`. */
DecName tokens_declared(const ParseState *ps);
/* The first `and` of this group of functions that does not begin a line. */
Span tokens_inner_and(const ParseState *ps);
/* The last `let` has a syntax error at its start: suppresses errors in its
   rest. */
void tokens_let_failed(ParseState *ps);

/* ---- syntax_errors.c ---- */

/* Counts an error.  Returns NULL if there are too many. */
Diag *parse_error(ParseState *ps, uint16_t code, Span span, const char *format,
                  ...) PRINTF_LIKE(4, 5);
void parse_error_foreign(ParseState *ps, const ForeignWord *word, Span span);
uint32_t parse_line_end(const ParseState *ps, uint32_t offset);
void parse_error_depth(ParseState *ps, Span span);

typedef struct SyntaxError {
  int found; /* number of a token or nonterminal, as below */
  Span span;
  const int *expected;
  int expected_count;
  const int *stack; /* symbols read so far, innermost first */
  int stack_len;
} SyntaxError;

void parse_syntax_error(ParseState *ps, const SyntaxError *error);
const char *parse_symbol_name(int symbol); /* parse.y */

/* ---- ast_build.c: nodes, and the limit on their depth ---- */

Expr *expr_new(ParseState *ps, ExprKind kind, Span span);
Expr *expr_id(ParseState *ps, Sym *id, Span span);
Expr *expr_con(ParseState *ps, Sym *id, Span span);
Expr *expr_num(ParseState *ps, const char *num, bool is_float, Span span);
Expr *expr_string(ParseState *ps, StringLiteral text, Span span);
Expr *expr_unary(ParseState *ps, ExprKind kind, Expr *arg, Span span);
Expr *expr_binary(ParseState *ps, BinOp op, Expr *left, Expr *right,
                  Span op_span, Span span);
Expr *expr_parens(Expr *expr, Span span);
Expr *expr_items(ParseState *ps, ExprKind kind, ExprVec *items, Span span);
Expr *expr_bracket(ParseState *ps, ElemVec *elems, Span span);
Expr *expr_record(ParseState *ps, Expr *base, FieldVec *fields, Span span);
Expr *expr_let(ParseState *ps, DecVec *decs, ExprVec *items, Span span);
Expr *expr_clauses(ParseState *ps, ExprKind kind, Expr *arg, ClauseVec *clauses,
                   Span span);
Expr *expr_if(ParseState *ps, Expr *test, Expr *yes, Expr *no, Span span);
Expr *expr_for(ParseState *ps, BinderVec *binders, Expr *body, Span span);
Expr *expr_app(ParseState *ps, Expr *fn, ArgVec *args, Span span);
Expr *expr_field(ParseState *ps, Expr *arg, Sym *id, Span id_span, Span span);
/* False for `val` and `fun` where an expression was expected, and for `val` in
 * the same body after it. */
bool parse_begins_dec(ParseState *ps, Span word);
/* from:to:step; each may be NULL. */
Slice slice_range(Expr *from, Expr *to, Expr *step, Span span);
/* An index; from::step is a slice. */
Slice slice_of_expr(Expr *e, Span span);
Expr *expr_index(ParseState *ps, Expr *arg, SliceVec *slices, Span span);
Expr *expr_ascribe(ParseState *ps, Expr *arg, TypeExpr *type, Span span);

Pat *pat_new(ParseState *ps, PatKind kind, Span span);
Pat *pat_var(ParseState *ps, Sym *id, Span span);
Pat *pat_num(ParseState *ps, const char *num, bool is_float, Span span);
Pat *pat_con(ParseState *ps, Name name, Pat *arg, Span span);
Pat *pat_args(ParseState *ps, PatKind kind, PatVec *args, Span span);
Pat *pat_binary(ParseState *ps, PatKind kind, Pat *a, Pat *b, Span span);
Pat *pat_record(ParseState *ps, PatFields *fields, Span span);
Pat *pat_ascribe(ParseState *ps, Pat *pat, TypeExpr *type, Span span);

TypeExpr *type_new(ParseState *ps, TypeExprKind kind, Span span);
/* A hole in place of a type with a syntax error, which was reported. */
TypeExpr *type_error(ParseState *ps, Span span);
TypeExpr *type_name(ParseState *ps, Name name, Span span);
TypeExpr *type_apply(ParseState *ps, TypeVec *args, TypeExpr *name, Span span);
TypeExpr *type_axes(ParseState *ps, TypeExpr *type, AxisVec *axes, Span span);
TypeExpr *type_call(ParseState *ps, Name name, AxisVec *axes, Span span);
TypeExpr *type_fun(ParseState *ps, TypeExpr *from, TypeExpr *to, bool effect,
                   Span span);
TypeExpr *type_tuple(ParseState *ps, TypeVec *args, Span span);
TypeExpr *type_record(ParseState *ps, TypeFieldVec *fields, bool open,
                      Span span);
TypeExpr *type_lift(ParseState *ps, DimExpr *dim, TypeExpr *type, Span span);

DimExpr *dim_new(ParseState *ps, DimExprKind kind, Span span);
DimExpr *dim_id(ParseState *ps, DimExprKind kind, Sym *id, Span span);
DimExpr *dim_num(ParseState *ps, const char *num, Span span);
DimExpr *dimexpr_neg(ParseState *ps, DimExpr *arg, Span span);
DimExpr *dim_binary(ParseState *ps, char op, DimExpr *left, DimExpr *right,
                    Span span);
/* `axes` is NULL after a syntax error: then the size or type is a hole, longer
   than _, which stands for any. */
Axes axes_of(const AxisVec *axes);
DimExpr *dim_call(ParseState *ps, Sym *id, AxisVec *axes, Span span);
DimExpr *dim_shape(ParseState *ps, AxisVec *axes, Span span);
AxisExpr axis_dim(DimExpr *dim);

Dec *dec_new(ParseState *ps, DecKind kind, Span span);
/* text: the declaration. */
Dec *dec_schedule(ParseState *ps, StringLiteral text, Span span);
Dec *dec_type(ParseState *ps, DecKind kind, SymVec *tyvars, Sym *name,
              Span name_span, AxisParams bits, Span span);
/* Checks that all clauses have the same name. */
void fun_check_names(ParseState *ps, const FunDef *fun);
/* Sets the depth from the parts, and attaches the doc comment. */
Dec *dec_finish(ParseState *ps, Dec *dec);

#endif
