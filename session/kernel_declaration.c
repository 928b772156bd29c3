/* Micro-kernels that a program defines.
 *
 *     kernel fma6x16 : f32[6, k] @ f32[k, 16] = c
 *       void fma6x16(const float *a, long a_row, long a_term, ...
 *
 * The text after `= c` is C, and after `= cuda` CUDA C++
 * (plan/schedule_file.h).  `by gemm {micro=fma6x16}` in a schedule names it. */
#include "session/internal.h"

#include "backend/cuda/micro_text.h"
#include "eval/eval.h"
#include "parser/parser.h"
#include "plan/schedule_file.h"
#include "support/arena.h"
#include "support/diag.h"
#include "support/int_math.h"
#include "support/intern.h"
#include "support/source.h"

#include <ctype.h>
#include <string.h>

enum {
  MAX_MICRO_ROWS = 64,
  MAX_MICRO_COLUMNS = 256,
  /* In CUDA: of a thread, and of a warp. */
  MAX_THREAD_SIDE = 8,
  MIN_WARP_SIDE = 16,
  MAX_WARP_ELEMENTS = 2048,
};

typedef struct SpecReader {
  const char *at;
  bool is_valid;
} SpecReader;

static void skip_blanks(SpecReader *r) {
  r->at += strspn(r->at, " \t\r\n");
}

static void take(SpecReader *r, const char *text) {
  skip_blanks(r);
  size_t len = strlen(text);
  if (strncmp(r->at, text, len) == 0)
    r->at += len;
  else
    r->is_valid = false;
}

/* The type with this name, if a micro-kernel can have it; or DT_NONE. */
static Dtype dtype_named(const char *name, size_t len) {
  static const Dtype types[] = {DT_F32,  DT_F64,     DT_F16,
                                DT_BF16, DT_F8_E4M3, DT_F8_E5M2};
  char text[16] = "";
  if (len < sizeof text)
    memcpy(text, name, len);
  Dtype dtype = dtype_by_name(text);
  for (size_t j = 0; j < ARRAY_LEN(types); j++)
    if (types[j] == dtype)
      return dtype;
  return DT_NONE;
}

static uint32_t take_number(SpecReader *r) {
  uint32_t number = 0;
  skip_blanks(r);
  r->is_valid &= isdigit((unsigned char)*r->at) != 0;
  while (isdigit((unsigned char)*r->at) && number < 1000000)
    number = number * 10 + (uint32_t)(*r->at++ - '0');
  return number;
}

/* The name of the terms.  Returns its length. */
static size_t take_name(SpecReader *r, const char **name) {
  size_t len = 0;
  skip_blanks(r);
  *name = r->at;
  while (isalnum((unsigned char)r->at[len]) || r->at[len] == '_')
    len++;
  r->is_valid &= len > 0 && isalpha((unsigned char)*r->at);
  r->at += len;
  return len;
}

static Dtype take_dtype(SpecReader *r) {
  const char *name;
  size_t len = take_name(r, &name);
  Dtype dtype = dtype_named(name, len);
  r->is_valid &= dtype != DT_NONE;
  return dtype;
}

/* Reads `c` or `cuda`, the rest of the line. */
static bool take_language(SpecReader *r) {
  const char *name;
  size_t len = take_name(r, &name);
  bool is_cuda = len == 4 && memcmp(name, "cuda", 4) == 0;
  r->is_valid &= is_cuda || (len == 1 && *name == 'c');
  char next = r->at[strspn(r->at, " \t\r")];
  r->is_valid &= next == 0 || next == '\n';
  return is_cuda;
}

/* Reads TYPE[M, k] @ TYPE[k, N] =. */
static bool read_spec(SpecReader *r, MicroKernel *m) {
  const char *left, *right;
  m->dtype = take_dtype(r);
  take(r, "[");
  m->rows = take_number(r);
  take(r, ",");
  size_t len = take_name(r, &left);
  take(r, "]");
  take(r, "@");
  Dtype other = take_dtype(r);
  take(r, "[");
  r->is_valid &= take_name(r, &right) == len && memcmp(left, right, len) == 0;
  take(r, ",");
  m->columns = take_number(r);
  take(r, "]");
  take(r, "=");
  return r->is_valid && other == m->dtype;
}

static bool is_c_identifier(const char *name) {
  for (; *name; name++)
    if (!isalnum((unsigned char)*name) && *name != '_')
      return false;
  return true;
}

