/* Tests schedules of nests (kernel/nest.h): what each step makes, and what is
 * refused.  The loop nest has a parallel axis i0, a spatial axis i1 and a
 * reduced axis i2. */
#include "tests/unit/tensors.h"

#include "kernel/nest.h"
#include "support/arena.h"
#include "support/arena_text.h"
#include "support/buffer.h"

#include <string.h>

static LoopNest *new_spec(Arena *arena, PrimId reduce) {
  LoopNest *spec = NEW(arena, LoopNest);
  KernelOp one = {.kind = KOP_CONST, .dtype = DT_F32};
  LoopOutput sum = {.reduce = reduce, .dtype = DT_F32};
  spec->graph = NEW(arena, Graph);
  spec->parallel_axes = 1;
  spec->spatial_axes = 2;
  spec->axis_count = 3;
  spec->extents[0] = 64;
  spec->extents[1] = 100;
  spec->extents[2] = 300;
  VEC_PUSH(arena, spec->ops, one);
  VEC_PUSH(arena, spec->outputs, sum);
  return spec;
}

static Nest *new_nest(Arena *arena) {
  return nest_new(arena, new_spec(arena, PRIM_SUM), NULL);
}

typedef struct Refused {
  const char *schedule, *error;
} Refused;

static const Refused refused[] = {
    {"blocks i2", "i2 is inside of a loop that is no thread block"},
    {"blocks i0; blocks i1; blocks i2",
     "i2 is summed: thread blocks may have parts of it, after a tile, if the "
     "reduction is associative"},
    {"blocks i0; order i1, i0", "i1 cannot move outside of thread blocks"},
    {"blocks i0; threads i0", "i0 is not serial"},
    {"threads i2; threads i2", "i2 is not serial"},
    {"tile i2 8; registers i2",
     "i2 is not unrolled, and only elements of unrolled iterations can be in "
     "registers"},
    {"online i2", "i2 is no serial loop over tiles of a sum: tile it first"},
    {"flatten i0, i1; flatten i3, i2",
     "i3 cannot be flattened: a step has made an axis already"},
    {"tile i2 8; tile i2.1 4; online i2.1; unroll i2.1",
     "loop 3: a loop of online sums that is no serial loop with the tail "
     "`less`"},
    {"tile i1 8; threads i1.1",
     "i1.1 has no constant number of threads: tile it"},
    {"flatten i0, i2", "i2 is summed, and the loop before it is not"},
    {"flatten i0", "i0 is one loop: name several"},
    {"flatten i1, i0",
     "i0 does not follow the loop that is named before it: order them first"},
    {"tile i0 8; flatten i0.1, i1",
     "i1 does not follow the loop that is named before it: order them first"},
    {"tile i1 16; tile i1 6; order i1.2, i0, i1.1, i1; order i0, i1.2; "
     "flatten i0, i1.2",
     "flattened i1: step 16, not 18"},
    {"tile i1 8; order i1.1, i0, i1; flatten i0, i1",
     "i1 is inside of a loop of the same axis: flatten outermost pieces"},
    {"shuffle i0",
     "i0 cannot load shuffled operands: flatten loops of constant numbers of "
     "iterations, and make the lanes of the flattened loop"},
    {"tile i0 6; tile i1 4; order i0.1, i1.1, i0, i1, i2; atom i0, i1, i2",
     "i1 is not the axis of the columns of a product"},
    {"tile i1 1 spread",
     "i1 needs a tile of at least two iterations: spread takes one from the "
     "last tiles"},
    {"tile i1 8 spread; tile i1 2",
     "i1.2 has tail spread: it must be serial, and its inner piece neither "
     "tiled nor lanes nor flattened"},
    {"tile i2 8 spread; lanes i2",
     "i2.1 has tail spread: it must be serial, and its inner piece neither "
     "tiled nor lanes nor flattened"},
    {"tile i0 8 spread; tasks i0.1",
     "i0.1 has tail spread: it must be serial, and its inner piece neither "
     "tiled nor lanes nor flattened"},
    {"tile i0 8 spread; flatten i0, i1",
     "i0 has tail spread: it must be serial, and its inner piece neither "
     "tiled nor lanes nor flattened"},
    {"tile i1 8 argument peel",
     "i1 has a tile whose size is an argument: its tail is less"},
    {"tile i1 8 argument; unroll i1",
     "i1 has no constant number of iterations: tile it"},
    {"tile i1 8 argument; threads i1",
     "i1 has no constant number of threads: tile it"},
    {"tile i1 8; tile i1.1 4 argument; unroll i1.1",
     "i1.1 has no constant number of iterations: tile it"},
    {"tile i2 8 argument; lanes i2",
     "i2 has no constant number of lanes: tile it, and bind the innermost "
     "piece"},
    {"tile i2 8 argument; parts i2",
     "i2 has no constant number of iterations: tile it"},
    {"tile i1 8 argument; order i1.1, i2, i1",
     "i1 would have an unknown number of sums: tile it"},
    {"tile i0 4 argument; flatten i0, i1; unroll i3",
     "i3 has no constant number of iterations: tile it"},
    {"tile i2 4 shift", "i2 is summed: shift would add terms twice"},
    {"tile i1 101 shift",
     "i1 has fewer iterations than a tile, or their number is not constant: "
     "shift needs a full tile: use less or peel"},
    {"tile i1 30; tile i1.1 4 shift",
     "i1.1 has fewer iterations than a tile, or their number is not constant: "
     "shift needs a full tile: use less or peel"},
    {"tile i1 8 shift; tile i1.1 2",
     "i1.1 has tail shift: it must be serial, and the outermost loop of its "
     "axis"},
    {"tile i1 8 shift; order i1.1, i0; tasks i1.1",
     "i1.1 has tail shift: it must be serial, and the outermost loop of its "
     "axis"},
    {"blocks i0; flatten i0, i1", "i0 is not serial"},
    {"flatten i0, i1; tile i0 4",
     "i0.0 does not exist: its loop was flattened"},
    {"flatten i0, i1; stream i2, i2",
     "i2 cannot share input rows: there are flattened loops"},
    {"tile i1 8; flatten i0, i1.1; flatten i3, i1",
     "i3 cannot be flattened: a step has made an axis already"},
    {"tile i1 8; flatten i0, i1.1; tile i1 3",
     "i1 has 8 iterations: 3 does not divide them"},
    {"shared i2", "i2 is no axis of the results"},
    {"shared i0; shared i1",
     "i1 cannot have tiles in shared memory: another axis has"},
    {"interleave i2", "i2 is summed: only iterations that store elements can "
                      "be interleaved"},
    {"tile i1 4; unroll i1; interleave i1",
     "i1 is not a whole axis that is unrolled: unroll all its iterations"},
    {"unroll i1; transpose i1",
     "i1 cannot be transposed: this loop nest has sums, and only vectors that "
     "are stored can be"},
    {"unroll i1; interleave i1",
     "i1 has 100 iterations, and 2 to 4 can be interleaved"},
    {"tile i9 4", "i9.0 does not exist"},
    {"tile i0.1 4", "i0.1 does not exist"},
    {"tile i0 0", "i0 needs a tile of at least one iteration"},
    {"tile i1 2147483647; tile i1.1 2",
     "i1.1 would have more than 2147483647 iterations in a tile"},
    {"unroll i1; tile i1 4",
     "i1 is not serial: tile it before it is bound or unrolled"},
    {"tile i0 8 peel; tile i0 3",
     "i0 has 8 iterations: 3 does not divide them"},
    {"tile i2 4 clamp", "i2 is summed: clamp would add its last term twice"},
    {"tile i1 64; tile i1 32; tile i1 16; tile i1 8; tile i1 4; tile i1 2",
     "i1 has too many pieces already"},
    {"order i0, i0", "i0 is named twice"},
    {"tile i1 4; order i1, i1.1",
     "i1 is a piece of the same axis, and must stay inside"},
    {"order i2, i1", "i1 would have an unknown number of sums: tile it"},
    {"tasks i0; order i1, i0", "i1 cannot move outside of tasks"},
    {"tile i2 8 peel; lanes i2; order i2, i1",
     "i2 are lanes, which are innermost"},
    {"tile i1 8; unroll i1.1", "i1.1 has no constant number of iterations: "
                               "tile it"},
    {"unroll i1; unroll i1", "i1 is not serial"},
    {"tasks i1", "i1 is inside of a loop that is no task"},
    {"tasks i0; tasks i0", "i0 is not serial"},
    {"tasks i0; tasks i1; tasks i2",
     "i2 is summed: tasks may have parts of it, after a tile, if the reduction "
     "is associative"},
    {"lanes i2", "i2 has no constant number of lanes: tile it, and bind the "
                 "innermost piece"},
    {"tile i1 8 peel; lanes i1",
     "i1 is not the innermost loop: order it first"},
    {"tile i2 8; lanes i2; lanes i2.1", "i2.1 has no constant number of lanes: "
                                        "tile it, and bind the innermost "
                                        "piece"},
    {"tile i2 8 peel; lanes i2 peel",
     "i2 are lanes, whose tail is less or mask"},
    {"parts i1", "i1 is not summed"},
    {"parts i2", "i2 has no constant number of iterations: tile it"},
    {"run i1", "i1 is not summed"},
    {"tile i2 8; poll i2.1",
     "i2.1 is no loop over the iterations of a recurrence"},
    {"tile i2 8; run i2.1; tile i2.1 3 if",
     "i2.1 is a run: tile it with `less`"},
    {"tile i2 8; tile i2.1 3; run i2.1; unroll i2.1",
     "i2.1 is a run, which stays serial"},
    {"unroll i0; unroll i1; tile i2 8; order i2.1, i0, i1; run i2.1; "
     "tasks i2.1",
     "i2.1 is a run, which stays serial"},
    {"run i2",
     "i2 is not a piece with shorter last iterations: write `tile A n "
     "less` first"},
    {"tile i2 8 peel; run i2.1", "i2.1 is not a piece with shorter last "
                                 "iterations: write `tile A n less` first"},
    {"stream i1, i2",
     "i1 must be rows that are unrolled, outside of the terms"},
    {"tile i1 4 peel; unroll i1; stream i1, i2",
     "i1 reads no windows that overlap along the terms"},
    {"tile i1 4 peel; unroll i1; tile i2 3; stream i1, i2",
     "i1 needs terms that are not tiled"},
    {"broadcast", "broadcast: no rows share their terms: stream comes first"},
    {"strips i2", "i2 is no serial loop over tiles: tile it first"},
    {"tile i2 8; strips i2.1",
     "i2.1 is not the axis that the loop nests of this kernel share in an "
     "online reduction"},
    {"masked", "masked: no rows share input rows: stream comes first"},
    {"fma", "fma: the sum is no sum of products of f32 or f64"},
    {"til i0 3",
     "expected one of the steps tile, order, unroll, tasks, strips, lanes, "
     "parts, run, poll, stream, broadcast, masked, fma, epilogue, flatten, "
     "blocks, threads, interleave, shuffle, transpose, atom, pack, finish, "
     "registers, online, shared"},
    {"tile 3", "expected tile A n [argument] [less | peel | if | mask | clamp "
               "| shift | spread]: "
               "splits A by n"},
    {"tile i99 3",
     "expected tile A n [argument] [less | peel | if | mask | clamp | "
     "shift | spread]: splits A by n"},
    {"tile i0, i1 3",
     "expected tile A n [argument] [less | peel | if | mask | clamp | "
     "shift | spread]: splits A by n"},
    {"tile i0", "expected tile A n [argument] [less | peel | if | mask | clamp "
                "| shift | spread]: "
                "splits A by n"},
    {"tile i0 99999999999",
     "expected tile A n [argument] [less | peel | if | mask | "
     "clamp | shift | spread]: splits A by n"},
    {"tile i0 4 tasks i0.1",
     "expected tile A n [argument] [less | peel | if | mask | "
     "clamp | shift | spread]: splits A by n"},
    {"stream i1",
     "expected stream A, K: rows A share the input rows of terms K"},
    {"order", "expected order A, B, …: the loops in this order, outermost "
              "first"},
};

