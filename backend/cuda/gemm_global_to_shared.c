/* Copies of operand tiles from global to shared memory. */
#include "backend/cuda/gemm_emit.h"
#include "support/buffer.h"

#include <string.h>

enum {
  VECTOR_BYTES = 16,
  INTERLEAVED_K = 8 /* k indices of neighbouring threads */
};

/* ---- axes ---- */

void gemm_put_extent(Buffer *out, const GemmAxisGroup *g, const char *name) {
  buffer_printf(out, "  const int %s = (int)(", name);
  for (uint32_t j = 0; j < g->count; j++)
    buffer_printf(out, "%s%s", j ? " * " : "", g->axes[j].extent);
  buffer_puts(out, g->count ? ");\n" : "1);\n");
}

/* Unravels a linear index; the last axis varies fastest. */
void gemm_put_unravel(Buffer *out, const GemmAxisGroup *g, const char *index) {
  if (g->count == 1) {
    buffer_printf(out, "const int64_t %s = %s;\n(void)%s;\n", g->axes[0].name,
                  index, g->axes[0].name);
    return;
  }
  for (uint32_t j = g->count; j-- > 0;) {
    const GemmAxis *a = &g->axes[j];
    bool last = j + 1 == g->count;
    buffer_printf(out, "const unsigned rest_%s = ", a->name);
    if (last)
      buffer_printf(out, "(unsigned)(%s);\n", index);
    else
      buffer_printf(out, "rest_%s / (unsigned)(%s);\n", a[1].name, a[1].extent);
    buffer_printf(out, "const int64_t %s = rest_%s", a->name, a->name);
    if (j)
      buffer_printf(out, " %% (unsigned)(%s)", a->extent);
    buffer_printf(out, ";\n(void)%s;\n", a->name);
  }
}

static void put_linear_index(Buffer *out, const GemmAxisGroup *g, bool b,
                             int predicate) {
  bool any = false;
  for (uint32_t j = 0; j < g->count; j++) {
    const GemmAxis *a = &g->axes[j];
    const char *stride = predicate >= 0 ? (b ? a->predicate_stride_b
                                             : a->predicate_stride_a)[predicate]
                         : b            ? a->stride_b
                                        : a->stride_a;
    if (!stride)
      continue;
    buffer_printf(out, "%s%s", any ? " + " : "", a->name);
    if (strcmp(stride, "1") != 0)
      buffer_printf(out, " * (%s)", stride);
    any = true;
  }
  buffer_puts(out, any ? "" : "0");
}

void gemm_put_offset(Buffer *out, const GemmAxisGroup *g, const char *name,
                     bool b) {
  buffer_printf(out, "const int64_t %s = ", name);
  put_linear_index(out, g, b, -1);
  buffer_puts(out, ";\n");
}

/* ---- types ---- */

const char *gemm_compute_type(Dtype t) {
  switch (t) {
  case DT_F64:
    return "double";
  case DT_I64:
    return "int64_t";
  case DT_I32:
  case DT_I8:
  case DT_U8:
  case DT_BOOL:
    return "int";
  case DT_F16:
  case DT_BF16:
  case DT_F8_E4M3:
  case DT_F8_E5M2:
  case DT_F4_E2M1:
  case DT_F8_E8M0:
  case DT_F32:
  case DT_NONE:
  case DT_COUNT:
    break;
  }
  return "float";
}

const char *gemm_storage_type(Dtype t) {
  switch (t) {
  case DT_F16:
  case DT_BF16:
    return "uint16_t";
  case DT_I8:
    return "int8_t";
  case DT_U8:
  case DT_BOOL:
  case DT_F8_E4M3:
  case DT_F8_E5M2:
  case DT_F4_E2M1:
  case DT_F8_E8M0:
    return "uint8_t";
  case DT_I32:
    return "int";
  case DT_I64:
  case DT_F32:
  case DT_F64:
  case DT_NONE:
  case DT_COUNT:
    break;
  }
  return gemm_compute_type(t);
}

void gemm_put_widened(Buffer *out, Dtype t, const char *x) {
  if (dtype_is_narrow_float(t))
    buffer_printf(out, "ax_%s_to_f32(%s)", dtype_info[t].name, x);
  else
    buffer_puts(out, x);
}

