/* Tests NVRTC: where it is searched, messages if it is unsuitable, and, if it
 * exists (AXON_NVRTC may name it), what it compiles.  Without NVRTC, the last
 * part is skipped with a message. */
#define _GNU_SOURCE
#include "backend/cuda/code_cache.h"
#include "backend/cuda/ptxas_report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char base[64];      /* a temporary folder */
static const char *wanted; /* the original AXON_NVRTC */

static int shell(const char *format, ...) {
  char command[4096];
  va_list args;
  va_start(args, format);
  vsnprintf(command, sizeof command, format, args);
  va_end(args);
  return system(command);
}

static int set_up(void **state) {
  (void)state;
  strcpy(base, "/tmp/axon-nvrtc-XXXXXX");
  if (!mkdtemp(base))
    return -1;
  setenv("XDG_CACHE_HOME", base, 1);
  unsetenv("AXON_CACHE_LIMIT");
  unsetenv("AXON_NVRTC");
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  return shell("rm -rf %s", base);
}

/* Runs in a new process, with empty caches. */
static int in_child(int (*f)(void)) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0)
    _exit(f());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- the compiler's report ---- */

static const char log13[] =
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function 'k2' for 'sm_90a'\n"
    "ptxas info    : Function properties for k2\n"
    "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes "
    "spill loads\n"
    "ptxas info    : Used 12 registers, used 1 barriers\n"
    "ptxas info    : Compile time = 1.620 ms\n"
    "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
    "ptxas info    : Function properties for k\n"
    "ptxas         .     40 bytes stack frame, 8 bytes spill stores, 16 bytes "
    "spill loads\n"
    "ptxas info    : Used 255 registers, used 2 barriers, 256 bytes smem\n";

static const char log12[] =
    "ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
    "ptxas info    : Function properties for k\n"
    "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 32 registers, 48 bytes smem, 380 bytes cmem[0]\n";

static void test_report(void **state) {
  (void)state;
  PtxasReport r;
  assert_true(ptxas_report(log13, "k", &r));
  assert_int_equal(r.registers, 255);
  assert_int_equal(r.barriers, 2);
  assert_int_equal(r.shared_bytes, 256);
  assert_int_equal(r.stack_bytes, 40);
  assert_int_equal(r.spill_stores, 8);
  assert_int_equal(r.spill_loads, 16);
  assert_true(ptxas_report(log13, "k2", &r));
  assert_true(r.registers == 12 && r.barriers == 1 && !r.shared_bytes &&
              !r.stack_bytes);
  assert_false(ptxas_report(log13, "k3", &r));
  assert_false(ptxas_report("", "k", &r));
  assert_false(ptxas_report(NULL, "k", &r));
  assert_true(ptxas_report(log12, "k", &r));
  assert_true(r.registers == 32 && r.shared_bytes == 48 && !r.barriers);
  assert_null(ptxas_report_warning(log13));
  assert_null(ptxas_report_warning(log12));
  assert_null(ptxas_report_warning(NULL));
  const char *other = ptxas_report_warning("ptxas info    : 0 bytes gmem\n"
                                           "k.cu(3): warning #177-D: x\n");
  assert_non_null(other);
  assert_memory_equal(other, "k.cu(3)", 7);
  assert_non_null(ptxas_report_warning(
      "ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async\n"));
}

/* ---- places ---- */

static char seen[8192];

static bool note(void *owner, const char *name) {
  strcat(strcat(seen, name), "\n");
  return owner && strstr(name, owner);
}

static void make(const char *path) {
  assert_int_equal(shell("cd %s && mkdir -p \"$(dirname '%s')\" && touch '%s'",
                         base, path, path),
                   0);
}

static void set_path(const char *name, const char *below) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", base, below);
  setenv(name, path, 1);
}

