/* The words of a syntax error: what was expected, where, what was found, and
 * a guess at what was meant. */
#include <stdarg.h>
#include <string.h>

#include "parser/internal.h"
#include "parser/parse.h"

/* ---- counting and placing ---- */

Diag *parse_error(ParseState *ps, uint16_t code, Span span, const char *format,
                  ...) {
  ps->error_at = span.start;
  if (++ps->error_count > PARSE_MAX_ERRORS) {
    if (ps->error_count == PARSE_MAX_ERRORS + 1)
      diag_error(ps->diags, 119, span,
                 "too many syntax errors; the others are not shown");
    return NULL;
  }
  va_list args;
  va_start(args, format);
  const char *message = arena_vprintf(ps->arena, format, args);
  va_end(args);
  return diag_error(ps->diags, code, span, "%s", message);
}

void parse_error_depth(ParseState *ps, Span span) {
  if (ps->too_deep)
    return;
  ps->too_deep = true;
  if (span.end > span.start + 1)
    span.end = span.start + 1;
  Diag *diag = parse_error(ps, 111, span, "this is nested too deeply");
  if (diag) {
    diag->note =
        arena_printf(ps->arena, "the limit is %d levels", PARSE_MAX_DEPTH);
    diag->help = "name parts of it with `val`";
  }
}

uint32_t parse_line_end(const ParseState *ps, uint32_t offset) {
  const char *from = ps->lexer.text + offset;
  const char *end = memchr(from, '\n', ps->lexer.end - offset);
  return end ? (uint32_t)(end - ps->lexer.text) : ps->lexer.end;
}

void parse_error_word(ParseState *ps, const Foreign *word, Span span) {
  Diag *diag =
      parse_error(ps, 102, span, "there is no `%s` in Axon", word->text);
  if (!diag)
    return;
  diag->help = word->help;
  if (word->own)
    diag_fix(ps->arena, diag, span, word->own, "write `%s`", word->own);
}

/* ---- what was expected ---- */

static bool expects(const SyntaxError *e, int token) {
  for (int i = 0; i < e->expected_count; i++)
    if (e->expected[i] == token)
      return true;
  return false;
}

static bool is_symbol(int symbol, const char *name) {
  return strcmp(parse_symbol_name(symbol), name) == 0;
}

static bool one_of(int symbol, const char *const *names, size_t count) {
  if (symbol < PARSE_NONTERMINAL)
    return false;
  for (size_t i = 0; i < count; i++)
    if (is_symbol(symbol, names[i]))
      return true;
  return false;
}

static int stack_at(const SyntaxError *e, int i) {
  return i < e->stack_len ? e->stack[i] : -1;
}

static bool top_is(const SyntaxError *e, int i, const char *name) {
  int symbol = stack_at(e, i);
  return symbol >= PARSE_NONTERMINAL && is_symbol(symbol, name);
}

/* True if a whole expression was read last. */
static bool after_expr(const SyntaxError *e) {
  static const char *const names[] = {"expr",  "app",    "args",        "arg",
                                      "post",  "atom",   "rule",        "rules",
                                      "frule", "frules", "decs_or_expr"};
  int top = stack_at(e, 0);
  return top >= 0 && one_of(top, names, ARRAY_LEN(names));
}

/* "`then`", "a name". */
static const char *token_text(ParseState *ps, int token) {
  const char *name = parse_symbol_name(token);
  bool phrase = strncmp(name, "a ", 2) == 0 || strncmp(name, "an ", 3) == 0 ||
                strncmp(name, "the ", 4) == 0;
  return phrase ? name : arena_printf(ps->arena, "`%s`", name);
}

typedef struct Frame { /* the construct that an error stands in */
  int token;           /* its last word that was read; 0 at top level */
  const char *wants;   /* what follows an expression there */
  const char *context;
} Frame;

static const Frame frames[] = {
    {TOK_IF, "`then`", "in this `if`"},
    {TOK_THEN, "`else`", "in this `if`"},
    {TOK_CASE, "`of`", "in this `case`"},
    {TOK_LPAREN, "`)`", "in parentheses"},
    {TOK_LBRACKET, "`,` or `]`", "in brackets"},
    {TOK_DOTBRACKET, "`,` or `]`", "in an index"},
    {TOK_LBRACE, "`,` or `}`", "in a record"},
    {TOK_FOR, "`,` or `=>`", "in this `for`"},
};

