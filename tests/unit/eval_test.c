/* Tests eval/: programs as s-expressions that are read as Core and run without
 * the type checker.  Covers each form, errors and their spans, tail calls, deep
 * recursion, `for` run symbolically or on the host, and memory leaks. */
#include "eval/eval.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/diag_render.h"
#include "support/mem_inject.h"
#include "support/trap.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "eval_sexp.h"

static DimCtx dims;
static Diags diags;
static Eval *eval;
static Buffer written;
static Flag interrupted;

/* ---- running ---- */

static Trap trap;

static void write_text(void *owner, const char *text, size_t len) {
  (void)owner;
  buffer_add(&written, text, len);
}

static int64_t progress_last;
static void progress(void *owner, int64_t done, int64_t total) {
  (void)owner, (void)total;
  progress_last = done;
}

static int setup(void **state) {
  (void)state;
  if (TRAP_SET(trap) != FAIL_NONE)
    abort(); /* no test fails without a trap */
  arena = arena_new();
  interner = interner_new(arena);
  dims = (DimCtx){.arena = arena};
  diags_init(&diags, arena);
  sources_init(&sources, arena);
  static const char *const args[] = {"one", "two"};
  static EvalHost host;
  host = (EvalHost){.write = write_text,
                    .trace = write_text,
                    .progress = progress,
                    .arg_count = 2,
                    .args = args,
                    .interrupt = &interrupted};
  eval = eval_new(arena, &dims, interner, &host);
  eval_set_sources(eval, &sources);
  globals = NULL;
  con_count = 0;
  return 0;
}

static int teardown(void **state) {
  (void)state;
  eval_free(eval);
  arena_free(arena);
  buffer_free(&written);
  trap_end(&trap);
  return 0;
}

static void show_diags(void) {
  for (uint32_t i = 0; i < diags.all.len; i++) {
    Buffer text = {0};
    diag_render(&text, &sources, diags.all.at[i], false);
    print_message("%s", text.text);
    buffer_free(&text);
  }
}

/* (name (params) body) ...: mutually recursive global functions */
static CoreDec *read_funs(const char *text) {
  CoreDec *dec = NEW(arena, CoreDec);
  dec->kind = CD_FUNS;
  dec->vars = NEW_ARRAY(arena, Var *, 8);
  dec->items = NEW_ARRAY(arena, Core *, 8);
  for (int pass = 0; pass < 2; pass++) {
    if (!pass)
      begin(text);
    in = text_start;
    uint32_t n = 0;
    while (eat('(')) {
      char *name = word();
      if (!pass) {
        dec->vars[n] = new_var(name, true);
        globals = bind(globals, name, dec->vars[n]);
        int depth = 1;
        for (; depth; in++)
          depth += (*in == '(') - (*in == ')');
      } else {
        dec->items[n] = read_fn(NULL);
      }
      n++;
    }
    dec->var_count = n;
  }
  return dec;
}

static void funs(const char *text) {
  if (!eval_run(eval, read_funs(text), &diags, NULL)) {
    show_diags();
    fail();
  }
}

static CoreDec *read_val(const char *pat, const char *text) {
  CoreDec *dec = NEW(arena, CoreDec);
  dec->kind = CD_BIND;
  begin(text);
  dec->expr = read_expr(NULL);
  begin(pat);
  dec->pat = read_pat(&globals, true);
  return dec;
}

static void val(const char *pat, const char *text) {
  if (!eval_run(eval, read_val(pat, text), &diags, NULL)) {
    show_diags();
    fail();
  }
}

static bool run(const char *text, ValueHandle **held) {
  CoreDec *dec = NEW(arena, CoreDec);
  dec->kind = CD_EXPR;
  begin(text);
  dec->expr = read_expr(NULL);
  dec->span = dec->expr->span;
  return eval_run(eval, dec, &diags, held);
}

static void is(const char *text, const char *expected) {
  ValueHandle *held;
  Buffer out = {0};
  if (!run(text, &held) || !eval_print(eval, held, &out, &diags)) {
    show_diags();
    fail_msg("%s", text);
  }
  if (strcmp(out.text ? out.text : "", expected))
    fail_msg("%s\ngives   %s\ninstead %s", text, out.text, expected);
  buffer_free(&out);
  value_handle_free(eval, held);
}

static const Diag *fails(const char *text, int code, const char *message) {
  uint32_t before = diags.all.len;
  ValueHandle *held;
  if (run(text, &held))
    fail_msg("%s should fail", text);
  assert_int_equal(diags.all.len, before + 1);
  const Diag *d = diags.all.at[before];
  assert_int_equal(d->code, code);
  if (!strstr(d->message, message))
    fail_msg("%s\nsays    %s\ninstead %s", text, d->message, message);
  return d;
}