/* The n-th name, from 0, that was tried. */
static bool seen_at(int n, const char *end) {
  const char *line = seen;
  while (n-- > 0 && line)
    line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL;
  size_t len = line ? strcspn(line, "\n") : 0, wanted = strlen(end);
  return len >= wanted && strncmp(line + len - wanted, end, wanted) == 0;
}

static int places(void) {
  make("toolkit/lib64/libnvrtc.so.777");
  make("toolkit/targets/x-linux/lib/libnvrtc.so.777");
  make("con[d]a/lib/libnvrtc.so.777");
  make("venv/lib/python3.99/site-packages/nvidia/cu13/lib/libnvrtc.so.777");
  make("usr/bin/python3");
  make("usr/lib/python3/dist-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.777");
  make("home/.local/lib/python3.1/site-packages/nvidia/cu13/lib/"
       "libnvrtc.so.777");
  shell("chmod +x %s/usr/bin/python3; mkdir %s/bin; ln -s ../usr/bin/python3 "
        "%s/bin/python3",
        base, base, base);
  set_path("CUDA_HOME", "toolkit");
  unsetenv("CUDA_PATH");
  set_path("CONDA_PREFIX", "con[d]a");
  set_path("VIRTUAL_ENV", "venv");
  set_path("HOME", "home");
  char path[300];
  snprintf(path, sizeof path, "/no/such::%s/none:%s/bin:/usr/bin", base, base);
  setenv("PATH", path, 1);
  if (nvrtc_search(777, note, NULL))
    return 1;
  static const char *const wanted[] = {
      "/toolkit/lib64/libnvrtc.so.777",
      "/toolkit/targets/x-linux/lib/libnvrtc.so.777",
      "libnvrtc.so.777",
      "/con[d]a/lib/libnvrtc.so.777",
      "/python3.99/site-packages/nvidia/cu13/lib/libnvrtc.so.777",
      "/dist-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.777",
      "/.local/lib/python3.1/site-packages/nvidia/cu13/lib/libnvrtc.so.777"};
  for (int k = 0; k < (int)ARRAY_LEN(wanted); k++)
    if (!seen_at(k, wanted[k])) {
      fprintf(stderr, "%s is not number %d of\n%s", wanted[k], k, seen);
      return 2;
    }
  *seen = 0;
  if (!nvrtc_search(777, note, "venv") || strstr(seen, "dist-packages"))
    return 3;
  return 0;
}

static void test_places(void **state) {
  (void)state;
  assert_int_equal(in_child(places), 0);
}

/* The headers are next to the library, as in each kind of package. */
static void test_headers(void **state) {
  (void)state;
  char library[200], found[ARTIFACT_PATH_BYTES];
  static const char *const layouts[][2] = {
      {"a/lib64/x.so", "a/include"},
      {"b/nvidia/cuda_nvrtc/lib/x.so", "b/nvidia/cuda_runtime/include"},
      {"c/lib/x86_64-linux-gnu/x.so", "c/include"}};
  for (size_t k = 0; k < ARRAY_LEN(layouts); k++) {
    char header[200];
    make(layouts[k][0]);
    snprintf(library, sizeof library, "%s/%s", base, layouts[k][0]);
    assert_false(nvrtc_headers(library, found));
    snprintf(header, sizeof header, "%s/cuda_fp16.h", layouts[k][1]);
    make(header);
    assert_true(nvrtc_headers(library, found));
    assert_non_null(strstr(found, layouts[k][1]));
  }
  assert_false(nvrtc_headers("/no/such.so", found));
}

/* ---- unsuitable libraries ---- */

static Fault fault;

static int says(const char *text) {
  if (nvrtc(&fault))
    return 1;
  bool has = strstr(fault.message, text) && *fault.help &&
             strstr(fault.message, "AXON_NVRTC");
  if (!has)
    fprintf(stderr, "not `%s`: %s\n", text, fault.message);
  return has && fault.kind == FAULT_TARGET_UNAVAILABLE ? 0 : 2;
}

