/* parser: converts tokens to a syntax tree, and a tree to formatted text.  Main
 * entry points: parse_program and format_source.
 *
 * Ownership: trees live in the arena given to the parser.  The parser does not
 * change them afterwards.  Every node has the span of its source text. */
#ifndef AXON_PARSER_H
#define AXON_PARSER_H

#include "support/span.h"

#include <stdbool.h>

typedef struct Arena Arena;
typedef struct Buffer Buffer;
typedef struct Diags Diags;
typedef struct Expr Expr;
typedef struct Interner Interner;
typedef struct Sources Sources;
typedef struct Sym Sym;
struct Type; /* owned by typecheck/ */
struct Binding;
struct SchemeInstance;
typedef struct Pat Pat;
typedef struct TypeExpr TypeExpr;
typedef struct DimExpr DimExpr;
typedef struct Dec Dec;

/* module may be NULL.  `nn.linear` in an expression is an EX_FIELD, since only
   name resolution distinguishes a module from a record.  In types and patterns
   it is a Name. */
typedef struct Name {
  Sym *module, *id;
  Span span;
} Name;

/* Maximum depth of a tree (error E0111), so that functions on trees may
   recurse. */
enum { PARSE_MAX_DEPTH = 2000 };

/* ---- sizes and axes, inside types and facts ---- */

typedef enum DimExprKind {
  DX_NUM,         /* num */
  DX_ID,          /* id */
  DX_EXISTENTIAL, /* ? or ?id: id may be NULL */
  DX_HOLE,        /* _ */
  DX_NEG,         /* arg[0] */
  DX_BIN,         /* op, arg[0], arg[1] */
  DX_CALL,        /* id, axes: min(a, b), max(a, b), prod(s), join(s, t) */
  DX_SHAPE,       /* axes: [n, ...s], in a given or a join about shapes */
} DimExprKind;

typedef struct AxisExpr AxisExpr;
typedef struct Axes {
  AxisExpr *at;
  uint32_t len;
} Axes;

struct DimExpr {
  DimExprKind kind;
  Span span;
  char op;         /* DX_BIN: + - * / % */
  Sym *id;         /* DX_ID, DX_EXISTENTIAL, DX_CALL */
  const char *num; /* DX_NUM: decimal or hex digits, any length */
  DimExpr *arg[2]; /* DX_NEG, DX_BIN */
  Axes axes;       /* DX_CALL, DX_SHAPE */
  bool is_error;   /* DX_HOLE: stands for a size with a syntax error */
  uint32_t depth;  /* depth of the tree, for the depth limit; in all nodes */
};

typedef enum AxisKind {
  AXIS_DIM,    /* dim */
  AXIS_STAR,   /* * */
  AXIS_SPLICE, /* ...id, or ...id(args), or plain ... (id NULL) */
} AxisKind;

struct AxisExpr {
  AxisKind kind;
  Span span;
  DimExpr *dim;
  Sym *id;
  bool is_call; /* ...id(args), as in ...join(s, t) */
  Axes args;
};

typedef enum RelOp { REL_EQ, REL_NE, REL_LT, REL_LE, REL_GT, REL_GE } RelOp;

typedef enum GivenKind {
  GIVEN_REL,   /* left relop right */
  GIVEN_CLASS, /* tyvar : id */
  GIVEN_DIM,   /* left only: given join(s, t) */
} GivenKind;

typedef struct GivenExpr {
  GivenKind kind;
  Span span;
  RelOp op;
  DimExpr *left, *right;
  Sym *tyvar, *id;
  struct GivenExpr *condition; /* condition of `... if cond`, which may have its
                                  own; or NULL */
} GivenExpr;

typedef struct Givens {
  GivenExpr *at;
  uint32_t len;
} Givens;

/* ---- types ---- */

typedef enum TypeExprKind {
  TX_VAR,    /* id ('a, with its quote); has_axes: 'a[axes] */
  TX_NAME,   /* name, args (postfix application), has_axes: name[axes] */
  TX_CALL,   /* name(axes): dim(n), shape(s), axis(s, r, t), keep(u) */
  TX_FUN,    /* label, optional, arg[0] -> arg[1], effect */
  TX_TUPLE,  /* args; never of length 0 or 1 */
  TX_RECORD, /* fields, open */
  TX_LIFT,   /* lift(dim, arg[0]) */
  TX_HOLE,   /* _ */
} TypeExprKind;

