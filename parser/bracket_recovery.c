/* Balances the brackets in the stream of tokens (error recovery).  Main entry
 * point: grammar_lex.
 *
 * `(`, `[`, `{` and `let ... in ... end` are matched before the grammar sees
 * them.  If a closer is missing, the error points at the opener and a closer is
 * inserted.  A superfluous closer is reported and deleted.  So the grammar
 * always gets balanced text, and can skip complete groups after an error. */
#include <string.h>

#include "parser/internal.h"
#include "parser/parse.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/diag.h"
#include "support/intern.h"

typedef struct Opener {
  int token;     /* TOK_LPAREN ... */
  bool seen_in;  /* TOK_LET: its `in` was read */
  bool indented; /* TOK_LET: its line is indented */
  bool failed;   /* TOK_LET: its first declaration is not one */
  bool is_block; /* TOK_LBRACE: a declaration follows it */
  Span span;
  Span dec_word;  /* TOK_LET: the `val` or `fun` of its last declaration */
  Span outdented; /* TOK_LET: see tokens_outdented */
} Opener;

typedef enum OpenerKind { /* kinds of counted openers */
                          OPEN_PAREN,
                          OPEN_BRACKET,
                          OPEN_BRACE,
                          OPEN_LET,    /* before `in` */
                          OPEN_LET_IN, /* after it */
                          OPEN_COUNT
} OpenerKind;

typedef struct Token {
  int kind;
  GRAMMAR_STYPE value;
  Span span;
} Token;

struct TokenStream {
  VEC(Opener) openers;
  uint32_t count[OPEN_COUNT];
  Token lookahead; /* read, but not yet returned */
  bool has_lookahead;
  /* an unclosed bracket was reported at the lookahead */
  bool reported_unclosed;
  bool started;
  bool last_is_inserted; /* the last returned token is an inserted closer */
  bool skip_group; /* the parser failed at an opener: skip to its closer */
  int last_kind;
  Span last_span, previous_span;
  const ForeignWord *foreign; /* first foreign word of this declaration */
  Span foreign_span;
  int foreign_context;   /* FOREIGN_LINE_START, FOREIGN_AFTER_BINDER, or 0 */
  Span closed_outdented; /* of the `let` that the last token closed */
  Span inner_and;        /* see tokens_inner_and */
  DecName declared;      /* see tokens_declared */
};

void tokens_init(ParseState *ps) {
  ps->tokens = NEW(ps->arena, TokenStream);
}

bool tokens_last_is_inserted(const ParseState *ps) {
  return ps->tokens->last_is_inserted;
}

Span tokens_previous_span(const ParseState *ps) {
  return ps->tokens->previous_span;
}

const ForeignWord *tokens_blamed_foreign(const ParseState *ps, int seen,
                                         Span *span) {
  const TokenStream *t = ps->tokens;
  const ForeignWord *f = t->foreign;
  *span = t->foreign_span;
  return f && (f->error_token == t->foreign_context || f->error_token == seen)
             ? f
             : NULL;
}

Span tokens_outdented(const ParseState *ps) {
  const TokenStream *t = ps->tokens;
  if (t->last_kind == TOK_END)
    return t->closed_outdented;
  return t->openers.len ? t->openers.at[t->openers.len - 1].outdented
                        : (Span){0};
}

DecName tokens_declared(const ParseState *ps) {
  return ps->tokens->declared;
}

Span tokens_inner_and(const ParseState *ps) {
  return ps->tokens->inner_and;
}

void tokens_let_failed(ParseState *ps) {
  Opener *top = ps->tokens->openers.len
                    ? &ps->tokens->openers.at[ps->tokens->openers.len - 1]
                    : NULL;
  if (top && top->token == TOK_LET)
    top->failed = true;
}

static OpenerKind opener_kind(const Opener *opener) {
  switch (opener->token) {
  case TOK_LPAREN:
    return OPEN_PAREN;
  case TOK_LBRACE:
    return OPEN_BRACE;
  case TOK_LET:
    return opener->seen_in ? OPEN_LET_IN : OPEN_LET;
  default:
    return OPEN_BRACKET;
  }
}

