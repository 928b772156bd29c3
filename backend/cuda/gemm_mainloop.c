/* Kernels of kind mma and fma: multistage mainloop with cp.async or register
 * copies.  gemm_wgmma.c has kernels of kind wgmma. */
#include "backend/cuda/gemm_micro.h"
#include "machine/limits/cuda.h"
#include "support/buffer.h"

/* ---- tile coordinates ---- */

/* A block computes one tile, or one split-K part of it. */
static void put_tile_prologue(Buffer *out, const GemmKernelSpec *t) {
  const GemmSchedule *s = t->schedule;
  gemm_put_preamble(out);
  gemm_put_problem_size(out, t);
  buffer_puts(out, "unsigned tile = blockIdx.x;\n");
  if (s->split > 1)
    buffer_printf(out,
                  "const unsigned part = tile %% %uu;\ntile /= %uu;\n"
                  "const unsigned whole = tile;\n"
                  "const int share = ((k_all + %u) / %u + %u) / %u * %u;\n"
                  "const int from = min((int)part * share, k_all);\n"
                  "const int to = min(from + share, k_all);\n",
                  s->split, s->split, s->k - 1, s->k, s->split - 1, s->split,
                  s->k);
  else
    buffer_puts(out, "const int from = 0, to = k_all;\n");
  gemm_put_tile_coords(out, t);
  gemm_put_offset(out, &t->batch, "a_batch", false);
  gemm_put_offset(out, &t->batch, "b_batch", true);
  buffer_puts(out, "(void)a_batch, (void)b_batch;\n");
}

/* ---- stages ---- */

uint32_t gemm_stage_bytes(const StageCopies *s) {
  uint32_t bytes = 0;
  for (uint32_t j = 0; j < s->count; j++)
    bytes += s->copies[j]->stage_bytes;
  return bytes;
}

static bool has_copy(const StageCopies *s, bool via_registers) {
  for (uint32_t j = 0; j < s->count; j++)
    if (s->copies[j]->via_registers == via_registers)
      return true;
  return false;
}

/* Emits the copies of one kind; the stage begins at `into`.  The shared stores
 * of copies through registers are emitted by put_register_stores. */
static void put_copies(Buffer *out, const StageCopies *s, bool via_registers,
                       const char *first_k) {
  uint32_t offset = 0;
  for (uint32_t j = 0; j < s->count; j++) {
    char at[40];
    snprintf(at, sizeof at, "into + %uu", offset);
    if (s->copies[j]->via_registers == via_registers)
      gemm_put_copy(out, s->copies[j], at, first_k);
    offset += s->copies[j]->stage_bytes;
  }
}

static void put_register_stores(Buffer *out, const StageCopies *s) {
  uint32_t offset = 0;
  for (uint32_t j = 0; j < s->count; j++) {
    char at[40];
    snprintf(at, sizeof at, "into + %uu", offset);
    if (s->copies[j]->via_registers)
      gemm_put_registers_to_shared(out, s->copies[j], at);
    offset += s->copies[j]->stage_bytes;
  }
}

/* Emits the copies by cp.async of one stage, unless it is after the last. */
static void put_async_stage(Buffer *out, const StageCopies *s,
                            const char *condition, const char *place,
                            const char *first_k) {
  buffer_printf(out,
                "if (%s < steps) {\n"
                "const unsigned into = shared + %s * %uu;\n",
                condition, place, gemm_stage_bytes(s));
  put_copies(out, s, false, first_k);
  buffer_puts(out, "}\nax_copy_commit();\n");
}

/* Copies by cp.async run `stages - 1` stages ahead.  Copies through registers
 * run one stage ahead: loads before the MMAs, stores after them. */
