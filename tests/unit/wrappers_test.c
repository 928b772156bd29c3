/* Tests the CUDA intrinsics: a kernel gets those that it names; all compile for
 * each architecture that supports them, and report an error on others. */
#include "backend/cuda/intrinsics.h"
#include "backend/cuda/nvrtc.h"
#include "backend/cuda/ptxas_report.h"
#include "tests/unit/products.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const char wrappers_text[];

static void test_only_what_is_named(void **state) {
  (void)state;
  Buffer b = {0};
  assert_true(intrinsics_write(
      &b, "void k() { ax_sync(); ax_wgmma_m64n24k16_bf16<0, 1>(d, a, b, 1);\n"
          "ax_wgmma_m64n24k16_bf16<1, 1>(d, a, b, 1);\n"
          "ax_wgmma_m64n16k8_tf32_ra(d, a, b, 1); ax_wgmma_m64n20k16_f16;\n"
          "ax_wgmma_m64n24k8_bf16 ax_wgmma_m64n264k16_f16_ra; }"));
  assert_non_null(strstr(b.text, "typedef unsigned int uint32_t"));
  assert_non_null(strstr(b.text, "AX_DEVICE void ax_sync()"));
  assert_null(strstr(b.text, "ax_shuffle"));
  const char *at = strstr(b.text, "template <int TRANS_A, int TRANS_B>\n"
                                  "AX_DEVICE void ax_wgmma_m64n24k16_bf16("
                                  "float (&d)[12],\n    unsigned long long a");
  assert_non_null(at);
  assert_non_null(strstr(at, "m64n24k16.f32.bf16.bf16"));
  assert_non_null(strstr(at, "%12, %13, p, 1, 1, %15, %16;"));
  at = strstr(at, "AX_DEVICE");
  assert_null(strstr(at + 1, "AX_DEVICE void ax_wgmma_m64n24k16_bf16("));
  assert_non_null(strstr(at, "\nAX_DEVICE void ax_wgmma_m64n16k8_tf32_ra("
                             "float (&d)[8],\n    const unsigned *a"));
  assert_null(strstr(b.text, "AX_DEVICE void ax_wgmma_m64n20"));
  assert_null(strstr(b.text, "AX_DEVICE void ax_wgmma_m64n24k8"));
  assert_null(strstr(b.text, "AX_DEVICE void ax_wgmma_m64n264"));
  buffer_free(&b);
}

/* ---- compiled ---- */

static Fault fault;

static const Nvrtc *there(void) {
  const Nvrtc *n = nvrtc(&fault);
  if (!n) {
    fprintf(stderr, "skipped: %s\n", fault.message);
    skip();
  }
  return n;
}

/* Messages of ptxas about `slow` sources are not errors: these keep too many
 * values live. */
static bool compile(const Nvrtc *n, const char *kernel, const char *text,
                    const char *arch, bool slow, PtxasReport *r) {
  Buffer b = {0};
  assert_true(intrinsics_write(&b, text));
  KernelSource t = {.source = b.text, .name = "kernel.cu", .arch = arch};
  CompiledCode code;
  bool good = nvrtc_compile(n, &t, &code, &fault);
  if (good) {
    assert_true(ptxas_report(code.log, kernel, r));
    const char *other = slow ? NULL : ptxas_report_warning(code.log);
    if (other)
      fprintf(stderr, "%s for %s: %s\n", kernel, arch, other);
    assert_null(other);
  }
  compiled_code_free(&code);
  buffer_free(&b);
  return good;
}

static const char *const archs[] = {"sm_75",  "sm_80",   "sm_86", "sm_89",
                                    "sm_90a", "sm_100a", "sm_120"};

/* Compiles a source for architectures from .. to. */
static void compiles(const char *kernel, const char *text, int from, int to,
                     bool slow) {
  const Nvrtc *n = there();
  for (size_t k = 0; k < ARRAY_LEN(archs); k++) {
    int arch = atoi(archs[k] + 3);
    PtxasReport r = {0};
    if (arch < from || arch > to || !nvrtc_compiles(n, archs[k]))
      continue;
    if (!compile(n, kernel, text, archs[k], slow, &r))
      fail_msg("%s for %s: %s", kernel, archs[k], fault.message);
    assert_true(slow || (!r.spill_loads && !r.spill_stores));
  }
}