/* Steps of a loop nest whose output is a state. */
static const Refused refused_of_states[] = {
    {"tile i2 8; parts i2",
     "i2 belongs to a loop that also stores each element"},
    {"tasks i0; tasks i1; tile i2 8; tasks i2.1",
     "i2.1 is summed: tasks may have parts of it, after a tile, if the "
     "reduction is associative"},
    {"tile i2 8 peel; lanes i2",
     "i2 cannot be lanes: each iteration needs the state before"},
    {"threads i2",
     "i2 cannot be threads: each iteration needs the state before"},
    {"poll i1", "i1 is no loop over the iterations of a recurrence"},
    {"poll i2", "i2 would test for an interrupt in each iteration: write "
                "`tile A n less` first, and poll the outer piece"},
    {"tile i2 8 peel; poll i2.1",
     "i2.1 would test for an interrupt in each iteration: write `tile A n "
     "less` first, and poll the outer piece"},
    {"tile i2 8; poll i2.1; tile i2.1 3 if",
     "loop 2: a poll that is no serial loop with the tail `less`"},
    {"tile i2 8; tile i2.1 4; poll i2.1; unroll i2.1",
     "loop 3: a poll that is no serial loop with the tail `less`"},
};

/* Rows i1, columns i2 and terms i3 of a batch i0; the right operand is the same
 * in the whole batch. */
