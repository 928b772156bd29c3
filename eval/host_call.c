/* Calls from a host program: converts host values to values, runs a function,
 * and converts its result to host values.  The main entry point is
 * eval_call_host_entry. */
#include "eval/internal.h"
#include "support/arena.h"
#include "support/buffer.h"
#include "support/diag.h"
#include "support/intern.h"
#include "support/mem.h"

#include <string.h>

struct HostEntry {
  const Code *code;
  Global *arg_globals; /* globals from which the code reads the arguments */
  uint32_t count;
};

/* ---- entries ---- */

static Value implicit_arg_value(const ImplicitArg *h) {
  if (h->kind == IMPLICIT_ELEM)
    return (Value){.tag = V_DTYPE, .i = elem_default_dtype(h->elem.var)};
  /* Read off the arguments; an error only if it is needed. */
  return value_unit();
}

HostEntry *eval_host_entry_new(Eval *vm, const CoreDec *dec, uint32_t count) {
  define_functions(vm, dec);
  HostEntry *entry = NEW(vm->arena, HostEntry);
  entry->arg_globals = NEW_ARRAY(vm->arena, Global, count);
  entry->count = count;
  const Core *f = dec->items[0];
  uint32_t hidden = f->kind == CORE_TLAM ? f->implicit_count : 0;
  BytecodeEmitter e = {.vm = vm};
  for (uint32_t i = 0; i < hidden; i++)
    emit_push_constant(&e, implicit_arg_value(&f->implicits[i]));
  for (uint32_t i = 0; i < count; i++)
    emit_ptr(&e, OP_LOAD_GLOBAL, 0, 0, 0, 1, &entry->arg_globals[i]);
  uint32_t total_args = hidden + count;
  emit_ptr(&e, OP_CALL_CODE, total_args, 0, 0, 1 - (int)total_args,
           global_of(vm, dec->vars[0])->code);
  emit(&e, OP_RETURN, 0, 0, 0, 0);
  Code *code = code_new(vm, 0, NULL);
  emit_finish(&e, code);
  entry->code = code;
  return entry;
}

/* ---- host values to values ---- */

typedef struct HostCall {
  Eval *vm;
  Tensor **borrowed; /* tensors over borrowed data of arguments, until the end
                        of the call */
  size_t borrowed_count, borrowed_cap;
  Dtype weak_dtype; /* type of weak numbers; DT_NONE: each number's own type */
  HostValue *result;
} HostCall;

static Value borrow_tensor(HostCall *call, const Tensor *t) {
  if (call->borrowed_count == call->borrowed_cap) {
    size_t cap = call->borrowed_cap ? call->borrowed_cap * 2 : 8;
    call->borrowed =
        mem_realloc(call->borrowed, call->borrowed_cap * sizeof *call->borrowed,
                    cap * sizeof *call->borrowed);
    call->borrowed_cap = cap;
  }
  Tensor *borrowed = tensor_borrow(t->dtype, t->rank, t->shape, t->data);
  if (!borrowed)
    trap_raise(FAIL_MEMORY);
  call->borrowed[call->borrowed_count++] = borrowed;
  return value_node(
      vm_temp_node(call->vm, node_data(&call->vm->graph, borrowed)));
}

/* Returns a temporary, or a value that needs no reference. */
static Value value_from_host(HostCall *call, const HostValue *d);

static Value list_from_host(HostCall *call, const HostValue *d) {
  Eval *vm = call->vm;
  size_t list = vm->temp_count;
  vm_push_temp(vm, (Value){.tag = V_NIL});
  for (uint32_t i = d->len; i--;) {
    Value head = value_from_host(call, d->items[i]);
    Cons *cons = obj_new(&vm->heap, V_CONS, sizeof *cons, 0);
    cons->head = value_retain(head);
    cons->tail = vm->temps[list];
    vm->temps[list] = value_obj(V_CONS, cons);
    vm_drop_temps(vm, list + 1);
  }
  return vm->temps[list];
}