/* The innermost construct that waits for more. */
static Frame frame_of(const SyntaxError *e) {
  for (int i = 0; i < e->stack_len; i++) {
    int symbol = e->stack[i];
    for (size_t f = 0; f < ARRAY_LEN(frames); f++)
      if (frames[f].token == symbol)
        return frames[f];
    if (symbol >= PARSE_NONTERMINAL && is_symbol(symbol, "in"))
      return (Frame){TOK_IN, "`;` or `end`", "in this `let`"};
    if (symbol == TOK_LET ||
        (symbol >= PARSE_NONTERMINAL && is_symbol(symbol, "decs")))
      return (Frame){TOK_LET, "a declaration or `in`", "in this `let`"};
  }
  return (Frame){0, "an operator or the next declaration", NULL};
}

static const char *expected_list(ParseState *ps, const SyntaxError *e) {
  enum { MOST = 6 };
  const char *all = "";
  int shown = e->expected_count < MOST ? e->expected_count : MOST;
  for (int i = 0; i < shown; i++)
    all = arena_printf(ps->arena, "%s%s%s", all,
                       i == 0           ? ""
                       : i == shown - 1 ? " or "
                                        : ", ",
                       token_text(ps, e->expected[i]));
  return shown ? all : "something else";
}

/* True if a whole type was read last. */
static bool after_type(const SyntaxError *e) {
  static const char *const names[] = {"type",    "product", "products",
                                      "postfix", "atype",   "named",
                                      "qid",     "type_opt"};
  int top = stack_at(e, 0);
  return top >= 0 && one_of(top, names, ARRAY_LEN(names));
}

/* After a pattern or a type: what the innermost construct goes on with. */
static const char *after_pattern(const SyntaxError *e) {
  for (int i = 0; i < e->stack_len; i++) {
    int symbol = e->stack[i];
    if (symbol == TOK_EQUAL)
      return "the next declaration";
    if (symbol == TOK_GIVEN)
      return "`,` or `=`";
    if (symbol == TOK_LPAREN || symbol == TOK_LABEL)
      return "`)`";
    if (symbol == TOK_LBRACE)
      return "`,` or `}`";
    if (symbol == TOK_LBRACKET)
      return "`,` or `]`";
    if (symbol == TOK_FN || symbol == TOK_OF || symbol == TOK_FOR)
      return "`=>`";
    if (symbol < PARSE_NONTERMINAL)
      continue;
    if (is_symbol(symbol, "fun_word"))
      return after_type(e) ? "`=`" : "an argument or `=`";
    if (is_symbol(symbol, "val") || is_symbol(symbol, "type_word") ||
        is_symbol(symbol, "datatype"))
      return "`=`";
  }
  return "`=`";
}

/* What may come next, in a word where there is one. */
static const char *expected_text(ParseState *ps, const SyntaxError *e,
                                 Frame frame) {
  if (after_expr(e))
    return frame.wants;
  if (expects(e, TOK_FN))
    return "an expression";
  const char *next = after_pattern(e);
  if (after_type(e) && strcmp(next, "the next declaration") == 0)
    return "`->` or the next declaration";
  if (expects(e, TOK_DARROW) ||
      (expects(e, TOK_EQUAL) && e->expected_count > 1))
    return next;
  if (expects(e, TOK_ARROW))
    return expects(e, TOK_RPAREN) ? "`->` or `)`" : "`->`";
  if (expects(e, TOK_TYVAR) && expects(e, TOK_LBRACE))
    return "a type";
  if (expects(e, TOK_SOME))
    return expects(e, TOK_ELLIPSIS) ? "a size, `*` or `...`" : "a size";
  if (expects(e, TOK_HOLE) && expects(e, TOK_CON))
    return expects(e, TOK_PUN) ? "an argument" : "a pattern";
  if (expects(e, TOK_VAL))
    return frame.token == TOK_LET             ? "a declaration or `in`"
           : stack_at(e, 0) == TOK_START_PROGRAM ? "a declaration"
                                                 : "the next declaration";
  return expected_list(ps, e);
}

/* "after `=`": the token in front, or else the construct. */
static const char *context_text(ParseState *ps, const SyntaxError *e,
                                Frame frame) {
  int top = stack_at(e, 0);
  if (top < 0 || top == TOK_START_PROGRAM || top == TOK_START_TYPE)
    return "";
  if (after_expr(e))
    return frame.context ? arena_printf(ps->arena, " %s", frame.context) : "";
  Span before = tokens_before(ps);
  uint32_t len = before.end - before.start;
  if (len == 0 || len > 40)
    return "";
  return arena_printf(ps->arena, " after `%.*s`", (int)len,
                      ps->lexer.text + before.start);
}