static LoopNest *new_product(Arena *arena) {
  LoopNest *spec = new_spec(arena, PRIM_SUM);
  KernelOp load = {.kind = KOP_LOAD, .dtype = DT_F32},
           product = {.kind = KOP_MAP,
                      .op = PRIM_MUL,
                      .dtype = DT_F32,
                      .arg_count = 2,
                      .args = {1, 2}};
  spec->spatial_axes = 3;
  spec->axis_count = 4;
  spec->extents[3] = 200;
  for (uint32_t right = 0; right < 2; right++) {
    AffineExpr *at = affine_new(arena, 0);
    at->coef[1] = at->coef[0] = !right;
    at->coef[2] = right;
    at->coef[3] = 1;
    load.address = at;
    VEC_PUSH(arena, spec->ops, load);
  }
  VEC_PUSH(arena, spec->ops, product);
  spec->outputs.at[0].value_op = 3;
  return spec;
}

#define TILES                                                                \
  "tile i1 96 argument; tile i1 6 spread; tile i2 64; tile i3 32 argument; " \
  "order i1.2, i1.1, i2.1, i3.1, i1, i2, i3; atom i1, i2, i3; "              \
  "order i1.2, i3.1, i2.1, i1.1; "

static const Refused refused_of_products[] = {
    {"atom i1, i2",
     "i1 belongs to no register tile: name three loops: rows, columns and "
     "terms"},
    {"tile i1 6; tile i2 64; unroll i1; atom i1, i2, i3", "i1 is not serial"},
    {"tile i1 6 argument; tile i2 64; atom i1, i2, i3",
     "i1 has no constant number of iterations: tile it"},
    {"tile i1 6; tile i2 64; atom i1, i3, i2",
     "i3 is summed: name rows, columns and terms"},
    {"tile i1 6; tile i2 64; atom i1, i2, i2.1",
     "i2.1 is not summed: name rows, columns and terms"},
    {"tile i1 6; tile i2 64; atom i1, i2, i3",
     "i1 is in a register tile: order rows, columns and terms innermost, in "
     "this order"},
    {TILES "order i3, i1, i2",
     "i3 is in a register tile: order rows, columns and terms innermost, in "
     "this order"},
    {"tile i0 6; tile i1 6; order i0.1, i1.1, i2, i0, i1, i3; "
     "atom i0, i1, i3",
     "i0 is not the axis of the rows of a product"},
    {"tile i0 6; tile i1 6; order i0.1, i1.1, i2, i0, i1, i3; pack i0 left",
     "i0 packs or finishes what no register tile inside of it has: write `atom "
     "A, B, K` first"},
    {TILES "finish i1",
     "i1 packs or finishes what no register tile inside of it has: write `atom "
     "A, B, K` first"},
    {TILES "pack i1.2 left; pack i3.1 left",
     "i3.1 cannot pack this operand: another loop does, or it does already"},
    {TILES "finish i1.2; finish i1.2",
     "i1.2 cannot finish results: another loop does, or it does already"},
    {TILES "order i1.2, i0; pack i1.2 left",
     "i0 is inside of the loop that packs an operand, which has one index of "
     "it: order it outside"},
    {TILES "pack i1.2",
     "expected pack A left | right: each iteration of A packs an operand of "
     "the register tiles inside"},
};

