/* Checks the tokens of micro-kernels in CUDA C++. */
#include "backend/cuda/micro_text.h"

#include "support/arena.h"
#include "support/arena_text.h"
#include "support/c_identifier.h"
#include "support/compiler.h"

#include <ctype.h>
#include <string.h>

typedef struct MicroScanner {
  Arena *arena;
  const char *text, *at;
  uint32_t depth;    /* of braces */
  const char *brace; /* the last one at depth 0 */
  CudaMicroFault *fault;
} MicroScanner;

static bool fail(MicroScanner *s, size_t len, const char *message,
                 const char *help) {
  *s->fault = (CudaMicroFault){(uint32_t)(s->at - s->text), (uint32_t)len,
                               message, help};
  return false;
}

/* ---- names ---- */

static const char wrapper_help[] =
    "a micro-kernel may use ax_lane, shuffles, votes, ax_sync_warp, "
    "ax_ldmatrix_, ax_mma_ and conversions: see doc/schedules.md";

/* Wrappers that work on registers, and on shared memory that they only read.  A
 * name that ends in _ is that of a family. */
static const char *const wrappers[] = {"ax_lane",
                                       "ax_sync_warp",
                                       "ax_shuffle",
                                       "ax_shuffle_",
                                       "ax_ballot",
                                       "ax_any",
                                       "ax_all",
                                       "ax_shared_address",
                                       "ax_ldmatrix_",
                                       "ax_mma_",
                                       "ax_pack_",
                                       "ax_f16_to_f32",
                                       "ax_bf16_to_f32",
                                       "ax_f32_to_f16",
                                       "ax_f32_to_bf16",
                                       "ax_f8_e4m3_to_f32",
                                       "ax_f8_e5m2_to_f32",
                                       "ax_f4_e2m1_to_f32",
                                       "ax_f8_e8m0_to_f32",
                                       "ax_low",
                                       "ax_high",
                                       "ax_tf32",
                                       "ax_exp2",
                                       "ax_log2",
                                       "ax_reciprocal",
                                       "ax_rsqrt",
                                       "ax_tanh"};

/* Names with __ that CUDA C++ has and a micro-kernel may use. */
static const char *const reserved_names[] = {"__device__",
                                             "__forceinline__",
                                             "__noinline__",
                                             "__restrict__",
                                             "__align__",
                                             "__fmaf_rn",
                                             "__fmul_rn",
                                             "__fadd_rn",
                                             "__fdividef",
                                             "__expf",
                                             "__logf",
                                             "__float_as_int",
                                             "__float_as_uint",
                                             "__int_as_float",
                                             "__uint_as_float",
                                             "__double_as_longlong",
                                             "__longlong_as_double",
                                             "__popc",
                                             "__ffs",
                                             "__clz",
                                             "__brev",
                                             "__umulhi",
                                             "__mulhi",
                                             "__umul64hi"};

typedef struct RefusedName {
  const char *name, *message;
} RefusedName;

static const char no_assembler[] = "a micro-kernel has no assembler",
                  no_extern[] =
                      "a micro-kernel calls only functions that it defines",
                  no_variable[] =
                      "a micro-kernel keeps nothing between its calls",
                  no_place[] = "a tile does not depend on its place",
                  no_memory[] = "a micro-kernel only reads its operands";

/* A name that ends in _ is that of a family. */
static const RefusedName refused_names[] = {
    {"asm", no_assembler},
    {"extern", no_extern},
    {"using", no_extern},
    {"namespace", no_extern},
    {"import", no_extern},
    {"module", no_extern},
    {"export", no_extern},
    {"static", no_variable},
    {"thread_local", no_variable},
    {"threadIdx", no_place},
    {"blockIdx", no_place},
    {"blockDim", no_place},
    {"gridDim", no_place},
    {"new", no_memory},
    {"delete", no_memory},
    {"malloc", no_memory},
    {"free", no_memory},
    {"memcpy", no_memory},
    {"memset", no_memory},
    {"const_cast", no_memory},
    {"atomicAdd", no_memory},
    {"atomicMin", no_memory},
    {"atomicMax", no_memory},
    {"atomicAnd", no_memory},
    {"atomicOr", no_memory},
    {"atomicExch", no_memory},
    {"atomicCAS", no_memory},
    {"try", "a micro-kernel has no exceptions"},
    {"catch", "a micro-kernel has no exceptions"},
    {"throw", "a micro-kernel has no exceptions"},
    {"virtual", "a micro-kernel has no virtual functions"},
};

static bool is_named(const char *pattern, const char *name, size_t len) {
  size_t all = strlen(pattern);
  return pattern[all - 1] == '_' && pattern[0] != '_'
             ? len > all && memcmp(pattern, name, all) == 0
             : len == all && memcmp(pattern, name, len) == 0;
}

static bool is_among(const char *const *names, size_t count, const char *name,
                     size_t len) {
  for (size_t j = 0; j < count; j++)
    if (is_named(names[j], name, len))
      return true;
  return false;
}

static bool begins(const char *name, const char *with) {
  return strncmp(name, with, strlen(with)) == 0;
}

