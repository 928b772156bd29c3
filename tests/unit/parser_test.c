/* Tests the parser and the formatter: trees, errors, and robustness against bad
 * input and lack of memory. */
#include <stdlib.h>
#include <string.h>

#include "lexer/lexer.h"
#include "parser/parser.h"
#include "support/arena.h"
#include "support/buffer.h"
#include "support/compiler.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/mem_inject.h"
#include "support/source.h"
#include "support/trap.h"

static int failures;

typedef struct Fixture {
  Arena *arena;
  Sources sources;
  Diags diags;
  Interner *interner;
} Fixture;

static void begin(Fixture *f) {
  f->arena = arena_new();
  sources_init(&f->sources, f->arena);
  diags_init(&f->diags, f->arena);
  f->interner = interner_new(f->arena);
}

static uint32_t add(Fixture *f, const char *text, size_t len) {
  return sources_add(&f->sources, "test.axn", text, len, false);
}

static void fail(const char *what, const char *source, const char *expected,
                 const char *actual) {
  failures++;
  printf("FAIL %s\n  source:   %.200s\n  expected: %s\n  actual:   %s\n", what,
         source, expected, actual);
}

static void expect_text(const char *what, const char *source,
                        const char *expected, const Buffer *actual) {
  const char *text = actual->text ? actual->text : "";
  if (strcmp(text, expected) != 0)
    fail(what, source, expected, text);
}

static void list_codes(const Fixture *f, Buffer *out) {
  for (uint32_t i = 0; i < f->diags.all.len; i++)
    buffer_printf(out, "%s%u", i ? " " : "", f->diags.all.at[i]->code);
}

/* ---- trees ---- */

static void tree(const char *source, const char *expected) {
  Fixture f;
  begin(&f);
  uint32_t file = add(&f, source, strlen(source));
  Program program =
      parse_program(&f.sources, file, true, f.interner, f.arena, &f.diags);
  Buffer out = {0};
  ast_dump(&out, &program);
  while (out.len && out.text[out.len - 1] == '\n')
    out.text[--out.len] = 0;
  if (f.diags.errors)
    list_codes(&f, &out);
  expect_text("tree", source, expected, &out);
  buffer_free(&out);
  arena_free(f.arena);
}

static void test_operators(void) {
  tree("1 + 2 * 3", "(expr (+ 1 (* 2 3)))");
  tree("1 - 2 - 3", "(expr (- (- 1 2) 3))");
  tree("a :: b :: c", "(expr (:: a (:: b c)))");
  tree("a ^ b :: c", "(expr (^ a (:: b c)))");
  tree("a |> f >> g", "(expr (|> a (>> f g)))");
  tree("a || b && c == d", "(expr (|| a (&& b (== c d))))");
  tree("- a * b", "(expr (* (neg a) b))");
  tree("f x - 1", "(expr (- (app f x) 1))");
  tree("f -1", "(expr (app f -1))");
  tree("n -1", "(expr (app n -1))");
  tree("n-1", "(expr (- n 1))");
  tree("(-1)", "(expr -1)");
  tree("(n)-1", "(expr (- n 1))");
  tree("- 1", "(expr (neg 1))");
  tree("a + fn x => x + b", "(expr (+ a (fn ([x] (+ x b)))))");
  tree("if a then b else c + d", "(expr (if a b (+ c d)))");
  tree("(op ::)", "(expr (op ::))");
  tree("q @ k / s", "(expr (/ (@ q k) s))");
}

