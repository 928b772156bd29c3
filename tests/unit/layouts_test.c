/* Tests the layouts of the PTX manual: each element is held once, instructions
 * that belong together fit, and the examples of the manual are reproduced. */
#include "backend/cuda/sim/layouts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- in registers ---- */

static void test_each_once(void **state) {
  (void)state;
  for (int f = FRAGMENT_NONE + 1; f < FRAGMENT_COUNT; f++) {
    static uint8_t held[64][256];
    FragmentInfo info = fragment_info((Fragment)f);
    memset(held, 0, sizeof held);
    assert_int_equal(info.threads * info.count, info.rows * info.columns);
    for (int thread = 0; thread < info.threads; thread++)
      for (int i = 0; i < info.count; i++) {
        FragmentCoord p = fragment_coord((Fragment)f, thread, i);
        assert_in_range(p.row, 0, info.rows - 1);
        assert_in_range(p.column, 0, info.columns - 1);
        assert_int_equal(held[p.row][p.column]++, 0);
      }
  }
  assert_int_equal(fragment_info(FRAGMENT_NONE).rows, 0);
  assert_int_equal(fragment_coord(FRAGMENT_NONE, 0, 0).row, -1);
}

/* With fewer columns the accumulator of wgmma has the first elements. */
static void test_fewer_columns(void **state) {
  (void)state;
  for (int n = 8; n <= 256; n += 8)
    for (int thread = 0; thread < 128; thread++)
      for (int i = 0; i < 128; i++) {
        FragmentCoord p = fragment_coord(FRAGMENT_WGMMA_M64_D, thread, i);
        assert_int_equal(p.column < n, i < n / 2);
      }
}

/* The same layouts as in CUTLASS, whose kernels run on GPUs
 * (cute/atom/mma_traits_sm75, _sm80, _sm90_gmma, copy_traits_sm100).  Extents
 * and strides of the thread number, then of the element number; they add up to
 * column * rows + row. */
typedef struct Told {
  Fragment fragment;
  bool transposed; /* rows of the manual are our columns */
  int thread[3][2], element[3][2];
} Told;

static const Told told[] = {
    {FRAGMENT_MMA_M16N8K16_A,
     0,
     {{4, 32}, {8, 1}},
     {{2, 16}, {2, 8}, {2, 128}}},
    {FRAGMENT_MMA_M16N8K16_B, 1, {{4, 16}, {8, 1}}, {{2, 8}, {2, 64}}},
    {FRAGMENT_MMA_M16N8K16_C, 0, {{4, 32}, {8, 1}}, {{2, 16}, {2, 8}}},
    {FRAGMENT_MMA_M16N8K32_A,
     0,
     {{4, 64}, {8, 1}},
     {{4, 16}, {2, 8}, {2, 256}}},
    {FRAGMENT_MMA_M16N8K32_B, 1, {{4, 32}, {8, 1}}, {{4, 8}, {2, 128}}},
    {FRAGMENT_MMA_M16N8K8_A, 0, {{4, 32}, {8, 1}}, {{2, 16}, {2, 8}}},
    {FRAGMENT_MMA_M16N8K8_B, 1, {{4, 16}, {8, 1}}, {{2, 8}}},
    {FRAGMENT_MMA_M16N8K8_C, 0, {{4, 32}, {8, 1}}, {{2, 16}, {2, 8}}},
    {FRAGMENT_MMA_M16N8K8_TF32_A, 0, {{4, 16}, {8, 1}}, {{2, 8}, {2, 64}}},
    {FRAGMENT_MMA_M16N8K8_TF32_B, 1, {{4, 8}, {8, 1}}, {{2, 32}}},
    {FRAGMENT_WGMMA_M64K16_A,
     0,
     {{4, 128}, {8, 1}, {4, 16}},
     {{2, 64}, {2, 8}, {2, 512}}},
    {FRAGMENT_WGMMA_M64K8_TF32_A,
     0,
     {{4, 64}, {8, 1}, {4, 16}},
     {{2, 8}, {2, 256}}},
    {FRAGMENT_TMEM_16X256B, 0, {{4, 32}, {8, 1}}, {{2, 16}, {2, 8}, {32, 128}}},
    {FRAGMENT_TMEM_16X128B, 0, {{4, 16}, {8, 1}}, {{2, 8}, {32, 64}}},
    {FRAGMENT_WGMMA_M64_D,
     0,
     {{4, 128}, {8, 1}, {4, 16}},
     {{2, 64}, {2, 8}, {32, 512}}},
};

static int told_at(const int modes[3][2], int number) {
  int at = 0;
  for (int j = 0; j < 3 && modes[j][0]; j++) {
    at += number % modes[j][0] * modes[j][1];
    number /= modes[j][0];
  }
  return at;
}

