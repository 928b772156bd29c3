/* Formats values as `print` shows them.  The main entry point is vm_print. */
#include "eval/internal.h"
#include "support/buffer.h"
#include "support/intern.h"

#include <string.h>

enum { MAX_PRINT_DEPTH = 200, MAX_PRINTED_ITEMS = 1000 };

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

static void print_shape(Buffer *out, const ShapeObj *s) {
  buffer_putc(out, '[');
  for (uint32_t k = 0; k < s->obj.len; k++) {
    if (k)
      buffer_puts(out, ", ");
    if (s->broadcast_mask >> k & 1)
      buffer_putc(out, '*');
    else if (s->extents[k] == SHAPE_HOLE)
      buffer_putc(out, '_');
    else
      buffer_printf(out, "%lld", (long long)s->extents[k]);
  }
  buffer_putc(out, ']');
}

/* True if v needs several lines, whatever the width.  Looks at most `levels`
 * deep. */
static bool is_multiline(Value v, int levels) {
  if (v.tag == V_NODE && v.node->data) {
    const Tensor *t = v.node->data;
    return t->rank > 1 && t->count > t->shape[t->rank - 1];
  }
  if (!levels)
    return false;
  if (v.tag == V_TUPLE || v.tag == V_RECORD) {
    const Value *at = v.tag == V_TUPLE ? AS_ARRAY(v)->at : AS_RECORD(v)->at;
    for (uint32_t i = 0; i < v.obj->len; i++)
      if (is_multiline(at[i], levels - 1))
        return true;
  }
  return v.tag == V_CON && is_multiline(AS_CON(v)->arg, levels - 1);
}

/* Layout of the parts of a value.  If one part needs several lines, each part
 * starts on its own line. */
typedef struct PartLayout {
  Buffer *out;
  int column;   /* column at which the parts begin */
  size_t start; /* offset in the output at which the first part begins */
} PartLayout;

static PartLayout parts_begin(Buffer *out) {
  return (PartLayout){out, buffer_column(out), out->len};
}

static void parts_next(PartLayout *p, Value v) {
  bool break_line = is_multiline(v, 4) || (p->out->len > p->start &&
                                           memchr(p->out->text + p->start, '\n',
                                                  p->out->len - p->start));
  buffer_puts(p->out, break_line ? ",\n" : ", ");
  for (int i = 0; break_line && i < p->column; i++)
    buffer_putc(p->out, ' ');
}

static void print_list(Eval *vm, Buffer *out, Value v, uint32_t depth) {
  buffer_puts(out, "list [");
  PartLayout parts = parts_begin(out);
  for (uint32_t i = 0; v.tag == V_CONS; v = AS_CONS(v)->tail, i++) {
    if (i)
      parts_next(&parts, AS_CONS(v)->head);
    if (i == MAX_PRINTED_ITEMS) {
      buffer_puts(out, "...");
      break;
    }
    print_value(vm, out, AS_CONS(v)->head, true, depth);
  }
  buffer_putc(out, ']');
}

static const Con *con_of(Value v) {
  return v.tag == V_CON ? AS_CON(v)->con : v.con;
}

/* As the list of its items, or the set of its keys. */
static void print_dict(Eval *vm, Buffer *out, Value v, uint32_t depth) {
  size_t mark = vm->temp_count;
  uint32_t count;
  const Value *const *items = vm_dict_items(vm, v, &count);
  bool is_set = count && items[0][DICT_VALUE].tag == V_UNIT;
  buffer_puts(out, is_set ? "set [" : "dict [");
  PartLayout parts = parts_begin(out);
  for (uint32_t i = 0; i < count; i++) {
    if (i)
      parts_next(&parts, items[i][DICT_VALUE]);
    if (i == MAX_PRINTED_ITEMS) {
      buffer_puts(out, "...");
      break;
    }
    buffer_puts(out, is_set ? "" : "(");
    print_value(vm, out, items[i][DICT_KEY], true, depth);
    if (!is_set) {
      buffer_puts(out, ", ");
      print_value(vm, out, items[i][DICT_VALUE], true, depth);
      buffer_putc(out, ')');
    }
  }
  buffer_putc(out, ']');
  vm_drop_temps(vm, mark);
}

static bool is_atomic(Value v) {
  return v.tag != V_CON && !(value_is_num(v) && v.i < 0);
}