static void test_forms(void) {
  tree("fn 0 => 1 | n => n", "(expr (fn ([0] 1) ([n] n)))");
  tree("for i < n, j, k => 1", "(expr (for i<n j k => 1))");
  tree("for i j < 3 => 1", "(expr (for i j<3 => 1))");
  tree("for _ < 3 => 1", "(expr (for _<3 => 1))");
  tree("x.[i, 2:5, :, -1, ..., new, *]",
       "(expr (index x i 2:5 : -1 ... new *))");
  tree("1.[0].w + 2", "(expr (+ (. (index 1 0) w) 2))");
  tree("x.[:, *] * y.[*, :]", "(expr (* (index x : *) (index y * :)))");
  tree("[...s, 4]", "(expr (bracket ...s 4))");
  tree("list [a, b]", "(expr (list a b))");
  tree("{r with w = 1, b}", "(expr {r with w=1 b=b})");
  tree("f ~heads ~axis:-1 x", "(expr (app f ~heads:heads ~axis:-1 x))");
  tree("let val x = 1; fun f y = y in f x; x end",
       "(expr (let ((val x 1) (fun (f [y] y))) (app f x) x))");
  tree("case x of Some (a, _) => a | None => 0",
       "(expr (case x ([(con Some (tuple a _))] a) ([None] 0)))");
  tree("(a; b)", "(expr (seq a b))");
  tree("(a : f32[n])", "(expr (: a f32[n]))");
  tree("nn.linear p.w", "(expr (app (. nn linear) (. p w)))");
  tree("() _ true", "(expr (app (tuple) _ true))");
  tree("case a of x => case b of y => 1 | z => 2",
       "(expr (case a ([x] (case b ([y] 1) ([z] 2)))))");
}

static void test_decs(void) {
  tree("fun f ~size:(k : dim(n) = 2) ~h x : f32[n] given 1 <= n = x",
       "(fun (f [~size:(= k : (call dim [n]) 2) ~h:h x] : f32[n] (given (<= 1 "
       "n)) x))");
  tree("fun f 0 = 1 | f n = 2 and g x = x",
       "(fun (f [0] 1) (f [n] 2) and (g [x] x))");
  tree("datatype 'a t = A | B of 'a t list",
       "(datatype 'a t (A) (B (list (t 'a))))");
  tree("type ('a, 'b) p[n] = 'a[n] * 'b", "(type 'a 'b p[n] (* 'a[n] 'b))");
  tree("import \"./blocks\" as b open nn import nn",
       "(import \"./blocks\" as b)\n(open nn)\n(import nn)");
  tree("(** a doc *) val x = 1", "(doc \"a doc\") (val x 1)");
  tree("(** far *) (* near *) val x = 1", "(val x 1)");
  tree("(*** no doc *) val x = 1", "(val x 1)");
  tree("val [b, ...s] = shape x", "(val (shape b ...s) (app shape x))");
  tree("val {w = a, b : f32, ...} = p", "(val {w=a b: f32 ...} p)");
  tree("val x as y :: z = list [1]", "(val (as x (:: y z)) (list 1))");
  tree("1; val x = 2; x", "(expr 1)\n(val x 2)\n(expr x)");
}

static void test_literals(void) {
  tree("\"a\\n\\x41\\u{3bb}\\0\"", "(expr \"a\\x0aA\xce\xbb\\x00\")");
  tree("\"a\\\n   b\"", "(expr \"ab\")");
  tree("1e-5 1.5e3 0xff 2e4", "(expr (app float:1e-5 float:1.5e3 0xff "
                              "float:2e4))");
  tree("(* a (* b *) c *) 1", "(expr 1)");
  tree("#!/usr/bin/axon\ndo f x", "(do (app f x))");
  tree("x' _y", "(expr (app x' _y))");
}

/* ---- types ---- */

static void type(const char *source, const char *expected) {
  Fixture f;
  begin(&f);
  uint32_t file = add(&f, source, strlen(source));
  Givens given = {0};
  TypeExpr *t =
      parse_type(&f.sources, file, 0, &given, f.interner, f.arena, &f.diags);
  Buffer out = {0};
  if (t)
    ast_dump_type(&out, t, &given);
  while (out.len && out.text[out.len - 1] == '\n')
    out.text[--out.len] = 0;
  expect_text("type", source, expected, &out);
  buffer_free(&out);
  arena_free(f.arena);
}

static void test_types(void) {
  type("'a[...s, n] -> 'a[...s, n] given 'a : float",
       "(-> 'a[...s n] 'a[...s n]) (given (class 'a float))");
  type("?size:dim(k) -> ~l:f32 ->! unit",
       "(-> ?size: (call dim [k]) (->! ~l: f32 unit))");
  type("'a[b, (h - k)/s + 1] given k <= h if s != 1, join(s, t)",
       "'a[b (+ (/ (- h k) s) 1)] (given (if (<= k h) (!= s 1)) (join [s "
       "t]))");
  type("f32[?] list * {a : int, ...} * lift(n, 'x)",
       "(* (list f32[?]) {a: int ...} (lift n 'x))");
  type("('a, 'b) m.t", "(m.t 'a 'b)");
  type("f32[...join(s, t), ?m, _, *, -1, ...]",
       "f32[...join[s t] ?m _ * (- 1) ...]");
  type("shape(...s, prod(t)) -> _", "(-> (call shape [...s (prod [t])]) _)");
  type("f32[", "");
}

