/* Tensors as text, in columns, as NumPy prints them: one number format for the
 * whole tensor, long axes cut to their ends.
 *
 * Floats get as many decimals as tell the numbers shown, at most 4 behind the
 * point and 8 digits in all, or 4 digits of the largest where that is below 1;
 * an exponent where the largest is 1e8 or more or below 1e-4, or where some
 * number would turn into 0.0. */
#include "runtime/internal.h"

#include <math.h>
#include <string.h>

enum { EDGE = 3, DECIMALS = 4, DIGITS = 8, CELL_MOST = 400 };

typedef struct Printer {
  Buffer *out;
  const Tensor *t;
  bool cut;      /* axes longer than 2 * EDGE are cut */
  int width;     /* of the text */
  int column;    /* where it begins: further lines are indented as far */
  int cell;      /* width of one number */
  int decimals;  /* behind the point; -1 where not a float */
  bool exponent; /* floats as 1.25e-7 */
  int64_t step[RANK_MAX];
} Printer;

static bool is_cut(const Printer *p, uint32_t axis) {
  return p->cut && p->t->shape[axis] > 2 * EDGE;
}

/* The next index along an axis that is shown; the jump over the middle is from
 * EDGE - 1 to n - EDGE. */
static int64_t next_index(const Printer *p, uint32_t axis, int64_t i) {
  if (is_cut(p, axis) && i == EDGE - 1)
    return p->t->shape[axis] - EDGE;
  return i + 1;
}

static void each_shown(const Printer *p, uint32_t axis, int64_t offset,
                       void (*visit)(void *user, Scalar x), void *user) {
  if (axis == p->t->rank) {
    visit(user, scalar_load(p->t->dtype, tensor_at(p->t, offset)));
    return;
  }
  int64_t n = p->t->shape[axis];
  for (int64_t i = 0; i < n; i = next_index(p, axis, i))
    each_shown(p, axis + 1, offset + i * p->step[axis], visit, user);
}

/* ---- choosing the format ---- */

typedef struct Survey { /* of the numbers shown */
  double most, least;   /* sizes, of the finite ones that are not 0 */
  int decimals;         /* that tell them all, without an exponent */
  int digits;           /* significant digits that tell them all */
} Survey;

static void survey(void *user, Scalar x) {
  Survey *s = user;
  double size = fabs(x.f);
  if (size == 0 || !isfinite(size))
    return;
  char digits[20];
  int exponent, len = float_digits(x.dtype, size, digits, &exponent);
  s->most = size > s->most ? size : s->most;
  s->least = s->least == 0 || size < s->least ? size : s->least;
  s->digits = len > s->digits ? len : s->digits;
  if (len - 1 - exponent > s->decimals)
    s->decimals = len - 1 - exponent;
}

static int exponent_of(double x) {
  return (int)floor(log10(x));
}

static void choose_format(Printer *p, const Survey *s) {
  int decimals = 1;
  p->exponent = false;
  if (s->most > 0) {
    int top = exponent_of(s->most);
    int room = top < 0         ? DECIMALS - 1 - top
               : top >= DIGITS ? 1
                               : DIGITS - 1 - top;
    if (top >= 0 && room > DECIMALS)
      room = DECIMALS;
    room = room < 1 ? 1 : room;
    decimals = s->decimals < room ? s->decimals : room;
    decimals = decimals < 1 ? 1 : decimals;
    p->exponent =
        s->most >= 1e8 || s->most < 1e-4 || s->least < 0.5 * pow(10, -decimals);
  }
  if (p->exponent)
    decimals = s->digits - 1 < DECIMALS ? s->digits - 1 : DECIMALS;
  p->decimals = decimals;
}

/* ---- numbers ---- */

/* "1.2500e-07" loses what our literals do not need: "1.2500e-7". */
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