static void file_compiles(const char *kernel, int from, int to) {
  char *text = read_kernel(kernel);
  compiles(kernel, text, from, to, false);
  free(text);
}

static void test_any(void **state) {
  (void)state;
  file_compiles("any", 0, 999);
}

static void test_sm80(void **state) {
  (void)state;
  file_compiles("sm80", 80, 999);
  file_compiles("gemm80", 80, 999);
}

static void test_sm90(void **state) {
  (void)state;
  file_compiles("sm90", 90, 999);
  file_compiles("cast", 90, 100);
}

static void test_sm89(void **state) {
  (void)state;
  file_compiles("sm89", 89, 999);
}

/* WGMMA of each width; the other choices alternate. */
static char *sm90a_text(void) {
  Buffer b = {0};
  buffer_puts(&b, "#define PRODUCTS");
  for (int n = 8, j = 0; n <= 256; n += 8, j++) {
    static const char *const types[] = {"f16", "bf16", "tf32"};
    const char *type = types[j % 3], *k = j % 3 == 2 ? "k8" : "k16";
    bool registers = j / 3 % 2;
    buffer_printf(&b, " \\\n  PRODUCT((ax_wgmma_m64n%d%s_%s%s", n, k, type,
                  registers ? "_ra" : "");
    if (j % 3 < 2)
      buffer_printf(&b, registers ? "<%d>" : "<%d, %d>", j / 4 % 2, j / 8 % 2);
    buffer_printf(&b, "), %d, %s)", n / 2, registers ? "r" : "where");
  }
  buffer_puts(&b, "\n");
  char *text = read_kernel("sm90a");
  buffer_puts(&b, text);
  free(text);
  return b.text;
}

static void test_sm90a(void **state) {
  (void)state;
  char *text = sm90a_text();
  compiles("sm90a", text, 90, 90, true); /* all at once */
  free(text);
}

static void test_sm100a(void **state) {
  (void)state;
  file_compiles("sm100a", 100, 100);
  file_compiles("pair", 100, 100);
}

/* ---- golden instructions ---- */

typedef struct GoldenKernel {
  const char *name, *arch;
} GoldenKernel;

/* The kernels that call all wrappers.  NAME.ptx has their instructions. */
static const GoldenKernel golden[] = {
    {"any", "sm_75"},      {"sm80", "sm_80"},  {"sm89", "sm_89"},
    {"sm90", "sm_90a"},    {"cast", "sm_90a"}, {"sm90a", "sm_90a"},
    {"sm100a", "sm_100a"}, {"pair", "sm_100a"}};

static char *golden_text(const char *name) {
  return strcmp(name, "sm90a") ? read_kernel(name) : sm90a_text();
}

/* Writes the mnemonic of a statement of PTX.  Comments, brackets and
 * declarations have none. */
static void write_mnemonic(Buffer *out, const char *at, size_t len) {
  const char *end = at + len;
  at += strspn(at, " \t\n{}");
  if (*at == '@')
    at += strcspn(at, " "), at += strspn(at, " ");
  size_t name = strcspn(at, " \t\n;");
  if (at + name > end || !name || strchr("./", *at))
    return;
  buffer_printf(out, "%.*s\n", (int)name, at);
}

/* The mnemonics of the inline assembly in PTX, in order. */
static void write_instructions(Buffer *out, const char *ptx) {
  static const char begin[] = "// begin inline asm", end[] = "// end inline";
  for (const char *at = ptx; (at = strstr(at, begin));) {
    at += strlen(begin);
    const char *stop = strstr(at, end);
    while (at < stop) {
      size_t len = strcspn(at, ";:\n");
      bool label = at[len] == ':' && at[len + 1] != ':';
      while (at[len] == ':' && !label)
        len += 2, len += strcspn(at + len, ";:\n");
      if (!label)
        write_mnemonic(out, at, len + 1);
      at += len + 1;
    }
  }
}

