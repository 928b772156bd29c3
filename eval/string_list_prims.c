/* Primitives on strings and lists. */
#include "eval/internal.h"
#include "support/buffer.h"
#include "support/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PRIM(name) \
  Value name(Eval *vm, const PrimSite *site, Value *args, uint32_t n)
#define UNUSED (void)site, (void)n

PRIM(prim_list_length) {
  UNUSED;
  (void)vm;
  int64_t count = 0;
  for (Value v = args[0]; v.tag == V_CONS; v = AS_CONS(v)->tail)
    count++;
  return value_int(count);
}

Value vm_cons(Eval *vm, Value item, Value list) {
  vm_push_temp(vm, list);
  vm_push_temp(vm, item);
  Value cell = value_cons(&vm->heap, item, list);
  vm->temp_count -= 2;
  return cell;
}

Value vm_cons_text(Eval *vm, const char *text, size_t len, Value list) {
  vm_push_temp(vm, list);
  Value item = value_string(&vm->heap, text, len);
  vm->temp_count--;
  return vm_cons(vm, item, list);
}

Value vm_reversed(Eval *vm, Value list) {
  vm_push_temp(vm, list);
  Value r = prim_list_reverse(vm, NULL, &list, 1);
  vm_drop_temps(vm, vm->temp_count - 1);
  return r;
}

PRIM(prim_list_reverse) {
  UNUSED;
  Value list = {.tag = V_NIL};
  for (Value v = args[0]; v.tag == V_CONS; v = AS_CONS(v)->tail) {
    vm_push_temp(vm, list);
    Value cell = value_cons(&vm->heap, value_unit(), list);
    AS_CONS(cell)->head = value_retain(AS_CONS(v)->head);
    vm->temp_count--;
    list = cell;
  }
  return list;
}

Value vm_string_from_buffer(Eval *vm, Buffer *text) {
  Trap trap;
  if (TRAP_SET(trap) == FAIL_NONE) {
    Value v = value_string(&vm->heap, text->text ? text->text : "", text->len);
    trap_end(&trap);
    buffer_free(text);
    return v;
  }
  buffer_free(text);
  trap_raise(trap.kind);
}

PRIM(prim_append) {
  UNUSED;
  const String *a = AS_STRING(args[0]), *b = AS_STRING(args[1]);
  if ((uint64_t)a->obj.len + b->obj.len > UINT32_MAX - 64)
    trap_raise(FAIL_MEMORY);
  uint32_t len = a->obj.len + b->obj.len;
  String *s = obj_new(&vm->heap, V_STRING, sizeof *s + len + 1, len);
  memcpy(s->text, a->text, a->obj.len);
  memcpy(s->text + a->obj.len, b->text, b->obj.len);
  s->text[len] = 0;
  return value_obj(V_STRING, s);
}

PRIM(prim_str_length) {
  UNUSED;
  (void)vm;
  const String *s = AS_STRING(args[0]);
  int64_t count = 0;
  for (uint32_t i = 0; i < s->obj.len; i++)
    count += ((unsigned char)s->text[i] & 0xc0) != 0x80;
  return value_int(count);
}

static const char *find_separator(const char *text, size_t len,
                                  const String *sep) {
  for (size_t i = 0; sep->obj.len && i + sep->obj.len <= len; i++)
    if (!memcmp(text + i, sep->text, sep->obj.len))
      return text + i;
  return NULL;
}

PRIM(prim_str_split) {
  UNUSED;
  const String *sep = AS_STRING(args[n - 2]), *s = AS_STRING(args[n - 1]);
  bool has_limit = n == 3 && args[0].tag != V_ABSENT;
  int64_t left = has_limit ? vm_int(vm, args[0]) : INT64_MAX;
  const char *at = s->text, *end = s->text + s->obj.len;
  Value reversed = {.tag = V_NIL};
  for (;;) {
    const char *stop =
        left-- > 0 ? find_separator(at, (size_t)(end - at), sep) : NULL;
    reversed =
        vm_cons_text(vm, at, (size_t)((stop ? stop : end) - at), reversed);
    if (!stop)
      break;
    at = stop + sep->obj.len;
  }
  return vm_reversed(vm, reversed);
}

