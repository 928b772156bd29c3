/* 4-bit floats with scales of blocks (PTX: scale factors, SFA and SFB), for
 * tcgen05 with .block_scale.
 *
 * Four warps fill the stages.  They pack pairs of elements into bytes, as the
 * instruction needs them, and collect the scales.  In memory an element has a
 * byte of its own.
 *
 * The scales of an operand are tiles of 512 bytes: those of 128 rows for as
 * many terms as four scales have.  Row r is at 16 * (r % 32) + 4 * (r / 32).  A
 * copy to tensor memory (tcgen05.cp, .32x128b.warpx4) makes such a tile four
 * columns, of which column c has rows 32 * c to 32 * c + 31.  The tiles of a
 * stage are those of the left operand, then those of the right one; for each
 * four scales there are one or two, by its rows.
 *
 * Each stage has its own columns.  Nothing orders a copy after the products
 * that the thread issued before it, but a stage is filled again when the
 * products from it are complete. */
#include "backend/cuda/gemm_emit.h"
#include "support/buffer.h"

enum {
  TILE_ROWS = 128,
  TILE_BYTES = 512,
  TILE_COLUMNS = 4, /* of tensor memory */
  TILE_SCALES = 4,  /* of a row */
  LOAD_TERMS = 16,
  NV_BLOCK = 16, /* terms with a scale of f8_e4m3; others are f8_e8m0 */
};

/* ---- sizes ---- */

static uint32_t row_tiles(const GemmSchedule *s, bool b) {
  return (gemm_tile_side(s, b) + TILE_ROWS - 1) / TILE_ROWS;
}

/* Groups of four scales of a row in a stage. */
static uint32_t scale_groups(const GemmShape *shape, const GemmSchedule *s) {
  return GEMM_PACKED_TERMS * s->k / (shape->scale_block * TILE_SCALES);
}

static uint32_t stage_tiles(const GemmShape *shape, const GemmSchedule *s) {
  return scale_groups(shape, s) * (row_tiles(s, false) + row_tiles(s, true));
}

uint32_t gemm_scale_bytes(const GemmShape *shape, const GemmSchedule *s) {
  return shape->scale_block ? stage_tiles(shape, s) * TILE_BYTES : 0;
}

uint32_t gemm_scale_columns(const GemmShape *shape, const GemmSchedule *s) {
  return shape->scale_block ? stage_tiles(shape, s) * TILE_COLUMNS * s->stages
                            : 0;
}

/* ---- stages ---- */

/* Begins the loop of a thread over parts of a tile, each of a row. */
static void put_loop(Buffer *out, uint32_t parts) {
  buffer_printf(out,
                "#pragma unroll 4\nfor (unsigned p = 0; p < %uu; p++) {\n"
                "const unsigned e = member + p * %uu;\n",
                parts / PRODUCER_THREADS, PRODUCER_THREADS);
}

/* The scale of term t, an expression. */
static void put_scale(Buffer *out, const GemmTiledCopy *s, const char *t) {
  buffer_printf(out, "scales[(%s) / %u * (int64_t)(%s)]", t,
                s->operand->scale_terms, s->operand->scale_stride);
}

/* True if scales may be negative: f8_e4m3. */
static bool has_signs(const GemmTiledCopy *s) {
  return s->spec->shape->scale_block == NV_BLOCK;
}

/* Packs 16 elements from term t + first on into two words.  The instruction has
 * no negative scales: the sign goes to the elements. */
static void put_packed(Buffer *out, const GemmTiledCopy *s, uint32_t first,
                       const char *low, const char *high) {
  char t[24];
  snprintf(t, sizeof t, "t + %u", first);
  buffer_printf(out,
                "const uint4 codes%u = ax_load_16(codes + %s);\n"
                "%s = ax_pack_f4_e2m1(make_uint2(codes%u.x, codes%u.y));\n"
                "%s = ax_pack_f4_e2m1(make_uint2(codes%u.z, codes%u.w));\n",
                first, t, low, first, first, high, first, first);
  if (has_signs(s)) {
    buffer_printf(out, "const unsigned flip%u = ", first);
    put_scale(out, s, t);
    buffer_printf(out,
                  " >> 7 ? 0x88888888u : 0u;\n%s ^= flip%u;\n%s ^= flip%u;\n",
                  low, first, high, first);
  }
}