/* reduce: PRIM_MUL: of a product. */
static void expect_refusals(PrimId reduce, const Refused *rows,
                            uint32_t count) {
  for (uint32_t k = 0; k < count; k++) {
    Arena *arena = arena_new();
    uint32_t at = 0;
    LoopNest *spec =
        reduce == PRIM_MUL ? new_product(arena) : new_spec(arena, reduce);
    Nest *n = nest_new(arena, spec, NULL);
    const char *error = nest_parse_schedule(n, rows[k].schedule, &at);
    if (!error || strcmp(error, rows[k].error))
      fail_msg("%s: %s", rows[k].schedule, error ? error : "accepted");
    arena_free(arena);
  }
}

static void test_refusals(void **state) {
  (void)state;
  expect_refusals(PRIM_SUM, refused, ARRAY_LEN(refused));
  expect_refusals(PRIM_FOLD, refused_of_states, ARRAY_LEN(refused_of_states));
  expect_refusals(PRIM_MUL, refused_of_products,
                  ARRAY_LEN(refused_of_products));
}

/* The place of an error is that of the wrong token, or of the step if a token
 * is missing at the end of its line. */
static void test_places(void **state) {
  (void)state;
  static const struct {
    const char *schedule;
    uint32_t at;
  } rows[] = {
      {"tile i0", 0},
      {"tile i0 ;", 8},
      {"tile i0\n  ", 0},
      {" unroll\n", 1},
      {"unroll i0; tile i1\nunroll i2", 11},
      {"unroll i0\nunroll i2", 0},
      {"order i0,\n j1", 11},
      {"order i0,\n", 0},
      {"tile i0 4; order i0, i0,\n i1\n", 11},
      {"unroll i0;\nnothing", 11},
  };
  for (uint32_t k = 0; k < ARRAY_LEN(rows); k++) {
    Arena *arena = arena_new();
    uint32_t at = 99;
    assert_non_null(
        nest_parse_schedule(new_nest(arena), rows[k].schedule, &at));
    if (at != rows[k].at)
      fail_msg("%s: at %u", rows[k].schedule, at);
    arena_free(arena);
  }
}