void gemm_put_mainloop(Buffer *out, const GemmSchedule *schedule, uint32_t k,
                       const StageCopies *s, GemmPutMma *product,
                       const void *owner) {
  uint32_t stages = schedule->stages;
  bool is_async = has_copy(s, false), via_registers = has_copy(s, true);
  buffer_printf(out,
                "const int stage_terms = %u;\n"
                "const int steps = (to - from + %u) / %u;\n",
                k, k - 1, k);
  if (is_async) {
    buffer_printf(out, "for (int s = 0; s < %u; s++) {\n", stages - 1);
    put_async_stage(out, s, "s", "(unsigned)s", "from + s * stage_terms");
    buffer_puts(out, "}\n");
  }
  if (via_registers) {
    buffer_puts(out, "if (steps > 0) {\nconst unsigned into = 0;\n");
    put_copies(out, s, true, "from");
    put_register_stores(out, s);
    buffer_puts(out, "}\n");
  }
  buffer_printf(out,
                "unsigned read = 0, write = %u;\n"
                "for (int step = 0; step < steps; step++) {\n",
                is_async ? stages - 1 : 1);
  if (is_async)
    buffer_printf(out, "ax_copy_wait<%u>();\n", stages - 2);
  buffer_puts(out, "ax_sync();\n");
  if (is_async) {
    char condition[40], first_k[80];
    snprintf(condition, sizeof condition, "step + %u", stages - 1);
    snprintf(first_k, sizeof first_k, "from + (step + %u) * stage_terms",
             stages - 1);
    put_async_stage(out, s, condition, "write", first_k);
  }
  if (via_registers) {
    buffer_puts(out, "if (step + 1 < steps) {\n");
    put_copies(out, s, true, "from + (step + 1) * stage_terms");
    buffer_puts(out, "}\n");
  }
  product(out, owner, s);
  if (via_registers) {
    buffer_printf(out,
                  "if (step + 1 < steps) {\n"
                  "const unsigned into = (read + 1 == %u ? 0 : read + 1) * "
                  "%uu;\n",
                  stages, gemm_stage_bytes(s));
    put_register_stores(out, s);
    buffer_puts(out, "}\n");
  }
  buffer_printf(out,
                "read = read + 1 == %u ? 0 : read + 1;\n"
                "write = write + 1 == %u ? 0 : write + 1;\n}\n",
                stages, stages);
  buffer_puts(out,
              is_async ? "ax_copy_wait<0>();\nax_sync();\n" : "ax_sync();\n");
}

/* ---- mma ---- */

/* Loads `count` fragments of an operand tile into the array f->name, from row
 * first_row and k index first_k on.  transposed: rows of the tile are along
 * k. */
void gemm_put_fragment_load(Buffer *out, const GemmTiledCopy *s,
                            const FragmentLoad *f) {
  FragmentLayout h =
      f->b ? fragment_layout_repeat_values(
                 fragment_layout_mma_b(s->tile.element_bytes), 2, 1)
           : fragment_layout_mma_a(s->tile.element_bytes);
  Layout row, column;
  uint32_t rows = fragment_layout_rows(&h);
  buffer_printf(out, "#pragma unroll\nfor (int j = 0; j < %u; j++) {\n",
                f->count);
  if (fragment_layout_ldmatrix(&h, s->tile.element_bytes, f->transposed, &row,
                               &column)) {
    buffer_printf(out, "const unsigned r = %s + j * %uu + ", f->first_row,
                  rows);
    layout_print(out, &row, "lane");
    buffer_printf(out, ", t = %s + ", f->first_k);
    layout_print(out, &column, "lane");
    buffer_printf(out, ";\nax_ldmatrix_4%s(%s[j], %s + %s_%c(%s));\n",
                  f->transposed ? "_trans" : "", f->name, f->smem_tile,
                  s->spec->name, s->letter, f->transposed ? "t, r" : "r, t");
  } else {
    for (uint32_t v = 0; v < 4; v++) {
      buffer_printf(out,
                    "%s[j][%u] = *(const unsigned *)(memory - shared + %s + "
                    "%s_%c(%s + %u + ",
                    f->name, v, f->smem_tile, s->spec->name, s->letter,
                    f->first_k, (uint32_t)layout_at(&h.value_column, v));
      layout_print(out, &h.thread_column, "lane");
      buffer_printf(out, ", %s + j * %uu + %u + ", f->first_row, rows,
                    (uint32_t)layout_at(&h.value_row, v));
      layout_print(out, &h.thread_row, "lane");
      buffer_puts(out, "));\n");
    }
  }
  if (s->tile.element_bytes == 4)
    buffer_printf(out,
                  "#pragma unroll\nfor (int i = 0; i < 4; i++)\n"
                  "%s[j][i] = ax_tf32(__uint_as_float(%s[j][i]));\n",
                  f->name, f->name);
  buffer_puts(out, "}\n");
}

