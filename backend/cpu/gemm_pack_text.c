/* The steps of the nests that pack operands of matmuls, or that copy windows of
 * convolutions, in the text of schedules. */
#include "backend/cpu/gemm_fields.h"
#include "backend/cpu/gemm_tiling.h"
#include "kernel/nest.h"
#include "support/arena_text.h"
#include "support/buffer.h"

#include <string.h>

#define BLANKS " \t\r\n"

enum { MAX_PACK_UNROLLED = 256 };

static Operand *operand_of(const Schedule *s, uint32_t loop, uint32_t which) {
  GemmTiling *t = &s->gemm_tilings->by_loop[loop];
  return which == NEST_LEFT ? &t->a : &t->b;
}

/* ---- printing and reading ---- */

void gemm_packs_print(Buffer *out, const Schedule *s, uint32_t loop) {
  for (uint32_t j = 0; j < NEST_OPERAND_COUNT; j++) {
    const Nest *n = operand_of(s, loop, j)->nest;
    if (!n)
      continue;
    buffer_printf(out, "\n     pack %s {", nest_operand_words[j]);
    nest_print_schedule(out, n, n->task_steps);
    buffer_puts(out, "}");
  }
}

/* The text after `word` and blanks; NULL: the text begins with another one. */
static const char *after_word(const char *text, const char *word) {
  size_t len = strlen(word);
  if (strncmp(text, word, len) != 0)
    return NULL;
  return text + len + strspn(text + len, BLANKS);
}

/* The text after `pack left` or `pack right`; NULL: it is something else. */
static const char *read_operand(const char *text, uint32_t *which) {
  const char *pack = after_word(text, "pack"), *rest = NULL;
  for (*which = 0; pack && *which < NEST_OPERAND_COUNT; ++*which) {
    rest = after_word(pack, nest_operand_words[*which]);
    if (rest)
      return rest;
  }
  return NULL;
}

const char *gemm_packs_read(const Kernel *k, const char *text, GemmFields *to,
                            uint32_t *at) {
  for (const char *p = text; *(p += strspn(p, BLANKS ";"));) {
    uint32_t which;
    const char *open = read_operand(p, &which);
    *at = (uint32_t)(p - text);
    if (!open || *open != '{')
      return "expected `by gemm {key=value …}`, `pack left {steps}`, `pack "
             "right {steps}`, and no other step";
    size_t len = strcspn(open, "}");
    if (!open[len])
      return "{ has no }";
    if (to->packs[which].steps)
      return arena_printf(k->arena, "pack %s is written twice",
                          nest_operand_words[which]);
    to->packs[which] =
        (GemmPackText){arena_strndup(k->arena, open + 1, len - 1),
                       (uint32_t)(open + 1 - text)};
    p = open + len + 1;
  }
  return NULL;
}

/* ---- refusals ---- */

typedef struct PackCheck {
  const Nest *nest;
  uint32_t tasks;                       /* loops around the copy */
  uint32_t axis, first_term, last_term; /* of the lines, and of the terms */
  int64_t panel;        /* lines of a panel; 0: the copy has no panels */
  bool lines_are_inner; /* the lines are contiguous in each term */
  bool is_fixed;        /* elements are pairs, made for the chosen lanes */
  int64_t width;
} PackCheck;

static const char *refuse(const PackCheck *c, uint32_t at, const char *reason) {
  return nest_loop_reason(c->nest, at, reason);
}

static bool is_term(const PackCheck *c, uint32_t at) {
  uint32_t v = c->nest->loops[at].axis;
  return v >= c->first_term && v <= c->last_term;
}

static uint32_t first_loop(const PackCheck *c, uint32_t axis) {
  uint32_t at = c->tasks;
  while (c->nest->loops[at].axis != axis)
    at++;
  return at;
}

