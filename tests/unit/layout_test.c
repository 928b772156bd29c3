/* Tests the layout algebra, and the instruction layouts derived from it,
 * against the figures of the PTX manual (backend/cuda/sim/layouts.h). */
#include "backend/cuda/layout.h"
#include "backend/cuda/sim/layouts.h"
#include "support/buffer.h"
#include "support/compiler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- the algebra, against functions element by element ---- */

static Layout layout3(const int64_t m[6]) {
  return layout_append(layout_append(layout_mode(m[0], m[1]), m[2], m[3]), m[4],
                       m[5]);
}

static const int64_t some[][6] = {
    {4, 1, 8, 4, 2, 32},  {4, 8, 2, 1, 4, 2},   {2, 4, 4, 8, 2, 1},
    {8, 8, 8, 1, 1, 0},   {4, 2, 8, 16, 2, 1},  {3, 1, 5, 3, 2, 15},
    {6, 5, 5, 1, 1, 7},   {16, 1, 1, 0, 4, 64}, {4, 32, 8, 1, 4, 8},
    {8, 1, 16, 32, 2, 8},
};

static void test_compose(void **state) {
  (void)state;
  int done = 0;
  for (size_t x = 0; x < ARRAY_LEN(some); x++)
    for (size_t y = 0; y < ARRAY_LEN(some); y++) {
      Layout a = layout3(some[x]), b = layout3(some[y]), c;
      if (layout_cosize(&b) > layout_size(&a) || !layout_compose(&a, &b, &c))
        continue;
      done++;
      assert_int_equal(layout_size(&c), layout_size(&b));
      for (int64_t i = 0; i < layout_size(&b); i++)
        assert_int_equal(layout_at(&c, i), layout_at(&a, layout_at(&b, i)));
    }
  assert_true(done > 10);
}

static void test_complement(void **state) {
  (void)state;
  int done = 0;
  for (size_t x = 0; x < ARRAY_LEN(some); x++) {
    Layout a = layout3(some[x]), rest;
    int64_t size = 1024;
    if (!layout_complement(&a, size, &rest))
      continue;
    done++;
    uint8_t hit[4096] = {0};
    int64_t all = layout_size(&a) * layout_size(&rest);
    assert_true(all >= size && all <= 4096);
    for (int64_t j = 0; j < layout_size(&rest); j++)
      for (int64_t i = 0; i < layout_size(&a); i++)
        assert_int_equal(hit[layout_at(&rest, j) + layout_at(&a, i)]++, 0);
  }
  assert_true(done > 5);
}

static void test_divide(void **state) {
  (void)state;
  /* Tiles of 8 x 4 in a column-major 32 x 16 matrix. */
  Layout all = layout_append(layout_mode(32, 1), 16, 40);
  Layout tile = layout_append(layout_mode(8, 1), 4, 32), inside, tiles;
  assert_true(layout_divide(&all, &tile, &inside, &tiles));
  assert_int_equal(layout_size(&inside), 32);
  assert_int_equal(layout_size(&tiles), 16);
  for (int64_t t = 0; t < 16; t++)
    for (int64_t i = 0; i < 32; i++)
      assert_int_equal(layout_at(&inside, i) + layout_at(&tiles, t),
                       i % 8 + t % 4 * 8 + (i / 8 + t / 4 * 4) * 40);
}

static void test_product(void **state) {
  (void)state;
  Layout tile = layout_append(layout_mode(4, 1), 2, 8), of = layout_mode(6, 1),
         all;
  assert_true(layout_product(&tile, &of, &all));
  uint8_t hit[1024] = {0};
  assert_int_equal(layout_size(&all), 48);
  for (int64_t i = 0; i < 48; i++)
    assert_int_equal(hit[layout_at(&all, i)]++, 0);
  for (int64_t i = 0; i < 8; i++)
    assert_int_equal(layout_at(&all, i), layout_at(&tile, i));
}

static void test_inverse(void **state) {
  (void)state;
  int done = 0;
  for (size_t x = 0; x < ARRAY_LEN(some); x++) {
    Layout a = layout3(some[x]), back;
    if (!layout_inverse(&a, &back))
      continue;
    done++;
    for (int64_t i = 0; i < layout_size(&a); i++)
      assert_int_equal(layout_at(&back, layout_at(&a, i)), i);
  }
  assert_true(done >= 4);
}

