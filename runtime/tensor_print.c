/* Prints tensors in columns, as NumPy does: one number format for the whole
 * tensor, and only the edges of long axes.
 *
 * Floats get as many decimals as needed to distinguish the printed numbers: at
 * most 4 decimals and 8 digits in total, or 4 digits of the largest number if
 * that is below 1.  They get an exponent if the largest number is at least 1e8
 * or below 1e-4, or if some number would print as 0.0. */
#include "runtime/internal.h"

#include <math.h>
#include <string.h>

enum { EDGE_ITEMS = 3, MAX_DECIMALS = 4, MAX_DIGITS = 8, MAX_CELL_BYTES = 400 };

typedef struct TensorPrinter {
  Buffer *out;
  const Tensor *t;
  bool summarize;   /* axes longer than 2 * EDGE are abbreviated */
  int line_width;   /* columns of the text */
  int start_column; /* column of the text's start; other lines are indented to
                       it */
  int cell_width;   /* width of one number */
  int decimals;     /* digits after the point; -1 for integers */
  bool scientific;  /* floats as 1.25e-7 */
  int64_t strides[MAX_RANK];
} TensorPrinter;

static bool is_summarized(const TensorPrinter *p, uint32_t axis) {
  return p->summarize && p->t->shape[axis] > 2 * EDGE_ITEMS;
}

/* The next printed index along an axis.  The middle is skipped: from EDGE - 1
 * to n - EDGE. */
static int64_t next_shown_index(const TensorPrinter *p, uint32_t axis,
                                int64_t i) {
  if (is_summarized(p, axis) && i == EDGE_ITEMS - 1)
    return p->t->shape[axis] - EDGE_ITEMS;
  return i + 1;
}

static void for_each_shown(const TensorPrinter *p, uint32_t axis,
                           int64_t offset, void (*visit)(void *user, Scalar x),
                           void *user) {
  if (axis == p->t->rank) {
    visit(user, scalar_load(p->t->dtype, tensor_at(p->t, offset)));
    return;
  }
  int64_t n = p->t->shape[axis];
  for (int64_t i = 0; i < n; i = next_shown_index(p, axis, i))
    for_each_shown(p, axis + 1, offset + i * p->strides[axis], visit, user);
}

/* ---- choice of the format ---- */

typedef struct NumberStats { /* of the printed numbers */
  double max_abs, min_abs;   /* of the finite numbers other than 0 */
  int decimals; /* digits after the point that distinguish all, without an
                   exponent */
  int digits;   /* significant digits that distinguish all */
} NumberStats;

static void collect_stats(void *user, Scalar x) {
  NumberStats *s = user;
  double size = fabs(x.f);
  if (size == 0 || !isfinite(size))
    return;
  char digits[20];
  int exponent, len = shortest_digits(x.dtype, size, digits, &exponent);
  s->max_abs = size > s->max_abs ? size : s->max_abs;
  s->min_abs = s->min_abs == 0 || size < s->min_abs ? size : s->min_abs;
  s->digits = len > s->digits ? len : s->digits;
  if (len - 1 - exponent > s->decimals)
    s->decimals = len - 1 - exponent;
}

static int exponent_of(double x) {
  return (int)floor(log10(x));
}

static void choose_format(TensorPrinter *p, const NumberStats *s) {
  int decimals = 1;
  p->scientific = false;
  if (s->max_abs > 0) {
    int max_exponent = exponent_of(s->max_abs);
    int room = max_exponent < 0             ? MAX_DECIMALS - 1 - max_exponent
               : max_exponent >= MAX_DIGITS ? 1
                                            : MAX_DIGITS - 1 - max_exponent;
    if (max_exponent >= 0 && room > MAX_DECIMALS)
      room = MAX_DECIMALS;
    room = room < 1 ? 1 : room;
    decimals = s->decimals < room ? s->decimals : room;
    decimals = decimals < 1 ? 1 : decimals;
    p->scientific = s->max_abs >= 1e8 || s->max_abs < 1e-4 ||
                    s->min_abs < 0.5 * pow(10, -decimals);
  }
  if (p->scientific)
    decimals = s->digits - 1 < MAX_DECIMALS ? s->digits - 1 : MAX_DECIMALS;
  p->decimals = decimals;
}

/* ---- numbers ---- */

/* Drops what our literals do not need: "1.2500e-07" becomes "1.2500e-7". */
static int exponent_text(char *out, size_t size, int decimals, double x) {
  snprintf(out, size, "%.*e", decimals, x);
  char *e = strchr(out, 'e');
  if (!e)
    return (int)strlen(out);
  char *to = e + 1, *from = e + 1;
  if (*from == '-')
    *to++ = *from++;
  while (*from == '+' || (*from == '0' && from[1]))
    from++;
  memmove(to, from, strlen(from) + 1);
  return (int)strlen(out);
}

