/* .csv and .tsv files: rows of numbers.
 *
 * The separator is a tab, a semicolon or a comma: the first of these that the
 * first row contains.  In .tsv files it is a tab.  Numbers may be quoted.
 * Blank lines are skipped.
 *
 * The file is scanned twice: first for rows, then for numbers.  A number of at
 * most 19 digits with a small exponent is one exact product or quotient of
 * doubles (Clinger, PLDI 1990).  Other numbers use strtod. */
#include "runtime/internal.h"
#include "support/interrupt.h"

#include <math.h>
#include <string.h>
#include <strings.h>

typedef struct CsvReader {
  const InputFile *in;
  Fault *fault;
  const char *at, *end; /* the rest of the file */
  const char *line_end; /* end of the line that contains `at` */
  int64_t line;         /* from 1 */
  char separator;
  bool at_first_row; /* at the first row */
  Dtype dtype;
} CsvReader;

/* ---- lines and fields ---- */

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

/* Moves to the next line that is not blank.  Returns false at the end of the
 * file. */
static bool next_line(CsvReader *s) {
  while (s->at < s->end) {
    const char *newline = memchr(s->at, '\n', (size_t)(s->end - s->at));
    s->line_end = newline ? newline : s->end;
    s->line++;
    const char *p = s->at;
    while (p < s->line_end && is_blank(*p))
      p++;
    if (p < s->line_end)
      return true;
    s->at = newline ? newline + 1 : s->end;
  }
  return false;
}

static void end_line(CsvReader *s) {
  s->at = s->line_end < s->end ? s->line_end + 1 : s->end;
}

static int64_t count_fields(const CsvReader *s) {
  int64_t count = 1;
  for (const char *p = s->at; p < s->line_end; p++)
    count += *p == s->separator;
  return count;
}

static void choose_separator(CsvReader *s) {
  size_t len = (size_t)(s->line_end - s->at);
  if (s->separator)
    return;
  s->separator = memchr(s->at, '\t', len)  ? '\t'
                 : memchr(s->at, ';', len) ? ';'
                                           : ',';
}

static CsvReader csv_open(const InputFile *in, char separator, Fault *fault) {
  /* The byte order mark U+FEFF. */
  static const char byte_order_mark[] = "\xef\xbb\xbf";
  CsvReader s = {.in = in, .fault = fault, .separator = separator};
  s.at = (const char *)in->bytes;
  s.end = s.at + in->size;
  if (in->size >= 3 && memcmp(s.at, byte_order_mark, 3) == 0)
    s.at += 3;
  return s;
}

/* Finds the extents.  Afterwards `s` is at the first row. */
static bool find_extents(CsvReader *s, const LoadOptions *options,
                         int64_t shape[2]) {
  if (options->skip_header && next_line(s)) {
    choose_separator(s);
    end_line(s);
  }
  CsvReader rows = *s;
  shape[0] = shape[1] = 0;
  while (next_line(&rows)) {
    if (shape[0]++ == 0) {
      choose_separator(&rows);
      s->separator = rows.separator;
      shape[1] = count_fields(&rows);
    }
    end_line(&rows);
  }
  return shape[0] > 0 || input_fault(s->in, s->fault, "it has no rows");
}

static bool ragged_row_fault(const CsvReader *s, int64_t columns) {
  int64_t count = count_fields(s);
  input_fault(s->in, s->fault,
              "line %lld has %lld field%s; the first row has %lld",
              (long long)s->line, (long long)count, count == 1 ? "" : "s",
              (long long)columns);
  return false;
}

/* ---- numbers ---- */

static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
enum { MAX_EXACT_POWER = 22, MAX_EXACT_DIGITS = 19, MAX_NUMBER_BYTES = 512 };

typedef struct Field {
  const char *at, *end; /* without blanks and quotes */
  int64_t column;       /* from 1 */
  bool is_integer;      /* only digits and a sign */
  bool is_negative;     /* the number is +-digits * 10^power */
  uint64_t digits;      /* digits that fit into `digits` */
  int digit_count, power;
} Field;

