/* Micro-kernels that a program defines.
 *
 *     kernel fma6x16 : f32[6, k] @ f32[k, 16] = c
 *       void fma6x16(const float *a, long a_row, long a_term, ...
 *
 * The text after `= c` is C (plan/schedule_file.h).  `by gemm {micro=fma6x16}`
 * in a schedule names it. */
#include "session/internal.h"

#include "eval/eval.h"
#include "parser/parser.h"
#include "plan/schedule_file.h"
#include "support/arena.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/source.h"

#include <ctype.h>
#include <string.h>

enum { MAX_MICRO_ROWS = 64, MAX_MICRO_COLUMNS = 256 };

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

static void take_dtype(SpecReader *r, Dtype *dtype) {
  static const Dtype types[] = {DT_F32, DT_F64};
  skip_blanks(r);
  for (size_t j = 0; j < ARRAY_LEN(types); j++) {
    const char *name = dtype_info[types[j]].name;
    if (strncmp(r->at, name, strlen(name)) == 0) {
      r->at += strlen(name);
      *dtype = types[j];
      return;
    }
  }
  r->is_valid = false;
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

/* Reads TYPE[M, k] @ TYPE[k, N] = c. */
static bool read_spec(SpecReader *r, MicroKernel *m) {
  const char *left, *right;
  Dtype other = DT_NONE;
  take_dtype(r, &m->dtype);
  take(r, "[");
  m->rows = take_number(r);
  take(r, ",");
  size_t len = take_name(r, &left);
  take(r, "]");
  take(r, "@");
  take_dtype(r, &other);
  take(r, "[");
  r->is_valid &= take_name(r, &right) == len && memcmp(left, right, len) == 0;
  take(r, ",");
  m->columns = take_number(r);
  take(r, "]");
  take(r, "=");
  take(r, "c");
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
                "f32[6, k] @ f32[k, 16] = c; the types are f32 or f64");
  if (!m->rows || m->rows > MAX_MICRO_ROWS || !m->columns ||
      m->columns > MAX_MICRO_COLUMNS)
    return fail(s, spec, "this tile is too large, or empty",
                "a tile has at most 64 rows and 256 columns");
  const Source *source = sources_get(&s->sources, dec->span.file);
  uint32_t column;
  m->name = dec->name->text;
  m->text = r.at;
  m->path = source->name;
  source_line_and_column(source,
                         dec->text_span.start + (uint32_t)(r.at - dec->text),
                         &m->line, &column);
  if (!m->text[strspn(m->text, " \t\r\n")])
    return fail(s, spec, "this micro-kernel has no code",
                "write the function in C below, indented");
  schedule_declare_micro_kernel(eval_graph(s->eval), s->arena, m);
  return true;
}