/* ---- errors ---- */

static void codes(const char *source, size_t len, const char *expected) {
  Fixture f;
  begin(&f);
  uint32_t file = add(&f, source, len);
  Program program =
      parse_program(&f.sources, file, false, f.interner, f.arena, &f.diags);
  Buffer out = {0};
  list_codes(&f, &out);
  if (program.incomplete)
    buffer_puts(&out, " incomplete");
  expect_text("codes", source, expected, &out);
  buffer_free(&out);
  arena_free(f.arena);
}

static void error(const char *source, const char *expected) {
  codes(source, strlen(source), expected);
}

static void test_errors(void) {
  error("val = 1\nval x = \nval y = 1\nfun f = 2\ndo 1", "110 110 110");
  error("val x = (1 + 2\nval y = 3", "112");
  error("val x = [1, 2)\nval y = )", "113 114 110");
  error("val x = let val y = (1 in y end\ndo y end", "112 114");
  error("val x = a < b < c", "115");
  error("1 + 2", "116");
  error("fun f 1 = 2 | g 2 = 4", "118");
  error("val x = \"abc", "103");
  error("val x = \"\\q\\xg\\u{zz}\"", "104 104 104");
  error("val x = 12ab", "105");
  error("val x = 1. + .5", "106 106");
  error("val x = $ 1 & 2", "102 102");
  error("val x = \xff 1", "107");
  codes("val x = \0 1", 11, "107");
  codes("val x = \"\0\"", 11, "107");
  error("val x = (* \xff *) 1", "107");
}

static void test_incomplete(void) {
  error("val x =", "110 incomplete");
  error("val x = (1 +", "112 incomplete");
  error("val x = let val y = 1", "112 incomplete");
  error("val x = if a then b", "110 incomplete");
  error("val x = 1 (* abc", "101 incomplete");
  error("val x = \"abc\\", "103 incomplete");
  error("fun f x", "110 incomplete");
  error("val = 1 val x = (", "110 112");
  error("val x = 1", "");
  error("", "");
}

/* ---- depth ---- */

static void repeated(const char *head, const char *part, const char *tail,
                     size_t n, const char *expected) {
  Buffer b = {0};
  buffer_puts(&b, head);
  for (size_t i = 0; i < n; i++)
    buffer_puts(&b, part);
  buffer_puts(&b, tail);
  Fixture f;
  begin(&f);
  uint32_t file = add(&f, b.text, b.len);
  parse_program(&f.sources, file, false, f.interner, f.arena, &f.diags);
  Buffer out = {0};
  list_codes(&f, &out);
  expect_text("depth", part, expected, &out);
  buffer_free(&out);
  buffer_free(&b);
  arena_free(f.arena);
}

static void test_depth(void) {
  static const char *const parts[] = {
      "(",      "[",  "{a = ",           "fn x => ",  "if ",    "let val x = ",
      "1 :: ",  "- ", "case x of y => ", "for i => ", "f ~x:(", "x.[",
      "list [",
  };
  for (size_t i = 0; i < ARRAY_LEN(parts); i++)
    repeated("val x = ", parts[i], "1", 200000, "111");
  repeated("val x = 1", " + 1", "", 100000, "111");
  repeated("val x = x", ".y", "", 100000, "111");
  repeated("type t = ", "f32 -> ", "f32", 100000, "111");
  repeated("type t = f32", " list", "", 100000, "111");
  repeated("type t = f32[n", " + n", "]", 100000, "111");
  repeated("val ", "x :: ", "y = z", 100000, "111");
  repeated("", "(*", "", 100000, "101");
  repeated("val x = 1", " + 1", "", 1900, "");
  repeated("", "val x = 1\n", "", 20000, "");
}

/* ---- formatting ---- */