void gemm_put_narrowed(Buffer *out, Dtype t, const char *x) {
  if (dtype_is_narrow_float(t))
    buffer_printf(out, "ax_f32_to_%s(%s)", dtype_info[t].name, x);
  else
    buffer_printf(out, "(%s)(%s)", gemm_storage_type(t), x);
}

/* ---- tiled copy ---- */

GemmTiledCopy gemm_tiled_copy(const GemmKernelSpec *t, bool b) {
  const GemmSchedule *s = t->schedule;
  const GemmSide *side = b ? &t->shape->b : &t->shape->a;
  GemmTiledCopy to = {.spec = t,
                      .b = b,
                      .letter = b ? 'b' : 'a',
                      .axis_letter = b ? 'n' : 'm',
                      .side = side,
                      .operand = b ? &t->b : &t->a,
                      .mn_axes = b ? &t->n : &t->m,
                      .tile = gemm_operand_tile(t->shape, s, b),
                      .mn_major = side->mn_major || s->mma_kind == MMA_KIND_FMA,
                      .copy_bytes = b ? s->copy_b : s->copy_a,
                      .k_end = "to"};
  to.vector_width =
      (to.copy_bytes ? to.copy_bytes : VECTOR_BYTES) / to.tile.element_bytes;
  to.k_interleaved =
      to.copy_bytes && s->mma_kind == MMA_KIND_FMA && !side->mn_major;
  to.via_registers = !to.copy_bytes || s->copy == COPY_VIA_REGISTERS;
  to.copies_per_row = to.tile.columns / to.vector_width;
  uint32_t threads = gemm_loader_threads(s),
           all = to.tile.rows * to.copies_per_row;
  to.iterations = (all + threads - 1) / threads;
  to.is_even = all % threads == 0;
  to.stage_bytes = (uint32_t)((smem_tile_bytes(&to.tile) + 1023) / 1024 * 1024);
  return to;
}

void gemm_put_smem_offset(Buffer *out, const GemmTiledCopy *s) {
  buffer_printf(out,
                "AX_DEVICE unsigned %s_%c(unsigned row, unsigned column) {\n"
                "return ",
                s->spec->name, s->letter);
  smem_tile_print_offset(out, &s->tile, "row", "column");
  buffer_puts(out, ";\n}\n");
}

/* Declares row and column of the thread's copy in iteration p. */
static void put_tile_coord(Buffer *out, const GemmTiledCopy *s) {
  uint32_t threads = gemm_loader_threads(s->spec->schedule);
  buffer_printf(out, "const unsigned e = thread + p * %uu;\n", threads);
  if (!s->is_even)
    buffer_printf(out, "if (e >= %uu)\ncontinue;\n",
                  s->tile.rows * s->copies_per_row);
  if (s->k_interleaved)
    buffer_printf(out,
                  "const unsigned row = e %% %du + e / %uu * %du, "
                  "column = e / %du %% %uu;\n",
                  INTERLEAVED_K, INTERLEAVED_K * s->copies_per_row,
                  INTERLEAVED_K, INTERLEAVED_K, s->copies_per_row);
  else
    buffer_printf(out,
                  "const unsigned row = e / %uu, column = e %% %uu * %uu;\n",
                  s->copies_per_row, s->copies_per_row, s->vector_width);
  buffer_puts(out, "(void)row, (void)column;\n");
}

static void put_iterations(Buffer *out, const GemmTiledCopy *s) {
  buffer_printf(out, "#pragma unroll\nfor (int p = 0; p < %u; p++) {\n",
                s->iterations);
  put_tile_coord(out, s);
}

/* Declares, per iteration, the loop-invariant part of addresses and
 * predicates. */