static void test_simple(void **state) {
  (void)state;
  Layout a = layout3((const int64_t[]){4, 2, 1, 5, 8, 8}),
         b = layout_mode(32, 2);
  assert_true(layout_equal(&a, &b));
  assert_int_equal(layout_coalesce(a).rank, 1);
  Layout c = layout_mode(32, 1);
  assert_false(layout_equal(&a, &c));
  /* Without divisibility there is no composition. */
  Layout d = layout3((const int64_t[]){6, 1, 4, 8, 1, 0}),
         e = layout_mode(3, 4), none;
  assert_false(layout_compose(&d, &e, &none));
  Layout twice = layout_mode(4, 0);
  assert_false(layout_complement(&twice, 16, &none));
  assert_false(layout_inverse(&b, &none));
}

static void test_print(void **state) {
  (void)state;
  Buffer out = {0};
  Layout l = layout_append(layout_append(layout_mode(4, 2), 8, 0), 2, 64);
  layout_print(&out, &l, "lane");
  buffer_putc(&out, 0);
  assert_string_equal(out.text, "(lane % 4u * 2u + lane / 32u * 64u)");
  out.len = 0;
  Layout none = layout_mode(8, 0);
  layout_print(&out, &none, "lane");
  buffer_putc(&out, 0);
  assert_string_equal(out.text, "(0u)");
  buffer_free(&out);
}

/* ---- instructions ---- */

static void check_held(const char *name, FragmentLayout h, Fragment f,
                       bool transposed, uint32_t columns) {
  FragmentInfo info = fragment_info(f);
  int count = columns ? info.count * (int)columns / info.columns : info.count;
  assert_int_equal(layout_size(&h.thread_row), info.threads);
  assert_int_equal(layout_size(&h.value_row), count);
  for (int t = 0; t < info.threads; t++)
    for (int v = 0; v < count; v++) {
      FragmentCoord p = fragment_coord(f, t, v);
      int64_t row = layout_at(&h.thread_row, t) + layout_at(&h.value_row, v);
      int64_t column =
          layout_at(&h.thread_column, t) + layout_at(&h.value_column, v);
      if (row != (transposed ? p.column : p.row) ||
          column != (transposed ? p.row : p.column))
        fail_msg("%s: thread %d, value %d", name, t, v);
    }
}

static void test_held(void **state) {
  (void)state;
  check_held("a", fragment_layout_mma_a(2), FRAGMENT_MMA_M16N8K16_A, false, 0);
  check_held("b", fragment_layout_mma_b(2), FRAGMENT_MMA_M16N8K16_B, true, 0);
  check_held("c", fragment_layout_mma_c(), FRAGMENT_MMA_M16N8K16_C, false, 0);
  check_held("a f8", fragment_layout_mma_a(1), FRAGMENT_MMA_M16N8K32_A, false,
             0);
  check_held("b f8", fragment_layout_mma_b(1), FRAGMENT_MMA_M16N8K32_B, true,
             0);
  check_held("c", fragment_layout_mma_c(), FRAGMENT_MMA_M16N8K8_C, false, 0);
  check_held("a k8",
             fragment_layout_repeat_values(fragment_layout_core(2), 2, 1),
             FRAGMENT_MMA_M16N8K8_A, false, 0);
  check_held("b k8", fragment_layout_core(2), FRAGMENT_MMA_M16N8K8_B, true, 0);
  check_held("a tf32", fragment_layout_mma_a(4), FRAGMENT_MMA_M16N8K8_TF32_A,
             false, 0);
  check_held("b tf32", fragment_layout_mma_b(4), FRAGMENT_MMA_M16N8K8_TF32_B,
             true, 0);
  check_held("wgmma a", fragment_layout_wgmma_a(2), FRAGMENT_WGMMA_M64K16_A,
             false, 0);
  check_held("wgmma tf32", fragment_layout_wgmma_a(4),
             FRAGMENT_WGMMA_M64K8_TF32_A, false, 0);
  for (uint32_t n = 8; n <= 256; n += 8)
    check_held("wgmma d", fragment_layout_wgmma_d(n), FRAGMENT_WGMMA_M64_D,
               false, n);
  FragmentLayout a = fragment_layout_wgmma_a(2);
  assert_int_equal(fragment_layout_rows(&a), 64);
  assert_int_equal(fragment_layout_columns(&a), 16);
}

/* ldmatrix, as in the manual, with derived addresses loads what the product
 * needs. */
