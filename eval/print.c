/* Values as `print` shows them. */
#include "eval/internal.h"

#include <string.h>

enum { DEPTH_SHOWN = 200, ITEMS_SHOWN = 1000, INDENT_MOST = 60 };

static void print_value(Eval *vm, Buffer *out, Value v, bool nested,
                        uint32_t depth);

static void print_string(Buffer *out, const String *s) {
  buffer_putc(out, '"');
  for (uint32_t i = 0; i < s->obj.len; i++) {
    unsigned char c = (unsigned char)s->text[i];
    if (c == '"' || c == '\\')
      buffer_printf(out, "\\%c", c);
    else if (c == '\n')
      buffer_puts(out, "\\n");
    else if (c == '\t')
      buffer_puts(out, "\\t");
    else if (c < 32)
      buffer_printf(out, "\\x%02x", c);
    else
      buffer_putc(out, (char)c);
  }
  buffer_putc(out, '"');
}

static void print_shape(Buffer *out, const Shape *s) {
  buffer_putc(out, '[');
  for (uint32_t k = 0; k < s->obj.len; k++) {
    if (k)
      buffer_puts(out, ", ");
    if (s->stars >> k & 1)
      buffer_putc(out, '*');
    else if (s->at[k] == SHAPE_HOLE)
      buffer_putc(out, '_');
    else
      buffer_printf(out, "%lld", (long long)s->at[k]);
  }
  buffer_putc(out, ']');
}

/* ---- several lines inside of brackets ---- */

/* Columns since the last line break; 1 where they are too many to indent by. */
static int column(const Buffer *out) {
  size_t start = out->len;
  if (!start)
    return 0;
  while (start && out->text[start - 1] != '\n' &&
         out->len - start <= 4 * INDENT_MOST)
    start--;
  size_t width = utf8_width(out->text + start, out->len - start);
  return width > INDENT_MOST ? 1 : (int)width;
}

static void blanks(Buffer *out, size_t count) {
  while (count--)
    buffer_putc(out, ' ');
}

/* Moves the lines that begin after `from` to the right. */
static void indent(Buffer *out, size_t from, size_t columns) {
  size_t lines = 0, end = out->len;
  for (size_t i = from; i < end; i++)
    lines += out->text[i] == '\n';
  blanks(out, lines * columns);
  char *to = out->text + out->len;
  for (size_t i = end; lines; i--) {
    if (out->text[i - 1] == '\n') {
      memset(to -= columns, ' ', columns);
      lines--;
    }
    *--to = out->text[i - 1];
  }
}

/* Between the items of what was opened before `from`: on one line for as long
 * as they are. */
static void separate(Buffer *out, size_t from, int columns) {
  if (memchr(out->text + from, '\n', out->len - from)) {
    buffer_puts(out, ",\n");
    blanks(out, (size_t)columns);
  } else {
    buffer_puts(out, ", ");
  }
}

static void print_list(Eval *vm, Buffer *out, Value v, uint32_t depth) {
  buffer_puts(out, "list [");
  int columns = column(out);
  size_t from = out->len;
  for (uint32_t i = 0; v.tag == V_CONS; v = AS_CONS(v)->tail, i++) {
    if (i)
      separate(out, from, columns);
    if (i == ITEMS_SHOWN) {
      buffer_puts(out, "...");
      break;
    }
    print_value(vm, out, AS_CONS(v)->head, true, depth);
  }
  buffer_putc(out, ']');
}

static bool is_simple(Value v) {
  return v.tag != V_CON && !(value_is_num(v) && v.i < 0);
}

static void print_con(Eval *vm, Buffer *out, Value v, uint32_t depth) {
  buffer_puts(out, AS_CON(v)->con->name->text);
  Value arg = AS_CON(v)->arg;
  bool bare = is_simple(arg);
  buffer_puts(out, bare ? " " : " (");
  print_value(vm, out, arg, true, depth);
  if (!bare)
    buffer_putc(out, ')');
}

static void print_number(Buffer *out, Value v) {
  scalar_print(out, value_to_scalar(v));
}

static void print_node(Eval *vm, Buffer *out, Value v) {
  const Tensor *t = vm_tensor(vm, v);
  int width = vm->host->print_width ? vm->host->print_width : 80;
  int64_t limit = vm->host->print_limit ? vm->host->print_limit : 1000;
  int columns = column(out);
  size_t from = out->len;
  if (t->rank) {
    tensor_print(out, t, limit, width - columns);
    indent(out, from, (size_t)columns);
  } else {
    scalar_print(out, scalar_load(t->dtype, t->data));
  }
}

static void print_tuple(Eval *vm, Buffer *out, Value v, uint32_t depth) {
  buffer_putc(out, '(');
  int columns = column(out);
  size_t from = out->len;
  for (uint32_t i = 0; i < v.obj->len; i++) {
    if (i)
      separate(out, from, columns);
    print_value(vm, out, AS_FIELDS(v)->at[i], true, depth);
  }
  buffer_putc(out, ')');
}

static void print_record(Eval *vm, Buffer *out, Value v, uint32_t depth) {
  buffer_putc(out, '{');
  int columns = column(out);
  size_t from = out->len;
  for (uint32_t i = 0; i < v.obj->len; i++) {
    if (i)
      separate(out, from, columns);
    buffer_printf(out, "%s = ", AS_RECORD(v)->layout->labels[i]->text);
    print_value(vm, out, AS_RECORD(v)->at[i], true, depth);
  }
  buffer_putc(out, '}');
}

static void print_value(Eval *vm, Buffer *out, Value v, bool nested,
                        uint32_t depth) {
  if (value_is_num(v)) {
    print_number(out, v);
    return;
  }
  if (depth > DEPTH_SHOWN) {
    buffer_puts(out, "...");
    return;
  }
  depth++;
  switch ((Tag)v.tag) {
  case V_UNIT:
    buffer_puts(out, "()");
    return;
  case V_STRING:
    if (nested)
      print_string(out, AS_STRING(v));
    else
      buffer_add(out, AS_STRING(v)->text, v.obj->len);
    return;
  case V_TUPLE:
    print_tuple(vm, out, v, depth);
    return;
  case V_RECORD:
    print_record(vm, out, v, depth);
    return;
  case V_NIL:
  case V_CONS:
    print_list(vm, out, v, depth);
    return;
  case V_CON0:
    buffer_puts(out, v.con->name->text);
    return;
  case V_CON:
    print_con(vm, out, v, depth);
    return;
  case V_SHAPE:
    print_shape(out, AS_SHAPE(v));
    return;
  case V_KEY:
    buffer_printf(out, "<key %016llx%016llx>",
                  (unsigned long long)AS_KEY(v)->key.word[0],
                  (unsigned long long)AS_KEY(v)->key.word[1]);
    return;
  case V_NODE:
    print_node(vm, out, v);
    return;
  case V_FN:
  case V_CLOSURE:
  case V_PARTIAL:
  case V_PRIM:
    buffer_puts(out, "<fn>");
    return;
  case V_AXIS_ALL:
    buffer_puts(out, "all");
    return;
  case V_NONE:
  case V_ABSENT:
  case V_DTYPE:
  case V_FRAME:
  case V_ENV:
  case V_INDEX:
    buffer_puts(out, "<internal>");
    return;
  }
}

void vm_print(Eval *vm, Buffer *out, Value v, bool nested) {
  Trap trap;
  if (TRAP_SET(trap) == FAIL_NONE) {
    vm_force_value(vm, v);
    print_value(vm, out, v, nested, 0);
    trap_end(&trap);
    return;
  }
  buffer_free(out);
  trap_raise(trap.kind);
}