void gemm_put_copy_setup(Buffer *out, const GemmTiledCopy *s) {
  char c = s->letter;
  if (s->via_registers)
    buffer_printf(out, "%s %c_held[%u];\n",
                  s->copy_bytes == 4    ? "unsigned"
                  : s->copy_bytes == 8  ? "uint2"
                  : s->copy_bytes == 16 ? "uint4"
                                        : "uint4",
                  c, s->iterations);
  if (!s->copy_bytes)
    return;
  buffer_printf(out, "int64_t %c_at[%u];\nint %c_left[%u];\n", c, s->iterations,
                c, s->iterations);
  for (uint32_t g = 0; g < s->operand->predicate_count; g++)
    buffer_printf(out, "int %c_guard%u[%u];\n", c, g, s->iterations);
  put_iterations(out, s);
  buffer_printf(out, "const int r = (int)(%c0 + %s);\n", s->axis_letter,
                s->mn_major ? "column" : "row");
  buffer_printf(out, "%c_left[p] = %c_all - r;\n", c, s->axis_letter);
  gemm_put_unravel(out, s->mn_axes, "r");
  gemm_put_offset(out, s->mn_axes, "at", s->b);
  buffer_printf(out, "%c_at[p] = at + %c_batch;\n", c, c);
  for (uint32_t g = 0; g < s->operand->predicate_count; g++) {
    buffer_printf(out, "%c_guard%u[p] = (int)(%s + ", c, g,
                  s->operand->predicates[g].base);
    put_linear_index(out, s->mn_axes, s->b, (int)g);
    buffer_puts(out, " + ");
    put_linear_index(out, &s->spec->batch, s->b, (int)g);
    buffer_puts(out, ");\n");
  }
  buffer_puts(out, "}\n");
}

/* Declares `have`: the bytes of the copy that are in bounds. */
static void put_valid_bytes(Buffer *out, const GemmTiledCopy *s) {
  char c = s->letter;
  uint32_t bytes = s->tile.element_bytes;
  /* the vector is along rows */
  bool along = s->mn_major && !s->k_interleaved;
  bool one = s->vector_width == 1;
  if (one)
    buffer_printf(out, "bool there = %c_left[p] > 0 && t < to;\n", c);
  else
    buffer_printf(out, "bool there = %s;\n", along ? "t < to" : "true");
  if (!one && !along)
    buffer_printf(out, "there = %c_left[p] > 0;\n", c);
  for (uint32_t g = 0; g < s->operand->predicate_count; g++) {
    buffer_printf(out, "there = there && (unsigned)(%c_guard%u[p] + (int)(", c,
                  g);
    put_linear_index(out, &s->spec->k, s->b, (int)g);
    buffer_printf(out, ")) < (unsigned)(%s);\n",
                  s->operand->predicates[g].extent);
  }
  if (one) {
    buffer_printf(out, "const int have = there ? %u : 0;\n", s->copy_bytes);
    return;
  }
  buffer_printf(out, "const int left = ");
  if (along)
    buffer_printf(out, "%c_left[p];\n", c);
  else
    buffer_puts(out, "to - t;\n");
  buffer_printf(out,
                "const int have = !there || left <= 0 ? 0 : left < %u ? "
                "left * %u : %u;\n",
                s->vector_width, bytes, s->copy_bytes);
}

static void put_k_coord(Buffer *out, const GemmTiledCopy *s,
                        const char *first_k) {
  buffer_printf(out, "const int t = %s + (int)%s;\n", first_k,
                s->mn_major ? "row" : "column");
}

/* Loads a full vector, or element by element at the end. */
static void put_load_to_registers(Buffer *out, const GemmTiledCopy *s) {
  char c = s->letter;
  const char *type = s->copy_bytes == 16  ? "uint4"
                     : s->copy_bytes == 8 ? "uint2"
                                          : NULL;
  if (type)
    buffer_printf(out, "%s v = make_%s(%s);\n", type, type,
                  s->copy_bytes == 16 ? "0, 0, 0, 0" : "0, 0");
  else
    buffer_puts(out, "unsigned v = 0;\n");
  buffer_printf(out, "if (have == %u) {\nv = ax_load_%u(source);\n}",
                s->copy_bytes, s->copy_bytes);
  if (s->vector_width > 1) {
    const char *element = s->tile.element_bytes == 2 ? "uint16_t" : "unsigned";
    buffer_printf(out,
                  " else if (have > 0) {\nunsigned w[%u] = {0};\n"
                  "#pragma unroll\nfor (int i = 0; i < %u; i++)\n"
                  "if (i * %u < have)\n",
                  s->copy_bytes / 4, s->vector_width, s->tile.element_bytes);
    if (s->tile.element_bytes == 2)
      buffer_printf(
          out,
          "w[i / 2] |= (unsigned)((const %s *)source)[i] << i %% 2 * 16;\n",
          element);
    else
      buffer_printf(out, "w[i] = ((const %s *)source)[i];\n", element);
    if (s->copy_bytes == 16)
      buffer_puts(out, "v = make_uint4(w[0], w[1], w[2], w[3]);\n}");
    else if (s->copy_bytes == 8)
      buffer_puts(out, "v = make_uint2(w[0], w[1]);\n}");
    else
      buffer_puts(out, "v = w[0];\n}");
  }
  buffer_printf(out, "\n%c_held[p] = v;\n", c);
}