static bool has_other_steps(const Nest *n) {
  for (uint32_t j = 0; j < n->loop_count; j++) {
    const NestLoop *l = &n->loops[j];
    if (l->has_accumulators || l->is_run || l->polls || l->shuffles ||
        l->packs[NEST_LEFT] || l->packs[NEST_RIGHT] || l->finishes)
      return true;
  }
  return n->flat[0].axis != NO_LOOP || n->stream.row_axis != NO_LOOP ||
         n->shared_axis != NO_LOOP || n->interleaved_axis != NO_LOOP ||
         n->loads_broadcasts || n->fuses_products || n->has_epilogue;
}

/* How loops run.  A copy has the part of the operand that a block needs, so
 * that only the sizes of tiles are known. */
static const char *check_runs(const PackCheck *c) {
  const Nest *n = c->nest;
  int64_t unrolled = 1;
  if (has_other_steps(n))
    return "an operand is packed with `tile`, `order`, `unroll`, `lanes` and "
           "`transpose`, and no other step";
  for (uint32_t j = c->tasks; j < n->loop_count; j++) {
    const NestLoop *l = &n->loops[j];
    if (l->run != NEST_SERIAL && l->run != NEST_UNROLL && l->run != NEST_LANES)
      return refuse(c, j,
                    "is inside of a task, and its iterations are serial, "
                    "unrolled or lanes");
    if (l->is_argument || l->tail > TAIL_IF)
      return refuse(c, j,
                    "has a tile whose tail is not less, peel or if, or "
                    "whose size is an argument");
    if (l->run == NEST_UNROLL && first_loop(c, l->axis) == j)
      return refuse(c, j,
                    "has as many iterations as a block needs: tile it, "
                    "and unroll an inner piece");
    unrolled *= l->run == NEST_UNROLL ? l->count : 1;
    if (unrolled > MAX_PACK_UNROLLED)
      return refuse(c, j,
                    arena_printf(n->arena,
                                 "makes %lld unrolled iterations: at most %d",
                                 (long long)unrolled, MAX_PACK_UNROLLED));
  }
  return NULL;
}

/* Vectors are stored along the axis in which the copy is contiguous. */
static const char *check_lanes(const PackCheck *c) {
  const Nest *n = c->nest;
  uint32_t lanes = nest_lanes(n);
  bool is_transposed = nest_transposed(n) != NO_LOOP;
  uint32_t axis = c->lines_are_inner && !is_transposed ? c->axis : c->last_term;
  if (is_transposed && (!c->panel || n->transposed_axis != c->axis))
    return "transpose: only the columns of panels are transposed";
  if (lanes == NO_LOOP || n->loops[lanes].axis != axis)
    return arena_printf(n->arena,
                        "the copy %sis contiguous along i%u: write `lanes i%u`",
                        is_transposed ? "is transposed, and its operand " : "",
                        n->names[axis], n->names[axis]);
  if (n->loops[lanes].count != c->width)
    return refuse(c, lanes,
                  arena_printf(n->arena,
                               "has %lld lanes, and the vectors of this kernel "
                               "have %lld",
                               (long long)n->loops[lanes].count,
                               (long long)c->width));
  for (uint32_t j = c->tasks; is_transposed && j < lanes; j++)
    if (j + 1 < lanes && (n->loops[j].run != NEST_SERIAL || n->loops[j].tail))
      return refuse(c, j,
                    "is outside of blocks that are transposed: it is serial, "
                    "with tail less");
  return NULL;
}

static const char *check_order(const PackCheck *c) {
  const Nest *n = c->nest;
  const NestLoop *outer = &n->loops[c->tasks];
  if (c->panel) {
    bool is_panel = outer->axis == c->axis && outer->step == c->panel &&
                    outer->tail == TAIL_LESS;
    return is_panel ? NULL
                    : arena_printf(n->arena,
                                   "the outermost loop must be i%u in tiles of "
                                   "%lld, with tail less: the panels of the "
                                   "register tiles",
                                   n->names[c->axis], (long long)c->panel);
  }
  for (uint32_t j = c->tasks + 1; j < n->loop_count; j++)
    if (is_term(c, j) == c->lines_are_inner &&
        is_term(c, j - 1) != c->lines_are_inner)
      return refuse(c, j,
                    c->lines_are_inner
                        ? "must be outside of the loops over the lines"
                        : "must be outside of the loops over the terms");
  return NULL;
}

