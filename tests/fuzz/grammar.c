/* How the fuzzers of programs change their inputs: by tokens and by phrases,
 * since few changes of bytes leave anything to check.  A phrase is a token, a
 * bracketed group, a few tokens or a declaration; it is deleted, moved, put in
 * another's place, wrapped, given a name, brought by a pipe, or made anew by
 * the small grammar below.  Nothing here has to be right: the fuzzer keeps what
 * reaches new code. */
#include <stdlib.h>
#include <string.h>

#include "parser/parser.h"
#include "primitives/primitives.h"
#include "session/stdlib.h"
#include "support/arena.h"
#include "support/buffer.h"
#include "support/compiler.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/source.h"
#include "support/trap.h"
#include "tests/fuzz/grammar.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max,
                               unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size,
                                 const uint8_t *b, size_t b_size, uint8_t *out,
                                 size_t max, unsigned seed);

static uint64_t state;

static uint32_t random_below(uint32_t n) { /* 0 ... n - 1 */
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (uint32_t)((state >> 16) % n);
}

/* ---- tokens ---- */

enum { TOKENS = 4096 };

typedef enum Kind { WORD, NUMBER, TYVAR, OPEN, CLOSE, MARK, TEXT } Kind;

typedef struct Token {
  uint32_t begin, at, end; /* with the blanks before it; itself; its end */
  Kind kind;
} Token;

typedef struct Tokens {
  const char *text;
  uint32_t len, count;
  Token tokens[TOKENS];
} Tokens;

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_';
}

static bool is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\t';
}

static uint32_t skip_while(const Tokens *p, uint32_t i, bool (*f)(char)) {
  while (i < p->len && f(p->text[i]))
    i++;
  return i;
}

static bool is_mark(char c) {
  return c && strchr("+-*/%@<>=&|:^!.", c);
}

static uint32_t to_quote(const Tokens *p, uint32_t i) {
  while (i < p->len && p->text[i] != '"')
    i += 1 + (p->text[i] == '\\');
  return i < p->len ? i + 1 : p->len;
}

static uint32_t token_end(const Tokens *p, Token *t) {
  char c = p->text[t->at];
  t->kind = MARK;
  if (is_word(c) || c == '~' || c == '?' || c == '\'') {
    t->kind = c == '\'' ? TYVAR : c >= '0' && c <= '9' ? NUMBER : WORD;
    return skip_while(p, t->at + 1, is_word);
  }
  if (c == '"') {
    t->kind = TEXT;
    return to_quote(p, t->at + 1);
  }
  if (strchr("([{", c) || strchr(")]}", c)) {
    t->kind = strchr("([{", c) ? OPEN : CLOSE;
    return t->at + 1;
  }
  return is_mark(c) ? skip_while(p, t->at, is_mark) : t->at + 1;
}

static bool is(const Tokens *p, uint32_t i, const char *text) {
  const Token *t = &p->tokens[i];
  size_t len = strlen(text);
  return t->end - t->at == len && memcmp(p->text + t->at, text, len) == 0;
}

static void read_tokens(Tokens *p, const void *text, size_t len) {
  p->text = text, p->len = (uint32_t)len, p->count = 0;
  for (uint32_t i = 0; p->count < TOKENS;) {
    Token *t = &p->tokens[p->count];
    t->begin = i;
    t->at = skip_while(p, i, is_blank);
    if (t->at >= p->len || !p->text[t->at])
      return;
    i = t->end = token_end(p, t);
    p->count++;
    if (is(p, p->count - 1, "let"))
      t->kind = OPEN;
    else if (is(p, p->count - 1, "end"))
      t->kind = CLOSE;
  }
}

/* ---- phrases ---- */

typedef struct Phrase {
  uint32_t from, to; /* tokens; the second is outside */
} Phrase;

static uint32_t group_end(const Tokens *p, uint32_t open) {
  uint32_t depth = 0;
  for (uint32_t i = open; i < p->count; i++) {
    depth += p->tokens[i].kind == OPEN;
    depth -= p->tokens[i].kind == CLOSE && depth > 0;
    if (depth == 0)
      return i + 1;
  }
  return open + 1;
}

