/* Sums of products of bytes as dot products of four terms: machines multiply
 * four unsigned bytes by four signed ones and add the products to 32 bits with
 * one instruction.
 *
 * The terms of the last reduced axis must lie together in memory.  Its extent
 * becomes a fourth: a load reads four bytes as one element of 32 bits, and
 * shifts and masks compute all four bytes of it.  The sums are of integers, and
 * exact. */
#include "kernel/kernel.h"
#include "support/arena.h"

enum { BYTES = 4, BYTE_BITS = 8, REPEATED = 0x01010101 };

typedef struct BytePacker {
  Arena *arena;
  const LoopNest *from;
  LoopNest *to;
  const uint64_t *op_vars;
  uint32_t axis;    /* the terms that lie together */
  uint32_t *words;  /* for each op: 1 + the op that computes four bytes, or 0 */
  uint32_t *copies; /* of ops that do not depend on the axis */
} BytePacker;

static bool depends_on_axis(const BytePacker *b, uint32_t at) {
  return b->op_vars[at] >> b->axis & 1;
}

/* ---- the pattern ---- */

/* The address of the words if four bytes lie together; otherwise NULL. */
static AffineExpr *word_address(const BytePacker *b, const KernelOp *s) {
  AffineExpr *bytes = affine_copy(b->arena, s->address),
             *words = affine_new(b->arena, 0), *rest = affine_new(b->arena, 0);
  if (bytes->coef[b->axis] != 1)
    return NULL;
  bytes->coef[b->axis] = 0;
  if (!affine_divide(b->from->graph, bytes, BYTES, words, rest) ||
      !affine_equal(rest, affine_new(b->arena, 0)))
    return NULL;
  words->coef[b->axis] = b->from->extents[b->axis] > BYTES;
  return words;
}

/* The largest shift that an op computes; BYTE_BITS: it may be larger. */
static int64_t largest_shift(const BytePacker *b, uint32_t at) {
  const KernelOp *s = &b->from->ops.at[at];
  int64_t low, high = BYTE_BITS;
  while (s->kind == KOP_CONVERT)
    s = &b->from->ops.at[s->args[0]];
  if (s->kind == KOP_CONST)
    low = high = s->value.i;
  else if (s->kind != KOP_AFFINE ||
           !affine_bounds(b->from, s->affine, &low, &high) ||
           !extent_is_static(b->from->graph, low) ||
           !extent_is_static(b->from->graph, high))
    return BYTE_BITS;
  return low >= 0 && high < BYTE_BITS ? high : BYTE_BITS;
}

/* The number of upper bits of each byte that other bytes of its word determine,
 * if the word is computed as a whole; BYTE_BITS: it cannot be. */
static int64_t foreign_bits(const BytePacker *b, uint32_t at) {
  const KernelOp *s = &b->from->ops.at[at];
  if (s->kind == KOP_LOAD)
    return !s->checked_index_count && word_address(b, s) ? 0 : BYTE_BITS;
  if (s->kind != KOP_MAP || s->dtype != DT_U8 ||
      depends_on_axis(b, s->args[s->arg_count - 1]))
    return BYTE_BITS;
  int64_t bits = foreign_bits(b, s->args[0]);
  const KernelOp *right = &b->from->ops.at[s->args[1]];
  if (s->op == PRIM_SHIFT_RIGHT)
    bits += largest_shift(b, s->args[1]);
  else if (s->op == PRIM_BIT_AND && right->kind == KOP_CONST)
    bits =
        bits < BYTE_BITS && !(right->value.i >> (BYTE_BITS - bits)) ? 0 : bits;
  else
    return BYTE_BITS;
  return bits < BYTE_BITS ? bits : BYTE_BITS;
}

/* The bytes that an op widens, if they can be computed as words of this type;
 * otherwise NO_OP. */
static uint32_t widened_bytes(const BytePacker *b, uint32_t at, Dtype t) {
  const KernelOp *s = &b->from->ops.at[at];
  if (s->kind != KOP_CONVERT || s->dtype != DT_I32)
    return NO_OP;
  const KernelOp *source = &b->from->ops.at[s->args[0]];
  bool is_loaded = source->kind == KOP_LOAD || t == DT_U8;
  return source->dtype == t && is_loaded && foreign_bits(b, s->args[0]) == 0
             ? s->args[0]
             : NO_OP;
}

