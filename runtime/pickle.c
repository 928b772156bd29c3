/* The reader of pickles: a stack of values, and a memo of shared ones.  All
 * bytes are untrusted.  Each opcode makes at most one value, so that memory is
 * a multiple of the bytes read. */
#include "runtime/pickle.h"

#include <string.h>

enum {
  MIN_PROTOCOL = 2,
  MAX_PROTOCOL = 5,
  CHECK_EVERY_BYTES = 1 << 16,
  MEMORY_FACTOR = 2, /* more memory per byte than other headers need */
};

typedef enum Opcode {
  OP_MARK = '(',
  OP_STOP = '.',
  OP_POP = '0',
  OP_POP_MARK = '1',
  OP_BININT = 'J',
  OP_BININT1 = 'K',
  OP_BININT2 = 'M',
  OP_NONE = 'N',
  OP_BINPERSID = 'Q',
  OP_REDUCE = 'R',
  OP_BINSTRING = 'T',
  OP_SHORT_BINSTRING = 'U',
  OP_BINUNICODE = 'X',
  OP_EMPTY_LIST = ']',
  OP_APPEND = 'a',
  OP_BUILD = 'b',
  OP_GLOBAL = 'c',
  OP_APPENDS = 'e',
  OP_BINGET = 'h',
  OP_LONG_BINGET = 'j',
  OP_BINPUT = 'q',
  OP_LONG_BINPUT = 'r',
  OP_SETITEM = 's',
  OP_TUPLE = 't',
  OP_SETITEMS = 'u',
  OP_EMPTY_DICT = '}',
  OP_EMPTY_TUPLE = ')',
  OP_BINFLOAT = 'G',
  OP_BINBYTES = 'B',
  OP_SHORT_BINBYTES = 'C',
  OP_PROTO = 0x80,
  OP_NEWOBJ = 0x81,
  OP_TUPLE1 = 0x85,
  OP_TUPLE2 = 0x86,
  OP_TUPLE3 = 0x87,
  OP_NEWTRUE = 0x88,
  OP_NEWFALSE = 0x89,
  OP_LONG1 = 0x8a,
  OP_LONG4 = 0x8b,
  OP_SHORT_BINUNICODE = 0x8c,
  OP_BINUNICODE8 = 0x8d,
  OP_BINBYTES8 = 0x8e,
  OP_EMPTY_SET = 0x8f,
  OP_ADDITEMS = 0x90,
  OP_FROZENSET = 0x91,
  OP_NEWOBJ_EX = 0x92,
  OP_STACK_GLOBAL = 0x93,
  OP_MEMOIZE = 0x94,
  OP_FRAME = 0x95,
  OP_BYTEARRAY8 = 0x96,
} Opcode;

/* ---- parts ---- */

static bool damaged(const Pickle *p, Fault *fault) {
  return input_fault(p->in, fault, "its pickle is damaged at byte %zu",
                     (size_t)(p->at - p->begin));
}

static bool truncated(const Pickle *p, Fault *fault) {
  return input_fault(p->in, fault, "the file is truncated");
}

/* Reads an unsigned number, least significant byte first. */
static bool take_number(Pickle *p, size_t bytes, uint64_t *out, Fault *fault) {
  *out = 0;
  if (bytes > (size_t)(p->end - p->at))
    return truncated(p, fault);
  for (size_t i = 0; i < bytes; i++)
    *out |= (uint64_t)p->at[i] << (8 * i);
  p->at += bytes;
  return true;
}

static bool push(Pickle *p, PickleValue v) {
  VEC_PUSH(p->arena, p->stack, v);
  return true;
}

static bool push_int(Pickle *p, PickleKind kind, int64_t value) {
  return push(p, (PickleValue){.kind = (uint8_t)kind, .integer = value});
}

static uint32_t last_mark(const Pickle *p) {
  return p->marks.len ? p->marks.at[p->marks.len - 1] : 0;
}

/* Values below the last mark belong to an unfinished container. */
static bool pop(Pickle *p, PickleValue *out, Fault *fault) {
  if (p->stack.len <= last_mark(p))
    return damaged(p, fault);
  *out = p->stack.at[--p->stack.len];
  return true;
}

/* Removes the values above the last mark, and the mark.  They stay valid until
 * the next push. */
static bool pop_to_mark(Pickle *p, PickleItems *out, Fault *fault) {
  if (!p->marks.len)
    return damaged(p, fault);
  uint32_t first = p->marks.at[--p->marks.len];
  out->at = p->stack.at ? p->stack.at + first : NULL;
  out->len = p->stack.len - first;
  p->stack.len = first;
  return true;
}

/* ---- texts ---- */