static int says_missing(void) {
  return says("file not found");
}
static int says_no_library(void) {
  return says("cannot use NVRTC");
}
static int says_lacks(void) {
  return says("it has no function nvrtcVersion");
}
static int says_old(void) {
  return says("found NVRTC 11.8");
}

/* A library of these functions. */
static bool fake(const char *name, const char *text) {
  char path[200];
  if (shell("command -v cc >/dev/null") != 0)
    return false;
  snprintf(path, sizeof path, "%s/%s.c", base, name);
  FILE *f = fopen(path, "w");
  fputs(text, f);
  fclose(f);
  set_path("AXON_NVRTC", name);
  return shell("cc -shared -fPIC -w -o %s/%s %s", base, name, path) == 0;
}

/* A fake library with the given version and result. */
#define FAKE(major, result)                                                \
  "int nvrtcVersion(int *a, int *b) { *a = " major "; *b = 8; return 0; }" \
  "int nvrtcGetNumSupportedArchs(int *n) { *n = 1; return 0; }"            \
  "int nvrtcGetSupportedArchs(int *a) { *a = 90; return 0; }"              \
  "const char *nvrtcGetErrorString(int e) { return \"FAKE\"; }"            \
  "int nvrtcCreateProgram(void **p) { *p = p; return 0; }"                 \
  "int nvrtcDestroyProgram(void **p) { *p = 0; return 0; }"                \
  "int nvrtcCompileProgram() { return " result "; }"                       \
  "int nvrtcGetProgramLogSize(void *p, long *n) { *n = 8; return 0; }"     \
  "int nvrtcGetProgramLog(void *p, char *s) {"                             \
  "  __builtin_memcpy(s, \"an erro\", 8); return 0; }"                     \
  "int nvrtcGetCUBINSize(void *p, long *n) { *n = 0; return 0; }"          \
  "int nvrtcGetCUBIN(void *p, char *s) { return 0; }"                      \
  "int nvrtcGetPTXSize(void *p, long *n) { *n = 3; return 0; }"            \
  "int nvrtcGetPTX(void *p, char *s) { return 4; }"

static const KernelSource simple = {
    .source = "extern \"C\" __global__ void k(float *x) { x[0] += 1.0f; }",
    .name = "simple.cu",
    .arch = "sm_90a"};

static int compile_fails(const char *message, const char *help, bool ptx) {
  const Nvrtc *n = nvrtc(&fault);
  CompiledCode code;
  KernelSource text = simple;
  text.want_ptx = ptx;
  if (!n || nvrtc_compile(n, &text, &code, &fault) || code.bytes)
    return 1;
  bool good = strstr(fault.message, message) && strstr(fault.help, help) &&
              strcmp(code.log, "an erro") == 0;
  if (!good)
    fprintf(stderr, "%s / %s\n", fault.message, fault.help);
  compiled_code_free(&code);
  return good ? 0 : 2;
}

static int fails_builtins(void) {
  return compile_fails(
      "FAKE", "libnvrtc-builtins.so.12.8 must be in the folder", false);
}

static int fails_memory(void) {
  return compile_fails("an erro", "", false);
}

static int gives_nothing(void) {
  return compile_fails("NVRTC returned no code", "", false) ||
         compile_fails("NVRTC returned no code", "", true);
}

static void test_wrong(void **state) {
  (void)state;
  setenv("AXON_NVRTC", "/no/such/libnvrtc.so", 1);
  assert_int_equal(in_child(says_missing), 0);
  make("text.so");
  set_path("AXON_NVRTC", "text.so");
  assert_int_equal(in_child(says_no_library), 0);
  if (!fake("empty.so", "int nothing;")) {
    fprintf(stderr, "no C compiler: fakes of NVRTC are skipped\n");
    return;
  }
  assert_int_equal(in_child(says_lacks), 0);
  assert_true(fake("old.so", FAKE("11", "0")));
  assert_int_equal(in_child(says_old), 0);
  assert_true(fake("builtins.so", FAKE("12", "7")));
  assert_int_equal(in_child(fails_builtins), 0);
  assert_true(fake("memory.so", FAKE("12", "1")));
  assert_int_equal(in_child(fails_memory), 0);
  assert_true(fake("nothing.so", FAKE("13", "0")));
  assert_int_equal(in_child(gives_nothing), 0);
  unsetenv("AXON_NVRTC");
}