static int number_text(const Printer *p, Scalar x, char out[CELL_MOST]) {
  if (x.dtype == DT_BOOL)
    return snprintf(out, CELL_MOST, "%s", x.i ? "true" : "false");
  if (!dtype_is_float(x.dtype))
    return snprintf(out, CELL_MOST, "%lld", (long long)x.i);
  if (isnan(x.f))
    return snprintf(out, CELL_MOST, "nan");
  if (isinf(x.f))
    return snprintf(out, CELL_MOST, "%s", x.f < 0 ? "-inf" : "inf");
  if (p->exponent)
    return exponent_text(out, CELL_MOST, p->decimals, x.f);
  return snprintf(out, CELL_MOST, "%.*f", p->decimals, x.f);
}

static void measure(void *user, Scalar x) {
  Printer *p = user;
  char text[CELL_MOST];
  int len = number_text(p, x, text);
  p->cell = len > p->cell ? len : p->cell;
}

/* ---- brackets ---- */

static void spaces(Buffer *out, int n) {
  for (int i = 0; i < n; i++)
    buffer_putc(out, ' ');
}

/* The last axis: numbers, wrapped at the width. */
static void print_row(const Printer *p, int64_t offset) {
  uint32_t axis = p->t->rank - 1;
  int64_t n = p->t->shape[axis];
  int indent = p->column + (int)p->t->rank, column = indent;
  for (int64_t i = 0; i < n;) {
    int64_t next = next_index(p, axis, i);
    Scalar x = scalar_load(p->t->dtype, tensor_at(p->t, offset + i));
    char text[CELL_MOST];
    int len = number_text(p, x, text);
    int room = next < n ? 1 : (int)p->t->rank; /* a comma, or brackets */
    if (i > 0 && column + 1 + p->cell + room > p->width) {
      buffer_putc(p->out, '\n');
      spaces(p->out, indent);
      column = indent;
    } else if (i > 0) {
      buffer_putc(p->out, ' ');
      column++;
    }
    spaces(p->out, p->cell - len);
    buffer_add(p->out, text, (size_t)len);
    column += p->cell;
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

/* Blocks of rank r are kept apart by r - 1 line ends. */
static void line_ends(const Printer *p, uint32_t axis) {
  for (uint32_t i = axis + 1; i < p->t->rank; i++)
    buffer_putc(p->out, '\n');
  spaces(p->out, p->column + (int)axis + 1);
}

static void print_axis(const Printer *p, uint32_t axis, int64_t offset) {
  int64_t n = p->t->shape[axis];
  buffer_putc(p->out, '[');
  if (axis + 1 == p->t->rank) {
    print_row(p, offset);
  } else {
    for (int64_t i = 0; i < n;) {
      int64_t next = next_index(p, axis, i);
      print_axis(p, axis + 1, offset + i * p->step[axis]);
      if (next < n) {
        buffer_putc(p->out, ',');
        line_ends(p, axis);
      }
      if (next > i + 1) {
        buffer_puts(p->out, "...,");
        line_ends(p, axis);
      }
      i = next;
    }
  }
  buffer_putc(p->out, ']');
}

void tensor_print(Buffer *out, const Tensor *t, int64_t limit, int width) {
  if (t->rank == 0) {
    scalar_print(out, scalar_load(t->dtype, t->data));
    return;
  }
  if (t->count == 0) {
    buffer_puts(out, "[]");
    return;
  }
  Printer p = {.out = out,
               .t = t,
               .cut = t->count > limit,
               .width = width,
               .column = buffer_column(out)};
  if (p.column > width / 2)
    p.column = width / 2;
  int64_t step = 1;
  for (uint32_t i = t->rank; i-- > 0; step *= t->shape[i])
    p.step[i] = step;
  if (dtype_is_float(t->dtype)) {
    Survey s = {0};
    each_shown(&p, 0, 0, survey, &s);
    choose_format(&p, &s);
  }
  each_shown(&p, 0, 0, measure, &p);
  print_axis(&p, 0, 0);
}