static void check_loads(FragmentLayout h, uint32_t bytes, bool transposed) {
  Layout row, column;
  assert_true(fragment_layout_ldmatrix(&h, bytes, transposed, &row, &column));
  int each = (int)(4 / bytes),
      registers = (int)layout_size(&h.value_row) / each;
  for (int t = 0; t < WARP; t++)
    for (int v = 0; v < registers * each; v++) {
      /* An element of 4 bytes is two elements of the manual, and two elements
       * of 1 byte are one. */
      FragmentCoord p = fragment_coord(transposed ? FRAGMENT_LDMATRIX_TRANS
                                                  : FRAGMENT_LDMATRIX,
                                       t, v % each * (int)bytes / 2);
      int matrix_row = transposed ? p.column : p.row;
      int inside = (transposed ? p.row : p.column) * 2 / (int)bytes;
      inside += bytes == 1 ? v % 2 : 0;
      if (transposed) { /* rows in memory are columns of the operand */
        matrix_row = p.row;
        inside = p.column;
      }
      int64_t lane = v / each * 8 + matrix_row;
      int64_t r = layout_at(&row, lane) + (transposed ? inside : 0);
      int64_t c = layout_at(&column, lane) + (transposed ? 0 : inside);
      assert_int_equal(r, layout_at(&h.thread_row, t) +
                              layout_at(&h.value_row, v));
      assert_int_equal(c, layout_at(&h.thread_column, t) +
                              layout_at(&h.value_column, v));
    }
}

static void test_addresses(void **state) {
  (void)state;
  for (int transposed = 0; transposed < 2; transposed++) {
    check_loads(fragment_layout_mma_a(2), 2, transposed);
    check_loads(fragment_layout_mma_b(2), 2, transposed);
    check_loads(fragment_layout_repeat_values(fragment_layout_mma_b(2), 2, 1),
                2, transposed);
    check_loads(fragment_layout_repeat_values(fragment_layout_core(2), 4, 1), 2,
                transposed);
  }
  check_loads(fragment_layout_mma_a(4), 4, false);
  check_loads(fragment_layout_mma_a(1), 1, false);
  check_loads(fragment_layout_repeat_values(fragment_layout_mma_b(1), 2, 1), 1,
              false);
  check_loads(fragment_layout_repeat_values(fragment_layout_mma_b(4), 2, 1), 4,
              false);
  FragmentLayout a = fragment_layout_mma_a(4);
  Layout row, column;
  assert_false(fragment_layout_ldmatrix(&a, 4, true, &row, &column));
}

/* ---- banks and swizzles ---- */

static void test_wavefronts(void **state) {
  (void)state;
  int64_t at[WARP];
  for (int l = 0; l < WARP; l++)
    at[l] = 4 * l;
  assert_int_equal(layout_wavefronts(at, 4), 1);
  for (int l = 0; l < WARP; l++)
    at[l] = 8 * l;
  assert_int_equal(layout_wavefronts(at, 4), 2);
  assert_int_equal(layout_wavefronts(at, 8), 2);
  for (int l = 0; l < WARP; l++)
    at[l] = 128 * l;
  assert_int_equal(layout_wavefronts(at, 4), 32);
  assert_int_equal(layout_wavefronts(at, 16), 32);
  for (int l = 0; l < WARP; l++)
    at[l] = 0;
  assert_int_equal(layout_wavefronts(at, 4), 1);
  for (int l = 0; l < WARP; l++)
    at[l] = l ? -1 : 12;
  assert_int_equal(layout_wavefronts(at, 4), 1);
  for (int l = 0; l < WARP; l++)
    at[l] = 2 * l;
  assert_int_equal(layout_wavefronts(at, 2), 1);
}

/* Chosen swizzles have no bank conflicts.  They are those of TMA if the rows
 * are as wide. */
static void test_choose(void **state) {
  (void)state;
  static const uint32_t widths[] = {32, 64, 128};
  for (size_t j = 0; j < ARRAY_LEN(widths); j++)
    for (int transposed = 0; transposed < 2; transposed++)
      for (uint32_t bytes = 2; bytes <= 4; bytes *= 2) {
        SmemTile t = {64, widths[j] / bytes, bytes, widths[j], {0}};
        FragmentLayout h = transposed ? fragment_layout_mma_a(bytes)
                                      : fragment_layout_repeat_values(
                                            fragment_layout_mma_b(bytes), 2, 1);
        SmemAccess of[] = {fragment_layout_access(&h, bytes, transposed),
                           smem_tile_row_access(&t, 16)};
        smem_tile_choose_swizzle(&t, 2, of);
        assert_int_equal(smem_tile_wavefronts(&t, &of[1]), 4);
        if (transposed && bytes == 4) { /* element by element */
          assert_int_equal(smem_tile_wavefronts(&t, &of[0]), 1);
          continue;
        }
        assert_int_equal(smem_tile_wavefronts(&t, &of[0]), 4);
        SwizzleInfo engine =
            swizzle_info(smem_tile_descriptor(&t, transposed).swizzle);
        assert_int_equal(t.swizzle.bits, engine.bits);
        for (uint32_t at = 0; at < 4096; at++)
          assert_int_equal(swizzle_apply(t.swizzle, at),
                           swizzle_address(engine, at));
      }
}