typedef struct TypeField {
  Sym *id;
  Span span;
  TypeExpr *type;
} TypeField;

struct TypeExpr {
  TypeExprKind kind;
  Span span;
  Sym *id;         /* TX_VAR */
  Name name;       /* TX_NAME (also list, unit, string), TX_CALL */
  bool has_axes;   /* TX_VAR, TX_NAME: brackets were written */
  Axes axes;       /* TX_VAR, TX_NAME, TX_CALL */
  TypeExpr **args; /* TX_NAME, TX_TUPLE */
  uint32_t arg_count;
  Sym *label;        /* TX_FUN: ~label: or ?label: in front; or NULL */
  bool is_optional;  /* TX_FUN: the label was ?label: */
  bool has_effect;   /* TX_FUN: ->! (has an effect) */
  TypeExpr *arg[2];  /* TX_FUN: parameter, result; TX_LIFT: arg[0] */
  DimExpr *dim;      /* TX_LIFT */
  TypeField *fields; /* TX_RECORD */
  uint32_t field_count;
  bool is_open;  /* TX_RECORD: ends in ... */
  bool is_error; /* TX_HOLE: stands for a type with a syntax error */
  uint32_t depth;
};

/* ---- patterns ---- */

typedef enum PatKind {
  PAT_WILD,
  PAT_VAR,     /* id */
  PAT_NUM,     /* num, is_float; a minus sign belongs to num */
  PAT_STRING,  /* text, text_len */
  PAT_CON,     /* name, args[0] unless arg_count == 0 (true, false too) */
  PAT_TUPLE,   /* args; () has none */
  PAT_RECORD,  /* fields, open */
  PAT_SHAPE,   /* [b, h, ...s]: args; a PAT_SPLICE among them */
  PAT_SPLICE,  /* ...id; id may be NULL; only inside PAT_SHAPE */
  PAT_LIST,    /* list [a, b]: args */
  PAT_CONS,    /* args[0] :: args[1] */
  PAT_AS,      /* id as args[0] */
  PAT_ASCRIBE, /* args[0] : type */
} PatKind;

typedef struct PatField {
  Sym *id;
  Span span;
  TypeExpr *type; /* {w : type}; or NULL */
  Pat *pat;       /* {w = pat}; NULL for a variable with the field's name */
} PatField;

struct Pat {
  PatKind kind;
  Span span;
  Sym *id;
  Span id_span;
  Name name;
  const char *num; /* PAT_NUM; PAT_STRING: the literal as written */
  bool is_float;
  const char *text; /* unescaped; may contain NUL */
  uint32_t text_len;
  Pat **args;
  uint32_t arg_count;
  PatField *fields;
  uint32_t field_count;
  bool is_open;
  TypeExpr *type;
  Expr *value; /* PAT_VAR: bound expression, set by the checker; or NULL */
  uint32_t depth;
};

/* A parameter of fun or fn: pat, ~label:pat, ~label, ~label:(pat : t = e). */
typedef struct Param {
  Span span;
  Sym *label;          /* or NULL */
  Pat *pat;            /* for shorthand ~x, a PAT_VAR with the label's name */
  TypeExpr *type;      /* type of a parameter with a default, or NULL */
  Expr *default_value; /* the default; or NULL */
} Param;

/* ---- expressions ---- */

typedef enum ExprKind {
  EX_ID,            /* id */
  EX_CON,           /* id: a constructor, true, false */
  EX_NUM,           /* num, is_float */
  EX_STRING,        /* text, text_len */
  EX_HOLE,          /* _ */
  EX_TUPLE,         /* items; () has none */
  EX_SEQ,           /* (a; b; c): items */
  EX_ASCRIBE,       /* arg[0] : type */
  EX_OP,            /* (op +): op */
  EX_BRACKET,       /* [a, ...s, b]: items, splices[i] true for ...item */
  EX_LIST,          /* list [a, b]: items */
  EX_RECORD,        /* fields */
  EX_RECORD_UPDATE, /* {arg[0] with fields} */
  EX_LET,           /* decs, items (a sequence) */
  EX_FN,            /* clauses; the checker compares their parameter counts */
  EX_CASE,          /* arg[0], clauses (one param each) */
  EX_IF,            /* arg[0], arg[1], arg[2] */
  EX_FOR,           /* binders, arg[0] */
  EX_BIN,           /* op, arg[0], arg[1] */
  EX_NEG,           /* arg[0] */
  EX_APP,           /* arg[0] applied to args */
  EX_FIELD,         /* arg[0].id: field of a record, or name in a module */
  EX_INDEX,         /* arg[0].[slices] */
  EX_ERROR,         /* placeholder after recovery from a syntax error */
} ExprKind;