static void put_fragment_loads(Buffer *out, const GemmTiledCopy *s,
                               uint32_t count, uint32_t depth) {
  char name[16], first[16], at[16], first_k[32];
  snprintf(name, sizeof name, "%c_of", s->letter);
  snprintf(first, sizeof first, "%c_first", s->letter);
  snprintf(at, sizeof at, "%c_stage", s->letter);
  snprintf(first_k, sizeof first_k, "kk * %uu", depth);
  buffer_printf(out, "unsigned %s[%u][4];\n", name, count);
  gemm_put_fragment_load(out, s,
                         &(FragmentLoad){.name = name,
                                         .smem_tile = at,
                                         .first_row = first,
                                         .first_k = first_k,
                                         .count = count,
                                         .b = s->b,
                                         .transposed = s->side->mn_major});
}

static const char *mma_name(Dtype t) {
  return t == DT_F16       ? "ax_mma_m16n8k16_f16"
         : t == DT_BF16    ? "ax_mma_m16n8k16_bf16"
         : t == DT_F8_E4M3 ? "ax_mma_m16n8k32_e4m3"
         : t == DT_F8_E5M2 ? "ax_mma_m16n8k32_e5m2"
                           : "ax_mma_m16n8k8_tf32";
}

/* sm_75 has m16n8k8 for f16: two of them replace m16n8k16. */
void gemm_put_mma(Buffer *out, Dtype t, const GemmSchedule *s, const char *d,
                  const char *a, const char *b) {
  if (t == DT_F16 && s->copy == COPY_VIA_REGISTERS)
    buffer_printf(out,
                  "ax_mma_m16n8k8_f16(%s, %s, %s);\n"
                  "ax_mma_m16n8k8_f16(%s, %s + 2, %s + 1);\n",
                  d, a, b, d, a, b);
  else
    buffer_printf(out, "%s(%s, %s, %s);\n", mma_name(t), d, a, b);
}

static void put_mma(Buffer *out, const void *owner, const StageCopies *stage) {
  const GemmKernelSpec *t = owner;
  const GemmTiledCopy *a = stage->copies[0], *b = stage->copies[1];
  const GemmSchedule *s = t->schedule;
  uint32_t depth = gemm_instruction_k(t->shape, s);
  uint32_t rows = s->m / s->warps_m / 16, columns = s->n / s->warps_n / 8;
  buffer_printf(out,
                "const unsigned a_stage = shared + read * %uu;\n"
                "const unsigned b_stage = a_stage + %uu;\n"
                "#pragma unroll\nfor (int kk = 0; kk < %u; kk++) {\n",
                a->stage_bytes + b->stage_bytes, a->stage_bytes, s->k / depth);
  put_fragment_loads(out, a, rows, depth);
  put_fragment_loads(out, b, columns / 2, depth);
  buffer_printf(out,
                "#pragma unroll\nfor (int x = 0; x < %u; x++)\n"
                "#pragma unroll\nfor (int y = 0; y < %u; y++) {\n",
                rows, columns);
  gemm_put_mma(out, t->shape->a.dtype, s, "sums[x] + y * 4", "a_of[x]",
               "b_of[y / 2] + y % 2 * 2");
  buffer_puts(out, "}\n}\n");
}

