/* Values as `print` shows them. */
#include "eval/internal.h"

#include <string.h>

enum { DEPTH_SHOWN = 200, ITEMS_SHOWN = 1000 };

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

/* Does it take more than one line, whatever the width?  What lies deeper than
 * `levels` is not asked. */
static bool is_tall(Value v, int levels) {
  if (v.tag == V_NODE && v.node->data) {
    const Tensor *t = v.node->data;
    return t->rank > 1 && t->count > t->shape[t->rank - 1];
  }
  if (!levels)
    return false;
  if (v.tag == V_TUPLE || v.tag == V_RECORD) {
    const Value *at =
        v.tag == V_TUPLE ? AS_FIELDS(v)->at : AS_RECORD(v)->at;
    for (uint32_t i = 0; i < v.obj->len; i++)
      if (is_tall(at[i], levels - 1))
        return true;
  }
  return v.tag == V_CON && is_tall(AS_CON(v)->arg, levels - 1);
}

/* Parts of a value: each on a line of its own, once one takes several. */
typedef struct Parts {
  Buffer *out;
  int column;  /* where they begin */
  size_t from; /* where the first one begins */
} Parts;

static Parts parts_begin(Buffer *out) {
  return (Parts){out, buffer_column(out), out->len};
}

static void parts_next(Parts *p, Value v) {
  bool tall = is_tall(v, 4) || (p->out->len > p->from &&
                             memchr(p->out->text + p->from, '\n',
                                    p->out->len - p->from));
  buffer_puts(p->out, tall ? ",\n" : ", ");
  for (int i = 0; tall && i < p->column; i++)
    buffer_putc(p->out, ' ');
}

static void print_list(Eval *vm, Buffer *out, Value v, uint32_t depth) {
  buffer_puts(out, "list [");
  Parts parts = parts_begin(out);
  for (uint32_t i = 0; v.tag == V_CONS; v = AS_CONS(v)->tail, i++) {
    if (i)
      parts_next(&parts, AS_CONS(v)->head);
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
  if (depth > DEPTH_SHOWN) {
    buffer_puts(out, "...");
    return;
  }
  depth++;
  Parts parts;
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
    buffer_putc(out, '(');
    parts = parts_begin(out);
    for (uint32_t i = 0; i < v.obj->len; i++) {
      if (i)
        parts_next(&parts, AS_FIELDS(v)->at[i]);
      print_value(vm, out, AS_FIELDS(v)->at[i], true, depth);
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