static const char *found_text(ParseState *ps, const SyntaxError *e) {
  uint32_t len = e->span.end - e->span.start;
  if (e->seen == 0)
    return "the text ends";
  if (len == 0 || len > 40)
    return arena_printf(ps->arena, "found %s", token_text(ps, e->seen));
  return arena_printf(ps->arena, "found `%.*s`", (int)len,
                      ps->lexer.text + e->span.start);
}

/* ---- what was meant ---- */

static bool is_keyword(int token) {
  for (uint32_t i = 0; i < lexer_keyword_count; i++)
    if (lexer_keywords[i].token == token)
      return true;
  return false;
}

static bool is_comparison(int token) {
  return token == TOK_EQ || token == TOK_NE || token == TOK_LT ||
         token == TOK_LE || token == TOK_GT || token == TOK_GE;
}

/* True inside a declaration. */
static bool in_dec(const SyntaxError *e) {
  for (int i = 0; i < e->stack_len; i++)
    if (e->stack[i] == TOK_EQUAL || top_is(e, i, "do") || top_is(e, i, "val"))
      return true;
  return false;
}

/* In braces nothing but fields is understood. */
static const char *const BRACES =
    "braces are for records, `{x = e}`; a block is `let val x = e in e end`";

/* A guess from the token, by the construct that it stands in. */
static const char *help_in_frame(int seen, int frame) {
  switch (frame) {
  case TOK_LBRACE:
    if (seen == TOK_EQUAL || seen == TOK_COLON)
      return "a field is `name = value`, its name with a small letter";
    if (seen == TOK_SEMI)
      return "fields are separated by commas";
    if (seen == TOK_BAR || seen == TOK_WITH)
      return "with another value for a field it is `{r with x = e}`";
    return seen == TOK_RBRACE ? NULL : BRACES;
  case TOK_DOTBRACKET:
    return seen == TOK_COLON ? "a slice is `from:to`; it has no step" : NULL;
  case TOK_LBRACKET:
    return seen == TOK_COLON  ? "a slice has a dot: `x.[from:to]`"
           : seen == TOK_SEMI ? "elements are separated by commas"
           : seen == TOK_FOR  ? "it is `for i => e`, or `map (fn x => e) xs`"
                              : NULL;
  case TOK_IF:
  case TOK_THEN:
    if (seen == TOK_COLON || (frame == TOK_IF && seen == TOK_ELSE))
      return "it is `if c then a else b`";
    return NULL;
  case TOK_CASE:
    return seen == TOK_DARROW || seen == TOK_WITH || seen == TOK_COLON
               ? "it is `case e of p => e | q => e`"
               : NULL;
  default:
    return NULL;
  }
}

/* Guesses from the token alone, and from what stands before it. */
static const char *help_after_expr(const SyntaxError *e, Frame frame) {
  if (stack_at(e, 0) == TOK_PUN && e->seen == TOK_EQUAL)
    return "a labelled argument is `~axis:0`";
  const char *help = help_in_frame(e->seen, frame.token);
  if (help)
    return help;
  bool bare = !frame.token && !in_dec(e);
  switch (e->seen) {
  case TOK_EQUAL:
    if (bare)
      return "a value is named by `val x = e`, a function by `fun f x = e`";
    return top_is(e, 1, "post") || top_is(e, 1, "args")
               ? "a labelled argument is `~axis:0`; `==` compares"
               : "`==` compares; `=` belongs to `val`, `fun` and record "
                 "fields";
  case TOK_ARROW:
    return "in expressions it is `=>`; `->` is for types";
  case TOK_DARROW:
    return "a function is `fn x => e`";
  case TOK_COLON:
    return bare ? "a value with a type is named by `val x : type = e`"
                : "a type is ascribed in parentheses: `(e : type)`";
  case TOK_SEMI:
    return "a sequence stands in parentheses, or between `in` and `end`";
  case TOK_BAR:
    return "logical or is `||`";
  case TOK_QUESTION:
    return "it is `if c then a else b`";
  case TOK_WITH:
    return "with another value for a field it is `{r with x = e}`";
  case TOK_IN:
    return "`in` belongs to `let val x = e in e end`";
  case TOK_OPTLABEL:
  case TOK_SOME:
    return "the label of an argument is `~x:`, also where it is optional";
  default:
    break;
  }
  if (frame.token == TOK_THEN)
    return "every `if` has an `else`: it gives a value either way";
  return NULL;
}