static int closer_of(OpenerKind kind) {
  static const int closers[OPEN_COUNT] = {
      [OPEN_PAREN] = TOK_RPAREN, [OPEN_BRACKET] = TOK_RBRACKET,
      [OPEN_BRACE] = TOK_RBRACE, [OPEN_LET] = TOK_END,
      [OPEN_LET_IN] = TOK_END,
  };
  return closers[kind];
}

static Opener *top_opener(TokenStream *t) {
  return t->openers.len ? &t->openers.at[t->openers.len - 1] : NULL;
}

static bool is_opener(int token) {
  return token == TOK_LPAREN || token == TOK_LBRACKET ||
         token == TOK_DOTBRACKET || token == TOK_LBRACE || token == TOK_LET;
}

static bool is_closer(int token) {
  return token == TOK_RPAREN || token == TOK_RBRACKET || token == TOK_RBRACE ||
         token == TOK_END;
}

static bool begins_dec(int token) {
  return token == TOK_VAL || token == TOK_FUN || token == TOK_TYPE ||
         token == TOK_DATATYPE || token == TOK_IMPORT || token == TOK_OPEN ||
         token == TOK_DO || token == TOK_SCHEDULE;
}

static uint32_t line_start(const ParseState *ps, uint32_t offset) {
  while (offset > ps->lexer.begin && ps->lexer.text[offset - 1] != '\n')
    offset--;
  return offset;
}

static bool at_line_start(const ParseState *ps, Span span) {
  return span.start == ps->lexer.begin ||
         ps->lexer.text[span.start - 1] == '\n';
}

static bool on_indented_line(const ParseState *ps, Span span) {
  char first = ps->lexer.text[line_start(ps, span.start)];
  return first == ' ' || first == '\t';
}

/* ---- the stack of what is open ---- */

static void push_opener(ParseState *ps, const Token *token) {
  TokenStream *t = ps->tokens;
  Opener opener = {.token = token->kind, .span = token->span};
  if (token->kind == TOK_LET)
    opener.indented = on_indented_line(ps, token->span);
  VEC_PUSH(ps->arena, t->openers, opener);
  t->count[opener_kind(&opener)]++;
}

static void pop_opener(TokenStream *t) {
  const Opener *top = top_opener(t);
  t->closed_outdented =
      opener_kind(top) == OPEN_LET ? top->outdented : (Span){0};
  t->count[opener_kind(top_opener(t))]--;
  t->openers.len--;
}

static void update_openers(ParseState *ps, const Token *token) {
  TokenStream *t = ps->tokens;
  Opener *top = top_opener(t);
  if (is_opener(token->kind)) {
    push_opener(ps, token);
  } else if (is_closer(token->kind)) {
    if (top && closer_of(opener_kind(top)) == token->kind)
      pop_opener(t);
  } else if (token->kind == TOK_IN && top && opener_kind(top) == OPEN_LET) {
    t->count[OPEN_LET]--;
    top->seen_in = true;
    t->count[OPEN_LET_IN]++;
  }
}

/* ---- errors ---- */

static const char *opener_text(const Opener *opener) {
  switch (opener->token) {
  case TOK_LPAREN:
    return "(";
  case TOK_LBRACKET:
    return "[";
  case TOK_DOTBRACKET:
    return ".[";
  case TOK_LBRACE:
    return "{";
  default:
    return "let";
  }
}

static void report_unclosed(ParseState *ps, const Opener *opener,
                            const Token *at) {
  TokenStream *t = ps->tokens;
  if (t->reported_unclosed || ps->panic || opener->failed)
    return;
  t->reported_unclosed = true;
  const char *open = opener_text(opener);
  const char *close = parse_symbol_name(closer_of(opener_kind(opener)));
  Diag *diag =
      parse_error(ps, 112, opener->span, "this `%s` is not closed", open);
  if (at->kind == 0)
    ps->incomplete_errors++;
  if (!diag)
    return;
  if (opener_kind(opener) == OPEN_LET)
    close = "in ... end";
  diag->primary_label =
      arena_printf(ps->arena, "opened here, missing `%s`", close);
  if (at->kind != 0)
    diag_add_label(ps->arena, diag, at->span,
                   arena_printf(ps->arena, "`%s` expected before this", close));
}