static void print_con(Eval *vm, Buffer *out, Value v, uint32_t depth) {
  buffer_puts(out, AS_CON(v)->con->name->text);
  Value arg = AS_CON(v)->arg;
  bool is_atomic_arg = is_atomic(arg);
  buffer_puts(out, is_atomic_arg ? " " : " (");
  print_value(vm, out, arg, true, depth);
  if (!is_atomic_arg)
    buffer_putc(out, ')');
}

static void print_number(Buffer *out, Value v) {
  scalar_print(out, value_to_scalar(v));
}

static void print_node(Eval *vm, Buffer *out, Value v) {
  const Tensor *t = vm_tensor(vm, v);
  if (t->rank)
    tensor_print(out, t, vm->host->print_limit ? vm->host->print_limit : 1000,
                 vm->host->print_width ? vm->host->print_width : 80);
  else
    scalar_print(out, scalar_load(t->dtype, t->data));
  vm_check_file(vm, t);
}

static void print_value(Eval *vm, Buffer *out, Value v, bool nested,
                        uint32_t depth) {
  if (value_is_num(v)) {
    print_number(out, v);
    return;
  }
  if (depth > MAX_PRINT_DEPTH) {
    buffer_puts(out, "...");
    return;
  }
  depth++;
  PartLayout parts;
  switch ((ValueTag)v.tag) {
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
    buffer_putc(out, '(');
    parts = parts_begin(out);
    for (uint32_t i = 0; i < v.obj->len; i++) {
      if (i)
        parts_next(&parts, AS_ARRAY(v)->at[i]);
      print_value(vm, out, AS_ARRAY(v)->at[i], true, depth);
    }
    buffer_putc(out, ')');
    return;
  case V_RECORD:
    buffer_putc(out, '{');
    parts = parts_begin(out);
    for (uint32_t i = 0; i < v.obj->len; i++) {
      if (i)
        parts_next(&parts, AS_RECORD(v)->at[i]);
      buffer_printf(out, "%s = ", AS_RECORD(v)->layout->labels[i]->text);
      print_value(vm, out, AS_RECORD(v)->at[i], true, depth);
    }
    buffer_putc(out, '}');
    return;
  case V_NIL:
  case V_CONS:
    print_list(vm, out, v, depth);
    return;
  case V_NULLARY_CON:
  case V_CON:
    if (con_of(v)->is_dict)
      print_dict(vm, out, v, depth);
    else if (con_of(v)->is_figure)
      buffer_puts(out, "<figure>");
    else if (v.tag == V_CON)
      print_con(vm, out, v, depth);
    else
      buffer_puts(out, v.con->name->text);
    return;
  case V_SHAPE:
    print_shape(out, AS_SHAPE(v));
    return;
  case V_KEY:
    buffer_printf(out, "<key %016llx%016llx>",
                  (unsigned long long)AS_KEY(v)->key.word[0],
                  (unsigned long long)AS_KEY(v)->key.word[1]);
    return;
  case V_KEYS:
    buffer_putc(out, '[');
    for (uint32_t i = 0; i < v.obj->len; i++) {
      buffer_puts(out, i ? ", " : "");
      print_value(vm, out, AS_ARRAY(v)->at[i], true, depth);
    }
    buffer_putc(out, ']');
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
  case V_ALL_AXES:
    buffer_puts(out, "all");
    return;
  case V_NONE:
  case V_ABSENT:
  case V_DTYPE:
  case V_RAW:
  case V_ENV:
  case V_TAPE:
  case V_PASS:
  case V_RULE:
  case V_INDEX:
    buffer_puts(out, "<internal>");
    return;
  }
}

static void print_or_raise(Eval *vm, Buffer *out, Value v, bool nested,
                           bool draws) {
  Trap trap;
  if (TRAP_SET(trap) == FAIL_NONE) {
    vm_force_value(vm, v);
    if (draws && v.tag == V_CON && con_of(v)->is_figure)
      vm_draw_figure(vm, out, v);
    else
      print_value(vm, out, v, nested, 0);
    trap_end(&trap);
    return;
  }
  buffer_free(out);
  trap_raise(trap.kind);
}

void vm_print(Eval *vm, Buffer *out, Value v, bool nested) {
  print_or_raise(vm, out, v, nested, false);
}

void vm_print_or_draw(Eval *vm, Buffer *out, Value v, bool nested) {
  print_or_raise(vm, out, v, nested, true);
}