static bool is_digit(char c) {
  return (unsigned char)(c - '0') < 10;
}

static const char *read_digits(Field *f, const char *p) {
  for (; p < f->end && is_digit(*p); p++) {
    f->digits = f->digits * 10 + (unsigned)(*p - '0');
    f->digit_count += f->digits > 0; /* leading zeros do not count */
  }
  return p;
}

static const char *read_exponent(Field *f, const char *p) {
  bool minus = p < f->end && *p == '-';
  int power = 0;
  p += p < f->end && (*p == '-' || *p == '+');
  if (p == f->end || !is_digit(*p))
    return NULL;
  for (; p < f->end && is_digit(*p); p++)
    power = power < 10000 ? power * 10 + (*p - '0') : power;
  f->power += minus ? -power : power;
  return p;
}

/* True if the field is a decimal number. */
static bool read_number(Field *f) {
  const char *p = f->at;
  f->is_negative = p < f->end && *p == '-';
  p += p < f->end && (*p == '-' || *p == '+');
  const char *start = p;
  p = read_digits(f, p);
  long digits = p - start;
  f->is_integer = true;
  if (p < f->end && *p == '.') {
    const char *point = ++p;
    p = read_digits(f, p);
    digits += p - point;
    f->power = p - point < 10000 ? -(int)(p - point) : -10000;
    f->is_integer = false;
  }
  if (digits && p < f->end && (*p == 'e' || *p == 'E')) {
    p = read_exponent(f, p + 1);
    f->is_integer = false;
  }
  return digits && p == f->end;
}

static bool is_word(const Field *f, const char *word) {
  const char *p = f->at + (f->at < f->end && (*f->at == '-' || *f->at == '+'));
  size_t len = strlen(word);
  return (size_t)(f->end - p) == len && strncasecmp(p, word, len) == 0;
}

static bool field_fault(const CsvReader *s, const Field *f, const char *what) {
  int len = f->end - f->at > 40 ? 40 : (int)(f->end - f->at);
  if (len)
    return input_fault(s->in, s->fault, "line %lld, column %lld: \"%.*s\" %s",
                       (long long)s->line, (long long)f->column, len, f->at,
                       what);
  return input_fault(s->in, s->fault, "line %lld, column %lld is empty",
                     (long long)s->line, (long long)f->column);
}

static bool not_a_number_fault(const CsvReader *s, const Field *f) {
  field_fault(s, f, "is not a number");
  if (s->at_first_row && f->at < f->end)
    fault_set_help(
        s->fault,
        "if the first line contains names, skip it with ~header:true");
  return false;
}

/* Rounding to f64 and then to f32 can be wrong only at ties of f32.  Normal
 * ties have these low bits; subnormal numbers have ties elsewhere. */
static bool is_f32_tie(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return (bits & 0x1fffffff) == 0x10000000 || fabs(x) < 0x1p-126;
}

static bool fast_path_float(Dtype dtype, const Field *f, double *out) {
  if (f->digit_count > MAX_EXACT_DIGITS || f->digits >> 53 ||
      f->power < -MAX_EXACT_POWER || f->power > MAX_EXACT_POWER ||
      (dtype != DT_F32 && dtype != DT_F64))
    return false;
  double x = (double)f->digits;
  x = f->power < 0 ? x / powers[-f->power] : x * powers[f->power];
  *out = f->is_negative ? -x : x;
  return dtype == DT_F64 || x == 0 || !is_f32_tie(x);
}

static bool slow_path_float(const CsvReader *s, Dtype dtype, const Field *f,
                            double *out) {
  char text[MAX_NUMBER_BYTES];
  size_t len = (size_t)(f->end - f->at);
  if (len >= sizeof text)
    return field_fault(s, f, "... has too many digits");
  memcpy(text, f->at, len);
  text[len] = 0;
  *out = dtype_parse(dtype, text, NULL);
  return true;
}