PRIM(prim_str_join) {
  UNUSED;
  const String *sep = AS_STRING(args[0]);
  uint64_t len = 0;
  bool first = true;
  for (Value v = args[1]; v.tag == V_CONS; v = AS_CONS(v)->tail) {
    len += AS_CONS(v)->head.obj->len + (first ? 0 : sep->obj.len);
    first = false;
  }
  if (len > UINT32_MAX - 64)
    trap_raise(FAIL_MEMORY);
  String *s = obj_new(&vm->heap, V_STRING, sizeof *s + len + 1, (uint32_t)len);
  char *to = s->text;
  first = true;
  for (Value v = args[1]; v.tag == V_CONS; v = AS_CONS(v)->tail) {
    if (!first) {
      memcpy(to, sep->text, sep->obj.len);
      to += sep->obj.len;
    }
    first = false;
    const String *part = AS_STRING(AS_CONS(v)->head);
    memcpy(to, part->text, part->obj.len);
    to += part->obj.len;
  }
  *to = 0;
  return value_obj(V_STRING, s);
}

PRIM(prim_str_bytes) {
  UNUSED;
  const String *s = AS_STRING(args[0]);
  int64_t len = s->obj.len;
  Fault fault = {0};
  Tensor *t = tensor_new(DT_U8, 1, &len, false, &fault);
  if (t)
    memcpy(t->data, s->text, (size_t)len);
  return vm_value_of_tensor(vm, t, &fault);
}

PRIM(prim_str_of_bytes) {
  UNUSED;
  const Tensor *t = vm_tensor(vm, args[0]);
  vm_check_file(vm, t);
  const char *text = t->data;
  size_t valid = utf8_valid_prefix(text, (size_t)t->count);
  if (valid < (size_t)t->count)
    vm_fail(vm, 509, "byte %zu of %lld, which is 0x%02x, is not UTF-8 text",
            valid, (long long)t->count, (unsigned char)text[valid]);
  return value_string(&vm->heap, text, valid);
}

PRIM(prim_to_string) {
  UNUSED;
  Buffer text = {0};
  vm_print(vm, &text, args[0], false);
  return vm_string_from_buffer(vm, &text);
}

static bool parse_number(bool is_integer, Dtype dtype, const String *s,
                         Value *out) {
  const char *text = s->text;
  char *end = NULL;
  errno = 0;
  if (!*text || strchr(" \t\n\v\f\r", *text))
    return false;
  if (is_integer) {
    const char *digits = text + (*text == '-' || *text == '+');
    bool hex = digits[0] == '0' && (digits[1] | 32) == 'x';
    *out = value_int(strtoll(text, &end, hex ? 16 : 10));
  } else {
    *out = value_scalar((Scalar){dtype, {.f = dtype_parse(dtype, text, &end)}});
    errno = 0;
  }
  return end && end == text + s->obj.len && errno != ERANGE;
}

/* Implements PARSE_INT and PARSE_FLOAT. */
PRIM(prim_parse) {
  UNUSED;
  Value r;
  bool is_integer = site->prim == PRIM_PARSE_INT;
  Dtype dtype = site->elem == DT_NONE ? DT_F32 : site->elem;
  if (!parse_number(is_integer, dtype, AS_STRING(args[0]), &r))
    vm_fail_at(vm, (Span){0}, 509,
               is_integer ? "`strings.to_int` returns None for such text"
                          : "`strings.to_float` returns None for such text",
               "\"%.60s\" is not %s", AS_STRING(args[0])->text,
               is_integer ? "an integer" : "a number");
  return r;
}

/* Implements IS_INT and IS_FLOAT. */
PRIM(prim_is_number) {
  UNUSED;
  (void)vm;
  Value ignored;
  return value_bool(parse_number(site->prim == PRIM_IS_INT, DT_F64,
                                 AS_STRING(args[0]), &ignored));
}

/* ---- format ---- */

typedef struct Directive {
  char spec[32]; /* such as "%5.2": without the letter */
  char letter;
} Directive;