static bool begins_line(const Tokens *p, uint32_t i) {
  uint32_t at = p->tokens[i].at;
  return at == 0 || p->text[at - 1] == '\n';
}

static Phrase declaration(const Tokens *p, uint32_t i) {
  Phrase r = {i, i + 1};
  while (r.from > 0 && !begins_line(p, r.from))
    r.from--;
  while (r.to < p->count && !begins_line(p, r.to))
    r.to++;
  return r;
}

static Phrase pick_phrase(const Tokens *p) { /* of at least one token */
  uint32_t i = random_below(p->count), n;
  switch (random_below(8)) {
  case 0:
    return declaration(p, i);
  case 1:
  case 2:
    n = 1 + random_below(6);
    return (Phrase){i, i + n < p->count ? i + n : p->count};
  case 3:
  case 4:
  case 5: /* the next group */
    for (uint32_t k = i; k < p->count; k++)
      if (p->tokens[k].kind == OPEN)
        return (Phrase){k, group_end(p, k)};
    return (Phrase){i, i + 1};
  default:
    return (Phrase){i, group_end(p, i)};
  }
}

/* One that begins as `like` does, if there soon is one: more of these are
 * still programs. */
static Phrase pick_like(const Tokens *p, Kind like) {
  Phrase r = pick_phrase(p);
  for (uint32_t i = 0; i < 4 && p->tokens[r.from].kind != like; i++)
    r = pick_phrase(p);
  return r;
}

/* ---- making new ones ---- */

/* %e expression, %d of one line, %p pattern, %t type, %s size, %x axes, %v
 * variable, %f function of the library or primitive, %n number, %r relation,
 * %o operator, %a type of elements.  The first `ends` of each list end it. */
typedef struct Rule {
  char name;
  uint32_t ends;
  const char *const *all;
  uint32_t count;
} Rule;

#define RULE(letter, stop, ...)                                      \
  {                                                                  \
    letter, stop, (const char *const[]){__VA_ARGS__},                \
        sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), \
  }