static bool read_float(const CsvReader *s, Field *f, double *out) {
  if (read_number(f))
    return fast_path_float(s->dtype, f, out) ||
           slow_path_float(s, s->dtype, f, out);
  if (is_word(f, "nan") || is_word(f, "inf") || is_word(f, "infinity"))
    return slow_path_float(s, s->dtype, f, out);
  return not_a_number_fault(s, f);
}

static bool too_large_fault(const CsvReader *s, const Field *f) {
  char what[32];
  snprintf(what, sizeof what, "does not fit %s", dtype_info[s->dtype].name);
  return field_fault(s, f, what);
}

/* "1.0" and "1e3" are integers too. */
static bool read_int(const CsvReader *s, Field *f, int64_t *out) {
  bool number = read_number(f);
  if (s->dtype == DT_BOOL && (is_word(f, "true") || is_word(f, "false"))) {
    *out = is_word(f, "true");
    return true;
  }
  if (!number)
    return not_a_number_fault(s, f);
  if (f->is_integer && f->digit_count <= MAX_EXACT_DIGITS) {
    if (f->digits > (uint64_t)INT64_MAX + f->is_negative)
      return too_large_fault(s, f);
    *out = (int64_t)(f->is_negative ? -f->digits : f->digits);
  } else {
    double x;
    if (!slow_path_float(s, DT_F64, f, &x))
      return false;
    if (x != floor(x) || (!f->is_integer && fabs(x) >= 0x1p53)) {
      field_fault(s, f, "is not a whole number");
      fault_set_help(s->fault, "the program expects %s there",
                     dtype_info[s->dtype].name);
      return false;
    }
    if (fabs(x) >= 0x1p53)
      return too_large_fault(s, f);
    *out = (int64_t)x;
  }
  return dtype_wrap(s->dtype, *out) == *out || too_large_fault(s, f);
}

/* ---- rows ---- */

static void trim_field(Field *f) {
  while (f->at < f->end && is_blank(*f->at))
    f->at++;
  while (f->at < f->end && is_blank(f->end[-1]))
    f->end--;
  if (f->end - f->at < 2 || *f->at != '"' || f->end[-1] != '"')
    return;
  f->at++;
  f->end--;
  trim_field(f);
}

static bool read_field(const CsvReader *s, Field *f, void *out) {
  Scalar x = {.dtype = s->dtype};
  trim_field(f);
  bool ok =
      dtype_is_float(s->dtype) ? read_float(s, f, &x.f) : read_int(s, f, &x.i);
  if (ok)
    scalar_store(x, out);
  return ok;
}

/* Fast path: most fields are a few digits only.  Returns the end of the
 * field. */
static const char *fast_path_field(const CsvReader *s, const char *p,
                                   void *out) {
  Scalar x = {.dtype = s->dtype};
  const char *end = s->line_end - p > 4 ? p + 4 : s->line_end;
  int64_t n = 0;
  const char *start = p;
  for (; p < end && is_digit(*p); p++)
    n = n * 10 + (*p - '0');
  if (p == start || (p < s->line_end && *p != s->separator))
    return NULL;
  if (s->dtype == DT_F32 || s->dtype == DT_F64)
    x.f = (double)n;
  else if (s->dtype == DT_I32 || s->dtype == DT_I64)
    x.i = n;
  else
    return NULL;
  scalar_store(x, out);
  return p;
}

static bool read_row(const CsvReader *s, int64_t columns, char *out,
                     size_t element_bytes) {
  const char *p = s->at;
  for (int64_t i = 0; i < columns; i++, out += element_bytes) {
    const char *fast_end = fast_path_field(s, p, out),
               *end = fast_end ? fast_end : p;
    while (end < s->line_end && *end != s->separator)
      end++;
    bool last = i == columns - 1;
    if (last != (end == s->line_end))
      return ragged_row_fault(s, columns);
    Field f = {.at = p, .end = end, .column = i + 1};
    if (!fast_end && !read_field(s, &f, out))
      return false;
    p = end + 1;
  }
  return true;
}