static void put_mma_kernel(Buffer *before, Buffer *out,
                           const GemmKernelSpec *t) {
  const GemmSchedule *s = t->schedule;
  GemmTiledCopy a = gemm_tiled_copy(t, false), b = gemm_tiled_copy(t, true);
  uint32_t warp_m = s->m / s->warps_m, warp_n = s->n / s->warps_n;
  char part[40];
  gemm_put_smem_offset(before, &a);
  gemm_put_smem_offset(before, &b);
  if (s->micro)
    gemm_put_micro_views(before, t, &a, &b);
  put_tile_prologue(out, t);
  buffer_printf(out,
                "const unsigned warp = thread / 32u;\n"
                "const unsigned a_first = warp %% %uu * %uu, "
                "b_first = warp / %uu * %uu;\n"
                "float sums[%u][%u];\n"
                "#pragma unroll\nfor (int x = 0; x < %u; x++)\n"
                "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                "sums[x][i] = 0;\n",
                s->warps_m, warp_m, s->warps_m, warp_n, warp_m / 16, warp_n / 2,
                warp_m / 16, warp_n / 2);
  gemm_put_copy_setup(out, &a);
  gemm_put_copy_setup(out, &b);
  gemm_put_mainloop(out, s, s->k, &(StageCopies){2, {&a, &b}},
                    s->micro ? gemm_put_micro_call : put_mma, t);
  if (s->split > 1)
    gemm_put_split_k_fixup(out, t, warp_m / 16 * (warp_n / 2), warp_n / 2);
  buffer_printf(out, "float *const slab = (float *)memory + warp * %uu;\n",
                16 * gemm_epilogue_tile_pitch(s));
  buffer_printf(out, "#pragma unroll\nfor (int x = 0; x < %u; x++) {\n",
                warp_m / 16);
  snprintf(part, sizeof part, "warp / %uu", s->warps_m);
  gemm_put_row_reduction(out, t, "sums[x]", "a_first + x * 16u", "b_first",
                         part);
  if (t->shape->output_count || !t->row_reduction.level_count)
    gemm_put_epilogue_via_shared(out, t, "sums[x]", "a_first + x * 16u",
                                 "b_first");
  buffer_puts(out, s->split > 1 ? "}\n}\n" : "}\n");
}

/* ---- fma ---- */

/* A thread has rows and columns in groups of 16 bytes; neighbouring threads
 * have neighbouring groups. */
static uint32_t fma_vector_width(const GemmKernelSpec *t, uint32_t count) {
  uint32_t max = 16 / dtype_info[t->shape->accumulator_dtype].bytes;
  return count < max ? count : max;
}

static void put_fma_fragment_loads(Buffer *out, const GemmKernelSpec *t,
                                   const GemmTiledCopy *s) {
  uint32_t count = s->b ? t->schedule->thread_n : t->schedule->thread_m;
  uint32_t each = fma_vector_width(t, count), across = s->tile.columns / count;
  const char *type = gemm_compute_type(t->shape->accumulator_dtype);
  char c = s->letter;
  buffer_printf(out,
                "%s %c_of[%u];\n#pragma unroll\n"
                "for (int j = 0; j < %u; j++) {\n"
                "const %s *from_%c = (const %s *)(memory + %c_stage + "
                "%s_%c((unsigned)kk, %c_place * %uu + j * %uu));\n"
                "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                "%c_of[j * %u + i] = from_%c[i];\n}\n",
                type, c, count, count / each, type, c, type, c, t->name, c, c,
                each, across * each, each, c, each, c);
}

static void put_fma(Buffer *out, const void *owner, const StageCopies *stage) {
  const GemmKernelSpec *t = owner;
  const GemmTiledCopy *a = stage->copies[0], *b = stage->copies[1];
  const GemmSchedule *s = t->schedule;
  buffer_printf(out,
                "const unsigned a_stage = read * %uu;\n"
                "const unsigned b_stage = a_stage + %uu;\n"
                "#pragma unroll %d\nfor (int kk = 0; kk < %u; kk++) {\n",
                a->stage_bytes + b->stage_bytes, a->stage_bytes, FMA_K_UNROLL,
                s->k);
  put_fma_fragment_loads(out, t, a);
  put_fma_fragment_loads(out, t, b);
  buffer_printf(out,
                "#pragma unroll\nfor (int x = 0; x < %u; x++)\n"
                "#pragma unroll\nfor (int y = 0; y < %u; y++)\n"
                "sums[x][y] = %s(a_of[x], b_of[y], sums[x][y]);\n}\n",
                s->thread_m, s->thread_n,
                t->shape->accumulator_dtype == DT_F64 ? "fma" : "fmaf");
}

