/* Compiles kernel sources that programs left (AXON_CC_DEBUG) with NVRTC.  Each
 * must compile without a warning and have enough registers, also in total for a
 * block whose warps hand registers to each other.
 *
 *   tests/unit/cudatexts_test FOLDER [all | ARCHITECTURE]
 *
 * Each source is compiled for one of the architectures in turn, or for all, or
 * for the named one, such as sm_86.  In the last two cases, sources that take
 * longer than a second of CPU time are reported, too.  A source with
 * tensor-core tiles is compiled only for its own architecture.  cudatexts.sh
 * makes such a folder. */
#include "backend/cuda/nvrtc.h"
#include "backend/cuda/ptxas_report.h"
#include "support/buffer.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const archs[] = {"sm_90a", "sm_75",   "sm_80", "sm_86",
                                    "sm_89",  "sm_100a", "sm_120"};

static char *read_text(const char *path) {
  FILE *f = fopen(path, "r");
  Buffer b = {0};
  char chunk[4096];
  if (!f)
    return NULL;
  for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;)
    buffer_add(&b, chunk, n);
  fclose(f);
  return b.text;
}

/* For a kernel whose warps hand registers to each other: the total must not
 * exceed the registers with which a block starts.  Otherwise it would wait
 * forever. */
static bool has_enough(const char *text, const char *name, uint32_t each) {
  char head[32];
  uint32_t threads = 0, less = 0, more = 0;
  snprintf(head, sizeof head, "\n%s(", name);
  const char *at = strstr(text, head), *bounds = at;
  while (bounds && bounds > text &&
         strncmp(bounds, "__launch_bounds__(", 18) != 0)
    bounds--;
  const char *end = at ? strstr(at, "\n}\n") : NULL;
  const char *gives = at ? strstr(at, "ax_registers_less<") : NULL;
  const char *takes = at ? strstr(at, "ax_registers_more<") : NULL;
  if (!end || !gives || !takes || gives > end || takes > end)
    return true;
  sscanf(bounds, "__launch_bounds__(%u", &threads);
  sscanf(gives, "ax_registers_less<%u", &less);
  sscanf(takes, "ax_registers_more<%u", &more);
  return threads > 128 && 128 * less + (threads - 128) * more <= threads * each;
}

/* True if one of its kernels has too few registers. */
static int look_at_report(const char *path, const char *arch, const char *text,
                          const char *log) {
  int wrong = 0;
  PtxasReport r;
  char name[16] = "axon_0";
  for (int k = 0; ptxas_report(log, name, &r); k++) {
    if (r.spill_stores || r.spill_loads) {
      printf("%s for %s: %s: %u registers, %u bytes spilled\n", path, arch,
             name, r.registers, r.spill_stores);
      wrong++;
    }
    if (!has_enough(text, name, r.registers)) {
      printf("%s for %s: %s waits for more than its %u registers\n", path, arch,
             name, r.registers);
      wrong++;
    }
    snprintf(name, sizeof name, "axon_%d", k + 1);
  }
  const char *other = ptxas_report_warning(log);
  if (other)
    printf("%s for %s: %.300s\n", path, arch, other);
  return wrong + (other != NULL);
}

/* A source with tensor-core tiles is for one architecture. */
static bool is_for_other(const char *text, const char *arch, char own[16]) {
  const char *at = strstr(text, "tile for ");
  *own = 0;
  return at && sscanf(at, "tile for %15[^:]", own) == 1 &&
         strcmp(own, arch) != 0;
}

/* chosen: the architecture was named, and not taken in turn. */
static int compile(const Nvrtc *n, const char *path, const char *arch,
                   bool chosen) {
  Fault fault = {0};
  CompiledCode code;
  char own[16], *text = read_text(path);
  if (text && is_for_other(text, arch, own)) {
    if (chosen) {
      free(text);
      return 0;
    }
    arch = own;
  }
  const KernelSource t = {
      .source = text ? text : "", .name = "kernel.cu", .arch = arch};
  int wrong = 1;
  clock_t from = clock();
  if (!nvrtc_compiles(n, arch))
    wrong = 0;
  else if (!nvrtc_compile(n, &t, &code, &fault))
    printf("%s for %s: %s\n%s\n", path, arch, fault.message,
           code.log ? code.log : "");
  else
    wrong = look_at_report(path, arch, t.source, code.log);
  double seconds = (double)(clock() - from) / CLOCKS_PER_SEC;
  if (chosen && seconds > 1)
    printf("%s for %s: %.1f s\n", path, arch, seconds);
  if (nvrtc_compiles(n, arch))
    compiled_code_free(&code);
  free(text);
  return wrong;
}

int main(int argc, char **argv) {
  Fault fault = {0};
  const Nvrtc *n = argc > 1 ? nvrtc(&fault) : NULL;
  if (!n) {
    printf("skipped: %s\n", argc > 1 ? fault.message : "no folder is named");
    return 0;
  }
  char pattern[4096];
  glob_t found;
  int wrong = 0;
  const char *only = argc > 2 ? argv[2] : NULL;
  bool all = only && strcmp(only, "all") == 0;
  snprintf(pattern, sizeof pattern, "%s/*.cu", argv[1]);
  if (glob(pattern, 0, NULL, &found) != 0) {
    printf("there are no texts in %s\n", argv[1]);
    return 1;
  }
  for (size_t k = 0; k < found.gl_pathc; k++)
    for (size_t a = 0; a < ARRAY_LEN(archs); a++)
      if (all ||
          (only ? strcmp(only, archs[a]) == 0 : a == k % ARRAY_LEN(archs)))
        wrong += compile(n, found.gl_pathv[k], archs[a], only != NULL);
  printf("%zu texts, %d wrong\n", found.gl_pathc, wrong);
  globfree(&found);
  return wrong != 0;
}