static int number_text(const TensorPrinter *p, Scalar x,
                       char out[MAX_CELL_BYTES]) {
  if (x.dtype == DT_BOOL)
    return snprintf(out, MAX_CELL_BYTES, "%s", x.i ? "true" : "false");
  if (!dtype_is_float(x.dtype))
    return snprintf(out, MAX_CELL_BYTES, "%lld", (long long)x.i);
  if (isnan(x.f))
    return snprintf(out, MAX_CELL_BYTES, "nan");
  if (isinf(x.f))
    return snprintf(out, MAX_CELL_BYTES, "%s", x.f < 0 ? "-inf" : "inf");
  if (p->scientific)
    return exponent_text(out, MAX_CELL_BYTES, p->decimals, x.f);
  return snprintf(out, MAX_CELL_BYTES, "%.*f", p->decimals, x.f);
}

static void measure_cell(void *user, Scalar x) {
  TensorPrinter *p = user;
  char text[MAX_CELL_BYTES];
  int len = number_text(p, x, text);
  p->cell_width = len > p->cell_width ? len : p->cell_width;
}

/* ---- brackets ---- */

static void spaces(Buffer *out, int n) {
  for (int i = 0; i < n; i++)
    buffer_putc(out, ' ');
}

/* The last axis: numbers, wrapped at the line width. */
static void print_row(const TensorPrinter *p, int64_t offset) {
  uint32_t axis = p->t->rank - 1;
  int64_t n = p->t->shape[axis];
  int indent = p->start_column + (int)p->t->rank, column = indent;
  for (int64_t i = 0; i < n;) {
    int64_t next = next_shown_index(p, axis, i);
    Scalar x = scalar_load(p->t->dtype, tensor_at(p->t, offset + i));
    char text[MAX_CELL_BYTES];
    int len = number_text(p, x, text);
    int room = next < n ? 1 : (int)p->t->rank; /* a comma, or brackets */
    if (i > 0 && column + 1 + p->cell_width + room > p->line_width) {
      buffer_putc(p->out, '\n');
      spaces(p->out, indent);
      column = indent;
    } else if (i > 0) {
      buffer_putc(p->out, ' ');
      column++;
    }
    spaces(p->out, p->cell_width - len);
    buffer_add(p->out, text, (size_t)len);
    column += p->cell_width;
    if (next < n) {
      buffer_putc(p->out, ',');
      column++;
    }
    if (next > i + 1) {
      buffer_puts(p->out, " ...,");
      column += 5;
    }
    i = next;
  }
}

/* Separates blocks of rank r by r - 1 line breaks. */
static void put_block_break(const TensorPrinter *p, uint32_t axis) {
  for (uint32_t i = axis + 1; i < p->t->rank; i++)
    buffer_putc(p->out, '\n');
  spaces(p->out, p->start_column + (int)axis + 1);
}

static void print_axis(const TensorPrinter *p, uint32_t axis, int64_t offset) {
  int64_t n = p->t->shape[axis];
  buffer_putc(p->out, '[');
  if (axis + 1 == p->t->rank) {
    print_row(p, offset);
  } else {
    for (int64_t i = 0; i < n;) {
      int64_t next = next_shown_index(p, axis, i);
      print_axis(p, axis + 1, offset + i * p->strides[axis]);
      if (next < n) {
        buffer_putc(p->out, ',');
        put_block_break(p, axis);
      }
      if (next > i + 1) {
        buffer_puts(p->out, "...,");
        put_block_break(p, axis);
      }
      i = next;
    }
  }
  buffer_putc(p->out, ']');
}

void tensor_print(Buffer *out, const Tensor *t, int64_t threshold, int width) {
  if (t->rank == 0) {
    scalar_print(out, scalar_load(t->dtype, t->data));
    return;
  }
  if (t->count == 0) {
    buffer_puts(out, "[]");
    return;
  }
  TensorPrinter p = {.out = out,
                     .t = t,
                     .summarize = t->count > threshold,
                     .line_width = width,
                     .start_column = buffer_column(out)};
  if (p.start_column > width / 2)
    p.start_column = width / 2;
  int64_t stride = 1;
  for (uint32_t i = t->rank; i-- > 0; stride *= t->shape[i])
    p.strides[i] = stride;
  if (dtype_is_float(t->dtype)) {
    NumberStats s = {0};
    for_each_shown(&p, 0, 0, collect_stats, &s);
    choose_format(&p, &s);
  }
  for_each_shown(&p, 0, 0, measure_cell, &p);
  print_axis(&p, 0, 0);
}