/* Where a word or a bracket follows another that wants something else. */
static const char *help_after_word(const SyntaxError *e) {
  switch (stack_at(e, 0)) {
  case TOK_LIST:
    return "a list is `list [x, y]`";
  case TOK_FOR:
    return "a range is `for i < n => e`";
  case TOK_DOT:
    return e->seen == TOK_LPAREN ? "an element is `x.[i]`" : NULL;
  case TOK_OPEN:
    return e->seen == TOK_STRING ? "`open` takes the name of a module" : NULL;
  case TOK_CON:
    return expects(e, TOK_OF) ? "an argument follows `of`: `A of int`" : NULL;
  case TOK_COMMA:
    return e->seen == TOK_RPAREN || e->seen == TOK_RBRACKET ||
                   e->seen == TOK_RBRACE
               ? "no comma follows the last one"
               : NULL;
  case TOK_LPAREN:
    return e->seen == TOK_PUN || e->seen == TOK_LABEL
               ? "labelled arguments stand without parentheses and commas: "
                 "`f ~x:1 y`"
               : NULL;
  default:
    break;
  }
  if (e->seen == TOK_CON && top_is(e, 4, "type_word"))
    return "constructors are declared by `datatype`";
  if (e->seen == TOK_OPTLABEL && top_is(e, 1, "fun_word"))
    return "an optional parameter is `~x:(x = e)`";
  if (e->seen == TOK_FUN && expects(e, TOK_FN))
    return "a function without a name is `fn x => e`";
  return NULL;
}

static bool begins_pattern(int token) {
  return token == TOK_ID || token == TOK_HOLE || token == TOK_LPAREN ||
         token == TOK_LBRACE || token == TOK_LBRACKET || token == TOK_NUM ||
         token == TOK_LABEL || token == TOK_PUN;
}

/* True if the token before stands on the same line. */
static bool same_line(ParseState *ps, const SyntaxError *e) {
  uint32_t from = tokens_before(ps).end;
  return from <= e->span.start &&
         !memchr(ps->lexer.text + from, '\n', e->span.start - from);
}

/* For arrows and equal signs that stand for one another. */
static const char *help_arrow(const SyntaxError *e) {
  bool arrow = e->seen == TOK_ARROW || e->seen == TOK_DARROW;
  const char *next = after_pattern(e);
  if (e->seen == TOK_DARROW && (after_type(e) || expects(e, TOK_ARROW)))
    return "in types it is `->`; `=>` is for `fn`, `case` and `for`";
  if (e->seen == TOK_ARROW && strcmp(next, "`=>`") == 0)
    return "in expressions it is `=>`; `->` is for types";
  if (e->seen == TOK_EQUAL && strcmp(next, "`=>`") == 0)
    return "a function's body follows `=>`: `fn x => e`";
  if (arrow && strcmp(next, "an argument or `=`") == 0)
    return "the body of `fun` follows `=`";
  if (e->seen == TOK_EQ && expects(e, TOK_EQUAL))
    return "`=` defines; `==` compares";
  return NULL;
}

/* For words that cannot be names, and names with the wrong first letter. */
static const char *help_name(ParseState *ps, const SyntaxError *e) {
  if (e->seen == TOK_LIST && expects(e, TOK_TYVAR) && !expects(e, TOK_FN))
    return "the type of the elements stands in front: `int list`";
  if (e->seen == TOK_AS && expects(e, TOK_HOLE))
    return "here `as` stands in parentheses: `(x as p)`";
  if (is_keyword(e->seen) && expects(e, TOK_ID) && !expects(e, TOK_FN) &&
      !expects(e, TOK_DARROW) && !expects(e, TOK_EQUAL) && same_line(ps, e))
    return arena_printf(ps->arena, "`%s` is a keyword, and cannot be a name",
                        parse_symbol_name(e->seen));
  if (e->seen == TOK_CON && expects(e, TOK_ID) && !expects(e, TOK_CON))
    return "names of values, types and modules begin with a small letter";
  if (e->seen == TOK_ID && expects(e, TOK_CON) && !expects(e, TOK_ID))
    return "constructors begin with a capital letter";
  return NULL;
}