static void put_elements(Buffer *out, const GemmTiledCopy *s, const char *at) {
  put_loop(out, s->tile.rows * s->copies_per_row);
  buffer_printf(
      out,
      "const unsigned row = e / %uu, column = e %% %uu * %uu;\n"
      "const int r = (int)(%c0 + row), t = begin + (int)column * %d;\n"
      "uint4 packed = make_uint4(0, 0, 0, 0);\n"
      "if (r < %c_all && t < terms) {\n",
      s->copies_per_row, s->copies_per_row, s->vector_width, s->axis_letter,
      GEMM_PACKED_TERMS, s->axis_letter);
  gemm_put_unravel(out, s->mn_axes, "r");
  s->operand->put_scaled_row(s->spec->owner, out, false);
  if (has_signs(s))
    s->operand->put_scaled_row(s->spec->owner, out, true);
  put_packed(out, s, 0, "packed.x", "packed.y");
  buffer_printf(out, "if (t + %d < terms) {\n", LOAD_TERMS);
  put_packed(out, s, LOAD_TERMS, "packed.z", "packed.w");
  buffer_printf(out,
                "}\n}\n*(uint4 *)(memory + %s + %s_%c(row, column)) = packed;\n"
                "}\n",
                at, s->spec->name, s->letter);
}

static void put_scales(Buffer *out, const GemmTiledCopy *s, const char *at) {
  const GemmShape *shape = s->spec->shape;
  const GemmSchedule *schedule = s->spec->schedule;
  uint32_t tiles = row_tiles(schedule, s->b), rows = tiles * TILE_ROWS;
  put_loop(out, rows * scale_groups(shape, schedule));
  buffer_printf(out,
                "const unsigned row = e %% %uu, group = e / %uu;\n"
                "const int r = (int)(%c0 + row);\nunsigned four = 0;\n"
                "if (row < %uu && r < %c_all) {\n",
                rows, rows, s->axis_letter, s->tile.rows, s->axis_letter);
  gemm_put_unravel(out, s->mn_axes, "r");
  s->operand->put_scaled_row(s->spec->owner, out, true);
  buffer_printf(out,
                "#pragma unroll\nfor (int i = 0; i < %d; i++) {\n"
                "const int t = begin + ((int)group * %d + i) * %u;\n"
                "if (t < terms)\nfour |= (unsigned)",
                TILE_SCALES, TILE_SCALES, shape->scale_block);
  put_scale(out, s, "t");
  buffer_printf(out,
                "%s << 8 * i;\n}\n}\n"
                "*(unsigned *)(memory + %s + (group * %uu + row / %uu) * %uu + "
                "row %% 32u * 16u + row %% %uu / 32u * 4u) = four;\n}\n",
                has_signs(s) ? " % 128u" : "", at, tiles, TILE_ROWS, TILE_BYTES,
                TILE_ROWS);
}