/* ---- the functional part ---- */

static const char fib[] =
    "(fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))";

static void test_scalars(void **state) {
  (void)state;
  is("(+ 1 2)", "3");
  is("(/ -7 2)", "-4");
  is("(% -7 2)", "1");
  is("(% 7 -2)", "-1");
  is("(- (* 6 7) 0)", "42");
  is("(+ 9223372036854775807 1)", "-9223372036854775808");
  is("(+ 200:u8 100:u8)", "44");
  is("(+ 1.5 2.25)", "3.75");
  is("(/ 1.0:f64 3.0:f64)", "0.3333333333333333");
  is("(< 1.0 2.0)", "true");
  is("(pow 2 10)", "1024");
  is("(maximum 2 3)", "3");
  is("(sqrt 9.0)", "3.0");
  is("(abs -3)", "3");
  is("(not true)", "false");
  is("(select true 1 2)", "1");
  is("(float:f32 3)", "3.0");
  is("(float:i64 3.9)", "3");
  is("(&& true (|| false true))", "true");
  is("(let x 3 (if (&& (> x 1) (< x 3)) 10 20))", "20");
  is("(let x 5 (+ (* x x) (- x 1)))", "29");
  is("(== \"a\" \"a\")", "true");
  is("(== () ())", "true");
  fails("(/ 1 0)", 506, "division by zero");
  fails("(let x 0 (% 1 x))", 506, "division by zero");
}

static void test_functions(void **state) {
  (void)state;
  funs(fib);
  is("(fib 27)", "196418");
  is("((fn (x y) (- x y)) 5 3)", "2");
  is("(let add (fn (x) (fn (y) (+ x y))) ((add 1) 2))", "3");
  is("(let add (fn (x) (fn (y) (+ x y))) (add 1 2))", "3");
  is("(let sub (fn (x y) (- x y)) (let five (sub 5) (five 3)))", "2");
  is("(let f (fn (a b c) (tuple a b c)) (((f 1) 2) 3))", "(1, 2, 3)");
  is("(let f (fn (a b c) (tuple a b c)) ((f 1 2) 3))", "(1, 2, 3)");
  is("(let f + (f 1 2))", "3");
  is("(let inc (+ 1) (inc 2))", "3");
  is("(fn (x) x)", "<fn>");
  is("(let f (fn ((x 7)) (+ x 1)) (tuple (f absent) (f 1)))", "(8, 2)");
  is("(let a 1 (let b 2 (let f (fn (x) (fn (y) (+ (+ a b) (+ x y))))"
     " ((f 3) 4))))",
     "10");
}

static void test_letrec(void **state) {
  (void)state;
  is("(letrec ((fact (fn (n) (if (== n 0) 1 (* n (fact (- n 1)))))))"
     " (fact 10))",
     "3628800");
  is("(let k 2 (letrec ((even (fn (n) (if (== n 0) true (odd (- n 1)))))"
     "          (odd (fn (n) (if (== n 0) false (even (- n (- k 1)))))))"
     " (tuple (even 10) (odd 7) (even 7))))",
     "(true, true, false)");
  is("(let k 10 (letrec ((f (fn (n) (lists.map (fn (x) (if (== x 0) k"
     " (f (- x 1)))) (list n))))) (list 1)))",
     "list [1]");
  is("(let k 1 (letrec ((loop (fn (n acc) (if (== n 0) acc"
     " (loop (- n k) (+ acc n)))))) (loop 1000000 0)))",
     "500000500000");
}

static void test_data(void **state) {
  (void)state;
  is("(tuple 1 2.0 \"x\" true ())", "(1, 2.0, \"x\", true, ())");
  is("(rec w 1 b (list 1 2))", "{w = 1, b = list [1, 2]}");
  is("(.b (rec a 1 b 2))", "2");
  is("(with (rec a 1 b 2) b 3)", "{a = 1, b = 3}");
  is("(con Some (con Some -1))", "Some (Some (-1))");
  is("(con None)", "None");
  is("(:: 1 (list 2 3))", "list [1, 2, 3]");
  is("(list)", "list []");
  is("(seq 1 2 3)", "3");
  is("(dims 2 _ (... (dims 3 4)))", "[2, _, 3, 4]");
  is("\"a\"", "\"a\"");
}