static bool push_text(Pickle *p, PickleKind kind, size_t length_bytes,
                      Fault *fault) {
  uint64_t len;
  if (!take_number(p, length_bytes, &len, fault))
    return false;
  if (len > (uint64_t)(p->end - p->at) || len > UINT32_MAX)
    return truncated(p, fault);
  PickleValue v = {
      .kind = (uint8_t)kind, .len = (uint32_t)len, .text = (const char *)p->at};
  p->at += len;
  if (kind == PICKLE_LONG && len <= sizeof v.integer) {
    uint64_t bits = len && v.text[len - 1] < 0 ? UINT64_MAX : 0;
    for (size_t i = 0; i < len; i++) {
      bits &= ~((uint64_t)0xff << (8 * i));
      bits |= (uint64_t)(uint8_t)v.text[i] << (8 * i);
    }
    return push_int(p, PICKLE_INT, (int64_t)bits);
  }
  return push(p, v);
}

static bool take_line(Pickle *p, PickleValue *out, Fault *fault) {
  const uint8_t *end = memchr(p->at, '\n', (size_t)(p->end - p->at));
  if (!end || end - p->at > UINT16_MAX)
    return end ? damaged(p, fault) : truncated(p, fault);
  *out = (PickleValue){.kind = PICKLE_TEXT,
                       .len = (uint32_t)(end - p->at),
                       .text = (const char *)p->at};
  p->at = end + 1;
  return true;
}

bool pickle_is_text(const PickleValue *v, const char *text) {
  return v->kind == PICKLE_TEXT && v->len == strlen(text) &&
         memcmp(v->text, text, v->len) == 0;
}

/* ---- names and calls ---- */

static bool is_name(const char *name, const PickleValue *module,
                    const PickleValue *tail) {
  size_t len = strlen(name);
  return len == (size_t)module->len + 1 + tail->len &&
         memcmp(name, module->text, module->len) == 0 &&
         name[module->len] == '.' &&
         memcmp(name + module->len + 1, tail->text, tail->len) == 0;
}

/* Quotes what could disturb a terminal. */
static void printable(char *out, size_t size, const PickleValue *text) {
  size_t len = text->len < size - 1 ? text->len : size - 1;
  for (size_t i = 0; i < len; i++)
    out[i] = text->text[i] > ' ' && text->text[i] < 0x7f ? text->text[i] : '?';
  out[len] = 0;
}

static bool push_name(Pickle *p, const PickleValue *module,
                      const PickleValue *tail, Fault *fault) {
  char a[80], b[80];
  if (module->kind != PICKLE_TEXT || tail->kind != PICKLE_TEXT)
    return damaged(p, fault);
  for (size_t i = 0; i < p->name_count; i++)
    if (is_name(p->names[i], module, tail))
      return push(p, (PickleValue){.kind = PICKLE_NAME, .name = (uint16_t)i});
  printable(a, sizeof a, module);
  printable(b, sizeof b, tail);
  input_fault(p->in, fault,
              "it needs %s.%s of Python; Axon reads tensors, and runs no "
              "Python",
              a, b);
  fault_set_help(fault, "%s", p->wanted);
  return false;
}

static bool call(Pickle *p, Fault *fault) {
  PickleValue function = {0}, arguments = {0};
  if (!pop(p, &arguments, fault) || !pop(p, &function, fault))
    return false;
  if (function.kind != PICKLE_NAME || arguments.kind != PICKLE_TUPLE)
    return damaged(p, fault);
  PickleCall *c = NEW(p->arena, PickleCall);
  c->arguments = *arguments.items;
  return push(
      p, (PickleValue){.kind = PICKLE_CALL, .name = function.name, .call = c});
}

static bool push_stored(Pickle *p, Fault *fault) {
  PickleValue id;
  if (!pop(p, &id, fault))
    return false;
  if (id.kind != PICKLE_TUPLE)
    return damaged(p, fault);
  VEC_PUSH(p->arena, p->stored, id);
  return push(p,
              (PickleValue){.kind = PICKLE_STORED, .len = p->stored.len - 1});
}

/* ---- containers ---- */

static bool push_items(Pickle *p, PickleKind kind, const PickleItems *items) {
  PickleItems *own = NEW(p->arena, PickleItems);
  if (items && items->len) {
    own->at = NEW_ARRAY(p->arena, PickleValue, items->len);
    own->len = own->cap = items->len;
    memcpy(own->at, items->at, sizeof *own->at * items->len);
  }
  return push(p, (PickleValue){.kind = (uint8_t)kind, .items = own});
}

static bool push_marked(Pickle *p, PickleKind kind, Fault *fault) {
  PickleItems items;
  return pop_to_mark(p, &items, fault) && push_items(p, kind, &items);
}