static void format(const char *source, const char *expected) {
  Fixture f;
  begin(&f);
  uint32_t file = add(&f, source, strlen(source));
  Buffer out = {0};
  format_source(&f.sources, file, f.interner, f.arena, &f.diags, &out);
  expect_text("format", source, expected, &out);
  buffer_free(&out);
  arena_free(f.arena);
}

static void test_format(void) {
  format("", "");
  format("(* only *)", "(* only *)\n");
  format("val x=1;val y = (2)", "val x = 1\nval y = 2\n");
  format("val x = (a*b)+c", "val x = (a * b) + c\n");
  format("val x = (f x) y + -(1) - (-1)", "val x = (f x) y + - 1 - -1\n");
  format("val x = (fn a => a) + (if a then b else c)",
         "val x = (fn a => a) + if a then b else c\n");
  format("val x = case a of A => (case b of C => 1) | B => 2",
         "val x = case a of A => (case b of C => 1) | B => 2\n");
  format("fun f 0 = 1 | f n = 2", "fun f 0 = 1\n  | f n = 2\n");
  format("val x = f ~a:a {b = b}", "val x = f ~a {b}\n");
  format("val x = y.[(f ~k):3, 1 : 2]", "val x = y.[f ~k : 3, 1:2]\n");
  format("val x = [1, (* a *)\n2 (* b *)\n]",
         "val x =\n  [1, (* a *)\n   2 (* b *)]\n");
  format("val a = (1 (** d *))\nval b = 2", "val a = (1 (** d *))\nval b = "
                                            "2\n");
  format("val x = let in 1 end", "val x = let in 1 end\n");
  format("val x = 12.[0].w", "val x = (12).[0].w\n");
  format("type t = a[...join( *, s)]", "type t = a[...join( *, s)]\n");
  format("val x = 1 +", "");
}

/* ---- memory ---- */

static const char everything[] =
    "(** doc *) fun f ~k:(x : f32[n] = 1) {a, b = _, ...} given n >= 1 =\n"
    "  let val y = [1, 2, ...s] (* c *) in case y of A (x :: z) => {x with a}\n"
    "  | _ => for i < 3, j => y.[i, 2:, *] |> fn x => \"a\\n\" end\n"
    "val z = ) (\n";

/* The n-th allocation fails: true once all succeed. */
static bool survives(uint64_t n) {
  Fixture f = {0};
  Buffer out = {0};
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE) {
    mem_inject_failure_at(0);
    return false;
  }
  begin(&f);
  uint32_t file = add(&f, everything, sizeof everything - 1);
  Trap inside;
  volatile bool whole = false;
  if (TRAP_SET(inside) == FAIL_NONE) {
    mem_inject_failure_at(n);
    parse_program(&f.sources, file, false, f.interner, f.arena, &f.diags);
    format_source(&f.sources, file, f.interner, f.arena, &f.diags, &out);
    whole = true;
    trap_end(&inside);
  }
  mem_inject_failure_at(0);
  buffer_free(&out);
  arena_free(f.arena);
  trap_end(&trap);
  return whole;
}

static void test_memory(void) {
  uint64_t n = 1;
  while (n < 10000 && !survives(n))
    n++;
  if (n == 10000)
    fail("memory", everything, "success in the end", "none");
}

static void test_range(void) {
  static const char text[] = "val a = ( val b = -1 val c = (";
  Fixture f;
  begin(&f);
  uint32_t file = add(&f, text, sizeof text - 1);
  Program program =
      parse_range(&f.sources, file, 10, 20, f.interner, f.arena, &f.diags);
  Buffer out = {0};
  ast_dump(&out, &program);
  list_codes(&f, &out);
  expect_text("range", text, "(val b -1)\n", &out);
  if (program.dec_count == 1 &&
      (program.decs[0]->span.start != 10 || program.decs[0]->span.end != 20))
    fail("range", text, "span 10 to 20", "another");
  buffer_free(&out);
  arena_free(f.arena);
}

int main(void) {
  Trap trap;
  if (TRAP_SET(trap) != FAIL_NONE)
    return 1;
  test_operators();
  test_forms();
  test_decs();
  test_literals();
  test_types();
  test_errors();
  test_incomplete();
  test_depth();
  test_format();
  test_range();
  test_memory();
  trap_end(&trap);
  printf("%s\n", failures ? "failed" : "passed");
  return failures ? 1 : 0;
}