static void test_case(void **state) {
  (void)state;
  is("(case 3 (1 10) (3 30) (_ 0))", "30");
  is("(case (list 1 2 3) ((list) 0) ((:: x (:: y _)) (+ x y)))", "3");
  is("(case (list 1 2) ((list a b) (- a b)) (_ 0))", "-1");
  is("(case (con Some 4) ((con None) 0) ((con Some x) (+ x 1)))", "5");
  is("(case (tuple 1 (tuple 2 3)) ((tuple a (tuple b c)) (+ a (* b c))))", "7");
  is("(case \"b\" (\"a\" 1) (\"b\" 2) (_ 3))", "2");
  is("(case (rec a 1 b 2) ((rec b x) x))", "2");
  is("(case true (false 1) (true 2))", "2");
  is("(case (tuple 1 (list)) ((tuple 2 _) 1) ((as t (tuple _ (list))) t))",
     "(1, list [])");
  is("(case (dims 2 3 4 5) ((shape a * r b) (tuple a r b)))", "(2, [3, 4], 5)");
  is("(+ 1 (case (tuple 1 2) ((tuple a b) (- a b))))", "0");
  fails("(case (con Some 4) ((con None) 0))", 504, "no case matches Some 4");
  fails("(case (tuple 1 2) ((tuple 2 x) x))", 504, "(1, 2)");
  funs("(len (xs) (case xs ((list) 0) ((:: _ t) (+ 1 (len t)))))"
       "(rev (xs acc) (case xs ((list) acc) ((:: h t) (rev t (:: h acc)))))");
  is("(len (rev (list 1 2 3) (list)))", "3");
}

static void test_globals(void **state) {
  (void)state;
  val("(tuple a b)", "(tuple 1 (+ 1 1))");
  is("(+ a b)", "3");
  val("x", "(fn (y) (+ y a))");
  is("(x 41)", "42");
  fails("(case 1 (2 3))", 504, "1");
  CoreDec *lazy = read_val("later", "(+ a (seq (write \"once\") 5))");
  assert_true(eval_define_lazy(eval, lazy));
  assert_true(eval_define_lazy(eval, read_funs("(twice (z) (* later z))")));
  assert_null(written.text);
  is("(+ later (twice 2))", "18");
  assert_string_equal(written.text, "once");
  Var *var = lookup(globals, "later");
  ValueHandle *held = eval_global_handle(eval, var);
  Tensor *t = eval_tensor(eval, held, &diags);
  assert_int_equal(*(int64_t *)t->data, 6);
  tensor_release(t);
  value_handle_free(eval, held);
}

static size_t memory_used(void) {
  return mallinfo2().uordblks;
}

static void test_tail_calls(void **state) {
  (void)state;
  funs("(loop (n acc) (if (== n 0) acc (loop (- n 1) (+ acc n))))"
       "(ping (n) (if (== n 0) 0 (pong (- n 1))))"
       "(pong (n) (let m (- n 1) (case (tuple m n) ((tuple a _) (ping a)))))");
  is("(loop 10 0)", "55");
  size_t before = memory_used();
  is("(loop 1000000 0)", "500000500000");
  is("(ping 1000000)", "0");
  assert_true(memory_used() < before + 65536);
  is("(iterate 1000000 (fn (x) (+ x 1)) 0)", "1000000");
  is("(while (fn (x) (< x 1000)) (fn (x) (* x 2)) 1)", "1024");
}

static void test_deep(void **state) {
  (void)state;
  funs("(down (n) (if (== n 0) 0 (+ 1 (down (- n 1)))))"
       "(build (n xs) (if (== n 0) xs (build (- n 1) (:: n xs))))"
       "(total (xs) (case xs ((list) 0) ((:: h t) (+ h (total t)))))");
  is("(down 1000000)", "1000000");
  uint64_t live = eval_live_objects(eval);
  is("(total (build 1000000 (list)))", "500000500000");
  assert_int_equal(eval_live_objects(eval), live);
  const Diag *d = fails("(down -1)", 502, "recursion too deep");
  assert_true(d->span.file > 0);
  is("(down 10)", "10");
}

/* The graph of a recursion is cut between equal calls, and that of tail calls
 * between equal numbers of them, so that most pieces have a cached plan. */
static void test_recursive_graphs(void **state) {
  (void)state;
  funs("(tree (n x) (if (== n 0) x"
       "  (+ (tree (- n 1) (* x 3)) (tree (- n 1) (- x 1)))))"
       "(loop (n x) (if (== n 0) x (loop (- n 1) (- (* x 3) x))))");
  const Graph *g = eval_graph(eval);
  is("(tree 13 (tensor 1 2))", "[ 33558528, 100667392]");
  uint64_t hits = g->plan_cache_hits;
  assert_true(hits >= 20);
  is("(tree 13 (tensor 4 7))", "[234885120, 436211712]");
  assert_true(g->plan_cache_hits >= hits + 30);
  hits = g->plan_cache_hits;
  is("(loop 20000 (tensor 0 0))", "[0, 0]");
  assert_true(g->plan_cache_hits >= hits + 70);
}