typedef enum BinOp {
  BIN_NONE,
  BIN_PIPE,
  BIN_COMPOSE,
  BIN_OR,
  BIN_AND,
  BIN_EQ,
  BIN_NE,
  BIN_LT,
  BIN_LE,
  BIN_GT,
  BIN_GE,
  BIN_CONS,
  BIN_APPEND, /* :: ^ */
  BIN_ADD,
  BIN_SUB,
  BIN_MUL,
  BIN_DIV,
  BIN_MOD,
  BIN_MATMUL,
  BIN_COUNT
} BinOp;
extern const char *const binop_text[BIN_COUNT];

typedef struct Arg {
  Span span;
  Sym *label; /* or NULL */
  Span label_span;
  Expr *expr; /* for shorthand ~x, an EX_ID with the label's name */
} Arg;

typedef struct FieldExpr {
  Sym *id;
  Span span;  /* of the name */
  Expr *expr; /* for shorthand {w}, an EX_ID with the field's name */
} FieldExpr;

typedef struct Binder {
  Sym *id;
  Span span;
  Expr *range; /* i < range; NULL if inferred */
} Binder;

typedef enum SliceKind {
  SLICE_INDEX,    /* expr */
  SLICE_RANGE,    /* [from] : [to] [: step]; each may be NULL */
  SLICE_ELLIPSIS, /* ... */
  SLICE_NEWAXIS,  /* new: an axis of size 1 */
  SLICE_STAR,     /* *: an axis that broadcasts */
} SliceKind;

typedef struct Slice {
  SliceKind kind;
  Span span;
  Expr *from, *to, *step; /* SLICE_INDEX: from */
} Slice;

typedef struct Clause {
  Span span;
  Sym *name; /* fun only */
  Span name_span;
  Param *params;
  uint32_t param_count;
  TypeExpr *result; /* fun only: the result's annotation; or NULL */
  Givens given;     /* fun only */
  Expr *body;
} Clause;

struct Expr {
  ExprKind kind;
  Span span;
  Span op_span;    /* operator of EX_BIN, EX_NEG, EX_OP; id of EX_FIELD */
  Sym *id;         /* EX_ID, EX_CON, EX_FIELD */
  const char *num; /* EX_NUM: with its minus sign, NUL-terminated; EX_STRING:
                      the literal as written */
  bool is_float;
  const char *text; /* EX_STRING: unescaped, may contain NUL */
  uint32_t text_len;
  BinOp op;
  Expr *arg[3];
  Expr **items;
  uint32_t item_count;
  bool *splices; /* EX_BRACKET */
  Arg *args;     /* EX_APP */
  uint32_t arg_count;
  FieldExpr *fields;
  uint32_t field_count;
  Clause *clauses;
  uint32_t clause_count;
  Binder *binders;
  uint32_t binder_count;
  Slice *slices;
  uint32_t slice_count;
  Dec **decs; /* EX_LET */
  uint32_t dec_count;
  TypeExpr *type; /* EX_ASCRIBE */
  /* Set by the checker for messages and editors; may be NULL. */
  struct Type *inferred_type;
  struct Binding *binding; /* EX_ID, EX_FIELD: binding of the name */
  /* EX_ID, EX_FIELD: instantiation of its scheme */
  struct SchemeInstance *instance;
  bool is_guess; /* its type, or that of its operands, is a guess */
  const struct Diag *guess_error; /* of a guess that was reversed */
  Expr *desugared;    /* EX_BIN of a pipe: the equivalent application */
  bool parenthesized; /* written in parentheses, which the span includes */
  uint32_t depth;
};

/* ---- declarations ---- */