static Value record_from_host(HostCall *call, const HostValue *d) {
  Eval *vm = call->vm;
  Sym **labels = vm_scratch(vm, d->len * sizeof *labels);
  for (uint32_t i = 0; i < d->len; i++)
    labels[i] = intern_string(vm->interner, d->names[i]);
  Value v = vm_new_record(vm, record_layout_intern(vm, labels, d->len));
  for (uint32_t i = 0; i < d->len; i++)
    AS_RECORD(v)->at[i] = value_retain(value_from_host(call, d->items[i]));
  return v;
}

static Value push_temp(Eval *vm, Value v) {
  vm_push_temp(vm, v);
  return v;
}

static Value value_from_host(HostCall *call, const HostValue *d) {
  Eval *vm = call->vm;
  switch (d->kind) {
  case HOST_VALUE_NUMBER:
    return value_scalar(d->is_weakly_typed
                            ? host_value_promote(d, call->weak_dtype)
                            : d->number);
  case HOST_VALUE_TENSOR:
    if (!d->tensor->rank)
      return value_scalar(scalar_load(d->tensor->dtype, d->tensor->data));
    return borrow_tensor(call, d->tensor);
  case HOST_VALUE_STRING:
    return push_temp(vm, value_string(&vm->heap, d->text, d->text_len));
  case HOST_VALUE_TUPLE: {
    Value v = vm_new_tuple(vm, d->len);
    for (uint32_t i = 0; i < d->len; i++)
      AS_ARRAY(v)->at[i] = value_retain(value_from_host(call, d->items[i]));
    return v;
  }
  case HOST_VALUE_RECORD:
    return record_from_host(call, d);
  case HOST_VALUE_LIST:
    return list_from_host(call, d);
  case HOST_VALUE_KEY:
    return push_temp(vm, value_key(&vm->heap, d->key));
  case HOST_VALUE_NONE:
  case HOST_VALUE_UNIT:
  case HOST_VALUE_CONSTRUCTOR: /* no argument has such a part
                                  (session/host_function.c) */
  case HOST_VALUE_OTHER:
  case HOST_VALUE_COUNT:
    break;
  }
  return value_unit();
}

/* ---- values to host values ---- */

static HostValue *make_host_value(HostValue **at, HostValueKind kind,
                                  uint32_t len, const char *text,
                                  size_t text_len, const char *const *names) {
  *at = host_value_new(kind, len, text, text_len, names);
  if (!*at)
    trap_raise(FAIL_MEMORY);
  return *at;
}

static void make_host_number(HostValue **at, Scalar x) {
  *at = host_value_number(x, false);
  if (!*at)
    trap_raise(FAIL_MEMORY);
}

/* Stores each part in *at before it converts the next, so that an unwind
 * releases it. */
static void to_host(HostCall *call, HostValue **at, Value v, uint32_t depth);

static void items_to_host(HostCall *call, HostValue *d, const Value *at,
                          uint32_t depth) {
  for (uint32_t i = 0; i < d->len; i++) {
    to_host(call, &d->items[i], at[i], depth + 1);
    if (d->items[i]->depth >= d->depth)
      d->depth = d->items[i]->depth + 1;
  }
}

static void tensor_to_host(HostCall *call, HostValue **at, Node *node) {
  Tensor *t = node->data;
  Fault fault;
  if (!t->rank) {
    make_host_number(at, scalar_load(t->dtype, t->data));
    return;
  }
  if (!tensor_unborrow(t, &fault))
    vm_fault_at(call->vm, (Span){0}, &fault);
  HostValue *d = make_host_value(at, HOST_VALUE_TENSOR, 0, NULL, 0, NULL);
  /* Not earlier: the allocation may unwind. */
  d->tensor = tensor_in_memory(t, &fault);
  if (!d->tensor)
    vm_fault_at(call->vm, (Span){0}, &fault);
}