/* An operand that is a known number makes no node. */
static void test_constant_operands(void **state) {
  (void)state;
  funs("(f (x) (* 3 (+ (- x 1) 2)))");
  const Graph *g = eval_graph(eval);
  is("(f (tensor 1 2))", "[6, 9]");
  uint32_t before = g->next_node_id;
  is("(tensor 1 2)", "[1, 2]");
  uint32_t data = g->next_node_id - before;
  is("(f (tensor 1 2))", "[6, 9]");
  assert_int_equal(g->next_node_id - before, 2 * data + 3);
}

/* A cached plan keeps the bytecode of small bodies for other operands and
 * constants. */
static void test_cached_bytecode(void **state) {
  (void)state;
  funs("(shift (x k) (+ (* x (tensor 3.0 4.0)) (* k 1.25)))");
  const Graph *g = eval_graph(eval);
  is("(shift (tensor 1.0 2.0) 3.0)", "[ 6.75, 11.75]");
  uint64_t compiled = g->compiled_bodies, hits = g->plan_cache_hits;
  is("(shift (tensor 5.0 7.0) 5.0)", "[21.25, 34.25]");
  assert_true(g->plan_cache_hits > hits);
  assert_true(g->compiled_bodies == compiled);
}

static void test_errors(void **state) {
  (void)state;
  fails("(fail \"no\")", 501, "no");
  fails("(assert (== 1 2))", 503, "does not hold");
  is("(assert true)", "()");
  funs("(inner (x) (/ 1 x)) (outer (x) (+ 1 (inner x)))");
  const Diag *d = fails("(+ 1 (outer 0))", 506, "division by zero");
  assert_int_equal(d->label_count, 1); /* one label per line */
  ValueHandle *held;
  assert_false(run("(seq (exit 3) 1)", &held));
  int status = 0;
  assert_true(eval_exited(eval, &status));
  assert_int_equal(status, 3);
}

static void test_interrupt(void **state) {
  (void)state;
  funs("(forever (n) (forever (+ n 1)))");
  uint64_t live = eval_live_objects(eval);
  Trap inner;
  interrupted = true;
  if (TRAP_SET(inner) == FAIL_NONE) {
    run("(forever 0)", NULL);
    fail();
  }
  assert_int_equal(inner.kind, FAIL_INTERRUPT);
  interrupted = false;
  assert_int_equal(eval_live_objects(eval), live);
}

static void test_strings(void **state) {
  (void)state;
  is("(^ \"a\" \"b\")", "\"ab\"");
  is("(strings.length \"a\303\251\")", "2");
  is("(strings.split 9 \",\" \"a,b,,c\")", "list [\"a\", \"b\", \"\", \"c\"]");
  is("(strings.split 1 \",\" \"a,b,,c\")", "list [\"a\", \"b,,c\"]");
  is("(strings.join \"-\" (list \"a\" \"b\"))", "\"a-b\"");
  is("(compare \"a\" \"b\")", "-1");
  is("(string (tuple 1 2))", "\"(1, 2)\"");
}

static void test_format(void **state) {
  (void)state;
  is("(lit format \"%d|%5.2f|%-4s|%s%%\" 4 3 1.5 \"ab\" (list 1))",
     "\"3| 1.50|ab  |list [1]%\"");
  is("(lit format \"%d\" 2 \"%d\" 7)", "\"7\"");
  fails("(lit format \"%d\" 1 1.5)", 509, "needs an integer");
  is("(parse_int \"-42\")", "-42");
  is("(parse_float:f64 \"0.5\")", "0.5");
  fails("(parse_int \"4x\")", 509, "is not an integer");
  is("(lists.length (args ()))", "2");
}

static void test_lists(void **state) {
  (void)state;
  is("(lists.map (fn (x) (* x x)) (list 1 2 3))", "list [1, 4, 9]");
  is("(lists.fold (fn (a b) (- a b)) 10 (list 1 2 3))", "4");
  is("(lists.tabulate 4 (fn (i) (* i 10)))", "list [0, 10, 20, 30]");
  is("(lists.reverse (list 1 2))", "list [2, 1]");
  is("(lists.length (lists.map (fn (x) (lists.tabulate x (fn (i) i)))"
     " (list 1 2)))",
     "2");
  is("(progress 3 (fn (i x) (+ x i)) 10)", "13");
  assert_int_equal(progress_last, 3);
}

/* ---- tensors ---- */

