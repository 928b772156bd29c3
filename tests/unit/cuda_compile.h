/* Compiles kernel sources in tests.  NVRTC must accept them without a message,
 * and no register may be spilled. */
#ifndef AXON_TESTS_CUDA_COMPILE_H
#define AXON_TESTS_CUDA_COMPILE_H

#include "backend/cuda/intrinsics.h"
#include "backend/cuda/nvrtc.h"
#include "backend/cuda/ptxas_report.h"
#include "support/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static const char *const cuda_archs[] = {"sm_75",  "sm_80",   "sm_86", "sm_89",
                                         "sm_90a", "sm_100a", "sm_120"};

/* Skips the test if there is no NVRTC. */
static const Nvrtc *cuda_compiler(void) {
  static Fault fault;
  const Nvrtc *n = nvrtc(&fault);
  if (!n) {
    fprintf(stderr, "skipped: %s\n", fault.message);
    skip();
  }
  return n;
}

static void cuda_compiles(const Nvrtc *n, const char *kernel, const char *text,
                          const char *arch, const char *what) {
  Buffer all = {0};
  Fault fault;
  CompiledCode code;
  PtxasReport r;
  if (!nvrtc_compiles(n, arch))
    return;
  assert_true(intrinsics_write(&all, text));
  KernelSource t = {.source = all.text, .name = "kernel.cu", .arch = arch};
  if (!nvrtc_compile(n, &t, &code, &fault))
    fail_msg("%s, %s: %s", arch, what, fault.message);
  assert_true(ptxas_report(code.log, kernel, &r));
  if (r.spill_stores || r.spill_loads || r.stack_bytes)
    fail_msg("%s, %s: %u registers, %u bytes on the stack, spills of %u", arch,
             what, r.registers, r.stack_bytes, r.spill_stores);
  const char *other = ptxas_report_warning(code.log);
  if (other)
    fail_msg("%s, %s: %s", arch, what, other);
  compiled_code_free(&code);
  buffer_free(&all);
}

#endif
