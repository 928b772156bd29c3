/* Tests that the module llama plans the steps of a text once: the layers of a
 * small model do the same for each token. */
#include "session/session.h"
#include "session/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { TOKENS = 8, LAYERS = 6 };

static const char model[] =
    "fun matrix n k =\n"
    "  llama.Dense (force (forget (for i < n, j < k =>\n"
    "    f32 ((i * 7 + j * 3) % 11) / 11.0 - 0.4)))\n"
    "fun ones_of n = forget (force (ones [n] : f32[?]))\n"
    "fun layer _ : llama.layer =\n"
    "  {norm1 = ones_of 8, q = matrix 8 8, k = matrix 4 8, v = matrix 4 8,\n"
    "   o = matrix 8 8, norm2 = ones_of 8, gate = matrix 12 8,\n"
    "   up = matrix 12 8, down = matrix 8 12}\n"
    "val m : llama.model =\n"
    "  {tokens = matrix 16 8, layers = lists.tabulate 6 layer,\n"
    "   norm = ones_of 8, out = matrix 16 8, heads = 2, groups = 1, head = 4,\n"
    "   context = 64, eps = 1e-5, base = 10000.0, stops = list [],\n"
    "   tokenizer = tokenizer.Tokenizer {file = \"\", id = 0, size = 16}}\n"
    "fun next (s : llama.state) = snd (force (llama.step m s (forget [3])))\n"
    "val s = next (next (next (llama.empty m 64)))\n";

static void run(Session *s, const char *text) {
  SourceInput input = {.name = "test", .text = text, .len = strlen(text)};
  assert_int_equal(session_check(s, &input), SESSION_OK);
  assert_int_equal(session_run(s), SESSION_OK);
}

static void test_steps(void **state) {
  (void)state;
  SessionHost host = {0};
  Session *s = session_open(&host);
  assert_non_null(s);
  run(s, model);
  const Graph *g = eval_graph(s->eval);
  uint64_t hits = g->plan_cache_hits, misses = g->plan_cache_misses;
  for (int k = 0; k < TOKENS; k++)
    run(s, "val s = next s");
  assert_true(g->plan_cache_hits - hits > TOKENS * LAYERS);
  /* the positions of the tokens are numbers in a plan, but no others */
  assert_true(g->plan_cache_misses - misses < 2 * TOKENS);
  session_close(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