/* The layout maps elements to distinct addresses. */
static void test_tiles(void **state) {
  (void)state;
  static uint8_t hit[1 << 16];
  for (uint32_t width = 32; width <= 128; width *= 2)
    for (uint32_t columns = 16; columns <= 256; columns *= 4) {
      SmemTile t = {32, columns, 2, width, {2, 4, 3}};
      memset(hit, 0, sizeof hit);
      int64_t bytes = smem_tile_bytes(&t);
      for (uint32_t r = 0; r < 32; r++)
        for (uint32_t c = 0; c < columns; c++) {
          int64_t at = smem_tile_offset(&t, r, c);
          assert_true(at >= 0 && at < bytes && at % 2 == 0);
          assert_int_equal(hit[at]++, 0);
        }
    }
}

/* A wgmma descriptor of a tile leads to each element, by the manual. */
static void test_matrix(void **state) {
  (void)state;
  for (uint32_t width = 32; width <= 128; width *= 2)
    for (int transposed = 0; transposed < 2; transposed++) {
      uint32_t each = width / 2;
      SmemTile t = {
          transposed ? 64 : 128, transposed ? 256 : each, 2, width, {0}};
      t.swizzle = (Swizzle){width == 128 ? 3 : width == 64 ? 2 : 1, 4, 3};
      SmemDescriptor m = smem_tile_descriptor(&t, transposed);
      SmemOperand o = {swizzle_info(m.swizzle), transposed, 2, m.leading_bytes,
                       m.stride_bytes};
      uint32_t depth = transposed ? 64 : each;
      for (uint32_t k = 0; k < depth; k++)
        for (uint32_t mn = 0; mn < (transposed ? 256u : 128u); mn++) {
          uint32_t at = swizzle_address(
              o.swizzle,
              k / 16 * m.k_step_bytes + smem_operand_offset(&o, mn, k % 16));
          assert_int_equal(at, transposed ? smem_tile_offset(&t, k, mn)
                                          : smem_tile_offset(&t, mn, k));
        }
    }
}

/* The same numbers as in kernels that run on GPUs (ThunderKittens,
 * types/shared/descriptor.cuh; DeepGEMM, mma/sm90.cuh): 64 rows of k and 256
 * columns if transposed, otherwise 128 rows. */
static void test_told(void **state) {
  (void)state;
  static const struct {
    uint32_t width, number, stride, leading, step, step_turned;
  } told[] = {{128, 1, 1024, 64 * 128, 32, 16 * 128},
              {64, 2, 512, 64 * 64, 32, 16 * 64},
              {32, 3, 256, 64 * 32, 128 * 32, 16 * 32}};
  for (size_t j = 0; j < ARRAY_LEN(told); j++)
    for (int transposed = 0; transposed < 2; transposed++) {
      SmemTile t = {
          transposed ? 64 : 128, transposed ? 256 : 64, 2, told[j].width, {0}};
      SmemDescriptor m = smem_tile_descriptor(&t, transposed);
      assert_int_equal(m.swizzle, told[j].number);
      assert_int_equal(m.stride_bytes, told[j].stride);
      assert_int_equal(m.k_step_bytes,
                       transposed ? told[j].step_turned : told[j].step);
      if (transposed)
        assert_int_equal(m.leading_bytes, told[j].leading);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_compose),   cmocka_unit_test(test_complement),
      cmocka_unit_test(test_divide),    cmocka_unit_test(test_product),
      cmocka_unit_test(test_inverse),   cmocka_unit_test(test_simple),
      cmocka_unit_test(test_print),     cmocka_unit_test(test_held),
      cmocka_unit_test(test_addresses), cmocka_unit_test(test_wavefronts),
      cmocka_unit_test(test_choose),    cmocka_unit_test(test_tiles),
      cmocka_unit_test(test_matrix),    cmocka_unit_test(test_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
