/* A fake NVRTC that compiles nothing: the code of a source is the source
 * itself.  The fake driver has the simulator run it (cuda_fake.h).
 * tests/check_cudarun.sh builds a library from it. */
#include "backend/cuda/nvrtc.h"

#include <stdlib.h>
#include <string.h>

#define NV(result, name, symbol, arguments) \
  result fake_nvrtc_##name arguments __asm__(symbol);
#include "backend/cuda/nvrtc.def"
#undef NV

struct NvrtcProgramIs {
  char *text;
};

static const char fake_log[] = "ptxas info    : 0 bytes gmem\n";
static const int fake_archs[] = {75, 80, 86, 89, 90, 100, 120};

int fake_nvrtc_version(int *major, int *minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
int fake_nvrtc_arch_count(int *count) {
  *count = (int)(sizeof fake_archs / sizeof *fake_archs);
  return 0;
}
int fake_nvrtc_archs(int *archs) {
  memcpy(archs, fake_archs, sizeof fake_archs);
  return 0;
}
const char *fake_nvrtc_error_string(int result) {
  return result ? "it is a fake" : "no error";
}
int fake_nvrtc_create(NvrtcProgram *out, const char *text, const char *name,
                      int headers, const char *const *header_texts,
                      const char *const *header_names) {
  (void)name, (void)headers, (void)header_texts, (void)header_names;
  *out = malloc(sizeof **out);
  (*out)->text = strdup(text);
  return 0;
}
int fake_nvrtc_destroy(NvrtcProgram *program) {
  free((*program)->text);
  free(*program);
  *program = NULL;
  return 0;
}
int fake_nvrtc_compile(NvrtcProgram program, int count,
                       const char *const *options) {
  (void)program, (void)count, (void)options;
  return 0;
}
int fake_nvrtc_log_size(NvrtcProgram program, size_t *size) {
  (void)program;
  *size = sizeof fake_log;
  return 0;
}
int fake_nvrtc_log(NvrtcProgram program, char *log) {
  (void)program;
  memcpy(log, fake_log, sizeof fake_log);
  return 0;
}
int fake_nvrtc_cubin_size(NvrtcProgram program, size_t *size) {
  *size = strlen(program->text) + 1;
  return 0;
}
int fake_nvrtc_cubin(NvrtcProgram program, char *cubin) {
  strcpy(cubin, program->text);
  return 0;
}
int fake_nvrtc_ptx_size(NvrtcProgram program, size_t *size) {
  return fake_nvrtc_cubin_size(program, size);
}
int fake_nvrtc_ptx(NvrtcProgram program, char *ptx) {
  return fake_nvrtc_cubin(program, ptx);
}