static void put_vector_copies(Buffer *out, const GemmTiledCopy *s,
                              const char *at, const char *first_k) {
  char c = s->letter;
  put_iterations(out, s);
  put_k_coord(out, s, first_k);
  gemm_put_unravel(out, &s->spec->k, "t");
  gemm_put_offset(out, &s->spec->k, "terms", s->b);
  put_valid_bytes(out, s);
  buffer_printf(out,
                "const %s *source = (const %s *)%s + "
                "(have > 0 ? %c_at[p] + terms : 0);\n",
                gemm_storage_type(s->side->dtype),
                gemm_storage_type(s->side->dtype), s->operand->pointer, c);
  if (s->via_registers)
    put_load_to_registers(out, s);
  else
    buffer_printf(out,
                  "ax_copy_%u(%s + %s_%c(row, column), source, "
                  "(unsigned)have);\n",
                  s->copy_bytes, at, s->spec->name, c);
  buffer_puts(out, "}\n");
}

/* ---- computed operands ---- */

/* True if the elements of a vector are copied as bytes, without conversion. */
static bool copies_bytes(const GemmTiledCopy *s) {
  return !s->operand->put_value && s->tile.element_bytes == 1;
}

/* Loads the element at the axis variables. */
static void put_element_load(Buffer *out, const GemmTiledCopy *s,
                             const char *to) {
  Dtype t = s->side->dtype;
  bool b = s->b;
  buffer_puts(out, "const bool there = true");
  for (uint32_t g = 0; g < s->operand->predicate_count; g++) {
    buffer_printf(out, " && (unsigned)(int)(%s + ",
                  s->operand->predicates[g].base);
    put_linear_index(out, &s->spec->batch, b, (int)g);
    buffer_puts(out, " + ");
    put_linear_index(out, s->mn_axes, b, (int)g);
    buffer_puts(out, " + ");
    put_linear_index(out, &s->spec->k, b, (int)g);
    buffer_printf(out, ") < (unsigned)(%s)", s->operand->predicates[g].extent);
  }
  buffer_printf(out, ";\nif (there) {\nconst %s bits = ((const %s *)%s)[",
                gemm_storage_type(t), gemm_storage_type(t),
                s->operand->pointer);
  put_linear_index(out, &s->spec->batch, b, -1);
  buffer_puts(out, " + ");
  put_linear_index(out, s->mn_axes, b, -1);
  buffer_puts(out, " + ");
  put_linear_index(out, &s->spec->k, b, -1);
  buffer_printf(out, "];\n%s = ", to);
  if (copies_bytes(s))
    buffer_puts(out, "bits");
  else
    gemm_put_widened(out, t, "bits");
  buffer_puts(out, ";\n}\n");
}

static void put_four_bytes(Buffer *out, const GemmTiledCopy *s, int first) {
  for (int i = 0; i < 4; i++) {
    buffer_puts(out, i ? " | (unsigned)" : "(unsigned)");
    if (!copies_bytes(s))
      buffer_printf(out, "ax_f32_to_%s", dtype_info[s->side->dtype].name);
    buffer_printf(out, "(v[%d]) << %d", first + i, 8 * i);
  }
}