typedef enum DecKind {
  DEC_VAL,      /* pat, type, given, expr */
  DEC_FUN,      /* funs */
  DEC_TYPE,     /* tyvars, name, axes parameters, type */
  DEC_DATATYPE, /* tyvars, name, axes parameters, cons */
  DEC_IMPORT,   /* path (quoted) or id; as */
  DEC_OPEN,     /* id */
  DEC_DO,       /* expr */
  DEC_SCHEDULE, /* name, text */
  DEC_KERNEL,   /* the same */
  DEC_EXPR,     /* a bare expression expr; only in the REPL and with -e */
} DecKind;

typedef struct FunDef { /* clauses of one function */
  Sym *name;
  Span name_span;
  Clause *clauses;
  uint32_t clause_count;
} FunDef;

typedef struct ConDef {
  Sym *name;
  Span span;
  TypeExpr *type; /* or NULL */
} ConDef;

struct Dec {
  DecKind kind;
  Span span;
  const char *doc; /* text of the preceding (** ... *), trimmed; or NULL */
  Span doc_span;
  Pat *pat;
  TypeExpr *type;
  Givens given;
  Expr *expr;
  FunDef *funs;
  uint32_t fun_count;
  Sym *name;
  Span name_span;
  Sym **tyvars;
  uint32_t tyvar_count;
  bool has_axes; /* DEC_TYPE, DEC_DATATYPE: [o, c] after the name */
  Axes axes;
  ConDef *cons;
  uint32_t con_count;
  const char *path; /* DEC_IMPORT "path"; or NULL */
  Sym *id;          /* DEC_IMPORT id, DEC_OPEN id */
  Sym *as;          /* DEC_IMPORT; or NULL */
  const char *text; /* DEC_SCHEDULE: the text after =; DEC_KERNEL: after : */
  Span text_span;
  uint32_t depth;
};

typedef struct Program {
  Dec **decs;
  uint32_t dec_count;
  bool incomplete;   /* the text is incomplete: the REPL reads another line */
  bool type_missing; /* a syntax error removed the declaration of a type */
} Program;

/* Error codes.  Lexer: 101 unclosed comment, 102 invalid character or operator
   of another language, 103 unclosed string, 104 invalid escape, 105 name that
   begins with a digit, 106 float without digits on both sides, 107 bytes that
   are not text, 108 file too large.  Parser: 110 unexpected token, 111 nesting
   too deep, 112 unclosed bracket or let, 113 closed by another bracket, 114
   closer without opener, 115 chained comparison, 116 expression instead of a
   declaration, 118 clauses with different names, 119 too many errors.
   Formatter: 120, an internal error. */

/* Parses the text of source `file`.  Reports errors to diags.  The returned
   tree contains what could be recovered.  `allow_bare_expr` allows DEC_EXPR. */
Program parse_program(Sources *sources, uint32_t file, bool allow_bare_expr,
                      Interner *interner, Arena *arena, Diags *diags);
/* Parses the bytes [start, end) of a file as declarations. */
Program parse_range(Sources *sources, uint32_t file, uint32_t start,
                    uint32_t end, Interner *interner, Arena *arena,
                    Diags *diags);
/* Parses a type from byte `start` on, with optional `given` constraints: the
   notation of primitives.def, which the checker also prints. */
TypeExpr *parse_type(Sources *sources, uint32_t file, uint32_t start,
                     Givens *given, Interner *interner, Arena *arena,
                     Diags *diags);

/* ---- close_partial_text.c ---- */

/* Appends text that closes everything that a text leaves open: " in 0 end",
   ")". */
void parse_close_partial(Sources *sources, uint32_t file, Interner *interner,
                         Arena *arena, Buffer *out);

/* ---- ast_dump.c ---- */

/* Appends the tree as an s-expression, without spans, for tests. */
void ast_dump(Buffer *out, const Program *program);
void ast_dump_type(Buffer *out, const TypeExpr *type, const Givens *given);

/* ---- ast_visit.c ---- */

/* Calls f for each direct subexpression of an expression or a declaration. */
void expr_visit_children(const Expr *e, void (*f)(void *, Expr *), void *arg);
void dec_visit_exprs(const Dec *dec, void (*f)(void *, Expr *), void *arg);

/* ---- format.c ---- */

/* Formats a source file: keeps the tree and the comments, and is idempotent.
   Returns false after diagnostics if the source does not parse. */
bool format_source(Sources *sources, uint32_t file, Interner *interner,
                   Arena *arena, Diags *diags, Buffer *out);

#endif
