/* Primitives on the characters of strings, and on text files. */
#define _GNU_SOURCE /* locale.h: newlocale */
#include "eval/internal.h"
#include "runtime/replace.h"
#include "support/buffer.h"
#include "support/file_open.h"
#include "support/flag.h"
#include "support/similar_file.h"
#include "support/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wctype.h>

#define PRIM(name) \
  Value name(Eval *vm, const PrimSite *site, Value *args, uint32_t n)
#define UNUSED (void)site, (void)n

/* ---- characters ---- */

static bool continues(char byte) {
  return ((unsigned char)byte & 0xc0) == 0x80;
}

/* The start of the character after the one at `at`. */
static const char *next_char(const char *at, const char *end) {
  for (at++; at < end && continues(*at);)
    at++;
  return at;
}

static const char *end_of(const String *s) {
  return s->text + s->obj.len;
}

/* The code point of the character at..next, or -1. */
static int32_t code_point(const char *at, const char *next) {
  size_t len = (size_t)(next - at);
  unsigned char first = (unsigned char)*at;
  if (len == 1)
    return first < 0x80 ? first : -1;
  if (utf8_valid_prefix(at, len) < len)
    return -1;
  int32_t code = first & (0x7f >> len);
  while (++at < next)
    code = code << 6 | ((unsigned char)*at & 0x3f);
  return code;
}

static bool put_code_point(Buffer *out, int64_t code) {
  if (code < 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
    return false;
  if (code < 0x80) {
    buffer_putc(out, (char)code);
    return true;
  }
  int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  buffer_putc(out, (char)(0xff00 >> (more + 1) | code >> 6 * more));
  while (more-- > 0)
    buffer_putc(out, (char)(0x80 | (code >> 6 * more & 0x3f)));
  return true;
}

PRIM(prim_str_slice) {
  UNUSED;
  const String *s = AS_STRING(args[2]);
  int64_t from = vm_int(vm, args[0]), to = vm_int(vm, args[1]), k = 0;
  const char *start = NULL, *stop = NULL, *end = end_of(s);
  for (const char *at = s->text;; at = next_char(at, end), k++) {
    start = k == from ? at : start;
    stop = k == to ? at : stop;
    if (at == end || stop)
      break;
  }
  if (!start || !stop)
    vm_fail(vm, 509,
            "strings.slice %lld %lld is not a range of the characters of the "
            "string: there are %lld",
            (long long)from, (long long)to,
            (long long)prim_str_length(vm, site, &args[2], 1).i);
  return value_string(&vm->heap, start, (size_t)(stop - start));
}

PRIM(prim_str_chars) {
  UNUSED;
  const char *at = AS_STRING(args[0])->text, *end = end_of(AS_STRING(args[0]));
  Value list = {.tag = V_NIL};
  for (const char *next; at < end; at = next) {
    next = next_char(at, end);
    list = vm_cons_text(vm, at, (size_t)(next - at), list);
  }
  return vm_reversed(vm, list);
}

PRIM(prim_str_codes) {
  UNUSED;
  const char *at = AS_STRING(args[0])->text, *end = end_of(AS_STRING(args[0]));
  int64_t count = 0;
  Fault fault = {0};
  for (const char *c = at; c < end; c = next_char(c, end))
    count++;
  Tensor *t = tensor_new(DT_I64, 1, &count, false, &fault);
  int64_t *out = t ? t->data : NULL;
  for (const char *next; t && at < end; at = next) {
    next = next_char(at, end);
    int32_t code = code_point(at, next);
    if (code < 0) {
      tensor_release(t);
      vm_fail(vm, 509, "byte 0x%02x of the string is not UTF-8 text",
              (unsigned char)*at);
    }
    *out++ = code;
  }
  return vm_value_of_tensor(vm, t, &fault);
}

PRIM(prim_str_of_codes) {
  UNUSED;
  const Tensor *t = vm_tensor(vm, args[0]);
  vm_check_file(vm, t);
  const int64_t *codes = t->data;
  Buffer out = {0};
  for (int64_t i = 0; i < t->count; i++)
    if (!put_code_point(&out, codes[i])) {
      buffer_free(&out);
      vm_fail(vm, 509, "%lld is not the code point of a character",
              (long long)codes[i]);
    }
  return vm_string_from_buffer(vm, &out);
}

/* ---- classes and cases of characters, by Unicode ---- */

static locale_t unicode(Eval *vm) {
  static locale_t locale;
  if (!locale)
    locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL);
  if (!locale)
    vm_fail(vm, 509, "the C library has no locale C.UTF-8");
  return locale;
}

static bool is_space(Eval *vm, const char *at, const char *next) {
  int32_t code = code_point(at, next);
  return code >= 0 && iswspace_l((wint_t)code, unicode(vm));
}

PRIM(prim_str_trim) {
  UNUSED;
  const char *at = AS_STRING(args[0])->text, *end = end_of(AS_STRING(args[0]));
  const char *start = NULL, *stop = at;
  for (const char *next; at < end; at = next) {
    next = next_char(at, end);
    if (is_space(vm, at, next))
      continue;
    start = start ? start : at;
    stop = next;
  }
  return value_string(&vm->heap, start ? start : stop,
                      start ? (size_t)(stop - start) : 0);
}

PRIM(prim_str_words) {
  UNUSED;
  const char *at = AS_STRING(args[0])->text, *end = end_of(AS_STRING(args[0]));
  const char *start = NULL;
  Value list = {.tag = V_NIL};
  for (const char *next; at < end; at = next) {
    next = next_char(at, end);
    bool space = is_space(vm, at, next);
    if (space && start)
      list = vm_cons_text(vm, start, (size_t)(at - start), list);
    start = space ? NULL : start ? start : at;
  }
  if (start)
    list = vm_cons_text(vm, start, (size_t)(end - start), list);
  return vm_reversed(vm, list);
}