static void test_tensors(void **state) {
  (void)state;
  is("(tensor 1 2 3)", "[1, 2, 3]");
  is("(+ (tensor 1 2) 10)", "[11, 12]");
  is("(sum absent absent (tensor 1 2 3))", "6");
  is("(sum 0 absent (tensor (tensor 1 2) (tensor 3 4)))", "[4, 6]");
  is("(sum -1 true (tensor (tensor 1 2) (tensor 3 4)))", "[[3],\n [7]]");
  is("(max all-axes absent (tensor 1 5 2))", "5");
  is("(argmax absent absent (tensor 1 5 2))", "1");
  is("(@ (tensor (tensor 1 2)) (tensor (tensor 3) (tensor 4)))", "[[11]]");
  is("(shape (tensor (tensor 1 2 3)))", "[1, 3]");
  is("(dim -1 (tensor (tensor 1 2 3)))", "3");
  is("(reshape (dims 2 _) (tensor 1 2 3 4))", "[[1, 2],\n [3, 4]]");
  is("(lit einsum \"i j, j -> i\" 2 (tensor (tensor 1 2) (tensor 3 4))"
     " (tensor 1 1))",
     "[3, 7]");
  is("(lit permute \"i j -> j i\" 1 (tensor (tensor 1 2) (tensor 3 4)))",
     "[[1, 3],\n [2, 4]]");
  is("(lit concat \"\" 2 0 (tuple (tensor 1) (tensor 2 3)))", "[1, 2, 3]");
  is("(tensor 1 (... (tensor 2 3)) 4)", "[1, 2, 3, 4]");
  is("(iota:i64 4)", "[0, 1, 2, 3]");
  is("(zeros:f32 (dims 2))", "[0.0, 0.0]");
  is("(full (dims 2) 7)", "[7, 7]");
  is("(stack (list (tensor 1 2) (tensor 3 4)))", "[[1, 2],\n [3, 4]]");
  is("(unstack (tensor 1 2))", "list [1, 2]");
  is("(sort absent (tensor 3 1 2))", "[1, 2, 3]");
  is("(nonzero (tensor true false true))", "[0, 2]");
  is("(filter (fn (x) (> x 1)) (tensor 1 2 3))", "[2, 3]");
  is("(pad 0 1 2 absent (tensor 1 2))", "[0, 1, 2, 0, 0]");
  is("(case (lit split \"\" 3 0 (dims 1 _) (tensor 1 2 3)) ((tuple a b) b))",
     "[2, 3]");
  is("(== (tensor 1 2) (tensor 1 3))", "[ true, false]");
}

static void test_index(void **state) {
  (void)state;
  val("x", "(reshape (dims 2 3) (iota:i64 6))");
  is("(at x 1 2)", "5");
  is("(at x -1 -1)", "5");
  is("(at x 1 :)", "[3, 4, 5]");
  is("(at x ... 0)", "[0, 3]");
  is("(at x 0 (: 1 _))", "[1, 2]");
  is("(at x 0 (: _ -1))", "[0, 1]");
  is("(shape (at x : * :))", "[2, *, 3]");
  is("(at (tensor 10 20 30) (tensor 2 0))", "[30, 10]");
  fails("(at x 0 (: 1 4))", 507, "1:4");
  fails("(at x 2 0)", 507, "");
}

static void test_for(void **state) {
  (void)state;
  is("(for ((i 3)) (* i i))", "[0, 1, 4]");
  is("(for ((i 2) (j 3)) (+ (* i 10) j))", "[[ 0,  1,  2],\n [10, 11, 12]]");
  is("(let x (tensor 1 2 3 4) (for ((i 3)) (sum absent absent (for ((k 2))"
     " (at x (+ i k))))))",
     "[3, 5, 7]");
  is("(for ((i 3)) 7)", "[7, 7, 7]");
  is("(for ((i 4)) (if (< i 2) i (* i 10)))", "[ 0,  1, 20, 30]");
  is("(for ((i 4)) (if (&& (> i 0) (< i 3)) 1 0))", "[0, 1, 1, 0]");
  is("(for ((i 4)) (if (|| (< i 1) (> i 2)) 1 0))", "[1, 0, 0, 1]");
  is("(for ((i 3)) (tuple i (* 2 i)))", "([0, 1, 2], [0, 2, 4])");
  is("(for ((i 3)) (case i (0 5) (1 6) (_ i)))", "[5, 6, 2]");
  is("(for ((i 3)) (+ 1 (case (tuple i 1) ((tuple 0 _) 5) ((tuple x 1) x))))",
     "[6, 2, 3]");
  is("(map (fn (r) (sum absent absent r)) (tensor (tensor 1 2) (tensor 3 4)))",
     "[3, 7]");
  is("(map2 * (tensor 1 2) (tensor 3 4))", "[3, 8]");
  is("(let x (tensor 5 6) (for ((i 4)) (if (< i 2) (at x i) 0)))",
     "[5, 6, 0, 0]");
}