static void list_to_host(HostCall *call, HostValue **at, Value v,
                         uint32_t depth) {
  uint32_t len = 0;
  for (Value rest = v; rest.tag == V_CONS; rest = AS_CONS(rest)->tail)
    len++;
  HostValue *d = make_host_value(at, HOST_VALUE_LIST, len, NULL, 0, NULL);
  for (uint32_t i = 0; i < len; i++, v = AS_CONS(v)->tail) {
    to_host(call, &d->items[i], AS_CONS(v)->head, depth + 1);
    if (d->items[i]->depth >= d->depth)
      d->depth = d->items[i]->depth + 1;
  }
}

static void record_to_host(HostCall *call, HostValue **at, Value v,
                           uint32_t depth) {
  const RecordLayout *layout = AS_RECORD(v)->layout;
  const char **names = vm_scratch(call->vm, layout->len * sizeof *names);
  for (uint32_t i = 0; i < layout->len; i++)
    names[i] = layout->labels[i]->text;
  HostValue *d =
      make_host_value(at, HOST_VALUE_RECORD, layout->len, NULL, 0, names);
  items_to_host(call, d, AS_RECORD(v)->at, depth);
}

static void shape_to_host(HostValue **at, Value v) {
  const ShapeObj *s = AS_SHAPE(v);
  HostValue *d =
      make_host_value(at, HOST_VALUE_TUPLE, s->obj.len, NULL, 0, NULL);
  for (uint32_t i = 0; i < d->len; i++)
    make_host_number(&d->items[i], (Scalar){DT_I64, {.i = s->extents[i]}});
}

static void printed_to_host(HostCall *call, HostValue **at, Value v) {
  Buffer text = {.arena = call->vm->diags->arena};
  vm_print(call->vm, &text, v, true);
  make_host_value(at, HOST_VALUE_OTHER, 0, text.text, text.len, NULL);
}

static void constructor_to_host(HostCall *call, HostValue **at, Value v,
                                uint32_t depth) {
  const Con *con = v.tag == V_NULLARY_CON ? v.con : AS_CON(v)->con;
  HostValue *d = make_host_value(at, HOST_VALUE_CONSTRUCTOR, v.tag == V_CON,
                                 con->name->text, con->name->len, NULL);
  if (d->len)
    items_to_host(call, d, &AS_CON(v)->arg, depth);
}

static void to_host(HostCall *call, HostValue **at, Value v, uint32_t depth) {
  Eval *vm = call->vm;
  if (depth > MAX_HOST_VALUE_DEPTH)
    vm_fail_at(vm, (Span){0}, 520, "return it in parts, or as a list",
               "cannot return a value with more than %d levels of nesting",
               MAX_HOST_VALUE_DEPTH);
  if (value_is_num(v)) {
    make_host_number(at, value_to_scalar(v));
    return;
  }
  switch ((ValueTag)v.tag) {
  case V_UNIT:
    make_host_value(at, HOST_VALUE_UNIT, 0, NULL, 0, NULL);
    return;
  case V_NODE:
    tensor_to_host(call, at, v.node);
    return;
  case V_STRING:
    make_host_value(at, HOST_VALUE_STRING, 0, AS_STRING(v)->text, v.obj->len,
                    NULL);
    return;
  case V_TUPLE:
  case V_KEYS:
    items_to_host(
        call, make_host_value(at, HOST_VALUE_TUPLE, v.obj->len, NULL, 0, NULL),
        AS_ARRAY(v)->at, depth);
    return;
  case V_RECORD:
    record_to_host(call, at, v, depth);
    return;
  case V_NIL:
  case V_CONS:
    list_to_host(call, at, v, depth);
    return;
  case V_NULLARY_CON:
  case V_CON:
    constructor_to_host(call, at, v, depth);
    return;
  case V_KEY:
    make_host_value(at, HOST_VALUE_KEY, 0, NULL, 0, NULL)->key = AS_KEY(v)->key;
    return;
  case V_SHAPE:
    shape_to_host(at, v);
    return;
  default:
    printed_to_host(call, at, v);
    return;
  }
}

