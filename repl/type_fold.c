/* Shortens the text of a type for a reader: nested records become lists of
 * their labels or {…}, and the last conditions become their number.  Main entry
 * point: type_fold. */
#include "repl/type_text.h"
#include "support/buffer.h"

#include <string.h>

enum {
  MAX_DEPTH = 8,         /* of records that are tried */
  MAX_FOLDED_LABELS = 3, /* of a record that only shows its labels */
  MAX_CLASS_VARIABLES = 6
};

/* The position behind the bracket that matches the one at p. */
static const char *skip_brackets(const char *p) {
  int depth = 0;
  for (; *p; p++) {
    depth += strchr("{[(", *p) != NULL;
    depth -= strchr("}])", *p) != NULL;
    if (depth == 0)
      return p + 1;
  }
  return p;
}

/* The position of the next `mark` outside of brackets, or of the end. */
static const char *find_outside(const char *p, const char *end,
                                const char *mark) {
  while (p < end && strncmp(p, mark, strlen(mark)) != 0)
    p = strchr("{[(", *p) ? skip_brackets(p) : p + 1;
  return p < end ? p : end;
}

/* {w, b, …} for {w : 'a[n], b : 'a[n], x : 'a[n], y : 'a[n]} */
static void put_labels(const char *p, const char *end, Buffer *out) {
  buffer_putc(out, '{');
  for (uint32_t i = 0; p < end; i++) {
    const char *next = find_outside(p, end, ", ");
    if (i == MAX_FOLDED_LABELS) {
      buffer_puts(out, ", …");
      break;
    }
    buffer_puts(out, i ? ", " : "");
    buffer_add(out, p, (size_t)(find_outside(p, next, " : ") - p));
    p = next + 2 < end ? next + 2 : end;
  }
  buffer_putc(out, '}');
}

/* depth: records inside of this number of records are folded. */
static void put_folded(const char *p, const char *end, int depth, bool labels,
                       Buffer *out) {
  while (p < end) {
    if (*p != '{') {
      buffer_putc(out, *p++);
      continue;
    }
    const char *close = skip_brackets(p) - 1;
    if (depth > 0) {
      buffer_putc(out, '{');
      put_folded(p + 1, close, depth - 1, labels, out);
      buffer_putc(out, '}');
    } else if (labels) {
      put_labels(p + 1, close, out);
    } else {
      buffer_puts(out, "{…}");
    }
    p = close + 1;
  }
}

/* The end of a condition; 'a, 'b : float is one condition. */
static const char *condition_end(const char *p, const char *end) {
  const char *next = find_outside(p, end, ", ");
  while (*p == '\'' && next < end && find_outside(p, next, " : ") == next)
    next = find_outside(next + 2, end, ", ");
  return next;
}

/* A condition; of the many variables of a class only the first ones. */
static void put_condition(const char *p, const char *end, Buffer *out) {
  const char *class = find_outside(p, end, " : "), *shown = p;
  for (uint32_t i = 0; *p == '\'' && shown < class && i < MAX_CLASS_VARIABLES;
       i++) {
    shown = find_outside(shown, class, ", ");
    shown += shown < class ? 2 : 0;
  }
  if (*p == '\'' && shown < class) {
    buffer_add(out, p, (size_t)(shown - p));
    buffer_puts(out, "…");
    p = class;
  }
  buffer_add(out, p, (size_t)(end - p));
}

/* True for the least value of a size, as 1 <= n, and for classes: such
 * conditions tell a reader least. */
static bool is_common(const char *p, const char *end) {
  size_t number = strspn(p, "0123456789");
  if (*p == '\'')
    return true;
  if (!number || strncmp(p + number, " <= ", 4) != 0)
    return false;
  p += number + 4;
  return strcspn(p, " +-*/(") >= (size_t)(end - p);
}

typedef struct Conditions {
  Buffer *out;
  size_t limit; /* of out->len */
  uint32_t shown, more;
} Conditions;

/* As many conditions as fit, at least one. common: those of is_common, or the
 * others. */
static void put_conditions(Conditions *c, const char *p, const char *end,
                           bool common) {
  while (p < end) {
    const char *next = condition_end(p, end);
    if (is_common(p, next) != common) {
      /* the other pass */
    } else if (!c->shown ||
               (!c->more && c->out->len + (size_t)(next - p) + 2 <= c->limit)) {
      buffer_puts(c->out, c->shown++ ? ", " : " given ");
      put_condition(p, next, c->out);
    } else {
      c->more++;
    }
    p = next < end ? next + 2 : end;
  }
}

bool type_fold(const char *type, size_t limit, Buffer *out) {
  const char *end = type + strlen(type);
  if ((size_t)(end - type) <= limit) {
    buffer_puts(out, type);
    return false;
  }
  const char *given = find_outside(type, end, " given ");
  size_t start = out->len;
  for (int level = 2 * MAX_DEPTH - 1; level >= 0; level--) {
    out->len = start;
    put_folded(type, given, level / 2, level % 2, out);
    if (out->len - start <= limit)
      break;
  }
  Conditions c = {.out = out, .limit = start + limit};
  given += given < end ? strlen(" given ") : 0;
  put_conditions(&c, given, end, false);
  put_conditions(&c, given, end, true);
  if (c.more)
    buffer_printf(out, ", and %u more condition%s", c.more,
                  c.more > 1 ? "s" : "");
  return true;
}