/* ---- an existing NVRTC ---- */

static const Nvrtc *there(void) {
  if (wanted)
    setenv("AXON_NVRTC", wanted, 1);
  const Nvrtc *n = nvrtc(&fault);
  if (!n)
    fprintf(stderr, "skipped: %s\n", fault.message);
  return n;
}

static const char *const archs[] = {"sm_75",  "sm_80",   "sm_86", "sm_89",
                                    "sm_90a", "sm_100a", "sm_120"};

static void test_compiles(void **state) {
  (void)state;
  const Nvrtc *n = there();
  for (size_t k = 0; n && k < ARRAY_LEN(archs); k++) {
    KernelSource text = simple;
    CompiledCode code;
    PtxasReport r;
    text.arch = archs[k];
    if (!nvrtc_compiles(n, archs[k])) { /* CUDA 12.0 does not support sm_120 */
      fprintf(stderr, "skipped: NVRTC %d.%d has no %s\n", n->major, n->minor,
              archs[k]);
      continue;
    }
    assert_true(nvrtc_compile(n, &text, &code, &fault));
    assert_memory_equal(code.bytes, "\177ELF", 4);
    assert_true(ptxas_report(code.log, "k", &r));
    assert_true(r.registers >= 4 && r.registers < 64 && !r.spill_loads);
    assert_null(ptxas_report_warning(code.log));
    compiled_code_free(&code);
    text.want_ptx = true;
    assert_true(nvrtc_compile(n, &text, &code, &fault));
    char target[40];
    snprintf(target, sizeof target, ".target %s", archs[k]);
    assert_non_null(strstr(code.bytes, target));
    assert_int_equal(code.bytes[code.size - 1], 0);
    compiled_code_free(&code);
  }
}

/* Forty numbers for 24 registers.  They differ between threads, so that uniform
 * registers cannot hold them. */
static const char many[] =
    "extern \"C\" __global__ void k(float *x, int n) {\n"
    "  float a[40];\n"
    "  x += threadIdx.x;\n"
    "  for (int i = 0; i < 40; i++) a[i] = x[i];\n"
    "  for (int j = 0; j < n; j++)\n"
    "    for (int i = 0; i < 40; i++) a[i] = a[i] * a[(i + 7) % 40] + x[j];\n"
    "  for (int i = 0; i < 40; i++) x[i] = a[i];\n"
    "}\n";

static void test_spills(void **state) {
  (void)state;
  const Nvrtc *n = there();
  if (!n)
    return;
  KernelSource text = {.source = many, .name = "many.cu", .arch = "sm_80"};
  CompiledCode code;
  PtxasReport r;
  assert_true(nvrtc_compile(n, &text, &code, &fault));
  assert_true(ptxas_report(code.log, "k", &r));
  assert_true(r.registers > 40 && !r.spill_stores && !r.spill_loads);
  compiled_code_free(&code);
  text.options[text.option_count++] = "--maxrregcount=24";
  assert_true(nvrtc_compile(n, &text, &code, &fault));
  assert_true(ptxas_report(code.log, "k", &r));
  assert_true(r.registers == 24 && r.spill_stores > 0 && r.spill_loads > 0);
  compiled_code_free(&code);
}