static void test_told(void **state) {
  (void)state;
  for (size_t j = 0; j < sizeof told / sizeof *told; j++) {
    const Told *t = &told[j];
    FragmentInfo info = fragment_info(t->fragment);
    int rows = t->transposed ? info.columns : info.rows;
    for (int thread = 0; thread < info.threads; thread++)
      for (int i = 0; i < info.count; i++) {
        FragmentCoord p = fragment_coord(t->fragment, thread, i);
        int row = t->transposed ? p.column : p.row;
        int column = t->transposed ? p.row : p.column;
        assert_int_equal(told_at(t->thread, thread) + told_at(t->element, i),
                         column * rows + row);
      }
  }
}

static bool same(FragmentCoord a, int row, int column) {
  return a.row == row && a.column == column;
}

/* Two elements of 16 bits that are one register are neighbours along k. */
static void test_pairs(void **state) {
  (void)state;
  for (int thread = 0; thread < 32; thread++)
    for (int i = 0; i < 8; i += 2) {
      FragmentCoord a = fragment_coord(FRAGMENT_MMA_M16N8K16_A, thread, i);
      assert_true(same(fragment_coord(FRAGMENT_MMA_M16N8K16_A, thread, i + 1),
                       a.row, a.column + 1));
      FragmentCoord b = fragment_coord(FRAGMENT_MMA_M16N8K16_B, thread, i % 4);
      assert_true(
          same(fragment_coord(FRAGMENT_MMA_M16N8K16_B, thread, i % 4 + 1),
               b.row + 1, b.column));
    }
}

/* ldmatrix loads what mma needs: four 8 x 8 matrices are A; two transposed ones
 * are B. */
static void test_ldmatrix(void **state) {
  (void)state;
  for (int thread = 0; thread < 32; thread++) {
    for (int i = 0; i < 8; i++) {
      int matrix = i / 2;
      FragmentCoord p = fragment_coord(FRAGMENT_LDMATRIX, thread, i % 2);
      assert_true(same(fragment_coord(FRAGMENT_MMA_M16N8K16_A, thread, i),
                       p.row + 8 * (matrix % 2), p.column + 8 * (matrix / 2)));
    }
    for (int i = 0; i < 4; i++) {
      FragmentCoord t = fragment_coord(FRAGMENT_LDMATRIX_TRANS, thread, i % 2);
      FragmentCoord b = fragment_coord(FRAGMENT_MMA_M16N8K16_B, thread, i);
      assert_true(same(b, t.row + 8 * (i / 2), t.column));
      t = fragment_coord(FRAGMENT_LDMATRIX, thread, i % 2); /* columns of B */
      assert_true(same(b, t.column + 8 * (i / 2), t.row));
    }
  }
}

/* A warpgroup is four warps; each does mma on 16 rows.  The result of one
 * product is the A of the next one without data movement, as attention needs
 * it. */
static void test_related(void **state) {
  (void)state;
  static const struct {
    Fragment group, warp;
  } pairs[] = {{FRAGMENT_WGMMA_M64K16_A, FRAGMENT_MMA_M16N8K16_A},
               {FRAGMENT_WGMMA_M64K8_TF32_A, FRAGMENT_MMA_M16N8K8_TF32_A}};
  for (int thread = 0; thread < 128; thread++) {
    for (int k = 0; k < 2; k++)
      for (int i = 0; i < fragment_info(pairs[k].warp).count; i++) {
        FragmentCoord p = fragment_coord(pairs[k].warp, thread % 32, i);
        assert_true(same(fragment_coord(pairs[k].group, thread, i),
                         p.row + thread / 32 * 16, p.column));
      }
    for (int i = 0; i < 128; i++) {
      FragmentCoord p =
          fragment_coord(FRAGMENT_MMA_M16N8K16_C, thread % 32, i % 4);
      assert_true(same(fragment_coord(FRAGMENT_WGMMA_M64_D, thread, i),
                       p.row + thread / 32 * 16, p.column + i / 4 * 8));
      p = fragment_coord(FRAGMENT_WGMMA_M64K16_A, thread, i % 8);
      assert_true(same(fragment_coord(FRAGMENT_WGMMA_M64_D, thread, i), p.row,
                       p.column + i / 8 * 16));
    }
  }
}

/* ---- in shared memory ---- */

static void test_swizzles(void **state) {
  (void)state;
  static const uint32_t widths[] = {0, 128, 64, 32};
  for (uint32_t number = 0; number < 4; number++) {
    SwizzleInfo s = swizzle_info(number);
    static uint8_t held[1024];
    memset(held, 0, sizeof held);
    assert_int_equal(s.span_bytes, widths[number]);
    for (uint32_t at = 0; at < 1024; at++) {
      uint32_t to = swizzle_address(s, at);
      assert_int_equal(held[to]++, 0);
      assert_int_equal(to / s.period_bytes, at / s.period_bytes);
      assert_int_equal(to % 16, at % 16);
      assert_int_equal(swizzle_address(s, to), at);
      assert_int_equal(swizzle_address(s, at + 3 * s.period_bytes),
                       to + 3 * s.period_bytes);
    }
    /* Eight consecutive rows of a 16-byte column use distinct banks. */
    for (uint32_t column = 0; number && column < s.span_bytes / 16; column++) {
      uint32_t banks = 0;
      for (uint32_t row = 0; row < 8; row++) {
        uint32_t at = swizzle_address(s, row * s.span_bytes + column * 16);
        assert_false(banks >> at % 128 / 16 & 1);
        banks |= 1u << at % 128 / 16;
      }
      assert_int_equal(banks, 0xff);
    }
  }
  assert_int_equal(swizzle_info(4).span_bytes, 1);
}

