/* Primitives of the modules gguf, tokenizer and serve. */
#include "eval/internal.h"
#include "runtime/gguf.h"
#include "runtime/tokenizer.h"
#include "support/buffer.h"
#include "support/mem.h"
#include "support/utf8.h"

#include <string.h>

#define PRIM(name) \
  Value name(Eval *vm, const PrimSite *site, Value *args, uint32_t n)
#define UNUSED (void)site, (void)n

/* ---- gguf ---- */

static Gguf *open_gguf(Eval *vm, Value path) {
  Fault fault = {0};
  vm_check_no_nul(vm, path);
  Gguf *file = gguf_open(AS_STRING(path)->text, &fault);
  if (!file)
    vm_fail_file(vm, &fault);
  return file;
}

static Value cons_utf8(Eval *vm, GgufText text, Value list) {
  if (utf8_valid_prefix(text.text, text.len) < text.len ||
      text.len > UINT32_MAX - 64) {
    vm_push_temp(vm, list);
    vm_fail(vm, 508, "the metadata contain text that is not UTF-8");
  }
  return vm_cons_text(vm, text.text, text.len, list);
}

static Value keys_of(Eval *vm, const Gguf *file) {
  size_t count;
  const GgufValue *values = gguf_values(file, &count);
  Value list = {.tag = V_NIL};
  for (size_t i = 0; i < count; i++)
    list = cons_utf8(vm, values[i].key, list);
  return vm_reversed(vm, list);
}

static Value texts_of(Eval *vm, const GgufValue *v) {
  Value list = {.tag = V_NIL};
  const uint8_t *at = v->at;
  for (uint64_t i = 0; i < v->count; i++) {
    if (v->type == GGUF_STRING) {
      list = cons_utf8(vm, gguf_next_text(&at), list);
      continue;
    }
    Buffer number = {0};
    vm_push_temp(vm, list);
    scalar_print(&number, gguf_next_number(&at, v->type));
    Value item = vm_string_from_buffer(vm, &number);
    vm->temp_count--;
    list = vm_cons(vm, item, list);
  }
  return vm_reversed(vm, list);
}

/* The keys of a file, or the items of one value; no item if it has no key. */
static Value read_metadata(Eval *vm, Value path, const char *key) {
  Gguf *file = open_gguf(vm, path);
  Trap trap;
  if (TRAP_SET(trap) == FAIL_NONE) {
    const GgufValue *v = key ? gguf_find(file, key) : NULL;
    Value r = {.tag = V_NIL};
    if (!key)
      r = keys_of(vm, file);
    else if (v)
      r = texts_of(vm, v);
    trap_end(&trap);
    gguf_close(file);
    return r;
  }
  gguf_close(file);
  trap_raise(trap.kind);
}

PRIM(prim_gguf_keys) {
  UNUSED;
  vm_check_effect_allowed(vm, "gguf.keys");
  return read_metadata(vm, args[0], NULL);
}

PRIM(prim_gguf_values) {
  UNUSED;
  vm_check_effect_allowed(vm, "gguf.values");
  return read_metadata(vm, args[0], AS_STRING(args[1])->text);
}

PRIM(prim_gguf_type) {
  UNUSED;
  vm_check_effect_allowed(vm, "gguf.tensor_type");
  Gguf *file = open_gguf(vm, args[0]);
  /* The name is in a table, not in the file. */
  const char *type = gguf_tensor_type(file, AS_STRING(args[1])->text);
  gguf_close(file);
  Buffer text = {0};
  buffer_puts(&text, type);
  return vm_string_from_buffer(vm, &text);
}

static size_t count_items(Value list) {
  size_t count = 0;
  for (; list.tag == V_CONS; list = AS_CONS(list)->tail)
    count++;
  return count;
}

static Value read_tiles(Eval *vm, Dtype dtype, Value path, int64_t layers,
                        Value list) {
  Fault fault = {0};
  GgufTiles t = {0};
  size_t count = count_items(list), i = 0;
  vm_check_no_nul(vm, path);
  const char **names = mem_alloc(sizeof *names * (count + 1));
  for (; list.tag == V_CONS; list = AS_CONS(list)->tail)
    names[i++] = AS_STRING(AS_CONS(list)->head)->text;
  Gguf *file = gguf_open(AS_STRING(path)->text, &fault);
  bool ok = file && gguf_tiles(file, count, names, layers, dtype, &t, &fault);
  if (file)
    gguf_close(file);
  mem_free(names);
  if (!ok)
    vm_fail_file(vm, &fault);
  Value r = vm_new_tuple(vm, 3), *at = AS_ARRAY(r)->at;
  at[0] = vm_value_of_tensor(vm, t.scale, &fault);
  at[1] = vm_value_of_tensor(vm, t.least, &fault);
  at[2] = vm_value_of_tensor(vm, t.q, &fault);
  return value_retain(r);
}

PRIM(prim_gguf_tiles) {
  UNUSED;
  vm_check_effect_allowed(vm, "gguf.tiles");
  return read_tiles(vm, site->elem, args[0], 0, args[1]);
}

PRIM(prim_gguf_layers) {
  UNUSED;
  vm_check_effect_allowed(vm, "gguf.layers");
  int64_t layers = vm_int(vm, args[1]);
  if (layers < 1)
    vm_fail(vm, 509, "a model has at least one layer");
  return read_tiles(vm, site->elem, args[0], layers, args[2]);
}