static void test_refused(void **state) {
  (void)state;
  const Nvrtc *n = there();
  if (!n)
    return;
  KernelSource text = simple;
  CompiledCode code;
  text.source = "extern \"C\" __global__ void k(float *x) {\n  x = 1 +;\n}\n";
  assert_false(nvrtc_compile(n, &text, &code, &fault));
  assert_non_null(strstr(fault.message, "simple.cu(2): error"));
  assert_non_null(strstr(fault.help, "please report it"));
  assert_non_null(code.log);
  compiled_code_free(&code);
  text = simple; /* ptxas rejects it */
  text.source = "extern \"C\" __global__ void k() { asm(\"no.such 1;\"); }";
  assert_false(nvrtc_compile(n, &text, &code, &fault));
  assert_non_null(strstr(fault.message, "ptxas"));
  compiled_code_free(&code);
  text = simple;
  text.options[text.option_count++] = "--no-such-option";
  assert_false(nvrtc_compile(n, &text, &code, &fault));
  assert_non_null(strstr(fault.message, "no-such-option"));
  compiled_code_free(&code);
  text = simple;
  text.arch = "sm_30";
  assert_false(nvrtc_compile(n, &text, &code, &fault));
  assert_non_null(strstr(fault.message, "does not compile for sm_30; it "
                                        "supports sm_"));
  text.arch = "gfx90";
  assert_false(nvrtc_compile(n, &text, &code, &fault));
}

static void test_has_headers(void **state) {
  (void)state;
  const Nvrtc *n = there();
  CompiledCode code;
  KernelSource text = simple;
  if (!n)
    return;
  if (!*n->headers) {
    fprintf(stderr, "skipped: no headers beside %s\n", n->path);
    return;
  }
  text.source = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
                "extern \"C\" __global__ void k(__half *x, __nv_bfloat16 *y)"
                " { x[0] = __hadd(x[1], x[2]); y[0] = y[1]; }";
  assert_false(nvrtc_compile(n, &text, &code, &fault));
  compiled_code_free(&code);
  text.needs_headers = true;
  assert_true(nvrtc_compile(n, &text, &code, &fault));
  compiled_code_free(&code);
}

/* ---- cache ---- */

static bool image(const Nvrtc *n, const KernelSource *text, bool *found,
                  CompiledCode *code) {
  return code_cache_compile(n, text, code, found, &fault);
}

static void test_kept(void **state) {
  (void)state;
  const Nvrtc *n = there();
  CompiledCode one, two;
  KernelSource other = simple;
  bool found;
  if (!n)
    return;
  assert_true(image(n, &simple, &found, &one) && !found);
  assert_true(image(n, &simple, &found, &two) && found);
  assert_int_equal(one.size, two.size);
  assert_memory_equal(one.bytes, two.bytes, one.size);
  assert_string_equal(one.log, two.log);
  compiled_code_free(&two);
  other.arch = "sm_80";
  assert_true(image(n, &other, &found, &two) && !found);
  compiled_code_free(&two);
  other.options[other.option_count++] = "--maxrregcount=32";
  assert_true(image(n, &other, &found, &two) && !found);
  compiled_code_free(&two);
  other.want_ptx = true;
  assert_true(image(n, &other, &found, &two) && !found);
  compiled_code_free(&two);
  assert_true(image(n, &other, &found, &two) && found);
  assert_non_null(strstr(two.bytes, ".target"));
  compiled_code_free(&two);
  /* Damaged files are compiled again. */
  shell("for f in %s/axon/cuda/*; do truncate -s 100 $f; done", base);
  assert_true(image(n, &simple, &found, &two) && !found);
  assert_memory_equal(one.bytes, two.bytes, one.size);
  compiled_code_free(&two);
  compiled_code_free(&one);
  /* A kernel that does not compile is not cached. */
  other.source = "no";
  assert_false(image(n, &other, &found, &two));
  compiled_code_free(&two);
  assert_false(image(n, &other, &found, &two) || found);
  compiled_code_free(&two);
}

int main(void) {
  wanted = getenv("AXON_NVRTC") ? strdup(getenv("AXON_NVRTC")) : NULL;
  const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
      T(test_report),  T(test_places),      T(test_headers),
      T(test_wrong),   T(test_compiles),    T(test_spills),
      T(test_refused), T(test_has_headers), T(test_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