static const Rule rules[] = {
    RULE('e', 10, "%v", "%v", "%v", "%n", "%n", "[%n, %n, %n]", "%f", "true",
         "\"x\"", "()", "(%e %o %e)", "(%e %o %e)", "%v %e", "(%f %e)",
         "(%f %e %e)", "(%f ~axis:%n %e)", "(%f (fn %p => %e) %e)",
         "(for %v => %e)", "(for %v < %s => %e)", "(for %v %v => %v.[%v, %e])",
         "(for %v, %v < %e => %e)", "%v.[%e]", "%v.[%e, %e]", "%v.[%e:%e]",
         "%v.[..., %e]", "%v.[:, new, *]", "[%e, %e]", "[...%v, %e]",
         "list [%e, %e]", "(%e :: %e)", "(%e, %e)", "{a = %e, b = %e}", "%v.a",
         "{%v with a = %e}", "(fn %p => %e)", "(fn ~x => %e)",
         "(if %e %r %e then %e else %e)", "(case %e of %p => %e | _ => %e)",
         "(case %e of x :: y => %e | list [] => %e)",
         "(let val %p = %e in %e end)", "(let fun f %p = %e in f %e end)",
         "(%e : %t)", "(%e |> %e)", "(%e >> %e)", "(-%e)", "(dim %n %e)",
         "(shape %e)", "(reshape [%s, _] %e)", "(zeros [%s, %s])", "(%e; %e)",
         "(%v ~x:%e)", "(%v @ %v)", "(iota %s)"),
    RULE('p', 5, "%v", "%v", "_", "x", "%n", "(%p, %p)", "(%p : %t)",
         "(%v :: %v)", "{a = %p, ...}", "[%p, ...]", "(Some %p)", "(%v as %p)",
         "list [%p]"),
    RULE('t', 5, "%a", "%a[%x]", "%a[%x]", "'x", "string", "(%t -> %t)",
         "(%t -> %t)", "(%t * %t)", "%t list", "{a : %t, ...}", "dim(%s)",
         "lift(%s, %t)", "(~x:%t -> %t)", "(?x:%t -> %t)", "shape(s)",
         "%t option", "axis(s, n, t)"),
    RULE('a', 8, "f32", "f32", "f64", "i64", "int", "bool", "'a", "u8"),
    RULE('x', 4, "%s", "%s, %s", "...s", "...s, %s", "%s, %x", "*, %x",
         "...join(s, t)", "?, %x", "...s, %s, ...t", "?m, %x"),
    RULE('s', 5, "n", "m", "k", "%n", "%v", "%s + %s", "%s - %s", "2 * %s",
         "%s * %s", "(%s) / %n", "%s % %n", "min(%s, %s)", "max(%s, %s)",
         "prod(s)", "?", "_"),
    RULE('d', 1, "do print %e", "val %v = %e", "val %p = %e", "fun %v %p = %e",
         "fun %v %p %p = %e", "fun %v (%v : %t) = %e",
         "fun %v (%v : %t) : %t = %e", "fun %v (%v : %t) given %s %r %s = %e",
         "fun %v ~x (y : %t) = %e", "fun %v ~x:(k : dim(n) = %n) %p = %e",
         "val %v : %t = %e", "type %v = %t", "fun f 0 = %e | f n = f (n - 1)",
         "fun f x = %e and g x = %e", "datatype d = A | B of %t | C of d * %t",
         "open nn"),
    RULE('n', 8, "0", "1", "2", "3", "-1", "4", "1.5", "0.0",
         "9223372036854775807", "1000000007", "-7", "16", "1e30"),
    RULE('r', 6, "==", "!=", "<", "<=", ">", ">="),
    RULE('o', 12, "+", "-", "*", "/", "%", "@", "==", "<", "&&", "||", "^",
         "::"),
    RULE('v', 8, "x", "y", "n", "f", "s", "i", "w", "b"),
};

static void put_name(Buffer *out) {
  if (random_below(3) == 0) {
    const StdlibName *n = &stdlib_names[random_below(stdlib_name_count)];
    buffer_printf(out, "%s%s%s", n->module, *n->module ? "." : "", n->name);
    return;
  }
  const char *name = prim_info[1 + random_below(PRIM_COUNT - 1)].name;
  buffer_printf(out, strncmp(name, "op ", 3) == 0 ? "(%s)" : "%s", name);
}

static void put_token(Buffer *out, const Tokens *p, uint32_t i) {
  const Token *t = &p->tokens[i];
  buffer_add(out, p->text + t->at, t->end - t->at);
}

static void put_variable(Buffer *out, const Tokens *p) {
  for (uint32_t tries = 0; tries < 8 && p->count > 0; tries++) {
    uint32_t i = random_below(p->count);
    char c = p->text[p->tokens[i].at];
    if (p->tokens[i].kind == WORD && c >= 'a' && c <= 'z') {
      put_token(out, p, i);
      return;
    }
  }
  const Rule *names = &rules[ARRAY_LEN(rules) - 1];
  buffer_puts(out, names->all[random_below(names->count)]);
}

static void grow(Buffer *out, const Tokens *p, char letter, uint32_t depth) {
  const Rule *rule = rules;
  if (letter == 'f')
    put_name(out);
  else if (letter == 'v' && random_below(2))
    put_variable(out, p);
  else {
    while (rule->name != letter)
      rule++;
    const char *c = rule->all[random_below(depth ? rule->count : rule->ends)];
    for (; *c; c++)
      if (*c == '%' && c[1] >= 'a' && c[1] <= 'z')
        grow(out, p, *++c, depth ? depth - 1 : 0);
      else
        buffer_putc(out, *c);
  }
}

/* ---- changes ---- */

static void put(Buffer *out, const Tokens *p, uint32_t from, uint32_t to) {
  if (from < to)
    buffer_add(out, p->text + p->tokens[from].begin,
               p->tokens[to - 1].end - p->tokens[from].begin);
}