static bool push_tuple(Pickle *p, uint32_t count, Fault *fault) {
  PickleValue at[3];
  for (uint32_t i = count; i-- > 0;)
    if (!pop(p, &at[i], fault))
      return false;
  return push_items(p, PICKLE_TUPLE, &(PickleItems){.at = at, .len = count});
}

/* Adds items to the container of this kind on the stack: pairs for a
 * dictionary. */
static bool add_items(Pickle *p, const PickleItems *items, PickleKind kind,
                      Fault *fault) {
  bool pairs = kind == PICKLE_DICT;
  if (p->stack.len <= last_mark(p) || (pairs && items->len % 2))
    return damaged(p, fault);
  const PickleValue *top = &p->stack.at[p->stack.len - 1];
  PickleItems *to = NULL;
  if (top->kind == kind)
    to = top->items;
  else if (top->kind != PICKLE_CALL)
    return damaged(p, fault);
  else if (pairs)
    to = &top->call->items;
  else
    return true; /* such as a deque, whose items nobody reads */
  for (uint32_t i = 0; i < items->len; i++)
    VEC_PUSH(p->arena, *to, items->at[i]);
  return true;
}

static bool add_marked(Pickle *p, PickleKind kind, Fault *fault) {
  PickleItems items;
  return pop_to_mark(p, &items, fault) && add_items(p, &items, kind, fault);
}

static bool add_popped(Pickle *p, uint32_t count, PickleKind kind,
                       Fault *fault) {
  PickleValue at[2];
  for (uint32_t i = count; i-- > 0;)
    if (!pop(p, &at[i], fault))
      return false;
  return add_items(p, &(PickleItems){.at = at, .len = count}, kind, fault);
}

/* ---- the memo ---- */

/* Each index has an opcode that sets it, so that it is below the number of
 * bytes read. */
static bool put(Pickle *p, uint64_t index, Fault *fault) {
  if (index >= (uint64_t)(p->at - p->begin) || p->stack.len <= last_mark(p))
    return damaged(p, fault);
  PickleValue top = p->stack.at[p->stack.len - 1];
  PickleValue none = {.kind = UINT8_MAX};
  while (p->memo.len <= index)
    VEC_PUSH(p->arena, p->memo, none);
  p->memo.at[index] = top;
  return true;
}

static bool get(Pickle *p, uint64_t index, Fault *fault) {
  if (index >= p->memo.len || p->memo.at[index].kind == UINT8_MAX)
    return damaged(p, fault);
  return push(p, p->memo.at[index]);
}

/* ---- opcodes ---- */

static bool push_float(Pickle *p, Fault *fault) {
  uint64_t bits;
  PickleValue v = {.kind = PICKLE_FLOAT};
  if (!take_number(p, sizeof bits, &bits, fault))
    return false;
  bits = __builtin_bswap64(bits); /* most significant byte first */
  memcpy(&v.number, &bits, sizeof bits);
  return push(p, v);
}

static bool read_protocol(Pickle *p, Fault *fault) {
  uint64_t version;
  if (!take_number(p, 1, &version, fault))
    return false;
  if (version >= MIN_PROTOCOL && version <= MAX_PROTOCOL)
    return true;
  input_fault(p->in, fault, "its pickle has protocol %u; Axon reads %d to %d",
              (unsigned)version, MIN_PROTOCOL, MAX_PROTOCOL);
  fault_set_help(fault, "%s", p->wanted);
  return false;
}

static bool run_atom(Pickle *p, Opcode op, Fault *fault) {
  uint64_t n = 0;
  switch ((unsigned)op) {
  case OP_NONE:
    return push_int(p, PICKLE_NONE, 0);
  case OP_NEWTRUE:
  case OP_NEWFALSE:
    return push_int(p, PICKLE_BOOL, op == OP_NEWTRUE);
  case OP_BININT:
    return take_number(p, 4, &n, fault) &&
           push_int(p, PICKLE_INT, (int32_t)(uint32_t)n);
  case OP_BININT1:
  case OP_BININT2:
    return take_number(p, op == OP_BININT1 ? 1 : 2, &n, fault) &&
           push_int(p, PICKLE_INT, (int64_t)n);
  case OP_LONG1:
  case OP_LONG4:
    return push_text(p, PICKLE_LONG, op == OP_LONG1 ? 1 : 4, fault);
  case OP_BINFLOAT:
    return push_float(p, fault);
  case OP_SHORT_BINSTRING:
  case OP_SHORT_BINUNICODE:
    return push_text(p, PICKLE_TEXT, 1, fault);
  case OP_BINSTRING:
  case OP_BINUNICODE:
    return push_text(p, PICKLE_TEXT, 4, fault);
  case OP_BINUNICODE8:
    return push_text(p, PICKLE_TEXT, 8, fault);
  case OP_SHORT_BINBYTES:
    return push_text(p, PICKLE_BYTES, 1, fault);
  case OP_BINBYTES:
    return push_text(p, PICKLE_BYTES, 4, fault);
  case OP_BINBYTES8:
  case OP_BYTEARRAY8:
    return push_text(p, PICKLE_BYTES, 8, fault);
  }
  p->at--;
  input_fault(p->in, fault,
              "its pickle has the opcode 0x%02x at byte %zu, which Axon does "
              "not read",
              (unsigned)op, (size_t)(p->at - p->begin));
  fault_set_help(fault, "%s", p->wanted);
  return false;
}