/* Marks tensors that others hold as well, and may read or write. */
static void mark_shared(HostValue *d) {
  if (d->tensor)
    d->is_shared = __atomic_load_n(&d->tensor->refs, __ATOMIC_ACQUIRE) > 1;
  for (uint32_t i = 0; i < d->len; i++)
    mark_shared(d->items[i]);
}

/* ---- the call ---- */

static void force_to_host(HostCall *call, Value v) {
  Eval *vm = call->vm;
  vm_force_value(vm, v);
  to_host(call, &call->result, v, 0);
}

static void run_entry(HostCall *call, const HostEntry *entry,
                      const HostValue *const *args, const Dtype *weak_dtypes) {
  Eval *vm = call->vm;
  for (uint32_t i = 0; i < entry->count; i++) {
    call->weak_dtype = weak_dtypes[i];
    entry->arg_globals[i].value = value_retain(value_from_host(call, args[i]));
    vm_drop_temps(vm, 0);
  }
  Value v = vm_run(vm, entry->code, 0, NULL);
  vm_push_temp(vm, v);
  force_to_host(call, v);
  vm_drop_temps(vm, 0);
}

/* Copies borrowed data to which a value still refers.  Returns false if there
 * is no memory. */
static bool release_borrowed(HostCall *call, Fault *fault) {
  bool ok = true;
  for (size_t i = 0; i < call->borrowed_count; i++) {
    Tensor *t = call->borrowed[i];
    if (__atomic_load_n(&t->refs, __ATOMIC_ACQUIRE) > 1)
      ok = tensor_unborrow(t, fault) && ok;
    tensor_release(t);
  }
  mem_free(call->borrowed);
  call->borrowed = NULL;
  call->borrowed_count = call->borrowed_cap = 0;
  return ok;
}

static bool finish_host_call(HostCall *call, bool ok, Diags *diags,
                             HostValue **result) {
  Fault fault = {0};
  if (!release_borrowed(call, &fault) && ok) {
    diag_error(diags, 505, (Span){0}, "%s", fault.message);
    ok = false;
  }
  if (!ok) {
    host_value_release(call->result);
    return false;
  }
  mark_shared(call->result);
  *result = call->result;
  return true;
}

static void clear_args(Eval *vm, const HostEntry *entry) {
  for (uint32_t i = 0; entry && i < entry->count; i++) {
    value_release(&vm->heap, entry->arg_globals[i].value);
    entry->arg_globals[i].value = value_unit();
  }
}

/* Either `entry` or a value is given: a function to call, or a value to
 * convert. */
static bool run_host_call(Eval *vm, const HostEntry *entry,
                          const HostValue *const *args,
                          const Dtype *weak_dtypes, ValueHandle *handle,
                          Diags *diags, HostValue **result) {
  HostCall call = {.vm = vm};
  Trap trap;
  eval_enter(vm, diags);
  /* The host may make further calls after a call that exits. */
  vm->exited = false;
  if (TRAP_SET(trap) == FAIL_NONE) {
    if (entry)
      run_entry(&call, entry, args, weak_dtypes);
    else
      force_to_host(&call, handle->value);
    trap_end(&trap);
    vm_drop_temps(vm, 0);
    vm->diags = NULL;
    clear_args(vm, entry);
    return finish_host_call(&call, true, diags, result);
  }
  FailKind kind = trap.kind;
  clear_args(vm, entry);
  if (TRAP_SET(trap) == FAIL_NONE) {
    eval_recover(vm, kind);
    trap_end(&trap);
    return finish_host_call(&call, false, diags, result);
  }
  finish_host_call(&call, false, diags, result);
  trap_raise(trap.kind);
}

bool eval_call_host_entry(Eval *vm, const HostEntry *entry,
                          const HostValue *const *args,
                          const Dtype *weak_dtypes, Diags *diags,
                          HostValue **result) {
  return run_host_call(vm, entry, args, weak_dtypes, NULL, diags, result);
}

bool eval_to_host_value(Eval *vm, ValueHandle *handle, Diags *diags,
                        HostValue **result) {
  return run_host_call(vm, NULL, NULL, NULL, handle, diags, result);
}