static void put_rest(Buffer *out, const Tokens *p, uint32_t from) {
  put(out, p, from, p->count);
  buffer_putc(out, '\n');
}

static void put_new(Buffer *out, const Tokens *p) {
  static const char what[] = "eeeepttsxfnrov";
  buffer_putc(out, ' ');
  grow(out, p, what[random_below(sizeof what - 1)], random_below(4));
}

/* A phrase gives way to one of `other`. */
static void replace(Buffer *out, const Tokens *p, const Tokens *other) {
  Phrase old = pick_phrase(p);
  Phrase new = pick_like(other, p->tokens[old.from].kind);
  put(out, p, 0, old.from);
  put(out, other, new.from, new.to);
  put_rest(out, p, old.to);
}

static void insert(Buffer *out, const Tokens *p, const Tokens *other) {
  uint32_t at = declaration(p, random_below(p->count)).from;
  Phrase new = random_below(2) ? pick_phrase(other)
                               : declaration(other, random_below(other->count));
  if (random_below(2))
    at = random_below(p->count);
  put(out, p, 0, at);
  put(out, other, new.from, new.to);
  put_rest(out, p, at);
}

static void delete (Buffer *out, const Tokens *p) {
  Phrase old = pick_phrase(p);
  put(out, p, 0, old.from);
  put_rest(out, p, old.to);
}

static void make(Buffer *out, const Tokens *p) {
  Phrase old = pick_phrase(p);
  put(out, p, 0, old.from);
  put_new(out, p);
  put_rest(out, p, old.to);
}

static void wrap(Buffer *out, const Tokens *p) {
  static const char *const wraps[][2] = {
      {" (", ")"},
      {" [", "]"},
      {" list [", "]"},
      {" (fn x =>", ")"},
      {" (for i < 2 =>", ")"},
      {" (let val x =", "in x end)"},
      {" (map (fn x =>", ") x)"},
      {" (if x then", "else x)"},
      {"", ".[0]"},
      {" (fn () =>", ") ()"},
      {" {a =", "}.a"},
      {" (sum", ")"},
      {"", " x"},
      {" (", ", 1)"},
      {"", " + 1"},
      {" (case", "of x => x)"},
  };
  Phrase old = pick_phrase(p);
  uint32_t k = random_below(ARRAY_LEN(wraps));
  put(out, p, 0, old.from);
  buffer_puts(out, wraps[k][0]);
  put(out, p, old.from, old.to);
  buffer_puts(out, wraps[k][1]);
  put_rest(out, p, old.to);
}

static Phrase pick_group(const Tokens *p) {
  Phrase r = pick_phrase(p);
  for (uint32_t i = 0; i < 4 && p->tokens[r.from].kind != OPEN; i++)
    r = pick_phrase(p);
  return (Phrase){r.from, group_end(p, r.from)};
}

/* A group is a value of its own, in front of its declaration. */
static void name(Buffer *out, const Tokens *p) {
  Phrase old = pick_group(p);
  uint32_t at = declaration(p, old.from).from;
  put(out, p, 0, at);
  buffer_puts(out, "\nval zz =");
  put(out, p, old.from, old.to);
  put(out, p, at, old.from);
  buffer_puts(out, " zz");
  put_rest(out, p, old.to);
}

/* f (x) becomes (x) |> f, or x is a name, or f a longer phrase. */
static void pipe_it(Buffer *out, const Tokens *p) {
  Phrase old = pick_group(p);
  uint32_t words = 1 + random_below(3);
  uint32_t from = old.from > words ? old.from - words : 0;
  put(out, p, 0, from);
  buffer_puts(out, " (");
  put(out, p, old.from, old.to);
  buffer_puts(out, " |>");
  put(out, p, from, old.from);
  buffer_puts(out, ")");
  put_rest(out, p, old.to);
}

