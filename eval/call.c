/* Calls from outside: data become values, a function runs, and what it comes
 * to becomes data. */
#include "eval/internal.h"

#include <string.h>

struct Entry {
  const Code *code;
  Global *args; /* of which the code reads them */
  uint32_t count;
};

/* ---- what is called ---- */

static Value hidden_value(const Hidden *h) {
  if (h->kind == HID_ELEM)
    return (Value){.tag = V_DTYPE, .i = elem_choice(h->elem.var)};
  return value_unit(); /* read off the arguments, or an error if needed */
}

Entry *eval_entry(Eval *vm, const CoreDec *dec, uint32_t count) {
  define_funs(vm, dec);
  Entry *entry = NEW(vm->arena, Entry);
  entry->args = NEW_ARRAY(vm->arena, Global, count);
  entry->count = count;
  const Core *f = dec->items[0];
  uint32_t hidden = f->kind == CORE_TLAM ? f->hidden_count : 0;
  Emit e = {.vm = vm};
  for (uint32_t i = 0; i < hidden; i++)
    emit_const(&e, hidden_value(&f->hidden[i]));
  for (uint32_t i = 0; i < count; i++)
    emit_ptr(&e, OP_GLOBAL, 0, 0, 0, 1, &entry->args[i]);
  uint32_t all = hidden + count;
  emit_ptr(&e, OP_CALLC, all, 0, 0, 1 - (int)all, global_of(vm, dec->vars[0])
                                                      ->code);
  emit(&e, OP_RET, 0, 0, 0, 0);
  Code *code = code_new(vm, 0, NULL);
  emit_end(&e, code);
  entry->code = code;
  return entry;
}

/* ---- in ---- */

typedef struct Visit {
  Eval *vm;
  Tensor **lent; /* over the data of arguments, until the end of the call */
  size_t lent_count, lent_cap;
  Dtype weak; /* of numbers that have no type; or DT_NONE: their own */
  Datum *result;
} Visit;

static Value lend(Visit *visit, const Tensor *t) {
  if (visit->lent_count == visit->lent_cap) {
    size_t cap = visit->lent_cap ? visit->lent_cap * 2 : 8;
    visit->lent = mem_realloc(visit->lent,
                              visit->lent_cap * sizeof *visit->lent,
                              cap * sizeof *visit->lent);
    visit->lent_cap = cap;
  }
  Tensor *lent = tensor_borrow(t->dtype, t->rank, t->shape, t->data);
  if (!lent)
    trap_raise(FAIL_MEMORY);
  visit->lent[visit->lent_count++] = lent;
  return value_node(vm_temp(visit->vm, node_data(&visit->vm->graph, lent)));
}

/* What it gives is a temporary, or needs no reference. */
static Value value_in(Visit *visit, const Datum *d);

static Value list_in(Visit *visit, const Datum *d) {
  Eval *vm = visit->vm;
  size_t list = vm->temp_count;
  vm_own(vm, (Value){.tag = V_NIL});
  for (uint32_t i = d->len; i--;) {
    Value head = value_in(visit, d->items[i]);
    Cons *cons = obj_new(&vm->heap, V_CONS, sizeof *cons, 0);
    cons->head = value_retain(head);
    cons->tail = vm->temps[list];
    vm->temps[list] = value_obj(V_CONS, cons);
    vm_drop_temps(vm, list + 1);
  }
  return vm->temps[list];
}

static Value record_in(Visit *visit, const Datum *d) {
  Eval *vm = visit->vm;
  Sym **labels = vm_scratch(vm, d->len * sizeof *labels);
  for (uint32_t i = 0; i < d->len; i++)
    labels[i] = intern_text(vm->interner, d->names[i]);
  Value v = vm_new_record(vm, layout_of(vm, labels, d->len));
  for (uint32_t i = 0; i < d->len; i++)
    AS_RECORD(v)->at[i] = value_retain(value_in(visit, d->items[i]));
  return v;
}

static Value temporary(Eval *vm, Value v) {
  vm_own(vm, v);
  return v;
}

static Value value_in(Visit *visit, const Datum *d) {
  Eval *vm = visit->vm;
  switch (d->kind) {
  case DATUM_NUMBER:
    return value_scalar(d->weak ? datum_weak(d, visit->weak) : d->number);
  case DATUM_TENSOR:
    if (!d->tensor->rank)
      return value_scalar(scalar_load(d->tensor->dtype, d->tensor->data));
    return lend(visit, d->tensor);
  case DATUM_STRING:
    return temporary(vm, value_string(&vm->heap, d->text, d->text_len));
  case DATUM_TUPLE: {
    Value v = vm_new_tuple(vm, d->len);
    for (uint32_t i = 0; i < d->len; i++)
      AS_FIELDS(v)->at[i] = value_retain(value_in(visit, d->items[i]));
    return v;
  }
  case DATUM_RECORD:
    return record_in(visit, d);
  case DATUM_LIST:
    return list_in(visit, d);
  case DATUM_KEY:
    return temporary(vm, value_key(&vm->heap, d->key));
  case DATUM_NONE:
  case DATUM_UNIT:
  case DATUM_CON:   /* no argument has such a part: session/function.c */
  case DATUM_OTHER:
  case DATUM_COUNT:
    break;
  }
  return value_unit();
}