/* Finds the unsigned and the signed factor of a product. */
static bool find_factors(const BytePacker *b, const LoopOutput *r,
                         uint32_t factors[2]) {
  const KernelOp *s = &b->from->ops.at[r->value_op];
  if (r->reduce != PRIM_SUM || s->kind != KOP_MAP || s->op != PRIM_MUL ||
      s->dtype != DT_I32)
    return false;
  for (uint32_t side = 0; side < 2; side++) {
    factors[0] = widened_bytes(b, s->args[side], DT_U8);
    factors[1] = widened_bytes(b, s->args[1 - side], DT_I8);
    if (factors[0] != NO_OP && factors[1] != NO_OP)
      return true;
  }
  return false;
}

static bool has_whole_words(const LoopNest *loop) {
  uint32_t k = loop->axis_count - 1;
  if (loop->axis_count <= loop->spatial_axes ||
      !extent_is_static(loop->graph, loop->extents[k]) || !loop->extents[k] ||
      loop->extents[k] % BYTES || loop->accumulated_axes || loop->strip_mined ||
      loop->staging || (loop->trim_bounds && loop->trimmed_axis == k))
    return false;
  for (uint32_t j = 0; j < loop->floor_div_count; j++)
    if (loop->floor_divs[j].dividend.coef[k])
      return false;
  return loop->outputs.len > 0;
}

/* ---- words ---- */

static uint32_t add_op(BytePacker *b, KernelOp s) {
  s.low = INT64_MIN;
  s.high = INT64_MAX;
  VEC_PUSH(b->arena, b->to->ops, s);
  return b->to->ops.len - 1;
}

static uint32_t add_copy(BytePacker *b, uint32_t at) {
  return loop_clone_op(b->arena, b->from, b->to, b->copies, at);
}

static uint32_t add_word(BytePacker *b, uint32_t at);

/* A shift or a mask of four bytes. */
static KernelOp word_operation(BytePacker *b, const KernelOp *s) {
  KernelOp word = *s;
  word.dtype = DT_I32;
  word.proved_safe = true;
  word.args[0] = add_word(b, s->args[0]);
  if (s->op == PRIM_BIT_AND) {
    KernelOp mask = b->from->ops.at[s->args[1]];
    mask.dtype = mask.value.dtype = DT_I32;
    mask.value.i = (int32_t)((uint32_t)mask.value.i * REPEATED);
    word.args[1] = add_op(b, mask);
  } else {
    KernelOp shift = {.kind = KOP_CONVERT, .dtype = DT_I32, .arg_count = 1};
    shift.args[0] = add_copy(b, s->args[1]);
    word.args[1] = add_op(b, shift);
  }
  return word;
}

static uint32_t add_word(BytePacker *b, uint32_t at) {
  const KernelOp *s = &b->from->ops.at[at];
  if (b->words[at])
    return b->words[at] - 1;
  KernelOp word = *s;
  if (s->kind == KOP_LOAD) {
    word.dtype = DT_I32;
    word.packed_bytes = true;
    word.address = word_address(b, s);
  } else {
    word = word_operation(b, s);
  }
  uint32_t added = add_op(b, word);
  b->words[at] = added + 1;
  return added;
}

static void add_dot(BytePacker *b, const LoopOutput *r) {
  uint32_t factors[2];
  LoopOutput to = *r;
  find_factors(b, r, factors);
  KernelOp dot = {.kind = KOP_DOT_BYTES, .dtype = DT_I32, .arg_count = 2};
  dot.span = b->from->ops.at[r->value_op].span;
  for (uint32_t side = 0; side < 2; side++)
    dot.args[side] = add_word(b, factors[side]);
  to.value_op = add_op(b, dot);
  VEC_PUSH(b->arena, b->to->outputs, to);
}

/* ---- entry point ---- */

/* The loop with dot products; the same loop if it has none. */
static LoopNest *pack_loop(Arena *arena, LoopNest *loop) {
  if (!has_whole_words(loop))
    return loop;
  uint32_t factors[2], k = loop->axis_count - 1;
  BytePacker b = {.arena = arena,
                  .from = loop,
                  .to = loop_clone_empty(arena, loop),
                  .op_vars = loop_op_vars(arena, loop),
                  .axis = k,
                  .words = NEW_ARRAY(arena, uint32_t, loop->ops.len),
                  .copies = NEW_ARRAY(arena, uint32_t, loop->ops.len)};
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    if (!find_factors(&b, &loop->outputs.at[j], factors))
      return loop;
  for (uint32_t j = 0; j < loop->outputs.len; j++)
    add_dot(&b, &loop->outputs.at[j]);
  b.to->extents[k] /= BYTES;
  if (b.to->extents[k] == 1 && k > loop->spatial_axes)
    b.to->axis_count--;
  return b.to;
}

void kernel_pack_bytes(Kernel *k) {
  for (uint32_t j = 0; j < k->loops.len; j++)
    k->loops.at[j] = pack_loop(k->arena, k->loops.at[j]);
}