static bool fail(Session *s, Span span, const char *message, const char *help) {
  Diag *diag = session_error(s, 523, span, "%s", message);
  diag->help = help;
  return false;
}

static bool is_thread_side(uint32_t side, uint32_t min) {
  return int_is_power_of_two(side) && side >= min && side <= MAX_THREAD_SIDE;
}

/* The tiles of CUDA: those of a thread (way=fma), or of a warp (way=mma). */
static bool check_cuda_tile(Session *s, const MicroKernel *m, Span spec) {
  if (m->dtype == DT_F32 || m->dtype == DT_F64)
    return (is_thread_side(m->rows, 2) && is_thread_side(m->columns, 4)) ||
           fail(s, spec, "a thread has no such tile",
                "in CUDA, a thread computes a tile of f32 or f64: it has 2, 4 "
                "or 8 rows and 4 or 8 columns");
  return (int_is_power_of_two(m->rows) && m->rows >= MIN_WARP_SIDE &&
          int_is_power_of_two(m->columns) && m->columns >= MIN_WARP_SIDE &&
          m->rows * m->columns <= MAX_WARP_ELEMENTS) ||
         fail(s, spec, "a warp has no such tile",
              "in CUDA, a warp computes a tile of elements of 8 or 16 bits: "
              "rows and columns are powers of two, at least 16, and their "
              "product is at most 2048");
}

static bool check_tile(Session *s, const MicroKernel *m, Span spec) {
  if (!m->rows || m->rows > MAX_MICRO_ROWS || !m->columns ||
      m->columns > MAX_MICRO_COLUMNS)
    return fail(s, spec, "this tile is too large, or empty",
                "a tile has at most 64 rows and 256 columns");
  if (m->is_cuda)
    return check_cuda_tile(s, m, spec);
  return m->dtype == DT_F32 || m->dtype == DT_F64 ||
         fail(s, spec, "a micro-kernel in C has elements of f32 or f64",
              "write f32 or f64, or write the micro-kernel in CUDA");
}

/* at: the position of the text in the file. */
static bool check_text(Session *s, const MicroKernel *m, Span spec,
                       uint32_t at) {
  if (!m->text[strspn(m->text, " \t\r\n")])
    return fail(s, spec, "this micro-kernel has no code",
                m->is_cuda ? "write the function in CUDA C++ below, indented"
                           : "write the function in C below, indented");
  CudaMicroFault fault;
  if (!m->is_cuda || cuda_micro_text_check(s->arena, m->text, &fault))
    return true;
  Span span = {spec.file, at + fault.at, at + fault.at + fault.len};
  return fail(s, span, fault.message, fault.help);
}

bool kernel_declaration_read(Session *s, const Dec *dec) {
  MicroKernel *m = NEW(s->arena, MicroKernel);
  SpecReader r = {.at = dec->text, .is_valid = true};
  Span spec = {dec->text_span.file, dec->text_span.start,
               dec->text_span.start + (uint32_t)strcspn(dec->text, "\n")};
  if (!is_c_identifier(dec->name->text))
    return fail(s, dec->name_span, "a micro-kernel is a function in C",
                "use letters, digits and _ in its name");
  if (!read_spec(&r, m))
    return fail(s, spec, "this is not what a micro-kernel computes",
                "write TYPE[M, k] @ TYPE[k, N] = c, such as "
                "f32[6, k] @ f32[k, 16] = c; the types are f32 or f64; with "
                "`= cuda`, also f16, bf16, f8_e4m3 or f8_e5m2");
  m->is_cuda = take_language(&r);
  if (!r.is_valid)
    return fail(s, spec, "a micro-kernel is C or CUDA",
                "end this line with `= c` or `= cuda`");
  const Source *source = sources_get(&s->sources, dec->span.file);
  uint32_t column, at = dec->text_span.start + (uint32_t)(r.at - dec->text);
  m->name = dec->name->text;
  m->text = r.at;
  m->path = source->name;
  m->span = dec->name_span;
  source_line_and_column(source, at, &m->line, &column);
  source_line_and_column(source, dec->name_span.start, &m->first_line, &column);
  if (!check_tile(s, m, spec) || !check_text(s, m, spec, at))
    return false;
  schedule_declare_micro_kernel(eval_graph(s->eval), s->arena, m);
  return true;
}