/* Each wrapper is the instruction of the manual. */
static void check_instructions(const Nvrtc *n, const GoldenKernel *g) {
  char file[40];
  snprintf(file, sizeof file, "%s.ptx", g->name);
  char *text = golden_text(g->name), *wanted = read_file(file);
  Buffer b = {0}, got = {0};
  CompiledCode code;
  assert_true(intrinsics_write(&b, text));
  KernelSource t = {
      .source = b.text, .name = "kernel.cu", .arch = g->arch, .want_ptx = true};
  if (!nvrtc_compile(n, &t, &code, &fault))
    fail_msg("%s: %s", g->name, fault.message);
  write_instructions(&got, code.bytes);
  if (strcmp(got.text, wanted) != 0) {
    fprintf(stderr, "%s is not:\n%s", file, got.text);
    fail();
  }
  compiled_code_free(&code);
  buffer_free(&b);
  buffer_free(&got);
  free(text);
  free(wanted);
}

static void test_instructions(void **state) {
  (void)state;
  const Nvrtc *n = there();
  for (size_t j = 0; j < ARRAY_LEN(golden); j++)
    if (nvrtc_compiles(n, golden[j].arch))
      check_instructions(n, &golden[j]);
}

/* One of the kernels names each wrapper. */
static void test_all_are_golden(void **state) {
  (void)state;
  Buffer all = {0};
  for (size_t j = 0; j < ARRAY_LEN(golden); j++) {
    char *text = golden_text(golden[j].name);
    buffer_puts(&all, text);
    free(text);
  }
  for (const char *at = wrappers_text; (at = strstr(at, "//@ "));) {
    size_t line = strcspn(at, "\n");
    const char *end = at + line;
    for (at += 4; at < end; at += strspn(at, " ")) {
      char name[60];
      size_t len = strcspn(at, " \n");
      snprintf(name, sizeof name, "%.*s", (int)len, at);
      if (strncmp(name, "ax_", 3) == 0 && !strstr(all.text, name))
        fail_msg("no kernel of tests/cuda names %s", name);
      at += len;
    }
  }
  buffer_free(&all);
}

/* The sources of the simulator are also valid CUDA. */
static void test_simulated(void **state) {
  (void)state;
  char *text = with_kernel_signatures("wrapped_args", read_kernel("wrapped"));
  compiles("columns", text, 90, 90, true);
  free(text);
  file_compiles("gemm90", 90, 90);
}

/* A feature that an architecture lacks is reported. */
static void test_absent(void **state) {
  (void)state;
  const Nvrtc *n = there();
  static const char *const cases[][3] = {
      {"sm_75", "void f() { ax_copy_16(0, 0, 0); }", "cp.async is of sm_80"},
      {"sm_75", "void f() { ax_mma_m16n8k16_bf16; }", "of sm_80 on; sm_75 has"},
      {"sm_89", "void f() { ax_mbarrier_wait; }", "try_wait is of sm_90"},
      {"sm_89", "void f() { ax_tma_load_3d; }", "bulk.tensor is of sm_90"},
      {"sm_120", "void f() { ax_tma_cast_3d; }", "at once is of sm_90a"},
      {"sm_89", "void f() { ax_stmatrix_2; }", "stmatrix is of sm_90"},
      {"sm_89", "void f() { ax_cluster_sync; }", "clusters are of sm_90"},
      {"sm_100a", "void f() { ax_wgmma_fence(); }", "of sm_90a alone"},
      {"sm_100a", "void f() { ax_wgmma_m64n8k16_f16; }", "of sm_90a alone"},
      {"sm_120", "void f() { ax_registers_more; }", "setmaxnreg is of sm_90a"},
      {"sm_90a", "void f() { ax_tmem_alloc(0, 32); }", "of sm_100a alone"},
      {"sm_120", "void f() { ax_tcgen05_mma_f16; }", "of sm_100a alone"},
  };
  for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
    PtxasReport r;
    if (!nvrtc_compiles(n, cases[k][0]))
      continue;
    assert_false(compile(n, "f", cases[k][1], cases[k][0], false, &r));
    if (!strstr(fault.message, cases[k][2]))
      fail_msg("%s: %s", cases[k][1], fault.message);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_only_what_is_named),
      cmocka_unit_test(test_any),
      cmocka_unit_test(test_sm80),
      cmocka_unit_test(test_sm89),
      cmocka_unit_test(test_sm90),
      cmocka_unit_test(test_sm90a),
      cmocka_unit_test(test_sm100a),
      cmocka_unit_test(test_instructions),
      cmocka_unit_test(test_all_are_golden),
      cmocka_unit_test(test_simulated),
      cmocka_unit_test(test_absent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