/* Parses the directive after a %.  Returns the position after it. */
static const char *parse_directive(Eval *vm, const char *at, Directive *out) {
  const char *from = at;
  at += strspn(at, "-+ #0");
  at += strspn(at, "0123456789");
  if (*at == '.')
    at += 1 + strspn(at + 1, "0123456789");
  size_t len = (size_t)(at - from);
  if (!*at || !strchr("dfFeEgGsxXi%", *at) || len + 4 > sizeof out->spec)
    vm_fail(vm, 509, "format has no directive %%%.*s", (int)len + 1, from);
  out->spec[0] = '%';
  memcpy(out->spec + 1, from, len);
  out->spec[len + 1] = 0;
  out->letter = *at;
  return at + 1;
}

static void check_width(Eval *vm, const char *spec) {
  const char *digits = strpbrk(spec, "123456789");
  if (digits && strtol(digits, NULL, 10) > 10000)
    vm_fail(vm, 509, "format: the width is more than 10000");
  const char *dot = strchr(spec, '.');
  if (dot && strtol(dot + 1, NULL, 10) > 1000)
    vm_fail(vm, 509, "format: more than 1000 digits");
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void format_directive(Eval *vm, Buffer *out, Directive *d, Value v) {
  size_t len = strlen(d->spec);
  check_width(vm, d->spec);
  if (d->letter == 's') {
    Buffer text = {0};
    vm_print(vm, &text, v, false);
    vm_push_temp(vm, vm_string_from_buffer(vm, &text));
    const String *s = AS_STRING(vm->temps[vm->temp_count - 1]);
    size_t width = 0;
    const char *w = d->spec + 1;
    bool left = strchr(w, '-') != NULL;
    width = (size_t)strtol(w + strspn(w, "-+ #0"), NULL, 10);
    size_t columns = utf8_columns(s->text, s->obj.len);
    for (size_t i = columns; !left && i < width; i++)
      buffer_putc(out, ' ');
    buffer_add(out, s->text, s->obj.len);
    for (size_t i = columns; left && i < width; i++)
      buffer_putc(out, ' ');
    return;
  }
  if (!value_is_tensor(v) || (v.tag == V_NODE && v.node->rank))
    vm_fail(vm, 509, "format: %s%c needs a number", d->spec, d->letter);
  Value k = vm_concrete_scalar(vm, v);
  bool is_float = dtype_is_float((Dtype)k.tag);
  if (strchr("dixX", d->letter)) {
    if (is_float)
      vm_fail(vm, 509, "format: %s%c needs an integer", d->spec, d->letter);
    memcpy(d->spec + len, "ll", 2);
    d->spec[len + 2] = d->letter;
    d->spec[len + 3] = 0;
    buffer_printf(out, d->spec, (long long)k.i);
  } else {
    d->spec[len] = d->letter;
    d->spec[len + 1] = 0;
    buffer_printf(out, d->spec, is_float ? k.f : (double)k.i);
  }
}
#pragma GCC diagnostic pop

static void format_all(Eval *vm, Buffer *out, const char *text, Value *args,
                       uint32_t n) {
  uint32_t used = 0;
  while (*text) {
    size_t plain = strcspn(text, "%");
    buffer_add(out, text, plain);
    text += plain;
    if (!*text)
      break;
    Directive d;
    text = parse_directive(vm, text + 1, &d);
    if (d.letter == '%') {
      buffer_putc(out, '%');
      continue;
    }
    if (used == n)
      vm_fail(vm, 509, "format has more directives than values");
    format_directive(vm, out, &d, args[used++]);
  }
  if (used < n)
    vm_fail(vm, 509, "format has %u values and %u directives", n, used);
}

static uint32_t count_directives(const char *text) {
  uint32_t count = 0;
  for (; *text; text++) {
    if (*text != '%')
      continue;
    count += text[1] != '%';
    text += text[1] == '%';
  }
  return count;
}

static Value format_text(Eval *vm, const char *text, Value *args, uint32_t n) {
  Buffer out = {0};
  Trap trap;
  if (TRAP_SET(trap) == FAIL_NONE) {
    format_all(vm, &out, text, args, n);
    trap_end(&trap);
    return vm_string_from_buffer(vm, &out);
  }
  buffer_free(&out);
  trap_raise(trap.kind);
}

/* The pattern is the literal.  It may also be one of the arguments. */
PRIM(prim_format) {
  const char *text = site->literal;
  if (text && !(n == count_directives(text) + 1 && args[0].tag == V_STRING))
    return format_text(vm, text, args, n);
  return format_text(vm, AS_STRING(args[0])->text, args + 1, n - 1);
}