static void report_mismatch(ParseState *ps, const Opener *opener,
                            const Token *at) {
  if (ps->panic)
    return;
  const char *close = parse_symbol_name(closer_of(opener_kind(opener)));
  Diag *diag = parse_error(ps, 113, at->span, "`%s` is closed by `%s`",
                           opener_text(opener), parse_symbol_name(at->kind));
  if (!diag)
    return;
  diag->primary_label = arena_printf(ps->arena, "`%s` expected", close);
  diag_add_label(ps->arena, diag, opener->span, "opened here");
}

static void report_unmatched_closer(ParseState *ps, const Token *at) {
  if (ps->panic)
    return;
  const char *open = at->kind == TOK_RPAREN     ? "("
                     : at->kind == TOK_RBRACKET ? "["
                     : at->kind == TOK_RBRACE   ? "{"
                                                : "let";
  Span word_span;
  const ForeignWord *word = tokens_blamed_foreign(ps, at->kind, &word_span);
  if (word) {
    parse_error_foreign(ps, word, word_span);
    return;
  }
  Diag *diag = parse_error(ps, 114, at->span, "`%s` without `%s`",
                           parse_symbol_name(at->kind), open);
  if (diag && (at->kind == TOK_END))
    diag->help = "the form is `let val x = e in e end`; it opens with `let`";
  if (diag && at->kind == TOK_RPAREN && at->span.start > ps->lexer.begin &&
      ps->lexer.text[at->span.start - 1] == '*')
    diag->help = "`*)` closes a comment, and none is open";
}

/* ---- balancing ---- */

typedef enum RecoveryAction {
  TOKEN_ACCEPT,
  TOKEN_DELETE,
  TOKEN_INSERT
} RecoveryAction;

static RecoveryAction insert_closer(ParseState *ps) {
  TokenStream *t = ps->tokens;
  report_unclosed(ps, top_opener(t), &t->lookahead);
  return TOKEN_INSERT;
}

static RecoveryAction check_closer(ParseState *ps) {
  TokenStream *t = ps->tokens;
  int kind = t->lookahead.kind;
  Opener *top = top_opener(t);
  if (top && closer_of(opener_kind(top)) == kind)
    return TOKEN_ACCEPT;
  for (OpenerKind k = 0; k < OPEN_COUNT; k++)
    if (closer_of(k) == kind && t->count[k])
      return insert_closer(ps);
  if (top && top->token != TOK_LET && kind != TOK_END) {
    report_mismatch(ps, top, &t->lookahead);
    t->lookahead.kind = closer_of(opener_kind(top));
    return TOKEN_ACCEPT;
  }
  if (begins_dec(t->last_kind)) /* used as a name: the grammar reports that */
    return TOKEN_ACCEPT;
  report_unmatched_closer(ps, &t->lookahead);
  return TOKEN_DELETE;
}

static RecoveryAction check_in(ParseState *ps) {
  TokenStream *t = ps->tokens;
  Opener *top = top_opener(t);
  if (top && opener_kind(top) == OPEN_LET)
    return TOKEN_ACCEPT;
  return t->count[OPEN_LET] ? insert_closer(ps) : TOKEN_ACCEPT;
}

/* True in `{ val x = e }`, up to a line that begins with a declaration: the
   grammar reports the first one. */
static bool in_block(const ParseState *ps, Opener *top) {
  const TokenStream *t = ps->tokens;
  bool is_first =
      top->token == TOK_LBRACE && top->span.start == t->last_span.start;
  top->is_block |= is_first && !t->last_is_inserted;
  return top->is_block && !at_line_start(ps, t->lookahead.span);
}

static RecoveryAction check_dec(ParseState *ps) {
  TokenStream *t = ps->tokens;
  Opener *top = top_opener(t);
  if (!top || in_block(ps, top))
    return TOKEN_ACCEPT;
  if (opener_kind(top) != OPEN_LET)
    return insert_closer(ps);
  if (top->indented && at_line_start(ps, t->lookahead.span))
    return insert_closer(ps);
  return TOKEN_ACCEPT;
}

