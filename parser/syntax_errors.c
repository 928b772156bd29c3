/* Messages of syntax errors: what was expected, where, what was found, and a
   guess at the cause.  Main entry point: parse_syntax_error. */
#include <stdarg.h>
#include <string.h>

#include "parser/internal.h"
#include "parser/parse.h"
#include "support/arena_text.h"
#include "support/diag.h"

/* ---- counting and placing ---- */

Diag *parse_error(ParseState *ps, uint16_t code, Span span, const char *format,
                  ...) {
  ps->error_at = span.start;
  if (++ps->error_count > PARSE_MAX_ERRORS)
    return NULL;
  va_list args;
  va_start(args, format);
  const char *message = arena_vprintf(ps->arena, format, args);
  va_end(args);
  return diag_error(ps->diags, code, span, "%s", message);
}

void parse_error_depth(ParseState *ps, Span span) {
  if (ps->reported_depth)
    return;
  ps->reported_depth = true;
  if (span.end > span.start + 1)
    span.end = span.start + 1;
  Diag *diag = parse_error(ps, 111, span, "this is nested too deeply");
  if (diag) {
    diag->note =
        arena_printf(ps->arena, "the limit is %d levels", PARSE_MAX_DEPTH);
    diag->help = "give names to its parts with `val`";
  }
}

uint32_t parse_line_end(const ParseState *ps, uint32_t offset) {
  const char *from = ps->lexer.text + offset;
  const char *end = memchr(from, '\n', ps->lexer.end - offset);
  return end ? (uint32_t)(end - ps->lexer.text) : ps->lexer.end;
}