/* A word becomes another, wherever it is; or one that is new here. */
static void rename_word(Buffer *out, const Tokens *p) {
  uint32_t old = random_below(p->count), new = random_below(p->count);
  Buffer made = {0};
  if (random_below(2))
    put_token(&made, p, new);
  else
    grow(&made, p, "fvvn"[random_below(4)], 0);
  bool all = random_below(3) > 0;
  for (uint32_t i = 0; i < p->count; i++) {
    const Token *t = &p->tokens[i], *o = &p->tokens[old];
    uint32_t len = t->end - t->at;
    if (i != old && (!all || len != o->end - o->at ||
                     memcmp(p->text + t->at, p->text + o->at, len) != 0)) {
      put(out, p, i, i + 1);
      continue;
    }
    buffer_add(out, p->text + t->begin, t->at - t->begin);
    buffer_add(out, made.text, made.len);
  }
  buffer_putc(out, '\n');
  buffer_free(&made);
}

static void add_line(Buffer *out, const Tokens *p) {
  put_rest(out, p, 0);
  grow(out, p, 'd', 1 + random_below(4));
  buffer_putc(out, '\n');
}

static void change(Buffer *out, const Tokens *p, const Tokens *other) {
  switch (p->count && other->count ? random_below(14) : 0) {
  case 0:
    add_line(out, p);
    return;
  case 1:
  case 2:
    rename_word(out, p);
    return;
  case 3:
    delete (out, p);
    return;
  case 4:
  case 5:
    insert(out, p, other);
    return;
  case 6:
    wrap(out, p);
    return;
  case 12:
    name(out, p);
    return;
  case 13:
    pipe_it(out, p);
    return;
  case 7:
  case 8:
  case 9:
    make(out, p);
    return;
  default:
    replace(out, p, other);
  }
}

static size_t finish(Buffer *b, uint8_t *out, size_t max) {
  size_t len = b->len < max ? b->len : max;
  if (len)
    memcpy(out, b->text, len);
  buffer_free(b);
  return len;
}

/* ---- what libFuzzer calls ---- */

static Tokens first, second; /* large */

static bool parses(const Buffer *text) {
  Sources sources;
  Diags diags;
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE)
    return false;
  Arena *arena = arena_new();
  sources_init(&sources, arena);
  diags_init(&diags, arena);
  uint32_t file =
      sources_add(&sources, "", text->text ? text->text : "", text->len, false);
  parse_program(&sources, file, true, interner_new(arena), arena, &diags);
  bool good = diags.errors == 0;
  arena_free(arena);
  trap_end(&trap);
  return good;
}

/* A change of data; one that leaves a program, if that is wanted. */
static Buffer changed(const uint8_t *data, size_t size, size_t max) {
  Buffer out = {0};
  for (uint32_t tries = 0; tries < 12; tries++) {
    buffer_free(&out);
    read_tokens(&first, data, size);
    change(&out, &first, &first);
    if (!grammar_keeps_programs || (out.len <= max && parses(&out)))
      break;
  }
  return out;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max,
                               unsigned seed) {
  state = seed + 0x9e3779b97f4a7c15u;
  random_below(2);
  if (random_below(16) == 0)
    return LLVMFuzzerMutate(data, size, max);
  for (uint32_t i = 1 + random_below(3); i > 0; i--) {
    Buffer out = changed(data, size, max);
    size = finish(&out, data, max);
  }
  return size;
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size,
                                 const uint8_t *b, size_t b_size, uint8_t *out,
                                 size_t max, unsigned seed) {
  Buffer text = {0};
  state = seed + 0x9e3779b97f4a7c15u;
  random_below(2);
  read_tokens(&first, a, a_size);
  read_tokens(&second, b, b_size);
  for (uint32_t tries = 0; tries < 12; tries++) {
    buffer_free(&text);
    if (first.count && second.count && random_below(2))
      replace(&text, &first, &second);
    else if (first.count && second.count)
      insert(&text, &first, &second);
    else
      add_line(&text, &second);
    if (!grammar_keeps_programs || (text.len <= max && parses(&text)))
      break;
  }
  return finish(&text, out, max);
}