static RecoveryAction recovery_action(ParseState *ps) {
  TokenStream *t = ps->tokens;
  int kind = t->lookahead.kind;
  if (is_closer(kind))
    return check_closer(ps);
  if (kind == TOK_IN)
    return check_in(ps);
  if (begins_dec(kind))
    return check_dec(ps);
  if (kind == 0 && t->openers.len)
    return insert_closer(ps);
  return TOKEN_ACCEPT;
}

static bool ends_expr(int token) {
  return token == TOK_ID || token == TOK_CON || token == TOK_NUM ||
         token == TOK_FLOAT || token == TOK_NEGNUM || token == TOK_NEGFLOAT ||
         token == TOK_STRING || token == TOK_PUN || is_closer(token);
}

static bool begins_expr(int token) {
  return token == TOK_ID || token == TOK_CON || token == TOK_NUM ||
         token == TOK_FLOAT || token == TOK_NEGNUM || token == TOK_NEGFLOAT ||
         token == TOK_STRING || token == TOK_LPAREN || token == TOK_LBRACKET ||
         token == TOK_LBRACE || token == TOK_LET || token == TOK_LIST ||
         token == TOK_FN || token == TOK_FOR || token == TOK_IF ||
         token == TOK_CASE;
}

/* True if an expression begins at the left margin.  It is then not an argument
   of the line before, but a separate expression; in a file the grammar requires
   `do`. */
static bool begins_bare_expr(const ParseState *ps) {
  const TokenStream *t = ps->tokens;
  return !t->openers.len && ends_expr(t->last_kind) &&
         begins_expr(t->lookahead.kind) && at_line_start(ps, t->lookahead.span);
}

/* The next token of the balanced stream. */
static Token next_token(ParseState *ps) {
  TokenStream *t = ps->tokens;
  for (;;) {
    if (!t->has_lookahead) {
      t->lookahead.kind =
          lexer_token(&ps->lexer, &t->lookahead.value, &t->lookahead.span);
      t->has_lookahead = true;
      t->reported_unclosed = false;
    }
    switch (recovery_action(ps)) {
    case TOKEN_ACCEPT:
      t->last_is_inserted = false;
      if (begins_bare_expr(ps))
        return (Token){.kind = TOK_SEMI,
                       .span = {ps->file, t->last_span.end, t->last_span.end}};
      t->has_lookahead = false;
      update_openers(ps, &t->lookahead);
      return t->lookahead;
    case TOKEN_DELETE:
      t->has_lookahead = false;
      break;
    case TOKEN_INSERT: {
      Token inserted = {.kind = closer_of(opener_kind(top_opener(t))),
                        .span = {ps->file, t->last_span.end, t->last_span.end}};
      t->last_is_inserted = true;
      pop_opener(t);
      return inserted;
    }
    }
  }
}

/* Reads tokens until at most `depth` brackets are open. */
static void skip_to_depth(ParseState *ps, uint32_t depth) {
  while (ps->tokens->openers.len > depth)
    next_token(ps);
}

void tokens_enter_panic_mode(ParseState *ps) {
  TokenStream *t = ps->tokens;
  ps->panic = true;
  /* an opener that was returned last is on top, with the same span */
  Opener *top = top_opener(t);
  t->skip_group = top && !t->last_is_inserted &&
                  top->span.start == t->last_span.start &&
                  top->span.end == t->last_span.end;
}

/* Records the first word of the declaration that is a keyword in other
   languages. */
static void record_foreign(ParseState *ps, const Token *token) {
  TokenStream *t = ps->tokens;
  if (begins_dec(token->kind))
    t->foreign = NULL;
  if (token->kind != TOK_ID || t->foreign)
    return;
  int previous = t->last_kind;
  t->foreign = lexer_find_foreign(token->value.sym->text);
  t->foreign_span = token->span;
  t->foreign_context =
      previous == TOK_VAL || previous == TOK_FUN || previous == TOK_LET
          ? FOREIGN_AFTER_BINDER
      : at_line_start(ps, token->span) ? FOREIGN_LINE_START
                                       : 0;
}