static bool run_container(Pickle *p, Opcode op, Fault *fault) {
  switch ((unsigned)op) {
  case OP_EMPTY_LIST:
    return push_items(p, PICKLE_LIST, NULL);
  case OP_EMPTY_TUPLE:
    return push_items(p, PICKLE_TUPLE, NULL);
  case OP_EMPTY_DICT:
    return push_items(p, PICKLE_DICT, NULL);
  case OP_TUPLE:
    return push_marked(p, PICKLE_TUPLE, fault);
  case OP_EMPTY_SET:
    return push_items(p, PICKLE_SET, NULL);
  case OP_FROZENSET:
    return push_marked(p, PICKLE_SET, fault);
  case OP_TUPLE1:
  case OP_TUPLE2:
  case OP_TUPLE3:
    return push_tuple(p, (uint32_t)op - OP_TUPLE1 + 1, fault);
  case OP_APPEND:
    return add_popped(p, 1, PICKLE_LIST, fault);
  case OP_SETITEM:
    return add_popped(p, 2, PICKLE_DICT, fault);
  case OP_APPENDS:
    return add_marked(p, PICKLE_LIST, fault);
  case OP_SETITEMS:
    return add_marked(p, PICKLE_DICT, fault);
  case OP_ADDITEMS:
    return add_marked(p, PICKLE_SET, fault);
  }
  return run_atom(p, op, fault);
}

static bool run(Pickle *p, Opcode op, Fault *fault) {
  uint64_t n = 0;
  PickleValue a = {0}, b = {0};
  PickleItems items;
  switch ((unsigned)op) {
  case OP_PROTO:
    return read_protocol(p, fault);
  case OP_FRAME:
    return take_number(p, 8, &n, fault);
  case OP_MARK:
    VEC_PUSH(p->arena, p->marks, p->stack.len);
    return true;
  case OP_POP_MARK:
    return pop_to_mark(p, &items, fault);
  case OP_POP:
  case OP_BUILD: /* attributes, such as the versions of modules */
    return pop(p, &a, fault);
  case OP_BINPUT:
  case OP_LONG_BINPUT:
    return take_number(p, op == OP_BINPUT ? 1 : 4, &n, fault) &&
           put(p, n, fault);
  case OP_MEMOIZE:
    return put(p, p->memo.len, fault);
  case OP_BINGET:
  case OP_LONG_BINGET:
    return take_number(p, op == OP_BINGET ? 1 : 4, &n, fault) &&
           get(p, n, fault);
  case OP_GLOBAL:
    return take_line(p, &a, fault) && take_line(p, &b, fault) &&
           push_name(p, &a, &b, fault);
  case OP_STACK_GLOBAL:
    return pop(p, &b, fault) && pop(p, &a, fault) &&
           push_name(p, &a, &b, fault);
  case OP_REDUCE:
  case OP_NEWOBJ:
    return call(p, fault);
  case OP_NEWOBJ_EX: /* with named arguments */
    return pop(p, &a, fault) && call(p, fault);
  case OP_BINPERSID:
    return push_stored(p, fault);
  }
  return run_container(p, op, fault);
}

static bool check_size(Pickle *p, Fault *fault) {
  size_t bytes = (size_t)(p->at - p->begin);
  if (bytes < p->checked_bytes + CHECK_EVERY_BYTES)
    return true;
  p->checked_bytes = bytes;
  return input_check_header_size(p->in, bytes * MEMORY_FACTOR, fault);
}

bool pickle_read(Pickle *p, PickleValue *out, Fault *fault) {
  p->begin = p->at;
  while (check_size(p, fault)) {
    uint64_t op;
    if (!take_number(p, 1, &op, fault))
      return false;
    if (op == OP_STOP)
      return pop(p, out, fault);
    if (!run(p, (Opcode)op, fault))
      return false;
  }
  return false;
}