/* If the terms have several axes, their loops follow each other, and a part may
 * begin between any two of them. */
static const char *check_terms(const PackCheck *c) {
  const Nest *n = c->nest;
  uint32_t lanes = nest_lanes(n), first = first_loop(c, c->first_term);
  for (uint32_t v = c->first_term; v <= c->last_term; v++) {
    uint32_t at = first_loop(c, v);
    bool may_be_tiled = v == c->last_term && n->loops[lanes].axis == v;
    if (c->first_term != c->last_term &&
        (at != first + v - c->first_term ||
         (!may_be_tiled && nest_inner(n, at) != NO_LOOP)))
      return refuse(c, at,
                    "is one of several axes of the terms: their loops follow "
                    "each other, and only the last one can be tiled, if it has "
                    "the lanes");
  }
  return NULL;
}

static PackCheck new_check(const Schedule *s, uint32_t loop, uint32_t which,
                           const Nest *n, const Nest *chosen) {
  const GemmTiling *t = &s->gemm_tilings->by_loop[loop];
  const Operand *o = operand_of(s, loop, which);
  const LoopNest *spec = n->spec;
  bool is_window = t->window && which == NEST_RIGHT;
  bool by_rows = is_window || o->packing == OPERAND_PACK_A_ROWS;
  PackCheck c = {.nest = n,
                 .axis = is_window            ? spec->axis_count - 2
                         : which == NEST_LEFT ? t->m_axis
                                              : t->n_axis,
                 .first_term =
                     is_window ? spec->axis_count - 1 : loop_term_axis(spec),
                 .lines_are_inner = !by_rows,
                 .is_fixed = t->element_dtype == DT_I32,
                 .width = s->width};
  c.last_term = spec->accumulated_axes ? c.first_term : spec->axis_count - 1;
  if (!by_rows && o->packing != OPERAND_PACK_A_COLUMNS)
    c.panel = (int64_t)t->nr_vectors * s->width;
  while (nest_runs_outside(chosen, c.tasks))
    c.tasks++;
  return c;
}

static const char *read_pack(const Kernel *k, const Schedule *s, uint32_t loop,
                             uint32_t which, const GemmPackText *text,
                             uint32_t *at) {
  Operand *o = operand_of(s, loop, which);
  const char *word = nest_operand_words[which];
  if (!o->nest)
    return arena_printf(k->arena,
                        "this product reads the %s operand in place: leave out "
                        "`pack %s`",
                        word, word);
  Nest *n = nest_after(o->nest, 0);
  n->task_steps = n->steps.len;
  const char *error = nest_parse_schedule(n, text->steps, at);
  if (error)
    return error;
  *at = 0;
  PackCheck c = new_check(s, loop, which, n, o->nest);
  error = check_runs(&c);
  error = error ? error : check_lanes(&c);
  error = error ? error : check_order(&c);
  error = error ? error : check_terms(&c);
  bool was_transposed = nest_transposed(o->nest) != NO_LOOP,
       is_transposed = nest_transposed(n) != NO_LOOP;
  if (!error && c.is_fixed && was_transposed != is_transposed)
    error = "pairs of bf16 terms are packed as they are: whether their vectors "
            "are transposed cannot be changed";
  if (error)
    return error;
  if (was_transposed != is_transposed && o->packing != OPERAND_UNPACKED)
    o->packing = is_transposed ? OPERAND_PACK_B_TRANSPOSED : OPERAND_PACK_B;
  o->nest = n;
  return NULL;
}

const char *gemm_packs_apply(const Kernel *k, const Schedule *s, uint32_t loop,
                             uint32_t *at) {
  const GemmFields *set = gemm_fields_set(s, loop);
  for (uint32_t j = 0; j < NEST_OPERAND_COUNT; j++) {
    const GemmPackText *text = &set->packs[j];
    const char *error = text->steps ? read_pack(k, s, loop, j, text, at) : NULL;
    if (error) {
      *at += text->at;
      return error;
    }
  }
  return NULL;
}