/* Stores groups of contiguous columns, row by row. */
static void put_direct_epilogue(Buffer *out, const GemmKernelSpec *t) {
  const GemmSchedule *s = t->schedule;
  uint32_t vector_m = fma_vector_width(t, s->thread_m),
           vector_n = fma_vector_width(t, s->thread_n);
  gemm_put_row_reduction_fma(out, t, vector_m, vector_n);
  if (t->row_reduction.level_count && !t->shape->output_count)
    return;
  buffer_printf(out,
                "#pragma unroll\nfor (int u = 0; u < %u; u++) {\n"
                "#pragma unroll\nfor (int w = 0; w < %u; w++) {\n"
                "const int i = (int)(m0 + a_place * %uu + u / %u * %uu + u %% "
                "%u);\n"
                "const int j = (int)(n0 + b_place * %uu + w * %uu);\n"
                "if (i < m_all && j < n_all) {\n%s x[%u];\n"
                "#pragma unroll\nfor (int v = 0; v < %u; v++)\n"
                "x[v] = sums[u][w * %u + v];\n",
                s->thread_m, s->thread_n / vector_n, vector_m, vector_m,
                s->m / s->thread_m * vector_m, vector_m, vector_n,
                s->n / s->thread_n * vector_n,
                gemm_compute_type(t->shape->accumulator_dtype), vector_n,
                vector_n, vector_n);
  gemm_put_epilogue_row(out, t, vector_n);
  buffer_puts(out, "}\n}\n}\n");
}

static void put_fma_kernel(Buffer *before, Buffer *out,
                           const GemmKernelSpec *t) {
  const GemmSchedule *s = t->schedule;
  GemmTiledCopy a = gemm_tiled_copy(t, false), b = gemm_tiled_copy(t, true);
  uint32_t across = s->n / s->thread_n;
  gemm_put_smem_offset(before, &a);
  gemm_put_smem_offset(before, &b);
  if (s->micro)
    gemm_put_micro_views(before, t, &a, &b);
  put_tile_prologue(out, t);
  buffer_printf(out,
                "const unsigned a_place = thread / %uu, b_place = thread %% "
                "%uu;\n%s sums[%u][%u];\n"
                "#pragma unroll\nfor (int x = 0; x < %u; x++)\n"
                "#pragma unroll\nfor (int y = 0; y < %u; y++)\n"
                "sums[x][y] = 0;\n",
                across, across, gemm_compute_type(t->shape->accumulator_dtype),
                s->thread_m, s->thread_n, s->thread_m, s->thread_n);
  gemm_put_copy_setup(out, &a);
  gemm_put_copy_setup(out, &b);
  gemm_put_mainloop(out, s, s->k, &(StageCopies){2, {&a, &b}},
                    s->micro ? gemm_put_micro_call : put_fma, t);
  if (s->split > 1)
    gemm_put_split_k_fixup(out, t, s->thread_m * s->thread_n, s->thread_n);
  put_direct_epilogue(out, t);
  buffer_puts(out, s->split > 1 ? "}\n" : "");
}

void gemm_put_kernel(Buffer *before, Buffer *body, const GemmKernelSpec *t) {
  switch ((MmaKind)t->schedule->mma_kind) {
  case MMA_KIND_FMA:
    put_fma_kernel(before, body, t);
    break;
  case MMA_KIND_MMA_SYNC:
    put_mma_kernel(before, body, t);
    break;
  case MMA_KIND_WGMMA:
    gemm_put_wgmma_kernel(before, body, t);
    break;
  case MMA_KIND_TCGEN05:
    gemm_put_tcgen05_kernel(before, body, t);
    break;
  case MMA_KIND_NONE:
    break;
  }
}