/* ---- out ---- */

static Datum *make(Datum **at, DatumKind kind, uint32_t len, const char *text,
                   size_t text_len, const char *const *names) {
  *at = datum_new(kind, len, text, text_len, names);
  if (!*at)
    trap_raise(FAIL_MEMORY);
  return *at;
}

static void make_number(Datum **at, Scalar x) {
  *at = datum_number(x, false);
  if (!*at)
    trap_raise(FAIL_MEMORY);
}

/* Puts it at once where it is released if this unwinds. */
static void put(Visit *visit, Datum **at, Value v, uint32_t depth);

static void put_items(Visit *visit, Datum *d, const Value *at,
                      uint32_t depth) {
  for (uint32_t i = 0; i < d->len; i++) {
    put(visit, &d->items[i], at[i], depth + 1);
    if (d->items[i]->deep >= d->deep)
      d->deep = d->items[i]->deep + 1;
  }
}

static void put_tensor(Visit *visit, Datum **at, Node *node) {
  Tensor *t = node->data;
  Fault fault;
  if (!t->rank) {
    make_number(at, scalar_load(t->dtype, t->data));
    return;
  }
  if (!tensor_unborrow(t, &fault))
    vm_fault_at(visit->vm, (Span){0}, &fault);
  Datum *d = make(at, DATUM_TENSOR, 0, NULL, 0, NULL);
  d->tensor = tensor_in_memory(t, &fault); /* not before: making may unwind */
  if (!d->tensor)
    vm_fault_at(visit->vm, (Span){0}, &fault);
}

static void put_list(Visit *visit, Datum **at, Value v, uint32_t depth) {
  uint32_t len = 0;
  for (Value rest = v; rest.tag == V_CONS; rest = AS_CONS(rest)->tail)
    len++;
  Datum *d = make(at, DATUM_LIST, len, NULL, 0, NULL);
  for (uint32_t i = 0; i < len; i++, v = AS_CONS(v)->tail) {
    put(visit, &d->items[i], AS_CONS(v)->head, depth + 1);
    if (d->items[i]->deep >= d->deep)
      d->deep = d->items[i]->deep + 1;
  }
}

static void put_record(Visit *visit, Datum **at, Value v, uint32_t depth) {
  const Layout *layout = AS_RECORD(v)->layout;
  const char **names =
      vm_scratch(visit->vm, layout->len * sizeof *names);
  for (uint32_t i = 0; i < layout->len; i++)
    names[i] = layout->labels[i]->text;
  Datum *d = make(at, DATUM_RECORD, layout->len, NULL, 0, names);
  put_items(visit, d, AS_RECORD(v)->at, depth);
}

static void put_shape(Datum **at, Value v) {
  const Shape *s = AS_SHAPE(v);
  Datum *d = make(at, DATUM_TUPLE, s->obj.len, NULL, 0, NULL);
  for (uint32_t i = 0; i < d->len; i++)
    make_number(&d->items[i], (Scalar){DT_I64, {.i = s->at[i]}});
}

static void put_other(Visit *visit, Datum **at, Value v) {
  Buffer text = {.arena = visit->vm->diags->arena};
  vm_print(visit->vm, &text, v, true);
  make(at, DATUM_OTHER, 0, text.text, text.len, NULL);
}

static void put_con(Visit *visit, Datum **at, Value v, uint32_t depth) {
  const Con *con = v.tag == V_CON0 ? v.con : AS_CON(v)->con;
  Datum *d = make(at, DATUM_CON, v.tag == V_CON, con->name->text,
                  con->name->len, NULL);
  if (d->len)
    put_items(visit, d, &AS_CON(v)->arg, depth);
}