static void test_for_on_host(void **state) {
  (void)state;
  is("(for ((i 4)) (sum absent absent (for ((j (+ i 1))) j)))", "[0, 1, 3, 6]");
  is("(for ((i 2) (j 2)) (sum absent absent (iota:i64 (+ i j))))",
     "[[0, 0],\n [0, 1]]");
  funs("(collatz (n) (if (== n 1) 0 (+ 1 (collatz (if (== (% n 2) 0) (/ n 2)"
       " (+ (* 3 n) 1))))))");
  is("(map collatz (tensor 1 6 7 27))", "[  0,   8,  16, 111]");
  is("(for ((i 3)) (while (fn (x) (< x 10)) (fn (x) (* 2 x)) (+ i 1)))",
     "[16, 16, 12]");
  is("(for ((i 2)) (for ((j 2)) (while (fn (x) (< x 3)) (fn (x) (+ 1 x)) i)))",
     "[[3, 3],\n [3, 3]]");
  fails("(for ((i 3)) (seq (assert (< i 2)) i))", 503, "");
}

static void test_nothing(void **state) {
  (void)state;
  val("none", "(at (tensor (tensor 1 2)) (: 1 _) :)");
  is("(shape none)", "[0, 2]");
  is("(for ((i 0)) (* i 2))", "[]");
  is("(shape (map (fn (r) (sum absent absent r)) none))", "[0]");
  is("(case (scan (fn (a r) (tuple a (+ r a))) 5 none)"
     " ((tuple c y) (tuple c (shape y))))",
     "(5, [0, 2])");
  is("(fold (fn (a r) (+ a r)) 3 none)", "3");
  is("(iterate 0 (fn (x) (fail \"no\")) 1)", "1");
  is("(lists.map (fn (x) (fail \"no\")) (list))", "list []");
  is("(filter (fn (x) (> x 9)) (tensor 1 2))", "[]");
}

/* A body that would make too many nodes is run index by index. */
static void test_long_bodies(void **state) {
  (void)state;
  is("(for ((i 3)) (fold (fn (a x) (+ a (* x i))) 0 (iota:i64 60000)))",
     "[         0, 1799970000, 3599940000]");
}

static void test_library_places(void **state) {
  (void)state;
  funs("(broken (x) (+ 1 (/ x 0)))");
  sources.files.at[sources.files.len - 1]->is_library = true;
  funs("(mine (x) (+ 2 (broken x)))");
  const Diag *d = fails("(+ 3 (mine 1))", 506, "division by zero");
  assert_int_equal(d->span.file, sources.files.len - 2);
  assert_non_null(strstr(d->note, "`broken`"));
  assert_int_equal(d->label_count, 1);
  assert_int_equal(d->labels[0].span.file, sources.files.len - 1);
}

/* Lazy definitions whose first use is inside a symbolic run. */
static void test_lazy_in_for(void **state) {
  (void)state;
  eval_define_lazy(eval, read_val("table", "(for ((i 4)) (* i i))"));
  eval_define_lazy(eval, read_val("bad", "(fail \"bad\")"));
  is("(for ((i 4)) (if (< i 2) (at table i) 0))", "[0, 1, 0, 0]");
  is("(for ((i 2)) (if (< i 2) i bad))", "[0, 1]");
  fails("(for ((i 4)) (if (< i 2) i bad))", 501, "bad");
}

static void test_folds(void **state) {
  (void)state;
  is("(fold (fn (a b) (+ (* a 10) b)) 0 (tensor 1 2 3))", "123");
  is("(reduce + 0 (tensor 1 2 3))", "6");
  is("(scan (fn (a b) (tuple (+ a b) (+ a b))) 0 (tensor 1 2 3))",
     "(6, [1, 3, 6])");
  is("(fold (fn (a r) (+ a r)) (tensor 0 0) (tensor (tensor 1 2)"
     " (tensor 3 4)))",
     "[4, 6]");
  is("(map (fn (r) (fold + 0 r)) (tensor (tensor 1 2) (tensor 3 4)))",
     "[3, 7]");
  is("(sum absent absent (iterate 3000 (fn (x) (+ x 1)) (tensor 1 2)))",
     "6003");
}

