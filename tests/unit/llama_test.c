/* Tests that the module llama plans the steps of a text once: the layers of a
 * small model do the same for each token.  If their matrices have 4 bits, all
 * layers are one loop. */
#include "session/session.h"
#include "session/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { TOKENS = 8, LAYERS = 6, MAX_STEP_PLANS = 24 };

#define MODEL(width, layers, groups, head)                                   \
  "val m : llama.model =\n"                                                  \
  "  {tokens = matrix 16 " width ", layers = layers " layers ",\n"           \
  "   depth = " layers ",\n"                                                 \
  "   norm = ones_of " width ", out = matrix 16 " width ",\n"                \
  "   heads = 2, groups = " groups ", head = " head ", context = 64,\n"      \
  "   eps = 1e-5, base = 10000.0, stops = list [],\n"                        \
  "   tokenizer = tokenizer.Tokenizer {file = \"\", id = 0, size = 16}}\n"   \
  "fun next (s : llama.state) = snd (force (llama.step m s (forget [3])))\n" \
  "val s = next (next (next (llama.empty m 64)))\n"

static const char functions[] =
    "fun matrix n k =\n"
    "  llama.Dense (force (forget (for i < n, j < k =>\n"
    "    f32 ((i * 7 + j * 3) % 11) / 11.0 - 0.4)))\n"
    "fun nibbles depth tiles k : llama.stack =\n"
    "  force\n"
    "    {q = for d < depth, i < tiles, b < k / 32, w < 4, l < 64, t < 4 =>\n"
    "       u8 ((d + i * 7 + b * 3 + w + l * 5 + t) % 256),\n"
    "     scale = for d < depth, i < tiles, b < k / 32, l < 64 => f16 0.01,\n"
    "     least = for d < depth, i < tiles, b < k / 32, l < 64 => f16 "
    "(-0.07),\n"
    "     factor = ones [depth]}\n"
    "fun ones_of n = forget (force (ones [n] : f32[?]))\n";

static const char model[] =
    "fun layer _ : llama.layer =\n"
    "  {norm1 = ones_of 8,\n"
    "   qkv = llama.Joined (list [matrix 8 8, matrix 4 8, matrix 4 8]),\n"
    "   o = matrix 8 8, norm2 = ones_of 8,\n"
    "   gate_up = llama.Joined (list [matrix 12 8, matrix 12 8]),\n"
    "   down = matrix 8 12}\n"
    "fun layers n = llama.Listed (lists.tabulate n layer)\n" MODEL("8", "6",
                                                                   "1", "4");

static const char stacked_model[] =
    "fun layers n = llama.Stacked\n"
    "  {norm1 = force (forget (ones [n, 64])), qkv = nibbles n 2 64,\n"
    "   o = nibbles n 1 64, norm2 = force (forget (ones [n, 64])),\n"
    "   gate_up = nibbles n 2 64, down = nibbles n 1 64}\n" MODEL("64", "30",
                                                                  "1", "32");

static void run(Session *s, const char *text) {
  SourceInput input = {.name = "test", .text = text, .len = strlen(text)};
  assert_int_equal(session_check(s, &input), SESSION_OK);
  assert_int_equal(session_run(s), SESSION_OK);
}

/* The plans that TOKENS steps find, and those that they make. */
static void count_plans(const char *text, uint64_t *found, uint64_t *made) {
  SessionHost host = {0};
  Session *s = session_open(&host);
  assert_non_null(s);
  run(s, functions);
  run(s, text);
  const Graph *g = eval_graph(s->eval);
  *found = g->plan_cache_hits;
  *made = g->plan_cache_misses;
  for (int k = 0; k < TOKENS; k++)
    run(s, "val s = next s");
  *found = g->plan_cache_hits - *found;
  *made = g->plan_cache_misses - *made;
  session_close(s);
}

static void test_steps(void **state) {
  (void)state;
  uint64_t found, made;
  count_plans(model, &found, &made);
  assert_true(found > TOKENS * LAYERS);
  /* the positions of the tokens are numbers in a plan, but no others */
  assert_true(made < 2 * TOKENS);
}

static void test_loop_of_layers(void **state) {
  (void)state;
  uint64_t found, made;
  count_plans(stacked_model, &found, &made);
  assert_true(found + made < TOKENS * MAX_STEP_PLANS);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps),
                                     cmocka_unit_test(test_loop_of_layers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