static bool check_name(MicroScanner *s, size_t len) {
  const char *name = s->at;
  const char *shown = arena_printf(s->arena, "`%.*s`", (int)len, name);
  for (size_t j = 0; j < ARRAY_LEN(refused_names); j++)
    if (is_named(refused_names[j].name, name, len))
      return fail(s, len, refused_names[j].message,
                  arena_printf(s->arena, "leave out %s", shown));
  if (begins(name, "ax_") &&
      !is_among(wrappers, ARRAY_LEN(wrappers), name, len))
    return fail(
        s, len,
        arena_printf(s->arena, "%s is no wrapper of micro-kernels", shown),
        wrapper_help);
  if ((begins(name, "AX_") && !(len == 9 && begins(name, "AX_DEVICE"))) ||
      begins(name, "axn_"))
    return fail(s, len,
                arena_printf(s->arena, "%s is a name of generated code", shown),
                "choose another name");
  if (begins(name, "__") &&
      !is_among(reserved_names, ARRAY_LEN(reserved_names), name, len))
    return fail(s, len,
                begins(name, "__asm") ? no_assembler
                                      : arena_printf(s->arena,
                                                     "a micro-kernel does not "
                                                     "use %s",
                                                     shown),
                "use plain CUDA C++ and wrappers: see doc/schedules.md");
  return true;
}

/* ---- tokens ---- */

static bool skip_comment(MicroScanner *s) {
  if (s->at[1] == '/') {
    s->at += strcspn(s->at, "\n");
    return true;
  }
  const char *end = strstr(s->at + 2, "*/");
  if (!end)
    return fail(s, 2, "this comment is not closed", "write */ after it");
  s->at = end + 2;
  return true;
}

/* Only #pragma unroll, with or without a number. */
static bool check_directive(MicroScanner *s) {
  size_t len = strcspn(s->at, "\n");
  const char *p = s->at + 1;
  p += strspn(p, " \t");
  bool is_unroll = begins(p, "pragma");
  p += is_unroll ? 6 : 0;
  p += strspn(p, " \t");
  is_unroll &= begins(p, "unroll") && !is_c_identifier_char(p[6]);
  p += is_unroll ? 6 : 0;
  p += strspn(p, " \t0123456789()\r");
  if (!is_unroll || p != s->at + len)
    return fail(s, len, "a micro-kernel has no directives but #pragma unroll",
                "write functions, templates and constexpr numbers");
  s->at += len;
  return true;
}

static bool check_brace(MicroScanner *s) {
  if (*s->at == '{') {
    if (!s->depth++)
      s->brace = s->at;
  } else if (!s->depth--) {
    return fail(s, 1, "this brace closes nothing", "leave it out");
  }
  s->at++;
  return true;
}

static bool check_sign(MicroScanner *s) {
  if (*s->at == '"' || *s->at == '\'')
    return fail(s, 1, "a micro-kernel has no strings or characters",
                "leave them out; static_assert needs none");
  if (*s->at == '\\' || *s->at == '`' || *s->at == '@' || *s->at == '$' ||
      (unsigned char)*s->at < ' ' || (unsigned char)*s->at > '~')
    return fail(s, 1, "CUDA C++ does not have this character here",
                "leave it out");
  if ((s->at[0] == '%' && s->at[1] == ':') ||
      (s->at[0] == '<' && s->at[1] == '%') ||
      (s->at[0] == '%' && s->at[1] == '>'))
    return fail(s, 2, "a micro-kernel has no digraphs", "write # { or }");
  s->at++;
  return true;
}

/* Numbers may have quotes between digits. */
static void skip_number(MicroScanner *s) {
  while (is_c_identifier_char(*s->at) || *s->at == '.' ||
         (*s->at == '\'' && is_c_identifier_char(s->at[1])) ||
         ((*s->at == '+' || *s->at == '-') && strchr("eEpP", s->at[-1])))
    s->at++;
}

static bool check_token(MicroScanner *s) {
  if (isspace((unsigned char)*s->at)) {
    s->at++;
    return true;
  }
  if (s->at[0] == '/' && (s->at[1] == '/' || s->at[1] == '*'))
    return skip_comment(s);
  if (isdigit((unsigned char)*s->at)) {
    skip_number(s);
    return true;
  }
  if (is_c_identifier_start(*s->at)) {
    size_t len = 1;
    while (is_c_identifier_char(s->at[len]))
      len++;
    if (!check_name(s, len))
      return false;
    s->at += len;
    return true;
  }
  if (*s->at == '#')
    return check_directive(s);
  if (*s->at == '{' || *s->at == '}')
    return check_brace(s);
  return check_sign(s);
}

bool cuda_micro_text_check(Arena *arena, const char *text,
                           CudaMicroFault *fault) {
  MicroScanner s = {.arena = arena, .text = text, .at = text, .fault = fault};
  *fault = (CudaMicroFault){0};
  while (*s.at)
    if (!check_token(&s))
      return false;
  if (s.depth) {
    s.at = s.brace;
    return fail(&s, 1, "this brace is not closed", "write } after it");
  }
  return true;
}