/* A refused step leaves the nest as it was. */
static void test_refused_step_changes_nothing(void **state) {
  (void)state;
  Arena *arena = arena_new();
  Buffer before = {.arena = arena}, after = before;
  Nest *n = new_nest(arena);
  uint32_t at;
  nest_print(&before, n);
  assert_non_null(nest_parse_schedule(n, "order i2, i1", &at));
  nest_print(&after, n);
  assert_string_equal(before.text, after.text);
  assert_int_equal(n->steps.len, 0);
  NestStep step = {.kind = STEP_UNROLL};
  nest_step_add(&step, NO_LOOP, 0);
  assert_string_equal(nest_apply(n, &step), "a step names no axis");
  arena_free(arena);
}

static void expect_of(PrimId reduce, const char *schedule, const char *wanted) {
  Arena *arena = arena_new();
  Buffer printed = {.arena = arena}, text = printed;
  LoopNest *spec =
      reduce == PRIM_MUL ? new_product(arena) : new_spec(arena, reduce);
  Nest *n = nest_new(arena, spec, NULL);
  uint32_t at = 0;
  const char *error = nest_parse_schedule(n, schedule, &at);
  if (error)
    fail_msg("%s: at %u: %s", schedule, at, error);
  nest_print(&printed, n);
  nest_print_schedule(&text, n, 0);
  assert_string_equal(printed.text, wanted);
  assert_string_equal(text.len ? text.text : "", schedule);
  nest_verify_chosen(n, NULL);
  arena_free(arena);
}

static void expect(const char *schedule, const char *wanted) {
  expect_of(PRIM_SUM, schedule, wanted);
}