static void test_laziness(void **state) {
  (void)state;
  is("(let x (sum absent absent (tensor 1 2)) (tuple (|| (== x 1) (== x 3))"
     " (&& (== x 3) (== x 1)) (|| (== x 3) false) (&& (== x 1) true)))",
     "(true, false, true, false)");
  is("(if (> (sum absent absent (tensor 1 2)) 2) \"big\" \"small\")",
     "\"big\"");
  is("(lists.tabulate (sum absent absent (tensor 1 2)) (fn (i) i))",
     "list [0, 1, 2]");
  is("(seq (print (tensor 1 2)) (print \"bare\") (print (tuple \"q\")))", "()");
  assert_string_equal(written.text, "[1, 2]\nbare\n(\"q\")\n");
}

/* ---- implicit parameters, sizes, checks ---- */

static DimVar *size(const char *name) {
  return dim_new_var(&dims, DV_SKOLEM, symbol(name), (Span){0});
}

static Core *core_app(Core *f, Core *x) {
  Core *items[2] = {f, x}, *c = new_core(CORE_APP);
  set_items(c, 2, items);
  return c;
}

static void run_core(Core *c, const char *expected) {
  CoreDec dec = {.kind = CD_EXPR, .expr = c};
  ValueHandle *held;
  Buffer out = {0};
  if (!eval_run(eval, &dec, &diags, &held)) {
    show_diags();
    fail();
  }
  assert_true(eval_print(eval, held, &out, &diags));
  assert_string_equal(out.text, expected);
  buffer_free(&out);
  value_handle_free(eval, held);
}

static Core *core_dim(Dim *d) {
  Core *c = new_core(CORE_DIM);
  c->dim = d;
  return c;
}

static void test_hidden(void **state) {
  (void)state;
  begin("");
  DimVar *n = size("n");
  ElemVar *elem = (ElemVar *)(void *)arena_alloc(arena, 16);
  ShapeVar *s = (ShapeVar *)(void *)arena_alloc(arena, 16);
  ImplicitArg params[3] = {{.kind = IMPLICIT_ELEM, .elem = {.var = elem}},
                           {.kind = IMPLICIT_DIM, .dim_var = n},
                           {.kind = IMPLICIT_SHAPE, .shape_var = s}};
  /* tlam 'a n s. fn x => (x, 3 at 'a, n * n + 1, [n, *, ...s, prod(s)]) */
  Var *x = new_var("x", false);
  Core *parts[4];
  parts[0] = new_core(CORE_VAR);
  parts[0]->var = x;
  parts[1] = new_core(CORE_NUM);
  parts[1]->num = "3";
  parts[1]->elem.var = elem;
  Dim *dn = dim_of_var(&dims, n);
  parts[2] =
      core_dim(dim_add(&dims, dim_mul(&dims, dn, dn), dim_int(&dims, 1)));
  CoreAxis items[4] = {{.kind = CORE_AXIS_DIM, .dim = dn},
                       {.kind = CORE_AXIS_STAR},
                       {.kind = CORE_AXIS_SPLICE, .var = s},
                       {.kind = CORE_AXIS_DIM, .dim = dim_of_prod(&dims, s)}};
  parts[3] = new_core(CORE_SHAPE_VALUE);
  parts[3]->shape = (CoreShape){items, 4};
  Core *body = new_core(CORE_TUPLE);
  set_items(body, 4, parts);
  Core *lam = new_core(CORE_LAM);
  CoreParam param = {.var = x};
  lam->params = &param;
  lam->param_count = 1;
  set_items(lam, 1, &body);
  Core *tlam = new_core(CORE_TLAM);
  tlam->implicits = params;
  tlam->implicit_count = 3;
  set_items(tlam, 1, &lam);
  CoreAxis two[2] = {{.kind = CORE_AXIS_DIM, .dim = dim_int(&dims, 4)},
                     {.kind = CORE_AXIS_DIM, .dim = dim_int(&dims, 5)}};
  ImplicitArg args[3] = {{.kind = IMPLICIT_ELEM, .elem = {.dtype = DT_F32}},
                         {.kind = IMPLICIT_DIM, .dim = dim_int(&dims, 7)},
                         {.kind = IMPLICIT_SHAPE, .shape = {two, 2}}};
  Core *tapp = new_core(CORE_TAPP);
  tapp->implicits = args;
  tapp->implicit_count = 3;
  set_items(tapp, 1, &tlam);
  Core *str = new_core(CORE_STRING);
  str->text = "x";
  str->text_len = 1;
  run_core(core_app(tapp, str), "(\"x\", 3.0, 50, [7, *, 4, 5, 20])");
}