static void put(Visit *visit, Datum **at, Value v, uint32_t depth) {
  Eval *vm = visit->vm;
  if (depth > DATUM_DEEP)
    vm_fail_at(vm, (Span){0}, 520, "hand it out in parts, or as a list",
               "a value nested more than %d levels deep cannot be handed out",
               DATUM_DEEP);
  if (value_is_num(v)) {
    make_number(at, value_to_scalar(v));
    return;
  }
  switch ((Tag)v.tag) {
  case V_UNIT:
    make(at, DATUM_UNIT, 0, NULL, 0, NULL);
    return;
  case V_NODE:
    put_tensor(visit, at, v.node);
    return;
  case V_STRING:
    make(at, DATUM_STRING, 0, AS_STRING(v)->text, v.obj->len, NULL);
    return;
  case V_TUPLE:
    put_items(visit, make(at, DATUM_TUPLE, v.obj->len, NULL, 0, NULL),
              AS_FIELDS(v)->at, depth);
    return;
  case V_RECORD:
    put_record(visit, at, v, depth);
    return;
  case V_NIL:
  case V_CONS:
    put_list(visit, at, v, depth);
    return;
  case V_CON0:
  case V_CON:
    put_con(visit, at, v, depth);
    return;
  case V_KEY:
    make(at, DATUM_KEY, 0, NULL, 0, NULL)->key = AS_KEY(v)->key;
    return;
  case V_SHAPE:
    put_shape(at, v);
    return;
  default:
    put_other(visit, at, v);
    return;
  }
}

/* Who else has a tensor can write to it, or read it. */
static void note_shared(Datum *d) {
  if (d->tensor)
    d->shared = __atomic_load_n(&d->tensor->refs, __ATOMIC_ACQUIRE) > 1;
  for (uint32_t i = 0; i < d->len; i++)
    note_shared(d->items[i]);
}

/* ---- the call ---- */

static void put_all(Visit *visit, Value v) {
  Eval *vm = visit->vm;
  vm_force_value(vm, v);
  put(visit, &visit->result, v, 0);
}

static void run_entry(Visit *visit, const Entry *entry,
                      const Datum *const *args, const Dtype *weak) {
  Eval *vm = visit->vm;
  for (uint32_t i = 0; i < entry->count; i++) {
    visit->weak = weak[i];
    entry->args[i].value = value_retain(value_in(visit, args[i]));
    vm_drop_temps(vm, 0);
  }
  Value v = vm_run(vm, entry->code, 0, NULL);
  vm_own(vm, v);
  put_all(visit, v);
  vm_drop_temps(vm, 0);
}

/* Whoever keeps lent data has a copy from here on.  False: no memory. */
static bool give_back(Visit *visit, Fault *fault) {
  bool ok = true;
  for (size_t i = 0; i < visit->lent_count; i++) {
    Tensor *t = visit->lent[i];
    if (__atomic_load_n(&t->refs, __ATOMIC_ACQUIRE) > 1)
      ok = tensor_unborrow(t, fault) && ok;
    tensor_release(t);
  }
  mem_free(visit->lent);
  visit->lent = NULL;
  visit->lent_count = visit->lent_cap = 0;
  return ok;
}

static bool end_visit(Visit *visit, bool ok, Diags *diags, Datum **result) {
  Fault fault = {0};
  if (!give_back(visit, &fault) && ok) {
    diag_error(diags, 505, (Span){0}, "%s", fault.message);
    ok = false;
  }
  if (!ok) {
    datum_release(visit->result);
    return false;
  }
  note_shared(visit->result);
  *result = visit->result;
  return true;
}

static void clear_args(Eval *vm, const Entry *entry) {
  for (uint32_t i = 0; entry && i < entry->count; i++) {
    value_release(&vm->heap, entry->args[i].value);
    entry->args[i].value = value_unit();
  }
}

/* Of the two, one is given: what is to be called, or a value. */
static bool visit(Eval *vm, const Entry *entry, const Datum *const *args,
                  const Dtype *weak, ValueHandle *held, Diags *diags,
                  Datum **result) {
  Visit visit = {.vm = vm};
  Trap trap;
  eval_enter(vm, diags);
  vm->exited = false; /* for a host, a call that exits is not the last */
  if (TRAP_SET(trap) == FAIL_NONE) {
    if (entry)
      run_entry(&visit, entry, args, weak);
    else
      put_all(&visit, held->value);
    trap_end(&trap);
    vm_drop_temps(vm, 0);
    vm->diags = NULL;
    clear_args(vm, entry);
    return end_visit(&visit, true, diags, result);
  }
  FailKind kind = trap.kind;
  clear_args(vm, entry);
  if (TRAP_SET(trap) == FAIL_NONE) {
    eval_failed(vm, kind);
    trap_end(&trap);
    return end_visit(&visit, false, diags, result);
  }
  end_visit(&visit, false, diags, result);
  trap_raise(trap.kind);
}

bool eval_call(Eval *vm, const Entry *entry, const Datum *const *args,
               const Dtype *weak, Diags *diags, Datum **result) {
  return visit(vm, entry, args, weak, NULL, diags, result);
}

bool eval_datum(Eval *vm, ValueHandle *held, Diags *diags, Datum **result) {
  return visit(vm, NULL, NULL, NULL, held, diags, result);
}