static void test_nests(void **state) {
  (void)state;
  expect("", "for i0\n  for i1\n    sums[1]\n    for i2\n");
  expect("tasks i0; tile i2 8 peel; lanes i2; tile i2.1 4 peel; "
         "unroll i2.1; parts i2.1; tile i2.2 32; run i2.3",
         "for i0 tasks\n"
         "  for i1\n"
         "    sums[4]\n"
         "    for i2.3 by 1024 run less\n"
         "      for i2.2 by 32 times 32 peel\n"
         "        for i2.1 by 8 times 4 unroll parts peel\n"
         "          for i2 times 8 lanes less\n");
  expect("tasks i0; tile i1 8 peel; tile i1.1 4 if; order i1.2, i2, i1.1, i1; "
         "lanes i1; unroll i1.1",
         "for i0 tasks\n"
         "  for i1.2 by 32 if\n"
         "    sums[4]\n"
         "    for i2\n"
         "      for i1.1 by 8 times 4 unroll peel\n"
         "        for i1 times 8 lanes less\n");
  /* Thread groups. */
  expect("tile i2 4; lanes i2; flatten i0, i1; tile i3 8; tile i2.1 32; "
         "tile i2.2 128; tile i2.3 16; order i3.1, i2.4, i3, i2.3; "
         "blocks i3.1; blocks i2.4; "
         "order i2.4, i3.1; threads i3; threads i2.1; run i2.3",
         "for i2.4 by 262144 blocks less\n"
         "  for i3.1 by 8 blocks less\n"
         "    for i3 times 8 threads\n"
         "      sums[1]\n"
         "      for i2.3 by 16384 times 16 run less\n"
         "        for i2.2 by 128 times 128 less\n"
         "          for i2.1 by 4 times 32 threads less\n"
         "            for i2 times 4 lanes less\n"
         "flatten i3: i0, i1\n");
  expect("tile i0 4 clamp; tasks i0.1; unroll i0; tile i2 8 peel; lanes i2; "
         "order i1, i2.1, i0",
         "for i0.1 by 4 tasks clamp\n"
         "  for i1\n"
         "    sums[4]\n"
         "    for i2.1 by 8 peel\n"
         "      for i0 times 4 unroll\n"
         "        for i2 times 8 lanes less\n");
  expect("tile i1 6 spread; order i1.1, i2, i1; unroll i1",
         "for i0\n"
         "  for i1.1 by 6 spread\n"
         "    sums[6]\n"
         "    for i2\n"
         "      for i1 times 6 unroll\n");
  expect("tile i1 96 argument; tile i1 6; tile i2 32 argument",
         "for i0\n"
         "  for i1.2 by 96 argument less\n"
         "    for i1.1 by 6 times 16 less\n"
         "      for i1 times 6\n"
         "        sums[1]\n"
         "        for i2.1 by 32 argument less\n"
         "          for i2 times 32\n");
  expect("tile i1 4; order i0, i1.1, i2, i1; flatten i0, i1.1; tile i3 128; "
         "blocks i3.1; threads i3",
         "for i3.1 by 128 blocks less\n"
         "  for i3 times 128 threads\n"
         "    sums[4]\n"
         "    for i2\n"
         "      for i1 times 4\n"
         "flatten i3: i0, i1 by 4\n");
  expect("tile i0 32; tile i1 32; order i0.1, i1.1, i0, i1; blocks i0.1; "
         "blocks i1.1; threads i0; threads i1; shared i0",
         "for i0.1 by 32 blocks less\n"
         "  for i1.1 by 32 blocks less\n"
         "    for i0 times 32 threads\n"
         "      for i1 times 32 threads\n"
         "        sums[1]\n"
         "        for i2\n"
         "shared i0\n");
}

static void test_products(void **state) {
  (void)state;
  expect_of(PRIM_MUL,
            TILES "order i0, i1.2; pack i3.1 right; "
                  "pack i1.2 left; finish i1.2",
            "for i0\n"
            "  for i1.2 by 96 argument pack left finish less\n"
            "    for i3.1 by 32 argument pack right less\n"
            "      for i2.1 by 64 less\n"
            "        for i1.1 by 6 times 16 spread\n"
            "          for i1 times 6 atom\n"
            "            for i2 times 64 atom\n"
            "              for i3 times 32 atom\n");
}