void parse_error_foreign(ParseState *ps, const ForeignWord *word, Span span) {
  Diag *diag =
      parse_error(ps, 102, span, "there is no `%s` in Axon", word->text);
  if (!diag)
    return;
  diag->help = word->help;
  if (word->replacement)
    diag_add_fixit(ps->arena, diag, span, word->replacement, "write `%s`",
                   word->replacement);
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

static bool is_one_of(int symbol, const char *const *names, size_t count) {
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

static bool stack_has(const SyntaxError *e, int i, const char *name) {
  int symbol = stack_at(e, i);
  return symbol >= PARSE_NONTERMINAL && is_symbol(symbol, name);
}

/* True if a complete expression was read last. */
static bool follows_expr(const SyntaxError *e) {
  static const char *const names[] = {"expr",  "app",    "args",        "arg",
                                      "post",  "atom",   "rule",        "rules",
                                      "frule", "frules", "decs_or_expr"};
  int top = stack_at(e, 0);
  return top >= 0 && is_one_of(top, names, ARRAY_LEN(names));
}

/* "`then`", "a name". */
static const char *token_text(ParseState *ps, int token) {
  const char *name = parse_symbol_name(token);
  bool phrase = strncmp(name, "a ", 2) == 0 || strncmp(name, "an ", 3) == 0 ||
                strncmp(name, "the ", 4) == 0;
  return phrase ? name : arena_printf(ps->arena, "`%s`", name);
}

typedef struct SyntaxContext { /* the construct that contains an error */
  int token;                   /* its last token read; 0 at top level */
  const char *expected_next;   /* what follows an expression in it */
  const char *description;
} SyntaxContext;

static const SyntaxContext contexts[] = {
    {TOK_IF, "`then`", "in this `if`"},
    {TOK_THEN, "`else`", "in this `if`"},
    {TOK_CASE, "`of`", "in this `case`"},
    {TOK_LPAREN, "`)`", "in parentheses"},
    {TOK_LBRACKET, "`,` or `]`", "in brackets"},
    {TOK_DOTBRACKET, "`,` or `]`", "in an index"},
    {TOK_LBRACE, "`,` or `}`", "in a record"},
    {TOK_FOR, "`,` or `=>`", "in this `for`"},
};

/* The innermost incomplete construct. */
static SyntaxContext innermost_context(const SyntaxError *e) {
  for (int i = 0; i < e->stack_len; i++) {
    int symbol = e->stack[i];
    for (size_t f = 0; f < ARRAY_LEN(contexts); f++)
      if (contexts[f].token == symbol)
        return contexts[f];
    if (symbol >= PARSE_NONTERMINAL && is_symbol(symbol, "in"))
      return (SyntaxContext){TOK_IN, "`;` or `end`", "in this `let`"};
    if (symbol == TOK_LET ||
        (symbol >= PARSE_NONTERMINAL && is_symbol(symbol, "decs")))
      return (SyntaxContext){TOK_LET, "a declaration or `in`", "in this `let`"};
  }
  return (SyntaxContext){0, "an operator or the next declaration", NULL};
}

static const char *expected_list(ParseState *ps, const SyntaxError *e) {
  enum { MAX_LISTED_TOKENS = 6 };
  const char *all = "";
  int shown = e->expected_count < MAX_LISTED_TOKENS ? e->expected_count
                                                    : MAX_LISTED_TOKENS;
  for (int i = 0; i < shown; i++)
    all = arena_printf(ps->arena, "%s%s%s", all,
                       i == 0           ? ""
                       : i == shown - 1 ? " or "
                                        : ", ",
                       token_text(ps, e->expected[i]));
  return shown ? all : "something else";
}

/* True if a complete type was read last. */
static bool follows_type(const SyntaxError *e) {
  static const char *const names[] = {"type",    "product", "products",
                                      "postfix", "atype",   "named",
                                      "qid",     "type_opt"};
  int top = stack_at(e, 0);
  return top >= 0 && is_one_of(top, names, ARRAY_LEN(names));
}

/* What follows a pattern or a type in the innermost construct. */
static const char *next_after_pattern(const SyntaxError *e) {
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
      return follows_type(e) ? "`=`" : "an argument or `=`";
    if (is_symbol(symbol, "val") || is_symbol(symbol, "type_word") ||
        is_symbol(symbol, "datatype"))
      return "`=`";
  }
  return "`=`";
}

/* What may come next; names it by one word if possible. */
static const char *expected_text(ParseState *ps, const SyntaxError *e,
                                 SyntaxContext context) {
  if (context.token == TOK_LBRACE && e->found == TOK_RBRACE &&
      expects(e, TOK_WITH))
    return "`with`";
  if (follows_expr(e))
    return context.expected_next;
  if (expects(e, TOK_FN))
    return "an expression";
  if (stack_at(e, 0) == TOK_LBRACE)
    return "a field";
  const char *next = next_after_pattern(e);
  if (follows_type(e) && strcmp(next, "the next declaration") == 0)
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
    return context.token == TOK_LET              ? "a declaration or `in`"
           : stack_at(e, 0) == TOK_START_PROGRAM ? "a declaration"
                                                 : "the next declaration";
  return expected_list(ps, e);
}

/* "after `=`": names the previous token, or else the construct. */
static const char *context_text(ParseState *ps, const SyntaxError *e,
                                SyntaxContext context) {
  int top = stack_at(e, 0);
  if (top < 0 || top == TOK_START_PROGRAM || top == TOK_START_TYPE)
    return "";
  if (follows_expr(e))
    return context.description
               ? arena_printf(ps->arena, " %s", context.description)
               : "";
  Span before = tokens_previous_span(ps);
  uint32_t len = before.end - before.start;
  if (len == 0 || len > 40)
    return "";
  return arena_printf(ps->arena, " after `%.*s`", (int)len,
                      ps->lexer.text + before.start);
}

static const char *found_text(ParseState *ps, const SyntaxError *e) {
  uint32_t len = e->span.end - e->span.start;
  if (e->found == 0)
    return "found the end of the text";
  if (len == 0 || len > 40)
    return arena_printf(ps->arena, "found %s", token_text(ps, e->found));
  return arena_printf(ps->arena, "found `%.*s`", (int)len,
                      ps->lexer.text + e->span.start);
}

/* ---- what was meant ---- */

static bool is_comparison(int token) {
  return token == TOK_EQ || token == TOK_NE || token == TOK_LT ||
         token == TOK_LE || token == TOK_GT || token == TOK_GE;
}

static bool is_arithmetic(int token) {
  return token == TOK_PLUS || token == TOK_MINUS || token == TOK_STAR ||
         token == TOK_SLASH;
}

static bool is_binary_operator(int token) {
  return is_arithmetic(token) || is_comparison(token) || token == TOK_PERCENT ||
         token == TOK_AT || token == TOK_ANDAND || token == TOK_OR ||
         token == TOK_CARET || token == TOK_CONS;
}

static bool is_line_begin(const ParseState *ps, uint32_t at) {
  return at == 0 || ps->lexer.text[at - 1] == '\n';
}

/* True for a `val` in the body of a function. */
static bool is_local_val(const ParseState *ps, const SyntaxError *e) {
  return e->found == TOK_VAL && !is_line_begin(ps, e->span.start);
}

bool parse_begins_dec(ParseState *ps, Span word) {
  if (ps->after_local_val && !is_line_begin(ps, word.start))
    ps->after_non_dec_start = word.start + 1;
  bool begins = word.start + 1 != ps->after_non_dec_start;
  ps->after_local_val &= !begins;
  return begins;
}

/* True inside a declaration. */
static bool in_dec(const SyntaxError *e) {
  for (int i = 0; i < e->stack_len; i++)
    if (e->stack[i] == TOK_EQUAL || stack_has(e, i, "do") ||
        stack_has(e, i, "val"))
      return true;
  return false;
}

/* Braces contain only fields. */
static const char *const BRACES = "braces enclose records, `{x = e}`; write a "
                                  "block as `let val x = e in e end`";

static const char *const IMMUTABLE =
    "tensors are immutable: `set i v x` is x with another element";

static const char *const FOR_EACH =
    "write `for i => e` or `map (fn x => e) xs`";

static bool is_within(const SyntaxError *e, int token) {
  int i = 0;
  while (i < e->stack_len && e->stack[i] != token)
    i++;
  return i < e->stack_len;
}

/* Guesses from the token and the construct that contains it. */
static const char *help_in_context(const SyntaxError *e, int context) {
  int seen = e->found;
  switch (context) {
  case TOK_LBRACE:
    if (seen == TOK_EQUAL || seen == TOK_COLON)
      return "write a field as `name = value`; its name begins with a small "
             "letter";
    if (seen == TOK_SEMI)
      return "separate fields by commas";
    if (seen == TOK_BAR || seen == TOK_WITH)
      return "to change a field, write `{r with x = e}`";
    if (seen == TOK_RBRACE && !expects(e, TOK_WITH))
      return NULL;
    return is_within(e, TOK_IF) ? "write `if c then a else b`" : BRACES;
  case TOK_DOTBRACKET:
    return seen == TOK_COLON ? "write a slice as `from:to:step`" : NULL;
  case TOK_LBRACKET:
    return seen == TOK_COLON  ? "write a slice with a dot: `x.[from:to]`"
           : seen == TOK_SEMI ? "separate elements by commas"
           : seen == TOK_FOR  ? FOR_EACH
                              : NULL;
  case TOK_LPAREN:
    return seen == TOK_FOR ? FOR_EACH : NULL;
  case TOK_IF:
  case TOK_THEN:
    if (seen == TOK_COLON || (context == TOK_IF && seen == TOK_ELSE))
      return "write `if c then a else b`";
    return NULL;
  case TOK_CASE:
    return seen == TOK_DARROW || seen == TOK_WITH || seen == TOK_COLON
               ? "write `case e of p => e | q => e`"
               : NULL;
  default:
    return NULL;
  }
}

/* True after the first name in the parentheses of f(x = 1). */
static bool begins_call(const SyntaxError *e) {
  int i = 0;
  while (i < e->stack_len && e->stack[i] != TOK_LPAREN)
    i++;
  return i == 1 && (stack_has(e, 2, "post") || stack_has(e, 2, "app") ||
                    stack_has(e, 2, "args"));
}

/* Guesses from the token, and from what precedes it. */
static const char *help_after_expr(const SyntaxError *e,
                                   SyntaxContext context) {
  if (stack_at(e, 0) == TOK_PUN && e->found == TOK_EQUAL)
    return "write a labelled argument as `~axis:0`";
  const char *help = help_in_context(e, context.token);
  if (help)
    return help;
  bool bare = !context.token && !in_dec(e);
  switch (e->found) {
  case TOK_EQUAL:
    if (bare)
      return "define a value with `val x = e`, a function with `fun f x = e`";
    if (context.token == TOK_LPAREN &&
        (stack_at(e, 1) == TOK_COMMA || begins_call(e)))
      return "write a labelled argument as `~axis:0`, without parentheses and "
             "commas: `sum ~axis:0 x`; to compare, write `==`";
    return stack_has(e, 1, "post") || stack_has(e, 1, "args")
               ? "write a labelled argument as `~axis:0`; to compare, write "
                 "`==`"
               : "to compare, write `==`; `=` is for `val`, `fun` and record "
                 "fields";
  case TOK_ARROW:
    return "in expressions, write `=>`; `->` is for types";
  case TOK_DARROW:
    return "write a function as `fn x => e`";
  case TOK_COLON:
    return bare ? "to define a value with a type, write `val x : type = e`"
                : "write a type annotation in parentheses: `(e : type)`";
  case TOK_SEMI:
    return "write a sequence in parentheses, or between `in` and `end`";
  case TOK_BAR:
    return "for logical or, write `||`";
  case TOK_AND:
    return context.token ? "for logical and, write `&&`"
                         : "for logical and, write `&&`; each value has its "
                           "own `val`";
  case TOK_END:
    return context.token == TOK_LET
               ? "the result of a `let` is after `in`: `let val x = e in e end`"
               : NULL;
  case TOK_DO:
    return context.token == TOK_FOR
               ? "`for i < n => e` makes a tensor; to repeat a step, write "
                 "`iterate n f x`"
               : NULL;
  case TOK_COMMA:
    return bare ? "for several names, write a tuple: `val (a, b) = e`" : NULL;
  case TOK_IF:
  case TOK_QUESTION:
    return "write `if c then a else b`";
  case TOK_WITH:
    return "to change a field, write `{r with x = e}`";
  case TOK_IN:
    return "`in` is part of `let val x = e in e end`";
  case TOK_OPTLABEL:
  case TOK_SOME:
    return "in a call, write the label as `~x:`, even if the parameter is "
           "optional";
  default:
    break;
  }
  if (context.token == TOK_THEN)
    return "every `if` needs an `else`: its value is one of the two branches";
  return NULL;
}

/* For a word or a bracket after a word that requires something else. */
static const char *help_after_word(const SyntaxError *e) {
  switch (stack_at(e, 0)) {
  case TOK_LIST:
    return "write a list as `list [x, y]`";
  case TOK_FOR:
    return "write a range as `for i < n => e`";
  case TOK_DOT:
    return e->found == TOK_LPAREN
               ? "write an element as `x.[i]`; to apply a function to each "
                 "element, `map f x`"
           : e->found == TOK_CARET
               ? "for a power of each element, write `pow x y`"
           : is_arithmetic(e->found) || is_comparison(e->found)
               ? "operators work on each element: write them without a dot"
               : NULL;
  case TOK_OPEN:
    return e->found == TOK_STRING ? "`open` needs the name of a module" : NULL;
  case TOK_CON:
    return expects(e, TOK_OF) ? "write the argument after `of`: `A of int`"
                              : NULL;
  case TOK_COMMA:
    return e->found == TOK_RPAREN || e->found == TOK_RBRACKET ||
                   e->found == TOK_RBRACE
               ? "remove the comma after the last one"
               : NULL;
  case TOK_LPAREN:
    return e->found == TOK_PUN || e->found == TOK_LABEL
               ? "write labelled arguments without parentheses and commas: `f "
                 "~x:1 y`"
               : NULL;
  default:
    break;
  }
  if (e->found == TOK_CON && stack_has(e, 4, "type_word"))
    return "to declare constructors, use `datatype`";
  if (e->found == TOK_OPTLABEL && stack_has(e, 1, "fun_word"))
    return "write an optional parameter as `~x:(x = e)`";
  if (e->found == TOK_FUN && expects(e, TOK_FN))
    return "write a function without a name as `fn x => e`";
  if (e->found == TOK_DOT && expects(e, TOK_FN) &&
      is_arithmetic(stack_at(e, 0)))
    return "the operators are the same for all types of numbers: `x + 1.0`";
  return NULL;
}

static bool begins_pattern(int token) {
  return token == TOK_ID || token == TOK_HOLE || token == TOK_LPAREN ||
         token == TOK_LBRACE || token == TOK_LBRACKET || token == TOK_NUM ||
         token == TOK_LABEL || token == TOK_PUN;
}

/* True if the previous token is on the same line. */
static bool same_line(ParseState *ps, const SyntaxError *e) {
  uint32_t from = tokens_previous_span(ps).end;
  return from <= e->span.start &&
         !memchr(ps->lexer.text + from, '\n', e->span.start - from);
}

/* For confused arrows and equal signs. */
static const char *help_arrow(const SyntaxError *e) {
  bool arrow = e->found == TOK_ARROW || e->found == TOK_DARROW;
  const char *next = next_after_pattern(e);
  if (e->found == TOK_DARROW && (follows_type(e) || expects(e, TOK_ARROW)))
    return "in types, write `->`; `=>` is for `fn`, `case` and `for`";
  if (e->found == TOK_ARROW && strcmp(next, "`=>`") == 0)
    return "in expressions, write `=>`; `->` is for types";
  if (e->found == TOK_COLON && strcmp(next, "`=>`") == 0)
    return "annotate the result in the body: `fn x => (e : type)`";
  if (e->found == TOK_EQUAL && strcmp(next, "`=>`") == 0)
    return "write `=>` before the body of `fn`: `fn x => e`";
  if (arrow && strcmp(next, "an argument or `=`") == 0)
    return "write `=` before the body of `fun`";
  if (e->found == TOK_EQ && expects(e, TOK_EQUAL))
    return "to define, write `=`; `==` compares";
  return NULL;
}

/* `{ val x = e }` */
static bool is_block(const ParseState *ps, const SyntaxError *e) {
  const char *next = ps->lexer.text + e->span.end;
  return stack_at(e, 0) == TOK_LBRACE && lexer_is_keyword(e->found) &&
         next[strspn(next, " ")] != '=';
}

/* For words that cannot be names, and names whose first letter has the wrong
   case. */
static const char *help_name(ParseState *ps, const SyntaxError *e) {
  if (e->found == TOK_LIST && expects(e, TOK_TYVAR) && !expects(e, TOK_FN))
    return "write the element type first: `int list`";
  if (e->found == TOK_AS && expects(e, TOK_HOLE))
    return "write `as` in parentheses: `(x as p)`";
  if (lexer_is_keyword(e->found) && expects(e, TOK_ID) && !expects(e, TOK_FN) &&
      !expects(e, TOK_DARROW) && !expects(e, TOK_EQUAL) && same_line(ps, e))
    return arena_printf(ps->arena, "`%s` is a keyword: it cannot be a name",
                        parse_symbol_name(e->found));
  if (e->found == TOK_CON && expects(e, TOK_ID) && !expects(e, TOK_CON))
    return "names of values, types and modules begin with a small letter";
  if (e->found == TOK_ID && expects(e, TOK_CON) && !expects(e, TOK_ID))
    return "constructors begin with a capital letter";
  return NULL;
}

/* fn x, y => e; case p of x, y => e */
static const char *help_comma(const SyntaxError *e) {
  return e->found == TOK_COMMA && expects(e, TOK_DARROW)
             ? "write a tuple in parentheses, as in `fn (x, y) => e`; two "
               "parameters without a comma, as in `fn x y => e`"
             : NULL;
}

/* (+), (- ), (+ 1), (1 +) */
static const char *help_operator(ParseState *ps, const SyntaxError *e) {
  int last = stack_at(e, 0);
  bool begins = last == TOK_LPAREN && is_binary_operator(e->found);
  if (!begins && (!is_binary_operator(last) || e->found != TOK_RPAREN))
    return NULL;
  const char *name = parse_symbol_name(begins ? e->found : last);
  if (begins || stack_at(e, 1) == TOK_LPAREN)
    return arena_printf(ps->arena,
                        "for an operator as a function, write `(op %s)`; with "
                        "one operand, `fn x => x %s y`",
                        name, name);
  return arena_printf(ps->arena,
                      "for an operator with one operand as a function, write "
                      "`fn x => y %s x`",
                      name);
}

/* x.[i] = v, other than in a condition. */
static bool is_assigned_element(ParseState *ps, const SyntaxError *e,
                                SyntaxContext context) {
  Span before = tokens_previous_span(ps);
  return e->found == TOK_EQUAL && follows_expr(e) &&
         (!context.token || context.token == TOK_LET ||
          context.token == TOK_IN) &&
         before.end > before.start && ps->lexer.text[before.end - 1] == ']';
}

/* A line in a declaration that begins with x = e. */
static bool is_assigned_name(ParseState *ps, const SyntaxError *e,
                             SyntaxContext context) {
  uint32_t at = tokens_previous_span(ps).start;
  while (at && ps->lexer.text[at - 1] == ' ')
    at--;
  return e->found == TOK_EQUAL && follows_expr(e) && in_dec(e) &&
         !context.token && is_line_begin(ps, at);
}

static const char *help_text(ParseState *ps, const SyntaxError *e,
                             SyntaxContext context) {
  if (is_assigned_element(ps, e, context))
    return IMMUTABLE;
  if (is_assigned_name(ps, e, context))
    return "to compare, write `==`; values are immutable: for a new one, write "
           "`let val x = e in e end`";
  if (follows_expr(e))
    return help_after_expr(e, context);
  const char *arrow = help_arrow(e);
  if (arrow)
    return arrow;
  const char *word = help_after_word(e);
  if (!word)
    word = help_operator(ps, e);
  if (!word)
    word = help_comma(e);
  if (word)
    return word;
  if ((e->found == TOK_NEGNUM || e->found == TOK_NEGFLOAT) &&
      expects(e, TOK_MINUS))
    return "to subtract, write spaces on both sides of the minus sign: `n - 1`";
  if (e->found == TOK_PLUS && stack_at(e, 0) == TOK_PLUS &&
      tokens_previous_span(ps).end == e->span.start)
    return "to join lists, write `lists.append xs ys`; tensors, `concat "
           "~axis:0 (a, b)`; strings, `s ^ t`";
  if (e->found == TOK_AS && !lexer_is_keyword(stack_at(e, 0)))
    return "write the name first: `x as p`";
  if (e->found == TOK_COMMA && expects(e, TOK_EQUAL) && !context.token)
    return "write a tuple in parentheses: `val (a, b) = e`";
  if (e->found == TOK_IN && context.token == TOK_FOR)
    return "write a range as `for i < n => e`";
  if (expects(e, TOK_FN) && is_local_val(ps, e))
    return "write local names as `let val x = e in e end`";
  if (e->found == TOK_TYVAR && expects(e, TOK_FN))
    return "write strings in double quotes; `'a` is a type";
  if (e->found == TOK_BAR && context.token != TOK_LBRACE)
    return "`|` separates alternatives: remove it before the first one";
  if (e->found == TOK_EQUAL && context.token == TOK_FOR)
    return "write a range as `for i < n => e`";
  if (e->found == TOK_EQUAL && expects(e, TOK_RPAREN))
    return "only a labelled parameter can have a default: `~x:(x = e)`";
  if (stack_has(e, 0, "decs") && e->found == TOK_ID)
    return "write `val x = e` or `fun f x = e`, also in a `let`: `let val x = "
           "e in e end`";
  if (e->found == TOK_LBRACE && stack_has(e, 0, "params"))
    return "write `=` before the body of `fun`, without braces";
  if (stack_at(e, 0) == TOK_ID && stack_has(e, 1, "val") &&
      begins_pattern(e->found))
    return "to declare a function, write `fun f x = e`";
  if (e->found == TOK_EQUAL && stack_at(e, 0) == TOK_ID &&
      stack_has(e, 1, "fun_word"))
    return "without parameters, write `val x = e`; a function without "
           "arguments is `fun f () = e`";
  if (e->found == TOK_LPAREN && stack_has(e, 0, "fun_word"))
    return "write a function without a name as `fn x => e`";
  if (is_block(ps, e))
    return BRACES;
  if (context.token == TOK_LBRACKET &&
      (e->found == TOK_ID || e->found == TOK_NUM))
    return "separate sizes by commas: `[n, m]`";
  const char *name = help_name(ps, e);
  return name ? name : help_in_context(e, context.token);
}

/* True for an error that probably follows from a reported one: at an inserted
   closer, after a skipped group, or on a line with a lexical error. */
static bool is_cascading_error(ParseState *ps, const SyntaxError *e) {
  if (ps->panic || tokens_last_is_inserted(ps))
    return true;
  if (ps->recovered_end && tokens_previous_span(ps).end == ps->recovered_end)
    return true;
  uint32_t from = ps->lexer.after_error_start;
  Span before = tokens_previous_span(ps);
  if (before.start < from && from <= before.end)
    return true;
  return from && from <= e->span.start + 1 &&
         !memchr(ps->lexer.text + from, '\n',
                 e->span.start < from ? 0 : e->span.start - from);
}

/* Suppresses errors in single-quoted text, up to the closing quote on the
   line. */
static void skip_quoted(ParseState *ps, const SyntaxError *e) {
  const char *from = ps->lexer.text + e->span.end;
  size_t rest = ps->lexer.end - e->span.end;
  const char *line = memchr(from, '\n', rest);
  const char *quote = memchr(from, '\'', line ? (size_t)(line - from) : rest);
  if (quote)
    ps->lexer.suppress_errors_until = (uint32_t)(quote - ps->lexer.text) + 1;
}

/* Blames a word that is a keyword in other languages.  After the `:` of an
   expression in parentheses, that is what it is at. */
static bool blame_foreign(ParseState *ps, const SyntaxError *e) {
  Span span;
  int at = is_within(e, TOK_COLON) ? TOK_COLON : e->found;
  const ForeignWord *word = tokens_blamed_foreign(ps, at, &span);
  if (!word)
    return false;
  parse_error_foreign(ps, word, span);
  return true;
}

/* In the declarations of a `let`, blames a line that continues the one before,
   but is indented like a declaration. */
static bool blame_outdented(ParseState *ps, const SyntaxError *e) {
  Span at = tokens_outdented(ps), before = tokens_previous_span(ps);
  if (!at.file || (e->found != TOK_EQUAL && e->found != TOK_END))
    return false;
  const char *name =
      arena_strndup(ps->arena, ps->lexer.text + at.start, at.end - at.start);
  Diag *diag = parse_error(
      ps, 110, at,
      "expected a declaration or `in` in this `let`, but found `%s`", name);
  if (!diag)
    return true;
  if (ps->lexer.text[at.end] == '[') {
    diag->help = IMMUTABLE;
    return true;
  }
  bool is_end = e->found == TOK_END;
  const char *word = is_end ? "in" : before.start == at.start ? "val" : "fun";
  diag->help =
      is_end ? "the result of a `let` is after `in`: `let val x = e in e end`"
             : arena_printf(ps->arena, "write `%s %s%s = ...`", word, name,
                            before.start == at.start ? "" : " ...");
  diag_add_fixit(ps->arena, diag, (Span){at.file, at.start, at.start},
                 arena_printf(ps->arena, "%s ", word), "insert `%s`", word);
  return true;
}

/* Blames an `and` within a line of a function, if what follows is no
   function. */
static bool blame_and(ParseState *ps, const SyntaxError *e) {
  Span at = tokens_inner_and(ps);
  int i = 0;
  while (i < e->stack_len && e->stack[i] != TOK_AND &&
         e->stack[i] != TOK_EQUAL && !stack_has(e, i, "fun_word"))
    i++;
  if (!at.file || stack_at(e, i) != TOK_AND)
    return false;
  Diag *diag = parse_error(ps, 110, at,
                           "expected a function after `and`, but found an "
                           "expression");
  if (!diag)
    return true;
  diag->help = "for logical and, write `&&`";
  diag_add_fixit(ps->arena, diag, at, "&&", "write `&&`");
  return true;
}

/* The grammar calls this if no rule matches. */
void parse_syntax_error(ParseState *ps, const SyntaxError *e) {
  bool cascading = is_cascading_error(ps, e);
  tokens_enter_panic_mode(ps);
  ps->failed = tokens_declared(ps);
  if (cascading)
    return;
  if (e->found == 0)
    ps->incomplete_errors++;
  if (e->found == TOK_TYVAR && expects(e, TOK_FN))
    skip_quoted(ps, e);
  if (stack_has(e, 0, "decs") && e->found == TOK_ID)
    tokens_let_failed(ps);
  if (expects(e, TOK_FN) && (e->found == TOK_FUN || is_local_val(ps, e)))
    ps->after_non_dec_start = e->span.start + 1;
  ps->after_local_val |= expects(e, TOK_FN) && is_local_val(ps, e);
  if (ps->lexer.suppress_errors_until < e->span.end && e->found)
    ps->lexer.suppress_errors_until = parse_line_end(ps, e->span.start);
  if (blame_foreign(ps, e) || blame_outdented(ps, e) || blame_and(ps, e))
    return;
  if (follows_expr(e) && is_comparison(e->found) &&
      is_comparison(stack_at(e, 1))) {
    Diag *diag = parse_error(ps, 115, e->span, "comparisons do not chain");
    if (diag)
      diag->help = "write `a < b && b < c`";
    return;
  }
  SyntaxContext context = innermost_context(e);
  Span at = e->found == 0 ? tokens_previous_span(ps) : e->span;
  Diag *diag = parse_error(ps, 110, at, "expected %s%s, but %s",
                           expected_text(ps, e, context),
                           context_text(ps, e, context), found_text(ps, e));
  if (diag)
    diag->help = help_text(ps, e, context);
}