/* Computes the elements v[i] of a vector and packs them into a uint4. */
static void put_computed_vector(Buffer *out, const GemmTiledCopy *s,
                                const char *first_k, const char *to) {
  char group = s->axis_letter;
  Dtype t = s->side->dtype;
  const char *type =
      copies_bytes(s) ? gemm_storage_type(t) : gemm_compute_type(t);
  buffer_printf(out,
                "%s v[%u];\n#pragma unroll\nfor (int i = 0; i < %u; i++) {\n"
                "const int t = %s + (int)(%s), r = (int)(%c0 + %s);\n"
                "v[i] = 0;\nif (t < %s && r < %c_all) {\n",
                type, s->vector_width, s->vector_width, first_k,
                s->mn_major ? "row" : "column + i", group,
                s->mn_major ? "column + i" : "row", s->k_end, group);
  gemm_put_unravel(out, s->mn_axes, "r");
  gemm_put_unravel(out, &s->spec->k, "t");
  if (s->operand->put_value)
    s->operand->put_value(s->spec->owner, out, "v[i]");
  else
    put_element_load(out, s, "v[i]");
  buffer_puts(out, "}\n}\n");
  buffer_printf(out, "%s = make_uint4(", to);
  for (int j = 0; j < 4; j++) {
    buffer_puts(out, j ? ", " : "");
    if (dtype_info[t].bytes == 1)
      put_four_bytes(out, s, 4 * j);
    else if (dtype_info[t].bytes == 2)
      buffer_printf(out, "ax_pack_%s(v[%d], v[%d])", dtype_info[t].name, 2 * j,
                    2 * j + 1);
    else if (t == DT_F32)
      buffer_printf(out, "__float_as_uint(v[%d])", j);
    else
      buffer_printf(out,
                    "(unsigned)((uint64_t)__double_as_longlong(v[%d]) >> %d)",
                    j / 2, j % 2 * 32);
  }
  buffer_puts(out, ");\n");
}

static void put_computed_to_registers(Buffer *out, const GemmTiledCopy *s,
                                      const char *first_k) {
  char to[16];
  snprintf(to, sizeof to, "%c_held[p]", s->letter);
  put_iterations(out, s);
  put_computed_vector(out, s, first_k, to);
  buffer_puts(out, "}\n");
}

/* The shared memory location of the vector, in a stage that starts at `at`. */
static void put_smem_lvalue(Buffer *out, const GemmTiledCopy *s,
                            const char *at) {
  buffer_printf(out, "*(%s *)(memory + %s + %s_%c(row, column))",
                s->copy_bytes == 4   ? "unsigned"
                : s->copy_bytes == 8 ? "uint2"
                                     : "uint4",
                at, s->spec->name, s->letter);
}

void gemm_put_computed(Buffer *out, const GemmTiledCopy *s, const char *at,
                       const char *first_k) {
  Buffer to = {0};
  uint32_t loads_in_flight = gemm_loads_in_flight(s->iterations);
  put_smem_lvalue(&to, s, at);
  buffer_printf(out,
                "#pragma unroll 1\nfor (int q = 0; q < %u; q += %u) {\n"
                "uint4 ahead[%u];\n",
                s->iterations, loads_in_flight, loads_in_flight);
  for (int stores = 0; stores < 2; stores++) {
    buffer_printf(out,
                  "#pragma unroll\nfor (int u = 0; u < %u; u++) {\n"
                  "const int p = q + u;\n",
                  loads_in_flight);
    put_tile_coord(out, s);
    if (stores)
      buffer_printf(out, "%s = ahead[u];\n", to.text);
    else
      put_computed_vector(out, s, first_k, "ahead[u]");
    buffer_puts(out, "}\n");
  }
  buffer_puts(out, "}\n");
  buffer_free(&to);
}

void gemm_put_copy(Buffer *out, const GemmTiledCopy *s, const char *at,
                   const char *first_k) {
  buffer_puts(out, "{\n");
  if (s->copy_bytes)
    put_vector_copies(out, s, at, first_k);
  else
    put_computed_to_registers(out, s, first_k);
  buffer_puts(out, "}\n");
}

void gemm_put_registers_to_shared(Buffer *out, const GemmTiledCopy *s,
                                  const char *at) {
  put_iterations(out, s);
  put_smem_lvalue(out, s, at);
  buffer_printf(out, " = %c_held[p];\n}\n", s->letter);
}