/* Implements STR_UPPER and STR_LOWER: the simple mapping of each code point. */
PRIM(prim_str_case) {
  UNUSED;
  const char *at = AS_STRING(args[0])->text, *end = end_of(AS_STRING(args[0]));
  locale_t locale = unicode(vm);
  Buffer out = {0};
  for (const char *next; at < end; at = next) {
    next = next_char(at, end);
    int32_t code = code_point(at, next);
    if (code < 0)
      buffer_add(&out, at, (size_t)(next - at));
    else
      put_code_point(&out, site->prim == PRIM_STR_UPPER
                               ? towupper_l((wint_t)code, locale)
                               : towlower_l((wint_t)code, locale));
  }
  return vm_string_from_buffer(vm, &out);
}

/* ---- text files ---- */

NORETURN static void fail_path(Eval *vm, const char *path, const char *what) {
  int error = errno;
  vm_poll_interrupt(vm);
  char help[PATH_MAX];
  bool is_similar =
      error == ENOENT && similar_file_help(path, help, sizeof help);
  vm_fail_at(vm, (Span){0}, 508,
             is_similar        ? help
             : error == ENOENT ? "paths are relative to the working directory"
                               : NULL,
             "%s cannot be %s: %s", path, what, file_open_error(error));
}

/* Takes the buffer. */
static Value checked_text(Eval *vm, Buffer *text, const char *path) {
  size_t len = text->len, valid = utf8_valid_prefix(text->text, len);
  unsigned char byte = valid < len ? (unsigned char)text->text[valid] : 0;
  if (valid == len && len <= UINT32_MAX - 64)
    return vm_string_from_buffer(vm, text);
  buffer_free(text);
  if (valid == len)
    vm_fail(vm, 508, "%s is larger than a string can be: 4 GiB", path);
  vm_fail_at(
      vm, (Span){0}, 508, "`load` reads the bytes of a .txt or .bin file",
      "byte %zu of %s, which is 0x%02x, is not UTF-8 text", valid, path, byte);
}

static bool read_all(int fd, Buffer *out) {
  static const size_t step = 1 << 16;
  for (;;) {
    char part[1 << 16];
    ssize_t len = read(fd, part, step);
    if (len < 0 && errno == EINTR)
      continue;
    if (len <= 0)
      return len == 0;
    buffer_add(out, part, (size_t)len);
    if (out->len > UINT32_MAX) /* longer than a string can be */
      return true;
  }
}

PRIM(prim_read_text) {
  UNUSED;
  vm_check_effect_allowed(vm, "read_text");
  vm_check_no_nul(vm, args[0]);
  const char *path = AS_STRING(args[0])->text;
  int fd = file_open_stream(path);
  if (fd < 0)
    fail_path(vm, path, "read");
  Buffer out = {0};
  bool ok = read_all(fd, &out);
  int error = errno;
  close(fd);
  if (!ok) {
    buffer_free(&out);
    errno = error;
    fail_path(vm, path, "read");
  }
  return checked_text(vm, &out, path);
}

/* Reads a line of standard input.  Returns the byte behind it, or EOF. */
static int read_line(Eval *vm, Buffer *out) {
  for (;;) {
    int c = getc(stdin);
    if (c == EOF && ferror(stdin) && errno == EINTR &&
        !flag_is_set(vm->interrupt)) /* a deferred interrupt */
      clearerr(stdin);
    else if (c == EOF || c == '\n')
      return c;
    else
      buffer_putc(out, (char)c);
  }
}

/* The next line of standard input, as a list; an empty list at its end. */
PRIM(prim_input_line) {
  UNUSED;
  (void)args;
  vm_check_effect_allowed(vm, "input_line");
  Buffer out = {0};
  int c = read_line(vm, &out), error = errno;
  if (flag_is_set(vm->interrupt) || (c == EOF && ferror(stdin))) {
    buffer_free(&out);
    clearerr(stdin);
    errno = error;
    fail_path(vm, "standard input", "read");
  }
  if (c == EOF && !out.len)
    return (Value){.tag = V_NIL};
  Value line = checked_text(vm, &out, "standard input");
  vm_push_temp(vm, line);
  Value list = value_cons(&vm->heap, line, (Value){.tag = V_NIL});
  vm->temp_count--;
  return list;
}

PRIM(prim_write_text) {
  UNUSED;
  if (!vm_may_write(vm, "write_text"))
    return value_unit();
  vm_check_no_nul(vm, args[0]);
  const String *s = AS_STRING(args[1]);
  const char *path = AS_STRING(args[0])->text;
  if (vm_writes_files(vm) && !replace_file(path, 0666, s->text, s->obj.len))
    fail_path(vm, path, "written");
  return value_unit();
}

PRIM(prim_append_text) {
  UNUSED;
  if (!vm_may_write(vm, "append_text"))
    return value_unit();
  vm_check_no_nul(vm, args[0]);
  if (!vm_writes_files(vm))
    return value_unit();
  const String *s = AS_STRING(args[1]);
  const char *path = AS_STRING(args[0])->text;
  int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  Replacement r = {.fd = fd}; /* for replace_write, which writes all bytes */
  bool ok = fd >= 0 && replace_write(&r, s->text, s->obj.len);
  int error = errno;
  if (fd >= 0 && close(fd) != 0 && ok) {
    ok = false;
    error = errno;
  }
  errno = error;
  if (!ok)
    fail_path(vm, path, "written");
  return value_unit();
}