void gemm_put_scaled_stage(Buffer *out, const GemmKernelSpec *t,
                           const TmaPipeline *r) {
  const GemmTiledCopy *sides[] = {&r->a, &r->b};
  uint32_t element_at = 0, scale_at = r->a.stage_bytes + r->b.stage_bytes;
  buffer_printf(out,
                "const unsigned member = thread - %uu;\n"
                "const int terms = k_all * %d;\n"
                "const int begin = (int)(step * %uu);\n",
                PRODUCER_THREADS + WARPGROUP_THREADS, GEMM_PACKED_TERMS,
                GEMM_PACKED_TERMS * t->schedule->k);
  for (uint32_t b = 0; b < 2; b++) {
    char at[60];
    snprintf(at, sizeof at, "stage * %uu + %uu", r->stage_bytes, element_at);
    put_elements(out, sides[b], at);
    snprintf(at, sizeof at, "stage * %uu + %uu", r->stage_bytes, scale_at);
    put_scales(out, sides[b], at);
    element_at += sides[b]->stage_bytes;
    scale_at += row_tiles(t->schedule, b) *
                scale_groups(t->shape, t->schedule) * TILE_BYTES;
  }
  buffer_puts(out, "ax_fence_async();\nax_sync_warp();\n"
                   "if (lane == 0)\nax_mbarrier_arrive(full + 8 * stage);\n");
}

/* ---- products ---- */

/* Emits the copies of the scales of a stage.  Declares scales_a and scales_b,
 * their addresses in tensor memory. */
static void put_scale_copies(Buffer *out, const GemmKernelSpec *t,
                             const TmaPipeline *r) {
  uint32_t tiles = stage_tiles(t->shape, t->schedule);
  buffer_printf(
      out,
      "const unsigned scales_a = tensor + %uu + stage * %uu;\n"
      "const unsigned scales_b = scales_a + %uu;\n"
      "const uint64_t scales = ax_tcgen05_descriptor(shared + stage * %uu + "
      "%uu, 0, 128, 0);\n"
      "#pragma unroll\nfor (unsigned i = 0; i < %uu; i++)\n"
      "ax_tcgen05_copy_scales(scales_a + %uu * i, scales + %uu * i);\n",
      t->schedule->accumulators * t->schedule->n, tiles * TILE_COLUMNS,
      scale_groups(t->shape, t->schedule) * row_tiles(t->schedule, false) *
          TILE_COLUMNS,
      r->stage_bytes, r->a.stage_bytes + r->b.stage_bytes, tiles, TILE_COLUMNS,
      TILE_BYTES >> 4);
}

/* PTX ISA 9.7.16, "Instruction descriptor" for .kind::mxf4 and .kind::mxf4nvf4:
 * two types E2M1, columns, type of the scales, rows; the scale factor data IDs
 * (SFA_ID, SFB_ID): the byte of the first scale in a column. */
static uint32_t scaled_instruction(const GemmKernelSpec *t, uint32_t byte) {
  uint32_t e2m1 = 1, is_mx = t->shape->scale_block != NV_BLOCK;
  return byte << 4 | e2m1 << 7 | e2m1 << 10 | t->schedule->n >> 3 << 17 |
         is_mx << 23 | t->schedule->m >> 7 << 27 | byte << 29;
}

void gemm_put_scaled_products(Buffer *out, const GemmKernelSpec *t,
                              const TmaPipeline *r) {
  const GemmSchedule *s = t->schedule;
  uint32_t each = gemm_instruction_k(t->shape, s); /* bytes of a row */
  uint32_t scales = each * GEMM_PACKED_TERMS / t->shape->scale_block;
  put_scale_copies(out, t, r);
  for (uint32_t k = 0, scale = 0; k < s->k; k += each, scale += scales)
    buffer_printf(
        out,
        "ax_tcgen05_mma_%s(tensor + slot * %uu, a_stage + %u, b_stage + %u, "
        "0x%xu, scales_a + %u, scales_b + %u, %s);\n",
        t->shape->scale_block == NV_BLOCK ? "nvf4" : "mxf4", s->n,
        gemm_k_offset(&r->a, k) >> 4, gemm_k_offset(&r->b, k) >> 4,
        scaled_instruction(t, scale % TILE_SCALES),
        scale / TILE_SCALES * row_tiles(s, false) * TILE_COLUMNS,
        scale / TILE_SCALES * row_tiles(s, true) * TILE_COLUMNS,
        k ? "true" : "step != from");
}