static void test_open_and_check(void **state) {
  (void)state;
  DimVar *n = size("n");
  SizePath bind_n = {.var = n, .axis = -1};
  CoreDec *dec = read_val("data", "(reshape (dims 2 3) (iota:i64 6))");
  Core *open = new_core(CORE_UNPACK);
  set_items(open, 1, &dec->expr);
  open->size_paths = &bind_n;
  open->size_path_count = 1;
  dec->expr = open;
  assert_true(eval_run(eval, dec, &diags, NULL));
  begin("0123456789");
  run_core(core_dim(dim_of_var(&dims, n)), "3");

  Diag diag = {.severity = SEV_ERROR,
               .code = 301,
               .message = "sizes differ",
               .span = {file, 2, 4},
               .help = "make them equal"};
  CoreCondition cond = {CHECK_LE, dim_int(&dims, 2), dim_int(&dims, 1)};
  CoreCheck checks[2] = {{.kind = CHECK_LE,
                          .left = dim_of_var(&dims, n),
                          .right = dim_int(&dims, 3),
                          .diag = &diag},
                         {.kind = CHECK_EQ,
                          .left = dim_of_var(&dims, n),
                          .right = dim_int(&dims, 4),
                          .conditions = &cond,
                          .condition_count = 1,
                          .diag = &diag}};
  Core *check = new_core(CORE_CHECK), *one = core_dim(dim_int(&dims, 1));
  set_items(check, 1, &one);
  check->checks = checks;
  check->check_count = 2;
  run_core(check, "1");
  checks[1].condition_count = 0;
  CoreDec expr = {.kind = CD_EXPR, .expr = check};
  assert_false(eval_run(eval, &expr, &diags, NULL));
  const Diag *d = diags.all.at[diags.all.len - 1];
  assert_int_equal(d->code, 301);
  assert_string_equal(d->message, "sizes differ: 3 meets 4");
  assert_string_equal(d->help, "make them equal");
  assert_int_equal(d->span.start, 2);
}

/* ---- memory ---- */

static const char *const programs[] = {
    "(lists.map (fn (x) (tuple x (list x))) (list 1 2 3))",
    "(for ((i 4)) (if (< i 2) i (* i 10)))",
    "(for ((i 4)) (sum absent absent (for ((j (+ i 1))) j)))",
    "(scan (fn (a b) (tuple (+ a b) (rec q (+ a b)))) 0 (tensor 1 2 3))",
    "(letrec ((f (fn (n) (if (== n 0) (list) (:: n (f (- n 1))))))) (f 100))",
    "(iterate 100 (fn (x) (+ x 1.0)) (tensor 1.0 2.0))",
    "(strings.join \",\" (strings.split \" \" \"a b c\"))",
    "(lit format \"%s %d\" 2 (list 1 2) 3)",
};

static void test_no_leaks(void **state) {
  (void)state;
  for (uint32_t i = 0; i < ARRAY_LEN(programs); i++) {
    ValueHandle *held;
    assert_true(run(programs[i], &held));
    value_handle_free(eval, held);
  }
  begin("(case (tuple 1 2) ((tuple 2 _) 3))");
  CoreDec dec = {.kind = CD_EXPR, .expr = read_expr(NULL)};
  uint64_t live = eval_live_objects(eval);
  assert_false(eval_run(eval, &dec, &diags, NULL));
  assert_int_equal(eval_live_objects(eval), live);
}

static void run_failing(const char *text, uint64_t n) {
  CoreDec dec = {.kind = CD_EXPR};
  ValueHandle *volatile result = NULL;
  Trap inner;
  begin(text);
  dec.expr = read_expr(NULL);
  if (TRAP_SET(inner) == FAIL_NONE) {
    ValueHandle *held;
    mem_inject_failure_at(n);
    if (eval_run(eval, &dec, &diags, &held))
      result = held;
    trap_end(&inner);
  }
  mem_inject_failure_at(0);
  value_handle_free(eval, result);
}

static void test_memory_fails(void **state) {
  (void)state;
  for (uint32_t i = 0; i < ARRAY_LEN(programs); i++)
    for (uint64_t n = 1; n < 120; n++)
      run_failing(programs[i], n);
  is("(+ 1 2)", "3");
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      T(test_scalars),
      T(test_functions),
      T(test_letrec),
      T(test_data),
      T(test_case),
      T(test_globals),
      T(test_tail_calls),
      T(test_deep),
      T(test_recursive_graphs),
      T(test_constant_operands),
      T(test_cached_bytecode),
      T(test_errors),
      T(test_interrupt),
      T(test_strings),
      T(test_format),
      T(test_lists),
      T(test_tensors),
      T(test_index),
      T(test_for),
      T(test_for_on_host),
      T(test_folds),
      T(test_nothing),
      T(test_long_bodies),
      T(test_library_places),
      T(test_lazy_in_for),
      T(test_laziness),
      T(test_hidden),
      T(test_open_and_check),
      T(test_no_leaks),
      T(test_memory_fails),
  };
#undef T
  return cmocka_run_group_tests(tests, NULL, NULL);
}