static void test_states(void **state) {
  (void)state;
  expect_of(PRIM_FOLD,
            "tasks i0; tile i1 4 peel; unroll i1; tile i2 128; poll i2.1; "
            "order i1.1, i2.1, i2, i1",
            "for i0 tasks\n"
            "  for i1.1 by 4 peel\n"
            "    sums[4]\n"
            "    for i2.1 by 128 poll less\n"
            "      for i2 times 128\n"
            "        for i1 times 4 unroll\n");
}

/* The sums of strips continue, so each output has a state. */
static void expect_strips(const char *schedule, const char *wanted) {
  Arena *arena = arena_new();
  LoopNest *spec = new_spec(arena, PRIM_SUM);
  Nest *n = nest_new(arena, spec, NULL);
  Buffer text = {.arena = arena};
  uint32_t at = 0;
  spec->strip_mined = true;
  spec->trimmed_axis = 2;
  spec->outputs.at[0].updates = true;
  const char *error = nest_parse_schedule(n, schedule, &at);
  nest_print(&text, n);
  assert_string_equal(error ? error : text.text, wanted);
  spec->outputs.at[0].updates = false;
  if (!error)
    assert_string_equal(nest_verify(n),
                        "loop 1: output 0 has no state for its strips");
  arena_free(arena);
}

static void test_strips(void **state) {
  (void)state;
  expect_strips("tasks i0; unroll i1; tile i2 128; order i2.1, i1; "
                "strips i2.1; tile i2 8 peel; lanes i2",
                "for i0 tasks\n"
                "  for i2.2 by 128 strips less\n"
                "    for i1 times 100 unroll\n"
                "      sums[1]\n"
                "      for i2.1 by 8 times 16 peel\n"
                "        for i2 times 8 lanes less\n");
  expect_strips("tasks i0; tile i2 128; strips i2.1",
                "i2.1 is inside of a loop that is no task");
  expect_strips("tasks i0; unroll i1; tile i2 128; order i2.1, i1; "
                "strips i2.1; order i1, i2.1",
                "loop 2: strips inside of a loop");
  expect_strips("tasks i0; tasks i1; tile i2 128; strips i2.1; strips i2.1",
                "i2.1 is no serial loop over tiles: tile it first");
  expect_strips("tile i1 8; strips i1.1",
                "i1.1 is not the axis that the loop nests of this kernel share "
                "in an online reduction");
}

/* An axis of three iterations. */
static void test_interleave(void **state) {
  (void)state;
  static const Refused rows[] = {
      {"unroll i0; interleave i0",
       "i0 cannot be interleaved: there are no lanes along an axis of the "
       "results"},
      {"unroll i0; tile i2 8 peel; order i1, i0; lanes i2; interleave i0",
       "i0 cannot be interleaved: there are no lanes along an axis of the "
       "results"},
      {"unroll i0; tile i1 8 peel; order i1.1, i0, i2, i1; lanes i1; "
       "interleave i0; order i0, i1.1",
       "i0 cannot be interleaved: order it just outside of the lanes"},
      {"unroll i0; tile i1 8 peel; order i1.1, i0, i2, i1; lanes i1; "
       "interleave i0; interleave i0",
       "i0 cannot be interleaved: another loop is, or it is already"},
      {"unroll i0; tile i1 8 peel; order i1.1, i0, i2, i1; lanes i1; "
       "interleave i0",
       NULL},
  };
  for (uint32_t k = 0; k < ARRAY_LEN(rows); k++) {
    Arena *arena = arena_new();
    uint32_t at = 0;
    LoopNest *spec = new_spec(arena, PRIM_SUM);
    spec->extents[0] = 3;
    Nest *n = nest_new(arena, spec, NULL);
    const char *error = nest_parse_schedule(n, rows[k].schedule, &at);
    Buffer printed = {.arena = arena};
    nest_print(&printed, n);
    if (rows[k].error)
      assert_string_equal(error ? error : "accepted", rows[k].error);
    else
      assert_string_equal(printed.text, "for i1.1 by 8 peel\n"
                                        "  for i0 times 3 unroll\n"
                                        "    sums[1]\n"
                                        "    for i2\n"
                                        "      for i1 times 8 lanes less\n"
                                        "interleave i0\n");
    arena_free(arena);
  }
}