/* If t is NULL, the rows are only checked. */
static bool read_rows(CsvReader *s, int64_t columns, const Tensor *t) {
  char scratch[8];
  size_t element_bytes = t ? dtype_info[s->dtype].bytes : 0;
  char *out = t ? t->data : scratch;
  s->at_first_row = true;
  for (; next_line(s); end_line(s), s->at_first_row = false) {
    if (interrupt_pending()) {
      fault_set(s->fault, "reading stopped before its end");
      return false;
    }
    if (!read_row(s, columns, out, element_bytes))
      return false;
    out += element_bytes * (size_t)columns;
  }
  return true;
}

static Tensor *load_table(InputFile *in, char separator,
                          const LoadOptions *options, Fault *fault) {
  CsvReader s = csv_open(in, separator, fault);
  int64_t shape[2], count;
  s.dtype = options->dtype ? options->dtype : DT_F32;
  if (!find_extents(&s, options, shape))
    return NULL;
  /* A number and its separator take at least two bytes.  If the file is too
   * short for its shape, some row is wrong, and nothing is allocated. */
  if (__builtin_mul_overflow(shape[0], shape[1], &count) ||
      (uint64_t)count > in->size / 2 + 1) {
    if (read_rows(&s, shape[1], NULL))
      input_fault(in, fault, "its rows are damaged");
    return NULL;
  }
  Tensor *t = tensor_new(s.dtype, 2, shape, false, fault);
  if (t && read_rows(&s, shape[1], t))
    return t;
  tensor_release(t);
  return NULL;
}

static bool read_header(InputFile *in, char separator,
                        const LoadOptions *options, TensorHeader *header,
                        Fault *fault) {
  CsvReader s = csv_open(in, separator, fault);
  *header = (TensorHeader){.rank = 2};
  return find_extents(&s, options, header->shape);
}

/* ---- writing ---- */

enum { FLUSH_BYTES = 64 * 1024 };

static bool save_table(OutputFile *out, const Tensor *t, char separator,
                       Fault *fault) {
  if (t->rank > 2) {
    output_fault(out, fault, "a table has 2 axes, not %u", t->rank);
    fault_set_help(fault, "reshape it first, or save it as .npy");
    return false;
  }
  int64_t columns = t->rank == 2 ? t->shape[1] : 1;
  Buffer *b = &out->scratch;
  for (int64_t i = 0; i < t->count; i++) {
    Scalar x = scalar_load(t->dtype, tensor_at(t, i));
    if (t->dtype == DT_BOOL)
      buffer_putc(b, x.i ? '1' : '0');
    else
      scalar_print(b, x);
    buffer_putc(b, (i + 1) % columns ? separator : '\n');
    if (b->len >= FLUSH_BYTES || i + 1 == t->count) {
      interrupt_poll(); /* file_save cleans up */
      fwrite(b->text, 1, b->len, out->file);
      b->len = 0;
    }
  }
  return true;
}

/* ---- the two formats ---- */

static bool csv_header(InputFile *in, const LoadOptions *options,
                       TensorHeader *header, Fault *fault) {
  return read_header(in, 0, options, header, fault);
}
static bool tsv_header(InputFile *in, const LoadOptions *options,
                       TensorHeader *header, Fault *fault) {
  return read_header(in, '\t', options, header, fault);
}
static Tensor *csv_load(InputFile *in, const LoadOptions *options,
                        Fault *fault) {
  return load_table(in, 0, options, fault);
}
static Tensor *tsv_load(InputFile *in, const LoadOptions *options,
                        Fault *fault) {
  return load_table(in, '\t', options, fault);
}
static bool csv_save(OutputFile *out, uint32_t count, const char *const *names,
                     Tensor *const *tensors, Fault *fault) {
  (void)count, (void)names;
  return save_table(out, tensors[0], ',', fault);
}
static bool tsv_save(OutputFile *out, uint32_t count, const char *const *names,
                     Tensor *const *tensors, Fault *fault) {
  (void)count, (void)names;
  return save_table(out, tensors[0], '\t', fault);
}

const FileFormat csv_format = {".csv", csv_header, csv_load,
                               NULL,   NULL,       csv_save};
const FileFormat tsv_format = {".tsv", tsv_header, tsv_load,
                               NULL,   NULL,       tsv_save};