/* ---- tokenizer ---- */

NORETURN static void fail_tokens(Eval *vm, const Fault *fault) {
  vm_fail_at(vm, (Span){0}, 509, fault->help, "%s", fault->message);
}

PRIM(prim_tokenizer_open) {
  UNUSED;
  Fault fault = {0};
  vm_check_effect_allowed(vm, "tokenizer.read");
  vm_check_no_nul(vm, args[0]);
  int64_t id = tokenizer_open(AS_STRING(args[0])->text, &fault);
  if (id < 0)
    vm_fail_file(vm, &fault);
  return value_int(id);
}

PRIM(prim_tokenizer_ids) {
  UNUSED;
  Fault fault = {0};
  TokenIds ids = {0};
  const String *text = AS_STRING(args[2]);
  if (!tokenizer_encode(vm_int(vm, args[0]), text->text, text->obj.len,
                        vm_bool(vm, args[1]), &ids, &fault))
    fail_tokens(vm, &fault);
  int64_t count = (int64_t)ids.count;
  Tensor *t = tensor_new(DT_I64, 1, &count, false, &fault);
  if (t && count)
    memcpy(t->data, ids.at, ids.count * sizeof *ids.at);
  mem_free(ids.at);
  return vm_value_of_tensor(vm, t, &fault);
}

PRIM(prim_tokenizer_text) {
  UNUSED;
  Fault fault = {0};
  Buffer text = {0};
  const Tensor *t = vm_tensor(vm, args[2]);
  vm_check_file(vm, t);
  if (!tokenizer_decode(vm_int(vm, args[0]), t->data, (size_t)t->count,
                        vm_bool(vm, args[1]), &text, &fault))
    fail_tokens(vm, &fault);
  return vm_string_from_buffer(vm, &text);
}

PRIM(prim_tokenizer_token) {
  UNUSED;
  Fault fault = {0};
  Buffer text = {0};
  if (!tokenizer_token(vm_int(vm, args[0]), vm_int(vm, args[1]), &text, &fault))
    fail_tokens(vm, &fault);
  return vm_string_from_buffer(vm, &text);
}

PRIM(prim_tokenizer_find) {
  UNUSED;
  Fault fault = {0};
  int64_t token;
  const String *text = AS_STRING(args[1]);
  if (!tokenizer_find(vm_int(vm, args[0]), text->text, text->obj.len, &token,
                      &fault))
    fail_tokens(vm, &fault);
  return value_int(token);
}

PRIM(prim_tokenizer_count) {
  UNUSED;
  Fault fault = {0};
  int64_t size;
  if (!tokenizer_size(vm_int(vm, args[0]), &size, &fault))
    fail_tokens(vm, &fault);
  return value_int(size);
}

/* ---- serve ---- */

/* A vector, or a matrix if `columns` is not negative. */
static Value new_tensor(Eval *vm, Dtype dtype, int64_t rows, int64_t columns,
                        const void *from) {
  Fault fault = {0};
  int64_t shape[] = {rows, columns};
  Tensor *t = tensor_new(dtype, columns < 0 ? 1 : 2, shape, false, &fault);
  if (t && t->count)
    memcpy(t->data, from, (size_t)t->count * dtype_info[dtype].bytes);
  return vm_value_of_tensor(vm, t, &fault);
}

NORETURN static void fail_no_server(Eval *vm) {
  vm_fail(vm, 501, "only `axon serve` has requests");
}

PRIM(prim_serve_next) {
  UNUSED;
  ServeStep s;
  vm_check_effect_allowed(vm, "serve.next");
  if (!vm->host->next_step)
    fail_no_server(vm);
  const Tensor *chosen = vm_tensor(vm, args[0]);
  vm->host->next_step(vm->host->owner, chosen->data, chosen->count, &s);
  Value r = vm_new_tuple(vm, 7), *at = AS_ARRAY(r)->at;
  at[0] = new_tensor(vm, DT_I64, s.tokens, 3, s.at_token);
  at[1] = new_tensor(vm, DT_I64, s.tokens, s.pages, s.tables);
  at[2] = new_tensor(vm, DT_I64, s.texts, -1, s.last);
  at[3] = new_tensor(vm, DT_I64, s.cleared, -1, s.pages_cleared);
  at[4] = new_tensor(vm, DT_F32, s.texts, 5, s.choices);
  at[5] = new_tensor(vm, DT_I64, s.texts, 3, s.at_text);
  at[6] = new_tensor(vm, DT_I64, s.seen, -1, s.tokens_seen);
  return value_retain(r);
}

PRIM(prim_serve_next_texts) {
  UNUSED;
  ServeTexts s;
  vm_check_effect_allowed(vm, "serve.next_texts");
  if (!vm->host->next_texts)
    fail_no_server(vm);
  const Tensor *rows = vm_tensor(vm, args[0]);
  vm_check_file(vm, rows);
  vm->host->next_texts(vm->host->owner, rows->data, rows->shape[0],
                       rows->shape[1], &s);
  Value r = vm_new_tuple(vm, 2), *at = AS_ARRAY(r)->at;
  at[0] = new_tensor(vm, DT_I64, s.tokens, -1, s.ids);
  at[1] = new_tensor(vm, DT_I64, s.texts, 2, s.spans);
  return value_retain(r);
}