/* Blocks of eight rows by eight columns. */
static void test_transpose(void **state) {
  (void)state;
  static const char blocks[] = "tile i0 8; tile i1 8; unroll i0; "
                               "order i0.1, i1.1, i0, i1; lanes i1; ";
  static const Refused rows[] = {
      {"transpose i0; transpose i0",
       "i0 cannot be transposed: another loop is, or it is already"},
      {"transpose i0.1", "i0.1 is not unrolled, or is tiled: transpose the "
                         "innermost piece, and unroll it first"},
      {"transpose i0; order i0, i1.1",
       "i0 cannot be transposed: order it just outside of the lanes"},
      {"transpose i0", NULL},
  };
  for (uint32_t k = 0; k < ARRAY_LEN(rows); k++) {
    Arena *arena = arena_new();
    uint32_t at = 0;
    LoopNest *spec = new_spec(arena, PRIM_NONE);
    spec->spatial_axes = spec->axis_count = 2;
    Nest *n = nest_new(arena, spec, NULL);
    const char *error = nest_parse_schedule(
        n, arena_printf(arena, "%s%s", blocks, rows[k].schedule), &at);
    Buffer printed = {.arena = arena};
    nest_print(&printed, n);
    if (rows[k].error)
      assert_string_equal(error ? error : "accepted", rows[k].error);
    else
      assert_string_equal(printed.text, "for i0.1 by 8 less\n"
                                        "  for i1.1 by 8 less\n"
                                        "    for i0 times 8 unroll\n"
                                        "      for i1 times 8 lanes less\n"
                                        "transpose i0\n");
    arena_free(arena);
  }
}

/* Lanes of three by four elements in each iteration of a loop outside. */
static void test_shuffle(void **state) {
  (void)state;
  static const char lanes[] =
      "tile i0 3; flatten i0, i1; tile i3 8 mask; "
      "unroll i3.1; order i2, i3.1, i3; lanes i3 mask; ";
  static const Refused rows[] = {
      {"shuffle i0", "i2 must be unrolled: it is inside of the loop that loads "
                     "shuffled operands"},
      {"unroll i2; shuffle i0; shuffle i0",
       "i0 cannot load shuffled operands: another loop does, or it does "
       "already"},
      {"unroll i2; shuffle i2",
       "i2 cannot load shuffled operands: it must be serial, and neither tiled "
       "nor summed nor flattened"},
      {"unroll i2; shuffle i0; tile i0 2",
       "i0.1 cannot load shuffled operands: it must be serial, and neither "
       "tiled nor summed nor flattened"},
      {"unroll i2; shuffle i0", NULL},
  };
  for (uint32_t k = 0; k < ARRAY_LEN(rows); k++) {
    Arena *arena = arena_new();
    uint32_t at = 0;
    LoopNest *spec = new_spec(arena, PRIM_SUM);
    spec->extents[1] = 4;
    Nest *n = nest_new(arena, spec, NULL);
    const char *error = nest_parse_schedule(
        n, arena_printf(arena, "%s%s", lanes, rows[k].schedule), &at);
    Buffer printed = {.arena = arena};
    nest_print(&printed, n);
    if (rows[k].error)
      assert_string_equal(error ? error : "accepted", rows[k].error);
    else
      assert_string_equal(printed.text,
                          "for i0 by 3 shuffle\n"
                          "  sums[2]\n"
                          "  for i2 times 300 unroll\n"
                          "    for i3.1 by 8 times 2 unroll mask\n"
                          "      for i3 times 8 lanes mask\n"
                          "flatten i3: i0 times 3, i1\n");
    arena_free(arena);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_places),
      cmocka_unit_test(test_refused_step_changes_nothing),
      cmocka_unit_test(test_nests),
      cmocka_unit_test(test_products),
      cmocka_unit_test(test_states),
      cmocka_unit_test(test_strips),
      cmocka_unit_test(test_interleave),
      cmocka_unit_test(test_shuffle),
      cmocka_unit_test(test_transpose),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