/* Examples of the manual with "exact layouts": sizes and strides, in elements,
 * of the modes of mn and k. */
typedef struct Example {
  const char *name;
  uint32_t swizzle; /* number of its kind */
  bool mn_major;
  uint32_t element, leading, stride;
  uint32_t mn[3][2], k[2][2]; /* size, stride */
} Example;

static const Example examples[] = {
    {"166",
     0,
     false,
     4,
     64 * 4,
     32 * 4,
     {{8, 4}, {2, 32}, {1, 0}},
     {{4, 1}, {4, 64}}},
    {"167",
     3,
     false,
     4,
     0,
     64 * 4,
     {{8, 8}, {2, 64}, {1, 0}},
     {{4, 1}, {4, 4}}},
    {"168",
     0,
     true,
     2,
     128 * 2,
     64 * 2,
     {{8, 1}, {1, 8}, {2, 64}},
     {{8, 8}, {2, 128}}},
    {"169",
     3,
     true,
     2,
     128 * 2,
     256 * 2,
     {{8, 1}, {2, 8}, {2, 128}},
     {{8, 16}, {2, 256}}},
    {"170",
     2,
     true,
     2,
     256 * 2,
     512 * 2,
     {{8, 1}, {4, 8}, {2, 256}},
     {{8, 32}, {2, 512}}},
};

static uint32_t exact(uint32_t parts, const uint32_t (*part)[2], uint32_t n) {
  uint32_t sum = 0;
  for (uint32_t j = 0; j < parts; j++) {
    sum += n % part[j][0] * part[j][1];
    n /= part[j][0];
  }
  return sum;
}

static void test_examples(void **state) {
  (void)state;
  for (size_t j = 0; j < sizeof examples / sizeof *examples; j++) {
    const Example *e = &examples[j];
    const SmemOperand o = {swizzle_info(e->swizzle), e->mn_major, e->element,
                           e->leading, e->stride};
    uint32_t rows = e->mn[0][0] * e->mn[1][0] * e->mn[2][0];
    /* Figure 167 shows two adjacent atoms; a swizzle spans one atom. */
    uint32_t columns = e->swizzle && !e->mn_major
                           ? o.swizzle.span_bytes / e->element
                           : e->k[0][0] * e->k[1][0];
    for (uint32_t mn = 0; mn < rows; mn++)
      for (uint32_t k = 0; k < columns; k++)
        if (smem_operand_offset(&o, mn, k) !=
            e->element * (exact(3, e->mn, mn) + exact(2, e->k, k)))
          fail_msg("figure %s: element %u, %u", e->name, mn, k);
  }
}

/* Operands as they are used: no two elements share a byte. */
static void test_operands(void **state) {
  (void)state;
  for (uint32_t number = 0; number < 4; number++)
    for (int major = 0; major < 2; major++)
      for (uint32_t element = 2; element <= 4; element *= 2) {
        SmemOperand o = {.swizzle = swizzle_info(number),
                         .mn_major = major,
                         .element_bytes = element};
        uint32_t width = number ? o.swizzle.span_bytes : 16;
        /* 64 x 32 bytes of k, atoms of 8 rows (or k) one after the other */
        uint32_t mn_most = 64, k_most = 32 / element;
        uint32_t groups = major ? mn_most * element / width : mn_most / 8;
        o.stride_bytes = 8 * width * (major && number ? groups : 1);
        o.leading_bytes = 8 * width * (number ? 1 : groups);
        if (!number && !major)
          o.leading_bytes = 8 * 16 * groups;
        static uint8_t held[1 << 16];
        memset(held, 0, sizeof held);
        for (uint32_t mn = 0; mn < mn_most; mn++)
          for (uint32_t k = 0; k < k_most; k++)
            for (uint32_t byte = 0; byte < element; byte++) {
              uint32_t at = swizzle_address(
                  o.swizzle, smem_operand_offset(&o, mn, k) + byte);
              assert_in_range(at, 0, sizeof held - 1);
              assert_int_equal(held[at]++, 0);
            }
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_each_once),     cmocka_unit_test(test_pairs),
      cmocka_unit_test(test_fewer_columns), cmocka_unit_test(test_ldmatrix),
      cmocka_unit_test(test_related),       cmocka_unit_test(test_swizzles),
      cmocka_unit_test(test_examples),      cmocka_unit_test(test_operands),
      cmocka_unit_test(test_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
