/* Checks the tokens of micro-kernels in CUDA C++. */
#include "backend/cuda/micro_text.h"

#include "support/arena.h"
#include "support/arena_text.h"
#include "support/c_identifier.h"
#include "support/compiler.h"

#include <ctype.h>
#include <string.h>

/* A declaration outside of functions and types. */
typedef struct Declaration {
  const char *from; /* NULL: none has begun */
  enum { ANY, TYPE, CONSTANT, STATEMENT } kind;
  uint32_t nesting;      /* of parentheses and brackets */
  uint32_t words, names; /* before another sign; of a type */
  bool has_sign;
  bool is_operator, has_value;
  bool has_colon, has_body;        /* of a type */
  bool is_template, in_parameters; /* of a template */
} Declaration;

typedef struct MicroScanner {
  Arena *arena;
  const char *text, *at;
  uint32_t depth;    /* of braces */
  const char *brace; /* the last one at depth 0 */
  char last;         /* the first character of the last token */
  Declaration declaration;
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

/* ---- declarations ---- */

/* Initializers of variables outside of functions would run when the simulator
 * loads the kernel, in the process of the compiler.  Each such variable ends in
 * a semicolon, and functions do not. */
static bool fail_declaration(MicroScanner *s) {
  const char *from = s->declaration.from ? s->declaration.from : s->at;
  size_t len = (size_t)(s->at - from) + 1, line = strcspn(from, "\n");
  s->at = from;
  return fail(s, len < line ? len : line,
              "outside of its functions, a micro-kernel has only types, "
              "constexpr numbers and functions with a body",
              "move the variable into the function, or write constexpr; no ; "
              "is after the body of a function");
}

static bool is_word(const char *word, const char *at, size_t len) {
  return strlen(word) == len && memcmp(word, at, len) == 0;
}

/* The head of a type has one name. */
static void note_type_word(Declaration *d, const char *at, size_t len) {
  bool is_part = is_word("alignas", at, len) || is_word("__align__", at, len) ||
                 (d->words == 1 &&
                  (is_word("class", at, len) || is_word("struct", at, len))) ||
                 (d->names == 1 && is_word("final", at, len));
  d->names += !is_part && !d->has_colon;
}

static void note_word(Declaration *d, const char *at, size_t len) {
  static const char *const types[] = {"struct", "class", "union", "enum"},
                           *const statements[] = {"typedef", "static_assert"};
  if (d->words == 0 && !d->has_sign && !d->is_template &&
      is_word("template", at, len)) {
    d->is_template = true;
    return;
  }
  if (d->words == 0 && is_among(types, ARRAY_LEN(types), at, len))
    d->kind = TYPE;
  else if (d->words == 0 &&
           is_among(statements, ARRAY_LEN(statements), at, len))
    d->kind = STATEMENT;
  else if (d->kind == ANY && !d->has_sign && is_word("constexpr", at, len))
    d->kind = CONSTANT;
  else if (d->kind == TYPE)
    note_type_word(d, at, len);
  d->is_operator |= is_word("operator", at, len);
  d->words++;
}

/* Between < and > of a template: parentheses, but no other <. */
static bool note_parameters(MicroScanner *s) {
  Declaration *d = &s->declaration;
  if (*s->at == '<' && d->in_parameters)
    return fail(s, 1, "the parameters of a template have no <",
                "write parentheses around a comparison");
  d->in_parameters = *s->at != '>';
  return true;
}

static bool note_semicolon(MicroScanner *s) {
  Declaration *d = &s->declaration;
  bool is_type = d->kind == TYPE && (d->has_body || d->names == 1);
  if (d->kind != CONSTANT && d->kind != STATEMENT &&
      !(is_type && (d->has_body || !d->has_sign)))
    return fail_declaration(s);
  *d = (Declaration){0};
  return true;
}

static bool note_sign(MicroScanner *s) {
  Declaration *d = &s->declaration;
  bool opens = *s->at == '(' || *s->at == '[';
  if (*s->at == ')' || *s->at == ']') {
    if (!d->nesting--)
      return fail(s, 1, "this parenthesis closes nothing", "leave it out");
    return true;
  }
  if (opens || d->nesting) {
    d->nesting += opens;
    d->has_sign |= d->kind != TYPE;
    return true;
  }
  if (d->in_parameters || (d->is_template && !d->words && *s->at == '<'))
    return note_parameters(s);
  if (*s->at == ';')
    return note_semicolon(s);
  d->has_colon |= *s->at == ':';
  d->has_value |= *s->at == '=' && !d->is_operator;
  d->has_sign = true;
  return true;
}

/* Notes the token outside of braces that begins at s->at. */
static bool note_token(MicroScanner *s, size_t word_len) {
  Declaration *d = &s->declaration;
  if (s->depth)
    return true;
  if (d->has_body && *s->at != ';')
    return fail_declaration(s);
  d->from = d->from ? d->from : s->at;
  if (!word_len)
    return note_sign(s);
  if (!d->nesting && !d->in_parameters)
    note_word(d, s->at, word_len);
  return true;
}

/* A brace closed that opened outside of others. */
static void note_body(Declaration *d) {
  if (d->nesting || d->in_parameters)
    return;
  if (d->kind == TYPE && d->names <= 1)
    d->has_body = true;
  else if (d->kind != STATEMENT && !(d->kind == CONSTANT && d->has_value))
    *d = (Declaration){0};
}

/* ---- tokens ---- */

/* A compiler joins lines at \, and some end a line at a lone carriage
 * return. */
static bool skip_comment(MicroScanner *s) {
  bool is_line = s->at[1] == '/';
  const char *end =
      is_line ? s->at + strcspn(s->at, "\n") : strstr(s->at + 2, "*/");
  if (!end)
    return fail(s, 2, "this comment is not closed", "write */ after it");
  for (; s->at < end; s->at++)
    if (*s->at == '\\' || begins(s->at, "?\?/") ||
        (*s->at == '\r' && s->at[1] != '\n'))
      return fail(s, 1, "a comment does not have this character",
                  "leave it out");
  s->at = is_line ? end : end + 2;
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
    if (s->declaration.has_body)
      return fail_declaration(s);
    if (!s->depth++)
      s->brace = s->at;
  } else if (!s->depth--) {
    return fail(s, 1, "this brace closes nothing", "leave it out");
  } else if (!s->depth) {
    note_body(&s->declaration);
  }
  s->last = *s->at++;
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
  if ((s->at[0] == '[' && s->last == '[') || begins(s->at, "<:"))
    return fail(s, 1, "a micro-kernel has no attributes", "leave it out");
  if (begins(s->at, "??"))
    return fail(s, 2, "a micro-kernel has no trigraphs", "leave it out");
  if (!note_token(s, 0))
    return false;
  s->last = *s->at++;
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
    s->last = *s->at;
    skip_number(s);
    return true;
  }
  if (is_c_identifier_start(*s->at)) {
    size_t len = 1;
    while (is_c_identifier_char(s->at[len]))
      len++;
    if (!check_name(s, len) || !note_token(s, len))
      return false;
    s->last = *s->at;
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
  if (s.declaration.from) {
    s.at = s.declaration.from;
    return fail(&s, 1, "this declaration has no end", "write its end");
  }
  return true;
}