static const char *help_text(ParseState *ps, const SyntaxError *e,
                             Frame frame) {
  if (after_expr(e))
    return help_after_expr(e, frame);
  const char *arrow = help_arrow(e);
  if (arrow)
    return arrow;
  const char *word = help_after_word(e);
  if (word)
    return word;
  if ((e->seen == TOK_NEGNUM || e->seen == TOK_NEGFLOAT) &&
      expects(e, TOK_MINUS))
    return "a minus sign between spaces subtracts: `n - 1`";
  if (e->seen == TOK_IN && frame.token == TOK_FOR)
    return "a range is `for i < n => e`";
  if (e->seen == TOK_TYVAR && expects(e, TOK_FN))
    return "strings take double quotes; `'a` is a type";
  if (e->seen == TOK_BAR && frame.token != TOK_LBRACE)
    return "`|` stands between two, and not before the first";
  if (e->seen == TOK_EQUAL && frame.token == TOK_FOR)
    return "a range is `for i < n => e`";
  if (e->seen == TOK_EQUAL && expects(e, TOK_RPAREN))
    return "a default belongs to a label: `~x:(x = e)`";
  if (top_is(e, 0, "decs") && e->seen == TOK_ID)
    return "it is `val x = e` or `fun f x = e`, in a `let` too: `let val x = "
           "e in e end`";
  if (e->seen == TOK_LBRACE && top_is(e, 0, "params"))
    return "the body of `fun` follows `=`, without braces";
  if (stack_at(e, 0) == TOK_ID && top_is(e, 1, "val") &&
      begins_pattern(e->seen))
    return "a function is declared with `fun`: `fun f x = e`";
  if (e->seen == TOK_EQUAL && stack_at(e, 0) == TOK_ID &&
      top_is(e, 1, "fun_word"))
    return "without arguments it is `val x = e`";
  if (e->seen == TOK_LPAREN && top_is(e, 0, "fun_word"))
    return "a function without a name is `fn x => e`";
  const char *name = help_name(ps, e);
  return name ? name : help_in_frame(e->seen, frame.token);
}

/* An error that is likely to come from one already reported: at a bracket
 * that was made up, behind a group that was skipped, on a line where the lexer
 * found something wrong. */
static bool follows_another(ParseState *ps, const SyntaxError *e) {
  if (ps->panic || tokens_made_up(ps))
    return true;
  if (ps->mended && tokens_before(ps).end == ps->mended)
    return true;
  uint32_t from = ps->lexer.error_at;
  Span before = tokens_before(ps);
  if (before.start < from && from <= before.end)
    return true;
  return from && from <= e->span.start + 1 &&
         !memchr(ps->lexer.text + from, '\n',
                 e->span.start < from ? 0 : e->span.start - from);
}

/* What stands in quotes of the other kind up to the end of the line is not
 * looked at. */
static void skip_quoted(ParseState *ps, const SyntaxError *e) {
  const char *from = ps->lexer.text + e->span.end;
  size_t rest = ps->lexer.end - e->span.end;
  const char *line = memchr(from, '\n', rest);
  const char *quote = memchr(from, '\'', line ? (size_t)(line - from) : rest);
  if (quote)
    ps->lexer.quiet_until = (uint32_t)(quote - ps->lexer.text) + 1;
}

/* A word that is a keyword elsewhere. */
static bool blame_word(ParseState *ps, const SyntaxError *e) {
  Span span;
  const Foreign *word = tokens_foreign(ps, e->seen, &span);
  if (!word)
    return false;
  parse_error_word(ps, word, span);
  return true;
}

/* Called by the grammar where no rule goes on. */
void parse_syntax_error(ParseState *ps, const SyntaxError *e) {
  bool quiet = follows_another(ps, e);
  tokens_panic(ps);
  if (quiet)
    return;
  if (e->seen == 0)
    ps->open_errors++;
  if (e->seen == TOK_TYVAR && expects(e, TOK_FN))
    skip_quoted(ps, e);
  if (top_is(e, 0, "decs") && e->seen == TOK_ID)
    tokens_let_failed(ps);
  if (e->seen == TOK_FUN && expects(e, TOK_FN))
    ps->no_dec = e->span.start + 1;
  if (ps->lexer.quiet_until < e->span.end && e->seen)
    ps->lexer.quiet_until = parse_line_end(ps, e->span.start);
  if (blame_word(ps, e))
    return;
  if (after_expr(e) && is_comparison(e->seen) &&
      is_comparison(stack_at(e, 1))) {
    Diag *diag = parse_error(ps, 115, e->span, "comparisons do not chain");
    if (diag)
      diag->help = "write `a < b && b < c`";
    return;
  }
  Frame frame = frame_of(e);
  Span at = e->seen == 0 ? tokens_before(ps) : e->span;
  Diag *diag = parse_error(ps, 110, at, "expected %s%s, but %s",
                           expected_text(ps, e, frame),
                           context_text(ps, e, frame), found_text(ps, e));
  if (diag)
    diag->help = help_text(ps, e, frame);
}