/* True for the first token of a line. */
static bool begins_line(const ParseState *ps, Span span) {
  uint32_t at = line_start(ps, span.start);
  while (at < span.start &&
         (ps->lexer.text[at] == ' ' || ps->lexer.text[at] == '\t'))
    at++;
  return at == span.start;
}

/* The innermost open bracket around a token that was just read. */
static Opener *opener_around(TokenStream *t, const Token *token) {
  Opener *top = top_opener(t);
  if (top && top->span.start == token->span.start)
    return t->openers.len > 1 ? top - 1 : NULL;
  return top;
}

/* Records lines of a `let` that are indented like a declaration but continue
   the one before. */
static void record_outdented(ParseState *ps, const Token *token) {
  TokenStream *t = ps->tokens;
  Opener *let = opener_around(t, token);
  if (!let || opener_kind(let) != OPEN_LET)
    return;
  if (begins_dec(token->kind)) {
    let->dec_word = token->span;
    let->outdented = (Span){0};
    return;
  }
  Span word = let->dec_word;
  if (word.file && !let->outdented.file && ends_expr(t->last_kind) &&
      begins_expr(token->kind) && begins_line(ps, token->span) &&
      token->span.start - line_start(ps, token->span.start) <=
          word.start - line_start(ps, word.start))
    let->outdented = token->span;
}

static void record_and(ParseState *ps, const Token *token) {
  TokenStream *t = ps->tokens;
  if (begins_dec(t->last_kind) ||
      (t->last_kind == TOK_AND && begins_line(ps, t->last_span)))
    t->inner_and = (Span){0}; /* not yet at that word, which may be an error */
  if (token->kind == TOK_AND && !t->inner_and.file &&
      !begins_line(ps, token->span))
    t->inner_and = token->span;
}

static void record_declared(ParseState *ps, const Token *token) {
  TokenStream *t = ps->tokens;
  bool begins = t->last_kind == TOK_VAL || t->last_kind == TOK_FUN;
  if (t->openers.len)
    return;
  if (t->last_kind == TOK_TYPE || t->last_kind == TOK_DATATYPE)
    t->declared = (DecName){.is_type = true};
  else if (begins && token->kind == TOK_ID)
    t->declared = (DecName){.name = token->value.sym, .span = token->span};
  else if (begins || token->kind == TOK_SEMI)
    t->declared = (DecName){0};
}

/* A keyword on the line of `fun`, `type` or `datatype`, in place of the name:
   reports it, and continues with a name. */
static void replace_keyword_name(ParseState *ps, Token *token) {
  TokenStream *t = ps->tokens;
  int word = t->last_kind;
  if ((word != TOK_FUN && word != TOK_TYPE && word != TOK_DATATYPE) ||
      ps->panic || begins_dec(token->kind) || !lexer_is_keyword(token->kind) ||
      begins_line(ps, token->span))
    return;
  const char *name = parse_symbol_name(token->kind);
  Diag *diag = parse_error(ps, 110, token->span,
                           "expected a name after `%s`, but found `%s`",
                           parse_symbol_name(word), name);
  if (diag)
    diag->help =
        arena_printf(ps->arena, "`%s` is a keyword: it cannot be a name", name);
  token->kind = TOK_ID;
  token->value.sym = intern(ps->interner, name, strlen(name));
}

int grammar_lex(GRAMMAR_STYPE *value, Span *span, ParseState *ps) {
  TokenStream *t = ps->tokens;
  if (!t->started) {
    t->started = true;
    *span = (Span){ps->file, ps->lexer.begin, ps->lexer.begin};
    t->last_span = *span;
    return ps->start_token;
  }
  if (t->skip_group) {
    t->skip_group = false;
    if (t->openers.len)
      skip_to_depth(ps, t->openers.len - 1);
  }
  Token token = next_token(ps);
  while (ps->panic && is_opener(token.kind)) {
    skip_to_depth(ps, t->openers.len - 1);
    token = next_token(ps);
  }
  replace_keyword_name(ps, &token);
  record_foreign(ps, &token);
  record_outdented(ps, &token);
  record_and(ps, &token);
  record_declared(ps, &token);
  t->previous_span = t->last_span;
  t->last_span = token.span;
  t->last_kind = token.kind;
  *value = token.value;
  *span = token.span;
  return token.kind;
}
